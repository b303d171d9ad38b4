// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of a committed model for a GPU, without one: for a CUDA target with NVRTC,
// for a Vulkan target to SPIR-V, which the validator must accept (of cooperative matrices our
// checker). Every kernel must compile, and the model must not fall back to the interpreter. CI does
// it for some models; the others are for whoever changes a generator.
//
// usage: gpu_models MODEL TARGET [SYMBOL=VALUE]... [fp16] [matrix], such as: gpu_models gpt2_dynamo
// cuda-sm90 batch=1. matrix: a Vulkan target has matrix units of 16-bit floats.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/gpu_kernel_abi.h"
#include "compiler/abi.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/target/target.h"
#include "tests/codegen/cuda/nvrtc_place.h"
#include "tests/codegen/spirv/spirv_val.h"
#include "tests/pipeline/model_folder.h"

namespace halyard::pipeline {
namespace {

Status CompileModel(int argc, char** argv) {
  const ModelFolder folder(argv[1]);
  CompileRequest request;
  request.path = folder.model();
  bool has_matrix = false;
  for (int i = 3; i < argc; ++i) {
    if (const char* equals = std::strchr(argv[i], '=')) {
      request.options.symbol_values[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] =
          std::atoll(equals + 1);
    } else if (std::strcmp(argv[i], "fp16") == 0) {
      request.options.precision = Precision::kF16;
    } else if (std::strcmp(argv[i], "matrix") == 0) {
      has_matrix = true;
    } else {
      return InvalidArgument("'{}' is neither SYMBOL=VALUE, fp16 nor matrix.", argv[i]);
    }
  }
  CompileState state;
  state.request = &request;
  program::Device device;
  device.name = "gpu:0";
  HY_ASSIGN(device.target, ParseTarget(argv[2]));
  GpuTarget& gpu = device.target.gpu;
  if (has_matrix) {
    gpu.features |=
        static_cast<uint64_t>(GpuFeature::kMatrix) | static_cast<uint64_t>(GpuFeature::kBFloat16);
    gpu.matrix_shapes = {{DType::kF16, DType::kF32, 16, 16, 16},
                         {DType::kBF16, DType::kF32, 16, 16, 16}};
    gpu.workgroup_memory_bytes = 48 << 10;
  }
  state.program.devices.push_back(device);
  HY_TRY(RunPasses(state, RunOptions(), "", nullptr));
  for (const Segment& segment : state.segments) {
    if (segment.is_interpreted) {
      return Internal("'{}' runs in the interpreter.",
                      state.module.nodes[segment.interpreted_node].name);
    }
  }
  size_t bytes = 0, matrix_modules = 0;
  for (const program::Executable& executable : state.program.executables) {
    bytes += executable.code.size();
    if (state.program.devices[executable.device].target.kind != TargetKind::kVulkan) continue;
    const std::string problems = testing::ValidateGpuImage(executable.code, &matrix_modules);
    if (!problems.empty()) return Internal("{}", problems);
  }
  if (bytes == 0) return Internal("No code came out.");
  if (has_matrix && matrix_modules == 0) return Internal("No kernel uses matrix units.");
  std::printf("%s for %s: %zu bytes of code\n", argv[1], argv[2], bytes);
  return OkStatus();
}

}  // namespace
}  // namespace halyard::pipeline

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: gpu_models MODEL TARGET [SYMBOL=VALUE]... [fp16] [matrix]\n");
    return 1;
  }
  if (std::strncmp(argv[2], "cuda", 4) == 0) halyard::testing::PlaceNvrtc();
  const halyard::Status status = halyard::pipeline::CompileModel(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToLine().c_str());
  return status.ok() ? 0 : 1;
}
