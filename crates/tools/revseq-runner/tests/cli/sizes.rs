//! Sizes on the command line.

use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::ModelProto;

use crate::common::{
    FLOAT, Folder, graph, has, model, prints, refuses, reverse_graph, revseq, succeeds, tensor,
};

/// `y = -x` for x of `[b,?,t]`.
fn partly_named() -> Vec<u8> {
    let mut graph = graph("x:f32[b,unnamed,t] -> y:f32[b,m,t]\n y = Neg(x)");
    let shape = graph.input[0]
        .r#type
        .as_mut()
        .and_then(|it| it.value.as_mut());
    let Some(tract_onnx::pb::type_proto::Value::TensorType(tensor)) = shape else {
        unreachable!("it is a tensor");
    };
    tensor.shape.as_mut().unwrap().dim[1].value = None;
    model(graph).encode_to_vec()
}

fn inputs_of(path: &str) -> Json {
    let json = succeeds(&["inspect", path, "--format", "json"]);
    serde_json::from_str(&json).unwrap()
}

#[test]
fn sizes_are_given_by_name_or_by_number() {
    let folder = Folder::new();
    let path = folder.write("model.onnx", &partly_named());
    let run = |dims: &[&str]| {
        let dims = dims.iter().flat_map(|dim| ["--dim", dim]);
        let mut arguments = vec!["run", &path, "--fill", "zeros", "--format", "json"];
        arguments.extend(dims);
        let json: Json = serde_json::from_str(&succeeds(&arguments)).unwrap();
        json["outputs"][0]["shape"].clone()
    };
    let expected = Json::from(vec![2, 3, 4]);
    assert_eq!(run(&["b=2", "x.1=3", "t=4"]), expected);
    assert_eq!(run(&["x.0=2", "x.1=3", "x.2=4"]), expected);
    assert_eq!(run(&["b=2,x.1=3", "t=4"]), expected);
    let fill = ["run", &path, "--fill", "iota"];
    let noted = |dims: &[&'static str], sizes: &str| {
        let dims = dims.iter().flat_map(|dim| ["-d", dim]);
        let run = revseq(&fill.iter().copied().chain(dims).collect::<Vec<_>>());
        let note = format!("{path}: made-up sizes {sizes}; --dim sets others\n");
        assert_eq!((run.code, run.stderr), (Some(0), note));
    };
    noted(&[], "b=1, x.1=512, t=512");
    noted(&["x.0=2", "t=4"], "x.1=512");
    let with = |dims: &[&'static str], why: &str| {
        let dims = dims.iter().flat_map(|dim| ["-d", dim]);
        refuses(&fill.iter().copied().chain(dims).collect::<Vec<_>>(), why);
    };
    with(&["b=2", "x.0=2"], "--dim x.0: it is given twice");
    with(&["x.1=2", "x.1=2"], "--dim x.1: it is given twice");
    with(&["b=2,x.0=2"], "--dim x.0: it is given twice");
    with(&["b=2,t"], "expected NAME=SIZE");
    with(&["b=two,t=4"], "\"two\" is not a size");
    with(&["x.3=2"], "which has no dimension 3");
    with(&["z.0=2"], "the model has b, t; INPUT.NUMBER");
    // Sizes of exporters are formulas, too.
    with(&["Max(a, b)=2,z.0=3"], "--dim Max(a, b): ");
    let known = folder.model(reverse_graph());
    refuses(&["run", &known, "-d", "x.1=6"], "--dim x.1=6: it is 5");
    succeeds(&["run", &known, "-d", "x.1=5", "--fill", "iota"]);
}

#[test]
fn rewriting_writes_sizes() {
    let folder = Folder::new();
    let out = folder.path("out.onnx");
    let path = folder.write("model.onnx", &partly_named());
    let arguments = ["rewrite", &path, "-o", &out, "--overwrite", "--check"];
    prints(
        &[
            &arguments[..],
            &["-d", "b=2", "-d", "x.1=3", "--backend", "tract"],
        ]
        .concat(),
        "size of b: 2\nsize of x.1: 3\n",
    );
    let json = inputs_of(&out);
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!([2, 3, "t"]));
    assert_eq!(json["symbols"], serde_json::json!(["t"]));
    // Nothing else changes.
    let (before, after) = (partly_named(), std::fs::read(&out).unwrap());
    let (before, mut after) = (
        ModelProto::decode(&*before).unwrap(),
        ModelProto::decode(&*after).unwrap(),
    );
    let (old, new) = (
        before.graph.as_ref().unwrap(),
        after.graph.as_mut().unwrap(),
    );
    assert_ne!((&old.input, &old.output), (&new.input, &new.output));
    (new.input, new.output) = (old.input.clone(), old.output.clone());
    assert_eq!(before, after);
}

#[test]
fn sizes_are_written_into_branches() {
    let folder = Folder::new();
    let path = folder.text(
        "c:bool[] x:f32[n] -> y:f32[n]
         y = If<then_branch=@then;else_branch=@else>(c)
         @then: -> a:f32[n]
         a = Neg(x)
         @else: -> b:f32[n]
         b = Abs(x)",
    );
    let out = folder.path("out.onnx");
    succeeds(&["rewrite", &path, "-o", &out, "--dim", "n=7"]);
    let written = std::fs::read(&out).unwrap();
    let text = format!("{:?}", ModelProto::decode(&*written).unwrap());
    assert_eq!(text.matches("DimValue(7)").count(), 4, "{text}");
    assert!(!text.contains("DimParam"), "{text}");
}

/// The rank of the If's output depends on a size, so no plan serves all sizes.
#[test]
fn a_model_without_a_plan_for_all_sizes_is_inspected_at_some() {
    let folder = Folder::new();
    let path = &folder.text(
        "x:f32[?,2,time] -> y:f32[batch,2]
         weights:f32[2,2] = 0.0
         shape = Shape(x)
         size = Gather(shape, [-1])
         is_one = Equal(size, [1])
         rows = If<then_branch=@then;else_branch=@else>(is_one)
         y = Gemm(rows, weights)
         @then: -> a
         a = Squeeze(x, [-1])
         @else: -> b
         b = Identity(x)",
    );
    let shown = succeeds(&["inspect", path]);
    let how = shown.lines().find(|line| line.starts_with("runs on "));
    let how = how.unwrap_or_default();
    let expected = "runs on tract, prepared for the sizes of each run (tried x.0=1, time=1); not for all \
                    sizes at once: ";
    assert!(how.starts_with(expected), "{shown}");
    assert!(!how.contains("--backend"), "{shown}");
    let json: Json =
        serde_json::from_str(&succeeds(&["inspect", path, "--format", "json"])).expect("JSON");
    let tract = &json["backends"][0];
    assert_eq!(tract["sizes"], serde_json::json!({"x.0": 1, "time": 1}));
    assert_eq!(tract["runs"], true);
    succeeds(&format!("run {path} --fill zeros --dim x.0=3 --dim time=1"));
    let refused = revseq(&["inspect", path, "--dim", "time=2"]);
    has(&refused.stdout, "does not run on tract");
}

/// Runtimes take one name for sizes that differ, which PyTorch's exporter and others write.
#[test]
fn one_name_for_sizes_that_differ_is_a_note() {
    let folder = Folder::new();
    let path = folder.text("x:f32[n,n] -> y:f32[n,n]\n y = Transpose(x)");
    let bytes: Vec<u8> = (0..6_u8)
        .flat_map(|it| f32::from(it).to_le_bytes())
        .collect();
    let x = tensor("x", FLOAT, &[2, 3], &bytes).encode_to_vec();
    let x = format!("x={}", folder.write("x.pb", &x));
    let run = revseq(&["run", &path, "--input", &x, "--format", "json"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let note = "\"n\" names sizes that differ: it is 2, and 3 in input \"x\"\n";
    assert_eq!(run.stderr, note);
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["outputs"][0]["shape"], Json::from(vec![3, 2]));
    refuses(
        &["run", &path, "--input", &x, "--dim", "n=2"],
        "input \"x\" is float[2,3]: expected float[2,2]",
    );
}

#[test]
fn sizes_that_are_too_large_to_be_made_up_are_told() {
    let folder = Folder::new();
    let path = folder.write("model.onnx", &partly_named());
    refuses(
        &["run", &path, "--fill", "iota", "--dim", "t=9999999999"],
        "its inputs would have 37.3 GiB or more, and at most 256 MiB are made up: give smaller sizes by --dim",
    );
    refuses(
        &["inspect", &path, "--dim", "q=1"],
        "--dim q: there is no symbolic size of that name; the model has b, t, and 1 of values between its nodes; \
         INPUT.NUMBER",
    );
}
