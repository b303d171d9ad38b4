// SPDX-License-Identifier: Apache-2.0
// Buffers in either kind of memory: written, read, refused; on a device that shares the host's
// memory and on one that does not. Runs in them stand in tests/end_to_end/device_memory_test.cc.
#include <numeric>

#include "fixture.h"

namespace halyard {
namespace {

class CApiDeviceMemory : public CApiTest, public testing::WithParamInterface<const char*> {
 protected:
  hy::Buffer Make(size_t size_bytes, hy_memory memory) const {
    return hy::Buffer::Create(device_, size_bytes, memory);
  }

  const hy::Instance instance_ = hy::Instance::Create();
  const hy::Device device_ = instance_.Open(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Devices, CApiDeviceMemory, testing::Values("cpu:0", "cpu:0?discrete=5"),
                         [](const auto& info) { return info.index == 0 ? "shared" : "discrete"; });

TEST_P(CApiDeviceMemory, WhatIsWrittenIsRead) {
  // The last is more than one piece of staging memory.
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, (size_t{16} << 20) + 7}) {
    std::vector<uint8_t> from(count), to(count + 1, 0xee);
    std::iota(from.begin(), from.end(), uint8_t{3});
    for (const hy_memory memory : {HY_MEMORY_HOST_VISIBLE, HY_MEMORY_DEVICE}) {
      const hy::Buffer buffer = Make(count + 3, memory);
      buffer.Write(from.data(), count, 3);
      std::fill(to.begin(), to.end(), uint8_t{0xee});
      buffer.Read(to.data(), count, 3);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
      EXPECT_EQ(to[count], 0xee);
    }
  }
}

TEST_P(CApiDeviceMemory, PartsAreReplacedAlone) {
  const hy::Buffer buffer = Make(8, HY_MEMORY_DEVICE);
  buffer.Write("abcdefgh", 8);
  buffer.Write("XY", 2, 5);
  char text[9] = {};
  buffer.Read(text, 8);
  EXPECT_STREQ(text, "abcdeXYh");
}

TEST_P(CApiDeviceMemory, WhatIsRefused) {
  const hy::Buffer buffer = Make(8, HY_MEMORY_DEVICE);
  char byte = 0;
  EXPECT_EQ(hy_buffer_write(buffer.get(), 5, &byte, 4), HY_OUT_OF_RANGE);
  EXPECT_THAT(LastError(),
              testing::MatchesRegex("The write to a buffer of '[a-z]+:0.*' covers 4 bytes from "
                                    "offset 5; only 8 bytes are there."));
  EXPECT_EQ(hy_buffer_read(buffer.get(), SIZE_MAX, &byte, 1), HY_OUT_OF_RANGE);
  EXPECT_EQ(hy_buffer_read(buffer.get(), 1, &byte, SIZE_MAX), HY_OUT_OF_RANGE);
  EXPECT_THAT(LastError(), testing::StartsWith("The read of a buffer of '"));
  EXPECT_EQ(hy_buffer_write(buffer.get(), 0, nullptr, 1), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_buffer_read(nullptr, 0, &byte, 1), HY_INVALID_ARGUMENT);
  hy_buffer_t* made = nullptr;
  hy_buffer_desc desc = HY_BUFFER_DESC_INIT;
  desc.memory = 2;
  EXPECT_EQ(hy_buffer_create_from(device_.get(), &desc, &made), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("There is no kind of memory 2; 0 and 1 are kinds."));
  desc = HY_BUFFER_DESC_INIT;
  desc.size_bytes = SIZE_MAX;
  EXPECT_EQ(hy_buffer_create_from(device_.get(), &desc, &made), HY_OUT_OF_MEMORY);
  desc.type = HY_STRUCT_TENSOR;
  EXPECT_EQ(hy_buffer_create_from(device_.get(), &desc, &made), HY_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
}

TEST_P(CApiDeviceMemory, TheHostMapsWhatItCanAddress) {
  void* data = nullptr;
  EXPECT_EQ(hy_buffer_map(Make(8, HY_MEMORY_HOST_VISIBLE).get(), &data), HY_OK) << LastError();
  const bool is_shared = std::string(GetParam()) == "cpu:0";
  EXPECT_EQ(hy_buffer_map(Make(8, HY_MEMORY_DEVICE).get(), &data),
            is_shared ? HY_OK : HY_INCOMPATIBLE);
}

TEST_P(CApiDeviceMemory, OnlyMeasuredRunsHaveATime) {
  const hy::Program program = Compile(instance_, "copy");
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.time_runs = 3;
  hy_session_t* none = nullptr;
  EXPECT_EQ(hy_session_create(program.get(), &desc, &none), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("time_runs is 3"));
  const std::vector<float> x = {1, 2, 3};
  for (const uint32_t time_runs : {0u, 1u}) {
    desc.time_runs = time_runs;
    const hy::Session session = hy::Session::Create(program, &desc);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    const hy::Event event = session.Submit({F32(x)}, out);
    ASSERT_TRUE(event.Wait());
    int64_t time_ns = -1;
    EXPECT_EQ(hy_event_device_time(event.get(), &time_ns),
              time_runs ? HY_OK : HY_FAILED_PRECONDITION);
    EXPECT_EQ(time_ns >= 0, time_runs == 1);
    EXPECT_EQ(Values(out[0]), x);
    size_t count = 0;
    EXPECT_EQ(hy_event_command_times(event.get(), nullptr, &count), HY_FAILED_PRECONDITION);
    EXPECT_THAT(LastError(), testing::HasSubstr("time_runs = 2"));
  }
}

// On a device with memory of its own a run copies in, works and copies out; each part stands alone
// and after the one before it.
TEST_P(CApiDeviceMemory, EachCommandOfATimedRunHasItsTime) {
  hy_compile_desc compile = HY_COMPILE_DESC_INIT;
  hy_device_t* device = device_.get();
  compile.onnx_data = "copy";
  compile.onnx_size_bytes = 4;
  compile.devices = &device;
  compile.device_count = 1;
  const hy::Program program = hy::Program::Compile(instance_, compile);
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.time_runs = HY_TIME_COMMANDS;
  const hy::Session session = hy::Session::Create(program, &desc);
  std::vector<float> x(1000, 1.5f);
  for (int run = 0; run < 2; ++run) {
    x[7] = static_cast<float>(run);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    const hy::Event event = session.Submit({F32(x)}, out);
    EXPECT_EQ(hy_event_status(event.get()), HY_OK) << "it is over when the call returns";
    EXPECT_EQ(Values(out[0]), x);
    const std::vector<hy_command_time> times = event.CommandTimes();
    std::vector<hy_timed_kind> kinds;
    int64_t before = 0;
    for (const hy_command_time& time : times) {
      kinds.push_back(time.kind);
      EXPECT_GE(time.start_ns, before);
      EXPECT_GE(time.submitted_ns, time.start_ns);
      EXPECT_GE(time.end_ns, time.submitted_ns);
      EXPECT_LE(time.device_ns, time.end_ns - time.start_ns);
      EXPECT_EQ(hy::ToString(time.device), "cpu:0");
      before = time.end_ns;
      if (time.kind == HY_TIMED_COPY) {
        EXPECT_EQ(time.bytes, 4000);
      }
      const bool is_tensor = time.kind == HY_TIMED_INPUT || time.kind == HY_TIMED_OUTPUT;
      if (is_tensor) {
        EXPECT_EQ(time.bytes, 4000);
      }
      EXPECT_EQ(time.device_ns >= 0, !is_tensor);
    }
    EXPECT_THAT(kinds, testing::Contains(HY_TIMED_COPY));
    const bool is_apart = std::string(GetParam()) != "cpu:0";
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), HY_TIMED_OUTPUT), is_apart ? 1 : 0);
    if (is_apart) {
      EXPECT_EQ(kinds.front(), HY_TIMED_INPUT);
      EXPECT_EQ(kinds.back(), HY_TIMED_OUTPUT);
    }
  }
}

}  // namespace
}  // namespace halyard
