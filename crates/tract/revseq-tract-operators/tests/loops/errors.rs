//! Errors and their messages.

use revseq_tract_operators::Limits;
use tract_onnx::pb::TypeProto;
use tract_onnx::prelude::*;

use crate::build::{
    Graph, Optimize, fails, graph, onnx, parse, parse_with_programs, parse_within, run, whole,
};
use crate::features::nested;

/// A model of one loop over `s:f32[2]`.
fn model(body: Graph) -> Graph {
    graph("n:i64[] s:f32[2]", "y", "y = Loop<body=@body>(n, _, s)").with("body", body)
}

/// The error's causes; the last one gives the reason.
fn message(error: &TractError) -> String {
    format!("{error:#}")
}

fn refused(model: Graph, because: &str) {
    let result = parse(model).and_then(InferenceModel::into_typed);
    let message = message(&result.expect_err("it is refused"));
    assert!(message.contains("Loop \"Loop0\""), "{message}");
    assert!(message.contains(because), "{message}");
}

#[test]
fn mismatched_inputs_and_outputs_are_refused() {
    refused(
        model(graph("i c", "c", "")),
        "its body has 2 inputs, expected a step, a condition and 1 states",
    );
    refused(
        model(graph("i c s", "c", "")),
        "its body has 1 outputs, expected a condition and 1 states",
    );
    let more = graph("n:i64[] s:f32[2]", "y", "y, z = Loop<body=@body>(n, _, s)");
    refused(
        more.with("body", graph("i c s", "c s", "")),
        "it has 2 outputs, but its body produces 1 states and 0 scan outputs",
    );
    let optional = graph(
        "n:i64[] s:f32[2]",
        "y",
        "y, z = Loop<body=@body>(n, _, _, s)",
    );
    refused(
        optional.with("body", graph("i c a s", "c a s", "")),
        "state 0 has no initial value",
    );
}

#[test]
fn scan_inputs_of_different_lengths_are_refused() {
    for directions in ["0,0", "0,1"] {
        let model = whole(&format!(
            "x:f32[T,2] z:f32[T,2] h:f32[2] -> y last
             last, y = Scan<body=@body;num_scan_inputs=2;scan_input_directions=[{directions}]>(h, x, z)
             @body: s:f32[2] a:f32[2] b:f32[2] -> t both
             t = Add(s, a)
             both = Add(t, b)"
        ));
        for parsed in [parse(model.clone()), parse_with_programs(model)] {
            let plan = parsed
                .unwrap()
                .optimized()
                .unwrap()
                .into_runnable()
                .unwrap();
            for (x, z) in [(3, 2), (2, 3), (3, 3)] {
                let [one, other] = [x, z].map(|steps| Tensor::zero::<f32>(&[steps, 2]).unwrap());
                let h = tensor1(&[0_f32, 1.]);
                let outputs = plan.run(tvec!(one.into(), other.into(), h.into()));
                match x == z {
                    true => assert_eq!(outputs.unwrap()[0].shape(), [3, 2]),
                    false => drop(outputs.expect_err("their lengths differ")),
                }
            }
        }
    }
}

#[test]
fn sequences_and_optionals() {
    let mut proto = model(graph("i c s", "c s", "")).into_model();
    let loop_node = &mut proto.graph.as_mut().unwrap().node[0];
    let body = loop_node.attribute[0].g.as_mut().unwrap();
    // A type that tract's protobuf does not have.
    body.input[2].r#type = Some(TypeProto::default());
    fails(
        onnx().parse(&proto, None),
        "\"s\" of its body is a sequence, a map or an optional",
    );
}

#[test]
fn states_that_change_their_shape() {
    refused(
        model(graph("i c s", "c s1", "s1 = Cast<to=11>(s)")),
        "state 0 is F32 before a step and F64 after it",
    );
    refused(
        model(graph("i c s", "c s1", "s1 = ReduceSum<keepdims=0>(s)")),
        "state 0 has rank 1 before a step and 0 after it",
    );
    refused(
        model(graph("i c s", "s s", "")),
        "the condition of its body is F32, expected a bool",
    );
}

#[test]
fn loops_that_are_nested_too_deeply() {
    let result = parse(model(nested(8)));
    fails(
        result,
        "it is in 9 graphs within one another, more than the 8 that are",
    );
}

#[test]
fn slices_of_other_domains_are_refused() {
    let cast = graph("x:f32[2]", "y", "y = Cast<to=6>(x)");
    for graph in [model(graph("i c s", "c s", "")), cast] {
        let mut proto = graph.into_model();
        proto.graph.as_mut().unwrap().node[0].domain = "com.example".to_owned();
        fails(
            onnx().parse(&proto, None),
            "it is of domain \"com.example\"",
        );
    }
}

#[test]
fn errors_name_the_step() {
    // It scans a growing value.
    let model = whole(
        "n:i64[] s:f32[2] -> ys
         _, ys = Loop<body=@body>(n, _, s)
         @body: i c s -> c s1 s1
         s1 = Concat<axis=0>(s, s)",
    );
    let inputs = [tensor0(2_i64), tensor1(&[1_f32, 2.])];
    let message = message(&run(model, &inputs).expect_err("sizes differ"));
    assert!(
        message.contains("step 1 produced a scan output of sizes [8], but the first produced [4]"),
        "{message}"
    );
    assert!(message.contains("Loop \"Loop0\""), "{message}");
}

#[test]
fn limits_bound_steps_and_bytes() {
    let run = |limits: Limits, body: Graph| {
        let endless = graph("s:f32[2]", "y", "y = Loop<body=@body>(_, _, s)").with("body", body);
        let model = parse_within(limits, endless)?;
        let model = model.optimized()?.into_runnable()?;
        model.run(tvec![tensor1(&[1_f32, 2.]).into()])
    };
    let double = || graph("i c s", "c s1", "s1 = Add(s, s)");
    let grow = || graph("i c s", "c s1", "s1 = Concat<axis=0>(s, s)");
    let limits = Limits::none().with_steps(100);
    fails(run(limits, double()), "it does not end within 100 steps");
    let limits = Limits::none().with_bytes(1000);
    let message = self::message(&run(limits, grow()).expect_err("it is too large"));
    assert!(
        message.contains("take 1024 bytes, more than the 1000 that are allowed"),
        "{message}"
    );
    let counted = graph("i c s", "c1 s1", "s1 = Add(s, s)\n c1 = Less(i, 99)");
    let limits = Limits::none().with_steps(100).with_bytes(8);
    let outputs = run(limits, counted.clone());
    assert!(outputs.is_ok(), "{outputs:?}");
    let message = self::message(&run(limits.with_steps(99), counted).expect_err("one too many"));
    assert!(
        message.contains("it does not end within 99 steps"),
        "{message}"
    );
}

/// Nested loops of `outer` and `inner` steps, with known or unknown trip counts.
fn product_of_steps(trips: &str, scan: &str) -> Graph {
    let (more, out) = if scan.is_empty() {
        ("", "")
    } else {
        (", qs", " qs")
    };
    let node = format!("s1{more} = Loop<body=@inner>({trips}, _, s)");
    let outer = whole(&format!(
        "i c s -> c s1{out}
         {node}
         @inner: j c q -> c q1{scan}
         q1 = Add(q, x)"
    ));
    let (more, out) = if scan.is_empty() {
        ("", "")
    } else {
        (", ys", " ys")
    };
    let nodes = format!("y{more} = Loop<body=@outer>({trips}, _, x)");
    graph("x:f32[2] n:i64[]", &format!("y{out}"), &nodes)
        .constant("ten", tensor0(10_i64))
        .with("outer", outer)
}

#[test]
fn loops_in_loops_share_their_limits() {
    let run = |limits: Limits, graph: Graph| {
        let model = parse_within(limits, graph)?;
        let model = model.optimized()?.into_runnable()?;
        model.run(tvec![tensor1(&[1_f32, 2.]).into(), tensor0(10_i64).into()])
    };
    for trips in ["ten", "n"] {
        // Each outer step, and ten inner ones each.
        let steps = Limits::none().with_steps(110);
        let model = product_of_steps(trips, "");
        assert!(run(steps, model.clone()).is_ok(), "{trips}");
        let error = message(&run(steps.with_steps(109), model).expect_err("one too many"));
        assert!(
            error.contains("does not end within 109 steps"),
            "{trips}: {error}"
        );

        // The scan outputs of all outer steps, and the outer state.
        let scanned = 10 * 10 * 2 * 4;
        let model = product_of_steps(trips, " q1");
        let run = |bytes: u64| run(Limits::none().with_bytes(bytes), model.clone());
        assert!(run(scanned + 200).is_ok(), "{trips}");
        let error = message(&run(scanned - 1).expect_err("too much"));
        assert!(error.contains("that are allowed"), "{trips}: {error}");
    }
}

#[test]
fn an_einsum_of_wide_integers_is_refused() {
    for (element, name) in [("i64", "int64"), ("u32", "uint32"), ("i32", "")] {
        let inputs = format!("a:{element}[2,3] b:{element}[3,2]");
        let model = graph(&inputs, "y", "y = Einsum<equation=\"ij,jk->ik\">(a, b)");
        let result = parse(model).and_then(Optimize::optimized);
        match name {
            "" => assert!(result.is_ok(), "{result:?}"),
            _ => {
                let message = message(&result.expect_err("it is refused"));
                let why = format!("its operands are of {name}, of which tract has no Einsum");
                assert!(message.contains(&why), "{message}");
            }
        }
    }
}

/// Operators read their inputs by place.
#[test]
fn missing_inputs_and_outputs_are_refused() {
    for (node, why) in [
        ("y = ReduceSum()", "it has 0 inputs, expected at least 1"),
        ("y = Slice()", "it has 0 inputs, expected at least 1"),
        ("y = Add(x)", "it has 1 inputs, expected at least 2"),
        ("y = Range(x, _, x)", "it has 1 inputs, expected at least 3"),
        (
            "y = ScatterND(x, x)",
            "it has 2 inputs, expected at least 3",
        ),
        ("y = Where(_, x, x)", "it has 0 inputs, expected at least 3"),
        ("y = Sigmoid()", "it has 0 inputs, expected at least 1"),
    ] {
        let error = parse(graph("x:f32[2]", "y", node)).expect_err("it is refused");
        let message = message(&error);
        assert!(message.contains(why), "{node}: {message}");
    }
    let mut proto = graph("x:f32[2]", "x", "y = Slice(x, x, x)").into_model();
    let graph = proto.graph.as_mut().expect("a graph");
    graph.node[0].output.clear();
    fails(onnx().parse(&proto, None), "it has no output");
}

/// tract reads the size of channels that there are not.
#[test]
fn too_few_axes_are_refused() {
    for (node, x) in [
        ("y = BatchNormalization(x, c, c, c, c)", "x:f32[4]"),
        (
            "y = BatchNormalization(between, c, c, c, c)\nbetween = Tanh(x)",
            "x:f32[N]",
        ),
        ("y = MaxPool<kernel_shape=[1]>(x)", "x:f32[4]"),
        ("y = AveragePool<kernel_shape=[1]>(x)", "x:f32[4]"),
        ("y = GlobalAveragePool(x)", "x:f32[4]"),
        ("y = GlobalMaxPool(x)", "x:f32[]"),
        ("y = Conv(x, w)", "x:f32[4]"),
        ("y = InstanceNormalization(x, c, c)", "x:f32[4]"),
    ] {
        let model = graph(x, "y", node)
            .constant("c", tensor1(&[1_f32]))
            .constant("w", Tensor::zero::<f32>(&[1, 1, 1]).unwrap());
        let error = parse(model).and_then(InferenceModel::into_typed);
        let message = message(&error.expect_err("it is refused"));
        assert!(
            message.contains("axes, expected at least"),
            "{node}: {message}"
        );
    }
    let node = "y = LayerNormalization<axis=-5>(x, c)";
    let model = graph("x:f32[N,3]", "y", node).constant("c", tensor1(&[1_f32; 3]));
    let error = parse(model).and_then(InferenceModel::into_typed);
    fails(error, "its axis is -5, expected one from -2 to 1");
}
