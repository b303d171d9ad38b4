# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of compare_models.py: eager, same protocol and same sizes as model_worker.c. The module
is the one that tests/models/export.py exports; its weights are random, its token inputs are ones.

  torch_worker.py NAME THREADS [SYMBOL=VALUE]..."""
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "models"))
import export  # noqa: E402


def main():
    name, threads = sys.argv[1], int(sys.argv[2])
    symbols = {key: int(value) for key, value in (item.split("=") for item in sys.argv[3:])}
    start = time.perf_counter()
    torch.set_num_threads(threads)
    make, example, _, _, dynamic = export.MODELS[name]
    module = make().eval()
    inputs = []
    for tensor in example:
        sizes = list(tensor.shape)
        for axis, symbol in enumerate(dynamic):
            sizes[axis] = symbols.get(symbol, sizes[axis])
        inputs.append(torch.randn(sizes) if tensor.is_floating_point() else torch.ones(sizes, dtype=tensor.dtype))
    with torch.inference_mode():
        for _ in range(2):
            module(*inputs)
        print(f"ready {time.perf_counter() - start:.3f}", flush=True)
        for line in sys.stdin:
            times = []
            for _ in range(int(line.split()[1])):
                before = time.perf_counter_ns()
                module(*inputs)
                times.append(time.perf_counter_ns() - before)
            print(*times, flush=True)


if __name__ == "__main__":
    main()
