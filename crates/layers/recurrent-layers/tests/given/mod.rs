//! The attributes of a node in a test.

use std::collections::HashMap;

use recurrent_layers::{Attribute, Attributes};

#[derive(Clone, Debug, Default)]
pub(crate) struct Given(pub(crate) HashMap<&'static str, Attribute<'static>>);

impl Attributes for Given {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        self.0.get(name).copied()
    }
}
