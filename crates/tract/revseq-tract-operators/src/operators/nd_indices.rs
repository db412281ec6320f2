//! GatherND and ScatterND, whose indices may count from the end of an axis. tract's read outside of
//! the data then, and panic.
//!
//! ```text
//! GatherND(x: [3, 2], [[-1]])  →  GatherND(x, [[2]])
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::{GatherNd, ScatterNd, ScatterReduction};
use tract_onnx::tract_core::ops::cast::wire_cast as wire_casts;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};
use crate::typed_op::{Stateless, Typed};

/// Parses a GatherND or a ScatterND.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let op = match node.op_type.as_str() {
        "GatherND" => {
            let axes: i64 = node.get_attr_opt("batch_dims")?.unwrap_or(0);
            let axes = usize::try_from(axes)
                .with_context(|| format!("its batch_dims is {axes}, expected 0 or more"))?;
            Indexing::Gather(GatherNd::new(axes))
        }
        _ => {
            let reduction = node.get_attr_opt("reduction")?.unwrap_or("none");
            Indexing::Scatter(ScatterNd::new(ScatterReduction::parse(reduction)?))
        }
    };
    over_tract(ctx, node, op)
}

#[derive(Clone, Debug)]
enum Indexing {
    Gather(GatherNd),
    Scatter(ScatterNd),
}

impl Operator for Indexing {
    // tract computes the values of known inputs as soon as it knows them.
    const COMPUTES: bool = false;

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let data = node.inputs[0];
        let indices = node.cast("indices", node.inputs[1], i64::datum_type())?;
        let from_start = FromStart {
            first: match self {
                Self::Gather(gather) => gather.batch_dims,
                Self::Scatter(_) => 0,
            },
        };
        let indices = node.op("from_start", Typed(from_start), &[data, indices])?;
        match self {
            Self::Gather(gather) => node.last(gather.clone(), &[data, indices]),
            Self::Scatter(scatter) => {
                let (of_data, of_updates) = (node.input(0)?.datum_type, node.input(2)?.datum_type);
                let wide = DatumType::super_type_for([of_data, of_updates]);
                let wide = wide.with_context(|| {
                    format!("its data is {of_data:?}, and its updates {of_updates:?}")
                })?;
                let updates = node.inputs[2];
                let values = wire_casts(node.name, node.model, &[data, updates], wide)?;
                node.last(scatter.clone(), &[values[0], indices, values[1]])
            }
        }
    }
}

/// Indices that count from the start: those of the second input, [.., axes], into the axes of the
/// first one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FromStart {
    /// The first indexed axis.
    first: usize,
}

impl FromStart {
    /// The sizes of the axes that indices of this shape stand for.
    fn indexed<'a, D>(&self, sizes: &'a [D], indices: &[D]) -> TractResult<&'a [D]>
    where
        D: DimLike,
    {
        let count = indices.last().context("its indices are a scalar")?;
        let count = count.to_usize()?;
        let indexed = sizes.get(self.first..).and_then(|it| it.get(..count));
        indexed.with_context(|| {
            format!(
                "its indices have {count} elements for axes {} and later, of {} axes",
                self.first,
                sizes.len()
            )
        })
    }
}

impl Stateless for FromStart {
    const NAME: &str = "FromStart";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices) = args_2!(inputs);
        let sizes = self.indexed(data.shape(), indices.shape())?;
        let batches = [data.shape(), indices.shape()].map(|shape| shape.get(..self.first));
        ensure!(
            batches[0] == batches[1],
            "its data is {:?}, and its indices {:?}, expected the same sizes of {} axes",
            data.shape(),
            indices.shape(),
            self.first
        );
        let mut indices = indices.into_tensor();
        let mut plain = indices.try_as_plain_ram_mut()?;
        let tuples = plain.as_slice_mut::<i64>()?;
        for tuple in tuples.chunks_exact_mut(sizes.len().max(1)) {
            for ((index, &size), axis) in std::iter::zip(tuple, sizes).zip(self.first..) {
                let size = i64::try_from(size)?;
                ensure!(
                    (-size..size).contains(index),
                    "index {index} lies outside of axis {axis}, which has {size} elements"
                );
                *index += if *index < 0 { size } else { 0 };
            }
        }
        Ok(tvec![indices.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.indexed(&inputs[0].shape.to_tvec(), &inputs[1].shape.to_tvec())?;
        Ok(tvec![inputs[1].without_value()])
    }
}
