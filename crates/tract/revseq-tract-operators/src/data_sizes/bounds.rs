//! ONNX's rule for the bounds of a Slice, for sizes that are numbers and for sizes that are not.
//!
//! With numbers, [`positions`] is the rule itself. Otherwise [`extent`] finds an expression that
//! has the rule's value for every size, or says that it knows none; the tests compare both. The
//! form of the expression matters, since tract compares sizes as expressions.
//!
//! ```text
//! x[-5:] of T elements: min(T,5); x[1:] of T + 1 elements: from 1 to T + 1, T elements
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::dims::{is_not_negative, least, most};

/// Larger than any axis: exporters write this, or more, for the end of an axis.
pub(super) const BEYOND: i64 = 1_000_000_000;

/// The first position of ONNX's Slice along an axis, and the number of positions.
///
/// A negative bound counts from the end; bounds beyond the axis are clamped. Backwards, the largest
/// int32 and int64 are an end before the first element, as in ONNX Runtime.
pub(super) fn positions(start: i64, end: i64, step: i64, size: i64) -> (i64, i64) {
    let from_first = |bound: i64| {
        if bound < 0 {
            bound.saturating_add(size)
        } else {
            bound
        }
    };
    let (least, most) = if step > 0 { (0, size) } else { (-1, size - 1) };
    // Backwards, the first position is within the axis.
    let start = from_first(start).clamp(0, most.max(0));
    let end = if step < 0 && is_open(end) {
        least
    } else {
        from_first(end).clamp(least, most)
    };
    let span = if step > 0 { end - start } else { start - end };
    let step = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
    let count = if size == 0 { 0 } else { span.max(0) };
    (start, count / step + i64::from(count % step != 0))
}

/// Whether an end is that of the axis in both directions.
fn is_open(end: i64) -> bool {
    end == i64::MAX || end == i64::from(i32::MAX)
}

/// The elements that a Slice takes along an axis, by expressions that hold for every size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All elements between two positions that lie within the axis.
    Within(TDim, TDim),
    /// A number of elements.
    Count(TDim),
}

/// A bound, counted such that only one side of the axis remains to be clamped to.
#[derive(Clone, Debug)]
enum Bound {
    /// Number of elements from the first one; not negative.
    First(TDim),
    /// Number of elements back from the end; not negative.
    Last(TDim),
}

impl Bound {
    /// `None` if it may be either.
    fn new(bound: &TDim, size: &TDim) -> Option<Self> {
        if let Ok(bound) = bound.to_i64() {
            return Some(match bound {
                BEYOND.. => Self::Last(0.to_dim()),
                0.. => Self::First(bound.to_dim()),
                // No axis is longer.
                _ => Self::Last(bound.max(-i64::MAX).unsigned_abs().min(1 << 40).to_dim()),
            });
        }
        match (bound.clone() - size).to_i64() {
            Ok(0..) => return Some(Self::Last(0.to_dim())),
            // Also if the size is 0.
            Ok(-1) => return Some(Self::Last(1.to_dim())),
            _ => {}
        }
        if is_not_negative(bound) {
            return Some(Self::First(bound.clone()));
        }
        let back = -bound.clone();
        least(&back)
            .is_some_and(|it| it > 0)
            .then_some(Self::Last(back))
    }
}

/// The elements that a Slice takes along an axis of any size; `None` if no expression says it.
///
/// Symbols stand for sizes, and so for no negative number.
pub(super) fn extent(start: &TDim, end: &TDim, step: i64, size: &TDim) -> Option<Extent> {
    if let (Ok(start), Ok(end), Ok(size)) = (start.to_i64(), end.to_i64(), size.to_i64()) {
        let (first, count) = positions(start, end, step, size);
        return Some(match (step, count) {
            (_, 0) => Extent::Within(0.to_dim(), 0.to_dim()),
            (1, _) | (_, 1) => Extent::Within(first.to_dim(), (first + count).to_dim()),
            _ => Extent::Count(count.to_dim()),
        });
    }
    let (starts, ends) = if step > 0 {
        forwards(start, end, size)?
    } else {
        backwards(start.to_i64().ok()?, end.to_i64().ok()?, size)
    };
    // The span is the smallest of these, or 0 if that is negative.
    let mut spans: Vec<(TDim, TDim, TDim)> = vec![];
    for start in &starts {
        for end in &ends {
            let span = match step {
                1.. => end.clone() - start,
                _ => start.clone() - end,
            };
            let is_less = |a: &TDim, b: &TDim| is_not_negative(&(b.clone() - a));
            if spans.iter().any(|(known, ..)| is_less(known, &span)) {
                continue;
            }
            spans.retain(|(known, ..)| !is_less(&span, known));
            spans.push((span, start.clone(), end.clone()));
        }
    }
    if spans
        .iter()
        .any(|(span, ..)| most(span).is_some_and(|it| it <= 0))
    {
        return Some(Extent::Within(0.to_dim(), 0.to_dim()));
    }
    if let ([(span, start, end)], 1) = (&*spans, step)
        && is_not_negative(span)
    {
        return Some(Extent::Within(start.clone(), end.clone()));
    }
    let is_clamped = !spans.iter().all(|(span, ..)| is_not_negative(span));
    let mut spans = spans.into_iter().map(|(span, ..)| span);
    let first = spans.next()?;
    let span = spans.fold(first, TDim::mini);
    let span = if is_clamped {
        span.maxi(0.to_dim())
    } else {
        span
    };
    Some(Extent::Count(match step {
        1 | -1 => span,
        _ => span.divceil(usize::try_from(step.unsigned_abs()).ok()?),
    }))
}

/// The first position is the largest of the first ones, the end the smallest of the second ones,
/// as far as both are within the axis.
fn forwards(start: &TDim, end: &TDim, size: &TDim) -> Option<(Vec<TDim>, Vec<TDim>)> {
    let starts = match Bound::new(start, size)? {
        Bound::First(start) => vec![start],
        Bound::Last(back) => vec![size.clone() - back, 0.to_dim()],
    };
    let ends = match Bound::new(end, size)? {
        Bound::First(end) => vec![size.clone(), end],
        Bound::Last(back) => vec![size.clone() - back],
    };
    Some((starts, ends))
}

/// The same for a negative step, with the smallest first and the largest second.
fn backwards(start: i64, end: i64, size: &TDim) -> (Vec<TDim>, Vec<TDim>) {
    let last = size.clone() - 1;
    let before = (-1).to_dim();
    let starts = match start {
        BEYOND.. | -1 => vec![last],
        0.. => vec![last, start.to_dim()],
        // Nothing is left of an empty axis: a span is no longer than the axis.
        _ => {
            let back = start.max(-BEYOND).to_dim();
            vec![(size.clone() + back).maxi(0.to_dim()), last]
        }
    };
    let ends = match end {
        _ if is_open(end) || end <= -BEYOND => vec![before],
        0.. => vec![end.min(BEYOND).to_dim()],
        _ => vec![size.clone() + end, before],
    };
    (starts, ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_onnx_runtime() {
        for (start, end, step, size, expected) in [
            (0, 3, 1, 5, (0, 3)),
            (1, 1_000_000_000, 1, 5, (1, 4)),
            (-2, i64::MAX, 1, 5, (3, 2)),
            (-9, 2, 1, 5, (0, 2)),
            (3, 2, 1, 5, (3, 0)),
            (7, 9, 1, 5, (5, 0)),
            (0, -1, 1, 5, (0, 4)),
            (0, 5, 2, 5, (0, 3)),
            (1, 5, 1_000_000_000, 5, (1, 1)),
            (4, i64::MIN, -1, 5, (4, 5)),
            (9, -9, -2, 5, (4, 3)),
            (1, 3, -1, 5, (1, 0)),
            (-1, 0, -1, 5, (4, 4)),
            (-1, i64::MAX, -1, 5, (4, 5)),
            (0, 3, 1, 0, (0, 0)),
            (0, i64::MIN, -1, 0, (0, 0)),
        ] {
            let found = positions(start, end, step, size);
            assert_eq!(found, expected, "{start}:{end}:{step} of {size}");
        }
    }

    /// Bounds of all kinds, around a size of 4 and far from any.
    const BOUNDS: [i64; 16] = [
        0,
        1,
        3,
        4,
        5,
        9,
        BEYOND,
        i32::MAX as i64,
        i64::MAX,
        -1,
        -2,
        -4,
        -5,
        -9,
        -BEYOND,
        i64::MIN,
    ];

    #[test]
    fn expressions_hold_for_every_size() {
        let scope = SymbolScope::default();
        let symbol = scope.sym("N");
        for size in [symbol.to_dim(), symbol.to_dim() + 2, symbol.to_dim() * 3] {
            for (start, end) in BOUNDS.iter().flat_map(|a| BOUNDS.map(|b| (*a, b))) {
                for step in [1, 2, 3, BEYOND, -1, -2, -BEYOND] {
                    let extent = extent(&start.to_dim(), &end.to_dim(), step, &size);
                    let extent = extent.expect("bounds that are numbers");
                    for number in 0..12 {
                        let values = SymbolValues::default().with(&symbol, number);
                        let value = |it: &TDim| it.eval(&values).to_i64().unwrap();
                        let (first, count) = positions(start, end, step, value(&size));
                        let at = format!("{start}:{end}:{step} of {size} = {}", value(&size));
                        match &extent {
                            Extent::Count(found) => assert_eq!(value(found), count, "{at}"),
                            Extent::Within(from, to) => {
                                assert_eq!(value(to) - value(from), count, "{at}");
                                assert!(count == 0 || value(from) == first, "{at}");
                                assert!((0..=value(&size)).contains(&value(from)), "{at}");
                                assert!(value(to) <= value(&size), "{at}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn symbolic_bounds_hold_for_every_value() {
        let scope = SymbolScope::default();
        let [n, t] = ["N", "T"].map(|name| scope.sym(name));
        let [size, other] = [&n, &t].map(Symbol::to_dim);
        let bounds = [
            0.to_dim(),
            1.to_dim(),
            (-2).to_dim(),
            i64::MAX.to_dim(),
            size.clone(),
            size.clone() - 1,
            size.clone() - 3,
            size.clone() + 2,
            other.clone(),
            other.clone() - 1,
            other.clone() + 1,
            other.clone() + &size,
            -other.clone() - 1,
        ];
        let mut unknown = 0;
        for (start, end) in bounds
            .iter()
            .flat_map(|a| bounds.iter().map(move |b| (a, b)))
        {
            let Some(extent) = extent(start, end, 1, &size) else {
                unknown += 1;
                continue;
            };
            for (a, b) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))) {
                let values = SymbolValues::default().with(&n, a).with(&t, b);
                let value = |it: &TDim| it.eval(&values).to_i64().unwrap();
                let (first, count) = positions(value(start), value(end), 1, a);
                let at = format!("{start}:{end} of {size} = {a}, T = {b}");
                match &extent {
                    Extent::Count(found) => assert_eq!(value(found), count, "{at}"),
                    Extent::Within(from, to) => {
                        assert_eq!(value(to) - value(from), count, "{at}");
                        assert!(count == 0 || value(from) == first, "{at}");
                    }
                }
            }
        }
        // Only those that may count from either end.
        assert_eq!(unknown, 2 * bounds.len() * 2 - 4);
    }

    #[test]
    fn usual_slices_have_plain_sizes() {
        let scope = SymbolScope::default();
        let size = scope.sym("T").to_dim();
        let count = |start: i64, end: i64, step: i64, size: &TDim| {
            let extent = extent(&start.to_dim(), &end.to_dim(), step, size).unwrap();
            match extent {
                Extent::Within(from, to) => format!("{}", to - from),
                Extent::Count(count) => format!("{count}"),
            }
        };
        let longer = size.clone() + 1;
        for (found, expected) in [
            (count(0, i64::MAX, 1, &size), "T"),
            (count(1, i64::MAX, 1, &longer), "T"),
            (count(0, -1, 1, &longer), "T"),
            (count(-1, i64::MAX, 1, &longer), "1"),
            (count(0, 1, 1, &longer), "1"),
            (count(5, 5, 1, &size), "0"),
            (count(7, 5, 1, &size), "0"),
            (count(-1, i64::MIN, -1, &size), "T"),
            (count(0, i64::MAX, 2, &size), "(T+1)/2"),
            (count(0, 100, 1, &size), "min(T,100)"),
            (count(-5, i64::MAX, 1, &size), "min(T,5)"),
        ] {
            assert_eq!(found, expected);
        }
    }
}
