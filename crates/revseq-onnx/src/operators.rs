//! Operators by their effect on the order and the sizes of their inputs.

/// Elementwise operators with one input, which commute with any reordering.
pub const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Cast",
    "Ceil",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "HardSigmoid",
    "Identity",
    "LeakyRelu",
    "Log",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
    "ThresholdedRelu",
];

/// Other operators whose first output has the sizes of the first input.
const SAME_SIZES: &[&str] = &[
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BatchNormalization",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumSum",
    "DequantizeLinear",
    "Dropout",
    "Gelu",
    "GroupNormalization",
    "HardSwish",
    "Hardmax",
    "InstanceNormalization",
    "IsInf",
    "IsNaN",
    "LayerNormalization",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "QuantizeLinear",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Shrink",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "Tan",
    "Trilu",
];

/// Operators whose output has as many axes as the first input, of other sizes.
pub(crate) const SAME_RANK: &[&str] = &[
    "DepthToSpace",
    "Pad",
    "Resize",
    "SpaceToDepth",
    "Tile",
    "Upsample",
];

/// Whether an operator's first output has the sizes of its first input.
pub(crate) fn has_sizes_of_input(op: &str) -> bool {
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
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
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

/// Operators whose only output is bool.
pub(crate) const GIVES_BOOL: &[&str] = &[
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
    "Xor",
];

/// Operators whose outputs are int64 for any input.
pub(crate) const GIVES_SIZES: &[&str] = &[
    "ArgMax",
    "ArgMin",
    "NonZero",
    "SequenceLength",
    "Shape",
    "Size",
];

/// Operators, besides elementwise ones with one input, whose outputs have the first input's type.
pub(crate) const FIRST_INPUTS_TYPE: &[&str] = &[
    "Add",
    "Compress",
    "Concat",
    "DepthToSpace",
    "Div",
    "Expand",
    "Flatten",
    "GRU",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gemm",
    "LSTM",
    "MatMul",
    "Max",
    "Min",
    "Mul",
    "Pad",
    "Pow",
    "RNN",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Reshape",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "Softmax",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Other operators that may output strings.
pub(crate) const MAY_GIVE_STRINGS: &[&str] = &[
    "ConcatFromSequence",
    "If",
    "Loop",
    "OneHot",
    "Optional",
    "OptionalGetElement",
    "Resize",
    "Scan",
    "Scatter",
    "SequenceAt",
    "SequenceConstruct",
    "SplitToSequence",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
    "Trilu",
    "Unique",
    "Upsample",
];
