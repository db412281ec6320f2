//! Names that would move a terminal's cursor, set its title, make up lines, or spoil XML.

use prost::Message;
use tract_onnx::pb::{FunctionProto, GraphProto, ModelProto, OperatorSetIdProto};

use crate::common::{FLOAT, Folder, INT64, Run, exists, int, int64s, model, node, revseq, value};

/// A name with all that a terminal might take for more than text.
fn evil(name: &str) -> String {
    format!("{name}\x1b]0;title\x07\x1b[31m\u{9b}2J\u{202e}\u{fffe}\x7f\r\nFORGED: ok\t")
}

/// A reversal between symbolic sizes, beside a node of an unknown operator and a function, with
/// such names wherever a model has one.
fn model_of_evil(unknown: bool) -> ModelProto {
    let [x, lens, y, before, size] = ["x", "lens", "y", "before", "N"].map(evil);
    let mut reverse = node("ReverseSequence", &[&before, &lens], &[&y]);
    reverse.name = evil("reverse");
    let mut neg = node("Neg", &[&x], &[&before]);
    neg.name = evil("neg");
    if unknown {
        neg.op_type = evil("Unknown");
        neg.domain = evil("domain");
        neg.attribute = vec![int(&evil("attribute"), 1)];
    }
    let graph = GraphProto {
        name: evil("graph"),
        node: vec![neg, reverse],
        input: vec![
            value(&x, FLOAT, &["4", &size]),
            value(&lens, INT64, &[&size]),
        ],
        output: vec![value(&y, FLOAT, &["4", &size])],
        initializer: vec![int64s(&evil("constant"), &[1])],
        ..GraphProto::default()
    };
    let mut model = model(graph);
    if unknown {
        model.opset_import.push(OperatorSetIdProto {
            domain: evil("domain"),
            version: 1,
        });
        model.functions = vec![FunctionProto {
            name: Some(evil("function")),
            domain: Some(evil("domain")),
            input: vec![evil("a")],
            output: vec![evil("b")],
            node: vec![node("Neg", &[&evil("a")], &[&evil("b")])],
            ..FunctionProto::default()
        }];
    }
    model
}

/// Nothing printed is more than text, and no line is the model's.
fn check(arguments: &[&str], run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        let control = text.chars().find(|&character| {
            (character.is_control() && character != '\n')
                || matches!(character, '\u{202e}' | '\u{fffe}')
        });
        assert_eq!(control, None, "{arguments:?}: {text:?}");
        let forged = text.lines().find(|line| line.starts_with("FORGED"));
        assert_eq!(forged, None, "{arguments:?}: {text:?}");
    }
    assert!(matches!(run.code, Some(0..=2)), "{arguments:?}: {run:?}");
}

#[test]
fn names_are_only_text_in_every_format() {
    let folder = Folder::new();
    let known = folder.write("known.onnx", &model_of_evil(false).encode_to_vec());
    let unknown = folder.write("unknown.onnx", &model_of_evil(true).encode_to_vec());
    let (known, unknown) = (&known, &unknown);
    let dim = format!("{}=3", evil("N"));
    let out = folder.path("out.onnx");
    let data = folder.path("data");
    let fill = ["--fill", "random", "--dim", &dim];
    for path in [known, unknown] {
        let run = |arguments: &[&str]| {
            let run = revseq(arguments);
            check(arguments, &run);
            run
        };
        for format in ["text", "json"] {
            let shown = run(&["inspect", path, "--format", format]);
            assert_eq!(shown.code, Some(0), "{shown:?}");
            assert!(shown.stdout.contains("FORGED: ok"), "{format}: {shown:?}");
        }
        for format in ["text", "json"] {
            let format = ["--format", format];
            run(&["run", path]);
            run(&["run", path, "--fill", "random"]);
            run(&["run", path, "--input", "x=none.npy"]);
            run(&[
                &["run", path, "--profile", "--save-test-data", &data],
                &fill[..],
                &format,
            ]
            .concat());
            run(&[&["compare", path, path], &fill[..], &format].concat());
            run(&[
                &["rewrite", path, "-o", &out, "--portable", "--overwrite"],
                &format[..],
            ]
            .concat());
        }
        run(&[&["snapshot", path], &fill[2..]].concat());
    }
    // Models with such names run.
    assert!(exists(&folder.path("out.onnx")) && exists(&folder.path("known.snapshots")));
    for format in ["text", "json", "junit"] {
        let arguments = ["verify", known, "--format", format];
        let run = revseq(&arguments);
        check(&arguments, &run);
        assert_eq!(run.code, Some(0), "{run:?}");
    }
    // Everything differs, and has to say so.
    let mut changed = model_of_evil(false);
    changed.graph.as_mut().unwrap().node[0].op_type = "Abs".to_owned();
    folder.write("known.onnx", &changed.encode_to_vec());
    let evil_file = folder.write(&evil("file.onnx"), b"no model");
    let root = folder.path("");
    for arguments in [
        vec!["verify", known],
        vec!["verify", known, "--format", "json"],
        vec!["verify", known, "--format", "junit"],
        vec!["verify", &root, "--require-snapshots"],
        vec!["verify", &root, "--format", "junit"],
        vec!["inspect", &evil_file],
        vec!["compare", known, &out, "--dim", &dim],
    ] {
        check(&arguments, &revseq(&arguments));
    }
}

#[test]
fn names_are_only_text_on_onnxruntime() {
    let test = "names_are_only_text_on_onnxruntime";
    let Some(library) = crate::ort::onnxruntime(test) else {
        return;
    };
    let folder = Folder::new();
    let path: &str = &folder.write("known.onnx", &model_of_evil(false).encode_to_vec());
    let dim = format!("{}=3", evil("N"));
    let ort = ["--backend", "ort", "--ort-lib", &library];
    for arguments in [
        vec!["run", path, "--fill", "random", "--dim", &dim, "--profile"],
        vec!["inspect", path],
        vec!["inspect", path, "--format", "json"],
    ] {
        let arguments = [&arguments[..], &ort].concat();
        let run = revseq(&arguments);
        check(&arguments, &run);
        assert_eq!(run.code, Some(0), "{run:?}");
    }
}
