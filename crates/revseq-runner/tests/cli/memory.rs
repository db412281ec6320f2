//! How much memory a large model takes, in multiples of its size.

use std::fs::File;
use std::process::{Command, Stdio};

use prost::Message;
use tract_onnx::pb::GraphProto;

use crate::common::{FLOAT, Folder, INT64, model, node, tensor, value};

const MIB: u64 = 1 << 20;

/// The size of the model's constant.
const SIZE: u64 = 64 * MIB;

/// What the program takes beside it.
const OWN: u64 = 40 * MIB;

/// Runs `revseq`, which has to succeed: the most memory that was seen, in bytes.
fn peak(arguments: &[&str]) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        peak = peak.max(kilobytes.map_or(0, |text| text.parse().unwrap_or(0)) << 10);
        if let Some(ended) = child.try_wait().expect("a child") {
            break ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(ended.success(), "{arguments:?}: {ended}");
    peak
}

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
        (&["run", path, "--fill", "zeros"], 3),
        (&["rewrite", path, "-o", &out, "--portable"], 3),
    ] {
        let peak = peak(arguments);
        assert!(
            peak <= times * SIZE + OWN,
            "{arguments:?}: {} MiB of {}",
            peak / MIB,
            times * SIZE / MIB
        );
    }
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
