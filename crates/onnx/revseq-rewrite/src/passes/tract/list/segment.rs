//! Lists as segments: single tensors, and tensors that are cut along an axis.

use crate::constant;
use crate::model::NodeProto;
use crate::passes::axis_from_front;
use crate::scope::Scope;
use crate::sizes::{self, Size};

/// Number of nodes through which a list is followed.
const MAXIMUM_STEPS: usize = 256;

/// Number of elements that are known one by one.
const MAXIMUM_ELEMENTS: usize = 1024;

/// The operators that make lists.
const MAKERS: &[&str] = &[
    "Identity",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SplitToSequence",
];

/// An element of a list.
#[derive(Clone)]
pub(crate) enum Element<'a> {
    Value(&'a str),
    /// A slice of a value.
    Part {
        value: &'a str,
        axis: i64,
        start: i64,
        end: i64,
        /// Whether the axis stays.
        keeps: bool,
    },
}

/// A value that is cut along an axis.
#[derive(Clone)]
pub(crate) struct Cut<'a> {
    pub(super) value: &'a str,
    pub(super) axis: i64,
    pub(super) parts: PartLengths<'a>,
    /// Whether the axis stays.
    pub(super) keeps: bool,
    /// The length of the axis, if it is known.
    size: Option<i64>,
}

/// The lengths of the parts of a value.
#[derive(Clone, Copy)]
pub(crate) enum PartLengths<'a> {
    /// Parts of this length, but for a shorter last one.
    Of(i64),
    /// Parts of length 1, as many as a vector has elements.
    Ones(&'a str),
    /// Parts of the lengths that a vector lists.
    Listed(&'a str),
}

/// Consecutive elements of a list.
#[derive(Clone)]
pub(crate) enum Segment<'a> {
    One(Element<'a>),
    Cut(Cut<'a>),
}

/// Whether a node makes a list.
pub(crate) fn makes(node: &NodeProto) -> bool {
    node.domain().is_empty() && MAKERS.contains(&node.op())
}

/// The segments of a list, in order, in values that a graph sees.
pub(crate) fn segments<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Vec<Segment<'a>>> {
    within(scope, name, MAXIMUM_STEPS)
}

fn within<'a>(scope: &'a Scope<'a>, name: &str, steps: usize) -> Option<Vec<Segment<'a>>> {
    let steps = steps.checked_sub(1)?;
    let (maker, node, _) = scope.producer(name).filter(|(_, node, _)| makes(node))?;
    let list = || within(maker, node.input(0)?, steps);
    let segments = match node.op() {
        "SequenceEmpty" => Vec::new(),
        "SequenceConstruct" => node
            .inputs()
            .map(|it| Segment::One(Element::Value(it)))
            .collect(),
        "Identity" => list()?,
        "SequenceInsert" => {
            let mut list = list()?;
            let at = match node.input(2) {
                None => list.len(),
                Some(name) => place(&mut list, constant::int(maker, name)?, 1)?,
            };
            list.insert(at, Segment::One(Element::Value(node.input(1)?)));
            list
        }
        "SequenceErase" => {
            let mut list = list()?;
            let at = match node.input(1) {
                None => -1,
                Some(name) => constant::int(maker, name)?,
            };
            let at = place(&mut list, at, 0)?;
            list.remove(at);
            list
        }
        _ => split(maker, node)?,
    };
    let mut values = segments.iter().flat_map(Segment::values);
    let is_seen = values.all(|value| scope.sees(maker, value));
    (is_seen && segments.len() <= MAXIMUM_ELEMENTS).then_some(segments)
}

/// The segment at an index of the list, or before which an element at that index comes if the index
/// may be as large as the list's length. The segments become elements if that is needed to tell.
fn place(list: &mut Vec<Segment<'_>>, at: i64, beyond: usize) -> Option<usize> {
    let is_one = |segment: &Segment<'_>| matches!(segment, Segment::One(_));
    let distance = usize::try_from(if at < 0 { at.checked_neg()? } else { at }).ok()?;
    let place_in = |list: &[Segment<'_>]| {
        let place = match at < 0 {
            true => list.len().checked_sub(distance)?,
            false => Some(distance).filter(|&at| at < list.len() + beyond)?,
        };
        let mut passed = match at < 0 {
            true => list[place..].iter(),
            false => list[..(place + 1 - beyond).min(list.len())].iter(),
        };
        passed.all(is_one).then_some(place)
    };
    if let Some(place) = place_in(list) {
        return Some(place);
    }
    *list = elements(list)?.into_iter().map(Segment::One).collect();
    place_in(list)
}

/// The elements, if they are the same in every run.
pub(crate) fn elements<'a>(list: &[Segment<'a>]) -> Option<Vec<Element<'a>>> {
    let mut all = Vec::new();
    for segment in list {
        match segment {
            Segment::One(element) => all.push(element.clone()),
            Segment::Cut(cut) => {
                let (PartLengths::Of(length), Some(size)) = (cut.parts, cut.size) else {
                    return None;
                };
                if size.div_euclid(length) >= MAXIMUM_ELEMENTS as i64 {
                    return None;
                }
                let starts = (0..size).step_by(usize::try_from(length).ok()?);
                all.extend(starts.map(|start| Element::Part {
                    value: cut.value,
                    axis: cut.axis,
                    start,
                    end: (start + length).min(size),
                    keeps: cut.keeps,
                }));
            }
        }
    }
    (all.len() <= MAXIMUM_ELEMENTS).then_some(all)
}

/// The parts of a SplitToSequence.
fn split<'a>(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<Vec<Segment<'a>>> {
    let value = node.input(0)?;
    let axis = node.int("axis").or(0)?;
    let own = axis_from_front(scope, value, axis);
    let all = own.and_then(|axis| sizes::axis(scope, value, axis));
    let size = all.and_then(Size::number);
    let keeps = node.int("keepdims").or(1)? != 0;
    let cut = |parts, keeps| {
        vec![Segment::Cut(Cut {
            value,
            axis,
            parts,
            keeps,
            size,
        })]
    };
    let Some(lengths) = node.input(1) else {
        return Some(cut(PartLengths::Of(1), keeps));
    };
    if sizes::rank(scope, lengths)? == 0 {
        let length = constant::int(scope, lengths).filter(|&length| length > 0)?;
        // ONNX's text keeps the axis, but PyTorch writes `unbind` so, and ONNX Runtime removes it.
        return (keeps || length == 1).then(|| cut(PartLengths::Of(length), keeps));
    }
    if let Some(lengths) = constant::ints(scope, lengths) {
        let fit = lengths
            .iter()
            .all(|&it| (0..=i64::from(i32::MAX)).contains(&it));
        let mut start = 0;
        let parts = lengths.iter().map(|length| {
            let part = Element::Part {
                value,
                axis,
                start,
                end: start + length,
                keeps: true,
            };
            start += length;
            Segment::One(part)
        });
        return (fit && lengths.len() <= MAXIMUM_ELEMENTS).then(|| parts.collect());
    }
    if sizes::every_element(scope, lengths) != Some(Size::Known(1)) {
        return Some(cut(PartLengths::Listed(lengths), true));
    }
    let count = sizes::axis(scope, lengths, 0);
    let parts = match count.is_some() && count == all {
        true => PartLengths::Of(1),
        false => PartLengths::Ones(lengths),
    };
    Some(cut(parts, true))
}

impl Cut<'_> {
    pub(super) fn is_unit(&self) -> bool {
        matches!(self.parts, PartLengths::Of(1) | PartLengths::Ones(_))
    }
}

impl<'a> Segment<'a> {
    /// The values that it is made of.
    fn values(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (value, other) = match self {
            Self::One(Element::Value(value) | Element::Part { value, .. }) => (*value, None),
            Self::Cut(cut) => match cut.parts {
                PartLengths::Of(_) => (cut.value, None),
                PartLengths::Ones(other) | PartLengths::Listed(other) => (cut.value, Some(other)),
            },
        };
        std::iter::once(value).chain(other)
    }

    /// The sizes that all its elements have.
    pub(crate) fn sizes(&self, scope: &'a Scope<'a>) -> Option<Vec<Size<'a>>> {
        let (value, cut) = match *self {
            Self::One(Element::Value(value)) => (value, None),
            Self::One(Element::Part {
                value,
                axis,
                start,
                end,
                keeps,
            }) => (value, Some((axis, end - start, keeps))),
            Self::Cut(ref cut) if cut.is_unit() => (cut.value, Some((cut.axis, 1, cut.keeps))),
            Self::Cut(_) => return None,
        };
        let rank = sizes::rank(scope, value)?;
        let mut all: Vec<Size<'a>> = (0..rank)
            .map(|axis| sizes::axis(scope, value, axis))
            .collect::<Option<_>>()?;
        if let Some((axis, length, keeps)) = cut {
            let axis = constant::normal_axis(axis, rank)?;
            match keeps {
                true => all[axis] = Size::Known(length),
                false => drop(all.remove(axis)),
            }
        }
        Some(all)
    }
}
