// SPDX-License-Identifier: Apache-2.0
// Reports: what a loaded program is and why, as text, JSON, DOT or HTML. They come from the
// program's records and tables; nothing is computed anew.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/loaded_program.h"
#include "runtime/transfer_path.h"

namespace halyard::runtime {

enum class ReportKind : int32_t {
  kAll = 0,
  kPlacement = 1,
  kFusion = 2,
  kSchedule = 3,
  kMemory = 4,
  kPhases = 5,
  kCommands = 6,
};
enum class ReportFormat : int32_t { kText = 0, kJson = 1, kDot = 2, kHtml = 3 };

// UNIMPLEMENTED for a combination that does not exist.
Result<std::string> MakeReport(const LoadedProgram& program, ReportKind kind, ReportFormat format);

struct DeviceMemory {
  std::string device;
  int64_t constant_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t io_bytes = 0;
  int64_t staging_bytes = 0;  // page-locked, of transfers and of inputs and outputs
  // Weights in page-locked memory of the host that every run brings; no part of what a cap limits.
  int64_t streamed_bytes = 0;
};
// What a run takes under these symbol values. INVALID_ARGUMENT names a symbol that is missing or
// unknown.
Result<std::vector<DeviceMemory>> PredictMemory(const LoadedProgram& program,
                                                const std::map<std::string, int64_t>& symbols);
// The same of a program that is not loaded, on `devices`, of which it uses the first; `path_of`:
// how bytes get from one to another.
Result<std::vector<DeviceMemory>> PredictMemory(
    const program::Program& program, std::span<const Ref<hal::Device>> devices,
    const std::function<TransferPath(uint32_t from, uint32_t to)>& path_of,
    const std::map<std::string, int64_t>& symbols);

}  // namespace halyard::runtime
