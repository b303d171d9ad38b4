// SPDX-License-Identifier: Apache-2.0
// Management: what NVML tells of one GPU. Every answer is optional.
#pragma once

#include <memory>
#include <string>

#include "drivers/cuda/nvml_api.h"
#include "hal/capabilities.h"

namespace halyard::drivers::cuda {

// Thread-safe; copying is cheap. One without a library answers nothing.
class Management {
 public:
  Management() = default;
  // `pci_address` as CUDA prints it. `why_not` gets a sentence when NVML cannot be asked.
  static Management Open(const std::string& pci_address, std::string* why_not);

  bool is_open() const { return device_ != nullptr; }
  // Fills what NVML knows.
  void Describe(hal::Capabilities* out) const;
  void ReadState(hal::DeviceState* out) const;
  // What the two have in common: "same board", "PCIe switch", "host bridge", ...; empty: unknown.
  std::string Nearest(const Management& other) const;

 private:
  void DescribeInstances(bool is_cut, hal::Partition* out) const;

  std::shared_ptr<const NvmlApi> api_;
  nvmlDevice_t device_ = nullptr;
};

// "idle, software power cap"; "none" for 0.
std::string FormatThrottleReasons(unsigned long long bits);

}  // namespace halyard::drivers::cuda
