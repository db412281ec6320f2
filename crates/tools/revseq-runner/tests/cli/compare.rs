//! `revseq compare`.

use prost::Message;

use crate::common::{
    Folder, graph, has, model, models, prints, refuses, reverse_graph, revseq, succeeds,
};
use crate::ort::onnxruntime;

/// A model of one operator from `x` to `y`, both float `[3]`.
fn of(operator: &str) -> Vec<u8> {
    let graph = graph(&format!("x:f32[3] -> y:f32[3]\n y = {operator}(x)"));
    model(graph).encode_to_vec()
}

#[test]
fn two_models_are_compared_output_by_output() {
    let folder = Folder::new();
    folder.write("neg.onnx", &of("Neg"));
    folder.write("abs.onnx", &of("Abs"));
    let path = |name| folder.path(name);
    let (neg, abs) = (path("neg.onnx"), path("abs.onnx"));
    let same = succeeds(&["compare", &neg, &neg, "--fill", "iota"]);
    assert_eq!(
        same,
        format!("expected: {neg} on tract\n{neg} on tract\n  y: equal bit for bit\n")
    );
    let run = revseq(&["compare", &neg, &abs, "--fill", "iota"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stdout.ends_with(
            "  y: DIFFERENT\n    [0]: expected -0.0, got 0.0; 3 of 3 differ, max error 4.000e0\n"
        ),
        "{run:?}"
    );
    // A difference within the tolerance is shown, too.
    prints(
        &["compare", &neg, &abs, "--fill", "iota", "--rtol", "2"],
        "  y: within the tolerance\n    [0]: expected",
    );
    let json = revseq(&["compare", &neg, &abs, "--fill", "iota", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["backend"], "tract");
    assert_eq!(json["compared"][0]["path"], abs);
    let output = &json["compared"][0]["outputs"][0];
    assert_eq!(output["result"], "different");
    assert_eq!(output["difference"]["differing"], 3);
}

#[test]
fn incomparable_models_are_refused() {
    let folder = Folder::new();
    let reverse: &str = &folder.model(reverse_graph());
    folder.write("neg.onnx", &of("Neg"));
    let neg = folder.path("neg.onnx");
    refuses(
        &["compare", reverse, "--backend", "tract"],
        "there is nothing to compare with: give another model, or two backends",
    );
    refuses(&["compare", reverse, &neg], "has the inputs lens, x, and ");
    refuses(
        &["compare", reverse, reverse, "--rtol", "z=1"],
        "there is no output \"z\" to set a tolerance for; the outputs are y",
    );
    refuses(
        &["compare", reverse, reverse, "--optimization", "none"],
        "--optimization is for ONNX Runtime",
    );
}

#[test]
fn backends_agree_on_an_exported_model() {
    let Some(library) = onnxruntime("backends_agree_on_an_exported_model") else {
        return;
    };
    let model = models().join("exported/keras_gru_bidirectional");
    let output = succeeds(&format!(
        "compare {} --backend tract,ort,ort-plain --ort-lib {library} --threads 1",
        model.display()
    ));
    assert_eq!(output.matches("\n  Identity:0: ").count(), 2, "{output}");
    has(&output, "with RevSeqExecutionProvider\n");
}

/// `ort-plain` uses ONNX Runtime's own kernels although the provider is registered: models that it
/// refuses are reported as refused, those that it misreads differ, and the other backends are
/// still compared.
#[test]
fn plain_onnxruntime_is_plain_beside_the_provider() {
    let Some(library) = onnxruntime("plain_onnxruntime_is_plain_beside_the_provider") else {
        return;
    };
    for (model, outputs, plain) in [
        ("exported/tf_axes_2_3", 2, ": REFUSED\n  ONNX Runtime "),
        ("shapes/rank3_batch0_time2", 1, ": REFUSED\n  ONNX Runtime "),
        ("shapes/rank3_batch2_time1", 1, ": REFUSED\n  ONNX Runtime "),
        ("subsequences/rank3_axis1", 1, ": REFUSED\n  ONNX Runtime "),
        ("shapes/rank3_batch0_time1", 1, "\n  y: equal bit for bit"),
    ] {
        let path = models().join(model).display().to_string();
        for on in [
            "tract,ort,ort-plain",
            "ort,ort-plain",
            "ort-plain,tract,ort",
        ] {
            let run = revseq(&["compare", &path, "--backend", on, "--ort-lib", &library]);
            let refuses = plain.contains("REFUSED");
            assert_eq!(run.code, Some(i32::from(refuses)), "{model} {on}: {run:?}");
            assert_eq!(
                run.stdout.matches("REFUSED").count(),
                usize::from(refuses),
                "{run:?}"
            );
            let equal = outputs * (on.split(',').count() - 1 - usize::from(refuses));
            assert_eq!(
                run.stdout.matches("equal bit for bit").count(),
                equal,
                "{run:?}"
            );
            assert!(run.stdout.contains(plain), "{model} {on}: {run:?}");
            assert_eq!(run.stderr, "", "{model} {on}");
        }
        let json = revseq(&format!(
            "compare {path} --backend ort,ort-plain --ort-lib {library} --format json"
        ));
        let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        let refused = json["compared"][0]["refused"].is_string();
        assert_eq!(refused, plain.contains("REFUSED"), "{json}");
    }
}

#[test]
fn a_backend_that_refuses_is_a_row() {
    let folder = Folder::new();
    folder.write("neg.onnx", &of("Neg"));
    folder.write("lacks.onnx", &of("Nonsense"));
    let path = |name| folder.path(name);
    let (neg, lacks) = (path("neg.onnx"), path("lacks.onnx"));
    for (one, other) in [(&neg, &lacks), (&lacks, &neg)] {
        let run = revseq(&["compare", one, other]);
        assert_eq!(run.code, Some(1), "{run:?}");
        let expected = format!(
            "expected: {neg} on tract\n{lacks} on tract: REFUSED\n  tract has no Nonsense (node \"y_node\"); ONNX has no Nonsense, either\n"
        );
        assert_eq!(run.stdout, expected);
    }
    // With nothing to compare with.
    refuses(
        &["compare", &lacks, &lacks],
        &format!(
            "{lacks} on tract: tract has no Nonsense (node \"y_node\"); ONNX has no Nonsense, either; {lacks} on tract: "
        ),
    );
}

/// `y` from `x` by a chain of operators on `[3]`, whose second is chosen.
fn chain_of(second: &str) -> Vec<u8> {
    // Nodes may be in any order.
    let graph = graph(&format!(
        "x:f32[3] -> y:f32[3]\n y = Identity(c)\n c = Abs(b)\n b = {second}(a)\n a = Neg(x)"
    ));
    model(graph).encode_to_vec()
}

#[test]
fn the_first_node_that_differs_is_named() {
    let folder = Folder::new();
    folder.write("neg.onnx", &chain_of("Neg"));
    folder.write("exp.onnx", &chain_of("Exp"));
    let path = |name| folder.path(name);
    let (neg, exp) = (path("neg.onnx"), path("exp.onnx"));
    let arguments = ["compare", &neg, &exp, "--fill", "iota", "--values"];
    let run = revseq(&arguments);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stdout.ends_with(
            "  values between nodes: 4 compared, 1 equal bit for bit, 0 within the tolerance, 3 \
             different\n  first difference: b, of node \"b_node\" (Neg)\n    [0]: expected 0.0, got \
             1.0; 3 of 3 differ, max error 1.865e0\n"
        ),
        "{}",
        run.stdout
    );
    let json = revseq(&[&arguments[..], &["--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let values = &json["compared"][0]["values"];
    assert_eq!(
        (&values["compared"], &values["equal"]),
        (&4.into(), &1.into())
    );
    let names = values["different"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|value| value["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "c", "y"]);
    // The outputs of the two are within this, and so are all values.
    let close = [&arguments[..], &["--atol", "9"]].concat();
    assert!(succeeds(&close).contains(" 3 within the tolerance, 0 different\n"));
    // Values that only one has are listed.
    folder.write("one.onnx", &of("Neg"));
    let one = path("one.onnx");
    let run = revseq(&["compare", &neg, &one, "--values", "--atol", "9"]);
    has(
        &run.stdout,
        "  not compared: the other model has no value of this name\n    a, b, c\n",
    );
}

/// Every model of these is the same on every backend that runs it, node by node.
#[test]
fn values_between_nodes_agree_on_all_backends() {
    let test = "values_between_nodes_agree_on_all_backends";
    let Some(library) = onnxruntime(test) else {
        return;
    };
    let backends = ["--backend", "tract,ort,ort-plain", "--ort-lib", &library];
    for (name, values, nested) in [
        ("exported/keras_gru_bidirectional", 1, true),
        ("exported/keras_bilstm_masked", 1, true),
        ("exported/mxnet_sequence_reverse_encoder", 1, false),
        ("graphs/if_branch", 1, true),
        ("graphs/between_neg", 3, false),
    ] {
        let path = models().join(name).display().to_string();
        let output = succeeds(&[&["compare", &path, "--values"], &backends[..]].concat());
        let rows = output.matches("values between nodes: ").count();
        assert_eq!(rows, 2, "{name}: {output}");
        assert_eq!(
            output.matches(", 0 different\n").count(),
            2,
            "{name}: {output}"
        );
        assert_eq!(
            output.contains(" values within nodes\n"),
            nested,
            "{name}: {output}"
        );
        let first = output.split("values between nodes: ").nth(1).unwrap();
        let count: usize = first.split(' ').next().unwrap().parse().unwrap();
        assert!(count >= values, "{name}: {output}");
    }
}

#[test]
fn values_that_no_backend_returns_are_listed() {
    let path = models().join("forms/list_in_loop").display().to_string();
    let output = succeeds(&["compare", &path, &path, "--values"]);
    // A sequence that has to be an output is more than tract has; the model itself runs.
    has(
        &output,
        "equal bit for bit\n  values between nodes: 0 compared, ",
    );
    has(&output, "  not compared: tract has no ConcatFromSequence");
    has(&output, "\n    none, last, all, joined, y\n");
    let path = models().join("forms/split_list").display().to_string();
    prints(
        &["compare", &path, &path, "--values"],
        "  not compared: it is no tensor: SplitToSequence\n    parts, rows\n",
    );
}

#[test]
fn other_data_sets_than_the_first_are_noted() {
    let folder = Folder::new();
    let path: &str = &folder.model(reverse_graph());
    let folder = folder.path("");
    let folder = &folder.trim_end_matches('/');
    let note =
        "the inputs are those of test_data_set_0, one of 2 data sets: `revseq verify` compares all";
    for notes in [false, true] {
        succeeds(&["snapshot", path, "--add"]);
        let run = revseq(&["compare", folder, path]);
        assert_eq!(
            (run.code, run.stderr.contains(note)),
            (Some(0), notes),
            "{run:?}"
        );
    }
}
