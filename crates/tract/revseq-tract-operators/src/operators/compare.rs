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
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::data_sizes::in_numbers;
use crate::dims::{broadcast, each_size, is_size};
use crate::operator::{
    Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_parsed, over_tract,
};
use crate::polynomial::difference;
use crate::typed_op::{Stateless, Typed, broadcast_facts};

/// Parses a comparison.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let comparison = match node.op_type.as_str() {
        "Equal" => Comparison::Equal,
        "Greater" => Comparison::Greater,
        "GreaterOrEqual" => Comparison::GreaterOrEqual,
        "Less" => Comparison::Less,
        _ => Comparison::LessOrEqual,
    };
    over_parsed(over_tract(ctx, node, comparison), OrNothing)
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
    fn holds_for(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
        }
    }

    /// Whether it holds between two sizes, if it is the same for all of their symbols.
    fn holds(self, a: &TDim, b: &TDim) -> TractResult<bool> {
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
        rule_if!(node.types()?.iter().any(|it| it.is_tdim()));
        node.replace_inputs(|node, input| node.cast("size", input, TDim::datum_type()).map(Some))?;
        let operands = wire_rank_broadcast(node.part("operand"), node.model, &node.inputs)?;
        node.last(Typed(*self), &operands)
    }
}

impl Stateless for Comparison {
    const NAME: &str = "Sizes";

    fn name(&self) -> StaticName {
        format!("{}{self:?}", Self::NAME).into()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let [a, b] = [0, 1].map(|operand| in_numbers(inputs[operand].clone(), ctx.symbols));
        let holds = if let (Ok(a), Ok(b)) = (a, b) {
            let (a, b) = (a.to_plain_array_view()?, b.to_plain_array_view()?);
            broadcast(a, b, |a: &i64, b| Ok(i64::from(self.holds_for(a.cmp(b)))))?
        } else {
            let holds = each_size([&inputs[0], &inputs[1]], |a, b| {
                let holds = self.holds(&a.eval(ctx.symbols), &b.eval(ctx.symbols))?;
                Ok(i64::from(holds).to_dim())
            })?;
            holds.cast_to::<i64>()?.into_owned()
        };
        Ok(tvec![holds.cast_to::<bool>()?.into_owned().into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        broadcast_facts(bool::datum_type(), inputs)
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
