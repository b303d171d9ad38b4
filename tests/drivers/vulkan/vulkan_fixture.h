// SPDX-License-Identifier: Apache-2.0
// What the tests of the Vulkan driver share: opening the first device, buffers with known contents,
// the suite's test kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/gpu_image.h"
#include "drivers/vulkan/driver.h"
#include "hal/registry.h"
#include "tests/hal/cts/spirv_kernels.h"
#include "tests/hal/cts/test_kernels.h"

namespace halyard::drivers::vulkan {

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().ToString();
    std::abort();
  }
  return std::move(result).value();
}

#define EXPECT_OK(expr)                                                                        \
  do {                                                                                         \
    auto&& ok_result = (expr);                                                                 \
    EXPECT_TRUE(ok_result.ok()) << ::halyard::status_internal::ToStatus(ok_result).ToString(); \
  } while (false)
#define EXPECT_FAILS(expr, expected_code, part)                                                    \
  do {                                                                                             \
    auto&& failed_result = (expr);                                                                 \
    ::halyard::Status failed_status = ::halyard::status_internal::ToStatus(failed_result);         \
    EXPECT_EQ(failed_status.code(), ::halyard::StatusCode::expected_code)                          \
        << failed_status.ToString();                                                               \
    EXPECT_NE(failed_status.ToString().find(part), std::string::npos) << failed_status.ToString(); \
  } while (false)

class VulkanTest : public testing::Test {
 protected:
  // "vulkan:0" with options such as "?queues=2".
  static Result<Ref<hal::Device>> Open(const std::string& options = "") {
    hal::DriverRegistry registry;
    EXPECT_OK(registry.Register("vulkan", &OpenVulkanDriver));
    return registry.OpenDevice("vulkan:0" + options);
  }

  void Use(const std::string& options = "") { device_ = Must(Open(options)); }

  Ref<hal::Semaphore> NewSemaphore(uint64_t value = 0) {
    return Must(device_->CreateSemaphore(value));
  }
  Status WaitFor(const Ref<hal::Semaphore>& semaphore, uint64_t value) {
    hal::SemaphorePoint point{semaphore.get(), value};
    return device_->Wait({&point, 1}, hal::WaitMode::kAll, int64_t{60'000'000'000});
  }
  Ref<hal::Buffer> Upload(std::span<const uint8_t> bytes,
                          hal::MemoryKind kind = hal::MemoryKind::kDevice) {
    Ref<hal::Buffer> buffer =
        Must(device_->AllocateBuffer(kind, static_cast<int64_t>(bytes.size())));
    Ref<hal::Semaphore> done = NewSemaphore();
    hal::SemaphorePoint signal{done.get(), 1};
    EXPECT_OK(device_->QueueUpdate(0, {{}, {&signal, 1}}, bytes,
                                   {buffer.get(), 0, buffer->size_bytes()}));
    EXPECT_OK(WaitFor(done, 1));
    return buffer;
  }
  std::vector<uint8_t> Download(const Ref<hal::Buffer>& buffer) {
    Ref<hal::Buffer> staging =
        Must(device_->AllocateBuffer(hal::MemoryKind::kStaging, buffer->size_bytes()));
    Ref<hal::Semaphore> done = NewSemaphore();
    hal::SemaphorePoint signal{done.get(), 1};
    EXPECT_OK(device_->QueueCopy(0, {{}, {&signal, 1}}, {buffer.get(), 0, buffer->size_bytes()},
                                 {staging.get(), 0, buffer->size_bytes()}));
    EXPECT_OK(WaitFor(done, 1));
    EXPECT_OK(staging->InvalidateMapped(0, staging->size_bytes()));
    std::vector<uint8_t> bytes(static_cast<size_t>(buffer->size_bytes()));
    std::memcpy(bytes.data(), Must(staging->Map(0, staging->size_bytes())), bytes.size());
    return bytes;
  }
  Ref<hal::Buffer> UploadNumbers(std::span<const int64_t> numbers) {
    return Upload({reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size_bytes()});
  }
  std::vector<int64_t> DownloadNumbers(const Ref<hal::Buffer>& buffer) {
    std::vector<uint8_t> bytes = Download(buffer);
    std::vector<int64_t> numbers(bytes.size() / 8);
    std::memcpy(numbers.data(), bytes.data(), 8 * numbers.size());
    return numbers;
  }
  Ref<hal::Executable> LoadTestKernels() {
    std::vector<uint8_t> image = cts::SpirvKernels().Image(device_->capabilities());
    hal::ExecutableSource source;
    source.format = cts::SpirvKernels().format();
    source.code = image;
    return Must(device_->LoadExecutable(source));
  }

  Ref<hal::Device> device_;
};

inline std::vector<uint8_t> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace halyard::drivers::vulkan
