//! Pads that continue with the other end of an axis, which tract lacks.
//!
//! ```text
//! Pad<mode=wrap>(x, [before, behind])  →  Gather(x, Mod(Range(-before, size + behind), size))
//! ```

use crate::constant;
use crate::pass::{At, Other, Pass, Verdict};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "wrap",
    "Pads that continue with the other end of an axis, to Gather",
    find,
)
.of(&["Pad"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let (data, emit) = (at.input(0)?, at.replacement()?);
    if node.text("mode").or("constant") != Some("wrap") {
        return Err(Other);
    }
    let pads = node.input(1).and_then(|it| constant::ints(scope, it));
    let pads = pads.ok_or("its pads are not constant")?;
    let axes = match node.input(3) {
        Some(axes) => constant::ints(scope, axes),
        None => sizes::rank(scope, data).map(|rank| (0..rank as i64).collect()),
    };
    let axes = axes
        .filter(|axes| 2 * axes.len() == pads.len())
        .ok_or("its axes are not known, or not as many as its pads")?;
    if pads.iter().any(|pad| *pad < 0) {
        return Err("its pads remove elements".into());
    }
    let (before, behind) = pads.split_at(axes.len());
    let mut padded = data.to_owned();
    for (place, &axis) in axes.iter().enumerate() {
        if before[place] == 0 && behind[place] == 0 {
            continue;
        }
        let size = &emit.size(data, axis);
        let end = emit.op("Add", (size, behind[place]));
        let places = emit.op("Range", (-before[place], end, 1));
        padded = emit.gather(&padded, emit.op("Mod", (places, size)), axis);
    }
    emit.finish_with(padded, "a Gather along each axis")
}
