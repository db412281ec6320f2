//! The outputs of a run.

use std::ops::Index;

use tract_onnx::prelude::*;

/// The outputs of a run, by name and in the model's order.
#[derive(Clone, Debug)]
pub struct Outputs(pub(super) Vec<(String, TValue)>);

impl Outputs {
    /// Returns the output of a name; `None` if the model has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        let found = self.0.iter().find(|(it, _)| it == name)?;
        Some(&found.1)
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
        self.get(name).unwrap_or_else(|| {
            let names: Vec<&str> = self.iter().map(|(name, _)| name).collect();
            panic!("the model has no output {name:?}, only {names:?}")
        })
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
