//! Slices that take one element along an axis, `x[t]`.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::ops::array::Gather;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use crate::node::{check_domain, tracts};
use crate::wire::wire_cast;

/// Reads a Slice: one from `t` to `t + 1` whose axis is squeezed as a Gather, which works
/// whatever `t` is and makes a Scan of a loop, any other as tract does.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    if let Some(axis) = (Graphs { ctx }).element(node)? {
        let inputs = node.input.iter().filter(|name| !name.is_empty()).count();
        return Ok((expand(Element { axis, inputs }), vec![]));
    }
    tracts("Slice", ctx, node)
}

/// The graph that a node is read in, and what it may capture.
struct Graphs<'a> {
    ctx: &'a ParsingContext<'a>,
}

/// What a name stands for.
enum Made<'a> {
    By(&'a NodeProto),
    Constant(Vec<i64>),
    /// An input of a graph, or nothing.
    Given,
}

impl<'a> Graphs<'a> {
    /// The axis along which a Slice takes one element, and that is squeezed wherever it is read.
    ///
    /// Its output then has one element there or the Squeeze is an error, so no other size has to
    /// be considered.
    fn element(&self, node: &NodeProto) -> TractResult<Option<i64>> {
        let [_, start, end, axes, steps @ ..] = &*node.input else {
            return Ok(None);
        };
        let (Some(graph), [output]) = (self.ctx.parent_graphs.last(), &*node.output) else {
            return Ok(None);
        };
        let Some([axis]) = self
            .constant(axes)?
            .as_deref()
            .map(<[i64; 1]>::try_from)
            .and_then(Result::ok)
        else {
            return Ok(None);
        };
        for step in steps.iter().filter(|name| !name.is_empty()) {
            if self.constant(step)? != Some(vec![1]) {
                return Ok(None);
            }
        }
        let is_element = self.constant(start)?.is_none()
            && self.is_next(end, start)?
            && self.is_squeezed(graph, output, axis)?;
        Ok(is_element.then_some(axis))
    }

    /// Whether a number is 1 more than another.
    fn is_next(&self, number: &'a str, before: &'a str) -> TractResult<bool> {
        let before = self.number(before)?;
        let number = self.number(number)?;
        let Made::By(add) = self.made(number)? else {
            return Ok(false);
        };
        let [a, b] = &*add.input else {
            return Ok(false);
        };
        for (a, b) in [(a, b), (b, a)] {
            let more = self.constant(self.number(b)?)?;
            if add.op_type == "Add" && more == Some(vec![1]) && self.number(a)? == before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The value that a number is the same as but for its type and rank.
    fn number(&self, name: &'a str) -> TractResult<&'a str> {
        let mut name = name;
        while let Made::By(node) = self.made(name)? {
            match (node.op_type.as_str(), &*node.input) {
                ("Identity" | "Cast" | "Unsqueeze" | "Squeeze", [input, ..]) => name = input,
                ("Concat", [input]) => name = input,
                _ => break,
            }
        }
        Ok(name)
    }

    /// Whether all that is read of a value is what is left without an axis.
    fn is_squeezed(&self, graph: &GraphProto, value: &str, axis: i64) -> TractResult<bool> {
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
            if node.op_type != "Squeeze" || axes != Some(vec![axis]) {
                return Ok(false);
            }
            is_read = true;
        }
        Ok(is_read && outputs.all(|output| output.name != value))
    }

    fn constant(&self, name: &'a str) -> TractResult<Option<Vec<i64>>> {
        Ok(match self.made(name)? {
            Made::Constant(values) => Some(values),
            Made::By(_) | Made::Given => None,
        })
    }

    fn made(&self, name: &'a str) -> TractResult<Made<'a>> {
        // The graph that is read comes last; what is around it may be captured.
        for graph in self.ctx.parent_graphs.iter().rev() {
            let mut stored = graph.initializer.iter();
            if let Some(tensor) = stored.find(|tensor| tensor.name == name) {
                return Ok(ints(&self.ctx.load_tensor(tensor)?).map_or(Made::Given, Made::Constant));
            }
            let mut nodes = graph.node.iter();
            if let Some(node) = nodes.find(|node| node.output.iter().any(|it| it == name)) {
                let value = node.get_attr_opt("value")?;
                return Ok(match value {
                    Some(value) if node.op_type == "Constant" => {
                        ints(&self.ctx.load_tensor(value)?).map_or(Made::Given, Made::Constant)
                    }
                    _ => Made::By(node),
                });
            }
            if graph.input.iter().any(|input| input.name == name) {
                return Ok(Made::Given);
            }
        }
        Ok(Made::Given)
    }
}

/// The elements of a few integers.
fn ints(tensor: &Tensor) -> Option<Vec<i64>> {
    let is_few = tensor.datum_type().is_integer() && tensor.len() <= 8;
    let tensor = is_few.then(|| tensor.cast_to::<i64>())?.ok()?;
    let tensor = tensor.to_plain_array_view::<i64>().ok()?;
    Some(tensor.iter().copied().collect())
}

/// Whether a graph of a node reads a value from around it.
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

/// One element along an axis, which keeps the axis.
#[derive(Clone, Debug)]
struct Element {
    axis: i64,
    /// How many inputs the node has; the first two are read.
    inputs: usize,
}

impl Element {
    fn axis(&self, rank: usize) -> TractResult<usize> {
        let axis = if self.axis < 0 {
            self.axis + rank as i64
        } else {
            self.axis
        };
        let axis = usize::try_from(axis).ok().filter(|axis| *axis < rank);
        axis.with_context(|| format!("axis {} of data of rank {rank}", self.axis))
    }
}

impl Expansion for Element {
    fn name(&self) -> StaticName {
        "Slice".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, self.inputs)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.given(&inputs[0].shape, move |s, mut shape| {
            let axis = self.axis(shape.len())?;
            shape[axis] = 1.to_dim();
            s.equals(&outputs[0].shape, shape)
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let axis = self.axis(model.outlet_fact(inputs[0])?.rank())?;
        let mut index = inputs[1];
        let name = |model: &TypedModel, name: &str| {
            model.unique_name(format!("{prefix}.{name}")).into_owned()
        };
        for _ in 0..model.outlet_fact(index)?.rank() {
            let name = name(model, "index");
            index = model.wire_node(name, AxisOp::Rm(0), &[index])?[0];
        }
        index = wire_cast(model, format!("{prefix}.index"), index, i64::datum_type())?;
        let gather = name(model, "element");
        let element = model.wire_node(gather, Gather::new(axis), &[inputs[0], index])?;
        model.wire_node(prefix, AxisOp::Add(axis), &element)
    }
}
