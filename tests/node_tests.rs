//! Runs tests in the layout of ONNX's backend tests on plain tract and with this project's
//! operators, and fails if one runs worse with them. `cargo xtask test onnx` gives it ONNX's own
//! tests of nodes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use prost::Message;
use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx::tensor::load_tensor;
use tract_onnx::tract_hir::internal::Approximation;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The outputs are the expected ones.
    Agrees,
    /// They are others.
    Differs,
    /// The model is refused, or an error when it runs.
    Fails,
}

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        eprintln!("expected a folder of tests");
        return ExitCode::FAILURE;
    };
    // A panic of tract's is a failure like others.
    std::panic::set_hook(Box::new(|_| {}));
    let mut counts: BTreeMap<(Outcome, Outcome), Vec<String>> = BTreeMap::new();
    for test in tests(&folder) {
        let plain = outcome(&test, |path| tract_onnx::onnx().model_for_path(path));
        let with = outcome(&test, |path| revseq_tract::model_for_path(path));
        let name = test.file_name().unwrap_or_default().to_string_lossy();
        counts
            .entry((plain, with))
            .or_default()
            .push(name.into_owned());
    }
    let mut is_worse = counts.is_empty();
    for ((plain, with), names) in &counts {
        println!(
            "{:>5}  {plain:?} on tract, {with:?} with revseq",
            names.len()
        );
        if plain != with {
            println!("       {}", names.join(" "));
        }
        is_worse |= with > plain;
    }
    if is_worse {
        println!("tests run worse with revseq, or there are none");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The folders with a model, in order.
fn tests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.join("model.onnx").is_file());
    found.sort();
    found
}

fn outcome(test: &Path, load: impl Fn(&Path) -> TractResult<InferenceModel>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| agrees(test, load))) {
        Ok(Ok(true)) => Outcome::Agrees,
        Ok(Ok(false)) => Outcome::Differs,
        Ok(Err(_)) | Err(_) => Outcome::Fails,
    }
}

/// Runs a model on each of its data sets.
fn agrees(test: &Path, load: impl Fn(&Path) -> TractResult<InferenceModel>) -> TractResult<bool> {
    for set in 0.. {
        let set = test.join(format!("test_data_set_{set}"));
        if !set.is_dir() {
            break;
        }
        let mut model = load(&test.join("model.onnx"))?;
        let inputs = tensors(&set, "input")?;
        for (index, input) in inputs.iter().enumerate() {
            model.set_input_fact(
                index,
                InferenceFact::dt_shape(input.datum_type(), input.shape()),
            )?;
        }
        let plan = model.into_optimized()?.into_runnable()?;
        let outputs = plan.run(inputs.into_iter().map(Tensor::into_tvalue).collect())?;
        let expected = tensors(&set, "output")?;
        let are_close = std::iter::zip(&expected, &outputs).all(|(expected, output)| {
            let output = output.cast_to_dt(expected.datum_type());
            output.is_ok_and(|output| {
                output
                    .close_enough(expected, Approximation::Approximate)
                    .is_ok()
            })
        });
        if expected.len() != outputs.len() || !are_close {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tensors of a data set, by number.
fn tensors(set: &Path, kind: &str) -> TractResult<Vec<Tensor>> {
    let paths = (0..).map(|number| set.join(format!("{kind}_{number}.pb")));
    let found = paths.take_while(|path| path.is_file());
    found
        .map(|path| {
            let proto = TensorProto::decode(&*std::fs::read(path)?)?;
            load_tensor(&MmapDataResolver, &proto, None)
        })
        .collect()
}
