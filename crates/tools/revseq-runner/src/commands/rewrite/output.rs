//! Writing a model beside its data, or not at all.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::file::{self, CopiedFile, NewFile, folder, is_standard};
use crate::model::Model;
use revseq_onnx::external::check_location;

/// Refuses to write over a file, above all the model itself, without `--overwrite`.
pub(super) fn refuse(model: &Path, output: &Path, overwrite: bool) -> Result<()> {
    if is_standard(output) {
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

/// The context of an error of a model that was rewritten.
const INVALID: &str = "the rewritten model is invalid, which is a bug in revseq";

/// A model that is written, but not yet in its place.
pub(super) struct Partial {
    /// The model, read again as any is.
    pub(super) model: Model,
    /// Its file; none for standard output.
    file: Option<NewFile>,
    /// Its data in other files, as far as it is not there already.
    data: Vec<CopiedFile>,
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
        if is_standard(output) {
            if let Some(location) = files.first() {
                bail!(
                    "--output -: the model has data in {location:?}, so it needs a file beside it"
                );
            }
            let model = Model::parse(output.to_owned(), bytes).and_then(Model::with_data);
            return Ok(Self {
                model: model.context(INVALID)?,
                file: None,
                data: Vec::new(),
            });
        }
        let write = || -> Result<NewFile> {
            let mut file = NewFile::create(output)?;
            file.write_all(&bytes)?;
            Ok(file)
        };
        let file = write().with_context(|| format!("cannot write {}", output.display()))?;
        drop(bytes);
        let mut data = Vec::new();
        let (from, to) = (folder(model), folder(output));
        if from.canonicalize()? != to.canonicalize()? {
            for location in files {
                check_location(&location)?;
                let copied = copy(&from.join(&location), to.join(&location));
                let copied = copied
                    .with_context(|| format!("cannot copy the model's data in {location:?}"))?;
                data.extend(copied);
            }
        }
        Ok(Self {
            model: Model::load(file.path()).context(INVALID)?,
            file: Some(file),
            data,
        })
    }

    /// Moves the model to its place, or writes it to standard output, and keeps its data.
    pub(super) fn keep(self, output: &Path) -> Result<()> {
        let keep = || -> Result<()> {
            match self.file {
                Some(file) => file.complete(),
                None => {
                    let mut out = std::io::stdout().lock();
                    out.write_all(&self.model.bytes)?;
                    Ok(out.flush()?)
                }
            }
        };
        keep().with_context(|| format!("cannot write {}", output.display()))?;
        self.data.into_iter().for_each(CopiedFile::keep);
        Ok(())
    }
}

/// Copies a file, unless it is there already.
fn copy(from: &Path, to: PathBuf) -> Result<Option<CopiedFile>> {
    if to.exists() {
        ensure!(
            same_bytes(from, &to)?,
            "{} is another file; choose another folder",
            to.display()
        );
        return Ok(None);
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    CopiedFile::copy(from, to).map(Some)
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (one, other) = (BufReader::new(one).bytes(), BufReader::new(other).bytes());
    for (one, other) in std::iter::zip(one, other) {
        if one? != other? {
            return Ok(false);
        }
    }
    Ok(true)
}
