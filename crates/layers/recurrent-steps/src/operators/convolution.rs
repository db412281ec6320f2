//! Convolutions.

use revseq_onnx::model::NodeProto;

use super::Call;
use super::elementwise::float2;
use super::products::{WIDE, matrices, multiply};
use crate::elements::{Kind, Lane};
use crate::error::{Error, values};
use crate::function::{Float2, Function};
use crate::kernels::LEAST_COLUMNS;
use crate::plan::{Operation, Planner, Value};
use crate::view::{Axis, View, offsets};

/// Filters of one channel with so many elements and fewer are sums of elements.
const MOST_TAPS: usize = 32;

/// Says what of a Conv no program has.
pub(super) fn check(node: &NodeProto) -> Result<(), String> {
    match node.text("auto_pad").value() {
        None | Some("NOTSET" | "SAME_LOWER" | "SAME_UPPER" | "VALID") => Ok(()),
        Some(pad) => Err(format!("has the padding {pad:?}")),
    }
}

/// How filters move along an axis.
struct Along {
    kernel: usize,
    stride: usize,
    dilation: usize,
    /// The zeros before and behind the elements.
    pads: [usize; 2],
    /// The places of the filters.
    places: usize,
}

/// How filters move along each axis of an input of these sizes.
fn along(call: &Call<'_>, input: &[usize], kernel: &[usize]) -> Result<Vec<Along>, Error> {
    let rank = input.len();
    let list = |name: &str, len: usize, default: i64| -> Result<Vec<usize>, Error> {
        let all = call.ints(name).unwrap_or_else(|| vec![default; len]);
        let least = default.min(1);
        if all.len() != len || all.iter().any(|&it| it < least) {
            return values(format!("{name} of {all:?} for {rank} axes"));
        }
        Ok(all.into_iter().map(|it| it as usize).collect())
    };
    let (strides, dilations) = (list("strides", rank, 1)?, list("dilations", rank, 1)?);
    let pads = list("pads", 2 * rank, 0)?;
    let mode = call.node.text("auto_pad").value().unwrap_or("NOTSET");
    let mut made = vec![];
    for axis in 0..rank {
        let (size, kernel) = (input[axis], kernel[axis]);
        let (stride, dilation) = (strides[axis], dilations[axis]);
        let reach = kernel.saturating_sub(1).saturating_mul(dilation) + 1;
        let last = size.div_ceil(stride).saturating_sub(1);
        let missing = (last.saturating_mul(stride).saturating_add(reach)).saturating_sub(size);
        let pads = match mode {
            "SAME_UPPER" => [missing / 2, missing.div_ceil(2)],
            "SAME_LOWER" => [missing.div_ceil(2), missing / 2],
            "VALID" => [0, 0],
            _ => [pads[axis], pads[rank + axis]],
        };
        let whole = size.saturating_add(pads[0]).saturating_add(pads[1]);
        if whole < reach || kernel == 0 {
            return values(format!("filters of {reach} along an axis of {whole}"));
        }
        let places = (whole - reach) / stride + 1;
        made.push(Along {
            kernel,
            stride,
            dilation,
            pads,
            places,
        });
    }
    Ok(made)
}

pub(super) fn conv(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let (input, filters) = (x.sizes(), w.sizes());
    let groups = usize::try_from(call.int("group", 1)).unwrap_or(0);
    let fits = input.len() > 2
        && input.len() == filters.len()
        && groups > 0
        && filters[0].is_multiple_of(groups)
        && input[1] == filters[1].saturating_mul(groups);
    if !fits {
        return values(format!("filters of {filters:?} for {input:?} in {groups}"));
    }
    let along = along(call, &input[2..], &filters[2..])?;
    let x = padded(planner, x, &along)?;
    let [batch, channels] = [input[0], filters[1]];
    let each = filters[0] / groups;
    let places: Vec<usize> = along.iter().map(|it| it.places).collect();
    // Filters see the input as [batch, groups, channels, kernel …, places …].
    let [of_batch, of_channel] = [x.axes[0].stride, x.axes[1].stride];
    let axis = |size: usize, stride: isize| Axis { size, stride };
    let inner = || std::iter::zip(&along, &x.axes[2..]);
    let mut axes = vec![
        axis(batch, of_batch),
        axis(groups, of_channel * channels as isize),
        axis(channels, of_channel),
    ];
    axes.extend(inner().map(|(it, own)| axis(it.kernel, own.stride * it.dilation as isize)));
    axes.extend(inner().map(|(it, own)| axis(it.places, own.stride * it.stride as isize)));
    let seen = Value::new(Kind::Float, View { axes, ..x.clone() });
    let terms: usize = filters[1..].iter().product();
    let w = planner.reshape(w, &[groups, each, terms])?;
    let count: usize = places.iter().product();
    let made = if channels == 1 && along.len() == 1 && count >= WIDE {
        // The elements that filters see lie one after another.
        let seen = planner.reshape(&seen, &[batch, groups, terms, count])?;
        let w = planner.materialised(&w)?;
        multiply(planner, &w, &seen.view, &[batch, groups])?
    } else if channels == 1 && terms <= MOST_TAPS {
        taps(planner, &seen, &w, along.len())?
    } else {
        // Without an axis of one batch, each group may have a packed matrix.
        let lead = [batch, groups];
        let lead = if batch == 1 { &lead[1..] } else { &lead };
        let sizes = [lead, &[terms, count]].concat();
        if count < LEAST_COLUMNS || seen.view.reshape(&sizes).is_some() {
            let seen = planner.reshape(&seen, &sizes)?;
            matrices(planner, &w, &seen)?
        } else {
            // A product copies what filters see, some columns at a time.
            let w = planner.materialised(&w)?;
            let w = w.broadcast(&[lead, &[each, terms]].concat());
            let seen = seen.view.without(if batch == 1 { &[0] } else { &[] });
            let operation = Operation::Multiply {
                terms: 1 + along.len(),
            };
            let sizes = [lead, &[each, count]].concat();
            let view = planner.add(operation, Lane::Float, vec![w, seen], &sizes)?;
            Value::new(Kind::Float, view)
        }
    };
    let made = planner.reshape(&made, &[&[batch, filters[0]], &*places].concat())?;
    let Some(bias) = call.optional(2) else {
        return Ok(vec![made]);
    };
    let mut view = bias.view.clone();
    for _ in &places {
        view = view.unsqueeze(view.rank());
    }
    let add = float2(Float2::Add);
    Ok(vec![planner.map(
        add,
        Kind::Float,
        &[&made, &bias.with(view)],
    )?])
}

/// The input with zeros around it.
fn padded(planner: &mut Planner<'_>, x: &Value, along: &[Along]) -> Result<View, Error> {
    let from = planner.materialised(x)?;
    if along.iter().all(|it| it.pads == [0, 0]) {
        return Ok(from);
    }
    let mut sizes = from.sizes();
    for (size, it) in std::iter::zip(&mut sizes[2..], along) {
        *size += it.pads[0] + it.pads[1];
    }
    // Memory is of zeros before a run.
    let whole = planner.parts(Kind::Float, &sizes)?.view;
    let mut to = whole.clone();
    for (index, it) in along.iter().enumerate() {
        let size = from.axes[2 + index].size;
        to = to.slice(2 + index, it.pads[0] as isize, size, 1);
    }
    let moved = Operation::Map(Function::Move(Lane::Float));
    planner.add_to(moved, vec![from], to);
    Ok(whole)
}

/// Filters of one channel, element by element: [batch, groups, filters, places …].
fn taps(planner: &mut Planner<'_>, seen: &Value, w: &Value, rank: usize) -> Result<Value, Error> {
    let (lead, places) = seen.view.axes.split_at(3 + rank);
    let (lead, kernel) = lead.split_at(3);
    let mut made: Option<Value> = None;
    for (tap, offset) in offsets(kernel).enumerate() {
        let one = seen.with(View {
            offset: seen.view.offset + offset,
            axes: [lead, places].concat(),
            ..seen.view.clone()
        });
        let mut factor = w.view.at(2, tap as i64, 0);
        for _ in places {
            factor = factor.unsqueeze(factor.rank());
        }
        let multiply = float2(Float2::Mul);
        let product = planner.map(multiply, Kind::Float, &[&one, &w.with(factor)])?;
        made = Some(match made {
            None => product,
            Some(sum) => planner.map(float2(Float2::Add), Kind::Float, &[&sum, &product])?,
        });
    }
    made.ok_or_else(|| Error::Values("filters without elements".into()))
}
