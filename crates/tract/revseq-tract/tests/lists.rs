//! Models with lists: their values, and errors of positions that a list does not have.

use revseq_test_models::text;
use revseq_tract::{Error, LoadOptions, Outputs, Session, Sizes};
use tract_onnx::prelude::*;

/// A model with inputs `x` of sizes `T` and 2, int64 `d` of size `T` and int64 `i`, and output `y`; its loop has
/// a list `l` as its state.
fn open(text: &str, body: &str, sizes: Sizes) -> Result<Session, Error> {
    let graph = text::graph(&format!(
        "x:f32[T,2] d:i64[T] i:i64[] -> y
         {text}
         @body: step on l -> on2 l2
         on2 = Identity(on)
         {body}"
    ));
    let bytes = text::model(graph, 17);
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
        "{COUNT}rows = SplitToSequence<axis=0>(x, 1)\ntimes = SplitToSequence<axis=0>(d, 1)
         q = Loop<body=@body>(t, _, e)\ny = ConcatFromSequence<axis=0>(q)"
    );
    let body = "row = SequenceAt(rows, step)\nk = SequenceAt(times, step)
         shape = Concat<axis=0>(k, [2])\nmany = Expand(row, shape)\nl2 = SequenceInsert(l, many)";
    for sizes in [Sizes::OfData, Sizes::Symbolic] {
        let session = open(&text, body, sizes).expect("a model");
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
    let built = format!("{COUNT}q = Loop<body=@body>(t, _, e)\ny = SequenceAt(q, i)");
    let body = "row = Gather(x, step)\ndoubled = Add(row, row)\nl2 = SequenceInsert(l, doubled)";
    let begun = "shape = Shape(d)\nt = Squeeze(shape, [0])\nfirst = Gather(x, 0)
         e = SequenceConstruct(first)\nq = Loop<body=@body>(t, _, e)\ny = SequenceAt(q, i)";
    let continues = "last = SequenceAt(l, step)\nrow = Gather(x, step)\nsum = Add(row, last)
         l2 = SequenceInsert(l, sum)";
    let split = "q = SplitToSequence<axis=0;keepdims=0>(x)\ny = SequenceAt(q, i)";
    let pairs = "q = SplitToSequence<axis=-2>(x, 2)\ny = SequenceAt(q, i)";
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
            let session = open(text, body, sizes).expect("a model");
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
