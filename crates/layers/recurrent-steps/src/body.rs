//! A loop that can be a program, as ONNX says it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use recurrent_layers::PackedMatrix;
use revseq_onnx::model::type_name;
use revseq_onnx::proto::{GraphProto, TensorProto};
use revseq_onnx::{constant, tensor};

use crate::elements::Kind;
use crate::error::Error;
use crate::known::MOST_KNOWN;
use crate::plan::Data;
use crate::view::Axis;

/// What a loop is read from.
pub trait Around {
    /// ONNX's code of the element type of a value that the loop reads; `None` if it is no tensor or not
    /// known.
    fn code(&self, name: &str) -> Option<i32>;

    /// Its elements, if it is a constant.
    fn constant(&self, name: &str) -> Option<TensorProto>;
}

/// Where the elements of a value are known from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    Constant(usize),
    Input(usize),
}

/// A value around the loop that it reads.
#[derive(Clone, Debug)]
pub(crate) struct OuterValue {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) kind: Kind,
    pub(crate) sizes: Vec<usize>,
    pub(crate) data: Data,
}

#[derive(Debug)]
pub(crate) struct State {
    /// The name of its value before the loop.
    pub(crate) initial: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) kind: Kind,
    /// The name of what each step adds to it, if it does nothing else.
    pub(crate) adds: Option<String>,
    /// Whether an output of the loop, or its end, depends on it.
    pub(crate) is_live: bool,
}

/// A scan input.
#[derive(Debug)]
pub(crate) struct ScanInput {
    pub(crate) name: String,
    /// Where the slices of all steps are.
    pub(crate) whole: Origin,
    pub(crate) axis: i64,
    pub(crate) is_reversed: bool,
}

/// What the steps collect.
#[derive(Debug)]
pub(crate) struct ScanOutput {
    pub(crate) name: String,
    pub(crate) axis: i64,
    pub(crate) is_reversed: bool,
    pub(crate) is_read: bool,
}

/// The index of an axis of a value with so many.
fn normal(axis: i64, rank: usize) -> Result<usize, Error> {
    let place = constant::normal_axis(axis, rank);
    place.ok_or_else(|| Error::Values(format!("axis {axis} of a value with {rank}")))
}

impl ScanInput {
    pub(crate) fn axis(&self, rank: usize) -> Result<usize, Error> {
        normal(self.axis, rank)
    }
}

impl ScanOutput {
    pub(crate) fn axis(&self, rank: usize) -> Result<usize, Error> {
        normal(self.axis, rank)
    }
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) graph: GraphProto,
    pub(crate) opset: i64,
    /// The nodes that run, in order.
    pub(crate) order: Vec<usize>,
    /// The names and types of the inputs of a run.
    pub(crate) inputs: Vec<(String, Kind)>,
    pub(crate) outer: Vec<OuterValue>,
    pub(crate) constants: Vec<Constant>,
    /// The constants of the body, by their names.
    pub(crate) inner: HashMap<String, usize>,
    /// The graphs of its nodes, by their first outputs: a loop's body, or both branches of an If.
    pub(crate) bodies: HashMap<String, Vec<Body>>,
    /// What says the most steps, and whether there is a first.
    pub(crate) most: Option<Origin>,
    pub(crate) starts: Option<Origin>,
    /// The names of the step's number, and of the conditions.
    pub(crate) number: Option<String>,
    pub(crate) condition_in: Option<String>,
    pub(crate) condition_out: Option<String>,
    pub(crate) states: Vec<State>,
    pub(crate) slices: Vec<ScanInput>,
    pub(crate) collected: Vec<ScanOutput>,
    /// The type of each output of the loop, if it is read.
    pub(crate) outputs: Vec<Option<Kind>>,
    /// Matrices, by the constant, the place and the axes that they are of.
    pub(crate) packed: Mutex<HashMap<Part, PackedMatrix<f32>>>,
}

/// A part of a constant.
pub(crate) type Part = (usize, isize, Vec<Axis>);

impl Body {
    /// A packed matrix, which is made if there is none yet.
    pub(crate) fn packed(
        &self,
        part: Part,
        make: impl FnOnce() -> Result<PackedMatrix<f32>, Error>,
    ) -> Result<PackedMatrix<f32>, Error> {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matrix) = packed.get(&part) {
            return Ok(matrix.clone());
        }
        let matrix = make()?;
        packed.insert(part, matrix.clone());
        Ok(matrix)
    }

    /// The index of a constant of the body.
    pub(crate) fn constant_of(&self, name: &str) -> Option<usize> {
        self.inner.get(name).copied()
    }
}

/// Reads the elements of a constant.
pub(crate) fn constant_of(tensor: &TensorProto) -> Result<Constant, String> {
    let code = tensor.code();
    let kind = Kind::of(code).ok_or_else(|| format!("a constant of {}", type_name(code)))?;
    let sizes = tensor::check(tensor).map_err(|error| error.to_string())?;
    let bytes = tensor::bytes(tensor).map_err(|error| error.to_string())?;
    let data = match kind {
        Kind::Float => {
            let (chunks, _) = bytes.as_chunks::<4>();
            Data::Floats(chunks.iter().map(|it| f32::from_le_bytes(*it)).collect())
        }
        Kind::Int32 => {
            let (chunks, _) = bytes.as_chunks::<4>();
            Data::Ints(
                chunks
                    .iter()
                    .map(|it| i32::from_le_bytes(*it).into())
                    .collect(),
            )
        }
        Kind::Int64 => {
            let (chunks, _) = bytes.as_chunks::<8>();
            Data::Ints(chunks.iter().map(|it| i64::from_le_bytes(*it)).collect())
        }
        // Known truth values are numbers, others are floats as in memory.
        Kind::Bool if bytes.len() <= MOST_KNOWN => {
            Data::Ints(bytes.iter().map(|&it| i64::from(it != 0)).collect())
        }
        Kind::Bool => Data::Floats(
            bytes
                .iter()
                .map(|&it| f32::from(u8::from(it != 0)))
                .collect(),
        ),
    };
    Ok(Constant { kind, sizes, data })
}
