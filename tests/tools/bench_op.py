#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `halyard bench --op` for the ops it knows and compares the FLOPs and bytes of their kernels with what the op's
definition says; then what wrong options say.

usage: bench_op.py HALYARD
"""

import json
import os
import subprocess
import sys
import tempfile

# op, shape, dtype, FLOPs, bytes (None: not compared). A multiply-add is two, any other scalar operation one.
CASES = [
    ("matmul", "2x32x48x64", "f32", 2 * 2 * 32 * 48 * 64, 4 * 2 * (32 * 64 + 64 * 48 + 32 * 48)),
    ("conv", "1x8x14x14x16x3", "f32", 2 * 16 * 14 * 14 * 8 * 9, None),
    # max, sub, exp, sum, div
    ("softmax", "64x128", "f32", 5 * 64 * 128, 2 * 4 * 64 * 128),
    # the two products, and a little for scale and softmax
    ("attention", "1x2x32x64", "f32", None, 4 * 4 * 2 * 32 * 64),
    # mul, erf, add, mul, mul; in f32 between loads and stores of 2 bytes
    ("gelu", "1000", "bf16", 5 * 1000, 2 * 2 * 1000),
    ("sum", "64x100", "f16", 64 * 100, 2 * (64 * 100 + 64)),
    # only the rows that are read, and their numbers
    ("gather", "1000x64x100", "f32", 0, 8 * 100 + 2 * 4 * 64 * 100),
]


def main():
    halyard = sys.argv[1]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, HALYARD_CACHE_DIR=folder)

        def run(*arguments):
            return subprocess.run([halyard, "bench", *arguments], env=env, capture_output=True, text=True, timeout=120)

        for op, shape, dtype, flops, size in CASES:
            done = run("--op", op, "--shape", shape, "--dtype", dtype, "--no-tune", "--runs", "5", "--warm-up", "0", "--seconds",
                       "0.02", "-o", "json")
            row = json.loads(done.stdout)["rows"][0] if done.returncode == 0 else {"error": done.stderr}
            if "error" in row:
                failures += 1
                print(f"{op}: {row['error']}")
                continue
            kernels = [group for group in row["profile"]["groups"] if group["kind"] == "dispatch"]
            counted = sum(group["flops"] for group in kernels), sum(group["bytes"] for group in kernels)
            product = 4 * 2 * 32 * 32 * 64
            is_good = counted[0] == flops if flops is not None else product <= counted[0] <= 1.1 * product
            if not is_good or size is not None and counted[1] != size:
                failures += 1
                print(f"{op} {shape} {dtype}: counted {counted}, expected {flops} FLOPs and {size} bytes")
            if row["model"] != f"{op} {shape} {dtype}":
                failures += 1
                print(f"{op}: the row is called '{row['model']}'")
        for arguments, part in [(["--op", "fft", "--shape", "8"], "there are: matmul, conv"),
                                (["--op", "matmul", "--shape", "8x8"], "MxNxK"),
                                (["--op", "matmul", "--shape", "8x8x0"], "8x8x0"),
                                (["--op", "add", "--shape", "8x"], "'8x'"),
                                (["--op", "add", "--shape", "8", "--dtype", "i8"], "'i8'"),
                                (["--op", "add"], "needs --shape"),
                                (["--op", "add", "--shape", "8", "model.onnx"], "takes no model")]:
            done = run(*arguments)
            if done.returncode != 1 or part not in done.stderr or done.stderr.count("\n") != 1:
                failures += 1
                print(f"{arguments}: status {done.returncode}: {done.stderr}")
    print(f"{len(CASES)} ops, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
