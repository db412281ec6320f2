//! Sizes after Reshape.

use super::{Size, length};
use crate::model::NodeProto;
use crate::operators::has_sizes_of_input;
use crate::scope::Scope;
use crate::sizes;

/// An output size of a Reshape.
///
/// Reshape replaces a computed size of 0 by the input's. A computed size therefore counts only if
/// it is the input's on that axis, or if the input is empty whenever the size is 0.
pub(super) fn reshape_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
) -> Option<Size<'a>> {
    let (input, shape) = (node.input(0)?, node.input(1)?);
    let allows_zero = node.int("allowzero").or(0)? != 0;
    let wanted = |axis: usize| match sizes::element_at(scope, shape, &[axis])? {
        Size::Known(0) if !allows_zero => sizes::axis(scope, input, axis),
        size => Some(size),
    };
    match wanted(axis)? {
        Size::Known(-1) => {
            let mut rest = volume(scope, input)?;
            for other in 0..length(scope, shape)? {
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
            let is_kept = || sizes::axis(scope, input, axis) == Some(size);
            let is_factor = || volume(scope, input)?.divide(size);
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

fn volume<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Volume<'a>> {
    scope.visit(|| volume_of(scope, name))
}

fn volume_of<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Volume<'a>> {
    if let Some((scope, node, 0)) = scope.producer(name)
        && node.domain().is_empty()
    {
        let of_input = || volume(scope, node.input(0)?);
        match node.op() {
            "Reshape" | "Transpose" | "Squeeze" | "Unsqueeze" => return of_input(),
            op if has_sizes_of_input(op) => return of_input(),
            // Replaces each row by another.
            "MatMul" if sizes::rank(scope, node.input(1)?)? == 2 => {
                let size = |axis| sizes::axis(scope, node.input(1)?, axis);
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
    for axis in 0..sizes::rank(scope, name)? {
        volume.multiply(sizes::axis(scope, name, axis)?)?;
    }
    Some(volume)
}
