//! Models on tract.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, anyhow, bail, ensure};
use half::f16;
use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto,
    ValueInfoProto, attribute_proto::AttributeType,
};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{InferenceFact, InferenceModel, InferenceOp};
use tract_onnx::tract_hir::internal::TDim;
use tract_onnx::tract_hir::ops::konst::Const;

use super::bounded::Bounded;
use crate::fence;
use crate::model::values::ValueType;
use crate::model::{Bindings, Model, for_each_declaration, node_label, walk};
use crate::tensor::{Data, Tensor, pb};

/// A builder of tract's: from a node to its operator and the names it captures.
type Built = TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

/// tract's operators and revseq's.
static OPERATORS: LazyLock<OnnxOpRegister> = LazyLock::new(|| {
    let mut onnx = tract_onnx::onnx();
    revseq_tract::register(&mut onnx);

    onnx.op_register
});

/// The operators of `com.microsoft` among tract's, which it keeps under their
/// bare names (tract-onnx, src/ops/nn).
const MICROSOFT: [&str; 11] = [
    "BiasGelu",
    "FastGelu",
    "GatherBlockQuantized",
    "GroupQueryAttention",
    "MatMulNBits",
    "MultiHeadAttention",
    "QuickGelu",
    "RotaryEmbedding",
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// Those of `ai.onnx.ml` (tract-onnx, src/ops/ml).
const MACHINE_LEARNING: [&str; 6] = [
    "ArrayFeatureExtractor",
    "CategoryMapper",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "TreeEnsembleClassifier",
];

/// Whether tract has an operator: its register does not look at domains.
fn has_operator(domain: &str, op_type: &str) -> bool {
    let in_domain = match domain {
        "" | "ai.onnx" => op_type != "ReverseSubsequences",
        "ai.onnx.ml" => MACHINE_LEARNING.contains(&op_type),
        "com.microsoft" => MICROSOFT.contains(&op_type),
        _ => revseq_graph::Operator::is_known(domain, op_type),
    };
    in_domain && OPERATORS.0.contains_key(op_type)
}

/// Whether tract loads tensors of a type (tract-onnx, src/tensor.rs).
fn has_type(code: i32) -> bool {
    match ElementType::from_onnx_code(code) {
        Some(ElementType::String) => true,
        Some(ElementType::Fixed(data_type)) => !matches!(
            data_type,
            DataType::Bfloat16 | DataType::Complex64 | DataType::Complex128
        ),
        None => false,
    }
}

/// What tract itself lacks for a model; `None` if nothing.
///
/// Found by looking at the model alone: an error on the way is never a lack.
pub(crate) fn lacks(model: &Model) -> Result<Option<String>> {
    let mut lacking: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let mut add = |kind: u8, what: String| {
        let found = lacking.entry(kind).or_default();
        if !found.contains(&what) {
            found.push(what);
        }
    };
    let mut types = Vec::new();
    walk::walk(model, &Bindings::new(), |site| {
        if site.is_dead {
            return;
        }
        if site.is_call {
            add(0, "model-local functions".to_owned());
        } else if !has_operator(&site.node.domain, &site.node.op_type) {
            add(1, site.operator());
        }
        for (name, attribute) in &site.attributes {
            types.extend(
                attribute
                    .t
                    .iter()
                    .chain(&attribute.tensors)
                    .map(|tensor| tensor.data_type),
            );
            if site.node.op_type == "Cast" && *name == "to" {
                types.extend(i32::try_from(attribute.i));
            }
            if attribute.sparse_tensor.is_some() || !attribute.sparse_tensors.is_empty() {
                add(3, "sparse tensors".to_owned());
            }
        }
        let graphs = site
            .node
            .attribute
            .iter()
            .flat_map(|attribute| &attribute.g);
        if graphs
            .into_iter()
            .any(|graph| !graph.sparse_initializer.is_empty())
        {
            add(3, "sparse tensors".to_owned());
        }
        types.extend(
            site.node
                .attribute
                .iter()
                .flat_map(|attribute| &attribute.g)
                .flat_map(types_of),
        );
    })?;
    types.extend(types_of(model.graph()));
    if !model.graph().sparse_initializer.is_empty() {
        add(3, "sparse tensors".to_owned());
    }
    for code in types {
        if !has_type(code) {
            add(2, pb::type_name(code));
        }
    }
    for input in model.inputs() {
        if input.value_type.element_type.is_none() {
            add(
                4,
                format!(
                    "anything but tensors as an input, and {:?} is none",
                    input.name
                ),
            );
        }
    }
    let what: Vec<String> = lacking.into_values().flatten().collect();
    Ok((!what.is_empty()).then(|| format!("tract has no {}", what.join(", "))))
}

/// The element types that a graph names.
fn types_of(graph: &GraphProto) -> Vec<i32> {
    let values = graph.input.iter().chain(&graph.output);
    let declared = values.filter_map(|value| ValueType::declared(value).element_type);
    declared
        .chain(graph.initializer.iter().map(|tensor| tensor.data_type))
        .collect()
}

/// A model made ready for inputs of certain types and shapes.
pub(crate) struct Prepared {
    plan: Arc<TypedRunnableModel>,
    /// The names of the inputs, in the plan's order.
    inputs: Vec<String>,
    /// The outputs' types, as far as the model declares them.
    outputs: Vec<ValueType>,
}

/// Makes a model ready for inputs such as these.
///
/// # Errors
/// What tract, or an operator of ours, refuses.
pub(crate) fn prepare(
    model: &Model,
    inputs: &BTreeMap<String, Tensor>,
    bindings: &Bindings,
) -> Result<Prepared> {
    fenced(|| {
        let mut proto = model.proto.clone();
        // Functions that nothing calls mean nothing; those called are refused before.
        proto.functions.clear();
        let graph = proto.graph.as_mut().context("the model has no graph")?;
        adapt(graph, inputs, bindings);
        let mut onnx = tract_onnx::onnx().with_ignore_value_info(true);
        onnx.provider = Arc::new(NoFiles);
        onnx.op_register = bounded_operators();
        let parsed = onnx.parse(&proto, None)?;
        if let Some(name) = parsed.unresolved_inputs.first() {
            bail!("nothing gives {name:?}");
        }
        let mut inference: InferenceModel = parsed.model;
        let names: Vec<String> = graph_inputs(&proto);
        ensure!(
            names.len() == inference.input_outlets()?.len(),
            "tract lost an input"
        );
        for (index, name) in names.iter().enumerate() {
            let input = inputs
                .get(name)
                .with_context(|| format!("input {name:?} is missing"))?;
            let fact = InferenceFact::dt_shape(datum_type(input.element_type())?, input.shape());
            inference.set_input_fact(index, fact)?;
        }
        let typed = inference.into_typed()?;
        for node in typed.nodes() {
            for output in &node.outputs {
                if let Some(shape) = output.fact.shape.as_concrete() {
                    super::bounded::check(&node.name, output.fact.datum_type, shape)?;
                }
            }
        }
        let plan = typed.into_optimized()?.into_runnable()?;
        let outputs = model
            .graph()
            .output
            .iter()
            .map(ValueType::declared)
            .collect();
        Ok(Prepared {
            plan,
            inputs: names,
            outputs,
        })
    })
}

impl Prepared {
    /// Runs the model: its outputs, in order.
    ///
    /// # Errors
    /// What tract, or an operator of ours, refuses.
    pub(crate) fn run(&self, inputs: &BTreeMap<String, Tensor>) -> Result<Vec<Tensor>> {
        let values = self.values(inputs)?;
        let outputs = self.run_values(values)?;
        std::iter::zip(outputs, &self.outputs)
            .map(|(output, declared)| from_tract(output.into_tensor(), declared))
            .collect()
    }

    /// The inputs as tract takes them.
    pub(crate) fn values(&self, inputs: &BTreeMap<String, Tensor>) -> Result<TVec<TValue>> {
        self.inputs
            .iter()
            .map(|name| {
                let input = inputs
                    .get(name)
                    .with_context(|| format!("input {name:?} is missing"))?;
                Ok(to_tract(input)?.into_tvalue())
            })
            .collect()
    }

    /// Runs the model on inputs that [`values`](Self::values) made.
    pub(crate) fn run_values(&self, values: TVec<TValue>) -> Result<TVec<TValue>> {
        fenced(|| self.plan.run(values))
    }
}

/// Runs tract; a panic inside is an error.
fn fenced<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    fence::catch(run).map_err(|message| anyhow!("tract panicked, which is a defect: {message}"))?
}

/// All data is in the model by now.
struct NoFiles;

impl ModelDataResolver for NoFiles {
    fn read_bytes_from_path(
        &self,
        _buf: &mut Vec<u8>,
        path: &std::path::Path,
        _offset: usize,
        _length: Option<usize>,
    ) -> TractResult<()> {
        bail!("{} is not to be read", path.display())
    }
}

/// Every operator behind the check of its outputs' sizes, and Constant as it should be.
fn bounded_operators() -> OnnxOpRegister {
    fn bounded(context: &ParsingContext<'_>, node: &NodeProto) -> Built {
        let build = OPERATORS
            .0
            .get(&node.op_type)
            .context("the operator was registered")?;
        let (operator, captured) = build(context, node)?;
        Ok((Box::new(Bounded::new(operator, &node.name)), captured))
    }
    // These hold graphs, whose own nodes are behind the check.
    let plain = ["If", "Scan"];
    let operators = OPERATORS.0.iter().map(|(name, build)| {
        (
            name.clone(),
            if plain.contains(&name.as_str()) {
                *build
            } else {
                bounded
            },
        )
    });
    let mut register = OnnxOpRegister(operators.collect());
    register.insert("Constant", constant);
    register
}

/// A Constant. tract's own reads uint32 and uint64 from the wrong fields if
/// there is no raw data, which is how an empty tensor is.
fn constant(context: &ParsingContext<'_>, node: &NodeProto) -> Built {
    match value_attribute(node).filter(|tensor| is_misread(tensor)) {
        None => {
            let build = OPERATORS.0.get("Constant").context("tract has Constant")?;
            build(context, node)
        }
        Some(tensor) => {
            let value = to_tract(&pb::from_proto(tensor)?)?;
            Ok((Box::new(Const::new(value.into_arc_tensor())?), vec![]))
        }
    }
}

fn value_attribute(node: &NodeProto) -> Option<&TensorProto> {
    node.attribute
        .iter()
        .find(|attribute| attribute.name == "value")?
        .t
        .as_ref()
}

fn is_misread(tensor: &TensorProto) -> bool {
    let element_type = ElementType::from_onnx_code(tensor.data_type);
    let unsigned =
        [DataType::Uint32, DataType::Uint64].map(|data_type| Some(ElementType::Fixed(data_type)));
    tensor.raw_data.is_empty() && unsigned.contains(&element_type)
}

/// Rewrites a main graph so that tract reads it as it is meant.
fn adapt(graph: &mut GraphProto, inputs: &BTreeMap<String, Tensor>, bindings: &Bindings) {
    // An input that is fed is no constant, even if it has a default.
    graph
        .initializer
        .retain(|initializer| !inputs.contains_key(&initializer.name));
    for_each_declaration(graph, true, &mut |value, is_main| {
        let fed = is_main.then(|| inputs.get(&value.name)).flatten();
        adapt_declaration(value, fed, is_main, bindings);
    });
    adapt_nodes(graph);
}

/// Puts sizes in the place of symbols; those that stay unknown are left to tract.
fn adapt_declaration(
    value: &mut ValueInfoProto,
    fed: Option<&Tensor>,
    is_main: bool,
    bindings: &Bindings,
) {
    let Some(TypeValue::TensorType(declared)) = value
        .r#type
        .as_mut()
        .and_then(|value_type| value_type.value.as_mut())
    else {
        return;
    };
    if let Some(tensor) = fed {
        let dim = tensor.shape().iter().map(|&size| Dimension {
            value: Some(DimValue::DimValue(size as i64)),
            ..Dimension::default()
        });
        declared.shape = Some(TensorShapeProto { dim: dim.collect() });
        return;
    }
    for dim in declared.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some(DimValue::DimParam(name)) = &dim.value {
            let bound = bindings.get(name).filter(|_| is_main);
            dim.value = bound.map(|&size| DimValue::DimValue(size as i64));
        }
    }
}

/// Gives every node a name of its own, and moves initializers that tract would
/// misread into Constant nodes, in a graph and those inside it.
fn adapt_nodes(graph: &mut GraphProto) {
    let (misread, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition(is_misread);
    graph.initializer = kept;
    graph
        .input
        .retain(|input| misread.iter().all(|tensor| tensor.name != input.name));
    let constants = misread.into_iter().map(|tensor| NodeProto {
        op_type: "Constant".to_owned(),
        output: vec![tensor.name.clone()],
        attribute: vec![AttributeProto {
            name: "value".to_owned(),
            r#type: AttributeType::Tensor as i32,
            t: Some(tensor),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    });
    graph.node.splice(0..0, constants);

    let inputs = graph.input.iter().map(|input| input.name.clone());
    let mut taken: HashSet<String> = inputs
        .chain(graph.initializer.iter().map(|tensor| tensor.name.clone()))
        .collect();
    let mut next: HashMap<String, usize> = HashMap::new();
    for (index, node) in graph.node.iter_mut().enumerate() {
        let label = node_label(index, node);
        let mut name = label.clone();
        while !taken.insert(name.clone()) {
            let number = next.entry(label.clone()).or_insert(1);
            *number += 1;
            name = format!("{label}~{number}");
        }
        node.name = name;
        for inner in node
            .attribute
            .iter_mut()
            .flat_map(|attribute| &mut attribute.g)
        {
            adapt_nodes(inner);
        }
    }
}

/// The inputs that tract has as sources: those without an initializer, in order.
fn graph_inputs(proto: &ModelProto) -> Vec<String> {
    let Some(graph) = &proto.graph else {
        return Vec::new();
    };
    let initialized: HashSet<&str> = graph
        .initializer
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    let names = graph.input.iter().map(|input| input.name.as_str());
    names
        .filter(|name| !initialized.contains(name))
        .map(str::to_owned)
        .collect()
}

fn datum_type(element_type: ElementType) -> Result<DatumType> {
    let ElementType::Fixed(data_type) = element_type else {
        return Ok(DatumType::String);
    };
    Ok(match data_type {
        DataType::Float32 => DatumType::F32,
        DataType::Float16 => DatumType::F16,
        DataType::Float64 => DatumType::F64,
        DataType::Uint8 => DatumType::U8,
        DataType::Uint16 => DatumType::U16,
        DataType::Uint32 => DatumType::U32,
        DataType::Uint64 => DatumType::U64,
        DataType::Int8 => DatumType::I8,
        DataType::Int16 => DatumType::I16,
        DataType::Int32 => DatumType::I32,
        DataType::Int64 => DatumType::I64,
        DataType::Bool => DatumType::Bool,
        _ => bail!("tract has no {element_type}"),
    })
}

/// A tensor as tract's.
fn to_tract(tensor: &Tensor) -> Result<tract_onnx::prelude::Tensor> {
    let shape = tensor.shape();
    let bytes = match tensor.data() {
        Data::Bytes(bytes) => bytes,
        Data::Strings(strings) => {
            let array = tract_ndarray::ArrayD::from_shape_vec(shape, strings.clone())?;
            return Ok(array.into());
        }
    };
    macro_rules! elements {
        ($number:ty, $from:expr) => {{
            let elements: Vec<_> = bytes
                .as_chunks::<{ size_of::<$number>() }>()
                .0
                .iter()
                .map(|bytes| $from(<$number>::from_le_bytes(*bytes)))
                .collect();
            tract_onnx::prelude::Tensor::from_shape(shape, &elements)
        }};
    }
    match datum_type(tensor.element_type())? {
        DatumType::F32 => elements!(u32, f32::from_bits),
        DatumType::F64 => elements!(u64, f64::from_bits),
        DatumType::F16 => elements!(u16, f16::from_bits),
        DatumType::U8 => elements!(u8, std::convert::identity),
        DatumType::U16 => elements!(u16, std::convert::identity),
        DatumType::U32 => elements!(u32, std::convert::identity),
        DatumType::U64 => elements!(u64, std::convert::identity),
        DatumType::I8 => elements!(i8, std::convert::identity),
        DatumType::I16 => elements!(i16, std::convert::identity),
        DatumType::I32 => elements!(i32, std::convert::identity),
        DatumType::I64 => elements!(i64, std::convert::identity),
        DatumType::Bool => elements!(u8, |byte| byte != 0),
        other => bail!("{other:?} is not one of ONNX's types"),
    }
}

/// A tensor from tract's. Its own integer type of sizes is what was declared.
fn from_tract(tensor: tract_onnx::prelude::Tensor, declared: &ValueType) -> Result<Tensor> {
    let tensor = if tensor.datum_type() == TDim::datum_type() {
        let integer = match declared.known_element_type() {
            Some(ElementType::Fixed(DataType::Int32)) => DatumType::I32,
            _ => DatumType::I64,
        };
        tensor.cast_to_dt(integer)?.into_owned()
    } else {
        tensor
    };
    let shape = tensor.shape().to_vec();
    macro_rules! bytes {
        ($element:ty, $data_type:ident) => {{
            let view = tensor.to_plain_array_view::<$element>()?;
            let bytes = view
                .iter()
                .flat_map(|element| element.to_le_bytes())
                .collect();
            (ElementType::Fixed(DataType::$data_type), Data::Bytes(bytes))
        }};
    }
    let (element_type, data) = match tensor.datum_type() {
        DatumType::F32 => bytes!(f32, Float32),
        DatumType::F64 => bytes!(f64, Float64),
        DatumType::F16 => bytes!(f16, Float16),
        DatumType::U8 => bytes!(u8, Uint8),
        DatumType::U16 => bytes!(u16, Uint16),
        DatumType::U32 => bytes!(u32, Uint32),
        DatumType::U64 => bytes!(u64, Uint64),
        DatumType::I8 => bytes!(i8, Int8),
        DatumType::I16 => bytes!(i16, Int16),
        DatumType::I32 => bytes!(i32, Int32),
        DatumType::I64 => bytes!(i64, Int64),
        DatumType::Bool => {
            let view = tensor.to_plain_array_view::<bool>()?;
            let bytes = view.iter().map(|&element| u8::from(element)).collect();
            (ElementType::Fixed(DataType::Bool), Data::Bytes(bytes))
        }
        DatumType::String => {
            let view = tensor.to_plain_array_view::<String>()?;
            (
                ElementType::String,
                Data::Strings(view.iter().cloned().collect()),
            )
        }
        other => bail!("an output has tract's type {other:?}, which is none of ONNX's"),
    };
    Tensor::new(element_type, shape, data)
}
