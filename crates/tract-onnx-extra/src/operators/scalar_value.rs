//! Scalars in a list of one element, as some exporters write the value of a Pad and the diagonal of a
//! Trilu. tract's operators take scalars alone.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::delegate::{Delegate, Facts, Hook, Inference, Known};
use crate::node::{check_domain, parse_with_tract};
use crate::wire::to_typed_without_facts;

/// Parses a Trilu.
pub(crate) fn parse_trilu(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (mut upstream, captured) = parse_with_tract("Trilu", ctx, node)?;
    if node.input.get(1).is_some_and(|k| !k.is_empty()) {
        upstream = Delegate::boxed(upstream, ScalarValue { value: 1 });
    }
    Ok((Delegate::boxed(upstream, OrNothing), captured))
}

/// The hook of an operator of which an input may be a list of one element.
#[derive(Clone, Debug)]
pub(crate) struct ScalarValue {
    /// The input.
    pub(crate) value: usize,
}

impl Hook for ScalarValue {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let given = known.inputs[self.value].clone();
        if given
            .shape
            .concretize()
            .is_none_or(|it| it[..] != [1.to_dim()])
        {
            return inference.of(upstream, known);
        }
        let mut scalar = InferenceFact {
            datum_type: given.datum_type,
            ..InferenceFact::shape([0_usize; 0])
        };
        if let Some(value) = given.value.concretize() {
            let value = value.into_tensor().into_shape(&[])?;
            scalar.value = value.into_arc_tensor().into();
        }
        let known = known.with_input(self.value, &scalar);
        let (mut inputs, outputs, observed) = inference.of(upstream, known)?;
        inputs[self.value] = InferenceFact {
            datum_type: inputs[self.value].datum_type,
            ..given
        };
        Ok((inputs, outputs, observed))
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let given = mapping[&node.inputs[self.value]];
        if target.outlet_fact(given)?.rank() == 0 {
            return to_typed_without_facts(upstream, source, node, target, mapping);
        }
        let name = target
            .unique_name(format!("{}.scalar", node.name))
            .into_owned();
        let scalar = target.wire_node(name, AxisOp::Rm(0), &[given])?[0];
        // An outlet that no other input has.
        let own = OutletId::new(source.nodes().len(), 0);
        let mut node = node.clone();
        node.inputs[self.value] = own;
        let mut mapping = mapping.clone();
        mapping.insert(own, scalar);
        to_typed_without_facts(upstream, source, &node, target, &mapping)
    }
}
