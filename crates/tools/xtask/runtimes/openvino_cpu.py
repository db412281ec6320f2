"""Run ONNX models on OpenVINO's CPU plugin, for `cargo xtask test runtimes`.

`tests/runtimes.rs` has the form of the lines that it reads and writes.
"""

import json
import sys
from typing import Any

import numpy as np
import openvino


def run(core: openvino.Core, model: str, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    given = {}
    for value in inputs:
        # It takes only arrays that can be written to.
        elements = np.frombuffer(bytearray.fromhex(value["bytes"]), value["type"])
        given[value["name"]] = elements.reshape(value["shape"])
    results = compiled(given)
    outputs = []
    for output in compiled.outputs:
        array = results[output]
        data = np.ascontiguousarray(array).tobytes().hex()
        outputs.append({"type": str(array.dtype), "shape": array.shape, "bytes": data})
    return outputs


def main() -> None:
    core = openvino.Core()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"outputs": run(core, request["model"], request["inputs"])}
        except Exception as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
