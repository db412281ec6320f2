//! Random chains of operators whose sizes come from data or are symbols, compared with a plain
//! interpreter. One plan runs on several sizes and back.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_test_models::{Writer, draw};
use tract_onnx::prelude::*;

use crate::build::{Graph, parse};

/// A bound of a slice, or a size.
#[derive(Clone, Copy, Debug)]
enum Number {
    Constant(i64),
    /// An element of the input `n`, of which the last may be large.
    Data(usize),
    /// The size of the input `m`.
    Size,
    /// The size of the input `m`, counted from the end.
    FromEnd,
    /// The size of the value itself, minus this.
    OwnLess(i64),
}

/// An operator on a vector.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A Compress that keeps the positive elements.
    Positive,
    /// The places of a NonZero.
    Places,
    Slice(Number, Number, i64),
    /// A Slice from a number to the next, a Squeeze and an Unsqueeze.
    Element(Number),
    Tile(Number),
    Pad(Number, Number),
    /// An Expand of the first element.
    Expand(Number),
    /// A Concat with zeros of a ConstantOfShape.
    Zeros(Number),
    /// A OneHot of the elements, flattened by a Reshape.
    OneHot(Number),
    /// A Reshape to a column, and a Squeeze.
    Column,
    /// A Range from a number on, as long as the vector, and the distance of each element from the first.
    Count(Number),
}

#[derive(Clone, Debug)]
struct Inputs {
    x: Vec<f32>,
    m: usize,
    n: [i64; 3],
}

impl Inputs {
    fn number(&self, number: Number, own: usize) -> i64 {
        match number {
            Number::Constant(number) => number,
            Number::Data(index) => self.n[index],
            Number::Size => self.m as i64,
            Number::FromEnd => -(self.m as i64),
            Number::OwnLess(less) => own as i64 - less,
        }
    }

    fn tensors(&self) -> TVec<TValue> {
        tvec![
            tensor1(&self.x).into(),
            tensor1(&vec![0_f32; self.m]).into(),
            tensor1(&self.n).into(),
        ]
    }
}

/// More elements than this are none.
const MOST: usize = 1 << 24;

/// Python's slice.
fn sliced(row: &[f32], start: i64, end: i64, step: i64) -> Vec<f32> {
    let size = row.len() as i64;
    let at = |bound: i64| {
        if bound < 0 {
            bound.saturating_add(size)
        } else {
            bound
        }
    };
    let is_open = [i64::MAX, i64::from(i32::MAX)].contains(&end);
    let mut found = vec![];
    if step > 0 {
        let mut position = at(start).clamp(0, size);
        while position < at(end).clamp(0, size) {
            found.push(row[position as usize]);
            position = position.saturating_add(step);
        }
    } else if size > 0 {
        let end = if is_open {
            -1
        } else {
            at(end).clamp(-1, size - 1)
        };
        let mut position = at(start).clamp(0, size - 1);
        while position > end {
            found.push(row[position as usize]);
            position = position.saturating_add(step);
        }
    }
    found
}

impl Step {
    /// Applies the step; `None` if it is an error.
    fn apply(self, before: Vec<f32>, inputs: &Inputs) -> Option<Vec<f32>> {
        let number = |number: Number| inputs.number(number, before.len());
        // More elements than any memory holds are an error.
        let size = |it: Number| usize::try_from(number(it)).ok().filter(|it| *it < MOST);
        Some(match self {
            Self::Positive => before.into_iter().filter(|it| *it > 0.).collect(),
            Self::Places => {
                let places = before.iter().enumerate().filter(|(_, it)| **it != 0.);
                places.map(|(place, _)| place as f32).collect()
            }
            Self::Slice(start, end, step) => sliced(&before, number(start), number(end), step),
            Self::Element(start) => {
                let start = number(start);
                let found = sliced(&before, start, start.wrapping_add(1), 1);
                (found.len() == 1).then_some(found)?
            }
            Self::Tile(times) if before.is_empty() => (number(times) >= 0).then_some(before)?,
            Self::Tile(times) => before.repeat(size(times)?),
            // Negative pads remove elements.
            Self::Pad(first, last) => {
                let [first, last] = [first, last].map(number);
                if first.max(last) > MOST as i64 {
                    return None;
                }
                let zeros = |count: i64| vec![0.; usize::try_from(count).unwrap_or(0)];
                let added = [zeros(first), before.clone(), zeros(last)].concat();
                let removed = |count: i64| {
                    usize::try_from(count.unsigned_abs()).unwrap_or(0) * usize::from(count < 0)
                };
                let end = added.len().checked_sub(removed(last))?;
                added.get(removed(first)..end)?.to_vec()
            }
            Self::Expand(to) => match (before.first(), size(to)?) {
                (Some(first), to) => vec![*first; to],
                (None, 0 | 1) => vec![],
                (None, _) => return None,
            },
            Self::Zeros(count) => {
                let mut after = before.clone();
                after.extend(vec![0.; size(count)?]);
                after
            }
            Self::OneHot(depth) => {
                let depth = size(depth)?;
                let row = |index: &f32| {
                    let index = *index as i64;
                    let index = if index < 0 {
                        index + depth as i64
                    } else {
                        index
                    };
                    (0..depth).map(move |it| f32::from(u8::from(it as i64 == index)))
                };
                before.iter().flat_map(row).collect()
            }
            Self::Column => before,
            Self::Count(_) => (0..before.len()).map(|it| it as f32).collect(),
        })
    }
}

/// Writes a number as a vector of one element.
fn write_number(nodes: &mut Writer, number: Number, own: &str) -> String {
    match number {
        Number::Constant(number) => format!("[{number}]"),
        Number::Data(index) => nodes.op(format_args!("Gather<axis=0>(n, [{index}])")),
        Number::Size => nodes.op("Shape(m)"),
        Number::FromEnd => {
            let size = nodes.op("Shape(m)");
            nodes.op(format_args!("Sub([0], {size})"))
        }
        Number::OwnLess(less) => {
            let size = nodes.op(format_args!("Shape({own})"));
            nodes.op(format_args!("Sub({size}, [{less}])"))
        }
    }
}

fn write(nodes: &mut Writer, step: Step, x: &str) -> String {
    match step {
        Step::Positive => {
            let is_positive = nodes.op(format_args!("Greater({x}, 0.0)"));
            nodes.op(format_args!("Compress<axis=0>({x}, {is_positive})"))
        }
        Step::Places => {
            let places = nodes.op(format_args!("NonZero({x})"));
            let places = nodes.op(format_args!("Squeeze({places}, [0])"));
            nodes.op(format_args!("Cast<to=1>({places})"))
        }
        Step::Slice(start, end, step) => {
            let [start, end] = [start, end].map(|it| write_number(nodes, it, x));
            nodes.op(format_args!("Slice({x}, {start}, {end}, [0], [{step}])"))
        }
        Step::Element(start) => {
            let start = write_number(nodes, start, x);
            let end = nodes.op(format_args!("Add({start}, [1])"));
            let element = nodes.op(format_args!("Slice({x}, {start}, {end}, [0])"));
            let element = nodes.op(format_args!("Squeeze({element}, [0])"));
            nodes.op(format_args!("Unsqueeze({element}, [0])"))
        }
        Step::Tile(times) => {
            let times = write_number(nodes, times, x);
            nodes.op(format_args!("Tile({x}, {times})"))
        }
        Step::Pad(first, last) => {
            let [first, last] = [first, last].map(|it| write_number(nodes, it, x));
            let pads = nodes.op(format_args!("Concat<axis=0>({first}, {last})"));
            nodes.op(format_args!("Pad({x}, {pads})"))
        }
        Step::Expand(to) => {
            let to = write_number(nodes, to, x);
            let first = nodes.op(format_args!("Slice({x}, [0], [1], [0])"));
            nodes.op(format_args!("Expand({first}, {to})"))
        }
        Step::Zeros(count) => {
            let count = write_number(nodes, count, x);
            let zeros = nodes.op(format_args!("ConstantOfShape({count})"));
            nodes.op(format_args!("Concat<axis=0>({x}, {zeros})"))
        }
        Step::OneHot(depth) => {
            let depth = write_number(nodes, depth, x);
            let values = nodes.floats(&[2], |at| at as f32);
            let indices = nodes.op(format_args!("Cast<to=7>({x})"));
            let rows = nodes.op(format_args!("OneHot({indices}, {depth}, {values})"));
            nodes.op(format_args!("Reshape({rows}, [-1])"))
        }
        Step::Column => {
            let to = nodes.op("Concat<axis=0>([-1], [1])");
            let column = nodes.op(format_args!("Reshape({x}, {to})"));
            nodes.op(format_args!("Squeeze({column}, [1])"))
        }
        Step::Count(first) => {
            let first = write_number(nodes, first, x);
            let size = nodes.op(format_args!("Shape({x})"));
            let limit = nodes.op(format_args!("Add({first}, {size})"));
            let [start, end] =
                [&first, &limit].map(|it| nodes.op(format_args!("Squeeze({it}, [0])")));
            let counted = nodes.op(format_args!("Range({start}, {end}, 1)"));
            let distance = nodes.op(format_args!("Sub({counted}, {first})"));
            nodes.op(format_args!("Cast<to=1>({distance})"))
        }
    }
}

/// The model of a chain, which outputs the size after each step, and the last value if asked for.
fn model(steps: &[Step], declared: &str, with_value: bool) -> Graph {
    let mut nodes = Writer::new();
    let mut outputs = vec![];
    let mut x = "x".to_owned();
    for step in steps {
        x = write(&mut nodes, *step, &x);
        outputs.push(nodes.op(format_args!("Shape({x})")));
    }
    if with_value {
        outputs.push(x);
    }
    nodes.graph(declared, &outputs.join(" ")).into()
}

fn numbers() -> impl Strategy<Value = Number> {
    prop_oneof![
        2 => draw::integers(-7..8).prop_map(Number::Constant),
        1 => (0..3_usize).prop_map(Number::Data),
        1 => Just(Number::Size),
        1 => Just(Number::FromEnd),
        1 => (-1..4_i64).prop_map(Number::OwnLess),
    ]
}

/// Numbers of elements, which may be negative.
fn counts() -> impl Strategy<Value = Number> {
    prop_oneof![
        (0..4_i64).prop_map(Number::Constant),
        (0..2_usize).prop_map(Number::Data),
        Just(Number::Size),
        (-1..1_i64).prop_map(Number::OwnLess),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Positive),
        1 => Just(Step::Places),
        6 => (numbers(), numbers(), prop_oneof![4 => Just(1), 1 => 2..4_i64, 1 => -3..0_i64])
            .prop_map(|(start, end, step)| Step::Slice(start, end, step)),
        1 => prop_oneof![
            (-4..4_i64).prop_map(Number::Constant),
            (0..2_usize).prop_map(Number::Data)
        ]
        .prop_map(Step::Element),
        1 => counts().prop_map(Step::Tile),
        1 => (counts(), counts()).prop_map(|(first, last)| Step::Pad(first, last)),
        1 => counts().prop_map(Step::Expand),
        1 => counts().prop_map(Step::Zeros),
        // tract's Reshape to a vector fails if a size is known to be 0.
        1 => prop_oneof![
            (1..4_i64).prop_map(Number::Constant),
            (0..2_usize).prop_map(Number::Data)
        ]
        .prop_map(Step::OneHot),
        1 => Just(Step::Column),
        // There is a number behind the last one.
        1 => draw::integers(-7..8)
            .prop_map(|it| Step::Count(Number::Constant(it.min(i64::MAX - 1_000_000)))),
    ]
}

fn inputs() -> impl Strategy<Value = Inputs> {
    let element = (-2..4_i32).prop_map(|it| it as f32);
    let x = draw::counts(0..7)
        .prop_flat_map(move |count| proptest::collection::vec(element.clone(), count));
    (x, 0..5_usize, [-3..5_i64, -3..5_i64], draw::integers(-3..5))
        .prop_map(|(x, m, [a, b], c)| Inputs { x, m, n: [a, b, c] })
}

/// The outputs; `None` if there is an error.
fn expected(steps: &[Step], inputs: &Inputs, with_value: bool) -> Option<Vec<Tensor>> {
    let mut outputs = vec![];
    let mut value = inputs.x.clone();
    for step in steps {
        value = step.apply(value, inputs)?;
        outputs.push(tensor1(&[value.len() as i64]));
    }
    if with_value {
        outputs.push(tensor1(&value));
    }
    Some(outputs)
}

/// Runs a plan, with sizes as integers.
fn outputs(plan: &std::sync::Arc<TypedRunnableModel>, inputs: &Inputs) -> TractResult<Vec<Tensor>> {
    let outputs = plan.run(inputs.tensors())?.into_iter();
    let outputs = outputs.map(|output| match output.datum_type() {
        DatumType::F32 => Ok(output.into_tensor()),
        _ => Ok(output.cast_to::<i64>()?.into_owned()),
    });
    outputs.collect()
}

/// Runs a chain on all inputs and back, in one plan for all sizes and in one for those of the data.
fn check(steps: &[Step], runs: &[Inputs], with_value: bool) -> Result<(), TestCaseError> {
    let plan = |declared: &str| {
        let typed = parse(model(steps, declared, with_value))?.into_typed()?;
        revseq_tract_operators::into_optimized(typed)?.into_runnable()
    };
    let symbolic = plan("x:f32[N] m:f32[M] n:i64[3]");
    let is_last = |inputs: &Inputs| expected(&steps[..steps.len() - 1], inputs, false).is_some();
    for inputs in runs.iter().chain(runs.iter().rev()) {
        let expected = expected(steps, inputs, with_value);
        let sizes = format!("x:f32[{}] m:f32[{}] n:i64[3]", inputs.x.len(), inputs.m);
        let found = symbolic.as_ref().map_err(|error| format!("{error:#}"));
        let found =
            found.and_then(|plan| outputs(plan, inputs).map_err(|error| format!("{error:#}")));
        let known = plan(&sizes).and_then(|plan| outputs(&plan, inputs));
        let known = known.map_err(|error| format!("{error:#}"));
        for (found, what) in [(found, "symbols"), (known, "numbers")] {
            match (found, &expected) {
                (Ok(found), Some(expected)) => {
                    prop_assert_eq!(&found, expected, "{} {:?}", what, inputs);
                }
                // An operator before the last may turn out not to be needed.
                (Ok(found), None) if with_value && is_last(inputs) => {
                    prop_assert!(false, "{what} {inputs:?}: {found:?}, expected an error");
                }
                (Err(error), Some(_)) => {
                    prop_assert!(false, "{what} {inputs:?}: {error}");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[test]
fn random_sizes_match_the_reference() {
    let steps = proptest::collection::vec(steps(), 1..5);
    let runs = proptest::collection::vec(inputs(), 1..4);
    draw::check(
        60,
        (steps, runs, any::<bool>()),
        |(steps, runs, with_value)| check(&steps, &runs, with_value),
    );
}
