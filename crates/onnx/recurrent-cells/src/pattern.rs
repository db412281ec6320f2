//! Patterns of formulas.
//!
//! A pattern is written like its formula: `gate("z") * state("h") + ...`. Sums and products match
//! with their operands in either order.

use std::ops::{Add, Mul, Sub};

use crate::sum::Part;
use crate::{Activation, Operator, Step};

/// A pattern of values.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Any value; the same one for the same name.
    Value(&'static str),
    /// A state before the step.
    State(&'static str),
    /// A constant of one number.
    Number(f32),
    /// An activation function of a pattern.
    Function(&'static str, Box<Pattern>),
    /// A pattern with a name.
    Called(&'static str, Box<Pattern>),
    /// An operator with two operands.
    Binary(Operator, Box<[Pattern; 2]>),
}

pub(crate) fn value(name: &'static str) -> Pattern {
    Pattern::Value(name)
}

pub(crate) fn state(name: &'static str) -> Pattern {
    Pattern::State(name)
}

pub(crate) fn number(number: f32) -> Pattern {
    Pattern::Number(number)
}

pub(crate) fn function(name: &'static str, argument: Pattern) -> Pattern {
    Pattern::Function(name, Box::new(argument))
}

/// An activation of a sum; both get the gate's name.
pub(crate) fn gate(name: &'static str) -> Pattern {
    function(name, value(name))
}

pub(crate) fn called(name: &'static str, pattern: Pattern) -> Pattern {
    Pattern::Called(name, Box::new(pattern))
}

impl Add for Pattern {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::Binary(Operator::Add, Box::new([self, other]))
    }
}

impl Mul for Pattern {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::Binary(Operator::Mul, Box::new([self, other]))
    }
}

impl Sub for Pattern {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::Binary(Operator::Sub, Box::new([self, other]))
    }
}

/// The values of a pattern's names.
#[derive(Clone, Debug)]
pub(crate) struct Match<V> {
    values: Vec<(&'static str, Part<V>)>,
    functions: Vec<(&'static str, Activation)>,
}

impl<V: Copy + PartialEq> Match<V> {
    pub(crate) fn value(&self, name: &str) -> Option<Part<V>> {
        let found = self.values.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }

    pub(crate) fn function(&self, name: &str) -> Option<Activation> {
        let found = self.functions.iter().find(|(known, _)| *known == name);
        found.map(|&(_, function)| function)
    }

    /// Binds a name to a value; false if it is bound to another.
    fn bind(&mut self, name: &'static str, value: Part<V>) -> bool {
        match self.value(name) {
            Some(known) => known == value,
            None => {
                self.values.push((name, value));
                true
            }
        }
    }
}

impl Pattern {
    /// The first accepted match of a value.
    pub(crate) fn find<S: Step, T>(
        &self,
        step: &S,
        value: S::Value,
        accept: impl Fn(&Match<S::Value>) -> Option<T>,
    ) -> Option<T> {
        let found = Match {
            values: Vec::new(),
            functions: Vec::new(),
        };
        solve(step, vec![(self, Part::all(value))], found, &accept)
    }
}

/// Matches the remaining pairs, last one first.
fn solve<'p, S: Step, T>(
    step: &S,
    mut todo: Vec<(&'p Pattern, Part<S::Value>)>,
    mut found: Match<S::Value>,
    accept: &dyn Fn(&Match<S::Value>) -> Option<T>,
) -> Option<T> {
    let Some((pattern, part)) = todo.pop() else {
        return accept(&found);
    };
    let part = part.of(step.plain(part.value));
    let whole = part.columns.is_none().then_some(part.value);
    match pattern {
        Pattern::Value(key) => {
            if !found.bind(key, part) {
                return None;
            }
        }
        Pattern::State(key) => {
            let state = step.state(whole?)?;
            if !found.bind(key, Part::all(state)) {
                return None;
            }
        }
        Pattern::Number(expected) => {
            if step.number(whole?) != Some(*expected) {
                return None;
            }
        }
        Pattern::Function(key, inner) => {
            let (function, argument) = Activation::of(step, part)?;
            found.functions.push((key, function));
            todo.push((inner, argument));
        }
        Pattern::Called(key, inner) => {
            if !found.bind(key, part.clone()) {
                return None;
            }
            todo.push((inner, part));
        }
        Pattern::Binary(operator, inner) => {
            let [first, second] = step.operands(whole?, *operator)?;
            let orders = [(first, second), (second, first)];
            let count = if *operator == Operator::Sub { 1 } else { 2 };
            return orders.into_iter().take(count).find_map(|(first, second)| {
                let mut todo = todo.clone();
                todo.push((&inner[0], Part::all(first)));
                todo.push((&inner[1], Part::all(second)));
                solve(step, todo, found.clone(), accept)
            });
        }
    }
    solve(step, todo, found, accept)
}
