//! The op in typed models.

use revseq_graph::{ElementType, LruCache, Operator, TensorType};
use revseq_kernels::{DataType, LengthsPolicy};
use tract_onnx::tract_hir::internal::*;

use crate::error::clause;
use crate::{axes, eval};

/// Reverses the first elements of every subsequence along an axis.
///
/// The inputs are the data, of any type that tract has, and the lengths: for
/// [`Operator::ReverseSequence`] int64 `[batch]`, for [`Operator::ReverseSubsequences`] a 32- or
/// 64-bit integer tensor with the data's shape, but size 1 on the axis. The output has the data's
/// type and shape. If nothing else holds the data, it is the data's own memory, and only the
/// reversed prefixes are touched. Works on tract's executor (one thread unless the host has set
/// another).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReverseSubsequences {
    pub(crate) operator: Operator,
    pub(crate) policy: LengthsPolicy,
    /// Plans for the latest types and shapes.
    pub(crate) plans: LruCache<eval::Planned>,
}

impl ReverseSubsequences {
    /// The op for data of this rank, with the operator's own policy for lengths: ReverseSequence
    /// rejects those out of range, ReverseSubsequences clamps them.
    ///
    /// # Errors
    /// An axis out of range for the rank, or two equal axes.
    pub fn new(operator: Operator, rank: usize) -> TractResult<Self> {
        let operator = operator
            .normalize(rank)
            .with_context(|| format!("Reading the axes of {}", operator.op_type()))?;
        Ok(Self {
            operator,
            policy: operator.lengths_policy(),
            plans: LruCache::default(),
        })
    }

    /// The same op with another policy for lengths out of range.
    #[must_use]
    pub fn with_policy(self, policy: LengthsPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Checks ranks, types and sizes as far as they are known.
    fn check_facts(&self, data: &TypedFact, lengths: &TypedFact) -> TractResult<()> {
        self.operator.normalize(data.rank())?;
        let expected = self
            .operator
            .lengths_shape(&data.shape.to_tvec(), 1.to_dim());
        ensure!(
            lengths.rank() == expected.len(),
            "the lengths have rank {}, expected {}",
            lengths.rank(),
            expected.len()
        );
        for (dimension, (expected, size)) in expected.iter().zip(lengths.shape.iter()).enumerate() {
            if let (Ok(expected), Ok(size)) = (expected.to_usize(), size.to_usize()) {
                ensure!(
                    expected == size,
                    "the lengths have size {size} in dimension {dimension}, expected {expected}"
                );
            }
        }
        // Sizes are checked above; this checks the type of the lengths.
        let ones = |rank: usize| vec![1; rank];
        let lowered = self.operator.lower(
            "",
            TensorType {
                element_type: ElementType::Fixed(DataType::Uint8),
                sizes: &ones(data.rank()),
            },
            TensorType {
                element_type: eval::lengths_type(lengths.datum_type)?,
                sizes: &ones(lengths.rank()),
            },
        );
        lowered.map_err(clause)?;
        Ok(())
    }

    /// Whether known lengths reverse nothing in any data.
    fn keeps_everything(&self, data: &TypedFact, lengths: &Tensor) -> TractResult<bool> {
        let (time, _) = self.operator.axes();
        let lengths = lengths.cast_to::<i64>()?;
        let plain = lengths.try_as_plain_ram()?;
        let longest = match data.shape[time].to_usize() {
            Ok(size) => size.min(1) as i64,
            // An axis of unknown size may be empty; then a length of 1 is out of range.
            Err(_) => 0,
        };
        Ok(plain
            .as_slice::<i64>()?
            .iter()
            .all(|length| (0..=longest).contains(length)))
    }
}

impl Op for ReverseSubsequences {
    fn name(&self) -> StaticName {
        self.operator.op_type().into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let axes = match self.operator {
            Operator::ReverseSequence {
                batch_axis,
                time_axis,
            } => format!("batch_axis: {batch_axis} time_axis: {time_axis}"),
            Operator::ReverseSubsequences { axis } => format!("axis: {axis}"),
        };
        Ok(vec![format!("{axes} lengths: {:?}", self.policy)])
    }

    op_as_typed_op!();
}

impl EvalOp for ReverseSubsequences {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, lengths) = args_2!(inputs);
        eval::eval(self, data, &lengths).map(|output| tvec!(output.into_tvalue()))
    }
}

impl TypedOp for ReverseSubsequences {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(inputs.len() == 2, "{} inputs, expected 2", inputs.len());
        self.check_facts(inputs[0], inputs[1])?;
        Ok(tvec!(inputs[0].datum_type.fact(inputs[0].shape.clone())))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        let (time, _) = self.operator.axes();
        axes::mapping(
            time,
            |axis| axes::of_lengths(self.operator, axis),
            inputs,
            outputs,
        )
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        Ok(axes::change(self, io, change))
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
        let (time, _) = self.operator.axes();
        rule_if!(output_axis != time);
        // The inputs come sliced along the axes that the mapping links to this one.
        patch.wire_node(prefix, self.clone(), inputs).map(Some)
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let (inputs, _) = model.node_facts(node.id)?;
        rule_if_some!(lengths = &inputs[1].konst);
        rule_if!(self.keeps_everything(inputs[0], lengths)?);
        // A model that outputs both distinguishes them by name.
        rule_if!(
            !(model.outputs.contains(&node.id.into()) && model.outputs.contains(&node.inputs[0]))
        );
        let unchanged = |_: &mut TypedModelPatch, data: &[OutletId]| Ok(data.into());
        TypedModelPatch::rewire(model, &node.inputs[..1], &[node.id.into()], &unchanged).map(Some)
    }

    as_op!();
}
