//! Models with lists: their values, and errors of positions that a list does not have.

use revseq_onnx::model::{
    self, AttributeProto, AttributeType, FLOAT, GraphProto, INT64, ModelProto, NodeProto,
    OperatorSetIdProto,
};
use revseq_tract::{Error, LoadOptions, Outputs, Session, Sizes};
use tract_onnx::prelude::*;

/// A graph of nodes `output = Operator(inputs)`, with attributes that are integers, or the body of a
/// Loop.
fn nodes(text: &str, body: Option<&GraphProto>) -> Vec<NodeProto> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let node = |line: &str| {
        let (outputs, call) = line.split_once(" = ").expect("outputs = a call");
        let (operator, inputs) = call.trim_end_matches(')').split_once('(').expect("a call");
        let (operator, written) = operator.split_once(' ').unwrap_or((operator, ""));
        let attributes = written.split_whitespace().map(|text| {
            let (name, value) = text.split_once('=').expect("name=value");
            model::int(name, value.parse().expect("an integer"))
        });
        let mut attributes: Vec<AttributeProto> = attributes.collect();
        if let Some(body) = body.filter(|_| operator == "Loop") {
            attributes.push(AttributeProto {
                name: Some("body".to_owned()),
                r#type: Some(AttributeType::GRAPH),
                g: body.clone().into(),
                ..AttributeProto::default()
            });
        }
        let list = |text: &str| -> Vec<String> {
            let names = text.split(',').map(str::trim);
            names.map(|it| it.trim_matches('_').to_owned()).collect()
        };
        let (inputs, outputs) = (list(inputs), list(outputs));
        let [inputs, outputs] = [&inputs, &outputs].map(|all| -> Vec<&str> {
            let all = all.iter().map(String::as_str);
            all.collect()
        });
        let inputs = if inputs == [""] { vec![] } else { inputs };
        model::node(operator, &inputs, &outputs, attributes)
    };
    lines.map(node).collect()
}

/// A model with inputs `x` of sizes `T` and 2, int64 `d` of size `T` and int64 `i`, and output `y`.
fn open(text: &str, body: &str, states: &[&str], sizes: Sizes) -> Result<Session, Error> {
    let untyped = |names: &[&str]| names.iter().map(|name| model::untyped(name)).collect();
    let mut inputs = vec!["step", "on"];
    let next: Vec<String> = states.iter().map(|state| format!("{state}2")).collect();
    let mut outputs = vec!["on2"];
    inputs.extend(states);
    outputs.extend(next.iter().map(String::as_str));
    let body = GraphProto {
        node: nodes(&format!("on2 = Identity(on)\n{body}"), None),
        input: untyped(&inputs),
        output: untyped(&outputs),
        ..GraphProto::default()
    };
    let integers = |name: &str, sizes: &[i64], values: &[i64]| {
        let mut tensor = model::int64_tensor(sizes, values);
        tensor.name = Some(name.to_owned());
        tensor
    };
    let named = |name: &str, code, sizes: &[Option<i64>]| {
        let mut value = model::value(name, code, sizes);
        value.name = Some(name.to_owned());
        value
    };
    let graph = GraphProto {
        node: nodes(text, Some(&body)),
        input: vec![
            named("x", FLOAT, &[None, Some(2)]),
            named("d", INT64, &[None]),
            named("i", INT64, &[]),
        ],
        output: vec![model::untyped("y")],
        initializer: vec![
            integers("zero", &[], &[0]),
            integers("one", &[], &[1]),
            integers("two", &[], &[2]),
            integers("[0]", &[1], &[0]),
            integers("[2]", &[1], &[2]),
        ],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        graph: graph.into(),
        opset_import: vec![OperatorSetIdProto {
            version: Some(17),
            ..OperatorSetIdProto::default()
        }],
        ..ModelProto::default()
    };
    let bytes = revseq_onnx::encode(&model).expect("it fits");
    Session::from_bytes(&bytes, &LoadOptions::new().with_sizes(sizes))
}

/// The rows 0, 1 and so on of two equal numbers, as many as `d` has, and these.
fn run(session: &Session, d: &[i64], i: i64) -> Result<Outputs, Error> {
    let x: Vec<f32> = (0..d.len()).flat_map(|row| [row as f32; 2]).collect();
    session.run([
        ("x", Tensor::from_shape(&[d.len(), 2], &x).expect("it fits")),
        ("d", Tensor::from_shape(&[d.len()], d).expect("it fits")),
        ("i", tensor0(i)),
    ])
}

/// The first numbers of the rows of an output.
fn rows(outputs: &Outputs) -> Vec<f32> {
    let y = outputs.iter().next().expect("an output").1;
    let y = y.cast_to::<f32>().expect("numbers");
    let y = y.to_plain_array_view::<f32>().expect("numbers");
    y.iter().step_by(2).copied().collect()
}

const COUNT: &str = "shape = Shape(d)\nt = Squeeze(shape, [0])\ne = SequenceEmpty()\n";

#[test]
fn rows_are_repeated_as_pytorch_writes_it() {
    let text = format!(
        "{COUNT}rows = SplitToSequence axis=0(x, one)\ntimes = SplitToSequence axis=0(d, one)
         q = Loop(t, _, e)\ny = ConcatFromSequence axis=0(q)"
    );
    let body = "row = SequenceAt(rows, step)\nk = SequenceAt(times, step)
         shape = Concat axis=0(k, [2])\nmany = Expand(row, shape)\nl2 = SequenceInsert(l, many)";
    for sizes in [Sizes::OfData, Sizes::Symbolic] {
        let session = open(&text, body, &["l"], sizes).expect("a model");
        for d in [&[2, 0, 3][..], &[1], &[0, 0], &[1, 1, 0, 1]] {
            let expected = d.iter().enumerate();
            let expected: Vec<f32> = expected
                .flat_map(|(row, &times)| vec![row as f32; times as usize])
                .collect();
            let outputs = run(&session, d, 0).unwrap_or_else(|error| panic!("{d:?}: {error}"));
            assert_eq!(rows(&outputs), expected, "{d:?}");
        }
    }
}

#[test]
fn a_list_is_read_at_positions_that_it_has() {
    let built = format!("{COUNT}q = Loop(t, _, e)\ny = SequenceAt(q, i)");
    let body = "row = Gather(x, step)\ndoubled = Add(row, row)\nl2 = SequenceInsert(l, doubled)";
    let begun = "shape = Shape(d)\nt = Squeeze(shape, [0])\nfirst = Gather(x, zero)
         e = SequenceConstruct(first)\nq = Loop(t, _, e)\ny = SequenceAt(q, i)";
    let continues = "last = SequenceAt(l, step)\nrow = Gather(x, step)\nsum = Add(row, last)
         l2 = SequenceInsert(l, sum)";
    let split = "q = SplitToSequence axis=0 keepdims=0(x)\ny = SequenceAt(q, i)";
    let pairs = "q = SplitToSequence axis=-2(x, two)\ny = SequenceAt(q, i)";
    let d = [1, 1, 1];
    // For each list its elements, as the first numbers of their rows.
    let cases: [(&str, &str, &[&[f32]]); 4] = [
        (&built, body, &[&[0.], &[2.], &[4.]]),
        (begun, continues, &[&[0.], &[0.], &[1.], &[3.]]),
        (split, body, &[&[0.], &[1.], &[2.]]),
        (pairs, body, &[&[0., 1.], &[2.]]),
    ];
    for (text, body, expected) in cases {
        for sizes in [Sizes::OfData, Sizes::Symbolic] {
            let session = open(text, body, &["l"], sizes).expect("a model");
            let count = expected.len() as i64;
            for i in -count..count {
                let outputs = run(&session, &d, i);
                let outputs = outputs.unwrap_or_else(|error| panic!("{text}, {i}: {error}"));
                assert_eq!(
                    rows(&outputs),
                    expected[i.rem_euclid(count) as usize],
                    "{text}, {i}"
                );
            }
            for i in [count, count + 3, -count - 1, -count - 4] {
                let error = run(&session, &d, i).expect_err("the list has no such position");
                assert!(error.to_string().lines().count() == 1, "{error}");
            }
        }
    }
}
