//! The search for ONNX Runtime and the library of the execution provider.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The file name of the provider's library on this platform.
const EP_LIBRARY: &str = if cfg!(windows) {
    "revseq_ep.dll"
} else if cfg!(target_os = "macos") {
    "librevseq_ep.dylib"
} else {
    "librevseq_ep.so"
};

/// The names of Python, the first also in an environment.
const PYTHONS: &[&str] = if cfg!(windows) {
    &["python.exe"]
} else {
    &["python3", "python"]
};

/// Advice to users without an ONNX Runtime.
pub(super) const HOW_TO_GET: &str =
    "get one with `pip install -U onnxruntime`, or name its shared library with --ort-lib PATH";

/// Prints the folder of an installed Python package, without importing it.
/// Ignores the current folder.
const FIND_PACKAGE: &str = "\
import sys
sys.path = [path for path in sys.path if path]
import importlib.util
spec = importlib.util.find_spec(sys.argv[1])
print(next(iter(spec.submodule_search_locations or []), '') if spec else '')";

/// A library, and how it was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) how: &'static str,
}

impl Found {
    fn in_package(path: PathBuf) -> Self {
        Self {
            path,
            how: "an installed Python package",
        }
    }
}

/// Finds ONNX Runtime: by the option, the environment, or as a Python package.
///
/// # Errors
/// If there is none, or not at the given path.
pub(crate) fn onnxruntime(option: Option<&Path>) -> Result<Found> {
    if let Some(found) = named(option, "--ort-lib", "ORT_DYLIB_PATH")? {
        return Ok(found);
    }
    let in_package = python_package("onnxruntime").and_then(|folder| {
        let files = std::fs::read_dir(folder.join("capi")).ok()?;
        files
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|path| path.file_name().is_some_and(is_onnxruntime))
    });
    in_package.map(Found::in_package).with_context(|| {
        format!(
            "there is no ONNX Runtime: neither --ort-lib nor ORT_DYLIB_PATH names one, and no \
             Python package has one; {HOW_TO_GET}"
        )
    })
}

/// Whether a file has the name of ONNX Runtime's library and not that of a part of it.
fn is_onnxruntime(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name == "onnxruntime.dll"
            || name.starts_with("libonnxruntime.so")
            || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
    })
}

/// Finds the provider's library: by the option, the environment, beside this
/// executable, or as a Python package.
///
/// # Errors
/// If there is none, or not at the given path.
pub(crate) fn ep(option: Option<&Path>) -> Result<Found> {
    if let Some(found) = named(option, "--ep-lib", "REVSEQ_EP_LIBRARY")? {
        return Ok(found);
    }
    // A link to this executable may be elsewhere. On Windows the second form begins with `\\?\`.
    let executable = std::env::current_exe().ok();
    let linked = executable.as_ref().and_then(|it| it.canonicalize().ok());
    let beside = [executable, linked]
        .into_iter()
        .flatten()
        .map(|executable| executable.with_file_name(EP_LIBRARY))
        .find(|path| path.is_file());
    if let Some(path) = beside {
        return Ok(Found {
            path,
            how: "beside revseq",
        });
    }
    let in_package = python_package("onnxruntime_ep_revseq")
        .map(|folder| folder.join(EP_LIBRARY))
        .filter(|path| path.is_file());
    in_package.map(Found::in_package).with_context(|| {
        format!(
            "there is no {EP_LIBRARY}: neither --ep-lib nor REVSEQ_EP_LIBRARY names it, and it is \
             neither beside revseq nor in an installed Python package; install the wheel \
             onnxruntime-ep-revseq (`cargo xtask wheel` makes it), build the library with `cargo \
             build --release -p revseq-ep`, or run ONNX Runtime's own kernels with --backend ort-plain"
        )
    })
}

/// The path that the option, or else the environment variable, names.
fn named(
    option: Option<&Path>,
    flag: &'static str,
    variable: &'static str,
) -> Result<Option<Found>> {
    let (path, how) = match (option, std::env::var_os(variable)) {
        (Some(path), _) => (path.to_owned(), flag),
        (None, Some(path)) if !path.is_empty() => (PathBuf::from(path), variable),
        _ => return Ok(None),
    };
    ensure!(
        path.is_file(),
        "{how} names {}, which is not a file",
        path.display()
    );
    // Both ort and ONNX Runtime would look for a relative path beside themselves.
    let path =
        std::path::absolute(&path).with_context(|| format!("{how} names {}", path.display()))?;
    Ok(Some(Found { path, how }))
}

/// The folder of an installed Python package, asked of the virtual environment's
/// Python or else of the first on the path.
fn python_package(name: &str) -> Option<PathBuf> {
    let pythons = match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) if !environment.is_empty() => {
            let programs = if cfg!(windows) { "Scripts" } else { "bin" };
            let program = format!("python{EXE_SUFFIX}");
            vec![PathBuf::from(environment).join(programs).join(program)]
        }
        // In the environment that this was installed into, active or not.
        _ => std::env::current_exe()
            .into_iter()
            .map(|executable| executable.with_file_name(PYTHONS[0]))
            .chain(PYTHONS.iter().map(PathBuf::from))
            .collect(),
    };
    pythons.into_iter().find_map(|python| {
        let output = Command::new(python)
            .args(["-c", FIND_PACKAGE, name])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let folder = Path::new(text.trim_end_matches(['\r', '\n']));
        folder.is_absolute().then(|| folder.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_onnxruntime_are_not_onnxruntime() {
        for name in [
            "libonnxruntime.so.1.31.1",
            "libonnxruntime.so",
            "libonnxruntime.1.31.1.dylib",
            "onnxruntime.dll",
        ] {
            assert!(is_onnxruntime(OsStr::new(name)), "{name}");
        }
        for name in [
            "libonnxruntime_providers_shared.so",
            "onnxruntime_providers_shared.dll",
            "onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so",
            "libonnxruntime_providers_cuda.dylib",
        ] {
            assert!(!is_onnxruntime(OsStr::new(name)), "{name}");
        }
    }
}
