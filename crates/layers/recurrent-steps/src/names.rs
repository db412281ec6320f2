//! The names of a loop's values, by their places.

use revseq_onnx::model::LoopLayout;
use revseq_onnx::proto::NodeProto;

use crate::body::ScanOutput;

/// The names of a loop's values outside and inside.
pub(crate) struct Names<'a> {
    pub(crate) node: &'a NodeProto,
    pub(crate) layout: LoopLayout,
    /// The body's inputs and outputs.
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl Names<'_> {
    /// The loop's input with this index behind those of a Loop alone, and the body's.
    pub(crate) fn input(&self, index: usize, what: &str) -> Result<(&str, &str), String> {
        let place = self.layout.leading_inputs + index;
        let outside = self
            .node
            .input(place)
            .ok_or_else(|| format!("it lacks a {what}"))?;
        let inside = self.inputs.get(place).ok_or("its body lacks an input")?;
        Ok((outside, inside))
    }

    /// Whether an output of the loop is read.
    pub(crate) fn is_read(&self, index: usize) -> bool {
        let name = self.node.output.get(index);
        name.is_some_and(|name| !name.is_empty())
    }

    /// The axis and direction that a Scan says for its scan inputs or outputs.
    pub(crate) fn along(&self, what: &str, index: usize) -> (i64, bool) {
        let of = |attribute: String| {
            let all = self.node.ints(&attribute).value();
            all.and_then(|all| all.get(index).copied()).unwrap_or(0)
        };
        (
            of(format!("{what}_axes")),
            of(format!("{what}_directions")) == 1,
        )
    }

    /// What the steps collect.
    pub(crate) fn collected(&self) -> Vec<ScanOutput> {
        let before = self.layout.leading_outputs + self.layout.states;
        let names = self.outputs.iter().skip(before).enumerate();
        names
            .map(|(index, name)| {
                let (axis, is_reversed) = self.along("scan_output", index);
                ScanOutput {
                    name: name.clone(),
                    axis,
                    is_reversed,
                    is_read: self.is_read(self.layout.states + index),
                }
            })
            .collect()
    }
}
