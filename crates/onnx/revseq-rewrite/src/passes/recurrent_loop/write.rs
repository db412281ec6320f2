//! Writes layers as operators.

use std::cell::LazyCell;
use std::ops::Deref;

use crate::emit::Emit;
use crate::masked;
use crate::model::{self, BOOL, INT32, INT64};
use crate::pass::{At, Left, Verdict};
use crate::passes::cells::CellKind;
use crate::sizes::{self, Size};

use super::empty::batch_of;
use super::form::Form;
use super::layer::{Input, Layer, Layers, LoopOutput, Masked, ValidSteps};
use super::ordering::{Ordering, int32};
use super::rows::broadcast;
use super::weights::{bias, floats, functions, peepholes, weights};

/// Writes the layers of a loop, and the outputs of the loop that are read.
pub(super) fn layers(at: &At<'_>, layers: &Layers<'_>) -> Verdict {
    let options = at.context.options;
    let why = options.masked_layers.then(|| no_masked(layers)).flatten();
    if let Some(why) = why.filter(|_| !options.fast) {
        return Err(why.into());
    }
    let has_masks = options.masked_layers && why.is_none();
    if at.context.waits && !layers.are_of_batch() {
        return Err(Left::Later);
    }
    let prefix = Some(at.node.name()).filter(|name| !name.is_empty());
    let emit = at.emit(prefix.or(at.node.outputs().next()).unwrap_or("Loop"));
    let form = match has_masks {
        true => Form::Masks(at.scope),
        false => Form::Lengths {
            needs_batch: options.may_be_onnx_runtime(),
        },
    };
    write(&emit, layers, form);
    emit.finish(describe(layers, form))
}

/// Says why layers with a mask are no masked layers, if they are none.
fn no_masked(layers: &Layers<'_>) -> Option<&'static str> {
    if !matches!(layers.steps, Some(ValidSteps::Mask(_))) {
        return None;
    }
    let Some(blends) = layers.blends else {
        return Some("some of its values are chosen by products with its mask, and others are not");
    };
    if blends && layers.layers.len() > 1 {
        return Some("products with its mask spread infinity and NaN from layer to layer");
    }
    let begins_otherwise = |what: &LoopOutput<'_>| match *what {
        LoopOutput::Steps {
            layer,
            masked: Masked::Repeated,
            ..
        }
        | LoopOutput::Repeated(layer)
        | LoopOutput::Buffer {
            layer,
            is_repeated: true,
        } => layers.layers[layer].hidden.is_some(),
        _ => false,
    };
    let mut outputs = layers.outputs.iter();
    if outputs.any(|(_, what)| begins_otherwise(what)) {
        return Some("its output is 0 before the first valid step, and its state is not");
    }
    let zeros = |is_zero: bool| {
        let mut outputs = layers.outputs.iter();
        outputs.any(|(_, what)| {
            matches!(*what, LoopOutput::Steps { masked, .. } if (masked == Masked::Zero) == is_zero)
        })
    };
    (blends && zeros(true) && zeros(false))
        .then_some("its outputs differ in where they are 0, by products with its mask")
}

/// Writes layers, and their outputs that are read.
pub(crate) fn write(emit: &Emit<'_>, layers: &Layers<'_>, form: Form<'_>) {
    let sequences = Sequences::write(emit, layers);
    let has_masks = form.has_masks();
    let counting = layers.steps;
    let counting = counting.map(|steps| Counting::write(emit, steps, &sequences, has_masks));
    let mut writer = Writer {
        emit,
        layers,
        sequences,
        counting,
        form,
        written: Vec::new(),
    };
    for (index, layer) in layers.layers.iter().enumerate() {
        let outputs = writer.layer(index, layer);
        writer.written.push(outputs);
    }
    for &(output, what) in &layers.outputs {
        writer.output(output, what);
    }
}

fn describe(layers: &Layers<'_>, form: Form<'_>) -> String {
    let has_masks = form.has_masks();
    let operators = layers.layers.iter();
    let operators: Vec<&str> = operators.map(|it| it.cell.kind.operator()).collect();
    let direction = if layers.backwards {
        "reverse"
    } else {
        "forward"
    };
    let steps = match layers.steps {
        None => "",
        Some(ValidSteps::Below(_)) => ", with its lengths",
        Some(ValidSteps::Mask(_)) if has_masks => ", with its mask",
        Some(ValidSteps::Mask(mask)) if mask.is_prefix => ", with the mask as lengths",
        Some(ValidSteps::Mask(_)) => ", with the steps that its mask counts put first",
    };
    let slower = match !has_masks && operators.contains(&CellKind::Rnn.operator()) {
        true => "; ONNX Runtime's RNN takes up to twice as long as a loop, in large batches",
        false => "",
    };
    let empty = layers.says_empty(form);
    format!(
        "{}, {direction}{steps}{slower}{empty}",
        operators.join(" and ")
    )
}

/// The sequences that layers read, broadcast to the rows beside them.
struct Sequences<'w> {
    layers: &'w Layers<'w>,
    /// Those of all layers; none where a layer reads another.
    values: Vec<String>,
}

impl<'w> Sequences<'w> {
    fn write(emit: &Emit<'_>, layers: &'w Layers<'w>) -> Self {
        let value = |layer: &Layer<'_>| match layer.input {
            Input::Sequence { value, time } => broadcast(emit, value, time, &layer.rows),
            Input::Layer(_) => String::new(),
        };
        Self {
            layers,
            values: layers.layers.iter().map(value).collect(),
        }
    }

    /// The number of steps, and of sequences as a vector of one element.
    fn shape(&self, emit: &Emit<'_>) -> (String, String) {
        let mut all = std::iter::zip(&self.layers.layers, &self.values);
        let first = all.find_map(|(layer, value)| match layer.input {
            Input::Sequence { time, .. } => Some((value.as_str(), time as i64)),
            Input::Layer(_) => None,
        });
        let (input, time) = first.unwrap_or_default();
        let batch = emit.sizes(input, 1 - time, 2 - time);
        (emit.size(input, time), batch)
    }
}

/// The number of valid steps, and the way to their outputs.
enum Counting {
    /// Valid steps come first: their number, int32 `[batch]`, and the mask `[time, batch, 1]`.
    First { lengths: String, mask: String },
    /// Valid steps may be anywhere: they are moved to the front.
    Ordered(Ordering),
    /// A host that takes the mask itself, `[time, batch]`.
    Masked(String),
}

impl Counting {
    fn write(
        emit: &Emit<'_>,
        steps: ValidSteps<'_>,
        sequences: &Sequences<'_>,
        has_masks: bool,
    ) -> Self {
        let of = match steps {
            ValidSteps::Below(lengths) => return Self::below(emit, lengths, sequences),
            ValidSteps::Mask(mask) => mask,
        };
        let value = match of.is_bool {
            true => of.value.to_owned(),
            false => emit.cast(of.value, BOOL),
        };
        let value = match (of.is_matrix, has_masks) {
            (true, false) => emit.unsqueeze(&value, &[2]),
            (false, true) => emit.squeeze(&value, &[2]),
            _ => value,
        };
        let perm: &[i64] = if has_masks { &[1, 0] } else { &[1, 0, 2] };
        let mut mask = match of.time {
            0 => value,
            _ => emit.transpose(&value, perm),
        };
        if !of.is_of_batch || !of.is_of_steps {
            let (steps, batch) = sequences.shape(emit);
            let steps = emit.unsqueeze(&steps, &[0]);
            // The loop reads the first steps of a longer mask, or the last ones if it runs
            // backwards.
            let read = if sequences.layers.backwards {
                let all = emit.sizes(&mask, 0, 1);
                let first = emit.op("Sub", (&all, steps));
                emit.op("Slice", (mask, first, all, [0]))
            } else {
                emit.op("Slice", (mask, [0], steps, [0]))
            };
            let sizes = match has_masks {
                true => emit.concat(([1], batch), 0),
                false => emit.concat(([1], batch, [1]), 0),
            };
            mask = emit.op("Expand", (read, sizes));
        }
        if has_masks {
            return Self::Masked(mask);
        }
        if of.is_prefix {
            let lengths = emit.sum(&emit.cast(&mask, INT32), &[0, 2]);
            return Self::First { lengths, mask };
        }
        Self::Ordered(Ordering::write(emit, &mask))
    }

    /// Lengths clamped to the axis, one for each sequence.
    fn below(emit: &Emit<'_>, lengths: &str, sequences: &Sequences<'_>) -> Self {
        let (all, batch) = sequences.shape(emit);
        let lengths = emit.op("Expand", (emit.cast(lengths, INT64), batch));
        let is_less = emit.op("Less", (&lengths, &all));
        let lengths = emit.op("Where", (is_less, lengths, &all));
        let is_more = emit.op("Greater", (&lengths, 0));
        let lengths = emit.op("Where", (is_more, lengths, 0));
        let times = emit.unsqueeze(&emit.op("Range", (0, all, 1)), &[1]);
        let mask = emit.op("Less", (times, &lengths));
        Self::First {
            lengths: emit.cast(lengths, INT32),
            mask: emit.unsqueeze(&mask, &[2]),
        }
    }

    /// The number of valid steps, or the mask.
    fn counted(&self) -> &str {
        match self {
            Self::First { lengths, .. } => lengths,
            Self::Ordered(ordering) => &ordering.count,
            Self::Masked(mask) => mask,
        }
    }

    /// The number of valid steps where a layer forgets its initial state if there are none.
    fn lengths(&self) -> Option<&str> {
        match self {
            Self::Masked(_) => None,
            _ => Some(self.counted()),
        }
    }
}

/// A sequence with the time axis first.
fn time_major(emit: &Emit<'_>, value: &str, time: usize) -> String {
    match time {
        0 => value.to_owned(),
        _ => emit.transpose(value, &[1, 0, 2]),
    }
}

/// The outputs of a layer's operator.
struct LayerOutputs {
    steps: String,
    hidden: String,
    memory: String,
    /// The initial states unless they are 0, `[1, batch, units]`.
    begins: [Option<String>; 2],
}

struct Writer<'w> {
    emit: &'w Emit<'w>,
    layers: &'w Layers<'w>,
    sequences: Sequences<'w>,
    counting: Option<Counting>,
    form: Form<'w>,
    written: Vec<LayerOutputs>,
}

impl Writer<'_> {
    fn layer(&self, index: usize, layer: &Layer<'_>) -> LayerOutputs {
        let emit = self.emit;
        let repeats = self.repeats(index);
        let cell = &layer.cell;
        let input = match layer.input {
            Input::Layer(before) => broadcast(emit, &self.squeezed(before), 0, &layer.rows),
            Input::Sequence { time, .. } => {
                let value = time_major(emit, &self.sequences.values[index], time);
                match &self.counting {
                    Some(Counting::Ordered(ordering)) => {
                        ordering.ordered(emit, &value, cell.features())
                    }
                    _ => value,
                }
            }
        };
        let units = cell.units() as i64;
        let w = emit.tensor(weights(cell, |gate| &gate.input));
        let r = emit.tensor(weights(cell, |gate| &gate.state));
        let [bias, peepholes] = [bias(cell), peepholes(cell)].map(|row| match row {
            None => String::new(),
            Some(row) => emit.tensor(floats(&[1, row.len()], row)),
        });
        let lengths = self.counting.as_ref().map_or("", Counting::counted);
        let batch = self.layers.batch.filter(|_| self.layers.is_of_batch(index));
        let begins = (self.form, batch);
        let rows = LazyCell::new(|| match self.layers.refuses_empty(index, self.form) {
            true => batch_of(emit, &input, cell),
            false => emit.sizes(&input, 1, 2),
        });
        let hidden = initial(emit, layer.hidden, begins, &rows, units);
        let memory = match (cell.memory, layer.hidden, layer.memory) {
            (None, ..) => String::new(),
            (Some(_), None, None) => hidden.clone(),
            (Some(_), _, state) => initial(emit, state, begins, &rows, units),
        };
        let mut inputs = vec![
            &*input, &w, &r, &bias, lengths, &hidden, &memory, &peepholes,
        ];
        while inputs.last().is_some_and(|last| last.is_empty()) {
            inputs.pop();
        }
        let mut attributes = vec![model::int("hidden_size", units)];
        if self.layers.backwards {
            attributes.push(model::text("direction", "reverse"));
        }
        attributes.extend(functions(cell, self.form.has_masks()));
        let resets_after_product = true;
        if cell.kind
            == (CellKind::Gru {
                resets_after_product,
            })
        {
            attributes.push(model::int("linear_before_reset", 1));
        }
        let [steps, last_hidden, last_memory] = ["Y", "Y_h", "Y_c"].map(|name| emit.name(name));
        let mut names = [&*steps, &last_hidden, &last_memory];
        let mut count = if cell.memory.is_some() { 3 } else { 2 };
        if self.form.has_masks() {
            let mut wanted = self.layers.wanted(index);
            // Steps behind valid ones are the last state.
            let is_padded = matches!(self.counting, Some(Counting::First { .. }));
            wanted[1] |= is_padded && !self.layers.backwards && repeats;
            for (name, is_wanted) in std::iter::zip(&mut names, wanted) {
                *name = if is_wanted { name } else { "" };
            }
            count = wanted.iter().rposition(|it| *it).map_or(0, |last| last + 1);
        }
        let (operator, outputs) = (cell.kind.operator(), &names[..count]);
        match &self.counting {
            // Nothing reads it.
            _ if outputs.is_empty() => {}
            Some(Counting::Masked(_)) => {
                let flags = [
                    ("blends", self.layers.blends == Some(true)),
                    ("repeats", repeats),
                ];
                let set = flags.into_iter().filter(|(_, is_set)| *is_set);
                attributes.extend(set.map(|(name, _)| model::int(name, 1)));
                let masked = format!("{}{operator}", masked::PREFIX);
                let node = (masked::DOMAIN, operator);
                emit.write_of(node, outputs, &masked, inputs, attributes);
            }
            _ => emit.write(outputs, operator, inputs, attributes),
        }
        LayerOutputs {
            steps,
            hidden: last_hidden,
            memory: last_memory,
            begins: [
                layer.hidden.map(|_| hidden.clone()),
                layer.memory.map(|_| memory),
            ],
        }
    }

    /// Whether an output at each step repeats the state of a layer.
    fn repeats(&self, index: usize) -> bool {
        let mut outputs = self.layers.outputs.iter();
        outputs.any(|(_, what)| {
            matches!(*what, LoopOutput::Steps { layer, masked, .. }
                if layer == index && masked != Masked::Zero)
        })
    }

    fn output(&self, output: &str, what: LoopOutput<'_>) {
        let emit = self.emit;
        let value = match what {
            LoopOutput::Same(outer) => return emit.same(output, outer),
            LoopOutput::Step { layer, at } => emit.gather(&self.squeezed(layer), at, 0),
            LoopOutput::Hidden(layer) => emit.squeeze(&self.hidden(layer, false), &[0]),
            LoopOutput::Repeated(layer) => emit.squeeze(&self.hidden(layer, true), &[0]),
            LoopOutput::Buffer { layer, is_repeated } => {
                return emit.same(output, &self.hidden(layer, is_repeated));
            }
            LoopOutput::Memory(layer) => {
                let LayerOutputs { memory, begins, .. } = &self.written[layer];
                emit.squeeze(&self.last(memory, begins[1].as_deref()), &[0])
            }
            LoopOutput::Steps {
                layer,
                masked,
                time,
                backwards,
                is_framed,
            } => {
                let mut steps = self.steps(layer, masked);
                if backwards {
                    steps = emit.flip(&steps, 0);
                }
                match (is_framed, time) {
                    (true, _) => emit.unsqueeze(&steps, &[1]),
                    (false, 1) => emit.transpose(&steps, &[1, 0, 2]),
                    _ => return emit.same(output, &steps),
                }
            }
        };
        emit.give(output, value);
    }

    /// Writes a layer's output at all steps, `[time, batch, units]`.
    fn squeezed(&self, layer: usize) -> String {
        self.emit.squeeze(&self.written[layer].steps, &[1])
    }

    fn zero(&self) -> String {
        self.emit.tensor(floats(&[], vec![0.0]))
    }

    /// Writes the last output; a repeated one is 0 if no step is valid.
    fn hidden(&self, layer: usize, is_repeated: bool) -> String {
        let LayerOutputs { hidden, begins, .. } = &self.written[layer];
        match &begins[0] {
            Some(_) if is_repeated => self.last(hidden, Some(&self.zero())),
            begin => self.last(hidden, begin.as_deref()),
        }
    }

    /// Writes a state after the last valid step, or `otherwise` if there is none.
    fn last(&self, last: &str, otherwise: Option<&str>) -> String {
        let lengths = self.counting.as_ref().and_then(Counting::lengths);
        match lengths.zip(otherwise) {
            Some((lengths, otherwise)) => self.if_any(lengths, last, otherwise),
            None => last.to_owned(),
        }
    }

    /// Writes `last` for sequences with a valid step, and `otherwise` for the rest.
    fn if_any(&self, lengths: &str, last: &str, otherwise: &str) -> String {
        let any = self.emit.op("Greater", (lengths, int32(self.emit, 0)));
        let any = self.emit.unsqueeze(&any, &[1]);
        self.emit.op("Where", (any, last, otherwise))
    }

    /// Writes a layer's output at every step, in the order of the sequence.
    fn steps(&self, layer: usize, masked: Masked) -> String {
        let emit = self.emit;
        let units = self.layers.layers[layer].cell.units();
        let LayerOutputs { steps, begins, .. } = &self.written[layer];
        // `[1, batch, units]`, like each step.
        let begin = begins[0].as_deref();
        let first = begin.filter(|_| masked == Masked::State);
        match &self.counting {
            Some(Counting::Masked(mask)) if masked == Masked::Zero && self.repeats(layer) => {
                let mask = emit.unsqueeze(mask, &[2]);
                emit.op("Where", (mask, self.squeezed(layer), self.zero()))
            }
            None | Some(Counting::Masked(_)) => self.squeezed(layer),
            Some(Counting::Ordered(ordering)) => {
                let zero = self.zero();
                let first = first.unwrap_or(&zero);
                match masked {
                    Masked::Zero => ordering.zeroed(emit, steps, units, &zero),
                    _ => ordering.repeated(emit, steps, units, self.layers.backwards, first),
                }
            }
            Some(Counting::First { lengths, mask }) => {
                let steps = self.squeezed(layer);
                match self.behind(layer, masked, lengths, first) {
                    Some(behind) => emit.op("Where", (mask, steps, behind)),
                    None => steps,
                }
            }
        }
    }

    /// The output at invalid steps if valid ones come first; `None` if it is 0, which it is already.
    fn behind(
        &self,
        layer: usize,
        masked: Masked,
        lengths: &str,
        first: Option<&str>,
    ) -> Option<String> {
        // Backwards, invalid steps come before any valid one.
        if masked == Masked::Zero || self.layers.backwards {
            return first.filter(|_| masked != Masked::Zero).map(str::to_owned);
        }
        let LayerOutputs { hidden, begins, .. } = &self.written[layer];
        Some(match (first, &begins[0]) {
            (None, None) => hidden.clone(),
            (Some(first), _) => self.if_any(lengths, hidden, first),
            (None, Some(_)) => self.if_any(lengths, hidden, &self.zero()),
        })
    }
}

/// An initial state, `[1, rows, units]`. The number of rows, a vector of one element, is written if it is
/// needed.
fn initial(
    emit: &Emit<'_>,
    state: Option<&str>,
    (form, sequences): (Form<'_>, Option<Size<'_>>),
    rows: &impl Deref<Target = String>,
    units: i64,
) -> String {
    if let Form::Masks(scope) = form {
        let Some(state) = state else {
            return String::new();
        };
        if sequences.is_some() && sizes::axis(scope, state, 0) == sequences {
            return emit.unsqueeze(state, &[0]);
        }
    }
    let rows: &String = rows;
    match state {
        Some(state) => {
            let sizes = emit.concat((rows, [units]), 0);
            emit.unsqueeze(&emit.op("Expand", (state, sizes)), &[0])
        }
        None => {
            let sizes = emit.concat(([1], rows, [units]), 0);
            emit.op("Expand", (emit.tensor(floats(&[], vec![0.0])), sizes))
        }
    }
}
