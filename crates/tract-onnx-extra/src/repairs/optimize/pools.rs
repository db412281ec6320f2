//! Pools as tract computes them fastest.
//!
//! tract has a path for pools of images without a batch, which takes row by row and serves any window.
//! Windows of 2 by 2 and signals go other ways, element by element. A maximum does not mix channels, so
//! those of all images are channels of one:
//!
//! ```text
//! MaxPool<[2,2]>([N, C, H, W])   becomes   MaxPool<[2,2]>([N * C, H, W])
//! MaxPool<[3]>([N, C, L])        becomes   MaxPool<[1,3]>([N * C, 1, L])
//! ```

use tract_onnx::tract_core::ops::cnn::{MaxPool, PaddingSpec, PoolSpec};
use tract_onnx::tract_core::ops::nn::DataFormat;
use tract_onnx::tract_core::optim::{OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

/// The pass, which comes before tract's choices.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    next: usize,
}

impl TypedPass for Pools {
    fn reset(&mut self) -> TractResult<()> {
        self.next = 0;
        Ok(())
    }

    fn next(
        &mut self,
        _session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        while let Some(node) = model.nodes.get(self.next) {
            self.next += 1;
            if let Some(pool) = node.op_as::<MaxPool>()
                && let Some(patch) = in_rows(pool, model, node)?
            {
                return Ok(Some(patch));
            }
        }
        Ok(None)
    }
}

/// A maximum of one image of all channels.
fn in_rows(
    pool: &MaxPool,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let spec = &pool.pool_spec;
    rule_if!(pool.with_index_outputs.is_none());
    rule_if!(spec.data_format == DataFormat::NCHW && matches!(spec.rank(), 1 | 2));
    let shape = &model.outlet_fact(node.inputs[0])?.shape;
    // tract holds the number of channels as an integer.
    rule_if_let!((Ok(batch), Ok(channels)) = (shape[0].to_usize(), shape[1].to_usize()));
    let all = batch * channels;
    let is_signal = spec.rank() == 1;
    let pool = MaxPool {
        pool_spec: PoolSpec {
            data_format: DataFormat::CHW,
            input_channels: all,
            output_channels: all,
            ..if is_signal {
                of_a_row(spec)
            } else {
                spec.clone()
            }
        },
        with_index_outputs: None,
    };
    let merged = AxisOp::Reshape(
        0,
        tvec![batch.to_dim(), channels.to_dim()],
        tvec![all.to_dim()],
    );
    let row = is_signal.then_some(AxisOp::Add(1));

    let mut patch = TypedModelPatch::default();
    let mut wire = patch.tap_model(model, node.inputs[0])?;
    let before = std::iter::once(merged.clone()).chain(row.clone());
    for (index, op) in before.enumerate() {
        wire = patch.wire_node(format!("{}.before.{index}", node.name), op, &[wire])?[0];
    }
    wire = patch.wire_node(&*node.name, pool, &[wire])?[0];
    let after = row.into_iter().chain(std::iter::once(merged));
    for (index, op) in after.enumerate() {
        let name = format!("{}.after.{index}", node.name);
        wire = patch.wire_node(name, op.recip(), &[wire])?[0];
    }
    patch.shunt_outside(model, node.id.into(), wire)?;
    Ok(Some(patch))
}

/// The window of a signal as one of an image of one row.
fn of_a_row(spec: &PoolSpec) -> PoolSpec {
    let with = |first: usize, rest: &[usize]| -> TVec<usize> {
        std::iter::once(first).chain(rest.iter().copied()).collect()
    };
    let padding = match &spec.padding {
        PaddingSpec::Explicit(before, after) => {
            PaddingSpec::Explicit(with(0, before), with(0, after))
        }
        PaddingSpec::ExplicitOnnxPool(before, after, ceil) => {
            PaddingSpec::ExplicitOnnxPool(with(0, before), with(0, after), *ceil)
        }
        other => other.clone(),
    };
    PoolSpec {
        kernel_shape: with(1, &spec.kernel_shape),
        padding,
        dilations: spec.dilations.as_ref().map(|it| with(1, it)),
        strides: spec.strides.as_ref().map(|it| with(1, it)),
        ..spec.clone()
    }
}
