//! Runs of programs on tensors.

use recurrent_steps::{Elements, ElementsMut, Error, Kind, Outputs};
use tract_onnx::tract_hir::internal::*;

use super::op::Program;
use crate::data_sizes::in_numbers;
use crate::limits::{BeyondLimits, Limits};
use crate::loops::budget::Budget;
use crate::other_sizes::OtherSizes;
use crate::recurrent::Executor;
use crate::run;

impl Program {
    /// Runs the loop, and returns the outputs that are made.
    pub(super) fn run(
        &self,
        ctx: &EvalContext<'_>,
        mut inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        if let Some(outputs) = self.run_program(ctx.symbols, &inputs)? {
            return Ok(outputs);
        }
        inputs.truncate(self.other.inputs.len());
        self.other.run(ctx, inputs)
    }

    /// Runs the program; `None` if there is none for these inputs, or if they are wrong, which the other loop
    /// says in its words.
    fn run_program(
        &self,
        symbols: &SymbolValues,
        inputs: &[TValue],
    ) -> TractResult<Option<TVec<TValue>>> {
        let kinds = self.steps.inputs().map(|(_, kind)| kind);
        let reads = std::iter::zip(&self.reads, kinds);
        let values = reads.map(|(place, kind)| {
            let input = in_numbers(inputs[*place].clone(), symbols)?;
            let datum_type = datum_type(kind);
            Ok(match input.datum_type() == datum_type {
                true => input,
                false => input.cast_to_dt(datum_type)?.into_owned().into_tvalue(),
            })
        });
        let values = values.collect::<TractResult<TVec<TValue>>>()?;
        let tensors = values.iter().map(elements);
        let tensors = tensors.collect::<TractResult<Vec<_>>>()?;
        let mut made: TVec<Tensor> = self.outputs.iter().map(|_| Tensor::default()).collect();
        let places = self.outputs.iter().map(|(index, _)| *index);
        let mut room = Room {
            places: std::iter::zip(places, made.iter_mut().map(Some)).collect(),
            limits: self.limits,
            failure: None,
        };
        let mut budget = Budget::of(self.limits);
        let left = budget.left();
        let limits = recurrent_steps::Limits {
            steps: left.steps,
            bytes: left.bytes,
            // The first step may be unlike all others; where each is, the other loop is faster.
            programs: Some(2),
        };
        let threads = Executor::current();
        let result = self.steps.run_within(limits, &tensors, &mut room, &threads);
        if let Some(failure) = room.failure {
            return Err(failure);
        }
        match result {
            Ok(steps) => budget.take_steps(steps)?,
            Err(error) => {
                let failed = failed(&error, self.limits)?;
                return match failed {
                    Some(error) => Err(error).with_context(|| format!("Loop {:?}", self.node)),
                    None => Ok(None),
                };
            }
        }
        let outputs = std::iter::zip(made, &self.outputs).map(|(value, (_, fact))| {
            OtherSizes::check(value.shape(), &fact.shape, symbols)?;
            Ok(match value.datum_type() == fact.datum_type {
                true => value.into_tvalue(),
                false => value
                    .cast_to_dt(fact.datum_type)?
                    .into_owned()
                    .into_tvalue(),
            })
        });
        outputs.collect::<TractResult<_>>().map(Some)
    }
}

/// The error of a run in the words of loops; `None` if it is of the program or of its inputs. Of its limits, a run
/// had what the loops around it left.
fn failed(error: &Error, limits: Limits) -> TractResult<Option<TractError>> {
    let all = |left: u64, all: Option<u64>| all.unwrap_or(left);
    Ok(Some(match *error {
        Error::Stopped => {
            run::check()?;
            format_err!("{error}")
        }
        Error::Steps { limit } => BeyondLimits::error(format!(
            "it does not end within {} steps, which are all that are allowed",
            all(limit, limits.steps)
        )),
        Error::Bytes { bytes, limit } => {
            let most = all(limit, limits.bytes);
            BeyondLimits::error(format!(
                "its values take {} bytes, more than the {most} that are allowed",
                bytes.saturating_add(most - limit)
            ))
        }
        Error::OutOfMemory { .. } => BeyondLimits::error(error.to_string()),
        _ => return Ok(None),
    }))
}

/// tract's type of what a program takes or makes.
fn datum_type(kind: Kind) -> DatumType {
    match kind {
        Kind::Float => DatumType::F32,
        Kind::Int64 => DatumType::I64,
        Kind::Int32 => DatumType::I32,
        Kind::Bool => DatumType::Bool,
    }
}

/// The elements of an input.
fn elements(value: &TValue) -> TractResult<recurrent_steps::Tensor<'_>> {
    Ok(recurrent_steps::Tensor {
        sizes: value.shape(),
        elements: match value.datum_type() {
            DatumType::F32 => Elements::Float(slice(value)?),
            DatumType::I64 => Elements::Int64(slice(value)?),
            DatumType::I32 => Elements::Int32(slice(value)?),
            DatumType::Bool => Elements::Bool(slice(value)?),
            other => bail!("a program reads {other:?}"),
        },
    })
}

fn slice<T: Datum>(value: &TValue) -> TractResult<&[T]> {
    let view = value.to_plain_array_view::<T>()?;
    view.to_slice().context("elements lie in their order")
}

/// The memory of outputs.
struct Room<'a> {
    /// The index of each output, and its tensor until the run has it.
    places: Vec<(usize, Option<&'a mut Tensor>)>,
    limits: Limits,
    /// Why there is no room.
    failure: Option<TractError>,
}

impl<'a> Outputs<'a> for Room<'a> {
    fn room(
        &mut self,
        index: usize,
        kind: Kind,
        sizes: &[usize],
    ) -> Result<ElementsMut<'a>, String> {
        self.make(index, kind, sizes).map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            text
        })
    }
}

impl<'a> Room<'a> {
    fn make(&mut self, index: usize, kind: Kind, sizes: &[usize]) -> TractResult<ElementsMut<'a>> {
        let mut places = self.places.iter_mut();
        let place = places.find(|(place, _)| *place == index);
        let place = place.and_then(|(_, tensor)| tensor.take());
        let place = place.context("an output is made once")?;
        let datum_type = datum_type(kind);
        self.limits.allow(datum_type, sizes)?;
        *place = Tensor::zero_dt(datum_type, sizes)?;
        Ok(match kind {
            Kind::Float => ElementsMut::Float(slice_mut(place)?),
            Kind::Int64 => ElementsMut::Int64(slice_mut(place)?),
            Kind::Int32 => ElementsMut::Int32(slice_mut(place)?),
            Kind::Bool => ElementsMut::Bool(slice_mut(place)?),
        })
    }
}

fn slice_mut<T: Datum>(tensor: &mut Tensor) -> TractResult<&mut [T]> {
    let view = tensor.to_plain_array_view_mut::<T>()?;
    view.into_slice().context("elements lie in their order")
}
