//! Runs the original and the rewritten model, and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, ensure};

use crate::backend::Engine;
use crate::chain;
use crate::cli::{Backend, RewriteArguments};
use crate::commands::data_set;
use crate::commands::inputs::{self, Sources};
use crate::commands::tolerance::{Tolerances, is_exact};
use crate::model::read::{self, DataSet};
use crate::model::values::Dim;
use crate::model::{Bindings, Model, walk};
use crate::tensor::compare::{Tolerance, compare};
use crate::tensor::fill::Fill;
use crate::tensor::{Data, Tensor, Tensors};

/// The result of a comparison.
pub(super) enum Checked {
    Same {
        backend: &'static str,
        set: String,
    },
    Different {
        backend: &'static str,
        set: String,
        how: String,
    },
    Skipped {
        backend: &'static str,
        why: String,
    },
}

impl Checked {
    pub(super) fn is_difference(&self) -> bool {
        matches!(self, Self::Different { .. })
    }
}

/// Two models whose outputs should be equal.
pub(super) struct Check<'a> {
    pub(super) original: &'a Model,
    pub(super) rewritten: &'a Model,
    /// The tolerance of outputs for which none is given.
    pub(super) tolerance: Tolerance,
    pub(super) arguments: &'a RewriteArguments,
}

/// Inputs, with their description.
struct Inputs {
    name: String,
    tensors: Tensors,
}

/// The outputs of the original model.
#[derive(Default)]
struct Expected {
    /// The backends that ran it.
    ran: Vec<&'static str>,
    /// The outputs of the last one, for each of the inputs.
    outputs: Vec<Vec<Tensor>>,
}

/// Symbolic sizes that are given one number. Exporters name sizes that have to agree differently.
#[derive(Clone, Copy)]
enum Agreement {
    /// None: each has its own.
    None,
    /// Sizes of the inputs' first axes.
    FirstAxes,
    All,
}

impl Agreement {
    /// All, in the order in which they are tried.
    const ALL: [Self; 3] = [Self::None, Self::FirstAxes, Self::All];

    /// Gives a number to each symbolic size that has none.
    fn bind(self, model: &Model, sizes: &[u64; 4], bindings: &mut Bindings) {
        let firsts: BTreeSet<String> = model
            .inputs()
            .into_iter()
            .filter_map(|input| match input.value_type.shape?.into_iter().next()? {
                Dim::Symbol(name) => Some(name),
                _ => None,
            })
            .collect();
        // A size that is given holds for those that agree with it.
        let given = firsts.iter().find_map(|name| bindings.get(name).copied());
        let first = given.or(sizes.first().copied());
        let mut others = sizes.iter().copied().cycle();
        for symbol in model.input_symbols() {
            let size = match self {
                Self::None => others.next(),
                Self::FirstAxes if !firsts.contains(&symbol) => others.nth(1),
                Self::FirstAxes | Self::All => first,
            };
            if let Some(size) = size {
                bindings.entry(symbol).or_insert(size);
            }
        }
    }
}

/// The reason why no backend ran both models.
struct Refusal {
    /// The backends that ran the original model.
    ran: Vec<&'static str>,
    why: String,
}

impl Refusal {
    fn into_error(self) -> Error {
        match &self.ran[..] {
            [] => anyhow!("--check: no backend runs both models: {}", self.why),
            ran => anyhow!(
                "--check: the original model runs on {}, the rewritten one on no backend: {}",
                ran.join(" and "),
                self.why
            ),
        }
    }
}

/// The sizes that made-up inputs have where the model leaves them open, by
/// turns; two sets of them.
const SIZES: [[u64; 4]; 2] = [[3, 7, 5, 4], [2, 12, 6, 3]];

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
        if values.inputs.is_empty() && values.fill.is_empty() && !sets.is_empty() {
            let all: Vec<Inputs> = sets
                .iter()
                .map(|set| self.read_set(set))
                .collect::<Result<_>>()?;
            return self.run_on(&all)?.map_err(Refusal::into_error);
        }
        let symbols = self.original.input_symbols();
        let mut first = None;
        for agreement in Agreement::ALL {
            let all = self.made_up(agreement).context(
                "--check has no data set, and cannot make all inputs up; give them with --input, or \
                 a folder of data sets with --check DATA",
            )?;
            let refusal = match self.run_on(&all)? {
                Ok(checked) => return Ok(checked),
                Err(refusal) => refusal,
            };
            // Sizes that have to agree are a reason why the original model refuses its inputs.
            let is_final = !refusal.ran.is_empty() || symbols.len() < 2;
            first.get_or_insert(refusal);
            if is_final {
                break;
            }
        }
        let error = first.map_or_else(|| anyhow!("--check: nothing ran"), Refusal::into_error);
        let names: Vec<String> = symbols
            .iter()
            .map(|it| format!("--dim {it}=SIZE"))
            .collect();
        Err(match names.len() {
            0 | 1 => error,
            _ => error.context(format!(
                "made-up inputs may not fit each other; give their sizes with {}, or the inputs \
                 with --input",
                names.join(" ")
            )),
        })
    }

    /// Compares on the backends with these inputs; `Err` if none ran both models.
    fn run_on(&self, all: &[Inputs]) -> Result<Result<Vec<Checked>, Refusal>> {
        let mut checked = Vec::new();
        let mut expected = Expected::default();
        let on = &self.arguments.on;
        let backends = on.or(&[Backend::Tract, Backend::OrtPlain]);
        let is_asked = !on.backends.is_empty() || on.engine.ort.ort_lib.is_some();
        let engines = Engine::open_each(&on.engine, backends)?;
        for (backend, engine) in std::iter::zip(backends, engines) {
            let engine = match engine {
                Err(error) if is_asked => return Err(error),
                engine => engine,
            };
            let backend = backend.name();
            match engine.and_then(|engine| self.on(&engine, all, &mut expected)) {
                Ok(results) => checked.extend(results),
                Err(why) => checked.push(Checked::Skipped {
                    backend,
                    why: chain(&why),
                }),
            }
        }
        let why: Option<Vec<String>> = checked
            .iter()
            .map(|checked| match checked {
                Checked::Skipped { backend, why } => Some(format!("{backend}: {why}")),
                Checked::Same { .. } | Checked::Different { .. } => None,
            })
            .collect();
        Ok(match why {
            Some(why) => Err(Refusal {
                ran: expected.ran,
                why: why.join("; "),
            }),
            None => Ok(checked),
        })
    }

    fn read_set(&self, set: &DataSet) -> Result<Inputs> {
        Ok(Inputs {
            name: set.name.clone(),
            tensors: data_set::inputs(self.original, set)?,
        })
    }

    /// Returns inputs of two sizes, random unless they are given, unchanged and zero-padded after
    /// different lengths.
    fn made_up(&self, agreement: Agreement) -> Result<Vec<Inputs>> {
        let values = &self.arguments.values;
        let mut given_sizes = Bindings::new();
        let given = inputs::given(self.original, &values.inputs, &mut given_sizes)?;
        let mut all = Vec::new();
        for (seed, sizes) in SIZES.iter().enumerate() {
            let mut bindings = given_sizes.clone();
            agreement.bind(self.original, sizes, &mut bindings);
            let sources = Sources {
                fill: values.fill().or(Some(Fill::Random(seed as u64))),
                fill_by_name: &values.fill,
                tensors: given.clone(),
                ..Sources::default()
            };
            let tensors = inputs::gather(self.original, &sources, &mut bindings)?;
            if tensors.len() == given.len() {
                let name = "the given inputs".to_owned();
                return Ok(vec![Inputs { name, tensors }]);
            }
            let padded = tensors.iter().map(|(name, tensor)| {
                let padded = match given.contains_key(name) {
                    true => tensor.clone(),
                    false => pad(tensor)?,
                };
                Ok((name.clone(), padded))
            });
            let padded = padded.collect::<Result<Tensors>>()?;
            let name = |what: &str| format!("made-up inputs {what}{}", seed + 1);
            all.push(Inputs {
                name: name(""),
                tensors,
            });
            all.push(Inputs {
                name: name("with padding "),
                tensors: padded,
            });
        }
        Ok(all)
    }

    /// Runs both models; if this backend refuses or misreads the original, uses its outputs on
    /// another backend instead.
    fn on(&self, engine: &Engine, all: &[Inputs], expected: &mut Expected) -> Result<Vec<Checked>> {
        let run = |model: &Model| -> Result<Vec<Vec<Tensor>>> {
            ensure!(
                engine.backend() != Backend::OrtPlain || !counts_from_the_end(model)?,
                "a ReverseSequence has an axis that counts from the end, which ONNX Runtime's \
                 own kernel misreads"
            );
            let mut session = engine.load(model)?.ready()?;
            all.iter()
                .map(|inputs| session.run(&inputs.tensors))
                .collect()
        };
        let tolerance = match run(self.original) {
            Ok(outputs) => {
                expected.ran.push(engine.name());
                expected.outputs = outputs;
                self.tolerance
            }
            Err(_) if expected.outputs.len() == all.len() => match is_exact(self.original)? {
                true => self.tolerance,
                // Another backend may round differently.
                false => Tolerance::COMPUTED,
            },
            Err(error) => return Err(error.context("the original model")),
        };
        let got = run(self.rewritten).context("the rewritten model")?;
        let tolerances =
            Tolerances::with_default(&self.arguments.tolerance, self.original, tolerance)?;
        let outputs = std::iter::zip(&expected.outputs, &got);
        let compared = std::iter::zip(all, outputs).map(|(inputs, (expected, got))| {
            self.compare(engine.name(), inputs, expected, got, &tolerances)
        });
        Ok(compared.collect())
    }

    fn compare(
        &self,
        backend: &'static str,
        inputs: &Inputs,
        expected: &[Tensor],
        got: &[Tensor],
        tolerances: &Tolerances<'_>,
    ) -> Checked {
        let outputs = &self.original.graph().output;
        let difference = std::iter::zip(outputs, std::iter::zip(expected, got)).find_map(
            |(output, (expected, got))| {
                let tolerance = tolerances.of(output.name(), &BTreeMap::new());
                let difference = compare(expected, got, tolerance).err()?;
                Some(format!("output {}{difference}", output.name()))
            },
        );
        let set = inputs.name.clone();
        match difference {
            None => Checked::Same { backend, set },
            Some(how) => Checked::Different { backend, set, how },
        }
    }
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

/// The same with zeros after different lengths along the second axis, as
/// sequences of several lengths are padded.
fn pad(tensor: &Tensor) -> Result<Tensor> {
    let (&[sequences, steps, ..], Data::Bytes(bytes)) = (tensor.shape(), tensor.data()) else {
        return Ok(tensor.clone());
    };
    if bytes.is_empty() {
        return Ok(tensor.clone());
    }
    let mut bytes = bytes.clone();
    let step = bytes.len() / (sequences * steps);
    for sequence in 0..sequences {
        let length = steps - sequence * 2 % steps;
        let start = (sequence * steps + length) * step;
        let end = (sequence + 1) * steps * step;
        if let Some(padding) = bytes.get_mut(start..end) {
            padding.fill(0);
        }
    }
    Tensor::new(
        tensor.element_type(),
        tensor.shape().to_vec(),
        Data::Bytes(bytes),
    )
}
