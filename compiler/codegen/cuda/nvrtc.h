// SPDX-License-Identifier: Apache-2.0
// NVRTC, NVIDIA's run-time compiler, opened at run time through declarations of ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace halyard::cuda {

// The functions used here, as nvrtc.h of every release since 11.1 declares them.
struct NvrtcApi {
  using Program = struct NvrtcProgram*;
  using Code = int;  // nvrtcResult; 0: success
  static constexpr Code kOutOfMemory = 1, kInvalidOption = 5;

  Code (*version)(int* major, int* minor) = nullptr;
  Code (*create_program)(Program* program, const char* source, const char* name, int header_count,
                         const char* const* headers, const char* const* include_names) = nullptr;
  Code (*destroy_program)(Program* program) = nullptr;
  Code (*compile_program)(Program program, int option_count, const char* const* options) = nullptr;
  Code (*get_log_size)(Program program, size_t* size) = nullptr;
  Code (*get_log)(Program program, char* log) = nullptr;
  Code (*get_cubin_size)(Program program, size_t* size) = nullptr;
  Code (*get_cubin)(Program program, char* cubin) = nullptr;
  const char* (*get_error_string)(Code code) = nullptr;
};

// Opened once a process and never closed: HALYARD_NVRTC_LIBRARY alone where it is set, else the
// usual names and places. UNAVAILABLE lists what was tried.
Result<const NvrtcApi*> OpenNvrtc();

// Compiles one translation unit for a compute capability (90: 9.0). `name` goes into errors.
// INTERNAL with the first lines of the log, OUT_OF_MEMORY when there is none to compile in. May be
// called from several threads at once.
Result<std::vector<uint8_t>> CompileCubin(const std::string& name, const std::string& source,
                                          int32_t compute_capability);

namespace internal {
// The first of them that opens and has every function.
Result<NvrtcApi> LoadNvrtc(const std::vector<std::string>& candidates);
}  // namespace internal

}  // namespace halyard::cuda
