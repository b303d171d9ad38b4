# SPDX-License-Identifier: Apache-2.0
"""compare_headers.py on halyard.h and on changes of it.

usage: compare_headers_test.py HEADER
"""
import sys
import unittest

from compare_headers import compare, read

with open(sys.argv.pop(), encoding="utf-8") as file:
    HEADER = file.read()


class CompareHeaders(unittest.TestCase):
    def changed(self, old, new):
        self.assertEqual(HEADER.count(old), 1, old)
        return compare(HEADER, HEADER.replace(old, new))

    def test_reads_all_kinds(self):
        found = read(HEADER)
        self.assertGreaterEqual(len(found["function"]), 40)
        self.assertGreaterEqual(len(found["struct"]), 13)
        self.assertEqual(found["constant"]["HY_BUSY"], "34")
        self.assertEqual(found["constant"]["HY_MAX_RANK"], "16")
        self.assertIn("hy_writer", found["type"])

    def test_the_same_header_is_fine(self):
        self.assertEqual(compare(HEADER, HEADER), [])

    def test_growth_is_fine(self):
        self.assertEqual(self.changed("  HY_BUSY = 34,", "  HY_BUSY = 34, HY_TIRED = 35,"), [])
        self.assertEqual(
            self.changed("  void* progress_context;\n}", "  void* progress_context;\n  uint32_t more;\n}"), [])

    def test_changes_are_named(self):
        self.assertEqual(self.changed("  HY_BUSY = 34,", "  HY_BUSY = 35,"),
                         ["The constant HY_BUSY was '34' and is '35'."])
        self.assertEqual(self.changed("#define HY_MAX_RANK 16", "#define HY_MAX_RANK 8"),
                         ["The constant HY_MAX_RANK was '16' and is '8'."])
        self.assertEqual(self.changed("HY_API uint32_t hy_version(void);", ""),
                         ["The function hy_version is gone."])
        self.assertIn("The function hy_version was",
                      self.changed("HY_API uint32_t hy_version(void);", "HY_API int32_t hy_version(void);")[0])
        self.assertIn("Field 3 of hy_session_desc was 'hy_new_shapes on_new_shapes'",
                      self.changed("  hy_new_shapes on_new_shapes;\n", "")[0])
        self.assertIn("The type hy_log_level", self.changed("typedef int32_t hy_log_level;",
                                                           "typedef int64_t hy_log_level;")[0])
        self.assertEqual(self.changed("  hy_string name;\n  int64_t value;\n}",
                                      "  hy_string name;\n  int64_t value;\n  int64_t more;\n}"),
                         ["The struct hy_symbol_value grew and has no struct_size."])


if __name__ == "__main__":
    unittest.main()
