// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_caps.h"

#include <algorithm>
#include <memory>

#include "runtime/recording.h"
#include "runtime/report.h"
#include "runtime/transfer_path.h"

namespace halyard::runtime {
namespace {

constexpr int64_t kReservedPart = 16;
constexpr int64_t kMostReserved = int64_t{1} << 30;

int64_t Sum(std::initializer_list<int64_t> parts) {
  int64_t total = 0;
  for (const int64_t bytes : parts) {
    if (__builtin_add_overflow(total, bytes, &total)) return INT64_MAX;
  }
  return total;
}

// What a cap limits, and what takes the device's own memory.
int64_t CappedBytes(const DeviceMemory& memory) {
  return Sum(
      {memory.constant_bytes, memory.activation_bytes, memory.io_bytes, memory.staging_bytes});
}
int64_t OwnBytes(const DeviceMemory& memory) {
  return Sum({memory.constant_bytes, memory.activation_bytes, memory.io_bytes});
}

// What ends a refusal: where one weight alone is too large, nothing that placement does helps.
std::string LargestWeight(const program::Program& program, const std::string& device,
                          int64_t limit) {
  const auto is_host = [&](const program::Device& one) {
    return one.name == device && one.is_host;
  };
  if (std::any_of(program.devices.begin(), program.devices.end(), is_host)) {
    return ": in the host's memory nothing streams";
  }
  int64_t most = 0;
  for (const program::Constant& constant : program.constants) {
    if (program.devices[constant.device].name != device) continue;
    most = std::max(most, static_cast<int64_t>(constant.size_bytes));
  }
  if (most <= limit) return "";
  return fmt::format(": one weight alone takes {}, and a weight streams as a whole", most);
}

Status CheckCap(const program::Program& program, const DeviceMemory& memory,
                const std::map<std::string, int64_t>& caps) {
  const auto cap = caps.find(memory.device);
  const int64_t total = CappedBytes(memory);
  if (cap == caps.end() || total <= cap->second) return OkStatus();
  return OutOfMemory(
      "The program needs {} bytes of '{}' ({} of weights, {} of activations, {} of inputs and "
      "outputs, {} of staging memory); the cap is {}, {} too few{}.",
      total, memory.device, memory.constant_bytes, memory.activation_bytes, memory.io_bytes,
      memory.staging_bytes, cap->second, total - cap->second,
      LargestWeight(program, memory.device, cap->second));
}

}  // namespace

int64_t OwnMemoryBytes(const hal::Device& device) {
  if (SharesHostMemory(device)) return 0;
  const hal::Memory& memory = device.capabilities().memory;
  const int64_t total = memory.total_bytes.ValueOr(0), own = memory.limit_bytes.ValueOr(total);
  // A CPU device that stands for an accelerator has the host's unless an option says less.
  if (device.path().starts_with("cpu:") && own >= total) return 0;
  return std::max<int64_t>(0, own);
}

int64_t PlacedMemoryBytes(const hal::Device& device) {
  const int64_t own = OwnMemoryBytes(device);
  return own - std::min(own / kReservedPart, kMostReserved);
}

MemoryJudge MakeMemoryJudge(std::vector<Ref<hal::Device>> devices,
                            std::map<std::string, int64_t> caps) {
  const auto is_limited = [](const Ref<hal::Device>& device) {
    return OwnMemoryBytes(*device) > 0;
  };
  if (caps.empty() && std::none_of(devices.begin(), devices.end(), is_limited)) return {};
  // Probed once for all attempts of a compilation.
  using Paths = std::map<std::pair<uint32_t, uint32_t>, TransferPath>;
  const auto paths = std::make_shared<Paths>();
  return [devices = std::move(devices), caps = std::move(caps), paths](
             const program::Program& program,
             const std::map<std::string, int64_t>& sizes) -> Result<MemoryVerdict> {
    const auto path = [&](uint32_t from, uint32_t to) {
      const auto found = paths->find({from, to});
      if (found != paths->end()) return found->second;
      return (*paths)[{from, to}] = FindTransferPath(*devices[from], *devices[to]);
    };
    HY_ASSIGN(const auto memory, PredictMemory(program, devices, path, sizes));
    MemoryVerdict verdict;
    for (size_t d = 0; d < memory.size(); ++d) {
      const int64_t own = OwnMemoryBytes(*devices[d]), needed = OwnBytes(memory[d]);
      int64_t excess = 0;
      if (own > 0) excess = std::max(excess, needed - PlacedMemoryBytes(*devices[d]));
      if (const auto cap = caps.find(memory[d].device); cap != caps.end()) {
        excess = std::max(excess, CappedBytes(memory[d]) - cap->second);
      }
      verdict.excess.push_back(excess);
      if (!verdict.failure.ok()) continue;
      verdict.failure = CheckCap(program, memory[d], caps);
      if (!verdict.failure.ok() || own == 0 || needed <= own) continue;
      verdict.failure = OutOfMemory(
          "The program needs {} bytes of '{}' ({} of weights, {} of activations, {} of inputs and "
          "outputs); the device has {}, {} too few{}.",
          needed, memory[d].device, memory[d].constant_bytes, memory[d].activation_bytes,
          memory[d].io_bytes, own, needed - own, LargestWeight(program, memory[d].device, own));
    }
    return verdict;
  };
}

Status CheckMemoryCaps(const LoadedProgram& program,
                       const std::map<std::string, int64_t>& symbols) {
  std::map<std::string, int64_t> caps;
  for (const program::Device& device : program.program().devices) {
    if (device.memory_cap_bytes > 0) caps[device.name] = device.memory_cap_bytes;
  }
  if (caps.empty()) return OkStatus();
  HY_ASSIGN(const auto memory, PredictMemory(program, symbols));
  for (const DeviceMemory& device : memory) HY_TRY(CheckCap(program.program(), device, caps));
  return OkStatus();
}

Status CheckLeastMemory(const LoadedProgram& program) {
  std::map<std::string, int64_t> least;
  std::vector<int64_t> values;
  for (const program::Symbol& symbol : program.program().symbols) {
    if (symbol.min > INT64_MAX - symbol.divisor) return OkStatus();
    const int64_t rounded = (symbol.min + symbol.divisor - 1) / symbol.divisor * symbol.divisor;
    least[symbol.name] = rounded;
    values.push_back(rounded);
  }
  // Sizes may depend on each other; which of them are possible together is known when it runs.
  if (!SelectEntry(program.program(), values).ok()) return OkStatus();
  return CheckMemoryCaps(program, least);
}

}  // namespace halyard::runtime
