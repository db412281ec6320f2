//! Moves slices before the operators that they cut.
//!
//! The pass that decides is tract's. It is given a small model of one node and its readers, and its
//! patch is carried over to the whole model. What the readers make counts as the small model's
//! outputs.

use tract_onnx::tract_core::ops::array::Slice;
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
            if !readers.any(|reader| model.node(reader.node).op_is::<Slice>()) {
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
        let mut known: HashMap<OutletId, OutletId> = HashMap::new();
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
                if !known.contains_key(input) {
                    let fact = whole.outlet_fact(*input)?.clone();
                    let op = TypedSource::new(fact.clone());
                    let name = format!("{}/{}", whole.node(input.node).name, input.slot);
                    let source = part.model.add_node(name, op, tvec![fact])?;
                    part.nodes.push(*input);
                    known.insert(*input, source.into());
                    part.model.inputs.push(source.into());
                }
            }
            let facts = node.outputs.iter().map(|it| it.fact.clone()).collect();
            let made = part.model.add_node(&*node.name, node.op.clone(), facts)?;
            part.nodes.push(copy.into());
            for (slot, input) in node.inputs.iter().enumerate() {
                part.model
                    .add_edge(known[input], InletId::new(made, slot))?;
            }
            for slot in 0..node.outputs.len() {
                let outlet = OutletId::new(copy, slot);
                known.insert(outlet, OutletId::new(made, slot));
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
        let found = self.nodes[outlet.node];
        OutletId::new(found.node, found.slot + outlet.slot)
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
