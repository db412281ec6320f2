//! The model that other runtimes get: one ReverseSequence.

use revseq_kernels::DataType;

use crate::Regime;

/// The name of the input with the data.
pub(super) const INPUT: &str = "x";
/// The name of the input with the lengths.
pub(super) const LENGTHS: &str = "lens";
/// The name of the output.
pub(super) const OUTPUT: &str = "y";

/// ONNX's code of an element type (`TensorProto.DataType` in onnx.proto), for
/// the types of the regimes.
fn onnx_code(data_type: DataType) -> Option<u64> {
    Some(match data_type {
        DataType::Float32 => 1,
        DataType::Uint8 => 2,
        DataType::Int64 => 7,
        DataType::Float16 => 10,
        DataType::Complex128 => 15,
        _ => return None,
    })
}

/// Whether ReverseSequence of ONNX's opset 10 takes a regime's axes: 0 and 1,
/// or 1 and 0.
pub(super) fn takes_axes(regime: &Regime) -> bool {
    regime.batch_axis + regime.time_axis == 1
}

/// A regime as a model in ONNX's format; `None` for an element type without a code.
///
/// Field numbers are those of onnx.proto.
pub(super) fn model(regime: &Regime) -> Option<Vec<u8>> {
    let element_type = onnx_code(regime.data_type)?;
    let batch = regime.dims[regime.batch_axis];
    let node = Message::default()
        .text(1, INPUT)
        .text(1, LENGTHS)
        .text(2, OUTPUT)
        .text(3, "reverse")
        .text(4, "ReverseSequence")
        .message(5, axis("batch_axis", regime.batch_axis))
        .message(5, axis("time_axis", regime.time_axis));
    let graph = Message::default()
        .message(1, node)
        .text(2, "graph")
        .message(11, value(INPUT, element_type, regime.dims))
        .message(11, value(LENGTHS, 7, &[batch]))
        .message(12, value(OUTPUT, element_type, regime.dims));
    let opset = Message::default().text(1, "").number(2, 10);
    let model = Message::default()
        .number(1, 8)
        .message(7, graph)
        .message(8, opset);
    Some(model.0)
}

/// An attribute with an integer.
fn axis(name: &str, axis: usize) -> Message {
    Message::default()
        .text(1, name)
        .number(3, axis as u64)
        .number(20, 2)
}

/// A tensor's name, element type and shape.
fn value(name: &str, element_type: u64, dims: &[u64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, &size| {
        shape.message(1, Message::default().number(1, size))
    });
    let tensor = Message::default().number(1, element_type).message(2, shape);
    Message::default()
        .text(1, name)
        .message(2, Message::default().message(1, tensor))
}

/// A message in the wire format of Protocol Buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }
}
