//! Registers the operators in tract's ONNX loader.
//!
//! A loader has one parser for each name, and a later one replaces the one before. Each operator's
//! file has its parser, which returns an operator over tract's, or one of its own.

use std::borrow::Cow;
use std::sync::LazyLock;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{
    beside_sizes, compress, concat, of_sizes, one_hot, slice, squeeze, unique,
};
use crate::loops::{self, if_, onnx_scan};
use crate::node::{check_arity, check_domain, is_one_of, names};
use crate::operator::Parsed;
use crate::operators::{
    arithmetic, batch_norm, bit_shift, cast, categories, compare, conv, div, dropout, einsum,
    empty, flatten, functions, gemm, global_lp_pool, int64, layer_norm, log_softmax, mat_mul, mod_,
    mul, nd_indices, pool, quantize, random, range, reduce, resize, retyped, split, top_k,
    within_rank,
};
use crate::recurrent;

/// Makes an operator of a node.
type Parser = fn(&ParsingContext<'_>, &NodeProto) -> Parsed;

/// Makes a tract ONNX loader read `Loop`, all of `LSTM`, `GRU` and `RNN`, `If` with any names and
/// constants in its branches, and the operators that models use [around loops](crate#other-operators).
/// An operator whose outputs are known to be empty is a constant. Of `ai.onnx.ml` it reads `LabelEncoder`
/// and `OneHotEncoder`.
///
/// tract looks operators up by name in any domain; a node with the same name in another domain is
/// an error when the model is read.
pub fn register(onnx: &mut tract_onnx::Onnx) {
    for operator in OPERATORS.keys() {
        onnx.op_register.insert(operator, parse);
    }
}

/// The parsers of operators that tract lacks or has in part, each with their names.
const PARSERS: &[(Parser, &str)] = &[
    (arithmetic::parse, "Add Neg Sub Sum"),
    (batch_norm::parse, "BatchNormalization"),
    (bit_shift::parse, "BitShift"),
    (cast::parse, "Cast"),
    (categories::parse, "LabelEncoder OneHotEncoder"),
    (
        compare::parse,
        "Equal Greater GreaterOrEqual Less LessOrEqual",
    ),
    (compress::parse, "Compress"),
    (concat::parse, "Concat"),
    (conv::parse, "Conv"),
    (div::parse, "Div"),
    (dropout::parse, "Dropout"),
    (einsum::parse, "Einsum"),
    (flatten::parse, "Flatten"),
    (
        functions::parse,
        "Celu Erf Gelu HardSwish IsInf IsNaN LeakyRelu",
    ),
    (
        functions::parse,
        "HardSigmoid Mish Round Selu Sigmoid Softplus Softsign Swish ThresholdedRelu",
    ),
    (gemm::parse, "Gemm"),
    (global_lp_pool::parse, "GlobalLpPool"),
    (if_::parse, "If"),
    (int64::parse, "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor"),
    (int64::parse, "CumSum EyeLike NonZero Sign"),
    (layer_norm::parse, "LayerNormalization"),
    (
        layer_norm::parse_rms,
        "RMSNormalization SimplifiedLayerNormalization",
    ),
    (log_softmax::parse, "LogSoftmax"),
    (mat_mul::parse, "MatMul"),
    (mod_::parse, "Mod"),
    (mul::parse, "Mul Pow"),
    (nd_indices::parse, "GatherND ScatterND"),
    (of_sizes::constant_of_shape::parse, "ConstantOfShape"),
    (of_sizes::expand::parse, "Expand"),
    (of_sizes::pad::parse, "Pad"),
    (of_sizes::reshape::parse, "Reshape"),
    (of_sizes::tile::parse, "Tile"),
    (one_hot::parse, "OneHot"),
    (onnx_scan::parse, "Scan"),
    (loops::parse::parse, "Loop"),
    (pool::parse, "AveragePool MaxPool"),
    (quantize::convolution::parse, "ConvInteger QLinearConv"),
    (quantize::dynamic::parse, "DynamicQuantizeLinear"),
    (quantize::linear::parse, "DequantizeLinear QuantizeLinear"),
    (quantize::product::parse, "MatMulInteger QLinearMatMul"),
    (random::parse, "RandomNormal RandomNormalLike"),
    (random::parse, "RandomUniform RandomUniformLike"),
    (range::parse, "Range"),
    (
        recurrent::attention::parse,
        "CausalConvWithState GatedDeltaNet LinearAttention LinearAttentionGate \
         VarlenCausalConvWithState",
    ),
    (recurrent::parse, "DynamicQuantizeLSTM GRU LSTM RNN"),
    (recurrent::parse, "MaskedGRU MaskedLSTM MaskedRNN"),
    (
        reduce::parse,
        "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum",
    ),
    (
        reduce::parse,
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin",
    ),
    (reduce::parse, "ReduceProd ReduceSum ReduceSumSquare"),
    (resize::parse, "Resize Upsample"),
    (slice::parse, "Slice"),
    (split::parse, "Split"),
    (squeeze::parse, "Squeeze"),
    (top_k::parse, "TopK"),
    (unique::parse, "Unique"),
];

/// The domains of those that are not of ONNX's own alone; `None` if they are of that and of `com.microsoft`.
const DOMAINS: [(Option<&str>, &str); 4] = [
    (Some("ai.onnx.ml"), "LabelEncoder OneHotEncoder"),
    (
        Some("com.microsoft"),
        "DynamicQuantizeLSTM GatedDeltaNet LinearAttentionGate VarlenCausalConvWithState",
    ),
    (Some("revseq"), "MaskedGRU MaskedLSTM MaskedRNN"),
    (
        None,
        "CausalConvWithState LinearAttention SimplifiedLayerNormalization",
    ),
];

/// Whether an operator is one of this crate's, of a domain that is not ONNX's own.
pub fn is_of_other_domain(domain: &str, operator: &str) -> bool {
    let mut domains = DOMAINS.iter();
    domains.any(|(of, names)| of.unwrap_or("com.microsoft") == domain && is_one_of(names, operator))
}

/// The parser of each operator, and its domain; where there is no other, that of tract's operator.
static OPERATORS: LazyLock<HashMap<&str, (Parser, Option<&str>)>> = LazyLock::new(|| {
    // A constant is one already.
    let tracts = names().filter(|name| *name != "Constant");
    let tracts = tracts.map(|name| (name, (empty::parse as Parser, None)));
    let domain = |name: &str| {
        let mut others = DOMAINS.iter();
        let other = others.find(|(_, names)| is_one_of(names, name));
        other.map_or(Some(""), |(domain, _)| *domain)
    };
    let of_parser = |(parser, names): &(Parser, &'static str)| {
        let parser = *parser;
        let names = names.split(' ');
        names.map(move |name| (name, (parser, domain(name))))
    };
    tracts.chain(PARSERS.iter().flat_map(of_parser)).collect()
});

/// A node without the names of outputs that are left out at the end: parsers count the names.
fn without_last_outputs(node: &NodeProto) -> Cow<'_, NodeProto> {
    let count = node.output.iter().rposition(|name| !name.is_empty());
    let count = count.map_or(0, |last| last + 1);
    let mut node = Cow::Borrowed(node);
    if count < node.output.len() {
        node.to_mut().output.truncate(count);
    }
    node
}

/// Parses a node whose inputs are there, by the operators of this crate or of tract.
///
/// # Errors
/// The node is of another domain than its operator, lacks an input, or has an attribute that is not ONNX's.
pub fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let node = &*without_last_outputs(node);
    let operator = node.op_type.as_str();
    let entry = OPERATORS.get(operator);
    let (parse, domain) = entry.with_context(|| format!("tract has no {operator}"))?;
    if let Some(domain) = domain {
        check_domain(node, domain)?;
    }
    check_arity(node)?;
    let (upstream, captured) = parse(ctx, node)?;
    let upstream = within_rank::mended(node, upstream)?;
    let upstream = beside_sizes::mended(operator, upstream);
    Ok((retyped::mended(operator, upstream), captured))
}
