//! The model that other runtimes get: one ReverseSequence.

use revseq_kernels::DataType;
use revseq_onnx::model::{
    COMPLEX128, FLOAT, FLOAT16, GraphProto, INT64, ModelProto, OperatorSetIdProto, UINT8, int,
    node, value,
};

use crate::Regime;

/// The name of the input with the data.
pub(super) const INPUT: &str = "x";
/// The name of the input with the lengths.
pub(super) const LENGTHS: &str = "lens";
/// The name of the output.
pub(super) const OUTPUT: &str = "y";

/// ONNX's code of an element type, for the types of the regimes.
fn onnx_code(data_type: DataType) -> Option<i32> {
    Some(match data_type {
        DataType::Float32 => FLOAT,
        DataType::Uint8 => UINT8,
        DataType::Int64 => INT64,
        DataType::Float16 => FLOAT16,
        DataType::Complex128 => COMPLEX128,
        _ => return None,
    })
}

/// Whether ReverseSequence of ONNX's opset 10 takes a regime's axes: 0 and 1,
/// or 1 and 0.
pub(super) fn takes_axes(regime: &Regime) -> bool {
    regime.batch_axis + regime.time_axis == 1
}

/// A regime as a model in ONNX's format; `None` for an element type without a code.
pub(super) fn model(regime: &Regime) -> Option<Vec<u8>> {
    let element_type = onnx_code(regime.data_type)?;
    let sizes: Vec<Option<i64>> = regime.dims.iter().map(|&size| Some(size as i64)).collect();
    let axes = vec![
        int("batch_axis", regime.batch_axis as i64),
        int("time_axis", regime.time_axis as i64),
    ];
    let graph = GraphProto {
        name: Some("graph".to_owned()),
        node: vec![node("ReverseSequence", &[INPUT, LENGTHS], &[OUTPUT], axes)],
        input: vec![
            value(INPUT, element_type, &sizes),
            value(LENGTHS, INT64, &[sizes[regime.batch_axis]]),
        ],
        output: vec![value(OUTPUT, element_type, &sizes)],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto {
        version: Some(10),
        ..OperatorSetIdProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        graph: graph.into(),
        opset_import: vec![opset],
        ..ModelProto::default()
    };
    revseq_onnx::encode(&model).ok()
}
