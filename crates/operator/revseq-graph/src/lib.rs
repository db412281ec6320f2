//! Recognises ONNX nodes that are the operator, and lowers them to descriptors.
//!
//! Two operators do the same work. ONNX's `ReverseSequence` (schemas 10 and 28,
//! onnx/defs/tensor/defs.cc) has a length for every batch entry;
//! `revseq::ReverseSubsequences` version 1 has one for every subsequence, like
//! DirectML's REVERSE_SUBSEQUENCES. A host passes a borrowed [`Node`];
//! [`Operator::from_node`] reads it, and [`Operator::lower`] turns it into a
//! [`ReverseSubsequencesDesc`](revseq_kernels::ReverseSubsequencesDesc) once
//! the shapes are known. This crate depends on no protobuf and no runtime;
//! `examples/candle.rs` is a custom op for candle.
//!
//! ```
//! use revseq_graph::{Attribute, AttributeValue, ElementType, Input, Node, Operator, TensorType};
//! use revseq_kernels::{DataType, Plan};
//!
//! let node = Node {
//!     name: "backward",
//!     domain: "",
//!     op_type: "ReverseSequence",
//!     since_version: 10,
//!     attributes: &[
//!         Attribute { name: "batch_axis", value: AttributeValue::Int(-2) },
//!         Attribute { name: "time_axis", value: AttributeValue::Int(0) },
//!     ],
//!     inputs: &[Input { name: "x", ..Input::default() }, Input { name: "lens", ..Input::default() }],
//! };
//! let operator = Operator::from_node(&node)?;
//! let x = TensorType { element_type: ElementType::Fixed(DataType::Float32), sizes: &[7, 3, 5] };
//! let lens = TensorType { element_type: ElementType::Fixed(DataType::Int64), sizes: &[3] };
//! let desc = operator.lower(node.name, x, lens)?;
//! assert_eq!(*desc.input.sizes, [1, 7, 3, 5]);
//! assert_eq!(desc.sequence_lengths.strides.as_deref(), Some(&[0, 0, 1, 0][..]));
//! let plan = Plan::new(&desc)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod element_type;
mod error;
mod lower;
mod lru_cache;
mod node;
mod operator;

pub use element_type::ElementType;
pub use error::{Error, ErrorKind};
pub use lower::TensorType;
pub use lru_cache::LruCache;
pub use node::{Attribute, AttributeValue, Input, Node};
pub use operator::{DOMAIN, Operator};
