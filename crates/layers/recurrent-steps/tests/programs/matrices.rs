//! States and products that are matrices.

use crate::common::{close, floats, numbers, program, run};

/// `S ← g S + k vᵀ`, `o = Sᵀ q` and `p = S r`, for sizes that fill blocks and for others.
#[test]
fn matrix_states_are_those_of_their_formula() {
    for [heads, keys, values] in [
        [1, 4, 16],
        [2, 33, 70],
        [3, 8, 15],
        [2, 5, 130],
        [1, 64, 64],
    ] {
        let steps = 3;
        let program = program(
            "last, os, ps = Scan<body=@body;num_scan_inputs=5>(s0, gs, ks, vs, qs, rs)
             @body: s g k v q r -> next o p
             g_wide = Unsqueeze(g, [2])
             k_wide = Unsqueeze(k, [2])
             v_wide = Unsqueeze(v, [1])
             faded = Mul(g_wide, s)
             outer = Mul(k_wide, v_wide)
             next = Add(faded, outer)
             q_wide = Unsqueeze(q, [1])
             o_wide = MatMul(q_wide, next)
             o = Squeeze(o_wide, [1])
             p = Einsum<equation=hkv,hv->hk>(next, r)",
        );
        let by_key = [steps, heads, keys];
        let by_value = [steps, heads, values];
        let s0 = numbers(heads * keys * values, 1);
        let [g, k, q] = [2, 3, 4].map(|seed| numbers(steps * heads * keys, seed));
        let [v, r] = [5, 6].map(|seed| numbers(steps * heads * values, seed));
        let sizes = [heads, keys, values];
        let given = [
            ("s0", floats(&sizes, &s0)),
            ("gs", floats(&by_key, &g)),
            ("ks", floats(&by_key, &k)),
            ("vs", floats(&by_value, &v)),
            ("qs", floats(&by_key, &q)),
            ("rs", floats(&by_value, &r)),
        ];
        let lens = [s0.len(), v.len(), k.len()];
        let (memory, _) = run(&program, &given, lens).unwrap();

        let (mut s, mut o, mut p) = (s0.clone(), vec![0.0; v.len()], vec![0.0; k.len()]);
        for step in 0..steps {
            for head in 0..heads {
                for key in 0..keys {
                    let row = (step * heads + head) * keys + key;
                    for value in 0..values {
                        let column = (step * heads + head) * values + value;
                        let at = &mut s[(head * keys + key) * values + value];
                        *at = g[row] * *at + k[row] * v[column];
                        o[column] += q[row] * *at;
                        p[row] += r[column] * *at;
                    }
                }
            }
        }
        close(&memory[0], &s, &format!("state of {sizes:?}"));
        close(&memory[1], &o, &format!("columns of {sizes:?}"));
        close(&memory[2], &p, &format!("rows of {sizes:?}"));
    }
}

/// `A (s B)`, where A and B lie by rows or by columns and the number s is a state.
#[test]
fn products_are_those_of_their_formula() {
    let matrix = |turned: bool, [rows, columns]: [usize; 2]| match turned {
        true => [columns, rows],
        false => [rows, columns],
    };
    for [rows, terms, columns] in [
        [40, 64, 7],
        [7, 40, 64],
        [33, 20, 18],
        [3, 2, 5],
        [64, 30, 64],
    ] {
        for turned in [[false, false], [false, true], [true, false], [true, true]] {
            let sizes = [
                matrix(turned[0], [rows, terms]),
                matrix(turned[1], [terms, columns]),
            ];
            let [a, b] = turned.map(|it| if it { [1, 0] } else { [0, 1] });
            let program = program(&format!(
                "_, all = Scan<body=@body;num_scan_inputs=1>(s0, xs)
                 @body: s x -> next made
                 one = Transpose<perm={a:?}>(a)
                 own = Transpose<perm={b:?}>(b)
                 other = Mul(own, s)
                 made = MatMul(one, other)
                 next = Add(s, x)"
            ));
            let (a, b) = (numbers(rows * terms, 1), numbers(terms * columns, 2));
            let given = [
                ("s0", floats(&[], &[1.0])),
                ("xs", floats(&[2], &[0.5, 0.25])),
                ("a", floats(&sizes[0], &a)),
                ("b", floats(&sizes[1], &b)),
            ];
            let (memory, _) = run(&program, &given, [0, 2 * rows * columns]).unwrap();
            let at = |all: &[f32], turned: bool, [row, column]: [usize; 2], sizes: &[usize]| {
                let place = match turned {
                    true => column * sizes[1] + row,
                    false => row * sizes[1] + column,
                };
                all[place]
            };
            let mut expected = vec![];
            for s in [1.0, 1.5] {
                for row in 0..rows {
                    for column in 0..columns {
                        let term = |term: usize| {
                            let one = at(&a, turned[0], [row, term], &sizes[0]);
                            one * at(&b, turned[1], [term, column], &sizes[1])
                        };
                        expected.push(s * (0..terms).map(term).sum::<f32>());
                    }
                }
            }
            let what = format!("[{rows}, {terms}] [{terms}, {columns}], turned {turned:?}");
            close(&memory[1], &expected, &what);
        }
    }
}

/// `S ← S (u vᵀ)` and `o = (u vᵀ) S`, as RWKV-7 has them: the matrix in the middle is the product of a column and
/// a row, made by MatMul or by Mul.
#[test]
fn products_with_outer_products_are_those_of_their_formula() {
    let (heads, size, steps) = (2, 20, 3);
    for outer in ["MatMul", "Mul"] {
        let program = program(&format!(
            "last_s, os = Scan<body=@body;num_scan_inputs=2>(s0, us, vs)
             @body: s u v -> next o
             column = Unsqueeze(u, [-1])
             row = Unsqueeze(v, [1])
             outer = {outer}(column, row)
             next = MatMul(s, outer)
             o = MatMul(outer, s)"
        ));
        let s0 = numbers(heads * size * size, 1);
        let [u, v] = [2, 3].map(|seed| numbers(steps * heads * size, seed));
        let (whole, each) = ([heads, size, size], [steps, heads, size]);
        let given = [
            ("s0", floats(&whole, &s0)),
            ("us", floats(&each, &u)),
            ("vs", floats(&each, &v)),
        ];
        let (memory, _) = run(&program, &given, [s0.len(), steps * s0.len()]).unwrap();
        let (mut s, mut o) = (s0.clone(), vec![]);
        for step in 0..steps {
            let before = s.clone();
            for head in 0..heads {
                let at = |row: usize, column: usize| before[(head * size + row) * size + column];
                let own = (step * heads + head) * size;
                for row in 0..size {
                    for column in 0..size {
                        let su: f32 = (0..size).map(|it| at(row, it) * u[own + it]).sum();
                        let vs: f32 = (0..size).map(|it| v[own + it] * at(it, column)).sum();
                        s[(head * size + row) * size + column] = su * v[own + column];
                        o.push(u[own + row] * vs);
                    }
                }
            }
        }
        close(&memory[0], &s, &format!("the state by {outer}"));
        close(&memory[1], &o, &format!("the output by {outer}"));
    }
}

/// `S ← S diag(w) + (S a) bᵀ + v kᵀ` and `o = S r`, as RWKV-7 has it, and with `p = Sᵀ r`.
#[test]
fn states_with_two_outer_products_are_those_of_their_formula() {
    for (size, sums) in [(64, false), (64, true), (20, false), (37, true)] {
        let (heads, steps) = (2, 3);
        let (all, made, nodes) = match sums {
            true => (
                "last_s, os, ps",
                "next o p",
                "r_row = Unsqueeze(r, [1])\n p = MatMul(r_row, next)",
            ),
            false => ("last_s, os", "next o", ""),
        };
        let program = program(&format!(
            "{all} = Scan<body=@body;num_scan_inputs=6>(s0, ws, as, bs, vs, ks, rs)
             @body: s w a b v k r -> {made}
             w_row = Unsqueeze(w, [1])
             a_column = Unsqueeze(a, [-1])
             b_row = Unsqueeze(b, [1])
             v_column = Unsqueeze(v, [-1])
             k_row = Unsqueeze(k, [1])
             r_column = Unsqueeze(r, [-1])
             faded = Mul(s, w_row)
             sa = MatMul(s, a_column)
             sab = MatMul(sa, b_row)
             vk = MatMul(v_column, k_row)
             part = Add(faded, sab)
             next = Add(part, vk)
             o = MatMul(next, r_column)
             {nodes}"
        ));
        let s0 = numbers(heads * size * size, 1);
        let given = [2, 3, 4, 5, 6, 7].map(|seed| {
            let mut all = numbers(steps * heads * size, seed);
            all.iter_mut().for_each(|it| *it *= 0.4);
            all
        });
        let (whole, each) = ([heads, size, size], [steps, heads, size]);
        let names = ["ws", "as", "bs", "vs", "ks", "rs"];
        let tensors = given.iter().map(|all| floats(&each, all));
        let mut tensors: Vec<_> = std::iter::zip(names, tensors).collect();
        tensors.push(("s0", floats(&whole, &s0)));
        let len = given[0].len();
        let (memory, _) = match sums {
            true => run(&program, &tensors, [s0.len(), len, len]),
            false => {
                run(&program, &tensors, [s0.len(), len]).map(|([s, o], it)| ([s, o, vec![]], it))
            }
        }
        .unwrap();
        let [w, a, b, v, k, r] = &given;
        let (mut s, mut o, mut p) = (s0.clone(), vec![], vec![]);
        for step in 0..steps {
            for head in 0..heads {
                let own = (step * heads + head) * size;
                let state = &mut s[head * size * size..][..size * size];
                for row in state.chunks_mut(size).enumerate() {
                    let (index, row) = row;
                    let sa: f32 = (0..size).map(|it| row[it] * a[own + it]).sum();
                    for (column, to) in row.iter_mut().enumerate() {
                        *to = *to * w[own + column]
                            + sa * b[own + column]
                            + v[own + index] * k[own + column];
                    }
                    o.push((0..size).map(|it| row[it] * r[own + it]).sum::<f32>());
                }
                for column in 0..size {
                    let term = |row: usize| r[own + row] * state[row * size + column];
                    p.push((0..size).map(term).sum::<f32>());
                }
            }
        }
        close(&memory[0], &s, &format!("the state of {size}"));
        close(&memory[1], &o, &format!("rows of {size}"));
        if sums {
            close(&memory[2], &p, &format!("columns of {size}"));
        }
    }
}
