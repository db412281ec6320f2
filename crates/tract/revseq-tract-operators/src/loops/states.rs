//! The shapes of states, which may change from step to step.
//!
//! A body is typed for assumed shapes, and the shapes after the step refine these, until a step no
//! longer contradicts them (`infer.rs`). Each round makes symbols of further sizes, so it ends.
//! Ranks do not change: the caller has checked that.
//!
//! ```text
//! state [1, 8], each step appends a row: assumed [1, 8], found [2, 8], then [loop_size, 8] holds
//! ```

use tract_onnx::tract_hir::internal::*;

/// Assumptions about the shapes of states in a body.
///
/// Every size is first assumed to be fixed. A size that a step changes becomes a symbol. Sizes
/// share a symbol as long as they start equal and stay equal.
#[derive(Clone, Debug)]
pub(crate) struct StateShapes {
    current: Vec<TVec<TDim>>,
    varying: Vec<Symbol>,
}

impl StateShapes {
    /// States that keep their initial shapes.
    pub(crate) fn new(initial: Vec<TVec<TDim>>) -> Self {
        Self {
            current: initial,
            varying: vec![],
        }
    }

    /// The shape of a state in the body.
    pub(crate) fn of(&self, state: usize) -> &[TDim] {
        &self.current[state]
    }

    /// Whether a size may change at each step.
    pub(crate) fn varies(&self, dim: &TDim) -> bool {
        dim.symbols().iter().any(|it| self.varying.contains(it))
    }

    /// Whether any size may change at each step.
    pub(crate) fn any_varies(&self) -> bool {
        !self.varying.is_empty()
    }

    /// Assumes that every size changes on its own.
    pub(crate) fn vary_all(&mut self, scope: &SymbolScope) {
        for dim in self.current.iter_mut().flatten() {
            let symbol = scope.new_with_prefix("loop_size");
            *dim = symbol.to_dim();
            self.varying.push(symbol);
        }
    }

    /// Refines the assumptions by the shapes after a step; `true` if they hold.
    pub(crate) fn refine(&mut self, after: &[TVec<TDim>], scope: &SymbolScope) -> bool {
        let pairs = || {
            let states = std::iter::zip(&self.current, after);
            states.flat_map(|(before, after)| std::iter::zip(before, after))
        };
        // Sizes that become symbols: fixed ones that changed, and varying ones that differ after
        // the step from the first of those they equalled before it.
        let mut replaced: Vec<((TDim, TDim), Symbol)> = vec![];
        for (before, after) in pairs() {
            let stays = if self.varies(before) {
                let first = pairs().find(|(it, _)| *it == before);
                first.is_some_and(|(_, first)| first == after)
            } else {
                before == after
            };
            let pair = (before.clone(), after.clone());
            if !stays && replaced.iter().all(|(known, _)| *known != pair) {
                replaced.push((pair, scope.new_with_prefix("loop_size")));
            }
        }
        for (before, after) in std::iter::zip(&mut self.current, after) {
            for (before, after) in std::iter::zip(before, after) {
                let replacement = replaced
                    .iter()
                    .find(|((b, a), _)| b == before && a == after);
                if let Some((_, symbol)) = replacement {
                    *before = symbol.to_dim();
                }
            }
        }
        self.varying
            .extend(replaced.iter().map(|(_, symbol)| symbol.clone()));
        replaced.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_change_alike_share_a_symbol() {
        let scope = SymbolScope::default();
        let dim = |size: usize| size.to_dim();
        let mut shapes = StateShapes::new(vec![
            tvec![dim(1), dim(8)],
            tvec![dim(1), dim(8)],
            tvec![dim(1)],
            tvec![dim(1)],
        ]);
        // The first two grow alike, the third by 2, and the fourth stays.
        let after = |shapes: &StateShapes| {
            let grown = |state: usize, by: usize| shapes.of(state)[0].clone() + by;
            vec![
                tvec![grown(0, 1), dim(8)],
                tvec![grown(1, 1), dim(8)],
                tvec![grown(2, 2)],
                tvec![shapes.of(3)[0].clone()],
            ]
        };
        assert!(!shapes.refine(&after(&shapes), &scope));
        assert!(shapes.refine(&after(&shapes), &scope));
        assert_eq!(shapes.of(0), shapes.of(1));
        assert_ne!(shapes.of(0)[0], shapes.of(2)[0]);
        assert!(shapes.varies(&shapes.of(0)[0]) && shapes.varies(&shapes.of(2)[0]));
        assert_eq!(shapes.of(3)[0], dim(1));
        assert_eq!(shapes.of(0)[1], dim(8));
    }

    #[test]
    fn sizes_that_a_step_separates_get_new_symbols() {
        let scope = SymbolScope::default();
        let one = || tvec![1.to_dim()];
        let mut shapes = StateShapes::new(vec![one(), one()]);
        // Both become 2, and from then on the second follows the first.
        assert!(!shapes.refine(&[tvec![2.to_dim()], tvec![2.to_dim()]], &scope));
        assert_eq!(shapes.of(0), shapes.of(1));
        let grown = shapes.of(0)[0].clone() + 1;
        let stays = shapes.of(0)[0].clone();
        assert!(!shapes.refine(&[tvec![grown], tvec![stays]], &scope));
        assert_ne!(shapes.of(0), shapes.of(1));
    }
}
