//! ONNX's Scan as a loop.
//!
//! tract reads and types the body. Its own Scan has no final states without steps, keeps states from run to run,
//! and computes parts of the body for all steps at once; a [`Loop`] does what ONNX says.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::scan::{InputMapping, Scan, ScanInfo};
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::scan::InferenceScan;

use crate::limits::Limits;
use crate::load::LoadOptions;
use crate::loops::op::Loop;
use crate::loops::program::{Made, NO_PROGRAMS, Other, Ready, Source};
use crate::loops::spec::{Feed, LoopOutput, Spec, Value};
use crate::node::parse_with_tract;
use crate::operator::{Operator, Parsed, Wired, Wiring, over};
use crate::operators::empty::OrNothing;
use crate::typed_op::{Stateless, Typed};
use crate::wire::alone;

/// The most axes of a value: tract makes a size for each up to the one that is named.
const MAXIMUM_RANK: i64 = 64;

/// Parses a Scan, of which tract reads the body.
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
    let (mut upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    if let Some(scan) = upstream.as_op_mut().downcast_mut::<InferenceScan>() {
        keep_types(&mut scan.body, states)?;
    }
    let made = node.output.iter().enumerate();
    let op = OnnxScan {
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

/// Puts an operator behind each state's update that keeps the state's type: tract's Scan takes neither sizes as such
/// nor known values.
fn keep_types(body: &mut InferenceModel, states: usize) -> TractResult<()> {
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
        let mut wiring = Wiring::alone(&node.name, target, &[updated]);
        let cast = wiring.cast("cast", updated, datum_type)?;
        target.wire_node(&*node.name, Typed(Unknown), &[cast])
    }

    as_op!();
}

/// The same value, as one that is not known.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Unknown;

impl Stateless for Unknown {
    const NAME: &str = "Unknown";
    const FOLDS: bool = false;
    const PASSES_AXES: bool = true;

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

/// The operator over a Scan.
#[derive(Clone, Debug)]
struct OnnxScan {
    /// The index of each output that has a name.
    made: Vec<usize>,
    /// What a program is read from.
    source: Option<Arc<Source>>,
    limits: Limits,
}

impl Operator for OnnxScan {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let facts = node.facts()?;
        // The loop tells the types and sizes of its outputs.
        let other = Other::of(&node.model.symbols, &facts, |model, inputs| {
            self.as_loop(&mut node.within(model, inputs), "")
        })?;
        let outputs = other.facts()?;
        let read = || {
            let source = self.source.as_ref().ok_or(NO_PROGRAMS)?;
            if outputs.len() != self.made.len() {
                return Err(String::from("it has outputs without names"));
            }
            let made = std::iter::zip(self.made.iter().copied(), outputs);
            let made: Vec<Made> = made.collect();
            Ok((Ready::read(source, &facts, &made)?, made))
        };
        let wired = match read() {
            Ok((ready, made)) => {
                let place = (&mut *node.model, &*node.inputs);
                ready.wire(place, node.name, made, self.limits, other)
            }
            Err(why) => self.as_loop(node, &why),
        };
        wired.map(Some)
    }
}

impl OnnxScan {
    /// Wires the loop that a Scan is, and which is no program for this reason.
    fn as_loop(&self, node: &mut Wiring<'_>, why: &str) -> TractResult<TVec<OutletId>> {
        let (mut model, inputs) = alone(node.model.symbols.clone(), node.facts()?)?;
        node.within(&mut model, &inputs).by_upstream()?;
        let mut scans = model.nodes().iter();
        let scan = scans.find_map(|it| it.op_as::<Scan>());
        let scan = scan.context("tract reads a Scan as one")?;

        let Fed {
            mut inputs,
            feeds,
            states,
            steps,
        } = Fed::of(scan, node)?;
        let count = node.constant("steps", tensor0(steps.clone()))?;
        inputs.push(node.cast("count", count, i64::datum_type())?);
        let (body, outputs, stacked) = without_axis_of_steps(scan, &steps)?;
        let first = states.len();
        let spec = Spec {
            node: node.name.to_owned(),
            body,
            feeds,
            trip_count: Some(inputs.len() - 1),
            condition: None,
            states,
            gives_condition: false,
            steps: Some(steps),
            scans: stacked.len(),
            reversed: (0..stacked.len())
                .filter(|&it| stacked[it].chunk < 0)
                .collect(),
            outputs,
            limits: self.limits,
            is_decluttered: false,
        };
        let name = node.model.unique_name(node.name).into_owned();
        let mut made = node.model.wire_node(name, Loop::new(spec, why)?, &inputs)?;
        for (outlet, info) in std::iter::zip(&mut made[first..], stacked) {
            if info.axis > 0 {
                *outlet = node.op("stacked", AxisOp::Move(0, info.axis), &[*outlet])?;
            }
        }
        Ok(made)
    }
}

/// What a Scan's body is fed with.
struct Fed {
    /// The inputs, states in the type that the body has for them.
    inputs: TVec<OutletId>,
    feeds: Vec<Feed>,
    /// The inputs that are states.
    states: Vec<usize>,
    /// The number of steps.
    steps: TDim,
}

impl Fed {
    fn of(scan: &Scan, node: &mut Wiring<'_>) -> TractResult<Self> {
        let mut inputs = node.inputs.clone();
        let (mut feeds, mut states, mut steps) = (vec![], vec![], None);
        for (input, mapping) in scan.input_mapping.iter().enumerate() {
            feeds.push(match mapping {
                InputMapping::Full => Feed::Outer(input),
                InputMapping::State => {
                    let datum_type = scan.body.input_fact(input)?.datum_type;
                    let name = format!("state{input}");
                    inputs[input] = node.cast(&name, inputs[input], datum_type)?;
                    states.push(input);
                    Feed::State(states.len() - 1)
                }
                InputMapping::Scan(info) => {
                    let shape = &node.input(input)?.shape;
                    steps.get_or_insert_with(|| shape[info.axis].clone());
                    Feed::Slice {
                        input,
                        axis: info.axis,
                        is_reversed: info.chunk < 0,
                    }
                }
            });
        }
        Ok(Self {
            inputs,
            feeds,
            states,
            steps: steps.context("it scans an input")?,
        })
    }
}

/// The body whose scan outputs have no axis of the steps, as a loop stacks them; the outputs of the loop; and how
/// the Scan puts each scan output together.
fn without_axis_of_steps(
    scan: &Scan,
    steps: &TDim,
) -> TractResult<(TypedModel, Vec<LoopOutput>, Vec<ScanInfo>)> {
    let mut body = scan.body.clone();
    let mut outlets = body.outputs.clone();
    let (mut outputs, mut stacked) = (vec![], vec![]);
    for (outlet, mapping) in std::iter::zip(&mut outlets, &scan.output_mapping) {
        outputs.push(match mapping.scan {
            None => LoopOutput {
                value: Value::State(outputs.len()),
                fact: body.outlet_fact(*outlet)?.without_value(),
            },
            Some((_, info)) => {
                let name = body.unique_name("step").into_owned();
                *outlet = body.wire_node(name, AxisOp::Rm(info.axis), &[*outlet])?[0];
                let step = body.outlet_fact(*outlet)?;
                let sizes = std::iter::once(steps).chain(step.shape.iter()).cloned();
                stacked.push(info);
                LoopOutput {
                    value: Value::Scan(stacked.len() - 1),
                    fact: step.datum_type.fact(sizes.collect::<TVec<TDim>>()),
                }
            }
        });
    }
    body.select_output_outlets(&outlets)?;
    Ok((body, outputs, stacked))
}
