//! The provider that ONNX Runtime gave each node of a session, from its own record. The crate `ort`
//! has no safe form of that part of the C API.
#![expect(unsafe_code, reason = "calls of ONNX Runtime's C API")]

use std::ffi::{CStr, c_char};
use std::{ptr, slice};

use ort::session::Session;
use ort::sys::{OrtEpAssignedNode, OrtEpAssignedSubgraph};
use ort::{AsPointer, ortsys};

/// The session's option to keep the record; `1` for yes.
pub(super) const RECORD: &str = "session.record_ep_graph_assignment_info";

/// A node, of the model's graphs or of a function that was inlined, and its provider.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) domain: String,
    pub(super) op_type: String,
    pub(super) name: String,
    pub(super) provider: String,
}

/// All nodes of a session that was made with [`RECORD`], except those that were folded.
///
/// # Errors
/// The session has no record.
pub(super) fn assigned(session: &Session) -> ort::Result<Vec<Assigned>> {
    let mut found = Vec::new();
    // SAFETY: the session is valid and owns the objects of the record's handles.
    unsafe {
        for &subgraph in subgraphs(session)? {
            let provider = provider(subgraph)?;
            for &node in nodes(subgraph)? {
                let (mut domain, mut op_type, mut name) = (ptr::null(), ptr::null(), ptr::null());
                ortsys![unsafe EpAssignedNode_GetDomain(node, &mut domain)?];
                ortsys![unsafe EpAssignedNode_GetOperatorType(node, &mut op_type)?];
                ortsys![unsafe EpAssignedNode_GetName(node, &mut name)?];
                found.push(Assigned {
                    domain: text(domain),
                    op_type: text(op_type),
                    name: text(name),
                    provider: provider.clone(),
                });
            }
        }
    }
    Ok(found)
}

fn subgraphs(session: &Session) -> ort::Result<&[*const OrtEpAssignedSubgraph]> {
    let (mut first, mut count) = (ptr::null(), 0);
    ortsys![unsafe Session_GetEpGraphAssignmentInfo(session.ptr(), &mut first, &mut count)?];
    // SAFETY: the session has `count` of them, for as long as it lives.
    Ok(unsafe { array(first, count) })
}

/// # Safety
/// The subgraph's session outlives the result.
unsafe fn nodes<'a>(
    subgraph: *const OrtEpAssignedSubgraph,
) -> ort::Result<&'a [*const OrtEpAssignedNode]> {
    let (mut first, mut count) = (ptr::null(), 0);
    ortsys![unsafe EpAssignedSubgraph_GetNodes(subgraph, &mut first, &mut count)?];
    // SAFETY: the subgraph has `count` of them, for as long as its session lives.
    Ok(unsafe { array(first, count) })
}

/// # Safety
/// The subgraph's session lives.
unsafe fn provider(subgraph: *const OrtEpAssignedSubgraph) -> ort::Result<String> {
    let mut provider = ptr::null();
    ortsys![unsafe EpAssignedSubgraph_GetEpName(subgraph, &mut provider)?];
    // SAFETY: it is a string of the session's.
    Ok(unsafe { text(provider) })
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
