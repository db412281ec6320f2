"""More on sessions: saved models, bound memory, sequences of runs."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import harness
from test_layers import compare

NAMES = ["graphs/between_neg", "graphs/twice_other_lengths", "exported/tf_axes_2_3",
         "subsequences/between_neg", "graphs/local_function"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format", ["onnx", "ort"])
def test_the_optimised_model_saved_and_loaded_again(name, format, tmp_path):
    folder = harness.MODELS / name
    saved = str(tmp_path / f"saved.{format}")
    options = harness.options()
    options.optimized_model_filepath = saved
    first = harness.session(folder / "model.onnx", options)
    harness.assert_on_ep(first)
    # Of a model in ORT's own format the assignment is not recorded.
    profiled = harness.Profiled(saved, harness.options())
    again = profiled.session
    if format == "onnx":
        kept = onnx.load(saved)
        assert any(node.op_type in harness.OPERATORS for node in kept.graph.node)
    for session in (first, again):
        harness.check_data_sets(session, folder)
    ran = profiled.providers()
    assert ran and {where for _, where in ran} == {harness.EP}, ran


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_every_level_of_optimisation(level):
    folder = harness.MODELS / "exported/keras_bilstm_masked"
    options = harness.options()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = harness.session(folder / "model.onnx", options)
    harness.assert_on_ep(session, 4)
    harness.check_data_sets(session, folder, compare)


@pytest.mark.parametrize("mode", [ort.ExecutionMode.ORT_SEQUENTIAL, ort.ExecutionMode.ORT_PARALLEL])
def test_both_modes_of_execution(mode):
    folder = harness.MODELS / "graphs/second_reader"
    options = harness.options()
    options.execution_mode = mode
    session = harness.session(folder / "model.onnx", options)
    harness.assert_on_ep(session)
    for _ in range(20):
        harness.check_data_sets(session, folder)


def test_bound_memory():
    """The kernel reads and writes the bound memory itself, no copy of it."""
    session = harness.session(harness.reverse_sequence([4, 3], batch_axis=1, time_axis=0))
    harness.assert_on_ep(session, 1)
    x, y = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    lens = np.zeros(3, np.int64)
    binding = session.io_binding()
    for name, array in (("x", x), ("lens", lens)):
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
    for length in range(5):
        x[:] = np.arange(12).reshape(4, 3) + length
        lens[:] = length
        session.run_with_iobinding(binding)
        assert harness.bits(y) == harness.bits(harness.expected(x, lens, 0, 1))


def test_lengths_that_are_not_aligned():
    """numpy may hold numbers at any address, and ONNX Runtime passes it on."""
    session = harness.session(harness.reverse_sequence([4, 3], batch_axis=1, time_axis=0))
    memory = np.zeros(8 * 3 + 1, np.uint8)
    lens = memory[1:].view(np.int64)
    lens[:] = [4, 0, 3]
    assert lens.ctypes.data % 8
    value = ort.OrtValue.ortvalue_from_numpy(lens)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_input("lens", value)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    right = harness.expected(x, [4, 0, 3], 0, 1)
    assert harness.bits(binding.copy_outputs_to_cpu()[0]) == harness.bits(right)


def test_the_device():
    (device,) = harness.devices()
    assert (device.ep_name, device.ep_vendor) == (harness.EP, "revseq")
    assert device.device.type == ort.OrtHardwareDeviceType.CPU
    assert device.ep_metadata["version"].count(".") == 2


@pytest.mark.parametrize("dtype", [onnx.TensorProto.FLOAT, onnx.TensorProto.STRING])
def test_a_node_that_another_provider_has_is_left_alone(dtype, capfd):
    """The one that is chosen first has it; there is nothing to decline, nor to say of it."""
    (cpu,) = [device for device in ort.get_ep_devices() if device.ep_name == harness.CPU]
    options = harness.options(ep=False)
    options.log_severity_level = 0
    options.add_provider_for_devices([cpu], {})
    options.add_provider_for_devices(harness.devices(), {})
    model = harness.reverse_sequence([4, 3], dtype, batch_axis=1, time_axis=0)
    session = harness.session(model, options)
    assert harness.assigned(session) == {harness.CPU: ["ReverseSequence"]}
    log = capfd.readouterr().err
    assert "Node placements" in log and "left to other execution providers" not in log


def test_the_policy_chooses_nothing_it_should_not():
    """Registered but not chosen, the EP gets no node."""
    session = harness.session(
        harness.reverse_sequence([4, 3], batch_axis=1, time_axis=0), harness.options(ep=False)
    )
    assert session.get_providers() == [harness.CPU]


def test_providers_take_nodes_in_the_order_in_which_they_are_added():
    model = harness.reverse_sequence([2, 3], batch_axis=0, time_axis=1)
    cpu = next(device for device in ort.get_ep_devices() if device.ep_name == harness.CPU)
    (ours,) = harness.devices()
    for order in ([cpu, ours], [ours, cpu]):
        options = harness.options(ep=False)
        for device in order:
            options.add_provider_for_devices([device], {})
        session = harness.session(model, options)
        assert harness.assigned(session) == {order[0].ep_name: ["ReverseSequence"]}


@pytest.mark.parametrize("axes", [(0, 1), (2, 1)])
def test_constants_are_folded_before_providers_see_them(axes):
    """By ONNX Runtime's own kernel, unless an option of the session says otherwise."""
    batch, time = axes
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    lengths = np.arange(1, x.shape[batch] + 1) % 4
    text = f"""(float[1] z) => (float[2,3,4] sum) {{
        y = ReverseSequence <batch_axis = {batch}, time_axis = {time}> (x, lens)
        sum = Add (y, z) }}"""
    model = harness.parsed(text, x=x, lens=lengths)
    if batch < 2:
        assert harness.assigned(harness.session(model)) == {harness.CPU: ["Add"]}
    else:
        with pytest.raises(Exception, match="Must be 0 or 1"):
            harness.session(model)
    kept = {"optimization__disable_specified_optimizers": "ConstantFolding"}
    session = harness.session(model, **kept)
    harness.assert_on_ep(session, 1)
    (y,) = session.run(None, {"z": np.zeros(1, np.float32)})
    assert y.tolist() == harness.expected(x, lengths, time, batch).tolist()
