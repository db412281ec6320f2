"""What became of a session's loops: its report, the log, and warnings."""

import ctypes
import dataclasses
import json
import threading
import warnings

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import harness
from test_loops import EXPORTED, LAYERS, TAKEN, Rnn, close, float_value, loops, replacing

OPTION = "ep.dynamic.revseq_report"


class Answer(ctypes.Structure):
    """An answer of the library."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("model", ctypes.c_size_t * 2),
        ("text", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    ]


def left_behind(key: str) -> tuple[int, str]:
    """What the library has under a key, as a host in any language takes it."""
    library = ctypes.CDLL(harness.library())
    library.RevSeqSessionReport.restype = ctypes.POINTER(Answer)
    library.RevSeqFree.argtypes = [ctypes.POINTER(Answer)]
    answer = library.RevSeqSessionReport(key.encode(), ctypes.c_size_t(len(key.encode())))
    try:
        found = answer.contents
        return found.kind, ctypes.string_at(found.text, found.size).decode()
    finally:
        library.RevSeqFree(answer)


def doubling() -> Rnn:
    """A loop that no layer replaces: its state is multiplied by itself."""
    rnn = Rnn()
    (scan,) = (node for node in rnn.nodes if node.op_type == "Scan")
    (product,) = (node for node in scan.attribute[0].g.node if "r" in node.input)
    product.op_type, product.input[1] = "Mul", "h"
    return rnn


def test_any_session_has_a_report():
    """In any language: a dynamic option, and a function of the library."""
    made = replacing(Rnn().model())
    made.set_ep_dynamic_options({OPTION: "a key with ü", "ep.dynamic.workload_type": "Default"})
    kind, text = left_behind("a key with ü")
    taken = {"operator": "Scan", "node": "the_loop", "graph": [], "to": "RNN, forward"}
    assert kind == 0
    expected = {"taken": [taken], "left": [], "layers": 0, "reversals": 0, "fused_runs": 0}
    assert json.loads(text) == expected
    kind, text = left_behind("a key with ü")
    assert kind == 1 and 'no session was given the dynamic option "ep.dynamic.revseq_report" as' in text


@pytest.mark.parametrize("name", TAKEN)
def test_the_report_has_what_onnx_runtime_assigned(package, name):
    made = package.create_session(EXPORTED / name / "model.onnx", loops=True)
    report = package.report(made)
    taken, of_all = loops(made)
    stays = [left for left in report.left if left.operator in ("Loop", "Scan")]
    assert (len(report.taken), len(report.taken) + len(stays)) == (taken, of_all)
    assert str(report).count(" runs as ") == taken
    ours = harness.assigned(made).get(harness.EP, [])
    if not taken:
        assert report.reversals == sum(op in harness.OPERATORS for op in ours)


def test_a_report_tells_sessions_apart(package):
    """Others have no loops to replace, no provider, or a model that was rewritten."""
    path = EXPORTED / "keras_bilstm_masked/model.onnx"
    plain, layers = package.create_session(path), package.create_session(path, layers=True)
    for session in (plain, layers):
        report = package.report(session)
        assert (report.taken, report.left, report.layers, report.reversals) == ((), (), 0, 4)
    rewritten = package.report(package.create_session(path, rewrite="fast"))
    assert len(rewritten.taken) == 4 and rewritten.layers == 2
    assert all(taken.to.startswith("LSTM, ") for taken in rewritten.taken)
    with pytest.raises(package.ReportError, match="the session has no RevSeqExecutionProvider; create_"):
        package.report(harness.cpu_session(path))
    with pytest.raises(TypeError, match="the session is of type str, expected an InferenceSession"):
        package.report("model.onnx")


def test_nodes_around_a_loop_are_named(package):
    rnn = Rnn()
    rnn.nodes = rnn.in_branch(name="the_if")
    (entry,) = [*(report := package.report(replacing(rnn.model()))).taken, *report.left]
    assert (entry.operator, entry.node, entry.graph) == ("Scan", "the_loop", ("the_if",))


def test_a_loop_without_a_name_has_that_of_its_output(package):
    rnn = Rnn()
    rnn.nodes[-1].name = ""
    (taken,) = package.report(replacing(rnn.model())).taken
    assert (taken.node, taken.to) == ("last", "RNN, forward")


def test_threads_may_ask_while_others_run(package):
    rnn = Rnn()
    made = replacing(rnn.model())
    expected, reports, ends = package.report(made), [], threading.Event()
    ran = 0

    def work():
        nonlocal ran
        while not ends.is_set():
            made.run(None, rnn.feed())
            ran += 1

    def ask():
        reports.extend(package.report(made) for _ in range(50))

    runner, asking = threading.Thread(target=work), [threading.Thread(target=ask) for _ in range(4)]
    for thread in (runner, *asking):
        thread.start()
    for thread in asking:
        thread.join()
    ends.set()
    runner.join()
    assert [dataclasses.replace(it, fused_runs=0) for it in reports] == [expected] * 200
    assert package.report(made).fused_runs == ran > 0


def warned(package, model, **arguments):
    """A session, and the warnings of making it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = package.create_session(model.SerializeToString(), **arguments)
    of_loops = [it for it in caught if it.category is package.RewriteWarning]
    assert {it.filename for it in of_loops} <= {__file__}
    return made, [str(it.message) for it in of_loops]


def cpu_first(options: ort.SessionOptions) -> None:
    """Adds another provider before this one."""
    (cpu,) = [device for device in ort.get_ep_devices() if device.ep_name == harness.CPU]
    options.add_provider_for_devices([cpu], {})
    options.log_severity_level = 1


def test_a_loop_that_could_be_replaced_and_stays_is_warned_of(package, capfd):
    """Another provider has it, since it was added first."""
    rnn = Rnn()
    made, lines = warned(package, rnn.model(), loops=True, configure=cpu_first)
    reason = "CPUExecutionProvider has a node of it; add RevSeqExecutionProvider before it"
    (left,) = package.report(made).left
    assert dataclasses.astuple(left) == ("Scan", "the_loop", (), reason, True)
    assert lines == [f"the_loop (Scan) stays, though it could be replaced: {reason}"]
    log = [line for line in capfd.readouterr().err.splitlines() if "the_loop" in line and "revseq" in line]
    assert len(log) == 1 and "[W:" in log[0], log
    assert f'Scan "the_loop" stays, though it could be replaced: {reason}' in log[0]
    close(made.run(None, rnn.feed()), harness.cpu_session(rnn.model()).run(None, rnn.feed()))


def test_a_loop_that_is_no_layer_is_reported_without_a_warning(package, capfd):
    def logged(options):
        options.log_severity_level = 1

    made, lines = warned(package, doubling().model(), loops=True, configure=logged)
    (left,) = package.report(made).left
    assert (left.node, left.could_be_replaced) == ("the_loop", False) and left.reason
    assert lines == []
    log = [line for line in capfd.readouterr().err.splitlines() if 'Scan "the_loop"' in line]
    assert len(log) == 1 and "[I:" in log[0] and f"stays: {left.reason}" in log[0], log


def test_a_loop_that_is_taken_is_logged_at_info(package, capfd):
    def logged(options):
        options.log_severity_level = 1

    _, lines = warned(package, Rnn().model(), loops=True, configure=logged)
    assert lines == []
    log = [line for line in capfd.readouterr().err.splitlines() if 'Scan "the_loop"' in line]
    assert len(log) == 1 and "[I:" in log[0] and "runs as RNN, forward" in log[0], log


@pytest.mark.parametrize("arguments, are_ours", [({}, True), ({"layers": False}, False)])
def test_layers_of_the_model_stay_if_only_loops_are_asked_for(package, arguments, are_ours):
    """The layers that loops become are the provider's all the same."""
    rnn = Rnn()
    shapes = {"w2": (1, 5, 4), "r2": (1, 5, 5)}
    rng = np.random.default_rng(3)
    rnn.constants |= {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    rnn.nodes += harness.nodes('[own] "", end = RNN <hidden_size = 5> (y, w2, r2)')
    model = rnn.model([*rnn.outputs, float_value("end")])
    made, lines = warned(package, model, loops=True, **arguments)
    assert lines == [] and loops(made) == (1, 1)
    own = [ep for ep, operators in harness.assigned(made).items() if "RNN" in operators]
    assert own == [harness.EP if are_ours else harness.CPU]
    report = package.report(made)
    assert (len(report.taken), report.layers) == (1, int(are_ours))
    close(made.run(None, rnn.feed()), harness.cpu_session(model).run(None, rnn.feed()))


def test_a_layer_that_is_left_has_its_reason(package):
    """Two branches have values of the same names, by which the provider knows its layers."""
    rnn = Rnn()

    layer = lambda direction: f"""graph = {direction} () => (float[] y0, float[] last0) {{
        [{direction}] y0, last0 = RNN <hidden_size = 4, direction = "{direction}"> (x, w2, r2) }}"""
    branches = f"then_branch: {layer('forward')}, else_branch: {layer('reverse')}"
    rnn.nodes = harness.nodes(f"y, last = If (which) <{branches}>")
    rnn.given = [helper.make_tensor_value_info("which", TensorProto.BOOL, [])]
    rnn.constants = {"w2": np.ones((1, 4, 3), np.float32), "r2": np.ones((1, 4, 4), np.float32)}
    made = replacing(rnn.model(), LAYERS)
    report = package.report(made)
    (left,) = report.left
    assert (left.operator, left.could_be_replaced, report.layers) == ("RNN", False, 1)
    assert left.reason == "another layer has outputs of the same names"


def test_accelerate_rewrites_what_the_session_leaves(package):
    """What the steps of a loop compute of no state is done before it by a rewrite alone."""
    path = EXPORTED / "tf_while_reverse_sequence/model.onnx"
    alone = package.report(package.create_session(path, loops="steps"))
    assert not alone.taken and alone.left
    session = package.create_session(path, accelerate=True, threads=1)
    assert package.report(session).taken
    for inputs, outputs in harness.data_sets(path.parent):
        given = {it.name: value for it, value in zip(session.get_inputs(), inputs)}
        for expected, got in zip(outputs, session.run(None, given)):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_accelerate_keeps_a_model_that_the_session_takes(package):
    """Masks are part of a fused layer, which a rewritten file cannot have."""
    found = package.report(package.create_session(EXPORTED / "keras_bilstm_masked/model.onnx", accelerate=True))
    assert (len(found.taken), found.left, found.layers) == (4, (), 0)


def test_accelerate_is_given_alone(package):
    path = EXPORTED / "keras_bilstm_masked/model.onnx"
    with pytest.raises(ValueError, match="accelerate=True chooses rewrite, layers and loops: give it alone"):
        package.create_session(path, accelerate=True, loops=True)
    with pytest.raises(TypeError, match="accelerate is 'yes', expected True or False"):
        package.create_session(path, accelerate="yes")
