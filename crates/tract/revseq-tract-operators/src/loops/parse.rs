//! Parses Loop nodes.
//!
//! What can be refused without shapes is refused here: counts of inputs and outputs, sequences and
//! optionals, and graphs that are nested too deep. The body is parsed without its inputs, so that
//! tract lists these among the captured values; the names tell which are which.

use std::collections::HashSet;

use tract_onnx::model::{ParseResult, ParsingContext};
use tract_onnx::pb::{GraphProto, NodeProto, ValueInfoProto};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::SizeSymbols;
use crate::graph::self_contained;
use crate::load::LoadOptions;
use crate::loops::infer::{BodyInput, OnnxLoop};
use crate::loops::program::Source;
use crate::node::element_type;
use crate::operator::Parsed;

/// The maximum nesting of graphs: a state that changes its size doubles the visits of inner loops
/// at each level.
const MAXIMUM_DEPTH: usize = 8;

pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    read(ctx, node).with_context(|| format!("Loop {:?}", node.name))
}

fn read(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    ensure!(
        ctx.parent_graphs.len() <= MAXIMUM_DEPTH,
        "it is in {} graphs within one another, more than the {MAXIMUM_DEPTH} that are supported",
        ctx.parent_graphs.len()
    );
    let body: &GraphProto = node.get_attr("body")?;
    let has_input = |index: usize| node.input.get(index).is_some_and(|name| !name.is_empty());
    let states = node.input.len().saturating_sub(2);
    if let Some(state) = (0..states).find(|state| !has_input(2 + state)) {
        bail!("state {state} has no initial value: optionals are not supported");
    }
    let inputs = body_inputs(body, 2 + states)?;
    ensure!(
        body.output.len() > states,
        "its body has {} outputs, expected a condition and {states} states",
        body.output.len()
    );
    let scans = body.output.len() - 1 - states;
    ensure!(
        node.output.len() <= states + scans,
        "it has {} outputs, but its body produces {states} states and {scans} scan outputs",
        node.output.len()
    );
    for value in inputs.iter().copied().chain(&body.output) {
        ensure!(
            is_tensor(value),
            "{:?} of its body is a sequence, a map or an optional, expected a tensor",
            value.name
        );
    }

    let state_types = inputs[2..]
        .iter()
        .map(|input| element_type(input))
        .collect();
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    let body = self_contained(body, &names);
    let ParseResult {
        model,
        unresolved_inputs,
        ..
    } = ctx.parse_graph(&body).context("reading its body")?;
    let mut captured = Vec::new();
    let feeds = unresolved_inputs
        .into_iter()
        .map(|name| match names.iter().position(|input| *input == name) {
            Some(0) => BodyInput::Step,
            Some(1) => BodyInput::Condition,
            Some(state) => BodyInput::State(state - 2),
            None => {
                captured.push(name);
                BodyInput::Captured(captured.len() - 1)
            }
        })
        .collect();
    let outputs = node.output.iter().enumerate();
    let source = Source::of(ctx, node, &captured);
    let op = OnnxLoop {
        node: node.name.clone(),
        has_trip_count: has_input(0),
        has_condition: has_input(1),
        states,
        state_types,
        body: model,
        body_inputs: feeds,
        outputs: outputs
            .filter(|(_, name)| !name.is_empty())
            .map(|(index, _)| index)
            .collect(),
        limits: LoadOptions::of(ctx).limits,
        sizes: SizeSymbols::new(ctx),
        solved: Arc::default(),
        source,
    };
    Ok((Box::new(op), captured))
}

/// The body's inputs that the loop feeds.
fn body_inputs(body: &GraphProto, expected: usize) -> TractResult<Vec<&ValueInfoProto>> {
    let mut inputs: Vec<&ValueInfoProto> = body.input.iter().collect();
    if inputs.len() > expected {
        // Before IR version 4, initializers had to be inputs as well.
        let stored: HashSet<&str> = body.initializer.iter().map(|t| t.name.as_str()).collect();
        inputs.retain(|input| !stored.contains(input.name.as_str()));
    }
    ensure!(
        inputs.len() == expected,
        "its body has {} inputs, expected a step, a condition and {} states",
        inputs.len(),
        expected - 2
    );
    Ok(inputs)
}

/// Whether a value may be a tensor. tract knows no other types, and reads them as absent.
fn is_tensor(value: &ValueInfoProto) -> bool {
    value
        .r#type
        .as_ref()
        .is_none_or(|value_type| value_type.value.is_some())
}
