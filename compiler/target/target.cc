// SPDX-License-Identifier: Apache-2.0
// The named CPU targets and the hash of a target.
#include "compiler/target/target.h"

#include "base/cpu_kernel_abi.h"
#include "base/hash.h"

namespace halyard {
namespace {

constexpr uint64_t Bit(CpuFeature feature) { return static_cast<uint64_t>(feature); }

struct NamedTarget {
  std::string_view name;
  uint64_t features;
  int32_t vector_bytes;
  int32_t vector_registers;
  std::string_view cpu_name;
};
constexpr uint64_t kSse42Bits = Bit(CpuFeature::kSse42);
constexpr uint64_t kAvx2Bits = kSse42Bits | Bit(CpuFeature::kAvx2);
constexpr uint64_t kAvx512Bits = kAvx2Bits | Bit(CpuFeature::kAvx512);
constexpr NamedTarget kNamedTargets[] = {
    {"cpu-sse4.2", kSse42Bits, 16, 16, "x86-64-v2"},
    {"cpu-avx2", kAvx2Bits, 32, 16, "x86-64-v3"},
    {"cpu-avx512", kAvx512Bits, 64, 32, "x86-64-v4"},
};

}  // namespace

uint64_t Target::CodeHash() const {
  return HashString(fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(kind),
                                triple, cpu_name, cpu_features, vector_bytes, vector_registers,
                                worker_count, l1_bytes, l2_bytes, l3_bytes, buffer_alignment,
                                max_buffer_bytes));
}

Result<Target> ParseTarget(std::string_view name) {
  std::string known;
  for (const NamedTarget& named : kNamedTargets) {
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", named.name);
    if (named.name != name) continue;
    Target target;
    target.name = named.name;
    target.cpu_name = named.cpu_name;
    target.cpu_features = named.features;
    target.vector_bytes = named.vector_bytes;
    target.vector_registers = named.vector_registers;
    return target;
  }
  return NotFound("There is no target '{}'; known are {}.", name, known);
}

}  // namespace halyard
