//! The memory that a large model takes, in multiples of its size.

use std::fs::File;
use std::process::Command;

use crate::common::{Folder, peak};

const MIB: u64 = 1 << 20;

/// The size of the model's constant.
const SIZE: u64 = 64 * MIB;

/// The memory of the program itself.
const OWN: u64 = 40 * MIB;

#[test]
fn a_large_model_takes_little_more_than_its_parts() {
    let folder = Folder::new();
    let path = &folder.text(&format!(
        "ids:i64[2] lens:i64[1024] -> y:f32[2,1024]
         table:f32[{},1024] = 0.0
         rows = Gather(table, ids)
         y = ReverseSequence(rows, lens)",
        SIZE / 4096
    ));
    let out = folder.path("out.onnx");
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
    let path = folder.text(
        "x:f32[T,B,1000000000] -> y:f32[T,1,B,1]
         w:f32[1,1,1] = 1.0
         y = RNN<hidden_size=1>(x, w, w)",
    );
    let (ended, peak) = peak(&["inspect", &path]);
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
