//! Loops that are recurrent layers, by what their steps compute.

use std::ops::Range;

use tract_onnx::tract_core::ops::array::{MultiBroadcastTo, Slice, StridedSlice};
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::logic::{Iff, Not};
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_hir::internal::*;

use super::activation::{Activation, Functions};
use super::cell::Cell;
use super::large::MINIMUM_WEIGHTS;
use super::op::{Counted, PackedRecurrent, Slots};
use super::packed::{Constants, Direction, PackedLayer};
use crate::alias::Alias;

/// A Scan that is about to be wired.
pub(crate) struct Scanned<'a> {
    pub(crate) body: &'a TypedModel,
    pub(crate) outer: &'a [OutletId],
    pub(crate) inputs: &'a [InputMapping],
    pub(crate) outputs: &'a [OutputMapping<TDim>],
}

/// A sum of products with constant matrices and of constants.
#[derive(Default)]
struct Sum {
    /// What is multiplied and by what: the weights of each column, one after the other.
    products: Vec<(OutletId, Vec<f32>)>,
    bias: Vec<f32>,
    /// What else is added.
    others: Vec<OutletId>,
}

/// What a step does with its state, but for the mask.
struct Step {
    cell: Cell,
    activations: Vec<Activation>,
    /// In the order of ONNX's gates: the products with the input and with the state.
    gates: Vec<Gate>,
    x: OutletId,
    own_bias: Option<Vec<f32>>,
}

struct Gate {
    w: Vec<f32>,
    r: Vec<f32>,
    bias: Vec<f32>,
}

/// What a state becomes: something new, where a mask says so.
struct Next {
    new: OutletId,
    /// What it is otherwise, with the input that tells which.
    otherwise: Option<Otherwise>,
}

#[derive(Clone, Copy, PartialEq)]
struct Otherwise {
    old: OutletId,
    mask: usize,
    blends: bool,
}

/// Wires a Scan as a layer, if it is one with large weights: gives an outlet for each slot.
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
    // The state that products are made of is h.
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
    // Whether an output is h, or zeros where h stays what it was.
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
            // One of its own, which is h as long as both start alike.
            Some(state) => {
                let own = next_of(state);
                let is_same = own.new == of_h.new && scan.same_mask(&own, &of_h);
                (is_same && is_old(&own, state) && starts_alike(state)).then_some(true)
            }
            None => is_zero(target, scan.outer[input]).then_some(false),
        }
    };
    // The layer's output that each output is, by its number among Y, Y_h and Y_c.
    let mut slots: Vec<(usize, usize)> = vec![];
    let mut repeats_y = None;
    for (outlet, mapping) in std::iter::zip(&body.outputs, scan.outputs) {
        if let Some((slot, info)) = mapping.scan {
            rule_if_some!(how = repeats(*outlet));
            rule_if!(info.chunk == 1 && info.axis == 0 && mapping.last_value_slot.is_none());
            rule_if!(*repeats_y.get_or_insert(how) == how);
            slots.push((slot, 0));
        } else if let Some(slot) = mapping.last_value_slot {
            let is_c = cell_state.is_some_and(|state| *outlet == body.outputs[next[state]]);
            rule_if!(is_c || repeats(*outlet) == Some(true));
            slots.push((slot, if is_c { 2 } else { 1 }));
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
    for (_, output) in slots.iter().copied() {
        let index = (0..output).filter(|it| wants(*it)).count();
        // Without the axis of directions.
        let axis = usize::from(output == 0);
        outlets.push(wire(
            target,
            &format!("{name}.of"),
            AxisOp::Rm(axis),
            made[index],
        )?);
    }
    Ok(Some(outlets))
}

/// Whether a value is known to be zeros.
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

impl Scanned<'_> {
    fn node(&self, outlet: OutletId) -> &TypedNode {
        self.body.node(outlet.node)
    }

    /// The value itself where only axes of size 1, or the name, differ.
    fn strip(&self, mut outlet: OutletId) -> OutletId {
        loop {
            let node = self.node(outlet);
            let is_unit = matches!(node.op_as(), Some(AxisOp::Add(_) | AxisOp::Rm(_)));
            if !is_unit && !node.op_is::<Alias>() && !node.op_is::<Identity>() {
                return outlet;
            }
            outlet = node.inputs[0];
        }
    }

    /// The input that a value is.
    fn source(&self, outlet: OutletId) -> Option<usize> {
        let outlet = self.strip(outlet);
        self.body.inputs.iter().position(|it| *it == outlet)
    }

    fn binary<T: BinMiniOp>(&self, outlet: OutletId) -> Option<[OutletId; 2]> {
        let node = self.node(self.strip(outlet));
        let op = node.op_as::<TypedBinOp>()?;
        op.0.is::<T>().then(|| [node.inputs[0], node.inputs[1]])
    }

    /// Both orders of what may be in either.
    fn either<T: BinMiniOp>(&self, outlet: OutletId) -> impl Iterator<Item = [OutletId; 2]> {
        let found = self.binary::<T>(outlet);
        found.into_iter().flat_map(|[a, b]| [[a, b], [b, a]])
    }

    /// A number that a value is everywhere.
    fn number(&self, outlet: OutletId) -> Option<f32> {
        let known = self.body.outlet_fact(outlet).ok()?.konst.clone()?;
        known.as_uniform()?.cast_to_scalar::<f32>().ok()
    }

    /// The input that a mask is, and whether it is its opposite.
    fn mask(&self, outlet: OutletId) -> Option<(usize, bool)> {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        let fact = self.body.outlet_fact(outlet).ok()?;
        if let Some(input) = self.source(outlet) {
            let is_mask = fact.datum_type.is::<bool>() && self.inputs[input].is_scan();
            return is_mask.then_some((input, false));
        }
        let is_not = node
            .op_as::<ElementWiseOp>()
            .is_some_and(|op| op.0.is::<Not>());
        if is_not {
            let (input, is_opposite) = self.mask(node.inputs[0])?;
            return Some((input, !is_opposite));
        }
        if node.op_is::<Cast>() {
            return self.mask(node.inputs[0]);
        }
        let [one, of] = self.binary::<math::Sub>(outlet)?;
        let (input, is_opposite) = self.mask(of)?;
        (self.number(one)? == 1.0).then_some((input, !is_opposite))
    }

    /// Whether a mask has one element for each row of a state.
    fn is_by_row(&self, mask: OutletId) -> bool {
        let fact = self.body.outlet_fact(mask);
        fact.is_ok_and(|fact| fact.rank() == 2 && fact.shape[1].is_one())
    }

    fn next(&self, outlet: OutletId) -> Next {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        if node.op_is::<Iff>()
            && self.is_by_row(node.inputs[0])
            && let Some((mask, is_opposite)) = self.mask(node.inputs[0])
        {
            let (new, old) = if is_opposite { (2, 1) } else { (1, 2) };
            return Next {
                new: self.strip(node.inputs[new]),
                otherwise: Some(Otherwise {
                    old: self.strip(node.inputs[old]),
                    mask,
                    blends: false,
                }),
            };
        }
        let part = |outlet: OutletId, is_opposite: bool| {
            self.either::<math::Mul>(outlet).find_map(|[of, value]| {
                let (mask, found) = self.mask(of).filter(|_| self.is_by_row(of))?;
                (found == is_opposite).then(|| (mask, self.strip(value)))
            })
        };
        let blend = self.either::<math::Add>(outlet).find_map(|[new, old]| {
            let ((mask, new), (other, old)) = (part(new, false)?, part(old, true)?);
            let otherwise = Otherwise {
                old,
                mask,
                blends: true,
            };
            (mask == other).then_some(Next {
                new,
                otherwise: Some(otherwise),
            })
        });
        blend.unwrap_or(Next {
            new: outlet,
            otherwise: None,
        })
    }

    fn same_mask(&self, a: &Next, b: &Next) -> bool {
        let mask = |next: &Next| next.otherwise.map(|it| (it.mask, it.blends));
        mask(a) == mask(b)
    }

    fn activation(&self, outlet: OutletId) -> Option<(Activation, OutletId)> {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        if let Some(op) = node.op_as::<ElementWiseOp>() {
            let found = match () {
                () if op.0.is::<nn::Sigmoid>() => Activation::Sigmoid,
                () if op.0.is::<math::Tanh>() => Activation::Tanh,
                () => return None,
            };
            return Some((found, self.strip(node.inputs[0])));
        }
        let relu = self.either::<math::Max>(outlet);
        let mut relu = relu.filter(|[zero, _]| self.number(*zero) == Some(0.0));
        relu.next().map(|[_, x]| (Activation::Relu, self.strip(x)))
    }

    /// Some columns of a value of a width, as a sum.
    fn add_terms(&self, outlet: OutletId, columns: Range<usize>, to: &mut Sum) -> Option<()> {
        let outlet = self.strip(outlet);
        let node = self.node(outlet);
        let fact = self.body.outlet_fact(outlet).ok()?;
        let width = fact.shape.last()?.to_usize().ok()?;
        if let Some(known) = &fact.konst {
            let known = known.cast_to::<f32>().ok()?;
            let known = known.try_as_plain_ram().ok()?;
            let known = known.as_slice::<f32>().ok()?;
            let part = match known.len() {
                1 => &vec![known[0]; columns.len()],
                len if len == width => known.get(columns)?,
                _ => return None,
            };
            for (to, bias) in std::iter::zip(&mut to.bias, part) {
                *to += bias;
            }
            return Some(());
        }
        if columns.end > width {
            return None;
        }
        if let Some([a, b]) = self.binary::<math::Add>(outlet) {
            self.add_terms(a, columns.clone(), to)?;
            return self.add_terms(b, columns, to);
        }
        if let Some(start) = self.first_column(node) {
            let columns = columns.start + start..columns.end + start;
            return self.add_terms(node.inputs[0], columns, to);
        }
        if node.op_is::<EinSum>() {
            let product = self.product(node, columns)?;
            to.products.push(product);
            return Some(());
        }
        (columns == (0..width)).then(|| to.others.push(outlet))
    }

    /// The first column of a slice of columns.
    fn first_column(&self, node: &TypedNode) -> Option<usize> {
        let rank = node.outputs[0].fact.rank();
        if let Some(slice) = node.op_as::<Slice>() {
            let start = slice.start.to_usize().ok()?;
            return (slice.axis + 1 == rank).then_some(start);
        }
        let slice = node.op_as::<StridedSlice>()?;
        let masks = slice.begin_mask | slice.end_mask | slice.shrink_axis_mask;
        if masks != 0 || slice.optional_steps_input.is_some() {
            return None;
        }
        let numbers = |input: usize| -> Option<Vec<i64>> {
            let known = self
                .body
                .outlet_fact(node.inputs[input])
                .ok()?
                .konst
                .clone()?;
            let known = known.cast_to::<i64>().ok()?;
            Some(
                known
                    .try_as_plain_ram()
                    .ok()?
                    .as_slice::<i64>()
                    .ok()?
                    .to_vec(),
            )
        };
        let starts = numbers(1)?;
        let axes = match slice.optional_axes_input {
            Some(axes) => numbers(axes)?,
            None => (0..starts.len() as i64).collect(),
        };
        let mut first = 0;
        for (axis, start) in std::iter::zip(axes, starts) {
            let axis = if axis < 0 { axis + rank as i64 } else { axis };
            if axis + 1 == rank as i64 {
                first = usize::try_from(start).ok()?;
            } else {
                let axis = usize::try_from(axis).ok()?;
                let all = &self.body.outlet_fact(node.inputs[0]).ok()?.shape[axis];
                (start == 0 && node.outputs[0].fact.shape[axis] == *all).then_some(())?;
            }
        }
        Some(first)
    }

    /// A product with a constant matrix: what is multiplied, and the weights of each column.
    fn product(&self, node: &TypedNode, columns: Range<usize>) -> Option<(OutletId, Vec<f32>)> {
        let op = node.op_as::<EinSum>()?;
        if op.q_params.is_some() || node.inputs.len() != 2 {
            return None;
        }
        let known = |input: usize| {
            self.body
                .outlet_fact(node.inputs[input])
                .ok()?
                .konst
                .clone()
        };
        let (of, matrix, weights) = match (known(0), known(1)) {
            (None, Some(weights)) => (0, 1, weights),
            (Some(weights), None) => (1, 0, weights),
            _ => return None,
        };
        let of_rank = self.body.outlet_fact(node.inputs[of]).ok()?.rank();
        let out_rank = node.outputs[0].fact.rank();
        let (mut inner, mut outer) = (None, None);
        for axis in op.axes.iter_all_axes() {
            match (&*axis.inputs[of], &*axis.inputs[matrix], &*axis.outputs[0]) {
                ([a], [b], []) if *a + 1 == of_rank && inner.is_none() => inner = Some(*b),
                ([], [b], [c]) if *c + 1 == out_rank && outer.is_none() => outer = Some(*b),
                // Axes of size 1 of the weights, and rows.
                ([_] | [], [b], [_] | []) if weights.shape()[*b] == 1 => {}
                ([a], [], [c]) if a.abs_diff(*c) <= of_rank.abs_diff(out_rank) => {}
                _ => return None,
            }
        }
        let (inner, outer) = (inner?, outer?);
        let sizes = (weights.shape()[inner], weights.shape()[outer]);
        let weights = weights.cast_to::<f32>().ok()?;
        let weights = weights.try_as_plain_ram().ok()?;
        let weights = weights.as_slice::<f32>().ok()?;
        if sizes.0 * sizes.1 != weights.len() || columns.end > sizes.1 {
            return None;
        }
        let strides = if inner < outer {
            (sizes.1, 1)
        } else {
            (1, sizes.0)
        };
        let mut of_columns = vec![];
        for column in columns {
            let row = (0..sizes.0).map(|input| weights[input * strides.0 + column * strides.1]);
            of_columns.extend(row);
        }
        Some((self.strip(node.inputs[of]), of_columns))
    }

    fn sum(&self, outlet: OutletId, units: usize) -> Option<Sum> {
        let mut sum = Sum {
            bias: vec![0.0; units],
            ..Sum::default()
        };
        self.add_terms(outlet, 0..units, &mut sum)?;
        Some(sum)
    }

    /// The gates of sums of a product with the input, one with the state, and biases.
    fn gates(&self, sums: Vec<Sum>, h: OutletId) -> Option<(Vec<Gate>, OutletId)> {
        let mut x = None;
        let mut gates = vec![];
        for sum in sums {
            let (mut w, mut r) = (None, None);
            for (of, weights) in sum.products {
                if of == h {
                    r.replace(weights).is_none().then_some(())?;
                } else {
                    w.replace(weights).is_none().then_some(())?;
                    (*x.get_or_insert(of) == of).then_some(())?;
                }
            }
            sum.others.is_empty().then_some(())?;
            gates.push(Gate {
                w: w?,
                r: r?,
                bias: sum.bias,
            });
        }
        Some((gates, x?))
    }

    fn lstm(
        &self,
        new_h: OutletId,
        new_c: OutletId,
        h: OutletId,
        c: OutletId,
        units: usize,
    ) -> Option<Step> {
        let sigmoid = |outlet: OutletId| match self.activation(outlet)? {
            (Activation::Sigmoid, of) => Some(of),
            _ => None,
        };
        let (o, shown) = self.either::<math::Mul>(new_h).find_map(|[o, shown]| {
            let (shown, of) = self.activation(shown)?;
            (of == new_c).then_some((sigmoid(o)?, shown))
        })?;
        let (f, i, new, function) = self.either::<math::Add>(new_c).find_map(|[kept, added]| {
            let mut kept = self.either::<math::Mul>(kept);
            let f = kept.find_map(|[f, of]| (self.strip(of) == c).then(|| sigmoid(f))?)?;
            let mut added = self.either::<math::Mul>(added);
            added.find_map(|[i, new]| {
                let (function, new) = self.activation(new)?;
                Some((f, sigmoid(i)?, new, function))
            })
        })?;
        let sums = [i, o, f, new].map(|gate| self.sum(gate, units));
        let (gates, x) = self.gates(sums.into_iter().collect::<Option<_>>()?, h)?;
        Some(Step {
            cell: Cell::Lstm {
                couples_input_and_forget: false,
            },
            activations: vec![Activation::Sigmoid, function, shown],
            gates,
            x,
            own_bias: None,
        })
    }

    fn gru(&self, new_h: OutletId, h: OutletId, units: usize) -> Option<Step> {
        // z h + (1 - z) new.
        let (z, new) = self.either::<math::Add>(new_h).find_map(|[kept, added]| {
            let mut kept = self.either::<math::Mul>(kept);
            let z = kept.find_map(|[z, of]| (self.strip(of) == h).then(|| self.strip(z)))?;
            let mut added = self.either::<math::Mul>(added);
            added.find_map(|[rest, new]| {
                let [one, of] = self.binary::<math::Sub>(rest)?;
                let is_rest = self.number(one)? == 1.0 && self.strip(of) == z;
                is_rest.then_some((z, new))
            })
        })?;
        let (gate, z) = self.activation(z)?;
        let (function, new) = self.activation(new)?;
        let mut sum = self.sum(new, units)?;
        let mut own_bias = None;
        // r (h R + b), or (r h) R.
        let (resets_after_product, r) = if let [other] = *sum.others {
            let (r, mut seen) = self.either::<math::Mul>(other).find_map(|[r, seen]| {
                let (found, r) = self.activation(r)?;
                Some((r, self.sum(seen, units)?)).filter(|_| found == gate)
            })?;
            let is_h = seen.products.len() == 1 && seen.products[0].0 == h;
            (is_h && seen.others.is_empty()).then_some(())?;
            sum.others.clear();
            sum.products.append(&mut seen.products);
            own_bias = Some(seen.bias);
            (true, r)
        } else {
            let reset = sum.products.iter_mut().find_map(|(of, _)| {
                let r = self.either::<math::Mul>(*of).find_map(|[r, of]| {
                    let (found, r) = self.activation(r)?;
                    (found == gate && self.strip(of) == h).then_some(r)
                })?;
                *of = h;
                Some(r)
            })?;
            (false, reset)
        };
        let sums = vec![self.sum(z, units)?, self.sum(r, units)?, sum];
        let (gates, x) = self.gates(sums, h)?;
        Some(Step {
            cell: Cell::Gru {
                resets_after_product,
            },
            activations: vec![gate, function],
            gates,
            x,
            own_bias,
        })
    }

    fn rnn(&self, new_h: OutletId, h: OutletId, units: usize) -> Option<Step> {
        let (function, of) = self.activation(new_h)?;
        let (gates, x) = self.gates(vec![self.sum(of, units)?], h)?;
        Some(Step {
            cell: Cell::Rnn,
            activations: vec![function],
            gates,
            x,
            own_bias: None,
        })
    }
}

impl Step {
    fn pack(self, units: usize, features: usize) -> TractResult<PackedLayer> {
        let (mut w, mut r, mut bias) = (vec![], vec![], vec![]);
        for gate in &self.gates {
            w.extend_from_slice(&gate.w);
            r.extend_from_slice(&gate.r);
            bias.extend_from_slice(&gate.bias);
        }
        let gates = self.gates.len();
        ensure!(w.len() == gates * units * features && r.len() == gates * units * units);
        // The biases of the recurrent products, of which one counts.
        let own = self.own_bias.unwrap_or_else(|| vec![0.0; units]);
        bias.resize((2 * gates - 1) * units, 0.0);
        bias.extend_from_slice(&own);
        let direction = Direction::pack(
            self.cell,
            false,
            self.activations,
            units,
            features,
            &Constants {
                w: &w,
                r: &r,
                bias: Some(&bias),
                peepholes: None,
            },
        );
        Ok(PackedLayer {
            cell: self.cell,
            clip: None,
            units,
            features,
            directions: vec![direction],
            functions: Functions::new()?,
        })
    }
}
