//! Sessions whose loops the provider replaces give what ONNX Runtime gives by itself, on random models.
//!
//! `REVSEQ_TEST_PYTHON` names a Python that has the package `onnxruntime`, and `REVSEQ_EP_LIBRARY` the
//! library of the execution provider. `REVSEQ_RANDOM_TIMES` multiplies the models that each generator makes.

use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use revseq_test_models::draw;

use crate::common::Folder;

/// The models that are made by each generator, and those that a process of Python runs.
const CASES: u32 = 12;
const MODELS_OF_A_PROCESS: usize = 200;

/// Runs each model by ONNX Runtime alone and with the provider, before and after its optimizer saw it, and
/// says what differs; at the end, how many loops were replaced and how many models ran. The last model on
/// standard error is the one that ends the process.
const SCRIPT: &str = "
import pathlib, sys, zlib, numpy, onnxruntime as ort
from onnxruntime import GraphOptimizationLevel as Level
ort.set_default_logger_severity(4)
ort.register_execution_provider_library('revseq', sys.argv[2])
device = [it for it in ort.get_ep_devices() if it.ep_name == 'RevSeqExecutionProvider'][0]
kinds = {'tensor(float)': 'f4', 'tensor(double)': 'f8', 'tensor(float16)': 'f2', 'tensor(bool)': '?',
         'tensor(int64)': 'i8', 'tensor(int32)': 'i4'}
fused = ran = 0
def options(level):
    made = ort.SessionOptions()
    made.intra_op_num_threads = 1
    made.graph_optimization_level = level
    return made
def feed(session, sizes, random):
    made = {}
    for value in session.get_inputs():
        shape = [it if isinstance(it, int) else sizes.setdefault(it, int(random.integers(1, 9)))
                 for it in value.shape]
        kind = numpy.dtype(kinds[value.type])
        if kind.kind == 'f':
            made[value.name] = random.uniform(-1, 1, shape).astype(kind)
        else:
            made[value.name] = random.integers(0, 2 if kind.kind == 'b' else 4, shape).astype(kind)
    return made
def close(found, expected):
    if not isinstance(expected, numpy.ndarray):
        return True
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    return numpy.allclose(found, expected, 1e-3, 1e-4, equal_nan=True) if found.dtype.kind == 'f' \\
        else numpy.array_equal(found, expected)
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.onnx')):
    print(path.name, file=sys.stderr, flush=True)
    random = numpy.random.default_rng(zlib.crc32(path.name.encode()))
    try:
        plain = ort.InferenceSession(path, options(Level.ORT_ENABLE_ALL), ['CPUExecutionProvider'])
    except Exception:
        continue
    for level in Level.ORT_ENABLE_ALL, Level.ORT_DISABLE_ALL:
        replacing = options(level)
        replacing.add_session_config_entry('session.record_ep_graph_assignment_info', '1')
        replacing.add_provider_for_devices([device], {'loops': 'layers'})
        try:
            ours = ort.InferenceSession(path, replacing)
        except Exception as error:
            print(f'{path.name} at {level}: {error}')
            continue
        for part in ours.get_provider_graph_assignment_info():
            if part.ep_name == 'RevSeqExecutionProvider':
                fused += sum(node.op_type in ('Loop', 'Scan') for node in part.get_nodes())
        for run in range(3):
            inputs = feed(plain, {}, random)
            try:
                expected = plain.run(None, inputs)
            except Exception:
                continue
            ran += 1
            try:
                found = ours.run(None, inputs)
            except Exception as error:
                print(f'{path.name} at {level}, run {run}: {error}')
                continue
            names = [it.name for it in plain.get_outputs()]
            for name, one, other in zip(names, found, expected):
                if not close(one, other):
                    print(f'{path.name} at {level}, run {run}: {name} differs')
print(f'{fused} loops replaced, {ran} runs')
";

#[test]
fn loops_that_the_provider_replaces_give_the_same() {
    let [python, library] = ["REVSEQ_TEST_PYTHON", "REVSEQ_EP_LIBRARY"]
        .map(|name| std::env::var(name).unwrap_or_default());
    if python.is_empty() || library.is_empty() {
        let test = "loops_that_the_provider_replaces_give_the_same";
        revseq_skips::skip(test, "REVSEQ_TEST_PYTHON or REVSEQ_EP_LIBRARY is not set");
        return;
    }
    let cases = draw::times(CASES) as usize;
    let mut runner = TestRunner::default();
    let mut counts = [0, 0];
    for (number, models) in crate::random::models().into_iter().enumerate() {
        for first in (0..cases).step_by(MODELS_OF_A_PROCESS) {
            let folder = Folder::new();
            for case in first..cases.min(first + MODELS_OF_A_PROCESS) {
                let model = models.new_tree(&mut runner).expect("a model").current();
                folder.write(&format!("{number}_{case:05}.onnx"), &model);
            }
            let ran = run(&python, &library, folder);
            counts = [counts[0] + ran[0], counts[1] + ran[1]];
        }
    }
    assert!(counts[0] > 2 * cases && counts[1] > 6 * cases, "{counts:?}");
}

/// Runs the models of a folder; how many loops were replaced, and how many runs there were. The folder is
/// kept if one fails.
fn run(python: &str, library: &str, folder: Folder) -> [usize; 2] {
    let run = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(folder.path(""))
        .arg(library)
        .output()
        .expect("Python starts");
    let [told, last] = [&run.stdout, &run.stderr].map(|it| String::from_utf8_lossy(it));
    let last = last.lines().last();
    let mut lines = told.lines().rev();
    let counts = lines.next().unwrap_or_default();
    let counts: Vec<usize> = counts.split(' ').filter_map(|it| it.parse().ok()).collect();
    let ends_well = run.status.success() && lines.next().is_none();
    match counts[..] {
        [fused, ran] if ends_well => [fused, ran],
        _ => panic!(
            "{}: {}, {last:?}\n{told}",
            folder.keep().display(),
            run.status
        ),
    }
}
