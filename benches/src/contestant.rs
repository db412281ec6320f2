//! The contestants of a measurement.

use std::fmt;

/// A way to do a regime's work, or to copy its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Contestant {
    /// The C library's copy of the same bytes.
    Memcpy,
    /// A copy of the same bytes with stores that go past the caches.
    StreamingCopy,
    /// This project's kernels on one thread.
    Serial,
    /// This project's kernels on a rayon pool.
    Threads,
    /// This project's kernels on one thread, in place.
    InPlace,
    /// The obvious loop over typed elements, on one thread.
    PlainLoop,
    /// ONNX Runtime's own CPU kernel, on one thread, in a session with its
    /// tensors bound.
    Onnxruntime,
    /// rten's ReverseSequence, on one thread; it allocates its output itself.
    Rten,
}

impl Contestant {
    /// The copies, of which the faster is the floor.
    pub const COPIES: [Self; 2] = [Self::Memcpy, Self::StreamingCopy];

    /// The contestants that do the work, in the order of the table's columns.
    pub const WORKERS: [Self; 6] = [
        Self::Serial,
        Self::Threads,
        Self::InPlace,
        Self::PlainLoop,
        Self::Onnxruntime,
        Self::Rten,
    ];

    /// The name, as in a table's head.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy",
            Self::StreamingCopy => "streaming copy",
            Self::Serial => "serial",
            Self::Threads => "threads",
            Self::InPlace => "in place",
            Self::PlainLoop => "plain loop",
            Self::Onnxruntime => "ORT CPU",
            Self::Rten => "rten",
        }
    }

    /// Whether it is this project's.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Serial | Self::Threads | Self::InPlace)
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
