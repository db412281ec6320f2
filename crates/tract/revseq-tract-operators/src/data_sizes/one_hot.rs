//! OneHot. tract panics for an index outside of its range, and takes only a known depth.
//!
//! The depth is the size of the new axis: a number if it is known, an expression if it is computed
//! from sizes, and otherwise a symbol of the node's own.
//!
//! ```text
//! OneHot(indices: [N], depth, [off, on]): [N, size]
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::size_symbols::{SizeSymbols, axis, in_numbers};
use crate::dims::{self, scalar};
use crate::limits::Limits;
use crate::load::LoadOptions;
use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a OneHot.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let new: i64 = node.get_attr_opt("axis")?.unwrap_or(-1);
    let (sizes, limits) = (SizeSymbols::new(ctx), LoadOptions::of(ctx).limits);
    own(node, [3, 1], move |node: &mut Wiring<'_>| {
        let axis = axis(new, node.input(0)?.rank() + 1)?;
        let depth = match &node.input(1)?.konst {
            Some(depth) if depth.datum_type().is_tdim() => dims::sizes(depth)?.first().cloned(),
            Some(depth) => Some(number_from_0(depth)?.to_dim()),
            None => None,
        };
        node.whole(Typed(OneHot {
            axis,
            depth: depth.unwrap_or_else(|| sizes.of(axis)),
            limits,
        }))
    })
}

/// The depth.
fn number_from_0(depth: &Tensor) -> TractResult<usize> {
    let number = match depth.len() {
        1 if depth.datum_type().is_float() => {
            let depth = scalar::<f64>(depth)?;
            // ONNX Runtime cuts fractions off.
            depth.is_finite().then_some(depth as i64)
        }
        1 => Some(scalar(depth)?),
        _ => None,
    };
    let number = number.and_then(|depth| usize::try_from(depth).ok());
    number.with_context(|| {
        let depth = match depth.datum_type().is_float() {
            true => depth
                .cast_to::<f64>()
                .map(|it| format!("{:?}", list::<f64>(&it))),
            false => depth
                .cast_to::<i64>()
                .map(|it| format!("{:?}", list::<i64>(&it))),
        };
        let depth = depth.unwrap_or_default();
        format!("a OneHot has depth {depth}, expected one number from 0")
    })
}

fn list<T: Datum>(value: &Tensor) -> Vec<T> {
    let view = value.to_plain_array_view::<T>();
    view.map(|view| view.iter().cloned().collect())
        .unwrap_or_default()
}

/// The indices; a fraction is none, nor is a number beyond 64 bits.
fn whole(indices: &Tensor) -> TractResult<Vec<Option<i64>>> {
    if indices.datum_type().is_float() {
        let indices = indices.cast_to::<f64>()?;
        let whole = |index: &f64| {
            // Every float from here on is beyond 64 bits.
            let is_whole = index.fract() == 0.0 && index.abs() < 9_223_372_036_854_775_808.0;
            is_whole.then_some(*index as i64)
        };
        return Ok(list::<f64>(&indices).iter().map(whole).collect());
    }
    if indices.datum_type() == u64::datum_type() {
        let indices = list::<u64>(indices).into_iter();
        return Ok(indices.map(|index| i64::try_from(index).ok()).collect());
    }
    let indices = indices.cast_to::<i64>()?;
    Ok(list::<i64>(&indices).into_iter().map(Some).collect())
}

/// Writes on for each index along a new axis, and off elsewhere.
///
/// The inputs are the indices, of any number type, the depth, and off and on. A negative index
/// counts from the end; for an index outside of the depth, or between two, all is off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OneHot {
    axis: usize,
    /// The size of the new axis; a symbol of its own if it comes from data.
    depth: TDim,
    limits: Limits,
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
        self.limits.allow(T::datum_type(), &shape)?;
        let mut values = values.iter();
        let (off, on) = (values.next().context("off")?, values.next().context("on")?);
        let mut filled = vec![off.clone(); shape.iter().product()];
        let inner: usize = indices.shape()[self.axis..].iter().product();
        for (at, index) in whole(indices)?.into_iter().enumerate() {
            let from_first = |index: i64| match index {
                ..0 => index.saturating_add_unsigned(depth as u64),
                _ => index,
            };
            let index = index.and_then(|index| usize::try_from(from_first(index)).ok());
            if let Some(index) = index.filter(|index| *index < depth) {
                filled[(at / inner * depth + index) * inner + at % inner] = on.clone();
            }
        }
        Ok(tract_ndarray::ArrayD::from_shape_vec(&*shape, filled)?.into_tensor())
    }
}

impl Stateless for OneHot {
    const NAME: &str = "OneHot";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {} depth: {}", self.axis, self.depth)])
    }

    fn defines_symbols(&self) -> bool {
        matches!(self.depth, TDim::Sym(_))
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (indices, depth, values) = args_3!(inputs);
        let indices = in_numbers(indices, ctx.symbols)?;
        let depth = number_from_0(&*in_numbers(depth, ctx.symbols)?)?;
        let output = dispatch_datum!(Self::fill(values.datum_type())(
            self, &indices, depth, &values
        ))?;
        Ok(tvec![output.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.to_tvec();
        shape.insert(self.axis, self.depth.clone());
        let output = inputs[2].datum_type.fact(shape);
        if let Some(shape) = output.shape.as_concrete() {
            self.limits.allow(output.datum_type, shape)?;
        }
        Ok(tvec![output])
    }

    substitutes!(depth);
}
