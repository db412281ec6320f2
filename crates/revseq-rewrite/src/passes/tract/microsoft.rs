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

use crate::emit::Emit;
use crate::model::{self, AttributeProto, FLOAT, INT8, INT16, INT32, NodeProto, UINT8, UINT16};
use crate::pass::{Context, Pass, PassInfo, Verdict};
use crate::report::Exactness;
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};
use crate::types;

/// The first opsets in which QuantizeLinear and DequantizeLinear have a scale for each place of an
/// axis, other numbers than float32, and integers of 16 bits.
const QUANTIZED_BY_AXIS: i64 = 13;
const QUANTIZED_HALVES: i64 = 19;
const QUANTIZED_16_BITS: i64 = 21;

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "microsoft",
        exactness: Exactness::Rounding,
        about: "Operators that ONNX Runtime fuses or quantises, to standard ones",
        portable: false,
        fast: false,
    },
    find,
};

pub(super) const OPERATORS: &[&str] = &[
    "DequantizeLinear",
    "DynamicQuantizeMatMul",
    "FusedConv",
    "FusedGemm",
    "FusedMatMul",
    "Gelu",
    "MatMulIntegerToFloat",
    "QLinearAdd",
    "QLinearConcat",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
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

    /// Writes ONNX's QuantizeLinear or DequantizeLinear.
    fn same(&self, emit: &mut Emit<'_>, op: &str) -> Option<()> {
        let inputs: Vec<&str> = self.node.input.iter().map(String::as_str).collect();
        let (scale, version) = (self.input(1)?, emit.opset());
        let is_vector = sizes::rank(self.scope, scale) != Some(0)
            && sizes::axis(self.scope, scale, 0) != Some(Size::Known(1));
        let mut axis = self.attributes(&["axis"]);
        if !is_vector {
            axis.clear();
        }
        if !axis.is_empty() && version < QUANTIZED_BY_AXIS {
            emit.refuse(format!(
                "version {version} of ONNX's operators has no {op} along an axis"
            ));
        }
        self.check_quantized(emit, op, &inputs);
        emit.write(&[self.output], op, &inputs, axis);
        Some(())
    }

    /// Checks that ONNX's QuantizeLinear or DequantizeLinear takes the types of its inputs: data,
    /// scale and zero point. It took fewer than `com.microsoft` at first.
    fn check_quantized(&self, emit: &mut Emit<'_>, op: &str, inputs: &[&str]) {
        let input = |index: usize| inputs.get(index).filter(|name| !name.is_empty());
        let code = match (input(2), input(0)) {
            (Some(zero), _) => types::of(self.scope, zero),
            (None, _) if op == "QuantizeLinear" => Some(UINT8),
            (None, data) => data.and_then(|data| quantized_type(self.scope, data)),
        };
        let version = emit.opset();
        match code {
            Some(INT8 | UINT8) => {}
            Some(INT32) if op == "DequantizeLinear" => {}
            Some(INT16 | UINT16) if version >= QUANTIZED_16_BITS => {}
            Some(INT16 | UINT16) => emit.refuse(format!(
                "version {version} of ONNX's operators has no {op} of 16 bits"
            )),
            _ => emit.refuse(format!("the type of its integers is not one of {op}'s")),
        }
        let of_scale = input(1).and_then(|scale| types::of(self.scope, scale));
        if of_scale.is_some_and(|code| code != FLOAT) && version < QUANTIZED_HALVES {
            emit.refuse(format!(
                "version {version} of ONNX's operators has no {op} but to and from float32"
            ));
        }
    }

    fn gemm(&self, emit: &mut Emit<'_>) -> Option<()> {
        let inputs: Vec<&str> = self.node.inputs().collect();
        let attributes = self.attributes(&["alpha", "beta", "transA", "transB"]);
        let product = emit.op("Gemm", &inputs, attributes);
        let parameter = |name: &str, default| self.float(&format!("activation_{name}"), default);
        let activation = self.node.text("activation").or("")?;
        let parameters = match activation {
            "LeakyRelu" => vec![parameter("alpha", 0.01)?],
            "HardSigmoid" => vec![parameter("alpha", 0.2)?, parameter("beta", 0.5)?],
            _ => Vec::new(),
        };
        self.activate(emit, activation, &parameters, &product)
    }

    fn convolution(&self, emit: &mut Emit<'_>) -> Option<()> {
        let (data, weights) = (self.input(0)?, self.input(1)?);
        let inputs: Vec<&str> = [data, weights].into_iter().chain(self.input(2)).collect();
        let attributes = self.attributes(&[
            "auto_pad",
            "dilations",
            "group",
            "kernel_shape",
            "pads",
            "strides",
        ]);
        let mut value = emit.op("Conv", &inputs, attributes);
        if let Some(addend) = self.input(3) {
            value = emit.plain("Add", &[&value, addend]);
        }
        let activation = self.node.text("activation").or("")?;
        let parameters = self.node.floats("activation_params").or(&[])?;
        self.activate(emit, activation, parameters, &value)
    }

    /// Writes the final activation.
    fn activate(
        &self,
        emit: &mut Emit<'_>,
        activation: &str,
        parameters: &[f32],
        value: &str,
    ) -> Option<()> {
        let named = |names: &[&str]| -> Option<Vec<AttributeProto>> {
            let given = std::iter::zip(names, parameters);
            (names.len() == parameters.len()).then(|| {
                given
                    .map(|(name, &value)| model::float(name, value))
                    .collect()
            })
        };
        let (op, attributes) = match activation {
            "" => ("Identity", Vec::new()),
            "Relu" | "Sigmoid" | "Tanh" => (activation, Vec::new()),
            "LeakyRelu" => ("LeakyRelu", named(&["alpha"])?),
            "HardSigmoid" => ("HardSigmoid", named(&["alpha", "beta"])?),
            "Clip" if emit.opset() < 11 => ("Clip", named(&["min", "max"])?),
            "Clip" => {
                let &[min, max] = parameters else {
                    return None;
                };
                let [min, max] = [min, max].map(|it| emit.tensor(model::float_scalar(it)));
                emit.write(&[self.output], "Clip", &[value, &min, &max], Vec::new());
                return Some(());
            }
            _ => return None,
        };
        emit.write(&[self.output], op, &[value], attributes);
        Some(())
    }

    /// Writes a scaled product of matrices, each possibly transposed.
    fn product(&self, emit: &mut Emit<'_>) -> Option<()> {
        if self.is("transBatchA")? || self.is("transBatchB")? {
            return None;
        }
        let mut factors = [self.input(0)?.to_owned(), self.input(1)?.to_owned()];
        for (factor, attribute) in factors.iter_mut().zip(["transA", "transB"]) {
            if !self.is(attribute)? {
                continue;
            }
            let rank = sizes::rank(self.scope, factor)? as i64;
            // A vector needs no transposition.
            if rank >= 2 {
                let perm: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
                *factor = emit.op("Transpose", &[factor], vec![model::ints("perm", &perm)]);
            }
        }
        let [one, other] = &factors;
        let alpha = self.float("alpha", 1.0)?;
        if alpha == 1.0 {
            emit.write(&[self.output], "MatMul", &[one, other], Vec::new());
            return Some(());
        }
        let product = emit.plain("MatMul", &[one, other]);
        let alpha = self.number(emit, alpha, &product);
        emit.write(&[self.output], "Mul", &[&product, &alpha], Vec::new());
        Some(())
    }

    /// A constant with the type of a value.
    fn number(&self, emit: &mut Emit<'_>, number: f32, value: &str) -> String {
        if emit.opset() < 15 && types::of(self.scope, value).is_some_and(|code| code != FLOAT) {
            let version = emit.opset();
            emit.refuse(format!(
                "version {version} of ONNX's operators has no CastLike"
            ));
        }
        let number = emit.tensor(model::float_scalar(number));
        if emit.opset() >= 15 {
            emit.plain("CastLike", &[&number, value])
        } else {
            number
        }
    }

    /// Writes `x / 2 * (1 + erf(x / sqrt(2)))`.
    fn gelu(&self, emit: &mut Emit<'_>) -> Option<()> {
        let data = self.input(0)?;
        let [root, one, half] =
            [std::f32::consts::SQRT_2, 1.0, 0.5].map(|it| self.number(emit, it, data));
        let scaled = emit.plain("Div", &[data, &root]);
        let erf = emit.plain("Erf", &[&scaled]);
        let shifted = emit.plain("Add", &[&erf, &one]);
        let product = emit.plain("Mul", &[data, &shifted]);
        emit.write(&[self.output], "Mul", &[&product, &half], Vec::new());
        Some(())
    }

    /// Inputs: A, B as integers, B's scale, B's zero point, bias.
    fn quantized_product(&self, emit: &mut Emit<'_>) -> Option<()> {
        let [data, scale, zero] = ["quantized", "scale", "zero"].map(|it| emit.name(it));
        let outputs = [data.as_str(), &scale, &zero];
        emit.write(
            &outputs,
            "DynamicQuantizeLinear",
            &[self.input(0)?],
            Vec::new(),
        );
        let (weights, weights_scale) = (self.input(1)?, self.input(2)?);
        let zeros = [Some(zero.as_str()), self.input(3)];
        self.scaled(
            [&data, weights],
            zeros,
            [&scale, weights_scale],
            self.input(4),
            emit,
        )
    }

    /// Inputs: A, B, their scales, their zero points, bias.
    fn integer_product(&self, emit: &mut Emit<'_>) -> Option<()> {
        let factors = [self.input(0)?, self.input(1)?];
        let scales = [self.input(2)?, self.input(3)?];
        let zeros = [self.input(4), self.input(5)];
        self.scaled(factors, zeros, scales, self.input(6), emit)
    }

    fn scaled(
        &self,
        factors: [&str; 2],
        zeros: [Option<&str>; 2],
        scales: [&str; 2],
        bias: Option<&str>,
        emit: &mut Emit<'_>,
    ) -> Option<()> {
        let zeros = match zeros {
            [None, None] => Vec::new(),
            [Some(one), None] => vec![one],
            [one, Some(other)] => vec![one.unwrap_or_default(), other],
        };
        let inputs = [&factors[..], &zeros].concat();
        let product = emit.plain("MatMulInteger", &inputs);
        let to_float = vec![model::int("to", FLOAT.into())];
        let product = emit.op("Cast", &[&product], to_float);
        let scale = emit.plain("Mul", &scales);
        let Some(bias) = bias else {
            emit.write(&[self.output], "Mul", &[&product, &scale], Vec::new());
            return Some(());
        };
        let scaled = emit.plain("Mul", &[&product, &scale]);
        emit.write(&[self.output], "Add", &[&scaled, bias], Vec::new());
        Some(())
    }

    /// Dequantises the inputs of an operator on integers, and quantises its output.
    fn on_quantized(&self, emit: &mut Emit<'_>) -> Option<()> {
        let dequantized = |emit: &mut Emit<'_>, first: usize| -> Option<String> {
            let inputs: Vec<&str> = [self.input(first)?, self.input(first + 1)?]
                .into_iter()
                .chain(self.input(first + 2))
                .collect();
            self.check_quantized(emit, "DequantizeLinear", &inputs);
            Some(emit.plain("DequantizeLinear", &inputs))
        };
        let (value, scale) = match self.node.op() {
            op @ ("QLinearAdd" | "QLinearMul") => {
                let operands = [dequantized(emit, 0)?, dequantized(emit, 3)?];
                let op = op.strip_prefix("QLinear")?;
                (emit.plain(op, &[&operands[0], &operands[1]]), 6)
            }
            "QLinearSigmoid" => {
                let operand = dequantized(emit, 0)?;
                (emit.plain("Sigmoid", &[&operand]), 3)
            }
            "QLinearLeakyRelu" => {
                let operand = dequantized(emit, 0)?;
                let attributes = self.attributes(&["alpha"]);
                (emit.op("LeakyRelu", &[&operand], attributes), 3)
            }
            "QLinearConcat" => {
                let parts = (2..self.node.input.len()).step_by(3);
                let parts = parts.map(|first| dequantized(emit, first));
                let parts: Vec<String> = parts.collect::<Option<_>>()?;
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                (emit.op("Concat", &parts, self.attributes(&["axis"])), 0)
            }
            _ => return None,
        };
        let zero = self.input(scale + 1);
        let data = self.input(if scale == 0 { 2 } else { 0 })?;
        if zero.is_none() && quantized_type(self.scope, data) != Some(UINT8) {
            emit.refuse("its output has no zero point and is not provably uint8".to_owned());
        }
        let mut inputs = vec![value.as_str(), self.input(scale)?];
        inputs.extend(zero);
        self.check_quantized(emit, "QuantizeLinear", &inputs);
        emit.write(&[self.output], "QuantizeLinear", &inputs, Vec::new());
        Some(())
    }
}

/// The element type of a quantised value.
fn quantized_type(scope: &Scope<'_>, name: &str) -> Option<i32> {
    types::of(scope, name).or_else(|| match scope.producer(name)? {
        (scope, node, 0) if node.op() == "QuantizeLinear" => match node.input(2) {
            Some(zero) => types::of(scope, zero),
            None => Some(UINT8),
        },
        _ => None,
    })
}
