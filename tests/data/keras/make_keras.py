"""Keras' recurrent layers, exported by tf2onnx, with the outputs that Keras gives.

    pip install tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0 onnx==1.23.2 onnxruntime==1.31.1
    python make_keras.py FOLDER
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import onnxruntime as ort
import tensorflow as tf
import tf2onnx
from keras import layers
from onnx import numpy_helper

FEATURES, UNITS = 3, 2

CELLS = {
    "lstm": lambda **k: layers.LSTM(UNITS, **k),
    "gru": lambda **k: layers.GRU(UNITS, **k),
    "gru_before": lambda **k: layers.GRU(UNITS, reset_after=False, **k),
    "simplernn": lambda **k: layers.SimpleRNN(UNITS, **k),
}


# Ways, and whether all steps are returned. The last is made without a mask alone.
VARIANTS = [
    ("forward", False),
    ("backward", True),
    ("bidirectional", True),
    ("bidirectional", False),
]


def one_layer(cell, way, sequences, masked):
    if way == "bidirectional":
        layer = layers.Bidirectional(CELLS[cell](return_sequences=sequences))
    else:
        layer = CELLS[cell](return_sequences=sequences, go_backwards=way == "backward")
    return [layers.Masking()] * masked + [layer]


def stacked(cell):
    return [
        CELLS[cell](return_sequences=True),
        layers.Bidirectional(CELLS[cell](return_sequences=True)),
        CELLS[cell](),
    ]


def export(folder, name, stack, sizes, opset, dtype="float32", vocabulary=None):
    """Writes a model and two data sets; padded behind the steps if the model masks."""
    seed = sum(map(ord, name))
    keras.utils.set_random_seed(seed)
    given = keras.Input(sizes, dtype=dtype)
    result = given
    for layer in stack:
        result = layer(result)
    model = keras.Model(given, result)
    rng = np.random.default_rng(seed)
    # Biases are zeros at first.
    model.set_weights(
        [
            w if w.any() else rng.uniform(-0.5, 0.5, w.shape).astype(w.dtype)
            for w in model.get_weights()
        ]
    )
    spec = (tf.TensorSpec((None, None) + sizes[1:], getattr(tf, dtype), name="x"),)
    function = tf.function(lambda x: model(x, training=False), input_signature=spec)
    proto, _ = tf2onnx.convert.from_function(function, input_signature=spec, opset=opset)
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    data = proto.SerializeToString(deterministic=True)
    with open(os.path.join(path, "model.onnx"), "wb") as file:
        file.write(data)
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    (x_name,), (y_name,) = ([v.name for v in vs] for vs in (proto.graph.input, proto.graph.output))
    for number, (batch, steps) in enumerate([(1, 4), (3, 6)]):
        if vocabulary:
            x = rng.integers(1, vocabulary, (batch, steps)).astype(dtype)
        else:
            x = rng.standard_normal((batch, steps) + sizes[1:]).astype("float32")
        if vocabulary or isinstance(stack[0], layers.Masking):
            for row in range(batch):
                x[row, steps - 2 * row * number :] = 0
        y = model(x, training=False).numpy()
        np.testing.assert_allclose(session.run(None, {x_name: x})[0], y, 1e-4, 1e-5)
        set_path = os.path.join(path, f"test_data_set_{number}")
        os.makedirs(set_path)
        for kind, array, value in ("input", x, x_name), ("output", y, y_name):
            tensor = numpy_helper.from_array(array, value)
            with open(os.path.join(set_path, f"{kind}_0.pb"), "wb") as file:
                file.write(tensor.SerializeToString(deterministic=True))


def main(folder):
    embedded = [
        layers.Embedding(5, 3, mask_zero=True),
        layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True)),
        layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True)),
        layers.Dense(2),
    ]
    export(folder, "embedding_bilstm_masked", embedded, (None,), 15, "int32", 5)
    for cell in CELLS:
        for masked in False, True:
            end, opset = ("_masked", 15) if masked else ("", 17)
            for way, sequences in VARIANTS[: 3 if masked else 4]:
                name = f"{cell}_{way}_{'sequences' if sequences else 'last'}{end}"
                stack = one_layer(cell, way, sequences, masked)
                export(folder, name, stack, (None, FEATURES), opset)
    export(folder, "gru_stacked", stacked("gru"), (None, FEATURES), 17)


if __name__ == "__main__":
    main(*sys.argv[1:])
