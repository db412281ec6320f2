//! Activation functions as tract writes them.

use recurrent_layers::Activation as OfLayer;
use tract_onnx::tract_core::ops::binary::BinMiniOp;
use tract_onnx::tract_core::ops::element_wise::{ElementWiseMiniOp, ElementWiseOp};
use tract_onnx::tract_core::ops::logic::{CompLT, Iff};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_hir::internal::*;

use super::values::Scanned;
use crate::recurrent::activation::Activation;

/// The function that makes a value, and its argument.
pub(super) fn of(scan: &Scanned<'_>, value: OutletId) -> Option<(OfLayer, OutletId)> {
    let node = scan.node(value);
    if let Some(op) = node.op_as::<ElementWiseOp>() {
        let function = match () {
            () if op.0.is::<nn::Sigmoid>() => OfLayer::Sigmoid,
            () if op.0.is::<math::Tanh>() => OfLayer::Tanh,
            () => match (op.0.downcast_ref(), op.0.downcast_ref::<nn::LeakyRelu>()) {
                (Some(&Activation::OfLayer(function)), _) => function,
                (Some(_), _) => return None,
                (None, Some(&nn::LeakyRelu { alpha })) => OfLayer::LeakyRelu { alpha },
                (None, None) => return softplus(scan, value),
            },
        };
        return Some((function, scan.strip(node.inputs[0])));
    }
    softsign(scan, value)
        .or_else(|| choice(scan, value))
        .or_else(|| {
            let [_, x] = with_number::<math::Max>(scan, value, 0.0)?;
            Some((OfLayer::Relu, x))
        })
}

/// The operands of a commutative operator, of which the first is a number.
fn with_number<T: BinMiniOp>(
    scan: &Scanned<'_>,
    value: OutletId,
    number: f32,
) -> Option<[OutletId; 2]> {
    let mut operands = scan.either::<T>(value);
    let [one, other] = operands.find(|[one, _]| scan.number(*one) == Some(number))?;
    Some([one, scan.strip(other)])
}

/// The argument of an elementwise function.
fn argument<T: ElementWiseMiniOp>(scan: &Scanned<'_>, value: OutletId) -> Option<OutletId> {
    let node = scan.node(scan.strip(value));
    let op = node.op_as::<ElementWiseOp>()?;
    op.0.is::<T>().then(|| scan.strip(node.inputs[0]))
}

/// ln(1 + exp(x))
fn softplus(scan: &Scanned<'_>, value: OutletId) -> Option<(OfLayer, OutletId)> {
    let [_, exp] = with_number::<math::Add>(scan, argument::<math::Ln>(scan, value)?, 1.0)?;
    Some((OfLayer::Softplus, argument::<math::Exp>(scan, exp)?))
}

/// x / (1 + |x|)
fn softsign(scan: &Scanned<'_>, value: OutletId) -> Option<(OfLayer, OutletId)> {
    quotients(scan, value).find_map(|[x, divisor]| {
        let [_, size] = with_number::<math::Add>(scan, divisor, 1.0)?;
        let x = scan.strip(x);
        (argument::<math::Abs>(scan, size)? == x).then_some((OfLayer::Softsign, x))
    })
}

/// The dividend and the divisor of a quotient, or of a product with a reciprocal.
fn quotients(scan: &Scanned<'_>, value: OutletId) -> impl Iterator<Item = [OutletId; 2]> {
    let products = scan.either::<math::Mul>(value);
    let by_reciprocals = products
        .filter_map(|[dividend, factor]| Some([dividend, argument::<math::Recip>(scan, factor)?]));
    scan.quotient(value).into_iter().chain(by_reciprocals)
}

/// x where it is more than a number, and something else elsewhere.
fn choice(scan: &Scanned<'_>, value: OutletId) -> Option<(OfLayer, OutletId)> {
    let node = scan.node(value);
    if !node.op_is::<Iff>() {
        return None;
    }
    let [limit, than] = scan.binary::<CompLT>(node.inputs[0])?;
    let (limit, x) = (scan.number(limit)?, scan.strip(than));
    if scan.strip(node.inputs[1]) != x {
        return None;
    }
    let otherwise = node.inputs[2];
    if scan.number(otherwise) == Some(0.0) {
        // The layer's function keeps numbers that equal its constant.
        let alpha = limit.next_up();
        return Some((OfLayer::ThresholdedRelu { alpha }, x));
    }
    // alpha (exp(x) - 1)
    let mut scaled = scan.either::<math::Mul>(otherwise);
    let alpha = scaled.find_map(|[alpha, of]| {
        let [exp, one] = scan.binary::<math::Sub>(of)?;
        let is_of_x = argument::<math::Exp>(scan, exp)? == x && scan.number(one)? == 1.0;
        scan.number(alpha).filter(|_| is_of_x && limit == 0.0)
    });
    Some((OfLayer::Elu { alpha: alpha? }, x))
}
