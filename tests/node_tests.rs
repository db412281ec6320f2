//! Runs tests in the layout of ONNX's backend tests on plain tract and with this project's
//! operators, and fails if one runs worse with them. `cargo xtask test onnx` gives it ONNX's own
//! tests of nodes.
//!
//! With `--sizes`, each test's data sets of several sizes run in one session, with one plan and with the data's,
//! and none may have other outputs than expected. `cargo xtask test node-sizes` gives it these.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use prost::Message;
use revseq_tract::{LoadOptions, Session, Sizes};
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
    /// The outputs are not the expected ones.
    Differs,
    /// The model is refused, or an error when it runs.
    Fails,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let folder = arguments.last().map(PathBuf::from);
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        eprintln!("expected a folder of tests");
        return ExitCode::FAILURE;
    };
    // A panic of tract's is a failure like others.
    std::panic::set_hook(Box::new(|_| {}));
    if arguments.len() > 1 {
        return in_sizes(&folder);
    }
    let mut counts: BTreeMap<[Outcome; 4], Vec<String>> = BTreeMap::new();
    for test in tests(&folder) {
        let outcomes = [
            outcome(|| agrees(&test, plain)),
            outcome(|| agrees(&test, loaded)),
            outcome(|| agrees(&test, |path, inputs| session(path, inputs, Sizes::OfData))),
            outcome(|| agrees(&test, |path, inputs| session(path, inputs, Sizes::Symbolic))),
        ];
        let name = test.file_name().unwrap_or_default().to_string_lossy();
        counts.entry(outcomes).or_default().push(name.into_owned());
    }
    let mut is_worse = counts.is_empty();
    for (outcomes, names) in &counts {
        let [plain, loaded, of_data, symbolic] = outcomes;
        println!(
            "{:>5}  {plain:?} on tract; with revseq {loaded:?} as a model, {of_data:?} in a session for \
             the sizes of the data, {symbolic:?} in one for all sizes",
            names.len()
        );
        if outcomes.iter().any(|outcome| outcome != plain) || *plain != Outcome::Agrees {
            println!("       {}", names.join(" "));
        }
        // An error is better than another value.
        is_worse |= outcomes.iter().any(|outcome| match plain {
            Outcome::Agrees => *outcome != Outcome::Agrees,
            Outcome::Differs => false,
            Outcome::Fails => *outcome == Outcome::Differs,
        });
    }
    if is_worse {
        println!("tests run worse with revseq, or there are none");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs the data sets of each test, and the first one again, in one session.
fn in_sizes(folder: &Path) -> ExitCode {
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    let mut different = vec![];
    for test in tests(folder) {
        for sizes in [Sizes::Symbolic, Sizes::OfData] {
            let options = LoadOptions::new().with_sizes(sizes);
            let Ok(session) = Session::open_with(test.join("model.onnx"), &options) else {
                *counts.entry(Outcome::Fails).or_default() += 1;
                continue;
            };
            let again = std::iter::once(test.join("test_data_set_0"));
            for set in data_sets(&test).chain(again) {
                let outcome = outcome(|| agrees_in(&set, |inputs| run_in(&session, inputs)));
                *counts.entry(outcome).or_default() += 1;
                if outcome == Outcome::Differs {
                    different.push(format!("{} {sizes:?}", set.display()));
                }
            }
        }
    }
    println!("{counts:?}\n{}", different.join("\n"));
    match counts.contains_key(&Outcome::Agrees) && different.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The folders with a model, in order.
fn tests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.join("model.onnx").is_file());
    found.sort();
    found
}

fn outcome(agrees: impl FnOnce() -> TractResult<bool>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(agrees)) {
        Ok(Ok(true)) => Outcome::Agrees,
        Ok(Ok(false)) => Outcome::Differs,
        Ok(Err(_)) | Err(_) => Outcome::Fails,
    }
}

/// The data sets of a test, by number.
fn data_sets(test: &Path) -> impl Iterator<Item = PathBuf> {
    let sets = (0..).map(|number| test.join(format!("test_data_set_{number}")));
    sets.take_while(|set| set.is_dir())
}

/// Runs a model on each of its data sets.
fn agrees(
    test: &Path,
    run: impl Fn(&Path, Vec<Tensor>) -> TractResult<Vec<TValue>>,
) -> TractResult<bool> {
    for set in data_sets(test) {
        if !agrees_in(&set, |inputs| run(&test.join("model.onnx"), inputs))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs a data set.
fn agrees_in(
    set: &Path,
    run: impl FnOnce(Vec<Tensor>) -> TractResult<Vec<TValue>>,
) -> TractResult<bool> {
    let outputs = run(tensors(set, "input")?)?;
    let expected = tensors(set, "output")?;
    let are_close = std::iter::zip(&expected, &outputs)
        .all(|(expected, output)| is_close(expected, output).unwrap_or(false));
    Ok(expected.len() == outputs.len() && are_close)
}

/// Whether an output is the expected one. Those of half floats are values of floats, rounded: they may
/// differ by a hundredth of the greatest, and floats, in sums that cancel out, by its hundred thousandth.
fn is_close(expected: &Tensor, output: &Tensor) -> TractResult<bool> {
    let output = output.cast_to_dt(expected.datum_type())?;
    if output
        .close_enough(expected, Approximation::Approximate)
        .is_ok()
    {
        return Ok(true);
    }
    let share = match expected.datum_type() {
        DatumType::F16 => 1e-2,
        DatumType::F32 => 1e-5,
        _ => return Ok(false),
    };
    let (expected, output) = (expected.cast_to::<f32>()?, output.cast_to::<f32>()?);
    let (sizes, expected) = (expected.shape(), expected.try_as_plain_ram()?);
    let (own_sizes, output) = (output.shape(), output.try_as_plain_ram()?);
    let (expected, output) = (expected.as_slice::<f32>()?, output.as_slice::<f32>()?);
    let greatest = expected
        .iter()
        .fold(0_f32, |greatest, it| greatest.max(it.abs()));
    let mut pairs = std::iter::zip(expected, output);
    Ok(sizes == own_sizes && pairs.all(|(a, b)| a == b || (a - b).abs() <= greatest * share))
}

/// Runs a model on tract alone, for the sizes of the data.
fn plain(path: &Path, inputs: Vec<Tensor>) -> TractResult<Vec<TValue>> {
    let model = tract_onnx::onnx().model_for_path(path)?;
    let plan = with_sizes(model, &inputs)?
        .into_optimized()?
        .into_runnable()?;
    let values = inputs.into_iter().map(Tensor::into_tvalue);
    Ok(plan.run(values.collect())?.into_vec())
}

/// Runs a model that is loaded with this project's operators, for the sizes of the data.
fn loaded(path: &Path, inputs: Vec<Tensor>) -> TractResult<Vec<TValue>> {
    let model = with_sizes(revseq_tract::model_for_path(path)?, &inputs)?;
    let plan = revseq_tract::into_optimized(model.into_typed()?)?.into_runnable()?;
    let values = inputs.into_iter().map(Tensor::into_tvalue);
    Ok(plan.run(values.collect())?.into_vec())
}

fn with_sizes(mut model: InferenceModel, inputs: &[Tensor]) -> TractResult<InferenceModel> {
    for (index, input) in inputs.iter().enumerate() {
        let fact = InferenceFact::dt_shape(input.datum_type(), input.shape());
        model.set_input_fact(index, fact)?;
    }
    Ok(model)
}

/// Runs a model in a session.
fn session(path: &Path, inputs: Vec<Tensor>, sizes: Sizes) -> TractResult<Vec<TValue>> {
    run_in(
        &Session::open_with(path, &LoadOptions::new().with_sizes(sizes))?,
        inputs,
    )
}

fn run_in(session: &Session, inputs: Vec<Tensor>) -> TractResult<Vec<TValue>> {
    let names: Vec<String> = session.inputs().iter().map(|it| it.name.clone()).collect();
    let outputs = session.run(std::iter::zip(names, inputs))?;
    Ok(outputs.into_iter().map(|(_, value)| value).collect())
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
