//! `revseq bench`. `revseq-bench` tests the reports themselves.

use std::process::Command;

use serde_json::Value as Json;

use crate::common::{Folder, refuses};

const REGIME: &str = "ready-plan 4x4 f32 random";

/// Runs `revseq bench --quick` on the smallest regime, without an ONNX Runtime.
fn bench(arguments: &[&str]) -> String {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(["bench", "--quick", "--filter", REGIME])
        .args(arguments)
        .env_remove("ORT_DYLIB_PATH")
        .env("VIRTUAL_ENV", folder.path("none"))
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    // Neither a progress bar nor a failure; only the missing library.
    assert!(
        stderr.starts_with("ONNX Runtime is not measured: "),
        "{stderr}"
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_report_has_the_figures_of_all_contestants() {
    let json: Json = serde_json::from_str(&bench(&["--format", "json"])).expect("JSON");
    assert_eq!(json["quick"], true);
    assert_eq!(json["optimised"], !cfg!(debug_assertions));
    assert_eq!(json["machine"]["version"], env!("CARGO_PKG_VERSION"));
    let regimes = json["regimes"].as_array().expect("regimes");
    assert_eq!(regimes.len(), 1);
    assert_eq!(regimes[0]["name"], REGIME);
    let measurements = regimes[0]["measurements"].as_array().expect("figures");
    for contestant in ["memcpy", "serial", "threads", "in-place", "plain-loop"] {
        let measurement = measurements
            .iter()
            .find(|measurement| measurement["contestant"] == contestant)
            .unwrap_or_else(|| panic!("{contestant}: {json}"));
        assert!(
            measurement["median_ns"].as_f64() > Some(0.0),
            "{measurement}"
        );
        assert!(measurement["samples"].as_u64() >= Some(3), "{measurement}");
    }
}

#[test]
fn every_form_goes_to_a_file_or_to_standard_output() {
    let folder = Folder::new();
    let file = folder.write("report", &[b'x'; 100_000]);
    let path = file.display().to_string();
    for (format, start) in [("html", "<!DOCTYPE html>"), ("text", ""), ("markdown", "")] {
        let printed = bench(&["--format", format, "--threads", "2"]);
        assert_eq!(
            bench(&["--format", format, "--output", &path, "--overwrite"]),
            ""
        );
        let written = std::fs::read_to_string(&file).expect("a report");
        for report in [printed, written] {
            assert!(report.starts_with(start), "{report}");
            assert!(report.contains(REGIME), "{report}");
            assert!(!report.contains("xxx"), "{format}: old contents remain");
        }
    }
}

#[test]
fn wrong_usage_ends_before_anything_is_measured() {
    refuses(
        &["bench", "--filter", "sideways"],
        "such as \"time-major 512x64x256 f32 random\"; --list has all",
    );
    let folder = Folder::new();
    let file = folder.write("libonnxruntime.so", b"no library");
    refuses(
        &[
            "bench",
            "--filter",
            REGIME,
            "--ort-lib",
            &file.display().to_string(),
        ],
        "pip install -U onnxruntime",
    );
}

#[test]
fn a_failure_leaves_no_empty_report() {
    let folder = Folder::new();
    let new = folder.path("new.html");
    let old = folder.write("old.html", b"an earlier report");
    for path in [&new, &old] {
        let path = path.display().to_string();
        refuses(
            &[
                "bench",
                "--filter",
                REGIME,
                "--ort-lib",
                "nowhere.so",
                "-o",
                &path,
                "--overwrite",
            ],
            "--ort-lib names nowhere.so, which is not a file",
        );
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read(old).expect("the file"), b"an earlier report");
}

#[test]
fn an_unwritable_file_is_an_error_before_anything_is_measured() {
    let folder = Folder::new();
    for path in [folder.path("missing/report.html"), folder.path("")] {
        // All regimes: measured first, they would take minutes.
        let path = path.display().to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(["bench", "-o", &path])
            .env_remove("ORT_DYLIB_PATH")
            .env("VIRTUAL_ENV", folder.path("none"))
            .output()
            .expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(&format!("--output {path}: cannot write it: "))
                || stderr.contains(&format!("--output {path}: it is a folder, expected")),
            "{stderr}"
        );
    }
}
