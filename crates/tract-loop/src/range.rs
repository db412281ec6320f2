//! Ranges, including decreasing ones.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array;

use crate::node::check_domain;

/// Parses a Range; tract computes the wrong length for steps below 1.
pub(crate) fn parse(
    _ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    Ok((expand(Range), vec![]))
}

#[derive(Clone, Debug)]
struct Range;

/// The number of elements: ONNX's `max(ceil((limit - start) / step), 0)`.
fn length(start: &Tensor, limit: &Tensor, step: &Tensor) -> TractResult<TDim> {
    let is_float = [start, limit, step]
        .iter()
        .any(|it| it.datum_type().is_float());
    if is_float {
        let number = |tensor: &Tensor| tensor.cast_to_scalar::<f64>();
        let length = ((number(limit)? - number(start)?) / number(step)?).ceil();
        return Ok((length.max(0.0) as i64).to_dim());
    }
    let size = |tensor: &Tensor| -> TractResult<TDim> {
        let tensor = tensor.cast_to::<TDim>()?;
        let tensor = tensor.to_plain_array_view::<TDim>()?;
        tensor.iter().next().cloned().context("it has one element")
    };
    let step: i64 = step.cast_to_scalar()?;
    let (start, limit) = (size(start)?, size(limit)?);
    let (span, step) = match step {
        0 => bail!("its step is 0"),
        1.. => (limit - start, step.unsigned_abs()),
        _ => (start - limit, step.unsigned_abs()),
    };
    let length = span.divceil(usize::try_from(step)?);
    Ok(match length.to_i64() {
        Ok(length) => length.max(0).to_dim(),
        Err(_) => length,
    })
}

impl Expansion for Range {
    fn name(&self) -> StaticName {
        "Range".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 3)?;
        check_output_arity(outputs, 1)?;
        let types = inputs.iter().map(|input| &input.datum_type);
        s.given_all(types, move |s, types| {
            let common = DatumType::super_type_for(types);
            let common = common.context("its inputs are of types that have nothing in common")?;
            let of = if common.is_tdim() {
                i64::datum_type()
            } else {
                common
            };
            s.equals(&outputs[0].datum_type, of)
        })?;
        for input in inputs {
            s.equals(&input.rank, 0)?;
        }
        s.equals(&outputs[0].rank, 1)?;
        let values = inputs.iter().map(|input| &input.value);
        s.given_all(values, move |s, values| {
            let length = length(&values[0], &values[1], &values[2])?;
            s.equals(&outputs[0].shape[0], length)
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        array::Range.wire(prefix, model, inputs)
    }
}
