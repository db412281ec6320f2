//! Pads that continue with the other end of an axis, which tract lacks.
//!
//! ```text
//! Pad<mode=wrap>(x, [before, behind])  →  Gather(x, Mod(Range(-before, size + behind), size))
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "wrap",
    "Pads that continue with the other end of an axis, to Gather",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let (Some(data), Some(output)) = (node.input(0), node.output.first()) else {
        return Verdict::Other;
    };
    if !node.is("Pad") || node.text("mode").or("constant") != Some("wrap") {
        return Verdict::Other;
    }
    let Some(pads) = node.input(1).and_then(|it| constant::ints(scope, it)) else {
        return Verdict::Left("its pads are not constant".to_owned());
    };
    let axes = match node.input(3) {
        Some(axes) => constant::ints(scope, axes),
        None => sizes::rank(scope, data).map(|rank| (0..rank as i64).collect()),
    };
    let Some(axes) = axes.filter(|axes| 2 * axes.len() == pads.len()) else {
        return Verdict::Left("its axes are not known, or not as many as its pads".to_owned());
    };
    if pads.iter().any(|pad| *pad < 0) {
        return Verdict::Left("its pads remove elements".to_owned());
    }
    let (before, behind) = pads.split_at(axes.len());
    let mut emit = Emit::new(output, scope.opset, names);
    let shape = emit.plain("Shape", &[data]);
    let one = emit.scalar(1);
    let mut padded = data.to_owned();
    for (place, axis) in axes.iter().enumerate() {
        if before[place] == 0 && behind[place] == 0 {
            continue;
        }
        let at = emit.scalar(*axis);
        let size = emit.plain("Gather", &[&shape, &at]);
        let behind = emit.scalar(behind[place]);
        let end = emit.plain("Add", &[&size, &behind]);
        let start = emit.scalar(-before[place]);
        let places = emit.plain("Range", &[&start, &end, &one]);
        let places = emit.plain("Mod", &[&places, &size]);
        padded = emit.op(
            "Gather",
            &[&padded, &places],
            vec![model::int("axis", *axis)],
        );
    }
    emit.write(&[output], "Identity", &[&padded], Vec::new());
    emit.finish("a Gather along each axis".to_owned())
}
