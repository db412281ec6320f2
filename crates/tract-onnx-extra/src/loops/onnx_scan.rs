//! ONNX's Scan over axes that may be empty, and within other loops.
//!
//! tract's Scan without steps has no final states: what it outputs is made up. ONNX's are the
//! initial states. Where the axis is known to have elements, nothing is added.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Hook};
use crate::loops::last::LastOrInitial;
use crate::loops::nested;
use crate::node::{check_domain, parse_with_tract};
use crate::operators::empty::OrNothing;
use crate::wire::wire_cast;

/// The most axes of a value: tract makes a size for each up to the one that is named.
const MAXIMUM_RANK: i64 = 64;

/// Parses a Scan like tract, but for the final states.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    for list in ["scan_input_axes", "scan_output_axes"] {
        let axes: Option<Vec<i64>> = node.get_attr_opt_vec(list)?;
        for axis in axes.into_iter().flatten() {
            ensure!(
                (-MAXIMUM_RANK..MAXIMUM_RANK).contains(&axis),
                "its {list} has {axis}, expected each from -{MAXIMUM_RANK} to {}",
                MAXIMUM_RANK - 1
            );
        }
    }
    let scanned: i64 = node.get_attr("num_scan_inputs")?;
    let states = usize::try_from(scanned).ok().and_then(|scanned| {
        node.input
            .len()
            .checked_sub(scanned)
            .filter(|_| scanned > 0)
    });
    let states = states.with_context(|| {
        let inputs = node.input.len();
        format!("its num_scan_inputs is {scanned}, expected 1 to {inputs}")
    })?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    let axes: Option<Vec<i64>> = node.get_attr_opt_vec("scan_input_axes")?;
    let op = OnnxScan {
        states,
        axis: axes.and_then(|axes| axes.first().copied()).unwrap_or(0),
    };
    let upstream = Delegate::boxed(upstream, op);
    Ok((Delegate::boxed(upstream, OrNothing), captured))
}

/// The hook of a Scan.
#[derive(Clone, Debug)]
struct OnnxScan {
    /// The number of states, which are the first inputs and outputs.
    states: usize,
    /// The axis of the first scan input that it goes over.
    axis: i64,
}

impl Hook for OnnxScan {
    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let first = target.nodes().len();
        let mut outlets = upstream.to_typed(source, node, target, mapping)?;
        for made in &mut target.nodes[first..] {
            if let Some(scan) = made.op_as_mut() {
                nested::settle(scan)?;
            }
        }
        let input = |index: usize| mapping[&node.inputs[index]];
        let scanned = input(self.states);
        let shape = &target.outlet_fact(scanned)?.shape;
        let axis = self.axis
            + if self.axis < 0 {
                shape.rank() as i64
            } else {
                0
            };
        let axis = usize::try_from(axis).ok().filter(|it| *it < shape.rank());
        let axis = axis.with_context(|| format!("it has no axis {}", self.axis))?;
        let steps = shape[axis].to_i64().ok();
        if steps == Some(0) {
            return self.without_steps(node, target, mapping, &outlets);
        }
        if steps.is_some() {
            return Ok(outlets);
        }
        for state in 0..self.states.min(outlets.len()) {
            let datum_type = target.outlet_fact(outlets[state])?.datum_type;
            let name = format!("{}.initial{state}", node.name);
            let initial = match target.outlet_fact(input(state))?.datum_type {
                same if same == datum_type => input(state),
                _ => wire_cast(target, name, input(state), datum_type)?,
            };
            let name = target.unique_name(format!("{}.last{state}", node.name));
            let (name, inputs) = (name.into_owned(), [outlets[state], initial, scanned]);
            outlets[state] = target.wire_node(name, LastOrInitial { axis }, &inputs)?[0];
        }
        Ok(outlets)
    }
}

impl OnnxScan {
    /// The initial states, and empty scan outputs.
    fn without_steps(
        &self,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        outlets: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let outlets = outlets.iter().enumerate();
        let outlets = outlets.map(|(output, outlet)| {
            if output < self.states {
                return Ok(mapping[&node.inputs[output]]);
            }
            let fact = target.outlet_fact(*outlet)?.clone();
            let shape = fact.shape.as_concrete();
            let shape =
                shape.with_context(|| format!("its outputs have sizes {:?}", fact.shape))?;
            let nothing = Tensor::zero_dt(fact.datum_type, shape)?;
            let name = target.unique_name(format!("{}.nothing", node.name));
            target.add_const(name.into_owned(), nothing)
        });
        outlets.collect()
    }
}
