//! What a node that is written gets as its inputs.

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
