#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a prefix of its own, moves it, and builds examples/host_app.c against it with find_package and
# with pkg-config; then runs both on a model.
# usage: install_test.sh SOURCE BUILD LIBDIR MODEL [COMPILER_LIBRARY]
set -eu
source=$1 build=$2 libdir=$3 model=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/first" > "$scratch/log"
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix
export HALYARD_CACHE_DIR="$scratch/cache"
if [ $# -ge 5 ]; then export HALYARD_COMPILER_LIBRARY="$5"; fi

cmake -S "$source/tests/tools/find_package" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DHOST_APP="$source/examples/host_app.c" > "$scratch/log"
cmake --build "$scratch/build" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/build/host_app" "$model"

export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
cc -std=c11 -Wall -Wextra -Werror -pedantic "$source/examples/host_app.c" \
  $(pkg-config --cflags --libs halyard) -o "$scratch/host_app"
LD_LIBRARY_PATH="$prefix/$libdir" "$scratch/host_app" "$model"

"$prefix/bin/halyard" --version
"$prefix/bin/halyard" devices > "$scratch/log"
