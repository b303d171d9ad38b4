#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `halyard bench --op` for the ops it knows and compares the FLOPs and bytes of their kernels with what the op's
definition says; then other libraries beside it, oneDNN itself and stand-ins for cuBLASLt and cuDNN; then what wrong options say.

usage: bench_op.py HALYARD STANDIN
"""

import json
import os
import re
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


# On a CPU, with the real library. None: it has no such op.
ONEDNN = [("matmul", "2x64x48x96", "f32", True), ("conv", "2x16x20x20x24x3", "f32", True), ("softmax", "3x40x100", "f32", True),
          ("layernorm", "64x96", "f32", True), ("matmul", "64x48x96", "f64", False), ("layernorm", "64x96", "bf16", False),
          ("gelu", "1000", "f32", False)]


def rival_of(report):
    [row] = report["rows"]
    assert "error" not in row, row["error"]
    [rival] = row["rivals"]
    return row, rival


def check_rivals(run, standin):
    """Other libraries: measured and right, or said why not."""
    quick = ["--runs", "5", "--warm-up", "0", "--seconds", "0.05", "--concurrency", "1"]

    def bench(*arguments, **env):
        done = run(*arguments, *quick, "-o", "json", **env)
        assert done.returncode == 0, (arguments, done.stderr)
        return json.loads(done.stdout)

    for op, shape, dtype, has_op in ONEDNN:
        row, rival = rival_of(bench("--op", op, "--shape", shape, "--dtype", dtype, "--no-tune"))
        assert re.fullmatch(r"oneDNN [23]\.\d+\.\d+", rival["library"]), rival
        if not has_op:
            assert rival["error"].endswith(".") and "latency" not in rival, rival
            continue
        assert "error" not in rival, (op, rival)
        assert rival["errors"]["max_abs_error"] < 1e-4 and 0 < rival["latency"]["min"], rival
        assert rival["interruptions"] >= 0, rival
        assert abs(rival["ratio"] - rival["latency"]["p50"] / rival["ours"]["p50"]) < 1e-9, rival
        flops = sum(group["flops"] for group in row["profile"]["groups"] if group["kind"] == "dispatch")
        assert abs(rival["flops_per_s"] * rival["latency"]["p50"] - flops) < 1e-6 * flops, rival
    # bf16 where the processor has it, else a sentence.
    _, rival = rival_of(bench("--op", "matmul", "--shape", "64x48x96", "--dtype", "bf16", "--no-tune"))
    assert "latency" in rival or "for this processor" in rival["error"], rival
    # As many threads as Halyard has.
    _, rival = rival_of(bench("--op", "matmul", "--shape", "64x48x96", "--device", "cpu:0?threads=1", "--no-tune"))
    assert "OpenMP, 1 thread;" in rival["how"], rival
    matmul = ["--op", "matmul", "--shape", "64x48x32"]
    _, rival = rival_of(bench(*matmul, HALYARD_ONEDNN_LIBRARY="libnowhere.so.1"))
    assert rival["library"] == "oneDNN" and "'libnowhere.so.1' cannot be opened" in rival["error"], rival
    assert "rivals" not in bench(*matmul, "--no-rivals")["rows"][0]

    cuda = {"HALYARD_CUDA_LIBRARY": standin, "HALYARD_CUBLASLT_LIBRARY": standin, "HALYARD_CUDNN_LIBRARY": standin}
    _, rival = rival_of(bench(*matmul, "--device", "cuda:0", **cuda))
    assert rival["library"] == "cuBLASLt 13.1.0" and "error" not in rival, rival
    assert rival["errors"]["max_abs_error"] < 1e-4 and rival["kernel_seconds"] > 0, rival
    conv = ["--op", "conv", "--shape", "1x8x14x14x16x3"]
    _, rival = rival_of(bench(*conv, "--device", "cuda:0", **cuda))
    assert rival["library"] == "cuDNN 9.19.1" and "error" not in rival, rival
    assert rival["errors"]["max_abs_error"] < 1e-4 and rival["kernel_seconds"] > 0, rival
    for arguments, env, why in [(conv, {"HALYARD_CUDNN_LIBRARY": "libnowhere.so.1"}, "'libnowhere.so.1' cannot be opened"),
                                (matmul, {"HALYARD_CUBLASLT_LIBRARY": "libnowhere.so.1"}, "'libnowhere.so.1' cannot be opened"),
                                ([*matmul, "--dtype", "f64"], {}, "no such product"),
                                ([*matmul, "--no-tune"], {}, "--no-tune"),
                                (["--op", "softmax", "--shape", "8x32"], {}, "matmul and conv only")]:
        _, rival = rival_of(bench(*arguments, "--device", "cuda:0", **{**cuda, **env}))
        assert why in rival["error"] and "latency" not in rival, (arguments, rival)
    text = run(*matmul, *quick, "--no-tune").stdout
    assert "\nOther libraries on the same inputs, in turn with Halyard:\n" in text, text
    assert "| cpu:0 | oneDNN " in re.sub(" +", " ", text), text  # columns are as wide as what stands in them


def check_cold(run):
    """--cold-cache: what was read and written before each run, and nothing that it would spoil."""
    arguments = ["--op", "matmul", "--shape", "64x48x32", "--no-tune", "--runs", "20", "--warm-up", "0", "--cold-cache"]
    done = run(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    [flushed] = row["cold_cache"]
    assert flushed["device"] == "cpu:0" and flushed["bytes"] >= 2 * flushed.get("cache_bytes", 64 << 20), flushed
    assert flushed["sweeps"] == row["latency"]["count"] == 20 and row["profile"]["groups"], row
    assert not {"throughput", "per_run", "rivals", "rates"} & set(row), row.keys()
    text = run(*arguments).stdout
    assert "- cold: before each timed run cpu:0 read and wrote " in text, text
    for more, part in [(["--rate", "5"], "it takes no --rate"), (["--fail-if", "throughput<1"], "--cold-cache leaves out")]:
        done = run(*arguments, *more)
        assert done.returncode == 1 and part in done.stderr, (more, done.stderr)


def check_cache(run):
    """The key of a program is its own, and what no cache gave is not called warm."""
    def row_of(*arguments, **env):
        done = run("--op", "add", "--no-tune", "--runs", "3", "--warm-up", "0", "--seconds", "0.02", "--no-rivals", "--no-profile",
                   "-o", "json", *arguments, **env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["rows"][0]

    first, again, other = row_of("--shape", "77"), row_of("--shape", "77"), row_of("--shape", "78")
    keys = [row["identity"]["cache_key"] for row in (first, again, other)]
    assert keys[0] == keys[1] != keys[2] and all(re.fullmatch("[0-9a-f]{16}", key) for key in keys), keys
    for row in (first, again):
        assert row["phases"]["first_output_warm"] > row["phases"]["warm_open"] > 0, row["phases"]
    without = row_of("--shape", "77", HALYARD_CACHE_DIR="off")
    assert without["identity"]["cache_key"] == keys[0] and without["phases"]["compile"] > 0, without
    assert not {"warm_open", "first_output_warm"} & set(without["phases"]), without["phases"]


def main():
    halyard, standin = sys.argv[1:3]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, HALYARD_CACHE_DIR=folder)

        def run(*arguments, **more):
            return subprocess.run([halyard, "bench", *arguments], env={**env, **more}, capture_output=True, text=True,
                                  timeout=120)

        for op, shape, dtype, flops, size in CASES:
            done = run("--op", op, "--shape", shape, "--dtype", dtype, "--no-tune", "--runs", "5", "--warm-up", "0", "--seconds",
                       "0.02", "--no-rivals", "-o", "json")
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
        check_rivals(run, standin)
        check_cold(run)
        check_cache(run)
        for arguments, part in [(["--op", "fft", "--shape", "8"], "there are: matmul, conv"),
                                (["--op", "matmul", "--shape", "8x8"], "MxNxK"),
                                (["--op", "matmul", "--shape", "8x8x0"], "8x8x0"),
                                (["--op", "add", "--shape", "8x"], "'8x'"),
                                (["--op", "add", "--shape", "8", "--dtype", "i8"], "'i8'"),
                                (["--op", "add"], "needs --shape D, DxD, DxDxD or DxDxDxD: the dims"),
                                (["--op", "copy", "--shape", "0"], "'0' is not D, DxD, "),
                                (["--op", "gelu", "--shape", "1x1x1x1x1"], "or DxDxDxD: the dims, of sizes from 1"),
                                (["--op", "softmax"], "--op softmax needs --shape ROWSxCOLUMNS"),
                                (["--op", "mm"], "there is no --op 'mm'; there are: matmul, conv"),
                                (["--op", "add", "--shape", "8", "model.onnx"], "takes no model")]:
            done = run(*arguments)
            if done.returncode != 1 or part not in done.stderr or done.stderr.count("\n") != 1:
                failures += 1
                print(f"{arguments}: status {done.returncode}: {done.stderr}")
    print(f"{len(CASES)} ops, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
