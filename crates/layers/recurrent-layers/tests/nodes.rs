//! Nodes of recurrent layers, with what ONNX Runtime's kernels accept and refuse.

mod given;

use given::Given;
use recurrent_layers::Attribute::{self, Float, Floats, Integer, String, Strings};
use recurrent_layers::{Activation, Attention, Cell, Layout, Mask, Recurrent};

/// An attribute's value: `2`, `0.5`, `word`, `[Relu Tanh]` or `[0.5 1.0]`; `?` is none of these types.
fn attribute(text: &'static str) -> Attribute<'static> {
    let list = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Some(list) = list {
        let words = || list.split_whitespace();
        let numbers: Result<Vec<f32>, _> = words().map(str::parse).collect();
        return match numbers {
            Ok(numbers) if !numbers.is_empty() => Floats(numbers.leak()),
            _ => Strings(words().map(|it| it.into()).collect::<Vec<_>>().leak()),
        };
    }
    match (text.parse(), text.parse()) {
        _ if text == "?" => Attribute::Other,
        (Ok(integer), _) => Integer(integer),
        (_, Ok(float)) => Float(float),
        _ => String(text.as_bytes()),
    }
}

/// Reads a node: `GRU<clip=0.5;direction=reverse>`.
fn read(node: &'static str) -> Result<Recurrent, std::string::String> {
    let (operator, attributes) = node.split_once('<').unwrap_or((node, ">"));
    let attributes = attributes.strip_suffix('>').unwrap().split(';');
    let attributes = attributes.filter_map(|it| it.split_once('='));
    let given = attributes.map(|(name, value)| (name, attribute(value)));
    Recurrent::of(operator, &Given(given.collect())).map_err(|error| error.to_string())
}

/// The activations of all directions.
fn activations(node: &'static str) -> Vec<Activation> {
    let directions = read(node).unwrap().layer.directions.into_iter();
    directions.flat_map(|it| it.activations).collect()
}

#[test]
fn a_node_without_attributes_is_onnx_s_default() {
    let couples_input_and_forget = false;
    let resets_after_product = false;
    for (operator, cell) in [
        (
            "LSTM",
            Cell::Lstm {
                couples_input_and_forget,
            },
        ),
        (
            "GRU",
            Cell::Gru {
                resets_after_product,
            },
        ),
        ("RNN", Cell::Rnn),
    ] {
        let read = read(operator).unwrap();
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
    let lstm = "DynamicQuantizeLSTM<direction=bidirectional;hidden_size=7;input_forget=2;clip=0.5;layout=1>";
    let lstm = read(lstm).unwrap();
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

    let gru = read("MaskedGRU<direction=reverse;linear_before_reset=1;repeats=1>").unwrap();
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
    let node = "LSTM<activations=[HardSigmoid softsign SCALEDTANH];activation_alpha=[0.25 1.5 9.0];\
                activation_beta=[0.4]>";
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
    assert_eq!(activations(node), expected);
}

/// Those of ONNX Runtime's kernels, also where ONNX's operators have others.
#[test]
fn constants_that_are_not_there_have_defaults() {
    let (alpha, beta) = (0.0, 0.0);
    for (node, expected) in [
        (
            "RNN<activations=[Affine]>",
            Activation::Affine { alpha, beta },
        ),
        ("RNN<activations=[Elu]>", Activation::Elu { alpha: 1.0 }),
        (
            "RNN<activations=[HardSigmoid]>",
            Activation::HardSigmoid {
                alpha: 0.2,
                beta: 0.5,
            },
        ),
        (
            "RNN<activations=[LeakyRelu]>",
            Activation::LeakyRelu { alpha: 0.01 },
        ),
        (
            "RNN<activations=[ScaledTanh]>",
            Activation::ScaledTanh { alpha, beta },
        ),
        (
            "RNN<activations=[ThresholdedRelu]>",
            Activation::ThresholdedRelu { alpha },
        ),
    ] {
        assert_eq!(activations(node), [expected]);
    }
}

#[test]
fn an_rnn_takes_the_activations_of_two_directions() {
    let (relu, tanh) = (Activation::Relu, Activation::Tanh);
    assert_eq!(activations("RNN<activations=[Relu Tanh]>"), [relu]);
    let both = "RNN<activations=[Relu Tanh];direction=bidirectional>";
    assert_eq!(activations(both), [relu, tanh]);
    // It does not look at the one that it leaves out.
    assert_eq!(activations("RNN<activations=[Tanh Cosine]>"), [tanh]);
}

#[test]
fn no_names_are_the_default_activations_but_for_an_rnn() {
    for (node, default) in [
        ("LSTM<activations=[]>", "LSTM"),
        ("GRU<activations=[]>", "GRU"),
        ("DynamicQuantizeLSTM<activations=[]>", "DynamicQuantizeLSTM"),
    ] {
        assert_eq!(activations(node), activations(default));
    }
    let error = read("RNN<activations=[]>").unwrap_err();
    assert_eq!(error, "it has 0 activations, expected 1");
}

#[test]
fn a_clip_that_bounds_nothing_is_none_for_an_rnn() {
    for (node, clip) in [
        ("RNN<clip=-1.0>", None),
        ("RNN<clip=NaN>", None),
        ("RNN<clip=0.0>", Some(0.0)),
    ] {
        assert_eq!(read(node).unwrap().layer.clip, clip, "{node}");
    }
}

#[test]
fn what_no_layer_has_is_refused_with_the_right_values() {
    for row in "\
        JANET => its operator is \"JANET\", expected LSTM, GRU or RNN
        LSTM<clip=0.0> => its clip is 0, expected more than 0
        GRU<clip=-0.5> => its clip is -0.5, expected more than 0
        LSTM<clip=NaN> => its clip is NaN, expected more than 0
        GRU<clip=1> => its clip is an integer, expected a float
        RNN<direction=FORWARD> => its direction is \"FORWARD\", expected forward, reverse or bidirectional
        RNN<direction=?> => its direction is of another type, expected a string
        LSTM<layout=2> => its layout is 2, expected 0 or 1
        LSTM<hidden_size=0> => its hidden_size is 0, expected 1 at least
        RNN<hidden_size=-3> => its hidden_size is -3, expected 1 at least
        RNN<activations=[Tanh Tanh Tanh]> => it has 3 activations, expected 1
        RNN<activations=[Tanh];direction=bidirectional> => it has 1 activations, expected 2
        GRU<activations=[Tanh Tanh Tanh]> => it has 3 activations, expected 2
        LSTM<activations=[Tanh Tanh Tanh];direction=bidirectional> => it has 3 activations, expected 6
        GRU<activations=[Sigmoid Cosine]> => its activation is \"Cosine\", expected Affine, Elu, HardSigmoid, \
            LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, Tanh or ThresholdedRelu
        GRU<activations=Tanh> => its activations is a string, expected a list of strings"
        .lines()
    {
        let (node, expected) = row.trim().split_once(" => ").unwrap();
        assert_eq!(read(node).unwrap_err(), expected, "{node}");
    }
}

#[test]
fn an_operator_that_is_not_known_is_refused() {
    let error = Attention::of("SlidingAttention", &Given::default()).unwrap_err();
    let expected = "its operator is \"SlidingAttention\", expected one of linear attention";
    assert_eq!(error.to_string(), expected);
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
