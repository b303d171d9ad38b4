# SPDX-License-Identifier: Apache-2.0
"""Whether a newer halyard.h still serves programs built with an older one.

Constants keep their values, functions and callback types their declarations, and structs their fields in
their order: they may only grow at the end. Prints one line for each violation; exit status 1 when there is one.

usage: compare_headers.py OLD_HEADER NEW_HEADER
"""
import re
import sys


def strip(text):
    """The declarations, one space between words, without comments and continued lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return text.replace("\\\n", " ")


def squeeze(text):
    return re.sub(r"\s*([(){},;*=\[\]])\s*", r"\1", " ".join(text.split()))


def read(text):
    """Names to declarations; structs to lists of fields."""
    text = strip(text)
    found = {"constant": {}, "function": {}, "type": {}, "struct": {}}
    for body in re.findall(r"\benum\s*\{(.*?)\}", text, flags=re.S):
        for name, value in re.findall(r"(HY_\w+)\s*=\s*(-?\w+)", body):
            found["constant"][name] = value
    for name, value in re.findall(r"^#define (HY_\w+)[ \t]+(\S.*)$", text, flags=re.M):
        if not name.startswith("HY_VERSION") and not name.endswith("_INIT"):
            found["constant"][name] = squeeze(value)
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for name, body in re.findall(r"\btypedef struct (\w+)\s*\{(.*?)\}\s*\w+;", code, flags=re.S):
        found["struct"][name] = [squeeze(field) for field in body.split(";") if field.strip()]
    for declaration in re.findall(r"\bHY_API\b(.*?);", code, flags=re.S):
        declaration = squeeze(declaration.replace("HY_NODISCARD", ""))
        found["function"][re.search(r"(hy_\w+)\(", declaration).group(1)] = declaration
    for declaration in re.findall(r"\btypedef (?!struct \w+\s*\{)(.*?);", code, flags=re.S):
        declaration = squeeze(declaration)
        name = re.search(r"\(\*(\w+)\)", declaration) or re.search(r"(\w+)$", declaration)
        found["type"][name.group(1)] = declaration
    return found


def compare(old_text, new_text):
    old, new = read(old_text), read(new_text)
    violations = []
    for kind in ("constant", "function", "type"):
        for name, declaration in old[kind].items():
            if name not in new[kind]:
                violations.append(f"The {kind} {name} is gone.")
            elif new[kind][name] != declaration:
                violations.append(f"The {kind} {name} was '{declaration}' and is '{new[kind][name]}'.")
    for name, fields in old["struct"].items():
        now = new["struct"].get(name)
        if now is None:
            violations.append(f"The struct {name} is gone.")
            continue
        for i, field in enumerate(fields):
            if i >= len(now) or now[i] != field:
                present = now[i] if i < len(now) else "missing"
                violations.append(f"Field {i} of {name} was '{field}' and is '{present}'.")
                break
        if len(now) > len(fields) and not fields[0].startswith("uint32_t struct_size"):
            violations.append(f"The struct {name} grew and has no struct_size.")
    return violations


def main():
    with open(sys.argv[1], encoding="utf-8") as old, open(sys.argv[2], encoding="utf-8") as new:
        violations = compare(old.read(), new.read())
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
