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

use crate::emit::Emit;
use crate::model::{AttributeProto, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass::rounding(
    "microsoft",
    "Operators that ONNX Runtime fuses or quantises, to standard ones",
    find,
);

/// The attributes of a convolution.
const OF_CONVOLUTION: &[&str] = &[
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
];

pub(super) const OPERATORS: &[&str] = &[
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

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let Some(output) = node.output.first() else {
        return Verdict::Other;
    };
    if node.domain() != "com.microsoft" || !OPERATORS.contains(&node.op()) {
        return Verdict::Other;
    }
    if node.op() == "MatMulNBits" && node.int("bits").or(quantized::BITS) != Some(8) {
        // tract has products with weights of 2 and of 4 bits.
        return Verdict::Other;
    }
    let mut emit = Emit::new(output, scope.opset, names);
    let fused = Fused {
        scope,
        node,
        output,
    };
    let written = match node.op() {
        "FusedGemm" => fused.gemm(&mut emit),
        "FusedConv" => fused.convolution(&mut emit),
        "FusedMatMul" | "TransposeMatMul" => fused.product(&mut emit),
        "Gelu" => fused.gelu(&mut emit),
        "DynamicQuantizeMatMul" => fused.quantized_product(&mut emit),
        "MatMulIntegerToFloat" => fused.integer_product(&mut emit),
        "MatMulNBits" => fused.product_of_bytes(&mut emit),
        "NhwcMaxPool" => fused.max_pool(&mut emit),
        "QLinearConv" => fused.quantized_convolution(&mut emit),
        "QGemm" => fused.quantized_gemm(&mut emit),
        op @ ("QuantizeLinear" | "DequantizeLinear") => fused.same(&mut emit, op),
        _ => fused.on_quantized(&mut emit),
    };
    if written.is_none() {
        return Verdict::Left(format!("this form of {} is not known", node.op()));
    }
    emit.finish("standard operators".to_owned())
}

/// A node to be replaced.
struct Fused<'a> {
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    output: &'a str,
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
        let attributes = self.node.attribute.iter();
        let wanted =
            attributes.filter(|it| names.contains(&it.name.as_deref().unwrap_or_default()));
        wanted.cloned().collect()
    }
}
