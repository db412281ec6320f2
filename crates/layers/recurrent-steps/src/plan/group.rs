//! Writes the program of functions of elements that run at once.

use std::collections::HashMap;

use super::rows::{self, GroupCode, Spot, ValueRef};
use super::unit::{MemoryOf, Unit, axes};
use super::{Operation, Primitive};
use crate::elements::Lane;
use crate::error::{Error, values};
use crate::function::{Function, Reduction};
use crate::kernels::{
    BLOCK, Group, Instruction, Kernel, Load, MAXIMUM_AXES, Operand, Place, Store,
};
use crate::view::{Axis, View, merged};

/// The axes that all places of a group have, from the outermost.
struct Frame {
    /// The number of steps, if it runs for all at once.
    steps: Option<usize>,
    /// The sizes: axes of the views are merged where each view allows it, and the last of them is that of the view with
    /// this index.
    axes: Vec<usize>,
    last: Vec<usize>,
    /// The first axis of a block, how many of it a block has, and the elements for each of them.
    cut: usize,
    chunk: usize,
    inner: usize,
}

impl Frame {
    fn of(primitives: &[&Primitive], steps: Option<usize>) -> Result<Self, Error> {
        let views = primitives.iter();
        let views = views.flat_map(|it| it.inputs.iter().chain([&it.output]));
        let strides: Vec<Vec<isize>> = views.map(|view| strides(view, steps)).collect();
        let continues = |index: usize, size: usize| {
            let mut all = strides.iter();
            all.all(|strides| strides[index - 1] == strides[index] * size as isize)
        };
        let (mut sizes, mut last) = (vec![], vec![]);
        for (index, axis) in axes(&primitives[0].output, steps).iter().enumerate() {
            match (sizes.last_mut(), last.last_mut()) {
                (Some(size), Some(last)) if continues(index, axis.size) => {
                    *size *= axis.size;
                    *last = index;
                }
                _ => {
                    sizes.push(axis.size);
                    last.push(index);
                }
            }
        }
        if sizes.len() > MAXIMUM_AXES {
            return values(format!("functions of values with {} axes", sizes.len()));
        }
        // A block has as many of the inner axes as fit.
        let (mut cut, mut inner) = (sizes.len().saturating_sub(1), 1);
        while cut > 0 && inner * sizes[cut] <= BLOCK / 2 && sizes[cut] > 0 {
            inner *= sizes[cut];
            cut -= 1;
        }
        let size = sizes.get(cut).copied().unwrap_or(1);
        Ok(Self {
            steps,
            chunk: (BLOCK / inner.max(1)).clamp(1, size.max(1)),
            axes: sizes,
            last,
            cut,
            inner,
        })
    }

    /// The strides of a view along the axes.
    fn strides(&self, view: &View) -> Vec<isize> {
        let all = strides(view, self.steps);
        self.last.iter().map(|&index| all[index]).collect()
    }

    fn block(&self, strides: &[isize]) -> Vec<Axis> {
        let axes = std::iter::zip(&self.axes, strides).skip(self.cut);
        axes.map(|(&size, &stride)| Axis { size, stride }).collect()
    }

    /// Where blocks lie in a view with these strides.
    fn place(&self, view: &View, strides: &[isize], memory: &MemoryOf<'_>) -> Place {
        let (outer, block) = match self.axes.is_empty() {
            true => (vec![0], vec![]),
            false => (strides[..=self.cut].to_vec(), self.block(strides)),
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
        let block = block.into_iter();
        Place {
            buffer: memory.buffer(view),
            lane: memory.lane(view),
            offset: view.offset,
            step: if self.steps.is_some() { 0 } else { view.step },
            outer,
            block: block.map(|axis| (axis.size, axis.stride)).collect(),
            unit,
        }
    }
}

/// Strides along the axes of a group, before they are merged.
fn strides(view: &View, steps: Option<usize>) -> Vec<isize> {
    axes(view, steps).iter().map(|axis| axis.stride).collect()
}

/// Where a group reads or writes: as blocks, and as rows.
struct Access {
    place: Place,
    spot: Spot,
}

/// What tells loads apart. A state that is read lies where its next value is written.
type Location = (usize, isize, isize, Vec<isize>);

/// A group that is written.
struct Writer<'a> {
    primitives: &'a [Primitive],
    unit: &'a Unit,
    memory: &'a MemoryOf<'a>,
    frame: Frame,
    loads: Vec<Access>,
    locations: Vec<Location>,
    code: Vec<(Function, Vec<ValueRef>)>,
    /// Values of the group, by the buffer that they are of.
    made: HashMap<usize, usize>,
    stores: Vec<(usize, Access, Option<Reduction>)>,
}

/// Writes the program of a group.
pub(super) fn group(
    primitives: &[Primitive],
    unit: &Unit,
    memory: &MemoryOf<'_>,
) -> Result<Kernel, Error> {
    let own: Vec<&Primitive> = unit.primitives.iter().map(|&it| &primitives[it]).collect();
    let mut writer = Writer {
        primitives,
        unit,
        memory,
        frame: Frame::of(&own, unit.steps)?,
        loads: vec![],
        locations: vec![],
        code: vec![],
        made: HashMap::new(),
        stores: vec![],
    };
    for primitive in own {
        writer.add(primitive);
    }
    let as_rows = rows::of(&GroupCode {
        axes: &writer.frame.axes,
        loads: writer.loads.iter().map(|it| &it.spot).collect(),
        code: &writer.code,
        stores: writer
            .stores
            .iter()
            .map(|it| (it.0, &it.1.spot, it.2))
            .collect(),
    });
    Ok(match as_rows {
        Some(rows) => Kernel::Rows(rows),
        None => Kernel::Group(writer.blocks()),
    })
}

impl Writer<'_> {
    /// Adds what a primitive computes.
    fn add(&mut self, primitive: &Primitive) {
        let inputs = primitive.inputs.iter();
        let operands: Vec<ValueRef> = inputs.map(|view| self.operand(view)).collect();
        match (&primitive.operation, operands[0]) {
            (Operation::Map(Function::Move(_)), ValueRef::Value(value)) => {
                self.map(primitive, value)
            }
            (Operation::Map(function), _) => {
                let value = self.computed(*function, operands);
                self.map(primitive, value);
            }
            (Operation::Reduce(reduction), ValueRef::Value(value)) => {
                self.store(value, primitive, Some(*reduction));
            }
            (Operation::Reduce(reduction), ValueRef::Load(_)) => {
                let moved = Function::Move(self.memory.lane(&primitive.output));
                self.code.push((moved, operands));
                self.store(self.code.len() - 1, primitive, Some(*reduction));
            }
            // No other primitive is grouped.
            _ => {}
        }
    }

    /// A value that a primitive reads: one of the group, or a load.
    fn operand(&mut self, view: &View) -> ValueRef {
        let buffer = view.buffer().unwrap_or(usize::MAX);
        if let Some(&value) = self.made.get(&buffer) {
            return ValueRef::Value(value);
        }
        let access = self.access(view);
        let spot = &access.spot;
        let location = (buffer, spot.offset, spot.step, spot.strides.clone());
        ValueRef::Load(match self.locations.iter().position(|it| *it == location) {
            Some(index) => index,
            None => {
                self.loads.push(access);
                self.locations.push(location);
                self.loads.len() - 1
            }
        })
    }

    /// The value of a function of operands, which is computed once.
    fn computed(&mut self, function: Function, operands: Vec<ValueRef>) -> usize {
        let instruction = (function, operands);
        let same = self.code.iter().position(|it| *it == instruction);
        same.unwrap_or_else(|| {
            self.code.push(instruction);
            self.code.len() - 1
        })
    }

    /// Makes a value that of a primitive's output, and stores it if others read that.
    fn map(&mut self, primitive: &Primitive, value: usize) {
        let buffer = primitive.writes();
        let all = || self.primitives.iter().enumerate();
        let is_outside = |index: &usize| !self.unit.primitives.contains(index);
        let is_read =
            all().any(|(index, it)| it.reads().any(|it| it == buffer) && is_outside(&index));
        let writers = all().filter(|(_, it)| it.writes() == buffer).count();
        if is_read || writers > 1 || self.memory.outside.contains(&buffer) {
            self.store(value, primitive, None);
        }
        // Who reads it in this group reads these elements, also if others wrote the buffer before.
        self.made.insert(buffer, value);
    }

    fn store(&mut self, value: usize, primitive: &Primitive, reduction: Option<Reduction>) {
        let to = self.access(&primitive.output);
        self.stores.push((value, to, reduction));
    }

    fn access(&self, view: &View) -> Access {
        let strides = self.frame.strides(view);
        let place = self.frame.place(view, &strides, self.memory);
        Access {
            spot: Spot {
                buffer: place.buffer,
                lane: place.lane,
                offset: place.offset,
                step: place.step,
                strides,
            },
            place,
        }
    }

    /// The program of blocks.
    fn blocks(self) -> Group {
        let frame = &self.frame;
        let size = frame.axes.get(frame.cut).copied().unwrap_or(1);
        let loads = self.loads.into_iter().map(|it| Load {
            place: it.place,
            register: None,
        });
        let stores = self.stores.into_iter().map(|(value, to, reduction)| {
            let store = Store {
                from: Operand::Register(0),
                place: to.place,
                reduction,
            };
            (value, store)
        });
        let group = Group {
            outer: frame.axes.get(..frame.cut).unwrap_or_default().to_vec(),
            cut: (size, frame.chunk),
            inner: frame.inner,
            loads: loads.collect(),
            code: vec![],
            stores: vec![],
        };
        allocated(group, &self.code, stores.collect())
    }
}

/// The registers of each lane: those that are free, and how many there are.
#[derive(Default)]
struct Registers([(Vec<usize>, usize); 2]);

impl Registers {
    fn take(&mut self, lane: Lane) -> usize {
        let (free, count) = &mut self.0[lane as usize];
        free.pop().unwrap_or_else(|| {
            *count += 1;
            *count - 1
        })
    }

    fn give_back(&mut self, lane: Lane, register: usize) {
        self.0[lane as usize].0.push(register);
    }
}

/// Gives out registers: each holds a value from where it is made to where it is read last.
fn allocated(
    mut group: Group,
    code: &[(Function, Vec<ValueRef>)],
    stores: Vec<(usize, Store)>,
) -> Group {
    let values = |operands: &[ValueRef]| -> Vec<usize> {
        let values = operands.iter().filter_map(|operand| match operand {
            ValueRef::Value(value) => Some(*value),
            ValueRef::Load(_) => None,
        });
        values.collect()
    };
    let mut last: Vec<usize> = (0..code.len()).collect();
    for (index, (_, operands)) in code.iter().enumerate() {
        for value in values(operands) {
            last[value] = index;
        }
    }
    for (value, _) in &stores {
        last[*value] = code.len();
    }
    let mut registers = Registers::default();
    // What is gathered is there from the start.
    for load in &mut group.loads {
        if !matches!(load.place.block[..], [(_, 1)]) {
            load.register = Some(registers.take(load.place.lane));
        }
    }
    let mut made: Vec<usize> = vec![];
    for (index, (function, operands)) in code.iter().enumerate() {
        let to = registers.take(function.lanes().1);
        made.push(to);
        let mut all = operands.iter().map(|operand| match *operand {
            ValueRef::Value(value) => Operand::Register(made[value]),
            ValueRef::Load(load) => match group.loads[load].register {
                Some(register) => Operand::Register(register),
                None => Operand::Direct(load),
            },
        });
        let first = all.next().unwrap_or(Operand::Register(to));
        let second = all.next().unwrap_or(first);
        let third = all.next().unwrap_or(first);
        group.code.push(Instruction {
            function: *function,
            operands: [first, second, third],
            to,
        });
        let mut ended = values(operands);
        ended.push(index);
        ended.retain(|&value| last[value] == index);
        ended.sort_unstable();
        ended.dedup();
        for value in ended {
            registers.give_back(code[value].0.lanes().1, made[value]);
        }
    }
    let stores = stores.into_iter().map(|(value, store)| Store {
        from: Operand::Register(made[value]),
        ..store
    });
    group.stores = stores.collect();
    group
}
