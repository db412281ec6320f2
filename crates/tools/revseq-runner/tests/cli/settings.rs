//! Unusable settings and files, and the program's own help.

use prost::Message;

use crate::common::{
    FLOAT, Folder, exists, has, model, models, node, refuses, reverse_graph, revseq, succeeds,
    tensor, value,
};

const INT32: i32 = 6;

/// Rows of `what => why`.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = text.lines().map(str::trim);
    rows.map(|it| it.split_once(" => ").expect("what and why"))
}

#[test]
fn wrong_settings_are_refused_before_anything_runs() {
    let path = models().join("graphs/between_neg").display().to_string();
    let simd = |level: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(["run", &path])
            .env("REVSEQ_SIMD", level)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for level in ["portable", "AVX2", ""] {
        assert_eq!(simd(level), (Some(0), String::new()));
    }
    for threads in ["10000", "-1", "two"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(["run", &path])
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let why = format!(
            "error: RAYON_NUM_THREADS is {threads}, expected a number of threads from 1 to 1024, or 0 \
             for one per core\n"
        );
        assert_eq!(String::from_utf8(output.stderr).unwrap(), why);
        assert_eq!(output.status.code(), Some(2));
    }
    let why = "error: REVSEQ_SIMD is \"foo\", expected one of portable, neon, avx2, avx512\n";
    assert_eq!(simd("foo"), (Some(2), why.to_owned()));
    let run = ["run", &path, "-b", "ort", "--provider-option"];
    for (option, why) in rows(
        "foo=1 => --provider-option foo: the provider has no such option; it has lengths, layers, loops and \
             assume
         lengths=x => --provider-option lengths: it is \"x\", expected reject or clamp
         assume=right-padded => --provider-option assume: it is about loops that become layers: add \
             --provider-option loops=layers",
    ) {
        refuses(&[&run[..], &[option]].concat(), why);
    }
    for (arguments, why) in rows(
        "run => the following required arguments were not provided: <MODEL>
         run M --backend tf => invalid value 'tf' for '--backend <BACKEND>' \
             [possible values: tract, ort, ort-plain]
         run M --foo => unexpected argument '--foo' found
         run M --rtol 1 => unexpected argument '--rtol' found
         run M --bakend ort => unexpected argument '--bakend' found; tip: a similar argument exists: '--backend'",
    ) {
        let stderr = revseq(&arguments.replace('M', &path)).stderr;
        assert_eq!(stderr, format!("error: {why}; try '--help'\n"));
    }
    for (flag, value) in [("--repeat", "-1"), ("--threads", "-1"), ("--seconds", "-2")] {
        let run = revseq(&["run", &path, flag, value]);
        assert!(
            run.stderr
                .starts_with(&format!("error: invalid value '{value}' for '{flag} ")),
            "{run:?}"
        );
    }
}

#[test]
fn unusable_files_are_refused_with_the_reason() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let whole = std::fs::read(models().join("exported/keras_bilstm_masked/model.onnx")).unwrap();
    folder.write("half.onnx", &whole[..whole.len() / 2]);
    refuses(
        &["inspect", &path("half.onnx")],
        &format!(
            "it ends too early: it has {} bytes of at least ",
            whole.len() / 2
        ),
    );
    // An array of Python objects, pickled.
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }";
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    folder.write("o.npy", &bytes);
    let mut graph = reverse_graph();
    graph.node[0] = node("Neg", &["x"], &["y"]);
    graph.input = vec![value("x", FLOAT, &["2"])];
    let model = folder.model(graph);
    refuses(
        &["run", &model, "-i", &path("o.npy")],
        "it holds Python objects; if they are strings, save `array.astype(str)`",
    );
    let address = "https://models.example/m.onnx";
    for command in ["run", "inspect", "snapshot", "compare", "verify"] {
        refuses(
            &[command, address],
            &format!(
                "cannot read {address}: it is an address, and models are files: download it first"
            ),
        );
    }
    #[cfg(unix)]
    {
        let nowhere = path("nope");
        refuses(
            &["verify", &nowhere],
            &format!("cannot search {nowhere}: No such file or directory (os error 2)"),
        );
        folder.write("lib.so", b"no library");
        refuses(
            &["run", &model, "-b", "ort", "--ort-lib", &path("lib.so")],
            "(from --ort-lib) as ONNX Runtime: it is not a shared library, expected ",
        );
    }
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(["inspect", &model])
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("error: cannot write to standard output: No space left"),
            "{stderr}"
        );
    }
}

#[test]
fn a_model_newer_than_any_is_noted() {
    let folder = Folder::new();
    let mut newest = model(reverse_graph());
    newest.opset_import[0].version = 99;
    let path = folder.write("new.onnx", &newest.encode_to_vec());
    let run = revseq(&["run", &path, "--fill", "iota"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        run.stderr,
        format!("{path}: it is of opset 99 of ONNX; 28 is the newest that was tried on tract\n")
    );
}

#[test]
fn manual_pages_have_a_version_and_the_environment() {
    let folder = Folder::new();
    let pages = folder.path("");
    succeeds(&["man", &pages]);
    let version = env!("CARGO_PKG_VERSION");
    for (page, option) in [
        ("revseq.1", "verbose"),
        ("revseq-run.1", "seconds"),
        ("revseq-rewrite.1", "portable"),
        ("revseq-completions.1", "verbose"),
    ] {
        let text = std::fs::read_to_string(folder.path(page)).unwrap();
        let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
        assert!(
            title.contains(&format!("\"revseq {version}\"")),
            "{page}: {title}"
        );
        assert!(text.contains(option), "{page}");
        for variable in [
            "ORT_DYLIB_PATH",
            "REVSEQ_EP_LIBRARY",
            "REVSEQ_SIMD",
            "RAYON_NUM_THREADS",
        ] {
            let bold = format!("\\fB{variable}\\fR");
            assert_eq!(text.matches(&bold).count(), 1, "{page}: {variable}");
        }
    }
    let help = succeeds(&["--help"]);
    has(&help, "\n  REVSEQ_EP_LIBRARY\n");
    has(&help, "\n  man          Write manual pages\n");

    // Pages of another version are replaced, and other files are not.
    let run = std::fs::read_to_string(folder.path("revseq-run.1")).unwrap();
    folder.write("revseq-run.1", run.replace(version, "0.0.1").as_bytes());
    succeeds(&["man", &pages]);
    let again = std::fs::read_to_string(folder.path("revseq-run.1")).unwrap();
    assert_eq!(again, run);
    folder.write("revseq-run.1", b"notes");
    std::fs::remove_file(folder.path("revseq.1")).unwrap();
    refuses(
        &["man", &pages],
        "revseq-run.1 is there and is no manual page of revseq: move it, or name another folder",
    );
    assert!(!exists(&folder.path("revseq.1")));
}

/// The help, the completions and the error have the library's table.
#[test]
fn runtimes_are_listed_and_refused_in_one_line() {
    let help = succeeds(&["rewrite", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let script = succeeds(&["completions", "bash"]);
    let after = script.split("--for)").nth(1).unwrap();
    let words = after.lines().nth(1).unwrap();
    for runtime in revseq_rewrite::RUNTIMES {
        let listed = format!("- {}: {}", runtime.name, runtime.why);
        assert!(help.contains(&listed), "expected {listed:?} in {help}");
        has(words, runtime.name);
    }
    let model = models().join("graphs/between_neg").display().to_string();
    refuses(
        &["rewrite", &model, "-o", "-", "--for", "tensorrt"],
        "there is no runtime \"tensorrt\" to rewrite for; there are onnxruntime-web, openvino,",
    );
}

#[test]
fn passes_are_completed_and_refused_in_one_line() {
    let script = succeeds(&["completions", "bash"]);
    let after = script.split("--pass)").nth(1).unwrap();
    let words = after.lines().nth(1).unwrap();
    assert!(
        words.contains("full-flip") && !words.contains("-f "),
        "{words}"
    );
    let model = models().join("graphs/between_neg").display().to_string();
    let arguments = ["rewrite", &model, "-o", "-", "--pass", "fold"];
    refuses(
        &arguments,
        "there is no pass \"fold\"; the passes are full-flip,",
    );
}

/// Paragraphs flow; lines that somebody broke would break again in a narrow terminal.
#[test]
fn help_fits_a_narrow_terminal() {
    let mut paragraphs = 0;
    for command in [
        "run", "verify", "snapshot", "compare", "inspect", "rewrite", "bench",
    ] {
        for columns in ["60", "100"] {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_revseq"))
                .args([command, "--help"])
                .env("COLUMNS", columns)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let (before, _) = text.rsplit_once("\n\nExamples:").unwrap();
            let paragraph = before.rsplit("\n\n").next().unwrap();
            if !paragraph.starts_with(' ') {
                paragraphs += 1;
                let lines: Vec<&str> = paragraph.lines().collect();
                let (_, but_last) = lines.split_last().unwrap();
                let width: usize = columns.parse().unwrap();
                let is_broken = |line: &&str| line.len() < width / 2;
                assert!(!but_last.iter().any(is_broken), "{command}: {paragraph}");
            }
        }
    }
    assert_eq!(paragraphs, 12);
}

#[test]
fn lengths_of_layers_follow_the_policy() {
    let folder = Folder::new();
    let model = &folder.text(
        "x:f32[3,2,2] lens:i32[2] -> y:f32[3,1,2,1]
         w:f32[1,4,2] = 0.0
         r:f32[1,4,1] = 0.0
         y = LSTM<hidden_size=1>(x, w, r, _, lens)",
    );
    let bytes: Vec<u8> = [3_i32, 4].iter().flat_map(|it| it.to_le_bytes()).collect();
    let lens = tensor("lens", INT32, &[2], &bytes).encode_to_vec();
    let lens = format!("lens={}", folder.write("lens.pb", &lens));
    let run = ["run", model, "--fill", "iota", "-i", &lens];
    refuses(
        &run,
        "node \"y_node\" (LSTM): sequence length 4 at index 1 is out of range: expected 0 to 3",
    );
    succeeds(&[&run[..], &["--lengths", "clamp"]].concat());
}
