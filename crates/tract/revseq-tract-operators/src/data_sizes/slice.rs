//! Slices of all versions, between bounds that may come from data, along axes of any size.
//!
//! Axes and steps have to be known by the time the node is wired, bounds need not be. Each axis is
//! wired alone, as the plainest operator that is right for every size: a Gather, tract's Slice, or
//! a [`RuntimeSlice`] that applies the bounds at run time.
//!
//! ```text
//! x[t:t+1] squeezed  →  Gather(x, t)
//! x[1:] of T + 1     →  tract's Slice from 1 to T + 1
//! x[:n], n from data →  Part, with a symbol for the number of elements
//! ```

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::{Gather, Slice};
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_hir::infer::{DimFact, ShapeFactoid};
use tract_onnx::tract_hir::internal::*;

use super::bounds::{BEYOND, Extent, extent};
use super::next::Next;
use super::node_context::{NodeContext, Number};
use super::runtime_slice::{Bound, RuntimeSlice, between, wire_within};
use super::size_symbols::{SizeSymbols, axis};
use crate::dims::{self, most};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, own};
use crate::typed_op::Typed;

/// Parses a Slice. tract's takes bounds for right that may lie outside of the axis.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let context = NodeContext::new(ctx);
    let lists = if node.input.len() > 1 {
        let mut inputs = optional_inputs(node);
        let mut list = |index: usize| -> TractResult<List> {
            let Some(input) = inputs.nth(usize::from(index == 0)).flatten() else {
                return Ok(List::Absent);
            };
            let numbers = context.numbers(&node.input[index + 1], None)?;
            Ok(List::Input(
                input,
                numbers.map(|it| it.into_iter().map(bound).collect()),
            ))
        };
        [list(0)?, list(1)?, list(2)?, list(3)?]
    } else {
        // Before opset 10 they were attributes.
        let list = |name| -> TractResult<List> {
            let numbers: Option<Vec<i64>> = node.get_attr_opt_vec(name)?;
            Ok(numbers.map_or(List::Absent, List::Constant))
        };
        [list("starts")?, list("ends")?, list("axes")?, List::Absent]
    };
    ensure!(
        !matches!(lists[0], List::Absent) && !matches!(lists[1], List::Absent),
        "a Slice without starts or ends"
    );
    let op = OnnxSlice {
        hints: hints(&context, node, &lists[2])?,
        lists,
        sizes: SizeSymbols::new(ctx),
    };
    let inputs = node.input.iter().filter(|name| !name.is_empty()).count();
    own(node, [inputs, 1], op)
}

/// A number that the graph determines.
fn bound(number: Number<'_>) -> Option<i64> {
    match number {
        Number::Known(number) => Some(number),
        // A larger bound means the same.
        Number::AtLeast(BEYOND..) => Some(BEYOND),
        _ => None,
    }
}

/// A list of numbers.
#[derive(Clone, Debug)]
enum List {
    Absent,
    Constant(Vec<i64>),
    /// An input, and its elements as far as the graph determines them and their number.
    Input(usize, Option<Vec<Option<i64>>>),
}

/// Facts from the graph about a Slice along an axis.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    /// Whether the end is the start plus one.
    is_next: bool,
    /// Whether all readers squeeze the axis.
    is_squeezed: bool,
}

/// Facts for each axis, if the graph determines them.
fn hints(context: &NodeContext<'_>, node: &NodeProto, axes: &List) -> TractResult<Vec<Hint>> {
    let [_, start, end, ..] = &*node.input else {
        return Ok(vec![]);
    };
    let starts = context.numbers(start, None)?;
    let axes: Vec<i64> = match axes {
        List::Absent => (0..starts.map_or(0, |it| it.len()) as i64).collect(),
        List::Constant(axes) => axes.clone(),
        List::Input(_, axes) => axes
            .iter()
            .flatten()
            .copied()
            .collect::<Option<_>>()
            .unwrap_or_default(),
    };
    let numbers = |name| -> TractResult<_> {
        let elements = context.numbers(name, Some(axes.len()))?;
        let elements = elements.filter(|it| it.len() == axes.len());
        Ok(elements.unwrap_or_else(|| vec![Number::Unknown; axes.len()]))
    };
    let (starts, ends) = (numbers(start)?, numbers(end)?);
    let hints = axes.iter().enumerate().map(|(at, &axis)| {
        Ok(Hint {
            is_next: match (starts[at], ends[at]) {
                (Number::Offset(start, a), Number::Offset(end, b)) => {
                    start == end && a.checked_add(1) == Some(b)
                }
                _ => false,
            },
            is_squeezed: context.is_squeezed(&node.output[0], axis)?,
        })
    });
    hints.collect()
}

/// A Slice before the types and shapes of its inputs are known.
#[derive(Clone, Debug)]
struct OnnxSlice {
    /// The starts, the ends, the axes and the steps.
    lists: [List; 4],
    hints: Vec<Hint>,
    sizes: SizeSymbols,
}

/// Knowledge of an input that holds a list: its elements, or its shape.
type ListFacts = (Option<Arc<Tensor>>, Option<TVec<TDim>>);

/// A Slice along an axis.
#[derive(Clone, Debug)]
struct Along {
    axis: usize,
    start: Bound,
    end: Bound,
    step: i64,
    hint: Hint,
}

/// The elements that a Slice takes along an axis.
#[derive(Clone, Debug)]
enum SlicedPart {
    /// The element at the start; the Squeeze fails if there is none.
    Element { at: usize },
    /// The elements between two positions within the axis.
    Within(TDim, TDim),
    /// A number of elements, between the bounds at run time.
    Counted(TDim),
    /// A number of elements that no expression gives before the run.
    Unknown,
}

impl Along {
    fn taken(&self, size: &TDim) -> SlicedPart {
        let Hint {
            is_next,
            is_squeezed,
        } = self.hint;
        // `x[i:i + 1]` has one element, and so has `x[i::s]` for a step beyond the axis.
        let to_end = self.end.number().is_some_and(|end| end >= BEYOND);
        if let Bound::Element { at, .. } = self.start
            && is_squeezed
            && (is_next && self.step > 0 || to_end && self.step >= BEYOND)
        {
            return SlicedPart::Element { at };
        }
        let (Bound::Known(start), Bound::Known(end)) = (&self.start, &self.end) else {
            return SlicedPart::Unknown;
        };
        match extent(start, end, self.step, size) {
            // Without an element, the Squeeze fails.
            Some(Extent::Count(count)) if is_squeezed && most(&count) == Some(1) => {
                SlicedPart::Counted(1.to_dim())
            }
            Some(Extent::Count(count)) => SlicedPart::Counted(count),
            Some(Extent::Within(from, to)) => SlicedPart::Within(from, to),
            None => SlicedPart::Unknown,
        }
    }
}

impl OnnxSlice {
    /// The axes with their bounds; `None` if axes or steps are not known.
    fn along(
        &self,
        rank: usize,
        facts_of: impl Fn(usize) -> TractResult<ListFacts>,
    ) -> TractResult<Option<Vec<Along>>> {
        let mut lists: TVec<Option<Vec<Option<TDim>>>> = tvec![];
        let mut has_symbol = false;
        for list in &self.lists {
            lists.push(match list {
                List::Absent => None,
                List::Constant(numbers) => {
                    Some(numbers.iter().map(|it| Some(it.to_dim())).collect())
                }
                List::Input(input, numbers) => {
                    let (value, shape) = facts_of(*input)?;
                    let length = shape.and_then(|it| Some(it.first()?.to_usize()));
                    has_symbol |= matches!(length, Some(Err(_)));
                    let length = length.and_then(Result::ok);
                    let count = numbers.as_ref().map(Vec::len).or(length);
                    match (value, numbers) {
                        (Some(value), _) => {
                            Some(dims::sizes(&value)?.into_iter().map(Some).collect())
                        }
                        (None, Some(numbers)) => {
                            let numbers = numbers.iter();
                            Some(numbers.map(|it| it.map(|it| it.to_dim())).collect())
                        }
                        (None, None) => count.map(|count| vec![None; count]),
                    }
                }
            });
        }
        let lengths: Vec<usize> = lists.iter().flatten().map(Vec::len).collect();
        // A list of bounds that comes from data is taken for one bound, which is checked when it is read.
        let count = lengths.first().copied().or(has_symbol.then_some(1));
        let Some(count) = count else {
            return Ok(None);
        };
        ensure!(
            lengths.iter().all(|length| *length == count),
            "a Slice whose starts, ends, axes and steps have {lengths:?} elements, expected \
             equally many"
        );
        let mut slices: Vec<Along> = vec![];
        for at in 0..count {
            // Absent, known, or neither.
            let number = |list: usize, absent: i64| match (&self.lists[list], &lists[list]) {
                (List::Absent, _) => Some(absent),
                (_, Some(list)) => list[at].as_ref()?.to_i64().ok(),
                (_, None) => None,
            };
            let (Some(number_of_axis), Some(step)) = (number(2, at as i64), number(3, 1)) else {
                return Ok(None);
            };
            ensure!(step != 0, "its step along axis {number_of_axis} is 0");
            let axis = axis(number_of_axis, rank).ok();
            let is_new = |axis: &usize| slices.iter().all(|slice| slice.axis != *axis);
            let axis = axis.filter(is_new).with_context(|| {
                format!(
                    "axis {number_of_axis} of data of rank {rank}, expected each axis at most once, from \
                     {} to {}",
                    -(rank as i64),
                    rank as i64 - 1
                )
            })?;
            let bound = |list: usize| match &lists[list] {
                Some(list) => list[at].clone().map(Bound::Known),
                None => None,
            };
            let [start, end] = [bound(0), bound(1)];
            let unknown = Bound::Element { at, length: count };
            slices.push(Along {
                axis,
                start: start.unwrap_or_else(|| unknown.clone()),
                end: end.unwrap_or(unknown),
                step,
                hint: self.hints.get(at).copied().unwrap_or_default(),
            });
        }
        Ok(Some(slices))
    }

    /// A list of bounds that are not all known.
    fn list(&self, list: usize, node: &Wiring<'_>) -> TractResult<OutletId> {
        match self.lists[list] {
            List::Input(input, _) => Ok(node.inputs[input]),
            _ => bail!("a bound of a Slice is unknown"),
        }
    }

    /// The elements of known data between known bounds.
    fn value(&self, data: Arc<Tensor>, along: &[Along]) -> TractResult<Option<Arc<Tensor>>> {
        let mut data = data.into_tvalue();
        for along in along {
            rule_if_some!(bounds = along.start.number().zip(along.end.number()));
            data = between(&data, along.axis, bounds.0, bounds.1, along.step)?.into_tvalue();
        }
        Ok(Some(data.into_arc_tensor()))
    }
}

impl Operator for OnnxSlice {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let facts_of = |input: usize| {
            let fact = node.inputs.get(input).context("it lacks an input")?;
            Ok((fact.value.concretize(), fact.shape.concretize()))
        };
        let data = node.inputs[0];
        let mut output = node.outputs[0].clone();
        output.datum_type.unify_with(&data.datum_type)?;
        if let Some(rank) = data.shape.rank().concretize() {
            let rank = usize::try_from(rank)?;
            let mut dims: TVec<DimFact> = data.shape.dims().cloned().collect();
            match self.along(rank, facts_of)? {
                None => dims = tvec![DimFact::default(); rank],
                Some(along) => {
                    if let Some(data) = node.value(0).filter(|_| node.computes)
                        && let Some(value) = self.value(data, &along)?
                    {
                        output.value = value.into();
                    }
                    for along in along {
                        let dim = &mut dims[along.axis];
                        let Some(size) = dim.concretize() else {
                            continue;
                        };
                        *dim = match along.taken(&size) {
                            SlicedPart::Element { .. } => 1.to_dim(),
                            SlicedPart::Within(from, to) => to - from,
                            SlicedPart::Counted(size) => size,
                            SlicedPart::Unknown => self.sizes.of(along.axis),
                        }
                        .into();
                    }
                }
            }
            let inferred = std::iter::zip(&mut dims, output.shape.dims());
            for (dim, inferred) in inferred.filter(|(_, dim)| dim.is_concrete()) {
                *dim = inferred.clone();
            }
            output.shape = ShapeFactoid::closed(dims);
        }
        let inputs = node.inputs.iter().map(|fact| (*fact).clone()).collect();
        Ok(Some((inputs, tvec![output], tvec![])))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let rank = node.input(0)?.rank();
        let facts_of = |input: usize| {
            let fact = node.input(input)?;
            Ok((fact.konst.clone(), Some(fact.shape.to_tvec())))
        };
        let along = self.along(rank, facts_of)?;
        let along = along.context("its axes or its steps are not constants")?;
        let mut wire = node.inputs[0];
        for along in along {
            wire = self.wire_along(node, &along, wire)?;
        }
        node.last(Identity, &[wire])
    }
}

impl OnnxSlice {
    fn wire_along(
        &self,
        node: &mut Wiring<'_>,
        along: &Along,
        data: OutletId,
    ) -> TractResult<OutletId> {
        let axis = along.axis;
        let part = |what: &str| format!("axis{axis}.{what}");
        let size = node.fact(data)?.shape[axis].clone();
        let size = match along.taken(&size) {
            SlicedPart::Element { at } => {
                let start = self.list(0, node)?;
                let index = node.op(&part("bound"), Slice::new(0, at, at + 1), &[start])?;
                let index = node.op(&part("scalar"), AxisOp::Rm(0), &[index])?;
                let mut index = node.cast(&part("index"), index, i64::datum_type())?;
                if along.hint.is_next {
                    index = node.op(&part("next"), Typed(Next { axis }), &[index])?;
                }
                let element = node.op(&part("element"), Gather::new(axis), &[data, index])?;
                // The Squeeze behind the Slice removes this axis again, and both vanish.
                return node.op(&part("of"), AxisOp::Add(axis), &[element]);
            }
            SlicedPart::Within(from, to) => {
                let name = format!("{}.axis{axis}", node.name);
                return wire_within((from, to), &name, node.model, axis, data);
            }
            SlicedPart::Counted(size) => size,
            SlicedPart::Unknown => self.sizes.of(axis),
        };
        let mut inputs = tvec![data];
        for (list, bound) in [&along.start, &along.end].into_iter().enumerate() {
            if let Bound::Element { .. } = bound {
                inputs.push(self.list(list, node)?);
            }
        }
        let op = RuntimeSlice {
            axis,
            start: along.start.clone(),
            end: along.end.clone(),
            step: along.step,
            size,
        };
        node.op(&part("part"), Typed(op), &inputs)
    }
}
