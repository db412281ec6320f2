//! Loops that are recurrent layers with large weights, in the forms that exporters write, and near
//! misses. Optimised, they give the same results as step by step.

use proptest::prelude::*;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use crate::build::{Graph, Optimize, graph, ops, parse_with_programs, without_layers};

const STEPS: usize = 4;
const BATCH: usize = 3;
const FEATURES: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Lstm,
    Gru { resets_after_product: bool },
    Rnn,
}

/// Form of the choice by a mask between the new and the old value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mask {
    None,
    Where,
    Blend,
}

/// The output of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shown {
    State,
    /// A separate state that repeats the output.
    CustomOp,
    /// Zeros at invalid steps.
    Zeros,
}

/// A difference between the loop and a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Miss {
    None,
    Function,
    Scaled,
    OppositeMask,
    OtherStart,
}

#[derive(Clone, Debug)]
struct Case {
    cell: Cell,
    mask: Mask,
    shown: Shown,
    miss: Miss,
    /// Whether each gate has separate products.
    is_apart: bool,
    is_turned: bool,
    is_symbolic: bool,
    is_nan: bool,
}

impl Case {
    fn gates(&self) -> usize {
        match self.cell {
            Cell::Lstm => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn => 1,
        }
    }

    fn units(&self) -> usize {
        if self.cell == Cell::Rnn { 70 } else { 41 }
    }

    /// A sum or a product, with its operands in either order.
    fn two(&self, name: &str, op: &str, a: &str, b: &str) -> String {
        let (a, b) = if self.is_turned { (b, a) } else { (a, b) };
        format!("{name} = {op}({a}, {b})")
    }

    /// The products of the input, `x0` and so on, and of a state.
    fn products(&self, lines: &mut Vec<String>) {
        let gates = self.gates();
        let late = self.cell
            == Cell::Gru {
                resets_after_product: false,
            };
        if self.is_apart {
            for gate in 0..gates {
                lines.push(format!("xw{gate} = MatMul(xt, w{gate})"));
                lines.push(self.two(
                    &format!("x{gate}"),
                    "Add",
                    &format!("xw{gate}"),
                    &format!("b{gate}"),
                ));
                if !(late && gate == 2) {
                    lines.push(format!("r{gate} = MatMul(h, u{gate})"));
                }
            }
        } else {
            let names = |part: &str| {
                let names = (0..gates).map(|gate| format!("{part}{gate}"));
                names.collect::<Vec<_>>().join(", ")
            };
            lines.push("xw = MatMul(xt, w)".to_owned());
            lines.push(self.two("xb", "Add", "xw", "b"));
            lines.push(format!("{} = Split<axis=1>(xb)", names("x")));
            lines.push("hu = MatMul(h, u)".to_owned());
            lines.push(format!("{} = Split<axis=1>(hu)", names("r")));
        }
    }

    fn body(&self) -> String {
        let mut lines = vec![
            "c1 = Identity(c)".to_owned(),
            "xt = Gather<axis=0>(x, i)".to_owned(),
            "mt = Gather<axis=0>(m, i)".to_owned(),
        ];
        self.products(&mut lines);
        let sigmoid = if self.miss == Miss::Function {
            "Softplus"
        } else {
            "Sigmoid"
        };
        let mut line = |line: String| lines.push(line);
        match self.cell {
            Cell::Lstm => {
                for (gate, function) in ["Sigmoid", sigmoid, "Tanh", "Sigmoid"].iter().enumerate() {
                    line(self.two(
                        &format!("s{gate}"),
                        "Add",
                        &format!("x{gate}"),
                        &format!("r{gate}"),
                    ));
                    line(format!("g{gate} = {function}(s{gate})"));
                }
                line(self.two("fk", "Mul", "g1", "k"));
                line(self.two("ig", "Mul", "g0", "g2"));
                line(self.two("knew", "Add", "fk", "ig"));
                line("kt = Tanh(knew)".to_owned());
                line(self.two("hnew", "Mul", "g3", "kt"));
            }
            Cell::Gru {
                resets_after_product,
            } => {
                for (gate, function) in ["Sigmoid", sigmoid].iter().enumerate() {
                    line(self.two(
                        &format!("s{gate}"),
                        "Add",
                        &format!("x{gate}"),
                        &format!("r{gate}"),
                    ));
                    line(format!("g{gate} = {function}(s{gate})"));
                }
                if resets_after_product {
                    line(self.two("hb", "Add", "r2", "own"));
                    line(self.two("seen", "Mul", "g1", "hb"));
                } else {
                    line(self.two("reset", "Mul", "g1", "h"));
                    line("seen = MatMul(reset, u2)".to_owned());
                }
                line(self.two("s2", "Add", "x2", "seen"));
                line("new = Tanh(s2)".to_owned());
                line("rest = Sub(one, g0)".to_owned());
                line(self.two("kept", "Mul", "g0", "h"));
                line(self.two("added", "Mul", "rest", "new"));
                line(self.two("hnew", "Add", "kept", "added"));
                line("knew = Identity(k)".to_owned());
            }
            Cell::Rnn => {
                line(self.two("s0", "Add", "x0", "r0"));
                line(format!(
                    "hnew = {}(s0)",
                    if self.miss == Miss::Function {
                        "Sin"
                    } else {
                        "Tanh"
                    }
                ));
                line("knew = Identity(k)".to_owned());
            }
        }
        if self.miss == Miss::Scaled {
            line("h9 = Mul(hnew, half)".to_owned());
        } else {
            line("h9 = Identity(hnew)".to_owned());
        }
        let other = match self.shown {
            Shown::State => "h",
            Shown::CustomOp => "p",
            Shown::Zeros => "zeros",
        };
        line("not = Not(mt)".to_owned());
        line("on = Cast<to=1>(mt)".to_owned());
        line("off = Cast<to=1>(not)".to_owned());
        for (to, new, old) in [("h1", "h9", "h"), ("k1", "knew", "k"), ("p1", "h9", other)] {
            let is_opposite = self.miss == Miss::OppositeMask && to == "h1";
            match self.mask {
                Mask::None => line(format!("{to} = Identity({new})")),
                Mask::Where if is_opposite => line(format!("{to} = Where(not, {new}, {old})")),
                Mask::Where => line(format!("{to} = Where(mt, {new}, {old})")),
                Mask::Blend => {
                    let (on, off) = if is_opposite {
                        ("off", "on")
                    } else {
                        ("on", "off")
                    };
                    line(self.two(&format!("{to}a"), "Mul", on, new));
                    line(self.two(&format!("{to}b"), "Mul", old, off));
                    line(self.two(to, "Add", &format!("{to}a"), &format!("{to}b")));
                }
            }
        }
        line("out = Identity(p1)".to_owned());
        lines.join("\n")
    }

    fn model(&self, has_last: bool) -> Graph {
        let (units, gates) = (self.units(), self.gates());
        let mut seed = 0;
        let mut numbers = |sizes: &[usize]| {
            seed += 1;
            numbers(sizes, seed)
        };
        let (w, u, b) = (
            numbers(&[FEATURES, gates * units]),
            numbers(&[units, gates * units]),
            numbers(&[gates * units]),
        );
        let body = graph("i c h k p", "c1 h1 k1 p1 out", &self.body())
            .constants("one = 1.0, half = 0.5")
            .constant("own", numbers(&[units]));
        let size = if self.is_symbolic {
            "T".to_owned()
        } else {
            STEPS.to_string()
        };
        let outputs = match self.cell {
            _ if !has_last => "ys",
            Cell::Lstm => "ys last cell",
            _ => "ys last",
        };
        let mut outer = graph(
            &format!("x:f32[{size},{BATCH},{FEATURES}] m:bool[{size},{BATCH},1]"),
            outputs,
            "shape = Shape(x)
             n = Gather<axis=0>(shape, 0)
             last, cell, _, ys = Loop<body=@body>(n, true, start, start, other)",
        )
        .with("body", body);
        let zeros = Tensor::zero::<f32>(&[BATCH, units]).unwrap();
        // The repeated output starts like the state, or differently.
        let start = match self.shown {
            Shown::State => numbers(&[BATCH, units]),
            _ => zeros.clone(),
        };
        let other = match self.miss {
            Miss::OtherStart => numbers(&[BATCH, units]),
            _ => zeros.clone(),
        };
        for (name, tensor) in [("start", start), ("other", other), ("zeros", zeros)] {
            outer = outer.constant(name, tensor);
        }
        for (name, tensor) in [("w", w), ("u", u), ("b", b)] {
            let axis = tensor.rank() - 1;
            for gate in 0..gates {
                let part = tensor
                    .slice(axis, gate * units, (gate + 1) * units)
                    .unwrap();
                outer = outer.constant(&format!("{name}{gate}"), part);
            }
            outer = outer.constant(name, tensor);
        }
        outer
    }

    fn check(&self) -> TractResult<()> {
        let mask: Vec<bool> = (0..STEPS * BATCH).map(|it| it * 5 % 3 != 0).collect();
        let mut x = numbers(&[STEPS, BATCH, FEATURES], 99);
        if self.is_nan {
            // At a step that is not valid.
            x.try_as_plain_ram_mut()?.as_slice_mut::<f32>()?[BATCH * FEATURES] = f32::NAN;
        }
        let mask_of_steps = Tensor::from_shape(&[STEPS, BATCH, 1], &mask)?;
        let inputs: TVec<TValue> = tvec![x.into_tvalue(), mask_of_steps.into_tvalue()];
        let by_step = Self {
            is_symbolic: true,
            ..self.clone()
        };
        let expected = without_layers(by_step.model(true))?(inputs.clone())?;
        // A Scan outputs no final states for a symbolic number of steps.
        let optimized = parse_with_programs(self.model(!self.is_symbolic))?.optimized()?;
        let is_layer = ops(&optimized).iter().any(|op| op.starts_with("Packed"));
        let has_mask = self.mask != Mask::None;
        let is_missed = match self.miss {
            Miss::None => false,
            Miss::Function => true,
            Miss::Scaled => true,
            Miss::OppositeMask => has_mask,
            Miss::OtherStart => has_mask && self.shown == Shown::CustomOp,
        };
        assert_eq!(is_layer, !is_missed, "{:?}", ops(&optimized));
        let found = optimized.into_runnable()?.run(inputs)?;
        for (found, expected) in std::iter::zip(&found, &expected) {
            found.close_enough(expected, Approximation::Approximate)?;
        }
        Ok(())
    }
}

/// Numbers between -0.5 and 0.5.
fn numbers(sizes: &[usize], seed: usize) -> Tensor {
    let count: usize = sizes.iter().product();
    let number = |it: usize| ((it * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5;
    let numbers: Vec<f32> = (0..count).map(number).collect();
    Tensor::from_shape(sizes, &numbers).unwrap()
}

fn cases() -> impl Strategy<Value = Case> {
    let cell = prop_oneof![
        Just(Cell::Lstm),
        any::<bool>().prop_map(|resets_after_product| Cell::Gru {
            resets_after_product
        }),
        Just(Cell::Rnn),
    ];
    let mask = prop_oneof![Just(Mask::None), Just(Mask::Where), Just(Mask::Blend)];
    let shown = prop_oneof![
        Just(Shown::State),
        Just(Shown::CustomOp),
        Just(Shown::Zeros)
    ];
    let miss = prop_oneof![
        4 => Just(Miss::None),
        1 => Just(Miss::Function),
        1 => Just(Miss::Scaled),
        1 => Just(Miss::OppositeMask),
        1 => Just(Miss::OtherStart),
    ];
    let flags = any::<[bool; 4]>();
    (cell, mask, shown, miss, flags).prop_map(|(cell, mask, shown, miss, flags)| Case {
        cell,
        mask,
        shown,
        miss,
        is_apart: flags[0],
        is_turned: flags[1],
        is_symbolic: flags[2],
        is_nan: flags[3],
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn loops_with_large_weights_are_layers(case in cases()) {
        case.check().unwrap();
    }
}
