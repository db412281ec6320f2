//! What a pass says of a node.

use crate::model::{NodeProto, ValueInfoProto};

/// A pass's decision about a node: what replaces it, or that it stays.
pub(crate) type Verdict = Result<Edit, Left>;

pub(crate) use Left::Other;

/// That a pass leaves a node alone.
pub(crate) enum Left {
    /// The pass does not apply to it.
    Other,
    /// The pass applies but leaves it alone, for this reason.
    Because(String),
    /// The pass may take it once no pass finds anything else: others know it as it is written, or prove more of
    /// what it reads.
    Later,
}

impl From<String> for Left {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

impl From<&str> for Left {
    fn from(why: &str) -> Self {
        Self::Because(why.to_owned())
    }
}

/// A node's replacement. It produces all of the node's outputs that are read, under the same names.
#[derive(Default)]
pub(crate) struct Edit {
    pub(crate) nodes: Vec<NodeProto>,
    /// Later nodes of the graph that it also replaces.
    pub(crate) also: Vec<usize>,
    /// Declarations of the nodes' outputs.
    pub(crate) declared: Vec<ValueInfoProto>,
    /// Outputs that equal another value.
    pub(crate) same: Vec<(String, String)>,
    /// Its description for the report.
    pub(crate) what: String,
}
