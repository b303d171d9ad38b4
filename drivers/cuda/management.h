// SPDX-License-Identifier: Apache-2.0
// Management: what NVML tells of one GPU. Every answer is optional.
#pragma once

#include <memory>
#include <mutex>
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
  // The faults (Xid) of the device from now on.
  class Faults {
   public:
    // Null where NVML does not tell.
    static std::shared_ptr<Faults> Listen(std::shared_ptr<const NvmlApi> api, nvmlDevice_t device);
    ~Faults();
    // "none", "Xid 31, Xid 43": each number once.
    std::string Read();

   private:
    std::shared_ptr<const NvmlApi> api_;
    nvmlEventSet_t set_ = nullptr;
    std::mutex mutex_;
    std::string seen_;  // guarded by mutex_
  };

  void DescribeInstances(bool is_cut, hal::Partition* out) const;
  void ReadHealth(hal::DeviceState* out) const;

  std::shared_ptr<const NvmlApi> api_;
  nvmlDevice_t device_ = nullptr;
  std::shared_ptr<Faults> faults_;
};

// "idle, software power cap"; "none" for 0.
std::string FormatThrottleReasons(unsigned long long bits);

}  // namespace halyard::drivers::cuda
