//! The provider that ONNX Runtime gives each ReverseSequence and ReverseSubsequences node, and the
//! reason that this project's provider writes to the log for each that it declined; and what became of
//! loops and layers, if that provider is to run them.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use ort::logging::{LogLevel, LoggerFunction};
use revseq_graph::Operator;
use revseq_ort::{Assigned, Report};
use serde::Serialize;

use super::EP;
use crate::escape::printable;

/// The source of the provider's lines.
const EP_SOURCE: &str = "revseq-ep";

/// The text that separates the node from the reason in them.
const DECLINED: &str = " is left to other execution providers: ";

/// The provider's lines in a session's log, gathered while it is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// The function that ONNX Runtime calls with each line.
    pub(super) fn logger(&self) -> LoggerFunction {
        let lines = Arc::clone(&self.0);
        Arc::new(
            move |_: LogLevel, _: &str, _: &str, location: &str, message: &str| {
                if location.contains(EP_SOURCE) {
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

/// One of our nodes, or a loop or layer, and the provider that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Placement {
    #[serde(rename = "operator")]
    pub(crate) op_type: String,
    pub(crate) name: String,
    pub(crate) provider: String,
    /// What the provider runs instead of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// Reason why the provider for these nodes does not run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} node {:?}: {}",
            self.op_type, self.name, self.provider
        )?;
        if let Some(to) = &self.to {
            write!(f, ", as {}", printable(to))?;
        }
        match &self.reason {
            Some(reason) => write!(f, " ({})", printable(reason)),
            None => Ok(()),
        }
    }
}

/// Returns the placements of the operators' nodes, with the reasons in the provider's lines.
pub(super) fn of(assigned: Vec<Assigned>, lines: &[String]) -> Vec<Placement> {
    let declined: Vec<(&str, &str)> = lines
        .iter()
        .filter_map(|line| line.split_once(DECLINED))
        .collect();
    let reason = |op_type: &str, name: &str| {
        let label = format!("{op_type} node {name:?}");
        let found = declined.iter().find(|(declined, _)| *declined == label);
        found.map(|(_, reason)| (*reason).to_owned())
    };
    assigned
        .into_iter()
        .filter(|node| Operator::is_known(&node.domain, &node.operator))
        .map(|node| Placement {
            reason: (node.provider != EP)
                .then(|| reason(&node.operator, &node.node))
                .flatten(),
            op_type: node.operator,
            name: node.node,
            provider: node.provider,
            to: None,
        })
        .collect()
}

/// Returns the placements of the loops and layers in a session's report.
pub(super) fn of_loops(report: Report, assigned: &[Assigned]) -> Vec<Placement> {
    let provider = |op_type: &str, name: &str| {
        let found = assigned
            .iter()
            .find(|it| it.operator == op_type && it.node == name);
        found.map_or_else(String::new, |it| it.provider.clone())
    };
    let taken = report.taken.into_iter().map(|it| Placement {
        op_type: it.operator,
        name: it.node,
        provider: EP.to_owned(),
        to: Some(it.to),
        reason: None,
    });
    let left = report.left.into_iter();
    // The others are in the log.
    let left = left.filter(|it| !it.operator.starts_with("Reverse"));
    let left = left.map(|it| Placement {
        provider: provider(&it.operator, &it.node),
        op_type: it.operator,
        name: it.node,
        to: None,
        reason: Some(match it.could_be_replaced {
            true => format!("it could be replaced: {}", it.reason),
            false => it.reason,
        }),
    });
    taken.chain(left).collect()
}

/// Checks that one provider has all of our nodes, except nodes of strings, which this project's
/// provider leaves to ONNX Runtime.
///
/// # Errors
/// Names the first node that another provider has.
pub(super) fn check(placements: &[Placement], provider: &str) -> Result<()> {
    for placement in placements {
        if placement.provider == provider {
            continue;
        }
        let reason = match &placement.reason {
            Some(reason) if reason.contains("elements of type string") => continue,
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        bail!(
            "{} node {:?} is not run by {provider} but by {}{reason}",
            placement.op_type,
            placement.name,
            placement.provider
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(op_type: &str, name: &str, provider: &str) -> Assigned {
        Assigned {
            domain: String::new(),
            operator: op_type.to_owned(),
            node: name.to_owned(),
            provider: provider.to_owned(),
        }
    }

    #[test]
    fn a_node_elsewhere_is_an_error() {
        let placements = of(
            vec![
                assigned("ReverseSequence", "a (b)", EP),
                assigned("Neg", "before", "CPUExecutionProvider"),
                assigned("ReverseSequence", "c", "CPUExecutionProvider"),
            ],
            &[],
        );
        let shown: Vec<String> = placements.iter().map(Placement::to_string).collect();
        assert_eq!(
            shown,
            [
                "ReverseSequence node \"a (b)\": RevSeqExecutionProvider",
                "ReverseSequence node \"c\": CPUExecutionProvider",
            ]
        );
        let error = check(&placements, EP).unwrap_err().to_string();
        assert_eq!(
            error,
            "ReverseSequence node \"c\" is not run by RevSeqExecutionProvider but by \
             CPUExecutionProvider"
        );
        let error = check(&placements, "CPUExecutionProvider").unwrap_err();
        assert_eq!(
            error.to_string(),
            "ReverseSequence node \"a (b)\" is not run by CPUExecutionProvider but by \
             RevSeqExecutionProvider"
        );
    }

    #[test]
    fn strings_alone_may_fall_back() {
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
            let line = format!(
                "ReverseSequence node \"a\" is left to other execution providers: {reason}"
            );
            let nodes = vec![assigned("ReverseSequence", "a", "CPUExecutionProvider")];
            let placements = of(nodes, &[line]);
            assert_eq!(placements.len(), 1);
            assert_eq!(placements[0].reason.as_deref(), Some(reason));
            assert_eq!(check(&placements, EP).is_ok(), may, "{reason}");
        }
    }
}
