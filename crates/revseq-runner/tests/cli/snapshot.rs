//! `revseq snapshot`, and what `verify` makes of it.

use prost::Message;

use crate::common::{Folder, model, node, refuses, reverse_graph, revseq, succeeds};

/// A model NAME.onnx in a folder, and its path.
fn encoder(folder: &Folder) -> String {
    folder.write("encoder.onnx", &model(reverse_graph()).encode_to_vec());
    folder.path("encoder.onnx").display().to_string()
}

#[test]
fn what_is_recorded_is_verified_and_accepted() {
    let folder = Folder::new();
    let path = encoder(&folder);
    refuses(&["verify", &path], "`revseq snapshot` records one");
    let said = succeeds(&["snapshot", &path]);
    assert!(
        said.ends_with("encoder.snapshots/test_data_set_0: recorded on tract\n"),
        "{said}"
    );
    refuses(
        &["snapshot", &path],
        "it has a data set already; `revseq verify --update`",
    );
    succeeds(&["snapshot", &path, "--add", "--fill", "iota"]);
    let all = folder.path("");
    let all = all.to_str().unwrap().trim_end_matches('/');
    assert_eq!(
        succeeds(&["verify", all]),
        format!("{path}: ok\n1 passed, 0 failed, 0 skipped\n")
    );

    // The model changes: both data sets say where and how much.
    let mut changed = reverse_graph();
    changed.node.push(node("Neg", &["y"], &["z"]));
    changed.output[0].name = "y".to_owned();
    changed.node[0].output = vec!["before".to_owned()];
    changed.node[1].input = vec!["before".to_owned()];
    changed.node[1].output = vec!["y".to_owned()];
    folder.write("encoder.onnx", &model(changed).encode_to_vec());
    let run = revseq(&["verify", all]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stdout
            .contains("FAILED: test_data_set_0: output y[0, 0, 0]: expected ")
            && run
                .stdout
                .contains("; test_data_set_1: output y[0, 0, 0]: expected 0.0, got -0.0"),
        "{run:?}"
    );
    let junit = revseq(&["verify", all, "--format", "junit"]);
    assert_eq!(junit.code, Some(1), "{junit:?}");
    assert!(
        junit
            .stdout
            .contains("<testsuites tests=\"1\" failures=\"1\" skipped=\"0\"")
            && junit
                .stdout
                .contains("<failure message=\"test_data_set_0: output y[0, 0, 0]"),
        "{junit:?}"
    );
    let accepted = succeeds(&["verify", all, "--update"]);
    assert!(
        accepted.contains(": updated: test_data_set_0: output y")
            && accepted.ends_with("0 passed, 1 updated, 0 failed, 0 skipped\n"),
        "{accepted}"
    );
    assert!(succeeds(&["verify", &path]).contains(": ok\n"));
    let left: Vec<String> = std::fs::read_dir(folder.path("encoder.snapshots/test_data_set_0"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn tolerances_are_recorded_by_output() {
    let folder = Folder::new();
    let path = encoder(&folder);
    refuses(
        &["snapshot", &path, "--atol", "nope=1"],
        "there is no output \"nope\"",
    );
    succeeds(&["snapshot", &path, "--fill", "iota", "--atol", "y=0.5"]);
    let set = "encoder.snapshots/test_data_set_0";
    let change = |by: f32| {
        // The first data set's expected output, with its first element changed.
        let file = folder.path(&format!("{set}/output_0.pb"));
        let bytes = std::fs::read(&file).unwrap();
        let mut tensor = tract_onnx::pb::TensorProto::decode(bytes.as_slice()).unwrap();
        tensor.raw_data[..4].copy_from_slice(&by.to_le_bytes());
        std::fs::write(&file, tensor.encode_to_vec()).unwrap();
    };
    change(0.25);
    succeeds(&["verify", &path]);
    // What is given goes before what was recorded.
    assert_eq!(revseq(&["verify", &path, "--atol", "0.1"]).code, Some(1));
    change(0.75);
    assert_eq!(revseq(&["verify", &path]).code, Some(1));
    folder.write(
        &format!("{set}/snapshot.json"),
        br#"{"tolerances": {"y": {"rtol": -1}}}"#,
    );
    let run = revseq(&["verify", &path]);
    assert!(
        run.stdout
            .contains("snapshot.json: output \"y\" has no rtol of 0 or more"),
        "{run:?}"
    );
}

#[test]
fn runs_are_saved_as_data_sets_and_archives() {
    let folder = Folder::new();
    let path = encoder(&folder);
    let data = folder.path("data");
    let archive = folder.path("out.npz");
    let run = revseq(&[
        "run",
        &path,
        "--fill",
        "iota",
        "--outputs",
        archive.to_str().unwrap(),
        "--save-test-data",
        data.to_str().unwrap(),
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout.ends_with("1 outputs -> ") || run.stdout.contains("out.npz"),
        "{run:?}"
    );
    assert!(data.join("test_data_set_0/input_1.pb").is_file());
    // What an archive holds is fed back by name; that it has no input `y` is said.
    refuses(
        &["run", &path, "--inputs", archive.to_str().unwrap()],
        "--inputs: there is no input \"y\"; the inputs are x: float[4,5,3]",
    );
    refuses(
        &["run", &path, "--inputs", &path],
        "the name does not end in .npz",
    );
    folder.write("broken.npz", b"PK");
    refuses(
        &[
            "run",
            &path,
            "--inputs",
            folder.path("broken.npz").to_str().unwrap(),
        ],
        "it is not an .npz file",
    );
}
