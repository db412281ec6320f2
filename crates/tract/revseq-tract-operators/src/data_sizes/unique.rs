//! Unique, which tract lacks.
//!
//! The number of kept slices is a symbol, which up to three outputs share. NaNs equal each other
//! and come last.
//!
//! ```text
//! Unique([2, 1, 1]) → [1, 2], first places [1, 0], each one's place [1, 0, 0], counts [2, 1]
//! ```

use std::cmp::Ordering;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::runtime_slice::{along, take};
use super::size_symbols::{SizeSymbols, axis, in_numbers};
use crate::operator::{Parsed, Wiring, own};
use crate::operators::top_k::compared;
use crate::typed_op::{Stateless, Typed};

/// Parses a Unique.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let mut is_wanted = [false; 4];
    for (is_wanted, name) in std::iter::zip(&mut is_wanted, &node.output) {
        *is_wanted = !name.is_empty();
    }
    let along: Option<i64> = node.get_attr_opt("axis")?;
    let is_sorted = node.get_attr_opt("sorted")?.unwrap_or(1_i64) != 0;
    let size = SizeSymbols::new(ctx);
    let outputs = is_wanted.into_iter().filter(|it| *it).count();
    own(node, [1, outputs], move |node: &mut Wiring<'_>| {
        let rank = node.input(0)?.rank();
        node.whole(Typed(Unique {
            axis: along.map(|it| axis(it, rank)).transpose()?,
            is_sorted,
            is_wanted,
            size: size.of(0),
        }))
    })
}

/// Keeps the first of equal slices along an axis, or of equal elements.
///
/// The outputs, as far as they are wanted, are the kept slices, where each comes from, which of
/// them each input slice equals, and how often each occurs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unique {
    axis: Option<usize>,
    /// Whether the kept slices ascend; otherwise they stay in the order of the input.
    is_sorted: bool,
    is_wanted: [bool; 4],
    /// The number of kept slices, a symbol of its own.
    size: TDim,
}

/// The input slices that are kept, and which of them each slice equals.
struct Groups {
    kept: Vec<usize>,
    equals: Vec<usize>,
}

impl Unique {
    /// What there is of each output, as far as they are wanted.
    fn of_outputs<T>(&self, each: [T; 4]) -> TVec<T> {
        let each = std::iter::zip(each, self.is_wanted);
        each.filter_map(|(it, is_wanted)| is_wanted.then_some(it))
            .collect()
    }

    /// Orders slices, `inner` elements at each of `outer` places.
    fn find<T: Datum + PartialOrd>(&self, data: &Tensor, axis: usize) -> TractResult<Groups> {
        let (count, shape) = (data.shape()[axis], data.shape());
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[..axis].iter().product();
        let data = data.try_as_plain_ram()?;
        let data = data.as_slice::<T>()?;
        let row = |at: usize, place: usize| &data[(place * count + at) * inner..][..inner];
        let compare = |a: usize, b: usize| {
            let places = (0..outer).flat_map(|place| std::iter::zip(row(a, place), row(b, place)));
            places
                .map(|(a, b)| compared(a, b))
                .find(|it| it.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        let mut sorted: Vec<usize> = (0..count).collect();
        sorted.sort_by(|a, b| compare(*a, *b));
        // The sort is stable, so the first of equal slices is the first of its group.
        let mut kept: Vec<usize> = vec![];
        let mut equals = vec![0; count];
        for (position, &at) in sorted.iter().enumerate() {
            if position == 0 || compare(sorted[position - 1], at).is_ne() {
                kept.push(at);
            }
            equals[at] = kept.len() - 1;
        }
        if !self.is_sorted {
            let mut order: Vec<usize> = (0..kept.len()).collect();
            order.sort_by_key(|group| kept[*group]);
            let mut place = vec![0; kept.len()];
            for (new, &old) in order.iter().enumerate() {
                place[old] = new;
            }
            for group in &mut equals {
                *group = place[*group];
            }
            kept.sort_unstable();
        }
        Ok(Groups { kept, equals })
    }
}

impl Stateless for Unique {
    const NAME: &str = "Unique";

    fn defines_symbols(&self) -> bool {
        matches!(self.size, TDim::Sym(_))
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = in_numbers(args_1!(inputs), ctx.symbols)?;
        let datum_type = data.datum_type();
        let (data, axis) = along(data, self.axis)?;
        let groups = match datum_type {
            DatumType::String => self.find::<String>(&data, axis)?,
            DatumType::Bool => self.find::<bool>(&data, axis)?,
            _ => dispatch_numbers!(Self::find(datum_type)(self, &data, axis))?,
        };
        let Groups { kept, equals } = groups;
        let of_indices = |indices: &[usize]| {
            let indices: Vec<i64> = indices.iter().map(|it| *it as i64).collect();
            tensor1(&indices).into_tvalue()
        };
        let mut counts = vec![0; kept.len()];
        equals.iter().for_each(|group| counts[*group] += 1);
        let slices = take(&data, axis, &kept)?.into_tvalue();
        let [places, equals, counts] = [kept, equals, counts].map(|it| of_indices(&it));
        Ok(self.of_outputs([slices, places, equals, counts]))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let data = inputs[0].shape.to_tvec();
        let (slices, all) = match self.axis {
            Some(axis) => {
                let mut slices = data.clone();
                slices[axis] = self.size.clone();
                (slices, data[axis].clone())
            }
            None => (tvec![self.size.clone()], data.iter().product()),
        };
        let of_kept = i64::fact(std::slice::from_ref(&self.size));
        Ok(self.of_outputs([
            inputs[0].datum_type.fact(slices),
            of_kept.clone(),
            i64::fact(&[all]),
            of_kept,
        ]))
    }

    substitutes!(size);
}
