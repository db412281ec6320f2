//! Forms that tract reads which depend on types, sizes and versions.

use super::left;
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
    let no_words = "operators has no QuantizeLinear of 16 bits";
    let no_axis = "operators has no QuantizeLinear along an axis";
    let unknown = "the type of its integers is not one of DequantizeLinear's";
    let rows: &[(i64, &str, &str)] = &[
        (10, "y = microsoft.QuantizeLinear(x, half, byte)", ""),
        (17, "y = microsoft.QuantizeLinear(x, half, signed byte)", ""),
        (17, "y = microsoft.QuantizeLinear(x, half)", ""),
        (
            9,
            "y = microsoft.QuantizeLinear(x, half, byte)",
            "version 9",
        ),
        (17, "y = microsoft.QuantizeLinear(x, half, word)", no_words),
        (21, "y = microsoft.QuantizeLinear(x, half, word)", ""),
        (
            17,
            "q = microsoft.QuantizeLinear(x, half, word)\ny = microsoft.DequantizeLinear(q, half)",
            "operators has no DequantizeLinear of 16 bits",
        ),
        (
            17,
            "q = microsoft.QuantizeLinear(x, half)\ny = microsoft.DequantizeLinear(q, half)",
            "",
        ),
        (17, "y = microsoft.DequantizeLinear(bytes, half)", ""),
        (17, "y = microsoft.DequantizeLinear(x, half)", unknown),
        (
            12,
            "y = microsoft.QuantizeLinear<axis=1>(x, scales, bytes)",
            no_axis,
        ),
        (
            13,
            "y = microsoft.QuantizeLinear<axis=1>(x, scales, bytes)",
            "",
        ),
        (
            12,
            "y = microsoft.QuantizeLinear<axis=1>(x, scale, byte)",
            "",
        ),
        (
            12,
            "y = microsoft.QuantizeLinear<axis=1>(x, half, byte)",
            "",
        ),
        (
            17,
            "y = microsoft.QLinearSigmoid(word, half, word, half, word)",
            "operators has no DequantizeLinear of 16 bits",
        ),
        (
            17,
            "y = microsoft.QLinearSigmoid(byte, half, byte, half)",
            "",
        ),
        (
            17,
            "y = microsoft.QLinearSigmoid(signed byte, half, signed byte, half)",
            "its output has no zero point and is not provably uint8",
        ),
    ];
    for &(opset, text, why) in rows {
        let (after, report) = brought(&model(text, opset));
        let nodes = &graph(&after).node;
        let count = nodes.iter().filter(|it| !it.domain().is_empty()).count();
        let reasons = left(&report, nodes.last().expect("a node").op());
        if why.is_empty() {
            assert_eq!(count, 0, "{opset} {text}: {report:?}");
        } else {
            assert!(count > 0, "{opset} {text}: {report:?}");
            assert!(
                reasons.iter().any(|reason| reason.contains(why)),
                "{opset} {text}: {reasons:?}"
            );
        }
        let axes = nodes.iter().filter(|it| it.attribute("axis").is_some());
        assert!(opset >= 13 || count > 0 || axes.count() == 0, "{text}");
    }
}
