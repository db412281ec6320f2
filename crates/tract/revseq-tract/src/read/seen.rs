//! What inference has seen of this project's nodes.
//!
//! Inference also visits nodes in bodies of If, Loop and Scan, repeatedly and under different
//! assumptions, and discards the results. So the facts of our nodes' inputs are recorded when it
//! visits a node; the last visit counts.

use std::cell::RefCell;
use std::collections::HashMap;

use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::infer::InferenceFact;

/// A node by its path in the model and its first output, which distinguishes nodes of the same
/// name.
pub(super) type Key = (String, String);

thread_local! {
    /// The facts that the inference on this thread has recorded; `None` if it does not record.
    static SEEN: RefCell<Option<HashMap<Key, Vec<InferenceFact>>>> = const { RefCell::new(None) };
}

/// Calls `infer`; returns what it has seen, too.
pub(super) fn watch<T>(infer: impl FnOnce() -> T) -> (T, HashMap<Key, Vec<InferenceFact>>) {
    SEEN.set(Some(HashMap::new()));
    let inferred = infer();
    (inferred, SEEN.take().unwrap_or_default())
}

/// The key of one of our nodes that inference has named after its path.
pub(super) fn key(node: &NodeProto) -> Option<Key> {
    if !revseq_graph::Operator::is_known(&node.domain, &node.op_type) {
        return None;
    }
    Some((node.doc_string.clone(), node.output.first()?.clone()))
}

/// Whether the inference on this thread is for its own sake, and nothing is to run.
pub(super) fn is_watched() -> bool {
    SEEN.with_borrow(Option::is_some)
}

/// Records the facts of a node's inputs.
pub(super) fn record(key: &Key, inputs: &[&InferenceFact]) {
    SEEN.with_borrow_mut(|seen| {
        if let Some(seen) = seen {
            let inputs = inputs.iter().map(|&input| input.clone());
            seen.insert(key.clone(), inputs.collect());
        }
    });
}
