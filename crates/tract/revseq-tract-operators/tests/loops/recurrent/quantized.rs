//! DynamicQuantizeLSTM, with the outputs of ONNX Runtime.

use tract_onnx::prelude::*;

use crate::build::{Graph, fails, graph, run};

/// The integers from -128 to 127 that the models are made of.
fn integers(count: usize, seed: usize) -> impl Iterator<Item = i16> {
    (0..count).map(move |it| ((it * 37 + seed) % 256) as i16 - 128)
}

fn floats(sizes: &[usize], seed: usize) -> Tensor {
    let numbers: Vec<f32> = integers(sizes.iter().product(), seed)
        .map(|it| f32::from(it) / 100.0)
        .collect();
    Tensor::from_shape(sizes, &numbers).unwrap()
}

fn cycle(sizes: &[usize], least: f32, period: usize) -> Tensor {
    let count = sizes.iter().product::<usize>();
    let numbers: Vec<f32> = (0..count)
        .map(|it| least + 0.001 * (it % period) as f32)
        .collect();
    Tensor::from_shape(sizes, &numbers).unwrap()
}

/// A layer of some directions and units, whose weights are known, or inputs.
#[derive(Clone, Copy)]
struct Layer {
    directions: usize,
    units: usize,
    features: usize,
    steps: usize,
    batch: usize,
    /// Whether weights are int8, quantised by direction; otherwise they are uint8, quantised by gate
    /// and unit.
    is_signed: bool,
    /// Whether it has a bias, lengths, initial states and peepholes.
    has_all: bool,
}

impl Layer {
    fn weights(self) -> [(&'static str, Tensor); 6] {
        let (directions, rows) = (self.directions, 4 * self.units);
        let bytes = |inputs: usize, seed: usize| {
            let sizes = [directions, inputs, rows];
            let numbers = integers(sizes.iter().product(), seed);
            if self.is_signed {
                let numbers: Vec<i8> = numbers.map(|it| it as i8).collect();
                Tensor::from_shape(&sizes, &numbers).unwrap()
            } else {
                let numbers: Vec<u8> = numbers.map(|it| (it + 128) as u8).collect();
                Tensor::from_shape(&sizes, &numbers).unwrap()
            }
        };
        let sizes = if self.is_signed {
            vec![directions]
        } else {
            vec![directions, rows]
        };
        let zeros = |zero: u8| {
            if self.is_signed {
                Tensor::zero::<i8>(&sizes).unwrap()
            } else {
                let zeros = vec![zero; sizes.iter().product()];
                Tensor::from_shape(&sizes, &zeros).unwrap()
            }
        };
        [
            ("w", bytes(self.features, 11)),
            ("r", bytes(self.units, 5)),
            ("ws", cycle(&sizes, 0.004, 5)),
            ("wz", zeros(120)),
            ("rs", cycle(&sizes, 0.003, 3)),
            ("rz", zeros(130)),
        ]
    }

    /// The model, and its input.
    fn model(self, sizes: &str, more_inputs: &str) -> (Graph, Tensor) {
        let Self {
            directions,
            units,
            steps,
            batch,
            ..
        } = self;
        let extra = match self.has_all {
            true => "b, lengths, h, c, p",
            false => "_, _, _, _, _",
        };
        let direction = ["forward", "bidirectional"][directions - 1];
        let node = format!(
            "y, yh, yc = microsoft.DynamicQuantizeLSTM<hidden_size={units};direction=\
             \"{direction}\">(x, w, r, {extra}, ws, wz, rs, rz)"
        );
        let inputs = format!("x:f32[{sizes},{}] {more_inputs}", self.features);
        let mut model = graph(&inputs, "y yh yc", &node);
        if self.has_all {
            let lengths: Vec<i32> = (0..batch as i32).map(|it| steps as i32 - it).collect();
            model = model
                .constant("b", floats(&[directions, 8 * units], 17))
                .constant("lengths", tensor1(&lengths))
                .constant("h", floats(&[directions, batch, units], 40))
                .constant("c", floats(&[directions, batch, units], 90))
                .constant("p", floats(&[directions, 3 * units], 60));
        }
        (model, floats(&[steps, batch, self.features], 3))
    }

    fn known(self, sizes: &str) -> (Graph, Tensor) {
        let (mut model, x) = self.model(sizes, "");
        for (name, weights) in self.weights() {
            model = model.constant(name, weights);
        }
        (model, x)
    }

    fn check(self, expected: &[&[f32]]) {
        for sizes in [
            format!("{},{}", self.steps, self.batch),
            format!("T,{}", self.batch),
        ] {
            let (model, x) = self.known(&sizes);
            let found = run(model, &[x]).unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in std::iter::zip(&found, expected) {
                assert_near(found, expected);
            }
        }
    }
}

#[track_caller]
pub(super) fn assert_near(found: &Tensor, expected: &[f32]) {
    let found = found.to_plain_array_view::<f32>().unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in std::iter::zip(&found, expected) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

const SMALL: Layer = Layer {
    directions: 1,
    units: 2,
    features: 2,
    steps: 3,
    batch: 1,
    is_signed: true,
    has_all: false,
};

#[test]
fn inputs_and_states_are_quantised_as_onnx_runtime_does() {
    SMALL.check(&[
        &[
            -0.051_933_02,
            0.193_407_5,
            -0.090_698_75,
            0.159_760_8,
            -0.098_097_49,
            0.033_613_72,
        ],
        &[-0.098_097_49, 0.033_613_72],
        &[-0.202_747_6, 0.064_330_22],
    ]);
}

#[test]
fn weights_may_be_unsigned_and_by_channel() {
    let layer = Layer {
        directions: 2,
        features: 3,
        steps: 2,
        batch: 2,
        is_signed: false,
        has_all: true,
        ..SMALL
    };
    layer.check(&[
        &[
            -0.081_221_41,
            0.010_519_09,
            0.128_687_3,
            0.323_968_9,
            0.222_445,
            -0.193_486_3,
            -0.166_363_3,
            0.078_715_83,
            0.022_639_23,
            -0.070_099_62,
            0.0,
            0.0,
            0.436_070_1,
            -0.329_039_9,
            0.0,
            0.0,
        ],
        &[
            0.022_639_23,
            -0.070_099_62,
            0.128_687_3,
            0.323_968_9,
            0.222_445,
            -0.193_486_3,
            -0.166_363_3,
            0.078_715_83,
        ],
        &[
            0.072_417_44,
            -0.189_260_2,
            0.278_189_3,
            0.470_947_2,
            0.384_663_2,
            -0.231_674_3,
            -0.245_999_5,
            0.114_483_6,
        ],
    ]);
}

/// Weights that are inputs are packed in each run, known ones once.
#[test]
fn weights_may_be_large_or_inputs() {
    for units in [2, 40] {
        let layer = Layer {
            units,
            steps: 4,
            batch: 2,
            has_all: true,
            ..SMALL
        };
        let (known, x) = layer.known("T,2");
        let expected = run(known, std::slice::from_ref(&x)).unwrap();
        let rows = 4 * units;
        let (model, _) = layer.model(
            "T,2",
            &format!(
                "w:i8[1,2,{rows}] r:i8[1,{units},{rows}] ws:f32[1] wz:i8[1] rs:f32[1] rz:i8[1]"
            ),
        );
        let mut inputs = vec![x];
        inputs.extend(layer.weights().map(|(_, weights)| weights));
        let found = run(model, &inputs).unwrap();
        for (found, expected) in std::iter::zip(&found, &expected) {
            let expected = expected.to_plain_array_view::<f32>().unwrap();
            assert_near(found, expected.as_slice().unwrap());
        }
    }
}

#[test]
fn errors_name_the_inputs() {
    let refused = |change: fn(&str, Tensor) -> Tensor| {
        let (mut model, x) = SMALL.model("3,1", "");
        for (name, weights) in SMALL.weights() {
            model = model.constant(name, change(name, weights));
        }
        format!("{:#}", run(model, &[x]).unwrap_err())
    };
    let error = refused(|name, it| match name {
        "ws" => tensor1(&[0.1_f32; 3]),
        _ => it,
    });
    assert!(
        error.contains("W_scale has shape [3], expected [1] or [1, 8]"),
        "{error}"
    );
    let error = refused(|name, it| match name {
        "w" => it.cast_to::<f32>().unwrap().into_owned(),
        _ => it,
    });
    assert!(error.contains("W is F32, expected I8 or U8"), "{error}");
    let text = "y = microsoft.DynamicQuantizeLSTM<hidden_size=2>(x, w, r)";
    let mut model = graph("x:f32[3,1,2]", "y", text);
    for (name, weights) in SMALL.weights() {
        model = model.constant(name, weights);
    }
    fails(run(model, &[]), "it lacks W_scale");
    let elsewhere = text.replace("microsoft", "com.example");
    let model = graph("x:f32[3,1,2] w:i8[1,2,8] r:i8[1,2,8]", "y", &elsewhere);
    let error = format!("{:#}", run(model, &[]).unwrap_err());
    let expected = "it is of domain \"com.example\", expected \"com.microsoft\"";
    assert!(error.contains(expected), "{error}");
}
