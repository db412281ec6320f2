"""Recurrent layers as their frameworks' exporters write them, with the frameworks' outputs.

    pip install tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0 jax jax2onnx==0.17.1 onnx==1.23.2
    python make_layers.py FOLDER
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from keras import layers
from onnx import numpy_helper

FEATURES, UNITS = 3, 2
KINDS = ["full", "right", "left", "broken", "empty"]


def steps_that_count(kind, batch, steps, rng):
    """[batch, steps]: padded behind, in front, anywhere, and in one sequence everywhere."""
    counts = np.ones((batch, steps), bool)
    for row in range(batch):
        if kind == "right":
            counts[row, max(steps - 1 - row, 0) :] = False
        elif kind == "left":
            counts[row, : min(row + 1, steps)] = False
    if kind == "broken":
        counts = rng.random((batch, steps)) < 0.5
    elif kind == "empty":
        counts[0] = False
        counts[1:, 0] = False
    return counts


def write(folder, name, proto, sets):
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    with open(os.path.join(path, "model.onnx"), "wb") as file:
        file.write(proto.SerializeToString(deterministic=True))
    for number, (inputs, outputs) in enumerate(sets):
        folder_of_set = os.path.join(path, f"test_data_set_{number}")
        os.makedirs(folder_of_set)
        for kind, arrays, infos in (
            ("input", inputs, proto.graph.input),
            ("output", outputs, proto.graph.output),
        ):
            for index, (array, info) in enumerate(zip(arrays, infos, strict=True)):
                tensor = numpy_helper.from_array(np.asarray(array), info.name)
                with open(os.path.join(folder_of_set, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(tensor.SerializeToString(deterministic=True))
    print(name, flush=True)


def export(folder, name, model, steps=None, masked=False, states=0):
    """Writes a model of a sequence, and of `states` states that it begins with."""
    rng = np.random.default_rng(sum(map(ord, name)))
    # Biases are zeros at first.
    weights = [
        w if w.any() else rng.uniform(-0.5, 0.5, w.shape).astype(w.dtype)
        for w in model.get_weights()
    ]
    model.set_weights(weights)
    signature = [tf.TensorSpec((None, steps, FEATURES), tf.float32, name="x")]
    signature += [tf.TensorSpec((None, UNITS), tf.float32, name=f"s{i}") for i in range(states)]

    def run(*inputs):
        return model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)

    function = tf.function(run, input_signature=signature)
    proto, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=17)
    sets = []
    for kind in KINDS if masked else KINDS[:1] * 2:
        batch, length = (3 if sets else 1), steps or (6 if sets else 4)
        counts = steps_that_count(kind, batch, length, rng)
        x = rng.standard_normal((batch, length, FEATURES)) * counts[:, :, None]
        inputs = [x] + [rng.standard_normal((batch, UNITS)) for _ in range(states)]
        inputs = [array.astype("float32") for array in inputs]
        outputs = run(*map(tf.constant, inputs))
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        sets.append((inputs, [array.numpy() for array in outputs]))
    write(folder, name, proto, sets)


def stack(*layers_of_stack, steps=None):
    given = result = keras.Input((steps, FEATURES))
    for layer in layers_of_stack:
        result = layer(result)
    return keras.Model(given, result)


def both(cell, **options):
    return layers.Bidirectional(cell(UNITS, return_sequences=True), **options)


def states_of(cell, masked):
    """All states of a layer, which the next begins with."""
    given = keras.Input((None, FEATURES))
    x = layers.Masking()(given) if masked else given
    first = cell(UNITS, return_sequences=True, return_state=True)(x)
    second = cell(UNITS, return_sequences=True, return_state=True)(x, initial_state=first[1:])
    return keras.Model(given, list(first) + list(second))


def given_states():
    given, h, c = keras.Input((None, FEATURES)), keras.Input((UNITS,)), keras.Input((UNITS,))
    layer = layers.LSTM(UNITS, return_sequences=True, return_state=True, go_backwards=True)
    return keras.Model([given, h, c], list(layer(layers.Masking()(given), initial_state=[h, c])))


def attention():
    given = keras.Input((None, FEATURES))
    x = both(layers.GRU)(layers.Masking()(given))
    return keras.Model(given, layers.Attention()([x, x]))


def of_keras(folder):
    def activated(layer, name, **options):
        return layer(UNITS, activation=name, return_sequences=True, **options)

    masking = layers.Masking
    export(folder, "keras_fixed", stack(both(layers.GRU), layers.LSTM(UNITS), steps=5), 5)
    export(
        folder,
        "keras_fixed_masked",
        stack(masking(), both(layers.LSTM), both(layers.SimpleRNN), steps=5),
        5,
        masked=True,
    )
    export(
        folder,
        "keras_dense_masked",
        stack(masking(), layers.Dense(4, "relu"), both(layers.LSTM), layers.Dense(2)),
        masked=True,
    )
    export(folder, "keras_normalized", stack(layers.LayerNormalization(), both(layers.GRU)))
    for mode in "sum", "ave", "mul":
        model = stack(masking(), both(layers.LSTM, merge_mode=mode))
        export(folder, f"keras_merged_{mode}", model, masked=True)
    cell = layers.GRUCell(UNITS)
    layer = layers.RNN(cell, return_sequences=True, zero_output_for_mask=True)
    export(folder, "keras_zero_output", stack(masking(), layer), masked=True)
    cells = [layers.LSTMCell(UNITS), layers.GRUCell(3)]
    model = stack(masking(), layers.RNN(cells, return_sequences=True))
    export(folder, "keras_stacked_cells", model, masked=True)
    export(folder, "keras_states_masked", states_of(layers.LSTM, True), masked=True)
    export(folder, "keras_states", states_of(layers.GRU, False))
    export(folder, "keras_given_states", given_states(), masked=True, states=2)
    export(folder, "keras_attention", attention(), masked=True)
    model = stack(
        activated(layers.LSTM, "softsign", recurrent_activation="hard_sigmoid"),
        activated(layers.GRU, "elu", recurrent_activation="hard_sigmoid"),
        activated(layers.SimpleRNN, "relu"),
        activated(layers.SimpleRNN, "linear"),
        activated(layers.LSTM, "softplus"),
    )
    export(folder, "keras_activations", model)


def of_tensorflow_1(folder):
    """Scans: bidirectional_dynamic_rnn of two cells, one after the other."""
    # Public names of these are gone since Keras 3.
    from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cell
    from tensorflow.python.ops import rnn

    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, None, FEATURES], "x")
        lengths = v1.placeholder(tf.int32, [None], "l")

        def lstm():
            return cell.LSTMCell(UNITS, use_peepholes=True)

        def two():
            return cell.MultiRNNCell([cell.GRUCell(UNITS), cell.BasicRNNCell(UNITS)])

        y = x
        for scope, make in ("one", lstm), ("two", two):
            with v1.variable_scope(scope):
                both_ways, _ = rnn.bidirectional_dynamic_rnn(
                    make(), make(), y, lengths, dtype=tf.float32
                )
                y = tf.concat(both_ways, 2)
        y = tf.identity(y, "y")
        with v1.Session(graph=graph) as session:
            v1.set_random_seed(1)
            session.run(v1.global_variables_initializer())
            names = ["x:0", "l:0"], ["y:0"]
            frozen = tf2onnx.tf_loader.freeze_session(
                session, input_names=names[0], output_names=names[1]
            )
            rng = np.random.default_rng(1)
            sets = []
            for batch, steps in (1, 4), (3, 6):
                given = rng.standard_normal((batch, steps, FEATURES)).astype("float32")
                of_each = rng.integers(0, steps + 1, batch).astype("int32")
                sets.append(([given, of_each], [session.run(y, {x: given, lengths: of_each})]))
    proto, _ = tf2onnx.convert.from_graph_def(
        frozen, input_names=names[0], output_names=names[1], opset=17
    )
    write(folder, "tensorflow1", proto, sets)


def of_lite(folder):
    """TensorFlow Lite, which knows all sizes."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    sizes = (2, 4, FEATURES)
    model = stack(both(layers.LSTM), steps=sizes[1])
    function = tf.function(
        lambda x: model(x, training=False), input_signature=[tf.TensorSpec(sizes, name="x")]
    )
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    path = os.path.join(folder, "lite.tflite")
    with open(path, "wb") as file:
        file.write(converter.convert())
    proto, _ = tf2onnx.convert.from_tflite(path, opset=17)
    os.remove(path)
    x = np.random.default_rng(1).standard_normal(sizes).astype("float32")
    write(folder, "lite", proto, [([x], [function(x).numpy()])])


def of_jax(folder):
    """lax.scan: weights that are carried, and the steps' outputs in a list."""
    import jax
    from jax import numpy as jnp
    from jax2onnx import to_onnx

    rng = np.random.default_rng(1)
    w, r = (rng.uniform(-0.5, 0.5, (n, 4 * UNITS)).astype("float32") for n in (FEATURES, UNITS))
    bias = rng.uniform(-0.5, 0.5, 4 * UNITS).astype("float32")

    def run(x):
        def step(states, now):
            h, c = states
            i, f, g, o = jnp.split(now @ w + h @ r + bias, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        begin = jnp.zeros((x.shape[1], UNITS), x.dtype)
        return jax.lax.scan(step, (begin, begin), x)[1]

    proto = to_onnx(run, inputs=[(5, "B", FEATURES)], model_name="lstm")
    x = rng.standard_normal((5, 3, FEATURES)).astype("float32")
    write(folder, "jax", proto, [([x], [run(x)])])


def main(folder):
    keras.utils.set_random_seed(1)
    of_keras(folder)
    of_lite(folder)
    of_jax(folder)
    # Its settings apply from there on.
    of_tensorflow_1(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
