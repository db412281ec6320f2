//! Final states of a Scan that may have no steps.
//!
//! It is wired behind each final state of a Scan whose number of steps is not known to be positive.

use tract_onnx::tract_hir::internal::*;

use crate::typed_op::Stateless;

/// The output of the last step, or the initial state if there was none; tract's Scan then outputs
/// nothing.
///
/// The inputs are both, and a scan input.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct LastOrInitial {
    /// The scanned axis of the scan input.
    pub(crate) axis: usize,
}

impl Stateless for LastOrInitial {
    const NAME: &str = "LastOrInitial";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (last, initial, scanned) = args_3!(inputs);
        Ok(tvec!(match scanned.shape()[self.axis] {
            0 => initial,
            _ => last,
        }))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[1].without_value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_steps_states_keep_their_initial_values() {
        let steps = |count: usize| Tensor::zero::<f32>(&[count, 2]).unwrap().into_tvalue();
        let [last, initial] = [1_f32, 2.].map(|value| tensor0(value).into_tvalue());
        for (count, expected) in [(0, &initial), (1, &last), (5, &last)] {
            let inputs = tvec!(last.clone(), initial.clone(), steps(count));
            let outputs = LastOrInitial { axis: 0 }.eval(&EvalContext::out_of_plan(), inputs);
            assert_eq!(outputs.unwrap(), tvec!(expected.clone()));
        }
    }
}
