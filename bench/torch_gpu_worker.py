# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of bench/compare: the module that tests/models/export.py exports, with the weights of the
ONNX file, on a GPU; eager, compiled, and compiled with CUDA graphs.

  torch_gpu_worker.py NAME MODEL_FOLDER INPUT_FOLDER fp16|fp32 [SYMBOL=VALUE]...

MODEL_FOLDER holds model.onnx as torch.export wrote it (tests/models/*_dynamo) and weights.bin. INPUT_FOLDER
holds input_I.bin and other_I.bin (row-major, f32 and i64) and receives reference_I.bin and apart_I.bin: what
the module computes from both in f32. Prints "ready SECONDS" and answers lines as model_worker.c does:
  use MODE      eager, default or reduce-overhead from now on; "using SECONDS" (compiling, at the first use)
  run N         N times in nanoseconds, runs queued one behind another, each between two events of the device
  warm MS, write FOLDER
"""
import pathlib
import sys
import time

import numpy as np
import onnx
import torch
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "models"), str(HERE.parent / "tests" / "models")]
import export  # noqa: E402

CHANNELS_LAST = {"resnet50", "mobilenetv2", "efficientnetb0", "convnexttiny"}


def load_weights(module, folder):
    """Copies the initialisers of the ONNX file into the parameters that they come from: by name; transposed
    ones by the bias that is added to their product; a folded normalisation as a bias behind the convolution."""
    graph = onnx.load(folder / "model.onnx").graph
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    state = dict(module.named_parameters(remove_duplicate=False))
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    if norms and any(name.endswith("weight_bias") for name in values):
        for norm in norms:  # what is left of one that was folded: the identity and a bias
            norm.running_mean.zero_()
            norm.running_var.fill_(1)
            norm.weight.fill_((1 + norm.eps) ** 0.5)
    norm_of = {}
    previous = None
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Conv2d):
            previous = name
        elif isinstance(layer, torch.nn.BatchNorm2d):
            norm_of[previous] = name
    done = set()

    def assign(key, value):
        if tuple(state[key].shape) != value.shape:
            sys.exit(f"The parameter {key} has the shape {tuple(state[key].shape)}; the file has {value.shape}.")
        state[key].copy_(torch.from_numpy(value.copy()))
        done.add(key)

    for name, value in values.items():
        if name in state:
            assign(name, value)
        elif name.endswith(".weight_bias"):
            norm = norm_of[name.removesuffix(".weight_bias")]
            assign(norm + ".bias", value)
            done.add(norm + ".weight")
        elif value.ndim == 2 and value.dtype == np.float32:
            product, = readers[name]
            add, = readers[product.output[0]]
            bias, = [text for text in add.input if text in state]
            assign(bias.removesuffix(".bias") + ".weight", np.ascontiguousarray(value.T))
    tied = {id(state[key]) for key in done}
    left = [key for key in state if key not in done and id(state[key]) not in tied]
    if left:
        sys.exit(f"The file has no weights for {left[:3]} and {max(len(left) - 3, 0)} more.")


class Subject:
    def __init__(self, name, folder, inputs, precision, symbols):
        make, example, _, _, dynamic = export.MODELS[name]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        module = make().eval().requires_grad_(False)
        load_weights(module, folder)
        self.shapes = []
        for tensor in example:
            sizes = list(tensor.shape)
            for axis, symbol in enumerate(dynamic):
                sizes[axis] = symbols.get(symbol, sizes[axis])
            self.shapes.append((tensor.dtype, sizes))
        module = module.cuda()
        for kind, out in (("input", "reference"), ("other", "apart")):
            write(module(*self.read(inputs, kind)), inputs, out)
        self.inputs = self.read(inputs, "input")
        if precision == "fp16":
            module = module.half()
            self.inputs = [x.half() if x.is_floating_point() else x for x in self.inputs]
        if name in CHANNELS_LAST:
            module = module.to(memory_format=torch.channels_last)
            self.inputs = [x.to(memory_format=torch.channels_last) if x.ndim == 4 else x for x in self.inputs]
        self.module, self.modes, self.call = module, {"eager": module}, module

    def read(self, folder, kind):
        found = []
        for index, (dtype, sizes) in enumerate(self.shapes):
            kept = np.float32 if dtype.is_floating_point else np.int64
            data = np.fromfile(folder / f"{kind}_{index}.bin", kept).reshape(sizes)
            found.append(torch.from_numpy(data).cuda())
        return found

    def use(self, mode):
        if mode not in self.modes:
            self.modes[mode] = torch.compile(self.module, mode=None if mode == "default" else mode, dynamic=False)
        self.call = self.modes[mode]
        for _ in range(4):  # compiles, warms up, records the CUDA graph
            self.call(*self.inputs)
        torch.cuda.synchronize()

    def run(self, count):
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for start, end in pairs:
            start.record()
            self.call(*self.inputs)
            end.record()
        torch.cuda.synchronize()
        return [int(start.elapsed_time(end) * 1e6) for start, end in pairs]


def write(outputs, folder, kind):
    for index, value in enumerate([outputs] if isinstance(outputs, torch.Tensor) else outputs):
        value.float().contiguous().cpu().numpy().tofile(folder / f"{kind}_{index}.bin")


def serve(subject):
    for line in sys.stdin:
        word, _, value = line.strip().partition(" ")
        start = time.perf_counter()
        if word == "use":
            subject.use(value)
            print(f"using {time.perf_counter() - start:.3f}", flush=True)
        elif word == "run":
            print(*subject.run(int(value)), flush=True)
        elif word == "warm":
            runs = 0
            while time.perf_counter() - start < int(value) / 1e3:
                subject.run(16)
                runs += 16
            print(runs, flush=True)
        elif word == "write":
            write(subject.call(*subject.inputs), pathlib.Path(value), "output")
            print("written", flush=True)
        else:
            break


def main():
    name, folder, inputs, precision = sys.argv[1], *map(pathlib.Path, sys.argv[2:4]), sys.argv[4]
    symbols = {key: int(value) for key, value in (item.split("=") for item in sys.argv[5:])}
    start = time.perf_counter()
    with torch.inference_mode():
        subject = Subject(name, folder, inputs, precision, symbols)
        print(f"ready {time.perf_counter() - start:.3f}", flush=True)
        serve(subject)


if __name__ == "__main__":
    main()
