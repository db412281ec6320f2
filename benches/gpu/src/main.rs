//! Times of the GPU kernels, beside a copy of the same bytes.
//!
//! ```sh
//! cargo run --release -p revseq-gpu-bench
//! cargo run --release -p revseq-gpu-bench -- --adapter software --quick
//! ```
//!
//! Times are the device's own timestamps around one command at a time, with
//! all data on the device: uploading and reading back are not in them. Kernels
//! and copy take turns; each figure is the median of the rounds. Outputs
//! are checked before anything is timed.

#![forbid(unsafe_code)]

mod bench;
mod rows;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use revseq_kernels::gpu::{AdapterChoice, Context, ContextOptions, wgpu};

/// Measure the GPU kernels beside a copy of the same bytes
#[derive(Debug, Parser)]
struct Arguments {
    /// auto (hardware alone), software, an index or a part of a name
    #[arg(long, default_value = "auto")]
    adapter: AdapterChoice,
    /// Only the small shapes, and few rounds
    #[arg(long)]
    quick: bool,
}

/// The most bytes of a shape that is small.
const SMALL: u64 = 2 << 20;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut options = ContextOptions::default();
    options.adapter = arguments.adapter;
    options.timestamps = true;
    let context = Context::new(&options)
        .context("--adapter takes auto (hardware alone), software, an index or a name")?;
    let adapter = context.adapter();
    ensure!(
        context
            .device()
            .features()
            .contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
        "{adapter}: it has no timestamps in command encoders, and nothing else is measured here"
    );
    let is_software = adapter.device_type == wgpu::DeviceType::Cpu;
    println!("adapter  {adapter}");
    println!("driver   {}", adapter.driver);
    if is_software {
        println!(
            "SOFTWARE: this adapter is a program on the CPU; these times say nothing about any GPU"
        );
    }
    let rounds = if arguments.quick { 5..=5 } else { 5..=51 };
    println!(
        "medians of {} to {} rounds, times without upload and readback\n",
        rounds.start(),
        rounds.end()
    );
    println!(
        "{:<56} {:>9} {:>11} {:>11} {:>11} {:>7}",
        "shape, type, axes, lengths", "KiB", "copy us", "kernel us", "in place us", "ratio"
    );
    for row in rows::all() {
        if arguments.quick && row.bytes() > SMALL {
            continue;
        }
        let name = row.name();
        if row.bytes() > adapter.max_buffer_bytes {
            println!(
                "{name:<56} skipped: a buffer has at most {} bytes",
                adapter.max_buffer_bytes
            );
            continue;
        }
        let times = bench::measure(&context, &row, rounds.clone())?;
        println!(
            "{name:<56} {:>9} {:>11.1} {:>11.1} {:>11.1} {:>7.2}{}",
            row.bytes() >> 10,
            times.copy / 1e3,
            times.apart / 1e3,
            times.in_place / 1e3,
            times.apart / times.copy,
            if is_software { "  (software)" } else { "" }
        );
    }
    println!("\nratio: kernel over copy, both of the bytes once read and once written");
    Ok(())
}
