//! Writes the program of functions of elements that run at once.

use std::collections::{HashMap, HashSet};

use super::rows::{self, Known, Parts, Spot};
use super::unit::{MemoryOf, Unit, axes};
use super::{Operation, Primitive};
use crate::elements::Lane;
use crate::error::{Error, values};
use crate::function::{Function, Reduction};
use crate::kernels::{
    BLOCK, Group, Instruction, Kernel, Load, MAXIMUM_AXES, Operand, Place, Store,
};
use crate::view::{Axis, View, merged};

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
pub(super) fn group(
    primitives: &[Primitive],
    unit: &Unit,
    memory: &MemoryOf<'_>,
) -> Result<Kernel, Error> {
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
