//! Comparisons of sizes.
//!
//! tract takes sizes for different if their expressions are, and subtracts numbers, which overflows. Here
//! a comparison is decided before the run if it is the same for all sizes, and of numbers otherwise.
//!
//! ```text
//! N = 2 is decided once N is a number; N + 1 = 0 is false for all N; N > 9223372036854775807 is false
//! ```

use std::cmp::Ordering;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::arithmetic::Arithmetic;
use super::empty::OrNothing;
use crate::dims::is_size;
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over, over_tract};
use crate::polynomial::difference;

/// Parses a comparison.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let comparison = match node.op_type.as_str() {
        "Equal" => Comparison::Equal,
        "Greater" => Comparison::Greater,
        "GreaterOrEqual" => Comparison::GreaterOrEqual,
        "Less" => Comparison::Less,
        _ => Comparison::LessOrEqual,
    };
    let (upstream, captured) = over_tract(ctx, node, comparison)?;
    Ok((over(upstream, OrNothing), captured))
}

/// A comparison, of sizes where it is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    pub(super) fn holds_for(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
        }
    }

    /// Whether it holds between two sizes, if it is the same for all of their symbols.
    pub(super) fn holds(self, a: &TDim, b: &TDim) -> TractResult<bool> {
        if let (Ok(a), Ok(b)) = (a.to_i64(), b.to_i64()) {
            return Ok(self.holds_for(a.cmp(&b)));
        }
        // The orderings that some symbols may have.
        let is_never = |more: Option<TDim>| more.is_some_and(|it| is_size(&it));
        let (more, less) = (difference(a, b), difference(b, a));
        let mut possible = vec![];
        if !is_never(less.clone()) {
            possible.push(Ordering::Greater);
        }
        if !is_never(more.clone()) {
            possible.push(Ordering::Less);
        }
        let is_other = |it: Option<TDim>| is_never(it.and_then(|it| difference(&it, &1.to_dim())));
        if !is_other(more) && !is_other(less) {
            possible.push(Ordering::Equal);
        }
        let mut results = possible.into_iter().map(|it| self.holds_for(it));
        match results.next() {
            Some(first) if results.all(|it| it == first) => Ok(first),
            // Where that takes numbers, tract's error says that it is too early.
            _ => Ok(self.holds_for(a.to_i64()?.cmp(&b.to_i64()?))),
        }
    }
}

impl Operator for Comparison {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let is_size = |input| {
            node.value(input)
                .is_some_and(|it| it.datum_type().is_tdim())
        };
        node.computes &= !(0..node.inputs.len()).any(is_size);
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let operands = [node.inputs[0], node.inputs[1]];
        let made = Arithmetic::Compare(*self).wire(node, operands)?;
        Ok(made.map(|outlet| tvec![outlet]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_hold_for_all_sizes_or_take_numbers() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        let scope = SymbolScope::default();
        let n = scope.sym("N").to_dim();
        let [most, least] = [i64::MAX, i64::MIN].map(|it| it.to_dim());
        for (comparison, a, b, expected) in [
            (Less, 3.to_dim(), (1_i64 << 32).to_dim() + 3, Some(true)),
            (Greater, -3.to_dim(), most.clone(), Some(false)),
            (Less, 3.to_dim(), least.clone(), Some(false)),
            (Equal, n.clone(), 2.to_dim(), None),
            (Equal, n.clone() + 1, 0.to_dim(), Some(false)),
            (Equal, n.clone() + 1, n.clone() + 1, Some(true)),
            (GreaterOrEqual, n.clone(), 0.to_dim(), Some(true)),
            (Greater, n.clone(), 0.to_dim(), None),
            (Less, n.clone(), 0.to_dim(), Some(false)),
            (LessOrEqual, n.clone() - 5, most, None),
            (LessOrEqual, n.clone() - 5, n.clone(), Some(true)),
            (Greater, n.clone() - 5, n.clone(), Some(false)),
            (GreaterOrEqual, n.clone() - 5, least, None),
        ] {
            let holds = comparison.holds(&a, &b).ok();
            assert_eq!(holds, expected, "{comparison:?} {a} {b}");
        }
    }
}
