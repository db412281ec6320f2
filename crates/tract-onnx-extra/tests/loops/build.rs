//! Small ONNX models from text.
//!
//! A graph is a list of nodes, one per line: `y, z = Split<axis=0>(x)`. An attribute is an integer,
//! a float with a decimal point, a quoted string, a list of one of these, or the name of a graph:
//! `@body`.

use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

/// A graph, with parts that the text of its nodes cannot express.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    graphs: Vec<(String, GraphProto)>,
    opset: Option<i64>,
}

/// The names of a graph's nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Names {
    OfTheirOwn,
    /// The names of their first outputs.
    OfOutputs,
    None,
}

/// A graph: `graph("a b", "c", "c = Add(a, b)")`. An input of the main graph has a type:
/// `a:f32[N,2]`.
pub(crate) fn graph(inputs: &str, outputs: &str, nodes: &str) -> Graph {
    let values = |text: &str| text.split_whitespace().map(value).collect();
    Graph {
        inputs: values(inputs),
        outputs: values(outputs),
        nodes: nodes
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .enumerate()
            .map(|(index, line)| node(index, line))
            .collect(),
        ..Graph::default()
    }
}

impl Graph {
    /// Adds an initializer.
    pub(crate) fn constant(mut self, name: &str, tensor: impl IntoTensor) -> Self {
        self.constants
            .push(tensor_proto(name, &tensor.into_tensor()));
        self
    }

    /// Changes the version of the operators.
    pub(crate) fn opset(mut self, version: i64) -> Self {
        self.opset = Some(version);
        self
    }

    /// Renames the nodes.
    pub(crate) fn named(mut self, names: Names) -> Self {
        for node in &mut self.nodes {
            match names {
                Names::OfTheirOwn => {}
                Names::OfOutputs => node.name.clone_from(&node.output[0]),
                Names::None => node.name.clear(),
            }
        }
        self
    }

    /// Adds a graph that nodes may have as an attribute.
    pub(crate) fn with(mut self, name: &str, graph: Graph) -> Self {
        self.graphs.push((name.to_owned(), graph.into_proto()));
        self
    }

    pub(crate) fn into_proto(mut self) -> GraphProto {
        for attribute in self.nodes.iter_mut().flat_map(|node| &mut node.attribute) {
            if attribute.r#type == AttributeType::Graph as i32 {
                let name = String::from_utf8(attribute.s.split_off(0)).unwrap();
                let found = self.graphs.iter().find(|(known, _)| *known == name);
                attribute.g = Some(found.expect("the graph is there").1.clone());
            }
        }
        GraphProto {
            name: "graph".to_owned(),
            input: self.inputs,
            output: self.outputs,
            node: self.nodes,
            initializer: self.constants,
            ..GraphProto::default()
        }
    }

    pub(crate) fn into_model(self) -> ModelProto {
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: self.opset.unwrap_or(17),
            }],
            graph: Some(self.into_proto()),
            ..ModelProto::default()
        }
    }
}

/// `name` or `name:f32[N,2]`.
fn value(text: &str) -> ValueInfoProto {
    let (name, declared) = text.split_once(':').unwrap_or((text, ""));
    let tensor = declared.strip_suffix(']').map(|declared| {
        let (element, sizes) = declared.split_once('[').unwrap();
        let dim = sizes
            .split(',')
            .filter(|size| !size.is_empty())
            .map(|size| {
                let value = match size.parse() {
                    Ok(size) => dimension::Value::DimValue(size),
                    Err(_) => dimension::Value::DimParam(size.to_owned()),
                };
                Dimension {
                    value: Some(value),
                    ..Dimension::default()
                }
            });
        type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: data_type(element.parse().unwrap()) as i32,
            shape: Some(TensorShapeProto { dim: dim.collect() }),
        })
    });
    ValueInfoProto {
        name: name.to_owned(),
        r#type: tensor.map(|tensor| TypeProto {
            value: Some(tensor),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}

/// `y, z = Split<axis=0>(x)`, with `_` for an omitted name, and `domain::Operator` for one outside of
/// ONNX's own domain.
fn node(index: usize, text: &str) -> NodeProto {
    let (outputs, call) = text.split_once('=').unwrap();
    let (operator, inputs) = call
        .trim()
        .strip_suffix(')')
        .unwrap()
        .rsplit_once('(')
        .unwrap();
    let (op_type, attributes) = match operator.split_once('<') {
        None => (operator, ""),
        Some((op_type, attributes)) => (op_type, attributes.strip_suffix('>').unwrap()),
    };
    let (domain, op_type) = op_type.rsplit_once("::").unwrap_or(("", op_type));
    let names = |text: &str| {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names
            .map(|name| {
                if name == "_" {
                    String::new()
                } else {
                    name.to_owned()
                }
            })
            .collect()
    };
    NodeProto {
        domain: domain.to_owned(),
        op_type: op_type.to_owned(),
        name: format!("{op_type}{index}"),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes
            .split(';')
            .filter(|attribute| !attribute.is_empty())
            .map(attribute)
            .collect(),
        ..NodeProto::default()
    }
}

fn attribute(text: &str) -> AttributeProto {
    let (name, value) = text.split_once('=').unwrap();
    let attribute = AttributeProto {
        name: name.to_owned(),
        ..AttributeProto::default()
    };
    if let Some(graph) = value.strip_prefix('@') {
        AttributeProto {
            r#type: AttributeType::Graph as i32,
            // A placeholder until the graphs are known.
            s: graph.as_bytes().to_vec(),
            ..attribute
        }
    } else if let Some(list) = value.strip_prefix('[') {
        let list = list.strip_suffix(']').unwrap().split(',').map(str::trim);
        let list: Vec<&str> = list.collect();
        let code = |kind: AttributeType| kind as i32;
        if value.contains('"') {
            let strings = list
                .iter()
                .map(|it| it.trim_matches('"').as_bytes().to_vec());
            AttributeProto {
                r#type: code(AttributeType::Strings),
                strings: strings.collect(),
                ..attribute
            }
        } else if value.contains('.') {
            AttributeProto {
                r#type: code(AttributeType::Floats),
                floats: list.iter().map(|it| it.parse().unwrap()).collect(),
                ..attribute
            }
        } else {
            AttributeProto {
                r#type: code(AttributeType::Ints),
                ints: list.iter().map(|it| it.parse().unwrap()).collect(),
                ..attribute
            }
        }
    } else if let Some(string) = value.strip_prefix('"') {
        AttributeProto {
            r#type: AttributeType::String as i32,
            s: string.trim_end_matches('"').as_bytes().to_vec(),
            ..attribute
        }
    } else if value.contains('.') {
        AttributeProto {
            r#type: AttributeType::Float as i32,
            f: value.parse().unwrap(),
            ..attribute
        }
    } else {
        AttributeProto {
            r#type: AttributeType::Int as i32,
            i: value.parse().unwrap(),
            ..attribute
        }
    }
}

pub(crate) fn data_type(datum_type: DatumType) -> DataType {
    match datum_type {
        DatumType::Bool => DataType::Bool,
        DatumType::U8 => DataType::Uint8,
        DatumType::U16 => DataType::Uint16,
        DatumType::U32 => DataType::Uint32,
        DatumType::U64 => DataType::Uint64,
        DatumType::I8 => DataType::Int8,
        DatumType::I16 => DataType::Int16,
        DatumType::I32 => DataType::Int32,
        DatumType::I64 => DataType::Int64,
        DatumType::F16 => DataType::Float16,
        DatumType::F32 => DataType::Float,
        DatumType::F64 => DataType::Double,
        DatumType::String => DataType::String,
        other => panic!("{other:?} is not one of ONNX's types"),
    }
}

fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let raw_data = match tensor.datum_type() {
        DatumType::Bool => bytes::<bool>(tensor, |it| vec![u8::from(*it)]),
        DatumType::I64 => bytes::<i64>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::I32 => bytes::<i32>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::F32 => bytes::<f32>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::F64 => bytes::<f64>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::F16 => bytes::<f16>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::I8 => bytes::<i8>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::U8 => bytes::<u8>(tensor, |it| vec![*it]),
        DatumType::I16 => bytes::<i16>(tensor, |it| it.to_le_bytes().to_vec()),
        DatumType::U16 => bytes::<u16>(tensor, |it| it.to_le_bytes().to_vec()),
        other => panic!("{other:?} is not needed as a constant"),
    };
    TensorProto {
        name: name.to_owned(),
        dims: tensor.shape().iter().map(|&size| size as i64).collect(),
        data_type: data_type(tensor.datum_type()) as i32,
        raw_data,
        ..TensorProto::default()
    }
}

fn bytes<T: Datum>(tensor: &Tensor, each: impl Fn(&T) -> Vec<u8>) -> Vec<u8> {
    let view = tensor.to_plain_array_view::<T>().unwrap();
    view.iter().flat_map(each).collect()
}

/// tract's loader with Loop.
pub(crate) fn onnx() -> tract_onnx::Onnx {
    let mut onnx = tract_onnx::onnx();
    tract_onnx_extra::register(&mut onnx);
    onnx
}

/// The ways to know the size of a vector `x`: as a number, as a symbol, and from data. Each with its
/// inputs for these elements.
pub(crate) fn kinds(
    inputs: &str,
    outputs: &str,
    nodes: &str,
    elements: &[f32],
) -> [(Graph, Vec<Tensor>); 3] {
    let count = elements.len();
    let given = |size: &str| graph(&format!("x:f32[{size}] {inputs}"), outputs, nodes);
    let mut all = elements.to_vec();
    all.extend([7., -7.]);
    let mut kept = vec![true; count];
    kept.extend([false; 2]);
    let picked = graph(
        &format!("all:f32[M] kept:bool[M] {inputs}"),
        outputs,
        &format!("x = Compress<axis=0>(all, kept)\n{nodes}"),
    );
    [
        (given(&count.to_string()), vec![tensor1(elements)]),
        (given("N"), vec![tensor1(elements)]),
        (picked, vec![tensor1(&all), tensor1(&kept)]),
    ]
}

/// Runs one plan for several inputs, and again in the reverse order, optimised by this crate. The
/// outputs are those of the first runs.
pub(crate) fn run_each(graph: Graph, inputs: &[Vec<Tensor>]) -> TractResult<Vec<Vec<Tensor>>> {
    let plan = tract_onnx_extra::into_optimized(parse(graph)?.into_typed()?)?.into_runnable()?;
    let mut state = plan.spawn()?;
    let mut found: Vec<Vec<Tensor>> = vec![];
    for inputs in inputs {
        let outputs = plan.run(values(inputs))?;
        found.push(outputs.into_iter().map(IntoTensor::into_tensor).collect());
    }
    let there = 0..inputs.len();
    for at in there.clone().chain(there.rev()) {
        assert_close(&state.run(values(&inputs[at]))?, &found[at]);
    }
    Ok(found)
}

/// Runs a model, optimised by this crate: its sizes may come from values that nothing reads.
pub(crate) fn run_optimized(graph: Graph, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
    let mut found = run_each(graph, &[inputs.to_vec()])?;
    Ok(found.pop().unwrap_or_default())
}

/// Parses a model with tract, with layers instead of the loops that are layers.
pub(crate) fn parse(graph: Graph) -> TractResult<InferenceModel> {
    parse_model(&with_layers(graph.into_model())?)
}

/// Parses a model as it is.
fn parse_model(model: &ModelProto) -> TractResult<InferenceModel> {
    let parsed = onnx().parse(model, None)?;
    assert_eq!(parsed.unresolved_inputs, Vec::<String>::new());
    Ok(parsed.model)
}

/// The model after the pass that finds layers, as revseq-tract reads it.
fn with_layers(model: ModelProto) -> TractResult<ModelProto> {
    let nodes = &model.graph.as_ref().unwrap().node;
    if !nodes
        .iter()
        .any(|it| it.op_type == "Loop" || it.op_type == "Scan")
    {
        return Ok(model);
    }
    let mut changed = revseq_rewrite::revseq_onnx::decode(&model.encode_to_vec())?;
    revseq_rewrite::revseq_onnx::tensor::all_to_raw(&mut changed)?;
    revseq_rewrite::layers_for_tract(&mut changed)?;
    let changed = revseq_rewrite::revseq_onnx::encode(&changed)?;
    Ok(ModelProto::decode(&*changed)?)
}

/// A run of a model step by step: the trip counts of its loops get a zero out of its first input, so
/// that they come from data.
pub(crate) fn step_by_step(
    graph: Graph,
) -> TractResult<impl Fn(TVec<TValue>) -> TractResult<TVec<TValue>>> {
    let mut model = graph.into_model();
    let graph = model.graph.as_mut().unwrap();
    let data = graph.input[0].name.clone();
    let zero = [
        format!("%truths = Cast<to=9>({data})"),
        "%numbers = Cast<to=7>(%truths)".to_owned(),
        "%count = ReduceSum<keepdims=0>(%numbers)".to_owned(),
        "%none = Sub(%count, %count)".to_owned(),
    ];
    let mut nodes: Vec<NodeProto> = vec![];
    nodes.extend(
        zero.iter()
            .enumerate()
            .map(|(at, text)| node(1000 + at, text)),
    );
    for (at, mut own) in std::mem::take(&mut graph.node).into_iter().enumerate() {
        if own.op_type == "Loop" {
            nodes.push(node(
                2000 + at,
                &format!("%trips{at} = Add({}, %none)", own.input[0]),
            ));
            own.input[0] = format!("%trips{at}");
        }
        nodes.push(own);
    }
    graph.node = nodes;
    let model = onnx().parse(&model, None)?.model.optimized()?;
    assert!(ops(&model).iter().any(|op| op == "Loop"));
    let model = model.into_runnable()?;
    Ok(move |inputs| model.run(inputs))
}

/// Models as sessions run them: optimised by this crate's passes.
pub(crate) trait Optimize {
    fn optimized(self) -> TractResult<TypedModel>;
}

impl Optimize for InferenceModel {
    fn optimized(self) -> TractResult<TypedModel> {
        tract_onnx_extra::into_typed(self)?.optimized()
    }
}

impl Optimize for TypedModel {
    fn optimized(self) -> TractResult<TypedModel> {
        tract_onnx_extra::into_optimized(self)
    }
}

/// Runs a model as it is, optimised by this crate, as its users have it, and by tract. The outputs are the
/// same except for the order of sums in matrix products, and for Sigmoid and Tanh of fused steps.
pub(crate) fn run(graph: Graph, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
    let outputs = run_once(graph.clone(), inputs)?;
    // One run must not affect the next.
    for optimized in [
        parse(graph.clone())?.optimized()?,
        parse(graph)?.into_optimized()?,
    ] {
        let mut state = optimized.into_runnable()?.spawn()?;
        for _ in 0..2 {
            let again = state.run(values(inputs))?;
            assert_close(&again, &outputs);
        }
    }
    Ok(outputs)
}

/// The same for models that tract's own Scan changes at the second run.
pub(crate) fn run_once(graph: Graph, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
    let model = graph.clone().into_model();
    let plain = parse_model(&model)?.into_typed()?;
    let plain = plain.into_runnable()?.run(values(inputs))?;
    let optimized = parse(graph)?.optimized()?.into_runnable()?;
    let plain: Vec<Tensor> = plain.into_iter().map(IntoTensor::into_tensor).collect();
    assert_close(&optimized.run(values(inputs))?, &plain);
    Ok(plain)
}

#[track_caller]
fn assert_close(found: &[TValue], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in std::iter::zip(found, expected) {
        // Strings are not close to each other.
        if **found != *expected {
            let close = Approximation::Custom(1e-6, 2e-6, 0.);
            found.close_enough(expected, close).unwrap();
        }
    }
}

fn values(inputs: &[Tensor]) -> TVec<TValue> {
    inputs.iter().map(|it| it.clone().into_tvalue()).collect()
}

/// The ops of a model, without loop bodies.
pub(crate) fn ops(model: &TypedModel) -> Vec<String> {
    model
        .nodes()
        .iter()
        .map(|node| node.op.name().into_owned())
        .collect()
}
