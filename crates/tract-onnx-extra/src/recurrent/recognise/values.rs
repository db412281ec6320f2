//! Single values of a step, and masks.

use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::logic::{Iff, Not};
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping};
use tract_onnx::tract_hir::internal::*;

use crate::dims::scalar;
use crate::loops::alias::Alias;
use crate::operators::div::Quotient;

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
        while let Some(same) = self.same(outlet) {
            outlet = same;
        }
        outlet
    }

    /// The value that a node outputs as it is, but for axes of size 1.
    fn same(&self, outlet: OutletId) -> Option<OutletId> {
        let node = self.node(outlet);
        let input = *node.inputs.first()?;
        let is_unit = matches!(node.op_as(), Some(AxisOp::Add(_) | AxisOp::Rm(_)));
        if is_unit || node.op_is::<Alias>() || node.op_is::<Identity>() {
            return Some(input);
        }
        let fact = |outlet: OutletId| self.body.outlet_fact(outlet).ok();
        let (before, after) = (fact(input)?, fact(outlet)?);
        let is_alike =
            |other: &TypedFact| other.datum_type == after.datum_type && other.shape == after.shape;
        if node.op_is::<Cast>() && is_alike(before) {
            return Some(input);
        }
        // Gemm multiplies what it adds by beta.
        let mut factors = self.factors(node).into_iter().flatten();
        let (_, other) = factors.find(|&(one, other)| {
            self.number(one) == Some(1.0) && fact(other).is_some_and(is_alike)
        })?;
        Some(other)
    }

    /// The operands of a product in both orders.
    fn factors(&self, node: &TypedNode) -> Option<[(OutletId, OutletId); 2]> {
        let op = node.op_as::<TypedBinOp>()?;
        let (a, b) = (node.inputs[0], node.inputs[1]);
        op.0.is::<math::Mul>().then_some([(a, b), (b, a)])
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

    /// The dividend and the divisor of a quotient, ONNX's or one that tract writes itself.
    pub(super) fn quotient(&self, outlet: OutletId) -> Option<[OutletId; 2]> {
        self.binary::<Quotient>(outlet)
            .or_else(|| self.binary::<math::Div>(outlet))
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
        scalar(&known.as_uniform()?).ok()
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
}
