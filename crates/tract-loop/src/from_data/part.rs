//! Slices with bounds from data.

use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::minted::{rewire, symbols_of};

/// Takes every `step`th element along an axis between bounds, by ONNX's rule.
///
/// The inputs are the data, and the starts and ends of a Slice along all of its axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) axis: usize,
    pub(crate) step: i64,
    /// The index of its bounds, and the number of bounds.
    pub(crate) at: usize,
    pub(crate) of: usize,
    /// The size of the output's axis, a symbol of its own.
    pub(crate) size: TDim,
}

/// The first position of ONNX's Slice along an axis, and the number of positions.
///
/// A negative bound counts from the end; bounds beyond the axis are clamped.
pub(crate) fn positions(start: i64, end: i64, step: i64, size: i64) -> (i64, i64) {
    let from_first = |bound: i64| {
        if bound < 0 {
            bound.saturating_add(size)
        } else {
            bound
        }
    };
    let (least, most) = if step > 0 { (0, size) } else { (-1, size - 1) };
    // Backwards, the first position is within the axis.
    let start = from_first(start).clamp(0, most.max(0));
    let end = from_first(end).clamp(least, most);
    let span = if step > 0 { end - start } else { start - end };
    let step = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
    let count = if size == 0 { 0 } else { span.max(0) };
    (start, count / step + i64::from(count % step != 0))
}

impl Part {
    fn bound(&self, bounds: &Tensor, what: &str, symbols: &SymbolValues) -> TractResult<i64> {
        ensure!(
            bounds.len() == self.of,
            "a Slice along {} axes has {} {what}",
            self.of,
            bounds.len()
        );
        if bounds.datum_type() == TDim::datum_type() {
            let bounds = bounds.to_plain_array_view::<TDim>()?;
            let bound = bounds.iter().nth(self.at).context("as many as axes")?;
            return Ok(bound.eval(symbols).to_i64()?);
        }
        let bounds = bounds.cast_to::<i64>()?;
        let bounds = bounds.to_plain_array_view::<i64>()?;
        bounds
            .iter()
            .nth(self.at)
            .copied()
            .context("as many as axes")
    }
}

impl Op for Part {
    fn name(&self) -> StaticName {
        "Part".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {} step: {}", self.axis, self.step)])
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        let bounds = inputs[1..].iter();
        bounds.flat_map(|fact| symbols_of(fact)).collect()
    }

    op_as_typed_op!();
}

impl EvalOp for Part {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, starts, ends) = args_3!(inputs);
        let start = self.bound(&starts, "starts", ctx.symbols)?;
        let end = self.bound(&ends, "ends", ctx.symbols)?;
        let size = data.shape()[self.axis];
        let (first, count) = positions(start, end, self.step, i64::try_from(size)?);
        let output = if self.step == 1 && count > 0 {
            let first = usize::try_from(first)?;
            data.slice(self.axis, first, first + usize::try_from(count)?)?
        } else {
            let positions = (0..count).map(|at| usize::try_from(first + at * self.step));
            take(&data, self.axis, positions.collect::<Result<Vec<_>, _>>()?)?
        };
        Ok(tvec![output.into_tvalue()])
    }
}

/// The elements at some positions along an axis, which may be none.
pub(crate) fn take(
    data: &Tensor,
    axis: usize,
    positions: impl IntoIterator<Item = usize>,
) -> TractResult<Tensor> {
    let elements = positions.into_iter();
    let elements = elements.map(|position| data.slice(axis, position, position + 1));
    let elements = elements.collect::<TractResult<Vec<_>>>()?;
    if !elements.is_empty() {
        return Tensor::stack_tensors(axis, &elements);
    }
    let mut shape: TVec<usize> = data.shape().into();
    shape[axis] = 0;
    Tensor::zero_dt(data.datum_type(), &shape)
}

/// The data and the axis of an operator; without an axis, the flattened data.
pub(crate) fn along(data: TValue, axis: Option<usize>) -> TractResult<(TValue, usize)> {
    if let Some(axis) = axis {
        return Ok((data, axis));
    }
    let elements = data.len();
    Ok((data.into_tensor().into_shape(&[elements])?.into_tvalue(), 0))
}

/// How an axis of the first input and of the output may change without another operator.
pub(crate) fn change_around(
    axis: usize,
    io: InOut,
    change: &AxisOp,
    with_axis: impl Fn(usize) -> Box<dyn TypedOp>,
) -> Option<AxisChangeConsequence> {
    if !matches!(io, InOut::In(0) | InOut::Out(0)) {
        return None;
    }
    let changed = change.transform_axis(axis)?;
    Some(AxisChangeConsequence {
        substitute_op: (changed != axis).then(|| with_axis(changed)),
        wire_changes: tvec![
            (InOut::In(0), change.clone()),
            (InOut::Out(0), change.clone())
        ],
    })
}

impl TypedOp for Part {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.clone();
        shape.set(self.axis, self.size.clone());
        Ok(tvec![inputs[0].datum_type.fact(shape)])
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        Ok(change_around(self.axis, io, change, |axis| {
            Box::new(Self {
                axis,
                ..self.clone()
            })
        }))
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let op = Self {
            size: self.size.substitute_all(subs)?,
            ..self.clone()
        };
        rewire(op, node, target, mapping)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::positions;

    #[test]
    fn positions_are_those_of_python() {
        for (start, end, step, size, expected) in [
            (0, 3, 1, 5, (0, 3)),
            (1, 1_000_000_000, 1, 5, (1, 4)),
            (-2, i64::MAX, 1, 5, (3, 2)),
            (-9, 2, 1, 5, (0, 2)),
            (3, 2, 1, 5, (3, 0)),
            (7, 9, 1, 5, (5, 0)),
            (0, -1, 1, 5, (0, 4)),
            (0, 5, 2, 5, (0, 3)),
            (1, 5, 1_000_000_000, 5, (1, 1)),
            (4, i64::MIN, -1, 5, (4, 5)),
            (9, -9, -2, 5, (4, 3)),
            (1, 3, -1, 5, (1, 0)),
            (-1, 0, -1, 5, (4, 4)),
            (0, 3, 1, 0, (0, 0)),
            (0, i64::MIN, -1, 0, (0, 0)),
        ] {
            let found = positions(start, end, step, size);
            assert_eq!(found, expected, "{start}:{end}:{step} of {size}");
        }
    }
}
