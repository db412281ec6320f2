//! Operators of `com.microsoft` that ONNX Runtime's optimiser and quantiser write, to standard
//! ones.
//!
//! Fused operators become the nodes that they were fused from. Operators on quantised integers are
//! computed between DequantizeLinear and QuantizeLinear, and so up to rounding. A form whose
//! attributes or types are not known here is left alone.
//!
//! ```text
//! FusedMatMul(a, b, alpha 0.5)  →  Mul(MatMul(a, b), 0.5)
//! QLinearSigmoid(x, …)          →  QuantizeLinear(Sigmoid(DequantizeLinear(x)))
//! ```

mod fused;
mod quantized;

use crate::model::{AttributeProto, NodeProto};
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;

pub(super) const PASS: Pass = Pass::rounding(
    "microsoft",
    "Operators that ONNX Runtime fuses or quantises, to standard ones",
    find,
)
.of_domain("com.microsoft", OPERATORS);

/// The attributes of a convolution.
const OF_CONVOLUTION: &[&str] = &[
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
];

const OPERATORS: &[&str] = &[
    "DequantizeLinear",
    "DynamicQuantizeMatMul",
    "FusedConv",
    "FusedGemm",
    "FusedMatMul",
    "Gelu",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "NhwcMaxPool",
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearConv",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QLinearWhere",
    "QuantizeLinear",
    "TransposeMatMul",
];

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let emit = at.replacement()?;
    if node.op() == "MatMulNBits" && node.int("bits").or(quantized::BITS) != Some(8) {
        // tract has products with weights of 2 and of 4 bits.
        return Err(Other);
    }
    let fused = Fused { scope, node };
    let written = match node.op() {
        "FusedGemm" => fused.gemm(&emit),
        "FusedConv" => fused.convolution(&emit),
        "FusedMatMul" | "TransposeMatMul" => fused.product(&emit),
        "Gelu" => fused.gelu(&emit),
        "DynamicQuantizeMatMul" => fused.quantized_product(&emit),
        "MatMulIntegerToFloat" => fused.integer_product(&emit),
        "MatMulNBits" => fused.product_of_bytes(&emit),
        "NhwcMaxPool" => fused.max_pool(&emit),
        "QLinearConv" => fused.quantized_convolution(&emit),
        "QGemm" => fused.quantized_gemm(&emit),
        op @ ("QuantizeLinear" | "DequantizeLinear") => fused.same(&emit, op),
        _ => fused.on_quantized(&emit),
    };
    let written = written.ok_or_else(|| format!("this form of {} is not known", node.op()))?;
    emit.finish_with(written, "standard operators")
}

/// A node to be replaced.
struct Fused<'a> {
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
}

impl Fused<'_> {
    fn input(&self, index: usize) -> Option<&str> {
        self.node.input(index)
    }

    fn is(&self, attribute: &str) -> Option<bool> {
        Some(self.node.int(attribute).or(0)? != 0)
    }

    fn float(&self, attribute: &str, default: f32) -> Option<f32> {
        self.node.float(attribute).or(default)
    }

    /// The attributes with these names.
    fn attributes(&self, names: &[&str]) -> Vec<AttributeProto> {
        let mut attributes = self.node.attribute.clone();
        attributes.retain(|it| names.contains(&it.name()));
        attributes
    }
}
