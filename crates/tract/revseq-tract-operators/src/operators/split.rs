//! Split. tract's takes sizes that do not add up to the axis.

use std::fmt;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_hir::internal::tract_itertools::Itertools;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::axis;
use crate::dims::sizes;
use crate::operator::{Operator, Parsed, Wired, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// The first version for which the last of equal parts may be smaller.
const UNEVEN: i64 = 18;

/// Parses a Split.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let outputs = node.output.len();
    let version = ctx.onnx_operator_set_version;
    let listed: Option<Vec<i64>> = node.get_attr_opt_vec("split")?;
    let parts = match listed {
        Some(sizes) => PartSizes::Given(sizes.into_iter().map(TDim::from).collect()),
        None if node.input.get(1).is_some_and(|name| !name.is_empty()) => PartSizes::Input,
        None => PartSizes::Equal {
            are_even: version < UNEVEN,
        },
    };
    let count: Option<i64> = node.get_attr_opt("num_outputs")?;
    ensure!(
        count.is_none_or(|count| usize::try_from(count) == Ok(outputs)),
        "its num_outputs is {}, expected {outputs}, the number of its outputs",
        count.unwrap_or_default()
    );
    let op = Split {
        axis: node.get_attr_opt("axis")?.unwrap_or(0),
        outputs,
        parts,
    };
    let inputs = 1 + usize::from(matches!(op.parts, PartSizes::Input));
    own(node, [inputs, outputs], op)
}

#[derive(Clone, Debug)]
enum PartSizes {
    Given(TVec<TDim>),
    /// The sizes are the second input.
    Input,
    Equal {
        are_even: bool,
    },
}

#[derive(Clone, Debug)]
struct Split {
    axis: i64,
    outputs: usize,
    parts: PartSizes,
}

/// The sizes of parts, and the requirement that is checked when the model runs.
type Sizes = (TVec<TDim>, Option<Expected>);

/// Requirement for the size of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Expected {
    /// The sum of these.
    Sum(TVec<TDim>),
    Multiple(usize),
    /// A size that is enough for so many equal parts, of which the last may be smaller.
    EqualParts(usize),
}

impl fmt::Display for Expected {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sum(parts) => {
                write!(to, "the sum of its sizes [{}]", parts.iter().join(","))
            }
            Self::Multiple(parts) => write!(to, "a multiple of {parts}, the number of its outputs"),
            Self::EqualParts(parts) => {
                write!(to, "enough elements for {parts} parts of equal sizes")
            }
        }
    }
}

impl Expected {
    /// Whether it is a size's, if that is known.
    fn is_met(&self, size: &TDim) -> Option<bool> {
        let known = || size.to_i64().ok();
        match self {
            Self::Sum(parts) => {
                let sum: TDim = parts.iter().sum();
                match (size.to_i64(), sum.to_i64()) {
                    (Ok(size), Ok(sum)) => Some(size == sum),
                    _ => (*size == sum).then_some(true),
                }
            }
            Self::Multiple(parts) => known().map(|size| size % *parts as i64 == 0),
            Self::EqualParts(parts) => known().map(|size| {
                let parts = *parts as i64;
                let part = (size + parts - 1) / parts;
                part * (parts - 1) <= size
            }),
        }
    }

    fn wrong(&self, size: &TDim) -> TractError {
        format_err!("its axis has {size} elements, expected {self}")
    }
}

impl Split {
    /// The parts of an axis, checked; `given` is the value of the second input.
    fn sizes(&self, axis: &TDim, listed: Option<&Tensor>) -> TractResult<Option<Sizes>> {
        let outputs = self.outputs;
        let (parts, expected) = match (&self.parts, listed) {
            (PartSizes::Given(parts), _) => (parts.clone(), Expected::Sum(parts.clone())),
            (PartSizes::Input, None) => return Ok(None),
            (PartSizes::Input, Some(listed)) => {
                let parts: TVec<TDim> = sizes(listed)?.into();
                (parts.clone(), Expected::Sum(parts))
            }
            (PartSizes::Equal { are_even: true }, _) => {
                let part = axis.clone() / outputs;
                (tvec![part; outputs], Expected::Multiple(outputs))
            }
            (PartSizes::Equal { are_even: false }, _) => {
                let part = axis.clone().divceil(outputs);
                let mut parts = tvec![part.clone(); outputs - 1];
                parts.push(axis.clone() - part * (outputs - 1));
                (parts, Expected::EqualParts(outputs))
            }
        };
        ensure!(
            parts.len() == outputs,
            "it has {} sizes, expected {outputs}, one for each of its outputs",
            parts.len()
        );
        let met = expected.is_met(axis);
        if met == Some(false) {
            return Err(expected.wrong(axis));
        }
        if let Some(wrong) = parts.iter().find(|it| it.to_i64().is_ok_and(|it| it < 0)) {
            bail!("one of its sizes is {wrong}, expected 0 or more");
        }
        Ok(Some((parts, met.is_none().then_some(expected))))
    }
}

impl Operator for Split {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let fact = node.input(0)?;
        let axis = axis(self.axis, fact.rank())?;
        let listed = node
            .input(1)
            .ok()
            .and_then(|listed| listed.konst.as_deref());
        let sizes = self.sizes(&fact.shape[axis], listed)?;
        let sizes = sizes.context("its sizes are not known when the model is loaded")?;
        let (parts, open) = sizes;
        let mut input = node.inputs[0];
        if let Some(expected) = open {
            input = node.op("checked", Typed(CheckedAxis { axis, expected }), &[input])?;
        }
        let mut outputs = tvec![];
        let mut start = 0.to_dim();
        for (index, part) in parts.into_iter().enumerate() {
            let end = start.clone() + part;
            let op = Slice::new(axis, start, end.clone());
            outputs.push(node.op(&format!("part{index}"), op, &[input])?);
            start = end;
        }
        Ok(Some(outputs))
    }
}

/// Passes its input on if an axis is as expected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CheckedAxis {
    axis: usize,
    expected: Expected,
}

impl Stateless for CheckedAxis {
    const NAME: &str = "CheckedAxis";

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let size = inputs[0].shape()[self.axis].to_dim();
        let expected = match &self.expected {
            Expected::Sum(parts) => {
                Expected::Sum(parts.iter().map(|it| it.eval(ctx.symbols)).collect())
            }
            other => other.clone(),
        };
        if expected.is_met(&size) == Some(false) {
            return Err(expected.wrong(&size));
        }
        Ok(inputs)
    }
}
