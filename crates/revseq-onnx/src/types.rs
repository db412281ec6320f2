//! Proves element types.

use crate::model::{Attribute, BOOL, FLOAT, INT64, NodeProto, STRING, ValueInfoProto, tensor_type};
use crate::operators::{ELEMENTWISE, FIRST_INPUTS_TYPE, GIVES_BOOL, GIVES_SIZES, MAY_GIVE_STRINGS};
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
        if let Some(code) = scope.declaration(name).and_then(declared) {
            return Known::Type(code);
        }
        let (inner, node) = match scope.source(name) {
            Some((_, Source::Initializer(tensor))) => {
                return tensor.data_type.map_or(Known::Nothing, Known::Type);
            }
            Some((inner, Source::Node { node, .. })) => (inner, node),
            Some((_, Source::Input(_))) | None => return Known::Nothing,
        };
        match by_operator(node) {
            Step::Done(known) => return known,
            Step::Input(input) => match node.input(input) {
                Some(input) => (scope, name) = (inner, input),
                None => return Known::Nothing,
            },
        }
    }
    Known::Nothing
}

/// A value's declared element type.
fn declared(value: &ValueInfoProto) -> Option<i32> {
    tensor_type(value)?.elem_type.filter(|&code| code != 0)
}

enum Step {
    Done(Known),
    /// The type of an input.
    Input(usize),
}

fn by_operator(node: &NodeProto) -> Step {
    let is = |code| Step::Done(Known::Type(code));
    let of_tensor = |name: &str, default: i32| match node.tensor(name) {
        Attribute::Value(tensor) => tensor.data_type,
        Attribute::Absent => Some(default),
        Attribute::Reference => None,
    };
    let known = |code: Option<i32>| Step::Done(code.map_or(Known::Nothing, Known::Type));
    match node.op() {
        _ if !node.domain().is_empty() => Step::Done(Known::Nothing),
        "Cast" => known(node.int("to").value().and_then(|code| code.try_into().ok())),
        "CastLike" | "Where" => Step::Input(1),
        "Constant" => match node.attribute.first().and_then(|it| it.name.as_deref()) {
            Some("value") => known(of_tensor("value", FLOAT)),
            Some("value_float" | "value_floats") => is(FLOAT),
            Some("value_int" | "value_ints") => is(INT64),
            Some("value_string" | "value_strings") => is(STRING),
            _ => Step::Done(Known::Nothing),
        },
        "ConstantOfShape" => known(of_tensor("value", FLOAT)),
        op if GIVES_SIZES.contains(&op) => is(INT64),
        op if GIVES_BOOL.contains(&op) => is(BOOL),
        op if ELEMENTWISE.contains(&op) || FIRST_INPUTS_TYPE.contains(&op) => Step::Input(0),
        op if MAY_GIVE_STRINGS.contains(&op) => Step::Done(Known::Nothing),
        _ => Step::Done(Known::NoStrings),
    }
}
