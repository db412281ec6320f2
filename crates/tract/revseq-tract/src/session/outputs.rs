//! The outputs of a run.

use std::ops::Index;

use revseq_graph::ElementType;
use tract_onnx::prelude::tract_ndarray::ArrayViewD;
use tract_onnx::prelude::*;

use super::values::{element_type, type_and_shape};
use crate::error::{Error, ErrorKind};

/// The outputs of a run, by name and in the model's order.
#[derive(Clone, Debug)]
pub struct Outputs(pub(super) Vec<(String, TValue)>);

impl Outputs {
    /// Returns the output of a name; `None` if the model has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        let output = self.0.iter().find(|(it, _)| it == name)?;
        Some(&output.1)
    }

    /// Returns the elements of an output as an array of ndarray's.
    ///
    /// # Errors
    /// The model has no output of the name, or it has elements of another type.
    pub fn view<T: Datum>(&self, name: &str) -> Result<ArrayViewD<'_, T>, Error> {
        let value = self.get(name).ok_or_else(|| self.no_such(name))?;
        value.to_plain_array_view().map_err(|_| {
            let elements = element_type(T::datum_type()).map_or("?", ElementType::name);
            let elements_of_output = type_and_shape(value);
            Error::new(
                ErrorKind::Output,
                format!("output {name:?} is {elements_of_output}, read as {elements}"),
            )
        })
    }

    /// Returns a copy of the elements of an output, the last axis first.
    ///
    /// # Errors
    /// As those of [`view`](Self::view).
    pub fn to_vec<T: Datum>(&self, name: &str) -> Result<Vec<T>, Error> {
        Ok(self.view(name)?.iter().cloned().collect())
    }

    /// Takes the output of a name out; `None` if the model has none, or it was taken.
    pub fn take(&mut self, name: &str) -> Option<Tensor> {
        let index = self.0.iter().position(|(it, _)| it == name)?;
        Some(self.0.remove(index).1.into_tensor())
    }

    fn no_such(&self, name: &str) -> Error {
        let names: Vec<&str> = self.iter().map(|(name, _)| name).collect();
        Error::new(
            ErrorKind::Output,
            format!("the model has no output {name:?}, expected {names:?}"),
        )
    }

    /// The outputs with their names, in the model's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// The number of outputs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the model has no outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The output of a name.
///
/// # Panics
/// The model has no output of the name.
impl Index<&str> for Outputs {
    type Output = Tensor;

    fn index(&self, name: &str) -> &Tensor {
        self.get(name)
            .unwrap_or_else(|| panic!("{}", self.no_such(name)))
    }
}

/// The output at a place in the model's order.
///
/// # Panics
/// The model has fewer outputs.
impl Index<usize> for Outputs {
    type Output = Tensor;

    fn index(&self, index: usize) -> &Tensor {
        &self.0[index].1
    }
}

impl IntoIterator for Outputs {
    type Item = (String, TValue);
    type IntoIter = std::vec::IntoIter<(String, TValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
