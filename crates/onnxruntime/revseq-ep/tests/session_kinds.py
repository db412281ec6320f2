"""The kinds of sessions that people make, each as a change of a model, of options or of a run."""

import concurrent.futures
import dataclasses
import pathlib
import re
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import harness
from graphs import (
    copy_values,
    dims,
    hoist,
    nodes,
    rename,
    rename_reads,
    type_of,
    weights,
)
from session_models import Model

LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")

Run = Callable[[ort.InferenceSession, dict[str, np.ndarray]], list]


@dataclasses.dataclass
class Setup:
    """A model, and how a session of it is made and run."""

    model: Model
    folder: pathlib.Path
    source: str | bytes | None = None
    configure: list[Callable[[ort.SessionOptions], None]] = dataclasses.field(default_factory=list)
    run: Run = lambda made, feeds: made.run(None, feeds)
    #: The names of nodes beside the layers, which are not the provider's to run.
    others: set[str] = dataclasses.field(default_factory=set)

    @property
    def graph(self) -> onnx.GraphProto:
        return self.model.proto.graph

    def session(self, provider_options: dict | None) -> ort.InferenceSession:
        """A session with the provider, or a plain one."""
        options = harness.options(provider_options is not None, provider_options, threads=1)
        options.log_severity_level = 4
        for change in self.configure:
            change(options)
        return harness.session(self.source or self.model.proto, options)

    def give(self, name: str, kind: int, values: Callable[[int], np.ndarray]) -> None:
        """Adds an input, with a value for each run by its number."""
        self.graph.input.append(helper.make_tensor_value_info(name, kind, values(0).shape))
        for at, feeds in enumerate(self.model.feeds):
            feeds[name] = values(at)

    def add(self, text: str, *outputs: tuple[str, int]) -> None:
        """Adds nodes behind the others, and outputs."""
        for at, node in enumerate(onnx.parser.parse_graph("g () => () {" + text + "}").node):
            node.name = f"other_{at}"
            self.others.add(node.name)
            self.graph.node.append(node)
        for name, kind in outputs:
            self.graph.output.append(helper.make_tensor_value_info(name, kind, None))

    def add_constant(self, name: str, value) -> None:
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))

    def add_function(self, name: str, text: str) -> None:
        imports = self.model.proto.opset_import
        version = next(it.version for it in imports if not it.domain)
        head = f'<domain: "own", opset_import: ["": {version}]> {name}'
        self.model.proto.functions.append(onnx.parser.parse_function(f"{head} {text}"))
        imports.append(helper.make_opsetid("own", 1))

    def read(self) -> str:
        """The name of a value of a loop, or of a branch that has one, that others read."""
        known = {name for node in nodes(self.graph) for name in node.input}
        known |= {value.name for value in self.graph.output}
        for node in self.graph.node:
            if node.op_type in ("Loop", "Scan", "If"):
                return next(name for name in node.output if name in known)
        raise AssertionError("the model has no loop")

    def first_input(self) -> str:
        return self.graph.input[0].name

    def keep_first_sizes(self) -> None:
        """Leaves the runs that have the sizes of the first."""
        sizes = [[array.shape for array in feeds.values()] for feeds in self.model.feeds]
        self.model.feeds = [it for it, own in zip(self.model.feeds, sizes) if own == sizes[0]]


@dataclasses.dataclass
class Kind:
    change: Callable[[Setup], None]
    #: The models that it can be made of.
    applies: Callable[[Model], bool]


KINDS: dict[str, Kind] = {}


def kind(applies: Callable[[Model], bool] = lambda model: True):
    """Adds a kind under the name of the function that makes a session one of the kind."""

    def add(change: Callable[[Setup], None]) -> Callable[[Setup], None]:
        KINDS[change.__name__] = Kind(change, applies)
        return change

    return add


def has_weights(model: Model) -> bool:
    return bool(weights(model.proto.graph))


def has_open_sizes(model: Model) -> bool:
    return any(size.dim_param for it in model.proto.graph.input for size in dims(it))


def has_one_input(model: Model) -> bool:
    return len(model.proto.graph.input) == 1 and has_open_sizes(model)


def has_state(model: Model) -> bool:
    return {"start", "last"} <= {it.name for it in [*model.proto.graph.input, *model.proto.graph.output]}


# How the model gets to ONNX Runtime.


@kind()
def file(setup):
    setup.source = str(setup.folder / "model.onnx")
    onnx.save(setup.model.proto, setup.source)


@kind()
def in_memory(setup):
    """As bytes."""


@kind()
def external_data(setup):
    """All weights lie in a file of their own, and loops' bodies read them from the graph around."""
    hoist(setup.graph)
    for tensor in weights(setup.graph):
        onnx.external_data_helper.set_external_data(tensor, "weights.bin")
    written = onnx.external_data_helper.write_external_data_tensors(setup.model.proto, str(setup.folder))
    setup.source = str(setup.folder / "model.onnx")
    onnx.save(written, setup.source)


@kind(has_weights)
def external_data_that_a_branch_reads(setup):
    name = weights(setup.graph)[0].name
    setup.give("own_which", TensorProto.BOOL, lambda at: np.array(at % 2 == 0))
    setup.add(
        f"""own_chosen = If (own_which) <then_branch: graph = then () => (float[] twice) {{
            twice = Add ("{name}", "{name}") }},
        else_branch: graph = other () => (float[] negated) {{ negated = Neg ("{name}") }}>""",
        ("own_chosen", TensorProto.FLOAT),
    )
    external_data(setup)


@kind(has_weights)
def external_data_by_option(setup):
    """The session's options have the weights, and the file only their names."""
    names, values = [], []
    for tensor in weights(setup.graph):
        names.append(tensor.name)
        values.append(ort.OrtValue.ortvalue_from_numpy(numpy_helper.to_array(tensor)))
        onnx.external_data_helper.set_external_data(tensor, "nowhere.bin")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    setup.configure.append(lambda options: options.add_external_initializers(names, values))


def give_initializers(setup, factor):
    values = [
        (it.name, ort.OrtValue.ortvalue_from_numpy(numpy_helper.to_array(it) * np.float32(factor)))
        for it in weights(setup.graph)
    ]

    def add(options):
        for name, value in values:
            options.add_initializer(name, value)

    setup.configure.append(add)


@kind(has_weights)
def initializers_by_option(setup):
    """The session's options have the weights that the file has as well."""
    give_initializers(setup, 1)


@kind(has_weights)
def other_initializers_by_option(setup):
    """The session's options have other weights than the file."""
    give_initializers(setup, 0.5)


# What stands beside the loops.


@kind()
def function_beside(setup):
    setup.add_function("Same", "(a) => (b) { c = Neg (a) b = Neg (c) }")
    setup.add(f'own_same = own.Same ("{setup.first_input()}")', ("own_same", 0))
    setup.graph.output[-1].type.CopyFrom(setup.graph.input[0].type)


@kind()
def function_before(setup):
    setup.add_function("Same", "(a) => (b) { c = Neg (a) b = Neg (c) }")
    name = setup.first_input()
    rename_reads(setup.graph, {name: "own_same"})
    setup.graph.node.insert(0, helper.make_node("Same", [name], ["own_same"], domain="own"))


@kind()
def function_after(setup):
    setup.add_function("Wave", "(a) => (c) { b = Cast <to = 1> (a) c = Sin (b) }")
    setup.add(f'own_wave = own.Wave ("{setup.read()}")', ("own_wave", TensorProto.FLOAT))


@kind()
def function_around(setup):
    """The model is a function that the main graph calls."""
    graph, proto = setup.graph, setup.model.proto
    inputs, outputs = [it.name for it in graph.input], [it.name for it in graph.output]
    function = helper.make_function(
        "own", "All", inputs, outputs,
        [helper.make_node("Constant", [], [it.name], value=it) for it in graph.initializer]
        + list(graph.node),
        [it for it in proto.opset_import],
    )
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.append(helper.make_node("All", inputs, outputs, domain="own"))


@kind()
def operator_after(setup):
    """A product and an operator that is none of ONNX read the layer."""
    setup.model.proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    setup.add(
        f"""row = Cast <to = 1> ("{setup.read()}") flat = Flatten <axis = 0> (row)
        across = Transpose (flat)  product = MatMul (flat, across)
        own_gelu = com.microsoft.Gelu (product)""",
        ("own_gelu", TensorProto.FLOAT),
    )


@kind()
def branch_after(setup):
    """An If reads the layer."""
    setup.give("own_which", TensorProto.BOOL, lambda at: np.array(at % 2 == 0))
    value = setup.read()
    setup.add(
        f"""own_chosen = If (own_which) <then_branch: graph = then () => (float[] wave) {{
            number = Cast <to = 1> ("{value}")  wave = Sin (number) }},
        else_branch: graph = other () => (float[] raw) {{ raw = Cast <to = 1> ("{value}") }}>""",
        ("own_chosen", TensorProto.FLOAT),
    )


@kind()
def loop_after(setup):
    """A Loop that is no layer captures the layer's output, as a decoder does."""
    setup.add_constant("own_rounds", np.int64(3))
    setup.add_constant("own_begin", np.float32(0.5))
    setup.add(
        f"""own_waves = Loop (own_rounds, "", own_begin) <body: graph = body (int64 at, bool on, float s)
            => (bool goes_on, float next) {{
            number = Cast <to = 1> ("{setup.read()}")  mean = ReduceMean <keepdims = 0> (number)
            moved = Add (s, mean)  next = Sin (moved)  goes_on = Identity (on) }}>""",
        ("own_waves", TensorProto.FLOAT),
    )


@kind()
def attribute_of_a_type(setup):
    setup.add(
        "own_none = Optional <type: type_proto = float[1]> ()  own_has = OptionalHasElement (own_none)",
        ("own_has", TensorProto.BOOL),
    )


@kind()
def strings_beside(setup):
    setup.add_constant("some_words", np.array(["one", "two", "three"], object))
    setup.add_constant("start_of_shape", np.array([0]))
    setup.add_constant("count_of_words", np.array([3]))
    setup.add(
        f"""sizes_of_input = Shape ("{setup.first_input()}")
        a_size = Gather <axis = 0> (sizes_of_input, start_of_shape)
        place = Mod (a_size, count_of_words)  own_word = Gather <axis = 0> (some_words, place)""",
        ("own_word", TensorProto.STRING),
    )


@kind()
def in_both_branches(setup):
    """Two branches have the same nodes, of the same names."""
    graph = setup.graph
    branch = onnx.GraphProto(name="branch", node=graph.node, output=graph.output)
    outputs = [it.name for it in graph.output]
    del graph.node[:]
    setup.give("own_which", TensorProto.BOOL, lambda at: np.array(at % 2 == 0))
    graph.node.append(
        helper.make_node(
            "If", ["own_which"], [f"{it}_of_if" for it in outputs], then_branch=branch, else_branch=branch
        )
    )
    for output in graph.output:
        output.name += "_of_if"


# What the file says of its values.


@kind()
def names_that_are_no_text(setup):
    """Names are bytes that are no UTF-8, and would be the same name if such bytes were left out."""
    own = {it.name for it in [*setup.graph.input, *setup.graph.output]}
    names = {it for node in nodes(setup.graph) for it in node.output if it}
    names |= {it.name for it in setup.graph.initializer}
    rename(setup.graph, {it: f"LATIN{at:04}" for at, it in enumerate(sorted(names - own))})
    for at, node in enumerate(nodes(setup.graph)):
        node.name = f"LATIN{at:04}"
    # Python's protobuf takes no such bytes.
    latin = lambda found: b"LATIN" + bytes(digit | 0xF0 for digit in found[1])
    setup.source = re.sub(rb"LATIN(\d{4})", latin, setup.model.proto.SerializeToString())


@kind(has_open_sizes)
def stale_sizes(setup):
    """Values between nodes have the sizes that the last run has."""
    # Else ONNX Runtime makes constants of them, and the graph is another one.
    level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    setup.configure.append(lambda options: setattr(options, "graph_optimization_level", level))
    fixed = onnx.ModelProto()
    fixed.CopyFrom(setup.model.proto)
    for value in fixed.graph.input:
        value.type.CopyFrom(type_of(setup.model.feeds[-1][value.name]))
    copy_values(onnx.shape_inference.infer_shapes(fixed).graph, setup.graph)


@kind(has_open_sizes)
def declared_sizes(setup):
    """The inputs are declared with the sizes of the first run."""
    setup.keep_first_sizes()
    for value in setup.graph.input:
        value.type.CopyFrom(type_of(setup.model.feeds[0][value.name]))


@kind(has_open_sizes)
def sizes_by_option(setup):
    setup.keep_first_sizes()
    for value in setup.graph.input:
        sizes = setup.model.feeds[0][value.name].shape
        for size, declared in zip(sizes, value.type.tensor_type.shape.dim, strict=True):
            if declared.dim_param:
                change = lambda it, name=declared.dim_param, size=size: (
                    it.add_free_dimension_override_by_name(name, size)
                )
                setup.configure.append(change)


# The session's options.


#: Options change little in how a model is read: a few models go through them.
SOME = {"loop", "in_a_branch", "beside_a_map_of_words", "keras_bilstm_masked", "jax", "tensorflow1"}


def option(name: str, change: Callable[[ort.SessionOptions], None]) -> None:
    KINDS[name] = Kind(
        lambda setup: setup.configure.append(change), lambda model: model.name in SOME
    )


for _level in LEVELS:
    _value = getattr(ort.GraphOptimizationLevel, f"ORT_{_level}")
    option(
        f"level_{_level.lower()}",
        lambda options, value=_value: setattr(options, "graph_optimization_level", value),
    )
for _threads in (2, 4):
    option(
        f"threads_{_threads}",
        lambda options, threads=_threads: setattr(options, "intra_op_num_threads", threads),
    )
for _name in ("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse"):
    option(f"no_{_name}", lambda options, name=_name: setattr(options, name, False))
for _key in (
    "session.disable_prepacking",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.disable_aot_function_inlining",
    "session.strict_shape_type_inference",
    "session.set_denormal_as_zero",
):
    option(
        _key.removeprefix("session."),
        lambda options, key=_key: options.add_session_config_entry(key, "1"),
    )


@kind()
def parallel_execution(setup):
    def change(options):
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2

    setup.configure.append(change)


# How it is run.


@kind()
def one_output(setup):
    name = setup.graph.output[-1].name
    setup.run = lambda made, feeds: made.run([name], feeds)


@kind()
def two_sessions(setup):
    """Another session of the model is open and runs, too."""
    make, second = setup.session, {}

    def both(provider_options):
        made = make(provider_options)
        second[made] = make(provider_options)
        return made

    setup.session = both
    setup.run = lambda made, feeds: made.run(None, feeds) + second[made].run(None, feeds)


@kind()
def from_four_threads(setup):
    def run(made, feeds):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = [pool.submit(made.run, None, feeds) for _ in range(8)]
        return [output for result in results for output in result.result()]

    setup.run = run


@kind(has_one_input)
def no_elements(setup):
    """An input has no sequences, or no steps."""
    (value,) = setup.graph.input
    array = setup.model.feeds[0][value.name]
    open_axes = [axis for axis, size in enumerate(dims(value)) if size.dim_param]
    setup.model.feeds = [
        {value.name: array.take([], axis)} for axis in open_axes
    ]


@kind()
def bound_outputs(setup):
    """Outputs are bound to memory that is there, in each run the same."""

    def run(made, feeds):
        binding = made.io_binding()
        results = [ort.OrtValue.ortvalue_from_numpy(it) for it in made.run(None, feeds)]
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for output, result in zip(made.get_outputs(), results, strict=True):
            result.update_inplace(np.zeros_like(result.numpy()))
            binding.bind_ortvalue_output(output.name, result)
        made.run_with_iobinding(binding)
        return [result.numpy() for result in results]

    setup.run = run


@kind(has_state)
def state_in_place(setup):
    """The new state is written where the old one is, as streaming models do."""

    def run(made, feeds):
        binding = made.io_binding()
        state = ort.OrtValue.ortvalue_from_numpy(feeds["start"].copy())
        binding.bind_cpu_input("x", feeds["x"])
        binding.bind_ortvalue_input("start", state)
        binding.bind_ortvalue_output("last", state)
        binding.bind_output("y")
        results = []
        for _ in range(3):
            made.run_with_iobinding(binding)
            results += [state.numpy().copy(), binding.get_outputs()[1].numpy()]
        return results

    setup.run = run
