//! Runs a model with other nodes beside the provider's from Rust, by the crate `ort`, and shows which
//! provider has each.
//!
//! ```text
//! cargo run -p revseq-ep --example mixed -- \
//!     libonnxruntime.so librevseq_ep.so models/exported/keras_bilstm_masked/model.onnx
//! ```
//!
//! Nodes that the provider does not take run on ONNX Runtime's CPU provider, but ReverseSequence must
//! not: it has another meaning there for some axes. Any model will do whose inputs are float tensors.
//! Sizes that are not known are 4 here.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CStr, c_char};
use std::{ptr, slice};

use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;
use ort::{AsPointer, ortsys};

const EP: &str = "RevSeqExecutionProvider";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [onnxruntime, library, model] = arguments.as_slice() else {
        return Err("usage: mixed <libonnxruntime.so> <librevseq_ep.so> <model.onnx>".into());
    };
    let environment = ort::init_from(onnxruntime)?.build()?;
    // ONNX Runtime looks for a relative path beside itself.
    environment.register_ep_library("revseq", std::path::absolute(library)?)?;
    let devices = environment
        .devices()
        .filter(|device| device.ep().is_ok_and(|ep| ep == EP));
    let mut session = Session::builder(&environment)?
        .with_devices(devices, None)?
        .with_config_entry("session.record_ep_graph_assignment_info", "1")?
        .commit_from_file(model)?;

    for ((provider, operator), count) in assigned(&session)? {
        println!("{provider:28} {count:3} {operator}");
        if operator == "ReverseSequence" && provider != EP {
            return Err(format!("ReverseSequence is with {provider}").into());
        }
    }

    let mut inputs: Vec<(String, SessionInputValue<'_>)> = Vec::new();
    for input in session.inputs() {
        let shape = input
            .dtype()
            .tensor_shape()
            .ok_or("an input is no tensor")?;
        let shape: Vec<i64> = shape
            .iter()
            .map(|&size| if size < 0 { 4 } else { size })
            .collect();
        let data = vec![1_f32; shape.iter().product::<i64>() as usize];
        let value = Tensor::from_array((shape, data))?;
        inputs.push((input.name().to_owned(), value.into()));
    }
    let outputs = session.run(inputs)?;
    let (shape, y) = outputs[0].try_extract_tensor::<f32>()?;
    println!("{shape}: {y:?}");
    Ok(())
}

/// The number of nodes by provider and operator. `ort` has no safe form of this record.
fn assigned(session: &Session) -> ort::Result<BTreeMap<(String, String), usize>> {
    let mut counts = BTreeMap::new();
    let (mut subgraphs, mut subgraph_count) = (ptr::null(), 0);
    ortsys![unsafe Session_GetEpGraphAssignmentInfo(session.ptr(), &mut subgraphs, &mut subgraph_count)?];
    for index in 0..subgraph_count {
        let (mut provider, mut nodes, mut node_count) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the session has so many subgraphs, and outlives this function.
        let subgraph = unsafe { *subgraphs.add(index) };
        ortsys![unsafe EpAssignedSubgraph_GetEpName(subgraph, &mut provider)?];
        ortsys![unsafe EpAssignedSubgraph_GetNodes(subgraph, &mut nodes, &mut node_count)?];
        let nodes = match node_count {
            0 => &[][..],
            // SAFETY: the subgraph has so many nodes.
            _ => unsafe { slice::from_raw_parts(nodes, node_count) },
        };
        for &node in nodes {
            let mut operator = ptr::null();
            ortsys![unsafe EpAssignedNode_GetOperatorType(node, &mut operator)?];
            // SAFETY: both are strings of the session's.
            let key = unsafe { (text(provider), text(operator)) };
            *counts.entry(key).or_default() += 1;
        }
    }
    Ok(counts)
}

/// # Safety
/// A string that ends with a zero.
unsafe fn text(from: *const c_char) -> String {
    // SAFETY: the caller's string.
    unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned()
}
