// SPDX-License-Identifier: Apache-2.0
// Many threads at once on one instance with the real compiler: what halyard.h says of threads,
// failures and the order of releases, while everything else goes on. Every result is checked.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

using namespace onnx::testing;  // NOLINT
using std::chrono::steady_clock;

// y[i, j] = max(0, sum of row i of x) + shift, in 5 columns.
Message RowSums(float shift) {
  GraphParts parts;
  parts.nodes = {Node("MatMul", {"x", "w"}, {"p"}), Node("Relu", {"p"}, {"r"}),
                 Node("Add", {"r", "s"}, {"y"})};
  parts.inputs = {ValueInfo("x", kF32, {"n", 7})};
  parts.outputs = {ValueInfo("y", kF32, {"n", 5})};
  parts.initialisers = {FloatTensor("w", {7, 5}, std::vector<float>(35, 1)),
                        FloatTensor("s", {}, {shift})};
  return ModelOf(parts);
}

// y[i] = 10 + x[i], of a table of 7.
Message Lookup() {
  GraphParts parts;
  parts.nodes = {Node("Gather", {"t", "x"}, {"y"})};
  parts.inputs = {ValueInfo("x", kI64, {"n"})};
  parts.outputs = {ValueInfo("y", kF32, {"n"})};
  parts.initialisers = {FloatTensor("t", {7}, {10, 11, 12, 13, 14, 15, 16})};
  return ModelOf(parts);
}

class Threads : public EndToEnd {
 protected:
  // Runs the jobs side by side, each again and again with a number of its own, for a second.
  void Repeat(const std::vector<std::function<void(uint32_t)>>& jobs) {
    const auto end = steady_clock::now() + std::chrono::milliseconds(1500);
    std::vector<std::thread> threads;
    for (size_t job = 0; job < jobs.size(); ++job) {
      threads.emplace_back([&, job] {
        std::mt19937 random(static_cast<uint32_t>(job));
        do {
          try {
            jobs[job](static_cast<uint32_t>(random()));
          } catch (const hy::Error& error) {
            ADD_FAILURE() << "job " << job << ": " << error.what();
            return;
          }
        } while (steady_clock::now() < end && !HasFailure());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  hy::Program CompileBytes(const std::string& bytes, hy_device_t* device = nullptr,
                           bool uses_cache = true, int32_t (*stop)(void*) = nullptr,
                           void* context = nullptr, const hy_affinity* affinity = nullptr) const {
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.affinities = affinity;
    desc.affinity_count = affinity != nullptr ? 1 : 0;
    desc.onnx_data = bytes.data();
    desc.onnx_size_bytes = bytes.size();
    desc.devices = device != nullptr ? &device : nullptr;
    desc.device_count = device != nullptr ? 1 : 0;
    desc.disable_tuning = 1;
    desc.disable_cache = uses_cache ? 0 : 1;
    desc.should_stop = stop;
    desc.progress_context = context;
    return hy::Program::Compile(instance_, desc);
  }
};

// Of rows whose elements are `value` each.
void ExpectRowSums(const hy::Session& session, int64_t rows, float value, float shift,
                   std::vector<hy_tensor>& outputs) {
  const std::vector<float> x(static_cast<size_t>(rows) * 7, value);
  session.Run({TensorOf(HY_DTYPE_F32, {rows, 7}, x)}, outputs);
  ASSERT_EQ(outputs[0].rank, 2u);
  ASSERT_EQ(outputs[0].dims[0], rows);
  for (const float y : ValuesOf<float>(outputs[0])) {
    ASSERT_NEAR(y, std::max(0.0f, 7 * value) + shift, 1e-4);
  }
}

TEST_F(Threads, SessionsProgramsAndDevicesSideBySide) {
  const std::string sums = RowSums(1).str();
  const std::string lookup = Lookup().str();
  const hy::Program shared = CompileBytes(sums);
  const hy::Program table = CompileBytes(lookup);
  const hy::Session contended = hy::Session::Create(shared);
  std::atomic<int> finished = 0, stopped = 0, refused = 0;

  // A session of its own over a shared program; its output tensor goes from run to run, through
  // sizes.
  const auto own_session = [&](uint32_t chance) {
    const hy::Session session = hy::Session::Create(shared);
    std::vector<hy_tensor> outputs = {HY_TENSOR_INIT};
    for (uint32_t i = 0; i < 20; ++i) {
      ExpectRowSums(session, (chance >> i) % 40, static_cast<float>(i) - 9, 1, outputs);
    }
  };
  // Runs that fail, and the next one that does not, in one session.
  const auto out_of_range = [&](uint32_t chance) {
    const hy::Session session = hy::Session::Create(table);
    std::vector<hy_tensor> outputs = {HY_TENSOR_INIT};
    const auto count = static_cast<int64_t>(1 + chance % 50);
    std::vector<int64_t> x(static_cast<size_t>(count), 3);
    for (const int64_t index : {6, 7, 2, -8, -7}) {
      x[chance % static_cast<uint32_t>(count)] = index;
      const hy_tensor input = TensorOf(HY_DTYPE_I64, {count}, x);
      const hy_result result = hy_session_run(session.get(), &input, 1, outputs.data(), 1);
      if (index == 7 || index == -8) {
        ASSERT_EQ(result, HY_OUT_OF_RANGE);
        ASSERT_THAT(LastError(), testing::HasSubstr("is outside an extent of 7"));
        ++refused;
        continue;
      }
      ASSERT_EQ(result, HY_OK) << LastError();
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(ValuesOf<float>(outputs[0])[i],
                  10.0f + static_cast<float>(x[i] < 0 ? x[i] + 7 : x[i]));
      }
    }
  };
  // One session for several threads: whoever comes second is told so.
  const auto one_session = [&](uint32_t chance) {
    const auto rows = static_cast<int64_t>(1 + chance % 9);
    const std::vector<float> x(static_cast<size_t>(rows) * 7, 1);
    std::vector<float> y(static_cast<size_t>(rows) * 5, -1);
    const hy_tensor input = TensorOf(HY_DTYPE_F32, {rows, 7}, x);
    hy_tensor output = TensorOf(HY_DTYPE_F32, {}, y);
    const hy_result result = hy_session_run(contended.get(), &input, 1, &output, 1);
    if (result == HY_BUSY) return;
    ASSERT_EQ(result, HY_OK) << LastError();
    for (const float value : y) ASSERT_EQ(value, 8);
    ++finished;
  };
  // Releases in an odd order: what is used keeps what it needs.
  const auto odd_order = [&](uint32_t chance) {
    hy::Device device = instance_.Open(chance % 2 == 0 ? "cpu:0?threads=1" : "cpu:0?discrete=3");
    hy::Program program = CompileBytes(sums, device.get(), chance % 4 < 2);
    if (chance % 8 < 4) device = hy::Device();
    hy::Session session = hy::Session::Create(program);
    if (chance % 16 < 8) program = hy::Program();
    device = hy::Device();
    const std::vector<float> x(21, 2);
    std::vector<float> y(15, -1);
    std::vector<hy_tensor> outputs = {TensorOf(HY_DTYPE_F32, {}, y)};
    const hy::Event event = session.Submit({TensorOf(HY_DTYPE_F32, {3, 7}, x)}, outputs);
    std::thread other([&] { EXPECT_EQ(hy_event_wait(event.get(), HY_WAIT_FOREVER), HY_OK); });
    session = hy::Session();
    program = hy::Program();
    other.join();
    for (const float value : y) ASSERT_EQ(value, 15);
  };
  // A compile that is stopped somewhere, and damaged models.
  const auto stopped_compile = [&](uint32_t chance) {
    std::atomic<int> left = static_cast<int>(chance % 60);
    const std::string bytes = RowSums(static_cast<float>(chance % 5)).str();
    try {
      const hy::Program program = CompileBytes(
          bytes, nullptr, chance % 3 == 0,
          [](void* context) -> int32_t {
            return (*static_cast<std::atomic<int>*>(context))-- <= 0;
          },
          &left);
      std::vector<hy_tensor> outputs = {HY_TENSOR_INIT};
      ExpectRowSums(hy::Session::Create(program), 4, 1, static_cast<float>(chance % 5), outputs);
    } catch (const hy::Error& error) {
      ASSERT_EQ(error.code(), HY_ABORTED) << error.what();
      ++stopped;
    }
    EXPECT_THROW(CompileBytes(bytes.substr(0, bytes.size() / 2), nullptr, true), hy::Error);
  };
  // Sizes that are compiled while others run.
  const auto new_sizes = [&](uint32_t chance) {
    hy_session_desc desc = HY_SESSION_DESC_INIT;
    desc.on_new_shapes = chance % 2 == 0 ? HY_NEW_SHAPES_COMPILE : HY_NEW_SHAPES_COMPILE_LATER;
    const hy::Session session = hy::Session::Create(shared, &desc);
    std::vector<hy_tensor> outputs = {HY_TENSOR_INIT};
    for (int64_t rows = 1; rows < 4; ++rows) {
      ExpectRowSums(session, rows + chance % 3, 0.5f, 1, outputs);
      // Too little room for the result: the run fails, the session does not.
      std::vector<float> y(3);
      const std::vector<float> x(static_cast<size_t>(rows) * 7, 1);
      const hy_tensor input = TensorOf(HY_DTYPE_F32, {rows, 7}, x);
      hy_tensor output = TensorOf(HY_DTYPE_F32, {}, y);
      ASSERT_EQ(hy_session_run(session.get(), &input, 1, &output, 1), HY_INVALID_ARGUMENT);
    }
  };
  // Reports while the program runs and grows.
  const auto reports = [&](uint32_t chance) {
    for (const hy_report_kind kind : {HY_REPORT_ALL, HY_REPORT_PHASES, HY_REPORT_COMMANDS}) {
      ASSERT_FALSE(shared.Report(kind, HY_FORMAT_TEXT).empty());
    }
    ASSERT_EQ(shared.Symbols().size(), 1u);
    shared.Save(Path("saved_" + std::to_string(chance % 2)));
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    const std::string path = Path("saved_" + std::to_string(chance / 2 % 2));
    desc.path = hy::View(path);
    if (!std::filesystem::exists(path)) return;
    std::vector<hy_tensor> outputs = {HY_TENSOR_INIT};
    ExpectRowSums(hy::Session::Create(hy::Program::Load(instance_, desc)), 3, 1, 1, outputs);
  };

  Repeat({own_session, own_session, out_of_range, out_of_range, one_session, one_session, odd_order,
          odd_order, stopped_compile, stopped_compile, new_sizes, new_sizes, reports});
  EXPECT_GT(finished, 0);
  EXPECT_GT(stopped, 0);
  EXPECT_GT(refused, 0);
}

// The sink may run on any thread, may ask for names and the last error, and may do so while others
// log.
TEST_F(Threads, TheLogSinkAsksWhatItMay) {
  static std::atomic<int> count;
  count = 0;
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  desc.log_level = HY_LOG_DEBUG;
  desc.log = [](void*, hy_log_level, hy_string message) {
    EXPECT_GT(message.size, 0u);
    EXPECT_EQ(hy::ToString(hy_result_name(HY_BUSY)), "BUSY");
    (void)hy_last_error();
    ++count;
  };
  instance_ = hy::Instance(desc);
  // A pattern that matches no node is a warning.
  const hy_affinity affinity = {HY_STRING("nothing"), HY_STRING("cpu:0"), HY_AFFINITY_PREFER};
  const auto compile = [&](uint32_t chance) {
    const auto shift = static_cast<float>(chance % 3);
    const hy::Program program =
        CompileBytes(RowSums(shift).str(), nullptr, chance % 2 == 0, nullptr, nullptr, &affinity);
    std::vector<hy_tensor> outputs = {HY_TENSOR_INIT};
    ExpectRowSums(hy::Session::Create(program), 2, 1, shift, outputs);
    hy_device_t* none = nullptr;
    EXPECT_EQ(hy_device_open(instance_.get(), hy::View("nodriver:0"), &none), HY_INVALID_ARGUMENT);
    EXPECT_THAT(LastError(), testing::HasSubstr("nodriver"));
  };
  Repeat({compile, compile, compile, compile});
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace halyard
