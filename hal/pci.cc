// SPDX-License-Identifier: Apache-2.0
#include "hal/pci.h"

#include <cstdlib>
#include <iterator>

namespace halyard::hal {
namespace {

constexpr double kGigatransfers[] = {0, 2.5, 5, 8, 16, 32, 64};

// Of "32.0 GT/s PCIe"; 0 when it is none of the generations.
int64_t GenerationOf(const std::string& speed) {
  const double rate = std::strtod(speed.c_str(), nullptr);
  for (size_t i = 1; i < std::size(kGigatransfers); ++i) {
    if (rate > 0 && rate == kGigatransfers[i]) return static_cast<int64_t>(i);
  }
  return 0;
}

std::string FolderOf(std::string_view address) {
  return "/sys/bus/pci/devices/" + std::string(address) + "/";
}

// A reading of the monitor in its own unit, as a number of the field's.
void SetReading(const SystemFiles& files, const std::string& path, double unit,
                Field<double>* field) {
  if (field->known()) return;
  if (const auto value = files.Number(path)) {
    *field = {static_cast<double>(*value) * unit, Source::kOs};
  }
}

}  // namespace

double PciePeakBytesPerSecond(int64_t generation, int64_t width) {
  if (generation < 1 || generation >= static_cast<int64_t>(std::size(kGigatransfers))) return 0;
  const double share = generation <= 2 ? 8.0 / 10 : generation <= 5 ? 128.0 / 130 : 1;
  return kGigatransfers[generation] * 1e9 / 8 * share * static_cast<double>(width);
}

void DescribePci(const SystemFiles& files, std::string_view address, Links* links) {
  if (address.empty()) return;
  const std::string folder = FolderOf(address);
  if (!links->pcie_generation_max.known()) {
    SetIfPositive(&links->pcie_generation_max,
                  GenerationOf(files.FirstLine(folder + "max_link_speed")), Source::kOs);
  }
  if (!links->pcie_width_max.known()) {
    const int64_t width = files.Number(folder + "max_link_width").value_or(0);
    // 255 is what a link that does not exist reads as.
    if (width < 255) SetIfPositive(&links->pcie_width_max, width, Source::kOs);
  }
  const auto node = files.Number(folder + "numa_node");
  if (!links->numa_node.known() && node && *node >= 0) links->numa_node = {*node, Source::kOs};
  if (!links->near_cpus.known()) {
    SetIfText(&links->near_cpus, files.FirstLine(folder + "local_cpulist"), Source::kOs);
  }
  if (!links->pcie_peak_bytes_per_s.known() && links->pcie_generation_max.known() &&
      links->pcie_width_max.known()) {
    const double peak =
        PciePeakBytesPerSecond(links->pcie_generation_max.value, links->pcie_width_max.value);
    if (peak > 0) links->pcie_peak_bytes_per_s = {peak, links->pcie_generation_max.source};
  }
}

void ReadPciState(const SystemFiles& files, std::string_view address, DeviceState* state) {
  if (address.empty()) return;
  const std::string folder = FolderOf(address);
  if (!state->pcie_generation.known()) {
    SetIfPositive(&state->pcie_generation,
                  GenerationOf(files.FirstLine(folder + "current_link_speed")), Source::kOs);
  }
  if (!state->pcie_width.known()) {
    const int64_t width = files.Number(folder + "current_link_width").value_or(0);
    if (width < 255) SetIfPositive(&state->pcie_width, width, Source::kOs);
  }
  // Units of the kernel's hwmon interface: Hz, thousandths of a degree, millionths of a watt.
  for (const std::string& monitor : files.List(folder + "hwmon")) {
    const std::string at = folder + "hwmon/" + monitor + "/";
    SetReading(files, at + "temp1_input", 1e-3, &state->temperature_c);
    SetReading(files, at + "power1_average", 1e-6, &state->power_w);
    SetReading(files, at + "power1_input", 1e-6, &state->power_w);
    SetReading(files, at + "power1_cap", 1e-6, &state->power_limit_w);
    if (!state->clock_hz.known()) {
      SetIfPositive(&state->clock_hz, files.Number(at + "freq1_input").value_or(0), Source::kOs);
    }
  }
}

}  // namespace halyard::hal
