//! Patterns of formulas.
//!
//! A pattern is written like its formula: `gate("z") * state("h") + ...`. Sums and products match
//! with their operands in either order.

use std::ops::{Add, Mul, Sub};

use super::activation::Activation;
use super::sum::Columns;
use crate::passes::steps::body::{Body, operands};

/// A pattern of values.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
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
    Binary(&'static str, Box<[Pattern; 2]>),
}

pub(super) fn value(name: &'static str) -> Pattern {
    Pattern::Value(name)
}

pub(super) fn state(name: &'static str) -> Pattern {
    Pattern::State(name)
}

pub(super) fn number(number: f32) -> Pattern {
    Pattern::Number(number)
}

pub(super) fn function(name: &'static str, argument: Pattern) -> Pattern {
    Pattern::Function(name, Box::new(argument))
}

/// An activation of a sum; both get the gate's name.
pub(super) fn gate(name: &'static str) -> Pattern {
    function(name, value(name))
}

pub(super) fn called(name: &'static str, pattern: Pattern) -> Pattern {
    Pattern::Called(name, Box::new(pattern))
}

impl Add for Pattern {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::Binary("Add", Box::new([self, other]))
    }
}

impl Mul for Pattern {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::Binary("Mul", Box::new([self, other]))
    }
}

impl Sub for Pattern {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::Binary("Sub", Box::new([self, other]))
    }
}

/// The values of a pattern's names.
#[derive(Clone, Debug)]
pub(super) struct Match<'a> {
    values: Vec<(&'static str, Columns<'a>)>,
    functions: Vec<(&'static str, Activation)>,
}

impl<'a> Match<'a> {
    pub(super) fn value(&self, name: &str) -> Option<Columns<'a>> {
        let matched = self.values.iter().find(|(known, _)| *known == name);
        matched.map(|(_, value)| value.clone())
    }

    pub(super) fn function(&self, name: &str) -> Option<Activation> {
        let matched = self.functions.iter().find(|(known, _)| *known == name);
        matched.map(|&(_, function)| function)
    }

    /// Binds a name to a value; false if it is bound to another.
    fn bind(&mut self, name: &'static str, value: Columns<'a>) -> bool {
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
    pub(super) fn find<'a, T>(
        &self,
        body: &Body<'a>,
        value: &'a str,
        accept: impl Fn(&Match<'a>) -> Option<T>,
    ) -> Option<T> {
        let matched = Match {
            values: Vec::new(),
            functions: Vec::new(),
        };
        solve(body, vec![(self, Columns::all(value))], matched, &accept)
    }
}

/// Matches the remaining pairs, last one first.
fn solve<'p, 'a, T>(
    body: &Body<'a>,
    mut todo: Vec<(&'p Pattern, Columns<'a>)>,
    mut matched: Match<'a>,
    accept: &dyn Fn(&Match<'a>) -> Option<T>,
) -> Option<T> {
    let Some((pattern, part)) = todo.pop() else {
        return accept(&matched);
    };
    let part = part.of(body.plain(part.value));
    let whole = part.columns.is_none().then_some(part.value);
    match pattern {
        Pattern::Value(key) => {
            if !matched.bind(key, part) {
                return None;
            }
        }
        Pattern::State(key) => {
            let state = body.state(whole?)?;
            if !matched.bind(key, Columns::all(state.carried)) {
                return None;
            }
        }
        Pattern::Number(expected) => {
            if body.number(whole?) != Some(*expected) {
                return None;
            }
        }
        Pattern::Function(key, inner) => {
            let (function, argument) = Activation::of(body, part)?;
            matched.functions.push((key, function));
            todo.push((inner, argument));
        }
        Pattern::Called(key, inner) => {
            if !matched.bind(key, part.clone()) {
                return None;
            }
            todo.push((inner, part));
        }
        Pattern::Binary(operator, inner) => {
            let (first, second) = operands(body.inner, whole?, operator)?;
            let orders = [(first, second), (second, first)];
            let count = if *operator == "Sub" { 1 } else { 2 };
            return orders.into_iter().take(count).find_map(|(first, second)| {
                let mut todo = todo.clone();
                todo.push((&inner[0], Columns::all(first)));
                todo.push((&inner[1], Columns::all(second)));
                solve(body, todo, matched.clone(), accept)
            });
        }
    }
    solve(body, todo, matched, accept)
}
