//! Proves element types.

use crate::model::{Attribute, FLOAT, INT64, NodeProto, STRING, element_type};
use crate::operators::Operator;
pub use crate::operators::OutputType;
use crate::scope::{Scope, Source};

/// The most values that are followed, so that no model takes long.
const MAXIMUM_STEPS: usize = 256;

/// The known facts about a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The elements' type, as ONNX's code.
    Type(i32),
    /// No strings: no operator that produces the value outputs any.
    NoStrings,
    Nothing,
}

/// ONNX's code of a value's element type, as declared or as operators make it.
#[must_use]
pub fn of(scope: &Scope<'_>, name: &str) -> Option<i32> {
    match inferred(scope, name) {
        Known::Type(code) => Some(code),
        Known::NoStrings | Known::Nothing => None,
    }
}

/// Whether a value's elements may be strings.
#[must_use]
pub fn may_be_strings(scope: &Scope<'_>, name: &str) -> bool {
    match inferred(scope, name) {
        Known::Type(code) => code == STRING,
        Known::NoStrings => false,
        Known::Nothing => true,
    }
}

fn inferred(scope: &Scope<'_>, name: &str) -> Known {
    let (mut scope, mut name) = (scope, name);
    for _ in 0..MAXIMUM_STEPS {
        if let Some(code) = scope.declaration(name).and_then(element_type) {
            return Known::Type(code);
        }
        let (inner, node, output) = match scope.source(name) {
            Some((_, Source::Initializer(tensor))) => {
                return tensor.data_type.map_or(Known::Nothing, Known::Type);
            }
            Some((inner, Source::Node { node, output })) => (inner, node, output),
            Some((_, Source::Input(_))) | None => return Known::Nothing,
        };
        match of_output(node, output) {
            OutputType::Code(code) => return Known::Type(code),
            OutputType::Input(input) => match node.input(input) {
                Some(input) => (scope, name) = (inner, input),
                None => return Known::Nothing,
            },
            OutputType::NoStrings => return Known::NoStrings,
            OutputType::Unknown => return Known::Nothing,
        }
    }
    Known::Nothing
}

/// Returns the element type of a node's output, by its index.
#[must_use]
pub fn of_output(node: &NodeProto, output: usize) -> OutputType {
    match node.domain() {
        "" => by_operator(node, output),
        "com.microsoft" => by_microsoft(node, output),
        "revseq" if node.op() == "ReverseSubsequences" => OutputType::Input(0),
        _ => OutputType::Unknown,
    }
}

fn by_operator(node: &NodeProto, output: usize) -> OutputType {
    let of_tensor = |name: &str, default: i32| match node.tensor(name) {
        Attribute::Value(tensor) => tensor.data_type,
        Attribute::Absent => Some(default),
        Attribute::Reference => None,
    };
    let known = |code: Option<i32>| code.map_or(OutputType::Unknown, OutputType::Code);
    match node.op() {
        "Constant" => match node.attribute.first().and_then(|it| it.name.as_deref()) {
            Some("value") => known(of_tensor("value", FLOAT)),
            Some("value_float" | "value_floats") => OutputType::Code(FLOAT),
            Some("value_int" | "value_ints") => OutputType::Code(INT64),
            Some("value_string" | "value_strings") => OutputType::Code(STRING),
            _ => OutputType::Unknown,
        },
        "ConstantOfShape" => known(of_tensor("value", FLOAT)),
        op => {
            let Some(row) = Operator::of(op) else {
                return OutputType::NoStrings;
            };
            if let Some(code) = row.behind.filter(|_| output > 0) {
                return OutputType::Code(code);
            }
            match row.chosen.map(|name| node.int(name)) {
                Some(Attribute::Value(code)) => known(code.try_into().ok()),
                Some(Attribute::Reference) => OutputType::Unknown,
                Some(Attribute::Absent) | None => row.output,
            }
        }
    }
}

fn by_microsoft(node: &NodeProto, output: usize) -> OutputType {
    match node.op() {
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization"
            if [1, 2].contains(&output) =>
        {
            OutputType::Code(FLOAT)
        }
        "GatherBlockQuantized" => OutputType::Input(2),
        "BiasGelu"
        | "FastGelu"
        | "GroupQueryAttention"
        | "MatMulNBits"
        | "MultiHeadAttention"
        | "QuickGelu"
        | "RotaryEmbedding"
        | "SkipLayerNormalization"
        | "SkipSimplifiedLayerNormalization" => OutputType::Input(0),
        _ => OutputType::Unknown,
    }
}
