# SPDX-License-Identifier: Apache-2.0
"""The ONNX Runtime side of compare_models.py: same protocol and same inputs as model_worker.c."""
import sys
import time

import numpy as np
import onnxruntime as ort

DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
          "tensor(bool)": np.bool_}


def random_bits(count):
    state = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) + np.uint64(42)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_tensor(dtype, dims):
    bits = random_bits(int(np.prod(dims, dtype=np.int64)))
    if dtype == np.float32:
        values = (bits >> np.uint64(40)).astype(np.float32) / np.float32(8388608) - np.float32(1)
    else:
        values = (bits & np.uint64(1)).astype(dtype)
    return values.reshape(dims)


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    symbols = dict(item.split("=") for item in sys.argv[3:])
    start = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for item in session.get_inputs():
        dims = [d if isinstance(d, int) else int(symbols.get(d, 1)) for d in item.shape]
        feeds[item.name] = random_tensor(DTYPES[item.type], dims)
    for _ in range(2):
        session.run(None, feeds)
    print(f"ready {time.perf_counter() - start:.3f}", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line.split()[1])):
            before = time.perf_counter_ns()
            session.run(None, feeds)
            times.append(time.perf_counter_ns() - before)
        print(*times, flush=True)


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        main()
