//! Writing a model beside its data, or not at all.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::file_name;
use crate::model::Model;
use crate::model::external::check_location;

/// Refuses to write over a file, above all the model itself, unless told.
pub(super) fn refuse(model: &Path, output: &Path, overwrite: bool) -> Result<()> {
    file_name(output)?;
    if overwrite || !output.exists() {
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
    path: PathBuf,
    /// Files of data that were copied beside it.
    copied: Vec<PathBuf>,
    kept: bool,
}

impl Partial {
    /// Writes a model beside where it is to be, with the data that it has in
    /// other files.
    pub(super) fn write(
        model: &Path,
        output: &Path,
        rewritten: &revseq_rewrite::ModelProto,
    ) -> Result<Self> {
        let mut name = file_name(output)?.to_owned();
        name.push(".partial");
        let mut partial = Self {
            path: output.with_file_name(name),
            copied: Vec::new(),
            kept: false,
        };
        let bytes = revseq_rewrite::encode(rewritten)?;
        let created = File::create_new(&partial.path);
        let mut file = match created {
            Ok(file) => file,
            Err(error) => {
                // It is not this run's to take away.
                partial.kept = true;
                return Err(error)
                    .with_context(|| format!("cannot write {}", partial.path.display()));
            }
        };
        file.write_all(&bytes)
            .with_context(|| format!("cannot write {}", partial.path.display()))?;
        let (from, to) = (folder(model), folder(output));
        if from.canonicalize()? != to.canonicalize()? {
            for location in revseq_rewrite::external_files(rewritten) {
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
        self.copied.push(to.clone());
        fs::copy(from, to)?;
        Ok(())
    }

    /// Reads it again, as any model is read.
    pub(super) fn load(&self) -> Result<Model> {
        Model::load(&self.path).context("the rewritten model is invalid, which is a bug in revseq")
    }

    /// Puts it in its place.
    pub(super) fn keep(mut self, output: &Path) -> Result<()> {
        fs::rename(&self.path, output)
            .with_context(|| format!("cannot write {}", output.display()))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // With no one to tell, what cannot be removed stays.
        for path in self.copied.iter().chain([&self.path]) {
            let _ = fs::remove_file(path);
        }
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
