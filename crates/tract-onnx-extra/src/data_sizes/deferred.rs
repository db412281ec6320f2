//! Operators whose sizes come from data.
//!
//! Their shape is known up to symbols, from the graph (`node_context.rs`) and from the data's
//! shape. At run time tract reads the operator anew, with the numbers as constants, and the plan is
//! kept for runs with the same ones; a Reshape needs none. Where all sizes are known, the node is
//! tract's, repaired by `pad.rs` and `wide_sizes.rs`, and its output is checked against the limits.
//!
//! ```text
//! Expand(x: [1, 4], [n, 1]), n from data: [size, 4]
//! ```

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, NodeProto, TensorProto};
use tract_onnx::tract_core::dyn_clone::clone_box;
use tract_onnx::tract_core::ops::change_axes::to_axis_ops_with_onnx_rules;
use tract_onnx::tract_hir::internal::*;

use super::bounds::least;
use super::node_context::{NodeContext, Number};
use super::pad::{Cropping, numbers};
use super::size_symbols::{
    SizeSymbols, axis, in_numbers, inferred, rewire, substituted, symbols_of,
};
use super::wide_sizes::WideSizes;
use super::with_fallback::{Override, with_fallback};
use super::zero_sizes::ZeroSizes;
use crate::delegate::{Delegate, Facts};
use crate::dims;
use crate::limits::{Limits, of_nodes_read};
use crate::node::{check_domain, parse_with_tract};
use crate::operators::int64::OnNumbers;
use crate::operators::scalar_value::ScalarValue;

/// The operators that tract reads only if it knows their output sizes.
pub(crate) const OPERATORS: [&str; 5] = ["ConstantOfShape", "Expand", "Pad", "Reshape", "Tile"];

/// Parses one of [`OPERATORS`]: like tract if the sizes are known, otherwise as [`DeferredOp`].
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (mut upstream, captured) = match node.op_type.as_str() {
        "ConstantOfShape" => parse_with_tract(&node.op_type, ctx, &of_floats(node))?,
        operator => parse_with_tract(operator, ctx, node)?,
    };
    let first = usize::from(node.op_type != "ConstantOfShape");
    let axes = optional_inputs(node).nth(3).flatten();
    upstream = Delegate::boxed(upstream, WideSizes { sizes: first });
    if node.op_type == "Pad" {
        if let Some(value) = optional_inputs(node).nth(2).flatten() {
            upstream = Delegate::boxed(upstream, ScalarValue { value });
        }
        upstream = Delegate::boxed(upstream, Cropping { axes });
        upstream = Delegate::boxed(upstream, OnNumbers);
    }
    let allows_zero = node.get_attr_opt("allowzero")?.unwrap_or(0_i64) != 0;
    if node.op_type == "Reshape" && !allows_zero {
        upstream = Delegate::boxed(upstream, ZeroSizes);
    }
    let sizes = node.input.get(first).filter(|name| !name.is_empty());
    // Early versions of Pad and Reshape have them as an attribute.
    let Some(sizes) = sizes else {
        return Ok((upstream, captured));
    };
    let context = NodeContext::new(ctx);
    let numbers = context.numbers(sizes, None)?.unwrap_or_default();
    let known = numbers.into_iter().map(|number| match number {
        Number::Known(number) => Some(number),
        _ => None,
    });
    let op = DeferredNode {
        operator: node.op_type.clone(),
        deciding: optional_inputs(node)
            .take(node.input.len())
            .skip(first)
            .flatten()
            .collect(),
        numbers: known.collect(),
        axes,
        allows_zero,
        sizes: SizeSymbols::new(ctx),
        limits: of_nodes_read(),
    };
    Ok((with_fallback(upstream, op), captured))
}

/// Adds the default value to a ConstantOfShape: ONNX's is a float, tract's a double.
fn of_floats(node: &NodeProto) -> NodeProto {
    let mut node = node.clone();
    if node.attribute.iter().all(|it| it.name != "value") {
        node.attribute.push(AttributeProto {
            name: "value".to_owned(),
            r#type: AttributeType::Tensor as i32,
            t: Some(TensorProto {
                dims: vec![1],
                data_type: DataType::Float as i32,
                float_data: vec![0.0],
                ..TensorProto::default()
            }),
            ..AttributeProto::default()
        });
    }
    node
}

/// The operator before it is known whether its sizes come from data.
#[derive(Clone, Debug)]
struct DeferredNode {
    operator: String,
    /// The inputs that tract has to know; the first one holds the sizes.
    deciding: TVec<usize>,
    /// The elements of that first input that the graph determines, if it determines their number.
    numbers: Vec<Option<i64>>,
    /// The input with the axes of a Pad.
    axes: Option<usize>,
    /// Whether Reshape takes a 0 literally.
    allows_zero: bool,
    sizes: SizeSymbols,
    limits: Limits,
}

impl DeferredNode {
    /// The output's rank, for `count` sizes.
    fn rank(&self, data: usize, count: usize) -> usize {
        match self.operator.as_str() {
            "ConstantOfShape" | "Reshape" => count,
            "Expand" => count.max(data),
            _ => data,
        }
    }

    /// The output's size along an axis, if the graph determines it.
    fn size(
        &self,
        axis: usize,
        data: &[TDim],
        rank: usize,
        numbers: &[Option<i64>],
    ) -> Option<TDim> {
        let number = |at: usize| numbers.get(at).copied().flatten();
        match self.operator.as_str() {
            "ConstantOfShape" => number(axis).map(|size| size.to_dim()),
            "Reshape" => match number(axis)? {
                0 if !self.allows_zero => data.get(axis).cloned(),
                size => (size >= 0).then(|| size.to_dim()),
            },
            "Expand" => {
                let leading = |count: usize| (axis + count).checked_sub(rank);
                let before = leading(data.len()).map_or(1.to_dim(), |at| data[at].clone());
                let to = match leading(numbers.len()) {
                    None if !numbers.is_empty() => Some(1),
                    at => at.and_then(number),
                };
                match (before.to_i64(), to) {
                    (_, Some(1)) => Some(before),
                    (Ok(1), to) => to.map(|size| size.to_dim()),
                    (Ok(_), _) => Some(before),
                    (Err(_), to) => to.map(|size| size.to_dim()),
                }
            }
            "Tile" => number(axis).map(|times| data[axis].clone() * times),
            "Pad" if self.axes.is_none() => match (number(axis)?, number(axis + rank)?) {
                (first @ 0.., last @ 0..) => Some(data[axis].clone() + first + last),
                _ => None,
            },
            _ => None,
        }
    }

    /// The sizes after a Reshape.
    fn reshaped(&self, data: &[usize], sizes: &[i64]) -> TractResult<TVec<usize>> {
        let is_open = |size: i64| size == -1;
        let mut shape: TVec<usize> = tvec![];
        for (axis, size) in sizes.iter().enumerate() {
            shape.push(match size {
                0 if !self.allows_zero => *data.get(axis).with_context(|| {
                    format!(
                        "it takes over axis {axis} of an input of rank {}",
                        data.len()
                    )
                })?,
                -1 => 1,
                _ => usize::try_from(*size).ok().with_context(|| {
                    format!("it has a size of {size}, expected -1 or one from 0")
                })?,
            });
        }
        let volume = |shape: &[usize]| {
            let mut sizes = shape.iter().copied();
            sizes.try_fold(1_usize, usize::checked_mul)
        };
        let (before, others) = (volume(data), volume(&shape));
        if let Some(axis) = sizes.iter().position(|size| is_open(*size)) {
            let rest = before.zip(others.filter(|others| *others > 0));
            shape[axis] = rest.map_or(0, |(before, others)| before / others);
        }
        let is_one = sizes.iter().filter(|size| is_open(**size)).count() <= 1;
        ensure!(
            is_one && volume(&shape) == before,
            "it reshapes {data:?} to {sizes:?}, which has another number of elements"
        );
        Ok(shape)
    }

    /// Checks the output's sizes before it is made, by the data's sizes and the inputs' numbers;
    /// those of a Reshape follow from its input.
    fn allow(
        &self,
        datum_type: DatumType,
        data: &[usize],
        numbers: impl Fn(usize) -> TractResult<Vec<i64>>,
    ) -> TractResult<()> {
        let sizes = numbers(self.deciding[0])?;
        let size = |size: i64| {
            let found = usize::try_from(size);
            found
                .ok()
                .with_context(|| format!("it has a size of {size}, expected one from 0"))
        };
        let mut shape: TVec<usize> = data.into();
        match self.operator.as_str() {
            "ConstantOfShape" => {
                shape = sizes.into_iter().map(size).collect::<TractResult<_>>()?;
            }
            "Expand" => {
                while shape.len() < sizes.len() {
                    shape.insert(0, 1);
                }
                let missing = shape.len() - sizes.len();
                for (before, to) in std::iter::zip(&mut shape[missing..], sizes) {
                    let to = size(to)?;
                    ensure!(
                        *before == to || *before == 1 || to == 1,
                        "it expands {data:?} to {to} where it has {before} elements"
                    );
                    *before = if *before == 1 { to } else { *before };
                }
            }
            "Tile" => {
                for (size_along, times) in std::iter::zip(&mut shape, sizes) {
                    *size_along = size_along.saturating_mul(size(times)?);
                }
            }
            "Pad" => {
                let axes = match self.axes {
                    Some(axes) => numbers(axes)?,
                    None => (0..data.len() as i64).collect(),
                };
                ensure!(
                    sizes.len() == 2 * axes.len(),
                    "it has {} pads along {} axes",
                    sizes.len(),
                    axes.len()
                );
                for (at, of_axis) in axes.iter().enumerate() {
                    let axis = axis(*of_axis, data.len())?;
                    let pads = [sizes[at], sizes[at + axes.len()]];
                    let added = pads
                        .into_iter()
                        .map(|pad| usize::try_from(pad).unwrap_or(0));
                    shape[axis] = added.fold(shape[axis], usize::saturating_add);
                }
            }
            _ => return Ok(()),
        }
        self.limits.allow(datum_type, &shape)
    }

    /// The data's sizes, if all are known; a ConstantOfShape has no data.
    fn data(
        &self,
        shape: impl Fn(usize) -> TractResult<Option<TVec<usize>>>,
    ) -> TractResult<Option<TVec<usize>>> {
        match self.deciding[0] {
            0 => Ok(Some(tvec![])),
            _ => shape(0),
        }
    }

    /// The facts that tract finds. Its Reshape refuses expressions that may well be equal.
    fn found(
        &self,
        upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let found = upstream.infer_facts(inputs.clone(), outputs.clone(), tvec![]);
        let output = InferenceFact {
            datum_type: inputs[0].datum_type,
            ..InferenceFact::default()
        };
        let unknown: TVec<InferenceFact> = inputs.iter().map(|fact| (*fact).clone()).collect();
        let unknown = (unknown, tvec![output], tvec![]);
        match found {
            Err(_)
                if self.operator == "Reshape" && self.fact(&unknown.0, &unknown.1[0]).is_some() =>
            {
                Ok(unknown)
            }
            found => found,
        }
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
        // tract's Pad takes no symbols, and its Reshape divides by sizes and compares expressions.
        let is_ours = match (self.operator.as_str(), &value) {
            ("Pad", Some(pads)) => pads.iter().any(|pad| pad.to_i64().is_err()),
            ("Reshape", Some(to)) => {
                let data = inputs[0].shape.concretize()?;
                let is_known = data.iter().chain(to).all(|size| size.to_i64().is_ok());
                data.contains(&0.to_dim())
                    || !is_known
                        && to_axis_ops_with_onnx_rules(&data, to, self.allows_zero).is_err()
            }
            _ => false,
        };
        if deciding.all(|fact| fact.value.is_concrete()) && !is_ours {
            return None;
        }
        let numbers: Vec<Option<i64>> = match &value {
            Some(value) => value.iter().map(|it| it.to_i64().ok()).collect(),
            None => self.numbers.clone(),
        };
        let data = match self.deciding[0] {
            0 => tvec![],
            _ => inputs[0].shape.concretize()?,
        };
        let counts = inputs[self.deciding[0]].shape.concretize()?;
        let count = counts.iter().product::<TDim>().to_usize().ok()?;
        let datum_type = output.datum_type.concretize()?;
        let known: Vec<Option<TDim>> = output.shape.dims().map(|it| it.concretize()).collect();
        let rank = self.rank(data.len(), count);
        let sizes = (0..rank).map(|axis| {
            let known = known.get(axis).cloned().flatten();
            let known = known.or_else(|| self.size(axis, &data, rank, &numbers));
            let to = || {
                let to = value.as_ref().filter(|_| self.operator == "Reshape")?;
                Some(to[axis].clone()).filter(|to| least(to).is_some_and(|it| it >= 0))
            };
            let known = known.or_else(to);
            known.unwrap_or_else(|| self.sizes.of(axis))
        });
        Some((datum_type, sizes.collect()))
    }
}

impl Override for DeferredNode {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        let found = self.found(upstream, inputs, outputs)?;
        let fact = self.fact(&found.0, &found.1[0]);
        Ok(fact.map(|(datum_type, shape)| {
            inferred(&found.0.iter().collect(), outputs, datum_type, shape)
        }))
    }

    fn check(
        &self,
        upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<()> {
        let found = self.found(upstream, inputs, outputs)?;
        let fact = self.fact(&found.0, &found.1[0]);
        if let (None, Some(datum_type)) = (&fact, found.1[0].datum_type.concretize())
            && let Some(data) = self.data(|input| inputs[input].shape.as_concrete_finite())?
        {
            let numbers = |input: usize| -> TractResult<Vec<i64>> {
                let value = inputs[input].value.concretize();
                numbers(&*value.context("an input is unknown")?)
            };
            // Those with symbols are none.
            if numbers(self.deciding[0]).is_ok() {
                self.allow(datum_type, &data, numbers)?;
            }
        }
        Ok(())
    }

    fn wire(
        &self,
        upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let facts: Vec<InferenceFact> = inputs
            .iter()
            .map(|input| Ok(InferenceFact::from(target.outlet_fact(*input)?)))
            .collect::<TractResult<_>>()?;
        let output = InferenceFact::default();
        let known = facts.iter().collect();
        let inferred = self.found(&mut *clone_box(upstream), &known, &tvec![&output])?;
        let Some((datum_type, shape)) = self.fact(&facts, &inferred.1[0]) else {
            return Ok(None);
        };
        let op = DeferredOp {
            upstream: clone_box(upstream),
            op: self.clone(),
            fact: datum_type.fact(shape),
        };
        let name = target.unique_name(name).into_owned();
        target.wire_node(name, op, inputs).map(Some)
    }
}

/// An operator that tract prepares at run time, once its inputs are known.
#[derive(Clone, Debug)]
struct DeferredOp {
    upstream: Box<dyn InferenceOp>,
    op: DeferredNode,
    /// The output; sizes from data are symbols of their own.
    fact: TypedFact,
}

never_equal!(DeferredOp);

impl Op for DeferredOp {
    fn name(&self) -> StaticName {
        self.upstream.name()
    }

    fn mints_runtime_symbols(&self) -> bool {
        self.fact.shape.iter().any(|size| self.op.sizes.has(size))
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        inputs.iter().flat_map(|fact| symbols_of(fact)).collect()
    }

    op_as_typed_op!();
}

impl EvalOp for DeferredOp {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::new(PlannedOp {
            op: self.clone(),
            last: None,
        })))
    }
}

impl TypedOp for DeferredOp {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![self.fact.clone()])
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let shape = substituted(self.fact.shape.iter(), subs)?;
        let op = Self {
            fact: self.fact.datum_type.fact(shape),
            ..self.clone()
        };
        rewire(op, node, target, mapping)
    }

    as_op!();
}

/// The operator and its latest plan, with the inputs that it is for.
#[derive(Clone, Debug)]
struct PlannedOp {
    op: DeferredOp,
    last: Option<(Vec<Known>, Arc<TypedSimplePlan>)>,
}

/// A property of an input that the plan depends on.
#[derive(Clone, Debug)]
enum Known {
    Shape(TVec<usize>),
    Value(TValue),
}

impl PartialEq for Known {
    /// Compares values to the bit, as a plan for 0 is none for -0.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shape(one), Self::Shape(other)) => one == other,
            (Self::Value(one), Self::Value(other)) => {
                let is_plain = one.is_plain_ram() && one.datum_type().is_copy();
                one == other && (!is_plain || one.as_bytes() == other.as_bytes())
            }
            _ => false,
        }
    }
}

impl PlannedOp {
    fn plan(&mut self, inputs: &[TValue]) -> TractResult<Arc<TypedSimplePlan>> {
        let deciding = &self.op.op.deciding;
        let is_deciding = |input: &usize| deciding.contains(input);
        let known = inputs.iter().enumerate().map(|(input, value)| {
            if is_deciding(&input) {
                Known::Value(value.clone())
            } else {
                Known::Shape(value.shape().into())
            }
        });
        let known: Vec<Known> = known.collect();
        if let Some((last, plan)) = &self.last
            && *last == known
        {
            return Ok(Arc::clone(plan));
        }
        let op = &self.op.op;
        let data = op.data(|input| Ok(Some(inputs[input].shape().into())))?;
        op.allow(
            self.op.fact.datum_type,
            &data.unwrap_or_default(),
            |input| numbers(&inputs[input]),
        )?;
        let mut model = InferenceModel::default();
        let mut outlets: TVec<OutletId> = tvec![];
        for (input, value) in inputs.iter().enumerate() {
            let name = format!("input{input}");
            outlets.push(if is_deciding(&input) {
                model.add_const(name, value.clone().into_arc_tensor())?
            } else {
                let fact = InferenceFact::dt_shape(value.datum_type(), value.shape());
                model.add_source(name, fact)?
            });
        }
        let outputs = model.wire_node("output", self.op.upstream.clone(), &outlets)?;
        model.select_output_outlets(&outputs)?;
        let plan = model.into_typed()?.into_decluttered()?.into_runnable()?;
        self.last = Some((known, Arc::clone(&plan)));
        Ok(plan)
    }
}

impl OpState for PlannedOp {
    fn eval(
        &mut self,
        ctx: &EvalContext<'_>,
        _op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let inputs = inputs.into_iter().map(|it| in_numbers(it, ctx.symbols));
        let inputs: TVec<TValue> = inputs.collect::<TractResult<_>>()?;
        if self.op.op.operator == "Reshape" {
            let [data, sizes] = &*inputs else {
                bail!("it has {} inputs, expected 2", inputs.len());
            };
            let shape = self.op.op.reshaped(data.shape(), &numbers(sizes)?)?;
            let data = data.clone().into_tensor().into_shape(&shape)?;
            return Ok(tvec![data.into_tvalue()]);
        }
        let plan = self.plan(&inputs)?;
        let is_data = |(input, _): &(usize, TValue)| !self.op.op.deciding.contains(input);
        let data = inputs.into_iter().enumerate().filter(is_data);
        let outputs = plan.run(data.map(|(_, value)| value).collect())?;
        let datum_type = self.op.fact.datum_type;
        let outputs = outputs.into_iter().map(|output| {
            if output.datum_type() == datum_type {
                return Ok(output);
            }
            Ok(output.cast_to_dt(datum_type)?.into_owned().into_tvalue())
        });
        outputs.collect()
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}
