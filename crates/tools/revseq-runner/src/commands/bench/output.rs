//! The table of `revseq bench`.

use std::io::Write;

use anyhow::Result;

use super::ways::{Choice, On};
use super::{Measured, Ran, Row, Takes};
use crate::escape::printable;
use crate::style::{BOLD, FAILED, GREEN};
use crate::units::{bytes, count, first_of, time};

/// The number of loops and layers that stay which are told.
const TOLD: usize = 5;

/// The number of inputs whose sizes are told.
const INPUTS_TOLD: usize = 3;

const HEAD: [&str; 6] = ["way", "a run", "ratio", "load", "peak", "takes"];

/// The cells of a way that ran.
fn cells(Row { way, .. }: &Row, ran: &Ran) -> [String; 6] {
    [
        way.name.to_owned(),
        time(ran.median_seconds.0),
        ran.ratio.map_or_else(|| "-".to_owned(), ratio),
        time(ran.load_seconds.0),
        ran.peak_bytes.map_or_else(|| "-".to_owned(), bytes),
        takes(way.on, ran),
    ]
}

fn ratio(ratio: f64) -> String {
    match ratio {
        ..0.00995 => format!("{ratio:.4}"),
        ..0.0995 => format!("{ratio:.3}"),
        ..99.5 => format!("{ratio:.2}"),
        _ => format!("{ratio:.0}"),
    }
}

/// What a way takes, in words.
fn takes(on: On, ran: &Ran) -> String {
    let Takes {
        taken,
        of,
        layers,
        reversals,
    } = ran.takes;
    let mut words = vec![match on {
        _ if of == 0 => String::new(),
        On::Tract => format!("{taken} of {of} loops, layers"),
        _ if taken == of => count(of, "loop"),
        _ => format!("{taken} of {}", count(of, "loop")),
    }];
    for (number, what) in [(layers, "layer"), (reversals, "reversal")] {
        if number > 0 {
            words.push(count(number, what));
        }
    }
    words.retain(|it| !it.is_empty());
    words.join(", ")
}

/// The model, the inputs and the runtimes, in words.
fn head(measured: &Measured) -> String {
    let inputs = measured.inputs.iter();
    let inputs: Vec<String> = inputs.map(|(name, it)| format!("{name} {it}")).collect();
    let mut words = vec![first_of(&inputs, INPUTS_TOLD)];
    words.retain(|it| !it.is_empty());
    words.push(count(measured.threads, "thread"));
    words.extend(measured.onnxruntime.clone());
    format!("{}: {}", measured.model, words.join(", "))
}

pub(super) fn text(out: &mut dyn Write, measured: &Measured) -> Result<()> {
    let ran = measured.ways.iter();
    let ran = ran.filter_map(|row| Some(cells(row, row.ran.as_ref()?)));
    let ran: Vec<[String; 6]> = ran.collect();
    let width = |column: usize| {
        let cells = ran.iter().map(|cells| cells[column].chars().count());
        cells.max().unwrap_or(0).max(HEAD[column].len())
    };
    let names = measured.ways.iter().map(|row| row.way.name.len());
    let name = names.max().unwrap_or(0);
    let [run, ratio, load, peak] = [1, 2, 3, 4].map(width);
    let line = |[way, a, b, c, d, takes]: [&str; 6]| {
        let line = format!("{way:name$}  {a:>run$}  {b:>ratio$}  {c:>load$}  {d:>peak$}  {takes}");
        line.trim_end().to_owned()
    };
    writeln!(out, "{BOLD}{}{BOLD:#}", printable(&head(measured)))?;
    writeln!(out, "{}", line(HEAD))?;
    for row in &measured.ways {
        let Some(ran) = &row.ran else {
            let reason = row.reason.as_deref().unwrap_or_default();
            writeln!(out, "{:name$}  {}", row.way.name, printable(reason))?;
            continue;
        };
        let cells = cells(row, ran);
        writeln!(out, "{}", line(cells.each_ref().map(String::as_str)))?;
        for different in &ran.different {
            let different = printable(different);
            writeln!(out, "  {FAILED}DIFFERENT{FAILED:#} {different}")?;
        }
    }
    if let Some((way, left)) = left(measured) {
        writeln!(out, "left by {way}:")?;
        for line in left.iter().take(TOLD) {
            writeln!(out, "  {}", printable(line))?;
        }
        if let Some(more @ 1..) = left.len().checked_sub(TOLD) {
            writeln!(out, "  and {more} more: --format json has all")?;
        }
    }
    for (what, code) in fastest(measured) {
        writeln!(out, "{what}")?;
        for (language, code) in code {
            writeln!(out, "  {language}: {GREEN}{}{GREEN:#}", printable(code))?;
        }
    }
    Ok(())
}

pub(super) fn markdown(out: &mut dyn Write, measured: &Measured) -> Result<()> {
    writeln!(out, "{}\n", printable(&head(measured)))?;
    writeln!(
        out,
        "| {} |\n|---|---:|---:|---:|---:|---|",
        HEAD.join(" | ")
    )?;
    for row in &measured.ways {
        let cells = match &row.ran {
            Some(ran) => cells(row, ran),
            None => {
                let reason = row.reason.as_deref().unwrap_or_default();
                let reason = printable(reason).replace('|', "\\|");
                let mut cells = ["–"; 6].map(str::to_owned);
                cells[0] = row.way.name.to_owned();
                cells[5] = reason;
                cells
            }
        };
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)?;
    for (what, code) in fastest(measured) {
        let code: String = code.iter().map(|(_, it)| format!("\n\n    {it}")).collect();
        writeln!(out, "{what}{code}\n")?;
    }
    Ok(())
}

/// The loops and layers that stay, with the options of the provider that take most, or else on tract.
fn left(measured: &Measured) -> Option<(&'static str, &[String])> {
    let rows = measured.ways.iter().rev();
    let rows = rows.filter(|row| !row.way.is_rewritten);
    let provider = rows
        .clone()
        .find(|it| matches!(it.way.on, On::Provider(..)));
    let row = provider.or_else(|| rows.clone().find(|it| it.way.on == On::Tract))?;
    (!row.left.is_empty()).then_some((row.way.name, &*row.left))
}

/// The fastest way in a sentence, with its lines of code; that which Python has by itself, if it is another.
fn fastest(measured: &Measured) -> Vec<(String, Vec<(&str, &str)>)> {
    let Measured { rust, python, .. } = measured;
    let said = |what: &str, choice: &Choice| {
        let time = match (choice.ratio, &measured.onnxruntime) {
            (Some(part), _) => format!(", {} of the time of ONNX Runtime as it is", ratio(part)),
            (None, Some(_)) => ", as ONNX Runtime as it is does not run it".to_owned(),
            (None, None) => String::new(),
        };
        format!("{what}: {}{time}", choice.way)
    };
    let has_plain = measured
        .ways
        .iter()
        .any(|it| it.way.is_plain() && it.ran.is_some());
    match (rust, python) {
        (None, _) if !has_plain => Vec::new(),
        (None, _) => {
            let what = "nothing is faster than ONNX Runtime as it is".to_owned();
            vec![(what, Vec::new())]
        }
        (Some(rust), Some(python)) if rust.way == python.way => {
            let code = vec![("Python", &*python.code), ("Rust", &*rust.code)];
            vec![(said("fastest", rust), code)]
        }
        (Some(rust), python) => {
            let mut all = vec![(said("fastest", rust), vec![("Rust", &*rust.code)])];
            all.extend(python.as_ref().map(|python| {
                let code = vec![("Python", &*python.code)];
                (said("fastest in Python", python), code)
            }));
            all
        }
    }
}
