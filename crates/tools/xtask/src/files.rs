//! Files and folders, with errors that name them.

use std::fs;
use std::path::{Path, PathBuf};

/// The error of a path.
fn named(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(named(path))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(named(path))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(named(from))
}

/// Makes a folder and those around it.
pub(crate) fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(named(folder))
}

/// The files and folders in a folder.
pub(crate) fn list(folder: &Path) -> Result<impl Iterator<Item = PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(named(folder))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()))
}

/// The only file in a folder whose name is as it should be.
pub(crate) fn only(folder: &Path, is_named: impl Fn(&str) -> bool) -> Result<PathBuf, String> {
    let mut found = list(folder)?.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(&is_named)
    });
    match (found.next(), found.next()) {
        (Some(file), None) => Ok(file),
        (None, _) => Err(format!("{}: it has not the file", folder.display())),
        (Some(one), Some(other)) => Err(format!(
            "{}: expected one file, and there are {} and {}",
            folder.display(),
            one.display(),
            other.display()
        )),
    }
}

/// Makes something of a file, unless it was made of the same text, which `stamp` holds. That is written last,
/// so that what is incomplete is made again.
pub(crate) fn make_once(
    stamp: &Path,
    of: &Path,
    make: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let wanted = read(of)?;
    if read(stamp).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    make()?;
    write(stamp, &wanted)
}
