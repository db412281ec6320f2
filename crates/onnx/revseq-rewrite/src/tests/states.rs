//! States of loops that the first step broadcasts to more axes.

use super::left;
use super::tract::{brought, check, model};

/// The bodies of loops with a state of no axes, to which they add `x`, of three.
pub(super) const BODIES: &[(&str, &str, &str, &str)] = &[
    (
        "broadcasts",
        "i c s",
        "c2 s2 z",
        "c2 = Identity(c)\nt = Tanh(s)\ns2 = Add(t, x)\nz = Neg(s2)",
    ),
    (
        "broadcasts by other operators",
        "i c s",
        "c2 s2",
        "k = Cast<to=9>(s)\nl = Cast<to=9>(i)\ng = Greater(i, l)\nc2 = Or(g, k)\ne = Unsqueeze(s, [0])\nf = Reshape(e, one)\n\
         r = ReduceSum<keepdims=0>(s)\nw = Where(g, s, r)\nm = Mul(w, x)\ns2 = Add(m, f)",
    ),
    (
        "looks up the state",
        "i c s",
        "c2 s2",
        "c2 = Identity(c)\na = Gather(table, s)\nb = MatMul(a, table)\nd = Softmax(b)\ne = ReduceMax<axes=[-1]>(d)\n\
         f = Equal(d, e)\ng = ArgMax<axis=-1;keepdims=0>(f)\ns2 = Reshape(g, one)",
    ),
    (
        "gives its first value",
        "i c s",
        "c2 s2 z",
        "c2 = Identity(c)\ns2 = Add(s, x)\nz = Neg(s)",
    ),
    (
        "reads the shape",
        "i c s",
        "c2 s2",
        "c2 = Identity(c)\nk = Shape(s)\ns2 = Add(s, x)",
    ),
    (
        "sums an axis",
        "i c s",
        "c2 s2",
        "c2 = Identity(c)\nk = ReduceSum<keepdims=0>(s, [0])\ns2 = Add(s, x)",
    ),
    (
        "adds an axis",
        "i c s",
        "c2 s2",
        "c2 = Identity(c)\ns2 = Unsqueeze(s, [0])",
    ),
];

#[test]
fn a_state_that_the_first_step_broadcasts_has_all_axes_from_the_start() {
    let same = "Loop";
    check(&[
        (
            17,
            "y, all = Loop<body=@broadcasts>(3, true, half)",
            "Unsqueeze Loop",
        ),
        (
            17,
            "y = Loop<body=@broadcasts by other operators>(3, _, half)",
            "Unsqueeze Loop",
        ),
        (
            17,
            "y = Loop<body=@looks up the state>(3, true, 0)",
            "Unsqueeze Loop",
        ),
        // Without a step, the last state would have no axes; a scan output is empty.
        (17, "y, all = Loop<body=@broadcasts>(n, true, half)", same),
        (17, "y, all = Loop<body=@broadcasts>(3, c, half)", same),
        (17, "y, all = Loop<body=@broadcasts>(0, true, half)", same),
        (
            17,
            "last, y = Loop<body=@broadcasts>(n, c, half)",
            "Unsqueeze Loop",
        ),
        // A state that has all axes.
        (17, "y, all = Loop<body=@broadcasts>(3, true, x)", same),
    ]);
}

#[test]
fn a_state_that_not_every_reader_broadcasts_keeps_its_axes() {
    for (body, why) in [
        (
            "gives its first value",
            "its output z would have more axes after the first step",
        ),
        ("reads the shape", "its node Shape#1 does not broadcast"),
        ("sums an axis", "its node ReduceSum#1 does not broadcast"),
        (
            "adds an axis",
            "its output s2 would have more axes after the first step",
        ),
    ] {
        let text = format!("y = Loop<body=@{body}>(3, true, half)");
        let (_, report) = brought(&model(&text, 17));
        let reasons = left(&report, "Loop");
        assert!(
            reasons.iter().any(|reason| reason.contains(why)),
            "{body}: {reasons:?}"
        );
    }
}
