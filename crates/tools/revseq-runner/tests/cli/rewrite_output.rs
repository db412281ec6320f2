//! The destinations of `revseq rewrite`, and the backends of its check.

use crate::common::{Folder, fails, models, refuses, reverse_graph, succeeds};
use crate::ort::onnxruntime;

#[test]
fn a_model_goes_to_standard_output() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let arguments = ["rewrite", &path, "--portable", "-o"];
    let file = folder.path("out.onnx");
    let report = succeeds(&[&arguments[..], &[&file]].concat());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments)
        .arg("-")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, std::fs::read(file).unwrap());
    assert_eq!(output.stderr, report.as_bytes());
}

#[test]
fn options_of_a_check_need_one() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let output = folder.path("out.onnx");
    let arguments = ["rewrite", &path, "-o", &output, "--portable"];
    for (options, flag) in [
        (["--rtol", "1"], "--rtol"),
        (["--threads", "1"], "--threads"),
        (["--backend", "tract"], "--backend"),
    ] {
        let arguments = [&arguments[..], &options].concat();
        refuses(&arguments, flag);
        let report = succeeds(&[&arguments[..], &["--check", "--backend", "tract"]].concat());
        assert!(report.contains("check on tract, made-up inputs 1: ok"));
        assert!(!report.contains("check on ort"), "{report}");
        std::fs::remove_file(&output).unwrap();
    }
    refuses(
        &[&arguments[..], &["--check", "--atol", "z=1"]].concat(),
        "there is no output \"z\" to set a tolerance for; the outputs are y",
    );
}

#[test]
fn a_check_runs_on_the_backends_that_are_named() {
    let Some(library) = onnxruntime("a_check_runs_on_the_backends_that_are_named") else {
        return;
    };
    let folder = Folder::new();
    let path = models()
        .join("exported/keras_gru_bidirectional")
        .display()
        .to_string();
    let output = folder.path("out.onnx");
    let arguments = [
        "rewrite",
        &path,
        "-o",
        &output,
        "--fast",
        "--check",
        "--threads",
        "1",
    ];
    let backends = ["--backend", "ort,tract,ort-plain", "--ort-lib", &library];
    let report = succeeds(&[&arguments[..], &backends].concat());
    let checked = report
        .lines()
        .filter_map(|line| line.strip_prefix("check on "));
    let checked: Vec<&str> = checked
        .map(|line| line.split(',').next().unwrap())
        .collect();
    // On two data sets each.
    let expected = ["ort", "ort", "tract", "tract", "ort-plain", "ort-plain"];
    assert_eq!(checked, expected, "{report}");
    assert_eq!(report.matches(": ok\n").count(), 6, "{report}");
    // The tolerance that is given is the one that counts.
    std::fs::remove_file(&output).unwrap();
    fails(
        &[&arguments[..], &backends, &["--atol", "0", "--rtol", "0"]].concat(),
        ": FAILED: output ",
    );
    assert!(!std::path::Path::new(&output).exists());
}
