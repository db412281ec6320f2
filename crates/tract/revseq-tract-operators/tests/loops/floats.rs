//! Operators of half floats, floats and doubles.

use tract_onnx::prelude::*;

use crate::build::{Graph, Optimize, fails, graph, onnx, ops, parse, run};

const TYPES: [DatumType; 3] = [DatumType::F16, DatumType::F32, DatumType::F64];

fn element(datum_type: DatumType) -> String {
    format!("{datum_type:?}").to_lowercase()
}

fn tensor(datum_type: DatumType, sizes: &[usize], elements: &[f64]) -> Tensor {
    let tensor = Tensor::from_shape(sizes, elements).unwrap();
    tensor.cast_to_dt(datum_type).unwrap().into_owned()
}

fn elements(tensor: &Tensor) -> Vec<f64> {
    let doubles = tensor.cast_to::<f64>().unwrap();
    let view = doubles.to_plain_array_view::<f64>().unwrap();
    view.iter().copied().collect()
}

/// Runs a model; its only output has the type `of`.
#[track_caller]
fn result(datum_type: DatumType, model: Graph, inputs: &[Tensor]) -> Vec<f64> {
    let outputs = run(model, inputs).unwrap_or_else(|error| panic!("{datum_type:?}: {error:#}"));
    assert_eq!(outputs[0].datum_type(), datum_type);
    elements(&outputs[0])
}

#[track_caller]
fn assert_near(datum_type: DatumType, found: &[f64], expected: &[f64], what: &str) {
    let (relative, least) = match datum_type {
        DatumType::F16 => (2e-3, 1e-6),
        DatumType::F32 => (2e-6, 1e-6),
        _ => (1e-12, 1e-300),
    };
    assert_eq!(found.len(), expected.len());
    for (found, expected) in std::iter::zip(found, expected) {
        let is_near = (found - expected).abs() <= relative * expected.abs() + least;
        assert!(
            is_near,
            "{what} of {datum_type:?}: {found}, expected {expected}"
        );
    }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn logistic(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

type Function = fn(f64) -> f64;

/// Functions, as nodes on `x`.
const FUNCTIONS: [(&str, Function); 13] = [
    ("Celu<alpha=2.0>", |x| {
        if x < 0.0 { 2.0 * (x / 2.0).exp_m1() } else { x }
    }),
    (
        "Elu<alpha=0.5>",
        |x| {
            if x < 0.0 { 0.5 * x.exp_m1() } else { x }
        },
    ),
    ("Exp", f64::exp),
    ("HardSigmoid<alpha=0.25;beta=0.375>", |x| {
        (0.25 * x + 0.375).clamp(0.0, 1.0)
    }),
    ("HardSwish", |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
    ("LeakyRelu<alpha=0.125>", |x| {
        x * if x < 0.0 { 0.125 } else { 1.0 }
    }),
    ("Mish", |x| x * softplus(x).tanh()),
    ("Round", f64::round_ties_even),
    ("Selu", |x| {
        f64::from(1.050_701_f32)
            * if x > 0.0 {
                x
            } else {
                f64::from(1.673_263_2_f32) * x.exp_m1()
            }
    }),
    ("Sigmoid", logistic),
    ("Softplus", softplus),
    ("Swish<alpha=1.25>", |x| x * logistic(1.25 * x)),
    ("Tanh", f64::tanh),
];

/// Numbers of which no result overflows but by an intermediate one: of 12, a half float of
/// `exp` is infinite.
const NUMBERS: [f64; 14] = [
    -100.0, -16.0, -3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.5, 2.5, 3.0, 8.0, 10.5, 11.0,
];

#[test]
fn functions_are_those_of_onnx_for_all_types() {
    for datum_type in TYPES {
        let mut numbers = NUMBERS.to_vec();
        numbers.extend([12.0, 100.0]);
        for (node, function) in FUNCTIONS {
            let numbers = if node == "Exp" {
                &NUMBERS[..]
            } else {
                &numbers
            };
            let inputs = format!("x:{}[N]", element(datum_type));
            let model = graph(&inputs, "y", &format!("y = {node}(x)"));
            let found = result(
                datum_type,
                model,
                &[tensor(datum_type, &[numbers.len()], numbers)],
            );
            let expected: Vec<f64> = numbers.iter().copied().map(function).collect();
            assert_near(datum_type, &found, &expected, node);
        }
    }
}

/// Values of the error function, and of the Gelu by it and by the hyperbolic tangent.
#[test]
fn doubles_have_all_digits_of_erf_and_gelu() {
    let datum_type = DatumType::F64;
    for (node, expected) in [
        ("Erf", [-0.842_700_792_949_714_9, 0.520_499_877_813_046_5]),
        (
            "Gelu",
            [-0.158_655_253_931_457_05, 0.345_731_230_637_006_56],
        ),
        (
            "Gelu<approximate=\"tanh\">",
            [-0.158_808_009_391_723_24, 0.345_714_009_825_143_94],
        ),
    ] {
        let model = graph("x:f64[2]", "y", &format!("y = {node}(x)"));
        let found = result(datum_type, model, &[tensor(datum_type, &[2], &[-1.0, 0.5])]);
        assert_near(datum_type, &found, &expected, node);
    }
}

#[test]
fn doubles_are_infinite_or_no_numbers() {
    let x = tensor1(&[1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0]);
    for (node, expected) in [
        ("IsNaN", [false, false, false, true, false]),
        ("IsInf", [false, true, true, false, false]),
        (
            "IsInf<detect_negative=0>",
            [false, true, false, false, false],
        ),
        (
            "IsInf<detect_positive=0>",
            [false, false, true, false, false],
        ),
        ("IsInf<detect_positive=0;detect_negative=0>", [false; 5]),
    ] {
        let model = graph("x:f64[N]", "y", &format!("y = {node}(x)"));
        let found = run(model, std::slice::from_ref(&x)).unwrap();
        assert_eq!(found, [tensor1(&expected)], "{node}");
    }
}

#[test]
fn gemm_has_factors_and_addends_of_all_types() {
    let (a, b) = (
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [1.0, -1.0, 2.0, 0.5, 0.0, 3.0],
    );
    // [2, 3] times [3, 2].
    let product = [5.0, 9.0, 14.0, 16.5];
    for datum_type in TYPES {
        let element = element(datum_type);
        for (attributes, sizes_a, a) in [
            ("", "2,3", a),
            ("transA=1;", "3,2", [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
        ] {
            for (alpha, beta) in [(1.0, 1.0), (0.5, -2.0), (2.0, 0.0)] {
                for (sizes_c, c) in [
                    (&[2][..], vec![1.0, 2.0]),
                    (&[2, 1], vec![1.0, 2.0]),
                    (&[], vec![3.0]),
                    (&[2, 2], vec![1.0, 2.0, 3.0, 4.0]),
                ] {
                    let node =
                        format!("y = Gemm<{attributes}alpha={alpha:?};beta={beta:?}>(a, b, c)");
                    let inputs = format!("a:{element}[{sizes_a}] b:{element}[3,2]");
                    let model =
                        graph(&inputs, "y", &node).constant("c", tensor(datum_type, sizes_c, &c));
                    let sizes: Vec<usize> =
                        sizes_a.split(',').map(|it| it.parse().unwrap()).collect();
                    let inputs = [
                        tensor(datum_type, &sizes, &a),
                        tensor(datum_type, &[3, 2], &b),
                    ];
                    let found = result(datum_type, model, &inputs);
                    let addend = |row: usize, column: usize| match sizes_c {
                        [2] => c[column],
                        [2, 1] => c[row],
                        [] => c[0],
                        _ => c[2 * row + column],
                    };
                    let expected = product.iter().enumerate();
                    let expected =
                        expected.map(|(at, it)| alpha * it + beta * addend(at / 2, at % 2));
                    let expected: Vec<f64> = expected.collect();
                    assert_near(datum_type, &found, &expected, &node);
                }
            }
        }
        let inputs = format!("a:{element}[1,2] b:{element}[2,1]");
        let model = graph(&inputs, "y", "y = Gemm<alpha=0.5>(a, b)");
        let inputs = [
            tensor(datum_type, &[1, 2], &[1.0, 2.0]),
            tensor(datum_type, &[2, 1], &[3.0, 4.0]),
        ];
        assert_near(
            datum_type,
            &result(datum_type, model, &inputs),
            &[5.5],
            "Gemm of two",
        );
    }
}

#[test]
fn gemm_of_constants_is_computed_in_their_type() {
    for datum_type in TYPES {
        let constant = |sizes: &[usize], elements: &[f64]| tensor(datum_type, sizes, elements);
        let inputs = format!("x:{}[1,2]", element(datum_type));
        let model = graph(&inputs, "y", "g = Gemm<alpha=0.5>(a, b, c)\ny = Add(g, x)")
            .constant("a", constant(&[1, 3], &[1.0, 2.0, 3.0]))
            .constant("b", constant(&[3, 2], &[1.0, -1.0, 2.0, 0.5, 0.0, 4.0]))
            .constant("c", constant(&[2], &[1.0, 2.0]));
        let found = result(datum_type, model, &[constant(&[1, 2], &[10.0, 20.0])]);
        assert_eq!(found, [13.5, 28.0]);
    }
}

/// The sum of so many ones stays at 2048 if each sum is a half float.
#[test]
fn half_floats_are_summed_in_floats() {
    const COUNT: usize = 4000;
    let datum_type = DatumType::F16;
    let ones = |sizes: &[usize]| tensor(datum_type, sizes, &vec![1.0; sizes.iter().product()]);
    for (node, sizes, weights) in [
        ("MatMul(x, w)", vec![1, COUNT], vec![COUNT, 1]),
        ("Gemm(x, w)", vec![1, COUNT], vec![COUNT, 1]),
        (
            "Einsum<equation=\"ab,bc->ac\">(x, w)",
            vec![1, COUNT],
            vec![COUNT, 1],
        ),
        ("Conv(x, w)", vec![1, COUNT, 1], vec![1, COUNT, 1]),
        ("ConvTranspose(x, w)", vec![1, COUNT, 1], vec![COUNT, 1, 1]),
    ] {
        let declared = |name: &str, sizes: &[usize]| {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            format!("{name}:f16[{}]", sizes.join(","))
        };
        let inputs = declared("x", &sizes);
        let known = graph(&inputs, "y", &format!("y = {node}")).constant("w", ones(&weights));
        let found = result(datum_type, known, &[ones(&sizes)]);
        assert_near(datum_type, &found, &[COUNT as f64], node);
        // Weights may be inputs.
        if node.starts_with("Conv") {
            continue;
        }
        let inputs = format!("{inputs} {}", declared("w", &weights));
        let given = graph(&inputs, "y", &format!("y = {node}"));
        let found = result(datum_type, given, &[ones(&sizes), ones(&weights)]);
        assert_near(datum_type, &found, &[COUNT as f64], node);
    }
    let model = graph("x:f16[4000]", "y", "y = CumSum(x, 0)");
    let found = result(datum_type, model, &[ones(&[COUNT])]);
    assert_eq!(found[COUNT - 1], COUNT as f64);
}

#[test]
fn what_is_slow_or_wrong_in_half_floats_is_computed_in_floats() {
    for (node, is_cast) in [
        ("Relu(x)", true),
        ("HardSwish(x)", true),
        ("HardSigmoid(x)", true),
        ("Sigmoid(x)", true),
        ("Tanh(x)", true),
        ("ReduceMean(x)", true),
        // Casts would take longer than the operator.
        ("Neg(x)", false),
    ] {
        for (datum_type, is_cast) in [("f16", is_cast), ("f32", false)] {
            for sizes in ["1,2,N", "1,2,3"] {
                let model = graph(
                    &format!("x:{datum_type}[{sizes}]"),
                    "y",
                    &format!("y = {node}"),
                );
                let typed = parse(model).unwrap().into_typed().unwrap();
                let ops = ops(&typed);
                let casts = ops.iter().filter(|it| *it == "Cast").count();
                assert_eq!(casts >= 2, is_cast, "{node} of {datum_type}: {ops:?}");
            }
        }
    }
}

#[test]
fn small_elements_of_a_log_softmax_are_finite() {
    for of in TYPES {
        let inputs = format!("x:{}[2,2]", element(of));
        let x = tensor(of, &[2, 2], &[0.0, -1000.0, 3.0, 3.0]);
        let two = 2_f64.ln();
        for (node, version, expected) in [
            ("LogSoftmax(x)", 13, [0.0, -1000.0, -two, -two]),
            (
                "LogSoftmax<axis=0>(x)",
                13,
                [
                    -3.048_587_351_573_742,
                    -1003.0,
                    -0.048_587_351_573_741_96,
                    0.0,
                ],
            ),
            // Before version 13, along all axes from one on.
            (
                "LogSoftmax<axis=0>(x)",
                11,
                [
                    -3.717_735_918_666_702_5,
                    -1_003.717_735_918_666_7,
                    -0.717_735_918_666_702_5,
                    -0.717_735_918_666_702_5,
                ],
            ),
        ] {
            let mut model = graph(&inputs, "y", &format!("y = {node}")).into_model();
            model.opset_import[0].version = version;
            let parsed = onnx().parse(&model, None).unwrap().model;
            let plan = parsed.optimized().unwrap().into_runnable().unwrap();
            let found = plan.run(tvec![x.clone().into_tvalue()]).unwrap();
            assert_near(of, &elements(&found[0]), &expected, node);
        }
    }
    let model = graph("x:f32[2,2]", "y", "y = LogSoftmax<axis=2>(x)");
    let error = format!(
        "{:#}",
        run(model, &[tensor(DatumType::F32, &[2, 2], &[0.0; 4])]).unwrap_err()
    );
    assert!(
        error.contains("its axis is 2, expected one from -2 to 1"),
        "{error}"
    );
}

#[test]
fn a_batch_is_not_normalised_by_its_own_statistics() {
    let text = "y = BatchNormalization<training_mode=1>(x, s, s, s, s)";
    let model = graph("x:f32[1,2] s:f32[2]", "y", text);
    fails(parse(model), "its training_mode is 1, expected 0");
}

/// A power has the type of its base.
#[test]
fn an_exponent_may_have_a_wider_type() {
    for (base, exponent, expected) in [
        (
            tensor1(&[f16::from_f32(2.0), f16::from_f32(3.0)]),
            tensor1(&[0.5_f32, 3.0]),
            tensor1(&[f16::from_f32(2_f32.sqrt()), f16::from_f32(27.0)]),
        ),
        (
            tensor1(&[4_f32, 9.0]),
            tensor1(&[0.5_f64, 0.5]),
            tensor1(&[2_f32, 3.0]),
        ),
        (
            tensor1(&[2_i32, -3]),
            tensor1(&[3_i64, 3]),
            tensor1(&[8_i32, -27]),
        ),
    ] {
        let declared = |name: &str, tensor: &Tensor| {
            format!(
                "{name}:{}[N]",
                format!("{:?}", tensor.datum_type()).to_lowercase()
            )
        };
        let inputs = format!("{} {}", declared("a", &base), declared("b", &exponent));
        let found = run(graph(&inputs, "y", "y = Pow(a, b)"), &[base, exponent]).unwrap();
        assert_eq!(found, [expected]);
    }
}

/// A reciprocal rounds once more: of 41 numbers below 200 a number divided by itself would not be 1.
#[test]
fn quotients_are_rounded_once() {
    let numbers: Vec<f64> = (1..200).map(f64::from).collect();
    for datum_type in TYPES {
        let of = element(datum_type);
        let sizes = [numbers.len()];
        let dividends = tensor(datum_type, &sizes, &numbers);
        let model = graph(&format!("a:{of}[N] b:{of}[N]"), "y", "y = Div(a, b)");
        let found = result(datum_type, model, &[dividends.clone(), dividends.clone()]);
        assert!(found.iter().all(|it| *it == 1.0), "{of}: {found:?}");
        for divisor in [41.0, -0.25] {
            let model = graph(&format!("a:{of}[N]"), "y", "y = Div(a, b)")
                .constant("b", tensor(datum_type, &[], &[divisor]));
            let found = result(datum_type, model, std::slice::from_ref(&dividends));
            let exact: Vec<f64> = numbers.iter().map(|it| it / divisor).collect();
            let expected = elements(&tensor(datum_type, &sizes, &exact));
            assert_eq!(found, expected, "{of} by {divisor}");
        }
    }
}

#[test]
fn the_maximum_of_infinity_is_infinity() {
    for datum_type in TYPES {
        let infinity = f64::INFINITY;
        let lowest = match datum_type {
            DatumType::F16 => f64::from(f16::MIN),
            DatumType::F32 => f32::MIN.into(),
            _ => f64::MIN,
        };
        let rows = [
            [-infinity, -infinity],
            [-infinity, lowest],
            [lowest, 3.0],
            [-infinity, 3.0],
        ];
        let expected = [-infinity, lowest, 3.0, 3.0];
        for (node, sign) in [("ReduceMax", 1.0), ("ReduceMin", -1.0)] {
            for sizes in ["4,2", "N,2", "N,M"] {
                let x = rows.as_flattened().iter().map(|it| sign * it);
                let x = tensor(datum_type, &[4, 2], &x.collect::<Vec<_>>());
                let inputs = format!("x:{}[{sizes}]", element(datum_type));
                let node = format!("y = {node}<axes=[1];keepdims=0>(x)");
                let found = result(datum_type, graph(&inputs, "y", &node), &[x]);
                assert_eq!(found, expected.map(|it| sign * it), "{node} of {inputs}");
            }
        }
    }
}

/// tract's own operator takes an axis that is not the last one element by element.
#[test]
fn a_softmax_is_along_any_axis() {
    let x = tensor(
        DatumType::F32,
        &[2, 3, 2],
        &[
            1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 0.0, -80.0, 0.0, 80.0, 0.0, 0.0,
        ],
    );
    let thirds = [1.0 / 3.0; 3];
    let rising = {
        let powers = [1.0, 2.0, 3.0].map(f64::exp);
        powers.map(|it| it / powers.iter().sum::<f64>())
    };
    for shape in ["2,3,2", "N,3,M"] {
        let model = graph(&format!("x:f32[{shape}]"), "y", "y = Softmax<axis=1>(x)");
        let found = result(DatumType::F32, model, std::slice::from_ref(&x));
        let column = |batch: usize, column: usize| {
            let places = (0..3).map(|row| found[batch * 6 + row * 2 + column]);
            places.collect::<Vec<_>>()
        };
        assert_near(DatumType::F32, &column(0, 0), &rising, shape);
        assert_near(DatumType::F32, &column(0, 1), &thirds, shape);
        assert_near(DatumType::F32, &column(1, 0), &thirds, shape);
        assert_near(DatumType::F32, &column(1, 1), &[0.0, 1.0, 0.0], shape);
    }
}
