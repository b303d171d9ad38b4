#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs the HAL's conformance suite and the queue benchmark with the libraries that they need, for a
# machine with a GPU and nothing else: glibc of Debian 12 or newer and the GPU's driver suffice.
#
#   scripts/pack_hal_tests.sh FOLDER [CUDA_ARCHITECTURE]
#
# With ptxas on the path (or in /usr/local/cuda/bin) the test kernels are also packed as a CUBIN for
# the architecture (default sm_90). FOLDER/run.sh runs everything; its arguments are device drivers
# to test (default: cuda).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: pack_hal_tests.sh FOLDER [CUDA_ARCHITECTURE]}
architecture=${2:-sm_90}
mkdir -p "$folder/lib"

cmake --preset dev -DHALYARD_BUILD_BENCH=ON > /dev/null
cmake --build --preset dev --target hal_tests queue_bench
for program in build/dev/tests/hal_tests build/dev/bench/queue_bench; do
  cp "$program" "$folder/"
  strip "$folder/$(basename "$program")"
  # All but glibc, which must be the machine's own.
  ldd "$program" | awk '$3 ~ /^\// {print $3}' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
    xargs -I{} cp -L {} "$folder/lib/"
done

ptxas=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)
if [ -x "$ptxas" ]; then
  sed -n '/R"(/,/^)"/p' tests/hal/cts/cuda_ptx.h | sed -e '1s/.*R"(//' -e '$d' > "$folder/kernels.ptx"
  "$ptxas" "-arch=$architecture" -o "$folder/kernels.cubin" "$folder/kernels.ptx"
fi

# The Vulkan loader, for machines whose driver comes without it.
loader=$(ldconfig -p | awk '/libvulkan\.so\.1 / {print $NF; exit}')
[ -n "$loader" ] && cp -L "$loader" "$folder/lib/libvulkan.so.1"

cat > "$folder/run.sh" << 'RUN'
#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the conformance suite and the queue benchmark on real devices: run.sh [DRIVER...]
cd "$(dirname "$0")"
export LD_LIBRARY_PATH=$PWD/lib HALYARD_CUDA_LIBRARY=libcuda.so.1
status=0
for driver in "${@:-cuda}"; do
  timeout 300 ./hal_tests --gtest_brief=1 --gtest_filter="*/${driver}*" || status=1
  if [ "$driver" = cuda ] && [ -f kernels.cubin ]; then
    echo "With the CUBIN:"
    CTS_CUDA_CUBIN=$PWD/kernels.cubin timeout 300 ./hal_tests --gtest_brief=1 \
      --gtest_filter="*/${driver}*" || status=1
  fi
  timeout 120 ./queue_bench "$driver" || status=1
  [ "$driver" != cuda ] || timeout 120 ./queue_bench cuda 1000 waiting || status=1
done
exit $status
RUN
chmod +x "$folder/run.sh"
du -sh "$folder"
