//! The table that all forms show: a row for each regime, a column for each contestant, and our kernel.

use crate::{Contestant, Measurement, Report, Row};

/// The cell of a regime that a contestant does not support.
pub(super) const NOTHING: &str = "–";

/// A report as rows of cells.
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<TableRow>,
}

/// A regime's cells, or why it has none.
pub(super) struct TableRow {
    pub(super) name: String,
    pub(super) cells: Result<Vec<String>, String>,
}

impl Table {
    pub(super) fn new(report: &Report) -> Self {
        let workers: Vec<Contestant> = workers(report).collect();
        let mut head = vec!["regime".to_owned(), "floor".to_owned()];
        for &worker in &workers {
            head.push(worker.name().to_owned());
            if worker == Contestant::InPlace {
                head.push("÷ share".to_owned());
            }
        }
        head.push("kernel".to_owned());
        let rows = report.regimes.iter().map(|row| TableRow {
            name: row.name.clone(),
            cells: match &row.skipped {
                Some(reason) => Err(reason.clone()),
                None => Ok(cells(row, &workers)),
            },
        });
        Self {
            head,
            rows: rows.collect(),
        }
    }
}

/// The contestants in the report that do the work.
pub(super) fn workers(report: &Report) -> impl Iterator<Item = Contestant> {
    let is_worker = |contestant: &Contestant| !Contestant::COPIES.contains(contestant);
    report.contestants.iter().copied().filter(is_worker)
}

fn cells(row: &Row, workers: &[Contestant]) -> Vec<String> {
    let mut cells = vec![match (row.is_call, row.floor(), row.floor_gb_per_s()) {
        (true, Some(floor), _) => nanoseconds(floor.time.median_ns),
        (false, _, Some(speed)) => format!("{speed:.1} GB/s"),
        _ => NOTHING.to_owned(),
    }];
    for &worker in workers {
        let measurement = row.of(worker);
        cells.push(measurement.map_or(NOTHING.to_owned(), |measurement| figure(row, measurement)));
        if worker == Contestant::InPlace {
            let per_share = measurement
                .and_then(|measurement| measurement.ratio_per_share)
                .filter(|_| !row.is_call);
            cells.push(per_share.map_or(NOTHING.to_owned(), ratio));
        }
    }
    cells.push(match row.kernel.as_str() {
        "" => NOTHING.to_owned(),
        kernel => kernel.to_owned(),
    });
    cells
}

/// A contestant's figure: a multiple of the floor, or the time of a call.
pub(super) fn figure(row: &Row, measurement: &Measurement) -> String {
    if row.is_call {
        nanoseconds(measurement.time.median_ns)
    } else {
        ratio(measurement.ratio)
    }
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn nanoseconds(time: f64) -> String {
    if time < 10.0 {
        format!("{time:.1} ns")
    } else {
        format!("{time:.0} ns")
    }
}

/// The machine of the figures, and the date, on one line.
pub(super) fn machine(report: &Report) -> String {
    let Report { machine, taken, .. } = report;
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let mut line = format!(
        "{}, {}, {}; kernels on {}, a pool of {}; revseq {}",
        machine.processor,
        count(machine.cores, "logical core"),
        machine.system,
        machine.simd,
        count(machine.threads, "thread"),
        machine.version
    );
    if let Some(version) = &machine.onnxruntime {
        line += &format!(", ONNX Runtime {version}");
    }
    if let Some(version) = &machine.rten {
        line += &format!(", rten {version}");
    }
    if let Some(taken) = taken {
        line += &format!("; {}", taken.date);
        if let Some(load) = taken.load {
            line += &format!(", load {load:.2}");
        }
    }
    line
}

/// Sentences on how to read the figures.
pub(super) const LEGEND: &str = "\
Multiples of the floor, the faster of two copies of the same bytes: less is better. Medians of \
samples taken in turns. ÷ share: in place, divided by the share of the bytes that lie in reversed \
prefixes. Calls on 4x4 are times; \"–\": unsupported.";

/// Warnings about figures that are unreliable.
pub(super) fn cautions(report: &Report) -> Vec<String> {
    let quick = "Taken with --quick: few samples, so figures are noisy.";
    let unoptimised = "Taken with a build that is not optimised: figures are meaningless.";
    let interrupted = "Interrupted: not all regimes were measured.";
    let cautions = [
        (report.quick, quick),
        (!report.optimised, unoptimised),
        (report.interrupted, interrupted),
    ];
    let cores = report.machine.cores;
    let load = report.taken.as_ref().and_then(|taken| taken.load);
    let busy = load.filter(|&load| load > cores as f64 / 2.0).map(|load| {
        format!(
            "Other programs were running, a load of {load:.2} on {cores} cores: figures are noisy."
        )
    });
    cautions
        .into_iter()
        .filter_map(|(is_so, caution)| is_so.then_some(caution.to_owned()))
        .chain(busy)
        .collect()
}
