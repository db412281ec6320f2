//! ONNX Runtime's library, loaded.

use std::cell::OnceCell;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use ort::environment::Environment;
use ort::logging::LogLevel;

use super::library::{self, Found};
use super::{EP, fenced, image, version};
use crate::chain;
use crate::note::detail;

/// The name under which its library is registered.
const REGISTRATION: &str = "revseq";

/// ONNX Runtime, loaded, with the provider's library once that is registered.
///
/// There can be one in a process.
pub(crate) struct Runtime {
    pub(super) environment: Environment,
    pub(crate) library: Found,
    /// Version number, such as `1.31.1`.
    version: String,
    pub(crate) ep: OnceCell<Found>,
}

impl Runtime {
    /// Loads ONNX Runtime.
    ///
    /// # Errors
    /// It is not there, does not load, or is too old.
    pub(crate) fn load(option: Option<&Path>) -> Result<Self> {
        let library = library::onnxruntime(option)?;
        let loaded = loading(&library.path, || {
            // ONNX Runtime's own lines would go to standard error; its errors come back.
            let silence = Arc::new(|_: LogLevel, _: &str, _: &str, _: &str, _: &str| {});
            let environment = ort::init_from(&library.path)
                .map_err(|error| match error {
                    ort::LoadDynamicError::BadVersion { version_str, .. } => anyhow!(
                        "it is ONNX Runtime {version_str}, and 1.{} or later is needed",
                        ort::MINOR_VERSION
                    ),
                    // The loader's own words are the error's cause.
                    ort::LoadDynamicError::Dlopen { error, .. } => match error.source() {
                        Some(cause) => anyhow!(cause.to_string()),
                        None => error.into(),
                    },
                    error => error.into(),
                })?
                .with_logger(silence)
                .with_telemetry(false)
                .build()?;
            Ok((environment, version::of(&library.path)?))
        });
        let (environment, version) = loaded.map_err(|error| {
            anyhow!(
                "cannot use {} (from {}) as ONNX Runtime: {}; {}",
                library.path.display(),
                library.how,
                chain(&error),
                library::HOW_TO_GET
            )
        })?;
        let runtime = Self {
            environment,
            library,
            version,
            ep: OnceCell::new(),
        };
        let Found { path, how } = &runtime.library;
        detail(format!("{runtime}: {} (from {how})", path.display()));
        Ok(runtime)
    }

    /// Registers the provider's library, unless one is.
    pub(crate) fn register(&self, ep: Found) -> Result<()> {
        if self.ep.get().is_some() {
            return Ok(());
        }
        let register = || -> Result<()> {
            loading(&ep.path, || {
                self.environment
                    .register_ep_library(REGISTRATION, &ep.path)?;
                Ok(())
            })?;
            ensure!(self.has_device()?, "it has no device for {EP}");
            Ok(())
        };
        register().with_context(|| {
            format!(
                "{self} cannot use {} (from {}) as an execution provider",
                ep.path.display(),
                ep.how
            )
        })?;
        detail(format!("{EP}: {} (from {})", ep.path.display(), ep.how));
        self.ep.get_or_init(|| ep);
        Ok(())
    }

    /// The version number, such as `1.31.1`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Whether the provider has a device.
    fn has_device(&self) -> Result<bool> {
        let mut devices = self.environment.devices();
        fenced(|| Ok(devices.any(|device| device.ep().is_ok_and(|ep| ep == EP))))
    }
}

impl std::fmt::Display for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ONNX Runtime {}", self.version())
    }
}

/// Loads a library of this system. A crash of the system's loader is the process' last error.
fn loading<T>(path: &Path, load: impl FnOnce() -> Result<T>) -> Result<T> {
    image::check(path)?;
    #[cfg(unix)]
    super::crash::name_library(path);
    fenced(load)
}
