//! A forward and a backward layer over the same input, to one bidirectional layer.
//!
//! Both have to share all but their weights, and the weights have to be constants, which are joined
//! when the model is rewritten. The layers are paired once for each graph; the later one is
//! replaced together with the earlier one, which only moves it forward: it reads nothing but the
//! shared inputs and constants.
//!
//! ```text
//! y = LSTM(x, W1, R1), z = LSTM(x, W2, R2, reverse)
//!   → both = LSTM(x, [W1, W2], [R1, R2], bidirectional), y = both[:, 0:1], z = both[:, 1:2]
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};

use buffa::Message;

use super::{remove_attribute, trim_inputs};
use crate::constant;
use crate::emit::Emit;
use crate::model::{self, NodeProto};
use crate::pass::{At, LAYERS, Other, Pass, Verdict};
use crate::scope::Scope;

pub(super) const PASS: Pass = Pass::rounding(
    "bidirectional",
    "LSTM, GRU and RNN of both directions over one input, to bidirectional ones",
    find,
)
.of(LAYERS)
.fast();

/// The inputs W, R and B, which are concatenated as stored.
const WEIGHTS: [usize; 3] = [1, 2, 3];

fn find(at: &At<'_>) -> Verdict {
    at.context.verdict(at, || {
        let pairs = pairs(at.scope).into_iter();
        pairs
            .map(|(index, later)| (index, joined(at, index, later)))
            .collect()
    })
}

/// The replacement of a layer and the later one that it is paired with.
fn joined(at: &At<'_>, index: usize, later: usize) -> Verdict {
    let (node, other) = (&at.scope.nodes[index], &at.scope.nodes[later]);
    let emit = at.emit(node.outputs().next().ok_or(Other)?);
    join(at.scope, &emit, node, other)
        .ok_or("the weights of the two directions are not constant float32")?;
    emit.also(later);
    let (op, label) = (node.op(), other.label(later));
    emit.finish(format!("bidirectional {op}, with {label}"))
}

/// Whether a layer runs backwards; `None` if it is not a layer, or bidirectional.
fn direction(node: &NodeProto) -> Option<bool> {
    match node
        .text("direction")
        .or("forward")
        .filter(|_| LAYERS.iter().any(|op| node.is(op)))?
    {
        "forward" => Some(false),
        "reverse" => Some(true),
        _ => None,
    }
}

/// Pairs each layer with the first later one in the other direction, each layer once.
fn pairs(scope: &Scope<'_>) -> BTreeMap<usize, usize> {
    let mut waiting: HashMap<Half<'_>, [VecDeque<usize>; 2]> = HashMap::new();
    let mut pairs = BTreeMap::new();
    for (index, node) in scope.nodes.iter().enumerate() {
        let (Some(backwards), Some(half)) = (direction(node), Half::of(scope, node)) else {
            continue;
        };
        let halves = waiting.entry(half).or_default();
        match halves[usize::from(!backwards)].pop_front() {
            Some(earlier) => {
                pairs.insert(earlier, index);
            }
            None => halves[usize::from(backwards)].push_back(index),
        }
    }
    pairs
}

/// Properties that both halves of a layer share.
#[derive(PartialEq, Eq, Hash)]
struct Half<'a> {
    op: &'a str,
    /// The input, the sequence lengths and the initial states, as named in their graphs.
    inputs: [Option<(usize, &'a str)>; 4],
    has_bias: bool,
    attributes: Vec<Vec<u8>>,
}

impl<'a> Half<'a> {
    /// Reads a layer as a half; `None` if it cannot be joined.
    fn of(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<Self> {
        // Reject attributes and inputs that cannot simply be concatenated.
        let is_plain = node.int("layout").or(0) == Some(0)
            && node.attribute("activation_alpha").is_none()
            && node.attribute("activation_beta").is_none()
            && node.input(7).is_none();
        node.input(0).filter(|_| is_plain)?;
        let attributes = node.attribute.iter();
        let mut attributes: Vec<Vec<u8>> = attributes
            .filter(|attribute| attribute.name() != "direction")
            .map(Message::encode_to_vec)
            .collect();
        attributes.sort();
        Some(Self {
            op: node.op(),
            inputs: [0, 4, 5, 6].map(|input| Some(scope.first(node.input(input)?))),
            has_bias: node.input(3).is_some(),
            attributes,
        })
    }
}

/// Writes both layers as one; `None` if their weights cannot be joined.
fn join(scope: &Scope<'_>, emit: &Emit<'_>, node: &NodeProto, other: &NodeProto) -> Option<()> {
    let (forward, backward) = if direction(node)? {
        (other, node)
    } else {
        (node, other)
    };
    let mut joined = node.clone();
    joined.input.resize(7, String::new());
    for input in WEIGHTS {
        let (Some(one), Some(two)) = (forward.input(input), backward.input(input)) else {
            continue;
        };
        let (mut both, two) = (constant::floats(scope, one)?, constant::floats(scope, two)?);
        if both.sizes != two.sizes || both.sizes.first() != Some(&1) {
            return None;
        }
        both.sizes[0] = 2;
        both.elements.extend(two.elements);
        joined.input[input] = emit.tensor(both.to_tensor());
    }
    for input in [5, 6] {
        if let Some(state) = node.input(input) {
            joined.input[input] = emit.concat((state, state), 0);
        }
    }
    trim_inputs(&mut joined);
    remove_attribute(&mut joined, "direction");
    let bidirectional = model::text("direction", "bidirectional");
    joined.attribute.push(bidirectional);
    let mut attributes = joined.attribute.iter_mut();
    if let Some(activations) = attributes.find(|it| it.name() == "activations") {
        if node.is("RNN") {
            // One direction takes the first of ONNX's default, which is that of two.
            activations.strings.truncate(1);
        }
        activations.strings.extend(activations.strings.clone());
    }
    let count = node.output.len().max(other.output.len());
    let outputs = (0..count).map(|output| emit.name(&format!("both{output}")));
    joined.output = outputs.collect();
    joined.name = Some(emit.name("bidirectional"));
    let outputs = joined.output.clone();
    emit.copy(joined);
    for (place, both) in outputs.iter().enumerate() {
        // Y has the directions on axis 1, the states have them on axis 0.
        let axis = i64::from(place == 0);
        for (start, layer) in [(0, forward), (1, backward)] {
            let output = layer.output.get(place);
            if let Some(output) = output.filter(|output| scope.uses(output) > 0) {
                let part = emit.range(both, axis, start, start + 1);
                emit.same(output, &part);
            }
        }
    }
    Some(())
}
