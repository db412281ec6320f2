//! Shape and Size of values that nothing else reads.
//!
//! tract makes a constant of each, with symbols for sizes that are not known. The value itself is
//! then dropped if nothing else reads it, and with it whatever would find out what its symbols
//! stand for.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::from_data::{FromData, OrTracts, captures};
use crate::node::{Facts, check_domain, tracts};

/// Parses a Shape or a Size.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (tracts, captured) = tracts(&node.op_type, ctx, node)?;
    if !is_read_alone(ctx, node) {
        return Ok((tracts, captured));
    }
    let op = OnnxShape {
        measure: match node.op_type.as_str() {
            "Size" => Measure::Size,
            _ => Measure::Shape {
                start: node.get_attr_opt("start")?.unwrap_or(0_i64),
                end: node.get_attr_opt("end")?.unwrap_or(i64::MAX),
            },
        },
        // At this point, only the inputs of the model have any.
        declared: ctx.template.symbols.all_symbols(),
    };
    Ok((Box::new(OrTracts { tracts, op }), captured))
}

/// Whether a node reads a value of this graph that only nodes like it read.
fn is_read_alone(ctx: &ParsingContext<'_>, node: &NodeProto) -> bool {
    let (Some(graph), Some(value)) = (ctx.parent_graphs.last(), node.input.first()) else {
        return false;
    };
    let mut nodes = graph.node.iter();
    let is_made = nodes.clone().any(|node| node.output.contains(value));
    let is_output = graph.output.iter().any(|output| output.name == *value);
    is_made
        && !is_output
        && nodes.all(|node| {
            let is_reader = node.input.contains(value);
            let measures = matches!(node.op_type.as_str(), "Shape" | "Size");
            (!is_reader || measures) && !captures(node, value)
        })
}

/// A node before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxShape {
    measure: Measure,
    /// The symbols that are known before anything runs.
    declared: Vec<Symbol>,
}

impl OnnxShape {
    fn is_known(&self, size: &TDim) -> bool {
        let symbols = size.symbols();
        symbols.iter().all(|symbol| self.declared.contains(symbol))
    }
}

impl FromData for OnnxShape {
    fn name(&self, tracts: &dyn InferenceOp) -> StaticName {
        tracts.name()
    }

    fn infer(
        &self,
        tracts: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        let mut sizes = inputs[0].shape.dims().filter_map(|size| size.concretize());
        if sizes.all(|size| self.is_known(&size)) {
            return Ok(None);
        }
        let mut found = tracts.infer_facts(inputs.clone(), outputs.clone(), tvec![])?;
        found.1[0].value = GenericFactoid::Any;
        Ok(Some(found))
    }

    fn wire(
        &self,
        _tracts: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let shape = &target.outlet_fact(inputs[0])?.shape;
        rule_if!(!shape.iter().all(|size| self.is_known(size)));
        target.wire_node(name, self.measure, inputs).map(Some)
    }
}

/// The sizes of a value, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Measure {
    /// Those of a range of axes.
    Shape { start: i64, end: i64 },
    /// Their product.
    Size,
}

impl Measure {
    /// The axes of a Shape.
    fn axes(start: i64, end: i64, rank: usize) -> TractResult<std::ops::Range<usize>> {
        let rank = i64::try_from(rank)?;
        let axis = |axis: i64| {
            let from_first = if axis < 0 { axis + rank } else { axis };
            usize::try_from(from_first.clamp(0, rank))
        };
        let (start, end) = (axis(start)?, axis(end)?);
        Ok(start..end.max(start))
    }
}

impl Op for Measure {
    fn name(&self) -> StaticName {
        match self {
            Self::Shape { .. } => "Shape".into(),
            Self::Size => "Size".into(),
        }
    }

    op_as_typed_op!();
}

impl EvalOp for Measure {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let shape = inputs[0].shape();
        let sizes = match *self {
            Self::Shape { start, end } => {
                let sizes = &shape[Self::axes(start, end, shape.len())?];
                let sizes: Vec<TDim> = sizes.iter().map(|size| size.to_dim()).collect();
                tensor1(&sizes)
            }
            Self::Size => tensor0(inputs[0].len().to_dim()),
        };
        Ok(tvec![sizes.into_tvalue()])
    }
}

impl TypedOp for Measure {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![match *self {
            Self::Shape { start, end } => {
                let axes = Self::axes(start, end, inputs[0].rank())?;
                TDim::datum_type().fact([axes.len()])
            }
            Self::Size => TDim::datum_type().scalar_fact(),
        }])
    }

    as_op!();
}
