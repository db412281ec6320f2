//! Reads of lists whose elements are known, to tensor operators.
//!
//! tract has no sequences. A list is followed back from its reader, through the operators that
//! build it, to values and slices of values; it has to be the same in every run. The operators that
//! built it lose their readers, and are swept away.
//!
//! ```text
//! SequenceAt(SplitToSequence(x, keepdims = 0), 1)  →  Squeeze(x[1:2], 0)
//! ConcatFromSequence(SequenceConstruct(a, b))      →  Concat(a, b)
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model;
use crate::pass::{Context, Pass, PassInfo, Verdict};
use crate::report::Exactness;
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "list",
        exactness: Exactness::Exact,
        about: "Reads from a sequence with known elements, to operators on these",
        portable: false,
        fast: false,
    },
    find,
};

/// How far a list is followed, and the most elements it may have.
const MAXIMUM_STEPS: usize = 256;
const MAXIMUM_ELEMENTS: usize = 1024;

/// An element of a list.
#[derive(Clone)]
enum Element<'a> {
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

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let reads = ["ConcatFromSequence", "SequenceAt", "SequenceLength"];
    if !node.domain().is_empty() || !reads.contains(&node.op()) {
        return Verdict::Other;
    }
    let list = node
        .input(0)
        .and_then(|it| elements(scope, it, MAXIMUM_STEPS));
    let (Some(elements), Some(output)) = (list, node.output.first()) else {
        return Verdict::Other;
    };
    let mut emit = Emit::new(output, scope.opset, names);
    match node.op() {
        "SequenceLength" => {
            let count = model::int64_tensor(&[], &[elements.len() as i64]);
            emit.write(
                &[output],
                "Constant",
                &[],
                vec![model::tensor("value", count)],
            );
            emit.finish("its length".to_owned())
        }
        "SequenceAt" => {
            let at = node.input(1).and_then(|name| constant::int(scope, name));
            let Some(at) = at.and_then(|at| constant::normal_axis(at, elements.len())) else {
                return Verdict::Other;
            };
            let element = elements[at].write(&mut emit);
            emit.write(&[output], "Identity", &[&element], Vec::new());
            emit.finish("the element".to_owned())
        }
        _ if elements.is_empty() => Verdict::Left("the list is empty".to_owned()),
        _ => {
            let (Some(axis), Some(new)) = (node.int("axis").value(), node.int("new_axis").or(0))
            else {
                return Verdict::Other;
            };
            let parts: Vec<String> = elements
                .iter()
                .map(|element| {
                    let element = element.write(&mut emit);
                    match new {
                        0 => element,
                        _ => emit.unsqueeze(&element, &[axis]),
                    }
                })
                .collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            emit.write(&[output], "Concat", &parts, vec![model::int("axis", axis)]);
            emit.finish("Concat of its elements".to_owned())
        }
    }
}

impl Element<'_> {
    fn write(&self, emit: &mut Emit<'_>) -> String {
        match *self {
            Self::Value(name) => name.to_owned(),
            Self::Part {
                value,
                axis,
                start,
                end,
                keeps,
            } => {
                let part = emit.range(value, axis, start, end);
                if keeps {
                    part
                } else {
                    emit.squeeze(&part, &[axis])
                }
            }
        }
    }
}

pub(super) fn is_empty(scope: &Scope<'_>, name: &str) -> bool {
    elements(scope, name, MAXIMUM_STEPS).is_some_and(|elements| elements.is_empty())
}

/// The elements of a list, in order, if they are the same in every run.
fn elements<'a>(scope: &'a Scope<'a>, name: &str, steps: usize) -> Option<Vec<Element<'a>>> {
    let steps = steps.checked_sub(1)?;
    let (scope, node, _) = scope.producer(name)?;
    if !node.domain().is_empty() {
        return None;
    }
    let list = || elements(scope, node.input(0)?, steps);
    let found = match node.op() {
        "SequenceEmpty" => Vec::new(),
        "SequenceConstruct" => node.inputs().map(Element::Value).collect(),
        "Identity" => list()?,
        "SequenceInsert" => {
            let mut list = list()?;
            let at = match node.input(2) {
                None => list.len(),
                Some(name) => position(constant::int(scope, name)?, list.len(), list.len() + 1)?,
            };
            list.insert(at, Element::Value(node.input(1)?));
            list
        }
        "SequenceErase" => {
            let mut list = list()?;
            let at = match node.input(1) {
                None => list.len().checked_sub(1)?,
                Some(name) => position(constant::int(scope, name)?, list.len(), list.len())?,
            };
            list.remove(at);
            list
        }
        "SplitToSequence" => {
            let value = node.input(0)?;
            let axis = node.int("axis").or(0)?;
            let rank = || sizes::rank(scope, value);
            let size = || {
                let axis = match usize::try_from(axis) {
                    Ok(axis) => axis,
                    Err(_) => constant::normal_axis(axis, rank()?)?,
                };
                match sizes::axis(scope, value, axis)? {
                    Size::Known(size) => Some(size),
                    _ => None,
                }
            };
            let (lengths, keeps) = match node.input(1) {
                None => {
                    let count = usize::try_from(size()?).ok()?;
                    let is_small = count <= MAXIMUM_ELEMENTS;
                    (
                        is_small.then(|| vec![1; count])?,
                        node.int("keepdims").or(1)? != 0,
                    )
                }
                Some(split) => (
                    lengths(
                        constant::ints(scope, split)?,
                        sizes::rank(scope, split)?,
                        size,
                    )?,
                    true,
                ),
            };
            let mut start = 0;
            let parts = lengths.into_iter().map(|length| {
                let end = start + length;
                let part = Element::Part {
                    value,
                    axis,
                    start,
                    end,
                    keeps,
                };
                start = end;
                part
            });
            parts.collect()
        }
        _ => return None,
    };
    (found.len() <= MAXIMUM_ELEMENTS).then_some(found)
}

/// The lengths of the parts: a vector lists them, a scalar is the length of all but a shorter last
/// one.
fn lengths(split: Vec<i64>, rank: usize, size: impl Fn() -> Option<i64>) -> Option<Vec<i64>> {
    if rank == 1 {
        let fit = split
            .iter()
            .all(|&it| (0..=i64::from(i32::MAX)).contains(&it));
        return (fit && split.len() <= MAXIMUM_ELEMENTS).then_some(split);
    }
    let (&[length], size) = (split.as_slice(), size()?) else {
        return None;
    };
    if length <= 0 || size / length >= MAXIMUM_ELEMENTS as i64 {
        return None;
    }
    let starts = (0..size).step_by(length as usize);
    Some(starts.map(|start| length.min(size - start)).collect())
}

/// A list index, counted from the end if negative; `None` unless it is below `places`.
fn position(at: i64, length: usize, places: usize) -> Option<usize> {
    let at = if at < 0 {
        at.checked_add(length as i64)?
    } else {
        at
    };
    usize::try_from(at).ok().filter(|&at| at < places)
}
