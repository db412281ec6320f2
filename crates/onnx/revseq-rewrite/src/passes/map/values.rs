//! The values of a body over all steps.
//!
//! A value that depends on the step gets the steps as its first axis; any other is computed once.
//! An operator that broadcasts aligns axes at their end, so axes of size 1 go between the steps and
//! the rest: `[steps, 3]` beside `[batch, 3]` becomes `[steps, 1, 3]`.

use std::collections::HashMap;

use crate::constant;
use crate::emit::Emit;
use crate::model::{INT64, NodeProto};
use crate::passes::steps::body::{Body, Count, Sequence};
use crate::scope::Source;
use crate::sizes::{self, Size};
use crate::types;

use super::refusal::refusal;

/// A value that depends on the step.
#[derive(Clone, Debug, Default)]
pub(super) struct Stepped {
    /// The name of the value over all steps.
    pub(super) name: String,
    /// The number of axes that it has in each step.
    pub(super) rank: usize,
}

impl Stepped {
    pub(super) fn new(name: String, rank: usize) -> Self {
        Self { name, rank }
    }
}

/// A value of the body, as the replacement computes it.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// One that is the same in every step, by its name outside the body.
    Fixed(String),
    Stepped(Stepped),
}

/// Returns the first input of a node that takes nothing else of the step.
pub(super) fn data_alone<'v>(node: &NodeProto, inputs: &'v [Value]) -> Result<&'v Stepped, String> {
    match inputs {
        [Value::Stepped(data), others @ ..] if !others.iter().any(Value::is_stepped) => Ok(data),
        _ => Err(refusal(node, "has parameters that depend on the step")),
    }
}

impl Value {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Fixed(name) => name,
            Self::Stepped(stepped) => &stepped.name,
        }
    }

    pub(super) fn is_stepped(&self) -> bool {
        matches!(self, Self::Stepped(_))
    }
}

/// Writes a node of the body over all steps.
type Write<'a, 'n> = fn(&mut Values<'a, 'n>, &'a NodeProto) -> Result<(), String>;

/// The values of a body, and the nodes that compute them.
pub(super) struct Values<'a, 'n> {
    pub(super) body: &'a Body<'a>,
    pub(super) emit: &'n Emit<'n>,
    /// Writes a node, of a counter that is computed.
    write: Write<'a, 'n>,
    known: HashMap<String, Value>,
    /// The sequences over all steps, with the steps first.
    sequences: Vec<(Sequence<'a>, Stepped)>,
    /// The number of steps, as a vector.
    count: Option<String>,
}

impl<'a, 'n> Values<'a, 'n> {
    pub(super) fn new(body: &'a Body<'a>, emit: &'n Emit<'n>, write: Write<'a, 'n>) -> Self {
        let inner = body.inner;
        for &(slice, sequence) in &body.slices {
            let Some(rank) = sizes::rank(body.outer, sequence.value) else {
                continue;
            };
            inner.assume_rank(slice, rank.saturating_sub(1));
            for (axis, own) in (0..rank).filter(|&axis| axis != sequence.axis).enumerate() {
                if let Some(size) = sizes::axis(body.outer, sequence.value, own) {
                    size.assume(inner, slice, axis);
                }
            }
        }
        Self {
            body,
            emit,
            write,
            known: HashMap::new(),
            sequences: Vec::new(),
            count: None,
        }
    }

    /// A value of the body.
    pub(super) fn value(&mut self, name: &str) -> Result<Value, String> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let value = self.find(name)?;
        self.known.insert(name.to_owned(), value.clone());
        Ok(value)
    }

    fn find(&mut self, name: &str) -> Result<Value, String> {
        let inner = self.body.inner;
        if !inner.defines(name) {
            return Ok(Value::Fixed(name.to_owned()));
        }
        if let Some(&(_, sequence)) = self.body.slices.iter().find(|(slice, _)| *slice == name) {
            return self.sequence(sequence).map(Value::Stepped);
        }
        let mut unchanged = self.body.unchanged.iter();
        if let Some(state) = unchanged.find(|state| state.carried == name) {
            return Ok(Value::Fixed(state.initial.to_owned()));
        }
        if let Some(count) = self.body.counter(name) {
            return self.counter(name, count).map(Value::Stepped);
        }
        match inner.source(name) {
            Some((_, Source::Initializer(tensor))) if !tensor.is_external() => {
                let mut tensor = tensor.clone();
                tensor.name = None;
                Ok(Value::Fixed(self.emit.tensor(tensor)))
            }
            _ => Err(format!("its body reads {name}, of which nothing is known")),
        }
    }

    /// A value with the steps first, whether it depends on them or not.
    pub(super) fn stepped(&mut self, name: &str) -> Result<Stepped, String> {
        match self.value(name)? {
            Value::Stepped(stepped) => Ok(stepped),
            Value::Fixed(fixed) => {
                let rank = self.rank(name)?;
                let one = self.emit.unsqueeze(&fixed, &[0]);
                let mut shape = self.count();
                if rank > 0 {
                    shape = self.emit.concat((shape, &*vec![1; rank]), 0);
                }
                Ok(Stepped::new(self.emit.op("Expand", (one, shape)), rank))
            }
        }
    }

    /// The number of axes of a value of the body.
    pub(super) fn rank(&mut self, name: &str) -> Result<usize, String> {
        match self.value(name)? {
            Value::Stepped(stepped) => Ok(stepped.rank),
            Value::Fixed(_) => sizes::rank(self.body.inner, name)
                .ok_or_else(|| format!("the number of axes of {name} is not known")),
        }
    }

    /// Makes a value of the body known.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.known.insert(name.to_owned(), value);
    }

    /// A sequence with the steps first.
    pub(super) fn sequence(&mut self, sequence: Sequence<'a>) -> Result<Stepped, String> {
        let mut known = self.sequences.iter();
        if let Some((_, stepped)) = known.find(|(known, _)| *known == sequence) {
            return Ok(stepped.clone());
        }
        let Sequence { value, axis, .. } = sequence;
        let outer = self.body.outer;
        let rank = sizes::rank(outer, value)
            .ok_or_else(|| format!("the number of axes of {value} is not known"))?;
        if axis >= rank {
            return Err(format!("{value} has no axis {axis}"));
        }
        let mut name = self.emit.move_axis(value, rank, axis, 0);
        if sequence.backwards {
            name = self.emit.flip(&name, 0);
        }
        // All sequences of a Scan have one length.
        if !self.body.is_scan() && sizes::axis(outer, value, axis) != Some(self.body.steps) {
            let numbers = self.numbers();
            name = self.emit.gather(&name, numbers, 0);
        }
        let stepped = Stepped::new(name, rank - 1);
        self.sequences.push((sequence, stepped.clone()));
        Ok(stepped)
    }

    /// The number of steps, as a vector of one element.
    pub(super) fn count(&mut self) -> String {
        if let Some(count) = &self.count {
            return count.clone();
        }
        let count = match (self.sequences.first(), self.body.steps) {
            (Some((_, sequence)), Size::Axis { .. }) => self.emit.sizes(&sequence.name, 0, 1),
            (_, steps) => self.emit.size_of(self.body.outer, steps),
        };
        self.count = Some(count.clone());
        count
    }

    /// The numbers of all steps.
    fn numbers(&mut self) -> String {
        let end = self.emit.squeeze(&self.count(), &[0]);
        self.emit.op("Range", (0, end, 1))
    }

    /// The numbers of all steps, where a body computes with one.
    fn counter(&mut self, name: &str, count: Count) -> Result<Stepped, String> {
        let inner = self.body.inner;
        let code = if self.body.iteration == Some(name) {
            Some(INT64)
        } else if let Some(state) = self.body.counters.iter().find(|it| it.carried == name) {
            types::of(self.body.outer, state.initial)
        } else {
            let (_, node, _) = inner.producer(name).ok_or("a counter has no producer")?;
            (self.write)(self, node)?;
            return self.stepped(name);
        };
        let code = code.ok_or_else(|| format!("the type of its counter {name} is not known"))?;
        let mut numbers = self.numbers();
        if count.ahead != 0 {
            numbers = self.emit.op("Add", (numbers, count.ahead));
        }
        if code != INT64 {
            numbers = self.emit.cast(numbers, code);
        }
        let added: Vec<i64> = (1..=count.rank as i64).collect();
        let numbers = self.emit.unsqueeze(&numbers, &added);
        Ok(Stepped::new(numbers, count.rank))
    }

    /// A value's name, once it has as many axes after the steps; nothing changes for one that is
    /// the same in every step.
    pub(super) fn aligned(&self, value: &Value, rank: usize) -> String {
        match value {
            Value::Stepped(stepped) if stepped.rank < rank => {
                let added: Vec<i64> = (1..=(rank - stepped.rank) as i64).collect();
                self.emit.unsqueeze(&stepped.name, &added)
            }
            _ => value.name().to_owned(),
        }
    }

    /// The integers of an input of a node, if they are constant.
    pub(super) fn constant(&self, node: &NodeProto, input: usize) -> Option<Vec<i64>> {
        constant::ints(self.body.inner, node.input(input)?)
    }

    /// Whether it runs at least once.
    pub(super) fn has_steps(&self) -> bool {
        matches!(self.body.steps, Size::Known(1..))
    }
}
