//! Proves a loop's trip count.

use crate::constant;
use crate::model::{DOUBLE, FLOAT, INT32, LoopLayout, NodeProto};
use crate::scope::Scope;
use crate::sizes::{self, Size};

use super::body::{self, Body, MAXIMUM_STEPS, is_number, operands, through_identity};

/// More steps than any axis has.
const NO_LIMIT: i64 = i32::MAX as i64;

/// The loop continues while the iteration number plus `ahead` is below `size`.
struct Bound<'a> {
    size: Size<'a>,
    ahead: i64,
}

/// A loop's trip count, from its sequences, its count or its condition.
pub(crate) fn count<'a>(body: &Body<'a>, node: &'a NodeProto) -> Result<Size<'a>, String> {
    // All sequences of a Scan have one length.
    if let Some(sequence) = body.first_sequence() {
        let steps = sizes::axis(body.outer, sequence.value, sequence.axis);
        return steps.ok_or_else(|| "its number of steps is not provable".to_owned());
    }
    let mut bounds = Vec::new();
    if let Some(name) = node.input(0) {
        let size = size(body, body.outer, name).ok_or_else(|| {
            format!(
                "it does not provably run once for each step of its input: its trip count {name} \
                 is not provably a size"
            )
        })?;
        bounds.push(Bound { size, ahead: 1 });
    }
    let condition = body.inner.outputs[0];
    continues(body, condition, &mut bounds, MAXIMUM_STEPS).ok_or_else(|| {
        format!("its condition {condition} is not one that compares the step with a size")
    })?;
    bounds.retain(|bound| !matches!(bound.size, Size::Known(size) if size >= NO_LIMIT));
    let known = |bound: &Bound<'_>| {
        let size = bound.size.number()?;
        size.checked_sub(bound.ahead)?.checked_add(1)
    };
    let is_symbol = |bound: &&Bound<'_>| known(bound).is_none() && bound.ahead == 1;
    let symbol = bounds.iter().find(is_symbol).map(|bound| bound.size);
    let least = bounds.iter().filter_map(known).min();
    let number = least.filter(|&steps| steps > 0).map(Size::Known);
    let steps = symbol.or(number).ok_or(
        "it does not provably run once for each step of its input: nothing says how often it runs",
    )?;
    let early = bounds.iter().any(|bound| match (bound.size, steps) {
        (Size::Known(_), Size::Known(_)) => false,
        (size, steps) => size != steps || bound.ahead > 1,
    });
    if early {
        return Err(format!(
            "its condition {condition} may end it before the last step"
        ));
    }
    let starts = node
        .input(1)
        .is_none_or(|name| starts(body, name, steps, MAXIMUM_STEPS));
    if !starts {
        let condition = node.input(1).unwrap_or_default();
        return Err(format!(
            "its first condition {condition} may keep it from starting"
        ));
    }
    Ok(steps)
}

/// Whether a loop provably runs a step, by its count and its first condition, or its sequences.
pub(crate) fn is_a_step_certain(scope: &Scope<'_>, node: &NodeProto) -> bool {
    let is_some = |size: Option<Size<'_>>| size.and_then(Size::number).is_some_and(|size| size > 0);
    if node.is("Loop") {
        let is_counted = node.input(0).is_none_or(|count| {
            constant::whole_number(scope, count).is_some_and(|count| count > 0)
                || is_some(sizes::scalar(scope, count))
        });
        let starts = |name| is_true(scope, name) || sizes::truth(scope, name) == Some(true);
        return is_counted && node.input(1).is_none_or(starts);
    }
    let Some(LoopLayout { states, slices, .. }) = LoopLayout::of(node) else {
        return false;
    };
    (0..slices).any(|slice| {
        let sequence = &node.input[states + slice];
        let axis = body::listed(node, "scan_input_axes", slice).ok();
        let axis = axis.and_then(|axis| constant::normal_axis(axis, sizes::rank(scope, sequence)?));
        is_some(axis.and_then(|axis| sizes::axis(scope, sequence, axis)))
    })
}

/// A size from the outer graph, or a constant.
fn size<'a>(body: &Body<'a>, scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    let mut scope = scope;
    let mut name = name;
    let mut largest = i64::MAX;
    // Floats hold every size below 16777216 exactly.
    while let Some((inner, node, 0)) = scope.producer(name)
        && (node.is("Cast") && is_number(node) || node.is("Identity"))
    {
        largest = largest.min(match node.int("to").value() {
            Some(to) if to == i64::from(FLOAT) => 1 << 24,
            Some(to) if to == i64::from(INT32) => i64::from(i32::MAX),
            Some(to) if to == i64::from(DOUBLE) => 1 << 53,
            _ => i64::MAX,
        });
        scope = inner;
        name = node.input(0)?;
    }
    if let Some(number) = constant::whole_number(scope, name) {
        return (number <= largest && number >= -largest).then_some(Size::Known(number));
    }
    if !std::ptr::eq(scope, body.outer) && scope.defines(name) {
        return None;
    }
    sizes::scalar(body.outer, name)
}

/// Collects the bounds of a condition: it is true while every counter is below its bound.
fn continues<'a>(
    body: &Body<'a>,
    name: &str,
    bounds: &mut Vec<Bound<'a>>,
    steps: usize,
) -> Option<()> {
    let steps = steps.checked_sub(1)?;
    let name = own(body.inner, name).unwrap_or(name);
    // A constant, or the condition of the current step, which was true.
    if is_true(body.inner, name) || name == body.inner.inputs[1] {
        return Some(());
    }
    if let Some((first, second)) = operands(body.inner, name, "And") {
        continues(body, first, bounds, steps / 2)?;
        return continues(body, second, bounds, steps / 2);
    }
    let (step, limit) = less(body.inner, name)?;
    bounds.push(Bound {
        size: size(body, body.inner, limit)?,
        ahead: body.counter(step)?.ahead,
    });
    Some(())
}

/// Whether a condition is true if there is any step.
fn starts(body: &Body<'_>, name: &str, all: Size<'_>, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else {
        return false;
    };
    let scope = body.outer;
    let name = own(scope, name).unwrap_or(name);
    if is_true(scope, name) {
        return true;
    }
    if let Some((first, second)) = operands(scope, name, "And") {
        return starts(body, first, all, steps / 2) && starts(body, second, all, steps / 2);
    }
    less(scope, name).is_some_and(|(first, second)| {
        let second = size(body, scope, second);
        match (constant::whole_number(scope, first), second) {
            (Some(first), Some(Size::Known(second))) => first < second,
            (Some(0), second) => second == Some(all),
            _ => false,
        }
    })
}

/// The smaller and the larger operand of a comparison.
pub(crate) fn less<'a>(scope: &'a Scope<'a>, name: &str) -> Option<(&'a str, &'a str)> {
    operands(scope, name, "Less").or_else(|| {
        let (larger, smaller) = operands(scope, name, "Greater")?;
        Some((smaller, larger))
    })
}

/// Follows a value through Identity nodes within this graph, and borrows its name from it.
fn own<'a>(scope: &'a Scope<'a>, name: &str) -> Option<&'a str> {
    let (_, node) = scope.maker(name)?;
    let own = node.output.iter().find(|it| *it == name)?;
    Some(through_identity(scope, own))
}

fn is_true(scope: &Scope<'_>, name: &str) -> bool {
    let truths = constant::tensor(scope, name).and_then(constant::truths);
    truths.is_some_and(|truths| truths == [true])
}
