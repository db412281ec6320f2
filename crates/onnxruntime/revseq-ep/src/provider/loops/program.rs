//! A loop that runs as a program of its own.

use std::collections::{HashMap, HashSet};
use std::slice;

use recurrent_layers::Threads;
use recurrent_steps::{Around, Elements, ElementsMut, Kind, Limits, Outputs, Steps, Tensor};
use revseq_onnx::model::{element_type, tensor_type};
use revseq_onnx::proto::{GraphProto, NodeProto, TensorProto};
use revseq_onnx::scope::Scope;
use revseq_onnx::types;

use super::super::error::Error;
use crate::plugin::error::Error as HostError;
use crate::plugin::graph::Value;
use crate::plugin::tensor::{self as host, Context};

/// The constants of a graph and of those around it, by their names.
pub(super) struct Constants<'a> {
    pub(super) values: HashMap<String, Value<'a>>,
    /// Those that have another value than the model says.
    pub(super) replaced: HashSet<String>,
    /// Those that cannot be read.
    pub(super) unread: HashSet<String>,
}

/// The graph around a loop.
pub(super) struct OfGraph<'a> {
    pub(super) codes: HashMap<String, i32>,
    pub(super) constants: &'a Constants<'a>,
    /// The graph, if it is that of a message.
    pub(super) scope: Option<&'a Scope<'a>>,
}

/// ONNX's codes of the types of a graph's tensors, by their names.
pub(super) fn codes(graph: Option<&GraphProto>) -> HashMap<String, i32> {
    let declared = graph.into_iter().flat_map(|graph| {
        let ends = graph.input.iter().chain(&graph.output);
        ends.chain(&graph.value_info)
    });
    let codes = declared.filter_map(|value| {
        tensor_type(value)?;
        Some((value.name.clone()?, element_type(value)?))
    });
    codes.collect()
}

impl Around for OfGraph<'_> {
    fn code(&self, name: &str) -> Option<i32> {
        let declared = self.codes.get(name).copied();
        declared.or_else(|| types::of(self.scope?, name))
    }

    fn constant(&self, name: &str) -> Option<TensorProto> {
        let Constants {
            values,
            replaced,
            unread,
        } = self.constants;
        if replaced.contains(name) || unread.contains(name) {
            return None;
        }
        if let Some(value) = values.get(name) {
            return Some(value.constant().ok()??.to_proto());
        }
        revseq_onnx::constant::tensor(self.scope?, name).cloned()
    }
}

/// A loop's program.
#[derive(Debug)]
pub(super) struct Program {
    steps: Steps,
}

impl Program {
    /// Reads a loop; the error says why there is no program.
    pub(super) fn read(node: &NodeProto, opset: i64, around: &OfGraph<'_>) -> Result<Self, String> {
        let steps = Steps::read(node, opset, around)?;
        Ok(Self { steps })
    }

    /// The names of what it reads.
    pub(super) fn inputs(&self) -> Vec<String> {
        self.steps
            .inputs()
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// The names of what it makes, those of a node.
    pub(super) fn outputs(&self, node: &NodeProto) -> Vec<String> {
        let names = node.output.iter().filter(|name| !name.is_empty());
        names.cloned().collect()
    }

    /// ONNX's codes of the types of what it makes, by the names of its node's outputs.
    pub(super) fn codes<'b>(&self, node: &'b NodeProto) -> impl Iterator<Item = (&'b String, i32)> {
        let outputs = std::iter::zip(&node.output, self.steps.outputs());
        outputs.filter_map(|(name, kind)| Some((name, (*kind)?.code())))
    }

    /// Runs it with the values at these places of the fused node.
    pub(super) fn run(
        &self,
        context: Context<'_>,
        (limits, threads): (Limits, &dyn Threads),
        [inputs, outputs]: [&[usize]; 2],
    ) -> Result<(), Error> {
        let mut tensors = Vec::with_capacity(inputs.len());
        for &place in inputs {
            tensors.push(context.input(place)?);
        }
        let sizes: Vec<Vec<usize>> = tensors
            .iter()
            .map(|tensor| tensor.sizes.iter().map(|&size| size as usize).collect())
            .collect();
        let mut owned = Vec::with_capacity(inputs.len());
        for (tensor, (_, kind)) in std::iter::zip(&tensors, self.steps.inputs()) {
            owned.push(Owned::read(*tensor, kind)?);
        }
        let inputs: Vec<Tensor<'_>> = std::iter::zip(&owned, &sizes)
            .map(|(elements, sizes)| Tensor {
                sizes,
                elements: elements.all(),
            })
            .collect();
        let mut read = outputs.iter().copied();
        let mut room = Room {
            context,
            places: self
                .steps
                .outputs()
                .iter()
                .map(|kind| kind.and_then(|_| read.next()))
                .collect(),
            taken: &tensors,
            later: vec![],
            failure: None,
        };
        let run = self.steps.run_within(limits, &inputs, &mut room, threads);
        if let Some(failure) = room.failure.take() {
            return Err(failure.into());
        }
        run?;
        drop(inputs);
        room.finish();
        Ok(())
    }
}

/// The elements of an input.
enum Owned<'a> {
    Float(std::borrow::Cow<'a, [f32]>),
    Int64(std::borrow::Cow<'a, [i64]>),
    Int32(std::borrow::Cow<'a, [i32]>),
    Bool(Vec<bool>),
}

impl<'a> Owned<'a> {
    fn read(tensor: host::Tensor<'a>, kind: Kind) -> Result<Self, Error> {
        // SAFETY: the tensor has the type that ONNX Runtime gave for it while the loop was read, and nobody
        // writes to an input during a run.
        Ok(unsafe {
            match kind {
                Kind::Float => Self::Float(tensor.elements()?),
                Kind::Int64 => Self::Int64(tensor.elements()?),
                Kind::Int32 => Self::Int32(tensor.elements()?),
                Kind::Bool => {
                    let bytes = tensor.elements::<u8>()?;
                    Self::Bool(host::collect(bytes.len(), bytes.iter().map(|it| *it != 0))?)
                }
            }
        })
    }

    fn all(&self) -> Elements<'_> {
        match self {
            Self::Float(all) => Elements::Float(all),
            Self::Int64(all) => Elements::Int64(all),
            Self::Int32(all) => Elements::Int32(all),
            Self::Bool(all) => Elements::Bool(all),
        }
    }
}

/// The memory of outputs.
struct Room<'a> {
    context: Context<'a>,
    /// The place of each output of the loop among those of the fused node.
    places: Vec<Option<usize>>,
    /// Memory that the run reads.
    taken: &'a [host::Tensor<'a>],
    /// What is copied when the run has ended: where to, memory of the run's own, and how many bytes.
    later: Vec<(*mut u8, Vec<u64>, usize)>,
    failure: Option<HostError>,
}

impl<'a> Outputs<'a> for Room<'a> {
    fn room(
        &mut self,
        index: usize,
        kind: Kind,
        sizes: &[usize],
    ) -> Result<ElementsMut<'a>, String> {
        let place = self.places.get(index).copied().flatten();
        let place = place.ok_or_else(|| String::from("it is not read"))?;
        let signed: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        let memory = self.context.optional_output(place, &signed);
        let memory = memory.map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            text
        })?;
        let memory = memory.ok_or_else(|| String::from("ONNX Runtime has none"))?;
        let count: usize = sizes.iter().product();
        let width = match kind {
            Kind::Float | Kind::Int32 => 4,
            Kind::Int64 => 8,
            Kind::Bool => 1,
        };
        let bytes = count * width;
        let first = self.beside(memory, bytes, width)?;
        // SAFETY: the memory has room for so many elements, is aligned for them, and nobody else has it
        // until the run ends.
        Ok(unsafe {
            match kind {
                Kind::Float => ElementsMut::Float(elements(first, count)),
                Kind::Int64 => ElementsMut::Int64(elements(first, count)),
                Kind::Int32 => ElementsMut::Int32(elements(first, count)),
                Kind::Bool => {
                    // Any byte may lie there, and only some are truth values.
                    if count > 0 {
                        first.write_bytes(0, count);
                    }
                    ElementsMut::Bool(elements(first, count))
                }
            }
        })
    }
}

/// # Safety
/// There are so many elements of this type, which nobody else has for `'a`.
unsafe fn elements<'a, T>(first: *mut u8, count: usize) -> &'a mut [T] {
    match count {
        0 => &mut [],
        // SAFETY: the caller's.
        _ => unsafe { slice::from_raw_parts_mut(first.cast(), count) },
    }
}

impl Room<'_> {
    /// The memory itself, or other memory if the caller of ONNX Runtime bound memory that is not aligned or
    /// that the run reads.
    fn beside(&mut self, memory: *mut u8, bytes: usize, width: usize) -> Result<*mut u8, String> {
        let own = memory as usize..memory as usize + bytes;
        let is_read = self.taken.iter().any(|tensor| {
            let first = tensor.bytes as usize;
            // An element has 8 bytes at most.
            first < own.end && own.start < first + tensor.count() * 8
        });
        if bytes == 0 || !is_read && (memory as usize).is_multiple_of(width) {
            return Ok(memory);
        }
        let words = bytes.div_ceil(8);
        let mut scratch: Vec<u64> = vec![];
        let reserved = scratch.try_reserve_exact(words);
        reserved.map_err(|_| format!("not enough memory for {bytes} bytes"))?;
        scratch.resize(words, 0);
        let first = scratch.as_mut_ptr().cast();
        self.later.push((memory, scratch, bytes));
        Ok(first)
    }

    /// Copies what could not be written at once.
    fn finish(self) {
        for (to, words, bytes) in self.later {
            // SAFETY: both have so many bytes, and what was read is not read any more.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast(), to, bytes) };
        }
    }
}
