//! Loops whose steps write rows of a state, and near misses.

use super::{Row, base, changed, check};

const START: &str = "shape = Shape(x)
    time = Gather(shape, zero)
    z = Mul(x, nought)";

const LOOP: &str = "counted, h, y = Loop<body=@writing>(time, always, start, half, z)";

const BODIES: &str = "
    @writing: i c t h rows -> c2 t2 h2 rows2
        t2 = Add(t, next)
        c2 = Less(t2, time)
        now = Gather<axis=0>(x, t)
        h2 = Add(now, h)
        v = Unsqueeze(h2, zero)
        at = Reshape(t, upright_one)
        rows2 = ScatterND(rows, at, v)
    @both: i c t h rows more -> c2 t2 h2 rows2 more2
        t2 = Add(t, next)
        c2 = Less(t2, time)
        now = Gather<axis=0>(x, t)
        h2 = Add(now, h)
        v = Unsqueeze(h2, zero)
        at = Reshape(t, upright_one)
        rows2 = ScatterND(rows, at, v)
        turned = Neg(v)
        put = ScatterND(more, at, turned)
        more2 = Identity(put)
";

fn looped(nodes: &[&str]) -> Row {
    Row {
        inner: BODIES,
        ..base(nodes)
    }
}

#[test]
fn rows_that_steps_write_are_scan_outputs() {
    let row = "does not provably write the row of its step alone";
    let all = "does not provably write all rows of";
    let mut rows = changed(
        &looped(&[START, LOOP]),
        &format!("=> Shape Gather Mul Loop Shape Reshape | the same with rows as a scan output
             at = Reshape(t, upright_one) -> u = Unsqueeze(t, zero); at = Unsqueeze(u, zero)
             => Shape Gather Mul Loop Shape Reshape | the same with rows as a scan output
             ScatterND(rows, at, v) -> ScatterND<reduction=none>(rows, at, v)
             => Shape Gather Mul Loop Shape Reshape | the same with rows as a scan output
             rows2 = ScatterND(rows, at, v) -> put = ScatterND(rows, at, v); rows2 = Identity(put)
             => Shape Gather Mul Loop Shape Reshape | the same with rows as a scan output
             # Another row than its own, all rows of others, and rows that are read on the way.
             Reshape(t, upright_one) -> Reshape(t2, upright_one) => ! {row}
             Reshape(t, upright_one) -> Reshape(start, upright_one) => ! {row}
             ScatterND(rows -> ScatterND<reduction=add>(rows => !
             h2 = Add(now, h) -> g = Gather(rows, t); h2 = Add(now, g) => !
             rows2 = ScatterND(rows, at, v) -> rows2 = ScatterND(rows, at, v); seen = Shape(rows2) => !
             z = Mul(x, nought) -> z = Concat<axis=0>(x, x) => ! {all}
             half, z) -> half, zeros3) => ! {all}
             # A loop of which nothing says how often it runs.
             c2 = Less(t2, time) -> c2 = Cast<to=9>(t2) => !"),
    );
    rows.extend(changed(
        &looped(&[
            "shape = Shape(x)\ntime = Gather(shape, zero)",
            "counted, h, unread, y = Loop<body=@both>(time, always, start, half, x, x)",
        ]),
        "=> Shape Gather Loop Shape Reshape | the same with rows as a scan output",
    ));
    check("scattered-rows", &rows);
}
