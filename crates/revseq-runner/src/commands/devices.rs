//! `revseq devices`.

use std::io::Write;

use anyhow::Result;
use serde_json::json;

use super::{Outcome, print_json};
use crate::cli::{DevicesArguments, Format};

/// Prints what the kernels run on.
pub(crate) fn devices(arguments: &DevicesArguments) -> Result<Outcome> {
    let features = cpu_features();
    let threads = rayon::current_num_threads();
    match arguments.format {
        Format::Json => print_json(&json!({
            "cpu": {
                "architecture": std::env::consts::ARCH,
                "features": features,
                "threads": threads,
            },
        }))?,
        Format::Text => {
            let mut out = anstream::stdout().lock();
            let features = if features.is_empty() {
                "none known".to_owned()
            } else {
                features.join(", ")
            };
            writeln!(out, "CPU")?;
            writeln!(out, "  architecture  {}", std::env::consts::ARCH)?;
            writeln!(out, "  features      {features}")?;
            writeln!(
                out,
                "  threads       {threads} (rayon; RAYON_NUM_THREADS sets how many)"
            )?;
        }
    }
    Ok(Outcome::Done)
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
