//! Layers of all forms beside a plain version of ONNX's equations.

mod definition;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use definition::{Case, Numbers};
use proptest::prelude::*;
use recurrent_layers::{
    Activation, Cell, Direction, Inputs, Layer, Layout, Memory, Outputs, PackedLayer, Serial, Stop,
    Threads, ValidSteps, Weights,
};

/// So many threads of the operating system.
struct Spawned(usize);

impl Threads for Spawned {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(work);
            }
            work();
        });
    }
}

/// Threads of a host that calls the work too often, or never.
struct Careless(usize);

impl Threads for Careless {
    fn count(&self) -> usize {
        4
    }

    fn run(&self, _workers: usize, work: &(dyn Fn() + Sync)) {
        (0..self.0).for_each(|_| work());
    }
}

fn activations() -> impl Strategy<Value = Activation> {
    let number = || -1.0_f32..1.0;
    prop_oneof![
        (number(), number()).prop_map(|(alpha, beta)| Activation::Affine { alpha, beta }),
        number().prop_map(|alpha| Activation::Elu { alpha }),
        (number(), number()).prop_map(|(alpha, beta)| Activation::HardSigmoid { alpha, beta }),
        number().prop_map(|alpha| Activation::LeakyRelu { alpha }),
        Just(Activation::Relu),
        (number(), number()).prop_map(|(alpha, beta)| Activation::ScaledTanh { alpha, beta }),
        Just(Activation::Sigmoid),
        Just(Activation::Softplus),
        Just(Activation::Softsign),
        Just(Activation::Tanh),
        number().prop_map(|alpha| Activation::ThresholdedRelu { alpha }),
    ]
}

fn cells() -> impl Strategy<Value = Cell> {
    prop_oneof![
        any::<bool>().prop_map(|couples_input_and_forget| Cell::Lstm {
            couples_input_and_forget
        }),
        any::<bool>().prop_map(|resets_after_product| Cell::Gru {
            resets_after_product
        }),
        Just(Cell::Rnn),
    ]
}

fn layers() -> impl Strategy<Value = Layer> {
    let directions = prop_oneof![Just(vec![false]), Just(vec![true]), Just(vec![false, true])];
    let units = prop_oneof![0..9_usize, 0..70_usize, 200..300_usize];
    let given = proptest::option::of(proptest::collection::vec(activations(), 6));
    let clip = proptest::option::of(0.2_f32..2.0);
    (cells(), 0..20_usize, units, directions, given, clip).prop_map(
        |(cell, features, units, directions, given, clip)| {
            let mut layer = Layer::new(cell, features, units, &directions);
            layer.clip = clip;
            for (at, Direction { activations, .. }) in layer.directions.iter_mut().enumerate() {
                if let Some(given) = &given {
                    let count = activations.len();
                    activations.copy_from_slice(&given[at * count..][..count]);
                }
            }
            layer
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = prop_oneof![(0..7_usize, 0..4_usize), (0..3_usize, 0..40_usize)];
    (layers(), sizes, any::<[bool; 6]>(), 0..4_u8, any::<u64>()).prop_map(
        |(layer, (steps, batch), given, valid, seed)| Case {
            layer,
            steps,
            batch,
            layout: match given[0] {
                true => Layout::TimeFirst,
                false => Layout::BatchFirst,
            },
            has_bias: given[1],
            has_peepholes: given[2],
            has_initial: given[3],
            lengths: (valid == 1).then(|| Numbers(seed).lengths(batch, steps)),
            mask: (valid >= 2).then(|| Numbers(seed).mask(steps * batch)),
            blends: given[4],
            repeats: given[5],
            seed,
        },
    )
}

/// The outputs Y, Y_h and Y_c of a run, in elements of one type.
macro_rules! run {
    ($case:ident, $number:ty, $threads:expr) => {{
        let case = $case;
        let operands = case.operands();
        let of = |all: &[f64]| -> Vec<$number> { all.iter().map(|it| *it as $number).collect() };
        let [x, w, r, b, p, h, c] = operands.map(|it| of(&it));
        let is_lstm = matches!(case.layer.cell, Cell::Lstm { .. });
        let weights = Weights {
            w: &w,
            r: &r,
            b: case.has_bias.then_some(&*b),
            p: (case.has_peepholes && is_lstm).then_some(&*p),
        };
        // Weights are packed, or each run reads them.
        let [reads_w, reads_r] = [4, 8].map(|bit| case.seed & bit != 0);
        let packed_w = match reads_w {
            false => case.layer.pack_input(&w),
            true => case.layer.input_of_run(),
        };
        let packed_r = match reads_r {
            false => case.layer.pack_state(&r),
            true => case.layer.state_of_run(),
        };
        let (packed_w, packed_r) = (packed_w.unwrap(), packed_r.unwrap());
        let packed = case
            .layer
            .packed(&packed_w, &packed_r, weights.b, weights.p);
        let packed = packed.unwrap();
        let inputs = Inputs {
            x: &x,
            w: reads_w.then_some(&*w),
            r: reads_r.then_some(&*r),
            steps: case.steps,
            batch: case.batch,
            layout: case.layout,
            valid: match (&case.lengths, &case.mask) {
                (Some(lengths), _) => ValidSteps::Lengths(lengths),
                (None, Some(mask)) => ValidSteps::Mask {
                    mask,
                    blends: case.blends,
                    repeats: case.repeats,
                },
                (None, None) => ValidSteps::All,
            },
            initial_h: case.has_initial.then_some(&*h),
            initial_c: (case.has_initial && is_lstm).then_some(&*c),
        };
        let mut memory = Memory::default();
        let mut run = |threads: &dyn Threads| {
            // Whatever lies in the caller's memory.
            let junk = |count: usize| vec![<$number>::NAN; count];
            let state = case.layer.directions.len() * case.batch * case.layer.units;
            let mut found = [junk(case.steps * state), junk(state), junk(state)];
            let [y, last_h, last_c] = &mut found;
            let outputs = Outputs {
                y: Some(y),
                last_h: Some(last_h),
                last_c: is_lstm.then_some(&mut **last_c),
            };
            packed.run(&inputs, outputs, &mut memory, threads).unwrap();
            found[2].truncate(if is_lstm { state } else { 0 });
            found
        };
        let found = run(&Serial);
        assert_eq!(
            run($threads),
            found,
            "threads matter, or a run leaves something behind"
        );
        found.map(|all| all.into_iter().map(f64::from).collect::<Vec<f64>>())
    }};
}

fn check(case: &Case) {
    let expected = case.by_definition();
    if expected.iter().flatten().any(|it| it.abs() > 1e3) {
        // Unbounded functions may overflow a state.
        return;
    }
    let threads: &dyn Threads = match case.seed % 4 {
        0 => &Careless(0),
        1 => &Careless(9),
        2 => &Spawned(2),
        _ => &Spawned(3),
    };
    for (found, tolerance) in [
        (run!(case, f32, threads), 2e-4),
        (run!(case, f64, threads), 1e-9),
    ] {
        for (output, (found, expected)) in std::iter::zip(&found, &expected).enumerate() {
            assert_eq!(found.len(), expected.len());
            for (at, (found, expected)) in std::iter::zip(found, expected).enumerate() {
                let is_near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
                assert!(
                    is_near,
                    "output {output} at {at}: {found}, expected {expected}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn layers_compute_as_onnx_defines(case in cases()) {
        check(&case);
    }
}

/// A case of many multiplications, which threads share.
fn large(cell: Cell, layout: Layout, units: usize, batch: usize, steps: usize) -> Case {
    Case {
        layer: Layer::new(cell, 5, units, &[false, true]),
        steps,
        batch,
        layout,
        has_bias: true,
        has_peepholes: true,
        has_initial: true,
        lengths: Some(Numbers(7).lengths(batch, steps)),
        mask: None,
        blends: false,
        repeats: false,
        seed: units as u64,
    }
}

/// Sizes that ThreadSanitizer can wait for.
#[test]
fn threads_share_sequences_or_units() {
    for (units, batch, steps) in [(160, 4, 10), (16, 16, 720)] {
        let cell = Cell::Gru {
            resets_after_product: false,
        };
        let case = &large(cell, Layout::TimeFirst, units, batch, steps);
        let serial = run!(case, f32, &Serial);
        assert_eq!(run!(case, f32, &Spawned(3)), serial);
    }
}

#[test]
fn threads_compute_what_one_does() {
    let cells = [
        Cell::Lstm {
            couples_input_and_forget: false,
        },
        Cell::Gru {
            resets_after_product: false,
        },
        Cell::Rnn,
    ];
    for (at, cell) in cells.into_iter().enumerate() {
        for layout in [Layout::TimeFirst, Layout::BatchFirst] {
            // Threads share units, or sequences.
            for (units, batch, steps) in [(320, 2, 9), (24, 16, 700 + at)] {
                let case = &large(cell, layout, units, batch, steps);
                let serial = run!(case, f32, &Serial);
                for threads in [2, 3, 5] {
                    assert_eq!(run!(case, f32, &Spawned(threads)), serial);
                }
            }
        }
    }
}

/// Errors of a step that add up show after many.
#[test]
fn long_sequences_stay_beside_the_definition() {
    for cell in [
        Cell::Lstm {
            couples_input_and_forget: false,
        },
        Cell::Gru {
            resets_after_product: true,
        },
        Cell::Rnn,
    ] {
        let mut case = large(cell, Layout::TimeFirst, 3, 1, 100_000);
        case.lengths = None;
        case.has_peepholes = false;
        check(&case);
    }
}

/// The last state of one unit whose weights are 0, after 100,000 steps.
fn held<T: recurrent_layers::Element + From<f32>>(
    cell: Cell,
    bias: &[f32],
    initial: f32,
) -> Vec<T> {
    let of = |number: f32| -> T { number.into() };
    let zeros = vec![of(0.0); bias.len()];
    let b: Vec<T> = bias.iter().map(|it| of(*it)).chain(zeros.clone()).collect();
    let layer = Layer::new(cell, 1, 1, &[false]);
    let weights = Weights {
        w: &zeros,
        r: &zeros,
        b: Some(&b),
        p: None,
    };
    let packed = layer.pack(&weights).unwrap();
    let x = vec![of(0.0); 100_000];
    let initial = [of(initial)];
    let mut inputs = Inputs::new(&x, x.len(), 1);
    inputs.initial_h = Some(&initial);
    let mut last = [of(0.5)];
    let mut outputs = Outputs::default();
    if let Cell::Lstm { .. } = cell {
        inputs.initial_c = Some(&initial);
        outputs.last_c = Some(&mut last);
    } else {
        outputs.last_h = Some(&mut last);
    }
    packed
        .run(&inputs, outputs, &mut Memory::default(), &Serial)
        .unwrap();
    last.to_vec()
}

#[test]
fn closed_gates_hold_a_state_for_any_number_of_steps() {
    let lstm = Cell::Lstm {
        couples_input_and_forget: false,
    };
    let gru = Cell::Gru {
        resets_after_product: true,
    };
    // The gates i, o, f and c; then z, r and h.
    assert_eq!(held::<f32>(lstm, &[-100.0, 0.0, 100.0, 100.0], 1.0), [1.0]);
    assert_eq!(held::<f64>(lstm, &[-1e3, 0.0, 1e3, 1e3], 1.0), [1.0]);
    assert_eq!(held::<f32>(gru, &[100.0, 0.0, 100.0], 1e-9), [1e-9]);
    assert_eq!(
        held::<f64>(gru, &[100.0, 0.0, 100.0], 1e-9),
        [f64::from(1e-9_f32)]
    );
}

#[test]
fn wrong_operands_are_named_with_their_right_sizes() {
    let layer = Layer::new(Cell::Rnn, 2, 3, &[false]);
    let weights = Weights {
        w: &[0.0_f32; 6],
        r: &[0.0; 9],
        b: None,
        p: None,
    };
    let error = |weights: &Weights<'_, f32>| layer.pack(weights).unwrap_err().to_string();
    let wrong = Weights {
        w: &[0.0; 7],
        ..weights
    };
    assert_eq!(error(&wrong), "W has 7 elements, expected 6: [1,3,2]");
    let wrong = Weights {
        p: Some(&[0.0; 9]),
        ..weights
    };
    assert_eq!(error(&wrong), "P is given, which RNN does not have");
    let packed = layer.pack(&weights).unwrap();
    let mut last = [0.0; 3];
    let mut run = |inputs: &Inputs<'_, f32>| {
        let outputs = Outputs {
            last_h: Some(&mut last),
            ..Outputs::default()
        };
        let run = packed.run(inputs, outputs, &mut Memory::default(), &Serial);
        run.unwrap_err().to_string()
    };
    let wrong = Inputs::new(&[0.0; 7], 3, 1);
    assert_eq!(run(&wrong), "X has 7 elements, expected 6: [3,1,2]");
    let mut wrong = Inputs::new(&[0.0; 6], 3, 1);
    wrong.valid = ValidSteps::Lengths(&[4]);
    assert_eq!(
        run(&wrong),
        "sequence length 4 at index 0 is out of range: expected 0 to 3"
    );
    let wrong = Inputs::new(&[], usize::MAX, 3);
    assert_eq!(
        run(&wrong),
        format!("X has 0 elements, expected [{},3,2]", usize::MAX)
    );
    let of_run = layer.packed(
        &layer.input_of_run().unwrap(),
        &layer.state_of_run().unwrap(),
        None,
        None,
    );
    let of_run = of_run.unwrap();
    let mut run = |inputs: &Inputs<'_, f32>| {
        let outputs = Outputs {
            last_h: Some(&mut last),
            ..Outputs::default()
        };
        let run = of_run.run(inputs, outputs, &mut Memory::default(), &Serial);
        run.map_err(|error| error.to_string())
    };
    let mut inputs = Inputs::new(&[0.0; 6], 3, 1);
    inputs.r = Some(weights.r);
    assert_eq!(run(&inputs), Err("it lacks W".to_owned()));
    inputs.w = Some(&[0.0; 5]);
    assert_eq!(
        run(&inputs),
        Err("W has 5 elements, expected 6: [1,3,2]".to_owned())
    );
    inputs.w = Some(weights.w);
    assert_eq!(run(&inputs), Ok(()));
    let mut other = Layer::new(Cell::Rnn, 2, 3, &[true, false]);
    let [w, r] = [
        layer.pack_input(weights.w).unwrap(),
        other.pack_input(&[0.0; 12]).unwrap(),
    ];
    let state = layer.pack_state(weights.r).unwrap();
    assert!(layer.packed(&w, &state, None, None).is_ok());
    let error = layer.packed(&r, &state, None, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the packed weights of W are those of another layer"
    );
    other.directions.clear();
    let error = other.pack(&weights).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a layer has no directions, expected at least 1"
    );
}

/// Threads of a run that is to end once it was asked about so often.
struct Ending(Spawned, AtomicUsize, usize);

impl Stop for Ending {
    fn is_wanted(&self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed) >= self.2
    }
}

impl Threads for Ending {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        self.0.run(workers, work);
    }

    fn stop(&self) -> Option<&dyn Stop> {
        Some(self)
    }
}

#[test]
fn runs_end_between_steps_on_all_threads() {
    let cell = Cell::Gru {
        resets_after_product: false,
    };
    let (units, steps, batch) = (96, 1000, 4);
    let layer = Layer::new(cell, units, units, &[false, true]);
    let weights = vec![0.01_f32; 2 * 3 * units * units];
    let packed = layer.pack(&Weights {
        w: &weights,
        r: &weights,
        b: None,
        p: None,
    });
    let packed = packed.unwrap();
    let x = vec![0.5; steps * batch * units];
    let inputs = Inputs::new(&x, steps, batch);
    let mut memory = Memory::default();
    let mut run = |threads: usize, asked: usize| {
        let threads = Ending(Spawned(threads), AtomicUsize::new(0), asked);
        let mut y = vec![0.0; steps * 2 * batch * units];
        let outputs = Outputs {
            y: Some(&mut *y),
            ..Outputs::default()
        };
        let result = packed.run(&inputs, outputs, &mut memory, &threads);
        (result, threads.1.into_inner(), y)
    };
    let (result, asked, all) = run(1, usize::MAX);
    assert_eq!(result, Ok(()));
    assert!((20..500).contains(&asked), "{asked} times in 2000 steps");
    for threads in [1, 2, 4, 7] {
        for end in [0, 10] {
            let (result, _, y) = run(threads, end);
            assert_eq!(result, Err(recurrent_layers::Error::Stopped));
            assert_ne!(y, all, "{threads} threads");
        }
        let (result, _, y) = run(threads, usize::MAX);
        assert_eq!(result, Ok(()));
        assert_eq!(y, all, "a run that ended leaves something behind");
    }
}

/// The product of a state of 0 is left out only if nothing makes it NaN.
#[test]
fn a_reset_that_is_no_number_reaches_all_units() {
    let cell = Cell::Gru {
        resets_after_product: false,
    };
    let layer = Layer::new(cell, 1, 2, &[false]);
    // The reset gate of the second unit.
    let w = [0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0];
    let weights = Weights {
        w: &w,
        r: &[1.0; 12],
        b: None,
        p: None,
    };
    let packed = layer.pack(&weights).unwrap();
    let mut last = [0.0; 2];
    let outputs = Outputs {
        last_h: Some(&mut last),
        ..Outputs::default()
    };
    let inputs = Inputs::new(&[1.0], 1, 1);
    packed
        .run(&inputs, outputs, &mut Memory::default(), &Serial)
        .unwrap();
    assert!(last.iter().all(|it| it.is_nan()), "{last:?}");
}

/// A layer of this many features and units, with weights of 0.
fn zero_layer(features: usize, units: usize) -> PackedLayer<f32> {
    let layer = Layer::new(Cell::Rnn, features, units, &[false, true]);
    let weights = Weights {
        w: &vec![0.0; 2 * units * features],
        r: &vec![0.0; 2 * units * units],
        b: None,
        p: None,
    };
    layer.pack(&weights).unwrap()
}

/// An input without features may have any sizes.
#[cfg(target_pointer_width = "64")]
#[test]
fn sizes_that_no_memory_or_time_holds_are_errors_at_once() {
    let layer = zero_layer(0, 3);
    let run = |steps: usize, batch: usize| {
        let mut y: [f32; 0] = [];
        let outputs = Outputs {
            y: (steps == 0 || batch == 0).then_some(&mut y[..]),
            last_h: (batch == 0).then_some(&mut []),
            last_c: None,
        };
        let inputs = Inputs::new(&[], steps, batch);
        layer.run(&inputs, outputs, &mut Memory::default(), &Serial)
    };
    assert_eq!(run(1 << 40, 0), Ok(()));
    for batch in [1 << 44, 1 << 62] {
        // Without a size of 0, states are larger than the memory of any machine.
        let bytes = usize::saturating_mul(batch, 3 * 4);
        let error = run(0, batch).unwrap_err();
        assert_eq!(error, recurrent_layers::Error::OutOfMemory { bytes });
    }
    let mut last = [0.0; 6];
    let outputs = Outputs {
        last_h: Some(&mut last),
        ..Outputs::default()
    };
    let inputs = Inputs::new(&[], 1 << 33, 1);
    let run = layer.run(&inputs, outputs, &mut Memory::default(), &Serial);
    assert_eq!(
        run.unwrap_err().to_string(),
        "X has 8589934592 steps without features, expected at most 16777216"
    );
}

#[test]
fn outputs_need_no_numbers_beforehand() {
    let (layer, x) = (zero_layer(2, 3), [1.0; 8]);
    let mut y = [MaybeUninit::uninit(); 2 * 2 * 2 * 3];
    let outputs = Outputs {
        y: Some(&mut y),
        ..Outputs::default()
    };
    let inputs = Inputs::new(&x, 2, 2);
    let run = layer.run(&inputs, outputs, &mut Memory::default(), &Serial);
    assert_eq!(run, Ok(()));
    // SAFETY: the run has written all.
    assert_eq!(y.map(|it| unsafe { it.assume_init() }), [0.0; 24]);
}
