//! Which constants the session's options give another value than the model has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;

use revseq_onnx::encode;
use revseq_onnx::model::{self, untyped};
use revseq_onnx::proto::{GraphProto, ModelProto, OperatorSetIdProto, TensorProto};

use super::super::error::Error;
use crate::plugin::given::Given;
use crate::plugin::graph::{Constant, Value};

/// The versions of a model that any ONNX Runtime reads which loads this library.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 13;
/// The last element type that this version has, as ONNX's code.
const BFLOAT16: i32 = 16;

/// Finds the constants that the options replace by other values.
pub(super) fn replaced(
    given: &Given,
    constants: &HashMap<String, Value<'_>>,
) -> Result<HashSet<String>, Error> {
    let mut known: BTreeMap<&str, Constant<'_>> = BTreeMap::new();
    for (name, value) in constants {
        // One that cannot be read is no part of a replacement, and no layer reads one of a later type.
        if let Ok(Some(constant)) = value.constant()
            && constant.element <= BFLOAT16
        {
            known.insert(name, constant);
        }
    }
    if known.is_empty() {
        return Ok(HashSet::new());
    }
    let initializer = |(name, constant): (&&str, &Constant<'_>)| TensorProto {
        name: Some((*name).to_owned()),
        data_type: Some(constant.element),
        dims: vec![0],
        ..TensorProto::default()
    };
    let output = |index: usize| format!("revseq/given/{index}");
    let outputs: Vec<String> = (0..known.len()).map(output).collect();
    let identity =
        |(name, output): (&&str, &String)| model::node("Identity", &[name], &[output], Vec::new());
    let graph = GraphProto {
        name: Some(String::from("given")),
        node: std::iter::zip(known.keys(), &outputs)
            .map(identity)
            .collect(),
        output: outputs.iter().map(|name| untyped(name)).collect(),
        initializer: known.iter().map(initializer).collect(),
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        opset_import: vec![OperatorSetIdProto {
            version: Some(OPSET),
            ..OperatorSetIdProto::default()
        }],
        graph: graph.into(),
        ..ModelProto::default()
    };
    let model = encode(&model).map_err(|error| Error::Replacement {
        problem: error.to_string(),
    })?;
    let names: Vec<CString> = outputs
        .into_iter()
        .filter_map(|name| CString::new(name).ok())
        .collect();
    let values = given.run(&model, &names)?;
    let mut replaced = HashSet::new();
    for ((name, own), value) in std::iter::zip(known, &values) {
        // SAFETY: the value is a tensor, and lives as long as what is read of it.
        let found = unsafe { Constant::read(given.host(), value.as_ptr()) }?;
        if found.sizes != [0] && found != own {
            replaced.insert(name.to_owned());
        }
    }
    Ok(replaced)
}
