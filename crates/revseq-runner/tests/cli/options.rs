//! Options that mean the same for every subcommand.

use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::GraphProto;

use crate::common::{
    FLOAT, Folder, model, models, node, refuses, reverse_graph, revseq, succeeds, value,
};

/// `y = x - z`, all float `[2]`.
fn difference() -> GraphProto {
    let two = |name| value(name, FLOAT, &["2"]);
    GraphProto {
        name: "graph".to_owned(),
        node: vec![node("Sub", &["x", "z"], &["y"])],
        input: vec![two("x"), two("z")],
        output: vec![two("y")],
        ..GraphProto::default()
    }
}

/// The `.npy` file of two floats.
fn npy(values: [f32; 2]) -> Vec<u8> {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn files_are_named_or_the_only_ones() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).display().to_string();
    folder.write("x.npy", &npy([5.0, 7.0]));
    folder.write("z.npy", &npy([1.0, 2.0]));
    folder.write("two.onnx", &model(difference()).encode_to_vec());
    let mut one = difference();
    one.node[0] = node("Neg", &["x"], &["y"]);
    one.input.truncate(1);
    folder.write("one.onnx", &model(one).encode_to_vec());
    let (x, z) = (
        format!("x={}", path("x.npy")),
        format!("z={}", path("z.npy")),
    );

    // One input, one output: no names.
    succeeds(&[
        "run",
        &path("one.onnx"),
        "-i",
        &path("x.npy"),
        "-o",
        &path("y.npy"),
    ]);
    let y = std::fs::read(path("y.npy")).unwrap();
    assert!(y.ends_with(&npy([-5.0, -7.0])[128..]), "{y:?}");
    refuses(
        &["run", &path("two.onnx"), "-i", &path("x.npy")],
        "which input is it for? the inputs are x: float[2], z: float[2]; say it with --input NAME=FILE",
    );

    // All outputs, and all inputs: an archive. What it has beyond is no error.
    let both = ["run", &path("two.onnx"), "-i", &x, "-i", &z];
    succeeds(&[&both[..], &["-o", &path("y.npz")]].concat());
    let text = succeeds(&[&both[..], &["--fill", "zeros"]].concat());
    assert_eq!(text, "y: float[2]\n  [4.0, 5.0]\n");
    let mut renamed = difference();
    renamed.node[0].input[0] = "y".to_owned();
    renamed.input[0].name = "y".to_owned();
    renamed.node[0].output[0] = "w".to_owned();
    renamed.output[0].name = "w".to_owned();
    folder.write("next.onnx", &model(renamed).encode_to_vec());
    let next = ["run", &path("next.onnx"), "-i", &path("y.npz"), "-i", &z];
    assert_eq!(succeeds(&next), "w: float[2]\n  [3.0, 3.0]\n");
    // A file for the input is before the archive's array.
    let y = format!("y={}", path("x.npy"));
    let before = succeeds(&[&next[..], &["-i", &y]].concat());
    assert_eq!(before, "w: float[2]\n  [4.0, 5.0]\n");
    let two = [
        "run",
        &path("one.onnx"),
        "-i",
        &path("y.npz"),
        "--fill",
        "iota",
    ];
    refuses(&two, "y.npz: it has y; the inputs are x: float[2]");
    refuses(
        &[&next[..], &["-i", &path("y.npz")]].concat(),
        "--input: \"y\" is given twice",
    );
}

#[test]
fn arrays_that_are_no_inputs_are_a_note() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).display().to_string();
    // Outputs y and x, of which the next model has only x as an input.
    let mut graph = difference();
    graph.node.push(node("Neg", &["y"], &["n"]));
    graph.output.push(value("n", FLOAT, &["2"]));
    folder.write("first.onnx", &model(graph).encode_to_vec());
    let mut graph = difference();
    graph.node[0] = node("Abs", &["n"], &["a"]);
    graph.input = vec![value("n", FLOAT, &["2"])];
    graph.output = vec![value("a", FLOAT, &["2"])];
    folder.write("second.onnx", &model(graph).encode_to_vec());
    succeeds(&[
        "run",
        &path("first.onnx"),
        "--fill",
        "iota",
        "-o",
        &path("all.npz"),
    ]);
    let arguments = ["run", &path("second.onnx"), "-i", &path("all.npz")];
    let run = revseq(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        run.stderr,
        format!(
            "{}: not used, as no input has its name: y\n",
            path("all.npz")
        )
    );
    let quiet = revseq(&[&arguments[..], &["-q"]].concat());
    assert_eq!((quiet.stderr.as_str(), &quiet.stdout), ("", &run.stdout));
}

#[cfg(unix)]
#[test]
fn files_need_not_be_utf_8() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    let mut graph = difference();
    graph.node[0] = node("Neg", &["x"], &["y"]);
    graph.input.truncate(1);
    let model = folder.model(graph).into_os_string();
    let file = folder.path("").join(OsStr::from_bytes(b"x\xff.npy"));
    std::fs::write(&file, npy([1.0, 2.0])).unwrap();
    for name in ["", "x="] {
        let mut input = OsString::from(name);
        input.push(&file);
        let arguments = [OsStr::new("run"), &model, OsStr::new("-i"), &input];
        assert_eq!(succeeds(&arguments), "y: float[2]\n  [-1.0, -2.0]\n");
    }
    let wrong = [
        OsStr::new("run"),
        &model,
        OsStr::new("-i"),
        OsStr::from_bytes(b"\xff=x.npy"),
    ];
    assert!(
        revseq(&wrong)
            .stderr
            .contains("the name before = is not UTF-8")
    );
}

/// Every file that a command writes because it is told to.
#[test]
fn existing_files_are_kept_unless_told() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).display().to_string();
    let model = folder.model(reverse_graph()).display().to_string();
    let tested = models().join("graphs/between_neg").display().to_string();
    let run = ["run", &model, "--fill", "iota"];
    let (npy, npz, pb) = (path("y.npy"), path("y.npz"), format!("y={}", path("y.pb")));
    let commands = [
        ([&run[..], &["-o", &npy]].concat(), "y.npy"),
        ([&run[..], &["-o", &npz]].concat(), "y.npz"),
        ([&run[..], &["-o", &pb]].concat(), "y.pb"),
        (vec!["inspect", &model, "-o", "REPORT"], "inspect.txt"),
        (
            vec!["inspect", &model, "--format", "html", "-o", "REPORT"],
            "inspect.html",
        ),
        (vec!["verify", &tested, "-o", "REPORT"], "verify.txt"),
        (
            vec!["verify", &tested, "--format", "junit", "-o", "REPORT"],
            "verify.xml",
        ),
        (
            vec!["compare", &model, &model, "-o", "REPORT"],
            "compare.txt",
        ),
        (vec!["devices", "-o", "REPORT"], "devices.txt"),
        #[cfg(feature = "rewrite")]
        (vec!["rewrite", &model, "-q", "-o", "REPORT"], "out.onnx"),
    ];
    for (mut arguments, name) in commands {
        let file = path(name);
        if arguments.last() == Some(&"REPORT") {
            arguments.pop();
            arguments.push(&file);
        }
        folder.write(name, b"before");
        refuses(
            &arguments,
            &format!("--output {file}: the file exists; --overwrite replaces it"),
        );
        assert_eq!(std::fs::read(&file).unwrap(), b"before");
        arguments.push("--overwrite");
        let replaced = revseq(&arguments);
        assert_eq!(replaced.code, Some(0), "{replaced:?}");
        let content = std::fs::read(&file).unwrap();
        assert!(content != b"before" && !content.is_empty(), "{arguments:?}");
        if !["run", "rewrite"].contains(&arguments[0]) {
            assert_eq!(replaced.stdout, "", "{arguments:?}");
        }
        // A device is no file.
        arguments.retain(|argument| *argument != "--overwrite");
        if let Some(last) = arguments.iter_mut().find(|argument| **argument == file) {
            *last = "/dev/null";
            if cfg!(unix) && name.ends_with(".txt") {
                succeeds(&arguments);
            }
        }
    }
}

#[test]
fn json_names_its_schema() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph()).display().to_string();
    let tested = models().join("graphs/between_neg").display().to_string();
    let commands = [
        (vec!["run", &path, "--fill", "iota"], "run"),
        (vec!["verify", &tested], "verify"),
        (vec!["snapshot", &path], "snapshot"),
        (vec!["compare", &path, &path], "compare"),
        (vec!["inspect", &path], "inspect"),
        (vec!["devices"], "devices"),
        #[cfg(feature = "bench")]
        (
            vec!["bench", "--quick", "--filter", "ready-plan 4x4 f32 random"],
            "bench",
        ),
    ];
    let page = std::fs::read_to_string(models().join("../docs/json.md")).unwrap();
    for (mut arguments, name) in commands {
        arguments.extend(["--format", "json"]);
        let json: Json = serde_json::from_str(&succeeds(&arguments)).unwrap();
        let schema = format!("revseq-{name}-1");
        let (first, value) = json.as_object().unwrap().iter().next().unwrap();
        assert_eq!((first.as_str(), value), ("schema", &schema.clone().into()));
        // The page has all that is in it.
        let section = page
            .split("\n## ")
            .find(|section| section.contains(&schema));
        let section = section.unwrap_or_else(|| panic!("docs/json.md lacks {schema}"));
        for key in json.as_object().unwrap().keys().skip(1) {
            assert!(section.contains(&format!("`{key}`")), "{schema}: {key}");
        }
    }
}

#[test]
fn a_quiet_run_prints_outputs_alone_and_a_verbose_one_says_more() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph()).display().to_string();
    let run = ["run", &model, "--fill", "iota"];
    let usual = revseq(&run);
    let quiet = revseq(&[&["-q"], &run[..]].concat());
    let verbose = revseq(&[&run[..], &["--verbose"]].concat());
    assert_eq!((quiet.stderr.as_str(), &quiet.stdout), ("", &usual.stdout));
    assert_eq!(verbose.stdout, usual.stdout);
    for step in ["read in ", "prepared in "] {
        assert!(verbose.stderr.contains(step), "{verbose:?}");
    }
    assert_eq!(revseq(&["-q", "-v", "devices"]).code, Some(2));
}

#[test]
fn wrong_settings_are_told_before_anything_runs() {
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
    let why = "error: REVSEQ_SIMD is \"foo\", expected one of portable, neon, avx2, avx512\n";
    assert_eq!(simd("foo"), (Some(2), why.to_owned()));
    let run = ["run", &path, "-b", "ort", "--provider-option"];
    for (option, why) in [
        (
            "foo=1",
            "--provider-option foo: the provider has no such option; it has lengths and device",
        ),
        (
            "lengths=x",
            "--provider-option lengths: it is \"x\", expected reject or clamp",
        ),
        (
            "device=cuda",
            "expected cpu, gpu, gpu:INDEX, gpu:NAME or gpu:software",
        ),
    ] {
        refuses(&[&run[..], &[option]].concat(), why);
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
fn a_file_that_cannot_be_used_says_why() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).display().to_string();
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
    let mut graph = difference();
    graph.node[0] = node("Neg", &["x"], &["y"]);
    graph.input.truncate(1);
    let model = folder.model(graph).display().to_string();
    refuses(
        &["run", &model, "-i", &path("o.npy")],
        "it holds Python objects; if they are strings, save `array.astype(str)`",
    );
    #[cfg(unix)]
    {
        let nowhere = path("nope");
        refuses(
            &["verify", &nowhere],
            &format!("cannot search {nowhere}: No such file or directory (os error 2)"),
        );
        folder.write("lib.so", b"no library");
        let run = revseq(&["run", &model, "-b", "ort", "--ort-lib", &path("lib.so")]);
        assert!(
            run.stderr.contains("file too short") || run.stderr.contains("invalid ELF header"),
            "{run:?}"
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
    let path = folder
        .write("new.onnx", &newest.encode_to_vec())
        .display()
        .to_string();
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
    let pages = folder.path("").display().to_string();
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
    assert!(help.contains("\n  REVSEQ_EP_LIBRARY\n"), "{help}");
}

#[cfg(feature = "rewrite")]
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

#[cfg(feature = "bench")]
#[test]
fn regimes_are_listed() {
    let all = succeeds(&["bench", "--list"]);
    assert!(
        all.lines().any(|line| line == "ready-plan 4x4 f32 random"),
        "{all}"
    );
    let some = succeeds(&["bench", "--list", "--filter", "time-major"]);
    assert!(some.lines().count() < all.lines().count());
    assert!(
        some.lines().all(|line| line.contains("time-major")),
        "{some}"
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
    assert_eq!(paragraphs, 10);
}
