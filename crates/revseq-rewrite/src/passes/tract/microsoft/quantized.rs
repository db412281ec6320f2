//! Operators on quantised numbers that ONNX Runtime's quantiser and optimiser write.

use super::{Fused, OF_CONVOLUTION};
use crate::emit::{Emit, SOFTMAX_BY_ONE_AXIS};
use crate::model::{self, AttributeProto, FLOAT, INT8, INT16, INT32, UINT8, UINT16};
use crate::scope::Scope;
use crate::sizes::{self, Size};
use crate::types;

/// The bits of a weight of MatMulNBits that tells none.
pub(super) const BITS: i64 = 4;

/// The first opsets in which QuantizeLinear and DequantizeLinear have a scale for each place of an
/// axis, other numbers than float32, and integers of 16 bits.
const QUANTIZED_BY_AXIS: i64 = 13;
const QUANTIZED_HALVES: i64 = 19;
const QUANTIZED_16_BITS: i64 = 21;

impl Fused<'_> {
    /// Writes ONNX's QuantizeLinear or DequantizeLinear.
    pub(super) fn same(&self, emit: &mut Emit<'_>, op: &str) -> Option<()> {
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

    /// Inputs: A, B as integers, B's scale, B's zero point, bias.
    pub(super) fn quantized_product(&self, emit: &mut Emit<'_>) -> Option<()> {
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
    pub(super) fn integer_product(&self, emit: &mut Emit<'_>) -> Option<()> {
        let factors = [self.input(0)?, self.input(1)?];
        let scales = [self.input(2)?, self.input(3)?];
        let zeros = [self.input(4), self.input(5)];
        self.scaled(factors, zeros, scales, self.input(6), emit)
    }

    /// Writes the product of two matrices of integers, times both scales, plus a bias of floats.
    fn scaled(
        &self,
        factors: [&str; 2],
        zeros: [Option<&str>; 2],
        scales: [&str; 2],
        bias: Option<&str>,
        emit: &mut Emit<'_>,
    ) -> Option<()> {
        let product = whole_product(emit, factors, zeros);
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

    /// Inputs: A, its scale and zero point, B likewise, a bias of int32, and the scale and zero
    /// point of the output, which is of floats without them.
    pub(super) fn quantized_gemm(&self, emit: &mut Emit<'_>) -> Option<()> {
        let mut factors = [self.input(0)?.to_owned(), self.input(3)?.to_owned()];
        for (factor, attribute) in factors.iter_mut().zip(["transA", "transB"]) {
            if self.is(attribute)? {
                *factor = emit.op("Transpose", &[factor], vec![model::ints("perm", &[1, 0])]);
            }
        }
        let zeros = [self.input(2), self.input(5)];
        let mut sum = whole_product(emit, [&factors[0], &factors[1]], zeros);
        if let Some(bias) = self.input(6) {
            sum = emit.plain("Add", &[&sum, bias]);
        }
        let sum = emit.op("Cast", &[&sum], vec![model::int("to", FLOAT.into())]);
        let mut scale = emit.plain("Mul", &[self.input(1)?, self.input(4)?]);
        let alpha = self.float("alpha", 1.0)?;
        if alpha != 1.0 {
            let alpha = emit.tensor(model::float_scalar(alpha));
            scale = emit.plain("Mul", &[&scale, &alpha]);
        }
        if self.input(7).is_none() {
            emit.write(&[self.output], "Mul", &[&sum, &scale], Vec::new());
            return Some(());
        }
        let value = emit.plain("Mul", &[&sum, &scale]);
        self.quantize(emit, &value, 7, self.input(0)?)
    }

    /// Inputs: A, B as bytes of blocks, [N, blocks, block size], B's scales and zero points, one of
    /// each for a block; further ones are the order of B's rows, and the bias.
    pub(super) fn product_of_bytes(&self, emit: &mut Emit<'_>) -> Option<()> {
        let number = |name: &str| self.node.int(name).value().filter(|it| *it > 0);
        let [inner, columns, block] = [number("K")?, number("N")?, number("block_size")?];
        let blocks = inner.checked_add(block - 1)? / block;
        let [count, padded] = [columns.checked_mul(blocks)?, blocks.checked_mul(block)?];
        let is_float = types::of(self.scope, self.input(2)?) == Some(FLOAT);
        let zeros = self.input(3);
        let are_bytes = zeros.is_none_or(|it| types::of(self.scope, it) == Some(UINT8));
        if !is_float || !are_bytes || self.input(4).is_some() || emit.opset() < QUANTIZED_BY_AXIS {
            return None;
        }
        let reshaped = |emit: &mut Emit<'_>, value: &str, sizes: &[i64]| {
            let sizes = emit.ints(sizes);
            emit.plain("Reshape", &[value, &sizes])
        };
        let weights = reshaped(emit, self.input(1)?, &[count, block]);
        let scales = reshaped(emit, self.input(2)?, &[count]);
        let zeros = match zeros {
            Some(zeros) => reshaped(emit, zeros, &[count]),
            None => {
                let mut middle = model::zero(UINT8)?;
                middle.raw_data = Some(vec![1 << 7]);
                let (middle, sizes) = (emit.tensor(middle), emit.ints(&[count]));
                emit.plain("Expand", &[&middle, &sizes])
            }
        };
        let along = vec![model::int("axis", 0)];
        let weights = emit.op("DequantizeLinear", &[&weights, &scales, &zeros], along);
        let mut weights = reshaped(emit, &weights, &[columns, padded]);
        if padded > inner {
            weights = emit.range(&weights, 1, 0, inner);
        }
        let weights = emit.op("Transpose", &[&weights], vec![model::ints("perm", &[1, 0])]);
        let factors = [self.input(0)?, &weights];
        let Some(bias) = self.input(5) else {
            emit.write(&[self.output], "MatMul", &factors, Vec::new());
            return Some(());
        };
        let product = emit.plain("MatMul", &factors);
        emit.write(&[self.output], "Add", &[&product, bias], Vec::new());
        Some(())
    }

    /// Writes ONNX's QLinearConv between transpositions, if the channels are last.
    pub(super) fn quantized_convolution(&self, emit: &mut Emit<'_>) -> Option<()> {
        let attributes = self.attributes(OF_CONVOLUTION);
        let mut inputs: Vec<&str> = self.node.input.iter().map(String::as_str).collect();
        if !self.is("channels_last")? {
            emit.write(&[self.output], "QLinearConv", &inputs, attributes);
            return Some(());
        }
        let rank = sizes::rank(self.scope, self.input(3)?)?;
        let data = channels_second(emit, self.input(0)?, rank)?;
        inputs[0] = &data;
        let made = emit.op("QLinearConv", &inputs, attributes);
        channels_last(emit, self.output, &made, rank)
    }

    /// Writes a MaxPool between transpositions.
    pub(super) fn max_pool(&self, emit: &mut Emit<'_>) -> Option<()> {
        let attributes = self.attributes(&[
            "auto_pad",
            "ceil_mode",
            "dilations",
            "kernel_shape",
            "pads",
            "strides",
        ]);
        let rank = self.node.ints("kernel_shape").value()?.len() + 2;
        let data = channels_second(emit, self.input(0)?, rank)?;
        let made = emit.op("MaxPool", &[&data], attributes);
        channels_last(emit, self.output, &made, rank)
    }

    /// Dequantises the inputs of an operator on integers, and quantises its output.
    pub(super) fn on_quantized(&self, emit: &mut Emit<'_>) -> Option<()> {
        let op = self.node.op().strip_prefix("QLinear")?;
        let (value, scale) = match op {
            "Add" | "Mul" => {
                let operands = [self.dequantized(emit, 0)?, self.dequantized(emit, 3)?];
                (emit.plain(op, &[&operands[0], &operands[1]]), 6)
            }
            "Where" => {
                let operands = [self.dequantized(emit, 1)?, self.dequantized(emit, 4)?];
                let inputs = [self.input(0)?, &operands[0], &operands[1]];
                (emit.plain(op, &inputs), 7)
            }
            "Concat" => {
                let parts = (2..self.node.input.len()).step_by(3);
                let parts = parts.map(|first| self.dequantized(emit, first));
                let parts: Vec<String> = parts.collect::<Option<_>>()?;
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                (emit.op(op, &parts, self.attributes(&["axis"])), 0)
            }
            _ => {
                let operand = self.dequantized(emit, 0)?;
                (self.of_one(emit, op, &operand)?, 3)
            }
        };
        let data = if scale == 0 { 2 } else { scale - 3 };
        self.quantize(emit, &value, scale, self.input(data)?)
    }

    /// Dequantises the input at a place, which its scale and possibly its zero point follow.
    fn dequantized(&self, emit: &mut Emit<'_>, first: usize) -> Option<String> {
        let inputs: Vec<&str> = [self.input(first)?, self.input(first + 1)?]
            .into_iter()
            .chain(self.input(first + 2))
            .collect();
        self.check_quantized(emit, "DequantizeLinear", &inputs);
        Some(emit.plain("DequantizeLinear", &inputs))
    }

    /// Writes an operator of one input.
    fn of_one(&self, emit: &mut Emit<'_>, op: &str, operand: &str) -> Option<String> {
        let attributes = match op {
            "Sigmoid" => Vec::new(),
            "LeakyRelu" => self.attributes(&["alpha"]),
            "Softmax" => vec![self.softmax_axis(emit.opset())?],
            "GlobalAveragePool" => Vec::new(),
            "AveragePool" => self.attributes(&[
                "auto_pad",
                "ceil_mode",
                "count_include_pad",
                "kernel_shape",
                "pads",
                "strides",
            ]),
            _ => return None,
        };
        if !self.is("channels_last")? {
            return Some(emit.op(op, &[operand], attributes));
        }
        let rank = match self.node.ints("kernel_shape").value() {
            Some(kernel) => kernel.len() + 2,
            None => sizes::rank(self.scope, self.input(0)?)?,
        };
        let operand = channels_second(emit, operand, rank)?;
        let made = emit.op(op, &[&operand], attributes);
        let output = emit.name("channels_last");
        channels_last(emit, &output, &made, rank)?;
        Some(output)
    }

    /// The axis of a Softmax, which before opset 13 is over all axes from one on. The node tells
    /// the opset that it was made for.
    fn softmax_axis(&self, opset: i64) -> Option<AttributeProto> {
        let axis = self.node.int("axis").or(-1)?;
        let by_one_axis = |opset: i64| opset >= SOFTMAX_BY_ONE_AXIS;
        let declared = self.node.int("opset").value()?;
        let is_last =
            || Some(axis == -1 || axis + 1 == sizes::rank(self.scope, self.input(0)?)? as i64);
        (by_one_axis(declared) == by_one_axis(opset) || is_last()?)
            .then(|| model::int("axis", axis))
    }

    /// Quantises the output by the scale at a place, which its zero point may follow. Without one
    /// it has the type of `data` in ONNX Runtime.
    fn quantize(&self, emit: &mut Emit<'_>, value: &str, scale: usize, data: &str) -> Option<()> {
        let zero = self.input(scale + 1);
        if zero.is_none() && quantized_type(self.scope, data) != Some(UINT8) {
            emit.refuse("its output has no zero point and is not provably uint8".to_owned());
        }
        let mut inputs = vec![value, self.input(scale)?];
        inputs.extend(zero);
        self.check_quantized(emit, "QuantizeLinear", &inputs);
        emit.write(&[self.output], "QuantizeLinear", &inputs, Vec::new());
        Some(())
    }
}

/// Moves the last axis behind the first.
fn channels_second(emit: &mut Emit<'_>, value: &str, rank: usize) -> Option<String> {
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.get_mut(1..)?.rotate_right(1);
    Some(emit.op("Transpose", &[value], vec![model::ints("perm", &perm)]))
}

/// Moves the second axis to the end, into a named value.
fn channels_last(emit: &mut Emit<'_>, output: &str, value: &str, rank: usize) -> Option<()> {
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.get_mut(1..)?.rotate_left(1);
    emit.write(
        &[output],
        "Transpose",
        &[value],
        vec![model::ints("perm", &perm)],
    );
    Some(())
}

/// Writes the product of two matrices of integers, with their zero points.
fn whole_product(emit: &mut Emit<'_>, factors: [&str; 2], zeros: [Option<&str>; 2]) -> String {
    let zeros = match zeros {
        [None, None] => Vec::new(),
        [Some(one), None] => vec![one],
        [one, Some(other)] => vec![one.unwrap_or_default(), other],
    };
    emit.plain("MatMulInteger", &[&factors[..], &zeros].concat())
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
