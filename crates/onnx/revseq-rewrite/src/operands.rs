//! What a node that is written is given: its inputs, and its attributes.

use crate::model::{self, AttributeProto, TensorProto};

/// An input of a node: a value's name, or a constant of integers.
pub(crate) enum Operand {
    Value(String),
    Ints { sizes: Vec<i64>, values: Vec<i64> },
}

/// Inputs of a node: names of values, integers, which become a constant, or a tuple of these.
pub(crate) trait Operands {
    fn list(self) -> Vec<Operand>;
}

macro_rules! operands {
    ($(|$it:ident: $type:ty| $operands:expr;)+) => {
        $(impl Operands for $type {
            fn list(self) -> Vec<Operand> {
                let $it = self;
                $operands
            }
        })+
    };
}

operands! {
    |name: &str| name.to_owned().list();
    |name: &String| name.clone().list();
    |name: String| vec![Operand::Value(name)];
    |names: &[&str]| names.iter().map(|&name| Operand::Value(name.to_owned())).collect();
    |names: &[String]| names.to_vec().list();
    |names: &Vec<String>| names.clone().list();
    |names: Vec<String>| names.into_iter().map(Operand::Value).collect();
    |names: Vec<&str>| names.as_slice().list();
    |number: i64| vec![Operand::Ints { sizes: Vec::new(), values: vec![number] }];
    |numbers: &[i64]| vec![Operand::Ints {
        sizes: vec![numbers.len() as i64],
        values: numbers.to_vec(),
    }];
    |_none: ()| Vec::new();
}

impl<const N: usize> Operands for [i64; N] {
    fn list(self) -> Vec<Operand> {
        self.as_slice().list()
    }
}

impl<const N: usize> Operands for [&str; N] {
    fn list(self) -> Vec<Operand> {
        self.as_slice().list()
    }
}

macro_rules! tuples {
    ($(($($name:ident: $type:ident),+)),+) => {
        $(impl<$($type: Operands),+> Operands for ($($type,)+) {
            fn list(self) -> Vec<Operand> {
                let ($($name,)+) = self;
                [].into_iter()$(.chain($name.list()))+.collect()
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
