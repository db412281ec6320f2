//! The values of a Scan's body, in which cells are recognised.

use std::cell::RefCell;

use recurrent_cells::{Activation, Constant, Matrix, Operator, Product, Step};
use tract_onnx::tract_core::ops::array::{Slice, TypedConcat};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use super::activation;
use super::values::Scanned;

/// A Scan's body, with the constants that were read.
pub(super) struct Body<'a> {
    pub(super) scan: &'a Scanned<'a>,
    /// By their outlets in this body.
    constants: RefCell<HashMap<OutletId, Option<Constant>>>,
}

impl<'a> Body<'a> {
    pub(super) fn new(scan: &'a Scanned<'a>) -> Self {
        Self {
            scan,
            constants: RefCell::default(),
        }
    }

    fn fact(&self, outlet: OutletId) -> Option<&TypedFact> {
        self.scan.body.outlet_fact(outlet).ok()
    }

    /// The value, if it is the same at each step; in other axes of size 1.
    fn known(&self, outlet: OutletId) -> Option<&Arc<Tensor>> {
        let konst = |outlet| self.fact(outlet)?.konst.as_ref();
        konst(outlet).or_else(|| konst(self.scan.strip(outlet)))
    }

    fn read(&self, outlet: OutletId) -> Option<Constant> {
        let known = self.known(outlet)?;
        let plain = known.try_as_plain_ram().ok()?;
        let elements = plain.as_slice::<f32>().ok()?.to_vec();
        // Constants of fewer axes broadcast alike.
        let of_one = known.shape().iter().take_while(|size| **size == 1).count();
        Constant::new(known.shape()[of_one..].to_vec(), elements)
    }

    /// The axes of a product's constant operand: the one that is summed over, and that of the
    /// output's columns.
    fn axes(&self, node: &TypedNode, factor: usize, weights: &[usize]) -> Option<(usize, usize)> {
        let op = node.op_as::<EinSum>()?;
        let of_rank = self.fact(node.inputs[factor])?.rank();
        let out_rank = node.outputs[0].fact.rank();
        let (mut inner, mut outer) = (None, None);
        for axis in op.axes.iter_all_axes() {
            match (
                &*axis.inputs[factor],
                &*axis.inputs[1 - factor],
                &*axis.outputs[0],
            ) {
                ([a], [b], []) if *a + 1 == of_rank && inner.is_none() => inner = Some(*b),
                ([], [b], [c]) if *c + 1 == out_rank && outer.is_none() => outer = Some(*b),
                // Axes of size 1 of the weights, and rows.
                ([_] | [], [b], [_] | []) if weights[*b] == 1 => {}
                ([a], [], [c]) if a.abs_diff(*c) <= of_rank.abs_diff(out_rank) => {}
                _ => return None,
            }
        }
        inner.zip(outer)
    }
}

impl Step for Body<'_> {
    type Value = OutletId;

    fn plain(&self, value: OutletId) -> OutletId {
        self.scan.strip(value)
    }

    fn state(&self, value: OutletId) -> Option<OutletId> {
        let input = self.scan.source(value)?;
        let outlet = self.scan.body.inputs[input];
        let fact = self.fact(outlet)?;
        let is_row = fact.datum_type.is::<f32>() && fact.rank() == 2;
        (is_row && self.scan.inputs[input].is_state()).then_some(outlet)
    }

    fn constant(&self, value: OutletId) -> Option<Constant> {
        if let Some(known) = self.constants.borrow().get(&value) {
            return known.clone();
        }
        let read = self.read(value);
        self.constants.borrow_mut().insert(value, read.clone());
        read
    }

    fn number(&self, value: OutletId) -> Option<f32> {
        self.scan.number(value)
    }

    fn operands(&self, value: OutletId, operator: Operator) -> Option<[OutletId; 2]> {
        match operator {
            Operator::Add => self.scan.binary::<math::Add>(value),
            Operator::Sub => self.scan.binary::<math::Sub>(value),
            Operator::Mul => self.scan.binary::<math::Mul>(value),
            Operator::Div => self.scan.quotient(value),
            Operator::Max => self.scan.binary::<math::Max>(value),
            Operator::Min => self.scan.binary::<math::Min>(value),
        }
    }

    fn activation(&self, value: OutletId) -> Option<(Activation, OutletId)> {
        activation::of(self.scan, value)
    }

    /// tract writes bounds as maxima and minima.
    fn bounded(&self, _value: OutletId) -> Option<(OutletId, f32, f32)> {
        None
    }

    fn product(&self, value: OutletId) -> Option<Product<OutletId>> {
        let node = self.scan.node(value);
        let op = node.op_as::<EinSum>()?;
        if op.q_params.is_some() || node.inputs.len() != 2 {
            return None;
        }
        let is_known = |input: usize| self.known(node.inputs[input]).is_some();
        let factor = match (is_known(0), is_known(1)) {
            (false, true) => 0,
            (true, false) => 1,
            _ => return None,
        };
        let shape = self.fact(node.inputs[1 - factor])?.shape.as_concrete()?;
        let (inner, outer) = self.axes(node, factor, shape)?;
        let constant = self.constant(node.inputs[1 - factor])?;
        let sizes = [inner.min(outer), inner.max(outer)].map(|axis| shape[axis]);
        let matrix = Matrix::new(&constant.reshaped(sizes.to_vec())?)?;
        Some(Product {
            factor: node.inputs[factor],
            weights: if inner < outer {
                matrix
            } else {
                matrix.transposed()
            },
            more: None,
        })
    }

    fn joined(&self, value: OutletId) -> Option<Vec<OutletId>> {
        let node = self.scan.node(value);
        let is_of_columns = node.op_as::<TypedConcat>()?.axis + 1 == self.fact(value)?.rank();
        is_of_columns.then(|| node.inputs.to_vec())
    }

    fn columns(&self, value: OutletId) -> Option<(OutletId, usize, usize)> {
        let node = self.scan.node(value);
        let slice = node.op_as::<Slice>()?;
        let is_of_columns = slice.axis + 1 == self.fact(value)?.rank();
        let first = slice.start.to_usize().ok().filter(|_| is_of_columns)?;
        Some((node.inputs[0], first, self.width(value)?))
    }

    fn width(&self, value: OutletId) -> Option<usize> {
        self.fact(value)?.shape.last()?.to_usize().ok()
    }

    /// tract's operators have all axes.
    fn row_of_one(&self, _value: OutletId) -> Option<OutletId> {
        None
    }
}
