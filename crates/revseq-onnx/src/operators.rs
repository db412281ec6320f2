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

/// Whether no runtime can have an operator: a model of this opset has it in ONNX's own domain, which has
/// never had it.
#[must_use]
pub fn is_unheard_of(domain: &str, operator: &str, opset: i64) -> bool {
    matches!(domain, "" | "ai.onnx")
        && opset <= LATEST
        && !OF_ONNX
            .split_ascii_whitespace()
            .any(|known| known == operator)
}

#[cfg(test)]
mod tests {
    #[test]
    fn operators_of_onnx_are_heard_of() {
        let is_unheard_of = |domain, operator| super::is_unheard_of(domain, operator, 13);
        for operator in ["Abs", "Xor", "LSTM", "SequenceMap", "ImageScaler"] {
            assert!(!is_unheard_of("", operator), "{operator}");
        }
        assert!(is_unheard_of("", "TensorListStack") && is_unheard_of("ai.onnx", "Nonsense"));
        assert!(!is_unheard_of("com.microsoft", "Nonsense"));
        // A later one may have more.
        assert!(!super::is_unheard_of("", "Nonsense", 1000));
    }
}
