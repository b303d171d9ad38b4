# SPDX-License-Identifier: Apache-2.0
"""Times a model in Halyard and in ONNX Runtime side by side: A B A B, each in its own process that sleeps
while the other runs. Prints medians in milliseconds and the ratio of each pair of rounds.

  python bench/compare_models.py MODEL.onnx [--threads 2] [--rounds 15] [--runs 3] [--symbol n=1]
      [--worker build/release/bench/model_worker]

Needs numpy and onnxruntime. Timings are reports, never tests."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Worker:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.ready_seconds = float(self._line().split()[1])

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[0]} ended with status {self.process.wait()}.")
        return line

    def run(self, count):
        self.process.stdin.write(f"run {count}\n")
        self.process.stdin.flush()
        return [int(text) / 1e6 for text in self._line().split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--symbol", action="append", default=[])
    parser.add_argument("--worker", default=str(HERE.parent / "build/release/bench/model_worker"))
    arguments = parser.parse_args()

    symbols = [text for symbol in arguments.symbol for text in ("--symbol", symbol)]
    ours = Worker([arguments.worker, arguments.model, *symbols], {"HALYARD_THREADS": str(arguments.threads)})
    rival = Worker([sys.executable, str(HERE / "ort_worker.py"), arguments.model, str(arguments.threads),
                    *arguments.symbol], {})
    a, b, ratios = [], [], []
    for _ in range(arguments.rounds):
        first, second = ours.run(arguments.runs), rival.run(arguments.runs)
        a += first
        b += second
        ratios.append(statistics.median(first) / statistics.median(second))
    print(f"{pathlib.Path(arguments.model).stem}, {arguments.threads} threads, "
          f"{len(a)} runs each, ms: median / best")
    print(f"  halyard      {statistics.median(a):9.3f} / {min(a):9.3f}   ready in {ours.ready_seconds:.2f} s")
    print(f"  onnxruntime  {statistics.median(b):9.3f} / {min(b):9.3f}   ready in {rival.ready_seconds:.2f} s")
    print(f"  ratio        {statistics.median(ratios):9.3f}   (median over {len(ratios)} rounds, "
          f"{min(ratios):.3f} to {max(ratios):.3f}; below 1 Halyard is faster)")


if __name__ == "__main__":
    main()
