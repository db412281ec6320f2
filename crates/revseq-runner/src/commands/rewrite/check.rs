//! Runs a model and what it was rewritten to, and compares.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::backend::ort::{self, Preparation, Runtime};
use crate::backend::tract;
use crate::chain;
use crate::commands::inputs::{self, Sources, Tensors};
use crate::model::read::{self, DataSet};
use crate::model::{Bindings, Model};
use crate::tensor::compare::compare;
use crate::tensor::fill::Fill;
use crate::tensor::{Data, Tensor};

/// What a comparison came to.
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

/// Two models that are to give the same.
pub(super) struct Check<'a> {
    pub(super) original: &'a Model,
    pub(super) rewritten: &'a Model,
    /// Bit for bit.
    pub(super) exact: bool,
}

/// Inputs, with what they are called.
struct Inputs {
    name: String,
    tensors: Tensors,
    bindings: Bindings,
}

/// The names of the backends.
const TRACT: &str = "tract";
const ONNX_RUNTIME: &str = "ONNX Runtime";

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
    /// Compares on every backend that there is.
    ///
    /// # Errors
    /// If there is nothing to run the models on, or no inputs to run them on.
    pub(super) fn run(
        &self,
        sets: &[DataSet],
        dims: &Bindings,
        ort_lib: Option<&Path>,
    ) -> Result<Vec<Checked>> {
        let all = if sets.is_empty() {
            self.made_up(dims)
                .context("--check has no data set, and cannot make inputs up")?
        } else {
            sets.iter()
                .map(|set| self.read_set(set))
                .collect::<Result<_>>()?
        };
        let mut checked = Vec::new();
        // What the original gives on tract stands in where ONNX Runtime refuses it.
        let mut expected = Vec::new();
        match self.on_tract(&all, &mut expected) {
            Ok(results) => checked.extend(results),
            Err(why) => checked.push(Checked::Skipped {
                backend: TRACT,
                why: chain(&why),
            }),
        }
        match Runtime::load(ort_lib) {
            Ok(runtime) => match self.on_ort(&runtime, &all, &expected) {
                Ok(results) => checked.extend(results),
                Err(why) => checked.push(Checked::Skipped {
                    backend: ONNX_RUNTIME,
                    why: chain(&why),
                }),
            },
            Err(error) if ort_lib.is_some() => return Err(error),
            Err(error) => checked.push(Checked::Skipped {
                backend: ONNX_RUNTIME,
                why: chain(&error),
            }),
        }
        if checked
            .iter()
            .all(|checked| matches!(checked, Checked::Skipped { .. }))
        {
            let why: Vec<String> = checked
                .into_iter()
                .filter_map(|checked| match checked {
                    Checked::Skipped { backend, why } => Some(format!("{backend}: {why}")),
                    _ => None,
                })
                .collect();
            bail!("--check: nothing runs both models: {}", why.join("; "));
        }
        Ok(checked)
    }

    fn read_set(&self, set: &DataSet) -> Result<Inputs> {
        let declared = self.original.inputs();
        let names: Vec<String> = declared
            .iter()
            .filter(|input| !input.optional)
            .map(|input| input.name.clone())
            .collect();
        let tensors = inputs::read_data_set(&set.inputs, &names)?;
        let mut bindings = Bindings::new();
        inputs::bind(&declared, &tensors, &mut bindings)?;
        Ok(Inputs {
            name: set.name.clone(),
            tensors,
            bindings,
        })
    }

    /// Random inputs of two sizes, as they are and with padding behind lengths
    /// that differ.
    fn made_up(&self, dims: &Bindings) -> Result<Vec<Inputs>> {
        let mut all = Vec::new();
        for (seed, sizes) in SIZES.iter().enumerate() {
            let mut bindings = dims.clone();
            for (symbol, &size) in self
                .original
                .input_symbols()
                .into_iter()
                .zip(sizes.iter().cycle())
            {
                bindings.entry(symbol).or_insert(size);
            }
            let sources = Sources {
                files: &[],
                fill: Some(Fill::Random(seed as u64)),
                data_set: None,
            };
            let tensors = inputs::gather(self.original, &sources, &mut bindings)?;
            let padded = tensors
                .iter()
                .map(|(name, tensor)| Ok((name.clone(), pad(tensor)?)))
                .collect::<Result<Tensors>>()?;
            let name = |what: &str| format!("made-up inputs {what}{}", seed + 1);
            all.push(Inputs {
                name: name(""),
                tensors,
                bindings: bindings.clone(),
            });
            all.push(Inputs {
                name: name("with padding "),
                tensors: padded,
                bindings,
            });
        }
        Ok(all)
    }

    fn on_tract(&self, all: &[Inputs], expected: &mut Vec<Vec<Tensor>>) -> Result<Vec<Checked>> {
        let refused = |model: &Model| tract::lacks(model, None);
        if let Some(lacks) = refused(self.original)? {
            bail!("the model as it was: {lacks}");
        }
        let run = |model: &Model, inputs: &Inputs| {
            tract::prepare(model, &inputs.tensors, &inputs.bindings, None)?.run(&inputs.tensors)
        };
        for inputs in all {
            expected.push(run(self.original, inputs).context("the model as it was")?);
        }
        if let Some(lacks) = refused(self.rewritten)? {
            bail!("the rewritten model: {lacks}");
        }
        let mut checked = Vec::new();
        for (inputs, expected) in std::iter::zip(all, expected) {
            let got = run(self.rewritten, inputs).context("the rewritten model")?;
            checked.push(self.compare(TRACT, inputs, expected, &got));
        }
        Ok(checked)
    }

    fn on_ort(
        &self,
        runtime: &Runtime,
        all: &[Inputs],
        on_tract: &[Vec<Tensor>],
    ) -> Result<Vec<Checked>> {
        let prepare = |model: &Model| -> Result<Box<ort::Prepared>> {
            if let Some(lacks) = ort::lacks(runtime, model)? {
                bail!("{lacks}");
            }
            match ort::prepare(runtime, model)? {
                Preparation::Ready(prepared) => Ok(prepared),
                Preparation::Refused(why) => bail!("{why}"),
            }
        };
        let mut rewritten = prepare(self.rewritten).context("the rewritten model")?;
        let original = prepare(self.original).and_then(|mut original| {
            all.iter()
                .map(|inputs| original.run(&inputs.tensors))
                .collect::<Result<Vec<_>>>()
        });
        let expected = match original {
            Ok(expected) => expected,
            Err(_) if on_tract.len() == all.len() => on_tract.to_vec(),
            Err(error) => return Err(error.context("the model as it was")),
        };
        let mut checked = Vec::new();
        for (inputs, expected) in std::iter::zip(all, &expected) {
            let got = rewritten
                .run(&inputs.tensors)
                .context("the rewritten model")?;
            checked.push(self.compare(ONNX_RUNTIME, inputs, expected, &got));
        }
        Ok(checked)
    }

    fn compare(
        &self,
        backend: &'static str,
        inputs: &Inputs,
        expected: &[Tensor],
        got: &[Tensor],
    ) -> Checked {
        let outputs = &self.original.graph().output;
        let difference = std::iter::zip(outputs, std::iter::zip(expected, got)).find_map(
            |(output, (expected, got))| {
                let difference = compare(expected, got, self.exact).err()?;
                Some(format!("output {}{difference}", output.name))
            },
        );
        let set = inputs.name.clone();
        match difference {
            None => Checked::Same { backend, set },
            Some(how) => Checked::Different { backend, set, how },
        }
    }
}

/// The same with zeros behind lengths that differ, along the second axis: how
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
