// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA API fails once, at every place where a run makes it: the run ends, with a
// Status or without one, everything is freed, and the next run is as good as the first.
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

#include "base/gpu_image.h"
#include "drivers/cuda/cuda_api.h"
#include "tests/drivers/cuda/fake_cuda.h"
#include "tests/sanitized.h"

namespace halyard::drivers::cuda {
namespace {

using hal::CommandRange;

class CudaFaultTest : public FakeCudaTest {
 protected:
  // Opens, allocates, loads, records, submits on both queues, waits and closes; the first failure.
  Status Run(const std::vector<hal::DeviceOption>& options) {
    HY_ASSIGN(Ref<hal::Driver> driver, OpenCudaDriver());
    HY_TRY(driver->EnumerateDevices());
    HY_ASSIGN(Ref<hal::Device> device, driver->CreateDevice(0, options));
    device_ = device;
    Status status = Work(device.get());
    // Nobody waits for what was queued before a failure.
    HY_TRY(device->Flush());
    device_.reset();
    return status;
  }

  Status Work(hal::Device* device) {
    const std::vector<uint8_t> small = cts::CudaKernels().Image(device->capabilities());
    HY_ASSIGN(GpuImage kernels, ReadGpuImage(small));
    // More than a kernel gets that does not ask for it.
    for (GpuKernel& kernel : kernels.kernels) kernel.dynamic_workgroup_bytes = 64 << 10;
    const std::vector<uint8_t> image = WriteGpuImage(kernels);
    hal::ExecutableSource source;
    source.format = cts::CudaKernels().format();
    source.code = image;
    HY_ASSIGN(Ref<hal::Executable> executable, device->LoadExecutable(source));
    Ref<hal::Buffer> buffers[6];
    for (auto& buffer : buffers) {
      HY_ASSIGN(buffer, device->AllocateBuffer(hal::MemoryKind::kDevice, 4096));
    }
    HY_ASSIGN(Ref<hal::Buffer> staging, device->AllocateBuffer(hal::MemoryKind::kStaging, 4096));
    alignas(64) static uint8_t imported[4096];
    HY_ASSIGN(Ref<hal::Buffer> host,
              device->ImportHostMemory({imported, sizeof(imported), false, {}}));
    HY_ASSIGN(Ref<hal::Semaphore> timeline, device->CreateSemaphore(0));

    HY_ASSIGN(Ref<hal::CommandBuffer> commands, device->CreateCommandBuffer());
    const int64_t one = 1;
    const CommandRange bindings[2] = {CommandRange::Slot(0, 0, 4096),
                                      CommandRange::Slot(1, 0, 4096)};
    const CommandRange scratch = CommandRange::Direct(buffers[2].get(), 0, 4096);
    HY_TRY(commands->Dispatch(AddCommand(executable.get(), bindings, one, 512)));
    HY_TRY(commands->Fill(scratch, 0x0102030405060708, 8));
    HY_TRY(commands->Barrier());
    HY_TRY(commands->Dispatch(AddCommand(executable.get(), bindings, one, 512)));
    HY_TRY(commands->Copy(scratch, CommandRange::Direct(host.get(), 0, 4096)));
    HY_TRY(commands->Barrier());
    HY_TRY(commands->Dispatch(AddCommand(executable.get(), bindings, one, 512)));
    HY_TRY(commands->Barrier());
    // Two behind three, and both with slots.
    HY_TRY(commands->Fill(CommandRange::Slot(2, 0, 512), 7, 1));
    HY_TRY(commands->Copy(CommandRange::Slot(1, 0, 512), CommandRange::Slot(2, 512, 512)));
    HY_TRY(commands->Fill(CommandRange::Slot(2, 1024, 512), 7, 2));
    HY_TRY(commands->Barrier());
    HY_TRY(commands->Fill(scratch, 1, 4));
    HY_TRY(commands->Fill(CommandRange::Slot(2, 0, 512), 9, 2));
    HY_TRY(commands->Finish());

    hal::SemaphorePoint points[9];
    for (uint64_t i = 0; i < 9; ++i) points[i] = {timeline.get(), i};
    const std::vector<uint8_t> bytes(4096, 1);
    auto step = [&](uint64_t i) {
      return hal::Ordering{{&points[i], 1}, {&points[i + 1], 1}, i % 2 == 0};
    };
    const Ref<hal::CommandTime> time = MakeRef<hal::CommandTime>();
    auto submit = [&](uint32_t queue, uint64_t i, size_t a, size_t b, size_t c = 3) {
      const hal::BufferRange table[] = {cts::Whole(buffers[a]), cts::Whole(buffers[b]),
                                        cts::Whole(buffers[c])};
      return device->Submit(queue, {step(i), commands.get(), table, time.get()});
    };
    hal::HostCall call;
    call.function = [](void*) { return OkStatus(); };
    HY_TRY(device->QueueUpdate(1, step(0), bytes, cts::Whole(buffers[0])));
    HY_TRY(submit(0, 1, 0, 1));
    HY_TRY(submit(1, 2, 1, 0));
    HY_TRY(device->QueueHostCall(0, step(3), call));
    HY_TRY(device->QueueFill(0, step(4), cts::Whole(buffers[1]), 7, 8));
    HY_TRY(submit(0, 5, 0, 1));
    HY_TRY(device->QueueCopy(1, step(6), cts::Whole(buffers[1]), cts::Whole(staging)));
    HY_TRY(WaitFor(timeline.get(), 7));
    HY_ASSIGN(uint8_t * mapped, staging->Map(0, 4096));
    int64_t last;
    std::memcpy(&last, mapped + 4088, sizeof(last));
    // Ones in every byte, three replays of which each adds one (three times the same addition).
    if (last != 0x0101010101010101 + 3) return Internal("The result is {:#x}.", last);
    // Nothing is in flight any more, so that a graph that is there gets other buffers.
    HY_TRY(submit(0, 7, 2, 4, 5));
    return WaitFor(timeline.get(), 8);
  }

  // Copies to another device that it reaches, and back.
  Status RunOnTwo() {
    fake_.set_device_count(2);
    Status status = CopyBetweenTwo();
    if (device_) {
      HY_TRY(device_->Flush());
    }
    device_.reset();
    return status;
  }
  Status CopyBetweenTwo() {
    HY_ASSIGN(Ref<hal::Driver> driver, OpenCudaDriver());
    HY_ASSIGN(device_, driver->CreateDevice(0, {}));
    HY_ASSIGN(Ref<hal::Device> other, driver->CreateDevice(1, {}));
    HY_ASSIGN(const hal::LinkInfo link, device_->LinkTo(*other));
    if (!link.can_copy_direct) return Internal("The devices do not reach each other.");
    HY_ASSIGN(Ref<hal::Buffer> here, device_->AllocateBuffer(hal::MemoryKind::kDevice, 4096));
    HY_ASSIGN(Ref<hal::Buffer> there, other->AllocateBuffer(hal::MemoryKind::kDevice, 4096));
    HY_ASSIGN(Ref<hal::Semaphore> timeline, device_->CreateSemaphore(0));
    const hal::SemaphorePoint one{timeline.get(), 1}, two{timeline.get(), 2};
    HY_TRY(device_->QueueCopy(0, {{}, {&one, 1}}, cts::Whole(here), cts::Whole(there)));
    HY_TRY(device_->QueueCopy(0, {{&one, 1}, {&two, 1}}, cts::Whole(there), cts::Whole(here)));
    return WaitFor(timeline.get(), 2);
  }

  // A GPU whose driver has no pools of memory.
  void PlayWithoutPools() {
    std::ifstream file(HALYARD_SOURCE_DIR "/tests/drivers/cuda/recordings/h200.txt");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string pools = "cuDeviceGetAttribute 115 = ";
    const size_t at = text.find(pools);
    ASSERT_NE(at, std::string::npos);
    text[at + pools.size()] = '0';
    const std::string path = testing::TempDir() + "/without_pools.txt";
    std::ofstream(path) << text;
    fake_.play(path.c_str());
  }
};

// What the sweep cannot reach would never be made to fail.
TEST_F(CudaFaultTest, TheRunMakesEveryCallOfTheDriver) {
  fake_.set_delay_us(0);
  std::map<std::string, long> before;
#define HY_CUDA_COUNT(name, parameters) before[#name] = fake_.call_count(#name);
  HY_CUDA_FUNCTIONS(HY_CUDA_COUNT)
#undef HY_CUDA_COUNT
  for (const char* graph_commands : {"1", "100"}) {
    ASSERT_OK(Run({{"graph_commands", graph_commands}}));
  }
  ASSERT_OK(RunOnTwo());
  fake_.set_device_count(1);
  PlayWithoutPools();
  ASSERT_OK(Run({{"graph_commands", "100"}}));
  std::string never;
  for (const auto& [name, count] : before) {
    // What an error is called changes nothing.
    if (name.rfind("cuGetError", 0) != 0 && fake_.call_count(name.c_str()) == count)
      never += name + " ";
  }
  EXPECT_EQ(never, "");
}

class CudaFaultSweep : public CudaFaultTest, public testing::WithParamInterface<int> {
 protected:
  // One run in which the `nth` call of `function` fails; whether there were so many calls.
  bool RunWithFailure(const std::function<Status()>& run, const char* function, long nth) {
    fake_.fail(function, nth, GetParam());
    Status status = run();
    const bool has_failed = fake_.has_failed() != 0;
    fake_.reset();
    EXPECT_NE(status.code(), StatusCode::kDeadlineExceeded) << "call " << nth;
    EXPECT_EQ(fake_.Leaks(), "") << "call " << nth << ": " << status.ToString();
    failures_ += !status.ok();
    return has_failed && !HasFailure();
  }

  int failures_ = 0;
};

TEST_P(CudaFaultSweep, EveryCallMayFail) {
  fake_.set_delay_us(0);
  // Under a sanitizer each error meets every ninth call, each time others.
  const long stride = HALYARD_SANITIZED ? 9 : 1;
  long first = GetParam() % stride;
  for (const char* variant : {"1", "100", "two devices", "without pools"}) {
    SCOPED_TRACE(variant);
    const bool is_two = std::strcmp(variant, "two devices") == 0;
    const bool is_bare = std::strcmp(variant, "without pools") == 0;
    if (is_bare) PlayWithoutPools();
    const std::function<Status()> run = [&] {
      return is_two ? RunOnTwo() : Run({{"graph_commands", is_bare ? "100" : variant}});
    };
    ASSERT_OK(run());
    ASSERT_EQ(fake_.Leaks(), "");
    failures_ = 0;
    for (long nth = ++first; RunWithFailure(run, "*", nth); nth += stride) {
      ASSERT_LT(nth, 2000);
    }
    // Most calls matter; the rest free things.
    EXPECT_GT(failures_, (is_two ? 20 : 60) / stride);
    for (const char* function : {"cuEventQuery", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}) {
      for (long nth = 1; nth < 40 && RunWithFailure(run, function, nth); nth += stride) {
      }
    }
    EXPECT_OK(run());
    fake_.set_device_count(1);
  }
}

// A wrong argument, no memory, a fault that the context does not survive.
INSTANTIATE_TEST_SUITE_P(Errors, CudaFaultSweep, testing::Values(1, 2, 700));

}  // namespace
}  // namespace halyard::drivers::cuda
