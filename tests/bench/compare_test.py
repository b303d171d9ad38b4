#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/compare makes of its workers' answers, with workers of this file in place of Halyard and PyTorch: which
outputs count as wrong, which blocks count, what the figures and ratios are, and what is said of a worker that fails.
No test here times anything: each worker names its own times.

As a worker: compare_test.py BEHAVIOUR_FILE, then the arguments of the side that it plays."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import stat
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench"
COUNT = 1000  # elements of the output


def outputs(inputs):
    """What both sides compute; each element depends on each byte of the first input."""
    x = np.fromfile(sorted(inputs)[0], np.uint8).astype(np.float64)
    return np.sin(np.arange(COUNT) + x @ np.arange(1, x.size + 1)).astype(np.float32)


def work(behaviour, arguments):
    """One side: answers lines as model_worker and torch_gpu_worker.py do."""
    is_ours = "--inputs" in arguments
    mine = dict(behaviour["halyard"] if is_ours else behaviour["torch"])
    if mine.get("dies_at_start"):
        sys.exit(3)
    if is_ours:
        folder = pathlib.Path(arguments[arguments.index("--inputs") + 1])
        pathlib.Path(behaviour["log"]).write_text(" ".join(arguments))
    else:
        folder = pathlib.Path(arguments[2])
        for kind, name in (("input", "reference"), ("other", "apart")):
            source = "input" if mine.get("ignores_inputs") else kind
            outputs(folder.glob(f"{source}_*.bin")).tofile(folder / f"{name}_0.bin")
    print("ready 0.125", flush=True)
    mode, blocks = "halyard", {}
    for line in sys.stdin:
        word, _, value = line.strip().partition(" ")
        if word == "use":
            mode = value
            print("using 1.5", flush=True)
        elif word == "warm":
            blocks[mode] = blocks.get(mode, -1) + 1
            print(1, flush=True)
        elif word == "run":
            if mine.get("dies_at_run"):
                sys.exit(4)
            of_blocks = mine["times"][mode]
            nanoseconds = int(of_blocks[blocks[mode] % len(of_blocks)] * 1e6)
            # One that took ten times as long: medians do not see it.
            print(*[nanoseconds * 10, *[nanoseconds] * (int(value) - 1)], flush=True)
        elif word == "write":
            found = outputs(folder.glob("input_*.bin"))
            if "wrong_by" in mine and mine.get("wrong_side", mode) == mode:
                found[COUNT // 2] += mine["wrong_by"]
            if mine.get("nan"):
                found[3] = np.nan
            found[:mine.get("elements", COUNT)].tofile(pathlib.Path(value) / "output_0.bin")
            print("written", flush=True)


def load_compare():
    loader = importlib.machinery.SourceFileLoader("compare", str(BENCH / "compare"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
    loader.exec_module(module)
    return module


class Clock:
    """Answers these, one for each block; None behind the last."""

    def __init__(self, readings):
        self.readings = list(readings)

    @property
    def mhz(self):
        return self.readings.pop(0) if self.readings else None

    def stop(self):
        pass


TIMES = {"eager": [4.0], "default": [2.0], "reduce-overhead": [1.0]}


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.models = self.folder / "models"
        for name in ("resnet50", "minilm"):
            (self.models / f"{name}_dynamo").mkdir(parents=True)
            (self.models / f"{name}_dynamo" / "weights.bin").write_bytes(b"w")

    def compare(self, halyard=None, torch=None, cases=("minilm:batch=1,sequence=8",), mhz=(), options=()):
        """The exit status, compare.json and compare.md."""
        behaviour = self.folder / "behaviour.json"
        behaviour.write_text(json.dumps({
            "log": str(self.folder / "command"),
            "halyard": {"times": {"halyard": [0.5]}, **(halyard or {})},
            "torch": {"times": TIMES, **(torch or {})}}))
        start = f"{sys.executable} {pathlib.Path(__file__).resolve()} {behaviour}"
        worker = self.folder / "model_worker"
        worker.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        worker.chmod(worker.stat().st_mode | stat.S_IXUSR)
        (self.folder / "torch_gpu_worker.py").write_text(
            f"import os, sys\nos.execv({sys.executable!r}, {start.split()!r} + sys.argv[1:])\n")
        module = load_compare()
        module.HERE = self.folder

        out = self.folder / "out"
        line = ["compare", "--models", str(self.models), "--worker", str(worker), "--out", str(out), "--runs", "20",
                "--warm", "0", *options]
        for case in cases:
            line += ["--case", case]
        with mock.patch.object(sys, "argv", line), mock.patch.object(module, "Clock", lambda: Clock(mhz)), \
                mock.patch.object(module, "describe_machine", lambda: "a machine"), \
                contextlib.redirect_stdout(io.StringIO()), self.assertRaises(SystemExit) as ended:
            module.main()
        return ended.exception.code, json.loads((out / "compare.json").read_text()), (out / "compare.md").read_text()

    def failure(self, **sides):
        code, report, text = self.compare(**sides)
        self.assertEqual(code, 1)
        [case] = report["cases"]
        self.assertNotIn("ms", case)
        self.assertEqual(report["passed"], 0)
        self.assertEqual(report["geometric_means"], {})
        self.assertIn("failed: " + case["failed"], text)
        return case["failed"]

    def test_figures(self):
        code, report, text = self.compare(
            halyard={"times": {"halyard": [0.5, 0.75, 9.0]}}, options=["--rounds", "3"])
        self.assertEqual(code, 0)
        [case] = report["cases"]
        self.assertEqual(case["ms"], {"halyard": 0.75, "eager": 4.0, "default": 2.0, "reduce-overhead": 1.0})
        self.assertEqual(case["ratios"], {"eager": 0.1875, "default": 0.375, "reduce-overhead": 0.75})
        self.assertEqual([block["runs"] for block in case["blocks"]["halyard"]], [20, 20, 20])
        self.assertEqual(case["errors"]["halyard"], 0)
        self.assertEqual(case["compile_s"], {rival: 1.5 for rival in TIMES})
        self.assertEqual(report["passed"], 1)
        self.assertIn("| minilm:batch=1,sequence=8 | 0.750 | 4.000 | 0.19 | 2.000 | 0.38 | 1.000 | 0.75 | 0.0e+00 |", text)

    def test_geometric_mean_and_pass_rate_are_of_all_cases(self):
        # The second case's worker has the same times; the third cannot be there.
        code, report, text = self.compare(
            halyard={"times": {"halyard": [1.2]}},
            cases=("minilm:batch=1,sequence=8", "resnet50:batch=1", "nosuch:batch=1"))
        self.assertEqual(code, 1)
        self.assertAlmostEqual(report["geometric_means"]["reduce-overhead"], 1.2)
        self.assertEqual(report["passed"], 0)  # 1.2 is more than the goal
        self.assertIn("0 of 3 cases agree and take at most 1.1", text)
        self.assertIn("nosuch", report["cases"][2]["failed"])

    def test_slow_clocks_do_not_count(self):
        # In each round four blocks; Halyard's are the first of the first round and the last of the second.
        readings = [1500, 1980, 1980, 1980, 1980, 1980, 1980, 1980]
        _, report, _ = self.compare(halyard={"times": {"halyard": [8.0, 0.5]}}, mhz=readings * 2,
                                    options=["--rounds", "2"])
        blocks = report["cases"][0]["blocks"]["halyard"]
        self.assertEqual([block["sm_mhz"] for block in blocks], [1500, 1980])
        self.assertEqual(report["cases"][0]["ms"]["halyard"], 0.5)
        self.assertEqual(report["highest_sm_mhz"], 1980)

    def test_wrong_outputs_have_no_time(self):
        self.assertRegex(self.failure(halyard={"wrong_by": 0.5}), r"outputs differ by more than .*: halyard")
        self.assertRegex(self.failure(halyard={"nan": True}), "outputs differ .*: halyard inf")
        self.assertRegex(self.failure(torch={"wrong_by": 0.5, "wrong_side": "default"}), "outputs differ .*: default")
        self.assertEqual(self.failure(halyard={"elements": 999}), "999 output elements instead of 1000")

    def test_a_rounding_error_is_none(self):
        code, _, _ = self.compare(halyard={"wrong_by": 1e-4})
        self.assertEqual(code, 0)

    def test_outputs_that_do_not_depend_on_inputs_prove_nothing(self):
        self.assertIn("two inputs differ by 0.0e+00 only", self.failure(torch={"ignores_inputs": True}))

    def test_a_worker_that_ends_fails_its_case(self):
        for side in ("halyard", "torch"):
            self.assertIn("ended with status 3", self.failure(**{side: {"dies_at_start": True}}))
            self.assertIn("ended with status 4", self.failure(**{side: {"dies_at_run": True}}))

    def test_what_halyard_is_asked(self):
        self.compare(options=["--precision", "fp16", "--device", "vulkan:0"])
        command = (self.folder / "command").read_text()
        for part in ("--device vulkan:0", "--on-device", "--precision fp16", "--io-precision fp32", "--no-tune",
                     "--symbol batch=1", "--symbol sequence=8"):
            self.assertIn(part, command)
        self.assertNotIn("--no-vendor-libs", command)
        self.compare(options=["--tune", "--no-vendor-libs"])
        command = (self.folder / "command").read_text()
        self.assertIn("--no-vendor-libs", command)
        self.assertNotIn("--no-tune", command)


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
        work(json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2:])
    else:
        unittest.main()
