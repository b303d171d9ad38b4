// SPDX-License-Identifier: Apache-2.0
// LoadedProgram: a program with its code and constants on real devices, made once and shared by all
// its sessions. It runs nothing itself.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/program/program.h"
#include "hal/device.h"
#include "runtime/variants.h"

namespace halyard::runtime {

// How long one phase took; "load" for programs from files, the compiler's phases otherwise.
struct Phase {
  std::string name;
  double seconds = 0;
};

// Immutable after Load but for the variants; thread-safe.
class LoadedProgram {
 public:
  // `devices` stand for program.devices in their order. INCOMPATIBLE when one lacks what the code
  // needs; OUT_OF_MEMORY when the constants do not fit. The program must verify.
  static Result<std::shared_ptr<LoadedProgram>> Load(program::Program program,
                                                     std::vector<Ref<hal::Device>> devices,
                                                     std::vector<Phase> phases);

  const program::Program& program() const { return program_; }
  const Ref<hal::Device>& device(uint32_t index) const { return devices_[index]; }
  const std::vector<Ref<hal::Device>>& devices() const { return devices_; }
  hal::Executable* executable(uint32_t index) const { return executables_[index].get(); }
  // The bytes of a constant on its device.
  hal::BufferRange constant(uint32_t index) const;
  const std::vector<Phase>& phases() const { return phases_; }
  void SetPhases(std::vector<Phase> phases) { phases_ = std::move(phases); }  // before it is shared

  // The programs for exact sizes, beside this one. Their sizes are all symbols of this program.
  Variants& variants() { return variants_; }
  const Variants& variants() const { return variants_; }

 private:
  LoadedProgram() = default;
  Status LoadExecutables();
  Status LoadConstants();

  program::Program program_;
  std::vector<Ref<hal::Device>> devices_;
  std::vector<Ref<hal::Executable>> executables_;
  std::vector<Ref<hal::Buffer>> constant_buffers_;  // one per device; null: no constants there
  std::vector<uint64_t> constant_bases_;            // where in the data section each buffer starts
  std::vector<Phase> phases_;
  Variants variants_;
};

// Whether the device works on the host's memory in place.
bool SharesHostMemory(const hal::Device& device);

// Copies host bytes into a buffer of any kind and waits for it.
Status Upload(hal::Device& device, std::span<const uint8_t> bytes, const hal::BufferRange& target);

}  // namespace halyard::runtime
