//! The memory that a large model takes, in multiples of its size.

use std::fs::File;
use std::process::Command;

use prost::Message;
use tract_onnx::pb::GraphProto;

use crate::common::{FLOAT, Folder, INT64, int, model, node, peak, tensor, value};

const MIB: u64 = 1 << 20;

/// The size of the model's constant.
const SIZE: u64 = 64 * MIB;

/// The memory of the program itself.
const OWN: u64 = 40 * MIB;

#[test]
fn a_large_model_takes_little_more_than_its_parts() {
    let folder = Folder::new();
    let (rows, columns) = (SIZE as i64 / 4096, 1024);
    let graph = GraphProto {
        name: "graph".to_owned(),
        node: vec![
            node("Gather", &["table", "ids"], &["rows"]),
            node("ReverseSequence", &["rows", "lens"], &["y"]),
        ],
        input: vec![value("ids", INT64, &["2"]), value("lens", INT64, &["1024"])],
        output: vec![value("y", FLOAT, &["2", "1024"])],
        initializer: vec![tensor(
            "table",
            FLOAT,
            &[rows, columns],
            &vec![0; SIZE as usize],
        )],
        ..GraphProto::default()
    };
    let path = folder.write("m.onnx", &model(graph).encode_to_vec());
    let path = path.to_str().unwrap();
    let out = folder.path("out.onnx").display().to_string();
    for (arguments, times) in [
        (&["inspect", path][..], 2),
        (&["run", path, "--fill", "zeros"], 2),
        (&["rewrite", path, "-o", &out, "--portable"], 3),
    ] {
        let (ended, peak) = peak(arguments);
        assert!(ended.success(), "{arguments:?}: {ended}");
        assert!(
            peak <= times * SIZE + OWN,
            "{arguments:?}: {} MiB of {}",
            peak / MIB,
            times * SIZE / MIB
        );
    }
}

/// Its features are not those of its weights, so that tract takes it at no size.
#[test]
fn inputs_are_not_made_up_to_say_what_a_model_is() {
    let folder = Folder::new();
    let one = 1_f32.to_le_bytes();
    let weights = ["w", "r"].map(|name| tensor(name, FLOAT, &[1, 1, 1], &one));
    let mut layer = node("RNN", &["x", "w", "r"], &["y"]);
    layer.attribute.push(int("hidden_size", 1));
    let graph = GraphProto {
        name: "graph".to_owned(),
        node: vec![layer],
        input: vec![value("x", FLOAT, &["T", "B", "1000000000"])],
        output: vec![value("y", FLOAT, &["T", "1", "B", "1"])],
        initializer: weights.to_vec(),
        ..GraphProto::default()
    };
    let path = folder.write("m.onnx", &model(graph).encode_to_vec());
    let (ended, peak) = peak(&["inspect", path.to_str().unwrap()]);
    assert!(ended.success(), "{ended}");
    assert!(peak <= 2 * OWN, "{} MiB", peak / MIB);
}

#[test]
fn a_large_file_that_is_no_model_is_not_read() {
    let folder = Folder::new();
    let path = folder.path("zeros.onnx");
    File::create(&path).unwrap().set_len(3 << 30).unwrap();
    // Less than the file is long.
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 2500000; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_revseq"))
        .arg("inspect")
        .arg(&path)
        .output()
        .expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.ends_with(": it is not an ONNX model\n"), "{stderr}");
}
