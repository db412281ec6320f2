//! Resize of opset 10, of which tract has a later version's nearest elements, and Upsample, which it lacks.
//!
//! ONNX Runtime takes the element below where the sizes grow, and the one above where they shrink:
//!
//! ```text
//! Resize([a, b], scale 3)  →  [a, a, a, b, b, b], not [a, a, b, b, b, b]
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::nn::resize::{CoordTransformer, Interpolator, Nearest, Resize};
use tract_onnx::tract_hir::internal::*;

use crate::node::{check_domain, parse_with_tract};

/// Parses an Upsample, or a Resize of any version.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    if node.op_type == "Resize" && ctx.onnx_operator_set_version != 10 {
        return parse_with_tract("Resize", ctx, node);
    }
    let scales: Option<TVec<f32>> = node.get_attr_opt_tvec("scales")?;
    let op = Early {
        interpolator: Interpolator::parse(node.get_attr_opt("mode")?.unwrap_or("nearest"))?,
        scales: scales.map(|it| tensor1(&it).into_arc_tensor()),
    };
    Ok((expand(op), vec![]))
}

/// A Resize or an Upsample before opset 11.
#[derive(Clone, Debug)]
struct Early {
    interpolator: Interpolator,
    /// The scale of each axis, where it is an attribute.
    scales: Option<Arc<Tensor>>,
}

impl Early {
    fn resize(&self) -> Resize {
        Resize {
            coord_transformer: CoordTransformer::Asymmetric,
            interpolator: self.interpolator.clone(),
            nearest: Nearest::Floor,
            optional_scales_input: Some(1),
            optional_sizes_input: None,
        }
    }

    /// Checks that elements lie where a smaller axis takes them: tract has no nearest one above.
    fn check(&self, scales: &Tensor) -> TractResult<()> {
        for scale in scales.try_as_plain_ram()?.as_slice::<f32>()? {
            let is_exact = *scale >= 1.0 || scale.recip().fract() == 0.0;
            ensure!(
                is_exact || self.interpolator != Interpolator::Nearest,
                "its scale is {scale} for the nearest elements, expected at least 1 or 1 / n"
            );
        }
        Ok(())
    }
}

impl Expansion for Early {
    fn name(&self) -> StaticName {
        "Resize".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 2 - usize::from(self.scales.is_some()))?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.equals(&inputs[0].rank, &outputs[0].rank)?;
        s.given(&inputs[0].shape, move |s, shape| {
            let sized = move |s: &mut Solver<'_>, scales: &Tensor| {
                let sizes = self
                    .resize()
                    .compute_output_shape(&shape, Some(scales), None)?;
                s.equals(&outputs[0].shape, sizes)
            };
            match &self.scales {
                Some(scales) => sized(s, scales),
                None => s.given(&inputs[1].value, move |s, scales| sized(s, &scales)),
            }
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let scales = match &self.scales {
            Some(scales) => model.add_const(format!("{prefix}.scales"), scales.clone())?,
            None => inputs[1],
        };
        let known = model.outlet_fact(scales)?.konst.clone();
        self.check(known.as_deref().context("its scales are not constant")?)?;
        model.wire_node(prefix, self.resize(), &[inputs[0], scales])
    }
}
