//! Sizes after Einsum, whose axes have letters.

use super::{Size, broadcast};
use crate::model::NodeProto;
use crate::scope::Scope;
use crate::sizes;

/// A letter, or the axes of an ellipsis.
const ELLIPSIS: char = '.';

/// The equation of an Einsum: a letter for each axis, or a point for those of an ellipsis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    /// The letters of each operand.
    pub operands: Vec<Vec<char>>,
    /// The letters of the output. One that is not given has all letters that occur once, in the order of the
    /// alphabet, behind an ellipsis.
    pub output: Vec<char>,
}

impl Equation {
    /// Reads the equation of a node; `None` if it has none.
    #[must_use]
    pub fn of(node: &NodeProto) -> Option<Self> {
        let equation = node.text("equation").value()?;
        let (operands, output) = match equation.split_once("->") {
            Some((operands, output)) => (operands, Some(output)),
            None => (equation, None),
        };
        let axes = |term: &str| -> Vec<char> {
            let term = term.replace("...", ".");
            term.chars().filter(|it| !it.is_whitespace()).collect()
        };
        let operands: Vec<Vec<char>> = operands.split(',').map(axes).collect();
        let output = match output {
            Some(output) => axes(output),
            None => {
                let all = || operands.iter().flatten();
                let is_single = |letter: &char| all().filter(|it| *it == letter).count() == 1;
                let is_kept = |letter: &&char| **letter == ELLIPSIS || is_single(letter);
                let mut kept: Vec<char> = all().filter(is_kept).copied().collect();
                kept.sort_unstable();
                kept.dedup();
                kept
            }
        };
        Some(Self { operands, output })
    }
}

/// The number of axes that the ellipses stand for.
fn in_ellipsis(scope: &Scope<'_>, node: &NodeProto, operands: &[Vec<char>]) -> Option<usize> {
    let mut most = 0;
    for (name, letters) in std::iter::zip(node.inputs(), operands) {
        if letters.contains(&ELLIPSIS) {
            let others = letters.len() - 1;
            most = most.max(sizes::rank(scope, name)?.checked_sub(others)?);
        }
    }
    Some(most)
}

pub(super) fn rank_of(scope: &Scope<'_>, node: &NodeProto) -> Option<usize> {
    let Equation { operands, output } = Equation::of(node)?;
    match output.contains(&ELLIPSIS) {
        true => Some(output.len() - 1 + in_ellipsis(scope, node, &operands)?),
        false => Some(output.len()),
    }
}

pub(super) fn axis_of<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
) -> Option<Size<'a>> {
    let Equation { operands, output } = Equation::of(node)?;
    if operands.iter().flatten().any(|it| *it == ELLIPSIS) {
        return None;
    }
    let letter = output.get(axis)?;
    let mut sizes = vec![];
    for (name, letters) in std::iter::zip(node.inputs(), &operands) {
        let places = letters.iter().enumerate().filter(|(_, it)| *it == letter);
        for (place, _) in places {
            sizes.push(sizes::axis(scope, name, place)?);
        }
    }
    broadcast(sizes)
}
