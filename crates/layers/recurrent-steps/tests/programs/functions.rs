//! Functions of elements.

use crate::common::{close, floats, program, run};

/// Nodes that make `y` of `x`, element by element, and their formula.
type Formula = (&'static str, fn(f64) -> f64);

/// Functions of an element.
const FUNCTIONS: &[Formula] = &[
    ("y = Abs(x)", f64::abs),
    ("y = Ceil(x)", f64::ceil),
    ("y = Celu<alpha=0.5>(x)", |x| {
        if x < 0.0 { 0.5 * (2.0 * x).exp_m1() } else { x }
    }),
    ("y = Clip(x, -0.5, 1.0)", |x| x.clamp(-0.5, 1.0)),
    ("y = Cos(x)", f64::cos),
    ("y = Elu(x)", |x| if x < 0.0 { x.exp_m1() } else { x }),
    ("y = Exp(x)", f64::exp),
    ("y = Floor(x)", f64::floor),
    ("y = HardSigmoid(x)", |x| (0.2 * x + 0.5).clamp(0.0, 1.0)),
    ("y = HardSwish(x)", |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
    ("y = LeakyRelu<alpha=0.25>(x)", |x| {
        if x < 0.0 { 0.25 * x } else { x }
    }),
    ("a = Abs(x)\ny = Log(a)", |x| x.abs().ln()),
    ("y = Neg(x)", |x| -x),
    ("y = Reciprocal(x)", f64::recip),
    ("y = Relu(x)", |x| x.max(0.0)),
    ("y = Round(x)", f64::round_ties_even),
    ("y = Sigmoid(x)", |x| 1.0 / (1.0 + (-x).exp())),
    ("y = Sign(x)", f64::signum),
    ("y = Sin(x)", f64::sin),
    ("y = Softplus(x)", |x| x.exp().ln_1p()),
    ("y = Softsign(x)", |x| x / (1.0 + x.abs())),
    ("a = Abs(x)\ny = Sqrt(a)", |x| x.abs().sqrt()),
    ("y = Tanh(x)", f64::tanh),
    ("y = ThresholdedRelu<alpha=1.5>(x)", |x| {
        if x > 1.5 { x } else { 0.0 }
    }),
];

#[test]
fn functions_of_elements_are_those_of_their_formulas() {
    let xs = [-2.5, -1.5, -0.25, 0.25, 0.5, 1.5, 2.0, 6.0_f32];
    for &(nodes, formula) in FUNCTIONS {
        let text = "last, ys = Scan<body=@body;num_scan_inputs=1>(h0, xs)\n@body: h x -> next y";
        let program = program(&format!("{text}\nnext = Identity(h)\n{nodes}"));
        let given = [("h0", floats(&[], &[0.0])), ("xs", floats(&[8], &xs))];
        let (memory, _) = run(&program, &given, [1, 8]).unwrap();
        let expected = xs.map(|x| formula(f64::from(x)) as f32);
        close(&memory[1], &expected, nodes);
    }
}
