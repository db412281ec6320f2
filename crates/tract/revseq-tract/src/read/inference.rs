//! The types and shapes that tract infers of a model without its inputs.

use std::collections::HashMap;

use revseq_onnx::ModelProto;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::{Tensor as TensorType, Value as TypeValue};
use tract_onnx::pb::{GraphProto, TensorShapeProto, TypeProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{DimFact, InferenceFact, InferenceModelExt, ShapeFactoid};

use super::adapt::node_label;
use super::register::has_operator;
use super::seen::Seen;
use super::{Source, weights};
use crate::LoadOptions;
use crate::error::Error;
use crate::session::constant_inputs::graph_inputs;
use crate::session::values::{Size, ValueInfo};
use crate::session::words;

/// The types and shapes that tract infers of a model without its inputs.
#[derive(Debug)]
pub struct Inference {
    /// The inputs of the nodes of this project's operators.
    pub nodes: Vec<NodeFacts>,
    /// The main graph's outputs, in order; empty if tract does not read the model.
    pub outputs: Vec<InferenceFact>,
    /// The error that stopped the inference, if any.
    pub stopped: Option<Error>,
    /// Symbols have their names for as long as their scope lives.
    _symbols: SymbolScope,
}

/// The inputs of a node, as tract infers them.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The labels of the nodes and the names of the attributes that lead to the node, as in
    /// `graph/loop/body/reverse`.
    pub path: String,
    /// The name of the node's first output.
    pub output: String,
    /// The types and shapes of its inputs.
    pub inputs: Vec<InferenceFact>,
}

/// Infers the types and shapes of a model, with the sizes that are given by name; others stay
/// symbols. Data in other files is not read.
#[must_use]
pub fn infer(model: ModelProto, sizes: &HashMap<String, u64>, options: &LoadOptions) -> Inference {
    let (mut template, seen) = (options.template(), Seen::default());
    seen.watch(&mut template);
    let symbols = template.symbols.clone();
    let (source, lacking) = match Source::as_declared(model) {
        Ok(read) => read,
        Err(error) => {
            return Inference {
                nodes: vec![],
                outputs: vec![],
                stopped: Some(error),
                _symbols: symbols,
            };
        }
    };
    let inferred = crate::fence::catch(|| analyse(&source, sizes, template));

    let (outputs, error) = match inferred {
        Ok((outputs, error)) => (outputs, error),
        Err(error) => (vec![], Some(error)),
    };
    // The operators that tract lacks are more helpful than the place of the first error.
    let stopped = lacking.or_else(|| {
        let nodes = words::Nodes::of(source.graph(), source.opset());
        error.map(|error| words::of_preparation(error, &nodes))
    });
    let nodes = seen
        .take()
        .into_iter()
        .map(|((path, output), inputs)| NodeFacts {
            path,
            output,
            inputs,
        });
    Inference {
        nodes: nodes.collect(),
        outputs,
        stopped,
        _symbols: symbols,
    }
}

/// The outputs of the main graph, and the first error that inference went past.
fn analyse(
    source: &Source,
    sizes: &HashMap<String, u64>,
    template: InferenceModel,
) -> TractResult<(Vec<InferenceFact>, Option<TractError>)> {
    let symbols = template.symbols.clone();
    let mut declared: HashMap<String, ValueInfo> = HashMap::new();
    let mut names = Vec::new();
    let mut inference = source.parse(template, |graph| {
        leave_out_files(graph);
        mark(graph, "graph");
        let inputs = graph.input.iter();
        declared.extend(inputs.map(|it| (it.name.clone(), ValueInfo::declared(it, false))));
        names = graph_inputs(graph);
        Ok(())
    })?;
    for (index, name) in names.iter().enumerate() {
        if let Some(declared) = declared.get(name) {
            inference.set_input_fact(index, declared_fact(declared, sizes, &symbols))?;
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
        if !has_operator(&node.domain, &node.op_type) {
            node.op_type = format!("{}::{}", node.domain, node.op_type);
            node.output.retain(|output| !output.is_empty());
        }
    }
}

/// Makes inputs of the tensors in other files, which are not read for their shapes.
fn leave_out_files(graph: &mut GraphProto) {
    let (outside, inside) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition::<Vec<_>, _>(weights::is_in_file);
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

/// The declared type of an input, as a fact of tract's, with the sizes that are given by name.
pub(crate) fn declared_fact(
    declared: &ValueInfo,
    known: &HashMap<String, u64>,
    symbols: &SymbolScope,
) -> InferenceFact {
    let mut fact = InferenceFact::default();
    if let Some(datum_type) = declared.datum_type {
        fact = fact.with_datum_type(datum_type);
    }
    if let Some(sizes) = &declared.sizes {
        let sizes = sizes.iter().map(|size| match size {
            Size::Known(size) => DimFact::from(size.to_dim()),
            Size::Symbol(name) => match known.get(name) {
                Some(size) => DimFact::from(size.to_dim()),
                None => DimFact::from(symbols.sym(name).to_dim()),
            },
            Size::Unknown => DimFact::default(),
        });
        fact = fact.with_shape(ShapeFactoid::closed(sizes.collect()));
    }
    fact
}
