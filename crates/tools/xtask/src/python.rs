//! Python environments under `python` in cargo's target folder, with exactly the packages that a
//! file pins.

use std::path::{Path, PathBuf};

use crate::files::make_once;
use crate::step::Command;

/// The arguments of Python that install packages.
const INSTALL: &str = "-m pip install --quiet --disable-pip-version-check";

/// The machine's own interpreter.
pub(crate) const INTERPRETER: &str = if cfg!(windows) { "python" } else { "python3" };

/// Installs the packages of `requirements` for other platforms than this
/// machine's, of the tags `platforms`, and another Python, into a folder.
pub(crate) fn install_for(
    platforms: &[&str],
    version: &str,
    requirements: &Path,
    folder: &Path,
) -> Result<(), String> {
    make_once(&folder.join("requirements.txt"), requirements, || {
        Command::new(INTERPRETER)
            .words(INSTALL)
            .words("--upgrade --no-deps --only-binary=:all: --root-user-action=ignore")
            .args(platforms.iter().flat_map(|tag| ["--platform", tag]))
            .args(["--python-version", version, "--target"])
            .arg(folder)
            .arg("-r")
            .arg(requirements)
            .run()
    })
}

/// The interpreter of an environment with the packages of `requirements`; creates it, or recreates
/// it if the file has changed.
pub(crate) fn environment(name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let folder = crate::target().join("python").join(name);
    let programs = if cfg!(windows) { "Scripts" } else { "bin" };
    let interpreter = folder.join(programs).join(INTERPRETER);
    let make = || {
        let environment = Command::new(INTERPRETER).words("-m venv --clear");
        environment.arg(&folder).run().map_err(|error| {
            format!("{error} (it needs Python 3.11 or later with its venv module)")
        })?;
        let install = Command::new(&interpreter).words(INSTALL);
        install.arg("-r").arg(requirements).run()
    };
    make_once(&folder.join("requirements.txt"), requirements, make)?;
    Ok(interpreter)
}
