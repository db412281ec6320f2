//! The names of a model's nodes, counted, so that a free one is found without a look at each.

use tract_onnx::tract_hir::internal::*;

/// The names of a model's nodes.
pub(crate) struct Names {
    /// Number of nodes of each name.
    counts: HashMap<String, usize>,
    /// The last number that was appended to each.
    numbers: HashMap<String, usize>,
}

impl Names {
    pub(crate) fn of<'n>(all: impl Iterator<Item = &'n str>) -> Self {
        let mut names = Self {
            counts: HashMap::new(),
            numbers: HashMap::new(),
        };
        all.for_each(|name| names.add(name));
        names
    }

    pub(crate) fn add(&mut self, name: &str) {
        match self.counts.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(name.to_owned(), 1);
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count -= 1;
        }
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// A name that no node has.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let number = self.numbers.entry(name.to_owned()).or_default();
        while self.counts.get(&unique).is_some_and(|count| *count > 0) {
            *number += 1;
            unique = format!("{name}.{number}");
        }
        unique
    }
}
