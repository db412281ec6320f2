//! The shape of a NonZero that nothing else reads. tract drops the NonZero, and with it the number
//! that its size stands for.
//!
//! tract knows a value's shape before it runs, so Shape does not keep its input alive. The shape is
//! computed without the NonZero instead; a NonZero that something else reads stays, and is left
//! alone.
//!
//! ```text
//! Shape(NonZero(x))  →  [rank of x, number of elements of x that are not 0]
//! ```

use crate::emit::Emit;
use crate::model::{self, BOOL, INT64};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass =
    Pass::exact("nonzero-count", "The shape of a NonZero, to a count", find);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let (Some(places), Some(output)) = (node.input(0), node.output.first()) else {
        return Verdict::Other;
    };
    let counted = scope.first_output_of(places, "NonZero");
    let Some(value) = counted.and_then(|it| it.input(0)) else {
        return Verdict::Other;
    };
    let reads_shape = |it: &&model::NodeProto| it.is("Shape") && it.input(0) == Some(places);
    let shapes = scope.nodes.iter().filter(reads_shape).count();
    if !node.is("Shape") || !scope.defines(places) || shapes < scope.uses(places) {
        return Verdict::Other;
    }
    let to = |code: i32| vec![model::int("to", code.into())];
    let mut emit = Emit::new(output, scope.opset, names);
    let is_counted = emit.op("Cast", &[value], to(BOOL));
    let ones = emit.op("Cast", &[&is_counted], to(INT64));
    let flat = emit.ints(&[-1]);
    let ones = emit.plain("Reshape", &[&ones, &flat]);
    let count = emit.sum(&ones, &[0]);
    let count = emit.unsqueeze(&count, &[0]);
    let sizes = emit.plain("Shape", &[value]);
    let rank = emit.plain("Shape", &[&sizes]);
    let both = [&*rank, &count];
    let axis = vec![model::int("axis", 0)];
    let [start, end] = [("start", 0), ("end", i64::MAX)].map(|(name, no)| node.int(name).or(no));
    match (start, end) {
        (Some(0), Some(i64::MAX)) => emit.write(&[output], "Concat", &both, axis),
        (Some(start), Some(end)) => {
            let shape = emit.op("Concat", &both, axis);
            let part = emit.range(&shape, 0, start, end);
            emit.same(output, &part);
        }
        _ => return Verdict::Other,
    }
    emit.finish("a count of the elements that are not 0".to_owned())
}
