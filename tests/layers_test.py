#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that layers.py sees each kind of violation and lets the permitted twin of it pass."""

import os
import tempfile
import unittest

import layers

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


class LayersTest(unittest.TestCase):
    def violations(self, path, text, spdx=True):
        with tempfile.TemporaryDirectory() as root:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write((SPDX if spdx else "") + text)
            return layers.check_tree(root)

    def check(self, bad_path, good_path, text):
        self.assertEqual(len(self.violations(bad_path, text)), 1, f"{bad_path}: {text}")
        self.assertEqual(self.violations(good_path, text), [], f"{good_path}: {text}")

    def test_arrows(self):
        self.check("base/a.cc", "hal/a.cc", '#include "hal/device.h"\n')
        self.check("compiler/plan/a.cc", "runtime/a.cc", '#include "hal/device.h"\n')
        self.check("hal/a.cc", "compiler/a.cc", '#include "compiler/abi.h"\n')
        self.check("drivers/cpu/a.cc", "tools/a.cc", '#include "runtime/session.h"\n')
        self.check("compiler/a.cc", "runtime/c_api.cc", '#include "halyard.h"\n')
        self.check("examples/a.c", "tools/a.cc", '#include "runtime/session.h"\n')

    def test_siblings(self):
        text = '#include "drivers/null/null_device.h"\n'
        self.check("drivers/cpu/a.cc", "drivers/null/a.cc", text)
        self.check("runtime/a.cc", "drivers/init.cc", text)
        self.check("compiler/codegen/cuda/a.cc", "compiler/codegen/cpu/a.cc",
                   '#include "compiler/codegen/cpu/emit.h"\n')

    def test_vendor_headers(self):
        self.check("compiler/kernel/a.cc", "compiler/codegen/cpu/a.cc", "#include <llvm/IR/Module.h>\n")
        self.check("compiler/kernel/a.cc", "compiler/codegen/cpu/a.cc", '#include "llvm/IR/Module.h"\n')
        self.check("runtime/a.cc", "drivers/cpu/a.cc", "#include <hwloc.h>\n")
        self.check("hal/a.cc", "drivers/cpu/a.cc", "#include <oneapi/tbb/task_arena.h>\n")
        self.check("compiler/import/a.cc", "tests/compiler/a.cc", "#include <onnx/onnx_pb.h>\n")

    def test_getenv(self):
        self.check("hal/a.cc", "base/env.cc", 'auto* x = std::getenv("X");\n')

    def test_spdx(self):
        self.assertEqual(len(self.violations("base/a.h", "int x;\n", spdx=False)), 1)

    def test_length(self):
        self.assertEqual(self.violations("base/a.cc", "\n" * (layers.MAX_LINES - 1)), [])
        self.assertEqual(len(self.violations("base/a.cc", "\n" * layers.MAX_LINES)), 1)

    def test_words(self):
        self.check("base/a.cc", "base/b.bin", f"// see {layers.FORBIDDEN[0]}\n")


if __name__ == "__main__":
    unittest.main()
