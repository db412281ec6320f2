//! Loops with states of which parts are maps, and near misses.

use super::{Row, check, leaves, takes};

const START: &str = "shape = Shape(x)
    time = Gather(shape, zero)";

const LOOP: &str = "counted, last, y = Loop<body=@carrying>(time, always, start, recurrent)";

const SCAN: &str = "last, y = Scan<body=@scanned;num_scan_inputs=1>(recurrent, x)";

const BODIES: &str = "
    @carrying: i c t h -> c2 t2 h2 step
        t2 = Add(t, next)
        c2 = Less(t2, time)
        now = Gather<axis=0>(x, t)
        fed = MatMul(now, kernel)
        h2 = Add(fed, h)
        step = Tanh(h2)
    @scanned: h now -> h2 step
        fed = MatMul(now, kernel)
        h2 = Add(fed, h)
        step = Tanh(h2)
";

/// The sizes of `x`, where those of all values are known.
const KNOWN: [Option<i64>; 3] = [Some(5), Some(2), Some(3)];

fn looped(row: Row) -> Row {
    Row {
        inner: BODIES,
        ..row
    }
}

fn take(what: &'static str, operators: &'static str) -> Row {
    looped(takes(what, operators, &[START, LOOP]))
        .outputs("y last")
        .sizes(KNOWN)
}

fn stay() -> Row {
    looped(leaves("", &[START, LOOP])).outputs("y last")
}

const FED: &str = "fed = MatMul(now, kernel)";
const STEP: &str = "step = Tanh(h2)";

#[test]
fn what_needs_no_state_runs_before_the_loop() {
    let two = "2 of its nodes before it and 0 behind it";
    let rows = [
        take(two, "Shape Gather MatMul Loop"),
        take(two, "Shape Gather MatMul Loop").sizes([None; 3]),
        take(two, "Shape Gather Transpose MatMul Loop")
            .with("axis=0", "axis=1")
            .with("(shape, zero)", "(shape, one)"),
        take("3 of its nodes before it", "Shape Gather MatMul Add Loop")
            .with(FED, "m = MatMul(now, kernel)\nfed = Add(m, bias)"),
        take("3 of its nodes before it", "Shape Gather MatMul Add Loop")
            .with(FED, "m = MatMul(now, kernel)\nfed = Add(bias, m)")
            .sizes([None; 3]),
        // Of other operators, the values of all steps have to fit.
        take(two, "Shape Gather Tanh Loop").with(FED, "fed = Tanh(now)"),
        stay().with(FED, "fed = Tanh(now)"),
        stay()
            .with(FED, "fed = Tanh(now)")
            .sizes([Some(100_000), Some(2), Some(3)]),
        // The step itself is read as well: nothing is saved.
        stay()
            .sizes(KNOWN)
            .with(FED, "n = Tanh(now)\nm = Mul(now, h)\nfed = Add(n, m)"),
        take("2 of its nodes before it", "Shape Gather MatMul Loop")
            .sizes(KNOWN)
            .with(
                FED,
                "n = MatMul(now, kernel)\nm = MatMul(h, kernel)\nfed = Add(m, n)",
            ),
        // What is read twice is read once.
        take(
            "4 of its nodes before it",
            "Shape Gather MatMul Sigmoid Tanh Loop",
        )
        .with(
            FED,
            "n = MatMul(now, kernel)\nm = Sigmoid(n)\nk = Tanh(m)\nl = Mul(k, h)\nfed = Add(l, h)",
        ),
        // Outputs of no state.
        take("2 of its nodes before it", "Shape Gather Tanh Loop")
            .with(FED, "fed = Identity(h)")
            .with(STEP, "step = Tanh(now)"),
        // Nothing of it is a map.
        stay().with(FED, "fed = MatMul(h, kernel)"),
        stay().with(
            FED,
            "noise = RandomNormalLike(now)\nfed = MatMul(noise, kernel)",
        ),
        // Other steps than its own, or not all of them.
        stay().with("Gather<axis=0>(x, t)", "Gather<axis=0>(x, t2)"),
        stay().with("c2 = Less(t2, time)", "c2 = Identity(flag)"),
        looped(takes("1 of its nodes before it", "MatMul Scan", &[SCAN])).outputs("y last"),
    ];
    check("partial-map", &rows);
}

#[test]
fn what_only_outputs_need_runs_behind_the_loop() {
    let none = "fed = Identity(h)";
    let one = "0 of its nodes before it and 1 behind it";
    let two = "0 of its nodes before it and 2 behind it";
    let product = "step = MatMul(h2, recurrent)";
    let rows = [
        take(one, "Shape Gather Loop MatMul")
            .with(FED, none)
            .with(STEP, product),
        take(two, "Shape Gather Loop MatMul Tanh")
            .with(FED, none)
            .with(STEP, "s = MatMul(h2, recurrent)\nstep = Tanh(s)"),
        take(two, "Shape Gather Loop Mul MatMul")
            .with(FED, none)
            .with(
                STEP,
                "k = Constant<value_float=2.0>()\ns = Mul(h2, k)\nstep = MatMul(s, recurrent)",
            ),
        // A loop of no step outputs nothing of which the sizes were known.
        stay().with(FED, none).with(STEP, product),
        // It saves no node.
        stay().sizes(KNOWN).with(FED, none),
        take(two, "Shape Gather Loop Tanh Neg")
            .with(FED, none)
            .with(STEP, "s = Tanh(h2)\nstep = Neg(s)"),
        // A state needs it, or the condition.
        stay()
            .sizes(KNOWN)
            .with(FED, "fed = MatMul(h, recurrent)")
            .with(STEP, "step = Identity(fed)"),
        // It has no form over all steps.
        stay()
            .sizes(KNOWN)
            .with(FED, none)
            .with(STEP, "s = MatMul(h2, recurrent)\nstep = Det(s)"),
        // What it reads of no state is there.
        take(
            "2 of its nodes before it and 3 behind it",
            "Shape Gather MatMul Loop Neg Mul Tanh",
        )
        .with(FED, "n = MatMul(now, kernel)\nfed = Identity(h)")
        .with(STEP, "s = Neg(h2)\nr = Mul(s, n)\nstep = Tanh(r)"),
        looped(takes(one, "Scan MatMul", &[SCAN]))
            .outputs("y last")
            .sizes(KNOWN)
            .with(FED, none)
            .with(STEP, product),
    ];
    check("partial-map", &rows);
}
