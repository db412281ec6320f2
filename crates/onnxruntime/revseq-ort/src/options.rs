//! The provider's options.

use super::NAME;

/// What becomes of lengths beyond their axis, or below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The run fails.
    Reject,
    /// They count as the nearest length that is possible.
    Clamp,
}

/// What becomes of loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loops {
    /// They stay loops.
    #[default]
    Keep,
    /// The provider computes the layers that they are. Their values are equal up to rounding.
    AsLayers,
    /// The same, where the valid steps of every mask come first.
    AsLayersIfRightPadded,
    /// As [`AsLayers`](Self::AsLayers), and loops that are no layers run as programs that are planned once
    /// for the sizes of a run.
    AsSteps,
}

/// Options of a session with the provider. By default it runs reversals alone.
#[derive(Clone, Debug, Default)]
pub struct Options {
    lengths: Option<Lengths>,
    layers: Option<bool>,
    loops: Loops,
    pub(crate) threads: Option<usize>,
    #[cfg(feature = "rewrite")]
    pub(crate) rewrites: bool,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what becomes of lengths out of range. By default ReverseSequence rejects them, and
    /// ReverseSubsequences clamps them.
    #[must_use]
    pub fn with_lengths(mut self, lengths: Lengths) -> Self {
        self.lengths = Some(lengths);
        self
    }

    /// Sets whether the provider computes the model's LSTM, GRU and RNN. Values are equal to ONNX
    /// Runtime's up to rounding. By default it does where loops become layers.
    #[must_use]
    pub fn with_layers(self, layers: bool) -> Self {
        let layers = Some(layers);
        Self { layers, ..self }
    }

    /// Sets what becomes of loops; [`report`](crate::report) tells of each.
    #[must_use]
    pub fn with_loops(self, loops: Loops) -> Self {
        Self { loops, ..self }
    }

    /// Sets the number of threads of the session, of which the provider's kernels take part.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets whether the model is rewritten in memory before ONNX Runtime sees it: loops become layers by
    /// ONNX's operators. Unlike [`Loops::AsLayers`], saved models keep them. The crate `log` has a line
    /// for each loop: at `info` what it became, at `warn` why it stays.
    #[cfg(feature = "rewrite")]
    #[must_use]
    pub fn with_rewriting(self, rewrites: bool) -> Self {
        Self { rewrites, ..self }
    }

    /// Whether the provider computes the model's layers.
    #[cfg(feature = "rewrite")]
    pub(crate) fn computes_layers(&self) -> bool {
        self.layers.unwrap_or(self.loops != Loops::Keep)
    }

    /// The options as ONNX Runtime takes them.
    pub(crate) fn entries(&self) -> Vec<(String, String)> {
        let mut entries = Vec::new();
        let mut add = |key: &str, value: &str| {
            entries.push((format!("{NAME}.{key}"), value.to_owned()));
        };
        match self.lengths {
            None => {}
            Some(Lengths::Reject) => add("lengths", "reject"),
            Some(Lengths::Clamp) => add("lengths", "clamp"),
        }
        match self.layers {
            None => {}
            Some(true) => add("layers", "on"),
            Some(false) => add("layers", "off"),
        }
        match self.loops {
            Loops::Keep => {}
            Loops::AsLayers | Loops::AsLayersIfRightPadded => add("loops", "layers"),
            Loops::AsSteps => add("loops", "steps"),
        }
        if self.loops == Loops::AsLayersIfRightPadded {
            add("assume", "right-padded");
        }
        entries
    }
}
