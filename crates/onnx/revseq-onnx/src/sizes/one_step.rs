//! The size of a Slice of one step of a Loop: of `x[t : t + 1]`, where the Loop has no more iterations than
//! `x` has steps, it is 1.

use super::element::place_in_operand;
use super::{Size, known_vector};
use crate::constant;
use crate::model::NodeProto;
use crate::scope::Scope;
use crate::sizes;

/// The length of the axis that a Slice with bounds that are not known cuts, if that is one step.
pub(super) fn size<'a>(scope: &'a Scope<'a>, node: &'a NodeProto, axis: usize) -> Option<Size<'a>> {
    let data = node.input(0)?;
    let is_cut = match node.input(3) {
        Some(axes) => {
            let axes = known_vector(scope, axes)?;
            constant::normal_axes(&axes, sizes::rank(scope, data)?)? == [axis]
        }
        None => axis == 0,
    };
    let is_forward = match node.input(4) {
        Some(by) => known_vector(scope, by)? == [1],
        None => true,
    };
    if !is_cut || !is_forward {
        return None;
    }
    let (body, step, _) = sizes::origin(scope, node.input(1)?, &[0]);
    if body.inputs.first() != Some(&step) || !is_next(scope, node.input(2)?, (body, step))? {
        return None;
    }
    let (outer, around) = body.node_around()?;
    let trips = sizes::scalar(outer, around.input(0).filter(|_| around.is("Loop"))?)?;
    let all = sizes::axis(scope, data, axis)?;
    let fits = match (trips, all) {
        (Size::Known(trips), Size::Known(all)) => trips <= all,
        _ => trips == all,
    };
    fits.then_some(Size::Known(1))
}

/// Whether a list of one number has the one behind a step.
fn is_next(scope: &Scope<'_>, list: &str, (body, step): (&Scope<'_>, &str)) -> Option<bool> {
    let (inner, sum, place) = sizes::origin(scope, list, &[0]);
    let (inner, node, _) = inner.producer(sum).filter(|it| it.1.is("Add"))?;
    let operand = |index: usize| {
        let name = node.input(index)?;
        Some((name, place_in_operand(inner, name, &place)?))
    };
    let [one, other] = [operand(0)?, operand(1)?];
    let is_step = |(name, place): &(&str, Vec<usize>)| {
        let (of, name, _) = sizes::origin(inner, name, place);
        of.is(body) && name == step
    };
    let (name, place) = match is_step(&one) {
        true => other,
        false if is_step(&other) => one,
        false => return Some(false),
    };
    Some(sizes::element_at(inner, name, &place)? == Size::Known(1))
}
