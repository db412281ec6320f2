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
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, in_numbers, parse_overridden};
use crate::dims::{broadcast, each_size, in_dims};
use crate::polynomial::{difference, product, quotient, sum};
use crate::wire::wire_cast;

/// The operators that are tract's but for sizes.
pub(crate) const OPERATORS: [&str; 4] = ["Add", "Neg", "Sub", "Sum"];

/// Parses one of them.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    parse_overridden(ctx, node, |node| {
        Ok(match node.op_type.as_str() {
            "Neg" => OfSizes::Negation,
            "Sub" => OfSizes::Difference,
            _ => OfSizes::Sum,
        })
    })
}

/// A node whose inputs may be sizes.
#[derive(Clone, Debug)]
enum OfSizes {
    Sum,
    Difference,
    Negation,
}

/// Whether an input is known to have sizes.
pub(crate) fn has_sizes(inputs: &TVec<&InferenceFact>) -> bool {
    let is_size = |fact: &&InferenceFact| {
        let datum_type = fact.datum_type.concretize();
        datum_type.is_some_and(|it| it.is_tdim())
    };
    inputs.iter().any(is_size)
}

impl Override for OfSizes {
    fn lets_tract_compute(&self, inputs: &TVec<&InferenceFact>) -> bool {
        !has_sizes(inputs)
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let operator = match self {
            Self::Sum => Arithmetic::Add,
            Self::Difference | Self::Negation => Arithmetic::Sub,
        };
        let mut operands = inputs.to_vec();
        if let (Self::Negation, [size]) = (self, inputs) {
            rule_if!(target.outlet_fact(*size)?.datum_type.is_tdim());
            let zero = target.unique_name(format!("{name}.zero")).into_owned();
            operands.insert(0, target.add_const(zero, tensor0(0.to_dim()))?);
        }
        let mut operands = operands.into_iter();
        rule_if_some!(mut result = operands.next());
        rule_if!(operands.len() > 0);
        for operand in operands {
            rule_if_some!(outlet = operator.wire(name, target, [result, operand])?);
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
        name: &str,
        target: &mut TypedModel,
        operands: [OutletId; 2],
    ) -> TractResult<Option<OutletId>> {
        let types = operands.map(|it| target.outlet_fact(it).map(|fact| fact.datum_type));
        let [a, b] = types;
        rule_if!(a?.is_tdim() || b?.is_tdim());
        let mut sizes = tvec![];
        for operand in operands {
            let name = format!("{name}.size");
            sizes.push(wire_cast(target, name, operand, TDim::datum_type())?);
        }
        let sizes = wire_rank_broadcast(format!("{name}.operand"), target, &sizes)?;
        let name = target.unique_name(name).into_owned();
        Ok(Some(target.wire_node(name, self, &sizes)?[0]))
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

impl Op for Arithmetic {
    fn name(&self) -> StaticName {
        format!("Sizes{self:?}").into()
    }

    op_as_typed_op!();
}

impl EvalOp for Arithmetic {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let numbers = inputs.iter().map(|it| in_numbers(it.clone(), ctx.symbols));
        let numbers = numbers.collect::<TractResult<TVec<TValue>>>()?;
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
}

impl TypedOp for Arithmetic {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        Ok(tvec![TDim::fact(shape)])
    }

    as_op!();
}
