// SPDX-License-Identifier: Apache-2.0
// Programs and sessions: runs with every kind of memory, every way in which a call does not fit,
// events, threads, forks, and new shapes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "fixture.h"

namespace halyard {
namespace {

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) / 1e9f;
  return values;
}

class CApiRunTest : public CApiTest {
 protected:
  const hy::Instance instance_ = hy::Instance::Create();
  const hy_tensor empty_ = HY_TENSOR_INIT;

  hy::Program CompileOn(const hy::Device& device, const std::string& source) const {
    hy_device_t* raw = device.get();
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_data = source.data();
    desc.onnx_size_bytes = source.size();
    desc.devices = &raw;
    desc.device_count = 1;
    return hy::Program::Compile(instance_, desc);
  }
};

TEST_F(CApiRunTest, OutputsOfTheSession) {
  const auto program = Compile(instance_, "copy");
  const auto session = hy::Session::Create(program);
  for (const size_t count : {1, 1000, 0, 7, 1000}) {
    const auto x = Random(count, static_cast<uint32_t>(count));
    std::vector<hy_tensor> out = {empty_};
    session.Run({F32(x)}, out);
    EXPECT_EQ(Values(out[0]), x);
    EXPECT_EQ(out[0].dtype, HY_DTYPE_F32);
    ASSERT_EQ(out[0].rank, 1u);
    EXPECT_EQ(out[0].dims[0], static_cast<int64_t>(count));
  }
}

// What a run gave is no memory of the caller's in the next one, whatever the sizes were.
TEST_F(CApiRunTest, OutputsOfTheSessionGivenAgain) {
  for (const char* device : {"cpu:0", "cpu:0?discrete=7"}) {
    const auto opened = instance_.Open(device);
    const auto session = hy::Session::Create(CompileOn(opened, "copy"));
    std::vector<hy_tensor> first = {empty_}, second = {empty_};
    const auto run = [&](size_t count, std::vector<hy_tensor>& out) {
      const auto x = Random(count, static_cast<uint32_t>(count));
      session.Run({F32(x)}, out);
      EXPECT_EQ(out[0].size_bytes, count * 4);
      EXPECT_EQ(Values(out[0]), x) << device << " " << count;
    };
    for (const size_t count : {2, 64, 8, 64, 100000, 64}) run(count, first);
    run(300000, second);
    run(2, first);
    run(900000, first);
    run(900001, second);
  }
}

TEST_F(CApiRunTest, TheRoomOfCallersMemoryIsTheirs) {
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  std::vector<float> room(64);
  std::vector<hy_tensor> out = {empty_};
  out[0].data = room.data();
  out[0].size_bytes = room.size() * 4;
  for (const size_t count : {64, 8, 64}) {
    const auto x = Random(count, static_cast<uint32_t>(count));
    session.Run({F32(x)}, out);
    EXPECT_EQ(out[0].size_bytes, room.size() * 4);
    EXPECT_TRUE(std::equal(x.begin(), x.end(), room.begin()));
  }
}

TEST_F(CApiRunTest, CallersMemoryAlignedAndNot) {
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  alignas(64) float from[64 + 16], to[64 + 16];
  for (const size_t shift : {0, 1, 3, 16}) {
    const auto x = Random(64, static_cast<uint32_t>(shift));
    std::copy(x.begin(), x.end(), from + shift);
    std::fill(std::begin(to), std::end(to), -1.0f);
    hy_tensor in = F32(x);
    in.data = from + shift;
    std::vector<hy_tensor> out = {empty_};
    out[0].data = to + shift;
    out[0].size_bytes = 64 * 4;
    session.Run({in}, out);
    EXPECT_EQ(out[0].data, to + shift);
    EXPECT_EQ(std::vector<float>(to + shift, to + shift + 64), x);
    if (shift > 0) {
      EXPECT_EQ(to[shift - 1], -1.0f);
    }
    if (shift < 16) {
      EXPECT_EQ(to[shift + 64], -1.0f);
    }
  }
}

TEST_F(CApiRunTest, Buffers) {
  const auto device = instance_.Open("cpu:0");
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  const auto x = Random(32, 1);
  const auto in_buffer = hy::Buffer::Create(device, 64 + 128),
             out_buffer = hy::Buffer::Create(device, 128);
  std::copy(x.begin(), x.end(), static_cast<float*>(in_buffer.Map()) + 16);
  hy_tensor in = F32(x);
  in.data = nullptr;
  in.buffer = in_buffer.get();
  in.buffer_offset = 64;
  std::vector<hy_tensor> out = {empty_};
  out[0].buffer = out_buffer.get();
  out[0].size_bytes = 128;
  session.Run({in}, out);
  const auto* y = static_cast<const float*>(out_buffer.Map());
  EXPECT_EQ(std::vector<float>(y, y + 32), x);

  in.buffer_offset = 4;
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, out.data(), 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("multiple of 64"));
  in.buffer_offset = 128;
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, out.data(), 1), HY_OUT_OF_RANGE) << LastError();
  in.data = in_buffer.Map();
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, out.data(), 1), HY_INVALID_ARGUMENT);
}

TEST_F(CApiRunTest, DevicesWithMemoryOfTheirOwn) {
  const auto device = instance_.Open("cpu:0?discrete=7");
  for (const std::string source : {"copy", "fill"}) {
    const auto session = hy::Session::Create(CompileOn(device, source));
    for (const size_t count : {5, 1000, 0, 17}) {
      const auto x = Random(count, static_cast<uint32_t>(count));
      std::vector<float> y(count + 1, -1.0f);
      std::vector<hy_tensor> out = {empty_};
      session.Run({F32(x)}, out);
      EXPECT_EQ(Values(out[0]), source == "copy" ? x : std::vector<float>(count, 1.0f));
      out = {empty_};
      out[0].data = y.data();
      out[0].size_bytes = count * 4;
      const auto event = session.Submit({F32(x)}, out);
      EXPECT_TRUE(event.Wait());
      EXPECT_EQ(Values(out[0]), source == "copy" ? x : std::vector<float>(count, 1.0f));
      EXPECT_EQ(y[count], -1.0f);
    }
  }
}

TEST_F(CApiRunTest, ImportedMemoryIsReleasedOnce) {
  const auto device = instance_.Open("cpu:0");
  alignas(64) static float memory[16];
  int released = 0;
  const auto count = [](void* context) { ++*static_cast<int*>(context); };
  hy_buffer_t* raw = nullptr;
  ASSERT_EQ(hy_buffer_import(device.get(), memory, sizeof(memory), count, &released, &raw), HY_OK)
      << LastError();
  EXPECT_EQ(released, 0);
  hy_buffer_release(raw);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(hy_buffer_import(device.get(), memory + 1, 4, count, &released, &raw), HY_INCOMPATIBLE);
  EXPECT_EQ(released, 1);
}

TEST_F(CApiRunTest, CallsThatDoNotFit) {
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  const auto x = Random(4, 1);
  struct Case {
    std::function<void(hy_tensor&)> change;
    const char* message;
  };
  const Case cases[] = {
      {[](hy_tensor& t) { t.dtype = HY_DTYPE_I64; },
       "Input 'x' has dtype i64; the program needs f32."},
      {[](hy_tensor& t) { t.dtype = 99; }, "unknown dtype 99"},
      {[](hy_tensor& t) { t.rank = 2; }, "Input 'x' has 2 dimensions; the program needs 1: [n]."},
      {[](hy_tensor& t) { t.rank = 17; }, "rank 17; at most 16"},
      {[](hy_tensor& t) { t.dims[0] = -1; }, "Dimension 0 of input 'x' is -1; the least is 0."},
      {[](hy_tensor& t) { t.dims[0] = 5; }, "Input 'x' has 16 bytes; its shape needs 20."},
      {[](hy_tensor& t) { t.dims[0] = 2000000; },
       "Symbol 'n' is 2000000; the program takes 0 to 1048576."},
      {[](hy_tensor& t) { t.data = nullptr; }, "neither data nor a buffer"},
      {[](hy_tensor& t) { t.struct_size = 3; }, "struct_size"},
  };
  for (const Case& c : cases) {
    hy_tensor in = F32(x);
    c.change(in);
    hy_tensor out = HY_TENSOR_INIT;
    EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_INVALID_ARGUMENT) << c.message;
    EXPECT_THAT(LastError(), testing::HasSubstr(c.message));
  }
  hy_tensor in[2] = {F32(x), F32(x)}, out = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(session.get(), in, 2, &out, 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("gives 2 inputs; the program has 1"));
  EXPECT_EQ(hy_session_run(session.get(), in, 1, &out, 0), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("gives 0 outputs"));
  float small[2];
  out.data = small;
  out.size_bytes = sizeof(small);
  EXPECT_EQ(hy_session_run(session.get(), in, 1, &out, 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("output 'y' has 8 bytes; it needs 16"));
  // And after all that it still runs.
  out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), in, 1, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(Values(out), x);
}

TEST_F(CApiRunTest, MemoryLimitNamesTheShortfall) {
  const auto program = Compile(instance_, "copy");
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.memory_limit_bytes = 100;
  const auto session = hy::Session::Create(program, &desc);
  const auto x = Random(50, 1);
  hy_tensor in = F32(x), out = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OUT_OF_MEMORY);
  EXPECT_THAT(LastError(),
              testing::HasSubstr("need 200 bytes; the session's limit is 100, 100 too few"));
}

TEST_F(CApiRunTest, SubmitAndEvents) {
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  for (int round = 0; round < 20; ++round) {
    const auto x = Random(100, static_cast<uint32_t>(round));
    std::vector<float> unaligned(101);
    std::vector<hy_tensor> out = {empty_};
    if (round % 2 == 1) {
      out[0].data = unaligned.data() + 1;
      out[0].size_bytes = 400;
    }
    const auto event = session.Submit({F32(x)}, out);
    EXPECT_TRUE(event.Wait());
    EXPECT_EQ(hy_event_status(event.get()), HY_OK);
    EXPECT_EQ(Values(out[0]), x);
  }
  EXPECT_EQ(hy_event_wait(nullptr, -1), HY_INVALID_ARGUMENT);
}

TEST_F(CApiRunTest, EventOutlivesEverything) {
  const auto x = Random(10, 1);
  hy::Event event;
  std::vector<float> y(10);
  {
    const auto instance = hy::Instance::Create();
    const auto session = hy::Session::Create(Compile(instance, "fill"));
    std::vector<hy_tensor> out = {empty_};
    out[0].data = y.data();
    out[0].size_bytes = 40;
    event = session.Submit({F32(x)}, out);
  }
  EXPECT_TRUE(event.Wait());
  EXPECT_EQ(y, std::vector<float>(10, 1.0f));
}

TEST_F(CApiRunTest, SessionsRunSideBySide) {
  const auto program = Compile(instance_, "copy");
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&program, t] {
      const auto session = hy::Session::Create(program);
      const hy_tensor empty = HY_TENSOR_INIT;
      for (uint32_t round = 0; round < 200; ++round) {
        const auto x = Random(100 + t, round);
        std::vector<hy_tensor> out = {empty};
        session.Run({F32(x)}, out);
        ASSERT_EQ(Values(out[0]), x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CApiRunTest, OneSessionServesOneThreadAtATime) {
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  std::atomic<int> busy{0}, done{0}, other{0};
  const auto x = Random(200000, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        hy_tensor in = F32(x), out = HY_TENSOR_INIT;
        const hy_result result = hy_session_run(session.get(), &in, 1, &out, 1);
        if (result == HY_OK)
          ++done;
        else if (result == HY_BUSY)
          ++busy;
        else
          ++other;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(other, 0);
  EXPECT_GT(done, 0);
  EXPECT_GT(busy, 0);
  EXPECT_EQ(done + busy, 600);
}

TEST_F(CApiRunTest, ForkedChildGetsUnavailable) {
  const auto program = Compile(instance_, "copy");
  const auto session = hy::Session::Create(program);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    size_t count = 0;
    hy_instance_t* instance = nullptr;
    hy_tensor in = HY_TENSOR_INIT, out = HY_TENSOR_INIT;
    const bool all = hy_enumerate_drivers(instance_.get(), nullptr, &count) == HY_UNAVAILABLE &&
                     hy_instance_create(nullptr, &instance) == HY_UNAVAILABLE &&
                     hy_program_save(program.get(), hy::View("x")) == HY_UNAVAILABLE &&
                     hy_session_run(session.get(), &in, 1, &out, 1) == HY_UNAVAILABLE;
    hy_session_release(session.get());
    hy_program_release(program.get());
    hy_instance_release(instance_.get());
    _exit(all ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto x = Random(4, 1);
  std::vector<hy_tensor> out = {empty_};
  session.Run({F32(x)}, out);  // the parent goes on
  EXPECT_EQ(Values(out[0]), x);
}

TEST_F(CApiRunTest, NewShapes) {
  const auto program = Compile(instance_, "copy");
  EXPECT_EQ(CompileCount(), 1u);
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.on_new_shapes = HY_NEW_SHAPES_ERROR;
  const auto strict = hy::Session::Create(program, &desc);
  desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const auto session = hy::Session::Create(program, &desc),
             second = hy::Session::Create(program, &desc);
  const auto x = Random(12, 1);
  hy_tensor in = F32(x), out = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(strict.get(), &in, 1, &out, 1), HY_NOT_FOUND);
  EXPECT_THAT(LastError(), testing::HasSubstr("n = 12"));
  for (int round = 0; round < 3; ++round) {
    for (const auto* s : {&session, &second}) {
      out = HY_TENSOR_INIT;
      ASSERT_EQ(hy_session_run(s->get(), &in, 1, &out, 1), HY_OK) << LastError();
      EXPECT_EQ(Values(out), x);
    }
  }
  EXPECT_EQ(CompileCount(), 2u);
  out = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(strict.get(), &in, 1, &out, 1), HY_OK) << "the size is compiled now";
}

TEST_F(CApiRunTest, OfNewShapesTheLastOnesAreKept) {
  const auto program = Compile(instance_, "copy");
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const auto run = [&](const hy::Session& session, size_t n) {
    const auto x = Random(n, 1);
    hy_tensor in = F32(x), out = HY_TENSOR_INIT;
    ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
    EXPECT_EQ(Values(out), x);
  };
  // Compiled or taken from the cache.
  const auto made = [&] {
    const std::string text = program.Report(HY_REPORT_PHASES, HY_FORMAT_TEXT);
    size_t count = 0;
    for (size_t at = 0; (at = text.find("compile for n = ", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  const auto session = hy::Session::Create(program, &desc);
  for (size_t n = 1; n <= 17; ++n) run(session, n);
  EXPECT_EQ(made(), 17u);
  const auto second = hy::Session::Create(program, &desc);
  for (size_t n = 17; n > 1; --n) run(second, n);
  EXPECT_EQ(made(), 17u) << "the last 16 are kept";
  run(second, 1);
  EXPECT_EQ(made(), 18u) << "the first of 17 made room";
  const auto third = hy::Session::Create(program, &desc);
  run(third, 2);
  EXPECT_EQ(made(), 18u);
  run(third, 17);
  EXPECT_EQ(made(), 19u) << "17 was used longest ago";
}

TEST_F(CApiRunTest, NewShapesCompiledLater) {
  const auto program = Compile(instance_, "slow copy");
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.on_new_shapes = HY_NEW_SHAPES_COMPILE_LATER;
  const auto session = hy::Session::Create(program, &desc);
  const auto x = Random(12, 1);
  hy_tensor in = F32(x), out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(Values(out), x) << "what takes any size runs meanwhile";
  EXPECT_THAT(program.Report(HY_REPORT_PHASES, HY_FORMAT_TEXT),
              testing::Not(testing::HasSubstr("compile for n = 12")));
  Write("go", "");  // the stand-in waits for it
  while (program.Report(HY_REPORT_PHASES, HY_FORMAT_TEXT)
             .find("compile for n = 12, in the background") == std::string::npos) {
    std::this_thread::yield();
  }
  for (int round = 0; round < 3; ++round) {
    out = HY_TENSOR_INIT;
    ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
    EXPECT_EQ(Values(out), x);
  }
  EXPECT_EQ(CompileCount(), 2u) << "once for any size and once for 12";
  EXPECT_THAT(program.Report(HY_REPORT_PHASES, HY_FORMAT_JSON),
              testing::HasSubstr("\"is_background\": true"));
  // What is there now also serves the strict, and compiling at once.
  desc.on_new_shapes = HY_NEW_SHAPES_ERROR;
  const auto strict = hy::Session::Create(program, &desc);
  out = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(strict.get(), &in, 1, &out, 1), HY_OK) << LastError();
}

TEST_F(CApiRunTest, ALateCompileThatFailsIsRecordedAndNotRepeated) {
  const auto program = Compile(instance_, "copy, but no sizes");
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.on_new_shapes = HY_NEW_SHAPES_COMPILE_LATER;
  const auto session = hy::Session::Create(program, &desc);
  const auto x = Random(5, 1);
  hy_tensor in = F32(x), out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
  while (program.Report(HY_REPORT_PHASES, HY_FORMAT_TEXT).find("failed: ") == std::string::npos) {
    std::this_thread::yield();
  }
  for (int round = 0; round < 3; ++round) {
    out = HY_TENSOR_INIT;
    ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
    EXPECT_EQ(Values(out), x);
  }
  EXPECT_EQ(CompileCount(), 2u);
  // Asked for at once, the failure comes back.
  desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const auto eager = hy::Session::Create(program, &desc);
  EXPECT_EQ(hy_session_run(eager.get(), &in, 1, &out, 1), HY_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "No sizes are wanted.");
}

TEST_F(CApiRunTest, EndingWaitsForALateCompile) {
  const auto x = Random(5, 1);
  {
    const auto program = Compile(instance_, "copy");
    hy_session_desc desc = HY_SESSION_DESC_INIT;
    desc.on_new_shapes = HY_NEW_SHAPES_COMPILE_LATER;
    const auto session = hy::Session::Create(program, &desc);
    for (const size_t count : {1, 2, 3, 4, 5}) {
      hy_tensor in = F32(Random(count, 1)), out = HY_TENSOR_INIT;
      const auto values = Random(count, 1);
      in.data = const_cast<float*>(values.data());
      EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
      EXPECT_EQ(Values(out), values);
    }
  }
  EXPECT_GE(CompileCount(), 1u);
}

TEST_F(CApiRunTest, InterpretedOps) {
  const auto session = hy::Session::Create(Compile(instance_, "interpret"));
  const auto x = Random(12, 1);
  std::vector<hy_tensor> out = {empty_};
  session.Run({F32(x)}, out);
  EXPECT_EQ(Values(out[0]), x);
}

TEST_F(CApiRunTest, GraphsAreRecordedAndVerified) {
  const auto graph = hy::Graph::Create(instance_);
  graph.Symbol("n", 1, 100);
  const hy_value x = graph.Input("x", HY_DTYPE_F32, "n, 2");
  const float weights[2] = {1, 2};
  const hy_value w = graph.Constant("w", HY_DTYPE_F32, {2}, weights, sizeof(weights));
  EXPECT_EQ(hy_graph_verify(graph.get()), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("no output"));
  graph.Output("y", graph.Op("add", {x, w}));
  graph.Verify();
  graph.Output("z", graph.Op("nonsense", {x}));
  EXPECT_EQ(hy_graph_verify(graph.get()), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("nonsense"));

  hy_value value = 77;
  EXPECT_EQ(hy_graph_input(graph.get(), hy::View("x"), HY_DTYPE_F32, hy::View("n"), &value),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("The name 'x' is taken; "));
  EXPECT_EQ(hy_graph_input(graph.get(), hy::View("x2"), HY_DTYPE_F32, hy::View("n]) -> ("), &value),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("the character ']'; "));
  EXPECT_THAT(LastError(), testing::EndsWith(" (while adding input 'x2')"));
  EXPECT_EQ(hy_graph_input(graph.get(), hy::View("x3"), 55, hy::View("n"), &value),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::MatchesRegex("There is no dtype 55; 1 to [0-9]+ are dtypes. "
                                                 "\\(while adding input 'x3'\\)"));
  EXPECT_EQ(hy_graph_input(graph.get(), hy::View(""), HY_DTYPE_F32, hy::View("n"), &value),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("The name is empty; every input,"));
  const hy_value bad = 1000;
  EXPECT_EQ(hy_graph_op(graph.get(), hy::View("add"), {nullptr, 0}, &bad, 1, nullptr, 0, &value, 1),
            HY_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(),
            "Operand 0 is value 1000; the graph has 4 values. (while adding a node of op 'add')");
  const int64_t dims[1] = {3};
  int released = 0;
  EXPECT_EQ(hy_graph_constant(
                graph.get(), hy::View("v"), HY_DTYPE_F32, dims, 1, weights, 8,
                [](void* c) { ++*static_cast<int*>(c); }, &released, &value),
            HY_INVALID_ARGUMENT);
  EXPECT_EQ(released, 1);
  EXPECT_THAT(LastError(), testing::HasSubstr("8 bytes; its dtype and dims need 12"));
  const int64_t deep[HY_MAX_RANK + 1] = {};
  EXPECT_EQ(hy_graph_constant(graph.get(), hy::View("v"), HY_DTYPE_F32, deep, HY_MAX_RANK + 1,
                              weights, 8, nullptr, nullptr, &value),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("(while adding constant 'v')"));
  EXPECT_EQ(value, 77u);

  // A refused node is named as its caller named it, or by its op.
  hy_graph_attribute attribute = HY_GRAPH_ATTRIBUTE_INIT;
  const auto refusal = [&](const char* op, const char* name, size_t results) {
    hy_value made[2] = {};
    EXPECT_EQ(
        hy_graph_op(graph.get(), hy::View(op), hy::View(name), &x, 1, &attribute, 1, made, results),
        HY_INVALID_ARGUMENT);
    return LastError();
  };
  attribute.name = hy::View("axis");
  attribute.kind = 9;
  EXPECT_EQ(refusal("neg", "n1", 1),
            "Attribute 'axis' has the unknown kind 9; 0 to 6 are kinds. (while adding node 'n1' of "
            "op 'neg')");
  attribute.kind = HY_ATTRIBUTE_INTS;
  attribute.count = 2;
  EXPECT_EQ(
      refusal("neg", "n1", 1),
      "The list of attribute 'axis' is NULL with count 2. (while adding node 'n1' of op 'neg')");
  attribute.kind = HY_ATTRIBUTE_DTYPE;
  attribute.int_value = 77;
  EXPECT_THAT(refusal("cast", "n1", 1),
              testing::EndsWith("(while reading attribute 'axis'; while adding node 'n1' of op "
                                "'cast')"));
  attribute = HY_GRAPH_ATTRIBUTE_INIT;
  attribute.name = hy::View("a b");
  EXPECT_THAT(refusal("neg", "n1", 1), testing::HasSubstr("An attribute is named 'a b'; "));
  EXPECT_THAT(refusal("neg", "n1", 0), testing::HasSubstr("The node has 0 results; 1 to 1024"));
  EXPECT_THAT(refusal("a-b", "n1", 1), testing::HasSubstr("The op is 'a-b'; letters, digits"));
  EXPECT_THAT(refusal("constant", "n1", 1), testing::HasSubstr("hy_graph_constant"));
  attribute.name = hy::View("axis");
  EXPECT_THAT(refusal("neg", "w", 1), testing::StartsWith("The name 'w' is taken; "));
}

// At the call, in the caller's own words: at compile time only lines of a text that it never saw
// would be left.
TEST_F(CApiRunTest, SizesAreCheckedWhereTheyAreGiven) {
  const auto graph = hy::Graph::Create(instance_);
  hy_value x = HY_VALUE_NONE;
  const auto refusal = [&](const char* dims) {
    EXPECT_EQ(hy_graph_input(graph.get(), hy::View("x"), HY_DTYPE_F32, hy::View(dims), &x),
              HY_INVALID_ARGUMENT)
        << dims;
    return LastError();
  };
  EXPECT_EQ(refusal("batch"),
            "The sizes 'batch' name the symbol 'batch', which hy_graph_symbol has not declared; "
            "declared are none. (while adding input 'x')");
  graph.Symbol("batch", 1, 8);
  graph.Symbol("seq", 1, 8);
  EXPECT_EQ(refusal("3, batsh"),
            "The sizes '3, batsh' name the symbol 'batsh', which hy_graph_symbol has not declared; "
            "declared are 'batch', 'seq'. (while adding input 'x')");
  EXPECT_THAT(refusal("2, max(batch, sec)"), testing::HasSubstr("the symbol 'sec', which"));
  EXPECT_EQ(
      refusal("batch, -3"),
      "The sizes 'batch, -3' have a dimension of -3; the least is 0. (while adding input 'x')");
  for (const char* bad : {"batch,", ",", "batch,,3", "2*", "(batch", "batch)", "batch seq", "1.5",
                          "min(batch)", "max", "9223372036854775808"}) {
    EXPECT_THAT(refusal(bad), testing::HasSubstr("reading the sizes '" + std::string(bad) + "'"));
  }
  const hy_value good = graph.Input("x", HY_DTYPE_F32, " batch , max(seq, 2*batch) - 1, 3 ");

  hy_graph_attribute shape = HY_GRAPH_ATTRIBUTE_INIT;
  shape.name = hy::View("shape");
  shape.kind = HY_ATTRIBUTE_EXPRS;
  shape.string_value = hy::View("batch, zeq");
  EXPECT_EQ(
      hy_graph_op(graph.get(), hy::View("reshape"), hy::View("r"), &good, 1, &shape, 1, &x, 1),
      HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("The sizes 'batch, zeq' name the symbol 'zeq'"));
}

// What a graph came to by its calls is what it comes to without those that were taken back or that
// failed.
TEST_F(CApiRunTest, CallsCanBeTakenBack) {
  const auto graph = hy::Graph::Create(instance_);
  EXPECT_EQ(hy_graph_undo(graph.get()), HY_FAILED_PRECONDITION);
  EXPECT_EQ(LastError(), "The graph is empty; nothing can be taken back.");
  graph.Symbol("n", 1, 8);
  graph.Undo();
  graph.Symbol("n", 2, 9);
  const hy_value x = graph.Input("x", HY_DTYPE_F32, "n");
  int released = 0;
  const float bytes[1] = {1};
  const auto add_constant = [&](const char* name) {
    hy_value value = HY_VALUE_NONE;
    EXPECT_EQ(hy_graph_constant(
                  graph.get(), hy::View(name), HY_DTYPE_F32, nullptr, 0, bytes, 4,
                  [](void* c) { ++*static_cast<int*>(c); }, &released, &value),
              HY_OK);
    return value;
  };
  const hy_value one = add_constant("one");
  EXPECT_EQ(add_constant("again"), one + 1);
  EXPECT_EQ(released, 1) << "equal constants are kept once";
  graph.Undo();
  EXPECT_EQ(released, 1) << "the other one still uses the bytes";
  graph.Undo();
  EXPECT_EQ(released, 2);

  // A node of which one name is taken leaves nothing behind.
  graph.Op("neg", {x}, {}, "cut.1");
  hy_value two[2] = {};
  EXPECT_EQ(hy_graph_op(graph.get(), hy::View("split"), hy::View("cut"), &x, 1, nullptr, 0, two, 2),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::StartsWith("The name 'cut.1' is taken; "));
  const hy_value y = graph.Op("neg", {x}, {}, "cut");
  EXPECT_EQ(y, 2u);

  const hy_value wrong = graph.Op("nonsense", {x}, {}, "w");
  graph.Output("y", wrong);
  EXPECT_EQ(hy_graph_verify(graph.get()), HY_INVALID_ARGUMENT);
  graph.Undo();
  graph.Undo();
  EXPECT_EQ(graph.Op("neg", {y}, {}, "w"), wrong) << "names and numbers are free again";
  graph.Output("y", wrong);
  graph.Verify();
}

TEST_F(CApiRunTest, SymbolsHaveNamesThatSizesCanSayAndSomeValue) {
  const auto graph = hy::Graph::Create(instance_);
  for (const std::string name :
       {"", " ", "3", "a b", "n*2", "n,m", "min", "mod", "\xff", "?", "n\n"}) {
    EXPECT_EQ(hy_graph_symbol(graph.get(), hy::View(name), 1, 8, 1), HY_INVALID_ARGUMENT) << name;
  }
  EXPECT_THAT(LastError(), testing::HasSubstr("cannot be named in sizes"));
  EXPECT_EQ(hy_graph_symbol(graph.get(), hy::View("n"), 1, 7, 8), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("none in [1, 7] is a multiple of 8"));
  // No symbol exceeds 2^31 - 1, whatever its range says.
  const int64_t most = INT32_MAX;
  EXPECT_EQ(hy_graph_symbol(graph.get(), hy::View("n"), most + 1, INT64_MAX, 1),
            HY_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(),
            "Symbol 'n' is at least 2147483648; the largest value of a symbol is 2147483647.");
  EXPECT_EQ(hy_graph_symbol(graph.get(), hy::View("n"), 1, INT64_MAX, most + 1),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("none in [1, 2147483647] is a multiple of"));
  graph.Symbol("most", most, INT64_MAX);
  for (const std::string name : {"n", "_n", "n_2.size"}) graph.Symbol(name, 0, 7, 8);
}

// The count is the caller's word for how many elements there are.
TEST_F(CApiRunTest, NoElementIsReadOfACallWithAnotherCount) {
  const auto session = hy::Session::Create(Compile(instance_, "copy"));
  const auto x = Random(3, 1);
  const hy_tensor in = F32(x);
  hy_tensor out = empty_;
  EXPECT_EQ(hy_session_run(session.get(), &in, SIZE_MAX, &out, 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("inputs; the program has 1"));
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, SIZE_MAX), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("outputs; the program has 1"));
}

}  // namespace
}  // namespace halyard
