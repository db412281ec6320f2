//! Values that a template hands to the parsers of a model's nodes.
//!
//! tract's parsers are plain functions without room for values. Each sees the template of the model that it
//! makes, with its properties, which are tensors: one of a storage of its own holds any value.

use std::fmt;
use std::hash::Hasher;

use tract_onnx::model::ParsingContext;
use tract_onnx::tract_hir::internal::*;

/// A value in the place of a tensor's elements. Clones share it, and are equal to no other.
#[derive(Debug)]
struct Handed<T>(Arc<T>);

impl<T> PartialEq for Handed<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Handed<T> {}

impl<T> fmt::Display for Handed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value for parsers")
    }
}

impl<T: fmt::Debug + Send + Sync + 'static> TensorStorage for Handed<T> {
    fn byte_len(&self) -> usize {
        0
    }

    fn is_empty(&self) -> bool {
        true
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        Box::new(Self(Arc::clone(&self.0)))
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        None
    }

    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        None
    }

    fn into_plain_ram(self: Box<Self>) -> Option<PlainStorage> {
        None
    }

    fn dyn_hash(&self, state: &mut dyn Hasher) {
        state.write_usize(Arc::as_ptr(&self.0).addr());
    }

    fn exotic_fact(&self, _shape: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        Ok(None)
    }
}

/// Hands a value to the parsers of the nodes of a model, and of the graphs in it, that is made of this template.
pub fn hand<T>(template: &mut InferenceModel, key: &str, value: T)
where
    T: fmt::Debug + Send + Sync + 'static,
{
    let value = Tensor::from_storage(bool::datum_type(), &[0], Handed(Arc::new(value)));
    template
        .properties
        .insert(key.to_owned(), value.into_arc_tensor());
}

/// The value of this key and type that a template hands on.
#[must_use]
pub fn handed<'a, T>(context: &'a ParsingContext<'_>, key: &str) -> Option<&'a T>
where
    T: fmt::Debug + Send + Sync + 'static,
{
    let value = context.template.properties.get(key)?;
    Some(&value.storage_as::<Handed<T>>()?.0)
}
