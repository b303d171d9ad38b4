#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .venv with the Python packages of tests/requirements.txt: what the tests compare Halyard with.
# Nothing happens when it is already there for this list. Never holds what the library itself needs.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/requirements.txt
cmp -s tests/requirements.txt "$stamp" && exit 0
/usr/bin/python3 -m venv --clear .venv
.venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r tests/requirements.txt
cp tests/requirements.txt "$stamp"
