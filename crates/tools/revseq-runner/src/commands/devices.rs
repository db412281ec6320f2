//! `revseq devices`.

use std::io::Write;

use anyhow::Result;
use revseq_kernels::cpu::SimdLevel;
use serde_json::{Value as Json, json};

use super::Outcome;
use super::destination::Destination;
use crate::backend::gpu::{self, Adapter};
use crate::backend::ort::{self, Device, Runtime, library};
use crate::chain;
use crate::cli::{DevicesArguments, Format};

/// The ONNX Runtime that was found.
struct Onnxruntime {
    /// The loaded library, or the reason why there is none.
    runtime: Result<Runtime, String>,
    /// The provider's devices, or why there are none.
    devices: Result<Vec<Device>, String>,
}

fn onnxruntime(arguments: &DevicesArguments) -> Onnxruntime {
    let message = |error: anyhow::Error| chain(&error);
    let libraries = &arguments.libraries;
    let runtime = Runtime::load(libraries.ort_lib.as_deref()).map_err(message);
    let devices = match &runtime {
        Ok(runtime) => library::ep(libraries.ep_lib.as_deref())
            .and_then(|found| runtime.register(found))
            .and_then(|()| runtime.devices())
            .map(|devices| {
                let devices = devices.into_iter();
                devices.filter(|device| device.ep == ort::EP).collect()
            })
            .map_err(message),
        Err(_) => Err("no ONNX Runtime was found".to_owned()),
    };
    Onnxruntime { runtime, devices }
}

/// Prints the devices of the kernels, and the ONNX Runtime that is found.
pub(crate) fn devices(arguments: &DevicesArguments) -> Result<Outcome> {
    let mut destination = Destination::open(&arguments.report)?;
    let features = cpu_features();
    let threads = rayon::current_num_threads();
    let adapters = gpu::adapters().map_err(|error| chain(&error));
    let onnxruntime = onnxruntime(arguments);
    match arguments.format {
        Format::Json => destination.json(
            "devices",
            json!({
                "cpu": {
                    "architecture": std::env::consts::ARCH,
                    "features": features,
                    "kernels": SimdLevel::current().name(),
                    "threads": threads,
                },
                "gpu": gpu_json(&adapters),
                "onnxruntime": json_of(&onnxruntime),
            }),
        )?,
        Format::Text => destination.text(|out| {
            print_cpu(out, &features, threads)?;
            print_adapters(out, &adapters)?;
            print_text(out, &onnxruntime)
        })?,
    }
    destination.complete()?;
    Ok(Outcome::Done)
}

fn print_cpu(out: &mut dyn Write, features: &[&str], threads: usize) -> Result<()> {
    let features = match features {
        [] => "none known".to_owned(),
        features => features.join(", "),
    };
    let level = SimdLevel::current();
    let lower: Vec<&str> = level.lower().map(SimdLevel::name).collect();
    writeln!(out, "CPU")?;
    writeln!(out, "  architecture  {}", std::env::consts::ARCH)?;
    writeln!(out, "  features      {features}")?;
    write!(out, "  kernels       {level}")?;
    if !lower.is_empty() {
        write!(out, " (REVSEQ_SIMD lowers it: {})", lower.join(", "))?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "  threads       {threads} (rayon; RAYON_NUM_THREADS sets how many)"
    )?;
    Ok(())
}

fn print_adapters(out: &mut dyn Write, adapters: &Result<Vec<Adapter>, String>) -> Result<()> {
    writeln!(out, "GPU")?;
    let adapters = match adapters {
        Ok(adapters) => adapters,
        Err(why) => return Ok(writeln!(out, "  none: {why}")?),
    };
    if adapters.is_empty() {
        writeln!(out, "  none found")?;
    }
    for adapter in adapters {
        let Adapter { index, name, .. } = adapter;
        writeln!(out, "  gpu:{index:<9} {name}")?;
        writeln!(out, "    kind        {}, {}", adapter.kind, adapter.backend)?;
        writeln!(out, "    driver      {}", adapter.driver)?;
        writeln!(
            out,
            "    buffer      at most {} bytes, {} of them bound at once",
            adapter.max_buffer_bytes, adapter.max_binding_bytes
        )?;
    }
    Ok(())
}

fn gpu_json(adapters: &Result<Vec<Adapter>, String>) -> Json {
    match adapters {
        Ok(adapters) => json!({ "built": true, "adapters": adapters }),
        Err(why) => json!({ "built": false, "reason": why, "adapters": [] }),
    }
}

fn print_text(out: &mut dyn Write, onnxruntime: &Onnxruntime) -> Result<()> {
    writeln!(out, "ONNX Runtime")?;
    match &onnxruntime.runtime {
        Ok(runtime) => {
            let library = &runtime.library;
            writeln!(out, "  version       {}", runtime.version())?;
            writeln!(
                out,
                "  library       {} (from {})",
                library.path.display(),
                library.how
            )?;
            if let Some(ep) = runtime.ep.get() {
                writeln!(
                    out,
                    "  provider      {} (from {})",
                    ep.path.display(),
                    ep.how
                )?;
            }
        }
        Err(why) => return Ok(writeln!(out, "  not found: {why}")?),
    }
    writeln!(out, "{}", ort::EP)?;
    match &onnxruntime.devices {
        Ok(devices) => {
            for device in devices {
                writeln!(out, "  device        {}, {}", device.kind, device.vendor)?;
            }
        }
        Err(why) => writeln!(out, "  not found: {why}")?,
    }
    Ok(())
}

fn json_of(onnxruntime: &Onnxruntime) -> Json {
    let runtime = match &onnxruntime.runtime {
        Ok(runtime) => runtime,
        Err(why) => return json!({ "found": false, "reason": why }),
    };
    let provider = match &onnxruntime.devices {
        Ok(devices) => json!({
            "name": ort::EP,
            "found": true,
            "library": runtime.ep.get().map(|found| found.path.display().to_string()),
            "devices": devices,
        }),
        Err(why) => json!({ "name": ort::EP, "found": false, "reason": why }),
    };
    json!({
        "found": true,
        "version": runtime.version(),
        "library": runtime.library.path.display().to_string(),
        "found_by": runtime.library.how,
        "provider": provider,
    })
}

/// The vector instructions that the processor has, found when running.
fn cpu_features() -> Vec<&'static str> {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    let found = [
        ("sse2", is_x86_feature_detected!("sse2")),
        ("ssse3", is_x86_feature_detected!("ssse3")),
        ("sse4.1", is_x86_feature_detected!("sse4.1")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vbmi", is_x86_feature_detected!("avx512vbmi")),
    ];
    #[cfg(target_arch = "aarch64")]
    let found = [
        ("neon", std::arch::is_aarch64_feature_detected!("neon")),
        ("sve", std::arch::is_aarch64_feature_detected!("sve")),
    ];
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    let found: [(&str, bool); 0] = [];
    found
        .into_iter()
        .filter(|(_, found)| *found)
        .map(|(name, _)| name)
        .collect()
}
