# SPDX-License-Identifier: Apache-2.0
"""Times a model in Halyard and in its rivals side by side: A B A B, each in its own process that sleeps
while another runs. Prints medians in milliseconds and the ratio of each round.

  python bench/compare_models.py MODEL.onnx [--threads 2] [--rounds 15] [--runs 3] [--symbol n=1]
      [--worker build/release/bench/model_worker] [--torch NAME [--torch-python PATH]]

Needs numpy and onnxruntime. --torch adds PyTorch eager on the module NAME of tests/models/export.py, with
an interpreter that has what that script needs.

Before and after each round a probe reads the L1 cache: where a neighbour of this machine shares the core,
the probe slows down like the kernels. A round whose probe is below 90 % of the best one is noisy; when there
are both kinds, the ratio of the quiet rounds stands beside the ratio of all. Timings are reports, never tests."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
QUIET = 0.9


class Worker:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.ready_seconds = float(self._line().split()[1])
        self.times = []

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[0]} ended with status {self.process.wait()}.")
        return line

    def _ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line().split()

    def run(self, count):
        """The median of `count` runs in milliseconds."""
        times = [int(text) / 1e6 for text in self._ask(f"run {count}")]
        self.times += times
        return statistics.median(times)

    def probe(self):
        """GB/s that one core reads from its L1 cache."""
        return float(self._ask("probe")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--symbol", action="append", default=[])
    parser.add_argument("--worker", default=str(HERE.parent / "build/release/bench/model_worker"))
    parser.add_argument("--torch", metavar="NAME")
    parser.add_argument("--torch-python", default=sys.executable)
    arguments = parser.parse_args()

    threads = str(arguments.threads)
    symbols = [text for symbol in arguments.symbol for text in ("--symbol", symbol)]
    ours = Worker([arguments.worker, arguments.model, *symbols], {"HALYARD_THREADS": threads})
    rivals = {"onnxruntime": Worker([sys.executable, str(HERE / "ort_worker.py"), arguments.model, threads,
                                     *arguments.symbol], {})}
    if arguments.torch:
        rivals["torch eager"] = Worker([arguments.torch_python, str(HERE / "torch_worker.py"), arguments.torch,
                                        threads, *arguments.symbol], {})
    probes, ratios = [], {name: [] for name in rivals}
    for _ in range(arguments.rounds):
        before, time = ours.probe(), ours.run(arguments.runs)
        for name, rival in rivals.items():
            ratios[name].append(time / rival.run(arguments.runs))
        probes.append(min(before, ours.probe()))
    quiet = [i for i, probe in enumerate(probes) if probe >= QUIET * max(probes)]
    folder = pathlib.Path(arguments.model).resolve().parent.name
    print(f"{folder}, {threads} threads, {len(ours.times)} runs each, ms: median / best; "
          f"{len(probes) - len(quiet)} of {len(probes)} rounds noisy")
    for name, worker in {"halyard": ours, **rivals}.items():
        line = (f"  {name:12} {statistics.median(worker.times):9.3f} / {min(worker.times):9.3f}"
                f"   ready in {worker.ready_seconds:.2f} s")
        if name in ratios:
            line += f"   ratio {statistics.median(ratios[name]):.3f}"
            if 0 < len(quiet) < len(probes):
                line += f", quiet {statistics.median(ratios[name][i] for i in quiet):.3f}"
            line += f" ({min(ratios[name]):.3f} to {max(ratios[name]):.3f})"
        print(line, flush=True)


if __name__ == "__main__":
    main()
