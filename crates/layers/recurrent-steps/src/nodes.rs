//! Nodes of a body: which run, and what they say of states and constants.

use std::collections::HashSet;

use revseq_onnx::model::{self, DOUBLE, FLOAT};
use revseq_onnx::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};
use revseq_onnx::tensor;

use crate::body::State;

/// Leaves out the elements of constants, which are read.
pub(crate) fn without_constants(graph: &mut GraphProto) {
    graph.initializer.clear();
    for node in &mut graph.node {
        if node.is("Constant") {
            node.attribute.clear();
        }
        node.graphs_mut().for_each(without_constants);
    }
}

/// Casts doubles to floats where they are constant: exporters write the numbers of a formula so. `around` has the
/// constants around the graph.
pub(crate) fn without_doubles(
    graph: &mut GraphProto,
    around: impl Fn(&str) -> Option<TensorProto>,
) {
    let own = |name: &str| {
        let listed = graph.initializer.iter().find(|it| it.name() == name);
        let made = || {
            graph
                .node
                .iter()
                .find(|it| it.outputs().any(|it| it == name))
        };
        match (listed, graph.inputs().any(|it| it == name)) {
            (Some(tensor), _) => Some(tensor.clone()),
            (None, true) => None,
            (None, false) => match made() {
                Some(node) => value_of(node).filter(|_| node.is("Constant")),
                None => around(name),
            },
        }
    };
    let floats = |node: &NodeProto| {
        let is_cast = node.is("Cast") && node.int("to").value() == Some(FLOAT.into());
        let tensor = own(node.input(0).filter(|_| is_cast)?)?;
        as_floats(&tensor)
    };
    let nodes = graph.node.iter().enumerate();
    let cast: Vec<(usize, TensorProto)> = nodes
        .filter_map(|(index, node)| Some((index, floats(node)?)))
        .collect();
    for (index, tensor) in cast {
        let node = &mut graph.node[index];
        let name = std::mem::take(&mut node.input).remove(0);
        node.op_type = Some("Constant".to_owned());
        node.attribute = vec![model::tensor("value", tensor)];
        let is_read = graph.node.iter().any(|it| it.inputs().any(|it| it == name));
        let is_output = graph.outputs().any(|it| it == name);
        if !is_read && !is_output {
            graph.initializer.retain(|it| it.name() != name);
        }
    }
}

/// The floats next to doubles.
fn as_floats(tensor: &TensorProto) -> Option<TensorProto> {
    let bytes = tensor::bytes(tensor)
        .ok()
        .filter(|_| tensor.code() == DOUBLE)?;
    let (doubles, _) = bytes.as_chunks::<8>();
    let floats = doubles.iter().map(|it| f64::from_le_bytes(*it) as f32);
    Some(TensorProto {
        data_type: Some(FLOAT),
        dims: tensor.dims.clone(),
        raw_data: Some(floats.flat_map(f32::to_le_bytes).collect()),
        ..TensorProto::default()
    })
}

/// The name of what a node adds to a state, if nothing else happens to it.
pub(crate) fn added(graph: &GraphProto, input: &str, output: &str) -> Option<String> {
    let made = |name: &str| {
        let mut nodes = graph.node.iter();
        nodes.find(|node| node.outputs().any(|it| it == name))
    };
    let mut node = made(output)?;
    while node.is("Identity") {
        node = made(node.input(0)?)?;
    }
    if !node.is("Add") {
        return None;
    }
    let other = match [node.input(0)?, node.input(1)?] {
        [one, other] if one == input => other,
        [one, other] if other == input => one,
        _ => return None,
    };
    // A value of the body may have the name of one around it.
    let is_computed = graph.inputs().any(|it| it == other)
        || made(other).is_some_and(|node| !node.is("Constant"));
    (!is_computed).then(|| other.to_owned())
}

/// The node of a graph that makes a value, behind those that hand it on, and the name of that.
fn origin<'a>(graph: &'a GraphProto, mut name: &'a str) -> (Option<&'a NodeProto>, &'a str) {
    for _ in 0..=graph.node.len() {
        let mut nodes = graph.node.iter();
        let node = nodes.find(|node| node.outputs().any(|it| it == name));
        match node
            .filter(|node| node.is("Identity"))
            .and_then(|node| node.input(0))
        {
            Some(from) => name = from,
            None => return (node, name),
        }
    }
    (None, name)
}

/// Whether one of two branches appends to a value that the other one hands on: its sizes are those of what
/// was taken before.
pub(crate) fn appends(branches: [&GraphProto; 2]) -> bool {
    let [one, other] = branches;
    let joins = |made: Option<&NodeProto>, kept: &str| {
        made.is_some_and(|node| node.is("Concat") && node.inputs().any(|it| it == kept))
    };
    let mut pairs = std::iter::zip(one.outputs(), other.outputs());
    pairs.any(|(first, second)| {
        let (first, second) = (origin(one, first), origin(other, second));
        joins(first.0, second.1) || joins(second.0, first.1)
    })
}

/// Marks the states that wanted values or other such states need, adds what steps make of them to the wanted
/// values, and returns the nodes that run, in order.
pub(crate) fn mark_live(
    graph: &GraphProto,
    states: &mut [State],
    wanted: &mut HashSet<String>,
) -> Vec<usize> {
    loop {
        let live = states.iter().filter(|it| it.is_live);
        wanted.extend(live.map(|it| it.output.clone()));
        let (order, needed) = live_nodes(graph, wanted);
        let mut others = states.iter_mut().filter(|it| !it.is_live);
        match others.find(|it| needed.contains(&it.input)) {
            Some(state) => state.is_live = true,
            None => return order,
        }
    }
}

/// The nodes that wanted values need, in order, and all values that these read.
fn live_nodes(graph: &GraphProto, wanted: &HashSet<String>) -> (Vec<usize>, HashSet<String>) {
    let mut wanted = wanted.clone();
    let mut order = vec![];
    for (index, node) in graph.node.iter().enumerate().rev() {
        if node.outputs().any(|name| wanted.contains(name)) {
            order.push(index);
            wanted.extend(node.inputs().map(str::to_owned));
            for inner in node.graphs().flat_map(GraphProto::with_inner) {
                wanted.extend(
                    inner
                        .node
                        .iter()
                        .flat_map(|it| it.inputs().map(str::to_owned)),
                );
                wanted.extend(inner.outputs().map(str::to_owned));
            }
        }
    }
    order.reverse();
    (order, wanted)
}

/// The value of a Constant.
pub(crate) fn value_of(node: &NodeProto) -> Option<TensorProto> {
    use revseq_onnx::model::{INT64, int64_tensor};
    let floats = |sizes: &[i64], floats: &[f32]| TensorProto {
        data_type: Some(FLOAT),
        dims: sizes.to_vec(),
        float_data: floats.to_vec(),
        ..TensorProto::default()
    };
    let [attribute] = &*node.attribute else {
        return None;
    };
    let AttributeProto {
        i,
        f,
        ints,
        floats: all,
        ..
    } = attribute;
    Some(match attribute.name() {
        "value" => node.tensor("value").value()?.clone(),
        "value_int" => TensorProto {
            data_type: Some(INT64),
            int64_data: vec![i.unwrap_or_default()],
            ..TensorProto::default()
        },
        "value_ints" => int64_tensor(&[ints.len() as i64], ints),
        "value_float" => floats(&[], &[f.unwrap_or_default()]),
        "value_floats" => floats(&[all.len() as i64], all),
        _ => return None,
    })
}
