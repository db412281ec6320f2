//! Operators that look at elements otherwise.

use super::{Call, axes, axis};
use crate::elements::Kind;
use crate::error::{Error, values};
use crate::known::Scalar;
use crate::plan::{Operation, Planner, Value, broadcast, count};
use crate::view::{Axis, Base, View};

pub(super) fn identity(_: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    Ok(vec![call.input(0)?.clone()])
}

pub(super) fn shape(_: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let sizes = call.input(0)?.sizes();
    let rank = sizes.len() as i64;
    let place = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
    let (start, end) = (place(call.int("start", 0)), place(call.int("end", rank)));
    let part = sizes.get(start..end).unwrap_or_default();
    let scalars: Vec<Scalar> = part.iter().map(|&size| (size as i64).into()).collect();
    Ok(vec![Value::known(Kind::Int64, &[part.len()], scalars)])
}

pub(super) fn size(_: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let len = call.input(0)?.view.len() as i64;
    Ok(vec![Value::known(Kind::Int64, &[], vec![len.into()])])
}

pub(super) fn unsqueeze(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let Some(new) = call.parameter(planner, 1, "axes")? else {
        return values("axes are missing");
    };
    let mut new = axes(&new, value.rank() + new.len())?;
    new.sort_unstable();
    let mut view = value.view.clone();
    for place in new {
        view = view.unsqueeze(place);
    }
    Ok(vec![value.with(view)])
}

pub(super) fn squeeze(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let gone = match call.parameter(planner, 1, "axes")? {
        Some(all) => axes(&all, value.rank())?,
        None => (0..value.rank())
            .filter(|&it| value.view.axes[it].size == 1)
            .collect(),
    };
    let view = &value.view;
    if let Some(place) = gone.iter().find(|&&place| view.axes[place].size != 1) {
        return values(format!(
            "axis {place} has {} elements, not 1",
            view.axes[*place].size
        ));
    }
    Ok(vec![value.with(view.without(&gone))])
}

pub(super) fn flatten(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let sizes = value.sizes();
    let at = call.int("axis", 1);
    let at = if at < 0 { at + sizes.len() as i64 } else { at };
    let at = (at.max(0) as usize).min(sizes.len());
    let sizes = [count(&sizes[..at])?, count(&sizes[at..])?];
    Ok(vec![planner.reshape(value, &sizes)?])
}

pub(super) fn reshape(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let Some(to) = call.parameter(planner, 1, "shape")? else {
        return values("the shape is missing");
    };
    let own = value.sizes();
    let keeps_zero = call.int("allowzero", 0) != 0;
    let mut sizes = vec![];
    let mut open = None;
    for (place, &size) in to.iter().enumerate() {
        sizes.push(match size {
            0 if !keeps_zero => own.get(place).copied().unwrap_or(0),
            -1 => {
                open = Some(place);
                1
            }
            _ => match usize::try_from(size) {
                Ok(size) => size,
                Err(_) => return values(format!("a size of {size}")),
            },
        });
    }
    if let Some(place) = open {
        let others = count(&sizes)?;
        sizes[place] = value.view.len().checked_div(others).unwrap_or(0);
    }
    Ok(vec![planner.reshape(value, &sizes)?])
}

pub(super) fn transpose(_: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let order = match call.ints("perm") {
        Some(all) => axes(&all, value.rank())?,
        None => (0..value.rank()).rev().collect(),
    };
    if order.len() != value.rank() {
        return values(format!(
            "an order of {} axes of {}",
            order.len(),
            value.rank()
        ));
    }
    Ok(vec![value.with(value.view.permute(&order))])
}

pub(super) fn expand(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let to = call.parameter(planner, 1, "shape")?.unwrap_or_default();
    let to: Vec<usize> = to
        .iter()
        .map(|&it| usize::try_from(it).unwrap_or(0))
        .collect();
    let own = value.sizes();
    let sizes = broadcast([&*own, &*to])?;
    Ok(vec![value.with(value.view.broadcast(&sizes))])
}

pub(super) fn tile(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let repeats = call.parameter(planner, 1, "repeats")?.unwrap_or_default();
    // Each axis has one beside it along which nothing moves.
    let mut view = value.view.clone();
    let mut axes = vec![];
    let mut sizes = vec![];
    for (axis, &repeat) in std::iter::zip(&view.axes, &repeats) {
        let size = usize::try_from(repeat).unwrap_or(0);
        axes.push(Axis { size, stride: 0 });
        axes.push(*axis);
        sizes.push(size.saturating_mul(axis.size));
    }
    if axes.len() != 2 * value.rank() {
        return values(format!(
            "{} repeats of {} axes",
            repeats.len(),
            value.rank()
        ));
    }
    view.axes = axes;
    Ok(vec![planner.reshape(&value.with(view), &sizes)?])
}

/// The first of some elements, how many and how far apart, as ONNX counts them.
fn part(start: i64, end: i64, apart: i64, size: usize) -> (isize, usize) {
    let size = size as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    let (start, end) = if apart > 0 {
        (place(start).clamp(0, size), place(end).clamp(0, size))
    } else {
        (
            place(start).clamp(-1, size - 1),
            place(end).clamp(-1, size - 1),
        )
    };
    let distance = i128::from(end) - i128::from(start);
    let apart = i128::from(apart);
    let count = if apart == 0 || distance.signum() != apart.signum() {
        0
    } else {
        (distance.abs() - 1) / apart.abs() + 1
    };
    (start as isize, count as usize)
}

pub(super) fn slice(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let lines = |planner: &mut Planner<'_>,
                 index: usize,
                 name: &str|
     -> Result<Option<Vec<Scalar>>, Error> {
        if let Some(input) = call.optional(index)
            && let Some(scalars) = input.scalars()
        {
            return Ok(Some(scalars));
        }
        let all = call.parameter(planner, index, name)?;
        Ok(all.map(|all| all.into_iter().map(Into::into).collect()))
    };
    let Some(starts) = lines(planner, 1, "starts")? else {
        return values("starts are missing");
    };
    let Some(ends) = lines(planner, 2, "ends")? else {
        return values("ends are missing");
    };
    let along = match call.parameter(planner, 3, "axes")? {
        Some(all) => axes(&all, value.rank())?,
        None => (0..starts.len()).collect(),
    };
    let apart = call.parameter(planner, 4, "steps")?;
    let apart = apart.unwrap_or_else(|| vec![1; starts.len()]);
    let mut view = value.view.clone();
    for (index, &place) in along.iter().enumerate() {
        let (Some(start), Some(end), Some(&apart)) =
            (starts.get(index), ends.get(index), apart.get(index))
        else {
            return values("too few starts, ends or steps");
        };
        let Some(axis) = view.axes.get(place).copied() else {
            return values(format!("axis {place} of a value with {}", view.rank()));
        };
        if let (Some(start), Some(end)) = (start.constant(), end.constant()) {
            let (start, count) = part(start, end, apart, axis.size);
            view = view.slice(place, start, count, apart as isize);
            continue;
        }
        // Both follow the step's number: a window that moves.
        let (start, end) = match (start.line(), end.line()) {
            (Some(start), Some(end)) if apart == 1 && start.slope == end.slope => (start, end),
            _ => return values("its part has another size in each step"),
        };
        let Some(count) = usize::try_from(end.base.saturating_sub(start.base)).ok() else {
            return values("a part that ends before it starts");
        };
        let inside = planner.steps().is_some_and(|steps| {
            let last = start.at(steps.saturating_sub(1) as i64);
            let most = axis.size as i64 - count as i64;
            steps == 0 || (0..=most).contains(&start.base) && (0..=most).contains(&last)
        });
        if !inside {
            return values("a part that leaves what it is of");
        }
        // Only memory has places that move.
        let stride = match view.base {
            Base::Buffer(_) => axis.stride,
            Base::Known(_) => {
                view = planner.materialised(&value.with(view))?;
                view.axes[place].stride
            }
        };
        view = view.slice(place, start.base as isize, count, 1);
        view.step += start.slope as isize * stride;
    }
    Ok(vec![value.with(view)])
}

pub(super) fn split(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let along = axis(call.int("axis", 0), value.rank())?;
    let size = value.view.axes[along].size;
    let sizes = match call.parameter(planner, 1, "split")? {
        Some(all) => all
            .iter()
            .map(|&it| usize::try_from(it).unwrap_or(0))
            .collect(),
        None => {
            let parts = call.node.output.len().max(1);
            let each = size.div_ceil(parts);
            let mut rest = size;
            let of = |_| {
                let part = each.min(rest);
                rest -= part;
                part
            };
            (0..parts).map(of).collect::<Vec<usize>>()
        }
    };
    if sizes.iter().sum::<usize>() != size {
        return values(format!("parts of {sizes:?} of {size}"));
    }
    let mut start = 0;
    let of = |part: usize| {
        let view = value.view.slice(along, start, part, 1);
        start += part as isize;
        value.with(view)
    };
    Ok(sizes.into_iter().map(of).collect())
}

pub(super) fn concat(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let parts: Vec<&Value> = call.inputs.iter().flatten().collect();
    let Some(first) = parts.first() else {
        return values("no inputs");
    };
    if parts.len() == 1 {
        return Ok(vec![(*first).clone()]);
    }
    let along = axis(call.int("axis", 0), first.rank())?;
    let mut sizes = first.sizes();
    let mut total = 0;
    for part in &parts {
        let own = part.sizes();
        let fits = own.len() == sizes.len()
            && std::iter::zip(&own, &sizes)
                .enumerate()
                .all(|(place, (one, other))| place == along || one == other);
        if !fits || part.kind != first.kind {
            return values(format!("sizes {own:?} beside {sizes:?}"));
        }
        total += own[along];
    }
    sizes[along] = total;
    // Known numbers along the only axis.
    if first.rank() == 1 {
        let all: Option<Vec<Vec<Scalar>>> = parts.iter().map(|part| part.scalars()).collect();
        if let Some(all) = all {
            return Ok(vec![Value::known(first.kind, &sizes, all.concat())]);
        }
    }
    let whole = planner.parts(first.kind, &sizes)?;
    let mut start = 0;
    for part in &parts {
        let size = part.sizes()[along];
        let to = whole.view.slice(along, start, size, 1);
        start += size as isize;
        let from = planner.materialised(part)?;
        if from.len() > 0 {
            planner.add_to(Operation::moved(first.kind), vec![from], to);
        }
    }
    Ok(vec![whole])
}

/// A constant around elements; less than none leaves elements out.
pub(super) fn pad(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let Some(pads) = call.parameter(planner, 1, "pads")? else {
        return values("pads are missing");
    };
    let along = match call.parameter(planner, 3, "axes")? {
        Some(all) => axes(&all, value.rank())?,
        None => (0..value.rank()).collect(),
    };
    if pads.len() != 2 * along.len() {
        return values(format!("pads of {pads:?} for {} axes", along.len()));
    }
    let mut sizes = value.sizes();
    let mut from = planner.materialised(value)?;
    let mut starts = vec![0; sizes.len()];
    for (index, &place) in along.iter().enumerate() {
        let (before, behind) = (pads[index], pads[along.len() + index]);
        let size = sizes[place] as i64;
        let whole = size
            .checked_add(before)
            .and_then(|it| it.checked_add(behind));
        let Some(whole) = whole.and_then(|it| usize::try_from(it).ok()) else {
            return values(format!("pads of {before} and {behind} for {size}"));
        };
        let gone = (-before).clamp(0, size);
        let kept = (size + behind.min(0) - gone).max(0) as usize;
        from = from.slice(place, gone as isize, kept, 1);
        starts[place] = before.max(0) as isize;
        sizes[place] = whole;
    }
    let whole = planner.parts(value.kind, &sizes)?;
    let around = match call.optional(2) {
        Some(number) => Some(number.clone()),
        None => match call.float("value", 0.0) {
            0.0 => None,
            number => Some(planner.float(number)),
        },
    };
    // Memory is of zeros before a run.
    if let Some(number) = around {
        let number = planner.materialised(&number)?;
        let number = number.reshape(&[]).unwrap_or(number);
        planner.add_to(
            Operation::moved(value.kind),
            vec![number.broadcast(&sizes)],
            whole.view.clone(),
        );
    }
    let mut to = whole.view.clone();
    for (place, start) in starts.into_iter().enumerate() {
        to = to.slice(place, start, from.axes[place].size, 1);
    }
    if from.len() > 0 {
        planner.add_to(Operation::moved(value.kind), vec![from], to);
    }
    Ok(vec![whole])
}

pub(super) fn constant_of_shape(
    planner: &mut Planner<'_>,
    call: &Call<'_>,
) -> Result<Vec<Value>, Error> {
    let Some(sizes) = call.parameter(planner, 0, "input")? else {
        return values("the shape is missing");
    };
    let sizes: Vec<usize> = sizes
        .iter()
        .map(|&it| usize::try_from(it).unwrap_or(0))
        .collect();
    count(&sizes)?;
    let tensor = call.node.tensor("value").value();
    let one = match tensor {
        None => planner.float(0.0),
        Some(tensor) => {
            let constant = crate::body::constant_of(tensor).map_err(Error::Values)?;
            planner.literal(&constant, None)
        }
    };
    let view = View {
        axes: vec![],
        ..one.view.clone()
    };
    Ok(vec![one.with(view.broadcast(&sizes))])
}

pub(super) fn range(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let mut numbers = vec![];
    let kind = call.input(0)?.kind;
    for index in 0..3 {
        let number = planner.integers(call.input(index)?);
        let Some([number]) = number
            .as_deref()
            .and_then(|all| all.first_chunk::<1>())
            .copied()
        else {
            return values("its bounds depend on the step");
        };
        numbers.push(number);
    }
    let (_, count) = match numbers[2] {
        0 => return values("a distance of 0"),
        apart => {
            let distance = i128::from(numbers[1]) - i128::from(numbers[0]);
            let apart = i128::from(apart);
            let count = if distance.signum() == apart.signum() {
                (distance.abs() - 1) / apart.abs() + 1
            } else {
                0
            };
            (0, usize::try_from(count).unwrap_or(usize::MAX))
        }
    };
    if count > crate::known::MOST_KNOWN {
        return values(format!("a range of {count} numbers"));
    }
    let scalars = (0..count as i64).map(|it| (numbers[0] + it * numbers[2]).into());
    Ok(vec![Value::known(kind, &[count], scalars.collect())])
}
