//! `revseq verify`.

use prost::Message;
use tract_onnx::pb::TensorProto;

use crate::common::{
    FLOAT, Folder, graph, has, int64s, model, refuses, reverse_graph, revseq, succeeds, tensor,
};

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    tensor(name, FLOAT, dims, &bytes)
}

/// A test in a folder: a model of one input `x` and one output `y`, both float `[2]`.
fn add(folder: &Folder, name: &str, operator: &str, x: [f32; 2], y: [f32; 2]) {
    let graph = graph(&format!("x:f32[2] -> y:f32[2]\n y = {operator}(x)"));
    folder.write(&format!("{name}/model.onnx"), &model(graph).encode_to_vec());
    let data = |file: &str, tensor: TensorProto| {
        folder.write(
            &format!("{name}/test_data_set_0/{file}"),
            &tensor.encode_to_vec(),
        );
    };
    data("input_0.pb", floats("x", &[2], &x));
    data("output_0.pb", floats("y", &[2], &y));
}

#[test]
fn results_and_exit_codes() {
    let folder = Folder::new();
    add(&folder, "b/passes", "Neg", [1.0, 2.0], [-1.0, -2.0]);
    add(&folder, "a/lacks", "Nonsense", [1.0, 2.0], [1.0, 2.0]);
    let root = folder.path("");
    let path = &root;
    let shown = path.trim_end_matches('/');
    let output = succeeds(&["verify", shown]);
    assert_eq!(
        output,
        format!(
            "{shown}/a/lacks: skipped: tract has no Nonsense (node \"y_node\"); ONNX has no Nonsense, either\n{shown}/b/passes: ok\n\
             1 passed, 0 failed, 1 skipped\n"
        )
    );
    add(&folder, "c/fails", "Neg", [1.0, 2.0], [-1.0, -2.5]);
    let run = revseq(&["verify", shown]);
    assert_eq!(run.code, Some(1), "{run:?}");
    has(
        &run.stdout,
        &format!(
            "{shown}/c/fails: FAILED: test_data_set_0: output y[1]: expected -2.5, got -2.0; \
             1 of 2 differ, max error 5.000e-1\n"
        ),
    );
    assert!(
        run.stdout.ends_with("\n1 passed, 1 failed, 1 skipped\n"),
        "{run:?}"
    );

    let quiet = revseq(&["verify", shown, "-q"]);
    let failed = run
        .stdout
        .lines()
        .filter(|it| !it.contains(": ok") && !it.contains(": skipped"));
    assert_eq!(
        quiet.stdout.lines().collect::<Vec<_>>(),
        failed.collect::<Vec<_>>()
    );

    let run = revseq(&["verify", shown, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &json["failed"]), (Some(1), &1.into()));
    assert_eq!(json["tests"][0]["result"], "skipped");
}

#[test]
fn a_tolerance_only_where_a_model_computes() {
    let check = |operator: &str, x: f32, y: f32, code| {
        let folder = Folder::new();
        add(&folder, "test", operator, [x, 0.0], [y, 0.0]);
        let run = revseq(&["verify", &folder.path("test")]);
        assert_eq!(run.code, Some(code), "{operator} {x} {y}: {run:?}");
    };
    check("Identity", 1.0, 1.0, 0);
    check("Identity", 1.0, 1.000_01, 1);
    check("Identity", 0.0, -0.0, 1);
    check("Identity", f32::NAN, f32::from_bits(0x7fc0_0001), 1);
    check("Sqrt", 4.0, 2.000_01, 0);
    check("Sqrt", 4.0, 2.001, 1);
    check("Sqrt", -4.0, f32::from_bits(0x7fc0_0001), 0);
}

#[test]
fn our_own_operators_are_never_skipped() {
    let folder = Folder::new();
    folder.write("test/model.onnx", &model(reverse_graph()).encode_to_vec());
    let data = |file: &str, tensor: TensorProto| {
        folder.write(
            &format!("test/test_data_set_0/{file}"),
            &tensor.encode_to_vec(),
        );
    };
    let x: Vec<f32> = (0..60).map(|value| value as f32).collect();
    data("input_0.pb", floats("x", &[4, 5, 3], &x));
    data("input_1.pb", int64s("lens", &[1, 2, 3, 6]));
    data("output_0.pb", floats("y", &[4, 5, 3], &x));
    let run = revseq(&["verify", &folder.path("test")]);
    assert_eq!(run.code, Some(1), "{run:?}");
    has(&run.stdout, "sequence length 6 at index 3 is out of range");
    assert!(
        run.stdout.ends_with("0 passed, 1 failed, 0 skipped\n"),
        "{run:?}"
    );
}

#[test]
fn a_broken_test_fails() {
    let folder = Folder::new();
    add(&folder, "test", "Neg", [1.0, 2.0], [-1.0, -2.0]);
    let path = folder.path("test");
    let fails = |why: &str| {
        let run = revseq(&["verify", &path]);
        assert_eq!(run.code, Some(1), "{why}: {run:?}");
        assert!(run.stdout.contains(why), "{why}: {run:?}");
    };
    let file = |name: &str| format!("{path}/test_data_set_0/{name}");
    std::fs::remove_file(file("output_0.pb")).unwrap();
    fails("it has no data for output \"y\"");
    std::fs::write(
        file("output_0.pb"),
        floats("y", &[1, 2], &[-1.0, -2.0]).encode_to_vec(),
    )
    .unwrap();
    fails("output y: expected float[1,2], got float[2]");
    std::fs::remove_file(file("input_0.pb")).unwrap();
    fails("it has no data for input \"x\"");
    std::fs::write(format!("{path}/model.onnx"), b"garbage").unwrap();
    fails("it is not an ONNX model");
}

#[test]
fn no_test_is_an_error() {
    let folder = Folder::new();
    refuses(
        &["verify", &folder.path("")],
        "there is no test in or below it",
    );
    refuses(&["verify", "/nonexistent"], "cannot search /nonexistent");
}
