//! The runtimes that models are rewritten for, in one table.
//!
//! A runtime has passes, which bring a model into a form that it reads and computes rightly, and
//! kinds of layers that it lacks: no pass writes these for it, whatever else is asked for.

use crate::error::Error;
use crate::model::NodeProto;
use crate::pass::{Edit, LAYERS, Options};
use crate::passes::tract;

/// A runtime, and the passes for it.
#[derive(Debug)]
pub struct RuntimeInfo {
    /// Its name.
    pub name: &'static str,
    /// The passes that run for it.
    pub passes: &'static [&'static str],
    /// The reason for them.
    pub why: &'static str,
}

/// A runtime, with the layers that it lacks.
pub(crate) struct Runtime {
    pub(crate) info: RuntimeInfo,
    lacks: &'static [LayerKind],
}

/// All runtimes.
const ALL: [Runtime; 5] = [
    Runtime {
        info: RuntimeInfo {
            name: "onnxruntime-web",
            passes: &["other-axes"],
            why: "its ReverseSequence takes axes 0 and 1 only, and misreads negative ones; with WebGPU it refuses \
                  GRU with other activations than Relu, Sigmoid and Tanh",
        },
        lacks: &[RARE_GRU],
    },
    Runtime {
        info: RuntimeInfo {
            name: "openvino",
            passes: &["function", "other-axes", "sequence-lens"],
            why: "it ignores sequence_lens where sizes are dynamic, peepholes and input_forget; it refuses \
                  activations but Relu, Sigmoid and Tanh, calls of functions, and ReverseSequence of other axes than \
                  0 and 1",
        },
        lacks: &[PEEPHOLES, COUPLED, RARE_ACTIVATIONS],
    },
    Runtime {
        info: RuntimeInfo {
            name: "plain-tract",
            passes: &[
                "order",
                "function",
                "branch",
                "branch-list",
                "list",
                "stacked-list",
                "dft-length",
                "stft-signal",
                "dft-axis",
                "nonzero-count",
                "scalar-inputs",
                "output-shape",
                "attention",
                "batch-statistics",
                "wrap",
                "features",
                "microsoft",
                "sequence-lens",
                "forward",
                "portable",
            ],
            why: "tract without this project's operators lacks ReverseSequence and sequence_lens, and \
                  ignores activations, clip, input_forget, and the direction of a single layer",
        },
        lacks: &[ACTIVATIONS, CLIP, COUPLED],
    },
    Runtime {
        info: RuntimeInfo {
            name: "rten",
            passes: &[
                "function",
                "scan-loop",
                "microsoft",
                "other-axes",
                "sequence-lens",
            ],
            why: "it ignores sequence_lens; it lacks Scan, RNN, GRU with linear_before_reset = 0, layers \
                  with peepholes, clip, input_forget or other activations, functions and fused operators",
        },
        lacks: &[RNN, RESET_BEFORE, PEEPHOLES, ACTIVATIONS, CLIP, COUPLED],
    },
    Runtime {
        info: RuntimeInfo {
            name: "tract",
            passes: &tract::NAMES,
            why: "with this project's operators, tract reads all else; `--backend tract` does the same",
        },
        lacks: &[],
    },
];

/// The runtimes that a model can be rewritten for.
pub const RUNTIMES: &[&RuntimeInfo] = &{
    let mut infos = [&ALL[0].info; ALL.len()];
    let mut index = 0;
    while index < ALL.len() {
        infos[index] = &ALL[index].info;
        index += 1;
    }
    infos
};

/// The runtime that is asked for, if any.
///
/// # Errors
/// If there is no such runtime.
pub(crate) fn find(options: &Options) -> Result<Option<&'static Runtime>, Error> {
    const ALL: &[Runtime] = &self::ALL;
    let Some(name) = &options.runtime else {
        return Ok(None);
    };
    let asked = ALL.iter().find(|runtime| runtime.info.name == name);
    asked.map(Some).ok_or_else(|| {
        let known: Vec<&str> = RUNTIMES.iter().map(|runtime| runtime.name).collect();
        Error::UnknownRuntime {
            name: name.clone(),
            known: known.join(", "),
        }
    })
}

impl Runtime {
    /// Says which layer of a replacement the runtime lacks.
    ///
    /// That the replaced nodes have one of that kind is no reason to write another: a runtime may
    /// refuse these for something else, and compute the replacement wrongly.
    pub(crate) fn refusal(&self, edit: &Edit) -> Option<String> {
        let nodes = edit.nodes.iter();
        let layers = nodes.filter(|node| LAYERS.iter().any(|op| node.is(op)));
        let is_written = |kind: &&LayerKind| layers.clone().any(|node| (kind.is_of)(node));
        let kind = self.lacks.iter().find(is_written)?;
        Some(format!("{} lacks {}", self.info.name, kind.name))
    }
}

/// A kind of layer.
struct LayerKind {
    name: &'static str,
    /// Whether a layer of ONNX's own is of it.
    is_of: fn(&NodeProto) -> bool,
}

const RNN: LayerKind = LayerKind {
    name: "RNN",
    is_of: |node| node.is("RNN"),
};

/// GRU whose reset gate is applied before the product.
const RESET_BEFORE: LayerKind = LayerKind {
    name: "GRU with linear_before_reset = 0",
    is_of: |node| node.is("GRU") && node.int("linear_before_reset").or(0) != Some(1),
};

const PEEPHOLES: LayerKind = LayerKind {
    name: "LSTM with peepholes",
    is_of: |node| node.is("LSTM") && node.input(7).is_some(),
};

const ACTIVATIONS: LayerKind = LayerKind {
    name: "layers with other activations than the default ones",
    is_of: |node| {
        let defaults: &[&[u8]] = match node.op() {
            "LSTM" => &[b"Sigmoid", b"Tanh", b"Tanh"],
            "GRU" => &[b"Sigmoid", b"Tanh"],
            _ => &[b"Tanh"],
        };
        let mut pairs = std::iter::zip(activations(node), defaults.iter().cycle());
        pairs.any(|(given, default)| given != default)
            || node.attribute("activation_alpha").is_some()
            || node.attribute("activation_beta").is_some()
    },
};

const RARE_ACTIVATIONS: LayerKind = LayerKind {
    name: "layers with other activations than Relu, Sigmoid and Tanh",
    is_of: has_rare_activations,
};

const RARE_GRU: LayerKind = LayerKind {
    name: "GRU with other activations than Relu, Sigmoid and Tanh",
    is_of: |node| node.is("GRU") && has_rare_activations(node),
};

const CLIP: LayerKind = LayerKind {
    name: "layers with a clip",
    is_of: |node| node.attribute("clip").is_some(),
};

/// LSTM whose forget gate follows from the input gate.
const COUPLED: LayerKind = LayerKind {
    name: "LSTM with input_forget",
    is_of: |node| node.is("LSTM") && node.int("input_forget").or(0) != Some(0),
};

/// The activations that a layer names.
fn activations(node: &NodeProto) -> &[Vec<u8>] {
    let given = node.attribute("activations");
    given.map_or(&[], |it| &it.strings)
}

fn has_rare_activations(node: &NodeProto) -> bool {
    let common: [&[u8]; 3] = [b"Relu", b"Sigmoid", b"Tanh"];
    let mut given = activations(node).iter();
    given.any(|given| !common.contains(&given.as_slice()))
}
