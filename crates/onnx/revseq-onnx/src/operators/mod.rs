//! Operators by their effect on the order, the sizes and the types of their inputs.

mod row;
mod table;

pub use row::{HalfFloats, Operator, OutputType, Sizes};
pub(crate) use row::{NamedAxes, Place};
use table::OPERATORS;

impl Operator {
    /// Returns what is known of an operator of this name, in ONNX's own domain or this project's.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        let place = OPERATORS.binary_search_by(|row| row.name.cmp(name));
        place.ok().map(|place| &OPERATORS[place])
    }
}

/// The sizes of an operator's first output; [`Sizes::Other`] of one that is not known.
#[must_use]
pub fn sizes_of(op: &str) -> Sizes {
    Operator::of(op).map_or(Sizes::Other, |operator| operator.sizes)
}

/// Whether an operator computes each element of its only input by itself.
#[must_use]
pub fn is_elementwise(op: &str) -> bool {
    sizes_of(op) == Sizes::Elementwise
}

/// Whether an operator broadcasts two or more inputs.
#[must_use]
pub fn broadcasts(op: &str) -> bool {
    sizes_of(op) == Sizes::Broadcast
}

/// Whether an operator reduces axes.
#[must_use]
pub fn reduces(op: &str) -> bool {
    sizes_of(op) == Sizes::Reduced
}

/// Whether an operator's first output has the sizes of its first input.
#[must_use]
pub fn has_sizes_of_input(op: &str) -> bool {
    matches!(sizes_of(op), Sizes::Elementwise | Sizes::OfInput)
}

/// Operators of `com.microsoft` whose first output has as many axes as the first input.
pub(crate) const SAME_RANK_OF_MICROSOFT: &[&str] = &[
    "BiasGelu",
    "DequantizeLinear",
    "FastGelu",
    "Gelu",
    "NhwcMaxPool",
    "QLinearAveragePool",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QuantizeLinear",
    "QuickGelu",
    "SkipLayerNormalization",
];

/// Whether an operator of ONNX's own draws numbers, so that its outputs may differ in every run.
#[must_use]
pub fn is_random(op: &str) -> bool {
    op.starts_with("Random") || matches!(op, "Bernoulli" | "Multinomial" | "Dropout")
}

/// The latest opset of ONNX's own domain whose operators are known here.
const LATEST: i64 = 28;

/// The operators of `com.microsoft` that ONNX Runtime 1.24 to 1.32 computes on the CPU.
const OF_ONNX_RUNTIME: &str = "\
    Attention AttnLSTM BeamSearch BiasGelu BifurcationDetector BranchwiseRMSNorm CDist \
    CausalConvWithState ConvTransposeWithDynamicPads CropAndResize DecoderMaskedMultiHeadAttention \
    DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul DynamicTimeWarping \
    EmbedLayerNormalization EngramGate ExpandDims FastGelu FusedConv FusedGemm FusedMatMul GatedAdd \
    GatedDeltaNet GatedRMSNorm GatherBlockQuantized GatherND GatherPacked Gelu GreedySearch \
    GridSample GroupQueryAttention HyperConnectionPostMix HyperConnectionPreMix Inverse \
    LinearAttention LinearAttentionGate MRotaryEmbedding MatMulBnb4 MatMulFpQ4 MatMulInteger16 \
    MatMulIntegerToFloat MatMulNBits MaxpoolWithMask MoE MoEGroupRouter MultiHeadAttention \
    MurmurHash3 NGramHashMapping NGramRepeatBlock NhwcMaxPool Pad QAttention \
    QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv \
    QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QLinearWhere \
    QMoE QuantizeLinear QuickGelu Range RotaryEmbedding SampleOp Sampling ScaledSiLU \
    SkipLayerNormalization SkipSimplifiedLayerNormalization SparseAttention SparseToDenseMatMul \
    Tokenizer TransposeMatMul Trilu UnfoldTensor Unique VarlenCausalConvWithState \
    VarlenNGramHashMapping WhisperBeamSearch WordConvEmbedding";

/// The beginnings of other domains whose operators ONNX Runtime has, or the provider of this project.
const OF_RUNTIMES: [&str; 4] = ["ai.onnx.", "com.microsoft.", "com.ms.", "revseq"];

/// Returns what is without an operator, so that no runtime has it: ONNX, for a model of this opset that has it in
/// ONNX's own domain; ONNX Runtime, for any other domain. `None` if a runtime may have it.
#[must_use]
pub fn unheard_of_in(domain: &str, operator: &str, opset: i64) -> Option<&'static str> {
    let is_of_onnx = || Operator::of(operator).is_some_and(|it| it.domain.is_empty());
    let mut of_onnx_runtime = OF_ONNX_RUNTIME.split_ascii_whitespace();
    match domain {
        "" | "ai.onnx" => (opset <= LATEST && !is_of_onnx()).then_some("ONNX"),
        "com.microsoft" if of_onnx_runtime.any(|it| it == operator) => None,
        _ if OF_RUNTIMES.iter().any(|it| domain.starts_with(it)) => None,
        _ => Some("ONNX Runtime 1.32"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name() {
        assert!(OPERATORS.is_sorted_by(|a, b| a.name < b.name));
        for row in OPERATORS {
            assert!(Operator::of(row.name).is_some_and(|found| found.name == row.name));
        }
    }

    #[test]
    fn operators_of_onnx_are_heard_of() {
        for operator in ["Abs", "Xor", "LSTM", "SequenceMap", "ImageScaler"] {
            assert_eq!(unheard_of_in("", operator, 13), None, "{operator}");
        }
        for (domain, operator) in [
            ("", "TensorListStack"),
            ("ai.onnx", "Nonsense"),
            ("", "ReverseSubsequences"),
        ] {
            assert_eq!(
                unheard_of_in(domain, operator, 13),
                Some("ONNX"),
                "{operator}"
            );
        }
        // A later one may have more.
        assert_eq!(unheard_of_in("", "Nonsense", 1000), None);
    }

    #[test]
    fn operators_of_other_domains_are_those_of_onnx_runtime() {
        for (domain, operator) in [
            ("com.microsoft", "FusedMatMul"),
            ("com.microsoft", "WordConvEmbedding"),
            ("com.microsoft.nchwc", "Conv"),
            ("com.ms.internal.nhwc", "Conv"),
            ("ai.onnx.ml", "Scaler"),
            ("revseq", "ReverseSubsequences"),
        ] {
            assert_eq!(unheard_of_in(domain, operator, 13), None, "{operator}");
        }
        for (domain, operator) in [
            ("com.microsoft", "Nonsense"),
            // On GPUs alone.
            ("com.microsoft", "BiasSplitGelu"),
            ("com.microsofter", "Conv"),
            ("ai.onnxer", "Conv"),
            ("acme", "Add"),
        ] {
            let found = unheard_of_in(domain, operator, 13);
            assert_eq!(found, Some("ONNX Runtime 1.32"), "{operator}");
        }
    }
}
