//! Tests of matches and near misses of each pass.

mod forms;
mod halves;
mod kinds;
mod lists;
mod many;
mod regions;
mod states;
mod tables;
mod tract;

use std::path::{Path, PathBuf};

use buffa::MessageField;

use crate::model::{
    self, FLOAT, GraphProto, INT64, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    int64_tensor, value,
};
use revseq_test_models::text::{nodes, rows};

use crate::constant::Floats;
use crate::{Exactness, Options, Outcome, Report, decode, encode, rewrite_messages};

fn models() -> Vec<PathBuf> {
    let found = models_below("models");
    assert!(found.len() > 100, "{found:?}");
    found
}

/// The models in a folder of the project.
fn models_below(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(folder);
    let files = walkdir::WalkDir::new(root).sort_by_file_name().into_iter();
    let paths = files.map(|entry| entry.expect("models are there").into_path());
    paths.filter(|path| path.ends_with("model.onnx")).collect()
}

fn read(path: &Path) -> (Vec<u8>, ModelProto) {
    let bytes = std::fs::read(path).expect("a model");
    let model = decode(&bytes).expect("a model");
    (bytes, model)
}

fn exported(name: &str) -> ModelProto {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    read(&models.join(format!("exported/{name}/model.onnx"))).1
}

/// Options by words, such as `fast` and `for:tract`.
fn options(words: &str) -> Options {
    let mut options = Options::default();
    for word in words.split(' ') {
        match word.split_once(':') {
            Some(("for", runtime)) => options.runtime = Some(runtime.to_owned()),
            Some(("pass", pass)) => options.passes.push(pass.to_owned()),
            None if word == "fast" => options.fast = true,
            None if word == "portable" => options.portable = true,
            None if word == "masked" => options.masked_layers = true,
            None if word == "right-padded" => options.assume.right_padded = true,
            _ => panic!("no option {word}"),
        }
    }
    options
}

fn portable() -> Options {
    options("portable")
}

fn fast() -> Options {
    options("fast")
}

fn right_padded() -> Options {
    options("fast right-padded")
}

fn pass(name: &str) -> Options {
    options(&format!("pass:{name}"))
}

fn of_runtime(name: &str) -> Options {
    options(&format!("for:{name}"))
}

fn named(name: &str, tensor: TensorProto) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        ..tensor
    }
}

/// A tensor in which all elements are a number.
fn filled(sizes: &[usize], element: f32) -> TensorProto {
    let floats = Floats {
        sizes: sizes.to_vec(),
        elements: vec![element; sizes.iter().product()],
    };
    floats.to_tensor()
}

/// Rewrites a model; the result has to be valid, the same both times, and stay when it is
/// rewritten.
fn rewritten(model: &ModelProto, options: &Options) -> (ModelProto, Report) {
    let mut once = model.clone();
    let report = rewrite_messages(&mut once, options).expect("known passes");
    let mut again = model.clone();
    let same = rewrite_messages(&mut again, options).expect("known passes");
    assert_eq!((&once, &report), (&again, &same));
    let bytes = encode(&once).expect("it fits");
    assert_eq!(decode(&bytes).expect("a model"), once);
    let mut twice = once.clone();
    let second = rewrite_messages(&mut twice, options).expect("known passes");
    let is_same = encode(&twice).expect("it fits") == bytes;
    assert!(is_same, "{:#?}", second.rewritten().collect::<Vec<_>>());
    let (before, after) = (
        model.graph.as_option().unwrap(),
        once.graph.as_option().unwrap(),
    );
    assert_eq!(
        (&before.input, &before.output),
        (&after.input, &after.output)
    );
    check_order(&after.node, &mut defined(after));
    check_forms(&after.node, model::opset(&once.opset_import));
    check_types(after);
    (once, report)
}

fn defined(graph: &GraphProto) -> Vec<String> {
    let inputs = graph.input.iter().filter_map(|value| value.name.clone());
    let tensors = graph
        .initializer
        .iter()
        .filter_map(|tensor| tensor.name.clone());
    inputs.chain(tensors).collect()
}

/// Checks that every value is defined once, before it is read.
fn check_order(nodes: &[NodeProto], known: &mut Vec<String>) {
    for node in nodes {
        for input in node.inputs() {
            assert!(
                known.iter().any(|name| name == input),
                "{input} is read before it is there"
            );
        }
        for graph in node.graphs() {
            let mut inner = known.clone();
            inner.extend(defined(graph));
            check_order(&graph.node, &mut inner);
        }
        for output in node.outputs() {
            assert!(
                known.iter().all(|name| name != output),
                "{output} is given twice"
            );
            known.push(output.to_owned());
        }
    }
}

/// Checks that attributes are used in opsets before they became inputs.
fn check_forms(nodes: &[NodeProto], opset: i64) {
    for node in nodes {
        for (op, attribute, since) in [
            ("Slice", "ends", 10),
            ("Squeeze", "axes", 13),
            ("Unsqueeze", "axes", 13),
            ("ReduceSum", "axes", 13),
        ] {
            let wrong = if opset < since {
                node.input.len() > 1
            } else {
                node.attribute(attribute).is_some()
            };
            assert!(!(node.is(op) && wrong), "version {opset}: {node:?}");
        }
        for graph in node.graphs() {
            check_forms(&graph.node, opset);
        }
    }
}

/// Checks that conditions are truth values where their type is known.
fn check_types(graph: &GraphProto) {
    let scope = crate::scope::Scope::graph(graph, None, 18);
    for node in graph.node.iter().filter(|node| node.is("Where")) {
        let condition = node.input(0).expect("a condition");
        let code = crate::types::of(&scope, condition);
        assert!(code.is_none_or(|code| code == model::BOOL), "{node:?}");
    }
}

/// The number of nodes with an operator, including subgraphs.
fn count(model: &ModelProto, op: &str) -> usize {
    model.all_nodes().filter(|node| node.op() == op).count()
}

/// The reasons why nodes with an operator were left alone.
fn left<'a>(report: &'a Report, op: &str) -> Vec<&'a str> {
    let steps = report.steps.iter().filter(|step| step.operator == op);
    steps
        .filter_map(|step| match &step.outcome {
            Outcome::LeftAlone(why) => Some(why.as_str()),
            Outcome::Rewritten(_) => None,
        })
        .collect()
}

#[test]
fn models_that_no_pass_touches_are_the_same_files() {
    for path in models() {
        let (bytes, model) = read(&path);
        assert!(encode(&model).unwrap() == bytes, "{}", path.display());
        let (same, report) = rewritten(&model, &Options::default());
        assert!(encode(&same).unwrap() == bytes && report.steps.is_empty());
    }
}

#[test]
fn fields_that_are_not_known_are_kept() {
    let (mut bytes, _) = read(&models()[0]);
    // Field 1000, "kept".
    bytes.extend([0xc2, 0x3e, 4, b'k', b'e', b'p', b't']);
    let mut model = decode(&bytes).unwrap();
    assert_eq!(encode(&model).unwrap(), bytes);
    rewrite_messages(&mut model, &portable()).unwrap();
    assert!(encode(&model).unwrap().ends_with(b"kept"));
}

#[test]
fn an_unknown_pass_is_refused() {
    let error = rewrite_messages(&mut exported("tf_beam_search"), &pass("fold")).unwrap_err();
    assert!(
        error.to_string().contains("there is no pass \"fold\""),
        "{error}"
    );
}

#[test]
fn portable_leaves_neither_operator() {
    let mut taken = 0;
    for path in models() {
        let (_, model) = read(&path);
        let (portable, report) = rewritten(&model, &portable());
        for op in ["ReverseSequence", "ReverseSubsequences"] {
            assert_eq!(count(&portable, op), 0, "{}: {report:?}", path.display());
        }
        assert!(
            portable
                .opset_import
                .iter()
                .all(|import| import.domain.as_deref() != Some("revseq"))
        );
        assert_eq!(report.exactness(), Exactness::Exact);
        taken += report.rewritten().count();
    }
    assert!(taken > 100, "{taken}");
}

/// Counts the Loop, ReverseSequence and recurrent operators left in exported models.
#[test]
fn loops_of_keras_become_recurrent_operators() {
    // The options, and then Loop, ReverseSequence, LSTM, GRU and RNN.
    let table = "keras_gru_bidirectional fast => 0 0 0 1 0
        keras_lstm_gru_simplernn fast => 0 0 1 1 1
        keras_bilstm_masked fast right-padded => 0 0 2 0 0
        keras_bilstm_masked fast => 0 0 2 0 0
        keras_gru_masked_backwards fast => 0 0 0 1 0
        keras_lstm_backwards_states fast => 0 0 1 0 0
        keras_lstm_stacked_masked fast => 0 0 2 0 0
        keras_simplernn_bidirectional_masked fast => 0 0 0 0 1
        keras_gru_masked_backwards fast right-padded => 0 0 0 1 0
        keras_lstm_backwards_states fast right-padded => 0 0 1 0 0
        keras_lstm_stacked_masked fast right-padded => 0 0 2 0 0
        keras_simplernn_bidirectional_masked fast right-padded => 0 0 0 0 1
        tf_speech_bigru_timemajor fast => 0 4 0 4 0";
    for (row, expected) in rows(table) {
        let (name, words) = row.split_once(' ').expect("a model and options");
        let (model, report) = rewritten(&exported(name), &options(words));
        let ops = ["Loop", "ReverseSequence", "LSTM", "GRU", "RNN"];
        let counts = ops.map(|op| count(&model, op).to_string()).join(" ");
        assert_eq!(counts, expected, "{row}: {report:#?}");
    }
}

/// Applies a change to every node, including subgraphs.
fn each_node(graph: &mut GraphProto, change: &mut impl FnMut(&mut NodeProto)) {
    for node in &mut graph.node {
        change(node);
        for inner in node.graphs_mut() {
            each_node(inner, change);
        }
    }
}

/// The weights of a layer are known.
#[test]
fn a_loop_with_weights_in_other_files_is_left_alone() {
    let mut model = exported("keras_gru_bidirectional");
    let (_, before) = rewritten(&model, &fast());
    assert_eq!(left(&before, "Loop"), Vec::<&str>::new());
    for tensor in &mut model.graph.as_option_mut().unwrap().initializer {
        if tensor.dims.len() == 2 {
            tensor.raw_data = None;
            tensor.data_location = Some(model::tensor_proto::DataLocation::EXTERNAL);
        }
    }
    let (model, report) = rewritten(&model, &fast());
    assert!(count(&model, "Loop") > 0);
    let left = left(&report, "Loop");
    let why = "its body is not the cell";
    assert!(left.iter().any(|left| left.contains(why)), "{left:?}");
}

/// A model with inputs `x`, float of rank 3, and `lens`, and output `y`.
fn graph(nodes: Vec<NodeProto>, sizes: [Option<i64>; 3]) -> ModelProto {
    let mut graph = GraphProto {
        name: Some("graph".to_owned()),
        node: nodes,
        input: vec![value("x", FLOAT, &sizes), value("lens", INT64, &[None])],
        output: vec![value("y", FLOAT, &[None; 3])],
        ..Default::default()
    };
    for (name, values) in [("zero", &[0][..]), ("one", &[1]), ("fours", &[4, 4])] {
        let tensor = int64_tensor(&[values.len() as i64], values);
        graph.initializer.push(named(name, tensor));
    }
    let import = OperatorSetIdProto {
        domain: Some(String::new()),
        version: Some(17),
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![import],
        graph: MessageField::some(graph),
        ..Default::default()
    }
}

/// Two masked bidirectional Keras LSTMs after an embedding, with and without the assumption.
#[test]
fn a_whole_encoder_becomes_two_layers() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/keras");
    let (_, exported) = read(&tests.join("embedding_bilstm_masked/model.onnx"));
    // Forms of loop ends by exporters: a count and a condition, a condition of two counters, or one
    // of the step alone.
    let mut without_count = exported.clone();
    let mut of_step = exported.clone();
    for model in [&mut without_count, &mut of_step] {
        for node in &mut model.graph.as_option_mut().unwrap().node {
            if node.is("Loop") {
                node.input[0].clear();
            }
        }
    }
    each_node(of_step.graph.as_option_mut().unwrap(), &mut |node| {
        if node.is("And") {
            node.op_type = Some("Identity".to_owned());
            node.input.remove(0);
        }
    });
    let counts =
        |model: &ModelProto| ["Loop", "ReverseSequence", "LSTM"].map(|op| count(model, op));
    for model in [exported, without_count, of_step] {
        assert_eq!(counts(&model), [4, 5, 0]);
        let (whole, report) = rewritten(&model, &right_padded());
        assert_eq!(counts(&whole), [0, 0, 2], "{report:#?}");
        let layers = &whole.graph.as_option().unwrap().node;
        let mut layers = layers.iter().filter(|node| node.is("LSTM"));
        assert!(layers.all(|layer| layer.text("direction").value() == Some("bidirectional")));
        let (proved, report) = rewritten(&model, &fast());
        assert_eq!(counts(&proved), [0, 0, 2], "{report:#?}");
        assert_eq!(report.exactness(), Exactness::Rounding);
    }
}

/// Initializers have to be inputs as well before IR version 4, and nothing can replace them; since
/// then, one that is an input is a default.
#[test]
fn initializers_among_the_inputs_are_constants_before_ir_version_4() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/keras");
    let (_, mut model) = read(&tests.join("embedding_bilstm_masked/model.onnx"));
    let graph = model.graph.as_option_mut().unwrap();
    let constants = graph.initializer.iter().filter_map(|it| it.name.clone());
    let constants: Vec<String> = constants.collect();
    graph
        .input
        .extend(constants.iter().map(|name| model::untyped(name)));
    for (version, constant_initializers, expected) in
        [(3, false, [0, 2]), (4, false, [4, 0]), (4, true, [0, 2])]
    {
        model.ir_version = Some(version);
        let mut after = model.clone();
        let mut options = fast();
        options.assume.constant_initializers = constant_initializers;
        let report = rewrite_messages(&mut after, &options).unwrap();
        let counts = ["Loop", "LSTM"].map(|op| count(&after, op));
        assert_eq!(counts, expected, "{report:#?}");
        let graph = after.graph.as_option().unwrap();
        let inputs: Vec<&str> = graph.inputs().collect();
        for name in &constants {
            let mut stored = graph.initializer.iter();
            let is_stored = stored.any(|it| it.name.as_ref() == Some(name));
            assert_eq!(inputs.contains(&name.as_str()), is_stored, "{name}");
            assert_eq!(report.removed_inputs.contains(name), !is_stored, "{name}");
        }
        let is_weight = |name: &String| constants.contains(name);
        assert!(report.removed_inputs.iter().all(is_weight));
        assert_eq!(report.removed_inputs.is_empty(), expected == [4, 0]);
    }
}

/// Sizes through more nodes than are followed, and through nested forks.
#[test]
fn long_chains_and_many_forks_come_to_an_end() {
    let model = |count: usize, node: &str, first: &str, last: &str| {
        let mut text = "shape = Shape(x)
            time = Gather(shape, one)
            batch = Gather(shape, zero)
            full = Expand(time, batch)"
            .to_owned();
        let mut value = first.to_owned();
        for number in 0..count {
            text += &format!("\nv{number} = {}", node.replace('@', &value));
            value = format!("v{number}");
        }
        let last = last.replace('@', &value);
        text += &format!("\ny = ReverseSequence<batch_axis=0;time_axis=1>({last})");
        graph(nodes(&text), [None; 3])
    };
    let chain = model(20_000, "Neg(@)", "x", "@, full");
    let (_, report) = rewritten(&chain, &pass("full-flip"));
    let why = left(&report, "ReverseSequence")[0];
    assert!(why.contains("not provably the size"), "{report:?}");
    for (node, first, last) in [
        ("Add(@, @)", "x", "@, full"),
        ("Concat<axis=0>(@, @)", "time", "x, @"),
    ] {
        rewritten(&model(100, node, first, last), &fast());
    }
}

fn cut<T>(list: &mut Vec<T>, random: &mut impl FnMut(usize) -> usize) {
    let count = random(list.len() + 1);
    list.truncate(count);
}

/// Models with changed bytes, or with nodes that lack inputs, outputs or attributes, are refused or
/// rewritten without panics.
#[test]
fn broken_models_do_not_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let all = Options {
        portable: true,
        passes: vec!["sequence-lens".to_owned()],
        ..right_padded()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    let names = [
        "exported/keras_simplernn_bidirectional_masked",
        "exported/keras_lstm_gru_simplernn",
        "graphs/bilstm_flip",
        "graphs/local_function_attributes",
        "subsequences/rank3_axis1",
    ];
    for name in names {
        let (bytes, model) = read(&root.join(name).join("model.onnx"));
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            for _ in 0..=random(4) {
                let place = random(bytes.len());
                bytes[place] = random(256) as u8;
            }
            if let Ok(mut model) = decode(&bytes) {
                rewrite_messages(&mut model, &all).expect("known passes");
            }
            let mut model = model.clone();
            let rare = 40;
            each_node(
                model.graph.as_option_mut().unwrap(),
                &mut |node| match random(rare * 6) {
                    0 => cut(&mut node.input, &mut random),
                    1 => cut(&mut node.output, &mut random),
                    2 => cut(&mut node.attribute, &mut random),
                    3 => node.input.push("x".to_owned()),
                    4 => node.output.push(format!("more{}", random(1000))),
                    5 if !node.input.is_empty() => node.input.rotate_left(1),
                    _ => {}
                },
            );
            rewrite_messages(&mut model, &all).expect("known passes");
        }
    }
}
