//! A node that is wired into a typed model.

use std::borrow::Cow;

use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::wire::wire_cast;

/// The outlets of a node that is wired; `None` to wire it like the operator beneath.
pub type Wired = TractResult<Option<TVec<OutletId>>>;

/// The place of a node among others that are translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) source: &'a InferenceModel,
    pub(super) node: &'a InferenceNode,
    pub(super) mapping: &'a HashMap<OutletId, OutletId>,
}

/// A node that is wired into a typed model.
#[derive(Debug)]
pub struct Wiring<'a> {
    /// Its name.
    pub name: &'a str,
    /// The model.
    pub model: &'a mut TypedModel,
    /// Its inputs.
    pub inputs: TVec<OutletId>,
    /// The operator beneath.
    pub(crate) upstream: Option<&'a dyn InferenceOp>,
    /// `None` if it is wired alone.
    pub(super) place: Option<Place<'a>>,
}

impl<'a> Wiring<'a> {
    /// A node that is wired alone.
    pub(crate) fn alone(name: &'a str, model: &'a mut TypedModel, inputs: &[OutletId]) -> Self {
        Self {
            name,
            model,
            inputs: inputs.into(),
            upstream: None,
            place: None,
        }
    }

    /// The same node in another model, with these inputs.
    pub(crate) fn within<'b>(
        &'b self,
        model: &'b mut TypedModel,
        inputs: &[OutletId],
    ) -> Wiring<'b> {
        Wiring {
            name: self.name,
            model,
            inputs: inputs.into(),
            upstream: self.upstream,
            place: self.place,
        }
    }

    /// Wires the node like the operator beneath, without the facts inferred for its outputs: tract compares
    /// wired facts with inferred ones, in which another symbol may stand for the same size. Floats stay the
    /// floats that they are computed from, since a Mean divides by a number of that type.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn by_upstream(&mut self) -> TractResult<TVec<OutletId>> {
        let upstream = self.upstream.zip(self.place);
        let (upstream, place) = upstream.context("tract has no such operator here")?;
        let (mut node, mut mapping) = (Cow::Borrowed(place.node), Cow::Borrowed(place.mapping));
        for (slot, input) in self.inputs.iter().enumerate() {
            if mapping[&node.inputs[slot]] != *input {
                // An outlet that no other input has.
                let own = OutletId::new(place.source.nodes().len(), slot);
                node.to_mut().inputs[slot] = own;
                mapping.to_mut().insert(own, *input);
            }
        }
        let types = self.types()?;
        for (slot, output) in place.node.outputs.iter().enumerate() {
            let datum_type = output.fact.datum_type.concretize();
            let kept = datum_type.filter(|it| it.is_float() && types.contains(it));
            let fact = kept.map(InferenceFact::dt).unwrap_or_default();
            if fact != output.fact {
                node.to_mut().outputs[slot].fact = fact;
            }
        }
        upstream.to_typed(place.source, &node, self.model, &mapping)
    }

    /// The facts that were inferred of the inputs.
    pub fn inferred_inputs(&self) -> impl Iterator<Item = &InferenceFact> {
        let place = self.place.into_iter();
        place.flat_map(|Place { source, node, .. }| {
            let inputs = node.inputs.iter();
            inputs.filter_map(|input| source.outlet_fact(*input).ok())
        })
    }

    /// The facts that were inferred of the outputs.
    pub(crate) fn inferred_outputs(&self) -> impl Iterator<Item = &'a InferenceFact> + use<'a> {
        let place = self.place.into_iter();
        let outputs = place.flat_map(|it| &it.source.node(it.node.id).outputs);
        outputs.map(|output| &output.fact)
    }

    /// The fact of an outlet.
    pub(crate) fn fact(&self, outlet: OutletId) -> TractResult<&TypedFact> {
        self.model.outlet_fact(outlet)
    }

    /// The fact of an input.
    pub(crate) fn input(&self, index: usize) -> TractResult<&TypedFact> {
        let input = self.inputs.get(index);
        self.fact(*input.with_context(|| format!("it has no input {index}"))?)
    }

    /// The facts of the inputs.
    pub(crate) fn facts(&self) -> TractResult<Vec<&TypedFact>> {
        self.inputs.iter().map(|input| self.fact(*input)).collect()
    }

    /// The types of the inputs.
    pub(crate) fn types(&self) -> TractResult<TVec<DatumType>> {
        let facts = self.facts()?;
        Ok(facts.iter().map(|fact| fact.datum_type).collect())
    }

    /// A name for a part of the node.
    pub(crate) fn part(&self, part: &str) -> String {
        let name = self.model.unique_name(format!("{}.{part}", self.name));
        name.into_owned()
    }

    /// Wires a part of the node.
    pub(crate) fn op(
        &mut self,
        part: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        Ok(self.model.wire_node(self.part(part), op, inputs)?[0])
    }

    /// Wires the part of the node that has its outputs, and its name if that is free.
    pub(crate) fn last(&mut self, op: impl Into<Box<dyn TypedOp>>, inputs: &[OutletId]) -> Wired {
        let name = self.model.unique_name(self.name).into_owned();
        self.model.wire_node(name, op, inputs).map(Some)
    }

    /// Wires an operator with all of the inputs.
    pub(crate) fn whole(&mut self, op: impl Into<Box<dyn TypedOp>>) -> Wired {
        self.last(op, &self.inputs.clone())
    }

    /// Wires a part of the node whose operands broadcast.
    pub(crate) fn broadcast(
        &mut self,
        part: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        Ok(wire_with_rank_broadcast(self.part(part), self.model, op, inputs)?[0])
    }

    /// Adds a constant.
    pub(crate) fn constant(
        &mut self,
        part: &str,
        value: impl IntoArcTensor,
    ) -> TractResult<OutletId> {
        self.model.add_const(self.part(part), value)
    }

    /// Casts a value unless it has the type.
    pub(crate) fn cast(
        &mut self,
        part: &str,
        outlet: OutletId,
        to: DatumType,
    ) -> TractResult<OutletId> {
        wire_cast(self.model, format!("{}.{part}", self.name), outlet, to)
    }

    /// Puts others in place of some inputs.
    pub(crate) fn replace_inputs(
        &mut self,
        mut other: impl FnMut(&mut Self, OutletId) -> TractResult<Option<OutletId>>,
    ) -> TractResult<()> {
        for slot in 0..self.inputs.len() {
            if let Some(other) = other(self, self.inputs[slot])? {
                self.inputs[slot] = other;
            }
        }
        Ok(())
    }
}
