//! What steps see, what they write, and how runs end.

use std::sync::atomic::{AtomicUsize, Ordering};

use recurrent_layers::{Serial, Stop, Threads};
use recurrent_steps::{Error, Limits, Steps, Tensor};
use revseq_onnx::model::{DOUBLE, TensorProto};

use crate::common::{
    Constants, Room, Values, close, floats, int64s, numbers, program, read, run, scan,
};

/// States that change places, one of which is read after it is written.
#[test]
fn states_are_those_of_the_step_before() {
    let program = program(
        "a_last, b_last, products = Scan<body=@body;num_scan_inputs=1>(a0, b0, xs)
         @body: a b x -> sum old product
         sum = Add(a, b)
         old = Identity(a)
         product = Mul(sum, old)",
    );
    let given = [
        ("a0", floats(&[2], &[1.0, 2.0])),
        ("b0", floats(&[2], &[0.5, 0.0])),
        ("xs", floats(&[3, 1], &[0.0; 3])),
    ];
    let (memory, _) = run(&program, &given, [2, 2, 6]).unwrap();
    // (1, 0.5) → (1.5, 1) → (2.5, 1.5) → (4, 2.5); (2, 0) → (2, 2) → (4, 2) → (6, 4)
    assert_eq!(memory[0], [4.0, 6.0]);
    assert_eq!(memory[1], [2.5, 4.0]);
    assert_eq!(memory[2], [1.5, 4.0, 3.75, 8.0, 10.0, 24.0]);
}

/// A row from the end, and parts that move with the step.
#[test]
fn views_move_with_the_step() {
    let program = program(
        "h_last, all = Loop<body=@body>(n_most, _, h0)
         @body: n on h -> go next difference
         back = Sub(3, n)
         row = Gather(x, back)
         from = Unsqueeze(n, [0])
         to = Add(from, [1])
         part = Slice(x, from, to, [0])
         same = Squeeze(part, [0])
         difference = Sub(row, same)
         next = Add(h, difference)
         go = Identity(on)",
    );
    let x = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0, 30.0, 31.0];
    for steps in [4, 0, 3, 4] {
        let most = [steps as i64];
        let given = [
            ("n_most", int64s(&most)),
            ("h0", floats(&[2], &[5.0, 6.0])),
            ("x", floats(&[4, 2], &x)),
        ];
        let (memory, sizes) = run(&program, &given, [2, 2 * steps]).unwrap();
        assert_eq!(sizes, [vec![2], vec![steps, 2]]);
        let all = &[30.0, 10.0, -10.0, -30.0][..steps];
        let all: Vec<f32> = all.iter().flat_map(|&it| [it; 2]).collect();
        assert_eq!(memory[1], all);
        let sum: f32 = all.iter().step_by(2).sum();
        assert_eq!(memory[0], [5.0 + sum, 6.0 + sum]);
    }
}

/// What says after some questions that the run is to end.
struct After(AtomicUsize);

impl Threads for After {
    fn count(&self) -> usize {
        Serial.count()
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        Serial.run(workers, work);
    }

    fn stop(&self) -> Option<&dyn Stop> {
        Some(self)
    }
}

impl Stop for After {
    fn is_wanted(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

#[test]
fn a_run_ends_early_if_that_is_wanted() {
    let program = program(&scan("next = Add(h, x)"));
    let x = vec![1.0; 1000];
    let given = [floats(&[1], &[0.0]), floats(&[1000, 1], &x)];
    let mut memory = [vec![0.0]];
    let stop = After(AtomicUsize::new(10));
    let ended = program.run(&given, &mut Room::new(&mut memory), &stop);
    assert_eq!(ended, Err(Error::Stopped));
    let stop = After(AtomicUsize::new(1000));
    program
        .run(&given, &mut Room::new(&mut memory), &stop)
        .unwrap();
    assert_eq!(memory[0], [1000.0]);
}

#[test]
fn what_does_not_fit_is_an_error_with_its_values() {
    let program = program(&scan("next = Add(h, x)"));
    let error = |given: &[Tensor<'_>]| {
        let mut memory = [vec![0.0; 4]];
        let run = program.run(given, &mut Room::new(&mut memory), &Serial);
        run.unwrap_err().to_string()
    };
    let wrong = error(&[floats(&[2], &[0.0; 2]), floats(&[4, 3], &[0.0; 12])]);
    assert_eq!(wrong, "node \"Add\": sizes [2] and [3] do not broadcast");
    let wrong = error(&[floats(&[2], &[0.0; 2])]);
    assert_eq!(wrong, "1 inputs, expected 2");
    let wrong = error(&[floats(&[3], &[0.0; 2]), floats(&[4, 3], &[0.0; 12])]);
    assert!(wrong.contains("2 elements"), "{wrong}");
}

#[test]
fn what_no_program_has_is_said_in_a_line() {
    for (nodes, expected) in [
        (
            "next = NonZero(h)",
            "its NonZero node is none that programs have",
        ),
        (
            "next = Cast<to=10>(h)",
            "its Cast node makes elements of float16",
        ),
        (
            "axes = Cast<to=7>(h)
             next = ReduceSum(x, axes)",
            "its ReduceSum node reads \"axes\", which each step computes",
        ),
        (
            "is_kept = Cast<to=9>(x)
             next = If<then_branch=@longer;else_branch=@same>(is_kept)
             @longer: -> more
             more = Concat<axis=0>(h, x)
             @same: -> same
             same = Identity(h)",
            "its If node appends under a condition of a step",
        ),
    ] {
        assert_eq!(read(&scan(nodes), &Values).unwrap_err(), expected);
    }
}

/// The best elements along the first axis, as beam search has them, with what marks them, and zeros around.
#[test]
fn the_best_elements_are_in_order() {
    let (rows, columns, count, steps) = (5, 3, 2, 4);
    for largest in [0, 1] {
        let program = program(&format!(
            "_, b, p, m, w, o = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next best places marks wide open
             all = Add(x, s)
             best, at = TopK<axis=0;largest={largest}>(all, [{count}])
             marks = OneHot<axis=1>(at, [{rows}], [-1.0 2.0])
             wide = Pad(best, [1 -1 0 2], 9.0)
             places = CastLike(at, s)
             open = HardSwish(best)
             next = ReduceMean<keepdims=0>(best)"
        ));
        let x = numbers(steps * rows * columns, 6);
        let sizes = [steps, rows, columns];
        let given = [("s0", floats(&[], &[0.25])), ("xs", floats(&sizes, &x))];
        let each = count * columns;
        let lens = [0, each, each, each * rows, 3 * 4, each].map(|it| it * steps);
        let (memory, _) = run(&program, &given, lens).unwrap();

        let mut s = 0.25;
        let mut expected: [Vec<f32>; 6] = Default::default();
        for x in x.chunks(rows * columns) {
            let mut best = vec![0.0; count * columns];
            let mut places = best.clone();
            for column in 0..columns {
                let at = |row: usize| x[row * columns + column] + s;
                let mut order: Vec<usize> = (0..rows).collect();
                order.sort_by(|&a, &b| match largest {
                    0 => at(a).total_cmp(&at(b)),
                    _ => at(b).total_cmp(&at(a)),
                });
                for rank in 0..count {
                    best[rank * columns + column] = at(order[rank]);
                    places[rank * columns + column] = order[rank] as f32;
                }
            }
            for rank in 0..count {
                for row in 0..rows {
                    for column in 0..columns {
                        let is_on = places[rank * columns + column] == row as f32;
                        expected[3].push(if is_on { 2.0 } else { -1.0 });
                    }
                }
            }
            expected[4].extend([9.0; 4]);
            for row in best.chunks(columns) {
                expected[4].extend([row[1], row[2], 9.0, 9.0]);
            }
            let open = |it: &f32| it * (it / 6.0 + 0.5).clamp(0.0, 1.0);
            expected[5].extend(best.iter().map(open));
            s = best.iter().sum::<f32>() / best.len() as f32;
            expected[1].extend(best);
            expected[2].extend(places);
        }
        for (index, expected) in expected.iter().enumerate() {
            close(&memory[index], expected, &format!("output {index}"));
        }
    }
}

/// A step is `h + x + 0.1 + 0.25`: the one double is in the body, the other around it.
#[test]
fn doubles_that_are_cast_are_constants() {
    let outer = TensorProto {
        data_type: Some(DOUBLE),
        double_data: vec![0.25],
        ..TensorProto::default()
    };
    let nodes = "tenth = Cast<to=1>(0.1f64)
        quarter = Cast<to=1>(outer)
        sum = Add(h, x)
        more = Add(sum, tenth)
        next = Add(more, quarter)";
    let program = read(&scan(nodes), &Constants(vec![("outer", outer)])).unwrap();
    let given = [
        ("h0", floats(&[1], &[1.0])),
        ("xs", floats(&[2, 1], &[2.0, 3.0])),
    ];
    let (memory, _) = run(&program, &given, [1]).unwrap();
    close(&memory[0], &[6.7], "the sum");
}

/// Messages along edges are added up where they end, as graph networks do: one index comes twice.
#[test]
fn what_is_written_twice_is_reduced() {
    type Both = fn(f32, f32) -> f32;
    let all: [(&str, Both); 4] = [
        ("add", |a, b| a + b),
        ("mul", |a, b| a * b),
        ("max", f32::max),
        ("min", f32::min),
    ];
    for (reduction, with) in all {
        for is_nd in [false, true] {
            let indices = [2_i64, 0, 2, -1];
            let (at, op) = match is_nd {
                true => ("[4 1]", "ScatterND"),
                false => ("[4 3]", "ScatterElements"),
            };
            let program = program(&scan(&format!(
                "column = Reshape([2 0 2 -1], [4 1])
                 at = Expand(column, {at})
                 next = {op}<reduction={reduction}>(h, at, x)"
            )));
            let (h0, x) = (numbers(5 * 3, 1), numbers(2 * 4 * 3, 2));
            let given = [("h0", floats(&[5, 3], &h0)), ("xs", floats(&[2, 4, 3], &x))];
            let (memory, _) = run(&program, &given, [15]).unwrap();
            let mut h = h0.clone();
            for x in x.chunks(12) {
                for (row, index) in std::iter::zip(x.chunks(3), indices) {
                    let own = index.rem_euclid(5) as usize * 3;
                    for (place, update) in row.iter().enumerate() {
                        h[own + place] = with(h[own + place], *update);
                    }
                }
            }
            close(&memory[0], &h, &format!("{op} with {reduction}"));
        }
    }
}

/// A state that grows with each step has a program for each: runs make two of them, find those of earlier runs, and
/// stop when there are too many.
#[test]
fn programs_of_a_state_that_grows_are_made_by_several_runs() {
    let grown = "last = Loop<body=@body>(n, _, s0)
        @body: i on s -> go next
        next = Concat<axis=0>(s, x)
        go = Identity(on)";
    let run = |program: &Steps, steps: usize| {
        let number = [steps as i64];
        let names: Vec<String> = program.inputs().map(|it| it.0.to_owned()).collect();
        let of = |name: &String| match &**name {
            "n" => int64s(&number),
            "s0" => floats(&[1], &[1.0]),
            _ => floats(&[1], &[2.0]),
        };
        let given: Vec<Tensor<'_>> = names.iter().map(of).collect();
        let mut memory = [vec![f32::NAN; steps + 1]];
        let limits = Limits {
            programs: Some(2),
            ..Limits::default()
        };
        let mut room = Room::new(&mut memory);
        let done = program.run_within(limits, &given, &mut room, &Serial)?;
        assert_eq!(done, steps as u64);
        assert_eq!((memory[0][0], memory[0][steps]), (1.0, 2.0));
        Ok::<_, Error>(())
    };
    let program = program(grown);
    let all: Vec<bool> = (0..4).map(|_| run(&program, 6).is_ok()).collect();
    assert_eq!(all, [false, false, true, true]);
    let again = self::program(grown);
    assert!((0..200).all(|_| run(&again, 200).is_err()));
    // Not even those of few steps run now.
    let error = run(&again, 2).unwrap_err().to_string();
    assert!(error.contains("more than 2 programs"), "{error}");
}
