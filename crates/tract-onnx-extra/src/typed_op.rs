//! What typed operators repeat.

use tract_onnx::tract_hir::internal::*;

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

/// A typed operator that has a name, and may define symbols when it runs.
macro_rules! named_op {
    ($op:ty, $name:literal $(, $mints:ident)?) => {
        impl Op for $op {
            fn name(&self) -> StaticName {
                $name.into()
            }

            $(fn $mints(&self) -> bool {
                true
            })?

            op_as_typed_op!();
        }
    };
}

/// In an operator, replaces symbols in some of its fields, or by a method, where a model gets sizes.
macro_rules! substitutes {
    ($($field:ident),+) => {
        substitutes!(by |op, subs| {
            let mut op = op.clone();
            $(op.$field = $crate::typed_op::Sizes::substituted(&op.$field, subs)?;)+
            TractResult::Ok(op)
        });
    };
    (by $substituted:expr) => {
        fn set_symbols(
            &self,
            _source: &TypedModel,
            node: &TypedNode,
            target: &mut TypedModel,
            mapping: &HashMap<OutletId, OutletId>,
            subs: &HashMap<Symbol, TDim>,
        ) -> TractResult<TVec<OutletId>> {
            let substituted: fn(&Self, &HashMap<Symbol, TDim>) -> TractResult<Self> = $substituted;
            let inputs: TVec<OutletId> = node.inputs.iter().map(|it| mapping[it]).collect();
            target.wire_node(&node.name, substituted(self, subs)?, &inputs)
        }
    };
}

/// In an operator that changes elements alone, says that it knows no axes.
macro_rules! passes_axes {
    () => {
        fn axes_mapping(
            &self,
            inputs: &[&TypedFact],
            outputs: &[&TypedFact],
        ) -> TractResult<AxesMapping> {
            AxesMapping::natural(inputs, outputs)
        }

        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: InOut,
            change: &AxisOp,
        ) -> TractResult<Option<AxisChangeConsequence>> {
            Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
        }
    };
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
