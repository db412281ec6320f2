//! Loops whose cells are written in the ways of different frameworks: each is a layer, for known
//! and symbolic sizes, and computes the same as step by step.

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use crate::build::{
    Graph, Optimize, graph, ops, parse, parse_with_programs, run, whole, without_layers,
};

const FEATURES: usize = 5;
const UNITS: usize = 66;

/// A loop over the steps `xt` of its input.
struct Form {
    /// The states; each has a new value with `1` behind its name.
    states: &'static str,
    body: String,
    constants: Vec<(String, Tensor)>,
    /// The operators of the layers.
    layers: &'static [&'static str],
}

/// Numbers between -0.25 and 0.25.
fn numbers(sizes: &[usize], seed: usize) -> Tensor {
    let count: usize = sizes.iter().product();
    let number = |it: usize| ((it * 7919 + seed * 104_729) % 1009) as f32 / 2018.0 - 0.25;
    let numbers: Vec<f32> = (0..count).map(number).collect();
    Tensor::from_shape(sizes, &numbers).unwrap()
}

/// The declared steps and sequences, and those of the runs.
type Sizes = (&'static str, &'static str, &'static [(usize, usize)]);

const KNOWN: [Sizes; 2] = [("4", "3", &[(4, 3)]), ("2", "1", &[(2, 1)])];
const OPEN: [Sizes; 1] = [("T", "N", &[(4, 3), (3, 1), (0, 3)])];

impl Form {
    fn new(
        layers: &'static [&'static str],
        states: &'static str,
        body: impl Into<String>,
        constants: &str,
    ) -> Self {
        // `name:rows,columns`, or one size, or none.
        let constants = constants.split_whitespace().enumerate();
        let constants = constants.map(|(seed, text)| {
            let (name, sizes) = text.split_once(':').unwrap();
            let sizes = sizes.split(',').filter(|size| !size.is_empty());
            let sizes: Vec<usize> = sizes.map(|size| size.parse().unwrap()).collect();
            (name.to_owned(), numbers(&sizes, seed))
        });
        Self {
            states,
            body: body.into(),
            constants: constants.collect(),
            layers,
        }
    }

    fn states(&self) -> impl Iterator<Item = &str> {
        self.states.split_whitespace()
    }

    fn model(&self, op: &str, steps: &str, batch: &str) -> Graph {
        let all = |to: &dyn Fn(&str) -> String, between: &str| {
            self.states().map(to).collect::<Vec<_>>().join(between)
        };
        let after = all(&|state| format!("{state}1"), " ");
        let starts = all(&|state| format!("{state}0"), ", ");
        let last = all(&|state| format!("{state}9"), ", ");
        let (body, nodes) = match op {
            "Scan" => (
                graph(
                    &format!(
                        "{} xt:f32[{batch},{FEATURES}] mt:bool[{batch},1]",
                        all(&|state| format!("{state}:f32[{batch},{UNITS}]"), " ")
                    ),
                    &format!("{after} ys1"),
                    &self.body,
                ),
                format!("{last}, ys = Scan<body=@body;num_scan_inputs=2>({starts}, x, m)"),
            ),
            _ => (
                graph(
                    &format!("i c {}", self.states),
                    &format!("c1 {after} ys1"),
                    &format!(
                        "c1 = Identity(c)\n xt = Gather<axis=0>(x, i)
                         mt = Gather<axis=0>(m, i)\n {}",
                        self.body
                    ),
                ),
                format!(
                    "shape = Shape(x)\n n = Gather<axis=0>(shape, first)
                     {last}, ys = Loop<body=@body>(n, yes, {starts})"
                ),
            ),
        };
        let outputs = last.replace(',', "");
        let starts = all(&|state| format!("{state}0:f32[{batch},{UNITS}]"), " ");
        let mut outer = graph(
            &format!("x:f32[{steps},{batch},{FEATURES}] m:bool[{steps},{batch},1] {starts}"),
            &format!("ys {outputs}"),
            &nodes,
        )
        .constants("first = 0, yes = true")
        .with("body", body);
        for (name, tensor) in &self.constants {
            outer = outer.constant(name, tensor.clone());
        }
        outer
    }

    /// Checks that the loop becomes layers, also where it is a Scan, and that these compute the same as the
    /// loop step by step.
    fn check(&self) {
        self.check_in(&KNOWN);
        self.check_in(&OPEN);
    }

    /// The same in these sizes.
    fn check_in(&self, sizes: &[Sizes]) {
        let plain = without_layers(self.model("Loop", "T", "N")).unwrap();
        for (op, (steps, batch, runs)) in ["Loop", "Scan"]
            .into_iter()
            .flat_map(|op| sizes.iter().map(move |&it| (op, it)))
        {
            let optimized = parse_with_programs(self.model(op, steps, batch)).unwrap();
            let optimized = optimized.optimized().unwrap();
            let mut found = ops(&optimized);
            found.retain(|op| op.starts_with("Packed"));
            assert_eq!(found, self.layers, "{op} {steps}: {}", self.body);
            let optimized = optimized.into_runnable().unwrap();
            for &(steps, batch) in runs {
                for is_nan in [false, true] {
                    let inputs = self.inputs(steps, batch, is_nan && steps > 1);
                    let expected = plain(inputs.clone()).unwrap();
                    let found = optimized.run(inputs).unwrap();
                    for (found, expected) in std::iter::zip(&found, &expected) {
                        assert_eq!(found.shape(), expected.shape());
                        let close = found.close_enough(expected, Approximation::Approximate);
                        close.unwrap_or_else(|error| panic!("{op}: {}: {error}", self.body));
                    }
                }
            }
        }
    }

    /// Inputs, with a number that is none in one sequence.
    fn inputs(&self, steps: usize, batch: usize, is_nan: bool) -> TVec<TValue> {
        let mut x = numbers(&[steps, batch, FEATURES], 99);
        if is_nan {
            let mut x = x.try_as_plain_ram_mut().unwrap();
            x.as_slice_mut::<f32>().unwrap()[batch * FEATURES] = f32::NAN;
        }
        let mask: Vec<bool> = (0..steps * batch).map(|it| it * 5 % 3 != 0).collect();
        let mask = Tensor::from_shape(&[steps, batch, 1], &mask).unwrap();
        let mut inputs = tvec![x.into_tvalue(), mask.into_tvalue()];
        let starts = self.states().enumerate();
        inputs.extend(starts.map(|(seed, _)| numbers(&[batch, UNITS], seed).into_tvalue()));
        inputs
    }
}

/// The lines of an LSTM, from the sums `i f g o`.
const LSTM: &str = "
    gi = Sigmoid(si)\n gf = Sigmoid(sf)\n gg = Tanh(sg)\n go = Sigmoid(so)
    kept = Mul(gf, k)\n added = Mul(gi, gg)\n k1 = Add(kept, added)
    shown = Tanh(k1)\n h1 = Mul(go, shown)\n ys1 = Identity(h1)";

/// The sums of the gates, as columns of `sum`.
const SPLIT: &str = "si, sf, sg, so = Split<axis=1>(sum)";

/// JAX cuts gates in this form.
#[test]
fn gates_may_be_slices_along_two_axes() {
    let mut body = "sx = Gemm<beta=0.0>(xt, w, zero)\n sh = Gemm<beta=0.0>(h, u, zero)
        s0 = Add(sx, sh)\n bm = Reshape(b, of_b)\n be = Expand(bm, of_b)\n sum = Add(s0, be)\n"
        .to_owned();
    for (gate, start) in ["i", "g", "f", "o"].iter().zip(["c0", "c1_", "c2", "c3"]) {
        let ends = format!("{start}e");
        body += &format!("s{gate} = Slice(sum, {start}, {ends}, axes)\n");
    }
    let cast = LSTM.replace("ys1 = Identity(h1)", "ys1 = Cast<to=1>(h1)");
    let mut form = Form::new(
        &["PackedLSTM"],
        "h k",
        format!("{body} {cast}"),
        "w:5,264 u:66,264 b:264 zero:",
    );
    let far = i64::from(i32::MAX);
    for (index, name) in ["c0", "c1_", "c2", "c3"].into_iter().enumerate() {
        let start = (index * UNITS) as i64;
        let end = start + UNITS as i64;
        form.constants.push((name.to_owned(), tensor1(&[0, start])));
        form.constants
            .push((format!("{name}e"), tensor1(&[far, end])));
    }
    form.constants
        .push(("axes".to_owned(), tensor1(&[0_i64, 1])));
    form.constants
        .push(("of_b".to_owned(), tensor1(&[1_i64, 264])));
    form.check();
}

/// The operator is 0 where its input equals the constant.
#[test]
fn a_threshold_is_not_above_itself() {
    let body = "sx = MatMul(xt, w)\n sh = MatMul(h, w2)\n s = Add(sx, sh)\n sum = Add(s, b)
        h1 = ThresholdedRelu<alpha=0.5>(sum)\n ys1 = Identity(h1)";
    let mut form = Form::new(&["PackedRNN"], "h", body, "");
    let zeros = |rows: usize| Tensor::zero::<f32>(&[rows, UNITS]).unwrap();
    for (name, value) in [
        ("w", zeros(FEATURES)),
        ("w2", zeros(UNITS)),
        ("b", tensor1(&[0.5_f32; UNITS])),
    ] {
        form.constants.push((name.to_owned(), value));
    }
    form.check();
}

/// TFLite keeps the last output like this, in a list of one element.
#[test]
fn outputs_keep_their_axes() {
    let model = |steps: &str| {
        whole(&format!(
            "x:f32[{steps},3,5] h0:f32[3,66] list0:f32[1,3,66] -> last list ys
             shape = Shape(x)
             n = Gather<axis=0>(shape, 0)
             last, list, ys = Loop<body=@body>(n, true, h0, list0)
             @body: i c h list -> c1 h1 list1 ys1
             c1 = Identity(c)
             xt = Gather<axis=0>(x, i)
             sx = MatMul(xt, w)
             sh = MatMul(h, u)
             sum = Add(sx, sh)
             h1 = Tanh(sum)
             list1 = Unsqueeze(h1, [0])
             ys1 = Identity(list1)"
        ))
        .constant("w", numbers(&[FEATURES, UNITS], 1))
        .constant("u", numbers(&[UNITS, UNITS], 2))
    };
    let optimized = parse(model("4")).unwrap().optimized().unwrap();
    assert!(ops(&optimized).contains(&"PackedRNN".to_owned()));
    let inputs: [&[usize]; 3] = [&[4, 3, FEATURES], &[3, UNITS], &[1, 3, UNITS]];
    let inputs = inputs.map(|sizes| numbers(sizes, 3).into_tvalue());
    let inputs: TVec<TValue> = inputs.into_iter().collect();
    let found = optimized.into_runnable().unwrap().run(inputs.clone());
    let expected = without_layers(model("T")).unwrap()(inputs).unwrap();
    for (found, expected) in std::iter::zip(found.unwrap(), expected) {
        assert_eq!(found.shape(), expected.shape());
        let close = found.close_enough(&expected, Approximation::Approximate);
        close.unwrap();
    }
}

/// A layer's sequence has a batch.
#[test]
fn a_loop_over_numbers_is_no_layer() {
    let model = whole(
        "x:f32[4] h0:f32[1,66] -> ys
         _, ys = Loop<body=@body>(4, true, h0)
         @body: i c h -> c1 h1 ys1
         c1 = Identity(c)
         xt = Gather<axis=0>(x, i)
         xm = Unsqueeze(xt, [0 1])
         sx = MatMul(xm, w)
         sh = MatMul(h, u)
         sum = Add(sx, sh)
         h1 = Tanh(sum)
         ys1 = Identity(h1)",
    )
    .constant("w", numbers(&[1, UNITS], 1))
    .constant("u", numbers(&[UNITS, UNITS], 2));
    let inputs = [numbers(&[4], 3), numbers(&[1, UNITS], 4)];
    assert_eq!(run(model, &inputs).unwrap()[0].shape(), [4, 1, UNITS]);
}

/// A stack of two layers in one loop, the second one in front.
fn stack(choice: &str) -> Form {
    let body = format!(
        "sx = MatMul(xt, w)\n sh = MatMul(h, u)\n sum = Add(sx, sh)\n {SPLIT}\n {}
         tx = MatMul(hn, v)\n tg = MatMul(g, q)\n ts = Add(tx, tg)\n gn = Tanh(ts)
         {choice}\n ys1 = Identity(g1)",
        LSTM.replace("h1", "hn")
            .replace("k1", "kn")
            .replace("ys1 = Identity(hn)", "")
    );
    Form::new(
        &["PackedLSTM", "PackedRNN"],
        "g h k",
        body,
        "w:5,264 u:66,264 v:66,66 q:66,66",
    )
}

#[test]
fn cells_of_one_loop_are_layers() {
    stack("h1 = Identity(hn)\n k1 = Identity(kn)\n g1 = Identity(gn)").check();
    let mut form = stack("h1 = Where(mt, hn, h)\n k1 = Where(mt, kn, k)\n g1 = Where(mt, gn, g)");
    form.check_in(&KNOWN);
    // The states may have more rows than the input.
    form.layers = &[];
    form.check_in(&OPEN);
}

#[test]
fn cells_with_masks_of_their_own_are_no_layers() {
    let mut form = stack(
        "not = Not(mt)
         h1 = Where(mt, hn, h)\n k1 = Where(mt, kn, k)\n g1 = Where(not, gn, g)",
    );
    form.layers = &[];
    form.check();
    let mut form = stack("h1 = Identity(hn)\n k1 = Identity(kn)\n g1 = Where(mt, gn, g)");
    form.layers = &[];
    form.check();
}

/// A mask that blends spreads the numbers of one layer to the next one.
#[test]
fn blended_cells_of_one_loop_are_no_layers() {
    let mut choice = "on = Cast<to=1>(mt)\n off = Sub(one, on)\n".to_owned();
    for state in ["h", "k", "g"] {
        choice += &format!(
            "{state}a = Mul(on, {state}n)\n {state}b = Mul(off, {state})
             {state}1 = Add({state}a, {state}b)\n"
        );
    }
    let mut form = stack(&choice);
    form.layers = &[];
    form.constants.push(("one".to_owned(), tensor0(1_f32)));
    form.check();
}
