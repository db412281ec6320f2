//! Registers the operators in tract's ONNX loader.
//!
//! A loader has one parser for each name, and a later one replaces the one before. Each operator's
//! file has its parser, which returns tract's operator behind a hook, or one of its own.

use std::sync::LazyLock;

use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::beside_sizes;
use crate::loops::{if_, onnx_scan, parse};
use crate::node::check_arity;
use crate::operators::{
    arithmetic, batch_norm, cast, categories, compare, conv, div, dropout, einsum, empty,
    functions, gemm, global_lp_pool, int64, layer_norm, log_softmax, mat_mul, mod_, mul,
    nd_indices, pool, quantize, random, range, reduce, resize, retyped, scalar_value, split, top_k,
    within_rank,
};
use crate::{data_sizes, recurrent};

/// Makes a tract ONNX loader read `Loop`, all of `LSTM`, `GRU` and `RNN`, `If` with any names and
/// constants in its branches, `Cast` of sizes to int32 without losing symbols, `Div` without
/// reciprocals, `Range` of any span, reductions of nothing and of integers, `Slice` along axes of any
/// size, `Squeeze`, `Compress`, `Concat`, `ConstantOfShape`, `Expand`, `OneHot`, `Pad`, `Reshape`,
/// `Resize` and `Tile` with sizes from data, `Unique`, `AveragePool`, `MaxPool`, `Mod`, `Mul`, `TopK`,
/// `Trilu` and `Upsample`, `GatherND` and `ScatterND` with indices from the end, `QuantizeLinear` and
/// `DequantizeLinear` of all versions, and operators such as `CumSum` for int64 that comes from data. An
/// operator whose outputs are known to be empty is a constant. Of `ai.onnx.ml` it reads `LabelEncoder`
/// and `OneHotEncoder`.
///
/// tract looks operators up by name in any domain; a node with the same name in another domain is
/// an error when the model is read.
pub fn register(onnx: &mut tract_onnx::Onnx) {
    register_beneath(onnx);
    for operator in BENEATH.0.keys() {
        onnx.op_register.0.insert(operator.clone(), parse_checked);
    }
}

/// The operators without what several of them have: a check of their inputs, and hooks.
static BENEATH: LazyLock<OnnxOpRegister> = LazyLock::new(|| {
    let mut onnx = tract_onnx::onnx();
    register_beneath(&mut onnx);
    onnx.op_register
});

/// Parses an operator whose inputs are there, with the hooks that several of them have.
fn parse_checked(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let operator = node.op_type.as_str();
    let parse = BENEATH.0.get(operator);
    let parse = parse.with_context(|| format!("tract has no {operator}"))?;
    check_arity(node)?;
    let (upstream, captured) = parse(ctx, node)?;
    let upstream = within_rank::hooked(node, upstream)?;
    let upstream = beside_sizes::hooked(operator, upstream);
    Ok((retyped::hooked(operator, upstream), captured))
}

/// Registers all but that.
fn register_beneath(onnx: &mut tract_onnx::Onnx) {
    // First, since it replaces every operator of tract's; those below replace some of these.
    empty::register(onnx);
    functions::register(onnx);
    onnx.op_register
        .insert("BatchNormalization", batch_norm::parse);
    onnx.op_register.insert("Div", div::parse);
    onnx.op_register.insert("Dropout", dropout::parse);
    onnx.op_register.insert("Einsum", einsum::parse);
    onnx.op_register.insert("Gemm", gemm::parse);
    onnx.op_register
        .insert("GlobalLpPool", global_lp_pool::parse);
    onnx.op_register
        .insert("LayerNormalization", layer_norm::parse);
    for operator in ["RMSNormalization", "SimplifiedLayerNormalization"] {
        onnx.op_register.insert(operator, layer_norm::parse_rms);
    }
    onnx.op_register.insert("LogSoftmax", log_softmax::parse);
    onnx.op_register.insert("Loop", parse::parse);
    onnx.op_register.insert("If", if_::parse);
    onnx.op_register.insert("Cast", cast::parse);
    onnx.op_register.insert("Conv", conv::parse);
    onnx.op_register.insert("MatMul", mat_mul::parse);
    onnx.op_register.insert("AveragePool", pool::parse);
    onnx.op_register.insert("MaxPool", pool::parse);
    onnx.op_register.insert("Mod", mod_::parse);
    onnx.op_register.insert("Mul", mul::parse);
    onnx.op_register.insert("Pow", mul::parse);
    onnx.op_register.insert("Range", range::parse);
    onnx.op_register.insert("Resize", resize::parse);
    onnx.op_register.insert("Scan", onnx_scan::parse);
    onnx.op_register.insert("Split", split::parse);
    onnx.op_register.insert("TopK", top_k::parse);
    onnx.op_register.insert("Trilu", scalar_value::parse_trilu);
    onnx.op_register.insert("Upsample", resize::parse);
    for operator in arithmetic::OPERATORS {
        onnx.op_register.insert(operator, arithmetic::parse);
    }
    for operator in categories::OPERATORS {
        onnx.op_register.insert(operator, categories::parse);
    }
    for (operator, _) in compare::OPERATORS {
        onnx.op_register.insert(operator, compare::parse);
    }
    for operator in random::OPERATORS {
        onnx.op_register.insert(operator, random::parse);
    }
    for operator in nd_indices::OPERATORS {
        onnx.op_register.insert(operator, nd_indices::parse);
    }
    int64::register(onnx);
    quantize::register(onnx);
    reduce::register(onnx);
    data_sizes::register(onnx);
    recurrent::register(onnx);
}
