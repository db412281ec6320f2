//! Joins primitives to units that run at once, and writes their kernels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::group::group;
use super::unit::{MemoryOf, Unit, axes, place};
use super::{Inner, Operation, Plan, Primitive, Scheduled, Work};
use crate::error::{Error, values};
use crate::kernels::{Best, Count, Kernel, Multiply, Other, Pick, Product, Scatter};
use crate::view::{Axis, merged, offsets};

/// Joins primitives, in an order in which each comes behind what it reads. `steps_of` returns the number of
/// steps that a primitive runs for at once.
pub(super) fn join(
    primitives: &[Primitive],
    open: Vec<usize>,
    steps_of: impl Fn(&Primitive) -> Option<usize>,
) -> Vec<Unit> {
    let mut writers: HashMap<usize, Vec<usize>> = HashMap::new();
    for &index in &open {
        writers
            .entry(primitives[index].writes())
            .or_default()
            .push(index);
    }
    let sizes = |primitive: &Primitive| {
        let axes = axes(&primitive.output, steps_of(primitive));
        axes.into_iter().map(|axis| axis.size).collect()
    };
    let sizes = open.iter().map(|&it| (it, sizes(&primitives[it])));
    let sizes = sizes.collect();
    let mut joining = Joining {
        primitives,
        steps_of,
        sizes,
        writers,
        open,
    };
    let mut units = vec![];
    // Something is always ready: primitives stand behind what they read.
    while let Some(unit) = joining.next() {
        units.push(unit);
    }
    units
}

/// Primitives that are joined to units.
struct Joining<'a, F> {
    primitives: &'a [Primitive],
    steps_of: F,
    /// The sizes of what each primitive writes.
    sizes: HashMap<usize, Vec<usize>>,
    /// The primitives that are in no unit yet, in order, and those that write each buffer.
    open: Vec<usize>,
    writers: HashMap<usize, Vec<usize>>,
}

impl<F: Fn(&Primitive) -> Option<usize>> Joining<'_, F> {
    /// Takes out the next unit.
    fn next(&mut self) -> Option<Unit> {
        let nothing = HashMap::new();
        let ready = self.open.iter().copied();
        let ready: Vec<usize> = ready.filter(|&it| !self.waits(it, &nothing)).collect();
        let mut singles = ready
            .iter()
            .filter(|&&it| !self.primitives[it].is_grouped());
        let primitives = match singles.next() {
            Some(&single) => vec![single],
            None => self.largest_group(&ready),
        };
        let steps = (self.steps_of)(&self.primitives[*primitives.first()?]);
        for &index in &primitives {
            if let Some(writers) = self.writers.get_mut(&self.primitives[index].writes()) {
                writers.retain(|&it| it != index);
            }
        }
        self.open.retain(|it| !primitives.contains(it));
        Some(Unit { steps, primitives })
    }

    /// Whether a primitive reads or writes what an earlier one has yet to write, but for what its own unit makes
    /// of the same place. The unit has these primitives, by the buffers that they write.
    fn waits(&self, index: usize, unit: &HashMap<usize, usize>) -> bool {
        let primitive = &self.primitives[index];
        let mut views = primitive.inputs.iter().chain([&primitive.output]);
        views.any(|view| {
            let Some(buffer) = view.buffer() else {
                return false;
            };
            let writers = self.writers.get(&buffer).map_or(&[][..], |all| all);
            let mut earlier = writers.iter().filter(|&&writer| writer < index);
            earlier.any(|writer| {
                let made = &self.primitives[*writer];
                let steps = (self.steps_of)(made);
                let is_made_here = unit.get(&buffer) == Some(writer)
                    && matches!(made.operation, Operation::Map(_))
                    && writers.len() == 1
                    && place(view, steps) == place(&made.output, steps);
                !is_made_here
            })
        })
    }

    /// The largest of the groups that begin with one of these primitives.
    fn largest_group(&self, ready: &[usize]) -> Vec<usize> {
        let mut largest: Vec<usize> = vec![];
        let mut tried: HashSet<&[usize]> = HashSet::new();
        for &first in ready {
            if tried.insert(&self.sizes[&first]) {
                let group = self.group(first);
                if group.len() > largest.len() {
                    largest = group;
                }
            }
        }
        largest
    }

    /// The primitives that can run with this one. A repetition stays with those that read it, unless the group
    /// has nothing else.
    fn group(&self, first: usize) -> Vec<usize> {
        let primitive = |index: usize| &self.primitives[index];
        let steps = (self.steps_of)(primitive(first));
        let mut writes = HashMap::new();
        let mut group = vec![];
        for &index in &self.open {
            if primitive(index).is_grouped()
                && self.sizes[&index] == self.sizes[&first]
                && (self.steps_of)(primitive(index)) == steps
                && !self.waits(index, &writes)
            {
                writes.insert(primitive(index).writes(), index);
                group.push(index);
            }
        }
        let is_read = |buffer: usize| {
            let mut readers = group.iter();
            readers.any(|&it| primitive(it).reads().any(|it| it == buffer))
        };
        let kept = group.iter().copied();
        let kept = kept.filter(|&it| !primitive(it).is_copy || is_read(primitive(it).writes()));
        let kept: Vec<usize> = kept.collect();
        if kept.is_empty() { group } else { kept }
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

/// Where the second matrix of a product lies that has these axes of terms and columns.
fn columns_of(terms: &[Axis], columns: &[Axis]) -> Other {
    if let ([term], [column]) = (terms, columns) {
        return Other::Matrix([term.stride, column.stride]);
    }
    let (row, outer) = match merged(columns).split_last() {
        Some((row, outer)) => (*row, outer.to_vec()),
        None => (Axis { size: 1, stride: 0 }, vec![]),
    };
    Other::Rows {
        terms: offsets(terms).collect(),
        rows: offsets(&outer).collect(),
        len: row.size,
        stride: row.stride,
    }
}

/// Writes the kernel of a unit; `None` for what another one writes.
pub(super) fn kernel(
    primitives: &[Primitive],
    unit: &Unit,
    memory: &MemoryOf<'_>,
) -> Result<Option<Scheduled>, Error> {
    let [index, ..] = *unit.primitives else {
        return values("a unit of nothing");
    };
    let primitive = &primitives[index];
    let Primitive {
        operation,
        inputs,
        output,
        ..
    } = primitive;
    let to = memory.at(output);
    let mut is_each = unit.steps.is_some();
    let kernel = match operation {
        Operation::OfInner(_) => return Ok(None),
        Operation::Inner(plans) => {
            let work = programs(plans, primitive, primitives, memory);
            return Ok(Some(Scheduled { work, is_each }));
        }
        Operation::Map(_) | Operation::Reduce(_) => {
            is_each = false;
            group(primitives, unit, memory)?
        }
        Operation::Product { matrices, lens } => {
            let (from, mut lens) = (memory.at(&inputs[0]), *lens);
            let follows = [from.step, to.step] == lens.map(|len| len as isize);
            if let (Some(steps), [_], true) = (unit.steps, &**matrices, follows) {
                // The rows of all steps at once.
                lens = lens.map(|len| len * steps);
                is_each = false;
            }
            Kernel::Product(Product {
                matrices: matrices.clone(),
                lens,
                from,
                to,
            })
        }
        Operation::Multiply { terms } => Kernel::Multiply(multiply(*terms, primitive, memory)?),
        Operation::Pick { axis } => Kernel::Pick(Pick {
            axes: together([&inputs[1].axes, &inputs[0].axes]),
            indices: memory.at(&inputs[1]),
            from: memory.at(&inputs[0]),
            to,
            lane: memory.lane(&inputs[0]),
            axis: *axis,
        }),
        Operation::Scatter {
            targets,
            apart,
            reduction,
        } => Kernel::Scatter(Scatter {
            axes: together([&inputs[0].axes, &inputs[1].axes, &output.axes]),
            indices: memory.at(&inputs[0]),
            updates: memory.at(&inputs[1]),
            to,
            lane: memory.lane(output),
            targets: targets.clone(),
            apart: *apart,
            reduction: *reduction,
        }),
        Operation::Best {
            axis,
            is_least,
            takes_last,
            count,
        } => {
            let axes = together([&inputs[0].axes]).into_iter();
            Kernel::Best(Best {
                axes: axes.map(|(size, [stride])| (size, stride)).collect(),
                from: memory.at(&inputs[0]),
                to,
                lane: memory.lane(&inputs[0]),
                axis: *axis,
                is_least: *is_least,
                takes_last: *takes_last,
                count: *count,
            })
        }
        Operation::Count(lines) => Kernel::Count(Count {
            lines: lines.clone(),
            to,
        }),
    };
    Ok(Some(Scheduled {
        work: Work::Kernel(Box::new(kernel)),
        is_each,
    }))
}

/// The product of a primitive's matrices, the second of which has so many axes of terms.
fn multiply(terms: usize, primitive: &Primitive, memory: &MemoryOf<'_>) -> Result<Multiply, Error> {
    let [one, other] = &*primitive.inputs else {
        return values("a product of other than two");
    };
    let batch = one.rank() - 2;
    let (lead, [row, term]) = (&one.axes[..batch], [one.axes[batch], one.axes[batch + 1]]);
    let (beside, rest) = other.axes.split_at(batch);
    let (terms, columns) = rest.split_at(terms);
    let width = columns.iter().map(|it| it.size).product();
    Ok(Multiply {
        batch: together([lead, beside]),
        sizes: [row.size, term.size, width],
        one: (memory.at(one), [row.stride, term.stride]),
        other: (memory.at(other), columns_of(terms, columns)),
        to: memory.at(&primitive.output),
    })
}

/// The programs of a primitive, and what is read of theirs.
fn programs(
    plans: &[(Arc<Plan>, usize)],
    primitive: &Primitive,
    primitives: &[Primitive],
    memory: &MemoryOf<'_>,
) -> Work {
    let is_choice = plans.len() > 1;
    let (condition, rest) = primitive.inputs.split_at(usize::from(is_choice));
    let mut inputs = rest.iter().map(|it| (memory.at(it), it.len()));
    let programs = plans.iter().map(|(plan, count)| Inner {
        plan: Arc::clone(plan),
        inputs: inputs.by_ref().take(*count).collect(),
    });
    let readers = primitives.iter();
    let outputs = readers.filter_map(|reader| match reader.operation {
        Operation::OfInner(index) if reader.inputs[0].base == primitive.output.base => {
            Some((index, memory.at(&reader.output)))
        }
        _ => None,
    });
    Work::Inner {
        programs: programs.collect(),
        condition: condition.first().map(|it| memory.at(it)),
        outputs: outputs.collect(),
    }
}
