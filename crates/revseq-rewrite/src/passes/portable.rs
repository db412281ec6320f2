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

use crate::constant;
use crate::emit::Emit;
use crate::model::{self, Attribute, AttributeProto, AttributeType, FLOAT, INT64, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;
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
/// The first opset in which Reshape takes a size of 0 literally.
const ALLOW_ZERO: i64 = 14;
/// Index after the last axis of any tensor.
const END: i64 = i64::MAX;

/// An axis of the data.
enum Axis {
    /// An axis counted from the front.
    Known(i64),
    /// A vector of one element, counted from the front.
    Computed(String),
}

fn find_other_axes(
    scope: &Scope<'_>,
    index: usize,
    context: &Context<'_>,
    names: &mut Names,
) -> Verdict {
    let node = &scope.nodes[index];
    let axes =
        [("time_axis", 0), ("batch_axis", 1)].map(|(name, default)| node.int(name).or(default));
    let is_standard = matches!(axes, [Some(0), Some(1)] | [Some(1), Some(0)]);
    if node.is("ReverseSequence") && is_standard {
        return Verdict::Other;
    }
    find(scope, index, context, names)
}

fn find(scope: &Scope<'_>, index: usize, context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let axes: &[(&str, i64)] = match (node.domain(), node.op()) {
        ("", "ReverseSequence") => &[("time_axis", 0), ("batch_axis", 1)],
        ("revseq", "ReverseSubsequences") => &[("axis", 0)],
        _ => return Verdict::Other,
    };
    let (Some(data), Some(lengths), Some(output)) =
        (node.input(0), node.input(1), node.output.first())
    else {
        return Verdict::Left("an input or the output is missing".to_owned());
    };
    for (name, _) in axes {
        if let Some(attribute) = reference(node, name)
            && !context.always_given(scope, attribute)
        {
            return Verdict::Left(format!(
                "its {name} is the function's attribute {attribute:?}, which not every caller gives"
            ));
        }
    }
    let rank = sizes::rank(scope, data);
    let mut emit = Emit::new(output, scope.opset, names);
    let shape = emit.plain("Shape", &[data]);
    let mut axes = axes
        .iter()
        .map(|&(name, default)| axis(&mut emit, node, name, default, rank, &shape));
    match (axes.next(), axes.next()) {
        (Some(time), Some(batch)) => {
            drop(axes);
            // ONNX Runtime's Gather copies only the first string of a row.
            let by_rows = !types::may_be_strings(scope, data);
            let values = [data, lengths, output];
            reverse_sequence(&mut emit, values, &shape, [&time, &batch], by_rows);
        }
        (Some(axis), None) => {
            drop(axes);
            reverse_subsequences(&mut emit, [data, lengths, output], &shape, &axis);
        }
        (None, _) => return Verdict::Other,
    }
    let what = format!("{} standard operators around Gather", emit.len());
    emit.finish(what)
}

/// The function attribute that a node's attribute refers to.
fn reference<'a>(node: &'a NodeProto, name: &str) -> Option<&'a str> {
    match node.int(name) {
        Attribute::Reference => node.attribute(name)?.ref_attr_name.as_deref(),
        _ => None,
    }
}

fn axis(
    emit: &mut Emit<'_>,
    node: &NodeProto,
    name: &str,
    default: i64,
    rank: Option<usize>,
    shape: &str,
) -> Axis {
    let written = node.int(name).or(default);
    let known = written.and_then(|axis| match rank {
        Some(rank) => constant::normal_axis(axis, rank).map(|axis| axis as i64),
        None => (axis >= 0).then_some(axis),
    });
    if let Some(axis) = known {
        return Axis::Known(axis);
    }
    let axis = match written {
        Some(axis) => emit.ints(&[axis]),
        None => {
            let value = AttributeProto {
                name: Some("value_int".to_owned()),
                ref_attr_name: reference(node, name).map(str::to_owned),
                r#type: Some(AttributeType::INT),
                ..AttributeProto::default()
            };
            let scalar = emit.op("Constant", &[], vec![value]);
            emit.unsqueeze(&scalar, &[0])
        }
    };
    let rank = emit.plain("Shape", &[shape]);
    let from_front = emit.plain("Add", &[&axis, &rank]);
    let zero = emit.ints(&[0]);
    let negative = emit.plain("Less", &[&axis, &zero]);
    Axis::Computed(emit.plain("Where", &[&negative, &from_front, &axis]))
}

impl Axis {
    fn name(&self, emit: &mut Emit<'_>) -> String {
        match self {
            Self::Known(axis) => emit.ints(&[*axis]),
            Self::Computed(name) => name.clone(),
        }
    }

    /// The axis's size, as a vector of one element.
    fn size(&self, emit: &mut Emit<'_>, shape: &str) -> String {
        let axis = self.name(emit);
        emit.plain("Gather", &[shape, &axis])
    }

    /// The number of rows between neighbours on the axis, as a vector of one element; `None` if it
    /// is 1.
    fn stride(&self, emit: &mut Emit<'_>, shape: &str, end: i64) -> Option<String> {
        match self {
            Self::Known(axis) if axis + 1 == end => None,
            Self::Known(axis) => Some(product(emit, shape, axis + 1..end, true)),
            Self::Computed(axis) => {
                let one = emit.ints(&[1]);
                let next = emit.plain("Add", &[axis, &one]);
                let end = emit.ints(&[end]);
                let behind = emit.plain("Slice", &[shape, &next, &end]);
                Some(product_of(emit, &behind, true))
            }
        }
    }

    /// The coordinate of each row on the axis.
    fn coordinate(
        &self,
        emit: &mut Emit<'_>,
        rows: &str,
        stride: Option<&str>,
        size: &str,
    ) -> String {
        let steps = match stride {
            Some(stride) => emit.plain("Div", &[rows, stride]),
            None => rows.to_owned(),
        };
        match self {
            // No axis comes before it.
            Self::Known(0) => steps,
            _ => emit.plain("Mod", &[&steps, size]),
        }
    }
}

/// Numbers the rows: 0, 1, 2, …
fn count(emit: &mut Emit<'_>, shape: &str, end: i64) -> String {
    if emit.opset() >= RANGE {
        let rows = product(emit, shape, 0..end, false);
        let (first, step) = (emit.scalar(0), emit.scalar(1));
        return emit.plain("Range", &[&first, &rows, &step]);
    }
    let rows = product(emit, shape, 0..end, true);
    let one = model::tensor("value", model::int64_tensor(&[1], &[1]));
    let ones = emit.op("ConstantOfShape", &[&rows], vec![one]);
    let places = emit.plain("NonZero", &[&ones]);
    emit.squeeze(&places, &[0])
}

/// Lengths as int64, clamped to the axis's size.
fn clamp(emit: &mut Emit<'_>, lengths: &str, size: &str) -> String {
    let beyond = emit.plain("Less", &[size, lengths]);
    emit.plain("Where", &[&beyond, size, lengths])
}

/// Reads each row from its source.
fn gather(
    emit: &mut Emit<'_>,
    [data, rows, position, length]: [&str; 4],
    stride: Option<&str>,
) -> String {
    let (one, two) = (emit.ints(&[1]), emit.ints(&[2]));
    let last = emit.plain("Sub", &[length, &one]);
    let twice = emit.plain("Mul", &[position, &two]);
    let mut shift = emit.plain("Sub", &[&last, &twice]);
    if let Some(stride) = stride {
        shift = emit.plain("Mul", &[&shift, stride]);
    }
    let mirrored = emit.plain("Add", &[rows, &shift]);
    let within = emit.plain("Less", &[position, length]);
    let from = emit.plain("Where", &[&within, &mirrored, rows]);
    emit.op("Gather", &[data, &from], vec![model::int("axis", 0)])
}

fn reshape_into(emit: &mut Emit<'_>, output: &str, value: &str, shape: &str) {
    let attributes = if emit.opset() >= ALLOW_ZERO {
        vec![model::int("allowzero", 1)]
    } else {
        Vec::new()
    };
    emit.write(&[output], "Reshape", &[value, shape], attributes);
}

/// The data as a matrix of rows.
fn rows(emit: &mut Emit<'_>, data: &str, shape: &str, end: i64) -> String {
    if emit.opset() < ALLOW_ZERO {
        return emit.op("Flatten", &[data], vec![model::int("axis", end)]);
    }
    // Some runtimes' Flatten refuses a size of 0.
    let sizes = [0..end, end..END].map(|axes| product(emit, shape, axes, true));
    let [rows, row] = &sizes;
    let matrix = emit.op("Concat", &[rows, row], vec![model::int("axis", 0)]);
    let output = emit.name("rows");
    reshape_into(emit, &output, data, &matrix);
    output
}

/// The product of the sizes of some axes. `END` is after the last one.
fn product(emit: &mut Emit<'_>, shape: &str, axes: Range<i64>, keep: bool) -> String {
    let (start, end) = (emit.ints(&[axes.start]), emit.ints(&[axes.end]));
    let sizes = emit.plain("Slice", &[shape, &start, &end]);
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
fn product_of(emit: &mut Emit<'_>, sizes: &str, keep: bool) -> String {
    let one = emit.ints(&[1]);
    let factors = emit.op("Concat", &[&one, sizes], vec![model::int("axis", 0)]);
    emit.product(&factors, keep)
}

/// Sizes for division. If one is 0 there are no rows, but runtimes still refuse to divide by it if
/// they know it before the model runs.
fn divisors(emit: &mut Emit<'_>, shape: &str) -> String {
    let (zero, one) = (emit.ints(&[0]), emit.ints(&[1]));
    let empty = emit.plain("Equal", &[shape, &zero]);
    emit.plain("Where", &[&empty, &one, shape])
}

fn flatten(emit: &mut Emit<'_>, value: &str) -> String {
    let all = emit.ints(&[-1]);
    emit.plain("Reshape", &[value, &all])
}

fn reverse_sequence(
    emit: &mut Emit<'_>,
    [data, lengths, output]: [&str; 3],
    shape: &str,
    [time, batch]: [&Axis; 2],
    by_rows: bool,
) {
    let (flat, end) = match (time, batch) {
        (Axis::Known(time), Axis::Known(batch)) if by_rows => {
            let end = time.max(batch) + 1;
            (rows(emit, data, shape, end), end)
        }
        _ => (flatten(emit, data), END),
    };
    let rows = count(emit, shape, end);
    let sizes = divisors(emit, shape);
    let steps = time.size(emit, &sizes);
    let sequences = batch.size(emit, &sizes);
    let time_stride = time.stride(emit, &sizes, end);
    let batch_stride = batch.stride(emit, &sizes, end);
    let position = time.coordinate(emit, &rows, time_stride.as_deref(), &steps);
    let sequence = batch.coordinate(emit, &rows, batch_stride.as_deref(), &sequences);
    let clamped = clamp(emit, lengths, &steps);
    let length = emit.op(
        "Gather",
        &[&clamped, &sequence],
        vec![model::int("axis", 0)],
    );
    let gathered = gather(
        emit,
        [&flat, &rows, &position, &length],
        time_stride.as_deref(),
    );
    reshape_into(emit, output, &gathered, shape);
}

fn reverse_subsequences(
    emit: &mut Emit<'_>,
    [data, lengths, output]: [&str; 3],
    shape: &str,
    axis: &Axis,
) {
    let flat = flatten(emit, data);
    let elements = count(emit, shape, END);
    let sizes = divisors(emit, shape);
    let size = axis.size(emit, &sizes);
    let stride = axis.stride(emit, &sizes, END);
    let position = axis.coordinate(emit, &elements, stride.as_deref(), &size);
    // As floats, lengths of every type compare alike, even those beyond int64. The remaining ones
    // may be off by rounding and are clamped exactly below.
    let float = |emit: &mut Emit<'_>, value: &str| {
        emit.op("Cast", &[value], vec![model::int("to", FLOAT.into())])
    };
    let zero = emit.ints(&[0]);
    let (as_float, float_zero, float_size) =
        (float(emit, lengths), float(emit, &zero), float(emit, &size));
    let as_int = emit.op("Cast", &[lengths], vec![model::int("to", INT64.into())]);
    let negative = emit.plain("Less", &[&as_float, &float_zero]);
    let from_zero = emit.plain("Where", &[&negative, &zero, &as_int]);
    let beyond = emit.plain("Greater", &[&as_float, &float_size]);
    let fitting = emit.plain("Where", &[&beyond, &size, &from_zero]);
    let clamped = clamp(emit, &fitting, &size);
    let flat_lengths = flatten(emit, &clamped);
    // The lengths have the data's layout, except for size 1 on the axis.
    let stride_or_one = match &stride {
        Some(stride) => stride.clone(),
        None => emit.ints(&[1]),
    };
    let block = emit.plain("Mul", &[&stride_or_one, &size]);
    let before = emit.plain("Div", &[&elements, &block]);
    let before = emit.plain("Mul", &[&before, &stride_or_one]);
    let behind = emit.plain("Mod", &[&elements, &stride_or_one]);
    let place = emit.plain("Add", &[&before, &behind]);
    let length = emit.op(
        "Gather",
        &[&flat_lengths, &place],
        vec![model::int("axis", 0)],
    );
    let gathered = gather(
        emit,
        [&flat, &elements, &position, &length],
        stride.as_deref(),
    );
    reshape_into(emit, output, &gathered, shape);
}
