//! Random cells that are traced step by step, and near misses: after `revseq rewrite --fast` they give
//! the same outputs.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};

use crate::common::{FLOAT, int, model, node, rewrite_and_check, tensor, value};
use crate::ort::onnxruntime;
use crate::random_loops::Graph;

/// The features of the input.
const WIDTH: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Rnn,
    Lstm,
    /// Whether it resets the state's product, in place of the state.
    Gru(bool),
}

/// The order in which the steps are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Forward,
    Backward,
    /// The first step comes last.
    Rotated,
}

/// How a step is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    Gather,
    GatherVector,
    Slice,
    Split,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Begin {
    Zero,
    Given,
    /// One row for all sequences.
    Row,
    /// What a product makes.
    Computed,
}

/// What reads the outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// All of them, along this axis.
    Stack(i64),
    Backwards,
    Last,
    Each,
}

/// A step that is not like the others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Near {
    Weights,
    Function,
    /// Its state is that before the last step.
    State,
    Memory,
    /// A gate is an output of the graph.
    Used,
    /// A cell state is, of any step.
    MemoryUsed,
}

#[derive(Clone, Copy, Debug)]
struct Chain {
    kind: Kind,
    units: usize,
    steps: usize,
    layers: usize,
    batch_first: bool,
    order: Order,
    read: Read,
    begin: Begin,
    end: End,
    /// Products are Gemm's, and gates parts of one.
    gemm: bool,
    joined: bool,
    /// The input has more steps, at its start.
    behind: usize,
    /// How many steps the input has is not known.
    symbolic: bool,
    near: Option<(Near, usize)>,
}

fn chains() -> impl Strategy<Value = Chain> {
    let kind = prop_oneof![
        Just(Kind::Rnn),
        Just(Kind::Lstm),
        any::<bool>().prop_map(Kind::Gru)
    ];
    let order = prop_oneof![
        Just(Order::Forward),
        Just(Order::Backward),
        Just(Order::Rotated)
    ];
    let read = prop_oneof![
        Just(Read::Gather),
        Just(Read::GatherVector),
        Just(Read::Slice),
        Just(Read::Split)
    ];
    let begin = prop_oneof![
        Just(Begin::Zero),
        Just(Begin::Given),
        Just(Begin::Row),
        Just(Begin::Computed)
    ];
    let end = prop_oneof![
        (0..2_i64).prop_map(End::Stack),
        Just(End::Backwards),
        Just(End::Last),
        Just(End::Each)
    ];
    let near = prop_oneof![
        Just(Near::Weights),
        Just(Near::Function),
        Just(Near::State),
        Just(Near::Memory),
        Just(Near::Used),
        Just(Near::MemoryUsed),
    ];
    (
        (kind, 1..4_usize, 3..7_usize, 1..3_usize),
        (order, read, begin, end),
        any::<[bool; 4]>(),
        0..3_usize,
        proptest::option::weighted(0.3, (near, 0..7_usize)),
    )
        .prop_map(|(cell, (order, read, begin, end), flags, behind, near)| {
            let (kind, units, steps, layers) = cell;
            let [batch_first, gemm, joined, symbolic] = flags;
            Chain {
                kind,
                units,
                steps,
                layers,
                batch_first,
                order,
                read,
                begin,
                end,
                gemm,
                joined: joined && matches!(kind, Kind::Rnn | Kind::Lstm),
                // Every part of a Split is a step.
                behind: if read == Read::Split { 0 } else { behind },
                symbolic: symbolic && read != Read::Split,
                near,
            }
        })
}

/// The weights of a layer.
struct Weights {
    input: String,
    state: String,
    bias: String,
}

struct Writer<'c> {
    chain: Chain,
    graph: Graph<'c>,
    outputs: Vec<String>,
}

impl Writer<'_> {
    fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.graph.op(op, inputs)
    }

    /// Whether a step is unlike the others in this way.
    fn is_near(&self, near: Near, step: usize) -> bool {
        let at = self.chain.near.filter(|(it, _)| *it == near);
        at.is_some_and(|(_, at)| at % self.chain.steps == step)
    }

    fn time(&self) -> usize {
        usize::from(self.chain.batch_first)
    }

    /// The steps of the input, in the order in which they are read.
    fn steps(&mut self) -> Vec<String> {
        let Chain { steps, behind, .. } = self.chain;
        let mut order: Vec<usize> = (behind..behind + steps).collect();
        match self.chain.order {
            Order::Forward => {}
            Order::Backward => order.reverse(),
            Order::Rotated => order.rotate_left(1),
        }
        let axis = self.time() as i64;
        let axes = self.graph.ints(&[1], &[axis]);
        let along = || vec![int("axis", axis)];
        if self.chain.read == Read::Split {
            let parts: Vec<String> = (0..steps).map(|_| self.graph.fresh("part")).collect();
            let names: Vec<&str> = parts.iter().map(String::as_str).collect();
            let mut split = node("Split", &["x"], &names);
            split.attribute = along();
            self.graph.nodes.push(split);
            let parts = order.into_iter().map(|step| parts[step].clone());
            let parts: Vec<String> = parts.collect();
            return parts
                .iter()
                .map(|it| self.op("Squeeze", &[it, &axes]))
                .collect();
        }
        let mut read = |step: usize| {
            let step = step as i64;
            let [from, to] = [step, step + 1].map(|it| self.graph.ints(&[1], &[it]));
            let part = match self.chain.read {
                Read::Slice => self.graph.op("Slice", &["x", &from, &to, &axes]),
                Read::GatherVector => self.graph.with("Gather", &["x", &from], along()),
                _ => {
                    let step = self.graph.ints(&[], &[step]);
                    return self.graph.with("Gather", &["x", &step], along());
                }
            };
            self.graph.op("Squeeze", &[&part, &axes])
        };
        order.into_iter().map(&mut read).collect()
    }

    /// A product with a bias; `columns` are those of the weights.
    fn product(&mut self, value: &str, weights: &str, bias: Option<&str>) -> String {
        match bias {
            Some(bias) if self.chain.gemm => self.op("Gemm", &[value, weights, bias]),
            Some(bias) => {
                let product = self.op("MatMul", &[value, weights]);
                self.op("Add", &[&product, bias])
            }
            None => self.op("MatMul", &[value, weights]),
        }
    }

    /// The parts of a sum, one for each gate.
    fn parts(&mut self, sum: &str, gates: usize) -> Vec<String> {
        let units = self.chain.units as i64;
        let axes = self.graph.ints(&[1], &[1]);
        let ends = |gate: usize| [gate as i64 * units, (gate as i64 + 1) * units];
        let mut part = |gate: usize| {
            let [from, to] = ends(gate).map(|end| self.graph.ints(&[1], &[end]));
            self.graph.op("Slice", &[sum, &from, &to, &axes])
        };
        match gates {
            1 => vec![sum.to_owned()],
            _ => (0..gates).map(&mut part).collect(),
        }
    }

    fn weights(&mut self, width: usize, gates: usize) -> Weights {
        let units = self.chain.units;
        let columns = units * gates;
        let rows = if self.chain.joined {
            width + units
        } else {
            width
        };
        Weights {
            input: self.graph.weights(&[rows, columns]),
            state: self.graph.weights(&[units, columns]),
            bias: self.graph.weights(&[columns]),
        }
    }

    /// The initial states.
    fn begin(&mut self, layer: usize) -> [String; 2] {
        let names = [format!("h{layer}"), format!("c{layer}")];
        let units = self.chain.units;
        match self.chain.begin {
            Begin::Given => names,
            Begin::Row => names.map(|_| self.graph.weights(&[1, units])),
            Begin::Computed => names.map(|name| {
                let weights = self.graph.weights(&[units, units]);
                self.op("MatMul", &[&name, &weights])
            }),
            Begin::Zero => {
                let zero = self.graph.float(0.0);
                let state = self.op("Mul", &[&names[0], &zero]);
                let shape = self.op("Shape", &[&state]);
                // One value for both, as PyTorch's LSTMCell makes them.
                let begin = self.op("Expand", &[&zero, &shape]);
                [begin.clone(), begin]
            }
        }
    }

    fn layer(&mut self, layer: usize, inputs: &[String], width: usize) -> Vec<String> {
        let gates = match self.chain.kind {
            Kind::Rnn => 1,
            Kind::Lstm => 4,
            Kind::Gru(_) => 3,
        };
        let weights = self.weights(width, gates);
        let other = self.weights(width, gates);
        let [begin, memory] = self.begin(layer);
        let (mut states, mut memories) = (vec![begin], vec![memory]);
        for (step, x) in inputs.iter().enumerate() {
            let before = |near: Near, of: &[String], this: &Self| {
                let back = usize::from(this.is_near(near, step) && step > 0);
                of[of.len().saturating_sub(1 + back)].clone()
            };
            let h = before(Near::State, &states, self);
            let c = before(Near::Memory, &memories, self);
            let weights = match self.is_near(Near::Weights, step) {
                true => &other,
                false => &weights,
            };
            let function = match self.is_near(Near::Function, step) {
                true => "Softsign",
                false => "Tanh",
            };
            let (h, c, gate) = self.step(x, [&h, &c], weights, function, gates);
            if self.is_near(Near::Used, step) {
                self.outputs.push(gate);
            }
            if let Some(c) = &c
                && self.is_near(Near::MemoryUsed, step)
            {
                self.outputs.push(c.clone());
            }
            states.push(h);
            memories.extend(c);
        }
        states.split_off(1)
    }

    /// A step: the states after it, and one of its gates.
    fn step(
        &mut self,
        x: &str,
        [h, c]: [&str; 2],
        weights: &Weights,
        function: &str,
        gates: usize,
    ) -> (String, Option<String>, String) {
        let Weights { input, state, bias } = weights;
        if let Kind::Gru(true) = self.chain.kind {
            let of_input = self.product(x, input, Some(bias));
            let of_state = self.product(h, state, Some(bias));
            let of_input = self.parts(&of_input, gates);
            let of_state = self.parts(&of_state, gates);
            let [z, r] = [0, 1].map(|gate| {
                let sum = self.op("Add", &[&of_state[gate], &of_input[gate]]);
                self.op("Sigmoid", &[&sum])
            });
            let kept = self.op("Mul", &[&r, &of_state[2]]);
            let sum = self.op("Add", &[&of_input[2], &kept]);
            let new = self.op(function, &[&sum]);
            // As PyTorch has it.
            let difference = self.op("Sub", &[h, &new]);
            let part = self.op("Mul", &[&difference, &z]);
            return (self.op("Add", &[&part, &new]), None, r);
        }
        if let Kind::Gru(false) = self.chain.kind {
            let of_input = self.product(x, input, Some(bias));
            let of_input = self.parts(&of_input, gates);
            let of_weights = self.parts(state, gates);
            let [z, r] = [0, 1].map(|gate| {
                let of_state = self.op("MatMul", &[h, &of_weights[gate]]);
                let sum = self.op("Add", &[&of_input[gate], &of_state]);
                self.op("Sigmoid", &[&sum])
            });
            let kept = self.op("Mul", &[&r, h]);
            let kept = self.op("MatMul", &[&kept, &of_weights[2]]);
            let sum = self.op("Add", &[&kept, &of_input[2]]);
            let new = self.op(function, &[&sum]);
            let one = self.graph.float(1.0);
            let rest = self.op("Sub", &[&one, &z]);
            let [old, new] = [[&z, h], [&rest, &new]].map(|it| self.op("Mul", &it));
            return (self.op("Add", &[&new, &old]), None, r);
        }
        let sum = if self.chain.joined {
            let joined = self.graph.with("Concat", &[x, h], vec![int("axis", 1)]);
            self.product(&joined, input, Some(bias))
        } else {
            let of_input = self.product(x, input, Some(bias));
            let of_state = self.product(h, state, None);
            self.op("Add", &[&of_state, &of_input])
        };
        let parts = self.parts(&sum, gates);
        if self.chain.kind == Kind::Rnn {
            return (self.op(function, &[&parts[0]]), None, sum);
        }
        let [i, f, o] = [0, 1, 3].map(|gate| self.op("Sigmoid", &[&parts[gate]]));
        let g = self.op(function, &[&parts[2]]);
        let [old, new] = [[&*f, c], [&*i, &*g]].map(|it| self.op("Mul", &it));
        let c = self.op("Add", &[&old, &new]);
        let seen = self.op("Tanh", &[&c]);
        (self.op("Mul", &[&o, &seen]), Some(c), f)
    }

    fn end(&mut self, outputs: Vec<String>) {
        let (axis, outputs) = match self.chain.end {
            End::Stack(axis) => (axis, outputs),
            End::Backwards => (0, outputs.into_iter().rev().collect()),
            End::Last => {
                self.outputs.extend(outputs.last().cloned());
                return;
            }
            End::Each => {
                self.outputs.extend(outputs);
                return;
            }
        };
        let axes = self.graph.ints(&[1], &[axis]);
        let framed: Vec<String> = outputs
            .iter()
            .map(|it| self.op("Unsqueeze", &[it, &axes]))
            .collect();
        let framed: Vec<&str> = framed.iter().map(String::as_str).collect();
        let stacked = self.graph.with("Concat", &framed, vec![int("axis", axis)]);
        self.outputs.push(stacked);
    }
}

fn model_of(chain: Chain) -> ModelProto {
    let count = Cell::new(0);
    let mut writer = Writer {
        chain,
        graph: Graph::new(&count),
        outputs: Vec::new(),
    };
    let (mut values, mut width) = (writer.steps(), WIDTH);
    for layer in 0..chain.layers {
        values = writer.layer(layer, &values, width);
        width = chain.units;
    }
    writer.end(values);
    let time = match chain.symbolic {
        true => "T".to_owned(),
        false => (chain.steps + chain.behind).to_string(),
    };
    let units = chain.units.to_string();
    let mut sizes = [&*time, "B", "3"];
    if chain.batch_first {
        sizes.swap(0, 1);
    }
    let states = ["h0", "c0", "h1", "c1"].map(|name| value(name, FLOAT, &["B", &units]));
    let untyped = |name: &String| {
        let mut output = value(name, FLOAT, &[]);
        if let Some(r#type) = &mut output.r#type
            && let Some(tract_onnx::pb::type_proto::Value::TensorType(tensor)) = &mut r#type.value
        {
            tensor.shape = None;
        }
        output
    };
    model(GraphProto {
        name: "graph".to_owned(),
        input: [value("x", FLOAT, &sizes)]
            .into_iter()
            .chain(states)
            .collect(),
        output: writer.outputs.iter().map(untyped).collect(),
        node: writer.graph.nodes,
        initializer: writer.graph.initializers,
        ..GraphProto::default()
    })
}

/// Random models, each in its bytes.
pub(crate) fn models() -> impl Strategy<Value = Vec<u8>> {
    chains().prop_map(|chain| model_of(chain).encode_to_vec())
}

fn inputs(chain: Chain, batch: usize, seed: u64) -> [TensorProto; 5] {
    let floats = |name: &str, sizes: &[usize]| {
        let number = |index: usize| {
            let mixed = (index as u64 + name.len() as u64).wrapping_mul(seed | 1) >> 7;
            ((mixed % 128) as f32 / 64.0 - 1.0).to_le_bytes()
        };
        let bytes: Vec<u8> = (0..sizes.iter().product()).flat_map(number).collect();
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        tensor(name, FLOAT, &sizes, &bytes)
    };
    let mut sizes = [chain.steps + chain.behind, batch, WIDTH];
    if chain.batch_first {
        sizes.swap(0, 1);
    }
    let state = |name| floats(name, &[batch, chain.units]);
    [
        floats("x", &sizes),
        state("h0"),
        state("c0"),
        state("h1"),
        state("c1"),
    ]
}

fn check(
    chain: Chain,
    batches: [(usize, u64); 2],
    library: Option<&str>,
) -> Result<(), TestCaseError> {
    let model = model_of(chain).encode_to_vec();
    let sets = batches
        .into_iter()
        .map(|(batch, seed)| inputs(chain, batch, seed));
    let run = rewrite_and_check(&model, sets, &["--fast"], library);
    let json: Json = serde_json::from_str(&run.stdout)
        .map_err(|_| TestCaseError::fail(format!("{}\n{chain:?}", run.stderr)))?;
    for check in json["checks"].as_array().expect("checks") {
        let is_there = library.is_some() || check["backend"] == "tract";
        let expected = if is_there { "ok" } else { "skipped" };
        prop_assert_eq!(
            check["result"].as_str(),
            Some(expected),
            "{}\n{:?}",
            check,
            chain
        );
    }
    let steps = json["steps"].as_array().expect("steps").iter();
    let whole = format!("of {} steps", chain.steps);
    let is_whole = |step: &&Json| step["to"].as_str().is_some_and(|it| it.ends_with(&whole));
    let found = steps.clone().filter(is_whole).count();
    // What a gate of the same function makes may be read as well.
    let expected = match chain.near {
        None if chain.begin != Begin::Computed => chain.layers,
        _ => 0,
    };
    let steps: Vec<&Json> = steps.collect();
    prop_assert!(found >= expected, "{:#?}\n{:?}", steps, chain);
    Ok(())
}

#[test]
fn random_unrolled_cells_stay_when_they_are_rewritten_again() {
    let config = ProptestConfig {
        cases: 300,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let fast = revseq_rewrite::Options {
        fast: true,
        ..Default::default()
    };
    proptest!(config, |(chain in chains())| {
        let model = model_of(chain).encode_to_vec();
        let mut once = revseq_onnx::decode(&model).expect("a model");
        revseq_rewrite::rewrite(&mut once, &fast).expect("known passes");
        let mut twice = once.clone();
        revseq_rewrite::rewrite(&mut twice, &fast).expect("known passes");
        prop_assert!(once == twice, "a second run changes more\n{chain:?}");
    });
}

#[test]
fn random_unrolled_cells_give_the_same_once_rewritten() {
    let library = onnxruntime("random_unrolled_cells_give_the_same_once_rewritten");
    let config = ProptestConfig {
        cases: 40,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let sizes = || (1..4_usize, any::<u64>());
    proptest!(config, |(chain in chains(), batches in [sizes(), sizes()])| {
        check(chain, batches, library.as_deref())?;
    });
}
