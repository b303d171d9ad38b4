#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a prefix of its own, moves it, and builds examples/host_app.c against it and against the build tree,
# with find_package and with pkg-config; then runs each on a model. Without a stand-in for the compiler
# examples/build_graph.c, too.
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

# The build tree is a package too, as it is.
for package in "$prefix:$prefix/$libdir:$prefix/$libdir/pkgconfig" "$build:$build/lib:$build"; do
  root=${package%%:*} places=${package#*:}
  libraries=${places%:*} package_files=${places#*:}
  rm -rf "$scratch/build" "$scratch/host_app"
  cmake -G Ninja -S "$source/tests/tools/find_package" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$root" \
    -DHOST_APP="$source/examples/host_app.c" > "$scratch/log"
  grep -q "^Halyard_DIR:PATH=$root" "$scratch/build/CMakeCache.txt"
  cmake --build "$scratch/build" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
  "$scratch/build/host_app" "$model"

  cc -std=c11 -Wall -Wextra -Werror -pedantic "$source/examples/host_app.c" \
    $(PKG_CONFIG_PATH="$package_files" pkg-config --cflags --libs halyard) -o "$scratch/host_app"
  LD_LIBRARY_PATH="$libraries" "$scratch/host_app" "$model"
  [ $# -lt 5 ] || continue
  cc -std=c11 -Wall -Wextra -Werror -pedantic "$source/examples/build_graph.c" \
    $(PKG_CONFIG_PATH="$package_files" pkg-config --cflags --libs halyard) -o "$scratch/build_graph"
  LD_LIBRARY_PATH="$libraries" "$scratch/build_graph" | tee "$scratch/log"
  printf 'y [2, 3]: 2.5 6 0\ny [3, 3]: 2.5 6 0\n' | cmp - "$scratch/log"
done

"$prefix/bin/halyard" --version
"$prefix/bin/halyard" devices > "$scratch/log"
