//! Runs an ONNX model on ones, once for each size of the axes that it leaves open.
//!
//! ```sh
//! cargo run --release -p revseq-tract --example run -- bidirectional.onnx 2 7
//! ```
//!
//! The model is planned once, as its sizes stay symbols.

use std::error::Error;

use revseq_tract::tract_onnx::prelude::*;
use revseq_tract::{Limits, LoadOptions, Outputs, Session, Size};

/// Opens a model. Its loops take at most 100,000 steps and a gigabyte.
pub(crate) fn open(path: &str) -> Result<Session, revseq_tract::Error> {
    let limits = Limits::none().with_steps(100_000).with_bytes(1 << 30);
    Session::open_with(path, &LoadOptions::new().with_limits(limits))
}

/// Runs it on ones, with `size` for every size that it leaves open.
pub(crate) fn run(session: &Session, size: usize) -> Result<Outputs, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for input in session.inputs().iter().filter(|input| !input.has_default) {
        let sizes = input.sizes.iter().flatten().map(|it| match it {
            Size::Known(known) => *known,
            _ => size,
        });
        let ones = tensor0(1_f32).broadcast_to_shape(&sizes.collect::<Vec<_>>())?;
        let datum_type = input.datum_type.unwrap_or(f32::datum_type());
        let ones = ones.cast_to_dt(datum_type)?.into_owned();
        inputs.push((input.name.clone(), ones));
    }
    Ok(session.run(inputs)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: run MODEL [SIZE]...")?;
    let session = open(&path)?;
    for size in arguments {
        println!("{size}: {:?}", run(&session, size.parse()?)?);
    }
    Ok(())
}
