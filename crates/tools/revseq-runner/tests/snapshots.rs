//! The command's output for some models in `models/`, as snapshots.
//!
//! Computed floats differ in their last digits from processor to processor, so a snapshot has
//! those of no model that computes; `verify` compares them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One model of each kind.
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
const COMPUTED: [&str; 2] = [
    "exported/keras_bilstm_masked",
    "exported/mxnet_sequence_reverse_encoder",
];

/// Models that only one of tract and ONNX Runtime runs, or neither.
const NOT_BOTH: [&str; 1] = ["types/complex64"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .to_owned()
}

/// The command's output and exit status.
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

/// The output of `run` without the values.
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
        let run = match COMPUTED.contains(&model) {
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

/// ONNX Runtime's outputs are printed as tract's are; `verify` compares those of all models.
#[test]
fn run_prints_the_same_on_onnxruntime() {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(library), Some(_)) = (
        variable("REVSEQ_TEST_ORT_LIB"),
        variable("REVSEQ_EP_LIBRARY"),
    ) else {
        revseq_skips::skip(
            "run_prints_the_same_on_onnxruntime",
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
    for model in READ {
        let path = format!("models/{model}");
        let (tract, _) = run(&["run", &path, "--backend", "tract"]);
        let (ort, error) = run(&["run", &path, "--backend", "ort", "--ort-lib", &library]);
        if NOT_BOTH.contains(&model) {
            assert!(tract.is_none() || ort.is_none(), "{model} runs on both");
            continue;
        }
        let compared = |text: Option<String>| match text {
            Some(text) if COMPUTED.contains(&model) => Some(without_values(&text)),
            text => text,
        };
        assert!(ort.is_some(), "{model}: {error}");
        assert_eq!(compared(ort), compared(tract), "{model}");
    }
}

#[test]
fn a_model_s_snapshot_in_rust() -> Result<(), revseq_runner::snapshot::Error> {
    use revseq_runner::snapshot::Run;
    // Moved outputs have a digest; computed ones are rounded.
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
