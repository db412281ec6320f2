//! What a pass is: below the passes themselves and the driver that takes them.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use crate::model::{self, FunctionProto, ModelProto, NodeProto};
use crate::report::Exactness;
use crate::scope::{Names, Scope};

/// What to do with a model.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Leave no ReverseSequence and no ReverseSubsequences.
    pub portable: bool,
    /// Make it cheaper to run.
    pub fast: bool,
    /// Bring it into the form that tract reads.
    pub tract: bool,
    /// Passes by name, besides.
    pub passes: Vec<String>,
    /// What the caller vouches for.
    pub assume: Assumptions,
}

/// What the caller vouches for, and a graph cannot prove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// In every mask the steps that count come first.
    pub right_padded: bool,
}

/// A pass, as it is described.
#[derive(Debug)]
pub struct PassInfo {
    /// Its name.
    pub name: &'static str,
    /// How equal what it does is.
    pub exactness: Exactness,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether it is one of those that leave no operator behind that a runtime may lack.
    pub portable: bool,
    /// Whether it is one of those that make models cheaper.
    pub fast: bool,
}

/// A pass.
pub(crate) struct Pass {
    pub(crate) info: PassInfo,
    /// Looks at a node.
    pub(crate) find: fn(&Scope<'_>, usize, &Context<'_>, &mut Names) -> Verdict,
}

/// What a pass has to say of a node.
pub(crate) enum Verdict {
    /// It is none that the pass is about.
    Other,
    /// It is, but is left alone: why.
    Left(String),
    /// It is replaced.
    Edit(Edit),
}

/// What takes a node's place. All of the node's outputs that are read are given
/// by it under the same names.
#[derive(Default)]
pub(crate) struct Edit {
    pub(crate) nodes: Vec<NodeProto>,
    /// Later nodes of the graph that it also replaces.
    pub(crate) also: Vec<usize>,
    /// Outputs that are the same as another value.
    pub(crate) same: Vec<(String, String)>,
    /// What it is, for the report.
    pub(crate) what: String,
}

/// What a pass may look at beside the graph.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) model: &'a ModelProto,
    /// Attributes of functions that some call leaves out, by function.
    missing: OnceCell<HashSet<(usize, &'a str)>>,
}

impl<'a> Context<'a> {
    /// What passes may look at beside the graphs of a model.
    pub(crate) fn new(options: &'a Options, model: &'a ModelProto) -> Self {
        Self {
            options,
            model,
            missing: OnceCell::new(),
        }
    }

    /// Whether every call of the function that a graph is in gives an attribute
    /// a value, or the function itself does.
    pub(crate) fn always_given(&self, scope: &Scope<'_>, attribute: &str) -> bool {
        let Some(index) = scope.function() else {
            return false;
        };
        let function = &self.model.functions[index];
        if defaults(function).any(|default| default == attribute) {
            return true;
        }
        // What a function does not declare, nothing gives.
        function
            .attribute
            .iter()
            .any(|declared| declared == attribute)
            && !self
                .missing
                .get_or_init(|| missing(self.model))
                .contains(&(index, attribute))
    }
}

/// The attributes for which a function itself has values.
fn defaults(function: &FunctionProto) -> impl Iterator<Item = &str> {
    let defaults = function.attribute_proto.iter();
    defaults.filter_map(|default| default.name.as_deref())
}

/// The attributes of functions that not every call gives, directly or because the
/// calling function's own attribute is one of them. Each call is looked at once.
fn missing(model: &ModelProto) -> HashSet<(usize, &str)> {
    let mut calls = Calls::default();
    for (index, function) in model.functions.iter().enumerate() {
        let domain = model::domain(function.domain.as_deref());
        let name = function.name.as_deref().unwrap_or_default();
        let overload = function.overload.as_deref().unwrap_or_default();
        calls
            .functions
            .insert((domain, name, overload), (index, function));
    }
    if let Some(graph) = model.graph.as_option() {
        calls.look(&graph.node, None);
    }
    for (index, function) in model.functions.iter().enumerate() {
        calls.look(&function.node, Some((index, function)));
    }
    let mut missing = HashSet::new();
    let mut new = calls.missing;
    while let Some(attribute) = new.pop() {
        if missing.insert(attribute) {
            new.extend(calls.passed_on.get(&attribute).into_iter().flatten());
        }
    }
    missing
}

/// What calls of functions give.
#[derive(Default)]
struct Calls<'a> {
    /// By domain, name and overload.
    functions: HashMap<(&'a str, &'a str, &'a str), (usize, &'a FunctionProto)>,
    /// Attributes that a call leaves out.
    missing: Vec<(usize, &'a str)>,
    /// For a function's own attribute those that it gives other functions as.
    passed_on: HashMap<(usize, &'a str), Vec<(usize, &'a str)>>,
}

impl<'a> Calls<'a> {
    /// Looks at the calls among the nodes of the main graph or of a function.
    fn look(&mut self, nodes: &'a [NodeProto], caller: Option<(usize, &'a FunctionProto)>) {
        for node in nodes {
            for graph in node.graphs() {
                self.look(&graph.node, caller);
            }
            let overload = node.overload.as_deref().unwrap_or_default();
            let callee = (node.domain(), node.op(), overload);
            let Some(&(index, function)) = self.functions.get(&callee) else {
                continue;
            };
            for attribute in &function.attribute {
                let place = (index, attribute.as_str());
                let given = node.attribute(attribute);
                let outer = given.map(|given| given.ref_attr_name.as_deref().unwrap_or_default());
                match (outer, caller) {
                    (Some(""), _) => {}
                    (Some(outer), Some((caller, function)))
                        if function.attribute.iter().any(|declared| declared == outer) =>
                    {
                        let passed_on = self.passed_on.entry((caller, outer));
                        passed_on.or_default().push(place);
                    }
                    (Some(outer), Some((_, function)))
                        if defaults(function).any(|default| default == outer) => {}
                    _ => self.missing.push(place),
                }
            }
        }
    }
}
