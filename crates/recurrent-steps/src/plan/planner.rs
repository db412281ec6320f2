//! Nodes become primitives.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use recurrent_layers::PackedMatrix;
use revseq_onnx::proto::NodeProto;

use super::{
    Buffer, Collected, Data, Needs, Operation, Plan, Primitive, Source, State, Stated, phases,
};
use crate::body::{Body, Constant, Known};
use crate::elements::{Kind, Lane, Tensor};
use crate::error::{Error, values};
use crate::function::{Function, Int1, Reduction};
use crate::kernels::zeros;
use crate::known::{Comparison, Line, Scalar};
use crate::operators::{self, Call};
use crate::view::{Axis, Base, View, contiguous};

/// Inputs with at most so many integers are known while a program is made, which is for these.
const KNOWN_INPUT: usize = 8;

/// The most elements that are known.
pub(crate) const MOST_KNOWN: usize = 1 << 12;

/// A value of the body, with the elements of a type.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) view: View,
}

impl Value {
    pub(crate) fn new(kind: Kind, view: View) -> Self {
        Self { kind, view }
    }

    /// Numbers that are known.
    pub(crate) fn known(kind: Kind, sizes: &[usize], scalars: Vec<Scalar>) -> Self {
        Self::new(kind, View::whole(Base::Known(Arc::from(scalars)), sizes))
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.view.sizes()
    }

    pub(crate) fn rank(&self) -> usize {
        self.view.rank()
    }

    /// The numbers, if they are known.
    pub(crate) fn scalars(&self) -> Option<Vec<Scalar>> {
        match &self.view.base {
            Base::Known(all) => Some(self.view.places().map(|place| all[place]).collect()),
            Base::Buffer(_) => None,
        }
    }

    /// The same elements seen otherwise.
    pub(crate) fn with(&self, view: View) -> Self {
        Self::new(self.kind, view)
    }
}

/// The number of elements.
pub(crate) fn count(sizes: &[usize]) -> Result<usize, Error> {
    if sizes.contains(&0) {
        return Ok(0);
    }
    let mut all = sizes.iter();
    let count = all.try_fold(1_usize, |count, &size| count.checked_mul(size));
    let count = count.filter(|&count| count <= isize::MAX as usize / 8);
    count.ok_or(Error::OutOfMemory { bytes: usize::MAX })
}

/// The sizes that these broadcast to.
pub(crate) fn broadcast<'a>(
    all: impl IntoIterator<Item = &'a [usize]>,
) -> Result<Vec<usize>, Error> {
    let mut made: Vec<usize> = vec![];
    for sizes in all {
        while made.len() < sizes.len() {
            made.insert(0, 1);
        }
        let offset = made.len() - sizes.len();
        for (own, &size) in std::iter::zip(&mut made[offset..], sizes) {
            if *own == 1 {
                *own = size;
            } else if size != 1 && size != *own {
                return values(format!("sizes {sizes:?} do not broadcast to {:?}", *own));
            }
        }
    }
    Ok(made)
}

/// What is known of a run that a program is made for.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The inputs of the loop, by their index in the body's list.
    pub(crate) inputs: &'a [Tensor<'a>],
    /// The number of the first step.
    pub(crate) first: usize,
    /// The states before it, if it is not the first of all.
    pub(crate) states: Option<&'a [Vec<usize>]>,
}

/// How a loop ends.
#[derive(Clone, Copy)]
struct End {
    /// The most steps.
    most: Option<usize>,
    /// Whether a condition was followed to say that.
    is_found: bool,
    /// Whether a step decides.
    is_decided: bool,
    /// Whether the program is of one step, since the sizes of values change.
    is_single: bool,
}

/// What became of a supposed end.
enum Outcome {
    Made(Plan),
    Other(End),
}

/// Makes the primitives of a body.
pub(crate) struct Planner<'a> {
    pub(crate) body: &'a Body,
    run: Run<'a>,
    /// The inputs whose elements the program depends on.
    keyed: HashSet<usize>,
    end: End,
    /// The number of steps that the program runs, unless a step decides.
    pub(super) steps: Option<usize>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) primitives: Vec<Primitive>,
    names: HashMap<Cow<'a, str>, Value>,
    outer: HashMap<&'a str, Value>,
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
                keyed: body.most.iter().chain(&body.starts).copied().collect(),
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
        let first_of = |index: &usize| {
            let elements = run.inputs[*index].elements.integers();
            elements.and_then(|all| all.first().copied())
        };
        let mut most = None;
        if let Some(slice) = body.slices.first() {
            let sizes = match slice.whole {
                Known::Constant(index) => &*body.constants[index].sizes,
                Known::Input(index) => run.inputs[index].sizes,
            };
            most = Some(sizes.get(slice.axis(sizes.len())?).copied().unwrap_or(0));
        }
        if let Some(index) = &body.most {
            let number = first_of(index).unwrap_or_default().max(0);
            most = usize::try_from(number).ok();
        }
        if let Some(number) = body.constant_most {
            most = usize::try_from(number.max(0)).ok();
        }
        let starts = body
            .starts
            .as_ref()
            .and_then(first_of)
            .or(body.constant_start);
        if starts == Some(0) {
            most = Some(0);
        }
        // What no one counts to is no number of steps.
        let most = most.filter(|&most| most < 1 << 48);
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
        for read in &body.reads {
            let value = match read.known {
                Known::Constant(index) => self.constant(index),
                Known::Input(index) => self.input(index, read.kind)?,
            };
            self.outer.insert(&read.name, value);
        }
        Ok(())
    }

    fn constant(&mut self, index: usize) -> Value {
        let constant = &self.body.constants[index];
        if let Data::Ints(all) = &constant.data
            && all.len() <= MOST_KNOWN
        {
            let scalars = all.iter().map(|&it| it.into()).collect();
            return Value::known(constant.kind, &constant.sizes, scalars);
        }
        let data = constant.data.clone();
        let buffer = self.data(data, Some(index));
        Value::new(
            constant.kind,
            View::whole(Base::Buffer(buffer), &constant.sizes),
        )
    }

    fn input(&mut self, index: usize, kind: Kind) -> Result<Value, Error> {
        let Tensor { sizes, elements } = self.run.inputs[index];
        if elements.kind() != kind || elements.len() != count(sizes)? {
            return values(format!(
                "an input has {} elements of {:?}, expected {sizes:?} of {kind:?}",
                elements.len(),
                elements.kind()
            ));
        }
        if kind != Kind::Float
            && elements.len() <= KNOWN_INPUT
            && let Some(all) = elements.integers()
        {
            self.keyed.insert(index);
            let scalars = all.into_iter().map(Scalar::from).collect();
            return Ok(Value::known(kind, sizes, scalars));
        }
        let buffer = self.buffer(Buffer {
            lane: kind.lane(),
            len: elements.len(),
            source: Source::Input(index),
            needs: Needs::Nothing,
        });
        Ok(Value::new(kind, View::whole(Base::Buffer(buffer), sizes)))
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
                Known::Constant(index) => self.constant(index),
                Known::Input(index) => self.outer_input(index)?,
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
        let Tensor { sizes, elements } = self.run.inputs[index];
        let buffer = self.buffer(Buffer {
            lane: elements.kind().lane(),
            len: count(sizes)?,
            source: Source::Input(index),
            needs: Needs::Nothing,
        });
        let view = View::whole(Base::Buffer(buffer), sizes);
        Ok(Value::new(elements.kind(), view))
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
        for (name, value) in std::iter::zip(&node.output, made) {
            if !name.is_empty() {
                self.names.insert(name.as_str().into(), value);
            }
        }
        Ok(())
    }

    /// Plans the branch that runs in all steps.
    fn branch(&mut self, node: &'a NodeProto) -> Result<(), Error> {
        let condition = self.value(node.input(0).unwrap_or_default())?;
        let Some([truth]) = self.integers(&condition).as_deref().map(|it| [it[0]]) else {
            return values("its condition depends on the step");
        };
        let name = if truth == 0 {
            "else_branch"
        } else {
            "then_branch"
        };
        let Some(graph) = node.graph(name) else {
            return values(format!("it has no {name}"));
        };
        for inner in &graph.node {
            self.node(inner)?;
        }
        for (name, from) in std::iter::zip(&node.output, graph.outputs()) {
            if !name.is_empty() {
                let value = self.value(from)?;
                self.names.insert(name.as_str().into(), value);
            }
        }
        Ok(())
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
                let all = self.run.inputs[*index].elements.integers()?;
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

    fn buffer(&mut self, buffer: Buffer) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    fn data(&mut self, data: Data, constant: Option<usize>) -> usize {
        let (lane, len) = match &data {
            Data::Floats(all) => (Lane::Float, all.len()),
            Data::Ints(all) => (Lane::Int, all.len()),
        };
        self.buffer(Buffer {
            lane,
            len,
            source: Source::Data(data, constant),
            needs: Needs::Nothing,
        })
    }

    /// A float of no axes.
    pub(crate) fn float(&mut self, number: f32) -> Value {
        self.floats(&[], vec![number])
    }

    /// Floats with these sizes.
    pub(crate) fn floats(&mut self, sizes: &[usize], numbers: Vec<f32>) -> Value {
        let buffer = self.data(Data::Floats(numbers.into()), None);
        Value::new(Kind::Float, View::whole(Base::Buffer(buffer), sizes))
    }

    /// Numbers that stand in a model.
    pub(crate) fn literal(&mut self, constant: &Constant) -> Value {
        if let Data::Ints(all) = &constant.data {
            let scalars = all.iter().map(|&it| it.into()).collect();
            return Value::known(constant.kind, &constant.sizes, scalars);
        }
        let buffer = self.data(constant.data.clone(), None);
        let view = View::whole(Base::Buffer(buffer), &constant.sizes);
        Value::new(constant.kind, view)
    }

    /// The only element of a float that is known.
    pub(crate) fn constant_float(&self, value: &Value) -> Option<f32> {
        let view = &value.view;
        match &self.buffers[view.buffer()?].source {
            Source::Data(Data::Floats(all), _) if view.len() == 1 && view.step == 0 => {
                all.get(view.offset as usize).copied()
            }
            _ => None,
        }
    }

    /// The index of the model's constant that a view is of.
    pub(crate) fn constant_index(&self, view: &View) -> Option<usize> {
        // A part that moves with the step is another one in each.
        if view.step != 0 {
            return None;
        }
        match self.buffers[view.buffer()?].source {
            Source::Data(Data::Floats(_), index) => index,
            _ => None,
        }
    }

    /// The matrix of a view of a constant, packed once for all programs.
    pub(crate) fn packed(&self, view: &View) -> Result<PackedMatrix<f32>, Error> {
        let buffer = view.buffer().map(|buffer| &self.buffers[buffer].source);
        let (Some(Source::Data(Data::Floats(all), Some(index))), [rows, columns]) =
            (buffer, &*view.axes)
        else {
            return values("a matrix that is no constant");
        };
        let shape = [rows.size, columns.size];
        self.body
            .packed((*index, view.offset, view.axes.clone()), || {
                let mut elements = zeros(shape[0] * shape[1])?;
                for (to, place) in std::iter::zip(&mut elements, view.places()) {
                    *to = all[place];
                }
                Ok(PackedMatrix::pack(&elements, shape)?)
            })
    }

    /// A copy in a buffer of its own, which primitives may change.
    pub(crate) fn own_copy(&mut self, value: &Value) -> Result<Value, Error> {
        let whole = self.parts(value.kind, &value.sizes())?;
        let from = self.materialised(value)?;
        let moved = Operation::Map(Function::Move(value.kind.lane()));
        self.add_to(moved, vec![from], whole.view.clone());
        Ok(whole)
    }

    /// What a view depends on.
    pub(super) fn needs(&self, view: &View) -> Needs {
        let own = view
            .buffer()
            .map_or(Needs::Nothing, |buffer| self.buffers[buffer].needs);
        let moved = if view.step == 0 {
            Needs::Nothing
        } else {
            Needs::Number
        };
        own.max(moved)
    }

    /// Adds a primitive that writes a new buffer with these sizes, and returns a view of it.
    pub(crate) fn add(
        &mut self,
        operation: Operation,
        lane: Lane,
        inputs: Vec<View>,
        sizes: &[usize],
    ) -> Result<View, Error> {
        let own = match operation {
            Operation::Count(_) => Needs::Number,
            _ => Needs::Nothing,
        };
        let needs = inputs
            .iter()
            .map(|view| self.needs(view))
            .fold(own, Ord::max);
        let buffer = self.buffer(Buffer {
            lane,
            len: count(sizes)?,
            source: Source::Program,
            needs,
        });
        let output = View::whole(Base::Buffer(buffer), sizes);
        self.primitives.push(Primitive {
            operation,
            inputs,
            output: output.clone(),
            is_copy: false,
        });
        Ok(output)
    }

    /// Adds a primitive that writes a part of a buffer, or more of it.
    pub(crate) fn add_to(&mut self, operation: Operation, inputs: Vec<View>, output: View) {
        let needs = inputs.iter().map(|view| self.needs(view)).max();
        if let Some(buffer) = output.buffer() {
            // A place that moves with the step is another one in each.
            let is_own = matches!(self.buffers[buffer].source, Source::Program);
            let place = match is_own && output.step != 0 {
                true => Needs::Number,
                false => Needs::Nothing,
            };
            let own = &mut self.buffers[buffer].needs;
            *own = needs.unwrap_or(Needs::Nothing).max(place).max(*own);
        }
        self.primitives.push(Primitive {
            operation,
            inputs,
            output,
            is_copy: false,
        });
    }

    /// A new buffer that primitives write parts of.
    pub(crate) fn parts(&mut self, kind: Kind, sizes: &[usize]) -> Result<Value, Error> {
        let buffer = self.buffer(Buffer {
            lane: kind.lane(),
            len: count(sizes)?,
            source: Source::Program,
            needs: Needs::Nothing,
        });
        Ok(Value::new(kind, View::whole(Base::Buffer(buffer), sizes)))
    }

    /// A view of memory that has a value's elements.
    pub(crate) fn materialised(&mut self, value: &Value) -> Result<View, Error> {
        let Some(scalars) = value.scalars() else {
            return Ok(value.view.clone());
        };
        let sizes = value.sizes();
        let constants: Option<Vec<i64>> = scalars.iter().map(|it| it.constant()).collect();
        if let Some(constants) = constants {
            let data = match value.kind.lane() {
                Lane::Float => Data::Floats(constants.iter().map(|&it| it as f32).collect()),
                Lane::Int => Data::Ints(constants.into()),
            };
            let buffer = self.data(data, None);
            return Ok(View::whole(Base::Buffer(buffer), &sizes));
        }
        let lines = scalars.iter().map(|it| it.line).collect();
        let counted = self.add(Operation::Count(lines), Lane::Int, vec![], &sizes)?;
        if value.kind != Kind::Bool {
            return Ok(counted);
        }
        // Each is a comparison; constants among them are numbers that are not 0.
        let zero = Value::known(Kind::Int64, &[], vec![0.into()]);
        let counted = Value::new(Kind::Int64, counted);
        let comparison = |it: &Scalar| it.truth.unwrap_or(Comparison::NotEqual);
        let first = comparison(&scalars[0]);
        if scalars.iter().all(|it| comparison(it) == first) {
            let function = Function::CompareInts(first);
            return Ok(self.map(function, Kind::Bool, &[&counted, &zero])?.view);
        }
        let whole = self.parts(Kind::Bool, &[scalars.len()])?;
        let flat = counted.with(View {
            axes: contiguous(&[scalars.len()]),
            ..counted.view.clone()
        });
        for (index, scalar) in scalars.iter().enumerate() {
            let one = flat.with(flat.view.slice(0, index as isize, 1, 1));
            let made = self.map(
                Function::CompareInts(comparison(scalar)),
                Kind::Bool,
                &[&one, &zero],
            )?;
            let to = whole.view.slice(0, index as isize, 1, 1);
            self.add_to(
                Operation::Map(Function::Move(Lane::Float)),
                vec![made.view],
                to,
            );
        }
        Ok(View {
            axes: contiguous(&sizes),
            ..whole.view
        })
    }

    /// A function of elements, broadcast to each other.
    pub(crate) fn map(
        &mut self,
        function: Function,
        kind: Kind,
        inputs: &[&Value],
    ) -> Result<Value, Error> {
        let all: Vec<Vec<usize>> = inputs.iter().map(|value| value.sizes()).collect();
        let sizes = broadcast(all.iter().map(|sizes| &**sizes))?;
        let mut views = Vec::with_capacity(inputs.len());
        for input in inputs {
            views.push(self.materialised(input)?.broadcast(&sizes));
        }
        let view = self.add(Operation::Map(function), kind.lane(), views, &sizes)?;
        let value = Value::new(kind, view);
        let may_overflow = matches!(function, Function::Int1(_) | Function::Int2(_));
        if kind == Kind::Int32 && may_overflow && function != Function::Int1(Int1::Wrap) {
            return self.map(Function::Int1(Int1::Wrap), kind, &[&value]);
        }
        Ok(value)
    }

    /// A reduction along axes, which stay with size 1.
    pub(crate) fn reduce(
        &mut self,
        reduction: Reduction,
        value: &Value,
        axes: &[usize],
    ) -> Result<Value, Error> {
        let sizes = value.sizes();
        let mut kept = sizes.clone();
        for axis in axes {
            kept[*axis] = 1;
        }
        let input = self.materialised(value)?;
        let needs = self.needs(&input);
        let buffer = self.buffer(Buffer {
            lane: value.kind.lane(),
            len: count(&kept)?,
            source: Source::Program,
            needs,
        });
        let output = View::whole(Base::Buffer(buffer), &kept);
        self.primitives.push(Primitive {
            operation: Operation::Reduce(reduction),
            inputs: vec![input],
            output: View {
                axes: std::iter::zip(&sizes, &output.axes)
                    .enumerate()
                    .map(|(index, (&size, axis))| match axes.contains(&index) {
                        true => Axis { size, stride: 0 },
                        false => *axis,
                    })
                    .collect(),
                ..output.clone()
            },
            is_copy: false,
        });
        Ok(value.with(output))
    }

    /// The same elements, one after another in memory.
    pub(crate) fn contiguous(&mut self, value: &Value) -> Result<Value, Error> {
        let view = self.materialised(value)?;
        if view.is_contiguous() {
            return Ok(value.with(view));
        }
        self.copy(&value.with(view))
    }

    /// A copy.
    pub(crate) fn copy(&mut self, value: &Value) -> Result<Value, Error> {
        self.map(Function::Move(value.kind.lane()), value.kind, &[value])
    }

    /// The same elements with other sizes, as many.
    pub(crate) fn reshape(&mut self, value: &Value, sizes: &[usize]) -> Result<Value, Error> {
        if count(sizes)? != value.view.len() {
            return values(format!("sizes {:?} become {sizes:?}", value.sizes()));
        }
        if let Some(view) = value.view.reshape(sizes) {
            return Ok(value.with(view));
        }
        if let Some(scalars) = value.scalars() {
            return Ok(Value::known(value.kind, sizes, scalars));
        }
        let copy = self.contiguous(value)?;
        Ok(copy.with(View {
            axes: contiguous(sizes),
            ..copy.view.clone()
        }))
    }

    /// Makes the program of the primitives.
    fn finish(
        &mut self,
        lines: Vec<Option<Line>>,
        condition: Option<View>,
    ) -> Result<Outcome, Error> {
        let body = self.body;
        let mut states = vec![];
        for (index, state) in body.states.iter().enumerate() {
            if !state.is_live {
                states.push(Stated::Nothing);
                continue;
            }
            let initial = self.outer[&*state.initial].clone();
            if let Some(line) = lines[index] {
                states.push(Stated::Line(line, initial.sizes()));
                continue;
            }
            let current = self.value(&state.input)?;
            let next = self.value(&state.output)?;
            if next.kind != state.kind {
                return values(format!(
                    "state {:?} becomes one of another type",
                    state.input
                ));
            }
            let initial = match self.run.states {
                // The run has them.
                Some(_) => current.view.clone(),
                None => self.materialised(&initial)?,
            };
            let sizes = next.sizes();
            let from = self.materialised(&next)?;
            let is_kept = from == current.view;
            let buffer = if is_kept {
                None
            } else {
                let to = self.parts(state.kind, &sizes)?;
                let buffer = to.view.buffer();
                let moved = Operation::Map(Function::Move(state.kind.lane()));
                self.add_to(moved, vec![from], to.view);
                buffer
            };
            states.push(Stated::Buffer(State {
                initial,
                current: current.view.buffer().unwrap_or(usize::MAX),
                next: buffer,
                sizes: current.sizes(),
                next_sizes: sizes,
            }));
        }
        let changes = states.iter().any(Stated::changes_sizes);
        if changes && !self.end.is_single {
            return Ok(Outcome::Other(End {
                is_single: true,
                ..self.end
            }));
        }
        // What a program of some of the steps collects is put together later.
        let is_whole = !self.end.is_single && self.steps.is_some();
        let mut collected = vec![];
        for output in &body.collected {
            if !output.is_read {
                collected.push(None);
                continue;
            }
            let value = self.value(&output.name)?;
            let from = self.materialised(&value)?;
            let sizes = value.sizes();
            let axis = output.axis(sizes.len() + 1)?;
            if axis > 0 && !is_whole {
                return values("outputs that are collected along another axis than the first");
            }
            let steps = self
                .steps
                .filter(|_| is_whole)
                .map(|steps| steps + self.run.first);
            let mut whole = sizes.clone();
            whole.insert(axis, steps.unwrap_or(1));
            let buffer = self.buffer(Buffer {
                lane: value.kind.lane(),
                len: count(&whole)?,
                source: Source::Collected(collected.len()),
                needs: Needs::Nothing,
            });
            let first = if is_whole { self.run.first as i64 } else { 0 };
            let (start, slope) = match output.is_reversed {
                false => (first, 1),
                true => (steps.unwrap_or_default() as i64 - 1 - first, -1),
            };
            let to = View::whole(Base::Buffer(buffer), &whole);
            let to = if steps == Some(0) {
                to
            } else {
                to.at(axis, start, slope)
            };
            if steps != Some(0) {
                let moved = Operation::Map(Function::Move(value.kind.lane()));
                self.add_to(moved, vec![from], to);
            }
            collected.push(Some(Collected {
                buffer,
                kind: value.kind,
                len: count(&sizes)?,
                sizes: whole,
                axis,
            }));
        }
        let plan = phases::plan(self, states, collected, condition)?;
        Ok(Outcome::Made(Plan {
            most: self.end.most,
            is_single: self.end.is_single,
            is_whole,
            ..plan
        }))
    }
}
