//! Wires a Loop whose body has types: as a program, or as an operator of this crate's.

use tract_onnx::tract_hir::internal::*;

use crate::loops::infer::{OnnxLoop, integer_type};
use crate::loops::op::Loop;
use crate::loops::program::{Made, Other, Ready};
use crate::loops::spec::Spec;
use crate::wire::wire_cast;

impl OnnxLoop {
    /// Wires the loop as a program that makes these outputs; `None` if there is none.
    pub(super) fn wire_program(
        &self,
        spec: &Spec,
        (target, inputs): (&mut TypedModel, &[OutletId]),
        name: &str,
        made: Vec<Made>,
    ) -> TractResult<Option<TVec<OutletId>>> {
        rule_if_some!(source = self.source.as_ref());
        let facts = inputs.iter().map(|input| target.outlet_fact(*input));
        let facts = facts.collect::<TractResult<Vec<_>>>()?;
        rule_if_some!(ready = Ready::read(source, &facts, &made)?);
        let other = Other::of(&target.symbols, &facts, |model, inputs| {
            self.wire_loop(spec.clone(), (model, inputs), name)
        })?;
        let place = (target, inputs);
        ready.wire(place, name, made, self.limits, other).map(Some)
    }

    /// Wires the loop as an operator of this crate's, which may become a Scan.
    pub(super) fn wire_loop(
        &self,
        spec: Spec,
        (target, inputs): (&mut TypedModel, &[OutletId]),
        name: &str,
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
        target.wire_node(name, Loop::new(spec)?, &inputs)
    }
}
