//! The constant ranges of a Slice.

use super::{ints, normal_axis};
use crate::model::{Attribute, NodeProto};
use crate::scope::Scope;

/// A Slice's range on an axis, as written: negative values still count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The axis.
    pub axis: i64,
    /// The index of the first element.
    pub start: i64,
    /// The index behind the last element.
    pub end: i64,
    /// The distance of two elements; negative to go backwards, never 0.
    pub step: i64,
}

/// A Slice's ranges, one for each axis it lists; `None` if they are not constant.
#[must_use]
pub fn ranges(scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<Range>> {
    ranges_by(node, |name| ints(scope, name))
}

/// A Slice's ranges, of inputs whose integers `integers` knows.
pub(crate) fn ranges_by(
    node: &NodeProto,
    integers: impl Fn(&str) -> Option<Vec<i64>>,
) -> Option<Vec<Range>> {
    // Before opset 10 all of them were attributes.
    let part = |index: usize, attribute: &str| match node.input(index) {
        Some(name) => Some(Some(integers(name)?)),
        None => match node.ints(attribute) {
            Attribute::Value(values) => Some(Some(values.to_vec())),
            Attribute::Absent => Some(None),
            Attribute::Reference => None,
        },
    };
    let (starts, ends) = (part(1, "starts")??, part(2, "ends")??);
    let axes = part(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = part(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    let lengths = [ends.len(), axes.len(), steps.len()];
    // ONNX Runtime takes these ends as "all" in both directions, ONNX's text only forwards.
    let is_all = |end: i64| end == i64::MAX || end == i64::from(i32::MAX);
    let is_open = |(&step, &end): (&i64, &i64)| step < 0 && is_all(end);
    if lengths != [starts.len(); 3]
        || steps.contains(&0)
        || std::iter::zip(&steps, &ends).any(is_open)
    {
        return None;
    }
    let ranges = (0..starts.len()).map(|index| Range {
        axis: axes[index],
        start: starts[index],
        end: ends[index],
        step: steps[index],
    });
    Some(ranges.collect())
}

impl Range {
    /// The index of the first element on an axis of this size, and the number of elements.
    #[must_use]
    pub fn on(&self, size: i64) -> (i64, i64) {
        // Nothing keeps a model from a negative size.
        let size = size.max(0);
        let from_front = |place: i64| {
            if place < 0 {
                place.saturating_add(size)
            } else {
                place
            }
        };
        let (start, end) = (from_front(self.start), from_front(self.end));
        let (start, count) = if self.step > 0 {
            let (start, end) = (start.clamp(0, size), end.clamp(0, size));
            (start, end - start)
        } else if size > 0 {
            // A start before the first element is that element.
            let (start, end) = (start.clamp(0, size - 1), end.clamp(-1, size - 1));
            (start, start - end)
        } else {
            (0, 0)
        };
        let count = count.max(0) as u64;
        (start, count.div_ceil(self.step.unsigned_abs()) as i64)
    }

    /// Whether it covers the whole of any axis, in order.
    pub(crate) fn is_whole(&self) -> bool {
        self.step == 1 && self.start == 0 && self.end >= i64::from(i32::MAX)
    }

    /// Whether it covers the whole of any axis, in reverse.
    pub(crate) fn is_flip(&self) -> bool {
        // Any start at or after the last element, any end before the first: sizes are below the
        // smallest of these.
        (self.start == -1 || self.start >= i64::from(i32::MAX))
            && self.end <= -i64::from(i32::MAX)
            && self.step == -1
    }
}

/// Ranges with steps of 1, on axes of these sizes: axis, start, end.
pub(crate) fn of_one(ranges: Vec<Range>, sizes: &[usize]) -> Option<Vec<(usize, usize, usize)>> {
    let ranges = ranges.into_iter().map(|range| {
        let axis = normal_axis(range.axis, sizes.len())?;
        let (start, count) = range.on(sizes[axis] as i64);
        (range.step == 1).then_some((axis, start as usize, (start + count) as usize))
    });
    ranges.collect()
}
