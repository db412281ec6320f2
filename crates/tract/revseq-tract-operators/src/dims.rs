//! Sizes that may be symbols: tensors of numbers and of tract's `TDim` read alike.
//!
//! An operator on sizes computes with `TDim` throughout, where a number is an expression, too.
//! Symbols stand for sizes, so none is negative; what is concluded here of an expression relies on
//! that alone.
//!
//! ```text
//! is_size(3·N + M) holds; is_size(N - 1) does not, since N may be 0
//! ```

use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_hir::internal::*;

/// The elements as sizes; tract's cast keeps 32 bits of each number.
pub(crate) fn sizes(value: &Tensor) -> TractResult<Vec<TDim>> {
    if value.datum_type().is_tdim() {
        let sizes = value.to_plain_array_view::<TDim>()?;
        return Ok(sizes.iter().cloned().collect());
    }
    let numbers = value.cast_to::<i64>()?;
    let numbers = numbers.to_plain_array_view::<i64>()?;
    Ok(numbers.iter().map(|number| number.to_dim()).collect())
}

/// A value as sizes.
pub(crate) fn in_dims(value: &Tensor) -> TractResult<Tensor> {
    tensor1(&sizes(value)?).into_shape(value.shape())
}

/// The only element of a tensor, which tract reads where there is none, too.
pub(crate) fn scalar<T: Datum + Copy>(value: &Tensor) -> TractResult<T> {
    ensure!(
        value.len() == 1,
        "a number is expected, not {} of them",
        value.len()
    );
    value.cast_to_scalar()
}

/// Computes each element of a broadcast result.
pub(crate) fn broadcast<T: Datum>(
    a: tract_ndarray::ArrayViewD<'_, T>,
    b: tract_ndarray::ArrayViewD<'_, T>,
    function: impl Fn(&T, &T) -> TractResult<T>,
) -> TractResult<Tensor> {
    let shape = multi_broadcast(&[a.shape(), b.shape()])?;
    let whole = "inputs broadcast to their common shape";
    let (a, b) = (
        a.broadcast(&*shape).context(whole)?,
        b.broadcast(&*shape).context(whole)?,
    );
    let elements = std::iter::zip(&a, &b).map(|(a, b)| function(a, b));
    let elements = elements.collect::<TractResult<Vec<T>>>()?;
    Ok(tract_ndarray::ArrayD::from_shape_vec(&*shape, elements)?.into_tensor())
}

/// The same of [sizes](sizes).
pub(crate) fn each_size(
    inputs: [&Tensor; 2],
    function: impl Fn(&TDim, &TDim) -> TractResult<TDim>,
) -> TractResult<Tensor> {
    let sizes = inputs.map(|input| {
        let sizes = sizes(input)?;
        Ok::<_, TractError>(tract_ndarray::ArrayD::from_shape_vec(input.shape(), sizes)?)
    });
    let [a, b] = sizes;
    broadcast(a?.view(), b?.view(), function)
}

/// The only element as a size.
pub(crate) fn size(value: &Tensor) -> TractResult<TDim> {
    let mut sizes = sizes(value)?;
    ensure!(
        sizes.len() == 1,
        "it has {} elements, expected one",
        sizes.len()
    );
    sizes.pop().context("it has one")
}

/// A lower bound of an expression of sizes.
pub(crate) fn least(expression: &TDim) -> Option<i64> {
    bound(expression, false, true)
}

/// An upper bound of an expression of sizes.
pub(crate) fn most(expression: &TDim) -> Option<i64> {
    bound(expression, true, true)
}

/// Whether an expression of sizes has a lower bound that is not negative.
pub(crate) fn is_not_negative(expression: &TDim) -> bool {
    least(expression).is_some_and(|it| it >= 0)
}

/// Whether an expression of sizes is not negative, whatever they are, and however its quotients are rounded.
/// What subtracts one has no bound here: tract takes numbers out of its quotients, and the rest is rounded
/// the other way.
pub(crate) fn is_size(expression: &TDim) -> bool {
    bound(expression, false, false).is_some_and(|it| it >= 0)
}

/// A lower or an upper bound: no size is negative. It `subtracts` sizes, and divides what is negative.
fn bound(expression: &TDim, upper: bool, subtracts: bool) -> Option<i64> {
    let of = |term: &TDim| bound(term, upper, subtracts);
    let all = |terms: &[TDim]| terms.iter().map(of).collect::<Option<Vec<i64>>>();
    match expression {
        TDim::Val(value) => Some(*value),
        TDim::Sym(_) => (!upper).then_some(0),
        TDim::Add(terms) => all(terms)?.into_iter().try_fold(0_i64, i64::checked_add),
        TDim::MulInt(..0, _) if !subtracts => None,
        TDim::MulInt(factor, term) => {
            bound(term, upper != (*factor < 0), subtracts)?.checked_mul(*factor)
        }
        TDim::Mul(terms) => {
            let least = terms.iter().map(|term| bound(term, false, subtracts));
            let least = least.collect::<Option<Vec<i64>>>();
            let least = least.filter(|it| it.iter().all(|term| *term >= 0))?;
            let bounds = if upper { all(terms)? } else { least };
            bounds.into_iter().try_fold(1_i64, i64::checked_mul)
        }
        TDim::Div(term, divisor) => {
            let dividend = of(term).filter(|it| subtracts || *it >= 0)?;
            Some(dividend / i64::try_from(*divisor).ok()?)
        }
        TDim::Min(terms) if upper => terms.iter().filter_map(of).min(),
        TDim::Max(terms) if !upper => terms.iter().filter_map(of).max(),
        TDim::Min(terms) => all(terms)?.into_iter().min(),
        TDim::Max(terms) => all(terms)?.into_iter().max(),
        TDim::Broadcast(terms) => {
            let bounds = all(terms)?.into_iter();
            if upper { bounds.max() } else { bounds.min() }
        }
        TDim::Ge(..) | TDim::Eq(..) => Some(i64::from(upper)),
    }
}

/// The size that operands have together. Where one of them has more than one element, the others have as many, or
/// one, or do not fit.
pub(crate) fn of_valid_operands(size: &TDim) -> TDim {
    let terms = match size {
        TDim::Broadcast(terms) => &terms[..],
        _ => &[],
    };
    let is_many = |it: &&TDim| it.to_i64().is_ok_and(|count| count > 1);
    terms.iter().find(is_many).unwrap_or(size).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_with_elements_tells_what_the_others_have() {
        let scope = SymbolScope::default();
        let [n, m] = ["N", "M"].map(|name| scope.new_with_prefix(name).to_dim());
        let together = |terms: [TDim; 2]| of_valid_operands(&TDim::Broadcast(terms.into()));
        assert_eq!(together([n.clone(), 64.to_dim()]), 64.to_dim());
        let unknown = TDim::Broadcast(vec![n.clone(), m.clone()]);
        assert_eq!(together([n.clone(), m]), unknown);
        assert_eq!(of_valid_operands(&n), n);
    }

    #[test]
    fn what_is_no_negative_number_is_a_size() {
        let scope = SymbolScope::default();
        let [n, m] = ["N", "M"].map(|name| scope.sym(name).to_dim());
        for size in [
            n.clone(),
            n.clone() + 1,
            n.clone() * 3 + &m,
            (n.clone() + 1) / 2,
        ] {
            assert!(is_size(&size), "{size}");
        }
        for other in [
            n.clone() - 1,
            n.clone() - &m,
            -n.clone(),
            (n.clone() - 3) / 2,
        ] {
            assert!(!is_size(&other), "{other}");
        }
    }
}
