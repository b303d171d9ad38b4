#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of the lists named (build, test) that are missing, as root or through
# sudo. When all are there it touches neither the network nor the package database.
set -euo pipefail
cd "$(dirname "$0")"

if [ $# -eq 0 ]; then
  echo "usage: scripts/setup.sh LIST... (build, test)" >&2
  exit 1
fi
wanted=()
for list in "$@"; do
  while IFS= read -r name; do wanted+=("$name"); done < <(grep -v '^#' "packages-$list.txt")
done

# A package that was removed but not purged is known to dpkg and still missing, hence the status.
installed=$(dpkg-query -W -f='${binary:Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
  sed -n 's/^\([^ :]*\)[^ ]* installed$/\1/p' || true)
missing=()
for name in "${wanted[@]}"; do
  grep -qxF -- "$name" <<<"$installed" || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing and neither root nor sudo is at hand: ${missing[*]}" >&2
    exit 3
  fi
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}"
${as_root[@]+"${as_root[@]}"} apt-get update -qq
# env, because sudo drops the variables of the caller.
${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
  apt-get install -qq -y --no-install-recommends "${missing[@]}" </dev/null
