//! Regions of graphs that a rewrite replaces.

use std::collections::BTreeSet;

use super::{exported, fast, models, read};
use crate::model::{
    FLOAT, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, declared_sizes, value,
};
use crate::{Options, Region, Regions, regions, scope::Scope};
use revseq_test_models::text::nodes;

/// A loop that is an RNN, with its steps last, and nodes around it.
fn model(around: &str, outputs: &[&str]) -> ModelProto {
    let body = "@body: h now -> h2 y2
        a = MatMul(now, w)
        b = MatMul(h, r)
        ab = Add(a, b)
        h2 = Tanh(ab)
        y2 = Identity(h2)";
    let square = |name: &str| {
        let mut tensor = super::model::int64_tensor(&[3, 3], &[]);
        tensor.name = Some(name.to_owned());
        tensor.data_type = Some(FLOAT);
        let values = (0..9_u8).map(|it| f32::from(it) / 9.0);
        tensor.raw_data = Some(values.flat_map(f32::to_le_bytes).collect());
        tensor
    };
    let mut ints = super::model::int64_tensor(&[1], &[0]);
    ints.name = Some("zero".to_owned());
    let dims = |name: &str| value(name, FLOAT, &[None, None, Some(3)]);
    let graph = GraphProto {
        input: vec![dims("x"), value("start", FLOAT, &[None, Some(3)])],
        output: outputs
            .iter()
            .map(|name| super::model::untyped(name))
            .collect(),
        initializer: vec![square("w"), square("r"), ints],
        node: nodes(&format!("{around}\n{body}")),
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto {
            version: Some(13),
            ..OperatorSetIdProto::default()
        }],
        graph: graph.into(),
        ..ModelProto::default()
    }
}

const LOOP: &str = "last, y = Scan<body=@body;num_scan_inputs=1>(start, x)";

fn found(model: &ModelProto) -> Regions<()> {
    with(model, true)
}

fn with(model: &ModelProto, reads_captured: bool) -> Regions<()> {
    regions(model.clone(), &fast(), reads_captured, |_| Ok(())).expect("known passes")
}

fn operators(region: &Region) -> Vec<String> {
    let graph = region.replacement.graph.as_option().expect("a graph");
    graph.node.iter().map(|node| node.op().to_owned()).collect()
}

#[test]
fn a_loop_alone_is_a_region() {
    let found = found(&model(LOOP, &["last", "y"]));
    let [(region, ())] = &found.regions[..] else {
        panic!("{} regions", found.regions.len())
    };
    assert_eq!(region.nodes, [0]);
    assert_eq!(region.inputs, ["start", "x"]);
    assert_eq!(region.outputs, ["last", "y"]);
    assert!(operators(region).contains(&String::from("RNN")));
    let scope = Scope::main(&region.replacement, false).expect("a graph");
    assert_eq!(scope.inputs, ["start", "x"]);
    assert!(found.staying.is_empty());
}

/// A layer of another number of axes would be another one.
#[test]
fn inputs_of_the_graph_keep_their_number_of_axes() {
    let around = format!("x = Neg(given)\n{LOOP}");
    for (around, axes) in [(LOOP, Some(vec![None; 3])), (&around, None)] {
        let mut model = model(around, &["last", "y"]);
        let graph = model.graph.as_option_mut().expect("a graph");
        if axes.is_none() {
            let mut given = graph.input[0].clone();
            given.name = Some("given".to_owned());
            let between = std::mem::replace(&mut graph.input[0], given);
            graph.value_info.push(between);
        }
        let found = found(&model);
        let (region, ()) = &found.regions[0];
        let graph = region.replacement.graph.as_option().expect("a graph");
        let x = graph.input.iter().find(|it| it.name() == "x").expect("x");
        assert_eq!(declared_sizes(x), axes);
    }
}

#[test]
fn what_nothing_reads_is_no_output() {
    let found = found(&model(&format!("{LOOP}\nz = Neg(y)"), &["z"]));
    let (region, ()) = &found.regions[0];
    // Neg reads what it read before, and stays.
    assert_eq!(region.nodes, [0]);
    assert_eq!(region.outputs, ["y"]);
}

/// The nodes of each region.
fn nodes_of(found: &Regions<()>) -> Vec<Vec<usize>> {
    let regions = found.regions.iter();
    regions.map(|(region, ())| region.nodes.clone()).collect()
}

#[test]
fn what_reads_a_layer_stays_as_it_is() {
    let around = format!(
        "{LOOP}
        condition = ReduceMax<keepdims=0>(flag)
        read = If<then_branch=@body>(condition)
        called = Call<domain=local>(y)"
    );
    let found = found(&model(&around, &["read", "called", "last"]));
    assert_eq!(nodes_of(&found), [[0]]);
    assert_eq!(found.regions[0].0.outputs, ["last", "y"]);
}

#[test]
fn chains_of_any_length_are_replaced() {
    let mut around =
        String::from("a0 = Transpose<perm=[1,0,2]>(x)\nb0 = Transpose<perm=[1,0,2]>(a0)");
    for it in 0..80 {
        let next = it + 1;
        let scan = "Scan<body=@body;num_scan_inputs=1>";
        around += &format!("\nl{it}, y{it} = {scan}(start, b{it})\nb{next} = Softmax(y{it})");
    }
    let found = found(&model(&around, &["b80"]));
    assert!(found.staying.is_empty(), "{:?}", found.staying);
    let nodes: Vec<usize> = nodes_of(&found).concat();
    let loops = (0..80).map(|it| 2 + 2 * it);
    assert_eq!(nodes, loops.collect::<Vec<_>>(), "only loops");
}

/// A loop over x, one over its negative, and a node that reads both.
fn two_loops() -> ModelProto {
    let around = format!(
        "negative = Neg(x)
        {LOOP}
        last2, z = Scan<body=@body;num_scan_inputs=1>(start, negative)
        sum = Add(y, z)"
    );
    model(&around, &["sum"])
}

#[test]
fn loops_beside_each_other_are_one_region() {
    assert_eq!(nodes_of(&found(&two_loops())), [[1, 2]]);
}

#[test]
fn a_part_that_cannot_be_made_keeps_no_other() {
    for (value, taken, stays) in [("y", 2, 1), ("z", 1, 2)] {
        let make = |region: &Region| match region.outputs.iter().any(|output| output == value) {
            true => Err(format!("{value} is not wanted")),
            false => Ok(()),
        };
        let found = regions(two_loops(), &fast(), true, make).expect("known passes");
        assert_eq!(nodes_of(&found), [[taken]]);
        let [staying] = &found.staying[..] else {
            panic!("{:?}", found.staying)
        };
        assert_eq!(staying.nodes, [stays]);
        assert_eq!(staying.reason, format!("{value} is not wanted"));
    }
}

/// Regions that are convex by themselves may make a circle together.
#[test]
fn regions_make_no_circle() {
    let found = found(&model(
        "a, ya = Scan<body=@body;num_scan_inputs=1>(start, x)
        ra = Softmax(ya)
        b, yb = Scan<body=@body;num_scan_inputs=1>(start, ra)
        c, yc = Scan<body=@body;num_scan_inputs=1>(start, x)
        rc = Softmax(yc)
        d, yd = Scan<body=@body;num_scan_inputs=1>(start, rc)",
        &["yb", "yd"],
    ));
    assert!(found.staying.is_empty());
    let regions = nodes_of(&found);
    let region_of = |node: usize| regions.iter().position(|it| it.contains(&node));
    let [a, b, c, d] = [0, 2, 3, 5].map(|node| region_of(node).expect("a loop is taken"));
    let is_circle = a != b && a == d && b == c;
    assert!(!is_circle, "{regions:?}");
}

#[test]
fn a_model_without_loops_has_no_region() {
    let found = found(&model("z = Neg(x)", &["z"]));
    assert!(
        found.regions.is_empty() && found.staying.is_empty(),
        "no loop stays"
    );
}

#[test]
fn no_node_is_in_two_regions() {
    let two = format!(
        "{LOOP}\nlast2, y2b = Scan<body=@body;num_scan_inputs=1>(start, x)\nz = Neg(y)\nv = Neg(y2b)"
    );
    let found = found(&model(&two, &["z", "v"]));
    let all: Vec<usize> = found
        .regions
        .iter()
        .flat_map(|(it, ())| it.nodes.clone())
        .collect();
    let distinct: BTreeSet<usize> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len(), "a node is in one region");
    assert!(distinct.is_superset(&BTreeSet::from([0, 1])));
}

/// What holds of every region: it is closed, and its replacement reads and makes what it says.
fn check(model: &ModelProto, region: &Region) {
    let nodes = &model.graph.as_option().expect("a graph").node;
    let own: BTreeSet<usize> = region.nodes.iter().copied().collect();
    let made = |index: &usize| nodes[*index].outputs();
    let inside: BTreeSet<&str> = own.iter().flat_map(made).collect();
    // What is behind the region, without its own nodes: none of these leads back.
    let mut behind: BTreeSet<&str> = inside.clone();
    for (index, node) in nodes.iter().enumerate() {
        let reads = crate::order::reads(node);
        if own.contains(&index) {
            let outside = reads.iter().filter(|name| !inside.contains(**name));
            for name in outside {
                assert!(!behind.contains(name), "{name} leads out and back");
            }
        } else if reads.iter().any(|name| behind.contains(name)) {
            behind.extend(node.outputs());
        }
    }
    let graph = region.replacement.graph.as_option().expect("a graph");
    let makes: BTreeSet<&str> = graph.node.iter().flat_map(NodeProto::outputs).collect();
    for output in &region.outputs {
        assert!(makes.contains(output.as_str()), "{output} is not made");
    }
    let mut known: BTreeSet<&str> = graph.inputs().chain(graph.tensors()).collect();
    for node in &graph.node {
        for read in crate::order::reads(node) {
            assert!(known.contains(read), "{read} is not known");
        }
        known.extend(node.outputs());
    }
    let outside = |name: &&str| !inside.contains(*name);
    let read: BTreeSet<&str> = own
        .iter()
        .flat_map(|&it| crate::order::reads(&nodes[it]))
        .filter(outside)
        .collect();
    for input in &region.inputs {
        assert!(
            read.contains(input.as_str()),
            "{input} is not read by the region"
        );
    }
}

#[test]
fn regions_of_models_are_closed_and_whole() {
    let mut count = 0;
    for path in models() {
        let (_, model) = read(&path);
        let found = found(&model);
        for (region, ()) in &found.regions {
            check(&model, region);
        }
        count += found.regions.len();
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_host_of_masks_has_a_region_for_every_loop_that_a_rewrite_replaces() {
    let is_loop = |node: &&NodeProto| node.is("Loop") || node.is("Scan");
    let loops = |model: &ModelProto| {
        let nodes = &model.graph.as_option().expect("a graph").node;
        nodes.iter().filter(is_loop).count()
    };
    let mut count = 0;
    for path in [models(), super::models_below("tests/data")].concat() {
        let (_, model) = read(&path);
        let mut rewritten = model.clone();
        crate::rewrite_messages(&mut rewritten, &fast()).expect("known passes");
        let masks = Options {
            masked_layers: true,
            ..fast()
        };
        let found = regions(model.clone(), &masks, true, |_| Ok(())).expect("known passes");
        let nodes = &model.graph.as_option().expect("a graph").node;
        let taken = nodes_of(&found).concat();
        let taken = taken.iter().filter(|&&it| is_loop(&&nodes[it])).count();
        let replaced = loops(&model) - loops(&rewritten);
        assert_eq!(taken, replaced, "{}", path.display());
        count += taken;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn a_host_that_hands_on_no_captured_value_gets_their_makers_too() {
    let model = exported("keras_bilstm_masked");
    let found = with(&model, false);
    let nodes = &model.graph.as_option().expect("a graph").node;
    let [(region, ())] = &found.regions[..] else {
        panic!("{} regions", found.regions.len());
    };
    check(&model, region);
    let own = region.nodes.iter();
    let read: BTreeSet<&str> = own.flat_map(|&it| nodes[it].inputs()).collect();
    for input in &region.inputs {
        assert!(read.contains(input.as_str()), "{input} is captured");
    }
}
