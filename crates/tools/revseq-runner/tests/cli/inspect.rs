//! `revseq inspect`, and the commands about the program itself.

use std::collections::BTreeSet;
use std::path::Path;

use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, FunctionProto, NodeProto};

use crate::common::{
    FLOAT, Folder, all_models, graph, has, int, model, models, models_in, node, outside, prints,
    refuses, reverse_graph, revseq, succeeds, value,
};

fn json(path: impl AsRef<Path>, more: &[&str]) -> Json {
    let path = path.as_ref().to_str().unwrap();
    let mut arguments = vec!["inspect", path, "--format", "json"];
    arguments.extend_from_slice(more);
    serde_json::from_str(&succeeds(&arguments)).unwrap()
}

#[test]
fn a_node_is_shown_down_to_its_plan() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let text = succeeds(&["inspect", &path]);
    let expected = "
ReverseSequence: 1 of 1 node
runs on tract

graph/y_node: ReverseSequence
  input          x: float[4,5,3]
  sequence_lens  lens: int64[4]
  output         y: float[4,5,3]
  axes           batch_axis 0, time_axis 1
  descriptor     FLOAT32 [1, 4, 5, 3], axis 2; lengths UINT64 [1, 4, 1, 3], strides [0, 1, 0, 0]
  plan           small, row bytes 12, moved bytes 240
";
    assert!(text.ends_with(expected), "{text}");
    let node = &json(&path, &[])["nodes"][0];
    assert_eq!(
        node["descriptor"]["sequence_lengths"]["strides"],
        serde_json::json!([0, 1, 0, 0])
    );
    assert_eq!(node["plan"]["kernel"], "small");
    assert_eq!(node["directml"]["level"], "DML_FEATURE_LEVEL_5_0");
}

#[test]
fn symbols_are_named_until_they_are_bound() {
    let folder = Folder::new();
    let path = folder.model(graph(
        "x:f32[b,t,3] lens:i64[b] -> y:f32[b,t,3]
         y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)",
    ));
    let node = &json(&path, &[])["nodes"][0];
    assert_eq!(
        node["missing"],
        serde_json::json!(["b (--dim b=SIZE)", "t (--dim t=SIZE)"])
    );
    assert_eq!(node["axes"]["time_axis"], 1);
    let node = &json(&path, &["--dim", "b=4"])["nodes"][0];
    assert_eq!(node["missing"], serde_json::json!(["t (--dim t=SIZE)"]));
    let node = &json(&path, &["--dim", "b=4", "--dim", "t=5"])["nodes"][0];
    assert_eq!(
        node["descriptor"]["input"]["sizes"],
        serde_json::json!([1, 4, 5, 3])
    );
    refuses(&["inspect", &path, "--dim", "c=4"], "the model has b, t");
}

/// Paddle writes both.
#[test]
fn a_size_of_minus_one_or_a_question_mark_is_unknown() {
    let folder = Folder::new();
    let path = folder.text(
        "x:f32[-1,5,?] lens:i64[-1] -> y:f32[-1,5,?]
         y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)",
    );
    let text = succeeds(&["inspect", &path]);
    has(&text, "\ninput x: float[?,5,?]\n");
    assert!(!text.contains("NAME=SIZE: ?"), "{text}");
}

#[test]
fn sizes_made_of_symbols_are_named() {
    let folder = Folder::new();
    let path = &folder.model(graph(
        "a:f32[b,t,3] lens:i64[b] -> y:f32[b,u,3]
         x = Concat<axis=1>(a, a)
         y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)",
    ));
    let shown = json(path, &[]);
    assert_eq!(shown["symbols"], serde_json::json!(["b", "t"]));
    let expected = serde_json::json!(["b", "2*t", 3]);
    assert_eq!(shown["nodes"][0]["values"]["input"]["shape"], expected);
    assert_eq!(shown["outputs"][0]["shape"], expected);
    assert_eq!(
        shown["nodes"][0]["missing"],
        serde_json::json!(["b (--dim b=SIZE)", "t (--dim t=SIZE)"])
    );
    let shown = json(path, &["--dim", "b=4", "--dim", "t=5"]);
    assert_eq!(
        shown["nodes"][0]["descriptor"]["input"]["sizes"],
        serde_json::json!([1, 4, 10, 3])
    );
    assert_eq!(shown["symbols"], serde_json::json!([]));
}

/// Whether a shape has only sizes and names.
fn is_named(shape: &Json) -> bool {
    let dims = shape.as_array().into_iter().flatten();
    let known = |dim: &Json| dim.is_u64() || dim.is_string();
    shape.is_array() && dims.into_iter().all(known)
}

#[test]
fn exported_models_have_named_sizes_after_their_loops() {
    for model in models_in(&models().join("exported")) {
        let shown = json(&model, &[]);
        for node in shown["nodes"].as_array().unwrap() {
            let values = node["values"].as_object().unwrap();
            for (name, value) in values {
                assert!(is_named(&value["shape"]), "{model:?}: {name}: {node}");
            }
        }
    }
}

#[test]
fn exported_models_are_known_once_their_sizes_are() {
    let mut nodes = 0;
    for model in models_in(&models().join("exported")) {
        let shown = json(&model, &[]);
        let symbols = shown["symbols"].as_array().unwrap().iter();
        let dims: Vec<String> = symbols
            .map(|symbol| format!("--dim={}=4", symbol.as_str().unwrap()))
            .collect();
        let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
        let shown = json(&model, &dims);
        assert!(shown["inference_error"].is_null(), "{shown}");
        for node in shown["nodes"].as_array().unwrap() {
            assert!(node["plan"]["moved_bytes"].is_u64(), "{model:?}: {node}");
            nodes += 1;
        }
    }
    assert_eq!(nodes, 23);
}

#[test]
fn names_go_through_loops_casts_and_concat() {
    // Sizes that are cast to int32 start the loops and end them.
    let shown = json(models().join("exported/keras_bilstm_masked"), &[]);
    assert!(shown["inference_error"].is_null(), "{shown}");
    let inputs: Vec<Json> = (0..4)
        .map(|node| {
            let input = &shown["nodes"][node]["values"]["input"];
            serde_json::json!([input["type"], input["shape"]])
        })
        .collect();
    assert_eq!(
        serde_json::json!(inputs),
        serde_json::json!([
            ["float", ["unk__1769", "unk__1768", 8]],
            ["bool", ["unk__1769", "unk__1768", 1]],
            ["float", ["unk__1769", "unk__1768", 6]],
            ["float", ["unk__1769", "unk__1768", 12]],
        ])
    );
}

/// Exporters give each input symbols of its own.
#[test]
fn two_names_may_be_one_size() {
    let folder = Folder::new();
    let path = folder.text(
        "a:f32[N,T,3] b:f32[M,U,3] lens:i64[4] -> y:f32[N,T,6]
         x = Concat<axis=2>(a, b)
         y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)",
    );
    let shown = json(path, &[]);
    assert!(shown["inference_error"].is_null(), "{shown}");
    let input = &shown["nodes"][0]["values"]["input"];
    // If the sizes differ, the run fails.
    assert_eq!(input["shape"], serde_json::json!(["N", "T", 6]), "{shown}");
}

#[test]
fn the_inference_error_is_shown_and_independent_shapes_are_known() {
    let folder = Folder::new();
    // `y` depends on the node that stops it, `z` does not.
    let shown = |mut stopping: NodeProto| {
        let mut graph = reverse_graph();
        graph.input[0] = value("a", FLOAT, &["4", "5", "3"]);
        stopping.name = "stopping".to_owned();
        let mut behind = graph.node.remove(0);
        behind.input[0] = "x".to_owned();
        let mut beside = behind.clone();
        beside.name = "beside".to_owned();
        beside.input[0] = "r".to_owned();
        beside.output[0] = "z".to_owned();
        graph.node = vec![stopping, behind, node("Softsign", &["a"], &["r"]), beside];
        graph.output[0] = value("y", FLOAT, &["4", "5", "6"]);
        graph.output.push(value("z", FLOAT, &["4", "5", "3"]));
        json(folder.model(graph), &[])
    };
    let error = |shown: &Json| shown["inference_error"].as_str().unwrap().to_owned();
    let mut foreign = node("Add", &["a", "a"], &["x"]);
    foreign.domain = "acme".to_owned();
    let lacking = shown(foreign);
    assert_eq!(
        error(&lacking),
        "tract has no acme::Add (node \"stopping\"); ONNX Runtime 1.32 has no acme::Add, either"
    );
    let failing = shown(node("MatMul", &["a", "a"], &["x"]));
    assert!(error(&failing).contains("\"stopping\""), "{failing}");
    for shown in [lacking, failing] {
        assert_eq!(shown["nodes"][1]["plan"]["row_bytes"], 12, "{shown}");
    }
}

#[test]
fn data_in_other_files_is_not_needed() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.input[0] = value("a", FLOAT, &["4", "5", "3"]);
    graph.node.insert(0, node("MatMul", &["a", "w"], &["x"]));
    graph.initializer = vec![outside("w", FLOAT, &[3, 6], "absent.bin")];
    graph.output[0] = value("y", FLOAT, &["4", "5", "6"]);
    let shown = json(folder.model(graph), &[]);
    assert!(shown["inference_error"].is_null(), "{shown}");
    assert_eq!(shown["nodes"][0]["plan"]["row_bytes"], 24);
    assert_eq!(shown["inputs"].as_array().unwrap().len(), 2);
}

#[test]
fn an_invalid_node_is_shown_with_its_error() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node[0].attribute = vec![int("time_axis", 9)];
    let path = folder.model(graph);
    let text = succeeds(&["inspect", &path]);
    has(&text, "  axes           batch_axis left out, time_axis 9\n");
    has(
        &text,
        "  error          ReverseSequence node \"y_node\": attribute time_axis is 9",
    );
}

#[test]
fn every_model_is_shown_in_every_format() {
    let mut seen = 0;
    // Loops alone.
    let mut without = BTreeSet::new();
    for model in all_models() {
        seen += 1;
        let json = json(&model, &[]);
        let is_ours = !json["nodes"].as_array().unwrap().is_empty();
        if !is_ours
            && !model
                .components()
                .any(|part| part.as_os_str() == "recurrent")
        {
            without.insert(model.file_name().unwrap().to_str().unwrap().to_owned());
        }
        for node in json["nodes"].as_array().unwrap() {
            assert!(node.get("error").is_none(), "{model:?}: {node}");
        }
        let text = succeeds(&["inspect", model.to_str().unwrap()]);
        assert!(!text.contains("  error "), "{text}");
    }
    assert_eq!(seen, 150);
    let without: Vec<&str> = without.iter().map(String::as_str).collect();
    assert_eq!(
        without,
        [
            "keras_lstm_gru_simplernn",
            "keras_lstm_stacked_masked",
            "scan_version_8",
            "test_loop11",
            "test_range_float16_type_positive_delta_expanded",
            "test_range_float_type_positive_delta_expanded",
            "test_range_int32_type_negative_delta_expanded",
            "tf_beam_search",
        ]
    );
}

/// A function `own::Turn` whose `time` has a default.
fn function(name: &str, called: &str) -> FunctionProto {
    let mut reverse = node(called, &["a", "b"], &["c"]);
    reverse.attribute = ["batch", "time"]
        .map(|attribute| AttributeProto {
            name: format!("{attribute}_axis"),
            ref_attr_name: attribute.to_owned(),
            r#type: AttributeType::Int as i32,
            ..AttributeProto::default()
        })
        .to_vec();
    if called != "ReverseSequence" {
        reverse.domain = "own".to_owned();
        reverse.attribute.clear();
    }
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("own".to_owned()),
        input: vec!["a".to_owned(), "b".to_owned()],
        output: vec!["c".to_owned()],
        node: vec![reverse],
        ..FunctionProto::default()
    }
}

#[test]
fn functions_are_shown_where_they_are_called() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node[0].op_type = "Turn".to_owned();
    graph.node[0].domain = "own".to_owned();
    graph.node[0].attribute = vec![int("batch", 0), int("time", 1)];
    let mut whole = model(graph.clone());
    whole.functions = vec![
        function("Turn", "ReverseSequence"),
        function("Unused", "ReverseSequence"),
    ];
    let path = folder.write("model.onnx", &whole.encode_to_vec());
    let shown = json(&path, &[]);
    assert_eq!(shown["nodes"][0]["path"], "graph/y_node/Turn/c_node");
    assert_eq!(shown["nodes"][0]["plan"]["kernel"], "small");
    assert_eq!(shown["nodes"][1]["path"], "function own::Unused/c_node");
    assert_eq!(shown["other_operators"]["own::Turn (function)"], 1);

    // Defaults of attributes, which tract's own messages leave out: field 11.
    let mut with_default = function("Turn", "ReverseSequence").encode_to_vec();
    let default = int("time", -1).encode_to_vec();
    with_default.extend([11 << 3 | 2, default.len() as u8]);
    with_default.extend(default);
    graph.node[0].attribute = vec![int("batch", 0)];
    let mut bytes = model(graph.clone()).encode_to_vec();
    bytes.extend([0xca, 0x01, with_default.len() as u8]);
    bytes.extend(with_default);
    let path = folder.write("model.onnx", &bytes);
    assert_eq!(
        json(&path, &[])["nodes"][0]["written_axes"]["time_axis"],
        -1
    );

    // Functions that call each other in a circle, and that multiply.
    let mut circle = model(graph.clone());
    circle.functions = vec![function("Turn", "Other"), function("Other", "Turn")];
    let path = folder.write("model.onnx", &circle.encode_to_vec());
    refuses(&["inspect", &path], "calls itself");
    let mut bomb = model(graph);
    bomb.functions = (0..30)
        .map(|level| {
            let mut next = function(&format!("F{level}"), &format!("F{}", level + 1));
            let mut again = next.node[0].clone();
            again.output = vec!["d".to_owned()];
            next.node.push(again);
            next
        })
        .collect();
    bomb.functions[0].name = Some("Turn".to_owned());
    let path = folder.write("model.onnx", &bomb.encode_to_vec());
    refuses(&["inspect", &path], "expand to more than 1000000 nodes");
}

#[test]
fn subgraphs_see_the_values_around_them() {
    let folder = Folder::new();
    let mut graph = graph(
        "c:bool[] x:f32[4,5,3] lens:i64[4] -> z:f32[4,5,3]
         z = If<then_branch=@then>(c)
         @then: -> y:f32[4,5,3]
         y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)",
    );
    graph.node[0].name.clear();
    let shown = json(folder.model(graph), &[]);
    assert_eq!(shown["nodes"][0]["path"], "graph/If#0/then_branch/y_node");
    assert_eq!(shown["nodes"][0]["plan"]["row_bytes"], 12);
}

/// Bash completes the first backend and those after a comma.
fn completes_backends() {
    let folder = Folder::new();
    let script = succeeds(&["completions", "bash"]);
    let script = folder.write("revseq.bash", script.as_bytes());
    for (typed, expected) in [
        ("tr", "tract"),
        ("tract,", "tract,tract tract,ort tract,ort-plain"),
        ("tract,ort,ort-", "tract,ort,ort-plain"),
    ] {
        let complete = format!(
            "source {script:?}; COMP_WORDS=(revseq compare -b {typed}); COMP_CWORD=3; \
             _revseq revseq {typed} -b; echo ${{COMPREPLY[*]}}"
        );
        let bash = std::process::Command::new("bash");
        let Ok(output) = { bash }.args(["-c", &complete]).output() else {
            return;
        };
        let got = String::from_utf8_lossy(&output.stdout);
        assert_eq!(got.trim(), expected, "{output:?}");
    }
}

#[test]
fn completions_and_help() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeeds(&["completions", shell]);
        assert!(script.contains("inspect"), "{shell}");
    }
    let version = succeeds(&["run", "--version"]);
    assert!(version.starts_with("revseq "), "{version}");
    completes_backends();
    // What is spelled alike may mean the contrary.
    let assumed = ["rewrite", "x.onnx", "-o", "y.onnx", "--assume"];
    let wrong = revseq(&[&assumed[..], &["left-padded"]].concat());
    assert!(!wrong.stderr.contains("similar value"), "{wrong:?}");
    let help = revseq(&["run", "--help"]);
    has(&help.stdout, "Examples:");
    // No terminal, no colours.
    assert!(!help.stdout.contains('\x1b'), "{help:?}");
}

#[test]
fn a_model_s_parameters_and_its_writer_are_shown() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node.push(node("Add", &["y", "c"], &["z"]));
    graph.output[0].name = "z".to_owned();
    graph.initializer = vec![crate::common::tensor("c", FLOAT, &[5, 3], &[0; 60])];
    let four = crate::common::tensor("", FLOAT, &[4], &[0; 16]);
    let mut constant = node("Constant", &[], &["four"]);
    constant.attribute.push(AttributeProto {
        name: "value".to_owned(),
        r#type: 4,
        t: Some(four),
        ..AttributeProto::default()
    });
    graph.node.push(constant);
    let mut proto = crate::common::model(graph);
    proto.producer_name = "writer".to_owned();
    proto.producer_version = "1.2".to_owned();
    proto.metadata_props = vec![tract_onnx::pb::StringStringEntryProto {
        key: "license".to_owned(),
        value: "x".repeat(100),
    }];
    let path: &str = &folder.write("model.onnx", &proto.encode_to_vec());
    let text = succeeds(&["inspect", path]);
    for line in [
        "producer: writer 1.2".to_owned(),
        format!("metadata license: {}…", "x".repeat(80)),
        "parameters: 19 in 2 constants, 76 bytes".to_owned(),
        "runs on tract".to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let json: Json =
        serde_json::from_str(&succeeds(&["inspect", path, "--format", "json"])).unwrap();
    assert_eq!(json["metadata"]["license"], "x".repeat(100));
    assert_eq!(
        (&json["parameters"], &json["parameter_bytes"]),
        (&19.into(), &76.into())
    );
    let tract = serde_json::json!([{ "backend": "tract", "runs": true, "loops": [] }]);
    assert_eq!(json["backends"], tract);
}

#[test]
fn backends_that_refuse_a_model_say_why() {
    let Some(library) = crate::ort::onnxruntime("backends_that_refuse_a_model_say_why") else {
        return;
    };
    let all = ["-b", "tract,ort,ort-plain", "--ort-lib", &library];
    let path = models()
        .join("subsequences/rank3_axis1")
        .display()
        .to_string();
    let text = succeeds(&[&["inspect", &path], &all[..]].concat());
    has(&text, "\nruns on tract\nruns on ONNX Runtime ");
    has(
        &text,
        " with RevSeqExecutionProvider\ndoes not run on ONNX Runtime ",
    );
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node.push(node("Nonsense", &["y"], &["z"]));
    graph.output[0].name = "z".to_owned();
    let path = folder.model(graph);
    let json = succeeds(&[&["inspect", &path, "--format", "json"], &all[..]].concat());
    let json: Json = serde_json::from_str(&json).unwrap();
    for (backend, name) in std::iter::zip(
        json["backends"].as_array().unwrap(),
        ["tract", "ort", "ort-plain"],
    ) {
        assert_eq!(
            (&backend["backend"], &backend["runs"]),
            (&name.into(), &false.into())
        );
        assert!(
            backend["reason"].as_str().unwrap().contains("Nonsense"),
            "{backend}"
        );
    }
}

#[test]
fn axes_are_shown_as_written_where_that_differs() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node[0].attribute = vec![int("batch_axis", -3)];
    graph.node[0].attribute.push(int("time_axis", 1));
    let text = succeeds(&["inspect", &folder.model(graph)]);
    let axes = "batch_axis 0, time_axis 1 (written: batch_axis -3, time_axis 1)";
    has(&text, &format!("  axes           {axes}\n"));
}

#[test]
fn loops_are_shown_with_how_they_run() {
    let path = |name: &str| format!("{}/{name}/model.onnx", models().display());
    let loops = |name: &str, more: &[&str]| {
        let shown = json(path(name), more);
        shown["backends"][0]["loops"].clone()
    };
    let ended = loops("exported/tf_while_reverse_sequence", &[]);
    assert_eq!(ended[0]["how"], "step by step");
    assert_eq!(
        ended[0]["why"],
        "its ReverseSequence node \"ReverseSequence__1265\" is none that programs have"
    );
    // For any sizes and for those that are given.
    let name = "exported/keras_bilstm_masked";
    let how = |loops: &Json| -> BTreeSet<String> {
        let loops = loops.as_array().unwrap().iter();
        loops
            .map(|it| it["how"].as_str().unwrap().to_owned())
            .collect()
    };
    let sizes = ["--dim", "unk__1768=2", "--dim", "unk__1769=5"];
    for sizes in [&[][..], &sizes] {
        let found = how(&loops(name, sizes));
        assert_eq!(found, BTreeSet::from(["layer".to_owned()]));
    }
    prints(
        &["inspect", &path(name)],
        "\nloops and recurrent layers on tract, for any unk__1768, unk__1769\n",
    );
}

#[test]
fn a_model_runs_on_tract_if_its_data_is_there() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.initializer.push(outside("c", FLOAT, &[2], "absent"));
    let path = folder.model(graph);
    prints(&["inspect", &path], "\ndoes not run on tract: cannot read");
}

#[test]
fn an_input_that_is_an_output_keeps_its_sizes() {
    let folder = Folder::new();
    let path = folder.text("x:f32[N,3] z:f32[3] -> x:f32[N,3] y:f32[N,3] z:f32[3]\n y = Neg(x)");
    prints(&["inspect", &path], "\nruns on tract\n");
}
