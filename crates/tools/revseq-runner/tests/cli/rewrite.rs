//! `revseq rewrite`.

use std::path::{Path, PathBuf};

use prost::Message;
use tract_onnx::pb::{ModelProto, NodeProto, StringStringEntryProto, TensorProto};

use crate::common::{
    FLOAT, Folder, INT64, exists, fails, flips, has, int, int64s, model, models, models_in, node,
    prints, refuses, reverse_graph, revseq, succeeds, tensor,
};
use crate::ort::onnxruntime;

/// The models that no backend runs, as they were or rewritten.
const NOT_RUN: [&str; 4] = [
    "backend/test_reversesequence_bfloat16",
    "types/bfloat16",
    "types/complex64",
    "types/complex128",
];

fn read(path: impl AsRef<Path>) -> ModelProto {
    ModelProto::decode(std::fs::read(path).expect("a model").as_slice()).expect("a model")
}

fn folders(group: &str) -> Vec<String> {
    let name = |path: PathBuf| {
        let name = path.file_name().expect("a model's name");
        format!("{group}/{}", name.to_string_lossy())
    };
    models_in(&models().join(group))
        .into_iter()
        .map(name)
        .collect()
}

/// Rewrites a test of the repository into a folder, with its data sets: the report.
fn rewrites(folder: &Folder, name: &str, flags: &[&str]) -> String {
    let source = models().join(name);
    let target = PathBuf::from(folder.path(name));
    std::fs::create_dir_all(&target).expect("a folder");
    let output = target.join("model.onnx");
    let mut arguments = vec!["rewrite", source.to_str().unwrap()];
    arguments.extend(["-o", output.to_str().unwrap()]);
    arguments.extend(flags);
    let report = succeeds(&arguments);
    for set in std::fs::read_dir(source).expect("a test") {
        let set = set.expect("a file").path();
        if set.is_dir() {
            let copy = target.join(set.file_name().unwrap());
            std::fs::create_dir(&copy).expect("a folder");
            for file in std::fs::read_dir(set).expect("a data set") {
                let file = file.expect("a file").path();
                std::fs::copy(&file, copy.join(file.file_name().unwrap())).expect("a copy");
            }
        }
    }
    report
}

/// A model that a backend does not run, and its error.
type NotRun<'a> = (&'a str, &'a str);

/// Verifies all rewritten models: on tract, and on ONNX Runtime with its own kernels if there is
/// one for tests. Only listed models are skipped or fail, and for the listed reason.
fn verify_all(folder: &Folder, test: &str, not_on_tract: &[NotRun<'_>], not_on_ort: &[NotRun<'_>]) {
    let root = folder.path("");
    let root = &root.trim_end_matches('/');
    let verify = |more: &[&str], not_run: &[NotRun<'_>]| {
        let run = revseq(&[&["verify", root], more].concat());
        for line in run.stdout.lines() {
            let Some((path, result)) = line.split_once(": ") else {
                continue;
            };
            let name = path.strip_prefix(root).unwrap().trim_start_matches('/');
            let right = match not_run.iter().find(|(not_run, _)| *not_run == name) {
                Some((_, why)) => result.contains(why),
                None => result == "ok",
            };
            assert!(right, "{more:?} {name}: {result}");
        }
        has(&run.stdout, " passed, ");
    };
    verify(&[], not_on_tract);
    if let Some(library) = onnxruntime(test) {
        let plain = ["--backend", "ort-plain", "--ort-lib", &library];
        verify(&plain, not_on_ort);
    }
}

#[test]
fn every_model_is_the_same_with_standard_operators() {
    let folder = Folder::new();
    let groups = [
        "backend",
        "page",
        "subsequences",
        "shapes",
        "lengths",
        "types",
        "opsets",
        "graphs",
        "exported",
    ];
    for name in groups.into_iter().flat_map(folders) {
        if NOT_RUN.contains(&name.as_str()) {
            continue;
        }
        let report = rewrites(&folder, &name, &["--portable"]);
        assert!(
            report.contains("0 left alone") || !report.contains("Reverse"),
            "{report}"
        );
        let rewritten = read(folder.path(&format!("{name}/model.onnx")));
        let text = format!("{rewritten:?}");
        assert!(!text.contains("op_type: \"Reverse"), "{name}");
    }
    verify_all(
        &folder,
        "every_model_is_the_same_with_standard_operators",
        &[],
        &[],
    );
}

/// The cases of other projects' tests, with lengths out of range clamped.
#[test]
fn peer_cases_are_the_same_with_standard_operators() {
    let folder = Folder::new();
    let mut count = 0;
    for case in revseq_tests::cases() {
        let Some(test) = revseq_tests::paths::backend_test(&case).expect("a model") else {
            continue;
        };
        let name = &case.name;
        folder.write(&format!("{name}/model.onnx"), &test.model);
        let outputs = std::iter::once(("output_0".to_owned(), test.output));
        let inputs = test.inputs.into_iter().enumerate();
        let inputs = inputs.map(|(index, input)| (format!("input_{index}"), input));
        for (file, tensor) in inputs.chain(outputs) {
            let path = format!("{name}/test_data_set_0/{file}.pb");
            folder.write(&path, &tensor.encode_to_vec());
        }
        count += 1;
    }
    assert_eq!(count, 87);
    let complex = [
        ("testComplex64Basic_complex64", "complex64"),
        ("testComplex128Basic_complex128", "complex128"),
    ];
    verify_all(
        &folder,
        "peer_cases_are_the_same_with_standard_operators",
        &complex,
        &complex,
    );
}

/// Outputs of models that only move data are compared bit for bit, with standard operators too.
#[test]
fn one_bit_is_a_difference_with_standard_operators() {
    let folder = Folder::new();
    let name = "types/nan_float32";
    rewrites(&folder, name, &["--portable"]);
    let root = folder.path("");
    assert_eq!(revseq(&["verify", &root]).code, Some(0));
    let path = folder.path(&format!("{name}/test_data_set_0/output_0.pb"));
    let mut output = TensorProto::decode(std::fs::read(&path).unwrap().as_slice()).unwrap();
    output.raw_data[0] ^= 1;
    std::fs::write(&path, output.encode_to_vec()).unwrap();
    let run = revseq(&["verify", &root]);
    assert_eq!(run.code, Some(1), "{run:?}");
}

#[test]
fn exported_models_are_the_same_without_their_loops() {
    // ONNX Runtime does not take its axes.
    let not_on_ort = [("exported/tf_axes_2_3", "Invalid batch_axis")];
    let right_padded = ["--fast", "--assume", "right-padded"];
    let without_lengths = [&right_padded[..], &["--pass", "sequence-lens"]].concat();
    let table: [&[&str]; 4] = [
        &["--fast"],
        &["--fast", "--pass", "sequence-lens"],
        &right_padded,
        &without_lengths,
    ];
    for flags in table {
        let folder = Folder::new();
        for name in folders("exported") {
            rewrites(&folder, &name, flags);
        }
        let test = "exported_models_are_the_same_without_their_loops";
        verify_all(&folder, test, &[], &not_on_ort);
    }
}

/// The pipeline knows no sizes when it loads a model; the outputs have them as symbols.
#[test]
fn rewritten_models_of_keras_load_on_tract_without_sizes() {
    use tract_onnx::prelude::*;

    let mut onnx = tract_onnx::onnx();
    revseq_tract::register(&mut onnx);
    let models = folders("exported").into_iter();
    let keras: Vec<String> = models.filter(|name| name.contains("/keras_")).collect();
    let flags: [&[&str]; 2] = [&["--fast", "--assume", "right-padded"], &["--fast"]];
    let mut count = 0;
    for (name, flags) in keras
        .iter()
        .flat_map(|name| flags.map(|flags| (name, flags)))
    {
        let folder = Folder::new();
        rewrites(&folder, name, flags);
        let model = onnx.model_for_path(folder.path(&format!("{name}/model.onnx")));
        let model = model.and_then(|model| model.into_optimized());
        let model = model.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let input = model.input_fact(0).expect("an input").shape.to_tvec();
        let output = model.output_fact(0).expect("an output").shape.to_tvec();
        assert!(input[0].as_i64().is_none(), "{name}: {input:?}");
        assert_eq!(input[0], output[0], "{name}");
        count += 1;
    }
    assert!(count >= 14, "{count}");
}

/// Ends all loops by their conditions alone: as Keras' models of older exporters do.
fn without_trip_counts(mut model: ModelProto) -> ModelProto {
    for node in model.graph.iter_mut().flat_map(|graph| &mut graph.node) {
        if node.op_type == "Loop" {
            node.input[0].clear();
        }
    }
    model
}

/// The models in a folder of tests, and where they lie.
fn tests_in(group: &str) -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data");
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let paths = models_in(&root.join(group)).into_iter();
    paths.map(|path| (name(&path), path)).collect()
}

/// The outputs of Keras and other frameworks against those of the rewritten layers: with the
/// assumption that masks are right-padded, where they are, and without it.
#[test]
fn layers_give_their_frameworks_outputs() {
    let folder = Folder::new();
    let add = |name: &str, data: &Path, model: &ModelProto, flags: &[&str]| {
        for set in data.read_dir().expect("a test") {
            let set = set.expect("a file").path();
            for file in set.read_dir().into_iter().flatten() {
                let file = file.expect("a file").path();
                let inner = file.strip_prefix(data).unwrap().to_string_lossy();
                folder.write(&format!("{name}/{inner}"), &std::fs::read(&file).unwrap());
            }
        }
        let before = folder.write("before.onnx", &model.encode_to_vec());
        let output = folder.path(&format!("{name}/model.onnx"));
        let arguments = ["rewrite", &before];
        let to = ["-o", &output];
        succeeds(&[&arguments[..], &to, flags].concat());
        std::fs::remove_file(before).unwrap();
        read(&output)
    };
    let loops = |model: &ModelProto| {
        let text = format!("{model:?}");
        ["Loop", "Scan"].map(|op| text.matches(&format!("op_type: \"{op}\"")).count())
    };
    let right_padded: &[&str] = &["--fast", "--assume", "right-padded"];
    let keras = tests_in("keras");
    let all = keras.iter().map(|it| (it, right_padded, "assumed"));
    // Of masked ones, no word is needed for any.
    let masked = keras.iter().filter(|(name, _)| name.contains("masked"));
    let masked = masked.map(|it| (it, &right_padded[..1], "proved"));
    let others = tests_in("layers");
    let others = others.iter().map(|it| (it, &right_padded[..1], "layers"));
    let mut count = 0;
    for ((name, path), flags, group) in all.chain(masked).chain(others) {
        let model = read(path.join("model.onnx"));
        let rewritten = add(&format!("{group}/{name}"), path, &model, flags);
        assert_eq!(loops(&rewritten), [0, 0], "{group}/{name}");
        count += usize::from(loops(&model) != [0, 0]);
    }
    assert!(count > 50, "{count}");
    // A whole encoder once more, with loops that only their conditions end.
    let (_, encoder) = keras
        .iter()
        .find(|(name, _)| name == "embedding_bilstm_masked")
        .expect("an encoder");
    let model = without_trip_counts(read(encoder.join("model.onnx")));
    let cancel = ["--pass", "cancel"];
    let before = add("without_trip_counts", encoder, &model, &cancel);
    let name = "without_trip_counts_rewritten";
    let after = add(name, encoder, &model, &right_padded[..1]);
    assert_eq!((loops(&before), loops(&after)), ([4, 0], [0, 0]));
    verify_all(&folder, "layers_give_their_frameworks_outputs", &[], &[]);
}

#[test]
fn a_difference_leaves_no_file() {
    let folder = Folder::new();
    // Two sequences of five steps, of which the first two are padding: Masking
    // takes zeros for it, and no sequence_lens stands for it.
    let mut x = vec![0.5_f32; 2 * 5 * 8];
    x[..16].fill(0.0);
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = tensor("x", FLOAT, &[2, 5, 8], &bytes);
    folder.write("data/test_data_set_0/input_0.pb", &x.encode_to_vec());
    let (output, data) = (folder.path("out.onnx"), folder.path("data"));
    let model = models().join("exported/keras_bilstm_masked");
    let arguments = [
        "rewrite",
        model.to_str().unwrap(),
        "-o",
        &output,
        "--fast",
        "--assume",
        "right-padded",
        "--check",
        &data,
    ];
    fails(
        &arguments,
        "check on tract, test_data_set_0: FAILED: output Identity:0",
    );
    assert!(!exists(&output) && !exists(&folder.path("out.onnx.partial")));
    // Without the word for it, the steps that count are put first, whichever they are.
    let mut without = arguments.to_vec();
    without.drain(5..7);
    prints(&without, "with the steps that its mask counts put first");
    assert!(exists(&output));
}

/// ONNX Runtime's own kernel misreads an axis that counts from the end: the rewritten model has to
/// give another backend's outputs on it.
#[test]
fn a_misreading_backend_is_not_the_reference() {
    let test = "a_misreading_backend_is_not_the_reference";
    let folder = Folder::new();
    let mut graph = reverse_graph();
    for attribute in &mut graph.node[0].attribute {
        attribute.i -= 3;
    }
    let path = folder.model(graph);
    let output = folder.path("out.onnx");
    let mut arguments = vec!["rewrite", &path, "--check"];
    arguments.extend(["-o", &output, "--overwrite"]);
    let library = onnxruntime(test);
    arguments.extend(library.iter().flat_map(|library| ["--ort-lib", library]));
    let on_ort = "check on ort-plain, made-up inputs 1: ok";
    let report = succeeds(&[&arguments[..], &["--portable"]].concat());
    has(&report, "check on tract, made-up inputs 1: ok");
    assert!(library.is_none() || report.contains(on_ort), "{report}");
}

#[test]
fn existing_files_are_kept_without_overwrite() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let before = std::fs::read(&path).unwrap();
    let (model, other) = (&path, folder.path("other.onnx"));
    refuses(
        &["rewrite", model, "-o", model, "--portable"],
        "it is the model itself; --overwrite",
    );
    folder.write("other.onnx", b"kept");
    refuses(
        &["rewrite", model, "-o", &other],
        "the file exists; --overwrite replaces it",
    );
    assert_eq!(std::fs::read(&other).unwrap(), b"kept");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    refuses(
        &["rewrite", model, "-o", &folder.path("")],
        "it is a folder",
    );
    refuses(
        &format!("rewrite {model} -o {} --pass fold", folder.path("new.onnx")),
        "there is no pass \"fold\"; the passes are full-flip,",
    );
    succeeds(&["rewrite", model, "-o", model, "--portable", "--overwrite"]);
    assert_ne!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn an_untouched_model_is_the_same_file() {
    let folder = Folder::new();
    let path = models().join("shapes/rank3_batch0_time1/model.onnx");
    let output = folder.path("out.onnx");
    let report = succeeds(&format!("rewrite {} -o {}", path.display(), output));
    assert_eq!(
        report,
        "full-flip: left alone: its lengths are not provably all the same\n  reverse \
         (ReverseSequence)\n0 rewritten, 1 left alone: the model is unchanged\n"
    );
    assert_eq!(std::fs::read(path).unwrap(), std::fs::read(output).unwrap());
}

#[test]
fn nodes_of_one_fate_are_listed_below_it() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph
        .node
        .push(node("ReverseSequence", &["y", "lens"], &["z"]));
    graph.output[0].name = "z".to_owned();
    graph.input.retain(|input| input.name != "lens");
    graph.initializer.push(int64s("lens", &[5; 4]));
    for node in &mut graph.node {
        node.attribute = vec![int("batch_axis", 0), int("time_axis", 1)];
    }
    let path = folder.model(graph);
    let output = folder.path("out.onnx");
    let mut arguments = vec!["rewrite", &path, "--pass", "full-flip"];
    arguments.extend(["-o", &output, "--overwrite"]);
    let counts = "2 rewritten, 0 left alone: outputs are equal bit for bit\n";
    assert_eq!(
        succeeds(&arguments),
        format!(
            "full-flip: Slice of axis 1 with a step of -1\n  y_node (ReverseSequence)\n  z_node \
             (ReverseSequence)\n{counts}"
        )
    );
    arguments.push("-q");
    assert_eq!(succeeds(&arguments), counts);
}

/// Also where no node is listed.
#[test]
fn a_report_says_that_a_layer_refuses_an_empty_batch() {
    let folder = Folder::new();
    let output = folder.path("out.onnx");
    let line = "an empty batch is an error of the rewritten model: a layer refuses it\n";
    for (name, is_told) in [
        ("keras_gru_bidirectional", true),
        ("keras_simplernn_bidirectional_masked", false),
    ] {
        let path = models().join("exported").join(name).join("model.onnx");
        let mut arguments = vec!["rewrite", path.to_str().unwrap(), "--fast", "-q"];
        arguments.extend(["-o", &output, "--overwrite"]);
        let report = succeeds(&arguments);
        assert_eq!(report.contains(line), is_told, "{name}: {report}");
    }
}

#[test]
fn json() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let output = folder.path("out.onnx");
    let arguments = ["rewrite", &path, "-o", &output];
    let run = succeeds(
        &[
            &arguments[..],
            &["--portable", "--check", "--format", "json"],
        ]
        .concat(),
    );
    let json: serde_json::Value = serde_json::from_str(&run).expect("JSON");
    assert_eq!(json["exactness"], "exact");
    assert_eq!(json["steps"][0]["pass"], "portable");
    assert_eq!(json["steps"][0]["node"], "y_node");
    assert_eq!(json["steps"][0]["operator"], "ReverseSequence");
    assert_eq!(json["steps"][0]["result"], "rewritten");
    assert_eq!(json["checks"][0]["backend"], "tract");
    assert_eq!(json["checks"][0]["data"], "made-up inputs 1");
    assert_eq!(json["checks"][0]["result"], "ok");
}

/// External data at two offsets of a file, and the model's metadata.
#[test]
fn data_in_other_files_goes_along() {
    let test = "data_in_other_files_goes_along";
    let folder = Folder::new();
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let external = |tensor: TensorProto, offset: &str, length: &str| TensorProto {
        external_data: vec![
            entry("location", "data/all.bin"),
            entry("offset", offset),
            entry("length", length),
        ],
        data_location: Some(1),
        ..tensor
    };
    let initializers = [
        external(tensor("added", FLOAT, &[3], &[]), "0", "12"),
        external(tensor("lens", INT64, &[4], &[]), "4096", "32"),
    ];
    let mut graph = reverse_graph();
    graph.input.pop();
    graph.initializer.extend(initializers.clone());
    graph.doc_string = "of the graph".to_owned();
    graph.node[0].output[0] = "reversed".to_owned();
    let add = NodeProto {
        doc_string: "of the node".to_owned(),
        ..node("Add", &["reversed", "added"], &["y"])
    };
    graph.node.push(add.clone());
    let before = ModelProto {
        producer_name: "a test".to_owned(),
        doc_string: "of the model".to_owned(),
        metadata_props: vec![entry("author", "someone")],
        ..model(graph)
    };
    folder.write("in/model.onnx", &before.encode_to_vec());
    let mut bytes: Vec<u8> = [1_f32, -2.0, 0.5]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    bytes.resize(4096, 0xff);
    bytes.extend([5_i64, 4, 0, 1].iter().flat_map(|it| it.to_le_bytes()));
    folder.write("in/data/all.bin", &bytes);
    std::fs::create_dir(folder.path("out")).unwrap();
    let (path, output) = (folder.path("in/model.onnx"), folder.path("out/model.onnx"));
    let arguments = ["rewrite", &path, "-o", &output, "--portable", "--check"];
    let library = onnxruntime(test);
    let library = library.iter().flat_map(|library| ["--ort-lib", library]);
    let arguments: Vec<&str> = arguments.into_iter().chain(library).collect();
    let report = succeeds(&arguments);
    assert!(report.contains("check on tract, made-up inputs 1: ok"));
    let is_on_ort = report.contains("check on ort-plain, made-up inputs 1: ok");
    assert!(is_on_ort || !arguments.contains(&"--ort-lib"), "{report}");
    assert_eq!(
        std::fs::read(folder.path("out/data/all.bin")).unwrap(),
        bytes
    );
    let mut after = read(&output);
    let graph = after.graph.as_mut().expect("a graph");
    assert_eq!(graph.initializer, initializers);
    assert_eq!(graph.node.last(), Some(&add));
    assert!(
        graph
            .node
            .iter()
            .all(|node| node.op_type != "ReverseSequence")
    );
    // Nothing else is another.
    graph.node = before.graph.as_ref().expect("a graph").node.clone();
    after.opset_import = before.opset_import.clone();
    assert_eq!(after, before);
    // Data of another model is not touched.
    folder.write("out/data/all.bin", &[0; 32]);
    std::fs::remove_file(&output).unwrap();
    refuses(&arguments, "is another file; choose another folder");
    assert_eq!(
        std::fs::read(folder.path("out/data/all.bin")).unwrap(),
        [0; 32]
    );
    assert!(!exists(&output));
}

#[test]
fn incomparable_models_are_an_error() {
    let folder = Folder::new();
    let path = folder.text(&format!(
        "x:f32[2] -> y:f32[2]\n z = Nonsense(x)\n {}",
        flips("z")
    ));
    let output = folder.path("out.onnx");
    let arguments = ["rewrite", &path, "-o", &output, "--check"];
    refuses(
        &arguments,
        "--check: no backend runs both models: tract: the original model: tract has no Nonsense",
    );
    assert!(!exists(&output));
}
