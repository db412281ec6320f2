//! The binary, run; and models, made.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;
use revseq_test_models::text;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};

use crate::sessions;

pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT32: i32 = 6;
pub(crate) const INT64: i32 = 7;
pub(crate) const BOOL: i32 = 9;

/// The result of a run of the binary.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The words of a command line: each on its own, or a text with spaces between them.
pub(crate) trait Words {
    fn words(&self) -> Vec<OsString>;
}

impl Words for str {
    fn words(&self) -> Vec<OsString> {
        self.split_whitespace().map(OsString::from).collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<OsString> {
        self.as_str().words()
    }
}

impl<S: AsRef<OsStr>> Words for [S] {
    fn words(&self) -> Vec<OsString> {
        self.iter().map(|it| it.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<OsStr>, const COUNT: usize> Words for [S; COUNT] {
    fn words(&self) -> Vec<OsString> {
        self.as_slice().words()
    }
}

impl<S: AsRef<OsStr>> Words for Vec<S> {
    fn words(&self) -> Vec<OsString> {
        self.as_slice().words()
    }
}

/// Runs `revseq`.
pub(crate) fn revseq(arguments: &(impl Words + ?Sized)) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments.words())
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("the binary starts");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs `revseq`, which has to succeed; its output.
pub(crate) fn succeeds(arguments: &(impl Words + Debug + ?Sized)) -> String {
    let run = revseq(arguments);
    assert_eq!(run.code, Some(0), "{arguments:?}: {run:?}");
    run.stdout
}

/// Rewrites a model, and compares both on data sets of inputs: on tract, and on the ONNX Runtime of a library
/// if there is one, never on what the machine has besides. The output is JSON. The model also runs on all of
/// them in one session.
pub(crate) fn rewrite_and_check(
    model: &[u8],
    data_sets: &[Vec<TensorProto>],
    flags: &[&str],
    library: Option<&str>,
) -> Run {
    sessions::run_apart(model, data_sets);
    let folder = Folder::new();
    let path = folder.write("model.onnx", model);
    for (set, inputs) in data_sets.iter().enumerate() {
        for (index, tensor) in inputs.iter().enumerate() {
            let name = format!("test_data_set_{set}/input_{index}.pb");
            folder.write(&name, &tensor.encode_to_vec());
        }
    }
    let (output, data) = (folder.path("out.onnx"), folder.path(""));
    let mut arguments = vec!["rewrite", &path, "--format", "json"];
    arguments.extend(["-o", &output]);
    arguments.extend(["--check", &data]);
    arguments.extend(flags);
    arguments.extend(library.map_or(["--backend", "tract"], |library| ["--ort-lib", library]));
    let mut run = revseq(&arguments);
    // An error is no report of checks.
    if run.code == Some(2) {
        run.stdout.clear();
    }
    run
}

/// Asserts that a text has a part.
#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "expected {part:?} in {text}");
}

/// Runs `revseq`, which has to succeed and to print this among all.
#[track_caller]
pub(crate) fn prints(arguments: &(impl Words + Debug + ?Sized), part: &str) {
    has(&succeeds(arguments), part);
}

/// Runs `revseq`, which has to find a difference, and to print this among all.
#[track_caller]
pub(crate) fn fails(arguments: &(impl Words + Debug + ?Sized), part: &str) {
    let run = revseq(arguments);
    assert!(
        run.code == Some(1) && run.stdout.contains(part),
        "{arguments:?}: expected {part:?}: {run:?}"
    );
}

/// Runs `revseq`, which has to refuse its input in one line that says why.
pub(crate) fn refuses(arguments: &(impl Words + Debug + ?Sized), why: &str) {
    let run = revseq(arguments);
    assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
    assert!(
        run.stderr.contains(why),
        "{arguments:?}: expected {why:?}: {run:?}"
    );
    assert!(run.stderr.starts_with("error: "), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    // A report in JSON has it, too.
    let is_json = arguments.words().iter().any(|it| it == "json");
    match is_json && !run.stdout.is_empty() {
        true => {
            let report: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
            let error = report["error"].as_str().expect("an error");
            assert_eq!(run.stderr, format!("error: {error}\n"));
        }
        false => assert_eq!(run.stdout, "", "{run:?}"),
    }
    assert!(!run.stderr.contains("panicked at"), "{run:?}");
}

/// Runs `revseq`: its exit status, and the most memory that was seen, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak(arguments: &(impl Words + ?Sized)) -> (std::process::ExitStatus, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments.words())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        peak = peak.max(kilobytes.map_or(0, |text| text.parse().unwrap_or(0)) << 10);
        if let Some(ended) = child.try_wait().expect("a child") {
            break ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    (ended, peak)
}

/// Whether there is a file or a folder.
pub(crate) fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// The repository's models.
pub(crate) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models")
}

/// The folders in one that have a model, in order.
pub(crate) fn models_in(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().expect("a folder");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.join("model.onnx").exists());
    paths.sort();
    paths
}

/// The folders of all of the repository's models.
pub(crate) fn all_models() -> Vec<PathBuf> {
    let groups = models().read_dir().expect("groups of models");
    let groups = groups.map(|group| group.expect("a group").path());
    groups
        .filter(|group| group.is_dir())
        .flat_map(|group| models_in(&group))
        .collect()
}

pub(crate) fn value(name: &str, elem_type: i32, dims: &[&str]) -> ValueInfoProto {
    let dim = dims.iter().map(|dim| Dimension {
        value: Some(match dim.parse() {
            Ok(size) => DimValue::DimValue(size),
            Err(_) => DimValue::DimParam((*dim).to_owned()),
        }),
        ..Dimension::default()
    });
    let tensor = type_proto::Tensor {
        elem_type,
        shape: Some(TensorShapeProto { dim: dim.collect() }),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}

pub(crate) fn node(op_type: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        name: format!("{}_node", outputs.first().copied().unwrap_or_default()),
        op_type: op_type.to_owned(),
        input: own(inputs),
        output: own(outputs),
        ..NodeProto::default()
    }
}

pub(crate) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Int as i32,
        i,
        ..AttributeProto::default()
    }
}

pub(crate) fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Graph as i32,
        g: Some(graph),
        ..AttributeProto::default()
    }
}

pub(crate) fn tensor(name: &str, data_type: i32, dims: &[i64], raw_data: &[u8]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type,
        dims: dims.to_vec(),
        raw_data: raw_data.to_vec(),
        ..TensorProto::default()
    }
}

/// A tensor whose data are in a file.
pub(crate) fn outside(name: &str, data_type: i32, dims: &[i64], location: &str) -> TensorProto {
    TensorProto {
        data_location: Some(DataLocation::External as i32),
        external_data: vec![StringStringEntryProto {
            key: "location".to_owned(),
            value: location.to_owned(),
        }],
        ..tensor(name, data_type, dims, &[])
    }
}

pub(crate) fn int64s(name: &str, values: &[i64]) -> TensorProto {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    tensor(name, INT64, &[values.len() as i64], &bytes)
}

pub(crate) fn model(graph: GraphProto) -> ModelProto {
    let import = |domain: &str, version| OperatorSetIdProto {
        domain: domain.to_owned(),
        version,
    };
    ModelProto {
        ir_version: 8,
        opset_import: vec![
            import("", 17),
            import("revseq", 1),
            import("com.microsoft", 1),
        ],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// A graph of a text, whose nodes are named after their first outputs.
pub(crate) fn graph(text: &str) -> GraphProto {
    let bytes = text::model(text::graph(text), 17);
    let mut graph = ModelProto::decode(&*bytes).expect("a model").graph;
    let graph = graph.as_mut().expect("a graph");
    name_nodes(graph);
    std::mem::take(graph)
}

fn name_nodes(graph: &mut GraphProto) {
    for node in &mut graph.node {
        let first = node.output.iter().find(|it| !it.is_empty());
        node.name = format!("{}_node", first.cloned().unwrap_or_default());
        let graphs = node.attribute.iter_mut().filter_map(|it| it.g.as_mut());
        graphs.for_each(name_nodes);
    }
}

/// `y = ReverseSequence(x, lens)` for x of `[4,5,3]`, batch first.
pub(crate) fn reverse_graph() -> GraphProto {
    graph(
        "x:f32[4,5,3] lens:i64[4] -> y:f32[4,5,3]
         y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens)",
    )
}

/// Two reversals of `{from}` to `y` that undo each other, which `revseq rewrite` removes.
pub(crate) fn flips(from: &str) -> String {
    let slice = |from: &str| format!("Slice({from}, [-1], [{}], [0], [-1])", -i64::MAX);
    format!("y_flipped = {}\ny = {}", slice(from), slice("y_flipped"))
}

/// A folder for one test's files.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Keeps the files, for a look at what a test found.
    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        if let Some(parent) = Path::new(&path).parent() {
            std::fs::create_dir_all(parent).expect("a folder");
        }
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// Writes the model of a text.
    pub(crate) fn text(&self, text: &str) -> String {
        self.model(graph(text))
    }

    pub(crate) fn model(&self, graph: GraphProto) -> String {
        self.write("model.onnx", &model(graph).encode_to_vec())
    }
}
