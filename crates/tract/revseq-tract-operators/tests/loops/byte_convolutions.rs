//! ConvInteger and QLinearConv, against convolutions of floats, which hold their sums exactly.

use tract_onnx::tract_hir::internal::*;

use super::build::{Graph, bytes, graph, run};

fn declared(name: &str, of: &Tensor, letter: char) -> String {
    let is_signed = of.datum_type() == i8::datum_type();
    let datum_type = if is_signed { "i8" } else { "u8" };
    // Sizes of the batch and the image may be any.
    let sizes = of
        .shape()
        .iter()
        .enumerate()
        .map(|(axis, size)| match axis {
            1 => size.to_string(),
            _ if letter == 'W' => size.to_string(),
            _ => format!("{letter}{axis}"),
        });
    let sizes: Vec<String> = sizes.collect();
    format!("{name}:{datum_type}[{}]", sizes.join(","))
}

/// Images, weights and attributes.
const CASES: [(&[usize], &[usize], &str); 9] = [
    (&[1, 3, 5, 7], &[4, 3, 3, 3], ""),
    (
        &[2, 3, 9, 11],
        &[5, 3, 3, 2],
        "pads=[1,0,2,1];strides=[2,3]",
    ),
    (&[1, 4, 8, 8], &[6, 2, 3, 3], "group=2;pads=[1,1,1,1]"),
    (&[2, 5, 6, 40], &[5, 1, 3, 3], "group=5;pads=[1,1,1,1]"),
    (&[1, 2, 150], &[9, 2, 5], "dilations=[3];pads=[2,4]"),
    (&[3, 8, 4, 4], &[7, 8, 1, 1], ""),
    (
        &[1, 2, 4, 5, 6],
        &[3, 2, 2, 3, 2],
        "auto_pad=\"SAME_UPPER\"",
    ),
    (&[1, 70, 9, 9], &[13, 70, 1, 3], "auto_pad=\"VALID\""),
    (&[0, 3, 5, 7], &[4, 3, 3, 3], ""),
];

/// The sums, of integers less their zero points. Those of weights may be one of each channel.
fn sums(x: &Tensor, w: &Tensor, [zero_x, zero_w]: [&Tensor; 2], attributes: &str) -> Tensor {
    let floats = |it: &Tensor| it.cast_to::<f32>().unwrap().into_owned();
    let mut less = floats(w);
    let zeros = floats(zero_w);
    let mut plain = less.try_as_plain_ram_mut().unwrap();
    let of_channel = w.len() / w.shape()[0];
    let zeros = zeros.try_as_plain_ram().unwrap();
    let zeros = zeros.as_slice::<f32>().unwrap();
    let weights = plain.as_slice_mut::<f32>().unwrap();
    for (channel, weights) in weights.chunks_mut(of_channel).enumerate() {
        weights
            .iter_mut()
            .for_each(|it| *it -= zeros[channel % zeros.len()]);
    }
    let sizes: Vec<String> = x.shape().iter().map(usize::to_string).collect();
    let nodes = format!("d = Sub(x, z)\ny = Conv<{attributes}>(d, w)").replace("<>", "");
    let model = graph(&format!("x:f32[{}]", sizes.join(",")), "y", &nodes)
        .constant("z", floats(zero_x))
        .constant("w", less);
    run(model, &[floats(x)]).unwrap().remove(0)
}

#[track_caller]
fn check(model: Graph, inputs: &[Tensor], expected: &Tensor) {
    assert_eq!(run(model, inputs).unwrap(), std::slice::from_ref(expected));
}

#[test]
fn sums_are_those_of_all_types_and_zero_points() {
    for (image, weights, attributes) in CASES {
        for (signed_x, signed_w) in [(false, true), (false, false), (true, true), (true, false)] {
            for are_many in [false, true] {
                let (x, w) = (bytes(image, signed_x, 1), bytes(weights, signed_w, 2));
                let channels: &[usize] = if are_many { &weights[..1] } else { &[] };
                let zeros = [bytes(&[], signed_x, 3), bytes(channels, signed_w, 4)];
                let expected = sums(&x, &w, zeros.each_ref(), attributes);
                let expected = expected.cast_to::<i32>().unwrap().into_owned();
                let nodes =
                    format!("y = ConvInteger<{attributes}>(x, w, zx, zw)").replace("<>", "");
                let with_zeros = |model: Graph| {
                    let [zx, zw] = zeros.clone();
                    model.constant("zx", zx).constant("zw", zw)
                };
                let of_x = declared("x", &x, 'X');
                let known = graph(&of_x, "y", &nodes).constant("w", w.clone());
                check(with_zeros(known), std::slice::from_ref(&x), &expected);
                let both = format!("{of_x} {}", declared("w", &w, 'W'));
                check(with_zeros(graph(&both, "y", &nodes)), &[x, w], &expected);
            }
        }
    }
}

#[test]
fn sums_become_bytes_by_scales() {
    for (image, weights, attributes) in CASES {
        for (is_signed, zero_y) in [(false, tensor0(7_u8)), (true, tensor0(-5_i8))] {
            let (x, w) = (bytes(image, is_signed, 1), bytes(weights, true, 2));
            let channels = weights[0];
            let zeros = [bytes(&[], is_signed, 3), tensor0(0_i8)];
            let scales: Vec<f32> = (0..channels).map(|it| 0.001 * (1 + it) as f32).collect();
            let bias: Vec<i32> = (0..channels).map(|it| 1000 * it as i32 - 700).collect();
            let found = sums(&x, &w, zeros.each_ref(), attributes);
            let of_channel: usize = found.shape()[2..].iter().product();
            let plain = found.try_as_plain_ram().unwrap();
            let expected = plain
                .as_slice::<f32>()
                .unwrap()
                .iter()
                .enumerate()
                .map(|(at, sum)| {
                    let channel = at / of_channel % channels;
                    let factor = 0.5 * scales[channel] / 0.25;
                    let value = (*sum as i32 + bias[channel]) as f32 * factor;
                    match is_signed {
                        true => (value.round_ties_even() - 5.0).clamp(-128.0, 127.0),
                        false => (value.round_ties_even() + 7.0).clamp(0.0, 255.0),
                    }
                });
            let expected: Vec<f32> = expected.collect();
            let expected = Tensor::from_shape(found.shape(), &expected).unwrap();
            let expected = expected
                .cast_to_dt(zero_y.datum_type())
                .unwrap()
                .into_owned();
            let inputs = "x, sx, zx, w, sw, zw, sy, zy, b";
            let nodes = format!("y = QLinearConv<{attributes}>({inputs})").replace("<>", "");
            let [zx, zw] = zeros;
            let model = graph(&declared("x", &x, 'X'), "y", &nodes)
                .constant("sx", tensor0(0.5_f32))
                .constant("zx", zx)
                .constant("w", w)
                .constant("sw", tensor1(&scales))
                .constant("zw", zw)
                .constant("sy", tensor0(0.25_f32))
                .constant("zy", zero_y)
                .constant("b", tensor1(&bias));
            check(model, &[x], &expected);
        }
    }
}
