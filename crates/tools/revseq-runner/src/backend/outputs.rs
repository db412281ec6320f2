//! The outputs that a model declares, and the check of those that a runtime returns.

use anyhow::{Result, ensure};

use crate::model::Model;
use crate::model::values::ValueType;
use crate::tensor::Tensor;

/// An output's name and type, as far as the model declares it.
#[derive(Clone)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) value_type: ValueType,
}

/// The outputs that a model declares, in order.
pub(super) fn declared(model: &Model) -> Vec<Declared> {
    let outputs = model.graph().output.iter();
    outputs
        .map(|output| Declared {
            name: output.name().to_owned(),
            value_type: ValueType::declared(output),
        })
        .collect()
}

impl Declared {
    /// The output that a runtime returned.
    ///
    /// # Errors
    /// It has another type than the model declares.
    pub(super) fn check(&self, output: Tensor, runtime: &str) -> Result<Tensor> {
        let code = output.element_type().onnx_code();
        let Self { name, value_type } = self;
        ensure!(
            value_type
                .element_type
                .is_none_or(|declared| declared == code),
            "output {name:?} is {} in {runtime}, but the model declares {value_type}",
            output.type_and_shape()
        );
        Ok(output)
    }
}
