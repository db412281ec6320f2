//! A Scan in the graph around it: its inputs, its mappings and its outputs.
//!
//! The body is complete by then (`body.rs`). States that are known without the loop become constants;
//! tract's Scan has the others, in the order of the loop's outputs.

use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};
use tract_onnx::tract_hir::internal::*;

use super::body::{Body, Origin};
use super::reads::{Positions, wire_positions};
use crate::loops::alias::Alias;
use crate::loops::induction::Induction;
use crate::loops::nested;
use crate::loops::spec::{Spec, Value};
use crate::typed_op::Typed;
use crate::wire::wire_cast;

impl Body<'_> {
    /// Wires the Scan, and returns the loop's outputs.
    pub(super) fn wire(
        mut self,
        target: &mut TypedModel,
        name: &str,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let (spec, induction) = (self.spec, self.induction);
        let outlets = self.wire_outputs(name)?;
        let (outer, input_mapping) = self.wire_inputs(target, name, inputs)?;
        let outputs = spec.outputs.iter().map(|output| output.value);
        let computed: Vec<Value> = outputs.filter(|value| !induction.knows(*value)).collect();
        let output_mapping = self.output_mapping(&computed)?;
        self.model.select_output_outlets(&outlets)?;
        self.model.compact()?;
        let made = match computed.is_empty() {
            true => tvec![],
            false => {
                let mut scan = Scan::new(self.model, input_mapping, output_mapping, 0)?;
                nested::settle(&mut scan)?;
                let name = target.unique_name(name).into_owned();
                target.wire_node(name, scan, &outer)?
            }
        };
        outputs_of(spec, induction, target, name, made)
    }

    /// Wires the values around the Scan that it takes, with the way in which it takes each.
    fn wire_inputs(
        &mut self,
        target: &mut TypedModel,
        name: &str,
        inputs: &[OutletId],
    ) -> TractResult<(TVec<OutletId>, Vec<InputMapping>)> {
        let mut outer = tvec![];
        let mut input_mapping = vec![];
        for from in std::mem::take(&mut self.sources) {
            let forward = |axis| InputMapping::Scan(ScanInfo { axis, chunk: 1 });
            let (outlet, mapping) = match from {
                Origin::State(state) => (inputs[self.spec.states[state]], InputMapping::State),
                Origin::Whole(input) => (inputs[input], InputMapping::Full),
                Origin::Values(values) => {
                    let name = target.unique_name(format!("{name}.values")).into_owned();
                    (target.add_const(name, values)?, forward(0))
                }
                Origin::Positions(gather, positions) => {
                    let (data, axis) = (inputs[gather.input], gather.axis);
                    match positions {
                        Positions::All => (data, forward(axis)),
                        Positions::At(positions) => {
                            wire_positions(target, name, data, axis, &positions)?
                        }
                    }
                }
            };
            let outlet = match mapping {
                InputMapping::Scan(_) => Alias::unfolded(target, name, outlet)?,
                InputMapping::Full | InputMapping::State => outlet,
            };
            outer.push(outlet);
            input_mapping.push(mapping);
        }
        // The last input is the element that is scanned for no other reason.
        if let (Some(metered), Some(element)) = (self.metered.take(), outer.last_mut()) {
            let name = target.unique_name(format!("{name}.limits")).into_owned();
            *element = target.wire_node(name, Typed(metered), &[*element])?[0];
        }
        Ok((outer, input_mapping))
    }

    /// The use of each output of the body: as a state, as a last value, or stacked.
    fn output_mapping(&self, computed: &[Value]) -> TractResult<Vec<OutputMapping<TDim>>> {
        let slot_of = |value: Value| computed.iter().position(|it| *it == value);
        let mut output_mapping = vec![];
        let read = self.states.iter().map(|(state, _)| (*state, true));
        let unread = self.unread().into_iter().map(|state| (state, false));
        for (state, is_read) in read.chain(unread) {
            output_mapping.push(OutputMapping {
                state: is_read,
                last_value_slot: slot_of(Value::State(state)),
                scan: None,
                full_dim_hint: None,
            });
        }
        for scan in 0..self.spec.scans {
            let slot = slot_of(Value::Scan(scan)).context("a scanned value is an output")?;
            output_mapping.push(OutputMapping {
                state: false,
                last_value_slot: None,
                scan: Some((slot, ScanInfo { axis: 0, chunk: 1 })),
                full_dim_hint: None,
            });
        }
        Ok(output_mapping)
    }
}

/// The outputs of the loop: those of the Scan, and states that are known without it.
fn outputs_of(
    spec: &Spec,
    induction: &Induction,
    target: &mut TypedModel,
    name: &str,
    made: TVec<OutletId>,
) -> TractResult<TVec<OutletId>> {
    let mut made = made.into_iter();
    let outputs = spec.outputs.iter().map(|output| match output.value {
        Value::State(state) if induction.knows(output.value) => {
            let value = induction.last[&state].clone().into_arc_tensor();
            let name = format!("{name}.state{state}");
            let state = target.unique_name(&name).into_owned();
            let state = target.wire_node(state, Const::new(value)?, &[])?[0];
            // A symbolic state is known when it runs.
            wire_cast(target, name, state, output.fact.datum_type)
        }
        _ => made
            .next()
            .context("a Scan has the outputs that are mapped"),
    });
    outputs.collect()
}
