//! A row of the table of operators.

/// What the name of an operator tells.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// The name.
    pub name: &'static str,
    /// The domain, which is empty for ONNX's own.
    pub domain: &'static str,
    /// The number of inputs that it does not do without, the first ones.
    pub inputs: usize,
    /// The sizes of its first output.
    pub sizes: Sizes,
    /// How it takes half floats.
    pub halves: HalfFloats,
    /// The inputs that are axes, sizes and the like, or that runtimes want as constants for another reason: their
    /// places, and ONNX's names for them.
    pub constants: &'static [(usize, &'static str)],
    /// The type of its outputs, unless an attribute chooses it.
    pub(crate) output: OutputType,
    /// The attribute that chooses the type.
    pub(crate) chosen: Option<&'static str>,
    /// ONNX's code of the type of the outputs behind the first, if it is another.
    pub(crate) behind: Option<i32>,
    /// What names axes.
    pub(crate) axes: &'static [(Place, NamedAxes)],
}

/// The sizes of an operator's first output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Those of the only input that it computes with, element by element: it commutes with any reordering.
    Elementwise,
    /// Those of the first input.
    OfInput,
    /// As many as the first input has.
    RankOfInput,
    /// As many as the first input has, which follow from windows over it.
    Windowed,
    /// Those that two or more inputs broadcast to.
    Broadcast,
    /// Those of the first input but for reduced axes.
    Reduced,
    /// Others.
    Other,
}

/// How an operator takes half floats, where these are held as floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfFloats {
    /// As they are, as it only moves elements: its outputs are held as its inputs.
    Moves,
    /// As floats, like its outputs.
    Computes,
    /// As half floats, like its outputs: it means their bits, their range, or a type that another value
    /// gets.
    MeansHalves,
    /// As they are, as it reads floats alike, and has no outputs of that kind but half floats.
    ReadsBoth,
}

/// The element type of a node's output, as far as the node itself tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputType {
    /// ONNX's code of the type.
    Code(i32),
    /// The type of the input at this index.
    Input(usize),
    /// One that holds no strings.
    NoStrings,
    /// Any type.
    Unknown,
}

/// The place of a node's axes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Attribute(&'static str),
    /// An attribute with a default.
    Or(&'static str, i64),
    /// A constant input.
    Input(usize),
}

/// The axes that may be named, of an input of this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamedAxes {
    Axes,
    /// The same, where a scalar counts as a list of one element.
    AxesOrScalar,
    /// The axes and the end.
    AxesAndEnd,
    /// The axes of the output, which has one more.
    WithOneMore,
    /// The axes of the output, which has one more for each named.
    WithThese,
}

/// A row of the table.
pub(super) const fn op(
    name: &'static str,
    inputs: usize,
    sizes: Sizes,
    output: OutputType,
    halves: HalfFloats,
) -> Operator {
    Operator {
        name,
        domain: "",
        inputs,
        sizes,
        halves,
        constants: &[],
        output,
        chosen: None,
        behind: None,
        axes: &[],
    }
}

impl Operator {
    pub(super) const fn domain(self, domain: &'static str) -> Self {
        Self { domain, ..self }
    }

    pub(super) const fn chosen(self, attribute: &'static str) -> Self {
        let chosen = Some(attribute);
        Self { chosen, ..self }
    }

    pub(super) const fn behind(self, code: i32) -> Self {
        let behind = Some(code);
        Self { behind, ..self }
    }

    pub(super) const fn axes(self, axes: &'static [(Place, NamedAxes)]) -> Self {
        Self { axes, ..self }
    }

    pub(super) const fn constants(self, constants: &'static [(usize, &'static str)]) -> Self {
        Self { constants, ..self }
    }
}
