//! Joins primitives to units that run at once, and writes their kernels.

use std::collections::{HashMap, HashSet};

use super::rows::{self, Known, Parts, Spot};
use super::{Buffer, Operation, Primitive, Scheduled};
use crate::elements::Lane;
use crate::error::{Error, values};
use crate::function::{Function, Reduction};
use crate::kernels::{
    At, BLOCK, Best, Count, Group, Instruction, Kernel, Load, MAXIMUM_AXES, Multiply, Operand,
    Pick, Place, Product, Scatter, Store,
};
use crate::view::{Axis, View, merged};

/// Primitives that run at once.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) primitives: Vec<usize>,
    /// The number of steps, if it runs for all at once.
    pub(super) steps: Option<usize>,
}

/// The axes of a view that have elements, with that of the steps first if it runs for all at once.
fn axes(view: &View, steps: Option<usize>) -> Vec<Axis> {
    let lead = steps.map(|size| Axis {
        size,
        stride: view.step,
    });
    let all = lead.into_iter().chain(view.axes.iter().copied());
    all.filter(|axis| axis.size != 1).collect()
}

/// What tells whether two views of a buffer have the same elements at the same places.
pub(super) fn place(view: &View, steps: Option<usize>) -> (isize, isize, Vec<Axis>) {
    (view.offset, view.step, axes(view, steps))
}

/// Joins primitives, in an order in which each comes behind what it reads. `steps_of` returns the number of
/// steps that a primitive runs for at once.
pub(super) fn join(
    primitives: &[Primitive],
    mut open: Vec<usize>,
    steps_of: impl Fn(&Primitive) -> Option<usize>,
) -> Vec<Unit> {
    let mut units = vec![];
    let mut pending: HashMap<usize, Vec<usize>> = HashMap::new();
    for &index in &open {
        pending
            .entry(primitives[index].writes())
            .or_default()
            .push(index);
    }
    let sizes = |index: usize| -> Vec<usize> {
        let primitive = &primitives[index];
        let axes = axes(&primitive.output, steps_of(primitive));
        axes.into_iter().map(|axis| axis.size).collect()
    };
    let shapes: HashMap<usize, Vec<usize>> = open.iter().map(|&it| (it, sizes(it))).collect();
    while !open.is_empty() {
        let waits = |index: usize, inside: &HashMap<usize, usize>| {
            let primitive = &primitives[index];
            let mut reads = primitive.inputs.iter().chain([&primitive.output]);
            reads.any(|view| {
                let Some(buffer) = view.buffer() else {
                    return false;
                };
                let writers = pending.get(&buffer).into_iter().flatten();
                let mut earlier = writers.filter(|&&writer| writer < index);
                earlier.any(|writer| {
                    // What the unit itself makes of the same place.
                    let own = inside.get(&buffer) == Some(writer);
                    let made = &primitives[*writer];
                    let is_map = matches!(made.operation, Operation::Map(_));
                    let steps = steps_of(made);
                    let is_alone = pending[&buffer].len() == 1;
                    !(own && is_map && is_alone && place(view, steps) == place(&made.output, steps))
                })
            })
        };
        let nothing = HashMap::new();
        let ready: Vec<usize> = open
            .iter()
            .copied()
            .filter(|&it| !waits(it, &nothing))
            .collect();
        let single = ready
            .iter()
            .copied()
            .find(|&it| !primitives[it].is_grouped());
        let unit = match single {
            Some(index) => vec![index],
            None => {
                let mut best: Vec<usize> = vec![];
                let mut tried: HashSet<&[usize]> = HashSet::new();
                for &seed in &ready {
                    if !tried.insert(&shapes[&seed]) {
                        continue;
                    }
                    let mut inside = HashMap::new();
                    let mut unit = vec![];
                    for &index in &open {
                        let primitive = &primitives[index];
                        if primitive.is_grouped()
                            && shapes[&index] == shapes[&seed]
                            && steps_of(primitive) == steps_of(&primitives[seed])
                            && !waits(index, &inside)
                        {
                            inside.insert(primitive.writes(), index);
                            unit.push(index);
                        }
                    }
                    let is_with_reader = |index: &usize| {
                        let primitive = &primitives[*index];
                        let reads =
                            |it: &usize| primitives[*it].reads().any(|it| it == primitive.writes());
                        !primitive.is_copy || unit.iter().any(reads)
                    };
                    let kept: Vec<usize> = unit.iter().copied().filter(is_with_reader).collect();
                    if !kept.is_empty() {
                        unit = kept;
                    }
                    if unit.len() > best.len() {
                        best = unit;
                    }
                }
                best
            }
        };
        // Something is always ready: primitives stand behind what they read.
        let Some(&first) = unit.first() else { break };
        for &index in &unit {
            if let Some(writers) = pending.get_mut(&primitives[index].writes()) {
                writers.retain(|&it| it != index);
            }
        }
        open.retain(|it| !unit.contains(it));
        units.push(Unit {
            steps: steps_of(&primitives[first]),
            primitives: unit,
        });
    }
    units
}

/// The buffers of a program.
pub(super) struct MemoryOf<'a> {
    pub(super) buffers: &'a [Buffer],
    /// The buffers that others lie in.
    pub(super) places: &'a HashMap<usize, usize>,
    /// The buffers that others than primitives read.
    pub(super) outside: &'a HashSet<usize>,
}

impl MemoryOf<'_> {
    fn at(&self, view: &View) -> At {
        At {
            buffer: self.buffer(view),
            offset: view.offset,
            step: view.step,
        }
    }

    /// Where a view's buffer lies.
    fn buffer(&self, view: &View) -> usize {
        let own = view.buffer().unwrap_or(usize::MAX);
        self.places.get(&own).copied().unwrap_or(own)
    }

    fn lane(&self, view: &View) -> Lane {
        self.buffers[self.buffer(view)].lane
    }
}

/// Axes of several views, merged where all allow it: sizes and strides.
fn together<const N: usize>(views: [&[Axis]; N]) -> Vec<(usize, [isize; N])> {
    let mut made: Vec<(usize, [isize; N])> = vec![];
    for index in 0..views[0].len() {
        let size = views[0][index].size;
        let strides = views.map(|axes| axes[index].stride);
        if size == 1 {
            continue;
        }
        match made.last_mut() {
            Some((outer, wide))
                if std::iter::zip(&*wide, strides).all(|(a, b)| *a == b * size as isize) =>
            {
                *outer *= size;
                *wide = strides;
            }
            _ => made.push((size, strides)),
        }
    }
    made
}

/// Writes the kernel of a unit.
pub(super) fn kernel(
    primitives: &[Primitive],
    unit: &Unit,
    memory: &MemoryOf<'_>,
) -> Result<Scheduled, Error> {
    let [index, ..] = *unit.primitives else {
        return values("a unit of nothing");
    };
    let Primitive {
        operation,
        inputs,
        output,
        ..
    } = &primitives[index];
    let (at, lane_of) = (
        |view: &View| memory.at(view),
        |view: &View| memory.lane(view),
    );
    let to = at(output);
    let single = |kernel| Scheduled {
        kernel,
        is_each: unit.steps.is_some(),
    };
    Ok(match operation {
        Operation::Map(_) | Operation::Reduce(_) => Scheduled {
            kernel: group(primitives, unit, memory)?,
            is_each: false,
        },
        Operation::Product { matrices, lens } => {
            let from = at(&inputs[0]);
            let mut product = Product {
                matrices: matrices.clone(),
                lens: *lens,
                from,
                to,
            };
            let follows = [from.step, to.step] == lens.map(|len| len as isize);
            match (unit.steps, &*product.matrices) {
                // The rows of all steps at once.
                (Some(steps), [_]) if follows => {
                    product.lens = lens.map(|len| len * steps);
                    Scheduled {
                        kernel: Kernel::Product(product),
                        is_each: false,
                    }
                }
                _ => single(Kernel::Product(product)),
            }
        }
        Operation::Multiply => {
            let [one, other] = &**inputs else {
                return values("a product of other than two");
            };
            let rank = one.rank();
            let (lead, [row, term]) = (
                &one.axes[..rank - 2],
                [one.axes[rank - 2], one.axes[rank - 1]],
            );
            let (beside, [same, column]) = (
                &other.axes[..rank - 2],
                [other.axes[rank - 2], other.axes[rank - 1]],
            );
            single(Kernel::Multiply(Multiply {
                batch: together([lead, beside]),
                sizes: [row.size, term.size, column.size],
                one: (at(one), [row.stride, term.stride]),
                other: (at(other), [same.stride, column.stride]),
                to,
            }))
        }
        Operation::Pick { axis } => single(Kernel::Pick(Pick {
            axes: together([&inputs[1].axes, &inputs[0].axes]),
            indices: at(&inputs[1]),
            from: at(&inputs[0]),
            to,
            lane: lane_of(&inputs[0]),
            axis: *axis,
        })),
        Operation::Scatter { targets, apart } => single(Kernel::Scatter(Scatter {
            axes: together([&inputs[0].axes, &inputs[1].axes, &output.axes]),
            indices: at(&inputs[0]),
            updates: at(&inputs[1]),
            to,
            lane: lane_of(output),
            targets: targets.clone(),
            apart: *apart,
        })),
        Operation::Best {
            axis,
            is_least,
            takes_last,
        } => single(Kernel::Best(Best {
            axes: together([&inputs[0].axes])
                .into_iter()
                .map(|(size, [stride])| (size, stride))
                .collect(),
            from: at(&inputs[0]),
            to,
            lane: lane_of(&inputs[0]),
            axis: *axis,
            is_least: *is_least,
            takes_last: *takes_last,
        })),
        Operation::Count(lines) => single(Kernel::Count(Count {
            lines: lines.clone(),
            to,
        })),
    })
}

/// Where the operands of a group's instructions are.
struct Writer<'a> {
    memory: &'a MemoryOf<'a>,
    steps: Option<usize>,
    /// Axes that all places have, from the outermost: sizes of each group of merged ones.
    axes: Vec<usize>,
    /// The first axis of a block.
    cut: usize,
    chunk: usize,
    loads: Vec<(Load, Source)>,
}

/// What tells loads apart.
type Source = (usize, isize, isize, Vec<isize>);

/// Strides along the axes of a group, before they are merged.
fn strides(view: &View, steps: Option<usize>) -> Vec<isize> {
    axes(view, steps).iter().map(|axis| axis.stride).collect()
}

impl Writer<'_> {
    fn place(&self, view: &View, all: &[isize]) -> Place {
        let (outer, block) = match self.axes.is_empty() {
            true => (vec![0], vec![]),
            false => (all[..=self.cut].to_vec(), self.block(all)),
        };
        let whole = merged(&block[1.min(block.len())..]);
        let first = block.first().map(|axis| Axis {
            size: self.chunk,
            ..*axis
        });
        // The axis that is cut merges with those behind it if it continues them.
        let (unit, block) = match (first, whole.first()) {
            (None, _) => (1, vec![]),
            (Some(cut), Some(next)) if cut.stride == next.stride * next.size as isize => {
                let merged = Axis {
                    size: cut.size * next.size,
                    stride: next.stride,
                };
                (next.size, [&[merged], &whole[1..]].concat())
            }
            (Some(cut), _) => (1, [&[cut], &*whole].concat()),
        };
        Place {
            buffer: self.memory.buffer(view),
            lane: self.memory.lane(view),
            offset: view.offset,
            step: if self.steps.is_some() { 0 } else { view.step },
            outer,
            block: block
                .into_iter()
                .map(|axis| (axis.size, axis.stride))
                .collect(),
            unit,
        }
    }

    fn block(&self, strides: &[isize]) -> Vec<Axis> {
        let axes = std::iter::zip(&self.axes, strides).skip(self.cut);
        axes.map(|(&size, &stride)| Axis { size, stride }).collect()
    }
}

/// Writes the program of a group.
fn group(primitives: &[Primitive], unit: &Unit, memory: &MemoryOf<'_>) -> Result<Kernel, Error> {
    let own: Vec<&Primitive> = unit.primitives.iter().map(|&it| &primitives[it]).collect();
    let inside: HashSet<usize> = unit.primitives.iter().copied().collect();
    // The axes of all views, merged where each allows it.
    let sizes: Vec<usize> = axes(&own[0].output, unit.steps)
        .iter()
        .map(|it| it.size)
        .collect();
    let views = own
        .iter()
        .flat_map(|it| it.inputs.iter().chain([&it.output]));
    let all: Vec<Vec<isize>> = views.map(|view| strides(view, unit.steps)).collect();
    let follows = |index: usize, size: usize| {
        all.iter()
            .all(|strides| strides[index - 1] == strides[index] * size as isize)
    };
    // The index of the last axis of each merged one, and its size.
    let mut joined: Vec<(usize, usize)> = vec![];
    for (index, &size) in sizes.iter().enumerate() {
        match joined.last_mut() {
            Some((last, whole)) if follows(index, size) => {
                *last = index;
                *whole *= size;
            }
            _ => joined.push((index, size)),
        }
    }
    if joined.len() > MAXIMUM_AXES {
        return values(format!("functions of values with {} axes", joined.len()));
    }
    let merge = |all: &[isize]| -> Vec<isize> { joined.iter().map(|it| all[it.0]).collect() };
    let axes: Vec<usize> = joined.iter().map(|it| it.1).collect();
    // A block has as many of the inner axes as fit.
    let (mut cut, mut inner) = (axes.len().saturating_sub(1), 1);
    while cut > 0 && inner * axes[cut] <= BLOCK / 2 && axes[cut] > 0 {
        inner *= axes[cut];
        cut -= 1;
    }
    let size = axes.get(cut).copied().unwrap_or(1);
    let chunk = (BLOCK / inner.max(1)).clamp(1, size.max(1));
    let mut writer = Writer {
        memory,
        steps: unit.steps,
        axes,
        cut,
        chunk,
        loads: vec![],
    };
    // Values of the group, by the buffer that they are of.
    let mut made: HashMap<usize, usize> = HashMap::new();
    let mut code: Vec<(Function, Vec<Known>)> = vec![];
    let mut stores: Vec<(Known, &Primitive)> = vec![];
    for primitive in &own {
        let mut operands = vec![];
        for view in &primitive.inputs {
            let buffer = view.buffer().unwrap_or(usize::MAX);
            let operand = match made.get(&buffer) {
                Some(&value) => Known::Value(value),
                None => Known::Load(writer.load(view, &merge(&strides(view, unit.steps)))),
            };
            operands.push(operand);
        }
        match primitive.operation {
            Operation::Map(function) => {
                let value = match (function, operands[0]) {
                    (Function::Move(_), Known::Value(value)) => value,
                    _ => match code
                        .iter()
                        .position(|it| *it == (function, operands.clone()))
                    {
                        Some(value) => value,
                        None => {
                            code.push((function, operands));
                            code.len() - 1
                        }
                    },
                };
                let buffer = primitive.writes();
                let writers = primitives.iter().filter(|it| it.writes() == buffer).count();
                let mut readers = primitives.iter().enumerate();
                let is_read = readers.any(|(index, it)| {
                    !inside.contains(&index) && it.reads().any(|it| it == buffer)
                });
                if is_read || writers > 1 || memory.outside.contains(&buffer) {
                    stores.push((Known::Value(value), primitive));
                }
                // Who reads it in this group reads these elements, also if others wrote the buffer before.
                made.insert(buffer, value);
            }
            _ => {
                let from = match operands[0] {
                    Known::Load(_) => {
                        let lane = memory.lane(&primitive.output);
                        code.push((Function::Move(lane), operands));
                        Known::Value(code.len() - 1)
                    }
                    value => value,
                };
                stores.push((from, primitive));
            }
        }
    }
    let value_of = |known: Known| match known {
        Known::Value(value) | Known::Load(value) => value,
    };
    let reduction_of = |primitive: &Primitive| match primitive.operation {
        Operation::Reduce(reduction) => Some(reduction),
        _ => None,
    };
    let spot = |place: &Place, strides: Vec<isize>| Spot {
        buffer: place.buffer,
        lane: place.lane,
        offset: place.offset,
        step: place.step,
        strides,
    };
    let stores: Vec<(usize, Place, Vec<isize>, Option<Reduction>)> = stores
        .into_iter()
        .map(|(from, primitive)| {
            let all = merge(&strides(&primitive.output, unit.steps));
            let place = writer.place(&primitive.output, &all);
            (value_of(from), place, all, reduction_of(primitive))
        })
        .collect();
    let loads: Vec<Spot> = writer
        .loads
        .iter()
        .map(|(load, source)| spot(&load.place, source.3.clone()))
        .collect();
    let spots: Vec<(usize, Spot, Option<Reduction>)> = stores
        .iter()
        .map(|(value, place, all, reduction)| (*value, spot(place, all.clone()), *reduction))
        .collect();
    let parts = Parts {
        axes: &writer.axes,
        loads: &loads,
        code: &code,
        stores: &spots,
    };
    if let Some(rows) = rows::of(&parts) {
        return Ok(Kernel::Rows(rows));
    }
    let stores: Vec<(usize, Store)> = stores
        .into_iter()
        .map(|(value, place, _, reduction)| {
            let from = Operand::Register(0);
            (
                value,
                Store {
                    from,
                    place,
                    reduction,
                },
            )
        })
        .collect();
    let outer = writer.axes.get(..cut).unwrap_or_default().to_vec();
    let loads = writer.loads.into_iter().map(|it| it.0).collect();
    Ok(Kernel::Group(allocated(
        Group {
            outer,
            cut: (size, chunk),
            inner,
            loads,
            code: vec![],
            stores: vec![],
        },
        &code,
        stores,
    )))
}

impl Writer<'_> {
    /// The index of a load.
    fn load(&mut self, view: &View, all: &[isize]) -> usize {
        let place = self.place(view, all);
        // A state that is read lies where its next value is written.
        let source = (
            view.buffer().unwrap_or(usize::MAX),
            place.offset,
            place.step,
            all.to_vec(),
        );
        if let Some(index) = self.loads.iter().position(|it| it.1 == source) {
            return index;
        }
        self.loads.push((
            Load {
                place,
                register: None,
            },
            source,
        ));
        self.loads.len() - 1
    }
}

/// Gives out registers: each holds a value from where it is made to where it is read last.
fn allocated(
    mut group: Group,
    code: &[(Function, Vec<Known>)],
    stores: Vec<(usize, Store)>,
) -> Group {
    let mut last: Vec<usize> = (0..code.len()).collect();
    for (index, (_, operands)) in code.iter().enumerate() {
        for operand in operands {
            if let Known::Value(value) = operand {
                last[*value] = index;
            }
        }
    }
    for (value, _) in &stores {
        last[*value] = code.len();
    }
    let mut free: [Vec<usize>; 2] = Default::default();
    let mut counts = [0_usize; 2];
    let side = |lane: Lane| match lane {
        Lane::Float => 0,
        Lane::Int => 1,
    };
    // What is gathered is there from the start.
    for load in &mut group.loads {
        if !matches!(load.place.block[..], [(_, 1)]) {
            let side = side(load.place.lane);
            load.register = Some(counts[side]);
            counts[side] += 1;
        }
    }
    let mut registers: Vec<usize> = vec![];
    for (index, (function, operands)) in code.iter().enumerate() {
        let side_to = side(function.lanes().1);
        let to = free[side_to].pop().unwrap_or_else(|| {
            counts[side_to] += 1;
            counts[side_to] - 1
        });
        registers.push(to);
        let operand = |operand: &Known| match *operand {
            Known::Value(value) => Operand::Register(registers[value]),
            Known::Load(load) => match group.loads[load].register {
                Some(register) => Operand::Register(register),
                None => Operand::Direct(load),
            },
        };
        let mut all = operands.iter().map(operand);
        let first = all.next().unwrap_or(Operand::Register(to));
        let second = all.next().unwrap_or(first);
        let third = all.next().unwrap_or(first);
        group.code.push(Instruction {
            function: *function,
            operands: [first, second, third],
            to,
        });
        let mut ended: Vec<usize> = operands
            .iter()
            .filter_map(|operand| match operand {
                Known::Value(value) => Some(*value),
                Known::Load(_) => None,
            })
            .chain([index])
            .filter(|&value| last[value] == index)
            .collect();
        ended.sort_unstable();
        ended.dedup();
        for value in ended {
            free[side(code[value].0.lanes().1)].push(registers[value]);
        }
    }
    group.stores = stores
        .into_iter()
        .map(|(value, store)| Store {
            from: Operand::Register(registers[value]),
            ..store
        })
        .collect();
    group
}
