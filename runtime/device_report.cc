// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_report.h"

#include <nlohmann/json.hpp>

#include "runtime/device_target.h"

namespace halyard::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json ValueOf(const hal::FieldView& field) {
  switch (field.kind) {
    case hal::FieldKind::kInteger:
      return field.integer;
    case hal::FieldKind::kReal:
      return field.real;
    case hal::FieldKind::kFlag:
      return field.integer != 0;
    case hal::FieldKind::kText:
      break;
  }
  return field.text;
}

}  // namespace

Result<std::string> MakeDeviceReport(hal::Device& device, ReportFormat format) {
  hal::Capabilities capabilities = device.capabilities();
  const Result<std::string> compiler = device.DescribeCompiler();
  if (!compiler.ok()) {
    capabilities.notes.push_back(fmt::format("It runs no model that was not compiled before. {}",
                                             compiler.status().message()));
  } else if (!compiler->empty()) {
    capabilities.notes.push_back(fmt::format("Compiler of its kernels: {}.", *compiler));
  }
  if (TargetOf(device).kind == TargetKind::kCuda) {
    // Opened for the report alone where no program has needed them.
    for (const GpuLibraryKind kind : kGpuLibraryKinds) {
      const Result<std::string> library = device.DescribeLibrary(kind);
      capabilities.notes.push_back(
          library.ok()
              ? fmt::format("Library of {}: {}.", LibraryWork(kind), *library)
              : fmt::format("No library of {}: {}", LibraryWork(kind), library.status().message()));
    }
  }
  const hal::DeviceState state = device.ReadState();
  if (format == ReportFormat::kText) {
    std::string text = hal::FormatCapabilities(capabilities);
    hal::VisitFields(state, [&](const hal::FieldView& field) {
      if (field.source == hal::Source::kUnknown) return;
      text +=
          fmt::format("{} = {} ({})\n", field.name, field.text, hal::FormatSource(field.source));
    });
    return text;
  }
  if (format != ReportFormat::kJson)
    return Unimplemented("Devices are reported as text or JSON only.");
  Json fields = Json::object();
  const auto add = [&](const hal::FieldView& field) {
    Json& entry = fields[std::string(field.name)];
    if (field.source == hal::Source::kUnknown) return;  // null
    entry = {{"value", ValueOf(field)}, {"source", hal::FormatSource(field.source)}};
  };
  hal::VisitFields(capabilities, add);
  hal::VisitFields(state, add);
  Json json;
  json["path"] = device.path();
  json["fields"] = std::move(fields);
  json["features"] = capabilities.features;
  json["executable_formats"] = capabilities.executable_formats;
  json["notes"] = capabilities.notes;
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace halyard::runtime
