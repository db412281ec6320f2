"""Errors have the node's name, the value found and the values expected."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import harness

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def batch_first(**kwargs):
    return harness.reverse_sequence([2, 3], batch_axis=0, time_axis=1, **kwargs)


def raises(message):
    return pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match=message)


@pytest.mark.parametrize(
    "lens, message",
    [
        ([2, 4], "sequence length 4 at index 1 is out of range: expected 0 to 3"),
        ([-1, 2], "sequence length -1 at index 0 is out of range: expected 0 to 3"),
        ([2**63 - 1, 0], f"sequence length {2**63 - 1} at index 0 is out of range"),
        ([0, -(2**63)], f"sequence length {-(2**63)} at index 1 is out of range"),
    ],
)
def test_a_length_out_of_range_is_refused_before_anything_is_written(lens, message):
    session = harness.session(batch_first())
    harness.assert_on_ep(session, 1)
    output = np.full((2, 3), 42, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("lens", np.array(lens, np.int64))
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(output))
    with pytest.raises(Exception, match=f'ReverseSequence node "the_node": {message}'):
        session.run_with_iobinding(binding)
    assert (binding.get_outputs()[0].numpy() == 42).all()
    # ONNX Runtime reports the kind of error, and the session stays usable.
    with raises(message):
        session.run(None, {"x": X, "lens": np.array(lens, np.int64)})
    (y,) = session.run(None, {"x": X, "lens": np.array([2, 3], np.int64)})
    assert y.tolist() == [[1, 0, 2], [5, 4, 3]]


def test_an_error_is_not_run_again_on_the_cpu():
    """With Python's own fallback left on: it must not hide the error."""
    session = ort.InferenceSession(harness.load(batch_first()), harness.options())
    with raises("sequence length 9 at index 0"):
        session.run(None, {"x": X, "lens": np.array([9, 0], np.int64)})
    assert session.get_providers()[0] == harness.EP


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"batch_axis": 0, "time_axis": 0}, "batch_axis 0 and time_axis 0 are the same dimension"),
        ({"batch_axis": 0, "time_axis": -2}, "batch_axis 0 and time_axis -2 are the same"),
        ({"batch_axis": 0, "time_axis": 2}, "attribute time_axis is 2, expected -2 to 1"),
        ({"batch_axis": -3, "time_axis": 1}, "attribute batch_axis is -3, expected -2 to 1"),
    ],
)
def test_invalid_axes_are_refused_when_the_session_is_created(attributes, message):
    model = harness.reverse_sequence([2, 3], lengths_shape=[2], **attributes)
    with pytest.raises(Exception, match=f'ReverseSequence node "the_node": .*{message}'):
        harness.session(model)


def test_axes_that_prove_invalid_are_refused_when_the_model_runs():
    model = harness.parsed("""(float[] x, int64[n] lens) => (float[] y) {
        [the_node] y = ReverseSequence <batch_axis = 0, time_axis = 2> (x, lens) }""")
    session = harness.session(model)
    with raises('ReverseSequence node "the_node": attribute time_axis is 2, expected -2 to 1'):
        session.run(None, {"x": X, "lens": np.array([2, 3], np.int64)})


def test_too_many_lengths():
    message = 'input "sequence_lens" has size 3 in dimension 0, expected 2'
    with pytest.raises(Exception, match=f'ReverseSequence node "the_node": {message}'):
        harness.session(batch_first(lengths_shape=[3]))
    session = harness.session(batch_first(lengths_shape=["n"]))
    with raises(f'ReverseSequence node "the_node": {message}'):
        session.run(None, {"x": X, "lens": np.array([1, 1, 1], np.int64)})


def test_lengths_of_a_type_that_the_schema_lacks():
    """That of ReverseSequence is ONNX Runtime's; this one knows the type from nowhere but here."""
    message = r"Type 'tensor\(float\)' of input parameter \(lens\) of operator " + (
        r"\(ReverseSubsequences\) in node \(the_node\) is invalid"
    )
    with pytest.raises(Exception, match=message):
        harness.session(
            harness.reverse_subsequences([2, 3], 1, lengths_dtype=TensorProto.FLOAT)
        )


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({}, "attribute axis is missing: it has no default"),
        ({"axis": 1.0}, "attribute axis is of type float, expected an integer"),
        ({"axis": [1]}, "attribute axis is of type list of integers"),
        ({"axis": 2}, "attribute axis is 2, expected -2 to 1"),
    ],
)
def test_attributes_of_subsequences(attributes, message):
    node = helper.make_node(
        "ReverseSubsequences", ["x", "lens"], ["y"], "the_node", domain="revseq", **attributes
    )
    model = harness.one_node(node, [2, 3], TensorProto.FLOAT, [2, 1], TensorProto.INT32, 17)
    with pytest.raises(Exception, match=f'ReverseSubsequences node "the_node": .*({message})'):
        harness.session(model)


def test_strings_have_no_subsequences():
    model = harness.reverse_subsequences([2, 3], 1, TensorProto.STRING)
    with pytest.raises(Exception, match="the_node.*elements of type string"):
        harness.session(model)


def test_memory_that_the_output_shares_with_its_inputs():
    session = harness.session(batch_first())
    memory = np.zeros(9, np.float32)

    def bound(first):
        return ort.OrtValue.ortvalue_from_numpy(memory[first : first + 6].reshape(2, 3))

    if bound(0).data_ptr() != memory.ctypes.data:
        pytest.fail("this ONNX Runtime copies arrays that it could share")
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", bound(0))
    binding.bind_ortvalue_input(
        "lens", ort.OrtValue.ortvalue_from_numpy(np.array([3, 2], np.int64))
    )
    binding.bind_ortvalue_output("y", bound(3))
    with pytest.raises(Exception, match="the_node.*the output's memory overlaps that of input \"input\""):
        session.run_with_iobinding(binding)
    # All of it is in place.
    memory[:6] = range(6)
    binding.bind_ortvalue_output("y", bound(0))
    session.run_with_iobinding(binding)
    assert memory[:6].tolist() == [2, 1, 0, 4, 3, 5]


def test_an_input_that_is_not_fed():
    """Python checks the feeds; ONNX Runtime itself, as bound here, does not."""
    session = harness.session(batch_first())
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    with pytest.raises(Exception, match="the_node"):
        session.run_with_iobinding(binding)
