//! Signals while a model runs: Ctrl-C, and those of a crash.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::common::{has, models};
use crate::ort::onnxruntime;

/// `revseq run` for a minute, once it takes times.
struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn new(more: &[&str]) -> Self {
        let model = models().join("graphs/between_neg");
        let mut child = Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(["run", "--seconds", "60", "--verbose"])
            .arg(model)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(": prepared in ") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended early");
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        Self { child, stderr }
    }

    /// The exit status, and what it prints from now on.
    fn signal(mut self, signal: &str) -> (Option<i32>, String, String) {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(kill.success());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let out = self.child.stdout.as_mut().unwrap();
        out.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

#[test]
fn ctrl_c_ends_timed_runs_and_prints_their_times() {
    let (code, stdout, stderr) = Running::new(&[]).signal("-INT");
    assert_eq!(code, Some(130), "{stderr}");
    has(&stdout, " runs: median ");
    assert!(stdout.starts_with("y: float"), "{stdout}");
}

#[test]
fn a_crash_of_onnx_runtime_is_an_error_that_names_it() {
    let Some(library) = onnxruntime("a_crash_of_onnx_runtime_is_an_error_that_names_it") else {
        return;
    };
    let run = Running::new(&["--backend", "ort-plain", "--ort-lib", &library]);
    let (code, _, stderr) = run.signal("-SEGV");
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("error: ONNX Runtime ")
            && stderr.contains(" crashed on ")
            && stderr.ends_with("model.onnx (SIGSEGV); --backend tract may run it\n"),
        "{stderr}"
    );
}
