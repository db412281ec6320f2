"""Loops that are no layers, as programs of their steps: ``loops=steps``."""

import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import harness
from test_terminate import check, long_feeds

STEPS = {"loops": "steps"}
#: Whether ONNX Runtime hands on what a loop's body reads of the graphs around it: other loops stay.
HANDS_ON = harness.HOST >= (1, 27)
RANDOM = np.random.default_rng(5)


def model(text: str) -> bytes:
    """A model of ONNX's text, of opset 17."""
    parsed = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}')
    onnx.checker.check_model(parsed)
    return parsed.SerializeToString()


def ours(bytes_: bytes, threads=1):
    options = harness.options(provider_options=STEPS, threads=threads)
    return ort.InferenceSession(bytes_, options)


def plain(bytes_: bytes):
    return ort.InferenceSession(bytes_, harness.options(ep=False, threads=1))


def taken(session) -> int:
    """How many loops of a session the provider has."""
    operators = harness.assigned(session).get(harness.EP, [])
    return sum(operator in ("Loop", "Scan") for operator in operators)


def same(session, reference, feeds, bound=1e-5):
    expected = reference.run(None, feeds)
    for actual, expected in zip(session.run(None, feeds), expected, strict=True):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        if actual.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, rtol=bound, atol=bound)
        else:
            np.testing.assert_array_equal(actual, expected)


def floats(*sizes):
    return RANDOM.standard_normal(sizes).astype(np.float32)


AVERAGE = """
average (float[N] h0, float[T, N] x, float[N] a) => (float[N] last, float[T, N] all, float[N, T] back) {
  last, all, back = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [0, 1],
    scan_output_directions = [0, 1], body = step (float[N] h, float[N] row)
      => (float[N] next, float[N] made, float[N] half) {
        part = Mul(a, h)
        next = Add(part, row)
        made = Identity(next)
        two = Constant <value = float {2.0}> ()
        half = Div(next, two)
      }> (h0, x)
}
"""

LIST = """
list (float[B, T, N] x, float[B, N] h0) => (float[S, N] rows) {
  steps = Shape <start = 1, end = 2> (x)
  scalar = Constant <value_ints = [0]> ()
  most = Squeeze(steps, scalar)
  true = Constant <value = bool {1}> ()
  empty = SequenceEmpty()
  last, made = Loop <body = step (int64 i, bool on, float[B, N] h, seq(float[B, N]) all)
    => (bool go, float[B, N] next, seq(float[B, N]) more) {
      go = Identity(on)
      row = Gather <axis = 1> (x, i)
      sum = Add(h, row)
      next = Tanh(sum)
      more = SequenceInsert(all, next)
    }> (most, true, h0, empty)
  rows = ConcatFromSequence <axis = 0> (made)
}
"""

WHILE = """
while (float h0, int64 most) => (float last, int64 steps, float[S] all) {
  true = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  last, steps, all = Loop <body = step (int64 i, bool on, float h, int64 n)
    => (bool go, float next, int64 more, float seen) {
      rate = Constant <value = float {1.3}> ()
      limit = Constant <value = float {100.0}> ()
      one = Constant <value = int64 {1}> ()
      next = Mul(h, rate)
      go = Less(next, limit)
      more = Add(n, one)
      seen = Identity(next)
    }> (most, true, h0, zero)
}
"""

DELTA = """
delta (float[H, T, K] q, float[H, T, K] k, float[H, T, V] v, float[H, T] g, float[H, T] b, float[H, K, V] s0)
  => (float[H, K, V] last, float[T, H, V] all) {
  steps = Shape <start = 1, end = 2> (q)
  scalar = Constant <value_ints = [0]> ()
  most = Squeeze(steps, scalar)
  true = Constant <value = bool {1}> ()
  last, all = Loop <body = step (int64 i, bool on, float[H, K, V] s) => (bool go, float[H, K, V] next, float[H, V] o) {
      go = Identity(on)
      gi = Gather <axis = 1> (g, i)
      bi = Gather <axis = 1> (b, i)
      ki = Gather <axis = 1> (k, i)
      vi = Gather <axis = 1> (v, i)
      qi = Gather <axis = 1> (q, i)
      ends = Constant <value_ints = [1, 2]> ()
      one = Constant <value_ints = [1]> ()
      two = Constant <value_ints = [2]> ()
      power = Exp(gi)
      wide = Unsqueeze(power, ends)
      faded = Mul(s, wide)
      column = Unsqueeze(ki, two)
      row = Unsqueeze(ki, one)
      found = MatMul(row, faded)
      known = Squeeze(found, one)
      miss = Sub(vi, known)
      rate = Unsqueeze(bi, one)
      change = Mul(miss, rate)
      right = Unsqueeze(change, one)
      outer = Mul(column, right)
      next = Add(faded, outer)
      asked = Unsqueeze(qi, one)
      read = MatMul(asked, next)
      o = Squeeze(read, one)
    }> (most, true, s0)
}
"""

GREEDY = """
greedy (float[V, N] table, float[N, V] out, int64[B] first, int64 most) => (int64[S, B] words) {
  true = Constant <value = bool {1}> ()
  last, words = Loop <body = step (int64 i, bool on, int64[B] word) => (bool go, int64[B] next, int64[B] seen) {
      go = Identity(on)
      rows = Gather(table, word)
      scores = MatMul(rows, out)
      next = ArgMax <axis = 1, keepdims = 0> (scores)
      seen = Identity(next)
    }> (most, true, first)
}
"""

GROWING = """
growing (float[N, K] x, int64 most) => (float[M, K] last, float[S, K] sums) {
  true = Constant <value = bool {1}> ()
  zero = Constant <value_ints = [0]> ()
  last, sums = Loop <body = step (int64 i, bool on, float[L, K] h) => (bool go, float[M, K] next, float[K] sum) {
      go = Identity(on)
      first = Constant <value_ints = [0]> ()
      sum = ReduceSum <keepdims = 0> (h, first)
      row = Unsqueeze(sum, first)
      next = Concat <axis = 0> (h, row)
    }> (most, true, x)
}
"""

SHIFT = """
shift (float[T, N] x, float[N] a0, float[N] b0, bool[T, N] mask) => (float[N] a, float[N] b, bool[T, N] over) {
  a, b, over = Scan <num_scan_inputs = 2, body = step (float[N] p, float[N] q, float[N] row, bool[N] m)
      => (float[N] r, float[N] old, bool[N] large) {
        sum = Add(p, q)
        mean = Sub(sum, row)
        r = Where(m, mean, p)
        old = Identity(p)
        large = Greater(r, old)
      }> (a0, b0, x, mask)
}
"""


def feeds_of(name, size=1):
    """Feeds of a model, of some sizes."""
    steps, lanes = 7 * size, 5 + size
    match name:
        case "average":
            return {"h0": floats(lanes), "x": floats(steps, lanes), "a": floats(lanes) / 2}
        case "list":
            return {"x": floats(2, steps, lanes), "h0": floats(2, lanes)}
        case "while":
            return {"h0": np.array(1 + size, np.float32), "most": np.array(30)}
        case "delta":
            heads, keys, values = 2, 8 * size, 20 + size
            return {
                "q": floats(heads, steps, keys),
                "k": floats(heads, steps, keys) / 4,
                "v": floats(heads, steps, values),
                "g": -np.abs(floats(heads, steps)),
                "b": np.abs(floats(heads, steps)),
                "s0": floats(heads, keys, values),
            }
        case "greedy":
            return {
                "table": floats(9, lanes),
                "out": floats(lanes, 9),
                "first": np.arange(size + 1, dtype=np.int64),
                "most": np.array(steps),
            }
        case "growing":
            return {"x": floats(size, 3), "most": np.array(4)}
    mask = RANDOM.random([steps, lanes]) < 0.5
    return {"x": floats(steps, lanes), "a0": floats(lanes), "b0": floats(lanes), "mask": mask}


MODELS = {
    "average": AVERAGE,
    "list": LIST,
    "while": WHILE,
    "delta": DELTA,
    "greedy": GREEDY,
    "growing": GROWING,
    "shift": SHIFT,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_loop_runs_as_a_program(name):
    bytes_ = model(MODELS[name])
    session, reference = ours(bytes_), plain(bytes_)
    assert taken(session) == (HANDS_ON or name not in ("average", "delta", "greedy"))
    # Other sizes need another program, and find the first again.
    for size in (1, 2, 1):
        same(session, reference, feeds_of(name, size))


@pytest.mark.parametrize("name", ["greedy", "while"])
def test_no_steps_leave_the_states_as_they_are(name):
    feeds = feeds_of(name) | {"most": np.array(0)}
    bytes_ = model(MODELS[name])
    actual, expected = ours(bytes_).run(None, feeds), plain(bytes_).run(None, feeds)
    for one, other in zip(actual, expected, strict=True):
        # Of what no step has made, ONNX Runtime knows the declared sizes alone.
        assert one.size == other.size
        np.testing.assert_array_equal(one.ravel(), other.ravel())


def test_a_scan_of_no_rows_is_answered():
    # ONNX Runtime itself refuses it.
    feeds = feeds_of("shift")
    feeds["x"], feeds["mask"] = feeds["x"][:0], feeds["mask"][:0]
    a, b, over = ours(model(SHIFT)).run(None, feeds)
    np.testing.assert_array_equal(a, feeds["a0"])
    np.testing.assert_array_equal(b, feeds["b0"])
    assert over.shape == (0, 6)


def test_an_index_out_of_range_is_an_error_and_the_next_run_is_right():
    bytes_ = model(GREEDY)
    session = ours(bytes_)
    feeds = feeds_of("greedy")
    wrong = feeds | {"first": np.array([3, 9], np.int64)}
    words = "index 9 is out of range: expected -9 to 8" if HANDS_ON else "out of data bounds"
    with pytest.raises(Exception, match=words):
        session.run(None, wrong)
    same(session, plain(bytes_), feeds)


def test_what_is_not_a_number_stays_so():
    bytes_ = model(AVERAGE)
    feeds = feeds_of("average")
    feeds["x"][2, 1], feeds["x"][3, 2] = np.nan, np.inf
    same(ours(bytes_), plain(bytes_), feeds)


def test_a_run_ends_within():
    session = ours(model(AVERAGE))
    lanes = 64

    def make(size):
        return {"h0": floats(lanes), "x": floats(size * 20, lanes), "a": floats(lanes) / 2}

    feeds, whole = long_feeds(session, make)
    check(session, feeds, whole)


def test_threads_that_share_a_product_change_no_bit():
    text = """
wide (float[2, 1200] h0, float[T, 2, 1200] x) => (float[2, 1200] last, float[T, 2, 1200] all) {
  last, all = Scan <num_scan_inputs = 1, body = step (float[2, 1200] h, float[2, 1200] row)
    => (float[2, 1200] next, float[2, 1200] made) {
      product = MatMul(h, w)
      sum = Add(product, row)
      next = Tanh(sum)
      made = Identity(next)
    }> (h0, x)
}"""
    read = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}')
    weights = floats(1200, 1200) / 35
    read.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    bytes_ = read.SerializeToString()
    feeds = {"h0": floats(2, 1200), "x": floats(9, 2, 1200)}
    sessions = [ours(bytes_, threads) for threads in (1, 2, 3)]
    assert [taken(session) for session in sessions] == [1, 1, 1]
    one, *others = (session.run(None, feeds) for session in sessions)
    for other in others:
        for actual, expected in zip(other, one, strict=True):
            np.testing.assert_array_equal(actual, expected)
    same(sessions[0], plain(bytes_), feeds, 1e-4)


def test_the_report_says_why_a_loop_is_no_program(package):
    text = SHIFT.replace("mean = Sub(sum, row)", "raw = Sub(sum, row)\n        mean = Celu(raw)")
    session = package.create_session(model(text), loops="steps")
    assert [str(it.to) for it in package.report(session).taken] == ["a program of its steps"]
    text = text.replace("Celu", "Shrink")
    (left,) = package.report(package.create_session(model(text), loops="steps")).left
    assert left.reason == "it is no program: its Shrink node is none that programs have"


def cell(operator: str, steps: int, **attributes) -> bytes:
    """A Loop whose body has a layer of one or some steps and other nodes."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    states = ["h", "c"] if operator == "LSTM" else ["h"]
    each = lambda text: ", ".join(text.replace("*", state) for state in states)
    written = ", ".join(f"{name} = {json.dumps(it)}" for name, it in {"hidden_size": 6, **attributes}.items())
    made = harness.parsed(f"""(int64 most, float[5,{steps},2,4] xs, {each("float[1,2,6] *0")})
        => ({each("float[1,2,6] last_*")}, float[t,{steps},1,2,6] all) {{
        {each("last_*")}, all = Loop (most, "", {each("*0")}) <body: graph = step
            (int64 i, bool on, {each("float[1,2,6] *")})
            => (bool go, {each("float[1,2,6] next_*")}, float[{steps},1,2,6] out) {{
            x = Gather (xs, i)
            y, {each("next_*")} = {operator} <{written}> (x, w, r, b, "", {each("*")})
            out = Softsign (y)  go = Identity (on) }}> }}""")
    sizes = {"w": [1, gates * 6, 4], "r": [1, gates * 6, 6], "b": [1, 2 * gates * 6]}
    weights = [onnx.numpy_helper.from_array(floats(*it), name) for name, it in sizes.items()]
    made.graph.node[0].attribute[0].g.initializer.extend(weights)
    onnx.checker.check_model(made)
    return made.SerializeToString()


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LSTM", {}),
        ("LSTM", {"direction": "reverse"}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": 1}),
        ("RNN", {"direction": "reverse"}),
        ("RNN", {"activations": ["Relu", "Tanh"], "clip": -1.0}),
        ("LSTM", {"activations": ["HardSigmoid", "Softsign", "Relu"], "activation_alpha": [0.3]}),
        ("GRU", {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.1], "linear_before_reset": 1}),
    ],
)
def test_a_layer_in_a_step_is_part_of_the_program(operator, attributes, steps):
    bytes_ = cell(operator, steps, **attributes)
    session = ours(bytes_)
    assert taken(session) == HANDS_ON
    feeds = {"most": np.array(5), "xs": floats(5, steps, 2, 4), "h0": floats(1, 2, 6), "c0": floats(1, 2, 6)}
    same(session, plain(bytes_), {it.name: feeds[it.name] for it in session.get_inputs()})


BRANCHES = """
branches (float[T, N] x, float[N] h0, int64 few) => (float[N] last, float[T, N] all) {
  scalar = Constant <value_ints = [0]> ()
  steps = Shape <start = 0, end = 1> (x)
  most = Squeeze(steps, scalar)
  true = Constant <value = bool {1}> ()
  last, all = Loop <body = step (int64 i, bool on, float[N] h) => (bool go, float[N] next, float[N] made) {
      go = Identity(on)
      row = Gather(x, i)
      total = ReduceSum <keepdims = 0> (h)
      zero = Constant <value = float {0.0}> ()
      is_more = Greater(total, zero)
      zeros = Constant <value_ints = [0]> ()
      end = Unsqueeze(few, zeros)
      part = If <then_branch = some () => (float[K] one) { one = Slice(row, zeros, end, zeros) },
                 else_branch = all () => (float[K] other) { other = Identity(row) }> (is_more)
      mean = ReduceMean <keepdims = 0> (part)
      sum = Add(h, mean)
      next = Sin(sum)
      made = Identity(next)
    }> (most, true, h0)
}
"""


def test_where_values_allow_no_program_the_loop_itself_runs():
    """A value whose size depends on a step has no place in a program."""
    bytes_ = model(BRANCHES)
    session, reference = ours(bytes_), plain(bytes_)
    assert taken(session) == HANDS_ON
    for steps, few in ((6, 4), (6, 2), (0, 2), (9, 3)):
        feeds = {"x": floats(steps, 4), "h0": floats(4), "few": np.array(few)}
        same(session, reference, feeds)


CONVOLUTION = """
convolution (float[1, 4, 6, 6] h0, float[4, C, 3, 3] w, int64 most) => (float[1, 4, 6, 6] last) {
  true = Constant <value = bool {1}> ()
  last = Loop <body = step (int64 i, bool on, float[1, 4, 6, 6] h) => (bool go, float[1, 4, 6, 6] next) {
      go = Identity(on)
      sum = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = GROUP> (h, w)
      next = Tanh(sum)
    }> (most, true, h0)
}
"""


@pytest.mark.parametrize("group", [1, 4])
def test_what_onnx_runtime_computes_in_less_time_stays(group):
    bytes_ = model(CONVOLUTION.replace("GROUP", str(group)).replace("C,", f"{4 // group},"))
    session = ours(bytes_)
    assert taken(session) == (HANDS_ON and group == 4)
    feeds = {"h0": floats(1, 4, 6, 6), "w": floats(4, 4 // group, 3, 3) / 9, "most": np.array(5)}
    same(session, plain(bytes_), feeds)


NESTED = """
nested (float[N] row0, int64 rows) => (float[N] last) {
  true = Constant <value = bool {1}> ()
  last = Loop <body = row (int64 i, bool on, float[N] prev) => (bool go, float[N] next) {
      go = Identity(on)
      size = Shape(prev)
      scalar = Constant <value_ints = [0]> ()
      most = Squeeze(size, scalar)
      zero = Constant <value = float {0.0}> ()
      half = Constant <value = float {0.5}> ()
      COLUMNS
      next = Tanh(all)
    }> (rows, true, row0)
}
"""
SCANNED = """
      sum, all = Loop <body = column (int64 j, bool still, float s) => (bool goes, float t, float made) {
          goes = Identity(still)
          here = Gather(prev, j)
          part = Mul(s, half)
          t = Add(part, here)
          made = Identity(t)
        }> (most, true, zero)
"""
LISTED = """
      empty = SequenceEmpty()
      sum, list = Loop <body = column (int64 j, bool still, float s, seq(float) before)
        => (bool goes, float t, seq(float) after) {
          goes = Identity(still)
          here = Gather(prev, j)
          part = Mul(s, half)
          t = Add(part, here)
          after = SequenceInsert(before, t)
        }> (most, true, zero, empty)
      all = ConcatFromSequence <axis = 0, new_axis = 1> (list)
"""


@pytest.mark.parametrize("columns", [SCANNED, LISTED], ids=["scanned", "listed"])
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_a_loop_in_a_loop_is_one_program_with_it(columns, level):
    """ONNX Runtime asks for the nodes of the inner graph first, and fuses the inner loop."""
    bytes_ = model(NESTED.replace("COLUMNS", columns))
    options = harness.options(provider_options=STEPS, threads=1)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(bytes_, options)
    if HANDS_ON:
        assert taken(session) == 2
    for size, rows in ((5, 3), (1, 4), (5, 0), (7, 1)):
        same(session, plain(bytes_), {"row0": floats(size), "rows": np.array(rows)})


GROWING = """
growing (int64[1] first, int64 most) => (int64[S] last) {
  true = Constant <value = bool {1}> ()
  last = Loop <body = step (int64 i, bool on, int64[K] s) => (bool go, int64[M] next) {
      go = Identity(on)
      two = Constant <value = int64 {2}> ()
      scalar = Constant <value_ints = [0]> ()
      sum = ReduceSum <keepdims = 1> (s, scalar)
      more = Add(sum, two)
      next = Concat <axis = 0> (s, more)
    }> (most, true, first)
}
"""


def test_a_state_that_grows_is_right_in_each_run():
    """The first runs make two programs each, and the loop itself runs; later ones have all."""
    bytes_ = model(GROWING)
    session, reference = ours(bytes_), plain(bytes_)
    assert taken(session) == 1
    for most in [7] * 6 + [3, 0, 9, 150] * 3:
        same(session, reference, {"first": np.array([1]), "most": np.array(most)})


LOOPS_IN_BRANCHES = """
branches (float[4] row0, int64 rows) => (float[4] last) {
  true = Constant <value = bool {1}> ()
  last = Loop <body = row (int64 i, bool on, float[4] prev) => (bool go, float[4] next) {
      go = Identity(on)
      most = Constant <value = int64 {4}> ()
      zero = Constant <value = float {0.0}> ()
      two = Constant <value = int64 {2}> ()
      odd = Mod(i, two)
      is_odd = Cast <to = 9> (odd)
      all = If (is_odd) <then_branch = one () => (made_by_one) {
          sum, made_by_one = Loop <body = column (int64 j, bool still, float s) => (bool goes, float t, float made) {
              goes = Identity(still)
              here = Gather(prev, j)
              t = Add(s, here)
              made = Identity(t)
            }> (most, true, zero)
        }, else_branch = other () => (made_by_one) {
          sum, made_by_one = Loop <body = column (int64 j, bool still, float s) => (bool goes, float t, float made) {
              goes = Identity(still)
              here = Gather(prev, j)
              t = Sub(s, here)
              made = Identity(t)
            }> (most, true, zero)
        }>
      next = Tanh(all)
    }> (rows, true, row0)
}
"""


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_loops_of_two_branches_whose_outputs_have_the_same_names(level):
    bytes_ = model(LOOPS_IN_BRANCHES)
    options = harness.options(provider_options=STEPS, threads=1)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(bytes_, options)
    for rows in (4, 1, 0):
        same(session, plain(bytes_), {"row0": floats(4), "rows": np.array(rows)})
