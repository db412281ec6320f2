//! A loop as a layer: a cell, what it reads, and what is read of it.

use crate::constant;
use crate::pass::Assumptions;
use crate::passes::reversal::Reversal;
use crate::sizes::{self, Size};

use super::body::{Body, operands, through_identity};
use super::cell::Cell;

/// A recurrent layer.
pub(super) struct Layer<'a> {
    pub(super) cell: Cell<'a>,
    /// The sequence `[time, batch, input]`, in its own order.
    pub(super) input: &'a str,
    /// Whether it is read from its end.
    pub(super) backwards: bool,
    /// Which steps count, `[time, batch, 1]`, in its own order.
    pub(super) mask: Option<&'a str>,
    /// The states before the first step; none where they are zero.
    pub(super) hidden: Option<&'a str>,
    pub(super) memory: Option<&'a str>,
    /// The loop's outputs that are read.
    pub(super) outputs: Vec<(&'a str, Output<'a>)>,
}

/// What an output of the loop is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Output<'a> {
    /// The output of every step, `[time, batch, units]`.
    Steps(Masked),
    /// The last step's output, `[batch, units]`.
    Hidden,
    /// The last step's cell state.
    Memory,
    /// A value from outside that the loop hands back.
    Same(&'a str),
}

/// What a step's output is where it does not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Masked {
    /// The last one that does, or 0.
    Repeated,
    /// 0.
    Zero,
}

/// A value that is another where a step does not count.
struct Choice<'a> {
    mask: &'a str,
    new: &'a str,
    old: &'a str,
}

impl<'a> Layer<'a> {
    /// Proves that a loop is a layer.
    pub(super) fn of(body: &Body<'a>, assume: Assumptions) -> Result<Self, String> {
        let output = body
            .scans()
            .map(|(value, _)| value)
            .chain(body.states.iter().map(|&state| body.updated(state)))
            .map(|value| {
                choice(body, value).map_or_else(
                    || through_identity(body.inner, value),
                    |choice| through_identity(body.inner, choice.new),
                )
            });
        let mut cell = Err("it carries no state".to_owned());
        for output in output {
            cell = Cell::of(body, output).map(|cell| (cell, output));
            if cell.is_ok() {
                break;
            }
        }
        let (cell, output) = cell?;
        let mut layer = Self {
            input: "",
            backwards: false,
            mask: None,
            hidden: None,
            memory: None,
            outputs: Vec::new(),
            cell,
        };
        let mask = layer.states(body, output)?;
        layer.scans(body, output, mask)?;
        for &state in &body.unchanged {
            let output = body.last(state);
            if body.outer.uses(output) > 0 {
                layer
                    .outputs
                    .push((output, Output::Same(body.initial(state))));
            }
        }
        layer.sequences(body, mask)?;
        if layer.mask.is_some() && !assume.right_padded {
            return Err(
                "it has a mask, and no graph proves that the steps that count come first: \
                 --assume right-padded says so"
                    .to_owned(),
            );
        }
        Ok(layer)
    }

    /// Accounts for every state; tells the mask's sequence.
    fn states(&mut self, body: &Body<'a>, output: &'a str) -> Result<Option<&'a str>, String> {
        let mut masks = Vec::new();
        let mut found_hidden = false;
        let mut found_memory = self.cell.memory.is_none();
        for &state in &body.states {
            let carried = body.carried(state);
            let updated = through_identity(body.inner, body.updated(state));
            let (new, mask) = match choice(body, updated) {
                Some(choice) if choice.old == carried => {
                    (through_identity(body.inner, choice.new), Some(choice.mask))
                }
                _ => (updated, None),
            };
            let result = body.last(state);
            let is_read = body.outer.uses(result) > 0;
            let initial = body.initial(state);
            let is_zero = constant::is_zero(body.outer, initial);
            let given = if is_zero { None } else { Some(initial) };
            let known = if carried == self.cell.hidden && new == output {
                found_hidden = true;
                self.hidden = given;
                Output::Hidden
            } else if self.cell.memory == Some((carried, new)) {
                found_memory = true;
                self.memory = given;
                Output::Memory
            } else if !is_read {
                // Nothing that the cell computes depends on it.
                continue;
            } else if mask.is_some() && new == output {
                // What the last step gave, to be given again.
                Output::Hidden
            } else {
                return Err("it carries a state that no cell of LSTM, GRU or RNN has".to_owned());
            };
            masks.push(mask);
            if mask.is_some() && !is_zero {
                return Err("it has a mask, and states that do not begin with 0".to_owned());
            }
            if is_read {
                self.outputs.push((result, known));
            }
        }
        if !found_hidden || !found_memory {
            return Err("it does not carry the cell's own states".to_owned());
        }
        let first = masks.first().copied().flatten();
        if masks.iter().any(|&mask| mask != first) {
            return Err("its states do not all have the same mask".to_owned());
        }
        Ok(first)
    }

    /// Accounts for what each step adds to the loop's outputs.
    fn scans(
        &mut self,
        body: &Body<'a>,
        output: &'a str,
        mask: Option<&'a str>,
    ) -> Result<(), String> {
        for (value, result) in body.scans() {
            if body.outer.uses(result) == 0 {
                continue;
            }
            let value = through_identity(body.inner, value);
            let chosen = choice(body, value);
            let masked = match (&chosen, mask) {
                (None, None) if value == output => Masked::Zero,
                (Some(choice), Some(mask))
                    if choice.mask == mask
                        && through_identity(body.inner, choice.new) == output =>
                {
                    let repeated = body.states.iter().any(|&state| {
                        let again = self::choice(body, body.updated(state));
                        body.carried(state) == choice.old
                            && constant::is_zero(body.outer, body.initial(state))
                            && again.is_some_and(|again| {
                                again.mask == mask
                                    && again.old == choice.old
                                    && through_identity(body.inner, again.new) == output
                            })
                    });
                    if repeated {
                        Masked::Repeated
                    } else if constant::is_zero(body.inner, choice.old) {
                        Masked::Zero
                    } else {
                        return Err(
                            "where its mask is false, its output is something else".to_owned()
                        );
                    }
                }
                _ => return Err("its output is not that of its cell".to_owned()),
            };
            self.outputs.push((result, Output::Steps(masked)));
        }
        Ok(())
    }

    /// Finds the sequences that it reads, and proves that they fit together.
    fn sequences(&mut self, body: &Body<'a>, mask: Option<&'a str>) -> Result<(), String> {
        let step = self.cell.gates[0]
            .input
            .as_ref()
            .map_or("", |(step, _)| step);
        let input = body
            .sequence(step)
            .ok_or("its input is not read step by step")?;
        let rank = sizes::rank(body.outer, input);
        if rank != Some(3) {
            return Err(format!(
                "its input is not provably of 3 axes{}",
                rank.map_or_else(String::new, |rank| format!(", but of {rank}"))
            ));
        }
        if sizes::axis(body.outer, input, 0) != Some(body.steps) {
            return Err("it does not provably run once for each step of its input".to_owned());
        }
        let unflipped = flipped(body, input);
        self.backwards = unflipped.is_some();
        self.input = unflipped.unwrap_or(input);
        let memory = self.cell.memory.map(|(memory, _)| memory);
        for &state in &body.states {
            let carried = body.carried(state);
            if carried == self.cell.hidden || memory == Some(carried) {
                self.begins_as_matrix(body, input, body.initial(state))?;
            }
        }
        let Some(mask) = mask else {
            return Ok(());
        };
        let fits = sizes::rank(body.outer, mask) == Some(3)
            && sizes::axis(body.outer, mask, 0) == Some(body.steps)
            && sizes::axis(body.outer, mask, 1) == sizes::axis(body.outer, input, 1)
            && sizes::axis(body.outer, mask, 2) == Some(Size::Known(1));
        if !fits {
            return Err(
                "its mask does not provably have one value for each step of each sequence"
                    .to_owned(),
            );
        }
        let unflipped = flipped(body, mask);
        if unflipped.is_some() != self.backwards {
            return Err("of its input and its mask only one is flipped".to_owned());
        }
        self.mask = Some(unflipped.unwrap_or(mask));
        Ok(())
    }
}

impl Layer<'_> {
    /// Proves that a state begins as `[batch, units]`, or is broadcast to that.
    fn begins_as_matrix(&self, body: &Body<'_>, input: &str, state: &str) -> Result<(), String> {
        let size = |axis| sizes::axis(body.outer, state, axis);
        let one = Some(Size::Known(1));
        let batch = sizes::axis(body.outer, input, 1);
        let units = Some(Size::Known(self.cell.units() as i64));
        let fits = sizes::rank(body.outer, state) == Some(2)
            && (size(0) == batch || size(0) == one)
            && (size(1) == units || size(1) == one);
        fits.then_some(()).ok_or_else(|| {
            "a state does not provably begin with a row of units for each sequence".to_owned()
        })
    }
}

/// What a sequence is that comes flipped.
fn flipped<'a>(body: &Body<'a>, sequence: &str) -> Option<&'a str> {
    let (scope, node, _) = body.outer.producer(sequence)?;
    let reversal = Reversal::of(scope, node)?;
    (reversal == Reversal::Flip { axis: 0 })
        .then(|| node.input(0))
        .flatten()
}

/// `mask · new + (1 - mask) · old`, or Where.
fn choice<'a>(body: &Body<'a>, name: &'a str) -> Option<Choice<'a>> {
    let scope = body.inner;
    let name = through_identity(scope, name);
    if let Some(node) = scope.first_output_of(name, "Where") {
        return Some(Choice {
            mask: body.sequence(node.input(0)?)?,
            new: through_identity(scope, node.input(1)?),
            old: through_identity(scope, node.input(2)?),
        });
    }
    let both = |(one, other)| [(one, other), (other, one)];
    both(operands(scope, name, "Add")?)
        .into_iter()
        .find_map(|(new, old)| {
            let (new_mask, new) = both(operands(scope, new, "Mul")?)
                .into_iter()
                .find_map(|(mask, new)| Some((number(body, mask)?, new)))?;
            let (old_mask, old) =
                both(operands(scope, old, "Mul")?)
                    .into_iter()
                    .find_map(|(mask, old)| {
                        let mask = scope.first_output_of(mask, "Cast")?.input(0)?;
                        let mask = scope.first_output_of(mask, "Not")?.input(0)?;
                        Some((body.sequence(mask)?, old))
                    })?;
            (new_mask == old_mask).then(|| Choice {
                mask: new_mask,
                new: through_identity(scope, new),
                old: through_identity(scope, old),
            })
        })
}

/// The sequence of a mask whose step is a number.
fn number<'a>(body: &Body<'a>, name: &'a str) -> Option<&'a str> {
    let mask = body.inner.first_output_of(name, "Cast")?.input(0)?;
    body.sequence(mask)
}
