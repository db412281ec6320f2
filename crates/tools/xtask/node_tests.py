"""Write ONNX's own tests of nodes into a folder, in the layout of ONNX's backend tests.

Each test of float32 is written for the other floating-point types, too, that ONNX allows for its
operator: ``test_relu`` also as ``test_relu_float16`` and ``test_relu_double``.
"""

import copy
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

# The other types, with their names in schemas.
FLOATS = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "double": (TensorProto.DOUBLE, np.float64),
}


def write(folder: Path, name: str, model: onnx.ModelProto, data_sets: list) -> None:
    """Write a test."""
    for number, (inputs, outputs) in enumerate(data_sets):
        data = folder / name / f"test_data_set_{number}"
        data.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / name / "model.onnx")
        for kind, values, infos in (
            ("input", inputs, model.graph.input),
            ("output", outputs, model.graph.output),
        ):
            for index, (value, info) in enumerate(zip(values, infos, strict=True)):
                # Sequences and optionals, which tract has none of, are left out.
                if isinstance(value, list) or value is None:
                    continue
                tensor = value
                if not isinstance(value, TensorProto):
                    tensor = numpy_helper.from_array(np.asarray(value), info.name)
                (data / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())


def allows(model: onnx.ModelProto, name: str) -> bool:
    """Return whether a model is one node whose schema has a type wherever it has float32."""
    if len(model.graph.node) != 1:
        return False
    node = model.graph.node[0]
    versions = {opset.domain: opset.version for opset in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
    except (KeyError, onnx.defs.SchemaError):
        return False
    # Attributes may hold or name a type.
    held = (onnx.AttributeProto.TENSOR, onnx.AttributeProto.GRAPH)
    names = ("to", "dtype", "output_datatype")
    if any(it.type in held or it.name in names for it in node.attribute):
        return False
    for values, formals in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for index, _ in enumerate(values):
            types = formals[min(index, len(formals) - 1)].types
            if "tensor(float)" in types and f"tensor({name})" not in types:
                return False
    return True


def converted(model: onnx.ModelProto, code: int) -> onnx.ModelProto:
    """Return a model whose values of float32 have another type."""
    model = copy.deepcopy(model)
    for info in (*model.graph.input, *model.graph.output):
        tensor = info.type.tensor_type
        if tensor.elem_type == TensorProto.FLOAT:
            tensor.elem_type = code
    return model


def main() -> None:
    folder = Path(sys.argv[1])
    for case in collect_testcases(None):
        # Random numbers are others each time; ONNX's own runner leaves them out, too.
        if case.name.startswith("test_bernoulli"):
            continue
        write(folder, case.name, case.model, case.data_sets)
        for name, (code, dtype) in FLOATS.items():
            data = [value for values in case.data_sets for side in values for value in side]
            is_array = all(isinstance(value, (np.ndarray, np.generic)) for value in data)
            if not is_array or not any(value.dtype == np.float32 for value in data):
                continue
            if not allows(case.model, name):
                continue

            def cast(values: list, dtype: type = dtype) -> list:
                return [it.astype(dtype) if it.dtype == np.float32 else it for it in values]

            sets = [(cast(inputs), cast(outputs)) for inputs, outputs in case.data_sets]
            write(folder, f"{case.name}_{name}", converted(case.model, code), sets)


if __name__ == "__main__":
    main()
