//! Symbols for sizes that are known when a node has run.

use std::sync::{Mutex, PoisonError};

use tract_onnx::model::ParsingContext;
use tract_onnx::tract_hir::internal::*;

/// The symbols of a node, one for each axis of its output whose size comes from data.
///
/// The node's copies share them: tract copies a node and asks it for its facts over and over.
#[derive(Clone, Debug)]
pub(crate) struct Minted {
    scope: SymbolScope,
    of_axes: Arc<Mutex<HashMap<usize, Symbol>>>,
}

impl Minted {
    /// In the scope that all of a model's graphs share.
    pub(crate) fn new(ctx: &ParsingContext<'_>) -> Self {
        Self {
            scope: ctx.template.symbols.clone(),
            of_axes: Arc::default(),
        }
    }

    pub(crate) fn of(&self, axis: usize) -> TDim {
        let mut of_axes = self.of_axes.lock().unwrap_or_else(PoisonError::into_inner);
        let symbol = of_axes
            .entry(axis)
            .or_insert_with(|| self.scope.new_with_prefix("size"));
        symbol.to_dim()
    }
}

/// The symbols in a value's sizes, and in its elements if it is known.
pub(crate) fn symbols_of(fact: &TypedFact) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = fact.shape.iter().flat_map(TDim::symbols).collect();
    if let Some(value) = &fact.konst
        && value.datum_type() == TDim::datum_type()
        && let Ok(value) = value.to_plain_array_view::<TDim>()
    {
        symbols.extend(value.iter().flat_map(TDim::symbols));
    }
    symbols
}

/// Facts of a node's outputs that leave its inputs' as they are.
pub(crate) type Facts = (
    TVec<InferenceFact>,
    TVec<InferenceFact>,
    TVec<InferenceFact>,
);

/// What is inferred of a node with one output of a type and sizes; what is known of the
/// output's already is kept.
pub(crate) fn inferred(
    inputs: &TVec<&InferenceFact>,
    outputs: &TVec<&InferenceFact>,
    datum_type: DatumType,
    mut shape: TVec<TDim>,
) -> Facts {
    for (size, known) in std::iter::zip(&mut shape, outputs[0].shape.dims()) {
        if let Some(known) = known.concretize() {
            *size = known;
        }
    }
    let inputs = inputs.iter().map(|fact| (*fact).clone()).collect();
    let output = InferenceFact::from(&datum_type.fact(shape));
    (inputs, tvec![output], tvec![])
}

/// An axis as ONNX counts it, from the last if it is below 0.
pub(crate) fn axis(axis: i64, rank: usize) -> TractResult<usize> {
    let from_first = if axis < 0 { axis + rank as i64 } else { axis };
    let from_first = usize::try_from(from_first).ok().filter(|it| *it < rank);
    from_first.with_context(|| format!("axis {axis} of data of rank {rank}"))
}
