//! Reads of lists whose elements are known, to tensor operators.

mod segment;
mod stacked;
mod write;

use crate::constant;
use crate::emit::Emit;
use crate::model::NodeProto;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) use segment::{Segment, elements, makes, segments};
pub(super) use stacked::{PASS as STACKED, write_parts_of};
pub(super) use write::{write_element as write_last, write_join, write_length, write_stack};

use write::{have_one_shape, write_at, write_element};

pub(super) const PASS: Pass = Pass::exact(
    "list",
    "Reads from a sequence with known elements, to operators on these",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let reads = ["ConcatFromSequence", "SequenceAt", "SequenceLength"];
    if !node.domain().is_empty() || !reads.contains(&node.op()) {
        return Verdict::Other;
    }
    scope.prove_more();
    let list = node.input(0).and_then(|it| segments(scope, it));
    let (Some(list), Some(output)) = (list, node.output.first()) else {
        return Verdict::Other;
    };
    let mut emit = Emit::new(output, scope.opset, names);
    match node.op() {
        "SequenceLength" => {
            write_length(&mut emit, scope, &list, output);
            emit.finish("its length".to_owned())
        }
        "SequenceAt" => {
            let Some(read) = Read::of(scope, node, &list) else {
                return Verdict::Other;
            };
            match read {
                Read::Element(element) => {
                    let element = write_element(&mut emit, &element);
                    emit.write(&[output], "Identity", &[&element], Vec::new());
                }
                Read::Part(cut, at) => write_at(&mut emit, scope, cut, at, output),
            }
            emit.finish("the element".to_owned())
        }
        _ if list.is_empty() => Verdict::Left("the list is empty".to_owned()),
        _ => {
            let (Some(axis), Some(new)) = (node.int("axis").value(), node.int("new_axis").or(0))
            else {
                return Verdict::Other;
            };
            match write_join(&mut emit, scope, &list, (axis, new != 0), output) {
                Ok(()) => emit.finish("Concat of its elements".to_owned()),
                Err(why) => Verdict::Left(why),
            }
        }
    }
}

/// The element or part that a SequenceAt reads.
enum Read<'l, 'a> {
    Element(segment::Element<'a>),
    /// A part at a position.
    Part(&'l segment::Cut<'a>, &'a str),
}

impl<'l, 'a> Read<'l, 'a> {
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
