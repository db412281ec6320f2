//! Nodes of recurrent layers, with what ONNX Runtime's kernels accept and refuse.

mod given;

use given::Given;
use recurrent_layers::Attribute::{self, Float, Floats, Integer, String, Strings};
use recurrent_layers::{Activation, Cell, Layout, Mask, Recurrent};

fn texts(names: &[&str]) -> Attribute<'static> {
    let names: Vec<Vec<u8>> = names.iter().map(|it| it.as_bytes().to_vec()).collect();
    Strings(names.leak())
}

fn read(
    operator: &str,
    attributes: &[(&'static str, Attribute<'static>)],
) -> Result<Recurrent, std::string::String> {
    let given = Given(attributes.iter().copied().collect());
    Recurrent::of(operator, &given).map_err(|error| error.to_string())
}

/// The activations of all directions.
fn activations(
    operator: &str,
    attributes: &[(&'static str, Attribute<'static>)],
) -> Vec<Activation> {
    let directions = read(operator, attributes).unwrap().layer.directions;
    directions
        .into_iter()
        .flat_map(|it| it.activations)
        .collect()
}

const BOTH: (&str, Attribute<'static>) = ("direction", String(b"bidirectional"));

#[test]
fn a_node_without_attributes_is_onnx_s_default() {
    for (operator, cell) in [
        (
            "LSTM",
            Cell::Lstm {
                couples_input_and_forget: false,
            },
        ),
        (
            "GRU",
            Cell::Gru {
                resets_after_product: false,
            },
        ),
        ("RNN", Cell::Rnn),
    ] {
        let read = read(operator, &[]).unwrap();
        assert_eq!(
            read.layer,
            recurrent_layers::Layer::new(cell, 0, 0, &[false])
        );
        assert_eq!(
            (read.layout, read.mask, read.name()),
            (Layout::TimeFirst, None, operator)
        );
    }
}

#[test]
fn attributes_are_what_they_say() {
    let lstm = read(
        "DynamicQuantizeLSTM",
        &[
            BOTH,
            ("hidden_size", Integer(7)),
            ("input_forget", Integer(2)),
            ("clip", Float(0.5)),
            ("layout", Integer(1)),
        ],
    );
    let lstm = lstm.unwrap();
    let couples_input_and_forget = true;
    assert_eq!(
        lstm.layer.cell,
        Cell::Lstm {
            couples_input_and_forget
        }
    );
    assert_eq!(
        (lstm.layer.units, lstm.layer.clip, lstm.layout),
        (7, Some(0.5), Layout::BatchFirst)
    );
    let are_backward = lstm.layer.directions.iter().map(|it| it.is_backward);
    assert_eq!(are_backward.collect::<Vec<_>>(), [false, true]);
    assert!(lstm.layer.quantizes && lstm.name() == "DynamicQuantizeLSTM");

    let attributes = [
        ("direction", String(b"reverse")),
        ("linear_before_reset", Integer(1)),
        ("repeats", Integer(1)),
    ];
    let gru = read("MaskedGRU", &attributes).unwrap();
    let resets_after_product = true;
    assert_eq!(
        gru.layer.cell,
        Cell::Gru {
            resets_after_product
        }
    );
    assert!(gru.layer.directions.len() == 1 && gru.layer.directions[0].is_backward);
    assert_eq!(
        gru.mask,
        Some(Mask {
            blends: false,
            repeats: true
        })
    );
    assert_eq!(gru.name(), "GRU");
}

#[test]
fn constants_of_activations_are_taken_in_order() {
    let attributes = [
        (
            "activations",
            texts(&["HardSigmoid", "softsign", "SCALEDTANH"]),
        ),
        ("activation_alpha", Floats(&[0.25, 1.5, 9.0])),
        ("activation_beta", Floats(&[0.4])),
    ];
    let expected = [
        Activation::HardSigmoid {
            alpha: 0.25,
            beta: 0.4,
        },
        Activation::Softsign,
        Activation::ScaledTanh {
            alpha: 1.5,
            beta: 0.0,
        },
    ];
    assert_eq!(activations("LSTM", &attributes), expected);
}

/// Those of ONNX Runtime's kernels, also where ONNX's operators have others.
#[test]
fn constants_that_are_not_there_have_defaults() {
    for (name, expected) in [
        (
            "Affine",
            Activation::Affine {
                alpha: 0.0,
                beta: 0.0,
            },
        ),
        ("Elu", Activation::Elu { alpha: 1.0 }),
        (
            "HardSigmoid",
            Activation::HardSigmoid {
                alpha: 0.2,
                beta: 0.5,
            },
        ),
        ("LeakyRelu", Activation::LeakyRelu { alpha: 0.01 }),
        (
            "ScaledTanh",
            Activation::ScaledTanh {
                alpha: 0.0,
                beta: 0.0,
            },
        ),
        (
            "ThresholdedRelu",
            Activation::ThresholdedRelu { alpha: 0.0 },
        ),
    ] {
        assert_eq!(
            activations("RNN", &[("activations", texts(&[name]))]),
            [expected]
        );
    }
}

#[test]
fn an_rnn_takes_the_activations_of_two_directions() {
    let (relu, tanh) = (Activation::Relu, Activation::Tanh);
    let two = ("activations", texts(&["Relu", "Tanh"]));
    assert_eq!(activations("RNN", &[two]), [relu]);
    assert_eq!(activations("RNN", &[two, BOTH]), [relu, tanh]);
    // It does not look at the one that it leaves out.
    assert_eq!(
        activations("RNN", &[("activations", texts(&["Tanh", "Cosine"]))]),
        [tanh]
    );
}

#[test]
fn no_names_are_the_default_activations_but_for_an_rnn() {
    let none = [("activations", texts(&[]))];
    for operator in ["LSTM", "GRU", "DynamicQuantizeLSTM"] {
        assert_eq!(activations(operator, &none), activations(operator, &[]));
    }
    assert_eq!(
        read("RNN", &none).unwrap_err(),
        "it has 0 activations, expected 1"
    );
}

#[test]
fn a_clip_that_bounds_nothing_is_none_for_an_rnn() {
    for clip in [-1.0, f32::NAN] {
        assert_eq!(
            read("RNN", &[("clip", Float(clip))]).unwrap().layer.clip,
            None
        );
    }
    assert_eq!(
        read("RNN", &[("clip", Float(0.0))]).unwrap().layer.clip,
        Some(0.0)
    );
}

#[test]
fn what_no_layer_has_is_refused_with_the_right_values() {
    const NAMES: &str = "Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, \
                         Softsign, Tanh or ThresholdedRelu";
    let names = |names| ("activations", texts(names));
    for (operator, attributes, expected) in [
        (
            "LSTM",
            vec![("clip", Float(0.0))],
            "its clip is 0, expected more than 0",
        ),
        (
            "GRU",
            vec![("clip", Float(-0.5))],
            "its clip is -0.5, expected more than 0",
        ),
        (
            "LSTM",
            vec![("clip", Float(f32::NAN))],
            "its clip is NaN, expected more than 0",
        ),
        (
            "GRU",
            vec![("clip", Integer(1))],
            "its clip is an integer, expected a float",
        ),
        (
            "RNN",
            vec![("direction", String(b"FORWARD"))],
            "its direction is \"FORWARD\", expected forward, reverse or bidirectional",
        ),
        (
            "RNN",
            vec![("direction", Attribute::Other)],
            "its direction is of another type, expected a string",
        ),
        (
            "LSTM",
            vec![("layout", Integer(2))],
            "its layout is 2, expected 0 or 1",
        ),
        (
            "LSTM",
            vec![("hidden_size", Integer(0))],
            "its hidden_size is 0, expected 1 at least",
        ),
        (
            "RNN",
            vec![("hidden_size", Integer(-3))],
            "its hidden_size is -3, expected 1 at least",
        ),
        (
            "RNN",
            vec![names(&["Tanh"; 3])],
            "it has 3 activations, expected 1",
        ),
        (
            "RNN",
            vec![names(&["Tanh"]), BOTH],
            "it has 1 activations, expected 2",
        ),
        (
            "GRU",
            vec![names(&["Sigmoid"; 3])],
            "it has 3 activations, expected 2",
        ),
        (
            "LSTM",
            vec![names(&["Sigmoid"; 3]), BOTH],
            "it has 3 activations, expected 6",
        ),
        (
            "GRU",
            vec![names(&["Sigmoid", "Cosine"])],
            &format!("its activation is \"Cosine\", expected {NAMES}"),
        ),
        (
            "GRU",
            vec![("activations", String(b"Tanh"))],
            "its activations is a string, expected a list of strings",
        ),
    ] {
        assert_eq!(read(operator, &attributes).unwrap_err(), expected);
    }
}

#[test]
fn operators_are_known_by_their_domains() {
    for (domain, operator, is_known) in [
        ("", "LSTM", true),
        ("ai.onnx", "GRU", true),
        ("com.microsoft", "DynamicQuantizeLSTM", true),
        ("revseq", "MaskedRNN", true),
        ("revseq", "MaskedCNN", false),
        ("", "MaskedRNN", false),
        ("com.microsoft", "LSTM", false),
    ] {
        assert_eq!(
            Recurrent::is_known(domain, operator),
            is_known,
            "{domain} {operator}"
        );
    }
}
