//! Runs the original and the rewritten model, and compares.

use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, ensure};
use serde::Serialize;

use crate::backend::Engine;
use crate::chain;
use crate::cli::{Backend, RewriteArguments};
use crate::commands::data_set;
use crate::commands::results::Verdict;
use crate::commands::tolerance::{Tolerances, is_exact};
use crate::model::read::{self, DataSet};
use crate::model::{Bindings, Model, walk};
use crate::tensor::Tensor;
use crate::tensor::compare::Tolerance;

use super::made_up::{Agreement, Inputs, MadeUp};

/// A comparison on a backend.
#[derive(Serialize)]
pub(super) struct Checked {
    pub(super) backend: &'static str,
    /// The inputs; `None` if nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

impl Checked {
    fn skipped(backend: &'static str, why: &Error) -> Self {
        Self {
            backend,
            data: None,
            verdict: Verdict::Skipped { reason: chain(why) },
        }
    }
}

/// Two models whose outputs should be equal.
pub(super) struct Check<'a> {
    pub(super) original: &'a Model,
    pub(super) rewritten: &'a Model,
    /// The sizes that were written into the rewritten model.
    pub(super) sizes: &'a Bindings,
    /// The tolerance of outputs for which none is given.
    pub(super) tolerance: Tolerance,
    pub(super) arguments: &'a RewriteArguments,
}

/// Outputs for each of the inputs.
type Outputs = Vec<Vec<Tensor>>;

/// What a backend computes of the original model.
struct Original<'e> {
    engine: &'e Engine,
    outputs: Result<Outputs>,
}

/// The reason why a backend ran the original model alone, or none both.
struct Refusal {
    /// The backends that ran the original model alone.
    ran: Vec<&'static str>,
    why: String,
}

impl Refusal {
    fn into_error(self) -> Error {
        match &self.ran[..] {
            [] => anyhow!("--check: no backend runs both models: {}", self.why),
            ran => anyhow!(
                "--check: the original model runs on {}, the rewritten one does not: {}",
                ran.join(" and "),
                self.why
            ),
        }
    }
}

/// The data sets in a folder.
pub(super) fn data_sets(folder: &Path) -> Result<Vec<DataSet>> {
    let sets = read::data_sets(folder)?;
    ensure!(
        !sets.is_empty(),
        "--check {}: it has no test_data_set_<n>",
        folder.display()
    );
    Ok(sets)
}

impl Check<'_> {
    /// Compares on the backends that are asked for, or else on each that there is.
    ///
    /// # Errors
    /// If there is nothing to run the models on, or no inputs to run them on.
    pub(super) fn run(&self, sets: &[DataSet]) -> Result<Vec<Checked>> {
        let values = &self.arguments.values;
        let engines = self.engines()?;
        if values.inputs.is_empty() && values.fill.is_empty() && !sets.is_empty() {
            let all = sets.iter().map(|set| {
                Ok(Inputs {
                    name: set.name.clone(),
                    tensors: data_set::inputs(self.original, set)?,
                })
            });
            let all: Vec<Inputs> = all.collect::<Result<_>>()?;
            return self.run_on(&engines, &all)?.map_err(Refusal::into_error);
        }
        let made_up = MadeUp::new(self.original, values, self.sizes)?;
        let mut first = None;
        for agreement in Agreement::ALL {
            let all = made_up.inputs(agreement).context(
                "--check has no data set, and cannot make all inputs up; give them with --input, or \
                 a folder of data sets with --check DATA",
            )?;
            let refusal = match self.run_on(&engines, &all)? {
                Ok(checked) => return Ok(checked),
                Err(refusal) => refusal,
            };
            // Sizes that have to agree are a reason why the original model refuses its inputs.
            let is_final = !refusal.ran.is_empty() || made_up.sizes().len() < 2;
            first.get_or_insert(refusal);
            if is_final {
                break;
            }
        }
        let error = first.map_or_else(|| anyhow!("--check: nothing ran"), Refusal::into_error);
        let names: Vec<String> = made_up
            .sizes()
            .map(|it| format!("--dim {it}=SIZE"))
            .collect();
        Err(match names.len() {
            0 | 1 => error,
            _ => error.context(format!(
                "made-up inputs may not fit each other; give their sizes with {}, the inputs with \
                 --input, or what they hold with --fill",
                names.join(" ")
            )),
        })
    }

    /// The backends that are asked for, or else each that there is.
    fn engines(&self) -> Result<Vec<(Backend, Result<Engine>)>> {
        let on = &self.arguments.on;
        let backends = on.or(&[Backend::Tract, Backend::OrtPlain]);
        let is_asked = !on.backends.is_empty() || on.engine.ort.ort_lib.is_some();
        on.engine.check(backends)?;
        let engines = Engine::open_each(&on.engine, backends)?;
        let engines = std::iter::zip(backends.iter().copied(), engines);
        engines
            .map(|(backend, engine)| match engine {
                Err(error) if is_asked => Err(error),
                engine => Ok((backend, engine)),
            })
            .collect()
    }

    /// Compares on the backends with these inputs; `Err` if none ran both models, or one the original alone.
    fn run_on(
        &self,
        engines: &[(Backend, Result<Engine>)],
        all: &[Inputs],
    ) -> Result<Result<Vec<Checked>, Refusal>> {
        let mut skipped = Vec::new();
        let mut originals = Vec::new();
        for (backend, engine) in engines {
            match engine {
                Ok(engine) => originals.push(Original {
                    engine,
                    outputs: run_model(engine, self.original, all),
                }),
                Err(why) => skipped.push(Checked::skipped(backend.name(), why)),
            }
        }
        let expected = expected(&originals);
        let (mut results, mut ran) = (Vec::new(), Vec::new());
        for original in &originals {
            let backend = original.engine.name();
            match self.on(original, all, expected) {
                Ok(on) => results.extend(on),
                Err(why) => {
                    ran.extend(original.outputs.is_ok().then_some(backend));
                    results.push(Checked::skipped(backend, &why));
                }
            }
        }
        results.extend(skipped);
        let is_skipped = |it: &Checked| matches!(it.verdict, Verdict::Skipped { .. });
        if ran.is_empty() && !results.iter().all(is_skipped) {
            return Ok(Ok(results));
        }
        let why = results.into_iter().filter_map(|it| match it.verdict {
            Verdict::Skipped { reason } if ran.is_empty() || ran.contains(&it.backend) => {
                Some(format!("{}: {reason}", it.backend))
            }
            _ => None,
        });
        let why = why.collect::<Vec<_>>().join("; ");
        Ok(Err(Refusal { ran, why }))
    }

    /// Runs the rewritten model, and compares it with the original one on the same backend. Where
    /// that refuses the original, or computes other values than are expected, the expected ones
    /// count.
    fn on(
        &self,
        original: &Original<'_>,
        all: &[Inputs],
        expected: Option<(&'static str, &Outputs)>,
    ) -> Result<Vec<Checked>> {
        let engine = original.engine;
        let refusal = |why: &Error| anyhow!("the original model: {}", chain(why));
        let own = original.outputs.as_ref();
        let Some((reference, expected)) = expected else {
            return own.map(|_| Vec::new()).map_err(refusal);
        };
        let got = run_model(engine, self.rewritten, all).map_err(|why| match own {
            Ok(_) => why.context("the rewritten model"),
            Err(why) => refusal(why),
        })?;
        // Another backend may round differently.
        let across = match is_exact(self.original)? {
            true => self.tolerance,
            false => Tolerance::Computed,
        };
        let [within, across] = [self.tolerance, across].map(|tolerance| {
            Tolerances::with_default(&self.arguments.tolerance, self.original, tolerance)
        });
        let (within, across) = (within?, across?);
        let mut checked = Vec::new();
        for (index, inputs) in all.iter().enumerate() {
            let (got, expected) = (&got[index], &expected[index]);
            let own = own.ok().map(|own| &own[index]);
            let misread = own.and_then(|own| self.difference(expected, own, &across));
            // What it computes of the original is no reason to refuse what is right.
            let of_own = own.map(|own| self.difference(own, got, &within));
            let difference = match (&of_own, &misread) {
                (Some(difference), None) => difference.clone(),
                _ => self.difference(expected, got, &across),
            };
            let verdict = match (difference, of_own, misread) {
                (None, ..) => Verdict::Ok { note: None },
                (Some(_), Some(None), Some(how)) => Verdict::Ok {
                    note: Some(format!("both models differ from {reference}: {how}")),
                },
                (Some(reason), ..) => Verdict::Failed { reason },
            };
            checked.push(Checked {
                backend: engine.name(),
                data: Some(inputs.name.clone()),
                verdict,
            });
        }
        Ok(checked)
    }

    /// Describes the first difference among outputs.
    fn difference(
        &self,
        expected: &[Tensor],
        got: &[Tensor],
        tolerances: &Tolerances<'_>,
    ) -> Option<String> {
        let names = self.original.output_names();
        let differences = tolerances.differences(&names, expected, got);
        let (name, difference) = differences.first()?;
        Some(format!("output {}", difference.of(name)))
    }
}

/// The outputs of the original model that count, with the backend: ONNX Runtime's, if it runs it.
fn expected<'o>(originals: &'o [Original<'_>]) -> Option<(&'static str, &'o Outputs)> {
    let ran = originals.iter().filter_map(|original| {
        let outputs = original.outputs.as_ref().ok()?;
        Some((original.engine, outputs))
    });
    let first = ran.min_by_key(|(engine, _)| engine.backend() == Backend::Tract)?;
    Some((first.0.name(), first.1))
}

/// The outputs of a model for each of the inputs.
fn run_model(engine: &Engine, model: &Model, all: &[Inputs]) -> Result<Outputs> {
    ensure!(
        engine.backend() != Backend::OrtPlain || !counts_from_the_end(model)?,
        "a ReverseSequence has an axis that counts from the end, which ONNX Runtime's own kernel \
         misreads"
    );
    let mut session = engine.ready(model)?;
    all.iter()
        .map(|inputs| session.run(&inputs.tensors))
        .collect()
}

/// Whether a ReverseSequence has a negative axis, itself or through a function's attribute.
fn counts_from_the_end(model: &Model) -> Result<bool> {
    let mut found = false;
    walk::walk(model, &Bindings::new(), |site| {
        let is_axis = |name: &str| matches!(name, "batch_axis" | "time_axis");
        let mut attributes = site.attributes.iter();
        found |= site.operator() == "ReverseSequence"
            && attributes
                .any(|(name, attribute)| is_axis(name) && attribute.i.is_some_and(|axis| axis < 0));
    })?;
    Ok(found)
}
