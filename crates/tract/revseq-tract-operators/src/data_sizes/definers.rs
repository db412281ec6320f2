//! The nodes that give symbols their numbers, kept for all that need these.
//!
//! What reads only a value's shape loses its edge to the value, and the value's node is dropped
//! when nothing else reads it. This runs before a model is optimised, while dropped nodes are still
//! in it.
//!
//! ```text
//! y = Expand(a, Shape(Compress(x)))  →  y = Expand(After(a, Compress(x)), [size])
//! ```

use std::collections::HashSet;

use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{in_numbers, symbols_of};
use crate::dims::in_dims;
use crate::typed_op::{Stateless, Typed};

/// Makes every symbol that a model needs known when it runs.
///
/// tract knows the shape of a value before it runs, so that what reads only the shape does not
/// depend on the value. If the sizes come from data, the node that makes them has to run
/// nevertheless: whatever needs such a symbol is made to depend on it.
pub(crate) fn keep_definers(model: &mut TypedModel) -> TractResult<()> {
    // Nodes that are kept may need further symbols.
    while keep_some(model)? {}
    Ok(())
}

/// Makes outputs that are sizes int64, as ONNX has them.
pub(crate) fn sizes_in_numbers(model: &mut TypedModel) -> TractResult<()> {
    for index in 0..model.outputs.len() {
        let output = model.outputs[index];
        if !model.outlet_fact(output)?.datum_type.is_tdim() {
            continue;
        }
        let name = format!("{}.numbers", model.node(output.node).name);
        let name = model.unique_name(name).into_owned();
        let label = model.outlet_label(output).map(str::to_owned);
        let numbers = model.wire_node(name, Typed(InNumbers::Int64), &[output])?[0];
        if let Some(label) = label {
            model.set_outlet_label(numbers, label)?;
        }
        model.outputs[index] = numbers;
    }
    Ok(())
}

/// The symbols that a node gives numbers, with the outlets whose sizes they are. It has those of its
/// inputs from elsewhere.
fn defined(model: &TypedModel, node: &TypedNode) -> TractResult<Vec<(Symbol, OutletId)>> {
    if !node.op.mints_runtime_symbols() {
        return Ok(vec![]);
    }
    let facts = model.node_input_facts(node.id)?;
    let of_inputs: Vec<Symbol> = facts.into_iter().flat_map(symbols_of).collect();
    let outputs = node.outputs.iter().enumerate().flat_map(|(slot, output)| {
        let outlet = OutletId::new(node.id, slot);
        output.fact.shape.iter().filter_map(move |size| match size {
            TDim::Sym(symbol) => Some((symbol.clone(), outlet)),
            _ => None,
        })
    });
    Ok(outputs
        .filter(|(symbol, _)| !of_inputs.contains(symbol))
        .collect())
}

/// Makes one node depend on the definers of its symbols; whether there was one.
fn keep_some(model: &mut TypedModel) -> TractResult<bool> {
    let order = model.eval_order()?;
    let live: HashSet<usize> = order.iter().copied().collect();
    let mut definers: HashMap<Symbol, OutletId> = HashMap::new();
    // What is in use comes first.
    let dropped = model.nodes().iter().filter(|node| !live.contains(&node.id));
    let used = order.iter().map(|id| model.node(*id));
    for node in used.chain(dropped) {
        for (symbol, outlet) in defined(model, node)? {
            definers.entry(symbol).or_insert(outlet);
        }
    }
    for input in &model.inputs {
        for symbol in symbols_of(model.outlet_fact(*input)?) {
            definers.remove(&symbol);
        }
    }
    if definers.is_empty() {
        return Ok(false);
    }
    for id in order {
        let node = model.node(id);
        if node.inputs.is_empty() {
            continue;
        }
        let facts = model.node_input_facts(id)?;
        let mut needed: Vec<Symbol> = node.op.required_bound_symbols(&facts).into_vec();
        let outputs = node.outputs.iter().map(|output| &output.fact);
        needed.extend(outputs.flat_map(symbols_of));
        let of = |symbol: &Symbol| definers.get(symbol).copied();
        let dropped = needed.iter().filter_map(of);
        let dropped = dropped.filter(|outlet| !live.contains(&outlet.node));
        // A constant of symbols has no inputs that could depend on anything, and what is in use now may be
        // dropped when the model is optimised.
        let constants = std::iter::zip(&node.inputs, facts)
            .filter(|(input, _)| model.node(input.node).op_is::<Const>());
        let of_constants = constants.flat_map(|(_, fact)| symbols_of(fact));
        let apart = of_constants.filter_map(|symbol| of(&symbol));
        let apart = apart.filter(|outlet| {
            let mut inputs = node.inputs.iter();
            !inputs.any(|input| crate::wire::reads(model, *input, |it| it.node == outlet.node))
        });
        let mut kept: Vec<OutletId> = dropped.chain(apart).collect();
        kept.sort_unstable();
        kept.dedup();
        kept.retain(|outlet| !crate::wire::reads(model, *outlet, |it| it.node == id));
        if kept.is_empty() {
            continue;
        }
        let is_sizes = |input: &OutletId| {
            let fact = model.outlet_fact(*input);
            fact.is_ok_and(|fact| fact.datum_type.is_tdim())
        };
        let slot = node.inputs.iter().position(|input| !is_sizes(input));
        let slot = slot.unwrap_or(0);
        let mut inputs = tvec![node.inputs[slot]];
        inputs.extend(kept);
        let name = format!("{}.after", node.name);
        let name = model.unique_name(name).into_owned();
        let after = model.wire_node(name, Typed(After), &inputs)?[0];
        model.add_edge(after, InletId::new(id, slot))?;
        return Ok(true);
    }
    Ok(false)
}

/// Passes its first input on, after the others have been computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct After;

impl Stateless for After {
    const NAME: &str = "After";
    const FOLDS: bool = false;

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs.into_iter().take(1).collect())
    }
}

/// Sizes in numbers, which are known as expressions before: as int64, or in tract's type of sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InNumbers {
    Int64,
    Sizes,
}

impl Stateless for InNumbers {
    const NAME: &str = "InNumbers";
    const FOLDS: bool = false;

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let numbers = in_numbers(args_1!(inputs), ctx.symbols)?;
        Ok(tvec![match self {
            Self::Int64 => numbers,
            Self::Sizes => in_dims(&numbers)?.into_tvalue(),
        }])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![match self {
            Self::Int64 => i64::fact(inputs[0].shape.clone()),
            Self::Sizes => inputs[0].clone(),
        }])
    }
}
