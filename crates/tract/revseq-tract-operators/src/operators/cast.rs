//! Casts to integers: sizes keep their symbols, and all else becomes plain numbers.
//!
//! What is made of a value's symbols downstream depends on all that reads it, so a Cast to int32
//! looks at the graph before it decides.
//!
//! ```text
//! Cast(Shape(x)[0], int32) into a Reshape: the symbol N stays; into MatMul: an int32
//! ```

use std::collections::HashSet;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, own};
use crate::operators::empty;

/// Parses a Cast.
///
/// tract holds symbolic sizes as TDim. Its Cast to int64 makes a TDim of any number, but not every
/// operator takes TDim, and Mod computes another remainder for it. Here only sizes become TDim.
///
/// tract's Cast to int32, which TensorFlow writes around each size, loses symbols, and with them
/// the sizes computed from them. Here they stay if they flow only into sizes and comparisons.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let to: i64 = node.get_attr("to")?;
    if to == i64::from(DataType::Int64 as i32) {
        let to = i64::datum_type();
        return own(node, [1, 1], CastToIntegers { to });
    }
    // In a body, a state may have to stay int32.
    if let [graph] = *ctx.parent_graphs
        && to == i64::from(DataType::Int32 as i32)
        && node.output.iter().all(|output| counts_only(graph, output))
    {
        let to = i32::datum_type();
        return own(node, [1, 1], CastToIntegers { to });
    }
    empty::parse(ctx, node)
}

/// The most values that are visited; a Keras layer has a dozen.
const MAXIMUM_VALUES: usize = 64;

/// Whether a value flows only into shapes, comparisons, floats and trip counts, by operators that
/// take symbols in tract.
fn counts_only(main: &GraphProto, value: &str) -> bool {
    let mut open = vec![(main, value)];
    let mut seen = HashSet::new();
    while let Some((graph, value)) = open.pop() {
        if !seen.insert((std::ptr::from_ref(graph), value)) {
            continue;
        }
        if seen.len() > MAXIMUM_VALUES {
            return false;
        }
        // A body's states are integers again.
        let is_output = graph.output.iter().any(|output| output.name == value);
        if is_output && std::ptr::eq(graph, main) {
            return false;
        }
        for node in &graph.node {
            let inner = node.attribute.iter().filter_map(|it| it.g.as_ref());
            let captures = inner.clone().filter(|graph| {
                let mut inputs = graph.input.iter();
                inputs.all(|input| input.name != value)
            });
            open.extend(captures.map(|graph| (graph, value)));
            for (index, _) in node.input.iter().enumerate().filter(|(_, it)| *it == value) {
                match (node.op_type.as_str(), index) {
                    ("Cast", _) if !is_to_integers(node) => {}
                    ("Identity" | "Squeeze" | "Unsqueeze" | "Concat" | "Slice" | "Cast", _)
                    | ("Gather" | "Add" | "Sub" | "Mul", _) => {
                        open.extend(node.output.iter().map(|output| (graph, output.as_str())));
                    }
                    ("Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual", _)
                    | ("Expand" | "Reshape", 1)
                    | ("ConstantOfShape" | "Loop", 0) => {}
                    ("Loop", 2..) => {
                        let inputs = inner.clone().map(|body| (body, body.input.get(index)));
                        open.extend(inputs.filter_map(|(body, input)| Some((body, &*input?.name))));
                    }
                    _ => return false,
                }
            }
        }
    }
    true
}

/// Whether a Cast is to a type that may hold symbols. One without a type is an error elsewhere.
fn is_to_integers(cast: &NodeProto) -> bool {
    let to = cast.get_attr("to");
    matches!(to, Ok(DatumType::I32 | DatumType::I64))
}

/// A Cast to int32 or int64 that leaves symbols as they are.
#[derive(Clone, Debug)]
struct CastToIntegers {
    to: DatumType,
}

impl CastToIntegers {
    /// The output's type; of int32 made of sizes only if the value is known.
    fn output_type(&self, from: DatumType, value: Option<&Tensor>) -> Option<DatumType> {
        if !from.is_tdim() {
            return Some(self.to);
        }
        let stays = match self.to {
            DatumType::I64 => true,
            _ => has_symbols(value?),
        };
        Some(if stays { from } else { self.to })
    }
}

fn has_symbols(value: &Tensor) -> bool {
    value
        .to_plain_array_view::<TDim>()
        .is_ok_and(|sizes| sizes.iter().any(|size| size.to_i64().is_err()))
}

impl Operator for CastToIntegers {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let input = node.inputs[0].clone();
        let mut output = node.outputs[0].clone();
        output.shape.unify_with(&input.shape)?;
        let from = input.datum_type.concretize();
        let to = from.and_then(|from| self.output_type(from, node.value(0).as_deref()));
        if let Some(to) = to {
            output.datum_type = to.into();
        }
        Ok(Some((tvec![input], tvec![output], tvec![])))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let fact = node.input(0)?;
        let to = self.output_type(fact.datum_type, fact.konst.as_deref());
        node.whole(cast(to.unwrap_or(self.to)))
    }
}
