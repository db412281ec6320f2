//! The table of docs/benchmarks.md: the contestants in turns, as multiples of a copy.
//!
//! `cargo run --release -p revseq-benches -- time-major` measures the regimes whose names have that in them;
//! `--quick` takes few samples, and leaves out regimes of over 512 MiB. `ORT_DYLIB_PATH` names an ONNX Runtime to
//! compare with.

use revseq_benches::peers::Peers;
use revseq_benches::timing::Effort;
use revseq_benches::{Arena, LARGE, regimes, table};

fn main() {
    if let Err(error) = print() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn print() -> Result<(), Box<dyn std::error::Error>> {
    let (flags, parts): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|it| it == "--quick");
    let is_quick = !flags.is_empty();
    let effort = if is_quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let arena = Arena::new(threads, Peers::new()?)?;
    let mut regimes = regimes();
    regimes.retain(|regime| !(is_quick && regime.bytes() > LARGE));
    regimes.retain(|regime| parts.iter().all(|part| regime.to_string().contains(part)));
    if regimes.is_empty() {
        return Err(format!("no regime's name contains {}", parts.join(" and ")).into());
    }
    println!("{}", table::head(&arena));
    for regime in regimes {
        println!("{}", table::row(&arena, regime, effort)?);
    }
    Ok(())
}
