//! Symbols for sizes that are known only after a node has run, and values that hold sizes.
//!
//! A symbol belongs to a node's output axis, not to a call: inference, wiring and copies of the
//! node all have to speak of the same one. tract gives it a number when the node has run.

use std::sync::{Mutex, PoisonError};

use tract_onnx::model::ParsingContext;
use tract_onnx::tract_hir::internal::*;

/// A node's symbols, one for each axis of an output whose size comes from data.
///
/// Copies of the node share them, since tract copies and queries nodes repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct SizeSymbols {
    scope: SymbolScope,
    /// By the output and its axis.
    of_axes: Arc<Mutex<HashMap<(usize, usize), Symbol>>>,
}

impl SizeSymbols {
    /// Uses the scope that all graphs of a model share.
    pub(crate) fn new(ctx: &ParsingContext<'_>) -> Self {
        Self {
            scope: ctx.template.symbols.clone(),
            of_axes: Arc::default(),
        }
    }

    /// Whether a size is one of these symbols.
    pub(crate) fn has(&self, size: &TDim) -> bool {
        let of_axes = self.of_axes.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(size, TDim::Sym(symbol) if of_axes.values().any(|own| own == symbol))
    }

    /// Returns that of an axis of the only output.
    pub(crate) fn of(&self, axis: usize) -> TDim {
        self.of_output(0, axis, "size")
    }

    /// Returns that of an axis of an output; its name begins with the prefix.
    pub(crate) fn of_output(&self, output: usize, axis: usize, prefix: &str) -> TDim {
        let mut of_axes = self.of_axes.lock().unwrap_or_else(PoisonError::into_inner);
        let symbol = of_axes
            .entry((output, axis))
            .or_insert_with(|| self.scope.new_with_prefix(prefix));
        symbol.to_dim()
    }
}

/// The symbols in a value's sizes, and in its elements if they are known.
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

/// Replaces symbols in a value by numbers.
pub(crate) fn in_numbers(value: TValue, symbols: &SymbolValues) -> TractResult<TValue> {
    if value.datum_type() != TDim::datum_type() {
        return Ok(value);
    }
    let sizes = value.to_plain_array_view::<TDim>()?;
    let numbers = sizes.iter().map(|size| Ok(size.eval(symbols).to_i64()?));
    let numbers: Vec<i64> = numbers.collect::<TractResult<_>>()?;
    Ok(Tensor::from_shape(value.shape(), &numbers)?.into_tvalue())
}

/// The same of several values.
pub(crate) fn all_in_numbers(
    values: TVec<TValue>,
    symbols: &SymbolValues,
) -> TractResult<TVec<TValue>> {
    let numbers = values.into_iter().map(|value| in_numbers(value, symbols));
    numbers.collect()
}

/// An output with this type and shape; sizes that are already known stay.
pub(crate) fn inferred_output(
    known: &InferenceFact,
    datum_type: DatumType,
    mut shape: TVec<TDim>,
) -> InferenceFact {
    for (size, known) in std::iter::zip(&mut shape, known.shape.dims()) {
        if let Some(known) = known.concretize() {
            *size = known;
        }
    }
    InferenceFact::from(&datum_type.fact(shape))
}

/// An axis counted from the first; ONNX counts negative ones from the last.
pub(crate) fn axis(axis: i64, rank: usize) -> TractResult<usize> {
    let from_first = if axis < 0 { axis + rank as i64 } else { axis };
    let from_first = usize::try_from(from_first).ok().filter(|it| *it < rank);
    from_first.with_context(|| {
        let last = rank as i64 - 1;
        format!(
            "its axis is {axis}, expected one from {} to {last}",
            -1 - last
        )
    })
}
