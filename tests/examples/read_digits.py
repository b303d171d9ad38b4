#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what ./demo shows: that the digits are read, and every part once, under one heading.

usage: read_digits.py READ_DIGITS FOLDER
"""
import subprocess
import sys

HEADINGS = ["devices", "digits", "placement", "fusion groups", "phases", "memory"]


def main():
    done = subprocess.run(sys.argv[1:3], capture_output=True, encoding="utf-8")
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        print(f"exit status {done.returncode}")
        return 1
    # A heading is a line of words that begins a part; what a digit is made of has none.
    words = [line.split(",")[0].strip().lower() for line in done.stdout.splitlines()]
    found = [word for word in words if word in HEADINGS]
    if found != HEADINGS:
        print(f"headings {found}, not {HEADINGS}, in:\n{done.stdout}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
