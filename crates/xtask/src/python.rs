//! Python environments under `python` in cargo's target folder, with exactly the packages that a
//! file pins.

use std::fs;
use std::path::{Path, PathBuf};

use crate::step::Command;

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
    let wanted = read(requirements)?;
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    let platforms = platforms.iter().flat_map(|tag| ["--platform", tag]);
    Command::new(INTERPRETER)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args([
            "--upgrade",
            "--no-deps",
            "--only-binary=:all:",
            "--root-user-action=ignore",
        ])
        .args(platforms)
        .args(["--python-version", version, "--target"])
        .arg(folder)
        .arg("-r")
        .arg(requirements)
        .run()?;
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The interpreter of an environment with the packages of `requirements`; creates it, or recreates
/// it if the file has changed.
pub(crate) fn environment(name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let folder = crate::target().join("python").join(name);
    let programs = if cfg!(windows) { "Scripts" } else { "bin" };
    let interpreter = folder.join(programs).join(INTERPRETER);
    let wanted = read(requirements)?;
    // Written last, so that an incomplete environment is recreated.
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(interpreter);
    }
    Command::new(INTERPRETER)
        .args(["-m", "venv", "--clear"])
        .arg(&folder)
        .run()
        .map_err(|error| format!("{error} (it needs Python 3.11 or later with its venv module)"))?;
    Command::new(&interpreter)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ])
        .arg(requirements)
        .run()?;
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(interpreter)
}
