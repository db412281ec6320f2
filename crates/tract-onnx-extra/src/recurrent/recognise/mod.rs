//! Recognises loops that are recurrent layers.

mod step;
mod sum;
mod values;

use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_hir::internal::*;

use super::large::MINIMUM_WEIGHTS;
use super::op::{Counted, PackedRecurrent, Slots};
use values::Next;
pub(crate) use values::Scanned;

/// Wires a Scan as a layer, if it is one with large weights. Returns an outlet for each slot.
pub(crate) fn wire(
    scan: &Scanned<'_>,
    target: &mut TypedModel,
    name: &str,
) -> TractResult<Option<TVec<OutletId>>> {
    let body = scan.body;
    let states: TVec<usize> = (0..scan.inputs.len())
        .filter(|input| scan.inputs[*input].is_state())
        .collect();
    let next: TVec<usize> = (0..scan.outputs.len())
        .filter(|output| scan.outputs[*output].state)
        .collect();
    rule_if!(!states.is_empty() && states.len() == next.len());
    // The state that is an operand of products is h.
    let of_state = |input: usize| states.iter().position(|it| *it == input);
    let products = body.nodes().iter().filter(|node| node.op_is::<EinSum>());
    let mut multiplied = products.flat_map(|node| &node.inputs);
    rule_if_some!(h = multiplied.find_map(|of| of_state(scan.source(*of)?)));
    let h_outlet = body.inputs[states[h]];
    let fact = body.outlet_fact(h_outlet)?;
    rule_if!(fact.datum_type.is::<f32>() && fact.rank() == 2);
    rule_if_some!(units = fact.shape[1].to_usize().ok());
    let next_of = |state: usize| scan.next(body.outputs[next[state]]);
    let of_h = next_of(h);
    let is_old = |next: &Next, state: usize| {
        next.otherwise
            .is_none_or(|it| it.old == body.inputs[states[state]])
    };
    rule_if!(is_old(&of_h, h));
    let cell_state = (0..states.len()).find_map(|state| {
        let new = next_of(state);
        if state == h || !is_old(&new, state) || !scan.same_mask(&new, &of_h) {
            return None;
        }
        let c = body.inputs[states[state]];
        Some((state, scan.lstm(of_h.new, new.new, h_outlet, c, units)?))
    });
    let (cell_state, step) = match cell_state {
        Some((state, step)) => (Some(state), Some(step)),
        None => {
            let gru = scan.gru(of_h.new, h_outlet, units);
            (None, gru.or_else(|| scan.rnn(of_h.new, h_outlet, units)))
        }
    };
    rule_if_some!(step = step);
    rule_if!(units * units * step.gates.len() >= MINIMUM_WEIGHTS);
    rule_if_some!(
        features = body
            .outlet_fact(step.x)?
            .shape
            .last()
            .and_then(|it| it.to_usize().ok())
    );
    rule_if_some!(x = scan.source(step.x));
    rule_if_some!(x_info = scan.inputs[x].as_scan());
    let x_fact = target.outlet_fact(scan.outer[x])?;
    rule_if!(x_info.chunk == 1 && x_info.axis < 2 && x_fact.rank() == 3);
    let batch = x_fact.shape[1 - x_info.axis].clone();
    rule_if!(target.outlet_fact(scan.outer[states[h]])?.shape[0] == batch);

    let starts_alike = |state: usize| {
        let (a, b) = (scan.outer[states[state]], scan.outer[states[h]]);
        a == b || is_zero(target, a) && is_zero(target, b)
    };
    // Whether an output is h (`true`), or zeros where h does not change (`false`).
    let repeats = |outlet: OutletId| -> Option<bool> {
        let shown = scan.next(outlet);
        if shown.new != of_h.new || !scan.same_mask(&shown, &of_h) {
            return None;
        }
        let Some(otherwise) = shown.otherwise else {
            return Some(true);
        };
        if scan.number(otherwise.old) == Some(0.0) {
            return Some(false);
        }
        let input = scan.source(otherwise.old)?;
        match of_state(input) {
            Some(state) if state == h => Some(true),
            // A separate state equals h if both start equal.
            Some(state) => {
                let own = next_of(state);
                let is_same = own.new == of_h.new && scan.same_mask(&own, &of_h);
                (is_same && is_old(&own, state) && starts_alike(state)).then_some(true)
            }
            None => is_zero(target, scan.outer[input]).then_some(false),
        }
    };
    // For each slot, the index of the layer's output among Y, Y_h and Y_c, and the body's output.
    let mut slots: Vec<(usize, usize, OutletId)> = vec![];
    let mut repeats_y = None;
    for (outlet, mapping) in std::iter::zip(&body.outputs, scan.outputs) {
        if let Some((slot, info)) = mapping.scan {
            rule_if_some!(how = repeats(*outlet));
            rule_if!(info.chunk == 1 && info.axis == 0 && mapping.last_value_slot.is_none());
            rule_if!(*repeats_y.get_or_insert(how) == how);
            slots.push((slot, 0, *outlet));
        } else if let Some(slot) = mapping.last_value_slot {
            let is_c = cell_state.is_some_and(|state| *outlet == body.outputs[next[state]]);
            rule_if!(is_c || repeats(*outlet) == Some(true));
            slots.push((slot, if is_c { 2 } else { 1 }, *outlet));
        }
    }
    slots.sort_unstable();
    let counted = match of_h.otherwise {
        None => Counted::All,
        Some(otherwise) => Counted::Masked {
            blends: otherwise.blends,
            repeats: repeats_y.unwrap_or(true),
        },
    };
    let mut scanned = tvec![(scan.outer[x], x_info.axis)];
    if let Some(otherwise) = of_h.otherwise {
        let mask = scan.outer[otherwise.mask];
        rule_if_some!(info = scan.inputs[otherwise.mask].as_scan());
        let shape = &target.outlet_fact(mask)?.shape;
        rule_if!(info.chunk == 1 && info.axis < 2 && shape[1 - info.axis] == batch);
        rule_if!(shape.len() == 2 || shape.len() == 3 && shape[2].is_one());
        scanned.push((mask, info.axis));
    }

    let wire = |target: &mut TypedModel, name: &str, op: AxisOp, input: OutletId| {
        let name = target.unique_name(name).into_owned();
        TractResult::Ok(target.wire_node(name, op, &[input])?[0])
    };
    let mut operands: TVec<OutletId> = tvec![];
    for (index, (mut outlet, axis)) in scanned.into_iter().enumerate() {
        let name = format!("{name}.scanned{index}");
        if axis == 1 {
            outlet = wire(target, &name, AxisOp::Move(1, 0), outlet)?;
        }
        if index == 1 && target.outlet_fact(outlet)?.rank() == 3 {
            outlet = wire(target, &name, AxisOp::Rm(2), outlet)?;
        }
        operands.push(outlet);
    }
    for state in std::iter::once(h).chain(cell_state) {
        let state = scan.outer[states[state]];
        operands.push(wire(
            target,
            &format!("{name}.initial"),
            AxisOp::Add(0),
            state,
        )?);
    }
    let wants = |output: usize| slots.iter().any(|it| it.1 == output);
    let op = PackedRecurrent {
        layer: Arc::new(step.pack(units, features)?),
        counted,
        slots: Slots {
            initial_h: true,
            initial_c: cell_state.is_some(),
            y: wants(0),
            y_h: wants(1),
            y_c: wants(2),
        },
    };
    let op_name = target.unique_name(name).into_owned();
    let made = target.wire_node(op_name, op, &operands)?;
    let mut outlets = tvec![];
    for (_, output, in_body) in slots.iter().copied() {
        let index = (0..output).filter(|it| wants(*it)).count();
        // Removes the axis of directions.
        let axis = usize::from(output == 0);
        let name = format!("{name}.of");
        let outlet = wire(target, &name, AxisOp::Rm(axis), made[index])?;
        // The body may output a state in another shape, with axes of 1 more.
        let from = target.outlet_fact(outlet)?.shape.to_tvec();
        let to = body.outlet_fact(in_body)?.shape.to_tvec();
        let steps = usize::from(output == 0);
        outlets.push(if from[steps..] == to[steps..] {
            outlet
        } else {
            let [from, to] = [&from, &to].map(|dims| dims[steps..].into());
            wire(target, &name, AxisOp::Reshape(steps, from, to), outlet)?
        });
    }
    Ok(Some(outlets))
}

/// Whether a value is known to be all zeros.
fn is_zero(model: &TypedModel, outlet: OutletId) -> bool {
    let known = model
        .outlet_fact(outlet)
        .ok()
        .and_then(|it| it.konst.clone());
    if let Some(known) = known {
        return known.is_all_zero().unwrap_or(false);
    }
    let node = model.node(outlet.node);
    let keeps = node.op_is::<MultiBroadcastTo>() || node.op_is::<AxisOp>();
    keeps && is_zero(model, node.inputs[0])
}
