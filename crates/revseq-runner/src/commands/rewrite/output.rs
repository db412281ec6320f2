//! Writing a model beside its data, or not at all.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::file_name;
use crate::file::{CopiedFile, NewFile};
use crate::model::Model;
use crate::model::external::check_location;

/// Refuses to write over a file, above all the model itself, unless told.
pub(super) fn refuse(model: &Path, output: &Path, overwrite: bool) -> Result<()> {
    file_name(output)?;
    let Ok(present) = fs::metadata(output) else {
        return Ok(());
    };
    // It is read again before it is in its place.
    ensure!(
        present.is_file(),
        "{}: it is not a regular file",
        output.display()
    );
    if overwrite {
        return Ok(());
    }
    let is_model = match (model.canonicalize(), output.canonicalize()) {
        (Ok(model), Ok(output)) => model == output,
        _ => false,
    };
    let what = if is_model {
        "the model itself"
    } else {
        "an existing file"
    };
    bail!(
        "{}: it is {what}; --overwrite replaces it",
        output.display()
    )
}

/// A model that is written, but not yet in its place.
pub(super) struct Partial {
    file: NewFile,
    /// Its data in other files, as far as it is not there already.
    data: Vec<CopiedFile>,
}

impl Partial {
    /// Writes a model beside where it is to be, with the data that it has in
    /// other files.
    pub(super) fn write(
        model: &Path,
        output: &Path,
        rewritten: revseq_rewrite::ModelProto,
    ) -> Result<Self> {
        let bytes = revseq_rewrite::encode(&rewritten)?;
        let files = revseq_rewrite::external_files(&rewritten);
        drop(rewritten);
        let write = || -> Result<NewFile> {
            let mut file = NewFile::create(output)?;
            file.write_all(&bytes)?;
            Ok(file)
        };
        let mut partial = Self {
            file: write().with_context(|| format!("cannot write {}", output.display()))?,
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

    /// Puts it in its place.
    pub(super) fn keep(self, output: &Path) -> Result<()> {
        self.file
            .complete()
            .with_context(|| format!("cannot write {}", output.display()))?;
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
