// SPDX-License-Identifier: Apache-2.0
// Capabilities: everything Halyard knows about one device, each value with its source. Unknown is
// never 0. The rows stand in hal/capability_fields.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hal/capability_fields.h"

namespace halyard::hal {

enum class Source : uint8_t {
  kUnknown,   // nobody could tell; `value` means nothing
  kApi,       // the driver's API or the instruction set (cpuid)
  kOs,        // the operating system: /proc, /sys, cgroup files, hwloc over them
  kTable,     // a table of ours, by model
  kMeasured,  // a probe of ours on this machine
};
std::string_view FormatSource(Source source);

template <typename T>
struct Field {
  T value{};
  Source source = Source::kUnknown;

  Field() = default;
  Field(T v, Source s) : value(std::move(v)), source(s) {}
  bool known() const { return source != Source::kUnknown; }
  T ValueOr(T other) const { return known() ? value : other; }
};

enum class DeviceType : uint8_t { kCpu, kIntegratedGpu, kDiscreteGpu, kVirtualGpu, kOther };
std::string_view FormatDeviceType(DeviceType type);

#define HY_DECLARE_FIELD(type, name, doc) Field<type> name;
#define HY_DECLARE_STRUCT(Struct, member, FIELDS) \
  struct Struct {                                 \
    FIELDS(HY_DECLARE_FIELD)                      \
  };
HY_CAPABILITY_GROUPS(HY_DECLARE_STRUCT)
HY_CAPABILITY_LISTS(HY_DECLARE_STRUCT)
HY_DECLARE_STRUCT(DeviceState, state, HY_STATE_FIELDS)
#undef HY_DECLARE_STRUCT
#undef HY_DECLARE_FIELD

// A matrix unit's shape: C[m,n] += A[m,k] * B[k,n].
struct MatrixShape {
  std::string input_dtype;
  std::string output_dtype;
  int32_t m = 0, n = 0, k = 0;
  Source source = Source::kUnknown;
};

struct Capabilities {
#define HY_DECLARE_GROUP(Struct, member, FIELDS) Struct member;
#define HY_DECLARE_LIST(Struct, member, FIELDS) std::vector<Struct> member;
  HY_CAPABILITY_GROUPS(HY_DECLARE_GROUP)
  HY_CAPABILITY_LISTS(HY_DECLARE_LIST)
#undef HY_DECLARE_LIST
#undef HY_DECLARE_GROUP
  std::vector<MatrixShape> matrix_shapes;
  std::vector<std::string> features;  // names of instruction sets or extensions, for reports
  std::vector<std::string> executable_formats;
  std::vector<std::string>
      notes;  // limits found and why: "cgroup quota: 1.5 CPUs (/sys/fs/cgroup/cpu.max)"
};

enum class FieldKind : uint8_t { kText, kInteger, kReal, kFlag };

// One field as walks show it; borrowed for the visit.
struct FieldView {
  std::string_view name;  // "compute.unit_count", "caches[0].size_bytes"
  FieldKind kind = FieldKind::kText;
  std::string_view text;  // the value as text; empty when unknown
  int64_t integer = 0;    // kInteger, and 0 or 1 for kFlag
  double real = 0;        // kReal
  Source source = Source::kUnknown;
  std::string_view doc;
};
using FieldVisitor = std::function<void(const FieldView& field)>;

// Calls `visit` once per field in the order of the rows. An unknown field has the text "".
void VisitFields(const Capabilities& capabilities, const FieldVisitor& visit);
// The same of the state: "state.clock_hz".
void VisitFields(const DeviceState& state, const FieldVisitor& visit);
// Every row once, without a value; lists as "caches[].size_bytes".
void VisitRows(const FieldVisitor& visit);

// "name = value (source)" per line, unknown fields left out.
std::string FormatCapabilities(const Capabilities& capabilities);

// A positive number or a text that is not empty becomes a known field; anything else stays unknown.
void SetIfPositive(Field<int64_t>* field, int64_t value, Source source);
void SetIfText(Field<std::string>* field, std::string_view text, Source source);

}  // namespace halyard::hal
