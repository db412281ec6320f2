//! Options that mean the same for every subcommand.

use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::GraphProto;

use crate::common::{
    FLOAT, Folder, graph, has, model, models, node, refuses, reverse_graph, revseq, succeeds,
    tensor, value,
};

/// `y = x - z`, all float `[2]`.
fn difference() -> GraphProto {
    graph("x:f32[2] z:f32[2] -> y:f32[2]\n y = Sub(x, z)")
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
    let path = |name: &str| folder.path(name);
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

    // A tensor of ONNX may have its input's name.
    for (file, name, values) in [("1.pb", "z", [1.0_f32, 2.0]), ("2.pb", "x", [5.0, 7.0])] {
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        folder.write(file, &tensor(name, FLOAT, &[2], &bytes).encode_to_vec());
    }
    let two = path("two.onnx");
    let text = succeeds(&["run", &two, "-i", &path("1.pb"), "-i", &path("2.pb")]);
    assert_eq!(text, "y: float[2]\n  [4.0, 5.0]\n");

    // All outputs, and all inputs: an archive. Extra arrays are no error.
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
    let path = |name: &str| folder.path(name);
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
    let model = OsString::from(folder.model(graph));
    let file = std::path::Path::new(&folder.path("")).join(OsStr::from_bytes(b"x\xff.npy"));
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

/// Every file that a command writes on request.
#[test]
fn existing_files_are_kept_without_overwrite() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let model = folder.model(reverse_graph());
    let tested = models().join("graphs/between_neg").display().to_string();
    let run = ["run", &model, "--fill", "iota"];
    let (npy, npz, pb) = (path("y.npy"), path("y.npz"), format!("y={}", path("y.pb")));
    let commands = [
        ([&run[..], &["-o", &npy]].concat(), "y.npy"),
        ([&run[..], &["-o", &npz]].concat(), "y.npz"),
        ([&run[..], &["-o", &pb]].concat(), "y.pb"),
        (vec!["inspect", &model, "-o", "REPORT"], "inspect.txt"),
        (vec!["verify", &tested, "-o", "REPORT"], "verify.txt"),
        (
            vec!["verify", &tested, "--format", "junit", "-o", "REPORT"],
            "verify.xml",
        ),
        (
            vec!["compare", &model, &model, "-o", "REPORT"],
            "compare.txt",
        ),
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
    let path = folder.model(reverse_graph());
    let tested = models().join("graphs/between_neg").display().to_string();
    let out = folder.path("out.onnx");
    let commands = [
        (vec!["run", &path, "--fill", "iota"], "run"),
        (vec!["verify", &tested], "verify"),
        (vec!["snapshot", &path], "snapshot"),
        (vec!["compare", &path, &path], "compare"),
        (vec!["inspect", &path], "inspect"),
        (vec!["rewrite", &path, "-o", &out], "rewrite"),
        (vec!["bench", &tested, "--seconds", "0.05"], "bench"),
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
    let model = folder.model(reverse_graph());
    let run = ["run", &model, "--fill", "iota"];
    let usual = revseq(&run);
    let quiet = revseq(&[&["-q"], &run[..]].concat());
    let verbose = revseq(&[&run[..], &["--verbose"]].concat());
    assert_eq!((quiet.stderr.as_str(), &quiet.stdout), ("", &usual.stdout));
    assert_eq!(verbose.stdout, usual.stdout);
    for step in ["read in ", "prepared in "] {
        has(&verbose.stderr, step);
    }
    assert_eq!(revseq(&["-q", "-v", "completions", "bash"]).code, Some(2));
}

#[test]
fn an_option_has_one_value_for_a_name() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let twice = |command: &str, flag: &str, first: &str, second: &str| {
        let values = [command, &model, flag, first, flag, second];
        refuses(
            &values,
            &format!("{flag} {first} and {flag} {second}: expected one of them"),
        );
    };
    twice("run", "--fill", "zeros", "random");
    twice("run", "--fill", "x=zeros", "x=iota");
    twice("compare", "--rtol", "1e-3", "1e-4");
    twice("verify", "--atol", "y=1e-3", "y=1e-4");
    twice("run", "--session-option", "session.a=1", "session.a=2");
    twice("bench", "--provider-option", "loops=keep", "loops=layers");
    succeeds(&["run", &model, "--fill", "x=iota", "--fill", "zeros"]);
    refuses(
        &["run", &model, "--fill", "zeros", "--repeat", "0"],
        "expected a number of runs from 1 to ",
    );
}
