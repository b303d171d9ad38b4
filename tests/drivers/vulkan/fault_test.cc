// SPDX-License-Identifier: Apache-2.0
// Every call of the Vulkan API that can fail is made to fail, at every point of a run: a Status
// comes out, nothing hangs, and a device that was not lost goes on working.
#include <atomic>
#include <functional>

#include "drivers/vulkan/device.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

std::atomic<int> g_countdown{0};  // calls until the one that fails; 0 and below: none
std::atomic<int> g_failures{0};
VkResult g_result = VK_SUCCESS;

bool IsDue() {
  if (g_countdown.fetch_sub(1) != 1) return false;
  ++g_failures;
  return true;
}

// Stands in for one function of the device's table.
template <auto kFunction>
struct Saboteur;
template <typename... Arguments,
          DeviceFunction<VkResult(VKAPI_PTR*)(Arguments...)> DeviceFunctions::*kFunction>
struct Saboteur<kFunction> {
  static inline VkResult(VKAPI_PTR* original)(Arguments...) = nullptr;
  static VKAPI_ATTR VkResult VKAPI_CALL Call(Arguments... arguments) {
    return IsDue() ? g_result : original(arguments...);
  }
  static void Install(DeviceFunctions* table) {
    original = table->*kFunction;
    table->*kFunction = &Call;
  }
};

struct FaultCase {
  const char* name;
  void (*install)(DeviceFunctions*);
  VkResult result;
};
#define HY_FAULT(function, result) \
  FaultCase { #function, &Saboteur < &DeviceFunctions::function> ::Install, result }

const FaultCase kCases[] = {
    HY_FAULT(vkAllocateMemory, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkCreateBuffer, VK_ERROR_OUT_OF_HOST_MEMORY),
    HY_FAULT(vkBindBufferMemory, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkMapMemory, VK_ERROR_MEMORY_MAP_FAILED),
    HY_FAULT(vkCreateCommandPool, VK_ERROR_OUT_OF_HOST_MEMORY),
    HY_FAULT(vkAllocateCommandBuffers, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkResetCommandPool, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkBeginCommandBuffer, VK_ERROR_OUT_OF_HOST_MEMORY),
    HY_FAULT(vkEndCommandBuffer, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkCreateShaderModule, VK_ERROR_OUT_OF_HOST_MEMORY),
    HY_FAULT(vkCreateComputePipelines, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkCreateComputePipelines, VK_ERROR_INVALID_SHADER_NV),
    HY_FAULT(vkQueueSubmit, VK_ERROR_OUT_OF_DEVICE_MEMORY),
    HY_FAULT(vkQueueSubmit, VK_ERROR_DEVICE_LOST),
    HY_FAULT(vkGetSemaphoreCounterValue, VK_ERROR_DEVICE_LOST),
    HY_FAULT(vkWaitSemaphores, VK_ERROR_DEVICE_LOST),
};

class VulkanFaultTest : public VulkanTest, public testing::WithParamInterface<FaultCase> {
 protected:
  // Everything that a model's run does, once. The first failure ends it.
  Status Run() {
    constexpr int64_t kCount = 1000, kBytes = 8 * kCount;
    std::vector<uint8_t> image = cts::SpirvKernels().Image(device_->capabilities());
    hal::ExecutableSource source;
    source.format = cts::SpirvKernels().format();
    source.code = image;
    HY_ASSIGN(Ref<hal::Executable> executable, device_->LoadExecutable(source));
    HY_ASSIGN(Ref<hal::Buffer> in, device_->AllocateBuffer(hal::MemoryKind::kDevice, kBytes));
    HY_ASSIGN(Ref<hal::Buffer> out, device_->AllocateBuffer(hal::MemoryKind::kDevice, kBytes));
    HY_ASSIGN(Ref<hal::Buffer> big, device_->AllocateBuffer(hal::MemoryKind::kDevice, 80 << 20));
    HY_ASSIGN(Ref<hal::Buffer> staging, device_->AllocateBuffer(hal::MemoryKind::kStaging, kBytes));
    HY_ASSIGN(Ref<hal::CommandBuffer> commands, device_->CreateCommandBuffer());
    const hal::CommandRange ranges[] = {hal::CommandRange::Slot(0, 0, kBytes),
                                        hal::CommandRange::Slot(1, 0, kBytes)};
    const int64_t scalar = 5;
    hal::DispatchCommand command;
    command.executable = executable.get();
    command.grid[0] = kCount;
    command.bindings = ranges;
    command.scalars = {&scalar, 1};
    HY_TRY(commands->Dispatch(command));
    HY_TRY(commands->Finish());
    HY_ASSIGN(Ref<hal::Semaphore> timeline, device_->CreateSemaphore(0));
    auto point = [&](uint64_t value) { return hal::SemaphorePoint{timeline.get(), value}; };
    const std::vector<int64_t> numbers(kCount, 37);
    std::span bytes(reinterpret_cast<const uint8_t*>(numbers.data()), size_t{kBytes});
    hal::SemaphorePoint p[] = {point(0), point(1), point(2), point(3), point(4)};
    // What the first work used is free when the second is over, and the third takes it.
    HY_ASSIGN(Ref<hal::Semaphore> early, device_->CreateSemaphore(0));
    for (uint64_t fill = 1; fill <= 3; ++fill) {
      hal::SemaphorePoint filled{early.get(), fill};
      HY_TRY(device_->QueueFill(0, {{}, {&filled, 1}}, {out.get(), 0, kBytes}, 0, 1));
      HY_TRY(device_->Wait({&filled, 1}, hal::WaitMode::kAll, int64_t{60'000'000'000}));
    }
    HY_TRY(device_->QueueUpdate(0, {{}, {&p[1], 1}}, bytes, {in.get(), 0, kBytes}));
    hal::BufferRange table[] = {{in.get(), 0, kBytes}, {out.get(), 0, kBytes}};
    HY_TRY(device_->Submit(0, {{{&p[1], 1}, {&p[2], 1}}, commands.get(), table}));
    hal::BufferRange back[] = {{out.get(), 0, kBytes}, {in.get(), 0, kBytes}};
    HY_TRY(device_->Submit(0, {{{&p[2], 1}, {&p[3], 1}}, commands.get(), back}));
    HY_TRY(device_->QueueCopy(0, {{&p[3], 1}, {&p[4], 1}}, {in.get(), 0, kBytes},
                              {staging.get(), 0, kBytes}));
    HY_TRY(device_->Wait({&p[4], 1}, hal::WaitMode::kAll, int64_t{60'000'000'000}));
    HY_ASSIGN(const uint8_t* mapped, staging->Map(0, kBytes));
    std::vector<int64_t> result(kCount);
    std::memcpy(result.data(), mapped, size_t{kBytes});
    EXPECT_EQ(result, std::vector<int64_t>(kCount, 47));
    return OkStatus();
  }
};

TEST_P(VulkanFaultTest, AtEveryPoint) {
  const FaultCase& fault = GetParam();
  g_result = fault.result;
  int failed_runs = 0, late_runs = 0;
  for (int at = 1;; ++at) {
    ASSERT_LT(at, 200) << "the run never ends without a failure";
    g_countdown = 0;
    // No polling, so that the watching thread waits in the driver as well.
    Use("?spin_us=0");
    auto& handle = const_cast<DeviceHandle&>(static_cast<VulkanDevice*>(device_.get())->handle());
    fault.install(&handle.vk);
    g_failures = 0;
    g_countdown = at;
    Status status = Run();
    g_countdown = 0;
    if (g_failures == 0) {
      EXPECT_OK(status);
      // On a busy machine the watching thread may find everything done.
      if (failed_runs > 0 || ++late_runs == 50) break;
      --at;
      continue;
    }
    ++failed_runs;
    // A failure that is answered by trying something smaller is none.
    if (!status.ok()) {
      const bool is_loss = fault.result == VK_ERROR_DEVICE_LOST;
      const bool is_memory = fault.result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                             fault.result == VK_ERROR_OUT_OF_HOST_MEMORY ||
                             fault.result == VK_ERROR_MEMORY_MAP_FAILED;
      EXPECT_EQ(status.code(), is_loss     ? StatusCode::kDeviceLost
                               : is_memory ? StatusCode::kOutOfMemory
                                           : StatusCode::kInternal)
          << status.ToString();
      if (is_loss) {
        EXPECT_EQ(device_->health().code(), StatusCode::kDeviceLost);
        continue;
      }
    }
    EXPECT_OK(device_->health());
    EXPECT_OK(Run());
    EXPECT_EQ(device_->memory_statistics().live_bytes, 0);
  }
  EXPECT_GT(failed_runs, 0) << "the run never calls it";
}

INSTANTIATE_TEST_SUITE_P(All, VulkanFaultTest, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<FaultCase>& info) {
                           return std::string(info.param.name) + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace halyard::drivers::vulkan
