//! Sizes of a Reshape that turn out to be 0, of which ONNX makes the size of the input's axis.
//!
//! A size that is an expression stands for itself in a plan. Where it may be 0 in a run, and is not that of
//! the same axis of the input, it is looked at when the model runs.
//!
//! ```text
//! Reshape(x: [T, U, 3], [T, 1, U, 3]): [T, 1, U, 3], for U = 0 an error: ONNX's shape is [T, 1, 3, 3]
//! ```

use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::bounds::least;
use crate::data_sizes::size_symbols::{rewire, substituted};
use crate::delegate::Hook;
use crate::dims;
use crate::other_sizes::OtherSizes;
use crate::wire::to_typed_without_facts;

/// The hook of a Reshape that does not take a 0 literally.
#[derive(Clone, Debug)]
pub(crate) struct ZeroSizes;

impl Hook for ZeroSizes {
    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let fact = |input: usize| target.outlet_fact(mapping[&node.inputs[input]]);
        let sizes = match &fact(1)?.konst {
            Some(to) => read_as_others(&fact(0)?.shape, &dims::sizes(to)?),
            None => tvec![],
        };
        if sizes.is_empty() {
            return to_typed_without_facts(upstream, source, node, target, mapping);
        }
        let data = node.inputs[0];
        let name = target.unique_name(format!("{}.sizes", node.name));
        let name = name.into_owned();
        let checked = target.wire_node(name, NotZero { sizes }, &[mapping[&data]])?[0];
        let mut mapping = mapping.clone();
        mapping.insert(data, checked);
        to_typed_without_facts(upstream, source, node, target, &mapping)
    }
}

/// The sizes that would be those of the input's axes if they were 0.
fn read_as_others(data: &[TDim], to: &[TDim]) -> TVec<TDim> {
    let is_number = |size: &TDim| size.to_i64().is_ok();
    let may_differ = |(data, to): &(&TDim, &TDim)| {
        data != to && !is_number(to) && least(to).is_none_or(|least| least < 1)
    };
    let pairs = std::iter::zip(data, to).filter(may_differ);
    pairs.map(|(_, to)| to.clone()).collect()
}

/// Passes a value on if sizes are not 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NotZero {
    sizes: TVec<TDim>,
}

impl Op for NotZero {
    fn name(&self) -> StaticName {
        "NotZero".into()
    }

    fn required_bound_symbols(&self, _inputs: &[&TypedFact]) -> TVec<Symbol> {
        self.sizes.iter().flat_map(TDim::symbols).collect()
    }

    op_as_typed_op!();
}

impl EvalOp for NotZero {
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        for size in &self.sizes {
            if size.maybe_eval_to_i64(ctx.symbols) == Some(0) {
                let what =
                    format!("it reshapes to a size of {size}, which is 0 and stands for another");
                return Err(OtherSizes::error(what));
            }
        }
        Ok(inputs)
    }

    fn forwards_input(&self) -> Option<usize> {
        Some(0)
    }
}

impl TypedOp for NotZero {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![inputs[0].without_value()])
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        AxesMapping::natural(inputs, outputs)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let sizes = substituted(&self.sizes, subs)?;
        rewire(Self { sizes }, node, target, mapping)
    }

    as_op!();
}
