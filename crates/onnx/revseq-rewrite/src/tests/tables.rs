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

use super::{filled, named, options, pass, read, rewritten, value};
use crate::model::{
    BOOL, FLOAT, GraphProto, INT32, INT64, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    int64_tensor,
};
use crate::{Options, Outcome};
use buffa::MessageField;
use revseq_test_models::text::{self, nodes};

/// A graph and the expected result.
#[derive(Clone)]
struct Row {
    nodes: Vec<String>,
    /// The graph's outputs, of rank 3 unless they are loop outputs.
    outputs: String,
    /// Initializers that a caller may replace.
    replaceable: String,
    /// The sizes of `x`.
    sizes: Option<[Option<i64>; 3]>,
    opset: i64,
    options: Option<Options>,
    /// Subgraphs.
    inner: &'static str,
    /// Replacements in the text.
    changes: Vec<(String, String)>,
    expected: Expected,
}

/// Stands for operators that are too many to list, with no reversal and no loop among them.
const ANY: &str = "any";

#[derive(Clone)]
enum Expected {
    /// The pass reports this rewrite, and these operators remain.
    Taken(String, String),
    /// The pass changes nothing, for this reason; empty if the pass reports none.
    Left(String),
}

/// A graph that rows change, of these nodes.
fn base(nodes: &[&str]) -> Row {
    Row {
        nodes: nodes.iter().map(|&it| it.to_owned()).collect(),
        outputs: "y".to_owned(),
        replaceable: String::new(),
        sizes: Some([None; 3]),
        opset: 17,
        options: None,
        inner: "",
        changes: Vec::new(),
        expected: Expected::Left(String::new()),
    }
}

/// Rows as text: settings in brackets and nodes, one a line, then `=> operators | report` where they are taken,
/// or `=> ! reason` where they are left.
fn rows(text: &str) -> Vec<Row> {
    changed(&base(&[]), text)
}

/// The same of a graph, which lines such as `from -> to` change. Of what is written there, `; ` ends a line or
/// begins another change.
fn changed(base: &Row, text: &str) -> Vec<Row> {
    let row = |(text, expected): &(String, &str)| {
        let expected = match expected.strip_prefix('!') {
            Some(why) => Expected::Left(why.trim().to_owned()),
            None => {
                let (operators, what) = expected.split_once('|').expect("operators | report");
                Expected::Taken(what.trim().to_owned(), operators.trim().to_owned())
            }
        };
        let row = Row {
            expected,
            ..base.clone()
        };
        text.lines().fold(row, Row::line)
    };
    text::rows(text).iter().map(row).collect()
}

impl Row {
    /// Settings, then a node or changes.
    fn line(mut self, line: &str) -> Self {
        if let Some((setting, rest)) = line.strip_prefix('[').and_then(|it| it.split_once(']')) {
            return self.set(setting).line(rest.trim());
        }
        if !line.contains(" -> ") {
            self.nodes
                .extend((!line.is_empty()).then(|| line.to_owned()));
            return self;
        }
        for part in line.split("; ") {
            match (part.split_once(" -> "), self.changes.last_mut()) {
                (Some((from, to)), _) => self = self.with(from, to),
                (None, Some((_, to))) => to.extend(["\n", part]),
                (None, None) => panic!("{line}"),
            }
        }
        self
    }

    /// Sets what follows a name.
    fn set(mut self, setting: &str) -> Self {
        let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
        match name {
            "outputs" => value.clone_into(&mut self.outputs),
            "replaceable" => value.clone_into(&mut self.replaceable),
            "opset" => self.opset = value.parse().expect("a version"),
            "untyped" => self.sizes = None,
            "sizes" => {
                let sizes: Vec<Option<i64>> = value.split(' ').map(|it| it.parse().ok()).collect();
                self.sizes = Some(sizes.try_into().expect("three sizes"));
            }
            "options" => self.options = Some(options(value)),
            _ => panic!("no setting {name}"),
        }
        self
    }

    fn with(mut self, from: &str, to: &str) -> Self {
        self.changes.push((from.to_owned(), to.to_owned()));
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
                let found = taken.iter().any(|taken| taken.contains(&**what));
                assert!(found, "{shown}{report:#?}");
                let operators_left = left_over(&after);
                if operators == ANY {
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
                let told = left.iter().any(|left| left.contains(&**why));
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
    all.map(|(name, tensor)| named(name, tensor)).collect()
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
    let reading = Row {
        inner: READING,
        ..base(&[])
    };
    let rows = changed(
        &reading,
        &format!(
            "{FULL}
             {flip} => Slice | {slice}
             {FULL}
             y = ReverseSequence<batch_axis=-2;time_axis=-3>(x, full) => Slice | {slice}
             # The lengths may have other readers.
             [outputs y full]
             {FULL}
             {flip} => Shape Gather Gather Expand Slice | {slice}
             # Through operators that keep sizes, and operators that move them.
             {FULL}
             negative = Neg(x)
             turned = Transpose<perm=[1,0,2]>(negative)
             y = ReverseSequence<batch_axis=0;time_axis=1>(turned, full)
             => Neg Transpose Slice | Slice of axis 1
             [sizes 2 4 ?]
             {fours} => Slice | Slice of axis 1
             [sizes 2 4 ?]
             all = Expand(four, sizes)
             y = revseq.ReverseSubsequences<axis=1>(x, all) => Slice | Slice of axis 1
             # The size of another axis, of another value, and of none.
             {FULL}
             y = ReverseSequence<batch_axis=0;time_axis=1>(x, full) => ! {other}
             twice = Concat<axis=0>(x, x)
             shape = Shape(twice)
             time = Gather(shape, zero)
             batch = Gather(shape, one)
             full = Expand(time, batch)
             {flip} => ! {other}
             {FULL}
             less = Sub(full, one)
             y = ReverseSequence(x, less) => ! {varied}
             {fours} => ! {other}
             [sizes 2 5 ?]
             {fours} => ! {other}
             [sizes 2 4 ?]
             all = Expand(two, sizes)
             y = revseq.ReverseSubsequences<axis=1>(x, all) => ! {other}
             # Other lengths: different for each sequence, or given by the caller.
             [sizes 2 4 ?]
             y = ReverseSequence<batch_axis=0;time_axis=1>(x, mixed) => ! {varied}
             [sizes 2 4 ?]
             y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens) => ! {varied}
             [sizes 2 4 ?]
             [replaceable fours]
             {fours} => ! {varied}
             shapeless = Reshape(x, lens)
             y = ReverseSequence<batch_axis=-3;time_axis=-2>(shapeless, fours)
             => ! of a rank that is not known
             [sizes 2 4 ?]
             [opset 9]
             all = Expand(four, sizes)
             y = revseq.ReverseSubsequences<axis=1>(x, all)
             => ! version 9 of ONNX's operators has no Slice with steps
             y = Neg(x) => !
             # ONNX Runtime ends the process where a subgraph reads a Slice of a DequantizeLinear.
             {FULL}
             moved = DequantizeLinear(x, half)
             reversed = ReverseSequence<batch_axis=1;time_axis=0>(moved, full)
             y = If<then_branch=@reading;else_branch=@reading>(flag)
             => DequantizeLinear Sum Slice If | {slice}
             {FULL}
             real = DequantizeLinear(x, half)
             scaled = Mul(whole, real)
             turned = Transpose<perm=[1,0,2]>(scaled)
             moved = Transpose<perm=[1,0,2]>(turned)
             flipped = ReverseSequence<batch_axis=1;time_axis=0>(moved, full)
             reversed = Identity(flipped)
             y = Loop<body=@looping>(five, always, x)
             => DequantizeLinear Mul Transpose Transpose Sum Slice Loop | {slice}
             [outputs y reversed]
             {FULL}
             moved = DequantizeLinear(x, half)
             reversed = ReverseSequence<batch_axis=1;time_axis=0>(moved, full)
             y = If<then_branch=@outer;else_branch=@outer>(flag) => DequantizeLinear Slice If | {slice}
             # It is so before.
             [outputs y z]
             {FULL}
             real = DequantizeLinear(x, half)
             reversed = Transpose<perm=[1,0,2]>(real)
             z = ReverseSequence<batch_axis=1;time_axis=0>(x, full)
             y = If<then_branch=@reading;else_branch=@reading>(flag)
             => DequantizeLinear Transpose Slice If | {slice}"
        ),
    );
    check("full-flip", &rows);
}

/// Lengths from tables and sizes: rows, columns and elements.
#[test]
fn full_flip_by_lengths_in_tables() {
    let other = "not provably the size of axis";
    let varied = "not provably all the same";
    let slice = "Slice of axis 0 with a step of -1";
    let flip = "y = ReverseSequence<batch_axis=1;time_axis=0>(x, by)";
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
    let rows = rows(&format!(
        "[sizes 3 2 ?]
             by = Gather(table, origin)
             {flip} => ! {varied}
             [sizes 3 2 ?]
             by = Gather<axis=1>(table, origin)
             {flip} => ! {varied}
             [sizes 3 2 ?]
             row = Slice(table, zero, one, zero)
             by = Squeeze(row, zero)
             {flip} => ! {varied}
             [sizes 2 2 2]
             by = Gather<axis=0>(table, one)
             y = revseq.ReverseSubsequences<axis=0>(x, by) => Slice | {slice}
             shape = Shape(x)
             wide = Unsqueeze(shape, zero)
             by = Gather(wide, origin)
             {flip} => ! {varied}
             [sizes 3 1 ?]
             {column}
             {flip} => Slice | {slice}
             [sizes 4 1 ?]
             {column}
             {flip} => ! {other}
             # No listed axes mean all axes, unless the attribute says none.
             {reduced}
             {flip} => ! {other}
             # A layer over the last axis, whose Reshape keeps the sizes of its input.
             [sizes ? ? 3]
             {dense} => Reshape MatMul Shape Gather Concat Reshape Slice | {slice}
             {dense} => ! {other}
             [sizes ? ? 3] Gather(sizes_of_x, zero) -> Gather(sizes_of_x, one)
             {dense} => ! {other}
             less = ReduceSum( -> less = ReduceSum<noop_with_empty_axes=1>(
             {reduced}
             {flip} => Slice | {slice}
             (x, nothing) -> (x, minus)
             {reduced}
             {flip} => Slice | {slice}"
    ));
    check("full-flip", &rows);
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
    let rows = rows(&format!(
        "{swap}
             {back} => ReverseSequence | time axis 1, batch axis 0
             {turn} => ReverseSequence | time axis 1, batch axis 0
             {beyond} => ReverseSequence | time axis 0, batch axis 2
             turned = Transpose<perm=[1,0,2]>(x)
             reversed = Slice(turned, minus, first, zero, minus)
             {back} => Slice | Slice of axis 1
             # Other readers of the transposed value keep it.
             [outputs y turned]
             {swap}
             {back} => Transpose ReverseSequence | time axis 1
             {swap}
             negative = Neg(turned)
             back = Transpose<perm=[1,0,2]>(reversed)
             y = Add(back, negative) => Transpose Neg ReverseSequence Add | time axis 1
             {swap}
             y = Transpose<perm=[2,1,0]>(reversed) => ! {undo}
             {swap}
             y = Transpose(reversed) => ! {undo}
             # The value in the middle has another reader, or is an output.
             {swap}
             back = Transpose<perm=[1,0,2]>(reversed)
             y = Add(back, reversed) => !
             [outputs y reversed]
             {swap}
             {back} => !
             # Another operator in the middle.
             {swap}
             negative = Neg(reversed)
             y = Transpose<perm=[1,0,2]>(negative) => !
             turned = Neg(x)
             reversed = ReverseSequence<batch_axis=1;time_axis=0>(turned, lens)
             {back} => !
             # Axes that ONNX does not allow are left alone unless requested.
             [options fast]
             {beyond} => ! of which ONNX allows only 0 and 1"
    ));
    check("transpose", &rows);
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
        &rows(&format!(
            "{first}
             {last} =>  | {nothing}
             {first}
             y = ReverseSequence<batch_axis=-3;time_axis=-2>(middle, lens) =>  | {nothing}
             middle = Slice(x, minus, first, one, minus)
             y = Slice(middle, minus, first, one, minus) =>  | {nothing}
             # Equal lengths from separate nodes.
             same = Cast<to=7>(own)
             again = Cast<to=7>(own)
             middle = ReverseSequence<batch_axis=0;time_axis=1>(x, same)
             y = ReverseSequence<batch_axis=0;time_axis=1>(middle, again) =>  | {nothing}
             # The first result has another reader; the last reversal is removed anyway.
             [outputs y middle]
             {first}
             {last} => ReverseSequence | {nothing}
             {first}
             back = ReverseSequence<batch_axis=0;time_axis=1>(middle, lens)
             y = Add(back, middle) => ReverseSequence Add | {nothing}
             {first}
             between = Tanh(middle)
             {behind} => Tanh | {one}
             {first}
             between = Cast<to=11>(middle)
             {behind} => Cast | {one}
             {first}
             between = Transpose<perm=[1,0,2]>(middle)
             y = ReverseSequence<batch_axis=1;time_axis=0>(between, lens) => Transpose | {one}
             {first}
             between = Unsqueeze(middle, one)
             y = ReverseSequence<batch_axis=0;time_axis=2>(between, lens) => Unsqueeze | {one}
             # In its form before opset 13.
             [opset 11]
             {first}
             between = Unsqueeze<axes=[1]>(middle)
             y = ReverseSequence<batch_axis=0;time_axis=2>(between, lens) => Unsqueeze | {one}
             {first}
             wide = Unsqueeze(middle, zero)
             between = Squeeze(wide, zero)
             {behind} => Unsqueeze Squeeze | the reversal before 2 operators
             {first}
             y = ReverseSequence<batch_axis=1;time_axis=0>(middle, lens) => ! {another}
             {first}
             y = ReverseSequence<batch_axis=0;time_axis=1>(middle, fours) => ! {another}
             {first}
             y = Slice(middle, minus, first, one, minus) => ! {another}
             middle = Slice(x, minus, first, one, minus)
             y = Slice(middle, minus, first, zero, minus) => ! {another}
             {first}
             between = Transpose<perm=[1,0,2]>(middle)
             {behind} => ! {another}
             {first}
             between = Unsqueeze(middle, one)
             {behind} => !
             # No axes mean all of size 1, which may be any.
             {first}
             between = Squeeze(middle, nothing)
             {behind} => !
             [sizes 3 4 1]
             {first}
             between = Squeeze(middle, nothing)
             {behind} => Squeeze | {one}
             # Random lengths differ every time.
             same = Bernoulli(lens)
             again = Bernoulli(lens)
             middle = ReverseSequence<batch_axis=0;time_axis=1>(x, same)
             y = ReverseSequence<batch_axis=0;time_axis=1>(middle, again) => ! {another}
             # The slices do not cover the axis.
             middle = Slice(x, minus, zero, one, minus)
             y = Slice(middle, minus, zero, one, minus) => !
             # Operators between that depend on the order.
             {first}
             between = Softmax<axis=1>(middle)
             {behind} => !
             {first}
             between = CumSum(middle, one)
             {behind} => !
             {first}
             between = Add(middle, x)
             {behind} => !
             # All axes are reversed, and so the second reversal is along another one.
             {first}
             between = Transpose(middle)
             {behind} => ! the reversal before it is another one
             # The operator between has another reader, or is an output; computing it twice is no
             # gain.
             {first}
             between = Tanh(middle)
             back = ReverseSequence<batch_axis=0;time_axis=1>(between, lens)
             y = Add(back, between) => !
             [outputs y between]
             {first}
             between = Tanh(middle)
             {behind} => !"
        )),
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
        &rows(&format!(
            "{flip}
             y = RNN<hidden_size=2>(flipped, w, r) => RNN Slice | {turned}
             {flip}
             y = GRU<hidden_size=2;direction=forward>(flipped, w3, r3)
             => GRU Slice | GRU with direction = reverse
             {flip}
             y = LSTM<hidden_size=2>(flipped, w4, r4)
             => LSTM Slice | LSTM with direction = reverse
             {reversed}
             y = RNN<hidden_size=2>(flipped, w, r, _, casted)
             => Cast RNN Squeeze ReverseSequence Unsqueeze | {turned}
             # Only the final state is read.
             {flip}
             _, y = RNN<hidden_size=2>(flipped, w, r) => RNN | {turned}
             # Other readers keep the reversed value.
             [outputs y flipped]
             {flip}
             y = RNN<hidden_size=2>(flipped, w, r) => Slice RNN Slice | {turned}
             # After the lengths the steps would differ.
             {reversed}
             y = RNN<hidden_size=2>(flipped, w, r) => ! {own}
             {reversed}
             y = RNN<hidden_size=2>(flipped, w, r, _, own) => ! {own}
             {flip}
             y = RNN<hidden_size=2>(flipped, w, r, _, own) => ! lengths of its own
             flipped = Slice(x, minus, first, one, minus)
             y = RNN<hidden_size=2>(flipped, w, r) => ! another axis than time
             flipped = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)
             casted = Cast<to=6>(lens)
             y = RNN<hidden_size=2>(flipped, w, r, _, casted) => ! another axis than time
             {flip}
             y = RNN<hidden_size=2;direction=reverse>(flipped, w, r) => ! {forward}
             {flip}
             y = RNN<hidden_size=2;direction=bidirectional>(flipped, w, r) => ! {forward}
             {flip}
             y = RNN<hidden_size=2;layout=1>(flipped, w, r) => ! {forward}
             # Not a whole flip, or not of the layer's input.
             flipped = Slice(x, minus, zero, zero, minus)
             y = RNN<hidden_size=2>(flipped, w, r) => !
             {flip}
             between = Neg(flipped)
             y = RNN<hidden_size=2>(between, w, r) => !
             {flip}
             y = RNN<hidden_size=2>(x, w, r, _, _, flipped) => !"
        )),
    );
}

#[test]
fn bidirectional() {
    let forward = "one_way = RNN<hidden_size=2>(x, w, r)";
    let backward = "other_way = RNN<hidden_size=2;direction=reverse>(x, w, r)";
    let sum = "y = Add(one_way, other_way)";
    let joined = "bidirectional RNN";
    let constant = "the weights of the two directions are not constant";
    let rows = rows(&format!(
        "{forward}
             {backward}
             {sum} => RNN Slice Slice Add | {joined}
             {backward}
             {forward}
             {sum} => RNN Slice Slice Add | {joined}
             [outputs one_way other_way]
             {forward}
             {backward} => RNN Slice Slice | {joined}
             one_way = RNN<hidden_size=2>(x, w, r, _, own)
             other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own)
             {sum} => RNN Slice Slice Add | {joined}
             begin = Neg(x)
             one_way = RNN<hidden_size=2>(x, w, r, _, _, begin)
             other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, _, begin)
             {sum} => Neg Concat RNN Slice Slice Add | {joined}
             # Slice had attributes then.
             [opset 9]
             {forward}
             {backward}
             {sum} => RNN Slice Slice Add | {joined}
             # Of three layers, two are joined, once.
             {forward}
             again = RNN<hidden_size=2>(x, w, r)
             {backward}
             both = Add(one_way, again)
             y = Add(both, other_way) => RNN Slice Slice RNN Add Add | {joined}
             [outputs one_way again other_way]
             {forward}
             again = RNN<hidden_size=2>(x, w, r)
             {backward} => RNN Slice Slice RNN | {joined}
             {forward}
             negative = Neg(x)
             other_way = RNN<hidden_size=2;direction=reverse>(negative, w, r)
             {sum} => !
             one_way = RNN<hidden_size=2;layout=1>(x, w, r)
             other_way = RNN<hidden_size=2;direction=reverse;layout=1>(x, w, r)
             {sum} => !
             one_way = LSTM<hidden_size=2>(x, w4, r4, _, _, _, _, bias)
             other_way = LSTM<hidden_size=2;direction=reverse>(x, w4, r4, _, _, _, _, bias)
             {sum} => !
             [replaceable w]
             {forward}
             {backward}
             {sum} => ! {constant}
             {forward}
             computed = Neg(w)
             other_way = RNN<hidden_size=2;direction=reverse>(x, computed, r)
             {sum} => ! {constant}
             {forward}
             other_way = RNN<hidden_size=2;direction=reverse>(x, w3, r)
             {sum} => ! {constant}
             {forward}
             other_way = RNN<hidden_size=2>(x, w, r)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, _, _, x)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=2;direction=reverse>(x, w, r, bias)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=2;direction=reverse;activations=[Relu]>(x, w, r)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=2;direction=reverse;clip=1>(x, w, r)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=3;direction=reverse>(x, w, r)
             {sum} => !
             {forward}
             other_way = GRU<hidden_size=2;direction=reverse>(x, w3, r3)
             {sum} => !
             {forward}
             other_way = RNN<hidden_size=2;direction=bidirectional>(x, w, r)
             {sum} => !"
    ));
    check("bidirectional", &rows);
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
        let model = base(&[nodes]).with(from, to).model();
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
    check("sequence-lens", &rows(&format!(
        "{forward} => {gone} | {what}
             [opset 11]
             {forward} => {gone} | {what}
             y = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own)
             => Cast Shape Gather Range Unsqueeze Unsqueeze Less ReverseSequence RNN Squeeze ReverseSequence Unsqueeze Where | {what}
             y = RNN<hidden_size=2;direction=bidirectional>(x, x, x, _, own)
             => Cast Shape Gather Range Unsqueeze Unsqueeze Less Slice RNN ReverseSequence Slice RNN Squeeze ReverseSequence Unsqueeze Concat Where | RNN, one forward for each direction, without sequence_lens
             begin = Expand(half, sizes)
             y = RNN<hidden_size=2>(x, w, r, _, own, begin)
             => Expand Cast Shape Gather Range Unsqueeze Unsqueeze Less RNN Where | {what}
             y = RNN<hidden_size=2;layout=1>(x, w, r, _, own)
             => Cast Transpose Shape Gather Range Unsqueeze Unsqueeze Less RNN Where Transpose | {what}
             _, _, y = LSTM<hidden_size=2>(x, w4, r4, half, own)
             => Cast Shape Gather Range Unsqueeze Unsqueeze Sub Less Squeeze Not Cast ReverseSequence Slice Where Concat Reshape ReduceSum Unsqueeze Concat LSTM | LSTM, forward, without sequence_lens
             _, _, y = LSTM<hidden_size=2;direction=reverse;clip=3;activations=[Softplus,relu,Elu]>(x, w4, x, _, own, _, _, half)
             => Cast Shape Gather Range Unsqueeze Unsqueeze Sub Less Squeeze Not Slice Where LSTM | LSTM, forward, without sequence_lens
             [opset 10]
             {forward} => ! version 10 of ONNX's operators has no Range
             begin = Expand(nought, sizes)
             state = Slice(begin, zero, one, zero)
             _, _, y = LSTM<hidden_size=2>(x, w4, r4, _, own, state, zeros3)
             => Cast Shape Gather Range Unsqueeze Unsqueeze Sub Less Squeeze Not ReverseSequence Slice Where LSTM | LSTM, forward, without sequence_lens
             _, _, y = LSTM<hidden_size=2>(x, w4, r4, _, own, _, half)
             => ! initial states are not provably 0
             _, _, y = LSTM<hidden_size=2;activations=[Tanh,Tanh,Sigmoid]>(x, w4, r4, _, own)
             => ! activation Sigmoid is not 0 at 0
             y = RNN<hidden_size=2;direction=bidirectional;activations=[Elu]>(x, w, r, _, own)
             => ! cannot be told apart
             y = RNN<hidden_size=2>(x, w, r) => !"
    )));
}

#[test]
fn portable() {
    let standard = "standard operators around Gather";
    let each = "y = revseq.ReverseSubsequences<axis=1>(x, lens)";
    let reverse = "y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)";
    let rows = rows(&format!(
        "{reverse} => any | {standard}
             [opset 13]
             {reverse} => any | {standard}
             [opset 10]
             {reverse} => any | {standard}
             y = ReverseSequence<batch_axis=2;time_axis=1>(x, lens) => any | {standard}
             {each} => any | {standard}
             [opset 9]
             {each} => ! version 9 of ONNX's operators
             y = ReverseSequence(x) => ! an input or the output is missing
             y = Slice(x, minus, first, zero, minus) => !
             [untyped] {reverse} => any | {standard}
             [untyped] y = ReverseSequence<batch_axis=-2;time_axis=-1>(x, lens) => any | {standard}"
    ));
    check("portable", &rows);
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
