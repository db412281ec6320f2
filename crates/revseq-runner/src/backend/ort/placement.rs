//! Which provider ONNX Runtime gives each node of ours, read from its log.
//!
//! A session tells its placements in its log alone, as far as safe code can
//! ask. What is not understood is an error: no node falls back unseen.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use ort::logging::{LogLevel, LoggerFunction};

use super::EP;

/// The function of ONNX Runtime that logs the placements (session_state.cc).
const PLACEMENTS: &str = "VerifyEachNodeIsAssignedToAnEp";

/// The source of the provider's own lines.
const EP_SOURCE: &str = "revseq-ep";

/// What separates the node from the reason in a line of the provider's.
const DECLINED: &str = " is left to other execution providers: ";

/// Lines of a session's log, gathered while it is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// What ONNX Runtime is to call with each line.
    pub(super) fn logger(&self) -> LoggerFunction {
        let lines = Arc::clone(&self.0);
        Arc::new(
            move |_: LogLevel, _: &str, _: &str, location: &str, message: &str| {
                if location.contains(PLACEMENTS) || location.contains(EP_SOURCE) {
                    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                    lines.push(message.to_owned());
                }
            },
        )
    }

    /// The lines so far.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A node of ours and the provider that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) op_type: String,
    pub(crate) name: String,
    pub(crate) provider: String,
    /// Why the provider for these nodes does not run it.
    pub(crate) reason: Option<String>,
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} node {:?}: {}",
            self.op_type, self.name, self.provider
        )?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

/// A node of ours in the model: its operator and name.
pub(super) type ModelNode = (String, String);

/// Reads where nodes of ours are placed.
///
/// # Errors
/// The log does not tell.
pub(super) fn read(lines: &[String], nodes: &[ModelNode]) -> Result<Vec<Placement>> {
    let declined: Vec<(&str, &str)> = lines
        .iter()
        .filter_map(|line| line.split_once(DECLINED))
        .collect();
    let reason = |op_type: &str, name: &str| {
        let label = format!("{op_type} node {name:?}");
        let found = declined.iter().find(|(declined, _)| *declined == label);
        found.map(|(_, reason)| (*reason).to_owned())
    };
    let place = |op_type: &str, name: &str, provider: &str| Placement {
        op_type: op_type.to_owned(),
        name: name.to_owned(),
        provider: provider.to_owned(),
        reason: (provider != EP).then(|| reason(op_type, name)).flatten(),
    };
    let mut lines = lines.iter().map(|line| line.trim());
    lines
        .find(|line| *line == "Node placements")
        .context("ONNX Runtime's log does not tell where nodes are placed")?;
    let mut placements = Vec::new();
    let mut provider = None;
    for line in lines {
        if let Some((found, count)) = heading(line, "All nodes placed on [") {
            // They are not listed, but nothing else is there.
            let count = count.with_context(|| format!("ONNX Runtime's log has {line:?}"))?;
            let ours = nodes.iter().map(|(op_type, name)| {
                let name = inlined(name, op_type, &declined).unwrap_or_else(|| name.clone());
                place(op_type, &name, found)
            });
            return Ok(ours.take(count).collect());
        }
        if let Some((found, _)) = heading(line, "Node(s) placed on [") {
            provider = Some(found);
            continue;
        }
        let node = line
            .split_once(" (")
            .and_then(|(op_type, rest)| Some((op_type, rest.strip_suffix(')')?)));
        if let (Some((op_type, name)), Some(provider)) = (node, provider)
            && nodes.iter().any(|(ours, _)| ours == op_type)
        {
            placements.push(place(op_type, name, provider));
        }
    }
    ensure!(
        provider.is_some(),
        "ONNX Runtime's log does not tell where nodes are placed"
    );
    Ok(placements)
}

/// The name that a declined node of a function has once that is inlined.
fn inlined(name: &str, op_type: &str, declined: &[(&str, &str)]) -> Option<String> {
    let prefix = format!("{op_type} node \"_inlfunc_");
    let suffix = format!("_{name}\"");
    let (label, _) = declined
        .iter()
        .find(|(label, _)| label.starts_with(&prefix) && label.ends_with(&suffix))?;
    let start = label.find('"')? + 1;
    Some(label[start..label.len() - 1].to_owned())
}

/// The provider and the number of nodes in a heading.
fn heading<'a>(line: &'a str, start: &str) -> Option<(&'a str, Option<usize>)> {
    let (provider, rest) = line.strip_prefix(start)?.split_once(']')?;
    let count = rest
        .rsplit_once(": ")
        .and_then(|(_, count)| count.parse().ok());
    Some((provider, count))
}

/// Checks that the provider has every node of ours but those of strings,
/// which it leaves to ONNX Runtime.
///
/// # Errors
/// Names the first node that it has not.
pub(super) fn check(placements: &[Placement]) -> Result<()> {
    for placement in placements {
        if placement.provider == EP {
            continue;
        }
        let of_strings = |reason: &String| reason.contains("elements of type string");
        match &placement.reason {
            Some(reason) if of_strings(reason) => {}
            Some(reason) => bail!(
                "{} node {:?} is not run by {EP} but by {}: {reason}",
                placement.op_type,
                placement.name,
                placement.provider
            ),
            None => bail!(
                "{} node {:?} is not run by {EP} but by {}",
                placement.op_type,
                placement.name,
                placement.provider
            ),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|&line| line.to_owned()).collect()
    }

    fn ours(names: &[&str]) -> Vec<ModelNode> {
        let op_type = || "ReverseSequence".to_owned();
        names
            .iter()
            .map(|&name| (op_type(), name.to_owned()))
            .collect()
    }

    #[test]
    fn placements_are_read_by_provider() {
        let log = lines(&[
            "Node placements",
            " Node(s) placed on [RevSeqExecutionProvider]. Number of nodes: 1",
            "  ReverseSequence (a (b))",
            " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 2",
            "  Neg (before)",
            "  ReverseSequence (c)",
            "Some nodes were not assigned to the preferred execution providers",
        ]);
        let placements = read(&log, &ours(&["a (b)", "c"])).unwrap();
        let told: Vec<String> = placements.iter().map(Placement::to_string).collect();
        assert_eq!(
            told,
            [
                "ReverseSequence node \"a (b)\": RevSeqExecutionProvider",
                "ReverseSequence node \"c\": CPUExecutionProvider",
            ]
        );
        let error = check(&placements).unwrap_err().to_string();
        assert_eq!(
            error,
            "ReverseSequence node \"c\" is not run by RevSeqExecutionProvider but by \
             CPUExecutionProvider"
        );
    }

    #[test]
    fn strings_alone_may_fall_back() {
        let line = |reason: &str| {
            format!("ReverseSequence node \"a\" is left to other execution providers: {reason}")
        };
        for (reason, may) in [
            (
                "input 0 has elements of type string, expected a type of fixed size",
                true,
            ),
            (
                "no kernel is registered for its schema version and types",
                false,
            ),
        ] {
            let log = lines(&[
                &line(reason),
                "Node placements",
                " All nodes placed on [CPUExecutionProvider]. Number of nodes: 1",
            ]);
            let placements = read(&log, &ours(&["a"])).unwrap();
            assert_eq!(placements.len(), 1);
            assert_eq!(placements[0].reason.as_deref(), Some(reason));
            assert_eq!(check(&placements).is_ok(), may, "{reason}");
        }
    }

    #[test]
    fn a_log_that_tells_nothing_is_an_error() {
        assert!(read(&[], &ours(&["a"])).is_err());
        assert!(read(&lines(&["Node placements"]), &ours(&["a"])).is_err());
    }
}
