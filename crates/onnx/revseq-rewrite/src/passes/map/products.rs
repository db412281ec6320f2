//! Products of matrices, over all steps.
//!
//! A product over several axes multiplies the matrices of the last two, so the steps are one more
//! axis of many products. A vector of each step becomes a matrix of one row or column first, unless
//! it is the left operand of one matrix: then the steps are its rows.

use crate::model::NodeProto;

use super::refusal::{int, refusal};
use super::values::{Stepped, Value, Values};

pub(super) fn matmul(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let ranks = [values.rank(&node.input[0])?, values.rank(&node.input[1])?];
    if ranks.contains(&0) {
        return Err(refusal(node, "multiplies a scalar"));
    }
    Ok(product(values, [&inputs[0], &inputs[1]], ranks))
}

/// The product of two values of these ranks, of which at least one depends on the step.
fn product(values: &mut Values<'_, '_>, operands: [&Value; 2], ranks: [usize; 2]) -> Stepped {
    let emit = values.emit;
    let rows_are_steps = ranks[0] == 1 && !operands[1].is_stepped() && ranks[1] <= 2;
    if rows_are_steps {
        let product = emit.op("MatMul", operands.map(Value::name));
        return Stepped::new(product, ranks[1] - 1);
    }
    let most = ranks[0].max(ranks[1]).max(2);
    let mut removed = Vec::new();
    let mut names = Vec::new();
    for (place, (operand, rank)) in std::iter::zip(operands, ranks).enumerate() {
        let mut operand = operand.clone();
        if let Value::Stepped(stepped) = &mut operand
            && rank == 1
        {
            // A row as the first operand, a column as the second.
            let place = place as i64;
            *stepped = Stepped::new(emit.unsqueeze(&stepped.name, &[place + 1]), 2);
            removed.push(most as i64 - 1 + place);
        }
        names.push(values.aligned(&operand, most));
    }
    let vectors = ranks.iter().filter(|&&rank| rank == 1).count();
    let product = emit.op("MatMul", names);
    // A vector that is the same in every step leaves no axis.
    if (operands.map(Value::is_stepped), ranks) == ([false, true], [1, 1]) {
        removed = vec![1];
    }
    Stepped::new(emit.squeeze(&product, &removed), most - vectors)
}

/// Gemm, as a product and a sum.
pub(super) fn gemm(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let emit = values.emit;
    let is_one = |attribute| node.float(attribute).or(1.0) == Some(1.0);
    let added = node.input(2);
    if !is_one("alpha") || added.is_some() && !is_one("beta") {
        return Err(refusal(node, "has factors other than 1"));
    }
    let mut operands = [inputs[0].clone(), inputs[1].clone()];
    for (place, attribute) in ["transA", "transB"].into_iter().enumerate() {
        if values.rank(&node.input[place])? != 2 {
            return Err(refusal(node, "multiplies something else than matrices"));
        }
        if int(node, attribute, 0)? != 0 {
            match &mut operands[place] {
                Value::Fixed(name) => *name = emit.transpose(name, &[1, 0]),
                Value::Stepped(it) => it.name = emit.transpose(&it.name, &[0, 2, 1]),
            }
        }
    }
    let [one, other] = &operands;
    let mut name = match operands.iter().any(Value::is_stepped) {
        true => product(values, [one, other], [2, 2]).name,
        false => emit.op("MatMul", [one.name(), other.name()]),
    };
    if let Some(added) = added {
        if values.rank(added)? > 2 {
            return Err(refusal(node, "adds something else than a matrix"));
        }
        name = emit.op("Add", (name, values.aligned(&inputs[2], 2)));
    }
    Ok(Stepped::new(name, 2))
}
