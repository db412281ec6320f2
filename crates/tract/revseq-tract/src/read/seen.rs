//! What inference has seen of this project's nodes.
//!
//! Inference also visits nodes in bodies of If, Loop and Scan, repeatedly and under different
//! assumptions, and discards the results. So the facts of our nodes' inputs are recorded when it
//! visits a node; the last visit counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use revseq_tract_operators::template;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::InferenceModel;
use tract_onnx::tract_hir::infer::InferenceFact;

/// A node by its path in the model and its first output, which distinguishes nodes of the same
/// name.
pub(super) type Key = (String, String);

/// The key of what is seen in a template.
const SEEN: &str = "revseq_tract.seen";

/// The facts that an inference has recorded. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<HashMap<Key, Vec<InferenceFact>>>>);

impl Seen {
    /// Watches the inference of a model that is made of this template.
    pub(super) fn watch(&self, template: &mut InferenceModel) {
        template::hand(template, SEEN, self.clone());
    }

    /// What watches the inference of a node that is parsed; `None` unless it is for its own sake, and nothing is
    /// to run.
    pub(super) fn of(context: &ParsingContext<'_>) -> Option<Self> {
        template::handed(context, SEEN).cloned()
    }

    /// Records the facts of a node's inputs.
    pub(super) fn record(&self, key: &Key, inputs: &[&InferenceFact]) {
        let inputs = inputs.iter().map(|&input| input.clone()).collect();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(key.clone(), inputs);
    }

    /// All that was recorded.
    pub(super) fn take(&self) -> HashMap<Key, Vec<InferenceFact>> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut seen)
    }
}

/// The key of one of our nodes that inference has named after its path.
pub(super) fn key(node: &NodeProto) -> Option<Key> {
    if !revseq_graph::Operator::is_known(&node.domain, &node.op_type) {
        return None;
    }
    Some((node.doc_string.clone(), node.output.first()?.clone()))
}
