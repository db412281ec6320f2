//! Operators that ONNX Runtime's optimiser fuses.

use super::{Fused, OF_CONVOLUTION};
use crate::emit::Emit;
use crate::model::{self, AttributeProto, FLOAT};
use crate::{sizes, types};

/// ONNX's `alpha` and `gamma` of a Selu.
const SELU: (f32, f32) = (1.673_263_2, 1.050_701);

impl Fused<'_> {
    pub(super) fn gemm(&self, emit: &mut Emit<'_>) -> Option<()> {
        let inputs: Vec<&str> = self.node.inputs().collect();
        let attributes = self.attributes(&["alpha", "beta", "transA", "transB"]);
        let product = emit.op("Gemm", &inputs, attributes);
        let parameter = |name: &str, default| self.float(&format!("activation_{name}"), default);
        let activation = self.node.text("activation").or("")?;
        let parameters = match activation {
            "Elu" | "ThresholdedRelu" => vec![parameter("alpha", 1.0)?],
            "LeakyRelu" => vec![parameter("alpha", 0.01)?],
            "HardSigmoid" => vec![parameter("alpha", 0.2)?, parameter("beta", 0.5)?],
            "Selu" => vec![parameter("alpha", SELU.0)?, parameter("gamma", SELU.1)?],
            _ => Vec::new(),
        };
        self.activate(emit, activation, &parameters, &product)
    }

    pub(super) fn convolution(&self, emit: &mut Emit<'_>) -> Option<()> {
        let (data, weights) = (self.input(0)?, self.input(1)?);
        let inputs: Vec<&str> = [data, weights].into_iter().chain(self.input(2)).collect();
        let attributes = self.attributes(OF_CONVOLUTION);
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
            "Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh" => (activation, Vec::new()),
            "Elu" | "LeakyRelu" | "ThresholdedRelu" => (activation, named(&["alpha"])?),
            "Selu" => ("Selu", named(&["alpha", "gamma"])?),
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

    /// Writes a scaled product of matrices. Each may be transposed, after its first axis, which is
    /// that of its rows, was moved behind those of the batch.
    pub(super) fn product(&self, emit: &mut Emit<'_>) -> Option<()> {
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
            *factor = emit.op("Transpose", &[factor], vec![model::ints("perm", &perm)]);
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
    pub(super) fn gelu(&self, emit: &mut Emit<'_>) -> Option<()> {
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
}
