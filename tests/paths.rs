//! Every way through the project, from a step and its data to the result.

use std::sync::OnceLock;

use prost::Message;
use revseq_graph::{ElementType, Operator, TensorType};
use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, reference,
};
use revseq_tract::ReverseSubsequences;
use tract_onnx::pb;
use tract_onnx::tract_hir::internal::*;

use crate::{Case, Elements, Lengths, Step};

/// The errors of a path.
pub type Error = Box<dyn std::error::Error>;

/// Runs one step of a case.
type Run = dyn Fn(&Case, &Step, Elements, LengthsPolicy) -> Result<Elements, Error>;

/// A way to run one step of a case.
pub struct Path {
    /// Its name.
    pub name: String,
    /// Returns the reason why it cannot move elements of a type, if it cannot.
    lacks: fn(ElementType) -> Option<&'static str>,
    run: Box<Run>,
}

/// Every path, the reference first, those on a GPU last.
#[must_use]
pub fn paths() -> Vec<Path> {
    let paths = vec![
        Path::new("reference", by_reference),
        Path::new("cpu serial", |case, step, input, policy| {
            out_of_place(case, step, &input, policy, Threads::Serial)
        }),
        Path::new("cpu threads", |case, step, input, policy| {
            out_of_place(case, step, &input, policy, Threads::RayonPool(pool()))
        }),
        Path::new("cpu in place", in_place),
        Path {
            lacks: tract_lacks,
            ..Path::new("tract", by_tract)
        },
    ];
    #[cfg(feature = "gpu")]
    let paths = paths.into_iter().chain(on_gpus()).collect();
    paths
}

/// Out of place and in place on each software adapter.
#[cfg(feature = "gpu")]
fn on_gpus() -> impl Iterator<Item = Path> {
    use crate::gpu;

    let lacks = |element_type| {
        (element_type == ElementType::String).then_some("a GPU moves bytes, and strings are more")
    };
    let contexts = gpu::software_contexts().into_iter();
    contexts.flat_map(move |context| {
        [("out of place", false), ("in place", true)].map(|(how, is_in_place)| {
            let name = format!("wgpu {how} on {}", context.adapter());
            let context = context.clone();
            let run = move |case: &Case, step: &Step, input, policy| {
                gpu::run(&context, is_in_place, case, step, input, policy)
            };
            Path {
                lacks,
                ..Path::new(&name, run)
            }
        })
    })
}

impl Path {
    fn new(
        name: &str,
        run: impl Fn(&Case, &Step, Elements, LengthsPolicy) -> Result<Elements, Error> + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            lacks: |_| None,
            run: Box::new(run),
        }
    }

    /// Runs all steps of a case.
    ///
    /// # Errors
    /// The first step's that fails.
    pub fn run(&self, case: &Case, policy: LengthsPolicy) -> Result<Elements, Error> {
        let steps = case.steps.clone()?;
        steps.iter().try_fold(case.input.clone(), |elements, step| {
            (self.run)(case, step, elements, policy)
        })
    }

    /// Returns the reason why this path cannot run a case at all.
    #[must_use]
    pub fn lacks(&self, case: &Case) -> Option<&'static str> {
        (self.lacks)(case.element_type)
    }
}

fn tract_lacks(element_type: ElementType) -> Option<&'static str> {
    [DataType::Complex64, DataType::Complex128]
        .map(ElementType::Fixed)
        .contains(&element_type)
        .then_some("tract has no complex types unless a feature of it is on")
}

fn pool() -> &'static rayon::ThreadPool {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .expect("two threads")
    })
}

/// The descriptor of a step.
pub(crate) fn lower(case: &Case, step: &Step) -> Result<ReverseSubsequencesDesc, Error> {
    let data = TensorType {
        element_type: case.element_type,
        sizes: &case.sizes,
    };
    let lengths_type = match step.lengths {
        Lengths::U32(_) => DataType::Uint32,
        Lengths::I32(_) | Lengths::I64(_) => DataType::Int64,
    };
    let lengths = TensorType {
        element_type: lengths_type.into(),
        sizes: &step.lengths_sizes,
    };
    Ok(step.operator.lower(&case.name, data, lengths)?)
}

fn by_reference(
    case: &Case,
    step: &Step,
    input: Elements,
    policy: LengthsPolicy,
) -> Result<Elements, Error> {
    let mut desc = lower(case, step)?;
    // The reference clamps; that nothing has to is checked by the plan's rules.
    SequenceLengths::new(&Plan::new(&desc)?, step.lengths.data(), policy)?;
    match input {
        Elements::Bytes(bytes) => {
            let mut output = vec![0; bytes.len()];
            reference::reverse_subsequences(&desc, &bytes, step.lengths.data(), &mut output);
            Ok(Elements::Bytes(output))
        }
        Elements::Strings(strings) => {
            // Strings are moved as their indices.
            desc.input.data_type = DataType::Uint32;
            let indices: Vec<u8> = (0..strings.len() as u32)
                .flat_map(u32::to_ne_bytes)
                .collect();
            let mut output = vec![0; indices.len()];
            reference::reverse_subsequences(&desc, &indices, step.lengths.data(), &mut output);
            let moved = output.chunks_exact(4).map(|index| {
                let index = u32::from_ne_bytes(index.try_into().expect("four bytes"));
                strings[index as usize].clone()
            });
            Ok(Elements::Strings(moved.collect()))
        }
    }
}

fn out_of_place(
    case: &Case,
    step: &Step,
    input: &Elements,
    policy: LengthsPolicy,
    threads: Threads<'_>,
) -> Result<Elements, Error> {
    let Elements::Bytes(bytes) = input else {
        return in_place(case, step, input.clone(), policy);
    };
    let plan = Plan::new(&lower(case, step)?)?;
    let lengths = SequenceLengths::new(&plan, step.lengths.data(), policy)?;
    let mut output = vec![0xa5; plan.output_bytes()];
    cpu::run(&plan, &lengths, bytes, &mut output, threads)?;
    Ok(Elements::Bytes(output))
}

fn in_place(
    case: &Case,
    step: &Step,
    mut data: Elements,
    policy: LengthsPolicy,
) -> Result<Elements, Error> {
    let plan = Plan::new(&lower(case, step)?)?;
    let lengths = SequenceLengths::new(&plan, step.lengths.data(), policy)?;
    match &mut data {
        Elements::Bytes(bytes) => cpu::run_in_place(&plan, &lengths, bytes, Threads::Serial)?,
        Elements::Strings(strings) => cpu::reverse_in_place(&plan, &lengths, strings)?,
    }
    Ok(data)
}

fn by_tract(
    case: &Case,
    step: &Step,
    input: Elements,
    policy: LengthsPolicy,
) -> Result<Elements, Error> {
    let [data, lengths] = tensors(case, step, input)?;
    let mut model = TypedModel::default();
    let inputs = [
        model.add_source("data", data.datum_type().fact(data.shape()))?,
        model.add_source("lengths", lengths.datum_type().fact(lengths.shape()))?,
    ];
    let op = ReverseSubsequences::new(step.operator, data.rank())?.with_policy(policy);
    let output = model.wire_node(&case.name, op, &inputs)?;
    model.select_output_outlets(&output)?;
    run_on_tract(model.into_optimized()?, data, lengths)
}

/// A node of the operator, rewritten to standard ones, on a tract that lacks it.
/// It clamps.
#[must_use]
pub fn rewritten() -> Path {
    Path {
        lacks: tract_lacks,
        ..Path::new("rewritten, tract", |case, step, input, _| {
            by_standard_operators(case, step, input)
        })
    }
}

fn by_standard_operators(case: &Case, step: &Step, input: Elements) -> Result<Elements, Error> {
    let [data, lengths] = tensors(case, step, input)?;
    let model = standard_model(case, std::slice::from_ref(step))?;
    let model = tract_onnx::onnx().model_for_read(&mut model.as_slice())?;
    run_on_tract(model.into_optimized()?, data, lengths)
}

/// A case as one of ONNX's backend tests.
pub struct BackendTest {
    /// The model, of standard operators alone.
    pub model: Vec<u8>,
    /// Its inputs in their order.
    pub inputs: Vec<pb::TensorProto>,
    /// The expected output, with lengths clamped.
    pub output: pb::TensorProto,
}

/// A case by standard operators alone; `None` if nothing comes out of it.
///
/// # Errors
/// It cannot be written as a model.
pub fn backend_test(case: &Case) -> Result<Option<BackendTest>, Error> {
    let (Ok(steps), Some(output)) = (&case.steps, &case.clamping) else {
        return Ok(None);
    };
    let code = case.element_type.onnx_code();
    let mut inputs = vec![tensor_proto("data", code, &case.sizes, case.input.clone())];
    for (index, step) in steps.iter().enumerate() {
        let bytes = match &step.lengths {
            Lengths::U32(lengths) => lengths.iter().flat_map(|it| it.to_le_bytes()).collect(),
            lengths => lengths
                .to_i64()
                .iter()
                .flat_map(|it| it.to_le_bytes())
                .collect(),
        };
        let (name, bytes) = (format!("lengths{index}"), Elements::Bytes(bytes));
        inputs.push(tensor_proto(
            &name,
            lengths_code(step),
            &step.lengths_sizes,
            bytes,
        ));
    }
    Ok(Some(BackendTest {
        model: standard_model(case, steps)?,
        inputs,
        output: tensor_proto("output", code, &case.sizes, output.clone()),
    }))
}

fn tensor_proto(name: &str, code: i32, sizes: &[u64], elements: Elements) -> pb::TensorProto {
    let (raw_data, string_data) = match elements {
        Elements::Bytes(bytes) => (bytes, Vec::new()),
        Elements::Strings(strings) => {
            let strings = strings.into_iter().map(String::into_bytes);
            (Vec::new(), strings.collect())
        }
    };
    pb::TensorProto {
        name: name.to_owned(),
        data_type: code,
        dims: sizes.iter().map(|&size| size as i64).collect(),
        raw_data,
        string_data,
        ..Default::default()
    }
}

fn lengths_code(step: &Step) -> i32 {
    let data_type = match step.lengths {
        Lengths::U32(_) => DataType::Uint32,
        Lengths::I32(_) | Lengths::I64(_) => DataType::Int64,
    };
    ElementType::Fixed(data_type).onnx_code()
}

/// Steps in a row, rewritten to standard operators.
fn standard_model(case: &Case, steps: &[Step]) -> Result<Vec<u8>, Error> {
    let bytes = onnx_model(case, steps).encode_to_vec();
    let mut model = revseq_onnx::decode(&bytes)?;
    let options = revseq_rewrite::Options {
        portable: true,
        ..Default::default()
    };
    revseq_rewrite::rewrite_messages(&mut model, &options)?;
    Ok(revseq_onnx::encode(&model)?)
}

/// A model of a node for each step.
fn onnx_model(case: &Case, steps: &[Step]) -> pb::ModelProto {
    let code = case.element_type.onnx_code();
    let mut input = vec![value("data", code, &case.sizes)];
    let mut node = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let (domain, op_type, axes) = match step.operator {
            Operator::ReverseSequence {
                batch_axis,
                time_axis,
            } => (
                "",
                "ReverseSequence",
                vec![("batch_axis", batch_axis), ("time_axis", time_axis)],
            ),
            Operator::ReverseSubsequences { axis } => (
                revseq_graph::DOMAIN,
                "ReverseSubsequences",
                vec![("axis", axis)],
            ),
        };
        let attributes = axes.into_iter().map(|(name, i)| pb::AttributeProto {
            name: name.to_owned(),
            r#type: pb::attribute_proto::AttributeType::Int as i32,
            i,
            ..Default::default()
        });
        let lengths = format!("lengths{index}");
        input.push(value(&lengths, lengths_code(step), &step.lengths_sizes));
        let name = |at: usize| match at {
            0 => "data".to_owned(),
            at if at == steps.len() => "output".to_owned(),
            at => format!("data{at}"),
        };
        node.push(pb::NodeProto {
            domain: domain.to_owned(),
            op_type: op_type.to_owned(),
            input: vec![name(index), lengths],
            output: vec![name(index + 1)],
            attribute: attributes.collect(),
            ..Default::default()
        });
    }
    let graph = pb::GraphProto {
        name: "graph".to_owned(),
        node,
        input,
        output: vec![value("output", code, &case.sizes)],
        ..Default::default()
    };
    let import = |domain: &str, version| pb::OperatorSetIdProto {
        domain: domain.to_owned(),
        version,
    };
    pb::ModelProto {
        ir_version: 8,
        opset_import: vec![import("", 17), import(revseq_graph::DOMAIN, 1)],
        graph: Some(graph),
        ..Default::default()
    }
}

fn value(name: &str, code: i32, sizes: &[u64]) -> pb::ValueInfoProto {
    let dim = sizes.iter().map(|&size| pb::tensor_shape_proto::Dimension {
        value: Some(pb::tensor_shape_proto::dimension::Value::DimValue(
            size as i64,
        )),
        ..Default::default()
    });
    let tensor_type = pb::type_proto::Tensor {
        elem_type: code,
        shape: Some(pb::TensorShapeProto { dim: dim.collect() }),
    };
    pb::ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(pb::TypeProto {
            value: Some(pb::type_proto::Value::TensorType(tensor_type)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A step's data and lengths.
fn tensors(case: &Case, step: &Step, input: Elements) -> Result<[Tensor; 2], Error> {
    let shape: TVec<usize> = case.sizes.iter().map(|&size| size as usize).collect();
    let data = match input {
        Elements::Strings(strings) => {
            tract_ndarray::ArrayD::from_shape_vec(&*shape, strings)?.into_tensor()
        }
        Elements::Bytes(bytes) => tensor(case.element_type, &shape, &bytes)?,
    };
    let lengths_shape: TVec<usize> = step.lengths_sizes.iter().map(|&s| s as usize).collect();
    let lengths = match &step.lengths {
        Lengths::U32(lengths) => Tensor::from_shape(&lengths_shape, lengths)?,
        lengths => Tensor::from_shape(&lengths_shape, &lengths.to_i64())?,
    };
    Ok([data, lengths])
}

fn run_on_tract(model: TypedModel, data: Tensor, lengths: Tensor) -> Result<Elements, Error> {
    let inputs = tvec!(data.into(), lengths.into());
    let output = model.into_runnable()?.run(inputs)?.remove(0);
    Ok(match output.datum_type() {
        DatumType::String => {
            Elements::Strings(output.try_as_plain_ram()?.as_slice::<String>()?.to_vec())
        }
        _ => Elements::Bytes(output.try_as_plain_ram()?.as_bytes().to_vec()),
    })
}

fn tensor(element_type: ElementType, shape: &[usize], bytes: &[u8]) -> Result<Tensor, Error> {
    let ElementType::Fixed(data_type) = element_type else {
        return Err("strings are not bytes".into());
    };
    let datum_type = match data_type {
        DataType::Float32 => DatumType::F32,
        DataType::Float16 => DatumType::F16,
        DataType::Uint32 => DatumType::U32,
        DataType::Uint16 => DatumType::U16,
        DataType::Uint8 => DatumType::U8,
        DataType::Int32 => DatumType::I32,
        DataType::Int16 => DatumType::I16,
        DataType::Int8 => DatumType::I8,
        DataType::Float64 => DatumType::F64,
        DataType::Uint64 => DatumType::U64,
        DataType::Int64 => DatumType::I64,
        DataType::Bool => DatumType::Bool,
        other => return Err(format!("tract has no type for {other}").into()),
    };
    let mut tensor = Tensor::zero_dt(datum_type, shape)?;
    tensor
        .try_as_plain_ram_mut()?
        .as_bytes_mut()
        .copy_from_slice(bytes);
    Ok(tensor)
}
