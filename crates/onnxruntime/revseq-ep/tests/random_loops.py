"""Random models with a Loop or a Scan, and inputs for several runs of each.

A body is made node by node of values whose sizes in each run are known here, so that the model is
right. With each value goes how large its elements are, and how far two right answers may be apart:
elements that are multiples of a power of 2 and small have one right answer, whatever the order of
sums is. Only such ones are compared, rounded or become integers, where a small difference would make
a large one."""

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import harness

#: Before 1.31, ONNX Runtime's Erf of NaN is 1.
ERF_KEEPS_NAN = harness.HOST >= (1, 31)

FLOAT, INT64, INT32, BOOL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
TYPES = {FLOAT: np.float32, INT64: np.int64, INT32: np.int32, BOOL: np.bool_}
OPSETS = [9, 11, 13, 17, 18, 21]
#: Runs of each model; the last has the sizes of the first and other elements.
RUNS = 4
#: How far right answers of one operator are apart, of the size of its result.
UNIT = 1e-6
#: The same for a state, whatever the number of steps.
STATE_ERROR = 2e-5
#: The largest elements of a state.
STATE_MOST = {FLOAT: 8.0, INT64: 1000.0, INT32: 100.0, BOOL: 1.0}
STATE_GRAIN = 2.0**-4
#: Floats count so far.
EXACT = 2.0**22
#: The most elements of a value.
MOST_ELEMENTS = 6000

ONE = (1,) * RUNS


class Changing:
    """A size that is another one in each step, or after the first."""

    def __init__(self, most: int, after=None):
        self.most, self.after = most, after


@dataclass(frozen=True)
class Value:
    """A value of a graph."""

    name: str
    type: int
    #: For each axis its sizes in all runs, or a size that changes.
    shape: tuple
    #: No element is larger.
    most: float = 1.0
    #: How far right answers are apart.
    error: float = 0.0
    #: All elements are multiples of it.
    grain: float = 1.0
    #: Whether there may be NaN and infinities.
    wild: bool = False
    #: Whether a program knows it before it runs.
    known: bool = False
    #: Whether it follows the step's number.
    stepped: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_fixed(self) -> bool:
        """Whether its sizes are the same in all steps."""
        return not any(isinstance(size, Changing) for size in self.shape)

    def with_size(self, at: int, size) -> tuple:
        """Its sizes, but for one axis."""
        return (*self.shape[:at], size, *self.shape[at + 1 :])

    @property
    def has_axes(self) -> bool:
        return self.is_fixed and self.rank > 0

    @property
    def is_full(self) -> bool:
        """Whether it has axes, and elements in each run."""
        return self.has_axes and not is_empty(self.shape)

    @property
    def is_exact(self) -> bool:
        return self.error == 0

    def least(self, axis: int) -> int:
        size = self.shape[axis]
        return 1 if isinstance(size, Changing) else min(size)


def largest(size) -> int:
    return size.most if isinstance(size, Changing) else max(size)


def count(shape) -> int:
    return math.prod(largest(size) for size in shape)


def is_empty(shape) -> bool:
    """Whether there are no elements in a run."""
    return any(not isinstance(size, Changing) and 0 in size for size in shape)


def joined(one, other):
    """The size that two broadcast to, or None."""
    if one is other or one == other:
        return one
    if one == ONE or other == ONE:
        return other if one == ONE else one
    for a, b in ((one, other), (other, one)):
        if isinstance(a, Changing):
            return b if a.after is not None and a.after == b else None
    if all(a == b or 1 in (a, b) for a, b in zip(one, other, strict=True)):
        return tuple(b if a == 1 else a for a, b in zip(one, other, strict=True))
    return None


def broadcast(*shapes):
    """The sizes that several broadcast to, or None."""
    made = ()
    for shape in shapes:
        rank = max(len(made), len(shape))
        pairs = zip((ONE,) * (rank - len(made)) + made, (ONE,) * (rank - len(shape)) + shape, strict=True)
        made = tuple(joined(a, b) for a, b in pairs)
        if None in made:
            return None
    return made


class Nothing(Exception):
    """There is no value that a node could be made of."""


class Maker:
    """Makes a model."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.seed = seed
        self.opset = self.random.choice(OPSETS)
        self.names = 0
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: list[dict[str, np.ndarray]] = [{} for _ in range(RUNS)]
        self.initializers: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        #: How far right answers of each output may be apart.
        self.errors: list[float] = []
        self.is_wild = self.chance(0.1)
        #: Whether floats have few digits.
        self.is_coarse = self.chance(0.5)
        self.sizes = self.some_sizes()
        #: The values around the loop, and those of its body.
        self.outer: list[Value] = []
        self.pool: list[Value] = []
        self.body_initializers: list[onnx.TensorProto] = []
        self.is_body = False
        self.in_branch = False

    # What is drawn.

    def chance(self, often: float) -> bool:
        return self.random.random() < often

    def choose(self, of):
        return self.random.choice(list(of))

    def some_sizes(self) -> list[tuple]:
        """Sizes of axes in all runs."""
        small = [1, 2, 3, 4, 5, 7]

        large = 0.5 if self.chance(0.08) else 0.1

        def drawn():
            if self.chance(0.04):
                return 0
            return self.choose([16, 17, 33, 64, 70]) if self.chance(large) else self.choose(small)

        def of_runs():
            if self.chance(0.5):
                return (drawn(),) * RUNS
            sizes = [drawn() for _ in range(RUNS - 1)]
            return (*sizes, sizes[0])

        return [ONE, *(of_runs() for _ in range(4))]

    def some_shape(self, most_rank=4) -> tuple:
        while True:
            rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
            shape = tuple(self.choose(self.sizes) for _ in range(min(rank, most_rank)))
            if count(shape) <= MOST_ELEMENTS:
                return shape

    def new(self, hint="v") -> str:
        self.names += 1
        return f"{hint}{self.names}"

    def elements(self, kind: int, shape: list[int], most=None) -> np.ndarray:
        if kind == FLOAT:
            made = self.numpy.normal(size=shape).clip(-2, 2)
            if self.is_coarse:
                made = np.round(made * 4) / 4
            made = np.asarray(made, np.float32)
            if self.is_wild:
                special = self.numpy.choice([np.nan, np.inf, -np.inf], shape)
                made = np.where(self.numpy.random(shape) < 0.05, special, made)
            return np.asarray(made, np.float32)
        if kind == BOOL:
            return np.asarray(self.numpy.random(shape) < 0.5)
        return np.asarray(self.numpy.integers(-5, 6, shape), TYPES[kind])

    def of(self, name, kind, shape, **kwargs) -> Value:
        """A value with elements as they are drawn."""
        if kind == FLOAT:
            grain = 0.25 if self.is_coarse else 1e-9
            return Value(name, kind, shape, 2.0, grain=grain, wild=self.is_wild)
        return Value(name, kind, shape, 1.0 if kind == BOOL else 5.0, known=True, **kwargs)

    # Values of the model.

    def given(self, kind: int, shape: tuple, data=None) -> Value:
        """An input of the model."""
        name = self.new("x")
        for run, feed in enumerate(self.feeds):
            sizes = [size[run] for size in shape]
            feed[name] = self.elements(kind, sizes) if data is None else np.asarray(data[run], TYPES[kind])
        declared = [
            size[0] if len(set(size)) == 1 and self.chance(0.7) else f"{name}_{at}"
            for at, size in enumerate(shape)
        ]
        self.inputs.append(helper.make_tensor_value_info(name, kind, declared))
        return self.of(name, kind, shape)

    def constant(self, array: np.ndarray, outside=None) -> Value:
        """A constant, around the loop or in its body."""
        array = np.asarray(array)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        name = self.new("c")
        shape = tuple((size,) * RUNS for size in array.shape)
        outside = self.chance(0.5) if outside is None else outside
        if outside or not self.is_body:
            self.initializers.append(numpy_helper.from_array(array, name))
        elif self.chance(0.3) and not self.in_branch:
            self.body_initializers.append(numpy_helper.from_array(array, name))
        else:
            self.nodes.append(self.constant_node(array, name))
        finite = array[np.isfinite(array)] if kind == FLOAT else array
        most = float(np.abs(finite.astype(np.float64)).max()) if finite.size else 0.0
        grain = 1.0
        if kind == FLOAT:
            grain = next((it for it in (1.0, 0.25, 2.0**-6) if (np.mod(finite, it) == 0).all()), 1e-9)
        return Value(name, kind, shape, most, grain=grain, wild=finite.size < array.size, known=kind != FLOAT)

    def constant_node(self, array, name):
        """A Constant, in one of its forms."""
        attribute = {"value": numpy_helper.from_array(array)}
        if self.opset >= 12 and self.chance(0.5):
            form = {
                (np.dtype(np.int64), 0): "value_int",
                (np.dtype(np.int64), 1): "value_ints",
                (np.dtype(np.float32), 0): "value_float",
                (np.dtype(np.float32), 1): "value_floats",
            }
            form = form.get((array.dtype, array.ndim))
            if form is not None and array.size:
                attribute = {form: array.tolist()}
        return helper.make_node("Constant", [], [name], **attribute)

    def ints(self, *numbers) -> Value:
        return self.constant(np.array(numbers, np.int64))

    def drawn_constant(self, kind, shape) -> Value:
        return self.constant(self.elements(kind, [size[0] for size in shape]))

    def source(self, kind: int, shape: tuple) -> Value:
        """A value around the loop with these sizes."""
        fixed = all(len(set(size)) == 1 for size in shape)
        if fixed and self.chance(0.5):
            return self.drawn_constant(kind, shape)
        found = [it for it in self.outer if it.type == kind and it.shape == shape]
        if found and self.chance(0.6):
            return self.choose(found)
        if not self.is_body and kind == FLOAT and self.chance(0.3):
            # One that a node makes.
            made = self.given(kind, shape)
            (name,) = self.emit(self.choose(["Neg", "Abs", "Identity"]), [made])
            return replace(made, name=name)
        made = self.given(kind, shape)
        self.outer.append(made)
        return made

    def emit(self, op, inputs, outputs=1, **attributes) -> list[str]:
        names = [self.new() for _ in range(outputs)]
        inputs = [it.name if isinstance(it, Value) else it for it in inputs]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def keep(self, value: Value) -> Value:
        self.pool.append(value)
        return value

    def made(self, op, inputs, kind, shape, most=1.0, error=0.0, grain=1.0, **attributes) -> Value:
        """The value of a node."""
        given = [it for it in inputs if isinstance(it, Value)]
        (name,) = self.emit(op, inputs, **attributes)
        wild = kind == FLOAT and any(it.wild for it in given)
        known = kind != FLOAT and all(it.known and it.type != FLOAT for it in given)
        stepped = any(it.stepped for it in given)
        return Value(name, kind, shape, most, error, grain, wild, known, stepped)

    def number(self, op, inputs, shape, most, error, grain, **attributes) -> Value | None:
        """The value of arithmetic of floats: of one right answer if that has few digits."""
        is_exact = all(it.is_exact for it in inputs) and grain > 0 and most / grain <= EXACT
        if is_exact:
            return self.made(op, inputs, FLOAT, shape, most, 0.0, grain, **attributes)
        error += most * UNIT
        if error > 2e-3 or most > 1e4:
            return None
        return self.made(op, inputs, FLOAT, shape, most, error, 0.0, **attributes)

    def signed(self, at: int, rank: int, since=11) -> int:
        """An axis, which operator sets take from the end as well since one."""
        return at - rank if self.opset >= since and self.chance(0.3) else at

    def like(self, op, value: Value, shape, others=(), kind=None, **attributes) -> Value:
        """Elements of a value, elsewhere."""
        (name,) = self.emit(op, [value, *others], **attributes)
        is_known = value.known and all(it.known for it in others if isinstance(it, Value))
        stepped = value.stepped or any(it.stepped for it in others if isinstance(it, Value))
        return replace(value, name=name, shape=tuple(shape), known=is_known, stepped=stepped)

    def find(self, *kinds, of=lambda it: True) -> Value | None:
        """A value of the body, more often a new one."""
        fits = [it for it in self.pool if (not kinds or it.type in kinds) and of(it)]
        if not fits:
            return None
        return self.choose(fits[-6:]) if self.chance(0.6) else self.choose(fits)

    def pick(self, *kinds, of=lambda it: True) -> Value:
        """The same, which has to be there."""
        found = self.find(*kinds, of=of)
        if found is None:
            raise Nothing
        return found

    def other(self, value: Value) -> Value | None:
        """Another that broadcasts to a value."""

        def fits(it):
            shape = broadcast(value.shape, it.shape)
            return shape is not None and count(shape) <= MOST_ELEMENTS

        found = self.find(value.type, of=fits)
        if found is not None and self.chance(0.7):
            return found
        shape = [size if self.chance(0.6) else ONE for size in value.shape]
        shape = tuple(ONE if isinstance(it, Changing) else it for it in shape)
        return self.source(value.type, shape[self.random.randint(0, len(shape)) :])

    def size_of(self, size) -> Value:
        """A size as a vector of one integer."""
        if len(set(size)) == 1 and self.chance(0.5):
            return self.ints(size[0])
        found = [it for it in self.pool if it.is_fixed and size in it.shape]
        if found and self.chance(0.7):
            value = self.choose(found)
            (name,) = self.emit("Shape", [value])
            at = self.choose([at for at, it in enumerate(value.shape) if it == size])
            (name,) = self.emit("Gather", [name, self.ints(at)], axis=0)
            return Value(name, INT64, (ONE,), largest(size), known=True)
        return self.given(INT64, (ONE,), [[number] for number in size])

    def shape_of(self, shape) -> Value:
        """Sizes as a vector."""
        if all(len(set(size)) == 1 for size in shape) and self.chance(0.6):
            return self.ints(*(size[0] for size in shape))
        same = [it for it in self.pool if it.shape == tuple(shape)]
        if same and self.chance(0.6):
            (name,) = self.emit("Shape", [self.choose(same)])
        elif not shape:
            return self.ints()
        else:
            (name,) = self.emit("Concat", [self.size_of(size) for size in shape], axis=0)
        return Value(name, INT64, ((len(shape),) * RUNS,), 100.0, known=True)

    # Nodes of a body. Each returns a value, or None or `Nothing` if none is there to be made of.

    def unary(self):
        value = self.pick(FLOAT, INT64, INT32)
        if value.type != FLOAT:
            return self.made(
                self.choose(["Abs", "Neg", "Sign"]), [value], value.type, value.shape, max(1.0, value.most)
            )
        most, error = value.most, value.error
        alpha = self.choose([0.25, 0.5, 1.0, 1.5])
        some = {} if self.chance(0.4) else {"alpha": alpha}
        # The name with its attributes: the largest result, and the error.
        table = {
            "Abs": (most, error, {}),
            "Neg": (most, error, {}),
            "Relu": (most, error, {}),
            "LeakyRelu": (most * 1.5, error * 1.5, some),
            "Elu": (most + 1.5, error * 1.5, some),
            "HardSigmoid": (1.0, error * 1.5, some | ({"beta": 0.25} if self.chance(0.5) else {})),
            "Softplus": (most + 1, error, {}),
            "Softsign": (1.0, error, {}),
            "Sigmoid": (1.0, error, {}),
            "Tanh": (1.0, error, {}),
            "Sin": (1.0, error, {}),
            "Cos": (1.0, error, {}),
            "Erf": (1.0, error * 1.2, {}),
        }
        if self.opset >= 12:
            table["Celu"] = (most + 1.5, error * 1.5, some)
        if value.is_exact:
            table |= {"Floor": (most + 1, 0.0, {}), "Ceil": (most + 1, 0.0, {}), "Sign": (1.0, 0.0, {})}
            if self.opset >= 11:
                table["Round"] = (most + 1, 0.0, {})
            if self.opset >= 10:
                table["ThresholdedRelu"] = (most, 0.0, some)
        if most <= 4:
            table["Exp"] = (math.exp(most), error * math.exp(most), {})
        op = self.choose(table)
        if op == "Erf" and not ERF_KEEPS_NAN:
            op = "Tanh"
        most, error, attributes = table[op]
        if op in ("Abs", "Neg", "Relu", "ThresholdedRelu"):
            return self.like(op, value, value.shape, **attributes)
        if op in ("Floor", "Ceil", "Round", "Sign"):
            return self.made(op, [value], FLOAT, value.shape, most, 0.0, 1.0, **attributes)
        return self.number(op, [value], value.shape, most, error, 0.0, **attributes)

    def positive(self, value: Value) -> Value | None:
        """Elements that are a quarter at least."""
        (name,) = self.emit("Abs", [value])
        value = replace(value, name=name)
        return self.number(
            "Add",
            [value, self.constant(np.float32(0.25))],
            value.shape,
            value.most + 0.25,
            value.error,
            min(value.grain, 0.25),
        )

    def of_positive(self):
        """Functions of positive numbers."""
        base = self.positive(self.pick(FLOAT))
        if base is None:
            return None
        op = self.choose(["Log", "Sqrt", "Reciprocal", "Div", "Pow", "ReduceLogSum"])
        most, error, shape = base.most, base.error, base.shape
        if op == "ReduceLogSum":
            return self.reduced(op, base)
        if op == "Log":
            return self.number(op, [base], shape, max(2.0, math.log(most + 1)), error * 4, 0.0)
        if op == "Sqrt":
            return self.number(op, [base], shape, math.sqrt(most), error, 0.0)
        if op == "Reciprocal":
            return self.number(op, [base], shape, 4.0, error * 16, 0.0)
        if op == "Div":
            over = self.pick(FLOAT, of=lambda it: broadcast(it.shape, shape) is not None)
            made = broadcast(over.shape, shape)
            if count(made) > MOST_ELEMENTS:
                return None
            return self.number(
                op, [over, base], made, over.most * 4, over.error * 4 + over.most * error * 16, 0.0
            )
        exponent = self.choose([-1.0, 0.5, 1.5, 2.0, 3.0])
        power = self.constant(np.full(self.choose([(), (1,), (1, 1)]), exponent, np.float32))
        shape = broadcast(shape, power.shape)
        at = max(most**exponent, 0.25**exponent)
        return self.number(op, [base, power], shape, at, error * 4 * abs(exponent) * at, 0.0)

    def binary(self):
        one = self.pick(FLOAT, INT64, INT32)
        other = self.other(one)
        if self.chance(0.5):
            one, other = other, one
        shape = broadcast(one.shape, other.shape)
        op = self.choose(["Add", "Sub", "Mul", "Add", "Mul"])
        if op == "Mul":
            most, error = one.most * other.most, one.error * other.most + other.error * one.most
        else:
            most, error = one.most + other.most, one.error + other.error
        if one.type != FLOAT:
            # A sum that leaves the type is not defined in C++.
            return self.made(op, [one, other], one.type, shape, most) if most < 1e6 else None
        grain = one.grain * other.grain if op == "Mul" else min(one.grain, other.grain)
        return self.number(op, [one, other], shape, most, error, grain)

    def by_constant(self):
        """Quotients and remainders; a quotient of integers by 0 is not defined."""
        value = self.pick(FLOAT, INT64, INT32)
        if value.type == FLOAT:
            by = self.constant(np.float32(self.choose([0.5, 2.0, 4.0, -2.0, 3.0])))
            if self.opset >= 10 and value.is_exact and self.chance(0.4):
                return self.made(
                    "Mod", [value, by], FLOAT, value.shape, value.most, 0.0, min(value.grain, 0.25), fmod=1
                )
            return self.number("Div", [value, by], value.shape, value.most * 2, value.error * 2, 0.0)
        by = self.constant(TYPES[value.type](self.choose([-3, -2, -1, 2, 3, 5])))
        if self.opset >= 10 and self.chance(0.6):
            return self.made(
                "Mod", [value, by], value.type, value.shape, 5.0, **({"fmod": 1} if self.chance(0.4) else {})
            )
        return self.made("Div", [value, by], value.type, value.shape, value.most)

    def variadic(self):
        kinds = [FLOAT] if self.opset < 12 else [FLOAT, INT64, INT32]
        one = self.pick(*kinds)
        all = [one]
        for _ in range(self.choose([0, 1, 1, 2, 3])):
            other = self.other(one)
            if broadcast(*(it.shape for it in [*all, other])) is not None:
                all.append(other)
        shape = broadcast(*(it.shape for it in all))
        if count(shape) > MOST_ELEMENTS:
            return None
        op = self.choose(["Max", "Min", "Sum"] if one.type == FLOAT else ["Max", "Min"])
        if op == "Sum":
            return self.number(
                op,
                all,
                shape,
                sum(it.most for it in all),
                sum(it.error for it in all),
                min(it.grain for it in all),
            )
        most, error = max(it.most for it in all), max(it.error for it in all)
        return self.made(op, all, one.type, shape, most, error, min(it.grain for it in all))

    def clip(self):
        value = self.pick(FLOAT) if self.opset < 12 else self.pick(FLOAT, INT64, INT32)
        low, high = self.choose([-3, -1, 0, None]), self.choose([1, 2, 6, None])
        if self.opset < 11:
            some = {"min": low, "max": high}
            some = {name: float(it) for name, it in some.items() if it is not None}
            return self.like("Clip", value, value.shape, **some)
        bounds = [it if it is None else self.constant(TYPES[value.type](it)) for it in (low, high)]
        others = ["" if it is None else it for it in bounds]
        while others and others[-1] == "":
            others.pop()
        most = max(value.most, 6.0)
        made = self.like("Clip", value, value.shape, others)
        return replace(made, known=False, most=most, grain=min(value.grain, 1.0))

    def compared(self):
        one = self.pick(FLOAT, INT64, INT32, of=lambda it: it.is_exact)
        other = self.other(one)
        if not other.is_exact:
            return None
        ops = ["Greater", "Less"]
        if self.opset >= 12:
            ops += ["GreaterOrEqual", "LessOrEqual"]
        if one.type != FLOAT or self.opset >= 11:
            ops.append("Equal")
        return self.made(self.choose(ops), [one, other], BOOL, broadcast(one.shape, other.shape))

    def truth(self):
        if self.chance(0.2):
            value = self.pick(FLOAT)
            return self.made("IsNaN", [value], BOOL, value.shape)
        one = self.pick(BOOL)
        if self.chance(0.3):
            return self.made("Not", [one], BOOL, one.shape)
        other = self.other(one)
        ops = ["And", "Or", "Xor", *(["Equal"] if self.opset >= 7 else [])]
        return self.made(self.choose(ops), [one, other], BOOL, broadcast(one.shape, other.shape))

    def where(self):
        truth, one = self.find(BOOL), self.find()
        other = one and self.other(one)
        if truth is None or one is None:
            return None
        shape = broadcast(truth.shape, one.shape, other.shape)
        # ONNX Runtime 1.31 has no Where of truth values.
        if shape is None or count(shape) > MOST_ELEMENTS or one.type == BOOL:
            return None
        most, error = max(one.most, other.most), max(one.error, other.error)
        return self.made(
            "Where", [truth, one, other], one.type, shape, most, error, min(one.grain, other.grain)
        )

    def cast(self):
        value = self.find()
        to = self.choose(TYPES)
        if value is None:
            return None
        if value.type == FLOAT and to != FLOAT and (value.wild or not value.is_exact):
            # No integer is NaN, and what ONNX Runtime makes of it depends on the processor.
            return None
        if to == BOOL:
            return self.made("Cast", [value], BOOL, value.shape, to=to)
        if value.type == FLOAT and to == FLOAT:
            return self.like("Cast", value, value.shape, to=to)
        if to == FLOAT and value.most > EXACT:
            return None
        return self.made("Cast", [value], to, value.shape, value.most, to=to)

    # Views.

    def transpose(self):
        value = self.pick(of=lambda it: it.rank > 0)
        order = list(range(value.rank))
        self.random.shuffle(order)
        if self.chance(0.3):
            return self.like("Transpose", value, value.shape[::-1])
        return self.like("Transpose", value, [value.shape[at] for at in order], perm=order)

    def by_axes(self, op, value, shape, all, from_opset=13, **attributes) -> Value:
        """A node whose axes are an attribute in older operator sets."""
        if self.opset < from_opset:
            some = {"axes": all} if all is not None else {}
            return self.like(op, value, shape, **some, **attributes)
        return self.like(op, value, shape, [] if all is None else [self.ints(*all)], **attributes)

    def unsqueeze(self):
        value = self.pick(of=lambda it: it.rank < 4)
        number = self.random.randint(1, min(2, 4 - value.rank))
        all = self.random.sample(range(value.rank + number), number)
        shape = list(value.shape)
        for at in sorted(all):
            shape.insert(at, ONE)
        if self.opset >= 11:
            all = [at - len(shape) if self.chance(0.3) else at for at in all]
        return self.by_axes("Unsqueeze", value, shape, all)

    def squeeze(self):
        value = self.pick(of=lambda it: ONE in it.shape)
        all = [at for at, size in enumerate(value.shape) if size == ONE]
        if value.is_fixed and self.chance(0.3) and not any(1 in it for it in value.shape if it != ONE):
            return self.by_axes("Squeeze", value, [it for it in value.shape if it != ONE], None)
        # ONNX Runtime 1.31 takes those of older operator sets in order.
        all = sorted(self.random.sample(all, self.random.randint(1, len(all))))
        shape = [size for at, size in enumerate(value.shape) if at not in all]
        if self.opset >= 11:
            all = [at - value.rank for at in all] if self.chance(0.3) else all
        return self.by_axes("Squeeze", value, shape, all)

    def flatten(self):
        value = self.pick(of=lambda it: it.is_fixed)
        at = self.random.randint(0, value.rank)
        shape = [
            tuple(math.prod(size[run] for size in part) for run in range(RUNS))
            for part in (value.shape[:at], value.shape[at:])
        ]
        if self.opset >= 11 and 0 < at < value.rank and self.chance(0.3):
            at -= value.rank
        return self.like("Flatten", value, shape, axis=at)

    def reshape(self):
        value = self.pick(of=lambda it: it.is_fixed)
        shape = list(value.shape)
        if self.chance(0.2) and not is_empty(shape):
            whole = tuple(math.prod(size[run] for size in shape) for run in range(RUNS))
            return self.like("Reshape", value, [whole], [self.ints(-1)])
        kind = self.choose(["merge", "split", "one", "same"])
        at = self.random.randrange(len(shape)) if shape else 0
        if kind == "merge" and len(shape) > 1:
            at = min(at, len(shape) - 2)
            shape[at : at + 2] = [tuple(a * b for a, b in zip(*shape[at : at + 2], strict=True))]
        elif kind == "split" and shape and len(shape) < 4:
            by = self.choose([2, 3, 4])
            if any(size % by for size in shape[at]):
                return None
            rest = tuple(size // by for size in shape[at])
            shape[at : at + 1] = [(by,) * RUNS, rest] if self.chance(0.5) else [rest, (by,) * RUNS]
        elif kind == "one" and len(shape) < 4:
            shape.insert(at, ONE)
        if kind != "same" and self.chance(0.5) and not is_empty(shape) and shape:
            at = self.random.randrange(len(shape))
            # The open size stands for one that no other is 0 beside.
            to = [self.ints(-1) if place == at else self.size_of(size) for place, size in enumerate(shape)]
            (name,) = self.emit("Concat", to, axis=0)
            return self.like(
                "Reshape", value, shape, [Value(name, INT64, ((len(shape),) * RUNS,), known=True)]
            )
        if is_empty(shape) and kind != "same":
            return None
        if kind == "same" and shape and self.chance(0.5):
            return self.like("Reshape", value, shape, [self.ints(*(0 for _ in shape))])
        if is_empty(shape):
            return None
        return self.like("Reshape", value, shape, [self.shape_of(shape)])

    def expand(self):
        value = self.pick(of=lambda it: it.is_fixed)
        other = self.some_shape()
        shape = broadcast(value.shape, other)
        if shape is None or count(shape) > MOST_ELEMENTS:
            return None
        return self.like("Expand", value, shape, [self.shape_of(self.choose([other, shape]))])

    def tile(self):
        value = self.pick(of=lambda it: it.has_axes)
        repeats = [self.choose([1, 1, 2, 3]) for _ in value.shape]
        shape = [
            tuple(size * repeat for size in all) for all, repeat in zip(value.shape, repeats, strict=True)
        ]
        if count(shape) > MOST_ELEMENTS or is_empty(shape):
            return None
        made = self.like("Tile", value, shape, [self.ints(*repeats)])
        return replace(made, known=False)

    def slice(self):
        value = self.pick(of=lambda it: it.has_axes)
        number = self.random.randint(1, min(2, value.rank))
        all = self.random.sample(range(value.rank), number)
        if self.chance(0.3):
            all.sort()
        shape = list(value.shape)
        starts, ends, steps = [], [], []
        for at in all:
            step = self.choose([1, 1, 1, 2, 3, -1, -2]) if self.opset >= 10 else 1
            start, end = self.choose([0, 0, 1, -1, -2, 100]), self.choose([1, 2, 3, -1, 2**31 - 1, 2**62])
            if step < 0:
                start, end = self.choose([-1, -1, 2, 1, 100]), self.choose([-(2**31), -100, 0, -3])
            sizes = tuple(len(range(*slice(start, end, step).indices(size))) for size in shape[at])
            shape[at] = sizes
            starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
        if is_empty(shape) and self.chance(0.9):
            return None
        if self.opset < 10:
            some = {} if all == list(range(number)) and self.chance(0.5) else {"axes": all}
            return self.like("Slice", value, shape, starts=starts, ends=ends, **some)
        return self.sliced(value, shape, self.ints(*starts), self.ints(*ends), all, steps)

    def sliced(self, value, shape, starts, ends, all, steps) -> Value:
        if self.chance(0.3):
            all = [at - value.rank for at in all]
        others = [starts, ends, self.ints(*all)]
        if any(step != 1 for step in steps) or self.chance(0.4):
            others.append(self.ints(*steps))
        elif all == list(range(len(all))) and self.chance(0.5):
            others.pop()
        return self.like("Slice", value, shape, others)

    def split(self):
        value = self.pick(
            of=lambda it: it.is_fixed and any(len(set(size)) == 1 and size[0] > 0 for size in it.shape)
        )
        at = self.choose([at for at, size in enumerate(value.shape) if len(set(size)) == 1 and size[0] > 0])
        size = value.shape[at][0]
        number = self.choose([1, 2, 3])
        axis = self.signed(at, value.rank)
        if self.chance(0.5) or size % number and self.opset < 18:
            # Some are empty.
            marks = sorted(self.random.randint(0 if self.chance(0.1) else 1, size) for _ in range(number - 1))
            parts = [b - a for a, b in zip([0, *marks], [*marks, size], strict=True)]
            if 0 in parts and self.chance(0.9):
                return None
            if self.opset < 13:
                names = self.emit("Split", [value], number, axis=axis, split=parts)
            else:
                names = self.emit("Split", [value, self.ints(*parts)], number, axis=axis)
        else:
            each = -(-size // number)
            parts = [min(each, max(0, size - each * part)) for part in range(number)]
            if 0 in parts:
                return None
            some = {"num_outputs": number} if self.opset >= 18 else {}
            names = self.emit("Split", [value], number, axis=axis, **some)
        for name, part in zip(names, parts, strict=True):
            shape = value.with_size(at, (part,) * RUNS)
            self.keep(replace(value, name=name, shape=tuple(shape)))
        return None

    def concat(self):
        one = self.pick(of=lambda it: it.has_axes)
        at = self.random.randrange(one.rank)

        def fits(it):
            return (
                it.is_fixed
                and it.rank == one.rank
                and all(
                    a == b
                    for place, (a, b) in enumerate(zip(it.shape, one.shape, strict=True))
                    if place != at
                )
            )

        all_ = [one]
        for _ in range(self.choose([1, 1, 2])):
            shape = one.with_size(at, self.choose(self.sizes))
            found = self.find(one.type, of=fits) if self.chance(0.7) else None
            all_.insert(self.random.randint(0, len(all_)), found or self.source(one.type, tuple(shape)))
        shape = one.with_size(at, tuple(sum(it.shape[at][run] for it in all_) for run in range(RUNS)))
        if count(shape) > MOST_ELEMENTS:
            return None
        axis = self.signed(at, one.rank)
        most, error = max(it.most for it in all_), max(it.error for it in all_)
        return self.made(
            "Concat", all_, one.type, tuple(shape), most, error, min(it.grain for it in all_), axis=axis
        )

    def sizes_as_value(self):
        value = self.pick(of=lambda it: it.is_fixed)
        if self.chance(0.3):
            return self.made("Size", [value], INT64, (), float(count(value.shape)))
        some, shape = {}, value.shape
        if self.opset >= 15 and self.chance(0.4):
            start, end = self.random.randint(-2, 2), self.choose([None, 1, 2, -1])
            some = {"start": start} | ({} if end is None else {"end": end})
            shape = shape[slice(start if -start <= len(shape) else 0, end)] if end != -1 or shape else ()
        if not shape:
            return None
        made = self.made("Shape", [value], INT64, ((len(shape),) * RUNS,), 100.0, **some)
        return replace(made, most=float(max(largest(size) for size in shape)), known=True)

    def filled(self):
        if self.opset >= 11 and self.chance(0.4):
            start, end, apart = self.choose([(0, 5, 1), (3, -4, -2), (1, 8, 3), (2, 2, 1)])
            kind = self.choose([INT64, INT32])
            numbers = [self.constant(TYPES[kind](it)) for it in (start, end, apart)]
            size = len(range(start, end, apart))
            return self.made("Range", numbers, kind, ((size,) * RUNS,), 8.0)
        shape = self.some_shape()
        number = self.choose([None, np.float32(0.5), np.int64(3), np.int32(-2), np.array(True)])
        kind = FLOAT if number is None else helper.np_dtype_to_tensor_dtype(np.asarray(number).dtype)
        some = {} if number is None else {"value": numpy_helper.from_array(np.array([number]).reshape(1))}
        made = self.made("ConstantOfShape", [self.shape_of(shape)], kind, shape, 3.0, 0.0, 0.25, **some)
        return replace(made, known=kind != FLOAT)

    def turned(self):
        """A state beside its elements in another order: it cannot be written where it lies."""
        states = [it for it in self.states if it.rank > 0 and not is_empty(it.shape)]
        if not states:
            return None
        state = self.choose(states)
        at = self.random.randrange(state.rank)
        kind = self.choose(["transpose", "reverse", "roll", "row"])
        if kind == "transpose":
            pairs = [(a, b) for a in range(state.rank) for b in range(a) if state.shape[a] == state.shape[b]]
            if not pairs:
                return None
            a, b = self.choose(pairs)
            order = list(range(state.rank))
            order[a], order[b] = b, a
            value = self.like("Transpose", state, state.shape, perm=order)
        elif kind == "reverse":
            if self.opset < 10:
                return None
            value = self.sliced(state, state.shape, self.ints(-1), self.ints(-(2**31)), [at], [-1])
        elif self.opset < 10:
            return None
        else:
            shape = state.with_size(at, ONE)
            row = self.sliced(state, shape, self.ints(0), self.ints(1), [at], [1])
            if kind == "roll":
                shape = state.with_size(at, tuple(size - 1 for size in state.shape[at]))
                rest = self.sliced(state, shape, self.ints(1), self.ints(2**31 - 1), [at], [1])
                value = self.like("Concat", rest, state.shape, [row], axis=at)
            else:
                value = row
        if state.type == BOOL:
            return self.made("Xor", [state, value], BOOL, state.shape)
        if self.chance(0.2):
            return value if value.shape == state.shape else None
        both = [state, value] if self.chance(0.5) else [value, state]
        if state.type != FLOAT:
            return self.made("Sub", both, state.type, state.shape, state.most * 2)
        return self.number("Sub", both, state.shape, state.most * 2, state.error * 2, state.grain)

    # Elements at indices.

    def index(self, size, kinds=(INT64, INT32)) -> tuple[Value, tuple] | None:
        """Indices inside a size."""
        least = min(size)
        if least == 0:
            return None
        if (
            self.steps is not None
            and self.chance(0.5)
            and all(a >= b for a, b in zip(size, self.steps, strict=True))
        ):
            return self.moving(size)
        if self.chance(0.5):
            shape = self.choose([(), (1,), (2,), (2, 2), (5,)])
            array = self.numpy.integers(-least if self.opset >= 11 else 0, least, shape)
            return self.constant(np.asarray(array, TYPES[self.choose(kinds)]))
        value = self.find(*kinds, of=lambda it: it.is_fixed and count(it.shape) <= 12 and it.most < 1e6)
        if value is None or self.opset < 10:
            return None
        by = self.constant(TYPES[value.type](least))
        return self.made("Mod", [value, by], value.type, value.shape, float(least))

    def moving(self, size) -> Value:
        """The step's number, forwards or backwards, as an index."""
        number = self.step_number
        kind = self.random.random()
        if kind < 0.4:
            pass
        elif kind < 0.6 and len(set(size)) == 1:
            number = self.made("Sub", [self.constant(np.int64(size[0] - 1)), number], INT64, ())
        elif kind < 0.8:
            # Backwards from the end.
            one = self.made("Add", [number, self.constant(np.int64(1))], INT64, ())
            number = self.made("Neg", [one], INT64, ()) if self.opset >= 11 else number
            number = replace(number, known=False)
        if self.chance(0.3):
            number = self.made("Cast", [number], INT32, (), to=INT32)
        if self.chance(0.3):
            number = self.by_axes("Unsqueeze", number, [ONE], [0])
        return replace(number, most=100.0)

    def gather(self):
        value = self.find(of=lambda it: it.has_axes)
        if self.chance(0.3):
            value = self.source(
                self.choose([FLOAT, FLOAT, INT64, BOOL]),
                (self.choose([self.steps or ONE, *self.sizes]), *self.some_shape(2)),
            )
        if value is None:
            return None
        at = self.random.randrange(value.rank)
        index = self.index(value.shape[at])
        if index is None or value.rank + index.rank - 1 > 4:
            return None
        shape = (*value.shape[:at], *index.shape, *value.shape[at + 1 :])
        if count(shape) > MOST_ELEMENTS:
            return None
        axis = self.signed(at, value.rank, since=0)
        return self.like("Gather", value, shape, [index], axis=axis)

    def long_axis(self, value: Value | None, size) -> int:
        """An axis of this size at least, in each run."""
        shape = () if value is None else value.shape
        axes = [at for at, it in enumerate(shape) if all(a >= b for a, b in zip(it, size, strict=True))]
        if not axes:
            raise Nothing
        return self.choose(axes)

    def window(self):
        """A part that moves with the step's number."""
        value = self.find(of=lambda it: it.has_axes)
        if self.step_number is None or self.opset < 10:
            return None
        more = self.choose([0, 1, 2])
        size = tuple(steps + more for steps in self.steps)
        if self.chance(0.6):
            value = self.source(self.choose([FLOAT, FLOAT, INT64]), (size, *self.some_shape(2)))
        at = self.long_axis(value, size)
        starts = self.by_axes("Unsqueeze", self.step_number, [ONE], [0])
        if self.chance(0.4) and len(set(self.steps)) == 1:
            starts = self.made("Sub", [self.ints(self.steps[0] - 1), starts], INT64, (ONE,))
        ends = self.made("Add", [starts, self.ints(more + 1)], INT64, (ONE,))
        shape = value.with_size(at, (more + 1,) * RUNS)
        if count(shape) > MOST_ELEMENTS:
            return None
        return self.sliced(value, shape, starts, ends, [at], [1])

    def prefix(self):
        """What there is of a part that is longer or shorter in each step."""
        if self.step_number is None or self.opset < 10:
            return None
        value = self.find(FLOAT, INT64, of=lambda it: it.has_axes)
        if self.chance(0.6):
            value = self.source(self.choose([FLOAT, INT64]), (self.steps, *self.some_shape(2)))
        if value is not None and is_empty(value.shape):
            return None
        at = self.long_axis(value, self.steps)
        here = self.by_axes("Unsqueeze", self.step_number, [ONE], [0])
        if self.chance(0.5):
            bounds = self.ints(0), self.made("Add", [here, self.ints(1)], INT64, (ONE,))
        else:
            bounds = here, self.ints(self.choose([2**31 - 1, 1000]))
        shape = value.with_size(at, Changing(largest(value.shape[at])))
        part = self.sliced(value, shape, *bounds, [at], [1])
        ops = (
            ["ReduceSum"]
            + ([] if value.wild else ["ReduceMax", "ReduceMin"])
            + (["ReduceMean"] if value.type == FLOAT else [])
        )
        return self.reduced(self.choose(ops), part, at)

    def gather_elements(self):
        value = self.pick(of=lambda it: it.is_full)
        if self.opset < 11:
            return None
        at = self.random.randrange(value.rank)
        sizes = [
            self.random.randint(1, value.least(place)) if place != at else self.random.randint(1, 4)
            for place in range(value.rank)
        ]
        index = self.constant(self.numpy.integers(-value.least(at), value.least(at), sizes))
        if self.chance(0.4):
            some = self.find(INT64, of=lambda it: it.rank == 0)
            if some is not None:
                added = self.made("Add", [index, some], INT64, index.shape)
                index = self.made(
                    "Mod", [added, self.constant(np.int64(value.least(at)))], INT64, index.shape
                )
        if count(index.shape) > MOST_ELEMENTS:
            return None
        made = self.like("GatherElements", value, index.shape, [index], axis=at)
        return replace(made, known=False)

    def scatter(self):
        value = self.find(of=lambda it: it.is_full)
        if self.chance(0.4):
            # All of it may be written.
            value = self.source(self.choose([FLOAT, INT64]), (ONE, *self.some_shape(2)))
        if value is None or self.opset < 11 or is_empty(value.shape):
            return None
        # Indices that are there once: of others ONNX has no order.
        if self.chance(0.5):
            at = self.random.randrange(value.rank)
            sizes = [self.random.randint(1, value.least(place)) for place in range(value.rank)]
            order = self.numpy.permutation(value.least(at))[: sizes[at]]
            index = np.broadcast_to(
                order.reshape([-1 if place == at else 1 for place in range(value.rank)]), sizes
            )
            index = self.constant(np.array(index, np.int64))
            updates = self.source(value.type, index.shape)
            if self.chance(0.5):
                found = self.find(value.type, of=lambda it: it.shape == index.shape)
                updates = found or updates
            op, attributes = "ScatterElements", {"axis": at}
        else:
            depth = self.random.randint(1, value.rank)
            places = [self.index(size, (INT64,)) for size in value.shape[:depth]]
            if any(it is None or it.type != INT64 or count(it.shape) != 1 for it in places):
                return None
            places = [self.like("Reshape", it, [ONE], [self.ints(1)]) for it in places]
            index = self.made("Concat", places, INT64, ((depth,) * RUNS,), axis=0) if depth > 1 else places[0]
            shape = value.shape[depth:]
            if self.chance(0.4):
                index = self.by_axes("Unsqueeze", index, (ONE, *index.shape), [0])
                shape = (ONE, *shape)
            updates = self.find(value.type, of=lambda it: it.shape == shape) or self.source(value.type, shape)
            op, attributes = "ScatterND", {}
        most, error = max(value.most, updates.most), max(value.error, updates.error)
        times = count(index.shape)
        whole = value.most + times * updates.most
        is_tame = not (value.wild or updates.wild) and whole < EXACT / 4
        if self.opset >= 18 and value.type != BOOL and is_tame and self.chance(0.5):
            attributes["reduction"] = self.choose(["add", "max", "min"])
            if attributes["reduction"] == "add":
                most, error = whole, value.error + times * updates.error
        made = self.made(
            op,
            [value, index, updates],
            value.type,
            value.shape,
            most,
            error,
            min(value.grain, updates.grain),
            **attributes,
        )
        made = self.keep(replace(made, known=False))
        if value.type != FLOAT or self.chance(0.5):
            return None
        # The one who reads it may run together with what wrote it.
        return self.number("Mul", [made, made], made.shape, most * most, 2 * most * error, made.grain**2)

    def best(self):
        # NaN is no best; ONNX Runtime has none of int64.
        value = self.pick(FLOAT, INT32, of=lambda it: it.is_full and it.is_exact and not it.wild)
        at = self.random.randrange(value.rank)
        keeps = self.chance(0.5)
        some = {"select_last_index": 1} if self.opset >= 12 and self.chance(0.4) else {}
        shape = [
            ONE if place == at else size for place, size in enumerate(value.shape) if keeps or place != at
        ]
        axis = self.signed(at, value.rank)
        made = self.made(
            self.choose(["ArgMax", "ArgMin"]),
            [value],
            INT64,
            tuple(shape),
            float(largest(value.shape[at])),
            axis=axis,
            keepdims=int(keeps),
            **some,
        )
        return replace(made, known=False)

    # Sums and products.

    def reduce(self):
        value = self.pick(FLOAT, FLOAT, INT64, INT32)
        ops = ["ReduceSum", "ReduceProd"]
        # In ONNX Runtime NaN is the largest element if it is the first.
        ops += [] if value.wild else ["ReduceMax", "ReduceMin"]
        if value.type == FLOAT:
            ops += ["ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum"]
            ops += [] if value.wild else ["ReduceLogSumExp"]
        return self.reduced(self.choose(ops), value)

    def reduced(self, op, value, at=None):
        all = self.random.sample(range(value.rank), self.random.randint(0, value.rank))
        if at is not None:
            all = [*{*all, at}]
        is_noop = at is None and self.opset >= (13 if op == "ReduceSum" else 18) and self.chance(0.1)
        if not all and not is_noop:
            all = None
        keeps = self.chance(0.5)
        along = list(range(value.rank)) if all is None else all
        sizes = [value.shape[at] for at in along]
        # The largest of no elements is not defined, and ONNX Runtime 1.31 has its sizes wrong.
        if (
            is_empty(value.shape)
            or is_noop
            and (all or op not in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"))
        ):
            return None
        number = count(sizes)
        shape = tuple(
            ONE if at in along else size for at, size in enumerate(value.shape) if keeps or at not in along
        )
        most, error, grain = value.most, value.error, value.grain
        if op in ("ReduceSum", "ReduceL1"):
            most, error = most * number, error * number
        elif op == "ReduceMean":
            error += most * UNIT
            grain = 0.0
        elif op == "ReduceProd":
            if number > 6:
                return None
            error = number * error * max(1.0, most) ** (number - 1)
            most = max(1.0, most) ** number
            grain = min(1.0, grain) ** number
        elif op == "ReduceL2":
            most, error, grain = most * math.sqrt(number), error * math.sqrt(number), 0.0
            if value.error:
                # A root of nearly nothing.
                error += 1e-5
        elif op == "ReduceSumSquare":
            error = 2 * error * most * number
            most, grain = most * most * number, grain * grain
        elif op == "ReduceLogSumExp":
            most, grain = most + math.log(number + 1), 0.0
            if not value.is_exact and most > 30:
                return None
        elif op == "ReduceLogSum":
            most, error, grain = math.log(most * number + 1) + 2, error * 4, 0.0
        is_sure = op in ("ReduceMax", "ReduceMin") or value.type != FLOAT
        if value.type != FLOAT and most > 1e6:
            return None
        if not is_sure and not (value.is_exact and grain > 0 and most / grain <= EXACT):
            error, grain = error + most * UNIT * (1 + number / 16), 0.0
            if error > 2e-3 or most > 1e4:
                return None
        some = {} if keeps and self.chance(0.3) else {"keepdims": int(keeps)}
        if is_noop:
            some["noop_with_empty_axes"] = 1
            all = self.choose([None, []])
        if all:
            all = [self.signed(at, value.rank) for at in all]
        made = self.by_axes(op, value, shape, all, 13 if op == "ReduceSum" else 18, **some)
        return replace(made, most=most, error=error, grain=grain, known=False)

    def convolved(self):
        """A Conv of one or two axes."""
        value = self.pick(
            FLOAT, of=lambda it: it.is_full and it.rank in (3, 4) and len(set(it.shape[1])) == 1
        )
        if self.opset < 11:
            return None
        channels = value.shape[1][0]
        groups = self.choose([1, 1, channels])
        filters = groups * self.choose([1, 2, 3, 8])
        mode = self.choose(["", "", "", "VALID", "SAME_UPPER", "SAME_LOWER"])
        kernel, strides, dilations, before, behind, places = [], [], [], [], [], []
        for size in value.shape[2:]:
            tall, stride = self.choose([1, 2, 3]), self.choose([1, 1, 2])
            dilation = 1 if mode else self.choose([1, 1, 2])
            pads = (0, 0) if mode else (self.choose([0, 1, 2]), self.choose([0, 1, 2]))
            reach = (tall - 1) * dilation + 1
            if min(size) + sum(pads) < reach and mode not in ("SAME_UPPER", "SAME_LOWER"):
                return None
            if mode.startswith("SAME"):
                places.append(tuple(-(-it // stride) for it in size))
            else:
                places.append(tuple((it + sum(pads) - reach) // stride + 1 for it in size))
            kernel, strides = [*kernel, tall], [*strides, stride]
            dilations = [*dilations, dilation]
            before, behind = [*before, pads[0]], [*behind, pads[1]]
        shape = (value.shape[0], (filters,) * RUNS, *places)
        each = channels // groups
        if count(shape) > MOST_ELEMENTS:
            return None
        wanted = (filters, each, *kernel)
        inputs = [value, self.source(FLOAT, tuple((it,) * RUNS for it in wanted))]
        if self.chance(0.5):
            inputs.append(self.source(FLOAT, ((filters,) * RUNS,)))
        some = {"auto_pad": mode} if mode else {"pads": before + behind}
        some |= {"group": groups, "strides": strides, "dilations": dilations}
        terms = each * math.prod(kernel) + 1
        most = value.most * inputs[1].most * terms + inputs[-1].most
        error = value.error * inputs[1].most * terms + most * UNIT * (1 + terms / 16)
        grain = value.grain * inputs[1].grain
        if len(inputs) > 2:
            grain = min(grain, inputs[2].grain)
        return self.number("Conv", inputs, shape, most, error, grain, **some)

    def top(self):
        """The largest or smallest elements of an axis, and where they are."""
        value = self.pick(FLOAT, INT64, of=lambda it: it.has_axes and it.is_exact and not it.wild)
        if self.opset < 11 or is_empty(value.shape):
            return None
        at = self.random.randrange(value.rank)
        number = self.random.randint(1, value.least(at))
        axis = self.signed(at, value.rank, since=0)
        some = {"axis": axis} if axis != -1 or self.chance(0.5) else {}
        some |= {"largest": 0} if self.chance(0.4) else {}
        best, places = self.emit("TopK", [value, self.ints(number)], 2, **some)
        shape = (*value.shape[:at], (number,) * RUNS, *value.shape[at + 1 :])
        self.keep(replace(value, name=best, shape=shape, known=False))
        return Value(places, INT64, shape, float(largest(value.shape[at])))

    def softmax(self):
        value = self.pick(FLOAT, of=lambda it: it.is_full)
        at = self.random.randint(-value.rank if self.opset >= 11 else 0, value.rank - 1)
        some = {"axis": at}
        if self.chance(0.3) and (self.opset >= 13 or value.rank > 1):
            some = {}
        if self.chance(0.5):
            return self.number("Softmax", [value], value.shape, 1.0, value.error * 2, 0.0, **some)
        return self.number(
            "LogSoftmax", [value], value.shape, value.most * 2 + 9, value.error * 2, 0.0, **some
        )

    def layer_normalization(self):
        value = self.pick(FLOAT, of=lambda it: it.is_full)
        if self.opset < 17:
            return None
        at = self.random.randrange(value.rank)
        # Of a small variance each rounding is large.
        epsilon = self.choose([0.125, 1.0])
        others = [self.source(FLOAT, value.shape[at:]) for _ in range(self.choose([1, 2]))]
        most = 2 * math.sqrt(count(value.shape[at:])) + 2
        error = (value.error + value.most * UNIT) * 8
        return self.number(
            "LayerNormalization",
            [value, *others],
            value.shape,
            most,
            error,
            0.0,
            axis=at - value.rank if self.chance(0.5) else at,
            epsilon=epsilon,
        )

    def product(self, op, inputs, shape, terms, **attributes):
        """The value of products of two, with this number of terms of a sum."""
        most, error, grain = 1.0, 0.0, 1.0
        for it in inputs:
            error = error * it.most + it.error * most
            most, grain = most * it.most, grain * it.grain
        if count(shape) > MOST_ELEMENTS:
            return None
        terms = max(1, terms)
        return self.number(op, inputs, shape, most * terms, error * terms, grain, **attributes)

    def with_shape(self, shape) -> Value:
        """Floats with these sizes."""
        found = self.find(FLOAT, of=lambda it: it.shape == shape)
        return found if found is not None and self.chance(0.5) else self.source(FLOAT, shape)

    def is_transposed(self, name: str) -> bool:
        """Whether a Transpose makes a value, as it is or times a number."""
        maker = next((it for it in self.nodes if name in it.output), None)
        if maker is None:
            return False
        if maker.op_type in ("Identity", "Dropout", "Cast", "Mul", "Div"):
            return any(self.is_transposed(it) for it in maker.input)
        return maker.op_type == "Transpose"

    def mat_mul(self):
        one = self.pick(FLOAT, of=lambda it: it.is_full)
        is_left = self.chance(0.7)
        size = self.choose(self.sizes)
        if min(size) == 0:
            return None
        term = one.shape[-1] if is_left or one.rank == 1 else one.shape[-2]
        lead = one.shape[:-2]
        if self.chance(0.5):
            lead = ()
        elif lead and self.chance(0.3):
            lead = (ONE, *lead[1:])
        kind = self.choose(["vector", "matrix", "matrix", "matrix", "batch"])
        if kind == "vector":
            shape = (term,)
        elif is_left:
            shape = (*(lead if kind == "batch" else ()), term, size)
        else:
            shape = (*(lead if kind == "batch" else ()), size, term)
        if count(shape) > MOST_ELEMENTS:
            return None
        other = self.with_shape(shape)
        a, b = (one, other) if is_left else (other, one)
        # ONNX Runtime 1.31 makes a FusedMatMul of a Transpose, which is wrong with a vector.
        if 1 in (a.rank, b.rank) and (self.is_transposed(a.name) or self.is_transposed(b.name)):
            return None
        rows = () if a.rank == 1 else (a.shape[-2],)
        columns = () if b.rank == 1 else (b.shape[-1],)
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        if batch is None:
            return None
        return self.product("MatMul", [a, b], (*batch, *rows, *columns), largest(term))

    def gemm(self):
        one = self.pick(FLOAT, of=lambda it: it.is_full and it.rank == 2)
        turns = [self.chance(0.4), self.chance(0.4)]
        rows, term = one.shape[::-1] if turns[0] else one.shape
        size = self.choose(self.sizes)
        if min(size) == 0:
            return None
        shape = (term, size)
        other = self.with_shape(shape[::-1] if turns[1] else shape)
        some = {"transA": int(turns[0]), "transB": int(turns[1])}
        if count((rows, size)) > MOST_ELEMENTS:
            return None
        alpha, beta = self.choose([None, 0.5, 2.0, -1.0]), self.choose([None, 0.5, -1.0])
        some |= {name: it for name, it in (("alpha", alpha), ("beta", beta)) if it is not None}
        inputs = [one, other]
        if self.opset < 11 or self.chance(0.6):
            inputs.append(self.with_shape(self.choose([(), (size,), (rows, size), (ONE, size), (rows, ONE)])))
        number = max(1, largest(term))
        most = one.most * other.most * number * 2
        error = (one.error * other.most + other.error * one.most) * number * 2
        grain = one.grain * other.grain * 0.5
        if len(inputs) > 2:
            most, error, grain = (
                most + inputs[2].most,
                error + inputs[2].error,
                min(grain, inputs[2].grain / 2),
            )
        return self.number("Gemm", inputs, (rows, size), most, error, grain, **some)

    def einsum(self):
        one = self.pick(FLOAT, of=lambda it: it.is_full and it.rank < 4)
        if self.opset < 12:
            return None
        equations = {
            1: ["i,j->ij", "i,i->", "i,ij->j", "i,i->i", "i->", "i,j,ij->"],
            2: [
                "ij,jk->ik",
                "ij,ij->i",
                "ij->ji",
                "ij,j->i",
                "ij,kj->ik",
                "ij,jk,kl->il",
                "ij,hij->hi",
                "ij->j",
                "ij,kl->ikjl",
                "ij,ik->ijk",
            ],
            3: [
                "bij,bjk->bik",
                "bhi,hij->bhj",
                "bij,bij->b",
                "bij->jib",
                "bij,bj->bi",
                "bij,jk->bik",
                "bij,i->bj",
                "bhi,bhj->hij",
            ],
        }
        equation = self.choose(equations[one.rank])
        operands, to = equation.split("->")
        operands = operands.split(",")
        sizes = dict(zip(operands[0], one.shape, strict=True))
        for letter in "".join(operands):
            if letter not in sizes:
                sizes[letter] = self.choose([it for it in self.sizes if min(it) > 0])
        shapes = [tuple(sizes[letter] for letter in letters) for letters in operands]
        whole = count([sizes[letter] for letter in sizes])
        if whole > 20000 or any(count(shape) > MOST_ELEMENTS for shape in shapes):
            return None
        inputs = [one, *(self.with_shape(shape) for shape in shapes[1:])]
        if self.chance(0.3):
            # The other way round.
            operands, inputs = operands[::-1], inputs[::-1]
        equation = f"{','.join(operands)}->{to}"
        if self.chance(0.3):
            equation = equation.replace(",", ", ").replace("->", " -> ")
        terms = count([size for letter, size in sizes.items() if letter not in to])
        return self.product("Einsum", inputs, tuple(sizes[letter] for letter in to), terms, equation=equation)

    def branches(self):
        """An If whose condition is known before the run, or computed by a step."""
        value = self.pick(FLOAT, INT64)
        if self.in_branch:
            return None
        kind = self.choose(["constant", "given", "sizes", "value", "value", "value"])
        computed = self.find(BOOL, of=lambda it: it.shape in ((), (ONE,)))
        if kind == "value" and (computed is None or not value.is_fixed):
            return None
        if kind == "constant":
            truth = self.constant(np.array(self.chance(0.5)))
        elif kind == "given":
            truth = self.source(BOOL, ())
        elif kind == "value":
            truth = computed
        else:
            of = self.find(of=lambda it: it.is_fixed)
            size = self.made("Size", [of], INT64, ())
            truth = self.made("Greater", [size, self.constant(np.int64(4))], BOOL, ())
        graphs, results = [], []
        outside, pool = self.nodes, self.pool
        self.in_branch = True
        nodes = [self.unary, self.binary, self.by_constant]
        if kind == "value":
            nodes.append(self.mat_mul)
        for name in ("then", "other"):
            self.nodes, self.pool = [], [value]
            for _ in range(self.random.randint(1, 3)):
                made = self.attempt(self.choose(nodes))
                if made is not None and made.shape == value.shape and made.type == value.type:
                    self.keep(made)
            result = self.pool[-1]
            (name_out,) = self.emit("Identity", [result])
            results.append(result)
            out = helper.make_tensor_value_info(name_out, value.type, None)
            graphs.append(helper.make_graph(self.nodes, self.new(name), [], [out]))
        self.in_branch = False
        self.nodes, self.pool = outside, pool
        (name,) = self.emit("If", [truth], then_branch=graphs[0], else_branch=graphs[1])
        a, b = results
        return Value(
            name,
            value.type,
            value.shape,
            max(a.most, b.most),
            max(a.error, b.error),
            min(a.grain, b.grain),
            a.wild or b.wild,
        )

    def same(self):
        value = self.pick()
        ops = ["Identity"] + (["Dropout"] if value.type == FLOAT else [])
        return self.like(self.choose(ops), value, value.shape)

    def turns(self):
        """What makes nodes, with how often each is drawn."""
        return {
            self.unary: 6,
            self.of_positive: 2,
            self.binary: 9,
            self.by_constant: 3,
            self.variadic: 3,
            self.clip: 2,
            self.compared: 3,
            self.truth: 2,
            self.where: 3,
            self.cast: 3,
            self.transpose: 3,
            self.unsqueeze: 2,
            self.squeeze: 2,
            self.flatten: 1,
            self.reshape: 3,
            self.expand: 2,
            self.tile: 1,
            self.slice: 3,
            self.turned: 4,
            self.split: 2,
            self.concat: 3,
            self.sizes_as_value: 1,
            self.filled: 1,
            self.gather: 4,
            self.window: 2,
            self.prefix: 1,
            self.gather_elements: 1,
            self.scatter: 4,
            self.best: 1,
            self.reduce: 5,
            self.softmax: 1,
            self.layer_normalization: 1,
            self.mat_mul: 4,
            self.gemm: 1,
            self.einsum: 3,
            self.branches: 2,
            self.convolved: 2,
            self.top: 1,
            self.same: 1,
        }

    def attempt(self, make) -> Value | None:
        try:
            return make()
        except Nothing:
            return None

    def fill(self, number: int) -> None:
        """Makes so many nodes."""
        turns = self.turns()
        for _ in range(number):
            (make,) = self.random.choices(list(turns), list(turns.values()))
            value = self.attempt(make)
            if value is not None and value.rank <= 4:
                self.keep(value)

    # States.

    def state_value(self, state: Value, is_exact: bool) -> Value:
        """What a state becomes: of the same type and sizes, and bounded."""
        is_new = lambda it: (
            it.type == state.type
            and it.is_fixed
            and (it.is_exact or not is_exact)
            and (it.grain > 1e-6 or not is_exact)
        )
        same = [it for it in self.pool if is_new(it) and it.shape == state.shape]
        if same and self.chance(0.9):
            value = self.choose(same[-4:])
        else:
            fits = [it for it in self.pool if is_new(it) and broadcast(state.shape, it.shape) == state.shape]
            # The state itself is one of them.
            value = self.choose(fits)
        if value.shape != state.shape or self.chance(0.3):
            op = "Xor" if state.type == BOOL else self.choose(["Add", "Sub"])
            error, most = state.error + value.error, state.most + value.most
            value = self.made(
                op,
                [state, value] if self.chance(0.5) else [value, state],
                state.type,
                state.shape,
                most,
                error,
                min(state.grain, value.grain),
            )
        return self.bounded(value, is_exact)

    def bounded(self, value: Value, is_exact: bool) -> Value:
        most = STATE_MOST[value.type]
        if value.type == BOOL or value.type != FLOAT and value.most <= most:
            return value
        if value.type != FLOAT:
            if self.opset >= 10:
                return self.made(
                    "Mod",
                    [value, self.constant(TYPES[value.type](self.choose([7, 50, 99])))],
                    value.type,
                    value.shape,
                    99.0,
                )
            return self.made(
                "Div",
                [value, self.constant(TYPES[value.type](int(value.most) // int(most) + 1))],
                value.type,
                value.shape,
                most,
            )
        if is_exact and value.grain < STATE_GRAIN:
            for op, by in (("Mul", 1 / STATE_GRAIN), ("Floor", None), ("Mul", STATE_GRAIN)):
                others = [] if by is None else [self.constant(np.float32(by))]
                (name,) = self.emit(op, [value, *others])
                value = replace(value, name=name)
            value = replace(value, grain=STATE_GRAIN, most=value.most + 1)
        if value.error > STATE_ERROR:
            factor = np.float32(STATE_ERROR / value.error)
            value = self.made(
                "Mul",
                [value, self.constant(factor)],
                FLOAT,
                value.shape,
                value.most * float(factor),
                STATE_ERROR,
                0.0,
            )
        if value.most > most:
            if is_exact or self.chance(0.5):
                bounds = {"min": -most, "max": most} if self.opset < 11 else {}
                others = [] if bounds else [self.constant(np.float32(-most)), self.constant(np.float32(most))]
                value = replace(self.like("Clip", value, value.shape, others, **bounds), most=most)
            else:
                value = self.made("Tanh", [value], FLOAT, value.shape, 1.0, STATE_ERROR, 0.0)
        return value

    # The model.

    def model(self) -> onnx.ModelProto:
        self.steps = self.step_number = None
        for _ in range(self.random.randint(1, 4)):
            self.outer.append(
                self.source(self.choose([FLOAT, FLOAT, FLOAT, INT64, INT32, BOOL]), self.some_shape())
            )
        for _ in range(2 if self.chance(0.15) else 1):
            self.loop()
        graph = helper.make_graph(self.nodes, "graph", self.inputs, self.outputs, self.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def some_steps(self, is_scan: bool) -> tuple:
        def drawn():
            # ONNX Runtime 1.31 refuses a Scan of no steps, or divides by their number.
            if is_scan:
                return self.random.choices([1, 2, 3, 5, 18, 40], [2, 4, 6, 6, 1, 2])[0]
            return self.random.choices([0, 1, 2, 3, 5, 18, 40], [1, 2, 4, 6, 6, 1, 2])[0]

        if self.chance(0.4):
            return (drawn(),) * RUNS
        all = [drawn() for _ in range(RUNS - 1)]
        return (*all, all[0])

    def loop(self) -> None:
        """A Loop or a Scan."""
        outside = self.nodes
        is_scan = self.chance(0.4)
        steps = self.some_steps(is_scan)
        inputs: list[str] = []
        body_inputs: list[Value] = []
        self.pool = list(self.outer)
        states: list[tuple[Value, bool]] = []
        initials: list[Value] = []
        # A Loop of older operator sets has a state.
        for _ in range(self.choose([0, 1, 1, 2, 2, 3]) or int(is_scan or self.opset < 11)):
            kind = self.random.choices([FLOAT, INT64, INT32, BOOL], [6, 2, 1, 1])[0]
            shape = self.some_shape(self.choose([2, 4]))
            if states and self.chance(0.4):
                kind, shape = states[-1][0].type, states[-1][0].shape
            initial = self.source(kind, shape)
            is_exact = kind != FLOAT or self.is_coarse and self.chance(0.6)
            initials.append(initial)
            error, grain = (0.0, STATE_GRAIN) if is_exact else (STATE_ERROR, 0.0)
            state = Value(
                self.new("s"), kind, shape, STATE_MOST[kind], error, grain, self.is_wild and kind == FLOAT
            )
            states.append((state, is_exact))
        slices: list[tuple[Value, Value, int, int]] = []
        for _ in range(self.choose([0, 1, 1, 2] if states else [1, 2]) if is_scan else 0):
            shape = list(self.some_shape(3))
            at = self.random.randint(0, len(shape))
            shape.insert(at, steps)
            # Along another axis than the first ONNX Runtime 1.31 divides by the number of elements.
            if count(shape) > 4 * MOST_ELEMENTS or at > 0 and is_empty(shape):
                shape, at = [steps], 0
            whole = self.source(self.choose([FLOAT, FLOAT, INT64, INT32, BOOL]), tuple(shape))
            each = replace(whole, name=self.new("e"), shape=(*shape[:at], *shape[at + 1 :]), known=False)
            slices.append((whole, each, self.signed(at, len(shape)), int(self.chance(0.4))))
        if is_scan and not slices:
            whole = self.source(FLOAT, (steps,))
            slices.append((whole, replace(whole, name=self.new("e"), shape=()), 0, 0))
        self.is_body, self.nodes, self.body_initializers = True, [], []
        number = go = None
        if not is_scan:
            number = Value(self.new("i"), INT64, (), 50.0, known=True, stepped=True)
            go = Value(self.new("g"), BOOL, (), known=True)
            self.pool.append(number)
        self.states = [state for state, _ in states]
        self.pool += self.states + [each for _, each, _, _ in slices]
        self.steps = None if is_scan else steps
        self.step_number = number
        changing = [] if is_scan or self.chance(0.75) else [self.changing()]
        self.fill(self.random.randint(2, 40 if self.chance(0.1) else 20))
        # What the states become.
        news: list[Value] = []
        for state, is_exact in states:
            kind = self.random.random()
            same = [
                it
                for it, _ in states
                if it.type == state.type and it.shape == state.shape and it.error <= state.error
            ]
            if kind < 0.08:
                new = state
            elif kind < 0.3 and len(same) > 1:
                # Another's value of before, as of states that shift or change places.
                new = self.choose(same)
            elif kind < 0.4 and state.type in (INT64, INT32) and len(initials) and state.most >= 100:
                apart = self.constant(TYPES[state.type](self.choose([1, 2, -1])))
                new = self.made("Add", [state, apart], state.type, state.shape)
            else:
                new = self.state_value(state, is_exact)
            if self.chance(0.3):
                self.pool.append(new)
            news.append(new)
        if self.chance(0.5):
            # States that are read after they are written.
            self.fill(self.random.randint(1, 5))
        # What is collected.
        collected: list[tuple[Value, int, int]] = []
        good = [it for it in self.pool if it.is_fixed and it not in self.outer]
        if not states and not good:
            good = [self.made("Add", [self.pool[0], self.pool[0]], self.pool[0].type, self.pool[0].shape)]
        wanted = self.choose([0, 1, 1, 2, 3]) or int(not states)
        for _ in range(wanted if good else 0):
            value = self.choose(good[-8:] if self.chance(0.6) else good)
            if count(value.shape) * max(1, *steps) > 60000 and (states or collected):
                continue
            at = self.random.randint(0, value.rank) if is_scan and not is_empty(value.shape) else 0
            is_negative = is_scan and self.opset >= 11 and self.chance(0.3)
            collected.append(
                (value, at - value.rank - 1 if is_negative else at, int(is_scan and self.chance(0.3)))
            )
        extra = [(initial, state, next_of()) for initial, state, next_of in changing]
        condition = None
        if not is_scan:
            inputs, condition, steps = self.ends(steps, number, go, states, initials, news)

        # Each output of a body has a name of its own.
        def out(value):
            (name,) = self.emit("Identity", [value])
            # A Scan's outputs have to be of a known rank.
            shape = [self.new("n") for _ in value.shape] if is_scan else None
            return helper.make_tensor_value_info(name, value.type, shape)

        outs = [out(condition)] if condition is not None else []
        outs += [out(it) for it in news] + [out(new) for _, _, new in extra]
        outs += [out(value) for value, _, _ in collected]
        declared = [it for it in (number, go) if it is not None]
        declared += (
            [it for it, _ in states] + [state for _, state, _ in extra] + [each for _, each, _, _ in slices]
        )
        ins = [helper.make_tensor_value_info(it.name, it.type, None) for it in declared]
        for it in ins[: 0 if number is None else 2]:
            it.type.tensor_type.shape.SetInParent()
        body = helper.make_graph(self.nodes, self.new("body"), ins, outs, self.body_initializers)
        self.nodes, self.is_body = outside, False
        self.steps = self.step_number = None
        inputs += [it.name for it in initials] + [it.name for it, _, _ in extra]
        inputs += [whole.name for whole, _, _, _ in slices]
        values = [
            *((it, True) for it in news),
            *((it, True) for _, _, it in extra),
            *((it, False) for it, _, _ in collected),
        ]
        names = []
        for (value, is_state), initial in zip(values, initials + [None] * len(values)):
            name = self.new("y")
            names.append(name)
            # One that nothing reads; ONNX Runtime has no Loop with an output of no name.
            if self.chance(0.12):
                continue
            error = (
                value.error
                if not is_state or initial is None
                else max(value.error, STATE_ERROR if value.error else 0.0)
            )
            self.outputs.append(helper.make_tensor_value_info(name, value.type, None))
            self.errors.append(error)
            if (
                is_state
                and value.is_fixed
                and not self.is_wild
                and value.is_exact
                and (value.type != FLOAT or value.grain >= STATE_GRAIN)
            ):
                self.outer.append(
                    replace(
                        value,
                        name=name,
                        known=False,
                        stepped=False,
                        most=max(value.most, 5.0),
                        grain=min(value.grain, STATE_GRAIN),
                    )
                )
        if not self.outputs:
            self.outputs.append(helper.make_tensor_value_info(names[0], values[0][0].type, None))
            self.errors.append(max(values[0][0].error, STATE_ERROR if values[0][0].error else 0.0))
        some = {"body": body}
        if is_scan:
            some["num_scan_inputs"] = len(slices)
            forms = {
                "scan_input_axes": [at for _, _, at, _ in slices],
                "scan_input_directions": [way for _, _, _, way in slices],
                "scan_output_axes": [at for _, at, _ in collected],
                "scan_output_directions": [way for _, _, way in collected],
            }
            some |= {name: all for name, all in forms.items() if any(all) or all and self.chance(0.3)}
        self.nodes.append(
            helper.make_node("Scan" if is_scan else "Loop", inputs, names, name=self.new("loop"), **some)
        )

    def changing(self):
        """A state whose sizes change: before the loop, in a step, and what makes the next of it."""
        if self.chance(0.3):
            # One that the first step broadcasts.
            kind = self.choose([FLOAT, INT64, BOOL])
            shape = self.some_shape(3)
            narrow = tuple(ONE if self.chance(0.6) else size for size in shape)
            sizes = tuple(
                b if a == b else Changing(largest(b), b) for a, b in zip(narrow, shape, strict=True)
            )
            narrow, sizes = (
                (narrow[1:], sizes[1:])
                if self.chance(0.2) and narrow and narrow[0] == ONE
                else (narrow, sizes)
            )
            initial = self.given(kind, narrow)
            wide = self.source(kind, shape)
            if len(sizes) < len(shape):
                sizes = (Changing(1), *sizes)
            state = Value(
                self.new("s"),
                kind,
                sizes,
                8.0,
                STATE_ERROR if kind == FLOAT else 0.0,
                0.0 if kind == FLOAT else 1.0,
                self.is_wild and kind == FLOAT,
            )

            def next_of():
                both = [state, wide] if self.chance(0.5) else [wide, state]
                if kind == BOOL:
                    return self.made("Xor", both, kind, shape)
                if kind == FLOAT:
                    new = self.made("Sub", both, kind, shape, 8.0, 2 * STATE_ERROR, 0.0)
                    return replace(self.bounded(new, False), most=8.0)
                return self.bounded(self.made("Add", both, kind, shape, 1e9), True)

            return initial, state, next_of
        rest = self.some_shape(2)
        at = self.random.randint(0, len(rest))
        first = self.choose([ONE, ONE, (0,) * RUNS, *self.sizes])
        if count((first, *rest)) > 500 or is_empty(rest):
            first, rest, at = ONE, (), 0
        around = lambda size: (*rest[:at], size, *rest[at:])
        initial = self.given(FLOAT, around(first))
        state = Value(
            self.new("s"), FLOAT, around(Changing(largest(first) + 40)), 4.0, 0.0, initial.grain, self.is_wild
        )
        if min(first) > 0:
            self.of_growing(state, at)

        def next_of():
            found = [
                it
                for it in self.pool
                if it.type == FLOAT
                and it.shape == around(ONE)
                and it.is_exact
                and it.most <= 4
                and it.grain >= initial.grain
            ]
            part = self.choose(found) if found and self.chance(0.7) else self.source(FLOAT, around(ONE))
            parts = [state, part] if self.chance(0.7) else [part, state]
            return self.made("Concat", parts, FLOAT, state.shape, 4.0, 0.0, initial.grain, axis=at)

        return initial, state, next_of

    def of_growing(self, state, at) -> None:
        """What a body reads of a state that grows."""
        rest = state.shape[:at] + state.shape[at + 1 :]
        if self.chance(0.4):
            half = self.number(
                "Mul", [state, self.constant(np.float32(0.5))], state.shape, 2.0, 0.0, state.grain / 2
            )
            value = half and self.reduced("ReduceMean", half, at)
            if value is not None:
                self.keep(value)
        if self.chance(0.4):
            last = self.like(
                "Gather",
                state,
                rest,
                [self.constant(np.int64(self.choose([0, -1]) if self.opset >= 11 else 0))],
                axis=at,
            )
            self.keep(last)
        if len(rest) == 1 and at == 0 and self.chance(0.6):
            # Attention to all that came before.
            query = self.with_shape(rest)
            scores = self.product("MatMul", [state, query], (state.shape[0],), largest(rest[0]))
            if scores is None or scores.most > 200:
                return
            some = {"axis": 0} if self.opset < 13 else {"axis": -1}
            weights = self.number("Softmax", [scores], scores.shape, 1.0, scores.error * 2, 0.0, **some)
            made = weights and self.made(
                "MatMul", [weights, state], FLOAT, rest, 4.0, 8 * weights.error + 1e-4, 0.0
            )
            if made is not None:
                self.keep(made)

    def ends(self, steps, number, go, states, initials, news):
        """How a Loop ends: its first inputs, the condition of its body, and the most steps."""
        kind = self.choose(["trips", "trips", "trips", "number", "counter", "float", "value"])
        name = ""
        is_one = len(set(steps)) == 1
        # The most steps are an input, or only the condition ends it.
        has_trips = kind in ("trips", "value") or self.chance(0.5)
        was_body, self.is_body = self.is_body, True
        if has_trips:
            shape = self.choose([(), (ONE,)])
            if is_one and self.chance(0.5):
                self.is_body = False
                name = self.constant(np.full([1] * len(shape), steps[0], np.int64)).name
                self.is_body = True
            else:
                name = self.given(INT64, shape, [np.full([1] * len(shape), it) for it in steps]).name
        condition = go if self.chance(0.5) else self.constant(np.array(True))
        least = max(1, min(steps)) if not has_trips else self.choose([1, 2, 4, 50])
        if kind != "trips" and not has_trips and min(steps) == 0:
            # The first step always runs, and reads what is there.
            kind, has_trips = "trips", True
            name = self.given(INT64, (), list(steps)).name
        if kind == "number":
            one = self.made("Add", [number, self.constant(np.int64(1))], INT64, ())
            condition = self.made("Less", [one, self.constant(np.int64(least))], BOOL, ())
            if self.opset >= 12 and self.chance(0.3):
                condition = self.made(
                    "GreaterOrEqual", [self.constant(np.int64(least - 2)), number], BOOL, ()
                )
        elif kind in ("counter", "float"):
            start, apart = self.choose([0, 3, -2]), self.choose([1, 2])
            of = np.int64 if kind == "counter" else np.float32
            end = start + apart * least
            self.is_body = False
            initial = (
                self.constant(np.array(start, of))
                if self.chance(0.5)
                else self.given(INT64 if of is np.int64 else FLOAT, (), [start] * RUNS)
            )
            self.is_body = True
            state = Value(self.new("s"), initial.type, (), 100.0)
            new = self.made("Add", [state, self.constant(of(apart))], initial.type, (), 100.0)
            condition = self.made("Less", [new, self.constant(of(end))], BOOL, ())
            states.append((state, True))
            initials.append(replace(initial, error=0.0))
            news.append(replace(new, error=0.0))
        elif kind == "value":
            found = [it for it in self.pool if it.type == BOOL and it.is_fixed and it.shape == ()]
            if found:
                condition = self.choose(found)
        self.is_body = was_body
        first = ""
        if self.chance(0.4):
            self.is_body = False
            often = 0.15
            if self.chance(0.5):
                first = self.constant(np.array(not self.chance(often))).name
            else:
                first = self.given(BOOL, (), [not self.chance(often) for _ in range(RUNS)]).name
            self.is_body = was_body
        return [name, first], condition, steps
