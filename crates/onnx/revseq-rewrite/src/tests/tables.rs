//! Graphs that match and near misses, for each pass.

mod invariant;
mod map;
mod masks;
mod partial_map;
mod recurrent_loop;
mod runtimes;
mod scattered_rows;
mod unrolled;

use std::path::Path;

use super::{fast, pass, read, rewritten, value};
use crate::constant::Floats;
use crate::model::{
    BOOL, FLOAT, GraphProto, INT32, INT64, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    int64_tensor,
};
use crate::{Options, Outcome};
use buffa::MessageField;
use revseq_test_models::text::nodes;

/// A graph and the expected result.
struct Row {
    nodes: Vec<&'static str>,
    /// The graph's outputs, of rank 3 unless they are loop outputs.
    outputs: &'static str,
    /// Initializers that a caller may replace.
    replaceable: &'static str,
    /// The sizes of `x`.
    sizes: Option<[Option<i64>; 3]>,
    opset: i64,
    options: Option<Options>,
    /// Subgraphs.
    inner: &'static str,
    /// Replacements in the text.
    changes: Vec<(&'static str, &'static str)>,
    expected: Expected,
}

/// Stands for operators that are too many to list, with no reversal and no loop among them.
const ANY: &str = "any";

enum Expected {
    /// The pass reports this rewrite, and these operators remain.
    Taken(&'static str, &'static str),
    /// The pass changes nothing, for this reason; empty if the pass reports none.
    Left(&'static str),
}

fn row(nodes: &[&'static str], expected: Expected) -> Row {
    Row {
        nodes: nodes.to_vec(),
        outputs: "y",
        replaceable: "",
        sizes: Some([None; 3]),
        opset: 17,
        options: None,
        inner: "",
        changes: Vec::new(),
        expected,
    }
}

fn takes(what: &'static str, operators: &'static str, nodes: &[&'static str]) -> Row {
    row(nodes, Expected::Taken(what, operators))
}

fn leaves(why: &'static str, nodes: &[&'static str]) -> Row {
    row(nodes, Expected::Left(why))
}

impl Row {
    fn outputs(self, outputs: &'static str) -> Self {
        Self { outputs, ..self }
    }

    fn replaceable(self, replaceable: &'static str) -> Self {
        Self {
            replaceable,
            ..self
        }
    }

    fn sizes(self, sizes: [Option<i64>; 3]) -> Self {
        let sizes = Some(sizes);
        Self { sizes, ..self }
    }

    fn without_sizes(self) -> Self {
        let sizes = None;
        Self { sizes, ..self }
    }

    fn opset(self, opset: i64) -> Self {
        Self { opset, ..self }
    }

    fn options(self, options: Options) -> Self {
        let options = Some(options);
        Self { options, ..self }
    }

    fn inner(self, inner: &'static str) -> Self {
        Self { inner, ..self }
    }

    fn with(mut self, from: &'static str, to: &'static str) -> Self {
        self.changes.push((from, to));
        self
    }

    fn model(&self) -> ModelProto {
        let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        let mut text = trimmed(&format!("{}\n{}", self.nodes.join("\n"), self.inner));
        for (from, to) in &self.changes {
            let from = trimmed(from);
            assert!(text.contains(&from), "{from}");
            text = text.replace(&from, to);
        }
        let mut x = value("x", FLOAT, &self.sizes.unwrap_or_default());
        if self.sizes.is_none() {
            x.r#type = MessageField::none();
        }
        let mut input = vec![
            x,
            value("lens", INT64, &[None]),
            value("own", INT32, &[None]),
            value("flag", BOOL, &[]),
        ];
        let replaceable = self.replaceable.split_whitespace();
        input.extend(replaceable.map(|name| value(name, FLOAT, &[])));
        let output = self.outputs.split_whitespace();
        let graph = GraphProto {
            name: Some("graph".to_owned()),
            node: nodes(&text),
            input,
            output: output.map(|name| value(name, FLOAT, &[None; 3])).collect(),
            initializer: initializers(),
            ..GraphProto::default()
        };
        let import = |domain: &str, version| OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
            ..OperatorSetIdProto::default()
        };
        ModelProto {
            ir_version: Some(8),
            opset_import: vec![import("", self.opset), import("revseq", 1)],
            graph: MessageField::some(graph),
            ..ModelProto::default()
        }
    }

    fn check(&self, name: &str) {
        let text = self.nodes.join("\n");
        let shown = format!("{name}, {:?}:\n{text}\n", self.changes);
        let before = self.model();
        let options = self.options.clone().unwrap_or_else(|| pass(name));
        let (after, report) = rewritten(&before, &options);
        let of_pass = report.steps.iter().filter(|step| step.pass == name);
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for step in of_pass {
            match &step.outcome {
                Outcome::Rewritten(what) => taken.push(what.as_str()),
                Outcome::LeftAlone(why) => left.push(why.as_str()),
            }
        }
        match &self.expected {
            Expected::Taken(what, operators) => {
                let found = taken.iter().any(|taken| taken.contains(what));
                assert!(found, "{shown}{report:#?}");
                let operators_left = left_over(&after);
                if *operators == ANY {
                    let left = ["Reverse", "Loop", "Scan"].map(|it| operators_left.contains(it));
                    assert_eq!(left, [false; 3], "{shown}{operators_left}");
                } else {
                    assert_eq!(operators_left, *operators, "{shown}");
                }
            }
            Expected::Left(why) => {
                // Another pass may have changed the node.
                let is_same = before == after || report.rewritten().any(|step| step.pass != name);
                assert!(is_same && taken.is_empty(), "{shown}{report:#?}");
                let told = left.iter().any(|left| left.contains(why));
                assert!(
                    if why.is_empty() {
                        left.is_empty()
                    } else {
                        told
                    },
                    "{shown}{left:#?}"
                );
            }
        }
    }
}

/// The operators of a graph in order, without Identity.
fn left_over(model: &ModelProto) -> String {
    let nodes = &model.graph.as_option().unwrap().node;
    let operators = nodes.iter().map(NodeProto::op);
    let operators: Vec<&str> = operators
        .filter(|op| !matches!(*op, "Constant" | "Identity"))
        .collect();
    operators.join(" ")
}

/// The initializers of all graphs.
fn initializers() -> Vec<TensorProto> {
    let ints: [(&str, &[i64]); 15] = [
        ("upright_one", &[1, 1]),
        ("nothing", &[]),
        ("leading", &[0, 1]),
        ("rows", &[-1, 3]),
        ("zero", &[0]),
        ("one", &[1]),
        ("two", &[2]),
        ("three", &[3]),
        ("four", &[4]),
        ("minus", &[-1]),
        ("first", &[-i64::MAX]),
        ("fours", &[4, 4]),
        ("mixed", &[3, 4]),
        ("sizes", &[2, 1, 3]),
        ("framed", &[1, -1, 2]),
    ];
    let ints = ints.map(|(name, values)| (name, int64_tensor(&[values.len() as i64], values)));
    let upright = ("upright", int64_tensor(&[2], &[-1, 1]));
    let scalars: [(&str, i64); 7] = [
        ("start", 0),
        ("next", 1),
        ("at2", 2),
        ("at3", 3),
        ("at4", 4),
        ("five", 5),
        ("endless", i64::MAX),
    ];
    let scalars = scalars.map(|(name, value)| (name, int64_tensor(&[], &[value])));
    // Weights of a layer and of a loop with 3 inputs and 2 units.
    let floats: [(&str, &[usize]); 11] = [
        ("w", &[1, 2, 3]),
        ("r", &[1, 2, 2]),
        ("w3", &[1, 6, 3]),
        ("r3", &[1, 6, 2]),
        ("w4", &[1, 8, 3]),
        ("r4", &[1, 8, 2]),
        ("kernel", &[3, 2]),
        ("recurrent", &[2, 2]),
        ("bias", &[2]),
        // The same matrices, transposed or stacked.
        ("w2d", &[2, 3]),
        ("stack", &[5, 2]),
    ];
    let floats = floats.map(|(name, sizes)| (name, filled(sizes, 0.5)));
    let begins = [
        ("origin", int64_tensor(&[], &[0])),
        ("table", int64_tensor(&[2, 2], &[3, 1, 2, 2])),
        ("left", int64_tensor(&[2, 1], &[1, 4])),
        ("right", int64_tensor(&[2, 1], &[3, 2])),
        ("nought", filled(&[], 0.0)),
        ("half", filled(&[], 0.5)),
        ("whole", filled(&[], 1.0)),
        ("two_times", filled(&[], 2.0)),
        ("recurrent2", filled(&[2, 2], 0.25)),
        ("begin_row", filled(&[1, 2], 0.25)),
        ("fives", filled(&[], 5.0)),
        ("zeros3", filled(&[2, 1, 2], 0.0)),
        ("three_rows", filled(&[3, 2], 0.0)),
        ("always", truth()),
    ];
    let all = ints
        .into_iter()
        .chain([upright])
        .chain(scalars)
        .chain(floats)
        .chain(begins);
    all.map(|(name, tensor)| TensorProto {
        name: Some(name.to_owned()),
        ..tensor
    })
    .collect()
}

fn filled(sizes: &[usize], element: f32) -> TensorProto {
    Floats {
        sizes: sizes.to_vec(),
        elements: vec![element; sizes.iter().product()],
    }
    .to_tensor()
}

fn truth() -> TensorProto {
    TensorProto {
        data_type: Some(BOOL),
        raw_data: Some(vec![1]),
        ..TensorProto::default()
    }
}

fn check(name: &str, rows: &[Row]) {
    let taken = |row: &&Row| matches!(row.expected, Expected::Taken(..));
    assert!(rows.iter().any(|row| taken(&row)) && !rows.iter().all(|row| taken(&row)));
    for row in rows {
        row.check(name);
    }
}

/// `full`: the size of axis 0, repeated for each entry of axis 1.
const FULL: &str = "shape = Shape(x)
    time = Gather(shape, zero)
    batch = Gather(shape, one)
    full = Expand(time, batch)";

/// Subgraphs that read values around them.
const READING: &str = "
    @reading: -> read
        read = Neg(reversed)
    @outer: -> read
        read = Neg(moved)
    @looping: i c s -> c2 s2
        c2 = Identity(c)
        s2 = Add(s, reversed)
";

#[test]
fn full_flip() {
    let other = "not provably the size of axis";
    let varied = "not provably all the same";
    let slice = "Slice of axis 0 with a step of -1";
    let fours = "y = ReverseSequence<batch_axis=0;time_axis=1>(x, fours)";
    let flip = "y = ReverseSequence<batch_axis=1;time_axis=0>(x, full)";
    let declared = [Some(2), Some(4), None];
    check(
        "full-flip",
        &[
            takes(slice, "Slice", &[FULL, flip]),
            takes(
                slice,
                "Slice",
                &[
                    FULL,
                    "y = ReverseSequence<batch_axis=-2;time_axis=-3>(x, full)",
                ],
            ),
            // The lengths may have other readers.
            takes(slice, "Shape Gather Gather Expand Slice", &[FULL, flip]).outputs("y full"),
            // Through operators that keep sizes, and operators that move them.
            takes(
                "Slice of axis 1",
                "Neg Transpose Slice",
                &[
                    FULL,
                    "negative = Neg(x)
            turned = Transpose<perm=[1,0,2]>(negative)
            y = ReverseSequence<batch_axis=0;time_axis=1>(turned, full)",
                ],
            ),
            takes("Slice of axis 1", "Slice", &[fours]).sizes(declared),
            takes(
                "Slice of axis 1",
                "Slice",
                &["all = Expand(four, sizes)
            y = revseq.ReverseSubsequences<axis=1>(x, all)"],
            )
            .sizes(declared),
            // ONNX Runtime ends the process where a subgraph reads a Slice of a DequantizeLinear.
            takes(
                slice,
                "DequantizeLinear Sum Slice If",
                &[
                    FULL,
                    "moved = DequantizeLinear(x, half)
            reversed = ReverseSequence<batch_axis=1;time_axis=0>(moved, full)
            y = If<then_branch=@reading;else_branch=@reading>(flag)",
                ],
            )
            .inner(READING),
            takes(
                slice,
                "DequantizeLinear Mul Transpose Transpose Sum Slice Loop",
                &[
                    FULL,
                    "real = DequantizeLinear(x, half)
            scaled = Mul(whole, real)
            turned = Transpose<perm=[1,0,2]>(scaled)
            moved = Transpose<perm=[1,0,2]>(turned)
            flipped = ReverseSequence<batch_axis=1;time_axis=0>(moved, full)
            reversed = Identity(flipped)
            y = Loop<body=@looping>(five, always, x)",
                ],
            )
            .inner(READING),
            takes(
                slice,
                "DequantizeLinear Slice If",
                &[
                    FULL,
                    "moved = DequantizeLinear(x, half)
            reversed = ReverseSequence<batch_axis=1;time_axis=0>(moved, full)
            y = If<then_branch=@outer;else_branch=@outer>(flag)",
                ],
            )
            .inner(READING)
            .outputs("y reversed"),
            // It is so before.
            takes(
                slice,
                "DequantizeLinear Transpose Slice If",
                &[
                    FULL,
                    "real = DequantizeLinear(x, half)
            reversed = Transpose<perm=[1,0,2]>(real)
            z = ReverseSequence<batch_axis=1;time_axis=0>(x, full)
            y = If<then_branch=@reading;else_branch=@reading>(flag)",
                ],
            )
            .inner(READING)
            .outputs("y z"),
            // The size of another axis, of another value, and of none.
            leaves(
                other,
                &[
                    FULL,
                    "y = ReverseSequence<batch_axis=0;time_axis=1>(x, full)",
                ],
            ),
            leaves(
                other,
                &[
                    "twice = Concat<axis=0>(x, x)
            shape = Shape(twice)
            time = Gather(shape, zero)
            batch = Gather(shape, one)
            full = Expand(time, batch)",
                    flip,
                ],
            ),
            leaves(
                varied,
                &[
                    FULL,
                    "less = Sub(full, one)",
                    "y = ReverseSequence(x, less)",
                ],
            ),
            leaves(other, &[fours]),
            leaves(other, &[fours]).sizes([Some(2), Some(5), None]),
            leaves(
                other,
                &["all = Expand(two, sizes)
            y = revseq.ReverseSubsequences<axis=1>(x, all)"],
            )
            .sizes(declared),
            // Other lengths: different for each sequence, or given by the caller.
            leaves(
                varied,
                &["y = ReverseSequence<batch_axis=0;time_axis=1>(x, mixed)"],
            )
            .sizes(declared),
            leaves(
                varied,
                &["y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)"],
            )
            .sizes(declared),
            leaves(varied, &[fours])
                .sizes(declared)
                .replaceable("fours"),
            leaves(
                "of a rank that is not known",
                &["shapeless = Reshape(x, lens)
            y = ReverseSequence<batch_axis=-3;time_axis=-2>(shapeless, fours)"],
            ),
            leaves(
                "version 9 of ONNX's operators has no Slice with steps",
                &["all = Expand(four, sizes)
            y = revseq.ReverseSubsequences<axis=1>(x, all)"],
            )
            .sizes(declared)
            .opset(9),
            leaves("", &["y = Neg(x)"]),
        ],
    );
}

/// Lengths from tables and sizes: rows, columns and elements.
#[test]
fn full_flip_by_lengths_in_tables() {
    let other = "not provably the size of axis";
    let varied = "not provably all the same";
    let slice = "Slice of axis 0 with a step of -1";
    let flip = "y = ReverseSequence<batch_axis=1;time_axis=0>(x, by)";
    let three = [Some(3), Some(2), None];
    let column = "both = Concat<axis=1>(left, right)
        flat = Reshape(both, minus)
        by = Gather(flat, one)";
    let dense = "flat = Reshape(x, rows)
        product = MatMul(flat, kernel)
        sizes_of_x = Shape(x)
        before = Gather(sizes_of_x, leading)
        wanted = Concat<axis=0>(before, two)
        dense = Reshape(product, wanted)
        shape = Shape(dense)
        time = Gather(sizes_of_x, zero)
        batch = Gather(shape, one)
        by = Expand(time, batch)
        y = ReverseSequence<batch_axis=1;time_axis=0>(dense, by)";
    let reduced = "less = ReduceSum(x, nothing)
        shape = Shape(less)
        time = Gather(shape, zero)
        sizes_of_x = Shape(x)
        batch = Gather(sizes_of_x, one)
        by = Expand(time, batch)";
    check(
        "full-flip",
        &[
            leaves(varied, &["by = Gather(table, origin)", flip]).sizes(three),
            leaves(varied, &["by = Gather<axis=1>(table, origin)", flip]).sizes(three),
            leaves(
                varied,
                &[
                    "row = Slice(table, zero, one, zero)
            by = Squeeze(row, zero)",
                    flip,
                ],
            )
            .sizes(three),
            takes(
                slice,
                "Slice",
                &["by = Gather<axis=0>(table, one)
            y = revseq.ReverseSubsequences<axis=0>(x, by)"],
            )
            .sizes([Some(2), Some(2), Some(2)]),
            leaves(
                varied,
                &[
                    "shape = Shape(x)
            wide = Unsqueeze(shape, zero)
            by = Gather(wide, origin)",
                    flip,
                ],
            ),
            takes(slice, "Slice", &[column, flip]).sizes([Some(3), Some(1), None]),
            leaves(other, &[column, flip]).sizes([Some(4), Some(1), None]),
            // No listed axes mean all axes, unless the attribute says none.
            leaves(other, &[reduced, flip]),
            takes(slice, "Slice", &[reduced, flip]).with(
                "less = ReduceSum(",
                "less = ReduceSum<noop_with_empty_axes=1>(",
            ),
            takes(slice, "Slice", &[reduced, flip]).with("(x, nothing)", "(x, minus)"),
            // A layer over the last axis, whose Reshape keeps the sizes of its input.
            takes(
                slice,
                "Reshape MatMul Shape Gather Concat Reshape Slice",
                &[dense],
            )
            .sizes([None, None, Some(3)]),
            leaves(other, &[dense]),
            leaves(other, &[dense])
                .sizes([None, None, Some(3)])
                .with("Gather(sizes_of_x, zero)", "Gather(sizes_of_x, one)"),
        ],
    );
}

#[test]
fn transpose() {
    let swap = "turned = Transpose<perm=[1,0,2]>(x)
        reversed = ReverseSequence<batch_axis=1;time_axis=0>(turned, lens)";
    let back = "y = Transpose<perm=[1,0,2]>(reversed)";
    let turn = "turned = Transpose<perm=[2,0,1]>(x)
        reversed = ReverseSequence<batch_axis=1;time_axis=2>(turned, lens)
        y = Transpose<perm=[1,2,0]>(reversed)";
    let beyond = "turned = Transpose<perm=[2,0,1]>(x)
        reversed = ReverseSequence<batch_axis=0;time_axis=1>(turned, lens)
        y = Transpose<perm=[1,2,0]>(reversed)";
    let undo = "do not undo each other";
    check(
        "transpose",
        &[
            takes(
                "time axis 1, batch axis 0",
                "ReverseSequence",
                &[swap, back],
            ),
            takes("time axis 1, batch axis 0", "ReverseSequence", &[turn]),
            takes("time axis 0, batch axis 2", "ReverseSequence", &[beyond]),
            takes(
                "Slice of axis 1",
                "Slice",
                &[
                    "turned = Transpose<perm=[1,0,2]>(x)
            reversed = Slice(turned, minus, first, zero, minus)",
                    back,
                ],
            ),
            // Other readers of the transposed value keep it.
            takes("time axis 1", "Transpose ReverseSequence", &[swap, back]).outputs("y turned"),
            takes(
                "time axis 1",
                "Transpose Neg ReverseSequence Add",
                &[
                    swap,
                    "negative = Neg(turned)
            back = Transpose<perm=[1,0,2]>(reversed)
            y = Add(back, negative)",
                ],
            ),
            leaves(undo, &[swap, "y = Transpose<perm=[2,1,0]>(reversed)"]),
            leaves(undo, &[swap, "y = Transpose(reversed)"]),
            // Axes that ONNX does not allow are left alone unless requested.
            leaves("of which ONNX allows only 0 and 1", &[beyond]).options(fast()),
            // The value in the middle has another reader, or is an output.
            leaves(
                "",
                &[
                    swap,
                    "back = Transpose<perm=[1,0,2]>(reversed)",
                    "y = Add(back, reversed)",
                ],
            ),
            leaves("", &[swap, back]).outputs("y reversed"),
            // Another operator in the middle.
            leaves(
                "",
                &[
                    swap,
                    "negative = Neg(reversed)",
                    "y = Transpose<perm=[1,0,2]>(negative)",
                ],
            ),
            leaves(
                "",
                &[
                    "turned = Neg(x)
            reversed = ReverseSequence<batch_axis=1;time_axis=0>(turned, lens)",
                    back,
                ],
            ),
        ],
    );
}

#[test]
fn cancel() {
    let first = "middle = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)";
    let last = "y = ReverseSequence<batch_axis=0;time_axis=1>(middle, lens)";
    let behind = "y = ReverseSequence<batch_axis=0;time_axis=1>(between, lens)";
    let another = "the reversal before it is another one";
    let nothing = "nothing: it undoes the reversal before it";
    let one = "nothing, with the reversal before 1 operators";
    check(
        "cancel",
        &[
            takes(nothing, "", &[first, last]),
            takes(
                nothing,
                "",
                &[
                    first,
                    "y = ReverseSequence<batch_axis=-3;time_axis=-2>(middle, lens)",
                ],
            ),
            takes(
                nothing,
                "",
                &["middle = Slice(x, minus, first, one, minus)
            y = Slice(middle, minus, first, one, minus)"],
            ),
            // Equal lengths from separate nodes.
            takes(
                nothing,
                "",
                &["same = Cast<to=7>(own)
            again = Cast<to=7>(own)
            middle = ReverseSequence<batch_axis=0;time_axis=1>(x, same)
            y = ReverseSequence<batch_axis=0;time_axis=1>(middle, again)"],
            ),
            // The first result has another reader; the last reversal is removed anyway.
            takes(nothing, "ReverseSequence", &[first, last]).outputs("y middle"),
            takes(
                nothing,
                "ReverseSequence Add",
                &[
                    first,
                    "back = ReverseSequence<batch_axis=0;time_axis=1>(middle, lens)
            y = Add(back, middle)",
                ],
            ),
            takes(one, "Tanh", &[first, "between = Tanh(middle)", behind]),
            takes(
                one,
                "Cast",
                &[first, "between = Cast<to=11>(middle)", behind],
            ),
            takes(
                one,
                "Transpose",
                &[
                    first,
                    "between = Transpose<perm=[1,0,2]>(middle)
            y = ReverseSequence<batch_axis=1;time_axis=0>(between, lens)",
                ],
            ),
            takes(
                one,
                "Unsqueeze",
                &[
                    first,
                    "between = Unsqueeze(middle, one)
            y = ReverseSequence<batch_axis=0;time_axis=2>(between, lens)",
                ],
            ),
            // In its form before opset 13.
            takes(
                one,
                "Unsqueeze",
                &[
                    first,
                    "between = Unsqueeze<axes=[1]>(middle)
            y = ReverseSequence<batch_axis=0;time_axis=2>(between, lens)",
                ],
            )
            .opset(11),
            takes(
                "the reversal before 2 operators",
                "Unsqueeze Squeeze",
                &[
                    first,
                    "wide = Unsqueeze(middle, zero)
            between = Squeeze(wide, zero)",
                    behind,
                ],
            ),
            leaves(
                another,
                &[
                    first,
                    "y = ReverseSequence<batch_axis=1;time_axis=0>(middle, lens)",
                ],
            ),
            leaves(
                another,
                &[
                    first,
                    "y = ReverseSequence<batch_axis=0;time_axis=1>(middle, fours)",
                ],
            ),
            leaves(
                another,
                &[first, "y = Slice(middle, minus, first, one, minus)"],
            ),
            leaves(
                another,
                &["middle = Slice(x, minus, first, one, minus)
            y = Slice(middle, minus, first, zero, minus)"],
            ),
            leaves(
                another,
                &[first, "between = Transpose<perm=[1,0,2]>(middle)", behind],
            ),
            leaves("", &[first, "between = Unsqueeze(middle, one)", behind]),
            // No axes mean all of size 1, which may be any.
            leaves("", &[first, "between = Squeeze(middle, nothing)", behind]),
            takes(
                one,
                "Squeeze",
                &[first, "between = Squeeze(middle, nothing)", behind],
            )
            .sizes([Some(3), Some(4), Some(1)]),
            // Random lengths differ every time.
            leaves(
                another,
                &["same = Bernoulli(lens)
            again = Bernoulli(lens)
            middle = ReverseSequence<batch_axis=0;time_axis=1>(x, same)
            y = ReverseSequence<batch_axis=0;time_axis=1>(middle, again)"],
            ),
            // The slices do not cover the axis.
            leaves(
                "",
                &["middle = Slice(x, minus, zero, one, minus)
            y = Slice(middle, minus, zero, one, minus)"],
            ),
            // Operators between that depend on the order.
            leaves("", &[first, "between = Softmax<axis=1>(middle)", behind]),
            leaves("", &[first, "between = CumSum(middle, one)", behind]),
            leaves("", &[first, "between = Add(middle, x)", behind]),
            // All axes are reversed, and so the second reversal is along another one.
            leaves(
                "the reversal before it is another one",
                &[first, "between = Transpose(middle)", behind],
            ),
            // The operator between has another reader, or is an output; computing it twice is no
            // gain.
            leaves(
                "",
                &[
                    first,
                    "between = Tanh(middle)
            back = ReverseSequence<batch_axis=0;time_axis=1>(between, lens)
            y = Add(back, between)",
                ],
            ),
            leaves("", &[first, "between = Tanh(middle)", behind]).outputs("y between"),
        ],
    );
}

#[test]
fn direction() {
    let flip = "flipped = Slice(x, minus, first, zero, minus)";
    let reversed = "flipped = ReverseSequence<batch_axis=1;time_axis=0>(x, lens)
        casted = Cast<to=6>(lens)";
    let turned = "RNN with direction = reverse";
    let own = "not provably its own";
    let forward = "only forward layers";
    check(
        "direction",
        &[
            takes(
                turned,
                "RNN Slice",
                &[flip, "y = RNN<hidden_size=2>(flipped, w, r)"],
            ),
            takes(
                "GRU with direction = reverse",
                "GRU Slice",
                &[
                    flip,
                    "y = GRU<hidden_size=2;direction=forward>(flipped, w3, r3)",
                ],
            ),
            takes(
                "LSTM with direction = reverse",
                "LSTM Slice",
                &[flip, "y = LSTM<hidden_size=2>(flipped, w4, r4)"],
            ),
            takes(
                turned,
                "Cast RNN Squeeze ReverseSequence Unsqueeze",
                &[reversed, "y = RNN<hidden_size=2>(flipped, w, r, _, casted)"],
            ),
            // Only the final state is read.
            takes(
                turned,
                "RNN",
                &[flip, "_, y = RNN<hidden_size=2>(flipped, w, r)"],
            ),
            // Other readers keep the reversed value.
            takes(
                turned,
                "Slice RNN Slice",
                &[flip, "y = RNN<hidden_size=2>(flipped, w, r)"],
            )
            .outputs("y flipped"),
            // After the lengths the steps would differ.
            leaves(own, &[reversed, "y = RNN<hidden_size=2>(flipped, w, r)"]),
            leaves(
                own,
                &[reversed, "y = RNN<hidden_size=2>(flipped, w, r, _, own)"],
            ),
            leaves(
                "lengths of its own",
                &[flip, "y = RNN<hidden_size=2>(flipped, w, r, _, own)"],
            ),
            leaves(
                "another axis than time",
                &["flipped = Slice(x, minus, first, one, minus)
            y = RNN<hidden_size=2>(flipped, w, r)"],
            ),
            leaves(
                "another axis than time",
                &[
                    "flipped = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)
            casted = Cast<to=6>(lens)
            y = RNN<hidden_size=2>(flipped, w, r, _, casted)",
                ],
            ),
            leaves(
                forward,
                &[
                    flip,
                    "y = RNN<hidden_size=2;direction=reverse>(flipped, w, r)",
                ],
            ),
            leaves(
                forward,
                &[
                    flip,
                    "y = RNN<hidden_size=2;direction=bidirectional>(flipped, w, r)",
                ],
            ),
            leaves(
                forward,
                &[flip, "y = RNN<hidden_size=2;layout=1>(flipped, w, r)"],
            ),
            // Not a whole flip, or not of the layer's input.
            leaves(
                "",
                &["flipped = Slice(x, minus, zero, zero, minus)
            y = RNN<hidden_size=2>(flipped, w, r)"],
            ),
            leaves(
                "",
                &[
                    flip,
                    "between = Neg(flipped)",
                    "y = RNN<hidden_size=2>(between, w, r)",
                ],
            ),
            leaves(
                "",
                &[flip, "y = RNN<hidden_size=2>(x, w, r, _, _, flipped)"],
            ),
        ],
    );
}

#[test]
fn bidirectional() {
    let forward = "one_way = RNN<hidden_size=2>(x, w, r)";
    let backward = "other_way = RNN<hidden_size=2;direction=reverse>(x, w, r)";
    let sum = "y = Add(one_way, other_way)";
    let joined = "bidirectional RNN";
    let constant = "the weights of the two directions are not constant";
    let miss = |other: &'static str| leaves("", &[forward, other, sum]);
    check(
        "bidirectional",
        &[
            takes(joined, "RNN Slice Slice Add", &[forward, backward, sum]),
            takes(joined, "RNN Slice Slice Add", &[backward, forward, sum]),
            takes(joined, "RNN Slice Slice", &[forward, backward]).outputs("one_way other_way"),
            takes(
                joined,
                "RNN Slice Slice Add",
                &[
                    "one_way = RNN<hidden_size=2>(x, w, r, _, own)
            other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own)",
                    sum,
                ],
            ),
            takes(
                joined,
                "Neg Concat RNN Slice Slice Add",
                &[
                    "begin = Neg(x)
            one_way = RNN<hidden_size=2>(x, w, r, _, _, begin)
            other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, _, begin)",
                    sum,
                ],
            ),
            // Slice had attributes then.
            takes(joined, "RNN Slice Slice Add", &[forward, backward, sum]).opset(9),
            // Of three layers, two are joined, once.
            takes(
                joined,
                "RNN Slice Slice RNN Add Add",
                &[
                    forward,
                    "again = RNN<hidden_size=2>(x, w, r)",
                    backward,
                    "both = Add(one_way, again)
            y = Add(both, other_way)",
                ],
            ),
            takes(
                joined,
                "RNN Slice Slice RNN",
                &[forward, "again = RNN<hidden_size=2>(x, w, r)", backward],
            )
            .outputs("one_way again other_way"),
            miss("other_way = RNN<hidden_size=2>(x, w, r)"),
            miss("other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own)"),
            miss("other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, _, x)"),
            miss("other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, bias)"),
            miss("other_way = RNN<hidden_size=2;direction=reverse;activations=[Relu]>(x, w, r)"),
            miss("other_way = RNN<hidden_size=2;direction=reverse;clip=1>(x, w, r)"),
            miss("other_way = RNN<hidden_size=3;direction=reverse>(x, w, r)"),
            miss("other_way = GRU<hidden_size=2;direction=reverse>(x, w3, r3)"),
            miss("other_way = RNN<hidden_size=2;direction=bidirectional>(x, w, r)"),
            leaves(
                "",
                &[
                    forward,
                    "negative = Neg(x)
            other_way = RNN<hidden_size=2;direction=reverse>(negative, w, r)",
                    sum,
                ],
            ),
            leaves(
                "",
                &[
                    "one_way = RNN<hidden_size=2;layout=1>(x, w, r)
            other_way = RNN<hidden_size=2;direction=reverse;layout=1>(x, w, r)",
                    sum,
                ],
            ),
            leaves(
                "",
                &[
                    "one_way = LSTM<hidden_size=2>(x, w4, r4, _, _, _, _, bias)
            other_way = LSTM<hidden_size=2;direction=reverse>(x, w4, r4, _, _, _, _, bias)",
                    sum,
                ],
            ),
            leaves(constant, &[forward, backward, sum]).replaceable("w"),
            leaves(
                constant,
                &[
                    forward,
                    "computed = Neg(w)
            other_way = RNN<hidden_size=2;direction=reverse>(x, computed, r)",
                    sum,
                ],
            ),
            leaves(
                constant,
                &[
                    forward,
                    "other_way = RNN<hidden_size=2;direction=reverse>(x, w3, r)",
                    sum,
                ],
            ),
        ],
    );
}

/// An RNN of one direction takes the first of ONNX's default, which is that of two, and as ONNX Runtime writes
/// it.
#[test]
fn bidirectional_with_the_activations_of_both() {
    for activations in [["[Relu]", "[Relu]"], ["[Relu]", "[Relu,Tanh]"]] {
        let [from, to] = activations;
        let nodes = "a = RNN<hidden_size=2;activations=[Relu]>(x, w, r)
            b = RNN<hidden_size=2;direction=reverse;activations=[Relu]>(x, w, r)
            y = Add(a, b)";
        let model = row(&[nodes], Expected::Left("")).with(from, to).model();
        let (after, _) = rewritten(&model, &pass("bidirectional"));
        let graph = after.graph.as_option().expect("a graph");
        let layers: Vec<&NodeProto> = graph.node.iter().filter(|it| it.is("RNN")).collect();
        let [layer] = layers[..] else {
            panic!("{layers:?}");
        };
        let activations = layer.attribute("activations").expect("activations");
        assert_eq!(activations.strings, [b"Relu"; 2]);
    }
}

#[test]
fn sequence_lens() {
    let what = "RNN, forward, without sequence_lens";
    let gone = "Cast Shape Gather Range Unsqueeze Unsqueeze Less RNN Where";
    let forward = "y = RNN<hidden_size=2>(x, w, r, _, own)";
    check(
        "sequence-lens",
        &[
            takes(what, gone, &[forward]),
            takes(what, gone, &[forward]).opset(11),
            takes(
                what,
                "Cast Shape Gather Range Unsqueeze Unsqueeze Less ReverseSequence RNN Squeeze \
             ReverseSequence Unsqueeze Where",
                &["y = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own)"],
            ),
            takes(
                "RNN, one forward for each direction, without sequence_lens",
                "Cast Shape Gather Range Unsqueeze Unsqueeze Less Slice RNN ReverseSequence \
             Slice RNN Squeeze ReverseSequence Unsqueeze Concat Where",
                &["y = RNN<hidden_size=2;direction=bidirectional>(x, x, x, _, own)"],
            ),
            takes(
                what,
                "Expand Cast Shape Gather Range Unsqueeze Unsqueeze Less RNN Where",
                &["begin = Expand(half, sizes)
            y = RNN<hidden_size=2>(x, w, r, _, own, begin)"],
            ),
            takes(
                what,
                "Cast Transpose Shape Gather Range Unsqueeze Unsqueeze Less RNN Where Transpose",
                &["y = RNN<hidden_size=2;layout=1>(x, w, r, _, own)"],
            ),
            takes(
                "LSTM, forward, without sequence_lens",
                "Cast Shape Gather Range Unsqueeze Unsqueeze Sub Less Squeeze Not Cast \
             ReverseSequence Slice Where Concat Reshape ReduceSum Unsqueeze Concat LSTM",
                &["_, _, y = LSTM<hidden_size=2>(x, w4, r4, half, own)"],
            ),
            takes(
                "LSTM, forward, without sequence_lens",
                "Cast Shape Gather Range Unsqueeze Unsqueeze Sub Less Squeeze Not Slice Where LSTM",
                &["_, _, y = LSTM<hidden_size=2;direction=reverse;clip=3;\
             activations=[Softplus,relu,Elu]>(x, w4, x, _, own, _, _, half)"],
            ),
            leaves("version 10 of ONNX's operators has no Range", &[forward]).opset(10),
            takes(
                "LSTM, forward, without sequence_lens",
                "Cast Shape Gather Range Unsqueeze Unsqueeze Sub Less Squeeze Not ReverseSequence Slice \
             Where LSTM",
                &["begin = Expand(nought, sizes)
            state = Slice(begin, zero, one, zero)
            _, _, y = LSTM<hidden_size=2>(x, w4, r4, _, own, state, zeros3)"],
            ),
            leaves(
                "initial states are not provably 0",
                &["_, _, y = LSTM<hidden_size=2>(x, w4, r4, _, own, _, half)"],
            ),
            leaves(
                "activation Sigmoid is not 0 at 0",
                &[
                    "_, _, y = LSTM<hidden_size=2;activations=[Tanh,Tanh,Sigmoid]>(x, w4, r4, _, own)",
                ],
            ),
            leaves(
                "cannot be told apart",
                &[
                    "y = RNN<hidden_size=2;direction=bidirectional;activations=[Elu]>(x, w, r, _, own)",
                ],
            ),
            leaves("", &["y = RNN<hidden_size=2>(x, w, r)"]),
        ],
    );
}

#[test]
fn portable() {
    let standard = "standard operators around Gather";
    let each = "y = revseq.ReverseSubsequences<axis=1>(x, lens)";
    let reverse = "y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)";
    check(
        "portable",
        &[
            takes(standard, ANY, &[reverse]),
            takes(standard, ANY, &[reverse]).opset(13),
            takes(standard, ANY, &[reverse]).opset(10),
            takes(standard, ANY, &[reverse]).without_sizes(),
            takes(
                standard,
                ANY,
                &["y = ReverseSequence<batch_axis=-2;time_axis=-1>(x, lens)"],
            )
            .without_sizes(),
            takes(
                standard,
                ANY,
                &["y = ReverseSequence<batch_axis=2;time_axis=1>(x, lens)"],
            ),
            takes(standard, ANY, &[each]),
            leaves("version 9 of ONNX's operators", &[each]).opset(9),
            leaves(
                "an input or the output is missing",
                &["y = ReverseSequence(x)"],
            ),
            leaves("", &["y = Slice(x, minus, first, zero, minus)"]),
        ],
    );
}

/// An axis that a function's callers set, or leave to its default.
#[test]
fn portable_inlines_functions_whose_axis_is_their_callers() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    let (_, mut model) = read(&models.join("graphs/local_function_attributes/model.onnx"));
    for _ in 0..2 {
        let (after, report) = rewritten(&model, &pass("portable"));
        let is_left = after.all_nodes().any(|node| node.is("ReverseSequence"));
        assert!(!is_left && after.functions.is_empty(), "{report:#?}");
        let graph = model.graph.as_option_mut().unwrap();
        graph.node[0].attribute.clear();
    }
}
