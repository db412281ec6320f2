//! BatchNormalization by the statistics of its own batch, as weights are standardised, or by computed ones,
//! as those of Keras' LayerNormalization; tract has that of constants alone.
//!
//! ```text
//! y, mean', variance' = BatchNormalization<training_mode=1>(x, scale, bias, mean, variance)
//!     →  y = (x - m) * (scale / sqrt(v + epsilon)) + bias, where m and v are of x along all axes but 1
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model::{self, DOUBLE, FLOAT, FLOAT16};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::{sizes, types};

pub(super) const PASS: Pass = Pass::rounding(
    "batch-statistics",
    "BatchNormalization by its own or computed statistics, to standard operators",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !node.is("BatchNormalization") {
        return Verdict::Other;
    }
    let inputs = [0, 1, 2, 3, 4].map(|index| node.input(index));
    let [Some(x), Some(scale), Some(bias), Some(mean), Some(variance)] = inputs else {
        return Verdict::Left("an input is missing".to_owned());
    };
    let is_own = node.int("training_mode").or(0) != Some(0);
    let given = [scale, bias, mean, variance];
    if !is_own && given.iter().all(|it| constant::tensor(scope, it).is_some()) {
        return Verdict::Other;
    }
    let Some(output) = node.output.first() else {
        return Verdict::Other;
    };
    let (Some(epsilon), Some(momentum)) = (
        node.float("epsilon").or(1e-5),
        node.float("momentum").or(0.9),
    ) else {
        return Verdict::Left("its attributes are those of a function".to_owned());
    };
    let Some(rank) = sizes::rank(scope, x).filter(|rank| *rank >= 2) else {
        return Verdict::Left("the number of axes of its input is not known".to_owned());
    };
    let Some(code @ (FLOAT | DOUBLE | FLOAT16)) = types::of(scope, x) else {
        return Verdict::Left("its input is not known to be of floats".to_owned());
    };
    let others: Vec<i64> = (0..rank as i64).filter(|axis| *axis != 1).collect();
    let behind: Vec<i64> = (1..rank as i64 - 1).collect();
    let mut emit = Emit::new(output, scope.opset, names);
    let number = |emit: &mut Emit<'_>, number: f32| {
        let number = emit.tensor(model::float_scalar(number));
        match code {
            FLOAT => number,
            _ => emit.op("Cast", &[&number], vec![model::int("to", code.into())]),
        }
    };
    let of_channels = |emit: &mut Emit<'_>, value: &str| match behind.is_empty() {
        true => value.to_owned(),
        false => emit.unsqueeze(value, &behind),
    };
    let average = match is_own {
        true => emit.mean(x, &others),
        false => of_channels(&mut emit, mean),
    };
    let centered = emit.plain("Sub", &[x, &average]);
    let spread = match is_own {
        true => {
            let squares = emit.plain("Mul", &[&centered, &centered]);
            emit.mean(&squares, &others)
        }
        false => of_channels(&mut emit, variance),
    };
    let epsilon = number(&mut emit, epsilon);
    let shifted = emit.plain("Add", &[&spread, &epsilon]);
    let deviation = emit.plain("Sqrt", &[&shifted]);
    let scale = of_channels(&mut emit, scale);
    let factor = emit.plain("Div", &[&scale, &deviation]);
    let scaled = emit.plain("Mul", &[&centered, &factor]);
    let bias = of_channels(&mut emit, bias);
    emit.write(&[output], "Add", &[&scaled, &bias], Vec::new());
    let running = std::iter::zip(
        node.output.iter().skip(1),
        [(mean, average), (variance, spread)],
    );
    for (output, (before, now)) in running.filter(|(output, _)| !output.is_empty()) {
        let kept = number(&mut emit, momentum);
        let before = emit.plain("Mul", &[before, &kept]);
        let now = emit.squeeze(&now, &others);
        let taken = number(&mut emit, 1.0 - momentum);
        let now = emit.plain("Mul", &[&now, &taken]);
        emit.write(&[output], "Add", &[&before, &now], Vec::new());
    }
    emit.finish("standard operators".to_owned())
}
