//! Sessions in a real ONNX Runtime: the shared libraries that `REVSEQ_TEST_ORT_LIB` and
//! `REVSEQ_EP_LIBRARY` name.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::session::Session;
use ort::value::Tensor;
use revseq_ort::{Assigned, Error, Lengths, Loops, NAME, Options, Provider, assigned, report};

/// The environment of the process.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// ONNX Runtime, and the provider's library; `None`, and a skip, if they are not named.
fn host(test: &str) -> Option<(Environment, PathBuf)> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (Some(runtime), Some(library)) = (
        variable("REVSEQ_TEST_ORT_LIB"),
        variable("REVSEQ_EP_LIBRARY"),
    ) else {
        revseq_skips::skip(test, "REVSEQ_TEST_ORT_LIB or REVSEQ_EP_LIBRARY is not set");
        return None;
    };
    let mut environment = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    let environment = environment.get_or_insert_with(|| {
        let builder = ort::init_from(PathBuf::from(runtime)).unwrap();
        builder.with_telemetry(false).build().unwrap()
    });
    Some((environment.clone(), PathBuf::from(library)))
}

fn model(name: &str) -> PathBuf {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    models.join(name).join("model.onnx")
}

/// The operators that the provider has.
fn ours(session: &Session) -> Vec<String> {
    let all = assigned(session).unwrap().into_iter();
    let ours = all.filter(|it: &Assigned| it.provider == NAME);
    let mut operators: Vec<String> = ours.map(|it| it.operator).collect();
    operators.sort();
    operators
}

fn run(session: &mut Session) -> Vec<f32> {
    let x: Vec<f32> = (0..56_u8).map(|it| f32::from(it % 11) / 11.0).collect();
    let x = Tensor::from_array(([1, 7, 8], x)).unwrap();
    let outputs = session.run(ort::inputs!["x" => x]).unwrap();
    outputs[0].try_extract_tensor::<f32>().unwrap().1.to_vec()
}

#[test]
fn loops_run_as_layers_and_reversals_on_the_provider() {
    let Some((environment, library)) = host("loops_run_as_layers_and_reversals_on_the_provider")
    else {
        return;
    };
    let provider = Provider::register(&environment, &library).unwrap();
    // Once more is no error.
    Provider::register(&environment, &library).unwrap();
    let path = model("exported/keras_bilstm_masked");
    let options = Options::new().with_threads(1);
    let mut plain = provider.session(&path, &options).unwrap();
    assert_eq!(ours(&plain), ["ReverseSequence"; 4]);
    let options = options.with_loops(Loops::AsLayers);
    let mut replaced = provider.session(&path, &options).unwrap();
    let loops = ours(&replaced);
    assert_eq!(
        loops.iter().filter(|it| *it == "Loop").count(),
        4,
        "{loops:?}"
    );
    let (found, expected) = (run(&mut replaced), run(&mut plain));
    let close = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-4;
    assert!(
        std::iter::zip(&found, &expected).all(close),
        "{found:?} {expected:?}"
    );
    let bytes = std::fs::read(&path).unwrap();
    let mut from_memory = provider.session_from_memory(&bytes, &options).unwrap();
    assert_eq!(run(&mut from_memory), found);
}

#[test]
fn a_session_tells_what_became_of_its_loops() {
    let Some((environment, library)) = host("a_session_tells_what_became_of_its_loops") else {
        return;
    };
    let provider = Provider::register(&environment, &library).unwrap();
    let options = Options::new().with_threads(1);
    let loops = options.clone().with_loops(Loops::AsLayers);
    let masked = model("exported/keras_bilstm_masked");
    let replaced = provider.session(&masked, &loops).unwrap();
    let found = report(&environment, &replaced).unwrap();
    assert_eq!((found.taken.len(), &*found.left), (4, &[][..]));
    for taken in &found.taken {
        assert_eq!(taken.operator, "Loop");
        assert_eq!(taken.to, "LSTM, forward, with its mask");
        let line = format!("Loop {:?} runs as LSTM, forward, with its mask", taken.node);
        assert_eq!(taken.to_string(), line);
    }
    // Once more, and beside another session.
    let plain = provider.session(&masked, &options).unwrap();
    assert_eq!(report(&environment, &replaced).unwrap(), found);
    let found = report(&environment, &plain).unwrap();
    assert_eq!(
        (found.taken.len(), found.left.len(), found.reversals),
        (0, 0, 4)
    );
    let path = model("exported/tf_while_reverse_sequence");
    let found = report(&environment, &provider.session(path, &loops).unwrap()).unwrap();
    let [left] = &found.left[..] else {
        panic!("{found:?}");
    };
    assert!(!left.could_be_replaced);
    let line = left.to_string();
    assert!(
        line.starts_with("Loop \"while_loop\" stays: its condition "),
        "{line}"
    );
    let without = Session::builder(&environment).unwrap();
    let cpu = environment
        .devices()
        .filter(|it| it.ep().is_ok_and(|ep| ep != NAME));
    let mut without = without.with_devices(cpu, None).unwrap();
    let without = without.commit_from_file(&masked).unwrap();
    let error = report(&environment, &without).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no report: the session has no {NAME}")
    );
}

#[test]
fn layers_of_the_model_stay_if_only_loops_are_asked_for() {
    let Some((environment, library)) = host("layers_of_the_model_stay_if_only_loops_are_asked_for")
    else {
        return;
    };
    let provider = Provider::register(&environment, &library).unwrap();
    let path = model("recurrent/test_lstm_defaults");
    for (layers, expected) in [(None, 1), (Some(true), 1), (Some(false), 0)] {
        let options = Options::new().with_loops(Loops::AsLayers);
        let options = match layers {
            None => options,
            Some(layers) => options.with_layers(layers),
        };
        let session = provider.session(&path, &options).unwrap();
        assert_eq!(
            report(&environment, &session).unwrap().layers,
            expected,
            "{layers:?}"
        );
    }
}

/// The lines that the crate `log` was given.
#[cfg(feature = "rewrite")]
struct Lines(Mutex<Vec<String>>);

#[cfg(feature = "rewrite")]
impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.level(), record.args());
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    fn flush(&self) {}
}

#[cfg(feature = "rewrite")]
#[test]
fn models_are_rewritten_in_memory() {
    static LINES: Lines = Lines(Mutex::new(Vec::new()));
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let Some((environment, library)) = host("models_are_rewritten_in_memory") else {
        return;
    };
    let provider = Provider::register(&environment, library).unwrap();
    let path = model("exported/keras_bilstm_masked");
    let options = Options::new().with_rewriting(true).with_layers(true);
    let mut session = provider.session(&path, &options).unwrap();
    assert!(ours(&session).iter().any(|it| it == "LSTM"));
    let lines = |of: &Path| {
        let all = LINES.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = of.display().to_string();
        let of_model = all.iter().filter(|line| line.contains(&start));
        of_model.cloned().collect::<Vec<_>>()
    };
    let became = lines(&path);
    assert_eq!(became.len(), 4, "{became:?}");
    let runs = |line: &String| line.starts_with("INFO ") && line.contains(" runs as LSTM, ");
    assert!(became.iter().all(runs), "{became:?}");
    let other = model("exported/tf_while_reverse_sequence");
    provider.session(&other, &options).unwrap();
    let [left] = &lines(&other)[..] else {
        panic!("{:?}", lines(&other));
    };
    assert!(
        left.starts_with("WARN ") && left.contains("Loop \"while_loop\" stays: "),
        "{left}"
    );
    let bytes = std::fs::read(&path).unwrap();
    let mut from_memory = provider.session_from_memory(&bytes, &options).unwrap();
    assert_eq!(run(&mut session), run(&mut from_memory));
    let error = provider
        .session_from_memory(&bytes[..100], &options)
        .unwrap_err();
    assert!(
        error.to_string().starts_with("the model in memory: "),
        "{error}"
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let Some((environment, library)) = host("errors_say_what_is_wrong") else {
        return;
    };
    let provider = Provider::register(&environment, &library).unwrap();
    let path = model("shapes/rank3_batch0_time2");
    let missing = path.with_file_name("none.onnx");
    let error = provider.session(&missing, &Options::new()).unwrap_err();
    assert!(error.to_string().contains("none.onnx"), "{error}");
    assert!(matches!(error, Error::Ort(_)), "{error:?}");
    let clamped = Options::new().with_lengths(Lengths::Clamp);
    assert_eq!(
        ours(&provider.session(&path, &clamped).unwrap()),
        ["ReverseSequence"]
    );
}

#[test]
fn a_library_that_is_missing_is_named() {
    let Some((environment, _)) = host("a_library_that_is_missing_is_named") else {
        return;
    };
    // Another test may have registered it, after which no library is needed.
    if let Err(error) = Provider::register(&environment, "none/librevseq_ep.so") {
        let expected = format!("none/librevseq_ep.so: no {NAME}: there is no such file");
        assert_eq!(error.to_string(), expected);
    }
    let name = Provider::library_name();
    assert!(name.to_str().unwrap().contains("revseq_ep."), "{name:?}");
}
