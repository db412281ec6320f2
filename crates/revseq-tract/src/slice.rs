//! ONNX's Slice along axes of any size.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_hir::internal::*;

use crate::{Flip, others};

/// From here on, an end means the end of any axis; tf2onnx writes 1,000,000,000.
const END: i64 = 1_000_000_000;

/// The part of an axis that a Slice takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of it, reversed.
    Flipped,
    /// From an index on.
    From(i64),
}

impl Part {
    fn new(start: i64, end: i64, step: i64) -> Option<Self> {
        // In ONNX, -1 or the largest number is the last element of an axis of unknown size, and the
        // smallest number is before the first.
        match step {
            -1 if (start == -1 || start >= i64::from(i32::MAX)) && end <= -i64::from(i32::MAX) => {
                Some(Self::Flipped)
            }
            1 if start >= 0 && end >= END => Some(Self::From(start)),
            _ => None,
        }
    }
}

/// Parses a Slice: flips, and slices to an end that tract does not recognise, become operators for
/// any size; others are read like tract.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    ensure!(
        matches!(node.domain.as_str(), "" | "ai.onnx"),
        "it is of domain {:?}, expected ONNX's own",
        node.domain
    );
    if let Some(parts) = parts(ctx, node)? {
        let inputs = node.input.iter().filter(|name| !name.is_empty()).count();
        return Ok((expand(OnnxSlice { parts, inputs }), vec![]));
    }
    others::parse(ctx, node)
}

/// The axes of a Slice and their parts, if they are constants of the model and tract does not
/// support them. Axes may count from the end.
fn parts(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Option<Vec<(i64, Part)>>> {
    let ints = |input: usize, default: Option<Vec<i64>>| match node.input.get(input) {
        Some(name) if !name.is_empty() => constant_ints(ctx, name),
        _ => Ok(default),
    };
    // Before opset 10 they were attributes.
    let (Some(starts), Some(ends)) = (ints(1, None)?, ints(2, None)?) else {
        return Ok(None);
    };
    let count = starts.len();
    let axes = ints(3, Some((0..count as i64).collect()))?;
    let steps = ints(4, Some(vec![1; count]))?;
    let (Some(axes), Some(steps)) = (axes, steps) else {
        return Ok(None);
    };
    if [ends.len(), axes.len(), steps.len()] != [count; 3] {
        return Ok(None);
    }
    let parts: Option<Vec<(i64, Part)>> = (0..count)
        .map(|it| Some((axes[it], Part::new(starts[it], ends[it], steps[it])?)))
        .collect();
    let is_ours =
        std::iter::zip(&ends, &steps).any(|(end, step)| *step == -1 || *end < i64::from(i32::MAX));
    Ok(parts.filter(|_| is_ours))
}

/// The integers of a constant, if the name is one where the node is read.
fn constant_ints(ctx: &ParsingContext<'_>, name: &str) -> TractResult<Option<Vec<i64>>> {
    // The graph being read comes last; it may capture values of those around it.
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

/// A Slice, before its input's rank is known.
#[derive(Clone, Debug)]
struct OnnxSlice {
    parts: Vec<(i64, Part)>,
    /// The number of inputs; all but the first have been read.
    inputs: usize,
}

impl OnnxSlice {
    /// The parts, with axes counted from the first.
    fn counted(&self, rank: usize) -> TractResult<Vec<(usize, Part)>> {
        let mut counted: Vec<(usize, Part)> = Vec::new();
        for &(axis, part) in &self.parts {
            let from_first = if axis < 0 { axis + rank as i64 } else { axis };
            let found = usize::try_from(from_first).ok();
            let new = found.filter(|it| *it < rank && counted.iter().all(|(seen, _)| seen != it));
            let axes: Vec<i64> = self.parts.iter().map(|(axis, _)| *axis).collect();
            let new = new.with_context(|| {
                format!(
                    "axes {axes:?} of data of rank {rank}, expected each axis at most once, \
                     from {} to {}",
                    -(rank as i64),
                    rank as i64 - 1
                )
            })?;
            counted.push((new, part));
        }
        Ok(counted)
    }
}

impl Expansion for OnnxSlice {
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
        s.equals(&inputs[0].rank, &outputs[0].rank)?;
        s.given(&inputs[0].shape, move |s, mut shape| {
            for (axis, part) in self.counted(shape.len())? {
                if let Part::From(start) = part {
                    shape[axis] = match shape[axis].to_i64() {
                        Ok(size) => (size - start).max(0).to_dim(),
                        Err(_) => shape[axis].clone() - start,
                    };
                }
            }
            s.equals(&outputs[0].shape, shape)
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let rank = model.outlet_fact(inputs[0])?.rank();
        let mut wire = inputs[0];
        let parts = self.counted(rank)?;
        for (index, &(axis, part)) in parts.iter().enumerate() {
            let name = match index + 1 == parts.len() {
                true => prefix.to_owned(),
                false => format!("{prefix}.axis-{axis}"),
            };
            let size = model.outlet_fact(wire)?.shape[axis].clone();
            wire = match part {
                Part::Flipped => model.wire_node(name, Flip::new(axis), &[wire])?[0],
                Part::From(start) => {
                    let start = size.to_i64().map_or(start, |size| start.min(size));
                    model.wire_node(name, Slice::new(axis, start, size), &[wire])?[0]
                }
            };
        }
        Ok(tvec!(wire))
    }
}
