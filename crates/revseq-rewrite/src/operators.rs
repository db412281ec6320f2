//! Operators by what they do to the order and the sizes of their inputs.

/// Elementwise operators of one input, to which the order is all the same.
pub(crate) const ELEMENTWISE: &[&str] = &[
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

/// Others whose first output has the sizes of the first input.
const SAME_SIZES: &[&str] = &[
    "Clip",
    "Dropout",
    "LayerNormalization",
    "LogSoftmax",
    "ReverseSequence",
    "Softmax",
];

/// Whether an operator's first output has the sizes of its first input.
pub(crate) fn has_sizes_of_input(op: &str) -> bool {
    ELEMENTWISE.contains(&op) || SAME_SIZES.contains(&op)
}

/// Operators of two inputs or more that are broadcast.
pub(crate) const BROADCAST: &[&str] = &[
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
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Operators that reduce axes.
pub(crate) const REDUCE: &[&str] = &[
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
];
