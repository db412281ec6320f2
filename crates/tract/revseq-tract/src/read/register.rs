//! The operators that tract has, by their domains.

use std::sync::LazyLock;

use revseq_tract_operators::is_of_other_domain;
use revseq_tract_operators::operator::{Parsed, over};
use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::konst::Const;

use super::bounded::Bounded;
use super::weights;
use crate::session::words::AtNode;

/// tract's operators and revseq's, for all models.
static OPERATORS: LazyLock<OnnxOpRegister> = LazyLock::new(|| {
    let mut onnx = tract_onnx::onnx();
    crate::register(&mut onnx);
    onnx.op_register
});

/// The operators of `com.microsoft` among tract's, which it keeps under their
/// bare names (tract-onnx, src/ops/nn).
const MICROSOFT: [&str; 10] = [
    "BiasGelu",
    "FastGelu",
    "GatherBlockQuantized",
    "GroupQueryAttention",
    "MatMulNBits",
    "MultiHeadAttention",
    "QuickGelu",
    "RotaryEmbedding",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// The operators of `ai.onnx.ml` among tract's (tract-onnx, src/ops/ml).
const MACHINE_LEARNING: [&str; 6] = [
    "ArrayFeatureExtractor",
    "CategoryMapper",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "TreeEnsembleClassifier",
];

/// Whether tract has an operator: its register does not look at domains.
pub(crate) fn has_operator(domain: &str, op_type: &str) -> bool {
    let in_domain = match domain {
        "" | "ai.onnx" => op_type != "ReverseSubsequences",
        "ai.onnx.ml" => MACHINE_LEARNING.contains(&op_type),
        "com.microsoft" => MICROSOFT.contains(&op_type),
        _ => revseq_graph::Operator::is_known(domain, op_type),
    };
    (in_domain || is_of_other_domain(domain, op_type)) && OPERATORS.0.contains_key(op_type)
}

/// Wraps every operator in the check of its outputs' sizes, and fixes Constant.
pub(super) fn bounded_operators() -> OnnxOpRegister {
    fn bounded(context: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
        let build = OPERATORS
            .0
            .get(&node.op_type)
            .context("the operator was registered")?;
        let (operator, captured) = build(context, node)
            .map_err(|error| AtNode::add(error, &node.name, &node.op_type, &[], [].iter()))?;
        Ok((over(operator, Bounded::new(context, node)), captured))
    }
    // These hold graphs, whose nodes are wrapped themselves.
    let plain = ["If", "Loop", "Scan"];
    let operators = OPERATORS.0.iter().map(|(name, build)| {
        (
            name.clone(),
            if plain.contains(&name.as_str()) {
                *build
            } else {
                bounded
            },
        )
    });
    let mut register = OnnxOpRegister(operators.collect());
    register.insert("Constant", constant);
    register
}

/// Parses a Constant, whose value may be one of the model's weights.
fn constant(context: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let value = node.attribute.iter().find(|it| it.name == "value");
    match value.and_then(|value| weights::find(context, value.t.as_ref()?)) {
        None => {
            let build = OPERATORS.0.get("Constant").context("tract has Constant")?;
            build(context, node)
        }
        Some(weight) => Ok((Box::new(Const::new(weight)?), vec![])),
    }
}
