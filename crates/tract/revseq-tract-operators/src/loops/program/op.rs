//! The operator of a program in typed models.

use recurrent_steps::Steps;
use tract_onnx::tract_hir::internal::*;

use super::other::Other;
use crate::limits::Limits;
use crate::loops::budget::timed;
use crate::typed_op::{Sizes, Stateless};

/// The name of [`Program`].
pub(crate) const PROGRAM: &str = "Program";

/// Reason why a loop is none where no program is made.
pub(crate) const NO_PROGRAMS: &str = "loops of this model are no programs";

/// What a program makes: the index of an output of the node, and what is known of it.
pub(crate) type Made = (usize, TypedFact);

/// A Loop or a Scan that runs as a program, which it makes for the sizes of a run. Copies share the programs,
/// and nothing else stays from run to run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The node's name, for messages.
    pub(super) node: String,
    pub(super) steps: Arc<Steps>,
    /// The input that each of the program's is.
    pub(super) reads: Vec<usize>,
    pub(super) outputs: Vec<Made>,
    pub(super) limits: Limits,
    /// What it stands for, whose inputs are the first ones.
    pub(super) other: Arc<Other>,
}

never_equal!(Program);

impl Stateless for Program {
    const NAME: &str = PROGRAM;
    const FOLDS: bool = false;

    fn defines_symbols(&self) -> bool {
        true
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        timed(self.limits, || self.run(ctx, inputs))
    }

    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let facts = self.outputs.iter().map(|(_, fact)| fact.clone());
        Ok(facts.collect())
    }

    fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        let mut op = self.clone();
        for (_, fact) in &mut op.outputs {
            *fact = fact.substituted(subs)?;
        }
        op.other = Arc::new(op.other.substituted(subs)?);
        Ok(op)
    }
}
