//! What became of a session's nodes, asked of its provider.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, slice};

use libloading::{Library, Symbol};
use ort::environment::Environment;
use ort::session::Session;
use ort::{AsPointer, ortsys};
use serde::Deserialize;

use crate::{Error, NAME};

/// The option with which a session is asked to leave its report under a key.
const OPTION: &CStr = c"ep.dynamic.revseq_report";

/// What became of a session's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The loops that run as something else.
    pub taken: Vec<Taken>,
    /// The nodes that the provider looked at, and left to others.
    pub left: Vec<Left>,
    /// The number of LSTM, GRU and RNN nodes of the model itself that the provider runs.
    pub layers: usize,
    /// The number of reversals that it runs.
    pub reversals: usize,
    /// How often the nodes that replace loops have run so far, all of them together.
    ///
    /// 0 from a library of before they were counted.
    #[serde(default)]
    pub fused_runs: u64,
}

/// A loop that the provider runs as something else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Taken {
    /// The operator's name.
    pub operator: String,
    /// The node's name; that of its first output if it has none.
    pub node: String,
    /// The names of the nodes around it, from the outside in.
    pub graph: Vec<String>,
    /// What runs instead, such as `LSTM, forward`.
    pub to: String,
}

/// A node that is left to other providers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Left {
    /// The operator's name.
    pub operator: String,
    /// The node's name; that of its first output if it has none.
    pub node: String,
    /// The names of the nodes around it, from the outside in.
    pub graph: Vec<String>,
    /// The reason.
    pub reason: String,
    /// Whether it is a loop for which there is a replacement.
    pub could_be_replaced: bool,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} runs as {}", self.operator, self.node, self.to)
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let though = match self.could_be_replaced {
            true => ", though it could be replaced",
            false => "",
        };
        let Self {
            operator,
            node,
            reason,
            ..
        } = self;
        write!(f, "{operator} {node:?} stays{though}: {reason}")
    }
}

/// Tells what became of the nodes of a session with the provider, however it was made: which loops run as
/// layers, and which nodes were left, and why. Loops are looked at if they are
/// [asked for](crate::Loops::AsLayers).
///
/// # Errors
/// [`Error::Report`] if the session does not have the provider.
pub fn report(environment: &Environment, session: &Session) -> Result<Report, Error> {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let failed = |problem: String| Error::Report { problem };
    // Another copy of this crate counts elsewhere.
    let count = ASKED.fetch_add(1, Ordering::Relaxed);
    let key = CString::new(format!("{:p} {count}", &raw const ASKED)).unwrap_or_default();
    // Another provider may know no such option, after this one has taken it.
    let asked = ask(session, &key);
    let mut problem = format!("the session has no {NAME}");
    for path in libraries(environment) {
        match take(&path, key.as_bytes()) {
            Ok(Some(json)) => {
                return serde_json::from_slice(&json).map_err(|error| failed(error.to_string()));
            }
            Ok(None) => {}
            Err(error) => problem = format!("{}: {error}", path.display()),
        }
    }
    asked?;
    Err(failed(problem))
}

fn ask(session: &Session, key: &CStr) -> Result<(), Error> {
    let (option, key) = (OPTION.as_ptr(), key.as_ptr());
    // SAFETY: there are one key and one value, which end with a zero; a session takes them while it is used.
    ortsys![unsafe SetEpDynamicOptions(session.ptr().cast_mut(), &option, &key, 1)?];
    Ok(())
}

/// The libraries that are registered, of which one has made the session's provider.
fn libraries(environment: &Environment) -> Vec<PathBuf> {
    let mut libraries = Vec::new();
    for device in environment.devices() {
        if device.ep().ok() != Some(NAME) {
            continue;
        }
        // SAFETY: the device is alive, and owns its metadata.
        let metadata = ortsys![unsafe EpDevice_EpMetadata(device.ptr())];
        // SAFETY: as above.
        let path = ortsys![unsafe GetKeyValue(metadata, c"library_path".as_ptr())];
        if !path.is_null() {
            // SAFETY: a string that ends with a zero.
            let path = unsafe { CStr::from_ptr(path) };
            libraries.push(PathBuf::from(&*path.to_string_lossy()));
        }
    }
    libraries
}

/// The beginning of what the library's functions return.
#[repr(C)]
struct Answer {
    /// 0 unless it is an error.
    kind: u32,
    _model: [usize; 2],
    text: *const u8,
    size: usize,
}

/// Takes the report that a session of a library left under a key; `None` if there is none.
fn take(library: &Path, key: &[u8]) -> Result<Option<Vec<u8>>, libloading::Error> {
    // SAFETY: the library is loaded already; the functions are of these types, and the answer is freed once.
    unsafe {
        let library = Library::new(library)?;
        let report: Symbol<'_, unsafe extern "C" fn(*const u8, usize) -> *mut Answer> =
            library.get(b"RevSeqSessionReport")?;
        let free: Symbol<'_, unsafe extern "C" fn(*mut Answer)> = library.get(b"RevSeqFree")?;
        let answer = report(key.as_ptr(), key.len());
        let Answer {
            kind, text, size, ..
        } = *answer;
        let text = slice::from_raw_parts(text, size).to_vec();
        free(answer);
        Ok((kind == 0).then_some(text))
    }
}
