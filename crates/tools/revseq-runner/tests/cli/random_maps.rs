//! Random loops that map each step on its own: over all steps they give the same.
//!
//! A body is a chain of operators from a step of `x` to the step's output. Each operator alone is
//! taken, and left alone once the loop depends on more than its own step.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_rewrite::Outcome;
use revseq_test_models::draw::{self, Run};
use revseq_test_models::{Writer, drawn};
use tract_onnx::pb::TensorProto;

use crate::common::{FLOAT, tensor};
use crate::random::{Comparison, failure, rewritten};

/// The features of the input.
const WIDTH: usize = 3;

drawn! {
    /// An operator of a body, with what it needs around it: a matrix becomes another.
    enum Step {
        Tanh,
        Clip,
        Where,
        MatMul,
        Gemm,
        Product,
        Softmax,
        LayerNormalization,
        Center,
        AddSums,
        Transposed,
        Concat,
        Slice,
        Split,
        Squeezed,
        Reshape,
        ReshapeByShape,
        Expand,
        Embedding,
        TopK,
        Number,
        Outer,
        Variadic,
        Conv,
        Pool,
    }

    /// A dependence of a loop on more than its own step.
    enum Dependence {
        State,
        NextStep,
        OtherAxis,
        EarlyStop,
        NoForm,
        SizeByStep,
    }
}

#[derive(Clone, Debug)]
struct Case {
    steps: Vec<Step>,
    /// The axis of `x` that holds the steps.
    axis: usize,
    /// Whether the sizes of `x` are declared as numbers.
    are_sizes_known: bool,
    depends: Option<Dependence>,
}

/// Adds a step over a matrix `[batch, width]` to a body, and returns another.
fn add(body: &mut Writer, step: Step, (v, width): (&str, usize)) -> (String, usize) {
    let floats = |body: &mut Writer, sizes: &[usize]| {
        body.floats(sizes, |at| (at * 37 % 64) as f32 / 32.0 - 0.9)
    };
    let made = match step {
        Step::Tanh => body.op(format_args!("Tanh({v})")),
        Step::Clip => body.op(format_args!("Clip({v}, -0.9)")),
        Step::Where => {
            let least = floats(body, &[width]);
            let is_more = body.op(format_args!("Greater({v}, {least})"));
            body.op(format_args!("Where({is_more}, {v}, {least})"))
        }
        Step::MatMul => {
            let weights = floats(body, &[width, 2]);
            return (body.op(format_args!("MatMul({v}, {weights})")), 2);
        }
        Step::Gemm => {
            let (weights, bias) = (floats(body, &[4, width]), floats(body, &[4]));
            return (
                body.op(format_args!("Gemm<transB=1>({v}, {weights}, {bias})")),
                4,
            );
        }
        Step::Product => {
            let turned = body.op(format_args!("Transpose({v})"));
            let square = body.op(format_args!("MatMul({v}, {turned})"));
            body.op(format_args!("MatMul({square}, {v})"))
        }
        Step::Softmax => body.op(format_args!("Softmax<axis=-1>({v})")),
        Step::LayerNormalization => {
            let scale = floats(body, &[width]);
            body.op(format_args!(
                "LayerNormalization<axis=1>({v}, {scale}, {scale})"
            ))
        }
        Step::Center => {
            let mean = body.op(format_args!("ReduceMean<axes=[-1]>({v})"));
            body.op(format_args!("Sub({v}, {mean})"))
        }
        Step::AddSums => {
            let sums = body.op(format_args!("ReduceSum<keepdims=0>({v}, [0])"));
            body.op(format_args!("Add({v}, {sums})"))
        }
        Step::Embedding => {
            let table = floats(body, &[width, 2]);
            let best = body.op(format_args!("ArgMax<axis=1;keepdims=0>({v})"));
            return (body.op(format_args!("Gather({table}, {best})")), 2);
        }
        Step::TopK => {
            let [best, place] = body.ops(format_args!("TopK({v}, [1])"));
            let place = body.op(format_args!("Cast<to={FLOAT}>({place})"));
            let sum = body.op(format_args!("Add({best}, {place})"));
            body.op(format_args!("Mul({v}, {sum})"))
        }
        Step::Number => {
            let number = body.op(format_args!("Cast<to={FLOAT}>(i)"));
            body.op(format_args!("Mul({v}, {number})"))
        }
        Step::Outer => body.op(format_args!("Add({v}, largest)")),
        Step::Variadic => {
            let (matrix, row) = (floats(body, &[1, width]), floats(body, &[width]));
            let mean = body.op(format_args!("Mean({matrix}, {v})"));
            let sum = body.op(format_args!("Sum(largest, {row}, {mean})"));
            body.op(format_args!("Max({row}, {sum}, {v})"))
        }
        Step::Conv => {
            let row = body.op(format_args!("Unsqueeze({v}, [1])"));
            let (weights, bias) = (floats(body, &[1, 1, 1]), floats(body, &[1]));
            let made = body.op(format_args!("Conv({row}, {weights}, {bias})"));
            body.op(format_args!("Squeeze({made}, [1])"))
        }
        Step::Pool => {
            let row = body.op(format_args!("Unsqueeze({v}, [1])"));
            let mean = body.op(format_args!("GlobalAveragePool({row})"));
            let column = body.op(format_args!("Squeeze({mean}, [1])"));
            body.op(format_args!("Add({v}, {column})"))
        }
        Step::Transposed => {
            let turned = body.op(format_args!("Transpose<perm=[1,0]>({v})"));
            let changed = body.op(format_args!("Exp({turned})"));
            body.op(format_args!("Transpose({changed})"))
        }
        Step::Concat => {
            let other = body.op(format_args!("Neg({v})"));
            return (
                body.op(format_args!("Concat<axis=1>({v}, {other})")),
                2 * width,
            );
        }
        Step::Slice => {
            let sliced = body.op(format_args!("Slice({v}, [0], [2], [1])"));
            return (body.op(format_args!("Abs({sliced})")), width.min(2));
        }
        Step::Split => {
            let [first, rest] = body.ops(format_args!("Split<axis=-1>({v}, [1 {}])", width - 1));
            return (body.op(format_args!("Mul({rest}, {first})")), width - 1);
        }
        Step::Squeezed => {
            let column = body.op(format_args!("Unsqueeze({v}, [-1])"));
            let changed = body.op(format_args!("Sigmoid({column})"));
            body.op(format_args!("Squeeze({changed}, [-1])"))
        }
        Step::Reshape => {
            let shaped = body.op(format_args!("Reshape({v}, [-1 1 {width}])"));
            let changed = body.op(format_args!("Neg({shaped})"));
            body.op(format_args!("Reshape({changed}, [0 -1])"))
        }
        Step::ReshapeByShape => {
            let shape = body.op(format_args!("Shape({v})"));
            let [rows, columns] = [0, 1].map(|at| body.op(format_args!("Gather({shape}, [{at}])")));
            let shape = body.op(format_args!("Concat<axis=0>({rows}, {columns}, [1])"));
            let shaped = body.op(format_args!("Reshape({v}, {shape})"));
            let changed = body.op(format_args!("Neg({shaped})"));
            body.op(format_args!("Squeeze({changed}, [2])"))
        }
        Step::Expand => {
            let both = body.op(format_args!("Expand({v}, [2 1 1])"));
            body.op(format_args!("ReduceMean<axes=[0];keepdims=0>({both})"))
        }
    };
    (made, width)
}

impl Case {
    fn model(&self) -> Vec<u8> {
        let mut main = Writer::new();
        let is_other = matches!(self.depends, Some(Dependence::OtherAxis));
        let read = if is_other { 1 - self.axis } else { self.axis };
        main.add("shape", "Shape(x)");
        main.add("sizes", format_args!("Gather(shape, [{read}])"));
        main.add("count", "Squeeze(sizes)");
        main.add("most", "ReduceMax(x)");
        main.add("largest", "Squeeze(most)");

        let mut body = main.within();
        let next = body.op("Add(i, 1)");
        let is_next = matches!(self.depends, Some(Dependence::NextStep));
        let at = if is_next { next.as_str() } else { "i" };
        let mut last = body.op(format_args!("Gather<axis={}>(x, {at})", self.axis));
        let mut width = WIDTH;
        for &step in &self.steps {
            (last, width) = add(&mut body, step, (&last, width));
        }
        let most =
            |body: &mut Writer, last: &str| body.op(format_args!("ReduceMax<keepdims=0>({last})"));
        let mut condition = "c".to_owned();
        let (mut carried, mut updated) = ("", String::new());
        match self.depends {
            Some(Dependence::State) => {
                let most = most(&mut body, &last);
                last = body.op(format_args!("Add({last}, s)"));
                carried = " s:f32[]";
                updated = format!(" {}:f32[]", body.op(format_args!("Max({most}, s)")));
            }
            Some(Dependence::EarlyStop) => {
                let most = most(&mut body, &last);
                condition = body.op(format_args!("Less({most}, -0.9)"));
            }
            Some(Dependence::NoForm) => last = body.op(format_args!("CumSum({last}, [0])")),
            Some(Dependence::SizeByStep) => {
                let end = body.op(format_args!("Reshape({next}, [1])"));
                last = body.op(format_args!("Slice({last}, [0], {end}, [0])"));
            }
            _ => {}
        }
        let condition = body.op(format_args!("Identity({condition})"));
        let result = body.op(format_args!("Identity({last})"));
        let body = body.graph(
            &format!("i:i64[] c:bool[]{carried}"),
            &format!("{condition}:bool[]{updated} {result}:f32"),
        );
        let body = main.inner(body);
        match carried {
            "" => main.add("y", format_args!("Loop<body=@{body}>(count, _)")),
            _ => main.add(
                "ended, y",
                format_args!("Loop<body=@{body}>(count, _, largest)"),
            ),
        }
        let mut sizes = match self.are_sizes_known {
            true => ["4", "2", "3"],
            false => ["T", "B", "3"],
        };
        sizes.swap(0, self.axis);
        main.model(&format!("x:f32[{}]", sizes.join(",")), "y:f32", 17)
    }
}

/// The input of a run.
fn inputs(run: Run, axis: usize) -> Vec<TensorProto> {
    let mut sizes = [run.time, run.batch, WIDTH].map(|it| it as i64);
    sizes.swap(0, axis);
    let x = run.floats(run.time * run.batch * WIDTH);
    vec![tensor("x", FLOAT, &sizes, &x)]
}

/// The outcome of the pass for a case's loop; `None` if it reports none.
fn outcome(case: &Case) -> Result<Option<Outcome>, TestCaseError> {
    let report = rewritten(case, &case.model(), &["--pass", "map"])?;
    Ok(report.steps.into_iter().next().map(|step| step.outcome))
}

#[test]
fn each_operator_is_taken_and_left_alone() {
    for &step in Step::ALL {
        let case = Case {
            steps: vec![step],
            axis: 0,
            are_sizes_known: false,
            depends: None,
        };
        let taken = outcome(&case);
        let is_taken = matches!(taken, Ok(Some(Outcome::Rewritten(_))));
        assert!(is_taken, "{step:?}: {taken:?}");
        for &depends in Dependence::ALL {
            let case = Case {
                depends: Some(depends),
                ..case.clone()
            };
            let left = outcome(&case).expect("it stays");
            let fits = match depends {
                // The pass reports no loop that carries a state.
                Dependence::State => left.is_none(),
                // A step beyond the axis is an error of the Gather that reads all.
                Dependence::OtherAxis => matches!(left, Some(Outcome::Rewritten(_))),
                _ => matches!(left, Some(Outcome::LeftAlone(_))),
            };
            assert!(fits, "{case:?}: {left:?}");
        }
    }
}

/// Sizes are read through several operators.
#[test]
fn each_operator_is_taken_behind_others() {
    for (first, last) in Step::ALL
        .iter()
        .flat_map(|&a| Step::ALL.iter().map(move |&b| (a, b)))
    {
        let case = Case {
            steps: fitting(vec![Step::Transposed, first, last]),
            axis: 0,
            are_sizes_known: false,
            depends: None,
        };
        let taken = outcome(&case);
        let is_taken = matches!(taken, Ok(Some(Outcome::Rewritten(_))));
        assert!(is_taken, "{case:?}: {taken:?}");
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let steps = proptest::collection::vec(Step::any(), 1..5);
    let given = (steps, 0..2_usize, any::<bool>());
    given.prop_map(|(steps, axis, are_sizes_known)| Case {
        steps: fitting(steps),
        axis,
        are_sizes_known,
        depends: None,
    })
}

/// The steps without splits of less than two columns.
fn fitting(mut steps: Vec<Step>) -> Vec<Step> {
    let mut width = WIDTH;
    steps.retain(|&step| {
        let fits = step != Step::Split || width >= 2;
        if fits {
            width = add(&mut Writer::new(), step, ("v", width)).1;
        }
        fits
    });
    steps
}

/// Random models, each in its bytes.
pub(crate) fn models() -> impl Strategy<Value = Vec<u8>> {
    cases().prop_map(|case| case.model())
}

fn check(case: &Case, runs: [Run; 2], comparison: &Comparison) -> Result<(), TestCaseError> {
    let flags = ["--pass", "map"];
    let taken = outcome(case)?;
    if !matches!(taken, Some(Outcome::Rewritten(_))) {
        return Err(failure(&format!("{taken:?}"), case, &case.model(), &flags));
    }
    let runs = runs.map(|run| match case.are_sizes_known {
        true => Run {
            time: 4,
            batch: 2,
            ..run
        },
        // A size of nothing by the rest of none is any.
        false => Run {
            batch: run
                .batch
                .max(usize::from(case.steps.contains(&Step::Reshape))),
            ..run
        },
    });
    let sets = runs.map(|run| inputs(run, case.axis));
    comparison.run(&(case, runs), &case.model(), &sets, &flags)?;
    Ok(())
}

#[test]
fn random_maps_give_the_same_over_all_steps() {
    let comparison = Comparison::new("random_maps_give_the_same_over_all_steps");
    let runs = || draw::runs(draw::scaled());
    draw::check(15, (cases(), [runs(), runs()]), |(case, runs)| {
        check(&case, runs, &comparison)
    });
    comparison.ends();
}
