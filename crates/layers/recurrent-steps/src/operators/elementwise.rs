//! Functions of elements.

use recurrent_layers::Activation;

use super::Call;
use crate::elements::{Kind, Lane};
use crate::error::{Error, values};
use crate::function::{Float1, Float2, Function, Int1};
use crate::known::{Comparison, Fold, Scalar, not as opposite};
use crate::plan::{Planner, Value, broadcast};

/// A result of known numbers, if it is known.
fn folded(
    kind: Kind,
    inputs: &[&Value],
    function: impl Fn(&[Scalar]) -> Option<Scalar>,
) -> Result<Option<Value>, Error> {
    let sizes: Vec<Vec<usize>> = inputs.iter().map(|value| value.sizes()).collect();
    let sizes = broadcast(sizes.iter().map(|sizes| &**sizes))?;
    let mut all = vec![];
    for input in inputs {
        let wide = input.with(input.view.broadcast(&sizes));
        let Some(scalars) = wide.scalars() else {
            return Ok(None);
        };
        all.push(scalars);
    }
    let count = all.first().map_or(0, Vec::len);
    let of = |index: usize| {
        let operands: Vec<Scalar> = all.iter().map(|scalars| scalars[index]).collect();
        function(&operands)
    };
    let scalars: Option<Vec<Scalar>> = (0..count).map(of).collect();
    Ok(scalars.map(|scalars| Value::known(kind, &sizes, scalars)))
}

pub(super) fn unary(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let function = match (call.node.op(), value.kind.is_int()) {
        ("Abs", true) => Function::Int1(Int1::Abs),
        ("Neg", true) => Function::Int1(Int1::Neg),
        ("Sign", true) => Function::Int1(Int1::Sign),
        ("Abs", _) => Function::Float1(Float1::Abs),
        ("Neg", _) => Function::Float1(Float1::Neg),
        ("Sign", _) => Function::Float1(Float1::Sign),
        ("Ceil", _) => Function::Float1(Float1::Ceil),
        ("Cos", _) => Function::Float1(Float1::Cos),
        ("Erf", _) => Function::Float1(Float1::Erf),
        ("Exp", _) => Function::Float1(Float1::Exp),
        ("Floor", _) => Function::Float1(Float1::Floor),
        ("IsNaN", _) => Function::Float1(Float1::IsNan),
        ("Log", _) => Function::Float1(Float1::Log),
        ("Reciprocal", _) => Function::Float1(Float1::Reciprocal),
        ("Round", _) => Function::Float1(Float1::Round),
        ("Sin", _) => Function::Float1(Float1::Sin),
        ("Sqrt", _) => Function::Float1(Float1::Sqrt),
        _ => return values("it is no function of one number"),
    };
    let kind = match function {
        Function::Float1(Float1::IsNan) => Kind::Bool,
        _ => value.kind,
    };
    Ok(vec![planner.map(function, kind, &[value])?])
}

pub(super) fn activation(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let alpha = |default: f32| call.float("alpha", default);
    let function = match call.node.op() {
        "Celu" => {
            // alpha Elu(x / alpha)
            let alpha = planner.float(alpha(1.0));
            let part = planner.map(float2(Float2::Div), Kind::Float, &[call.input(0)?, &alpha])?;
            let elu = Function::Float1(Float1::Activation(Activation::Elu { alpha: 1.0 }));
            let made = planner.map(elu, Kind::Float, &[&part])?;
            return Ok(vec![planner.map(
                float2(Float2::Mul),
                Kind::Float,
                &[&made, &alpha],
            )?]);
        }
        "Elu" => Activation::Elu { alpha: alpha(1.0) },
        "HardSigmoid" => Activation::HardSigmoid {
            alpha: alpha(0.2),
            beta: call.float("beta", 0.5),
        },
        "LeakyRelu" => Activation::LeakyRelu { alpha: alpha(0.01) },
        "Relu" => Activation::Relu,
        "Sigmoid" => Activation::Sigmoid,
        "Softplus" => Activation::Softplus,
        "Softsign" => Activation::Softsign,
        "Tanh" => Activation::Tanh,
        "ThresholdedRelu" => {
            // Greater than alpha, where that of layers is not smaller.
            let (value, alpha) = (call.input(0)?, planner.float(alpha(1.0)));
            let greater = Function::CompareFloats(Comparison::Greater);
            let is_kept = planner.map(greater, Kind::Bool, &[value, &alpha])?;
            let zero = planner.float(0.0);
            let select = Function::Select(Lane::Float);
            return Ok(vec![planner.map(
                select,
                Kind::Float,
                &[&is_kept, value, &zero],
            )?]);
        }
        _ => return values("it is no activation"),
    };
    let function = Function::Float1(Float1::Activation(function));
    Ok(vec![planner.map(
        function,
        Kind::Float,
        &[call.input(0)?],
    )?])
}

pub(super) fn float2(function: Float2) -> Function {
    Function::Float2(function)
}

/// The functions of numbers, of whole numbers and of floats, by the name of the operator.
fn functions(call: &Call<'_>) -> Option<(Fold, Function)> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let compare = |comparison| {
        (
            Fold::Compare(comparison),
            Function::CompareFloats(comparison),
        )
    };
    Some(match call.node.op() {
        "Add" => (Fold::Add, float2(Float2::Add)),
        "Sub" => (Fold::Sub, float2(Float2::Sub)),
        "Mul" => (Fold::Mul, float2(Float2::Mul)),
        "Div" => (Fold::Div, float2(Float2::Div)),
        "Mod" => {
            let of_dividend = call.int("fmod", 0) != 0;
            (Fold::Mod { of_dividend }, float2(Float2::Rest))
        }
        "Max" => (Fold::Max, float2(Float2::Max)),
        "Min" => (Fold::Min, float2(Float2::Min)),
        "Sum" => (Fold::Add, float2(Float2::Add)),
        "And" => (Fold::And, float2(Float2::Min)),
        "Or" => (Fold::Or, float2(Float2::Max)),
        "Xor" => (Fold::Xor, Function::CompareFloats(Comparison::NotEqual)),
        "Equal" => compare(Equal),
        "Less" => compare(Less),
        "LessOrEqual" => compare(LessOrEqual),
        "Greater" => compare(Greater),
        "GreaterOrEqual" => compare(GreaterOrEqual),
        _ => return None,
    })
}

/// A function of two values.
fn two(
    planner: &mut Planner<'_>,
    call: &Call<'_>,
    one: &Value,
    other: &Value,
) -> Result<Value, Error> {
    let Some((fold, function)) = functions(call) else {
        return values("it is no function of two numbers");
    };
    if one.kind != other.kind {
        return values(format!("operands of {:?} and {:?}", one.kind, other.kind));
    }
    let kind = match fold {
        Fold::Compare(_) => Kind::Bool,
        _ => one.kind,
    };
    let fold_one = |operands: &[Scalar]| fold.apply(one.kind, operands[0], operands[1]);
    if let Some(value) = folded(kind, &[one, other], fold_one)? {
        return Ok(value);
    }
    let function = match (one.kind.is_int(), fold) {
        (true, Fold::Compare(comparison)) => Function::CompareInts(comparison),
        (true, _) => Function::Int2(fold),
        (false, _) => function,
    };
    planner.map(function, kind, &[one, other])
}

pub(super) fn binary(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    Ok(vec![two(planner, call, call.input(0)?, call.input(1)?)?])
}

pub(super) fn variadic(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let mut made = call.input(0)?.clone();
    for index in 1..call.inputs.len() {
        made = two(planner, call, &made, call.input(index)?)?;
    }
    Ok(vec![made])
}

pub(super) fn not(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    if let Some(made) = folded(Kind::Bool, &[value], |all| Some(opposite(all[0])))? {
        return Ok(vec![made]);
    }
    Ok(vec![planner.map(
        Function::Float1(Float1::Not),
        Kind::Bool,
        &[value],
    )?])
}

pub(super) fn pow(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let times = |planner: &mut Planner<'_>, one: &Value, other: &Value| {
        planner.map(float2(Float2::Mul), Kind::Float, &[one, other])
    };
    // As ONNX Runtime: squares and cubes are products.
    let made = match planner.constant_float(exponent) {
        Some(2.0) => times(planner, base, base)?,
        Some(3.0) => {
            let square = times(planner, base, base)?;
            times(planner, &square, base)?
        }
        _ => planner.map(float2(Float2::Pow), Kind::Float, &[base, exponent])?,
    };
    let sizes = [base.sizes(), exponent.sizes()];
    let sizes = broadcast(sizes.iter().map(|sizes| &**sizes))?;
    Ok(vec![made.with(made.view.broadcast(&sizes))])
}

pub(super) fn clip(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let mut made = call.input(0)?.clone();
    let is_int = made.kind.is_int();
    for (index, name) in [(1, "min"), (2, "max")] {
        let bound = match (call.optional(index), call.node.float(name).value()) {
            (Some(value), _) => value.clone(),
            (None, Some(number)) => planner.float(number),
            (None, None) if is_int => continue,
            // As ONNX says, which leaves no infinity.
            (None, None) if index == 1 => planner.float(f32::MIN),
            (None, None) => planner.float(f32::MAX),
        };
        // Elements that are NaN stay so.
        let (int, float) = match index {
            1 => (Fold::Max, Float2::Max),
            _ => (Fold::Min, Float2::Min),
        };
        let function = if is_int {
            Function::Int2(int)
        } else {
            float2(float)
        };
        made = planner.map(function, made.kind, &[&made, &bound])?;
    }
    Ok(vec![made])
}

pub(super) fn cast(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let to = Kind::of(call.int("to", 0) as i32);
    let Some(to) = to else {
        return values("it makes elements of a type that no program has");
    };
    Ok(vec![convert(planner, value, to)?])
}

pub(super) fn cast_like(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    Ok(vec![convert(planner, call.input(0)?, call.input(1)?.kind)?])
}

pub(super) fn hard_swish(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let value = call.input(0)?;
    let open = Function::Float1(Float1::Activation(Activation::HardSigmoid {
        alpha: 1.0 / 6.0,
        beta: 0.5,
    }));
    let open = planner.map(open, Kind::Float, &[value])?;
    Ok(vec![planner.map(
        float2(Float2::Mul),
        Kind::Float,
        &[value, &open],
    )?])
}

/// The same numbers in another type.
pub(super) fn convert(planner: &mut Planner<'_>, value: &Value, to: Kind) -> Result<Value, Error> {
    let from = value.kind;
    if from == to {
        return Ok(value.clone());
    }
    if to != Kind::Float && value.scalars().is_some() {
        let convert = |all: &[Scalar]| match to {
            Kind::Bool => Some(match all[0].constant() {
                Some(number) => (number != 0).into(),
                None => return None,
            }),
            Kind::Int32 => {
                let number = all[0].constant();
                match number {
                    Some(number) => Some(i64::from(number as i32).into()),
                    None => all[0].line().map(Into::into),
                }
            }
            // A truth value that follows the step's number is no number that does.
            _ => match all[0].constant() {
                Some(number) => Some(number.into()),
                None => all[0].line().map(Into::into),
            },
        };
        if let Some(made) = folded(to, &[value], convert)? {
            return Ok(made);
        }
    }
    let function = match (from.lane(), to) {
        (Lane::Int, Kind::Int32) => Function::Int1(Int1::Wrap),
        (Lane::Int, Kind::Int64) => Function::Move(Lane::Int),
        (Lane::Int, Kind::Float) => Function::FloatOfInt,
        (Lane::Int, Kind::Bool) => Function::TruthOfInt,
        (Lane::Float, Kind::Float) => Function::Move(Lane::Float),
        (Lane::Float, Kind::Bool) => Function::TruthOfFloat,
        (Lane::Float, Kind::Int64 | Kind::Int32) => Function::IntOfFloat,
    };
    let made = planner.map(function, to, &[value])?;
    match (function, to) {
        (Function::IntOfFloat, Kind::Int32) => {
            planner.map(Function::Int1(Int1::Wrap), to, &[&made])
        }
        _ => Ok(made),
    }
}

pub(super) fn choose(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let (condition, one, other) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if one.kind != other.kind || condition.kind != Kind::Bool {
        return values("operands of several types");
    }
    let choose = |all: &[Scalar]| match all[0].constant()? {
        0 => Some(all[2]),
        _ => Some(all[1]),
    };
    if one.kind != Kind::Float
        && let Some(made) = folded(one.kind, &[condition, one, other], choose)?
    {
        return Ok(vec![made]);
    }
    // A condition that is the same in all steps may leave one of both.
    if let Some(truths) = planner.known_integers(condition)
        && let [truth] = *truths
    {
        let sizes = [condition.sizes(), one.sizes(), other.sizes()];
        let sizes = broadcast(sizes.iter().map(|sizes| &**sizes))?;
        let chosen = if truth == 0 { other } else { one };
        return Ok(vec![chosen.with(chosen.view.broadcast(&sizes))]);
    }
    let function = Function::Select(one.kind.lane());
    Ok(vec![planner.map(
        function,
        one.kind,
        &[condition, one, other],
    )?])
}
