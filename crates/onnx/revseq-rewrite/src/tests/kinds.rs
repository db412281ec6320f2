//! Names, types, and readers outside a graph's nodes.

use super::{count, fast, graph, left, named, pass, portable, rewritten, value};
use crate::model::{
    self, FLOAT, GraphProto, ModelProto, NodeProto, STRING, TensorProto, int64_tensor,
};
use crate::onnx::{SparseTensorProto, StringStringEntryProto, TensorAnnotation, TrainingInfoProto};
use crate::scope::Scope;
use crate::{Options, Report, rewrite_messages, types};
use buffa::MessageField;
use revseq_test_models::text::nodes;

const TWICE: &str = "y0 = ReverseSequence<batch_axis=1;time_axis=0>(x, lens)
    y1 = ReverseSequence<batch_axis=1;time_axis=0>(y0, lens)";

fn of(text: &str) -> ModelProto {
    graph(nodes(text), [None; 3])
}

fn main_graph(model: &ModelProto) -> &GraphProto {
    model.graph.as_option().expect("a graph")
}

fn producer<'a>(nodes: &'a [NodeProto], output: &str) -> Option<&'a NodeProto> {
    nodes
        .iter()
        .find(|node| node.outputs().any(|name| name == output))
}

/// Rewrites a model that ONNX's checker refuses and ONNX Runtime runs, since its subgraphs shadow
/// names.
fn unchecked(model: &ModelProto, options: &Options) -> (ModelProto, Report) {
    let mut after = model.clone();
    let report = rewrite_messages(&mut after, options).expect("known passes");
    (after, report)
}

/// A replaced value keeps its name where a subgraph shadows the old or the new one.
#[test]
fn inner_names_are_not_mistaken_for_outer_ones() {
    let with = |branch: &str| {
        let mut model = of(&format!(
            "{TWICE}\ni = If<then_branch=@branch;else_branch=@branch>(flag)\ny = Add(i, y1)
             @branch: -> t\n{branch}"
        ));
        let input = value("flag", model::BOOL, &[]);
        model.graph.get_or_insert_default().input.push(input);
        model
    };
    // The subgraph shadows the replaced value, then its replacement.
    for (inner, reads) in [
        ("y1 = Tanh(x)\nt = Neg(y1)", "x"),
        ("x = Tanh(lens)\nt = Add(x, y1)", "y1"),
    ] {
        let (after, _) = unchecked(&with(inner), &fast());
        let after = main_graph(&after);
        let sum = producer(&after.node, "y").expect("the output");
        assert_eq!(sum.input(1), Some(reads), "{after:?}");
        let handed_on = producer(&after.node, "y1").map(|node| (node.op(), node.input(0)));
        let expected = (reads == "y1").then_some(("Identity", Some("x")));
        assert_eq!(handed_on, expected, "{after:?}");
        let branch = producer(&after.node, "i")
            .unwrap()
            .graph("then_branch")
            .unwrap();
        assert_eq!(branch.node, nodes(inner));
    }
    // Without shadowing, the name disappears.
    let (after, _) = unchecked(&with("t = Neg(y1)"), &fast());
    assert_eq!(count(&after, "Identity"), 0);
}

/// A layer in a branch whose input is reversed outside, where the branch shadows the input's name.
#[test]
fn values_of_outer_graphs_are_visible() {
    let text = "flipped = Slice(x, minus, first, zero, minus)
        y = If<then_branch=@branch;else_branch=@branch>(flag)
        @branch: -> t";
    let layer = "t = RNN<hidden_size=2>(flipped, w, r)";
    let shadowed = "x = Neg(w)
        t = RNN<hidden_size=2>(flipped, w, r)";
    for (inner, taken) in [(layer, 2), (shadowed, 0)] {
        let mut model = of(&format!("{text}\n{inner}"));
        let graph = model.graph.get_or_insert_default();
        for name in ["flag", "w", "r"] {
            graph.input.push(value(name, FLOAT, &[]));
        }
        for (name, element) in [("minus", -1), ("first", -i64::MAX)] {
            graph
                .initializer
                .push(named(name, int64_tensor(&[1], &[element])));
        }
        let (_, report) = unchecked(&model, &pass("direction"));
        assert_eq!(report.rewritten().count(), taken, "{report:#?}");
    }
}

/// Values that training or quantization reads keep their names; values that training updates are
/// not constant.
#[test]
fn other_readers_than_nodes_count() {
    let text = format!("{TWICE}\ny = Neg(y1)");
    let plain = of(&text);
    let (after, _) = rewritten(&plain, &fast());
    assert_eq!(count(&after, "ReverseSequence"), 0);
    let kept = |model: &ModelProto, names: &[&str]| {
        let (after, _) = rewritten(model, &fast());
        let after = main_graph(&after);
        for name in names {
            assert!(producer(&after.node, name).is_some(), "{name}: {after:?}");
        }
    };
    let entry = |value: &str| StringStringEntryProto {
        key: Some("SCALE_TENSOR".to_owned()),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    for name in ["y0", "y1"] {
        let mut annotated = plain.clone();
        let graph = annotated.graph.get_or_insert_default();
        graph.quantization_annotation.push(TensorAnnotation {
            tensor_name: Some(name.to_owned()),
            quant_parameter_tensor_names: vec![entry("scale")],
            ..Default::default()
        });
        graph
            .initializer
            .push(named("scale", int64_tensor(&[], &[1])));
        kept(&annotated, &[name]);
        let (after, _) = rewritten(&annotated, &fast());
        assert!(main_graph(&after).tensors().any(|tensor| tensor == "scale"));
        let mut trained = plain.clone();
        trained.training_info.push(TrainingInfoProto {
            algorithm: MessageField::some(GraphProto {
                node: nodes(&format!("loss = Neg({name})")),
                ..GraphProto::default()
            }),
            ..Default::default()
        });
        kept(&trained, &[name]);
    }
    // Lengths that cover the axis, until training updates them.
    let text = "y = ReverseSequence<batch_axis=0;time_axis=1>(x, fours)";
    let mut model = graph(nodes(text), [Some(2), Some(4), None]);
    let (after, _) = rewritten(&model, &fast());
    assert_eq!(count(&after, "Slice"), 1);
    model.training_info.push(TrainingInfoProto {
        update_binding: vec![StringStringEntryProto {
            key: Some("fours".to_owned()),
            ..entry("others")
        }],
        ..Default::default()
    });
    let (after, _) = rewritten(&model, &fast());
    assert_eq!(after, model);
}

/// A sparse tensor is a value of its graph, and its name is taken.
#[test]
fn sparse_initializers_have_names() {
    let mut model = of("y = If<then_branch=@branch;else_branch=@branch>(lens)
        @branch: -> t
        t = Mul(fours, x)");
    let graph = model.graph.get_or_insert_default();
    let branch = graph.node[0].graphs_mut().next().unwrap();
    branch.sparse_initializer.push(SparseTensorProto {
        values: MessageField::some(named("fours", int64_tensor(&[1], &[1]))),
        ..Default::default()
    });
    let graph = main_graph(&model);
    let scope = Scope::graph(graph, None, 17);
    let branch = graph.node[0].graphs().next().unwrap();
    let branch = Scope::graph(branch, Some(&scope), 17);
    assert!(crate::constant::ints(&scope, "fours").is_some());
    assert!(crate::constant::ints(&branch, "fours").is_none());
}

/// Replacements have the layer's element type.
#[test]
fn layers_of_every_type() {
    const FLOAT16: i32 = 10;
    const DOUBLE: i32 = 11;
    for (code, size) in [(FLOAT, 4), (FLOAT16, 2), (DOUBLE, 8), (0, 4)] {
        let text = "y, last = RNN<hidden_size=2>(x, w, r, _, lens)";
        let mut model = of(text);
        let graph = model.graph.get_or_insert_default();
        if code == 0 {
            // The type is unknown.
            graph.input[0].r#type = MessageField::none();
        } else {
            graph.input[0] = value("x", code, &[None; 3]);
        }
        for (name, dims) in [("w", [1, 2, 3]), ("r", [1, 2, 2])] {
            if code == 0 {
                graph.input.push(model::untyped(name));
                continue;
            }
            graph.initializer.push(TensorProto {
                name: Some(name.to_owned()),
                dims: dims.to_vec(),
                data_type: Some(code),
                raw_data: Some(vec![0; dims.iter().product::<i64>() as usize * size]),
                ..TensorProto::default()
            });
        }
        graph.output[0] = value("y", code, &[None; 4]);
        if code == 0 {
            graph.output[0].r#type = MessageField::none();
        }
        let (after, report) = rewritten(&model, &pass("sequence-lens"));
        assert_eq!(report.rewritten().count(), 1, "{report:#?}");
        let scope = Scope::graph(main_graph(&after), None, 17);
        for node in scope.nodes.iter().filter(|node| node.is("Where")) {
            let found = [1, 2].map(|input| types::of(&scope, node.input(input).unwrap()));
            let expected = (code != 0).then_some(code);
            assert_eq!(found, [expected; 2], "{after:#?}");
        }
        assert_eq!(count(&after, "CastLike"), usize::from(code == 0));
        // Before CastLike, layers of unknown type are left alone.
        model.opset_import[0].version = Some(14);
        let (_, report) = rewritten(&model, &pass("sequence-lens"));
        let why = left(&report, "RNN");
        let is_told = why.iter().any(|why| why.contains("element type"));
        assert_eq!(is_told, code == 0, "{report:#?}");
    }
}

/// Strings are gathered one by one, since a kernel may copy only the first of each row.
#[test]
fn strings_are_not_gathered_by_rows() {
    let reverse = "y = ReverseSequence<batch_axis=1;time_axis=0>(x, lens)";
    let after = |op: &str| format!("z = {op}(x)\n{}", reverse.replace("(x", "(z"));
    for (text, code, by_rows) in [
        (reverse.to_owned(), FLOAT, true),
        (reverse.to_owned(), STRING, false),
        (after("Transpose<perm=[1,0,2]>"), STRING, false),
        (after("Cast<to=8>"), FLOAT, false),
        (after("LpNormalization"), FLOAT, true),
        (reverse.replace("(x", "(unknown"), FLOAT, false),
    ] {
        let mut model = of(&text);
        let graph = model.graph.get_or_insert_default();
        graph.input[0] = value("x", code, &[None; 3]);
        graph.input.push(model::untyped("unknown"));
        let (after, _) = rewritten(&model, &portable());
        let nodes = &main_graph(&after).node;
        let data = text.rsplit('(').next().unwrap().split(',').next().unwrap();
        let flat = nodes
            .iter()
            .find(|node| node.is("Reshape") && node.input(0) == Some(data));
        let shape = producer(nodes, flat.unwrap().input(1).unwrap()).unwrap();
        assert_eq!(shape.is("Concat"), by_rows, "{text}");
    }
}
