"""Run the project's models on other runtimes, as they are and rewritten for each.

A model is right if all outputs of all its data sets are the expected ones, and refused if the
runtime says so, or ends. It is an error if a rewritten model is wrong that is not wrong as it is, or
refused that is right as it is.

    python run.py PROGRAMS PACKAGES FOLDER

PROGRAMS is the folder of the programs that cargo builds, PACKAGES has onnxruntime-web and
puppeteer-core, which runs it in Chromium, and FOLDER gets the rewritten models.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib.metadata
import json
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parents[4]
HERE = Path(__file__).resolve().parent

#: The folders with models.
MODELS = ["models", "tests/data/keras", "tests/data/layers"]
#: Seconds after which a run is given up.
TIMEOUT = 120
#: As for all of the project's comparisons of computed numbers.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
#: The parts of refusals that say why, without names and sizes of one model.
REASONS = [
    r"No conversion rule found for operations: [\w.]+",
    r"Conversion is failed for: [A-Z]\w+",
    r"[\w./]+ operator not (?:supported|enabled)",
    r"has no tensors of \w+",
    r"`\w+=0` is not supported",
    r"operator has \d inputs",
    r"batch_axis and time_axis must be 0 and 1",
    r"(?:must|Must) be 0 or 1",
    r"Invalid sequence length|sequence_lens shape must be",
    r"[\w:]+\(-?\d+\) is not a registered function/op",
    r"Unsupported model IR version",
    r"Unimplemented\(\w+\)",
    r"the process ended",
    r"it panics",
]


@dataclasses.dataclass
class Test:
    """A model with its data sets: inputs by name, and expected outputs."""

    path: Path
    sets: list[tuple[dict[str, np.ndarray], list[np.ndarray]]]

    @property
    def name(self) -> str:
        return str(self.path.parent.relative_to(ROOT))


@dataclasses.dataclass
class Runtime:
    """A runtime, with the program that runs models on it."""

    title: str
    version: str
    command: list[str | Path]
    #: The options of `rewrite`; none for the model as it is.
    forms: list[list[str]]
    process: subprocess.Popen[str] | None = None

    def run(self, model: Path, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        """The answer of the program, which is started anew if it has ended."""
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
        process = self.process
        values = [
            {
                "name": name,
                "type": str(array.dtype),
                "shape": array.shape,
                "bytes": array.tobytes().hex(),
            }
            for name, array in inputs.items()
        ]
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        try:
            request = json.dumps({"model": str(model), "inputs": values})
            print(request, file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        timer.cancel()
        if line:
            return json.loads(line)
        self.process = None
        return {"refused": f"the process ended, with status {process.wait()}"}

    def judge(self, model: Path, test: Test) -> tuple[str, str]:
        """Whether a model is right, wrong or refused, and how."""
        for inputs, expected in test.sets:
            answer = self.run(model, inputs)
            if "refused" in answer:
                return "refused", answer["refused"]
            outputs = map(tensor, answer["outputs"])
            for number, (want, got) in enumerate(zip(expected, outputs, strict=True)):
                if difference := compare(want, got):
                    return "wrong", f"output {number}: {difference}"
        return "right", ""


def tensor(value: dict[str, Any]) -> np.ndarray:
    elements = np.frombuffer(bytes.fromhex(value["bytes"]), value["type"])
    return elements.reshape(value["shape"])


def compare(want: np.ndarray, got: np.ndarray) -> str | None:
    """How an output differs. A runtime may have wider or narrower types only."""
    if want.shape != got.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    if want.dtype.kind != "f":
        return None if np.array_equal(want, got.astype(want.dtype)) else "other elements"
    if np.allclose(got, want, equal_nan=True, **TOLERANCE):
        return None
    with np.errstate(invalid="ignore"):
        return f"differs by {np.nanmax(np.abs(got.astype('f8') - want)):.2g}"


def tests() -> list[Test]:
    """All models whose data sets hold numbers that NumPy has."""
    found = []
    for folder in MODELS:
        for path in sorted((ROOT / folder).glob("**/model.onnx")):
            graph = onnx.load(path, load_external_data=False).graph
            names = [value.name for value in graph.input]
            sets = []
            for data in sorted(path.parent.glob("test_data_set_*")):
                inputs = dict(zip(names, tensors(data, "input"), strict=False))
                sets.append((inputs, tensors(data, "output")))
            values = [it for inputs, outputs in sets for it in [*inputs.values(), *outputs]]
            if sets and all(value.dtype.kind in "biuf" for value in values):
                found.append(Test(path, sets))
    return found


def tensors(data: Path, kind: str) -> list[np.ndarray]:
    paths = sorted(data.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    return [numpy_helper.to_array(onnx.load_tensor(path)) for path in paths]


def rewrite(revseq: Path, test: Test, output: Path, options: list[str]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [revseq, "rewrite", test.path, "-o", output, "--overwrite", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{test.name}: rewrite {' '.join(options)}: {done.stderr.strip()}")


def reason(refusal: str) -> str:
    """A refusal in the words that it shares with others."""
    found = (re.search(pattern, refusal) for pattern in REASONS)
    match = next((it for it in found if it), None)
    if match:
        return match[0]
    # OpenVINO and tract put the place first.
    words = re.sub(r"Exception from \S+ |node #\d+ \S+ ", "", " ".join(refusal.split()) + " ")
    return words[:120].strip()


def run_all(runtime: Runtime, all_tests: list[Test], revseq: Path, folder: Path) -> list[str]:
    """Prints a line of the table for each form, with the refusals; returns what is an error."""
    errors = []
    before: dict[str, str] = {}
    for options in runtime.forms:
        title = " ".join(options) or "as it is"
        counts: collections.Counter[str] = collections.Counter()
        refusals: collections.Counter[str] = collections.Counter()
        wrong = []
        for test in all_tests:
            model = test.path
            if options:
                model = folder / "-".join(options) / test.name / "model.onnx"
                rewrite(revseq, test, model, options)
            outcome, how = runtime.judge(model, test)
            counts[outcome] += 1
            if outcome == "refused":
                refusals[reason(how)] += 1
            first = before.setdefault(test.name, outcome)
            if outcome == "wrong":
                too = " (as it is, too)" if options and first == "wrong" else ""
                wrong.append(f"{test.name}: {how}{too}")
            if options and (first, outcome) in [
                ("right", "wrong"),
                ("refused", "wrong"),
                ("right", "refused"),
            ]:
                errors.append(f"{runtime.title}, {title}: {test.name}: {outcome}, {how}")
        cells = [runtime.title, runtime.version, title]
        cells += [str(counts[it]) for it in ("right", "refused", "wrong")]
        print(f"| {' | '.join(cells)} |", flush=True)
        for why, count in refusals.most_common():
            print(f"    {count:>3} refused: {why}")
        for line in wrong:
            print(f"        wrong: {line}")
    return errors


def main() -> None:
    programs, packages, folder = map(Path, sys.argv[1:])
    with open(ROOT / "Cargo.lock", "rb") as file:
        locked = {package["name"]: package["version"] for package in tomllib.load(file)["package"]}
    package = packages / "node_modules/onnxruntime-web/package.json"

    def forms(name: str) -> list[list[str]]:
        return [[], ["--for", name], ["--for", name, "--fast"]]

    runtimes = [
        Runtime(
            "OpenVINO (CPU)",
            importlib.metadata.version("openvino"),
            [sys.executable, HERE / "openvino_cpu.py"],
            forms("openvino"),
        ),
        *(
            Runtime(
                f"onnxruntime-web ({host})",
                json.loads(package.read_text())["version"],
                ["node", HERE / "onnxruntime_web.mjs", packages, *provider],
                forms("onnxruntime-web"),
            )
            for host, *provider in [
                ("Node, WebAssembly",),
                ("Chromium, WebAssembly", "wasm"),
                ("Chromium, WebGPU", "webgpu"),
            ]
        ),
        Runtime("rten", locked["rten"], [programs / "on-rten"], forms("rten")),
        Runtime(
            "plain tract", locked["tract-onnx"], [programs / "on-tract"], forms("plain-tract")
        ),
    ]
    all_tests = tests()
    print(f"{len(all_tests)} models\n")
    print("| runtime | version | models | right | refused | wrong |")
    errors = []
    for runtime in runtimes:
        errors += run_all(runtime, all_tests, programs / "revseq", folder)
    if errors:
        sys.exit("\n" + "\n".join(errors))


if __name__ == "__main__":
    main()
