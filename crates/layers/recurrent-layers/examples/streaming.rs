//! A layer that runs a step at a time, as its input arrives, and keeps its state from step to step.
//!
//! `cargo run --example streaming -p recurrent-layers`

use recurrent_layers::{Cell, Error, Inputs, Layer, Memory, Outputs, Serial, Weights};

const FEATURES: usize = 4;
const UNITS: usize = 8;
const STEPS: usize = 20;

fn main() -> Result<(), Error> {
    let cell = Cell::Gru {
        resets_after_product: true,
    };
    let layer = Layer::new(cell, FEATURES, UNITS, &[false]);
    let weights = |count: usize| -> Vec<f32> {
        let numbers = (0..count).map(|it| (it as f32 * 0.7).sin() * 0.3);
        numbers.collect()
    };
    let packed = layer.pack(&Weights {
        w: &weights(3 * UNITS * FEATURES),
        r: &weights(3 * UNITS * UNITS),
        b: Some(&weights(2 * 3 * UNITS)),
        p: None,
    })?;
    let x: Vec<f32> = (0..STEPS * FEATURES).map(|it| (it as f32).cos()).collect();
    // A run uses the memory of the one before.
    let mut memory = Memory::default();

    let mut state = [0.0; UNITS];
    for step in x.chunks_exact(FEATURES) {
        let before = state;
        let mut inputs = Inputs::new(step, 1, 1);
        inputs.initial_h = Some(&before);
        let outputs = Outputs {
            last_h: Some(&mut state),
            ..Outputs::default()
        };
        packed.run(&inputs, outputs, &mut memory, &Serial)?;
    }

    let mut all_at_once = [0.0; UNITS];
    let outputs = Outputs {
        last_h: Some(&mut all_at_once),
        ..Outputs::default()
    };
    packed.run(&Inputs::new(&x, STEPS, 1), outputs, &mut memory, &Serial)?;
    for (one, other) in state.iter().zip(all_at_once) {
        assert!((one - other).abs() < 1e-6, "{one} is not {other}");
    }
    println!("{state:?}");
    Ok(())
}
