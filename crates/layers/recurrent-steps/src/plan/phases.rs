//! When primitives run: before the steps, in each, or after them.
//!
//! What depends on no step runs once. What depends on the number of the step alone runs for all steps at
//! once before them, where the results fit the second cache or a product is made of them; products that no
//! step needs run after them.

use std::collections::{HashMap, HashSet};

use super::unit::{self, MemoryOf, Unit};
use super::units;
use super::{
    Collected, Needs, Operation, Plan, Planner, Primitive, Scheduled, Source, StateBuffers,
    StatePlan,
};
use crate::error::Error;
use crate::function::Function;
use crate::view::{Base, View};

/// The most elements of all steps together that are made before them, unless a product reads them: half of
/// the second cache of most processors.
const MOST_BEFORE: usize = 1 << 16;

/// The most elements of all steps together that are kept for what runs after them.
const MOST_AFTER: usize = 1 << 24;

/// The elements from which on computing them again for each reader costs less than keeping them.
const LARGE: usize = 2048;

const BEFORE: usize = 0;
const STEP: usize = 1;
const AFTER: usize = 2;

/// Makes the program of a planner's primitives.
pub(super) fn plan(
    planner: &mut Planner<'_>,
    mut states: Vec<StatePlan>,
    collected: Vec<Option<Collected>>,
    condition: Option<View>,
) -> Result<Plan, Error> {
    let mut condition = condition.and_then(|view| Some((view.buffer()?, view.offset, view.step)));
    repeat_cheap(planner);
    let mut phases = Phases::of(planner, &states, condition.map(|it| it.0));
    let steps = planner.steps.unwrap_or(1);
    let wide = phases.widen(planner, steps);
    // The condition may be of a buffer of all steps.
    if let Some((buffer, _, step)) = &mut condition
        && wide.contains(buffer)
    {
        *step += (planner.buffers[*buffer].len / steps.max(1)) as isize;
    }
    let gone = phases.without_moves(planner, &mut states, &wide);
    let of_states = states.iter().filter_map(|state| match state {
        StatePlan::Buffer(state) => Some([Some(state.current), state.next]),
        StatePlan::Line(..) | StatePlan::Nothing => None,
    });
    let of_steps = collected.iter().flatten().map(|it| it.buffer);
    let outside = of_states.flatten().flatten().chain(of_steps);
    let outside = outside.chain(condition.map(|it| it.0)).collect();
    let mut units: [Vec<Unit>; 3] = Default::default();
    for (phase, units) in units.iter_mut().enumerate() {
        let own = (0..planner.primitives.len())
            .filter(|index| phases.of[*index] == phase && !gone.contains(index));
        let all = if phase == STEP { None } else { Some(steps) };
        *units = units::join(&planner.primitives, own.collect(), |primitive| {
            let needs = planner.buffers[primitive.writes()].needs;
            // What is needed by no step runs once, without an axis of steps.
            all.filter(|_| phase == AFTER || needs != Needs::Nothing)
        });
    }
    let places = in_place(planner, &mut states, &mut units, condition.map(|it| it.0));
    // The condition may be a state that is written where it lies.
    if let Some((buffer, ..)) = &mut condition {
        *buffer = places.get(buffer).copied().unwrap_or(*buffer);
    }
    let memory = MemoryOf {
        buffers: &planner.buffers,
        places: &places,
        outside: &outside,
    };
    let mut kernels: [Vec<Scheduled>; 3] = Default::default();
    for (units, kernels) in std::iter::zip(&units, &mut kernels) {
        for unit in units {
            kernels.extend(units::kernel(&planner.primitives, unit, &memory)?);
        }
    }
    Ok(Plan {
        steps: planner.steps,
        most: None,
        is_single: false,
        is_whole: false,
        buffers: std::mem::take(&mut planner.buffers),
        phases: kernels,
        states,
        collected,
        condition,
    })
}

/// Computes large results that are cheap once for each reader, so that they need no memory.
fn repeat_cheap(planner: &mut Planner<'_>) {
    let mut index = 0;
    while index < planner.primitives.len() {
        let primitive = &planner.primitives[index];
        let buffer = primitive.writes();
        let is_cheap = match primitive.operation {
            Operation::Map(function) => function.is_cheap(),
            _ => false,
        };
        let is_own = matches!(planner.buffers[buffer].source, Source::Program);
        let writers = planner.primitives.iter().filter(|it| it.writes() == buffer);
        if !is_cheap || !is_own || primitive.output.len() < LARGE || writers.count() > 1 {
            index += 1;
            continue;
        }
        let readers: Vec<usize> = (index + 1..planner.primitives.len())
            .filter(|&reader| {
                let reader = &planner.primitives[reader];
                let is_move = matches!(reader.operation, Operation::Map(Function::Move(_)));
                reader.is_grouped() && !is_move && reader.reads().any(|it| it == buffer)
            })
            .collect();
        // One that is moved is kept anyway.
        let is_kept = planner.primitives.iter().any(|it| {
            matches!(it.operation, Operation::Map(Function::Move(_)))
                && it.reads().any(|it| it == buffer)
        });
        let first = if is_kept { 0 } else { 1 };
        for (copies, reader) in readers.into_iter().skip(first).enumerate() {
            let reader = reader + copies;
            let mut copy = planner.primitives[index].clone();
            let mut own = planner.buffers[buffer].clone();
            own.source = Source::Program;
            planner.buffers.push(own);
            let made = Base::Buffer(planner.buffers.len() - 1);
            copy.output.base = made.clone();
            copy.is_copy = true;
            for view in &mut planner.primitives[reader].inputs {
                if view.buffer() == Some(buffer) {
                    view.base = made.clone();
                }
            }
            planner.primitives.insert(reader, copy);
        }
        index += 1;
    }
}

/// The phase of each primitive.
struct Phases {
    of: Vec<usize>,
    /// The primitives that write each buffer.
    writers: Vec<Vec<usize>>,
}

/// What a step hands on to the next.
struct Handed {
    /// The buffers of states, and of their next values.
    currents: HashSet<usize>,
    nexts: HashSet<usize>,
    /// The buffers that the next step needs.
    needed: HashSet<usize>,
}

impl Handed {
    fn of(
        primitives: &[Primitive],
        writers: &[Vec<usize>],
        states: &[StatePlan],
        condition: Option<usize>,
    ) -> Self {
        let buffers = |of: fn(&StateBuffers) -> Option<usize>| -> HashSet<usize> {
            let buffers = states.iter().filter_map(|state| match state {
                StatePlan::Buffer(state) => of(state),
                StatePlan::Line(..) | StatePlan::Nothing => None,
            });
            buffers.collect()
        };
        let nexts = buffers(|state| state.next);
        let mut needed = HashSet::new();
        let mut open: Vec<usize> = nexts.iter().copied().chain(condition).collect();
        while let Some(buffer) = open.pop() {
            if needed.insert(buffer) {
                let writers = writers[buffer].iter();
                open.extend(writers.flat_map(|&it| primitives[it].reads()));
            }
        }
        Self {
            currents: buffers(|state| Some(state.current)),
            nexts,
            needed,
        }
    }
}

impl Phases {
    fn of(planner: &Planner<'_>, states: &[StatePlan], condition: Option<usize>) -> Self {
        let primitives = &planner.primitives;
        let mut writers = vec![vec![]; planner.buffers.len()];
        for (index, primitive) in primitives.iter().enumerate() {
            writers[primitive.writes()].push(index);
        }
        let handed = Handed::of(primitives, &writers, states, condition);
        let mut phases = Self {
            of: vec![STEP; primitives.len()],
            writers,
        };
        phases.move_before(planner, &handed);
        phases.keep_what_reads_later(primitives);
        if let Some(steps) = planner.steps {
            phases.move_behind(planner, &handed, steps);
            phases.keep_what_is_read(primitives);
        }
        phases
    }

    /// What products are made of that depend on no state.
    fn of_products(&self, planner: &Planner<'_>) -> HashSet<usize> {
        let mut made = HashSet::new();
        for (index, primitive) in planner.primitives.iter().enumerate().rev() {
            let is_product = matches!(
                primitive.operation,
                Operation::Product { .. } | Operation::Multiply { .. }
            );
            let needs = planner.buffers[primitive.writes()].needs;
            if needs == Needs::Number && (is_product || made.contains(&index)) {
                made.insert(index);
                let sources = primitive.reads().flat_map(|it| &self.writers[it]);
                made.extend(sources.copied());
            }
        }
        made
    }

    /// Moves what depends on no state before the steps, if it fits.
    fn move_before(&mut self, planner: &Planner<'_>, handed: &Handed) {
        let of_products = self.of_products(planner);
        for (index, primitive) in planner.primitives.iter().enumerate() {
            let buffer = &planner.buffers[primitive.writes()];
            if !matches!(buffer.source, Source::Program)
                || handed.nexts.contains(&primitive.writes())
            {
                continue;
            }
            let fits = |steps: usize| {
                let all = buffer.len.saturating_mul(steps);
                let pays = all <= MOST_BEFORE
                    || matches!(primitive.operation, Operation::Reduce(_))
                    || of_products.contains(&index);
                pays && all <= MOST_AFTER
            };
            let is_before = match buffer.needs {
                Needs::Nothing => true,
                Needs::Number => planner.steps.is_some_and(fits),
                Needs::States => false,
            };
            if is_before {
                self.of[index] = BEFORE;
            }
        }
    }

    /// Takes back what is made of later values, or written beside them: a buffer is of one phase.
    fn keep_what_reads_later(&mut self, primitives: &[Primitive]) {
        let mut is_open = true;
        while is_open {
            is_open = false;
            for (index, primitive) in primitives.iter().enumerate() {
                let is_late = |it: &usize| self.of[*it] != BEFORE;
                let mut sources = primitive.reads().flat_map(|it| &self.writers[it]);
                let beside = &self.writers[primitive.writes()];
                if self.of[index] == BEFORE && (sources.any(is_late) || beside.iter().any(is_late))
                {
                    self.of[index] = STEP;
                    is_open = true;
                }
            }
        }
    }

    /// Moves products that no step needs behind the steps, and what is made of them.
    fn move_behind(&mut self, planner: &Planner<'_>, handed: &Handed, steps: usize) {
        for (index, primitive) in planner.primitives.iter().enumerate() {
            let buffer = primitive.writes();
            let reads_state = primitive.reads().any(|it| handed.currents.contains(&it));
            let is_alone = self.writers[buffer].len() == 1;
            let is_inner = matches!(
                primitive.operation,
                Operation::Inner(_) | Operation::OfInner(_)
            );
            let stays = reads_state || !is_alone || is_inner;
            if self.of[index] != STEP || handed.needed.contains(&buffer) || stays {
                continue;
            }
            let is_of = |buffer: usize, phase: usize| {
                let mut writers = self.writers[buffer].iter();
                writers.any(|&it| self.of[it] == phase)
            };
            let kept = primitive.reads().filter(|&it| is_of(it, STEP));
            let kept: usize = kept.map(|it| planner.buffers[it].len).sum();
            let all = kept.max(planner.buffers[buffer].len).saturating_mul(steps);
            let follows = primitive.reads().any(|it| is_of(it, AFTER));
            let is_product = matches!(primitive.operation, Operation::Product { .. });
            if follows || is_product && all <= MOST_AFTER {
                self.of[index] = AFTER;
            }
        }
    }

    /// Takes back what a step reads, by way of a buffer of several writers.
    fn keep_what_is_read(&mut self, primitives: &[Primitive]) {
        let mut is_open = true;
        while is_open {
            is_open = false;
            for (index, primitive) in primitives.iter().enumerate() {
                if self.of[index] != STEP {
                    continue;
                }
                for writer in primitive.reads().flat_map(|it| &self.writers[it]) {
                    if self.of[*writer] == AFTER {
                        self.of[*writer] = STEP;
                        is_open = true;
                    }
                }
            }
        }
    }

    /// Makes room for all steps where a value goes from one phase to another; returns these buffers.
    fn widen(&mut self, planner: &mut Planner<'_>, steps: usize) -> HashSet<usize> {
        let mut wide = HashSet::new();
        for (index, primitive) in planner.primitives.iter().enumerate() {
            let buffer = primitive.writes();
            let own = &planner.buffers[buffer];
            let is_each = match self.of[index] {
                BEFORE => own.needs != Needs::Nothing,
                STEP => false,
                _ => true,
            };
            if is_each && matches!(own.source, Source::Program) {
                wide.insert(buffer);
            }
            if self.of[index] == AFTER {
                wide.extend(primitive.reads().filter(|&it| {
                    let mut writers = self.writers[it].iter();
                    writers.any(|&it| self.of[it] != BEFORE)
                }));
            }
        }
        let lens: Vec<usize> = planner.buffers.iter().map(|it| it.len).collect();
        for &buffer in &wide {
            planner.buffers[buffer].len = lens[buffer].saturating_mul(steps);
        }
        for primitive in &mut planner.primitives {
            for view in primitive.inputs.iter_mut().chain([&mut primitive.output]) {
                if let Some(buffer) = view.buffer().filter(|buffer| wide.contains(buffer)) {
                    view.step += lens[buffer] as isize;
                }
            }
        }
        wide
    }

    /// Leaves out what only moves a value to be the next state: its buffer is. Returns these primitives.
    fn without_moves(
        &self,
        planner: &Planner<'_>,
        states: &mut [StatePlan],
        wide: &HashSet<usize>,
    ) -> HashSet<usize> {
        let mut gone = HashSet::new();
        let mut taken: HashSet<usize> = HashSet::new();
        for state in states.iter_mut() {
            let StatePlan::Buffer(state) = state else {
                continue;
            };
            let Some(next) = state.next else { continue };
            let [mover] = *self.writers[next] else {
                continue;
            };
            let from = &planner.primitives[mover].inputs[0];
            let Some(buffer) = from.buffer() else {
                continue;
            };
            let own = &planner.buffers[buffer];
            let is_whole = from.is_contiguous() && from.offset == 0 && from.step == 0;
            let mut writers = self.writers[buffer].iter();
            let is_made = writers.len() > 0 && writers.all(|&it| self.of[it] == STEP);
            if is_whole
                && is_made
                && own.len == from.len()
                && matches!(own.source, Source::Program)
                && !wide.contains(&buffer)
                && taken.insert(buffer)
            {
                gone.insert(mover);
                state.next = Some(buffer);
            }
        }
        gone
    }
}

/// Lets states be written where they lie, if what reads them before has done so; a condition that is one is read
/// behind the step. Returns where the buffers of their next values are.
fn in_place(
    planner: &mut Planner<'_>,
    states: &mut [StatePlan],
    units: &mut [Vec<Unit>; 3],
    condition: Option<usize>,
) -> HashMap<usize, usize> {
    let mut places = HashMap::new();
    for state in states {
        let StatePlan::Buffer(state) = state else {
            continue;
        };
        let Some(next) = state.next else { continue };
        if state.sizes != state.next_sizes || condition == Some(state.current) {
            continue;
        }
        let Some(mover) = written_in_place(&planner.primitives, state, next, units) else {
            continue;
        };
        places.insert(next, state.current);
        planner.buffers[next].len = 0;
        state.next = None;
        // It would move the state onto itself.
        if let Some(mover) = mover {
            for unit in &mut units[STEP] {
                unit.primitives.retain(|&it| it != mover);
            }
            units[STEP].retain(|unit| !unit.primitives.is_empty());
        }
    }
    places
}

/// Whether the next value of a state can be written where the state lies, and the primitive that moves the state
/// there, if one does, of which others then change parts.
fn written_in_place(
    primitives: &[Primitive],
    state: &StateBuffers,
    next: usize,
    units: &[Vec<Unit>; 3],
) -> Option<Option<usize>> {
    let steps = &units[STEP];
    let writes = |unit: &Unit| {
        unit.primitives
            .iter()
            .any(|&it| primitives[it].writes() == next)
    };
    let mut writers = (0..steps.len()).filter(|&it| writes(&steps[it]));
    let writer = writers.next()?;
    let own = &steps[writer];
    let whole = View::whole(Base::Buffer(state.current), &state.sizes);
    let moves = |primitive: &Primitive| {
        let is_move = matches!(primitive.operation, Operation::Map(Function::Move(_)));
        is_move && primitive.writes() == next && primitive.inputs[0].is_same(&whole)
    };
    let mover = own
        .primitives
        .iter()
        .copied()
        .find(|&it| moves(&primitives[it]));
    if writers.next().is_some() && mover.is_none() {
        return None;
    }
    let mut later = steps[writer + 1..]
        .iter()
        .chain(&units[AFTER])
        .flat_map(|it| &it.primitives);
    if later.any(|&it| primitives[it].reads().any(|it| it == state.current)) {
        return None;
    }
    let outputs = own.primitives.iter().map(|&it| &primitives[it]);
    let mut written = outputs.clone().filter(|it| it.writes() == next);
    let (Some(output), None) = (written.next(), written.next()) else {
        return None;
    };
    let place = unit::place(&output.output, own.steps);
    let mut reads = outputs.flat_map(|it| &it.inputs);
    let is_beside = reads
        .all(|view| view.buffer() != Some(state.current) || unit::place(view, own.steps) == place);
    (is_beside && matches!(output.operation, Operation::Map(_))).then_some(mover)
}
