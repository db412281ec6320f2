//! Random chains of operators whose sizes come from data or are symbols, compared with a plain
//! interpreter. One plan runs on several sizes and back.

use proptest::prelude::*;
use tract_onnx::prelude::*;

use crate::build::{Graph, graph, parse};

/// A bound of a slice, or a size.
#[derive(Clone, Copy, Debug)]
enum Number {
    Constant(i64),
    /// An element of the input `n`.
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
}

#[derive(Clone, Debug)]
struct Inputs {
    x: Vec<f32>,
    m: usize,
    n: [i64; 2],
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
        let size = |it: Number| usize::try_from(number(it)).ok();
        Some(match self {
            Self::Positive => before.into_iter().filter(|it| *it > 0.).collect(),
            Self::Places => {
                let places = before.iter().enumerate().filter(|(_, it)| **it != 0.);
                places.map(|(place, _)| place as f32).collect()
            }
            Self::Slice(start, end, step) => sliced(&before, number(start), number(end), step),
            Self::Element(start) => {
                let start = number(start);
                let found = sliced(&before, start, start + 1, 1);
                (found.len() == 1).then_some(found)?
            }
            Self::Tile(times) => before.repeat(size(times)?),
            // Negative pads remove elements.
            Self::Pad(first, last) => {
                let [first, last] = [first, last].map(number);
                let zeros = |count: i64| vec![0.; usize::try_from(count).unwrap_or(0)];
                let added = [zeros(first), before.clone(), zeros(last)].concat();
                let removed = |count: i64| usize::try_from(-count).unwrap_or(0);
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
        })
    }
}

/// The nodes of a chain, under construction.
#[derive(Default)]
struct Nodes {
    text: String,
    count: usize,
}

impl Nodes {
    fn add(&mut self, call: &str) -> String {
        self.count += 1;
        let name = format!("v{}", self.count);
        self.text += &format!("{name} = {call}\n");
        name
    }

    fn number(&mut self, number: Number, own: &str) -> String {
        match number {
            Number::Constant(number) => constant(number),
            Number::Data(index) => {
                self.add(&format!("Gather<axis=0>(n, {})", constant(index as i64)))
            }
            Number::Size => self.add("Shape(m)"),
            Number::FromEnd => {
                let size = self.add("Shape(m)");
                self.add(&format!("Sub({}, {size})", constant(0)))
            }
            Number::OwnLess(less) => {
                let size = self.add(&format!("Shape({own})"));
                self.add(&format!("Sub({size}, {})", constant(less)))
            }
        }
    }

    fn step(&mut self, step: Step, x: &str) -> String {
        let [zero, one, back] = [0, 1, -1].map(constant);
        match step {
            Step::Positive => {
                let is_positive = self.add(&format!("Greater({x}, none)"));
                self.add(&format!("Compress<axis=0>({x}, {is_positive})"))
            }
            Step::Places => {
                let places = self.add(&format!("NonZero({x})"));
                let places = self.add(&format!("Squeeze({places}, {zero})"));
                self.add(&format!("Cast<to=1>({places})"))
            }
            Step::Slice(start, end, step) => {
                let [start, end] = [start, end].map(|it| self.number(it, x));
                let step = constant(step);
                self.add(&format!("Slice({x}, {start}, {end}, {zero}, {step})"))
            }
            Step::Element(start) => {
                let start = self.number(start, x);
                let end = self.add(&format!("Add({start}, {one})"));
                let element = self.add(&format!("Slice({x}, {start}, {end}, {zero})"));
                let element = self.add(&format!("Squeeze({element}, {zero})"));
                self.add(&format!("Unsqueeze({element}, {zero})"))
            }
            Step::Tile(times) => {
                let times = self.number(times, x);
                self.add(&format!("Tile({x}, {times})"))
            }
            Step::Pad(first, last) => {
                let [first, last] = [first, last].map(|it| self.number(it, x));
                let pads = self.add(&format!("Concat<axis=0>({first}, {last})"));
                self.add(&format!("Pad({x}, {pads})"))
            }
            Step::Expand(to) => {
                let to = self.number(to, x);
                let first = self.add(&format!("Slice({x}, {zero}, {one}, {zero})"));
                self.add(&format!("Expand({first}, {to})"))
            }
            Step::Zeros(count) => {
                let count = self.number(count, x);
                let zeros = self.add(&format!("ConstantOfShape({count})"));
                self.add(&format!("Concat<axis=0>({x}, {zeros})"))
            }
            Step::OneHot(depth) => {
                let depth = self.number(depth, x);
                let indices = self.add(&format!("Cast<to=7>({x})"));
                let rows = self.add(&format!("OneHot({indices}, {depth}, values)"));
                self.add(&format!("Reshape({rows}, {back})"))
            }
            Step::Column => {
                let to = self.add(&format!("Concat<axis=0>({back}, {one})"));
                let column = self.add(&format!("Reshape({x}, {to})"));
                self.add(&format!("Squeeze({column}, {one})"))
            }
        }
    }
}

fn constant(number: i64) -> String {
    format!("c{number}").replace('-', "m")
}

/// The model of a chain, which outputs the size after each step, and the last value if asked for.
fn model(steps: &[Step], declared: &str, with_value: bool) -> Graph {
    let mut nodes = Nodes::default();
    let mut outputs = vec![];
    let mut x = "x".to_owned();
    for step in steps {
        x = nodes.step(*step, &x);
        outputs.push(nodes.add(&format!("Shape({x})")));
    }
    if with_value {
        outputs.push(x);
    }
    let mut model = graph(declared, &outputs.join(" "), &nodes.text)
        .constant("none", tensor0(0_f32))
        .constant("values", tensor1(&[0_f32, 1.]));
    let mut constants: Vec<i64> = vec![0, 1, -1];
    for step in steps {
        let numbers = match *step {
            Step::Slice(start, end, step) => vec![start, end, Number::Constant(step)],
            Step::Element(a)
            | Step::Tile(a)
            | Step::Expand(a)
            | Step::Zeros(a)
            | Step::OneHot(a) => {
                vec![a]
            }
            Step::Pad(a, b) => vec![a, b],
            Step::Positive | Step::Places | Step::Column => vec![],
        };
        constants.extend(numbers.into_iter().filter_map(|number| match number {
            Number::Constant(number) | Number::OwnLess(number) => Some(number),
            Number::Data(index) => Some(index as i64),
            Number::Size | Number::FromEnd => None,
        }));
    }
    constants.sort_unstable();
    constants.dedup();
    for number in constants {
        model = model.constant(&constant(number), tensor1(&[number]));
    }
    model
}

fn numbers() -> impl Strategy<Value = Number> {
    prop_oneof![
        (-7..8_i64).prop_map(Number::Constant),
        prop_oneof![
            Just(i64::MAX),
            Just(i64::MIN),
            Just(i64::from(i32::MAX)),
            Just(1_000_000_000),
            Just(1 << 40),
            Just(-1 << 40)
        ]
        .prop_map(Number::Constant),
        (0..2_usize).prop_map(Number::Data),
        Just(Number::Size),
        Just(Number::FromEnd),
        (-1..4_i64).prop_map(Number::OwnLess),
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
    ]
}

fn inputs() -> impl Strategy<Value = Inputs> {
    let element = (-2..4_i32).prop_map(|it| it as f32);
    let x = proptest::collection::vec(element, 0..7);
    (x, 0..5_usize, [-3..5_i64, -3..5_i64]).prop_map(|(x, m, n)| Inputs { x, m, n })
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_sizes_match_the_reference(
        steps in proptest::collection::vec(steps(), 1..5),
        runs in proptest::collection::vec(inputs(), 1..4),
        with_value in any::<bool>(),
    ) {
        let plan = |declared: &str| {
            let typed = parse(model(&steps, declared, with_value))?.into_typed()?;
            tract_onnx_extra::into_optimized(typed)?.into_runnable()
        };
        let symbolic = plan("x:f32[N] m:f32[M] n:i64[2]");
        let is_last = |inputs: &Inputs| {
            expected(&steps[..steps.len() - 1], inputs, false).is_some()
        };
        for inputs in runs.iter().chain(runs.iter().rev()) {
            let expected = expected(&steps, inputs, with_value);
            let sizes = format!("x:f32[{}] m:f32[{}] n:i64[2]", inputs.x.len(), inputs.m);
            let found = symbolic.as_ref().map_err(|error| format!("{error:#}"));
            let found = found.and_then(|plan| {
                outputs(plan, inputs).map_err(|error| format!("{error:#}"))
            });
            let known = plan(&sizes).and_then(|plan| outputs(&plan, inputs));
            let known = known.map_err(|error| format!("{error:#}"));
            for (found, what) in [(found, "symbols"), (known, "numbers")] {
                match (found, &expected) {
                    (Ok(found), Some(expected)) => {
                        prop_assert_eq!(&found, expected, "{} {:?}", what, inputs);
                    }
                    // An operator before the last may turn out not to be needed.
                    (Ok(found), None) if with_value && is_last(inputs) => {
                        prop_assert!(false, "{} {:?}: {:?}, expected an error", what, inputs, found);
                    }
                    (Err(error), Some(_)) => {
                        prop_assert!(false, "{} {:?}: {}", what, inputs, error);
                    }
                    _ => {}
                }
            }
        }
    }
}
