//! Parses ONNX nodes.

use revseq_graph::{Attribute, AttributeValue, Input, Node, Operator};
use revseq_kernels::LengthsPolicy;
use revseq_tract_operators::operator::{self, Parsed};
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::tract_hir::internal::*;

use crate::error::clause;
use crate::{LoadOptions, ReverseSubsequences, slice};

/// Makes a tract ONNX loader read both operators, `Loop` and the others of [`revseq_tract_operators`], `Slice`
/// along axes of any size (one that reverses them is a [`Flip`](crate::Flip)), and `Squeeze` and
/// `Unsqueeze` of any version.
///
/// tract looks operators up by name in any domain; a node with the same name in another domain is
/// an error when the model is read.
pub fn register(onnx: &mut tract_onnx::Onnx) {
    revseq_tract_operators::register(onnx);
    onnx.op_register.insert("ReverseSequence", parse);
    onnx.op_register.insert("ReverseSubsequences", parse);
    onnx.op_register.insert("Slice", slice::parse);
    for operator in ["Squeeze", "Unsqueeze"] {
        onnx.op_register.insert(operator, with_axes);
    }
}

/// The first opset in which Squeeze and Unsqueeze take their axes as an input.
const AXES_BY_INPUT: i64 = 13;

/// Parses Squeeze or Unsqueeze like tract, but by where the axes are. tract goes by the opset, and
/// has no Squeeze of all axes of size 1 before opset 13.
fn with_axes(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let by_attribute = node.attribute.iter().any(|it| it.name == "axes");
    let mut ctx = ctx.clone();
    ctx.onnx_operator_set_version = AXES_BY_INPUT - i64::from(by_attribute);
    operator::parse(&ctx, node)
}

fn parse(ctx: &ParsingContext<'_>, proto: &NodeProto) -> Parsed {
    let attributes: Vec<_> = proto
        .attribute
        .iter()
        .map(|attribute| Attribute {
            name: &attribute.name,
            value: match attribute.r#type() {
                AttributeType::Int => AttributeValue::Int(attribute.i),
                other => AttributeValue::Other(other.as_str_name()),
            },
        })
        .collect();
    let inputs: Vec<_> = proto
        .input
        .iter()
        .map(|name| Input {
            name,
            ..Input::default()
        })
        .collect();
    let operator = Operator::from_node(&Node {
        name: &proto.name,
        domain: &proto.domain,
        op_type: &proto.op_type,
        since_version: imported_version(ctx, &proto.domain),
        attributes: &attributes,
        inputs: &inputs,
    });
    let operator = operator.map_err(clause)?;
    let lengths = LoadOptions::of(ctx).lengths;
    Ok((expand(OnnxNode { operator, lengths }), vec![]))
}

/// The imported version of a domain's operators, or 0.
fn imported_version(ctx: &ParsingContext<'_>, domain: &str) -> i64 {
    let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
    ctx.model
        .opset_import
        .iter()
        .find(|import| import.domain == domain || (standard(&import.domain) && standard(domain)))
        .map_or(0, |import| import.version)
}

/// A node before its input's rank is known.
#[derive(Clone, Debug)]
struct OnnxNode {
    operator: Operator,
    /// The policy for lengths out of range, if it is not the operator's own.
    lengths: Option<LengthsPolicy>,
}

impl Expansion for OnnxNode {
    fn name(&self) -> StaticName {
        self.operator.op_type().into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 2)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.equals(&inputs[0].shape, &outputs[0].shape)?;
        // The op checks the sizes of the lengths: exporters use two symbols for one dimension,
        // which the solver would not take for equal.
        match self.operator {
            Operator::ReverseSequence { .. } => s.equals(&inputs[1].rank, 1),
            Operator::ReverseSubsequences { .. } => s.equals(&inputs[1].rank, &inputs[0].rank),
        }
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let mut inputs: TVec<OutletId> = inputs.into();
        // ONNX's int64 may be symbolic dimensions in tract.
        if model.outlet_fact(inputs[1])?.datum_type == TDim::datum_type() {
            let cast = tract_core::ops::cast::cast(i64::datum_type());
            inputs[1] = model.wire_node(format!("{prefix}.lengths"), cast, &[inputs[1]])?[0];
        }
        let rank = model.outlet_fact(inputs[0])?.rank();
        let mut op = ReverseSubsequences::new(self.operator, rank)?;
        if let Some(policy) = self.lengths {
            op = op.with_policy(policy);
        }
        model.wire_node(prefix, op, &inputs)
    }
}
