//! Cells that were traced step by step, and near misses.

use super::{base, changed, check};

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

#[test]
fn unrolled() {
    let whole = "RNN, forward, of 5 steps";
    let layer = "Transpose Shape Slice Concat Expand RNN Squeeze Transpose";
    let permuted = "Gather Transpose Shape Slice Concat Expand RNN Squeeze Transpose";
    let begins = "does not provably begin with a row of units for each sequence";
    let mut rows = changed(
        &base(&[RNN, STACK]).set("sizes ? 5 3"),
        &format!("=> {layer} | {whole}
             [opset 11] Unsqueeze(h0, one) -> Unsqueeze<axes=[1]>(h0)
             Unsqueeze(h1, one) -> Unsqueeze<axes=[1]>(h1); Unsqueeze(h2, one) -> Unsqueeze<axes=[1]>(h2)
             Unsqueeze(h3, one) -> Unsqueeze<axes=[1]>(h3); Unsqueeze(h4, one) -> Unsqueeze<axes=[1]>(h4)
             => {layer} | {whole}
             # Steps that are read in other ways.
             x3 = Gather<axis=1>(x, at3) -> f3 = Slice(x, three, four, one); x3 = Squeeze(f3, one)
             x4 = Gather<axis=1>(x, at4) -> f4 = Gather<axis=-2>(x, minus); x4 = Squeeze(f4, one) => {layer} | {whole}
             x0 = Gather<axis=1>(x, start) -> p0, p1, p2, p3, p4 = Split<axis=1>(x); x0 = Squeeze(p0, one)
             x1 = Gather<axis=1>(x, next) -> x1 = Squeeze(p1, one)
             x2 = Gather<axis=1>(x, at2) -> x2 = Squeeze(p2, one)
             x3 = Gather<axis=1>(x, at3) -> x3 = Squeeze(p3, one)
             x4 = Gather<axis=1>(x, at4) -> x4 = Squeeze(p4, one) => {layer} | {whole}
             # The steps of a longer sequence, and of one of unknown length.
             [sizes ? 7 3] => Slice Transpose Shape Slice Concat Expand RNN Squeeze Transpose | {whole}
             [sizes ? ? 3] => {permuted} | {whole}
             # Outputs in the opposite order, some of them, and beside another value.
             (u0, u1, u2, u3, u4) -> (u4, u3, u2, u1, u0)
             => Transpose Shape Slice Concat Expand RNN Squeeze Slice Transpose | {whole}
             # From the end to the start, in any other order, and one step twice.
             = Gemm<transB=1>(x0 -> = Gemm<transB=1>(x9; = Gemm<transB=1>(x4 -> = Gemm<transB=1>(x0
             = Gemm<transB=1>(x9 -> = Gemm<transB=1>(x4; = Gemm<transB=1>(x1 -> = Gemm<transB=1>(x9
             = Gemm<transB=1>(x3 -> = Gemm<transB=1>(x1; = Gemm<transB=1>(x9 -> = Gemm<transB=1>(x3
             => Transpose Shape Slice Concat Expand RNN Squeeze Slice Transpose | RNN, reverse, of 5 steps
             = Gemm<transB=1>(x1 -> = Gemm<transB=1>(x9; = Gemm<transB=1>(x3 -> = Gemm<transB=1>(x1
             = Gemm<transB=1>(x9 -> = Gemm<transB=1>(x3 => {permuted} | {whole}
             = Gemm<transB=1>(x4 -> = Gemm<transB=1>(x3
             => Gather Gather Transpose Shape Slice Concat Expand RNN Squeeze Transpose | {whole}
             # An initial state that is a row for all sequences, and one that is not provably a matrix.
             Expand(nought, states) -> Identity(begin_row) => any | {whole}
             MatMul(begin, recurrent) -> MatMul(flag, recurrent) => ! {begins}
             # Before tract loads it; there the rows have to be those of the batch.
             [options for:tract] => {layer} | {whole}
             batch = Gather(shape, zero) -> batch = Shape(lens) => any | {whole}
             Expand(nought, states) -> Identity(three_rows)
             => Shape Gather Concat Expand Transpose Shape Slice Concat Expand RNN Squeeze Transpose | {whole}
             [options for:tract] batch = Gather(shape, zero) -> batch = Shape(lens) => ! {begins}"),
    );
    rows.extend(changed(
        &base(&[RNN, "y = Identity(h4)"]),
        &format!(
            "# Only the last output, and single ones.
             [sizes ? 5 3] => Transpose Shape Slice Concat Expand RNN Squeeze | {whole}"
        ),
    ));
    rows.extend(changed(
        &base(&[RNN, "y = Add(h1, h4)"]),
        &format!("[sizes ? 5 3] => Transpose Shape Slice Concat Expand RNN Squeeze Gather Gather Add | {whole}"),
    ));
    rows.extend(changed(
        &base(&[RNN, "u1 = Unsqueeze(h1, one)\nu2 = Unsqueeze(h2, one)\nu3 = Unsqueeze(h3, one)\ny = Concat<axis=1>(u3, u1, u2, x)"]),
        &format!("[sizes ? 5 3]
             => Transpose Shape Slice Concat Expand RNN Squeeze Gather Unsqueeze Slice Transpose Concat | {whole}"),
    ));
    check("unrolled", &rows);
}

#[test]
fn unrolled_in_part() {
    let rows = changed(
        &base(&[RNN, STACK]).set("sizes ? 5 3"),
        "# A step with other weights, another function or another state ends a layer.
             MatMul(h1, recurrent) -> MatMul(h1, recurrent2); (h3, recurrent) -> (h3, recurrent2)
             => ! only 2 steps follow each other, too few for a layer: the cell at step 2 has other weights
             h2 = Tanh(a2) -> h2 = Sigmoid(a2); (h3, recurrent) -> (h3, recurrent2)
             => ! only 2 steps follow each other, too few for a layer: the cell at step 2 is of another kind
             MatMul(h1, recurrent) -> MatMul(begin, recurrent); (h3, recurrent) -> (begin, recurrent)
             => ! only 2 steps follow each other, too few for a layer: no cell with the same weights takes h1 as its state
             MatMul(h3, recurrent) -> MatMul(h3, recurrent2)
             => any | RNN, forward, of 4 steps; the cell at step 4 has other weights
             MatMul(h3, recurrent) -> MatMul(h2, recurrent) => any | RNN, forward, of 4 steps
             # Something else reads a product of a state.
             [outputs y z] y = Concat -> z = Exp(s2); y = Concat
             => ! other nodes read what its step computes, so that MatMul#18 has to stay
             # No state at all.
             h4 = Tanh(a4) -> h4 = Tanh(i4); h3 = Tanh(a3) -> h3 = Tanh(i3); h2 = Tanh(a2) -> h2 = Tanh(i2)
             h1 = Tanh(a1) -> h1 = Tanh(i1); h0 = Tanh(a0) -> h0 = Tanh(i0) => !
             # Weights that a caller may set.
             [replaceable w2d] => ! are multiplied
             # A cell that reads its own output.
             (x1, w2d -> (n0, w2d; (x2, w2d -> (n1, w2d; (x3, w2d -> (n2, w2d; (x4, w2d -> (n3, w2d
             h0 = Tanh(a0) -> h0 = Tanh(a0); n0 = MatMul(h0, w2d)
             h1 = Tanh(a1) -> h1 = Tanh(a1); n1 = MatMul(h1, w2d)
             h2 = Tanh(a2) -> h2 = Tanh(a2); n2 = MatMul(h2, w2d)
             h3 = Tanh(a3) -> h3 = Tanh(a3); n3 = MatMul(h3, w2d) => ! a cell that reads its own output",
    );
    check("unrolled", &rows);
}
