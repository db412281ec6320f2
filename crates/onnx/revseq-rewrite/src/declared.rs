//! Keeps runtimes from computing with sizes that are declared of values between nodes.
//!
//! Nothing checks these, so they may be stale: of one sequence, say, from before the batch was made
//! dynamic. ONNX Runtime computes the Shape of a value while it loads a model if all of its sizes are
//! declared. That harms no model without such a Shape, but a pass may write one. So the numbers that are
//! declared of what new nodes depend on are removed, and runtimes infer them.

use std::collections::HashSet;

use crate::model::{ModelProto, NodeProto, ValueInfoProto};
use crate::origins::origins;
use revseq_onnx::forget_sizes;

/// Removes the declared sizes of the values on which nodes of these names depend. What the model's own
/// inputs and outputs are declared as stays, and what a loop outputs in a step: where there is none, ONNX
/// Runtime makes the sizes of an output of it.
pub(crate) fn forget(model: &mut ModelProto, written: &HashSet<String>) {
    let needed = origins(model, |node| match written.contains(node.name()) {
        true => node.inputs().collect(),
        false => Vec::new(),
    });
    let needed: HashSet<String> = needed.into_iter().map(str::to_owned).collect();
    if let Some(graph) = model.graph.as_option_mut() {
        forget_all(&mut graph.value_info, &needed);
        forget_within(&mut graph.node, &needed);
    }
    for function in &mut model.functions {
        forget_all(&mut function.value_info, &needed);
        forget_within(&mut function.node, &needed);
    }
}

fn forget_all<'a>(
    declared: impl IntoIterator<Item = &'a mut ValueInfoProto>,
    needed: &HashSet<String>,
) {
    let declared = declared.into_iter();
    declared
        .filter(|value| needed.contains(value.name()))
        .for_each(forget_sizes);
}

/// The same in the graphs of nodes.
fn forget_within(nodes: &mut [NodeProto], needed: &HashSet<String>) {
    for node in nodes {
        let has_branches = node.is("If");
        for graph in node.graphs_mut() {
            forget_all(&mut graph.value_info, needed);
            forget_all(&mut graph.input, needed);
            if has_branches {
                forget_all(&mut graph.output, needed);
            }
            forget_within(&mut graph.node, needed);
        }
    }
}
