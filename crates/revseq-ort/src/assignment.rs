//! Which provider has each node of a session.

use std::ffi::{CStr, c_char};
use std::ptr;

use ort::session::Session;
use ort::{AsPointer, ortsys};

use crate::{Error, NAME};

/// The entry of a session's configuration for which ONNX Runtime keeps this record.
pub(crate) const RECORD: &str = "session.record_ep_graph_assignment_info";

/// The provider's operators, of which none may be with another one: elsewhere they have another meaning, or
/// none.
const OPERATORS: [(&str, &str); 2] = [("", "ReverseSequence"), ("revseq", "ReverseSubsequences")];

/// A node, and the provider that has it. Nodes that a provider fused are listed one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The provider's name, such as [`NAME`] or `CPUExecutionProvider`.
    pub provider: String,
    /// The domain of the node's operator; ONNX's own is empty.
    pub domain: String,
    /// The operator's name.
    pub operator: String,
    /// The node's name.
    pub node: String,
}

/// Lists which provider has each node of a session that a [`Provider`](crate::Provider) made, or whose
/// configuration has the entry `session.record_ep_graph_assignment_info`.
///
/// # Errors
/// If ONNX Runtime has no such record of the session.
pub fn assigned(session: &Session) -> Result<Vec<Assigned>, Error> {
    let mut all = Vec::new();
    let (mut parts, mut count) = (ptr::null(), 0);
    ortsys![unsafe Session_GetEpGraphAssignmentInfo(session.ptr(), &mut parts, &mut count)?];
    for index in 0..count {
        let (mut provider, mut nodes, mut node_count) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the session has so many parts, and outlives this function.
        let part = unsafe { *parts.add(index) };
        ortsys![unsafe EpAssignedSubgraph_GetEpName(part, &mut provider)?];
        ortsys![unsafe EpAssignedSubgraph_GetNodes(part, &mut nodes, &mut node_count)?];
        for index in 0..node_count {
            let (mut domain, mut operator, mut name) = (ptr::null(), ptr::null(), ptr::null());
            // SAFETY: the part has so many nodes.
            let node = unsafe { *nodes.add(index) };
            ortsys![unsafe EpAssignedNode_GetDomain(node, &mut domain)?];
            ortsys![unsafe EpAssignedNode_GetOperatorType(node, &mut operator)?];
            ortsys![unsafe EpAssignedNode_GetName(node, &mut name)?];
            // SAFETY: all are strings of the session's.
            let [provider, domain, operator, node] =
                [provider, domain, operator, name].map(|it| unsafe { text(it) });
            all.push(Assigned {
                provider,
                domain,
                operator,
                node,
            });
        }
    }
    Ok(all)
}

/// Checks that every node of the provider's operators is with it, and returns how many nodes it has.
///
/// # Errors
/// [`Error::Elsewhere`] with the others, and as [`assigned`].
pub fn check(session: &Session) -> Result<usize, Error> {
    let assigned = assigned(session)?;
    let is_ours = |it: &&Assigned| OPERATORS.contains(&(&*it.domain, &*it.operator));
    let elsewhere = assigned.iter().filter(|it| it.provider != NAME);
    let nodes: Vec<String> = elsewhere
        .filter(is_ours)
        .map(|it| format!("{} {:?} is with {}", it.operator, it.node, it.provider))
        .collect();
    match nodes.is_empty() {
        true => Ok(assigned.iter().filter(|it| it.provider == NAME).count()),
        false => Err(Error::Elsewhere { nodes }),
    }
}

/// # Safety
/// `from` is a string that ends with a zero.
unsafe fn text(from: *const c_char) -> String {
    // SAFETY: the caller's string.
    unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned()
}
