//! The library in a real ONNX Runtime, on every platform that has no Python to test it: the shared
//! libraries that `REVSEQ_TEST_ORT_LIB` and `REVSEQ_EP_LIBRARY` name.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;
use ort::{AsPointer, ortsys};

const EP: &str = "RevSeqExecutionProvider";

/// The process's environment, for one test at a time: all register the library under one name.
static ONE: Mutex<Option<Environment>> = Mutex::new(None);

/// ONNX Runtime, and the provider's library; `None`, and a skip, if they are not named.
struct Host {
    environment: Environment,
    library: PathBuf,
    _one: MutexGuard<'static, Option<Environment>>,
}

impl Host {
    fn find(test: &str) -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let (Some(runtime), Some(library)) = (
            variable("REVSEQ_TEST_ORT_LIB"),
            variable("REVSEQ_EP_LIBRARY"),
        ) else {
            let reason = "REVSEQ_TEST_ORT_LIB or REVSEQ_EP_LIBRARY is not set";
            revseq_skips::skip(test, reason);
            return None;
        };
        let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let environment = one.get_or_insert_with(|| {
            let builder = ort::init_from(PathBuf::from(runtime)).unwrap();
            builder.with_telemetry(false).build().unwrap()
        });
        Some(Self {
            environment: environment.clone(),
            library: std::path::absolute(PathBuf::from(library)).unwrap(),
            _one: one,
        })
    }

    fn register(&self) {
        let registered = self
            .environment
            .register_ep_library("revseq", &self.library);
        registered.unwrap();
    }

    fn unregister(&self) -> ort::Result<()> {
        // SAFETY: the environment is valid, the name a string that ends with a zero.
        ortsys![unsafe UnregisterExecutionProviderLibrary(
            self.environment.ptr().cast_mut(),
            c"revseq".as_ptr()
        )?];
        Ok(())
    }

    /// A session whose nodes are all the provider's.
    fn session(&self) -> Session {
        let devices = self.environment.devices();
        let ours = devices.filter(|device| device.ep().is_ok_and(|ep| ep == EP));
        Session::builder(&self.environment)
            .unwrap()
            .with_devices(ours, None)
            .unwrap()
            .with_config_entry("session.disable_cpu_ep_fallback", "1")
            .unwrap()
            .commit_from_file(model("shapes/rank3_batch0_time2"))
            .unwrap()
    }
}

fn model(name: &str) -> PathBuf {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    models.join(name).join("model.onnx")
}

/// Runs a session and returns its only output, an array of floats.
fn run(session: &mut Session, inputs: [SessionInputValue<'_>; 2]) -> ort::Result<Vec<f32>> {
    let outputs = session.run(inputs)?;
    Ok(outputs[0].try_extract_tensor::<f32>()?.1.to_vec())
}

/// Checks a run of the model of a session of the provider's.
fn assert_reverses(session: &mut Session) {
    let x: Vec<f32> = (0..30_u8).map(f32::from).collect();
    let lengths = vec![5_i64, 0, 2];
    let mut expected = x.clone();
    for (row, line) in expected.chunks_mut(5).enumerate() {
        line[..lengths[row / 2] as usize].reverse();
    }
    let x = Tensor::from_array(([3, 2, 5], x)).unwrap();
    let lengths = Tensor::from_array(([3], lengths)).unwrap();
    let y = run(session, [x.into(), lengths.into()]).unwrap();
    assert_eq!(y, expected);
}

#[test]
fn sessions_outlive_the_registration() {
    let Some(host) = Host::find("sessions_outlive_the_registration") else {
        return;
    };
    for _ in 0..3 {
        host.register();
        let mut session = host.session();
        assert_reverses(&mut session);
        // ONNX Runtime unloads the library; its code has to stay for the session.
        host.unregister().unwrap();
        assert!(host.unregister().is_err(), "it is still registered");
        assert_reverses(&mut session);
        drop(session);
    }
}

#[test]
fn an_error_names_the_node_and_the_length() {
    let Some(host) = Host::find("an_error_names_the_node_and_the_length") else {
        return;
    };
    host.register();
    let mut session = host.session();
    let x = Tensor::from_array(([3, 2, 5], vec![0_f32; 30])).unwrap();
    let lengths = Tensor::from_array(([3], vec![5_i64, 6, 2])).unwrap();
    let error = run(&mut session, [x.into(), lengths.into()]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("ReverseSequence") && text.contains('6'),
        "{text}"
    );
    drop(session);
    host.unregister().unwrap();
}

#[test]
fn the_custom_op_runs_without_the_provider() {
    let Some(host) = Host::find("the_custom_op_runs_without_the_provider") else {
        return;
    };
    let devices = host.environment.devices();
    let cpu = devices.filter(|device| device.ep().is_ok_and(|ep| ep == "CPUExecutionProvider"));
    let mut session = Session::builder(&host.environment)
        .unwrap()
        .with_devices(cpu, None)
        .unwrap()
        .with_operator_library(&host.library)
        .unwrap()
        .commit_from_file(model("page/example_1_uint32"))
        .unwrap();
    let x: Vec<f32> = (1..=12_u8).map(f32::from).collect();
    let x = Tensor::from_array(([1, 1, 3, 4], x)).unwrap();
    let lengths = Tensor::from_array(([1, 1, 3, 1], vec![2_u32, 4, 3])).unwrap();
    let y = run(&mut session, [x.into(), lengths.into()]).unwrap();
    // Of DirectML's page.
    let expected = [2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12].map(|it| it as f32);
    assert_eq!(y, expected);
}
