#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what is published under docs/reports: each report is as its schema says, the page holds the report beside it, each
machine has all files, and nothing tells whose machine it was: no name of it or of a user, no path, no full kernel release.

usage: published_reports.py
"""
import getpass
import json
import pathlib
import re
import socket
import sys

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = ["devices.json", "devices.svg", "devices.txt", "models.html", "models.json", "models.md"]
TELLING = {
    "a path": re.compile(r"(?<![\w./<])/(?:home|root|work|workspace|tmp|mnt|opt|usr|var|etc|data|srv)/"),
    "a kernel release that is more than its numbers": re.compile(r"Linux \d[\d.]*[-+_a-zA-Z][^\s\",;<]*"),
    "a control group": re.compile(r"/sys/fs/cgroup/(?!\.\.\./)[^\s\"/]+/"),
    "a machine's own identity": re.compile(r"(?<![0-9a-f-])[0-9a-f]{32}(?![0-9a-f-])"),
}


def telling(text):
    for what, pattern in TELLING.items():
        if found := pattern.search(text):
            yield f"{what}: '{found.group(0)}'"
    for what, name in (("this user", getpass.getuser()), ("this machine", socket.gethostname())):
        # Short or plain names stand in any text.
        if len(name) > 4 and name != "localhost" and re.search(rf"\b{re.escape(name)}\b", text):
            yield f"the name of {what}: '{name}'"


def report_of(page):
    found = re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1)) if found else None


def check(folder, schemas):
    """Sentences about what is wrong with the reports of one machine."""
    for name in FILES:
        if not (folder / name).is_file():
            yield f"{name} is missing"
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8")
        page = report_of(text) if path.suffix == ".html" else None
        if path.suffix == ".html":
            beside = path.with_suffix(".json")
            if page is None or not beside.is_file() or page != json.loads(beside.read_text(encoding="utf-8")):
                yield f"{path.name} does not hold the report of {beside.name}"
            text = json.dumps(page)
        for what in telling(text):
            yield f"{path.name} tells {what}"
        if path.suffix != ".json":
            continue
        report = json.loads(text)
        validator = schemas[report["format"].split("-")[1]]
        for error in validator.iter_errors(report):
            yield f"{path.name}: {error.json_path}: {error.message[:200]}"
        for row in report.get("rows", []):
            if "error" in row or "latency" not in row:
                yield f"{path.name}: {row['model']} on {row['device']} was not measured"


def main():
    schemas = {}
    for name in ("bench", "devices"):
        schema = json.loads((ROOT / f"docs/{name}.schema.json").read_text(encoding="utf-8"))
        schemas[name] = jsonschema.Draft202012Validator(schema)
    # The check can fail.
    assert list(telling('"Linux 6.1.0-28-amd64"')) and not list(telling('"Linux 6.1.0", "linux/x"'))
    assert list(telling("open /home/someone/model.onnx")) and not list(telling("docs/home/x, </root/>"))
    assert list(telling('"0123456789abcdef0123456789abcdef"')) and not list(telling('"0123456789abcdef"'))
    assert list(telling("/sys/fs/cgroup/box/cpu.max")) and not list(telling("/sys/fs/cgroup/cpu.max, /sys/fs/cgroup/.../cpu.max"))
    assert report_of('<script type="application/json" id="report">{"a": 1}</script>') == {"a": 1}
    folders = sorted(path for path in (ROOT / "docs/reports").iterdir() if path.is_dir())
    wrong = [f"{folder.name}: {what}" for folder in folders for what in check(folder, schemas)]
    for path in sorted(ROOT.glob("tests/tools/reports/*.json")):
        wrong += [f"{path.name} tells {what}" for what in telling(path.read_text(encoding="utf-8"))]
    for sentence in wrong:
        print(sentence)
    print(f"{len(folders)} machines, {len(wrong)} violations")
    return 1 if wrong or not folders else 0


if __name__ == "__main__":
    sys.exit(main())
