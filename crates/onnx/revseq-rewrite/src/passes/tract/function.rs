//! Calls of the model's own functions, to their bodies.
//!
//! A call in the main graph is replaced by the nodes of its function, and the calls among these in
//! the next round. [`check_expansion`] has refused functions that call themselves, or expand to too
//! much, before the pass runs. A function of another version of ONNX's operators is inlined unless
//! it has an operator whose meaning differs between both.

use std::collections::{HashMap, HashSet};

use super::edit;
use super::inline::Inline;
use crate::Error;
use crate::model::{FunctionProto, ModelProto, NodeProto, all_nodes, opset};
use crate::pass::{At, Other, Pass, Verdict};

pub(crate) const PASS: Pass = Pass::exact(
    "function",
    "A call of one of the model's functions, to the nodes of that",
    find,
);

/// The most nodes that a model's functions may expand to.
const MAXIMUM_NODES: usize = 1_000_000;

/// The maximum depth of calls.
const MAXIMUM_CALLS: usize = 64;

/// The domain, name and overload by which a function is called.
type Key<'a> = (&'a str, &'a str, &'a str);

fn key(function: &FunctionProto) -> Key<'_> {
    let overload = function.overload.as_deref().unwrap_or_default();
    (function.domain(), function.name(), overload)
}

fn called(node: &NodeProto) -> Key<'_> {
    let overload = node.overload.as_deref().unwrap_or_default();
    (node.domain(), node.op(), overload)
}

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let mut functions = at.context.model.functions.iter();
    let function = functions.find(|function| key(function) == called(node));
    let function = function.ok_or(Other)?;
    // Nested calls are inlined after their caller.
    if scope.is_in_function() {
        return Err(Other);
    }
    if let Some(operator) = changed_meaning(function, scope.opset) {
        return Err(format!(
            "it is of version {} of ONNX's operators, in which {operator} is another than in the \
             model's {}",
            opset(&function.opset_import),
            scope.opset
        )
        .into());
    }
    let attributes = function.attribute_proto.iter().chain(&node.attribute);
    let attributes = attributes.map(|attribute| (attribute.name(), attribute));
    let inputs = function.input.iter().enumerate().map(|(input, name)| {
        let argument = node.input(input).unwrap_or_default();
        (name.clone(), argument.to_owned())
    });
    let outputs = function.output.iter().enumerate().map(|(output, name)| {
        let wanted = node.output.get(output).cloned().unwrap_or_default();
        (name.clone(), wanted)
    });
    let prefix = format!("{}/{}", node.label(at.index), node.op());
    let nodes = Inline::function(prefix, at.names, inputs, attributes.collect())
        .nodes(&function.node, outputs);
    let what = match nodes.len() {
        1 => "its node".to_owned(),
        count => format!("its {count} nodes"),
    };
    edit(nodes, what)
}

/// Operators that changed their meaning in an opset, without a change of form.
const CHANGED: [(&str, i64); 3] = [("Hardmax", 13), ("LogSoftmax", 13), ("Softmax", 13)];

/// An operator of a function that means something else in another opset.
fn changed_meaning(function: &FunctionProto, version: i64) -> Option<&'static str> {
    let uses = |operator: &str| all_nodes(&function.node).any(|node| node.is(operator));
    let own = opset(&function.opset_import);
    let mut changed = CHANGED.iter();
    let is_other =
        |&&(operator, since): &&(&str, i64)| (own < since) != (version < since) && uses(operator);
    changed.find(is_other).map(|(operator, _)| *operator)
}

/// Checks that the functions can be inlined: they are not recursive, and do not expand too much.
pub(crate) fn check_expansion(model: &ModelProto) -> Result<(), Error> {
    let own: HashMap<Key<'_>, &[NodeProto]> = model
        .functions
        .iter()
        .map(|function| (key(function), function.node.as_slice()))
        .collect();
    let main = model.graph.as_option().map_or(&[][..], |graph| &graph.node);
    let mut sizes: HashMap<Key<'_>, usize> = HashMap::new();
    for _ in 0..=MAXIMUM_CALLS {
        let next: HashMap<Key<'_>, usize> = own
            .iter()
            .map(|(&key, nodes)| (key, expanded(nodes, &sizes)))
            .collect();
        if next == sizes {
            if expanded(main, &sizes) > MAXIMUM_NODES {
                break;
            }
            return Ok(());
        }
        sizes = next;
    }
    Err(Error::Functions {
        nodes: MAXIMUM_NODES,
        depth: MAXIMUM_CALLS,
    })
}

/// The number of nodes after inlining, given the sizes of functions.
fn expanded(nodes: &[NodeProto], sizes: &HashMap<Key<'_>, usize>) -> usize {
    nodes.iter().fold(0_usize, |sum, node| {
        let called = sizes.get(&called(node)).copied().unwrap_or(0);
        let within = node.graphs().map(|graph| expanded(&graph.node, sizes));
        // The call itself counts as well, so that deeper calls are always larger.
        within.chain([1, called]).fold(sum, usize::saturating_add)
    })
}

/// Removes uncalled functions and takes over their opset imports.
pub(crate) fn remove_uncalled(model: &mut ModelProto) {
    if model.functions.is_empty() {
        return;
    }
    let main = model.graph.as_option().map_or(&[][..], |graph| &graph.node);
    // A function that stays may call others: unless none stays, all do.
    let calls: HashSet<Key<'_>> = all_nodes(main).map(called).collect();
    if model.functions.iter().any(|it| calls.contains(&key(it))) {
        return;
    }
    for function in std::mem::take(&mut model.functions) {
        for import in function.opset_import {
            let mut known = model.opset_import.iter();
            if !known.any(|known| known.domain() == import.domain()) {
                model.opset_import.push(import);
            }
        }
    }
}
