// SPDX-License-Identifier: Apache-2.0
// Loading of executables and constants.
#include "runtime/loaded_program.h"

#include <algorithm>
#include <cstring>

#include "compiler/program/file.h"
#include "runtime/device_target.h"

namespace halyard::runtime {

bool SharesHostMemory(const hal::Device& device) {
  return device.capabilities().memory.is_host_memory.ValueOr(false);
}

Status Upload(hal::Device& device, std::span<const uint8_t> bytes, const hal::BufferRange& target) {
  if (bytes.empty()) return OkStatus();
  constexpr int64_t kPieceBytes = int64_t{16} << 20;
  const auto total = static_cast<int64_t>(bytes.size());
  HY_ASSIGN(const auto staging,
            device.AllocateBuffer(hal::MemoryKind::kStaging, std::min(kPieceBytes, total)));
  HY_ASSIGN(const auto semaphore, device.CreateSemaphore(0));
  uint64_t step = 0;
  for (int64_t at = 0; at < total; at += kPieceBytes) {
    const int64_t size = std::min(kPieceBytes, total - at);
    HY_ASSIGN(uint8_t * mapped, staging->Map(0, size));
    std::memcpy(mapped, bytes.data() + at, static_cast<size_t>(size));
    HY_TRY(staging->FlushMapped(0, size));
    const hal::SemaphorePoint done{semaphore.get(), ++step};
    hal::Ordering ordering;
    ordering.signals = {&done, 1};
    ordering.caller_waits = true;
    HY_TRY(device.QueueCopy(0, ordering, {staging.get(), 0, size},
                            {target.buffer, target.offset + at, size}));
    HY_TRY(device.Wait({&done, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  }
  return OkStatus();
}

Result<std::shared_ptr<LoadedProgram>> LoadedProgram::Load(program::Program program,
                                                           std::vector<Ref<hal::Device>> devices,
                                                           std::vector<Phase> phases) {
  if (devices.size() != program.devices.size()) {
    return InvalidArgument("The program is for {} devices; {} are given.", program.devices.size(),
                           devices.size());
  }
  std::shared_ptr<LoadedProgram> loaded(new LoadedProgram());
  loaded->program_ = std::move(program);
  loaded->devices_ = std::move(devices);
  loaded->phases_ = std::move(phases);
  HY_TRY(loaded->LoadExecutables());
  HY_TRY(loaded->LoadConstants());
  return loaded;
}

Status LoadedProgram::LoadExecutables() {
  for (size_t i = 0; i < program_.executables.size(); ++i) {
    const program::Executable& executable = program_.executables[i];
    hal::Device& device = *devices_[executable.device];
    std::vector<hal::ExecutableEntry> entries;
    for (const program::KernelEntry& kernel : executable.entries) {
      entries.push_back({kernel.name, kernel.binding_count, kernel.scalar_count, kernel.sites});
    }
    hal::ExecutableSource source;
    source.format = executable.format;
    source.code = executable.code;
    source.name = program_.model_name;
    source.entries = entries;
    auto loaded = device.LoadExecutable(source);
    if (!loaded.ok()) {
      return loaded.status().WithContext(fmt::format("loading executable {} of '{}' on '{}'", i,
                                                     program_.model_name, device.path()));
    }
    executables_.push_back(std::move(loaded).value());
  }
  return OkStatus();
}

Status LoadedProgram::LoadConstants() {
  constant_buffers_.resize(devices_.size());
  constant_bases_.assign(devices_.size(), 0);
  const std::span<const uint8_t> data = program_.DataBytes();
  for (size_t d = 0; d < devices_.size(); ++d) {
    uint64_t begin = UINT64_MAX, end = 0;
    for (const program::Constant& constant : program_.constants) {
      if (constant.device != d || constant.size_bytes == 0) continue;
      begin = std::min(begin, constant.offset);
      end = std::max(end, constant.offset + constant.size_bytes);
    }
    if (begin >= end) continue;
    hal::Device& device = *devices_[d];
    constant_bases_[d] = begin;
    const auto part = data.subspan(begin, end - begin);
    const auto size = static_cast<int64_t>(part.size());
    const std::string doing =
        fmt::format("placing {} bytes of constants on '{}'", size, device.path());
    const bool in_place = SharesHostMemory(device);
    if (in_place && program_.mapping != nullptr) {
      hal::HostMemory memory;
      memory.address = const_cast<uint8_t*>(part.data());
      memory.size_bytes = size;
      memory.is_read_only = true;
      memory.release = [keep_alive = program_.mapping] {};
      auto imported = device.ImportHostMemory(std::move(memory));
      if (imported.ok()) {
        constant_buffers_[d] = std::move(imported).value();
        continue;
      }
      if (imported.status().code() != StatusCode::kIncompatible) {
        return imported.status().WithContext(doing);
      }
    }
    auto buffer = device.AllocateBuffer(
        in_place ? hal::MemoryKind::kHostVisible : hal::MemoryKind::kDevice, size);
    if (!buffer.ok()) return buffer.status().WithContext(doing);
    constant_buffers_[d] = std::move(buffer).value();
    if (!in_place) {
      HY_TRY_CONTEXT(Upload(device, part, {constant_buffers_[d].get(), 0, size}), "{}", doing);
      continue;
    }
    HY_ASSIGN(uint8_t * mapped, constant_buffers_[d]->Map(0, size));
    std::memcpy(mapped, part.data(), part.size());
    if (devices_.size() == 1 && begin == 0 && program_.mapping == nullptr) {
      // The buffer now holds what `data` held; one copy is enough, also for saving.
      auto keep_alive = std::make_shared<Ref<hal::Buffer>>(constant_buffers_[d]);
      program_.mapped_data = {mapped, part.size()};
      program_.mapping = std::shared_ptr<const void>(keep_alive, mapped);
      program_.data = {};
    }
  }
  return OkStatus();
}

hal::BufferRange LoadedProgram::constant(uint32_t index) const {
  const program::Constant& constant = program_.constants[index];
  return {constant_buffers_[constant.device].get(),
          static_cast<int64_t>(constant.offset - constant_bases_[constant.device]),
          static_cast<int64_t>(constant.size_bytes)};
}

}  // namespace halyard::runtime
