//! Sizes after operators that slide a window: `[batch, channels, ...]`.

use super::Size;
use crate::model::NodeProto;
use crate::scope::Scope;
use crate::sizes;

/// The length of an axis of such an operator's first output, which has the rank and the first axis of its input.
pub(super) fn window_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
) -> Option<Size<'a>> {
    let size = |input: usize, axis| sizes::axis(scope, node.input(input)?, axis);
    let Some(place) = axis.checked_sub(2) else {
        let of_weights = axis == 1 && node.is("Conv");
        return size(usize::from(of_weights), if of_weights { 0 } else { axis });
    };
    if node.op().starts_with("Global") {
        return Some(Size::Known(1));
    }
    let listed = |attribute: &str, place: usize, default: i64| {
        node.ints(attribute).or(&[]).map(|list| match list {
            [] => Some(default),
            list => list.get(place).copied(),
        })?
    };
    let kernel = match node.ints("kernel_shape").value() {
        Some(kernel) => *kernel.get(place)?,
        None => size(1, axis)?.number()?,
    };
    let covered = listed("dilations", place, 1)?.checked_mul(kernel.checked_sub(1)?)?;
    let stride = listed("strides", place, 1)?;
    if stride != 1 || node.int("ceil_mode").or(0)? != 0 {
        return None;
    }
    let padded = match node.text("auto_pad").or("NOTSET")? {
        "SAME_UPPER" | "SAME_LOWER" => return size(0, axis),
        "VALID" => 0,
        _ => {
            let spatial = node.ints("pads").or(&[])?.len() / 2;
            listed("pads", place, 0)?.checked_add(listed("pads", place + spatial, 0)?)?
        }
    };
    let whole = size(0, axis)?;
    if padded == covered {
        return Some(whole);
    }
    let windows = whole.number()?.checked_add(padded)?;
    windows.checked_sub(covered).map(Size::Known)
}
