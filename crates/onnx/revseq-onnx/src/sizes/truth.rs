//! Conditions that are the same in every run: computed from ranks, declared sizes and constants.
//!
//! Where a result depends on anything else, as a number that overflows depends on the runtime, nothing
//! is known. Of floats, whole numbers are followed.

use crate::model::BOOL;
use crate::scope::Scope;
use crate::{sizes, types};

/// The truth value of a condition, if it is the same in every run.
#[must_use]
pub fn truth(scope: &Scope<'_>, name: &str) -> Option<bool> {
    let truth = sizes::scalar(scope, name)?.number()?;
    (types::of(scope, name) == Some(BOOL)).then_some(truth != 0)
}
