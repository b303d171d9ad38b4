// SPDX-License-Identifier: Apache-2.0
// SeedModels: small sound ONNX files to damage, for the mutation test and the fuzzer's corpus.
#pragma once

#include <string>
#include <vector>

namespace halyard::onnx::testing {

std::vector<std::string> SeedModels();

}  // namespace halyard::onnx::testing
