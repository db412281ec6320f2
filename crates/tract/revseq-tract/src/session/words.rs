//! tract's errors in ONNX's terms: the node, its operator and its inputs.

use std::collections::BTreeMap;
use std::fmt;

use revseq_graph::ElementType;
use revseq_onnx::operators::{Operator, broadcasts};
use revseq_tract_operators::{BeyondLimits, Interrupted, OtherSizes};
use tract_onnx::pb::GraphProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{Factoid, InferenceFact};

use super::values::{element_type, fact_in_words};
use crate::error::{Error, ErrorKind, Explained, MAXIMUM_NAME, Panicked, beginning, shortened};
use crate::read::adapt::node_label;

/// Operators whose errors may be in this project's words.
const OURS: &[&str] = &[
    "AveragePool",
    "CausalConvWithState",
    "Conv",
    "DequantizeLinear",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeLinear",
    "Einsum",
    "GRU",
    "GatedDeltaNet",
    "If",
    "LSTM",
    "LinearAttention",
    "LinearAttentionGate",
    "LogSoftmax",
    "Loop",
    "MatMul",
    "MaxPool",
    "QuantizeLinear",
    "RNN",
    "ReverseSequence",
    "ReverseSubsequences",
    "Scan",
    "Slice",
    "Split",
    "Squeeze",
    "VarlenCausalConvWithState",
];

/// The first opset whose operators runtimes have.
const FIRST_OPSET: i64 = 7;

/// The most characters of a reason of tract's that are shown.
const MAXIMUM_REASON: usize = 160;

/// The nodes of a model, and of the graphs in it.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Their operators by the names that they have for tract.
    operators: BTreeMap<String, String>,
    /// The version of ONNX's own operators.
    opset: i64,
}

impl Nodes {
    /// Those of a graph whose own operators are of a version.
    pub(crate) fn of(graph: &GraphProto, opset: i64) -> Self {
        let mut operators = BTreeMap::new();
        let mut open = vec![graph];
        while let Some(graph) = open.pop() {
            for (index, node) in graph.node.iter().enumerate() {
                operators.insert(node_label(index, node), node.op_type.clone());
                let attributes = node.attribute.iter();
                open.extend(attributes.flat_map(|it| it.g.iter().chain(&it.graphs)));
            }
        }
        Self { operators, opset }
    }

    fn is_early(&self) -> bool {
        self.opset < FIRST_OPSET
    }

    /// A refusal with tract's reason for it, on one line.
    fn with_reason(&self, message: &str, error: &TractError) -> String {
        let root = error.root_cause().to_string();
        let line = root.lines().next().unwrap_or_default();
        // What tract shows of its own types comes last.
        let line = line.split_once('{').map_or(line, |(before, _)| {
            before.split_once(" (").map_or(before, |(before, _)| before)
        });
        let line = line.trim().trim_end_matches(['.', ':']);
        let reason = match line {
            _ if self.is_early() => format!(
                "its operators are of opset {}; convert it to opset {FIRST_OPSET} or later",
                self.opset
            ),
            _ if error.is::<Panicked>() => "tract panicked".to_owned(),
            "" => return message.to_owned(),
            line => beginning(line, MAXIMUM_REASON),
        };
        format!("{message}: {reason}")
    }
}

/// A node that tract does not take.
#[derive(Clone, Debug)]
pub(crate) struct AtNode {
    name: String,
    operator: String,
    /// The types and shapes of its inputs.
    inputs: Vec<String>,
    /// Inputs that would have to be constants, as ONNX names them.
    unknown: Vec<&'static str>,
    /// Whether the sizes of its inputs contradict each other, for any runtime.
    is_contradiction: bool,
}

impl AtNode {
    /// Adds to an error of tract's where it was, unless that is known already: the
    /// innermost node says most. Inputs that are left out have no fact; `places` are those of
    /// the others.
    pub(crate) fn add<'a>(
        error: TractError,
        name: &str,
        operator: &str,
        places: &[usize],
        inputs: impl Iterator<Item = &'a InferenceFact>,
    ) -> TractError {
        let is_told = error.is::<Self>() || error.is::<Explained>();
        if is_told || OURS.contains(&operator) && is_clause(&error.root_cause().to_string()) {
            return error;
        }
        let inputs: Vec<&InferenceFact> = inputs.collect();
        let constants = Operator::of(operator).map_or(&[][..], |it| it.constants);
        let constants = constants.iter();
        let unknown = constants.filter(|(index, _)| {
            let place = places.iter().position(|place| place == index);
            let input = place.and_then(|place| inputs.get(place));
            input.is_some_and(|input| input.value.concretize().is_none())
        });
        let unknown = unknown.map(|(_, name)| *name).collect();
        error.context(Self {
            name: name.to_owned(),
            operator: operator.to_owned(),
            is_contradiction: contradict(operator, &inputs),
            inputs: inputs.into_iter().map(fact_in_words).collect(),
            unknown,
        })
    }
}

/// Whether sizes that a product sums over, or that elementwise operators broadcast, differ.
fn contradict(operator: &str, inputs: &[&InferenceFact]) -> bool {
    // Sizes from the last axis on; of those that are not known none differs.
    let sizes = |fact: &&InferenceFact| -> Vec<Option<i64>> {
        let sizes = fact.shape.concretize().into_iter().flatten().rev();
        sizes.map(|size| size.to_i64().ok()).collect()
    };
    let [a, b] = match inputs.iter().map(sizes).collect::<Vec<_>>() {
        sizes if sizes.len() == 2 => [sizes[0].clone(), sizes[1].clone()],
        _ => return false,
    };
    let differ = |a: Option<i64>, b: Option<i64>| a.zip(b).is_some_and(|(a, b)| a != b);
    match operator {
        "MatMul" if a.len() > 1 && b.len() > 1 => differ(a[0], b[1]),
        _ if broadcasts(operator) => {
            std::iter::zip(a, b).any(|(a, b)| a != Some(1) && b != Some(1) && differ(a, b))
        }
        _ => false,
    }
}

impl fmt::Display for AtNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tract does not take {}",
            node_in_words(&self.name, &self.operator)
        )?;
        if !self.inputs.is_empty() {
            let inputs = shortened(&self.inputs.join(", "), 2 * MAXIMUM_NAME);
            write!(f, " of {inputs}")?;
        }
        if !self.unknown.is_empty() {
            write!(f, ": tract needs constant {}", self.unknown.join(", "))?;
        }
        Ok(())
    }
}

/// A node in words.
pub(crate) fn node_in_words(name: &str, operator: &str) -> String {
    format!("node {:?} ({operator})", shortened(name, MAXIMUM_NAME))
}

/// An error of tract's about a model that is being prepared.
pub(crate) fn of_preparation(error: TractError, nodes: &Nodes) -> Error {
    use ErrorKind::{Model, Unsupported};
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let root = causes.last().cloned().unwrap_or_default();
    let at_node = causes.iter().find_map(|cause| find(cause, nodes));
    let (kind, message, name) = if let Some(explained) = error.downcast_ref::<Explained>() {
        (
            explained.kind,
            explained.message.clone(),
            explained.node.clone(),
        )
    } else if let Some(at) = error.downcast_ref::<AtNode>() {
        let message = match at.unknown.is_empty() {
            true => nodes.with_reason(&at.to_string(), &error),
            false => at.to_string(),
        };
        (Unsupported, message, Some(at.name.clone()))
    } else {
        match at_node {
            Some((name, operator)) if OURS.contains(&operator) && is_clause(&root) => {
                let message = format!("{}: {root}", node_in_words(name, operator));
                (kind_of_ours(&error), message, Some(name.to_owned()))
            }
            Some((name, operator)) => {
                let message = format!("tract does not take {}", node_in_words(name, operator));
                let message = nodes.with_reason(&message, &error);
                (Unsupported, message, Some(name.to_owned()))
            }
            None if causes.len() == 1 && !root.contains(['<', '#']) && !error.is::<Panicked>() => {
                (Model, root, None)
            }
            None => {
                let message = "tract does not take the model with these inputs";
                (Unsupported, nodes.with_reason(message, &error), None)
            }
        }
    };
    let at = error.downcast_ref::<AtNode>();
    let is_everywhere = nodes.is_early() || at.is_some_and(|at| at.is_contradiction);
    Error::caused(kind, message, name, error).everywhere(is_everywhere)
}

/// Whether an error is in this project's words: a clause about the node. tract's are sentences.
fn is_clause(message: &str) -> bool {
    message.starts_with(|first: char| first.is_lowercase() || first.is_numeric())
}

/// The kind of an error about a node that is in this project's words.
fn kind_of_ours(error: &TractError) -> ErrorKind {
    match error.is::<BeyondLimits>() {
        true => ErrorKind::Limit,
        false => ErrorKind::Node,
    }
}

/// An error of tract's in the middle of a run.
pub(crate) fn of_run(error: TractError, nodes: &Nodes) -> Error {
    use ErrorKind::Unsupported;
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let root = causes.last().cloned().unwrap_or_default();
    let is_ours = is_clause(&root) && !error.is::<Panicked>() && !error.is::<OtherSizes>();
    // The innermost node says most.
    let at_node = causes.iter().rev().find_map(|cause| find(cause, nodes));
    let interrupted = error.downcast_ref::<Interrupted>();
    let (kind, message) = match at_node {
        _ if let Some(why) = interrupted => {
            let place = at_node.map(|(name, operator)| node_in_words(name, operator));
            let place = place.map_or(String::new(), |node| format!(", in {node}"));
            (ErrorKind::Interrupted, format!("{why}{place}"))
        }
        Some((name, operator)) if is_ours => {
            let message = format!("{}: {root}", node_in_words(name, operator));
            (kind_of_ours(&error), message)
        }
        Some((name, operator)) => {
            let message = format!("tract cannot run {}", node_in_words(name, operator));
            let message = match lacking_type(&root) {
                Some(elements) => format!("{message} of {}", elements.name()),
                None => nodes.with_reason(&message, &error),
            };
            (Unsupported, message)
        }
        None if is_ours => (kind_of_ours(&error), root),
        None => {
            let message = "tract cannot run the model with these inputs";
            (Unsupported, nodes.with_reason(message, &error))
        }
    };
    let name = at_node.map(|(name, _)| name.to_owned());
    Error::caused(kind, message, name, error)
}

/// The element type that tract's message says an operator lacks: `Sigmoid does not support I64`.
fn lacking_type(message: &str) -> Option<ElementType> {
    let (_, name) = message.split_once(" does not support ")?;
    element_type(name.parse().ok()?)
}

/// The node that a message is about: `node #3 "name" Op` or `Evaluating #3 "name" Op` of tract's, where
/// the name may have more text, `Building node name (Op)`, or `Loop "name"` of our own.
fn find<'a>(message: &str, nodes: &'a Nodes) -> Option<(&'a str, &'a str)> {
    let name = match message.strip_prefix("Building node ") {
        Some(behind) => behind.rsplit_once(" (")?.0,
        None => {
            let behind = ["node #", "Evaluating #"]
                .iter()
                .find_map(|words| Some(message.split_once(words)?.1))
                .or_else(|| message.strip_prefix("Loop "))?;
            let (_, behind) = behind.split_once('"')?;
            behind.split_once('"')?.0
        }
    };
    let is_of = |node: &str| {
        let behind = name.strip_prefix(node);
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '/']))
    };
    let named = nodes.operators.iter().filter(|(node, _)| is_of(node));
    let (name, operator) = named.max_by_key(|(node, _)| node.len())?;
    Some((name, operator))
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_hir::internal::*;

    use super::*;

    fn nodes<const N: usize>(operators: [(&str, &str); N], opset: i64) -> Nodes {
        let operators = operators.map(|(name, operator)| (name.to_owned(), operator.to_owned()));
        Nodes {
            operators: operators.into(),
            opset,
        }
    }

    #[test]
    fn errors_of_a_run_name_the_node() {
        let nodes = nodes([("a", "Mod")], 17);
        let at = |error: TractError| error.context("Evaluating #4 \"a.sq\" Square");
        let panicked = || TractError::from(Panicked("index out of bounds".to_owned()));
        let rows = [
            (
                at(format_err!("it divides by 0")),
                "node \"a\" (Mod): it divides by 0",
                ErrorKind::Node,
            ),
            (
                at(format_err!("Square does not support I64")),
                "tract cannot run node \"a\" (Mod) of int64",
                ErrorKind::Unsupported,
            ),
            (
                at(panicked()),
                "tract cannot run node \"a\" (Mod): tract panicked",
                ErrorKind::Unsupported,
            ),
            (
                panicked(),
                "tract cannot run the model with these inputs: tract panicked",
                ErrorKind::Unsupported,
            ),
            (
                format_err!("its steps end").context("Evaluating #4 \"other\" Scan"),
                "its steps end",
                ErrorKind::Node,
            ),
        ];
        for (error, expected, kind) in rows {
            let error = of_run(error, &nodes);
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.kind(), kind, "{expected}");
        }
    }

    #[test]
    fn refusals_are_one_short_line() {
        let known = nodes([("a", "Resize"), ("a/b", "Loop")], 17);
        let inner = || format_err!("Symbol <Sym0> points to an invalid SymbolScope");
        let rows = [
            (
                inner().context("declutter node #5 \"a.5\" DynSlice"),
                "tract does not take node \"a\" (Resize): Symbol <Sym0> points to an invalid SymbolScope",
            ),
            (
                format_err!("its states differ").context("node #7 \"a/b\" Loop"),
                "node \"a/b\" (Loop): its states differ",
            ),
            (
                format_err!("Impossible to unify 5 with 3. (Turn(Values {{ 5 }}))")
                    .context("node #7 \"a/b\" Loop"),
                "tract does not take node \"a/b\" (Loop): Impossible to unify 5 with 3",
            ),
            (
                inner(),
                "tract does not take the model with these inputs: Symbol <Sym0> points to an invalid SymbolScope",
            ),
            (format_err!("no node produces it"), "no node produces it"),
            (
                format_err!("it is nested too deeply").context("Building node a/b (Loop)"),
                "node \"a/b\" (Loop): it is nested too deeply",
            ),
            (
                AtNode::add(inner(), "x", "Tile", &[], [].iter()).context("outside"),
                "tract does not take node \"x\" (Tile): Symbol <Sym0> points to an invalid SymbolScope",
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
                 constant repeats",
            ),
        ];
        for (error, expected) in rows {
            let error = of_preparation(error, &known);
            assert_eq!(error.to_string(), expected);
            assert_eq!(
                error.may_run_elsewhere(),
                error.kind() == ErrorKind::Unsupported
            );
        }
        let sizes = |sizes: [usize; 2]| InferenceFact::dt_shape(f32::datum_type(), sizes);
        for (operator, a, b, is_contradiction) in [
            ("MatMul", [2, 5], [4, 8], true),
            ("MatMul", [2, 4], [4, 8], false),
            ("Add", [2, 5], [1, 4], true),
            ("Add", [2, 5], [2, 1], false),
            ("Gemm", [2, 5], [4, 8], false),
        ] {
            let facts = [sizes(a), sizes(b)];
            let error = AtNode::add(inner(), "x", operator, &[0, 1], facts.iter());
            let error = of_preparation(error, &known);
            assert_eq!(error.may_run_elsewhere(), !is_contradiction, "{error}");
        }
        let early = nodes([("a", "Add")], 3);
        let error = of_preparation(inner().context("node #5 \"a\" Add"), &early);
        assert!(!error.may_run_elsewhere());
        assert_eq!(
            error.to_string(),
            "tract does not take node \"a\" (Add): its operators are of opset 3; convert it to opset 7 or \
             later"
        );
    }
}
