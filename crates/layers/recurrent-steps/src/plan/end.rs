//! The end of a program: its states, what it collects, and its condition.

use super::planner::{End, Outcome, Planner};
use super::value::count;
use super::{Buffer, Collected, Needs, Operation, Plan, Source, State, Stated, phases};
use crate::error::{Error, values};
use crate::function::Function;
use crate::known::Line;
use crate::view::{Base, View};

impl Planner<'_> {
    /// Makes the program of the primitives.
    pub(super) fn finish(
        &mut self,
        lines: Vec<Option<Line>>,
        condition: Option<View>,
    ) -> Result<Outcome, Error> {
        let body = self.body;
        let mut states = vec![];
        for (index, state) in body.states.iter().enumerate() {
            if !state.is_live {
                states.push(Stated::Nothing);
                continue;
            }
            let initial = self.outer[&*state.initial].clone();
            if let Some(line) = lines[index] {
                states.push(Stated::Line(line, initial.sizes()));
                continue;
            }
            let current = self.value(&state.input)?;
            let next = self.value(&state.output)?;
            if next.kind != state.kind {
                return values(format!(
                    "state {:?} becomes one of another type",
                    state.input
                ));
            }
            let initial = match self.run.states {
                // The run has them.
                Some(_) => current.view.clone(),
                None => self.materialised(&initial)?,
            };
            let sizes = next.sizes();
            let from = self.materialised(&next)?;
            let is_kept = from == current.view;
            let buffer = if is_kept {
                None
            } else {
                let to = self.parts(state.kind, &sizes)?;
                let buffer = to.view.buffer();
                let moved = Operation::Map(Function::Move(state.kind.lane()));
                self.add_to(moved, vec![from], to.view);
                buffer
            };
            states.push(Stated::Buffer(State {
                initial,
                current: current.view.buffer().unwrap_or(usize::MAX),
                next: buffer,
                sizes: current.sizes(),
                next_sizes: sizes,
            }));
        }
        let changes = states.iter().any(Stated::changes_sizes);
        if changes && !self.end.is_single {
            return Ok(Outcome::Other(End {
                is_single: true,
                ..self.end
            }));
        }
        // What a program of some of the steps collects is put together later.
        let is_whole = !self.end.is_single && self.steps.is_some();
        let mut collected = vec![];
        for output in &body.collected {
            if !output.is_read {
                collected.push(None);
                continue;
            }
            let value = self.value(&output.name)?;
            let from = self.materialised(&value)?;
            let sizes = value.sizes();
            let axis = output.axis(sizes.len() + 1)?;
            if axis > 0 && !is_whole {
                return values("outputs that are collected along another axis than the first");
            }
            let steps = self
                .steps
                .filter(|_| is_whole)
                .map(|steps| steps + self.run.first);
            let mut whole = sizes.clone();
            whole.insert(axis, steps.unwrap_or(1));
            let buffer = self.buffer(Buffer {
                lane: value.kind.lane(),
                len: count(&whole)?,
                source: Source::Collected(collected.len()),
                needs: Needs::Nothing,
            });
            let first = if is_whole { self.run.first as i64 } else { 0 };
            let (start, slope) = match output.is_reversed {
                false => (first, 1),
                true => (steps.unwrap_or_default() as i64 - 1 - first, -1),
            };
            let to = View::whole(Base::Buffer(buffer), &whole);
            let to = if steps == Some(0) {
                to
            } else {
                to.at(axis, start, slope)
            };
            if steps != Some(0) {
                let moved = Operation::Map(Function::Move(value.kind.lane()));
                self.add_to(moved, vec![from], to);
            }
            collected.push(Some(Collected {
                buffer,
                kind: value.kind,
                len: count(&sizes)?,
                sizes: whole,
                axis,
            }));
        }
        let plan = phases::plan(self, states, collected, condition)?;
        Ok(Outcome::Made(Plan {
            most: self.end.most,
            is_single: self.end.is_single,
            is_whole,
            ..plan
        }))
    }
}
