//! What a node that is written is given: its inputs, and its attributes.

use crate::emit::Emit;
use crate::model::{self, AttributeProto, TensorProto};

/// Inputs of a node: names of values, integers, which become a constant, or a tuple of these.
pub(crate) trait Operands {
    /// The names of the values, once all are written.
    fn names(self, emit: &Emit<'_>) -> Vec<String>;
}

macro_rules! operands {
    ($(|$it:ident: $type:ty, $emit:pat_param| $names:expr;)+) => {
        $(impl Operands for $type {
            fn names(self, $emit: &Emit<'_>) -> Vec<String> {
                let $it = self;
                $names
            }
        })+
    };
}

operands! {
    |name: &str, _| vec![name.to_owned()];
    |name: &String, _| vec![name.clone()];
    |name: String, _| vec![name];
    |names: &[&str], _| names.iter().map(|&name| name.to_owned()).collect();
    |names: &[String], _| names.to_vec();
    |names: &Vec<String>, _| names.clone();
    |names: Vec<String>, _| names;
    |names: Vec<&str>, emit| names.as_slice().names(emit);
    |number: i64, emit| vec![emit.constant(&[], &[number])];
    |numbers: &[i64], emit| vec![emit.constant(&[numbers.len() as i64], numbers)];
    |_none: (), _| Vec::new();
}

impl<const N: usize> Operands for [i64; N] {
    fn names(self, emit: &Emit<'_>) -> Vec<String> {
        self.as_slice().names(emit)
    }
}

impl<const N: usize> Operands for [&str; N] {
    fn names(self, emit: &Emit<'_>) -> Vec<String> {
        self.as_slice().names(emit)
    }
}

macro_rules! tuples {
    ($(($($name:ident: $type:ident),+)),+) => {
        $(impl<$($type: Operands),+> Operands for ($($type,)+) {
            fn names(self, emit: &Emit<'_>) -> Vec<String> {
                let ($($name,)+) = self;
                [$($name.names(emit)),+].concat()
            }
        })+
    };
}

tuples! {
    (a: A, b: B),
    (a: A, b: B, c: C),
    (a: A, b: B, c: C, d: D),
    (a: A, b: B, c: C, d: D, e: E)
}

/// The value of an attribute.
pub(crate) trait Setting {
    fn named(self, name: &str) -> AttributeProto;
}

macro_rules! settings {
    ($(|$it:ident: $type:ty, $name:ident| $attribute:expr;)+) => {
        $(impl Setting for $type {
            fn named(self, $name: &str) -> AttributeProto {
                let $it = self;
                $attribute
            }
        })+
    };
}

settings! {
    |value: i64, name| model::int(name, value);
    |value: i32, name| model::int(name, value.into());
    |values: &[i64], name| model::ints(name, values);
    |value: TensorProto, name| model::tensor(name, value);
}

/// Attributes of a node: one with its name, several of one type, or any that there are.
pub(crate) trait Attributes {
    fn list(self) -> Vec<AttributeProto>;
}

impl Attributes for () {
    fn list(self) -> Vec<AttributeProto> {
        Vec::new()
    }
}

impl<T: Setting> Attributes for (&str, T) {
    fn list(self) -> Vec<AttributeProto> {
        vec![self.1.named(self.0)]
    }
}

impl<T: Setting, const N: usize> Attributes for [(&str, T); N] {
    fn list(self) -> Vec<AttributeProto> {
        Vec::from(self.map(|(name, value)| value.named(name)))
    }
}

impl Attributes for Vec<AttributeProto> {
    fn list(self) -> Vec<AttributeProto> {
        self
    }
}
