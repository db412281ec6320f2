//! LabelEncoder and OneHotEncoder of `ai.onnx.ml`, which look up values.
//!
//! ```text
//! LabelEncoder<keys_strings=["a", "b"], values_int64s=[5, 6]>(["b", "z"])  →  [6, -1]
//! OneHotEncoder<cats_strings=["a", "b"]>(["b", "z"])  →  [[0, 1], [0, 0]]
//! ```
//!
//! Of equal keys, the first one counts, as in ONNX Runtime; the last one in a LabelEncoder of
//! version 1 and a OneHotEncoder. NaN is a key like any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{NodeProto, TensorProto};
use tract_onnx::tract_core::ops::array::Gather;
use tract_onnx::tract_hir::internal::tract_itertools::Itertools;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a LabelEncoder or a OneHotEncoder.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let attributes = Attributes { ctx, node };
    let encoders = match node.op_type.as_str() {
        "OneHotEncoder" => vec![attributes.one_hot()?],
        _ => attributes.labels()?,
    };
    // The first one that takes the type of the input.
    own(node, [1, 1], move |node: &mut Wiring<'_>| {
        let datum_type = node.input(0)?.datum_type;
        let encoder = encoders.iter().find(|it| it.takes(datum_type));
        let encoder = encoder.with_context(|| {
            let expected = encoders.iter().map(|it| format!("{:?}", it.keys));
            format!(
                "its input is {datum_type:?}, expected {}",
                expected.format(" or ")
            )
        })?;
        node.whole(Typed(encoder.clone()))
    })
}

struct Attributes<'a> {
    ctx: &'a ParsingContext<'a>,
    node: &'a NodeProto,
}

impl Attributes<'_> {
    /// The elements of a list, whose type its attribute's name ends with.
    fn list(&self, name: &str) -> TractResult<Tensor> {
        let (node, named) = (self.node, |of: &str| format!("{name}_{of}"));
        if let Some(tensor) = node.get_attr_opt::<&TensorProto>(&named("tensor"))? {
            let tensor = self.ctx.load_tensor(tensor)?;
            let count = tensor.len();
            return tensor.into_shape(&[count]);
        }
        if let Some(strings) = node.get_attr_opt_vec::<String>(&named("strings"))? {
            return Ok(tensor1(&strings));
        }
        if let Some(integers) = node.get_attr_opt_vec::<i64>(&named("int64s"))? {
            return Ok(tensor1(&integers));
        }
        let floats = node.get_attr_opt_vec::<f32>(&named("floats"))?;
        let floats = floats.with_context(|| format!("it has no attribute {name}_…"))?;
        Ok(tensor1(&floats))
    }

    /// The value for a key that is not listed.
    fn default_of(&self, datum_type: DatumType) -> TractResult<Tensor> {
        let tensor: Option<&TensorProto> = self.node.get_attr_opt("default_tensor")?;
        if let Some(tensor) = tensor {
            let tensor = self.ctx.load_tensor(tensor)?;
            ensure!(
                tensor.len() == 1 && tensor.datum_type() == datum_type,
                "its default_tensor is {tensor:?}, expected one {datum_type:?}"
            );
            return tensor.into_shape(&[1]);
        }
        Ok(match datum_type {
            DatumType::String => {
                let text: Option<String> = self.node.get_attr_opt("default_string")?;
                tensor1(&[text.unwrap_or_else(|| "_Unused".to_owned())])
            }
            DatumType::F32 => {
                tensor1(&[self.node.get_attr_opt("default_float")?.unwrap_or(-0_f32)])
            }
            _ => {
                let number = self.node.get_attr_opt("default_int64")?.unwrap_or(-1_i64);
                tensor1(&[number]).cast_to_dt(datum_type)?.into_owned()
            }
        })
    }

    fn one_hot(&self) -> TractResult<Encoder> {
        let categories = self.list("cats")?;
        Ok(Encoder {
            keys: categories.datum_type(),
            places: Arc::new(keys(&categories)?.into_iter().zip(0..).collect()),
            result: Encoding::OneHot {
                count: categories.len(),
                may_lack: self.node.get_attr_opt("zeros")?.unwrap_or(1_i64) != 0,
            },
        })
    }

    /// The encoders for the types that the input may have.
    fn labels(&self) -> TractResult<Vec<Encoder>> {
        let to = |from: &Tensor, values: Tensor, last_counts: bool| {
            let keys = keys(from)?;
            ensure!(
                keys.len() == values.len(),
                "it has {} keys and {} values",
                keys.len(),
                values.len()
            );
            let default = self.default_of(values.datum_type())?;
            let places = keys.into_iter().enumerate().map(|(at, key)| (key, at));
            Ok(Encoder {
                keys: from.datum_type(),
                places: Arc::new(match last_counts {
                    true => places.collect(),
                    false => places.rev().collect(),
                }),
                result: Encoding::Value(Tensor::stack_tensors(0, &[values, default])?.into()),
            })
        };
        let Some(classes) = self.node.get_attr_opt_vec::<String>("classes_strings")? else {
            return Ok(vec![to(&self.list("keys")?, self.list("values")?, false)?]);
        };
        // Version 1: strings to their places, and places to strings.
        let numbers: Vec<i64> = (0..i64::try_from(classes.len())?).collect();
        let (classes, numbers) = (tensor1(&classes), tensor1(&numbers));
        let to_strings = to(&numbers, classes.clone(), true)?;
        Ok(vec![to(&classes, numbers, true)?, to_strings])
    }
}

/// An element that is looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Text(String),
    Whole(i64),
    /// The bits of a double.
    Real(u64),
}

/// The elements in order. Zeros are equal, and so are NaN.
fn keys(tensor: &Tensor) -> TractResult<Vec<Key>> {
    let datum_type = tensor.datum_type();
    if datum_type == DatumType::String {
        let texts = tensor.to_plain_array_view::<String>()?;
        return Ok(texts.iter().cloned().map(Key::Text).collect());
    }
    if datum_type.is_float() {
        let bits = |number: &f64| match number {
            zero if *zero == 0.0 => 0,
            nan if nan.is_nan() => f64::NAN.to_bits(),
            other => other.to_bits(),
        };
        let numbers = tensor.cast_to::<f64>()?;
        let numbers = numbers.to_plain_array_view::<f64>()?;
        return Ok(numbers.iter().map(bits).map(Key::Real).collect());
    }
    let numbers = tensor.cast_to::<i64>()?;
    let numbers = numbers.to_plain_array_view::<i64>()?;
    Ok(numbers.iter().copied().map(Key::Whole).collect())
}

/// Replaces each element by what is found for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Encoder {
    /// The type of the keys.
    keys: DatumType,
    places: Arc<BTreeMap<Key, usize>>,
    result: Encoding,
}

/// What is found at the place of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Encoding {
    /// An element of this list, the last one if there is no such key.
    Value(Arc<Tensor>),
    /// A list with 1 at the place and 0 elsewhere.
    OneHot {
        count: usize,
        /// Whether there may be no such key, and no 1.
        may_lack: bool,
    },
}

impl Encoder {
    /// Whether it takes elements of a type. A OneHotEncoder casts numbers to its categories' type.
    fn takes(&self, datum_type: DatumType) -> bool {
        let casts = matches!(self.result, Encoding::OneHot { .. });
        datum_type == self.keys || casts && self.keys.is_integer() && datum_type.is_number()
    }
}

impl Stateless for Encoder {
    const NAME: &str = "Encoder";

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let elements = keys(&*input.cast_to_dt(self.keys)?)?;
        let mut places = elements.iter().map(|key| self.places.get(key).copied());
        match &self.result {
            Encoding::Value(values) => {
                let default = values.len() - 1;
                let places = places.map(|it| it.unwrap_or(default) as i64);
                let places = tensor1(&places.collect::<Vec<_>>());
                let places = places.into_shape(input.shape())?;
                let values = values.clone().into_tvalue();
                Gather::new(0).eval(ctx, tvec![values, places.into_tvalue()])
            }
            Encoding::OneHot { count, may_lack } => {
                let mut shape: TVec<usize> = input.shape().into();
                shape.push(*count);
                let mut output = Tensor::zero::<f32>(&shape)?;
                let mut plain = output.try_as_plain_ram_mut()?;
                for row in plain.as_slice_mut::<f32>()?.chunks_exact_mut(*count) {
                    match places.next().flatten() {
                        Some(place) => row[place] = 1.0,
                        None => ensure!(
                            *may_lack,
                            "an element is none of its {count} categories, and its attribute zeros is 0"
                        ),
                    }
                }
                Ok(tvec![output.into_tvalue()])
            }
        }
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut sizes = inputs[0].shape.to_tvec();
        let datum_type = match &self.result {
            Encoding::Value(values) => values.datum_type(),
            Encoding::OneHot { count, .. } => {
                sizes.push(count.to_dim());
                f32::datum_type()
            }
        };
        Ok(tvec![datum_type.fact(sizes)])
    }
}
