//! What the command prints of some models in `models/`, as snapshots to read; and what all of
//! them give, as data.
//!
//! Computed floats differ in their last digits from processor to processor, so a snapshot has
//! those of no model that computes; `verify` compares them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Models that show what there is to see: one of each kind.
const READ: [&str; 15] = [
    "exported/keras_bilstm_masked",
    "exported/mxnet_sequence_reverse_encoder",
    "graphs/if_branch",
    "graphs/local_function",
    "graphs/scan_body",
    "graphs/transposed",
    "lengths/flip_chain",
    "loops/test_loop11",
    "shapes/symbolic_batch_time",
    "shapes/zero_time",
    "subsequences/clamped_int32",
    "subsequences/rank3_axis1",
    "types/complex64",
    "types/nan_float16",
    "types/string",
];

/// Models whose outputs are computed and not only moved.
const COMPUTED: [&str; 14] = [
    "exported/keras_bilstm_masked",
    "exported/keras_gru_bidirectional",
    "exported/keras_gru_masked_backwards",
    "exported/keras_lstm_backwards_states",
    "exported/keras_lstm_gru_simplernn",
    "exported/keras_lstm_stacked_masked",
    "exported/keras_simplernn_bidirectional_masked",
    "exported/mxnet_sequence_reverse_encoder",
    "exported/tf_beam_search",
    "exported/tf_speech_bigru_timemajor",
    "exported/tf_while_reverse_sequence",
    "exported/tflite_reverse_sequence",
    "graphs/bilstm_flip",
    "graphs/bilstm_lengths",
];

/// Models that only one of tract and ONNX Runtime runs, or neither.
const NOT_BOTH: [&str; 6] = [
    "backend/test_reversesequence_bfloat16",
    "graphs/local_function",
    "graphs/local_function_attributes",
    "types/bfloat16",
    "types/complex128",
    "types/complex64",
];

fn is_computed(model: &str) -> bool {
    COMPUTED.contains(&model) || model.starts_with("recurrent/")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

/// All models, as paths from `models`.
fn all() -> Vec<String> {
    let folders = |path: &Path| {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .unwrap()
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let models = root().join("models");
    let in_group = |group: &String| {
        let names = folders(&models.join(group)).into_iter();
        let paths = names.map(|name| format!("{group}/{name}"));
        paths.collect::<Vec<_>>()
    };
    folders(&models).iter().flat_map(in_group).collect()
}

/// What the command prints and how it ends.
fn revseq(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_revseq"));
    if arguments[0] == "inspect" {
        // Which kernel a plan takes may depend on the width of vectors, which every CPU has of
        // this level.
        command.env("REVSEQ_SIMD", "portable");
    }
    let output = command
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text += &String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => text,
        code => format!("{text}exit {code:?}\n"),
    }
}

/// What `run` prints but for the values.
fn without_values(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines().filter(|line| !line.starts_with([' ', '['])) {
        writeln!(kept, "{line}").unwrap();
    }
    kept
}

#[test]
fn run_and_inspect() {
    for model in READ {
        let path = format!("models/{model}");
        let run = revseq(&["run", &path, "--backend", "tract"]);
        let run = match is_computed(model) {
            true => without_values(&run),
            false => run,
        };
        let inspect = revseq(&["inspect", &path]);
        let text = format!("$ revseq run {path}\n{run}\n$ revseq inspect {path}\n{inspect}");
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(model.replace('/', "_"), text);
        });
    }
}

#[test]
fn verify_of_all_models() {
    let text = revseq(&["verify", "models"]);
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("verify_models", text);
    });
}

/// ONNX Runtime's outputs are printed as tract's are, which `verify` compares with the models'.
#[test]
fn run_of_every_model_on_onnxruntime() {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(library), Some(_)) = (
        variable("REVSEQ_TEST_ORT_LIB"),
        variable("REVSEQ_EP_LIBRARY"),
    ) else {
        revseq_skips::skip(
            "run_of_every_model_on_onnxruntime",
            "REVSEQ_TEST_ORT_LIB or REVSEQ_EP_LIBRARY is not set",
        );
        return;
    };
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(arguments)
            .current_dir(root())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (
            output.status.success().then_some(text),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let compare = |model: &String| {
        let path = format!("models/{model}");
        let (tract, _) = run(&["run", &path, "--backend", "tract"]);
        let (ort, error) = run(&["run", &path, "--backend", "ort", "--ort-lib", &library]);
        if NOT_BOTH.contains(&model.as_str()) {
            assert!(tract.is_none() || ort.is_none(), "{model} runs on both");
            return;
        }
        let compared = |text: Option<String>| match text {
            Some(text) if is_computed(model) => Some(without_values(&text)),
            text => text,
        };
        assert!(ort.is_some(), "{model}: {error}");
        assert_eq!(compared(ort), compared(tract), "{model}");
    };
    let models = all();
    let (some, others) = models.split_at(models.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| some.iter().for_each(compare));
        others.iter().for_each(compare);
    });
}

#[test]
fn a_model_s_snapshot_in_rust() -> Result<(), revseq_runner::snapshot::Error> {
    use revseq_runner::snapshot::Run;
    // What a model moves has a digest; what one computes is rounded.
    let moved = Run::new(root().join("models/shapes/symbolic_batch_time"))
        .dim("N", 2)
        .dim("T", 3)
        .run()?;
    insta::assert_snapshot!("moved", moved);
    let computed = Run::new(root().join("models/graphs/bilstm_lengths"))
        .dim("N", 2)
        .dim("T", 3)
        .run()?;
    insta::assert_snapshot!("computed", computed);
    let error = Run::new(root().join("models/shapes/symbolic_batch_time"))
        .run()
        .unwrap_err();
    assert!(error.to_string().contains("--dim"), "{error}");
    Ok(())
}
