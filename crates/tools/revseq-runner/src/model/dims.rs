//! Sizes that the command line gives.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use revseq_onnx::ModelProto;

use super::values::{Dim, ValueType};
use super::{Bindings, Input, Model};
use crate::units::first_of;

/// Number of a model's sizes that an error names at most.
const SHOWN: usize = 8;

impl Input {
    /// The axes whose sizes are open, with the names that `--dim` takes for them.
    pub(crate) fn open_axes(&self, bindings: &Bindings) -> impl Iterator<Item = (usize, String)> {
        let shape = self.bind(bindings).shape.into_iter().flatten();
        shape.enumerate().filter_map(|(axis, dim)| match dim {
            Dim::Known(_) => None,
            Dim::Symbol(name) => Some((axis, name)),
            Dim::Computed { .. } | Dim::Unknown => Some((axis, size_name(&self.name, axis))),
        })
    }

    /// The type with sizes in the place of their names.
    pub(crate) fn bind(&self, bindings: &Bindings) -> ValueType {
        bind(&self.name, self.value_type.clone(), bindings)
    }
}

/// Puts sizes in the place of their names in the type of a value, which may be an input.
pub(crate) fn bind(name: &str, value_type: ValueType, bindings: &Bindings) -> ValueType {
    let mut bound = value_type.bind(bindings);
    for (axis, dim) in bound.shape.iter_mut().flatten().enumerate() {
        if let Dim::Unknown = dim
            && let Some(&size) = bindings.get(&size_name(name, axis))
        {
            *dim = Dim::Known(size);
        }
    }
    bound
}

/// The name that `--dim` takes for the size of an axis, if it has none of its own: `x.0` for the first
/// one of `x`.
fn size_name(input: &str, axis: usize) -> String {
    format!("{input}.{axis}")
}

/// Writes sizes into a model, in the place of their names, and where inputs have none.
pub(crate) fn write(model: &mut ModelProto, bindings: &Bindings) {
    if bindings.is_empty() {
        return;
    }
    revseq_onnx::bind_sizes(model, &|name| bindings.get(name).copied());
    let graph = model.graph.as_option_mut().into_iter();
    for input in graph.flat_map(|graph| &mut graph.input) {
        let shape = ValueType::declared(input).shape;
        for (axis, dim) in shape.into_iter().flatten().enumerate() {
            if let Dim::Unknown = dim
                && let Some(&size) = bindings.get(&size_name(input.name(), axis))
            {
                revseq_onnx::set_size(input, axis, size);
            }
        }
    }
}

impl Model {
    /// The sizes that `--dim` gives, by the names that inputs have for them, or as in `x.0` for the first
    /// dimension of `x`.
    ///
    /// # Errors
    /// There is no such size, or it has another value already.
    pub(crate) fn sizes(&self, dims: &[(String, u64)]) -> Result<Bindings> {
        self.sizes_among(dims, &self.input_symbols())
    }

    /// The same, with more symbols than those of the inputs.
    ///
    /// # Errors
    /// There is no such size, or it has another value already.
    pub(crate) fn sizes_among(
        &self,
        dims: &[(String, u64)],
        symbols: &BTreeSet<String>,
    ) -> Result<Bindings> {
        let inputs = self.inputs();
        let mut sizes = Bindings::new();
        for (name, size) in dims {
            let own_name = match symbols.contains(name) {
                true => name.clone(),
                false => match dimension(&inputs, name)? {
                    None => bail!("--dim {name}: {}", listed(&self.input_symbols(), symbols)),
                    Some((_, Dim::Symbol(symbol))) => symbol,
                    Some((_, Dim::Known(known))) => {
                        ensure!(known == *size, "--dim {name}={size}: it is {known}");
                        continue;
                    }
                    Some((unnamed, _)) => unnamed,
                },
            };
            ensure!(
                sizes.insert(own_name, *size).is_none(),
                "--dim {name}: it is given twice"
            );
        }
        Ok(sizes)
    }

    /// Whether `--dim` may name one of its sizes so.
    pub(crate) fn has_size(&self, name: &str) -> bool {
        let is_dimension = || !matches!(dimension(&self.inputs(), name), Ok(None));
        self.input_symbols().contains(name) || is_dimension()
    }
}

/// The dimension that a name such as `x.0` stands for, with that name; `None` if it is no such name.
fn dimension(inputs: &[Input], name: &str) -> Result<Option<(String, Dim)>> {
    let Some((input, dimension)) = name.rsplit_once('.') else {
        return Ok(None);
    };
    let input = inputs.iter().find(|other| other.name == input);
    let (Some(input), Ok(dimension)) = (input, dimension.parse::<usize>()) else {
        return Ok(None);
    };
    let shape = input.value_type.shape.as_deref();
    let Some(dim) = shape.and_then(|shape| shape.get(dimension)) else {
        bail!(
            "--dim {name}: input {:?} is {}, which has no dimension {dimension}",
            input.name,
            input.value_type
        );
    };
    Ok(Some((size_name(&input.name, dimension), dim.clone())))
}

/// The error of a size that the model does not have: names those of inputs, and counts others.
fn listed(of_inputs: &BTreeSet<String>, all: &BTreeSet<String>) -> String {
    let symbols: Vec<&String> = of_inputs.iter().collect();
    let known = match symbols.is_empty() {
        true => "none".to_owned(),
        false => first_of(&symbols, SHOWN),
    };
    let inner = match all.difference(of_inputs).count() {
        0 => String::new(),
        inner => format!(", and {inner} of values between its nodes"),
    };
    format!(
        "there is no symbolic size of that name; the model has {known}{inner}; INPUT.NUMBER stands for a \
         dimension of an input"
    )
}
