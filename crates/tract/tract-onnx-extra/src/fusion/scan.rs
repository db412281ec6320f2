//! Scans whose step is a single fused operator.
//!
//! The Scan's body is a plan of one node by then, and the plan costs more than the node. Here the
//! steps run without one: a scan input is read where it lies, after its axis has been moved to the
//! front, and states change places with the step's results. A Scan with other outputs than floats,
//! larger chunks or unusual mappings stays tract's.

use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::scan::{InputMapping, OptScan, OutputMapping, ScanInfo};
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use super::program::{Elements, Program, Registers};
use super::{Fused, Running};
use crate::interrupt;

/// The steps between two looks at what may end the run: a look at the clock takes as long as a small step.
const STEPS_BETWEEN_CHECKS: usize = 16;

/// A Scan that runs its step's program without a plan: steps read scan inputs in place, and write
/// their outputs directly.
#[derive(Clone, Debug)]
struct FusedScan {
    step: Fused,
    /// The Scan's input that each input of the step is, or is part of.
    sources: TVec<usize>,
    inputs: Vec<InputMapping>,
    /// The step's outputs by index, in the order of the Scan's body.
    outputs: Vec<(usize, OutputMapping<TDim>)>,
    /// The slots of outputs that pass an input through.
    passed: Vec<(usize, usize)>,
    facts: TVec<TypedFact>,
}

/// The operator that computes what the Scan does, whose outputs have these facts; `None` if its step
/// is not one fused operator.
pub(crate) fn fuse(scan: &OptScan, facts: &[&TypedFact]) -> TractResult<Option<Box<dyn TypedOp>>> {
    let body = scan.plan.model();
    let mut steps = body
        .nodes()
        .iter()
        .filter(|node| !node.op_is::<TypedSource>() && !node.op_is::<Const>());
    let (Some(step), None) = (steps.next(), steps.next()) else {
        return Ok(None);
    };
    rule_if_some!(op = step.op_as::<Fused>());
    let source = |input: &OutletId| body.inputs.iter().position(|it| it == input);
    rule_if_some!(sources = step.inputs.iter().map(source).collect::<Option<_>>());
    let mut outputs = vec![];
    let mut passed = vec![];
    let mut scanned: Vec<ScanInfo> = vec![];
    for (outlet, mapping) in std::iter::zip(&body.outputs, &scan.output_mapping) {
        rule_if!(mapping.full_dim_hint.is_none());
        scanned.extend(mapping.scan.map(|(_, info)| info));
        if outlet.node == step.id {
            rule_if!(body.outlet_fact(*outlet)?.datum_type.is::<f32>());
            outputs.push((outlet.slot, mapping.clone()));
        } else {
            // Once tract has moved operators out of the body, an input may be output directly.
            rule_if_some!(input = source(outlet));
            rule_if_some!((slot, info) = mapping.scan);
            let is_same = scan.input_mapping[input].as_scan() == Some(&info);
            rule_if!(is_same && !mapping.state && mapping.last_value_slot.is_none());
            passed.push((slot, input));
        }
    }
    scanned.extend(scan.input_mapping.iter().filter_map(InputMapping::as_scan));
    rule_if!(scanned.iter().all(|info| info.chunk.abs() == 1));
    rule_if!(scan.skip == 0 && scan.reset_every_turn);
    Ok(Some(Box::new(FusedScan {
        step: op.clone(),
        sources,
        inputs: scan.input_mapping.clone(),
        outputs,
        passed,
        facts: facts.iter().map(|fact| (*fact).clone()).collect(),
    })))
}

never_equal!(FusedScan);

impl Op for FusedScan {
    fn name(&self) -> StaticName {
        "FusedScan".into()
    }

    op_as_typed_op!();
}

impl EvalOp for FusedScan {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::<Scanning>::default()))
    }
}

impl TypedOp for FusedScan {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(self.facts.clone())
    }

    as_op!();
}

/// The running step, kept from run to run.
#[derive(Clone, Debug, Default)]
struct Scanning(Running);

impl OpState for Scanning {
    fn eval(
        &mut self,
        ctx: &EvalContext<'_>,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<FusedScan>().context("its own op")?;
        let mut steps = None;
        // With the scanned axis first, a step's part is contiguous.
        let mut parts: TVec<(TVec<usize>, TValue)> = tvec![];
        for (index, (input, mapping)) in std::iter::zip(&inputs, &op.inputs).enumerate() {
            let mut input = input.clone();
            let mut shape: TVec<usize> = input.shape().into();
            if let Some(info) = mapping.as_scan() {
                steps = Some(shape[info.axis]);
                shape[info.axis] = 1;
                if op.sources.contains(&index) {
                    input = moved(input, info.axis, 0)?;
                }
            }
            parts.push((shape, input));
        }
        let steps = steps.context("a Scan has something that is scanned")?;
        let shapes = op.sources.iter().map(|source| &*parts[*source].0);
        let (program, registers) = self.0.prepare(&op.step, ctx.symbols, shapes)?;
        let mut outputs = run(op, program, registers, &parts, steps)?;
        outputs.extend(
            op.passed
                .iter()
                .map(|(slot, input)| (*slot, inputs[*input].clone())),
        );
        outputs.sort_by_key(|(slot, _)| *slot);
        Ok(outputs.into_iter().map(|(_, value)| value).collect())
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}

/// Moves an axis.
fn moved(tensor: TValue, from: usize, to: usize) -> TractResult<TValue> {
    if from == to {
        return Ok(tensor);
    }
    Ok(tensor.into_tensor().move_axis(from, to)?.into_tvalue())
}

/// The results of an output of the step, over all steps.
#[derive(Debug, Default)]
struct Collected {
    /// The scan output so far.
    scanned: Vec<f32>,
    /// The latest value, or the initial state.
    latest: Vec<f32>,
}

fn run(
    op: &FusedScan,
    program: &Program,
    registers: &mut Registers,
    parts: &[(TVec<usize>, TValue)],
    steps: usize,
) -> TractResult<TVec<(usize, TValue)>> {
    // Inputs that the step does not read may have any type.
    let whole = parts.iter().enumerate().map(|(index, (_, part))| {
        let is_read = op.sources.contains(&index) || op.inputs[index].is_state();
        match is_read {
            true => Elements::of(part),
            false => Ok(Elements::Floats(&[])),
        }
    });
    let whole = whole.collect::<TractResult<TVec<_>>>()?;
    // Initial states have the same order as the state outputs.
    let is_state = |index: &usize| op.inputs[*index].is_state();
    let mut initial = (0..parts.len()).filter(is_state);
    let mut states: TVec<usize> = tvec![0; parts.len()];
    let mut collected: Vec<Collected> = vec![];
    for (index, (output, mapping)) in op.outputs.iter().enumerate() {
        let mut latest = vec![0.0; program.outputs[*output].elements.len];
        if mapping.state {
            let input = initial.next().context("a state starts with an input")?;
            states[input] = index;
            let Elements::Floats(floats) = whole[input] else {
                bail!("a state of truths");
            };
            ensure!(
                floats.len() == latest.len(),
                "a state starts with {} elements, expected {}",
                floats.len(),
                latest.len()
            );
            latest.copy_from_slice(floats);
        }
        let scanned = if mapping.scan.is_some() {
            steps * latest.len()
        } else {
            0
        };
        collected.push(Collected {
            scanned: vec![0.0; scanned],
            latest,
        });
    }
    let mut next: Vec<Vec<f32>> = collected.iter().map(|it| it.latest.clone()).collect();
    for step in 0..steps {
        if step % STEPS_BETWEEN_CHECKS == 0 {
            interrupt::check()?;
        }
        let at = |chunk: isize| if chunk < 0 { steps - 1 - step } else { step };
        let inputs: TVec<Elements<'_>> = op
            .sources
            .iter()
            .map(|&source| match &op.inputs[source] {
                InputMapping::Full => whole[source],
                InputMapping::State => Elements::Floats(&collected[states[source]].latest),
                InputMapping::Scan(info) => whole[source].part(at(info.chunk), steps),
            })
            .collect();
        program.run(&inputs, registers)?;
        for ((output, _), next) in std::iter::zip(&op.outputs, &mut next) {
            next.copy_from_slice(program.output(*output, &inputs, registers));
        }
        drop(inputs);
        for ((_, mapping), (collected, next)) in
            std::iter::zip(&op.outputs, std::iter::zip(&mut collected, &mut next))
        {
            std::mem::swap(&mut collected.latest, next);
            if let Some((_, info)) = mapping.scan {
                let len = collected.latest.len();
                let to = &mut collected.scanned[at(info.chunk) * len..][..len];
                to.copy_from_slice(&collected.latest);
            }
        }
    }
    let mut outputs: TVec<(usize, TValue)> = tvec![];
    for ((output, mapping), collected) in std::iter::zip(&op.outputs, collected) {
        let shape = &program.outputs[*output].shape;
        if let Some((slot, info)) = mapping.scan {
            let mut moved_shape = shape.clone();
            moved_shape.remove(info.axis);
            moved_shape.insert(0, steps);
            let scanned = Tensor::from_shape(&moved_shape, &collected.scanned)?;
            outputs.push((slot, moved(scanned.into_tvalue(), 0, info.axis)?));
        }
        if let Some(slot) = mapping.last_value_slot {
            let latest = Tensor::from_shape(shape, &collected.latest)?;
            outputs.push((slot, latest.into_tvalue()));
        }
    }
    Ok(outputs)
}
