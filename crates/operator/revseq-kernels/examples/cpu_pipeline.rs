//! A bidirectional layer's inputs on the CPU, from buffers of your own.
//!
//! ```sh
//! cargo run -p revseq-kernels --example cpu_pipeline
//! ```
//!
//! Plans are made once for a shape; a batch brings its lengths, which are checked
//! once, and then serve every tensor of that batch.

use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    DataType, Element, Error, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths,
};

const TIME: usize = 5;
const BATCH: usize = 3;
const FEATURES: usize = 2;

fn main() -> Result<(), Error> {
    // Time-major features `[time, batch, features]` and a mask `[time, batch]`.
    let (time, batch, features) = (TIME as u64, BATCH as u64, FEATURES as u64);
    let reversed_along_time = |data_type, sizes: &[u64]| {
        let lengths = DataType::Uint64;
        Plan::new(&ReverseSubsequencesDesc::reverse_sequence(
            data_type, sizes, 1, 0, lengths,
        )?)
    };
    let plan = reversed_along_time(f32::DATA_TYPE, &[time, batch, features])?;
    let mask_plan = reversed_along_time(bool::DATA_TYPE, &[time, batch])?;

    for lengths in [[5_usize, 3, 0], [2, 5, 4]] {
        let lengths = SequenceLengths::new(&plan, lengths.as_slice(), LengthsPolicy::Reject)?;
        let forwards: Vec<f32> = (0..TIME * BATCH * FEATURES).map(|it| it as f32).collect();
        let mut backwards = vec![0.0; forwards.len()];
        cpu::run_elements(
            &plan,
            &lengths,
            &forwards,
            &mut backwards,
            Threads::default(),
        )?;

        // Every tenth step is masked; the mask turns where it lies.
        let mut mask: Vec<bool> = (0..TIME * BATCH).map(|it| it % 10 != 9).collect();
        cpu::run_elements_in_place(&mask_plan, &lengths, &mut mask, Threads::Serial)?;

        println!("lengths {:?}", [0, 1, 2].map(|entry| lengths.get(entry)));
        for (step, (rows, mask)) in
            std::iter::zip(backwards.chunks(BATCH * FEATURES), mask.chunks(BATCH)).enumerate()
        {
            println!("  step {step}: {rows:?} {mask:?}");
        }
    }
    Ok(())
}
