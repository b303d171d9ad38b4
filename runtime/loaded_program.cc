// SPDX-License-Identifier: Apache-2.0
// Loading of executables and constants.
#include "runtime/loaded_program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/quantity.h"
#include "compiler/program/file.h"
#include "compiler/program/streamed.h"
#include "runtime/device_target.h"
#include "runtime/transfer_path.h"

namespace halyard::runtime {

namespace {

constexpr int64_t kUploadBytes = int64_t{16} << 20;

// For one piece of staging memory after the other: `before`, the copy that `queue` queues, the wait
// for it, `after`.
template <typename Before, typename Queue, typename After>
Status InPieces(hal::Device& device, int64_t total, Before before, Queue queue, After after) {
  if (total == 0) return OkStatus();
  HY_ASSIGN(const auto staging,
            device.AllocateBuffer(hal::MemoryKind::kStaging, std::min(kUploadBytes, total)));
  HY_ASSIGN(const auto semaphore, device.CreateSemaphore(0));
  HY_ASSIGN(uint8_t * mapped, staging->Map(0, staging->size_bytes()));
  uint64_t step = 0;
  for (int64_t at = 0; at < total; at += kUploadBytes) {
    const hal::BufferRange piece{staging.get(), 0, std::min(kUploadBytes, total - at)};
    HY_TRY(before(mapped, at, piece));
    const hal::SemaphorePoint done{semaphore.get(), ++step};
    hal::Ordering ordering;
    ordering.signals = {&done, 1};
    ordering.caller_waits = true;
    HY_TRY(queue(at, piece, ordering));
    HY_TRY(device.Wait({&done, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    HY_TRY(after(mapped, at, piece));
  }
  return OkStatus();
}

}  // namespace

Status Upload(hal::Device& device, std::span<const uint8_t> bytes, const hal::BufferRange& target) {
  const auto fill = [&](uint8_t* mapped, int64_t at, const hal::BufferRange& piece) {
    std::memcpy(mapped, bytes.data() + at, static_cast<size_t>(piece.size_bytes));
    return piece.buffer->FlushMapped(0, piece.size_bytes);
  };
  const auto copy = [&](int64_t at, const hal::BufferRange& piece, const hal::Ordering& ordering) {
    return device.QueueCopy(0, ordering, piece,
                            {target.buffer, target.offset + at, piece.size_bytes});
  };
  const auto nothing = [](uint8_t*, int64_t, const hal::BufferRange&) { return OkStatus(); };
  return InPieces(device, static_cast<int64_t>(bytes.size()), fill, copy, nothing);
}

Status Download(hal::Device& device, const hal::BufferRange& source, std::span<uint8_t> bytes) {
  const auto nothing = [](uint8_t*, int64_t, const hal::BufferRange&) { return OkStatus(); };
  const auto copy = [&](int64_t at, const hal::BufferRange& piece, const hal::Ordering& ordering) {
    return device.QueueCopy(0, ordering, {source.buffer, source.offset + at, piece.size_bytes},
                            piece);
  };
  const auto take = [&](uint8_t* mapped, int64_t at, const hal::BufferRange& piece) -> Status {
    HY_TRY(piece.buffer->InvalidateMapped(0, piece.size_bytes));
    std::memcpy(bytes.data() + at, mapped, static_cast<size_t>(piece.size_bytes));
    return OkStatus();
  };
  return InPieces(device, static_cast<int64_t>(bytes.size()), nothing, copy, take);
}

Result<std::shared_ptr<LoadedProgram>> LoadedProgram::Load(program::Program program,
                                                           std::vector<Ref<hal::Device>> devices) {
  if (devices.size() != program.devices.size()) {
    return InvalidArgument("The program is for {}; {} are given.",
                           Counted(program.devices.size(), "device"), devices.size());
  }
  std::shared_ptr<LoadedProgram> loaded(new LoadedProgram());
  loaded->program_ = std::move(program);
  loaded->devices_ = std::move(devices);
  const auto timed = [&](const char* phase, Status (LoadedProgram::*part)()) -> Status {
    const auto start = std::chrono::steady_clock::now();
    HY_TRY((loaded.get()->*part)());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    loaded->phases_.push_back({phase, passed.count()});
    return OkStatus();
  };
  HY_TRY(timed("load code", &LoadedProgram::LoadExecutables));
  HY_TRY(timed("load weights", &LoadedProgram::LoadConstants));
  loaded->FindPaths();
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
    for (const std::string& note : executables_.back()->notes()) {
      std::string event = fmt::format("'{}': {}", device.path(), note);
      if (std::find(events_.begin(), events_.end(), event) == events_.end()) {
        events_.push_back(std::move(event));
      }
    }
  }
  return OkStatus();
}

Status LoadedProgram::LoadConstants() {
  constant_buffers_.resize(devices_.size());
  constant_offsets_.resize(program_.constants.size());
  is_streamed_ = program::StreamedConstants(program_);
  streamed_buffers_.resize(devices_.size());
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    HY_TRY_CONTEXT(LoadStreamedOf(d), "placing the weights that '{}' streams", devices_[d]->path());
    HY_TRY_CONTEXT(LoadConstantsOf(d), "placing constants on '{}'", devices_[d]->path());
  }
  return OkStatus();
}

// Page-locked, so that the device's own queue fetches them.
Status LoadedProgram::LoadStreamedOf(uint32_t index) {
  int64_t total = 0;
  for (uint32_t c = 0; c < program_.constants.size(); ++c) {
    if (!is_streamed_[c] || program_.constants[c].device != index) continue;
    constant_offsets_[c] = total;
    total += StagingBytes(static_cast<int64_t>(program_.constants[c].size_bytes));
  }
  if (total == 0) return OkStatus();
  HY_ASSIGN(streamed_buffers_[index],
            devices_[index]->AllocateBuffer(hal::MemoryKind::kStaging, total));
  HY_ASSIGN(uint8_t * mapped, streamed_buffers_[index]->Map(0, total));
  const std::span<const uint8_t> data = program_.DataBytes();
  for (uint32_t c = 0; c < program_.constants.size(); ++c) {
    const program::Constant& constant = program_.constants[c];
    if (!is_streamed_[c] || constant.device != index) continue;
    std::memcpy(mapped + constant_offsets_[c], data.data() + constant.offset, constant.size_bytes);
  }
  return streamed_buffers_[index]->FlushMapped(0, total);
}

namespace {

// Constants of one device that follow each other in the data, which travel together.
struct Run {
  uint64_t begin = 0, end = 0;  // in the data
  int64_t offset = 0;           // in the device's buffer
};

}  // namespace

Status LoadedProgram::LoadConstantsOf(uint32_t index) {
  hal::Device& device = *devices_[index];
  std::vector<uint32_t> own;
  for (uint32_t c = 0; c < program_.constants.size(); ++c) {
    const program::Constant& constant = program_.constants[c];
    if (constant.device == index && constant.size_bytes > 0 && !is_streamed_[c]) own.push_back(c);
  }
  if (own.empty()) return OkStatus();
  std::sort(own.begin(), own.end(), [&](uint32_t a, uint32_t b) {
    return program_.constants[a].offset < program_.constants[b].offset;
  });
  const bool in_place = SharesHostMemory(device);
  const std::span<const uint8_t> data = program_.DataBytes();
  // A mapped file serves a device that works in the host's memory as it is, whatever is between.
  const bool is_one_run = in_place && program_.mapping != nullptr;
  const auto align = [](uint64_t value) {
    return (value + program::kDataAlignment - 1) / program::kDataAlignment *
           program::kDataAlignment;
  };
  std::vector<Run> runs;
  int64_t total = 0;
  for (const uint32_t c : own) {
    const program::Constant& constant = program_.constants[c];
    if (runs.empty() || (!is_one_run && constant.offset > align(runs.back().end))) {
      runs.push_back({constant.offset, constant.offset,
                      static_cast<int64_t>(align(static_cast<uint64_t>(total)))});
    }
    Run& run = runs.back();
    run.end = std::max(run.end, constant.offset + constant.size_bytes);
    constant_offsets_[c] = run.offset + static_cast<int64_t>(constant.offset - run.begin);
    total = run.offset + static_cast<int64_t>(run.end - run.begin);
  }
  const auto bytes_of = [&](const Run& run) {
    return data.subspan(run.begin, run.end - run.begin);
  };
  if (is_one_run) {
    hal::HostMemory memory;
    memory.address = const_cast<uint8_t*>(bytes_of(runs[0]).data());
    memory.size_bytes = total;
    memory.is_read_only = true;
    memory.release = [keep_alive = program_.mapping] {};
    auto imported = device.ImportHostMemory(std::move(memory));
    if (imported.ok()) {
      constant_buffers_[index] = std::move(imported).value();
      return OkStatus();
    }
    if (imported.status().code() != StatusCode::kIncompatible) return imported.status();
  }
  HY_ASSIGN(constant_buffers_[index],
            device.AllocateBuffer(
                in_place ? hal::MemoryKind::kHostVisible : hal::MemoryKind::kDevice, total));
  hal::Buffer* buffer = constant_buffers_[index].get();
  if (!in_place) {
    for (const Run& run : runs) {
      HY_TRY(Upload(device, bytes_of(run),
                    {buffer, run.offset, static_cast<int64_t>(run.end - run.begin)}));
    }
    return OkStatus();
  }
  HY_ASSIGN(uint8_t * mapped, buffer->Map(0, total));
  for (const Run& run : runs) {
    const auto bytes = bytes_of(run);
    std::memcpy(mapped + run.offset, bytes.data(), bytes.size());
  }
  if (devices_.size() == 1 && runs.size() == 1 && runs[0].begin == 0 &&
      program_.mapping == nullptr &&
      std::find(is_streamed_.begin(), is_streamed_.end(), true) == is_streamed_.end()) {
    // The buffer now holds what `data` held; one copy is enough, also for saving.
    auto keep_alive = std::make_shared<Ref<hal::Buffer>>(constant_buffers_[index]);
    program_.mapped_data = {mapped, static_cast<size_t>(total)};
    program_.mapping = std::shared_ptr<const void>(keep_alive, mapped);
    program_.data = {};
  }
  return OkStatus();
}

void LoadedProgram::FindPaths() {
  const size_t count = devices_.size();
  paths_.resize(count * count);
  std::vector<bool> is_known(count * count, false);
  for (const program::Entry& entry : program_.entries) {
    for (const program::Block& block : entry.blocks) {
      for (const program::Command& command : block.commands) {
        if (command.kind != program::CommandKind::kTransfer) continue;
        const uint32_t from = program_.DeviceOf(entry, entry.buffers[command.bindings[0]]);
        if (from == block.device) continue;  // streamed weights
        const size_t pair = from * count + block.device;
        if (is_known[pair]) continue;
        is_known[pair] = true;
        paths_[pair] = FindTransferPath(*devices_[from], *devices_[block.device]);
      }
    }
  }
}

Result<std::shared_ptr<LoadedProgram>> LoadedProgram::Replacement() {
  std::string lost;
  for (const Ref<hal::Device>& device : devices_) {
    if (device->health().ok()) continue;
    lost += fmt::format("{}'{}'", lost.empty() ? "" : " and ", device->path());
  }
  if (lost.empty() || !replanner_) return std::shared_ptr<LoadedProgram>();
  const std::lock_guard lock(replan_mutex_);
  if (replacement_) return replacement_;
  auto made = replanner_();
  if (!made.ok()) {
    return made.status().WithContext(
        fmt::format("placing '{}' anew without {}", program_.model_name, lost));
  }
  replacement_ = std::move(made).value();
  const std::lock_guard events_lock(events_mutex_);
  std::string names;
  for (const auto& device : replacement_->devices()) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", device->path());
  }
  events_.push_back(
      fmt::format("Device {} was lost; the program was placed anew and runs on {}.", lost, names));
  return replacement_;
}

std::vector<std::string> LoadedProgram::events() const {
  const std::lock_guard lock(events_mutex_);
  return events_;
}

hal::BufferRange LoadedProgram::constant(uint32_t index) const {
  const program::Constant& constant = program_.constants[index];
  const auto& buffers = is_streamed_[index] ? streamed_buffers_ : constant_buffers_;
  return {buffers[constant.device].get(), constant_offsets_[index],
          static_cast<int64_t>(constant.size_bytes)};
}

}  // namespace halyard::runtime
