//! The one case table: cases from the test suites of everyone who has the operator.
//!
//! `data/peer_cases.json` names the source of each. A case is one or more
//! [`Step`]s of an operator, data in some element types, and the expected
//! outputs under each policy for lengths.

#[cfg(feature = "gpu")]
pub mod gpu;
pub mod paths;

use half::{bf16, f16};
use revseq_graph::{Attribute, AttributeValue, ElementType, Error, Input, Node, Operator};
use revseq_kernels::{DataType, LengthsData, LengthsPolicy};
use serde::Deserialize;
use serde_json::Value;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Elements, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Elements of a fixed size, as bytes.
    Bytes(Vec<u8>),
    /// Strings.
    Strings(Vec<String>),
}

/// Lengths of any type that the operators take.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// int32.
    I32(Vec<i32>),
    /// int64.
    I64(Vec<i64>),
    /// uint32.
    U32(Vec<u32>),
}

impl Lengths {
    /// A view for the kernels.
    #[must_use]
    pub fn data(&self) -> LengthsData<'_> {
        match self {
            Self::I32(lengths) => lengths.into(),
            Self::I64(lengths) => lengths.into(),
            Self::U32(lengths) => lengths.into(),
        }
    }

    /// Returns the lengths as ONNX's ReverseSequence has them.
    #[must_use]
    pub fn to_i64(&self) -> Vec<i64> {
        let data = self.data();
        (0..data.len())
            .map(|index| data.value(index) as i64)
            .collect()
    }
}

/// One application of an operator.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operator, its axes normalised.
    pub operator: Operator,
    /// The lengths.
    pub lengths: Lengths,
    /// The lengths' sizes.
    pub lengths_sizes: Vec<u64>,
}

/// A case, in one element type.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name and element type.
    pub name: String,
    /// The type of its elements.
    pub element_type: ElementType,
    /// The data's sizes.
    pub sizes: Vec<u64>,
    /// The data.
    pub input: Elements,
    /// The steps, in this order; or why the node itself is refused.
    pub steps: Result<Vec<Step>, Error>,
    /// The expected output with lengths out of range rejected; `None`: an error.
    pub rejecting: Option<Elements>,
    /// The expected output with lengths clamped; `None`: an error.
    pub clamping: Option<Elements>,
}

impl Case {
    /// The expected output under a policy; `None`: an error.
    #[must_use]
    pub fn expected(&self, policy: LengthsPolicy) -> Option<&Elements> {
        match policy {
            LengthsPolicy::Reject => self.rejecting.as_ref(),
            LengthsPolicy::Clamp => self.clamping.as_ref(),
            other => unreachable!("no case has an output under {other:?}"),
        }
    }
}

#[derive(Deserialize)]
struct Record {
    name: String,
    op: Option<String>,
    dtype: String,
    dtypes: Option<Vec<String>>,
    shape: Vec<u64>,
    batch_axis: Option<i64>,
    time_axis: Option<i64>,
    sequence_lens: Value,
    lens_shape: Option<Vec<u64>>,
    lens_dtype: Option<String>,
    reverse_axes: Option<Vec<i64>>,
    input: Value,
    expected: Value,
    clamp_expected: Option<Value>,
}

/// All cases, once for each of their element types.
///
/// # Panics
/// If the table cannot be read.
#[must_use]
pub fn cases() -> Vec<Case> {
    let records: Vec<Record> =
        serde_json::from_str(include_str!("data/peer_cases.json")).expect("a valid case table");
    assert_eq!(records.len(), 69, "cases in the table");
    records
        .iter()
        .flat_map(|record| {
            let types = record
                .dtypes
                .clone()
                .unwrap_or_else(|| vec![record.dtype.clone()]);
            types.into_iter().map(move |name| record.case(&name))
        })
        .collect()
}

impl Record {
    fn case(&self, type_name: &str) -> Case {
        let element_type = element_type(type_name);
        let count: u64 = self.shape.iter().product();
        let iota = || (0..count).map(Value::from).collect();
        let values = |value: &Value| value.as_array().cloned();
        let input: Vec<Value> = values(&self.input).unwrap_or_else(iota);
        let elements = |values: &[Value]| elements(element_type, values);
        let rejecting = match self.expected.as_str() {
            Some("error") => None,
            Some(_) => Some(elements(&self.computed(&input))),
            None => values(&self.expected).map(|values| elements(&values)),
        };
        let clamping = match &self.clamp_expected {
            Some(clamped) => values(clamped).map(|values| elements(&values)),
            None => rejecting.clone(),
        };
        Case {
            name: format!("{}_{type_name}", self.name),
            element_type,
            sizes: self.shape.clone(),
            input: elements(&input),
            steps: self.steps(element_type),
            rejecting,
            clamping,
        }
    }

    /// The result where the table gives a rule: both rules in it flip whole axes.
    fn computed(&self, input: &[Value]) -> Vec<Value> {
        let rank = self.shape.len() as i64;
        let axes: Vec<usize> = match &self.reverse_axes {
            Some(axes) => axes
                .iter()
                .map(|axis| axis.rem_euclid(rank) as usize)
                .collect(),
            None => vec![self.time_axis.unwrap_or(0) as usize],
        };
        let mut output = input.to_vec();
        for (index, value) in output.iter_mut().enumerate() {
            let mut source = 0;
            let mut stride = 1;
            let mut remaining = index;
            for (dimension, &size) in self.shape.iter().enumerate().rev() {
                let size = size as usize;
                let at = remaining % size;
                remaining /= size;
                source += stride
                    * if axes.contains(&dimension) {
                        size - 1 - at
                    } else {
                        at
                    };
                stride *= size;
            }
            *value = input[source].clone();
        }
        output
    }

    fn steps(&self, element_type: ElementType) -> Result<Vec<Step>, Error> {
        if let Some(axes) = &self.reverse_axes {
            return axes
                .iter()
                .map(|&axis| self.flip(element_type, axis))
                .collect();
        }
        let values: Vec<i64> = self
            .sequence_lens
            .as_array()
            .expect("lengths")
            .iter()
            .map(|length| length.as_i64().expect("a length"))
            .collect();
        let lengths_sizes = self
            .lens_shape
            .clone()
            .unwrap_or_else(|| vec![values.len() as u64]);
        let lengths = match self.lens_dtype.as_deref() {
            Some("int32") => Lengths::I32(values.iter().map(|&length| length as i32).collect()),
            Some("uint32") => Lengths::U32(values.iter().map(|&length| length as u32).collect()),
            _ => Lengths::I64(values),
        };
        let attributes = match self.op.as_deref() {
            Some(_) => vec![("axis", self.time_axis)],
            None => vec![
                ("batch_axis", self.batch_axis),
                ("time_axis", self.time_axis),
            ],
        };
        let attributes: Vec<_> = attributes
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, value)))
            .collect();
        self.step(element_type, &attributes, lengths, lengths_sizes)
            .map(|step| vec![step])
    }

    /// A flip, as exporters write it: ReverseSequence with every length full.
    fn flip(&self, element_type: ElementType, axis: i64) -> Result<Step, Error> {
        let rank = self.shape.len();
        let time = axis.rem_euclid(rank as i64) as usize;
        let full = self.shape[time] as i64;
        if rank == 1 {
            let attributes = [("axis", axis)];
            return self.step(element_type, &attributes, Lengths::I64(vec![full]), vec![1]);
        }
        let batch = (time + 1) % rank;
        let lengths = vec![full; self.shape[batch] as usize];
        let sizes = vec![self.shape[batch]];
        let attributes = [("time_axis", axis), ("batch_axis", batch as i64)];
        self.step(element_type, &attributes, Lengths::I64(lengths), sizes)
    }

    fn step(
        &self,
        element_type: ElementType,
        attributes: &[(&str, i64)],
        lengths: Lengths,
        lengths_sizes: Vec<u64>,
    ) -> Result<Step, Error> {
        let per_subsequence = attributes.iter().any(|(name, _)| *name == "axis");
        let (domain, op_type, since_version) = match per_subsequence {
            true => (revseq_graph::DOMAIN, "ReverseSubsequences", 1),
            false => ("", "ReverseSequence", 28),
        };
        let attributes: Vec<_> = attributes
            .iter()
            .map(|&(name, value)| Attribute {
                name,
                value: AttributeValue::Int(value),
            })
            .collect();
        let known = |sizes: &[u64]| sizes.iter().copied().map(Some).collect::<Vec<_>>();
        let (data_shape, lengths_shape) = (known(&self.shape), known(&lengths_sizes));
        let lengths_type = match lengths {
            Lengths::U32(_) => DataType::Uint32,
            // TensorFlow's and OpenVINO's int32 lengths are int64 in ONNX.
            Lengths::I32(_) | Lengths::I64(_) => DataType::Int64,
        };
        let operator = Operator::from_node(&Node {
            name: &self.name,
            domain,
            op_type,
            since_version,
            attributes: &attributes,
            inputs: &[
                Input {
                    name: "data",
                    element_type: Some(element_type),
                    shape: Some(&data_shape),
                },
                Input {
                    name: "lengths",
                    element_type: Some(lengths_type.into()),
                    shape: Some(&lengths_shape),
                },
            ],
        })?;
        Ok(Step {
            operator,
            lengths,
            lengths_sizes,
        })
    }
}

fn element_type(name: &str) -> ElementType {
    let name = match name {
        "float32" => "float",
        "float64" => "double",
        name => name,
    };
    ElementType::all()
        .find(|element_type| element_type.name() == name)
        .expect("a known type")
}

/// Numbers or strings as elements of a type; complex ones get no imaginary part.
fn elements(element_type: ElementType, values: &[Value]) -> Elements {
    let ElementType::Fixed(data_type) = element_type else {
        let strings = values
            .iter()
            .map(|value| value.as_str().expect("a string").to_owned());
        return Elements::Strings(strings.collect());
    };
    let number = |value: &Value| value.as_f64().expect("a number");
    let bytes = values.iter().flat_map(|value| {
        let number = number(value);
        match data_type {
            DataType::Float32 => (number as f32).to_ne_bytes().to_vec(),
            DataType::Float16 => f16::from_f64(number).to_ne_bytes().to_vec(),
            DataType::Bfloat16 => bf16::from_f64(number).to_ne_bytes().to_vec(),
            DataType::Uint32 => (number as u32).to_ne_bytes().to_vec(),
            DataType::Uint16 => (number as u16).to_ne_bytes().to_vec(),
            DataType::Uint8 => vec![number as u8],
            DataType::Int32 => (number as i32).to_ne_bytes().to_vec(),
            DataType::Int16 => (number as i16).to_ne_bytes().to_vec(),
            DataType::Int8 => (number as i8).to_ne_bytes().to_vec(),
            DataType::Float64 => number.to_ne_bytes().to_vec(),
            DataType::Uint64 => (number as u64).to_ne_bytes().to_vec(),
            DataType::Int64 => (number as i64).to_ne_bytes().to_vec(),
            DataType::Complex64 => [(number as f32).to_ne_bytes(), [0; 4]].concat(),
            DataType::Complex128 => [number.to_ne_bytes(), [0; 8]].concat(),
            other => unreachable!("no case has elements of type {other}"),
        }
    });
    Elements::Bytes(bytes.collect())
}
