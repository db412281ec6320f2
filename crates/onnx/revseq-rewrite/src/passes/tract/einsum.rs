//! Einsum of which tract makes no product of matrices: of more than two operands, without a sum, or with one
//! to which an operand brings no axis of its own. tract adds element by element then, or packs an operand in
//! each run.
//!
//! ```text
//! y = Einsum<"bdl,bln,bdl->bdln">(a, b, c)  →  y = Einsum<"bdl,bln->bdln">(Einsum<"bdl,bdl->bdl">(a, c), b)
//! y = Einsum<"bdl,bln->bdln">(a, b)         →  y = Mul(Unsqueeze(a), Unsqueeze(Transpose(b)))
//! y = Einsum<"bdn,bn->bd">(a, b)            →  y = ReduceSum(Mul(a, Unsqueeze(b)))
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model;
use crate::pass::{At, Other, Pass, Verdict};
use crate::sizes::Equation;

pub(super) const PASS: Pass = Pass::rounding(
    "einsum",
    "Einsum that is no product of two matrices, to products of two operands, element by element where \
     nothing or one operand alone is summed",
    find,
)
.of(&["Einsum"]);

fn find(at: &At<'_>) -> Verdict {
    let emit = at.replacement()?;
    let equation = Equation::of(at.node).ok_or(Other)?;
    let operands: Vec<&str> = at.node.inputs().collect();
    let letters = || equation.operands.iter().chain([&equation.output]);
    let is_plain = |letters: &Vec<char>| {
        let mut seen = Vec::new();
        letters.iter().all(|letter| {
            let is_new = !seen.contains(&letter);
            seen.push(letter);
            letter.is_alphabetic() && is_new
        })
    };
    if operands.len() != equation.operands.len() || !letters().all(is_plain) {
        return Err(Other);
    }
    match (&*operands, &*equation.operands) {
        (&[first, second], [a, b]) => {
            let sums = |own: &[char], other: &[char]| {
                let mut own = own.iter().filter(|letter| !other.contains(letter));
                own.next().is_some()
            };
            let is_summed = sums(&[a.as_slice(), b].concat(), &equation.output);
            let is_constant = |name: &str| constant::tensor(at.scope, name).is_some();
            // A product of matrices, or with a constant one, of which tract packs the constant once.
            if is_summed
                && (sums(a, b) && sums(b, a)
                    || is_constant(first) && !sums(b, a)
                    || is_constant(second) && !sums(a, b))
            {
                return Err(Other);
            }
            let larger = if sums(b, a) { b } else { a };
            let product = multiplied(&emit, [(first, a), (second, b)], larger, &equation.output);
            emit.finish_with(product, "a product of its operands' elements")
        }
        ([_, _, _, ..], _) => {
            let product = by_two(&emit, &operands, &equation);
            emit.finish_with(product, "products of two operands")
        }
        _ => Err(Other),
    }
}

/// Writes the product of two operands by elements, with sums over the axes that the output lacks.
fn multiplied(
    emit: &Emit<'_>,
    operands: [(&str, &Vec<char>); 2],
    larger: &[char],
    output: &[char],
) -> String {
    let [(_, a), (_, b)] = operands;
    let all = || a.iter().chain(b.iter()).copied();
    // The order of the larger operand, if that is the output's, so that it need not move.
    let kept = larger.iter().filter(|letter| output.contains(letter));
    let mut order: Vec<char> = match kept.eq(output) {
        true => larger.to_vec(),
        false => output.to_vec(),
    };
    for letter in all() {
        if !order.contains(&letter) {
            order.push(letter);
        }
    }
    let aligned = operands.map(|(name, letters)| {
        let present = order
            .iter()
            .filter_map(|it| letters.iter().position(|own| own == it));
        let perm: Vec<i64> = present.map(|place| place as i64).collect();
        let missing = order.iter().enumerate();
        let missing = missing.filter(|(_, letter)| !letters.contains(letter));
        let missing: Vec<i64> = missing.map(|(axis, _)| axis as i64).collect();
        emit.unsqueeze(&emit.transpose(name, &perm), &missing)
    });
    let product = emit.op("Mul", aligned.as_slice());
    let summed = order.iter().enumerate();
    let summed = summed.filter(|(_, letter)| !output.contains(letter));
    let summed: Vec<i64> = summed.map(|(axis, _)| axis as i64).collect();
    emit.sum(&product, &summed)
}

/// Writes an Einsum of many operands by those of two, the pairs with the fewest axes first.
fn by_two(emit: &Emit<'_>, names: &[&str], equation: &Equation) -> String {
    let named = names.iter().map(|&name| name.to_owned());
    let mut operands: Vec<(String, Vec<char>)> =
        std::iter::zip(named, equation.operands.iter().cloned()).collect();
    let write = |[(first, a), (second, b)]: [&(String, Vec<char>); 2], kept: &[char]| {
        let text = |letters: &[char]| letters.iter().collect::<String>();
        let equation = format!("{},{}->{}", text(a), text(b), text(kept));
        let attributes = vec![model::text("equation", &equation)];
        emit.with("Einsum", (first, second), attributes)
    };
    while operands.len() > 2 {
        let mut best: Option<(usize, usize, Vec<char>)> = None;
        for one in 0..operands.len() {
            for other in one + 1..operands.len() {
                let beside = operands.iter().enumerate();
                let beside = beside.filter(|(index, _)| *index != one && *index != other);
                let mut needed = equation.output.clone();
                needed.extend(beside.flat_map(|(_, (_, letters))| letters));
                let mut kept: Vec<char> = Vec::new();
                for &letter in operands[one].1.iter().chain(&operands[other].1) {
                    if needed.contains(&letter) && !kept.contains(&letter) {
                        kept.push(letter);
                    }
                }
                if best
                    .as_ref()
                    .is_none_or(|(_, _, least)| kept.len() < least.len())
                {
                    best = Some((one, other, kept));
                }
            }
        }
        let Some((one, other, kept)) = best else {
            break;
        };
        let name = write([&operands[one], &operands[other]], &kept);
        operands.remove(other);
        operands[one] = (name, kept);
    }
    write([&operands[0], &operands[1]], &equation.output)
}
