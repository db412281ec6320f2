//! Rewrites ONNX models: to standard operators where a runtime lacks ReverseSequence, and to
//! cheaper ones where a loop is an LSTM.
//!
//! A model comes in as bytes or as a [`Model`] of [`revseq_onnx`] and goes out with the same
//! inputs and outputs, but for [inputs that only list an initializer](Report::removed_inputs).
//! Every rewrite is proved from the graph; a node that cannot be proved is left alone, and the
//! [`Report`] says why. Fields unknown to this version of ONNX are kept, and parts that no pass
//! touches are written back unchanged.
//!
//! Each pass is a file in `passes`: the node it matches, the conditions, and the replacement. What is
//! known of a model, such as constants and sizes, is asked of [`revseq_onnx`].

#![forbid(unsafe_code)]

mod captured;
mod declared;
mod driver;
mod emit;
mod error;
mod halves;
mod live;
pub mod masked;
mod operands;
mod origins;
mod pass;
mod passes;
mod path;
mod prepare;
mod regions;
mod rename;
mod report;
mod runtimes;
mod verdict;

#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use error::Error;
#[doc(hidden)]
pub use halves::compute_halves_in_floats;
pub use pass::{Assumptions, Options, PassInfo};
pub use passes::PASSES;
#[doc(hidden)]
pub use prepare::{for_tract, layers_for_tract};
#[doc(hidden)]
pub use regions::{Region, Regions, Staying, regions};
pub use report::{Exactness, Outcome, Report, Step};
pub use revseq_onnx;
use revseq_onnx::{
    Model, ModelProto, constant, decode, encode, model, operators, order, proto as onnx, scope,
    sizes, types,
};
pub use runtimes::{RUNTIMES, RuntimeInfo};

/// Rewrites an encoded model, as [`rewrite`] does.
///
/// External data stays where it is, under the same relative paths: keep the model in its folder.
///
/// ```no_run
/// use revseq_rewrite::Options;
///
/// let options = Options { fast: true, ..Options::default() };
/// let (model, report) = revseq_rewrite::rewrite_bytes(&std::fs::read("model.onnx")?, &options)?;
/// for step in report.left_alone() {
///     eprintln!("{} {}: {:?}", step.operator, step.node, step.outcome);
/// }
/// std::fs::write("fast.onnx", model)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the bytes are not a model, if the result exceeds protobuf's 2 GiB, and as [`rewrite`].
pub fn rewrite_bytes(model: &[u8], options: &Options) -> Result<(Vec<u8>, Report), Error> {
    let mut model = decode(model)?;
    let report = rewrite_messages(&mut model, options)?;
    Ok((encode(&model)?, report))
}

/// Rewrites a model in place and reports every step.
///
/// # Errors
///
/// If a requested pass or runtime does not exist, or if the passes do not come to an end.
pub fn rewrite(model: &mut Model, options: &Options) -> Result<Report, Error> {
    rewrite_messages(&mut model.proto, options)
}

/// The same for the other crates of this workspace.
///
/// # Errors
///
/// As [`rewrite`].
#[doc(hidden)]
pub fn rewrite_messages(model: &mut ModelProto, options: &Options) -> Result<Report, Error> {
    let runtime = runtimes::find(options)?;
    let passes = passes::select(options, runtime)?;
    let mut forms = runtime.map_or(Vec::new(), |runtime| runtime.info.passes.to_vec());
    if passes::need_functions_inlined(&passes, model) {
        forms.push(passes::tract::FUNCTION.info.name);
    }
    if !forms.iter().any(|name| passes::tract::is_one(name)) {
        return driver::rewrite(model, &passes, options);
    }
    let keeping_loops = passes.iter().filter(|pass| pass.keeps_loops);
    let keeping_loops: Vec<&str> = keeping_loops.map(|pass| pass.info.name).collect();
    let mut report = Report::default();
    // The passes may leave work for the form that the runtime reads.
    for _ in 0..driver::MAXIMUM_TURNS {
        let mut turn = prepare::prepare(model, options, &forms)?;
        turn.append(driver::rewrite(model, &passes, options)?);
        let is_done = turn.rewritten().next().is_none();
        report.add_turn(turn, &keeping_loops);
        if is_done {
            return Ok(report);
        }
    }
    let steps = report.rewritten().count();
    Err(Error::Endless { steps })
}
