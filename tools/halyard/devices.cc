// SPDX-License-Identifier: Apache-2.0
// halyard devices: what is here, what it can do, what it reaches, and why a driver is missing.
#include "tools/halyard/devices.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/excerpt.h"
#include "base/quantity.h"
#include "tools/halyard/files.h"
#include "tools/halyard/interrupt.h"
#include "tools/halyard/option_values.h"
#include "tools/halyard/progress_line.h"

namespace halyard::tools {
namespace {

struct DevicesArguments {
  bool json = false, all = false, probe = false, again = false, no_tune = false;
  double seconds = 0;
  std::string why_missing, svg, output;
  std::vector<std::string> diff;
  std::vector<std::string> devices;
};

// What earlier probes of the devices left; null where that cannot be read.
Json StoredProbes(const hy::Instance& instance, const std::vector<hy::Device>& devices) {
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.stored_only = 1;
  return Json::parse(instance.Probe(devices, desc, HY_FORMAT_JSON), nullptr, false);
}

Json ProbeJson(const hy::Instance& instance, const std::vector<hy::Device>& devices,
               const DevicesArguments& options) {
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.seconds_per_device = options.seconds;
  desc.again = options.again ? 1 : 0;
  desc.no_tune = options.no_tune ? 1 : 0;
  desc.should_stop = [](void*) -> int32_t { return IsInterrupted(); };
  if (HasProgressLine()) {
    desc.progress = [](void*, hy_string what, double done) {
      char share[16];
      std::snprintf(share, sizeof(share), "%3.0f %% ", done * 100);
      ShowProgress(share + hy::ToString(what));
      if (done >= 1) EraseProgress();
    };
  }
  const InterruptWatch watch;
  return Json::parse(instance.Probe(devices, desc, HY_FORMAT_JSON));
}

Json LinksJson(const std::vector<hy::Device>& devices) {
  Json links = Json::array();
  const auto name_of = [](hy_link_kind kind) {
    constexpr const char* kNames[] = {"none", "same-memory", "host-staged", "pcie", "nvlink"};
    return kind >= 0 && kind < 5 ? kNames[kind] : "none";
  };
  for (const hy::Device& from : devices) {
    for (const hy::Device& to : devices) {
      if (&from == &to) continue;
      const hy_link_info link = from.LinkTo(to);
      Json json;
      json["from"] = hy::ToString(from.info().path);
      json["to"] = hy::ToString(to.info().path);
      json["kind"] = name_of(link.kind);
      json["can_access_peer"] = link.can_access_peer == 1;
      json["can_copy_direct"] = link.can_copy_direct == 1;
      json["is_same_silicon"] = link.is_same_silicon == 1;
      if (link.has_native_atomics >= 0) json["has_native_atomics"] = link.has_native_atomics == 1;
      if (link.rank >= 0) json["rank"] = link.rank;
      if (link.nearest.size > 0) json["nearest"] = hy::ToString(link.nearest);
      links.push_back(std::move(json));
    }
  }
  return links;
}

// Those that are named, or all; of all, one that does not open leaves its reason, by its path.
std::vector<hy::Device> OpenAsked(const hy::Instance& instance, const DevicesArguments& options,
                                  std::map<std::string, std::string>* closed) {
  std::vector<std::string> paths = ItemsOf(options.devices);
  if (std::count(paths.begin(), paths.end(), "") > 0)
    throw CommandError(kWrongUsage, "DEVICE has nothing on one side of a comma");
  const bool takes_all = paths.empty();
  if (takes_all) {
    for (const hy_device_info& info : instance.Devices()) paths.push_back(hy::ToString(info.path));
  }
  std::vector<hy::Device> devices;
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    const bool has_number = path.find(':') != std::string::npos;
    if (!seen.insert(has_number ? path : path + ":0").second) continue;  // given twice
    try {
      devices.push_back(OpenNamed(instance, path));
    } catch (const MissingDevice& error) {
      if (!takes_all) throw;
      (*closed)[path] = error.what();
    }
  }
  return devices;
}

// Everything that the command knows, in the form of docs/devices.schema.json.
Json CollectReport(const hy::Instance& instance, const std::vector<hy::Device>& devices,
                   const std::map<std::string, std::string>& closed,
                   const DevicesArguments& options) {
  Json json;
  json["format"] = kDevicesFormat;
  json["drivers"] = Json::array();
  for (const hy_driver_info& driver : instance.Drivers()) {
    const std::string name = hy::ToString(driver.name);
    std::string reason = hy::ToString(driver.reason);
    for (const auto& [path, why] : closed) {
      if (!path.starts_with(name + ":")) continue;
      reason += (reason.empty() ? "'" : " '") + path + "' cannot be used: " + why;
    }
    json["drivers"].push_back({{"name", name},
                               {"status", hy::ToString(hy_result_name(driver.status))},
                               {"reason", reason},
                               {"devices", driver.device_count}});
  }
  json["devices"] = Json::array();
  for (const hy::Device& device : devices) {
    json["devices"].push_back(Json::parse(device.Report(HY_FORMAT_JSON)));
    for (const hy_device_info& info : instance.Devices()) {
      if (info.left_out.size == 0 || json["devices"].back()["path"] != hy::ToString(info.path))
        continue;
      json["devices"].back()["left_out"] = hy::ToString(info.left_out);
    }
  }
  json["links"] = LinksJson(devices);
  if (options.probe) json["probes"] = ProbeJson(instance, devices, options);
  return json;
}

std::string PrintedText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.dump();
}

void PrintDevice(const Json& device, bool with_unknown) {
  std::printf("\n%s\n", device["path"].get<std::string>().c_str());
  if (device.contains("left_out")) {
    std::printf("auto leaves it out: %s\n", device["left_out"].get<std::string>().c_str());
  }
  for (const auto& [name, field] : device["fields"].items()) {
    if (!field.is_null()) {
      std::printf("%s = %s (%s)\n", name.c_str(), PrintedText(field["value"]).c_str(),
                  field["source"].get<std::string>().c_str());
    } else if (with_unknown) {
      std::printf("%s = unknown\n", name.c_str());
    }
  }
  for (const char* list : {"features", "notes"}) {
    for (const Json& text : device[list]) {
      std::printf("%s: %s\n", std::string(list, std::string(list).size() - 1).c_str(),
                  text.get<std::string>().c_str());
    }
  }
}

// `probes`: the report's, or stored ones.
void PrintText(const Json& report, const Json& probes, bool with_unknown) {
  for (const Json& driver : report["drivers"]) {
    const std::string name = driver["name"], reason = driver["reason"];
    if (driver["status"] != "OK") {
      std::printf("driver %-7s missing: %s\n", name.c_str(), reason.c_str());
      continue;
    }
    const int count = driver["devices"];
    std::printf("driver %-7s %s%s%s\n", name.c_str(), CountedNoun(count, "device").c_str(),
                reason.empty() ? "" : "; ", reason.c_str());
  }
  std::printf("\n%s", FormatSummary(report, probes).c_str());
  for (const Json& device : report["devices"]) PrintDevice(device, with_unknown);
  if (!report["links"].empty()) std::printf("\n");
  for (const Json& link : report["links"]) {
    const std::string from = link["from"], to = link["to"];
    std::printf("link %s -> %s: %s\n", from.c_str(), to.c_str(), DescribeLink(link).c_str());
  }
  if (report.contains("probes")) std::printf("\n%s", FormatProbes(report["probes"]).c_str());
}

int WhyMissing(const hy::Instance& instance, const std::string& wanted) {
  struct Place {
    const char* driver;
    const char* library;
    const char* variable;
    const char* advice;
  };
  constexpr Place kPlaces[] = {
      {"cuda", "libcuda.so.1, of the NVIDIA driver", "HALYARD_CUDA_LIBRARY",
       "Install the NVIDIA driver; in a container, give it the GPU (nvidia-container-toolkit)."},
      {"vulkan", "libvulkan.so.1, the loader, and one driver file of a vendor", "VK_DRIVER_FILES",
       "Install libvulkan1 and the vendor's driver (mesa-vulkan-drivers for AMD and Intel)."},
      {"cpu", "none", "HALYARD_THREADS", "It is part of Halyard."},
  };
  for (const hy_driver_info& driver : instance.Drivers()) {
    if (hy::ToString(driver.name) != wanted) continue;
    std::printf("driver: %s\nstatus: %s\n", wanted.c_str(),
                hy::ToString(hy_result_name(driver.status)).c_str());
    const std::string reason = hy::ToString(driver.reason);
    if (!reason.empty()) std::printf("reason: %s\n", reason.c_str());
    if (driver.status == HY_OK) std::printf("devices: %u\n", driver.device_count);
    for (const Place& place : kPlaces) {
      if (place.driver != wanted) continue;
      std::printf("library: %s\nnamed by: %s\n", place.library, place.variable);
      if (driver.status != HY_OK || driver.device_count == 0)
        std::printf("advice: %s\n", place.advice);
      if (wanted == "cuda") {
        std::printf(
            "cuBLASLt's products and cuDNN's convolutions race unless --no-vendor-libs is given; "
            "named "
            "by: HALYARD_CUBLASLT_LIBRARY, HALYARD_CUDNN_LIBRARY\n");
      }
    }
    return kDone;
  }
  std::string known;
  for (const hy_driver_info& driver : instance.Drivers()) {
    known += (known.empty() ? "" : ", ") + hy::ToString(driver.name);
  }
  throw CommandError(kWrongUsage,
                     "there is no driver '" + Excerpt(wanted) + "'; this build has: " + known);
}

int Devices(const DevicesArguments& options, const CLI::App& command) {
  if (!options.diff.empty()) {
    RefuseOthers(command, "--diff", "reads two reports and writes what differs", "--all");
    if (options.diff.size() != 2) throw CommandError(kWrongUsage, "--diff takes two files");
    const Json before = ParseDevicesReport(options.diff[0], ReadReport(options.diff[0]));
    const Json after = ParseDevicesReport(options.diff[1], ReadReport(options.diff[1]));
    const std::string text = DiffReports(before, after, options.all);
    std::printf("%s", text.empty() ? "no difference\n" : text.c_str());
    return text.empty() ? kDone : kDiffers;
  }
  if (!options.why_missing.empty()) RefuseOthers(command, "--why-missing", "looks at one driver");
  const std::vector<NamedFile> outputs = {{"--output", options.output}, {"--svg", options.svg}};
  KeepApart(outputs, {});
  CheckWritable(outputs);
  const hy::Instance instance = MakeInstance(false, false);
  if (!options.why_missing.empty()) return WhyMissing(instance, options.why_missing);
  std::map<std::string, std::string> closed;
  const std::vector<hy::Device> devices = OpenAsked(instance, options, &closed);
  const Json report = CollectReport(instance, devices, closed, options);
  bool is_written = true;
  if (!options.svg.empty()) {
    Json drawn = report;
    if (!options.probe) drawn["probes"] = StoredProbes(instance, devices);
    if (!drawn["probes"].is_object()) drawn.erase("probes");  // cannot be read, as a warning said
    is_written = WriteOrTell(options.svg, DrawTopology(drawn));
  }
  const std::string json = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!options.output.empty()) is_written &= WriteOrTell(options.output, json);
  if (options.json) {
    std::printf("%s", json.c_str());
  } else if (options.svg.empty() || options.probe) {
    const Json probes = options.probe ? report["probes"] : StoredProbes(instance, devices);
    PrintText(report, probes, options.all);
  }
  if (!options.probe || !IsInterrupted()) return is_written ? kDone : kSystemFailure;
  PrintError("interrupted; the report has what was measured until then");
  return kInterrupted;
}

}  // namespace

Run AddDevicesCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "devices", "List drivers and devices, what each can do, and what it reaches");
  auto options = std::make_shared<DevicesArguments>();
  command->add_flag("--json", options->json, "Write JSON (docs/devices.schema.json)");
  command->add_flag(
      "--all", options->all,
      "Also name what is unknown; of --diff, all of a device that only one report has");
  command->add_flag(
      "--probe", options->probe,
      "Measure copies, bandwidth, matrix products and latencies, or show what was measured");
  command->add_flag("--again", options->again, "Measure although there are results")
      ->needs("--probe");
  command
      ->add_flag("--no-tune", options->no_tune, "Products run with the schedule the model prefers")
      ->needs("--probe");
  command->add_option("--seconds", options->seconds, "Longest time per device (10)")
      ->needs("--probe")
      ->check(IsNumber(0.1, 100000, "number of seconds"));
  command->add_option("--why-missing", options->why_missing, "Why a driver is not there")
      ->type_name("DRIVER")
      ->excludes("--json");
  command->add_option("--diff", options->diff, "Compare two reports; status 4 when they differ")
      ->type_name("A.json B.json")
      ->expected(2)
      ->excludes("--json");
  command->add_option("--svg", options->svg, "Draw devices, memories and links into a file")
      ->transform(NameOfOutput)
      ->type_name("FILE");
  command->add_option("--output", options->output, "Also write the report as JSON into this file")
      ->transform(NameOfOutput)
      ->type_name("FILE");
  command->add_option("DEVICE", options->devices, "Only these, such as cpu:0 or cpu:0,cuda:0");
  return [options, command] { return Devices(*options, *command); };
}

}  // namespace halyard::tools
