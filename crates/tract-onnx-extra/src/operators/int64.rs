//! Operators that compute with int64 as numbers, never as symbolic sizes.
//!
//! tract holds int64 values that depend on sizes as TDim, which its versions of these operators
//! refuse. They get a cast to int64 before such an input, or the numbers themselves if these are
//! known; so a symbol gets lost here, and its number is used when the model runs.
//!
//! ```text
//! NonZero(Shape(x))  →  NonZero(Cast(Shape(x), int64))
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array;
use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Facts, Hook, Inference, Known};
use crate::dims::scalar;
use crate::node::{check_domain, parse_with_tract};
use crate::wire::{to_typed_without_facts, wire_cast, with_inputs};

/// The operators, beside `Pad`.
const OPERATORS: [&str; 7] = [
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "EyeLike",
    "NonZero",
    "Sign",
];

/// Registers them in a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    for operator in OPERATORS {
        onnx.op_register.insert(operator, parse);
    }
    onnx.op_register.insert("CumSum", parse_cum_sum);
}

fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((Delegate::boxed(upstream, OnNumbers), captured))
}

fn parse_cum_sum(
    _ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let is_set = |name: &str| Ok::<_, TractError>(node.get_attr_opt::<i64>(name)? == Some(1));
    let op = CumSum {
        reverse: is_set("reverse")?,
        exclusive: is_set("exclusive")?,
    };
    let upstream = expand(op);
    Ok((Delegate::boxed(upstream, OnNumbers), vec![]))
}

/// The hook of an operator that gets int64 for TDim.
#[derive(Clone, Debug)]
pub(crate) struct OnNumbers;

/// A value in numbers, unless it has symbols.
fn as_int64(value: &Tensor) -> Option<Tensor> {
    Some(value.cast_to::<i64>().ok()?.into_owned())
}

impl Hook for OnNumbers {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let number = |fact: &&InferenceFact| {
            let value = fact.value.concretize();
            let number = value.and_then(|value| as_int64(&value));
            fact.datum_type
                .concretize()?
                .is_tdim()
                .then(|| InferenceFact {
                    datum_type: i64::datum_type().into(),
                    shape: fact.shape.clone(),
                    value: number.map_or(GenericFactoid::Any, |it| GenericFactoid::Only(it.into())),
                })
        };
        let numbers: Vec<Option<InferenceFact>> = known.inputs.iter().map(number).collect();
        inference.with_others(upstream, known, &numbers)
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let numbers = with_inputs(node, target, mapping, |target, outlet| {
            let fact = target.outlet_fact(outlet)?;
            rule_if!(fact.datum_type.is_tdim());
            let name = format!("{}.number", node.name);
            let number = match fact.konst.as_deref().and_then(as_int64) {
                Some(number) => {
                    let name = target.unique_name(name).into_owned();
                    target.add_const(name, number)?
                }
                None => wire_cast(target, name, outlet, i64::datum_type())?,
            };
            Ok(Some(number))
        })?;
        to_typed_without_facts(upstream, source, node, target, &numbers)
    }
}

/// A CumSum; tract's does not take an axis in a list of one, as PyTorch writes it.
#[derive(Clone, Debug)]
struct CumSum {
    reverse: bool,
    exclusive: bool,
}

impl Expansion for CumSum {
    fn name(&self) -> StaticName {
        "CumSum".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 2)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.equals(&inputs[0].shape, &outputs[0].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let axis = &model.outlet_fact(inputs[1])?.konst;
        let axis = axis.as_ref().context("its axis is not a constant")?;
        let axis: i64 = scalar(axis)?;
        let rank = model.outlet_fact(inputs[0])?.rank() as i64;
        ensure!(
            (-rank..rank).contains(&axis),
            "its axis is {axis}, expected one of the {rank} of its input"
        );
        let op = array::CumSum {
            axis: axis.rem_euclid(rank) as usize,
            exclusive: self.exclusive,
            reverse: self.reverse,
        };
        model.wire_node(prefix, op, &inputs[..1])
    }
}
