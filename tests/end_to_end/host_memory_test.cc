// SPDX-License-Identifier: Apache-2.0
// The host's memory ends while a model is compiled, raced or run: in our code, in LLVM, on threads
// of the library, wherever it may be. The call fails, the process lives, and with memory the next
// call is as good as any.
#include "tests/end_to_end/fixture.h"
#include "tests/heap_watch.h"

namespace halyard {
namespace {

using namespace onnx::testing;  // NOLINT

class HostMemory : public EndToEnd {
 protected:
  // Rows of softmax, and a product: loops, vectors and calls of the mathematics.
  const std::string model_ =
      ModelOf({{Node("MatMul", {"x", "w"}, {"p"}), Node("Softmax", {"p"}, {"s"}),
                Node("Add", {"s", "p"}, {"y"})},
               {FloatTensor("w", {16, 20}, std::vector<float>(320, 0.25f))},
               {ValueInfo("x", kF32, {"n", 16})},
               {ValueInfo("y", kF32, {"n", 20})}})
          .str();

  // Compiles and runs on three rows. Allocates nothing itself.
  hy_result CompileAndRun(hy_device_t* device, bool tunes) {
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_data = model_.data();
    desc.onnx_size_bytes = model_.size();
    desc.devices = &device;
    desc.device_count = 1;
    desc.disable_tuning = tunes ? 0 : 1;
    desc.disable_cache = 1;
    hy_program_t* program = nullptr;
    hy_result result = hy_program_compile(instance_.get(), &desc, &program);
    if (result != HY_OK) return result;
    hy_session_t* session = nullptr;
    result = hy_session_create(program, nullptr, &session);
    if (result == HY_OK) {
      hy_tensor out = HY_TENSOR_INIT;
      result = hy_session_run(session, &in_, 1, &out, 1);
      last_ = result == HY_OK ? static_cast<const float*>(out.data)[59] : 0;
      hy_session_release(session);
    }
    hy_program_release(program);
    return result;
  }

  // Does so again and again, without memory from the n-th allocation on, at `places` all over it.
  // Returns how often that failed.
  int Sweep(const std::string& path, bool tunes, int64_t places) {
    const hy::Device device = instance_.Open(path);
    EXPECT_EQ(CompileAndRun(device.get(), tunes), HY_OK) << LastError();  // opens the compiler
    const int64_t before = AllocationCount();
    EXPECT_EQ(CompileAndRun(device.get(), tunes), HY_OK) << LastError();
    const int64_t count = AllocationCount() - before;
    int failures = 0;
    for (int64_t i = 0; i < places; ++i) {
      const int64_t nth = count * i / places + i % 7;  // at no period of what is done
      FailAllocationsFrom(nth);
      const hy_result result = CompileAndRun(device.get(), tunes);
      FailNoAllocations();
      if (result == HY_OK) {  // it did without, as for a line of the report
        EXPECT_NEAR(last_, 4.05f, 1e-5f);
        continue;
      }
      ++failures;
      EXPECT_EQ(result, HY_OUT_OF_MEMORY)
          << "allocation " << nth << " of " << count << ": " << LastError();
    }
    EXPECT_EQ(CompileAndRun(device.get(), tunes), HY_OK) << LastError();
    return failures;
  }

  const std::vector<float> x_ = std::vector<float>(48, 1.0f);
  const hy_tensor in_ = TensorOf(HY_DTYPE_F32, {3, 16}, x_);
  float last_ = 0;  // of the last result's elements: a score of 1/20, and a sum of 4
};

TEST_F(HostMemory, EndsAtAnyPlace) {
  if (!WatchesHeap()) GTEST_SKIP() << "a sanitizer has the heap";
  EXPECT_GE(Sweep("cpu:0?threads=1", false, 600), 500);
}

TEST_F(HostMemory, EndsWhileSchedulesRace) {
  if (!WatchesHeap()) GTEST_SKIP() << "a sanitizer has the heap";
  EXPECT_GE(Sweep("cpu:0?threads=2", true, 60), 50);
}

}  // namespace
}  // namespace halyard
