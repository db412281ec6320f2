//! A model in one session, many times: small inputs and large ones, other values, and defaults that are given
//! or left out. No run may know of the ones before, nor a plan for all sizes more than the data.

use prost::Message;
use revseq_tract::{Error, ErrorKind, LoadOptions, Outputs, Session, Sizes};
use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tensor::load_tensor;
use tract_onnx::tract_hir::internal::Approximation;

use crate::common::{FLOAT, value};

/// The inputs of a run, by name.
type Inputs = Vec<(String, Tensor)>;

/// Runs a model on each data set, on the first one again, and on the first one with its elements in another
/// order, in one session for all sizes and in one for those of the data; and once more with a weight that is
/// an input with a default. Each run has to give what a new session gives.
pub(crate) fn run_apart(model: &[u8], sets: &[Vec<TensorProto>]) {
    let mut runs: Vec<Inputs> = sets.iter().map(|set| inputs(set)).collect();
    runs.push(runs[0].clone());
    runs.push(other_values(&runs[0]));
    check(model, &runs);
    let mut model = ModelProto::decode(model).expect("a model");
    if let Some(default) = with_default(&mut model) {
        let mut given = runs[0].clone();
        given.extend(other_values(&[default]));
        check(
            &model.encode_to_vec(),
            &[runs.remove(0), given, runs.remove(0)],
        );
    }
}

fn check(model: &[u8], runs: &[Inputs]) {
    let open = |sizes| Session::from_bytes(model, &LoadOptions::new().with_sizes(sizes));
    let run = |session: &Session, inputs: &Inputs| session.run(inputs.iter().cloned());
    let expected: Vec<Result<Outputs, Error>> = runs
        .iter()
        .map(|inputs| run(&open(Sizes::OfData)?, inputs))
        .collect();
    for sizes in [Sizes::Symbolic, Sizes::OfData] {
        let Ok(session) = open(sizes) else { return };
        for (number, (inputs, expected)) in std::iter::zip(runs, &expected).enumerate() {
            match (run(&session, inputs), expected) {
                (Ok(found), Ok(expected)) => {
                    are_close(&found, expected, &format!("{sizes:?} {number}"))
                }
                // What a plan for all sizes takes, one for the data may not.
                (Ok(_), Err(error)) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
                (Err(error), Ok(_)) => panic!("{sizes:?}, run {number}: {error}"),
                (Err(_), Err(_)) => {}
            }
        }
    }
}

#[track_caller]
fn are_close(found: &Outputs, expected: &Outputs, run: &str) {
    for ((name, found), (_, expected)) in found.iter().zip(expected.iter()) {
        let close = found.close_enough(expected, Approximation::Custom(1e-5, 1e-4, 0.));
        close.unwrap_or_else(|error| panic!("{run}, {name}: {error:#}"));
    }
}

fn inputs(set: &[TensorProto]) -> Inputs {
    let named = set.iter().map(|proto| {
        let tensor = load_tensor(&MmapDataResolver, proto, None).expect("a tensor");
        (proto.name.clone(), tensor)
    });
    named.collect()
}

/// The same values, from the last element to the first.
fn other_values(inputs: &[(String, Tensor)]) -> Inputs {
    let reversed = inputs.iter().map(|(name, value)| {
        let width = value.datum_type().size_of();
        let elements = value.as_bytes().chunks_exact(width).rev();
        let bytes: Vec<u8> = elements.flatten().copied().collect();
        let mut other = value.clone();
        other.as_bytes_mut().copy_from_slice(&bytes);
        (name.clone(), other)
    });
    reversed.collect()
}

/// Makes an input of the first initializer of floats; its name and default.
fn with_default(model: &mut ModelProto) -> Option<(String, Tensor)> {
    let graph = model.graph.as_mut()?;
    let mut floats = graph.initializer.iter().filter(|it| it.data_type == FLOAT);
    let weight = floats.find(|it| it.dims.iter().product::<i64>() > 1)?;
    let sizes: Vec<String> = weight.dims.iter().map(ToString::to_string).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let default = load_tensor(&MmapDataResolver, weight, None).ok()?;
    graph.input.push(value(&weight.name, FLOAT, &sizes));
    Some((weight.name.clone(), default))
}
