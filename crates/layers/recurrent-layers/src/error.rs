//! The errors of a layer and its operands.

/// An error of this crate, with the values that caused it and those that would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layer has no direction.
    #[error("a layer has no directions, expected at least 1")]
    NoDirections,
    /// A layer, or one of its directions, has too few or too many activations.
    #[error("it has {actual} activations, expected {expected}")]
    ActivationCount {
        /// The number found.
        actual: usize,
        /// The number that its cell has in as many directions.
        expected: usize,
    },
    /// An operand has too few or too many elements for its shape.
    #[error("{operand} has {actual} elements, expected {}", sizes(shape))]
    Size {
        /// ONNX's name of the operand.
        operand: &'static str,
        /// The number of elements found.
        actual: usize,
        /// The sizes that it should have.
        shape: Vec<usize>,
    },
    /// An operand has other axes, or other sizes of them, than it should have.
    #[error("{operand} has shape {actual:?}, expected {expected}")]
    Shape {
        /// ONNX's name of the operand.
        operand: &'static str,
        /// The sizes found.
        actual: Vec<usize>,
        /// Those that it should have.
        expected: String,
    },
    /// An operand is left out.
    #[error("it lacks {operand}")]
    Missing {
        /// ONNX's name of the operand.
        operand: &'static str,
    },
    /// An operand is given that is not read, as an attribute has it.
    #[error("{operand} is given, which its {attribute} does not have")]
    Unused {
        /// ONNX's name of the operand.
        operand: &'static str,
        /// The name of the attribute.
        attribute: &'static str,
    },
    /// An operand has elements of another type.
    #[error("{operand} has elements of another type, expected {expected}")]
    Type {
        /// ONNX's name of the operand.
        operand: &'static str,
        /// What it should have.
        expected: &'static str,
    },
    /// An offset of a sequence is not among the tokens that are left.
    #[error("{operand} is {value} at index {index}, expected {least} to {most}")]
    Offset {
        /// ONNX's name of the operand.
        operand: &'static str,
        /// The index of the offset.
        index: usize,
        /// The offset found.
        value: i32,
        /// The least that it may be.
        least: usize,
        /// The most that it may be.
        most: usize,
    },
    /// An attribute has a value that it cannot have.
    #[error("its {name} is {actual}, expected {expected}")]
    Attribute {
        /// The name of the attribute.
        name: &'static str,
        /// The value found.
        actual: String,
        /// Those that it may have.
        expected: &'static str,
    },
    /// A sequence is longer than there are steps.
    #[error("sequence length {length} at index {index} is out of range: expected 0 to {steps}")]
    SequenceLength {
        /// The index of the sequence.
        index: usize,
        /// The length found.
        length: usize,
        /// The number of steps.
        steps: usize,
    },
    /// Only float32 is quantised.
    #[error("a layer that quantises its input has numbers of another type than float32")]
    QuantizedType,
    /// Packed weights are of another layer.
    #[error("the packed weights of {operand} are those of another layer")]
    OtherLayer {
        /// ONNX's name of the operand.
        operand: &'static str,
    },
    /// The system has no more memory to give.
    #[error("not enough memory for {bytes} bytes")]
    OutOfMemory {
        /// The number of bytes asked for.
        bytes: usize,
    },
    /// An input without features, which takes no memory, has more steps than one with features could.
    #[error("X has {steps} steps without features, expected at most {most}")]
    Steps {
        /// The number found.
        steps: usize,
        /// The most that there may be.
        most: usize,
    },
    /// [`Threads::stop`](crate::Threads::stop) ended the run. Outputs hold some of its results.
    #[error("the run was stopped")]
    Stopped,
    /// Only an LSTM has a state c and peepholes.
    #[error("{operand} is given, which {cell} does not have")]
    Unexpected {
        /// ONNX's name of the operand.
        operand: &'static str,
        /// The name of the cell.
        cell: &'static str,
    },
}

/// Sizes, after the number of elements that they make.
fn sizes(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let sizes = sizes.join(",");
    match count(shape) {
        Some(count) => format!("{count}: [{sizes}]"),
        None => format!("[{sizes}]"),
    }
}

/// The number of elements of a shape, unless there cannot be so many.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    // A size of 0 makes 0 of any others.
    if shape.contains(&0) {
        return Some(0);
    }
    let mut sizes = shape.iter();
    sizes.try_fold(1_usize, |count, size| count.checked_mul(*size))
}

/// Checks the number of elements of an operand.
pub(crate) fn check(operand: &'static str, actual: usize, shape: &[usize]) -> Result<(), Error> {
    if count(shape) == Some(actual) {
        return Ok(());
    }
    Err(Error::Size {
        operand,
        actual,
        shape: shape.to_vec(),
    })
}
