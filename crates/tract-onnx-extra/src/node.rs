//! ONNX nodes while they are parsed: tract's own parsers, the domain and declared types.
//!
//! A parser that this crate registers replaces tract's in a loader. tract's is still needed for the
//! cases that it reads well, so it is taken from a second loader, in which nothing is registered.

use std::sync::LazyLock;

use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::{NodeProto, ValueInfoProto, type_proto};
use tract_onnx::tract_hir::internal::*;

use crate::operator::Parsed;

/// tract's parsers as they are, for all loaders: one that was given to `register` no longer has them.
static UPSTREAM: LazyLock<OnnxOpRegister> = LazyLock::new(|| tract_onnx::onnx().op_register);

/// Parses a node like tract, without the names of inputs that are left out at the end: some parsers
/// of tract's count the names.
pub(crate) fn parse_with_tract(
    operator: &str,
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> Parsed {
    let parse = UPSTREAM.0.get(operator);
    let parse = parse.with_context(|| format!("tract has no {operator}"))?;
    let count = node.input.iter().rposition(|name| !name.is_empty());
    let count = count.map_or(0, |last| last + 1);
    if count == node.input.len() {
        return parse(ctx, node);
    }
    let mut node = node.clone();
    node.input.truncate(count);
    parse(ctx, &node)
}

/// The operators that tract has.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    UPSTREAM.0.keys().map(String::as_str)
}

/// Refuses a node of another domain.
pub(crate) fn check_domain(node: &NodeProto) -> TractResult<()> {
    ensure!(
        matches!(node.domain.as_str(), "" | "ai.onnx"),
        "it is of domain {:?}, expected ONNX's own",
        node.domain
    );
    Ok(())
}

/// The operators that take no input, or do without the first one.
const WITHOUT_INPUT: [&str; 6] = [
    "Constant",
    "Loop",
    "Optional",
    "RandomNormal",
    "RandomUniform",
    "SequenceEmpty",
];

/// The inputs that operators do not do without, where these are more than one.
const REQUIRED: &[(&str, usize)] = &[
    ("Add", 2),
    ("And", 2),
    ("BatchNormalization", 5),
    ("BitShift", 2),
    ("BitwiseAnd", 2),
    ("BitwiseOr", 2),
    ("BitwiseXor", 2),
    ("Compress", 2),
    ("Conv", 2),
    ("ConvInteger", 2),
    ("ConvTranspose", 2),
    ("CumSum", 2),
    ("DequantizeLinear", 2),
    ("Div", 2),
    ("Equal", 2),
    ("Expand", 2),
    ("GRU", 3),
    ("Gather", 2),
    ("GatherElements", 2),
    ("GatherND", 2),
    ("Gemm", 2),
    ("Greater", 2),
    ("GreaterOrEqual", 2),
    ("InstanceNormalization", 3),
    ("LSTM", 3),
    ("LayerNormalization", 2),
    ("Less", 2),
    ("LessOrEqual", 2),
    ("MatMul", 2),
    ("MatMulInteger", 2),
    ("Mod", 2),
    ("Mul", 2),
    ("OneHot", 3),
    ("Or", 2),
    ("PRelu", 2),
    ("Pow", 2),
    ("QLinearConv", 8),
    ("QLinearMatMul", 8),
    ("QuantizeLinear", 2),
    ("RNN", 3),
    ("Range", 3),
    ("ScatterElements", 3),
    ("ScatterND", 3),
    ("Sub", 2),
    ("Tile", 2),
    ("Where", 3),
    ("Xor", 2),
];

/// Refuses a node without an output, or without an input that its operator requires: what reads it
/// takes them by their places.
pub(crate) fn check_arity(node: &NodeProto) -> TractResult<()> {
    let operator = node.op_type.as_str();
    let required = REQUIRED.iter().find(|(name, _)| *name == operator);
    let least = usize::from(!WITHOUT_INPUT.contains(&operator));
    let required = required.map_or(least, |(_, inputs)| *inputs);
    let given = node.input.iter().take_while(|name| !name.is_empty());
    let given = given.count();
    ensure!(
        given >= required,
        "it has {given} inputs, expected at least {required}"
    );
    ensure!(!node.output.is_empty(), "it has no output");
    Ok(())
}

/// The declared element type.
pub(crate) fn element_type(value: &ValueInfoProto) -> Option<DatumType> {
    let type_proto::Value::TensorType(tensor) = value.r#type.as_ref()?.value.as_ref()?;
    tensor.elem_type().try_into().ok()
}
