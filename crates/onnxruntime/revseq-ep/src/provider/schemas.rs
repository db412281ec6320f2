//! The schemas that the EP has kernels for.

use std::ffi::c_int;

use ort_sys::ONNXTensorElementDataType as Host;
use revseq_graph::ElementType;
use revseq_kernels::DataType;

use super::custom_op;
use crate::plugin::registry::Registration;

/// The types of numbers that layers have; half floats are computed in floats.
pub(super) const HALF: c_int = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 as c_int;
pub(super) const FLOAT: c_int = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT as c_int;
pub(super) const DOUBLE: c_int = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE as c_int;
/// The type of offsets and counts.
pub(super) const INT32: c_int = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 as c_int;
/// The type of masks.
pub(super) const BOOL: c_int = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL as c_int;

/// The data and the output, which may be one buffer.
const IN_PLACE: Option<(c_int, c_int)> = Some((0, 0));

/// The schemas of ReverseSequence (onnx/defs/tensor/defs.cc) and our own.
pub(super) fn registrations() -> [Registration; 3] {
    let reverse_sequence = |since_versions, bfloat16| Registration {
        since_versions,
        types: Some((c"T", elements(bfloat16))),
        in_place: IN_PLACE,
        ..Registration::new(c"", c"ReverseSequence")
    };
    [
        reverse_sequence((10, 27), false),
        reverse_sequence((28, 28), true),
        Registration {
            in_place: IN_PLACE,
            ..Registration::new(custom_op::DOMAIN, custom_op::OP_TYPE)
        },
    ]
}

/// The schemas of ONNX's recurrent layers (onnx/defs/rnn/defs.cc), ONNX Runtime's own, and those with masks.
pub(super) fn layers() -> Vec<Registration> {
    let layer = |op_type| Registration {
        since_versions: (7, 22),
        types: Some((c"T", vec![HALF, FLOAT, DOUBLE])),
        ..Registration::new(c"", op_type)
    };
    let quantized = Registration {
        types: Some((c"T", vec![FLOAT])),
        ..Registration::new(c"com.microsoft", c"DynamicQuantizeLSTM")
    };
    let masked = custom_op::MASKED;
    let masked = masked.map(|(op_type, ..)| Registration::new(custom_op::DOMAIN, op_type));
    let plain = [layer(c"LSTM"), layer(c"GRU"), layer(c"RNN"), quantized];
    plain.into_iter().chain(masked).collect()
}

/// The schemas of ONNX's operators of linear attention (onnx/defs/nn/defs.cc), and of ONNX Runtime's.
pub(super) fn attention() -> Vec<Registration> {
    let of = |domain, op_type| Registration {
        types: Some((c"T", vec![HALF, FLOAT])),
        ..Registration::new(domain, op_type)
    };
    let onnx = [c"LinearAttention", c"CausalConvWithState"].map(|op_type| Registration {
        since_versions: (27, 27),
        ..of(c"", op_type)
    });
    let others = [
        c"LinearAttention",
        c"CausalConvWithState",
        c"LinearAttentionGate",
        c"GatedDeltaNet",
        c"VarlenCausalConvWithState",
    ];
    let others = others.map(|op_type| of(c"com.microsoft", op_type));
    onnx.into_iter().chain(others).collect()
}

/// The types that kernels move, which have ONNX's codes in ONNX Runtime.
fn elements(bfloat16: bool) -> Vec<c_int> {
    DataType::ALL
        .into_iter()
        .filter(|&data_type| bfloat16 || data_type != DataType::Bfloat16)
        .map(|data_type| ElementType::from(data_type).onnx_code())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_element_types_have_onnxs_codes() {
        let hosts = [
            (DataType::Float32, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT),
            (
                DataType::Float16,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
            ),
            (DataType::Uint32, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32),
            (DataType::Uint16, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16),
            (DataType::Uint8, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8),
            (DataType::Int32, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32),
            (DataType::Int16, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16),
            (DataType::Int8, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8),
            (
                DataType::Float64,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
            ),
            (DataType::Uint64, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64),
            (DataType::Int64, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
            (DataType::Bool, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL),
            (
                DataType::Bfloat16,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
            ),
            (
                DataType::Complex64,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64,
            ),
            (
                DataType::Complex128,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128,
            ),
        ];
        assert_eq!(hosts.map(|(data_type, _)| data_type), DataType::ALL);
        for (data_type, host) in hosts {
            assert_eq!(ElementType::from(data_type).onnx_code(), host as c_int);
        }
        let string = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING as c_int;
        assert_eq!(ElementType::String.onnx_code(), string);
    }
}
