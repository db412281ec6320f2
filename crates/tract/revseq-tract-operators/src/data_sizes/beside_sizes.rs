//! Numbers beside sizes, in tract's type of sizes with all of their bits.
//!
//! An operator whose inputs are of one type in ONNX may read a size and a number. tract casts the number
//! itself, and keeps 32 bits of it.
//!
//! ```text
//! Concat(N - 1, 9223372036854775807)  →  Concat of two TDim
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::node::is_one_of;
use crate::operator::{Input, ReadAs, over};

/// The operators of which several inputs are of one type, as far as tract casts them to it. Those that
/// this crate has instead of tract's cast them alike. The inputs are listed unless all are.
const OPERATORS: [(&str, &[usize]); 3] = [
    (
        "Add Clip Concat Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Sub Sum",
        &[],
    ),
    ("ScatterElements ScatterND", &[0, 2]),
    ("Where", &[1, 2]),
];

/// Puts an operator over one of these: an integer becomes a size if another input of the same type is one.
pub(crate) fn mended(operator: &str, upstream: Box<dyn InferenceOp>) -> Box<dyn InferenceOp> {
    let mut operators = OPERATORS.iter();
    let Some((_, listed)) = operators.find(|(names, _)| is_one_of(names, operator)) else {
        return upstream;
    };
    let is_listed = |input: usize| listed.is_empty() || listed.contains(&input);
    let read = move |input: usize, inputs: &[Input]| {
        let mut others = inputs.iter().enumerate();
        let are_sizes = others.any(|(other, it)| is_listed(other) && it.is_size());
        let datum_type = inputs[input].datum_type;
        let is_number = is_listed(input) && datum_type.is_some_and(|it| it.is_integer());
        (are_sizes && is_number).then(TDim::datum_type)
    };
    over(upstream, ReadAs(read))
}
