//! The end of a program: its states, what it collects, and its condition.

use super::planner::{End, Outcome, Planner};
use super::value::count;
use super::{Buffer, Collected, Needs, Operation, Plan, Source, StateBuffers, StatePlan, phases};
use crate::body::{self, ScanOutput};
use crate::error::{Error, values};
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
        for (state, line) in std::iter::zip(&body.states, lines) {
            states.push(self.state(state, line)?);
        }
        if states.iter().any(StatePlan::changes_sizes) && !self.end.is_single {
            return Ok(Outcome::Other(End {
                is_single: true,
                ..self.end
            }));
        }
        // What a program of some of the steps collects is put together later.
        let whole = self.steps.filter(|_| !self.end.is_single);
        let mut collected = vec![];
        for (index, output) in body.collected.iter().enumerate() {
            let made = output.is_read.then(|| self.collected(index, output, whole));
            collected.push(made.transpose()?);
        }
        let plan = phases::plan(self, states, collected, condition)?;
        Ok(Outcome::Made(Plan {
            most: self.end.most,
            is_single: self.end.is_single,
            is_whole: whole.is_some(),
            ..plan
        }))
    }

    /// Writes a state for the next step.
    fn state(&mut self, state: &body::State, line: Option<Line>) -> Result<StatePlan, Error> {
        if !state.is_live {
            return Ok(StatePlan::Nothing);
        }
        let initial = self.outer[&*state.initial].clone();
        if let Some(line) = line {
            return Ok(StatePlan::Line(line, initial.sizes()));
        }
        let current = self.value(&state.input)?;
        let next = self.value(&state.output)?;
        if next.kind != state.kind {
            let name = &state.input;
            return values(format!("state {name:?} becomes one of another type"));
        }
        let initial = match self.run.states {
            // The run has them.
            Some(_) => current.view.clone(),
            None => self.materialised(&initial)?,
        };
        let from = self.materialised(&next)?;
        let is_kept = from == current.view;
        let written = match is_kept {
            true => None,
            false => {
                let to = self.parts(state.kind, &next.sizes())?;
                self.add_to(Operation::moved(state.kind), vec![from], to.view.clone());
                to.view.buffer()
            }
        };
        Ok(StatePlan::Buffer(StateBuffers {
            initial,
            current: current.view.buffer().unwrap_or(usize::MAX),
            next: written,
            sizes: current.sizes(),
            next_sizes: next.sizes(),
        }))
    }

    /// Writes what a step adds to an output: one of this whole number of steps, or a part that is put together
    /// later.
    fn collected(
        &mut self,
        index: usize,
        output: &ScanOutput,
        whole: Option<usize>,
    ) -> Result<Collected, Error> {
        let value = self.value(&output.name)?;
        let from = self.materialised(&value)?;
        let len = count(&value.sizes())?;
        let mut sizes = value.sizes();
        let axis = output.axis(sizes.len() + 1)?;
        if whole.is_none() && (axis > 0 || output.is_reversed) {
            return values("outputs that are collected along another axis, or in reverse");
        }
        let first = whole.map_or(0, |_| self.run.first);
        let steps = whole.map_or(1, |steps| steps + first);
        sizes.insert(axis, steps);
        let buffer = self.buffer(Buffer {
            lane: value.kind.lane(),
            len: count(&sizes)?,
            source: Source::Collected(index),
            needs: Needs::Nothing,
        });
        if steps > 0 {
            let (start, slope) = match output.is_reversed {
                false => (first as i64, 1),
                true => ((steps - 1 - first) as i64, -1),
            };
            let to = View::whole(Base::Buffer(buffer), &sizes);
            self.add_to(
                Operation::moved(value.kind),
                vec![from],
                to.at(axis, start, slope),
            );
        }
        Ok(Collected {
            buffer,
            kind: value.kind,
            len,
            sizes,
            axis,
        })
    }
}
