//! Small ONNX models from text, and how they run.

use prost::Message;
use revseq_rewrite::revseq_onnx;
use revseq_rewrite::revseq_onnx::model::{GraphProto, NodeProto, TensorProto};
use revseq_test_models::text;
use revseq_tract_operators::{Limits, LoadOptions};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

/// A graph, with parts that the text of its nodes cannot express.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    proto: GraphProto,
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

/// A graph: `graph("a b", "c", "c = Add(a, b)")`, whose nodes may read literals. An input of the main graph
/// has a type: `a:f32[N,2]`.
pub(crate) fn graph(inputs: &str, outputs: &str, nodes: &str) -> Graph {
    let lines = nodes.lines().map(str::trim).filter(|it| !it.is_empty());
    let nodes = lines.enumerate().map(|(index, line)| node(index, line));
    let mut nodes: Vec<NodeProto> = nodes.collect();
    Graph {
        proto: GraphProto {
            name: Some("graph".to_owned()),
            input: text::values(inputs),
            output: text::values(outputs),
            initializer: text::take_literals(&mut nodes),
            node: nodes,
            ..GraphProto::default()
        },
        ..Graph::default()
    }
}

/// A node that is named after its operator and place.
fn node(index: usize, line: &str) -> NodeProto {
    let node = text::node(line);
    NodeProto {
        name: Some(format!("{}{index}", node.op())),
        ..node
    }
}

/// The graph of a text with the graphs in it, as [`text::graph`] reads it, and the names of nodes as above.
pub(crate) fn whole(text: &str) -> Graph {
    fn name_nodes(graph: &mut GraphProto) {
        for (index, node) in graph.node.iter_mut().enumerate() {
            node.name = Some(format!("{}{index}", node.op()));
            node.graphs_mut().for_each(name_nodes);
        }
    }
    let mut graph = text::graph(text);
    name_nodes(&mut graph);
    graph.into()
}

/// Runs the model of a text on each row of inputs, which says what it outputs: `1.0, [2 3] => 4.0`; or why it
/// fails: `1.0, [2 3] => ! of 3 elements`.
#[track_caller]
pub(crate) fn examples(model: &str, rows: &str) {
    for (given, expected) in text::rows(rows) {
        let all = |text: &str| -> Vec<Tensor> { text.split(", ").map(value).collect() };
        let found = run(whole(model), &all(&given));
        if let Some(why) = expected.strip_prefix("! ") {
            fails(found, why);
            continue;
        }
        let found = found.unwrap_or_else(|error| panic!("{given}: {error:?}"));
        assert_eq!(found, all(expected), "{given}");
    }
}

/// Checks why models with these constants are refused before they run, each as [`whole`] reads it:
/// `x:f32[2] -> y`, its nodes, and `=> of 1 axis`.
#[track_caller]
pub(crate) fn refused(models: &str, constants: impl Fn(Graph) -> Graph) {
    for (model, why) in text::rows(models) {
        let model = constants(whole(&model));
        fails(parse(model).and_then(InferenceModel::into_typed), why);
    }
}

/// A tensor of a literal, and of its sizes if it has several axes: `[1 2 3 4]@2x2`. One element fills it.
pub(crate) fn value(text: &str) -> Tensor {
    let (literal, sizes) = text.split_once('@').unwrap_or((text, ""));
    let proto = text::literal(literal).unwrap_or_else(|| panic!("{literal} is no literal"));
    let raw = proto.raw_data.unwrap_or_default();
    let flat = match proto.data_type {
        Some(1) => DatumType::F32,
        Some(2) => DatumType::U8,
        Some(3) => DatumType::I8,
        Some(4) => DatumType::U16,
        Some(5) => DatumType::I16,
        Some(6) => DatumType::I32,
        Some(7) => DatumType::I64,
        Some(9) => DatumType::Bool,
        Some(11) => DatumType::F64,
        other => panic!("{other:?} has no tensor"),
    };
    let shape: Vec<usize> = match sizes {
        "" => proto.dims.iter().map(|&size| size as usize).collect(),
        sizes => sizes.split('x').map(|it| it.parse().unwrap()).collect(),
    };
    let mut tensor = Tensor::zero_dt(flat, &shape).unwrap();
    let bytes = tensor.as_bytes_mut();
    let raw = raw.repeat(bytes.len() / raw.len().max(1));
    bytes.copy_from_slice(&raw);
    tensor
}

impl From<GraphProto> for Graph {
    fn from(proto: GraphProto) -> Self {
        Self {
            proto,
            ..Self::default()
        }
    }
}

impl Graph {
    /// Adds an initializer.
    pub(crate) fn constant(mut self, name: &str, tensor: impl IntoTensor) -> Self {
        let constant = tensor_proto(name, &tensor.into_tensor());
        self.proto.initializer.push(constant);
        self
    }

    /// Adds constants, which nodes need not read: `zero = 0, pads = [0 1]`.
    pub(crate) fn constants(self, text: &str) -> Self {
        let each = text.split(", ").map(|it| it.split_once(" = ").unwrap());
        each.fold(self, |graph, (name, of)| graph.constant(name, value(of)))
    }

    /// Changes the version of the operators.
    pub(crate) fn opset(mut self, version: i64) -> Self {
        self.opset = Some(version);
        self
    }

    /// Renames the nodes.
    pub(crate) fn named(mut self, names: Names) -> Self {
        for node in &mut self.proto.node {
            match names {
                Names::OfTheirOwn => {}
                Names::OfOutputs => node.name = Some(node.output[0].clone()),
                Names::None => node.name = None,
            }
        }
        self
    }

    /// Adds a graph that nodes may have as an attribute.
    pub(crate) fn with(mut self, name: &str, graph: Graph) -> Self {
        self.graphs.push((name.to_owned(), graph.into_proto()));
        self
    }

    fn into_proto(self) -> GraphProto {
        let Self {
            mut proto, graphs, ..
        } = self;
        for node in &mut proto.node {
            text::attach(node, |name| {
                let found = graphs.iter().find(|(known, _)| known == name);
                found.map(|(_, graph)| graph.clone())
            });
        }
        proto
    }

    pub(crate) fn into_model(self) -> ModelProto {
        let opset = self.opset.unwrap_or(17);
        let bytes = text::model(self.into_proto(), opset);
        ModelProto::decode(&*bytes).unwrap()
    }
}

fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let code = text::code_of(&format!("{:?}", tensor.datum_type()).to_lowercase());
    text::tensor(name, code, tensor.shape(), tensor.as_bytes().to_vec())
}

/// tract's loader with Loop.
pub(crate) fn onnx() -> tract_onnx::Onnx {
    let mut onnx = tract_onnx::onnx();
    revseq_tract_operators::register(&mut onnx);
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
    let plan = |model: InferenceModel| model.optimized()?.into_runnable();
    let programs = plan(parse_with_programs(graph.clone())?)?;
    let plan = plan(parse(graph)?)?;
    let mut state = plan.spawn()?;
    let mut found: Vec<Vec<Tensor>> = vec![];
    for inputs in inputs {
        let outputs = plan.run(values(inputs))?;
        found.push(outputs.into_iter().map(IntoTensor::into_tensor).collect());
    }
    for (inputs, found) in std::iter::zip(inputs, &found) {
        assert_close(&programs.run(values(inputs))?, found);
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

/// Parses a model with tract, with layers instead of the loops that are layers. Other loops run as this
/// crate's and tract's own.
pub(crate) fn parse(graph: Graph) -> TractResult<InferenceModel> {
    parse_with(LoadOptions::new().with_programs(false), graph)
}

/// The same within limits.
pub(crate) fn parse_within(limits: Limits, graph: Graph) -> TractResult<InferenceModel> {
    let options = LoadOptions::new().with_limits(limits);
    parse_with(options.with_programs(false), graph)
}

/// The same, whose loops run as programs if they can.
pub(crate) fn parse_with_programs(graph: Graph) -> TractResult<InferenceModel> {
    parse_with(LoadOptions::new(), graph)
}

/// The same with these options.
pub(crate) fn parse_with(options: LoadOptions, graph: Graph) -> TractResult<InferenceModel> {
    parse_model(&with_layers(graph.into_model())?, options)
}

/// Parses a model as it is.
fn parse_model(model: &ModelProto, options: LoadOptions) -> TractResult<InferenceModel> {
    let parsed = onnx().parse_with_template(model, None, options.template())?;
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
    let mut changed = revseq_onnx::decode(&model.encode_to_vec())?;
    revseq_onnx::tensor::all_to_raw(&mut changed)?;
    revseq_rewrite::layers_for_tract(&mut changed)?;
    let changed = revseq_onnx::encode(&changed)?;
    Ok(ModelProto::decode(&*changed)?)
}

/// A run of a model whose loops are no layers.
pub(crate) fn without_layers(
    graph: Graph,
) -> TractResult<impl Fn(TVec<TValue>) -> TractResult<TVec<TValue>>> {
    let options = LoadOptions::new().with_programs(true);
    let model = parse_model(&graph.into_model(), options)?.optimized()?;
    assert!(ops(&model).iter().any(|op| op == "Program"));
    let model = model.into_runnable()?;
    Ok(move |inputs| model.run(inputs))
}

/// Models as sessions run them: optimised by this crate's passes.
pub(crate) trait Optimize {
    fn optimized(self) -> TractResult<TypedModel>;
}

impl Optimize for InferenceModel {
    fn optimized(self) -> TractResult<TypedModel> {
        revseq_tract_operators::into_typed(self)?.optimized()
    }
}

impl Optimize for TypedModel {
    fn optimized(self) -> TractResult<TypedModel> {
        revseq_tract_operators::into_optimized(self)
    }
}

/// Runs a model as it is, optimised by this crate, as its users have it, and by tract. The outputs are the
/// same except for the order of sums in matrix products.
pub(crate) fn run(graph: Graph, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
    let outputs = run_once(graph.clone(), inputs)?;
    // One run must not affect the next.
    for optimized in [
        parse(graph.clone())?.optimized()?,
        parse(graph.clone())?.into_optimized()?,
        parse_with_programs(graph)?.optimized()?,
    ] {
        let mut state = optimized.into_runnable()?.spawn()?;
        for _ in 0..2 {
            let again = state.run(values(inputs))?;
            assert_close(&again, &outputs);
        }
    }
    Ok(outputs)
}

/// The same without tract's own optimizer, which never ends for some models, in one run.
pub(crate) fn run_once(graph: Graph, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
    let model = graph.clone().into_model();
    let plain = parse_model(&model, LoadOptions::new().with_programs(false))?.into_typed()?;
    let plain = plain.into_runnable()?.run(values(inputs))?;
    let plain: Vec<Tensor> = plain.into_iter().map(IntoTensor::into_tensor).collect();
    for optimized in [parse(graph.clone())?, parse_with_programs(graph)?] {
        let optimized = optimized.optimized()?.into_runnable()?;
        assert_close(&optimized.run(values(inputs))?, &plain);
    }
    Ok(plain)
}

/// Numbers of a type, its least and most among them.
pub(crate) fn bytes(shape: &[usize], is_signed: bool, seed: usize) -> Tensor {
    let number = |it: usize| match (it * 31 + seed) % 5 {
        0 => 0_u8,
        1 => u8::MAX,
        2 => 1 << 7,
        _ => (it * 89 + seed * 13) as u8,
    };
    let raw: Vec<u8> = (0..shape.iter().product()).map(number).collect();
    let signed: Vec<i8> = raw.iter().map(|it| *it as i8).collect();
    match is_signed {
        true => Tensor::from_shape(shape, &signed).unwrap(),
        false => Tensor::from_shape(shape, &raw).unwrap(),
    }
}

/// Asserts that a result is an error that says why, itself or as a cause.
#[track_caller]
pub(crate) fn fails<T>(result: TractResult<T>, why: &str) {
    let error = format!("{:#}", result.err().expect("it is an error"));
    assert!(error.contains(why), "{error}");
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
