//! The ways to run a model, and the lines of code that choose them.

use serde::{Serialize, Serializer};

use crate::cli::Backend;

/// A way to run a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) on: On,
    /// Whether the model is rewritten first.
    pub(super) is_rewritten: bool,
    /// What chooses it in Python, after the model's path.
    python: &'static str,
    /// What chooses it in Rust, after the options.
    rust: &'static str,
}

/// A runtime, and how it is told to run the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// ONNX Runtime with its own kernels.
    Plain,
    /// ONNX Runtime with an option of the provider.
    Provider(&'static str, &'static str),
    Tract,
}

impl On {
    /// Whether a backend has to be there.
    pub(super) fn needs(self, backend: Backend) -> bool {
        match self {
            Self::Plain => backend == Backend::OrtPlain,
            Self::Provider(..) => backend != Backend::Tract,
            Self::Tract => backend == Backend::Tract,
        }
    }
}

/// All ways. One that takes what an earlier one takes is not measured again.
pub(super) static WAYS: [Way; 7] = [
    Way {
        name: "onnxruntime",
        on: On::Plain,
        is_rewritten: false,
        python: "",
        rust: "",
    },
    Way {
        name: "layers=on",
        on: On::Provider("layers", "on"),
        is_rewritten: false,
        python: "layers=True",
        rust: ".with_layers(true)",
    },
    Way {
        name: "loops=layers",
        on: On::Provider("loops", "layers"),
        is_rewritten: false,
        python: "loops=True",
        rust: ".with_loops(Loops::AsLayers)",
    },
    Way {
        name: "loops=steps",
        on: On::Provider("loops", "steps"),
        is_rewritten: false,
        python: "loops=\"steps\"",
        rust: ".with_loops(Loops::AsSteps)",
    },
    Way {
        name: "rewritten",
        on: On::Plain,
        is_rewritten: true,
        python: "rewrite=\"fast\", layers=False",
        rust: ".with_rewriting(true)",
    },
    Way {
        name: "rewritten, loops=steps",
        on: On::Provider("loops", "steps"),
        is_rewritten: true,
        python: "rewrite=\"fast\", loops=\"steps\"",
        rust: ".with_rewriting(true).with_loops(Loops::AsSteps)",
    },
    Way {
        name: "tract",
        on: On::Tract,
        is_rewritten: false,
        python: "",
        rust: "",
    },
];

/// A way that is recommended.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Choice {
    pub(super) way: &'static str,
    /// Its time as a part of that of ONNX Runtime as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    /// The line of code that runs the model so.
    pub(super) code: String,
}

impl Way {
    /// Whether it is ONNX Runtime with the model as it is.
    pub(super) fn is_plain(&self) -> bool {
        self.on == On::Plain && !self.is_rewritten
    }

    /// The line of code that runs a model so, in Python or in Rust.
    pub(super) fn code(&self, model: &str, is_python: bool) -> String {
        let Self { python, rust, .. } = self;
        match (self.on, is_python) {
            (On::Tract, _) => format!("revseq_tract::Session::open({model:?})?"),
            (_, true) => format!("onnxruntime_ep_revseq.create_session({model:?}, {python})"),
            (_, false) => format!("provider.session({model:?}, &Options::new(){rust})?"),
        }
    }
}

/// Writes a way's name.
pub(super) fn name<S: Serializer>(way: &&'static Way, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(way.name)
}
