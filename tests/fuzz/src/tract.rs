//! Small models that work, damaged, loaded and run on tract.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use prost::Message;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto};

use crate::layers::layers;

/// The most changes to a model.
const MOST_CHANGES: usize = 12;

/// The files of models, by their folders.
macro_rules! models {
    ($($path:literal),* $(,)?) => {
        &[$(include_bytes!(concat!("../../../models/", $path, "/model.onnx"))),*]
    };
}
pub(crate) use models;

/// The models that are damaged: one of each kind.
const MODELS: &[&[u8]] = models![
    "backend/test_reversesequence_batch",
    "exported/mxnet_sequence_reverse_encoder",
    "exported/tf_axes_2_3",
    "exported/tflite_reverse_sequence",
    "graphs/between_neg",
    "graphs/bilstm_flip",
    "graphs/if_branch",
    "graphs/input_is_output",
    "graphs/scan_body",
    "graphs/transposed",
    "graphs/twice_other_lengths",
    "lengths/cast_from_int32",
    "lengths/constant_node",
    "lengths/flip_chain",
    "lengths/full_initializer",
    "lengths/graph_input",
    "lengths/mask_sum",
    "loops/test_loop11",
    "loops/test_range_int32_type_negative_delta_expanded",
    "page/example_1_uint32",
    "shapes/rank4_batch3_time2",
    "shapes/symbolic_batch_time",
    "shapes/zero_inner",
    "subsequences/clamped_int32",
    "subsequences/rank3_axis1",
    "types/string",
    "graphs/bilstm_lengths",
    "exported/tf_while_reverse_sequence",
];

/// The operators that nodes may become: those with rules for shapes and sizes.
const OPERATORS: &[&str] = &[
    "Add",
    "Cast",
    "Concat",
    "ConstantOfShape",
    "CumSum",
    "Equal",
    "Expand",
    "Flatten",
    "Gather",
    "GatherND",
    "If",
    "Less",
    "Loop",
    "MatMul",
    "NonZero",
    "OneHot",
    "Pad",
    "Range",
    "ReduceSum",
    "Reshape",
    "ReverseSequence",
    "Scan",
    "ScatterND",
    "Shape",
    "Slice",
    "Softmax",
    "Split",
    "Squeeze",
    "Tile",
    "TopK",
    "Transpose",
    "Unsqueeze",
    "Where",
];

/// The strings that attributes may become: recurrent layers' directions and functions.
const WORDS: &[&str] = &[
    "Affine",
    "Elu",
    "HardSigmoid",
    "LeakyRelu",
    "Relu",
    "ScaledTanh",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "ThresholdedRelu",
    "bidirectional",
    "forward",
    "reverse",
];

/// Damages a model as the bytes say, or takes them as one, and runs it.
pub fn tract(data: &[u8]) {
    static DECODED: LazyLock<Vec<ModelProto>> = LazyLock::new(|| {
        let mut models = decoded(MODELS);
        models.extend(layers());
        models
    });
    if let Ok(model) = damaged(&DECODED, &mut Unstructured::new(data)) {
        revseq_runner::fuzzing::tract(&model);
    }
}

pub(crate) fn decoded(models: &[&[u8]]) -> Vec<ModelProto> {
    let models = models.iter().map(|&bytes| ModelProto::decode(bytes));
    models
        .collect::<std::result::Result<_, _>>()
        .expect("they are models")
}

/// One of these models with changes, or the bytes themselves.
pub(crate) fn damaged(models: &[ModelProto], u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let which = usize::from(u.arbitrary::<u8>()?);
    let Some(model) = models.get(which) else {
        return Ok(u.bytes(u.len())?.to_vec());
    };
    let mut model = model.clone();
    let bytewise = u.ratio(1, 4)?;
    let mut changes = 0;
    while !bytewise && !u.is_empty() && changes < MOST_CHANGES {
        if let Some(graph) = &mut model.graph {
            change(graph, u)?;
        }
        changes += 1;
    }
    let mut bytes = model.encode_to_vec();
    while !u.is_empty() && changes < MOST_CHANGES {
        let at = usize::from(u.arbitrary::<u16>()?) % bytes.len();
        match u.int_in_range(0..=4)? {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, u.arbitrary()?),
            2 => bytes[at] = bytes[at].wrapping_add(u.int_in_range(-2..=2_i8)? as u8),
            _ => bytes[at] = u.arbitrary()?,
        }
        changes += 1;
    }
    Ok(bytes)
}

/// Changes one thing in a graph, or in one inside it.
fn change(graph: &mut GraphProto, u: &mut Unstructured<'_>) -> Result<()> {
    let what = u.int_in_range(0..=9)?;
    match what {
        0..=3 => {
            if let Some(node) = pick(&mut graph.node, u)? {
                change_node(node, u)?;
            }
        }
        4 => {
            let (from, to) = (index(graph.node.len(), u)?, index(graph.node.len(), u)?);
            if u.ratio(1, 2)? && !graph.node.is_empty() {
                graph.node.swap(from, to);
            } else if !graph.node.is_empty() {
                let mut node = graph.node[from].clone();
                for output in &mut node.output {
                    output.push('\'');
                }
                graph.node.insert(to, node);
            }
        }
        5 | 6 => {
            let declared = graph.input.iter_mut().chain(&mut graph.output);
            let mut declared: Vec<_> = declared.chain(&mut graph.value_info).collect();
            let Some(value) = pick(&mut declared, u)? else {
                return Ok(());
            };
            let value_type = value.r#type.as_mut().and_then(|found| found.value.as_mut());
            let Some(TypeValue::TensorType(tensor)) = value_type else {
                return Ok(());
            };
            if u.ratio(1, 4)? {
                tensor.elem_type = u.int_in_range(0..=17)?;
            } else if u.ratio(1, 8)? {
                tensor.shape = None;
            } else if let Some(shape) = &mut tensor.shape {
                match u.int_in_range(0..=3)? {
                    0 => drop(shape.dim.pop()),
                    1 => shape
                        .dim
                        .push(shape.dim.last().cloned().unwrap_or_default()),
                    _ => {
                        if let Some(dim) = pick(&mut shape.dim, u)? {
                            dim.value = Some(match u.ratio(1, 4)? {
                                true => DimValue::DimParam("N".to_owned()),
                                false => DimValue::DimValue(number(u)?),
                            });
                        }
                    }
                }
            }
        }
        7 | 8 => {
            if let Some(tensor) = pick(&mut graph.initializer, u)? {
                match u.int_in_range(0..=3)? {
                    0 => tensor.data_type = u.int_in_range(0..=17)?,
                    1 => {
                        if let Some(dim) = pick(&mut tensor.dims, u)? {
                            *dim = number(u)?;
                        }
                    }
                    2 => {
                        if let Some(byte) = pick(&mut tensor.raw_data, u)? {
                            *byte = u.arbitrary()?;
                        }
                    }
                    _ => {
                        if let Some(value) = pick(&mut tensor.int64_data, u)? {
                            *value = number(u)?;
                        }
                    }
                }
            }
        }
        _ => {
            if let Some(input) = pick(&mut graph.input, u)? {
                let name = input.name.clone();
                graph.output.push(tract_onnx::pb::ValueInfoProto {
                    name,
                    ..Default::default()
                });
            }
        }
    }
    Ok(())
}

fn change_node(node: &mut NodeProto, u: &mut Unstructured<'_>) -> Result<()> {
    match u.int_in_range(0..=7)? {
        0 => (*u.choose(OPERATORS)?).clone_into(&mut node.op_type),
        1 => {
            let (one, other) = (index(node.input.len(), u)?, index(node.input.len(), u)?);
            if !node.input.is_empty() {
                node.input.swap(one, other);
            }
        }
        2 => drop(node.input.pop()),
        3 => node.input.extend(node.input.first().cloned()),
        4 => node.attribute.push(tract_onnx::pb::AttributeProto {
            name: (*u.choose(&["axis", "axes", "batch_axis", "perm", "to", "time_axis"])?)
                .to_owned(),
            r#type: if u.ratio(1, 4)? { 7 } else { 2 },
            i: number(u)?,
            ints: vec![number(u)?, number(u)?],
            ..Default::default()
        }),
        _ => {
            let Some(attribute) = pick(&mut node.attribute, u)? else {
                return Ok(());
            };
            if let Some(inner) = &mut attribute.g {
                return change(inner, u);
            }
            if let Some(value) = pick(&mut attribute.ints, u)? {
                *value = number(u)?;
            } else if let Some(tensor) = &mut attribute.t {
                if let Some(byte) = pick(&mut tensor.raw_data, u)? {
                    *byte = u.arbitrary()?;
                }
            } else if let Some(string) = pick(&mut attribute.strings, u)? {
                *string = u.choose(WORDS)?.as_bytes().to_vec();
            } else if !attribute.s.is_empty() {
                attribute.s = u.choose(WORDS)?.as_bytes().to_vec();
            } else {
                attribute.i = number(u)?;
                attribute.f = attribute.i as f32;
            }
        }
    }
    Ok(())
}

/// An index below `count`; 0 if that is 0.
fn index(count: usize, u: &mut Unstructured<'_>) -> Result<usize> {
    u.choose_index(count.max(1))
}

fn pick<'a, T>(all: &'a mut [T], u: &mut Unstructured<'_>) -> Result<Option<&'a mut T>> {
    let index = index(all.len(), u)?;
    Ok(all.get_mut(index))
}

/// A number, mostly of a size or an axis.
fn number(u: &mut Unstructured<'_>) -> Result<i64> {
    Ok(match u.int_in_range(0..=7)? {
        7 => u.arbitrary()?,
        6 => u.arbitrary::<i16>()?.into(),
        _ => u.int_in_range(-3..=9)?,
    })
}
