#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far placement's model of costs is off on a device: the median of |predicted / measured - 1| over the kernels of
each model, over each class of op and over all, cold and warm; and what share of the device's roofs its kernels
reach. Cold: the device was probed, nothing else is known. Warm: the same models once more, planned anew with the
times that races and timed runs left in the cache.

usage: bench/model_error.py BUILD_FOLDER DEVICE [MODEL...] [--no-tune] [--seconds S] [--probe-seconds S] [--cache FOLDER]
       [--output FILE] [--check]

Models are folders of tests/models; without any it is the suite. The cache is a new one; with --probe-seconds 0 it is
one that has a probe of the device already, and nothing else. FILE gets each kernel: seconds (predicted), measured,
source of the prediction, FLOPs, bytes, results, roof (the seconds that the device's roofs allow). The limits are 40 %
cold and 15 % warm for the median over all kernels; with --check what is above ends with status 1.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

MODELS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models"
SUITE = ["resnet50_script", "mobilenetv2_script", "efficientnetb0_script", "convnexttiny_script", "vit_script",
         "minilm_script", "bert128_script", "gpt2_script"]
LIMITS = {"cold": 0.40, "warm": 0.15}


def sizes_of(model):
    sizes = [] if model in ("loneop", "bigtable", "detector", "overcap") else ["--shape", "batch=1"]
    if model.split("_")[0] in ("minilm", "bert", "gpt2"):
        sizes += ["--shape", "sequence=128"]
    return sizes


def prepare(build, model):
    """The folder with the model and its weights."""
    folder = build / "placement_models" / model
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(MODELS / model / "model.onnx", folder / "model.onnx")
    if not (folder / "weights.bin").exists():
        subprocess.run([build / "tests/models/fill_weights", MODELS / model / "weights.txt", folder / "weights.bin"],
                       check=True, stdout=subprocess.DEVNULL)
    return folder / "model.onnx"


def measure(halyard, model, args, environment, *options):
    """What was predicted (seconds) and measured of each kernel, and what it does, by class of op; what a run takes."""
    done = subprocess.run(
        [halyard, "bench", prepare(args.build, model), "--device", args.device, *sizes_of(model), "--no-check",
         "--concurrency", "1", "--seconds", str(args.seconds), "-o", "json", *(["--no-tune"] if args.no_tune else []),
         *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        print(f"{model}: FAILED: {lines[-1] if lines else done.returncode}", file=sys.stderr)
        return None
    [row] = json.loads(done.stdout)["rows"]
    return {"run": row["latency"]["p50"],
            "classes": {error["class"]: error["samples"] for error in row["profile"]["model_error"]}}


def summary(ratios):
    """Median error, how many kernels, median of predicted / measured."""
    return (statistics.median(abs(ratio - 1) for ratio in ratios), len(ratios), statistics.median(ratios))


def of_roof(samples):
    """What the roofs allow over what was taken, of the kernels that have one."""
    timed = [one for one in samples if "roof" in one]
    took = sum(one["measured"] for one in timed)
    return f"{sum(one['roof'] for one in timed) / took:.0%}" if took > 0 else "-"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("device")
    parser.add_argument("models", nargs="*", default=SUITE)
    parser.add_argument("--no-tune", action="store_true", help="schedules by the model of costs, no races")
    parser.add_argument("--seconds", type=float, default=1, help="of steady runs of each model")
    parser.add_argument("--probe-seconds", type=float, default=30)
    parser.add_argument("--cache", type=lambda text: pathlib.Path(text).resolve(), help="keep it in this folder")
    parser.add_argument("--output", help="also as JSON into this file")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    halyard = args.build / "bin" / "halyard"
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or pathlib.Path(folder)
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = {**os.environ, "HALYARD_CACHE_DIR": str(cache),
                       "HALYARD_COMPILER_LIBRARY": str(args.build / "lib" / "libhalyard_compiler.so")}
        if args.probe_seconds > 0:
            subprocess.run([halyard, "devices", "--probe", "--seconds", str(args.probe_seconds), args.device],
                           check=True, stdout=subprocess.DEVNULL, env=environment)
        # Cold for all models before any is warm: they share kernels, and so times.
        measured = {"cold": {}, "warm": {}}
        for model in args.models:
            measured["cold"][model] = measure(halyard, model, args, {**environment})
        for model in args.models:
            measured["warm"][model] = measure(halyard, model, args, environment, "--replan")
    failed = False
    print("| what | cache | kernels | median error | predicted / measured | all kernels predicted, ms | measured, ms | "
          "a run, ms | of roof |\n|---|---|---|---|---|---|---|---|---|")
    for state, by_model in measured.items():
        failed |= None in by_model.values()
        by_class, samples_by_class, of_models, everything = {}, {}, [], []
        for model, found in by_model.items():
            samples_of = found["classes"] if found else {}
            sums = [1e3 * sum(one[key] for samples in samples_of.values() for one in samples)
                    for key in ("seconds", "measured")]
            classes = {op_class: [one["seconds"] / one["measured"] for one in samples]
                       for op_class, samples in samples_of.items()}
            ratios = [ratio for all_of_class in classes.values() for ratio in all_of_class]
            if not ratios:
                continue
            error, count, ratio = summary(ratios)
            print(f"| {model} | {state} | {count} | {error:.0%} | {ratio:.2f} | {sums[0]:.3f} | {sums[1]:.3f} | "
                  f"{1e3 * found['run']:.3f} | {of_roof(sum(samples_of.values(), []))} |")
            of_models.append(error)
            everything += ratios
            for op_class, all_of_class in classes.items():
                by_class.setdefault(op_class, []).extend(all_of_class)
                samples_by_class.setdefault(op_class, []).extend(samples_of[op_class])
        if not everything:
            continue
        for op_class, ratios in sorted(by_class.items()):
            error, count, ratio = summary(ratios)
            milliseconds = 1e3 * sum(one["measured"] for one in samples_by_class[op_class])
            print(f"| class {op_class} | {state} | {count} | {error:.0%} | {ratio:.2f} | | {milliseconds:.3f} | | "
                  f"{of_roof(samples_by_class[op_class])} |")
        error, count, ratio = summary(everything)
        print(f"| **all kernels** | {state} | {count} | **{error:.0%}** | {ratio:.2f} | | | | |")
        print(f"| **median of the models** | {state} | | **{statistics.median(of_models):.0%}** | | | | | |")
        failed |= args.check and error > LIMITS[state]
    if args.output:
        pathlib.Path(args.output).write_text(json.dumps(measured, indent=1), encoding="utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
