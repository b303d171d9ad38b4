#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX's own node tests, which the `onnx` package makes in memory, as the folders that
onnx_cases reads: NAME/model.onnx and NAME/test_data_set_N/{input,output}_M.pb.

usage: write_cases.py FOLDER"""
import pathlib
import sys
import warnings

import numpy
import onnx
from onnx import numpy_helper


def proto(value, info):
    if isinstance(value, onnx.TensorProto):
        named = onnx.TensorProto()
        named.CopyFrom(value)
        named.name = info.name
        return named
    make = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
            "optional_type": numpy_helper.from_optional}.get(info.type.WhichOneof("value"), numpy_helper.from_array)
    return make(value, info.name)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    numpy.random.seed(0)
    # The package computes infinities and NaN on purpose.
    warnings.simplefilter("ignore")
    numpy.seterr(all="ignore")
    from onnx.backend.test.loader import load_model_tests
    for case in load_model_tests(kind="node"):
        folder = root / case.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        for i, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{i}"
            data.mkdir(exist_ok=True)
            for name, values, infos in (("input", inputs, case.model.graph.input),
                                        ("output", outputs, case.model.graph.output)):
                for j, (value, info) in enumerate(zip(values, infos, strict=True)):
                    (data / f"{name}_{j}.pb").write_bytes(proto(value, info).SerializeToString())


if __name__ == "__main__":
    main()
