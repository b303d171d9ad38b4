// SPDX-License-Identifier: Apache-2.0
// Runs that fail on their data or their shapes, and what a steady run allocates, on compiled code.
#include <thread>

#include "tests/end_to_end/fixture.h"
#include "tests/heap_watch.h"

namespace halyard {
namespace {

using onnx::testing::FloatTensor;
using onnx::testing::IntAttribute;
using onnx::testing::kF32;
using onnx::testing::kI64;
using onnx::testing::Message;
using onnx::testing::ModelOf;
using onnx::testing::Node;
using onnx::testing::ValueInfo;

class EndToEndRun : public EndToEnd {
 protected:
  // y = x[i] + 1 over the rows of x.
  static Message Rows() {
    return ModelOf({{Node("Gather", {"x", "i"}, {"g"}, {IntAttribute("axis", 0)}, "pick_rows"),
                     Node("Add", {"g", "one"}, {"y"}, {}, "add_one")},
                    {FloatTensor("one", {}, {1})},
                    {ValueInfo("x", kF32, {"rows", 2}), ValueInfo("i", kI64, {"n"})},
                    {ValueInfo("y", kF32, {"n", 2})}});
  }
  const std::vector<float> x_ = {0, 1, 10, 11, 20, 21};
};

TEST_F(EndToEndRun, AnIndexOutOfRangeNamesNodeIndexAndExtent) {
  const auto session = hy::Session::Create(Compile(Rows()));
  const std::vector<int64_t> good = {2, -3}, high = {0, 3}, low = {-4, 1};
  const auto run = [&](const std::vector<int64_t>& indices) {
    const hy_tensor inputs[] = {TensorOf(HY_DTYPE_F32, {3, 2}, x_),
                                TensorOf(HY_DTYPE_I64, {2}, indices)};
    hy_tensor y = HY_TENSOR_INIT;
    const hy_result result = hy_session_run(session.get(), inputs, 2, &y, 1);
    if (result == HY_OK) {
      EXPECT_EQ(ValuesOf<float>(y), (std::vector<float>{21, 22, 1, 2}));
    }
    return result;
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(run(good), HY_OK) << LastError();
    EXPECT_EQ(run(high), HY_OUT_OF_RANGE);
    EXPECT_THAT(LastError(), testing::HasSubstr("Index 3 is outside an extent of 3"));
    EXPECT_THAT(LastError(), testing::HasSubstr("pick_rows"));
    EXPECT_THAT(LastError(), testing::Not(testing::HasSubstr("\n")));
    EXPECT_EQ(run(low), HY_OUT_OF_RANGE);
    EXPECT_THAT(LastError(), testing::HasSubstr("Index -4 is outside an extent of 3"));
  }
  EXPECT_EQ(run(good), HY_OK) << LastError();
}

TEST_F(EndToEndRun, TheEventOfASubmittedRunKeepsItsFailure) {
  const auto session = hy::Session::Create(Compile(Rows()));
  const std::vector<int64_t> bad = {7, 0}, good = {1, 0};
  hy_tensor inputs[] = {TensorOf(HY_DTYPE_F32, {3, 2}, x_), TensorOf(HY_DTYPE_I64, {2}, bad)};
  hy_tensor y = HY_TENSOR_INIT;
  hy_event_t* raw = nullptr;
  ASSERT_EQ(hy_session_submit(session.get(), inputs, 2, &y, 1, &raw), HY_OK) << LastError();
  const hy::Event event(raw);
  EXPECT_EQ(hy_event_wait(event.get(), HY_WAIT_FOREVER), HY_OUT_OF_RANGE);
  EXPECT_THAT(LastError(), testing::HasSubstr("Index 7 is outside an extent of 3"));
  inputs[1] = TensorOf(HY_DTYPE_I64, {2}, good);
  y = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(session.get(), inputs, 2, &y, 1), HY_OK) << LastError();
  EXPECT_EQ(ValuesOf<float>(y), (std::vector<float>{11, 12, 1, 2}));
  EXPECT_EQ(hy_event_status(event.get()), HY_OUT_OF_RANGE) << "also after the next run";
}

TEST_F(EndToEndRun, ATimedCommandSaysWhatItDoes) {
  const std::vector<float> weights(16 * 32, 0.5f), x(8 * 16, 1.0f);
  const hy::Program program = Compile(ModelOf({{Node("MatMul", {"x", "w"}, {"p"}, {}, "product"),
                                                Node("Relu", {"p"}, {"y"}, {}, "activation")},
                                               {FloatTensor("w", {16, 32}, weights)},
                                               {ValueInfo("x", kF32, {"rows", 16})},
                                               {ValueInfo("y", kF32, {"rows", 32})}}));
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.time_runs = HY_TIME_COMMANDS;
  const auto session = hy::Session::Create(program, &desc);
  std::vector<hy_tensor> y(1, HY_TENSOR_INIT);
  const hy::Event event = session.Submit({TensorOf(HY_DTYPE_F32, {8, 16}, x)}, y);
  EXPECT_EQ(ValuesOf<float>(y[0]), std::vector<float>(8 * 32, 8.0f));
  int64_t flops = 0;
  for (const hy_command_time& time : event.CommandTimes()) {
    if (time.kind != HY_TIMED_DISPATCH || time.product == HY_DTYPE_INVALID) continue;
    flops += time.flops;
    EXPECT_EQ(time.product, HY_DTYPE_F32);
    EXPECT_EQ(time.bytes, 4 * (8 * 16 + 16 * 32 + 8 * 32));
    EXPECT_GE(time.device_ns, 0);
    EXPECT_GE(time.live_bytes, 0);
    EXPECT_LE(time.live_bytes, program.Memory({{HY_STRING("rows"), 8}})[0].activation_bytes);
  }
  EXPECT_EQ(flops, 2 * 8 * 16 * 32 + 8 * 32) << "one product with its activation";
}

TEST_F(EndToEndRun, TheCommandEndsWithStatus2) {
  Write("model.onnx", Rows().str());
  std::string npy("\x93NUMPY\x01\x00\x46\x00", 10);
  npy += "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }";
  npy.resize(79, ' ');
  npy += '\n';
  Write("bad.npy", npy + std::string("\x63\0\0\0\0\0\0\0", 8));
  Write("good.npy", npy + std::string("\x01\0\0\0\0\0\0\0", 8));
  EXPECT_THAT(Run("run --no-tune model.onnx --shape rows=3 --input i=@bad.npy"),
              testing::HasSubstr("model.onnx: Index 99 is outside an extent of 3"));
  EXPECT_EQ(status_, 2);
  Run("run --no-tune model.onnx --shape rows=3 --input i=@good.npy");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("run --no-tune model.onnx --shape rows=3 --input x=@good.npy"),
              testing::HasSubstr("halyard: error: "));
  EXPECT_EQ(status_, 2) << "an input of another dtype and rank";
}

TEST_F(EndToEndRun, ShapesThatDoNotFitAreNamed) {
  const auto session = hy::Session::Create(Compile(Rows()));
  const std::vector<int64_t> indices = {0, 1};
  const std::vector<float> nine(9);
  hy_tensor inputs[] = {TensorOf(HY_DTYPE_F32, {3, 3}, nine), TensorOf(HY_DTYPE_I64, {2}, indices)};
  hy_tensor y = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(session.get(), inputs, 2, &y, 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(),
              testing::HasSubstr("Dimension 1 of input 'x' is 3; the program needs 2"));
  EXPECT_EQ(hy_session_run(session.get(), inputs, 1, &y, 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("gives 1 input; the program has 2"));
}

TEST_F(EndToEndRun, FixedSizesMustBeSizesOfInputs) {
  const std::string path = Write("model.onnx", Rows().str());
  const auto compile = [&](const char* name, int64_t value) {
    const hy_symbol_value symbol = {hy::View(name), value};
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    desc.disable_tuning = 1;
    desc.symbols = &symbol;
    desc.symbol_count = 1;
    hy_program_t* program = nullptr;
    const hy_result result = hy_program_compile(instance_.get(), &desc, &program);
    hy_program_release(program);
    return result;
  };
  EXPECT_EQ(compile("rows", 3), HY_OK) << LastError();
  EXPECT_EQ(compile("columns", 3), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr(
                               "The model has no size 'columns', which is to be 3; its sizes with "
                               "names: 'n', 'rows'."));
  EXPECT_THAT(Run("run --no-tune model.onnx --shape columns=3"), testing::HasSubstr("'columns'"));
  EXPECT_EQ(status_, 2);
}

// Models need not have the same sizes; one that none of them has is refused by each.
TEST_F(EndToEndRun, BenchBindsASizeWhereAModelHasIt) {
  const auto copy_of = [](const char* dim) {
    return ModelOf({{Node("Neg", {"x"}, {"y"})},
                    {},
                    {ValueInfo("x", kF32, {dim, 2})},
                    {ValueInfo("y", kF32, {dim, 2})}});
  };
  Write("a.onnx", copy_of("batch").str());
  Write("b.onnx", copy_of("rows").str());
  const std::string quick = " --runs 3 --warm-up 0 --seconds 0.05 --no-profile -o csv ";
  const std::string out = Run("bench a.onnx b.onnx --shape batch=2,3 --shape rows=4" + quick);
  EXPECT_EQ(status_, 0) << out;
  for (const char* row : {"\n\"a.onnx batch=2 as-given\",", "\n\"a.onnx batch=3 as-given\",",
                          "\n\"b.onnx rows=4 as-given\","})
    EXPECT_THAT(out, testing::HasSubstr(row));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4) << out;
  const std::string refused = Run("bench a.onnx b.onnx --shape batch=2 --shape columns=4" + quick);
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(refused,
              testing::HasSubstr(
                  "a.onnx batch=2 columns=4 as-given on cpu:0: The model has no size 'columns'"));
  EXPECT_THAT(refused, testing::HasSubstr(
                           "b.onnx columns=4 as-given on cpu:0: The model has no size 'columns'"));
  // A program says itself what it leaves open.
  Run("compile a.onnx --no-tune -o a.hyp");
  EXPECT_EQ(status_, 0);
  const std::string mixed = Run("bench a.hyp b.onnx --shape batch=2 --shape rows=4" + quick);
  EXPECT_EQ(status_, 0) << mixed;
}

TEST_F(EndToEndRun, AnEquationOfSizesIsSaidOnce) {
  Write("model.onnx", ModelOf({{Node("MatMul", {"a", "b"}, {"c"})},
                               {},
                               {ValueInfo("a", kF32, {2, "n"}), ValueInfo("b", kF32, {"m", 3})},
                               {ValueInfo("c", kF32, {2, 3})}})
                          .str());
  const std::string out = Run("explain --no-tune model.onnx");
  const size_t first = out.find("needs  ");
  ASSERT_NE(first, std::string::npos) << out;
  EXPECT_EQ(out.find("needs  ", first + 1), std::string::npos) << out;
}

TEST_F(EndToEndRun, GraphsBuiltHereTakeFixedSizes) {
  const auto graph = hy::Graph::Create(instance_);
  graph.Symbol("n", 1, 100, 2);
  const hy_value x = graph.Input("x", HY_DTYPE_F32, "n");
  graph.Output("y", graph.Op("add", {x, x}));
  const auto compile = [&](const char* name, int64_t value, hy_program_t** program) {
    const hy_symbol_value symbol = {hy::View(name), value};
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.graph = graph.get();
    desc.disable_tuning = 1;
    desc.symbols = &symbol;
    desc.symbol_count = 1;
    return hy_program_compile(instance_.get(), &desc, program);
  };
  hy_program_t* raw = nullptr;
  EXPECT_EQ(compile("m", 4, &raw), HY_INVALID_ARGUMENT);
  EXPECT_EQ(compile("n", 3, &raw), HY_OUT_OF_RANGE) << "no multiple of 2";
  ASSERT_EQ(compile("n", 4, &raw), HY_OK) << LastError();
  const hy::Program program(raw);
  const auto session = hy::Session::Create(program);
  const std::vector<float> four = {1, 2, 3, 4}, six(6);
  hy_tensor in = TensorOf(HY_DTYPE_F32, {4}, four), out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(ValuesOf<float>(out), (std::vector<float>{2, 4, 6, 8}));
  in = TensorOf(HY_DTYPE_F32, {6}, six);
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_INVALID_ARGUMENT);
}

// The caller never sees the text that a recorded graph becomes: a refusal names what the calls
// named.
TEST_F(EndToEndRun, RefusalsOfGraphsBuiltHereNameTheNode) {
  const auto refusal = [&](const std::string& op, const std::vector<hy_graph_attribute>& attributes,
                           size_t result_count = 1, std::string_view dims = "2, 3") {
    const auto graph = hy::Graph::Create(instance_);
    const hy_value x = graph.Input("x", HY_DTYPE_F32, dims);
    hy_value y[2] = {};
    EXPECT_EQ(hy_graph_op(graph.get(), hy::View(op), hy::View("head"), &x, 1, attributes.data(),
                          attributes.size(), y, result_count),
              HY_OK);
    graph.Output("y", y[0]);
    EXPECT_EQ(hy_graph_verify(graph.get()), HY_INVALID_ARGUMENT);
    return LastError();
  };
  const auto attribute = [](const char* name, hy_attribute_kind kind) {
    hy_graph_attribute out = HY_GRAPH_ATTRIBUTE_INIT;
    out.name = hy::View(name);
    out.kind = kind;
    return out;
  };
  EXPECT_THAT(refusal("reduce_summ", {}),
              testing::MatchesRegex("'reduce_summ' is not an op; near it are 'reduce_sum'.*"
                                    " \\(node 'head'\\)\\."));
  EXPECT_THAT(refusal("reduce_sum", {attribute("axis", HY_ATTRIBUTE_INT)}),
              testing::MatchesRegex("Reduce_sum has no attribute 'axis'; it has 'axes', .*"
                                    " \\(node 'head'\\)\\."));
  hy_graph_attribute text = attribute("axes", HY_ATTRIBUTE_STRING);
  text.string_value = hy::View("last");
  EXPECT_EQ(refusal("reduce_sum", {text}),
            "The attribute 'axes' of reduce_sum is 'last'; a list of integers of 64 bits is needed "
            "(node 'head').");
  hy_graph_attribute half = attribute("axis", HY_ATTRIBUTE_FLOAT);
  half.float_value = 0.5;
  EXPECT_EQ(
      refusal("concat", {half}),
      "The attribute 'axis' of concat is '0.5'; an integer of 64 bits is needed (node 'head').");
  half.float_value = 1;
  EXPECT_EQ(
      refusal("concat", {half}),
      "The attribute 'axis' of concat is '1.0'; an integer of 64 bits is needed (node 'head').");
  const double halves[] = {1, 2};
  hy_graph_attribute floats = attribute("axes", HY_ATTRIBUTE_FLOATS);
  floats.floats = halves;
  floats.count = 2;
  EXPECT_THAT(refusal("reduce_sum", {floats}),
              testing::StartsWith("The attribute 'axes' of reduce_sum is '[1.0, 2.0]'; a list of "
                                  "integers of 64 bits is needed"));
  const hy_graph_attribute axis = attribute("axis", HY_ATTRIBUTE_INT);
  EXPECT_EQ(refusal("concat", {axis, axis}),
            "The attribute 'axis' of concat is given twice (node 'head').");
  EXPECT_EQ(refusal("neg", {}, 2), "Neg has 1 result, not 2 (node 'head').");
  EXPECT_EQ(refusal("add", {}), "add takes 2 operands; it has 1 (node 'head').");
}

// Sizes of 0, of rank 0, and beyond what there is.
TEST_F(EndToEndRun, OddSizes) {
  const std::string digits = HALYARD_SOURCE_DIR "/examples/digits/digits.onnx";
  const auto session = hy::Session::Create(CompileFile(digits));
  const std::vector<float> one_image(64, 0.25f);
  hy_tensor in = TensorOf(HY_DTYPE_F32, {0, 1, 8, 8}, std::vector<float>());
  hy_tensor out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(out.size_bytes, 0u);
  EXPECT_EQ(out.dims[1], 10);
  in = TensorOf(HY_DTYPE_F32, {int64_t{1} << 40, 1, 8, 8}, one_image);
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("batch"));
  // Within the model's range, but more than any machine has: refused before anything is allocated.
  in = TensorOf(HY_DTYPE_F32, {2147483647, 1, 8, 8}, one_image);
  const hy_result huge = hy_session_run(session.get(), &in, 1, &out, 1);
  EXPECT_THAT(huge, testing::AnyOf(HY_INVALID_ARGUMENT, HY_OUT_OF_MEMORY, HY_OUT_OF_RANGE));
  EXPECT_THAT(LastError(), testing::Not(testing::IsEmpty()));
  in = TensorOf(HY_DTYPE_F32, {1, 1, 8, 8}, one_image);
  out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(out.size_bytes, 40u);

  const auto scalar =
      hy::Session::Create(Compile(ModelOf({{Node("Add", {"x", "one"}, {"y"}, {}, "n")},
                                           {FloatTensor("one", {}, {1})},
                                           {ValueInfo("x", kF32, {})},
                                           {ValueInfo("y", kF32, {})}})));
  const std::vector<float> two = {2};
  in = TensorOf(HY_DTYPE_F32, {}, two);
  out = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(scalar.get(), &in, 1, &out, 1), HY_OK) << LastError();
  EXPECT_EQ(out.rank, 0u);
  EXPECT_EQ(ValuesOf<float>(out), (std::vector<float>{3}));
}

// The run writes where its input stands: what it reads is what stood there before.
TEST_F(EndToEndRun, AnOutputIsTheNextInput) {
  constexpr int64_t kSide = 40;
  const hy::Program program = Compile(ModelOf({{Node("Transpose", {"x"}, {"y"})},
                                               {},
                                               {ValueInfo("x", kF32, {kSide, kSide})},
                                               {ValueInfo("y", kF32, {kSide, kSide})}}));
  const hy::Session session = hy::Session::Create(program);
  std::vector<float> x(kSide * kSide);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
  session.Run({TensorOf(HY_DTYPE_F32, {kSide, kSide}, x)}, out);
  for (int step = 1; step < 4; ++step) {
    const hy_tensor in = out[0];
    session.Run({in}, out);
    const std::vector<float> y = ValuesOf<float>(out[0]);
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      const int64_t from = step % 2 == 1 ? i : i % kSide * kSide + i / kSide;
      ASSERT_EQ(y[static_cast<size_t>(i)], static_cast<float>(from)) << step << " " << i;
    }
  }
}

TEST_F(EndToEndRun, ASteadyRunAllocatesNothing) {
  const std::string digits = HALYARD_SOURCE_DIR "/examples/digits/digits.onnx";
  const auto session = hy::Session::Create(CompileFile(digits));
  const std::vector<float> images(3 * 64, 0.5f);
  std::vector<float> scores(30);
  const hy_tensor input = TensorOf(HY_DTYPE_F32, {3, 1, 8, 8}, images);
  const auto run = [&] {
    hy_tensor output = HY_TENSOR_INIT;
    output.data = scores.data();
    output.size_bytes = scores.size() * sizeof(float);
    ASSERT_EQ(hy_session_run(session.get(), &input, 1, &output, 1), HY_OK) << LastError();
  };
  // Worker threads may start late and bring allocations of their own.
  int64_t fewest = INT64_MAX;
  for (int round = 0; round < 50 && fewest > 0; ++round) {
    const int64_t before = AllocationCount();
    for (int i = 0; i < 100; ++i) run();
    fewest = std::min(fewest, AllocationCount() - before);
  }
  EXPECT_EQ(fewest, 0);
  if (WatchesHeap()) {
    const int64_t before = AllocationCount();
    EXPECT_NO_THROW(hy::Session::Create(CompileFile(digits)));
    EXPECT_GT(AllocationCount(), before) << "the watch sees what the library allocates";
  }
}

}  // namespace
}  // namespace halyard
