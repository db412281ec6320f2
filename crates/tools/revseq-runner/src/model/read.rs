//! The model that a path stands for, and folders in the layout of ONNX's backend tests.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

use crate::file::is_standard;

/// The prefix of data sets' names.
const DATA_SET: &str = "test_data_set_";

/// Refuses the address of something in a network.
pub(crate) fn refuse_address(path: &Path) -> Result<()> {
    let scheme = path.to_str().and_then(|text| text.split_once("://"));
    let is_address = scheme.is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|it| it.is_ascii_alphanumeric())
    });
    ensure!(
        !is_address || path.exists(),
        "cannot read {}: it is an address, and models are files: download it first",
        path.display()
    );
    Ok(())
}

/// Reads a regular file of bounded length, which is no pointer to one.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>> {
    let bytes = revseq_onnx::file::read(path)?;
    revseq_onnx::check_fetched(&bytes)?;
    Ok(bytes)
}

/// Reads a model's file or standard input, unless its first bytes show that it is no model.
pub(super) fn model_file(path: &Path) -> Result<Vec<u8>> {
    match is_standard(path) {
        true => standard_input(),
        false => {
            let kind = std::fs::metadata(path)?.file_type();
            ensure!(
                kind.is_file() || kind.is_dir(),
                "it is not a regular file: pipe a model into -"
            );
            Ok(revseq_onnx::file::read_model(path)?)
        }
    }
}

/// The model on standard input, which can be read more than once.
fn standard_input() -> Result<Vec<u8>> {
    static READ: OnceLock<Vec<u8>> = OnceLock::new();

    if let Some(bytes) = READ.get() {
        return Ok(bytes.clone());
    }
    let input = std::io::stdin().lock();
    ensure!(
        !input.is_terminal(),
        "it is a terminal: pipe a model into it"
    );
    let bytes = revseq_onnx::file::read_model_from(input)?;
    Ok(READ.get_or_init(|| bytes).clone())
}

/// A model, and the data sets beside it.
#[derive(Debug)]
pub(crate) struct Located {
    /// The model's file.
    pub(crate) model: PathBuf,
    /// Its data sets, by number; empty if the path is a file.
    pub(crate) data_sets: Vec<DataSet>,
}

impl Located {
    /// The data sets of the model: in its folder, or, if the path is a file, beside it.
    pub(crate) fn own_data_sets(&self) -> Result<Vec<DataSet>> {
        let folder = data_folder(&self.model);
        match !is_standard(&self.model) && has_data_sets(&folder) {
            true => data_sets(&folder),
            false => Ok(Vec::new()),
        }
    }
}

/// A folder `test_data_set_<n>`.
#[derive(Debug)]
pub(crate) struct DataSet {
    pub(crate) path: PathBuf,
    /// The folder's name.
    pub(crate) name: String,
    /// The files `input_<i>.pb`, by number.
    pub(crate) inputs: Vec<PathBuf>,
    /// The files `output_<i>.pb`, by number.
    pub(crate) outputs: Vec<PathBuf>,
}

/// Whether a folder is in the layout of ONNX's backend tests.
pub(crate) fn is_backend_test(folder: &Path) -> bool {
    folder.join("model.onnx").is_file() && has_data_sets(folder)
}

/// Whether a folder has data sets.
pub(crate) fn has_data_sets(folder: &Path) -> bool {
    numbered(folder, DATA_SET, "").is_ok_and(|sets| !sets.is_empty())
}

/// The folder of the next data set.
pub(crate) fn next_data_set(folder: &Path) -> Result<PathBuf> {
    let taken = if folder.exists() {
        numbered(folder, DATA_SET, "")?
    } else {
        Vec::new()
    };
    (0..=taken.len())
        .map(|number| folder.join(format!("{DATA_SET}{number}")))
        .find(|path| !taken.contains(path) && !path.exists())
        .with_context(|| {
            format!(
                "{}: no number is left for another data set",
                folder.display()
            )
        })
}

/// Returns the folder with the data sets of a model: `NAME.snapshots` for `NAME.onnx`, and the
/// folder around `model.onnx`, as ONNX's backend tests have them.
pub(crate) fn data_folder(model: &Path) -> PathBuf {
    match model.parent() {
        Some(folder) if model.file_name().is_some_and(|name| name == "model.onnx") => {
            folder.to_owned()
        }
        _ => model.with_extension("snapshots"),
    }
}

/// The model that MODEL stands for.
pub(crate) fn locate(path: &Path) -> Result<Located> {
    let is_folder = || -> Result<bool> {
        refuse_address(path)?;
        let kind = std::fs::metadata(path);
        let kind = kind.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(kind.is_dir())
    };
    if is_standard(path) || !is_folder()? {
        return Ok(Located {
            model: path.to_owned(),
            data_sets: Vec::new(),
        });
    }
    let model = path.join("model.onnx");
    if !model.exists() {
        bail!(
            "cannot read {}: it is a folder without a model.onnx",
            path.display()
        );
    }
    Ok(Located {
        model,
        data_sets: data_sets(path)?,
    })
}

/// The data sets in a folder.
pub(crate) fn data_sets(folder: &Path) -> Result<Vec<DataSet>> {
    numbered(folder, DATA_SET, "")?
        .into_iter()
        .map(|path| {
            Ok(DataSet {
                name: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                inputs: numbered(&path, "input_", ".pb")?,
                outputs: numbered(&path, "output_", ".pb")?,
                path,
            })
        })
        .collect()
}

/// The entries of a folder with a number in their names, by number.
fn numbered(folder: &Path, prefix: &str, suffix: &str) -> Result<Vec<PathBuf>> {
    let read = || -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name.and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
            if let Some(Ok(number)) = number.map(str::parse::<u64>) {
                found.push((number, path));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    };
    read().with_context(|| format!("cannot read {}", folder.display()))
}

/// The place that a search could not look into, and why.
pub(crate) fn unsearched(error: walkdir::Error, path: &Path) -> (PathBuf, String) {
    let at = error.path().unwrap_or(path).to_owned();
    let why = match error.into_io_error() {
        Some(error) => error.to_string(),
        None => "a link leads back to it".to_owned(),
    };
    (at, why)
}
