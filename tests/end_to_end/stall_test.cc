// SPDX-License-Identifier: Apache-2.0
// A device that stops ending work, under a whole model: the run ends with DEVICE_LOST within the
// limit, the session goes on with what is left where the policy says so, and closing does not wait.
#include "tests/end_to_end/fault_fixture.h"

namespace halyard {
namespace {

using testing::HasSubstr;

class Stall : public FaultSweep {
 protected:
  // In the other order than `paths`, everything is closed while the device hangs.
  void ExpectLostAndReplaced(const std::vector<std::string>& paths,
                             const std::vector<hy_affinity>& affinities) {
    const hy::Instance instance = hy::Instance::Create();
    const hy::Program program = CompileOn(instance, paths, affinities);
    const hy::Session session = hy::Session::Create(program);
    EXPECT_EQ(RunOnce(session), HY_OK) << error_;
    fake_.hold_streams(1);
    EXPECT_EQ(RunOnce(session), HY_DEVICE_LOST);
    EXPECT_THAT(error_, HasSubstr("'cuda:0' is lost for this process: Queue "));
    EXPECT_THAT(error_, HasSubstr(" ended no work for 1 s, the limit of option 'wait_limit_s'. In "
                                  "flight: the submission of "));
    for (int run = 0; run < 2; ++run) EXPECT_EQ(RunOnce(session), HY_OK) << error_;
    EXPECT_THAT(program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT),
                HasSubstr("Device 'cuda:0' was lost; the program was placed anew and runs on "
                          "'cpu:0'."));
  }
};

TEST_F(Stall, ARunOnAGpuThatHangsGoesOnElsewhere) {
  ExpectLostAndReplaced({"cuda:0?wait_limit_s=1&graph_commands=2"}, {});
  // Nothing of the held streams went; now everything goes.
  fake_.hold_streams(0);
  EXPECT_EQ(fake_.Leaks(), "");
}

// The caller waits for the CPU, which waits for the GPU.
TEST_F(Stall, APlanOverTwoDevicesGoesOnWithOne) {
  ExpectLostAndReplaced({"cuda:0?wait_limit_s=1", "cpu:0"},
                        {{HY_STRING("node_Conv*"), HY_STRING("cuda:0"), HY_AFFINITY_REQUIRE},
                         {HY_STRING("node_linear*"), HY_STRING("cpu:0"), HY_AFFINITY_REQUIRE}});
  fake_.hold_streams(0);
  EXPECT_EQ(fake_.Leaks(), "");
}

// With a session that is released while its run hangs.
TEST_F(Stall, ReleasingASessionEndsWithinTheLimit) {
  {
    const hy::Instance instance = hy::Instance::Create();
    const hy::Session session = hy::Session::Create(CompileOn(instance, {"cuda:0?wait_limit_s=1"}));
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    fake_.hold_streams(1);
    const hy::Event event = session.Submit({Image()}, out);
    EXPECT_EQ(hy_event_wait(event.get(), 20'000'000), HY_DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(RunOn(hy::Instance::Create(), "cpu:0", on_cpu_), HY_OK) << error_;
  fake_.hold_streams(0);
  EXPECT_EQ(fake_.Leaks(), "");
}

// Uploads of weights and every submission of two runs.
TEST_F(Stall, VulkanAtAnySubmission) {
  const std::string program = Compiled("vulkan:0");
  int failures = 0;
  for (int nth = 1; nth < 100; ++nth) {
    const std::string path = "vulkan:0?wait_limit_s=1&hang_at=" + std::to_string(nth);
    if (RunModel(path, program) == HY_OK) break;
    ++failures;
    EXPECT_THAT(error_, HasSubstr("'vulkan:0' is lost for this process: Hardware queue 0 ended no "
                                  "work for 1 s, the limit of option 'wait_limit_s'. In flight: "));
  }
  EXPECT_GE(failures, 2);
}

}  // namespace
}  // namespace halyard
