//! Forms that tract reads which depend on types, sizes and versions.

use super::tract::{brought, check, graph, model};

/// Conditions are computed with the sizes and types of the values in between.
#[test]
fn conditions_are_those_of_the_runtime() {
    check(
        "a = ReduceMin<axes=[0];keepdims=0>(table)
         b = ReduceMax<keepdims=0>(a)
         k = Cast<to=9>(b)
         y = If<then_branch=@then;else_branch=@else>(k) => Neg Abs
         18: a = ReduceMin<noop_with_empty_axes=1>(lengths)
         b = Equal(a, lengths)
         i = Cast<to=7>(b)
         r = ReduceMin<keepdims=0>(i)
         k = Cast<to=9>(r)
         y = If<then_branch=@then;else_branch=@else>(k) => Neg Abs
         g = Greater(column, lengths)
         i = Cast<to=7>(g)
         r = ReduceMax<keepdims=0>(i)
         k = Cast<to=9>(r)
         y = If<then_branch=@then;else_branch=@else>(k) => Neg Abs
         m = Max(0, 1, 2)
         k = Equal(m, 2)
         y = If<then_branch=@then;else_branch=@else>(k) => Neg Abs
         n = Cast<to=6>(huge)
         k = Cast<to=9>(n)
         y = If<then_branch=@then;else_branch=@else>(k) => Cast Cast If
         n = Cast<to=7>(huge)
         k = Cast<to=9>(n)
         y = If<then_branch=@then;else_branch=@else>(k) => Neg Abs",
    );
}

/// ONNX's QuantizeLinear and DequantizeLinear took less at first than those of `com.microsoft`.
#[test]
fn quantised_values_need_a_version_that_has_them() {
    check(
        "10: y = microsoft.QuantizeLinear(x, half, byte) => QuantizeLinear
         y = microsoft.QuantizeLinear(x, half, signed byte) => QuantizeLinear
         y = microsoft.QuantizeLinear(x, half) => QuantizeLinear
         9: y = microsoft.QuantizeLinear(x, half, byte) => ! version 9
         y = microsoft.QuantizeLinear(x, half, word) => ! operators has no QuantizeLinear of 16 bits
         21: y = microsoft.QuantizeLinear(x, half, word) => QuantizeLinear
         q = microsoft.QuantizeLinear(x, half, word)
         y = microsoft.DequantizeLinear(q, half) => ! operators has no DequantizeLinear of 16 bits
         q = microsoft.QuantizeLinear(x, half)
         y = microsoft.DequantizeLinear(q, half) => QuantizeLinear DequantizeLinear
         y = microsoft.DequantizeLinear(bytes, half) => DequantizeLinear
         y = microsoft.DequantizeLinear(x, half)
         => ! the type of its integers is not one of DequantizeLinear's
         12: y = microsoft.QuantizeLinear<axis=1>(x, scales, bytes)
         => ! operators has no QuantizeLinear along an axis
         13: y = microsoft.QuantizeLinear<axis=1>(x, scales, bytes) => QuantizeLinear
         12: y = microsoft.QuantizeLinear<axis=1>(x, scale, byte) => QuantizeLinear
         12: y = microsoft.QuantizeLinear<axis=1>(x, half, byte) => QuantizeLinear
         y = microsoft.QLinearSigmoid(word, half, word, half, word)
         => ! operators has no DequantizeLinear of 16 bits
         y = microsoft.QLinearSigmoid(byte, half, byte, half)
         => DequantizeLinear Sigmoid QuantizeLinear
         y = microsoft.QLinearSigmoid(signed byte, half, signed byte, half)
         => ! its output has no zero point and is not provably uint8",
    );
    for scale in ["scale", "half"] {
        let text = format!("y = microsoft.QuantizeLinear<axis=1>(x, {scale}, byte)");
        let (after, _) = brought(&model(&text, 12));
        assert!(graph(&after).node[0].attribute.is_empty(), "{scale}");
    }
}
