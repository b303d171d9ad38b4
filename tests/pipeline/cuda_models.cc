// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of a committed model for a CUDA target with NVRTC, without a GPU; every
// kernel must compile, and the model must not fall back to the interpreter. CI does it for three
// models; the others are for whoever changes a generator.
//
// usage: cuda_models MODEL TARGET [SYMBOL=VALUE]... [fp16], such as: cuda_models gpt2_dynamo
// cuda-sm90 batch=1
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compiler/abi.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/target/target.h"
#include "tests/codegen/cuda/nvrtc_place.h"
#include "tests/pipeline/model_folder.h"

namespace halyard::pipeline {
namespace {

Status CompileModel(int argc, char** argv) {
  const ModelFolder folder(argv[1]);
  CompileRequest request;
  request.path = folder.model();
  for (int i = 3; i < argc; ++i) {
    if (const char* equals = std::strchr(argv[i], '=')) {
      request.options.symbol_values[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] =
          std::atoll(equals + 1);
    } else if (std::strcmp(argv[i], "fp16") == 0) {
      request.options.precision = Precision::kF16;
    } else {
      return InvalidArgument("'{}' is neither SYMBOL=VALUE nor fp16.", argv[i]);
    }
  }
  CompileState state;
  state.request = &request;
  program::Device device;
  device.name = "cuda:0";
  HY_ASSIGN(device.target, ParseTarget(argv[2]));
  state.program.devices.push_back(device);
  HY_TRY(RunPasses(state, RunOptions(), "", nullptr));
  for (const Segment& segment : state.segments) {
    if (segment.is_interpreted) {
      return Internal("'{}' runs in the interpreter.",
                      state.module.nodes[segment.interpreted_node].name);
    }
  }
  size_t bytes = 0;
  for (const program::Executable& executable : state.program.executables) {
    bytes += executable.code.size();
  }
  if (bytes == 0) return Internal("No code came out.");
  std::printf("%s for %s: %zu bytes of code\n", argv[1], argv[2], bytes);
  return OkStatus();
}

}  // namespace
}  // namespace halyard::pipeline

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: cuda_models MODEL TARGET [SYMBOL=VALUE]... [fp16]\n");
    return 1;
  }
  halyard::testing::PlaceNvrtc();
  const halyard::Status status = halyard::pipeline::CompileModel(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToLine().c_str());
  return status.ok() ? 0 : 1;
}
