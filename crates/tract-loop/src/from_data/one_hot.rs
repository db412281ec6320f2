//! OneHot. tract panics for an index outside of its range, and takes only a known depth.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::minted::{Minted, axis, in_numbers, rewire, symbols_of};
use super::own::{Own, Untyped};
use crate::node::check_domain;

/// Parses a OneHot.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let op = OnnxOneHot {
        axis: node.get_attr_opt("axis")?.unwrap_or(-1),
        depth: Minted::new(ctx),
    };
    Ok((Box::new(Own(op)), vec![]))
}

/// A OneHot before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxOneHot {
    axis: i64,
    depth: Minted,
}

impl Untyped for OnnxOneHot {
    type Typed = OneHot;

    fn name(&self) -> StaticName {
        "OneHot".into()
    }

    fn arity(&self) -> (usize, usize) {
        (3, 1)
    }

    fn typed(&self, inputs: &[&TypedFact]) -> TractResult<OneHot> {
        let axis = axis(self.axis, inputs[0].rank() + 1)?;
        let depth = match &inputs[1].konst {
            Some(depth) => depth
                .cast_to::<TDim>()?
                .try_as_plain_ram()?
                .as_slice::<TDim>()?[0]
                .clone(),
            None => self.depth.of(axis),
        };
        Ok(OneHot { axis, depth })
    }
}

/// Writes on for each index along a new axis, and off elsewhere.
///
/// The inputs are the indices, of any number type, the depth, and off and on. A negative index
/// counts from the end; for an index outside of the depth, all is off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OneHot {
    axis: usize,
    /// The size of the new axis; a symbol of its own if the depth comes from data.
    depth: TDim,
}

impl OneHot {
    fn fill<T: Datum>(
        &self,
        indices: &Tensor,
        depth: usize,
        values: &Tensor,
    ) -> TractResult<Tensor> {
        let values = values.to_plain_array_view::<T>()?;
        ensure!(
            values.len() == 2,
            "a OneHot has {} values, expected off and on",
            values.len()
        );
        let mut shape: TVec<usize> = indices.shape().into();
        shape.insert(self.axis, depth);
        let mut values = values.iter();
        let (off, on) = (values.next().context("off")?, values.next().context("on")?);
        let mut filled = vec![off.clone(); shape.iter().product()];
        let inner: usize = indices.shape()[self.axis..].iter().product();
        let indices = indices.cast_to::<i64>()?;
        for (at, index) in indices
            .try_as_plain_ram()?
            .as_slice::<i64>()?
            .iter()
            .enumerate()
        {
            let index = if *index < 0 {
                index.saturating_add(depth as i64)
            } else {
                *index
            };
            if let Some(index) = usize::try_from(index).ok().filter(|it| *it < depth) {
                filled[(at / inner * depth + index) * inner + at % inner] = on.clone();
            }
        }
        Ok(tract_ndarray::ArrayD::from_shape_vec(&*shape, filled)?.into_tensor())
    }
}

impl Op for OneHot {
    fn name(&self) -> StaticName {
        "OneHot".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {} depth: {}", self.axis, self.depth)])
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        inputs.iter().flat_map(|fact| symbols_of(fact)).collect()
    }

    op_as_typed_op!();
}

impl EvalOp for OneHot {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (indices, depth, values) = args_3!(inputs);
        let indices = in_numbers(indices, ctx.symbols)?;
        let depth = in_numbers(depth, ctx.symbols)?
            .cast_to::<i64>()?
            .into_owned();
        let depth = depth.try_as_plain_ram()?.as_slice::<i64>()?;
        let depth = match *depth {
            [depth] => usize::try_from(depth).ok(),
            _ => None,
        }
        .with_context(|| format!("a OneHot has depth {depth:?}, expected one number from 0"))?;
        let output = dispatch_datum!(Self::fill(values.datum_type())(
            self, &indices, depth, &values
        ))?;
        Ok(tvec![output.into_tvalue()])
    }
}

impl TypedOp for OneHot {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        shape.insert(self.axis, self.depth.clone());
        Ok(tvec![inputs[2].datum_type.fact(shape)])
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let op = Self {
            axis: self.axis,
            depth: self.depth.substitute_all(subs)?,
        };
        rewire(op, node, target, mapping)
    }

    as_op!();
}
