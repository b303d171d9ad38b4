// SPDX-License-Identifier: Apache-2.0
// What the CUDA driver says when something is missing, and what it tells of a device.
#include "drivers/cuda/driver.h"

#include <fstream>

#include "tests/drivers/cuda/fake_cuda.h"

namespace halyard::drivers::cuda {
namespace {

TEST_F(FakeCudaTest, MissingLibraryIsNamed) {
  ScopedVariable path("HALYARD_CUDA_LIBRARY", "libnowhere.so.1");
  EXPECT_FAILS(OpenCudaDriver(), kUnavailable, "Library 'libnowhere.so.1' cannot be opened");
}

TEST_F(FakeCudaTest, MissingFunctionsAreNamed) {
  ScopedVariable path("HALYARD_CUDA_LIBRARY", "libm.so.6");
  EXPECT_FAILS(OpenCudaDriver(), kUnavailable,
               "Library 'libm.so.6' lacks cuInit, cuDriverGetVersion, cuGetErrorName and ");
}

TEST_F(FakeCudaTest, FailingStartIsNamed) {
  fake_.fail("cuDriverGetVersion", 1, 34);
  EXPECT_FAILS(OpenCudaDriver(), kUnavailable, "the toolkit's stub");
  fake_.fail("cuInit", 1, 803);
  EXPECT_FAILS(OpenCudaDriver(), kUnavailable, "of different driver versions");
  fake_.set_device_count(0);
  EXPECT_FAILS(OpenCudaDriver(), kUnavailable, "CUDA_ERROR_NO_DEVICE");
}

TEST_F(FakeCudaTest, DevicesAreCountedAndNumbered) {
  fake_.set_device_count(3);
  Ref<hal::Driver> driver = OpenCudaDriver().value();
  auto devices = driver->EnumerateDevices();
  ASSERT_OK(devices);
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[2].path, "cuda:2");
  EXPECT_EQ((*devices)[2].name, "Stand-in 2");
  EXPECT_EQ((*devices)[0].uuid, "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
  EXPECT_FAILS(driver->CreateDevice(3, {}), kNotFound, "no CUDA device 3; there are 3");
  const hal::DeviceOption unknown{"colour", "1"}, large{"copy_queues", "65"};
  EXPECT_FAILS(driver->CreateDevice(0, {&unknown, 1}), kInvalidArgument,
               "no option 'colour'; it has: compute_queues, copy_queues");
  EXPECT_FAILS(driver->CreateDevice(0, {&large, 1}), kInvalidArgument, "from 1 to 64");
}

TEST_F(FakeCudaTest, DevicesThatCannotBeUsedAreSkippedWithTheReason) {
  Ref<hal::Driver> driver = OpenCudaDriver().value();
  const std::string path = testing::TempDir() + "/odd_device.txt";
  const auto answers = [&](const std::string& text) {
    std::ofstream(path) << "cuDeviceGetName = Old one\n" << text;
    fake_.play(path.c_str());
  };
  const auto expect_skipped = [&](const std::string& reason) {
    auto devices = driver->EnumerateDevices();
    ASSERT_OK(devices);
    EXPECT_TRUE(devices->empty());
    EXPECT_EQ(driver->SkippedDevices(), std::vector<std::string>{reason});
    EXPECT_FAILS(driver->CreateDevice(0, {}), kUnavailable, reason);
  };
  answers("cuDeviceGetAttribute 75 = 7\ncuDeviceGetAttribute 76 = 0\n");
  expect_skipped("'Old one' (cuda:0) has compute capability 7.0; Halyard needs 7.5 or newer.");
  answers(
      "cuDeviceGetAttribute 75 = 9\ncuDeviceGetAttribute 76 = 0\ncuDeviceGetAttribute 20 = 2\n");
  expect_skipped("'Old one' (cuda:0) is in compute mode 'prohibited'; `nvidia-smi -c 0` ends it.");
  answers("cuDeviceGetAttribute 75 = 7\ncuDeviceGetAttribute 76 = 5\n");
  EXPECT_EQ(driver->EnumerateDevices()->size(), 1u);
  EXPECT_TRUE(driver->SkippedDevices().empty());
  fake_.play("");
  fake_.set_device_count(0);
  EXPECT_TRUE(driver->EnumerateDevices()->empty());
  EXPECT_EQ(driver->SkippedDevices(),
            std::vector<std::string>{"Library '" HALYARD_FAKE_LIBCUDA "' shows no GPU."});
}

TEST_F(FakeCudaTest, CapabilitiesHaveSources) {
  device_ = Open(0, {{"memory_bytes", "1000000"}}).value();
  const hal::Capabilities& c = device_->capabilities();
  EXPECT_EQ(c.compute.compute_capability.value, 90);
  EXPECT_EQ(c.compute.subgroup_size_min.value, 32);
  EXPECT_EQ(c.compute.workgroup_memory_bytes.source, hal::Source::kApi);
  EXPECT_EQ(c.identity.pci_address.value, "0000:1b:00.0");
  EXPECT_EQ(c.memory.limit_bytes.value, 1000000);
  EXPECT_EQ(device_->memory_statistics().limit_bytes, 1000000);
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, 1000001), kOutOfMemory,
               "1000001 bytes does not fit 'cuda:0': 1000000 of 1000000 bytes are left");
  // Staging is the host's.
  EXPECT_OK(device_->AllocateBuffer(hal::MemoryKind::kStaging, 1000001));
}

TEST_F(FakeCudaTest, FailedAllocationTellsWhatTheDeviceSaid) {
  device_ = Open(0).value();
  fake_.fail("cuMemAllocFromPoolAsync", 1, 2);
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, 4096), kOutOfMemory,
               "cuMemAllocFromPoolAsync failed with CUDA_ERROR_OUT_OF_MEMORY");
  fake_.fail("cuMemHostAlloc", 1, 2);
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kStaging, 4096), kOutOfMemory,
               "4096 bytes of pinned memory");
  EXPECT_EQ(device_->memory_statistics().live_bytes, 0);
}

TEST_F(FakeCudaTest, MemoryRegisteredTwiceIsIncompatible) {
  device_ = Open(0).value();
  alignas(64) static uint8_t memory[128];
  Ref<hal::Buffer> first = device_->ImportHostMemory({memory, sizeof(memory), false, {}}).value();
  EXPECT_FAILS(device_->ImportHostMemory({memory, sizeof(memory), false, {}}), kIncompatible,
               "cannot address 128 bytes of host memory");
}

TEST_F(FakeCudaTest, TwoDevicesCopyDirectly) {
  fake_.set_device_count(2);
  device_ = Open(0).value();
  Ref<hal::Device> other = Open(1).value();
  hal::LinkInfo link = device_->LinkTo(*other).value();
  EXPECT_EQ(link.kind, hal::LinkKind::kNvlink);
  EXPECT_TRUE(link.can_access_peer);
  EXPECT_TRUE(link.can_copy_direct);
  EXPECT_EQ(device_->LinkTo(*device_)->kind, hal::LinkKind::kSameMemory);
  Ref<hal::Buffer> here = device_->AllocateBuffer(hal::MemoryKind::kDevice, 4096).value();
  Ref<hal::Buffer> there = other->AllocateBuffer(hal::MemoryKind::kDevice, 4096).value();
  Ref<hal::Buffer> staging = other->AllocateBuffer(hal::MemoryKind::kStaging, 4096).value();
  Ref<hal::Semaphore> a = device_->CreateSemaphore(0).value(),
                      b = other->CreateSemaphore(0).value();
  const hal::SemaphorePoint filled{a.get(), 1}, moved{a.get(), 2}, done{b.get(), 1};
  EXPECT_OK(device_->QueueFill(0, {{}, {&filled, 1}}, cts::Whole(here), 0x77, 1));
  EXPECT_OK(
      device_->QueueCopy(1, {{&filled, 1}, {&moved, 1}}, cts::Whole(here), cts::Whole(there)));
  // The other device waits for this one on the GPU.
  EXPECT_OK(other->QueueCopy(1, {{&moved, 1}, {&done, 1}}, cts::Whole(there), cts::Whole(staging)));
  EXPECT_OK(other->Wait({&done, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  uint8_t* bytes = staging->Map(0, 4096).value();
  EXPECT_EQ(std::count(bytes, bytes + 4096, 0x77), 4096);
  EXPECT_EQ(fake_.call_count("cuMemPoolSetAccess"), 2);
}

}  // namespace
}  // namespace halyard::drivers::cuda
