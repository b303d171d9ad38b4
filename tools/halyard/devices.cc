// SPDX-License-Identifier: Apache-2.0
// halyard devices: what is here, what it can do, and why a driver is missing.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  bool json = false;
  std::vector<std::string> devices;
};

int Devices(const Options& options) {
  const hy::Instance instance = MakeInstance(false, true);
  std::vector<std::string> paths = options.devices;
  if (paths.empty()) {
    for (const hy_device_info& info : instance.Devices()) paths.push_back(hy::ToString(info.path));
  }
  std::vector<hy::Device> devices;  // opened before anything is written
  for (const std::string& path : paths) devices.push_back(instance.Open(path));
  Json json;
  json["drivers"] = Json::array();
  json["devices"] = Json::array();
  for (const hy_driver_info& driver : instance.Drivers()) {
    if (options.json) {
      json["drivers"].push_back({{"name", hy::ToString(driver.name)},
                                 {"status", hy::ToString(hy_result_name(driver.status))},
                                 {"reason", hy::ToString(driver.reason)},
                                 {"devices", driver.device_count}});
    } else if (driver.status != HY_OK) {
      std::printf("driver %-7s missing: %s\n", hy::ToString(driver.name).c_str(),
                  hy::ToString(driver.reason).c_str());
    } else {
      const std::string skipped = hy::ToString(driver.reason);
      std::printf("driver %-7s %u device%s%s%s\n", hy::ToString(driver.name).c_str(),
                  driver.device_count, driver.device_count == 1 ? "" : "s",
                  skipped.empty() ? "" : "; ", skipped.c_str());
    }
  }
  for (const hy::Device& device : devices) {
    if (options.json) {
      json["devices"].push_back(Json::parse(device.Report(HY_FORMAT_JSON)));
      continue;
    }
    const hy_device_info info = device.info();
    std::printf("\n%s: %s\n", hy::ToString(info.path).c_str(), hy::ToString(info.name).c_str());
    std::printf("%s", device.Report(HY_FORMAT_TEXT).c_str());
  }
  if (options.json)
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  return kDone;
}

}  // namespace

Run AddDevicesCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("devices", "List drivers and devices, and what each can do");
  auto options = std::make_shared<Options>();
  command->add_flag("--json", options->json, "Write JSON");
  command->add_option("DEVICE", options->devices, "Only these, such as cpu:0");
  return [options] { return Devices(*options); };
}

}  // namespace halyard::tools
