//! A ConvTranspose whose padding follows from its output's sizes, which tract leaves out.
//!
//! The sizes of its input and weights have to be known; a node of which they are not is left, and
//! refused when tract loads it.
//!
//! ```text
//! ConvTranspose<output_shape=[8, 10]>(x, w)  →  ConvTranspose<pads=[1, 1, 0, 0]>(x, w)
//! ```

use crate::model::{self, NodeProto};
use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::{known_size, remove_attribute};
use crate::scope::Scope;
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "output-shape",
    "ConvTranspose with the sizes of its output, to one with its pads",
    find,
)
.of(&["ConvTranspose"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let emit = at.replacement()?;
    let is_padded = matches!(
        node.text("auto_pad").value(),
        Some("SAME_UPPER" | "SAME_LOWER")
    );
    if !is_padded && node.ints("output_shape").value().is_none() {
        return Err(Other);
    }
    let Pads { pads, added } =
        pads(scope, node).ok_or("the pads of its output are not known before it runs")?;
    let mut padded = node.clone();
    for replaced in ["auto_pad", "output_padding", "output_shape"] {
        remove_attribute(&mut padded, replaced);
    }
    let mut attributes = vec![model::ints("pads", &pads)];
    if added.iter().any(|it| *it > 0) {
        attributes.push(model::ints("output_padding", &added));
    }
    let convolved = emit.one_again(&padded, &node.input, attributes);
    emit.finish_with(convolved, format!("the same with pads of {pads:?}"))
}

/// What is cut off an output, and added to it.
struct Pads {
    /// Before each axis, and then behind.
    pads: Vec<i64>,
    /// Behind each axis.
    added: Vec<i64>,
}

/// The pads by the formula of ONNX's page on ConvTranspose, where an output that has to grow grows
/// behind; `None` if they are not known.
fn pads(scope: &Scope<'_>, node: &NodeProto) -> Option<Pads> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let axes = sizes::rank(scope, x)?.checked_sub(2)?;
    let known = |name: &str, axis: usize| known_size(scope, name, axis + 2);
    let listed = |name: &str| node.ints(name).value().map(<[i64]>::to_vec);
    let or_all = |name: &str, default: i64| listed(name).unwrap_or_else(|| vec![default; axes]);
    let (strides, dilations) = (or_all("strides", 1), or_all("dilations", 1));
    let (mut added, kernel, shape) = (
        or_all("output_padding", 0),
        listed("kernel_shape"),
        listed("output_shape"),
    );
    let is_upper = node.text("auto_pad").value() == Some("SAME_UPPER");
    let mut pads = vec![0; 2 * axes];
    for axis in 0..axes {
        let (size, stride) = (known(x, axis)?, *strides.get(axis)?);
        let window = match &kernel {
            Some(kernel) => *kernel.get(axis)?,
            None => known(w, axis)?,
        };
        let to = match &shape {
            // It may have the batch and the channels in front.
            Some(shape) => *shape.get(axis + shape.len().checked_sub(axes)?)?,
            None => size.checked_mul(stride)?,
        };
        let window = (window - 1)
            .checked_mul(*dilations.get(axis)?)?
            .checked_add(1)?;
        let whole = (size - 1).checked_mul(stride)?.checked_add(window)?;
        let total = whole.checked_add(*added.get(axis)?)?.checked_sub(to)?;
        if total < 0 {
            added[axis] = added[axis].checked_sub(total)?;
            continue;
        }
        let half = total / 2;
        pads[axis] = if is_upper { half } else { total - half };
        pads[axes + axis] = total - pads[axis];
    }
    Some(Pads { pads, added })
}
