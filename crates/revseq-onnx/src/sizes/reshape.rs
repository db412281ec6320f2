//! Sizes after Reshape.

use super::element::element;
use super::{Size, Steps, axis_within, length, rank_within};
use crate::model::NodeProto;
use crate::operators::has_sizes_of_input;
use crate::scope::Scope;

/// An output size of a Reshape.
///
/// Reshape replaces a computed size of 0 by the input's. A computed size therefore counts only if
/// it is the input's on that axis, or if the input is empty whenever the size is 0.
pub(super) fn reshape_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let (input, shape) = (node.input(0)?, node.input(1)?);
    let allows_zero = node.int("allowzero").or(0)? != 0;
    let wanted = |axis: usize| match element(scope, shape, &[axis], steps)? {
        Size::Known(0) if !allows_zero => axis_within(scope, input, axis, steps),
        size => Some(size),
    };
    match wanted(axis)? {
        Size::Known(-1) => {
            let mut rest = volume(scope, input, steps)?;
            for other in 0..length(scope, shape, steps)? {
                if other != axis {
                    rest.divide(wanted(other)?)?;
                }
            }
            match (rest.known, rest.unknown.as_slice()) {
                (known, []) => Some(Size::Known(known)),
                (1, &[size]) => Some(size),
                _ => None,
            }
        }
        size @ Size::Known(known) => (known >= 0).then_some(size),
        size => {
            let is_kept = || axis_within(scope, input, axis, steps) == Some(size);
            let is_factor = || volume(scope, input, steps)?.divide(size);
            (allows_zero || is_kept() || is_factor().is_some()).then_some(size)
        }
    }
}

/// The number of elements of a value, as a product.
struct Volume<'a> {
    /// The product of the known sizes; not 0.
    known: i64,
    unknown: Vec<Size<'a>>,
}

impl<'a> Volume<'a> {
    fn multiply(&mut self, size: Size<'a>) -> Option<()> {
        match size {
            Size::Known(size) => {
                self.known = self.known.checked_mul(size).filter(|&known| known > 0)?;
            }
            Size::Axis { .. } => self.unknown.push(size),
        }
        Some(())
    }

    fn divide(&mut self, size: Size<'a>) -> Option<()> {
        match size {
            Size::Known(size) if size > 0 && self.known % size == 0 => self.known /= size,
            Size::Known(_) => return None,
            Size::Axis { .. } => {
                let place = self.unknown.iter().position(|&factor| factor == size)?;
                self.unknown.swap_remove(place);
            }
        }
        Some(())
    }
}

fn volume<'a>(scope: &'a Scope<'a>, name: &str, steps: Steps<'_>) -> Option<Volume<'a>> {
    let steps = steps.next()?;
    if let Some((scope, node, 0)) = scope.producer(name)
        && node.domain().is_empty()
    {
        let of_input = || volume(scope, node.input(0)?, steps);
        match node.op() {
            "Reshape" | "Transpose" | "Squeeze" | "Unsqueeze" => return of_input(),
            op if has_sizes_of_input(op) => return of_input(),
            // Replaces each row by another.
            "MatMul" if rank_within(scope, node.input(1)?, steps)? == 2 => {
                let size = |axis| axis_within(scope, node.input(1)?, axis, steps);
                let mut volume = of_input()?;
                volume.divide(size(0)?)?;
                volume.multiply(size(1)?)?;
                return Some(volume);
            }
            _ => {}
        }
    }
    let mut volume = Volume {
        known: 1,
        unknown: Vec::new(),
    };
    for axis in 0..rank_within(scope, name, steps)? {
        volume.multiply(axis_within(scope, name, axis, steps)?)?;
    }
    Some(volume)
}
