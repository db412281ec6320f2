//! Random loops as frameworks write them for recurrent layers, and near misses: after `revseq
//! rewrite --fast` they give the same outputs.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_test_models::draw::{self, Run};
use revseq_test_models::{Writer, drawn};
use tract_onnx::pb::TensorProto;

use crate::common::{BOOL, FLOAT, INT64, tensor};
use crate::random::{Comparison, rewritten, steps_of};

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

drawn! {
    /// The steps that count.
    enum Mask {
        None,
        /// Steps that a value of the caller's marks.
        Any,
        /// Steps before a length, by a mask that the graph makes of it.
        Prefix,
        /// Steps before a length, by a comparison in each step.
        Lengths,
    }
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

drawn! {
    /// The output of a masked step.
    enum Masked {
        Repeated,
        State,
        Zero,
    }

    /// A change that makes a loop no layer, or another one.
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
    /// Its input is one sequence, beside states and masks of all.
    single: bool,
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
    let numbers = prop_oneof![
        3 => Just(Numbers::Truths),
        1 => Just(Numbers::Floats),
        1 => Just(Numbers::Integers),
        1 => Just(Numbers::Any),
    ];
    let functions = [0..FUNCTIONS.len(), 0..FUNCTIONS.len()];
    (
        (kind, 1..4_usize, functions, any::<[bool; 5]>()),
        (
            any::<[bool; 6]>(),
            (Mask::any(), numbers),
            Masked::any(),
            0..4_usize,
        ),
        proptest::option::weighted(0.25, Near::any()),
        [0.3, 0.2].map(proptest::bool::weighted),
    )
        .prop_map(|(cell, read, near, [stacked, single])| {
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
                // Nothing is broadcast where both are joined.
                single: single && !joined,
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
        // Zeros of more rows than the input has would be rows of the output.
        let has_more = self.single && self.mask != Mask::None && self.masked == Masked::Zero;
        // 1 less the gate has to be a gate.
        let is_opposite = matches!(self.kind, CellKind::Gru { mixture: 3.., .. });
        let is_symmetric = matches!(FUNCTIONS[self.functions[0]], "Sigmoid" | "HardSigmoid");
        let is_gate = !is_opposite || is_symmetric;
        !is_near && !is_flipped && !is_other && !has_more && is_gate && !self.is_mixing()
    }
}

/// The computation of a step.
struct Step<'g> {
    body: &'g mut Writer,
    layer: Layer,
    now: String,
    /// The features of the input.
    width: usize,
}

impl Step<'_> {
    fn op(&mut self, call: impl std::fmt::Display) -> String {
        self.body.op(call)
    }

    /// The sum of a gate, or of several beside each other.
    fn sum(&mut self, state: &str, gates: usize) -> String {
        let Layer {
            units, near, bias, ..
        } = self.layer;
        let columns = units * gates;
        let now = self.now.clone();
        let sum = if self.layer.joined {
            let joined = self.op(format_args!("Concat<axis=1>({now}, {state})"));
            let weights = self.body.weights(&[self.width + units, columns]);
            self.op(format_args!("MatMul({joined}, {weights})"))
        } else {
            let [w, r] = [self.width, units].map(|rows| self.body.weights(&[rows, columns]));
            let r = match near {
                Some(Near::Computed) => self.op(format_args!("Abs({r})")),
                _ => r,
            };
            let fed = self.op(format_args!("MatMul({now}, {w})"));
            let mut kept = self.op(format_args!("MatMul({state}, {r})"));
            // Of one column Squeeze would take that axis, too.
            if self.layer.squeezed && columns > 1 {
                kept = self.op(format_args!("Squeeze({kept})"));
            }
            let op = if near == Some(Near::Difference) {
                "Sub"
            } else {
                "Add"
            };
            self.op(format_args!("{op}({fed}, {kept})"))
        };
        if !bias {
            return sum;
        }
        let bias = self.body.weights(&[columns]);
        self.op(format_args!("Add({bias}, {sum})"))
    }

    fn function(&mut self, which: usize, input: &str) -> String {
        let function = FUNCTIONS[self.layer.functions[which]];
        self.op(format_args!("{function}({input})"))
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
                let [i, f, g, o] = self.body.ops(format_args!("Split<axis=1>({sum})"));
                let [i, f, o] = [i, f, o].map(|gate| self.function(0, &gate));
                let g = self.function(1, &g);
                let kept = self.op(format_args!("Mul({f}, {memory})"));
                let added = self.op(format_args!("Mul({i}, {g})"));
                let memory = self.op(format_args!("Add({kept}, {added})"));
                let squashed = self.function(1, &memory);
                let hidden = self.op(format_args!("Mul({o}, {squashed})"));
                (hidden, Some(memory))
            }
            CellKind::Gru {
                reset_after,
                mixture,
            } => {
                let sum = self.sum(hidden, 2);
                let gates: [String; 2] = self.body.ops(format_args!("Split<axis=1>({sum})"));
                let [z, r] = gates.map(|gate| self.function(0, &gate));
                let units = self.layer.units;
                let [w, u] = [self.width, units].map(|rows| self.body.weights(&[rows, units]));
                let now = self.now.clone();
                let fed = self.op(format_args!("MatMul({now}, {w})"));
                let kept = if reset_after {
                    let product = self.op(format_args!("MatMul({hidden}, {u})"));
                    let bias = self.body.weights(&[units]);
                    let product = self.op(format_args!("Add({product}, {bias})"));
                    self.op(format_args!("Mul({r}, {product})"))
                } else {
                    let reset = self.op(format_args!("Mul({hidden}, {r})"));
                    self.op(format_args!("MatMul({reset}, {u})"))
                };
                let sum = self.op(format_args!("Add({kept}, {fed})"));
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
            let rest = self.op(format_args!("Sub(1.0, {z})"));
            let kept = self.op(format_args!("Mul({z}, {kept})"));
            let other = self.op(format_args!("Mul({rest}, {other})"));
            return self.op(format_args!("Add({kept}, {other})"));
        }
        let (op, a, b) = match form {
            1 => ("Add", kept, other),
            _ => ("Sub", other, kept),
        };
        let change = self.op(format_args!("Sub({a}, {b})"));
        let change = self.op(format_args!("Mul({z}, {change})"));
        self.op(format_args!("{op}({other}, {change})"))
    }

    /// One value where a condition holds, another elsewhere.
    fn choose(&mut self, counts: &str, new: &str, old: &str) -> String {
        let is_number = self.layer.has_mask() && self.layer.numbers != Numbers::Truths;
        if !self.layer.by_products {
            let counts = match is_number {
                true => self.op(format_args!("Cast<to={BOOL}>({counts})")),
                false => counts.to_owned(),
            };
            return self.op(format_args!("Where({counts}, {new}, {old})"));
        }
        let yes = match self.layer.numbers {
            Numbers::Floats if is_number => counts.to_owned(),
            _ => self.op(format_args!("Cast<to={FLOAT}>({counts})")),
        };
        let no = if is_number {
            self.op(format_args!("Sub(1.0, {yes})"))
        } else {
            let not = self.op(format_args!("Not({counts})"));
            self.op(format_args!("Cast<to={FLOAT}>({not})"))
        };
        let new = self.op(format_args!("Mul({yes}, {new})"));
        let old = self.op(format_args!("Mul({old}, {no})"));
        self.op(format_args!("Add({new}, {old})"))
    }
}

/// A sequence from its last step to its first.
fn flipped(main: &mut Writer, value: &str) -> String {
    main.op(format_args!(
        "Slice({value}, [-1], [{}], [0], [-1])",
        -i64::MAX
    ))
}

/// A sequence as the loop reads it.
fn ordered(main: &mut Writer, layer: Layer, value: &str) -> String {
    let mut value = value.to_owned();
    if layer.backwards && !layer.scan {
        value = flipped(main, &value);
    }
    if layer.batch_first {
        value = main.op(format_args!("Transpose<perm=[1,0,2]>({value})"));
    }
    value
}

/// The mask, as a value for each step of each sequence.
fn mask(main: &mut Writer, layer: Layer, steps: &str) -> Option<String> {
    let mask = match layer.mask {
        Mask::None | Mask::Lengths => return None,
        Mask::Any => "mask".to_owned(),
        Mask::Prefix => {
            let scalar = main.op(format_args!("Squeeze({steps})"));
            let times = main.op(format_args!("Range(0, {scalar}, 1)"));
            let times = main.op(format_args!("Unsqueeze({times}, [1])"));
            let before = main.op(format_args!("Less({times}, lens)"));
            main.op(format_args!("Unsqueeze({before}, [2])"))
        }
    };
    let mut cast = |to: i32| main.op(format_args!("Cast<to={to}>({mask})"));
    let mask = match layer.numbers {
        Numbers::Truths => mask,
        Numbers::Floats => cast(FLOAT),
        Numbers::Integers => cast(INT64),
        Numbers::Any => {
            let numbers = cast(INT64);
            main.op(format_args!("Mul({numbers}, amounts)"))
        }
    };
    Some(ordered(main, layer, &mask))
}

/// A state of a loop: its name in the body, its type, its value after a step, and before the first.
type State = (String, &'static str, String, String);

/// Writes a layer as a loop over a value; the outputs that are read, all steps first.
fn write(main: &mut Writer, layer: Layer, x: &str, width: usize) -> Vec<String> {
    let axis = i64::from(layer.batch_first);
    let shape = main.op(format_args!("Shape({x})"));
    let [steps, batch] = [0, 1].map(|at| main.op(format_args!("Gather({shape}, [{at}])")));
    let mut x = ordered(main, layer, x);
    if layer.single {
        x = main.op(format_args!("Slice({x}, [0], [1], [{}])", 1 - axis));
    }
    let mask = mask(main, layer, &steps);

    // The states before the first step.
    let sizes = main.op(format_args!("Concat<axis=0>({batch}, [{}])", layer.units));
    let [begin, zeros] = [if layer.begins { "0.25" } else { "0.0" }, "0.0"]
        .map(|value| main.op(format_args!("Expand({value}, {sizes})")));

    let mut body = main.within();
    let [i, c, t, h, m, r] = ["i", "c", "t", "h", "m", "r"].map(|name| body.fresh(name));
    let [slice, mask_slice] = ["slice", "mask_slice"].map(|name| body.fresh(name));
    let after = body.op(format_args!("Add({t}, 1)"));
    let before = body.op(format_args!("Sub({t}, 1)"));
    let read = |body: &mut Writer, value: &str, at: &str| {
        body.op(format_args!("Gather<axis={axis}>({value}, {at})"))
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
            let over = body.op(format_args!("GreaterOrEqual({t}, lens)"));
            let over = body.op(format_args!("Reshape({over}, [-1 1])"));
            Some(body.op(format_args!("Not({over})")))
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
        output = body.op(format_args!("Neg({output})"));
    }
    let mut states: Vec<State> = vec![
        (t, "i64", after.clone(), "0".to_owned()),
        (h, "f32", hidden, begin.clone()),
        (m, "f32", memory, begin),
        (r, "f32", repeated, zeros.clone()),
    ];
    if layer.buffered {
        let buffer = body.op(format_args!("Unsqueeze({output}, [0])"));
        let room = main.op(format_args!("Unsqueeze({zeros}, [0])"));
        states.push((body.fresh("b"), "f32", buffer, room));
    }
    // A body's outputs are its own values, each once.
    let left = states.iter().map(|(_, of, value, _)| (value, *of));
    let outputs = left.chain(std::iter::once((&output, "f32")));
    let mut results: Vec<String> = outputs
        .map(|(value, of)| format!("{}:{of}", body.op(format_args!("Identity({value})"))))
        .collect();
    let given: Vec<String> = results.iter().map(|_| main.fresh("given")).collect();
    let mut inputs: Vec<String> = states
        .iter()
        .map(|(name, of, ..)| format!("{name}:{of}"))
        .collect();
    let always = main.bytes(BOOL, &[], vec![1]);
    let mut fed: Vec<&str> = states.iter().map(|(.., begin)| &**begin).collect();
    let call = if layer.scan {
        inputs.push(format!("{slice}:f32"));
        let of = match layer.numbers {
            Numbers::Truths => "bool",
            Numbers::Floats => "f32",
            Numbers::Integers | Numbers::Any => "i64",
        };
        inputs.extend(mask.iter().map(|_| format!("{mask_slice}:{of}")));
        fed.push(&x);
        fed.extend(mask.as_deref());
        let count = 1 + usize::from(mask.is_some());
        let [axes, backwards] = [axis, i64::from(layer.backwards)].map(|it| vec![it; count]);
        format!(
            "Scan<num_scan_inputs={count};scan_input_axes={axes:?};scan_input_directions={backwards:?};"
        )
    } else {
        let end = match (layer.near, layer.end) {
            (Some(Near::Early), _) => body.op(format_args!("Less({after}, 2)")),
            (_, 0) => body.op(format_args!("Identity({c})")),
            (_, 1) => body.op(format_args!("Less({after}, {steps})")),
            (_, 2) => body.op(format_args!("Greater({steps}, {after})")),
            _ => {
                let [step, steps] =
                    [&after, &steps].map(|it| body.op(format_args!("Cast<to={FLOAT}>({it})")));
                body.op(format_args!("Less({step}, {steps})"))
            }
        };
        inputs.splice(0..0, [format!("{i}:i64[]"), format!("{c}:bool[]")]);
        results.insert(0, format!("{end}:bool"));
        fed.splice(0..0, [if layer.end == 3 { "_" } else { &*steps }, &always]);
        "Loop<".to_owned()
    };
    let body = main.inner(body.graph(&inputs.join(" "), &results.join(" ")));
    let fed = fed.join(", ");
    main.add(
        &given.join(", "),
        format_args!("{call}body=@{body}>({fed})"),
    );
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
fn model_of(layers: &[Layer]) -> Vec<u8> {
    let mut main = Writer::new();
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
        outputs.extend(given.into_iter().map(|name| format!("{name}:f32")));
    }
    let inputs = "x:f32[T,B,3] mask:bool[T,B,1] amounts:i64[T,B,1] lens:i64[B]";
    main.model(inputs, &outputs.join(" "), 17)
}

/// Random models, each in its bytes.
pub(crate) fn models() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(layers(), 4).prop_map(|layers| model_of(&layers))
}

/// The inputs of a run: a mask of any form, numbers that are not 0, and lengths beyond both ends of
/// time.
fn inputs(run: Run) -> Vec<TensorProto> {
    let Run { time, batch, .. } = run;
    let each = || 0..time * batch;
    let mask: Vec<u8> = each()
        .map(|it| u8::from(!run.mixed(it + 31).is_multiple_of(3)))
        .collect();
    let amounts = each().map(|it| [1, 2, -1, 3][run.mixed(it) as usize % 4]);
    let amounts: Vec<u8> = amounts.flat_map(i64::to_le_bytes).collect();
    let lens = (0..batch).map(|it| (run.mixed(it + 7) % (time as u64 + 3)) as i64 - 1);
    let lens: Vec<u8> = lens.flat_map(i64::to_le_bytes).collect();
    let x = run.floats(time * batch * WIDTH);
    let [time, batch] = [time, batch].map(|size| size as i64);
    vec![
        tensor("x", FLOAT, &[time, batch, WIDTH as i64], &x),
        tensor("mask", BOOL, &[time, batch, 1], &mask),
        tensor("amounts", INT64, &[time, batch, 1], &amounts),
        tensor("lens", INT64, &[batch], &lens),
    ]
}

fn check(layers: &[Layer], runs: [Run; 2], comparison: &Comparison) -> Result<(), TestCaseError> {
    let is_linear = |which: &usize| FUNCTIONS[*which] == "Relu";
    let has_linear = layers.iter().any(|it| it.functions.iter().any(is_linear));
    // A gate without bounds multiplies the rounding of a state in each step: by 5.5 for floats of 2^6, of
    // which five steps make 4e-4 of a Sigmoid's 4e-7. No tolerance is both above that and below an error.
    let is_multiplied = |it: &Layer| it.kind != CellKind::Rnn && is_linear(&it.functions[0]);
    let runs = match layers.iter().any(is_multiplied) {
        true => runs.map(Run::small),
        false if has_linear => runs.map(Run::kept),
        false => runs,
    };
    let case = (layers, runs);
    let Some(report) = comparison.run(&case, &model_of(layers), &runs.map(inputs), &["--fast"])?
    else {
        return Ok(());
    };
    let of_loops = steps_of(&report, "recurrent-loop");
    let (taken, left): (Vec<_>, Vec<_>) = of_loops
        .into_iter()
        .partition(|step| step["result"] == "rewritten");
    // Sizes of an output below may not be provable.
    let is_alone = |layer: &&Layer| layer.is_plain() && !layer.stacked;
    let plain = layers.iter().filter(is_alone).count();
    prop_assert_eq!(taken.len() + left.len(), layers.len());
    prop_assert!(taken.len() >= plain, "{left:#?}\n{layers:?}");
    let mixing = layers.iter().filter(|layer| layer.is_mixing()).count();
    prop_assert!(left.len() >= mixing, "{left:#?}\n{layers:?}");
    Ok(())
}

#[test]
fn random_loops_stay_when_they_are_rewritten_again() {
    draw::check(150, proptest::collection::vec(layers(), 4), |layers| {
        rewritten(&layers, &model_of(&layers), &["--fast"]).map(|_| ())
    });
}

#[test]
fn random_loops_give_the_same_once_rewritten() {
    let comparison = Comparison::new("random_loops_give_the_same_once_rewritten");
    let layers = proptest::collection::vec(layers(), 8);
    let runs = || draw::runs(draw::scaled());
    draw::check(3, (layers, [runs(), runs()]), |(layers, runs)| {
        check(&layers, runs, &comparison)
    });
    comparison.ends();
}
