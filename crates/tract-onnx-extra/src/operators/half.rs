//! Operators of half floats, computed in floats.
//!
//! tract sums half floats in half floats, which loses digits, and one by one where the processor has
//! no such instructions. ONNX Runtime casts them to floats as well.

use std::sync::LazyLock;

use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_hir::internal::*;

use crate::node::Facts;
use crate::register::register_beneath;
use crate::wire::to_typed_without_facts;

/// Operators that lose digits, overflow, or take several times as long in half floats.
const OPERATORS: [&str; 40] = [
    "AveragePool",
    "BatchNormalization",
    "Celu",
    "Clip",
    "Conv",
    "ConvTranspose",
    "CumSum",
    "Einsum",
    "Elu",
    "Exp",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LayerNormalization",
    "Log",
    "LogSoftmax",
    "MatMul",
    "MeanVarianceNormalization",
    "Mish",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Resize",
    "Selu",
    "Softmax",
    "Softplus",
    "Softsign",
    "STFT",
    "Swish",
];

/// The operators as they are for other types.
static BENEATH: LazyLock<OnnxOpRegister> = LazyLock::new(|| {
    let mut onnx = tract_onnx::onnx();
    register_beneath(&mut onnx);
    onnx.op_register
});

/// Registers them in a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    for operator in OPERATORS {
        onnx.op_register.insert(operator, parse);
    }
}

fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let parse = BENEATH.0.get(&node.op_type);
    let parse = parse.with_context(|| format!("tract has no {}", node.op_type))?;
    let (upstream, captured) = parse(ctx, node)?;
    Ok((Box::new(InFloats { upstream }), captured))
}

/// An operator that gets floats for half floats, and whose results are cast back.
#[derive(Clone, Debug)]
pub(crate) struct InFloats {
    pub(crate) upstream: Box<dyn InferenceOp>,
}

never_equal!(InFloats);

impl Op for InFloats {
    fn name(&self) -> StaticName {
        self.upstream.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.upstream.info()
    }

    fn validation(&self) -> Validation {
        self.upstream.validation()
    }

    not_a_typed_op!();
}

impl EvalOp for InFloats {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.upstream.eval_out_of_plan(inputs)
    }
}

impl InferenceOp for InFloats {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.upstream.infer(inputs, outputs, observed)
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.upstream.infer_facts(inputs, outputs, observed)
    }

    fn observe_outlets(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Vec<OutletId>> {
        self.upstream.observe_outlets(model, node)
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.upstream.nboutputs()
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let mut floats = mapping.clone();
        let mut is_half = false;
        for input in &node.inputs {
            let outlet = mapping[input];
            let fact = target.outlet_fact(outlet)?;
            if !fact.datum_type.is::<f16>() {
                continue;
            }
            is_half = true;
            let known = fact.konst.clone();
            let name = target.unique_name(format!("{}.float", node.name));
            let name = name.into_owned();
            // A constant stays one: tract would cast a large one in each run.
            let float = match known {
                Some(known) => target.add_const(name, known.cast_to::<f32>()?.into_owned())?,
                None => target.wire_node(name, cast(f32::datum_type()), &[outlet])?[0],
            };
            floats.insert(*input, float);
        }
        if !is_half {
            return self.upstream.to_typed(source, node, target, mapping);
        }
        let mut made = to_typed_without_facts(&*self.upstream, source, node, target, &floats)?;
        for (made, output) in std::iter::zip(&mut made, &node.outputs) {
            let of = output.fact.datum_type.concretize();
            if of == Some(f16::datum_type()) {
                let name = target.unique_name(format!("{}.half", node.name));
                *made = target.wire_node(name.into_owned(), cast(f16::datum_type()), &[*made])?[0];
            }
        }
        Ok(made)
    }

    as_op!();
}
