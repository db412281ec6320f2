//! The definition of a pass, below the passes themselves and their driver.
//!
//! A pass is a function from a node to a verdict. It changes nothing, so that all edits of a round
//! can be applied together. It sees the node's graph (`Scope`), which knows who makes and who reads
//! a value, and a [`Context`] with the options, the whole model, and what is found once for all
//! nodes.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

use crate::emit::Emit;
use crate::model::{GraphProto, ModelProto, NodeProto};
use crate::origins::origins;
use crate::report::Exactness;
use crate::scope::{Names, Scope};
pub(crate) use crate::verdict::{Edit, Left, Other, Verdict};

/// The recurrent layers of ONNX.
pub(crate) const LAYERS: &[&str] = &["GRU", "LSTM", "RNN"];

/// Options of a rewrite.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to remove every ReverseSequence and ReverseSubsequences.
    pub portable: bool,
    /// Whether to make the model cheaper to run.
    pub fast: bool,
    /// Name of one of [`RUNTIMES`](crate::RUNTIMES), whose form the model is brought into.
    pub runtime: Option<String>,
    /// Names of further passes.
    pub passes: Vec<String>,
    /// Facts that the caller vouches for.
    pub assume: Assumptions,
    /// Whether loops with masks become [masked layers](crate::masked), for a host that computes
    /// these. Loops are then read as they run, without the flips around them, and an initial state
    /// that is 0 is absent.
    pub masked_layers: bool,
    /// Whether the host's LSTM and GRU take an empty batch and no steps. ONNX Runtime's end the process,
    /// so that the layers of loops refuse these otherwise, unless the host takes masks.
    pub takes_empty: bool,
}

impl Options {
    /// Whether the LSTM and GRU that are written may be computed by ONNX Runtime itself, which ends the
    /// process where they get nothing.
    pub(crate) fn may_be_onnx_runtime(&self) -> bool {
        let takes_empty = self.takes_empty || self.masked_layers;
        let runtime = self.runtime.as_deref();
        !takes_empty && runtime.is_none_or(|it| it == "onnxruntime-web")
    }
}

/// Facts that the caller vouches for because the graph cannot prove them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// The valid steps come first in every mask.
    pub right_padded: bool,
    /// No caller replaces an initializer that is an input as well.
    pub constant_initializers: bool,
}

/// The description of a pass.
#[derive(Debug)]
pub struct PassInfo {
    /// Its name.
    pub name: &'static str,
    /// The exactness of its results.
    pub exactness: Exactness,
    /// A one-line description.
    pub about: &'static str,
    /// Whether it removes operators that a runtime may lack.
    pub portable: bool,
    /// Whether it makes models cheaper.
    pub fast: bool,
}

/// A pass.
pub(crate) struct Pass {
    pub(crate) info: PassInfo,
    /// The domain and the operators that it applies to; any if there are none.
    domain: &'static str,
    operators: &'static [&'static str],
    /// Whether it changes loops that stay loops: not for a host that asks what runs instead of them, and
    /// what the other passes say is about loops as they were written.
    pub(crate) keeps_loops: bool,
    pub(crate) find: Find,
}

/// Inspects a node.
pub(crate) type Find = fn(&At<'_>) -> Verdict;

/// A node that a pass looks at.
pub(crate) struct At<'a> {
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) node: &'a NodeProto,
    /// Its index in its graph.
    pub(crate) index: usize,
    pub(crate) context: &'a Context<'a>,
    pub(crate) names: &'a Names,
}

impl<'a> At<'a> {
    /// An input; a node without it is no pass's.
    pub(crate) fn input(&self, index: usize) -> Result<&'a str, Left> {
        self.node.input(index).ok_or(Other)
    }

    /// The first output; a node without it is no pass's.
    pub(crate) fn output(&self) -> Result<&'a str, Left> {
        self.node.output.first().map(String::as_str).ok_or(Other)
    }

    /// Starts a replacement that makes the first output.
    pub(crate) fn replacement(&self) -> Result<Emit<'a>, Left> {
        Ok(self.emit(self.output()?))
    }

    /// The node with a name like the one by which reports call it, for one that stays in another place.
    pub(crate) fn named(&self) -> NodeProto {
        let mut node = self.node.clone();
        if node.name().is_empty() {
            node.name = Some(self.names.fresh(&self.node.label(self.index)));
        }
        node
    }

    /// Starts a replacement whose new names begin with one.
    pub(crate) fn emit(&self, prefix: &str) -> Emit<'a> {
        Emit::new(prefix, self.scope.opset, self.names)
    }
}

impl Pass {
    /// A pass that runs where it is asked for by name, or by a runtime.
    const fn new(
        name: &'static str,
        exactness: Exactness,
        about: &'static str,
        find: Find,
    ) -> Self {
        let info = PassInfo {
            name,
            exactness,
            about,
            portable: false,
            fast: false,
        };
        Self {
            info,
            domain: "",
            operators: &[],
            keeps_loops: false,
            find,
        }
    }

    /// One whose results are the same to the bit.
    pub(crate) const fn exact(name: &'static str, about: &'static str, find: Find) -> Self {
        Self::new(name, Exactness::Exact, about, find)
    }

    /// One whose results differ by rounding.
    pub(crate) const fn rounding(name: &'static str, about: &'static str, find: Find) -> Self {
        Self::new(name, Exactness::Rounding, about, find)
    }

    /// The same, for these operators of ONNX's own.
    pub(crate) const fn of(self, operators: &'static [&'static str]) -> Self {
        self.of_domain("", operators)
    }

    /// The same, for these operators of a domain.
    pub(crate) const fn of_domain(
        mut self,
        domain: &'static str,
        operators: &'static [&'static str],
    ) -> Self {
        (self.domain, self.operators) = (domain, operators);
        self
    }

    /// Whether it may apply to nodes of an operator.
    pub(crate) fn concerns(&self, operator: &str) -> bool {
        self.operators.contains(&operator)
    }

    /// Whether it applies to a node's operator.
    pub(crate) fn is_for(&self, node: &NodeProto) -> bool {
        self.operators.is_empty() || node.domain() == self.domain && self.concerns(node.op())
    }

    /// The same, removing operators that a runtime may lack.
    pub(crate) const fn portable(mut self) -> Self {
        self.info.portable = true;
        self
    }

    /// The same, making models cheaper.
    pub(crate) const fn fast(mut self) -> Self {
        self.info.fast = true;
        self
    }

    /// The same, for loops that stay loops.
    pub(crate) const fn keeping_loops(mut self) -> Self {
        self.keeps_loops = true;
        self
    }
}

/// The first opset in which the branches of an If may differ in shape. ONNX Runtime refuses a model where it
/// knows that they do. It does not know what a Loop outputs, but knows it of what takes its place.
const BRANCHES_OF_OWN_SHAPES: i64 = 11;

/// The data that a pass may inspect besides the graph.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) model: &'a ModelProto,
    /// Whether nodes are left for [later](Left::Later).
    pub(crate) waits: bool,
    /// The values from which follows what branches output.
    of_branches: OnceCell<HashSet<String>>,
    /// Verdicts about nodes that were found together, for each graph by the address of its nodes.
    verdicts: RefCell<HashMap<usize, HashMap<usize, Verdict>>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(options: &'a Options, model: &'a ModelProto, waits: bool) -> Self {
        Self {
            options,
            model,
            waits,
            of_branches: OnceCell::new(),
            verdicts: RefCell::default(),
        }
    }

    /// Says why no other node may take the place of a Loop or Scan, if runtimes would know a shape then
    /// that an If does not allow.
    pub(crate) fn refusal(&self, scope: &Scope<'_>, node: &NodeProto) -> Option<String> {
        if scope.opset >= BRANCHES_OF_OWN_SHAPES || !(node.is("Loop") || node.is("Scan")) {
            return None;
        }
        let of_branches = self.of_branches.get_or_init(|| {
            let values = origins(self.model, |node| match node.is("If") {
                true => node.graphs().flat_map(GraphProto::outputs).collect(),
                false => Vec::new(),
            });
            values.into_iter().map(str::to_owned).collect()
        });
        let output = node.outputs().find(|it| of_branches.contains(*it))?;
        Some(format!(
            "a branch of an If depends on {output}, and version {} of ONNX's operators has no branches of \
             other shapes",
            scope.opset
        ))
    }

    /// The verdict about a node of a graph, where those about all nodes are found at once: by `find`,
    /// when the graph's first node is looked at.
    pub(crate) fn verdict(
        &self,
        at: &At<'_>,
        find: impl FnOnce() -> HashMap<usize, Verdict>,
    ) -> Verdict {
        // A context lives for one round of one pass, in which no node moves: the address names the
        // graph.
        let mut all = self.verdicts.borrow_mut();
        let graph = at.scope.nodes.as_ptr().addr();
        let of_graph = all.entry(graph).or_insert_with(find);
        of_graph.remove(&at.index).unwrap_or(Err(Other))
    }
}
