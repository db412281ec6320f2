//! Writing a model beside its data, or not at all.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tempfile::NamedTempFile;

use crate::file::{self, CopiedFile, NewFile};
use crate::model::Model;
use revseq_onnx::external::check_location;

/// Refuses to write over a file, above all the model itself, without `--overwrite`.
pub(super) fn refuse(model: &Path, output: &Path, overwrite: bool) -> Result<()> {
    if is_standard_output(output) {
        return Ok(());
    }
    ensure!(
        output.file_name().is_some(),
        "--output {}: it is a folder, expected a file name",
        output.display()
    );
    let is_model = match (model.canonicalize(), output.canonicalize()) {
        (Ok(model), Ok(output)) => model == output,
        _ => false,
    };
    ensure!(
        overwrite || !is_model,
        "--output {}: it is the model itself; --overwrite replaces it",
        output.display()
    );
    file::refuse_existing("--output", output, overwrite)?;
    // It is read again before it is in its place.
    ensure!(
        fs::metadata(output).is_ok_and(|present| present.is_file()) || !output.exists(),
        "--output {}: it is not a regular file",
        output.display()
    );
    Ok(())
}

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Whether a path means standard output.
pub(super) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

/// A model that is written, but not yet in its place.
pub(super) struct Partial {
    file: Written,
    /// Its data in other files, as far as it is not there already.
    data: Vec<CopiedFile>,
}

enum Written {
    File(NewFile),
    /// A temporary file, for standard output.
    Temporary(NamedTempFile),
}

impl Written {
    fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Temporary(file) => file.path(),
        }
    }
}

impl Partial {
    /// Writes a model beside where it is to be, with the data that it has in
    /// other files.
    pub(super) fn write(
        model: &Path,
        output: &Path,
        rewritten: revseq_onnx::ModelProto,
    ) -> Result<Self> {
        let bytes = revseq_onnx::encode(&rewritten)?;
        let files = revseq_onnx::external_files(&rewritten);
        drop(rewritten);
        if is_standard_output(output) {
            if let Some(location) = files.first() {
                bail!(
                    "--output -: the model has data in {location:?}, so it needs a file beside it"
                );
            }
            let mut file = NamedTempFile::new()?;
            file.write_all(&bytes)?;
            return Ok(Self {
                file: Written::Temporary(file),
                data: Vec::new(),
            });
        }
        let write = || -> Result<NewFile> {
            let mut file = NewFile::create(output)?;
            file.write_all(&bytes)?;
            Ok(file)
        };
        let file = write().with_context(|| format!("cannot write {}", output.display()))?;
        let mut partial = Self {
            file: Written::File(file),
            data: Vec::new(),
        };
        drop(bytes);
        let (from, to) = (folder(model), folder(output));
        if from.canonicalize()? != to.canonicalize()? {
            for location in files {
                check_location(&location)?;
                partial
                    .copy(&from.join(&location), to.join(&location))
                    .with_context(|| format!("cannot copy the model's data in {location:?}"))?;
            }
        }
        Ok(partial)
    }

    fn copy(&mut self, from: &Path, to: PathBuf) -> Result<()> {
        if to.exists() {
            ensure!(
                same_bytes(from, &to)?,
                "{} is another file; choose another folder",
                to.display()
            );
            return Ok(());
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        self.data.push(CopiedFile::copy(from, to)?);
        Ok(())
    }

    /// Reads it again, as any model is read.
    pub(super) fn load(&self) -> Result<Model> {
        Model::load(self.file.path())
            .context("the rewritten model is invalid, which is a bug in revseq")
    }

    /// Moves the model to its place, or writes it to standard output, and keeps its data.
    pub(super) fn keep(self, output: &Path) -> Result<()> {
        let keep = || -> Result<()> {
            match self.file {
                Written::File(file) => file.complete(),
                Written::Temporary(file) => {
                    let mut out = std::io::stdout().lock();
                    std::io::copy(&mut file.reopen()?, &mut out)?;
                    Ok(out.flush()?)
                }
            }
        };
        keep().with_context(|| format!("cannot write {}", output.display()))?;
        self.data.into_iter().for_each(CopiedFile::keep);
        Ok(())
    }
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one).bytes(), BufReader::new(other).bytes());
    loop {
        match (one.next().transpose()?, other.next().transpose()?) {
            (None, None) => return Ok(true),
            (one, other) if one == other => {}
            _ => return Ok(false),
        }
    }
}
