//! Concats of values whose sizes are equal, although different expressions stand for them.
//!
//! tract refuses sizes beside the axis that are not the same expression. A size from data may well
//! be equal to another one, so the plainest expression stands for all, and an input with another
//! one passes a check at run time.
//!
//! ```text
//! Concat(a: [T, 4], b: [size, 4], axis 1): [T, 8], checking that b has T rows
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::TypedConcat;
use tract_onnx::tract_hir::internal::*;

use super::agreed::agreed;
use super::size_symbols::axis;
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};

/// Parses a Concat: like tract if the sizes beside its axis are known to be equal, otherwise as one
/// that checks at run time.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let axis = node.get_attr("axis")?;
    over_tract(ctx, node, OnnxConcat { axis })
}

#[derive(Clone, Debug)]
struct OnnxConcat {
    axis: i64,
}

/// The axis, and the output's type and sizes.
type Joined = (usize, DatumType, TVec<TDim>);

impl OnnxConcat {
    /// Returns the axis and the output's type and sizes, with a number or a symbol in place of
    /// other expressions for the same size; `None` if all sizes beside the axis are the same
    /// expressions, or contradict each other.
    fn joined(&self, types: &[DatumType], shapes: &[TVec<TDim>]) -> TractResult<Option<Joined>> {
        let (Some(datum_type), Some(first)) = (DatumType::super_type_for(types), shapes.first())
        else {
            return Ok(None);
        };
        if shapes.iter().any(|shape| shape.len() != first.len()) {
            return Ok(None);
        }
        let along = axis(self.axis, first.len())?;
        let mut joined = first.clone();
        let mut is_same = true;
        for axis in 0..first.len() {
            let sizes = shapes.iter().map(|shape| &shape[axis]);
            if axis == along {
                joined[axis] = sizes.sum();
                continue;
            }
            is_same &= sizes.clone().all(|size| *size == joined[axis]);
            let number = sizes.clone().find(|size| size.to_i64().is_ok());
            let is_known = |size: &&TDim| size.to_i64().is_ok();
            if let Some(number) = number
                && sizes.clone().filter(is_known).any(|size| size != number)
            {
                return Ok(None);
            }
            let is_symbol = |size: &&TDim| matches!(size, TDim::Sym(_));
            if let Some(plain) = number.or_else(|| sizes.clone().find(is_symbol)) {
                joined[axis] = plain.clone();
            }
        }
        Ok((!is_same).then_some((along, datum_type, joined)))
    }
}

impl Operator for OnnxConcat {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let shapes = node.inputs.iter().map(|fact| fact.shape.concretize());
        let (types, shapes): (Option<Vec<_>>, Option<Vec<_>>) =
            (node.types().collect(), shapes.collect());
        rule_if_some!((types, shapes) = types.zip(shapes));
        let joined = self.joined(&types, &shapes)?;
        Ok(joined.map(|(_, of, shape)| node.output(of, shape)))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let facts = node.facts()?;
        let shapes: Vec<TVec<TDim>> = facts.iter().map(|fact| fact.shape.to_tvec()).collect();
        let joined = self.joined(&node.types()?, &shapes)?;
        rule_if_some!((axis, datum_type, joined) = joined);
        for (index, before) in shapes.into_iter().enumerate() {
            let wire = node.cast(&format!("cast{index}"), node.inputs[index], datum_type)?;
            let mut shape = joined.clone();
            shape[axis] = before[axis].clone();
            let name = format!("{}.agreed{index}", node.name);
            node.inputs[index] = agreed(node.model, &name, wire, shape)?;
        }
        node.whole(TypedConcat::new(axis))
    }
}
