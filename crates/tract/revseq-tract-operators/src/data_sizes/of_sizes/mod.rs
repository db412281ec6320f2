//! Operators whose sizes are an input, and may come from data.
//!
//! Their shape is known up to symbols, from the graph (`node_context.rs`) and from the data's shape. At run
//! time it follows from the numbers, is checked against the limits, and the output is computed. Each
//! operator's file says how, and what its sizes are before. Where all sizes are known, the node is
//! tract's, mended by `wide_sizes.rs`, `zero_sizes.rs` and [`pad::Cropping`].
//!
//! ```text
//! Expand(x: [1, 4], [n, 1]), n from data: [size, 4]
//! ```

pub(crate) mod constant_of_shape;
pub(crate) mod expand;
pub(crate) mod pad;
pub(crate) mod reshape;
pub(crate) mod tile;
mod zero_sizes;

use std::fmt;

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::dyn_clone::clone_box;
use tract_onnx::tract_hir::internal::*;

use super::node_context::{NodeContext, Number};
use super::size_symbols::{SizeSymbols, all_in_numbers};
use super::wide_sizes::wide_sizes;
use crate::dims;
use crate::limits::Limits;
use crate::load::LoadOptions;
use crate::operator::{
    Facts, Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_parsed, over_tract,
};
use crate::typed_op::{Stateless, Typed};

/// The numbers of an input.
type Numbers<'a> = dyn Fn(usize) -> TractResult<Vec<i64>> + 'a;

/// What is known of sizes before the operator runs.
struct KnownSizes<'a> {
    /// The sizes of the data.
    data: &'a [TDim],
    /// The output's number of axes.
    rank: usize,
    /// The elements of the input with the sizes, as far as they are numbers.
    numbers: &'a [Option<i64>],
    /// The same with symbols, if the input is known.
    sizes: Option<&'a [TDim]>,
}

impl KnownSizes<'_> {
    fn number(&self, at: usize) -> Option<i64> {
        self.numbers.get(at).copied().flatten()
    }
}

/// What an operator makes of the numbers in its sizes.
trait OfSizes: Clone + fmt::Debug + Send + Sync + 'static {
    /// The operator's name.
    const NAME: &str;
    /// Whether an input comes before the sizes.
    const HAS_DATA: bool = true;
    /// Whether the output has the elements of the data, so that it is within the limits.
    const KEEPS_ELEMENTS: bool = false;

    /// The output's rank, for data of a rank and `count` sizes.
    fn rank(&self, data: usize, count: usize) -> usize;

    /// The output's size along an axis, if the graph determines it.
    fn size(&self, axis: usize, known: &KnownSizes<'_>) -> Option<TDim>;

    /// Whether tract does not take known sizes, since some are symbols; `None` if too little is known.
    fn is_ours(&self, _inputs: &[InferenceFact], _sizes: &[TDim]) -> Option<bool> {
        Some(false)
    }

    /// The output's shape.
    fn shape(&self, data: &[usize], numbers: &Numbers<'_>) -> TractResult<TVec<usize>>;

    /// Computes an output that has elements.
    fn output(&self, inputs: TVec<TValue>, shape: &[usize]) -> TractResult<Tensor>;
}

/// Parses a node like tract, with sizes of 64 bits.
fn parse_with_data(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, wide_sizes(1))
}

/// Makes an operator that is tract's if the sizes are known, and runs as `op` otherwise.
fn of_sizes<T: OfSizes>(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
    parsed: Parsed,
    op: T,
) -> Parsed {
    let first = usize::from(T::HAS_DATA);
    let sizes = node.input.get(first).filter(|name| !name.is_empty());
    // Early versions of Pad and Reshape have them as an attribute.
    let Some(sizes) = sizes else {
        return parsed;
    };
    let numbers = NodeContext::new(ctx).numbers(sizes, None)?;
    let numbers = numbers.unwrap_or_default().into_iter().map(|it| match it {
        Number::Known(number) => Some(number),
        _ => None,
    });
    let op = SizedNode {
        op,
        deciding: optional_inputs(node)
            .take(node.input.len())
            .skip(first)
            .flatten()
            .collect(),
        numbers: numbers.collect(),
        sizes: SizeSymbols::new(ctx),
        limits: LoadOptions::of(ctx).limits,
    };
    over_parsed(parsed, op)
}

/// The elements of a list, which has no symbols.
fn numbers(value: &Tensor) -> TractResult<Vec<i64>> {
    let value = value.cast_to::<i64>()?;
    Ok(value.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
}

/// A size from data.
fn size(number: i64) -> TractResult<usize> {
    let size = usize::try_from(number).ok();
    size.with_context(|| format!("it has a size of {number}, expected one from 0"))
}

/// The operator before it is known whether its sizes come from data.
#[derive(Clone, Debug)]
struct SizedNode<T> {
    op: T,
    /// The inputs that tract has to know; the first one holds the sizes.
    deciding: TVec<usize>,
    /// The elements of that first input that the graph determines, if it determines their number.
    numbers: Vec<Option<i64>>,
    sizes: SizeSymbols,
    limits: Limits,
}

impl<T: OfSizes> SizedNode<T> {
    /// The output's shape, which is within the limits.
    fn shape(
        &self,
        datum_type: DatumType,
        data: &[usize],
        numbers: &Numbers<'_>,
    ) -> TractResult<TVec<usize>> {
        let shape = self.op.shape(data, numbers)?;
        if !T::KEEPS_ELEMENTS {
            self.limits.allow(datum_type, &shape)?;
        }
        Ok(shape)
    }

    /// The facts that tract finds. It refuses expressions of a Reshape that may well be equal.
    fn facts_by_tract(
        &self,
        inputs: &[&InferenceFact],
        by_tract: TractResult<Facts>,
    ) -> TractResult<(TVec<InferenceFact>, InferenceFact)> {
        if T::KEEPS_ELEMENTS && by_tract.is_err() {
            let output = InferenceFact {
                datum_type: inputs[0].datum_type,
                ..InferenceFact::default()
            };
            let inputs: TVec<InferenceFact> = inputs.iter().map(|fact| (*fact).clone()).collect();
            if self.fact(&inputs, &output).is_some() {
                return Ok((inputs, output));
            }
        }
        let (inputs, mut outputs, _) = by_tract?;
        Ok((inputs, outputs.remove(0)))
    }

    /// The output's type and sizes, if sizes from data keep tract from knowing them.
    fn fact(
        &self,
        inputs: &[InferenceFact],
        output: &InferenceFact,
    ) -> Option<(DatumType, TVec<TDim>)> {
        let mut deciding = self.deciding.iter().map(|input| &inputs[*input]);
        let value = inputs[self.deciding[0]].value.concretize();
        let value = value.map(|value| dims::sizes(&value)).transpose().ok()?;
        let is_ours = match &value {
            Some(sizes) => self.op.is_ours(inputs, sizes)?,
            None => false,
        };
        if deciding.all(|fact| fact.value.is_concrete()) && !is_ours {
            return None;
        }
        let numbers: Vec<Option<i64>> = match &value {
            Some(value) => value.iter().map(|it| it.to_i64().ok()).collect(),
            None => self.numbers.clone(),
        };
        let data = match T::HAS_DATA {
            true => inputs[0].shape.concretize()?,
            false => tvec![],
        };
        let counts = inputs[self.deciding[0]].shape.concretize()?;
        let count = counts.iter().product::<TDim>().to_usize().ok()?;
        let datum_type = output.datum_type.concretize()?;
        let inferred: Vec<Option<TDim>> = output.shape.dims().map(|it| it.concretize()).collect();
        let known = KnownSizes {
            data: &data,
            rank: self.op.rank(data.len(), count),
            numbers: &numbers,
            sizes: value.as_deref(),
        };
        let sizes = (0..known.rank).map(|axis| {
            let inferred = inferred.get(axis).cloned().flatten();
            let size = inferred.or_else(|| self.op.size(axis, &known));
            size.unwrap_or_else(|| self.sizes.of(axis))
        });
        Some((datum_type, sizes.collect()))
    }
}

impl<T: OfSizes> Operator for SizedNode<T> {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let by_tract = node.facts_by_upstream();
        let (inputs, output) = self.facts_by_tract(&node.inputs, by_tract)?;
        if let Some((datum_type, shape)) = self.fact(&inputs, &output) {
            let (_, outputs, observed) = node.output(datum_type, shape);
            return Ok(Some((inputs, outputs, observed)));
        }
        // Without values, which may be large: the limits are applied before.
        let data = match T::HAS_DATA {
            true => node.inputs[0].shape.as_concrete_finite()?,
            false => Some(tvec![]),
        };
        if let (Some(datum_type), Some(data)) = (output.datum_type.concretize(), data)
            && node.computes
            && !T::KEEPS_ELEMENTS
        {
            let numbers = |input| numbers(&*node.value(input).context("an input is unknown")?);
            // Those with symbols are none.
            if numbers(self.deciding[0]).is_ok() {
                self.shape(datum_type, &data, &numbers)?;
            }
        }
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let facts: TVec<InferenceFact> = node.facts()?.into_iter().map(Into::into).collect();
        let upstream = node.upstream.context("tract has the operator")?;
        let inputs = facts.iter().collect();
        let output = InferenceFact::default();
        let by_tract = clone_box(upstream).infer_facts(inputs, tvec![&output], tvec![]);
        let (_, output) = self.facts_by_tract(&facts.iter().collect::<TVec<_>>(), by_tract)?;
        rule_if_some!((datum_type, shape) = self.fact(&facts, &output));
        node.whole(Typed(SizedOp {
            op: self.clone(),
            fact: datum_type.fact(shape),
        }))
    }
}

/// An operator whose sizes are known once it runs.
#[derive(Clone, Debug)]
struct SizedOp<T> {
    op: SizedNode<T>,
    /// The output; sizes from data are symbols of their own.
    fact: TypedFact,
}

never_equal!(SizedOp<T>, T);

impl<T: OfSizes> Stateless for SizedOp<T> {
    const NAME: &str = T::NAME;
    const FOLDS: bool = false;

    fn defines_symbols(&self) -> bool {
        self.fact.shape.iter().any(|size| self.op.sizes.has(size))
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let inputs = all_in_numbers(inputs, ctx.symbols)?;
        let datum_type = self.fact.datum_type;
        let data = if T::HAS_DATA { inputs[0].shape() } else { &[] };
        let shape = self
            .op
            .shape(datum_type, data, &|input| numbers(&inputs[input]))?;
        let output = match shape.contains(&0) {
            true => Tensor::zero_dt(datum_type, &shape)?,
            false => self.op.op.output(inputs, &shape)?,
        };
        Ok(tvec![
            output.cast_to_dt(datum_type)?.into_owned().into_tvalue()
        ])
    }

    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![self.fact.clone()])
    }

    substitutes!(fact);
}
