//! A layer that runs forwards and one that runs backwards over the same input,
//! to one that does both.

use super::reversal::same_value;
use super::{Edit, Pass, PassInfo, Verdict};
use crate::constant;
use crate::driver::Context;
use crate::emit::Emit;
use crate::model::{self, NodeProto};
use crate::report::Exactness;
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "bidirectional",
        exactness: Exactness::Rounding,
        about: "LSTM, GRU and RNN of both directions over one input, to bidirectional ones",
        portable: false,
        fast: true,
    },
    find,
};

/// W, R and B, which are joined as they are written.
const WEIGHTS: [usize; 3] = [1, 2, 3];

fn find(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if direction(node).is_none() {
        return Verdict::Other;
    }
    let Some(partner) = partner(scope, index) else {
        return Verdict::Other;
    };
    // A partner of an earlier layer is that one's; what is left over, the next round looks at.
    let taken = (0..index)
        .filter_map(|earlier| self::partner(scope, earlier))
        .any(|theirs| theirs == index || theirs == partner);
    if taken {
        return Verdict::Other;
    }
    let other = &scope.nodes[partner];
    let Some(output) = node.outputs().next() else {
        return Verdict::Other;
    };
    let mut emit = Emit::new(output, scope.opset, names);
    let Some(same) = join(scope, &mut emit, node, other) else {
        return Verdict::Left("the weights of the two directions are not constant".to_owned());
    };
    Verdict::Edit(Edit {
        nodes: emit.nodes,
        also: other.output.first().cloned().into_iter().collect(),
        same,
        what: format!("bidirectional {}, with {}", node.op(), other.label(partner)),
    })
}

/// Whether a layer runs backwards; none if it is no layer or runs both ways.
fn direction(node: &NodeProto) -> Option<bool> {
    if !["LSTM", "GRU", "RNN"].iter().any(|op| node.is(op)) {
        return None;
    }
    match node.text("direction").or("forward")? {
        "forward" => Some(false),
        "reverse" => Some(true),
        _ => None,
    }
}

/// The first later layer that is the other direction of one.
fn partner(scope: &Scope<'_>, index: usize) -> Option<usize> {
    let node = &scope.nodes[index];
    let backwards = direction(node)?;
    let later = scope.nodes.iter().enumerate().skip(index + 1);
    later
        .filter(|(_, other)| {
            direction(other) == Some(!backwards) && is_other_half(scope, node, other)
        })
        .map(|(index, _)| index)
        .next()
}

fn is_other_half(scope: &Scope<'_>, node: &NodeProto, other: &NodeProto) -> bool {
    // With three lists of activations or none, what is joined is plain.
    let attributes = |node: &NodeProto| {
        let mut rest: Vec<_> = node
            .attribute
            .iter()
            .filter(|attribute| attribute.name.as_deref() != Some("direction"))
            .cloned()
            .collect();
        rest.sort_by(|one, other| one.name.cmp(&other.name));
        rest
    };
    let same = |input: usize| match (node.input(input), other.input(input)) {
        (None, None) => true,
        (Some(one), Some(other)) => same_value(scope, one, other),
        _ => false,
    };
    let has_outputs = other
        .output
        .first()
        .is_some_and(|output| !output.is_empty());
    node.op() == other.op()
        && node.int("layout").or(0) == Some(0)
        && has_outputs
        && node.input(0) == other.input(0)
        && node.input(3).is_some() == other.input(3).is_some()
        && attributes(node) == attributes(other)
        && node.attribute("activation_alpha").is_none()
        && node.attribute("activation_beta").is_none()
        && [4, 5, 6].into_iter().all(same)
        && node.input(7).is_none()
        && other.input(7).is_none()
        && scope.uses(node.input(0).unwrap_or_default()) > 0
}

/// Writes both as one; tells the second one's outputs.
fn join(
    scope: &Scope<'_>,
    emit: &mut Emit<'_>,
    node: &NodeProto,
    other: &NodeProto,
) -> Option<Vec<(String, String)>> {
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
            joined.input[input] = emit.op("Concat", &[state, state], vec![model::int("axis", 0)]);
        }
    }
    while joined.input.last().is_some_and(String::is_empty) {
        joined.input.pop();
    }
    joined
        .attribute
        .retain(|attribute| attribute.name.as_deref() != Some("direction"));
    joined
        .attribute
        .push(model::text("direction", "bidirectional"));
    if let Some(activations) = joined
        .attribute
        .iter_mut()
        .find(|attribute| attribute.name.as_deref() == Some("activations"))
    {
        activations.strings.extend(activations.strings.clone());
    }
    let count = node.output.len().max(other.output.len());
    joined.output = (0..count)
        .map(|output| emit.name(&format!("both{output}")))
        .collect();
    joined.name = Some(emit.name("bidirectional"));
    let outputs = joined.output.clone();
    emit.nodes.push(joined);
    let mut same = Vec::new();
    for (place, both) in outputs.iter().enumerate() {
        // Y has the directions on axis 1, the states on axis 0.
        let axis = i64::from(place == 0);
        let mut part = |layer: &NodeProto, start: i64| {
            let output = layer
                .output
                .get(place)
                .filter(|output| scope.uses(output) > 0)?;
            Some((output.clone(), emit.range(both, axis, start, start + 1)))
        };
        let parts = [part(forward, 0), part(backward, 1)];
        same.extend(parts.into_iter().flatten());
    }
    Some(same)
}
