// SPDX-License-Identifier: Apache-2.0
// Runs whose tensors stay in the device's memory: chained without the host, measured by the
// device's clock, and what becomes of those behind a run that fails. On the CPU with and without
// memory of its own, on the stand-in for libcuda and on the software Vulkan device.
#include <chrono>

#include "tests/end_to_end/device_fixture.h"

namespace halyard {
namespace {

class DeviceMemory : public OnDevice {
 protected:
  static constexpr int64_t kRows = 3, kPicked = 2;

  hy::Session RowsSession(uint32_t time_runs) const {
    hy_session_desc desc = HY_SESSION_DESC_INIT;
    desc.time_runs = time_runs;
    return hy::Session::Create(CompileFor(device_, RowsModel(5)), &desc);
  }
  hy::Buffer Make(size_t size_bytes) const {
    return hy::Buffer::Create(device_, size_bytes, HY_MEMORY_DEVICE);
  }
  static hy_tensor In(const hy::Buffer& buffer, hy_dtype dtype, std::vector<int64_t> dims) {
    hy_tensor tensor = HY_TENSOR_INIT;
    tensor.dtype = dtype;
    tensor.rank = static_cast<uint32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), tensor.dims);
    tensor.buffer = buffer.get();
    tensor.size_bytes = dtype == HY_DTYPE_F32 ? 4 : 8;
    for (const int64_t dim : dims) tensor.size_bytes *= static_cast<size_t>(dim);
    return tensor;
  }
  hy::Buffer Indices(std::vector<int64_t> values) const {
    hy::Buffer buffer = Make(values.size() * 8);
    buffer.Write(values.data(), values.size() * 8);
    return buffer;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceMemory, testing::ValuesIn(OnDevice::kPaths),
                         OnDevice::NameOf);

// Every run adds 5 and takes the output of the one before it as its input, through four buffers in
// turn; the third row is never picked, so that it tells whether a run read a buffer that was still
// to be written.
TEST_P(DeviceMemory, ChainedRunsSeeWhatTheRunsBeforeThemWrote) {
  const hy::Session session = RowsSession(1);
  const hy::Buffer indices = Indices({1, 0});
  std::vector<hy::Buffer> ring;
  for (int i = 0; i < 4; ++i) {
    ring.push_back(Make(kRows * 8));
    const std::vector<float> poison(kRows * 2, -1000);
    ring.back().Write(poison.data(), kRows * 8);
  }
  const std::vector<float> x = {0, 1, 10, 11, 20, 21};
  ring[0].Write(x.data(), kRows * 8);
  constexpr int kRuns = 41;
  std::vector<hy::Event> events;
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run) {
    std::vector<hy_tensor> out = {In(ring[(run + 1) % 4], HY_DTYPE_F32, {kPicked, 2})};
    events.push_back(session.Submit(
        {In(ring[run % 4], HY_DTYPE_F32, {kRows, 2}), In(indices, HY_DTYPE_I64, {kPicked})}, out));
    EXPECT_EQ(out[0].dims[0], kPicked);
  }
  ASSERT_TRUE(events.back().Wait());
  const int64_t passed_ns =
      (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  int64_t sum_ns = 0;
  for (const hy::Event& event : events) {
    ASSERT_EQ(hy_event_status(event.get()), HY_OK);
    EXPECT_GE(event.DeviceTimeNs(), 0);
    sum_ns += event.DeviceTimeNs();
  }
  // They ran one after the other. Clocks of devices may tick coarsely.
  EXPECT_LE(sum_ns, passed_ns + 1000 * kRuns);
  std::vector<float> y(4);
  ring[kRuns % 4].Read(y.data(), 16);
  constexpr float kAdded = 5 * kRuns;
  EXPECT_EQ(y, (std::vector<float>{10 + kAdded, 11 + kAdded, kAdded, 1 + kAdded}));
}

TEST_P(DeviceMemory, WhatRunsBehindAFailureFailsWithItAndTheSessionGoesOn) {
  const hy::Session session = RowsSession(1);
  const hy::Buffer x = Make(kRows * 8), y = Make(kPicked * 8);
  const std::vector<float> values = {0, 1, 10, 11, 20, 21};
  x.Write(values.data(), kRows * 8);
  const hy::Buffer good = Indices({2, 0}), bad = Indices({0, 3});
  const auto submit = [&](const hy::Buffer& indices) {
    std::vector<hy_tensor> out = {In(y, HY_DTYPE_F32, {kPicked, 2})};
    return session.Submit({In(x, HY_DTYPE_F32, {kRows, 2}), In(indices, HY_DTYPE_I64, {kPicked})},
                          out);
  };
  const hy::Event before = submit(good), failing = submit(bad);
  EXPECT_EQ(hy_event_wait(failing.get(), HY_WAIT_FOREVER), HY_OUT_OF_RANGE);
  EXPECT_THAT(LastError(), testing::HasSubstr("Index 3 is outside an extent of 3"));
  EXPECT_EQ(hy_event_status(before.get()), HY_OK);
  int64_t time_ns = -1;
  EXPECT_EQ(hy_event_device_time(failing.get(), &time_ns), HY_OUT_OF_RANGE);
  EXPECT_EQ(time_ns, -1);
  const hy::Event after = submit(good);
  ASSERT_EQ(hy_event_wait(after.get(), HY_WAIT_FOREVER), HY_OK) << LastError();
  std::vector<float> found(4);
  y.Read(found.data(), 16);
  EXPECT_EQ(found, (std::vector<float>{25, 26, 5, 6}));
  // In host memory too, right behind one on the device.
  const hy::Event another = submit(good);
  const std::vector<int64_t> pick = {1, 1};
  const hy_tensor inputs[] = {TensorOf(HY_DTYPE_F32, {kRows, 2}, values),
                              TensorOf(HY_DTYPE_I64, {kPicked}, pick)};
  hy_tensor out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), inputs, 2, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(ValuesOf<float>(out), (std::vector<float>{15, 16, 15, 16}));
  EXPECT_EQ(hy_event_status(another.get()), HY_OK);
}

}  // namespace
}  // namespace halyard
