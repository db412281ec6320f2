//! BatchNormalization by the statistics of its own batch, as weights are standardised, or by computed ones,
//! as those of Keras' LayerNormalization; tract has that of constants alone.
//!
//! ```text
//! y, mean', variance' = BatchNormalization<training_mode=1>(x, scale, bias, mean, variance)
//!     →  y = (x - m) * (scale / sqrt(v + epsilon)) + bias, where m and v are of x along all axes but 1
//! ```

use crate::constant;
use crate::model::{self, DOUBLE, FLOAT, FLOAT16};
use crate::pass::{At, Other, Pass, Verdict};
use crate::{sizes, types};

pub(super) const PASS: Pass = Pass::rounding(
    "batch-statistics",
    "BatchNormalization by its own or computed statistics, to standard operators",
    find,
)
.of(&["BatchNormalization"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let inputs = [0, 1, 2, 3, 4].map(|index| node.input(index));
    let [Some(x), Some(scale), Some(bias), Some(mean), Some(variance)] = inputs else {
        return Err("an input is missing".into());
    };
    let is_own = node.int("training_mode").or(0) != Some(0);
    let parameters = [scale, bias, mean, variance];
    if !is_own
        && parameters
            .iter()
            .all(|it| constant::tensor(scope, it).is_some())
    {
        return Err(Other);
    }
    let emit = at.replacement()?;
    let numbers = [("epsilon", 1e-5), ("momentum", 0.9)];
    let numbers = numbers.map(|(name, default)| node.float(name).or(default));
    let [Some(epsilon), Some(momentum)] = numbers else {
        return Err("its attributes are those of a function".into());
    };
    let rank = sizes::rank(scope, x).filter(|rank| *rank >= 2);
    let rank = rank.ok_or("the number of axes of its input is not known")? as i64;
    let Some(code @ (FLOAT | DOUBLE | FLOAT16)) = types::of(scope, x) else {
        return Err("its input is not known to be of floats".into());
    };
    let others: Vec<i64> = (0..rank).filter(|axis| *axis != 1).collect();
    let behind: Vec<i64> = (1..rank - 1).collect();
    let number = |number: f32| {
        let number = emit.tensor(model::float_scalar(number));
        match code {
            FLOAT => number,
            _ => emit.cast(number, code),
        }
    };
    let of_channels = |value: &str| emit.unsqueeze(value, &behind);
    let average = match is_own {
        true => emit.mean(x, &others),
        false => of_channels(mean),
    };
    let centered = emit.op("Sub", (x, &average));
    let spread = match is_own {
        true => emit.mean(&emit.op("Mul", (&centered, &centered)), &others),
        false => of_channels(variance),
    };
    let shifted = emit.op("Add", (&spread, number(epsilon)));
    let factor = emit.op("Div", (of_channels(scale), emit.op("Sqrt", shifted)));
    let scaled = emit.op("Mul", (centered, factor));
    let shifted = emit.op("Add", (scaled, of_channels(bias)));
    emit.give(at.output()?, shifted);
    let running = [(mean, average), (variance, spread)];
    let running = std::iter::zip(node.output.iter().skip(1), running);
    for (output, (before, now)) in running.filter(|(output, _)| !output.is_empty()) {
        let before = emit.op("Mul", (before, number(momentum)));
        let now = emit.squeeze(&now, &others);
        let now = emit.op("Mul", (now, number(1.0 - momentum)));
        emit.give(output, emit.op("Add", (before, now)));
    }
    emit.finish("standard operators")
}
