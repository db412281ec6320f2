//! Numbers beside sizes, in tract's type of sizes with all of their bits.
//!
//! An operator whose inputs are of one type in ONNX may read a size and a number. tract casts the number
//! itself, and keeps 32 bits of it.
//!
//! ```text
//! Concat(N - 1, 9223372036854775807)  →  Concat of two TDim
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Facts, Hook, Inference, Known};
use crate::dims::in_dims;
use crate::wire::{to_typed_without_facts, wire_cast};

/// The inputs of an operator that are of one type.
#[derive(Clone, Copy, Debug)]
enum Alike {
    All,
    These(&'static [usize]),
}

/// The operators of which several inputs are of one type, as far as tract casts them to it. Those that
/// this crate has instead of tract's cast them alike.
const OPERATORS: [(&str, Alike); 17] = [
    ("Add", Alike::All),
    ("Clip", Alike::All),
    ("Concat", Alike::All),
    ("Div", Alike::All),
    ("Equal", Alike::All),
    ("Greater", Alike::All),
    ("GreaterOrEqual", Alike::All),
    ("Less", Alike::All),
    ("LessOrEqual", Alike::All),
    ("Max", Alike::All),
    ("Min", Alike::All),
    ("Mul", Alike::All),
    ("ScatterElements", Alike::These(&[0, 2])),
    ("ScatterND", Alike::These(&[0, 2])),
    ("Sub", Alike::All),
    ("Sum", Alike::All),
    ("Where", Alike::These(&[1, 2])),
];

/// Adds the hook to one of the operators.
pub(crate) fn hooked(operator: &str, upstream: Box<dyn InferenceOp>) -> Box<dyn InferenceOp> {
    match OPERATORS.iter().find(|(name, _)| *name == operator) {
        Some((_, inputs)) => Delegate::boxed(upstream, BesideSizes { inputs: *inputs }),
        None => upstream,
    }
}

/// The hook of an operator that gets sizes for the numbers beside sizes.
#[derive(Clone, Debug)]
struct BesideSizes {
    /// The inputs of one type.
    inputs: Alike,
}

impl BesideSizes {
    fn has(&self, input: usize) -> bool {
        match self.inputs {
            Alike::All => true,
            Alike::These(inputs) => inputs.contains(&input),
        }
    }

    /// Which inputs become sizes: the integers, if another one of the same type is a size.
    fn become_sizes(&self, types: &[Option<DatumType>]) -> Vec<bool> {
        let is_size = |(input, datum_type): (usize, &Option<DatumType>)| {
            self.has(input) && datum_type.is_some_and(|it| it.is_tdim())
        };
        let are_sizes = types.iter().enumerate().any(is_size);
        let becomes = |(input, datum_type): (usize, &Option<DatumType>)| {
            are_sizes && self.has(input) && datum_type.is_some_and(|it| it.is_integer())
        };
        types.iter().enumerate().map(becomes).collect()
    }
}

impl Hook for BesideSizes {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let types = known.inputs.iter().map(|fact| fact.datum_type.concretize());
        let becomes = self.become_sizes(&types.collect::<Vec<_>>());
        let sizes = std::iter::zip(&known.inputs, becomes).map(|(fact, becomes)| {
            let value = match fact.value.concretize() {
                Some(value) if becomes => Some(in_dims(&value)?),
                _ => None,
            };
            Ok(becomes.then(|| InferenceFact {
                datum_type: TDim::datum_type().into(),
                shape: fact.shape.clone(),
                value: value.map_or(GenericFactoid::Any, |it| GenericFactoid::Only(it.into())),
            }))
        });
        let sizes = sizes.collect::<TractResult<Vec<_>>>()?;
        inference.with_others(upstream, known, &sizes)
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let types = node.inputs.iter().map(|input| {
            let fact = target.outlet_fact(mapping[input])?;
            Ok(Some(fact.datum_type))
        });
        let becomes = self.become_sizes(&types.collect::<TractResult<Vec<_>>>()?);
        if !becomes.contains(&true) {
            return upstream.to_typed(source, node, target, mapping);
        }
        let mut mapping = mapping.clone();
        for (input, becomes) in std::iter::zip(&node.inputs, becomes) {
            if becomes {
                let name = format!("{}.size", node.name);
                let size = wire_cast(target, name, mapping[input], TDim::datum_type())?;
                mapping.insert(*input, size);
            }
        }
        to_typed_without_facts(upstream, source, node, target, &mapping)
    }
}
