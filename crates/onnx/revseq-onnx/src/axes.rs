//! What of a node names axes.
//!
//! Runtimes and passes index shapes by these numbers. One beyond the rank is an error of the model; some
//! of tract's operators count up to it, or make so many sizes, before they find out.
//!
//! ```text
//! LayerNormalization<axis=-5>(x: [N,3,4])  →  its axis is -5, expected one from -3 to 2
//! ```

use crate::operators::NamedAxes::{self, Axes, AxesAndEnd, AxesOrScalar, WithOneMore, WithThese};
use crate::operators::Operator;
use crate::operators::Place::{Attribute, Input, Or};
use crate::tensor::MAXIMUM_RANK;

/// Knowledge of a node.
pub trait Known {
    /// Returns an attribute that is an integer or a list of them.
    fn integers(&self, attribute: &str) -> Option<Vec<i64>>;

    /// Returns the rank of an input.
    fn rank(&self, input: usize) -> Option<usize>;

    /// Returns the elements of an input that is a constant of integers.
    fn elements(&self, input: usize) -> Option<Vec<i64>>;
}

/// Checks that an operator of ONNX names axes that there are, as far as ranks are known.
///
/// # Errors
/// The first axis beyond the rank, or beyond the highest rank of all if the rank is not known.
pub fn check(op: &str, inputs: usize, known: &impl Known) -> Result<(), String> {
    for (place, of) in Operator::of(op).map_or(&[][..], |row| row.axes) {
        let (what, axes) = match *place {
            Attribute(name) => (name, known.integers(name)),
            Or(name, axis) => (name, known.integers(name).or(Some(vec![axis]))),
            Input(input) if input < inputs => ("axes", known.elements(input)),
            Input(_) => continue,
        };
        for axis in axes.iter().flatten() {
            let named = axes.as_ref().map_or(0, Vec::len);
            check_axis(what, *axis, range(known.rank(0), *of, named))?;
        }
    }
    if op == "Scan" {
        check_scan(inputs, known)?;
    }
    Ok(())
}

/// The axes of each scan input; those of scan outputs have ranks of the body's.
fn check_scan(inputs: usize, known: &impl Known) -> Result<(), String> {
    let scanned = known.integers("num_scan_inputs");
    let scanned = scanned.and_then(|it| usize::try_from(*it.first()?).ok());
    let first = scanned.and_then(|scanned| inputs.checked_sub(scanned));
    for what in ["scan_input_axes", "scan_output_axes"] {
        let axes = known.integers(what).unwrap_or_default();
        for (index, axis) in axes.into_iter().enumerate() {
            let input = first.filter(|_| what == "scan_input_axes");
            let rank = input.and_then(|first| known.rank(first + index));
            check_axis(what, axis, range(rank, Axes, 1))?;
        }
    }
    Ok(())
}

/// The least axis and the greatest, of an input of this rank.
fn range(rank: Option<usize>, of: NamedAxes, named: usize) -> (i64, i64) {
    let rank = rank.unwrap_or(MAXIMUM_RANK) as i64;
    match of {
        Axes => (-rank, rank - 1),
        AxesOrScalar => (-rank.max(1), rank.max(1) - 1),
        AxesAndEnd => (-rank, rank),
        WithOneMore => (-rank - 1, rank),
        WithThese => (-rank - named as i64, rank + named as i64 - 1),
    }
}

fn check_axis(what: &str, axis: i64, (least, most): (i64, i64)) -> Result<(), String> {
    if (least..=most).contains(&axis) {
        return Ok(());
    }
    Err(match least > most {
        true => format!("{what} has {axis}, but its input has no axes"),
        false if what == "axis" => format!("axis is {axis}, expected one from {least} to {most}"),
        false => format!("{what} has {axis}, expected each from {least} to {most}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node whose axes are an attribute of any name, or its second input.
    struct Node<'a> {
        axes: &'a [i64],
        rank: Option<usize>,
    }

    impl Known for Node<'_> {
        fn integers(&self, attribute: &str) -> Option<Vec<i64>> {
            match attribute {
                "num_scan_inputs" => Some(vec![1]),
                _ => Some(self.axes.to_vec()),
            }
        }

        fn rank(&self, _input: usize) -> Option<usize> {
            self.rank
        }

        fn elements(&self, _input: usize) -> Option<Vec<i64>> {
            Some(self.axes.to_vec())
        }
    }

    #[test]
    fn axes_lie_within_the_rank() {
        let rank = Some(3);
        for (op, rank, axes, wrong) in [
            ("Softmax", rank, &[-3][..], None),
            (
                "Softmax",
                rank,
                &[3],
                Some("axis is 3, expected one from -3 to 2"),
            ),
            ("Softmax", Some(0), &[0], None),
            ("Flatten", rank, &[3], None),
            (
                "Flatten",
                rank,
                &[-4],
                Some("axis is -4, expected one from -3 to 3"),
            ),
            ("OneHot", rank, &[-4], None),
            (
                "OneHot",
                rank,
                &[4],
                Some("axis is 4, expected one from -4 to 3"),
            ),
            ("Unsqueeze", rank, &[0, 4], None),
            (
                "Unsqueeze",
                rank,
                &[0, 5],
                Some("axes has 5, expected each from -5 to 4"),
            ),
            (
                "ReduceSum",
                rank,
                &[-4],
                Some("axes has -4, expected each from -3 to 2"),
            ),
            (
                "LayerNormalization",
                Some(0),
                &[-1],
                Some("axis has -1, but its input has no axes"),
            ),
            (
                "Gather",
                None,
                &[64],
                Some("axis is 64, expected one from -64 to 63"),
            ),
            (
                "Scan",
                None,
                &[1_000_000_000],
                Some("scan_input_axes has 1000000000, expected each from -64 to 63"),
            ),
            (
                "Scan",
                rank,
                &[3],
                Some("scan_input_axes has 3, expected each from -3 to 2"),
            ),
            ("Add", rank, &[7], None),
        ] {
            let found = check(op, 2, &Node { axes, rank }).err();
            assert_eq!(found.as_deref(), wrong, "{op} {axes:?}");
        }
    }
}
