//! Products of matrices, over all steps.
//!
//! A product over several axes multiplies the matrices of the last two, so the steps are one more
//! axis of many products. A vector of each step becomes a matrix of one row or column first, unless
//! it is the left operand of one matrix: then the steps are its rows.

use crate::model::{NodeProto, ints};

use super::refusal::{SET_BY_CALLER, refusal};
use super::values::{Value, Values};

pub(super) fn matmul(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    let ranks = [values.rank(&node.input[0])?, values.rank(&node.input[1])?];
    if ranks.contains(&0) {
        return Err(refusal(node, "multiplies a scalar"));
    }
    let (name, rank) = product(values, [&inputs[0], &inputs[1]], ranks);
    values.set_stepped(&node.output[0], name, rank);
    Ok(())
}

/// The product of two values of these ranks, of which at least one depends on the step, and its
/// rank.
fn product(
    values: &mut Values<'_, '_>,
    operands: [&Value; 2],
    ranks: [usize; 2],
) -> (String, usize) {
    let rows_are_steps = ranks[0] == 1 && !operands[1].is_stepped() && ranks[1] <= 2;
    if rows_are_steps {
        let names = operands.map(Value::name);
        return (values.emit.plain("MatMul", &names), ranks[1] - 1);
    }
    let most = ranks[0].max(ranks[1]).max(2);
    let mut removed = Vec::new();
    let mut names = Vec::new();
    for (place, (operand, rank)) in std::iter::zip(operands, ranks).enumerate() {
        let Value::Stepped(stepped) = operand else {
            names.push(operand.name().to_owned());
            continue;
        };
        let mut stepped = stepped.clone();
        if rank == 1 {
            // A row as the first operand, a column as the second.
            let axis = if place == 0 { 1 } else { 2 };
            stepped.name = values.emit.unsqueeze(&stepped.name, &[axis]);
            stepped.rank = 2;
            removed.push(if place == 0 {
                most as i64 - 1
            } else {
                most as i64
            });
        }
        names.push(values.aligned(&Value::Stepped(stepped), most));
    }
    let vectors = ranks.iter().filter(|&&rank| rank == 1).count();
    let name = values.emit.plain("MatMul", &[&names[0], &names[1]]);
    let name = match removed.as_slice() {
        [] => name,
        removed => {
            // A vector that is the same in every step leaves no axis.
            let removed = match (operands.map(Value::is_stepped), ranks) {
                ([false, true], [1, 1]) => vec![1],
                _ => removed.to_vec(),
            };
            values.emit.squeeze(&name, &removed)
        }
    };
    (name, most - vectors)
}

/// Gemm, as a product and a sum.
pub(super) fn gemm(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    let is_one = |attribute| node.float(attribute).or(1.0) == Some(1.0);
    let added = node.input(2);
    if !is_one("alpha") || added.is_some() && !is_one("beta") {
        return Err(refusal(node, "has factors other than 1"));
    }
    let mut operands = Vec::new();
    for (place, attribute) in ["transA", "transB"].into_iter().enumerate() {
        if values.rank(&node.input[place])? != 2 {
            return Err(refusal(node, "multiplies something else than matrices"));
        }
        let turned = node.int(attribute).or(0);
        let turned = turned.ok_or_else(|| refusal(node, SET_BY_CALLER))?;
        let mut operand = inputs[place].clone();
        if turned != 0 {
            let (name, perm): (_, &[i64]) = match &mut operand {
                Value::Fixed(name) => (name, &[1, 0]),
                Value::Stepped(stepped) => (&mut stepped.name, &[0, 2, 1]),
            };
            *name = values
                .emit
                .op("Transpose", &[name], vec![ints("perm", perm)]);
        }
        operands.push(operand);
    }
    let (name, added) = match (operands.iter().any(Value::is_stepped), added) {
        (true, added) => (
            product(values, [&operands[0], &operands[1]], [2, 2]).0,
            added,
        ),
        (false, added) => {
            let names = [operands[0].name(), operands[1].name()];
            (values.emit.plain("MatMul", &names), added)
        }
    };
    let name = match added {
        None => name,
        Some(added) => {
            if values.rank(added)? > 2 {
                return Err(refusal(node, "adds something else than a matrix"));
            }
            let added = values.aligned(&inputs[2], 2);
            values.emit.plain("Add", &[&name, &added])
        }
    };
    values.set_stepped(&node.output[0], name, 2);
    Ok(())
}
