//! Typed operators: most have no state, and say what sets them apart alone.

use std::fmt;

use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::symbols_of;

/// Makes operators of a type never equal: tract keeps one of two nodes whose operators are equal and which
/// read the same inputs, also if they hold models, states or a place.
macro_rules! never_equal {
    ($op:ty $(, $parameter:ident)?) => {
        impl$(<$parameter>)? PartialEq for $op {
            fn eq(&self, _other: &Self) -> bool {
                false
            }
        }

        impl$(<$parameter>)? Eq for $op {}
    };
}

/// In a stateless operator, replaces symbols in some of its fields where a model gets sizes.
macro_rules! substitutes {
    ($($field:ident),+) => {
        fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
            let mut op = self.clone();
            $(op.$field = $crate::typed_op::Sizes::substituted(&self.$field, subs)?;)+
            Ok(op)
        }
    };
}

/// A typed operator that computes its outputs from its inputs alone; [`Typed`] is tract's operator.
pub(crate) trait Stateless: Clone + fmt::Debug + Eq + Send + Sync + 'static {
    const NAME: &str;
    /// Whether outputs of constants are constants: not if it needs what only a run knows.
    const FOLDS: bool = true;
    /// Whether it changes elements alone, and knows no axes.
    const PASSES_AXES: bool = false;

    fn name(&self) -> StaticName {
        Self::NAME.into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![])
    }

    /// Whether a size of its outputs is a symbol that gets its number when it has run. A constant would not
    /// give it one.
    fn defines_symbols(&self) -> bool {
        false
    }

    /// The symbols whose numbers it needs, besides those of its outputs.
    fn required_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        inputs.iter().flat_map(|fact| symbols_of(fact)).collect()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>>;

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let folds = Self::FOLDS && !self.defines_symbols();
        let eval = || self.eval(&EvalContext::out_of_plan(), inputs);
        folds.then(eval).transpose()
    }

    /// Whether its output is its first input.
    fn forwards_input(&self) -> bool {
        false
    }

    /// The facts of its outputs: by default a value of the type and sizes of its first input.
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![inputs[0].without_value()])
    }

    /// The same with others in place of symbols.
    fn substituted(&self, _subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        Ok(self.clone())
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match Self::PASSES_AXES {
            true => AxesMapping::natural(inputs, outputs),
            false => AxesMapping::disconnected(inputs, outputs),
        }
    }

    /// The operator once the axes of its first input and of its output have changed; `None` if there is none.
    fn with_axes(&self, _inputs: &[&TypedFact], _change: &AxisOp) -> Option<Self> {
        Self::PASSES_AXES.then(|| self.clone())
    }

    fn declutter(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        Ok(None)
    }
}

/// A [`Stateless`] operator in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed<T>(pub(crate) T);

impl<T: Stateless> Op for Typed<T> {
    fn name(&self) -> StaticName {
        self.0.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.0.info()
    }

    fn mints_runtime_symbols(&self) -> bool {
        self.0.defines_symbols()
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        self.0.required_symbols(inputs)
    }

    op_as_typed_op!();
}

impl<T: Stateless> EvalOp for Typed<T> {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.0.eval(ctx, inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.0.eval_out_of_plan(inputs)
    }

    fn forwards_input(&self) -> Option<usize> {
        self.0.forwards_input().then_some(0)
    }
}

impl<T: Stateless> TypedOp for Typed<T> {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        self.0.axes_mapping(inputs, outputs)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        let changing = [InOut::In(0), InOut::Out(0)];
        rule_if!(changing.contains(&io));
        rule_if_some!(op = self.0.with_axes(&model.node_input_facts(node.id)?, change));
        let substitute: Option<Box<dyn TypedOp>> = match op == self.0 {
            true => None,
            false => Some(Box::new(Self(op))),
        };
        Ok(Some(AxisChangeConsequence {
            substitute_op: substitute,
            wire_changes: changing
                .map(|io| (io, change.clone()))
                .into_iter()
                .collect(),
        }))
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        rewired(Self(self.0.substituted(subs)?), node, target, mapping)
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        self.0.declutter(model, node)
    }

    as_op!();
}

/// Wires an operator in the place of a node.
pub(crate) fn rewired(
    op: impl TypedOp,
    node: &TypedNode,
    target: &mut TypedModel,
    mapping: &HashMap<OutletId, OutletId>,
) -> TractResult<TVec<OutletId>> {
    let inputs: TVec<OutletId> = node.inputs.iter().map(|it| mapping[it]).collect();
    target.wire_node(&node.name, op, &inputs)
}

/// The facts of the output of a function of two values that broadcast.
pub(crate) fn broadcast_facts(
    datum_type: DatumType,
    inputs: &[&TypedFact],
) -> TractResult<TVec<TypedFact>> {
    let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
    Ok(tvec![datum_type.fact(shape)])
}

/// Sizes that may have symbols.
pub(crate) trait Sizes: Sized {
    /// The same with others in place of symbols.
    fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self>;
}

impl Sizes for TDim {
    fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        self.substitute_all(subs)
    }
}

impl Sizes for TVec<TDim> {
    fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        self.iter().map(|size| size.substitute_all(subs)).collect()
    }
}

impl Sizes for TypedFact {
    fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        let shape = self.shape.to_tvec().substituted(subs)?;
        Ok(self.datum_type.fact(shape))
    }
}

/// The symbols that the nodes of a body need as numbers.
pub(crate) fn bound_symbols(body: &TypedModel) -> impl Iterator<Item = Symbol> {
    body.nodes().iter().flat_map(|node| {
        let facts = body.node_input_facts(node.id);
        facts.map_or(tvec![], |facts| node.op.required_bound_symbols(&facts))
    })
}
