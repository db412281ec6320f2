//! The checks that a model must pass before any runtime sees it.
//!
//! The rules are those of onnx/docs/IR.md and of ONNX's checker that runtimes
//! rely on without checking: every name is defined, once; nodes have an order in
//! which they can run (so there is no cycle); tensors hold the data that their
//! types and shapes promise; and external data stays in the model's folder.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use buffa::UnknownFieldData;

use crate::model::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto,
    ValueInfoProto, all_nodes, tensor_shape_proto::dimension::Value as DimValue, tensor_type,
};
use crate::tensor::check_rank;
use crate::{Error, axes, external, order, tensor};

/// The number of the field `type` of AttributeProto (onnx.proto).
const ATTRIBUTE_TYPE: u32 = 20;

/// Checks a model: names, the order of nodes, tensors, and where external data is.
///
/// # Errors
/// The first thing that does not hold, and where.
pub fn check(model: &ModelProto) -> Result<(), Error> {
    check_model(model).map_err(Error::invalid)
}

fn check_model(model: &ModelProto) -> Result<()> {
    let graph = model
        .graph
        .as_option()
        .context("it has no graph: it is not an ONNX model")?;
    let mut versions = HashMap::new();
    for import in &model.opset_import {
        let domain = import.domain();
        let version = import.version();
        // Tools that join models list a set once for each.
        let known = versions.insert(domain, version).unwrap_or(version);
        ensure!(
            known == version,
            "it imports the operator set {domain:?} in the versions {known} and {version}"
        );
        ensure!(
            version > 0,
            "it imports version {version} of the operator set {domain:?}"
        );
    }
    check_functions(&model.functions)?;
    ensure!(!graph.output.is_empty(), "its graph has no outputs");
    check_graph(graph, "graph", &[], false)
}

fn check_functions(functions: &[FunctionProto]) -> Result<()> {
    let mut known = HashMap::new();
    for (index, function) in functions.iter().enumerate() {
        let key = (function.domain(), function.name());
        ensure!(!key.1.is_empty(), "it has a function without a name");
        ensure!(
            known.insert(key, index).is_none(),
            "it has the function {}::{} twice",
            key.0,
            key.1
        );
    }
    for function in functions {
        let path = format!("function {}::{}", function.domain(), function.name());
        let mut names = HashSet::new();
        for input in &function.input {
            define(&mut names, input).with_context(|| format!("{path}: input"))?;
        }
        check_nodes(&function.node, &path, &mut names, &[], true, &Ranks::new())?;
        for output in &function.output {
            ensure!(
                names.contains(output.as_str()),
                "{path}: no node produces its output {output:?}"
            );
        }
    }
    check_calls(functions, &known)
}

/// Checks that no function calls itself, directly or not.
fn check_calls(functions: &[FunctionProto], known: &HashMap<(&str, &str), usize>) -> Result<()> {
    let called = |function: &FunctionProto| {
        let calls = all_nodes(&function.node).map(|node| (node.domain(), node.op()));
        calls.filter_map(|call| known.get(&call).copied()).collect()
    };
    let called: Vec<Vec<usize>> = functions.iter().map(called).collect();
    if let Err(index) = order::topological(&called) {
        let (domain, name) = (functions[index].domain(), functions[index].name());
        bail!("its function {domain}::{name} calls itself");
    }
    Ok(())
}

fn check_graph(
    graph: &GraphProto,
    path: &str,
    outer: &[&HashSet<&str>],
    in_function: bool,
) -> Result<()> {
    let is_main = outer.is_empty() && !in_function;
    let mut names = HashSet::new();
    for input in &graph.input {
        define(&mut names, input.name()).with_context(|| format!("{path}: input"))?;
        check_value_info(input).with_context(|| format!("{path}: input {:?}", input.name()))?;
        ensure!(
            !is_main || input.r#type.is_set(),
            "{path}: input {:?} has no type",
            input.name()
        );
    }
    let mut initialized = HashSet::new();
    for name in graph.constants() {
        define(&mut initialized, name).with_context(|| format!("{path}: initializer"))?;
        // Before version 4 of the format, initializers had to be inputs as well.
        names.insert(name);
    }
    for initializer in &graph.initializer {
        check_tensor(initializer)
            .with_context(|| format!("{path}: initializer {:?}", initializer.name()))?;
    }
    check_nodes(
        &graph.node,
        path,
        &mut names,
        outer,
        in_function,
        &ranks(graph, is_main),
    )?;
    let mut outputs = HashSet::new();
    for output in &graph.output {
        if !is_main {
            // Outputs of a body are identified by position: it may output a value twice.
            outputs.clear();
        }
        define(&mut outputs, output.name()).with_context(|| format!("{path}: output"))?;
        check_value_info(output).with_context(|| format!("{path}: output {:?}", output.name()))?;
        ensure!(
            names.contains(output.name()),
            "{path}: no node produces its output {:?}",
            output.name()
        );
    }
    for value in &graph.value_info {
        check_value_info(value).with_context(|| format!("{path}: value {:?}", value.name()))?;
    }
    Ok(())
}

/// The ranks of a graph's values, as far as they are known.
type Ranks<'a> = HashMap<&'a str, usize>;

/// The ranks of a graph's constants, and of the main graph's inputs: what bodies declare may be stale.
fn ranks(graph: &GraphProto, is_main: bool) -> Ranks<'_> {
    let inputs = graph.input.iter().filter(|_| is_main);
    let inputs = inputs.filter_map(|input| {
        let shape = tensor_type(input)?.shape.as_option()?;
        Some((input.name(), shape.dim.len()))
    });
    let constants = graph.initializer.iter();
    let constants = constants.map(|tensor| (tensor.name(), tensor.dims.len()));
    inputs.chain(constants).collect()
}

/// Adds a name that has to be new.
fn define<'a>(names: &mut HashSet<&'a str>, name: &'a str) -> Result<()> {
    ensure!(!name.is_empty(), "it has no name");
    ensure!(names.insert(name), "{name:?} is defined twice");
    Ok(())
}

fn check_nodes<'a>(
    nodes: &'a [NodeProto],
    path: &str,
    names: &mut HashSet<&'a str>,
    outer: &[&HashSet<&str>],
    in_function: bool,
    ranks: &Ranks<'_>,
) -> Result<()> {
    let at = |index: usize| format!("{path}/{}", nodes[index].label(index));
    for (index, node) in nodes.iter().enumerate() {
        for output in node.outputs() {
            define(names, output).with_context(|| format!("{}: output", at(index)))?;
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        ensure!(!node.op().is_empty(), "{}: it has no operator", at(index));
        for input in node.inputs() {
            let is_known = names.contains(input) || outer.iter().any(|scope| scope.contains(input));
            ensure!(
                is_known,
                "{}: its input {input:?} does not exist",
                at(index)
            );
        }
        check_attributes(node, &at(index), names, outer, in_function)?;
        check_body(node).with_context(|| at(index))?;
        check_transpose(node).with_context(|| at(index))?;
        check_axes(node, ranks).with_context(|| at(index))?;
    }
    if let Err(index) = order::sorted(nodes) {
        bail!("{}: its input depends on its own output", at(index));
    }
    Ok(())
}

/// Checks that the inputs and outputs of a Loop or a Scan are those of its body: a body's input that
/// is an initializer as well is a constant, which nothing feeds.
fn check_body(node: &NodeProto) -> Result<()> {
    let Some(body) = node.graph("body").filter(|_| node.domain().is_empty()) else {
        return Ok(());
    };
    let is_constant = |name: &str| body.tensors().any(|tensor| tensor == name);
    let constant = body.inputs().find(|name| is_constant(name));
    let fed = body.inputs().filter(|name| !is_constant(name)).count();
    let count = node.input.len();
    let is_fed = match node.op() {
        // The number of a step and the condition are always there.
        "Loop" => fed == count.max(2),
        // Version 8 has lengths before them.
        "Scan" => fed == count || constant.is_none() && fed + 1 == count,
        _ => return Ok(()),
    };
    let but = match constant {
        Some(name) => format!(" besides {name:?}, which is an initializer, too"),
        None => String::new(),
    };
    ensure!(is_fed, "it has {count} inputs, but its body has {fed}{but}");
    if let ("Scan", Some(scanned)) = (node.op(), node.int("num_scan_inputs").value()) {
        let states = usize::try_from(scanned)
            .ok()
            .and_then(|scanned| fed.checked_sub(scanned));
        ensure!(
            states.is_some_and(|states| states <= body.output.len()),
            "num_scan_inputs is {scanned}, but its body has {fed} inputs and {} outputs",
            body.output.len()
        );
    }
    Ok(())
}

/// Checks that a Transpose has each axis once: tract never stops looking for
/// moves that make anything else.
fn check_transpose(node: &NodeProto) -> Result<()> {
    let Some(perm) = node.ints("perm").value().filter(|_| node.is("Transpose")) else {
        return Ok(());
    };
    check_rank(perm.len()).context("perm")?;
    let mut axes = perm.to_vec();
    axes.sort_unstable();
    ensure!(
        axes.into_iter().eq(0..perm.len() as i64),
        "perm is {perm:?}, expected each of 0 to {} once",
        perm.len() - 1
    );
    Ok(())
}

/// Knowledge of a node before anything is inferred.
struct Declared<'a> {
    node: &'a NodeProto,
    ranks: &'a Ranks<'a>,
}

impl axes::Known for Declared<'_> {
    fn integers(&self, attribute: &str) -> Option<Vec<i64>> {
        let attribute = self
            .node
            .attribute
            .iter()
            .find(|it| it.name() == attribute)?;
        match attribute.r#type {
            _ if !attribute.reference().is_empty() => None,
            Some(AttributeType::INT) => Some(vec![attribute.i.unwrap_or(0)]),
            Some(AttributeType::INTS) => Some(attribute.ints.clone()),
            _ => None,
        }
    }

    fn rank(&self, input: usize) -> Option<usize> {
        self.ranks
            .get(self.node.input.get(input)?.as_str())
            .copied()
    }

    fn elements(&self, _input: usize) -> Option<Vec<i64>> {
        None
    }
}

fn check_axes(node: &NodeProto, ranks: &Ranks<'_>) -> Result<()> {
    if !node.domain().is_empty() {
        return Ok(());
    }
    let declared = Declared { node, ranks };
    axes::check(node.op(), node.input.len(), &declared).map_err(anyhow::Error::msg)
}

fn check_attributes(
    node: &NodeProto,
    at: &str,
    names: &HashSet<&str>,
    outer: &[&HashSet<&str>],
    in_function: bool,
) -> Result<()> {
    let mut attributes = HashSet::new();
    for attribute in &node.attribute {
        define(&mut attributes, attribute.name()).with_context(|| format!("{at}: attribute"))?;
        let within = || format!("{at}: attribute {:?}", attribute.name());
        ensure!(
            in_function || attribute.reference().is_empty(),
            "{}: it refers to a function's attribute, but this is no function",
            within()
        );
        check_attribute_type(attribute).with_context(within)?;
        for tensor in attribute.all_tensors() {
            check_tensor(tensor).with_context(within)?;
        }
        for graph in attribute.all_graphs() {
            let path = format!("{at}/{}", attribute.name());
            let scopes = [&[names], outer].concat();
            check_graph(graph, &path, &scopes, in_function)?;
        }
    }
    Ok(())
}

/// Checks that an attribute has the value that its type says.
fn check_attribute_type(attribute: &AttributeProto) -> Result<()> {
    if !attribute.reference().is_empty() {
        return Ok(());
    }
    match attribute.r#type {
        Some(AttributeType::TENSOR) => ensure!(attribute.t.is_set(), "it has no tensor"),
        Some(AttributeType::GRAPH) => ensure!(attribute.g.is_set(), "it has no graph"),
        Some(AttributeType::SPARSE_TENSOR) => {
            ensure!(attribute.sparse_tensor.is_set(), "it has no sparse tensor");
        }
        Some(_) => {}
        None => {
            // A type that this version of ONNX lacks is decoded as an unknown field.
            let mut unknown = attribute.__buffa_unknown_fields.iter();
            if let Some(field) = unknown.find(|field| field.number == ATTRIBUTE_TYPE)
                && let UnknownFieldData::Varint(code) = field.data
            {
                bail!("its type {code} is unknown");
            }
        }
    }
    Ok(())
}

fn check_tensor(tensor: &TensorProto) -> Result<()> {
    tensor::checked(tensor)?;
    if tensor.is_external() {
        external::location(tensor)?;
    }
    Ok(())
}

/// Checks the sizes of a declared type: they and their product have to be sizes.
fn check_value_info(value: &ValueInfoProto) -> Result<()> {
    let Some(shape) = tensor_type(value).and_then(|tensor| tensor.shape.as_option()) else {
        return Ok(());
    };
    check_rank(shape.dim.len())?;
    let mut elements: i64 = 1;
    for (dimension, dim) in shape.dim.iter().enumerate() {
        let size = match dim.value {
            // Exporters such as Paddle's write -1 for a size that is not known.
            None | Some(DimValue::DimParam(_) | DimValue::DimValue(-1)) => continue,
            Some(DimValue::DimValue(size)) => size,
        };
        ensure!(size >= 0, "its dimension {dimension} has size {size}");
        // Elements are of up to 16 bytes.
        elements = elements
            .checked_mul(size.max(1))
            .filter(|&elements| elements <= i64::MAX / 16)
            .context("its sizes are more than memory can address")?;
    }
    Ok(())
}
