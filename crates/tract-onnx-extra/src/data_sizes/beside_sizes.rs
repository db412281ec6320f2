//! Numbers beside sizes, in tract's type of sizes with all of their bits.
//!
//! An operator whose inputs are of one type in ONNX may read a size and a number. tract casts the number
//! itself, and keeps 32 bits of it.
//!
//! ```text
//! Concat(N - 1, 9223372036854775807)  →  Concat of two TDim
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::dims::in_dims;
use crate::node::is_one_of;
use crate::operator::{Inferred, Inferring, Operator, Wired, Wiring, over};

/// The operators of which several inputs are of one type, as far as tract casts them to it. Those that
/// this crate has instead of tract's cast them alike. The inputs are listed unless all are.
const OPERATORS: [(&str, &[usize]); 3] = [
    (
        "Add Clip Concat Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Sub Sum",
        &[],
    ),
    ("ScatterElements ScatterND", &[0, 2]),
    ("Where", &[1, 2]),
];

/// Puts an operator over one of these.
pub(crate) fn mended(operator: &str, upstream: Box<dyn InferenceOp>) -> Box<dyn InferenceOp> {
    let mut operators = OPERATORS.iter();
    match operators.find(|(names, _)| is_one_of(names, operator)) {
        Some((_, inputs)) => over(upstream, BesideSizes { inputs }),
        None => upstream,
    }
}

/// The operator over one that gets sizes for the numbers beside sizes.
#[derive(Clone, Debug)]
struct BesideSizes {
    /// The inputs of one type; none are listed if all are.
    inputs: &'static [usize],
}

impl BesideSizes {
    fn has(&self, input: usize) -> bool {
        self.inputs.is_empty() || self.inputs.contains(&input)
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

impl Operator for BesideSizes {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let becomes = self.become_sizes(&node.types().collect::<Vec<_>>());
        let sizes = std::iter::zip(&node.inputs, becomes).map(|(fact, becomes)| {
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
        node.with_others(&sizes).map(Some)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let types = node.types()?.into_iter().map(Some);
        let becomes = self.become_sizes(&types.collect::<Vec<_>>());
        if !becomes.contains(&true) {
            return node.by_upstream().map(Some);
        }
        for slot in (0..becomes.len()).filter(|slot| becomes[*slot]) {
            node.inputs[slot] = node.cast("size", node.inputs[slot], TDim::datum_type())?;
        }
        Ok(None)
    }
}
