#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether `halyard bench` says what a C program says that times runs by itself (manual_timing.c).
#
#   bench/agreement.sh BUILD DEVICE MODEL...
#
# BUILD: a build folder, with the targets halyard_command, halyard_compiler and manual_timing. A MODEL is a file and, after spaces,
# sizes that it leaves open: "models/bert-base/model.onnx batch=1 sequence=128". Each is compiled once, with COMPILE_OPTIONS, such
# as --no-tune; then both run that program, ROUNDS (5) times in turn, SECONDS_EACH (3) each. Prints a table; status 1 if a
# difference is more than 3 %.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4,9s/^# \?//p' "$0" >&2; exit 1; }
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
  program=$results/$number.hyp
  # shellcheck disable=SC2086  # several options
  "$build/bin/halyard" compile "${words[0]}" --device "$device" "${shapes[@]}" ${COMPILE_OPTIONS:-} -o "$program" >/dev/null
  for ((round = 0; round < rounds; ++round)); do
    "$build/bin/halyard" bench "$program" --seconds "$seconds" --concurrency 1 -o json >"$results/$number.$round.json"
    "$build/bench/manual_timing" "$device" "$program" "$seconds" >"$results/$number.$round.txt"
  done
  number=$((number + 1))
done

python3 - "$results" "$rounds" "$device" "$@" <<'PYTHON'
import json, statistics, sys
folder, rounds, device, models = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
print(f"On {device}, medians of {rounds} rounds in turn, ms:\n")
print("| model | halyard bench, p50 | by hand, host to host | difference | of single rounds | by hand, on the device | busy in a profiled run |")
print("|---|---|---|---|---|---|---|")
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
    each = ", ".join(f"{(a / b - 1) * 100:+.1f}" for a, b in zip(p50, hand["host"]))
    print(f"| {model} | {ours:.4f} | {host:.4f} | {(ours / host - 1) * 100:+.1f} % | {each} % | {queued:.4f} "
          f"| {statistics.median(busy):.4f} |")
sys.exit(worst > 0.03)
PYTHON
