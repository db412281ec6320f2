//! The layers of a model that were taken.
//!
//! ONNX Runtime 1.24 shows a list of strings, such as that of the activations, while an EP chooses
//! its nodes, but not while a kernel is made. So the layers are kept, by the names of the outputs.

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use recurrent_layers::{Attention, Recurrent};
use recurrent_steps::NodeAttributes;

use super::super::schemas::{FLOAT, HALF, INT32};
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
        let attention = Attention::of(&node.op_type, &attributes);
        let attention = attention.map_err(|it| it.to_string())?;
        let most = attention.inputs().len();
        for (index, (_, input)) in node.inputs.iter().enumerate() {
            let Some(input) = input else { continue };
            if index >= most {
                return Err(format!(
                    "it has input {index}, expected {most} inputs at most"
                ));
            }
            let (known, words) = match attention.is_of_integers(index) {
                true => (&[INT32][..], "int32"),
                false => (&[HALF, FLOAT][..], "float or float16"),
            };
            if !known.contains(&input.element) {
                return Err(format!(
                    "input {} has elements of ONNXTensorElementDataType {}, expected {words}",
                    attention.inputs()[index],
                    input.element
                ));
            }
        }
        Ok(Self::Attention(attention))
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
