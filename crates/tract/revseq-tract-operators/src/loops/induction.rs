//! Values of a loop that follow from the iteration number alone.
//!
//! The part of the body that needs no data is cut out and run while the model is prepared: it tells
//! how many steps there are, and what counters and indices are in each. Loops of more than 65536
//! steps, and those whose end depends on data, are not followed.
//!
//! ```text
//! i = 0; while i < 5 { i += 2 }  →  3 steps, with i = 0, 2, 4 in the body and 6 after the last
//! ```

use std::collections::{BTreeSet, HashSet};

use tract_onnx::tract_hir::internal::*;

use crate::loops::spec::{Feed, Spec, Value, one};

/// The most steps that are followed while a model is prepared.
const MAXIMUM_STEPS: i64 = 1 << 16;

/// The most elements of a state that is followed; counters have one.
const MAXIMUM_ELEMENTS: usize = 16;

/// A loop whose number of steps, and possibly more, is known before it runs.
#[derive(Debug)]
pub(crate) struct Induction {
    /// The number of steps, possibly symbolic.
    pub(crate) steps: TDim,
    /// Values in the body, at each step.
    pub(crate) values: HashMap<OutletId, Vec<TValue>>,
    /// States after the last step.
    pub(crate) last: HashMap<usize, TValue>,
}

impl Induction {
    /// Whether an output of the loop is known before it runs.
    pub(crate) fn knows(&self, value: Value) -> bool {
        matches!(value, Value::State(state) if self.last.contains_key(&state))
    }
}

/// The states and nodes that follow from the iteration number.
///
/// A state does if it starts with a known value, and is updated only from the iteration number,
/// such states and constants: usually a counter.
fn regular(spec: &Spec, inputs: &[&TypedFact]) -> TractResult<(HashSet<usize>, HashSet<usize>)> {
    let body = &spec.body;
    let mut states: HashSet<usize> = (0..spec.states.len())
        .filter(|&state| {
            let initial = constant(inputs[spec.states[state]]);
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
                    Feed::Outer(_) => false,
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

/// Simulates a loop as far as it does not depend on computed values: its number of steps, its
/// counters, and the `asked` values that follow from them. `None` if the number of steps is
/// unknown.
pub(crate) fn follow(
    spec: &Spec,
    inputs: &[&TypedFact],
    asked: &[OutletId],
) -> TractResult<Option<Induction>> {
    let trip_count = match spec.trip_count {
        None => i64::MAX,
        Some(input) => match constant(inputs[input]) {
            Some(count) => one(&count, "trip count")?,
            None => return Ok(None),
        },
    };
    let mut goes_on = match spec.condition {
        None => true,
        Some(input) => match constant(inputs[input]) {
            Some(condition) => one(&condition, "condition")?,
            None => return Ok(None),
        },
    };
    let (states, nodes) = regular(spec, inputs)?;
    if spec.gives_condition && !nodes.contains(&spec.body.outputs[0].node) {
        return Ok(None);
    }
    if !spec.gives_condition && trip_count > MAXIMUM_STEPS {
        return Ok(None);
    }

    let states: BTreeSet<usize> = states.into_iter().collect();
    let asked: BTreeSet<OutletId> = asked
        .iter()
        .copied()
        .filter(|outlet| nodes.contains(&outlet.node))
        .collect();
    let mut slice = spec.body.clone();
    let (sources, feeds): (Vec<OutletId>, Vec<Feed>) = std::iter::zip(&slice.inputs, &spec.feeds)
        .filter(|(source, _)| nodes.contains(&source.node))
        .map(|(source, feed)| (*source, *feed))
        .unzip();
    slice.inputs = sources;
    let condition = spec.gives_condition.then(|| spec.body.outputs[0]);
    let after = states
        .iter()
        .map(|&state| spec.body.outputs[spec.state_output(state)]);
    slice.outputs = condition
        .into_iter()
        .chain(after)
        .chain(asked.iter().copied())
        .collect();
    slice.compact()?;
    let mut running = SimplePlan::new(slice)?.spawn()?;

    let mut current: HashMap<usize, TValue> = states
        .iter()
        .map(|&state| {
            let initial = constant(inputs[spec.states[state]]);
            Ok((state, initial.context("it is known")?))
        })
        .collect::<TractResult<_>>()?;
    let mut values: HashMap<OutletId, Vec<TValue>> = HashMap::new();
    let mut step = 0;
    while goes_on && step < trip_count {
        if step == MAXIMUM_STEPS {
            return Ok(None);
        }
        let fed = feeds.iter().map(|feed| match feed {
            Feed::State(state) => current[state].clone(),
            Feed::Step | Feed::Outer(_) => tensor0(step).into_tvalue(),
        });
        // The loop itself reports a failing step or a symbolic size when it runs.
        let Ok(outputs) = running.run(fed.collect()) else {
            return Ok(None);
        };
        let mut outputs = outputs.into_iter();
        if spec.gives_condition {
            let condition = outputs
                .next()
                .context("the condition is the first output")?;
            goes_on = one(&condition, "condition")?;
        }
        for (&state, after) in std::iter::zip(&states, &mut outputs) {
            current.insert(state, after);
        }
        for (&outlet, value) in std::iter::zip(&asked, outputs) {
            values.entry(outlet).or_default().push(value);
        }
        step += 1;
    }
    Ok(Some(Induction {
        steps: step.to_dim(),
        values,
        last: current,
    }))
}
