//! The provider that ONNX Runtime gives each ReverseSequence and ReverseSubsequences node, and the
//! reason why this project's provider declined it; and what became of loops and layers, if that provider is
//! to run them.

use anyhow::{Result, bail};
use revseq_graph::Operator;
use revseq_ort::{Assigned, Left, Report};
use serde::Serialize;

use super::EP;
use crate::escape::printable;

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

/// Returns the placements of the operators' nodes, with the reasons in the provider's report.
pub(super) fn of(assigned: &[Assigned], report: &Report) -> Vec<Placement> {
    let reason = |node: &Assigned| {
        let is_of = |it: &&Left| it.operator == node.operator && it.node == node.node;
        let left = report.left.iter().find(is_of)?;
        Some(left.reason.clone())
    };
    let ours = assigned.iter();
    let ours = ours.filter(|node| Operator::is_known(&node.domain, &node.operator));
    let placements = ours.map(|node| Placement {
        op_type: node.operator.clone(),
        name: node.node.clone(),
        provider: node.provider.clone(),
        to: None,
        reason: reason(node).filter(|_| node.provider != EP),
    });
    placements.collect()
}

/// Returns the placements of the loops and layers in a session's report.
pub(super) fn of_loops(report: &Report, assigned: &[Assigned]) -> Vec<Placement> {
    let provider = |left: &Left| {
        let mut assigned = assigned.iter();
        let found = assigned.find(|it| it.operator == left.operator && it.node == left.node);
        found.map_or_else(String::new, |it| it.provider.clone())
    };
    let taken = report.taken.iter().map(|it| Placement {
        op_type: it.operator.clone(),
        name: it.node.clone(),
        provider: EP.to_owned(),
        to: Some(it.to.clone()),
        reason: None,
    });
    let left = report.left.iter();
    let left = left.filter(|it| !it.operator.starts_with("Reverse"));
    let left = left.map(|it| Placement {
        op_type: it.operator.clone(),
        name: it.node.clone(),
        provider: provider(it),
        to: None,
        reason: Some(match it.could_be_replaced {
            true => format!("it could be replaced: {}", it.reason),
            false => it.reason.clone(),
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
            &[
                assigned("ReverseSequence", "a (b)", EP),
                assigned("Neg", "before", "CPUExecutionProvider"),
                assigned("ReverseSequence", "c", "CPUExecutionProvider"),
            ],
            &Report::default(),
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
            let report = serde_json::json!({
                "taken": [],
                "left": [{
                    "operator": "ReverseSequence", "node": "a", "graph": [],
                    "reason": reason, "could_be_replaced": false,
                }],
                "layers": 0,
                "reversals": 0,
            });
            let report = serde_json::from_value(report).unwrap();
            let nodes = [assigned("ReverseSequence", "a", "CPUExecutionProvider")];
            let placements = of(&nodes, &report);
            assert_eq!(placements.len(), 1);
            assert_eq!(placements[0].reason.as_deref(), Some(reason));
            assert_eq!(check(&placements, EP).is_ok(), may, "{reason}");
        }
    }
}
