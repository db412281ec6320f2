//! Sums, differences, products and quotients of sizes.
//!
//! A result is an expression of sizes if that is exact (`polynomial.rs`), and a number when the model runs
//! otherwise.
//!
//! ```text
//! Sub(N, 1): the size N - 1; Sub(N / 2, N): known once it has run
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::all_in_numbers;
use crate::dims::{broadcast, each_size, in_dims};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::polynomial::{difference, product, quotient, sum};
use crate::typed_op::{Stateless, Typed, broadcast_facts};

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

/// An operator on two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
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

    /// The results in exact expressions.
    fn expressions(self, operands: [&Tensor; 2]) -> TractResult<Tensor> {
        each_size(operands, |a, b| match (a.to_i64(), b.to_i64()) {
            (Ok(a), Ok(b)) => Ok(self.of_numbers(a, b)?.to_dim()),
            _ => self.of_sizes(a, b).context("no expression is exact"),
        })
    }

    fn of_sizes(self, a: &TDim, b: &TDim) -> Option<TDim> {
        match self {
            Self::Add => sum(a, b),
            Self::Sub => difference(a, b),
            Self::Mul => product(a, b),
            Self::Div => quotient(a, b),
        }
    }

    fn of_numbers(self, a: i64, b: i64) -> TractResult<i64> {
        Ok(match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Div => {
                ensure!(b != 0, "it divides by 0");
                a.wrapping_div(b)
            }
        })
    }
}

impl Stateless for Arithmetic {
    const NAME: &str = "Sizes";

    fn name(&self) -> StaticName {
        format!("{}{self:?}", Self::NAME).into()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let numbers = all_in_numbers(inputs, ctx.symbols)?;
        let (a, b) = (
            numbers[0].to_plain_array_view()?,
            numbers[1].to_plain_array_view()?,
        );
        let results = broadcast(a, b, |a: &i64, b| self.of_numbers(*a, *b))?;
        Ok(tvec![in_dims(&results)?.into_tvalue()])
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let expressions = self.expressions([&inputs[0], &inputs[1]]);
        Ok(expressions.ok().map(|it| tvec![it.into_tvalue()]))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        broadcast_facts(TDim::datum_type(), inputs)
    }
}
