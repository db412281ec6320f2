//! Chooses the kernels that compute operators, as tract does.
//!
//! The kernel of a function of two operands follows from their types and shapes alone. tract compares
//! products of their sizes, which takes long if these are symbols, so a choice is made once for all nodes
//! alike.

use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::optim::OptimizerSession;
use tract_onnx::tract_hir::internal::*;

use super::Replace;

/// The choices so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernels {
    /// Functions with the kernels for operands of these types and shapes.
    binary: HashMap<Operands, Vec<(TypedBinOp, Option<Kernel>)>>,
}

type Operands = TVec<(DatumType, ShapeFact)>;

/// What computes a function.
#[derive(Clone, Debug)]
struct Kernel {
    op: Box<dyn TypedOp>,
    /// Whether it takes the second operand first.
    is_turned: bool,
}

impl Replace for Kernels {
    fn replacement(
        &mut self,
        _session: &mut OptimizerSession<'_>,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let choose = || node.op.codegen(model, node).unwrap_or_default();
        let Some(function) = node.op_as::<TypedBinOp>() else {
            return Ok(choose());
        };
        let facts = model.node_input_facts(node.id)?.into_iter();
        let operands = facts.map(|fact| (fact.datum_type, fact.shape.clone()));
        let choices = self.binary.entry(operands.collect()).or_default();
        let choice = choices.iter().find(|(alike, _)| alike == function);
        let Some((_, kernel)) = choice else {
            let patch = choose();
            choices.push((
                function.clone(),
                patch.as_ref().and_then(|it| Kernel::of(it, node)),
            ));
            return Ok(patch);
        };
        rule_if_some!(Kernel { op, is_turned } = kernel);
        let mut inputs = node.inputs.clone();
        if *is_turned {
            inputs.reverse();
        }
        TypedModelPatch::replace_single_op(model, node, &inputs, op.clone()).map(Some)
    }
}

impl Kernel {
    /// The kernel that a patch puts in the place of a node.
    fn of(patch: &TypedModelPatch, node: &TypedNode) -> Option<Self> {
        let chosen = patch.model.node(patch.shunts.values().next()?.node);
        let first = patch.taps.get(chosen.inputs.first()?);
        Some(Self {
            op: chosen.op.clone(),
            is_turned: first != node.inputs.first(),
        })
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_core::ops::math::{add, sub};
    use tract_onnx::tract_core::optim::Optimizer;

    use super::*;

    #[test]
    fn a_node_alike_gets_the_same_kernel() {
        let mut model = TypedModel::default();
        let size = model.symbols.sym("N").to_dim();
        let rows = [size, 64.to_dim()];
        let operands = ["x", "y"].map(|name| model.add_source(name, f32::fact(&rows)).unwrap());
        let row = model.add_source("row", f32::fact([1, 64])).unwrap();
        let [x, y] = operands;
        let mut nodes = vec![];
        for (index, inputs) in [[x, y], [y, x], [row, x], [row, y], [x, row], [y, row]]
            .iter()
            .enumerate()
        {
            for (name, op) in [("sum", add()), ("difference", sub())] {
                let made = model.wire_node(format!("{name} {index}"), op, inputs);
                nodes.extend(made.unwrap().into_iter().map(|outlet| outlet.node));
            }
        }
        let optimizer = Optimizer::codegen();
        let mut kernels = Kernels::default();
        let described = |patch: Option<TypedModelPatch>| {
            let patch = patch?;
            let chosen = patch.model.node(patch.shunts.values().next()?.node);
            let inputs: Vec<OutletId> = chosen
                .inputs
                .iter()
                .map(|input| patch.taps[input])
                .collect();
            Some((format!("{:?}", chosen.op), chosen.name.clone(), inputs))
        };
        let mut chosen = 0;
        for node in nodes.into_iter().map(|id| model.node(id)) {
            let found = kernels
                .replacement(&mut optimizer.session(), &model, node)
                .unwrap();
            let expected = node.op.codegen(&model, node).unwrap();
            chosen += usize::from(expected.is_some());
            assert_eq!(described(found), described(expected), "{node}");
        }
        assert!(
            chosen > kernels.binary.len(),
            "{chosen} of {:?}",
            kernels.binary
        );
    }
}
