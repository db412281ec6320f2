//! Elements at indices.

use revseq_onnx::model::NodeProto;

use super::{Call, axis};
use crate::elements::{Kind, Lane};
use crate::error::{Error, values};
use crate::function::{Float2, Function, Int1, Reduction};
use crate::known::{Comparison, MOST_KNOWN, Scalar};
use crate::plan::{Operation, Planner, Value};
use crate::view::{Axis, Base, View};

/// The index of a step, if it is inside an axis in all steps and counted from one end.
fn inside(scalar: Scalar, size: usize, steps: Option<usize>) -> Option<(i64, i64)> {
    let line = scalar.line()?;
    let size = size as i64;
    // No step reads what is there, but the place has to be one.
    if steps == Some(0) {
        let from_end = if line.base < 0 { size } else { 0 };
        let base = line.base + from_end;
        return (0..size).contains(&base).then_some((base, line.slope));
    }
    let last = match (line.slope, steps) {
        (0, _) => line.base,
        (_, Some(steps)) => line.at(steps.saturating_sub(1) as i64),
        (_, None) => return None,
    };
    let is_within =
        |range: std::ops::Range<i64>| range.contains(&line.base) && range.contains(&last);
    if is_within(0..size) {
        Some((line.base, line.slope))
    } else if is_within(-size..0) {
        Some((line.base + size, line.slope))
    } else {
        None
    }
}

/// Indices as memory.
fn in_memory(planner: &mut Planner<'_>, indices: &Value) -> Result<View, Error> {
    if !indices.kind.is_int() {
        return values("its indices are no integers");
    }
    planner.materialised(indices)
}

pub(super) fn gather(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let (value, indices) = (call.input(0)?, call.input(1)?);
    let along = axis(call.int("axis", 0), value.rank())?;
    let size = value.view.axes[along].size;
    let known = match indices.scalars() {
        Some(scalars) => Some(scalars),
        None if indices.view.len() <= 64 => {
            let known = planner.known_integers(indices);
            known.map(|all| all.into_iter().map(Scalar::from).collect())
        }
        None => None,
    };
    let steps = planner.steps();
    if let Some(scalars) = &known
        && let [scalar] = **scalars
        && let Some((index, slope)) = inside(scalar, size, steps)
    {
        let is_known = matches!(value.view.base, Base::Known(_));
        if slope == 0 || !is_known {
            let index = if size == 0 { 0 } else { index };
            let mut view = value.view.at(along, index, slope);
            for _ in 0..indices.rank() {
                view = view.unsqueeze(along);
            }
            return Ok(vec![value.with(view)]);
        }
    }
    // Known numbers at known indices.
    if let (Some(own), Some(scalars)) = (value.scalars(), &known)
        && value.rank() == 1
    {
        let of = |scalar: &Scalar| inside(*scalar, size, steps).filter(|it| it.1 == 0);
        let places: Option<Vec<(i64, i64)>> = scalars.iter().map(of).collect();
        if let Some(places) = places {
            let scalars = places.iter().map(|place| own[place.0 as usize]).collect();
            return Ok(vec![Value::known(value.kind, &indices.sizes(), scalars)]);
        }
    }
    // Sizes: those before the axis, those of the indices, those behind it.
    let from = planner.materialised(value)?;
    let picked = in_memory(planner, indices)?;
    let still = |axis: &Axis| Axis { stride: 0, ..*axis };
    let (before, behind) = (&from.axes[..along], &from.axes[along + 1..]);
    let middle = &picked.axes;
    let data: Vec<Axis> = before
        .iter()
        .copied()
        .chain(middle.iter().map(still))
        .chain(behind.iter().copied())
        .collect();
    let index: Vec<Axis> = before
        .iter()
        .map(still)
        .chain(middle.iter().copied())
        .chain(behind.iter().map(still))
        .collect();
    let stride = from.axes[along].stride;
    pick(planner, value, from, picked, (data, index), (size, stride))
}

fn pick(
    planner: &mut Planner<'_>,
    value: &Value,
    from: View,
    picked: View,
    (data, index): (Vec<Axis>, Vec<Axis>),
    axis: (usize, isize),
) -> Result<Vec<Value>, Error> {
    let from = View { axes: data, ..from };
    let picked = View {
        axes: index,
        ..picked
    };
    let sizes = from.sizes();
    let lane = value.kind.lane();
    let view = planner.add(Operation::Pick { axis }, lane, vec![from, picked], &sizes)?;
    Ok(vec![value.with(view)])
}

pub(super) fn gather_elements(
    planner: &mut Planner<'_>,
    call: &Call<'_>,
) -> Result<Vec<Value>, Error> {
    let (value, indices) = (call.input(0)?, call.input(1)?);
    let along = axis(call.int("axis", 0), value.rank())?;
    if indices.rank() != value.rank() {
        return values("indices of another rank");
    }
    let from = planner.materialised(value)?;
    let picked = in_memory(planner, indices)?;
    let of = |(place, (own, index)): (usize, (&Axis, &Axis))| {
        if place != along && index.size > own.size {
            return values(format!(
                "{} indices along an axis of {}",
                index.size, own.size
            ));
        }
        Ok(Axis {
            size: index.size,
            stride: if place == along { 0 } else { own.stride },
        })
    };
    let pairs = std::iter::zip(&from.axes, &picked.axes).enumerate();
    let data = pairs.map(of).collect::<Result<Vec<_>, _>>()?;
    let axis = (from.axes[along].size, from.axes[along].stride);
    let index = picked.axes.clone();
    pick(planner, value, from, picked, (data, index), axis)
}

pub(super) fn scatter_elements(
    planner: &mut Planner<'_>,
    call: &Call<'_>,
) -> Result<Vec<Value>, Error> {
    let (value, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let along = axis(call.int("axis", 0), value.rank())?;
    if indices.sizes() != updates.sizes() || indices.rank() != value.rank() {
        return values(format!(
            "indices of {:?} and updates of {:?}",
            indices.sizes(),
            updates.sizes()
        ));
    }
    let whole = planner.own_copy(value)?;
    let of = |(place, (own, index)): (usize, (&Axis, &Axis))| Axis {
        size: index.size,
        stride: if place == along { 0 } else { own.stride },
    };
    let written = in_memory(planner, indices)?;
    let axes: Vec<Axis> = std::iter::zip(&whole.view.axes, &written.axes)
        .enumerate()
        .map(of)
        .collect();
    let fits = std::iter::zip(&axes, &whole.view.axes)
        .enumerate()
        .all(|(place, (own, all))| place == along || own.size <= all.size);
    if !fits {
        return values("updates that are longer than what they change");
    }
    let target = whole.view.axes[along];
    let to = View {
        axes,
        ..whole.view.clone()
    };
    let updates = planner.materialised(updates)?;
    let operation = Operation::Scatter {
        targets: vec![(target.size, target.stride)],
        apart: 0,
        reduction: reduction(call)?,
    };
    planner.add_to(operation, vec![written, updates], to);
    Ok(vec![wrapped(planner, whole)?])
}

/// Says what of a node that writes elements no program has.
pub(super) fn check_scatter(node: &NodeProto) -> Result<(), String> {
    match node.text("reduction").value() {
        None | Some("none" | "add" | "mul" | "max" | "min") => Ok(()),
        Some(reduction) => Err(format!("has the reduction {reduction:?}")),
    }
}

/// What becomes of an element and its update, if not the update.
fn reduction(call: &Call<'_>) -> Result<Option<Reduction>, Error> {
    let made = match call.node.text("reduction").value() {
        Some("add") => Reduction::Sum,
        Some("mul") => Reduction::Product,
        Some("max") => Reduction::Max,
        Some("min") => Reduction::Min,
        _ => return Ok(None),
    };
    match call.input(0)?.kind {
        Kind::Bool => values("a reduction of truth values"),
        _ => Ok(Some(made)),
    }
}

/// The lowest 32 bits of what was reduced, if it is of that type.
fn wrapped(planner: &mut Planner<'_>, made: Value) -> Result<Value, Error> {
    match made.kind {
        Kind::Int32 => planner.map(Function::Int1(Int1::Wrap), Kind::Int32, &[&made]),
        _ => Ok(made),
    }
}

pub(super) fn scatter_nd(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let (value, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let Some(tuple) = indices.view.axes.last().copied() else {
        return values("indices without an axis");
    };
    if tuple.size > value.rank() {
        return values(format!(
            "indices of {} axes of {}",
            tuple.size,
            value.rank()
        ));
    }
    let lead = indices.sizes();
    let lead = &lead[..lead.len() - 1];
    let rest = value.sizes()[tuple.size..].to_vec();
    let expected = [lead, &rest].concat();
    if updates.sizes() != expected {
        return values(format!(
            "updates of {:?}, expected {expected:?}",
            updates.sizes()
        ));
    }
    let whole = planner.own_copy(value)?;
    let all = &whole.view.axes;
    let reduction = reduction(call)?;
    // An element of known indices is a part of the output that moves with the step.
    if let Some(scalars) = indices.scalars()
        && lead.iter().product::<usize>() == 1
        && reduction.is_none()
    {
        let steps = planner.steps();
        let places = std::iter::zip(&scalars, all);
        let places = places.map(|(scalar, axis)| inside(*scalar, axis.size, steps));
        if let Some(places) = places.collect::<Option<Vec<_>>>() {
            let mut to = whole.view.clone();
            for (index, slope) in places {
                to = to.at(0, index, slope);
            }
            let from = planner.materialised(updates)?;
            let from = View {
                axes: from.axes[lead.len()..].to_vec(),
                ..from
            };
            let moved = Function::Move(value.kind.lane());
            planner.add_to(Operation::Map(moved), vec![from], to);
            return Ok(vec![whole]);
        }
    }
    let targets = all[..tuple.size]
        .iter()
        .map(|it| (it.size, it.stride))
        .collect();
    let still = lead.iter().map(|&size| Axis { size, stride: 0 });
    let to = View {
        axes: still.chain(all[tuple.size..].iter().copied()).collect(),
        ..whole.view.clone()
    };
    let written = in_memory(planner, indices)?;
    let apart = written.axes.last().map_or(0, |axis| axis.stride);
    let still = rest.iter().map(|&size| Axis { size, stride: 0 });
    let written = View {
        axes: written.axes[..lead.len()]
            .iter()
            .copied()
            .chain(still)
            .collect(),
        ..written
    };
    let updates = planner.materialised(updates)?;
    let operation = Operation::Scatter {
        targets,
        apart,
        reduction,
    };
    planner.add_to(operation, vec![written, updates], to);
    Ok(vec![wrapped(planner, whole)?])
}

pub(super) fn best(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let along = axis(call.int("axis", 0), value.rank())?;
    let from = planner.materialised(value)?;
    let of = from.axes[along];
    if of.size == 0 {
        return values("the best of no elements");
    }
    let mut input = from.clone();
    input.axes.remove(along);
    let sizes = input.sizes();
    let operation = Operation::Best {
        axis: (of.size, of.stride),
        is_least: call.node.is("ArgMin"),
        takes_last: call.int("select_last_index", 0) != 0,
        count: 1,
    };
    let view = planner.add(operation, Lane::Int, vec![input], &sizes)?;
    let view = match call.int("keepdims", 1) {
        0 => view,
        _ => view.unsqueeze(along),
    };
    Ok(vec![Value::new(Kind::Int64, view)])
}

pub(super) fn top(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let along = axis(call.int("axis", -1), value.rank())?;
    let from = planner.materialised(value)?;
    let of = from.axes[along];
    let count = call.parameter(planner, 1, "k")?.unwrap_or_default();
    let count = match *count {
        [count] => usize::try_from(count)
            .ok()
            .filter(|&count| count <= of.size),
        _ => None,
    };
    let Some(count) = count else {
        return values(format!("more than the {} elements of an axis", of.size));
    };
    let mut input = from.clone();
    input.axes.remove(along);
    let sizes = [input.sizes(), vec![count]].concat();
    let operation = Operation::Best {
        axis: (of.size, of.stride),
        is_least: call.int("largest", 1) == 0,
        takes_last: false,
        count,
    };
    let mut indices = planner.add(operation, Lane::Int, vec![input], &sizes)?;
    let picked = indices.axes.remove(sizes.len() - 1);
    indices.axes.insert(along, picked);
    let still = |(place, own): (usize, &Axis)| match place == along {
        true => Axis {
            stride: 0,
            size: count,
        },
        false => *own,
    };
    let data = from.axes.iter().enumerate().map(still).collect();
    let axes = (data, indices.axes.clone());
    let picked = indices.clone();
    let mut made = pick(planner, value, from, picked, axes, (of.size, of.stride))?;
    made.push(Value::new(Kind::Int64, indices));
    Ok(made)
}

pub(super) fn one_hot(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let (indices, both) = (call.input(0)?, call.input(2)?);
    let depth = call.parameter(planner, 1, "depth")?.unwrap_or_default();
    let Some(depth) = depth.first().and_then(|&it| usize::try_from(it).ok()) else {
        return values(format!("a depth of {depth:?}"));
    };
    if !indices.kind.is_int() || both.sizes() != [2] || depth > MOST_KNOWN {
        return values(format!("{:?} for a depth of {depth}", both.sizes()));
    }
    let along = axis(call.int("axis", -1), indices.rank() + 1)?;
    let indices = indices.with(planner.materialised(indices)?.unsqueeze(along));
    let whole = |planner: &mut Planner<'_>, numbers: std::ops::Range<i64>| {
        let scalars: Vec<Scalar> = numbers.map(Scalar::from).collect();
        let made = Value::known(indices.kind, &[scalars.len()], scalars);
        let mut view = planner.materialised(&made)?;
        for _ in along + 1..indices.rank() {
            view = view.unsqueeze(view.rank());
        }
        Ok::<_, Error>(made.with(view))
    };
    // An index from the end is as far from the beginning.
    let places = whole(planner, 0..depth as i64)?;
    let from_end = whole(planner, -(depth as i64)..0)?;
    let equal = Function::CompareInts(Comparison::Equal);
    let one = planner.map(equal, Kind::Bool, &[&indices, &places])?;
    let other = planner.map(equal, Kind::Bool, &[&indices, &from_end])?;
    let is_on = planner.map(Function::Float2(Float2::Max), Kind::Bool, &[&one, &other])?;
    let both = both.with(planner.materialised(both)?);
    let [off, on] = [0, 1].map(|index| both.with(both.view.at(0, index, 0)));
    let select = Function::Select(both.kind.lane());
    Ok(vec![planner.map(
        select,
        both.kind,
        &[&is_on, &on, &off],
    )?])
}
