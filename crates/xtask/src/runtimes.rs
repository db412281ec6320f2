//! The project's models on runtimes that people rewrite them for, as they are and rewritten. All is
//! installed under the target folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::platforms::need;
use crate::python;
use crate::step::{Command, cargo};

/// Runs the models; `run.py` says what is an error.
pub(crate) fn test() -> Result<(), String> {
    need(&["node", "npm", "chromium"], "nodejs npm chromium")?;
    let scripts = crate::root().join("crates/xtask/runtimes");
    let python = python::environment("runtimes", &scripts.join("requirements.txt"))?;
    let packages = packages(&scripts.join("package.json"))?;
    crate::workspace("build")
        .args(["--profile", "test", "--features", "revseq-runtimes/tract"])
        .args(["--bin", "revseq", "--bin", "on-tract"])
        .run()?;
    // By itself: it would have tract's dependencies compiled with other features.
    cargo(&["build", "--profile", "test", "--package", "revseq-runtimes"])
        .args(["--features", "rten", "--bin", "on-rten"])
        .run()?;
    Command::new(python)
        .arg(scripts.join("run.py"))
        .arg(crate::target().join("debug"))
        .arg(packages)
        .arg(crate::target().join("runtimes"))
        .run()
}

/// A folder with exactly the packages of npm that a file pins.
fn packages(wanted: &Path) -> Result<PathBuf, String> {
    let error = |path: &Path, error| format!("{}: {error}", path.display());
    let folder = crate::target().join("npm");
    let text = fs::read_to_string(wanted).map_err(|it| error(wanted, it))?;
    // Written last, so that an incomplete folder is installed again.
    let stamp = folder.join("installed.json");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == text) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|it| error(&folder, it))?;
    fs::copy(wanted, folder.join("package.json")).map_err(|it| error(wanted, it))?;
    Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund"])
        .args(["--ignore-scripts", "--prefix"])
        .arg(&folder)
        .run()?;
    fs::write(&stamp, text).map_err(|it| error(&stamp, it))?;
    Ok(folder)
}
