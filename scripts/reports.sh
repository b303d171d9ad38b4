#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the reports of docs/reports on this machine: ResNet-50 and BERT-base over the devices, and what the devices are.
#
#   scripts/reports.sh BUILD FOLDER DEVICE...
#
# BUILD: a build folder, with the targets halyard_command, halyard_compiler and fill_weights. FOLDER: docs/reports/NAME, made
# anew. SECONDS_EACH (3): of timed runs. PROBE_SECONDS (10): of each device's probe. BENCH_OPTIONS and PROBE_OPTIONS: further
# options of halyard bench and halyard devices, such as --no-tune where compiling takes long. Weights are random, but the same
# everywhere.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3,10s/^# \?//p' "$0" >&2; exit 1; }
build=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
devices=$(IFS=,; echo "$*")
sources=$(cd "$(dirname "$0")/.." && pwd)/tests/models

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The names that reports show.
link() {
  mkdir -p "$work/$2"
  cp "$sources/$1/model.onnx" "$work/$2/"
  "$build/tests/models/fill_weights" "$sources/$1/weights.txt" "$work/$2/weights.bin" >/dev/null
}
link resnet50_script resnet50
link bert128_script bert-base
cd "$work"

halyard=$build/bin/halyard
status=0  # of rows that failed; the others are reported
# shellcheck disable=SC2086  # several options
"$halyard" devices "$@" --probe --seconds "${PROBE_SECONDS:-10}" ${PROBE_OPTIONS:-} --output "$folder/devices.json" \
  --svg "$folder/devices.svg" >"$folder/devices.txt"
# shellcheck disable=SC2086
"$halyard" bench resnet50/model.onnx bert-base/model.onnx --device "$devices" --shape batch=1 --seconds "${SECONDS_EACH:-3}" \
  ${BENCH_OPTIONS:-} --output "$folder/models.json" --html "$folder/models.html" >"$folder/models.md" || status=$?
# Names of control groups tell where it was, and so do folders of libraries.
sed -i -E -e 's#(/sys/fs/cgroup/)[^ "]*/([a-z_.]+)#\1.../\2#' -e 's#/[^ "]*/(lib[a-zA-Z0-9_]+\.so)#.../\1#g' \
  "$folder"/*.{json,md,txt,html}
du -k "$folder"/* | sort -n
exit "$status"
