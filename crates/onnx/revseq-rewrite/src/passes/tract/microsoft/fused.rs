//! Operators that ONNX Runtime's optimiser fuses.

use super::{Fused, OF_CONVOLUTION};
use crate::emit::{CAST_LIKE, Emit};
use crate::model::{self, FLOAT};
use crate::{sizes, types};

/// The first opset in which Clip takes its bounds as inputs.
const CLIP_BY_INPUTS: i64 = 11;

/// ONNX's `alpha` and `gamma` of a Selu.
const SELU: (f32, f32) = (1.673_263_2, 1.050_701);

impl Fused<'_> {
    pub(super) fn gemm(&self, emit: &Emit<'_>) -> Option<String> {
        let inputs: Vec<&str> = self.node.inputs().collect();
        let attributes = self.attributes(&["alpha", "beta", "transA", "transB"]);
        let product = emit.with("Gemm", inputs, attributes);
        let activation = self.node.text("activation").or("")?;
        let parameters = parameters_of(activation)?.iter();
        let parameters = parameters
            .map(|(name, default)| self.float(&format!("activation_{name}"), (*default)?));
        let parameters: Vec<f32> = parameters.collect::<Option<_>>()?;
        activated(emit, activation, &parameters, product)
    }

    pub(super) fn convolution(&self, emit: &Emit<'_>) -> Option<String> {
        let mut inputs = vec![self.input(0)?, self.input(1)?];
        inputs.extend(self.input(2));
        let mut value = emit.with("Conv", inputs, self.attributes(OF_CONVOLUTION));
        if let Some(addend) = self.input(3) {
            value = emit.op("Add", (value, addend));
        }
        let activation = self.node.text("activation").or("")?;
        let parameters = self.node.floats("activation_params").or(&[])?;
        activated(emit, activation, parameters, value)
    }

    /// Writes a scaled product of matrices. Each may be transposed, after its first axis, which is
    /// that of its rows, was moved behind those of the batch.
    pub(super) fn product(&self, emit: &Emit<'_>) -> Option<String> {
        let mut factors = [self.input(0)?.to_owned(), self.input(1)?.to_owned()];
        for (factor, name) in factors.iter_mut().zip(["A", "B"]) {
            let is_transposed = self.is(&format!("trans{name}"))?;
            let has_rows_first = self.is(&format!("transBatch{name}"))?;
            if !is_transposed && !has_rows_first {
                continue;
            }
            // Attention reads what a loop writes.
            self.scope.prove_more();
            let rank = sizes::rank(self.scope, factor)?;
            let mut perm: Vec<i64> = (0..rank as i64).collect();
            if rank < 2 {
                // A vector needs no transposition.
                continue;
            }
            if has_rows_first {
                perm[..rank - 1].rotate_left(1);
            }
            if is_transposed {
                perm.swap(rank - 2, rank - 1);
            }
            *factor = emit.transpose(factor, &perm);
        }
        let product = emit.op("MatMul", &factors[..]);
        Some(match self.float("alpha", 1.0)? {
            1.0 => product,
            alpha => emit.op("Mul", (&product, self.number(emit, alpha, &product))),
        })
    }

    /// A constant with the type of a value.
    fn number(&self, emit: &Emit<'_>, number: f32, value: &str) -> String {
        let (number, version) = (emit.tensor(model::float_scalar(number)), emit.opset());
        if version >= CAST_LIKE {
            return emit.op("CastLike", (number, value));
        }
        if types::of(self.scope, value).is_some_and(|code| code != FLOAT) {
            emit.refuse(format!(
                "version {version} of ONNX's operators has no CastLike"
            ));
        }
        number
    }

    /// Writes `x / 2 * (1 + erf(x / sqrt(2)))`.
    pub(super) fn gelu(&self, emit: &Emit<'_>) -> Option<String> {
        let data = self.input(0)?;
        let [root, one, half] =
            [std::f32::consts::SQRT_2, 1.0, 0.5].map(|it| self.number(emit, it, data));
        let erf = emit.op("Erf", emit.op("Div", (data, root)));
        let product = emit.op("Mul", (data, emit.op("Add", (erf, one))));
        Some(emit.op("Mul", (product, half)))
    }
}

/// The parameters of an activation, with their defaults in a FusedGemm; `None` for others than these.
fn parameters_of(activation: &str) -> Option<&'static [(&'static str, Option<f32>)]> {
    Some(match activation {
        "" | "Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh" => &[],
        "Elu" | "ThresholdedRelu" => &[("alpha", Some(1.0))],
        "LeakyRelu" => &[("alpha", Some(0.01))],
        "HardSigmoid" => &[("alpha", Some(0.2)), ("beta", Some(0.5))],
        "Selu" => &[("alpha", Some(SELU.0)), ("gamma", Some(SELU.1))],
        "Clip" => &[("min", None), ("max", None)],
        _ => return None,
    })
}

/// Writes the final activation.
fn activated(
    emit: &Emit<'_>,
    activation: &str,
    parameters: &[f32],
    value: String,
) -> Option<String> {
    let names = parameters_of(activation)?;
    if activation.is_empty() {
        return Some(value);
    }
    // Others are not read.
    if !names.is_empty() && names.len() != parameters.len() {
        return None;
    }
    if activation == "Clip" && emit.opset() >= CLIP_BY_INPUTS {
        let bounds = parameters
            .iter()
            .map(|&it| emit.tensor(model::float_scalar(it)));
        return Some(emit.op("Clip", (value, bounds.collect::<Vec<_>>())));
    }
    let named = std::iter::zip(names, parameters);
    let named = named.map(|((name, _), &value)| model::float(name, value));
    Some(emit.with(activation, value, named.collect::<Vec<_>>()))
}
