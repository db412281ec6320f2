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

/// The attributes of a pool.
const OF_POOL: &[&str] = &["auto_pad", "ceil_mode", "kernel_shape", "pads", "strides"];

impl Fused<'_> {
    /// Writes ONNX's QuantizeLinear or DequantizeLinear.
    pub(super) fn same(&self, emit: &Emit<'_>, op: &str) -> Option<String> {
        let inputs = &self.node.input;
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
        self.check_quantized(emit, op, inputs);
        Some(emit.with(op, inputs, axis))
    }

    /// Checks that ONNX's QuantizeLinear or DequantizeLinear takes the types of its inputs: data,
    /// scale and zero point. It took fewer than `com.microsoft` at first.
    fn check_quantized(&self, emit: &Emit<'_>, op: &str, inputs: &[String]) {
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
    pub(super) fn quantized_product(&self, emit: &Emit<'_>) -> Option<String> {
        let [data, scale, zero] = ["quantized", "scale", "zero"].map(|it| emit.name(it));
        let outputs = [&*data, &scale, &zero];
        emit.write(&outputs, "DynamicQuantizeLinear", self.input(0)?, []);
        let (factors, scales) = ([&*data, self.input(1)?], [&*scale, self.input(2)?]);
        let zeros = [Some(&*zero), self.input(3)];
        Some(scaled(emit, factors, zeros, scales, self.input(4)))
    }

    /// Inputs: A, B, their scales, their zero points, bias.
    pub(super) fn integer_product(&self, emit: &Emit<'_>) -> Option<String> {
        let factors = [self.input(0)?, self.input(1)?];
        let scales = [self.input(2)?, self.input(3)?];
        let zeros = [self.input(4), self.input(5)];
        Some(scaled(emit, factors, zeros, scales, self.input(6)))
    }

    /// Inputs: A, its scale and zero point, B likewise, a bias of int32, and the scale and zero
    /// point of the output, which is of floats without them.
    pub(super) fn quantized_gemm(&self, emit: &Emit<'_>) -> Option<String> {
        let mut factors = [self.input(0)?.to_owned(), self.input(3)?.to_owned()];
        for (factor, attribute) in factors.iter_mut().zip(["transA", "transB"]) {
            if self.is(attribute)? {
                *factor = emit.transpose(factor, &[1, 0]);
            }
        }
        let zeros = [self.input(2), self.input(5)];
        let mut sum = whole_product(emit, [&factors[0], &factors[1]], zeros);
        if let Some(bias) = self.input(6) {
            sum = emit.op("Add", (sum, bias));
        }
        let sum = emit.cast(sum, FLOAT);
        let mut scale = emit.op("Mul", (self.input(1)?, self.input(4)?));
        let alpha = self.float("alpha", 1.0)?;
        if alpha != 1.0 {
            let alpha = emit.tensor(model::float_scalar(alpha));
            scale = emit.op("Mul", (scale, alpha));
        }
        let value = emit.op("Mul", (sum, scale));
        match self.input(7) {
            None => Some(value),
            Some(_) => self.quantize(emit, value, 7, self.input(0)?),
        }
    }

    /// Inputs: A, B as bytes of blocks, [N, blocks, block size], B's scales and zero points, one of
    /// each for a block; further ones are the order of B's rows, and the bias.
    pub(super) fn product_of_bytes(&self, emit: &Emit<'_>) -> Option<String> {
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
        let weights = emit.op("Reshape", (self.input(1)?, [count, block]));
        let scales = emit.op("Reshape", (self.input(2)?, [count]));
        let zeros = match zeros {
            Some(zeros) => emit.op("Reshape", (zeros, [count])),
            None => {
                let mut middle = model::zero(UINT8)?;
                middle.raw_data = Some(vec![1 << 7]);
                emit.op("Expand", (emit.tensor(middle), [count]))
            }
        };
        let weights = emit.with(
            "DequantizeLinear",
            (weights, scales, zeros),
            [model::int("axis", 0)],
        );
        let mut weights = emit.op("Reshape", (weights, [columns, padded]));
        if padded > inner {
            weights = emit.range(&weights, 1, 0, inner);
        }
        let weights = emit.transpose(&weights, &[1, 0]);
        let product = emit.op("MatMul", (self.input(0)?, weights));
        Some(match self.input(5) {
            None => product,
            Some(bias) => emit.op("Add", (product, bias)),
        })
    }

    /// Writes ONNX's QLinearConv, between transpositions if the channels are last.
    pub(super) fn quantized_convolution(&self, emit: &Emit<'_>) -> Option<String> {
        let attributes = self.attributes(OF_CONVOLUTION);
        if !self.is("channels_last")? {
            return Some(emit.with("QLinearConv", &self.node.input, attributes));
        }
        let rank = sizes::rank(self.scope, self.input(3)?)?;
        let mut inputs = self.node.input.clone();
        inputs[0] = channels_second(emit, self.input(0)?, rank)?;
        channels_last(emit, emit.with("QLinearConv", inputs, attributes), rank)
    }

    /// Writes a MaxPool between transpositions.
    pub(super) fn max_pool(&self, emit: &Emit<'_>) -> Option<String> {
        let attributes = [OF_POOL, &["dilations"]].concat();
        let rank = self.node.ints("kernel_shape").value()?.len() + 2;
        let data = channels_second(emit, self.input(0)?, rank)?;
        let pooled = emit.with("MaxPool", data, self.attributes(&attributes));
        channels_last(emit, pooled, rank)
    }

    /// Dequantises the inputs of an operator on integers, and quantises its output.
    pub(super) fn on_quantized(&self, emit: &Emit<'_>) -> Option<String> {
        let op = self.node.op().strip_prefix("QLinear")?;
        let operand = |first| self.dequantized(emit, first);
        let (value, scale) = match op {
            "Add" | "Mul" => (emit.op(op, (operand(0)?, operand(3)?)), 6),
            "Where" => (emit.op(op, (self.input(0)?, operand(1)?, operand(4)?)), 7),
            "Concat" => {
                let parts = (2..self.node.input.len()).step_by(3).map(operand);
                let parts: Vec<String> = parts.collect::<Option<_>>()?;
                (emit.with(op, parts, self.attributes(&["axis"])), 0)
            }
            _ => (self.of_one(emit, op, operand(0)?)?, 3),
        };
        let data = if scale == 0 { 2 } else { scale - 3 };
        self.quantize(emit, value, scale, self.input(data)?)
    }

    /// Dequantises the input at a place, which its scale and possibly its zero point follow.
    fn dequantized(&self, emit: &Emit<'_>, first: usize) -> Option<String> {
        let mut inputs = vec![
            self.input(first)?.to_owned(),
            self.input(first + 1)?.to_owned(),
        ];
        inputs.extend(self.input(first + 2).map(str::to_owned));
        self.check_quantized(emit, "DequantizeLinear", &inputs);
        Some(emit.op("DequantizeLinear", inputs))
    }

    /// Writes an operator of one input.
    fn of_one(&self, emit: &Emit<'_>, op: &str, operand: String) -> Option<String> {
        let attributes = match op {
            "Sigmoid" | "GlobalAveragePool" => Vec::new(),
            "LeakyRelu" => self.attributes(&["alpha"]),
            "Softmax" => vec![self.softmax_axis(emit.opset())?],
            "AveragePool" => self.attributes(&[OF_POOL, &["count_include_pad"]].concat()),
            _ => return None,
        };
        if !self.is("channels_last")? {
            return Some(emit.with(op, operand, attributes));
        }
        let rank = match self.node.ints("kernel_shape").value() {
            Some(kernel) => kernel.len() + 2,
            None => sizes::rank(self.scope, self.input(0)?)?,
        };
        let operand = channels_second(emit, &operand, rank)?;
        channels_last(emit, emit.with(op, operand, attributes), rank)
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
    fn quantize(&self, emit: &Emit<'_>, value: String, scale: usize, data: &str) -> Option<String> {
        let zero = self.input(scale + 1);
        if zero.is_none() && quantized_type(self.scope, data) != Some(UINT8) {
            emit.refuse("its output has no zero point and is not provably uint8");
        }
        let mut inputs = vec![value, self.input(scale)?.to_owned()];
        inputs.extend(zero.map(str::to_owned));
        self.check_quantized(emit, "QuantizeLinear", &inputs);
        Some(emit.op("QuantizeLinear", inputs))
    }
}

/// Moves the last axis behind the first.
fn channels_second(emit: &Emit<'_>, value: &str, rank: usize) -> Option<String> {
    (rank > 1).then(|| emit.move_axis(value, rank, rank - 1, 1))
}

/// Moves the second axis to the end.
fn channels_last(emit: &Emit<'_>, value: String, rank: usize) -> Option<String> {
    (rank > 1).then(|| emit.move_axis(&value, rank, 1, rank - 1))
}

/// Writes the product of two matrices of integers, times both scales, plus a bias of floats.
fn scaled(
    emit: &Emit<'_>,
    factors: [&str; 2],
    zeros: [Option<&str>; 2],
    scales: [&str; 2],
    bias: Option<&str>,
) -> String {
    let product = emit.cast(whole_product(emit, factors, zeros), FLOAT);
    let scaled = emit.op("Mul", (product, emit.op("Mul", scales)));
    match bias {
        None => scaled,
        Some(bias) => emit.op("Add", (scaled, bias)),
    }
}

/// Writes the product of two matrices of integers, with their zero points.
fn whole_product(emit: &Emit<'_>, factors: [&str; 2], zeros: [Option<&str>; 2]) -> String {
    let zeros = match zeros {
        [None, None] => Vec::new(),
        [Some(one), None] => vec![one],
        [one, Some(other)] => vec![one.unwrap_or_default(), other],
    };
    emit.op("MatMulInteger", (factors, zeros))
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
