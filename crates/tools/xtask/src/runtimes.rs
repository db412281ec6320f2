//! The project's models on runtimes that people rewrite them for, as they are and rewritten. All is
//! installed under the target folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::platforms::need;
use crate::step::{Command, cargo};
use crate::{files, python};

/// Runs the models; `run.py` says what is an error.
pub(crate) fn test() -> Result<(), String> {
    need(&["node", "npm", "chromium"], "nodejs npm chromium")?;
    let scripts = crate::root().join("crates/tools/xtask/runtimes");
    let python = python::environment("runtimes", &scripts.join("requirements.txt"))?;
    let packages = packages(&scripts.join("package.json"))?;
    crate::workspace("build")
        .words("--profile test --features revseq-runtimes/tract --bin revseq --bin on-tract")
        .run()?;
    // By itself: it would have tract's dependencies compiled with other features.
    cargo("build --profile test --package revseq-runtimes --features rten --bin on-rten").run()?;
    Command::new(python)
        .arg(scripts.join("run.py"))
        .arg(crate::target().join("debug"))
        .arg(packages)
        .arg(crate::target().join("runtimes"))
        .run()
}

/// A folder with exactly the packages of npm that a file pins.
fn packages(wanted: &Path) -> Result<PathBuf, String> {
    let folder = crate::target().join("npm");
    files::make_once(&folder.join("installed.json"), wanted, || {
        let _ = fs::remove_dir_all(&folder);
        files::create(&folder)?;
        files::copy(wanted, &folder.join("package.json"))?;
        Command::new("npm")
            .words("install --silent --no-audit --no-fund --ignore-scripts --prefix")
            .arg(&folder)
            .run()
    })?;
    Ok(folder)
}
