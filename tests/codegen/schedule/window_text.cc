// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/schedule/window_text.h"

#include "base/status.h"

namespace halyard::schedule {

std::string WindowText(const WindowCase& c, std::string_view kind, bool batched) {
  const int64_t out = (c.size + 2 * c.pad - c.window) / c.stride + 1;
  const bool is_depthwise = kind == "depthwise";
  const std::string image = fmt::format("{}", c.size * c.size * c.channels);
  const std::string result = fmt::format("{}", out * out * c.channels);
  auto axis = [&](std::string_view at, std::string_view tap) {
    return fmt::format("{}*{} + {} - {}", c.stride, at, tap, c.pad);
  };
  std::string load = fmt::format("load x[{}{}*oh*{} + {}*kh + {}*ow + {}*kw + ch - {}]",
                                 batched ? image + "*b + " : "", c.size * c.channels, c.stride,
                                 c.size * c.channels, c.stride * c.channels, c.channels,
                                 c.pad * (c.size + 1) * c.channels);
  if (c.pad > 0) load += fmt::format(" mask %12 else {}", kind == "max" ? "%22" : "%13");
  return fmt::format(
      R"(function {{
  {symbol}
  buffer x: f32[{batch}{image}] input
  buffer w: f32[{weights}] constant 0
  buffer y: f32[{batch}{result}] output
  kernel window {{
    {open}
    parallel oh < {out} {{
      parallel ow < {out} {{
        parallel ch < {channels} {{
          %0 = reduce {reduce} kh < {window} {{
            %1 = reduce {reduce} kw < {window} {{
              %2 = const.i64 0
              %5 = const.i64 {size}
              %3 = index.i64 [{row}]
              %4 = ge %3, %2
              %6 = lt %3, %5
              %7 = and %4, %6
              %8 = index.i64 [{column}]
              %9 = ge %8, %2
              %10 = lt %8, %5
              %11 = and %9, %10
              %12 = and %7, %11
              %13 = const.f32 0.0
              %22 = const.f32 -1000.0
              %14 = {load}
              {product}
              yield {term}
            }}
            yield %1
          }}
          %17 = load w[ch]
          %18 = add %0, %17
          store y[{offset}{row_out}*oh + {channels}*ow + ch], %18
        }}
      }}
    }}
    {close}
  }}
}})",
      fmt::arg("symbol", batched ? "symbol n in [1, 8]" : ""),
      fmt::arg("batch", batched ? "n*" : ""), fmt::arg("image", image), fmt::arg("result", result),
      fmt::arg("weights", c.window * c.window * c.channels),
      fmt::arg("open", batched ? "parallel b < n {" : ""), fmt::arg("close", batched ? "}" : ""),
      fmt::arg("out", out), fmt::arg("channels", c.channels),
      fmt::arg("reduce", kind == "max" ? "max" : "sum"), fmt::arg("window", c.window),
      fmt::arg("size", c.size), fmt::arg("row", axis("oh", "kh")),
      fmt::arg("column", axis("ow", "kw")), fmt::arg("load", load),
      fmt::arg("product", is_depthwise ? fmt::format("%15 = load w[{}*kh + {}*kw + ch]\n"
                                                     "              %16 = mul %14, %15",
                                                     c.window * c.channels, c.channels)
                                       : ""),
      fmt::arg("term", is_depthwise ? "%16" : "%14"),
      fmt::arg("offset", batched ? result + "*b + " : ""), fmt::arg("row_out", out * c.channels));
}

}  // namespace halyard::schedule
