"""Runs a model with RevSeqExecutionProvider, and shows which provider ran each of its nodes.

    pip install onnxruntime onnx numpy onnxruntime_ep_revseq-*.whl
    python python.py [model.onnx]

Without a model it makes one: ReverseSequence along axis 2, which ONNX Runtime's own kernel refuses.
"""

import sys

import numpy as np
import onnxruntime
import onnxruntime_ep_revseq

EP = onnxruntime_ep_revseq.get_ep_name()


def tiny_model() -> bytes:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("ReverseSequence", ["x", "lens"], ["y"], batch_axis=0, time_axis=2)],
        "example",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1, 4]),
            helper.make_tensor_value_info("lens", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1, 4])],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def main() -> None:
    # Once in a process.
    onnxruntime.register_execution_provider_library(
        "revseq", onnxruntime_ep_revseq.get_library_path()
    )
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]

    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices, {"lengths": "reject"})
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    model = sys.argv[1] if len(sys.argv) > 1 else tiny_model()
    session = onnxruntime.InferenceSession(model, options)

    # Which provider has each node: nothing falls back without being seen here.
    elsewhere = []
    for subgraph in session.get_provider_graph_assignment_info():
        for node in subgraph.get_nodes():
            print(f"{subgraph.ep_name:28} {node.op_type} {node.name!r}")
            if node.op_type == "ReverseSequence" and subgraph.ep_name != EP:
                elsewhere.append(node.name)
    assert not elsewhere, f"not on {EP}: {elsewhere}"

    if len(sys.argv) == 1:
        x = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
        (y,) = session.run(None, {"x": x, "lens": np.array([3, 4])})
        print(x.tolist(), "->", y.tolist())
        assert y.tolist() == [[[2, 1, 0, 3]], [[7, 6, 5, 4]]]

    # Sessions first, the library last.
    del session
    onnxruntime.unregister_execution_provider_library("revseq")


if __name__ == "__main__":
    main()
