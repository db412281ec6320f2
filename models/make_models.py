"""Make the small ONNX models and test data that revseq is tested with.

    python make_models.py           rewrite every made file
    python make_models.py --check   compare with the files on disk; exit 1 naming differences

Each model is a folder in the layout of ONNX's backend tests: `model.onnx` beside
`test_data_set_N/input_I.pb` and `output_I.pb`. Expected outputs come from the two naive
functions below, written from the operators' text alone, and are then held against other
implementations of the operators (see `Oracle`). Files under `exported/` were written by
model exporters: they are verified, never rewritten.
"""

import argparse
import functools
import importlib
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = npt.NDArray[Any]
Values = Mapping[str, Array]

HERE = Path(__file__).resolve().parent
EXPORTED = "exported"
README = "README.md"
TABLE_BEGIN = "<!-- models: written by make_models.py -->\n"
TABLE_END = "<!-- models: end -->\n"

# The newest opset for which every model consumer of interest has all the other operators.
OPSET = 17
# Models that compute (LSTM, exported networks) agree between runtimes only this closely.
RTOL, ATOL = 1e-4, 1e-5


class Oracle(Enum):
    """The source, besides the naive functions, of a model's expected outputs."""

    ORT = "runs"
    """ONNX Runtime's CPU kernels give the same outputs."""
    REFERENCE_ORT_REFUSES = "refuses"
    """ONNX Runtime refuses the model; ONNX's reference evaluator gives the same outputs."""
    REFERENCE_ORT_MISREADS = "misreads"
    """ONNX Runtime takes every time axis but 0 to mean batch axis 0 and time axis 1, so it fails
    at run time or gives other outputs; ONNX's reference evaluator gives the same ones."""
    GATHER = "no such operator"
    """Only revseq has the operator; a gather by computed indices gives the same outputs."""


@dataclass(frozen=True)
class DataSet:
    """One set of inputs and the outputs they must give, by graph input and output name."""

    inputs: Values
    outputs: Values


@dataclass(frozen=True)
class Case:
    """One model folder."""

    path: str
    shows: str
    model: ModelProto
    sets: Sequence[DataSet]
    oracle: Oracle = Oracle.ORT
    exact: bool = True


# --- The operators, naively -------------------------------------------------------------------


def reverse_sequence(x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    """ONNX ReverseSequence, one time step of one batch entry after the other."""

    def step(batch: int, time: int) -> tuple[slice, ...]:
        # Slices of one rather than indices: numpy then copies bytes, and NaNs keep their bits.
        index = [slice(None)] * x.ndim
        index[batch_axis] = slice(batch, batch + 1)
        index[time_axis] = slice(time, time + 1)
        return tuple(index)

    assert lengths.shape == (x.shape[batch_axis],)
    y = x.copy()
    for batch, length in enumerate(lengths.tolist()):
        assert 0 <= length <= x.shape[time_axis]
        for time in range(length):
            y[step(batch, time)] = x[step(batch, length - 1 - time)]
    return y


def reverse_subsequences(data: Array, lengths: Array, *, axis: int) -> Array:
    """DirectML's REVERSE_SUBSEQUENCES, one element after the other."""
    axis %= data.ndim
    assert lengths.shape == tuple(1 if d == axis else size for d, size in enumerate(data.shape))
    output = data.copy()
    for index in np.ndindex(data.shape):
        before, position, after = index[:axis], index[axis], index[axis + 1 :]
        length = min(max(int(lengths[*before, 0, *after]), 0), data.shape[axis])
        if position < length:
            output[index] = data[*before, length - 1 - position, *after]
    return output


def gather_subsequences(data: Array, lengths: Array, *, axis: int) -> Array:
    """DirectML's REVERSE_SUBSEQUENCES as a gather, to hold the loop above against."""
    size = data.shape[axis]
    # Clipping against a uint64 limit would turn signed lengths into floats, so clip in objects.
    clamped = np.clip(lengths.astype(object), 0, size).astype(np.int64)
    along = [1] * data.ndim
    along[axis] = size
    position = np.arange(size).reshape(along)
    source = np.where(position < clamped, clamped - 1 - position, position)
    gathered: Array = np.take_along_axis(data, source, axis)
    return gathered


def lstm(x: Array, w: Array, r: Array, b: Array) -> Array:
    """A forward ONNX LSTM over time-major x in double precision: [time, batch, hidden]."""

    def sigmoid(v: Array) -> Array:
        result: Array = 1 / (1 + exp(-v))
        return result

    # Through Python's math: numpy's own loops may differ between processors.
    exp = np.vectorize(math.exp, otypes=[np.float64])
    tanh = np.vectorize(math.tanh, otypes=[np.float64])
    hidden_size = r.shape[-1]
    bias = b[0, : 4 * hidden_size].astype(np.float64) + b[0, 4 * hidden_size :]
    h = c = np.zeros((x.shape[1], hidden_size))
    steps = []
    for x_t in x.astype(np.float64):
        i, o, f, g = np.split(x_t @ w[0].T + h @ r[0].T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        steps.append(h)
    return np.stack(steps)


# --- Building blocks --------------------------------------------------------------------------


def ramp(shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
    """1, 2, 3, ...: every element is distinct, so that any misplaced one shows."""
    return np.arange(1, math.prod(shape) + 1).reshape(shape).astype(dtype)


def descending(batch: int, time: int) -> Array:
    """The lengths time, time - 1, ..., 1, 0, time, ... for a batch."""
    return np.array([(time - i) % (time + 1) for i in range(batch)], np.int64)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def elem_type(array: Array) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def parse(text: str, opset: int = OPSET, domain: str | None = None) -> ModelProto:
    """A model from the text syntax of ONNX, below the header that this adds."""
    imports = [helper.make_opsetid("", opset)]
    if domain is not None:
        imports.append(helper.make_opsetid(domain, 1))
    ir_version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    listed = ", ".join(f'"{entry.domain}" : {entry.version}' for entry in imports)
    header = f"<ir_version: {ir_version}, opset_import: [{listed}]>\n"
    return onnx.parser.parse_model(header + text)


def single_node(
    node: onnx.NodeProto,
    inputs: Values,
    output: Array,
    *,
    opset: int = OPSET,
    dims: Sequence[int | str] | None = None,
    length_dims: Sequence[int | str] | None = None,
    initialized: Sequence[str] = (),
) -> ModelProto:
    """A model of one node with the types of the given values.

    `dims` and `length_dims` are the declared shapes where they are not those of the values;
    inputs that are `initialized` become initializers.
    """
    first, lengths = inputs

    def declare(
        name: str, array: Array, declared: Sequence[int | str] | None
    ) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(
            name, elem_type(array), list(array.shape) if declared is None else declared
        )

    declared = {first: dims, lengths: length_dims}
    graph = helper.make_graph(
        [node],
        "graph",
        [declare(n, a, declared[n]) for n, a in inputs.items() if n not in initialized],
        [declare(node.output[0], output, dims)],
        [numpy_helper.from_array(inputs[name], name) for name in initialized],
    )
    imports = [helper.make_opsetid("", opset)]
    if node.domain:
        imports.append(helper.make_opsetid(node.domain, 1))
    return helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
    )


def reverse_sequence_case(
    path: str,
    shows: str,
    x: Array,
    lengths: Array,
    batch_axis: int = 1,
    time_axis: int = 0,
    *,
    attributes: Sequence[str] = ("batch_axis", "time_axis"),
    opset: int = OPSET,
    dims: Sequence[int | str] | None = None,
    length_dims: Sequence[int | str] | None = None,
    initialized: Sequence[str] = (),
    more: Sequence[tuple[Array, Array]] = (),
    oracle: Oracle = Oracle.ORT,
) -> Case:
    """One ReverseSequence node with those of its `attributes` written out.

    `more` holds the values of further data sets.
    """
    axes = {"batch_axis": batch_axis, "time_axis": time_axis}
    written: dict[str, Any] = {name: axes[name] for name in attributes}
    node = helper.make_node(
        "ReverseSequence", ["x", "sequence_lens"], ["y"], name="reverse", **written
    )
    sets = []
    for set_x, set_lengths in [(x, lengths), *more]:
        values = {"x": set_x, "sequence_lens": set_lengths}
        sets.append(
            DataSet(
                {name: value for name, value in values.items() if name not in initialized},
                {"y": reverse_sequence(set_x, set_lengths, **axes)},
            )
        )
    model = single_node(
        node,
        {"x": x, "sequence_lens": lengths},
        x,
        opset=opset,
        dims=dims,
        length_dims=length_dims,
        initialized=initialized,
    )
    return Case(path, shows, model, sets, oracle)


def reverse_subsequences_case(
    path: str, shows: str, data: Array, lengths: Array, axis: int
) -> Case:
    """One node of revseq's own ReverseSubsequences."""
    node = helper.make_node(
        "ReverseSubsequences",
        ["data", "sequence_lengths"],
        ["output"],
        name="reverse",
        domain="revseq",
        axis=axis,
    )
    inputs = {"data": data, "sequence_lengths": lengths}
    output = reverse_subsequences(data, lengths, axis=axis)
    expect_same(path, gather_subsequences(data, lengths, axis=axis), output)
    return Case(
        path,
        shows,
        single_node(node, inputs, output),
        [DataSet(inputs, {"output": output})],
        Oracle.GATHER,
    )


# --- The models -------------------------------------------------------------------------------


@functools.cache
def onnx_tests() -> Mapping[str, Any]:
    """ONNX's own tests of the operators that models are made of, by name."""
    from onnx.backend.test.case import node

    # As `collect_testcases` does for every operator, which takes seconds.
    for operator in ("gru", "loop", "lstm", "rangeop", "reversesequence", "rnn"):
        importlib.import_module(f"{node.__name__}.{operator}")
    return {case.name: case for case in node._NodeTestCases}


def backend_cases() -> Iterator[Case]:
    """ONNX's own tests of ReverseSequence."""
    shows = {
        "test_reversesequence_time": "ONNX's own test, time first",
        "test_reversesequence_batch": "ONNX's own test, batch first",
        "test_reversesequence_bfloat16": "ONNX's own test of bfloat16, which opset 28 adds",
    }
    found = onnx_tests()
    ours = (name for name in found if name.startswith("test_reversesequence"))
    assert set(ours) == shows.keys()
    for name, text in shows.items():
        model, data_sets = found[name].model, found[name].data_sets
        assert model is not None and data_sets is not None
        oracle = Oracle.REFERENCE_ORT_REFUSES
        if not name.endswith("bfloat16"):
            # ONNX writes these at its newest opset, which few runtimes load. They use nothing
            # that the operator's first opset and its IR lack.
            model.opset_import[0].version = 10
            model.ir_version = 5
            oracle = Oracle.ORT
        sets = []
        for inputs, outputs in data_sets:
            # ONNX spells some of the outputs as doubles where the model says float.
            declared = [
                output.astype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
                for output, info in zip(outputs, model.graph.output, strict=True)
            ]
            sets.append(
                DataSet(
                    dict(zip((i.name for i in model.graph.input), inputs, strict=True)),
                    dict(zip((o.name for o in model.graph.output), declared, strict=True)),
                )
            )
            attributes = {
                attribute.name: helper.get_attribute_value(attribute)
                for attribute in model.graph.node[0].attribute
            }
            expect_same(name, reverse_sequence(*inputs, **attributes), declared[0])
        yield Case(f"backend/{name}", text, model, sets, oracle)


def data_sets_of(test: Any) -> list[DataSet]:
    """The data sets of one of ONNX's tests."""

    def arrays(values: Sequence[Any]) -> Iterator[Array]:
        # ONNX writes some scalars as numpy's own, which are no arrays.
        return map(np.asarray, values)

    graph = test.model.graph
    return [
        DataSet(
            dict(zip((i.name for i in graph.input), arrays(inputs), strict=True)),
            dict(zip((o.name for o in graph.output), arrays(outputs), strict=True)),
        )
        for inputs, outputs in test.data_sets
    ]


def loops_cases() -> Iterator[Case]:
    """ONNX's own tests of Loop, and of functions that are expanded to one, on tensors."""
    shows = {
        "test_loop11": "ONNX's own test of Loop: a state, and its value at each step",
        "test_range_float_type_positive_delta_expanded": "ONNX's Range as a Loop, float32",
        "test_range_float16_type_positive_delta_expanded": "ONNX's Range as a Loop, float16",
        "test_range_int32_type_negative_delta_expanded": "ONNX's Range as a Loop, int32, downwards",
    }

    found = onnx_tests()
    for name, text in shows.items():
        model = found[name].model
        assert model is not None
        if name != "test_loop11":
            # ONNX writes these at its newest opset, which few runtimes load.
            model.opset_import[0].version = OPSET
            model.ir_version = 8
        yield Case(f"loops/{name}", text, model, data_sets_of(found[name]))


def recurrent_cases() -> Iterator[Case]:
    """ONNX's own tests of LSTM, GRU and RNN, whose weights are inputs."""
    for name, test in onnx_tests().items():
        layer = name.removeprefix("test_").removeprefix("simple_").split("_")[0].upper()
        # ONNX Runtime takes no batch before the time.
        if layer not in ("LSTM", "GRU", "RNN") or name.endswith("_batchwise"):
            continue
        # ONNX writes these at its newest opset, which few runtimes load.
        test.model.opset_import[0].version = OPSET
        test.model.ir_version = 8
        text = f"ONNX's own test of {layer}"
        yield Case(f"recurrent/{name}", text, test.model, data_sets_of(test), exact=False)


def page_cases() -> Iterator[Case]:
    """The worked examples of DirectML's page on REVERSE_SUBSEQUENCES."""
    data = ramp((1, 1, 3, 4))
    examples = [
        (1, 3, [[[[2], [4], [3]]]], [[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]]),
        (2, 2, [[[[2, 3, 1, 0]]]], [[[[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]]]),
    ]
    for number, axis, lengths, output in examples:
        for length_type in ("uint32", "uint64", "int32", "int64"):
            case = reverse_subsequences_case(
                f"page/example_{number}_{length_type}",
                f"example {number} of DirectML's page, {length_type} lengths",
                data,
                np.array(lengths, length_type),
                axis,
            )
            expect_same(case.path, case.sets[0].outputs["output"], np.array(output, np.float32))
            yield case


def subsequences_cases() -> Iterator[Case]:
    """More of revseq's ReverseSubsequences."""
    data = ramp((2, 3, 5))
    beyond = {
        "uint32": [5, 6, 2**32 - 1],
        "uint64": [5, 2**32 + 1, 2**64 - 1],
        "int32": [6, -1, -(2**31)],
        "int64": [2**63 - 1, 2**32 + 1, -(2**63)],
    }
    for length_type, values in beyond.items():
        lengths = np.array([[[v] for v in values], [[v] for v in reversed(values)]], length_type)
        yield reverse_subsequences_case(
            f"subsequences/clamped_{length_type}",
            f"{length_type} lengths above the axis, which clamp"
            + (", and below zero, which count as 0" if length_type.startswith("int") else ""),
            data,
            lengths,
            2,
        )
    yield reverse_subsequences_case(
        "subsequences/rank1", "rank 1: one length", ramp((7,)), np.array([5], np.uint32), 0
    )
    for axis in range(3):
        shape = [1 if d == axis else size for d, size in enumerate(data.shape)]
        lengths = descending(math.prod(shape), data.shape[axis]).reshape(shape).astype(np.uint32)
        yield reverse_subsequences_case(
            f"subsequences/rank3_axis{axis}",
            f"rank 3 along axis {axis}, with a length for every element beside it",
            data,
            lengths,
            axis,
        )
    yield reverse_subsequences_case(
        "subsequences/rank8",
        "rank 8, the most that DirectML takes",
        ramp((1, 2, 1, 3, 2, 2, 1, 2)),
        descending(16, 3).reshape(1, 2, 1, 1, 2, 2, 1, 2).astype(np.uint64),
        3,
    )
    yield reverse_subsequences_case(
        "subsequences/negative_axis",
        "an axis counted from the end",
        data,
        descending(10, 3).reshape(2, 1, 5).astype(np.uint32),
        -2,
    )
    for data_type in ("float16", "float64", "int8", "uint16", "int32", "uint64"):
        yield reverse_subsequences_case(
            f"subsequences/{data_type}",
            f"{data_type} data",
            ramp((3, 4, 5), data_type),
            descending(15, 4).reshape(3, 1, 5).astype(np.uint32),
            1,
        )
    between = parse(
        """
        graph (float[2,3,5] data, uint32[2,1,5] sequence_lengths) => (float[2,3,5] output) {
            [before] a = Neg(data)
            [reverse] b = revseq.ReverseSubsequences<axis = 1>(a, sequence_lengths)
            [after] output = Neg(b)
        }
        """,
        domain="revseq",
    )
    lengths = descending(10, 3).reshape(2, 1, 5).astype(np.uint32)
    inputs = {"data": data, "sequence_lengths": lengths}
    output = reverse_subsequences(data, lengths, axis=1)
    expect_same("subsequences/between_neg", gather_subsequences(data, lengths, axis=1), output)
    yield Case(
        "subsequences/between_neg",
        "between two standard operators, where it may work in place",
        between,
        [DataSet(inputs, {"output": output})],
        Oracle.GATHER,
    )


def shapes_cases() -> Iterator[Case]:
    """Ranks, axes and sizes of ReverseSequence."""
    shapes = [(5, 4), (5, 4, 3), (4, 5, 2, 3), (5, 4, 2, 1, 3), (4, 5, 2, 1, 2, 3)]
    for shape in shapes:
        for batch_axis in (0, 1):
            time_axis = 1 - batch_axis
            yield reverse_sequence_case(
                f"shapes/rank{len(shape)}_batch{batch_axis}_time{time_axis}",
                f"rank {len(shape)}, batch axis {batch_axis}, time axis {time_axis}",
                ramp(shape),
                descending(shape[batch_axis], shape[time_axis]),
                batch_axis,
                time_axis,
            )
    beyond = [
        ((3, 2, 5), 0, 2),
        ((2, 5, 3), 2, 1),
        ((5, 2, 3), 2, 0),
        ((2, 3, 5, 2), 1, 2),
        ((2, 3, 5, 4), 3, 2),
        ((2, 2, 4, 3, 5), 2, 4),
        ((2, 5, 2, 3, 4), 4, 1),
    ]
    for shape, batch_axis, time_axis in beyond:
        yield reverse_sequence_case(
            f"shapes/rank{len(shape)}_batch{batch_axis}_time{time_axis}",
            f"rank {len(shape)}, batch axis {batch_axis}, time axis {time_axis}: "
            "beyond ONNX's text",
            ramp(shape),
            descending(shape[batch_axis], shape[time_axis]),
            batch_axis,
            time_axis,
            oracle=Oracle.REFERENCE_ORT_REFUSES,
        )
    negative = [
        # ONNX Runtime's reading of any negative time axis happens to be right here.
        ((5, 4), -2, -1, Oracle.ORT),
        ((4, 5, 3), -2, -3, Oracle.REFERENCE_ORT_MISREADS),
        ((3, 2, 5), 0, -1, Oracle.REFERENCE_ORT_MISREADS),
        ((2, 3, 5, 4), -1, -2, Oracle.REFERENCE_ORT_MISREADS),
    ]
    for shape, batch_axis, time_axis, oracle in negative:
        names = [
            f"{name}{axis}".replace("-", "_minus")
            for name, axis in (("batch", batch_axis), ("time", time_axis))
        ]
        yield reverse_sequence_case(
            f"shapes/rank{len(shape)}_{'_'.join(names)}",
            f"axes counted from the end: rank {len(shape)}, batch axis {batch_axis}, "
            f"time axis {time_axis}",
            ramp(shape),
            descending(shape[batch_axis], shape[time_axis]),
            batch_axis,
            time_axis,
            oracle=oracle,
        )
    yield reverse_sequence_case(
        "shapes/default_axes",
        "both attributes left out: batch axis 1, time axis 0",
        ramp((5, 4, 2)),
        descending(4, 5),
        attributes=[],
    )
    yield reverse_sequence_case(
        "shapes/default_time_axis",
        "only the batch axis written out",
        ramp((5, 4, 2)),
        descending(4, 5),
        attributes=["batch_axis"],
    )
    yield reverse_sequence_case("shapes/zero_time", "no time steps", ramp((0, 3, 2)), i64(0, 0, 0))
    yield reverse_sequence_case("shapes/zero_batch", "an empty batch", ramp((0, 4, 2)), i64(), 0, 1)
    yield reverse_sequence_case(
        "shapes/zero_inner", "no elements within a time step", ramp((4, 3, 0)), i64(4, 2, 0)
    )
    yield reverse_sequence_case(
        "shapes/one_time", "a single time step", ramp((1, 3, 2)), i64(1, 0, 1)
    )
    yield reverse_sequence_case("shapes/one_batch", "a batch of one", ramp((9, 1, 3)), i64(7))
    yield reverse_sequence_case(
        "shapes/long_time",
        "a long contiguous time axis, whose lengths are no multiples of a vector",
        ramp((3, 301)),
        i64(301, 258, 31),
        0,
        1,
    )
    yield reverse_sequence_case(
        "shapes/wide_inner",
        "time steps wider than a vector, with a remainder",
        ramp((3, 4, 67)),
        i64(3, 2, 1, 0),
    )
    symbolic: list[tuple[str, str, list[int | str], list[tuple[int, ...]]]] = [
        (
            "symbolic_batch",
            "a batch size known only at run time",
            [5, "N", 2],
            [(5, 3, 2), (5, 7, 2)],
        ),
        (
            "symbolic_time",
            "a number of time steps known only at run time",
            ["T", 3, 2],
            [(4, 3, 2), (9, 3, 2)],
        ),
        (
            "symbolic_batch_time",
            "a batch size and a number of time steps known only at run time",
            ["T", "N", 2],
            [(4, 3, 2), (1, 6, 2), (9, 1, 2)],
        ),
    ]
    for name, shows, dims, set_shapes in symbolic:
        first, *more = [(ramp(shape), descending(shape[1], shape[0])) for shape in set_shapes]
        yield reverse_sequence_case(
            f"shapes/{name}", shows, *first, dims=dims, length_dims=[dims[1]], more=more
        )
    yield reverse_sequence_case(
        "shapes/symbolic_batch_major",
        "the same with the batch first",
        ramp((3, 4, 2)),
        descending(3, 4),
        0,
        1,
        dims=["N", "T", 2],
        length_dims=["N"],
        more=[(ramp((2, 7, 2)), descending(2, 7))],
    )


def lengths_cases() -> Iterator[Case]:
    """The values of the lengths, and where they come from."""
    x = ramp((5, 4, 2))
    yield reverse_sequence_case(
        "lengths/graph_input",
        "lengths fed with each run: two data sets",
        x,
        i64(5, 4, 3, 2),
        more=[(x, i64(0, 1, 2, 5))],
    )
    yield reverse_sequence_case(
        "lengths/initializer",
        "lengths stored in the model",
        x,
        i64(5, 0, 3, 2),
        initialized=["sequence_lens"],
    )
    yield reverse_sequence_case(
        "lengths/full_initializer",
        "stored lengths that make it a flip of the whole axis",
        x,
        i64(5, 5, 5, 5),
        initialized=["sequence_lens"],
    )
    yield reverse_sequence_case(
        "lengths/zeros_and_ones", "lengths that move nothing", x, i64(0, 1, 1, 0)
    )
    yield reverse_sequence_case(
        "lengths/zeros", "lengths of 0: everything is copied", x, i64(0, 0, 0, 0)
    )
    constant = parse(
        """
        graph (float[5,4,2] x) => (float[5,4,2] y) {
            [lengths] lens = Constant<value_ints = [2, 5, 0, 4]>()
            [reverse] y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lens)
        }
        """
    )
    yield Case(
        "lengths/constant_node",
        "lengths from a Constant node",
        constant,
        [DataSet({"x": x}, {"y": reverse_sequence(x, i64(2, 5, 0, 4))})],
    )
    int32 = parse(
        """
        graph (float[5,4,2] x, int32[4] lens) => (float[5,4,2] y) {
            [cast] wide = Cast<to = 7>(lens)
            [reverse] y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, wide)
        }
        """
    )
    yield Case(
        "lengths/cast_from_int32",
        "lengths that frameworks keep in int32",
        int32,
        [
            DataSet(
                {"x": x, "lens": i64(5, 1, 3, 0).astype(np.int32)},
                {"y": reverse_sequence(x, i64(5, 1, 3, 0))},
            )
        ],
    )
    flip = parse(
        """
        graph (float[T,N,2] x) => (float[T,N,2] y)
        <int64[1] zero = {0}, int64[1] one = {1}>
        {
            [shape] dims = Shape(x)
            [time] t = Gather(dims, zero)
            [batch] n = Gather(dims, one)
            [lengths] lens = Expand(t, n)
            [reverse] y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lens)
        }
        """
    )
    yield Case(
        "lengths/flip_chain",
        "lengths from Shape, Gather and Expand: how tf2onnx writes a flip of the time axis",
        flip,
        [
            DataSet({"x": data}, {"y": data[::-1].copy()})
            for data in (ramp((5, 4, 2)), ramp((1, 3, 2)), ramp((8, 1, 2)))
        ],
    )
    masked = parse(
        """
        graph (float[N,T,2] x, bool[N,T] mask) => (float[N,T,2] y)
        <int64[1] last = {-1}>
        {
            [cast] ones = Cast<to = 7>(mask)
            [sum] lens = ReduceSum<keepdims = 0>(ones, last)
            [reverse] y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lens)
        }
        """
    )
    sets = []
    for batch, time in ((4, 5), (2, 7)):
        lengths = descending(batch, time)
        values = ramp((batch, time, 2))
        sets.append(
            DataSet(
                {"x": values, "mask": np.arange(time) < lengths[:, np.newaxis]},
                {"y": reverse_sequence(values, lengths, batch_axis=0, time_axis=1)},
            )
        )
    yield Case("lengths/mask_sum", "lengths counted from a padding mask", masked, sets)


def types_cases() -> Iterator[Case]:
    """Every element type, along contiguous and along strided time."""
    shape = (5, 19)
    plain = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    plain += ["float16", "float32", "float64"]
    values = {name: ramp(shape, name) for name in plain}
    values |= {
        name: (ramp(shape) - 1j * ramp(shape)).astype(name) for name in ("complex64", "complex128")
    }
    values["bool"] = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
    values["bfloat16"] = ramp(shape, ml_dtypes.bfloat16)
    # An empty string, one beyond ASCII, and ones too long for string types to store inline.
    words = [f"word {i} " + "long " * (i % 9) for i in range(math.prod(shape))]
    words[0], words[1] = "", "späße 反転"
    values["string"] = np.array(words, object).reshape(shape)
    for name, x in values.items():
        model = two_axis_orders(x, opset=28 if name == "bfloat16" else OPSET)
        oracle = Oracle.ORT
        if name in ("complex64", "complex128", "bfloat16"):
            oracle = Oracle.REFERENCE_ORT_REFUSES
        shows = f"{name} elements"
        if name == "string":
            shows += ": empty, short, long and non-ASCII ones"
        yield Case(f"types/{name}", shows, model, [two_axis_orders_set(x)], oracle)
    for bits, quiet, signalling in (
        (16, 0x7E00, 0x7C00),
        (32, 0x7FC00000, 0x7F800000),
        (64, 0x7FF8000000000000, 0x7FF0000000000000),
    ):
        unsigned = np.dtype(f"uint{bits}")
        payload = np.arange(1, math.prod(shape) + 1).astype(unsigned).reshape(shape)
        payload |= np.where(payload % 2 == 0, quiet, signalling).astype(unsigned)
        payload |= np.where(payload % 3 == 0, 1 << (bits - 1), 0).astype(unsigned)
        x = payload.view(f"float{bits}")
        assert np.isnan(x).all()
        data_set = two_axis_orders_set(x)
        for output in data_set.outputs.values():
            assert set(output.view(unsigned).flat) == set(payload.flat)
        yield Case(
            f"types/nan_float{bits}",
            f"float{bits} NaNs, quiet and signalling, whose payloads must survive bit for bit",
            two_axis_orders(x),
            [data_set],
        )


def two_axis_orders(x: Array, opset: int = OPSET) -> ModelProto:
    """A model with one node of each axis order over the same input."""
    elem = TensorProto.DataType.Name(elem_type(x)).lower()
    rows, columns = x.shape
    dims = f"{elem}[{rows},{columns}]"
    return parse(
        f"""
        graph ({dims} x, int64[{rows}] row_lens, int64[{columns}] column_lens)
            => ({dims} by_row, {dims} by_column)
        {{
            [rows] by_row = ReverseSequence<batch_axis = 0, time_axis = 1>(x, row_lens)
            [columns] by_column = ReverseSequence<batch_axis = 1, time_axis = 0>(x, column_lens)
        }}
        """,
        opset,
    )


def two_axis_orders_set(x: Array) -> DataSet:
    rows, columns = x.shape
    row_lengths = i64(columns, columns - 1, 8, 1, 0)
    column_lengths = descending(columns, rows)
    return DataSet(
        {"x": x, "row_lens": row_lengths, "column_lens": column_lengths},
        {
            "by_row": reverse_sequence(x, row_lengths, batch_axis=0, time_axis=1),
            "by_column": reverse_sequence(x, column_lengths),
        },
    )


def opsets_cases() -> Iterator[Case]:
    """The same node at several opsets: two schemas, many IR versions."""
    for opset in (10, 13, 21, 26, 28):
        yield reverse_sequence_case(
            f"opsets/opset{opset}",
            f"opset {opset}"
            + {10: ", the operator's first", 28: ", its second schema"}.get(opset, ""),
            ramp((5, 4, 2)),
            descending(4, 5),
            opset=opset,
            oracle=Oracle.REFERENCE_ORT_REFUSES if opset > 26 else Oracle.ORT,
        )


def graphs_cases() -> Iterator[Case]:
    """The operator within larger graphs."""
    x, lengths = ramp((5, 4)), i64(5, 2, 0, 4)
    reversed_x = reverse_sequence(x, lengths)
    inputs = {"x": x, "lens": lengths}

    def case(
        name: str,
        shows: str,
        text: str,
        outputs: Values,
        inputs: Values = inputs,
        domain: str | None = None,
    ) -> Case:
        model = parse(text, domain=domain)
        return Case(f"graphs/{name}", shows, model, [DataSet(inputs, outputs)])

    yield case(
        "between_neg",
        "between two operators, where it may work in place",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] y) {
            [before] a = Neg(x)
            [reverse] b = ReverseSequence<batch_axis = 1, time_axis = 0>(a, lens)
            [after] y = Neg(b)
        }
        """,
        {"y": reversed_x},
    )
    yield case(
        "second_reader",
        "its input is read again afterwards and must be left alone",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] y, float[5,4] z) {
            [before] a = Neg(x)
            [reverse] b = ReverseSequence<batch_axis = 1, time_axis = 0>(a, lens)
            [after] y = Neg(b)
            [again] z = Add(a, b)
        }
        """,
        {"y": reversed_x, "z": -x - reversed_x},
    )
    yield case(
        "input_is_output",
        "its input is an output of the graph as well",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] a, float[5,4] y) {
            [before] a = Neg(x)
            [reverse] y = ReverseSequence<batch_axis = 1, time_axis = 0>(a, lens)
        }
        """,
        {"a": -x, "y": -reversed_x},
    )
    yield case(
        "twice_same_lengths",
        "two in a row that undo each other",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] y) {
            [forth] a = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lens)
            [back] y = ReverseSequence<batch_axis = 1, time_axis = 0>(a, lens)
        }
        """,
        {"y": x},
    )
    other = i64(3, 5, 4, 1)
    yield case(
        "twice_other_lengths",
        "two in a row that do not undo each other",
        """
        graph (float[5,4] x, int64[4] lens, int64[4] other) => (float[5,4] y) {
            [first] a = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lens)
            [second] y = ReverseSequence<batch_axis = 1, time_axis = 0>(a, other)
        }
        """,
        {"y": reverse_sequence(reversed_x, other)},
        {**inputs, "other": other},
    )
    batch_major = ramp((4, 5, 3))
    yield case(
        "transposed",
        "between two transposes",
        """
        graph (float[4,5,3] x, int64[4] lens) => (float[4,5,3] y) {
            [to_time_major] a = Transpose<perm = [1, 0, 2]>(x)
            [reverse] b = ReverseSequence<batch_axis = 1, time_axis = 0>(a, lens)
            [to_batch_major] y = Transpose<perm = [1, 0, 2]>(b)
        }
        """,
        {"y": reverse_sequence(batch_major, lengths, batch_axis=0, time_axis=1)},
        {"x": batch_major, "lens": lengths},
    )
    yield case(
        "unnamed_nodes",
        "nodes without names",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] y) {
            a = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lens)
            b = Neg(a)
            y = ReverseSequence<batch_axis = 1, time_axis = 0>(b, lens)
        }
        """,
        {"y": -x},
    )
    branch = parse(
        """
        graph (bool cond, float[5,4] x, int64[4] lens) => (float[5,4] y) {
            [choose] y = If(cond) <
                then_branch = reversed () => (float[5,4] a) {
                    [reverse] a = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lens)
                },
                else_branch = kept () => (float[5,4] b) {
                    [keep] b = Identity(x)
                }
            >
        }
        """
    )
    yield Case(
        "graphs/if_branch",
        "in a branch of If, over values of the outer graph",
        branch,
        [
            DataSet({"cond": np.array(True), **inputs}, {"y": reversed_x}),
            DataSet({"cond": np.array(False), **inputs}, {"y": x}),
        ],
    )
    state, states = x, []
    for _ in range(3):
        state = reverse_sequence(state, lengths) * np.float32(2)
        states.append(state)
    yield case(
        "loop_body",
        "in the body of Loop, over carried state",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] y, float[3,5,4] states)
        <int64 trips = {3}, bool go = {1}, float two = {2}>
        {
            [loop] y, states = Loop(trips, go, x) <
                body = step (int64 i, bool go_in, float[5,4] state)
                    => (bool go_out, float[5,4] state_out, float[5,4] scanned)
                {
                    [go_on] go_out = Identity(go_in)
                    [reverse] a = ReverseSequence<batch_axis = 1, time_axis = 0>(state, lens)
                    [double] state_out = Mul(a, two)
                    [scan] scanned = Identity(state_out)
                }
            >
        }
        """,
        {"y": state, "states": np.stack(states)},
    )
    frames, start = ramp((3, 5, 4)), np.zeros((5, 4), np.float32)
    reversed_frames = np.stack([reverse_sequence(frame, lengths) for frame in frames])
    yield case(
        "scan_body",
        "in the body of Scan, over slices",
        """
        graph (float[5,4] start, float[3,5,4] x, int64[4] lens)
            => (float[5,4] total, float[3,5,4] y)
        {
            [scan] total, y = Scan(start, x) <
                num_scan_inputs = 1,
                body = step (float[5,4] sum, float[5,4] frame)
                    => (float[5,4] sum_out, float[5,4] reversed)
                {
                    [reverse] reversed = ReverseSequence<batch_axis = 1, time_axis = 0>(frame, lens)
                    [add] sum_out = Add(sum, reversed)
                }
            >
        }
        """,
        {"total": reversed_frames.sum(axis=0), "y": reversed_frames},
        {"start": start, "x": frames, "lens": lengths},
    )
    yield case(
        "local_function",
        "in a function that the model defines",
        """
        graph (float[5,4] x, int64[4] lens) => (float[5,4] y) {
            [call] y = local.Backward(x, lens)
        }
        <domain: "local", opset_import: ["" : 17]>
        Backward (data, lengths) => (result) {
            [reverse] a = ReverseSequence<batch_axis = 1, time_axis = 0>(data, lengths)
            [negate] result = Neg(a)
        }
        """,
        {"y": -reversed_x},
        domain="local",
    )
    yield case(
        "local_function_attributes",
        "in a function that hands its attributes on",
        """
        graph (float[4,5,3] x, int64[4] lens) => (float[4,5,3] y) {
            [call] y = local.Backward<batch = 0, time = 1>(x, lens)
        }
        <domain: "local", opset_import: ["" : 17]>
        Backward <batch, time>(data, lengths) => (result) {
            [reverse] result = ReverseSequence<batch_axis: int = @batch, time_axis: int = @time>(
                data, lengths)
        }
        """,
        {"y": reverse_sequence(batch_major, lengths, batch_axis=0, time_axis=1)},
        {"x": batch_major, "lens": lengths},
        domain="local",
    )
    yield from bilstm_cases()


def forms_cases() -> Iterator[Case]:
    """Forms of ONNX that a runtime may not read as they are."""
    x, lengths = ramp((4, 5, 3)), i64(5, 2, 0, 4)
    by_batch = reverse_sequence(x, lengths, batch_axis=0, time_axis=1)
    inputs = {"x": x, "lens": lengths}

    yield Case(
        "forms/if_by_rank",
        "an If on an input's rank, whose other branch does not fit",
        parse(
            """
            graph (float[N,T,3] x, int64[N] lens) => (float[N,T,3] y)
            <int64 three = {3}, int64[1] first = {0}>
            {
                [shape] s = Shape(x)
                [rank] r = Size(s)
                [is_three] c = Equal(r, three)
                [either] y = If(c) <
                    then_branch = three_axes () => (float[N,T,3] a) {
                        [reverse] a = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lens)
                    },
                    else_branch = two_axes () => (float[M,N,T,3] b) {
                        [add_axis] b = Unsqueeze(x, first)
                    }
                >
            }
            """
        ),
        [DataSet(inputs, {"y": by_batch})],
    )
    yield Case(
        "forms/if_by_size",
        "an If on a size that is declared as 1, as PyTorch exports squeeze",
        parse(
            """
            graph (float[1,4,5,3] x, int64[4] lens) => (float[4,5,3] y)
            <int64 zero = {0}, int64 one = {1}, int64[1] axes = {0}>
            {
                [shape] s = Shape(x)
                [size] n = Gather(s, zero)
                [is_one] c = Equal(n, one)
                [squeeze] z = If(c) <
                    then_branch = drop () => (float[4,5,3] a) { [squeezed] a = Squeeze(x, axes) },
                    else_branch = keep () => (float[M,4,5,3] b) { [kept] b = Identity(x) }
                >
                [reverse] y = ReverseSequence<batch_axis = 0, time_axis = 1>(z, lens)
            }
            """
        ),
        [DataSet({"x": x[None], "lens": lengths}, {"y": by_batch})],
    )

    start = ramp((4, 3))
    counted = start[:, None] + np.cumsum(x, axis=1)
    yield Case(
        "forms/scan_version_8",
        "no reversal: a Scan of version 8, over the sequences of a batch",
        parse(
            """
            graph (float[4,3] start, float[4,5,3] x) => (float[4,3] last, float[4,5,3] y)
            {
                [scan] last, y = Scan(, start, x) <
                    num_scan_inputs = 1,
                    body = step (float[3] sum, float[3] frame) => (float[3] sum_out, float[3] out)
                    {
                        [add] sum_out = Add(sum, frame)
                        [stack] out = Identity(sum_out)
                    }
                >
            }
            """,
            opset=8,
        ),
        [DataSet({"start": start, "x": x}, {"last": counted[:, -1], "y": counted})],
    )

    scan = parse(
        """
        graph (float[4,3] start, float[4,5,3] x, int64[4] lens) => (float[4,3] last, float[5,4,3] y)
        {
            [reverse] r = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lens)
            [scan] last, y = Scan(start, r) <
                num_scan_inputs = 1,
                scan_input_axes = [1],
                scan_input_directions = [1],
                body = step (float[4,3] sum, float[4,3] frame)
                    => (float[4,3] sum_out, float[4,3] out)
                {
                    [add] sum_out = Add(sum, frame)
                    [stack] out = Identity(sum_out)
                }
            >
        }
        """
    )
    body = scan.graph.node[1].attribute[-1].g
    for value in (*body.input, *body.output):
        value.ClearField("type")
    backwards = start[:, None] + np.cumsum(by_batch[:, ::-1], axis=1)
    yield Case(
        "forms/scan_without_types",
        "a backward Scan whose body declares no types",
        scan,
        [
            DataSet(
                {"start": start, **inputs},
                {"last": backwards[:, -1], "y": backwards.transpose(1, 0, 2)},
            )
        ],
    )

    yield Case(
        "forms/list_in_loop",
        "a sequence that a Loop appends to, joined after it",
        parse(
            """
            graph (float[4,3] x, int64[4] lens, int64 steps) => (float[4,T,3] y)
            <bool true = {1}, float half = {0.5}>
            {
                [empty] none = SequenceEmpty()
                [loop] last, all = Loop(steps, true, x, none) <
                    body = step (int64 i, bool c, float[4,3] a, seq(float[4,3]) list)
                        => (bool c_out, float[4,3] a_out, seq(float[4,3]) list_out)
                    {
                        [go_on] c_out = Identity(c)
                        [halve] a_out = Mul(a, half)
                        [append] list_out = SequenceInsert(list, a_out)
                    }
                >
                [join] joined = ConcatFromSequence<axis = 1, new_axis = 1>(all)
                [reverse] y = ReverseSequence<batch_axis = 0, time_axis = 1>(joined, lens)
            }
            """
        ),
        [
            DataSet(
                {"x": x[:, 0], "lens": lengths, "steps": np.array(5)},
                {
                    "y": reverse_sequence(
                        x[:, :1] / np.float32(2) ** np.arange(1, 6, dtype=np.float32)[None, :, None],
                        lengths,
                        batch_axis=0,
                        time_axis=1,
                    )
                },
            )
        ],
    )
    yield Case(
        "forms/split_list",
        "an element of a SplitToSequence",
        parse(
            """
            graph (float[4,5,3] x, int64[4] lens) => (float[4,2,3] y, float[5,4,3] z)
            <int64 two = {2}, int64 middle = {1}>
            {
                [split] parts = SplitToSequence<axis = 1>(x, two)
                [part] a = SequenceAt(parts, middle)
                [shorter] l = Mod(lens, two)
                [reverse] y = ReverseSequence<batch_axis = 0, time_axis = 1>(a, l)
                [unbind] rows = SplitToSequence<axis = 1, keepdims = 0>(x)
                [stack] z = ConcatFromSequence<axis = 0, new_axis = 1>(rows)
            }
            """
        ),
        [
            DataSet(
                inputs,
                {
                    "y": reverse_sequence(x[:, 2:4], lengths % 2, batch_axis=0, time_axis=1),
                    "z": x.transpose(1, 0, 2),
                },
            )
        ],
    )
    yield Case(
        "forms/range_down",
        "a downward Range, as the expected order",
        parse(
            """
            graph (float[5,4] x, int64[4] lens) => (float[5,4] y, bool same)
            <int64 last = {4}, int64 end = {-1}, int64 step = {-1}, int64[4] whole = {5, 5, 5, 5}>
            {
                [down] places = Range(last, end, step)
                [gather] g = Gather<axis = 0>(x, places)
                [flip] f = ReverseSequence<batch_axis = 1, time_axis = 0>(x, whole)
                [compare] e = Equal(f, g)
                [count] i = Cast<to = 7>(e)
                [all] m = ReduceMin<keepdims = 0>(i)
                [is_same] same = Cast<to = 9>(m)
                [reverse] y = ReverseSequence<batch_axis = 1, time_axis = 0>(g, lens)
            }
            """
        ),
        [
            DataSet(
                {"x": ramp((5, 4)), "lens": lengths},
                {"y": reverse_sequence(ramp((5, 4))[::-1], lengths), "same": np.array(True)},
            )
        ],
    )

    # The front end of classifiers of birdsong: frames, the magnitudes of their spectra, mel bands.
    rng = np.random.default_rng(2)
    frames = (rng.integers(-8, 9, (1, 6, 16)) / 8).astype(np.float32)
    bands = (rng.integers(0, 9, (9, 5)) / 8).astype(np.float32)
    mel = np.abs(np.fft.rfft(frames.astype(np.float64), axis=2)) @ bands
    yield Case(
        "forms/dft_over_width",
        "the bands of spectra from a DFT along the third axis",
        parse(
            """
            graph (float[1,6,16] x, float[9,5] bands, int64[1] lens) => (float[1,6,5] y)
            <int64[1] last = {-1}>
            {
                [complex] a = Unsqueeze(x, last)
                [spectrum] b = DFT<axis = 2, onesided = 1>(a)
                [square] c = Mul(b, b)
                [power] d = ReduceSum<keepdims = 0>(c, last)
                [magnitude] e = Sqrt(d)
                [mel] f = MatMul(e, bands)
                [by_width] g = Transpose<perm = [2, 0, 1]>(f)
                [reverse] h = ReverseSequence<batch_axis = 1, time_axis = 0>(g, lens)
                [back] y = Transpose<perm = [1, 2, 0]>(h)
            }
            """
        ),
        [
            DataSet(
                {"x": frames, "bands": bands, "lens": i64(5)},
                {"y": mel[:, :, ::-1].astype(np.float32)},
            )
        ],
        exact=False,
    )

    a, w, z = ramp((4, 5, 3)) / np.float32(60), ramp((2, 3)) / np.float32(6), ramp((4, 5, 2))
    gelu = np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))))
    yield Case(
        "forms/fused",
        "operators of ONNX Runtime's optimiser",
        parse(
            """
            graph (float[4,5,3] x, int64[4] lens, float[2,3] w, float[4,5,2] z) => (float[4,5,2] y)
            {
                [reverse] a = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lens)
                [product] b = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(a, w)
                [add] c = Add(b, z)
                [gelu] y = com.microsoft.Gelu(c)
            }
            """,
            domain="com.microsoft",
        ),
        [
            DataSet(
                {"x": a, "lens": lengths, "w": w, "z": z},
                {
                    "y": gelu(
                        reverse_sequence(a, lengths, batch_axis=0, time_axis=1) @ w.T / 2 + z
                    ).astype(np.float32)
                },
            )
        ],
        exact=False,
    )


def bilstm_cases() -> Iterator[Case]:
    """Bidirectional LSTMs, built as exporters build them from two forward ones."""
    features, hidden = 3, 2
    rng = np.random.default_rng(1)

    def eighths(*shape: int) -> Array:
        return (rng.integers(-8, 9, shape) / 8).astype(np.float32)

    weights = {}
    for direction in ("forward", "backward"):
        weights[f"{direction}_w"] = eighths(1, 4 * hidden, features)
        weights[f"{direction}_r"] = eighths(1, 4 * hidden, hidden)
        weights[f"{direction}_b"] = eighths(1, 8 * hidden)

    def build(extra_input: str, lengths: str) -> ModelProto:
        model = parse(
            f"""
            graph (float[N,T,{features}] x{extra_input}) => (float[N,T,{2 * hidden}] y)
            <int64[1] one = {{1}}>
            {{
                [time_major] a = Transpose<perm = [1, 0, 2]>(x)
                {lengths}
                [forward] f_all = LSTM<hidden_size = {hidden}>(a, forward_w, forward_r, forward_b)
                [forward_squeeze] f = Squeeze(f_all, one)
                [reverse_in] b_in = ReverseSequence<batch_axis = 1, time_axis = 0>(a, lens)
                [backward] b_all =
                    LSTM<hidden_size = {hidden}>(b_in, backward_w, backward_r, backward_b)
                [backward_squeeze] b_out = Squeeze(b_all, one)
                [reverse_out] b = ReverseSequence<batch_axis = 1, time_axis = 0>(b_out, lens)
                [both] fb = Concat<axis = 2>(f, b)
                [batch_major] y = Transpose<perm = [1, 0, 2]>(fb)
            }}
            """
        )
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in weights.items()
        )
        return model

    def run(x: Array, lengths: Array) -> Array:
        time_major = x.transpose(1, 0, 2)
        f, b = (
            lstm(sequence, *(weights[f"{direction}_{part}"] for part in "wrb"))
            for direction, sequence in (
                ("forward", time_major),
                ("backward", reverse_sequence(time_major, lengths)),
            )
        )
        both = np.concatenate([f, reverse_sequence(b, lengths)], axis=2)
        return np.ascontiguousarray(both.transpose(1, 0, 2).astype(np.float32))

    flip = """
        [shape] dims = Shape(a)
        [zero] zero = Constant<value_ints = [0]>()
        [time] t = Gather(dims, zero)
        [batch] n = Gather(dims, one)
        [lengths] lens = Expand(t, n)
    """
    batches = [eighths(2, 6, features), eighths(3, 1, features), eighths(1, 9, features)]
    yield Case(
        "graphs/bilstm_flip",
        "a time-major BiLSTM whose backward half reads the flipped sequence",
        build("", flip),
        [
            DataSet({"x": x}, {"y": run(x, np.full(x.shape[0], x.shape[1], np.int64))})
            for x in batches
        ],
        exact=False,
    )
    yield Case(
        "graphs/bilstm_lengths",
        "a time-major BiLSTM over sequences of several lengths",
        build(", int64[N] lens", ""),
        [
            DataSet({"x": x, "lens": lengths}, {"y": run(x, lengths)})
            for x, lengths in zip(batches, (i64(6, 3), i64(1, 0, 1), i64(7)), strict=True)
        ],
        exact=False,
    )


GROUPS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "backend": backend_cases,
    "page": page_cases,
    "subsequences": subsequences_cases,
    "shapes": shapes_cases,
    "lengths": lengths_cases,
    "types": types_cases,
    "opsets": opsets_cases,
    "graphs": graphs_cases,
    "forms": forms_cases,
    "loops": loops_cases,
    "recurrent": recurrent_cases,
}

EXPORTED_SHOWS = {
    "keras_bilstm_masked": "Keras: two bidirectional LSTMs over masked input",
    "keras_gru_bidirectional": "Keras: a bidirectional GRU",
    "keras_gru_masked_backwards": "Keras: a backward GRU over masked input",
    "keras_lstm_backwards_states": "Keras: a backward LSTM that outputs its states",
    "keras_lstm_gru_simplernn": "Keras: LSTM, GRU without reset_after, SimpleRNN",
    "keras_lstm_stacked_masked": "Keras: two LSTMs over masked input",
    "keras_simplernn_bidirectional_masked": "Keras: a bidirectional SimpleRNN over masked input",
    "tf_beam_search": "TensorFlow: a beam search, whose loop carries a growing state",
    "tf_while_reverse_sequence": "TensorFlow: a while_loop over ReverseSequence",
    "tf_speech_bigru_timemajor": "TensorFlow: two time-major BiGRUs, lengths from a mask",
    "tf_axes_2_3": "TensorFlow: batch axis 3, time axes 2 and 1",
    "tflite_reverse_sequence": "TensorFlow Lite: REVERSE_SEQUENCE, batch first",
    "mxnet_sequence_reverse_encoder": "MXNet: two SequenceReverse, lengths cast from float",
}


# --- Verifying --------------------------------------------------------------------------------


def expect_same(what: str, actual: Array, expected: Array, *, exact: bool = True) -> None:
    """Fail unless type and shape are the same and the elements are so bit for bit, or nearly."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        raise AssertionError(
            f"{what}: {actual.dtype}{actual.shape} is not {expected.dtype}{expected.shape}"
        )
    if not exact:
        np.testing.assert_allclose(actual, expected, RTOL, ATOL, err_msg=what)
    elif actual.dtype == object:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
    elif actual.tobytes() != expected.tobytes():
        raise AssertionError(f"{what}: {actual} is not {expected}")


def open_session(model: ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # Unoptimized, the operator's own kernel runs: nothing is folded or fused away.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def verify(case: Case) -> None:
    """Check the model, and its expected outputs against the case's oracle."""
    onnx.checker.check_model(case.model, full_check=True)
    match case.oracle:
        case Oracle.ORT:
            verify_outputs(case, open_session(case.model).run)
        case Oracle.REFERENCE_ORT_REFUSES:
            expect_failure(f"ONNX Runtime loads {case.path}", lambda: open_session(case.model))
            verify_outputs(case, ReferenceEvaluator(case.model).run)
        case Oracle.REFERENCE_ORT_MISREADS:
            run = open_session(case.model).run
            expect_failure(f"ONNX Runtime agrees on {case.path}", lambda: verify_outputs(case, run))
            verify_outputs(case, ReferenceEvaluator(case.model).run)
        case Oracle.GATHER:
            pass  # Compared when the case was made: no runtime has the operator.


def verify_outputs(case: Case, run: Callable[[list[str], dict[str, Array]], Any]) -> None:
    for data_set in case.sets:
        actual = run(list(data_set.outputs), dict(data_set.inputs))
        for (name, expected), value in zip(data_set.outputs.items(), actual, strict=True):
            expect_same(f"{case.path}: {name}", value, expected, exact=case.exact)


def expect_failure(surprise: str, action: Callable[[], object]) -> None:
    """Fail if the action succeeds: the README's claim about ONNX Runtime is then outdated."""
    try:
        action()
    except Exception:  # Each of ONNX Runtime's status codes is an exception of its own.
        return
    raise AssertionError(surprise)


def load_set(folder: Path, kind: str, names: Sequence[str]) -> dict[str, Array]:
    """The tensors of one kind ("input" or "output") in a data set, by name."""
    tensors = [onnx.load_tensor(folder / f"{kind}_{i}.pb") for i in range(len(names))]
    assert [tensor.name for tensor in tensors] == list(names)
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


def exported_cases() -> Iterator[Case]:
    """The exporters' models, with the expected outputs that came with them.

    TensorFlow's axes beyond 1 run in no runtime, so no outputs came with that model: they are
    made here, from the two nodes it has.
    """
    for name, shows in EXPORTED_SHOWS.items():
        folder = HERE / EXPORTED / name
        model = onnx.load_model(folder / "model.onnx")
        runs_nowhere = name == "tf_axes_2_3"
        sets = []
        for set_folder in sorted(folder.glob("test_data_set_*")):
            inputs = load_set(set_folder, "input", [info.name for info in model.graph.input])
            output_names = [info.name for info in model.graph.output]
            if runs_nowhere:
                outputs = {
                    node.output[0]: reverse_sequence(
                        inputs["x"],
                        inputs["lens"].astype(np.int64),
                        **{a.name: helper.get_attribute_value(a) for a in node.attribute},
                    )
                    for node in model.graph.node
                    if node.op_type == "ReverseSequence"
                }
                assert list(outputs) == output_names
            else:
                outputs = load_set(set_folder, "output", output_names)
            sets.append(DataSet(inputs, outputs))
        oracle = Oracle.REFERENCE_ORT_REFUSES if runs_nowhere else Oracle.ORT
        yield Case(f"{EXPORTED}/{name}", shows, model, sets, oracle, exact=runs_nowhere)


# --- Writing ----------------------------------------------------------------------------------


def serialize(message: ModelProto | TensorProto) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def tensor_files(case: Case, kind: str) -> Iterator[tuple[str, bytes]]:
    for number, data_set in enumerate(case.sets):
        values = data_set.inputs if kind == "input" else data_set.outputs
        for i, (name, array) in enumerate(values.items()):
            tensor = numpy_helper.from_array(array, name)
            yield f"{case.path}/test_data_set_{number}/{kind}_{i}.pb", serialize(tensor)


def case_files(case: Case) -> Iterator[tuple[str, bytes]]:
    graph = case.model.graph
    for data_set in case.sets:
        assert list(data_set.inputs) == [info.name for info in graph.input]
        assert list(data_set.outputs) == [info.name for info in graph.output]
    yield f"{case.path}/model.onnx", serialize(case.model)
    yield from tensor_files(case, "input")
    yield from tensor_files(case, "output")


def table(cases: Sequence[Case]) -> str:
    """The README's table of all models."""
    rows = [
        f"| Model | Shows | Opset | Data sets | ONNX Runtime {ort.__version__}, CPU |",
        "|---|---|---|---|---|",
    ]
    for case in cases:
        opset = next(entry.version for entry in case.model.opset_import if not entry.domain)
        rows.append(
            f"| `{case.path}` | {case.shows} | {opset} | {len(case.sets)} | {case.oracle.value} |"
        )
    return "\n".join(rows) + "\n"


def make() -> dict[str, bytes]:
    """Every made file, verified: its path below this folder and its bytes."""
    files: dict[str, bytes] = {}
    cases = []
    for group in GROUPS.values():
        for case in group():
            # ONNX's own tests keep their producer; the rest state their purpose.
            if not case.model.producer_name:
                case.model.producer_name = "revseq"
                case.model.doc_string = case.shows
            verify(case)
            for path, data in case_files(case):
                assert path not in files, f"{path} is made twice"
                files[path] = data
            cases.append(case)
    for case in exported_cases():
        verify(case)
        if case.oracle is Oracle.REFERENCE_ORT_REFUSES:
            files |= tensor_files(case, "output")
        cases.append(case)
    before, rest = (HERE / README).read_text(encoding="utf-8").split(TABLE_BEGIN)
    _, after = rest.split(TABLE_END)
    files[README] = (before + TABLE_BEGIN + table(cases) + TABLE_END + after).encode()
    return files


def differences(files: Mapping[str, bytes]) -> Iterator[str]:
    """How the files on disk differ from the made ones, a line for each."""
    for path, data in files.items():
        on_disk = HERE / path
        if not on_disk.is_file():
            yield f"missing: {path}"
        elif on_disk.read_bytes() != data:
            yield f"differs: {path}"
    for group in GROUPS:
        for on_disk in sorted((HERE / group).rglob("*")):
            path = on_disk.relative_to(HERE).as_posix()
            if on_disk.is_file() and path not in files:
                yield f"not made: {path}"


def write(files: Mapping[str, bytes]) -> None:
    for group in GROUPS:
        shutil.rmtree(HERE / group, ignore_errors=True)
    for path, data in files.items():
        on_disk = HERE / path
        on_disk.parent.mkdir(parents=True, exist_ok=True)
        on_disk.write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files on disk")
    arguments = parser.parse_args()
    files = make()
    if not arguments.check:
        write(files)
        return 0
    found = list(differences(files))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
