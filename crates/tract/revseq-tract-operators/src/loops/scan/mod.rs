//! Loops as tract's `Scan`.
//!
//! tract moves what does not depend on a state out of a Scan and computes it for all steps at once,
//! so a loop is one wherever that is provably the same. A Scan takes its number of steps from its
//! scan inputs; it has no condition, no limits, and no sizes that differ between steps. Each of
//! these is a reason against it ([`Why`]).
//!
//! ```text
//! Loop(N, true) { y = MatMul(Gather(x, step), W) }  →  Scan(x: [N, …]) { y = MatMul(x_t, W) }
//! ```

mod body;
mod limits;
pub(crate) mod metered;
mod reads;
mod wire;

use tract_onnx::tract_hir::internal::*;

use self::body::{Body, Origin};
use self::reads::{all_positions, gathers, positions};
use super::trips;
use crate::loops::induction::{Induction, follow};
use crate::loops::spec::{Spec, Value};

/// Reason why a loop is no Scan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Why {
    #[error("its number of steps depends on what it computes")]
    Steps,
    /// A last state is an output, which tract's Scan without steps does not have.
    #[error("a last state is an output, and it may have no steps")]
    LastState,
    /// Its first condition may be false.
    #[error("it is not known whether its first step runs")]
    Start,
    /// A state changes its type or sizes.
    #[error("a state changes its sizes")]
    StateChanges,
    /// The loop has no steps, or outputs without elements.
    #[error("it has no steps, or outputs without elements")]
    Empty,
    /// The loop exceeds the limits.
    #[error("it exceeds the limits")]
    Limits,
    /// A loop in it runs step by step, and has to stay within the limits of both.
    #[error("a loop in it runs step by step, and both share limits")]
    InnerLoop,
    /// The number of a step is used, and not known before the loop runs.
    #[error("it uses the number of the step, which depends on what it computes")]
    StepNumbers,
    #[error("a size in its body comes from data")]
    SizeFromData,
    #[error("it reads nothing step by step")]
    NoScan,
    /// The wiring failed.
    #[error("{0}")]
    Failed(String),
}

impl From<TractError> for Why {
    fn from(error: TractError) -> Self {
        Self::Failed(error.root_cause().to_string())
    }
}

/// A graph and the values in it that a loop takes.
pub(crate) type Outer<'a> = (&'a TypedModel, &'a [OutletId]);

/// Wires a loop as a Scan if it is one: its number of steps is known, and it reads something step
/// by step. `outer` is the graph that computes the inputs, of which `target` is a patch.
///
/// # Errors
/// Why it stays a loop.
pub(crate) fn wire(
    spec: &Spec,
    outer: Outer<'_>,
    target: &mut TypedModel,
    name: &str,
    inputs: &[OutletId],
) -> Result<TVec<OutletId>, Why> {
    // Nodes wired before an error have no readers.
    let facts: TVec<TypedFact> = inputs
        .iter()
        .map(|input| target.outlet_fact(*input).cloned())
        .collect::<TractResult<_>>()?;
    let gathers = gathers(spec);
    let mut asked: Vec<OutletId> = gathers.values().map(|gather| gather.index).collect();
    // Counters and step numbers that the body uses become scanned constants.
    asked.extend(&spec.body.inputs);
    let followed = follow(spec, &facts.iter().collect::<TVec<_>>(), &asked)?;
    let induction = match followed {
        Some(induction) => induction,
        None => by_symbol(spec, outer, &facts)?,
    };
    // tract's Scan without steps has no last states.
    let may_have_no_steps = induction.steps.to_i64().is_err();
    let mut outputs = spec.outputs.iter().map(|output| output.value);
    let knows = |value| matches!(value, Value::Scan(_)) || induction.knows(value);
    if may_have_no_steps && !outputs.all(knows) {
        return Err(Why::LastState);
    }
    let metered = limits::check(spec, &induction)?;
    let gathers = gathers
        .into_iter()
        .filter_map(|(node, gather)| {
            let positions = match induction.values.get(&gather.index) {
                Some(values) => positions(values, &gather, &facts)?,
                None => all_positions(spec, &gather, &facts, &induction.steps)?,
            };
            Some((node, (gather, positions)))
        })
        .collect();
    let mut body = Body {
        spec,
        induction: &induction,
        gathers,
        model: TypedModel {
            symbols: spec.body.symbols.clone(),
            ..TypedModel::default()
        },
        mapping: HashMap::new(),
        sources: vec![],
        states: vec![],
        element: None,
        metered,
    };
    if !body.has_values()? {
        return Err(Why::StepNumbers);
    }
    if !body.keeps_sizes()? {
        return Err(Why::SizeFromData);
    }
    body.translate()?;
    if !body.sources.iter().any(Origin::is_scanned) {
        return Err(Why::NoScan);
    }
    body.scan_an_element(&facts)?;
    Ok(body.wire(target, name, inputs)?)
}

/// The induction for a symbolic number of steps: the states that count steps. It is refused if the
/// loop may stop early.
fn by_symbol(
    spec: &Spec,
    (model, inputs): Outer<'_>,
    facts: &[TypedFact],
) -> Result<Induction, Why> {
    let steps = spec.steps.clone().filter(|it| it.as_i64().is_none());
    let steps = steps.ok_or(Why::Steps)?;
    let last = (0..spec.states.len()).filter_map(|state| {
        let first = trips::counter(spec, facts, state)?;
        let shape = facts[spec.states[state]].shape.as_concrete()?.to_vec();
        let last = tensor0(steps.clone() + first).into_shape(&shape).ok()?;
        Some((state, last.into_tvalue()))
    });
    let induction = Induction {
        last: last.collect(),
        steps,
        values: HashMap::new(),
    };
    let mut starts = spec.condition.iter().map(|input| inputs[*input]);
    if !starts.all(|input| trips::holds_at_first(model, input, &induction.steps)) {
        return Err(Why::Start);
    }
    Ok(induction)
}
