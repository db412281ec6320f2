//! `--pass sequence-lens`: every kind of layer gives the same without its lengths.
//!
//! One model has all layers over one input, whose padding is 1e30: what it touches would show.
//! ONNX Runtime has no layers whose batch comes first, so that those are compared with tract's.

use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;

use crate::common::{FLOAT, INT32, int, model, node, rewrite_and_check, tensor, value};
use crate::ort::onnxruntime;

const WIDTH: usize = 2;
const UNITS: usize = 3;

/// The operators, with the number of their gates and of their states.
const OPERATORS: [(&str, usize, usize); 3] = [("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)];

const DIRECTIONS: [(&str, usize); 3] = [("forward", 1), ("reverse", 1), ("bidirectional", 2)];

/// What a layer has besides its weights and lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Bias,
    /// Initial states.
    States,
    /// Functions with constants, of which a layer lists those of all directions.
    Activations,
    Clip,
    /// In GRU.
    LinearBeforeReset,
    /// In LSTM.
    Peepholes,
    /// In LSTM: the forget gate follows from the input gate.
    Coupled,
    /// The weights are no constants.
    ComputedWeights,
}

const KINDS: [Kind; 9] = [
    Kind::Plain,
    Kind::Bias,
    Kind::States,
    Kind::Activations,
    Kind::Clip,
    Kind::LinearBeforeReset,
    Kind::Peepholes,
    Kind::Coupled,
    Kind::ComputedWeights,
];

impl Kind {
    fn is_of(self, operator: &str) -> bool {
        match self {
            Self::LinearBeforeReset => operator == "GRU",
            Self::Peepholes | Self::Coupled => operator == "LSTM",
            _ => true,
        }
    }

    /// Reason why a layer stays whose last cell state is read.
    fn keeps_its_lengths(self) -> Option<&'static str> {
        match self {
            Self::States => Some("its initial states are not provably 0"),
            _ => None,
        }
    }
}

/// Numbers between -1 and 1, the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn tensor(&mut self, name: &str, sizes: &[usize]) -> TensorProto {
        let count = sizes.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|_| self.next().to_le_bytes()).collect();
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        tensor(name, FLOAT, &sizes, &bytes)
    }
}

fn strings(name: &str, values: &[&str]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Strings as i32,
        strings: values.iter().map(|it| it.as_bytes().to_vec()).collect(),
        ..AttributeProto::default()
    }
}

fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Floats as i32,
        floats: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// A graph with a layer of each kind.
struct Layers {
    graph: GraphProto,
    numbers: Numbers,
    is_batch_first: bool,
    /// The layers that keep their lengths, with the reason.
    kept: Vec<(String, &'static str)>,
}

impl Layers {
    fn new(is_batch_first: bool) -> Self {
        let order = |sizes: [&'static str; 3]| match is_batch_first {
            true => [sizes[1], sizes[0], sizes[2]],
            false => sizes,
        };
        let states = ["h1", "c1", "h2", "c2"];
        let states = states.map(|name| value(name, FLOAT, &order([&name[1..], "N", "3"])));
        let mut input = vec![
            value("x", FLOAT, &order(["T", "N", "2"])),
            value("lens", INT32, &["N"]),
        ];
        input.extend(states);
        let mut layers = Self {
            graph: GraphProto {
                name: "graph".to_owned(),
                input,
                ..GraphProto::default()
            },
            numbers: Numbers(1),
            is_batch_first,
            kept: Vec::new(),
        };
        for (operator, gates, states) in OPERATORS {
            for (direction, directions) in DIRECTIONS {
                for kind in KINDS.into_iter().filter(|kind| kind.is_of(operator)) {
                    let name = format!("{operator}_{direction}_{kind:?}");
                    let sizes = [directions, gates, states];
                    layers.add(&format!("{name}_Yh"), (operator, direction), sizes, kind, 2);
                    // ONNX Runtime runs none whose batch comes first, so that none may stay.
                    let is_kept = kind.keeps_its_lengths().is_some() && is_batch_first;
                    if operator == "LSTM" && !is_kept {
                        layers.add(&format!("{name}_Yc"), (operator, direction), sizes, kind, 3);
                    }
                }
            }
        }
        layers
    }

    /// Adds a layer with its first `outputs` outputs.
    fn add(
        &mut self,
        name: &str,
        (operator, direction): (&str, &str),
        [directions, gates, states]: [usize; 3],
        kind: Kind,
        outputs: usize,
    ) {
        let mut inputs = vec!["x".to_owned()];
        let rows = gates * UNITS;
        inputs.push(self.weights(&format!("{name}_W"), &[directions, rows, WIDTH], kind));
        inputs.push(self.weights(&format!("{name}_R"), &[directions, rows, UNITS], kind));
        inputs.push(match kind {
            Kind::Plain => String::new(),
            _ => self.weights(&format!("{name}_B"), &[directions, 2 * rows], kind),
        });
        inputs.push("lens".to_owned());
        let given = if kind == Kind::States { states } else { 0 };
        inputs.extend(
            ["h", "c"][..given]
                .iter()
                .map(|it| format!("{it}{directions}")),
        );
        if kind == Kind::Peepholes {
            inputs.resize(7, String::new());
            inputs.push(self.weights(&format!("{name}_P"), &[directions, 3 * UNITS], kind));
        }
        let outputs: Vec<String> = ["Y", "Y_h", "Y_c"][..outputs]
            .iter()
            .map(|output| format!("{name}_{output}"))
            .collect();
        fn read(names: &[String]) -> Vec<&str> {
            names.iter().map(String::as_str).collect()
        }
        let mut layer = NodeProto {
            name: name.to_owned(),
            ..node(operator, &read(&inputs), &read(&outputs))
        };
        let mut direction_attribute = strings("direction", &[]);
        direction_attribute.r#type = AttributeType::String as i32;
        direction_attribute.s = direction.as_bytes().to_vec();
        layer.attribute = vec![int("hidden_size", UNITS as i64), direction_attribute];
        layer
            .attribute
            .extend(attributes(operator, kind, directions));
        if self.is_batch_first {
            layer.attribute.push(int("layout", 1));
        }
        if let (3, Some(why)) = (outputs.len(), kind.keeps_its_lengths()) {
            self.kept.push((name.to_owned(), why));
        }
        self.graph.node.push(layer);
        for (place, output) in outputs.iter().enumerate() {
            let dims = ["a", "b", "c", "d"].map(|dim| format!("{output}_{dim}"));
            let rank = if place == 0 { 4 } else { 3 };
            let dims: Vec<&str> = dims[..rank].iter().map(String::as_str).collect();
            self.graph.output.push(value(output, FLOAT, &dims));
        }
    }

    /// Adds weights, and returns their name.
    fn weights(&mut self, name: &str, sizes: &[usize], kind: Kind) -> String {
        let stored = self.numbers.tensor(name, sizes);
        self.graph.initializer.push(stored);
        if kind != Kind::ComputedWeights {
            return name.to_owned();
        }
        let computed = format!("{name}_computed");
        self.graph.node.push(node("Tanh", &[name], &[&computed]));
        computed
    }
}

/// The attributes that make a layer one of a kind.
fn attributes(operator: &str, kind: Kind, directions: usize) -> Vec<AttributeProto> {
    match kind {
        Kind::Activations => {
            let (names, alphas, betas): (&[&str], &[f32], &[f32]) = match operator {
                "LSTM" => (&["HardSigmoid", "Tanh", "LeakyRelu"], &[0.3, 0.1], &[0.4]),
                "GRU" => (&["HardSigmoid", "LeakyRelu"], &[0.3, 0.1], &[0.4]),
                _ => (&["HardSigmoid"], &[0.3], &[0.4]),
            };
            vec![
                strings("activations", &names.repeat(directions)),
                floats("activation_alpha", &alphas.repeat(directions)),
                floats("activation_beta", &betas.repeat(directions)),
            ]
        }
        Kind::Clip => vec![AttributeProto {
            name: "clip".to_owned(),
            r#type: AttributeType::Float as i32,
            f: 0.3,
            ..AttributeProto::default()
        }],
        Kind::LinearBeforeReset => vec![int("linear_before_reset", 1)],
        Kind::Coupled => vec![int("input_forget", 1)],
        _ => Vec::new(),
    }
}

/// A data set: sequences of these lengths, and states.
fn inputs(steps: usize, lengths: &[usize], is_batch_first: bool) -> [TensorProto; 6] {
    let mut numbers = Numbers(steps as u64);
    let batch = lengths.len();
    let sizes = |sizes: [usize; 3]| match is_batch_first {
        true => [sizes[1], sizes[0], sizes[2]],
        false => sizes,
    };
    let mut x = numbers.tensor("x", &sizes([steps, batch, WIDTH]));
    for (sequence, &length) in lengths.iter().enumerate() {
        for step in length..steps {
            let row = match is_batch_first {
                true => sequence * steps + step,
                false => step * batch + sequence,
            };
            let bytes = &mut x.raw_data[row * WIDTH * 4..(row + 1) * WIDTH * 4];
            bytes.copy_from_slice(&[1e30_f32.to_le_bytes(); WIDTH].concat());
        }
    }
    let bytes: Vec<u8> = lengths
        .iter()
        .flat_map(|&it| (it as i32).to_le_bytes())
        .collect();
    let mut states = [("h1", 1), ("c1", 1), ("h2", 2), ("c2", 2)].into_iter();
    let mut state = || {
        let (name, directions) = states.next().expect("four states");
        numbers.tensor(name, &sizes([directions, batch, UNITS]))
    };
    [
        x,
        tensor("lens", INT32, &[batch as i64], &bytes),
        state(),
        state(),
        state(),
        state(),
    ]
}

#[test]
fn every_kind_of_layer_is_the_same_without_its_lengths() {
    let library = onnxruntime("every_kind_of_layer_is_the_same_without_its_lengths");
    for is_batch_first in [false, true] {
        let layers = Layers::new(is_batch_first);
        let all: [(usize, &[usize]); 3] = [(5, &[5, 3, 1]), (4, &[0, 4, 2]), (3, &[0, 0])];
        let sets = all.map(|(steps, lengths)| inputs(steps, lengths, is_batch_first));
        let bytes = model(layers.graph.clone()).encode_to_vec();
        let flags = ["--pass", "sequence-lens"];
        let run = rewrite_and_check(&bytes, &sets.map(Vec::from), &flags, library.as_deref());
        let json: Json = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
        let backends = if library.is_some() { 2 } else { 1 };
        let checks = json["checks"].as_array().expect("checks");
        assert_eq!(checks.len(), all.len() * backends, "{checks:#?}");
        for check in checks {
            assert_eq!(
                check["result"], "ok",
                "batch first: {is_batch_first}: {check:#}"
            );
        }
        let steps = json["steps"].as_array().expect("steps");
        let left: Vec<(&str, &str)> = steps
            .iter()
            .filter(|step| step["result"] == "left alone")
            .map(|step| {
                (
                    step["node"].as_str().unwrap(),
                    step["reason"].as_str().unwrap(),
                )
            })
            .collect();
        let kept = &layers.kept;
        assert_eq!(left.len(), kept.len(), "{left:#?}");
        for ((node, reason), (name, why)) in std::iter::zip(left, kept) {
            assert!(node == name && reason.contains(why), "{node}: {reason}");
        }
        let is_layer = |node: &&NodeProto| !node.attribute.is_empty();
        let count = layers.graph.node.iter().filter(is_layer).count();
        assert_eq!(steps.len(), count);
    }
}

/// The outputs of a model on tract alone, for `steps` steps of a sequence of length 1.
fn on_plain_tract(bytes: &[u8], steps: usize) -> TVec<TValue> {
    let model = tract_onnx::onnx()
        .model_for_read(&mut std::io::Cursor::new(bytes))
        .and_then(|it| it.with_input_fact(0, f32::fact([steps, 1, WIDTH]).into()))
        .and_then(|it| it.with_input_fact(1, i32::fact([1]).into()))
        .and_then(|it| it.into_optimized()?.into_runnable())
        .expect("tract takes it");
    let x = Tensor::from_shape(&[steps, 1, WIDTH], &vec![0.5_f32; steps * WIDTH]).unwrap();
    let inputs = tvec!(x.into(), tensor1(&[1_i32]).into());
    model.run(inputs).expect("it runs")
}

/// The gates of tract's LSTM neither close nor open: its Sigmoid ends 5e-7 before 0 and 1, which
/// thousands of steps add up.
#[test]
fn a_last_cell_state_does_not_change_in_a_long_padding() {
    let mut layers = Layers {
        graph: GraphProto {
            name: "graph".to_owned(),
            input: vec![
                value("x", FLOAT, &["T", "N", "2"]),
                value("lens", INT32, &["N"]),
            ],
            ..GraphProto::default()
        },
        numbers: Numbers(1),
        is_batch_first: false,
        kept: Vec::new(),
    };
    layers.add("lstm", ("LSTM", "forward"), [1, 4, 2], Kind::Bias, 3);
    let bytes = model(layers.graph.clone()).encode_to_vec();
    let mut rewritten = revseq_onnx::decode(&bytes).expect("a model");
    let options = revseq_rewrite::Options {
        runtime: Some("plain-tract".to_owned()),
        ..revseq_rewrite::Options::default()
    };
    let report = revseq_rewrite::rewrite_messages(&mut rewritten, &options).expect("known passes");
    assert!(report.rewritten().next().is_some(), "{report:#?}");
    let rewritten = revseq_onnx::encode(&rewritten).expect("it fits");
    let long = on_plain_tract(&rewritten, 2001);
    layers.graph.node[0].input[4].clear();
    let one_step = on_plain_tract(&model(layers.graph).encode_to_vec(), 1);
    for (output, expected) in std::iter::zip(&long[1..], &one_step[1..]) {
        assert_eq!(output, expected);
    }
}
