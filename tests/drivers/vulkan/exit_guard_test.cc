// SPDX-License-Identifier: Apache-2.0
// The end of a process that still holds devices, on a stand-in for a vendor's driver that is gone
// once its exit handler has run. Each case runs in a process of its own.
#include "drivers/vulkan/exit_guard.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "drivers/vulkan/device.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

std::atomic<bool> g_is_driver_gone{false};
std::atomic<bool> g_is_work_endless{false};

void EndDriver() { g_is_driver_gone = true; }

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "This does not hold: %s\n", what);
  std::_Exit(2);
}
#define HY_REQUIRE(condition) Require((condition), #condition)

// Stands in front of one function of the vendor's driver.
template <auto kFunction>
struct Watched;
template <typename R, typename... Arguments,
          DeviceFunction<R(VKAPI_PTR*)(Arguments...)> DeviceFunctions::*kFunction>
struct Watched<kFunction> {
  static inline R(VKAPI_PTR* original)(Arguments...) = nullptr;
  static VKAPI_ATTR R VKAPI_CALL Call(Arguments... arguments) {
    HY_REQUIRE(!g_is_driver_gone);
    return original(arguments...);
  }
  static void Install(DeviceFunctions* functions) {
    original = functions->*kFunction;
    functions->*kFunction = &Call;
  }
};

VKAPI_ATTR VkResult VKAPI_CALL WaitForNothing(VkDevice, const VkSemaphoreWaitInfo*, uint64_t ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
  return VK_TIMEOUT;
}

VKAPI_ATTR VkResult VKAPI_CALL ReadZero(VkDevice, VkSemaphore, uint64_t* value) {
  *value = 0;
  return VK_SUCCESS;
}

// A device with everything that a session holds.
struct Session {
  static constexpr int64_t kCount = 1000, kBytes = 8 * kCount;
  Ref<hal::Device> device;
  Ref<hal::Executable> executable;
  Ref<hal::Buffer> in, out, staging;
  Ref<hal::CommandBuffer> commands;
  Ref<hal::Semaphore> timeline;

  void Open(const char* options = "") {
    hal::DriverRegistry registry;
    HY_REQUIRE(registry.Register("vulkan", &OpenVulkanDriver).ok());
    device = Must(registry.OpenDevice(std::string("vulkan:0") + options));
    auto& handle = const_cast<DeviceHandle&>(static_cast<VulkanDevice*>(device.get())->handle());
#define HY_WATCH(name) Watched<&DeviceFunctions::name>::Install(&handle.vk);
    HY_VULKAN_DEVICE_FUNCTIONS(HY_WATCH)
#undef HY_WATCH
    if (g_is_work_endless) {
      handle.vk.vkWaitSemaphores = &WaitForNothing;
      handle.vk.vkGetSemaphoreCounterValue = &ReadZero;
    }
    std::vector<uint8_t> image = cts::SpirvKernels().Image(device->capabilities());
    hal::ExecutableSource source;
    source.format = cts::SpirvKernels().format();
    source.code = image;
    executable = Must(device->LoadExecutable(source));
    in = Must(device->AllocateBuffer(hal::MemoryKind::kDevice, kBytes));
    out = Must(device->AllocateBuffer(hal::MemoryKind::kDevice, kBytes));
    staging = Must(device->AllocateBuffer(hal::MemoryKind::kStaging, kBytes));
    commands = Must(device->CreateCommandBuffer());
    timeline = Must(device->CreateSemaphore(0));
    const hal::CommandRange ranges[] = {hal::CommandRange::Slot(0, 0, kBytes),
                                        hal::CommandRange::Slot(1, 0, kBytes)};
    const int64_t scalar = 5;
    hal::DispatchCommand command;
    command.executable = executable.get();
    command.grid[0] = kCount;
    command.bindings = ranges;
    command.scalars = {&scalar, 1};
    HY_REQUIRE(commands->Dispatch(command).ok());
    HY_REQUIRE(commands->Finish().ok());
  }

  hal::SemaphorePoint Point(uint64_t value) { return {timeline.get(), value}; }

  // Work up to 3 that runs when the timeline reaches 1.
  Status Queue() {
    hal::SemaphorePoint p[] = {Point(1), Point(2), Point(3)};
    hal::BufferRange table[] = {{in.get(), 0, kBytes}, {out.get(), 0, kBytes}};
    HY_TRY(device->Submit(0, {{{&p[0], 1}, {&p[1], 1}}, commands.get(), table}));
    return device->QueueCopy(0, {{&p[1], 1}, {&p[2], 1}}, {out.get(), 0, kBytes},
                             {staging.get(), 0, kBytes});
  }
  Status WaitFor(uint64_t value) {
    hal::SemaphorePoint point = Point(value);
    return device->Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
  }

  // Every call answers, and without the driver.
  void RequireLost() {
    auto is_lost = [](const Status& status) { return status.code() == StatusCode::kDeviceLost; };
    const hal::SemaphorePoint end = Point(100);
    const uint8_t bytes[8] = {};
    hal::BufferRange table[] = {{in.get(), 0, kBytes}, {out.get(), 0, kBytes}};
    HY_REQUIRE(is_lost(device->health()));
    HY_REQUIRE(is_lost(device->AllocateBuffer(hal::MemoryKind::kDevice, 64).status()));
    HY_REQUIRE(is_lost(device->AllocateBuffer(hal::MemoryKind::kStaging, 256 << 20).status()));
    HY_REQUIRE(is_lost(device->CreateCommandBuffer().status()));
    HY_REQUIRE(is_lost(device->LoadExecutable({}).status()));
    HY_REQUIRE(is_lost(device->Submit(0, {{{}, {&end, 1}}, commands.get(), table})));
    HY_REQUIRE(is_lost(device->QueueFill(0, {{}, {&end, 1}}, {in.get(), 0, kBytes}, 0, 1)));
    HY_REQUIRE(is_lost(device->QueueUpdate(0, {{}, {&end, 1}}, bytes, {in.get(), 0, 8})));
    HY_REQUIRE(is_lost(device->QueueHostCall(
        0, {{}, {&end, 1}}, {[](void*) { return OkStatus(); }, nullptr, nullptr})));
    HY_REQUIRE(is_lost(device->Flush()));
    (void)device->ReadState();
    const DeviceHandle& handle = static_cast<VulkanDevice*>(device.get())->handle();
    uint64_t value = 7;
    void* mapped = nullptr;
    const DeviceFunctions& vk = handle.vk;
    HY_REQUIRE(vk.vkGetSemaphoreCounterValue(handle.device, VK_NULL_HANDLE, &value) ==
               VK_ERROR_DEVICE_LOST);
    HY_REQUIRE(vk.vkMapMemory(handle.device, VK_NULL_HANDLE, 0, 1, 0, &mapped) ==
               VK_ERROR_DEVICE_LOST);
    HY_REQUIRE(vk.vkGetBufferDeviceAddress(handle.device, nullptr) == 0);
  }
};

// As a host has one in a static object.
struct StaticSession : Session {
  ~StaticSession() {
    HY_REQUIRE(g_is_driver_gone);
    RequireLost();
    HY_REQUIRE(WaitFor(3).ok() == has_ended);
    std::fputs("The session ends.\n", stderr);
  }
  bool has_ended = true;
};

StaticSession& TheSession() {
  static StaticSession session;
  return session;
}

void ExitWithSession(bool is_busy) {
  StaticSession& session = TheSession();
  // As a driver does when it is loaded, which is after the constructor.
  std::atexit(&EndDriver);
  session.Open(is_busy ? "?spin_us=0" : "");
  HY_REQUIRE(session.Queue().ok());
  HY_REQUIRE(session.timeline->Signal(1).ok());
  if (!is_busy) HY_REQUIRE(session.WaitFor(3).ok());
  std::exit(0);
}

void ForgetAndGoOn() {
  {
    Session session;
    session.Open();
    HY_REQUIRE(session.Queue().ok());
    ForgetDrivers();
    EndDriver();
    session.RequireLost();
    HY_REQUIRE(AreDriversForgotten());
    // Queued before; only the host held it back.
    HY_REQUIRE(session.timeline->Signal(1).ok());
    HY_REQUIRE(session.WaitFor(3).code() == StatusCode::kDeviceLost);
    ForgetDrivers();
    hal::DriverRegistry registry;
    HY_REQUIRE(registry.Register("vulkan", &OpenVulkanDriver).ok());
    HY_REQUIRE(registry.OpenDevice("vulkan:0").status().code() == StatusCode::kUnavailable);
  }
  std::exit(0);
}

// Work that the hardware never ends, threads that wait for it, and a host call that lasts.
void ForgetEndlessWork() {
  g_is_work_endless = true;
  Session session, caller;
  session.Open("?spin_us=0");
  caller.Open("?spin_us=0");
  HY_REQUIRE(session.Queue().ok());
  HY_REQUIRE(session.timeline->Signal(1).ok());
  auto waiting = std::async(std::launch::async, [&] { return session.WaitFor(3); });
  static std::promise<void> begun;
  static std::promise<void> released;
  hal::SemaphorePoint called = caller.Point(1);
  hal::HostCall call;
  call.function = [](void*) {
    begun.set_value();
    released.get_future().wait();
    return OkStatus();
  };
  HY_REQUIRE(caller.device->QueueHostCall(0, {{}, {&called, 1}}, call).ok());
  begun.get_future().wait();
  const auto start = std::chrono::steady_clock::now();
  ForgetDrivers();
  EndDriver();
  HY_REQUIRE(waiting.get().code() == StatusCode::kDeviceLost);
  HY_REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  session.RequireLost();
  released.set_value();
  HY_REQUIRE(caller.WaitFor(1).ok());
  session = {};
  caller = {};
  std::exit(0);
}

// The thread of a host call cannot wait for itself.
void ExitInHostCall() {
  StaticSession& session = TheSession();
  std::atexit(&EndDriver);
  session.Open();
  session.has_ended = false;
  session.timeline->Fail(Aborted("Nothing was queued."));
  hal::HostCall call;
  call.function = [](void*) -> Status { std::exit(0); };
  HY_REQUIRE(session.device->QueueHostCall(0, {}, call).ok());
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

class VulkanExitDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(VulkanExitDeathTest, StaticSession) {
  EXPECT_EXIT(ExitWithSession(false), testing::ExitedWithCode(0), "The session ends");
}

TEST_F(VulkanExitDeathTest, StaticSessionWithWorkInFlight) {
  EXPECT_EXIT(ExitWithSession(true), testing::ExitedWithCode(0), "The session ends");
}

TEST_F(VulkanExitDeathTest, CallsAfterwards) {
  EXPECT_EXIT(ForgetAndGoOn(), testing::ExitedWithCode(0), "");
}

TEST_F(VulkanExitDeathTest, EndlessWork) {
  EXPECT_EXIT(ForgetEndlessWork(), testing::ExitedWithCode(0), "");
}

TEST_F(VulkanExitDeathTest, ExitInAHostCall) {
  EXPECT_EXIT(ExitInHostCall(), testing::ExitedWithCode(0), "The session ends");
}

}  // namespace
}  // namespace halyard::drivers::vulkan
