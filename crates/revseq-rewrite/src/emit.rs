//! Writing the nodes that replace others.

use std::collections::HashMap;

use crate::model::{self, AttributeProto, NodeProto, TensorProto};
use crate::scope::Names;

/// The first version in which Slice takes its ranges, and steps, as inputs.
pub(crate) const SLICE_BY_INPUTS: i64 = 10;

/// Nodes as they are written, each with names of its own.
pub(crate) struct Emit<'n> {
    /// What has been written, in order.
    pub(crate) nodes: Vec<NodeProto>,
    names: &'n mut Names,
    /// What the names begin with: the value that is replaced.
    prefix: String,
    opset: i64,
    constants: HashMap<(Vec<i64>, Vec<i64>), String>,
}

impl<'n> Emit<'n> {
    /// Writes what replaces a value, in a version of ONNX's operators.
    pub(crate) fn new(prefix: &str, opset: i64, names: &'n mut Names) -> Self {
        Self {
            nodes: Vec::new(),
            names,
            prefix: prefix.to_owned(),
            opset,
            constants: HashMap::new(),
        }
    }

    /// The version of ONNX's operators.
    pub(crate) fn opset(&self) -> i64 {
        self.opset
    }

    /// Writes a node with outputs of given names.
    pub(crate) fn write(
        &mut self,
        outputs: &[&str],
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) {
        let mut node = model::node(op, inputs, outputs, attributes);
        node.name = Some(self.names.fresh(&format!("{}/{op}", self.prefix)));
        self.nodes.push(node);
    }

    /// A name for a value.
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

    fn constant(&mut self, sizes: &[i64], values: &[i64]) -> String {
        let key = (sizes.to_vec(), values.to_vec());
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = self.tensor(model::int64_tensor(sizes, values));
        self.constants.insert(key, name.clone());
        name
    }

    /// A constant vector of int64.
    pub(crate) fn ints(&mut self, values: &[i64]) -> String {
        self.constant(&[values.len() as i64], values)
    }

    /// A constant int64 without sizes.
    pub(crate) fn scalar(&mut self, value: i64) -> String {
        self.constant(&[], &[value])
    }

    /// A range of an axis.
    pub(crate) fn range(&mut self, value: &str, axis: i64, start: i64, end: i64) -> String {
        let parts = [("starts", start), ("ends", end), ("axes", axis)];
        if self.opset >= SLICE_BY_INPUTS {
            let [start, end, axis] = parts.map(|(_, part)| self.ints(&[part]));
            return self.plain("Slice", &[value, &start, &end, &axis]);
        }
        let attributes = parts.map(|(name, part)| model::ints(name, &[part]));
        self.op("Slice", &[value], attributes.to_vec())
    }

    /// Inserts axes of size 1.
    pub(crate) fn unsqueeze(&mut self, value: &str, axes: &[i64]) -> String {
        self.with_axes("Unsqueeze", value, axes, Vec::new())
    }

    /// Removes axes of size 1.
    pub(crate) fn squeeze(&mut self, value: &str, axes: &[i64]) -> String {
        self.with_axes("Squeeze", value, axes, Vec::new())
    }

    /// Removes axes of size 1, into a value of a given name.
    pub(crate) fn squeeze_into(&mut self, output: &str, value: &str, axes: &[i64]) {
        self.axes_into("Squeeze", output, value, axes, Vec::new());
    }

    /// Inserts axes of size 1, into a value of a given name.
    pub(crate) fn unsqueeze_into(&mut self, output: &str, value: &str, axes: &[i64]) {
        self.axes_into("Unsqueeze", output, value, axes, Vec::new());
    }

    /// Sums over axes, which go away.
    pub(crate) fn sum(&mut self, value: &str, axes: &[i64]) -> String {
        self.with_axes("ReduceSum", value, axes, vec![model::int("keepdims", 0)])
    }

    /// Sums over axes, which go away, into a value of a given name.
    pub(crate) fn sum_into(&mut self, output: &str, value: &str, axes: &[i64]) {
        self.axes_into(
            "ReduceSum",
            output,
            value,
            axes,
            vec![model::int("keepdims", 0)],
        );
    }

    /// An operator whose axes became an input in version 13.
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

    /// The same, into a value of a given name.
    fn axes_into(
        &mut self,
        op: &str,
        output: &str,
        value: &str,
        axes: &[i64],
        mut attributes: Vec<AttributeProto>,
    ) {
        if self.opset >= 13 {
            let axes = self.ints(axes);
            self.write(&[output], op, &[value, &axes], attributes);
        } else {
            attributes.push(model::ints("axes", axes));
            self.write(&[output], op, &[value], attributes);
        }
    }

    /// The product of all elements: one without sizes, or of one element if kept.
    pub(crate) fn product(&mut self, value: &str, keep: bool) -> String {
        self.op(
            "ReduceProd",
            &[value],
            vec![model::int("keepdims", keep.into())],
        )
    }
}
