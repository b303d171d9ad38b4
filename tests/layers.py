#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the source tree that no compiler checks: which layer may include which, where
vendor headers and getenv may stand, SPDX lines, file sizes and words that do not belong here.

usage: layers.py [ROOT]. Prints one line per violation and exits 1 if there is any.
"""

import os
import re
import sys

# What the files below a folder may include by project path; the longest matching folder decides.
# An entry with a suffix is one file. design: include <- base <- hal <- drivers, compiler <- runtime <- tools.
MAY_INCLUDE = {
    "include": ["halyard.h"],
    "base": ["base/"],
    "hal": ["base/", "hal/"],
    "drivers": ["base/", "hal/", "drivers/init.h"],
    "compiler": ["base/", "compiler/"],
    "runtime": ["base/", "hal/", "drivers/init.h", "compiler/", "runtime/", "halyard.h"],
    "tools": ["base/", "hal/", "drivers/init.h", "compiler/", "runtime/", "tools/", "halyard.h",
              "halyard.hpp"],
    "examples": ["halyard.h", "halyard.hpp"],
}
# Folders whose sub-folders are siblings that never include each other.
SIBLINGS = ["drivers", "compiler/codegen"]
# The files that may name every sibling, and what they may include besides.
NAMES_ALL_SIBLINGS = {"drivers/init.cc": "drivers/"}

# Vendor headers and the only folders that may include them; tests/ and bench/ may include any.
VENDOR_HEADERS = [
    (r"llvm(-c)?/|lld/", ["compiler/codegen/cpu"]),
    (r"tbb/|oneapi/", ["drivers/cpu"]),
    (r"hwloc", ["drivers/cpu"]),
    (r"vulkan/|volk\.h", ["drivers/vulkan"]),
    (r"spirv/unified1|spirv-tools", ["compiler/codegen/spirv", "drivers/vulkan"]),
    (r"cuda|nvrtc|cublas|cudnn|nvml", []),
    (r"onnx/|google/protobuf/", []),
    (r"CLI/", ["tools"]),
]
FREE_OF_VENDOR_RULES = ("tests/", "bench/")

CODE = (".cc", ".h", ".hpp", ".c", ".cpp")
# What takes a comment and is no test's text: goldens, dumps and recordings are what they were printed as.
WITH_SPDX = CODE + (".py", ".sh", ".cmake", "CMakeLists.txt", ".map", ".dict", "requirements.txt", "_suppressions.txt",
                    "packages-build.txt", "packages-test.txt")
SCRIPTS = ("test", "demo", "report", ".ci/run")
MAX_LINES = 900
# path: why a longer file is the clearer one.
LONG_FILES = {
    "include/halyard.h": "hosts read one header, and it is the reference of the whole interface",
}

# Host names of package registries and hubs, in two parts so that this file passes its own check.
FORBIDDEN = [first + second for first, second in [
    ("pypi", ".org"), ("python", "hosted.org"), ("deb.", "debian.org"), ("security.", "debian.org"),
    ("download.", "pytorch.org"), ("hugging", "face.co"), ("/wo", "rk/wt"), ("/wo", "rk/main"),
    ("/wo", "rk/shared"),
]]
TEXT = WITH_SPDX + (".md", ".txt", ".json", ".yml", ".yaml", ".in", ".test")
SKIPPED_TOP = (".git", ".venv", "build", "models")


def list_files(root):
    """Paths of all files relative to root, sorted, without build products."""
    found = []
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        if relative == ".":
            relative = ""
            folders[:] = [f for f in folders if f not in SKIPPED_TOP and not f.startswith("build-")]
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        found += [os.path.join(relative, f) for f in files]
    return sorted(found)


def sibling_of(path):
    """(family, member) when path lies inside a folder whose siblings must not see each other."""
    for family in SIBLINGS:
        if path.startswith(family + "/"):
            rest = path[len(family) + 1:]
            if "/" in rest:
                return family, rest.split("/")[0]
    return None


def check_include(path, header, quoted):
    """The reason why path may not include header, or None."""
    if path.startswith(FREE_OF_VENDOR_RULES):
        return None
    for pattern, folders in VENDOR_HEADERS:
        if re.match(pattern, header):
            if any(path.startswith(f + "/") for f in folders):
                return None
            places = " and ".join(folders) or "no folder but tests"
            return f"includes the vendor header {header}, which belongs to {places}"
    top = path.split("/")[0]
    if not quoted or top not in MAY_INCLUDE:
        return None
    own, other = sibling_of(path), sibling_of(header)
    if other and own and own[0] == other[0]:
        return None if own == other else f"includes its sibling's {header}"
    if path in NAMES_ALL_SIBLINGS and header.startswith(NAMES_ALL_SIBLINGS[path]):
        return None
    if not any(header == allowed or (allowed.endswith("/") and header.startswith(allowed))
               for allowed in MAY_INCLUDE[top]):
        return f"includes {header}, which {top}/ may not see"
    return None


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def check_file(root, path):
    """All violations of one file as sentences."""
    if not (path.endswith(TEXT) or path in SCRIPTS):
        return []
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    out = []
    if path.endswith(WITH_SPDX) or path in SCRIPTS:
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
            out.append(f"{path}:1: has no SPDX line in its first two lines.")
        if len(lines) > MAX_LINES and path not in LONG_FILES:
            out.append(f"{path}: has {len(lines)} lines; {MAX_LINES} are allowed.")
    for number, line in enumerate(lines, 1):
        for word in FORBIDDEN:
            if word in line:
                out.append(f"{path}:{number}: contains '{word}'.")
        if not path.endswith(CODE):
            continue
        match = INCLUDE.match(line)
        if match:
            reason = check_include(path, match.group(2), match.group(1) == '"')
            if reason:
                out.append(f"{path}:{number}: {reason}.")
        if GETENV.search(line) and path != "base/env.cc" and not path.startswith(
                FREE_OF_VENDOR_RULES):
            out.append(f"{path}:{number}: calls getenv, which only base/env.cc may.")
    return out


def check_tree(root):
    """All violations below root."""
    return [violation for path in list_files(root) for violation in check_file(root, path)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(
        os.path.abspath(__file__)))
    violations = check_tree(root)
    print("\n".join(violations))
    print(f"{len(list_files(root))} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
