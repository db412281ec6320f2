//! Writes layers as operators.

use recurrent_cells::Kind;

use crate::emit::Emit;
use crate::masked;
use crate::model::{self, BOOL, INT32, INT64, NodeProto};
use crate::pass::{Options, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};

use super::layer::{Input, Layer, Layers, Mask, Masked, Output, Steps};
use super::ordering::{Ordering, int32};
use super::reason::no_masked;
use super::weights::{bias, floats, functions, peepholes, weights};

/// Writes the layers and the outputs of the loop that are read.
pub(super) fn layers(
    scope: &Scope<'_>,
    node: &NodeProto,
    layers: &Layers<'_>,
    options: &Options,
    names: &mut Names,
) -> Verdict {
    let has_masks = options.masked_layers;
    if let Some(why) = has_masks.then(|| no_masked(layers)).flatten() {
        return Verdict::Left(why.to_owned());
    }
    let prefix = node.name.as_deref().filter(|name| !name.is_empty());
    let prefix = prefix.or(node.outputs().next()).unwrap_or("Loop");
    let mut emit = Emit::new(prefix, scope.opset, names);
    let counting = layers
        .steps
        .map(|steps| Counting::write(&mut emit, steps, layers, has_masks));
    let form = match has_masks {
        true => Form::Masks(scope),
        false => Form::Lengths,
    };
    write(emit, layers, counting, form).finish(describe(layers, has_masks))
}

/// Writes layers without lengths, and their outputs.
pub(in crate::passes) fn all_steps<'n>(emit: Emit<'n>, layers: &Layers<'_>) -> Emit<'n> {
    write(emit, layers, None, Form::Lengths)
}

fn write<'n>(
    emit: Emit<'n>,
    layers: &Layers<'_>,
    counting: Option<Counting>,
    form: Form<'_>,
) -> Emit<'n> {
    let mut writer = Writer {
        emit,
        layers,
        counting,
        form,
        given: Vec::new(),
    };
    for (index, layer) in layers.layers.iter().enumerate() {
        let given = writer.layer(index, layer);
        writer.given.push(given);
    }
    for &(output, what) in &layers.outputs {
        writer.output(output, what);
    }
    writer.emit
}

fn describe(layers: &Layers<'_>, has_masks: bool) -> String {
    let operators = layers.layers.iter();
    let operators: Vec<&str> = operators.map(|it| it.cell.kind.operator()).collect();
    let direction = if layers.backwards {
        "reverse"
    } else {
        "forward"
    };
    let steps = match layers.steps {
        None => "",
        Some(Steps::Below(_)) => ", with its lengths",
        Some(Steps::Mask(_)) if has_masks => ", with its mask",
        Some(Steps::Mask(mask)) if mask.is_prefix => ", with the mask as lengths",
        Some(Steps::Mask(_)) => ", with the steps that its mask counts put first",
    };
    let slower = match !has_masks && operators.contains(&Kind::Rnn.operator()) {
        true => "; ONNX Runtime's RNN takes up to twice as long as a loop, in large batches",
        false => "",
    };
    format!("{}, {direction}{steps}{slower}", operators.join(" and "))
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

/// The form of what is written.
#[derive(Clone, Copy)]
enum Form<'a> {
    /// Standard operators, with zeros for an initial state that is 0: not every runtime can make them
    /// for any batch size.
    Lengths,
    /// Operators of a host that takes masks, with the inputs and outputs that they need. States of
    /// this graph are enlarged if they do not provably fit.
    Masks(&'a Scope<'a>),
}

impl Counting {
    fn write(emit: &mut Emit<'_>, steps: Steps<'_>, layers: &Layers<'_>, has_masks: bool) -> Self {
        let mask = match steps {
            Steps::Below(lengths) => return Self::below(emit, lengths, layers),
            Steps::Mask(mask) => mask,
        };
        let Mask { value, time, .. } = mask;
        let value = match mask.is_bool {
            true => value.to_owned(),
            false => emit.op("Cast", &[value], vec![model::int("to", BOOL.into())]),
        };
        let value = match (mask.is_matrix, has_masks) {
            (true, false) => emit.unsqueeze(&value, &[2]),
            (false, true) => emit.squeeze(&value, &[2]),
            _ => value,
        };
        let is_prefix = mask.is_prefix;
        let is_whole = mask.is_of_batch && mask.is_of_steps;
        let perm: &[i64] = if has_masks { &[1, 0] } else { &[1, 0, 2] };
        let mut mask = match time {
            0 => value,
            _ => emit.op("Transpose", &[&value], vec![model::ints("perm", perm)]),
        };
        if !is_whole {
            let (steps, batch) = shape_of_input(emit, layers);
            let [zero, one] = [0, 1].map(|number| emit.ints(&[number]));
            let steps = emit.unsqueeze(&steps, &[0]);
            // The loop reads the first steps of a longer mask, or the last ones if it runs
            // backwards.
            let read = if layers.backwards {
                let shape = emit.plain("Shape", &[&mask]);
                let all = emit.range(&shape, 0, 0, 1);
                let first = emit.plain("Sub", &[&all, &steps]);
                emit.plain("Slice", &[&mask, &first, &all, &zero])
            } else {
                emit.plain("Slice", &[&mask, &zero, &steps, &zero])
            };
            let mut sizes = vec![&*one, &batch];
            sizes.resize(perm.len(), &one);
            let sizes = emit.op("Concat", &sizes, vec![model::int("axis", 0)]);
            mask = emit.plain("Expand", &[&read, &sizes]);
        }
        if has_masks {
            return Self::Masked(mask);
        }
        if is_prefix {
            let numbers = emit.op("Cast", &[&mask], vec![model::int("to", INT32.into())]);
            let lengths = emit.sum(&numbers, &[0, 2]);
            return Self::First { lengths, mask };
        }
        Self::Ordered(Ordering::write(emit, &mask))
    }

    /// Lengths clamped to the axis, one for each sequence.
    fn below(emit: &mut Emit<'_>, lengths: &str, layers: &Layers<'_>) -> Self {
        let (all, batch) = shape_of_input(emit, layers);
        let [zero, one] = [0, 1].map(|number| emit.scalar(number));
        let lengths = emit.op("Cast", &[lengths], vec![model::int("to", INT64.into())]);
        let lengths = emit.plain("Expand", &[&lengths, &batch]);
        let is_less = emit.plain("Less", &[&lengths, &all]);
        let lengths = emit.plain("Where", &[&is_less, &lengths, &all]);
        let is_more = emit.plain("Greater", &[&lengths, &zero]);
        let lengths = emit.plain("Where", &[&is_more, &lengths, &zero]);
        let times = emit.plain("Range", &[&zero, &all, &one]);
        let times = emit.unsqueeze(&times, &[1]);
        let mask = emit.plain("Less", &[&times, &lengths]);
        Self::First {
            lengths: emit.op("Cast", &[&lengths], vec![model::int("to", INT32.into())]),
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

/// The number of steps, and of sequences as a vector of one element.
fn shape_of_input(emit: &mut Emit<'_>, layers: &Layers<'_>) -> (String, String) {
    let input = layers.layers.iter().find_map(|layer| match layer.input {
        Input::Sequence { value, time } => Some((value, time as i64)),
        Input::Layer(_) => None,
    });
    let (input, time) = input.unwrap_or_default();
    let shape = emit.plain("Shape", &[input]);
    let batch = emit.range(&shape, 0, 1 - time, 2 - time);
    let time = emit.scalar(time);
    let steps = emit.op("Gather", &[&shape, &time], vec![model::int("axis", 0)]);
    (steps, batch)
}

/// A sequence with the time axis first.
fn time_major(emit: &mut Emit<'_>, value: &str, time: usize) -> String {
    if time == 0 {
        return value.to_owned();
    }
    emit.op("Transpose", &[value], vec![model::ints("perm", &[1, 0, 2])])
}

/// The outputs of a layer's operator.
struct Given {
    steps: String,
    /// The same without the axis of directions, once it is written.
    squeezed: Option<String>,
    hidden: String,
    memory: String,
    /// The initial states unless they are 0, `[1, batch, units]`.
    begins: [Option<String>; 2],
}

struct Writer<'w, 'n> {
    emit: Emit<'n>,
    layers: &'w Layers<'w>,
    counting: Option<Counting>,
    form: Form<'w>,
    given: Vec<Given>,
}

impl Writer<'_, '_> {
    fn layer(&mut self, index: usize, layer: &Layer<'_>) -> Given {
        let repeats = self.repeats(index);
        let emit = &mut self.emit;
        let cell = &layer.cell;
        let features = cell.features();
        let input = match (layer.input, &self.counting) {
            (Input::Layer(before), _) => emit.squeeze(&self.given[before].steps, &[1]),
            (Input::Sequence { value, time }, counting) => {
                let input = time_major(emit, value, time);
                match counting {
                    Some(Counting::Ordered(ordering)) => ordering.ordered(emit, &input, features),
                    _ => input,
                }
            }
        };
        let units = cell.units() as i64;
        let w = emit.tensor(weights(cell, |gate| &gate.input));
        let r = emit.tensor(weights(cell, |gate| &gate.state));
        let bias = bias(cell).map_or_else(String::new, |bias| {
            emit.tensor(floats(&[1, bias.len()], bias))
        });
        let peepholes = peepholes(cell).map_or_else(String::new, |peepholes| {
            emit.tensor(floats(&[1, peepholes.len()], peepholes))
        });
        let lengths = self.counting.as_ref().map_or("", Counting::counted);
        let begins = (self.form, self.layers.batch);
        let hidden = initial(emit, layer.hidden, begins, &input, units);
        let memory = match (cell.memory, layer.hidden, layer.memory) {
            (None, ..) => String::new(),
            (Some(_), None, None) => hidden.clone(),
            (Some(_), _, given) => initial(emit, given, begins, &input, units),
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
        attributes.extend(functions(cell, matches!(self.form, Form::Masks(_))));
        if cell.kind
            == (Kind::Gru {
                resets_after_product: true,
            })
        {
            attributes.push(model::int("linear_before_reset", 1));
        }
        let [steps, last_hidden, last_memory] = ["Y", "Y_h", "Y_c"].map(|name| emit.name(name));
        let mut given = [&*steps, &last_hidden, &last_memory];
        let mut count = if cell.memory.is_some() { 3 } else { 2 };
        if let Form::Masks(_) = self.form {
            let mut wanted = self.layers.wanted(index);
            // Steps behind valid ones are the last state.
            let is_padded = matches!(self.counting, Some(Counting::First { .. }));
            wanted[1] |= is_padded && !self.layers.backwards && repeats;
            for (name, is_wanted) in std::iter::zip(&mut given, wanted) {
                *name = if is_wanted { name } else { "" };
            }
            count = wanted.iter().rposition(|it| *it).map_or(0, |last| last + 1);
        }
        let (operator, outputs) = (cell.kind.operator(), &given[..count]);
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
                self.emit
                    .write_of(node, outputs, &masked, &inputs, attributes);
            }
            _ => emit.write(outputs, operator, &inputs, attributes),
        }
        Given {
            steps,
            squeezed: None,
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
            matches!(*what, Output::Steps { layer, masked, .. }
                if layer == index && masked != Masked::Zero)
        })
    }

    fn output(&mut self, output: &str, what: Output<'_>) {
        match what {
            Output::Same(outer) => self.emit.same(output, outer),
            Output::Step { layer, at } => {
                let steps = self.squeezed(layer);
                let at = self.emit.scalar(at);
                let axis = vec![model::int("axis", 0)];
                self.emit.write(&[output], "Gather", &[&steps, &at], axis);
            }
            Output::Hidden(layer) => {
                let last = self.hidden(layer, false);
                self.emit.squeeze_into(output, &last, &[0]);
            }
            Output::Repeated(layer) => {
                let last = self.hidden(layer, true);
                self.emit.squeeze_into(output, &last, &[0]);
            }
            Output::Buffer { layer, is_repeated } => {
                let last = self.hidden(layer, is_repeated);
                self.emit.same(output, &last);
            }
            Output::Memory(layer) => {
                let given = &self.given[layer];
                let begin = given.begins[1].clone();
                let last = given.memory.clone();
                let last = self.last(last, begin.as_deref());
                self.emit.squeeze_into(output, &last, &[0]);
            }
            Output::Steps { .. } => self.steps(output, what),
        }
    }

    /// Writes a layer's output at all steps, `[time, batch, units]`.
    fn squeezed(&mut self, layer: usize) -> String {
        let given = &mut self.given[layer];
        let emit = &mut self.emit;
        let squeezed = given
            .squeezed
            .get_or_insert_with(|| emit.squeeze(&given.steps, &[1]));
        squeezed.clone()
    }

    fn zero(&mut self) -> String {
        self.emit.tensor(floats(&[], vec![0.0]))
    }

    /// Writes the last output; a repeated one is 0 if no step is valid.
    fn hidden(&mut self, layer: usize, is_repeated: bool) -> String {
        let given = &self.given[layer];
        let (last, begin) = (given.hidden.clone(), given.begins[0].clone());
        let begin = match is_repeated {
            true => begin.map(|_| self.zero()),
            false => begin,
        };
        self.last(last, begin.as_deref())
    }

    /// Writes a state after the last valid step, or `otherwise` if there is none.
    fn last(&mut self, last: String, otherwise: Option<&str>) -> String {
        let (Some(counting), Some(otherwise)) = (&self.counting, otherwise) else {
            return last;
        };
        let Some(lengths) = counting.lengths().map(str::to_owned) else {
            return last;
        };
        self.if_any(&lengths, &last, otherwise)
    }

    /// Writes `last` for sequences with a valid step, and `otherwise` for the rest.
    fn if_any(&mut self, lengths: &str, last: &str, otherwise: &str) -> String {
        let zero = int32(&mut self.emit, 0);
        let any = self.emit.plain("Greater", &[lengths, &zero]);
        let any = self.emit.unsqueeze(&any, &[1]);
        self.emit.plain("Where", &[&any, last, otherwise])
    }

    /// Writes a layer's output at every step, in the loop's order and layout.
    fn steps(&mut self, output: &str, what: Output<'_>) {
        let Output::Steps {
            layer,
            masked,
            time,
            backwards,
            is_framed,
        } = what
        else {
            return;
        };
        let units = self.layers.layers[layer].cell.units();
        let given = self.given[layer].steps.clone();
        let begin = self.given[layer].begins[0].clone();
        let first = match (masked, begin) {
            // `[1, batch, units]`, like each step.
            (Masked::State, Some(begin)) => Some(begin),
            _ => None,
        };
        let steps = match self.counting.take() {
            None => self.emit.squeeze(&given, &[1]),
            Some(Counting::Masked(mask)) => {
                let steps = self.emit.squeeze(&given, &[1]);
                let steps = match masked == Masked::Zero && self.repeats(layer) {
                    true => {
                        let (mask, zero) = (self.emit.unsqueeze(&mask, &[2]), self.zero());
                        self.emit.plain("Where", &[&mask, &steps, &zero])
                    }
                    false => steps,
                };
                self.counting = Some(Counting::Masked(mask));
                steps
            }
            Some(Counting::Ordered(ordering)) => {
                let zero = self.zero();
                let steps = if masked == Masked::Zero {
                    ordering.zeroed(&mut self.emit, &given, units, &zero)
                } else {
                    let first = first.as_deref().unwrap_or(&zero);
                    let backwards = self.layers.backwards;
                    ordering.repeated(&mut self.emit, &given, units, backwards, first)
                };
                self.counting = Some(Counting::Ordered(ordering));
                steps
            }
            Some(Counting::First { lengths, mask }) => {
                let squeezed = self.emit.squeeze(&given, &[1]);
                let steps = self.padded(layer, masked, &squeezed, &lengths, &mask, first);
                self.counting = Some(Counting::First { lengths, mask });
                steps
            }
        };
        let steps = if backwards {
            let flipped = self.emit.name("flipped");
            self.emit.flip_into(&flipped, &steps, 0);
            flipped
        } else {
            steps
        };
        if is_framed {
            self.emit.unsqueeze_into(output, &steps, &[1]);
        } else if time == 1 {
            let perm = vec![model::ints("perm", &[1, 0, 2])];
            self.emit.write(&[output], "Transpose", &[&steps], perm);
        } else {
            self.emit.same(output, &steps);
        }
    }

    /// The steps if valid ones come first: later ones are already 0.
    fn padded(
        &mut self,
        layer: usize,
        masked: Masked,
        steps: &str,
        lengths: &str,
        mask: &str,
        first: Option<String>,
    ) -> String {
        if masked == Masked::Zero {
            return steps.to_owned();
        }
        // Backwards, invalid steps come before any valid one.
        let behind = if self.layers.backwards {
            first
        } else {
            let last = self.given[layer].hidden.clone();
            match (first, self.given[layer].begins[0].is_some()) {
                (None, false) => Some(last),
                (first, _) => {
                    let first = first.unwrap_or_else(|| self.zero());
                    Some(self.if_any(lengths, &last, &first))
                }
            }
        };
        match behind {
            None => steps.to_owned(),
            Some(behind) => self.emit.plain("Where", &[mask, steps, &behind]),
        }
    }
}

/// An initial state, `[1, batch, units]`, of a layer with an input.
fn initial(
    emit: &mut Emit<'_>,
    given: Option<&str>,
    (form, sequences): (Form<'_>, Option<Size<'_>>),
    input: &str,
    units: i64,
) -> String {
    if let Form::Masks(scope) = form {
        let Some(given) = given else {
            return String::new();
        };
        if sequences.is_some() && sizes::axis(scope, given, 0) == sequences {
            return emit.unsqueeze(given, &[0]);
        }
    }
    let batch = {
        let shape = emit.plain("Shape", &[input]);
        emit.range(&shape, 0, 1, 2)
    };
    let batch = &*batch;
    let units = emit.ints(&[units]);
    let concat = vec![model::int("axis", 0)];
    match given {
        Some(given) => {
            let sizes = emit.op("Concat", &[batch, &units], concat);
            let matrix = emit.plain("Expand", &[given, &sizes]);
            emit.unsqueeze(&matrix, &[0])
        }
        None => {
            let one = emit.ints(&[1]);
            let sizes = emit.op("Concat", &[&one, batch, &units], concat);
            let zero = emit.tensor(floats(&[], vec![0.0]));
            emit.plain("Expand", &[&zero, &sizes])
        }
    }
}
