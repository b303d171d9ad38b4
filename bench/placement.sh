#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tables of docs/placement.md: what placement is worth on this machine.
#
#   bench/placement.sh BUILD_FOLDER DEVICES ACCELERATOR [MODEL...]
#
# DEVICES: what placement chooses from, the CPU among them; ACCELERATOR: the one of them whose memory
# is capped for the models that are made for that. Measures the devices first, into a cache of its own
# that stays in BUILD_FOLDER. With a GPU:
#   bench/placement.sh build/release cpu:0,cuda:0 cuda:0
# ROUNDS is the number of timed runs of each plan (30). Without a GPU, on synthetic devices:
#   HALYARD_SYNTHETIC_DEVICES='threads=2&link_bytes_per_s=4000000000&link_latency_us=10' \
#     bench/placement.sh build/release 'cpu:0?threads=1&speed_percent=10,cpu:1' cpu:1
set -euo pipefail
build=$(realpath "$1") devices=$2 accelerator=$3
shift 3
cd "$(dirname "$0")/../tests/models"
models=${*:-loneop bigtable detector overcap minilm_script resnet50_script mobilenetv2_script bert128_script gpt2_script vit_script efficientnetb0_script convnexttiny_script}

rounds=${ROUNDS:-30}
export HALYARD_CACHE_DIR=$build/placement_cache
export HALYARD_COMPILER_LIBRARY=$build/lib/libhalyard_compiler.so
mkdir -p -m 700 "$HALYARD_CACHE_DIR"
IFS=, read -ra list <<<"$devices"
"$build/bin/halyard" devices --probe --seconds 60 "${list[@]}" >"$build/placement_probe.txt"
for model in $models; do
  folder=$build/placement_models/$model
  mkdir -p "$folder"
  cp "$model/model.onnx" "$folder"
  [ -s "$folder/weights.bin" ] || "$build/tests/models/fill_weights" "$model/weights.txt" "$folder/weights.bin" >/dev/null
  sizes=()
  caps=()
  case $model in
    bigtable) caps=(--memory-cap "$accelerator=$((24 << 20))") ;;
    overcap) caps=(--memory-cap "$accelerator=$((16 << 20))") ;;
    loneop | detector) ;;
    *) sizes=(--symbol batch=1) ;;
  esac
  case $model in
    minilm* | bert_* | gpt2*) sizes+=(--symbol sequence=128) ;;
  esac
  "$build/bench/placement_bench" --rounds "$rounds" --device "$devices" "${caps[@]}" "${sizes[@]}" "$folder/model.onnx"
done | awk 'NR <= 2 || !/^\|---/ && !/^\| model/'
