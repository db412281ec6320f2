//! Nodes of a graph, as ONNX Runtime shows them to an EP.

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::ptr;

use ort_sys::{OrtGraph, OrtNode, OrtOpAttr, OrtOpAttrType, OrtTypeInfo, OrtValueInfo};

use super::error::Error;
use super::host::{Host, ort_status, ort_try, text};
use super::node::{Attribute, Node, TypeAndSizes};

/// The types of attributes, by their `OrtOpAttrType`.
const ATTRIBUTE_TYPES: [&str; 9] = [
    "undefined",
    "integer",
    "list of integers",
    "float",
    "list of floats",
    "string",
    "list of strings",
    "graph",
    "tensor",
];
const INTEGER: usize = 1;
const FLOAT: usize = 3;
const FLOATS: usize = 4;
const STRING: usize = 5;
const STRINGS: usize = 6;

/// A string of a node.
macro_rules! string {
    ($node:ident, $function:ident) => {{
        let mut string: *const c_char = ptr::null();
        // SAFETY: the node and its strings live as long as the graph.
        unsafe {
            ort_try!($node.host, $function($node.node, &raw mut string));
            text(string)
        }
    }};
}

/// Reads a list of an object with the functions for its length and its items.
/// The caller guarantees that the object is alive.
macro_rules! list {
    ($host:ident, $of:ident, $number:ident, $get:ident) => {{
        let mut count = 0;
        ort_try!($host, $number($of, &raw mut count));
        let mut list = vec![ptr::null(); count];
        ort_try!($host, $get($of, list.as_mut_ptr(), count));
        list
    }};
}

/// A node of a graph that lives for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct GraphNode<'a> {
    host: Host,
    node: *const OrtNode,
    graph: PhantomData<&'a OrtGraph>,
}

/// The nodes of a graph, without those of nested graphs.
///
/// # Safety
/// `graph` is one of this host, alive for `'a`.
pub(crate) unsafe fn nodes<'a>(
    host: Host,
    graph: *const OrtGraph,
) -> Result<Vec<GraphNode<'a>>, Error> {
    // SAFETY: the caller's.
    let nodes = unsafe { list!(host, graph, Graph_GetNumNodes, Graph_GetNodes) };
    let node = |node| GraphNode {
        host,
        node,
        graph: PhantomData,
    };
    Ok(nodes.into_iter().map(node).collect())
}

impl GraphNode<'_> {
    pub(crate) fn as_ptr(self) -> *const OrtNode {
        self.node
    }

    /// The node's name.
    pub(crate) fn name(self) -> Result<String, Error> {
        Ok(string!(self, Node_GetName))
    }

    /// The domain and the type of the node's operator.
    pub(crate) fn operator(self) -> Result<(String, String), Error> {
        Ok((
            string!(self, Node_GetDomain),
            string!(self, Node_GetOperatorType),
        ))
    }

    /// The EP that has the node; empty if no EP has it yet.
    pub(crate) fn ep_name(self) -> Result<String, Error> {
        Ok(string!(self, Node_GetEpName))
    }

    /// Reads all of the node.
    pub(crate) fn read(self) -> Result<Node, Error> {
        let (host, node, mut since_version) = (self.host, self.node, 0);
        // SAFETY: the node lives as long as the graph.
        unsafe { ort_try!(host, Node_GetSinceVersion(node, &raw mut since_version)) };
        let (domain, op_type) = self.operator()?;
        Ok(Node {
            name: self.name()?,
            domain,
            op_type,
            since_version,
            attributes: self.attributes()?,
            inputs: self.inputs()?,
            outputs: self.outputs()?,
        })
    }

    fn attributes(self) -> Result<Vec<(String, Attribute)>, Error> {
        let (host, node) = (self.host, self.node);
        // SAFETY: the node lives as long as the graph.
        let attributes: Vec<*const OrtOpAttr> =
            unsafe { list!(host, node, Node_GetNumAttributes, Node_GetAttributes) };
        let mut read = Vec::with_capacity(attributes.len());
        for attribute in attributes {
            let (mut name, mut kind): (*const c_char, c_int) = (ptr::null(), 0);
            // SAFETY: the attribute lives as long as the node; an `OrtOpAttrType` is a C enum.
            let name = unsafe {
                ort_try!(host, OpAttr_GetName(attribute, &raw mut name));
                ort_try!(host, OpAttr_GetType(attribute, (&raw mut kind).cast()));
                text(name)
            };
            // SAFETY: the attribute lives as long as the node.
            let value = unsafe { self.attribute(attribute, kind) }?;
            read.push((name, value));
        }
        Ok(read)
    }

    /// The value of an attribute of this `OrtOpAttrType`.
    ///
    /// # Safety
    /// `attribute` is one of this host.
    unsafe fn attribute(
        self,
        attribute: *const OrtOpAttr,
        kind: c_int,
    ) -> Result<Attribute, Error> {
        use OrtOpAttrType as Type;
        let strings = |bytes: &[u8]| -> Vec<String> {
            let strings = bytes.split_inclusive(|byte| *byte == 0);
            let strings = strings.map(|it| it.strip_suffix(&[0]).unwrap_or(it));
            strings
                .map(|it| String::from_utf8_lossy(it).into_owned())
                .collect()
        };
        let floats = |bytes: &[u8]| -> Vec<f32> {
            let (floats, _) = bytes.as_chunks();
            floats.iter().map(|it| f32::from_ne_bytes(*it)).collect()
        };
        let kind = usize::try_from(kind).unwrap_or_default();
        // SAFETY: the caller's.
        let bytes = |kind| unsafe { self.bytes(attribute, kind) };
        Ok(match kind {
            INTEGER => {
                let bytes = bytes(Type::ORT_OP_ATTR_INT)?;
                let value = bytes.try_into().map(i64::from_ne_bytes);
                value.map_or(Attribute::Other(ATTRIBUTE_TYPES[kind]), Attribute::Int)
            }
            FLOAT => match floats(&bytes(Type::ORT_OP_ATTR_FLOAT)?).first() {
                Some(value) => Attribute::Float(*value),
                None => Attribute::Other(ATTRIBUTE_TYPES[kind]),
            },
            FLOATS => Attribute::Floats(floats(&bytes(Type::ORT_OP_ATTR_FLOATS)?)),
            STRING => {
                let bytes = bytes(Type::ORT_OP_ATTR_STRING)?;
                Attribute::String(strings(&bytes).into_iter().next().unwrap_or_default())
            }
            STRINGS => Attribute::Strings(strings(&bytes(Type::ORT_OP_ATTR_STRINGS)?)),
            _ => Attribute::Other(ATTRIBUTE_TYPES.get(kind).unwrap_or(&"unknown")),
        })
    }

    /// The bytes of an attribute of this type.
    ///
    /// # Safety
    /// `attribute` is one of this host.
    unsafe fn bytes(
        self,
        attribute: *const OrtOpAttr,
        kind: OrtOpAttrType,
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0_u8; size_of::<i64>()];
        let mut size = 0;
        let read = |bytes: &mut Vec<u8>, size: &mut usize| {
            let (to, len) = (bytes.as_mut_ptr().cast(), bytes.len());
            // SAFETY: the caller's; the buffer has the declared number of bytes.
            unsafe { ort_status!(self.host, ReadOpAttr(attribute, kind, to, len, size)) }
        };
        // A buffer that is too small is a status, with the size that is needed.
        let status = read(&mut bytes, &mut size);
        if size <= bytes.len() {
            self.host.check("ReadOpAttr", status)?;
        } else {
            drop(self.host.check("ReadOpAttr", status));
            bytes.resize(size, 0);
            let status = read(&mut bytes, &mut size);
            self.host.check("ReadOpAttr", status)?;
        }
        bytes.truncate(size);
        Ok(bytes)
    }

    fn outputs(self) -> Result<Vec<String>, Error> {
        let (host, node) = (self.host, self.node);
        // SAFETY: the node lives as long as the graph.
        let values: Vec<*const OrtValueInfo> =
            unsafe { list!(host, node, Node_GetNumOutputs, Node_GetOutputs) };
        // SAFETY: the values live as long as the node.
        let names = values
            .into_iter()
            .map(|value| unsafe { self.value_name(value) });
        names.collect()
    }

    /// The name of an input or output; one that is left out has none.
    ///
    /// # Safety
    /// `value` is null or one of this host.
    unsafe fn value_name(self, value: *const OrtValueInfo) -> Result<String, Error> {
        if value.is_null() {
            return Ok(String::new());
        }
        let (host, mut name): (Host, *const c_char) = (self.host, ptr::null());
        // SAFETY: the caller's.
        unsafe {
            ort_try!(host, GetValueInfoName(value, &raw mut name));
            Ok(text(name))
        }
    }

    fn inputs(self) -> Result<Vec<(String, Option<TypeAndSizes>)>, Error> {
        let (host, node) = (self.host, self.node);
        // SAFETY: the node lives as long as the graph.
        let values: Vec<*const OrtValueInfo> =
            unsafe { list!(host, node, Node_GetNumInputs, Node_GetInputs) };
        let mut read = Vec::with_capacity(values.len());
        for value in values {
            if value.is_null() {
                read.push((String::new(), None));
                continue;
            }
            let mut info: *const OrtTypeInfo = ptr::null();
            // SAFETY: the value and its type live as long as the node.
            unsafe {
                let name = self.value_name(value)?;
                ort_try!(host, GetValueInfoTypeInfo(value, &raw mut info));
                read.push((name, TypeAndSizes::read(host, info)?));
            }
        }
        Ok(read)
    }
}
