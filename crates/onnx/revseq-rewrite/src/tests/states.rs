//! States of loops that the first step broadcasts to more axes.

use super::tract::check;

/// The bodies of loops with a state of no axes, to which they add `x`, of three.
pub(super) const BODIES: &str = "
    @broadcasts: i c s -> c2 s2 z
        c2 = Identity(c)
        t = Tanh(s)
        s2 = Add(t, x)
        z = Neg(s2)
    @broadcasts by other operators: i c s -> c2 s2
        k = Cast<to=9>(s)
        l = Cast<to=9>(i)
        g = Greater(i, l)
        c2 = Or(g, k)
        e = Unsqueeze(s, [0])
        f = Reshape(e, one)
        r = ReduceSum<keepdims=0>(s)
        w = Where(g, s, r)
        m = Mul(w, x)
        s2 = Add(m, f)
    @looks up the state: i c s -> c2 s2
        c2 = Identity(c)
        a = Gather(table, s)
        b = MatMul(a, table)
        d = Softmax(b)
        e = ReduceMax<axes=[-1]>(d)
        f = Equal(d, e)
        g = ArgMax<axis=-1;keepdims=0>(f)
        s2 = Reshape(g, one)
    @gives its first value: i c s -> c2 s2 z
        c2 = Identity(c)
        s2 = Add(s, x)
        z = Neg(s)
    @reads the shape: i c s -> c2 s2
        c2 = Identity(c)
        k = Shape(s)
        s2 = Add(s, x)
    @sums an axis: i c s -> c2 s2
        c2 = Identity(c)
        k = ReduceSum<keepdims=0>(s, [0])
        s2 = Add(s, x)
    @adds an axis: i c s -> c2 s2
        c2 = Identity(c)
        s2 = Unsqueeze(s, [0])
";

#[test]
fn a_state_that_the_first_step_broadcasts_has_all_axes_from_the_start() {
    check(
        "y, all = Loop<body=@broadcasts>(3, true, half) => Unsqueeze Loop
         y = Loop<body=@broadcasts by other operators>(3, _, half) => Unsqueeze Loop
         y = Loop<body=@looks up the state>(3, true, 0) => Unsqueeze Loop
         # Without a step, the last state would have no axes; a scan output is empty.
         y, all = Loop<body=@broadcasts>(n, true, half) => Loop
         y, all = Loop<body=@broadcasts>(3, c, half) => Loop
         y, all = Loop<body=@broadcasts>(0, true, half) => Loop
         last, y = Loop<body=@broadcasts>(n, c, half) => Unsqueeze Loop
         # A state that has all axes.
         y, all = Loop<body=@broadcasts>(3, true, x) => Loop",
    );
}

#[test]
fn a_state_that_not_every_reader_broadcasts_keeps_its_axes() {
    check(
        "y = Loop<body=@gives its first value>(3, true, half)
         => ! its output z would have more axes after the first step
         y = Loop<body=@reads the shape>(3, true, half) => ! its node Shape#1 does not broadcast
         y = Loop<body=@sums an axis>(3, true, half) => ! its node ReduceSum#1 does not broadcast
         y = Loop<body=@adds an axis>(3, true, half)
         => ! its output s2 would have more axes after the first step",
    );
}
