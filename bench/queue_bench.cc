// SPDX-License-Identifier: Apache-2.0
// queue_bench: what the queues of a device cost, through the HAL alone, with the kernels of the
// conformance suite. Prints the median of repeated blocks.
//
//   queue_bench DEVICE [ROUNDS [waiting]]
//
//   waiting            with CUDA kernels for programmatic dependent launch
//   submit and wait    one dispatch of one workgroup, from the call to the caller's return
//   replay of N        N dependent dispatches of one recording, per dispatch; with the same
//   buffers,
//                      with others at each submission, and the host's share of a submission
//   pipelined          submissions that wait for each other on the device, per submission
//   copies             64 MiB and 256 MiB: device to device (bytes read plus written), host to
//                      device and back from staging memory
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/must.h"
#include "drivers/init.h"
#include "hal/registry.h"
#include "tests/hal/cts/test_kernels.h"

namespace halyard {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double MedianMicroseconds(int rounds, const std::function<void()>& body) {
  for (int i = 0; i < 20; ++i) body();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    body();
    seconds.push_back(SecondsSince(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<size_t>(rounds / 2)] * 1e6;
}

class Bench {
 public:
  Bench(Ref<hal::Device> device, const cts::TestKernels& kernels, int rounds)
      : device_(std::move(device)), rounds_(rounds) {
    const std::vector<uint8_t> image = kernels.Image(device_->capabilities());
    hal::ExecutableSource source;
    source.format = kernels.format();
    source.code = image;
    executable_ = Must(device_->LoadExecutable(source));
    timeline_ = Must(device_->CreateSemaphore(0));
    for (auto& buffer : buffers_) buffer = NewBuffer(kCount * 8);
  }

  void Run() {
    Ref<hal::CommandBuffer> one = Record(1);
    std::printf("submit and wait            %8.2f us\n",
                MedianMicroseconds(rounds_, [&] { SubmitAndWait(one, 0); }));
    for (int64_t count : {1, 10, 100, 1000}) {
      Ref<hal::CommandBuffer> commands = Record(count);
      const double same = MedianMicroseconds(rounds_, [&] { SubmitAndWait(commands, 0); });
      size_t turn = 0;
      const double other = MedianMicroseconds(rounds_, [&] { SubmitAndWait(commands, ++turn); });
      double host = 0;
      for (int i = 0; i < rounds_; ++i) {
        const Clock::time_point start = Clock::now();
        Submit(commands, 0);
        host += SecondsSince(start);
        Must(WaitFor(value_));
      }
      std::printf(
          "replay of %-4lld             %8.2f us: %6.3f per dispatch; other buffers %8.2f us; "
          "host's share of the call %6.2f us\n",
          static_cast<long long>(count), same, same / static_cast<double>(count), other,
          host / rounds_ * 1e6);
    }
    Ref<hal::CommandBuffer> ten = Record(10);
    const double pipelined = MedianMicroseconds(rounds_, [&] {
      for (int i = 0; i < 50; ++i) Submit(ten, 0);
      Must(WaitFor(value_));
    });
    std::printf("pipelined replays of 10    %8.2f us per submission\n", pipelined / 50);
    for (int64_t mib : {64, 256}) Copies(mib << 20);
  }

 private:
  static constexpr int64_t kCount = 1;

  Ref<hal::Buffer> NewBuffer(int64_t bytes, hal::MemoryKind kind = hal::MemoryKind::kDevice) {
    return Must(device_->AllocateBuffer(kind, bytes));
  }

  // `count` dispatches, each after the one before, between slots 0 and 1.
  Ref<hal::CommandBuffer> Record(int64_t count) {
    Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
    for (int64_t i = 0; i < count; ++i) {
      const auto from = static_cast<uint32_t>(i % 2);
      const hal::CommandRange bindings[] = {hal::CommandRange::Slot(from, 0, 8 * kCount),
                                            hal::CommandRange::Slot(1 - from, 0, 8 * kCount)};
      const int64_t scalar = 1;
      hal::DispatchCommand command;
      command.executable = executable_.get();
      command.entry = 0;
      command.grid[0] = kCount;
      command.bindings = bindings;
      command.scalars = {&scalar, 1};
      command.label = "add";
      Must(commands->Dispatch(command));
      Must(commands->Barrier());
    }
    Must(commands->Finish());
    return commands;
  }

  void Submit(const Ref<hal::CommandBuffer>& commands, size_t turn) {
    const Ref<hal::Buffer>&a = buffers_[turn % 4], &b = buffers_[(turn + 1) % 4];
    const hal::BufferRange bindings[] = {{a.get(), 0, 8 * kCount}, {b.get(), 0, 8 * kCount}};
    const hal::SemaphorePoint wait{timeline_.get(), value_}, signal{timeline_.get(), value_ + 1};
    ++value_;
    Must(device_->Submit(0, {{{&wait, 1}, {&signal, 1}, true}, commands.get(), bindings}));
  }

  void SubmitAndWait(const Ref<hal::CommandBuffer>& commands, size_t turn) {
    Submit(commands, turn);
    Must(WaitFor(value_));
  }

  Status WaitFor(uint64_t value) {
    const hal::SemaphorePoint point{timeline_.get(), value};
    return device_->Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
  }

  void Copy(uint32_t queue, const Ref<hal::Buffer>& from, const Ref<hal::Buffer>& to) {
    const hal::SemaphorePoint signal{timeline_.get(), ++value_};
    Must(device_->QueueCopy(queue, {{}, {&signal, 1}, true}, {from.get(), 0, from->size_bytes()},
                            {to.get(), 0, to->size_bytes()}));
    Must(WaitFor(value_));
  }

  void Copies(int64_t bytes) {
    const Ref<hal::Buffer> a = NewBuffer(bytes), b = NewBuffer(bytes);
    const Ref<hal::Buffer> host = NewBuffer(bytes, hal::MemoryKind::kStaging);
    const uint32_t last = device_->queue_count() - 1;
    const int rounds = std::min(rounds_, 50);
    const double inside = MedianMicroseconds(rounds, [&] { Copy(0, a, b); });
    const double up = MedianMicroseconds(rounds, [&] { Copy(last, host, a); });
    const double down = MedianMicroseconds(rounds, [&] { Copy(last, a, host); });
    const double giga = static_cast<double>(bytes) / 1e3;
    std::printf("copies of %lld MiB, GB/s: device %.0f, to the device %.1f, from it %.1f\n",
                static_cast<long long>(bytes >> 20), 2 * giga / inside, giga / up, giga / down);
  }

  const Ref<hal::Device> device_;
  const int rounds_;
  Ref<hal::Executable> executable_;
  Ref<hal::Semaphore> timeline_;
  uint64_t value_ = 0;
  Ref<hal::Buffer> buffers_[4];
};

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: queue_bench DEVICE [ROUNDS [waiting]]\n");
    return 1;
  }
  hal::DriverRegistry registry;
  Must(RegisterAllDrivers(&registry));
  Ref<hal::Device> device = Must(registry.OpenDevice(argv[1]));
  const std::string driver = std::string(argv[1]).substr(0, std::string(argv[1]).find(':'));
  const bool is_waiting = argc > 3 && std::string(argv[3]) == "waiting";
  const cts::TestKernels& kernels = is_waiting           ? cts::CudaWaitingKernels()
                                    : driver == "cuda"   ? cts::CudaKernels()
                                    : driver == "vulkan" ? cts::SpirvKernels()
                                                         : cts::CpuKernels();
  std::printf("%s\n", device->capabilities().identity.name.ValueOr(argv[1]).c_str());
  Bench(std::move(device), kernels, argc > 2 ? std::max(1, std::atoi(argv[2])) : 1000).Run();
  return 0;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) { return halyard::Main(argc, argv); }
