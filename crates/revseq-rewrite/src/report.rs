//! What was done to a model, node by node.

/// How equal the outputs are to those of the model before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Exactness {
    /// Bit for bit.
    Exact,
    /// Up to rounding: the same numbers are added in another order.
    Rounding,
}

/// What became of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was rewritten, to this.
    Rewritten(String),
    /// It was left alone, because of this.
    LeftAlone(String),
}

/// What a pass did with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pass's name.
    pub pass: &'static str,
    /// How equal what it does is.
    pub exactness: Exactness,
    /// Where the node is: the names of the nodes around it, or of the function.
    pub graph: Vec<String>,
    /// The node's name, or its operator and place.
    pub node: String,
    /// The node's operator.
    pub operator: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// A flat object: `result` is `rewritten`, and `to` says to what, or `left alone`, and `reason`
/// says why.
#[cfg(feature = "serde")]
impl serde::Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut step = serializer.serialize_struct("Step", 7)?;
        step.serialize_field("pass", self.pass)?;
        step.serialize_field("exactness", &self.exactness)?;
        step.serialize_field("graph", &self.graph)?;
        step.serialize_field("node", &self.node)?;
        step.serialize_field("operator", &self.operator)?;
        match &self.outcome {
            Outcome::Rewritten(to) => {
                step.serialize_field("result", "rewritten")?;
                step.serialize_field("to", to)?;
            }
            Outcome::LeftAlone(reason) => {
                step.serialize_field("result", "left alone")?;
                step.serialize_field("reason", reason)?;
            }
        }
        step.end()
    }
}

/// What was done to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which it was done.
    pub steps: Vec<Step>,
}

impl Report {
    /// The nodes that were rewritten.
    pub fn rewritten(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::Rewritten(_)))
    }

    /// The nodes that a pass is about and left as they are.
    pub fn left_alone(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::LeftAlone(_)))
    }

    /// How equal the rewritten model's outputs are.
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
