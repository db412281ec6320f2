//! Wires a Loop whose body has types: as a program, or as an operator of this crate's.

use tract_onnx::tract_hir::internal::*;

use crate::loops::infer::{OnnxLoop, integer_type};
use crate::loops::op::Loop;
use crate::loops::program::{Made, NO_PROGRAMS, Other, Ready};
use crate::loops::spec::Spec;
use crate::wire::wire_cast;

impl OnnxLoop {
    /// Wires the loop, which makes these outputs: as a program, if there is one.
    pub(super) fn wire(
        &self,
        spec: Spec,
        (target, inputs): (&mut TypedModel, &[OutletId]),
        name: &str,
        made: Vec<Made>,
    ) -> TractResult<TVec<OutletId>> {
        let facts = inputs.iter().map(|input| target.outlet_fact(*input));
        let facts = facts.collect::<TractResult<Vec<_>>>()?;
        let read = |source| Ready::read(source, &facts, &made);
        match self
            .source
            .as_deref()
            .map_or_else(|| Err(NO_PROGRAMS.to_owned()), read)
        {
            Ok(ready) => {
                let other = Other::of(&target.symbols, &facts, |model, inputs| {
                    self.wire_loop(spec, (model, inputs), name, "")
                })?;
                ready.wire((target, inputs), name, made, self.limits, other)
            }
            Err(why) => self.wire_loop(spec, (target, inputs), name, &why),
        }
    }

    /// Wires the loop as an operator that runs it step by step.
    fn wire_loop(
        &self,
        spec: Spec,
        (target, inputs): (&mut TypedModel, &[OutletId]),
        name: &str,
        why: &str,
    ) -> TractResult<TVec<OutletId>> {
        let mut inputs: TVec<OutletId> = inputs.into();
        for index in 0..self.first_state() + self.states {
            let name = format!("{name}.in{index}");
            let fact = target.outlet_fact(inputs[index])?;
            let to = match index.checked_sub(self.first_state()) {
                Some(state) => self.state_type(state, fact),
                None => integer_type(fact, None),
            };
            inputs[index] = wire_cast(target, name, inputs[index], to)?;
        }
        let name = target.unique_name(name).into_owned();
        target.wire_node(name, Loop::new(spec, why)?, &inputs)
    }
}
