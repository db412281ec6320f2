//! The peak memory of each way: a process of its own loads the model and runs it, as one has no other
//! way's memory.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::ways::{WAYS, Way};
use super::{Ways, run_once};
use crate::cli::BenchArguments;
use crate::commands::Outcome;
use crate::interrupt::Watch;
use crate::model::read;

/// Tells a process with the arguments of this one the numbers of a model and of a way.
const VARIABLE: &str = "REVSEQ_BENCH_PEAK_OF";

/// Has a process run a model one way, and returns the most bytes of memory that it had, where the system tells.
pub(super) fn in_process(model: usize, way: &Way, watch: &Watch) -> Option<u64> {
    let way = WAYS.iter().position(|it| it == way)?;
    if !cfg!(target_os = "linux") || watch.is_interrupted() {
        return None;
    }
    let output = Command::new(std::env::current_exe().ok()?)
        .args(std::env::args_os().skip(1))
        .env(VARIABLE, format!("{model} {way}"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// The numbers of a model and of a way, if this process is to run it.
pub(super) fn asked() -> Result<Option<(usize, usize)>> {
    let Some(asked) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let numbers = || {
        let (model, way) = asked.to_str()?.split_once(' ')?;
        Some((model.parse().ok()?, way.parse().ok()?))
    };
    match numbers() {
        Some(numbers) => Ok(Some(numbers)),
        None => bail!("{VARIABLE} is {asked:?}, expected two numbers"),
    }
}

/// Runs a model one way, and prints the most bytes of memory that this process had.
pub(super) fn print(arguments: &BenchArguments, model: usize, way: usize) -> Result<Outcome> {
    let model = arguments.models.get(model);
    let model = model.context("there is no model of this number")?;
    let way = WAYS.get(way..=way).context("there is no such way")?;
    let ways = Ways::open(arguments, way)?;
    run_once(arguments, &ways, &read::locate(model)?)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    println!("{}", 1024 * peak.context("the system tells no VmHWM")?);
    Ok(Outcome::Done)
}
