// SPDX-License-Identifier: Apache-2.0
// A host's thread with as little stack as halyard.h asks for: all calls work on it.
#include <pthread.h>

#include "tests/c_api/fixture.h"
#include "tests/sanitized.h"

namespace halyard {
namespace {

class StackTest : public CApiTest {
 public:
  using CApiTest::Compile;
  using CApiTest::Path;
};

TEST_F(StackTest, ALittleStackIsEnough) {
  if (HALYARD_SANITIZED)
    GTEST_SKIP() << "Sanitizers take much more stack than the header promises.";
  struct Job {
    StackTest* test;
    std::vector<float> y;
  } job{this, {}};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 64 << 10), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto* job = static_cast<Job*>(argument);
    const auto instance = hy::Instance::Create();
    EXPECT_FALSE(instance.Drivers().empty());
    const auto compiled = job->test->Compile(instance, "deep");
    compiled.Save(job->test->Path("p.hyp"));
    EXPECT_FALSE(compiled.Report(HY_REPORT_ALL, HY_FORMAT_JSON).empty());
    EXPECT_FALSE(compiled.Report(HY_REPORT_ALL, HY_FORMAT_HTML).empty());
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    const std::string path = job->test->Path("p.hyp");
    desc.path = hy::View(path);
    EXPECT_EQ(hy_program_check(instance.get(), &desc), HY_OK) << LastError();
    const auto program = hy::Program::Load(instance, desc);
    const std::vector<float> x = {1, 2, 3};
    const hy_tensor empty = HY_TENSOR_INIT;
    std::vector<hy_tensor> out = {empty};
    const auto session = hy::Session::Create(program);
    session.Run({F32(x)}, out);
    job->y = Values(out[0]);
    // Compiled for new sizes in the middle of a run.
    hy_session_desc session_desc = HY_SESSION_DESC_INIT;
    session_desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
    out = {empty};
    hy::Session::Create(compiled, &session_desc).Run({F32(x)}, out);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &job), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(job.y, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace halyard
