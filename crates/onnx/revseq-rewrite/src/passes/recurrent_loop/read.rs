//! Reads a loop as layers: cells, inputs, masks and outputs.

use crate::constant;
use crate::model::BOOL;
use crate::pass::Options;
use crate::passes::cells::Cell;
use crate::sizes::{self, Size};
use crate::types;

use super::body::{Body, Sequence, State};
use super::layer::{Input, Layer, Layers, LoopOutput, Mask, Masked, ValidSteps};
use super::mask::{self, Counts, MaskChoice};
use super::reason;
use super::rows::BroadcastRows;
use super::shape::{
    fits, is_reversed, is_zero_row, may_be, may_begin, shape, unflipped, with_axis_and_without,
    without_axis,
};
use super::truths::{Truths, truths};

/// A state's update.
struct Update<'a> {
    state: State<'a>,
    counts: Option<Counts<'a>>,
    new: &'a str,
    is_zero: bool,
    is_read: bool,
    blends: Option<bool>,
}

/// A state that repeats the last output at invalid steps.
struct Repeat<'a> {
    carried: &'a str,
    layer: usize,
    /// Its value before any valid step: 0, or the initial state.
    first: Masked,
}

/// What holds at invalid steps.
struct Masking<'a> {
    /// The condition of valid steps; `None` if all are.
    counts: Option<Counts<'a>>,
    repeats: Vec<Repeat<'a>>,
    /// The number of sequences.
    batch: Size<'a>,
}

impl<'a> Layers<'a> {
    /// Proves that a loop consists of layers.
    pub(super) fn of(body: &Body<'a>, options: &Options) -> Result<Self, String> {
        let updates: Vec<Update<'a>> = body
            .states
            .iter()
            .map(|&state| Update::of(body, state))
            .collect();
        let mut this = Self {
            layers: Vec::new(),
            backwards: false,
            steps: None,
            blends: updates.iter().find_map(|it| it.blends).or(Some(false)),
            batch: None,
            length: Some(body.steps),
            outputs: Vec::new(),
        };
        for blends in updates.iter().filter_map(|it| it.blends) {
            this.chooses(blends);
        }
        this.find(body, &updates)?;
        let batch = this.inputs(body, options)?;
        this.batch = Some(batch);
        let (counts, repeats) = this.states(body, &updates)?;
        for update in &updates {
            this.begins(body, &updates, update, batch)?;
        }
        let masking = Masking {
            counts,
            repeats,
            batch,
        };
        this.scanned(body, &masking)?;
        this.buffers(body, &updates, &masking)?;
        if let Some(counts) = counts {
            this.steps = this.counting(body, counts, batch, options)?;
        }
        for state in &body.unchanged {
            if body.outer.uses(state.last) > 0 {
                this.outputs
                    .push((state.last, LoopOutput::Same(state.initial)));
            }
        }
        Ok(this)
    }

    /// Finds the cells, each after those it reads.
    fn find(&mut self, body: &Body<'a>, updates: &[Update<'a>]) -> Result<(), String> {
        let cells = updates.iter().filter_map(|update| {
            Cell::of(body, update.new).filter(|cell| cell.hidden == update.state.carried)
        });
        let mut waiting: Vec<Cell<'a>> = cells.collect();
        if waiting.is_empty() {
            let mut details = updates.iter();
            let detail = details
                .find_map(|update| reason::not_of_cell(body, update.new))
                .unwrap_or_else(|| reason::OTHER_FORMULA.to_owned());
            return Err(format!(
                "its body is not the cell of an LSTM, GRU or SimpleRNN with constant weights: \
                 {detail}"
            ));
        }
        while !waiting.is_empty() {
            let ready = waiting.iter().enumerate().find_map(|(place, cell)| {
                let outputs = self.layers.iter().map(|layer| layer.cell.output);
                let input = match outputs.into_iter().position(|it| it == cell.input) {
                    Some(layer) => Input::Layer(layer),
                    None => {
                        let Sequence { value, axis, .. } = body.sequence(cell.input)?;
                        Input::Sequence { value, time: axis }
                    }
                };
                Some((place, input))
            });
            let Some((place, input)) = ready else {
                return Err(format!(
                    "the input {} of its cell is not read step by step",
                    waiting[0].input
                ));
            };
            self.layers.push(Layer {
                cell: waiting.remove(place),
                input,
                hidden: None,
                memory: None,
                rows: Vec::new(),
            });
        }
        Ok(())
    }

    fn output_of(&self, value: &str) -> Option<usize> {
        self.layers
            .iter()
            .position(|layer| layer.cell.output == value)
    }

    /// Accounts for every state, and returns the condition of valid steps.
    fn states(
        &mut self,
        body: &Body<'a>,
        updates: &[Update<'a>],
    ) -> Result<(Option<Counts<'a>>, Vec<Repeat<'a>>), String> {
        let mut counts = Vec::new();
        let mut repeats = Vec::new();
        for update in updates {
            let carried = update.state.carried;
            let initial = (!update.is_zero).then_some(update.state.initial);
            let layers = &mut self.layers;
            let hidden = layers.iter().position(|it| it.cell.hidden == carried);
            let memory = layers
                .iter()
                .position(|it| it.cell.memory == Some((carried, update.new)));
            let output = if let Some(layer) = hidden {
                layers[layer].hidden = initial;
                LoopOutput::Hidden(layer)
            } else if let Some(layer) = memory {
                layers[layer].memory = initial;
                LoopOutput::Memory(layer)
            } else if let Some(layer) = self.output_of(update.new) {
                let own = self.layers[layer].cell.hidden;
                let own = updates.iter().find(|it| it.state.carried == own);
                let begins_alike = own.is_some_and(|own| {
                    own.is_zero && update.is_zero || own.state.initial == update.state.initial
                });
                if update.counts.is_none() {
                    LoopOutput::Hidden(layer)
                } else if begins_alike || update.is_zero {
                    let (first, output) = match begins_alike {
                        true => (Masked::State, LoopOutput::Hidden(layer)),
                        false => (Masked::Repeated, LoopOutput::Repeated(layer)),
                    };
                    repeats.push(Repeat {
                        carried,
                        layer,
                        first,
                    });
                    output
                } else if update.is_read {
                    return Err(format!(
                        "its state {} does not provably begin with 0",
                        update.state.initial
                    ));
                } else {
                    continue;
                }
            } else if !update.is_read || without_axis(body, update.new).is_some() {
                // No cell depends on it.
                continue;
            } else {
                return Err(format!(
                    "its state {} is not a state of an LSTM, GRU or RNN cell",
                    update.state.last
                ));
            };
            counts.push(update.counts);
            if update.is_read {
                self.outputs.push((update.state.last, output));
            }
        }
        let has_memory = |layer: &Layer<'_>| {
            layer.cell.memory.is_none_or(|(carried, new)| {
                updates
                    .iter()
                    .any(|it| it.state.carried == carried && it.new == new)
            })
        };
        if !self.layers.iter().all(has_memory) {
            return Err("it does not carry the cell's own states".to_owned());
        }
        let first = counts.first().copied().flatten();
        if counts.iter().any(|&it| it != first) {
            return Err("its states do not all have the same mask".to_owned());
        }
        Ok((first, repeats))
    }

    /// Accounts for scan outputs.
    fn scanned(&mut self, body: &Body<'a>, masking: &Masking<'a>) -> Result<(), String> {
        for scanned in &body.scanned {
            if body.outer.uses(scanned.result) == 0 {
                continue;
            }
            let value = with_axis_and_without(body, scanned.value);
            let framed = without_axis(body, value).filter(|_| scanned.axis == 0);
            let value = framed.unwrap_or(value);
            let (layer, masked) = self.masked(body, value, scanned.result, masking)?;
            let output = LoopOutput::Steps {
                layer,
                masked,
                time: scanned.axis,
                backwards: scanned.backwards != self.backwards,
                is_framed: framed.is_some(),
            };
            self.outputs.push((scanned.result, output));
        }
        Ok(())
    }

    /// Accounts for states that are the last output with a leading axis, as TFLite keeps them.
    fn buffers(
        &mut self,
        body: &Body<'a>,
        updates: &[Update<'a>],
        masking: &Masking<'a>,
    ) -> Result<(), String> {
        for update in updates.iter().filter(|it| it.is_read) {
            let name = update.state.last;
            let is_known = self.outputs.iter().any(|(output, _)| *output == name);
            let Some(value) = without_axis(body, update.new).filter(|_| !is_known) else {
                continue;
            };
            let (layer, masked) = self.masked(body, value, name, masking)?;
            if masked == Masked::Zero && masking.counts.is_some() {
                return Err(format!(
                    "its output {name} is 0 where the last step is masked"
                ));
            }
            let is_zero = update.is_zero && self.layers[layer].hidden.is_none();
            if !is_zero && !matches!(body.steps, Size::Known(1..)) {
                return Err(format!(
                    "its state {} does not provably begin with 0",
                    update.state.initial
                ));
            }
            let is_repeated = masked == Masked::Repeated;
            let output = LoopOutput::Buffer { layer, is_repeated };
            self.outputs.push((name, output));
        }
        Ok(())
    }

    /// The layer that outputs a value, and the value at invalid steps.
    fn masked(
        &mut self,
        body: &Body<'a>,
        value: &'a str,
        output: &str,
        masking: &Masking<'a>,
    ) -> Result<(usize, Masked), String> {
        let choice = MaskChoice::of(body, value);
        let new = match choice {
            // A state that is updated: where its mask is true, by the cell's output.
            Some(choice) => MaskChoice::of(body, choice.new)
                .filter(|state| state.counts == choice.counts)
                .map_or(choice.new, |state| state.new),
            None => value,
        };
        let layer = self
            .output_of(new)
            .ok_or_else(|| format!("its output {output} is not that of its cell"))?;
        if let Some(choice) = choice {
            self.chooses(choice.blends);
        }
        let cell = &self.layers[layer].cell;
        let masked = match (choice, masking.counts) {
            (None, None) => Masked::Zero,
            (Some(choice), Some(counts)) if choice.counts == counts => {
                let repeated = |it: &&Repeat<'_>| it.carried == choice.old && it.layer == layer;
                if let Some(repeat) = masking.repeats.iter().find(repeated) {
                    repeat.first
                } else if choice.old == cell.hidden {
                    Masked::State
                } else if is_zero_row(body, choice.old, masking.batch, cell.units()) {
                    Masked::Zero
                } else {
                    return Err(format!(
                        "where its mask is false, its output {output} is something else"
                    ));
                }
            }
            _ => {
                return Err(format!(
                    "its output {output} does not have the mask of its states"
                ));
            }
        };
        Ok((layer, masked))
    }

    /// Takes note of a choice by the mask.
    fn chooses(&mut self, blends: bool) {
        self.blends = self.blends.filter(|it| *it == blends);
    }

    /// Finds the sequences, proves that they fit together, and returns the size of their batch.
    fn inputs(&mut self, body: &Body<'a>, options: &Options) -> Result<Size<'a>, String> {
        let mut first = None;
        for layer in &mut self.layers {
            if matches!(layer.input, Input::Layer(_)) {
                continue;
            }
            let sequence = body
                .sequence(layer.cell.input)
                .ok_or("its input is not read step by step")?;
            let batch = fits(body, sequence, "input")?;
            let Sequence {
                value,
                axis: time,
                backwards,
            } = order_of(body, sequence, options);
            layer.input = Input::Sequence { value, time };
            if *first.get_or_insert((batch, backwards)) != (batch, backwards) {
                return Err("its inputs are not of one batch and one direction".to_owned());
            }
        }
        let (batch, backwards) = first.ok_or("it reads no sequence")?;
        self.backwards = backwards;
        Ok(batch)
    }

    /// Proves that the initial value of a layer's state, or of a repeated output, is one row of
    /// units for each sequence or for all. An input of one sequence may be broadcast to a state.
    fn begins(
        &mut self,
        body: &Body<'a>,
        updates: &[Update<'a>],
        update: &Update<'a>,
        batch: Size<'a>,
    ) -> Result<(), String> {
        let Update { state, counts, .. } = update;
        let is_state = |layer: &Layer<'_>| {
            layer.cell.hidden == state.carried
                || layer.cell.memory.is_some_and(|(it, _)| it == state.carried)
        };
        let is_own = |layer: &Layer<'_>| {
            is_state(layer) || layer.cell.output == update.new && counts.is_some()
        };
        let Some(place) = self.layers.iter().position(is_own) else {
            return Ok(());
        };
        let is_alone = self.layers.len() == 1;
        let layer = &mut self.layers[place];
        let rows = BroadcastRows::beside(body.outer, state.initial, 0, batch);
        let is_broadcast = match is_state(layer) {
            // With a mask, all layers have the same rows.
            true => is_alone || counts.is_none(),
            // A repeated output, which has no more rows than the state.
            false => updates.iter().any(|it| {
                let rows = |update: &Update<'_>| sizes::axis(body.outer, update.state.initial, 0);
                it.state.carried == layer.cell.hidden
                    && rows(it).is_some()
                    && rows(it) == rows(update)
            }),
        };
        if !may_begin(body.outer, state.initial, batch, layer.cell.units())
            || rows.is_some() && !is_broadcast
        {
            return Err(format!(
                "its state {} does not provably begin with a row of units for each sequence",
                state.initial
            ));
        }
        layer.rows.extend(rows.filter(|_| is_state(layer)));
        Ok(())
    }

    /// Lets the loop broadcast its inputs to the rows of a mask, or of lengths.
    fn broadcast(&mut self, body: &Body<'a>, value: &'a str, axis: usize, batch: Size<'a>) {
        // The states of a Scan keep their rows.
        if body.is_scan() {
            return;
        }
        let rows = BroadcastRows::beside(body.outer, value, axis, batch);
        for layer in &mut self.layers {
            if matches!(layer.input, Input::Sequence { .. }) {
                layer.rows.extend(rows);
            }
        }
    }

    /// The valid steps, unless all are.
    fn counting(
        &mut self,
        body: &Body<'a>,
        counts: Counts<'a>,
        batch: Size<'a>,
        options: &Options,
    ) -> Result<Option<ValidSteps<'a>>, String> {
        let mask = match counts {
            Counts::Below(_) if self.backwards => {
                return Err("its lengths count from the end of its input".to_owned());
            }
            Counts::Below(lengths) => {
                self.broadcast(body, lengths, 0, batch);
                return Ok(Some(ValidSteps::Below(lengths)));
            }
            Counts::Mask {
                sequence,
                is_mixing,
            } => {
                if is_mixing {
                    return Err(format!(
                        "its mask {} is not provably 0 or 1 at each step, and mask · new + (1 - \
                         mask) · old mixes the two for other numbers",
                        sequence.value
                    ));
                }
                sequence
            }
        };
        let name = mask.value;
        let (is_of_steps, of_mask) = shape(body, mask, &[3, 2], "mask")?;
        let is_matrix = sizes::rank(body.outer, name) == Some(2);
        let has_one = is_matrix || sizes::axis(body.outer, name, 2) == Some(Size::Known(1));
        // The loop runs with one mask for each sequence, or with one for all.
        if !may_be(of_mask, batch) || !has_one {
            return Err(format!(
                "its mask {name} does not provably have one value for each step of each sequence"
            ));
        }
        let mask = order_of(body, mask, options);
        self.broadcast(body, mask.value, 1 - mask.axis, batch);
        if truths(body.outer, name) == Some(Truths::AllTrue) {
            return Ok(None);
        }
        if mask.backwards != self.backwards {
            return Err("of its input and its mask only one is flipped".to_owned());
        }
        let is_prefix = mask::is_prefix(body.outer, mask.value, mask.axis);
        Ok(Some(ValidSteps::Mask(Mask {
            value: mask.value,
            time: mask.axis,
            is_matrix,
            is_bool: types::of(body.outer, mask.value) == Some(BOOL),
            is_prefix: is_prefix || options.assume.right_padded && !is_reversed(body, mask.value),
            is_of_batch: of_mask == batch && self.layers.iter().all(|it| it.rows.is_empty()),
            is_of_steps,
        })))
    }
}

impl<'a> Update<'a> {
    fn of(body: &Body<'a>, state: State<'a>) -> Self {
        let updated = body.plain(state.updated);
        // At an invalid step, a state keeps its value.
        let choice = MaskChoice::of(body, updated).filter(|choice| choice.old == state.carried);
        Self {
            state,
            counts: choice.map(|choice| choice.counts),
            new: choice.map_or(updated, |choice| choice.new),
            is_zero: constant::is_zero(body.outer, state.initial),
            is_read: body.outer.uses(state.last) > 0,
            blends: choice.map(|choice| choice.blends),
        }
    }
}

/// A sequence in its own order; a host of masked layers computes the flip before it elsewhere.
fn order_of<'a>(body: &Body<'a>, sequence: Sequence<'a>, options: &Options) -> Sequence<'a> {
    match options.masked_layers {
        true => sequence,
        false => unflipped(body, sequence),
    }
}
