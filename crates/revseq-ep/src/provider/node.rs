//! Nodes of a graph, as ONNX Runtime shows them to an EP.

use std::ffi::{c_char, c_int};
use std::ptr;

use ort_sys::{OrtGraph, OrtNode, OrtOpAttr, OrtTypeInfo, OrtValueInfo};
use revseq_graph::{Attribute, AttributeValue, ElementType, Input, Node, Operator};

use crate::plugin::host::{Host, ort_try, text};
use crate::plugin::info::TypeAndSizes;
use crate::provider::error::Error;

/// The integer and the other types of attributes (`OrtOpAttrType`).
const ATTRIBUTE_TYPES: [&str; 9] = [
    "undefined",
    "int",
    "ints",
    "float",
    "floats",
    "string",
    "strings",
    "graph",
    "tensor",
];
const INT_ATTRIBUTE: usize = 1;

/// The nodes of a graph, not those of the graphs inside them.
///
/// # Safety
/// `graph` is one of this host; the nodes live as long as it does.
pub(crate) unsafe fn nodes(
    host: Host,
    graph: *const OrtGraph,
) -> Result<Vec<*const OrtNode>, Error> {
    let mut count = 0;
    // SAFETY: the caller's.
    unsafe { ort_try!(host, Graph_GetNumNodes(graph, &raw mut count)) };
    let mut nodes = vec![ptr::null(); count];
    // SAFETY: the caller's; the host writes `count` pointers.
    unsafe { ort_try!(host, Graph_GetNodes(graph, nodes.as_mut_ptr(), count)) };
    Ok(nodes)
}

/// A node of the operators, all that is known of it.
pub(crate) struct GraphNode {
    name: String,
    domain: String,
    op_type: String,
    since_version: c_int,
    attributes: Vec<(String, AttributeValue<'static>)>,
    inputs: Vec<(String, Option<TypeAndSizes>)>,
}

impl GraphNode {
    /// Reads a node if it is one of the operators and not another EP's.
    ///
    /// # Safety
    /// `node` is one of this host, alive.
    pub(crate) unsafe fn read(host: Host, node: *const OrtNode) -> Result<Option<Self>, Error> {
        let mut name = ptr::null();
        // SAFETY: the caller's; the name lives as long as the node.
        unsafe {
            ort_try!(host, Node_GetName(node, &raw mut name));
            let name = || text(name);
            Self::read_named(host, node, &name)
                .map_err(|error| error.of_node(format!("node {:?}", name())))
        }
    }

    /// # Safety
    /// As [`read`](Self::read).
    unsafe fn read_named(
        host: Host,
        node: *const OrtNode,
        name: &dyn Fn() -> String,
    ) -> Result<Option<Self>, Error> {
        let (mut domain, mut op_type) = (ptr::null(), ptr::null());
        // SAFETY: the caller's; the strings live as long as the node.
        let (domain, op_type) = unsafe {
            ort_try!(host, Node_GetDomain(node, &raw mut domain));
            ort_try!(host, Node_GetOperatorType(node, &raw mut op_type));
            (text(domain), text(op_type))
        };
        if !Operator::is_known(&domain, &op_type) {
            return Ok(None);
        }
        let (mut provider, mut since_version): (*const c_char, c_int) = (ptr::null(), 0);
        // SAFETY: as above; a node that nobody has yet has a provider without a name.
        let provider = unsafe {
            ort_try!(host, Node_GetEpName(node, &raw mut provider));
            ort_try!(host, Node_GetSinceVersion(node, &raw mut since_version));
            text(provider)
        };
        if !provider.is_empty() && provider != crate::EP_NAME_STR {
            return Ok(None);
        }
        Ok(Some(Self {
            name: name(),
            domain,
            op_type,
            since_version,
            // SAFETY: the caller's.
            attributes: unsafe { attributes(host, node) }?,
            // SAFETY: the caller's.
            inputs: unsafe { inputs(host, node) }?,
        }))
    }

    /// How messages name the node.
    pub(crate) fn label(&self) -> String {
        format!("{} node {:?}", self.op_type, self.name)
    }

    /// An input whose elements are not of a fixed size that kernels move, by
    /// its position and type.
    pub(crate) fn unmovable_input(&self) -> Option<(usize, String)> {
        let mut inputs = self.inputs.iter().enumerate();
        inputs.find_map(|(index, (_, input))| {
            let element = input.as_ref()?.element;
            match ElementType::from_onnx_code(element) {
                Some(ElementType::Fixed(_)) => None,
                Some(ElementType::String) => Some((index, String::from("string"))),
                None => Some((
                    index,
                    format!("number {element} of ONNXTensorElementDataType"),
                )),
            }
        })
    }

    /// What the node means.
    ///
    /// # Errors
    /// What its schema does not allow.
    pub(crate) fn operator(&self) -> Result<Operator, revseq_graph::Error> {
        let attributes: Vec<_> = self
            .attributes
            .iter()
            .map(|&(ref name, value)| Attribute { name, value })
            .collect();
        let sizes: Vec<_> = self
            .inputs
            .iter()
            .map(|(_, input)| input.as_ref().and_then(TypeAndSizes::known_sizes))
            .collect();
        let inputs: Vec<_> = self
            .inputs
            .iter()
            .zip(&sizes)
            .map(|((name, input), sizes)| Input {
                name,
                element_type: input
                    .as_ref()
                    .and_then(|input| ElementType::from_onnx_code(input.element)),
                shape: sizes.as_deref(),
            })
            .collect();
        Operator::from_node(&Node {
            name: &self.name,
            domain: &self.domain,
            op_type: &self.op_type,
            since_version: self.since_version.into(),
            attributes: &attributes,
            inputs: &inputs,
        })
    }
}

/// # Safety
/// As [`GraphNode::read`].
unsafe fn attributes(
    host: Host,
    node: *const OrtNode,
) -> Result<Vec<(String, AttributeValue<'static>)>, Error> {
    let mut count = 0;
    // SAFETY: the caller's.
    unsafe { ort_try!(host, Node_GetNumAttributes(node, &raw mut count)) };
    let mut attributes: Vec<*const OrtOpAttr> = vec![ptr::null(); count];
    // SAFETY: the caller's; the host writes `count` pointers.
    unsafe {
        ort_try!(
            host,
            Node_GetAttributes(node, attributes.as_mut_ptr(), count)
        )
    };
    let mut read = Vec::with_capacity(count);
    for attribute in attributes {
        let (mut name, mut kind): (*const c_char, c_int) = (ptr::null(), 0);
        // SAFETY: the attribute lives as long as the node; an `OrtOpAttrType` is a C enum.
        let name = unsafe {
            ort_try!(host, OpAttr_GetName(attribute, &raw mut name));
            ort_try!(host, OpAttr_GetType(attribute, (&raw mut kind).cast()));
            text(name)
        };
        let kind = usize::try_from(kind).unwrap_or_default();
        let value = if kind == INT_ATTRIBUTE {
            let (mut value, mut size) = (0_i64, 0_usize);
            // SAFETY: as above; there are as many bytes to write to as are said.
            unsafe {
                ort_try!(
                    host,
                    ReadOpAttr(
                        attribute,
                        ort_sys::OrtOpAttrType::ORT_OP_ATTR_INT,
                        (&raw mut value).cast(),
                        size_of::<i64>(),
                        &raw mut size
                    )
                );
            }
            AttributeValue::Int(value)
        } else {
            AttributeValue::Other(ATTRIBUTE_TYPES.get(kind).unwrap_or(&"an unknown type"))
        };
        read.push((name, value));
    }
    Ok(read)
}

/// # Safety
/// As [`GraphNode::read`].
unsafe fn inputs(
    host: Host,
    node: *const OrtNode,
) -> Result<Vec<(String, Option<TypeAndSizes>)>, Error> {
    let mut count = 0;
    // SAFETY: the caller's.
    unsafe { ort_try!(host, Node_GetNumInputs(node, &raw mut count)) };
    let mut values: Vec<*const OrtValueInfo> = vec![ptr::null(); count];
    // SAFETY: the caller's; the host writes `count` pointers.
    unsafe { ort_try!(host, Node_GetInputs(node, values.as_mut_ptr(), count)) };
    let mut read = Vec::with_capacity(count);
    for value in values {
        if value.is_null() {
            read.push((String::new(), None));
            continue;
        }
        let (mut name, mut info): (*const c_char, *const OrtTypeInfo) = (ptr::null(), ptr::null());
        // SAFETY: the value and its type live as long as the node.
        unsafe {
            ort_try!(host, GetValueInfoName(value, &raw mut name));
            ort_try!(host, GetValueInfoTypeInfo(value, &raw mut info));
            read.push((text(name), TypeAndSizes::read(host, info)?));
        }
    }
    Ok(read)
}
