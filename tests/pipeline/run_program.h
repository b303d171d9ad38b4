// SPDX-License-Identifier: Apache-2.0
// One run of a program on one device, for tests that compare it with the reference evaluation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/graph/tensor.h"
#include "compiler/program/program.h"

namespace halyard::pipeline {

// Runs `program`, made for one device, on the device at `path` ("cpu:0?discrete=7"). `results` have
// the dtype and dims of what the program gives; their bytes are poisoned first and then written.
Status RunProgram(program::Program program, const std::string& path,
                  std::span<const graph::Tensor> inputs, std::vector<graph::Tensor>& results);

}  // namespace halyard::pipeline
