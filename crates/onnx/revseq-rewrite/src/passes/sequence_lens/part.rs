//! One direction of a layer as a layer of its own: its weights, states and attributes.
//!
//! ```text
//! LSTM(x, W [2, 4·units, width], …, bidirectional)  →  LSTM(x, W[0:1], …), LSTM(x', W[1:2], …)
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model::{AttributeProto, NodeProto};
use crate::passes::{remove_attribute, trim_inputs};
use crate::scope::Scope;

/// Checks that the attributes of a layer can be divided among its directions.
pub(super) fn check(node: &NodeProto, directions: usize) -> Result<(), String> {
    let is_given = |attribute: &AttributeProto| attribute.ref_attr_name.as_deref() > Some("");
    if node.attribute.iter().any(is_given) {
        return Err("an attribute is its function's".to_owned());
    }
    if directions == 1 {
        return Ok(());
    }
    let activations = node.attribute("activations");
    let activations = activations.map_or(&[][..], |attribute| &attribute.strings);
    let (forward, backward) = activations.split_at(activations.len() / 2);
    let parameters = ["activation_alpha", "activation_beta"].map(|name| node.attribute(name));
    let parameters = || parameters.iter().flatten();
    let is_half = parameters().all(|attribute| attribute.floats.len() % 2 == 0);
    // Which function a number belongs to follows from the functions before it.
    if forward.len() != backward.len()
        || parameters().next().is_some() && !(is_half && forward == backward)
    {
        return Err("the activations of its directions cannot be told apart".to_owned());
    }
    Ok(())
}

/// A direction's layer in the making.
pub(super) struct DirectionLayer<'a> {
    scope: &'a Scope<'a>,
    node: NodeProto,
    direction: usize,
    directions: usize,
    /// W, if it is not a part of the layer's own.
    weights: Option<String>,
}

impl<'a> DirectionLayer<'a> {
    pub(super) fn new(
        scope: &'a Scope<'a>,
        layer: &NodeProto,
        direction: usize,
        directions: usize,
    ) -> Self {
        let mut node = layer.clone();
        // The lengths, and the states until they are set.
        for input in node.input.iter_mut().take(7).skip(4) {
            input.clear();
        }
        remove_attribute(&mut node, "direction");
        remove_attribute(&mut node, "layout");
        for attribute in &mut node.attribute {
            divide(attribute, direction, directions);
        }
        Self {
            scope,
            node,
            direction,
            directions,
            weights: None,
        }
    }

    /// Sets an initial state, of all directions.
    pub(super) fn set_state(&mut self, emit: &Emit<'_>, input: usize, state: &str) {
        self.node.input[input] = self.slice(emit, state);
    }

    /// Makes the bias the weights of a further feature, behind all others.
    pub(super) fn make_bias_weights(&mut self, emit: &Emit<'_>) {
        let [Some(weights), Some(bias)] = [1, 3].map(|place| self.own(emit, place)) else {
            return;
        };
        // Each gate has two.
        let both = emit.op("Reshape", (bias, [1, 2, -1]));
        let column = emit.unsqueeze(&emit.sum(&both, &[1]), &[2]);
        self.weights = Some(emit.concat((weights, column), 2));
        self.node.input[3].clear();
    }

    pub(super) fn into_node(
        mut self,
        emit: &Emit<'_>,
        input: String,
        outputs: Vec<String>,
    ) -> NodeProto {
        // W, R, B and P.
        for place in [1, 2, 3, 7] {
            let weights = match place {
                1 => self.weights.take(),
                _ => None,
            };
            if let Some(weights) = weights.or_else(|| self.own(emit, place)) {
                self.node.input[place] = weights;
            }
        }
        trim_inputs(&mut self.node);
        if self.directions > 1 {
            self.node.name = Some(emit.name("direction"));
        }
        self.node.input[0] = input;
        self.node.output = outputs;
        self.node
    }

    /// The direction's part of weights.
    fn own(&self, emit: &Emit<'_>, place: usize) -> Option<String> {
        let weights = self.node.input(place)?;
        if self.directions == 1 {
            return Some(weights.to_owned());
        }
        let all = constant::floats(self.scope, weights);
        let part = all.and_then(|all| constant::part(&all, 0, self.direction, 1));
        Some(match part {
            Some(part) => emit.tensor(part.to_tensor()),
            None => self.slice(emit, weights),
        })
    }

    /// The direction's part of a value.
    fn slice(&self, emit: &Emit<'_>, value: &str) -> String {
        let direction = self.direction as i64;
        match self.directions {
            1 => value.to_owned(),
            _ => emit.range(value, 0, direction, direction + 1),
        }
    }
}

/// Leaves a direction's part of an attribute that lists something for each.
fn divide(attribute: &mut AttributeProto, direction: usize, directions: usize) {
    fn part<T>(list: &mut Vec<T>, direction: usize, directions: usize) {
        let size = list.len() / directions;
        list.drain(..size * direction);
        list.truncate(size);
    }
    match attribute.name() {
        "activations" => part(&mut attribute.strings, direction, directions),
        "activation_alpha" | "activation_beta" => {
            part(&mut attribute.floats, direction, directions);
        }
        _ => {}
    }
}
