//! The body of a Scan.
//!
//! It is the loop's body, except that what follows from the step's number is known or scanned:
//! reads by step become scan inputs, and counters become constants with a value for each step.
//! Aliases guard what tract's passes would break (`alias.rs`). The caller has checked that the loop
//! is not without steps, and that all needed values of each step are known.
//!
//! ```text
//! Loop body: h = f(h, Gather(x, step))  →  Scan body: h = f(h, x_t), with x scanned along its axis
//! ```

use std::collections::HashSet;

use tract_onnx::tract_core::ops::array::{MultiBroadcastTo, Slice};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::Iff;
use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use super::metered::Metered;
use super::reads::{FromOuter, Positions};
use crate::cast_to_sizes::CastToSizes;
use crate::data_sizes::symbols_of;
use crate::loops::alias::Alias;
use crate::loops::induction::Induction;
use crate::loops::spec::{Feed, Spec};
use crate::operators::arithmetic::Arithmetic;
use crate::repairs::optimize::into_decluttered;
use crate::typed_op::Typed;
use crate::wire::reads;

/// The origin of an input of the Scan.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    State(usize),
    Whole(usize),
    /// One element along an axis of an input at each step.
    Positions(FromOuter, Positions),
    /// Values derived from the iteration number.
    Values(Tensor),
}

impl Origin {
    pub(super) fn is_scanned(&self) -> bool {
        matches!(self, Self::Positions(..) | Self::Values(_))
    }
}

/// The body of a Scan under construction.
pub(super) struct Body<'a> {
    pub(super) spec: &'a Spec,
    pub(super) induction: &'a Induction,
    pub(super) gathers: HashMap<usize, (FromOuter, Positions)>,
    pub(super) model: TypedModel,
    pub(super) mapping: HashMap<OutletId, OutletId>,
    /// The origins of the inputs, in order.
    pub(super) sources: Vec<Origin>,
    /// The carried states that are read, with their inputs, in input order.
    pub(super) states: Vec<(usize, OutletId)>,
    /// An element of a scan input that all outputs keep alive in the body.
    pub(super) element: Option<OutletId>,
    /// The limits that the run checks.
    pub(super) metered: Option<Metered>,
}

impl Body<'_> {
    /// The outputs that have to be computed: states and scan outputs.
    fn computed(&self) -> Vec<usize> {
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
        let computed = self.computed().into_iter();
        let mut open: Vec<usize> = computed.map(|output| body.outputs[output].node).collect();
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
    pub(super) fn has_values(&self) -> TractResult<bool> {
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
    pub(super) fn keeps_sizes(&self) -> TractResult<bool> {
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

    pub(super) fn translate(&mut self) -> TractResult<()> {
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
                        before
                    }
                    (Feed::Outer(outer), _) => {
                        self.source(&node.name, fact, Origin::Whole(outer))?
                    }
                    (Feed::Step, None) => bail!("the step counter depends on itself"),
                };
                self.mapping.insert(outlet, inner);
            } else {
                let inputs = node.inputs.iter().map(|input| self.mapping[input]);
                let inputs: TVec<OutletId> = inputs.collect();
                let name = self.model.unique_name(&node.name).into_owned();
                let outlets = self.model.wire_node(name, node.op.clone(), &inputs)?;
                for (slot, outlet) in outlets.into_iter().enumerate() {
                    self.mapping.insert(OutletId::new(id, slot), outlet);
                }
            }
        }
        Ok(())
    }

    /// Scans one more value, the smallest available, so that a scan input remains when everything
    /// else moves out of the body.
    pub(super) fn scan_an_element(&mut self, facts: &[TypedFact]) -> TractResult<()> {
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
    pub(super) fn unread(&self) -> Vec<usize> {
        let known = &self.induction.last;
        let is_read = |state: usize| self.states.iter().any(|(it, _)| *it == state);
        let states = 0..self.spec.states.len();
        states
            .filter(|state| !is_read(*state) && !known.contains_key(state))
            .collect()
    }

    /// The outputs of the body: the states that are read, the other states, and the scan outputs.
    pub(super) fn wire_outputs(&mut self, name: &str) -> TractResult<Vec<OutletId>> {
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
            || op.is::<Typed<CastToSizes>>()
            || op.is::<Typed<Arithmetic>>()
            || op.is::<AxisOp>()
            || op.is::<MultiBroadcastTo>()
            || op.is::<Slice>()
            || op.is::<Alias>()
            || op.is::<Scan>()
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
}
