//! Scalars in a list of one element, as some exporters write the value of a Pad and the diagonal of a
//! Trilu. tract's operators take scalars alone.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::node::{check_domain, parse_with_tract};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over};

/// Parses a Trilu.
pub(crate) fn parse_trilu(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    check_domain(node)?;
    let (mut upstream, captured) = parse_with_tract("Trilu", ctx, node)?;
    if node.input.get(1).is_some_and(|k| !k.is_empty()) {
        upstream = over(upstream, ScalarValue { value: 1 });
    }
    Ok((over(upstream, OrNothing), captured))
}

/// The operator over one of which an input may be a list of one element.
#[derive(Clone, Debug)]
pub(crate) struct ScalarValue {
    /// The input.
    pub(crate) value: usize,
}

impl Operator for ScalarValue {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let given = node.inputs[self.value].clone();
        rule_if!(
            given
                .shape
                .concretize()
                .is_some_and(|it| it[..] == [1.to_dim()])
        );
        let mut scalar = InferenceFact {
            datum_type: given.datum_type,
            ..InferenceFact::shape([0_usize; 0])
        };
        if let Some(value) = given.value.concretize() {
            let value = value.into_tensor().into_shape(&[])?;
            scalar.value = value.into_arc_tensor().into();
        }
        let known = node.inputs.iter().enumerate();
        let known = known.map(|(at, fact)| if at == self.value { &scalar } else { *fact });
        let known = known.collect();
        let (mut inputs, outputs, observed) = node.by_upstream_of(known, node.outputs.clone())?;
        inputs[self.value] = InferenceFact {
            datum_type: inputs[self.value].datum_type,
            ..given
        };
        Ok(Some((inputs, outputs, observed)))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        rule_if!(node.input(self.value)?.rank() > 0);
        let list = node.inputs[self.value];
        node.inputs[self.value] = node.op("scalar", AxisOp::Rm(0), &[list])?;
        Ok(None)
    }
}
