//! The context of a node being parsed: facts about its inputs, and the readers of its output.
//!
//! tract parses a node without its surroundings, and infers shapes later from facts, which do not
//! say how a value was computed. This looks at the graph's protobuf instead, and at those around
//! it. What an operator that it does not know computes is unknown, and no error.
//!
//! ```text
//! starts = step, ends = Add(step, 1)  →  Offset(step, 0), Offset(step, 1): a slice of one element
//! ```

use std::cell::Cell;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{GraphProto, NodeProto, TensorProto};
use tract_onnx::tract_hir::internal::*;

/// The most nodes that are visited for one parsed node.
const MAXIMUM_NODES: usize = 256;

/// The most elements of a constant that may be a list of bounds, axes or sizes: a tensor has at most
/// 64 axes, and two pads for each.
const MAXIMUM_ELEMENTS: i64 = 128;

/// Returns the elements of an integer constant of at most 128 elements, by its name where a node is
/// parsed; `None` if it is no constant.
///
/// # Errors
/// tract cannot read the tensor.
pub fn constant_integers(ctx: &ParsingContext<'_>, name: &str) -> TractResult<Option<Vec<i64>>> {
    NodeContext::new(ctx).constant(name)
}

/// Facts about an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number<'a> {
    Known(i64),
    /// A value of one element, plus an offset.
    Offset(&'a str, i64),
    AtLeast(i64),
    Unknown,
}

impl Number<'_> {
    fn least(self) -> Option<i64> {
        match self {
            Self::Known(least) | Self::AtLeast(least) => Some(least),
            Self::Offset(..) | Self::Unknown => None,
        }
    }
}

/// The graph being parsed, and the graphs it may capture from.
pub(crate) struct NodeContext<'a> {
    ctx: &'a ParsingContext<'a>,
    looked_at: Cell<usize>,
}

/// The definition of a name.
enum Definition<'a> {
    Node(&'a NodeProto),
    Constant(Vec<i64>),
    /// A graph input, or nothing.
    Input,
}

impl<'a> NodeContext<'a> {
    pub(crate) fn new(ctx: &'a ParsingContext<'a>) -> Self {
        Self {
            ctx,
            looked_at: Cell::new(0),
        }
    }

    /// The elements of a small integer constant.
    pub(crate) fn constant(&self, name: &'a str) -> TractResult<Option<Vec<i64>>> {
        Ok(match self.definition(name)? {
            Definition::Constant(values) => Some(values),
            Definition::Node(_) | Definition::Input => None,
        })
    }

    /// Facts about each element of a list of integers, of `length` if known; `None` if the length
    /// is unknown.
    ///
    /// Exporters compute the bounds of a Slice from constants and step numbers.
    pub(crate) fn numbers(
        &self,
        name: &'a str,
        length: Option<usize>,
    ) -> TractResult<Option<Vec<Number<'a>>>> {
        self.looked_at.set(self.looked_at.get() + 1);
        let node = match self.definition(name)? {
            Definition::Constant(values) => {
                return Ok(Some(values.into_iter().map(Number::Known).collect()));
            }
            Definition::Node(node) if self.looked_at.get() < MAXIMUM_NODES => node,
            Definition::Node(_) | Definition::Input => return Ok(leaf(name, length)),
        };
        let one = length.filter(|it| *it == 1);
        let input_of = |input: usize, length| match node.input.get(input) {
            Some(name) => self.numbers(name, length),
            None => Ok(None),
        };
        let numbers = match node.op_type.as_str() {
            "Identity" | "Cast" => input_of(0, length)?,
            // Its input is a scalar.
            "Unsqueeze" => input_of(0, Some(1))?,
            "Squeeze" => input_of(0, one)?,
            "Concat" => {
                let length = length.filter(|_| node.input.len() == 1);
                let parts = (0..node.input.len()).map(|part| input_of(part, length));
                let parts: Option<Vec<_>> = parts.collect::<TractResult<_>>()?;
                parts.map(|parts| parts.concat())
            }
            "Where" => {
                let inputs = [input_of(0, one)?, input_of(1, one)?, input_of(2, one)?];
                elementwise(&inputs, |it| match it[0] {
                    Number::Known(0) => it[2],
                    Number::Known(_) => it[1],
                    _ if it[1] == it[2] => it[1],
                    _ => Number::Unknown,
                })
            }
            operator @ ("Add" | "Sub" | "Max" | "Min" | "And" | "Or" | "Less" | "Equal"
            | "Greater")
                if node.input.len() == 2 =>
            {
                elementwise(&[input_of(0, one)?, input_of(1, one)?], |it| {
                    binary(operator, it[0], it[1])
                })
            }
            _ => None,
        };
        Ok(numbers.or_else(|| leaf(name, length)))
    }

    /// Whether all readers of a value in the current graph squeeze an axis.
    pub(crate) fn is_squeezed(&self, value: &str, axis: i64) -> TractResult<bool> {
        let Some(graph) = self.ctx.parent_graphs.last() else {
            return Ok(false);
        };
        let mut outputs = graph.output.iter();
        let mut is_read = false;
        for node in &graph.node {
            if captures(node, value) {
                return Ok(false);
            }
            if !node.input.iter().any(|input| input == value) {
                continue;
            }
            let axes = match node.input.get(1) {
                Some(axes) => self.constant(axes)?,
                None => node.get_attr_opt_vec("axes")?,
            };
            if node.op_type != "Squeeze" || axes.is_none_or(|axes| !axes.contains(&axis)) {
                return Ok(false);
            }
            is_read = true;
        }
        Ok(is_read && outputs.all(|output| output.name != value))
    }

    fn definition(&self, name: &'a str) -> TractResult<Definition<'a>> {
        // The graph being parsed comes last; values of those around it may be captured.
        for graph in self.ctx.parent_graphs.iter().rev() {
            if let Some(made) = self.made_in(graph, name)? {
                return Ok(made);
            }
        }
        Ok(Definition::Input)
    }

    fn made_in(&self, graph: &'a GraphProto, name: &str) -> TractResult<Option<Definition<'a>>> {
        let constant = |tensor: &TensorProto| -> TractResult<_> {
            let count = tensor
                .dims
                .iter()
                .try_fold(1, |all: i64, it| all.checked_mul(*it));
            // What lies elsewhere is no list of sizes: weights, and unsigned integers.
            let is_elsewhere = !tensor.external_data.is_empty();
            if is_elsewhere || count.is_none_or(|count| count > MAXIMUM_ELEMENTS) {
                return Ok(Some(Definition::Input));
            }
            let tensor = self.ctx.load_tensor(tensor)?;
            Ok(Some(
                ints(&tensor).map_or(Definition::Input, Definition::Constant),
            ))
        };
        let mut stored = graph.initializer.iter();
        if let Some(tensor) = stored.find(|tensor| tensor.name == name) {
            return constant(tensor);
        }
        let mut nodes = graph.node.iter();
        if let Some(node) = nodes.find(|node| node.output.iter().any(|it| it == name)) {
            return match node.get_attr_opt("value")? {
                Some(value) if node.op_type == "Constant" => constant(value),
                _ => Ok(Some(Definition::Node(node))),
            };
        }
        let is_input = graph.input.iter().any(|input| input.name == name);
        Ok(is_input.then_some(Definition::Input))
    }
}

/// A list with nothing known but its length.
fn leaf(name: &str, length: Option<usize>) -> Option<Vec<Number<'_>>> {
    length.map(|length| match length {
        1 => vec![Number::Offset(name, 0)],
        _ => vec![Number::Unknown; length],
    })
}

/// Applies a function to the elements of lists of equal length, or of one element.
fn elementwise<'a>(
    inputs: &[Option<Vec<Number<'a>>>],
    function: impl Fn(&[Number<'a>]) -> Number<'a>,
) -> Option<Vec<Number<'a>>> {
    let inputs: Vec<&Vec<Number<'a>>> = inputs.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let length = inputs.iter().map(|input| input.len()).max()?;
    let fits = |input: &&Vec<_>| input.len() == length || input.len() == 1;
    inputs.iter().all(fits).then(|| {
        let at = |input: &Vec<Number<'a>>, at: usize| input[if input.len() == 1 { 0 } else { at }];
        let elements =
            (0..length).map(|it| -> Vec<_> { inputs.iter().map(|i| at(i, it)).collect() });
        elements.map(|elements| function(&elements)).collect()
    })
}

fn binary<'a>(operator: &str, a: Number<'a>, b: Number<'a>) -> Number<'a> {
    use Number::{AtLeast, Known, Offset, Unknown};
    let truth = |truth: bool| Known(i64::from(truth));
    match (operator, a, b) {
        ("Add", Known(a), Known(b)) => Known(a.saturating_add(b)),
        ("Add", Offset(name, a), Known(b)) | ("Add", Known(b), Offset(name, a)) => {
            Offset(name, a.saturating_add(b))
        }
        ("Sub", Known(a), Known(b)) => Known(a.saturating_sub(b)),
        ("Sub", Offset(name, a), Known(b)) => Offset(name, a.saturating_sub(b)),
        ("Min", Known(a), Known(b)) => Known(a.min(b)),
        ("Max", Known(a), Known(b)) => Known(a.max(b)),
        ("Max", a, b) => a.least().max(b.least()).map_or(Unknown, AtLeast),
        ("And", Known(0), _) | ("And", _, Known(0)) => truth(false),
        ("And", Known(_), Known(_)) => truth(true),
        ("Or", Known(a), Known(b)) => truth(a != 0 || b != 0),
        ("Less", Known(a), Known(b)) => truth(a < b),
        ("Greater", Known(a), Known(b)) => truth(a > b),
        ("Equal", Known(a), Known(b)) => truth(a == b),
        _ => Unknown,
    }
}

/// The elements of a small tensor of any numeric type, if they are integers.
fn ints(tensor: &Tensor) -> Option<Vec<i64>> {
    if tensor.datum_type() == String::datum_type() {
        return None;
    }
    let numbers = tensor.cast_to::<i64>().ok()?;
    if tensor.datum_type().is_float() {
        let floats = tensor.cast_to::<f64>().ok()?;
        let again = numbers.cast_to::<f64>().ok()?;
        if floats != again {
            return None;
        }
    }
    let numbers = numbers.to_plain_array_view::<i64>().ok()?;
    Some(numbers.iter().copied().collect())
}

/// Whether a subgraph of a node captures a value.
fn captures(node: &NodeProto, value: &str) -> bool {
    let mut graphs = node.attribute.iter().filter_map(|it| it.g.as_ref());
    graphs.any(|graph| {
        let mut outputs = graph.output.iter();
        outputs.any(|output| output.name == value)
            || graph
                .node
                .iter()
                .any(|node| node.input.iter().any(|input| input == value) || captures(node, value))
    })
}
