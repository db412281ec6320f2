//! ONNX Runtime loads whatever `revseq rewrite` makes of random models, at each level of its optimizer,
//! with and without conversions to quantised numbers.
//!
//! The optimizer may end the process, so that each model is loaded in one of its own.
//!
//! `REVSEQ_TEST_PYTHON` names a Python that has the package `onnxruntime`.

use std::collections::HashSet;
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use revseq_onnx::model::{GraphProto, ModelProto, NodeProto, TensorProto, node};
use revseq_onnx::scope::Scope;
use revseq_rewrite::{Options, RUNTIMES};
use revseq_test_models::draw;

use crate::common::{FLOAT, Folder};

/// The models that are made by each generator.
const CASES: u32 = 3;

/// Loads each model at each level, in a process of its own, and says what becomes of those whose
/// original is taken.
const SCRIPT: &str = "
import os, pathlib, sys, onnxruntime
onnxruntime.set_default_logger_severity(4)
def load(path, level):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    onnxruntime.InferenceSession(path, options)
def ending(path, level):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            load(path, level)
        except Exception as error:
            os.write(writing, str(error).encode()[:4096])
            os._exit(1)
        os._exit(0)
    os.close(writing)
    told = os.fdopen(reading, 'rb').read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return told or status and f'it ended with {status}'
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.after.onnx')):
    before = path.with_name(path.name.replace('.after.', '.before.'))
    for level in sys.argv[2:]:
        why = ending(path, level)
        if why and not ending(before, level):
            print(f'{path.name} at {level}: {why}')
";

/// The levels of the optimizer.
const LEVELS: [&str; 4] = [
    "ORT_DISABLE_ALL",
    "ORT_ENABLE_BASIC",
    "ORT_ENABLE_EXTENDED",
    "ORT_ENABLE_ALL",
];

/// Models as they were, each with what it was rewritten to.
struct Rewritten {
    folder: Folder,
    options: Vec<Options>,
    count: usize,
}

impl Rewritten {
    fn new() -> Self {
        let fast = Options {
            fast: true,
            ..Options::default()
        };
        let of_runtimes = RUNTIMES.iter().map(|runtime| Options {
            runtime: Some(runtime.name.to_owned()),
            ..fast.clone()
        });
        let portable = Options {
            portable: true,
            ..Options::default()
        };
        Self {
            folder: Folder::new(),
            options: of_runtimes.chain([fast.clone(), portable]).collect(),
            count: 0,
        }
    }

    /// Adds all that a model is rewritten to.
    fn add(&mut self, model: &ModelProto) {
        let encode = |model: &ModelProto| revseq_onnx::encode(model).expect("it fits");
        let before = encode(model);
        let mut all = HashSet::from([before.clone()]);
        for options in &self.options {
            let mut after = model.clone();
            revseq_rewrite::rewrite_messages(&mut after, options).expect("known passes");
            let after = encode(&after);
            if all.insert(after.clone()) {
                let name = |which| format!("{:04}.{which}.onnx", self.count);
                self.folder.write(&name("before"), &before);
                self.folder.write(&name("after"), &after);
                self.count += 1;
            }
        }
    }
}

/// Puts conversions to and from quantised numbers behind some of a graph's floats.
fn quantized(model: &ModelProto, mut choices: impl Iterator<Item = bool>) -> ModelProto {
    let mut model = model.clone();
    let scope = Scope::main(&model, false).expect("a graph");
    let outputs = scope.nodes.iter().flat_map(NodeProto::outputs);
    let names = scope.inputs.iter().copied().chain(outputs);
    let floats = names.filter(|name| revseq_onnx::types::of(&scope, name) == Some(FLOAT));
    let chosen: Vec<String> = floats
        .filter(|_| choices.next() == Some(true))
        .map(str::to_owned)
        .collect();
    let graph = model.graph.as_option_mut().expect("a graph");
    for node in &mut graph.node {
        read_converted(node, &chosen);
    }
    let parameter = |name: &str, code, bytes: &[u8]| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(code),
        raw_data: Some(bytes.to_vec()),
        ..TensorProto::default()
    };
    let scale = parameter("scale_of_all", FLOAT, &0.0625_f32.to_le_bytes());
    graph
        .initializer
        .extend([scale, parameter("zero_of_all", 3, &[0])]);
    let conversion = |name: &str| {
        let (small, back) = (format!("{name}_small"), format!("{name}_back"));
        let [scale, zero] = ["scale_of_all", "zero_of_all"];
        [
            node(
                "QuantizeLinear",
                &[name, scale, zero],
                &[&small],
                Vec::new(),
            ),
            node(
                "DequantizeLinear",
                &[&small, scale, zero],
                &[&back],
                Vec::new(),
            ),
        ]
    };
    let mut nodes = Vec::new();
    let made = |node: &NodeProto| node.outputs().map(str::to_owned).collect::<Vec<_>>();
    let of_nodes: HashSet<String> = graph.node.iter().flat_map(made).collect();
    let inputs = chosen.iter().filter(|name| !of_nodes.contains(*name));
    nodes.extend(inputs.flat_map(|name| conversion(name)));
    for node in std::mem::take(&mut graph.node) {
        let outputs = made(&node);
        nodes.push(node);
        let converted = outputs.iter().filter(|name| chosen.contains(name));
        nodes.extend(converted.flat_map(|name| conversion(name)));
    }
    graph.node = nodes;
    model
}

/// Makes a node, and the graphs in it, read what was converted there and back.
fn read_converted(node: &mut NodeProto, chosen: &[String]) {
    let convert = |name: &mut String| {
        if chosen.contains(name) {
            name.push_str("_back");
        }
    };
    node.input.iter_mut().for_each(convert);
    for graph in node.graphs_mut() {
        let own: Vec<String> = graph.defined().map(str::to_owned).collect();
        let outer = chosen.iter().filter(|name| !own.contains(name));
        let outer: Vec<String> = outer.cloned().collect();
        in_graph(graph, &outer);
    }
}

fn in_graph(graph: &mut GraphProto, chosen: &[String]) {
    for node in &mut graph.node {
        read_converted(node, chosen);
    }
    for output in &mut graph.output {
        if let Some(name) = output.name.as_mut().filter(|name| chosen.contains(name)) {
            name.push_str("_back");
        }
    }
}

#[test]
fn rewritten_models_load_at_each_level_of_the_optimizer() {
    let python = std::env::var("REVSEQ_TEST_PYTHON").unwrap_or_default();
    if python.is_empty() {
        let test = "rewritten_models_load_at_each_level_of_the_optimizer";
        revseq_skips::skip(test, "REVSEQ_TEST_PYTHON is not set");
        return;
    }
    let mut runner = TestRunner::default();
    let mut rewritten = Rewritten::new();
    for models in crate::random::models() {
        let all = (models, proptest::collection::vec(any::<bool>(), 40));
        for _ in 0..draw::times(CASES) {
            let (bytes, choices) = all.new_tree(&mut runner).expect("a model").current();
            let model = revseq_onnx::decode(&bytes).expect("a model");
            rewritten.add(&model);
            rewritten.add(&quantized(&model, choices.into_iter()));
        }
    }
    assert!(rewritten.count > 4 * CASES as usize, "{}", rewritten.count);
    let run = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(rewritten.folder.path(""))
        .args(LEVELS)
        .output()
        .expect("Python starts");
    assert!(run.status.success(), "{run:?}");
    let told = String::from_utf8_lossy(&run.stdout);
    if !told.is_empty() {
        let kept = rewritten.folder.keep();
        panic!("models in {}:\n{told}", kept.display());
    }
}
