//! Resize to sizes that are known when it runs, Resize of opset 10, and Upsample.
//!
//! tract's Resize has to know its sizes by then, and its nearest elements of opset 10 are those of later
//! versions. ONNX Runtime takes the element below where the sizes grow, and the one above where they
//! shrink:
//!
//! ```text
//! Resize([a, b], scale 3)  →  [a, a, a, b, b, b], not [a, a, b, b, b, b]
//! ```

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::nn::resize::{CoordTransformer, Interpolator, Nearest, Resize};
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::data_sizes::definers::InNumbers;
use crate::data_sizes::{symbols_of, wide_sizes};
use crate::node::parse_with_tract;
use crate::operator::{Operator, Parsed, Wired, Wiring, over_parsed, over_tract, own};
use crate::typed_op::Typed;

/// Parses an Upsample, or a Resize of any version.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    if node.op_type == "Resize" && ctx.onnx_operator_set_version != 10 {
        let parsed = match optional_inputs(node).nth(3).flatten() {
            Some(sizes) => over_tract(ctx, node, wide_sizes(sizes)),
            None => parse_with_tract("Resize", ctx, node),
        };
        return over_parsed(over_parsed(parsed, ToSizes), OrNothing);
    }
    let scales: Option<TVec<f32>> = node.get_attr_opt_tvec("scales")?;
    let scales = scales.map(|it| tensor1(&it).into_arc_tensor());
    let interpolator = Interpolator::parse(node.get_attr_opt("mode")?.unwrap_or("nearest"))?;
    let inputs = 2 - usize::from(scales.is_some());
    own(node, [inputs, 1], move |node: &mut Wiring<'_>| {
        let scales = match &scales {
            Some(scales) => node.constant("scales", scales.clone())?,
            None => node.inputs[1],
        };
        let constant = node.fact(scales)?.konst.clone();
        let constant = constant.as_deref().context("its scales are not constant")?;
        if interpolator == Interpolator::Nearest {
            check_scales(constant)?;
        }
        let resize = Resize {
            coord_transformer: CoordTransformer::Asymmetric,
            interpolator: interpolator.clone(),
            nearest: Nearest::Floor,
            optional_scales_input: Some(1),
            optional_sizes_input: None,
        };
        node.last(resize, &[node.inputs[0], scales])
    })
}

/// Checks that elements lie where a smaller axis takes them: tract has no nearest one above.
fn check_scales(scales: &Tensor) -> TractResult<()> {
    for scale in scales.try_as_plain_ram()?.as_slice::<f32>()? {
        ensure!(
            *scale >= 1.0 || scale.recip().fract() == 0.0,
            "its scale is {scale} for the nearest elements, expected at least 1 or 1 / n"
        );
    }
    Ok(())
}

/// The operator over a Resize whose sizes may be symbols.
#[derive(Clone, Debug)]
struct ToSizes;

impl Operator for ToSizes {
    const IS_TRANSPARENT: bool = true;

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        node.replace_inputs(|node, outlet| {
            let fact = node.fact(outlet)?;
            rule_if!(fact.konst.is_some() && !symbols_of(fact).is_empty());
            node.op("sizes", Typed(InNumbers::Sizes), &[outlet])
                .map(Some)
        })?;
        Ok(None)
    }
}
