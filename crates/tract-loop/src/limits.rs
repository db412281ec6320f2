//! Limits of loops.

/// Limits of one run of a loop, including its inner loops. Without limits, a loop may run forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of steps, including those of inner loops.
    pub steps: Option<u64>,
    /// The maximum number of bytes of all live states and scan outputs, and of any other value in a
    /// step, as far as its size is known in advance.
    pub bytes: Option<u64>,
}

impl Limits {
    /// No limits.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            steps: None,
            bytes: None,
        }
    }

    /// Sets the maximum number of steps.
    #[must_use]
    pub const fn with_steps(self, steps: u64) -> Self {
        Self {
            steps: Some(steps),
            ..self
        }
    }

    /// Sets the maximum number of bytes of live values.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }
}

/// The limits of the nodes being parsed.
pub(crate) use crate::load::limits_of_nodes_read as of_nodes_read;
