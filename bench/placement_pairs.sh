#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Models over several devices at once: MiniLM and ResNet-50, an equal share of their layers forced on each device
# of a case, compared with cpu:0. One line for each: how bytes went from device to device, the largest error,
# the median time. Fails where outputs differ or a run fails; a device that is not there is said.
#
#   bench/placement_pairs.sh BUILD_FOLDER [DEVICE,DEVICE...]...
#
# Without cases: CUDA, Vulkan and the CPU in pairs and all three. Takes less than a minute on a machine with a GPU.
set -uo pipefail
build=$(realpath "$1")
shift
cd "$(dirname "$0")/../tests/models"
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(cuda:0,cpu:0 vulkan:0,cpu:0 cuda:0,vulkan:0 cuda:0,vulkan:0,cpu:0)
halyard=$build/bin/halyard
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HALYARD_CACHE_DIR=$work/cache
export HALYARD_COMPILER_LIBRARY=$build/lib/libhalyard_compiler.so

# Patterns of nodes in the order of the model; the devices of a case share them out.
parts_of() {
  case $1 in
    minilm_script) echo '*layer.0/* *layer.1/* *layer.2/* *layer.3/* *layer.4/* *layer.5/*' ;;
    resnet50_script) echo '/layer1/* /layer2/* /layer3/* /layer4/*' ;;
  esac
}
sizes_of() {
  case $1 in
    minilm_script) echo '--shape batch=1 --shape sequence=128' ;;
    resnet50_script) echo '--shape batch=1' ;;
  esac
}

# wishes MODEL DEVICE,DEVICE...
wishes() {
  local -a parts devices
  set -f
  read -ra parts <<<"$(parts_of "$1")"
  set +f
  IFS=, read -ra devices <<<"$2"
  for i in "${!parts[@]}"; do
    printf '%s\n' --affinity "${parts[$i]}=${devices[$((i * ${#devices[@]} / ${#parts[@]}))]}"
  done
}

present=()
for devices in "${cases[@]}"; do
  missing=
  for device in ${devices//,/ }; do
    "$halyard" devices "$device" >/dev/null 2>&1 || missing+=" $device"
  done
  if [ -n "$missing" ]; then
    echo "-: $devices: not here:$missing"
  else
    present+=("$devices")
  fi
done

status=0
for model in minilm_script resnet50_script; do
  folder=$work/$model
  mkdir "$folder"
  cp "$model/model.onnx" "$folder"
  "$build/tests/models/fill_weights" "$model/weights.txt" "$folder/weights.bin" >/dev/null || exit 1
  read -ra sizes <<<"$(sizes_of "$model")"
  reference=$folder/reference
  if ! "$halyard" run "$folder/model.onnx" --device cpu:0 --no-tune "${sizes[@]}" --output-dir "$reference" >"$folder/log" 2>&1; then
    echo "$model: cpu:0: FAILED: $(tail -n 1 "$folder/log")"
    exit 1
  fi
  # All at once: most of the time goes into compilers that run on one thread.
  for devices in "${present[@]}"; do
    mapfile -t wishes < <(wishes "$model" "$devices")
    "$halyard" compile "$folder/model.onnx" -o "$folder/$devices.hyp" --no-tune --device "$devices" "${sizes[@]}" \
      "${wishes[@]}" >"$folder/$devices.log" 2>&1 &
  done
  wait
  for devices in "${present[@]}"; do
    program=$folder/$devices.hyp
    log=$folder/$devices.log
    if ! [ -s "$program" ] ||
      ! "$halyard" run "$program" --expect-dir "$reference" --rtol 1e-2 --atol 1e-3 >"$log" 2>&1; then
      echo "$model: $devices: FAILED: $(grep -m 1 error "$log" || tail -n 1 "$log")"
      status=1
      continue
    fi
    error=$(sed -n 's/.*largest error \(.*\) absolute.*/\1/p' "$log" | sort -g | tail -n 1)
    ways=$("$halyard" explain "$program" | sed -n 's/^  \([0-9]* transfers\? from .*\)/\1/p' | paste -sd ';' | sed 's/;/; /g')
    seconds=$("$halyard" bench "$program" --warm-up 0.2 --seconds 0.5 --no-profile --no-check --concurrency 1 -o csv |
      python3 -c 'import csv, sys; print(next(csv.DictReader(sys.stdin))["latency_p50"])' 2>"$log")
    echo "$model: $devices: largest error $error; ${seconds:-no} s a run; ${ways:-no transfers}"
  done
done
exit $status
