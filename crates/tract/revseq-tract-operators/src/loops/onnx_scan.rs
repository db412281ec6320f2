//! ONNX's Scan over axes that may be empty, and within other loops.
//!
//! tract's Scan without steps has no final states: what it outputs is made up. ONNX's are the
//! initial states. Where the axis is known to have elements, nothing is added.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::scan::InferenceScan;

use crate::data_sizes::axis;
use crate::limits::Limits;
use crate::load::LoadOptions;
use crate::loops::alias::Alias;
use crate::loops::last::LastOrInitial;
use crate::loops::nested;
use crate::loops::program::{Made, Other, Ready, Source};
use crate::node::parse_with_tract;
use crate::operator::{Operator, Parsed, Wired, Wiring, over};
use crate::operators::empty::OrNothing;
use crate::typed_op::Typed;

/// The most axes of a value: tract makes a size for each up to the one that is named.
const MAXIMUM_RANK: i64 = 64;

/// Parses a Scan like tract, but for the final states.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    for list in ["scan_input_axes", "scan_output_axes"] {
        let axes: Option<Vec<i64>> = node.get_attr_opt_vec(list)?;
        for axis in axes.into_iter().flatten() {
            ensure!(
                (-MAXIMUM_RANK..MAXIMUM_RANK).contains(&axis),
                "its {list} has {axis}, expected each from -{MAXIMUM_RANK} to {}",
                MAXIMUM_RANK - 1
            );
        }
    }
    let scanned: i64 = node.get_attr("num_scan_inputs")?;
    let states = usize::try_from(scanned).ok().and_then(|scanned| {
        node.input
            .len()
            .checked_sub(scanned)
            .filter(|_| scanned > 0)
    });
    let states = states.with_context(|| {
        let inputs = node.input.len();
        format!("its num_scan_inputs is {scanned}, expected 1 to {inputs}")
    })?;
    let axes: Option<Vec<i64>> = node.get_attr_opt_vec("scan_input_axes")?;
    let (mut upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    if let Some(scan) = upstream.as_op_mut().downcast_mut::<InferenceScan>() {
        keep_unfolded(&mut scan.body, states)?;
    }
    let made = node.output.iter().enumerate();
    let op = OnnxScan {
        states,
        axis: axes.and_then(|axes| axes.first().copied()).unwrap_or(0),
        made: made
            .filter(|(_, name)| !name.is_empty())
            .map(|(index, _)| index)
            .collect(),
        source: Source::of(ctx, node, &captured),
        // Its data bounds its steps.
        limits: Limits {
            steps: None,
            ..LoadOptions::of(ctx).limits
        },
    };
    Ok((over(over(upstream, op), OrNothing), captured))
}

/// Puts an operator behind each state's update that keeps the state's type and does not fold: tract's Scan takes
/// neither sizes as such nor constants.
fn keep_unfolded(body: &mut InferenceModel, states: usize) -> TractResult<()> {
    for state in 0..states.min(body.output_outlets()?.len()) {
        let updated = body.output_outlets()?[state];
        let name = format!("{}.state", body.node(updated.node).name);
        let name = body.unique_name(name).into_owned();
        body.outputs[state] = body.wire_node(name, Updated, &[updated])?[0];
    }
    Ok(())
}

/// The update of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Updated;

impl Op for Updated {
    fn name(&self) -> StaticName {
        "Updated".into()
    }

    not_a_typed_op!();
}

impl EvalOp for Updated {
    not_out_of_plan!();
}

impl InferenceRulesOp for Updated {
    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        solver: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        solver.equals(&inputs[0].shape, &outputs[0].shape)?;
        solver.given(
            &inputs[0].datum_type,
            |solver, datum_type| match datum_type.is_tdim() {
                true => Ok(()),
                false => solver.equals(&outputs[0].datum_type, datum_type),
            },
        )
    }

    fn to_typed(
        &self,
        _source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let updated = mapping[&node.inputs[0]];
        let datum_type = node.outputs[0].fact.datum_type.concretize();
        let datum_type = datum_type.context("its type is not known")?;
        let cast =
            Wiring::alone(&node.name, target, &[updated]).cast("cast", updated, datum_type)?;
        target.wire_node(&*node.name, Alias::Barrier, &[cast])
    }

    as_op!();
}

/// The operator over a Scan.
#[derive(Clone, Debug)]
struct OnnxScan {
    /// The number of states, which are the first inputs and outputs.
    states: usize,
    /// The axis of the first scan input that it goes over.
    axis: i64,
    /// The index of each output that has a name.
    made: Vec<usize>,
    /// What a program is read from.
    source: Option<Arc<Source>>,
    limits: Limits,
}

impl Operator for OnnxScan {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        match self.as_program(node)? {
            Some(outlets) => Ok(Some(outlets)),
            None => self.as_scan(node).map(Some),
        }
    }
}

impl OnnxScan {
    /// Wires a program, if there is one.
    fn as_program(&self, node: &mut Wiring<'_>) -> Wired {
        rule_if_some!(source = &self.source);
        let facts = node.facts()?;
        // The Scan tells the types and sizes of its outputs.
        let other = Other::of(&node.model.symbols, &facts, |model, inputs| {
            self.as_scan(&mut node.within(model, inputs))
        });
        let other = other?;
        let facts = other.facts()?;
        rule_if!(facts.len() == self.made.len());
        let made: Vec<Made> = std::iter::zip(self.made.iter().copied(), facts).collect();
        rule_if_some!(ready = Ready::read(source, &node.facts()?, &made)?);
        let place = (&mut *node.model, &*node.inputs);
        let outlets = ready.wire(place, node.name, made, self.limits, other)?;
        Ok(Some(outlets))
    }

    /// Wires tract's Scan.
    fn as_scan(&self, node: &mut Wiring<'_>) -> TractResult<TVec<OutletId>> {
        let first = node.model.nodes().len();
        let mut outlets = node.by_upstream()?;
        for made in &mut node.model.nodes[first..] {
            if let Some(scan) = made.op_as_mut() {
                nested::settle(scan)?;
            }
        }
        let shape = &node.input(self.states)?.shape;
        let axis = axis(self.axis, shape.rank())?;
        let steps = shape[axis].to_i64().ok();
        if steps == Some(0) {
            return self.without_steps(node, &outlets);
        }
        let open = if steps.is_some() { 0 } else { self.states };
        for state in 0..open.min(outlets.len()) {
            let (last, initial) = (outlets[state], node.inputs[state]);
            let datum_type = node.fact(last)?.datum_type;
            let initial = node.cast(&format!("initial{state}"), initial, datum_type)?;
            let inputs = [last, initial, node.inputs[self.states]];
            outlets[state] = node.op(
                &format!("last{state}"),
                Typed(LastOrInitial { axis }),
                &inputs,
            )?;
        }
        Ok(outlets)
    }

    /// The initial states, and empty scan outputs.
    fn without_steps(
        &self,
        node: &mut Wiring<'_>,
        outlets: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let outlets = outlets.iter().enumerate();
        let outlets = outlets.map(|(output, outlet)| {
            if output < self.states {
                return Ok(node.inputs[output]);
            }
            let fact = node.fact(*outlet)?;
            let shape = fact.shape.as_concrete();
            let shape =
                shape.with_context(|| format!("its outputs have sizes {:?}", fact.shape))?;
            node.constant("nothing", Tensor::zero_dt(fact.datum_type, shape)?)
        });
        outlets.collect()
    }
}
