//! Nodes become primitives.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use revseq_onnx::proto::NodeProto;

use super::value::{Value, count};
use super::{Buffer, Data, Needs, Plan, Primitive, Source};
use crate::body::{Body, Origin};
use crate::elements::{Elements, Kind};
use crate::error::{Error, values};
use crate::known::{Line, Scalar};
use crate::operators::{self, Call};
use crate::view::{Base, View};

/// Inputs with at most so many integers are known while a program is made, which is for these.
pub(super) const KNOWN_INPUT: usize = 8;

/// What is known of an input.
#[derive(Clone, Copy)]
pub(crate) struct RunInput<'a> {
    pub(crate) kind: Kind,
    pub(crate) sizes: &'a [usize],
    /// Its elements, if they can be looked at.
    pub(crate) elements: Option<Elements<'a>>,
}

impl RunInput<'_> {
    fn integers(&self) -> Option<Vec<i64>> {
        self.elements?.integers()
    }
}

/// What is known of a run that a program is made for.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The inputs of the loop, by their index in the body's list.
    pub(crate) inputs: &'a [RunInput<'a>],
    /// The number of the first step.
    pub(crate) first: usize,
    /// The states before it, if it is not the first of all.
    pub(crate) states: Option<&'a [Vec<usize>]>,
}

/// How a loop ends.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// The most steps.
    pub(super) most: Option<usize>,
    /// Whether a condition was followed to say that.
    pub(super) is_found: bool,
    /// Whether a step decides.
    pub(super) is_decided: bool,
    /// Whether the program is of one step, since the sizes of values change.
    pub(super) is_single: bool,
}

/// What became of a supposed end.
pub(super) enum Outcome {
    Made(Plan),
    Other(End),
}

/// Makes the primitives of a body.
pub(crate) struct Planner<'a> {
    pub(crate) body: &'a Body,
    pub(super) run: Run<'a>,
    /// The inputs whose elements the program depends on.
    pub(super) keyed: HashSet<usize>,
    pub(super) end: End,
    /// The number of steps that the program runs, unless a step decides.
    pub(super) steps: Option<usize>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) primitives: Vec<Primitive>,
    pub(super) names: HashMap<Cow<'a, str>, Value>,
    pub(super) outer: HashMap<&'a str, Value>,
}

impl<'a> Planner<'a> {
    /// Plans a run, and says of which inputs the elements matter.
    pub(crate) fn plan(body: &'a Body, run: Run<'a>) -> Result<(Plan, HashSet<usize>), Error> {
        let mut end = End {
            most: Self::most_steps(body, &run)?,
            is_found: false,
            is_decided: false,
            is_single: false,
        };
        loop {
            let mut planner = Self {
                body,
                run,
                keyed: [body.most, body.starts]
                    .into_iter()
                    .filter_map(|origin| match origin? {
                        Origin::Input(index) => Some(index),
                        Origin::Constant(_) => None,
                    })
                    .collect(),
                end,
                steps: match end {
                    End {
                        is_single: true, ..
                    } => Some(end.most.unwrap_or(1).min(1)),
                    End {
                        is_decided: true, ..
                    } => None,
                    End { most, .. } => most,
                },
                buffers: vec![],
                primitives: vec![],
                names: HashMap::new(),
                outer: HashMap::new(),
            };
            match planner.whole()? {
                Outcome::Made(plan) => return Ok((plan, planner.keyed)),
                Outcome::Other(other) => end = other,
            }
        }
    }

    /// The number of steps that the loop's inputs allow; `None` if a step decides.
    fn most_steps(body: &Body, run: &Run<'_>) -> Result<Option<usize>, Error> {
        let first_of = |origin: &Origin| {
            let first = match *origin {
                Origin::Constant(index) => match &body.constants[index].data {
                    Data::Ints(all) => all.first().copied(),
                    Data::Floats(_) => None,
                },
                Origin::Input(index) => run.inputs[index]
                    .integers()
                    .and_then(|all| all.first().copied()),
            };
            first.ok_or_else(|| Error::Values("the number of steps depends on a step".into()))
        };
        let mut most = None;
        if let Some(slice) = body.slices.first() {
            let sizes = match slice.whole {
                Origin::Constant(index) => &*body.constants[index].sizes,
                Origin::Input(index) => run.inputs[index].sizes,
            };
            most = Some(sizes.get(slice.axis(sizes.len())?).copied().unwrap_or(0));
        }
        if let Some(origin) = &body.most {
            most = usize::try_from(first_of(origin)?.max(0)).ok();
        }
        if let Some(origin) = &body.starts
            && first_of(origin)? == 0
        {
            most = Some(0);
        }
        // What no one counts to is no number of steps.
        let most = most.filter(|&most| (most as u64) < 1 << 48);
        Ok(most.map(|most| most.saturating_sub(run.first)))
    }

    /// Makes the program, or finds that the loop ends otherwise than was supposed.
    fn whole(&mut self) -> Result<Outcome, Error> {
        let body = self.body;
        self.bind_outer()?;
        let lines = self.bind_states()?;
        self.bind_slices()?;
        if let Some(name) = &body.number {
            let line = self.seen(Line {
                base: self.run.first as i64,
                slope: 1,
            });
            let number = Value::known(Kind::Int64, &[], vec![line.into()]);
            self.names.insert(name.as_str().into(), number);
        }
        if let Some(name) = &body.condition_in {
            let truth = Value::known(Kind::Bool, &[], vec![true.into()]);
            self.names.insert(name.as_str().into(), truth);
        }
        // What fails for want of the end, or with the number of the step, is tried otherwise.
        let mut failure = None;
        for index in &body.order {
            let made = self.node(&body.graph.node[*index]);
            failure = failure.or(made.err());
        }
        let mut condition = None;
        if let Some(name) = &body.condition_out
            && (failure.is_none() || self.value(name).is_ok())
        {
            let value = self.value(name)?;
            let count = value.view.len();
            if count != 1 {
                return values(format!("the condition has {count} elements, not 1"));
            }
            match value.scalars() {
                Some(scalars) => {
                    let end = self.known_end(scalars[0]);
                    let end = end.filter(|&end| self.end.most.is_none_or(|most| end < most));
                    if let (Some(end), false) = (end, self.end.is_found) {
                        return Ok(Outcome::Other(End {
                            most: Some(end),
                            is_found: true,
                            ..self.end
                        }));
                    }
                }
                None if !self.end.is_decided => {
                    return Ok(Outcome::Other(End {
                        is_decided: true,
                        ..self.end
                    }));
                }
                None => condition = Some(self.materialised(&value)?),
            }
        }
        if let Some(failure) = failure {
            if self.end.is_single || body.number.is_none() {
                return Err(failure);
            }
            return Ok(Outcome::Other(End {
                is_single: true,
                ..self.end
            }));
        }
        if self.end.most.is_none() && condition.is_none() && !self.end.is_single {
            return values("the loop has no end");
        }
        self.finish(lines, condition)
    }

    /// A number as the program sees it: that of its only step, if it has no other.
    fn seen(&self, line: Line) -> Line {
        match self.end.is_single {
            true => Line { slope: 0, ..line },
            false => line,
        }
    }

    /// The number of steps after which a condition that follows the number is false; `None` if it stays true.
    fn known_end(&self, scalar: Scalar) -> Option<usize> {
        let holds = |step: i64| scalar.at(step) != 0;
        if scalar.constant().is_some() {
            return (!holds(0)).then_some(1);
        }
        // It changes at most twice, where the line crosses 0.
        if !holds(0) {
            return Some(1);
        }
        let Line { base, slope } = scalar.line;
        let crossing = -(i128::from(base)) / i128::from(slope);
        let near = (crossing - 2)..=(crossing + 2);
        let mut near = near.filter_map(|step| i64::try_from(step).ok().filter(|&step| step >= 0));
        let end = near.find(|&step| !holds(step))?;
        usize::try_from(end).ok().map(|end| end + 1)
    }

    fn bind_outer(&mut self) -> Result<(), Error> {
        let body = self.body;
        for outer in &body.outer {
            let value = match outer.origin {
                Origin::Constant(index) => self.constant(index),
                Origin::Input(index) => self.input(index, outer.kind)?,
            };
            self.outer.insert(&outer.name, value);
        }
        Ok(())
    }

    fn constant(&mut self, index: usize) -> Value {
        self.literal(&self.body.constants[index], Some(index))
    }

    fn input(&mut self, index: usize, kind: Kind) -> Result<Value, Error> {
        let input = self.run.inputs[index];
        if kind != Kind::Float
            && count(input.sizes)? <= KNOWN_INPUT
            && let Some(all) = input.integers()
        {
            self.keyed.insert(index);
            let scalars = all.into_iter().map(Scalar::from).collect();
            return Ok(Value::known(kind, input.sizes, scalars));
        }
        self.outer_input(index)
    }

    /// Binds the states; returns the lines of those that count.
    fn bind_states(&mut self) -> Result<Vec<Option<Line>>, Error> {
        let body = self.body;
        let mut lines = vec![];
        for (index, state) in body.states.iter().enumerate() {
            if !state.is_live {
                lines.push(None);
                continue;
            }
            let initial = self.outer[&*state.initial].clone();
            let line = self.counter(index, &initial);
            lines.push(line);
            let value = if let Some(line) = line {
                Value::known(state.kind, &initial.sizes(), vec![self.seen(line).into()])
            } else {
                let sizes = match self.run.states {
                    Some(sizes) => sizes[index].clone(),
                    None => initial.sizes(),
                };
                let len = count(&sizes)?;
                let buffer = self.buffer(Buffer {
                    lane: state.kind.lane(),
                    len,
                    source: Source::Program,
                    needs: Needs::States,
                });
                Value::new(state.kind, View::whole(Base::Buffer(buffer), &sizes))
            };
            self.names.insert(state.input.as_str().into(), value);
        }
        Ok(lines)
    }

    /// The line that a state follows, if each step adds the same number to it.
    fn counter(&mut self, index: usize, initial: &Value) -> Option<Line> {
        let state = &self.body.states[index];
        if !state.kind.is_int() || initial.view.len() != 1 {
            return None;
        }
        let other = state.adds.as_ref()?;
        let added = match self.body.constant_of(other) {
            Some(index) => self.constant(index),
            None => self.outer.get(other.as_str())?.clone(),
        };
        let added = self.integers(&added)?;
        let [slope] = *added else { return None };
        let [base] = *self.integers(initial)? else {
            return None;
        };
        let base = base.checked_add(slope.checked_mul(self.run.first as i64)?)?;
        Some(Line { base, slope })
    }

    fn bind_slices(&mut self) -> Result<(), Error> {
        let body = self.body;
        for slice in &body.slices {
            let whole = match slice.whole {
                Origin::Constant(index) => self.constant(index),
                Origin::Input(index) => self.outer_input(index)?,
            };
            let axis = slice.axis(whole.rank())?;
            let size = whole.sizes()[axis];
            if self
                .end
                .most
                .is_some_and(|most| most + self.run.first != size)
            {
                return values(format!("scan inputs of {size} and other steps"));
            }
            let first = self.run.first as i64;
            let (start, slope) = match slice.is_reversed {
                false => (first, 1),
                true => (size as i64 - 1 - first, -1),
            };
            let buffer = self.materialised(&whole)?;
            let view = buffer.at(axis, start, slope);
            let value = Value::new(whole.kind, view);
            self.names.insert(slice.name.as_str().into(), value);
        }
        Ok(())
    }

    /// An input as a value, whose elements the program does not depend on.
    fn outer_input(&mut self, index: usize) -> Result<Value, Error> {
        let RunInput { kind, sizes, .. } = self.run.inputs[index];
        let buffer = self.buffer(Buffer {
            lane: kind.lane(),
            len: count(sizes)?,
            source: Source::Input(index),
            needs: Needs::Nothing,
        });
        let view = View::whole(Base::Buffer(buffer), sizes);
        Ok(Value::new(kind, view))
    }

    /// The value with a name.
    pub(crate) fn value(&mut self, name: &str) -> Result<Value, Error> {
        if let Some(value) = self.names.get(name) {
            return Ok(value.clone());
        }
        if let Some(index) = self.body.constant_of(name) {
            return Ok(self.constant(index));
        }
        match self.outer.get(name) {
            Some(value) => Ok(value.clone()),
            None => values(format!("{name:?} has no value")),
        }
    }

    fn node(&mut self, node: &'a NodeProto) -> Result<(), Error> {
        let named = |error: Error| match error {
            Error::Values(text) if !text.starts_with("node ") => {
                let label = if node.name().is_empty() {
                    node.op()
                } else {
                    node.name()
                };
                Error::Values(format!("node {label:?}: {text}"))
            }
            other => other,
        };
        if node.is("Constant") {
            return Ok(());
        }
        if node.is("If") {
            return self.branch(node).map_err(named);
        }
        if node.is("Loop") || node.is("Scan") {
            return self.inner_loop(node).map_err(named);
        }
        let inputs = node.input.iter().map(|name| match &**name {
            "" => Ok(None),
            name => self.value(name).map(Some),
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let call = Call {
            node,
            inputs,
            opset: self.body.opset,
        };
        let made = operators::plan(self, &call).map_err(named)?;
        self.name(node, made);
        Ok(())
    }

    /// Plans an If: the branch that runs in all steps, or both.
    fn branch(&mut self, node: &'a NodeProto) -> Result<(), Error> {
        let condition = self.value(node.input(0).unwrap_or_default())?;
        let Some([truth]) = self.integers(&condition).as_deref().map(|it| [it[0]]) else {
            return self.both_branches(node, &condition);
        };
        let name = if truth == 0 {
            "else_branch"
        } else {
            "then_branch"
        };
        let made = self.graph(node, name)?;
        self.name(node, made);
        Ok(())
    }

    /// Plans a graph of a node as a part of the body, and returns its outputs.
    pub(super) fn graph(&mut self, node: &'a NodeProto, name: &str) -> Result<Vec<Value>, Error> {
        let Some(graph) = node.graph(name) else {
            return values(format!("it has no {name}"));
        };
        for inner in &graph.node {
            self.node(inner)?;
        }
        graph.outputs().map(|from| self.value(from)).collect()
    }

    /// Names the outputs of a node.
    pub(super) fn name(&mut self, node: &'a NodeProto, made: Vec<Value>) {
        for (name, value) in std::iter::zip(&node.output, made) {
            if !name.is_empty() {
                self.names.insert(name.as_str().into(), value);
            }
        }
    }

    /// Integers or truth values that are the same in all steps, if they are known or can be read.
    pub(crate) fn integers(&mut self, value: &Value) -> Option<Vec<i64>> {
        if let Some(all) = value.scalars() {
            return all.into_iter().map(Scalar::constant).collect();
        }
        let buffer = value.view.buffer()?;
        if value.view.step != 0 {
            return None;
        }
        let all = match &self.buffers[buffer].source {
            Source::Input(index) => {
                let all = self.run.inputs[*index].integers()?;
                self.keyed.insert(*index);
                all
            }
            Source::Data(Data::Ints(all), _) => all.to_vec(),
            _ => return None,
        };
        Some(value.view.places().map(|place| all[place]).collect())
    }

    /// Integers that are known without a look at inputs.
    pub(crate) fn known_integers(&self, value: &Value) -> Option<Vec<i64>> {
        value.scalars()?.into_iter().map(Scalar::constant).collect()
    }

    /// The most steps that the program runs, if that is known.
    pub(crate) fn steps(&self) -> Option<usize> {
        self.steps.or(self.end.most)
    }
}
