# SPDX-License-Identifier: Apache-2.0
"""Makes exported ONNX models fit to commit: without the exporter's notes (which hold paths of the
machine that ran it) and, for the large ones, without weights. Needs the onnx package."""

import math

import onnx
from onnx import TensorProto, numpy_helper

# Initialisers up to this size stay in the graph: shape constants, scalars, short biases.
INLINE_BYTES = 256
ALIGNMENT = 64


def remove_notes(model):
    """Removes metadata and documentation strings, which no reader of the model needs."""
    del model.metadata_props[:]
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        graph.doc_string = ""
        del graph.metadata_props[:]
        for item in [*graph.node, *graph.input, *graph.output, *graph.value_info,
                     *graph.initializer]:
            item.doc_string = ""
            del item.metadata_props[:]
        graphs += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    del model.graph.value_info[:]
    for function in model.functions:
        raise ValueError(f"Function {function.name} is not expected in these models.")


class Uses:
    """Who reads each value of a graph, looking through nodes that only rename or transpose."""

    def __init__(self, graph):
        self.readers = {}
        for node in graph.node:
            for index, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((node, index))

    def of(self, name):
        for node, index in self.readers.get(name, []):
            if node.op_type in ("Identity", "Transpose"):
                yield from self.of(node.output[0])
            else:
                yield node, index

    def feeds_relu(self, node):
        """Or x * sigmoid(x), which takes as much of the variance."""
        return any(n.op_type in ("Relu", "Clip", "Sigmoid") or
                   (n.op_type == "BatchNormalization" and self.feeds_relu(n))
                   for n, _ in self.of(node.output[0]))


def attribute(node, name, default):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name),
                default)


def classify(name, dims, uses):
    """(kind, fan_in) of a weight: how fill_weights scales it. The first reader decides."""
    readers = list(uses.of(name))
    if not readers:
        raise ValueError(f"Initialiser {name} is not read.")
    node, index = readers[0]
    op = node.op_type
    if op == "Conv" and index == 1:
        return "weight_relu" if uses.feeds_relu(node) else "weight", math.prod(dims[1:])
    if op == "MatMul" and len(dims) == 2:
        return "weight", dims[0]
    if op == "Gemm" and index == 1:
        return "weight", dims[1] if attribute(node, "transB", 0) else dims[0]
    if op == "Gather" and index == 0:
        return "weight", dims[-1]
    if op in ("LayerNormalization", "BatchNormalization"):
        kinds = ["", "near_one", "bias", "bias", "positive"]
        return kinds[index], 0
    if len(dims) == 3 and op in ("Add", "Expand", "Concat"):  # positions and the class token
        return "weight", dims[-1]
    if op == "Mul" and math.prod(dims) == max(dims):  # the scale of a residual branch
        return "near_one", 0
    if len(dims) == 1 and (op == "Add" or (op in ("Conv", "Gemm") and index == 2)):
        return "bias", 0
    raise ValueError(f"Initialiser {name} {dims} is read by {op} input {index}: no kind is known.")


def remove_weights(model):
    """Points every larger float initialiser into weights.bin and returns the manifest's text."""
    uses = Uses(model.graph)
    offset = 0
    lines = []
    for tensor in model.graph.initializer:
        dims = list(tensor.dims)
        count = math.prod(dims)
        if tensor.data_type != TensorProto.FLOAT:
            if numpy_helper.to_array(tensor).nbytes > 8192:
                raise ValueError(f"Initialiser {tensor.name} {dims} is large and not f32.")
            continue
        if 4 * count <= INLINE_BYTES:
            continue
        kind, fan_in = classify(tensor.name, dims, uses)
        lines.append(f"{kind} {fan_in} {offset} {'x'.join(map(str, dims))} {tensor.name}")
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
        del tensor.external_data[:]
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", offset), ("length", 4 * count)):
            tensor.external_data.add(key=key, value=str(value))
        offset += -(-4 * count // ALIGNMENT) * ALIGNMENT
    header = "# kind fan_in offset dims name; all f32. fill_weights.cc says what the kinds mean.\n"
    return header + f"bytes {offset}\n" + "\n".join(lines) + "\n"
