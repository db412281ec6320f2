//! Sums, differences, products, quotients, remainders and comparisons of sizes.
//!
//! A result is an expression of sizes if that is exact (`polynomial.rs`), and a number when the model runs
//! otherwise.
//!
//! ```text
//! Sub(N, 1): the size N - 1; Sub(N / 2, N): known once it has run
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use super::compare::Comparison;
use super::mod_::Sign;
use crate::dims::each_size;
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::polynomial::{difference, product, quotient, sum};
use crate::typed_op::{Stateless, Typed};

/// Parses one of them.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let op = match node.op_type.as_str() {
        "Neg" => OfSizes::Negation,
        "Sub" => OfSizes::Difference,
        _ => OfSizes::Sum,
    };
    over_tract(ctx, node, op)
}

/// A node whose inputs may be sizes.
#[derive(Clone, Debug)]
enum OfSizes {
    Sum,
    Difference,
    Negation,
}

/// Whether an input is known to have sizes.
pub(crate) fn has_sizes(node: &Inferring<'_>) -> bool {
    node.types().flatten().any(|it| it.is_tdim())
}

impl Operator for OfSizes {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        node.computes &= !has_sizes(node);
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let operator = match self {
            Self::Sum => Arithmetic::Add,
            Self::Difference | Self::Negation => Arithmetic::Sub,
        };
        let mut operands = node.inputs.clone();
        if matches!(self, Self::Negation) {
            rule_if!(node.input(0)?.datum_type.is_tdim());
            operands.insert(0, node.constant("zero", tensor0(0.to_dim()))?);
        }
        let mut operands = operands.into_iter();
        rule_if_some!(mut result = operands.next());
        rule_if!(operands.len() > 0);
        for operand in operands {
            rule_if_some!(outlet = operator.wire(node, [result, operand])?);
            result = outlet;
        }
        Ok(Some(tvec![result]))
    }
}

/// A function of two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod(Sign),
    Compare(Comparison),
}

impl Arithmetic {
    /// Wires the operator; `None` if no operand is a size.
    pub(crate) fn wire(
        self,
        node: &mut Wiring<'_>,
        operands: [OutletId; 2],
    ) -> TractResult<Option<OutletId>> {
        let [a, b] = operands.map(|it| node.fact(it).map(|fact| fact.datum_type));
        rule_if!(a?.is_tdim() || b?.is_tdim());
        let sizes = operands.map(|it| node.cast("size", it, TDim::datum_type()));
        let sizes = sizes.into_iter().collect::<TractResult<TVec<_>>>()?;
        let sizes = wire_rank_broadcast(node.part("operand"), node.model, &sizes)?;
        Ok(node.last(Typed(self), &sizes)?.map(|outlets| outlets[0]))
    }

    /// The results: numbers, or exact expressions of the symbols that have none.
    fn results(self, operands: &[TValue], symbols: &SymbolValues) -> TractResult<Tensor> {
        let results = each_size([&operands[0], &operands[1]], |a, b| {
            let (a, b) = (a.eval(symbols), b.eval(symbols));
            match (a.to_i64(), b.to_i64()) {
                (Ok(a), Ok(b)) => Ok(self.of_numbers(a, b)?.to_dim()),
                _ => self.of_sizes(&a, &b),
            }
        })?;
        Ok(match self {
            Self::Compare(_) => results.cast_to::<i64>()?.cast_to::<bool>()?.into_owned(),
            _ => results,
        })
    }

    fn of_sizes(self, a: &TDim, b: &TDim) -> TractResult<TDim> {
        let exact = match self {
            Self::Add => sum(a, b),
            Self::Sub => difference(a, b),
            Self::Mul => product(a, b),
            Self::Div => quotient(a, b),
            Self::Mod(sign) => sign.of_size(a, b.to_i64()?),
            Self::Compare(comparison) => Some(i64::from(comparison.holds(a, b)?).to_dim()),
        };
        exact.context("no expression is exact")
    }

    fn of_numbers(self, a: i64, b: i64) -> TractResult<i64> {
        let divides = matches!(self, Self::Div | Self::Mod(_));
        ensure!(b != 0 || !divides, "it divides by 0");
        Ok(match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Div => a.wrapping_div(b),
            Self::Mod(sign) => i64::try_from(sign.remainder(i128::from(a), b.into()))?,
            Self::Compare(comparison) => comparison.holds_for(a.cmp(&b)).into(),
        })
    }
}

impl Stateless for Arithmetic {
    const NAME: &str = "Sizes";

    fn name(&self) -> StaticName {
        match self {
            Self::Compare(comparison) => format!("{}{comparison:?}", Self::NAME).into(),
            Self::Mod(_) => "Mod".into(),
            other => format!("{}{other:?}", Self::NAME).into(),
        }
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(tvec![self.results(&inputs, ctx.symbols)?.into_tvalue()])
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let results = self.results(&inputs, &SymbolValues::default());
        Ok(results.ok().map(|it| tvec![it.into_tvalue()]))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        let datum_type = match self {
            Self::Compare(_) => bool::datum_type(),
            _ => TDim::datum_type(),
        };
        Ok(tvec![datum_type.fact(shape)])
    }
}
