//! Ranges. tract's have the wrong length for steps below 1, and for a limit behind the start.
//!
//! The length is a number, an expression of sizes, or a symbol if it comes from data. It is
//! computed once more when the operator runs, from the numbers, and checked against the limits.
//!
//! ```text
//! Range(0, N, 2): [(N+1)/2]; Range(3, N, 1): [max(0,N-3)]
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::logic::sym_to_coord_axis;
use tract_onnx::tract_hir::infer::{DimFact, ShapeFactoid};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::all_in_numbers;
use crate::dims::{is_size, scalar, size};
use crate::limits::Limits;
use crate::load::LoadOptions;
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a Range.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let op = OnnxRange {
        limits: LoadOptions::of(ctx).limits,
    };
    own(node, [3, 1], op)
}

/// A Range before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxRange {
    limits: Limits,
}

/// The number of elements: ONNX's `max(ceil((limit - start) / step), 0)`, exact for symbols too.
fn count(start: &TDim, limit: &TDim, step: i64) -> TractResult<TDim> {
    ensure!(step != 0, "its step is 0");
    if let (Ok(start), Ok(limit)) = (start.to_i64(), limit.to_i64()) {
        let span = i128::from(limit) - i128::from(start);
        let step = i128::from(step);
        let whole = span / step + i128::from(span % step != 0 && (span < 0) == (step < 0));
        return Ok(i64::try_from(whole.max(0)).unwrap_or(i64::MAX).to_dim());
    }
    let span = match step {
        1.. => limit.clone() - start,
        _ => start.clone() - limit,
    };
    let span = match is_size(&span) {
        true => span,
        false => span.maxi(0.to_dim()),
    };
    Ok(span.div_ceil(step.unsigned_abs()))
}

/// The number of elements, if the inputs determine it.
fn length(inputs: [&Tensor; 3]) -> TractResult<Option<TDim>> {
    if inputs.iter().any(|it| it.datum_type().is_float()) {
        let numbers = inputs.map(scalar::<f64>);
        let [Ok(start), Ok(limit), Ok(step)] = numbers else {
            return Ok(None);
        };
        ensure!(step != 0.0, "its step is 0");
        let length = ((limit - start) / step).ceil();
        ensure!(
            !length.is_nan(),
            "it goes from {start} to {limit} in steps of {step}, expected finite numbers"
        );
        // The cast clamps.
        return Ok(Some((length.max(0.0) as i64).to_dim()));
    }
    let [start, limit, step] = inputs.map(size);
    match step?.to_i64() {
        Ok(step) => count(&start?, &limit?, step).map(Some),
        Err(_) => Ok(None),
    }
}

impl Operator for OnnxRange {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let mut inputs: TVec<InferenceFact> = tvec![];
        for fact in &node.inputs {
            let mut input = (*fact).clone();
            input.shape.unify_with(&ShapeFactoid::closed(tvec![]))?;
            inputs.push(input);
        }
        let length = match [0, 1, 2].map(|input| node.value(input)) {
            [Some(start), Some(limit), Some(step)] => length([&start, &limit, &step])?,
            _ => None,
        };
        let size = length.map_or_else(DimFact::default, DimFact::from);
        let mut output = node.outputs[0].clone();
        output
            .shape
            .unify_with(&ShapeFactoid::closed(tvec![size]))?;
        if let Some(types) = node.types().collect::<Option<Vec<_>>>() {
            output.datum_type.unify_with(&common(&types)?.into())?;
        }
        Ok(Some((inputs, tvec![output], tvec![])))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let facts = node.facts()?;
        let datum_type = common(&node.types()?)?;
        let length = match known_length([facts[0], facts[1], facts[2]])? {
            Some(length) => length,
            None => node.model.symbols.new_with_prefix("range").to_dim(),
        };
        node.replace_inputs(|node, input| {
            rule_if!(!node.fact(input)?.datum_type.is_tdim());
            node.cast("in", input, datum_type).map(Some)
        })?;
        node.whole(Typed(Range {
            datum_type,
            length,
            limits: self.limits,
        }))
    }
}

/// The type of the elements: that of the inputs, which may be sizes.
fn common(types: &[DatumType]) -> TractResult<DatumType> {
    let common = DatumType::super_type_for(types);
    let common = common.context("its inputs are of types that have nothing in common")?;
    Ok(match common {
        it if it.is_tdim() => i64::datum_type(),
        it => it,
    })
}

/// The number of elements, if the inputs' values, or the sizes that they stand for, determine it.
///
/// A size stays known through a cast to floats, as TensorFlow writes it around a limit.
fn known_length(inputs: [&TypedFact; 3]) -> TractResult<Option<TDim>> {
    if let [Some(start), Some(limit), Some(step)] = inputs.map(|fact| fact.konst.as_deref())
        && let Some(length) = length([start, limit, step])?
    {
        return Ok(Some(length));
    }
    let [Some(start), Some(limit), Some(step)] = inputs.map(stands_for) else {
        return Ok(None);
    };
    match step.to_i64() {
        Ok(step) => count(&start, &limit, step).map(Some),
        Err(_) => Ok(None),
    }
}

/// The size that a scalar stands for. An expression of the places of elements is none.
fn stands_for(fact: &TypedFact) -> Option<TDim> {
    if let Some(expression) = &fact.uniform_tdim {
        let mut symbols = expression.symbols().into_iter();
        return symbols
            .all(|symbol| sym_to_coord_axis(&symbol).is_none())
            .then(|| expression.clone());
    }
    let constant = fact.konst.as_deref()?;
    let number = size(constant).ok()?;
    let again = number.to_i64().ok().map(|it| it as f64);
    let is_whole = !constant.datum_type().is_float() || again == scalar::<f64>(constant).ok();
    is_whole.then_some(number)
}

/// The numbers from a start by a step, before a limit. The inputs may be sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Range {
    datum_type: DatumType,
    /// The number of elements; a symbol of its own if that comes from data.
    length: TDim,
    limits: Limits,
}

impl Range {
    /// Counts in memory that may not be there: what is asked for comes from data.
    fn elements<T: Datum + Copy>(
        &self,
        length: usize,
        start: T,
        next: impl Fn(T) -> T,
    ) -> TractResult<Tensor> {
        let mut elements: Vec<T> = vec![];
        elements
            .try_reserve_exact(length)
            .with_context(|| format!("it has {length} elements, more than there is memory for"))?;
        let mut element = start;
        for _ in 0..length {
            elements.push(element);
            element = next(element);
        }
        Ok(tract_ndarray::Array1::from_vec(elements).into_tensor())
    }
}

impl Stateless for Range {
    const NAME: &str = "Range";

    fn defines_symbols(&self) -> bool {
        matches!(self.length, TDim::Sym(_))
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let inputs = all_in_numbers(inputs, ctx.symbols)?;
        let [start, limit, step] = [&*inputs[0], &*inputs[1], &*inputs[2]];
        let length = length([start, limit, step])?.context("they are numbers")?;
        let length = length.to_usize()?;
        self.limits.allow(self.datum_type, &[length])?;
        macro_rules! counted {
            ($($type:ty),*; $($float:ty),*) => {
                match self.datum_type {
                    $(it if it == <$type>::datum_type() => {
                        let (start, step): ($type, $type) =
                            (scalar(start)?, scalar(step)?);
                        self.elements(length, start, |it: $type| it.wrapping_add(step))
                    })*
                    $(it if it == <$float>::datum_type() => {
                        let (start, step): ($float, $float) =
                            (scalar(start)?, scalar(step)?);
                        self.elements(length, start, |it: $float| it + step)
                    })*
                    other => bail!("it is of {other:?}, expected numbers"),
                }
            };
        }
        let elements = counted!(i8, i16, i32, i64, u8, u16, u32, u64; f16, f32, f64)?;
        Ok(tvec![elements.into_tvalue()])
    }

    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![
            self.datum_type.fact(std::slice::from_ref(&self.length))
        ])
    }

    substitutes!(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_exact_for_any_size() {
        let scope = SymbolScope::default();
        let size = scope.sym("N");
        let n = size.to_dim();
        let dim = |number: i64| number.to_dim();
        for (start, limit, step) in [
            (dim(0), n.clone(), 1),
            (dim(0), n.clone(), 3),
            (dim(0), n.clone() - 5, 1),
            (dim(0), n.clone() - 5, 2),
            (dim(3), n.clone(), 2),
            (n.clone(), dim(0), -2),
            (n.clone() - 1, dim(-1), -1),
            (n.clone() - 4, dim(-1), -3),
            (n.clone(), n.clone() * 2, 2),
            (n.clone() / 2, n.clone(), 1),
        ] {
            let symbolic = count(&start, &limit, step).unwrap();
            for number in 0..12 {
                let values = SymbolValues::default().with(&size, number);
                let at = |bound: &TDim| bound.eval(&values).to_i64().unwrap();
                let expected = (at(&limit) - at(&start)) as f64 / step as f64;
                let expected = expected.ceil().max(0.0) as i64;
                assert_eq!(
                    at(&symbolic),
                    expected,
                    "{start}..{limit} by {step}, N={number}"
                );
            }
        }
    }
}
