//! A Scan of opset 8, which iterates over each sequence of a batch, one whose body declares no types, or
//! one in whose body sizes come from data, to Loops: tract reads none of them.
//!
//! A scan input becomes a Gather at the step's number in the body, from the last to the first
//! element if it is read backwards. In opset 8 there is a Loop over the batch around it, whose scan
//! outputs are padded with zeros up to the axis's size; a batch of one sequence needs none. Any
//! other Scan stays one, with its axes counted from the front, and loses the constants that its body lists among its
//! inputs.
//!
//! ```text
//! Scan(x) { y = f(state, x_t) }  →  Loop(steps of x) { x_t = Gather(x, step); y = f(state, x_t) }
//! ```

use buffa::MessageField;

use super::edit;
use crate::constant;
use crate::emit::Emit;
use crate::model::{
    self, AttributeProto, AttributeType, BOOL, GraphProto, INT64, LoopLayout, NodeProto,
    TensorProto, ValueInfoProto,
};
use crate::pass::{At, Left, Other, Pass, Verdict};
use crate::rename::identity;
use crate::sizes::{self, Size};

pub(super) const PASS: Pass = Pass::exact(
    "scan",
    "A Scan of version 8, without types, with sizes from data or of outputs in both directions, to Loops",
    find,
)
.of(&["Scan"]);

/// Every Scan that stays one, for runtimes that have only Loop.
pub(crate) const LOOP: Pass = Pass::exact("scan-loop", "A Scan, to a Loop", |at| {
    match at.context.waits {
        true => Err(Left::Later),
        false => as_loop(at),
    }
})
.of(&["Scan"]);

/// The only opset in which a Scan has a leading batch axis.
pub(crate) const BATCHED: i64 = 8;

/// The first opset in which a Loop may have no states.
const LOOP_WITHOUT_STATES: i64 = 11;

/// Operators whose sizes come from data.
const OF_DATA: [&str; 4] = ["Compress", "NonMaxSuppression", "NonZero", "Unique"];

/// The parts of a Scan.
struct ScanParts<'a> {
    body: &'a GraphProto,
    /// The sequence lengths, in opset 8.
    lengths: Option<&'a str>,
    /// The initial states.
    states: Vec<String>,
    scanned: Vec<ScanInput>,
    /// The final states, and the scan outputs.
    outputs: Vec<&'a str>,
}

/// A scan input.
#[derive(Clone)]
struct ScanInput {
    value: String,
    axis: i64,
    is_reverse: bool,
}

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let untyped = |body: &GraphProto| body.input.iter().any(|input| input.r#type.is_unset());
    // tract reverses all outputs, if it does one.
    let is_mixed = |directions: &[i64]| directions.contains(&0) && directions.contains(&1);
    let directions = node.ints("scan_output_directions").value();
    // It has the sizes of its first step in all others.
    let makes_sizes = |body: &GraphProto| {
        let mut own = body.node.iter().filter(|node| node.domain().is_empty());
        own.any(|node| OF_DATA.contains(&node.op()))
    };
    let body = node.graph("body");
    if scope.opset != BATCHED
        && !body.is_some_and(|body| untyped(body) || makes_sizes(body))
        && !directions.is_some_and(is_mixed)
    {
        return plain(at);
    }
    as_loop(at)
}

fn as_loop(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let is_batched = scope.opset == BATCHED;
    let parts = ScanParts::of(node, is_batched)
        .ok_or("its inputs, outputs and body do not fit together")?;
    let mut labels = parts.outputs.iter().filter(|name| !name.is_empty());
    let emit = at.emit(labels.next().ok_or(Other)?);
    let has_reverse = parts.scanned.iter().any(|it| it.is_reverse);
    if parts.lengths.is_some() && has_reverse {
        return Err("it iterates backwards over sequences of different lengths".into());
    }
    let is_alone = || {
        let batch = sizes::axis(scope, &parts.scanned[0].value, 0);
        parts.lengths.is_none() && batch == Some(Size::Known(1))
    };
    let what = if is_batched && is_alone() {
        parts.write_batch_of_one(&emit);
        "a Loop over the steps of its one sequence"
    } else if is_batched {
        parts.write_batched(&emit)?;
        "a Loop over the batch around one over the steps"
    } else {
        parts.write_alone(at, &emit)?;
        "a Loop"
    };
    emit.finish(what)
}

/// A Scan that stays one, without what tract does not read: initializers among the inputs of its body, which it
/// counts as fed, and axes that are counted from the end where the body declares no sizes.
fn plain(at: &At<'_>) -> Verdict {
    let node = at.node;
    let body = node.graph("body").ok_or(Other)?;
    let layout = LoopLayout::of(node).ok_or(Other)?;
    let mut moved = Vec::new();
    for (list, values) in [
        ("scan_input_axes", &node.input),
        ("scan_output_axes", &node.output),
    ] {
        let axes = from_front(at, list, layout.states, values)?;
        if node.ints(list).value().is_some_and(|old| old != axes) {
            moved.push((list, axes));
        }
    }
    let inputs = fed(body);
    let has_constants = inputs.len() < body.input.len();
    if moved.is_empty() && !has_constants {
        return Err(Other);
    }
    let mut scan = node.clone();
    for attribute in &mut scan.attribute {
        if let Some(at) = moved.iter().position(|(list, _)| attribute.name() == *list) {
            attribute.ints = moved.swap_remove(at).1;
        }
    }
    if has_constants {
        let inputs: Vec<ValueInfoProto> = inputs.into_iter().cloned().collect();
        for body in scan.graphs_mut() {
            body.input.clone_from(&inputs);
        }
    }
    let what =
        "the same with axes counted from the front, and no constants among its body's inputs";
    edit(vec![scan], what.to_owned())
}

/// A list of axes, one for each value behind the states, counted from the front.
fn from_front(at: &At<'_>, list: &str, states: usize, values: &[String]) -> Result<Vec<i64>, Left> {
    let axes = at.node.ints(list).or(&[]).unwrap_or(&[]);
    let axes = axes.iter().enumerate().map(|(index, &axis)| {
        let value = values.get(states + index).filter(|it| !it.is_empty());
        match value {
            Some(value) if axis < 0 => {
                let rank = sizes::rank(at.scope, value)?;
                Some(constant::normal_axis(axis, rank)? as i64)
            }
            _ => Some(axis.max(0)),
        }
    });
    let axes: Option<Vec<i64>> = axes.collect();
    let why =
        || format!("its {list} count from the end, beyond a rank or where that is unknown").into();
    axes.ok_or_else(why)
}

/// The inputs of a body that are not initializers as well, as they had to be before IR version 4.
fn fed(body: &GraphProto) -> Vec<&ValueInfoProto> {
    let is_stored = |input: &ValueInfoProto| body.tensors().any(|name| name == input.name());
    let inputs = body.input.iter();
    inputs.filter(|input| !is_stored(input)).collect()
}

impl<'a> ScanParts<'a> {
    fn of(node: &'a NodeProto, is_batched: bool) -> Option<Self> {
        let body = node.graph("body")?;
        let count = usize::try_from(node.int("num_scan_inputs").value()?).ok()?;
        let has_lengths = is_batched && !node.input.is_empty();
        let lengths = node.input(0).filter(|_| has_lengths);
        let mut inputs = node.input[usize::from(has_lengths)..].to_vec();
        let scanned = inputs.split_off(inputs.len().checked_sub(count)?);
        let axes = node.ints("scan_input_axes").or(&[])?;
        let directions = match is_batched {
            true => node.ints("directions").or(&[])?,
            false => node.ints("scan_input_directions").or(&[])?,
        };
        let scanned = scanned.into_iter().enumerate();
        let scanned = scanned.map(|(index, value)| ScanInput {
            value,
            axis: axes.get(index).copied().unwrap_or(0),
            is_reverse: directions.get(index) == Some(&1),
        });
        let outputs = 0..body.output.len();
        let outputs = outputs.map(|index| node.output.get(index).map_or("", String::as_str));
        let parts = Self {
            body,
            lengths,
            states: inputs,
            scanned: scanned.collect(),
            outputs: outputs.collect(),
        };
        let expected = parts.states.len() + parts.scanned.len();
        let have_values = parts.states.iter().all(|state| !state.is_empty());
        (count > 0
            && have_values
            && fed(body).len() == expected
            && body.output.len() >= parts.states.len())
        .then_some(parts)
    }

    /// The initial states and the scan inputs with other values.
    fn map(&self, mut map: impl FnMut(&str) -> String) -> (Vec<String>, Vec<ScanInput>) {
        let states = self.states.iter().map(|it| map(it)).collect();
        let scanned = self.scanned.iter().map(|it| ScanInput {
            value: map(&it.value),
            ..it.clone()
        });
        (states, scanned.collect())
    }

    /// A Loop over the steps of a batch of one, as tf2onnx writes it around the model's own batch.
    fn write_batch_of_one(&self, emit: &Emit<'_>) {
        let (states, scanned) = self.map(|value| emit.squeeze(value, &[0]));
        let steps = emit.size(&scanned[0].value, 0);
        let names = self.outputs.iter().map(|name| match name.is_empty() {
            true => String::new(),
            false => emit.name("alone"),
        });
        let names: Vec<String> = names.collect();
        self.write_steps(emit, &steps, &states, &scanned, &names);
        for (output, name) in std::iter::zip(&self.outputs, &names) {
            if !output.is_empty() {
                emit.give(output, emit.unsqueeze(name, &[0]));
            }
        }
    }

    /// A Loop over the batch around a Loop over the steps.
    fn write_batched(&self, emit: &Emit<'_>) -> Result<(), String> {
        let [batch, steps] = [0, 1].map(|axis| emit.size(&self.scanned[0].value, axis));
        let (entry, condition) = (emit.name("entry"), emit.name("condition"));
        let names: Vec<String> = self.body.outputs().map(|name| emit.name(name)).collect();
        let mut written = Ok(());
        let nodes = emit.within(|| {
            let mut of_entry = |value: &str| emit.op("Gather", (value, &entry));
            let (states, scanned) = self.map(&mut of_entry);
            let length = self.lengths.map(of_entry);
            let Some(length) = length else {
                self.write_steps(emit, &steps, &states, &scanned, &names);
                return;
            };
            let mut unpadded = names.clone();
            let stacked = self.body.outputs().zip(&mut unpadded).skip(states.len());
            for (output, name) in stacked {
                *name = emit.name(output);
            }
            self.write_steps(emit, &length, &states, &scanned, &unpadded);
            let missing = emit.op("Sub", (&steps, length));
            let missing = emit.unsqueeze(&missing, &[0]);
            let all = std::iter::zip(&unpadded, &names).zip(&self.body.output);
            for ((value, name), output) in all.skip(states.len()) {
                match model::element_type(output).and_then(model::zero) {
                    Some(zero) => emit.give(name, padded(emit, value, &missing, zero)),
                    None => written = Err("the types that its body stacks are unknown".to_owned()),
                }
            }
        });
        written?;
        let outputs = names.iter().map(|name| model::untyped(name));
        let body = GraphProto {
            name: Some(emit.name("batch")),
            node: nodes,
            input: vec![scalar(&entry, INT64), scalar(&condition, BOOL)],
            output: outputs.collect(),
            ..GraphProto::default()
        };
        write_loop(emit, [&batch, &condition], &[], body, &self.outputs);
        Ok(())
    }

    /// A Loop in place of a Scan that has no batch of its own.
    fn write_alone(&self, at: &At<'_>, emit: &Emit<'_>) -> Result<(), Left> {
        let node = at.node;
        let axes = from_front(at, "scan_output_axes", self.states.len(), &node.output)?;
        let directions = node.ints("scan_output_directions").or(&[]).unwrap_or(&[]);
        let steps = emit.size(&self.scanned[0].value, self.scanned[0].axis);
        let mut names: Vec<String> = self.outputs.iter().map(|&name| name.to_owned()).collect();
        let mut moved = Vec::new();
        for (index, name) in names[self.states.len()..].iter_mut().enumerate() {
            let axis = axes.get(index).copied().unwrap_or(0);
            let is_reverse = directions.get(index) == Some(&1);
            if name.is_empty() || axis == 0 && !is_reverse {
                continue;
            }
            let output = std::mem::replace(name, emit.name("stacked"));
            let axis = axis as usize;
            let rank = match axis {
                0 => Some(1),
                _ => sizes::rank(at.scope, &output),
            };
            let rank = rank.filter(|&rank| axis < rank).ok_or_else(|| {
                format!("it stacks output {output:?} along axis {axis}, beyond its rank or where that is unknown")
            })?;
            moved.push((output, name.clone(), is_reverse, axis, rank));
        }
        self.write_steps(emit, &steps, &self.states, &self.scanned, &names);
        for (output, mut stacked, is_reverse, axis, rank) in moved {
            if is_reverse {
                stacked = emit.flip(&stacked, 0);
            }
            emit.give(&output, emit.move_axis(&stacked, rank, 0, axis));
        }
        Ok(())
    }

    fn write_steps(
        &self,
        emit: &Emit<'_>,
        steps: &str,
        states: &[String],
        scanned: &[ScanInput],
        outputs: &[String],
    ) {
        let (step, condition) = (emit.name("step"), emit.name("condition"));
        let inputs = fed(self.body);
        let (fed, read) = inputs.split_at(states.len());
        let mut nodes = emit.within(|| {
            let is_reverse = scanned.iter().any(|it| it.is_reverse);
            let back = is_reverse.then(|| emit.op("Sub", (emit.op("Sub", (steps, 1)), &step)));
            for (scanned, input) in scanned.iter().zip(read) {
                let at = back.as_ref().filter(|_| scanned.is_reverse);
                let read = emit.gather(&scanned.value, at.unwrap_or(&step), scanned.axis);
                emit.give(input.name(), read);
            }
        });
        nodes.extend(self.body.node.iter().cloned());
        let mut body = self.body.clone();
        let stored = self.body.input.iter().filter(|it| !inputs.contains(it));
        body.input = vec![scalar(&step, INT64), scalar(&condition, BOOL)];
        body.input
            .extend(fed.iter().copied().chain(stored).cloned());
        body.node = nodes;
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let states: Vec<&str> = states.iter().map(String::as_str).collect();
        write_loop(emit, [steps, &condition], &states, body, &outputs);
    }
}

/// Writes a Loop that never ends early; `condition` is an input of its body.
fn write_loop(
    emit: &Emit<'_>,
    [steps, condition]: [&str; 2],
    states: &[&str],
    mut body: GraphProto,
    outputs: &[&str],
) {
    let (mut states, mut outputs) = (states.to_vec(), outputs.to_vec());
    let dummy = ["state", "state_out", "state_last"].map(|it| emit.name(it));
    let zero;
    if states.is_empty() && emit.opset() < LOOP_WITHOUT_STATES {
        zero = emit.constant(&[], &[0]);
        states.push(&zero);
        outputs.insert(0, &dummy[2]);
        body.node.push(identity(&dummy[0], &dummy[1]));
        body.input.push(scalar(&dummy[0], INT64));
        body.output.insert(0, scalar(&dummy[1], INT64));
    }
    let on = emit.name("condition_out");
    body.node.push(identity(condition, &on));
    body.output.insert(0, scalar(&on, BOOL));
    let body = AttributeProto {
        g: MessageField::some(body),
        ..model::attribute("body", AttributeType::GRAPH)
    };
    emit.write(&outputs, "Loop", (steps, "", states), vec![body]);
}

/// A value with zeros behind it.
fn padded(emit: &Emit<'_>, value: &str, missing: &str, zero: TensorProto) -> String {
    let shape = emit.concat((missing, emit.sizes(value, 1, i64::MAX)), 0);
    let zeros = emit.op("Expand", (emit.tensor(zero), shape));
    emit.concat((value, zeros), 0)
}

fn scalar(name: &str, code: i32) -> ValueInfoProto {
    model::value(name, code, &[])
}
