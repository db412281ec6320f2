//! ONNX nodes while they are parsed: tract's own parsers, the domain and declared types.
//!
//! A parser that this crate registers replaces tract's in a loader. tract's is still needed for the
//! cases that it reads well, so it is taken from a second loader, in which nothing is registered.

use std::sync::LazyLock;

use revseq_onnx::operators::Operator;
use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::{NodeProto, ValueInfoProto, type_proto};
use tract_onnx::tract_hir::internal::*;

/// A node that is parsed: its operator, and the names that its graphs capture.
pub type Parsed = TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

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

/// Refuses a node of another domain than the expected one, which is empty if it is ONNX's own.
pub(crate) fn check_domain(node: &NodeProto, expected: &str) -> TractResult<()> {
    let domain = node.domain.as_str();
    let (is_expected, in_words) = match expected {
        "" => (matches!(domain, "" | "ai.onnx"), "ONNX's own".to_owned()),
        other => (domain == other, format!("{other:?}")),
    };
    ensure!(
        is_expected,
        "it is of domain {domain:?}, expected {in_words}"
    );
    Ok(())
}

/// Whether an operator is one of those that are listed.
pub(crate) fn is_one_of(operators: &str, operator: &str) -> bool {
    operators.split_ascii_whitespace().any(|it| it == operator)
}

/// Refuses a node without an output, or without an input that its operator requires: what reads it
/// takes them by their places.
pub(crate) fn check_arity(node: &NodeProto) -> TractResult<()> {
    let required = Operator::of(&node.op_type).map_or(1, |it| it.inputs);
    let count = node.input.iter().take_while(|name| !name.is_empty());
    let count = count.count();
    ensure!(
        count >= required,
        "it has {count} inputs, expected at least {required}"
    );
    ensure!(!node.output.is_empty(), "it has no output");
    Ok(())
}

/// The declared element type.
pub(crate) fn element_type(value: &ValueInfoProto) -> Option<DatumType> {
    let type_proto::Value::TensorType(tensor) = value.r#type.as_ref()?.value.as_ref()?;
    tensor.elem_type().try_into().ok()
}
