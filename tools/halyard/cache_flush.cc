// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/cache_flush.h"

#include <algorithm>

namespace halyard::tools {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kUnknownCache = 128 * kMiB;  // more than GPUs of these years have

int64_t LastCacheBytes(const hy::Device& device) {
  hy_device_info info = HY_DEVICE_INFO_INIT;
  hy_device_memory memory = HY_DEVICE_MEMORY_INIT;
  info.next = &memory;
  hy::Check(hy_device_get_info(device.get(), &info));
  return std::max<int64_t>(memory.last_cache_bytes, 0);
}

hy::Program CompileSweep(const hy::Instance& instance, const hy::Device& device, int64_t elements) {
  const hy::Graph graph = hy::Graph::Create(instance);
  const hy_value x = graph.Input("x", HY_DTYPE_F32, std::to_string(elements));
  graph.Output("y", graph.Op("neg", {x}));
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  hy_device_t* const devices[] = {device.get()};
  desc.graph = graph.get();
  desc.devices = devices;
  desc.device_count = 1;
  desc.disable_tuning = 1;
  return hy::Program::Compile(instance, desc);
}

hy_tensor TensorIn(const hy::Buffer& buffer, int64_t elements) {
  hy_tensor tensor = HY_TENSOR_INIT;
  tensor.dtype = HY_DTYPE_F32;
  tensor.rank = 1;
  tensor.dims[0] = elements;
  tensor.buffer = buffer.get();
  tensor.size_bytes = static_cast<size_t>(elements) * sizeof(float);
  return tensor;
}

}  // namespace

int64_t FlushBytes(int64_t cache_bytes) {
  const int64_t last = cache_bytes > 0 ? cache_bytes : kUnknownCache;
  // Whole MiB: sizes of kernels that any machine with such a cache finds in its own cache.
  return std::max(16 * kMiB, (2 * last + kMiB - 1) / kMiB * kMiB);
}

CacheFlush::CacheFlush(const hy::Instance& instance, const std::vector<hy::Device>& devices) {
  for (const hy::Device& device : devices) {
    const int64_t cache = LastCacheBytes(device), bytes = FlushBytes(cache);
    const auto elements = bytes / static_cast<int64_t>(sizeof(float));
    const auto size = static_cast<size_t>(bytes);
    Sweep sweep;
    sweep.from = hy::Buffer::Create(device, size);
    sweep.to = hy::Buffer::Create(device, size);
    // Memory that nobody wrote can be one page, many times.
    const std::vector<float> part(kMiB / sizeof(float), 1.0f);
    for (size_t at = 0; at < size; at += static_cast<size_t>(kMiB))
      sweep.from.Write(part.data(), static_cast<size_t>(kMiB), at);
    sweep.session = hy::Session::Create(CompileSweep(instance, device, elements));
    sweep.inputs = {TensorIn(sweep.from, elements)};
    sweep.outputs = {TensorIn(sweep.to, elements)};
    sweeps_.push_back(std::move(sweep));
    Json json = {{"device", hy::ToString(device.info().path)}, {"bytes", bytes}};
    if (cache > 0) json["cache_bytes"] = cache;
    report_.push_back(std::move(json));
  }
  Run();  // compiled code and pages
  runs_ = 0;
  for (size_t i = 0; i < sweeps_.size(); ++i) {
    const size_t end = sweeps_[i].outputs[0].size_bytes;
    for (const size_t at : {size_t{0}, end - sizeof(float)}) {
      float written = 0;
      sweeps_[i].to.Read(&written, sizeof(written), at);
      if (written == -1) continue;
      throw CommandError(kSystemFailure, "emptying the caches of " +
                                             report_[i]["device"].get<std::string>() + " wrote " +
                                             std::to_string(written) + " at byte " +
                                             std::to_string(at) + "; -1 is expected");
    }
  }
}

void CacheFlush::Run() {
  for (Sweep& sweep : sweeps_) sweep.session.Run(sweep.inputs, sweep.outputs);
  ++runs_;
}

Json CacheFlush::Report() const {
  Json report = report_;
  for (Json& device : report) device["sweeps"] = runs_;
  return report;
}

}  // namespace halyard::tools
