//! A graph and its nodes, as ONNX Runtime shows them to an EP.

use std::ffi::{CString, c_int};
use std::marker::PhantomData;
use std::ptr;

use ort_sys::{OrtGraph, OrtNode, OrtOpAttr, OrtOpAttrType, OrtValue, OrtValueInfo};
use revseq_onnx::model::{self, AttributeProto, AttributeType, TensorProto};

use super::error::Error;
use super::host::{Host, name, ort_get, ort_own, ort_status, ort_try, text};
use super::node::{Node, TypeAndSizes};
use super::tensor::{Tensor, bytes};

/// The types of attributes, by their `OrtOpAttrType`.
const TYPES: [AttributeType; 9] = [
    AttributeType::UNDEFINED,
    AttributeType::INT,
    AttributeType::INTS,
    AttributeType::FLOAT,
    AttributeType::FLOATS,
    AttributeType::STRING,
    AttributeType::STRINGS,
    AttributeType::GRAPH,
    AttributeType::TENSOR,
];
/// How the host's words begin for an attribute without a value.
const NO_VALUE: &str = "Attribute has no";

/// A string of a node.
macro_rules! string {
    ($node:ident, $function:ident) => {
        // SAFETY: the node and its strings live as long as the graph.
        unsafe { text(ort_get!($node.host, $function($node.node))) }
    };
}

/// Reads a list of an object with the functions for its length and its items.
/// The caller guarantees that the object is alive.
macro_rules! list {
    ($host:expr, $of:expr, $number:ident, $get:ident) => {{
        let count = ort_get!($host, $number($of));
        let mut list = vec![ptr::null(); count];
        ort_try!($host, $get($of, list.as_mut_ptr(), count));
        list
    }};
}

/// Reads a list of values of a graph or a node, which are alive as long as the whole graph.
macro_rules! values {
    ($of:ident.$object:ident, $number:ident, $get:ident) => {{
        // SAFETY: the graph is alive.
        let values = unsafe { list!($of.host, $of.$object, $number, $get) };
        Ok(Value::all($of.host, values))
    }};
}

/// A graph that lives for `'a`.
#[derive(Clone, Copy)]
pub struct Graph<'a> {
    host: Host,
    graph: *const OrtGraph,
    life: PhantomData<&'a OrtGraph>,
}

/// The node that a graph is in; null if there is none.
///
/// # Safety
/// The graph is one of this host that is alive.
unsafe fn parent(host: Host, graph: *const OrtGraph) -> Result<*const OrtNode, Error> {
    // SAFETY: the caller's.
    Ok(unsafe { ort_get!(host, Graph_GetParentNode(graph)) })
}

/// A value of a graph that lives for `'a`; null if an input or output is left out.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    host: Host,
    value: *const OrtValueInfo,
    life: PhantomData<&'a OrtGraph>,
}

/// A node of a graph that lives for `'a`.
#[derive(Clone, Copy)]
pub struct GraphNode<'a> {
    host: Host,
    node: *const OrtNode,
    life: PhantomData<&'a OrtGraph>,
}

impl<'a> Graph<'a> {
    /// # Safety
    /// `graph` is one of this host, alive for `'a`.
    pub unsafe fn new(host: Host, graph: *const OrtGraph) -> Self {
        Self {
            host,
            graph,
            life: PhantomData,
        }
    }

    /// The nodes, without those of nested graphs, each after those whose outputs it reads.
    pub fn nodes(self) -> Result<Vec<GraphNode<'a>>, Error> {
        // SAFETY: the graph is alive.
        let nodes = unsafe { list!(self.host, self.graph, Graph_GetNumNodes, Graph_GetNodes) };
        let node = |node| GraphNode {
            host: self.host,
            node,
            life: PhantomData,
        };
        Ok(nodes.into_iter().map(node).collect())
    }

    /// The inputs, initializers among them that a caller may replace.
    pub fn inputs(self) -> Result<Vec<Value<'a>>, Error> {
        values!(self.graph, Graph_GetNumInputs, Graph_GetInputs)
    }

    /// The graph's outputs.
    pub fn outputs(self) -> Result<Vec<Value<'a>>, Error> {
        values!(self.graph, Graph_GetNumOutputs, Graph_GetOutputs)
    }

    /// The graph's constants.
    pub fn initializers(self) -> Result<Vec<Value<'a>>, Error> {
        values!(self.graph, Graph_GetNumInitializers, Graph_GetInitializers)
    }

    /// The names of the nodes that the graph is in, from the outside in.
    pub fn around(self) -> Result<Vec<String>, Error> {
        let mut around = Vec::new();
        let (host, mut graph) = (self.host, self.graph);
        while !graph.is_null() {
            // SAFETY: the graph is alive, and so are those around it.
            let node = unsafe { parent(host, graph)? };
            if node.is_null() {
                break;
            }
            // SAFETY: the node is one of a graph around.
            unsafe {
                around.push(GraphNode::new(host, node).name()?);
                graph = ort_get!(host, Node_GetGraph(node));
            }
        }
        around.reverse();
        Ok(around)
    }

    /// Whether it is a graph in a node.
    pub fn is_inner(self) -> Result<bool, Error> {
        // SAFETY: the graph is alive.
        let node = unsafe { parent(self.host, self.graph)? };
        Ok(!node.is_null())
    }

    /// The version of the model's format.
    pub fn ir_version(self) -> Result<i64, Error> {
        // SAFETY: the graph is alive.
        Ok(unsafe { ort_get!(self.host, Graph_GetOnnxIRVersion(self.graph)) })
    }

    /// The domains of operators, each with its version.
    pub fn operator_sets(self) -> Result<Vec<(String, i64)>, Error> {
        let (host, graph) = (self.host, self.graph);
        // SAFETY: the graph is alive, and so are the names; both lists have as many places as there are
        // domains.
        unsafe {
            let count = ort_get!(host, Graph_GetNumOperatorSets(graph));
            let (mut names, mut versions) = (vec![ptr::null(); count], vec![0; count]);
            ort_try!(
                host,
                Graph_GetOperatorSets(graph, names.as_mut_ptr(), versions.as_mut_ptr(), count)
            );
            let names = names.into_iter().map(|name| text(name));
            Ok(names.zip(versions).collect())
        }
    }
}

impl<'a> Value<'a> {
    fn all(host: Host, values: Vec<*const OrtValueInfo>) -> Vec<Self> {
        let values = values.into_iter();
        let life = PhantomData;
        values.map(|value| Self { host, value, life }).collect()
    }

    /// The name; empty if the value is left out.
    ///
    /// # Errors
    /// [`Error::Name`]. Different names that are not UTF-8 are alike as text.
    pub fn name(self) -> Result<String, Error> {
        let name = self.bytes_of_name()?.into_string();
        name.map_err(|error| Error::Name {
            name: error.into_cstring(),
        })
    }

    /// The bytes of the name; none if the value is left out.
    pub fn bytes_of_name(self) -> Result<CString, Error> {
        if self.value.is_null() {
            return Ok(CString::default());
        }
        // SAFETY: the value and its name live as long as the graph.
        Ok(unsafe { name(ort_get!(self.host, GetValueInfoName(self.value))) })
    }

    /// The type; `None` if it is not a tensor's.
    pub fn tensor_type(self) -> Result<Option<TypeAndSizes>, Error> {
        if self.value.is_null() {
            return Ok(None);
        }
        // SAFETY: the value and its type live as long as the graph.
        unsafe {
            let info = ort_get!(self.host, GetValueInfoTypeInfo(self.value));
            TypeAndSizes::read(self.host, info)
        }
    }

    /// Whether a node reads it, itself or in its graphs, or it is an output of the graph.
    pub fn is_read(self) -> Result<bool, Error> {
        // SAFETY: the value lives as long as the graph.
        unsafe {
            Ok(!self.value.is_null()
                && (ort_get!(self.host, ValueInfo_IsGraphOutput(self.value))
                    || ort_get!(self.host, ValueInfo_GetValueNumConsumers(self.value)) > 0_usize))
        }
    }

    /// Whether it is an initializer that no caller may replace.
    pub fn is_constant(self) -> Result<bool, Error> {
        // SAFETY: the value lives as long as the graph.
        unsafe {
            Ok(!self.value.is_null()
                && ort_get!(self.host, ValueInfo_IsConstantInitializer(self.value)))
        }
    }

    /// The constant that an initializer is; `None` if it is none.
    ///
    /// # Errors
    /// If the value is one of a graph around which has its data in a file.
    pub fn constant(self) -> Result<Option<Constant<'a>>, Error> {
        let Self { host, value, .. } = self;
        if !self.is_constant()? {
            return Ok(None);
        }
        // SAFETY: the value lives as long as the graph.
        unsafe {
            let constant: *const OrtValue = ort_get!(host, ValueInfo_GetInitializerValue(value));
            match constant.is_null() {
                true => Ok(None),
                false => Constant::read(host, constant.cast_mut()).map(Some),
            }
        }
    }
}

/// A tensor of a graph.
#[derive(PartialEq)]
pub struct Constant<'a> {
    /// Its `ONNXTensorElementDataType`.
    pub element: c_int,
    /// Its sizes.
    pub sizes: &'a [i64],
    data: Data<'a>,
}

/// The elements of a tensor.
#[derive(PartialEq)]
enum Data<'a> {
    Bytes(&'a [u8]),
    Strings(Vec<Vec<u8>>),
}

impl<'a> Constant<'a> {
    /// # Safety
    /// `value` is a tensor of this host that lives for `'a`.
    pub unsafe fn read(host: Host, value: *mut OrtValue) -> Result<Self, Error> {
        /// `ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING`.
        const STRING: c_int = 8;
        // SAFETY: the caller's.
        unsafe {
            let Tensor { element, sizes, .. } = Tensor::read(host, value)?;
            let data = match element {
                STRING => Data::Strings(strings(host, value)?),
                _ => Data::Bytes(bytes(host, value)?),
            };
            Ok(Self {
                element,
                sizes,
                data,
            })
        }
    }

    /// The number of bytes of its elements.
    pub fn byte_count(&self) -> usize {
        match &self.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Strings(strings) => strings.iter().map(Vec::len).sum(),
        }
    }

    /// A copy, without a name.
    pub fn to_proto(&self) -> TensorProto {
        let mut tensor = TensorProto {
            data_type: Some(self.element),
            dims: self.sizes.to_vec(),
            ..TensorProto::default()
        };
        match &self.data {
            Data::Bytes(bytes) => tensor.raw_data = Some(bytes.to_vec()),
            Data::Strings(strings) => tensor.string_data.clone_from(strings),
        }
        tensor
    }
}

/// The elements of a tensor of strings.
///
/// # Safety
/// `value` is one of this host that is alive.
unsafe fn strings(host: Host, value: *const OrtValue) -> Result<Vec<Vec<u8>>, Error> {
    // SAFETY: the caller's; both buffers have the declared sizes, and the host writes all of them.
    unsafe {
        let count = Tensor::read(host, value.cast_mut())?.count();
        let mut all = vec![0_u8; ort_get!(host, GetStringTensorDataLength(value))];
        let mut starts = vec![0_usize; count];
        let (to, size) = (all.as_mut_ptr().cast(), all.len());
        ort_try!(
            host,
            GetStringTensorContent(value, to, size, starts.as_mut_ptr(), count)
        );
        let ends = starts.iter().skip(1).copied().chain([size]);
        let strings = std::iter::zip(starts.iter().copied(), ends);
        Ok(strings
            .map(|(start, end)| all[start..end].to_vec())
            .collect())
    }
}

impl<'a> GraphNode<'a> {
    /// The host's node.
    pub fn as_ptr(self) -> *const OrtNode {
        self.node
    }

    /// # Safety
    /// `node` is one of this host, alive for `'a`.
    pub unsafe fn new(host: Host, node: *const OrtNode) -> Self {
        Self {
            host,
            node,
            life: PhantomData,
        }
    }

    /// The node's name.
    pub fn name(self) -> Result<String, Error> {
        Ok(string!(self, Node_GetName))
    }

    /// The domain and the type of the node's operator.
    pub fn operator(self) -> Result<(String, String), Error> {
        Ok((
            string!(self, Node_GetDomain),
            string!(self, Node_GetOperatorType),
        ))
    }

    /// The EP that has the node; empty if no EP has it yet.
    pub fn ep_name(self) -> Result<String, Error> {
        Ok(string!(self, Node_GetEpName))
    }

    /// What the node reads.
    pub fn inputs(self) -> Result<Vec<Value<'a>>, Error> {
        values!(self.node, Node_GetNumInputs, Node_GetInputs)
    }

    /// What the node makes.
    pub fn outputs(self) -> Result<Vec<Value<'a>>, Error> {
        values!(self.node, Node_GetNumOutputs, Node_GetOutputs)
    }

    /// The values of the graphs around that the node's own graphs read.
    pub fn captured(self) -> Result<Vec<Value<'a>>, Error> {
        values!(self.node, Node_GetNumImplicitInputs, Node_GetImplicitInputs)
    }

    /// The node's own graphs, each with the name of its attribute.
    pub fn graphs(self) -> Result<Vec<(String, Graph<'a>)>, Error> {
        let (host, node) = (self.host, self.node);
        // SAFETY: the node is alive, and so are its graphs and names; both lists have as many places as
        // it has graphs.
        unsafe {
            let count = ort_get!(host, Node_GetNumSubgraphs(node));
            let (mut graphs, mut names) = (vec![ptr::null(); count], vec![ptr::null(); count]);
            if count > 0 {
                ort_try!(
                    host,
                    Node_GetSubgraphs(node, graphs.as_mut_ptr(), count, names.as_mut_ptr())
                );
            }
            let graphs = graphs.into_iter().map(|graph| Graph::new(host, graph));
            let names = names.into_iter().map(|name| text(name));
            Ok(names.zip(graphs).collect())
        }
    }

    /// Reads all of the node but its graphs.
    pub fn read(self) -> Result<Node, Error> {
        // SAFETY: the node lives as long as the graph.
        let since_version = unsafe { ort_get!(self.host, Node_GetSinceVersion(self.node)) };
        let (domain, op_type) = self.operator()?;
        let inputs = self.inputs()?.into_iter();
        let outputs = self.outputs()?.into_iter();
        Ok(Node {
            name: self.name()?,
            domain,
            op_type,
            since_version,
            attributes: self.attributes()?,
            inputs: inputs
                .map(|value| Ok((value.bytes_of_name()?, value.tensor_type()?)))
                .collect::<Result<_, Error>>()?,
            outputs: outputs
                .map(Value::bytes_of_name)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The attributes.
    pub fn attributes(self) -> Result<Vec<AttributeProto>, Error> {
        self.each_attribute()?.into_iter().collect()
    }

    /// The attributes, each of which may be of a type that the host does not hand out, such as Optional's.
    pub fn each_attribute(self) -> Result<Vec<Result<AttributeProto, Error>>, Error> {
        let (host, node) = (self.host, self.node);
        // SAFETY: the node lives as long as the graph.
        let attributes: Vec<*const OrtOpAttr> =
            unsafe { list!(host, node, Node_GetNumAttributes, Node_GetAttributes) };
        // SAFETY: the attributes live as long as the node.
        let read = |attribute| unsafe { self.attribute(attribute) };
        Ok(attributes.into_iter().map(read).collect())
    }

    /// Reads an attribute, without its value if that is a graph.
    ///
    /// # Safety
    /// `attribute` is one of this host.
    unsafe fn attribute(self, attribute: *const OrtOpAttr) -> Result<AttributeProto, Error> {
        use OrtOpAttrType as Type;
        let host = self.host;
        let mut kind: c_int = 0;
        // SAFETY: the caller's; an `OrtOpAttrType` is a C enum.
        let name = unsafe {
            ort_try!(host, OpAttr_GetType(attribute, (&raw mut kind).cast()));
            text(ort_get!(host, OpAttr_GetName(attribute)))
        };
        let strings = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let strings = bytes.split_inclusive(|byte| *byte == 0);
            strings
                .map(|it| it.strip_suffix(&[0]).unwrap_or(it).to_vec())
                .collect()
        };
        let floats = |bytes: &[u8]| -> Vec<f32> {
            let (floats, _) = bytes.as_chunks();
            floats.iter().map(|it| f32::from_ne_bytes(*it)).collect()
        };
        let integers = |bytes: &[u8]| -> Vec<i64> {
            let (integers, _) = bytes.as_chunks();
            integers.iter().map(|it| i64::from_ne_bytes(*it)).collect()
        };
        let kind = usize::try_from(kind).unwrap_or_default();
        let mut read = model::attribute(&name, TYPES.get(kind).copied().unwrap_or_default());
        // SAFETY: the caller's.
        let bytes = |kind| unsafe { self.bytes(attribute, kind) };
        match read.r#type {
            Some(AttributeType::INT) => {
                let values = integers(&bytes(Type::ORT_OP_ATTR_INT)?);
                read.i = Some(values.first().copied().unwrap_or_default());
            }
            Some(AttributeType::FLOAT) => {
                let values = floats(&bytes(Type::ORT_OP_ATTR_FLOAT)?);
                read.f = Some(values.first().copied().unwrap_or_default());
            }
            Some(AttributeType::INTS) => read.ints = integers(&bytes(Type::ORT_OP_ATTR_INTS)?),
            Some(AttributeType::FLOATS) => read.floats = floats(&bytes(Type::ORT_OP_ATTR_FLOATS)?),
            Some(AttributeType::STRING) => {
                let values = strings(&bytes(Type::ORT_OP_ATTR_STRING)?);
                read.s = Some(values.into_iter().next().unwrap_or_default());
            }
            Some(AttributeType::STRINGS) => {
                read.strings = strings(&bytes(Type::ORT_OP_ATTR_STRINGS)?);
            }
            // SAFETY: the caller's.
            Some(AttributeType::TENSOR) => unsafe {
                let value =
                    ort_own!(host, OpAttr_GetTensorAttributeAsOrtValue(attribute) => ReleaseValue);
                read.t = Constant::read(host, value.as_ptr())?.to_proto().into();
            },
            _ => {}
        }
        Ok(read)
    }

    /// The bytes of an attribute of this type; none if it has no value.
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
        let mut done = self.host.check("ReadOpAttr", read(&mut bytes, &mut size));
        if size > bytes.len() {
            bytes.resize(size, 0);
            done = self.host.check("ReadOpAttr", read(&mut bytes, &mut size));
        }
        match done {
            // Some writers omit a zero, which is what the host's kernels read then.
            Err(Error::Host { message, .. }) if message.starts_with(NO_VALUE) => size = 0,
            done => done?,
        }
        bytes.truncate(size);
        Ok(bytes)
    }
}
