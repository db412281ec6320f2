//! Files are written completely or not at all: on a full disk, and after Ctrl-C.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use prost::Message;
use tract_onnx::pb::GraphProto;

use crate::common::{FLOAT, Folder, model, models, node, reverse_graph, succeeds, tensor, value};

/// Time that is far longer than anything here takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Runs `revseq` where no file can grow beyond 4 KiB.
fn limited(arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments)
        .output()
        .expect("a shell")
}

/// The names below a folder.
fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        names.push(path.display().to_string());
        if path.is_dir() {
            names.extend(self::names(path));
        }
    }
    names.sort();
    names
}

/// A model with outputs and constants of 64 KiB.
fn large() -> GraphProto {
    let sizes = ["64", "64", "4"];
    let mut graph = reverse_graph();
    graph.node[0].output = vec!["reversed".to_owned()];
    graph.node.push(node("Add", &["reversed", "c"], &["y"]));
    graph.input[0] = value("x", FLOAT, &sizes);
    graph.input[1] = value("lens", crate::common::INT64, &["64"]);
    graph.output[0] = value("y", FLOAT, &sizes);
    graph.initializer = vec![tensor("c", FLOAT, &[64, 64, 4], &[0; 65536])];
    graph
}

#[test]
fn a_full_disk_keeps_the_old_files() {
    let folder = Folder::new();
    let path: &str = &folder.write("m.onnx", &model(large()).encode_to_vec());
    let file = |name: &str| {
        folder.write(name, b"before");
        folder.path(name)
    };
    let (npy, pb) = (
        format!("y={}", file("y.npy")),
        format!("y={}", file("y.pb")),
    );
    let (npz, onnx, table) = (file("y.npz"), file("out.onnx"), file("bench.txt"));
    let data = folder.path("data");
    let run = ["run", path, "--fill", "random"];
    // More than the limit.
    let bench = [&["bench"][..], &[path; 20], &["--seconds", "0.01", "-q"]].concat();
    let commands = vec![
        [&run[..], &["--overwrite", "--output", &npy]].concat(),
        [&run[..], &["--overwrite", "--output", &pb]].concat(),
        [&run[..], &["--overwrite", "--output", &npz]].concat(),
        [&run[..], &["--save-test-data", &data]].concat(),
        vec!["snapshot", path],
        vec!["rewrite", path, "-o", &onnx, "--portable", "--overwrite"],
        [
            &bench[..],
            &["--format", "json", "--overwrite", "-o", &table],
        ]
        .concat(),
    ];
    for arguments in commands {
        let before = names(folder.path(""));
        let output = limited(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(
            stderr.ends_with(": File too large (os error 27)\n"),
            "{arguments:?}: {stderr}"
        );
        let errors = stderr.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{arguments:?}: {stderr}");
        let mut after = names(folder.path(""));
        after.retain(|name| *name != data);
        assert_eq!(after, before, "{arguments:?}");
        for file in ["y.npy", "y.pb", "y.npz", "out.onnx", "bench.txt"] {
            let content = std::fs::read(folder.path(file)).unwrap();
            assert_eq!(content, b"before", "{arguments:?}");
        }
        // The same with room for it.
        succeeds(&arguments);
        if let Some(folder) = std::fs::read_dir(&data).ok().map(|_| &data) {
            std::fs::remove_dir_all(folder).unwrap();
        }
        for name in ["y.npy", "y.pb", "y.npz", "out.onnx", "bench.txt"] {
            let is_written = arguments.iter().any(|argument| argument.ends_with(name));
            let content = std::fs::read(folder.path(name)).unwrap();
            assert_eq!(content != b"before", is_written, "{arguments:?}: {name}");
            file(name);
        }
    }
    // The new expected outputs do not fit.
    let mut changed = large();
    changed.node[1].op_type = "Sub".to_owned();
    folder.write("m.onnx", &model(changed).encode_to_vec());
    let expected = folder.path("m.snapshots/test_data_set_0/output_0.pb");
    std::fs::write(&expected, b"").unwrap();
    let before = names(folder.path(""));
    let output = limited(&["verify", path, "--update"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(names(folder.path("")), before);
    assert_eq!(std::fs::read(&expected).unwrap(), b"");
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments)
        .env_remove("ORT_DYLIB_PATH")
        .env("VIRTUAL_ENV", "/nonexistent")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

fn send(signal: &str, child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status();
    assert!(sent.expect("kill").success());
}

#[test]
fn an_interrupted_verify_reports_finished_tests() {
    let models = models().display().to_string();
    let mut child = start(&["verify", &models]);
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = out.next().unwrap().unwrap();
    assert!(first.ends_with(": ok"), "{first}");
    send("-INT", &child);
    let rest: Vec<String> = out.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let [.., counts, last] = rest.as_slice() else {
        panic!("{rest:?}");
    };
    assert!(counts.contains(" passed, 0 failed, "), "{rest:?}");
    assert_eq!(last, "interrupted: not all tests were run");
}

#[test]
fn an_interrupted_bench_reports_or_keeps_the_old_file() {
    let model = models().join("graphs/between_neg").display().to_string();
    for signals in [&["-INT"][..], &["-INT", "-TERM"]] {
        let folder = Folder::new();
        let file = folder.write("bench.json", b"before");
        let arguments = ["bench", &model, "--seconds", "60", "--format", "json"];
        let output = ["--overwrite", "-o", &file];
        let mut child = start(&[&arguments[..], &output].concat());
        let begin = Instant::now();
        while names(folder.path("")).len() < 2 {
            assert!(begin.elapsed() < LONG && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut stderr = stderr.lines().map(Result::unwrap);
        for signal in signals {
            // It may have ended by itself since the first.
            if child.try_wait().unwrap().is_none() {
                send(signal, &child);
            }
            stderr.find(|line| line.starts_with("interrupted: "));
        }
        let status = child.wait().unwrap();
        let content = std::fs::read_to_string(&file).unwrap();
        assert_eq!(names(folder.path("")), std::slice::from_ref(&file));
        match status.code() {
            Some(130) => assert!(content == "before" || content.contains("\"interrupted\": true")),
            _ => {
                assert_eq!(status.signal(), Some(15), "{status:?}");
                assert_eq!(content, "before");
            }
        }
        if signals.len() == 1 {
            assert_eq!(status.code(), Some(130));
        }
    }
}
