// SPDX-License-Identifier: Apache-2.0
// The conformance suite's frame: which devices it runs over, which cases a device does not support
// or is expected to fail, and the fixture that the cases share. A case is written once, as
// HAL_CASE.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/device.h"
#include "tests/hal/cts/test_kernels.h"

namespace halyard::cts {

struct Backend {
  std::string name;                      // "cpu_discrete_validated"
  std::string path;                      // "cpu:0?discrete=7"
  const TestKernels* kernels = nullptr;  // null: the device takes no code
  // Whether the host can address MemoryKind::kDevice, and whether aligned host memory can be used in
  // place. Empty: where the device says that its memory is the host's.
  std::optional<bool> maps_device_memory = true;
  std::optional<bool> imports_host_memory = true;
  bool is_validated = false;
  // Environment variables that opening needs, set unless they are set already.
  std::vector<std::pair<const char*, const char*>> environment = {};
};
// Names the case in listings.
inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }
std::vector<Backend> AllBackends();
// Those that support the case.
std::vector<Backend> BackendsFor(std::string_view test);
std::string BackendName(const testing::TestParamInfo<Backend>& info);

// One row: cases that match `test` on backends that match `backend`; both may end in '*'.
struct Exception {
  std::string_view backend;
  std::string_view test;
  std::string_view reason;
};
// What a device will never do: such a case is not made for it.
std::span<const Exception> Unsupported();
// What a device should do and does not yet; run, and an error when it passes.
std::span<const Exception> ExpectedFailures();
// The first row that matches, or null.
const Exception* Find(std::span<const Exception> list, std::string_view backend,
                      std::string_view test);

// Runs `body` and reports a failure of the running test when no assertion in it fails.
void ExpectToFail(const std::function<void()>& body, std::string_view reason);

class HalTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;

  const TestKernels& kernels() const { return *GetParam().kernels; }
  bool maps_device_memory() const;
  bool imports_host_memory() const;
  // `code` in the backend's format.
  hal::ExecutableSource Source(std::span<const uint8_t> code,
                               std::span<const hal::ExecutableEntry> entries = {}) const;

  // Runs the case under the rules of the lists.
  void RunCase(std::string_view test, const std::function<void()>& body);

  Ref<hal::Buffer> Allocate(int64_t size_bytes, hal::MemoryKind kind = hal::MemoryKind::kDevice);
  // A device buffer that holds `values`, and back again, by way of staging.
  Ref<hal::Buffer> Upload(std::span<const int64_t> values);
  std::vector<int64_t> Download(hal::Buffer* buffer);
  Ref<hal::Semaphore> NewSemaphore(uint64_t value = 0);
  // The test image's kernels; `sites` for each.
  Ref<hal::Executable> LoadKernels(std::vector<std::string> sites = {});
  Ref<hal::CommandBuffer> NewCommands();
  // Waits for one point without a limit.
  Status WaitFor(hal::Semaphore* semaphore, uint64_t value);
  // Submits with a fresh semaphore and waits.
  Status RunNow(hal::CommandBuffer* commands, std::span<const hal::BufferRange> bindings = {});

  Ref<hal::Device> device_;
};

#define HAL_CASE(Name)                                                                 \
  class HalCase_##Name : public HalTest {                                              \
   public:                                                                             \
    void Body();                                                                       \
  };                                                                                   \
  TEST_P(HalCase_##Name, Run) {                                                        \
    RunCase(#Name, [this] { Body(); });                                                \
  }                                                                                    \
  INSTANTIATE_TEST_SUITE_P(Cts, HalCase_##Name, testing::ValuesIn(BackendsFor(#Name)), \
                           BackendName);                                               \
  void HalCase_##Name::Body()

#define ASSERT_OK(expr)                                                                        \
  do {                                                                                         \
    auto&& ok_result = (expr);                                                                 \
    ASSERT_TRUE(ok_result.ok()) << ::halyard::status_internal::ToStatus(ok_result).ToString(); \
  } while (false)
#define EXPECT_OK(expr)                                                                        \
  do {                                                                                         \
    auto&& ok_result = (expr);                                                                 \
    EXPECT_TRUE(ok_result.ok()) << ::halyard::status_internal::ToStatus(ok_result).ToString(); \
  } while (false)
// The code, and that the sentence contains `part`.
#define EXPECT_FAILS(expr, expected_code, part)                                                    \
  do {                                                                                             \
    auto&& failed_result = (expr);                                                                 \
    ::halyard::Status failed_status = ::halyard::status_internal::ToStatus(failed_result);         \
    EXPECT_EQ(failed_status.code(), ::halyard::StatusCode::expected_code)                          \
        << failed_status.ToString();                                                               \
    EXPECT_NE(failed_status.ToString().find(part), std::string::npos) << failed_status.ToString(); \
  } while (false)

inline hal::BufferRange Whole(const Ref<hal::Buffer>& buffer) {
  return {buffer.get(), 0, buffer->size_bytes()};
}
inline hal::CommandRange WholeDirect(const Ref<hal::Buffer>& buffer) {
  return hal::CommandRange::Direct(buffer.get(), 0, buffer->size_bytes());
}

}  // namespace halyard::cts
