//! Programs of loops in a typed model.

use recurrent_steps::{Around, Steps};
use revseq_onnx::proto::TensorProto;
use tract_onnx::tract_hir::internal::*;

use super::op::{Made, Program};
use super::other::Other;
use super::source::{Source, code};
use crate::limits::Limits;
use crate::typed_op::Typed;

/// A program that is not wired yet.
pub(crate) struct Ready {
    steps: Steps,
    /// The input of the node that each of its inputs is.
    slots: Vec<usize>,
}

impl Ready {
    /// Reads a node with these inputs, of whose outputs these are made, or says why there is no program.
    pub(crate) fn read(
        source: &Source,
        inputs: &[&TypedFact],
        made: &[Made],
    ) -> Result<Self, String> {
        let around = OfModel {
            source,
            facts: inputs,
        };
        let mut node = source.node.clone();
        for (index, output) in node.output.iter_mut().enumerate() {
            if made.iter().all(|(known, _)| *known != index) {
                output.clear();
            }
        }
        let steps = Steps::read(&node, source.opset, &around)?;
        let slot = |name: &str| {
            let slot = source.slot(name);
            slot.ok_or_else(|| format!("it reads {name:?}, which is not known"))
        };
        let slots: Result<_, String> = steps.inputs().map(|(name, _)| slot(name)).collect();
        Ok(Self {
            slots: slots?,
            steps,
        })
    }

    /// Wires the program, which makes these outputs in the place of the other loop.
    pub(crate) fn wire(
        self,
        (target, inputs): (&mut TypedModel, &[OutletId]),
        name: &str,
        made: Vec<Made>,
        limits: Limits,
        other: Other,
    ) -> TractResult<TVec<OutletId>> {
        let mut slots: Vec<usize> = other.inputs.clone();
        slots.extend(
            self.slots
                .iter()
                .filter(|slot| !other.inputs.contains(slot)),
        );
        let place = |slot: &usize| slots.iter().position(|it| it == slot);
        let reads = self.slots.iter().map(place).collect::<Option<_>>();
        let op = Program {
            node: name.to_owned(),
            steps: Arc::new(self.steps),
            reads: reads.context("all that it reads is an input")?,
            outputs: made,
            limits,
            other: Arc::new(other),
        };
        let slots: TVec<OutletId> = slots.into_iter().map(|slot| inputs[slot]).collect();
        let name = target.unique_name(name).into_owned();
        target.wire_node(name, Typed(op), &slots)
    }
}

/// The values around a loop.
struct OfModel<'a> {
    source: &'a Source,
    facts: &'a [&'a TypedFact],
}

impl<'a> OfModel<'a> {
    fn fact(&self, name: &str) -> Option<&'a TypedFact> {
        self.facts.get(self.source.slot(name)?).copied()
    }

    /// The type in ONNX of a value that has another one in tract.
    fn datum_type(&self, name: &str, known: DatumType) -> DatumType {
        match known.is_tdim() {
            true => self.source.integer(name),
            false => known,
        }
    }
}

impl Around for OfModel<'_> {
    fn code(&self, name: &str) -> Option<i32> {
        code(self.datum_type(name, self.fact(name)?.datum_type))
    }

    fn constant(&self, name: &str) -> Option<TensorProto> {
        let value = self.fact(name)?.konst.as_ref()?;
        // A size may be a symbol.
        let value = value.cast_to_dt(self.datum_type(name, value.datum_type()));
        let value = value.ok()?;
        let sizes = value.shape().iter().map(|&size| i64::try_from(size));
        Some(TensorProto {
            name: Some(name.to_owned()),
            data_type: Some(code(value.datum_type())?),
            dims: sizes.collect::<Result<_, _>>().ok()?,
            raw_data: Some(value.try_as_plain_ram().ok()?.as_bytes().to_vec()),
            ..TensorProto::default()
        })
    }
}
