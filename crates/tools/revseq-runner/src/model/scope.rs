//! What is known of the values of a graph, and of those around it.

use std::collections::HashMap;

pub(super) struct Scope<'a, 's, T> {
    pub(super) values: HashMap<&'a str, T>,
    pub(super) outer: Option<&'s Scope<'a, 's, T>>,
}

impl<T: Clone + Default> Scope<'_, '_, T> {
    /// What is known of a value; the default of an input that is left out.
    pub(super) fn get(&self, name: &str) -> T {
        let mut scope = Some(self);
        while let Some(Scope { values, outer }) = scope {
            if let Some(found) = values.get(name) {
                return found.clone();
            }
            scope = *outer;
        }
        T::default()
    }
}
