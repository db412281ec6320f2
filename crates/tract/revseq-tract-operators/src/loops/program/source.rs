//! A node as ONNX says it.
//!
//! Programs are read from the messages of revseq-onnx, and tract has messages of its own. Both are the same
//! bytes.

use prost::Message;
use revseq_onnx::proto::NodeProto;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb;
use tract_onnx::pb::tensor_proto::{DataLocation, DataType};
use tract_onnx::pb::type_proto::Value;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::konst::Const;

use crate::load::LoadOptions;

/// A version of ONNX's messages that has all that a program reads.
const IR_VERSION: i64 = 8;

/// A Loop or a Scan of a model, and the names of what it reads.
#[derive(Debug)]
pub(crate) struct Source {
    pub(super) node: NodeProto,
    pub(super) opset: i64,
    /// The names of its inputs in tract, those that it captures behind those that it lists.
    inputs: Vec<String>,
    /// Those of them that are int32: tract has one type for all sizes.
    narrow: Vec<String>,
}

impl Source {
    /// The node, unless tract knows what revseq-onnx does not.
    pub(crate) fn of(
        ctx: &ParsingContext<'_>,
        node: &pb::NodeProto,
        captured: &[String],
    ) -> Option<Arc<Self>> {
        if !LoadOptions::of(ctx).programs {
            return None;
        }
        let mut resolved = node.clone();
        let graphs = resolved.attribute.iter_mut().flat_map(|it| it.g.iter_mut());
        for graph in graphs {
            resolve(ctx, graph).ok()?;
        }
        let listed = node.input.iter().filter(|name| !name.is_empty());
        let inputs: Vec<String> = listed.chain(captured).cloned().collect();
        let types = Types::of(&ctx.parent_graphs);
        let is_narrow = |name: &&String| types.of_value(name) == Some(DataType::Int32);
        Some(Arc::new(Self {
            node: translated(resolved)?,
            opset: ctx.onnx_operator_set_version,
            narrow: inputs.iter().filter(is_narrow).cloned().collect(),
            inputs,
        }))
    }

    /// The input of the node with this name.
    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|it| it == name)
    }

    /// The type of integers, which may be sizes in tract.
    pub(super) fn integer(&self, name: &str) -> DatumType {
        match self.narrow.iter().any(|it| it == name) {
            true => DatumType::I32,
            false => DatumType::I64,
        }
    }
}

/// The types of values of graphs, as far as integers of sizes need them.
struct Types<'a> {
    known: HashMap<&'a str, DataType>,
    makers: HashMap<&'a str, &'a pb::NodeProto>,
}

impl<'a> Types<'a> {
    /// Those of graphs within each other, the outermost first.
    fn of(graphs: &[&'a pb::GraphProto]) -> Self {
        let inputs = graphs.iter().flat_map(|graph| &graph.input);
        let inputs = inputs.filter_map(|input| {
            let Some(Value::TensorType(tensor)) = &input.r#type.as_ref()?.value else {
                return None;
            };
            Some((&*input.name, tensor.elem_type()))
        });
        let constants = graphs.iter().flat_map(|graph| &graph.initializer);
        let constants = constants.map(|tensor| (&*tensor.name, tensor.data_type()));
        let nodes = graphs.iter().flat_map(|graph| &graph.node);
        let made = nodes.flat_map(|node| {
            let outputs = node.output.iter();
            outputs.map(move |output| (&**output, node))
        });
        Self {
            known: inputs.chain(constants).collect(),
            makers: made.collect(),
        }
    }

    /// The type of a value, by the nodes that lead to it.
    fn of_value(&self, name: &str) -> Option<DataType> {
        let mut name = name;
        for _ in 0..=self.makers.len() {
            if let Some(known) = self.known.get(name) {
                return Some(*known);
            }
            let node = self.makers.get(name)?;
            let mut attributes = node.attribute.iter();
            name = match &*node.op_type {
                "Shape" | "Size" => return Some(DataType::Int64),
                "Constant" | "ConstantOfShape" => {
                    let tensor = attributes.find_map(|it| it.t.as_ref());
                    return tensor.map(pb::TensorProto::data_type);
                }
                "Cast" => {
                    let to = attributes.find(|it| it.name == "to")?;
                    return DataType::try_from(i32::try_from(to.i).ok()?).ok();
                }
                "If" | "Loop" | "Scan" => return None,
                "Where" => node.input.get(1)?,
                _ => node.input.first()?,
            };
        }
        None
    }
}

/// The same node in revseq-onnx.
fn translated(node: pb::NodeProto) -> Option<NodeProto> {
    let model = pb::ModelProto {
        ir_version: IR_VERSION,
        graph: Some(pb::GraphProto {
            node: vec![node],
            ..pb::GraphProto::default()
        }),
        ..pb::ModelProto::default()
    };
    let model = revseq_onnx::decode(&model.encode_to_vec()).ok()?;
    model.graph.into_option()?.node.pop()
}

/// Puts the elements of constants into a graph that are elsewhere: in a file, or where the loader keeps
/// them.
fn resolve(ctx: &ParsingContext<'_>, graph: &mut pb::GraphProto) -> TractResult<()> {
    for tensor in graph.initializer.iter_mut().filter(|it| is_elsewhere(it)) {
        let value = ctx.load_tensor(tensor)?;
        fill(tensor, &value)?;
    }
    for node in &mut graph.node {
        let is_constant = node.op_type == "Constant";
        let mut tensors = node.attribute.iter().filter_map(|it| it.t.as_ref());
        if is_constant && tensors.any(is_elsewhere) {
            let value = constant(ctx, node)?;
            let mut tensors = node.attribute.iter_mut().filter_map(|it| it.t.as_mut());
            let tensor = tensors.next().context("it has a tensor")?;
            fill(tensor, &value)?;
        }
        let inner = node.attribute.iter_mut();
        for graph in inner.flat_map(|it| it.g.iter_mut().chain(&mut it.graphs)) {
            resolve(ctx, graph)?;
        }
    }
    Ok(())
}

fn is_elsewhere(tensor: &pb::TensorProto) -> bool {
    tensor.data_location == Some(DataLocation::External as i32)
}

/// The value of a Constant, as the loader finds it.
fn constant(ctx: &ParsingContext<'_>, node: &pb::NodeProto) -> TractResult<Arc<Tensor>> {
    let parse = ctx.framework.op_register.0.get("Constant");
    let (op, _) = parse.context("tract has Constant")?(ctx, node)?;
    let constant = op.as_op().downcast_ref::<Const>();
    Ok(Arc::clone(constant.context("it is a constant")?.val()))
}

/// Writes elements into a tensor.
fn fill(tensor: &mut pb::TensorProto, value: &Tensor) -> TractResult<()> {
    tensor.data_location = None;
    tensor.external_data.clear();
    tensor.raw_data = value.try_as_plain_ram()?.as_bytes().to_vec();
    Ok(())
}

/// ONNX's code of a type that programs may have.
pub(super) fn code(datum_type: DatumType) -> Option<i32> {
    let data_type = match datum_type {
        DatumType::F16 => DataType::Float16,
        DatumType::F32 => DataType::Float,
        DatumType::F64 => DataType::Double,
        DatumType::I32 => DataType::Int32,
        DatumType::I64 => DataType::Int64,
        DatumType::Bool => DataType::Bool,
        _ => return None,
    };
    Some(data_type as i32)
}
