//! The states, counters and sequences of a Loop or a Scan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::constant::{self, Floats};
use crate::model::{Attribute, FLOAT, GraphProto, LoopLayout, NodeProto, declared_sizes};
use crate::scope::Scope;
use crate::sizes::{self, Size};
use crate::types;

/// Number of values that are followed at most.
pub(crate) const MAXIMUM_STEPS: usize = 64;

/// The layout of a loop, if its body has inputs and outputs to match.
fn layout_of(node: &NodeProto, body: &Scope<'_>) -> Result<LoopLayout, String> {
    let fits = |it: &LoopLayout| {
        body.inputs.len() == it.leading_inputs + it.states + it.slices
            && body.outputs.len() >= it.leading_outputs + it.states
    };
    let layout = LoopLayout::of(node).filter(fits);
    let why = "its body has other inputs and outputs than the operator says";
    layout.ok_or_else(|| why.to_owned())
}

/// The states of a body that no step changes, with their values in the outer graph, which the body sees.
pub(crate) fn unchanged(
    scope: &Scope<'_>,
    node: &NodeProto,
    body: &GraphProto,
) -> Result<Vec<(String, String)>, String> {
    let inner = Scope::graph(body, Some(scope), scope.opset);
    let layout = layout_of(node, &inner)?;
    let mut unchanged = Vec::new();
    for state in 0..layout.states {
        let input = inner.inputs[state + layout.leading_inputs];
        let initial = &node.input[state + layout.leading_inputs];
        let updated = inner.outputs[state + layout.leading_outputs];
        if through_identity(&inner, updated) == input && !inner.defines(initial) {
            unchanged.push((input.to_owned(), initial.clone()));
        }
    }
    Ok(unchanged)
}

/// The body, with unchanged states read directly from the outer graph.
pub(crate) fn with_captures(
    scope: &Scope<'_>,
    node: &NodeProto,
    body: &GraphProto,
) -> Result<GraphProto, String> {
    let unchanged: HashMap<String, String> = unchanged(scope, node, body)?.into_iter().collect();
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

/// Follows a value through Identity nodes.
pub(crate) fn through_identity<'a>(scope: &'a Scope<'a>, name: &'a str) -> &'a str {
    let mut name = name;
    while let Some(node) = scope.first_output_of(name, "Identity")
        && let Some(input) = node.input(0)
    {
        name = input;
    }
    name
}

/// A loop-carried state.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    /// Name before a step, in the body.
    pub(crate) carried: &'a str,
    /// Name after a step, in the body.
    pub(crate) updated: &'a str,
    /// Name before the loop, in the outer graph.
    pub(crate) initial: &'a str,
    /// Name after the loop, in the outer graph; empty if the loop does not output it.
    pub(crate) last: &'a str,
}

/// A value of the outer graph that the body reads one step at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sequence<'a> {
    pub(crate) value: &'a str,
    /// The time axis.
    pub(crate) axis: usize,
    /// Whether the last step is read first.
    pub(crate) backwards: bool,
}

/// A scan output.
#[derive(Clone, Copy)]
pub(crate) struct ScanOutput<'a> {
    pub(crate) value: &'a str,
    pub(crate) result: &'a str,
    /// The time axis of the result.
    pub(crate) axis: i64,
    /// Whether each step is prepended.
    pub(crate) backwards: bool,
}

/// A counter of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Count {
    /// Its lead over the iteration number.
    pub(crate) ahead: i64,
    pub(crate) rank: usize,
}

/// Facts about the values of a graph, found once.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    /// Float32 constants.
    floats: Rc<RefCell<HashMap<String, Option<Rc<Floats>>>>>,
    /// Numbers of columns.
    widths: Rc<RefCell<HashMap<String, Option<usize>>>>,
}

/// A loop that runs once for each step of a time axis.
pub(crate) struct Body<'a> {
    pub(crate) outer: &'a Scope<'a>,
    pub(crate) inner: &'a Scope<'a>,
    /// The trip count, once [`trips`](super::trips) has proved it.
    pub(crate) steps: Size<'a>,
    /// States that are neither counters nor unchanged.
    pub(crate) states: Vec<State<'a>>,
    /// States that no step changes.
    pub(crate) unchanged: Vec<State<'a>>,
    pub(crate) scanned: Vec<ScanOutput<'a>>,
    pub(crate) counters: Vec<State<'a>>,
    pub(crate) slices: Vec<(&'a str, Sequence<'a>)>,
    /// A Loop's iteration number.
    pub(crate) iteration: Option<&'a str>,
    facts: Facts,
}

impl<'a> Body<'a> {
    /// Reads a Loop or a Scan.
    pub(crate) fn of(
        outer: &'a Scope<'a>,
        node: &'a NodeProto,
        inner: &'a Scope<'a>,
    ) -> Result<Self, String> {
        let layout = layout_of(node, inner)?;
        let states = (0..layout.states).map(|state| State {
            carried: inner.inputs[state + layout.leading_inputs],
            updated: inner.outputs[state + layout.leading_outputs],
            initial: &node.input[state + layout.leading_inputs],
            last: node.output.get(state).map_or("", String::as_str),
        });
        let mut this = Self {
            iteration: (layout.leading_inputs > 0).then(|| inner.inputs[0]),
            ..Self::with(outer, inner, states.collect(), Facts::default())
        };
        this.sort_states()?;
        for counter in this
            .iteration
            .into_iter()
            .chain(this.counters.iter().map(|it| it.carried))
        {
            if let Some(count) = this.counter(counter) {
                inner.assume_rank(counter, count.rank);
            }
        }
        let values = &inner.outputs[layout.leading_outputs + layout.states..];
        let results = node.output.iter().skip(layout.states);
        for (number, (&value, result)) in std::iter::zip(values, results).enumerate() {
            this.scanned.push(ScanOutput {
                value,
                result,
                axis: listed(node, "scan_output_axes", number)?,
                backwards: is_backwards(node, "scan_output_directions", number)?,
            });
        }
        for slice in 0..layout.slices {
            let axis = listed(node, "scan_input_axes", slice)?;
            let axis = usize::try_from(axis)
                .map_err(|_| "an axis that it scans counts from the end".to_owned())?;
            let sequence = Sequence {
                value: &node.input[layout.states + slice],
                axis,
                backwards: is_backwards(node, "scan_input_directions", slice)?,
            };
            this.slices
                .push((inner.inputs[layout.states + slice], sequence));
        }
        Ok(this)
    }

    /// A step that was written out in a graph: the values that it gets from the step before, and the
    /// one that it reads of a sequence.
    pub(crate) fn of_step(
        scope: &'a Scope<'a>,
        facts: &Facts,
        carried: &[&'a str],
        step: (&'a str, Sequence<'a>),
    ) -> Self {
        let states = carried.iter().map(|&carried| State {
            carried,
            updated: "",
            initial: carried,
            last: "",
        });
        Self {
            slices: vec![step],
            ..Self::with(scope, scope, states.collect(), facts.clone())
        }
    }

    /// A body of which only the states are known.
    fn with(
        outer: &'a Scope<'a>,
        inner: &'a Scope<'a>,
        states: Vec<State<'a>>,
        facts: Facts,
    ) -> Self {
        Self {
            outer,
            inner,
            steps: Size::Known(0),
            states,
            unchanged: Vec::new(),
            scanned: Vec::new(),
            counters: Vec::new(),
            slices: Vec::new(),
            iteration: None,
            facts,
        }
    }

    /// Sorts states into counters, unchanged ones and the rest.
    fn sort_states(&mut self) -> Result<(), String> {
        let all = std::mem::take(&mut self.states);
        let mut counters = Vec::new();
        for &state in &all {
            // A body with captures hands on the outer value itself.
            let updated = through_identity(self.inner, state.updated);
            let is_outer = updated == state.initial && !self.inner.defines(updated);
            if updated == state.carried || is_outer {
                self.unchanged.push(state);
            } else if self.is_counter(state) {
                counters.push(state);
            } else {
                self.states.push(state);
            }
        }
        if let Some(read) = counters.iter().find(|it| self.outer.uses(it.last) > 0) {
            return Err(format!(
                "its step counter is read after it, as output {}",
                read.last
            ));
        }
        self.counters = counters;
        Ok(())
    }

    /// Whether a state starts at a known number and grows by 1 per step.
    fn is_counter(&self, state: State<'a>) -> bool {
        let updated = through_identity(self.inner, state.updated);
        let Some((first, second)) = operands(self.inner, updated, "Add") else {
            return false;
        };
        let is_carried = |name| through_identity(self.inner, name) == state.carried;
        let one = match (is_carried(first), is_carried(second)) {
            (true, false) => second,
            (false, true) => first,
            _ => return false,
        };
        // Ranks are asked for last: until the counters' are known, those that follow are not.
        let is_number = constant::int(self.inner, one) == Some(1)
            && constant::int(self.outer, state.initial).is_some();
        // A 1 of higher rank would raise the counter's.
        let ranks = || sizes::rank(self.outer, state.initial).zip(sizes::rank(self.inner, one));
        is_number && ranks().is_some_and(|(counter, one)| one <= counter)
    }

    /// A value as a counter of steps, if it is one.
    pub(crate) fn counter(&self, name: &str) -> Option<Count> {
        self.counter_within(name, MAXIMUM_STEPS)
    }

    fn counter_within(&self, name: &str, steps: usize) -> Option<Count> {
        let steps = steps.checked_sub(1)?;
        if Some(name) == self.iteration {
            // Runtimes give it the rank that the body declares.
            let declared = self.inner.declaration(name).and_then(declared_sizes);
            return Some(Count {
                ahead: 0,
                rank: declared.map_or(0, |sizes| sizes.len()),
            });
        }
        if let Some(state) = self.counters.iter().find(|it| it.carried == name) {
            return Some(Count {
                ahead: constant::int(self.outer, state.initial)?,
                rank: sizes::rank(self.outer, state.initial)?,
            });
        }
        let (_, node) = self.inner.maker(name)?;
        if !node.domain().is_empty() {
            return None;
        }
        let count = |input| self.counter_within(node.input(input)?, steps);
        match node.op() {
            "Identity" => count(0),
            "Cast" if is_number(node) => count(0),
            "Gather" => {
                let count = count(1).filter(|count| count.ahead >= 0)?;
                let (numbers, axis) = (node.input(0)?, node.int("axis").or(0)?);
                let first = self.first_of_steps(numbers, axis)?;
                let rank = sizes::rank(self.outer, numbers)?;
                Some(Count {
                    ahead: count.ahead.checked_add(first)?,
                    rank: count.rank + rank - 1,
                })
            }
            "Squeeze" => {
                let count = count(0)?;
                let removed = constant::axes(self.inner, node)?;
                let all = match removed.len() {
                    0 => count.rank,
                    some => some,
                };
                let rank = count.rank.checked_sub(all)?;
                Some(Count { rank, ..count })
            }
            // Of one element there is one shape of each rank.
            "Reshape" => {
                let count = count(0)?;
                let sizes = constant::ints(self.inner, node.input(1)?)?;
                let are_one = sizes.iter().all(|size| matches!(size, 1 | -1));
                are_one.then_some(Count {
                    rank: sizes.len(),
                    ..count
                })
            }
            "Unsqueeze" => {
                let count = count(0)?;
                let added = constant::axes(self.inner, node)?;
                let rank = count.rank + added.len();
                Some(Count { rank, ..count })
            }
            "Add" => {
                let second = constant::int(self.inner, node.input(1)?);
                let (counter, more) = if second.is_some() { (0, 1) } else { (1, 0) };
                let (count, more) = (count(counter)?, node.input(more)?);
                Some(Count {
                    ahead: count.ahead.checked_add(constant::int(self.inner, more)?)?,
                    rank: count.rank.max(sizes::rank(self.inner, more)?),
                })
            }
            _ => None,
        }
    }

    /// The first element of a value of the outer graph that has a number for each position along an
    /// axis, each 1 more than the one before.
    fn first_of_steps(&self, name: &'a str, axis: i64) -> Option<i64> {
        let scope = self.outer;
        let numbers = sizes::progression(scope, name).filter(|_| !self.inner.defines(name))?;
        let rank = sizes::rank(scope, name)?;
        let is_one = |axis| sizes::axis(scope, name, axis) == Some(Size::Known(1));
        let mut others = (0..rank).filter(|&axis| axis != numbers.axis);
        let is_along = constant::normal_axis(axis, rank) == Some(numbers.axis);
        (is_along && others.all(is_one)).then_some(numbers.first)
    }

    /// Follows a value through Identity nodes and Casts from float32 to float32.
    pub(crate) fn plain(&self, name: &'a str) -> &'a str {
        let is_float = |input: &&str| types::of(self.inner, input) == Some(FLOAT);
        let mut name = through_identity(self.inner, name);
        while let Some(cast) = self.inner.first_output_of(name, "Cast")
            && cast.int("to").value() == Some(FLOAT.into())
            && let Some(input) = cast.input(0).filter(is_float)
        {
            name = through_identity(self.inner, input);
        }
        name
    }

    /// Whether it is a single step, in the graph itself.
    pub(crate) fn is_written_out(&self) -> bool {
        self.outer.is(self.inner)
    }

    /// Whether it is a Scan, whose sequences all have the same length.
    pub(crate) fn is_scan(&self) -> bool {
        self.iteration.is_none()
    }

    /// A Scan's first sequence.
    pub(crate) fn first_sequence(&self) -> Option<Sequence<'a>> {
        self.slices.first().map(|&(_, sequence)| sequence)
    }

    /// The state with this value before the step.
    pub(crate) fn state(&self, name: &'a str) -> Option<State<'a>> {
        let name = self.plain(name);
        self.states.iter().find(|it| it.carried == name).copied()
    }

    /// The sequence that a value is a step of.
    pub(crate) fn sequence(&self, name: &'a str) -> Option<Sequence<'a>> {
        let name = self.plain(name);
        if let Some((_, sequence)) = self.slices.iter().find(|(slice, _)| *slice == name) {
            return Some(*sequence);
        }
        // Read at the iteration number, or at a vector of it with its axis squeezed out again.
        let (read, rank) = match self.inner.first_output_of(name, "Squeeze") {
            Some(squeeze) => {
                let axes = constant::axes(self.inner, squeeze)?;
                let read = self.inner.first_output_of(squeeze.input(0)?, "Gather")?;
                (axes == [read.int("axis").or(0)?]).then_some((read, 1))?
            }
            None => (self.inner.first_output_of(name, "Gather")?, 0),
        };
        let value = read.input(0)?;
        let count = self.counter(read.input(1)?)?;
        if self.inner.defines(value) || count != (Count { ahead: 0, rank }) {
            return None;
        }
        Some(Sequence {
            value,
            axis: usize::try_from(read.int("axis").or(0)?).ok()?,
            backwards: false,
        })
    }

    /// A float32 constant, cached.
    pub(crate) fn floats(&self, name: &str) -> Option<Rc<Floats>> {
        if let Some(known) = self.facts.floats.borrow().get(name) {
            return known.clone();
        }
        let read = constant::floats(self.inner, name).map(Rc::new);
        let name = name.to_owned();
        self.facts.floats.borrow_mut().insert(name, read.clone());
        read
    }

    /// The number of columns of a value, cached.
    pub(crate) fn width(&self, name: &str, find: impl FnOnce() -> Option<usize>) -> Option<usize> {
        if let Some(known) = self.facts.widths.borrow().get(name) {
            return *known;
        }
        let width = find();
        self.facts
            .widths
            .borrow_mut()
            .insert(name.to_owned(), width);
        width
    }

    /// The number in a constant of one element that does not raise the rank of other operands.
    pub(crate) fn number(&self, name: &str) -> Option<f32> {
        let constant = self.floats(name)?;
        match *constant.elements {
            [number] if constant.sizes.len() <= 2 => Some(number),
            _ => None,
        }
    }
}

/// An element of an optional list attribute, which defaults to zeros.
pub(super) fn listed(node: &NodeProto, attribute: &str, index: usize) -> Result<i64, String> {
    match node.ints(attribute) {
        Attribute::Absent => Ok(0),
        Attribute::Value(list) => list
            .get(index)
            .copied()
            .ok_or_else(|| format!("its {attribute} are too few")),
        Attribute::Reference => Err(format!(
            "its {attribute} are an attribute that the function's caller sets"
        )),
    }
}

fn is_backwards(node: &NodeProto, attribute: &str, index: usize) -> Result<bool, String> {
    match listed(node, attribute, index)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("its {attribute} are {other}, neither 0 nor 1")),
    }
}

/// The two inputs of an operator.
pub(crate) fn operands<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    op: &str,
) -> Option<(&'a str, &'a str)> {
    let node = scope.first_output_of(name, op)?;
    Some((node.input(0)?, node.input(1)?))
}

/// Whether a Cast preserves the number of a step.
pub(crate) fn is_number(node: &NodeProto) -> bool {
    matches!(node.int("to"), Attribute::Value(1 | 6 | 7 | 11))
}
