"""Write models into a folder, for `revseq bench`, and print their names; those with all of some parts in them.

    python benches/models.py FOLDER LSTM "batch 8"
    revseq bench --threads 1 FOLDER/*.onnx
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The gates of each layer.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def random(*sizes: int) -> np.ndarray:
    """Return weights of which a state neither vanishes nor saturates."""
    return (np.random.default_rng(0).standard_normal(sizes) / sizes[-1] ** 0.5).astype(np.float32)


def layer(kind: str, units: int, batch: int, steps: int, features: int) -> onnx.ModelProto:
    """Return a model of one recurrent layer."""
    gates = GATES[kind]
    weights = {
        "W": random(1, gates * units, features),
        "R": random(1, gates * units, units),
        "B": random(1, 2 * gates * units),
    }
    node = helper.make_node(kind, ["X", *weights], ["Y"], hidden_size=units)
    return model([node], [steps, batch, features], weights)


def quantized_lstm(units: int, batch: int, steps: int, features: int) -> onnx.ModelProto:
    """Return a model of one LSTM with integers as weights."""
    rng = np.random.default_rng(0)
    weights = {}
    for name, inputs in (("W", features), ("R", units)):
        weights[name] = rng.integers(-127, 128, (1, inputs, 4 * units), np.int8)
    weights["B"] = random(1, 8 * units)
    for name, inputs in (("W", features), ("R", units)):
        weights[f"{name}_scale"] = np.array([inputs**-0.5 / 127], np.float32)
        weights[f"{name}_zero"] = np.array([0], np.int8)
    inputs = ["X", "W", "R", "B", "", "", "", "", *list(weights)[3:]]
    node = helper.make_node(
        "DynamicQuantizeLSTM", inputs, ["Y"], hidden_size=units, domain="com.microsoft"
    )
    return model([node], [steps, batch, features], weights)


def convolution(image: list, weights: list, **attributes) -> onnx.ModelProto:
    """Return a model of one convolution with a bias."""
    constants = {"W": random(*weights), "B": random(weights[0])}
    return model([helper.make_node("Conv", ["X", *constants], ["Y"], **attributes)], image, constants)


class Chain:
    """Nodes of which each reads what the one before wrote."""

    def __init__(self) -> None:
        self.nodes = []
        self.weights = {}
        self.last = "X"

    def then(self, operator: str, constants: dict = {}, **attributes) -> None:
        """Append a node, with these constants behind its input."""
        output = f"{operator}.{len(self.nodes)}"
        names = {f"{output}.{name}": value for name, value in constants.items()}
        self.weights.update(names)
        self.nodes.append(helper.make_node(operator, [self.last, *names], [output], **attributes))
        self.last = output

    def convolve(self, inputs: int, outputs: int, size: int, pad: int) -> None:
        """Append a convolution."""
        constants = {"W": random(outputs, inputs, size, size), "B": random(outputs)}
        self.then("Conv", constants, pads=[pad] * 4)

    def lstm(self, features: int, units: int) -> None:
        """Append a layer in both directions, from and to [steps, batch, features]."""
        constants = {"W": random(2, 4 * units, features), "R": random(2, 4 * units, units)}
        self.then("LSTM", constants, hidden_size=units, direction="bidirectional")
        self.then("Transpose", perm=[0, 2, 1, 3])
        self.then("Reshape", {"shape": np.array([0, 0, -1])})

    def model(self, sizes: list) -> onnx.ModelProto:
        """Return the model from X, of these sizes."""
        self.nodes[-1].output[0] = "Y"
        return model(self.nodes, sizes, self.weights)


def crnn(batch: int) -> onnx.ModelProto:
    """Return a model that reads text: seven convolutions of up to 512 channels, and two BiLSTMs."""
    chain = Chain()

    def convolve(*sizes: int) -> None:
        chain.convolve(*sizes)
        chain.then("Relu")

    halved = {"kernel_shape": [2, 2], "strides": [2, 2]}
    rows_halved = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [0, 1, 0, 1]}
    convolve(1, 64, 3, 1)
    chain.then("MaxPool", **halved)
    convolve(64, 128, 3, 1)
    chain.then("MaxPool", **halved)
    convolve(128, 256, 3, 1)
    convolve(256, 256, 3, 1)
    chain.then("MaxPool", **rows_halved)
    convolve(256, 512, 3, 1)
    convolve(512, 512, 3, 1)
    chain.then("MaxPool", **rows_halved)
    convolve(512, 512, 2, 0)
    chain.then("Squeeze", {"axes": np.array([2])})
    chain.then("Transpose", perm=[2, 0, 1])
    for _ in range(2):
        chain.lstm(512, 256)
    chain.then("MatMul", {"letters": random(512, 37)})
    return chain.model([batch, 1, 32, 128])


def crdnn(batch: int) -> onnx.ModelProto:
    """Return a model that hears speech: convolutions with channels last outside, and two BiLSTMs."""
    chain = Chain()
    bands = 40
    for inputs, outputs in ((1, 64), (64, 64), (64, 128), (128, 128)):
        chain.then("Transpose", perm=[0, 3, 2, 1])
        chain.convolve(inputs, outputs, 3, 1)
        chain.then("Transpose", perm=[0, 3, 2, 1])
        constants = {"scale": random(bands, outputs), "bias": random(bands, outputs)}
        chain.then("LayerNormalization", constants, axis=-2)
        chain.then("LeakyRelu")
        if inputs == outputs:
            chain.then("Transpose", perm=[0, 1, 3, 2])
            chain.then("MaxPool", kernel_shape=[1, 2], strides=[1, 2])
            chain.then("Transpose", perm=[0, 1, 3, 2])
            bands //= 2
    chain.then("Reshape", {"shape": np.array([0, 0, -1])})
    chain.then("Transpose", perm=[1, 0, 2])
    for features in (bands * 128, 512):
        chain.lstm(features, 256)
    chain.then("MatMul", {"tokens": random(512, 40)})
    return chain.model([batch, 200, 40, 1])


def pool(image: list, **attributes) -> onnx.ModelProto:
    """Return a model of one MaxPool."""
    return model([helper.make_node("MaxPool", ["X"], ["Y"], **attributes)], image, {})


def binary(operator: str, sizes: list, operand: list) -> onnx.ModelProto:
    """Return a model of a function of two operands, the second a constant of these sizes."""
    node = helper.make_node(operator, ["X", "C"], ["Y"])
    return model([node], sizes, {"C": random(*operand)})


def along(operator: str, sizes: list, **attributes) -> onnx.ModelProto:
    """Return a model of one operator that computes along axes."""
    # Opset 17 takes the axes of this one as an input.
    constants = {"axes": np.array(attributes.pop("axes"))} if operator == "ReduceSum" else {}
    node = helper.make_node(operator, ["X", *constants], ["Y"], **attributes)
    return model([node], sizes, constants)


def normalisation(sizes: list) -> onnx.ModelProto:
    """Return a model of a LayerNormalization in parts, as exporters write it before opset 17."""
    nodes = [
        helper.make_node("ReduceMean", ["X"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["X", "mean"], ["centered"]),
        helper.make_node("Pow", ["centered", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "epsilon"], ["shifted"]),
        helper.make_node("Sqrt", ["shifted"], ["deviation"]),
        helper.make_node("Div", ["centered", "deviation"], ["normal"]),
        helper.make_node("Mul", ["normal", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["Y"]),
    ]
    constants = {"two": np.float32(2), "epsilon": np.float32(1e-5)}
    constants |= {"scale": random(sizes[-1]), "bias": random(sizes[-1])}
    return model(nodes, sizes, {name: np.asarray(value) for name, value in constants.items()})


def statistics(sizes: list) -> onnx.ModelProto:
    """Return a model of a BatchNormalization of computed statistics, as Keras normalises layers."""
    nodes = [
        helper.make_node("ReduceMean", ["X"], ["mean"], axes=[0, 2, 3], keepdims=0),
        helper.make_node("Mul", ["X", "X"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["variance"], axes=[0, 2, 3], keepdims=0),
        helper.make_node("BatchNormalization", ["X", "scale", "bias", "mean", "variance"], ["Y"]),
    ]
    return model(nodes, sizes, {"scale": random(sizes[1]), "bias": random(sizes[1])})


def gelu(sizes: list) -> onnx.ModelProto:
    """Return a model of a Gelu in parts."""
    nodes = [
        helper.make_node("Div", ["X", "root"], ["scaled"]),
        helper.make_node("Erf", ["scaled"], ["error"]),
        helper.make_node("Add", ["error", "one"], ["shifted"]),
        helper.make_node("Mul", ["X", "shifted"], ["doubled"]),
        helper.make_node("Mul", ["doubled", "half"], ["Y"]),
    ]
    constants = {"root": 2**0.5, "one": 1.0, "half": 0.5}
    return model(nodes, sizes, {name: np.array(it, np.float32) for name, it in constants.items()})


def model(nodes: list, sizes: list, weights: dict) -> onnx.ModelProto:
    """Return a model from X, of these sizes, to Y."""
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, sizes)],
        [helper.make_empty_tensor_value_info("Y")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


# The convolutions in front of recurrent layers: a name, the sizes of an image and of the weights, and
# the attributes.
SAME = {"auto_pad": "SAME_UPPER"}
HALF = {**SAME, "strides": [2, 2]}
CONVOLUTIONS = [
    ("3x3, 1 to 64 channels of 32x128", [1, 32, 128], [64, 1, 3, 3], SAME),
    ("3x3, 64 to 64 channels of 32x128", [64, 32, 128], [64, 64, 3, 3], SAME),
    ("3x3, 64 to 128 channels of 16x64", [64, 16, 64], [128, 64, 3, 3], SAME),
    ("3x3, 128 to 128 channels of 8x64", [128, 8, 64], [128, 128, 3, 3], SAME),
    ("3x3 by 2, 64 to 128 channels of 32x128", [64, 32, 128], [128, 64, 3, 3], HALF),
    ("1x1, 64 to 128 channels of 32x128", [64, 32, 128], [128, 64, 1, 1], {}),
    ("5x5 by 2, each of 64 channels of 32x128", [64, 32, 128], [64, 1, 5, 5], {**HALF, "group": 64}),
    ("5, 40 to 128 channels of 400", [40, 400], [128, 40, 5], SAME),
]

# Maxima of images and of a signal: the sizes, and the attributes.
POOLS = [
    ("2x2 by 2", [1, 64, 32, 128], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("3x3 by 2", [1, 64, 32, 128], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("5x5", [1, 64, 16, 16], {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}),
    ("2 by 2", [1, 128, 4000], {"kernel_shape": [2], "strides": [2]}),
]

# Functions of two operands: the sizes of both.
BROADCASTS = [
    ("of each channel", [4, 64, 32, 32], [1, 64, 1, 1]),
    ("of each image", [16, 64, 32, 32], [16, 1, 32, 32]),
    ("along the last axis", [1, 64, 256, 1], [256, 16]),
    ("of each step", [32, 100, 64], [32, 100, 1]),
]

# Operators along axes: the sizes, and the attributes.
ALONG = [
    *(
        (f"{operator} {name}", operator, sizes, {"axes": axes})
        for operator in ("ReduceMax", "ReduceMean", "ReduceSum")
        for name, sizes, axes in (
            ("of rows", [8, 100, 256], [2]),
            ("of steps", [8, 100, 256], [1]),
            ("of images", [4, 64, 32, 32], [2, 3]),
        )
    ),
    ("GlobalMaxPool", "GlobalMaxPool", [4, 64, 32, 32], {}),
    ("ArgMax of rows", "ArgMax", [8, 100, 97], {"axis": -1}),
    *(
        (f"{operator} {name}", operator, sizes, {"axis": axis})
        for operator in ("Softmax", "LogSoftmax")
        for name, sizes, axis in (
            ("of 97", [8, 100, 97], -1),
            ("of 10", [800, 10], -1),
            ("of 100", [8, 4, 100, 100], -1),
            ("of 128", [1, 12, 128, 128], -1),
            ("of steps", [8, 100, 97], 1),
        )
    ),
    ("LogSoftmax of 1000", "LogSoftmax", [2000, 1000], {"axis": -1}),
    ("Exp", "Exp", [8, 100, 256], {}),
]

# The rows: a name, how its model is built, the sizes for that, and attributes if it takes any.
ROWS = [
    *(
        (f"{kind} of {units}, batch {batch}", layer, (kind, units, batch, steps, 32))
        for kind in GATES
        for batch in (1, 8, 32)
        for units, steps in ((8, 1000), (16, 1000), (24, 1000), (32, 1000), (64, 1000), (128, 200), (256, 100))
    ),
    # A step at a time, as speech is recognised while it is spoken.
    *(
        (f"{kind} of {units}, batch {batch}, 1 step", layer, (kind, units, batch, 1, units))
        for kind in GATES
        for batch in (1, 8, 32)
        for units in (8, 32, 128, 512)
    ),
    *((f"{kind} of 512, batch 1", layer, (kind, 512, 1, 100, 32)) for kind in GATES),
    *(
        (f"DynamicQuantizeLSTM of {units}, batch 1", quantized_lstm, (units, 1, 100, 32))
        for units in (16, 64)
    ),
    *(
        (f"Conv {name}, batch {batch}", convolution, ([batch, *image], weights), attributes)
        for name, image, weights, attributes in CONVOLUTIONS
        for batch in (1, 4)
    ),
    *((f"CRNN, batch {batch}", crnn, (batch,)) for batch in (1, 4)),
    *((f"CRDNN, batch {batch}", crdnn, (batch,)) for batch in (1, 8)),
    *((f"MaxPool {name}", pool, (image,), attributes) for name, image, attributes in POOLS),
    *(
        (f"{operator} {name}", binary, (operator, sizes, operand))
        for operator in ("Mul", "Div", "Less")
        for name, sizes, operand in BROADCASTS
    ),
    *((name, along, (operator, sizes), attributes) for name, operator, sizes, attributes in ALONG),
    *((f"LayerNormalization in parts, {rows} rows", normalisation, ([8, rows, 256],)) for rows in (16, 128)),
    ("BatchNormalization of computed statistics", statistics, ([1, 800, 128, 1],)),
    ("Gelu in parts", gelu, ([8, 100, 256],)),
]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, build, sizes, *attributes in ROWS:
        if all(part in name for part in sys.argv[2:]):
            onnx.save(build(*sizes, **(attributes[0] if attributes else {})), folder / f"{name}.onnx")
            print(name)


if __name__ == "__main__":
    main()
