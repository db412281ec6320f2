"""The operator `revseq::ReverseSubsequences` as a custom-op library, without the EP."""

import numpy as np
import pytest

import harness
from harness import CPU, EP

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def session(model, ep=False):
    options = harness.options(ep=False)
    options.register_custom_ops_library(harness.library())
    if ep:
        options.add_provider_for_devices(harness.devices(), {})
    return harness.session(model, options)


@pytest.mark.parametrize("lengths", ["uint32", "uint64", "int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_on_the_cpu(lengths, axis, dynamic):
    shape = list(X.shape)
    shape[axis] = 1
    lens = (np.arange(np.prod(shape)).reshape(shape) % 6).astype(lengths)
    model = harness.reverse_subsequences(
        ["a", "b", "c"] if dynamic else list(X.shape),
        axis,
        lengths_dtype=harness.helper.np_dtype_to_tensor_dtype(np.dtype(lengths)),
        lengths_shape=["d", "e", "f"] if dynamic else None,
    )
    made = session(model)
    assert harness.assigned(made) == {CPU: ["ReverseSubsequences"]}
    (y,) = made.run(None, {"x": X, "lens": lens})
    assert harness.bits(y) == harness.bits(harness.expected(X, lens, axis))


def test_every_model_of_subsequences():
    folders = [path.parent for path in harness.MODELS.glob("[ps]*/*/model.onnx")]
    folders = [folder for folder in folders if folder.parent.name in ("page", "subsequences")]
    assert len(folders) > 20
    for folder in folders:
        made = session(folder / "model.onnx")
        assert EP not in harness.assigned(made)
        harness.check_data_sets(made, folder)


def test_negative_lengths_count_as_none():
    model = harness.reverse_subsequences([4], 0, lengths_dtype=harness.TensorProto.INT32)
    (y,) = session(model).run(None, {"x": X[0, 0], "lens": np.array([-3], np.int32)})
    assert y.tolist() == [0, 1, 2, 3]


def test_the_output_has_the_inputs_type_and_shape():
    model = harness.reverse_subsequences(["a", 3, "c"], 1, harness.TensorProto.INT16)
    del model.graph.output[:]
    model.graph.output.add().name = "y"
    (output,) = session(model).get_outputs()
    assert (output.type, output.shape) == ("tensor(int16)", ["a", 3, "c"])


@pytest.mark.parametrize(
    "sizes, shape",
    [
        ([2, 3], [2, 3]),
        (["a", "b"], ["a", "b"]),
        (["a", 3], ["a", 3]),
        # An unnamed dimension stays unnamed in the output and in later nodes.
        ([None, None], []),
        ([None, 3], []),
        (["a", None], []),
        ([-1, 3], []),
        (None, []),
    ],
)
@pytest.mark.parametrize("ep", [False, True])
def test_a_shape_is_inferred_as_far_as_it_is_known(sizes, shape, ep, tmp_path, capfd):
    lengths = None if sizes is None else [sizes[0], 1]
    text = "(x, lens) => (r, y) { r = revseq.ReverseSubsequences <axis = 1> (x, lens) y = Neg (r) }"
    model = harness.parsed(text)
    tensor = harness.helper.make_tensor_value_info
    model.graph.input[0].CopyFrom(tensor("x", harness.TensorProto.FLOAT, sizes))
    model.graph.input[1].CopyFrom(tensor("lens", harness.TensorProto.UINT32, lengths))
    options = harness.options(ep=False)
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.register_custom_ops_library(harness.library())
    if ep:
        options.add_provider_for_devices(harness.devices(), {})
    made = harness.session(model, options)
    assert [output.shape for output in made.get_outputs()] == [shape, shape]
    for time in range(3, 4 if 3 in (sizes or []) else 6):
        x = np.arange(2 * time, dtype=np.float32).reshape(2, time)
        r, y = made.run(None, {"x": x, "lens": np.array([[3], [2]], np.uint32)})
        assert harness.bits(r) == harness.bits(harness.expected(x, np.array([[3], [2]]), 1))
        assert harness.bits(y) == harness.bits(-r)
    assert "does not match" not in capfd.readouterr().err
    saved = harness.onnx.load(options.optimized_model_filepath).graph
    values = [*saved.value_info, *saved.output]
    sizes = [size.dim_value for value in values for size in value.type.tensor_type.shape.dim]
    assert all(size >= 0 for size in sizes), values


def test_together_with_the_ep():
    """The library's ops first, then the EP; the other way round ONNX Runtime has the domain twice."""
    model = harness.reverse_subsequences([2, 3, 4], 2)
    made = session(model, ep=True)
    harness.assert_on_ep(made, 1)
    lens = np.full((2, 3, 1), 4, np.uint32)
    (y,) = made.run(None, {"x": X, "lens": lens})
    assert harness.bits(y) == harness.bits(np.flip(X, 2))


def test_an_error_names_the_node():
    made = session(harness.reverse_subsequences([2, 3, 4], 1, lengths_shape=["a", "b", "c"]))
    message = 'ReverseSubsequences node "the_node": input "sequence_lengths" has size 3 in dimension 1'
    with pytest.raises(Exception, match=message):
        made.run(None, {"x": X, "lens": np.zeros((2, 3, 4), np.uint32)})


def test_without_the_library_the_operator_is_unknown():
    with pytest.raises(Exception, match="ReverseSubsequences|revseq"):
        harness.session(harness.reverse_subsequences([4], 0), harness.options(ep=False))
