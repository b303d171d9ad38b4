#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes contractions of given sizes as Loop IR, for contraction_bench.

usage: contraction_shapes.py FOLDER [MxNxK:TYPE[:t] ...]

C[M, N] = A[M, K] B[K, N] + bias[N], sums in f32; TYPE is of A, B and C (f16, bf16, f32); t: B lies as [N, K].
Without shapes: a large cube, one with odd edges, and the layers of transformers and of ResNet-50 at batch 32.
"""
import os
import re
import sys

TEXT = """function {{
  buffer a: {t}[{mk}] input
  buffer b: {t}[{kn}] constant 0
  buffer bias: f32[{n}] constant 1
  buffer c: {t}[{mn}] output
  kernel mm contraction(m: i; n: j; k: l; product: %1, %2; sum: %0) {{
    parallel i < {m} {{
      parallel j < {n} {{
        %0 = reduce sum l < {k} {{
          %11 = load a[i*{k} + l]
          %12 = load b[{b}]
{product}
          yield %3
        }}
        %4 = load bias[j]
        %5 = add %0, %4
{store}
      }}
    }}
  }}
}}
"""

LAYERS = [
    "8192x8192x8192:bf16", "8192x8192x8192:bf16:t", "4096x4096x4096:f16", "4000x4104x4008:f16",
    *(f"{m}x{n}x{k}:f16" for m in (4096, 6304) for n, k in ((768, 768), (3072, 768), (768, 3072))),
    "4096x2304x768:f16", "4096x50257x768:f16:t",
    *(f"{m}x{n}x{k}:f16:t" for m, n, k in (
        (100352, 64, 256), (100352, 256, 64), (25088, 512, 128), (25088, 128, 1152), (6272, 1024, 256),
        (6272, 256, 2304), (1568, 2048, 512), (1568, 512, 4608))),
]


def text_of(m, n, k, dtype, transposed):
    if dtype == "f32":
        product = "          %3 = mul %11, %12"
        store = "        store c[i*{n} + j], %5"
    else:
        product = "          %1 = convert.f32 %11\n          %2 = convert.f32 %12\n          %3 = mul %1, %2"
        store = "        %8 = convert.{t} %5\n        store c[i*{n} + j], %8"
    text = TEXT if dtype != "f32" else TEXT.replace("product: %1, %2", "product: %11, %12")
    return text.format(t=dtype, m=m, n=n, k=k, mk=m * k, kn=k * n, mn=m * n,
                       b=f"j*{k} + l" if transposed else f"l*{n} + j", product=product,
                       store=store.format(t=dtype, n=n))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for shape in sys.argv[2:] or LAYERS:
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+):(f16|bf16|f32)(:t)?", shape)
        if not match:
            sys.exit(f"'{shape}' is not MxNxK:TYPE or MxNxK:TYPE:t with TYPE f16, bf16 or f32.")
        m, n, k = (int(size) for size in match.groups()[:3])
        name = shape.replace(":", "_") + ".ir"
        with open(os.path.join(sys.argv[1], name), "w", encoding="utf-8") as file:
            file.write(text_of(m, n, k, match[4], bool(match[5])))


if __name__ == "__main__":
    main()
