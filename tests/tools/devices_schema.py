#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks reports of `halyard devices --json` against docs/devices.schema.json: that of this machine, with probes of
copies, and the recorded ones.

usage: devices_schema.py HALYARD
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDED = sorted(ROOT.glob("tests/tools/reports/*.json"))


def run(halyard, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([halyard, "devices", "--json", *arguments], capture_output=True, text=True, check=True,
                              env={"HALYARD_CACHE_DIR": folder, "HALYARD_COMPILER_LIBRARY": "none"})
    return json.loads(done.stdout)


def main():
    schema = json.loads((ROOT / "docs/devices.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    reports = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in RECORDED}
    reports["this machine"] = run(sys.argv[1])
    reports["probed"] = run(sys.argv[1], "cpu:0?discrete=1&memory_bytes=4000000", "--probe", "--seconds", "2")
    failures = 0
    for name, report in reports.items():
        for error in validator.iter_errors(report):
            failures += 1
            print(f"{name}: {error.json_path}: {error.message[:200]}")
    if not reports["probed"]["probes"]["devices"][0]["readings"]:
        failures += 1
        print("probed: there are no readings")
    # The check can fail.
    reports["probed"]["devices"][0]["fields"]["identity.name"] = {"value": 3, "source": "guess"}
    if validator.is_valid(reports["probed"]):
        failures += 1
        print("a wrong report passes")
    print(f"{len(reports)} reports, {failures} violations")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
