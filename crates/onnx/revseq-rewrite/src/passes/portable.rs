//! ReverseSequence and ReverseSubsequences to standard operators.
//!
//! Gather fetches each row from its source. A row is the contiguous data after the later axis; rows
//! are counted across all axes, so neither the rank nor the axes before, between and after matter:
//!
//! ```text
//! position = (row / stride of time)  mod size of time
//! sequence = (row / stride of batch) mod size of batch
//! from     = row + (length - 1 - 2 position) * stride of time, where position < length
//! ```
//!
//! Lengths are clamped to the axis first, so that no row of another sequence is ever read: above
//! the axis's size they count as that size, below zero as 0.

use std::ops::Range;

use super::axis_from_front;
use crate::emit::{ALLOW_ZERO, Emit};
use crate::model::{self, Attribute, FLOAT, INT64, ModelProto, NodeProto, all_nodes};
use crate::pass::{At, Other, Pass, Verdict};
use crate::types;

pub(super) const PASS: Pass = Pass::exact(
    "portable",
    "ReverseSequence and ReverseSubsequences, to standard operators",
    find,
)
.portable();

/// The same, for runtimes that have ONNX's ReverseSequence.
pub(super) const OTHER_AXES: Pass = Pass::exact(
    "other-axes",
    "ReverseSubsequences, and ReverseSequence of other axes than 0 and 1, to standard operators",
    find_other_axes,
);

/// The first opset with Range.
const RANGE: i64 = 11;
/// Index after the last axis of any tensor.
const END: i64 = i64::MAX;

/// An axis of the data.
enum Axis {
    /// An axis counted from the front.
    Known(i64),
    /// A vector of one element, counted from the front.
    Computed(String),
}

fn find_other_axes(at: &At<'_>) -> Verdict {
    let axes = [("time_axis", 0), ("batch_axis", 1)];
    let axes = axes.map(|(name, default)| at.node.int(name).or(default));
    let is_standard = matches!(axes, [Some(0), Some(1)] | [Some(1), Some(0)]);
    if at.node.is("ReverseSequence") && is_standard {
        return Err(Other);
    }
    find(at)
}

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let axes = axes_of(node);
    if axes.is_empty() {
        return Err(Other);
    }
    let (Some(data), Some(lengths), Some(output)) =
        (node.input(0), node.input(1), node.output.first())
    else {
        return Err("an input or the output is missing".into());
    };
    let emit = at.emit(output);
    let shape = emit.op("Shape", data);
    let axes = axes.iter().map(|&(name, default)| {
        let written = node
            .int(name)
            .or(default)
            .ok_or_else(|| format!("its {name} is an attribute that the function's caller sets"));
        let written = written?;
        Ok(match axis_from_front(scope, data, written) {
            Some(axis) => Axis::Known(axis as i64),
            None => Axis::computed(&emit, written, &shape),
        })
    });
    let axes: Vec<Axis> = axes.collect::<Result<_, String>>()?;
    let reversed = match &axes[..] {
        [time, batch] => {
            // ONNX Runtime's Gather copies only the first string of a row.
            let by_rows = !types::may_be_strings(scope, data);
            reverse_sequence(&emit, [data, lengths], &shape, [time, batch], by_rows)
        }
        [axis] => reverse_subsequences(&emit, [data, lengths], &shape, axis),
        _ => return Err(Other),
    };
    let what = format!("{} standard operators around Gather", emit.len());
    emit.finish_with(reversed, what)
}

/// The attributes that are axes of a reversal, and their defaults; none for other operators.
fn axes_of(node: &NodeProto) -> &'static [(&'static str, i64)] {
    match (node.domain(), node.op()) {
        ("", "ReverseSequence") => &[("time_axis", 0), ("batch_axis", 1)],
        ("revseq", "ReverseSubsequences") => &[("axis", 0)],
        _ => &[],
    }
}

/// Whether the callers of a function set an axis of a reversal in it.
pub(super) fn depends_on_callers(model: &ModelProto) -> bool {
    let functions = model.functions.iter();
    let mut nodes = functions.flat_map(|function| all_nodes(&function.node));
    nodes.any(|node| {
        let mut axes = axes_of(node).iter();
        axes.any(|(name, _)| node.int(name) == Attribute::Reference)
    })
}

impl Axis {
    fn computed(emit: &Emit<'_>, axis: i64, shape: &str) -> Self {
        let axis = emit.ints(&[axis]);
        let from_front = emit.op("Add", (&axis, emit.op("Shape", shape)));
        let negative = emit.op("Less", (&axis, [0]));
        Self::Computed(emit.op("Where", (negative, from_front, axis)))
    }

    /// The axis's size, as a vector of one element.
    fn size(&self, emit: &Emit<'_>, shape: &str) -> String {
        match self {
            Self::Known(axis) => emit.op("Gather", (shape, [*axis])),
            Self::Computed(axis) => emit.op("Gather", (shape, axis)),
        }
    }

    /// The number of rows between neighbours on the axis, as a vector of one element; `None` if it
    /// is 1.
    fn stride(&self, emit: &Emit<'_>, shape: &str, end: i64) -> Option<String> {
        match self {
            Self::Known(axis) if axis + 1 == end => None,
            Self::Known(axis) => Some(product(emit, shape, axis + 1..end, true)),
            Self::Computed(axis) => {
                let next = emit.op("Add", (axis, [1]));
                let behind = emit.op("Slice", (shape, next, [end]));
                Some(product_of(emit, &behind, true))
            }
        }
    }

    /// The coordinate of each row on the axis.
    fn coordinate(&self, emit: &Emit<'_>, rows: &str, stride: Option<&str>, size: &str) -> String {
        let steps = match stride {
            Some(stride) => emit.op("Div", (rows, stride)),
            None => rows.to_owned(),
        };
        match self {
            // No axis comes before it.
            Self::Known(0) => steps,
            _ => emit.op("Mod", (&steps, size)),
        }
    }
}

/// Numbers the rows: 0, 1, 2, …
fn count(emit: &Emit<'_>, shape: &str, end: i64) -> String {
    if emit.opset() >= RANGE {
        let rows = product(emit, shape, 0..end, false);
        return emit.op("Range", (0, &rows, 1));
    }
    let rows = product(emit, shape, 0..end, true);
    let one = model::int64_tensor(&[1], &[1]);
    let ones = emit.with("ConstantOfShape", rows, [model::tensor("value", one)]);
    emit.squeeze(&emit.op("NonZero", ones), &[0])
}

/// Lengths as int64, clamped to the axis's size.
fn clamp(emit: &Emit<'_>, lengths: &str, size: &str) -> String {
    emit.op("Where", (emit.op("Less", (size, lengths)), size, lengths))
}

/// Reads each row from its source.
fn gather(
    emit: &Emit<'_>,
    [data, rows, position, length]: [&str; 4],
    stride: Option<&str>,
) -> String {
    let last = emit.op("Sub", (length, [1]));
    let mut shift = emit.op("Sub", (last, emit.op("Mul", (position, [2]))));
    if let Some(stride) = stride {
        shift = emit.op("Mul", (shift, stride));
    }
    let mirrored = emit.op("Add", (rows, shift));
    let within = emit.op("Less", (position, length));
    emit.gather(data, emit.op("Where", (within, mirrored, rows)), 0)
}

/// The data as a matrix of rows.
fn rows(emit: &Emit<'_>, data: &str, shape: &str, end: i64) -> String {
    if emit.opset() < ALLOW_ZERO {
        return emit.with("Flatten", data, [model::int("axis", end)]);
    }
    // Some runtimes' Flatten refuses a size of 0.
    let [rows, row] = [0..end, end..END].map(|axes| product(emit, shape, axes, true));
    emit.reshape(data, emit.concat((rows, row), 0))
}

/// The product of the sizes of some axes. `END` is after the last one.
fn product(emit: &Emit<'_>, shape: &str, axes: Range<i64>, keep: bool) -> String {
    let sizes = emit.op("Slice", (shape, [axes.start], [axes.end]));
    if axes.end == END {
        product_of(emit, &sizes, keep)
    } else if keep && axes.end == axes.start + 1 {
        sizes
    } else {
        emit.product(&sizes, keep)
    }
}

/// The product of a vector of sizes, which may be empty. Some runtimes refuse the product of
/// nothing, so add a factor of 1.
fn product_of(emit: &Emit<'_>, sizes: &str, keep: bool) -> String {
    emit.product(&emit.concat(([1], sizes), 0), keep)
}

/// Sizes for division. If one is 0 there are no rows, but runtimes still refuse to divide by it if
/// they know it before the model runs.
fn divisors(emit: &Emit<'_>, shape: &str) -> String {
    emit.op("Where", (emit.op("Equal", (shape, [0])), [1], shape))
}

fn flatten(emit: &Emit<'_>, value: &str) -> String {
    emit.op("Reshape", (value, [-1]))
}

fn reverse_sequence(
    emit: &Emit<'_>,
    [data, lengths]: [&str; 2],
    shape: &str,
    [time, batch]: [&Axis; 2],
    by_rows: bool,
) -> String {
    let (flat, end) = match (time, batch) {
        (Axis::Known(time), Axis::Known(batch)) if by_rows => {
            let end = time.max(batch) + 1;
            (rows(emit, data, shape, end), end)
        }
        _ => (flatten(emit, data), END),
    };
    let rows = count(emit, shape, end);
    let sizes = divisors(emit, shape);
    let [steps, sequences] = [time, batch].map(|axis| axis.size(emit, &sizes));
    let strides = [time, batch].map(|axis| axis.stride(emit, &sizes, end));
    let [stride, batch_stride] = [&strides[0], &strides[1]].map(Option::as_deref);
    let position = time.coordinate(emit, &rows, stride, &steps);
    let sequence = batch.coordinate(emit, &rows, batch_stride, &sequences);
    let length = emit.gather(&clamp(emit, lengths, &steps), sequence, 0);
    let gathered = gather(emit, [&flat, &rows, &position, &length], stride);
    emit.reshape(&gathered, shape)
}

fn reverse_subsequences(
    emit: &Emit<'_>,
    [data, lengths]: [&str; 2],
    shape: &str,
    axis: &Axis,
) -> String {
    let flat = flatten(emit, data);
    let elements = count(emit, shape, END);
    let sizes = divisors(emit, shape);
    let size = &axis.size(emit, &sizes);
    let stride = axis.stride(emit, &sizes, END);
    let position = axis.coordinate(emit, &elements, stride.as_deref(), size);
    // As floats, lengths of every type compare alike, even those beyond int64. The remaining ones
    // may be off by rounding and are clamped exactly below.
    let as_float = &emit.cast(lengths, FLOAT);
    let (zero_as_float, size_as_float) = (emit.cast([0], FLOAT), emit.cast(size, FLOAT));
    let negative = emit.op("Less", (as_float, zero_as_float));
    let from_zero = emit.op("Where", (negative, [0], emit.cast(lengths, INT64)));
    let beyond = emit.op("Greater", (as_float, size_as_float));
    let fitting = emit.op("Where", (beyond, size, from_zero));
    let flat_lengths = flatten(emit, &clamp(emit, &fitting, size));
    // The lengths have the data's layout, except for size 1 on the axis.
    let stride_or_one = &stride.clone().unwrap_or_else(|| emit.ints(&[1]));
    let block = emit.op("Mul", (stride_or_one, size));
    let before = emit.op("Mul", (emit.op("Div", (&elements, block)), stride_or_one));
    let behind = emit.op("Mod", (&elements, stride_or_one));
    let length = emit.gather(&flat_lengths, emit.op("Add", (before, behind)), 0);
    let places = [&*flat, &elements, &position, &length];
    emit.reshape(&gather(emit, places, stride.as_deref()), shape)
}
