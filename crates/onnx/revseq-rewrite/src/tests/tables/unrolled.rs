//! Cells that were traced step by step, and near misses.

use super::{ANY, Row, check, leaves, takes};
use crate::Options;

/// A SimpleRNN of five steps, which ends in a stack of its outputs.
const RNN: &str = "x0 = Gather<axis=1>(x, start)
    x1 = Gather<axis=1>(x, next)
    x2 = Gather<axis=1>(x, at2)
    x3 = Gather<axis=1>(x, at3)
    x4 = Gather<axis=1>(x, at4)
    shape = Shape(x)
    batch = Gather(shape, zero)
    states = Concat<axis=0>(batch, two)
    begin = Expand(nought, states)
    i0 = Gemm<transB=1>(x0, w2d, bias)
    s0 = MatMul(begin, recurrent)
    a0 = Add(i0, s0)
    h0 = Tanh(a0)
    i1 = Gemm<transB=1>(x1, w2d, bias)
    s1 = MatMul(h0, recurrent)
    a1 = Add(s1, i1)
    h1 = Tanh(a1)
    i2 = Gemm<transB=1>(x2, w2d, bias)
    s2 = MatMul(h1, recurrent)
    a2 = Add(i2, s2)
    h2 = Tanh(a2)
    i3 = Gemm<transB=1>(x3, w2d, bias)
    s3 = MatMul(h2, recurrent)
    a3 = Add(i3, s3)
    h3 = Tanh(a3)
    i4 = Gemm<transB=1>(x4, w2d, bias)
    s4 = MatMul(h3, recurrent)
    a4 = Add(i4, s4)
    h4 = Tanh(a4)";

/// All outputs, as a tensor.
const STACK: &str = "u0 = Unsqueeze(h0, one)
    u1 = Unsqueeze(h1, one)
    u2 = Unsqueeze(h2, one)
    u3 = Unsqueeze(h3, one)
    u4 = Unsqueeze(h4, one)
    y = Concat<axis=1>(u0, u1, u2, u3, u4)";

fn known(row: Row) -> Row {
    row.sizes([None, Some(5), Some(3)])
}

fn take(what: &'static str, operators: &'static str) -> Row {
    known(takes(what, operators, &[RNN, STACK]))
}

/// The same with another end than the stack.
fn take_to(end: &'static str, operators: &'static str) -> Row {
    known(takes("RNN, forward, of 5 steps", operators, &[RNN, end]))
}

fn for_tract() -> Options {
    Options {
        runtime: Some("tract".to_owned()),
        ..Options::default()
    }
}

fn miss(why: &'static str) -> Row {
    known(leaves(why, &[RNN, STACK]))
}

#[test]
#[rustfmt::skip]
fn unrolled() {
    let whole = "RNN, forward, of 5 steps";
    let layer = "Transpose Shape Slice Concat Expand RNN Squeeze Transpose";
    let permuted = "Gather Transpose Shape Slice Concat Expand RNN Squeeze Transpose";
    let begins = "does not provably begin with a row of units for each sequence";
    check("unrolled", &[
        take(whole, layer),
        take(whole, layer).opset(11).with("Unsqueeze(h0, one)", "Unsqueeze<axes=[1]>(h0)").with("Unsqueeze(h1, one)", "Unsqueeze<axes=[1]>(h1)")
            .with("Unsqueeze(h2, one)", "Unsqueeze<axes=[1]>(h2)").with("Unsqueeze(h3, one)", "Unsqueeze<axes=[1]>(h3)").with("Unsqueeze(h4, one)", "Unsqueeze<axes=[1]>(h4)"),
        // Steps that are read in other ways.
        take(whole, layer)
            .with("x3 = Gather<axis=1>(x, at3)", "f3 = Slice(x, three, four, one)\nx3 = Squeeze(f3, one)")
            .with("x4 = Gather<axis=1>(x, at4)", "f4 = Gather<axis=-2>(x, minus)\nx4 = Squeeze(f4, one)"),
        take(whole, layer)
            .with("x0 = Gather<axis=1>(x, start)", "p0, p1, p2, p3, p4 = Split<axis=1>(x)\nx0 = Squeeze(p0, one)")
            .with("x1 = Gather<axis=1>(x, next)", "x1 = Squeeze(p1, one)").with("x2 = Gather<axis=1>(x, at2)", "x2 = Squeeze(p2, one)")
            .with("x3 = Gather<axis=1>(x, at3)", "x3 = Squeeze(p3, one)").with("x4 = Gather<axis=1>(x, at4)", "x4 = Squeeze(p4, one)"),
        // The steps of a longer sequence, and of one of unknown length.
        take(whole, "Slice Transpose Shape Slice Concat Expand RNN Squeeze Transpose").sizes([None, Some(7), Some(3)]),
        take(whole, permuted).sizes([None, None, Some(3)]),
        // Only the last output, and single ones.
        take_to("y = Identity(h4)", "Transpose Shape Slice Concat Expand RNN Squeeze"),
        take_to("y = Add(h1, h4)", "Transpose Shape Slice Concat Expand RNN Squeeze Gather Gather Add"),
        // Outputs in the opposite order, some of them, and beside another value.
        take(whole, "Transpose Shape Slice Concat Expand RNN Squeeze Slice Transpose").with("(u0, u1, u2, u3, u4)", "(u4, u3, u2, u1, u0)"),
        take_to(
            "u1 = Unsqueeze(h1, one)\nu2 = Unsqueeze(h2, one)\nu3 = Unsqueeze(h3, one)\ny = Concat<axis=1>(u3, u1, u2, x)",
            "Transpose Shape Slice Concat Expand RNN Squeeze Gather Unsqueeze Slice Transpose Concat",
        ),
        // From the end to the start, in any other order, and one step twice.
        take("RNN, reverse, of 5 steps", "Transpose Shape Slice Concat Expand RNN Squeeze Slice Transpose")
            .with("= Gemm<transB=1>(x0", "= Gemm<transB=1>(x9").with("= Gemm<transB=1>(x4", "= Gemm<transB=1>(x0").with("= Gemm<transB=1>(x9", "= Gemm<transB=1>(x4")
            .with("= Gemm<transB=1>(x1", "= Gemm<transB=1>(x9").with("= Gemm<transB=1>(x3", "= Gemm<transB=1>(x1").with("= Gemm<transB=1>(x9", "= Gemm<transB=1>(x3"),
        take(whole, permuted)
            .with("= Gemm<transB=1>(x1", "= Gemm<transB=1>(x9").with("= Gemm<transB=1>(x3", "= Gemm<transB=1>(x1").with("= Gemm<transB=1>(x9", "= Gemm<transB=1>(x3"),
        take(whole, "Gather Gather Transpose Shape Slice Concat Expand RNN Squeeze Transpose").with("= Gemm<transB=1>(x4", "= Gemm<transB=1>(x3"),
        // An initial state that is a row for all sequences, and one that is not provably a matrix.
        take(whole, ANY).with("Expand(nought, states)", "Identity(begin_row)"),
        miss(begins).with("MatMul(begin, recurrent)", "MatMul(flag, recurrent)"),
        // Before tract loads it; there the rows have to be those of the batch.
        take(whole, layer).options(for_tract()),
        take(whole, ANY).with("batch = Gather(shape, zero)", "batch = Shape(lens)"),
        take(whole, "Shape Gather Concat Expand Transpose Shape Slice Concat Expand RNN Squeeze Transpose").with("Expand(nought, states)", "Identity(three_rows)"),
        miss(begins).with("batch = Gather(shape, zero)", "batch = Shape(lens)").options(for_tract()),
    ]);
}

#[test]
#[rustfmt::skip]
fn unrolled_in_part() {
    check("unrolled", &[
        // A step with other weights, another function or another state ends a layer.
        miss("only 2 steps follow each other, too few for a layer: the cell at step 2 has other weights")
            .with("MatMul(h1, recurrent)", "MatMul(h1, recurrent2)").with("(h3, recurrent)", "(h3, recurrent2)"),
        miss("only 2 steps follow each other, too few for a layer: the cell at step 2 is of another kind")
            .with("h2 = Tanh(a2)", "h2 = Sigmoid(a2)").with("(h3, recurrent)", "(h3, recurrent2)"),
        miss("only 2 steps follow each other, too few for a layer: no cell with the same weights takes h1 as its state")
            .with("MatMul(h1, recurrent)", "MatMul(begin, recurrent)").with("(h3, recurrent)", "(begin, recurrent)"),
        take("RNN, forward, of 4 steps; the cell at step 4 has other weights", ANY).with("MatMul(h3, recurrent)", "MatMul(h3, recurrent2)"),
        take("RNN, forward, of 4 steps", ANY).with("MatMul(h3, recurrent)", "MatMul(h2, recurrent)"),
        // Something else reads a product of a state.
        miss("other nodes read what its step computes, so that MatMul#18 has to stay").with("y = Concat", "z = Exp(s2)\ny = Concat").outputs("y z"),
        // No state at all.
        miss("").with("h4 = Tanh(a4)", "h4 = Tanh(i4)").with("h3 = Tanh(a3)", "h3 = Tanh(i3)")
            .with("h2 = Tanh(a2)", "h2 = Tanh(i2)").with("h1 = Tanh(a1)", "h1 = Tanh(i1)").with("h0 = Tanh(a0)", "h0 = Tanh(i0)"),
        // Weights that a caller may set.
        miss("are multiplied").replaceable("w2d"),
        // A cell that reads its own output.
        miss("a cell that reads its own output").with("(x1, w2d", "(n0, w2d").with("(x2, w2d", "(n1, w2d")
            .with("(x3, w2d", "(n2, w2d").with("(x4, w2d", "(n3, w2d")
            .with("h0 = Tanh(a0)", "h0 = Tanh(a0)\nn0 = MatMul(h0, w2d)").with("h1 = Tanh(a1)", "h1 = Tanh(a1)\nn1 = MatMul(h1, w2d)")
            .with("h2 = Tanh(a2)", "h2 = Tanh(a2)\nn2 = MatMul(h2, w2d)").with("h3 = Tanh(a3)", "h3 = Tanh(a3)\nn3 = MatMul(h3, w2d)"),
    ]);
}
