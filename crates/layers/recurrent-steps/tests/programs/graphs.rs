//! Branches and loops in a step.

use crate::common::{close, floats, int64s, numbers, program, run};

/// An If on a state, of branches that are both computed and of those of which one is.
#[test]
fn branches_are_taken_by_what_steps_compute() {
    for len in [3, 15000] {
        let program = program(
            "last, all = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next again
             total = ReduceSum<keepdims=0>(s)
             is_large = Greater(total, 0.0)
             next, again = If<then_branch=@then;else_branch=@other>(is_large)
             @then: -> less s
             part = Mul(s, 0.5)
             less = Sub(part, x)
             @other: -> more x
             sum = Add(k, x)
             more = Add(s, sum)",
        );
        let steps = 7;
        let (s0, k) = (numbers(len, 1), numbers(len, 2));
        let xs: Vec<f32> = numbers(steps * len, 3).iter().map(|it| it + 0.6).collect();
        let (one, all) = ([len], [steps, len]);
        let given = [
            ("xs", floats(&all, &xs)),
            ("s0", floats(&one, &s0)),
            ("k", floats(&one, &k)),
        ];
        let (memory, _) = run(&program, &given, [len, steps * len]).unwrap();

        let (mut s, mut expected) = (s0, vec![]);
        let mut taken = [0, 0];
        for x in xs.chunks(len) {
            let is_large = s.iter().sum::<f32>() > 0.0;
            taken[usize::from(is_large)] += 1;
            expected.extend_from_slice(if is_large { &s } else { x });
            for (index, s) in s.iter_mut().enumerate() {
                *s = if is_large {
                    *s * 0.5 - x[index]
                } else {
                    *s + (k[index] + x[index])
                };
            }
        }
        assert!(taken.iter().all(|&it| it > 0), "{taken:?}");
        close(&memory[0], &s, &format!("state of {len}"));
        close(&memory[1], &expected, &format!("steps of {len}"));
    }
}

/// The branch that is not taken would read outside of a value; sizes that differ have no program.
#[test]
fn only_the_branch_that_is_taken_runs() {
    let run = |then: &str| {
        let program = program(&format!(
            "_, all = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next y
             is_inside = Less(s, 3.0)
             at = Cast<to=7>(s)
             next = Add(s, 1.0)
             y = If<then_branch=@then;else_branch=@other>(is_inside)
             @then: -> {then}
             found = Gather(table, at)
             longer = Concat<axis=0>(table, x)
             @other: -> out
             out = Neg(s)"
        ));
        let given = [
            ("s0", floats(&[], &[0.0])),
            ("xs", floats(&[5, 1], &[0.0; 5])),
            ("table", floats(&[3], &[7.0, 8.0, 9.0])),
        ];
        run(&program, &given, [0, 5])
    };
    assert_eq!(run("found").unwrap().0[1], [7.0, 8.0, 9.0, -3.0, -4.0]);
    let error = run("longer").unwrap_err().to_string();
    assert_eq!(error, "node \"If\": sizes [4] and [] in its branches");
}

/// The distances of dynamic time warping: rows by a Scan, and what is within a row by a Loop.
#[test]
fn a_loop_in_a_body_is_a_program_within_the_program() {
    let (rows, columns) = (5, 7);
    let program = program(
        "last, all, powers = Scan<body=@body;num_scan_inputs=1>(first, xs)
         @body: prev x -> row row power
         large = Identity(1.0e30)
         _, row = Loop<body=@inner>(n_columns, _, large)
         bound = ReduceMax<keepdims=0>(row)
         power = Loop<body=@doubles>(_, true, 2.0)
         @inner: j on left -> go new new
         cost = Gather(x, j)
         above = Gather(prev, j)
         least = Min(left, above)
         new = Add(cost, least)
         go = Identity(on)
         @doubles: n on2 p -> is_less q
         q = Add(p, p)
         is_less = Less(q, bound)",
    );
    let first: Vec<f32> = (0..columns).map(|it| it as f32).collect();
    let x: Vec<f32> = numbers(rows * columns, 4)
        .iter()
        .map(|it| it + 2.0)
        .collect();
    let (one, all) = ([columns], [rows, columns]);
    for count in [columns, columns - 2] {
        let most = [count as i64];
        let given = [
            ("first", floats(&one[..], &first[..])),
            ("xs", floats(&all, &x)),
            ("n_columns", int64s(&most)),
        ];
        let (memory, sizes) = run(&program, &given, [columns, rows * columns, rows]).unwrap();
        // A state that changes its sizes has a program for each of them.
        assert_eq!(sizes[0], [count]);
        let (mut prev, mut rows, mut powers) = (first.clone(), vec![], vec![]);
        for x in x.chunks(columns) {
            let mut left = 1e30_f32;
            let mut row = vec![];
            for j in 0..count {
                left = x[j] + left.min(prev[j]);
                row.push(left);
            }
            let bound = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut power = 4.0;
            while power < bound {
                power *= 2.0;
            }
            powers.push(power);
            rows.extend_from_slice(&row);
            prev = row;
        }
        close(&memory[0][..count], &prev, "the last row");
        close(&memory[1][..rows.len()], &rows, "rows");
        close(&memory[2], &powers, "powers");
    }
}
