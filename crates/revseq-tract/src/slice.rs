//! ONNX's Slices that reverse whole axes.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx_extra::constant_integers;
use tract_onnx_extra::operator::{self, Parsed};

use crate::Flip;

/// Parses a Slice: one that reverses whole axes, of any size, becomes a [`Flip`] along each.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    ensure!(
        matches!(node.domain.as_str(), "" | "ai.onnx"),
        "it is of domain {:?}, expected ONNX's own",
        node.domain
    );
    if let Some(axes) = flipped(ctx, node)? {
        let inputs = node.input.iter().filter(|name| !name.is_empty()).count();
        return Ok((expand(OnnxFlip { axes, inputs }), vec![]));
    }
    operator::parse(ctx, node)
}

/// The axes of a Slice if it reverses all of them, by constants of the model. They may count from
/// the end.
fn flipped(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Option<Vec<i64>>> {
    let ints = |input: usize, default: Option<Vec<i64>>| match node.input.get(input) {
        Some(name) if !name.is_empty() => constant_integers(ctx, name),
        _ => Ok(default),
    };
    // Before opset 10 there were no steps.
    let (Some(starts), Some(ends), Some(steps)) = (ints(1, None)?, ints(2, None)?, ints(4, None)?)
    else {
        return Ok(None);
    };
    let Some(axes) = ints(3, Some((0..starts.len() as i64).collect()))? else {
        return Ok(None);
    };
    // In ONNX, -1 or the largest number is the last element of an axis of unknown size, and the
    // smallest number is before the first.
    let is_last = |start: &i64| *start == -1 || *start >= i64::from(i32::MAX);
    let is_whole = starts.iter().all(is_last)
        && ends.iter().all(|end| *end <= -i64::from(i32::MAX))
        && steps.iter().all(|step| *step == -1);
    let is_each = [ends.len(), axes.len(), steps.len()] == [starts.len(); 3];
    Ok((is_whole && is_each && !axes.is_empty()).then_some(axes))
}

/// A Slice that reverses axes, before its input's rank is known.
#[derive(Clone, Debug)]
struct OnnxFlip {
    axes: Vec<i64>,
    /// The number of inputs; all but the first have been read.
    inputs: usize,
}

impl OnnxFlip {
    /// The axes, counted from the first.
    fn counted(&self, rank: usize) -> TractResult<Vec<usize>> {
        let mut counted: Vec<usize> = Vec::new();
        for &axis in &self.axes {
            let from_first = if axis < 0 { axis + rank as i64 } else { axis };
            let found = usize::try_from(from_first).ok();
            let new = found.filter(|it| *it < rank && !counted.contains(it));
            let new = new.with_context(|| {
                format!(
                    "axes {:?} of data of rank {rank}, expected each axis at most once, from {} to \
                     {}",
                    self.axes,
                    -(rank as i64),
                    rank as i64 - 1
                )
            })?;
            counted.push(new);
        }
        Ok(counted)
    }
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
        s.equals(&inputs[0].shape, &outputs[0].shape)?;
        s.given(&inputs[0].rank, move |_, rank| {
            self.counted(usize::try_from(rank)?).map(|_| ())
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
        let axes = self.counted(rank)?;
        for (index, &axis) in axes.iter().enumerate() {
            let name = match index + 1 == axes.len() {
                true => prefix.to_owned(),
                false => format!("{prefix}.axis-{axis}"),
            };
            wire = model.wire_node(name, Flip::new(axis), &[wire])?[0];
        }
        Ok(tvec!(wire))
    }
}
