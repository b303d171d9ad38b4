#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles every kernel that the committed models have as first choice with NVRTC, for three generations of GPUs in f32 and
# fp16, and runs none: no GPU is needed. CI does it for three models; all of them take a processor for twelve minutes.
#
#   scripts/compile_for_cuda.sh [MODEL...]
#
# MODEL is a folder of tests/models, such as gpt2_dynamo; default: all exports. Writes a Markdown table of MB of code;
# the status is 1 where a model does not compile, which stderr explains.
set -euo pipefail
cd "$(dirname "$0")/.."
models=("$@")
if [ $# -eq 0 ]; then
  for folder in tests/models/*_dynamo tests/models/*_script; do models+=("$(basename "$folder")"); done
fi
cmake --preset dev > /dev/null
cmake --build --preset dev --target gpu_models > /dev/null

echo "| model | sm_75 f32 | sm_75 fp16 | sm_80 f32 | sm_80 fp16 | sm_90a f32 | sm_90a fp16 |"
echo "|---|---|---|---|---|---|---|"
failed=0
for model in "${models[@]}"; do
  row="| $model |"
  for architecture in sm75 sm80 sm90; do
    for precision in "" fp16; do
      # Prints "MODEL for TARGET: BYTES bytes of code".
      if line=$(build/dev/tests/gpu_models "$model" "cuda-$architecture" batch=1 $precision); then
        row+=$(awk '{printf " %.2f |", $4 / 1e6}' <<< "$line")
      else
        echo "$model $architecture ${precision:-f32} does not compile." >&2
        row+=" no |"
        failed=1
      fi
    done
  done
  echo "$row"
done
exit $failed
