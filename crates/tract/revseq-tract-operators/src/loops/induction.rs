//! Steps of a loop that follow from the iteration number alone.
//!
//! The part of the body that needs no data is cut out and run while the model is prepared: it tells
//! how many steps there are. Loops of more than 65536 steps, and those whose end depends on data, are not
//! followed.
//!
//! ```text
//! i = 0; while i < 5 { i += 2 }  →  3 steps
//! ```

use std::collections::{BTreeSet, HashSet};

use tract_onnx::tract_hir::internal::*;

use crate::loops::spec::{Feed, Spec, one};

/// The most steps that are followed while a model is prepared.
const MAXIMUM_STEPS: i64 = 1 << 16;

/// The most elements of a state that is followed; counters have one.
const MAXIMUM_ELEMENTS: usize = 16;

/// The states and nodes that follow from the iteration number.
///
/// A state does if it starts with a known value, and is updated only from the iteration number,
/// such states and constants: usually a counter.
fn regular(spec: &Spec, inputs: &[TypedFact]) -> TractResult<(HashSet<usize>, HashSet<usize>)> {
    let body = &spec.body;
    let mut states: HashSet<usize> = (0..spec.states.len())
        .filter(|&state| {
            let initial = constant(&inputs[spec.states[state]]);
            initial.is_some_and(|it| {
                let is_counted =
                    it.datum_type().is_integer() || it.datum_type() == bool::datum_type();
                is_counted && it.len() <= MAXIMUM_ELEMENTS
            })
        })
        .collect();
    let order = body.eval_order()?;
    loop {
        let mut nodes = HashSet::new();
        for &id in &order {
            let node = body.node(id);
            let follows = match body.inputs.iter().position(|input| input.node == id) {
                Some(input) => match spec.feeds[input] {
                    Feed::Step => true,
                    Feed::State(state) => states.contains(&state),
                    Feed::Outer(_) | Feed::Slice { .. } => false,
                },
                None => {
                    node.inputs.iter().all(|input| nodes.contains(&input.node))
                        && node.op.state(&EvalContext::out_of_plan())?.is_none()
                }
            };
            if follows {
                nodes.insert(id);
            }
        }
        let kept: HashSet<usize> = states
            .iter()
            .copied()
            .filter(|&state| nodes.contains(&body.outputs[spec.state_output(state)].node))
            .collect();
        if kept == states {
            return Ok((states, nodes));
        }
        states = kept;
    }
}

/// A value that is known before the model runs, with sizes as integers.
pub(crate) fn constant(fact: &TypedFact) -> Option<TValue> {
    let value = fact.konst.as_ref()?;
    if value.datum_type() == TDim::datum_type() {
        let value = value.cast_to::<i64>().ok()?.into_owned();
        return Some(value.into_tvalue());
    }
    Some(Arc::clone(value).into_tvalue())
}

/// The number of steps of a loop, as far as it does not depend on computed values; `None` if it is unknown.
pub(crate) fn follow(spec: &Spec, inputs: &[TypedFact]) -> TractResult<Option<i64>> {
    let trip_count = match spec.trip_count {
        None => i64::MAX,
        Some(input) => match constant(&inputs[input]) {
            Some(count) => one(&count, "trip count")?,
            None => return Ok(None),
        },
    };
    let mut goes_on = match spec.condition {
        None => true,
        Some(input) => match constant(&inputs[input]) {
            Some(condition) => one(&condition, "condition")?,
            None => return Ok(None),
        },
    };
    // Without a condition, the trip count alone tells it.
    rule_if!(spec.gives_condition);
    let (states, nodes) = regular(spec, inputs)?;
    if !nodes.contains(&spec.body.outputs[0].node) {
        return Ok(None);
    }
    let states: BTreeSet<usize> = states.into_iter().collect();
    let mut slice = spec.body.clone();
    let (sources, feeds): (Vec<OutletId>, Vec<Feed>) = std::iter::zip(&slice.inputs, &spec.feeds)
        .filter(|(source, _)| nodes.contains(&source.node))
        .map(|(source, feed)| (*source, *feed))
        .unzip();
    slice.inputs = sources;
    let after = states.iter().map(|&state| spec.state_output(state));
    let outputs = std::iter::once(0).chain(after);
    slice.outputs = outputs.map(|output| spec.body.outputs[output]).collect();
    slice.compact()?;
    let mut running = SimplePlan::new(slice)?.spawn()?;

    let initial = states.iter().map(|&state| {
        let initial = constant(&inputs[spec.states[state]]);
        Ok((state, initial.context("it is known")?))
    });
    let mut current: HashMap<usize, TValue> = initial.collect::<TractResult<_>>()?;
    let mut step = 0;
    while goes_on && step < trip_count {
        if step == MAXIMUM_STEPS {
            return Ok(None);
        }
        let fed = feeds.iter().map(|feed| match feed {
            Feed::State(state) => current[state].clone(),
            Feed::Step | Feed::Outer(_) | Feed::Slice { .. } => tensor0(step).into_tvalue(),
        });
        // The loop itself reports a failing step or a symbolic size when it runs.
        let Ok(outputs) = running.run(fed.collect()) else {
            return Ok(None);
        };
        let mut outputs = outputs.into_iter();
        let condition = outputs
            .next()
            .context("the condition is the first output")?;
        goes_on = one(&condition, "condition")?;
        current.extend(std::iter::zip(states.iter().copied(), outputs));
        step += 1;
    }
    Ok(Some(step))
}
