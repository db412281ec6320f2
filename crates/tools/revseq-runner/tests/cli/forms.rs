//! Models in forms that tract does not read by itself, and the messages for those that it does not
//! run.

use prost::Message;

use crate::common::{
    FLOAT, Folder, graph, has, model, node, prints, refuses, reverse_graph, revseq, succeeds,
    tensor,
};
use crate::ort::onnxruntime;

/// Writes a model of some nodes on `x`, a vector of 4, and an int64 vector `n` of 1.
fn write(folder: &Folder, nodes: &str) -> String {
    folder.text(&format!("x:f32[4] n:i64[1] -> y:f32[N]\n{nodes}"))
}

#[test]
fn nodes_run_in_any_order() {
    let folder = Folder::new();
    let path = write(&folder, "y = Add(b, x)\n b = Abs(a)\n a = Neg(x)");
    prints(&["run", &path, "--fill", "iota"], "[0.0, 2.0, 4.0, 6.0]");
    prints(&["inspect", &path], "\nruns on tract\n");
}

#[test]
fn constants_that_tract_needs_may_be_inputs() {
    let folder = Folder::new();
    for (operator, expected) in [
        ("ReduceSum", "[6.0]"),
        ("Unsqueeze", "[[0.0, 1.0, 2.0, 3.0]]"),
    ] {
        let path = write(&folder, &format!("y = {operator}(x, n)"));
        let arguments = ["run", &path, "--fill", "iota", "--repeat", "2"];
        succeeds(&arguments);
        let printed = succeeds(&arguments[..4]);
        assert!(printed.contains(expected), "{operator}: {printed}");
    }
}

#[test]
fn a_size_from_data_is_known_if_nothing_else_reads_the_value() {
    let folder = Folder::new();
    let path = folder.text("x:f32[4] -> y:i64[]\n places = NonZero(x)\n y = Size(places)");
    let run = revseq(&["run", &path, "--fill", "iota"]);
    assert_eq!(run.stdout, "y: int64[]\n  3\n", "{run:?}");
}

#[test]
fn all_missing_operators_are_named_at_once() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    let long = "a_long_name_of_an_exporter/".repeat(10);
    for index in 0..30 {
        let mut foreign = node(&format!("Op{index}"), &["y"], &[&format!("z{index}")]);
        foreign.name = format!("{long}{index}");
        graph.node.push(foreign);
    }
    graph
        .node
        .push(node("SequenceConstruct", &["y"], &["list"]));
    let path: &str = &folder.write("model.onnx", &model(graph).encode_to_vec());
    let why = "tract has no Op0 (node \"…";
    refuses(&["run", path, "--fill", "zeros"], why);
    let run = revseq(&["run", path, "--fill", "zeros"]);
    has(&run.stderr, " more; ONNX has no Op0, either");
    let message = run
        .stderr
        .split_once(": ")
        .map_or("", |(_, message)| message);
    assert!(message.replace(path, "").len() < 400, "{run:?}");
    prints(
        &["inspect", path],
        "\ndoes not run on tract: tract has no Op0",
    );
}

/// The branch that is taken is known before the model runs, as the condition is fed.
#[test]
fn branches_of_other_ranks_run_for_the_condition_that_is_fed() {
    let folder = Folder::new();
    let path = &folder.text(
        "c:bool[] x:f32[4] n:i64[1] -> y:f32[A,B]
         y = If<then_branch=@then;else_branch=@else>(c)
         @then: -> a
         a = Neg(x)
         @else: -> b
         b = Unsqueeze(x, n)",
    );
    prints(&["run", path, "--fill", "zeros"], "y: float[1,4]");
    let shown = succeeds(&["inspect", path]);
    let expected = "\nruns on tract, prepared for the inputs of each run (tried made-up inputs); not for all inputs at \
                    once: ";
    has(&shown, expected);
}

/// Nobody can make up its inputs, and whoever has them can run it.
#[test]
fn a_model_that_leaves_ranks_open_is_not_said_to_be_refused() {
    let folder = Folder::new();
    let path = &folder.text("x:f32 -> y:f32\n y = Neg(x)");
    prints(
        &["inspect", path],
        "\ndoes not run on tract without its inputs, if at all: the rank of an input is not known",
    );
    let data = tensor("x", FLOAT, &[2, 1], &[0; 8]).encode_to_vec();
    let data = folder.write("x.pb", &data);
    prints(&["run", path, "--input", &data], "y: float[2,1]");
}

/// The layer is as ONNX Runtime's `quantize_dynamic` writes one, around weights of 0 and a bias of
/// 1.
#[test]
fn a_dynamically_quantised_layer_runs() {
    let folder = Folder::new();
    let path = &folder.text(
        "x:f32[T,2,3] -> y:f32[1,2,1]
         w:i8[1,3,4] = 0i8
         r:i8[1,1,4] = 0i8
         b:f32[1,8] = 1.0
         _, _, y = microsoft.DynamicQuantizeLSTM<hidden_size=1>(x, w, r, b, _, _, _, _, [0.5], [0]i8, [0.5], [0]i8)",
    );
    prints(&["inspect", path], "\nruns on tract\n");
    // The cell state of one step: a sigmoid of 2 times a hyperbolic tangent of 2.
    prints(&["run", path, "--dim", "T=1", "--fill", "iota"], "[[[0.849");
}

#[test]
fn a_layout_of_onnxruntime_is_refused_with_the_option_that_avoids_it() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    let mut blocked = node("Conv", &["y", "y"], &["z"]);
    blocked.domain = "com.microsoft.nchwc".to_owned();
    graph.node.push(blocked);
    let path = folder.model(graph);
    let why = "save the model with ORT_ENABLE_EXTENDED or less";
    refuses(&["run", &path, "--fill", "zeros"], why);
}

#[test]
fn inputs_of_two_types_are_refused() {
    let folder = Folder::new();
    let path = write(&folder, "size = Size(x)\n y = Less(x, size)");
    let why = "node \"y_node\" (Less) has inputs of float and int64, expected one type";
    refuses(&["run", &path, "--fill", "iota"], why);
}

/// Neither runtime has the operators of early opsets, so that neither is named as a way around the other.
#[test]
fn an_early_opset_is_to_be_converted() {
    let folder = Folder::new();
    let mut early = model(graph(
        "x:f32[2,3] b:f32[3] -> y:f32[3,2]
         r = Reshape<shape=[3,2]>(x)
         y = Add<axis=0;broadcast=1>(r, b)",
    ));
    early.opset_import.truncate(1);
    early.opset_import[0].version = 3;
    let path: &str = &folder.write("early.onnx", &early.encode_to_vec());
    let run = revseq(&["run", path, "--fill", "iota"]);
    let why = "its operators are of opset 3; convert it to opset 7 or later\n";
    assert!(
        run.stderr.ends_with(why) && run.stderr.lines().count() == 1,
        "{run:?}"
    );
    let Some(library) = onnxruntime("an_early_opset_is_to_be_converted") else {
        return;
    };
    let on_ort = ["--backend", "ort-plain", "--ort-lib", &library];
    let run = revseq(&[&["run", path, "--fill", "iota"], &on_ort[..]].concat());
    let why = "refuses opset 3 of ONNX, it takes 7 at least: convert the model\n";
    assert!(
        run.stderr.ends_with(why) && run.stderr.lines().count() == 1,
        "{run:?}"
    );
}
