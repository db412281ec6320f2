//! Moves slices before the operators that they cut.
//!
//! The pass that decides is tract's. It is given a small model of one node and its readers, and its
//! patch is carried over to the whole model. What the readers make counts as the small model's
//! outputs.
//!
//! A small product that is split, such as the gates of a cell, stays whole: tract would compute a product for
//! each part, with a slice of each operand.

use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_core::optim::{OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

/// tract's `PushSliceUp`, a node at a time; tract's looks for the next node from the first one
/// again after each patch. From the last node to the first, a slice goes all its way in one round.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    pub(super) pass: Box<dyn TypedPass>,
    /// The nodes that are still to be looked at.
    pub(super) open: Option<usize>,
}

impl TypedPass for Slices {
    fn reset(&mut self) -> TractResult<()> {
        self.open = None;
        self.pass.reset()
    }

    fn next(
        &mut self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        let mut open = self.open.unwrap_or(model.nodes().len());
        while open > 0 {
            open -= 1;
            let mut readers = model
                .node(open)
                .outputs
                .iter()
                .flat_map(|it| &it.successors);
            if !readers.any(|reader| model.node(reader.node).op_is::<Slice>())
                || is_split_product(model, model.node(open))
            {
                continue;
            }
            let part = Neighbourhood::of(model, open)?;
            if let Some(patch) = self.pass.next(session, &part.model)? {
                // The node may have more to be cut.
                self.open = Some(open + 1);
                return Ok(Some(part.patch(patch)));
            }
        }
        self.open = Some(0);
        Ok(None)
    }
}

/// The fewest elements of a product whose parts take less time than it takes to copy them. [M64]
const MIN_ELEMENTS: usize = 1 << 13;

/// The most sums between a product and its slices.
const MAX_SUMS: usize = 3;

/// Whether a node is a small product, or one with something added, of which slices read every element.
fn is_split_product(model: &TypedModel, node: &TypedNode) -> bool {
    let [output] = &*node.outputs else {
        return false;
    };
    let slices = output.successors.iter();
    let slices = slices.map(|reader| model.node(reader.node).op_as::<Slice>());
    let slices: Option<TVec<&Slice>> = slices.collect();
    let (Some(slices), Some(shape)) = (slices, output.fact.shape.as_concrete()) else {
        return false;
    };
    let elements_read = |axis| {
        let lengths = slices.iter().filter(|slice| slice.axis == axis);
        let lengths = lengths.filter_map(|it| (it.end.clone() - &it.start).to_usize().ok());
        lengths.sum::<usize>()
    };
    shape.iter().product::<usize>() < MIN_ELEMENTS
        && slices.len() > 1
        && (0..shape.len()).any(|axis| elements_read(axis) >= shape[axis])
        && ends_product(model, node, MAX_SUMS)
}

/// Whether a node is a product, with at most so many sums after it.
fn ends_product(model: &TypedModel, node: &TypedNode, sums: usize) -> bool {
    let mut operands = node.inputs.iter().map(|input| model.node(input.node));
    node.op_is::<EinSum>()
        || (sums > 0
            && node.op_is::<TypedBinOp>()
            && operands.any(|operand| ends_product(model, operand, sums - 1)))
}

/// A node and its readers, alone.
struct Neighbourhood {
    model: TypedModel,
    /// The nodes in the whole model.
    nodes: Vec<OutletId>,
}

impl Neighbourhood {
    fn of(whole: &TypedModel, id: usize) -> TractResult<Self> {
        let mut part = Self {
            model: TypedModel {
                symbols: whole.symbols.clone(),
                ..TypedModel::default()
            },
            nodes: vec![],
        };
        let mut copies: HashMap<OutletId, OutletId> = HashMap::new();
        let readers = whole.node(id).outputs.iter().flat_map(|it| &it.successors);
        let mut copied = vec![id];
        for reader in readers {
            if !copied.contains(&reader.node) {
                copied.push(reader.node);
            }
        }
        let mut outputs = vec![];
        for &copy in &copied {
            let node = whole.node(copy);
            for input in &node.inputs {
                if !copies.contains_key(input) {
                    let fact = whole.outlet_fact(*input)?.clone();
                    let op = TypedSource::new(fact.clone());
                    let name = format!("{}/{}", whole.node(input.node).name, input.slot);
                    let source = part.model.add_node(name, op, tvec![fact])?;
                    part.nodes.push(*input);
                    copies.insert(*input, source.into());
                    part.model.inputs.push(source.into());
                }
            }
            let facts = node.outputs.iter().map(|it| it.fact.clone()).collect();
            let made = part.model.add_node(&*node.name, node.op.clone(), facts)?;
            part.nodes.push(copy.into());
            for (slot, input) in node.inputs.iter().enumerate() {
                part.model
                    .add_edge(copies[input], InletId::new(made, slot))?;
            }
            for slot in 0..node.outputs.len() {
                let outlet = OutletId::new(copy, slot);
                copies.insert(outlet, OutletId::new(made, slot));
                // What else reads an output is outside.
                if copy != id || whole.outputs.contains(&outlet) {
                    outputs.push(OutletId::new(made, slot));
                }
            }
        }
        part.model.outputs = outputs;
        Ok(part)
    }

    /// An outlet in the whole model.
    fn whole(&self, outlet: OutletId) -> OutletId {
        let first = self.nodes[outlet.node];
        OutletId::new(first.node, first.slot + outlet.slot)
    }

    /// The same patch of the whole model.
    fn patch(&self, mut patch: TypedModelPatch) -> TypedModelPatch {
        for outlet in patch.taps.values_mut() {
            *outlet = self.whole(*outlet);
        }
        let shunts = std::mem::take(&mut patch.shunts).into_iter();
        patch.shunts = shunts
            .map(|(outlet, by)| (self.whole(outlet), by))
            .collect();
        for node in &mut patch.obliterate {
            *node = self.nodes[*node].node;
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_core::ops::math::add;

    use super::*;
    use crate::repairs::optimize::into_decluttered;

    /// The number of products, once the sum of a product of so many rows and a value is split in four.
    fn products(rows: usize) -> TractResult<usize> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([rows, 8]))?;
        let added = model.add_source("added", f32::fact([rows, 40]))?;
        let weights =
            tract_onnx::prelude::tract_ndarray::Array2::from_shape_fn((8, 40), |(k, n)| {
                (k * 40 + n) as f32
            });
        let weights = model.add_const("weights", weights)?;
        let op = EinSum::new("mk,kn->mn".parse()?, f32::datum_type());
        let product = model.wire_node("product", op, &[x, weights])?[0];
        let sum = model.wire_node("sum", add(), &[product, added])?[0];
        let mut outputs = vec![];
        for part in 0..4 {
            let op = Slice::new(1, part * 10, (part + 1) * 10);
            outputs.extend(model.wire_node(format!("part {part}"), op, &[sum])?);
        }
        model.select_output_outlets(&outputs)?;
        let nodes = into_decluttered(model)?.nodes;
        Ok(nodes.iter().filter(|node| node.op_is::<EinSum>()).count())
    }

    #[test]
    fn a_small_product_that_is_split_stays_whole() {
        for (rows, expected) in [(3, 1), (MIN_ELEMENTS / 40 + 1, 4)] {
            assert_eq!(
                products(rows).expect("it is simplified"),
                expected,
                "{rows}"
            );
        }
    }
}
