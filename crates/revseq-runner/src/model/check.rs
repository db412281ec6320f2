//! The checks that a model must pass before any runtime sees it.
//!
//! The rules are those of onnx/docs/IR.md and of ONNX's checker that runtimes
//! rely on without checking: every name is defined, once; nodes have an order in
//! which they can run (so there is no cycle); tensors hold the data that their
//! types and shapes promise; and external data stays in the model's folder.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};

use super::{external, initializer_names, node_label, order};
use crate::tensor::{check_rank, pb};

/// Checks a model.
///
/// # Errors
/// The first thing that does not hold, and where.
pub(crate) fn check(model: &ModelProto) -> Result<()> {
    let graph = model
        .graph
        .as_ref()
        .context("it has no graph: it is not an ONNX model")?;
    let mut domains = HashSet::new();
    for import in &model.opset_import {
        let domain = canonical_domain(&import.domain);
        ensure!(
            domains.insert(domain),
            "it imports the operator set {domain:?} twice"
        );
        ensure!(
            import.version > 0,
            "it imports version {} of the operator set {domain:?}",
            import.version
        );
    }
    check_functions(&model.functions)?;
    ensure!(!graph.output.is_empty(), "its graph has no outputs");
    check_graph(graph, "graph", &[], false)
}

/// The domain's name, of which ONNX's own has two.
pub(crate) fn canonical_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

fn check_functions(functions: &[FunctionProto]) -> Result<()> {
    let mut known = HashMap::new();
    for function in functions {
        let key = (canonical_domain(function.domain()), function.name());
        ensure!(!key.1.is_empty(), "it has a function without a name");
        ensure!(
            known.insert(key, function).is_none(),
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
        check_nodes(&function.node, &path, &mut names, &[], true)?;
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
fn check_calls(
    functions: &[FunctionProto],
    known: &HashMap<(&str, &str), &FunctionProto>,
) -> Result<()> {
    // Remove functions that call only removed ones: the remaining ones are recursive.
    let mut callers: HashMap<(&str, &str), Vec<(&str, &str)>> = HashMap::new();
    let mut waiting_for: HashMap<(&str, &str), usize> = HashMap::new();
    for function in functions {
        let caller = (canonical_domain(function.domain()), function.name());
        let mut called = HashSet::new();
        collect_calls(&function.node, &mut |call| {
            if known.contains_key(&call) {
                called.insert(call);
            }
        });
        waiting_for.insert(caller, called.len());
        for call in called {
            callers.entry(call).or_default().push(caller);
        }
    }
    let mut ready: Vec<_> = waiting_for
        .iter()
        .filter(|(_, calls)| **calls == 0)
        .map(|(function, _)| *function)
        .collect();
    while let Some(function) = ready.pop() {
        waiting_for.remove(&function);
        for caller in callers.remove(&function).unwrap_or_default() {
            if let Some(calls) = waiting_for.get_mut(&caller) {
                *calls -= 1;
                if *calls == 0 {
                    ready.push(caller);
                }
            }
        }
    }
    match waiting_for.keys().min() {
        None => Ok(()),
        Some((domain, name)) => bail!("its function {domain}::{name} calls itself"),
    }
}

fn collect_calls<'a>(nodes: &'a [NodeProto], visit: &mut impl FnMut((&'a str, &'a str))) {
    for node in nodes {
        visit((canonical_domain(&node.domain), &node.op_type));
        for attribute in &node.attribute {
            for graph in attribute.g.iter().chain(&attribute.graphs) {
                collect_calls(&graph.node, visit);
            }
        }
    }
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
        define(&mut names, &input.name).with_context(|| format!("{path}: input"))?;
        check_value_info(input).with_context(|| format!("{path}: input {:?}", input.name))?;
        ensure!(
            !is_main || input.r#type.is_some(),
            "{path}: input {:?} has no type",
            input.name
        );
    }
    let mut initialized = HashSet::new();
    for name in initializer_names(graph) {
        define(&mut initialized, name).with_context(|| format!("{path}: initializer"))?;
        // Before version 4 of the format, initializers had to be inputs as well.
        names.insert(name);
    }
    for initializer in &graph.initializer {
        check_tensor(initializer)
            .with_context(|| format!("{path}: initializer {:?}", initializer.name))?;
    }
    check_nodes(&graph.node, path, &mut names, outer, in_function)?;
    let mut outputs = HashSet::new();
    for output in &graph.output {
        if !is_main {
            // Outputs of a body are identified by position: it may output a value twice.
            outputs.clear();
        }
        define(&mut outputs, &output.name).with_context(|| format!("{path}: output"))?;
        check_value_info(output).with_context(|| format!("{path}: output {:?}", output.name))?;
        ensure!(
            names.contains(output.name.as_str()),
            "{path}: no node produces its output {:?}",
            output.name
        );
    }
    for value in &graph.value_info {
        check_value_info(value).with_context(|| format!("{path}: value {:?}", value.name))?;
    }
    Ok(())
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
) -> Result<()> {
    let at = |index: usize| format!("{path}/{}", node_label(index, &nodes[index]));
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            define(names, output).with_context(|| format!("{}: output", at(index)))?;
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        ensure!(
            !node.op_type.is_empty(),
            "{}: it has no operator",
            at(index)
        );
        for input in node.input.iter().filter(|input| !input.is_empty()) {
            let is_known = names.contains(input.as_str())
                || outer.iter().any(|scope| scope.contains(input.as_str()));
            ensure!(
                is_known,
                "{}: its input {input:?} does not exist",
                at(index)
            );
        }
        check_attributes(node, &at(index), names, outer, in_function)?;
        check_scan(node).with_context(|| at(index))?;
        check_transpose(node).with_context(|| at(index))?;
    }
    if let Some(index) = order::find_circle(nodes) {
        bail!("{}: its input depends on its own output", at(index));
    }
    Ok(())
}

/// Checks that a Scan's numbers of inputs and outputs add up: the states and
/// the stacked outputs are the rest of its body's inputs and outputs.
fn check_scan(node: &NodeProto) -> Result<()> {
    let attribute = |name: &str| {
        node.attribute
            .iter()
            .find(|attribute| attribute.name == name)
    };
    let (Some(scanned), Some(body)) = (
        attribute("num_scan_inputs").filter(|scanned| scanned.ref_attr_name.is_empty()),
        attribute("body").and_then(|body| body.g.as_ref()),
    ) else {
        return Ok(());
    };
    // An initializer that is an input as well is a constant.
    let is_fed = |name: &str| body.initializer.iter().all(|tensor| tensor.name != name);
    let inputs = body.input.iter().filter(|input| is_fed(&input.name));
    let inputs = inputs.count();
    let states = usize::try_from(scanned.i)
        .ok()
        .and_then(|scanned| inputs.checked_sub(scanned));
    ensure!(
        node.op_type != "Scan" || states.is_some_and(|states| states <= body.output.len()),
        "num_scan_inputs is {}, but its body has {} inputs and {} outputs",
        scanned.i,
        inputs,
        body.output.len()
    );
    Ok(())
}

/// Checks that a Transpose has each axis once: tract never stops looking for
/// moves that make anything else.
fn check_transpose(node: &NodeProto) -> Result<()> {
    let is_transpose = node.op_type == "Transpose" && ["", "ai.onnx"].contains(&&*node.domain);
    let mut attributes = node.attribute.iter();
    let Some(perm) = attributes.find(|it| it.name == "perm" && is_transpose) else {
        return Ok(());
    };
    let perm = &perm.ints;
    check_rank(perm.len()).context("perm")?;
    let mut axes = perm.clone();
    axes.sort_unstable();
    ensure!(
        axes.into_iter().eq(0..perm.len() as i64),
        "perm is {perm:?}, expected each of 0 to {} once",
        perm.len() - 1
    );
    Ok(())
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
        define(&mut attributes, &attribute.name).with_context(|| format!("{at}: attribute"))?;
        let within = || format!("{at}: attribute {:?}", attribute.name);
        ensure!(
            in_function || attribute.ref_attr_name.is_empty(),
            "{}: it refers to a function's attribute, but this is no function",
            within()
        );
        check_attribute_type(attribute).with_context(within)?;
        for tensor in attribute.t.iter().chain(&attribute.tensors) {
            check_tensor(tensor).with_context(within)?;
        }
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            let mut scopes = Vec::with_capacity(outer.len() + 1);
            scopes.push(names);
            scopes.extend_from_slice(outer);
            check_graph(
                graph,
                &format!("{at}/{}", attribute.name),
                &scopes,
                in_function,
            )?;
        }
    }
    Ok(())
}

/// Checks that an attribute has the value that its type says.
fn check_attribute_type(attribute: &AttributeProto) -> Result<()> {
    if !attribute.ref_attr_name.is_empty() {
        return Ok(());
    }
    match AttributeType::try_from(attribute.r#type) {
        Ok(AttributeType::Tensor) => ensure!(attribute.t.is_some(), "it has no tensor"),
        Ok(AttributeType::Graph) => ensure!(attribute.g.is_some(), "it has no graph"),
        Ok(AttributeType::SparseTensor) => {
            ensure!(attribute.sparse_tensor.is_some(), "it has no sparse tensor");
        }
        Ok(_) => {}
        Err(_) => bail!("its type {} is unknown", attribute.r#type),
    }
    Ok(())
}

fn check_tensor(tensor: &TensorProto) -> Result<()> {
    pb::check(tensor)?;
    if pb::is_external(tensor) {
        external::location(tensor)?;
    }
    Ok(())
}

/// Checks the sizes of a declared type: they and their product have to be sizes.
fn check_value_info(value: &ValueInfoProto) -> Result<()> {
    let tensor = match value
        .r#type
        .as_ref()
        .and_then(|value_type| value_type.value.as_ref())
    {
        Some(TypeValue::TensorType(tensor)) => tensor,
        None => return Ok(()),
    };
    let Some(shape) = &tensor.shape else {
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
