//! Conditions that are the same in every run: computed from ranks, declared sizes and constants.
//!
//! Each value has an element type and sizes. Where a result depends on anything else, as a number
//! that overflows depends on the runtime, nothing is known. Of floats, whole numbers are followed.

use crate::constant;
use crate::model::{Attribute, BOOL, INT32, INT64, NodeProto, TensorProto};
use crate::numbers::{self, MAXIMUM_ELEMENTS, Operation, cast, fitting};
use crate::scope::{Scope, Source};
use crate::sizes::{self, Size};
use crate::types;

/// The largest depth to which values are followed.
const MAXIMUM_DEPTH: usize = 64;

/// Number of values that are visited per query.
const MAXIMUM_VALUES: usize = 1024;

/// The truth value of a condition, if it is the same in every run.
#[must_use]
pub fn of(scope: &Scope<'_>, name: &str) -> Option<bool> {
    let mut left = MAXIMUM_VALUES;
    let condition = value(scope, name, MAXIMUM_DEPTH, &mut left)?;
    match condition.elements[..] {
        [truth] if condition.code == BOOL => Some(truth != 0),
        _ => None,
    }
}

/// A tensor of whole numbers, or of truth values as 0 and 1.
#[derive(Clone, Debug, PartialEq)]
struct Value {
    /// ONNX's code of the element type: bool, int32, int64 or float32.
    code: i32,
    sizes: Vec<usize>,
    /// The elements in row-major order.
    elements: Vec<i64>,
}

fn value(scope: &Scope<'_>, name: &str, depth: usize, left: &mut usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    *left = left.checked_sub(1)?;
    let found = match scope.source(name)? {
        (_, Source::Input(_)) => None,
        (_, Source::Initializer(tensor)) => Value::of(tensor),
        (scope, Source::Node { node, output: 0 }) if node.domain().is_empty() => {
            of_node(scope, node, depth, left)
        }
        _ => None,
    };
    found
        .or_else(|| one_size(scope, name))
        .filter(|found| is_small(&found.sizes))
}

/// Whether a tensor of these sizes is followed. Empty ones count by their other axes.
fn is_small(sizes: &[usize]) -> bool {
    let mut sizes = sizes.iter().map(|&size| size.max(1));
    let count = sizes.try_fold(1, usize::checked_mul);
    sizes.len() <= sizes::MAXIMUM_RANK && count.is_some_and(|count| count <= MAXIMUM_ELEMENTS)
}

/// A size that is the same in every run, as a tensor of one element.
fn one_size(scope: &Scope<'_>, name: &str) -> Option<Value> {
    let Size::Known(size) = sizes::scalar(scope, name)? else {
        return None;
    };
    Some(Value {
        code: types::of(scope, name).filter(|code| [INT32, INT64].contains(code))?,
        sizes: vec![1; sizes::rank(scope, name)?],
        elements: vec![size],
    })
}

fn of_node(scope: &Scope<'_>, node: &NodeProto, depth: usize, left: &mut usize) -> Option<Value> {
    let mut input = |index: usize| value(scope, node.input(index)?, depth, left);
    match node.op() {
        "Constant" => match node.tensor("value") {
            Attribute::Value(tensor) => Value::of(tensor),
            _ => {
                let found = constant::integers(scope, node.output.first()?)?;
                Some(Value {
                    code: INT64,
                    sizes: found.sizes,
                    elements: found.elements,
                })
            }
        },
        "Identity" => input(0),
        "Squeeze" => {
            let value = input(0)?;
            let sizes = constant::squeezed(&value.sizes, &constant::axes(scope, node)?)?;
            value.shaped(sizes)
        }
        "Unsqueeze" => {
            let value = input(0)?;
            let sizes = constant::unsqueezed(&value.sizes, &constant::axes(scope, node)?)?;
            value.shaped(sizes)
        }
        "Reshape" => {
            let allows_zero = node.int("allowzero").or(0)? != 0;
            input(0)?.reshaped(&input(1)?.elements, allows_zero)
        }
        "Flatten" => input(0)?.flattened(node.int("axis").or(1)?),
        "Cast" => input(0)?.cast(node.int("to").value()?.try_into().ok()?),
        "Shape" => {
            let axes = sizes::shape_axes(scope, node)?;
            let elements = axes.map(|axis| size(scope, node.input(0)?, axis));
            Some(Value::sizes(elements.collect::<Option<_>>()?))
        }
        "Size" => {
            let data = node.input(0)?;
            let mut axes = 0..sizes::rank(scope, data)?;
            let count =
                axes.try_fold(1_i64, |all, axis| all.checked_mul(size(scope, data, axis)?))?;
            Some(Value {
                sizes: Vec::new(),
                ..Value::sizes(vec![count])
            })
        }
        "Gather" => input(0)?.gathered(node.int("axis").or(0)?, &input(1)?),
        "Slice" => input(0)?.sliced(&constant::ranges(scope, node)?),
        "Concat" => {
            let parts = (0..node.input.len()).map(&mut input);
            Value::joined(
                &parts.collect::<Option<Vec<_>>>()?,
                node.int("axis").value()?,
            )
        }
        "Not" => {
            let value = input(0).filter(|value| value.code == BOOL)?;
            let elements = value.elements.iter().map(|&it| i64::from(it == 0));
            Some(Value {
                elements: elements.collect(),
                ..value
            })
        }
        op @ ("ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum") => {
            let is_none_all = node.int("noop_with_empty_axes").or(0)? == 0;
            let keeps = node.int("keepdims").or(1)? != 0;
            let value = input(0)?;
            let axes = match constant::axes(scope, node)? {
                axes if axes.is_empty() && is_none_all => (0..value.sizes.len()).collect(),
                axes => constant::normal_axes(&axes, value.sizes.len())?,
            };
            value.reduced(op, &axes, keeps)
        }
        op => {
            let operation = Operation::of(op, node)?;
            let mut result = input(0)?;
            for index in 1..node.input.len() {
                result = result.combined(&input(index)?, operation)?;
            }
            Some(result)
        }
    }
}

fn size(scope: &Scope<'_>, name: &str, axis: usize) -> Option<i64> {
    sizes::axis(scope, name, axis)?.number()
}

fn count(sizes: &[usize]) -> usize {
    sizes.iter().product()
}

impl Value {
    fn of(tensor: &TensorProto) -> Option<Self> {
        let sizes = constant::sizes(tensor).filter(|sizes| is_small(sizes))?;
        let code = tensor.data_type?;
        let elements = numbers::of_tensor(tensor)?;
        Some(Self {
            code,
            sizes,
            elements,
        })
    }

    /// A vector of sizes.
    fn sizes(elements: Vec<i64>) -> Self {
        Self {
            code: INT64,
            sizes: vec![elements.len()],
            elements,
        }
    }

    /// The same elements in another shape.
    fn shaped(self, sizes: Vec<usize>) -> Option<Self> {
        let fits = is_small(&sizes) && count(&sizes) == self.elements.len();
        fits.then_some(Self { sizes, ..self })
    }

    fn reshaped(self, shape: &[i64], allows_zero: bool) -> Option<Self> {
        let mut open = None;
        let mut sizes = Vec::new();
        for (axis, &size) in shape.iter().enumerate() {
            sizes.push(match size {
                -1 if open.is_none() => {
                    open = Some(axis);
                    1
                }
                0 if !allows_zero => *self.sizes.get(axis)?,
                size => usize::try_from(size).ok()?,
            });
        }
        if let Some(axis) = open {
            // An empty rest leaves the size open.
            let rest = is_small(&sizes).then(|| count(&sizes))?;
            sizes[axis] = self.elements.len().checked_div(rest)?;
        }
        self.shaped(sizes)
    }

    fn flattened(self, axis: i64) -> Option<Self> {
        let rank = self.sizes.len();
        let axis = if axis == rank as i64 {
            rank
        } else {
            constant::normal_axis(axis, rank)?
        };
        let (before, behind) = self.sizes.split_at(axis);
        let sizes = vec![count(before), count(behind)];
        self.shaped(sizes)
    }

    fn cast(self, code: i32) -> Option<Self> {
        let elements = self.elements.into_iter().map(|it| cast(code, it));
        let elements = elements.collect::<Option<_>>()?;
        Some(Self {
            code,
            elements,
            ..self
        })
    }

    fn gathered(self, axis: i64, indices: &Self) -> Option<Self> {
        let axis = constant::normal_axis(axis, self.sizes.len())?;
        let places = indices.elements.iter();
        let places = places.map(|&index| constant::normal_axis(index, self.sizes[axis]));
        let places: Vec<usize> = places.collect::<Option<_>>()?;
        let picked = self.picked(axis, &places);
        let mut sizes = picked.sizes.clone();
        sizes.splice(axis..=axis, indices.sizes.iter().copied());
        picked.shaped(sizes)
    }

    fn sliced(self, ranges: &[constant::Range]) -> Option<Self> {
        let mut value = self;
        for range in ranges {
            let axis = constant::normal_axis(range.axis, value.sizes.len())?;
            let (start, count) = range.on(value.sizes[axis] as i64);
            let places = (0..count).map(|index| usize::try_from(start + index * range.step).ok());
            value = value.picked(axis, &places.collect::<Option<Vec<_>>>()?);
        }
        Some(value)
    }

    /// The parts at some places along an axis.
    fn picked(&self, axis: usize, places: &[usize]) -> Self {
        let (size, inner) = (self.sizes[axis], count(&self.sizes[axis + 1..]));
        let outer = 0..count(&self.sizes[..axis]);
        let parts = outer.flat_map(|row| places.iter().map(move |place| row * size + place));
        let elements = parts.flat_map(|part| &self.elements[part * inner..(part + 1) * inner]);
        let mut sizes = self.sizes.clone();
        sizes[axis] = places.len();
        Self {
            code: self.code,
            sizes,
            elements: elements.copied().collect(),
        }
    }

    fn joined(parts: &[Self], axis: i64) -> Option<Self> {
        let first = parts.first()?;
        let axis = constant::normal_axis(axis, first.sizes.len())?;
        let others = |part: &Self| {
            let mut sizes = part.sizes.clone();
            (axis < sizes.len()).then(|| sizes.remove(axis))?;
            Some((part.code, sizes))
        };
        let alike = others(first)?;
        if parts
            .iter()
            .any(|part| others(part).as_ref() != Some(&alike))
        {
            return None;
        }
        let mut sizes = first.sizes.clone();
        sizes[axis] = parts.iter().map(|part| part.sizes[axis]).sum();
        let mut elements = Vec::new();
        for row in 0..count(&sizes[..axis]) {
            for part in parts {
                let length = count(&part.sizes[axis..]);
                elements.extend(&part.elements[row * length..(row + 1) * length]);
            }
        }
        Some(Self {
            code: first.code,
            sizes,
            elements,
        })
    }

    fn reduced(&self, op: &str, axes: &[usize], keeps: bool) -> Option<Self> {
        let along = |axis: usize| {
            if axes.contains(&axis) {
                1
            } else {
                self.sizes[axis]
            }
        };
        let sizes: Vec<usize> = (0..self.sizes.len()).map(along).collect();
        let mut elements: Vec<Option<i64>> = vec![None; count(&sizes)];
        for (index, &element) in self.elements.iter().enumerate() {
            let result = &mut elements[broadcast_index(&sizes, &self.sizes, index)];
            *result = Some(match (*result, op) {
                (None, _) => element,
                (Some(before), "ReduceMax") => before.max(element),
                (Some(before), "ReduceMin") => before.min(element),
                (Some(before), "ReduceProd") => fitting(self.code, before.checked_mul(element)?)?,
                (Some(before), _) => fitting(self.code, before.checked_add(element)?)?,
            });
        }
        let of_nothing = match op {
            "ReduceSum" => Some(0),
            "ReduceProd" => Some(1),
            // The type's last number, or an error.
            _ => None,
        };
        // The runtime chooses the order of a sum of floats.
        let has_numbers = [INT32, INT64].contains(&self.code) || of_nothing.is_none();
        let elements = elements.into_iter().map(|element| element.or(of_nothing));
        let reduced = Self {
            code: self.code,
            elements: elements.collect::<Option<_>>().filter(|_| has_numbers)?,
            sizes,
        };
        let kept = (0..self.sizes.len()).filter(|axis| keeps || !axes.contains(axis));
        let sizes = kept.map(|axis| reduced.sizes[axis]).collect();
        reduced.shaped(sizes)
    }

    fn combined(&self, other: &Self, operation: Operation) -> Option<Self> {
        let rank = self.sizes.len().max(other.sizes.len());
        let size = |value: &Self, axis: usize| {
            let own = (axis + value.sizes.len()).checked_sub(rank);
            own.map_or(1, |axis| value.sizes[axis])
        };
        let sizes = (0..rank).map(|axis| match (size(self, axis), size(other, axis)) {
            (1, size) | (size, 1) => Some(size),
            (size, same) => (size == same).then_some(size),
        });
        let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
        if self.code != other.code || !is_small(&sizes) {
            return None;
        }
        let at = |value: &Self, index| value.elements[broadcast_index(&value.sizes, &sizes, index)];
        let elements = (0..count(&sizes))
            .map(|index| operation.on(self.code, at(self, index), at(other, index)));
        let elements = elements.collect::<Option<_>>()?;
        let code = match operation {
            Operation::Numbers(_) | Operation::Integers(_) => self.code,
            _ => BOOL,
        };
        Some(Self {
            code,
            sizes,
            elements,
        })
    }
}

/// The index, in a tensor that is broadcast, of an element of the result.
fn broadcast_index(sizes: &[usize], result: &[usize], index: usize) -> usize {
    let (mut rest, mut stride, mut place) = (index, 1, 0);
    for (from_end, &size) in result.iter().rev().enumerate() {
        let own = sizes
            .len()
            .checked_sub(from_end + 1)
            .map_or(1, |axis| sizes[axis]);
        if own != 1 {
            place += rest % size * stride;
        }
        rest /= size;
        stride *= own;
    }
    place
}
