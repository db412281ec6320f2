//! Writes the nodes of a replacement.
//!
//! A pass writes nodes in the order of computation and gets a name for each value. Operands are such
//! names or integers, which become constants; one that is there already is not written again. The
//! passes have checked the node by then: what is left to check is whether the model's opset has the
//! operators, and in which form.
//!
//! ```text
//! op("Sub", (length, [1]))       Sub(length, Constant([1]))
//! range(x, axis 0, from 1 to 3)  opset 10 and later: Slice(x, [1], [3], [0])
//!                                before:             Slice(x) with starts, ends and axes
//! give("y", op("Add", (a, b)))   y = Add(a, b)
//! ```

use std::cell::RefCell;
use std::collections::HashMap;

use crate::constant::Floats;
use crate::model::{
    self, AttributeProto, INT64, NodeProto, TensorProto, ValueInfoProto, int, ints,
};
use crate::operands::{Operand, Operands};
use crate::scope::{Names, Scope};
use crate::sizes::Size;
use crate::types;
use crate::verdict::{Edit, Verdict};

/// The first opset in which Slice takes ranges and steps as inputs.
pub(crate) const SLICE_BY_INPUTS: i64 = 10;
/// The first opset in which Squeeze, Unsqueeze and ReduceSum take axes as an input.
pub(crate) const AXES_BY_INPUT: i64 = 13;
/// The first opset in which ReduceMean takes axes as an input.
const MEAN_AXES_BY_INPUT: i64 = 18;
/// The first opset in which Softmax is over one axis.
pub(crate) const SOFTMAX_BY_ONE_AXIS: i64 = 13;
/// The first opset in which Constant has other types than floating-point ones.
const CONSTANT_TYPES: i64 = 9;
/// The integers up to which float32 has all.
const EXACT: i64 = 1 << 24;

/// The first opset in which Reshape takes a size of 0 literally.
pub(crate) const ALLOW_ZERO: i64 = 14;

/// The shape of a scalar.
pub(crate) const NO_SIZES: [i64; 0] = [];

/// The first opset in which Shape may leave out sizes.
pub(crate) const SHAPE_IN_PART: i64 = 15;

/// The first opset with CastLike.
pub(crate) const CAST_LIKE: i64 = 15;

/// The first opset that has an operator in the form and for the element types that passes write;
/// `None` for one that they do not.
fn since(op: &str) -> Option<i64> {
    Some(match op {
        "AveragePool" | "Constant" | "Conv" | "ConvTranspose" | "Gather" | "GlobalAveragePool"
        | "Identity" | "Loop" | "MatMul" | "Not" | "ReduceMean" | "ReduceProd" | "ReduceSum"
        | "Shape" | "Slice" | "Softmax" | "Softplus" | "Softsign" | "Squeeze" | "Transpose"
        | "Unsqueeze" => 1,
        "Concat" => 4,
        "Reshape" => 5,
        "Abs" | "Cast" | "Clip" | "Elu" | "HardSigmoid" | "LeakyRelu" | "Reciprocal" | "Relu"
        | "Selu" | "Sigmoid" | "Sqrt" | "Tanh" => 6,
        "Add" | "And" | "Div" | "Equal" | "GRU" | "Gemm" | "LSTM" | "Mul" | "RNN" | "Sub" => 7,
        "Expand" => 8,
        "Compress" | "ConstantOfShape" | "Erf" | "Flatten" | "Greater" | "Less" | "NonZero"
        | "Where" => 9,
        "DequantizeLinear" | "MatMulInteger" | "Mod" | "NonMaxSuppression" | "QLinearConv"
        | "QuantizeLinear" | "ReverseSequence" | "ThresholdedRelu" => 10,
        "CumSum"
        | "Pad"
        | "Range"
        | "ScatterElements"
        | "SequenceConstruct"
        | "SequenceInsert"
        | "SplitToSequence"
        | "TopK"
        | "DynamicQuantizeLinear" => 11,
        "Einsum" | "GreaterOrEqual" | "LessOrEqual" | "Max" | "MaxPool" => 12,
        "CastLike" => 15,
        "DFT" | "LayerNormalization" | "STFT" => 17,
        "ReduceMax" => 18,
        _ => return None,
    })
}

/// The end of a flip, before the first element of any axis. PyTorch writes the same value, so
/// runtimes know it.
const BEFORE_THE_FIRST: i64 = -i64::MAX;

/// Builds a replacement; every node gets a fresh name.
///
/// This is the only way to make an [`Edit`]: an operator that the model's opset lacks turns it into
/// a reason to leave the node alone.
pub(crate) struct Emit<'n> {
    written: RefCell<Written>,
    names: &'n Names,
    /// The prefix of new names: the replaced value.
    prefix: String,
    opset: i64,
}

/// What is written so far.
#[derive(Default)]
struct Written {
    edit: Edit,
    /// Reason why the replacement cannot be written.
    refusal: Option<String>,
    constants: HashMap<(Vec<i64>, Vec<i64>), String>,
}

impl<'n> Emit<'n> {
    /// Starts the replacement of a value, for an opset.
    pub(crate) fn new(prefix: &str, opset: i64, names: &'n Names) -> Self {
        Self {
            written: RefCell::default(),
            names,
            prefix: prefix.to_owned(),
            opset,
        }
    }

    pub(crate) fn opset(&self) -> i64 {
        self.opset
    }

    /// The number of nodes written.
    pub(crate) fn len(&self) -> usize {
        self.written.borrow().edit.nodes.len()
    }

    /// Writes a node with one output and no attributes.
    pub(crate) fn op(&self, op: &str, inputs: impl Operands) -> String {
        self.with(op, inputs, [])
    }

    /// Writes a node with one output.
    pub(crate) fn with(
        &self,
        op: &str,
        inputs: impl Operands,
        attributes: impl IntoIterator<Item = AttributeProto>,
    ) -> String {
        let inputs = self.names(inputs);
        let output = self.name(&format!("{op}:0"));
        self.write(&[&output], op, inputs, attributes);
        output
    }

    /// Writes a node with the given outputs.
    pub(crate) fn write(
        &self,
        outputs: &[&str],
        op: &str,
        inputs: impl Operands,
        attributes: impl IntoIterator<Item = AttributeProto>,
    ) {
        self.write_of(("", op), outputs, op, inputs, attributes);
    }

    /// Writes a node of a domain, named after the replaced value and by a label.
    pub(crate) fn write_of(
        &self,
        (domain, label): (&str, &str),
        outputs: &[&str],
        op: &str,
        inputs: impl Operands,
        attributes: impl IntoIterator<Item = AttributeProto>,
    ) {
        let inputs = self.names(inputs);
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut node = model::node(op, &inputs, outputs, attributes.into_iter().collect());
        node.name = Some(self.name(label));
        match domain {
            "" => self.check(&node),
            _ => node.domain = Some(domain.to_owned()),
        }
        self.copy(node);
    }

    /// The names of inputs, once constants are written.
    fn names(&self, inputs: impl Operands) -> Vec<String> {
        let name = |input| match input {
            Operand::Value(name) => name,
            Operand::Ints { sizes, values } => self.constant(&sizes, &values),
        };
        inputs.list().into_iter().map(name).collect()
    }

    /// Checks that the model's opset has the operator.
    fn check(&self, node: &NodeProto) {
        let op = node.op();
        let (what, since) = match op {
            "Slice" if node.input.len() > 1 => ("Slice with steps", SLICE_BY_INPUTS),
            "Reshape" if node.attribute("allowzero").is_some() => {
                ("Reshape with allowzero", ALLOW_ZERO)
            }
            _ => (op, since(op).unwrap_or(i64::MAX)),
        };
        debug_assert!(since < i64::MAX, "{op} is no operator that passes write");
        if self.opset < since {
            self.refuse(format!(
                "version {} of ONNX's operators has no {what}",
                self.opset
            ));
        }
    }

    /// The nodes of a subgraph, which may read values written before it.
    pub(crate) fn within(&self, write: impl FnOnce()) -> Vec<NodeProto> {
        // Outside, the constants written within have no meaning; a later reader needs its own.
        let constants = self.written.borrow().constants.clone();
        let outer = std::mem::take(&mut self.written.borrow_mut().edit.nodes);
        write();
        let mut written = self.written.borrow_mut();
        written.constants = constants;
        std::mem::replace(&mut written.edit.nodes, outer)
    }

    /// Leaves the node alone. The first reason counts.
    pub(crate) fn refuse(&self, why: impl Into<String>) {
        let refusal = &mut self.written.borrow_mut().refusal;
        refusal.get_or_insert_with(|| why.into());
    }

    /// Writes a node of the model over other inputs, with attributes in place of its own of those names.
    /// Returns the names of its outputs.
    pub(crate) fn again(
        &self,
        node: &NodeProto,
        inputs: impl Operands,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let mut again = node.clone();
        again.input = self.names(inputs);
        let is_kept = |own: &AttributeProto| attributes.iter().all(|it| it.name != own.name);
        again.attribute.retain(is_kept);
        again.attribute.extend(attributes);
        again.name = Some(self.name(node.op()));
        for output in again.output.iter_mut().filter(|it| !it.is_empty()) {
            *output = self.name(&format!("{}:0", node.op()));
        }
        let outputs = again.output.clone();
        self.copy(again);
        outputs
    }

    /// The same of a node with one output that counts.
    pub(crate) fn one_again(
        &self,
        node: &NodeProto,
        inputs: impl Operands,
        attributes: Vec<AttributeProto>,
    ) -> String {
        self.again(node, inputs, attributes).remove(0)
    }

    /// Adds a node of the model as it is.
    pub(crate) fn copy(&self, node: NodeProto) {
        self.written.borrow_mut().edit.nodes.push(node);
    }

    /// Declares a value under another name, as it was declared before.
    pub(crate) fn declare(&self, value: &ValueInfoProto, name: &str) {
        let mut value = value.clone();
        value.name = Some(name.to_owned());
        self.written.borrow_mut().edit.declared.push(value);
    }

    /// Gives an output of the replaced nodes a value that nothing else reads. If the last node makes
    /// it, it makes it under that name.
    pub(crate) fn give(&self, output: &str, value: String) {
        let mut written = self.written.borrow_mut();
        let is_constant = written.constants.values().any(|it| *it == value);
        let last = written.edit.nodes.last_mut();
        match last.filter(|it| it.output == [&*value] && !is_constant) {
            Some(last) => last.output = vec![output.to_owned()],
            None => written.edit.same.push((output.to_owned(), value)),
        }
    }

    /// Declares an output of the replaced nodes equal to another value.
    pub(crate) fn same(&self, output: &str, value: &str) {
        let pair = (output.to_owned(), value.to_owned());
        self.written.borrow_mut().edit.same.push(pair);
    }

    /// Replaces a later node of the graph as well.
    pub(crate) fn also(&self, index: usize) {
        self.written.borrow_mut().edit.also.push(index);
    }

    /// The replacement, or the reason to leave the node alone.
    pub(crate) fn finish(self, what: impl Into<String>) -> Verdict {
        let Written { edit, refusal, .. } = self.written.into_inner();
        let what = what.into();
        refusal.map_or(Ok(Edit { what, ..edit }), |why| Err(why.into()))
    }

    /// The replacement by a value of the one that it was started for.
    pub(crate) fn finish_with(self, value: String, what: impl Into<String>) -> Verdict {
        self.give(&self.prefix, value);
        self.finish(what)
    }

    /// A fresh name for a value.
    pub(crate) fn name(&self, hint: &str) -> String {
        self.names.fresh(&format!("{}/{hint}", self.prefix))
    }

    /// A constant tensor.
    pub(crate) fn tensor(&self, value: TensorProto) -> String {
        self.with("Constant", (), [model::tensor("value", value)])
    }

    /// A scalar 0 of a value's element type.
    pub(crate) fn zero_like(&self, scope: &Scope<'_>, value: &str) -> String {
        let code = types::of(scope, value);
        match code.and_then(model::zero) {
            Some(zero) => self.tensor(zero),
            None => self.cast_like(scope, 0, value),
        }
    }

    /// A value in the element type of another.
    pub(crate) fn cast_like(&self, scope: &Scope<'_>, value: impl Operands, like: &str) -> String {
        if let Some(code) = types::of(scope, like) {
            return self.cast(value, code);
        }
        if self.opset < CAST_LIKE {
            self.refuse(format!("the element type of {like:?} is not known"));
        }
        self.op("CastLike", (value, like))
    }

    pub(crate) fn constant(&self, sizes: &[i64], values: &[i64]) -> String {
        let key = (sizes.to_vec(), values.to_vec());
        if let Some(name) = self.written.borrow().constants.get(&key) {
            return name.clone();
        }
        let name = match self.opset >= CONSTANT_TYPES {
            true => self.tensor(model::int64_tensor(sizes, values)),
            false => self.cast_constant(sizes, values),
        };
        let constants = &mut self.written.borrow_mut().constants;
        constants.insert(key, name.clone());
        name
    }

    /// A constant int64 tensor, before Constant has integers.
    fn cast_constant(&self, sizes: &[i64], values: &[i64]) -> String {
        if values.iter().any(|value| value.abs() > EXACT) {
            let version = self.opset;
            self.refuse(format!(
                "version {version} of ONNX's operators has no Constant of large integers"
            ));
        }
        let floats = Floats {
            sizes: sizes.iter().map(|&size| size as usize).collect(),
            elements: values.iter().map(|&value| value as f32).collect(),
        };
        self.cast(self.tensor(floats.to_tensor()), INT64)
    }

    /// A constant int64 vector.
    pub(crate) fn ints(&self, values: &[i64]) -> String {
        self.constant(&[values.len() as i64], values)
    }

    /// A value in another element type.
    pub(crate) fn cast(&self, value: impl Operands, code: i32) -> String {
        self.with("Cast", value, [int("to", code.into())])
    }

    /// Values joined along an axis; a single one is itself.
    pub(crate) fn concat(&self, parts: impl Operands, axis: i64) -> String {
        let mut parts = self.names(parts);
        match parts.len() {
            1 => parts.remove(0),
            _ => self.with("Concat", parts, [int("axis", axis)]),
        }
    }

    /// Elements or parts along an axis, by their indices.
    pub(crate) fn gather(&self, value: &str, indices: impl Operands, axis: i64) -> String {
        self.with("Gather", (value, indices), [int("axis", axis)])
    }

    /// A value with its axes in an order.
    pub(crate) fn transpose(&self, value: &str, perm: &[i64]) -> String {
        match perm.is_sorted() {
            true => value.to_owned(),
            false => self.with("Transpose", value, [ints("perm", perm)]),
        }
    }

    /// A value of some axes with one of them at another place.
    pub(crate) fn move_axis(&self, value: &str, rank: usize, from: usize, to: usize) -> String {
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        let moved = perm.remove(from);
        perm.insert(to, moved);
        self.transpose(value, &perm)
    }

    /// A slice along an axis.
    pub(crate) fn range(&self, value: &str, axis: i64, start: i64, end: i64) -> String {
        if self.opset >= SLICE_BY_INPUTS {
            return self.op("Slice", (value, [start], [end], [axis]));
        }
        let parts = [("starts", start), ("ends", end), ("axes", axis)];
        self.with(
            "Slice",
            value,
            parts.map(|(name, part)| ints(name, &[part])),
        )
    }

    /// A whole axis in reverse.
    pub(crate) fn flip(&self, value: &str, axis: i64) -> String {
        self.op("Slice", (value, [-1], [BEFORE_THE_FIRST], [axis], [-1]))
    }

    /// Inserts axes of size 1.
    pub(crate) fn unsqueeze(&self, value: &str, axes: &[i64]) -> String {
        self.with_axes("Unsqueeze", value, axes, Vec::new())
    }

    /// Removes axes of size 1.
    pub(crate) fn squeeze(&self, value: &str, axes: &[i64]) -> String {
        self.with_axes("Squeeze", value, axes, Vec::new())
    }

    /// Sums over axes and removes them.
    pub(crate) fn sum(&self, value: &str, axes: &[i64]) -> String {
        self.with_axes("ReduceSum", value, axes, vec![int("keepdims", 0)])
    }

    /// Averages over axes, of which each keeps one element.
    pub(crate) fn mean(&self, value: &str, axes: &[i64]) -> String {
        match self.opset < MEAN_AXES_BY_INPUT {
            true => self.with("ReduceMean", value, [ints("axes", axes)]),
            false => self.op("ReduceMean", (value, axes)),
        }
    }

    /// Writes an operator whose axes became an input in opset 13. Of no axes it changes nothing.
    fn with_axes(
        &self,
        op: &str,
        value: &str,
        axes: &[i64],
        mut attributes: Vec<AttributeProto>,
    ) -> String {
        if axes.is_empty() {
            return value.to_owned();
        }
        if self.opset >= AXES_BY_INPUT {
            return self.with(op, (value, axes), attributes);
        }
        attributes.push(ints("axes", axes));
        self.with(op, value, attributes)
    }

    /// A value in another shape, whose sizes of 0 are no copies of the value's where the opset can say so.
    pub(crate) fn reshape(&self, value: &str, shape: impl Operands) -> String {
        match self.opset >= ALLOW_ZERO {
            true => self.with("Reshape", (value, shape), [int("allowzero", 1)]),
            false => self.op("Reshape", (value, shape)),
        }
    }

    /// Some sizes of a value, as a vector.
    pub(crate) fn sizes(&self, value: &str, start: i64, end: i64) -> String {
        let shape = self.op("Shape", value);
        self.range(&shape, 0, start, end)
    }

    /// A size that a graph knows, as a vector of one element.
    pub(crate) fn size_of(&self, scope: &Scope<'_>, size: Size<'_>) -> String {
        match size {
            Size::Known(size) => self.ints(&[size]),
            Size::Axis {
                scope: own,
                value,
                axis,
            } => {
                if !scope.sees(own, value) {
                    self.refuse(format!("{value} is another value at the loop"));
                }
                self.sizes(value, axis as i64, axis as i64 + 1)
            }
        }
    }

    /// The size of an axis of a value, a scalar.
    pub(crate) fn size(&self, value: &str, axis: i64) -> String {
        let shape = self.op("Shape", value);
        self.op("Gather", (shape, axis))
    }

    /// The product of all elements: a scalar, or one element per axis if kept.
    pub(crate) fn product(&self, value: &str, keep: bool) -> String {
        self.with("ReduceProd", value, [int("keepdims", keep.into())])
    }
}
