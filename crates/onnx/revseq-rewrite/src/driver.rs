//! Runs passes over a model.
//!
//! A round looks at every node of every graph, inner graphs first, and then applies all edits that
//! the pass has found. Each edit makes equal values under the same names, so none of them
//! invalidates another. Dead nodes go after each round, since a later pass asks how often a value
//! is read. A pass is done when a round finds nothing, and the rewrite when no pass finds anything. A
//! pass may leave a node for later, until then.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::captured;
use crate::declared;
use crate::error::Error;
use crate::live::Unread;
use crate::masked;
use crate::model::{
    self, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto, all_nodes,
    default_import, opset,
};
use crate::pass::{At, Context, Edit, Left, Options, Pass};
use crate::path::{Path, graph_at};
use crate::rename::{identity, rename};
use crate::report::{Outcome, Report, Step};
use crate::runtimes::{self, Runtime};
use crate::scope::{Names, Scope};

/// The most rounds of a pass in its turn: one round may enable the next. What is left is done in
/// the next turn.
const MAXIMUM_ROUNDS: usize = 100;

/// The most turns of all passes: one pass may enable another, also an earlier one.
pub(crate) const MAXIMUM_TURNS: usize = 100;

/// The first IR version in which an initializer need not be an input. An initializer that is one is
/// a default since.
const INITIALIZERS_ALONE: i64 = 4;

/// Rewrites a model. All passes run in their order until none of them changes anything, so that
/// rewriting the result changes nothing either.
///
/// # Errors
///
/// If they do not come to an end, or the runtime is unknown.
pub(crate) fn rewrite(
    model: &mut ModelProto,
    passes: &[&'static Pass],
    options: &Options,
) -> Result<Report, Error> {
    let inputs = input_names(model);
    let captured = captured::values(model);
    let mut driver = Driver {
        options,
        runtime: runtimes::find(options)?,
        unread: Unread::of(model),
        are_fixed: options.assume.constant_initializers
            || model.ir_version.unwrap_or(0) < INITIALIZERS_ALONE,
        names: Names::new(model),
        written: HashSet::new(),
        is_swept: false,
    };
    let mut all: Vec<PassSteps> = passes.iter().map(|_| PassSteps::default()).collect();
    // Once a pass changes loops, the reasons of the others are about what it has written.
    let mut are_reasons_known = false;
    // A turn in which nothing is found is followed by one for what passes have left for later, up to a change.
    let mut waits = true;
    let is_settled = (0..MAXIMUM_TURNS).any(|_| {
        let mut is_changed = false;
        for (pass, steps) in std::iter::zip(passes, &mut all) {
            if !waits && (is_changed || !steps.is_waiting) {
                continue;
            }
            let keeps_reasons = are_reasons_known && !pass.keeps_loops;
            let earlier = keeps_reasons.then(|| std::mem::take(&mut steps.left));
            let changes = driver.settle(model, pass, waits, steps);
            if let Some(earlier) = earlier {
                steps.left = earlier;
            }
            are_reasons_known |= changes && pass.keeps_loops;
            is_changed |= changes;
        }
        let has_later = waits && all.iter().any(|steps| steps.is_waiting);
        waits = is_changed;
        !is_changed && !has_later
    });
    if !is_settled {
        let steps = all.iter().map(|steps| steps.rewritten.len()).sum();
        return Err(Error::Endless { steps });
    }
    all.iter_mut().for_each(PassSteps::forget_rewritten);
    let mut report = Report {
        steps: all
            .into_iter()
            .flat_map(|steps| steps.rewritten.into_iter().chain(steps.left))
            .collect(),
        removed_inputs: Vec::new(),
    };
    if report.rewritten().next().is_some() {
        import(model);
        captured::protect(model, &captured, &driver.names);
        declared::forget(model, &driver.written);
    }
    let kept: HashSet<String> = input_names(model).into_iter().collect();
    let is_removed = |name: &String| !kept.contains(name);
    report.removed_inputs = inputs.into_iter().filter(is_removed).collect();
    Ok(report)
}

fn input_names(model: &ModelProto) -> Vec<String> {
    let graph = model.graph.as_option().into_iter();
    graph
        .flat_map(GraphProto::inputs)
        .map(str::to_owned)
        .collect()
}

/// A model's rewriting in progress.
struct Driver<'o> {
    options: &'o Options,
    runtime: Option<&'static Runtime>,
    unread: Unread,
    /// Whether the initializers of the main graph that are inputs as well are constants.
    are_fixed: bool,
    names: Names,
    /// The names of the nodes written by passes.
    written: HashSet<String>,
    /// Whether the model was swept since it changed.
    is_swept: bool,
}

/// The steps of a pass.
#[derive(Default)]
struct PassSteps {
    /// The nodes that it rewrote, in all its turns.
    rewritten: Vec<Step>,
    /// The nodes that it left alone in its last turn.
    left: Vec<Step>,
    /// Whether it left a node for later.
    is_waiting: bool,
}

impl PassSteps {
    /// Drops the reasons to leave nodes that were rewritten in the end.
    fn forget_rewritten(&mut self) {
        let rewritten = &self.rewritten;
        self.left
            .retain(|left| !rewritten.iter().any(|step| step.is_of_node(left)));
    }
}

impl Driver<'_> {
    /// Runs a pass until it changes nothing; whether it changed anything.
    fn settle(
        &mut self,
        model: &mut ModelProto,
        pass: &'static Pass,
        waits: bool,
        steps: &mut PassSteps,
    ) -> bool {
        for round in 0..MAXIMUM_ROUNDS {
            let Round {
                edits,
                left,
                is_waiting,
            } = self.look(model, pass, waits);
            let is_done = edits.is_empty();
            let rewritten = edits.iter().map(|placed| placed.step.clone());
            steps.rewritten.extend(rewritten);
            steps.left = left;
            steps.is_waiting = is_waiting;
            if !is_done {
                let declared = edits.iter().flat_map(|placed| &placed.edit.declared);
                self.unread.know(declared.map(ValueInfoProto::name));
                apply(model, edits, &mut self.written);
                self.is_swept = false;
            }
            if !self.is_swept {
                self.unread.sweep(model, self.are_fixed);
                self.is_swept = true;
            }
            if is_done {
                return round > 0;
            }
        }
        true
    }

    /// Runs a pass over every node of a model.
    fn look(&self, model: &ModelProto, pass: &'static Pass, waits: bool) -> Round {
        let mut look = Look {
            driver: self,
            pass,
            context: Context::new(self.options, model, waits),
            round: Round::default(),
        };
        if let Some(scope) = Scope::main(model, self.are_fixed) {
            look.scope(&scope, &Path::default(), &[]);
        }
        let main = opset(&model.opset_import);
        for (index, function) in model.functions.iter().enumerate() {
            let own = default_import(&function.opset_import)
                .map_or(main, |import| import.version.unwrap_or(1));
            let scope = Scope::function_body(function, own);
            let label = format!("function {}", function.name());
            look.scope(&scope, &Path::function(index), &[label]);
        }
        look.round
    }
}

/// A replacement and its place.
struct Placed {
    path: Path,
    index: usize,
    edit: Edit,
    step: Step,
}

#[derive(Default)]
struct Round {
    edits: Vec<Placed>,
    left: Vec<Step>,
    /// Whether the pass leaves a node for later.
    is_waiting: bool,
}

/// A pass on its way over a model.
struct Look<'a> {
    driver: &'a Driver<'a>,
    pass: &'static Pass,
    context: Context<'a>,
    round: Round,
}

impl Look<'_> {
    fn scope(&mut self, scope: &Scope<'_>, path: &Path, labels: &[String]) {
        for (index, node) in scope.nodes.iter().enumerate() {
            let edits = self.round.edits.len();
            for (number, graph) in node.graphs().enumerate() {
                let mut inner_labels = labels.to_vec();
                inner_labels.push(node.label(index));
                let inner = Scope::graph(graph, Some(scope), scope.opset);
                self.scope(&inner, &path.inner(index, number), &inner_labels);
            }
            // A replacement would have the graphs as they were.
            let are_changed = self.round.edits.len() > edits;
            if are_changed || !self.pass.is_for(node) {
                continue;
            }
            let verdict = (self.pass.find)(&At {
                scope,
                node,
                index,
                context: &self.context,
                names: &self.driver.names,
            });
            let verdict = verdict.and_then(|edit| {
                let lacking = self.driver.runtime.and_then(|it| it.refusal(&edit));
                match lacking.or_else(|| self.context.refusal(scope, node)) {
                    Some(why) => Err(why.into()),
                    None => Ok(edit),
                }
            });
            let step = |outcome| Step {
                pass: self.pass.info.name,
                exactness: self.pass.info.exactness,
                graph: labels.to_vec(),
                node: node.label(index),
                operator: node.op().to_owned(),
                outcome,
            };
            match verdict {
                Err(Left::Other) => {}
                Err(Left::Later) => self.round.is_waiting = true,
                Err(Left::Because(why)) => self.round.left.push(step(Outcome::LeftAlone(why))),
                Ok(edit) => {
                    let step = step(Outcome::Rewritten(edit.what.clone()));
                    self.round.edits.push(Placed {
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

/// Applies replacements. Each one produces the same values under the same names, so all those found
/// in one round are valid together.
fn apply(model: &mut ModelProto, edits: Vec<Placed>, written: &mut HashSet<String>) {
    let nodes = edits.iter().flat_map(|placed| &placed.edit.nodes);
    written.extend(nodes.filter_map(|node| node.name.clone()));
    let mut graphs: BTreeMap<Path, BTreeMap<usize, Edit>> = BTreeMap::new();
    for placed in edits {
        let of_graph = graphs.entry(placed.path).or_default();
        of_graph.insert(placed.index, placed.edit);
    }
    // Inner graphs first, so that indices on the path to them stay valid.
    for (path, edits) in graphs.into_iter().rev() {
        let graph = graph_at(model, &path);
        let declared = edits.values().flat_map(|edit| &edit.declared);
        graph.declared.extend(declared.cloned());
        replace(graph.nodes, &graph.kept, edits);
        share(graph.nodes, &graph.kept, written);
    }
}

/// Merges nodes written by passes that compute the same value: two passes, or two edits of one, ask
/// for the same constants and shapes. The model's own nodes stay as they were written, and so do nodes
/// with graphs, which may draw random numbers.
fn share(nodes: &mut Vec<NodeProto>, kept: &HashSet<String>, written: &HashSet<String>) {
    let mut first: HashMap<Vec<u8>, Vec<String>> = HashMap::new();
    let mut renamed: HashMap<String, String> = HashMap::new();
    nodes.retain_mut(|node| {
        let is_written = node
            .name
            .as_ref()
            .is_some_and(|name| written.contains(name));
        let is_alone = node.graphs().next().is_some();
        if !is_written || is_alone || node.output.iter().any(|output| kept.contains(output)) {
            return true;
        }
        for input in &mut node.input {
            if let Some(new) = renamed.get(input) {
                input.clone_from(new);
            }
        }
        let Some(what) = model::computation(node, node.input.clone()) else {
            return true;
        };
        match first.entry(what) {
            Entry::Occupied(earlier) => {
                renamed.extend(std::iter::zip(node.output.clone(), earlier.get().clone()));
                false
            }
            Entry::Vacant(place) => {
                place.insert(node.output.clone());
                true
            }
        }
    });
    if !renamed.is_empty() {
        rename(nodes, &renamed);
    }
}

/// Replaces nodes of a graph. Readers of a value that became another one of the graph are redirected,
/// unless the value is visible elsewhere or a subgraph shadows the other's name.
fn replace(nodes: &mut Vec<NodeProto>, kept: &HashSet<String>, mut edits: BTreeMap<usize, Edit>) {
    edits.values_mut().for_each(keep_names);
    let mut same: HashMap<String, String> = HashMap::new();
    for (old, new) in edits.values().flat_map(|edit| &edit.same) {
        let new = last(&same, new);
        same.insert(old.clone(), new);
    }
    let mut renamed: HashMap<String, String> = HashMap::new();
    for old in same.keys() {
        renamed.insert(old.clone(), last(&same, old));
    }
    let mut handed_on = HashSet::new();
    if !renamed.is_empty() {
        captured(nodes, &renamed, &HashSet::new(), &mut handed_on);
        handed_on.extend(same.into_keys().filter(|old| kept.contains(old)));
    }
    let gone: HashSet<usize> = edits
        .values()
        .flat_map(|edit| &edit.also)
        .copied()
        .collect();
    for (index, node) in std::mem::take(nodes).into_iter().enumerate() {
        if let Some(edit) = edits.remove(&index) {
            nodes.extend(edit.nodes);
            let handed_on = edit.same.iter().filter(|(old, _)| handed_on.contains(old));
            nodes.extend(handed_on.map(|(old, _)| identity(&renamed[old], old)));
        } else if !gone.contains(&index) {
            nodes.push(node);
        }
    }
    renamed.retain(|old, _| !handed_on.contains(old));
    if !renamed.is_empty() {
        rename(nodes, &renamed);
    }
}

/// Gives values that a replacement makes the names of the outputs that they are, so that what reads these
/// stays as it is.
fn keep_names(edit: &mut Edit) {
    let made: HashSet<&str> = edit.nodes.iter().flat_map(NodeProto::outputs).collect();
    let inner = edit.nodes.iter().flat_map(NodeProto::graphs);
    let inner: HashSet<&str> = inner
        .flat_map(GraphProto::with_inner)
        .flat_map(GraphProto::defined)
        .collect();
    let mut names: HashMap<String, String> = HashMap::new();
    edit.same.retain_mut(|(old, new)| match names.get(&*new) {
        Some(kept) => {
            new.clone_from(kept);
            true
        }
        None if made.contains(&**new) && !made.contains(&**old) && !inner.contains(&**old) => {
            names.insert(new.clone(), old.clone());
            false
        }
        None => true,
    });
    rename(&mut edit.nodes, &names);
    for output in edit.nodes.iter_mut().flat_map(|node| &mut node.output) {
        if let Some(old) = names.get(&*output) {
            output.clone_from(old);
        }
    }
}

/// Follows a chain of replaced values to its end.
fn last(same: &HashMap<String, String>, name: &str) -> String {
    let mut name = name;
    for _ in 0..same.len() {
        let Some(next) = same.get(name) else { break };
        name = next;
    }
    name.to_owned()
}

/// Finds the values that are read where a subgraph shadows their new name. `inner` holds the names
/// that subgraphs define on the way there.
fn captured(
    nodes: &[NodeProto],
    names: &HashMap<String, String>,
    inner: &HashSet<&str>,
    shadowed: &mut HashSet<String>,
) {
    let mut read = |name: &str| {
        if !inner.contains(name)
            && let Some(new) = names.get(name)
            && inner.contains(new.as_str())
        {
            shadowed.insert(name.to_owned());
        }
    };
    for node in nodes {
        node.inputs().for_each(&mut read);
        node.graphs()
            .flat_map(GraphProto::outputs)
            .for_each(&mut read);
    }
    for graph in nodes.iter().flat_map(NodeProto::graphs) {
        let mut inner = inner.clone();
        inner.extend(graph.defined());
        captured(&graph.node, names, &inner, shadowed);
    }
}

/// Imports ONNX's operators where a replacement needs them, and drops imports that are no longer
/// used.
fn import(model: &mut ModelProto) {
    for (domain, version) in [("", opset(&model.opset_import)), (masked::DOMAIN, 1)] {
        let uses = |nodes: &[NodeProto]| all_nodes(nodes).any(|node| node.domain() == domain);
        let graph = model.graph.as_option();
        let mut is_used = graph.is_some_and(|graph| uses(&graph.node));
        for function in &mut model.functions {
            let is_own = uses(&function.node);
            fix_imports(&mut function.opset_import, (domain, version), is_own);
            is_used |= is_own;
        }
        fix_imports(&mut model.opset_import, (domain, version), is_used);
    }
}

fn fix_imports(
    imports: &mut Vec<OperatorSetIdProto>,
    (domain, version): (&str, i64),
    is_used: bool,
) {
    // The version of ONNX's own operators stays.
    imports.retain(|it| is_used || domain.is_empty() || it.domain() != domain);
    if is_used && imports.iter().all(|it| it.domain() != domain) {
        imports.push(OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
            ..OperatorSetIdProto::default()
        });
    }
}
