#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the four models that are made to test placement, without weights, as export.py does.

A developer runs it when one of them changes; tests and CI never do. Needs the onnx package:
    python tests/models/make_special.py [NAME...]

Writes tests/models/NAME/model.onnx and NAME/weights.txt:
    loneop    a small CNN in whose middle stands one op that no code generator has (a remainder in f64)
    bigtable  a table of 60000 words before two layers of a transformer: the table is ten times as large
              as all other weights, and a run reads 64 rows of it
    detector  a CNN over a large image, then the choice and decoding of the best boxes: sorting 12288
              scores is work for the CPU
    overcap   seven wide layers whose weights exceed the memory cap that the test sets
"""

import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import strip

HERE = pathlib.Path(__file__).parent


class Maker:
    """Nodes and initialisers of one graph, by rising name."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def op(self, kind, *inputs, name, outputs=1, **attributes):
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, name, *dims):
        """Its values come from fill_weights; here it only has a shape."""
        self.initializers.append(numpy_helper.from_array(np.zeros(dims, np.float32), name))
        return name

    def constant(self, name, value, dtype):
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def conv(self, x, channels, to, size, stride, name, relu=True):
        x = self.op("Conv", x, self.weight(f"{name}.weight", to, channels, size, size),
                    self.weight(f"{name}.bias", to), name=name, kernel_shape=[size, size],
                    strides=[stride, stride], pads=[size // 2] * 4)
        return self.op("Relu", x, name=f"{name}.relu") if relu else x

    def linear(self, x, width, to, name):
        x = self.op("MatMul", x, self.weight(f"{name}.weight", width, to), name=name)
        return self.op("Add", x, self.weight(f"{name}.bias", to), name=f"{name}.add")

    def norm(self, x, width, name):
        return self.op("LayerNormalization", x, self.weight(f"{name}.scale", width),
                       self.weight(f"{name}.bias", width), name=name, axis=-1, epsilon=1e-5)

    def model(self, name, inputs, outputs):
        def infos(items):
            return [helper.make_tensor_value_info(n, t, dims) for n, t, dims in items]
        graph = helper.make_graph(self.nodes, name, infos(inputs), infos(outputs), self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        return model


def loneop():
    m = Maker()
    x = m.conv("image", 3, 32, 3, 2, "stem")
    for i in range(3):
        x = m.conv(x, 32 if i == 0 else 64, 64, 3, 2 if i == 0 else 1, f"before.{i}")
    x = m.conv(x, 64, 8, 1, 1, "squeeze", relu=False)
    # f64, which keeps the remainder exact, and a divisor that few values reach.
    x = m.op("Cast", x, name="wide", to=TensorProto.DOUBLE)
    x = m.op("Mod", x, m.constant("period", 2.0, np.float64), name="wrap", fmod=1)
    x = m.op("Cast", x, name="narrow", to=TensorProto.FLOAT)
    for i in range(4):
        x = m.conv(x, 8 if i == 0 else 64, 64, 3, 1, f"after.{i}")
    x = m.op("GlobalAveragePool", x, name="pool")
    x = m.op("Flatten", x, name="flat", axis=1)
    m.op("Gemm", x, m.weight("head.weight", 10, 64), m.weight("head.bias", 10), name="scores", transB=1)
    return m.model("loneop", [("image", TensorProto.FLOAT, [1, 3, 96, 96])],
                   [("scores", TensorProto.FLOAT, [1, 10])])


def bigtable(words=60000, width=256, heads=4, length=64):
    m = Maker()
    x = m.op("Gather", m.weight("table", words, width), "ids", name="embed", axis=0)
    split = m.constant("split", [1, length, heads, width // heads], np.int64)
    join = m.constant("join", [1, length, width], np.int64)
    scale = m.constant("scale", 1 / math.sqrt(width // heads), np.float32)
    for i in range(2):
        n = f"layer.{i}"
        y = m.norm(x, width, f"{n}.norm1")
        parts = []
        for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            p = m.linear(y, width, width, f"{n}.{part}")
            p = m.op("Reshape", p, split, name=f"{n}.{part}.split")
            parts.append(m.op("Transpose", p, name=f"{n}.{part}.heads", perm=perm))
        s = m.op("MatMul", parts[0], parts[1], name=f"{n}.similarity")
        s = m.op("Softmax", m.op("Mul", s, scale, name=f"{n}.scaled"), name=f"{n}.softmax", axis=-1)
        y = m.op("Transpose", m.op("MatMul", s, parts[2], name=f"{n}.mix"), name=f"{n}.back",
                 perm=[0, 2, 1, 3])
        y = m.linear(m.op("Reshape", y, join, name=f"{n}.join"), width, width, f"{n}.out")
        x = m.op("Add", x, y, name=f"{n}.residual1")
        y = m.linear(m.norm(x, width, f"{n}.norm2"), width, 4 * width, f"{n}.wide")
        y = m.linear(m.op("Relu", y, name=f"{n}.relu"), 4 * width, width, f"{n}.narrow")
        x = m.op("Add", x, y, name=f"{n}.residual2")
    m.op("Identity", m.norm(x, width, "last"), name="hidden")
    return m.model("bigtable", [("ids", TensorProto.INT64, [1, length])],
                   [("hidden", TensorProto.FLOAT, [1, length, width])])


def detector(boxes=12288, best=32):
    m = Maker()
    x = m.conv("image", 3, 32, 3, 2, "stem")
    x = m.conv(x, 32, 64, 3, 2, "body.0")
    for i in range(1, 4):
        x = m.conv(x, 64, 64, 3, 1, f"body.{i}")
    score = m.conv(x, 64, 3, 1, 1, "score", relu=False)
    place = m.conv(x, 64, 12, 1, 1, "place", relu=False)
    flat = m.op("Reshape", score, m.constant("row", [1, boxes], np.int64), name="score.flat")
    # 3 anchors of 4 numbers at 64 x 64 places: boxes in the order of the scores.
    place = m.op("Reshape", place, m.constant("anchors", [1, 3, 4, 64 * 64], np.int64), name="place.anchors")
    place = m.op("Transpose", place, name="place.order", perm=[0, 1, 3, 2])
    place = m.op("Reshape", place, m.constant("column", [boxes, 4], np.int64), name="place.flat")
    values, indices = m.op("TopK", flat, m.constant("best", [best], np.int64), name="top", outputs=2,
                           axis=-1, largest=1, sorted=1)
    indices = m.op("Reshape", indices, m.constant("line", [best], np.int64), name="top.line")
    chosen = m.op("Gather", place, indices, name="chosen", axis=0)
    # Centre and size become corners; sizes are positive.
    xy, wh = m.op("Split", chosen, m.constant("halves", [2, 2], np.int64), name="parts", outputs=2, axis=1)
    half = m.op("Mul", m.op("Exp", m.op("Tanh", wh, name="bounded"), name="size"),
                m.constant("half", 0.5, np.float32), name="half_size")
    low, high = m.op("Sub", xy, half, name="low"), m.op("Add", xy, half, name="high")
    # How much of each pair overlaps; a box fades by its largest overlap with a better one.
    rows, columns = m.constant("rows", [1], np.int64), m.constant("columns", [0], np.int64)
    def pair(kind, value, name):
        return m.op(kind, m.op("Unsqueeze", value, rows, name=f"{name}.rows"),
                    m.op("Unsqueeze", value, columns, name=f"{name}.columns"), name=name)
    common = m.op("Relu", m.op("Sub", pair("Min", high, "least"), pair("Max", low, "most"), name="gap"),
                  name="common")
    area = m.op("ReduceProd", common, name="area", axes=[2], keepdims=0)
    own = m.op("ReduceProd", m.op("Sub", high, low, name="extent"), name="own", axes=[1], keepdims=0)
    joint = m.op("Sub", pair("Add", own, "sum"), area, name="joint")
    overlap = m.op("Div", area, joint, name="overlap")
    better = m.op("Trilu", overlap, m.constant("above", 1, np.int64), name="better", upper=1)
    worst = m.op("ReduceMax", better, name="worst", axes=[0], keepdims=0)
    keep = m.op("Sub", m.constant("one", 1.0, np.float32), worst, name="keep")
    m.op("Mul", m.op("Sigmoid", values, name="chance"), keep, name="scores")
    m.op("Concat", low, high, name="boxes", axis=1)
    return m.model("detector", [("image", TensorProto.FLOAT, [1, 3, 256, 256])],
                   [("scores", TensorProto.FLOAT, [1, best]), ("boxes", TensorProto.FLOAT, [best, 4])])


def overcap(width=1024, rows=256, layers=7):
    m = Maker()
    x = "x"
    for i in range(layers):
        x = m.op("MatMul", x, m.weight(f"layer.{i}.weight", width, width), name=f"layer.{i}")
        x = m.op("Add", x, m.weight(f"layer.{i}.bias", width), name=f"layer.{i}.add")
        x = m.op("Relu", x, name=f"layer.{i}.relu" if i + 1 < layers else "y")
    return m.model("overcap", [("x", TensorProto.FLOAT, [rows, width])],
                   [("y", TensorProto.FLOAT, [rows, width])])


MODELS = {"loneop": loneop, "bigtable": bigtable, "detector": detector, "overcap": overcap}


def main():
    for name in sys.argv[1:] or MODELS:
        model = MODELS[name]()
        strip.remove_notes(model)
        manifest = strip.remove_weights(model)
        out = HERE / name
        out.mkdir(exist_ok=True)
        (out / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        (out / "weights.txt").write_text(manifest)
        print(name, (out / "model.onnx").stat().st_size, "bytes", len(model.graph.node), "nodes")


if __name__ == "__main__":
    main()
