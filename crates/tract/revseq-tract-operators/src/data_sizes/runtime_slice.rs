//! Slices between bounds that are applied at run time, and what other operators share with them.
//!
//! The output's size is known before: a number, an expression, or a symbol that gets its number
//! from the output. The operator computes the elements by ONNX's rule (`bounds.rs`), and compares
//! their number with a known size. It becomes tract's Slice once the bounds provably lie within the
//! axis.

use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::bounds::{Extent, extent, positions};
use super::size_symbols::{in_numbers, symbols_of};
use crate::typed_op::{Sizes, Stateless};

/// Takes every `step`th element along an axis between bounds, by ONNX's rule.
///
/// The inputs are the data, and the lists of starts and ends that bounds are elements of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuntimeSlice {
    pub(crate) axis: usize,
    pub(crate) start: Bound,
    pub(crate) end: Bound,
    pub(crate) step: i64,
    /// The size of the output's axis; a symbol of its own if it comes from data.
    pub(crate) size: TDim,
}

/// A bound of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bound {
    Known(TDim),
    /// An element of a list, with the list's length.
    Element {
        at: usize,
        length: usize,
    },
}

impl Bound {
    /// The number; an element is one of the next list.
    fn at_run(
        &self,
        what: &str,
        lists: &mut impl Iterator<Item = TValue>,
        symbols: &SymbolValues,
    ) -> TractResult<i64> {
        match self {
            Self::Known(bound) => Ok(bound.eval_to_i64(symbols)?),
            Self::Element { at, length } => {
                let list = lists.next().context("the list of a bound")?;
                ensure!(
                    list.len() == *length,
                    "a Slice along {length} axes has {} {what}",
                    list.len()
                );
                let list = in_numbers(list, symbols)?;
                let list = list.cast_to::<i64>()?;
                let list = list.try_as_plain_ram()?;
                Ok(list.as_slice::<i64>()?[*at])
            }
        }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.fixed()?.to_i64().ok()
    }

    fn fixed(&self) -> Option<&TDim> {
        match self {
            Self::Known(bound) => Some(bound),
            Self::Element { .. } => None,
        }
    }
}

impl Sizes for Bound {
    fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        Ok(match self {
            Self::Known(bound) => Self::Known(bound.substitute_all(subs)?),
            Self::Element { .. } => self.clone(),
        })
    }
}

impl Stateless for RuntimeSlice {
    const NAME: &str = "Part";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {} step: {}", self.axis, self.step)])
    }

    fn defines_symbols(&self) -> bool {
        matches!(self.size, TDim::Sym(_))
    }

    fn required_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        let lists = inputs[1..].iter().flat_map(|fact| symbols_of(fact));
        let bounds = [&self.start, &self.end].into_iter();
        let sizes = bounds.filter_map(Bound::fixed).flat_map(TDim::symbols);
        lists.chain(sizes).collect()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut inputs = inputs.into_iter();
        let data = inputs.next().context("the data of a Slice")?;
        let start = self.start.at_run("starts", &mut inputs, ctx.symbols)?;
        let end = self.end.at_run("ends", &mut inputs, ctx.symbols)?;
        let output = between(&data, self.axis, start, end, self.step)?;
        let count = output.shape()[self.axis];
        if let Ok(expected) = self.size.to_i64() {
            ensure!(
                usize::try_from(expected) == Ok(count),
                "a Slice from {start} to {end} takes {count} of {} elements along axis {}, \
                 expected {expected}",
                data.shape()[self.axis],
                self.axis
            );
        }
        Ok(tvec![output.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.clone();
        shape.set(self.axis, self.size.clone());
        Ok(tvec![inputs[0].datum_type.fact(shape)])
    }

    fn with_axes(&self, _inputs: &[&TypedFact], change: &AxisOp) -> Option<Self> {
        Some(Self {
            axis: change.transform_axis(self.axis)?,
            ..self.clone()
        })
    }

    substitutes!(start, end, size);

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        rule_if_some!(start = self.start.fixed());
        rule_if_some!(end = self.end.fixed());
        let size = &model.outlet_fact(node.inputs[0])?.shape[self.axis];
        let Some(Extent::Within(from, to)) = extent(start, end, self.step, size) else {
            return Ok(None);
        };
        // Otherwise it fails at run time.
        rule_if!(to.clone() - &from == self.size);
        let mut patch = TypedModelPatch::default();
        let data = patch.tap_model(model, node.inputs[0])?;
        let taken = wire_within((from, to), &node.name, &mut patch, self.axis, data)?;
        patch.shunt_outside(model, node.id.into(), taken)?;
        Ok(Some(patch))
    }
}

/// The elements of a Slice along an axis.
pub(crate) fn between(
    data: &Tensor,
    axis: usize,
    start: i64,
    end: i64,
    step: i64,
) -> TractResult<Tensor> {
    let size = i64::try_from(data.shape()[axis])?;
    let (first, count) = positions(start, end, step, size);
    if step == 1 && count > 0 {
        let first = usize::try_from(first)?;
        return data.slice(axis, first, first + usize::try_from(count)?);
    }
    if count > 0 && data.datum_type().is_copy() && !data.datum_type().is_quantized() {
        return dispatch_datum!(strided(data.datum_type())(data, axis, first, count, step));
    }
    let positions = (0..count).map(|at| usize::try_from(first + at * step));
    take(data, axis, &positions.collect::<Result<Vec<_>, _>>()?)
}

/// Some elements at equal distances, by their first position.
fn strided<T: Datum>(
    data: &Tensor,
    axis: usize,
    first: i64,
    count: i64,
    step: i64,
) -> TractResult<Tensor> {
    let last = first + (count - 1) * step;
    let (from, to) = (first.min(last), first.max(last) + 1);
    // Backwards, it starts at the end of the range.
    let slice = tract_ndarray::Slice {
        start: isize::try_from(from)?,
        end: Some(isize::try_from(to)?),
        step: if count == 1 {
            1
        } else {
            isize::try_from(step)?
        },
    };
    let data = data.to_plain_array_view::<T>()?;
    let data = data.slice_axis(tract_ndarray::Axis(axis), slice);
    Ok(data.to_owned().into_tensor())
}

/// The elements at some positions along an axis, which may be none.
pub(crate) fn take(data: &Tensor, axis: usize, positions: &[usize]) -> TractResult<Tensor> {
    if positions.is_empty() || data.datum_type().is_copy() {
        let mut shape: TVec<usize> = data.shape().into();
        shape[axis] = positions.len();
        let mut taken = Tensor::zero_dt(data.datum_type(), &shape)?;
        for (to, from) in positions.iter().enumerate() {
            taken.assign_slice(to..=to, data, *from..=*from, axis)?;
        }
        return Ok(taken);
    }
    let elements = positions.iter();
    let elements = elements.map(|position| data.slice(axis, *position, position + 1));
    Tensor::stack_tensors(axis, &elements.collect::<TractResult<Vec<_>>>()?)
}

/// The data and the axis of an operator; without an axis, the flattened data.
pub(crate) fn along(data: TValue, axis: Option<usize>) -> TractResult<(TValue, usize)> {
    if let Some(axis) = axis {
        return Ok((data, axis));
    }
    let elements = data.len();
    Ok((data.into_tensor().into_shape(&[elements])?.into_tvalue(), 0))
}

/// Wires a slice between two positions within an axis.
pub(crate) fn wire_within(
    (from, to): (TDim, TDim),
    name: &str,
    model: &mut TypedModel,
    axis: usize,
    data: OutletId,
) -> TractResult<OutletId> {
    if from == 0.to_dim() && to == model.outlet_fact(data)?.shape[axis] {
        return Ok(data);
    }
    let name = model.unique_name(format!("{name}.slice")).into_owned();
    Ok(model.wire_node(name, Slice::new(axis, from, to), &[data])?[0])
}
