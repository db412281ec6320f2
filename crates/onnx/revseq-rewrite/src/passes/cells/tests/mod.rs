mod arena;

use arena::{Arena, FEATURES, UNITS, Value};

use super::{Activation, Cell, CellKind, Matrix};
use crate::constant::Floats;

const SIGMOID: Activation = function("Sigmoid", None, None);
const TANH: Activation = function("Tanh", None, None);

const fn function(name: &'static str, alpha: Option<f32>, beta: Option<f32>) -> Activation {
    Activation { name, alpha, beta }
}

/// Checks that a formula is a cell that computes the same, whatever the order of operands.
#[track_caller]
fn check(formula: impl Fn(&mut Arena) -> Value) -> Cell<'static> {
    let cells = [false, true].map(|is_turned| {
        let mut arena = Arena::default();
        arena.is_turned = is_turned;
        let output = formula(&mut arena);
        let cell = arena.cell(output).expect("it is a cell");
        let (found, memory) = arena.layer(&cell);
        same(&found, &arena.run(output));
        if let (Some(found), Some((_, new))) = (memory, cell.memory) {
            same(&found, &arena.run(new[1..].parse().unwrap()));
        }
        cell
    });
    let [cell, _] = cells;
    cell
}

#[track_caller]
fn same(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let mut pairs = std::iter::zip(found, expected);
    assert!(
        pairs.all(|(a, b)| (a - b).abs() < 1e-5),
        "{found:?} instead of {expected:?}"
    );
}

#[track_caller]
fn refuse(formula: impl Fn(&mut Arena) -> Value) {
    let mut arena = Arena::default();
    let output = formula(&mut arena);
    assert!(arena.cell(output).is_none());
}

/// The new cell state and the output, from the sums of the gates i, f, c and a function of the new
/// cell state that makes the sum of the gate o.
fn lstm(
    a: &mut Arena,
    [i, f, g]: [Value; 3],
    c: Value,
    o: impl Fn(&mut Arena, Value) -> Value,
) -> Value {
    let [i, f] = [i, f].map(|sum| a.function(SIGMOID, sum));
    let g = a.function(TANH, g);
    let (kept, added) = (a.times(f, c), a.times(i, g));
    let new = a.plus(kept, added);
    let o = o(a, new);
    let (o, shown) = (a.function(SIGMOID, o), a.function(TANH, new));
    a.times(o, shown)
}

#[test]
fn an_lstm_of_products_for_each_gate() {
    let cell = check(|a| {
        let (x, h, c) = (a.input(), a.state("h"), a.state("c"));
        let sums = [(); 4].map(|()| a.sum(x, h));
        lstm(a, [sums[0], sums[1], sums[2]], c, |_, _| sums[3])
    });
    assert_eq!(cell.kind, CellKind::Lstm);
    assert_eq!((cell.features(), cell.units()), (FEATURES, UNITS));
    assert!(cell.gates.iter().all(|gate| gate.peephole.is_none()));
}

#[test]
fn an_lstm_of_joined_values_and_columns() {
    check(|a| {
        let (x, h, c) = (a.input(), a.state("h"), a.state("c"));
        let both = a.joined(&[x, h]);
        let product = a.product(both, 4 * UNITS);
        let bias = a.constant(&[1, 4 * UNITS]);
        let sum = a.plus(product, bias);
        // Columns of columns, and of all of them.
        let half = a.columns(sum, 2 * UNITS, 2 * UNITS);
        let all = a.columns(half, 0, 2 * UNITS);
        let gates = [(sum, 0), (sum, UNITS), (all, 0), (all, UNITS)];
        let sums = gates.map(|(of, first)| a.columns(of, first, UNITS));
        lstm(a, [sums[0], sums[1], sums[2]], c, |_, _| sums[3])
    });
}

#[test]
fn an_lstm_whose_functions_come_before_the_columns() {
    check(|a| {
        let (x, h, c) = (a.input(), a.state("h"), a.state("c"));
        let bias = a.constant(&[]);
        let of_x = a.product_and(x, 4 * UNITS, bias);
        let sum = a.product_and(h, 4 * UNITS, of_x);
        let all = a.function(SIGMOID, sum);
        let gates = [0, UNITS, 2 * UNITS, 3 * UNITS].map(|at| a.columns(all, at, UNITS));
        let (kept, added) = (a.times(gates[0], c), a.times(gates[1], gates[2]));
        let new = a.plus(kept, added);
        let shown = a.function(TANH, new);
        a.times(gates[3], shown)
    });
}

#[test]
fn an_lstm_with_peepholes() {
    let cell = check(|a| {
        let (x, h, c) = (a.input(), a.state("h"), a.state("c"));
        let sums = [(); 4].map(|()| a.sum(x, h));
        let peepholes = [(); 3].map(|()| a.constant(&[UNITS]));
        let [i, f] = [0, 1].map(|gate| {
            let seen = a.times(peepholes[gate], c);
            a.plus(sums[gate], seen)
        });
        lstm(a, [i, f, sums[2]], c, |a, new| {
            let seen = a.times(peepholes[2], new);
            a.plus(sums[3], seen)
        })
    });
    let peepholes = cell.gates.iter().map(|gate| gate.peephole.is_some());
    assert_eq!(peepholes.collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn no_lstm_with_a_peephole_of_another_state() {
    refuse(|a| {
        let (x, h, c) = (a.input(), a.state("h"), a.state("c"));
        let sums = [(); 4].map(|()| a.sum(x, h));
        let by = a.constant(&[UNITS]);
        // The output gate sees the new cell state, not the old one.
        let seen = a.times(by, c);
        let o = a.plus(sums[3], seen);
        lstm(a, [sums[0], sums[1], sums[2]], c, |_, _| o)
    });
}

/// The candidate of a GRU.
fn candidate(a: &mut Arena, [x, h]: [Value; 2], resets_after_product: bool) -> Value {
    let r = a.sum(x, h);
    let r = a.function(SIGMOID, r);
    let of_x = a.product(x, UNITS);
    let bias = a.constant(&[UNITS]);
    let of_x = a.plus(of_x, bias);
    let seen = if resets_after_product {
        let own = a.constant(&[UNITS]);
        let product = a.product_and(h, UNITS, own);
        let seen = a.times(r, product);
        a.columns(seen, 0, UNITS)
    } else {
        let reset = a.times(r, h);
        a.product(reset, UNITS)
    };
    a.plus(of_x, seen)
}

/// A mixture of the state `h` and the candidate `n` by the gate `z`.
type Mixture = fn(&mut Arena, Value, Value, Value) -> Value;

const MIXTURES: [Mixture; 6] = [
    |a, z, h, n| {
        let one = a.scalar(1.0);
        let rest = a.minus(one, z);
        let (kept, added) = (a.times(z, h), a.times(rest, n));
        a.plus(kept, added)
    },
    |a, z, h, n| {
        let change = a.minus(h, n);
        let change = a.times(z, change);
        a.plus(n, change)
    },
    |a, z, h, n| {
        let change = a.minus(n, h);
        let change = a.times(z, change);
        a.minus(n, change)
    },
    |a, z, h, n| MIXTURES[0](a, z, n, h),
    |a, z, h, n| MIXTURES[1](a, z, n, h),
    |a, z, h, n| MIXTURES[2](a, z, n, h),
];

fn gru(a: &mut Arena, mixture: Mixture, gate: Activation, resets_after_product: bool) -> Value {
    let (x, h) = (a.input(), a.state("h"));
    let z = a.sum(x, h);
    let z = a.function(gate, z);
    let n = candidate(a, [x, h], resets_after_product);
    let n = a.function(TANH, n);
    mixture(a, z, h, n)
}

#[test]
fn grus_of_all_forms() {
    for mixture in MIXTURES {
        for resets_after_product in [false, true] {
            let cell = check(|a| gru(a, mixture, SIGMOID, resets_after_product));
            let expected = CellKind::Gru {
                resets_after_product,
            };
            assert_eq!(cell.kind, expected);
            assert_eq!(cell.gates[2].state_bias.is_some(), resets_after_product);
        }
    }
}

#[test]
fn no_gru_whose_gates_have_different_functions() {
    refuse(|a| gru(a, MIXTURES[0], TANH, false));
}

#[test]
fn an_opposite_gate_has_a_symmetric_function() {
    let gru = |a: &mut Arena, gate: Activation| {
        let (x, h) = (a.input(), a.state("h"));
        let [z, r] = [(); 2].map(|()| {
            let sum = a.sum(x, h);
            a.function(gate, sum)
        });
        let reset = a.times(r, h);
        let (of_x, of_reset) = (a.product(x, UNITS), a.product(reset, UNITS));
        let n = a.plus(of_x, of_reset);
        let n = a.function(TANH, n);
        MIXTURES[3](a, z, h, n)
    };
    let ramp = |beta| function("HardSigmoid", Some(0.2), Some(beta));
    check(|a| gru(a, ramp(0.5)));
    refuse(|a| gru(a, ramp(0.4)));
    refuse(|a| gru(a, function("Softsign", None, None)));
}

#[test]
fn no_gru_with_a_peephole() {
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let z = a.sum(x, h);
        let z = a.function(SIGMOID, z);
        let n = candidate(a, [x, h], false);
        let by = a.constant(&[UNITS]);
        let seen = a.times(by, h);
        let n = a.plus(n, seen);
        let n = a.function(TANH, n);
        MIXTURES[0](a, z, h, n)
    });
}

#[test]
fn rnns_of_all_functions() {
    let functions = [
        function("Elu", Some(0.7), None),
        function("HardSigmoid", Some(0.3), Some(0.4)),
        function("LeakyRelu", Some(0.1), None),
        function("Relu", None, None),
        SIGMOID,
        function("Softplus", None, None),
        function("Softsign", None, None),
        TANH,
        function("ThresholdedRelu", Some(0.5), None),
    ];
    for function in functions {
        let cell = check(|a| {
            let (x, h) = (a.input(), a.state("h"));
            let sum = a.sum(x, h);
            a.function(function, sum)
        });
        assert_eq!(
            (cell.kind, &*cell.activations),
            (CellKind::Rnn, &[function][..])
        );
    }
}

#[test]
fn an_rnn_without_function() {
    let cell = check(|a| {
        let (x, h) = (a.input(), a.state("h"));
        a.sum(x, h)
    });
    assert_eq!(cell.activations, [Activation::NONE]);
}

#[test]
fn a_ramp_is_hard_sigmoid() {
    let ramps: [fn(&mut Arena, Value) -> Value; 4] = [
        |a, x| {
            let [scale, offset] = [0.2, 0.5].map(|it| a.scalar(it));
            let scaled = a.times(x, scale);
            let moved = a.plus(scaled, offset);
            a.bounded(moved, 0.0, 1.0)
        },
        |a, x| {
            let [divisor, less, low, high] = [5.0, -0.5, 0.0, 1.0].map(|it| a.scalar(it));
            let scaled = a.binary("Div", x, divisor);
            let moved = a.minus(scaled, less);
            let above = a.binary("Min", moved, high);
            a.binary("Max", above, low)
        },
        // relu6(x + 2.5) / 5, of half the bound.
        |a, x| {
            let [offset, divisor] = [2.5, 5.0].map(|it| a.scalar(it));
            let moved = a.plus(x, offset);
            let bounded = a.bounded(moved, 0.0, 5.0);
            a.binary("Div", bounded, divisor)
        },
        // The outer bound is an activation of its own.
        |a, x| {
            let [scale, offset, high] = [0.2, 0.5, 1.0].map(|it| a.scalar(it));
            let scaled = a.times(x, scale);
            let moved = a.plus(scaled, offset);
            let above = a.binary("Min", moved, high);
            a.bounded(above, 0.0, f32::INFINITY)
        },
    ];
    for ramp in ramps {
        let cell = check(|a| {
            let (x, h) = (a.input(), a.state("h"));
            let sum = a.sum(x, h);
            ramp(a, sum)
        });
        let [
            Activation {
                name,
                alpha: Some(alpha),
                beta: Some(beta),
            },
        ] = cell.activations[..]
        else {
            panic!("{:?}", cell.activations);
        };
        assert_eq!(name, "HardSigmoid");
        same(&[alpha, beta], &[0.2, 0.5]);
    }
}

#[test]
fn no_lstm_of_two_inputs_or_of_one_state() {
    refuse(|a| {
        let (x, h, c) = (a.input(), a.state("h"), a.state("c"));
        let other = a.function(TANH, x);
        let sums = [x, x, x, other].map(|x| a.sum(x, h));
        lstm(a, [sums[0], sums[1], sums[2]], c, |_, _| sums[3])
    });
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let sums = [(); 4].map(|()| a.sum(x, h));
        lstm(a, [sums[0], sums[1], sums[2]], h, |_, _| sums[3])
    });
}

#[test]
fn no_cell_of_other_terms() {
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let (sum, product) = (a.sum(x, h), a.product(x, UNITS));
        let other = a.function(SIGMOID, product);
        let sum = a.plus(sum, other);
        a.function(TANH, sum)
    });
}

/// Weights of one column broadcast.
#[test]
fn no_gru_of_a_single_gate_for_all_units() {
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let (of_x, of_h) = (a.product(x, 1), a.product(h, 1));
        let z = a.plus(of_x, of_h);
        let z = a.function(SIGMOID, z);
        let n = candidate(a, [x, h], false);
        let n = a.function(TANH, n);
        MIXTURES[0](a, z, h, n)
    });
}

#[test]
fn no_cell_of_columns_that_are_not_there() {
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let (of_x, of_h) = (a.product(x, 2 * UNITS), a.product(h, 2 * UNITS));
        let sum = a.plus(of_x, of_h);
        let half = a.columns(sum, 0, UNITS);
        let beyond = a.columns(half, UNITS, UNITS);
        a.function(TANH, beyond)
    });
}

#[test]
fn no_cell_of_weights_that_do_not_fit() {
    // A bias of other sizes, rows that nothing joins, and no product of a state.
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let sum = a.sum(x, h);
        let bias = a.constant(&[2, UNITS]);
        let sum = a.plus(sum, bias);
        a.function(TANH, sum)
    });
    refuse(|a| {
        let x = a.input();
        let (one, other) = (a.product(x, UNITS), a.product(x, UNITS));
        let sum = a.plus(one, other);
        a.function(TANH, sum)
    });
    refuse(|a| {
        let (x, h) = (a.input(), a.state("h"));
        let part = a.columns(h, 0, 2);
        let (of_x, of_h) = (a.product(x, UNITS), a.product(part, UNITS));
        let sum = a.plus(of_x, of_h);
        a.function(TANH, sum)
    });
}

#[test]
fn parts_of_matrices_have_their_elements() {
    let matrix = |sizes: &[usize], elements: &[f32]| {
        let (sizes, elements) = (sizes.to_vec(), elements.to_vec());
        Matrix::new(Floats { sizes, elements }.into())
    };
    let numbers = [1., 2., 3., 4., 5., 6.];
    assert!(matrix(&[usize::MAX, 2], &[]).is_none());
    assert!(matrix(&[], &[1.0]).is_none());
    let matrix = matrix(&[2, 3], &numbers).unwrap();
    assert_eq!(matrix.by_columns(), [1., 4., 2., 5., 3., 6.]);
    let turned = matrix.transposed();
    assert_eq!(turned.by_columns(), numbers);
    assert_eq!((turned.rows(), turned.columns()), (3, 2));
    let part = turned.part_of_rows(1..3).unwrap();
    assert_eq!(part.by_columns(), [2., 3., 5., 6.]);
    let part = part.part_of_columns(1..2).unwrap();
    assert_eq!(part.by_columns(), [5., 6.]);
    assert_eq!(part.negated().by_columns(), [-5., -6.]);
    assert!(matrix.part_of_rows(1..3).is_none());
    assert!(matrix.part_of_columns(2..4).is_none());
}

#[test]
fn matrices_are_equal_by_their_elements() {
    let matrix = |elements: [f32; 4]| {
        let (sizes, elements) = (vec![2, 2], elements.to_vec());
        Matrix::new(Floats { sizes, elements }.into()).unwrap()
    };
    let one = matrix([1., 2., 3., 4.]);
    assert_eq!(one, matrix([1., 2., 3., 4.]));
    assert_eq!(one.transposed(), matrix([1., 3., 2., 4.]));
    assert_ne!(one, one.transposed());
    assert_ne!(one, one.clone().negated());
    assert_ne!(one, matrix([1., 2., 3., 5.]));
    assert_ne!(one, one.part_of_rows(0..1).unwrap());
    assert_ne!(matrix([0.; 4]), matrix([-0.; 4]));
}
