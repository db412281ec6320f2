//! Recurrent layers in a step.

use recurrent_steps::Steps;

use crate::common::{Values, close, floats, read, run, scan};

/// An RNN in a step, of one unit and one feature.
fn rnn(attributes: &str) -> Result<Steps, String> {
    let nodes = format!(
        "w:f32[1,1,1] = 0.5
         r:f32[1,1,1] = -2.0
         _, next = RNN<{attributes}>(x, w, r, _, _, h)"
    );
    read(&scan(&nodes), &Values)
}

#[test]
fn a_layer_in_a_step_has_its_activations() {
    for (attributes, function) in [
        ("", f32::tanh as fn(f32) -> f32),
        // As ONNX Runtime writes it; the second is that of another direction.
        ("activations=[Tanh,Tanh]", f32::tanh),
        ("activations=[Relu,Tanh]", |x| x.max(0.0)),
        ("activations=[LeakyRelu];activation_alpha=[0.25]", |x| {
            if x < 0.0 { 0.25 * x } else { x }
        }),
        // No bound, as in ONNX Runtime.
        ("clip=-1.0", f32::tanh),
    ] {
        let xs = [1.0, -1.5, 4.0];
        let given = [
            ("h0", floats(&[1, 1, 1], &[0.5])),
            ("xs", floats(&[3, 1, 1, 1], &xs)),
        ];
        let (memory, _) = run(&rnn(attributes).unwrap(), &given, [1]).unwrap();
        let expected = xs.iter().fold(0.5, |h, x| function(0.5 * x - 2.0 * h));
        close(&memory[0], &[expected], "the state");
    }
}

#[test]
fn a_wrong_attribute_of_a_layer_in_a_step_is_an_error() {
    for (attribute, expected) in [
        (
            "direction=sideways",
            "is wrong: its direction is \"sideways\", expected forward, reverse or bidirectional",
        ),
        ("layout=2", "is wrong: its layout is 2, expected 0 or 1"),
        ("layout=1", "has the layout of batches first"),
        (
            "hidden_size=0",
            "is wrong: its hidden_size is 0, expected 1 at least",
        ),
        (
            "activations=[Tanh,Tanh,Tanh]",
            "is wrong: it has 3 activations, expected 1",
        ),
        (
            "clip=1",
            "is wrong: its clip is an integer, expected a float",
        ),
        ("clip=0.5", "couples its gates or has a clip"),
        ("direction=bidirectional", "has two directions"),
    ] {
        let error = rnn(attribute).unwrap_err();
        assert_eq!(error, format!("its RNN node {expected}"));
    }
    let given = [
        ("h0", floats(&[1, 1, 1], &[0.5])),
        ("xs", floats(&[3, 1, 1, 1], &[0.0; 3])),
    ];
    let error = run(&rnn("hidden_size=3").unwrap(), &given, [1]).unwrap_err();
    let expected = "node \"RNN\": weights of [1, 1, 1] and [1, 1, 1], with a hidden_size of 3";
    assert_eq!(error.to_string(), expected);
}
