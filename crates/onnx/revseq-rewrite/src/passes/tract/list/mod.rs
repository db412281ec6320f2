//! Reads of lists whose elements are known, to tensor operators.

mod segment;
mod stacked;
mod write;

use crate::constant;
use crate::model::NodeProto;
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;

pub(super) use segment::{Segment, elements, makes, segments};
pub(super) use stacked::{PASS as STACKED, write_parts_of};
pub(super) use write::{write_element, write_join, write_length, write_stack};

use write::{have_one_shape, write_at};

/// The operators that read lists.
pub(super) const READS: &[&str] = &["ConcatFromSequence", "SequenceAt", "SequenceLength"];

pub(crate) const PASS: Pass = Pass::exact(
    "list",
    "Reads from a sequence with known elements, to operators on these",
    find,
)
.of(READS);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    scope.prove_more();
    let list = segments(scope, at.input(0)?).ok_or(Other)?;
    let emit = at.replacement()?;
    let (value, what) = match node.op() {
        "SequenceLength" => (write_length(&emit, scope, &list), "its length"),
        "SequenceAt" => {
            let value = match ListRead::of(scope, node, &list).ok_or(Other)? {
                ListRead::Element(element) => write_element(&emit, &element),
                ListRead::Part(cut, at) => write_at(&emit, scope, cut, at),
            };
            (value, "the element")
        }
        _ if list.is_empty() => return Err("the list is empty".into()),
        _ => {
            let (axis, new) = (node.int("axis").value(), node.int("new_axis").or(0));
            let how = (axis.ok_or(Other)?, new.ok_or(Other)? != 0);
            (
                write_join(&emit, scope, &list, how)?,
                "Concat of its elements",
            )
        }
    };
    emit.finish_with(value, what)
}

/// The element or part that a SequenceAt reads.
enum ListRead<'l, 'a> {
    Element(segment::Element<'a>),
    /// A part at a position.
    Part(&'l segment::Cut<'a>, &'a str),
}

impl<'l, 'a> ListRead<'l, 'a> {
    /// The element that a SequenceAt of a graph reads, if the list shows which it is.
    fn of(scope: &Scope<'_>, node: &'a NodeProto, list: &'l [Segment<'a>]) -> Option<Self> {
        let at = node.input(1)?;
        let known = constant::int(scope, at).and_then(|known| {
            let elements = match elements(list) {
                Some(all) => all,
                // Those before the first part whose number is open, or behind the last.
                None => ends(list, known < 0),
            };
            let place = constant::normal_axis(known, elements.len())?;
            Some(Self::Element(elements[place].clone()))
        });
        match list {
            _ if known.is_some() => known,
            [Segment::Cut(cut)] => Some(Self::Part(cut, at)),
            _ => None,
        }
    }
}

/// The elements of a list before its first cut, or behind its last.
fn ends<'a>(list: &[Segment<'a>], is_back: bool) -> Vec<segment::Element<'a>> {
    let element = |segment: &Segment<'a>| match segment {
        Segment::One(element) => Some(element.clone()),
        Segment::Cut(_) => None,
    };
    if !is_back {
        return list.iter().map_while(element).collect();
    }
    let mut behind: Vec<_> = list.iter().rev().map_while(element).collect();
    behind.reverse();
    behind
}

/// A tensor that a node adds to a list, at the end or in front.
#[derive(Clone, Copy)]
pub(super) struct Added<'a> {
    pub(super) list: &'a str,
    pub(super) tensor: &'a str,
    /// The node, by its index in its graph.
    pub(super) node: usize,
    pub(super) is_front: bool,
    /// The list with it.
    pub(super) name: &'a str,
}

impl<'a> Added<'a> {
    /// The tensor that the node of a graph adds that makes a list.
    pub(super) fn of(scope: &Scope<'a>, name: &str) -> Option<Self> {
        let (index, node) = scope.maker(name)?;
        let is_front = node.input(2).map(|at| constant::int(scope, at));
        let is_added = node.is("SequenceInsert") && matches!(is_front, None | Some(Some(0)));
        Some(Self {
            list: node.input(0).filter(|_| is_added)?,
            tensor: node.input(1)?,
            node: index,
            is_front: is_front.is_some(),
            name: &node.output[0],
        })
    }
}
