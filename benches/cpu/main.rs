//! The kernels on the CPU: a group for each regime, in it the copies that are
//! the floor and everyone who does the work.
//!
//! `cargo bench -p revseq-benches -- time-major` runs those whose names have
//! that in them. `ORT_DYLIB_PATH` names an ONNX Runtime to compare with.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use revseq_benches::peers::Peers;
use revseq_benches::{Arena, Case, Error, Regime, regimes};

/// Number of bytes above which a regime takes too long for a test.
const SMALL: usize = 256 << 10;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    if let Err(error) = bench(&mut criterion) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    criterion.final_summary();
}

fn bench(criterion: &mut Criterion) -> Result<(), Box<dyn std::error::Error>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let arena = Arena::new(threads, Peers::new()?)?;
    for regime in regimes() {
        if is_test() && regime.bytes() > SMALL {
            continue;
        }
        match arena.lacking_memory(&regime) {
            Some(reason) => eprintln!("{regime}: skipped: {reason}"),
            None => bench_regime(criterion, &arena, regime)?,
        }
    }
    Ok(())
}

/// Whether everything is to run once and nothing to be timed: Criterion's own rule.
fn is_test() -> bool {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    has("--test") || !has("--bench")
}

fn bench_regime(criterion: &mut Criterion, arena: &Arena, regime: Regime) -> Result<(), Error> {
    let mut group = criterion.benchmark_group(regime.to_string());
    group.throughput(Throughput::Bytes(regime.bytes() as u64));
    // Made only if the command line selects something of this regime.
    let mut case = None;
    let mut checked = HashSet::new();
    let mut result = Ok(());
    for contestant in arena.contestants(&regime) {
        group.bench_function(contestant.name(), |bencher| {
            bencher.iter_custom(|repeats| {
                let mut timed = || -> Result<Duration, Error> {
                    let case = match &mut case {
                        Some(case) => case,
                        None => case.insert(Case::new(regime, arena)?),
                    };
                    if checked.insert(contestant) {
                        case.check(contestant)?;
                    }
                    let start = Instant::now();
                    case.run(contestant, repeats)?;
                    Ok(start.elapsed())
                };
                timed().unwrap_or_else(|error| {
                    result = Err(error);
                    // Criterion divides by it.
                    Duration::from_nanos(1)
                })
            });
        });
    }
    group.finish();
    result
}
