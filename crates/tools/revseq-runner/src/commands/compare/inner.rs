//! The values between the nodes of a model, on two sides.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::{Compared, Ran};
use crate::backend::Engine;
use crate::chain;
use crate::escape::printable;
use crate::model::Model;
use crate::model::inner::Produced;
use crate::style::FAILED;
use crate::tensor::compare::{Difference, Tolerance};
use crate::tensor::{Tensor, Tensors};
use crate::units::first_of;

/// The operators whose outputs are sequences or optionals, which no backend returns.
const NO_TENSORS: [&str; 8] = [
    "Optional",
    "OptionalGetElement",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceMap",
    "SplitToSequence",
];

/// Number of values that are named in text for each reason why they are not compared.
const NAMES_TOLD: usize = 5;

/// The values of a model on a backend.
pub(super) struct Inner {
    /// The values in the order in which they are computed, each with its tensor or the reason why
    /// there is none.
    values: Vec<(Produced, Result<Tensor, String>)>,
    /// Number of values within nodes.
    nested: usize,
}

/// Runs a model with all values between its nodes as outputs.
pub(super) fn run(engine: &Engine, model: &Model, given: &Tensors) -> Result<Ran> {
    let produced = model.produced();
    let is_tensor = |value: &&Produced| !NO_TENSORS.contains(&value.operator.as_str());
    let all = model.with_outputs(produced.iter().filter(is_tensor))?;
    let own = model.output_names().len();
    let run = || engine.ready(&all)?.run_each(given);
    let mut by_name: HashMap<String, Result<Tensor, String>> = HashMap::new();
    let (outputs, refused) = match run() {
        Ok(mut results) => {
            let inner = results.split_off(own).into_iter();
            let outputs: Vec<Tensor> = results.into_iter().collect::<Result<_>>()?;
            let inner = inner.map(|result| result.map_err(|error| chain(&error)));
            let all_results = outputs.iter().cloned().map(Ok).chain(inner);
            by_name.extend(std::iter::zip(all.output_names(), all_results));
            (outputs, None)
        }
        // The model itself may run all the same.
        Err(why) => {
            let ran = super::outputs(engine, model, given)?;
            (ran.outputs, Some(chain(&why)))
        }
    };
    let values = produced.into_iter().map(|value| {
        let is_no_tensor = || format!("it is no tensor: {}", value.operator);
        let result = by_name.remove(&value.name);
        let result = result.unwrap_or_else(|| Err(refused.clone().unwrap_or_else(is_no_tensor)));
        (value, result)
    });
    Ok(Ran {
        outputs,
        inner: Some(Inner {
            values: values.collect(),
            nested: model.count_nested(),
        }),
    })
}

impl Inner {
    /// Compares the values of another side with these.
    pub(super) fn compare(&self, other: &Self, tolerance: impl Fn(&str) -> Tolerance) -> InnerRow {
        let others: HashMap<&str, &Result<Tensor, String>> = other
            .values
            .iter()
            .map(|(value, result)| (value.name.as_str(), result))
            .collect();
        let mut row = InnerRow {
            within_nodes: self.nested.max(other.nested),
            ..InnerRow::default()
        };
        for (value, expected) in &self.values {
            let name = &value.name;
            match (expected, others.get(name.as_str())) {
                (Ok(expected), Some(Ok(got))) => {
                    row.compared += 1;
                    match Compared::new(expected, got, tolerance(name)) {
                        Compared::Same => row.equal += 1,
                        Compared::Close(_) => row.within_tolerance += 1,
                        Compared::Different(difference) => row.different.push(Different {
                            value: value.clone(),
                            difference,
                        }),
                    }
                }
                (Err(why), _) | (Ok(_), Some(Err(why))) => row.leave_out(name, why),
                (Ok(_), None) => row.leave_out(name, "the other model has no value of this name"),
            }
        }
        row
    }
}

/// Comparison of the values of a side with the expected ones.
#[derive(Default, Serialize)]
pub(super) struct InnerRow {
    /// Number of all values that are compared, of those that are the same, and of others within the tolerance.
    compared: usize,
    equal: usize,
    within_tolerance: usize,
    /// The first that is computed comes first.
    different: Vec<Different>,
    not_compared: Vec<NotCompared>,
    /// Number of values within nodes, such as loops, which are not compared either.
    within_nodes: usize,
}

/// A value that differs.
#[derive(Serialize)]
struct Different {
    #[serde(flatten)]
    value: Produced,
    difference: Difference,
}

/// A value that is not compared.
#[derive(Serialize)]
struct NotCompared {
    name: String,
    reason: String,
}

impl InnerRow {
    pub(super) fn is_different(&self) -> bool {
        !self.different.is_empty()
    }

    fn leave_out(&mut self, name: &str, reason: &str) {
        self.not_compared.push(NotCompared {
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(
            out,
            "  values between nodes: {} compared, {} equal bit for bit, {} within the tolerance, {} \
             different",
            self.compared,
            self.equal,
            self.within_tolerance,
            self.different.len()
        )?;
        if let Some(Different { value, difference }) = self.different.first() {
            let (node, operator) = (printable(&value.node), printable(&value.operator));
            let name = printable(&value.name);
            writeln!(
                out,
                "  {FAILED}first difference{FAILED:#}: {name}, of node {node:?} ({operator})\n    \
                 {difference}"
            )?;
        }
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for NotCompared { name, reason } in &self.not_compared {
            by_reason.entry(reason).or_default().push(name);
        }
        for (why, names) in by_reason {
            let shown = first_of(&names, NAMES_TOLD);
            let (shown, why) = (printable(&shown), printable(why));
            writeln!(out, "  not compared: {why}\n    {shown}")?;
        }
        if self.within_nodes > 0 {
            let count = self.within_nodes;
            writeln!(out, "  not compared: {count} values within nodes")?;
        }
        Ok(())
    }
}
