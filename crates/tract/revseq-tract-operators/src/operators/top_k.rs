//! TopK, with `k` checked: tract's fills up with zeros.
//!
//! A `k` that comes from data makes a symbol of the output's size. The order is total, so that
//! equal elements and NaN have one place, in ascending order as well.
//!
//! ```text
//! TopK([3, NaN, 5], k 2)  →  [NaN, 5], places [1, 2]
//! ```

use std::cmp::Ordering;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{SizeSymbols, axis, in_numbers};
use crate::dims::size;
use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a TopK.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let along = node.get_attr_opt("axis")?.unwrap_or(-1_i64);
    let largest = node.get_attr_opt("largest")?.unwrap_or(1_i64) != 0;
    // The number of elements is an attribute before opset 10.
    let number: Option<i64> = node.get_attr_opt("k")?;
    let sizes = SizeSymbols::new(ctx);
    let inputs = 2 - usize::from(number.is_some());
    own(node, [inputs, 2], move |node: &mut Wiring<'_>| {
        let data = node.input(0)?;
        let axis = axis(along, data.rank())?;
        let k = match (number, node.input(1).map(|fact| &fact.konst)) {
            (Some(k), _) => k.to_dim(),
            (None, Ok(Some(k))) => size(k).context("its k")?,
            (None, _) => sizes.of(axis),
        };
        let op = TopK { axis, largest, k };
        if let (Ok(k), Ok(count)) = (op.k.to_i64(), data.shape[axis].to_i64()) {
            op.check(k, count)?;
        }
        node.whole(Typed(op))
    })
}

/// The first elements along an axis in descending or ascending order, and where they were.
///
/// Of equal elements, the first comes first. NaN is more than any number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TopK {
    axis: usize,
    largest: bool,
    /// The number of elements; a symbol of its own if that comes from data.
    k: TDim,
}

impl TopK {
    fn check(&self, k: i64, count: i64) -> TractResult<()> {
        ensure!(
            (0..=count).contains(&k),
            "k is {k}, but axis {} has {count} elements",
            self.axis
        );
        Ok(())
    }

    fn first<T: Datum + Copy + PartialOrd>(
        &self,
        data: &Tensor,
        k: usize,
    ) -> TractResult<(Tensor, Tensor)> {
        let axis = tract_ndarray::Axis(self.axis);
        let mut shape = data.shape().to_vec();
        shape[self.axis] = k;
        let mut values = Tensor::zero_dt(data.datum_type(), &shape)?;
        let mut places = Tensor::zero::<i64>(&shape)?;
        let data = data.to_plain_array_view::<T>()?;
        {
            let mut values = values.try_as_plain_ram_mut()?;
            let mut places = places.try_as_plain_ram_mut()?;
            let (mut values, mut places) = (
                values.to_array_view_mut::<T>()?,
                places.to_array_view_mut::<i64>()?,
            );
            let to = std::iter::zip(values.lanes_mut(axis), places.lanes_mut(axis));
            for (lane, (mut values, mut places)) in std::iter::zip(data.lanes(axis), to) {
                let mut order: Vec<usize> = (0..lane.len()).collect();
                order.sort_by(|&a, &b| {
                    let ordering = compared(&lane[a], &lane[b]);
                    match self.largest {
                        true => ordering.reverse(),
                        false => ordering,
                    }
                });
                for (at, place) in order.into_iter().take(k).enumerate() {
                    values[at] = lane[place];
                    places[at] = place as i64;
                }
            }
        }
        Ok((values, places))
    }
}

/// A total order of numbers: NaN is more than any other, and equals itself.
pub(crate) fn compared<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |it: &T| it.partial_cmp(it).is_none();
    a.partial_cmp(b)
        .unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

impl Stateless for TopK {
    const NAME: &str = "TopK";

    fn defines_symbols(&self) -> bool {
        matches!(self.k, TDim::Sym(_))
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let k = match inputs.get(1) {
            Some(k) => size(k).context("its k")?,
            None => self.k.clone(),
        };
        let k = k.eval(ctx.symbols).to_i64()?;
        // Sizes are compared as numbers.
        let data = inputs.into_iter().next().context("it reads a value")?;
        let data = in_numbers(data, ctx.symbols)?;
        self.check(k, i64::try_from(data.shape()[self.axis])?)?;
        let k = usize::try_from(k)?;
        let datum_type = data.datum_type();
        let (values, places) = dispatch_numbers!(Self::first(datum_type)(self, &data, k))?;
        Ok(tvec![values.into_tvalue(), places.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        shape[self.axis] = self.k.clone();
        let datum_type = match inputs[0].datum_type {
            it if it.is_tdim() => i64::datum_type(),
            it => it,
        };
        Ok(tvec![datum_type.fact(shape.clone()), i64::fact(shape)])
    }

    substitutes!(k);
}
