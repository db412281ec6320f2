//! Random loops as frameworks write them for recurrent layers, and near misses: after `revseq
//! rewrite --fast` they give the same outputs.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, type_proto,
};

use crate::common::{
    BOOL, FLOAT, INT64, graph_attribute, int, model, node, rewrite_and_check, tensor, value,
};
use crate::ort::onnxruntime;

/// The features of the input.
const WIDTH: usize = 3;

/// Functions of a cell, all but the last two smooth and bounded.
const FUNCTIONS: [&str; 5] = ["Tanh", "Sigmoid", "Softsign", "HardSigmoid", "Relu"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum CellKind {
    Rnn,
    /// Its new state is one of six forms of a mixture; in the last three the gate is opposite.
    Gru {
        reset_after: bool,
        mixture: usize,
    },
    Lstm,
}

/// The steps that count.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mask {
    None,
    /// Steps that a value of the caller's marks.
    Any,
    /// Steps before a length, by a mask that the graph makes of it.
    Prefix,
    /// Steps before a length, by a comparison in each step.
    Lengths,
}

/// The element type of a mask, and what its numbers may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Numbers {
    Truths,
    /// The numbers 0 and 1 as float32, or as int64.
    Floats,
    Integers,
    /// The number 0, and others than 1, as int64.
    Any,
}

/// The output of a masked step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Masked {
    Repeated,
    State,
    Zero,
}

/// A change that makes a loop no layer, or another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Near {
    /// The loop reads the step before.
    Behind,
    /// A difference stands for a sum.
    Difference,
    /// Its output is negated.
    Negated,
    /// Its weights are computed.
    Computed,
    /// The loop ends before the last step.
    Early,
    /// The mask of the step before counts.
    MaskBehind,
}

#[derive(Clone, Copy, Debug)]
struct Layer {
    kind: CellKind,
    units: usize,
    functions: [usize; 2],
    bias: bool,
    /// One product of the input and the state, concatenated.
    joined: bool,
    /// A Scan in place of a Loop.
    scan: bool,
    /// The input is batch-major.
    batch_first: bool,
    backwards: bool,
    mask: Mask,
    numbers: Numbers,
    by_products: bool,
    masked: Masked,
    /// The states begin with other values than 0.
    begins: bool,
    /// The states after the last step are read.
    last: bool,
    /// The last output is kept with an axis in front, as in TFLite's lists of one element.
    buffered: bool,
    /// The state's product loses the axis of a batch of one.
    squeezed: bool,
    /// The form in which the condition says when the loop ends, if it does.
    end: usize,
    /// The layer reads the output of the layer before, if that is plain.
    stacked: bool,
    near: Option<Near>,
}

fn layers() -> impl Strategy<Value = Layer> {
    let kind = prop_oneof![
        Just(CellKind::Rnn),
        (any::<bool>(), 0..6_usize).prop_map(|(reset_after, mixture)| CellKind::Gru {
            reset_after,
            mixture
        }),
        Just(CellKind::Lstm),
    ];
    let mask = prop_oneof![
        Just(Mask::None),
        Just(Mask::Any),
        Just(Mask::Prefix),
        Just(Mask::Lengths),
    ];
    let numbers = prop_oneof![
        3 => Just(Numbers::Truths),
        1 => Just(Numbers::Floats),
        1 => Just(Numbers::Integers),
        1 => Just(Numbers::Any),
    ];
    let masked = prop_oneof![
        Just(Masked::Repeated),
        Just(Masked::State),
        Just(Masked::Zero)
    ];
    let near = prop_oneof![
        Just(Near::Behind),
        Just(Near::Difference),
        Just(Near::Negated),
        Just(Near::Computed),
        Just(Near::Early),
        Just(Near::MaskBehind),
    ];
    let functions = [0..FUNCTIONS.len(), 0..FUNCTIONS.len()];
    (
        (kind, 1..4_usize, functions, any::<[bool; 5]>()),
        (any::<[bool; 6]>(), (mask, numbers), masked, 0..4_usize),
        proptest::option::weighted(0.25, near),
        proptest::bool::weighted(0.3),
    )
        .prop_map(|(cell, read, near, stacked)| {
            // Joined operands have a single product.
            let possible =
                |near: &Near| !cell.3[1] || !matches!(near, Near::Difference | Near::Computed);
            let near = near.filter(possible);
            let (kind, units, functions, [bias, joined, scan, batch_first, backwards]) = cell;
            let (flags, (mask, numbers), masked, end) = read;
            let [by_products, begins, last, lengths, buffered, squeezed] = flags;
            Layer {
                kind,
                units,
                functions,
                bias,
                joined,
                scan,
                batch_first,
                // Lengths of a reversal are not those of a layer.
                backwards: backwards && (mask != Mask::Lengths || !lengths),
                mask,
                numbers,
                by_products,
                masked,
                begins,
                last,
                // A value that is 0 if the last step is masked is no state of a layer.
                buffered: buffered && !scan && (mask == Mask::None || masked != Masked::Zero),
                // ONNX Runtime needs the sizes of a Scan's states.
                squeezed: squeezed && !scan,
                end,
                stacked,
                near,
            }
        })
}

impl Layer {
    /// Whether its mask is a tensor.
    fn has_mask(&self) -> bool {
        matches!(self.mask, Mask::Any | Mask::Prefix)
    }

    /// Whether its mask mixes valid and invalid values.
    fn is_mixing(&self) -> bool {
        self.has_mask() && self.by_products && self.numbers == Numbers::Any
    }

    /// Whether it has to be rewritten.
    fn is_plain(&self) -> bool {
        let is_near = match self.near {
            None => false,
            // It is about what there is not.
            Some(Near::MaskBehind) => self.has_mask() && !self.scan,
            Some(Near::Early | Near::Behind) => !self.scan,
            Some(_) => true,
        };
        // Lengths of a reversal are not those of a layer. Where there may be no step, what a buffer
        // begins with is what the layer does.
        let is_flipped = self.backwards && self.mask == Mask::Lengths;
        let is_other = self.buffered && self.begins;
        // 1 less the gate has to be a gate.
        let is_opposite = matches!(self.kind, CellKind::Gru { mixture: 3.., .. });
        let is_symmetric = matches!(FUNCTIONS[self.functions[0]], "Sigmoid" | "HardSigmoid");
        let is_gate = !is_opposite || is_symmetric;
        !is_near && !is_flipped && !is_other && is_gate && !self.is_mixing()
    }
}

/// A graph as it is made; the bodies' names are their own.
pub(crate) struct Graph<'c> {
    pub(crate) nodes: Vec<NodeProto>,
    pub(crate) initializers: Vec<TensorProto>,
    count: &'c Cell<usize>,
}

impl<'c> Graph<'c> {
    pub(crate) fn new(count: &'c Cell<usize>) -> Self {
        Self {
            nodes: Vec::new(),
            initializers: Vec::new(),
            count,
        }
    }

    pub(crate) fn fresh(&self, name: &str) -> String {
        self.count.set(self.count.get() + 1);
        format!("{name}{}", self.count.get())
    }

    pub(crate) fn with(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let output = self.fresh(op);
        let mut made = node(op, inputs, &[&output]);
        made.attribute = attributes;
        self.nodes.push(made);
        output
    }

    pub(crate) fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.with(op, inputs, Vec::new())
    }

    pub(crate) fn initializer(&mut self, data_type: i32, sizes: &[usize], bytes: &[u8]) -> String {
        let name = self.fresh("constant");
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        self.initializers
            .push(tensor(&name, data_type, &sizes, bytes));
        name
    }

    pub(crate) fn ints(&mut self, sizes: &[usize], values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.initializer(INT64, sizes, &bytes)
    }

    pub(crate) fn float(&mut self, value: f32) -> String {
        self.initializer(FLOAT, &[], &value.to_le_bytes())
    }

    /// Weights that are all alike as little as random ones.
    pub(crate) fn weights(&mut self, sizes: &[usize]) -> String {
        let seed = self.count.get();
        let bytes: Vec<u8> = (0..sizes.iter().product())
            .flat_map(|index: usize| {
                let mixed = (index * 37 + seed * 11) % 64;
                (mixed as f32 / 64.0 - 0.5).to_le_bytes()
            })
            .collect();
        self.initializer(FLOAT, sizes, &bytes)
    }
}

pub(crate) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Ints as i32,
        ints: ints.to_vec(),
        ..AttributeProto::default()
    }
}

/// The computation of a step.
struct Step<'g, 'c> {
    body: &'g mut Graph<'c>,
    layer: Layer,
    now: String,
    /// The features of the input.
    width: usize,
}

impl Step<'_, '_> {
    fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.body.op(op, inputs)
    }

    /// The sum of a gate, or of several beside each other.
    fn sum(&mut self, state: &str, gates: usize) -> String {
        let Layer {
            units, near, bias, ..
        } = self.layer;
        let columns = units * gates;
        let now = self.now.clone();
        let sum = if self.layer.joined {
            let joined = self
                .body
                .with("Concat", &[&now, state], vec![int("axis", 1)]);
            let weights = self.body.weights(&[self.width + units, columns]);
            self.op("MatMul", &[&joined, &weights])
        } else {
            let [w, r] = [self.width, units].map(|rows| self.body.weights(&[rows, columns]));
            let r = match near {
                Some(Near::Computed) => self.op("Abs", &[&r]),
                _ => r,
            };
            let fed = self.op("MatMul", &[&now, &w]);
            let mut kept = self.op("MatMul", &[state, &r]);
            // Of one column Squeeze would take that axis, too.
            if self.layer.squeezed && columns > 1 {
                kept = self.op("Squeeze", &[&kept]);
            }
            let op = if near == Some(Near::Difference) {
                "Sub"
            } else {
                "Add"
            };
            self.op(op, &[&fed, &kept])
        };
        if !bias {
            return sum;
        }
        let bias = self.body.weights(&[columns]);
        self.op("Add", &[&bias, &sum])
    }

    fn split(&mut self, sum: &str, parts: usize) -> Vec<String> {
        let outputs: Vec<String> = (0..parts).map(|_| self.body.fresh("part")).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let mut split = node("Split", &[sum], &names);
        split.attribute.push(int("axis", 1));
        self.body.nodes.push(split);
        outputs
    }

    fn function(&mut self, which: usize, input: &str) -> String {
        self.op(FUNCTIONS[self.layer.functions[which]], &[input])
    }

    /// The new output, and the new cell state if there is one.
    fn cell(&mut self, hidden: &str, memory: &str) -> (String, Option<String>) {
        match self.layer.kind {
            CellKind::Rnn => {
                let sum = self.sum(hidden, 1);
                (self.function(1, &sum), None)
            }
            CellKind::Lstm => {
                let sum = self.sum(hidden, 4);
                let gates = self.split(&sum, 4);
                let [i, f, o] = [0, 1, 3].map(|gate| self.function(0, &gates[gate]));
                let g = self.function(1, &gates[2]);
                let kept = self.op("Mul", &[&f, memory]);
                let added = self.op("Mul", &[&i, &g]);
                let memory = self.op("Add", &[&kept, &added]);
                let squashed = self.function(1, &memory);
                (self.op("Mul", &[&o, &squashed]), Some(memory))
            }
            CellKind::Gru {
                reset_after,
                mixture,
            } => {
                let sum = self.sum(hidden, 2);
                let gates = self.split(&sum, 2);
                let [z, r] = [0, 1].map(|gate| self.function(0, &gates[gate]));
                let units = self.layer.units;
                let [w, u] = [self.width, units].map(|rows| self.body.weights(&[rows, units]));
                let now = self.now.clone();
                let fed = self.op("MatMul", &[&now, &w]);
                let kept = if reset_after {
                    let product = self.op("MatMul", &[hidden, &u]);
                    let bias = self.body.weights(&[units]);
                    let product = self.op("Add", &[&product, &bias]);
                    self.op("Mul", &[&r, &product])
                } else {
                    let reset = self.op("Mul", &[hidden, &r]);
                    self.op("MatMul", &[&reset, &u])
                };
                let sum = self.op("Add", &[&kept, &fed]);
                let n = self.function(1, &sum);
                let [kept, other] = match mixture {
                    0..3 => [hidden, &n],
                    _ => [&*n, hidden],
                };
                (self.mixture(mixture % 3, &z, kept, other), None)
            }
        }
    }

    /// z · kept + (1 - z) · other
    fn mixture(&mut self, form: usize, z: &str, kept: &str, other: &str) -> String {
        if form == 0 {
            let one = self.body.float(1.0);
            let rest = self.op("Sub", &[&one, z]);
            let (kept, other) = (self.op("Mul", &[z, kept]), self.op("Mul", &[&rest, other]));
            return self.op("Add", &[&kept, &other]);
        }
        let (op, a, b) = match form {
            1 => ("Add", kept, other),
            _ => ("Sub", other, kept),
        };
        let change = self.op("Sub", &[a, b]);
        let change = self.op("Mul", &[z, &change]);
        self.op(op, &[other, &change])
    }

    /// One value where a condition holds, another elsewhere.
    fn choose(&mut self, counts: &str, new: &str, old: &str) -> String {
        let mut cast =
            |name: &str, to: i32| self.body.with("Cast", &[name], vec![int("to", to.into())]);
        let is_number = self.layer.has_mask() && self.layer.numbers != Numbers::Truths;
        if !self.layer.by_products {
            let counts = match is_number {
                true => cast(counts, BOOL),
                false => counts.to_owned(),
            };
            return self.op("Where", &[&counts, new, old]);
        }
        let (yes, no) = if is_number {
            let yes = match self.layer.numbers {
                Numbers::Floats => counts.to_owned(),
                _ => cast(counts, FLOAT),
            };
            let one = self.body.float(1.0);
            let no = self.op("Sub", &[&one, &yes]);
            (yes, no)
        } else {
            let yes = cast(counts, FLOAT);
            let not = self.op("Not", &[counts]);
            let no = self
                .body
                .with("Cast", &[&not], vec![int("to", FLOAT.into())]);
            (yes, no)
        };
        let new = self.op("Mul", &[&yes, new]);
        let old = self.op("Mul", &[old, &no]);
        self.op("Add", &[&new, &old])
    }
}

/// A value of a body, of which only the type is said.
fn untyped(name: &str, data_type: i32) -> ValueInfoProto {
    let mut info = value(name, data_type, &[]);
    let value = info.r#type.as_mut().and_then(|it| it.value.as_mut());
    if let Some(type_proto::Value::TensorType(tensor)) = value {
        tensor.shape = None;
    }
    info
}

/// A sequence from its last step to its first.
fn flipped(main: &mut Graph<'_>, value: &str) -> String {
    let [minus, first, axis] = [-1, -i64::MAX, 0].map(|value| main.ints(&[1], &[value]));
    main.op("Slice", &[value, &minus, &first, &axis, &minus])
}

/// A sequence as the loop reads it.
fn ordered(main: &mut Graph<'_>, layer: Layer, value: &str) -> String {
    let mut value = value.to_owned();
    if layer.backwards && !layer.scan {
        value = flipped(main, &value);
    }
    if layer.batch_first {
        value = main.with("Transpose", &[&value], vec![ints("perm", &[1, 0, 2])]);
    }
    value
}

/// The mask, as a value for each step of each sequence.
fn mask(main: &mut Graph<'_>, layer: Layer, steps: &str) -> Option<String> {
    let mask = match layer.mask {
        Mask::None | Mask::Lengths => return None,
        Mask::Any => "mask".to_owned(),
        Mask::Prefix => {
            let [zero, one] = [0, 1].map(|value| main.ints(&[], &[value]));
            let scalar = main.op("Squeeze", &[steps]);
            let times = main.op("Range", &[&zero, &scalar, &one]);
            let axes = [1, 2].map(|axis| main.ints(&[1], &[axis]));
            let times = main.op("Unsqueeze", &[&times, &axes[0]]);
            let before = main.op("Less", &[&times, "lens"]);
            main.op("Unsqueeze", &[&before, &axes[1]])
        }
    };
    let mut cast = |to: i32| main.with("Cast", &[&mask], vec![int("to", to.into())]);
    let mask = match layer.numbers {
        Numbers::Truths => mask,
        Numbers::Floats => cast(FLOAT),
        Numbers::Integers => cast(INT64),
        Numbers::Any => {
            let numbers = cast(INT64);
            main.op("Mul", &[&numbers, "amounts"])
        }
    };
    Some(ordered(main, layer, &mask))
}

/// Writes a layer as a loop over a value; the outputs that are read, all steps first.
fn write(main: &mut Graph<'_>, layer: Layer, x: &str, width: usize) -> Vec<String> {
    let axis = i64::from(layer.batch_first);
    let [zero, one] = [0, 1].map(|value| main.ints(&[1], &[value]));
    let shape = main.op("Shape", &[x]);
    let steps = main.op("Gather", &[&shape, &zero]);
    let batch = main.op("Gather", &[&shape, &one]);
    let x = ordered(main, layer, x);
    let mask = mask(main, layer, &steps);

    // The states before the first step.
    let units = main.ints(&[1], &[layer.units as i64]);
    let sizes = main.with("Concat", &[&batch, &units], vec![int("axis", 0)]);
    let begins = [if layer.begins { 0.25 } else { 0.0 }, 0.0];
    let [begin, zeros] = begins.map(|value| {
        let value = main.float(value);
        main.op("Expand", &[&value, &sizes])
    });
    let start = main.ints(&[], &[0]);

    let mut body = Graph::new(main.count);
    let [i, c, t, h, m, r] = ["i", "c", "t", "h", "m", "r"].map(|name| body.fresh(name));
    let [slice, mask_slice] = ["slice", "mask_slice"].map(|name| body.fresh(name));
    let next = body.ints(&[], &[1]);
    let after = body.op("Add", &[&t, &next]);
    let before = body.op("Sub", &[&t, &next]);
    let read = |body: &mut Graph<'_>, value: &str, at: &str| {
        body.with("Gather", &[value, at], vec![int("axis", axis)])
    };
    let now = match layer.near {
        _ if layer.scan => slice.clone(),
        Some(Near::Behind) => read(&mut body, &x, &before),
        _ => read(&mut body, &x, &t),
    };
    let counts = match &mask {
        Some(_) if layer.scan => Some(mask_slice.clone()),
        Some(mask) if layer.near == Some(Near::MaskBehind) => Some(read(&mut body, mask, &before)),
        Some(mask) => Some(read(&mut body, mask, &t)),
        None if layer.mask == Mask::Lengths => {
            let over = body.op("GreaterOrEqual", &[&t, "lens"]);
            let column = body.ints(&[2], &[-1, 1]);
            let over = body.op("Reshape", &[&over, &column]);
            Some(body.op("Not", &[&over]))
        }
        None => None,
    };
    let mut step = Step {
        body: &mut body,
        layer,
        now,
        width,
    };
    let (new, memory) = step.cell(&h, &m);
    let (mut hidden, mut memory) = (new.clone(), memory.unwrap_or_else(|| m.clone()));
    let (mut output, mut repeated) = (new.clone(), r.clone());
    if let Some(counts) = &counts {
        hidden = step.choose(counts, &new, &h);
        if layer.kind == CellKind::Lstm {
            memory = step.choose(counts, &memory, &m);
        }
        repeated = step.choose(counts, &new, &r);
        output = match layer.masked {
            Masked::Repeated => repeated.clone(),
            Masked::State => hidden.clone(),
            Masked::Zero => step.choose(counts, &new, &zeros),
        };
    }
    if layer.near == Some(Near::Negated) {
        output = body.op("Neg", &[&output]);
    }
    let mut states = vec![
        (t, INT64, after.clone(), start),
        (h, FLOAT, hidden, begin.clone()),
        (m, FLOAT, memory, begin),
        (r, FLOAT, repeated, zeros.clone()),
    ];
    if layer.buffered {
        let front = body.ints(&[1], &[0]);
        let buffer = body.op("Unsqueeze", &[&output, &front]);
        let room = main.op("Unsqueeze", &[&zeros, &zero]);
        states.push((body.fresh("b"), FLOAT, buffer, room));
    }
    // A body's outputs are its own values, each once.
    let left = states
        .iter()
        .map(|(_, data_type, value, _)| (value, *data_type));
    let outputs = left.chain(std::iter::once((&output, FLOAT)));
    let mut results: Vec<ValueInfoProto> = outputs
        .map(|(value, data_type)| untyped(&body.op("Identity", &[value]), data_type))
        .collect();
    let given: Vec<String> = results.iter().map(|_| main.fresh("given")).collect();
    let given_names: Vec<&str> = given.iter().map(String::as_str).collect();

    let mut inputs: Vec<ValueInfoProto> = states
        .iter()
        .map(|(name, data_type, ..)| untyped(name, *data_type))
        .collect();
    let begin_states: Vec<&str> = states.iter().map(|(.., begin)| &**begin).collect();
    let mut made = if layer.scan {
        inputs.push(untyped(&slice, FLOAT));
        let code = match layer.numbers {
            Numbers::Truths => BOOL,
            Numbers::Floats => FLOAT,
            Numbers::Integers | Numbers::Any => INT64,
        };
        inputs.extend(mask.iter().map(|_| untyped(&mask_slice, code)));
        let sequences: Vec<&str> = std::iter::once(&*x).chain(mask.as_deref()).collect();
        let mut scan = node(
            "Scan",
            &[&begin_states[..], &sequences].concat(),
            &given_names,
        );
        let count = sequences.len();
        scan.attribute = vec![
            int("num_scan_inputs", count as i64),
            ints("scan_input_axes", &vec![axis; count]),
            ints(
                "scan_input_directions",
                &vec![i64::from(layer.backwards); count],
            ),
        ];
        scan
    } else {
        let end = match (layer.near, layer.end) {
            (Some(Near::Early), _) => {
                let two = body.ints(&[], &[2]);
                body.op("Less", &[&after, &two])
            }
            (_, 0) => body.op("Identity", &[&c]),
            (_, 1) => body.op("Less", &[&after, &steps]),
            (_, 2) => body.op("Greater", &[&steps, &after]),
            _ => {
                let [step, steps] = [&after, &steps]
                    .map(|it| body.with("Cast", &[it], vec![int("to", FLOAT.into())]));
                body.op("Less", &[&step, &steps])
            }
        };
        inputs.splice(0..0, [value(&i, INT64, &[]), value(&c, BOOL, &[])]);
        results.insert(0, untyped(&end, BOOL));
        let always = main.initializer(BOOL, &[], &[1]);
        let count = if layer.end == 3 { "" } else { &*steps };
        node(
            "Loop",
            &[&[count, &always][..], &begin_states].concat(),
            &given_names,
        )
    };
    made.attribute.push(graph_attribute(
        "body",
        GraphProto {
            name: body.fresh("body"),
            node: body.nodes,
            initializer: body.initializers,
            input: inputs,
            output: results,
            ..GraphProto::default()
        },
    ));
    main.nodes.push(made);
    let mut given = given.into_iter();
    let y = given.next_back();
    let [h, m, r, b] = [1, 0, 0, 0].map(|place| given.nth(place));
    let mut read = Vec::from_iter(y.into_iter().chain(b));
    if layer.last {
        read.extend(h);
        read.extend(m.filter(|_| layer.kind == CellKind::Lstm));
        read.extend(r.filter(|_| layer.mask != Mask::None));
    }
    read
}

/// A model of some layers, side by side or stacked.
fn model_of(layers: &[Layer]) -> ModelProto {
    let count = Cell::new(0);
    let mut main = Graph::new(&count);
    let mut outputs = Vec::new();
    let mut before = None;
    for &layer in layers {
        let below = before.filter(|_| layer.stacked);
        let (x, width) = below.unwrap_or_else(|| ("x".to_owned(), WIDTH));
        let given = write(&mut main, layer, &x, width);
        // The steps in their order, as in Keras' Bidirectional.
        let steps = match layer.backwards {
            true => flipped(&mut main, &given[0]),
            false => given[0].clone(),
        };
        before = layer.is_plain().then_some((steps, layer.units));
        outputs.extend(given);
    }
    model(GraphProto {
        name: "graph".to_owned(),
        input: vec![
            value("x", FLOAT, &["T", "B", &WIDTH.to_string()]),
            value("mask", BOOL, &["T", "B", "1"]),
            value("amounts", INT64, &["T", "B", "1"]),
            value("lens", INT64, &["B"]),
        ],
        output: outputs.iter().map(|name| untyped(name, FLOAT)).collect(),
        node: main.nodes,
        initializer: main.initializers,
        ..GraphProto::default()
    })
}

/// Random models, each in its bytes.
pub(crate) fn models() -> impl Strategy<Value = Vec<u8>> {
    let layers = proptest::collection::vec(layers(), 4);
    layers.prop_map(|layers| model_of(&layers).encode_to_vec())
}

/// The inputs of a run: a mask of any form, numbers that are not 0, and lengths beyond both ends of
/// time.
fn inputs((time, batch, seed): (usize, usize, u64)) -> [TensorProto; 4] {
    let mixed = |index: usize| (index as u64).wrapping_mul(seed | 1) >> 7;
    let x = (0..time * batch * WIDTH).map(|index| (mixed(index) % 128) as f32 / 64.0 - 1.0);
    let x: Vec<u8> = x.flat_map(f32::to_le_bytes).collect();
    let mask: Vec<u8> = (0..time * batch)
        .map(|index| u8::from(mixed(index + 31) % 3 > 0))
        .collect();
    let amounts = (0..time * batch).map(|index| [1, 2, -1, 3][mixed(index) as usize % 4]);
    let amounts: Vec<u8> = amounts.flat_map(i64::to_le_bytes).collect();
    let lens = (0..batch).map(|index| (mixed(index + 7) % (time as u64 + 3)) as i64 - 1);
    let lens: Vec<u8> = lens.flat_map(i64::to_le_bytes).collect();
    let [time, batch] = [time, batch].map(|size| size as i64);
    [
        tensor("x", FLOAT, &[time, batch, WIDTH as i64], &x),
        tensor("mask", BOOL, &[time, batch, 1], &mask),
        tensor("amounts", INT64, &[time, batch, 1], &amounts),
        tensor("lens", INT64, &[batch], &lens),
    ]
}

fn check(
    layers: &[Layer],
    sizes: [(usize, usize, u64); 2],
    library: Option<&str>,
) -> Result<(), TestCaseError> {
    let model = model_of(layers).encode_to_vec();
    let run = rewrite_and_check(&model, sizes.into_iter().map(inputs), &["--fast"], library);
    // A loop with too many steps reads past its input: no backend runs it.
    let reads_behind = "no backend runs both models: tract: the original model: ";
    if layers.iter().any(|layer| !layer.is_plain()) && run.stderr.contains(reads_behind) {
        return Ok(());
    }
    let json: Json = serde_json::from_str(&run.stdout)
        .map_err(|_| TestCaseError::fail(format!("{}\n{layers:?}", run.stderr)))?;
    for check in json["checks"].as_array().expect("checks") {
        // tract does not prepare every graph; a backend that ran the original runs the result.
        let reason = check["reason"].as_str().unwrap_or_default();
        let is_there = library.is_some() || check["backend"] == "tract";
        let could_run = is_there && !reason.starts_with("the original model: ");
        let expected = if could_run { "ok" } else { "skipped" };
        prop_assert_eq!(
            check["result"].as_str(),
            Some(expected),
            "{}\n{:?} {:?}",
            check,
            layers,
            sizes
        );
    }
    let steps = json["steps"].as_array().expect("steps").iter();
    let of_loops = steps.filter(|step| step["pass"] == "recurrent-loop");
    let rewritten = of_loops
        .clone()
        .filter(|step| step["result"] == "rewritten");
    // Sizes of an output below may not be provable.
    let is_alone = |layer: &&Layer| layer.is_plain() && !layer.stacked;
    let plain = layers.iter().filter(is_alone).count();
    prop_assert_eq!(of_loops.clone().count(), layers.len());
    let left: Vec<&Json> = of_loops
        .filter(|step| step["result"] != "rewritten")
        .collect();
    prop_assert!(rewritten.count() >= plain, "{:#?}\n{:?}", left, layers);
    let mixing = layers.iter().filter(|layer| layer.is_mixing()).count();
    prop_assert!(left.len() >= mixing, "{:#?}\n{:?}", left, layers);
    Ok(())
}

#[test]
fn random_loops_stay_when_they_are_rewritten_again() {
    let config = ProptestConfig {
        cases: 400,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let fast = revseq_rewrite::Options {
        fast: true,
        ..Default::default()
    };
    let layers = proptest::collection::vec(layers(), 4);
    proptest!(config, |(layers in layers)| {
        let model = model_of(&layers).encode_to_vec();
        let mut once = revseq_onnx::decode(&model).expect("a model");
        revseq_rewrite::rewrite(&mut once, &fast).expect("known passes");
        let mut twice = once.clone();
        revseq_rewrite::rewrite(&mut twice, &fast).expect("known passes");
        prop_assert!(once == twice, "a second run changes more\n{layers:?}");
    });
}

#[test]
fn random_loops_give_the_same_once_rewritten() {
    let library = onnxruntime("random_loops_give_the_same_once_rewritten");
    let config = ProptestConfig {
        cases: 6,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let sizes = || (1..6_usize, 1..5_usize, any::<u64>());
    let layers = proptest::collection::vec(layers(), 8);
    proptest!(config, |(layers in layers, sizes in [sizes(), sizes()])| {
        check(&layers, sizes, library.as_deref())?;
    });
}
