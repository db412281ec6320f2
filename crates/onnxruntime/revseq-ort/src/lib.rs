//! revseq's execution provider for users of the crate [`ort`].
//!
//! [`Provider::register`] loads the provider's library, and [`Provider::session`] makes a session whose
//! nodes of the provider's operators are with it, or says which are not.
//!
//! ```no_run
//! use revseq_ort::{Loops, Options, Provider};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let environment = ort::init_from("libonnxruntime.so")?.build()?;
//!     let provider = Provider::register(&environment, "librevseq_ep.so")?;
//!     let options = Options::new().with_loops(Loops::AsLayers);
//!     let mut session = provider.session("model.onnx", &options)?;
//!     let x = ort::value::Tensor::from_array(([1, 7, 8], vec![0.5_f32; 56]))?;
//!     let outputs = session.run(ort::inputs!["x" => x])?;
//!     println!("{:?}", outputs[0].try_extract_tensor::<f32>()?);
//!     Ok(())
//! }
//! ```
//!
//! ONNX Runtime has to be of version 1.24 or later, and the library is that which
//! `cargo build --release -p revseq-ep` makes.

mod assignment;
mod error;
mod options;
mod report;
#[cfg(feature = "rewrite")]
mod rewrite;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::SessionBuilder;

pub use assignment::{Assigned, RECORD, assigned, check};
pub use error::Error;
pub use options::{Lengths, Loops, Options};
pub use report::{Left, Report, Taken, report};

/// The provider's name in ONNX Runtime.
pub const NAME: &str = "RevSeqExecutionProvider";

/// The execution provider in an environment.
///
/// Its library stays registered as long as the environment lives; once a session was made, it stays loaded until the
/// process ends.
#[derive(Clone, Debug)]
pub struct Provider {
    environment: Environment,
}

impl Provider {
    /// Registers the provider's library in an environment, unless one is registered. A relative path is one of the
    /// current folder, while `ort::init_from` has the system's loader look for a name alone.
    ///
    /// # Errors
    /// If there is no such file, or ONNX Runtime does not take it, such as one before 1.24.
    pub fn register(environment: &Environment, library: impl AsRef<Path>) -> Result<Self, Error> {
        let provider = Self {
            environment: environment.clone(),
        };
        // Two threads must not find at once that it is not registered.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        if provider.is_registered() {
            return Ok(provider);
        }
        let path = library.as_ref();
        let failed = |problem: String| Error::Register {
            path: path.to_owned(),
            problem,
        };
        if !path.is_file() {
            return Err(failed(String::from("there is no such file")));
        }
        // ONNX Runtime looks for a relative path beside itself.
        let absolute = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
        environment
            .register_ep_library("revseq", absolute)
            .map_err(|error| failed(error.to_string()))?;
        Ok(provider)
    }

    /// Registers the library that lies beside the program's executable, under the
    /// [name](Self::library_name) that `cargo build` gives it.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_beside_executable(environment: &Environment) -> Result<Self, Error> {
        let executable = std::env::current_exe().unwrap_or_default();
        Self::register(environment, executable.with_file_name(Self::library_name()))
    }

    /// The file name of the library on this platform, such as `librevseq_ep.so`.
    #[must_use]
    pub fn library_name() -> PathBuf {
        PathBuf::from(format!("{DLL_PREFIX}revseq_ep{DLL_SUFFIX}"))
    }

    /// Makes a session of a model file, and [checks](check) that the provider has its operators.
    ///
    /// # Errors
    /// If the model cannot be loaded, an option has a value that it cannot have, or nodes of the
    /// provider's operators are with another one.
    pub fn session(&self, model: impl AsRef<Path>, options: &Options) -> Result<Session, Error> {
        let path = model.as_ref();
        let mut builder = self.builder(options)?;
        #[cfg(feature = "rewrite")]
        if options.rewrites {
            let bytes = rewrite::file(path, options.computes_layers())?;
            if let Some(folder) = std::path::absolute(path)
                .ok()
                .as_deref()
                .and_then(Path::parent)
            {
                // Otherwise the data of a model in memory is looked for in the current folder.
                let key = "session.model_external_initializers_file_folder_path";
                builder = builder
                    .with_config_entry(key, folder.to_string_lossy())
                    .map_err(ort::Error::from)?;
            }
            return checked(builder.commit_from_memory(&bytes)?);
        }
        checked(builder.commit_from_file(path)?)
    }

    /// Makes a session of a model in memory, as [`session`](Self::session) does of a file.
    ///
    /// ONNX Runtime looks for external data in the current folder. For another one, add the entry
    /// `session.model_external_initializers_file_folder_path` to a [`builder`](Self::builder), and [`check`] the
    /// session.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub fn session_from_memory(&self, model: &[u8], options: &Options) -> Result<Session, Error> {
        let mut builder = self.builder(options)?;
        #[cfg(feature = "rewrite")]
        if options.rewrites {
            let bytes = rewrite::bytes(model, options.computes_layers())?;
            return checked(builder.commit_from_memory(&bytes)?);
        }
        checked(builder.commit_from_memory(model)?)
    }

    /// A builder of sessions with the provider, for further options of ONNX Runtime's. What it builds
    /// is not checked: pass the session to [`check`].
    ///
    /// # Errors
    /// If ONNX Runtime takes no session options.
    pub fn builder(&self, options: &Options) -> Result<SessionBuilder, Error> {
        let devices = self.environment.devices();
        let devices = devices.filter(|device| device.ep().is_ok_and(|name| name == NAME));
        let mut builder = Session::builder(&self.environment)?
            .with_devices(devices.take(1), Some(&options.entries()))
            .map_err(ort::Error::from)?
            .with_config_entry(RECORD, "1")
            .map_err(ort::Error::from)?;
        if let Some(threads) = options.threads {
            builder = builder
                .with_intra_threads(threads)
                .map_err(ort::Error::from)?;
        }
        Ok(builder)
    }

    fn is_registered(&self) -> bool {
        let mut devices = self.environment.devices();
        devices.any(|device| device.ep().is_ok_and(|name| name == NAME))
    }
}

fn checked(session: Session) -> Result<Session, Error> {
    check(&session)?;
    Ok(session)
}
