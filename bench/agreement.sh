#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether `halyard bench` says what a C program says that times runs by itself (manual_timing.c).
#
#   bench/agreement.sh BUILD DEVICE MODEL...
#
# BUILD: a build folder, with the targets halyard_command, halyard_compiler and manual_timing. A MODEL is a file and, after spaces,
# sizes that it leaves open: "models/bert-base/model.onnx batch=1 sequence=128". ROUNDS (5) times in turn, SECONDS_EACH (3) each.
# Prints a table; status 1 if a difference is more than 3 %.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4,8s/^# \?//p' "$0" >&2; exit 1; }
build=$1 device=$2
shift 2
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

number=0
for model in "$@"; do
  read -ra words <<<"$model"
  shapes=()
  for symbol in "${words[@]:1}"; do shapes+=(--shape "$symbol"); done
  for ((round = 0; round < rounds; ++round)); do
    "$build/bin/halyard" bench "${words[0]}" --device "$device" "${shapes[@]}" --seconds "$seconds" --concurrency 1 -o json \
      >"$results/$number.$round.json"
    "$build/bench/manual_timing" "$device" "${words[0]}" "$seconds" "${words[@]:1}" >"$results/$number.$round.txt"
  done
  number=$((number + 1))
done

python3 - "$results" "$rounds" "$device" "$@" <<'PYTHON'
import json, statistics, sys
folder, rounds, device, models = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
print(f"On {device}, medians of {rounds} rounds in turn, ms:\n")
print("| model | halyard bench, p50 | by hand, host to host | difference | by hand, on the device | devices busy in a profiled run |")
print("|---|---|---|---|---|---|")
worst = 0
for number, model in enumerate(models):
    p50, busy, hand = [], [], {"host": [], "device": []}
    for round_ in range(rounds):
        row = json.load(open(f"{folder}/{number}.{round_}.json"))["rows"][0]
        p50.append(row["latency"]["p50"] * 1e3)
        busy.append(sum(row["profile"]["split"]["busy"].values()) * 1e3)
        for line in open(f"{folder}/{number}.{round_}.txt"):
            name, nanoseconds = line.split()
            hand[name].append(int(nanoseconds) / 1e6)
    ours, host, queued = statistics.median(p50), statistics.median(hand["host"]), statistics.median(hand["device"])
    worst = max(worst, abs(ours / host - 1))
    print(f"| {model} | {ours:.4f} | {host:.4f} | {(ours / host - 1) * 100:+.1f} % | {queued:.4f} | {statistics.median(busy):.4f} |")
sys.exit(worst > 0.03)
PYTHON
