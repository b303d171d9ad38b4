// SPDX-License-Identifier: Apache-2.0
// cuBLASLt and cuDNN beside a CUDA device: the product or convolution of the op as a program in which
// no kernel of ours may take the library's place (HY_VENDOR_LIBRARIES_ALONE).
#pragma once

#include "tools/halyard/bench_row.h"
#include "tools/halyard/rival.h"

namespace halyard::tools {

// `model_options`: of the row. What is given is borrowed.
RivalOffer OfferNvidiaLibrary(const BenchOptions& options, ModelOptions model_options,
                              const Inputs& inputs);

}  // namespace halyard::tools
