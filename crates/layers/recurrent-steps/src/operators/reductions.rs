//! Sums and the like, and what is made of them.

use super::elementwise::float2;
use super::{Call, axes, axis};
use crate::elements::Kind;
use crate::error::Error;
use crate::function::{Float1, Float2, Function, Reduction};
use crate::plan::{Planner, Value};

fn one(planner: &mut Planner<'_>, function: Float1, value: &Value) -> Result<Value, Error> {
    planner.map(Function::Float1(function), Kind::Float, &[value])
}

fn two(
    planner: &mut Planner<'_>,
    function: Float2,
    one: &Value,
    other: &Value,
) -> Result<Value, Error> {
    planner.map(float2(function), Kind::Float, &[one, other])
}

pub(super) fn reduce(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let listed = call
        .parameter(planner, 1, "axes")?
        .filter(|all| !all.is_empty());
    let along = match listed {
        Some(all) => axes(&all, value.rank())?,
        None if call.int("noop_with_empty_axes", 0) != 0 => vec![],
        None => (0..value.rank()).collect(),
    };
    let count: usize = along.iter().map(|&it| value.view.axes[it].size).product();
    let sum =
        |planner: &mut Planner<'_>, value: &Value| planner.reduce(Reduction::Sum, value, &along);
    let made = match call.node.op() {
        "ReduceSum" => sum(planner, value)?,
        "ReduceProd" => planner.reduce(Reduction::Product, value, &along)?,
        "ReduceMax" => planner.reduce(Reduction::Max, value, &along)?,
        "ReduceMin" => planner.reduce(Reduction::Min, value, &along)?,
        "ReduceMean" => {
            let sum = sum(planner, value)?;
            let count = planner.float(count as f32);
            two(planner, Float2::Div, &sum, &count)?
        }
        "ReduceL1" => {
            let absolute = one(planner, Float1::Abs, value)?;
            sum(planner, &absolute)?
        }
        "ReduceL2" | "ReduceSumSquare" => {
            let square = two(planner, Float2::Mul, value, value)?;
            let sum = sum(planner, &square)?;
            match call.node.op() {
                "ReduceL2" => one(planner, Float1::Sqrt, &sum)?,
                _ => sum,
            }
        }
        "ReduceLogSum" => {
            let sum = sum(planner, value)?;
            one(planner, Float1::Log, &sum)?
        }
        _ => {
            // The largest is taken out, so that no power is too large.
            let most = planner.reduce(Reduction::Max, value, &along)?;
            let zero = planner.float(0.0);
            let infinite = planner.float(f32::INFINITY);
            let size = one(planner, Float1::Abs, &most)?;
            let is_finite = planner.map(
                Function::CompareFloats(crate::known::Comparison::Less),
                Kind::Bool,
                &[&size, &infinite],
            )?;
            let select = Function::Select(crate::elements::Lane::Float);
            let most = planner.map(select, Kind::Float, &[&is_finite, &most, &zero])?;
            let below = two(planner, Float2::Sub, value, &most)?;
            let powers = one(planner, Float1::Exp, &below)?;
            let sum = sum(planner, &powers)?;
            let log = one(planner, Float1::Log, &sum)?;
            two(planner, Float2::Add, &log, &most)?
        }
    };
    if call.int("keepdims", 1) != 0 {
        return Ok(vec![made]);
    }
    Ok(vec![made.with(made.view.without(&along))])
}

pub(super) fn softmax(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let rank = value.rank();
    // Before opset 13 all axes from this one on were one.
    let along: Vec<usize> = match call.opset {
        ..13 => {
            let first = call.int("axis", 1);
            (if rank == 0 { 0 } else { axis(first, rank)? }..rank).collect()
        }
        _ => vec![axis(call.int("axis", -1), rank)?],
    };
    let most = planner.reduce(Reduction::Max, value, &along)?;
    let below = two(planner, Float2::Sub, value, &most)?;
    let powers = one(planner, Float1::Exp, &below)?;
    let sum = planner.reduce(Reduction::Sum, &powers, &along)?;
    Ok(vec![match call.node.op() {
        "Softmax" => two(planner, Float2::Div, &powers, &sum)?,
        _ => {
            let log = one(planner, Float1::Log, &sum)?;
            two(planner, Float2::Sub, &below, &log)?
        }
    }])
}

pub(super) fn layer_normalization(
    planner: &mut Planner<'_>,
    call: &Call<'_>,
) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let rank = value.rank();
    let along: Vec<usize> = (axis(call.int("axis", -1), rank)?..rank).collect();
    let count: usize = along.iter().map(|&it| value.view.axes[it].size).product();
    let count = planner.float(count as f32);
    let mean = |planner: &mut Planner<'_>, value: &Value| {
        let sum = planner.reduce(Reduction::Sum, value, &along)?;
        two(planner, Float2::Div, &sum, &count)
    };
    let middle = mean(planner, value)?;
    let distance = two(planner, Float2::Sub, value, &middle)?;
    let square = two(planner, Float2::Mul, &distance, &distance)?;
    let variance = mean(planner, &square)?;
    let epsilon = planner.float(call.float("epsilon", 1e-5));
    let variance = two(planner, Float2::Add, &variance, &epsilon)?;
    let deviation = one(planner, Float1::Sqrt, &variance)?;
    let mut made = two(planner, Float2::Div, &distance, &deviation)?;
    for (index, function) in [(1, Float2::Mul), (2, Float2::Add)] {
        if let Some(operand) = call.optional(index) {
            made = two(planner, function, &made, operand)?;
        }
    }
    Ok(vec![made])
}
