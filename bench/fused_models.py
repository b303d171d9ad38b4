# SPDX-License-Identifier: Apache-2.0
"""Writes small models whose whole work is one fused kernel, for compare_models.py: scale + mask + softmax
and add + LayerNorm, at the sizes of BERT.

  python bench/fused_models.py FOLDER

Needs numpy and onnx. Makes FOLDER/NAME/model.onnx."""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def tensor(name, dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def softmax(rows, columns, masked):
    """softmax(x / 8 + mask); the mask hides one column in eight, or none."""
    mask = np.zeros((1, columns), np.float32)
    if masked:
        mask[:, ::8] = -1e4
    return helper.make_graph(
        [helper.make_node("Mul", ["x", "scale"], ["scaled"]), helper.make_node("Add", ["scaled", "mask"], ["shown"]),
         helper.make_node("Softmax", ["shown"], ["y"], axis=-1)],
        "softmax", [tensor("x", [rows, columns])], [tensor("y", [rows, columns])],
        [numpy_helper.from_array(np.float32(0.125), "scale"), numpy_helper.from_array(mask, "mask")])


def layer_norm(rows, columns):
    random = np.random.default_rng(1)
    weights = [numpy_helper.from_array(random.random(columns, np.float32), name) for name in ("gamma", "beta")]
    return helper.make_graph(
        [helper.make_node("Add", ["x", "skip"], ["sum"]),
         helper.make_node("LayerNormalization", ["sum", "gamma", "beta"], ["y"], axis=-1, epsilon=1e-5)],
        "layer_norm", [tensor("x", [rows, columns]), tensor("skip", [rows, columns])],
        [tensor("y", [rows, columns])], weights)


def main():
    graphs = {"softmax_384x128": softmax(384, 128, False), "softmax_masked_384x128": softmax(384, 128, True),
              "softmax_4608x384": softmax(4608, 384, False), "add_layernorm_384x768": layer_norm(384, 768)}
    for name, graph in graphs.items():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, folder / "model.onnx")


if __name__ == "__main__":
    main()
