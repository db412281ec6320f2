//! tract's errors in ONNX's terms: the node, its operator and its inputs.
//!
//! tract's own message, which names its types and passes, is shown if `REVSEQ_BACKTRACE` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Error, anyhow};
use tract_onnx::tract_hir::infer::{Factoid, InferenceFact};

use super::fixed;
use crate::model::values::ValueType;

/// The variable of the environment with which tract's own words are shown.
const BACKTRACE: &str = "REVSEQ_BACKTRACE";

/// A way around it.
const ADVICE: &str = "--backend ort may run it";

/// The most characters of a name, and of all names, that are shown.
const MAXIMUM_NAME: usize = 60;
const MAXIMUM_NAMES: usize = 280;

/// Operators whose errors are in this project's words.
const OURS: [&str; 11] = [
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "GRU",
    "If",
    "LSTM",
    "Loop",
    "QuantizeLinear",
    "RNN",
    "ReverseSequence",
    "ReverseSubsequences",
    "Scan",
];

/// An error whose message is already in ONNX's terms.
#[derive(Debug)]
pub(super) struct Explained(pub(super) String);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Explained {}

/// A panic of tract's, with its message.
#[derive(Debug)]
pub(super) struct Panicked(pub(super) String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tract panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

/// A node that tract does not take.
#[derive(Clone, Debug)]
pub(super) struct AtNode {
    pub(super) name: String,
    pub(super) operator: String,
    /// The types and shapes of its inputs.
    inputs: Vec<ValueType>,
    /// Inputs that would have to be constants, as ONNX names them.
    unknown: Vec<&'static str>,
}

impl AtNode {
    /// Adds to an error of tract's where it was, unless that is known already: the
    /// innermost node says most. Inputs that are left out have no fact; `places` are those of
    /// the others.
    pub(super) fn add<'a>(
        error: Error,
        name: &str,
        operator: &str,
        places: &[usize],
        inputs: impl Iterator<Item = &'a InferenceFact>,
    ) -> Error {
        let is_told = error.is::<Self>() || error.is::<Explained>();
        if OURS.contains(&operator) || is_told {
            return error;
        }
        let inputs: Vec<&InferenceFact> = inputs.collect();
        let wanted = fixed::wanted(operator).iter();
        let unknown = wanted.filter(|(index, _)| {
            let place = places.iter().position(|place| place == index);
            let input = place.and_then(|place| inputs.get(place));
            input.is_some_and(|input| input.value.concretize().is_none())
        });
        let unknown = unknown.map(|(_, name)| *name).collect();
        let names = BTreeSet::new();
        let inputs = inputs.into_iter();
        error.context(Self {
            name: name.to_owned(),
            operator: operator.to_owned(),
            inputs: inputs
                .map(|it| super::shapes::value_type(it, &names))
                .collect(),
            unknown,
        })
    }
}

impl fmt::Display for AtNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tract does not take {}",
            node(&self.name, &self.operator)
        )?;
        if !self.inputs.is_empty() {
            let inputs: Vec<String> = self.inputs.iter().map(ToString::to_string).collect();
            write!(f, " of {}", shortened(&inputs.join(", "), 2 * MAXIMUM_NAME))?;
        }
        if !self.unknown.is_empty() {
            write!(f, ": tract needs constant {}", self.unknown.join(", "))?;
        }
        Ok(())
    }
}

/// A node in words.
fn node(name: &str, operator: &str) -> String {
    format!("node {:?} ({operator})", shortened(name, MAXIMUM_NAME))
}

/// The end of a text that is too long: the names that exporters write begin alike.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - most).collect();
    format!("…{end}")
}

/// An error of tract's about a model, in ONNX's words and on one line. `nodes` are the names and
/// operators of its nodes.
pub(super) fn in_words_of_onnx(error: Error, nodes: &BTreeMap<String, String>) -> Error {
    if std::env::var_os(BACKTRACE).is_some() {
        return error;
    }
    if let Some(Explained(why)) = error.downcast_ref() {
        return anyhow!("{why}");
    }
    if let Some(at) = error.downcast_ref::<AtNode>() {
        return anyhow!("{at}; {ADVICE}");
    }
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let root = causes.last().cloned().unwrap_or_default();
    let found = causes.iter().find_map(|cause| find(cause, nodes));
    match found {
        Some((name, operator)) if OURS.contains(&operator) => {
            anyhow!("{}: {root}", node(name, operator))
        }
        Some((name, operator)) => anyhow!("tract does not take {}; {ADVICE}", node(name, operator)),
        None if causes.len() == 1 && !root.contains(['<', '#']) && !error.is::<Panicked>() => error,
        None => anyhow!("tract does not take the model with these inputs; {ADVICE}"),
    }
}

/// The same of an error in the middle of a run. Those of this project's operators are clauses, which
/// begin with a small letter.
pub(super) fn of_run(error: Error, nodes: &BTreeMap<String, String>) -> Error {
    if std::env::var_os(BACKTRACE).is_some() {
        return error;
    }
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let root = causes.last().cloned().unwrap_or_default();
    let is_ours = root.starts_with(char::is_lowercase) && !error.is::<Panicked>();
    // The innermost node says most.
    match causes.iter().rev().find_map(|cause| find(cause, nodes)) {
        Some((name, operator)) if is_ours => anyhow!("{}: {root}", node(name, operator)),
        Some((name, operator)) => anyhow!("tract cannot run {}; {ADVICE}", node(name, operator)),
        None if is_ours => error,
        None => anyhow!("tract cannot run the model with these inputs; {ADVICE}"),
    }
}

/// The node that a message of tract's is about: `node #3 "name" Op` or `Evaluating #3 "name" Op`,
/// where the name may have more text, or `Building node name (Op)`.
fn find<'a>(message: &str, nodes: &'a BTreeMap<String, String>) -> Option<(&'a str, &'a str)> {
    let name = match message.strip_prefix("Building node ") {
        Some(behind) => behind.rsplit_once(" (")?.0,
        None => {
            let (_, behind) =
                (message.split_once("node #")).or_else(|| message.split_once("Evaluating #"))?;
            let (_, behind) = behind.split_once('"')?;
            behind.split_once('"')?.0
        }
    };
    let is_of = |node: &str| {
        let behind = name.strip_prefix(node);
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '/']))
    };
    let found = nodes.iter().filter(|(node, _)| is_of(node));
    let (name, operator) = found.max_by_key(|(node, _)| node.len())?;
    Some((name, operator))
}

/// The operators that tract lacks for a model.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// The nodes of each operator.
    operators: BTreeMap<String, Vec<String>>,
    /// In the order of the message.
    others: BTreeSet<(u8, String)>,
}

impl Lacking {
    pub(super) fn operator(&mut self, operator: String, node: String) {
        self.operators.entry(operator).or_default().push(node);
    }

    /// Something else, with its place among others of its kind.
    pub(super) fn other(&mut self, what: (u8, String)) {
        self.others.insert(what);
    }

    /// All of it on one line, as far as that has room; `None` if nothing is lacking.
    pub(super) fn message(self) -> Option<String> {
        let advice = if self.operators.is_empty() {
            String::new()
        } else {
            format!("; {ADVICE}")
        };
        let operators = self.operators.iter().map(|(operator, nodes)| {
            let first = shortened(&nodes[0], MAXIMUM_NAME);
            match nodes.len() {
                1 => format!("{operator} (node {first:?})"),
                2 => format!("{operator} (node {first:?} and another)"),
                count => format!("{operator} (node {first:?} and {} others)", count - 1),
            }
        });
        let others = self.others.iter().map(|(_, what)| what.clone());
        let all: Vec<String> = operators.chain(others).collect();
        let mut text = String::new();
        for (index, what) in all.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            if text.len() + what.len() > MAXIMUM_NAMES && index > 0 {
                text += &format!(" and {} more", all.len() - index);
                break;
            }
            text += separator;
            text += what;
        }
        (!all.is_empty()).then(|| format!("tract has no {text}{advice}"))
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx::prelude::*;

    use super::*;

    #[test]
    fn errors_of_a_run_name_the_node() {
        let nodes = BTreeMap::from([("a".to_owned(), "Mod".to_owned())]);
        let at = |error: Error| error.context("Evaluating #4 \"a.sq\" Square");
        let rows = [
            (
                at(anyhow!("it divides by 0")),
                "node \"a\" (Mod): it divides by 0",
            ),
            (
                at(anyhow!("Square does not support I64")),
                "tract cannot run node \"a\" (Mod); --backend ort may run it",
            ),
            (
                at(anyhow!(Panicked("index out of bounds".to_owned()))),
                "tract cannot run node \"a\" (Mod); --backend ort may run it",
            ),
            (
                anyhow!(Panicked("index out of bounds".to_owned())),
                "tract cannot run the model with these inputs; --backend ort may run it",
            ),
            (anyhow!("its steps end"), "its steps end"),
        ];
        for (error, expected) in rows {
            assert_eq!(of_run(error, &nodes).to_string(), expected);
        }
    }

    #[test]
    fn refusals_are_one_short_line() {
        let nodes = BTreeMap::from([
            ("a".to_owned(), "Slice".to_owned()),
            ("a/b".to_owned(), "Loop".to_owned()),
        ]);
        let message = |error: Error| in_words_of_onnx(error, &nodes).to_string();
        let inner = || anyhow!("Symbol <Sym0> points to an invalid SymbolScope");
        let rows = [
            (
                inner().context("declutter node #5 \"a.5\" DynSlice"),
                "tract does not take node \"a\" (Slice); --backend ort may run it",
            ),
            (
                anyhow!("its states differ").context("node #7 \"a/b\" Loop"),
                "node \"a/b\" (Loop): its states differ",
            ),
            (
                inner(),
                "tract does not take the model with these inputs; --backend ort may run it",
            ),
            (anyhow!("no node produces it"), "no node produces it"),
            (
                anyhow!("it is nested too deeply").context("Building node a/b (Loop)"),
                "node \"a/b\" (Loop): it is nested too deeply",
            ),
            (
                AtNode::add(inner(), "x", "Tile", &[], [].iter()).context("outside"),
                "tract does not take node \"x\" (Tile); --backend ort may run it",
            ),
            (
                AtNode::add(
                    inner(),
                    "x",
                    "Tile",
                    &[0, 1],
                    [
                        InferenceFact::dt_shape(f32::datum_type(), [2, 3]),
                        InferenceFact::dt_shape(i64::datum_type(), [2]),
                    ]
                    .iter(),
                ),
                "tract does not take node \"x\" (Tile) of float[2,3], int64[2]: tract needs \
                 constant repeats; --backend ort may run it",
            ),
        ];
        for (error, expected) in rows {
            assert_eq!(message(error), expected);
        }
    }

    #[test]
    fn missing_operators_fit_one_line() {
        let mut lacking = Lacking::default();
        assert_eq!(Lacking::default().message(), None);
        for index in 0..3 {
            lacking.operator("Foo".to_owned(), format!("n{index}"));
        }
        lacking.operator("com.example::Bar".to_owned(), "b".repeat(100));
        lacking.other((0, "bfloat16".to_owned()));
        let bar = "b".repeat(MAXIMUM_NAME);
        assert_eq!(
            lacking.message(),
            Some(format!(
                "tract has no Foo (node \"n0\" and 2 others), com.example::Bar (node \"…{bar}\"), \
                 bfloat16; --backend ort may run it"
            ))
        );
        let mut lacking = Lacking::default();
        for index in 0..50 {
            lacking.operator(format!("Operator{index}"), "x".repeat(80));
        }
        let message = lacking.message().expect("something is lacking");
        assert!(
            message.len() < 400 && message.contains(" more; "),
            "{message}"
        );
    }
}
