//! Sizes that the command line gives.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use super::values::Dim;
use super::{Bindings, Input, Model};

/// Number of a model's sizes that an error names at most.
const SHOWN: usize = 8;

/// The sizes of `--dim`: those of symbols, and of an input's dimensions without a name.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) symbols: Bindings,
    /// Sizes of dimensions, each as (name of the input, index of the dimension, size).
    pub(crate) unnamed: Vec<(String, usize, u64)>,
}

impl Model {
    /// Sets sizes of inputs of a model without its data: by the names of symbols, or as in `x.0`
    /// for the first dimension of `x`.
    ///
    /// # Errors
    /// There is no such size, or it has another value already.
    pub(crate) fn set_sizes(&mut self, dims: &[(String, u64)]) -> Result<Bindings> {
        let symbols = self.input_symbols();
        self.set_sizes_among(dims, &symbols)
    }

    /// The same, with more symbols than those of the inputs.
    ///
    /// # Errors
    /// There is no such size, or it has another value already.
    pub(crate) fn set_sizes_among(
        &mut self,
        dims: &[(String, u64)],
        symbols: &BTreeSet<String>,
    ) -> Result<Bindings> {
        let Sizes { symbols, unnamed } = self.sizes(dims, symbols)?;
        if !unnamed.is_empty() {
            let unnamed = Sizes {
                symbols: Bindings::new(),
                unnamed,
            };
            self.fix_sizes(&unnamed)?;
            self.has_given_sizes = true;
        }
        Ok(symbols)
    }

    /// Writes sizes into a model without its data.
    ///
    /// # Errors
    /// The model does not have such sizes.
    pub(crate) fn fix_sizes(&mut self, sizes: &Sizes) -> Result<()> {
        let fixed = self.change(|model| {
            revseq_onnx::bind_sizes(model, &|name| sizes.symbols.get(name).copied());
            let graph = model.graph.as_option_mut().into_iter();
            for input in graph.flat_map(|graph| &mut graph.input) {
                for (name, dimension, size) in &sizes.unnamed {
                    if input.name() == name {
                        revseq_onnx::set_size(input, *dimension, *size);
                    }
                }
            }
        });
        fixed.with_context(|| format!("--dim: {}", self.path.display()))
    }

    /// The sizes that `--dim` gives.
    ///
    /// # Errors
    /// There is no such size, or it has another value already.
    pub(crate) fn sizes(
        &self,
        dims: &[(String, u64)],
        symbols: &BTreeSet<String>,
    ) -> Result<Sizes> {
        let inputs = self.inputs();
        let mut sizes = Sizes::default();
        for (name, size) in dims {
            let symbol = match symbols.contains(name) {
                true => Some(name.clone()),
                false => match dimension(&inputs, name)? {
                    None => bail!("--dim {name}: {}", listed(symbols)),
                    Some((_, _, Dim::Symbol(symbol))) => Some(symbol),
                    Some((_, _, Dim::Known(known))) => {
                        ensure!(known == *size, "--dim {name}={size}: it is {known}");
                        continue;
                    }
                    Some((input, dimension, _)) => {
                        let same = |(other, at, _): &&(String, usize, u64)| {
                            *other == input && *at == dimension
                        };
                        ensure!(
                            !sizes.unnamed.iter().any(|it| same(&it)),
                            "--dim {name}: it is given twice"
                        );
                        sizes.unnamed.push((input, dimension, *size));
                        None
                    }
                },
            };
            if let Some(symbol) = symbol {
                ensure!(
                    sizes.symbols.insert(symbol, *size).is_none(),
                    "--dim {name}: it is given twice"
                );
            }
        }
        Ok(sizes)
    }
}

/// The dimension that a name such as `x.0` stands for; `None` if it is no such name.
fn dimension(inputs: &[Input], name: &str) -> Result<Option<(String, usize, Dim)>> {
    let Some((input, dimension)) = name.rsplit_once('.') else {
        return Ok(None);
    };
    let (Some(input), Ok(dimension)) = (
        inputs.iter().find(|other| other.name == input),
        dimension.parse::<usize>(),
    ) else {
        return Ok(None);
    };
    let Some(dim) = input
        .value_type
        .shape
        .as_ref()
        .and_then(|shape| shape.get(dimension))
    else {
        bail!(
            "--dim {name}: input {:?} is {}, which has no dimension {dimension}",
            input.name,
            input.value_type
        );
    };
    Ok(Some((input.name.clone(), dimension, dim.clone())))
}

/// The error of a size that the model does not have.
fn listed(symbols: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = symbols.iter().take(SHOWN).map(String::as_str).collect();
    let known = match (shown.as_slice(), symbols.len() - shown.len()) {
        ([], _) => "none".to_owned(),
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    };
    format!(
        "there is no symbolic size of that name; the model has {known}; INPUT.NUMBER stands for a \
         dimension of an input"
    )
}
