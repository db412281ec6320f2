//! Translates inferred models to typed ones, in a time that grows with the number of nodes.
//!
//! tract's own translation compares the name of each node, and the value of each constant, with those
//! of all nodes before. Here a node is wired in a model of its own, whose inputs stand for the values
//! that it reads; what it becomes then joins the typed model, which knows its names and constants by
//! key. A loop alone is wired in the typed model itself.
//!
//! ```text
//! y = HardSwish(x)   →   of its own: x.in, a = …(x.in), y = Mul(x.in, a)   →   a = …(x), y = Mul(x, a)
//! ```

use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::source::Source;

use crate::data_sizes::agree_on_sums;
use crate::data_sizes::definers::keep_definers;
use crate::loops::op::LOOP;
use crate::repairs::names::Names;

/// The bytes of a constant that are part of its key.
const KEY_BYTES: usize = 64;

/// tract's [`into_typed`](InferenceModelExt::into_typed), in a time that grows with the number of
/// nodes.
///
/// Nodes whose names are not free get other ones, where tract's is an error. Products whose operands may
/// have another number of elements to sum over compare these when they run.
///
/// # Errors
/// Those of tract.
pub fn into_typed(mut model: InferenceModel) -> TractResult<TypedModel> {
    model.analyse(false)?;
    // It infers all types again, which takes as long as the first time.
    if !is_settled(&model)? {
        model = model.incorporate()?;
    }
    translate(&model)
}

/// Whether no node wants to be replaced, and all types are known.
fn is_settled(model: &InferenceModel) -> TractResult<bool> {
    for node in model.nodes() {
        if node.op.incorporate(model, node)?.is_some() {
            return Ok(false);
        }
    }
    Ok(model.missing_type_shape()?.is_empty())
}

/// The same for a body, before anything is dropped from it: a node stays that gives a number to a symbol
/// which others need.
pub(crate) fn typed_body(model: InferenceModel) -> TractResult<TypedModel> {
    let mut body = into_typed(model)?;
    keep_definers(&mut body)?;
    Ok(body)
}

fn translate(source: &InferenceModel) -> TractResult<TypedModel> {
    let _proofs = source.symbols.proof_cache_session();
    let mut typed = Typed {
        model: TypedModel {
            nodes: Vec::with_capacity(source.nodes().len()),
            symbols: source.symbols.clone(),
            ..TypedModel::default()
        },
        names: Names::of(source.nodes().iter().map(|node| &*node.name)),
        constants: HashMap::new(),
        mapping: HashMap::new(),
    };
    for id in source.eval_order()? {
        typed.add(source, source.node(id))?;
    }
    // Inputs stay, even if nothing reads them.
    for input in source.input_outlets()? {
        if !typed.mapping.contains_key(input) {
            typed.add(source, source.node(input.node))?;
        }
    }
    let Typed {
        mut model, mapping, ..
    } = typed;
    let find = |outlets: &[OutletId]| outlets.iter().map(|it| mapping[it]).collect();
    model.inputs = find(source.input_outlets()?);
    model.outputs = find(source.output_outlets()?);
    model.properties.clone_from(&source.properties);
    agree_on_sums(&mut model)?;
    Ok(model)
}

/// The type and shape of a constant, and its first bytes.
type Key = (DatumType, TVec<usize>, Vec<u8>);

/// A typed model in the making.
struct Typed {
    model: TypedModel,
    /// The names of its nodes, and of those that are to come.
    names: Names,
    /// The constants of each key.
    constants: HashMap<Key, Vec<usize>>,
    /// The outlets of the inferred model that are translated.
    mapping: HashMap<OutletId, OutletId>,
}

impl Typed {
    fn add(&mut self, source: &InferenceModel, node: &InferenceNode) -> TractResult<()> {
        let outlets = self
            .outlets(source, node)
            .with_context(|| format!("translating node {node}"))?;
        for (slot, outlet) in outlets.into_iter().enumerate() {
            let from = OutletId::new(node.id, slot);
            self.mapping.insert(from, outlet);
            if let Some(label) = source.outlet_label(from) {
                self.model.set_outlet_label(outlet, label.to_string())?;
            }
        }
        Ok(())
    }

    fn outlets(
        &mut self,
        source: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<TVec<OutletId>> {
        let facts = source.node_output_facts(node.id)?;
        // A node with a state is not its value, nor is an input.
        if !node.op_is::<Source>()
            && facts.iter().all(|fact| fact.value.is_concrete())
            && node.op.state(&EvalContext::out_of_plan())?.is_none()
        {
            let values = facts.iter().filter_map(|fact| fact.value.concretize());
            let constants = values.enumerate().map(|(slot, value)| {
                let name = format!("{}.{slot}", node.name);
                let fact = TypedFact::try_from(value.clone())?;
                let op = match &fact.exotic_fact {
                    Some(exotic) => Const::new_with_exotic_fact(value, exotic.clone())?,
                    None => Const::new(value)?,
                };
                let id = self.append(&node.name, name, Box::new(op), tvec![fact])?;
                Ok(OutletId::new(id, 0))
            });
            return constants.collect();
        }
        if node.op.name() == LOOP {
            return self.in_place(source, node);
        }
        let (alone, inputs) = self.alone(node)?;
        self.join(source, node, alone, inputs)
    }

    /// Wires a node in the model itself: a loop looks at what computes its inputs.
    fn in_place(
        &mut self,
        source: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<TVec<OutletId>> {
        let first = self.model.nodes().len();
        let outlets = node
            .op
            .to_typed(source, node, &mut self.model, &self.mapping)?;
        let made = &self.model.nodes()[first..];
        made.iter().for_each(|made| self.names.add(&made.name));
        Ok(outlets)
    }

    /// A model that has a node's inputs alone, by their outlets in the inferred model, and the values
    /// for which they stand.
    fn alone(
        &self,
        node: &InferenceNode,
    ) -> TractResult<(TypedModel, HashMap<OutletId, OutletId>)> {
        let mut alone = TypedModel {
            symbols: self.model.symbols.clone(),
            ..TypedModel::default()
        };
        let mut inputs = HashMap::new();
        let mut stand_ins: TVec<(OutletId, OutletId)> = tvec![];
        for input in &node.inputs {
            let outlet = self.mapping[input];
            let stand_in = match stand_ins.iter().find(|(_, other)| *other == outlet) {
                Some((stand_in, _)) => *stand_in,
                None => {
                    let name = format!("{}.input {}", node.name, stand_ins.len());
                    let fact = self.model.outlet_fact(outlet)?.clone();
                    let stand_in = alone.add_source(name, fact)?;
                    stand_ins.push((stand_in, outlet));
                    stand_in
                }
            };
            inputs.insert(*input, stand_in);
        }
        Ok((alone, inputs))
    }

    /// Wires a node in a model with its inputs alone, and takes what it becomes.
    fn join(
        &mut self,
        source: &InferenceModel,
        node: &InferenceNode,
        mut alone: TypedModel,
        inputs: HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let outlets = node.op.to_typed(source, node, &mut alone, &inputs)?;
        for outlet in &outlets {
            let fact = alone.outlet_fact(*outlet)?;
            fact.consistent()
                .with_context(|| format!("checking the fact {fact:?}"))?;
        }
        let stand_ins = inputs.iter().map(|(input, it)| (*it, self.mapping[input]));
        let mut joined: HashMap<OutletId, OutletId> = stand_ins.collect();
        let mut edges = vec![];
        for made in alone.nodes {
            if joined.contains_key(&OutletId::new(made.id, 0)) {
                continue;
            }
            let facts: TVec<TypedFact> = made.outputs.into_iter().map(|it| it.fact).collect();
            let slots = facts.len();
            let id = self.append(&node.name, made.name, made.op, facts)?;
            for slot in 0..slots {
                let from = OutletId::new(made.id, slot);
                joined.insert(from, OutletId::new(id, slot));
            }
            edges.push((id, made.inputs));
        }
        for (id, inputs) in edges {
            for (slot, input) in inputs.iter().enumerate() {
                self.model.add_edge(joined[input], InletId::new(id, slot))?;
            }
        }
        Ok(outlets.iter().map(|it| joined[it]).collect())
    }

    /// Adds a node that was wired for one named `owner`, or finds the same constant.
    fn append(
        &mut self,
        owner: &str,
        name: String,
        op: Box<dyn TypedOp>,
        facts: TVec<TypedFact>,
    ) -> TractResult<usize> {
        let key = op.downcast_ref::<Const>().and_then(key);
        let alike = key.as_ref().and_then(|key| self.constants.get(key));
        let same = alike.into_iter().flatten().find(|&&id| {
            let other = self.model.node(id).op_as::<Const>();
            other.is_some_and(|other| are_same(other, &*op))
        });
        if let Some(id) = same {
            return Ok(*id);
        }
        // A node's own name is among them from the start, and stays unless another node has it.
        let is_own = name == owner && self.names.count(&name) == 1;
        let name = match is_own {
            true => name,
            false => self.names.unique(&name),
        };
        self.names.add(&name);
        let id = self.model.add_node(name, op, facts)?;
        if let Some(key) = key {
            self.constants.entry(key).or_default().push(id);
        }
        Ok(id)
    }
}

/// The key of a constant; `None` if its elements are not plain, or tell not all of it.
fn key(op: &Const) -> Option<Key> {
    let value = op.val();
    if op.exotic_fact().is_some() || !value.is_plain_ram() || !value.datum_type().is_copy() {
        return None;
    }
    let bytes = value.as_bytes();
    let first = bytes[..bytes.len().min(KEY_BYTES)].to_vec();
    Some((value.datum_type(), value.shape().into(), first))
}

/// Whether two constants of one key are the same, to the bit.
fn are_same(one: &Const, other: &dyn TypedOp) -> bool {
    let other = other.downcast_ref::<Const>();
    other.is_some_and(|other| one.val().as_bytes() == other.val().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use tract_onnx::tract_core::ops::math;

    use super::*;
    use crate::operator::{Inferred, Inferring, Operator, over};

    /// Counts how often its types are inferred.
    #[derive(Clone, Debug)]
    struct Counting(Arc<AtomicUsize>);

    impl Operator for Counting {
        fn infer(&self, _node: &mut Inferring<'_>) -> Inferred {
            self.0.fetch_add(1, Relaxed);
            Ok(None)
        }
    }

    #[test]
    fn types_are_inferred_once() {
        let count = Arc::new(AtomicUsize::new(0));
        let mut model = InferenceModel::default();
        let x = model.add_source("x", InferenceFact::dt_shape(f32::datum_type(), [2, 3]));
        let op = over(math::neg().into_hir(), Counting(Arc::clone(&count)));
        let y = model.wire_node("y", op, &[x.expect("a source")]);
        model
            .select_output_outlets(&y.expect("a node"))
            .expect("it has the output");
        let typed = into_typed(model).expect("it is typed");
        assert_eq!(
            typed.output_fact(0).expect("an output").shape.as_concrete(),
            Some(&[2, 3][..])
        );
        assert_eq!(
            count.load(Relaxed),
            1,
            "the node was visited more than once"
        );
    }
}
