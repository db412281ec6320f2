//! Operators that read some of their inputs in other types.

use tract_onnx::tract_hir::internal::*;

use super::{Inferred, Inferring, Operator, Wired, Wiring};
use crate::dims::in_dims;

/// An input as far as it decides on types.
pub(crate) struct Input {
    pub(crate) datum_type: Option<DatumType>,
    /// Whether its value is known.
    pub(crate) is_known: bool,
}

impl Input {
    pub(crate) fn is_size(&self) -> bool {
        self.datum_type.is_some_and(|it| it.is_tdim())
    }
}

/// The operator over one that reads inputs in the types that a function says, of an input among all.
/// Their inferred facts keep their types, as other readers expect.
#[derive(Clone)]
pub(crate) struct ReadAs<F>(pub(crate) F);

/// A fact in another type. A value with symbols is no number.
fn in_type(fact: &InferenceFact, to: DatumType) -> TractResult<InferenceFact> {
    let value = match fact.value.concretize() {
        Some(value) if to.is_tdim() => Some(in_dims(&value)?),
        value => value.and_then(|it| Some(it.cast_to_dt(to).ok()?.into_owned())),
    };
    Ok(InferenceFact {
        datum_type: to.into(),
        shape: fact.shape.clone(),
        value: value.map_or(GenericFactoid::Any, |it| GenericFactoid::Only(it.into())),
    })
}

impl<F> Operator for ReadAs<F>
where
    F: Fn(usize, &[Input]) -> Option<DatumType> + Clone + Send + Sync + 'static,
{
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let inputs = node.inputs.iter().map(|fact| Input {
            datum_type: fact.datum_type.concretize(),
            is_known: fact.value.is_concrete(),
        });
        let inputs: Vec<Input> = inputs.collect();
        let others = node.inputs.iter().enumerate().map(|(slot, fact)| {
            let to = (self.0)(slot, &inputs);
            to.map(|to| in_type(fact, to)).transpose()
        });
        let others = others.collect::<TractResult<Vec<_>>>()?;
        node.with_others(&others).map(Some)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let inputs = node.facts()?.into_iter().map(|fact| Input {
            datum_type: Some(fact.datum_type),
            is_known: fact.konst.is_some(),
        });
        let inputs: Vec<Input> = inputs.collect();
        for slot in 0..inputs.len() {
            if let Some(to) = (self.0)(slot, &inputs) {
                let part = if to.is_tdim() { "size" } else { "number" };
                node.inputs[slot] = node.cast(part, node.inputs[slot], to)?;
            }
        }
        Ok(None)
    }
}
