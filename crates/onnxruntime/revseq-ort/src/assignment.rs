//! Which provider has each node of a session, from ONNX Runtime's own record. The crate `ort` has no safe
//! form of that part of the C API.

use std::ffi::{CStr, c_char};
use std::{ptr, slice};

use ort::session::Session;
use ort::sys::{OrtEpAssignedNode, OrtEpAssignedSubgraph};
use ort::{AsPointer, ortsys};

use crate::{Error, NAME};

/// The entry of a session's configuration for which ONNX Runtime keeps the record of [`assigned`]; `1` for
/// yes.
pub const RECORD: &str = "session.record_ep_graph_assignment_info";

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
/// configuration has the entry [`RECORD`]: nodes of the model's graphs and of functions that were inlined,
/// except those that were folded.
///
/// # Errors
/// If ONNX Runtime has no such record of the session.
pub fn assigned(session: &Session) -> Result<Vec<Assigned>, Error> {
    let mut all = Vec::new();
    // SAFETY: the session is valid and owns the objects of the record's handles.
    unsafe {
        let (mut first, mut count) = (ptr::null(), 0);
        ortsys![unsafe Session_GetEpGraphAssignmentInfo(session.ptr(), &mut first, &mut count)?];
        for &part in array::<*const OrtEpAssignedSubgraph>(first, count) {
            let mut provider = ptr::null();
            ortsys![unsafe EpAssignedSubgraph_GetEpName(part, &mut provider)?];
            let (mut first, mut count) = (ptr::null(), 0);
            ortsys![unsafe EpAssignedSubgraph_GetNodes(part, &mut first, &mut count)?];
            for &node in array::<*const OrtEpAssignedNode>(first, count) {
                let (mut domain, mut operator, mut name) = (ptr::null(), ptr::null(), ptr::null());
                ortsys![unsafe EpAssignedNode_GetDomain(node, &mut domain)?];
                ortsys![unsafe EpAssignedNode_GetOperatorType(node, &mut operator)?];
                ortsys![unsafe EpAssignedNode_GetName(node, &mut name)?];
                all.push(Assigned {
                    provider: text(provider),
                    domain: text(domain),
                    operator: text(operator),
                    node: text(name),
                });
            }
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
/// There are `count` elements, valid for `'a`; `first` may be null if there are none.
unsafe fn array<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: the caller's array.
        _ => unsafe { slice::from_raw_parts(first, count) },
    }
}

/// # Safety
/// A string that ends with a zero.
unsafe fn text(from: *const c_char) -> String {
    // SAFETY: the caller's string.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_string_lossy().into_owned()
}
