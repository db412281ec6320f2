//! `revseq bench`.

use std::process::Command;

use serde_json::Value as Json;

use crate::common::{Folder, has, models, refuses, revseq, succeeds};
use crate::ort::onnxruntime;

fn model(name: &str) -> String {
    models().join(name).display().to_string()
}

/// Measures a model for a moment on an ONNX Runtime.
fn bench(library: &str, model: &str, arguments: &[&str]) -> crate::common::Run {
    let bench = ["bench", model, "--ort-lib", library, "--seconds", "0.2"];
    revseq(&[&bench, arguments].concat())
}

/// Compares a table with a snapshot, without times and without what is the fastest.
fn assert_table(name: &str, table: &str) {
    let folder = models().display().to_string();
    insta::with_settings!({
        filters => vec![
            (folder.as_str(), "models"),
            (r"ONNX Runtime \d+\.\d+\.\d+", "ONNX Runtime [version]"),
            (r"\d+(\.\d+)? (ns|µs|ms|s)\b", "[time]"),
            (r"\d+(\.\d+)? MiB\b", "[peak]"),
            (r" +\[time\] +(\d+\.\d+|\d+|-) +\[time\] +\[peak\]", " [time] [ratio] [time] [peak]"),
            (r"\[time\] \| \d+(\.\d+)? \|", "[time] | [ratio] |"),
            (r"way +a run +ratio +load +peak", "way a run ratio load peak"),
            (r"(?s)(fastest|nothing is faster).*", "[fastest]"),
        ],
    }, {
        insta::assert_snapshot!(name, table);
    });
}

#[test]
fn without_onnxruntime_tract_is_measured() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(["bench", &model("exported/keras_bilstm_masked")])
        .args(["--seconds", "0.1"])
        .env_remove("ORT_DYLIB_PATH")
        .env("VIRTUAL_ENV", folder.path("none"))
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.starts_with("ONNX Runtime is not measured: there is no ONNX Runtime: ")
            && stderr.contains("or name its shared library with --ort-lib PATH\n"),
        "{stderr}"
    );
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    assert_table("bench_on_tract", &stdout);
    let code = format!(
        "fastest: tract\n  Rust: revseq_tract::Session::open({:?})?\n",
        model("exported/keras_bilstm_masked/model.onnx")
    );
    assert!(stdout.ends_with(&code), "{stdout}");
}

#[test]
fn each_way_is_a_row_with_what_it_takes() {
    let Some(library) = onnxruntime("each_way_is_a_row_with_what_it_takes") else {
        return;
    };
    // One whose loops are layers, one that ONNX Runtime refuses, and one whose loop stays.
    for (name, path) in [
        ("bench_layers", "exported/keras_bilstm_masked"),
        ("bench_refused", "exported/tf_axes_2_3"),
        ("bench_stays", "exported/tf_while_reverse_sequence"),
    ] {
        let run = bench(&library, &model(path), &[]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert_table(name, &run.stdout);
    }
    let run = bench(
        &library,
        &model("exported/keras_bilstm_masked"),
        &["--format", "markdown"],
    );
    assert_table("bench_markdown", &run.stdout);
}

#[test]
fn the_fastest_way_is_recommended() {
    let Some(library) = onnxruntime("the_fastest_way_is_recommended") else {
        return;
    };
    let path = model("exported/keras_bilstm_masked");
    let run = bench(&library, &path, &["--format", "json"]);
    let json: Json = serde_json::from_str(&run.stdout).expect("JSON");
    let json = &json["models"][0];
    assert_eq!(json["threads"], 1);
    assert_eq!(json["inputs"]["x"], "float[3,7,8]");
    let ways = json["ways"].as_array().expect("ways");
    let median = |way: &Json| way["median_seconds"].as_f64().unwrap_or(f64::INFINITY);
    let plain = &ways[0];
    assert_eq!(
        (&plain["way"], &plain["ratio"]),
        (&"onnxruntime".into(), &1.0.into())
    );
    assert!(
        median(plain) > 0.0 && plain["runs"].as_u64() > Some(0),
        "{plain}"
    );
    let fastest = ways.iter().min_by(|a, b| median(a).total_cmp(&median(b)));
    let fastest = fastest.expect("a way");
    assert_eq!(json["rust"]["way"], fastest["way"], "{json}");
    let ratio = fastest["ratio"].as_f64().expect("a number");
    assert!(
        (ratio * median(plain) - median(fastest)).abs() < 1e-9,
        "{fastest}"
    );
    let python = json["python"]["code"].as_str().expect("a line");
    let start = format!(
        "onnxruntime_ep_revseq.create_session({:?}, ",
        format!("{path}/model.onnx")
    );
    assert!(python.starts_with(&start), "{python}");
}

/// A process of its own tells it: what each way alone needs, with its inputs.
#[test]
#[cfg(target_os = "linux")]
fn each_way_has_its_peak_memory() {
    let Some(library) = onnxruntime("each_way_has_its_peak_memory") else {
        return;
    };
    let peaks = |batch: &str| -> Vec<(String, u64)> {
        let sizes = ["--fill", "random", "--dim", "x.1=8", "--dim", batch];
        let arguments = [&sizes[..], &["--format", "json"]].concat();
        let run = bench(
            &library,
            &model("exported/keras_gru_bidirectional"),
            &arguments,
        );
        let json: Json = serde_json::from_str(&run.stdout).expect("JSON");
        let ways = json["models"][0]["ways"].as_array().expect("ways");
        let ran = ways.iter().filter(|it| it["reason"].is_null());
        let peak = |it: &Json| it["peak_bytes"].as_u64().expect("a number");
        ran.map(|it| (it["way"].to_string(), peak(it))).collect()
    };
    let (few, many) = (peaks("x.0=1"), peaks("x.0=50000"));
    assert!(few.len() >= 4, "{few:?}");
    // Input and output of 50,000 sequences alone have more.
    let both = 4 * 50_000 * 8 * (5 + 16);
    for ((way, few), (same, many)) in std::iter::zip(&few, &many) {
        assert_eq!(way, same);
        assert!(*few > 8 << 20 && *many > few + both, "{way}: {few}, {many}");
    }
    let peak = |way: &str| few.iter().find(|it| it.0.contains(way)).expect("a way").1;
    assert!(peak("tract") + (4 << 20) < peak("onnxruntime"), "{few:?}");
}

#[test]
fn outputs_that_differ_fail() {
    let Some(library) = onnxruntime("outputs_that_differ_fail") else {
        return;
    };
    // The same up to rounding.
    let exact = ["--rtol", "0", "--atol", "0"];
    let run = bench(&library, &model("exported/keras_bilstm_masked"), &exact);
    assert_eq!(run.code, Some(1), "{run:?}");
    has(&run.stdout, "\n  DIFFERENT output \"Identity:0\": [0,");
}

#[test]
fn several_models_are_measured_and_written_to_a_file() {
    let (one, two) = (model("graphs/between_neg"), model("lengths/graph_input"));
    let folder = Folder::new();
    let file: &str = &folder.write("bench.json", &[b'x'; 100_000]);
    let arguments = ["bench", &one, &two, "--seconds", "0.05", "--format", "json"];
    let out = ["--fill", "zeros", "-o", file];
    refuses(
        &[&arguments[..], &out].concat(),
        "the file exists; --overwrite replaces it",
    );
    let stdout = succeeds(&[&arguments[..], &out, &["--overwrite"]].concat());
    assert_eq!(stdout, "");
    let json: Json = serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    assert_eq!(json["schema"], "revseq-bench-1");
    let paths = json["models"].as_array().expect("models");
    let paths: Vec<&Json> = paths.iter().map(|it| &it["model"]).collect();
    assert_eq!(
        paths,
        [&format!("{one}/model.onnx"), &format!("{two}/model.onnx")]
    );
}

#[test]
fn wrong_usage_is_an_error() {
    let path = model("graphs/between_neg");
    refuses(&["bench"], "<MODEL>...");
    refuses(&["bench", "none.onnx"], "cannot read none.onnx");
    refuses(
        &["bench", &path, "--provider-option", "loops=layers"],
        "--provider-option loops: each of its values is measured, so none is to be set",
    );
    refuses(
        &["bench", &path, "--ort-lib", "nowhere.so"],
        "--ort-lib names nowhere.so, which is not a file",
    );
    refuses(&["bench", &path, "-q", "--dim", "n=3"], "--dim n: ");
}
