//! Operators by their effect on the order, the sizes and the types of their inputs.

/// Elementwise operators with one input, which commute with any reordering.
pub const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Cast",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
];

/// Other operators whose first output has the sizes of the first input.
const SAME_SIZES: &[&str] = &[
    "BatchNormalization",
    "Bernoulli",
    "Clip",
    "CumProd",
    "CumSum",
    "DequantizeLinear",
    "Dropout",
    "DynamicQuantizeLinear",
    "EyeLike",
    "GroupNormalization",
    "Hardmax",
    "InstanceNormalization",
    "LayerNormalization",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "QuantizeLinear",
    "RMSNormalization",
    "RandomNormalLike",
    "RandomUniformLike",
    "ReverseSequence",
    "ReverseSubsequences",
    "ScatterElements",
    "ScatterND",
    "Softmax",
    "TensorScatter",
    "Trilu",
];

/// Operators whose output has as many axes as the first input, of other sizes.
pub(crate) const SAME_RANK: &[&str] = &[
    "CenterCropPad",
    "DFT",
    "DepthToSpace",
    "GridSample",
    "Pad",
    "Resize",
    "SpaceToDepth",
    "Tile",
    "Upsample",
];

/// Whether an operator's first output has the sizes of its first input.
#[must_use]
pub fn has_sizes_of_input(op: &str) -> bool {
    ELEMENTWISE.contains(&op) || SAME_SIZES.contains(&op)
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

/// Operators that broadcast two or more inputs.
pub const BROADCAST: &[&str] = &[
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Operators that reduce axes.
pub const REDUCE: &[&str] = &[
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
];

/// Whether an operator of ONNX's own draws numbers, so that its outputs may differ in every run.
#[must_use]
pub fn is_random(op: &str) -> bool {
    op.starts_with("Random") || matches!(op, "Bernoulli" | "Multinomial" | "Dropout")
}

/// The latest opset of ONNX's own domain whose operators are known here.
const LATEST: i64 = 28;

/// The operators that ONNX's own domain has had, and those that ONNX Runtime keeps in it.
const OF_ONNX: &str = "\
    Abs Acos Acosh Add Affine AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention \
    AveragePool BatchNormalization Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr \
    BitwiseXor BlackmanWindow Cast CastLike CausalConvWithState Ceil Celu CenterCropPad Clip \
    Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger \
    ConvTranspose Cos Cosh Crop CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det \
    Div Dropout DynamicQuantizeLinear DynamicSlice Einsum Elu Equal Erf Exp Expand EyeLike \
    Flatten FlexAttention Floor GRU Gather GatherElements GatherND Gelu Gemm GivenTensorFill \
    GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample \
    GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If \
    ImageDecoder ImageScaler InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization \
    LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop LpNormalization LpPool MatMul \
    MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization \
    MelWeightMatrix Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression \
    NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or PRelu Pad \
    ParametricSoftplus Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN \
    RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 \
    ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum \
    ReduceSumSquare RegexFullMatch Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding \
    Round STFT Scale ScaledTanh Scan Scatter ScatterElements ScatterND Selu SequenceAt \
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap \
    Shape Shrink Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax \
    SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze \
    StringConcat StringNormalizer StringSplit Sub Sum SwiGLU Swish Tan Tanh TensorScatter \
    TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where \
    Xor";

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
    let is_among = |known: &str| known.split_ascii_whitespace().any(|it| it == operator);
    match domain {
        "" | "ai.onnx" => (opset <= LATEST && !is_among(OF_ONNX)).then_some("ONNX"),
        "com.microsoft" if is_among(OF_ONNX_RUNTIME) => None,
        _ if OF_RUNTIMES.iter().any(|it| domain.starts_with(it)) => None,
        _ => Some("ONNX Runtime 1.32"),
    }
}

#[cfg(test)]
mod tests {
    use super::unheard_of_in;

    #[test]
    fn operators_of_onnx_are_heard_of() {
        for operator in ["Abs", "Xor", "LSTM", "SequenceMap", "ImageScaler"] {
            assert_eq!(unheard_of_in("", operator, 13), None, "{operator}");
        }
        for (domain, operator) in [("", "TensorListStack"), ("ai.onnx", "Nonsense")] {
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
