//! Places of states among the inputs and outputs of loops.

use super::NodeProto;

/// The inputs of a Loop, and of its body, before the states.
pub const BEFORE_STATES: usize = 2;

/// The layout of a loop's inputs and outputs: a Loop's body has the iteration number and a condition
/// before the states, a Scan's has the scan slices after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLayout {
    /// The number of inputs before the states, of the loop and of its body.
    pub leading_inputs: usize,
    /// The number of outputs of the body before the states.
    pub leading_outputs: usize,
    /// The number of states.
    pub states: usize,
    /// The number of scan inputs.
    pub slices: usize,
}

impl LoopLayout {
    /// The layout of a Loop, or of a Scan from opset 9 on; `None` for other nodes.
    #[must_use]
    pub fn of(node: &NodeProto) -> Option<Self> {
        let (leading_inputs, leading_outputs, slices) = if node.is("Loop") {
            (BEFORE_STATES, 1, 0)
        } else if node.is("Scan") {
            let slices = node.int("num_scan_inputs").value()?;
            (0, 0, usize::try_from(slices).ok()?)
        } else {
            return None;
        };
        let others = leading_inputs.checked_add(slices)?;
        Some(Self {
            leading_inputs,
            leading_outputs,
            states: node.input.len().checked_sub(others)?,
            slices,
        })
    }
}
