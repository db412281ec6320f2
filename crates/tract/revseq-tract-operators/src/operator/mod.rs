//! One kind of operator: what a node does otherwise than in tract, and nothing else, is written down.
//!
//! An [`Operator`] says what it infers and how it is wired, and `None` where tract does well. It is asked
//! at each inference, since inputs become known bit by bit, and again when the node is wired: by then all
//! types and shapes are known, and the answer is final.
//!
//! It stands over tract's operator ([`over`]), or over another one if two things differ; the outermost is
//! asked first. Where tract has none (`own`), its facts are those of what it wires.

mod inferring;
mod mended;
mod read_as;
mod wiring;

pub use crate::node::Parsed;
pub use crate::register::parse;
pub use inferring::{Facts, Inferred, Inferring};
pub use mended::over;
pub(crate) use mended::{over_parsed, over_tract, own};
pub(crate) use read_as::{Input, ReadAs};
pub use wiring::{Wired, Wiring};

/// The behaviour of a node. A function that wires one is an operator, too.
pub trait Operator: Clone + Send + Sync + 'static {
    /// Whether the operator beneath may be evaluated and replaced while facts are inferred, without this
    /// one.
    const IS_TRANSPARENT: bool = false;

    /// Whether the operator beneath may compute the outputs of known inputs: not if its values differ.
    const COMPUTES: bool = true;

    /// Infers facts; `None` to infer like the operator beneath.
    ///
    /// # Errors
    /// The facts contradict each other, or the operator does not take them.
    fn infer(&self, _node: &mut Inferring<'_>) -> Inferred {
        Ok(None)
    }

    /// Wires the node into a typed model.
    ///
    /// # Errors
    /// The operator does not take its inputs.
    fn wire(&self, _node: &mut Wiring<'_>) -> Wired {
        Ok(None)
    }
}

impl<F> Operator for F
where
    F: Fn(&mut Wiring<'_>) -> Wired + Clone + Send + Sync + 'static,
{
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        self(node)
    }
}
