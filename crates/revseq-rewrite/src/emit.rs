//! Writes the nodes of a replacement.
//!
//! A pass writes nodes in the order of computation and gets a name for each value; integers that
//! it asks for twice are one constant. The passes have checked the node by then: what is left to
//! check is whether the model's opset has the operators, and in which form.
//!
//! ```text
//! range(x, axis 0, from 1 to 3)  opset 10 and later: Slice(x, [1], [3], [0])
//!                                before:             Slice(x) with starts, ends and axes
//! ```

use std::collections::HashMap;

use crate::constant::Floats;
use crate::model::{self, AttributeProto, INT64, NodeProto, TensorProto};
use crate::pass::{Edit, Verdict};
use crate::scope::{Names, Scope};
use crate::types;

/// The first opset in which Slice takes ranges and steps as inputs.
pub(crate) const SLICE_BY_INPUTS: i64 = 10;
/// The first opset in which Squeeze, Unsqueeze and ReduceSum take axes as an input.
pub(crate) const AXES_BY_INPUT: i64 = 13;
/// The first opset in which ReduceMean takes axes as an input.
const MEAN_AXES_BY_INPUT: i64 = 18;
/// The first opset in which Softmax is over one axis.
pub(crate) const SOFTMAX_BY_ONE_AXIS: i64 = 13;
/// The first opset in which Constant has attributes besides a tensor.
const CONSTANT_ATTRIBUTES: i64 = 12;

/// The first opset in which Constant has other types than floating-point ones.
const CONSTANT_TYPES: i64 = 9;
/// The integers up to which float32 has all.
const EXACT: i64 = 1 << 24;

/// The first opset with CastLike.
const CAST_LIKE: i64 = 15;

/// The operators that passes write, with the first opset that has each in the form and for the
/// element types used.
const SINCE: &[(&str, i64)] = &[
    ("Abs", 6),
    ("Add", 7),
    ("And", 7),
    ("AveragePool", 1),
    ("Cast", 6),
    ("CastLike", CAST_LIKE),
    ("Clip", 6),
    ("Compress", 9),
    ("Concat", 4),
    ("Constant", 1),
    ("ConstantOfShape", 9),
    ("Conv", 1),
    ("ConvTranspose", 1),
    ("CumSum", 11),
    ("DFT", 17),
    ("DequantizeLinear", 10),
    ("Div", 7),
    ("DynamicQuantizeLinear", 11),
    ("Elu", 6),
    ("Equal", 7),
    ("Erf", 9),
    ("Expand", 8),
    ("Flatten", 9),
    ("GRU", 7),
    ("Gather", 1),
    ("Gemm", 7),
    ("GlobalAveragePool", 1),
    ("Greater", 9),
    ("GreaterOrEqual", 12),
    ("HardSigmoid", 6),
    ("Identity", 1),
    ("LSTM", 7),
    ("LayerNormalization", 17),
    ("LeakyRelu", 6),
    ("Less", 9),
    ("LessOrEqual", 12),
    ("Loop", 1),
    ("MatMul", 1),
    ("MatMulInteger", 10),
    ("Max", 12),
    ("MaxPool", 12),
    ("Mod", 10),
    ("Mul", 7),
    ("NonMaxSuppression", 10),
    ("NonZero", 9),
    ("Not", 1),
    ("Pad", 11),
    ("QLinearConv", 10),
    ("QuantizeLinear", 10),
    ("RNN", 7),
    ("Range", 11),
    ("Reciprocal", 6),
    ("ReduceMax", 18),
    ("ReduceMean", 1),
    ("ReduceProd", 1),
    ("ReduceSum", 1),
    ("Relu", 6),
    ("Reshape", 5),
    ("ReverseSequence", 10),
    ("ScatterElements", 11),
    ("SequenceConstruct", 11),
    ("STFT", 17),
    ("Selu", 6),
    ("SequenceInsert", 11),
    ("Shape", 1),
    ("Sigmoid", 6),
    ("Slice", 1),
    ("Softmax", 1),
    ("Softplus", 1),
    ("Softsign", 1),
    ("SplitToSequence", 11),
    ("Sqrt", 6),
    ("Squeeze", 1),
    ("Sub", 7),
    ("Tanh", 6),
    ("ThresholdedRelu", 10),
    ("TopK", 11),
    ("Transpose", 1),
    ("Unsqueeze", 1),
    ("Where", 9),
];

/// The end of a flip, before the first element of any axis. PyTorch writes the same value, so
/// runtimes know it.
const BEFORE_THE_FIRST: i64 = -i64::MAX;

/// Builds a replacement; every node gets a fresh name.
///
/// This is the only way to make an [`Edit`]: an operator that the model's opset lacks turns it into
/// a reason to leave the node alone.
pub(crate) struct Emit<'n> {
    edit: Edit,
    /// Reason why the replacement cannot be written.
    refusal: Option<String>,
    names: &'n mut Names,
    /// The prefix of new names: the replaced value.
    prefix: String,
    opset: i64,
    constants: HashMap<(Vec<i64>, Vec<i64>), String>,
}

impl<'n> Emit<'n> {
    /// Starts the replacement of a value, for an opset.
    pub(crate) fn new(prefix: &str, opset: i64, names: &'n mut Names) -> Self {
        Self {
            edit: Edit::default(),
            refusal: None,
            names,
            prefix: prefix.to_owned(),
            opset,
            constants: HashMap::new(),
        }
    }

    pub(crate) fn opset(&self) -> i64 {
        self.opset
    }

    /// The number of nodes written.
    pub(crate) fn len(&self) -> usize {
        self.edit.nodes.len()
    }

    /// Writes a node with the given outputs.
    pub(crate) fn write(
        &mut self,
        outputs: &[&str],
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) {
        let mut node = model::node(op, inputs, outputs, attributes);
        node.name = Some(self.names.fresh(&format!("{}/{op}", self.prefix)));
        self.check(&node);
        self.edit.nodes.push(node);
    }

    /// Writes a node of another domain, named after the replaced value and by a label.
    pub(crate) fn write_of(
        &mut self,
        (domain, label): (&str, &str),
        outputs: &[&str],
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) {
        let mut node = model::node(op, inputs, outputs, attributes);
        node.name = Some(self.names.fresh(&format!("{}/{label}", self.prefix)));
        node.domain = Some(domain.to_owned());
        self.edit.nodes.push(node);
    }

    /// Checks that the model's opset has the operator.
    fn check(&mut self, node: &NodeProto) {
        let op = node.op();
        let since = SINCE.iter().find(|(known, _)| *known == op);
        let (what, since) = match op {
            "Slice" if node.input.len() > 1 => ("Slice with steps", SLICE_BY_INPUTS),
            "Constant" if node.attribute("value").is_none() => {
                ("Constant of an attribute", CONSTANT_ATTRIBUTES)
            }
            "Reshape" if node.attribute("allowzero").is_some() => ("Reshape with allowzero", 14),
            _ => (op, since.map_or(i64::MAX, |(_, since)| *since)),
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
    pub(crate) fn within(&mut self, write: impl FnOnce(&mut Self)) -> Vec<NodeProto> {
        let outer = std::mem::take(&mut self.edit.nodes);
        // Outside, the constants written within have no meaning; a later reader needs its own.
        let constants = self.constants.clone();
        write(self);
        self.constants = constants;
        std::mem::replace(&mut self.edit.nodes, outer)
    }

    /// Leaves the node alone. The first reason counts.
    pub(crate) fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }

    /// Adds a node of the model as it is.
    pub(crate) fn copy(&mut self, node: NodeProto) {
        self.edit.nodes.push(node);
    }

    /// Declares an output of the replaced nodes equal to another value.
    pub(crate) fn same(&mut self, output: &str, value: &str) {
        self.edit.same.push((output.to_owned(), value.to_owned()));
    }

    /// Replaces a later node of the graph as well.
    pub(crate) fn also(&mut self, index: usize) {
        self.edit.also.push(index);
    }

    /// The replacement, or the reason to leave the node alone.
    pub(crate) fn finish(self, what: String) -> Verdict {
        match self.refusal {
            Some(why) => Verdict::Left(why),
            None => Verdict::Edit(Edit { what, ..self.edit }),
        }
    }

    /// A fresh name for a value.
    pub(crate) fn name(&mut self, hint: &str) -> String {
        self.names.fresh(&format!("{}/{hint}", self.prefix))
    }

    /// Writes a node with one output.
    pub(crate) fn op(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let output = self.name(&format!("{op}:0"));
        self.write(&[&output], op, inputs, attributes);
        output
    }

    /// Writes a node with one output and no attributes.
    pub(crate) fn plain(&mut self, op: &str, inputs: &[&str]) -> String {
        self.op(op, inputs, Vec::new())
    }

    /// A constant tensor.
    pub(crate) fn tensor(&mut self, value: TensorProto) -> String {
        self.op("Constant", &[], vec![model::tensor("value", value)])
    }

    /// A scalar 0 of a value's element type.
    pub(crate) fn zero_like(&mut self, scope: &Scope<'_>, value: &str) -> String {
        let code = types::of(scope, value);
        if let Some(zero) = code.and_then(model::zero) {
            return self.tensor(zero);
        }
        let zero = self.scalar(0);
        self.cast_like(scope, &zero, value)
    }

    /// A value in the element type of another.
    pub(crate) fn cast_like(&mut self, scope: &Scope<'_>, value: &str, like: &str) -> String {
        if let Some(code) = types::of(scope, like) {
            return self.op("Cast", &[value], vec![model::int("to", code.into())]);
        }
        if self.opset < CAST_LIKE {
            self.refuse(format!("the element type of {like:?} is not known"));
        }
        self.plain("CastLike", &[value, like])
    }

    fn constant(&mut self, sizes: &[i64], values: &[i64]) -> String {
        let key = (sizes.to_vec(), values.to_vec());
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = match self.opset >= CONSTANT_TYPES {
            true => self.tensor(model::int64_tensor(sizes, values)),
            false => self.cast_constant(sizes, values),
        };
        self.constants.insert(key, name.clone());
        name
    }

    /// A constant int64 tensor, before Constant has integers.
    fn cast_constant(&mut self, sizes: &[i64], values: &[i64]) -> String {
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
        let floats = self.tensor(floats.to_tensor());
        self.op("Cast", &[&floats], vec![model::int("to", INT64.into())])
    }

    /// A constant int64 vector.
    pub(crate) fn ints(&mut self, values: &[i64]) -> String {
        self.constant(&[values.len() as i64], values)
    }

    /// A constant int64 scalar.
    pub(crate) fn scalar(&mut self, value: i64) -> String {
        self.constant(&[], &[value])
    }

    /// A slice along an axis.
    pub(crate) fn range(&mut self, value: &str, axis: i64, start: i64, end: i64) -> String {
        let parts = [("starts", start), ("ends", end), ("axes", axis)];
        if self.opset >= SLICE_BY_INPUTS {
            let [start, end, axis] = parts.map(|(_, part)| self.ints(&[part]));
            return self.plain("Slice", &[value, &start, &end, &axis]);
        }
        let attributes = parts.map(|(name, part)| model::ints(name, &[part]));
        self.op("Slice", &[value], attributes.to_vec())
    }

    /// Flips a whole axis into a named value.
    pub(crate) fn flip_into(&mut self, output: &str, value: &str, axis: i64) {
        let starts = self.ints(&[-1]);
        let ends = self.ints(&[BEFORE_THE_FIRST]);
        let axes = self.ints(&[axis]);
        let inputs = [value, &starts, &ends, &axes, &starts];
        self.write(&[output], "Slice", &inputs, Vec::new());
    }

    /// Inserts axes of size 1.
    pub(crate) fn unsqueeze(&mut self, value: &str, axes: &[i64]) -> String {
        self.with_axes("Unsqueeze", value, axes, Vec::new())
    }

    /// Removes axes of size 1.
    pub(crate) fn squeeze(&mut self, value: &str, axes: &[i64]) -> String {
        self.with_axes("Squeeze", value, axes, Vec::new())
    }

    /// Removes axes of size 1, into a named value.
    pub(crate) fn squeeze_into(&mut self, output: &str, value: &str, axes: &[i64]) {
        self.axes_into("Squeeze", output, value, axes, Vec::new());
    }

    /// Inserts axes of size 1, into a named value.
    pub(crate) fn unsqueeze_into(&mut self, output: &str, value: &str, axes: &[i64]) {
        self.axes_into("Unsqueeze", output, value, axes, Vec::new());
    }

    /// Sums over axes and removes them.
    pub(crate) fn sum(&mut self, value: &str, axes: &[i64]) -> String {
        self.with_axes("ReduceSum", value, axes, vec![model::int("keepdims", 0)])
    }

    /// Sums over axes and removes them, into a named value.
    pub(crate) fn sum_into(&mut self, output: &str, value: &str, axes: &[i64]) {
        self.axes_into(
            "ReduceSum",
            output,
            value,
            axes,
            vec![model::int("keepdims", 0)],
        );
    }

    /// Averages over axes, of which each keeps one element.
    pub(crate) fn mean(&mut self, value: &str, axes: &[i64]) -> String {
        if self.opset < MEAN_AXES_BY_INPUT {
            return self.op("ReduceMean", &[value], vec![model::ints("axes", axes)]);
        }
        let axes = self.ints(axes);
        self.plain("ReduceMean", &[value, &axes])
    }

    /// Writes an operator whose axes became an input in opset 13.
    fn with_axes(
        &mut self,
        op: &str,
        value: &str,
        axes: &[i64],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let output = self.name(&format!("{op}:0"));
        self.axes_into(op, &output, value, axes, attributes);
        output
    }

    /// Writes what [`with_axes`](Self::with_axes) does into a named value.
    fn axes_into(
        &mut self,
        op: &str,
        output: &str,
        value: &str,
        axes: &[i64],
        mut attributes: Vec<AttributeProto>,
    ) {
        if self.opset >= AXES_BY_INPUT {
            let axes = self.ints(axes);
            self.write(&[output], op, &[value, &axes], attributes);
        } else {
            attributes.push(model::ints("axes", axes));
            self.write(&[output], op, &[value], attributes);
        }
    }

    /// The product of all elements: a scalar, or one element per axis if kept.
    pub(crate) fn product(&mut self, value: &str, keep: bool) -> String {
        self.op(
            "ReduceProd",
            &[value],
            vec![model::int("keepdims", keep.into())],
        )
    }
}
