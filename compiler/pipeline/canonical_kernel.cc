// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/canonical_kernel.h"

#include "compiler/kernel/text.h"

namespace halyard::pipeline {

std::string CanonicalText(kernel::Kernel code, bool with_sites) {
  code.name = "k";
  for (size_t i = 0; i < code.buffers.size(); ++i) code.buffers[i].name = fmt::format("b{}", i);
  for (size_t i = 0; i < code.scalars.size(); ++i) code.scalars[i] = fmt::format("s{}", i);
  if (!with_sites) {
    for (kernel::ReportSite& site : code.sites) site = {};
  }
  return kernel::FormatKernel(code);
}

}  // namespace halyard::pipeline
