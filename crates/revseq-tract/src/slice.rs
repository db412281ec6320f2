//! From ONNX's Slices that reverse whole axes to the op.

use std::sync::LazyLock;

use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_hir::internal::*;

use crate::Flip;

/// tract's own operators, which read all other Slices.
static TRACTS: LazyLock<OnnxOpRegister> = LazyLock::new(|| tract_onnx::onnx().op_register);

/// Reads a Slice: as [`Flip`], or as tract does.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    if let Some(axes) = flipped_axes(ctx, node)? {
        let inputs = node.input.iter().filter(|name| !name.is_empty()).count();
        return Ok((expand(OnnxFlip { axes, inputs }), vec![]));
    }
    let other = TRACTS.0.get("Slice").context("tract has no Slice")?;
    other(ctx, node)
}

/// The axes that a Slice reverses, if they are constants of the model and it does
/// nothing else. They may count from the end.
fn flipped_axes(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Option<Vec<i64>>> {
    let ints = |input: usize| match node.input.get(input) {
        Some(name) if !name.is_empty() => constant_ints(ctx, name),
        _ => Ok(None),
    };
    // Before version 10 these were attributes, without steps.
    let (Some(starts), Some(ends), Some(steps)) = (ints(1)?, ints(2)?, ints(4)?) else {
        return Ok(None);
    };
    let axes = match node.input.get(3) {
        Some(name) if !name.is_empty() => ints(3)?,
        _ => Some((0..starts.len() as i64).collect()),
    };
    // ONNX: for the last of an axis of unknown size, -1 or the largest number; for what
    // is before its first, the smallest.
    let last = |start: &i64| *start == -1 || *start >= i64::from(i32::MAX);
    let before_the_first = |end: &i64| *end <= -i64::from(i32::MAX);
    let whole = starts.iter().all(last)
        && ends.iter().all(before_the_first)
        && steps.iter().all(|step| *step == -1);
    Ok(axes.filter(|axes| {
        let counts = [starts.len(), ends.len(), steps.len()];
        whole && counts.iter().all(|count| *count == axes.len())
    }))
}

/// The integers that a name stands for where a node is read, if they are a constant.
fn constant_ints(ctx: &ParsingContext<'_>, name: &str) -> TractResult<Option<Vec<i64>>> {
    // The graph that is read comes last; what is around it may be captured.
    for graph in ctx.parent_graphs.iter().rev() {
        if let Some(tensor) = graph.initializer.iter().find(|tensor| tensor.name == name) {
            return ints(&ctx.load_tensor(tensor)?).map(Some);
        }
        if let Some(node) = producer(graph, name) {
            if node.op_type != "Constant" {
                return Ok(None);
            }
            let value = node.get_attr_opt("value")?;
            return value
                .map(|value| ints(&ctx.load_tensor(value)?))
                .transpose();
        }
        if graph.input.iter().any(|input| input.name == name) {
            return Ok(None);
        }
    }
    Ok(None)
}

fn producer<'a>(graph: &'a GraphProto, name: &str) -> Option<&'a NodeProto> {
    let mut nodes = graph.node.iter();
    nodes.find(|node| node.output.iter().any(|output| output == name))
}

fn ints(tensor: &Tensor) -> TractResult<Vec<i64>> {
    let tensor = tensor.cast_to::<i64>()?;
    Ok(tensor.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
}

/// A Slice that is a flip, before its input's rank is known.
#[derive(Clone, Debug)]
struct OnnxFlip {
    axes: Vec<i64>,
    /// How many inputs the node has; all but the first have been read.
    inputs: usize,
}

impl Expansion for OnnxFlip {
    fn name(&self) -> StaticName {
        "Slice".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, self.inputs)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.equals(&inputs[0].shape, &outputs[0].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let rank = model.outlet_fact(inputs[0])?.rank() as i64;
        let mut wire = inputs[0];
        let mut flipped = Vec::new();
        for &axis in &self.axes {
            let counted = if axis < 0 { axis + rank } else { axis };
            ensure!(
                (0..rank).contains(&counted) && !flipped.contains(&counted),
                "Slice {prefix:?}: axes {:?} of data of rank {rank}, expected each axis at most once, \
                 from {} to {}",
                self.axes,
                -rank,
                rank - 1
            );
            flipped.push(counted);
            let name = match flipped.len() == self.axes.len() {
                true => prefix.to_owned(),
                false => format!("{prefix}.axis-{counted}"),
            };
            wire = model.wire_node(name, Flip::new(counted as usize), &[wire])?[0];
        }
        Ok(tvec!(wire))
    }
}
