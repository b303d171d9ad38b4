// SPDX-License-Identifier: Apache-2.0
// docs/devices.schema.json, which describes what `halyard devices --json` writes, is made from the
// rows of the capabilities: HALYARD_BLESS=1 rewrites it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/env.h"
#include "hal/capabilities.h"

namespace halyard::runtime {
namespace {

using Json = nlohmann::ordered_json;

const std::string kPath = HALYARD_SOURCE_DIR "/docs/devices.schema.json";

Json Object(Json properties, std::vector<std::string> required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}
Json Type(const char* type, const char* description = "") {
  Json json = {{"type", type}};
  if (*description != 0) json["description"] = description;
  return json;
}
Json ListOf(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Json Least(Json json, double least) {
  json["minimum"] = least;
  return json;
}

// Definitions of a value with its source, by kind, and of a field, which is null when unknown.
Json MakeDefinitions() {
  Json out;
  const auto add = [&](const char* name, const char* type) {
    out[name] =
        Object({{"value", Type(type)}, {"source", {{"enum", {"api", "os", "table", "measured"}}}}},
               {"value", "source"});
    out[std::string("maybe-") + name] = {
        {"oneOf", {{{"type", "null"}}, {{"$ref", std::string("#/$defs/") + name}}}}};
  };
  add("text", "string");
  add("integer", "integer");
  add("real", "number");
  add("flag", "boolean");
  return out;
}
Json FieldSchema(const hal::FieldView& field, const char* prefix) {
  const char* kinds[] = {"text", "integer", "real", "flag"};
  return {{"description", field.doc},
          {"$ref", std::string("#/$defs/") + prefix + kinds[static_cast<int>(field.kind)]}};
}

Json MakeSchema() {
  Json fields = {{"type", "object"},
                 {"properties", Json::object()},
                 {"patternProperties", Json::object()},
                 {"additionalProperties", false}};
  Json state = Object(Json::object(), {});
  Json required = Json::array();
  hal::VisitRows([&](const hal::FieldView& field) {
    std::string name(field.name);
    const size_t list = name.find("[]");
    if (list == std::string::npos) {
      fields["properties"][name] = FieldSchema(field, "maybe-");
      required.push_back(name);
    } else {
      std::string pattern =
          "^" + name.substr(0, list) + "\\[[0-9]+\\]" + name.substr(list + 2) + "$";
      if (const size_t dot = pattern.rfind("]."); dot != std::string::npos)
        pattern.insert(dot + 1, "\\");
      fields["patternProperties"][pattern] = FieldSchema(field, "maybe-");
    }
    if (name.rfind("state.", 0) == 0) {
      state["properties"][name.substr(6)] = FieldSchema(field, "");
    }
  });
  fields["required"] = required;

  const Json spread = Object({{"median", Least(Type("number"), 0)},
                              {"mad", Least(Type("number", "Median distance from the median."), 0)},
                              {"best", Least(Type("number"), 0)},
                              {"count", Least(Type("integer", "Samples."), 1)}},
                             {"median", "mad", "best", "count"});
  const Json reading = Object(
      {{"kind",
        {{"enum",
          {"copy", "read", "stream", "triad", "matmul", "kernel", "dispatch", "submit", "replay",
           "wait", "first-touch", "later-touch", "crossing", "interpreted", "cold-kernel"}}}},
       {"from", Type("string", "Of a copy: device, pinned, pageable. Of a crossing: device.")},
       {"to", Type("string", "The same, or the path of another device.")},
       {"level", Type("string", "L1, L2, L3 or memory.")},
       {"class", Type("string", "Of a kernel or an interpreted op.")},
       {"dtype", Type("string")},
       {"matrix_units", Type("boolean", "Whether the code may use them.")},
       {"size", Least(Type("integer", "Rows of the square matrices."), 1)},
       {"operations", Least(Type("number", "Of one product, kernel or interpreted op."), 1)},
       {"results", Least(Type("integer", "Elements that the op of a kernel gives."), 0)},
       {"rows",
        Least(Type("integer", "Of the matrices of a product's or convolution's results."), 1)},
       {"columns", Least(Type("integer", "The same."), 1)},
       {"bytes", Least(Type("integer", "Moved by one operation."), 1)},
       {"seconds", spread},
       {"rate", Least(Type("number", "Operations of a product, bytes otherwise, per second."), 0)},
       {"is_verified", Type("boolean", "Up to 16 MiB were seen to arrive whole on this way.")},
       {"clock_hz", Least(Type("integer", "Of the device while it worked."), 1)}},
      {"kind", "seconds"});
  const Json part_name = {
      {"enum", {"latencies", "copies", "crossings", "bandwidth", "classes", "products"}}};
  const Json part = Object(
      {{"part", part_name},
       {"seconds", Least(Type("number", "That it took. Earlier probes have no parts."), 0)},
       {"making_seconds",
        Least(Type("number",
                   "Of it, making its kernels: compiling them, or waiting for that, and loading."),
              0)}},
      {"part", "seconds", "making_seconds"});
  const Json probe =
      Object({{"path", Type("string")},
              {"name", Type("string")},
              {"identity", Type("string", "What the readings are good for.")},
              {"is_first_use", Type("boolean", "Short, by a compile that had none.")},
              {"is_complete", Type("boolean", "False: it was cut short, or parts failed.")},
              {"lacks", ListOf(part_name)},
              {"seconds", Least(Type("number", "That probing took."), 0)},
              {"parts", ListOf(part)},
              {"before", state},
              {"after", state},
              {"notes", ListOf(Type("string"))},
              {"readings", ListOf(reading)}},
             {"path", "name", "identity", "is_complete", "seconds", "before", "after", "notes",
              "readings"});
  const Json probes = Object({{"format",
                               {{"enum",
                                 {"halyard-probes-1", "halyard-probes-2", "halyard-probes-3",
                                  "halyard-probes-4", "halyard-probes-5", "halyard-probes-6"}}}},
                              {"snapshot", Least(Type("integer", "Counts what was stored."), 0)},
                              {"unix_seconds", Least(Type("integer"), 0)},
                              {"devices", ListOf(probe)}},
                             {"format", "snapshot", "unix_seconds", "devices"});
  const Json driver = Object({{"name", Type("string")},
                              {"status", Type("string", "OK, or why not: UNAVAILABLE.")},
                              {"reason", Type("string", "Which library, symbol or call.")},
                              {"devices", Least(Type("integer"), 0)}},
                             {"name", "status", "reason", "devices"});
  const Json device = Object({{"path", Type("string", "What --device takes.")},
                              {"left_out", Type("string", "Why auto leaves it out.")},
                              {"fields", fields},
                              {"features", ListOf(Type("string"))},
                              {"executable_formats", ListOf(Type("string"))},
                              {"notes", ListOf(Type("string"))}},
                             {"path", "fields", "features", "executable_formats", "notes"});
  const Json link =
      Object({{"from", Type("string")},
              {"to", Type("string")},
              {"kind", {{"enum", {"none", "same-memory", "host-staged", "pcie", "nvlink"}}}},
              {"can_access_peer", Type("boolean")},
              {"can_copy_direct", Type("boolean")},
              {"is_same_silicon", Type("boolean", "One chip under two drivers.")},
              {"has_native_atomics", Type("boolean")},
              {"rank", Least(Type("integer"), 0)},
              {"nearest", Type("string", "What both have in common.")}},
             {"from", "to", "kind", "can_access_peer", "can_copy_direct", "is_same_silicon"});
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "What halyard devices --json writes"}};
  schema.update(Object({{"format", {{"const", "halyard-devices-1"}}},
                        {"drivers", ListOf(driver)},
                        {"devices", ListOf(device)},
                        {"links", ListOf(link)},
                        {"probes", probes}},
                       {"format", "drivers", "devices", "links"}));
  schema["$defs"] = MakeDefinitions();
  return schema;
}

TEST(DevicesSchema, IsMadeFromTheRows) {
  const std::string text = MakeSchema().dump(1) + "\n";
  if (EnvFlag(EnvVar::kBless)) std::ofstream(kPath) << text;
  std::ifstream file(kPath);
  std::stringstream published;
  published << file.rdbuf();
  EXPECT_EQ(published.str(), text) << "HALYARD_BLESS=1 rewrites " << kPath;
}

}  // namespace
}  // namespace halyard::runtime
