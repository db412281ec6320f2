//! The description of the machine in a report.

use std::fs;

use revseq_kernels::cpu::SimdLevel;
use serde::{Deserialize, Serialize};

/// The machine and software of the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, or its architecture if the system does not report one.
    pub processor: String,
    /// Number of threads that the process may run at a time.
    pub cores: usize,
    /// The operating system.
    pub system: String,
    /// The instructions that the kernels use.
    pub simd: String,
    /// Number of threads of [`Contestant::Threads`](crate::Contestant::Threads).
    pub threads: usize,
    /// The version of revseq.
    pub version: String,
    /// The version of ONNX Runtime, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onnxruntime: Option<String>,
    /// The version of rten, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rten: Option<String>,
}

impl Machine {
    /// Describes this machine, without the runtimes to compare with.
    #[must_use]
    pub fn this(threads: usize) -> Self {
        Self {
            processor: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: std::env::consts::OS.to_owned(),
            simd: SimdLevel::current().name().to_owned(),
            threads,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            onnxruntime: None,
            rten: None,
        }
    }
}

/// The processor's name as the system reports it.
fn processor() -> Option<String> {
    let name = if cfg!(windows) {
        std::env::var("PROCESSOR_IDENTIFIER").ok()
    } else if cfg!(target_os = "macos") {
        let output = std::process::Command::new("sysctl")
            .args(["-n", "machdep.cpu.brand_string"])
            .output()
            .ok()?;
        String::from_utf8(output.stdout).ok()
    } else {
        let text = fs::read_to_string("/proc/cpuinfo").ok()?;
        let value = |line: &str| {
            Some(
                line.strip_prefix("model name")?
                    .split_once(':')?
                    .1
                    .to_owned(),
            )
        };
        text.lines().find_map(value)
    };
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

/// The bytes that can be allocated without swapping, if the system reports them:
/// on Linux, the lesser of available memory and the control group's remainder.
pub(crate) fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let number = |file: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?;
        text.trim().parse().ok()
    };
    let left = number("memory.max")
        .zip(number("memory.current"))
        .map_or(u64::MAX, |(limit, used)| limit.saturating_sub(used));
    Some((kibibytes * 1024).min(left))
}
