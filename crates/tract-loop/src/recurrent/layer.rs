//! A layer: its products with all inputs, its directions and its lengths.

use tract_onnx::tract_core::ops::array::{MultiBroadcastTo, Range, Slice, TypedConcat};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::logic::{Iff, comp_lt};
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::expandable::Expansion;

use super::Wiring;
use super::activation::Activation;
use super::cell::{Cell, Step};
use crate::alias::Alias;

/// The node's inputs that may be absent.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) bias: Option<usize>,
    pub(super) lengths: Option<usize>,
    pub(super) initial_h: Option<usize>,
    pub(super) initial_c: Option<usize>,
    pub(super) peepholes: Option<usize>,
}

/// The node's outputs that are there.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    pub(super) y: Option<usize>,
    pub(super) y_h: Option<usize>,
    pub(super) y_c: Option<usize>,
}

impl Outputs {
    pub(super) fn count(&self) -> usize {
        [self.y, self.y_h, self.y_c].iter().flatten().count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) cell: Cell,
    /// Whether each goes from the last step to the first.
    pub(super) directions: TVec<bool>,
    /// The functions of each direction.
    pub(super) activations: Vec<Vec<Activation>>,
    pub(super) clip: Option<f32>,
    /// Whether the axis of the batch comes before that of time.
    pub(super) is_batch_first: bool,
    pub(super) inputs: Inputs,
    pub(super) outputs: Outputs,
}

/// Where the node's axes are.
struct Axes {
    batch: usize,
    time: usize,
    /// The directions' in states, and the batch's.
    states: [usize; 2],
    /// Those of time, directions and batch in `Y`.
    y: [usize; 3],
}

impl Layer {
    fn axes(&self) -> Axes {
        if self.is_batch_first {
            Axes {
                batch: 0,
                time: 1,
                states: [1, 0],
                y: [1, 2, 0],
            }
        } else {
            Axes {
                batch: 1,
                time: 0,
                states: [0, 1],
                y: [0, 1, 2],
            }
        }
    }

    /// Wires one direction; gives Y, [time, batch, hidden], and the last states,
    /// [1, batch, hidden], as far as they are wanted.
    fn wire_direction(
        &self,
        to: &mut Wiring<'_>,
        direction: usize,
        shared: &Shared,
        inputs: &[OutletId],
    ) -> TractResult<[Option<OutletId>; 3]> {
        let of_direction = |to: &mut Wiring<'_>, name: &str, input: OutletId| {
            to.op(name, Slice::new(0, direction, direction + 1), &[input])
        };
        let bias = match self.inputs.bias {
            Some(bias) => {
                let bias = of_direction(to, "bias", inputs[bias])?;
                Some(to.op("bias", AxisOp::Add(0), &[bias])?)
            }
            None => None,
        };
        let w = of_direction(to, "w", inputs[1])?;
        let w = to.op("w", AxisOp::Rm(0), &[w])?;
        let r = of_direction(to, "r", inputs[2])?;
        let r = to.op("r", AxisOp::Rm(0), &[r])?;
        let hidden = to.fact(r)?.shape[1].clone();
        let of = to.fact(shared.x)?.datum_type;
        let gates = |count: usize| hidden.clone() * count;

        let product = EinSum::new("tbi,gi->tbg".parse()?, of);
        let mut x = to.op("product", product, &[shared.x, w])?;
        let mut own_bias = None;
        if let Some(bias) = bias {
            let count = self.cell.gates();
            let mut part = |name: &str, from: usize, until: usize| {
                to.op(name, Slice::new(2, gates(from), gates(until)), &[bias])
            };
            let of_w = part("bias.w", 0, count)?;
            let recurrent = if self.cell.has_recurrent_bias() {
                own_bias = Some(part("bias.own", 2 * count - 1, 2 * count)?);
                let of_r = part("bias.r", count, 2 * count - 1)?;
                let none = tensor0(0f32).cast_to_dt(of)?.into_owned();
                let none = to.constant("bias.none", none)?;
                let none = to.op(
                    "bias.none",
                    MultiBroadcastTo::new(shape(&[1.to_dim(), 1.to_dim(), hidden.clone()])),
                    &[none],
                )?;
                to.op("bias.r", TypedConcat::new(2), &[of_r, none])?
            } else {
                part("bias.r", count, 2 * count)?
            };
            let bias = to.op("bias", math::add(), &[of_w, recurrent])?;
            x = to.op("biased", math::add(), &[x, bias])?;
        }
        let peepholes = match self.inputs.peepholes {
            Some(peepholes) => {
                let all = of_direction(to, "peepholes", inputs[peepholes])?;
                let all = to.op("peepholes", AxisOp::Add(0), &[all])?;
                let mut part = |index: usize| {
                    to.op(
                        "peephole",
                        Slice::new(2, gates(index), gates(index + 1)),
                        &[all],
                    )
                };
                Some([part(0)?, part(1)?, part(2)?])
            }
            None => None,
        };
        let size = shape(&[1.to_dim(), shared.batch.clone(), hidden.clone()]);
        let mut initial = |input: Option<usize>| match input {
            Some(input) => {
                let mut state = inputs[input];
                if self.is_batch_first {
                    state = to.op("initial", AxisOp::Move(1, 0), &[state])?;
                }
                of_direction(to, "initial", state)
            }
            None => {
                let zero = to.constant("initial", tensor0(0f32).cast_to_dt(of)?.into_owned())?;
                to.op("initial", MultiBroadcastTo::new(size.clone()), &[zero])
            }
        };
        let mut states = tvec![initial(self.inputs.initial_h)?];
        if self.cell.has_cell_state() {
            states.push(initial(self.inputs.initial_c)?);
        }

        // The body: its inputs in the order in which the Scan has them.
        let mut model = TypedModel {
            symbols: to.model.symbols.clone(),
            ..TypedModel::default()
        };
        let mut outer = tvec![];
        let mut mapping = vec![];
        let chunk = if self.directions[direction] { -1 } else { 1 };
        let along = ScanInfo { axis: 0, chunk };
        let mut source = |model: &mut TypedModel, name: &str, from: OutletId, how: InputMapping| {
            let fact = to.fact(from)?;
            let mut shape = fact.shape.clone();
            if how.is_scan() {
                shape.set(0, 1.to_dim());
            }
            outer.push(from);
            mapping.push(how);
            model.add_source(name, fact.datum_type.fact(shape))
        };
        let is_whole = InputMapping::Full;
        let x = source(&mut model, "x", x, InputMapping::Scan(along))?;
        let goes_on = match shared.goes_on {
            Some(it) => Some(source(
                &mut model,
                "goes_on",
                it,
                InputMapping::Scan(along),
            )?),
            None => None,
        };
        let h = source(&mut model, "h", states[0], InputMapping::State)?;
        let c = match states.get(1) {
            Some(&c) => Some(source(&mut model, "c", c, InputMapping::State)?),
            None => None,
        };
        let r = source(&mut model, "r", r, is_whole.clone())?;
        let bias = match own_bias {
            Some(bias) => Some(source(&mut model, "bias", bias, is_whole.clone())?),
            None => None,
        };
        let peepholes = match peepholes {
            Some([i, o, f]) => Some([
                source(&mut model, "peephole.i", i, is_whole.clone())?,
                source(&mut model, "peephole.o", o, is_whole.clone())?,
                source(&mut model, "peephole.f", f, is_whole.clone())?,
            ]),
            None => None,
        };
        let mut body = Wiring {
            model: &mut model,
            prefix: "step".to_owned(),
        };
        let h = body.op("h", Alias::State, &[h])?;
        let c = match c {
            Some(c) => Some(body.op("c", Alias::State, &[c])?),
            None => None,
        };
        let step = Step {
            x,
            h,
            c,
            r,
            bias,
            peepholes,
            hidden,
            activations: &self.activations[direction],
            clip: self.clip,
        };
        let after = self.cell.wire(&mut body, &step)?;
        let mut y = after[0];
        let mut carried = tvec![];
        for (before, after) in std::iter::zip([Some(h), c].into_iter().flatten(), after) {
            let mut state = after;
            if let Some(goes_on) = goes_on {
                state = body.op("state", Iff, &[goes_on, after, before])?;
            }
            carried.push(state);
        }
        if let Some(goes_on) = goes_on {
            let zero = body.constant("none", tensor0(0f32).cast_to_dt(of)?.into_owned())?;
            y = body.math("y", Iff, &[goes_on, y, zero])?;
        }

        let mut slots = 0;
        let mut slot = |is_wanted: bool| {
            is_wanted.then(|| {
                slots += 1;
                slots - 1
            })
        };
        let wanted = [self.outputs.y, self.outputs.y_h, self.outputs.y_c];
        let slots = wanted.map(|output| slot(output.is_some()));
        let mut outputs: TVec<OutletId> = tvec![];
        let mut output_mapping = vec![];
        if let Some(slot) = slots[0] {
            outputs.push(y);
            output_mapping.push(OutputMapping {
                scan: Some((slot, along)),
                ..OutputMapping::default()
            });
        }
        for (state, slot) in std::iter::zip(carried, &slots[1..]) {
            outputs.push(state);
            output_mapping.push(OutputMapping {
                state: true,
                last_value_slot: *slot,
                ..OutputMapping::default()
            });
        }
        model.select_output_outlets(&outputs)?;
        let mut scan = Scan::new(model, mapping, output_mapping, 0)?;
        scan.reset_every_turn = true;
        let name = to.name("scan");
        let made = to.model.wire_node(&name, scan, &outer)?;
        let made = Alias::scanned(to.model, &name, &made)?;
        Ok(slots.map(|slot| slot.map(|slot| made[slot])))
    }

    /// Whether a step is within a sequence's length: [time, batch, 1].
    fn wire_lengths(
        &self,
        to: &mut Wiring<'_>,
        x: OutletId,
        inputs: &[OutletId],
    ) -> TractResult<Option<OutletId>> {
        rule_if_some!(lengths = self.inputs.lengths);
        let lengths = inputs[lengths];
        let time = to.fact(x)?.shape[0].clone();
        let known = to
            .fact(lengths)?
            .konst
            .as_ref()
            .and_then(|it| it.as_uniform());
        if let (Some(known), Ok(time)) = (known, time.to_i64()) {
            rule_if!(known.cast_to_scalar::<i64>()? != time);
        }
        let bound = |to: &mut Wiring<'_>, value: TDim| to.constant("steps", tensor0(value));
        let range = [
            bound(to, 0.to_dim())?,
            bound(to, time.clone())?,
            bound(to, 1.to_dim())?,
        ];
        let steps = to.op("steps", Range::new(time), &range)?;
        let steps = to.op("steps", cast(i64::datum_type()), &[steps])?;
        let steps = to.op("steps", AxisOp::Add(1), &[steps])?;
        let steps = to.op("steps", AxisOp::Add(2), &[steps])?;
        let lengths = to.op("lengths", cast(i64::datum_type()), &[lengths])?;
        let lengths = to.op("lengths", AxisOp::Add(0), &[lengths])?;
        let lengths = to.op("lengths", AxisOp::Add(2), &[lengths])?;
        to.op("goes_on", TypedBinOp(comp_lt(), None), &[steps, lengths])
            .map(Some)
    }
}

/// What both directions read.
struct Shared {
    /// [time, batch, features].
    x: OutletId,
    /// [time, batch, 1].
    goes_on: Option<OutletId>,
    batch: TDim,
}

fn shape(dims: &[TDim]) -> ShapeFact {
    ShapeFact::from_dims(dims.iter().cloned())
}

impl Expansion for Layer {
    fn name(&self) -> StaticName {
        self.cell.name().into()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.outputs.count())
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let optional = [
            self.inputs.bias,
            self.inputs.lengths,
            self.inputs.initial_h,
            self.inputs.initial_c,
            self.inputs.peepholes,
        ];
        check_input_arity(inputs, 3 + optional.iter().flatten().count())?;
        check_output_arity(outputs, self.outputs.count())?;
        let axes = self.axes();
        let gates = self.cell.gates() as i64;
        let directions = self.directions.len().to_dim();
        let (x, w, r) = (&inputs[0], &inputs[1], &inputs[2]);
        for input in [x, w, r] {
            s.equals(&input.rank, 3)?;
            s.equals(&input.datum_type, &x.datum_type)?;
        }
        s.equals(&w.shape[0], directions.clone())?;
        s.equals(&r.shape[0], directions.clone())?;
        s.equals(&w.shape[1], gates * r.shape[2].bex())?;
        s.equals(&r.shape[1], gates * r.shape[2].bex())?;
        s.equals(&w.shape[2], &x.shape[2])?;
        let wide = [(self.inputs.bias, 2 * gates), (self.inputs.peepholes, 3)];
        for (input, times) in wide {
            if let Some(input) = input {
                s.equals(&inputs[input].datum_type, &x.datum_type)?;
                s.equals(&inputs[input].rank, 2)?;
                s.equals(&inputs[input].shape[0], directions.clone())?;
                s.equals(&inputs[input].shape[1], times * r.shape[2].bex())?;
            }
        }
        if let Some(lengths) = self.inputs.lengths {
            s.equals(&inputs[lengths].rank, 1)?;
            s.equals(&inputs[lengths].shape[0], &x.shape[axes.batch])?;
        }
        let initial = [self.inputs.initial_h, self.inputs.initial_c];
        let last = [self.outputs.y_h, self.outputs.y_c];
        let states = initial.into_iter().flatten().map(|input| &inputs[input]);
        for state in states.chain(last.into_iter().flatten().map(|output| &outputs[output])) {
            s.equals(&state.datum_type, &x.datum_type)?;
            s.equals(&state.rank, 3)?;
            s.equals(&state.shape[axes.states[0]], directions.clone())?;
            s.equals(&state.shape[axes.states[1]], &x.shape[axes.batch])?;
            s.equals(&state.shape[2], &r.shape[2])?;
        }
        if let Some(y) = self.outputs.y {
            let y = &outputs[y];
            s.equals(&y.datum_type, &x.datum_type)?;
            s.equals(&y.rank, 4)?;
            s.equals(&y.shape[axes.y[0]], &x.shape[axes.time])?;
            s.equals(&y.shape[axes.y[1]], directions)?;
            s.equals(&y.shape[axes.y[2]], &x.shape[axes.batch])?;
            s.equals(&y.shape[3], &r.shape[2])?;
        }
        Ok(())
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let mut to = Wiring {
            model,
            prefix: prefix.to_owned(),
        };
        let mut x = inputs[0];
        if self.is_batch_first {
            x = to.op("x", AxisOp::Move(1, 0), &[x])?;
        }
        let shared = Shared {
            x,
            goes_on: self.wire_lengths(&mut to, x, inputs)?,
            batch: to.fact(x)?.shape[1].clone(),
        };
        let mut made = vec![];
        for direction in 0..self.directions.len() {
            to.prefix = format!("{prefix}.{direction}");
            made.push(self.wire_direction(&mut to, direction, &shared, inputs)?);
        }
        to.prefix = prefix.to_owned();
        let mut outputs = tvec![];
        for (index, name) in ["y", "y_h", "y_c"].into_iter().enumerate() {
            let sides = made.iter().filter_map(|it| it[index]);
            let mut sides: TVec<OutletId> = sides.collect();
            if sides.is_empty() {
                continue;
            }
            let axis = usize::from(index == 0);
            if index == 0 {
                for side in &mut sides {
                    *side = to.op(name, AxisOp::Add(1), &[*side])?;
                }
            }
            let mut output = sides[0];
            if sides.len() > 1 {
                output = to.op(name, TypedConcat::new(axis), &sides)?;
            }
            if self.is_batch_first {
                // [time, directions, batch, hidden] and [directions, batch, hidden].
                let from = if index == 0 { 2 } else { 1 };
                output = to.op(name, AxisOp::Move(from, 0), &[output])?;
            }
            outputs.push(output);
        }
        Ok(outputs)
    }
}
