//! The layers of a model that were taken.
//!
//! ONNX Runtime 1.24 shows a list of strings, such as that of the activations, while an EP chooses
//! its nodes, but not while a kernel is made. So the layers are kept, by the names of the outputs.

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use recurrent_layers::{Attention, Recurrent};
use recurrent_steps::NodeAttributes;

use super::super::schemas::{FLOAT, HALF};
use crate::plugin::node::Node;

/// Whether an operator is one of layers.
pub(crate) fn is_known(domain: &str, op_type: &str) -> bool {
    Recurrent::is_known(domain, op_type) || Attention::is_known(domain, op_type)
}

/// What a node of a layer computes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operator {
    Recurrent(Recurrent),
    Attention(Attention),
}

impl Operator {
    /// Reads a node, or says why the layer is not one that is computed.
    fn of(node: &Node) -> Result<Self, String> {
        let attributes = NodeAttributes(&node.attributes);
        if Recurrent::is_known(&node.domain, &node.op_type) {
            let recurrent = Recurrent::of(&node.op_type, &attributes);
            return recurrent.map(Self::Recurrent).map_err(|it| it.to_string());
        }
        let types = node.inputs.iter().filter_map(|(_, input)| input.as_ref());
        let mut others = types.filter(|it| ![HALF, FLOAT].contains(&it.element));
        if let Some(other) = others.next() {
            return Err(format!(
                "an input has elements of ONNXTensorElementDataType {}, expected float or float16",
                other.element
            ));
        }
        let attention = Attention::of(&node.op_type, &attributes);
        attention.map(Self::Attention).map_err(|it| it.to_string())
    }
}

/// A layer that was taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(super) operator: Operator,
    /// Whether each output is read.
    pub(super) read: Vec<bool>,
}

/// The layers that were taken, by the names of their outputs.
#[derive(Debug, Default)]
pub(crate) struct TakenLayers(Mutex<Vec<(Vec<CString>, Taken)>>);

impl TakenLayers {
    /// The layer of the node with these outputs.
    pub(crate) fn get(&self, outputs: &[CString]) -> Option<Taken> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = taken.iter();
        let (_, taken) = taken.find(|(names, _)| names == outputs)?;
        Some(taken.clone())
    }

    /// Adds the layer of a node, and which of its outputs are read, or says why it is not one that is
    /// computed.
    pub(crate) fn add(&self, node: &Node, read: Vec<bool>) -> Result<(), String> {
        let operator = Operator::of(node)?;
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.iter_mut().find(|(names, _)| *names == node.outputs) {
            None => taken.push((node.outputs.clone(), Taken { operator, read })),
            // In two branches, values may have the same names.
            Some((_, known)) if known.operator == operator => {
                std::iter::zip(&mut known.read, read).for_each(|(known, read)| *known |= read);
            }
            Some(_) => return Err("another layer has outputs of the same names".to_owned()),
        }
        Ok(())
    }
}
