//! Sums of products with constant matrices.

use std::ops::Range;

use tract_onnx::tract_core::ops::array::{Slice, StridedSlice};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use super::values::Scanned;

/// A sum of products with constant matrices and of constants.
#[derive(Default)]
pub(super) struct Sum {
    /// The factors: a value, and the weights column by column.
    pub(super) products: Vec<(OutletId, Vec<f32>)>,
    pub(super) bias: Vec<f32>,
    /// Other terms.
    pub(super) others: Vec<OutletId>,
}

impl Scanned<'_> {
    /// Adds a range of columns of a value to a sum.
    pub(super) fn add_terms(
        &self,
        outlet: OutletId,
        columns: Range<usize>,
        to: &mut Sum,
    ) -> Option<()> {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        let fact = self.body.outlet_fact(outlet).ok()?;
        let width = fact.shape.last()?.to_usize().ok()?;
        if let Some(known) = &fact.konst {
            let known = known.cast_to::<f32>().ok()?;
            let known = known.try_as_plain_ram().ok()?;
            let known = known.as_slice::<f32>().ok()?;
            let part = match known.len() {
                1 => &vec![known[0]; columns.len()],
                len if len == width => known.get(columns)?,
                _ => return None,
            };
            for (to, bias) in std::iter::zip(&mut to.bias, part) {
                *to += bias;
            }
            return Some(());
        }
        if columns.end > width {
            return None;
        }
        if let Some([a, b]) = self.binary::<math::Add>(outlet) {
            self.add_terms(a, columns.clone(), to)?;
            return self.add_terms(b, columns, to);
        }
        if let Some(start) = self.first_column(node) {
            let columns = columns.start + start..columns.end + start;
            return self.add_terms(node.inputs[0], columns, to);
        }
        if node.op_is::<EinSum>() {
            let product = self.product(node, columns)?;
            to.products.push(product);
            return Some(());
        }
        (columns == (0..width)).then(|| to.others.push(outlet))
    }

    /// The first column of a slice of columns.
    pub(super) fn first_column(&self, node: &TypedNode) -> Option<usize> {
        let rank = node.outputs[0].fact.rank();
        if let Some(slice) = node.op_as::<Slice>() {
            let start = slice.start.to_usize().ok()?;
            return (slice.axis + 1 == rank).then_some(start);
        }
        let slice = node.op_as::<StridedSlice>()?;
        let masks = slice.begin_mask | slice.end_mask | slice.shrink_axis_mask;
        if masks != 0 || slice.optional_steps_input.is_some() {
            return None;
        }
        let numbers = |input: usize| -> Option<Vec<i64>> {
            let known = self
                .body
                .outlet_fact(node.inputs[input])
                .ok()?
                .konst
                .clone()?;
            let known = known.cast_to::<i64>().ok()?;
            Some(
                known
                    .try_as_plain_ram()
                    .ok()?
                    .as_slice::<i64>()
                    .ok()?
                    .to_vec(),
            )
        };
        let starts = numbers(1)?;
        let axes = match slice.optional_axes_input {
            Some(axes) => numbers(axes)?,
            None => (0..starts.len() as i64).collect(),
        };
        let mut first = 0;
        for (axis, start) in std::iter::zip(axes, starts) {
            let axis = if axis < 0 { axis + rank as i64 } else { axis };
            if axis + 1 == rank as i64 {
                first = usize::try_from(start).ok()?;
            } else {
                let axis = usize::try_from(axis).ok()?;
                let all = &self.body.outlet_fact(node.inputs[0]).ok()?.shape[axis];
                (start == 0 && node.outputs[0].fact.shape[axis] == *all).then_some(())?;
            }
        }
        Some(first)
    }

    /// Reads a product with a constant matrix: the other factor, and the weights column by column.
    pub(super) fn product(
        &self,
        node: &TypedNode,
        columns: Range<usize>,
    ) -> Option<(OutletId, Vec<f32>)> {
        let op = node.op_as::<EinSum>()?;
        if op.q_params.is_some() || node.inputs.len() != 2 {
            return None;
        }
        let known = |input: usize| {
            self.body
                .outlet_fact(node.inputs[input])
                .ok()?
                .konst
                .clone()
        };
        let (of, matrix, weights) = match (known(0), known(1)) {
            (None, Some(weights)) => (0, 1, weights),
            (Some(weights), None) => (1, 0, weights),
            _ => return None,
        };
        let of_rank = self.body.outlet_fact(node.inputs[of]).ok()?.rank();
        let out_rank = node.outputs[0].fact.rank();
        let (mut inner, mut outer) = (None, None);
        for axis in op.axes.iter_all_axes() {
            match (&*axis.inputs[of], &*axis.inputs[matrix], &*axis.outputs[0]) {
                ([a], [b], []) if *a + 1 == of_rank && inner.is_none() => inner = Some(*b),
                ([], [b], [c]) if *c + 1 == out_rank && outer.is_none() => outer = Some(*b),
                // Axes of size 1 of the weights, and rows.
                ([_] | [], [b], [_] | []) if weights.shape()[*b] == 1 => {}
                ([a], [], [c]) if a.abs_diff(*c) <= of_rank.abs_diff(out_rank) => {}
                _ => return None,
            }
        }
        let (inner, outer) = (inner?, outer?);
        let sizes = (weights.shape()[inner], weights.shape()[outer]);
        let weights = weights.cast_to::<f32>().ok()?;
        let weights = weights.try_as_plain_ram().ok()?;
        let weights = weights.as_slice::<f32>().ok()?;
        if sizes.0 * sizes.1 != weights.len() || columns.end > sizes.1 {
            return None;
        }
        let strides = if inner < outer {
            (sizes.1, 1)
        } else {
            (1, sizes.0)
        };
        let mut of_columns = vec![];
        for column in columns {
            let row = (0..sizes.0).map(|input| weights[input * strides.0 + column * strides.1]);
            of_columns.extend(row);
        }
        Some((self.strip(node.inputs[of]), of_columns))
    }

    pub(super) fn sum(&self, outlet: OutletId, units: usize) -> Option<Sum> {
        let mut sum = Sum {
            bias: vec![0.0; units],
            ..Sum::default()
        };
        self.add_terms(outlet, 0..units, &mut sum)?;
        Some(sum)
    }
}
