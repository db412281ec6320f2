//! Every node of a model, wherever it is.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, ensure};
use revseq_graph::Operator;
use revseq_onnx::model::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto,
};

use super::values::{ValueType, propagate};
use super::{Bindings, Model};

/// The most nodes that are walked: functions that call functions multiply.
const MAXIMUM_NODES: usize = if cfg!(fuzzing) { 10_000 } else { 1_000_000 };

/// Number of calls of functions that may be nested.
const MAXIMUM_CALLS: usize = 64;

/// A node where it runs: a function's once for every call.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// Path to the node: the labels of the nodes and the names of the attributes around it.
    pub(crate) path: String,
    pub(crate) node: &'a NodeProto,
    /// The attributes that it sets; within a function, with the values of the call.
    pub(crate) attributes: Vec<(&'a str, &'a AttributeProto)>,
    /// The version of its domain's operator set; 0 if it is not imported.
    pub(crate) version: i64,
    pub(crate) inputs: Vec<ValueType>,
    pub(crate) outputs: Vec<ValueType>,
    /// Whether it calls one of the model's functions.
    pub(crate) is_call: bool,
    /// Whether it is in a function that nothing calls.
    pub(crate) is_dead: bool,
}

impl Site<'_> {
    /// The operator with its domain, unless that is ONNX's own.
    pub(crate) fn operator(&self) -> String {
        match self.node.domain() {
            "" => self.node.op().to_owned(),
            domain => format!("{domain}::{}", self.node.op()),
        }
    }
}

/// Calls a function with every node of the main graph, of the graphs inside
/// its nodes, of the functions it calls, and of functions that nothing calls.
///
/// # Errors
/// Functions that multiply beyond [`MAXIMUM_NODES`] or nest beyond [`MAXIMUM_CALLS`].
pub(crate) fn walk<'a>(
    model: &'a Model,
    bindings: &Bindings,
    mut visit: impl FnMut(Site<'a>),
) -> Result<()> {
    let functions = model.proto.functions.iter();
    let functions = functions.map(|it| ((it.domain(), it.name()), it)).collect();
    let mut walker = Walker {
        functions,
        called: HashSet::new(),
        bindings,
        nodes: 0,
        calls: 0,
        is_dead: false,
        visit: &mut visit,
    };
    let imports = &model.proto.opset_import;
    let context = Context {
        attributes: HashMap::new(),
        imports: &[imports],
    };
    walker.graph(model.graph(), "graph", &context, None)?;
    walker.is_dead = true;
    for function in &model.proto.functions {
        let key = (function.domain(), function.name());
        if !walker.called.contains(&key) {
            let path = format!("function {}::{}", key.0, key.1);
            let inputs = vec![ValueType::default(); function.input.len()];
            walker.function(function, &path, &[], imports, &inputs)?;
        }
    }
    Ok(())
}

/// Returns the nodes of our operators that can run.
///
/// # Errors
/// As [`walk`].
pub(crate) fn ours(model: &Model) -> Result<Vec<Site<'_>>> {
    let mut ours = Vec::new();
    walk(model, &Bindings::new(), |site| {
        let is_ours = Operator::is_known(site.node.domain(), site.node.op());
        if is_ours && !site.is_dead && !site.is_call {
            ours.push(site);
        }
    })?;
    Ok(ours)
}

struct Walker<'a, 'w> {
    functions: HashMap<(&'a str, &'a str), &'a FunctionProto>,
    called: HashSet<(&'a str, &'a str)>,
    bindings: &'w Bindings,
    nodes: usize,
    calls: usize,
    is_dead: bool,
    visit: &'w mut dyn FnMut(Site<'a>),
}

/// The context of the nodes of a function, or of the main graph.
struct Context<'a, 'c> {
    /// The function's attributes with the values of the call.
    attributes: HashMap<&'a str, &'a AttributeProto>,
    /// The operator sets, the nearest first.
    imports: &'c [&'a [OperatorSetIdProto]],
}

/// The types of a graph's values, and of those around it.
type Scope<'a, 's> = super::scope::Scope<'a, 's, ValueType>;

impl<'a> Walker<'a, '_> {
    fn graph(
        &mut self,
        graph: &'a GraphProto,
        path: &str,
        context: &Context<'a, '_>,
        outer: Option<&Scope<'a, '_>>,
    ) -> Result<()> {
        let mut declared = HashMap::new();
        for value in graph.value_info.iter().chain(&graph.output) {
            let value_type = ValueType::declared(value).bind(self.bindings);
            declared.insert(value.name(), value_type);
        }
        let mut scope = Scope {
            values: HashMap::new(),
            outer,
        };
        for input in &graph.input {
            let input_type = ValueType::declared(input).bind(self.bindings);
            scope.values.insert(input.name(), input_type);
        }
        for initializer in &graph.initializer {
            let value_type = ValueType::of_tensor(initializer);
            scope.values.insert(initializer.name(), value_type);
        }
        self.nodes(&graph.node, path, context, &declared, &mut scope)
    }

    fn nodes(
        &mut self,
        nodes: &'a [NodeProto],
        path: &str,
        context: &Context<'a, '_>,
        declared: &HashMap<&'a str, ValueType>,
        scope: &mut Scope<'a, '_>,
    ) -> Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            self.nodes += 1;
            ensure!(
                self.nodes <= MAXIMUM_NODES,
                "the model's functions expand to more than {MAXIMUM_NODES} nodes"
            );
            let path = format!("{path}/{}", node.label(index));
            let attributes = resolve(&node.attribute, &context.attributes);
            let inputs: Vec<ValueType> = node.input.iter().map(|name| scope.get(name)).collect();
            let outputs: Vec<ValueType> =
                std::iter::zip(&node.output, propagate(node, &attributes, &inputs))
                    .map(|(name, inferred)| {
                        declared
                            .get(name.as_str())
                            .cloned()
                            .unwrap_or_default()
                            .or(inferred)
                    })
                    .collect();
            for (name, value_type) in std::iter::zip(&node.output, &outputs) {
                scope.values.insert(name, value_type.clone());
            }
            let key = (node.domain(), node.op());
            let call = self.functions.get(&key).copied();
            let version = context
                .imports
                .iter()
                .find_map(|imports| imports.iter().find(|import| import.domain() == key.0))
                .map_or(0, |import| import.version());
            (self.visit)(Site {
                path: path.clone(),
                node,
                attributes: attributes.clone(),
                version,
                inputs: inputs.clone(),
                outputs,
                is_call: call.is_some(),
                is_dead: self.is_dead,
            });
            for (name, attribute) in &attributes {
                for graph in attribute.all_graphs() {
                    self.graph(graph, &format!("{path}/{name}"), context, Some(scope))?;
                }
            }
            if let Some(function) = call {
                self.called.insert(key);
                let imports = context.imports.last().copied().unwrap_or_default();
                let path = format!("{path}/{}", node.op());
                self.function(function, &path, &attributes, imports, &inputs)?;
            }
        }
        Ok(())
    }

    fn function(
        &mut self,
        function: &'a FunctionProto,
        path: &str,
        attributes: &[(&'a str, &'a AttributeProto)],
        model_imports: &'a [OperatorSetIdProto],
        inputs: &[ValueType],
    ) -> Result<()> {
        ensure!(
            self.calls < MAXIMUM_CALLS,
            "the model's functions call each other more than {MAXIMUM_CALLS} deep"
        );
        self.calls += 1;
        let defaults = function.attribute_proto.iter();
        let defaults = defaults.map(|default| (default.name(), default));
        let context = Context {
            attributes: defaults.chain(attributes.iter().copied()).collect(),
            imports: &[&function.opset_import, model_imports],
        };
        let names = function.input.iter().map(String::as_str);
        let mut scope = Scope {
            values: names.zip(inputs.iter().cloned()).collect(),
            outer: None,
        };
        self.nodes(&function.node, path, &context, &HashMap::new(), &mut scope)?;
        self.calls -= 1;
        Ok(())
    }
}

/// A node's attributes by name, those of the call in the place of references to them.
fn resolve<'a>(
    attributes: &'a [AttributeProto],
    call: &HashMap<&'a str, &'a AttributeProto>,
) -> Vec<(&'a str, &'a AttributeProto)> {
    attributes
        .iter()
        .filter_map(|attribute| {
            let value = match attribute.reference() {
                "" => attribute,
                // One that the call leaves out is left out here, too.
                name => call.get(name).copied()?,
            };
            Some((attribute.name(), value))
        })
        .collect()
}
