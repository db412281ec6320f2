"""Write ONNX's own tests of nodes into a folder, in the layout of ONNX's backend tests."""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases


def main() -> None:
    folder = Path(sys.argv[1])
    for case in collect_testcases(None):
        graph = case.model.graph
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / case.name / f"test_data_set_{number}"
            data.mkdir(parents=True, exist_ok=True)
            onnx.save(case.model, folder / case.name / "model.onnx")
            for kind, values, infos in (
                ("input", inputs, graph.input),
                ("output", outputs, graph.output),
            ):
                for index, (value, info) in enumerate(zip(values, infos, strict=True)):
                    # Sequences and optionals, which tract has none of, are left out.
                    if isinstance(value, list) or value is None:
                        continue
                    tensor = value
                    if not isinstance(value, TensorProto):
                        tensor = numpy_helper.from_array(np.asarray(value), info.name)
                    (data / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())


if __name__ == "__main__":
    main()
