"""Write the models that `cargo xtask bench-models` times into a folder, and print their names."""

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


def model(nodes: list, sizes: list, weights: dict) -> onnx.ModelProto:
    """Return a model from X, of these sizes, to Y."""
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


# The rows: a name, how its model is built, and the sizes for that.
ROWS = [
    *(
        (f"{kind} of {units}, batch {batch}", layer, (kind, units, batch, steps, 32))
        for kind in GATES
        for batch in (1, 8, 32)
        for units, steps in ((8, 1000), (16, 1000), (24, 1000), (32, 1000), (64, 1000), (128, 200), (256, 100))
    ),
    *(
        (f"DynamicQuantizeLSTM of {units}, batch 1", quantized_lstm, (units, 1, 100, 32))
        for units in (16, 64)
    ),
]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, build, sizes in ROWS:
        if all(part in name for part in sys.argv[2:]):
            onnx.save(build(*sizes), folder / f"{name}.onnx")
            print(name)


if __name__ == "__main__":
    main()
