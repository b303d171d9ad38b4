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
#include "runtime/cache.h"
#include "runtime/transfer_path.h"
#include "runtime/variants.h"

namespace halyard::runtime {

// How long one phase took: the compiler's, where it compiled; then "load code", "load weights" and,
// of what else makes the program ready, "load".
struct Phase {
  std::string name;
  double seconds = 0;
};

// Immutable after Load but for the variants; thread-safe.
class LoadedProgram {
 public:
  // `devices` stand for program.devices in their order. INCOMPATIBLE when one lacks what the code
  // needs; OUT_OF_MEMORY when the constants do not fit. The program must verify. Its phases are
  // then "load code" and "load weights".
  static Result<std::shared_ptr<LoadedProgram>> Load(program::Program program,
                                                     std::vector<Ref<hal::Device>> devices);

  const program::Program& program() const { return program_; }
  const Ref<hal::Device>& device(uint32_t index) const { return devices_[index]; }
  const std::vector<Ref<hal::Device>>& devices() const { return devices_; }
  hal::Executable* executable(uint32_t index) const { return executables_[index].get(); }
  // The bytes of a constant on its device.
  hal::BufferRange constant(uint32_t index) const;
  // How transfers go between two of its devices.
  const TransferPath& path(uint32_t from, uint32_t to) const {
    return paths_[from * devices_.size() + to];
  }
  // Where times of its kernels go; null: nowhere. Before it is shared.
  void SetTimingCache(std::shared_ptr<Cache> cache) { timing_cache_ = std::move(cache); }
  const std::shared_ptr<Cache>& timing_cache() const { return timing_cache_; }
  // Under which the cache has it: a hash of the model, of the devices with their drivers, of the
  // options and of this library; 0: not compiled or found by this process. Before it is shared.
  void SetCacheKey(uint64_t key) { cache_key_ = key; }
  uint64_t cache_key() const { return cache_key_; }
  // Before it is shared.
  void AddRecord(program::Record record) { program_.records.push_back(std::move(record)); }

  // Compiles the program again for the devices that are left. Before it is shared.
  using Replanner = std::function<Result<std::shared_ptr<LoadedProgram>>()>;
  void SetReplanner(Replanner replanner) { replanner_ = std::move(replanner); }
  // What runs in its place since it lost a device: compiled at the first call, then the same. Null
  // while all devices are well, and where the policy or a saved program leaves nothing to do.
  Result<std::shared_ptr<LoadedProgram>> Replacement();
  // Sentences on what happened since it was loaded, for reports.
  std::vector<std::string> events() const;

  const std::vector<Phase>& phases() const { return phases_; }
  void SetPhases(std::vector<Phase> phases) { phases_ = std::move(phases); }  // before it is shared

  // The programs for exact sizes, beside this one. Their sizes are all symbols of this program.
  Variants& variants() { return variants_; }
  const Variants& variants() const { return variants_; }

 private:
  LoadedProgram() = default;
  Status LoadExecutables();
  Status LoadConstants();
  Status LoadConstantsOf(uint32_t device);
  Status LoadStreamedOf(uint32_t device);
  void FindPaths();

  program::Program program_;
  std::vector<Ref<hal::Device>> devices_;
  std::vector<Ref<hal::Executable>> executables_;
  std::vector<Ref<hal::Buffer>> constant_buffers_;  // one per device; null: no constants there
  std::vector<Ref<hal::Buffer>> streamed_buffers_;  // the same, of weights that runs bring
  std::vector<bool> is_streamed_;                   // per constant
  std::vector<int64_t> constant_offsets_;           // per constant, in the buffer of its device
  std::vector<TransferPath> paths_;                 // from, to; of pairs that the program uses
  std::vector<Phase> phases_;
  std::shared_ptr<Cache> timing_cache_;
  uint64_t cache_key_ = 0;
  Replanner replanner_;
  std::mutex replan_mutex_;  // held while compiling, so that it happens once
  std::shared_ptr<LoadedProgram> replacement_;
  mutable std::mutex events_mutex_;
  std::vector<std::string> events_;
  Variants variants_;
};

// Copies host bytes into a buffer of any kind, or bytes of one to the host, and waits for it.
Status Upload(hal::Device& device, std::span<const uint8_t> bytes, const hal::BufferRange& target);
Status Download(hal::Device& device, const hal::BufferRange& source, std::span<uint8_t> bytes);

}  // namespace halyard::runtime
