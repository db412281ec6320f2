//! The layers of a Scan: cells, their states, inputs and outputs.

use recurrent_cells::Cell;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::step::Body;
use super::values::{Next, Scanned};

/// A cell whose states the Scan carries.
pub(super) struct Layer {
    pub(super) cell: Cell<OutletId>,
    pub(super) input: Input,
    /// The body's inputs that are h and c.
    pub(super) hidden: usize,
    pub(super) memory: Option<usize>,
    /// The update of h.
    pub(super) next: Next,
}

impl Layer {
    /// Whether it makes the new value of an update, under the same mask.
    fn makes(&self, update: &Next, scan: &Scanned<'_>) -> bool {
        update.new == self.next.new && scan.same_mask(update, &self.next)
    }
}

/// The input of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Input {
    /// An input of the Scan, and its time axis.
    Scanned(usize, usize),
    /// The output of another layer.
    Layer(usize),
}

/// Origin of an output of the Scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// The output at each step.
    Steps,
    Hidden,
    Memory,
}

/// An output of the Scan: that of a layer, with more axes of size 1 before the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    slot: usize,
    pub(super) layer: usize,
    pub(super) output: Output,
    pub(super) axes: usize,
}

/// The layers, each after those it reads, and the Scan's outputs.
pub(super) struct Layers {
    pub(super) layers: Vec<Layer>,
    /// Sorted by their slots.
    pub(super) slots: Vec<Slot>,
    /// Flags of the layers: whether the output repeats the state at invalid steps, if it is output.
    pub(super) repeats: Vec<Option<bool>>,
}

/// The states of a Scan: the body's inputs, and its outputs that become these.
struct States<'a> {
    scan: &'a Scanned<'a>,
    states: Vec<(usize, OutletId)>,
}

impl States<'_> {
    /// The update of a state.
    fn next(&self, input: usize) -> Option<Next> {
        let mut states = self.states.iter();
        let (_, output) = states.find(|(state, _)| *state == input)?;
        Some(self.scan.next(*output))
    }

    /// The update of a state that keeps its value at invalid steps.
    fn kept(&self, input: usize) -> Option<Next> {
        let next = self.next(input)?;
        let old = self.scan.body.inputs[input];
        let is_kept = next.otherwise.is_none_or(|it| it.old == old);
        is_kept.then_some(next)
    }
}

impl Layers {
    /// Finds the layers of a Scan, which reads values of a model; `None` if it is something else.
    pub(super) fn of(body: &Body<'_>, target: &TypedModel) -> Option<Self> {
        let scan = body.scan;
        let inputs = (0..scan.inputs.len()).filter(|input| scan.inputs[*input].is_state());
        let outputs = std::iter::zip(scan.outputs, &scan.body.outputs);
        let outputs = outputs.filter(|(mapping, _)| mapping.state);
        let states = States {
            scan,
            states: std::iter::zip(inputs, outputs.map(|it| *it.1)).collect(),
        };
        let layers = sorted(body, cells(body, &states))?;
        let mut this = Self {
            repeats: vec![None; layers.len()],
            layers,
            slots: vec![],
        };
        this.fits(scan, target)?;
        this.outputs(scan, target, &states)?;
        Some(this)
    }

    /// Checks that the layers have inputs, states and a mask of one batch.
    fn fits(&self, scan: &Scanned<'_>, target: &TypedModel) -> Option<()> {
        let first = &self.layers[0];
        let Input::Scanned(x, axis) = first.input else {
            return None;
        };
        let shape = |input: usize| Some(&target.outlet_fact(scan.outer[input]).ok()?.shape);
        let batch = shape(x)?.get(1 - axis)?;
        for layer in &self.layers {
            let features = match layer.input {
                Input::Scanned(x, axis) => {
                    let shape = shape(x)?;
                    let fits = shape.rank() == 3 && shape[1 - axis] == *batch;
                    fits.then(|| shape[2].to_usize().ok())?
                }
                Input::Layer(before) => Some(self.layers[before].cell.units()),
            };
            let states = std::iter::once(layer.hidden).chain(layer.memory);
            let mut rows = states.map(|state| shape(state).is_some_and(|it| it[0] == *batch));
            let is_one = features == Some(layer.cell.features())
                && rows.all(|fits| fits)
                && scan.same_mask(&layer.next, &first.next);
            is_one.then_some(())?;
        }
        let Some(otherwise) = first.next.otherwise else {
            return Some(());
        };
        // A layer's output at invalid steps is not what the next one would blend.
        let is_alone = self.layers.len() == 1 || !otherwise.blends;
        let info = scan.inputs[otherwise.mask].as_scan()?;
        let shape = shape(otherwise.mask)?;
        let is_column = shape.rank() == 2 || shape.rank() == 3 && shape[2].is_one();
        let fits = info.chunk == 1 && info.axis < 2 && is_column;
        (is_alone && fits && shape[1 - info.axis] == *batch).then_some(())
    }

    /// Accounts for all outputs of the Scan.
    fn outputs(
        &mut self,
        scan: &Scanned<'_>,
        target: &TypedModel,
        states: &States<'_>,
    ) -> Option<()> {
        for (outlet, mapping) in std::iter::zip(&scan.body.outputs, scan.outputs) {
            if let Some((slot, info)) = mapping.scan {
                let (layer, repeats) = self.shown(scan, target, states, *outlet)?;
                let known = self.repeats[layer].get_or_insert(repeats);
                let is_whole = info.chunk == 1 && info.axis == 0;
                let fits = is_whole && mapping.last_value_slot.is_none() && *known == repeats;
                fits.then_some(())?;
                self.slots.push(Slot {
                    slot,
                    layer,
                    output: Output::Steps,
                    // The body's output has an axis for the step.
                    axes: self.axes(scan, layer, *outlet)?.checked_sub(1)?,
                });
            } else if let Some(slot) = mapping.last_value_slot {
                let state = states.states.iter().find(|(_, output)| output == outlet);
                let state = state.map(|(input, _)| *input);
                let of_memory = |layer: &Layer| layer.memory.is_some() && layer.memory == state;
                let (layer, output) = match self.layers.iter().position(of_memory) {
                    Some(layer) => (layer, Output::Memory),
                    None => {
                        let (layer, repeats) = self.shown(scan, target, states, *outlet)?;
                        repeats.then_some((layer, Output::Hidden))?
                    }
                };
                self.slots.push(Slot {
                    slot,
                    layer,
                    output,
                    axes: self.axes(scan, layer, *outlet)?,
                });
            }
        }
        self.slots.sort_unstable_by_key(|slot| slot.slot);
        Some(())
    }

    /// The number of axes of size 1 that a value has before those of a layer's state.
    fn axes(&self, scan: &Scanned<'_>, layer: usize, outlet: OutletId) -> Option<usize> {
        let shape = |outlet: OutletId| Some(&scan.body.outlet_fact(outlet).ok()?.shape);
        let state = shape(scan.body.inputs[self.layers[layer].hidden])?;
        let more = shape(outlet)?.strip_suffix(&**state)?;
        more.iter().all(TDim::is_one).then_some(more.len())
    }

    /// The layer whose output a value is, and whether it repeats the state at invalid steps;
    /// otherwise it is zeros there.
    fn shown(
        &self,
        scan: &Scanned<'_>,
        target: &TypedModel,
        states: &States<'_>,
        outlet: OutletId,
    ) -> Option<(usize, bool)> {
        let shown = scan.next(outlet);
        let mut layers = self.layers.iter();
        let index = layers.position(|layer| layer.makes(&shown, scan))?;
        let layer = &self.layers[index];
        let Some(otherwise) = shown.otherwise else {
            return Some((index, true));
        };
        if scan.number(otherwise.old) == Some(0.0) {
            return Some((index, false));
        }
        let input = scan.source(otherwise.old)?;
        if input == layer.hidden {
            return Some((index, true));
        }
        let Some(own) = states.kept(input) else {
            let is_state = scan.inputs[input].is_state();
            return (!is_state && is_zero(target, scan.outer[input])).then_some((index, false));
        };
        // A separate state equals h if both start equal.
        let (a, b) = (scan.outer[input], scan.outer[layer.hidden]);
        let starts_alike = a == b || is_zero(target, a) && is_zero(target, b);
        (layer.makes(&own, scan) && starts_alike).then_some((index, true))
    }
}

/// The cells that update states, with the states of an LSTM.
fn cells(body: &Body<'_>, states: &States<'_>) -> Vec<Layer> {
    let scan = body.scan;
    let layer = |&(hidden, _): &(usize, OutletId)| {
        let next = states.kept(hidden)?;
        let cell = Cell::of(body, next.new)?;
        let memory = match cell.memory {
            None => None,
            Some((old, new)) => {
                let memory = scan.source(old)?;
                let own = states.kept(memory)?;
                (own.new == new && scan.same_mask(&own, &next))
                    .then_some(memory)
                    .map(Some)?
            }
        };
        (cell.hidden == scan.body.inputs[hidden]).then_some(Layer {
            cell,
            input: Input::Layer(0),
            hidden,
            memory,
            next,
        })
    };
    states.states.iter().filter_map(layer).collect()
}

/// Sorts layers, each after those it reads; `None` if there are none, or if one reads something
/// else.
fn sorted(body: &Body<'_>, mut waiting: Vec<Layer>) -> Option<Vec<Layer>> {
    let scan = body.scan;
    let mut layers: Vec<Layer> = vec![];
    while !waiting.is_empty() {
        let (place, input) = waiting.iter().enumerate().find_map(|(place, layer)| {
            let input = layer.cell.input;
            let before = layers.iter().position(|it| it.cell.output == input);
            if let Some(before) = before {
                return Some((place, Input::Layer(before)));
            }
            let x = scan.source(input)?;
            let info = scan.inputs[x].as_scan()?;
            let is_forward = info.chunk == 1 && info.axis < 2;
            is_forward.then_some((place, Input::Scanned(x, info.axis)))
        })?;
        let layer = waiting.remove(place);
        layers.push(Layer { input, ..layer });
    }
    (!layers.is_empty()).then_some(layers)
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
