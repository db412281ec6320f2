//! Recognises single values of a step.

use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::logic::{Iff, Not};
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_hir::internal::*;

use crate::loops::alias::Alias;
use crate::recurrent::activation::Activation;

/// A Scan about to be wired.
pub(crate) struct Scanned<'a> {
    pub(crate) body: &'a TypedModel,
    pub(crate) outer: &'a [OutletId],
    pub(crate) inputs: &'a [InputMapping],
    pub(crate) outputs: &'a [OutputMapping<TDim>],
}

/// The update of a state: a new value, where a mask is true.
pub(super) struct Next {
    pub(super) new: OutletId,
    /// The value elsewhere, and the mask's input.
    pub(super) otherwise: Option<Otherwise>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Otherwise {
    pub(super) old: OutletId,
    pub(super) mask: usize,
    pub(super) blends: bool,
}

impl Scanned<'_> {
    pub(super) fn node(&self, outlet: OutletId) -> &TypedNode {
        self.body.node(outlet.node)
    }

    /// Skips nodes that change only axes of size 1 or the name.
    pub(super) fn strip(&self, mut outlet: OutletId) -> OutletId {
        loop {
            let node = self.node(outlet);
            let is_unit = matches!(node.op_as(), Some(AxisOp::Add(_) | AxisOp::Rm(_)));
            if !is_unit && !node.op_is::<Alias>() && !node.op_is::<Identity>() {
                return outlet;
            }
            outlet = node.inputs[0];
        }
    }

    /// The body's input that a value is.
    pub(super) fn source(&self, outlet: OutletId) -> Option<usize> {
        let outlet = self.strip(outlet);
        self.body.inputs.iter().position(|it| *it == outlet)
    }

    pub(super) fn binary<T: BinMiniOp>(&self, outlet: OutletId) -> Option<[OutletId; 2]> {
        let node = self.node(self.strip(outlet));
        let op = node.op_as::<TypedBinOp>()?;
        op.0.is::<T>().then(|| [node.inputs[0], node.inputs[1]])
    }

    /// The operands of a commutative operator, in both orders.
    pub(super) fn either<T: BinMiniOp>(
        &self,
        outlet: OutletId,
    ) -> impl Iterator<Item = [OutletId; 2]> {
        let found = self.binary::<T>(outlet);
        found.into_iter().flat_map(|[a, b]| [[a, b], [b, a]])
    }

    /// The number that all elements equal.
    pub(super) fn number(&self, outlet: OutletId) -> Option<f32> {
        let known = self.body.outlet_fact(outlet).ok()?.konst.clone()?;
        known.as_uniform()?.cast_to_scalar::<f32>().ok()
    }

    /// The input of a mask, and whether the mask is negated.
    pub(super) fn mask(&self, outlet: OutletId) -> Option<(usize, bool)> {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        let fact = self.body.outlet_fact(outlet).ok()?;
        if let Some(input) = self.source(outlet) {
            let is_mask = fact.datum_type.is::<bool>() && self.inputs[input].is_scan();
            return is_mask.then_some((input, false));
        }
        let is_not = node
            .op_as::<ElementWiseOp>()
            .is_some_and(|op| op.0.is::<Not>());
        if is_not {
            let (input, is_opposite) = self.mask(node.inputs[0])?;
            return Some((input, !is_opposite));
        }
        if node.op_is::<Cast>() {
            return self.mask(node.inputs[0]);
        }
        let [one, of] = self.binary::<math::Sub>(outlet)?;
        let (input, is_opposite) = self.mask(of)?;
        (self.number(one)? == 1.0).then_some((input, !is_opposite))
    }

    /// Whether a mask has one element for each row of a state.
    pub(super) fn is_by_row(&self, mask: OutletId) -> bool {
        let fact = self.body.outlet_fact(mask);
        fact.is_ok_and(|fact| fact.rank() == 2 && fact.shape[1].is_one())
    }

    pub(super) fn next(&self, outlet: OutletId) -> Next {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        if node.op_is::<Iff>()
            && self.is_by_row(node.inputs[0])
            && let Some((mask, is_opposite)) = self.mask(node.inputs[0])
        {
            let (new, old) = if is_opposite { (2, 1) } else { (1, 2) };
            return Next {
                new: self.strip(node.inputs[new]),
                otherwise: Some(Otherwise {
                    old: self.strip(node.inputs[old]),
                    mask,
                    blends: false,
                }),
            };
        }
        let part = |outlet: OutletId, is_opposite: bool| {
            self.either::<math::Mul>(outlet).find_map(|[of, value]| {
                let (mask, found) = self.mask(of).filter(|_| self.is_by_row(of))?;
                (found == is_opposite).then(|| (mask, self.strip(value)))
            })
        };
        let blend = self.either::<math::Add>(outlet).find_map(|[new, old]| {
            let ((mask, new), (other, old)) = (part(new, false)?, part(old, true)?);
            let otherwise = Otherwise {
                old,
                mask,
                blends: true,
            };
            (mask == other).then_some(Next {
                new,
                otherwise: Some(otherwise),
            })
        });
        blend.unwrap_or(Next {
            new: outlet,
            otherwise: None,
        })
    }

    pub(super) fn same_mask(&self, a: &Next, b: &Next) -> bool {
        let mask = |next: &Next| next.otherwise.map(|it| (it.mask, it.blends));
        mask(a) == mask(b)
    }

    pub(super) fn activation(&self, outlet: OutletId) -> Option<(Activation, OutletId)> {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        if let Some(op) = node.op_as::<ElementWiseOp>() {
            let found = match () {
                () if op.0.is::<nn::Sigmoid>() => Activation::Sigmoid,
                () if op.0.is::<math::Tanh>() => Activation::Tanh,
                () => return None,
            };
            return Some((found, self.strip(node.inputs[0])));
        }
        let relu = self.either::<math::Max>(outlet);
        let mut relu = relu.filter(|[zero, _]| self.number(*zero) == Some(0.0));
        relu.next().map(|[_, x]| (Activation::Relu, self.strip(x)))
    }
}
