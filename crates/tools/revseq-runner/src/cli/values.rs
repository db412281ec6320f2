//! Parsers of values.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::tensor::fill::Fill;
use crate::threads::MAXIMUM_THREADS;

/// Sizes by their names.
#[derive(Clone, Debug)]
pub(crate) struct NamedSizes(pub(super) Vec<(String, u64)>);

/// A file, and the name of the input or output that it is for, as `NAME=FILE` or `FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile(OsString);

impl NamedFile {
    /// A file for the value of a name.
    pub(crate) fn new(name: &str, file: &Path) -> Self {
        let mut text = OsString::from(name);
        text.push("=");
        text.push(file);
        Self(text)
    }

    /// The name, and the file. The name ends at the last `=` behind one that the model has, and otherwise at
    /// the first; `None` for the only one, or for all that an archive has.
    pub(crate) fn split(&self, is_name: impl Fn(&str) -> bool) -> (Option<&str>, &Path) {
        let bytes = self.0.as_encoded_bytes();
        let places = (0..bytes.len()).filter(|&at| bytes[at] == b'=');
        let mut parts = places.filter_map(|at| {
            let (name, file) = split_at(&self.0, at)?;
            Some((name.to_str()?, Path::new(file)))
        });
        let first = parts.next();
        let is_known = |(name, file): &(&str, &Path)| is_name(name) && !file.as_os_str().is_empty();
        let known = first.into_iter().chain(parts).filter(is_known).last();
        match known.or(first) {
            Some((name, file)) => (Some(name), file),
            None => (None, Path::new(&self.0)),
        }
    }
}

/// Parses `NAME=FILE` or `FILE`; files need not be UTF-8.
#[derive(Clone)]
pub(super) struct NamedFileParser;

impl TypedValueParser for NamedFileParser {
    type Value = NamedFile;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<NamedFile, clap::Error> {
        let parser = OsStringValueParser::new().try_map(named_file);
        parser.parse_ref(command, argument, value)
    }
}

fn named_file(text: OsString) -> Result<NamedFile, &'static str> {
    let bytes = text.as_encoded_bytes();
    let first = bytes.iter().position(|&byte| byte == b'=');
    match first.and_then(|at| split_at(&text, at)) {
        None if text.is_empty() => Err("expected NAME=FILE or FILE"),
        Some((name, file)) if name.is_empty() || file.is_empty() => {
            Err("expected NAME=FILE or FILE")
        }
        Some((name, _)) if name.to_str().is_none() => Err("the name before = is not UTF-8"),
        _ => Ok(NamedFile(text)),
    }
}

/// The parts before and after a character.
#[cfg(unix)]
fn split_at(text: &OsStr, at: usize) -> Option<(&OsStr, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;

    let bytes = text.as_bytes();
    let (name, file) = (&bytes[..at], &bytes[at + 1..]);
    Some((OsStr::from_bytes(name), OsStr::from_bytes(file)))
}

/// The same; a path that is no Unicode has no name before it.
#[cfg(not(unix))]
fn split_at(text: &OsStr, at: usize) -> Option<(&OsStr, &OsStr)> {
    let text = text.to_str()?;
    Some((text[..at].as_ref(), text[at + 1..].as_ref()))
}

pub(super) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(super) fn output_and_tolerance(text: &str) -> Result<(Option<String>, f64), String> {
    let (name, tolerance) = match text.rsplit_once('=') {
        Some((name, tolerance)) => (Some(name.to_owned()), tolerance),
        None => (None, text),
    };
    let tolerance = tolerance
        .parse::<f64>()
        .ok()
        .filter(|tolerance| *tolerance >= 0.0 && tolerance.is_finite())
        .ok_or_else(|| format!("{tolerance:?} is not a tolerance, such as 1e-4"))?;
    Ok((name, tolerance))
}

pub(super) fn name_and_fill(text: &str) -> Result<(Option<String>, Fill), String> {
    match text.rsplit_once('=') {
        Some((name, fill)) if !name.is_empty() => Ok((Some(name.to_owned()), fill.parse()?)),
        _ => Ok((None, text.parse()?)),
    }
}

/// The sizes of one argument: `NAME=SIZE`, or several with commas between. A name may have commas, too, as
/// those that are formulas do: a size ends where one is given.
pub(super) fn names_and_sizes(text: &str) -> Result<NamedSizes, String> {
    let mut sizes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest
        .find('=')
        .and_then(|at| Some(at + rest[at..].find(',')?))
    {
        sizes.push(name_and_size(&rest[..at])?);
        rest = &rest[at + 1..];
    }
    sizes.push(name_and_size(rest)?);
    Ok(NamedSizes(sizes))
}

fn name_and_size(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("expected NAME=SIZE")?;
    if name.is_empty() {
        return Err("expected NAME=SIZE".to_owned());
    }
    let size = size
        .parse()
        .ok()
        .filter(|&size| i64::try_from(size).is_ok())
        .ok_or_else(|| format!("{size:?} is not a size"))?;
    Ok((name.to_owned(), size))
}

pub(super) fn threads(text: &str) -> Result<u16, String> {
    let threads = text
        .parse()
        .ok()
        .filter(|it| (1..=MAXIMUM_THREADS).contains(it));
    threads.ok_or_else(|| format!("expected a number of threads from 1 to {MAXIMUM_THREADS}"))
}

pub(super) fn runs(text: &str) -> Result<u32, String> {
    let runs = text.parse().ok().filter(|&runs| runs > 0);
    runs.ok_or_else(|| format!("expected a number of runs from 1 to {}", u32::MAX))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| format!("{text:?} is not a number of seconds, such as 2.5"))
}
