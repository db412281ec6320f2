//! Loops that run as programs.

use revseq_tract_operators::{How, Interrupt, Limits, LoadOptions, executions, run as run_plan};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::build::{
    Graph, Optimize, graph, ops, parse, parse_with, parse_with_programs, run, whole,
};

/// A Loop over rows, whose state is a row: `h = tanh(h + x[t])`.
fn a_loop(steps: &str) -> Graph {
    whole(&format!(
        "x:f32[{steps},4] h0:f32[4] -> last rows
         shape = Shape(x)
         count = Gather(shape, 0)
         last, rows = Loop<body=@body>(count, _, h0)
         @body: t c h -> c1 h1 row
         c1 = Identity(c)
         x_t = Gather<axis=0>(x, t)
         sum = Add(h, x_t)
         h1 = Tanh(sum)
         row = Mul(h1, 2.0)"
    ))
}

/// A Scan with a matrix: `h = tanh(h · w + x[t])`.
fn a_scan(steps: &str) -> Graph {
    let w: Vec<f32> = (0..16).map(|it| it as f32 / 16. - 0.5).collect();
    whole(&format!(
        "x:f32[{steps},1,4] h0:f32[1,4] -> last rows
         last, rows = Scan<body=@body;num_scan_inputs=1>(h0, x)
         @body: h:f32[1,4] x_t:f32[1,4] -> h1 row
         product = MatMul(h, w)
         sum = Add(product, x_t)
         h1 = Tanh(sum)
         row = Identity(h1)"
    ))
    .constant("w", tensor1(&w).into_shape(&[4, 4]).unwrap())
}

fn numbers(sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    let all: Vec<f32> = (0..count).map(|it| (it as f32 * 0.7).sin()).collect();
    tensor1(&all).into_shape(sizes).unwrap()
}

/// Checks that the only loop of a model is a program, with the facts and the values of the loop.
#[track_caller]
fn check(model: impl Fn(&str) -> Graph, sizes: impl Fn(usize) -> [Vec<usize>; 2]) {
    for size in ["5", "T"] {
        let programs = parse_with_programs(model(size)).unwrap();
        let programs = programs.optimized().unwrap();
        let how: Vec<How> = executions(&programs).into_iter().map(|it| it.how).collect();
        assert_eq!(how, [How::Program]);
        assert_eq!(
            ops(&programs).iter().filter(|op| *op == "Program").count(),
            1
        );
        let other = parse(model(size)).unwrap().optimized().unwrap();
        assert!(!ops(&other).contains(&"Program".to_owned()));
        for output in 0..2 {
            let facts = [&programs, &other].map(|it| it.output_fact(output).unwrap().clone());
            assert_eq!(facts[0].datum_type, facts[1].datum_type);
            assert_eq!(facts[0].shape, facts[1].shape);
        }
        let steps: &[usize] = if size == "T" { &[5, 1] } else { &[5] };
        for &steps in steps {
            let inputs = sizes(steps).map(|it| numbers(&it));
            run(model(size), &inputs).unwrap();
        }
        if size == "T" {
            let inputs = sizes(0).map(|it| numbers(&it));
            let given = inputs.iter().map(|it| it.clone().into_tvalue()).collect();
            let found = programs.into_runnable().unwrap().run(given).unwrap();
            assert_eq!(*found[0], inputs[1], "no step changes the state");
            assert_eq!(found[1].shape()[0], 0);
        }
    }
}

#[test]
fn a_loop_is_a_program() {
    check(a_loop, |steps| [vec![steps, 4], vec![4]]);
}

#[test]
fn a_scan_is_a_program() {
    check(a_scan, |steps| [vec![steps, 1, 4], vec![1, 4]]);
}

/// A Loop that only its limits end.
fn endless() -> Graph {
    whole(
        "s:f32[] -> last rows
         last, rows = Loop<body=@body>(_, _, s)
         @body: t c s -> c1 s1 rows
         much = 1e9f32
         c1 = Less(s, much)
         s1 = Identity(s)
         rows = Expand(s, [256])",
    )
}

#[test]
fn limits_end_a_program() {
    let state = tensor0(1_f32);
    for (limits, why) in [
        (
            Limits::none().with_steps(100),
            "it does not end within 100 steps, which are all that are allowed",
        ),
        (
            Limits::none().with_bytes(1 << 20),
            "more than the 1048576 that are allowed",
        ),
        (
            Limits::none().with_time(std::time::Duration::from_millis(20)),
            "took longer than the 20ms",
        ),
    ] {
        let options = LoadOptions::new().with_limits(limits);
        let model = parse_with(options, endless()).unwrap();
        let model = model.optimized().unwrap();
        assert_eq!(executions(&model)[0].how, How::Program);
        let error = model
            .into_runnable()
            .unwrap()
            .run(tvec![state.clone().into()]);
        let error = format!("{:#}", error.expect_err("it is endless"));
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn an_interrupt_ends_a_program() {
    let model = parse_with_programs(endless()).unwrap().optimized().unwrap();
    let mut state = model.into_runnable().unwrap().spawn().unwrap();
    let interrupt = Interrupt::new();
    let raised = interrupt.clone();
    let raising = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        raised.raise();
    });
    let result = interrupt.scope(|| run_plan(&mut state, tvec![tensor0(1_f32).into()]));
    raising.join().unwrap();
    let error = format!("{:#}", result.expect_err("it is endless"));
    assert!(error.contains("the run was interrupted"), "{error}");
}

/// The first runs make two programs each, and the loop itself runs; later ones have all.
#[test]
fn states_that_grow_have_a_program_for_each_step() {
    let model = whole(
        "n:i64[] s:f32[2] -> y
         y = Loop<body=@body>(n, _, s)
         @body: t c s -> c s1
         s1 = Concat<axis=0>(s, s)",
    );
    let programs = parse_with_programs(model).unwrap().optimized().unwrap();
    assert_eq!(executions(&programs)[0].how, How::Program);
    let plan = programs.into_runnable().unwrap();
    for count in [5, 5, 5, 5, 2, 0, 1] {
        let inputs = tvec![
            tensor0(count as i64).into_tvalue(),
            tensor1(&[1_f32, 2.]).into_tvalue()
        ];
        let found = plan.run(inputs).unwrap();
        assert_eq!(*found[0], tensor1(&[1_f32, 2.].repeat(1 << count)));
    }
}

#[test]
fn a_condition_ends_a_program_before_its_most_steps() {
    let model = whole(
        "x:f32[T] limit:f32[] h0:f32[] -> rows
         shape = Shape(x)
         count = Gather(shape, 0)
         last, rows = Loop<body=@body>(count, _, h0)
         @body: t c h -> c1 h1 row
         c1 = Less(h1, limit)
         x_t = Gather<axis=0>(x, t)
         h1 = Add(h, x_t)
         row = Identity(h1)",
    );
    let found = run(
        model,
        &[tensor1(&[1_f32; 5]), tensor0(1.5_f32), tensor0(0_f32)],
    );
    assert_eq!(found.unwrap()[0], tensor1(&[1_f32, 2.]));
}

/// A loop whose state grows, with a loop in its step: `rows` of them are `h = tanh(h + h)`, `inner` times.
fn nested() -> Graph {
    let body = whole(
        "t c s -> c1 s1
         c1 = Identity(c)
         last = Loop<body=@inner>(inner, _, h0)
         s1 = Concat<axis=0>(s, last)
         @inner: t c h -> c1 h1
         c1 = Identity(c)
         sum = Add(h, h)
         h1 = Tanh(sum)",
    );
    graph(
        "rows:i64[] inner:i64[] s:f32[1] h0:f32[1]",
        "y",
        "y = Loop<body=@body>(rows, _, s)",
    )
    .with("body", body)
}

fn counts(rows: i64, inner: i64) -> TVec<TValue> {
    let counts = [rows, inner].map(|count| tensor0(count).into_tvalue());
    let states = [0.5_f32, 0.25].map(|state| tensor1(&[state]).into_tvalue());
    counts.into_iter().chain(states).collect()
}

#[test]
fn a_loop_in_another_is_a_program_and_shares_its_limits() {
    let options = LoadOptions::new().with_limits(Limits::none().with_steps(12));
    let model = parse_with(options, nested()).unwrap();
    let model = model.optimized().unwrap();
    let how: Vec<How> = executions(&model).into_iter().map(|it| it.how).collect();
    assert_eq!(how, [How::Program]);
    let plan = model.into_runnable().unwrap();
    // Three steps, each with three in it.
    let found = plan.run(counts(3, 3)).unwrap();
    let last = (0..3).fold(0.25_f32, |h, _| (h + h).tanh());
    let expected = tensor1(&[0.5, last, last, last]);
    found[0]
        .close_enough(&expected, Approximation::Approximate)
        .unwrap();
    let error = plan.run(counts(3, 4)).expect_err("15 steps");
    let error = format!("{error:#}");
    assert!(error.contains("within 12 steps"), "{error}");
    assert!(plan.run(counts(3, 3)).is_ok());
}

#[test]
fn a_loop_in_a_branch_is_a_program() {
    let model = || {
        let then = whole(
            "-> y
                 y = Loop<body=@inner>(count, _, x)
                 @inner: t c h -> c h1
                 sum = Add(h, x)
                 h1 = Tanh(sum)",
        );
        graph(
            "yes:bool[] count:i64[] x:f32[3]",
            "y",
            "y = If<then_branch=@then;else_branch=@other>(yes)",
        )
        .with("then", then)
        .with("other", graph("", "y", "y = Neg(x)"))
    };
    let programs = parse_with_programs(model()).unwrap().optimized().unwrap();
    assert_eq!(executions(&programs)[0].how, How::Program);
    let plan = programs.into_runnable().unwrap();
    let x = [0.5_f32, -1., 2.];
    for (yes, count) in [(true, 4), (true, 0), (false, 4)] {
        let inputs = tvec![
            tensor0(yes).into_tvalue(),
            tensor0(count).into_tvalue(),
            tensor1(&x).into_tvalue()
        ];
        let found = plan.run(inputs).unwrap();
        let expected = x.map(|x| match yes {
            true => (0..count).fold(x, |h, _: i64| (h + x).tanh()),
            false => -x,
        });
        found[0]
            .close_enough(&tensor1(&expected), Approximation::Approximate)
            .unwrap();
    }
}
