// SPDX-License-Identifier: Apache-2.0
#include "base/gpu_library_convolution.h"

#include "base/status.h"

namespace halyard {

std::string FormatLibraryConvolution(const GpuLibraryConvolution& c) {
  const auto both = [](const int64_t(&pair)[2]) {
    return pair[0] == pair[1] ? fmt::format("{}", pair[0]) : fmt::format("{}x{}", pair[0], pair[1]);
  };
  std::string text =
      fmt::format("{}x{}x{}x{} by {}x{}x{}x{}", c.images, c.input_channels, c.input[0], c.input[1],
                  c.output_channels, c.input_channels, c.window[0], c.window[1]);
  text += fmt::format(" stride {} pad {}", both(c.stride), both(c.pad_before));
  if (c.pad_after[0] != c.pad_before[0] || c.pad_after[1] != c.pad_before[1]) {
    text += fmt::format(" to {}", both(c.pad_after));
  }
  if (c.dilation[0] != 1 || c.dilation[1] != 1) text += " dilation " + both(c.dilation);
  text += fmt::format(" {}", FormatDType(static_cast<DType>(c.input_dtype)));
  if (c.output_dtype != c.input_dtype) {
    text += fmt::format(" to {}", FormatDType(static_cast<DType>(c.output_dtype)));
  }
  if (c.z.binding != kNoLibraryBinding) text += ", with a sum";
  if (c.bias.binding != kNoLibraryBinding) text += ", with bias";
  return text;
}

}  // namespace halyard
