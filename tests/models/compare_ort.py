#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Halyard with ONNX Runtime on one model, and first proves that the comparison means something.

usage: compare_ort.py NAME --fill FILL_WEIGHTS --work FOLDER [--halyard HALYARD [--tune]
                      [--device DEVICE [--precision fp16] [--all]]]

NAME is a folder beside this file (model.onnx and weights.txt; the weights are filled into FOLDER/NAME)
or "digits", the trained model of examples/digits. Without --halyard only the oracle is checked:
its outputs are finite, two inputs differ by more than 100 tolerances, and swapping two channels of a
middle weight is seen. With it, one program is compiled for the first case and serves the others from the
cache, where no compiler can be found; then the last case runs once more on a program for exactly its sizes,
the first on a CPU in discrete mode: memory that the host cannot address, late and random starts, one
element at a time; and, for the models that name a split, over several devices, synthetic ones or a Vulkan
device where there is one. With --device, all that runs is the first case (--all: every one) on that device,
which has to do all of it; that the comparison means something is left to a run without. Schedules are chosen by the model only unless --tune is given. Exits 1 at the first
violation, 77 where there is no such device.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parent.parent / "examples" / "digits"


@dataclasses.dataclass
class Row:
    """How a model is fed and judged."""
    make: callable  # (rng, case) -> list of inputs in graph order
    cases: list     # shapes to run, as tuples for make
    # An element may differ by tolerance * (|expected| + rms of that output).
    tolerance: float
    # Options of further runs of the first case, each over two devices or more, and of runs whose weights are
    # streamed.
    splits: tuple = ()
    streams: tuple = ()
    # Fixed sizes: there is no program for any size beside one for exactly these.
    is_static: bool = False
    # Has an op that the interpreter runs, which needs memory that the host addresses.
    is_interpreted: bool = False


# cpu:1 and cpu:2 of the runs over several devices: unequal, with memory of their own behind slow links.
SYNTHETIC = ("threads=1&link_latency_us=20&link_bytes_per_s=4000000000;"
             "threads=1&speed_percent=50&link_latency_us=5")


def images(rng, case):
    return [rng.standard_normal((case[0], 3, 224, 224), dtype=np.float32)]


def tokens(vocabulary, count):
    """Random tokens; all but the first sequence of a batch end in padding that the mask hides."""
    def make(rng, case):
        batch, length = case
        ids = rng.integers(0, vocabulary, (batch, length))
        mask = np.ones((batch, length), np.int64)
        for row in range(1, batch):
            mask[row, length - length // 3:] = 0
        types = np.zeros((batch, length), np.int64)
        types[:, length // 2:] = 1
        return [ids, mask, types][:count]
    return make


def image(rng, case):
    return [rng.standard_normal((1, 3, case[0], case[0]), dtype=np.float32)]


def words(rng, case):
    return [rng.integers(0, 60000, (1, case[0]))]


def rows(rng, case):
    return [rng.standard_normal((case[0], 1024), dtype=np.float32)]


def digits(rng, case):
    return [rng.random((case[0], 1, 8, 8), dtype=np.float32)]


# Both sides compute in fp32 and differ in the order of sums and in the last bits of exp, erf and tanh.
# A sum of K terms errs by about 2^-24 sqrt(K) of its terms' size, and the errors of the layers add up
# like a random walk. ONNX Runtime with its fusions off differs from itself by 0.6e-6 (digits, MiniLM)
# to 3.5e-6 (GPT-2) in these units; --noise prints it. The tolerances are about 15 times that, because
# blocking K differently reorders more than fusing does; a wrong channel shows at 5e-2 and more.
# With weights and activations in 16 bits, argued in bench/compare.
FP16_TOLERANCE = 1.5e-2

MODELS = {
    # Stages in turn over two devices, and two cuts inside a block, where its sum reads from both sides. The
    # exporters name nodes by module or by number.
    "resnet50": Row(images, [(1,), (2,)], 5e-5,
                    ("--device cpu:0,cpu:1,cpu:2 --affinity /layer1/*=cpu:1 --affinity */layer2.1/conv2/*=cpu:2 "
                     "--affinity */layer2.3/*=cpu:2 --affinity /layer3/*=cpu:1 --affinity */layer4.1/conv1/*=cpu:0 "
                     "--affinity */layer4.2/*=cpu:2 --affinity node_Conv_76?=cpu:1 --affinity node_Conv_77*=cpu:2 "
                     "--affinity node_Conv_79*=cpu:1 --affinity node_Conv_81*=cpu:2 --affinity node_Conv_84*=cpu:0",)),
    "mobilenetv2": Row(images, [(1,), (3,), (8,)], 5e-5),
    "bert128": Row(tokens(30522, 3), [(1, 128), (2, 128)], 5e-5),
    "bert": Row(tokens(30522, 3), [(1, 9), (2, 40)], 5e-5),
    "gpt2": Row(tokens(50257, 2), [(1, 9), (2, 24)], 5e-5),
    # Embeddings at home, layers in turn over two devices. The exporters name nodes by module or by number.
    "minilm": Row(tokens(30522, 3), [(1, 9), (3, 32)], 5e-5,
                  ("--device cpu:0,cpu:1,cpu:2 --affinity *layer.0*=cpu:1 --affinity *layer.1*=cpu:2 "
                   "--affinity *layer.2*=cpu:1 --affinity *layer.3*=cpu:2 --affinity *layer.4*=cpu:0 "
                   "--affinity node_MatMul_1*=cpu:1 --affinity node_MatMul_2*=cpu:2 --affinity node_MatMul_3*=cpu:1",)),
    "vit": Row(images, [(1,), (2,)], 5e-5),
    "efficientnetb0": Row(images, [(1,), (3,)], 5e-5),
    "convnexttiny": Row(images, [(1,), (2,)], 5e-5),
    "digits": Row(digits, [(1,), (8,)], 1e-5),
    # Made for placement: what only the CPU has, a large table, and weights beyond a cap.
    "loneop": Row(image, [(96,)], 5e-5, ("--device cpu:1", "--device vulkan:0"), is_static=True, is_interpreted=True),
    "bigtable": Row(words, [(64,)], 5e-5, (
        "--device cpu:0,cpu:1 --memory-cap cpu:1=24M --affinity op:matmul=cpu:1",
        "--device cpu:0,vulkan:0 --memory-cap vulkan:0=24M --affinity op:matmul=vulkan:0"), is_static=True),
    "detector": Row(image, [(256,)], 5e-5, ("--device cpu:1", "--device vulkan:0"), is_static=True, is_interpreted=True),
    "overcap": Row(rows, [(256,)], 5e-5, (
        "--device cpu:0,cpu:1 --memory-cap cpu:1=20M --affinity layer.0*=cpu:1",
        "--device cpu:0,vulkan:0 --memory-cap vulkan:0=20M --affinity layer.6*=vulkan:0"), is_static=True,
        streams=("--device cpu:1 --memory-cap cpu:1=20M", "--device vulkan:0 --memory-cap vulkan:0=16M")),
}


def fail(sentence):
    print(f"FAILED: {sentence}")
    sys.exit(1)


def prepare(name, fill, work):
    """The folder that holds model.onnx and weights.bin of a model."""
    source, folder = HERE / name, work / name
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "weights.bin"
    newest = max(pathlib.Path(fill).stat().st_mtime, (source / "weights.txt").stat().st_mtime)
    if not weights.exists() or weights.stat().st_mtime < newest:
        subprocess.run([fill, source / "weights.txt", weights], check=True)
    shutil.copyfile(source / "model.onnx", folder / "model.onnx")
    return folder


class Oracle:
    def __init__(self, path, fused=True):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if not fused:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs):
        names = [i.name for i in self.session.get_inputs()]
        outputs = self.session.run(None, dict(zip(names, inputs, strict=True)))
        for index, output in enumerate(outputs):
            if not np.isfinite(output).all():
                fail(f"Output {index} of ONNX Runtime is not finite.")
        return outputs


def errors(actual, expected):
    """Per output, the largest difference in units of |expected| + rms."""
    out = []
    for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if a.shape != e.shape or a.dtype != e.dtype:
            fail(f"Output {index} is {a.dtype}{a.shape}; {e.dtype}{e.shape} is expected.")
        scale = np.abs(e) + np.sqrt(np.mean(np.square(e, dtype=np.float64)))
        worst = np.max(np.abs(a.astype(np.float64) - e) / scale)
        out.append(float(np.nan_to_num(worst, nan=np.inf)))
    return out


def swap_channels(source, folder):
    """A copy of the model in folder in which two channels of a middle weight are exchanged."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(source / "model.onnx", folder / "model.onnx")
    shutil.copyfile(source / "weights.bin", folder / "weights.bin")
    tensors = [line.split() for line in (HERE / source.name / "weights.txt").read_text().splitlines()]
    matrices = [t for t in tensors if t[0].startswith("weight") and "x" in t[3]]
    _, _, offset, dims, name = matrices[len(matrices) // 2]
    rows, *rest = [int(d) for d in dims.split("x")]
    weights = np.memmap(folder / "weights.bin", np.float32, "r+", int(offset), (rows, *rest))
    weights[[0, 1]] = weights[[1, 0]]
    weights.flush()
    return name


def run_halyard(halyard, model, inputs, count, folder, options, compiles=True):
    for name in ("in", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    for index, value in enumerate(inputs):
        np.save(folder / "in" / f"input_{index}.npy", value)
    done = subprocess.run(
        [halyard, "run", str(model), "--input-dir", str(folder / "in"), "--output-dir",
         str(folder / "out"), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "HALYARD_CACHE_DIR": str(folder / "cache"), "HALYARD_SYNTHETIC_DEVICES": SYNTHETIC, "HALYARD_FIRST_PROBE_MS": "0",
             **({} if compiles else {"HALYARD_COMPILER_LIBRARY": str(folder / "none")})})
    if done.returncode != 0:
        fail(f"halyard run exits {done.returncode}: {done.stdout}")
    return [np.load(folder / "out" / f"output_{index}.npy") for index in range(count)]


def explain(halyard, model, folder, options):
    """The report of a program that a run has cached."""
    done = subprocess.run(
        [halyard, "explain", str(model), *options], stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, "HALYARD_CACHE_DIR": str(folder / "cache"), "HALYARD_SYNTHETIC_DEVICES": SYNTHETIC, "HALYARD_FIRST_PROBE_MS": "0",
             "HALYARD_COMPILER_LIBRARY": str(folder / "none")})
    return done.stdout


def devices_in_use(report):
    """How many devices do any work."""
    return len(re.findall(r"^  \w+:\d+\S*: (?:.*, )?[1-9]\d* (?:dispatch|interpreted)", report, re.MULTILINE))


def check_accuracy(halyard, work, options):
    """The trained digits model reads the held-out digits as well as it did when it was trained."""
    inputs = [np.load(DIGITS / "heldout_images.npy").astype(np.float32) / 16]
    labels = np.load(DIGITS / "heldout_labels.npy")
    expected = np.load(DIGITS / "heldout_scores.npy")
    scores, = run_halyard(halyard, DIGITS / "digits.onnx", inputs, 1, work, options)
    error, = errors([scores], [expected])
    right = int((scores.argmax(1) == labels).sum())
    print(f"{right} of {len(labels)} held-out digits read, error {error:.1e}")
    if error > MODELS["digits"].tolerance or right != int((expected.argmax(1) == labels).sum()):
        fail("The held-out scores are not those of the trained model.")


def prove_comparison(row, oracle, last, expected, folder, scratch, trained):
    """Two inputs differ by more than 100 tolerances; swapping two channels of a middle weight is seen."""
    case, inputs = last
    others = row.make(np.random.default_rng(2), case)
    # An output that no input reaches proves nothing, so every one of them must differ.
    apart = min(errors(oracle(others), expected))
    print(f"two inputs differ by {apart:.1e}, tolerance {row.tolerance:.0e}")
    if apart < 100 * row.tolerance:
        fail("Two inputs give nearly equal outputs; the comparison would prove nothing.")
    if not trained:
        name = swap_channels(folder, scratch / "swapped")
        seen = max(errors(Oracle(scratch / "swapped" / "model.onnx")(inputs), expected))
        shutil.rmtree(scratch / "swapped")
        print(f"swapping two channels of {name} changes outputs by {seen:.1e}")
        if seen < 2 * row.tolerance:
            fail("Swapping two channels of a middle weight would not be seen.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--fill", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--halyard")
    parser.add_argument("--tune", action="store_true", help="let Halyard time candidates")
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--precision", choices=["fp16"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--scratch", default="scratch", help="a folder in that of --work")
    args = parser.parse_args()
    row = MODELS[args.name.split("_")[0]]
    trained = args.name == "digits"
    folder = DIGITS if trained else prepare(args.name, args.fill, args.work)
    model = folder / "digits.onnx" if trained else folder / "model.onnx"
    scratch = args.work / args.scratch / args.name
    if args.device:
        seen = subprocess.run([args.halyard, "devices", args.device], capture_output=True, text=True)
        if seen.returncode != 0:
            print(f"SKIPPED: {seen.stderr}")
            sys.exit(77)

    oracle = Oracle(model)
    wanted_cases = row.cases[:1] if args.device and not args.all else row.cases
    cases = [(case, row.make(np.random.default_rng(1), case)) for case in wanted_cases]
    expected = [oracle(inputs) for _, inputs in cases]
    if not args.device:
        prove_comparison(row, oracle, cases[-1], expected[-1], folder, scratch, trained)
    if args.noise:
        print(f"noise {max(errors(Oracle(model, fused=False)(cases[-1][1]), expected[-1])):.1e}")

    if args.halyard:
        options = [] if args.tune else ["--no-tune"]
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        runs = [(case, inputs, wanted, options, index == 0)
                for index, ((case, inputs), wanted) in enumerate(zip(cases, expected))]
        tolerance = FP16_TOLERANCE if args.precision else row.tolerance
        if args.precision:
            options += ["--precision", args.precision]
        if args.device:
            options += ["--device", args.device, "--no-fallback"]
            runs = [(*run[:3], options, True) for run in runs[:None if args.all else 1]]
        elif not row.is_static:
            runs.append((*runs[-1][:3], [*options, "--compile-shapes"], True))
        if not row.is_interpreted and not args.device:
            runs.append((*runs[0][:3], [*options, "--device", "cpu:0?discrete=7"], True))
        has_vulkan = subprocess.run([args.halyard, "devices", "vulkan:0"], capture_output=True).returncode == 0
        splits, streams = ([more.split() for more in group if has_vulkan or "vulkan" not in more]
                           for group in (((), ()) if args.device else (row.splits, row.streams)))
        runs += [(*runs[0][:3], [*options, *more], True) for more in splits + streams]
        for case, inputs, wanted, flags, compiles in runs:
            started = time.monotonic()
            found = errors(run_halyard(args.halyard, model, inputs, len(wanted), scratch, flags, compiles), wanted)
            print(f"halyard at {case} {' '.join(flags)}: errors {' '.join(f'{e:.1e}' for e in found)}, "
                  f"{time.monotonic() - started:.1f} s")
            if max(found) > tolerance:
                fail(f"Halyard differs from ONNX Runtime by more than {tolerance:.1e}.")
        for split in splits:
            count = devices_in_use(explain(args.halyard, model, scratch, [*options, *split]))
            print(f"{count} devices work with {' '.join(split)}")
            wanted = max(2, len(split[split.index("--device") + 1].split(",")))
            if count < wanted:
                fail(f"The split gives work to {count} devices; {wanted} are to have some.")
        for stream in streams:
            if "every run brings them" not in explain(args.halyard, model, scratch, [*options, *stream]):
                fail(f"No weights are streamed with {' '.join(stream)}.")
        if trained:
            check_accuracy(args.halyard, scratch, options)
        shutil.rmtree(scratch / "cache", ignore_errors=True)


if __name__ == "__main__":
    main()
