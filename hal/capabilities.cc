// SPDX-License-Identifier: Apache-2.0
// Names, text form and the walks over Capabilities.
#include "hal/capabilities.h"

#include <fmt/format.h>

namespace halyard::hal {
namespace {

// What a value is to a visitor: its kind, its text and its number.
struct Shown {
  FieldKind kind = FieldKind::kText;
  std::string text;
  int64_t integer = 0;
  double real = 0;
};
Shown Show(const std::string& value) { return {FieldKind::kText, value, 0, 0}; }
Shown Show(DeviceType value) {
  return {FieldKind::kText, std::string(FormatDeviceType(value)), 0, 0};
}
Shown Show(bool value) { return {FieldKind::kFlag, value ? "yes" : "no", value ? 1 : 0, 0}; }
Shown Show(int64_t value) { return {FieldKind::kInteger, fmt::format("{}", value), value, 0}; }
// Bit masks are for eyes.
Shown Show(uint64_t value) { return {FieldKind::kText, fmt::format("{:#x}", value), 0, 0}; }
Shown Show(double value) { return {FieldKind::kReal, fmt::format("{:g}", value), 0, value}; }

template <typename T>
void VisitOne(const std::string& prefix, const char* name, const Field<T>& field, const char* doc,
              const FieldVisitor& visit) {
  Shown shown = Show(field.value);
  if (!field.known()) shown = {shown.kind, "", 0, 0};
  const std::string path = prefix + name;
  visit({path, shown.kind, shown.text, shown.integer, shown.real, field.source, doc});
}

#define HY_VISIT(type, name, doc) VisitOne(prefix, #name, fields.name, doc, visit);
#define HY_DEFINE_WALK(Struct, member, FIELDS)                                            \
  void Walk(const Struct& fields, const std::string& prefix, const FieldVisitor& visit) { \
    FIELDS(HY_VISIT)                                                                      \
  }
HY_CAPABILITY_GROUPS(HY_DEFINE_WALK)
HY_CAPABILITY_LISTS(HY_DEFINE_WALK)
HY_DEFINE_WALK(DeviceState, state, HY_STATE_FIELDS)
#undef HY_DEFINE_WALK
#undef HY_VISIT

constexpr const char* kShapeDoc = "A product of the matrix unit: MxNxK, inputs -> sums.";

}  // namespace

std::string_view FormatSource(Source source) {
  switch (source) {
    case Source::kUnknown:
      return "unknown";
    case Source::kApi:
      return "api";
    case Source::kOs:
      return "os";
    case Source::kTable:
      return "table";
    case Source::kMeasured:
      return "measured";
  }
  return "unknown";
}

std::string_view FormatDeviceType(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kIntegratedGpu:
      return "integrated-gpu";
    case DeviceType::kDiscreteGpu:
      return "discrete-gpu";
    case DeviceType::kVirtualGpu:
      return "virtual-gpu";
    case DeviceType::kOther:
      return "other";
  }
  return "other";
}

void VisitFields(const Capabilities& capabilities, const FieldVisitor& visit) {
#define HY_WALK_GROUP(Struct, member, FIELDS) Walk(capabilities.member, #member ".", visit);
#define HY_WALK_LIST(Struct, member, FIELDS)                                 \
  for (size_t i = 0; i < capabilities.member.size(); ++i) {                  \
    Walk(capabilities.member[i], fmt::format("{}[{}].", #member, i), visit); \
  }
  HY_CAPABILITY_GROUPS(HY_WALK_GROUP)
  HY_CAPABILITY_LISTS(HY_WALK_LIST)
#undef HY_WALK_LIST
#undef HY_WALK_GROUP
  for (size_t i = 0; i < capabilities.matrix_shapes.size(); ++i) {
    const MatrixShape& s = capabilities.matrix_shapes[i];
    const std::string name = fmt::format("matrix_shapes[{}]", i);
    const std::string text =
        fmt::format("{}x{}x{} {} -> {}", s.m, s.n, s.k, s.input_dtype, s.output_dtype);
    visit({name, FieldKind::kText, text, 0, 0, s.source, kShapeDoc});
  }
}

void VisitFields(const DeviceState& state, const FieldVisitor& visit) {
  Walk(state, "state.", visit);
}

void VisitRows(const FieldVisitor& visit) {
#define HY_WALK_GROUP(Struct, member, FIELDS) Walk(Struct(), #member ".", visit);
#define HY_WALK_LIST(Struct, member, FIELDS) Walk(Struct(), #member "[].", visit);
  HY_CAPABILITY_GROUPS(HY_WALK_GROUP)
  HY_CAPABILITY_LISTS(HY_WALK_LIST)
#undef HY_WALK_LIST
#undef HY_WALK_GROUP
  visit({"matrix_shapes[]", FieldKind::kText, "", 0, 0, Source::kUnknown, kShapeDoc});
  Walk(DeviceState(), "state.", visit);
}

std::string FormatCapabilities(const Capabilities& capabilities) {
  std::string text;
  VisitFields(capabilities, [&](const FieldView& field) {
    if (field.source == Source::kUnknown) return;
    text += fmt::format("{} = {} ({})\n", field.name, field.text, FormatSource(field.source));
  });
  auto append_list = [&](std::string_view name, const std::vector<std::string>& list) {
    if (!list.empty()) text += fmt::format("{} = {}\n", name, fmt::join(list, ", "));
  };
  append_list("features", capabilities.features);
  append_list("executable_formats", capabilities.executable_formats);
  append_list("notes", capabilities.notes);
  return text;
}

void SetIfPositive(Field<int64_t>* field, int64_t value, Source source) {
  if (value > 0) *field = Field<int64_t>(value, source);
}

void SetIfText(Field<std::string>* field, std::string_view text, Source source) {
  if (!text.empty()) *field = Field<std::string>(std::string(text), source);
}

}  // namespace halyard::hal
