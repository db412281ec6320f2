mod formulas;

use formulas::{FEATURES, Formula, UNITS};

use super::{Activation, Cell, CellKind, Matrix};
use crate::constant::Floats;

/// Checks that a formula is a cell that computes the same, whatever the order of operands.
#[track_caller]
fn check(text: &str) -> Cell<'static> {
    let cells = [false, true].map(|is_turned| {
        let formula = Formula::new(text, is_turned);
        let cell = formula.cell().expect("it is a cell");
        let (found, memory) = formula.layer(&cell);
        same(&found, &formula.value());
        if let (Some(found), Some((_, new))) = (memory, cell.memory) {
            same(&found, &formula.run(new));
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
fn refuse(text: &str) {
    assert!(Formula::new(text, false).cell().is_none(), "{text}");
}

/// The sum `x W + h R + b` of a gate.
fn sum(name: &str) -> String {
    sum_of(name, "x")
}

fn sum_of(name: &str, x: &str) -> String {
    format!(
        "{name}.x = MatMul({x}, {name}.w_2x3)
        {name}.h = MatMul(h, {name}.r_3x3)
        {name}.both = Add({name}.x, {name}.h)
        {name} = Add({name}.both, {name}.b_3)\n"
    )
}

fn sums<const N: usize>(names: [&str; N]) -> String {
    names.map(sum).concat()
}

/// An LSTM of the sums of the gates i, f and g, and of o, which may read the new cell state.
fn lstm(before: &str, o: &str) -> String {
    format!(
        "{before}
        input = Sigmoid(i)
        forget = Sigmoid(f)
        candidate = Tanh(g)
        kept = Mul(forget, c)
        added = Mul(input, candidate)
        new = Add(kept, added)
        {o}
        output = Sigmoid(o)
        shown = Tanh(new)
        y = Mul(output, shown)"
    )
}

#[test]
fn an_lstm_of_products_for_each_gate() {
    let cell = check(&lstm(&sums(["i", "f", "g", "o"]), ""));
    assert_eq!(cell.kind, CellKind::Lstm);
    assert_eq!((cell.features(), cell.units()), (FEATURES, UNITS));
    assert!(cell.gates.iter().all(|gate| gate.peephole.is_none()));
}

#[test]
fn an_lstm_of_joined_values_and_columns() {
    // Columns of columns, and of all of them.
    let gates = "joined = Concat<axis=1>(x, h)
        product = MatMul(joined, w_5x12)
        all = Add(product, b_1x12)
        half = Slice(all, [6], [12], [1])
        same = Slice(half, [0], [6], [1])
        i = Slice(all, [0], [3], [1])
        f = Slice(all, [3], [6], [1])
        g = Slice(same, [0], [3], [1])
        o = Slice(same, [3], [6], [1])";
    check(&lstm(gates, ""));
}

#[test]
fn an_lstm_whose_functions_come_before_the_columns() {
    check(
        "of_x = Gemm(x, w_2x12, 0.7)
        all = Gemm(h, r_3x12, of_x)
        gates = Sigmoid(all)
        f = Slice(gates, [0], [3], [1])
        i = Slice(gates, [3], [6], [1])
        g = Slice(gates, [6], [9], [1])
        o = Slice(gates, [9], [12], [1])
        kept = Mul(f, c)
        added = Mul(i, g)
        new = Add(kept, added)
        shown = Tanh(new)
        y = Mul(o, shown)",
    );
}

#[test]
fn an_lstm_with_peepholes() {
    let seen = |gate: &str, state: &str| {
        format!(
            "{gate}.seen = Mul({gate}.p_3, {state})
            {gate} = Add({gate}.plain, {gate}.seen)\n"
        )
    };
    let plain = sums(["i.plain", "f.plain", "g", "o.plain"]);
    let before = [plain, seen("i", "c"), seen("f", "c")].concat();
    let cell = check(&lstm(&before, &seen("o", "new")));
    let peepholes = cell.gates.iter().map(|gate| gate.peephole.is_some());
    assert_eq!(peepholes.collect::<Vec<_>>(), [true, true, true, false]);
    // The output gate sees the new cell state, not the old one.
    let plain = sums(["i", "f", "g", "o.plain"]);
    refuse(&lstm(&plain, &seen("o", "c")));
}

/// The candidate of a GRU.
fn candidate(resets_after_product: bool) -> String {
    let seen = match resets_after_product {
        true => {
            "product = Gemm(h, n.r_3x3, n.d_3)
            reset = Mul(r, product)
            seen = Slice(reset, [0], [3], [1])"
        }
        false => {
            "reset = Mul(r, h)
            seen = MatMul(reset, n.r_3x3)"
        }
    };
    let sum = sum("r.sum");
    format!(
        "{sum}
        r = Sigmoid(r.sum)
        n.x = MatMul(x, n.w_2x3)
        n.bias = Add(n.x, n.b_3)
        {seen}
        n.sum = Add(n.bias, seen)\n"
    )
}

/// The mixtures of the state `h` and the candidate `n` by the gate `z`, and by the opposite gate.
const MIXTURES: [&str; 6] = [
    "rest = Sub(1, z)
    kept = Mul(z, h)
    added = Mul(rest, n)
    y = Add(kept, added)",
    "change = Sub(h, n)
    part = Mul(z, change)
    y = Add(n, part)",
    "change = Sub(n, h)
    part = Mul(z, change)
    y = Sub(n, part)",
    "rest = Sub(1, z)
    kept = Mul(z, n)
    added = Mul(rest, h)
    y = Add(kept, added)",
    "change = Sub(n, h)
    part = Mul(z, change)
    y = Add(h, part)",
    "change = Sub(h, n)
    part = Mul(z, change)
    y = Sub(h, part)",
];

fn gru(mixture: &str, gate: &str, resets_after_product: bool) -> String {
    let (z, n) = (sum("z.sum"), candidate(resets_after_product));
    format!("{z}\nz = {gate}(z.sum)\n{n}\nn = Tanh(n.sum)\n{mixture}")
}

#[test]
fn grus_of_all_forms() {
    for mixture in MIXTURES {
        for resets_after_product in [false, true] {
            let cell = check(&gru(mixture, "Sigmoid", resets_after_product));
            let expected = CellKind::Gru {
                resets_after_product,
            };
            assert_eq!(cell.kind, expected);
            assert_eq!(cell.gates[2].state_bias.is_some(), resets_after_product);
        }
    }
    // Gates of different functions, a peephole, and weights of one column, which broadcast.
    refuse(&gru(MIXTURES[0], "Tanh", false));
    let plain = gru(MIXTURES[0], "Sigmoid", false);
    let seen = "n.seen = Mul(p_3, h)\nn.all = Add(n.sum, n.seen)\nn = Tanh(n.all)";
    refuse(&plain.replace("n = Tanh(n.sum)", seen));
    for narrow in ["w_2x3", "r_3x3"] {
        let wide = sum("z.sum");
        refuse(&plain.replace(&wide, &wide.replace(narrow, &narrow.replace("x3", "x1"))));
    }
}

#[test]
fn an_opposite_gate_has_a_symmetric_function() {
    let gru = |gate: &str| {
        let sums = sums(["z.sum", "r.sum"]);
        format!(
            "{sums}
            z = {gate}(z.sum)
            r = {gate}(r.sum)
            reset = Mul(r, h)
            n.x = MatMul(x, n.w_2x3)
            n.h = MatMul(reset, n.r_3x3)
            n.sum = Add(n.x, n.h)
            n = Tanh(n.sum)
            {}",
            MIXTURES[3]
        )
    };
    check(&gru("HardSigmoid<alpha=0.2;beta=0.5>"));
    refuse(&gru("HardSigmoid<alpha=0.2;beta=0.4>"));
    refuse(&gru("Softsign"));
}

#[test]
fn rnns_of_all_functions() {
    let functions = [
        ("Elu", Some(0.7), None),
        ("HardSigmoid", Some(0.3), Some(0.4)),
        ("LeakyRelu", Some(0.1), None),
        ("Relu", None, None),
        ("Sigmoid", None, None),
        ("Softplus", None, None),
        ("Softsign", None, None),
        ("Tanh", None, None),
        ("ThresholdedRelu", Some(0.5), None),
    ];
    for (name, alpha, beta) in functions {
        let constants = [("alpha", alpha), ("beta", beta)].into_iter();
        let constants = constants.filter_map(|(name, it)| Some(format!("{name}={:?}", it?)));
        let constants = constants.collect::<Vec<_>>().join(";");
        let sum = sum("s");
        let cell = check(&format!("{sum}\ny = {name}<{constants}>(s)"));
        let function = Activation { name, alpha, beta };
        assert_eq!(
            (cell.kind, &*cell.activations),
            (CellKind::Rnn, &[function][..])
        );
    }
    assert_eq!(check(&sum("y")).activations, [Activation::NONE]);
}

#[test]
fn a_ramp_is_hard_sigmoid() {
    let ramps = [
        "scaled = Mul(s, 0.2)
        moved = Add(scaled, 0.5)
        y = Clip(moved, 0, 1)",
        "scaled = Div(s, 5)
        moved = Sub(scaled, -0.5)
        above = Min(moved, 1)
        y = Max(above, 0)",
        // relu6(x + 2.5) / 5, of half the bound.
        "moved = Add(s, 2.5)
        bounded = Clip(moved, 0, 5)
        y = Div(bounded, 5)",
        // The outer bound is an activation of its own.
        "scaled = Mul(s, 0.2)
        moved = Add(scaled, 0.5)
        above = Min(moved, 1)
        y = Clip(above, 0)",
    ];
    for ramp in ramps {
        let cell = check(&format!("{}\n{ramp}", sum("s")));
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
    let three = sums(["i", "f", "g"]);
    let other = sum_of("o", "other");
    refuse(&lstm(&format!("other = Tanh(x)\n{three}\n{other}"), ""));
    let one_state = lstm(&sums(["i", "f", "g", "o"]), "");
    refuse(&one_state.replace("(forget, c)", "(forget, h)"));
}

#[test]
fn no_cell_of_other_terms_columns_or_weights() {
    let with_sum = |rest: &str| format!("{}\n{rest}", sum("s"));
    refuse(&with_sum(
        "product = MatMul(x, w_2x3)
        other = Sigmoid(product)
        more = Add(s, other)
        y = Tanh(more)",
    ));
    // Columns that are not there.
    refuse(
        "of_x = MatMul(x, w_2x6)
        of_h = MatMul(h, r_3x6)
        all = Add(of_x, of_h)
        half = Slice(all, [0], [3], [1])
        beyond = Slice(half, [3], [6], [1])
        y = Tanh(beyond)",
    );
    // A bias of other sizes, no product of a state, and rows that nothing joins.
    refuse(&with_sum("more = Add(s, b_2x3)\ny = Tanh(more)"));
    refuse(
        "one = MatMul(x, w_2x3)
        other = MatMul(x, r_2x3)
        both = Add(one, other)
        y = Tanh(both)",
    );
    refuse(
        "part = Slice(h, [0], [2], [1])
        of_x = MatMul(x, w_2x3)
        of_h = MatMul(part, r_2x3)
        both = Add(of_x, of_h)
        y = Tanh(both)",
    );
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
