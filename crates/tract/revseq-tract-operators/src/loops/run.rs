//! Runs a loop step by step.
//!
//! Each loop of a running model has one such state, which is kept from run to run. The body's plan
//! is executed like a model of its own: outer values are shared, states are moved in and out, and
//! scan outputs are kept until the last step. Limits are checked before a step runs, as far as its
//! sizes are known, and after it.

use tract_onnx::tract_hir::internal::*;

use crate::loops::budget::{Budget, timed};
use crate::loops::spec::{Feed, Spec, Value, one};
use crate::other_sizes::OtherSizes;
use crate::run::{exec, set_symbols};

/// A body that is planned, and what holds for all of its runs.
#[derive(Debug)]
pub(super) struct Body {
    plan: Arc<TypedSimplePlan>,
    /// Whether it has symbolic sizes, which may differ between steps.
    has_symbols: bool,
    /// The values of which one is the largest.
    large: Vec<TypedFact>,
}

impl Body {
    /// Plans a body, which may have been optimised since a loop was specified.
    pub(super) fn new(body: TypedModel) -> TractResult<Arc<Self>> {
        let outputs = body.nodes().iter().flat_map(|node| &node.outputs);
        let mut sizes = outputs.flat_map(|output| output.fact.shape.iter());
        Ok(Arc::new(Self {
            has_symbols: sizes.any(|size| size.to_i64().is_err()),
            large: large(&body),
            plan: SimplePlan::new(body)?,
        }))
    }

    pub(super) fn model(&self) -> &TypedModel {
        self.plan.model()
    }
}

/// A running loop. Its body's state is created once and reused at every step; each run gives it its own
/// values and symbols.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    spec: Arc<Spec>,
    body: Arc<Body>,
    state: TypedSimpleState,
    /// The cached result of [`coming`](Self::coming) in this run, for states of these shapes.
    coming: Option<(TVec<TVec<usize>>, u64)>,
}

impl Running {
    pub(super) fn new(spec: Arc<Spec>, body: Arc<Body>) -> TractResult<Self> {
        Ok(Self {
            spec,
            state: body.plan.spawn()?,
            body,
            coming: None,
        })
    }

    /// A lower bound of the bytes that the next step allocates: its outputs, or the largest
    /// intermediate value.
    fn coming(&mut self, symbols: &SymbolValues, states: &[Option<TValue>]) -> TractResult<u64> {
        let shapes = states.iter().flatten();
        let shapes: TVec<TVec<usize>> = shapes.map(|state| state.shape().into()).collect();
        if let Some((known, bytes)) = &self.coming
            && *known == shapes
        {
            return Ok(*bytes);
        }
        let symbols = with_states(&self.spec, symbols, states)?;
        let model = self.body.model();
        let outputs = &model.outputs[self.spec.state_output(0)..];
        let outputs = outputs
            .iter()
            .map(|outlet| Ok(bytes_of(model.outlet_fact(*outlet)?, &symbols)));
        let outputs = outputs.collect::<TractResult<Vec<_>>>()?;
        let outputs = outputs.into_iter().flatten().fold(0, u64::saturating_add);
        let large = self.body.large.iter();
        let largest = large.filter_map(|fact| bytes_of(fact, &symbols)).max();
        let bytes = outputs.max(largest.unwrap_or(0));
        self.coming = Some((shapes, bytes));
        Ok(bytes)
    }

    /// Runs the body once and clears its values.
    fn step(
        &mut self,
        ctx: &EvalContext<'_>,
        step: i64,
        states: &mut [Option<TValue>],
        inputs: &[Option<TValue>],
    ) -> TractResult<TVec<TValue>> {
        let Self {
            spec, body, state, ..
        } = self;
        if step == 0 || body.has_symbols {
            set_symbols(state, ctx);
        }
        for (input, feed) in spec.feeds.iter().enumerate() {
            let value = match *feed {
                Feed::Step => Some(tensor0(step).into_tvalue()),
                // Moved, so that the body may write in place.
                Feed::State(state) => states[state].take(),
                Feed::Outer(outer) => inputs[outer].clone(),
                Feed::Slice {
                    input,
                    axis,
                    is_reversed,
                } => {
                    let whole = inputs[input].as_ref().context("it is kept")?;
                    let place = match is_reversed {
                        false => step as usize,
                        true => whole.shape()[axis] - 1 - step as usize,
                    };
                    Some(whole.slice(axis, place, place + 1)?.into_tvalue())
                }
            };
            state.set_input(input, value.context("each is fed once")?)?;
        }
        exec(state)?;
        let outputs = state.outputs()?;
        for &node in body.plan.order_without_consts() {
            state.turn_state.values[node] = None;
        }
        Ok(outputs)
    }

    fn run(&mut self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let spec = Arc::clone(&self.spec);
        let trip_count = match spec.trip_count {
            None => i64::MAX,
            Some(input) => one(&inputs[input], "trip count")?,
        };
        let mut goes_on = match spec.condition {
            None => true,
            Some(input) => one(&inputs[input], "condition")?,
        };
        for feed in &spec.feeds {
            if let Feed::Slice { input, axis, .. } = *feed {
                let size = inputs[input].shape()[axis];
                ensure!(
                    i64::try_from(size) == Ok(trip_count),
                    "its scan inputs have {trip_count} and {size} elements along the axes of their steps, \
                     expected as many"
                );
            }
        }
        let mut states: TVec<Option<TValue>> = spec
            .states
            .iter()
            .map(|&input| Some(inputs[input].clone()))
            .collect();
        let mut inputs: TVec<Option<TValue>> = inputs.into_iter().map(Some).collect();
        for (index, input) in inputs.iter_mut().enumerate() {
            if spec.feeds.iter().all(|feed| feed.outer() != Some(index)) {
                *input = None;
            }
        }
        let mut scanned: TVec<Vec<TValue>> = tvec![vec![]; spec.scans];
        let mut budget = Budget::of(spec.limits);
        // Outer symbols may have other values than in the last run.
        self.coming = None;
        let mut scanned_bytes = 0;
        let mut step = 0;
        while goes_on && step < trip_count {
            budget.take_steps(1)?;
            if spec.limits.bytes.is_some() {
                budget.hold(scanned_bytes + self.coming(ctx.symbols, &states)?)?;
            }
            let outputs = self
                .step(ctx, step, &mut states, &inputs)
                .with_context(|| format!("step {step}"))?;
            let mut outputs = outputs.into_iter();
            if spec.gives_condition {
                let condition = outputs.next().context("the body produces a condition")?;
                goes_on = one(&condition, "condition")?;
            }
            let mut held = 0;
            for (state, after) in std::iter::zip(&mut states, &mut outputs) {
                held += bytes(&after);
                *state = Some(after);
            }
            for (scanned, value) in std::iter::zip(&mut scanned, outputs) {
                scanned_bytes += bytes(&value);
                if let Some(first) = scanned.first() {
                    ensure!(
                        first.shape() == value.shape(),
                        "step {step} produced a scan output of sizes {:?}, but the first produced {:?}",
                        value.shape(),
                        first.shape()
                    );
                }
                scanned.push(value);
            }
            budget.hold(scanned_bytes + held)?;
            step += 1;
        }
        if let Some(expected) = &spec.steps {
            // A symbol equals the trip count even if its value is unknown.
            let expected = expected.eval(ctx.symbols).to_i64();
            let expected = expected.unwrap_or(trip_count.max(0));
            if expected != step {
                return Err(OtherSizes::error(format!(
                    "its condition ended it after {step} of {expected} steps, which the sizes of its \
                     outputs were taken from before they were known"
                )));
            }
        }
        let outputs = spec.outputs.iter().map(|output| match output.value {
            Value::State(state) => states[state].clone().context("states are put back"),
            Value::Scan(scan) if step == 0 => {
                let empty = nothing_scanned(&spec, scan, ctx.symbols, &states)?;
                Ok(empty.into_tvalue())
            }
            Value::Scan(scan) => {
                let mut values = std::mem::take(&mut scanned[scan]);
                if spec.reversed.contains(&scan) {
                    values.reverse();
                }
                Ok(stack(values)?.into_tvalue())
            }
        });
        outputs.collect()
    }
}

fn bytes(value: &Tensor) -> u64 {
    value.len() as u64 * value.datum_type().size_of() as u64
}

/// The bytes of a value, if the symbols determine its sizes.
fn bytes_of(fact: &TypedFact, symbols: &SymbolValues) -> Option<u64> {
    let mut bytes = fact.datum_type.size_of() as u64;
    for size in fact.shape.iter() {
        let size = size.eval(symbols).to_i64().ok()?;
        bytes = bytes.saturating_mul(size.unsigned_abs());
    }
    Some(bytes)
}

/// Returns the values of a body of which one is the largest, whatever its symbols are: the largest of known
/// sizes, and one of each shape that has symbols.
fn large(body: &TypedModel) -> Vec<TypedFact> {
    let mut largest: Vec<TypedFact> = vec![];
    let none = SymbolValues::default();
    let mut facts: Vec<&TypedFact> = body
        .nodes()
        .iter()
        .flat_map(|it| &it.outputs)
        .map(|it| &it.fact)
        .collect();
    facts.sort_by_key(|fact| std::cmp::Reverse((bytes_of(fact, &none), fact.datum_type.size_of())));
    for fact in facts {
        let is_known = |other: &TypedFact| other.shape.is_concrete() && fact.shape.is_concrete();
        if !largest
            .iter()
            .any(|it| is_known(it) || it.shape == fact.shape)
        {
            largest.push(fact.clone());
        }
    }
    largest
}

/// Adds the symbols of the states' sizes.
fn with_states(
    spec: &Spec,
    symbols: &SymbolValues,
    states: &[Option<TValue>],
) -> TractResult<SymbolValues> {
    let mut symbols = symbols.clone();
    for (input, feed) in spec.feeds.iter().enumerate() {
        if let Feed::State(state) = *feed
            && let Some(value) = &states[state]
        {
            let sizes = spec.body.input_fact(input)?.shape.iter();
            for (dim, &size) in std::iter::zip(sizes, value.shape()) {
                if let TDim::Sym(symbol) = dim {
                    symbols.set(symbol, size as i64);
                }
            }
        }
    }
    Ok(symbols)
}

/// Stacks values along a new first axis.
fn stack(mut values: Vec<TValue>) -> TractResult<Tensor> {
    let inner: TVec<usize> = values[0].shape().into();
    let shape: TVec<usize> = std::iter::once(values.len()).chain(inner.clone()).collect();
    if inner.is_empty() {
        for value in &mut values {
            *value = (**value).clone().into_shape(&[1])?.into_tvalue();
        }
    }
    Tensor::stack_tensors(0, &values)?.into_shape(&shape)
}

/// A scan output without steps. Sizes that only a step would determine are 0.
fn nothing_scanned(
    spec: &Spec,
    scan: usize,
    symbols: &SymbolValues,
    states: &[Option<TValue>],
) -> TractResult<Tensor> {
    let symbols = with_states(spec, symbols, states)?;
    let fact = spec.body.output_fact(spec.scan_output(scan))?;
    let sizes = fact
        .shape
        .iter()
        .map(|dim| dim.eval(&symbols).to_usize().unwrap_or(0));
    let shape: TVec<usize> = std::iter::once(0).chain(sizes).collect();
    Tensor::zero_dt(fact.datum_type, &shape)
}

impl OpState for Running {
    fn eval(
        &mut self,
        ctx: &EvalContext<'_>,
        _op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let node = self.spec.node.clone();
        let result = timed(self.spec.limits, || self.run(ctx, inputs));
        result.with_context(|| format!("Loop {node:?}"))
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        bail!("a loop's body serves one stream at a time")
    }
}
