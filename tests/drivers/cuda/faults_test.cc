// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA API fails once, at every place where a run makes it: the run ends, with a
// Status or without one, everything is freed, and the next run is as good as the first.
#include <cstring>
#include <vector>

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
    const std::vector<uint8_t> image = cts::CudaKernels().Image(device->capabilities());
    hal::ExecutableSource source;
    source.format = cts::CudaKernels().format();
    source.code = image;
    HY_ASSIGN(Ref<hal::Executable> executable, device->LoadExecutable(source));
    Ref<hal::Buffer> buffers[3];
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
    HY_TRY(commands->Finish());

    hal::SemaphorePoint points[8];
    for (uint64_t i = 0; i < 8; ++i) points[i] = {timeline.get(), i};
    const std::vector<uint8_t> bytes(4096, 1);
    auto step = [&](uint64_t i) {
      return hal::Ordering{{&points[i], 1}, {&points[i + 1], 1}, i % 2 == 0};
    };
    auto submit = [&](uint32_t queue, uint64_t i, size_t a, size_t b) {
      const hal::BufferRange table[] = {cts::Whole(buffers[a]), cts::Whole(buffers[b])};
      return device->Submit(queue, {step(i), commands.get(), table});
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
    return OkStatus();
  }
};

class CudaFaultSweep : public CudaFaultTest, public testing::WithParamInterface<int> {
 protected:
  // One run in which the `nth` call of `function` fails; whether there were so many calls.
  bool RunWithFailure(const std::vector<hal::DeviceOption>& options, const char* function,
                      long nth) {
    fake_.fail(function, nth, GetParam());
    Status status = Run(options);
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
  for (const char* graph_commands : {"1", "100"}) {
    const std::vector<hal::DeviceOption> options = {{"graph_commands", graph_commands}};
    ASSERT_OK(Run(options));
    ASSERT_EQ(fake_.Leaks(), "");
    failures_ = 0;
    for (long nth = ++first; RunWithFailure(options, "*", nth); nth += stride) {
      ASSERT_LT(nth, 2000);
    }
    // Most calls matter; the rest free things.
    EXPECT_GT(failures_, 60 / stride);
    for (const char* function : {"cuEventQuery", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}) {
      for (long nth = 1; nth < 40 && RunWithFailure(options, function, nth); nth += stride) {
      }
    }
    EXPECT_OK(Run(options));
  }
}

// A wrong argument, no memory, a fault that the context does not survive.
INSTANTIATE_TEST_SUITE_P(Errors, CudaFaultSweep, testing::Values(1, 2, 700));

}  // namespace
}  // namespace halyard::drivers::cuda
