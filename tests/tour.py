#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the dumps in docs/tour.md are real. A block that opens with ```ir after=PASS must be found, line
by line and in order, in what hy-opt prints after that pass; a line of … stands for any lines, a line that
ends in … for any end of the line.

usage: tour.py HY_OPT
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```ir after=(\S+)\n(.*?)```", re.DOTALL)
MODEL = "examples/digits/digits.onnx"


def passes_until(hy_opt, last):
    listed = subprocess.run([hy_opt, "--list"], check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    return names[: names.index(last) + 1]


def dump(hy_opt, last):
    command = [hy_opt, MODEL, "--target", "cpu-avx2", "--pass", *passes_until(hy_opt, last)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def first_mismatch(block, text):
    """The first line of the block that the text does not have where it should; None when all are there."""
    lines = text.splitlines()
    at, is_anywhere = 0, True
    for wanted in block.splitlines():
        if wanted.strip() == "…":
            is_anywhere = True
            continue
        def matches(line):
            return line.startswith(wanted[:-1]) if wanted.endswith("…") else line == wanted
        end = len(lines) if is_anywhere else min(at + 1, len(lines))
        found = next((i for i in range(at, end) if matches(lines[i])), None)
        if found is None:
            return wanted
        at, is_anywhere = found + 1, False
    return None


def main():
    hy_opt = str(pathlib.Path(sys.argv[1]).resolve())
    text = (ROOT / "docs/tour.md").read_text()
    blocks = BLOCK.findall(text)
    dumps = {name: dump(hy_opt, name) for name in {name for name, _ in blocks}}
    failures = [(name, first_mismatch(block, dumps[name])) for name, block in blocks]
    failures = [f for f in failures if f[1] is not None]
    for name, line in failures:
        print(f"docs/tour.md: after pass '{name}' there is no such line at this place: {line}")
    print(f"{len(blocks)} blocks, {len(failures)} that differ")
    return 1 if failures or len(blocks) < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
