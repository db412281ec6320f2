//! The types and shapes of our nodes' inputs, as tract infers them.
//!
//! Inference also visits nodes in bodies of If, Loop and Scan, repeatedly and
//! under different assumptions, and discards the results. So the facts are
//! recorded when it visits a node; the last visit counts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use anyhow::{Context, Result};
use revseq_tract::LoadOptions;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::{Tensor as TensorType, Value as TypeValue};
use tract_onnx::pb::{GraphProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{
    DimFact, InferenceFact, InferenceModel, InferenceModelExt, ShapeFactoid,
};
use tract_onnx::tract_hir::internal::*;

use super::convert::{datum_type, element_type};
use super::{
    Form, LOOP_LIMITS, NoFiles, adapt, fenced, graph_inputs, lacks, node_names, operators, refusal,
};
use crate::chain;
use crate::model::values::{Dim, ValueType};
use crate::model::walk::Site;
use crate::model::{Bindings, Model, for_each_tensor, node_label};
use crate::tensor::pb;

/// A node by its path in the model and its first output, which distinguishes
/// nodes of the same name.
pub(super) type Key = (String, String);

thread_local! {
    /// The facts that the inference on this thread has recorded; `None` if it does not record.
    static SEEN: RefCell<Option<HashMap<Key, Vec<InferenceFact>>>> = const { RefCell::new(None) };
}

/// The key of one of our nodes that [`mark`] has visited.
pub(super) fn key(node: &NodeProto) -> Option<Key> {
    if !revseq_graph::Operator::is_known(&node.domain, &node.op_type) {
        return None;
    }
    Some((node.doc_string.clone(), node.output.first()?.clone()))
}

/// Whether the inference on this thread is for its own sake, and nothing is to run.
pub(super) fn is_watched() -> bool {
    SEEN.with_borrow(Option::is_some)
}

/// Records the facts of a node's inputs.
pub(super) fn record(key: &Key, inputs: &[&InferenceFact]) {
    SEEN.with_borrow_mut(|seen| {
        if let Some(seen) = seen {
            let inputs = inputs.iter().map(|&input| input.clone());
            seen.insert(key.clone(), inputs.collect());
        }
    });
}

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
    let template = InferenceModel::default();
    // Symbols have their names for as long as their scope lives.
    let _scope = template.symbols.clone();
    SEEN.set(Some(HashMap::new()));
    let form = Form::of(model);
    let inferred = match &form {
        Ok(form) => fenced(|| infer(form, bindings, template)),
        Err(_) => Ok((Vec::new(), None)),
    };
    let seen = SEEN.take().unwrap_or_default();

    let names = model.input_symbols();
    let all = |facts: Vec<InferenceFact>| -> Vec<ValueType> {
        facts.iter().map(|fact| value_type(fact, &names)).collect()
    };
    let mut nodes: HashMap<String, Vec<_>> = HashMap::new();
    for ((path, output), inputs) in seen {
        nodes.entry(path).or_default().push((output, all(inputs)));
    }
    let (outputs, error) = match inferred {
        Ok((outputs, error)) => (all(outputs), error),
        Err(error) => (vec![], Some(error)),
    };
    // The operators that tract lacks are more helpful than the place of the first error.
    let stopped = match form.and_then(|form| lacks(&form)) {
        Ok(Some(lacking)) => Some(lacking),
        Ok(None) => error.map(|error| {
            chain(&refusal::in_words_of_onnx(
                error,
                &node_names(model.graph()),
            ))
        }),
        Err(error) => Some(format!("{error:#}")),
    };
    Shapes {
        nodes,
        outputs,
        stopped,
    }
}

/// The outputs of the main graph, and the first error that inference went past.
fn infer(
    model: &Model,
    bindings: &Bindings,
    template: InferenceModel,
) -> Result<(Vec<InferenceFact>, Option<TractError>)> {
    let mut proto = model.proto.clone();
    proto.functions.clear();
    for_each_tensor(&mut proto, &mut pb::normalize)?;
    let graph = proto.graph.as_mut().context("the model has no graph")?;
    leave_out_files(graph);
    mark(graph, "graph");
    let declared: HashMap<String, ValueType> = graph
        .input
        .iter()
        .map(|input| {
            let declared = ValueType::declared(input).bind(bindings);
            (input.name.clone(), declared)
        })
        .collect();
    adapt::adapt(graph, &BTreeMap::new(), bindings);
    let mut onnx = tract_onnx::onnx().with_ignore_value_info(true);
    onnx.provider = Arc::new(NoFiles);
    onnx.op_register = operators::bounded_operators();
    let symbols = template.symbols.clone();
    let parsed = LoadOptions::new()
        .with_limits(LOOP_LIMITS)
        .load(|| onnx.parse_with_template(&proto, None, template))?;
    let mut inference = parsed.model;
    for (index, name) in graph_inputs(&proto).iter().enumerate() {
        if let Some(declared) = declared.get(name) {
            inference.set_input_fact(index, fact(declared, &symbols)?)?;
        }
    }
    let error = inference.analyse(true).err();
    let outputs = inference.output_outlets()?.iter();
    let outputs = outputs
        .map(|&outlet| inference.outlet_fact(outlet).cloned())
        .collect::<TractResult<_>>()?;
    Ok((outputs, error))
}

/// Names every node after its path, to recognise it later. Operators that tract lacks get a
/// name that it does not mistake for one that it has.
fn mark(graph: &mut GraphProto, path: &str) {
    for (index, node) in graph.node.iter_mut().enumerate() {
        node.name = node_label(index, node);
        let path = format!("{path}/{}", node.name);
        for attribute in &mut node.attribute {
            let path = format!("{path}/{}", attribute.name);
            for inner in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                mark(inner, &path);
            }
        }
        node.doc_string = path;
        if !operators::has_operator(&node.domain, &node.op_type) {
            node.op_type = format!("{}::{}", node.domain, node.op_type);
            node.output.retain(|output| !output.is_empty());
        }
    }
}

/// Makes inputs of the tensors in other files, which are not read for their shapes.
fn leave_out_files(graph: &mut GraphProto) {
    let (outside, inside) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition::<Vec<_>, _>(pb::is_external);
    graph.initializer = inside;
    for tensor in outside {
        if graph.input.iter().any(|input| input.name == tensor.name) {
            continue;
        }
        let dim = tensor.dims.iter().map(|&size| Dimension {
            value: Some(DimValue::DimValue(size)),
            ..Dimension::default()
        });
        let value = TypeValue::TensorType(TensorType {
            elem_type: tensor.data_type,
            shape: Some(TensorShapeProto { dim: dim.collect() }),
        });
        graph.input.push(ValueInfoProto {
            name: tensor.name,
            r#type: Some(TypeProto {
                value: Some(value),
                ..TypeProto::default()
            }),
            ..ValueInfoProto::default()
        });
    }
}

/// The declared type of an input, as a fact of tract's.
fn fact(declared: &ValueType, symbols: &SymbolScope) -> Result<InferenceFact> {
    let mut fact = InferenceFact::default();
    if let Some(element_type) = declared.known_element_type() {
        fact = fact.with_datum_type(datum_type(element_type)?);
    }
    if let Some(shape) = &declared.shape {
        let dims = shape.iter().map(|dim| match dim {
            Dim::Known(size) => DimFact::from(size.to_dim()),
            Dim::Symbol(name) => DimFact::from(symbols.sym(name).to_dim()),
            Dim::Computed { .. } | Dim::Unknown => DimFact::default(),
        });
        fact = fact.with_shape(ShapeFactoid::closed(dims.collect()));
    }
    Ok(fact)
}

/// The type that tract infers for a value, with the model's names for sizes. Names that
/// tract makes up are dropped.
pub(super) fn value_type(fact: &InferenceFact, names: &BTreeSet<String>) -> ValueType {
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
            .and_then(element_type)
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
