//! A Scan of opset 8, which iterates over each sequence of a batch, one whose body declares no types, or
//! one in whose body sizes come from data, to Loops: tract reads none of them.
//!
//! A scan input becomes a Gather at the step's number in the body, from the last to the first
//! element if it is read backwards. In opset 8 there is a Loop over the batch around it, whose scan
//! outputs are padded with zeros up to the axis's size; a batch of one sequence needs none. Any
//! other Scan stays one, and only loses the constants that its body lists among its inputs.
//!
//! ```text
//! Scan(x) { y = f(state, x_t) }  →  Loop(steps of x) { x_t = Gather(x, step); y = f(state, x_t) }
//! ```

use buffa::MessageField;

use crate::emit::Emit;
use crate::model::{
    self, Attribute, AttributeProto, AttributeType, BOOL, GraphProto, INT64, NodeProto,
    TensorProto, ValueInfoProto, type_proto,
};
use crate::onnx::{TensorShapeProto, TypeProto};
use crate::pass::{Context, Edit, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};

pub(super) const PASS: Pass = Pass::exact(
    "scan",
    "A Scan of version 8, without types, with sizes from data or of outputs in both directions, to Loops",
    find,
);

/// Every Scan, for runtimes that have only Loop.
pub(crate) const LOOP: Pass = Pass::exact("scan-loop", "A Scan, to a Loop", find_any);

/// The only opset in which a Scan has a leading batch axis.
pub(crate) const BATCHED: i64 = 8;

/// The first opset in which a Loop may have no states.
const LOOP_WITHOUT_STATES: i64 = 11;

/// Operators whose sizes come from data.
const OF_DATA: [&str; 4] = ["Compress", "NonMaxSuppression", "NonZero", "Unique"];

/// The parts of a Scan.
struct Parts<'a> {
    body: &'a GraphProto,
    /// The sequence lengths, in opset 8.
    lengths: Option<&'a str>,
    /// The initial states.
    states: Vec<&'a str>,
    scanned: Vec<Scanned<'a>>,
    /// The final states, and the scan outputs.
    outputs: Vec<&'a str>,
}

/// A scan input.
#[derive(Clone, Copy)]
struct Scanned<'a> {
    value: &'a str,
    axis: i64,
    is_reverse: bool,
}

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !node.is("Scan") {
        return Verdict::Other;
    }
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
        return without_constants(node);
    }
    as_loop(scope, node, names)
}

fn find_any(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    match &scope.nodes[index] {
        node if node.is("Scan") => as_loop(scope, node, names),
        _ => Verdict::Other,
    }
}

fn as_loop(scope: &Scope<'_>, node: &NodeProto, names: &mut Names) -> Verdict {
    let is_batched = scope.opset == BATCHED;
    let Some(parts) = Parts::of(node, is_batched) else {
        return Verdict::Left("its inputs, outputs and body do not fit together".to_owned());
    };
    let Some(label) = parts.outputs.iter().find(|name| !name.is_empty()) else {
        return Verdict::Other;
    };
    let mut emit = Emit::new(label, scope.opset, names);
    let has_reverse = parts.scanned.iter().any(|it| it.is_reverse);
    if parts.lengths.is_some() && has_reverse {
        return Verdict::Left(
            "it iterates backwards over sequences of different lengths".to_owned(),
        );
    }
    let is_alone = || {
        let batch = sizes::axis(scope, parts.scanned[0].value, 0);
        parts.lengths.is_none() && batch == Some(Size::Known(1))
    };
    let (written, what) = if is_batched && is_alone() {
        parts.write_batch_of_one(&mut emit);
        (Ok(()), "a Loop over the steps of its one sequence")
    } else if is_batched {
        let what = "a Loop over the batch around one over the steps";
        (parts.write_batched(&mut emit), what)
    } else {
        (parts.write_alone(&mut emit, node), "a Loop")
    };
    match written {
        Ok(()) => emit.finish(what.to_owned()),
        Err(why) => Verdict::Left(why),
    }
}

/// A Scan whose body has no initializers among its inputs: tract counts them as fed.
fn without_constants(node: &NodeProto) -> Verdict {
    let Some(body) = node.graph("body") else {
        return Verdict::Other;
    };
    let inputs = fed(body);
    if inputs.len() == body.input.len() {
        return Verdict::Other;
    }
    let inputs: Vec<ValueInfoProto> = inputs.into_iter().cloned().collect();
    let mut scan = node.clone();
    for body in scan.graphs_mut() {
        body.input.clone_from(&inputs);
    }
    Verdict::Edit(Edit {
        nodes: vec![scan],
        what: "the same without constants among its body's inputs".to_owned(),
        ..Edit::default()
    })
}

/// The inputs of a body that are not initializers as well, as they had to be before IR version 4.
fn fed(body: &GraphProto) -> Vec<&ValueInfoProto> {
    let is_stored = |input: &ValueInfoProto| {
        let mut stored = body.initializer.iter();
        stored.any(|tensor| tensor.name == input.name)
    };
    let inputs = body.input.iter();
    inputs.filter(|input| !is_stored(input)).collect()
}

impl<'a> Parts<'a> {
    fn of(node: &'a NodeProto, is_batched: bool) -> Option<Self> {
        let body = node.graph("body")?;
        let count = usize::try_from(node.int("num_scan_inputs").value()?).ok()?;
        let mut inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
        let lengths = is_batched
            .then(|| (!inputs.is_empty()).then(|| inputs.remove(0)))
            .flatten();
        let scanned = inputs.split_off(inputs.len().checked_sub(count)?);
        let list = |name: &str| match node.ints(name) {
            Attribute::Absent => Some(&[][..]),
            Attribute::Value(values) => Some(values),
            Attribute::Reference => None,
        };
        let axes = list("scan_input_axes")?;
        let directions = list(if is_batched {
            "directions"
        } else {
            "scan_input_directions"
        })?;
        let scanned = scanned
            .into_iter()
            .enumerate()
            .map(|(index, value)| Scanned {
                value,
                axis: axes.get(index).copied().unwrap_or(0),
                is_reverse: directions.get(index) == Some(&1),
            });
        let outputs = (0..body.output.len())
            .map(|index| node.output.get(index).map_or("", String::as_str))
            .collect();
        let parts = Self {
            body,
            lengths: lengths.filter(|name| !name.is_empty()),
            states: inputs,
            scanned: scanned.collect(),
            outputs,
        };
        let expected = parts.states.len() + parts.scanned.len();
        let given = parts.states.iter().all(|state| !state.is_empty());
        (count > 0
            && given
            && fed(body).len() == expected
            && body.output.len() >= parts.states.len())
        .then_some(parts)
    }

    /// Maps the initial states and the sequences.
    fn each_input(&self, mut map: impl FnMut(&str) -> String) -> (Vec<String>, Vec<String>) {
        let states = self.states.iter().map(|&it| map(it)).collect();
        (
            states,
            self.scanned.iter().map(|it| map(it.value)).collect(),
        )
    }

    /// Returns the initial states in place of its own, and the scan inputs with other sequences.
    fn with_values<'v>(
        &self,
        states: &'v [String],
        sequences: &'v [String],
    ) -> (Vec<&'v str>, Vec<Scanned<'v>>) {
        let scanned = std::iter::zip(&self.scanned, sequences);
        let scanned = scanned.map(|(scanned, value)| Scanned { value, ..*scanned });
        let states = states.iter().map(String::as_str);
        (states.collect(), scanned.collect())
    }

    /// A Loop over the steps of a batch of one, as tf2onnx writes it around the model's own batch.
    fn write_batch_of_one(&self, emit: &mut Emit<'_>) {
        let (states, sequences) = self.each_input(|value| emit.squeeze(value, &[0]));
        let shape = emit.plain("Shape", &[&sequences[0]]);
        let axis = emit.scalar(0);
        let steps = emit.plain("Gather", &[&shape, &axis]);
        let names: Vec<String> = (self.outputs.iter())
            .map(|name| match name.is_empty() {
                true => String::new(),
                false => emit.name("alone"),
            })
            .collect();
        let (states, scanned) = self.with_values(&states, &sequences);
        self.write_steps(emit, &steps, &states, &scanned, &names);
        for (output, name) in std::iter::zip(&self.outputs, &names) {
            if !output.is_empty() {
                emit.unsqueeze_into(output, name, &[0]);
            }
        }
    }

    /// A Loop over the batch around a Loop over the steps.
    fn write_batched(&self, emit: &mut Emit<'_>) -> Result<(), String> {
        let shape = emit.plain("Shape", &[self.scanned[0].value]);
        let [batch, steps] = [0, 1].map(|axis| {
            let axis = emit.scalar(axis);
            emit.plain("Gather", &[&shape, &axis])
        });
        let (entry, condition) = (emit.name("entry"), emit.name("condition"));
        let names: Vec<String> = (self.body.output.iter())
            .map(|output| emit.name(output.name.as_deref().unwrap_or_default()))
            .collect();
        let mut written = Ok(());
        let nodes = emit.within(|emit| {
            let mut of_entry = |value: &str| emit.plain("Gather", &[value, &entry]);
            let (states, sequences) = self.each_input(&mut of_entry);
            let length = self.lengths.map(of_entry);
            let (states, scanned) = self.with_values(&states, &sequences);
            let Some(length) = length else {
                self.write_steps(emit, &steps, &states, &scanned, &names);
                return;
            };
            let mut unpadded = names.clone();
            for (output, name) in self
                .body
                .output
                .iter()
                .zip(&mut unpadded)
                .skip(states.len())
            {
                *name = emit.name(output.name.as_deref().unwrap_or_default());
            }
            self.write_steps(emit, &length, &states, &scanned, &unpadded);
            let missing = emit.plain("Sub", &[&steps, &length]);
            let missing = emit.unsqueeze(&missing, &[0]);
            let all = std::iter::zip(&unpadded, &names).zip(&self.body.output);
            for ((value, name), output) in all.skip(states.len()) {
                match model::element_type(output).and_then(model::zero) {
                    Some(zero) => pad(emit, [value, &missing, name], zero),
                    None => written = Err("the types that its body stacks are unknown".to_owned()),
                }
            }
        });
        written?;
        let inputs = vec![scalar(&entry, INT64), scalar(&condition, BOOL)];
        let outputs = names.iter().map(|name| model::untyped(name)).collect();
        let body = GraphProto {
            name: Some(emit.name("batch")),
            node: nodes,
            input: inputs,
            output: outputs,
            ..GraphProto::default()
        };
        write_loop(emit, [&batch, &condition], &[], body, &self.outputs);
        Ok(())
    }

    /// A Loop in place of a Scan that has no batch of its own.
    fn write_alone(&self, emit: &mut Emit<'_>, node: &NodeProto) -> Result<(), String> {
        let list = |name: &str| node.ints(name).or(&[]).unwrap_or(&[]);
        if list("scan_output_axes").iter().any(|&axis| axis != 0) {
            return Err("a Loop stacks along the first axis, and it along another".to_owned());
        }
        let first = self.scanned[0];
        let shape = emit.plain("Shape", &[first.value]);
        let axis = emit.scalar(first.axis);
        let steps = emit.plain("Gather", &[&shape, &axis]);
        let mut names: Vec<String> = self.outputs.iter().map(|&name| name.to_owned()).collect();
        let mut reversed = Vec::new();
        for (index, &direction) in list("scan_output_directions").iter().enumerate() {
            let output = self.states.len() + index;
            if direction == 1 && names.get(output).is_some_and(|name| !name.is_empty()) {
                names[output] = emit.name("forward");
                reversed.push(output);
            }
        }
        self.write_steps(emit, &steps, &self.states, &self.scanned, &names);
        for output in reversed {
            emit.flip_into(self.outputs[output], &names[output], 0);
        }
        Ok(())
    }

    fn write_steps(
        &self,
        emit: &mut Emit<'_>,
        steps: &str,
        states: &[&str],
        scanned: &[Scanned<'_>],
        outputs: &[String],
    ) {
        let (step, condition) = (emit.name("step"), emit.name("condition"));
        let inputs = fed(self.body);
        let (fed, read) = inputs.split_at(states.len());
        let mut nodes = emit.within(|emit| {
            let is_reverse = scanned.iter().any(|it| it.is_reverse);
            let back = is_reverse.then(|| {
                let one = emit.scalar(1);
                let last = emit.plain("Sub", &[steps, &one]);
                emit.plain("Sub", &[&last, &step])
            });
            for (scanned, input) in scanned.iter().zip(read) {
                let at = match &back {
                    Some(back) if scanned.is_reverse => back,
                    _ => &step,
                };
                let output = input.name.as_deref().unwrap_or_default();
                let axis = vec![model::int("axis", scanned.axis)];
                emit.write(&[output], "Gather", &[scanned.value, at], axis);
            }
        });
        nodes.extend(self.body.node.iter().cloned());
        let mut body = self.body.clone();
        let stored = self.body.input.iter().filter(|it| !inputs.contains(it));
        let own = [scalar(&step, INT64), scalar(&condition, BOOL)].into_iter();
        body.input = own
            .chain(fed.iter().map(|&it| it.clone()))
            .chain(stored.cloned())
            .collect();
        body.node = nodes;
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        write_loop(emit, [steps, &condition], states, body, &outputs);
    }
}

/// Writes a Loop that never ends early; `condition` is an input of its body.
fn write_loop(
    emit: &mut Emit<'_>,
    [steps, condition]: [&str; 2],
    states: &[&str],
    mut body: GraphProto,
    outputs: &[&str],
) {
    let (mut states, mut outputs) = (states.to_vec(), outputs.to_vec());
    let dummy = [
        emit.name("state"),
        emit.name("state_out"),
        emit.name("state_last"),
    ];
    let zero;
    if states.is_empty() && emit.opset() < LOOP_WITHOUT_STATES {
        zero = emit.scalar(0);
        states.push(&zero);
        outputs.insert(0, &dummy[2]);
        let keep = model::node("Identity", &[&dummy[0]], &[&dummy[1]], Vec::new());
        body.node.push(keep);
        body.input.push(scalar(&dummy[0], INT64));
        body.output.insert(0, scalar(&dummy[1], INT64));
    }
    let on = emit.name("condition_out");
    let go_on = model::node("Identity", &[condition], &[&on], Vec::new());
    body.node.push(go_on);
    body.output.insert(0, scalar(&on, BOOL));
    let inputs: Vec<&str> = [steps, ""].into_iter().chain(states).collect();
    let body = AttributeProto {
        name: Some("body".to_owned()),
        r#type: Some(AttributeType::GRAPH),
        g: MessageField::some(body),
        ..AttributeProto::default()
    };
    emit.write(&outputs, "Loop", &inputs, vec![body]);
}

/// Appends zeros to a value.
fn pad(emit: &mut Emit<'_>, [value, missing, output]: [&str; 3], zero: TensorProto) {
    let zero = emit.tensor(zero);
    let shape = emit.plain("Shape", &[value]);
    let sizes = emit.range(&shape, 0, 1, i64::MAX);
    let first = vec![model::int("axis", 0)];
    let shape = emit.op("Concat", &[missing, &sizes], first.clone());
    let zeros = emit.plain("Expand", &[&zero, &shape]);
    emit.write(&[output], "Concat", &[value, &zeros], first);
}

fn scalar(name: &str, code: i32) -> ValueInfoProto {
    let tensor = type_proto::Tensor {
        elem_type: Some(code),
        shape: MessageField::some(TensorShapeProto::default()),
        ..type_proto::Tensor::default()
    };
    ValueInfoProto {
        r#type: MessageField::some(TypeProto {
            value: Some(type_proto::Value::TensorType(Box::new(tensor))),
            ..TypeProto::default()
        }),
        ..model::untyped(name)
    }
}
