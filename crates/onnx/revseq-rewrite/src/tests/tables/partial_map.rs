//! Loops with states of which parts are maps, and near misses.

use super::{Row, base, changed, check};

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

fn looped(nodes: &[&str]) -> Row {
    Row {
        inner: BODIES,
        ..base(nodes)
    }
}

#[test]
fn what_needs_no_state_runs_before_the_loop() {
    let two = "2 of its nodes before it and 0 behind it";
    let mut rows = changed(
        &looped(&[START, LOOP]).set("outputs y last").set("sizes 5 2 3"),
        &format!("=> Shape Gather MatMul Loop | {two}
             [sizes ? ? ?] => Shape Gather MatMul Loop | {two}
             axis=0 -> axis=1; (shape, zero) -> (shape, one) => Shape Gather Transpose MatMul Loop | {two}
             fed = MatMul(now, kernel) -> m = MatMul(now, kernel); fed = Add(m, bias)
             => Shape Gather MatMul Add Loop | 3 of its nodes before it
             [sizes ? ? ?] fed = MatMul(now, kernel) -> m = MatMul(now, kernel); fed = Add(bias, m)
             => Shape Gather MatMul Add Loop | 3 of its nodes before it
             # Of other operators, the values of all steps have to fit.
             fed = MatMul(now, kernel) -> fed = Tanh(now) => Shape Gather Tanh Loop | {two}
             [sizes ? ? ?] fed = MatMul(now, kernel) -> fed = Tanh(now) => !
             [sizes 100000 2 3] fed = MatMul(now, kernel) -> fed = Tanh(now) => !
             # The step itself is read as well: nothing is saved.
             fed = MatMul(now, kernel) -> n = Tanh(now); m = Mul(now, h); fed = Add(n, m) => !
             fed = MatMul(now, kernel) -> n = MatMul(now, kernel); m = MatMul(h, kernel); fed = Add(m, n)
             => Shape Gather MatMul Loop | 2 of its nodes before it
             # What is read twice is read once.
             fed = MatMul(now, kernel) -> n = MatMul(now, kernel); m = Sigmoid(n); k = Tanh(m); l = Mul(k, h); fed = Add(l, h)
             => Shape Gather MatMul Sigmoid Tanh Loop | 4 of its nodes before it
             # Outputs of no state.
             fed = MatMul(now, kernel) -> fed = Identity(h); step = Tanh(h2) -> step = Tanh(now)
             => Shape Gather Tanh Loop | 2 of its nodes before it
             # Nothing of it is a map.
             [sizes ? ? ?] fed = MatMul(now, kernel) -> fed = MatMul(h, kernel) => !
             [sizes ? ? ?] fed = MatMul(now, kernel) -> noise = RandomNormalLike(now); fed = MatMul(noise, kernel)
             => !
             # Other steps than its own, or not all of them.
             [sizes ? ? ?] Gather<axis=0>(x, t) -> Gather<axis=0>(x, t2) => !
             [sizes ? ? ?] c2 = Less(t2, time) -> c2 = Identity(flag) => !"),
    );
    rows.extend(changed(
        &looped(&[SCAN]),
        "[outputs y last] => MatMul Scan | 1 of its nodes before it",
    ));
    check("partial-map", &rows);
}

#[test]
fn what_only_outputs_need_runs_behind_the_loop() {
    let one = "0 of its nodes before it and 1 behind it";
    let two = "0 of its nodes before it and 2 behind it";
    let mut rows = changed(
        &looped(&[START, LOOP]).with("fed = MatMul(now, kernel)", "fed = Identity(h)").set("outputs y last").set("sizes 5 2 3"),
        &format!("step = Tanh(h2) -> step = MatMul(h2, recurrent) => Shape Gather Loop MatMul | {one}
             step = Tanh(h2) -> s = MatMul(h2, recurrent); step = Tanh(s) => Shape Gather Loop MatMul Tanh | {two}
             step = Tanh(h2) -> k = Constant<value_float=2.0>(); s = Mul(h2, k); step = MatMul(s, recurrent)
             => Shape Gather Loop Mul MatMul | {two}
             # A loop of no step outputs nothing of which the sizes were known.
             [sizes ? ? ?] step = Tanh(h2) -> step = MatMul(h2, recurrent) => !
             # It saves no node.
             => !
             step = Tanh(h2) -> s = Tanh(h2); step = Neg(s) => Shape Gather Loop Tanh Neg | {two}
             # It has no form over all steps.
             step = Tanh(h2) -> s = MatMul(h2, recurrent); step = Det(s) => !"),
    );
    rows.extend(changed(
        &looped(&[START, LOOP]).set("outputs y last").set("sizes 5 2 3"),
        "# A state needs it, or the condition.
             fed = MatMul(now, kernel) -> fed = MatMul(h, recurrent); step = Tanh(h2) -> step = Identity(fed) => !
             # What it reads of no state is there.
             fed = MatMul(now, kernel) -> n = MatMul(now, kernel); fed = Identity(h)
             step = Tanh(h2) -> s = Neg(h2); r = Mul(s, n); step = Tanh(r)
             => Shape Gather MatMul Loop Neg Mul Tanh | 2 of its nodes before it and 3 behind it",
    ));
    rows.extend(changed(
        &looped(&[SCAN]),
        &format!(
            "[outputs y last] [sizes 5 2 3] fed = MatMul(now, kernel) -> fed = Identity(h)
             step = Tanh(h2) -> step = MatMul(h2, recurrent) => Scan MatMul | {one}"
        ),
    ));
    check("partial-map", &rows);
}
