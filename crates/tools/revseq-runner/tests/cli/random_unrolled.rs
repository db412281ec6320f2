//! Random cells that are traced step by step, and near misses: after `revseq rewrite --fast` they give
//! the same outputs.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_test_models::draw::{self, Run};
use revseq_test_models::{Writer, drawn};
use serde_json::Value as Json;
use tract_onnx::pb::TensorProto;

use crate::common::{FLOAT, tensor};
use crate::random::{Comparison, rewritten};

/// The features of the input.
const WIDTH: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Rnn,
    Lstm,
    /// Whether it resets the state's product, in place of the state.
    Gru(bool),
}

drawn! {
    /// The order in which the steps are read.
    enum Order {
        Forward,
        Backward,
        /// The first step comes last.
        Rotated,
    }

    /// How a step is read.
    enum Read {
        Gather,
        GatherVector,
        Slice,
        Split,
    }

    enum Begin {
        Zero,
        Given,
        /// One row for all sequences.
        Row,
        /// What a product makes.
        Computed,
    }
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

drawn! {
    /// A step that is not like the others.
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
    // A model of many steps is large.
    let steps = prop_oneof![40 => 3..7_usize, 1 => 100..160_usize];
    let kind = prop_oneof![
        Just(Kind::Rnn),
        Just(Kind::Lstm),
        any::<bool>().prop_map(Kind::Gru)
    ];
    let end = prop_oneof![
        (0..2_i64).prop_map(End::Stack),
        Just(End::Backwards),
        Just(End::Last),
        Just(End::Each)
    ];
    (
        (kind, 1..4_usize, steps, 1..3_usize),
        (Order::any(), Read::any(), Begin::any(), end),
        any::<[bool; 4]>(),
        0..3_usize,
        proptest::option::weighted(0.3, (Near::any(), 0..7_usize)),
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

struct Cells {
    chain: Chain,
    graph: Writer,
    outputs: Vec<String>,
}

impl Cells {
    fn op(&mut self, call: impl std::fmt::Display) -> String {
        self.graph.op(call)
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
        let axis = self.time();
        if self.chain.read == Read::Split {
            let parts: Vec<String> = (0..steps).map(|_| self.graph.fresh("part")).collect();
            let call = format_args!("Split<axis={axis}>(x)");
            self.graph.add(&parts.join(", "), call);
            let parts = order.into_iter().map(|step| &parts[step]);
            return parts
                .map(|it| self.graph.op(format_args!("Squeeze({it}, [{axis}])")))
                .collect();
        }
        let mut read = |step: usize| {
            let part = match self.chain.read {
                Read::Slice => format!("Slice(x, [{step}], [{}], [{axis}])", step + 1),
                Read::GatherVector => format!("Gather<axis={axis}>(x, [{step}])"),
                _ => return self.op(format_args!("Gather<axis={axis}>(x, {step})")),
            };
            let part = self.op(part);
            self.op(format_args!("Squeeze({part}, [{axis}])"))
        };
        order.into_iter().map(&mut read).collect()
    }

    /// A product with a bias; `columns` are those of the weights.
    fn product(&mut self, value: &str, weights: &str, bias: Option<&str>) -> String {
        match bias {
            Some(bias) if self.chain.gemm => {
                self.op(format_args!("Gemm({value}, {weights}, {bias})"))
            }
            Some(bias) => {
                let product = self.op(format_args!("MatMul({value}, {weights})"));
                self.op(format_args!("Add({product}, {bias})"))
            }
            None => self.op(format_args!("MatMul({value}, {weights})")),
        }
    }

    /// The parts of a sum, one for each gate.
    fn parts(&mut self, sum: &str, gates: usize) -> Vec<String> {
        let units = self.chain.units;
        let mut part = |gate: usize| {
            let [from, to] = [gate * units, (gate + 1) * units];
            self.op(format_args!("Slice({sum}, [{from}], [{to}], [1])"))
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
                self.op(format_args!("MatMul({name}, {weights})"))
            }),
            Begin::Zero => {
                let state = self.op(format_args!("Mul({}, 0.0)", names[0]));
                let shape = self.op(format_args!("Shape({state})"));
                // One value for both, as PyTorch's LSTMCell makes them.
                let begin = self.op(format_args!("Expand(0.0, {shape})"));
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
                let sum = self.op(format_args!("Add({}, {})", of_state[gate], of_input[gate]));
                self.op(format_args!("Sigmoid({sum})"))
            });
            let kept = self.op(format_args!("Mul({r}, {})", of_state[2]));
            let sum = self.op(format_args!("Add({}, {kept})", of_input[2]));
            let new = self.op(format_args!("{function}({sum})"));
            // As PyTorch has it.
            let difference = self.op(format_args!("Sub({h}, {new})"));
            let part = self.op(format_args!("Mul({difference}, {z})"));
            return (self.op(format_args!("Add({part}, {new})")), None, r);
        }
        if let Kind::Gru(false) = self.chain.kind {
            let of_input = self.product(x, input, Some(bias));
            let of_input = self.parts(&of_input, gates);
            let of_weights = self.parts(state, gates);
            let [z, r] = [0, 1].map(|gate| {
                let of_state = self.op(format_args!("MatMul({h}, {})", of_weights[gate]));
                let sum = self.op(format_args!("Add({}, {of_state})", of_input[gate]));
                self.op(format_args!("Sigmoid({sum})"))
            });
            let kept = self.op(format_args!("Mul({r}, {h})"));
            let kept = self.op(format_args!("MatMul({kept}, {})", of_weights[2]));
            let sum = self.op(format_args!("Add({kept}, {})", of_input[2]));
            let new = self.op(format_args!("{function}({sum})"));
            let rest = self.op(format_args!("Sub(1.0, {z})"));
            let old = self.op(format_args!("Mul({z}, {h})"));
            let new = self.op(format_args!("Mul({rest}, {new})"));
            return (self.op(format_args!("Add({new}, {old})")), None, r);
        }
        let sum = if self.chain.joined {
            let joined = self.op(format_args!("Concat<axis=1>({x}, {h})"));
            self.product(&joined, input, Some(bias))
        } else {
            let of_input = self.product(x, input, Some(bias));
            let of_state = self.product(h, state, None);
            self.op(format_args!("Add({of_state}, {of_input})"))
        };
        let parts = self.parts(&sum, gates);
        if self.chain.kind == Kind::Rnn {
            return (self.op(format_args!("{function}({})", parts[0])), None, sum);
        }
        let [i, f, o] = [0, 1, 3].map(|gate| self.op(format_args!("Sigmoid({})", parts[gate])));
        let g = self.op(format_args!("{function}({})", parts[2]));
        let old = self.op(format_args!("Mul({f}, {c})"));
        let new = self.op(format_args!("Mul({i}, {g})"));
        let c = self.op(format_args!("Add({old}, {new})"));
        let seen = self.op(format_args!("Tanh({c})"));
        (self.op(format_args!("Mul({o}, {seen})")), Some(c), f)
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
        let framed: Vec<String> = outputs
            .iter()
            .map(|it| self.op(format_args!("Unsqueeze({it}, [{axis}])")))
            .collect();
        let stacked = self.op(format_args!("Concat<axis={axis}>({})", framed.join(", ")));
        self.outputs.push(stacked);
    }
}

fn model_of(chain: Chain) -> Vec<u8> {
    let mut cells = Cells {
        chain,
        graph: Writer::new(),
        outputs: Vec::new(),
    };
    let (mut values, mut width) = (cells.steps(), WIDTH);
    for layer in 0..chain.layers {
        values = cells.layer(layer, &values, width);
        width = chain.units;
    }
    cells.end(values);
    let time = match chain.symbolic {
        true => "T".to_owned(),
        false => (chain.steps + chain.behind).to_string(),
    };
    let mut sizes = [&*time, "B", "3"];
    if chain.batch_first {
        sizes.swap(0, 1);
    }
    let states = ["h0", "c0", "h1", "c1"].map(|name| format!("{name}:f32[B,{}]", chain.units));
    let inputs = format!("x:f32[{}] {}", sizes.join(","), states.join(" "));
    let outputs: Vec<String> = cells.outputs.iter().map(|it| format!("{it}:f32")).collect();
    cells.graph.model(&inputs, &outputs.join(" "), 17)
}

/// Random models, each in its bytes.
pub(crate) fn models() -> impl Strategy<Value = Vec<u8>> {
    chains().prop_map(model_of)
}

fn inputs(chain: Chain, run: Run) -> Vec<TensorProto> {
    let mut sizes = [chain.steps + chain.behind, run.batch, WIDTH];
    if chain.batch_first {
        sizes.swap(0, 1);
    }
    let state = [run.batch, chain.units];
    let all: [(&str, &[usize]); 5] = [
        ("x", &sizes),
        ("h0", &state),
        ("c0", &state),
        ("h1", &state),
        ("c1", &state),
    ];
    let floats = |(at, (name, sizes)): (u64, (&str, &[usize]))| {
        let own = Run {
            seed: run.seed ^ at << 20,
            ..run
        };
        let bytes = own.floats(sizes.iter().product());
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        tensor(name, FLOAT, &sizes, &bytes)
    };
    (0..).zip(all).map(floats).collect()
}

fn check(chain: Chain, runs: [Run; 2], comparison: &Comparison) -> Result<(), TestCaseError> {
    // A row does not fit an empty batch, which ONNX Runtime does not mind.
    let least = usize::from(chain.begin == Begin::Row);
    let runs = runs.map(|run| Run {
        batch: run.batch.max(least),
        ..run.kept()
    });
    let sets = runs.map(|run| inputs(chain, run));
    let case = (chain, runs);
    let Some(report) = comparison.run(&case, &model_of(chain), &sets, &["--fast"])? else {
        return Ok(());
    };
    let steps = report["steps"].as_array().expect("steps");
    let whole = format!("of {} steps", chain.steps);
    let is_whole = |step: &&Json| step["to"].as_str().is_some_and(|it| it.contains(&whole));
    let found = steps.iter().filter(is_whole).count();
    // What a gate of the same function makes may be read as well.
    let expected = match chain.near {
        None if chain.begin != Begin::Computed => chain.layers,
        _ => 0,
    };
    prop_assert!(found >= expected, "{:#?}\n{:?}", steps, chain);
    Ok(())
}

#[test]
fn random_unrolled_cells_stay_when_they_are_rewritten_again() {
    draw::check(150, chains(), |chain| {
        rewritten(&chain, &model_of(chain), &["--fast"]).map(|_| ())
    });
}

#[test]
fn random_unrolled_cells_give_the_same_once_rewritten() {
    let comparison = Comparison::new("random_unrolled_cells_give_the_same_once_rewritten");
    let runs = || draw::runs(draw::scaled());
    draw::check(15, (chains(), [runs(), runs()]), |(chain, runs)| {
        check(chain, runs, &comparison)
    });
    comparison.ends();
}
