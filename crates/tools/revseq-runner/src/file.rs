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
use tempfile::{Builder, NamedTempFile, TempDir, TempPath};

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

/// A file or folder that is not complete: it is removed when this is dropped, or the process is interrupted.
struct Incomplete<T: AsRef<Path>>(T);

impl<T: AsRef<Path>> Incomplete<T> {
    fn new(make: impl FnOnce() -> io::Result<T>) -> Result<Self> {
        let mut all = incomplete();
        let made = make().map_err(bare)?;
        all.insert(made.as_ref().to_owned());
        Ok(Self(made))
    }
}

impl<T: AsRef<Path>> Drop for Incomplete<T> {
    fn drop(&mut self) {
        // What is within removes the file, unless that was renamed.
        incomplete().remove(self.0.as_ref());
    }
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
    file: File,
    /// The file beside the destination; a pipe or a device has no other place.
    beside: Option<Incomplete<NamedTempFile>>,
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
                file: OpenOptions::new().write(true).open(path)?,
                beside: None,
            });
        }
        // Renaming asks only for the folder's permission.
        OpenOptions::new().append(true).open(path)?;
        Self::beside(path.canonicalize()?, Some(metadata.permissions()))
    }

    fn beside(to: PathBuf, permissions: Option<fs::Permissions>) -> Result<Self> {
        let beside = Incomplete::new(|| shared(0o666).tempfile_in(folder(&to)))?;
        let file = beside.0.as_file().try_clone()?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        Ok(Self {
            to,
            file,
            beside: Some(beside),
        })
    }

    /// The path until it is complete.
    pub(crate) fn path(&self) -> &Path {
        self.beside.as_ref().map_or(&self.to, |it| it.0.path())
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Completes the file and moves it to its place.
    ///
    /// # Errors
    /// Not all of it is on the disk, or it cannot be renamed.
    pub(crate) fn complete(self) -> Result<()> {
        let Some(beside) = &self.beside else {
            return Ok(());
        };
        // Some file systems report a full disk only now.
        self.file.sync_all()?;
        let _whole = incomplete();
        Ok(fs::rename(beside.0.path(), &self.to)?)
    }
}

/// A file at its destination, removed on drop unless it is kept.
pub(crate) struct CopiedFile(Incomplete<TempPath>);

impl CopiedFile {
    /// Copies a file to a path that does not exist yet.
    ///
    /// # Errors
    /// One of them cannot be read or written: nothing is left.
    pub(crate) fn copy(from: &Path, to: PathBuf) -> Result<Self> {
        let copied = Self(Incomplete::new(|| TempPath::try_from_path(to))?);
        fs::copy(from, &copied.0.0)?;
        Ok(copied)
    }

    /// Lets it stay.
    pub(crate) fn keep(mut self) {
        self.0.0.disable_cleanup(true);
    }
}

/// A folder that is being written.
pub(crate) struct NewFolder {
    to: PathBuf,
    folder: Incomplete<TempDir>,
    /// The folders around it that were made for it, which are dropped after it.
    _around: MadeFolders,
}

/// Folders, the innermost first, of which those that are empty are removed on drop.
struct MadeFolders(Vec<PathBuf>);

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for made in &self.0 {
            // A folder that is not empty stays.
            let _ = fs::remove_dir(made);
        }
    }
}

impl NewFolder {
    /// Begins a folder, and makes those that it lies in. One that is there stays until
    /// [`complete`](Self::complete).
    ///
    /// # Errors
    /// No folder can be made there.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let missing = folder(path).ancestors().take_while(|it| !it.exists());
        let around = MadeFolders(missing.map(Path::to_owned).collect());
        fs::create_dir_all(folder(path))?;
        Ok(Self {
            to: path.to_owned(),
            folder: Incomplete::new(|| shared(0o777).tempdir_in(folder(path)))?,
            _around: around,
        })
    }

    /// The path until it is complete.
    pub(crate) fn path(&self) -> &Path {
        self.folder.0.path()
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
