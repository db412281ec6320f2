//! Writing files and folders: whole, or not at all.
//!
//! Data is written beside its destination and renamed when it is complete. A full disk, an error
//! or Ctrl-C leaves the previous file, and nothing else.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use tempfile::{Builder, NamedTempFile, TempDir};

/// The files and folders that are not complete yet.
static INCOMPLETE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn incomplete() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    INCOMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes incomplete files, and lets none be completed while the returned value lives.
pub(crate) fn abandon_all() -> impl Drop {
    let all = incomplete();
    for path in all.iter() {
        // Nobody could handle an error, so ignore it.
        let _ = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
    }
    all
}

/// Whether a path means standard input or standard output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses to write over a file without `overwrite`. A pipe or a device is no file.
///
/// # Errors
/// There is a folder, or a file and no `overwrite`.
pub(crate) fn refuse_existing(flag: &str, path: &Path, overwrite: bool) -> Result<()> {
    let Ok(present) = fs::metadata(path) else {
        return Ok(());
    };
    ensure!(
        !present.is_dir(),
        "{flag} {}: it is a folder, expected a file name",
        path.display()
    );
    ensure!(
        overwrite || !present.is_file(),
        "{flag} {}: the file exists; --overwrite replaces it",
        path.display()
    );
    Ok(())
}

/// Writes a file.
///
/// # Errors
/// If it cannot be written. The previous file is then unchanged.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> Result<()> {
        let mut file = NewFile::create(path)?;
        file.write_all(bytes)?;
        file.complete()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A file that is being written.
pub(crate) struct NewFile {
    to: PathBuf,
    written: Written,
}

enum Written {
    /// A file beside the destination, removed on drop.
    Beside(NamedTempFile),
    /// A pipe or a device, which has no other place.
    Direct(File),
}

impl NewFile {
    /// Begins a file. One that is there stays until [`complete`](Self::complete); a link to one
    /// stays a link.
    ///
    /// # Errors
    /// No file can be made there, or the one that is there may not be written.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let present = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let Some(metadata) = present else {
            return Self::beside(path.to_owned(), None);
        };
        ensure!(!metadata.is_dir(), "it is a folder, expected a file name");
        if !metadata.is_file() {
            return Ok(Self {
                to: path.to_owned(),
                written: Written::Direct(OpenOptions::new().write(true).open(path)?),
            });
        }
        // Renaming asks only for the folder's permission.
        OpenOptions::new().append(true).open(path)?;
        Self::beside(path.canonicalize()?, Some(metadata.permissions()))
    }

    fn beside(to: PathBuf, permissions: Option<fs::Permissions>) -> Result<Self> {
        let mut all = incomplete();
        let file = shared(0o666).tempfile_in(folder(&to)).map_err(bare)?;
        all.insert(file.path().to_owned());
        drop(all);
        let new = Self {
            to,
            written: Written::Beside(file),
        };
        if let (Some(permissions), Written::Beside(file)) = (permissions, &new.written) {
            file.as_file().set_permissions(permissions)?;
        }
        Ok(new)
    }

    /// The path until it is complete.
    pub(crate) fn path(&self) -> &Path {
        match &self.written {
            Written::Beside(file) => file.path(),
            Written::Direct(_) => &self.to,
        }
    }

    /// Completes the file and moves it to its place.
    ///
    /// # Errors
    /// Not all of it is on the disk, or it cannot be renamed.
    pub(crate) fn complete(mut self) -> Result<()> {
        self.flush()?;
        let Written::Beside(file) = &self.written else {
            return Ok(());
        };
        // Some file systems report a full disk only now.
        file.as_file().sync_all()?;
        let _whole = incomplete();
        fs::rename(file.path(), &self.to)?;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.written {
            Written::Beside(file) => file.as_file_mut().write(bytes),
            Written::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.written {
            Written::Beside(file) => file.as_file_mut().flush(),
            Written::Direct(file) => file.flush(),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Written::Beside(file) = &self.written {
            // Dropping the value removes the file, unless it was renamed.
            incomplete().remove(file.path());
        }
    }
}

/// A file at its destination, removed on drop unless it is kept.
pub(crate) struct CopiedFile {
    path: PathBuf,
    is_kept: bool,
}

impl CopiedFile {
    /// Copies a file to a path that does not exist yet.
    ///
    /// # Errors
    /// One of them cannot be read or written: nothing is left.
    pub(crate) fn copy(from: &Path, to: PathBuf) -> Result<Self> {
        incomplete().insert(to.clone());
        let copied = Self {
            path: to,
            is_kept: false,
        };
        fs::copy(from, &copied.path)?;
        Ok(copied)
    }

    /// Lets it stay.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for CopiedFile {
    fn drop(&mut self) {
        let mut all = incomplete();
        all.remove(&self.path);
        if !self.is_kept {
            // Nobody could handle an error, so ignore it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A folder that is being written.
pub(crate) struct NewFolder {
    to: PathBuf,
    /// The folder in the meantime; `None` while it is dropped.
    folder: Option<TempDir>,
    /// The folders around it that were made for it, the innermost first.
    made: Vec<PathBuf>,
}

impl NewFolder {
    /// Begins a folder, and makes those that it lies in. One that is there stays until
    /// [`complete`](Self::complete).
    ///
    /// # Errors
    /// No folder can be made there.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let missing = folder(path).ancestors().take_while(|it| !it.exists());
        let mut new = Self {
            to: path.to_owned(),
            folder: None,
            made: missing.map(Path::to_owned).collect(),
        };
        fs::create_dir_all(folder(path))?;
        let mut all = incomplete();
        let folder = shared(0o777).tempdir_in(folder(path)).map_err(bare)?;
        all.insert(folder.path().to_owned());
        new.folder = Some(folder);
        drop(all);
        Ok(new)
    }

    /// The path until it is complete.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_ref().map_or(&self.to, TempDir::path)
    }

    /// Moves it to its destination, replacing the previous contents.
    ///
    /// # Errors
    /// If it cannot be renamed. The previous contents are then unchanged.
    pub(crate) fn complete(self) -> Result<()> {
        let _whole = incomplete();
        let new = self.path();
        if !self.to.exists() {
            return Ok(fs::rename(new, &self.to)?);
        }
        let old = builder().tempdir_in(folder(&self.to)).map_err(bare)?;
        let aside = old.path().join("before");
        fs::rename(&self.to, &aside)?;
        if let Err(error) = fs::rename(new, &self.to) {
            if fs::rename(&aside, &self.to).is_err() {
                let _ = old.keep();
                bail!("the previous contents are in {}: {error}", aside.display());
            }
            return Err(error.into());
        }
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            incomplete().remove(folder.path());
        }
        for made in &self.made {
            // A folder that is not empty stays.
            let _ = fs::remove_dir(made);
        }
    }
}

/// The error without the path of an incomplete file, which means nothing to a user.
fn bare(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((before, _)) => io::Error::new(error.kind(), before.to_owned()),
        None => error,
    }
}

/// Incomplete files have names of hidden files.
fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".revseq-").suffix(".partial");
    builder
}

/// The same, with the permissions that the process's mask leaves of `mode`.
#[cfg(unix)]
fn shared(mode: u32) -> Builder<'static, 'static> {
    let mut builder = builder();
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    builder
}

/// The same: only Unix has a mask.
#[cfg(not(unix))]
fn shared(_: u32) -> Builder<'static, 'static> {
    builder()
}

/// The folder of a path.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"before").unwrap();
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read(file.path()).unwrap(), b"after");
        drop(file);
        assert_eq!(names(folder.path()), ["file"]);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        write(&path, b"after").unwrap();
        assert_eq!(names(folder.path()), ["file"]);
        assert_eq!(fs::read(&path).unwrap(), b"after");
    }

    #[test]
    fn a_folder_is_replaced_once_it_is_complete() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("new/folder");
        for content in ["one", "two"] {
            let before = path.exists().then(|| names(&path));
            let folder = NewFolder::create(&path).unwrap();
            fs::write(folder.path().join(content), "").unwrap();
            drop(folder);
            assert_eq!(path.exists().then(|| names(&path)), before);
            let folder = NewFolder::create(&path).unwrap();
            fs::write(folder.path().join(content), "").unwrap();
            folder.complete().unwrap();
            assert_eq!(names(&path), [content]);
            assert_eq!(names(path.parent().unwrap()), ["folder"]);
        }
    }

    #[test]
    fn an_error_does_not_name_an_incomplete_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&folder.path().join("none/file"), b"").unwrap_err();
        let error = format!("{error:#}");
        assert!(
            !error.contains(".partial") && !error.contains("at path"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_are_preserved() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&path, b"before").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // The permissions of an ordinary file.
        fs::write(folder.path().join("plain"), "").unwrap();
        assert_eq!(mode(&path), mode(&folder.path().join("plain")));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        write(&link, b"after").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(mode(&path), 0o640);
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        #[cfg(target_os = "linux")]
        assert_eq!(
            write(Path::new("/dev/full"), b"full")
                .unwrap_err()
                .to_string(),
            "cannot write /dev/full"
        );
    }
}
