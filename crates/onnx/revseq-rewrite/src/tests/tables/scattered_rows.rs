//! Loops whose steps write rows of a state, and near misses.

use super::{Row, check, leaves, takes};

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

fn looped(row: Row) -> Row {
    Row {
        inner: BODIES,
        ..row
    }
}

fn take() -> Row {
    let what = "the same with rows as a scan output";
    let operators = "Shape Gather Mul Loop Shape Reshape";
    looped(takes(what, operators, &[START, LOOP]))
}

fn miss(why: &'static str) -> Row {
    looped(leaves(why, &[START, LOOP]))
}

#[test]
fn rows_that_steps_write_are_scan_outputs() {
    let row = "does not provably write the row of its step alone";
    let all = "does not provably write all rows of";
    let rows = [
        take(),
        take().with(
            "at = Reshape(t, upright_one)",
            "u = Unsqueeze(t, zero)\nat = Unsqueeze(u, zero)",
        ),
        take().with(
            "ScatterND(rows, at, v)",
            "ScatterND<reduction=none>(rows, at, v)",
        ),
        take().with(
            "rows2 = ScatterND(rows, at, v)",
            "put = ScatterND(rows, at, v)\nrows2 = Identity(put)",
        ),
        looped(takes(
            "the same with rows as a scan output",
            "Shape Gather Loop Shape Reshape",
            &[
                "shape = Shape(x)\ntime = Gather(shape, zero)",
                "counted, h, unread, y = Loop<body=@both>(time, always, start, half, x, x)",
            ],
        )),
        // Another row than its own, all rows of others, and rows that are read on the way.
        miss(row).with("Reshape(t, upright_one)", "Reshape(t2, upright_one)"),
        miss(row).with("Reshape(t, upright_one)", "Reshape(start, upright_one)"),
        miss("").with("ScatterND(rows", "ScatterND<reduction=add>(rows"),
        miss("").with("h2 = Add(now, h)", "g = Gather(rows, t)\nh2 = Add(now, g)"),
        miss("").with(
            "rows2 = ScatterND(rows, at, v)",
            "rows2 = ScatterND(rows, at, v)
seen = Shape(rows2)",
        ),
        miss(all).with("z = Mul(x, nought)", "z = Concat<axis=0>(x, x)"),
        miss(all).with("half, z)", "half, zeros3)"),
        // A loop of which nothing says how often it runs.
        miss("").with("c2 = Less(t2, time)", "c2 = Cast<to=9>(t2)"),
    ];
    check("scattered-rows", &rows);
}
