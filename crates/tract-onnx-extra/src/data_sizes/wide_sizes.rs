//! tract's operators with sizes of 64 bits.
//!
//! Only a known list of sizes is replaced; one from data is for `of_sizes`. Its
//! inferred fact stays int64, as its other readers expect.
//!
//! ```text
//! Reshape(x, [5000000000, 0])  gets TDim values; of int64, tract keeps 32 bits each
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::dims::in_dims;
use crate::operator::{Inferred, Inferring, Operator, Wired, Wiring};

/// The operator over one that reads one of its inputs as sizes.
///
/// tract casts them itself, and keeps 32 bits of each. Here it gets them in its own type of sizes.
#[derive(Clone, Debug)]
pub(crate) struct WideSizes {
    /// The input with the sizes.
    pub(crate) sizes: usize,
}

impl Operator for WideSizes {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let mut sizes: Vec<Option<InferenceFact>> = vec![None; node.inputs.len()];
        if let Some(value) = node.value(self.sizes) {
            sizes[self.sizes] = Some(InferenceFact::from(in_dims(&value)?));
        }
        node.with_others(&sizes).map(Some)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        if node
            .input(self.sizes)
            .is_ok_and(|fact| fact.konst.is_some())
        {
            let sizes = node.inputs[self.sizes];
            node.inputs[self.sizes] = node.cast("sizes", sizes, TDim::datum_type())?;
        }
        Ok(None)
    }
}
