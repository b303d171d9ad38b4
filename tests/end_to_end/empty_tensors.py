#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs small models on tensors without elements, with sizes left open and with sizes fixed, and compares with ONNX Runtime.
Where one of the two refuses, the sentence must give the reason.

usage: empty_tensors.py HALYARD"""
import os
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RANDOM = numpy.random.default_rng(1)
IMAGE = [("x", ["n", 3, "h", "w"])]
IMAGES = [{"n": 0, "h": 6, "w": 6}, {"n": 1, "h": 0, "w": 6}, {"n": 0, "h": 0, "w": 6}, {"n": 2, "h": 6, "w": 0}]
SEQUENCE = [("x", ["n", "s", 8])]
SEQUENCES = [{"n": 0, "s": 3}, {"n": 2, "s": 0}, {"n": 0, "s": 0}]
NO_WINDOW = r"a window of 3 .* in [hw]|A window of 3 .* does not fit into 0"
NO_ELEMENT = r"an index along axis 1|no elements along axis 1"
# What ONNX leaves undefined: the mean of nothing is 0 to ONNX Runtime, NaN to NumPy, PyTorch and Halyard.
MEANS = ("ReduceMean 0", "ReduceMean 1")


def tensor(name, *dims):
    return numpy_helper.from_array(RANDOM.standard_normal(dims).astype(numpy.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(numpy.array(values, numpy.int64), name)


def cases():
    """(name, nodes, inputs, weights, sizes)"""
    node = helper.make_node
    filters, depthwise = tensor("w", 4, 3, 3, 3), tensor("w", 3, 1, 3, 3)
    for pad in (0, 1, 2):
        pads = [pad] * 4
        yield f"Conv {pad}", [node("Conv", ["x", "w"], ["y"], pads=pads)], IMAGE, [filters], IMAGES
        yield f"depthwise {pad}", [node("Conv", ["x", "w"], ["y"], pads=pads, group=3)], IMAGE, [depthwise], IMAGES
        for op in ("MaxPool", "AveragePool"):
            if pad < 2:
                yield f"{op} {pad}", [node(op, ["x"], ["y"], kernel_shape=[3, 3], pads=pads)], IMAGE, [], IMAGES
    yield ("classifier", [node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]),
                          node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["f"]),
                          node("Gemm", ["f", "g", "b"], ["y"])],
           IMAGE, [filters, tensor("g", 4, 5), tensor("b", 5)], IMAGES[:1])
    transpose = node("Transpose", ["x"], ["t"], perm=[0, 2, 1])
    yield "MatMul", [node("MatMul", ["x", "w"], ["y"])], SEQUENCE, [tensor("w", 8, 6)], SEQUENCES
    yield "MatMul of rows", [transpose, node("MatMul", ["x", "t"], ["y"])], SEQUENCE, [], SEQUENCES
    yield "MatMul of no depth", [transpose, node("MatMul", ["t", "x"], ["y"])], SEQUENCE, [], SEQUENCES
    yield ("attention", [transpose, node("MatMul", ["x", "t"], ["s1"]), node("Softmax", ["s1"], ["p"], axis=-1),
                         node("MatMul", ["p", "x"], ["y"])], SEQUENCE, [], SEQUENCES)
    for axis in (1, 2):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            yield f"{op} {axis}", [node(op, ["x"], ["y"], axis=axis)], SEQUENCE, [], SEQUENCES + [{"n": 2, "s": 3}]
    yield ("Concat", [node("Concat", ["x", "z"], ["y"], axis=1)], [*SEQUENCE, ("z", ["n", "t", 8])], [],
           [{"n": 1, "s": 0, "t": 3}, {"n": 1, "s": 2, "t": 0}, {"n": 0, "s": 2, "t": 3}, {"n": 2, "s": 0, "t": 0}])
    for op in ("ReduceMax", "ReduceMean", "ReduceProd", "ReduceL2"):
        for axis in (0, 1):
            yield f"{op} {axis}", [node(op, ["x"], ["y"], axes=[axis], keepdims=0)], SEQUENCE, [], SEQUENCES
    yield "ReduceSum", [node("ReduceSum", ["x", "a"], ["y"])], SEQUENCE, [ints("a", 1)], SEQUENCES
    yield ("LayerNormalization", [node("LayerNormalization", ["x", "g", "b"], ["y"])], SEQUENCE,
           [tensor("g", 8), tensor("b", 8)], SEQUENCES)
    yield "Pad", [node("Pad", ["x", "p"], ["y"])], SEQUENCE, [ints("p", 0, 1, 0, 0, 2, 0)], SEQUENCES
    yield ("ArgMax", [node("ArgMax", ["x"], ["i"], axis=1), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)], SEQUENCE, [],
           SEQUENCES)


def model_of(nodes, inputs, weights):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    command = os.path.abspath(sys.argv[1])
    onnxruntime.set_default_logger_severity(4)
    compared, refused, failures = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HALYARD_CACHE_DIR"] = "cache"
        for name, nodes, inputs, weights, all_sizes in cases():
            onnx.save(model_of(nodes, inputs, weights), "model.onnx")
            session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
            for sizes in all_sizes:
                feeds = {key: RANDOM.standard_normal([sizes.get(d, d) for d in dims]).astype(numpy.float32)
                         for key, dims in inputs}
                try:
                    expected = session.run(None, feeds)[0]
                except Exception:  # which of its types depends on the op
                    expected = None
                given = []
                for key, value in feeds.items():
                    numpy.save(key, value)
                    given += ["--input", f"{key}=@{key}.npy"]
                for fixed in ([], [f"--shape={key}={value}" for key, value in sizes.items()]):
                    run = subprocess.run([command, "run", "model.onnx", "--no-tune", "--output-dir", "out", *given, *fixed],
                                         capture_output=True, text=True, check=False)
                    where = f"{name} {sizes} {'fixed' if fixed else 'open'}"
                    if run.returncode != 0:
                        refused += 1
                        # A window needs an image, and an index an element, whatever the batch.
                        may_be = sizes["s"] == 0 if name == "ArgMax" else 0 in (sizes.get("h"), sizes.get("w"))
                        reason = NO_ELEMENT if name == "ArgMax" else NO_WINDOW
                        if not may_be:
                            failures.append(f"{where}: Halyard refuses: {run.stderr}")
                        if run.returncode != 2 or not re.search(reason, run.stderr) or run.stderr.count("\n") != 1:
                            failures.append(f"{where}: status {run.returncode}: {run.stderr}")
                        continue
                    actual = numpy.load("out/output_0.npy")
                    if expected is None or (name in MEANS and numpy.isnan(actual).all() and (expected == 0).all()):
                        continue
                    compared += 1
                    if actual.shape != expected.shape or not numpy.allclose(actual, expected, 1e-4, 1e-5, equal_nan=True):
                        failures.append(f"{where}: {actual.shape} {actual.ravel()[:4]}, not {expected.shape} "
                                        f"{expected.ravel()[:4]}")
    print("\n".join(failures) or f"{compared} results agree, {refused} runs are refused with the reason")
    if compared < 100 or refused < 20:
        sys.exit(f"only {compared} results were compared, {refused} runs refused")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
