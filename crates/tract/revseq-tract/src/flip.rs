//! The reversal of a whole axis, as an op of tract's typed models.

use revseq_graph::{LruCache, Operator, TensorType};
use revseq_kernels::{DataType, LengthsPolicy, SequenceLengths};
use tract_onnx::tract_hir::internal::*;

use crate::axes;
use crate::eval::{self, Planned};

/// Reverses a whole axis of any size.
///
/// The input may have any type that tract has; the output has its type and shape, and its memory if
/// nothing else holds it. ONNX writes it as a Slice with a step of -1, which tract 0.23 copies
/// element by element, and only if it knows the size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flip {
    axis: usize,
    /// Plans for the latest types and shapes.
    plans: LruCache<Planned>,
}

impl Flip {
    /// The op for an axis, counted from the first.
    #[must_use]
    pub fn new(axis: usize) -> Self {
        Self {
            axis,
            plans: LruCache::default(),
        }
    }

    /// The plan of a ReverseSequence whose batch of one is added to the data.
    fn planned(&self, data: &Tensor) -> TractResult<Arc<Planned>> {
        Planned::of(&self.plans, &[data], || {
            let operator = Operator::ReverseSequence {
                batch_axis: 0,
                time_axis: self.axis as i64 + 1,
            };
            let mut sizes = eval::sizes(data);
            sizes.insert(0, 1);
            let flipped = TensorType {
                element_type: eval::element_type(data.datum_type())?,
                sizes: &sizes,
            };
            let lengths = TensorType {
                element_type: DataType::Int64.into(),
                sizes: &[1],
            };
            Planned::new(&[data], &operator.lower("", flipped, lengths)?)
        })
    }
}

impl Op for Flip {
    fn name(&self) -> StaticName {
        "Flip".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {}", self.axis)])
    }

    op_as_typed_op!();
}

impl EvalOp for Flip {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        let planned = self.planned(&data)?;
        let length = [data.shape()[self.axis] as i64];
        let lengths = SequenceLengths::new(&planned.plan, &length[..], LengthsPolicy::Reject)?;
        let output = planned.run(&lengths, data)?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for Flip {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let input = inputs[0];
        ensure!(
            self.axis < input.rank(),
            "Flip: axis {} of data of rank {}, expected less",
            self.axis,
            input.rank()
        );
        Ok(tvec!(input.datum_type.fact(input.shape.clone())))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        axes::mapping(self.axis, |_| None, inputs, outputs)
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        rule_if_some!(axis = change.transform_axis(self.axis));
        let wire_changes = [InOut::In(0), InOut::Out(0)].map(|io| (io, change.clone()));
        Ok(Some(AxisChangeConsequence {
            substitute_op: Some(Box::new(Self::new(axis))),
            wire_changes: wire_changes.into_iter().collect(),
        }))
    }

    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        _model: &TypedModel,
        _node: &TypedNode,
        prefix: &str,
        inputs: &[OutletId],
        output_axis: usize,
        _start: &TDim,
        _end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        rule_if!(output_axis != self.axis);
        patch.wire_node(prefix, self.clone(), inputs).map(Some)
    }

    as_op!();
}
