#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: without_verdict.py JUNIT_FILE

Ends with 0 if the file of ctest's results has failed tests, and all of them passed until
LeakSanitizer itself died: its scan at exit reads thread-local storage of threads that are just
ending, such as oneTBB's workers, and crashes now and then when the machine is busy (LLVM 14). Such
a test has no verdict and may be run again. Anything else that failed gives 1.
"""

import sys
import xml.etree.ElementTree

DIED = "LeakSanitizer has encountered a fatal error"
FOUND = ("[  FAILED  ]", "SUMMARY: ", "runtime error:")


def has_no_verdict(case):
    output = case.findtext("system-out") or ""
    passed = "[  PASSED  ]" in output
    return DIED in output and passed and not any(text in output for text in FOUND)


def main():
    cases = xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    failed = [case for case in cases if case.get("status") not in ("run", "notrun", "disabled")]
    for case in failed:
        if has_no_verdict(case):
            print(f"LeakSanitizer died in {case.get('name')}; it is run again.")
    sys.exit(0 if failed and all(map(has_no_verdict, failed)) else 1)


main()
