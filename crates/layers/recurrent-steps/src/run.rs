//! Runs of programs.

use recurrent_layers::Threads;

use crate::body::Body;
use crate::elements::{Elements, ElementsMut, Kind, Lane, Outputs, Tensor};
use crate::error::{Error, values};
use crate::kernels::{At, Memory, Registers, zeros};
use crate::limits::{Limits, bytes, bytes_of};
use crate::plan::{
    Collected, Data, Inner, Plan, Scheduled, Source, StateBuffers, StatePlan, Work, count,
};
use crate::view::View;

/// After so many steps the run asks whether it is to end.
const BETWEEN_STOPS: usize = 16;

/// Numbers of a run's own.
#[derive(Clone, Debug)]
enum Numbers {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

/// What goes from one program of a run to the next.
pub(crate) struct Carried {
    states: Vec<(Vec<usize>, Numbers)>,
    /// What was collected, by output.
    collected: Vec<Numbers>,
}

impl Carried {
    pub(crate) fn sizes(&self) -> Vec<Vec<usize>> {
        self.states.iter().map(|state| state.0.clone()).collect()
    }
}

/// A program with its memory.
pub(crate) struct Running<'a> {
    plan: &'a Plan,
    memory: Vec<Memory<'a>>,
    registers: Registers,
    /// What earlier programs of the run collected.
    earlier: Vec<Numbers>,
    /// Whether each output that is collected is written where the caller wants it.
    is_placed: Vec<bool>,
    steps: usize,
}

impl<'a> Running<'a> {
    /// Makes the memory of a run, with the caller's where that is possible.
    pub(crate) fn new<'b: 'a>(
        plan: &'a Plan,
        inputs: &[Tensor<'b>],
        outputs: &mut dyn Outputs<'b>,
        carried: Option<Carried>,
    ) -> Result<Self, Error> {
        let (states, earlier) = match carried {
            Some(carried) => (Some(carried.states), carried.collected),
            None => (None, vec![]),
        };
        let is_placed = plan.is_whole && earlier.is_empty();
        let collected = |index: usize, output: &Collected| match is_placed {
            true => place(output, plan.states.len() + index, outputs),
            false => Ok(None),
        };
        let input = |index: usize| input(inputs[index].elements);
        let mut running = Self::with(plan, input, collected)?;
        running.earlier = earlier;
        running.start(states);
        Ok(running)
    }

    /// Makes the memory of a run, with memory of these inputs and of what it collects.
    fn with(
        plan: &'a Plan,
        mut input: impl FnMut(usize) -> Result<Memory<'a>, Error>,
        mut place: impl FnMut(usize, &Collected) -> Result<Option<Memory<'a>>, Error>,
    ) -> Result<Self, Error> {
        let mut is_placed = vec![false; plan.collected.len()];
        let mut memory = Vec::with_capacity(plan.buffers.len());
        for buffer in &plan.buffers {
            memory.push(match &buffer.source {
                Source::Program => Memory::zeros(buffer.lane, buffer.len)?,
                Source::Data(Data::Floats(all), _) => Memory::FloatsIn(all),
                Source::Data(Data::Ints(all), _) => Memory::IntsIn(all),
                Source::Input(index) => input(*index)?,
                Source::Collected(index) => {
                    let place = match &plan.collected[*index] {
                        Some(output) => place(*index, output)?,
                        None => None,
                    };
                    is_placed[*index] = place.is_some();
                    match place {
                        Some(place) => place,
                        None => Memory::zeros(buffer.lane, buffer.len)?,
                    }
                }
            });
        }
        let mut registers = Registers::default();
        for scheduled in plan.phases.iter().flatten() {
            if let Work::Kernel(kernel) = &scheduled.work {
                registers.fit(kernel);
            }
        }
        Ok(Self {
            plan,
            memory,
            registers,
            earlier: vec![],
            is_placed,
            steps: 0,
        })
    }

    /// Gives states their elements before the first step, or those that another program left.
    fn start(&mut self, states: Option<Vec<(Vec<usize>, Numbers)>>) {
        match states {
            Some(states) => {
                for (state, (_, numbers)) in std::iter::zip(&self.plan.states, states) {
                    if let StatePlan::Buffer(state) = state {
                        self.memory[state.current] = match numbers {
                            Numbers::Floats(all) => Memory::Floats(all),
                            Numbers::Ints(all) => Memory::Ints(all),
                        };
                    }
                }
            }
            None => {
                for state in &self.plan.states {
                    if let StatePlan::Buffer(state) = state {
                        self.begin(state);
                    }
                }
            }
        }
    }

    /// Copies the elements of a state before the first step.
    fn begin(&mut self, state: &StateBuffers) {
        let Some(from) = state.initial.buffer() else {
            return;
        };
        let mut taken = std::mem::replace(&mut self.memory[state.current], Memory::Floats(vec![]));
        let view = &state.initial;
        match &mut taken {
            Memory::Floats(to) => copy(view, self.memory[from].floats(), to),
            Memory::Ints(to) => copy(view, self.memory[from].ints(), to),
            _ => {}
        }
        self.memory[state.current] = taken;
    }

    /// The number of steps that ran.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    /// Runs the program after so many steps of others, and returns whether the loop is over.
    pub(crate) fn run(
        &mut self,
        threads: &dyn Threads,
        limits: Limits,
        first: usize,
    ) -> Result<bool, Error> {
        let plan = self.plan;
        let [before, each, after] = &plan.phases;
        let most = plan.steps.or(plan.most).unwrap_or(usize::MAX);
        // Where no step runs, indices need not fit.
        let is_any = most > 0;
        if is_any {
            self.phase(before, plan.steps.unwrap_or(0), threads, limits)?;
        }
        let own = bytes_of(&plan.buffers);
        let mut is_over = false;
        while self.steps < most && !is_over {
            let step = self.steps;
            if step.is_multiple_of(BETWEEN_STOPS) {
                check(threads)?;
            }
            limits.allow_steps(first + step + 1)?;
            if !plan.is_whole {
                let mut held = own;
                for output in plan.collected.iter().flatten() {
                    let len = output.len.saturating_mul(step + 1);
                    held = held.saturating_add(bytes(output.kind.lane(), len));
                    limits.allow_bytes(held)?;
                    self.memory[output.buffer].grow(len)?;
                }
            }
            for Scheduled { work, .. } in each {
                self.work(work, step, threads, limits)?;
            }
            if let Some((buffer, offset, apart)) = plan.condition {
                let place = offset + apart * step as isize;
                is_over = self.memory[buffer].floats()[place as usize] == 0.0;
            }
            for state in &plan.states {
                if let StatePlan::Buffer(StateBuffers {
                    current,
                    next: Some(next),
                    ..
                }) = state
                {
                    self.memory.swap(*current, *next);
                }
            }
            self.steps += 1;
        }
        if is_any {
            self.phase(after, plan.steps.unwrap_or(0), threads, limits)?;
        }
        Ok(is_over || plan.most == Some(self.steps))
    }

    fn phase(
        &mut self,
        works: &[Scheduled],
        steps: usize,
        threads: &dyn Threads,
        limits: Limits,
    ) -> Result<(), Error> {
        for Scheduled { work, is_each } in works {
            check(threads)?;
            let count = if *is_each { steps } else { 1 };
            for step in 0..count {
                self.work(work, step, threads, limits)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn work(
        &mut self,
        work: &Work,
        step: usize,
        threads: &dyn Threads,
        limits: Limits,
    ) -> Result<(), Error> {
        let (programs, condition, outputs) = match work {
            Work::Kernel(kernel) => {
                return kernel.run(&mut self.memory, &mut self.registers, step, threads);
            }
            Work::Inner {
                programs,
                condition,
                outputs,
            } => (programs, condition, outputs),
        };
        let is_first = condition
            .is_none_or(|at| self.memory[at.buffer].floats()[at.start(step) as usize] != 0.0);
        let program = &programs[usize::from(!is_first)];
        // Taken out so that the others can be read.
        let mut taken: Vec<Memory<'a>> = outputs
            .iter()
            .map(|(_, at)| std::mem::replace(&mut self.memory[at.buffer], Memory::Ints(vec![])))
            .collect();
        let done = inner(
            program,
            &self.memory,
            outputs,
            &mut taken,
            step,
            threads,
            limits,
        );
        for ((_, at), taken) in std::iter::zip(outputs, taken) {
            self.memory[at.buffer] = taken;
        }
        done
    }

    /// Takes out what the next program of the run goes on with.
    pub(crate) fn carry(mut self) -> Result<Carried, Error> {
        let mut states = vec![];
        for state in &self.plan.states {
            states.push(match state {
                StatePlan::Nothing => (vec![], Numbers::Ints(vec![])),
                StatePlan::Line(_, sizes) => (sizes.clone(), Numbers::Ints(vec![])),
                StatePlan::Buffer(state) => {
                    let len = count(&state.next_sizes)?;
                    let numbers = match &mut self.memory[state.current] {
                        Memory::Floats(all) => Numbers::Floats(std::mem::take(all)),
                        Memory::Ints(all) => Numbers::Ints(std::mem::take(all)),
                        other => Numbers::Floats(other.floats().to_vec()),
                    };
                    let numbers = match numbers {
                        Numbers::Floats(mut all) => {
                            all.truncate(len);
                            Numbers::Floats(all)
                        }
                        Numbers::Ints(mut all) => {
                            all.truncate(len);
                            Numbers::Ints(all)
                        }
                    };
                    (state.next_sizes.clone(), numbers)
                }
            });
        }
        let plan = self.plan;
        let collected = plan
            .collected
            .iter()
            .enumerate()
            .map(|(index, output)| match output {
                Some(output) => self.collected(index, output),
                None => Ok(Numbers::Floats(vec![])),
            });
        let collected = collected.collect::<Result<Vec<_>, _>>()?;
        Ok(Carried { states, collected })
    }

    /// What was collected so far, one step after another.
    fn collected(&self, index: usize, output: &Collected) -> Result<Numbers, Error> {
        let memory = &self.memory[output.buffer];
        let is_ints = output.kind.lane() == Lane::Int;
        let own = if self.plan.is_whole {
            memory.floats().len().max(memory.ints().len())
        } else {
            self.steps * output.len
        };
        // A whole has room for the steps before.
        let earlier = self.earlier.get(index);
        Ok(match (is_ints, earlier) {
            (false, None) => Numbers::Floats(memory.floats()[..own].to_vec()),
            (true, None) => Numbers::Ints(memory.ints()[..own].to_vec()),
            (false, Some(Numbers::Floats(all))) => {
                Numbers::Floats(joined(all, &memory.floats()[..own], self.plan.is_whole))
            }
            (true, Some(Numbers::Ints(all))) => {
                Numbers::Ints(joined(all, &memory.ints()[..own], self.plan.is_whole))
            }
            _ => return values("a step collects elements of another type"),
        })
    }

    /// Writes the outputs after so many steps of all programs.
    pub(crate) fn finish<'b>(
        self,
        body: &Body,
        steps: usize,
        outputs: &mut dyn Outputs<'b>,
    ) -> Result<(), Error> {
        let plan = self.plan;
        for (index, state) in plan.states.iter().enumerate() {
            let Some(kind) = body.outputs[index] else {
                continue;
            };
            match state {
                StatePlan::Nothing => {}
                StatePlan::Line(line, sizes) => {
                    let room = room(outputs, index, kind, sizes)?;
                    write(room, &Memory::Ints(vec![line.at(self.steps as i64)]))?;
                }
                StatePlan::Buffer(state) => {
                    let sizes = match self.steps {
                        0 => &state.sizes,
                        _ => &state.next_sizes,
                    };
                    let room = room(outputs, index, kind, sizes)?;
                    write(room, &self.memory[state.current])?;
                }
            }
        }
        for (index, output) in plan.collected.iter().enumerate() {
            let Some(output) = output else { continue };
            if self.is_placed[index] {
                continue;
            }
            let mut sizes = output.sizes.clone();
            if !plan.is_whole {
                sizes[output.axis] = steps;
            }
            let place = plan.states.len() + index;
            let room = room(outputs, place, output.kind, &sizes)?;
            let memory = match self.collected(index, output)? {
                Numbers::Floats(all) => Memory::Floats(all),
                Numbers::Ints(all) => Memory::Ints(all),
            };
            write(room, &memory)?;
        }
        Ok(())
    }
}

/// Runs a program at a step of another one, whose outputs were taken out of its memory.
fn inner(
    program: &Inner,
    memory: &[Memory<'_>],
    outputs: &[(usize, At)],
    taken: &mut [Memory<'_>],
    step: usize,
    threads: &dyn Threads,
    limits: Limits,
) -> Result<(), Error> {
    let plan = &*program.plan;
    limits.allow_bytes(bytes_of(&plan.buffers))?;
    let states = plan.states.len();
    let mut rooms: Vec<Option<Memory<'_>>> = plan.collected.iter().map(|_| None).collect();
    let mut last = vec![];
    for ((index, at), taken) in std::iter::zip(outputs, taken) {
        let start = at.start(step) as usize;
        let room = match taken.lane() {
            Lane::Float => Memory::FloatsOut(&mut taken.floats_mut()[start..]),
            Lane::Int => Memory::IntsOut(&mut taken.ints_mut()[start..]),
        };
        match index.checked_sub(states) {
            Some(index) => rooms[index] = Some(room),
            None => last.push((*index, room)),
        }
    }
    let input = |index: usize| {
        let (at, len) = program.inputs[index];
        let (memory, start) = (&memory[at.buffer], at.start(step) as usize);
        Ok(match memory.lane() {
            Lane::Float => Memory::FloatsIn(&memory.floats()[start..start + len]),
            Lane::Int => Memory::IntsIn(&memory.ints()[start..start + len]),
        })
    };
    let mut running = Running::with(plan, input, |index, _| Ok(rooms[index].take()))?;
    running.start(None);
    running.run(threads, limits, 0)?;
    for (index, mut room) in last {
        match &plan.states[index] {
            StatePlan::Nothing => {}
            StatePlan::Line(line, _) => {
                if let Some(to) = room.ints_mut().first_mut() {
                    *to = line.at(running.steps as i64);
                }
            }
            StatePlan::Buffer(state) => {
                let from = &running.memory[state.current];
                let sizes = match running.steps {
                    0 => &state.sizes,
                    _ => &state.next_sizes,
                };
                let len = count(sizes)?;
                match from.lane() {
                    Lane::Float => room.floats_mut()[..len].copy_from_slice(&from.floats()[..len]),
                    Lane::Int => room.ints_mut()[..len].copy_from_slice(&from.ints()[..len]),
                }
            }
        }
    }
    Ok(())
}

fn check(threads: &dyn Threads) -> Result<(), Error> {
    match threads.stop() {
        Some(stop) if stop.is_wanted() => Err(Error::Stopped),
        _ => Ok(()),
    }
}

/// What earlier programs collected, before or in what a later one did.
fn joined<T: Copy>(earlier: &[T], own: &[T], is_whole: bool) -> Vec<T> {
    if is_whole {
        let mut all = own.to_vec();
        let len = earlier.len().min(all.len());
        all[..len].copy_from_slice(&earlier[..len]);
        return all;
    }
    [earlier, own].concat()
}

fn room<'b>(
    outputs: &mut dyn Outputs<'b>,
    index: usize,
    kind: Kind,
    sizes: &[usize],
) -> Result<ElementsMut<'b>, Error> {
    let room = outputs.room(index, kind, sizes);
    room.map_err(|reason| Error::Output { index, reason })
}

/// The caller's memory of what is collected, if a program can write it.
fn place<'b>(
    output: &Collected,
    index: usize,
    outputs: &mut dyn Outputs<'b>,
) -> Result<Option<Memory<'b>>, Error> {
    if !matches!(output.kind, Kind::Float | Kind::Int64) {
        return Ok(None);
    }
    let room = room(outputs, index, output.kind, &output.sizes)?;
    let len = count(&output.sizes)?;
    match room {
        ElementsMut::Float(all) if all.len() == len => Ok(Some(Memory::FloatsOut(all))),
        ElementsMut::Int64(all) if all.len() == len => Ok(Some(Memory::IntsOut(all))),
        _ => values(format!("room of another size than {:?}", output.sizes)),
    }
}

fn input(elements: Elements<'_>) -> Result<Memory<'_>, Error> {
    Ok(match elements {
        Elements::Float(all) => Memory::FloatsIn(all),
        Elements::Int64(all) => Memory::IntsIn(all),
        Elements::Int32(all) => {
            let mut made: Vec<i64> = zeros(all.len())?;
            for (to, from) in std::iter::zip(&mut made, all) {
                *to = (*from).into();
            }
            Memory::Ints(made)
        }
        Elements::Bool(all) => {
            let mut made: Vec<f32> = zeros(all.len())?;
            for (to, from) in std::iter::zip(&mut made, all) {
                *to = f32::from(u8::from(*from));
            }
            Memory::Floats(made)
        }
    })
}

fn copy<T: Copy>(view: &View, from: &[T], to: &mut [T]) {
    if view.is_contiguous() {
        let start = view.offset as usize;
        let len = to.len().min(view.len());
        to[..len].copy_from_slice(&from[start..start + len]);
        return;
    }
    for (to, place) in std::iter::zip(to, view.places()) {
        *to = from[place];
    }
}

/// Writes numbers in the type of the caller.
fn write(room: ElementsMut<'_>, from: &Memory<'_>) -> Result<(), Error> {
    let len = match &room {
        ElementsMut::Float(to) => to.len(),
        ElementsMut::Int64(to) => to.len(),
        ElementsMut::Int32(to) => to.len(),
        ElementsMut::Bool(to) => to.len(),
    };
    let have = from.floats().len().max(from.ints().len());
    if have < len {
        return values(format!("room for {len} elements of {have}"));
    }
    match room {
        ElementsMut::Float(to) => to.copy_from_slice(&from.floats()[..len]),
        ElementsMut::Int64(to) => to.copy_from_slice(&from.ints()[..len]),
        ElementsMut::Int32(to) => {
            for (to, from) in std::iter::zip(to, from.ints()) {
                *to = *from as i32;
            }
        }
        ElementsMut::Bool(to) => {
            for (to, from) in std::iter::zip(to, from.floats()) {
                *to = *from != 0.0;
            }
        }
    }
    Ok(())
}
