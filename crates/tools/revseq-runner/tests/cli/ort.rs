//! `--backend ort`, on a real ONNX Runtime.
//!
//! `REVSEQ_TEST_ORT_LIB` names its library and `REVSEQ_EP_LIBRARY` the
//! provider's. Without them the tests that need both say that they skip.

use std::process::Command;

use serde_json::Value as Json;
use tract_onnx::pb::GraphProto;

use crate::common::{
    FLOAT, Folder, Run, exists, graph, has, models, refuses, revseq, succeeds, tensor,
};

/// The library of ONNX Runtime to test with, if the provider's is set as well.
pub(crate) fn onnxruntime(test: &str) -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (
        variable("REVSEQ_TEST_ORT_LIB"),
        variable("REVSEQ_EP_LIBRARY"),
    ) {
        (Some(library), Some(_)) => Some(library),
        _ => {
            revseq_skips::skip(test, "REVSEQ_TEST_ORT_LIB or REVSEQ_EP_LIBRARY is not set");
            None
        }
    }
}

fn on_ort(command: &str, library: &str, arguments: &[&str]) -> Run {
    let ort = [command, "--backend", "ort", "--ort-lib", library];
    revseq(&[&ort, arguments].concat())
}

fn model(name: &str) -> String {
    models().join(name).display().to_string()
}

#[test]
fn run_names_the_provider_and_prints_as_tract_does() {
    let Some(library) = onnxruntime("run_names_the_provider_and_prints_as_tract_does") else {
        return;
    };
    let path = model("graphs/between_neg");
    let run = on_ort("run", &library, &[&path]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        run.stderr,
        "ReverseSequence node \"reverse\": RevSeqExecutionProvider\n\
         nodes: 2 on CPUExecutionProvider, 1 on RevSeqExecutionProvider\n"
    );
    assert_eq!(run.stdout, revseq(&["run", &path]).stdout);
    let run = revseq(&["run", "-b", "ort-plain", "--ort-lib", &library, &path]);
    assert_eq!(
        run.stderr,
        "ReverseSequence node \"reverse\": CPUExecutionProvider\n\
         nodes: 3 on CPUExecutionProvider\n"
    );
}

/// Threads that ran a layer end after the provider's library was unregistered, and call into it.
#[test]
fn layers_that_threads_share_end_well() {
    let Some(library) = onnxruntime("layers_that_threads_share_end_well") else {
        return;
    };
    let folder = Folder::new();
    let path: &str = &folder.model(wide_layers());
    succeeds(&["snapshot", path]);
    let options = ["layers=on", "loops=layers", "lengths=clamp"];
    for option in options {
        for (command, arguments) in [
            ("run", &["--fill", "random:7"][..]),
            ("verify", &[]),
            ("inspect", &[]),
        ] {
            let arguments = [arguments, &["--provider-option", option, path]].concat();
            let run = on_ort(command, &library, &arguments);
            assert_eq!(run.code, Some(0), "{command} {option}: {run:?}");
        }
        let backends = [
            "compare",
            "--backend",
            "ort,ort-plain",
            "--ort-lib",
            &library,
        ];
        let run = revseq(&[&backends[..], &["--provider-option", option, path]].concat());
        assert_eq!(run.code, Some(0), "compare {option}: {run:?}");
    }
}

/// A layer, and a loop that is one, so large that threads share them.
fn wide_layers() -> GraphProto {
    const UNITS: i64 = 256;
    let weights = |name: &str, sizes: &[i64]| {
        let count: i64 = sizes.iter().product();
        let values = (0..count).flat_map(|it| ((it % 13 - 6) as f32 / 256.0).to_le_bytes());
        tensor(name, FLOAT, sizes, &values.collect::<Vec<_>>())
    };
    let mut graph = graph(
        "x:f32[100,8,16] -> y:f32[100,1,8,256] last:f32[8,256]
         zeros:f32[8,256] = 0.0
         y = RNN<hidden_size=256>(x, w, r)
         last, all = Scan<num_scan_inputs=1;body=@body>(zeros, x)
         @body: h:f32[8,256] now:f32[8,16] -> new:f32[8,256] out:f32[8,256]
         a = MatMul(now, columns)
         b = MatMul(h, square)
         sum = Add(a, b)
         new = Tanh(sum)
         out = Identity(new)",
    );
    graph.initializer.extend([
        weights("w", &[1, UNITS, 16]),
        weights("r", &[1, UNITS, UNITS]),
        weights("columns", &[16, UNITS]),
        weights("square", &[UNITS, UNITS]),
    ]);
    graph
}

#[test]
fn strings_fall_back_and_say_so() {
    let Some(library) = onnxruntime("strings_fall_back_and_say_so") else {
        return;
    };
    let run = on_ort("run", &library, &[&model("types/string")]);
    let compared = on_ort("verify", &library, &[&model("types/string")]);
    for (run, count) in [(run, 3), (compared, 3)] {
        assert_eq!(run.code, Some(0), "{run:?}");
        assert_eq!(run.stderr.lines().count(), count, "{run:?}");
        for line in run.stderr.lines().take(2) {
            assert!(
                line.contains("CPUExecutionProvider (input 0 has elements of type string"),
                "{run:?}"
            );
        }
    }
}

#[test]
fn verify_runs_every_model_that_onnxruntime_supports() {
    let Some(library) = onnxruntime("verify_runs_every_model_that_onnxruntime_supports") else {
        return;
    };
    let run = on_ort("verify", &library, &[&model(""), "--format", "json"]);
    let json: Json = serde_json::from_str(&run.stdout).expect("JSON");
    for test in json["tests"].as_array().expect("tests") {
        let path = test["path"].as_str().expect("a path");
        let reason = test["reason"].as_str().unwrap_or_default();
        if path.ends_with("types/complex64") || path.ends_with("types/complex128") {
            assert!(reason.contains(" has no complex"), "{test}");
        } else if ["opset28", "bfloat16"]
            .iter()
            .any(|end| path.ends_with(end))
            && test["result"] != "ok"
        {
            // ONNX Runtime 1.32 is the first to know them.
            assert!(reason.contains(" refuses IR version 14"), "{test}");
        } else {
            assert_eq!(test["result"], "ok", "{test}");
            continue;
        }
        assert_eq!(test["result"], "skipped", "{test}");
    }
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn inspect_shows_placements() {
    let Some(library) = onnxruntime("inspect_shows_placements") else {
        return;
    };
    let run = on_ort("inspect", &library, &[&model("graphs/if_branch")]);
    assert_eq!(run.code, Some(0), "{run:?}");
    has(
        &run.stdout,
        "ReverseSequence node \"reverse\": RevSeqExecutionProvider",
    );
}

#[test]
fn loops_that_onnxruntime_runs_point_to_bench() {
    let Some(library) = onnxruntime("loops_that_onnxruntime_runs_point_to_bench") else {
        return;
    };
    let path = model("exported/keras_bilstm_masked");
    let points = format!(
        "{path}/model.onnx: 4 loops: `revseq bench {path}/model.onnx` measures the ways to run them\n"
    );
    let one = model("graphs/between_neg");
    for command in ["run", "compare", "inspect"] {
        let backends: &[&str] = match command {
            "compare" => &["-b", "ort,ort-plain"],
            _ => &["-b", "ort"],
        };
        for (path, option, count) in [
            (&path, "lengths=reject", 1),
            (&path, "loops=layers", usize::from(command == "compare")),
            (&one, "lengths=reject", 0),
        ] {
            let arguments = [
                command,
                path,
                "--ort-lib",
                &library,
                "--provider-option",
                option,
            ];
            let run = revseq(&[&arguments[..], backends].concat());
            assert_eq!(
                run.stderr.matches(&points).count(),
                count,
                "{command}: {run:?}"
            );
        }
    }
}

/// By the notes and in JSON, whichever command made the session.
#[test]
fn what_became_of_loops_is_told() {
    let Some(library) = onnxruntime("what_became_of_loops_is_told") else {
        return;
    };
    let option = ["--provider-option", "loops=layers"];
    let [taken, left] = ["keras_gru_bidirectional", "tf_while_reverse_sequence"]
        .map(|it| model(&format!("exported/{it}")));
    let became = "/while_loop\": RevSeqExecutionProvider, as GRU, ";
    let stays = "Loop node \"while_loop\": CPUExecutionProvider (its condition ";
    for command in ["run", "verify"] {
        let run = on_ort(command, &library, &[&option[..], &["-v", &taken]].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        assert_eq!(run.stderr.matches(became).count(), 2, "{run:?}");
        let run = on_ort(command, &library, &[&option[..], &[&left]].concat());
        assert_eq!(run.stderr.matches(stays).count(), 1, "{run:?}");
    }
    let run = on_ort("verify", &library, &[&option[..], &[&taken]].concat());
    has(
        &run.stderr,
        "nodes on RevSeqExecutionProvider: 2 of Loop, 2 of ReverseSequence\n",
    );
    let compared = [
        "compare",
        "--backend",
        "ort,tract",
        "--ort-lib",
        &library,
        "-v",
        &taken,
    ];
    let run = revseq(&[&compared[..], &option].concat());
    assert_eq!(run.stderr.matches(became).count(), 2, "{run:?}");
    let run = on_ort("inspect", &library, &[&option[..], &[&taken]].concat());
    assert_eq!(run.stdout.matches(became).count(), 2, "{run:?}");
    let json = [&option[..], &["--format", "json", &taken]].concat();
    let run = on_ort("inspect", &library, &json);
    let json: Json = serde_json::from_str(&run.stdout).expect("JSON");
    let placements = json["backends"][0]["placements"]
        .as_array()
        .expect("placements");
    let became = placements.iter().filter(|it| it["operator"] == "Loop");
    assert!(
        became
            .clone()
            .all(|it| it["to"].as_str().is_some_and(|to| to.starts_with("GRU")))
    );
    assert_eq!(became.count(), 2, "{json}");
    // Nobody asked for them.
    let run = on_ort("run", &library, &["-v", &taken]);
    assert!(!run.stderr.contains("Loop node"), "{run:?}");
}

#[test]
fn invalid_libraries_are_refused() {
    let folder = Folder::new();
    let file = folder.write("libonnxruntime.so", b"no library");
    let path = model("graphs/between_neg");
    let arguments = ["run", "--backend", "ort", &path, "--ort-lib"];
    refuses(
        &[&arguments[..], &[&file]].concat(),
        "pip install -U onnxruntime",
    );
    // The process ends where the system's loader reads what is missing.
    let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    folder.write("libonnxruntime.so", &whole[..1 << 14]);
    refuses(
        &[&arguments[..], &[&file]].concat(),
        "libonnxruntime.so cannot be loaded (SIGBUS): the file may be truncated",
    );
    refuses(
        &[&arguments[..], &["nowhere.so"]].concat(),
        "--ort-lib names nowhere.so, which is not a file",
    );
}

#[test]
fn without_onnxruntime_it_says_how_to_get_one() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(["run", "--backend", "ort", &model("graphs/between_neg")])
        .env_remove("ORT_DYLIB_PATH")
        .env("VIRTUAL_ENV", folder.path("none"))
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    has(&stderr, "pip install -U onnxruntime");
}

#[test]
fn a_truncated_provider_is_refused() {
    let Some(library) = onnxruntime("a_truncated_provider_is_refused") else {
        return;
    };
    let whole = std::fs::read(std::env::var_os("REVSEQ_EP_LIBRARY").unwrap()).unwrap();
    let folder = Folder::new();
    let path = folder.write("librevseq_ep.so", &whole[..1 << 14]);
    let model = model("graphs/between_neg");
    refuses(
        &format!("run {model} -b ort --ort-lib {library} --ep-lib {path}"),
        "librevseq_ep.so cannot be loaded (SIGBUS): the file may be truncated",
    );
}

/// ONNX Runtime's profiler makes each step of a loop many times as long.
#[test]
fn a_profile_takes_seconds_however_many_runs_are_timed() {
    let Some(library) = onnxruntime("a_profile_takes_seconds_however_many_runs_are_timed") else {
        return;
    };
    let model = model("exported/keras_bilstm_masked");
    let arguments = [
        "run",
        &model,
        "-b",
        "ort-plain",
        "--ort-lib",
        &library,
        "--repeat",
        "400",
        "--profile",
        "--format",
        "json",
    ];
    let run = revseq(&arguments);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["timing"]["runs"], 400);
    let runs = json["profile"]["runs"].as_u64().unwrap();
    assert!((1..400).contains(&runs), "{runs}");
    let text = revseq(&arguments[..9]);
    assert_eq!(text.code, Some(0), "{text:?}");
    has(&text.stdout, "\nthe profiler makes a run ");
}

/// It refuses sizes that are written into a model, one of whose branches is for others. They shape made-up
/// inputs alone, and a check of a rewritten model fails.
#[test]
fn sizes_that_a_branch_does_not_take_are_not_written_but_by_a_rewrite() {
    let name = "sizes_that_a_branch_does_not_take_are_not_written_but_by_a_rewrite";
    let Some(library) = onnxruntime(name) else {
        return;
    };
    let folder = Folder::new();
    let path = &folder.text(
        "x:f32[?,?] -> y:f32
         sizes = Shape(x)
         first = Gather(sizes, [0])
         is_one = Equal(first, [1])
         y = If<then_branch=@then;else_branch=@else>(is_one)
         @then: -> row:f32
         row = Squeeze(x, [0])
         @else: -> rows:f32
         rows = Flatten(x)",
    );
    let sizes = ["-d", "x.0=2", "-d", "x.1=3"];
    let plain = ["-b", "ort-plain", "--ort-lib", &library];
    let run = ["run", path, "--fill", "iota"];
    succeeds(&[&run[..], &sizes, &plain].concat());
    let output = folder.path("out.onnx");
    let rewrite = ["rewrite", path, "-o", &output, "--check"];
    refuses(
        &[&rewrite[..], &sizes, &plain].concat(),
        "the original model runs on ort-plain, the rewritten one does not: ort-plain: the rewritten \
         model: ONNX Runtime",
    );
    assert!(!exists(&output));
}
