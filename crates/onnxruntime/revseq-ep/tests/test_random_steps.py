"""Random loops as programs: equal to plain ONNX Runtime, and taken by the provider; on tract, equal as well.

`REVSEQ_RANDOM_STEPS=FIRST:COUNT` has the seeds of longer runs; `Maker(seed).model()` is the model of
one, and its `feeds` are the inputs."""

import json
import os
import subprocess
import threading
import traceback

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import harness
from random_loops import RUNS, Maker
from test_loops import loops

STEPS = {"loops": "steps"}
BLOCK = 50
FIRST, COUNT = (int(it) for it in os.environ.get("REVSEQ_RANDOM_STEPS", "0:500").split(":"))
#: The share of the loops that become programs; the others have what no program has.
LEAST_TAKEN = 0.7


def difference(found: np.ndarray, expected: np.ndarray, error: float) -> str | None:
    """How an output differs from plain ONNX Runtime's."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype != expected.dtype:
        return f"is of {found.dtype}, expected {expected.dtype}"
    if found.shape != expected.shape:
        # Plain ONNX Runtime does not know the sizes of steps that were none.
        is_empty = found.size == expected.size == 0
        return None if is_empty else f"has sizes {found.shape}, expected {expected.shape}"
    if found.dtype.kind != "f":
        same = found == expected
    else:
        small = 0.0 if error == 0 else 1e-5 + 4 * error
        relative = 0.0 if error == 0 else 1e-4
        with np.errstate(invalid="ignore"):
            same = np.isclose(found, expected, rtol=relative, atol=small, equal_nan=True)
    if same.all():
        return None
    place = tuple(int(it) for it in np.argwhere(~same)[0])
    return (
        f"of {found.dtype} {found.shape} differs in {np.sum(~same)} elements: at {place} it has "
        f"{found[place]!r}, expected {expected[place]!r} (error {error:.1e})"
    )


def answer(session, feeds):
    try:
        return session.run(None, feeds)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def compare(maker: Maker, found, expected) -> str | None:
    """What is wrong with an answer."""
    if isinstance(found, str) and isinstance(expected, str):
        return None
    if isinstance(found, str):
        return f"fails: {found}"
    # It refuses some that are right: it loses a value of an If that it inlines.
    if isinstance(expected, str):
        return None
    for output, one, other, error in zip(maker.outputs, found, expected, maker.errors, strict=True):
        text = difference(one, other, error)
        if text is not None:
            return f"output {output.name} {text}"
    return None


def together(session, feeds):
    """The answers of one session for several inputs at once."""
    answers = [None] * len(feeds)

    def work(place):
        for _ in range(3):
            answers[place] = answer(session, feeds[place])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(feeds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def quiet_session(model, **options):
    settings = harness.options(threads=1, **options)
    # Random models have nodes that nothing reads, and much more to warn of.
    settings.log_severity_level = 4
    return harness.session(model, settings)


def plain_session(model):
    """Plain ONNX Runtime's; older ones fail to optimise some models."""
    try:
        return quiet_session(model, ep=False)
    except Exception:
        return None


def check(seed: int) -> tuple[list[str], tuple[int, int], int]:
    """What is wrong with a model, its loops that are taken and all, and the runs that have an answer."""
    maker = Maker(seed)
    model = maker.model()
    plain = plain_session(model)
    if plain is None:
        return [], (0, 0), 0
    ours = quiet_session(model, provider_options=STEPS)
    expected = [answer(plain, feeds) for feeds in maker.feeds]
    problems = []
    for run, feeds in enumerate(maker.feeds):
        text = compare(maker, answer(ours, feeds), expected[run])
        if text is not None:
            problems.append(f"run {run}: {text}")
    if seed % 4 == 0:
        for run, found in enumerate(together(ours, maker.feeds)):
            text = compare(maker, found, expected[run])
            if text is not None:
                problems.append(f"run {run}, beside others: {text}")
    return problems, loops(ours), sum(not isinstance(it, str) for it in expected)


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BLOCK))
def test_random_loops_give_what_onnx_runtime_gives(first):
    problems = []
    taken = of_all = answers = 0
    seeds = range(first, min(first + BLOCK, FIRST + COUNT))
    for seed in seeds:
        try:
            found, (some, all_), answered = check(seed)
        except Exception:
            problems.append(f"seed {seed}: {traceback.format_exc(limit=-1)}")
            continue
        problems += [f"seed {seed}: {text}" for text in found]
        taken, of_all, answers = taken + some, of_all + all_, answers + answered
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems[:10])
    # Older hosts do not hand on what a loop captures, unless its maker goes with it.
    least = LEAST_TAKEN if harness.HOST >= (1, 27) else 0
    assert taken >= least * of_all, f"{taken} of {of_all} loops are taken"
    # What plain ONNX Runtime refuses says nothing.
    assert answers >= 0.95 * RUNS * len(seeds), f"{answers} runs have an answer"


#: What tract says of the few loops that it does not take: their ranks change from step to step, or depend on data.
REFUSED = ("its rank may change in the first step alone", "its rank depends on data")
#: Where sums in another order are further apart, values tell nothing.
MOST_ERROR = 1e-4


def record(seed: int, folder) -> bool:
    """Writes a model, and what plain ONNX Runtime makes of its inputs, for `revseq verify`."""
    maker = Maker(seed)
    model = maker.model()
    plain = plain_session(model)
    if plain is None or max(maker.errors, default=0.0) > MOST_ERROR:
        return False
    recorded = 0
    for feeds in maker.feeds:
        outputs = answer(plain, feeds)
        # Plain ONNX Runtime does not know the sizes of steps that were none.
        if isinstance(outputs, str) or any(np.asarray(it).size == 0 for it in outputs):
            continue
        data = folder / f"test_data_set_{recorded}"
        data.mkdir(parents=True)
        recorded += 1
        for kind, values, arrays in [
            ("input", model.graph.input, [feeds[it.name] for it in model.graph.input]),
            ("output", model.graph.output, outputs),
        ]:
            for place, (value, array) in enumerate(zip(values, arrays, strict=True)):
                tensor = numpy_helper.from_array(np.asarray(array), value.name)
                (data / f"{kind}_{place}.pb").write_bytes(tensor.SerializeToString())
    if recorded:
        onnx.save(model, folder / "model.onnx")
    return recorded > 0


def test_random_loops_on_tract_give_what_onnx_runtime_gives(tmp_path):
    command = os.environ.get("REVSEQ_COMMAND")
    assert command, "set REVSEQ_COMMAND"
    recorded = sum(record(seed, tmp_path / f"{seed}") for seed in range(FIRST, FIRST + COUNT))
    assert recorded >= 0.8 * COUNT
    report = subprocess.run(
        [command, "verify", tmp_path, "--rtol=1e-3", "--atol=1e-3", "--format=json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    tests = json.loads(report.stdout)["tests"]
    assert len(tests) == recorded, report.stderr
    failed = [it for it in tests if it["result"] != "ok"]
    wrong = [it for it in failed if not any(why in it["reason"] for why in REFUSED)]
    assert not wrong, f"{len(wrong)} problems:\n" + "\n".join(map(str, wrong[:10]))
    assert len(failed) <= 0.02 * recorded, f"{len(failed)} of {recorded} loops are refused"
