//! Joins primitives to units that run at once, and writes their kernels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::group::group;
use super::unit::{MemoryOf, Unit, axes, place};
use super::{Inner, Operation, Primitive, Scheduled, Work};
use crate::error::{Error, values};
use crate::kernels::{Best, Count, Kernel, Multiply, Other, Pick, Product, Scatter};
use crate::view::{Axis, View, merged, offsets};

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
    let scheduled = |kernel, is_each| Scheduled {
        work: Work::Kernel(Box::new(kernel)),
        is_each,
    };
    let single = |kernel| scheduled(kernel, unit.steps.is_some());
    Ok(Some(match operation {
        Operation::Map(_) | Operation::Reduce(_) => {
            scheduled(group(primitives, unit, memory)?, false)
        }
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
                    scheduled(Kernel::Product(product), false)
                }
                _ => single(Kernel::Product(product)),
            }
        }
        Operation::Multiply { terms } => {
            let [one, other] = &**inputs else {
                return values("a product of other than two");
            };
            let batch = one.rank() - 2;
            let (lead, [row, term]) = (&one.axes[..batch], [one.axes[batch], one.axes[batch + 1]]);
            let (beside, rest) = other.axes.split_at(batch);
            let (terms, columns) = rest.split_at(*terms);
            single(Kernel::Multiply(Multiply {
                batch: together([lead, beside]),
                sizes: [
                    row.size,
                    term.size,
                    columns.iter().map(|it| it.size).product(),
                ],
                one: (at(one), [row.stride, term.stride]),
                other: (at(other), columns_of(terms, columns)),
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
        Operation::Scatter {
            targets,
            apart,
            reduction,
        } => single(Kernel::Scatter(Scatter {
            axes: together([&inputs[0].axes, &inputs[1].axes, &output.axes]),
            indices: at(&inputs[0]),
            updates: at(&inputs[1]),
            to,
            lane: lane_of(output),
            targets: targets.clone(),
            apart: *apart,
            reduction: *reduction,
        })),
        Operation::Best {
            axis,
            is_least,
            takes_last,
            count,
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
            count: *count,
        })),
        Operation::Count(lines) => single(Kernel::Count(Count {
            lines: lines.clone(),
            to,
        })),
        Operation::Inner(plans) => {
            let is_choice = plans.len() > 1;
            let condition = is_choice.then(|| at(&inputs[0]));
            let mut rest = inputs[usize::from(is_choice)..].iter();
            let programs = plans.iter().map(|(plan, count)| Inner {
                plan: Arc::clone(plan),
                inputs: rest
                    .by_ref()
                    .take(*count)
                    .map(|it| (at(it), it.len()))
                    .collect(),
            });
            let programs = programs.collect();
            let outputs = primitives
                .iter()
                .filter_map(|reader| match reader.operation {
                    Operation::OfInner(index) if reader.inputs[0].base == output.base => {
                        Some((index, at(&reader.output)))
                    }
                    _ => None,
                });
            Scheduled {
                work: Work::Inner {
                    programs,
                    condition,
                    outputs: outputs.collect(),
                },
                is_each: unit.steps.is_some(),
            }
        }
        Operation::OfInner(_) => return Ok(None),
    }))
}
