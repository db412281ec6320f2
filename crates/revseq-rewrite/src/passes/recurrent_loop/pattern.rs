//! Patterns of formulas in a body.
//!
//! A pattern is written like its formula: `gate("z") * state("h") + ...`. Sums and products match
//! with their operands in either order.

use std::ops::{Add, Mul, Sub};

use super::activation::Activation;
use super::body::{Body, operands};
use super::sum::Part;

/// A pattern of values.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// Any value; the same one for the same name.
    Value(&'static str),
    /// A state before the step.
    State(&'static str),
    /// A constant of one element.
    Number(f32),
    /// An activation function of a pattern.
    Function(&'static str, Box<Pattern>),
    /// A pattern with a name.
    Called(&'static str, Box<Pattern>),
    /// An operator with two inputs.
    Operator(Operator, Box<[Pattern; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Add,
    Mul,
    Sub,
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

pub(super) fn function(name: &'static str, of: Pattern) -> Pattern {
    Pattern::Function(name, Box::new(of))
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
        Self::Operator(Operator::Add, Box::new([self, other]))
    }
}

impl Mul for Pattern {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::Operator(Operator::Mul, Box::new([self, other]))
    }
}

impl Sub for Pattern {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::Operator(Operator::Sub, Box::new([self, other]))
    }
}

/// The values of a pattern's names.
#[derive(Clone, Debug, Default)]
pub(super) struct Match<'a> {
    values: Vec<(&'static str, Part<'a>)>,
    functions: Vec<(&'static str, Activation)>,
}

impl<'a> Match<'a> {
    pub(super) fn value(&self, name: &str) -> Option<Part<'a>> {
        let found = self.values.iter().find(|(known, _)| *known == name);
        found.map(|&(_, value)| value)
    }

    pub(super) fn function(&self, name: &str) -> Option<&Activation> {
        let found = self.functions.iter().find(|(known, _)| *known == name);
        found.map(|(_, function)| function)
    }

    /// Binds a name to a value; false if it is bound to another.
    fn bind(&mut self, name: &'static str, value: Part<'a>) -> bool {
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
        name: &'a str,
        accept: impl Fn(&Match<'a>) -> Option<T>,
    ) -> Option<T> {
        let todo = vec![(self, Part::all(name))];
        solve(body, todo, Match::default(), &accept)
    }
}

/// Matches the remaining pairs, last one first.
fn solve<'p, 'a, T>(
    body: &Body<'a>,
    mut todo: Vec<(&'p Pattern, Part<'a>)>,
    mut found: Match<'a>,
    accept: &dyn Fn(&Match<'a>) -> Option<T>,
) -> Option<T> {
    let Some((pattern, part)) = todo.pop() else {
        return accept(&found);
    };
    let is_whole = part.columns.is_none();
    let name = body.plain(part.name);
    let part = part.of(name);
    match pattern {
        Pattern::Value(key) => {
            if !found.bind(key, part) {
                return None;
            }
        }
        Pattern::State(key) => {
            let state = body.state(name).filter(|_| is_whole)?;
            if !found.bind(key, Part::all(state.carried)) {
                return None;
            }
        }
        Pattern::Number(expected) => {
            if !is_whole || body.number(name) != Some(*expected) {
                return None;
            }
        }
        Pattern::Function(key, of) => {
            let (function, argument) = Activation::of(body, part)?;
            found.functions.push((key, function));
            todo.push((of, argument));
        }
        Pattern::Called(key, inner) => {
            if !found.bind(key, part) {
                return None;
            }
            todo.push((inner, part));
        }
        Pattern::Operator(operator, inner) => {
            let op = match operator {
                Operator::Add => "Add",
                Operator::Mul => "Mul",
                Operator::Sub => "Sub",
            };
            let (first, second) = operands(body.inner, name, op).filter(|_| is_whole)?;
            let orders = [(first, second), (second, first)];
            let count = if *operator == Operator::Sub { 1 } else { 2 };
            return orders.into_iter().take(count).find_map(|(first, second)| {
                let mut todo = todo.clone();
                todo.push((&inner[0], Part::all(first)));
                todo.push((&inner[1], Part::all(second)));
                solve(body, todo, found.clone(), accept)
            });
        }
    }
    solve(body, todo, found, accept)
}
