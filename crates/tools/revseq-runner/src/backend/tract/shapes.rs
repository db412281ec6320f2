//! The types and shapes of our nodes' inputs, as tract infers them.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;
use revseq_onnx::{ModelProto, tensor};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{Factoid, InferenceFact};

use super::{in_words, options};
use crate::fence::quietly;
use crate::model::values::{Dim, ValueType};
use crate::model::walk::Site;
use crate::model::{Bindings, Model};

/// The types and shapes that tract infers of a model without its inputs.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    /// The inputs of our nodes, by path, with their first outputs.
    nodes: HashMap<String, Vec<(String, Vec<ValueType>)>>,
    /// The main graph's outputs, in order; empty if tract cannot read the model.
    outputs: Vec<ValueType>,
    /// The error that stopped the inference, if any.
    pub(crate) stopped: Option<String>,
}

impl Shapes {
    /// The shapes of a model without nodes of ours, whose outputs' types a plan has.
    pub(crate) fn of_outputs(outputs: Vec<ValueType>) -> Self {
        Self {
            outputs,
            ..Self::default()
        }
    }

    /// Adds the inferred types and shapes to those that the model gives for a node.
    pub(crate) fn refine(&self, site: &mut Site<'_>) {
        let found = match self.nodes.get(&site.path).map(Vec::as_slice) {
            // A node in a function outputs other values once the function is inlined.
            Some([found]) => Some(found),
            Some(several) => several
                .iter()
                .find(|(output, _)| Some(output) == site.node.output.first()),
            None => None,
        };
        let Some((_, inputs)) = found else {
            return;
        };
        for (value, known) in std::iter::zip(&mut site.inputs, inputs) {
            *value = known.clone().or(std::mem::take(value));
        }
        // Reversing keeps type and shape.
        if let (Some(output), Some(data)) = (site.outputs.first_mut(), inputs.first()) {
            *output = data.clone().or(std::mem::take(output));
        }
    }

    /// The type of an output of the main graph, inferred and declared.
    pub(crate) fn output(&self, index: usize, declared: ValueType) -> ValueType {
        let known = self.outputs.get(index).cloned().unwrap_or_default();
        known.or(declared)
    }
}

/// Infers types and shapes with the sizes that are given; others keep their names.
pub(crate) fn shapes(model: &Model, bindings: &Bindings) -> Shapes {
    infer(model, bindings).unwrap_or_else(|error| Shapes {
        stopped: Some(format!("{error:#}")),
        ..Shapes::default()
    })
}

fn infer(model: &Model, bindings: &Bindings) -> Result<Shapes> {
    let mut proto = ModelProto::clone(&model.proto);
    tensor::all_to_raw(&mut proto)?;
    let inferred = quietly(|| revseq_tract::infer(proto, bindings, &options()));
    let names = model.input_symbols();
    let all = |facts: &[InferenceFact]| -> Vec<ValueType> {
        facts.iter().map(|fact| value_type(fact, &names)).collect()
    };
    let mut nodes: HashMap<String, Vec<_>> = HashMap::new();
    for node in &inferred.nodes {
        let inputs = (node.output.clone(), all(&node.inputs));
        nodes.entry(node.path.clone()).or_default().push(inputs);
    }
    Ok(Shapes {
        nodes,
        outputs: all(&inferred.outputs),
        stopped: inferred.stopped.map(|error| in_words(&error).to_string()),
    })
}

/// The types of the outputs of a plan's model.
pub(super) fn of_outputs(model: &TypedModel, names: &BTreeSet<String>) -> Vec<ValueType> {
    let outlets = model.output_outlets().unwrap_or_default().iter();
    let facts = outlets.map(|outlet| model.outlet_fact(*outlet));
    facts
        .map(|fact| {
            let fact = fact.map(InferenceFact::from).unwrap_or_default();
            value_type(&fact, names)
        })
        .collect()
}

/// The type that tract infers for a value, with the model's names for sizes. Names that
/// tract makes up are dropped.
fn value_type(fact: &InferenceFact, names: &BTreeSet<String>) -> ValueType {
    let known = fact.datum_type.concretize();
    let shape = (!fact.shape.is_open()).then(|| {
        let dims = fact.shape.dims();
        dims.map(|dim| {
            dim.concretize()
                .map_or(Dim::Unknown, |dim| size(&dim, names))
        })
        .collect()
    });
    ValueType {
        element_type: known
            .and_then(revseq_tract::element_type)
            .map(revseq_graph::ElementType::onnx_code),
        shape,
    }
}

fn size(dim: &TDim, names: &BTreeSet<String>) -> Dim {
    if let Ok(size) = dim.to_i64() {
        return u64::try_from(size).map_or(Dim::Unknown, Dim::Known);
    }
    let text = dim.to_string();
    let symbols: BTreeSet<String> = dim.symbols().iter().map(Symbol::to_string).collect();
    if !symbols.is_subset(names) {
        Dim::Unknown
    } else if names.contains(&text) {
        Dim::Symbol(text)
    } else {
        Dim::Computed {
            text,
            symbols: symbols.into_iter().collect(),
        }
    }
}
