//! Values that are the same in every run, as far as the model tells.

use crate::model::{Attribute, FLOAT, INT32, INT64, NodeProto, TensorProto, tensor_proto};
use crate::scope::{Scope, Source};

/// How far values are followed, so that no model makes it long or deep.
const MAXIMUM_STEPS: usize = 64;

/// The most elements that are followed through nodes.
const MAXIMUM_ELEMENTS: usize = 1 << 28;

/// A tensor of float32.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Floats {
    pub(crate) sizes: Vec<usize>,
    pub(crate) elements: Vec<f32>,
}

impl Floats {
    /// As it is written.
    pub(crate) fn to_tensor(&self) -> TensorProto {
        let elements = self.elements.iter();
        TensorProto {
            dims: self.sizes.iter().map(|&size| size as i64).collect(),
            data_type: Some(FLOAT),
            raw_data: Some(elements.flat_map(|element| element.to_le_bytes()).collect()),
            ..TensorProto::default()
        }
    }
}

/// The tensor that a value is: an initializer that nothing can replace, or a
/// node's constant.
pub(crate) fn tensor<'a>(scope: &'a Scope<'a>, name: &str) -> Option<&'a TensorProto> {
    match scope.source(name)?.1 {
        Source::Initializer(tensor) => Some(tensor),
        Source::Node { node, .. } if node.is("Constant") => node.tensor("value").value(),
        _ => None,
    }
}

/// The integers that a value is, in order.
pub(crate) fn ints(scope: &Scope<'_>, name: &str) -> Option<Vec<i64>> {
    ints_within(scope, name, MAXIMUM_STEPS)
}

fn ints_within(scope: &Scope<'_>, name: &str, steps: usize) -> Option<Vec<i64>> {
    let steps = steps.checked_sub(1)?;
    if let Some(tensor) = tensor(scope, name) {
        return tensor_ints(tensor);
    }
    let (scope, node, _) = scope.producer(name)?;
    match node.op() {
        _ if !node.domain().is_empty() => None,
        "Constant" => match (node.int("value_int"), node.ints("value_ints")) {
            (Attribute::Value(value), _) => Some(vec![value]),
            (_, Attribute::Value(values)) => Some(values.to_vec()),
            _ => None,
        },
        "Identity" => ints_within(scope, node.input(0)?, steps),
        "Cast" if matches!(node.int("to"), Attribute::Value(to) if to == i64::from(INT32) || to == i64::from(INT64)) =>
        {
            let values = ints_within(scope, node.input(0)?, steps)?;
            let fits = values.iter().all(|&value| i32::try_from(value).is_ok());
            fits.then_some(values)
        }
        _ => None,
    }
}

/// The integers in a tensor.
fn tensor_ints(tensor: &TensorProto) -> Option<Vec<i64>> {
    let count = element_count(&sizes(tensor)?)?;
    if is_external(tensor) {
        return None;
    }
    let raw = tensor.raw_data.as_deref().unwrap_or_default();
    let values: Vec<i64> = match tensor.data_type? {
        INT64 if raw.is_empty() => tensor.int64_data.clone(),
        INT64 => raw
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| i64::from_le_bytes(bytes))
            .collect(),
        INT32 if raw.is_empty() => tensor
            .int32_data
            .iter()
            .map(|&value| value.into())
            .collect(),
        INT32 => raw
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| i32::from_le_bytes(bytes).into())
            .collect(),
        _ => return None,
    };
    (values.len() == count).then_some(values)
}

/// A tensor's sizes.
pub(crate) fn sizes(tensor: &TensorProto) -> Option<Vec<usize>> {
    tensor
        .dims
        .iter()
        .map(|&size| usize::try_from(size).ok())
        .collect()
}

fn element_count(sizes: &[usize]) -> Option<usize> {
    sizes
        .iter()
        .try_fold(1_usize, |product, &size| product.checked_mul(size))
        .filter(|&count| count <= MAXIMUM_ELEMENTS)
}

/// Whether a tensor's data is in another file.
pub(crate) fn is_external(tensor: &TensorProto) -> bool {
    tensor.data_location == Some(tensor_proto::DataLocation::EXTERNAL)
}

/// The one integer that a value is.
pub(crate) fn int(scope: &Scope<'_>, name: &str) -> Option<i64> {
    match ints(scope, name)?.as_slice() {
        &[value] => Some(value),
        _ => None,
    }
}

/// The float32 tensor that a value is: a constant, or a part or another view of
/// one.
pub(crate) fn floats(scope: &Scope<'_>, name: &str) -> Option<Floats> {
    floats_within(scope, name, MAXIMUM_STEPS)
}

fn floats_within(scope: &Scope<'_>, name: &str, steps: usize) -> Option<Floats> {
    let steps = steps.checked_sub(1)?;
    if let Some(tensor) = tensor(scope, name) {
        return tensor_floats(tensor);
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() {
        return None;
    }
    let input = || floats_within(scope, node.input(0)?, steps);
    match node.op() {
        "Identity" => input(),
        "Squeeze" => {
            let mut value = input()?;
            let axes = axes(scope, node)?;
            let rank = value.sizes.len();
            let removed = normal_axes(&axes?, rank)?;
            if removed.iter().any(|&axis| value.sizes[axis] != 1) {
                return None;
            }
            value.sizes = (0..rank)
                .filter(|axis| !removed.contains(axis))
                .map(|axis| value.sizes[axis])
                .collect();
            Some(value)
        }
        "Split" => {
            let value = input()?;
            let axis = normal_axis(node.int("axis").or(0)?, value.sizes.len())?;
            let size = value.sizes[axis];
            let (start, length) = split_part(scope, node, output, size)?;
            part(&value, axis, start, length)
        }
        "Slice" => {
            let mut value = input()?;
            for (axis, start, end) in slice_ranges(scope, node, &value.sizes)? {
                value = part(&value, axis, start, end.saturating_sub(start))?;
            }
            Some(value)
        }
        _ => None,
    }
}

/// The axes of a node such as Squeeze: none inside if none are given.
pub(crate) fn axes(scope: &Scope<'_>, node: &NodeProto) -> Option<Option<Vec<i64>>> {
    match (node.input(1), node.ints("axes")) {
        (Some(name), _) => Some(Some(ints(scope, name)?)),
        (None, Attribute::Value(axes)) => Some(Some(axes.to_vec())),
        (None, Attribute::Absent) => Some(None),
        (None, Attribute::Reference) => None,
    }
}

/// An axis counted from the front.
pub(crate) fn normal_axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 {
        axis.checked_add(rank as i64)?
    } else {
        axis
    };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Axes counted from the front.
pub(crate) fn normal_axes(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    axes.iter().map(|&axis| normal_axis(axis, rank)).collect()
}

/// Where an output of Split begins on an axis of a size, and how long it is.
pub(crate) fn split_part(
    scope: &Scope<'_>,
    node: &NodeProto,
    output: usize,
    size: usize,
) -> Option<(usize, usize)> {
    let lengths = match (node.input(1), node.ints("split")) {
        (Some(name), _) => Some(ints(scope, name)?),
        (None, Attribute::Value(lengths)) => Some(lengths.to_vec()),
        (None, Attribute::Absent) => None,
        (None, Attribute::Reference) => return None,
    };
    let Some(lengths) = lengths else {
        // Version 18 allows a last part that is shorter; then no two are alike.
        let parts = node.output.len();
        return size
            .is_multiple_of(parts)
            .then(|| (output * (size / parts), size / parts));
    };
    let lengths: Vec<usize> = lengths
        .iter()
        .map(|&length| usize::try_from(length).ok())
        .collect::<Option<_>>()?;
    let total = lengths
        .iter()
        .try_fold(0_usize, |sum, &length| sum.checked_add(length))?;
    (total == size).then_some((lengths[..output].iter().sum(), *lengths.get(output)?))
}

/// What a Slice with steps of 1 keeps: axis, start, end.
pub(crate) fn slice_ranges(
    scope: &Scope<'_>,
    node: &NodeProto,
    sizes: &[usize],
) -> Option<Vec<(usize, usize, usize)>> {
    let starts = ints(scope, node.input(1)?)?;
    let ends = ints(scope, node.input(2)?)?;
    let axes = match node.input(3) {
        Some(name) => normal_axes(&ints(scope, name)?, sizes.len())?,
        None => (0..starts.len()).collect(),
    };
    if let Some(name) = node.input(4)
        && ints(scope, name)?.iter().any(|&step| step != 1)
    {
        return None;
    }
    if starts.len() != ends.len() || starts.len() != axes.len() {
        return None;
    }
    let clamp = |position: i64, size: usize| -> usize {
        let size = size as i64;
        let position = if position < 0 {
            position.saturating_add(size)
        } else {
            position
        };
        position.clamp(0, size) as usize
    };
    std::iter::zip(axes, std::iter::zip(starts, ends))
        .map(|(axis, (start, end))| {
            let size = *sizes.get(axis)?;
            Some((axis, clamp(start, size), clamp(end, size)))
        })
        .collect()
}

/// A range of an axis.
pub(crate) fn part(value: &Floats, axis: usize, start: usize, length: usize) -> Option<Floats> {
    let size = *value.sizes.get(axis)?;
    if start.checked_add(length)? > size {
        return None;
    }
    let inner: usize = value.sizes[axis + 1..].iter().product();
    let mut sizes = value.sizes.clone();
    sizes[axis] = length;
    let elements = if size * inner == 0 {
        Vec::new()
    } else {
        let rows = value.elements.chunks_exact(size * inner);
        rows.flat_map(|row| &row[start * inner..(start + length) * inner])
            .copied()
            .collect()
    };
    Some(Floats { sizes, elements })
}

fn tensor_floats(tensor: &TensorProto) -> Option<Floats> {
    let sizes = sizes(tensor)?;
    let count = element_count(&sizes)?;
    if tensor.data_type? != FLOAT || is_external(tensor) {
        return None;
    }
    let raw = tensor.raw_data.as_deref().unwrap_or_default();
    let elements: Vec<f32> = if raw.is_empty() {
        tensor.float_data.clone()
    } else {
        raw.as_chunks()
            .0
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect()
    };
    (elements.len() == count).then_some(Floats { sizes, elements })
}

/// Whether every element of a value is zero, whatever its sizes.
pub(crate) fn is_zero(scope: &Scope<'_>, name: &str) -> bool {
    is_zero_within(scope, name, MAXIMUM_STEPS)
}

fn is_zero_within(scope: &Scope<'_>, name: &str, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else {
        return false;
    };
    let positive_zero = |value: Floats| value.elements.iter().all(|element| element.to_bits() == 0);
    if let Some(value) = floats(scope, name) {
        return positive_zero(value);
    }
    let Some((scope, node, _)) = scope.producer(name) else {
        return false;
    };
    let input = || {
        node.input(0)
            .is_some_and(|name| is_zero_within(scope, name, steps))
    };
    match node.op() {
        _ if !node.domain().is_empty() => false,
        "Expand" | "Tile" | "Reshape" | "Squeeze" | "Unsqueeze" | "Identity" | "Transpose" => {
            input()
        }
        "ConstantOfShape" => match node.tensor("value") {
            Attribute::Absent => true,
            Attribute::Value(tensor) => tensor_floats(tensor).is_some_and(positive_zero),
            Attribute::Reference => false,
        },
        _ => false,
    }
}
