//! A report of a rewrite, node by node.
//!
//! The driver adds a step for each node that a pass applies to: what it became, or why it was left
//! alone. Passes run again and again, so a node that was left alone is listed for the last look
//! only. How equal the outputs are follows from the passes that rewrote something.

/// Degree to which the outputs equal those of the original model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Exactness {
    /// Equality bit for bit.
    Exact,
    /// Equality up to rounding: the same numbers are added in another order.
    Rounding,
}

/// What is said of layers that refuse an empty batch, and of those that also refuse no steps.
pub(crate) const REFUSES_EMPTY: [&str; 2] = [
    "; an empty batch is an error",
    "; an empty batch or no steps are an error",
];

/// The result for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node was rewritten, to this.
    Rewritten(String),
    /// The node was left alone, for this reason.
    LeftAlone(String),
}

/// The result of a pass for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Step {
    /// The pass's name.
    pub pass: &'static str,
    /// The exactness of the pass's results.
    pub exactness: Exactness,
    /// The place of the node: the names of the enclosing nodes or function.
    pub graph: Vec<String>,
    /// The node's name, or its operator and index.
    pub node: String,
    /// The node's operator.
    pub operator: String,
    /// The result.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, serialize_with = "serialize_outcome")
    )]
    pub outcome: Outcome,
}

/// Writes `result`, which is `rewritten`, with `to`, or `left alone`, with `reason`.
#[cfg(feature = "serde")]
fn serialize_outcome<S: serde::Serializer>(
    outcome: &Outcome,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match outcome {
        Outcome::Rewritten(to) => {
            serializer.collect_map([("result", "rewritten"), ("to", to.as_str())])
        }
        Outcome::LeftAlone(reason) => {
            serializer.collect_map([("result", "left alone"), ("reason", reason.as_str())])
        }
    }
}

impl Step {
    /// Whether it is about the same node as another.
    pub(crate) fn is_of_node(&self, other: &Self) -> bool {
        (&self.graph, &self.node) == (&other.graph, &other.node)
    }
}

/// All steps of a rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The inputs that are gone, each with the initializer that it listed: only replaced nodes read
    /// it, and no caller could set it.
    pub removed_inputs: Vec<String>,
}

impl Report {
    /// Adds what was done in a further turn, which leaves those nodes alone that still are. The reason of a node
    /// that one of the passes which keep loops has changed stays the one that it had.
    pub(crate) fn add_turn(&mut self, mut turn: Self, keeping_loops: &[&str]) {
        let is_done = |step: &Step| matches!(step.outcome, Outcome::Rewritten(_));
        let (done, left): (Vec<Step>, Vec<Step>) = self.steps.drain(..).partition(is_done);
        let is_changed = |node: &Step| {
            let mut done = done.iter().filter(|step| step.is_of_node(node));
            done.any(|step| keeping_loops.contains(&step.pass))
        };
        for step in turn.steps.iter_mut().filter(|step| !is_done(step)) {
            let mut left = left.iter().filter(|it| it.pass == step.pass);
            if let Some(earlier) = left.find(|it| it.is_of_node(step) && is_changed(it)) {
                step.outcome.clone_from(&earlier.outcome);
            }
        }
        self.steps = done;
        self.append(turn);
    }

    /// Adds what was done afterwards.
    pub(crate) fn append(&mut self, later: Self) {
        self.steps.extend(later.steps);
        self.removed_inputs.extend(later.removed_inputs);
    }

    /// Returns the nodes that were rewritten.
    pub fn rewritten(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::Rewritten(_)))
    }

    /// Returns the nodes that a pass applies to but left alone.
    pub fn left_alone(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::LeftAlone(_)))
    }

    /// Whether a layer of the rewritten model refuses an empty batch, which the nodes in its place may answer.
    #[must_use]
    pub fn refuses_empty_batch(&self) -> bool {
        self.rewritten().any(|step| match &step.outcome {
            Outcome::Rewritten(to) => REFUSES_EMPTY.iter().any(|words| to.contains(words)),
            Outcome::LeftAlone(_) => false,
        })
    }

    /// Returns how equal the rewritten model's outputs are.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        if self
            .rewritten()
            .all(|step| step.exactness == Exactness::Exact)
        {
            Exactness::Exact
        } else {
            Exactness::Rounding
        }
    }
}
