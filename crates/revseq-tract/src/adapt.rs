//! Fills in details that ONNX leaves open and tract requires.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto};

/// Completes a graph and its nested graphs: every node gets a unique name, and every output of a
/// Scan's body a separate node.
///
/// [`model_for_path`](crate::model_for_path) calls this; call it yourself to parse models with
/// your own operator register.
pub fn adapt(graph: &mut GraphProto) {
    let inputs = graph.input.iter().map(|input| input.name.clone());
    let mut taken: HashSet<String> = inputs
        .chain(graph.initializer.iter().map(|tensor| tensor.name.clone()))
        .collect();
    let mut next: HashMap<String, usize> = HashMap::new();
    for (index, node) in graph.node.iter_mut().enumerate() {
        let label = if node.name.is_empty() {
            format!("{}#{index}", node.op_type)
        } else {
            node.name.clone()
        };
        let mut name = label.clone();
        while !taken.insert(name.clone()) {
            let number = next.entry(label.clone()).or_insert(1);
            *number += 1;
            name = format!("{label}~{number}");
        }
        node.name = name;
        let is_scan = node.op_type == "Scan";
        let attributes = node.attribute.iter_mut();
        for inner in attributes.flat_map(|attribute| &mut attribute.g) {
            if is_scan {
                separate_outputs(inner);
            }
            adapt(inner);
        }
    }
}

/// Puts an Identity before every output of a Scan's body: tract adds the scan output's new axis at
/// the producing node, and so for the body's other nodes as well.
fn separate_outputs(body: &mut GraphProto) {
    let outputs = body.node.iter().flat_map(|node| &node.output);
    let inputs = body.input.iter().map(|input| &input.name);
    let stored = body.initializer.iter().map(|tensor| &tensor.name);
    let mut taken: HashSet<String> = outputs.chain(inputs).chain(stored).cloned().collect();
    for output in &mut body.output {
        let mut name = format!("{}~output", output.name);
        while !taken.insert(name.clone()) {
            name.push('~');
        }
        body.node.push(NodeProto {
            op_type: "Identity".to_owned(),
            input: vec![output.name.clone()],
            output: vec![name.clone()],
            ..NodeProto::default()
        });
        output.name = name;
    }
}
