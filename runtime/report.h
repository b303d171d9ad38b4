// SPDX-License-Identifier: Apache-2.0
// Reports: what a loaded program is and why, as text, JSON, DOT or HTML. They come from the program's
// records and tables; nothing is computed anew.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "hal/capabilities.h"
#include "runtime/loaded_program.h"

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

// Capabilities with their sources; text or JSON.
Result<std::string> MakeDeviceReport(const hal::Device& device, ReportFormat format);

struct DeviceMemory {
  std::string device;
  int64_t constant_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t io_bytes = 0;
};
// What a run takes under these symbol values. INVALID_ARGUMENT names a symbol that is missing or
// unknown.
Result<std::vector<DeviceMemory>> PredictMemory(const LoadedProgram& program,
                                                const std::map<std::string, int64_t>& symbols);

}  // namespace halyard::runtime
