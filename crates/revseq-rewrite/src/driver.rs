//! Takes passes over a model.

use std::collections::{HashMap, HashSet};

use crate::live::Unread;
use crate::model::{self, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use crate::passes::{self, Edit, Pass, Verdict};
use crate::report::{Outcome, Report, Step};
use crate::scope::{Names, Path, Scope};
use crate::{Error, Options};

/// How often a pass is taken over a model. What one round makes possible, the
/// next one does.
const MAXIMUM_ROUNDS: usize = 100;

/// The version of ONNX's operators that a function or model gets which has none.
const DEFAULT_OPSET: i64 = 13;

/// What a pass may look at beside the graph.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    model: &'a ModelProto,
}

impl Context<'_> {
    /// Whether every call of the function that a graph is in gives an attribute
    /// a value, or the function itself does.
    pub(crate) fn always_given(&self, scope: &Scope<'_>, attribute: &str) -> bool {
        let mut root = scope;
        while let Some(parent) = root.parent {
            root = parent;
        }
        let functions = &self.model.functions;
        let function = functions
            .iter()
            .position(|function| std::ptr::eq(function.node.as_slice(), root.nodes));
        // Functions do not call themselves, so no chain of calls is longer than this.
        function.is_some_and(|function| self.is_given(function, attribute, functions.len()))
    }

    fn is_given(&self, function: usize, attribute: &str, depth: usize) -> bool {
        let functions = &self.model.functions;
        let callee = &functions[function];
        let has_default = callee
            .attribute_proto
            .iter()
            .any(|default| default.name.as_deref() == Some(attribute));
        if has_default {
            return true;
        }
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        let gives = |caller: Option<usize>, call: &NodeProto| match call.attribute(attribute) {
            None => false,
            Some(given) => match given.ref_attr_name.as_deref().unwrap_or_default() {
                "" => true,
                outer => caller.is_some_and(|caller| self.is_given(caller, outer, depth)),
            },
        };
        let main = self
            .model
            .graph
            .as_option()
            .map_or(&[][..], |graph| &graph.node);
        all_calls(main, callee, &mut |call| gives(None, call))
            && functions.iter().enumerate().all(|(caller, function)| {
                all_calls(&function.node, callee, &mut |call| {
                    gives(Some(caller), call)
                })
            })
    }
}

/// Whether something holds of all calls of a function.
fn all_calls(
    nodes: &[NodeProto],
    callee: &FunctionProto,
    holds: &mut impl FnMut(&NodeProto) -> bool,
) -> bool {
    nodes.iter().all(|node| {
        let is_call = callee.name.as_deref() == Some(node.op())
            && callee.domain.as_deref().unwrap_or_default() == node.domain();
        (!is_call || holds(node))
            && node
                .graphs()
                .all(|graph| all_calls(&graph.node, callee, holds))
    })
}

/// Rewrites a model.
pub(crate) fn rewrite(model: &mut ModelProto, options: &Options) -> Result<Report, Error> {
    let passes = passes::select(options)?;
    let unread = Unread::of(model);
    let mut names = Names::new(model);
    let mut report = Report::default();
    for pass in passes {
        let mut rounds = 0;
        loop {
            let round = look(model, pass, options, &mut names);
            let done = round.edits.is_empty();
            report
                .steps
                .extend(round.edits.iter().map(|found| found.step.clone()));
            apply(model, round.edits);
            unread.sweep(model);
            rounds += 1;
            if done || rounds == MAXIMUM_ROUNDS {
                report.steps.extend(round.left);
                break;
            }
        }
    }
    if report.rewritten().next().is_some() {
        import(model);
    }
    forget_what_was_done_later(&mut report);
    Ok(report)
}

/// What one pass left alone and a later one rewrote, was not left alone.
fn forget_what_was_done_later(report: &mut Report) {
    let place = |step: &Step| (step.graph.clone(), step.node.clone());
    let mut done = HashSet::new();
    let steps = std::mem::take(&mut report.steps);
    for step in steps.into_iter().rev() {
        let is_done = matches!(step.outcome, Outcome::Rewritten(_));
        if is_done {
            done.insert(place(&step));
        }
        if is_done || !done.contains(&place(&step)) {
            report.steps.push(step);
        }
    }
    report.steps.reverse();
}

/// A replacement, and where.
struct Found {
    path: Path,
    index: usize,
    edit: Edit,
    step: Step,
}

#[derive(Default)]
struct Round {
    edits: Vec<Found>,
    left: Vec<Step>,
}

/// Takes a pass over every node of a model.
fn look(model: &ModelProto, pass: &'static Pass, options: &Options, names: &mut Names) -> Round {
    let mut look = Look {
        pass,
        names,
        round: Round::default(),
        context: Context { options, model },
    };
    if let Some(graph) = model.graph.as_option() {
        let scope = Scope::graph(graph, None, opset(&model.opset_import));
        look.scope(
            &scope,
            &Path {
                function: None,
                steps: Vec::new(),
            },
            &[],
        );
    }
    for (index, function) in model.functions.iter().enumerate() {
        let own = opset(&function.opset_import);
        let scope = Scope::function(function, own);
        let path = Path {
            function: Some(index),
            steps: Vec::new(),
        };
        let name = function.name.clone().unwrap_or_default();
        look.scope(&scope, &path, &[format!("function {name}")]);
    }
    look.round
}

struct Look<'a> {
    pass: &'static Pass,
    names: &'a mut Names,
    round: Round,
    context: Context<'a>,
}

impl Look<'_> {
    fn scope(&mut self, scope: &Scope<'_>, path: &Path, labels: &[String]) {
        for (index, node) in scope.nodes.iter().enumerate() {
            let mut inner_labels = labels.to_vec();
            inner_labels.push(node.label(index));
            for (number, graph) in node.graphs().enumerate() {
                let inner = Scope::graph(graph, Some(scope), scope.opset);
                let mut inner_path = path.clone();
                inner_path.steps.push((index, number));
                self.scope(&inner, &inner_path, &inner_labels);
            }
            let verdict = (self.pass.find)(scope, index, &self.context, self.names);
            let step = |outcome| Step {
                pass: self.pass.info.name,
                exactness: self.pass.info.exactness,
                graph: labels.to_vec(),
                node: node.label(index),
                operator: node.op().to_owned(),
                outcome,
            };
            match verdict {
                Verdict::Other => {}
                Verdict::Left(why) => self.round.left.push(step(Outcome::LeftAlone(why))),
                Verdict::Edit(edit) => {
                    let step = step(Outcome::Rewritten(edit.what.clone()));
                    self.round.edits.push(Found {
                        path: path.clone(),
                        index,
                        edit,
                        step,
                    });
                }
            }
        }
    }
}

/// Puts replacements in place. Each stands for one node and gives the same
/// values under the same names, so those that were found together hold together.
fn apply(model: &mut ModelProto, mut edits: Vec<Found>) {
    // Inner graphs first, and from each graph's end: no place shifts.
    edits.sort_by_key(|found| {
        let path = &found.path;
        std::cmp::Reverse((
            path.function,
            path.steps.len(),
            path.steps.clone(),
            found.index,
        ))
    });
    for found in edits {
        let (nodes, outputs) = nodes_at(model, &found.path);
        for output in &found.edit.also {
            nodes.retain(|node| node.output.first() != Some(output));
        }
        let mut replacement = found.edit.nodes;
        let mut renamed = HashMap::new();
        for (old, new) in found.edit.same {
            if outputs.contains(&old) {
                replacement.push(model::node("Identity", &[&new], &[&old], Vec::new()));
            } else {
                renamed.insert(old, new);
            }
        }
        nodes.splice(found.index..=found.index, replacement);
        if !renamed.is_empty() {
            rename(&mut nodes[found.index..], &renamed);
        }
    }
}

/// The nodes of a graph, and the names of its outputs.
fn nodes_at<'a>(model: &'a mut ModelProto, path: &Path) -> (&'a mut Vec<NodeProto>, Vec<String>) {
    let (mut nodes, mut outputs) = match path.function {
        Some(index) => {
            let function = &mut model.functions[index];
            (&mut function.node, function.output.clone())
        }
        None => graph_parts(model.graph.get_or_insert_default()),
    };
    for &(index, number) in &path.steps {
        let graph = nodes[index].graphs_mut().nth(number);
        (nodes, outputs) = graph_parts(graph.expect("the path was made from this model"));
    }
    (nodes, outputs)
}

fn graph_parts(graph: &mut GraphProto) -> (&mut Vec<NodeProto>, Vec<String>) {
    let outputs = graph
        .output
        .iter()
        .filter_map(|value| value.name.clone())
        .collect();
    (&mut graph.node, outputs)
}

/// Reads other values instead.
fn rename(nodes: &mut [NodeProto], names: &HashMap<String, String>) {
    for node in nodes {
        for input in &mut node.input {
            if let Some(new) = names.get(input) {
                input.clone_from(new);
            }
        }
        for graph in node.graphs_mut() {
            rename(&mut graph.node, names);
            for output in &graph.output.clone() {
                let Some(new) = output.name.as_ref().and_then(|name| names.get(name)) else {
                    continue;
                };
                // A value of the outer graph that the inner one hands back under its name.
                let old = output.name.clone().unwrap_or_default();
                graph
                    .node
                    .push(model::node("Identity", &[new], &[&old], Vec::new()));
            }
        }
    }
}

/// The version of ONNX's own operators.
pub(crate) fn opset(imports: &[OperatorSetIdProto]) -> i64 {
    default_import(imports).map_or(DEFAULT_OPSET, |import| import.version.unwrap_or(1))
}

fn default_import(imports: &[OperatorSetIdProto]) -> Option<&OperatorSetIdProto> {
    imports
        .iter()
        .find(|import| matches!(import.domain.as_deref().unwrap_or_default(), "" | "ai.onnx"))
}

/// Imports ONNX's operators where only others were used, and no longer those
/// that are not.
fn import(model: &mut ModelProto) {
    let uses = |nodes: &[NodeProto]| ["", "revseq"].map(|domain| uses_domain(nodes, domain));
    let mut all = [false; 2];
    for function in &mut model.functions {
        let used = uses(&function.node);
        fix_imports(&mut function.opset_import, used);
        all = [all[0] || used[0], all[1] || used[1]];
    }
    if let Some(graph) = model.graph.as_option() {
        let used = uses(&graph.node);
        all = [all[0] || used[0], all[1] || used[1]];
    }
    fix_imports(&mut model.opset_import, all);
}

fn fix_imports(imports: &mut Vec<OperatorSetIdProto>, [onnx, ours]: [bool; 2]) {
    if onnx && default_import(imports).is_none() {
        imports.push(OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(DEFAULT_OPSET),
            ..OperatorSetIdProto::default()
        });
    }
    imports.retain(|import| ours || import.domain.as_deref() != Some("revseq"));
}

fn uses_domain(nodes: &[NodeProto], domain: &str) -> bool {
    nodes.iter().any(|node| {
        node.domain() == domain || node.graphs().any(|graph| uses_domain(&graph.node, domain))
    })
}
