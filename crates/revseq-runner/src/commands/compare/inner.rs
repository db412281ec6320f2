//! The values between the nodes of a model, on two sides.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::{Value as Json, json};

use super::{Compared, Ran};
use crate::backend::Engine;
use crate::chain;
use crate::escape::printable;
use crate::model::Model;
use crate::model::inner::Produced;
use crate::tensor::compare::{Difference, Tolerance};
use crate::tensor::{Tensor, Tensors};

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
    let run = || engine.load(&all)?.ready()?.run_each(given);
    let results = match run() {
        Ok(results) => results,
        Err(why) => {
            // The model itself may run all the same.
            let ran = super::outputs(engine, model, given)?;
            let why = chain(&why);
            let values = produced.into_iter().map(|value| (value, Err(why.clone())));
            return Ok(Ran {
                inner: Some(Inner {
                    values: values.collect(),
                    nested: model.count_nested(),
                }),
                ..ran
            });
        }
    };
    let own = model.output_names().len();
    let mut results = results.into_iter();
    let outputs: Vec<Tensor> = results.by_ref().take(own).collect::<Result<_>>()?;
    let mut by_name: HashMap<String, Result<Tensor, String>> = HashMap::new();
    for (name, output) in std::iter::zip(model.output_names(), &outputs) {
        by_name.insert(name, Ok(output.clone()));
    }
    for (name, result) in std::iter::zip(all.output_names().into_iter().skip(own), results) {
        by_name.insert(name, result.map_err(|error| chain(&error)));
    }
    let values = produced.into_iter().map(|value| {
        let result = by_name.remove(&value.name);
        let result = result.unwrap_or_else(|| Err(format!("it is no tensor: {}", value.operator)));
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
            same: 0,
            close: 0,
            different: Vec::new(),
            not_compared: Vec::new(),
            nested: self.nested.max(other.nested),
        };
        for (value, expected) in &self.values {
            let name = &value.name;
            match (expected, others.get(name.as_str())) {
                (Ok(expected), Some(Ok(got))) => {
                    match Compared::new(expected, got, tolerance(name)) {
                        Compared::Same => row.same += 1,
                        Compared::Close(_) => row.close += 1,
                        Compared::Different(difference) => {
                            row.different.push((value.clone(), difference));
                        }
                    }
                }
                (Err(why), _) | (Ok(_), Some(Err(why))) => {
                    row.not_compared.push((name.clone(), why.clone()));
                }
                (Ok(_), None) => {
                    let why = "the other model has no value of this name".to_owned();
                    row.not_compared.push((name.clone(), why));
                }
            }
        }
        row
    }
}

/// Comparison of the values of a side with the expected ones.
pub(super) struct InnerRow {
    same: usize,
    /// Number of values within the tolerance.
    close: usize,
    /// The first that is computed comes first.
    different: Vec<(Produced, Difference)>,
    /// The names of the values that are not compared, each with the reason.
    not_compared: Vec<(String, String)>,
    /// Number of values within nodes, such as loops, which are not compared either.
    nested: usize,
}

impl InnerRow {
    pub(super) fn is_different(&self) -> bool {
        !self.different.is_empty()
    }

    fn count(&self) -> usize {
        self.same + self.close + self.different.len()
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        writeln!(
            out,
            "  values between nodes: {} compared, {} equal bit for bit, {} within the tolerance, {} \
             different",
            self.count(),
            self.same,
            self.close,
            self.different.len()
        )?;
        if let Some((value, difference)) = self.different.first() {
            let (node, operator) = (printable(&value.node), printable(&value.operator));
            let name = printable(&value.name);
            writeln!(
                out,
                "  {red}first difference{red:#}: {name}, of node {node:?} ({operator})\n    {difference}"
            )?;
        }
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, why) in &self.not_compared {
            by_reason.entry(why).or_default().push(name);
        }
        for (why, names) in by_reason {
            let shown = names.iter().take(NAMES_TOLD).copied();
            let mut shown = shown.collect::<Vec<_>>().join(", ");
            if let Some(more @ 1..) = names.len().checked_sub(NAMES_TOLD) {
                shown += &format!(" and {more} more");
            }
            let (shown, why) = (printable(&shown), printable(why));
            writeln!(out, "  not compared: {why}\n    {shown}")?;
        }
        if self.nested > 0 {
            writeln!(out, "  not compared: {} values within nodes", self.nested)?;
        }
        Ok(())
    }

    pub(super) fn json(&self) -> Json {
        let different = self.different.iter().map(|(value, difference)| {
            json!({
                "name": value.name,
                "node": value.node,
                "operator": value.operator,
                "difference": difference.json(),
            })
        });
        let not_compared = self.not_compared.iter();
        let not_compared = not_compared.map(|(name, why)| json!({ "name": name, "reason": why }));
        json!({
            "compared": self.count(),
            "equal": self.same,
            "within_tolerance": self.close,
            "different": different.collect::<Json>(),
            "not_compared": not_compared.collect::<Json>(),
            "within_nodes": self.nested,
        })
    }
}
