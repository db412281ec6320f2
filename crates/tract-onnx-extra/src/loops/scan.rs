//! Loops as tract's `Scan`.

use std::collections::HashSet;

use tract_onnx::tract_core::ops::array::{Gather, MultiBroadcastTo, Slice};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::Iff;
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use super::trips;
use crate::data_sizes::symbols_of;
use crate::loops::alias::Alias;
use crate::loops::induction::{Induction, follow};
use crate::loops::nested::steps_within;
use crate::loops::spec::{Feed, Spec, Value};
use crate::recurrent;
use crate::repairs::optimize::into_decluttered;
use crate::wire::{reads, wire_cast};

/// Wires a loop as a Scan if it is one: its number of steps is known, and it reads something step
/// by step. Any failure leaves it a loop.
pub(crate) fn wire(
    spec: &Spec,
    target: &mut TypedModel,
    name: &str,
    inputs: &[OutletId],
) -> Option<TVec<OutletId>> {
    // Nodes wired before an error have no readers.
    wire_scan(spec, target, name, inputs).ok().flatten()
}

fn wire_scan(
    spec: &Spec,
    target: &mut TypedModel,
    name: &str,
    inputs: &[OutletId],
) -> TractResult<Option<TVec<OutletId>>> {
    let facts: TVec<TypedFact> = inputs
        .iter()
        .map(|input| target.outlet_fact(*input).cloned())
        .collect::<TractResult<_>>()?;
    let gathers = gathers(spec);
    let mut asked: Vec<OutletId> = gathers.values().map(|gather| gather.index).collect();
    asked.extend(&spec.body.inputs);
    let followed = follow(spec, &facts.iter().collect::<TVec<_>>(), &asked)?;
    let induction = followed.or_else(|| by_symbol(spec, target, inputs, &facts));
    rule_if_some!(induction = induction);
    if !fits(spec, &induction)? {
        return Ok(None);
    }
    let gathers = gathers
        .into_iter()
        .filter_map(|(node, gather)| {
            let positions = match induction.values.get(&gather.index) {
                Some(values) => positions(values, &gather, &facts)?,
                None => all_positions(spec, &gather, &facts, &induction.steps)?,
            };
            Some((node, (gather, positions)))
        })
        .collect();
    let mut body = Body {
        spec,
        induction: &induction,
        gathers,
        model: TypedModel {
            symbols: spec.body.symbols.clone(),
            ..TypedModel::default()
        },
        mapping: HashMap::new(),
        sources: vec![],
        states: vec![],
        element: None,
    };
    rule_if!(body.has_values()? && body.keeps_sizes()?);
    body.translate()?;
    rule_if!(body.sources.iter().any(Origin::is_scanned));
    body.scan_an_element(&facts)?;
    body.wire(target, name, inputs)
}

/// The induction for a symbolic number of steps: the states that count steps. `None` if the loop
/// may stop early, or if another state is output, since tract's Scan outputs none without steps.
fn by_symbol(
    spec: &Spec,
    target: &TypedModel,
    inputs: &[OutletId],
    facts: &[TypedFact],
) -> Option<Induction> {
    let steps = spec.steps.clone().filter(|it| it.as_i64().is_none())?;
    let last = (0..spec.states.len()).filter_map(|state| {
        let first = trips::counter(spec, facts, state)?;
        let shape = facts[spec.states[state]].shape.as_concrete()?.to_vec();
        let last = tensor0(steps.clone() + first).into_shape(&shape).ok()?;
        Some((state, last.into_tvalue()))
    });
    let induction = Induction {
        last: last.collect(),
        steps,
        values: HashMap::new(),
    };
    let mut outputs = spec.outputs.iter().map(|output| output.value);
    let mut starts = spec.condition.iter().map(|input| inputs[*input]);
    let is_one = outputs.all(|it| matches!(it, Value::Scan(_)) || induction.knows(it))
        && starts.all(|input| trips::holds_at_first(target, input, &induction.steps));
    is_one.then_some(induction)
}

/// Whether it can be a Scan: it has a step, or an unknown number of them; states keep their shapes;
/// no output is known to be empty, which would make it a constant; and no limit is exceeded.
fn fits(spec: &Spec, induction: &Induction) -> TractResult<bool> {
    let body = &spec.body;
    let states = std::iter::zip(&body.inputs, &spec.feeds).all(|(input, feed)| match *feed {
        Feed::State(state) if !induction.last.contains_key(&state) => {
            let before = body.outlet_fact(*input).ok();
            let after = body.output_fact(spec.state_output(state)).ok();
            before.zip(after).is_some_and(|(before, after)| {
                before.datum_type == after.datum_type && before.shape == after.shape
            })
        }
        _ => true,
    });
    let mut outputs = (0..body.outputs.len()).filter_map(|it| body.output_fact(it).ok());
    let states = states && outputs.all(|fact| fact.shape.volume() != 0.to_dim());
    Ok(states && is_within_limits(spec, induction)?)
}

/// Whether the Scan stays within the limits, which nothing checks when it runs.
fn is_within_limits(spec: &Spec, induction: &Induction) -> TractResult<bool> {
    let limits = spec.limits;
    let steps = induction.steps.to_i64().map(i64::unsigned_abs);
    let Ok(steps) = steps else {
        return Ok(limits.steps.is_none() && limits.bytes.is_none());
    };
    if steps == 0 {
        return Ok(false);
    }
    let within = |limit: Option<u64>, found: u64| limit.is_none_or(|limit| found <= limit);
    if limits.steps.is_some() || limits.bytes.is_some() {
        // An inner loop has to see the remaining budget.
        let Some(inner) = steps_within(&spec.body)? else {
            return Ok(false);
        };
        if !within(limits.steps, steps.saturating_mul(inner.saturating_add(1))) {
            return Ok(false);
        }
    }
    let mut bytes = 0_u64;
    for scan in 0..spec.scans {
        let fact = spec.body.output_fact(spec.scan_output(scan))?;
        let elements = fact.shape.volume().to_usize().unwrap_or(0) as u64;
        let each = elements.saturating_mul(fact.datum_type.size_of() as u64);
        bytes = bytes.saturating_add(each.saturating_mul(steps));
    }
    Ok(within(limits.bytes, bytes))
}

/// A Gather in the body from an outer value.
#[derive(Clone, Copy, Debug)]
struct FromOuter {
    /// The op's input that is read.
    input: usize,
    axis: usize,
    index: OutletId,
}

/// The Gathers that read one element along an axis of an outer value.
fn gathers(spec: &Spec) -> HashMap<usize, FromOuter> {
    let body = &spec.body;
    let found = body.nodes().iter().filter_map(|node| {
        let gather = node.op_as::<Gather>()?;
        let source = body.inputs.iter().position(|it| *it == node.inputs[0])?;
        let Feed::Outer(input) = spec.feeds[source] else {
            return None;
        };
        let index = node.inputs[1];
        let is_one = body.outlet_fact(index).ok()?.rank() == 0;
        (is_one && gather.output_type.is_none()).then_some((
            node.id,
            FromOuter {
                input,
                axis: gather.axis,
                index,
            },
        ))
    });
    found.collect()
}

/// The positions of a Gather at each step.
#[derive(Clone, Debug)]
enum Positions {
    At(Vec<i64>),
    /// The whole axis in order.
    All,
}

/// The positions of a Gather whose index counts the steps, if these span the axis.
fn all_positions(
    spec: &Spec,
    gather: &FromOuter,
    inputs: &[TypedFact],
    steps: &TDim,
) -> Option<Positions> {
    let size = &inputs[gather.input].shape[gather.axis];
    let is_all = trips::offset(spec, inputs, gather.index) == Some(0) && size == steps;
    is_all.then_some(Positions::All)
}

/// The positions of a Gather, if all are within the axis.
fn positions(values: &[TValue], gather: &FromOuter, inputs: &[TypedFact]) -> Option<Positions> {
    let size = inputs[gather.input].shape[gather.axis].to_i64().ok()?;
    let position = |value: &TValue| {
        let index = value.cast_to_scalar::<i64>().ok()?;
        let index = if index < 0 { index + size } else { index };
        (0..size).contains(&index).then_some(index)
    };
    let positions: Option<Vec<i64>> = values.iter().map(position).collect();
    positions.map(Positions::At)
}

/// The origin of an input of the Scan.
#[derive(Clone, Debug)]
enum Origin {
    State(usize),
    Whole(usize),
    /// One element along an axis of an input at each step.
    Positions(FromOuter, Positions),
    /// Values derived from the iteration number.
    Values(Tensor),
}

impl Origin {
    fn is_scanned(&self) -> bool {
        matches!(self, Self::Positions(..) | Self::Values(_))
    }
}

/// The body of a Scan under construction.
struct Body<'a> {
    spec: &'a Spec,
    induction: &'a Induction,
    gathers: HashMap<usize, (FromOuter, Positions)>,
    model: TypedModel,
    mapping: HashMap<OutletId, OutletId>,
    /// The origins of the inputs, in order.
    sources: Vec<Origin>,
    /// The carried states that are read, with their inputs, in input order.
    states: Vec<(usize, OutletId)>,
    /// An element of a scan input that all outputs keep alive in the body.
    element: Option<OutletId>,
}

impl Body<'_> {
    /// The outputs that have to be computed: states and scan outputs.
    fn wanted(&self) -> Vec<usize> {
        let states = (0..self.spec.states.len())
            .filter(|state| !self.induction.last.contains_key(state))
            .map(|state| self.spec.state_output(state));
        let scans = (0..self.spec.scans).map(|scan| self.spec.scan_output(scan));
        states.chain(scans).collect()
    }

    /// The nodes that the wanted outputs depend on, in order, without the indices of Gathers that
    /// become inputs.
    fn needed(&self) -> TractResult<Vec<usize>> {
        let body = &self.spec.body;
        let mut needed = HashSet::new();
        let wanted = self.wanted().into_iter();
        let mut open: Vec<usize> = wanted.map(|output| body.outputs[output].node).collect();
        while let Some(id) = open.pop() {
            if needed.insert(id) && !self.gathers.contains_key(&id) {
                open.extend(body.node(id).inputs.iter().map(|input| input.node));
            }
        }
        let mut order = body.eval_order()?;
        order.retain(|id| needed.contains(id));
        Ok(order)
    }

    /// Whether all needed inputs derived from the iteration number are known at each step.
    fn has_values(&self) -> TractResult<bool> {
        let body = &self.spec.body;
        Ok(self.needed()?.into_iter().all(|id| {
            let input = body.inputs.iter().position(|input| input.node == id);
            let follows = input.is_some_and(|input| match self.spec.feeds[input] {
                Feed::Step => true,
                Feed::State(state) => self.induction.last.contains_key(&state),
                Feed::Outer(_) => false,
            });
            !follows || self.induction.values.contains_key(&OutletId::new(id, 0))
        }))
    }

    /// Whether no size comes from data. Such a size may differ between steps, but a Scan keeps the
    /// first.
    fn keeps_sizes(&self) -> TractResult<bool> {
        let body = &self.spec.body;
        let mut around: HashSet<Symbol> = HashSet::new();
        for input in &body.inputs {
            around.extend(symbols_of(body.outlet_fact(*input)?));
        }
        Ok(self.needed()?.into_iter().all(|id| {
            let node = body.node(id);
            let mut facts = node.outputs.iter().map(|output| &output.fact);
            !node.op.mints_runtime_symbols()
                || facts.all(|fact| symbols_of(fact).iter().all(|it| around.contains(it)))
        }))
    }

    fn source(&mut self, name: &str, fact: TypedFact, from: Origin) -> TractResult<OutletId> {
        let name = self.model.unique_name(name).into_owned();
        self.sources.push(from);
        self.model.add_source(name, fact)
    }

    /// Adds an input that is one element of a value along an axis at each step.
    fn slices(
        &mut self,
        name: &str,
        mut fact: TypedFact,
        axis: usize,
        from: Origin,
    ) -> TractResult<OutletId> {
        fact.shape.insert_axis(axis)?;
        let fact = fact.datum_type.fact(fact.shape);
        let slice = self.source(&format!("{name}.slice"), fact, from)?;
        let name = self
            .model
            .unique_name(format!("{name}.element"))
            .into_owned();
        Ok(self.model.wire_node(name, AxisOp::Rm(axis), &[slice])?[0])
    }

    fn translate(&mut self) -> TractResult<()> {
        let spec = self.spec;
        for id in self.needed()? {
            let node = spec.body.node(id);
            let outlet = OutletId::new(id, 0);
            let fact = spec.body.outlet_fact(outlet)?.clone();
            let input = spec.body.inputs.iter().position(|it| *it == outlet);
            if let Some((gather, positions)) = self.gathers.get(&id).cloned() {
                let from = Origin::Positions(gather, positions);
                let element = self.slices(&node.name, fact, gather.axis, from)?;
                self.mapping.insert(outlet, element);
            } else if let Some(input) = input {
                let inner = match (spec.feeds[input], self.induction.values.get(&outlet)) {
                    (Feed::State(_) | Feed::Step, Some(values)) => {
                        let mut rows: Vec<Tensor> = vec![];
                        for value in values {
                            let mut row = (**value).clone();
                            row.insert_axis(0)?;
                            rows.push(row);
                        }
                        let values = Tensor::stack_tensors(0, &rows)?;
                        self.slices(&node.name, fact, 0, Origin::Values(values))?
                    }
                    (Feed::State(state), None) => {
                        let before = self.source(&node.name, fact, Origin::State(state))?;
                        self.states.push((state, before));
                        let name = self.model.unique_name(format!("{}.state", node.name));
                        let name = name.into_owned();
                        self.model.wire_node(name, Alias::State, &[before])?[0]
                    }
                    (Feed::Outer(outer), _) => {
                        self.source(&node.name, fact, Origin::Whole(outer))?
                    }
                    (Feed::Step, None) => bail!("the step counter depends on itself"),
                };
                self.mapping.insert(outlet, inner);
            } else {
                let mut inputs: TVec<OutletId> = tvec![];
                for input in &node.inputs {
                    let mut outlet = self.mapping[input];
                    if inputs.iter().any(|it| self.may_be_one(*it, outlet)) {
                        let name = format!("{}.alias{}", node.name, inputs.len());
                        let name = self.model.unique_name(name).into_owned();
                        outlet = self.model.wire_node(name, Alias::Distinct, &[outlet])?[0];
                    }
                    inputs.push(outlet);
                }
                let name = self.model.unique_name(&node.name).into_owned();
                let outlets = self.model.wire_node(name, node.op.clone(), &inputs)?;
                for (slot, outlet) in outlets.into_iter().enumerate() {
                    self.mapping.insert(OutletId::new(id, slot), outlet);
                }
            }
        }
        Ok(())
    }

    /// Whether two values may turn out to be the same element of a scan input: one is that element
    /// except for operators that may fold away, and the other is computed from it.
    fn may_be_one(&self, a: OutletId, b: OutletId) -> bool {
        let model = &self.model;
        let element = |outlet: OutletId| {
            let mut outlet = outlet;
            loop {
                let node = model.node(outlet.node);
                let is_known = |it: &&OutletId| model.node(it.node).op_is::<Const>();
                let mut inputs = node.inputs.iter().filter(|it| !is_known(it));
                match (inputs.next(), inputs.next()) {
                    (Some(input), None) if !node.op_is::<Alias>() => outlet = *input,
                    _ => break,
                }
            }
            let input = model.inputs.iter().position(|it| *it == outlet)?;
            self.sources[input].is_scanned().then_some(outlet)
        };
        let is_of = |element: Option<OutletId>, other: OutletId| {
            element.is_some_and(|element| reads(model, other, |it| it == element))
        };
        a == b || is_of(element(a), b) || is_of(element(b), a)
    }

    /// Scans one more value, the smallest available, so that a scan input remains when everything
    /// else moves out of the body.
    fn scan_an_element(&mut self, facts: &[TypedFact]) -> TractResult<()> {
        let (fact, from) = match self.induction.steps.to_usize() {
            Ok(steps) => {
                let steps = Tensor::zero_dt(bool::datum_type(), &[steps])?;
                (bool::fact([1]), Origin::Values(steps))
            }
            Err(_) => {
                let mut all = self.sources.iter().filter_map(|from| match from {
                    Origin::Positions(gather, Positions::All) => Some(*gather),
                    _ => None,
                });
                let gather = all.next().context("something is scanned")?;
                let mut fact = facts[gather.input].without_value();
                fact.shape.set(gather.axis, 1.to_dim());
                (fact, Origin::Positions(gather, Positions::All))
            }
        };
        self.element = Some(self.source("element", fact, from)?);
        Ok(())
    }

    /// The states that are carried but never read in the body.
    fn unread(&self) -> Vec<usize> {
        let known = &self.induction.last;
        let is_read = |state: usize| self.states.iter().any(|(it, _)| *it == state);
        let states = 0..self.spec.states.len();
        states
            .filter(|state| !is_read(*state) && !known.contains_key(state))
            .collect()
    }

    /// The outputs of the body: the states that are read, the other states, and the scan outputs.
    fn wire_outputs(&mut self, name: &str) -> TractResult<Vec<OutletId>> {
        let spec = self.spec;
        let mut outlets = vec![];
        let read = self.states.clone().into_iter();
        let read = read.map(|(state, before)| (state, Some(before)));
        let unread = self.unread().into_iter().map(|state| (state, None));
        for (state, before) in read.chain(unread) {
            let after = self.mapping[&spec.body.outputs[spec.state_output(state)]];
            outlets.push(self.kept(&format!("{name}.state{state}"), after, before)?);
        }
        for scan in 0..spec.scans {
            let mut outlet = self.mapping[&spec.body.outputs[spec.scan_output(scan)]];
            if !self.is_worth_all_at_once(outlet)? {
                outlet = self.kept(&format!("{name}.kept{scan}"), outlet, None)?;
            }
            let name = self.model.unique_name(format!("{name}.scan{scan}"));
            let name = name.into_owned();
            outlets.push(self.model.wire_node(name, AxisOp::Add(0), &[outlet])?[0]);
        }
        Ok(outlets)
    }

    /// Wraps an output in [`Alias::Barrier`].
    fn kept(
        &mut self,
        name: &str,
        outlet: OutletId,
        before: Option<OutletId>,
    ) -> TractResult<OutletId> {
        let element = self.element.context("an element is scanned")?;
        let inputs: TVec<OutletId> = [outlet, element].into_iter().chain(before).collect();
        let name = self.model.unique_name(name).into_owned();
        Ok(self.model.wire_node(name, Alias::Barrier, &inputs)?[0])
    }

    /// Whether a value is better computed for all steps at once: by an operator that costs more
    /// than its call, from values that differ between steps.
    fn is_worth_all_at_once(&self, outlet: OutletId) -> TractResult<bool> {
        let mut node = self.model.node(outlet.node);
        while node.op_is::<Identity>() {
            node = self.model.node(node.inputs[0].node);
        }
        let op = &node.op;
        let is_small = op.is::<ElementWiseOp>()
            || op.is::<TypedBinOp>()
            || op.is::<Iff>()
            || op.is::<Cast>()
            || op.is::<AxisOp>()
            || op.is::<MultiBroadcastTo>()
            || op.is::<Slice>()
            || op.is::<Alias>()
            || op.is::<Const>()
            || op.is::<TypedSource>();
        if is_small {
            return Ok(false);
        }
        // Values that fold into constants are the same at each step.
        let mut alone = self.model.clone();
        alone.select_output_outlets(&[outlet])?;
        let alone = into_decluttered(alone)?;
        let is_another = |outlet: OutletId| {
            let input = alone.inputs.iter().position(|it| *it == outlet);
            input.is_some_and(|input| !matches!(self.sources[input], Origin::Whole(_)))
        };
        Ok(reads(&alone, alone.outputs[0], is_another))
    }

    fn wire(
        mut self,
        target: &mut TypedModel,
        name: &str,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let spec = self.spec;
        let outlets = self.wire_outputs(name)?;
        let mut outer = tvec![];
        let mut input_mapping = vec![];
        for from in std::mem::take(&mut self.sources) {
            let forward = |axis| InputMapping::Scan(ScanInfo { axis, chunk: 1 });
            let (outlet, mapping) = match from {
                Origin::State(state) => (inputs[spec.states[state]], InputMapping::State),
                Origin::Whole(input) => (inputs[input], InputMapping::Full),
                Origin::Values(values) => {
                    let name = target.unique_name(format!("{name}.values")).into_owned();
                    (target.add_const(name, values)?, forward(0))
                }
                Origin::Positions(gather, positions) => {
                    let (data, axis) = (inputs[gather.input], gather.axis);
                    match positions {
                        Positions::All => (data, forward(axis)),
                        Positions::At(positions) => {
                            wire_positions(target, name, data, axis, &positions)?
                        }
                    }
                }
            };
            let outlet = match mapping {
                InputMapping::Scan(_) => Alias::unfolded(target, name, outlet)?,
                InputMapping::Full | InputMapping::State => outlet,
            };
            outer.push(outlet);
            input_mapping.push(mapping);
        }

        let induction = self.induction;
        let computed: Vec<Value> = spec
            .outputs
            .iter()
            .map(|output| output.value)
            .filter(|value| !induction.knows(*value))
            .collect();
        let slot_of = |value: Value| computed.iter().position(|it| *it == value);
        let unread = self.unread();
        let mut output_mapping = vec![];
        let read = self.states.iter().map(|(state, _)| (*state, true));
        for (state, is_read) in read.chain(unread.into_iter().map(|state| (state, false))) {
            output_mapping.push(OutputMapping {
                state: is_read,
                last_value_slot: slot_of(Value::State(state)),
                scan: None,
                full_dim_hint: None,
            });
        }
        for scan in 0..spec.scans {
            let slot = slot_of(Value::Scan(scan)).context("a scanned value is an output")?;
            output_mapping.push(OutputMapping {
                state: false,
                last_value_slot: None,
                scan: Some((slot, ScanInfo { axis: 0, chunk: 1 })),
                full_dim_hint: None,
            });
        }
        self.model.select_output_outlets(&outlets)?;
        self.model.compact()?;
        let made = if computed.is_empty() {
            tvec![]
        } else {
            let body = std::mem::take(&mut self.model);
            let scanned = recurrent::Scanned {
                body: &body,
                outer: &outer,
                inputs: &input_mapping,
                outputs: &output_mapping,
            };
            if let Some(made) = recurrent::wire_scanned(&scanned, target, name)? {
                made
            } else {
                let mut scan = Scan::new(body, input_mapping, output_mapping, 0)?;
                scan.reset_every_turn = true;
                let scan_name = target.unique_name(name).into_owned();
                let made = target.wire_node(scan_name, scan, &outer)?;
                Alias::scanned(target, name, &made)?
            }
        };
        let mut made = made.into_iter();
        let mut outputs = tvec![];
        for output in &spec.outputs {
            outputs.push(match output.value {
                Value::State(state) if induction.knows(output.value) => {
                    let value = induction.last[&state].clone().into_arc_tensor();
                    let name = format!("{name}.state{state}");
                    let state = target.unique_name(&name).into_owned();
                    let state = target.wire_node(state, Const::new(value)?, &[])?[0];
                    // A symbolic state is known when it runs.
                    wire_cast(target, name, state, output.fact.datum_type)?
                }
                _ => made
                    .next()
                    .context("a Scan has the outputs that are mapped")?,
            });
        }
        Ok(Some(outputs))
    }
}

/// Wires the elements at these positions along an axis as a scan input.
fn wire_positions(
    target: &mut TypedModel,
    name: &str,
    data: OutletId,
    axis: usize,
    positions: &[i64],
) -> TractResult<(OutletId, InputMapping)> {
    let first = positions[0];
    let last = positions[positions.len() - 1];
    let along = |by: i64| positions.windows(2).all(|pair| pair[1] - pair[0] == by);
    let (data, chunk) = if along(1) || along(-1) {
        let (start, end) = (first.min(last), first.max(last) + 1);
        let size = target.outlet_fact(data)?.shape[axis].clone();
        let data = if start == 0 && end.to_dim() == size {
            data
        } else {
            let name = target.unique_name(format!("{name}.slice")).into_owned();
            target.wire_node(name, Slice::new(axis, start, end), &[data])?[0]
        };
        (data, if along(1) { 1 } else { -1 })
    } else {
        let indices = target.unique_name(format!("{name}.indices")).into_owned();
        let indices = target.add_const(indices, tensor1(positions))?;
        let name = target.unique_name(format!("{name}.gather")).into_owned();
        let data = target.wire_node(name, Gather::new(axis), &[data, indices])?[0];
        (data, 1)
    };
    Ok((data, InputMapping::Scan(ScanInfo { axis, chunk })))
}
