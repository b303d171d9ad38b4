// SPDX-License-Identifier: Apache-2.0
#include "tests/hal/cts/cts.h"

#include <gtest/gtest-spi.h>

#include <cstdlib>
#include <cstring>

#include "drivers/init.h"
#include "drivers/vulkan/instance.h"
#include "hal/registry.h"
#include "hal/validation.h"

namespace halyard::cts {
namespace {

bool Matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty() || pattern.back() != '*') return pattern == text;
  return text.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
}

constexpr Exception kUnsupported[] = {
    {"null*", "Buffer*", "the null device has no memory"},
    {"null*", "Queue*", "the null device has no queue"},
    {"null*", "Command*", "the null device has no command buffers"},
    {"null*", "Executable*", "the null device takes no code"},
};

// With HALYARD_VALIDATE the Vulkan validation layer judges whatever the cases make the driver do.
class ValidationLayerIsSilent : public testing::Environment {
 public:
  void TearDown() override {
    EXPECT_EQ(drivers::vulkan::ValidationMessageCount(), 0) << "see the log above";
  }
};
const auto* const g_silence = testing::AddGlobalTestEnvironment(new ValidationLayerIsSilent);

}  // namespace

std::vector<Backend> AllBackends() {
  std::vector<Backend> backends;
  Backend null;
  null.name = null.path = "null";
  Backend cpu;
  cpu.name = cpu.path = "cpu";
  cpu.kernels = &CpuKernels();
  Backend one_thread = cpu;
  one_thread.name = "cpu_one_thread";
  one_thread.path = "cpu:0?threads=1&queues=2";
  Backend discrete = cpu;
  discrete.name = "cpu_discrete";
  discrete.path = "cpu:0?discrete=7";
  discrete.maps_device_memory = discrete.imports_host_memory = false;
  Backend synthetic = discrete;
  synthetic.name = "cpu_synthetic";
  synthetic.path =
      "cpu:1?synthetic=1&speed_percent=50&link_bytes_per_s=200000000&link_latency_us=20";
  // On the stand-in for libcuda, unless HALYARD_CUDA_LIBRARY names the real one.
  Backend cuda = cpu;
  cuda.name = cuda.path = "cuda";
  cuda.kernels = &CudaKernels();
  cuda.maps_device_memory = false;
  cuda.environment = {{"HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA}};
  Backend cuda_graphs = cuda;
  cuda_graphs.name = "cuda_graphs";
  cuda_graphs.path = "cuda:0?graph_commands=1&compute_queues=3";
  cuda_graphs.kernels = &CudaWaitingKernels();
  Backend vulkan;
  vulkan.name = "vulkan";
  vulkan.path = "vulkan:0";
  vulkan.kernels = &SpirvKernels();
  vulkan.maps_device_memory = vulkan.imports_host_memory = std::nullopt;
  Backend vulkan_lanes = vulkan;
  vulkan_lanes.name = "vulkan_lanes";
  vulkan_lanes.path = "vulkan:0?queues=3";
  for (Backend backend :
       {null, cpu, one_thread, discrete, synthetic, cuda, cuda_graphs, vulkan, vulkan_lanes}) {
    backends.push_back(backend);
    backend.name += "_validated";
    backend.is_validated = true;
    backends.push_back(backend);
  }
  return backends;
}

std::vector<Backend> BackendsFor(std::string_view test) {
  std::vector<Backend> backends;
  for (const Backend& backend : AllBackends()) {
    if (!Find(Unsupported(), backend.name, test)) backends.push_back(backend);
  }
  return backends;
}

std::string BackendName(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

std::span<const Exception> Unsupported() { return kUnsupported; }

// Empty at present; ExpectToFail has tests of its own in lists_test.cc.
std::span<const Exception> ExpectedFailures() { return {}; }

const Exception* Find(std::span<const Exception> list, std::string_view backend,
                      std::string_view test) {
  for (const Exception& row : list) {
    if (Matches(row.backend, backend) && Matches(row.test, test)) return &row;
  }
  return nullptr;
}

void ExpectToFail(const std::function<void()>& body, std::string_view reason) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    body();
  }
  for (int i = 0; i < results.size(); ++i) {
    if (results.GetTestPartResult(i).failed()) return;
  }
  ADD_FAILURE() << "This case is listed as an expected failure (" << reason
                << ") and passes; delete its row.";
}

void HalTest::SetUp() {
  for (const auto& [name, value] : GetParam().environment) setenv(name, value, 0);
  hal::DriverRegistry registry;
  ASSERT_OK(RegisterAllDrivers(&registry));
  Result<Ref<hal::Device>> device = registry.OpenDevice(GetParam().path);
  ASSERT_OK(device);
  device_ = GetParam().is_validated ? hal::WrapInValidation(*device) : *device;
}

bool HalTest::maps_device_memory() const {
  return GetParam().maps_device_memory.value_or(
      device_->capabilities().memory.is_host_memory.ValueOr(false));
}

bool HalTest::imports_host_memory() const {
  return GetParam().imports_host_memory.value_or(
      device_->capabilities().memory.is_host_memory.ValueOr(false));
}

void HalTest::RunCase(std::string_view test, const std::function<void()>& body) {
  if (const Exception* row = Find(ExpectedFailures(), GetParam().name, test)) {
    return ExpectToFail(body, row->reason);
  }
  body();
}

hal::ExecutableSource HalTest::Source(std::span<const uint8_t> code,
                                      std::span<const hal::ExecutableEntry> entries) const {
  hal::ExecutableSource source;
  source.format = kernels().format();
  source.code = code;
  source.name = "under test";
  source.entries = entries;
  return source;
}

Ref<hal::Buffer> HalTest::Allocate(int64_t size_bytes, hal::MemoryKind kind) {
  Result<Ref<hal::Buffer>> buffer = device_->AllocateBuffer(kind, size_bytes);
  EXPECT_OK(buffer);
  return buffer.ok() ? *buffer : nullptr;
}

Ref<hal::Buffer> HalTest::Upload(std::span<const int64_t> values) {
  Ref<hal::Buffer> buffer = Allocate(static_cast<int64_t>(values.size_bytes()));
  Ref<hal::Semaphore> done = NewSemaphore();
  hal::SemaphorePoint signal{done.get(), 1};
  std::span bytes(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes());
  EXPECT_OK(device_->QueueUpdate(0, {{}, {&signal, 1}}, bytes, Whole(buffer)));
  EXPECT_OK(WaitFor(done.get(), 1));
  return buffer;
}

std::vector<int64_t> HalTest::Download(hal::Buffer* buffer) {
  Ref<hal::Buffer> staging = Allocate(buffer->size_bytes(), hal::MemoryKind::kStaging);
  Ref<hal::Semaphore> done = NewSemaphore();
  hal::SemaphorePoint signal{done.get(), 1};
  EXPECT_OK(
      device_->QueueCopy(0, {{}, {&signal, 1}}, {buffer, 0, buffer->size_bytes()}, Whole(staging)));
  EXPECT_OK(WaitFor(done.get(), 1));
  EXPECT_OK(staging->InvalidateMapped(0, staging->size_bytes()));
  Result<uint8_t*> mapped = staging->Map(0, staging->size_bytes());
  EXPECT_OK(mapped);
  std::vector<int64_t> values(static_cast<size_t>(buffer->size_bytes()) / sizeof(int64_t));
  if (mapped.ok()) std::memcpy(values.data(), *mapped, values.size() * sizeof(int64_t));
  return values;
}

Ref<hal::Semaphore> HalTest::NewSemaphore(uint64_t value) {
  Result<Ref<hal::Semaphore>> semaphore = device_->CreateSemaphore(value);
  EXPECT_OK(semaphore);
  return *semaphore;
}

Ref<hal::Executable> HalTest::LoadKernels(std::vector<std::string> sites) {
  std::vector<uint8_t> code = kernels().Image(device_->capabilities());
  const hal::ExecutableEntry entries[] = {{"add_scalar", 2, 1, sites},
                                          {"gather", 3, 1, sites},
                                          {"grid", 1, 2, sites},
                                          {"scratch", 1, 0, sites}};
  Result<Ref<hal::Executable>> executable = device_->LoadExecutable(Source(code, entries));
  EXPECT_OK(executable);
  return *executable;
}

Ref<hal::CommandBuffer> HalTest::NewCommands() {
  Result<Ref<hal::CommandBuffer>> commands = device_->CreateCommandBuffer();
  EXPECT_OK(commands);
  return *commands;
}

Status HalTest::WaitFor(hal::Semaphore* semaphore, uint64_t value) {
  hal::SemaphorePoint point{semaphore, value};
  return device_->Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
}

Status HalTest::RunNow(hal::CommandBuffer* commands, std::span<const hal::BufferRange> bindings) {
  Ref<hal::Semaphore> done = NewSemaphore();
  hal::SemaphorePoint signal{done.get(), 1};
  HY_TRY(device_->Submit(0, {{{}, {&signal, 1}, true}, commands, bindings}));
  return WaitFor(done.get(), 1);
}

}  // namespace halyard::cts
