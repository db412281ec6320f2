//! What a loop counts and reads.

use std::collections::HashMap;

use crate::constant;
use crate::model::{Attribute, GraphProto, NodeProto};
use crate::scope::Scope;
use crate::sizes::{self, Size};

/// How far values are followed.
const MAXIMUM_STEPS: usize = 64;

/// A body's own graph in which states that no step changes are read from where
/// they come from.
pub(super) fn with_captures(
    scope: &Scope<'_>,
    node: &NodeProto,
    body: &GraphProto,
) -> Result<GraphProto, String> {
    let states = node.input.len().saturating_sub(2);
    if node.input.len() < 2 || body.input.len() != states + 2 || body.output.len() < states + 1 {
        return Err("its body has other inputs and outputs than the loop".to_owned());
    }
    let inner = Scope::graph(body, Some(scope), scope.opset);
    let mut unchanged = HashMap::new();
    for state in 0..states {
        let input = inner.inputs[state + 2];
        let initial = &node.input[state + 2];
        if through_identity(&inner, inner.outputs[state + 1]) == input && !inner.defines(initial) {
            unchanged.insert(input.to_owned(), initial.clone());
        }
    }
    let mut body = body.clone();
    for node in &mut body.node {
        for input in &mut node.input {
            if let Some(outer) = unchanged.get(input) {
                input.clone_from(outer);
            }
        }
    }
    Ok(body)
}

/// A value without the operators that hand it on.
pub(super) fn through_identity<'a>(scope: &'a Scope<'a>, name: &'a str) -> &'a str {
    let mut name = name;
    while let Some(node) = scope.first_output_of(name, "Identity")
        && let Some(input) = node.input(0)
    {
        name = input;
    }
    name
}

/// A loop that runs once for each step of a time axis.
pub(super) struct Body<'a> {
    pub(super) outer: &'a Scope<'a>,
    pub(super) node: &'a NodeProto,
    pub(super) inner: &'a Scope<'a>,
    /// How often it runs.
    pub(super) steps: Size<'a>,
    /// States that are neither counters nor the same in each step.
    pub(super) states: Vec<usize>,
    /// States that are what they were.
    pub(super) unchanged: Vec<usize>,
}

impl<'a> Body<'a> {
    /// Proves that a loop is one.
    pub(super) fn of(
        outer: &'a Scope<'a>,
        node: &'a NodeProto,
        inner: &'a Scope<'a>,
    ) -> Result<Self, String> {
        let mut body = Self {
            outer,
            node,
            inner,
            steps: Size::Known(0),
            states: Vec::new(),
            unchanged: Vec::new(),
        };
        for state in 0..node.input.len() - 2 {
            let updated = through_identity(inner, body.updated(state));
            if updated == body.carried(state) {
                body.unchanged.push(state);
            } else if body.counter(body.carried(state), MAXIMUM_STEPS).is_some() {
                if outer.uses(body.last(state)) > 0 {
                    return Err("what it counts is read after it".to_owned());
                }
            } else {
                body.states.push(state);
            }
        }
        body.steps = body.count_steps()?;
        Ok(body)
    }

    /// A state as a step finds it.
    pub(super) fn carried(&self, state: usize) -> &'a str {
        self.inner.inputs[state + 2]
    }

    /// A state as a step leaves it.
    pub(super) fn updated(&self, state: usize) -> &'a str {
        self.inner.outputs[state + 1]
    }

    /// A state before the first step.
    pub(super) fn initial(&self, state: usize) -> &'a str {
        &self.node.input[state + 2]
    }

    /// A state after the last step, as the loop gives it; an empty name if it does not.
    pub(super) fn last(&self, state: usize) -> &'a str {
        self.node.output.get(state).map_or("", String::as_str)
    }

    /// The values that each step adds to the loop's outputs, with those outputs.
    pub(super) fn scans(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let states = self.node.input.len() - 2;
        let values = self.inner.outputs[states + 1..].iter().copied();
        std::iter::zip(
            values,
            self.node.output.iter().skip(states).map(String::as_str),
        )
    }

    /// What a value is more than the number of the step, if it counts steps.
    fn counter(&self, name: &str, steps: usize) -> Option<i64> {
        let steps = steps.checked_sub(1)?;
        if name == self.inner.inputs[0] {
            return Some(0);
        }
        if let Some(place) = self.inner.inputs.iter().position(|&input| input == name) {
            let state = place.checked_sub(2)?;
            let updated = through_identity(self.inner, self.updated(state));
            let (first, second) = operands(self.inner, updated, "Add")?;
            let one = |name| constant::int(self.inner, name) == Some(1);
            let is_next = (through_identity(self.inner, first) == name && one(second))
                || (through_identity(self.inner, second) == name && one(first));
            return is_next
                .then(|| constant::int(self.outer, self.initial(state)))
                .flatten();
        }
        let (scope, node, _) = self.inner.producer(name)?;
        if !std::ptr::eq(scope, self.inner) || !node.domain().is_empty() {
            return None;
        }
        match node.op() {
            "Identity" => self.counter(node.input(0)?, steps),
            "Cast" if is_number(node) => self.counter(node.input(0)?, steps),
            "Add" => {
                let (first, second) = (node.input(0)?, node.input(1)?);
                match constant::int(self.inner, second) {
                    Some(more) => self.counter(first, steps)?.checked_add(more),
                    None => {
                        let more = constant::int(self.inner, first)?;
                        self.counter(second, steps)?.checked_add(more)
                    }
                }
            }
            _ => None,
        }
    }

    /// A size that comes from outside.
    fn size(&self, name: &str) -> Option<Size<'a>> {
        let mut scope = self.inner;
        let mut name = name;
        // Floats hold every size below 16777216 exactly.
        while let Some((inner, node, 0)) = scope.producer(name)
            && (node.is("Cast") && is_number(node) || node.is("Identity"))
        {
            scope = inner;
            name = node.input(0)?;
        }
        if !std::ptr::eq(scope, self.outer) && scope.defines(name) {
            return None;
        }
        sizes::scalar(self.outer, name)
    }

    /// How often the loop runs: what its count says, or its condition.
    fn count_steps(&self) -> Result<Size<'a>, String> {
        let unknown = || "it does not provably run once for each step of its input".to_owned();
        let limit = match self.node.input(0) {
            Some(name) => Some(self.size(name).ok_or_else(unknown)?),
            None => None,
        };
        let mut limits = Vec::new();
        self.go_on(self.inner.outputs[0], &mut limits, MAXIMUM_STEPS)
            .ok_or("its condition is not one that compares the step with a size")?;
        let steps = match limit {
            Some(limit) => limit,
            None => limits
                .iter()
                .find(|(_, ahead)| *ahead == 1)
                .map(|&(size, _)| size)
                .ok_or_else(unknown)?,
        };
        // A step is followed by another while its number, and as much ahead,
        // is below the size.
        let early = limits
            .iter()
            .any(|&(size, ahead)| size != steps || ahead > 1);
        if early {
            return Err("its condition may end it before the last step".to_owned());
        }
        let starts = self
            .node
            .input(1)
            .is_none_or(|name| self.starts(name, steps, MAXIMUM_STEPS));
        if !starts {
            return Err("its condition may keep it from starting".to_owned());
        }
        Ok(steps)
    }

    /// What a condition compares the number of the step with, and how much is
    /// added to the number before: it is true while all are below.
    fn go_on(&self, name: &str, limits: &mut Vec<(Size<'a>, i64)>, steps: usize) -> Option<()> {
        let steps = steps.checked_sub(1)?;
        let name = through_identity(self.inner, name);
        if is_true(self.inner, name) {
            return Some(());
        }
        // The condition that was true when the step began.
        if name == self.inner.inputs[1] {
            return Some(());
        }
        if let Some((first, second)) = operands(self.inner, name, "And") {
            self.go_on(first, limits, steps / 2)?;
            return self.go_on(second, limits, steps / 2);
        }
        let (step, size) = less(self.inner, name)?;
        limits.push((self.size(size)?, self.counter(step, MAXIMUM_STEPS)?));
        Some(())
    }

    /// Whether a condition is true where there is a step at all.
    fn starts(&self, name: &str, all: Size<'_>, steps: usize) -> bool {
        let Some(steps) = steps.checked_sub(1) else {
            return false;
        };
        let name = through_identity_of(self.outer, name).unwrap_or(name);
        if is_true(self.outer, name) {
            return true;
        }
        if let Some((first, second)) = operands(self.outer, name, "And") {
            return self.starts(first, all, steps / 2) && self.starts(second, all, steps / 2);
        }
        less(self.outer, name).is_some_and(|(first, size)| {
            let zero =
                constant::int(self.outer, first) == Some(0) || constant::is_zero(self.outer, first);
            zero && self.size(size) == Some(all)
        })
    }

    /// The sequence whose step a value is: read from outside at the step's number.
    pub(super) fn sequence(&self, name: &str) -> Option<&'a str> {
        let node = self
            .inner
            .first_output_of(through_identity_of(self.inner, name)?, "Gather")?;
        let sequence = node.input(0)?;
        let reads = node.int("axis").or(0) == Some(0)
            && !self.inner.defines(sequence)
            && self.counter(node.input(1)?, MAXIMUM_STEPS) == Some(0);
        reads.then_some(sequence)
    }
}

/// As `through_identity`, for a name of any lifetime.
fn through_identity_of<'a>(scope: &'a Scope<'a>, name: &str) -> Option<&'a str> {
    let (inner, node, output) = scope.producer(name)?;
    let own = node.output.get(output)?;
    std::ptr::eq(inner, scope).then(|| through_identity(scope, own))
}

/// The two inputs of an operator.
pub(super) fn operands<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    op: &str,
) -> Option<(&'a str, &'a str)> {
    let node = scope.first_output_of(name, op)?;
    Some((node.input(0)?, node.input(1)?))
}

/// The smaller and the larger value of a comparison.
fn less<'a>(scope: &'a Scope<'a>, name: &str) -> Option<(&'a str, &'a str)> {
    operands(scope, name, "Less").or_else(|| {
        let (larger, smaller) = operands(scope, name, "Greater")?;
        Some((smaller, larger))
    })
}

/// Whether a Cast keeps a number of steps as it is.
fn is_number(node: &NodeProto) -> bool {
    matches!(node.int("to"), Attribute::Value(1 | 6 | 7 | 11))
}

fn is_true(scope: &Scope<'_>, name: &str) -> bool {
    constant::tensor(scope, name).is_some_and(|tensor| {
        tensor.data_type == Some(crate::model::BOOL)
            && (tensor.raw_data.as_deref() == Some(&[1]) || tensor.int32_data == [1])
    })
}
