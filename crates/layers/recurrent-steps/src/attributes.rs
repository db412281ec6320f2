//! Attributes of nodes, as layers read them.

use recurrent_layers::{Attribute, Attributes};
use revseq_onnx::model::{AttributeProto, AttributeType};

/// The attributes of a node of ONNX's.
#[derive(Clone, Copy, Debug)]
pub struct NodeAttributes<'a>(pub &'a [AttributeProto]);

impl Attributes for NodeAttributes<'_> {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        let attribute = self.0.iter().find(|it| it.name() == name)?;
        // Some writers omit a field that is zero.
        Some(match attribute.r#type.unwrap_or_default() {
            AttributeType::INT => Attribute::Integer(attribute.i.unwrap_or_default()),
            AttributeType::FLOAT => Attribute::Float(attribute.f.unwrap_or_default()),
            AttributeType::FLOATS => Attribute::Floats(&attribute.floats),
            AttributeType::STRING => Attribute::String(attribute.s.as_deref().unwrap_or_default()),
            AttributeType::STRINGS => Attribute::Strings(&attribute.strings),
            _ => Attribute::Other,
        })
    }
}
