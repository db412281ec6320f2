//! The Loop node before types and shapes are known.
//!
//! Once its inputs are known, the body is typed for the shapes that states have in every step, and
//! the outputs follow from it; before, nothing is. tract infers a node many times, so results are
//! kept. The parser has matched the counts of inputs and outputs, and has found the initial states.
//!
//! When the node is wired, it becomes a program, or else a [`Loop`](crate::Loop). A state that no step changes is
//! no state of either: it is an outer value.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::konst::Const;

use crate::data_sizes::{SizeSymbols, symbols_of};
use crate::dims::of_valid_operands;
use crate::limits::Limits;
use crate::loops::op::LOOP;
use crate::loops::program::Source;
use crate::loops::spec::{Feed, LoopOutput, Spec, Value};
use crate::loops::states::StateShapes;
use crate::loops::steps::{holds, steps};
use crate::operator::Facts;
use crate::repairs::typed::typed_body;
use crate::wire::{free_names, wire_cast};

/// The role of a body's input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyInput {
    /// The iteration number.
    Step,
    /// The condition, which is true whenever the body runs.
    Condition,
    State(usize),
    Captured(usize),
}

/// A Loop node and its body. The node's inputs are the trip count and the condition if present, the
/// initial states, and the captured values.
#[derive(Clone, Debug)]
pub(crate) struct OnnxLoop {
    pub(crate) node: String,
    pub(crate) has_trip_count: bool,
    pub(crate) has_condition: bool,
    pub(crate) states: usize,
    /// The types that the body declares for its states.
    pub(crate) state_types: Vec<Option<DatumType>>,
    /// The outputs are the condition, the states and the scan outputs.
    pub(crate) body: InferenceModel,
    pub(crate) body_inputs: Vec<BodyInput>,
    /// The index, among the states and scan outputs, of each output of the node.
    pub(crate) outputs: Vec<usize>,
    pub(crate) limits: Limits,
    /// Those of its outputs that nothing around the loop tells.
    pub(crate) sizes: SizeSymbols,
    /// Results by the facts of the node's inputs, shared by copies of the node: tract copies and queries
    /// nodes repeatedly, and each query runs through all inner loops.
    pub(crate) solved: Arc<Mutex<Vec<Arc<Solved>>>>,
    /// What a program is read from.
    pub(crate) source: Option<Arc<Source>>,
}

/// The result of inference for known inputs.
#[derive(Debug)]
pub(crate) struct Solved {
    inputs: Vec<InferenceFact>,
    spec: Spec,
    /// The source of each output of the node.
    sources: Vec<OutputSource>,
    outputs: TVec<InferenceFact>,
}

/// Sizes that are the same in all steps.
struct Settled {
    /// The sizes of each state after a step.
    states: Vec<TVec<TDim>>,
    /// The sizes of each of the body's scan outputs.
    scans: Vec<TVec<TDim>>,
}

#[derive(Clone, Copy, Debug)]
enum OutputSource {
    /// An input of the node: a state that no step changes.
    Input(usize),
    /// An output of the op.
    Op(usize),
}

impl OnnxLoop {
    pub(super) fn first_state(&self) -> usize {
        usize::from(self.has_trip_count) + usize::from(self.has_condition)
    }

    /// The node's input for a captured value.
    fn captured(&self, index: usize) -> usize {
        self.first_state() + self.states + index
    }

    /// The type of a state, or of a scan output after the states, in every step.
    pub(super) fn state_type(&self, state: usize, fact: &TypedFact) -> DatumType {
        integer_type(fact, self.state_types.get(state).copied().flatten())
    }

    /// The body's input that an output passes on, if any.
    fn passed_on(&self, output: usize) -> Option<BodyInput> {
        let mut outlet = self.body.outputs[output];
        loop {
            let node = self.body.node(outlet.node);
            if let Some(input) = self.body.inputs.iter().position(|it| *it == outlet) {
                return Some(self.body_inputs[input]);
            }
            if node.op.name() != "Identity" {
                return None;
            }
            outlet = *node.inputs.first()?;
        }
    }

    /// The states that a step changes.
    fn carried(&self) -> Vec<usize> {
        (0..self.states)
            .filter(|&state| {
                !matches!(self.passed_on(1 + state), Some(BodyInput::State(it)) if it == state)
            })
            .collect()
    }

    /// The typed body for these inputs and states, with its feeds.
    fn typed_body(
        &self,
        inputs: &[TypedFact],
        carried: &[usize],
        shapes: &StateShapes,
    ) -> TractResult<(TypedModel, Vec<Feed>)> {
        let mut body = self.body.clone();
        let mut feeds = vec![];
        let mut sources = vec![];
        for (&outlet, &input) in std::iter::zip(&self.body.inputs, &self.body_inputs) {
            let outer = |index: usize| (inputs[index].clone(), Feed::Outer(index));
            let (fact, feed) = match input {
                BodyInput::Step => (i64::scalar_fact(), Feed::Step),
                BodyInput::Condition => {
                    let holds = tensor0(true).into_arc_tensor();
                    // A known value becomes a constant below, and is fed by nothing.
                    (TypedFact::try_from(holds)?, Feed::Step)
                }
                BodyInput::State(state) => match carried.iter().position(|it| *it == state) {
                    None => outer(self.first_state() + state),
                    Some(index) => {
                        let initial = &inputs[self.first_state() + state];
                        let fact = self.state_type(state, initial).fact(shapes.of(index));
                        (fact, Feed::State(index))
                    }
                },
                BodyInput::Captured(index) => outer(self.captured(index)),
            };
            if let Some(value) = &fact.konst {
                body.node_mut(outlet.node).op = Box::new(Const::new(Arc::clone(value))?);
            } else {
                sources.push(outlet);
                feeds.push(feed);
            }
            body.set_outlet_fact(outlet, InferenceFact::from(&fact))?;
        }
        body.inputs = sources;
        Ok((typed_body(body)?, feeds))
    }

    /// The op and its outputs, if the inputs are known well enough.
    fn solve(&self, inputs: &[InferenceFact]) -> TractResult<Option<Arc<Solved>>> {
        let solved_for = |all: &[Arc<Solved>]| all.iter().find(|it| it.inputs == inputs).cloned();
        if let Some(solved) =
            solved_for(&self.solved.lock().unwrap_or_else(PoisonError::into_inner))
        {
            return Ok(Some(solved));
        }
        let typed: Result<Vec<TypedFact>, _> = inputs.iter().map(TypedFact::try_from).collect();
        let Ok(typed) = typed else {
            return Ok(None);
        };
        let solved = self
            .solve_typed(inputs, &typed)
            .with_context(|| format!("Loop {:?}", self.node))?;
        let solved = Arc::new(solved);
        self.solved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&solved));
        Ok(Some(solved))
    }

    /// The shapes of states after a step.
    fn after_step(
        &self,
        body: &TypedModel,
        inputs: &[TypedFact],
        carried: &[usize],
        shapes: &StateShapes,
    ) -> TractResult<Vec<TVec<TDim>>> {
        let after = carried.iter().enumerate().map(|(index, &state)| {
            let fact = body.output_fact(1 + state)?;
            let before = self.state_type(state, &inputs[self.first_state() + state]);
            let made = self.state_type(state, fact);
            ensure!(
                before == made,
                "state {state} is {before:?} before a step and {made:?} after it"
            );
            ensure!(
                fact.rank() == shapes.of(index).len(),
                "state {state} has rank {} before a step and {} after it: its rank may change \
                 in the first step alone, if each node of the body that reads it broadcasts it \
                 and a step provably runs",
                shapes.of(index).len(),
                fact.rank()
            );
            Ok(sizes_of(fact))
        });
        after.collect()
    }

    /// The sizes of states and scan outputs if states change their sizes in the first step alone, like
    /// one row that the step broadcasts to the batch.
    fn settled(
        &self,
        inputs: &[TypedFact],
        carried: &[usize],
        start: &[TVec<TDim>],
    ) -> TractResult<Option<Settled>> {
        let step = |start: &[TVec<TDim>]| -> TractResult<_> {
            let shapes = StateShapes::new(start.to_vec());
            let (body, _) = self.typed_body(inputs, carried, &shapes)?;
            let after = self.after_step(&body, inputs, carried, &shapes)?;
            let scans = body.outputs[1 + self.states..].iter();
            let scans = scans.map(|it| Ok(sizes_of(body.outlet_fact(*it)?)));
            Ok((after, scans.collect::<TractResult<Vec<_>>>()?))
        };
        let (states, first) = step(start)?;
        let (after, rest) = step(&states)?;
        Ok((after == states && first == rest).then_some(Settled {
            states,
            scans: first,
        }))
    }

    fn solve_typed(&self, key: &[InferenceFact], inputs: &[TypedFact]) -> TractResult<Solved> {
        let carried = self.carried();
        let initial = |state: &usize| inputs[self.first_state() + state].shape.to_tvec();
        let start: Vec<TVec<TDim>> = carried.iter().map(initial).collect();
        let (mut body, feeds, shapes) = self.fixpoint(inputs, &carried, &start)?;

        // Symbols of the body have no meaning outside it, or in another step.
        let outer: Vec<Symbol> = inputs.iter().flat_map(symbols_of).collect();
        let is_outer = |dim: &TDim| dim.symbols().iter().all(|symbol| outer.contains(symbol));
        // A body that is invalid for fixed sizes has none that settle.
        let settled = match shapes.any_varies() {
            true => self.settled(inputs, &carried, &start).unwrap_or_default(),
            false => None,
        };
        let settled = settled.filter(|it| it.states.iter().flatten().all(is_outer));

        let scans = self.outputs.iter().filter(|it| **it >= self.states);
        let scans: BTreeSet<usize> = scans.map(|it| it - self.states).collect();
        let gives_condition = self.select_outputs(&mut body, &carried, &scans)?;
        let mut spec = Spec {
            node: self.node.clone(),
            body,
            feeds,
            trip_count: self.has_trip_count.then_some(0),
            condition: self
                .has_condition
                .then_some(usize::from(self.has_trip_count)),
            states: carried
                .iter()
                .map(|state| self.first_state() + state)
                .collect(),
            gives_condition,
            steps: None,
            scans: scans.len(),
            reversed: vec![],
            outputs: vec![],
            limits: self.limits,
            is_decluttered: false,
        };
        spec.steps = steps(&spec, inputs)?;
        let shapes = Shapes {
            start,
            states: shapes,
            settled,
            outer,
        };
        let (outputs, sources) = self.outputs_outside(&mut spec, key, &carried, &scans, &shapes)?;
        Ok(Solved {
            inputs: key.to_vec(),
            spec,
            sources,
            outputs,
        })
    }

    /// The body for the sizes that the states have in every step, with what feeds its inputs: states
    /// whose sizes change get symbols, until the body changes no others.
    fn fixpoint(
        &self,
        inputs: &[TypedFact],
        carried: &[usize],
        start: &[TVec<TDim>],
    ) -> TractResult<(TypedModel, Vec<Feed>, StateShapes)> {
        let scope = &self.body.symbols;
        let mut shapes = StateShapes::new(start.to_vec());
        loop {
            let typed = match self.typed_body(inputs, carried, &shapes) {
                Ok(typed) => typed,
                // A body may be invalid for states that keep their initial sizes.
                Err(_) if !shapes.any_varies() && !carried.is_empty() => {
                    let fixed = shapes.clone();
                    shapes.vary_all(scope);
                    match self.typed_body(inputs, carried, &shapes) {
                        Ok(typed) => typed,
                        // Of the two errors, the one with concrete sizes is more helpful.
                        Err(_) => self.typed_body(inputs, carried, &fixed)?,
                    }
                }
                Err(error) => return Err(error),
            };
            let after = self.after_step(&typed.0, inputs, carried, &shapes)?;
            if shapes.refine(&after, scope) {
                return Ok((typed.0, typed.1, shapes));
            }
        }
    }

    /// Makes the condition, unless it is always true, the states and the scan outputs that are read
    /// the outputs of the body; returns whether the condition is one.
    fn select_outputs(
        &self,
        body: &mut TypedModel,
        carried: &[usize],
        scans: &BTreeSet<usize>,
    ) -> TractResult<bool> {
        let condition = self.wire_condition(body)?;
        let scans = scans.iter().map(|scan| self.states + scan);
        let mut outlets: TVec<OutletId> = condition.into_iter().collect();
        for output in carried.iter().copied().chain(scans) {
            let outlet = body.outputs[1 + output];
            let name = format!("{}.out{output}", self.node);
            let to = self.state_type(output, body.outlet_fact(outlet)?);
            outlets.push(wire_cast(body, name, outlet, to)?);
        }
        body.select_output_outlets(&outlets)?;
        body.compact()?;
        Ok(condition.is_some())
    }

    /// The facts of the node's outputs and where each comes from; those of the loop are added to
    /// `spec`. Sizes that only the body knows become symbols.
    fn outputs_outside(
        &self,
        spec: &mut Spec,
        key: &[InferenceFact],
        carried: &[usize],
        scans: &BTreeSet<usize>,
        shapes: &Shapes,
    ) -> TractResult<(TVec<InferenceFact>, Vec<OutputSource>)> {
        let steps = match &spec.steps {
            Some(steps) => steps.clone(),
            None => self.sizes.of_output(self.states, 0, "loop_steps"),
        };
        let has_step = steps.to_i64().is_ok_and(|steps| steps > 0);
        let mut renamed: Vec<((bool, TDim), TDim)> = vec![];
        let mut around = |output: usize, axis: usize, dim: &TDim| -> TDim {
            let is_scan = output >= self.states;
            if shapes.is_outer(dim) {
                return dim.clone();
            }
            let key = (is_scan, dim.clone());
            if let Some((_, known)) = renamed.iter().find(|(it, _)| *it == key) {
                return known.clone();
            }
            let around = self.sizes.of_output(output, axis, "loop_size");
            renamed.push((key, around.clone()));
            around
        };
        let mut facts = tvec![];
        let mut sources = vec![];
        for &output in &self.outputs {
            let state = carried.iter().position(|it| *it == output);
            let (value, shape, inner) = if let Some(state) = state {
                let shape = shapes.after(state, has_step).iter().enumerate();
                let shape = shape.map(|(axis, dim)| around(output, axis, dim)).collect();
                (Value::State(state), shape, spec.state_output(state))
            } else if output < self.states {
                let input = self.first_state() + output;
                sources.push(OutputSource::Input(input));
                facts.push(key[input].clone());
                continue;
            } else {
                let scan = scans.iter().position(|it| *it == output - self.states);
                let scan = scan.context("all outputs of the body are kept")?;
                let inner = spec.scan_output(scan);
                let sizes = match &shapes.settled {
                    Some(settled) => settled.scans[output - self.states].clone(),
                    None => sizes_of(spec.body.output_fact(inner)?),
                };
                let sizes = sizes.iter().enumerate();
                let sizes = sizes.map(|(axis, dim)| around(output, 1 + axis, dim));
                let shape: TVec<TDim> = std::iter::once(steps.clone()).chain(sizes).collect();
                (Value::Scan(scan), shape, inner)
            };
            let fact = spec.body.output_fact(inner)?.datum_type.fact(shape);
            facts.push(InferenceFact::from(&fact));
            sources.push(OutputSource::Op(spec.outputs.len()));
            spec.outputs.push(LoopOutput { value, fact });
        }
        Ok((facts, sources))
    }

    /// The condition that the body outputs, unless it is always true.
    fn wire_condition(&self, body: &mut TypedModel) -> TractResult<Option<OutletId>> {
        if matches!(self.passed_on(0), Some(BodyInput::Condition)) {
            return Ok(None);
        }
        let outlet = body.outputs[0];
        let fact = body.outlet_fact(outlet)?;
        ensure!(
            fact.datum_type == bool::datum_type(),
            "the condition of its body is {:?}, expected a bool",
            fact.datum_type
        );
        Ok((!holds(fact)).then_some(outlet))
    }
}

/// The sizes of the carried states.
struct Shapes {
    /// The sizes before the first step.
    start: Vec<TVec<TDim>>,
    /// The sizes in the body.
    states: StateShapes,
    /// The sizes after the first step, if no later one changes them.
    settled: Option<Settled>,
    /// The symbols that have a meaning around the loop.
    outer: Vec<Symbol>,
}

impl Shapes {
    fn is_outer(&self, dim: &TDim) -> bool {
        let symbols = dim.symbols();
        symbols.iter().all(|symbol| self.outer.contains(symbol))
    }

    /// The sizes of a state after the loop.
    fn after(&self, state: usize, has_step: bool) -> &[TDim] {
        match &self.settled {
            Some(settled) if has_step || settled.states[state] == self.start[state] => {
                &settled.states[state]
            }
            _ => self.states.of(state),
        }
    }
}

/// The sizes of a value, in a run that is valid.
fn sizes_of(fact: &TypedFact) -> TVec<TDim> {
    fact.shape.iter().map(of_valid_operands).collect()
}

/// The type of a value at run time. TDim gains nothing for values that change, so it becomes the
/// `declared` integer type.
pub(super) fn integer_type(fact: &TypedFact, declared: Option<DatumType>) -> DatumType {
    if fact.datum_type != TDim::datum_type() {
        return fact.datum_type;
    }
    let declared = declared.filter(|it| it.is_integer());
    declared.unwrap_or(i64::datum_type())
}

impl Op for OnnxLoop {
    fn name(&self) -> StaticName {
        LOOP.into()
    }

    not_a_typed_op!();
}

impl EvalOp for OnnxLoop {
    not_out_of_plan!();
}

never_equal!(OnnxLoop);

impl InferenceOp for OnnxLoop {
    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        _observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let inputs: TVec<InferenceFact> = inputs.into_iter().cloned().collect();
        let outputs = match self.solve(&inputs)? {
            None => outputs.into_iter().cloned().collect(),
            Some(solved) => solved.outputs.clone(),
        };
        Ok((inputs, outputs, tvec![]))
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.outputs.len())
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        let facts: Vec<InferenceFact> = inputs
            .iter()
            .map(|input| Ok(InferenceFact::from(target.outlet_fact(*input)?)))
            .collect::<TractResult<_>>()?;
        let solved = self
            .solve(&facts)?
            .context("tract knows the types and shapes of all values by now")?;
        let first = target.nodes().len();
        let is_read = |slot: usize| {
            let outlet = OutletId::new(node.id, slot);
            !node.outputs[slot].successors.is_empty() || source.outputs.contains(&outlet)
        };
        let mut spec = Spec {
            outputs: vec![],
            ..solved.spec.clone()
        };
        let mut sources = vec![];
        let mut made = vec![];
        for (slot, source) in solved.sources.iter().enumerate() {
            sources.push(match *source {
                OutputSource::Op(output) => {
                    let output = &solved.spec.outputs[output];
                    if matches!(output.value, Value::Scan(_)) || is_read(slot) {
                        spec.outputs.push(output.clone());
                        made.push((self.outputs[slot], output.fact.clone()));
                        OutputSource::Op(spec.outputs.len() - 1)
                    } else {
                        // An unread state may come from any outlet.
                        OutputSource::Input(0)
                    }
                }
                input => input,
            });
        }
        let place = (&mut *target, &*inputs);
        let made = if spec.outputs.is_empty() {
            tvec![]
        } else {
            self.wire(spec, place, &node.name, made)?
        };
        free_names(source, node, target, first);
        let outlets = sources.into_iter().map(|source| match source {
            OutputSource::Input(input) => inputs[input],
            OutputSource::Op(output) => made[output],
        });
        Ok(outlets.collect())
    }

    as_op!();
}
