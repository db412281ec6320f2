//! Values that are provably the same in every run.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::model::{
    Attribute, BFLOAT16, BOOL, DOUBLE, FLOAT, FLOAT16, INT8, INT16, INT32, INT64, NodeProto,
    TensorProto, UINT8, UINT16, UINT32, UINT64,
};
use crate::scope::{Scope, Source};
use crate::tensor;

mod ranges;

pub use ranges::{Range, ranges};
pub(crate) use ranges::{of_one, ranges_by};

/// Number of values that are followed one after another, so that no model takes long or recurses
/// deeply.
const MAXIMUM_STEPS: usize = 64;

/// The most elements that are followed through nodes.
const MAXIMUM_ELEMENTS: usize = 1 << 28;

/// A tensor of float32.
#[derive(Clone, Debug, PartialEq)]
pub struct Floats {
    /// Its shape; empty for a scalar.
    pub sizes: Vec<usize>,
    /// The elements in row-major order.
    pub elements: Vec<f32>,
}

impl Floats {
    /// The transpose of a matrix.
    ///
    /// # Panics
    /// There are fewer than `rows * columns` elements.
    #[must_use]
    pub fn transposed(&self, rows: usize, columns: usize) -> Self {
        let column = |column| (0..rows).map(move |row| self.elements[row * columns + column]);
        Self {
            sizes: vec![columns, rows],
            elements: (0..columns).flat_map(column).collect(),
        }
    }

    /// Encodes it as a tensor message.
    #[must_use]
    pub fn to_tensor(&self) -> TensorProto {
        let elements = self.elements.iter();
        TensorProto {
            dims: self.sizes.iter().map(|&size| size as i64).collect(),
            data_type: Some(FLOAT),
            raw_data: Some(elements.flat_map(|element| element.to_le_bytes()).collect()),
            ..TensorProto::default()
        }
    }
}

/// A value's tensor: an initializer that nothing can replace, or a node's constant.
pub fn tensor<'a>(scope: &'a Scope<'a>, name: &str) -> Option<&'a TensorProto> {
    match scope.source(name)?.1 {
        Source::Initializer(tensor) => Some(tensor),
        Source::Node { node, .. } if node.is("Constant") => node.tensor("value").value(),
        _ => None,
    }
}

/// A tensor of int32 or int64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers {
    /// Its shape; empty for a scalar.
    pub sizes: Vec<usize>,
    /// The elements in row-major order.
    pub elements: Vec<i64>,
}

/// A value's integers, with their sizes: a constant, or one that Identity, Cast or Concat makes of
/// constants.
#[must_use]
pub fn integers(scope: &Scope<'_>, name: &str) -> Option<Integers> {
    integers_within(scope, name, MAXIMUM_STEPS)
}

/// A value's integers, row-major, whatever its shape.
#[must_use]
pub fn ints(scope: &Scope<'_>, name: &str) -> Option<Vec<i64>> {
    Some(integers(scope, name)?.elements)
}

fn integers_within(scope: &Scope<'_>, name: &str, steps: usize) -> Option<Integers> {
    let steps = steps.checked_sub(1)?;
    if let Some(tensor) = tensor(scope, name) {
        return tensor_ints(tensor);
    }
    let (scope, node, _) = scope.producer(name)?;
    match node.op() {
        _ if !node.domain().is_empty() => None,
        "Constant" => match (node.int("value_int"), node.ints("value_ints")) {
            (Attribute::Value(value), _) => Some(Integers {
                sizes: Vec::new(),
                elements: vec![value],
            }),
            (_, Attribute::Value(values)) => Some(Integers {
                sizes: vec![values.len()],
                elements: values.to_vec(),
            }),
            _ => None,
        },
        "Identity" => integers_within(scope, node.input(0)?, steps),
        "Squeeze" => {
            let value = integers_within(scope, node.input(0)?, steps / 2)?;
            let sizes = squeezed(&value.sizes, &axes_within(scope, node, steps / 2)?)?;
            Some(Integers { sizes, ..value })
        }
        "Unsqueeze" => {
            let value = integers_within(scope, node.input(0)?, steps / 2)?;
            let sizes = unsqueezed(&value.sizes, &axes_within(scope, node, steps / 2)?)?;
            Some(Integers { sizes, ..value })
        }
        // Concatenates vectors.
        "Concat" => {
            let mut elements = Vec::new();
            for part in node.inputs() {
                let part = integers_within(scope, part, steps / 2)?;
                if part.sizes.len() != 1 {
                    return None;
                }
                elements.extend(part.elements);
            }
            let sizes = vec![elements.len()];
            Some(Integers { sizes, elements })
        }
        "Cast" if matches!(node.int("to"), Attribute::Value(to) if to == i64::from(INT32) || to == i64::from(INT64)) =>
        {
            let value = integers_within(scope, node.input(0)?, steps)?;
            let mut elements = value.elements.iter();
            let fits = elements.all(|&element| i32::try_from(element).is_ok());
            fits.then_some(value)
        }
        _ => None,
    }
}

/// The integers in a tensor of int32 or int64, unless they are in another file.
#[must_use]
pub fn tensor_ints(tensor: &TensorProto) -> Option<Integers> {
    let (sizes, bytes) = data(tensor)?;
    let elements = match tensor.code() {
        INT64 => Vec::from_iter(bytes.as_chunks().0.iter().map(|&it| i64::from_le_bytes(it))),
        INT32 => {
            let (elements, _) = bytes.as_chunks();
            Vec::from_iter(elements.iter().map(|&it| i32::from_le_bytes(it).into()))
        }
        _ => return None,
    };
    Some(Integers { sizes, elements })
}

/// The sizes of a tensor, and its elements as little-endian bytes.
fn data(tensor: &TensorProto) -> Option<(Vec<usize>, Cow<'_, [u8]>)> {
    let sizes = sizes(tensor)?;
    element_count(&sizes)?;
    Some((sizes, tensor::bytes(tensor).ok()?))
}

/// The truth values in a tensor, or the numbers in it as truth values, row-major; `None` if one is
/// neither 0 nor 1.
#[must_use]
pub fn truths(tensor: &TensorProto) -> Option<Vec<bool>> {
    // The bits of 1.
    let one: u64 = match tensor.code() {
        BOOL | INT8 | UINT8 | INT16 | UINT16 | INT32 | UINT32 | INT64 | UINT64 => 1,
        FLOAT16 => 0x3c00,
        BFLOAT16 => 0x3f80,
        FLOAT => 1_f32.to_bits().into(),
        DOUBLE => 1_f64.to_bits(),
        _ => return None,
    };
    let (_, bytes) = data(tensor)?;
    let truths = bytes
        .chunks(tensor::element_size(tensor.code())?)
        .map(|element| {
            let bytes = element.iter().rev();
            let bits = bytes.fold(0, |bits, &byte| bits << 8 | u64::from(byte));
            (bits == 0 || bits == one).then_some(bits != 0)
        });
    truths.collect()
}

/// The sizes of a Constant's output.
pub(crate) fn constant_sizes(node: &NodeProto) -> Option<Vec<i64>> {
    let attribute = node.attribute.first()?;
    match attribute.name.as_deref()? {
        "value" => Some(attribute.t.as_option()?.dims.clone()),
        "value_int" | "value_float" | "value_string" => Some(Vec::new()),
        "value_ints" => Some(vec![attribute.ints.len() as i64]),
        "value_floats" => Some(vec![attribute.floats.len() as i64]),
        "value_strings" => Some(vec![attribute.strings.len() as i64]),
        _ => None,
    }
}

/// The shape of a tensor; `None` if a size is negative.
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

/// A value's integer, if it has exactly one.
#[must_use]
pub fn int(scope: &Scope<'_>, name: &str) -> Option<i64> {
    match ints(scope, name)?.as_slice() {
        &[value] => Some(value),
        _ => None,
    }
}

/// The whole number in a constant of one element, of an integer type or float32.
#[must_use]
pub fn whole_number(scope: &Scope<'_>, name: &str) -> Option<i64> {
    // Floats hold every integer below this exactly.
    const EXACT: f32 = 16_777_216.0;
    int(scope, name).or_else(|| match floats(scope, name)?.elements[..] {
        [number] if number.fract() == 0.0 && number.abs() < EXACT => Some(number as i64),
        _ => None,
    })
}

/// A value's float32 tensor: a constant, or a part or another view of one.
#[must_use]
pub fn floats(scope: &Scope<'_>, name: &str) -> Option<Floats> {
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
            let value = input()?;
            let sizes = squeezed(&value.sizes, &axes(scope, node)?)?;
            Some(Floats { sizes, ..value })
        }
        "Unsqueeze" => {
            let value = input()?;
            let sizes = unsqueezed(&value.sizes, &axes(scope, node)?)?;
            Some(Floats { sizes, ..value })
        }
        "Reshape" => reshaped(input()?, &ints(scope, node.input(1)?)?),
        "Expand" => expanded(input()?, &ints(scope, node.input(1)?)?),
        "Transpose" => {
            let value = input()?;
            let &[rows, columns] = value.sizes.as_slice() else {
                return None;
            };
            let is_turn = node.ints("perm").or(&[1, 0])? == [1, 0];
            is_turn.then(|| value.transposed(rows, columns))
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
            for (axis, start, end) in of_one(ranges(scope, node)?, &value.sizes)? {
                value = part(&value, axis, start, end.saturating_sub(start))?;
            }
            Some(value)
        }
        _ => None,
    }
}

/// The same elements with another shape.
fn reshaped(value: Floats, shape: &[i64]) -> Option<Floats> {
    let count = value.elements.len();
    let listed = shape.iter().filter(|&&size| size != -1);
    let listed = listed.map(|&size| usize::try_from(size).ok().filter(|&size| size > 0));
    let listed = element_count(&listed.collect::<Option<Vec<_>>>()?)?;
    let sizes: Vec<usize> = shape
        .iter()
        .map(|&size| usize::try_from(size).unwrap_or(count / listed))
        .collect();
    (element_count(&sizes)? == count).then_some(Floats { sizes, ..value })
}

/// Expand, if it only adds axes of size 1.
fn expanded(value: Floats, shape: &[i64]) -> Option<Floats> {
    let rank = value.sizes.len().max(shape.len());
    let from_end = |from_end: usize, sizes: &[usize]| {
        sizes
            .len()
            .checked_sub(from_end)
            .map_or(1, |axis| sizes[axis])
    };
    let shape: Vec<usize> = shape
        .iter()
        .map(|&size| usize::try_from(size).ok())
        .collect::<Option<_>>()?;
    let sizes = (1..=rank).rev().map(|axis| {
        let (old, new) = (from_end(axis, &value.sizes), from_end(axis, &shape));
        (new == 1 || new == old).then_some(old)
    });
    let sizes = sizes.collect::<Option<_>>()?;
    Some(Floats { sizes, ..value })
}

/// The axes that a node such as Squeeze lists; empty if it lists none, which most operators read as
/// all possible ones; `None` if they are not constant.
#[must_use]
pub fn axes(scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<i64>> {
    axes_within(scope, node, MAXIMUM_STEPS)
}

fn axes_within(scope: &Scope<'_>, node: &NodeProto, steps: usize) -> Option<Vec<i64>> {
    match (node.input(1), node.ints("axes")) {
        (Some(name), _) => Some(integers_within(scope, name, steps)?.elements),
        (None, axes) => axes.or(&[]).map(<[i64]>::to_vec),
    }
}

/// Returns the sizes after a Squeeze of these axes, or of all of size 1 if there are none; `None`
/// if it is invalid.
#[must_use]
pub fn squeezed(sizes: &[usize], axes: &[i64]) -> Option<Vec<usize>> {
    let all = 0..sizes.len();
    let removed: Vec<usize> = match axes {
        [] => all.clone().filter(|&axis| sizes[axis] == 1).collect(),
        axes => normal_axes(axes, sizes.len())?,
    };
    if removed.iter().any(|&axis| sizes[axis] != 1) {
        return None;
    }
    let kept = all.filter(|axis| !removed.contains(axis));
    Some(kept.map(|axis| sizes[axis]).collect())
}

/// Returns the sizes after an Unsqueeze; `None` if it is invalid.
#[must_use]
pub fn unsqueezed(sizes: &[usize], axes: &[i64]) -> Option<Vec<usize>> {
    let rank = sizes.len() + axes.len();
    let mut added = normal_axes(axes, rank)?;
    added.sort_unstable();
    let mut sizes = sizes.to_vec();
    for axis in added {
        sizes.insert(axis, 1);
    }
    Some(sizes)
}

/// An axis counted from the front, of as many as `rank`; `None` if there is no such axis.
#[must_use]
pub fn normal_axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 {
        axis.checked_add(rank as i64)?
    } else {
        axis
    };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Axes counted from the front; `None` if one is listed twice.
#[must_use]
pub fn normal_axes(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let mut seen = HashSet::new();
    let axes = axes.iter().map(|&axis| normal_axis(axis, rank));
    axes.map(|axis| axis.filter(|&axis| seen.insert(axis)))
        .collect()
}

/// The start and length of an output of Split, on an axis of this size.
#[must_use]
pub fn split_part(
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
        // Opset 18 allows a shorter last part; only equal parts are accepted here.
        let parts = node.output.len();
        return (output < parts && size.is_multiple_of(parts))
            .then(|| (output * (size / parts), size / parts));
    };
    let lengths: Vec<usize> = lengths
        .iter()
        .map(|&length| usize::try_from(length).ok())
        .collect::<Option<_>>()?;
    let total = lengths
        .iter()
        .try_fold(0_usize, |sum, &length| sum.checked_add(length))?;
    let start = lengths.get(..output)?.iter().sum();
    (total == size).then_some((start, *lengths.get(output)?))
}

/// A range along an axis of a tensor; `None` if it has no such range.
#[must_use]
pub fn part(value: &Floats, axis: usize, start: usize, length: usize) -> Option<Floats> {
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

pub(crate) fn tensor_floats(tensor: &TensorProto) -> Option<Floats> {
    let (sizes, bytes) = data(tensor).filter(|_| tensor.code() == FLOAT)?;
    let (elements, _) = bytes.as_chunks();
    let elements = elements.iter().map(|&it| f32::from_le_bytes(it)).collect();
    Some(Floats { sizes, elements })
}

/// Whether every element of a value is +0, whatever its shape.
#[must_use]
pub fn is_zero(scope: &Scope<'_>, name: &str) -> bool {
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
        "Expand" | "Gather" | "Identity" | "Reshape" | "Slice" | "Squeeze" | "Tile"
        | "Transpose" | "Unsqueeze" => input(),
        "ConstantOfShape" => match node.tensor("value") {
            Attribute::Absent => true,
            Attribute::Value(tensor) => tensor_floats(tensor).is_some_and(positive_zero),
            Attribute::Reference => false,
        },
        _ => false,
    }
}
