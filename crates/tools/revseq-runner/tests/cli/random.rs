//! Random models: how they run, rewritten and not, on tract, in sessions and on ONNX Runtime; and how a failure
//! is told.

use std::cell::Cell;
use std::fmt::Debug;
use std::panic::catch_unwind;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_rewrite::Options;
use revseq_test_models::text;
use serde_json::Value as Json;
use tract_onnx::pb::TensorProto;

use crate::common::rewrite_and_check;
use crate::ort::onnxruntime;

/// Runs models before and after they are rewritten, on each backend that there is.
pub(crate) struct Comparison {
    library: Option<String>,
    cases: Cell<usize>,
    compared: Cell<usize>,
}

impl Comparison {
    pub(crate) fn new(test: &str) -> Self {
        Self {
            library: onnxruntime(test),
            cases: Cell::new(0),
            compared: Cell::new(0),
        }
    }

    /// Whether ONNX Runtime is there.
    pub(crate) fn has_onnxruntime(&self) -> bool {
        self.library.is_some()
    }

    /// Rewrites a model, and runs both on each data set; the report, or nothing if no backend runs the model
    /// as it was. A backend that runs it has to run its rewritten form, with the same outputs.
    pub(crate) fn run(
        &self,
        case: &impl Debug,
        model: &[u8],
        sets: &[Vec<TensorProto>],
        flags: &[&str],
    ) -> Result<Option<Json>, TestCaseError> {
        self.run_with(case, model, sets, flags, |check| {
            let reason = check["reason"].as_str().unwrap_or_default();
            let could_run = !reason.starts_with("the original model: ");
            check["result"] == if could_run { "ok" } else { "skipped" }
        })
    }

    /// The same with another idea of the checks that may be.
    pub(crate) fn run_with(
        &self,
        case: &impl Debug,
        model: &[u8],
        sets: &[Vec<TensorProto>],
        flags: &[&str],
        mut may_be: impl FnMut(&Json) -> bool,
    ) -> Result<Option<Json>, TestCaseError> {
        self.cases.set(self.cases.get() + 1);
        // ONNX Runtime ends the process at layers of an empty batch, and makes up the sizes of a loop's output
        // if there is no step.
        let is_empty = |set: &Vec<TensorProto>| set.iter().any(|tensor| tensor.dims.contains(&0));
        let on_both = |set: &Vec<TensorProto>| flags.contains(&"--backend") || !is_empty(set);
        let (both, tract): (Vec<_>, Vec<_>) = sets.iter().cloned().partition(on_both);
        let mut last = None;
        for (sets, library) in [(tract, None), (both, self.library.as_deref())] {
            if sets.is_empty() {
                continue;
            }
            let run = catch_unwind(|| rewrite_and_check(model, &sets, flags, library));
            let run = run.map_err(|panic| {
                let why = panic.downcast_ref::<String>().map_or("it panics", |it| it);
                failure(why, case, model, flags)
            })?;
            let fails_before = "no backend runs both models: tract: the original model: ";
            if run.stderr.contains(fails_before) {
                last = None;
                continue;
            }
            // What is no report is an error.
            let report: Json = serde_json::from_str(&run.stdout).unwrap_or_else(
                |_| serde_json::json!({"checks": [{"backend": "tract", "reason": run.stderr}]}),
            );
            for check in report["checks"].as_array().expect("checks") {
                if !may_be(check) {
                    return Err(failure(&format!("{check:#}"), case, model, flags));
                }
            }
            last = Some(report);
        }
        self.compared
            .set(self.compared.get() + usize::from(last.is_some()));
        Ok(last)
    }

    /// Some backend has run half of the models, or more.
    pub(crate) fn ends(&self) {
        let (cases, compared) = (self.cases.get(), self.compared.get());
        assert!(2 * compared >= cases, "{compared} of {cases} ran");
    }
}

/// What became of the nodes that a pass looked at.
pub(crate) fn steps_of(report: &Json, pass: &str) -> Vec<Json> {
    let steps = report["steps"].as_array().expect("steps").iter();
    steps.filter(|step| step["pass"] == pass).cloned().collect()
}

/// A failure, with the model and how to see it again.
pub(crate) fn failure(why: &str, case: &impl Debug, model: &[u8], flags: &[&str]) -> TestCaseError {
    let decoded = revseq_onnx::decode(model).expect("a model");
    let written = text::write(decoded.graph.as_option().expect("a graph"));
    let text = format!(
        "revseq rewrite {}: {why}\n{written}{case:?}",
        flags.join(" ")
    );
    TestCaseError::fail(text)
}

/// The options that flags stand for.
pub(crate) fn options(flags: &[&str]) -> Options {
    let is_given = |flag: &str| {
        let at = flags.iter().position(|it| *it == flag);
        at.map(|at| flags[at + 1].to_owned())
    };
    Options {
        portable: flags.contains(&"--portable"),
        fast: flags.contains(&"--fast"),
        passes: is_given("--pass").into_iter().collect(),
        runtime: is_given("--for"),
        ..Options::default()
    }
}

/// Rewrites a model, which changes nothing more when it is repeated; the report.
pub(crate) fn rewritten(
    case: &impl Debug,
    model: &[u8],
    flags: &[&str],
) -> Result<revseq_rewrite::Report, TestCaseError> {
    let before = revseq_onnx::decode(model).expect("a model");
    let mut once = before.clone();
    let report =
        revseq_rewrite::rewrite_messages(&mut once, &options(flags)).expect("known passes");
    let mut twice = once.clone();
    revseq_rewrite::rewrite_messages(&mut twice, &options(flags)).expect("known passes");
    let is_told = report.rewritten().next().is_some() || once == before;
    match (once == twice, is_told) {
        (true, true) => Ok(report),
        (false, _) => Err(failure("a second run changes more", case, model, flags)),
        (true, false) => Err(failure("it changes it without a word", case, model, flags)),
    }
}

/// The generators of models, each in its bytes.
pub(crate) fn models() -> Vec<BoxedStrategy<Vec<u8>>> {
    vec![
        crate::random_loops::models().boxed(),
        crate::random_maps::models().boxed(),
        crate::random_rewrites::models().boxed(),
        crate::random_unrolled::models().boxed(),
    ]
}
