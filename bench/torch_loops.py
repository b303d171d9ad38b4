#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of loop_bench: the ops that memory bounds, eager and compiled, in GB/s that count each operand once.

  bench/torch_loops.py [MIB [DTYPE [OP...]]]

MIB: of the input, 256, in rows of 4096; DTYPE: f32, f16, bf16; OP: as loop_bench names them, how names begin. An op
runs 20 times in a CUDA graph; the figure is the median of nine such replays, after 250 ms of them. Needs PyTorch with
CUDA; the GPU is to be used by nobody else."""
import statistics
import sys
import time

import torch

COLUMNS = 4096
REPEATS, ROUNDS, WARM_SECONDS = 20, 9, 0.25  # as in loop_bench.cc
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def ops(rows, dtype):
    """name -> (function of the inputs, inputs)"""
    def random(*shape):
        return torch.rand(shape, device="cuda", dtype=torch.float32).to(dtype)
    x, row, bias = random(rows, COLUMNS), random(COLUMNS), random(COLUMNS)
    functional = torch.nn.functional
    return {
        "neg": (lambda x: -x, [x]),
        "add": (lambda x, z: x + z, [x, random(rows, COLUMNS)]),
        "bias": (lambda x, z: x + z, [x, row]),
        "gelu": (lambda x: functional.gelu(x), [x]),
        "softmax": (lambda x: torch.softmax(x, -1), [x]),
        "layer norm": (lambda x, g, b: functional.layer_norm(x, (COLUMNS,), g, b, 1e-5), [x, row, bias]),
        "row sum": (lambda x: x.sum(1), [x]),
        "column sum": (lambda x: x.sum(0), [x]),
        "full sum": (lambda x: x.sum(), [x]),
        "transpose": (lambda x: x.t().contiguous(), [x]),
    }


def seconds(function, inputs):
    for _ in range(3):
        function(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            function(*inputs)
    start = time.monotonic()
    while time.monotonic() - start < WARM_SECONDS:
        graph.replay()
        torch.cuda.synchronize()
    times = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / REPEATS)
    return statistics.median(times)


def main():
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    name = sys.argv[2] if len(sys.argv) > 2 else "f32"
    wanted = sys.argv[3:]
    if name not in DTYPES or mib < 1:
        sys.exit(__doc__.split("\n\n")[1].strip())
    dtype = DTYPES[name]
    rows = (mib << 20) // (COLUMNS * dtype.itemsize)
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}, {mib} MiB, {name}: GB/s")
    for op, (function, inputs) in ops(rows, dtype).items():
        if wanted and not any(op.startswith(one) for one in wanted):
            continue
        torch._dynamo.reset()
        result = function(*inputs)
        moved = sum(t.numel() * t.element_size() for t in [*inputs, result])
        del result
        rates = [moved / seconds(one, inputs) * 1e-9 for one in (function, torch.compile(function, dynamic=False))]
        print(f"{op:12} eager {rates[0]:6.0f}  torch.compile {rates[1]:6.0f}", flush=True)


if __name__ == "__main__":
    main()
