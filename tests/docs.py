#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the documents name things that exist: links, paths in backticks, and the commands of code
blocks. Words in capitals (NAME, MODEL) are placeholders.

usage: docs.py [HALYARD]. With the path of the command, its sub-commands are checked too.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name not in ("build", ".git", ".venv")}
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"`([^`\n]+)`")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|[*…<>]")


def documents():
    return sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])


def is_repository_path(text):
    """Whether a word can only mean a file or folder of this repository."""
    return "/" in text and text.split("/")[0] in TOP and " " not in text


def check_text(path, text):
    """Violations about names; path is where the text stands."""
    for target in LINK.findall(text):
        if "://" not in target and not (path.parent / target).exists():
            yield f"links to {target}, which does not exist"
    for code in CODE.findall(text):
        if is_repository_path(code) and not PLACEHOLDER.search(code):
            if not (ROOT / code).exists():
                yield f"names {code}, which does not exist"


def commands(text):
    """Each command of the shell blocks and of backticks, as its words."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line[2:].split()
    for code in CODE.findall(text):
        yield code.split()


def check_commands(text, subcommands):
    for words in commands(text):
        while words and "=" in words[0]:
            words = words[1:]
        if not words:
            continue
        program = words[0]
        if program.startswith("./") and not os.access(ROOT / program, os.X_OK):
            yield f"runs {program}, which is not an executable file"
        if subcommands and program == "halyard" and len(words) > 1 and re.fullmatch(
                r"[a-z]+", words[1]) and words[1] not in subcommands:
            yield f"runs halyard {words[1]}, which the command does not know"


def main():
    subcommands = set()
    if len(sys.argv) > 1:
        usage = subprocess.run([sys.argv[1], "--help"], check=True, capture_output=True, text=True)
        subcommands = set(re.findall(r"^  ([a-z]+)\b", usage.stdout, re.MULTILINE))
        if not {"run", "devices"} <= subcommands:
            print(f"{sys.argv[1]} --help lists no sub-commands:\n{usage.stdout}")
            return 1
    violations = []
    for path in documents():
        if not path.exists():
            violations.append(f"{path.name} does not exist")
            continue
        text = path.read_text(encoding="utf-8")
        for reason in [*check_text(path, text), *check_commands(text, subcommands)]:
            violations.append(f"{path.relative_to(ROOT)}: {reason}.")
    print("\n".join(violations))
    print(f"{len(documents())} documents, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
