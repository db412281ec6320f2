//! The op on a software adapter, which is the same everywhere.
#![cfg(feature = "wgpu")]

use std::path::Path;

use revseq_tract::gpu::{self, AdapterChoice, Context, ContextOptions, wgpu};
use revseq_tract::{LoadOptions, Operator, ReverseSubsequences};
use tract_onnx::prelude::*;

const TIME_MAJOR: Operator = Operator::ReverseSequence {
    batch_axis: 1,
    time_axis: 0,
};

/// A context on the first software adapter; without one the test is skipped, by name.
fn context(test: &str) -> Option<Context> {
    let mut options = ContextOptions::default();
    options.adapter = AdapterChoice::Software;
    match Context::new(&options) {
        Ok(context) => Some(context),
        Err(error) => {
            assert!(
                gpu::adapters(wgpu::Backends::all())
                    .iter()
                    .all(|found| found.device_type != wgpu::DeviceType::Cpu),
                "{test}: {error}"
            );
            revseq_skips::skip(test, &error.to_string());
            None
        }
    }
}

/// A model of one op on a GPU for data `[4, 2]`, time first.
fn model(context: &Context, datum_type: DatumType) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", datum_type.fact([4, 2]))?;
    let lengths = model.add_source("lengths", i64::fact([2]))?;
    let op = ReverseSubsequences::new(TIME_MAJOR, 2)?.on_gpu(context);
    let output = model.wire_node("reversed", op, &[data, lengths])?;
    model.select_output_outlets(&output)?;
    Ok(model)
}

/// The adapters of the ops in a model.
fn adapters(model: &TypedModel) -> Vec<Option<&Context>> {
    let nodes = model.nodes().iter();
    nodes
        .filter_map(|node| node.op_as::<ReverseSubsequences>())
        .map(ReverseSubsequences::gpu)
        .collect()
}

#[test]
fn shared_and_unshared_data() -> TractResult<()> {
    let Some(context) = context("shared_and_unshared_data") else {
        return Ok(());
    };
    let model = model(&context, f32::datum_type())?.into_optimized()?;
    assert_eq!(adapters(&model), [Some(&context)]);
    let model = model.into_runnable()?;
    let data = tensor2(&[[0_f32, 4.], [1., 5.], [2., 6.], [3., 7.]]);
    let expected = tensor2(&[[3_f32, 6.], [2., 5.], [1., 4.], [0., 7.]]);
    let shared = data.clone().into_tvalue();
    for data in [shared.clone(), data.into_tvalue()] {
        let outputs = model.run(tvec!(data, tensor1(&[4_i64, 3]).into()))?;
        assert_eq!(*outputs[0], expected);
    }
    assert_eq!(shared.try_as_plain_ram()?.as_slice::<f32>()?[0], 0.0);
    let error = model
        .run(tvec!(shared, tensor1(&[4_i64, 5]).into()))
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("sequence length 5 at index 1 is out of range"),
        "{error:#}"
    );
    Ok(())
}

#[test]
fn unsupported_gpu_work_is_an_error() -> TractResult<()> {
    let Some(context) = context("unsupported_gpu_work_is_an_error") else {
        return Ok(());
    };
    let model = model(&context, String::datum_type())?.into_runnable()?;
    let data = tract_ndarray::Array2::from_elem([4, 2], String::from("a")).into_tensor();
    let error = model
        .run(tvec!(data.into(), tensor1(&[4_i64, 3]).into()))
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("elements of type String, which a GPU cannot move"),
        "{error:#}"
    );
    Ok(())
}

#[test]
fn a_gpu_that_is_lost_is_an_error() -> TractResult<()> {
    let Some(context) = context("a_gpu_that_is_lost_is_an_error") else {
        return Ok(());
    };
    let model = model(&context, f32::datum_type())?.into_runnable()?;
    let run = || {
        let data = Tensor::zero::<f32>(&[4, 2])?;
        model.run(tvec!(data.into(), tensor1(&[4_i64, 3]).into()))
    };
    run()?;
    context.device().destroy();
    for _ in 0..2 {
        let error = format!("{:#}", run().unwrap_err());
        assert!(error.contains("reversed"), "no node: {error}");
        assert!(error.contains("the device is lost"), "{error}");
    }
    Ok(())
}

#[test]
fn only_models_loaded_on_a_gpu_run_there() -> TractResult<()> {
    let Some(context) = context("only_models_loaded_on_a_gpu_run_there") else {
        return Ok(());
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/graphs/between_neg");
    let mut onnx = tract_onnx::onnx();
    revseq_tract::register(&mut onnx);
    let options = LoadOptions::new().on_gpu(&context);
    let proto = onnx.proto_model_for_path(path.join("model.onnx"))?;
    let load = |template| {
        let model = onnx.model_for_proto_model_with_model_template(&proto, template)?;
        model.into_optimized()
    };
    let (on_gpu, on_cpu) = (load(options.template())?, load(InferenceModel::default())?);
    assert_eq!(adapters(&on_gpu), [Some(&context)]);
    assert_eq!(adapters(&on_cpu), [None]);
    Ok(())
}
