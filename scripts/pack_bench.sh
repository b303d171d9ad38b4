#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs bench/compare with the programs, libraries and models that it needs, for a machine with a GPU that has
# PyTorch (with CUDA, torchvision, transformers, timm, onnx, onnxruntime) and nothing of ours:
#
#   scripts/pack_bench.sh FOLDER [MODEL...]
#
# MODEL is a model of tests/models/export.py; default: those of bench/compare. FOLDER/run.sh fills the weights
# in and runs bench/compare with its arguments. What is packed stays under 60 MiB; weights are made there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: pack_bench.sh FOLDER [MODEL...]}
shift
models=("$@")
[ $# -gt 0 ] || models=(resnet50 bert128 gpt2 vit)
mkdir -p "$folder/lib" "$folder/bench" "$folder/models"

cmake --preset dev -DHALYARD_BUILD_BENCH=ON > /dev/null
cmake --build --preset dev --target model_worker halyard_command halyard_compiler fill_weights
for program in build/dev/bench/model_worker build/dev/bin/halyard build/dev/tests/models/fill_weights \
  build/dev/lib/libhalyard.so build/dev/lib/libhalyard_compiler.so; do
  case $program in *.so) target=$folder/lib ;; *) target=$folder ;; esac
  cp -L "$program" "$target/"
  strip "$target/$(basename "$program")"
  # All but ours and glibc, which must be the machine's own.
  ldd "$program" | awk '$3 ~ /^\// {print $3}' | { grep -vE '/(libc|libm|libdl|librt|libpthread|libhalyard.*|ld-linux[^/]*)\.so' || true; } |
    xargs -r -I{} cp -L {} "$folder/lib/"
done
(cd "$folder/lib" && ln -sf libhalyard.so "$(objdump -p libhalyard.so | awk '/SONAME/ {print $2}')" 2> /dev/null || true)

cp bench/compare bench/compare_models.py bench/torch_gpu_worker.py "$folder/bench/"
mkdir -p "$folder/bench/models"
cp tests/models/{export,strip,compare_ort}.py "$folder/bench/models/"
for model in "${models[@]}"; do cp -r "tests/models/${model}_dynamo" "$folder/models/"; done

cat > "$folder/run.sh" << 'RUN'
#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills the weights in and runs bench/compare: run.sh [ARGUMENT...] as bench/compare --help says.
cd "$(dirname "$0")"
for model in models/*; do
  [ -f "$model/weights.bin" ] || ./ours fill_weights "$model/weights.txt" "$model/weights.bin" > /dev/null || exit 1
done
exec python3 bench/compare --models "$PWD/models" --worker "$PWD/worker" "$@"
RUN
# Only our programs see our libraries: PyTorch may need a newer libstdc++.
cat > "$folder/ours" << 'OURS'
#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ours PROGRAM [ARGUMENT...]: a program of this folder with its libraries.
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=$here/lib HALYARD_COMPILER_LIBRARY=$here/lib/libhalyard_compiler.so
program=$1
shift
exec "$here/$program" "$@"
OURS
printf '#!/usr/bin/env bash\nexec "$(dirname "$0")/ours" model_worker "$@"\n' > "$folder/worker"
chmod +x "$folder/run.sh" "$folder/ours" "$folder/worker"
du -sm --apparent-size "$folder" | awk '{print $1 " MiB"; exit $1 >= 60}'
