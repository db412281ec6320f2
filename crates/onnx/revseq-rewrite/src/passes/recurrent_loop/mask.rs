//! Recognises masks: which steps are valid, and the values at invalid ones.

use crate::constant;
use crate::model::{BOOL, INT32, INT64, NodeProto};
use crate::passes::cells::width;
use crate::scope::Scope;
use crate::sizes::{self, Size};
use crate::types;

use super::body::{Body, MAXIMUM_STEPS, Sequence, is_number, operands, through_identity};
use super::truths::truths;

/// The condition under which a step of a sequence is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Counts<'a> {
    /// A mask with a value for each step is true, or another number than 0.
    Mask {
        sequence: Sequence<'a>,
        /// Whether other numbers than 0 and 1 would mix the valid and the invalid value.
        is_mixing: bool,
    },
    /// The step is below the sequence's length, in the order in which the loop runs.
    Below(&'a str),
}

impl<'a> Counts<'a> {
    /// The number of sequences that it has values for.
    fn batch(self, body: &Body<'a>) -> Option<Size<'a>> {
        match self {
            Self::Mask {
                sequence: Sequence { value, axis, .. },
                ..
            } => sizes::axis(body.outer, value, 1_usize.checked_sub(axis)?),
            Self::Below(lengths) => sizes::axis(body.outer, lengths, 0),
        }
    }
}

/// A value that differs between valid and invalid steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskChoice<'a> {
    pub(super) counts: Counts<'a>,
    pub(super) new: &'a str,
    pub(super) old: &'a str,
    /// Whether it is a sum of products, in which infinity and NaN spread.
    pub(super) blends: bool,
}

/// A condition in a step: true for valid steps, or for invalid ones.
#[derive(Clone, Copy, PartialEq)]
struct Flag<'a> {
    counts: Counts<'a>,
    is_true: bool,
    /// The rank: 1 for a value per sequence, 2 for a column of them.
    rank: usize,
    /// Number of times that the column is repeated.
    columns: usize,
}

impl<'a> MaskChoice<'a> {
    /// `mask · new + (1 - mask) · old`, or Where.
    pub(super) fn of(body: &Body<'a>, name: &'a str) -> Option<Self> {
        let scope = body.inner;
        let name = body.plain(name);
        if let Some(node) = scope.first_output_of(name, "Where") {
            // Its condition has no other values.
            let flag = flag(body, node.input(0)?, MAXIMUM_STEPS)?.of_truth();
            return Self::by(body, flag, [node.input(1)?, node.input(2)?], false);
        }
        let (first, second) = operands(scope, name, "Add")?;
        let (one, when) = selected(body, first)?;
        let (other, otherwise) = selected(body, second)?;
        (when == otherwise.not())
            .then(|| Self::by(body, when, [one, other], true))
            .flatten()
    }

    fn by(body: &Body<'a>, flag: Flag<'a>, values: [&'a str; 2], blends: bool) -> Option<Self> {
        let [when, otherwise] = values.map(|value| body.plain(value));
        let (new, old) = if flag.is_true {
            (when, otherwise)
        } else {
            (otherwise, when)
        };
        // More columns than the values have would repeat those.
        let fits = flag.columns == 1 || width(body, new) == Some(flag.columns);
        (flag.rank == 2 && fits).then_some(Self {
            counts: flag.counts,
            new,
            old,
            blends,
        })
    }
}

impl Flag<'_> {
    fn not(self) -> Self {
        Self {
            is_true: !self.is_true,
            ..self
        }
    }

    /// The same of the truth value, which is true for every number but 0.
    fn of_truth(mut self) -> Self {
        if let Counts::Mask { is_mixing, .. } = &mut self.counts {
            *is_mixing = false;
        }
        self
    }

    fn is_mixing(self) -> bool {
        matches!(
            self.counts,
            Counts::Mask {
                is_mixing: true,
                ..
            }
        )
    }
}

/// A value times a condition as a number.
fn selected<'a>(body: &Body<'a>, name: &'a str) -> Option<(&'a str, Flag<'a>)> {
    let (first, second) = operands(body.inner, body.plain(name), "Mul")?;
    match [first, second].map(|name| number(body, name, MAXIMUM_STEPS)) {
        [Some(flag), None] => Some((second, flag)),
        [None, Some(flag)] => Some((first, flag)),
        [Some(flag), Some(other)] if other.is_mixing() && !flag.is_mixing() => Some((second, flag)),
        [Some(other), Some(flag)] if other.is_mixing() && !flag.is_mixing() => Some((first, flag)),
        _ => None,
    }
}

/// A condition as a number, 0 or 1.
fn number<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<Flag<'a>> {
    let steps = steps.checked_sub(1)?;
    let name = through_identity(body.inner, name);
    if let Some((one, less)) = operands(body.inner, name, "Sub") {
        let flag = number(body, less, steps).filter(|_| body.number(one) == Some(1.0))?;
        return Some(flag.not());
    }
    match body.inner.first_output_of(name, "Cast") {
        Some(cast) if cast.int("to").value() != Some(BOOL.into()) => {
            number(body, cast.input(0)?, steps)
        }
        _ => flag(body, name, steps),
    }
}

fn flag<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<Flag<'a>> {
    let steps = steps.checked_sub(1)?;
    let scope = body.inner;
    let name = through_identity(scope, name);
    if let Some(sequence) = body.sequence(name) {
        let is_truth =
            truths(body.outer, sequence.value).is_some() || types::of(scope, name) == Some(BOOL);
        return Some(Flag {
            counts: Counts::Mask {
                sequence,
                is_mixing: !is_truth,
            },
            is_true: true,
            rank: sizes::rank(body.outer, sequence.value)?.checked_sub(1)?,
            columns: 1,
        });
    }
    let (_, node, output) = scope.producer(name)?;
    if output != 0 || !node.domain().is_empty() || !scope.defines(name) {
        return None;
    }
    let operand = |index: usize| flag(body, node.input(index)?, steps);
    let below = |step: usize, lengths: usize| {
        let count = body.counter(node.input(step)?)?;
        let lengths = outer_integers(body, node.input(lengths)?)?;
        let rank = sizes::rank(body.outer, lengths).filter(|&rank| rank == 1 && count.rank <= 1)?;
        (count.ahead == 0).then_some(Flag {
            counts: Counts::Below(lengths),
            is_true: true,
            rank,
            columns: 1,
        })
    };
    match node.op() {
        "Not" => operand(0).map(|flag| flag.of_truth().not()),
        "Cast" if node.int("to").value() == Some(BOOL.into()) => operand(0).map(Flag::of_truth),
        "Less" => below(0, 1),
        "Greater" => below(1, 0),
        "GreaterOrEqual" => below(0, 1).map(Flag::not),
        "LessOrEqual" => below(1, 0).map(Flag::not),
        "Unsqueeze" => {
            let flag = operand(0)?;
            let axes = constant::axes(scope, node)?;
            let is_column = flag.rank == 1 && matches!(axes[..], [1 | -1]);
            is_column.then_some(Flag { rank: 2, ..flag })
        }
        "Reshape" => {
            let flag = operand(0)?;
            let is_column = flag.columns == 1
                && sizes::rank(scope, name) == Some(2)
                && sizes::axis(scope, name, 1) == Some(Size::Known(1));
            is_column.then_some(Flag { rank: 2, ..flag })
        }
        "Expand" => {
            let (flag, shape) = (operand(0)?, node.input(1)?);
            let size = |axis| sizes::element_at(scope, shape, &[axis]);
            let repeats = flag.rank == 2
                && flag.columns == 1
                && sizes::axis(scope, shape, 0) == Some(Size::Known(2))
                && flag.counts.batch(body) == size(0);
            let columns = usize::try_from(size(1)?.number()?).ok()?;
            repeats.then_some(Flag { columns, ..flag })
        }
        _ => None,
    }
}

/// An integer value of the outer graph, before casts in the body.
fn outer_integers<'a>(body: &Body<'a>, name: &'a str) -> Option<&'a str> {
    let mut name = name;
    while let Some((_, node)) = body.inner.maker(name)
        && (node.is("Cast") && is_number(node) || node.is("Identity"))
    {
        name = node.input(0)?;
    }
    let is_integer = matches!(types::of(body.outer, name), Some(INT32 | INT64));
    (!body.inner.defines(name) && is_integer).then_some(name)
}

/// Change of a value along an axis.
#[derive(Clone, Copy, PartialEq)]
enum Course {
    /// Constant along the axis.
    Level,
    /// Never less than before.
    Rising,
    /// False from the first false on.
    Prefix,
}

/// Whether a mask provably is a prefix: its true steps come first.
pub(super) fn is_prefix(scope: &Scope<'_>, name: &str, axis: usize) -> bool {
    let course = course(scope, name, axis, MAXIMUM_STEPS);
    matches!(course, Some(Course::Prefix | Course::Level))
}

fn course(scope: &Scope<'_>, name: &str, axis: usize, steps: usize) -> Option<Course> {
    // The axis comes from an attribute, and axes are counted up to it.
    let steps = steps
        .checked_sub(1)
        .filter(|_| axis < sizes::MAXIMUM_RANK)?;
    if sizes::axis(scope, name, axis) == Some(Size::Known(1)) {
        return Some(Course::Level);
    }
    if let Some(values) = constant::ints(scope, name) {
        // A cast of others may turn back.
        let is_vector = sizes::rank(scope, name) == Some(1)
            && values.iter().all(|&it| i32::try_from(it).is_ok());
        return (is_vector && values.is_sorted()).then_some(Course::Rising);
    }
    let (scope, node, output) = scope.producer(name)?;
    if output != 0 || !node.domain().is_empty() {
        return None;
    }
    let along = |axis: usize| course(scope, node.input(0)?, axis, steps);
    match node.op() {
        "Identity" => along(axis),
        // These casts keep the order of all numbers up to the length of any axis.
        "Cast" if is_number(node) => along(axis),
        "Cast" if node.int("to").value() == Some(BOOL.into()) => {
            along(axis).filter(|&course| course == Course::Prefix)
        }
        "Range" => {
            let step = constant::int(scope, node.input(2)?)?;
            (step > 0).then_some(Course::Rising)
        }
        "Squeeze" | "Transpose" | "Unsqueeze" => along(sizes::axis_of_input(scope, node, axis)?),
        "Add" => match both(scope, node, axis, steps)? {
            (Course::Rising, Course::Level | Course::Rising) | (Course::Level, Course::Rising) => {
                Some(Course::Rising)
            }
            _ => None,
        },
        "And" => match both(scope, node, axis, steps)? {
            (Course::Prefix | Course::Level, Course::Prefix | Course::Level) => {
                Some(Course::Prefix)
            }
            _ => None,
        },
        "Less" | "LessOrEqual" => {
            let sides = both(scope, node, axis, steps)?;
            (sides == (Course::Rising, Course::Level)).then_some(Course::Prefix)
        }
        "Greater" | "GreaterOrEqual" => {
            let sides = both(scope, node, axis, steps)?;
            (sides == (Course::Level, Course::Rising)).then_some(Course::Prefix)
        }
        _ => None,
    }
}

/// The courses of both operands of a broadcasting node along an axis of its output.
fn both(
    scope: &Scope<'_>,
    node: &NodeProto,
    axis: usize,
    steps: usize,
) -> Option<(Course, Course)> {
    let names = [node.input(0)?, node.input(1)?];
    let [one, other] = names.map(|name| sizes::rank(scope, name));
    let (one, other) = (one?, other?);
    let most = one.max(other);
    let along = |name: &str, rank: usize| match (axis + rank).checked_sub(most) {
        None => Some(Course::Level),
        Some(axis) => course(scope, name, axis, steps / 2),
    };
    Some((along(names[0], one)?, along(names[1], other)?))
}
