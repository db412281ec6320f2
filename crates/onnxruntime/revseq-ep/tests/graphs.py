"""Graphs of ONNX: what is in them, and changes."""

import numpy as np
import onnx
from onnx import TensorProto, helper


def nodes(graph: onnx.GraphProto):
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for inner in inner_graphs(node):
            yield from nodes(inner)


def inner_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [it.g for it in node.attribute if it.type == onnx.AttributeProto.GRAPH]


def dims(value: onnx.ValueInfoProto):
    return value.type.tensor_type.shape.dim


def type_of(array: np.ndarray) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def weights(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """The matrices of floats among a graph's initializers."""
    return [it for it in graph.initializer if len(it.dims) > 1 and it.data_type == TensorProto.FLOAT]


def hoist(main: onnx.GraphProto) -> None:
    """Moves the constants of loops' and branches' graphs into the main graph."""

    def move(graph):
        found = [(it.name, it) for it in graph.initializer]
        found += [(it.output[0], it.attribute[0].t) for it in graph.node if is_tensor(it)]
        kept = [it for it in graph.node if not is_tensor(it)]
        del graph.initializer[:], graph.node[:]
        graph.node.extend(kept)
        new = {}
        for name, tensor in found:
            new[name] = f"moved_{len(main.initializer)}"
            tensor.name = new[name]
            main.initializer.append(tensor)
        rename(graph, new)
        for node in graph.node:
            for inner in inner_graphs(node):
                move(inner)

    for node in main.node:
        for inner in inner_graphs(node):
            move(inner)


def is_tensor(node: onnx.NodeProto) -> bool:
    """Whether a node is a constant that can be an initializer."""
    return node.op_type == "Constant" and node.attribute[0].name == "value"


def rename(graph: onnx.GraphProto, new: dict[str, str]) -> None:
    """Renames values in a graph and in the graphs in it."""
    for value in [*graph.initializer, *graph.value_info, *graph.output]:
        value.name = new.get(value.name, value.name)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new.get(name, name) for name in names]
        for inner in inner_graphs(node):
            rename(inner, new)


def rename_reads(graph: onnx.GraphProto, new: dict[str, str]) -> None:
    """Has all nodes read other values."""
    for node in nodes(graph):
        node.input[:] = [new.get(name, name) for name in node.input]
    for node in nodes(graph):
        for inner in inner_graphs(node):
            for value in inner.output:
                value.name = new.get(value.name, value.name)


def copy_values(source: onnx.GraphProto, graph: onnx.GraphProto) -> None:
    """Declares the values of a graph, and of the graphs in it, as those of another one are."""
    del graph.value_info[:]
    graph.value_info.extend(source.value_info)
    for ours, theirs in zip(graph.node, source.node, strict=True):
        for inner, other in zip(inner_graphs(ours), inner_graphs(theirs), strict=True):
            copy_values(other, inner)
