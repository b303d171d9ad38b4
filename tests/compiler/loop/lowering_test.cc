// SPDX-License-Identifier: Apache-2.0
// Lowering and fusion against the reference evaluation of the graph's ops: random data, awkward
// shapes, before and after fusion, parallel loops in both directions; and how many kernels the
// patterns of real models need.
#include "compiler/loop/lowering.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <random>

#include "compiler/graph/builder.h"
#include "compiler/graph/printer.h"
#include "compiler/loop/interpreter.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/graph_choose_layouts.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/passes/loop_in_place.h"
#include "compiler/passes/loop_split_reductions.h"
#include "tests/sanitized.h"

namespace halyard::loop {
namespace {

using graph::Attributes;
using graph::Tensor;
using graph::ValueId;

class LoweringTest : public testing::Test {
 protected:
  LoweringTest() : random_(7) { graph::AddGraph(module_, "main"); }

  graph::Builder& b() {
    if (!builder_) builder_ = std::make_unique<graph::Builder>(module_, 0);
    return *builder_;
  }
  std::vector<Expr> Dims(std::vector<int64_t> dims) {
    std::vector<Expr> out;
    for (int64_t d : dims) out.push_back(module_.exprs.Const(d));
    return out;
  }
  // A negative dim is the symbol i, as loops are called too.
  std::vector<Expr> Shape(const std::vector<int64_t>& dims) {
    std::vector<Expr> out;
    for (int64_t d : dims) out.push_back(d < 0 ? module_.exprs.Dim("i") : module_.exprs.Const(d));
    return out;
  }
  ValueId Input(std::string_view name, const std::vector<int64_t>& dims,
                DType dtype = DType::kF32) {
    auto v = b().AddParameter(name, {dtype, Shape(dims)});
    EXPECT_TRUE(v.ok()) << v.status().ToString();
    return *v;
  }
  ValueId Weight(std::string_view name, const std::vector<int64_t>& dims) {
    Tensor t = RandomTensor(DType::kF32, dims);
    auto v = b().ConstantOf(t, name);
    EXPECT_TRUE(v.ok()) << v.status().ToString();
    return *v;
  }
  ValueId Op(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {}) {
    b().SetNodeName(fmt::format("{}_{}", op, ++node_count_));
    auto v = b().AddOne(op, std::move(operands), std::move(attributes));
    EXPECT_TRUE(v.ok()) << v.status().ToString();
    return v.ok() ? *v : graph::kNone;
  }
  ValueId Binary(std::string_view op, ValueId x, ValueId y) {
    b().SetNodeName(fmt::format("{}_{}", op, ++node_count_));
    auto v = b().Binary(op, x, y);
    EXPECT_TRUE(v.ok()) << v.status().ToString();
    return v.ok() ? *v : graph::kNone;
  }
  ValueId Scalar(double value) { return *b().ScalarFloat(DType::kF32, value); }
  ValueId Reduce(std::string_view op, ValueId x, std::vector<int64_t> axes, bool keep = true) {
    return Op(op, {x}, {{"axes", std::move(axes)}, {"keep_dims", int64_t{keep}}});
  }
  ValueId Softmax(ValueId x, int64_t axis) {
    ValueId e = Op("exp", {Binary("sub", x, Reduce("reduce_max", x, {axis}))});
    return Binary("div", e, Reduce("reduce_sum", e, {axis}));
  }
  ValueId LayerNorm(ValueId x, int64_t axis, int64_t width) {
    ValueId scale = Scalar(1.0 / static_cast<double>(width));
    ValueId mean = Binary("mul", Reduce("reduce_sum", x, {axis}), scale);
    ValueId d = Binary("sub", x, mean);
    ValueId variance = Binary("mul", Reduce("reduce_sum", Binary("mul", d, d), {axis}), scale);
    ValueId inverse = Op("rsqrt", {Binary("add", variance, Scalar(1e-5))});
    ValueId y = Binary("mul", Binary("mul", d, inverse), Weight("gamma", {width}));
    return Binary("add", y, Weight("beta", {width}));
  }
  ValueId Gelu(ValueId x) {
    ValueId t = Op("erf", {Binary("mul", x, Scalar(0.70710678))});
    return Binary("mul", Binary("mul", x, Scalar(0.5)), Binary("add", t, Scalar(1)));
  }
  ValueId Linear(ValueId x, int64_t in, int64_t out) {
    return Binary("add", Op("matmul", {x, Weight("w", {in, out})}), Weight("bias", {out}));
  }
  ValueId Reshape(ValueId x, const std::vector<int64_t>& dims) {
    return Op("reshape", {x}, {{"shape", Shape(dims)}});
  }
  ValueId Transpose(ValueId x, std::vector<int64_t> perm) {
    return Op("transpose", {x}, {{"perm", std::move(perm)}});
  }

  Tensor RandomTensor(DType dtype, const std::vector<int64_t>& dims) {
    Tensor t = *graph::MakeTensor(dtype, dims);
    for (int64_t i = 0; i < t.elements(); ++i) {
      auto u = static_cast<double>(random_() % 2001) / 1000 - 1;
      if (IsFloat(dtype)) {
        graph::StoreFloat(t, i, u);
      } else {
        graph::StoreInt(t, i, static_cast<int64_t>(random_() % 3));
      }
    }
    return t;
  }

  // The reference, node by node.
  void Evaluate(std::map<ValueId, Tensor>& values, int64_t n) {
    auto number = [&](Expr e) {
      return *module_.exprs.Evaluate(e, [&](Expr) -> std::optional<int64_t> { return n; });
    };
    for (graph::NodeId id : module_.entry().nodes) {
      const graph::Node& node = module_.nodes[id];
      if (node.op->name == "constant") {
        auto t = graph::ReadConstant(module_.constants[node.constant]);
        ASSERT_TRUE(t.ok());
        values[node.results[0]] = *t;
        continue;
      }
      std::vector<Tensor> operands;
      for (ValueId v : node.operands)
        operands.push_back(v == graph::kNone ? Tensor() : values.at(v));
      std::vector<DType> dtypes;
      std::vector<std::vector<int64_t>> dims;
      for (ValueId v : node.results) {
        dtypes.push_back(module_.values[v].type.dtype);
        dims.emplace_back();
        for (Expr e : module_.values[v].type.dims) dims.back().push_back(number(e));
      }
      auto symbol = [&](Expr) -> std::optional<int64_t> { return n; };
      auto results = node.op->evaluate({module_, node, operands, dtypes, dims, symbol, {}});
      ASSERT_TRUE(results.ok()) << node.name << ": " << results.status().ToString();
      for (size_t i = 0; i < results->size(); ++i) values[node.results[i]] = (*results)[i];
    }
  }

  void Compare(const Function& function, const std::map<ValueId, Tensor>& values, int64_t n,
               double tolerance, const char* what) {
    for (bool reverse : {false, true}) {
      std::vector<Tensor> buffers(function.buffers.size());
      for (size_t i = 0; i < buffers.size(); ++i) {
        const Buffer& buffer = function.buffers[i];
        if (buffer.role == BufferRole::kInput || buffer.role == BufferRole::kConstant)
          buffers[i] = values.at(buffer.value);
      }
      InterpretOptions options;
      options.value_of = [&](Expr) -> std::optional<int64_t> { return n; };
      options.reverse_parallel = reverse;
      Status status = InterpretFunction(function, options, buffers);
      ASSERT_TRUE(status.ok()) << what << ": " << status.ToString() << "\n"
                               << PrintFunction(function);
      size_t compared = 0;
      for (size_t i = 0; i < buffers.size(); ++i) {
        if (function.buffers[i].role != BufferRole::kOutput) continue;
        ++compared;
        const Tensor& expected = values.at(function.buffers[i].value);
        ASSERT_EQ(buffers[i].bytes.size(), expected.bytes.size());
        for (int64_t at = 0; at < expected.elements(); ++at) {
          if (!IsFloat(expected.dtype)) {
            ASSERT_EQ(graph::LoadInt(buffers[i], at), graph::LoadInt(expected, at))
                << what << " at " << at;
            continue;
          }
          double e = graph::LoadFloat(expected, at), a = graph::LoadFloat(buffers[i], at);
          if (std::isnan(e) || std::isinf(e)) {
            ASSERT_TRUE(std::isnan(e) ? std::isnan(a) : a == e) << what << " at " << at;
          } else {
            ASSERT_NEAR(a, e, tolerance * (1 + std::fabs(e))) << what << " at " << at << "\n"
                                                              << PrintFunction(function);
          }
        }
      }
      ASSERT_EQ(compared, module_.entry().results.size());
    }
  }

  void RoundTrip(const Function& function) {
    std::string text = PrintFunction(function);
    ExprArena other;
    auto parsed = ParseFunction(text, other);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << "\n" << text;
    EXPECT_TRUE(VerifyFunction(*parsed).ok()) << VerifyFunction(*parsed).ToString();
    EXPECT_EQ(PrintFunction(*parsed), text);
  }

  // Lowers, fuses, checks everything, with all values row-major and with layouts chosen for short
  // vectors; returns the fused row-major function.
  Function Check(std::vector<ValueId> results, double tolerance = 2e-5,
                 std::vector<int64_t> ns = {3}) {
    EXPECT_TRUE(b().SetResults(std::move(results)).ok());
    Function row_major = CheckAsStored(tolerance, ns);
    const std::vector<FusionRecord> records = records_;
    EXPECT_TRUE(graph::ChooseLayouts(module_, 0, 4, packs_weights_, nullptr).ok());
    with_layouts_ = CheckAsStored(tolerance, ns);
    records_ = records;
    return row_major;
  }

  Function CheckAsStored(double tolerance, const std::vector<int64_t>& ns) {
    auto lowered = LowerGraph(module_, 0, {});
    EXPECT_TRUE(lowered.ok()) << lowered.status().ToString();
    if (!lowered.ok()) return {};
    EXPECT_TRUE(VerifyFunction(*lowered).ok())
        << VerifyFunction(*lowered).ToString() << PrintFunction(*lowered);
    RoundTrip(*lowered);
    Function fused = *lowered;
    records_.clear();
    EXPECT_TRUE(FuseKernels(fused, {}, &records_).ok());
    EXPECT_TRUE(VerifyFunction(fused).ok())
        << VerifyFunction(fused).ToString() << PrintFunction(fused);
    RoundTrip(fused);
    Function in_place = fused;
    WriteInPlace(in_place, nullptr);
    EXPECT_TRUE(VerifyFunction(in_place).ok()) << VerifyFunction(in_place).ToString();
    Function split = fused;
    SplitOptions small;
    small.most_rows = 4;
    small.least_work = 4;
    small.least_part = 2;
    EXPECT_TRUE(SplitReductions(split, small, &splits_).ok());
    EXPECT_TRUE(VerifyFunction(split).ok())
        << VerifyFunction(split).ToString() << PrintFunction(split);
    Function merged_only = *lowered;
    MergeLoops(merged_only);
    for (int64_t n : ns) {
      std::map<ValueId, Tensor> values;
      for (ValueId v : module_.entry().parameters) {
        std::vector<int64_t> dims;
        for (Expr e : module_.values[v].type.dims) {
          dims.push_back(
              *module_.exprs.Evaluate(e, [&](Expr) -> std::optional<int64_t> { return n; }));
        }
        values[v] = RandomTensor(module_.values[v].type.dtype, dims);
      }
      Evaluate(values, n);
      Compare(*lowered, values, n, tolerance, "lowered");
      Compare(merged_only, values, n, tolerance, "merged");
      Compare(fused, values, n, tolerance, "fused");
      Compare(in_place, values, n, tolerance, "in place");
      Compare(split, values, n, tolerance, "split");
    }
    return fused;
  }

  std::string Explain() const {
    std::string out;
    for (const FusionRecord& r : records_) {
      out += fmt::format("{} {} + {}: {}\n", r.is_fused ? "fused" : "kept", r.producer, r.consumer,
                         r.reason);
    }
    return out;
  }

  std::mt19937_64 random_;
  graph::Module module_;
  std::unique_ptr<graph::Builder> builder_;
  std::vector<FusionRecord> records_;
  std::vector<SplitRecord> splits_;
  bool packs_weights_ = true;  // as CPUs do; on GPUs layouts rewrite them
  Function with_layouts_;      // of the last Check
  int node_count_ = 0;
};

TEST_F(LoweringTest, ContiguousPointwiseIsOneLoop) {
  ValueId x = Input("x", {2, 3, 5}), y = Input("y", {2, 3, 5});
  Function f = Check({Op("exp", {Binary("add", x, y)})});
  ASSERT_EQ(f.kernels.size(), 1u);
  EXPECT_EQ(PrintKernel(f, 0), R"(kernel exp_2 nodes("exp_2", "add_1") {
  parallel i < 30 {
    %0 = load x[i]
    %1 = load y[i]
    %2 = add %0, %1
    %3 = exp %2
    store exp_2[i], %3
  }
}
)");
}

TEST_F(LoweringTest, ReadersOfOneValueStandSideBySide) {
  ValueId x = Input("x", {-1, 6}), y = Input("y", {-1, 6});
  Function f = Check({Op("exp", {Binary("mul", x, y)}), Op("neg", {x})}, 2e-5, {1, 4});
  ASSERT_EQ(f.kernels.size(), 1u) << Explain();
  EXPECT_NE(Explain().find("side by side, both read 'x'"), std::string::npos) << Explain();

  EXPECT_EQ(PrintKernel(f, 0), R"(kernel exp_2 nodes("exp_2", "mul_1", "neg_3") {
  parallel i1 < 6*i {
    %0 = load x[i1]
    %1 = load y[i1]
    %2 = mul %0, %1
    %3 = exp %2
    store exp_2[i1], %3
    %4 = neg %0
    store neg_3[i1], %4
  }
}
)");
}

TEST_F(LoweringTest, NothingStandsBesideWhatItNeeds) {
  // The last kernel reads x as the first does, and a sum over all that the first wrote.
  ValueId x = Input("x", {100, 60});
  ValueId e = Op("exp", {x});
  Function f = Check({e, Binary("mul", x, Reduce("reduce_sum", e, {0, 1}))});
  EXPECT_GT(f.kernels.size(), 1u) << PrintFunction(f);
}

// Half of them may stand side by side, the others go through loops of their own. All paths between
// all pairs would take hours.
TEST_F(LoweringTest, ThousandsOfReadersOfOneValueAreJoinedInGroups) {
  constexpr int64_t kParts = 3000;
  const ValueId x = Input("x", {3 * kParts});
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < kParts; ++i) {
    const int64_t size = i % 2 == 0 ? 2 : 2 + i;
    parts.push_back(
        Op("slice", {x},
           {{"starts", Dims({i})}, {"sizes", Dims({size})}, {"steps", std::vector<int64_t>{1}}}));
  }
  ASSERT_TRUE(b().SetResults(parts).ok());
  auto function = LowerGraph(module_, 0, {});
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  ASSERT_TRUE(FuseKernels(*function, {}, nullptr).ok());
  ASSERT_TRUE(VerifyFunction(*function).ok()) << VerifyFunction(*function).ToString();
  // A kernel that names x and 45 results still takes one that names x and its own.
  const int64_t group = FuseOptions().max_buffers - 2, joined = (kParts / 2 + group - 1) / group;
  EXPECT_EQ(static_cast<int64_t>(function->kernels.size()), joined + kParts / 2);
}

TEST_F(LoweringTest, LongReductionsAreCutIntoParts) {
  ValueId x = Input("x", {2, 65536});
  ValueId mean = Binary("mul", Reduce("reduce_sum", Op("exp", {x}), {1}), Scalar(1.0 / 65536));
  Function f = Check({Op("neg", {mean}), Reduce("reduce_max", x, {0, 1})}, 2e-3);
  const size_t before = f.kernels.size();
  std::vector<SplitRecord> records;
  ASSERT_TRUE(SplitReductions(f, {}, &records).ok());
  ASSERT_EQ(records.size(), 2u) << PrintFunction(f);
  EXPECT_EQ(records[0].parts, 16);
  EXPECT_EQ(f.kernels.size(), before + 2);
  EXPECT_EQ(PrintKernel(f, 0),
            R"(kernel reduce_sum_2_parts nodes("reduce_sum_2", "exp_1", "neg_4", "mul_3") {
  parallel i < 2 {
    parallel part < 16 {
      %0 = reduce sum r < 4096 {
        %1 = load x[65536*i + 4096*part + r]
        %2 = exp %1
        yield %2
      }
      store reduce_sum_2_part[16*i + part], %0
    }
  }
}
)");
}

// Code generators take more than linear time in what one kernel computes.
TEST_F(LoweringTest, LongChainsAreCut) {
  ValueId x = Input("x", {4, 8});
  for (int i = 0; i < 200; ++i) x = Op("sin", {x});
  const Function f = Check({x});
  EXPECT_GE(f.kernels.size(), 3u);
  EXPECT_LE(f.kernels.size(), 5u) << Explain();
}

TEST_F(LoweringTest, SoftmaxIsOneKernel) {
  Function f = Check({Softmax(Input("x", {3, 4, 7}), 2)});
  EXPECT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, SoftmaxOfDynamicRowsIsOneKernel) {
  Function f = Check({Softmax(Input("x", {2, -1, -1}), 2)}, 2e-5, {1, 3, 5});
  EXPECT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, ScaleMaskSoftmaxIsOneKernel) {
  ValueId x = Input("x", {2, 3, 5, 7}), mask = Input("mask", {2, 1, 1, 7});
  ValueId scaled = Binary("add", Binary("mul", x, Scalar(0.125)), mask);
  Function f = Check({Softmax(scaled, 3)});
  EXPECT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, AddLayerNormIsOneKernel) {
  ValueId x = Binary("add", Input("x", {2, 5, 12}), Input("y", {2, 5, 12}));
  Function f = Check({LayerNorm(x, 2, 12)});
  EXPECT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, AddLayerNormThatKeepsTheSumIsOneKernel) {
  ValueId x = Binary("add", Input("x", {2, -1, 12}), Input("y", {2, -1, 12}));
  Function f = Check({x, LayerNorm(x, 2, 12)}, 2e-5, {1, 4});
  EXPECT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, MatmulBiasGeluIsOneContraction) {
  Function f = Check({Gelu(Linear(Input("x", {2, -1, 6}), 6, 5))}, 2e-5, {1, 3});
  ASSERT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
  EXPECT_EQ(f.kernels[0].template_kind, TemplateKind::kContraction);
  EXPECT_EQ(f.kernels[0].roles.m.size(), 1u);
}

TEST_F(LoweringTest, ScaledTransposedHeadsJoinTheirContraction) {
  ValueId q = Linear(Input("x", {2, -1, 12}), 12, 12);
  ValueId heads = Transpose(Reshape(q, {2, -1, 3, 4}), {0, 2, 1, 3});
  Function f = Check(
      {Binary("mul", heads, Scalar(0.5)), Binary("mul", Transpose(heads, {0, 1, 3, 2}), Scalar(2))},
      2e-5, {1, 3});
  EXPECT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, ConvScaleAddReluIsOneContraction) {
  ValueId x = Input("x", {2, 3, 6, 5}), skip = Input("skip", {2, 4, 6, 5});
  ValueId c = Op("conv", {x, Weight("w", {4, 3, 3, 3})},
                 {{"strides", std::vector<int64_t>{1, 1}},
                  {"pads_low", std::vector<int64_t>{1, 1}},
                  {"pads_high", std::vector<int64_t>{1, 1}},
                  {"dilations", std::vector<int64_t>{1, 1}}});
  c = Binary("add", c, Weight("bias", {4, 1, 1}));
  Function f = Check({Binary("max", Binary("add", c, skip), Scalar(0))});
  ASSERT_EQ(f.kernels.size(), 1u) << PrintFunction(f) << Explain();
  EXPECT_EQ(f.kernels[0].template_kind, TemplateKind::kContraction);
}

TEST_F(LoweringTest, ConvolutionsOfAllKinds) {
  auto conv = [&](ValueId x, const std::vector<int64_t>& w, int64_t stride, int64_t pad,
                  int64_t dilation, int64_t groups) {
    size_t rank = w.size() - 2;
    auto repeat = [&](int64_t v) { return std::vector<int64_t>(rank, v); };
    return Op("conv", {x, Weight("w", w)},
              {{"strides", repeat(stride)},
               {"pads_low", repeat(pad)},
               {"pads_high", repeat(pad)},
               {"dilations", repeat(dilation)},
               {"groups", groups}});
  };
  ValueId x1 = Input("x1", {2, 4, 9}), x2 = Input("x2", {1, 6, 7, 8}),
          x3 = Input("x3", {1, 2, 3, 4, 5});
  Function f = Check({conv(x1, {3, 4, 3}, 2, 1, 1, 1), conv(x2, {6, 1, 3, 3}, 1, 1, 1, 6),
                      conv(x2, {4, 3, 2, 2}, 1, 0, 2, 2), conv(x3, {3, 2, 2, 2, 2}, 1, 1, 1, 1),
                      conv(x2, {5, 6, 1, 1}, 1, 0, 1, 1)});
  EXPECT_EQ(f.kernels.size(), 5u);
}

// A tap between two elements or beyond the edge adds nothing, also with an infinite weight.
TEST_F(LoweringTest, ATransposedConvolutionSpreadsNoInfinityWhereItReadsNothing) {
  const ValueId x = Input("x", {1, 2, 3, 2});
  Tensor w = RandomTensor(DType::kF32, {2, 3, 3, 2});
  graph::StoreFloat(w, 7, std::numeric_limits<double>::infinity());
  const ValueId weights = *b().ConstantOf(w, "w");
  Check({Op("conv_transpose", {x, weights},
            {{"strides", std::vector<int64_t>{2, 1}},
             {"dilations", std::vector<int64_t>{1, 1}},
             {"pads_low", std::vector<int64_t>{0, 1}},
             {"pads_high", std::vector<int64_t>{0, 0}},
             {"output_padding", std::vector<int64_t>{1, 0}},
             {"groups", int64_t{1}}})});
}

// Chains of what convolutional models are made of, so that values inside have layouts and every
// kind of node reads and writes them.
TEST_F(LoweringTest, RandomConvolutionalNetworksWithLayouts) {
  // Under a sanitizer two static ones and one symbolic one.
  const int networks = HALYARD_SANITIZED ? 3 : 12;
  for (int network = 0; network < networks; ++network) {
    module_ = graph::Module();
    builder_ = nullptr;
    packs_weights_ = network % 2 == 0;
    graph::AddGraph(module_, "main");
    auto pick = [&](int64_t lo, int64_t hi) {
      return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
    };
    const bool is_symbolic = network % 3 == 2;
    int64_t channels = pick(1, 5);
    ValueId x = Input("x", {is_symbolic ? -1 : pick(1, 2), channels, pick(6, 9), pick(6, 9)});
    ValueId skip = graph::kNone;
    std::vector<ValueId> results;
    for (int step = 0; step < 7; ++step) {
      const std::vector<Expr> dims = module_.values[x].type.dims;
      const bool is_small =
          *module_.exprs.AsConst(dims[2]) < 3 || *module_.exprs.AsConst(dims[3]) < 3;
      switch (pick(0, 7)) {
        case 0:
        case 1:
        case 2: {  // any convolution
          int64_t groups = pick(0, 2) == 0 ? channels : 1;
          int64_t out = groups == 1 ? pick(1, 9) : groups * (pick(0, 3) == 0 ? 2 : 1);
          int64_t window = is_small ? 1 : pick(1, 3), stride = pick(1, 2), pad = window / 2;
          x = Op("conv", {x, Weight("w", {out, channels / groups, window, window})},
                 {{"strides", std::vector<int64_t>{stride, stride}},
                  {"pads_low", std::vector<int64_t>{pad, pad}},
                  {"pads_high", std::vector<int64_t>{pad, 0}},
                  {"dilations", std::vector<int64_t>{1, 1}},
                  {"groups", groups}});
          channels = out;
          skip = graph::kNone;
          break;
        }
        case 3:
          x = Binary("add", x, Weight("bias", {channels, 1, 1}));
          break;
        case 4:
          x = Binary("max", x, Scalar(0));
          break;
        case 5:
          if (skip != graph::kNone) x = Binary("add", x, skip);
          skip = x;
          break;
        case 6: {
          if (is_small) break;
          x = Op(pick(0, 1) == 0 ? "max_pool" : "avg_pool", {x},
                 {{"window", std::vector<int64_t>{2, 3}},
                  {"strides", std::vector<int64_t>{1, 2}},
                  {"pads_low", std::vector<int64_t>{1, 1}},
                  {"pads_high", std::vector<int64_t>{0, 1}},
                  {"dilations", std::vector<int64_t>{1, 1}}});
          skip = graph::kNone;
          break;
        }
        case 7:
          x = Op("concat", {x, x}, {{"axis", int64_t{1}}});
          channels *= 2;
          skip = graph::kNone;
          break;
      }
      if (pick(0, 5) == 0) results.push_back(x);
    }
    results.push_back(Reduce("reduce_sum", x, {2, 3}, false));
    results.push_back(Transpose(x, {0, 2, 3, 1}));
    Check(results, 1e-4, is_symbolic ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{3});
    if (HasFatalFailure() || HasNonfatalFailure()) {
      ADD_FAILURE() << graph::PrintModule(module_);
      return;
    }
  }
}

TEST_F(LoweringTest, ChannelsInnermostKeepsAResidualBlockFused) {
  auto conv = [&](ValueId x, int64_t out, int64_t in, int64_t window, int64_t groups = 1) {
    return Op("conv", {x, Weight("w", {out, in, window, window})},
              {{"strides", std::vector<int64_t>{1, 1}},
               {"pads_low", std::vector<int64_t>{window / 2, window / 2}},
               {"pads_high", std::vector<int64_t>{window / 2, window / 2}},
               {"dilations", std::vector<int64_t>{1, 1}},
               {"groups", groups}});
  };
  auto relu = [&](ValueId v) { return Binary("max", v, Scalar(0)); };
  ValueId x = relu(conv(Input("x", {1, 4, 5, 6}), 8, 4, 1));
  ValueId y = relu(conv(x, 8, 1, 3, 8));
  y = Binary("add", conv(y, 8, 8, 1), x);
  Check({Reduce("reduce_sum", y, {2, 3})});
  // The stem, the depthwise convolution, the sum with its residual, the reduction.
  ASSERT_EQ(with_layouts_.kernels.size(), 4u) << PrintFunction(with_layouts_);
  // 1x1 over channels: pixels walk in steps of the channels, channels in steps of one.
  const Kernel& last = with_layouts_.kernels[2];
  ASSERT_EQ(last.template_kind, TemplateKind::kContraction);
  for (const loop::Op& op : last.ops) {
    if (op.kind != OpKind::kStore) continue;
    EXPECT_EQ(module_.exprs.StrideOf(op.index, last.roles.m.at(0)), module_.exprs.Const(1));
    EXPECT_EQ(module_.exprs.StrideOf(op.index, last.roles.n.at(0)), module_.exprs.Const(8));
  }
}

TEST_F(LoweringTest, TransformerBlock) {
  constexpr int64_t kHeads = 2, kWidth = 4, kModel = 8;
  ValueId x = Input("x", {2, -1, kModel}), mask = Input("mask", {2, 1, 1, -1});
  auto heads = [&](ValueId v) {
    return Transpose(Reshape(v, {2, -1, kHeads, kWidth}), {0, 2, 1, 3});
  };
  ValueId q = heads(Linear(x, kModel, kModel)), k = heads(Linear(x, kModel, kModel)),
          v = heads(Linear(x, kModel, kModel));
  ValueId scores = Op("matmul", {q, Transpose(k, {0, 1, 3, 2})});
  ValueId weights = Softmax(Binary("add", Binary("mul", scores, Scalar(0.5)), mask), 3);
  ValueId context = Reshape(Transpose(Op("matmul", {weights, v}), {0, 2, 1, 3}), {2, -1, kModel});
  ValueId h = LayerNorm(Binary("add", Linear(context, kModel, kModel), x), 2, kModel);
  ValueId ff = Linear(Gelu(Linear(h, kModel, 16)), 16, kModel);
  Function f = Check({LayerNorm(Binary("add", ff, h), 2, kModel)}, 1e-4, {1, 3});
  // q, k, v, scores, softmax, context, output, norm, two feed-forward products, norm.
  EXPECT_EQ(f.kernels.size(), 11u) << PrintFunction(f) << Explain();
}

TEST_F(LoweringTest, AttentionOp) {
  ValueId q = Input("q", {2, 4, 3, 5}), k = Input("k", {2, 2, 6, 5}), v = Input("v", {2, 2, 6, 4});
  Function f = Check({Op("attention", {q, k, v, Input("m", {2, 1, 3, 6})}, {{"scale", 0.4}}),
                      Op("attention", {q, k, v}, {{"scale", 0.4}, {"causal", int64_t{1}}}),
                      Op("attention", {q, k, v, Input("sees", {2, 4, 3, 6}, DType::kBool)},
                         {{"scale", 0.4}, {"nan_to_zero", int64_t{1}}}),
                      Op("attention", {q, k, v, Input("shows", {2, 4, 3, 6}, DType::kBool)},
                         {{"scale", 0.4}, {"hidden_to_zero", int64_t{1}}})});
  ASSERT_EQ(f.kernels.size(), 4u) << PrintFunction(f);
  for (const Kernel& kernel : f.kernels) {
    EXPECT_EQ(kernel.template_kind, TemplateKind::kAttention);
  }
}

TEST_F(LoweringTest, ViewsAndGathers) {
  ValueId x = Input("x", {3, 4, 5}), ids = Input("ids", {2, 3}, DType::kI64);
  ValueId s = Op("slice", {x},
                 {{"starts", Dims({0, 1, 4})},
                  {"sizes", Dims({3, 2, 3})},
                  {"steps", std::vector<int64_t>{1, 2, -2}}});
  ValueId p = Op("pad", {x}, {{"low", Dims({1, 0, 2})}, {"high", Dims({0, 1, 1})}});
  ValueId r =
      Op("pad", {x},
         {{"low", Dims({1, 2, 2})}, {"high", Dims({2, 1, 3})}, {"mode", std::string("reflect")}});
  ValueId e =
      Op("pad", {x},
         {{"low", Dims({1, 0, 2})}, {"high", Dims({0, 1, 1})}, {"mode", std::string("edge")}});
  ValueId c = Op("concat", {Op("exp", {x}), Input("y", {3, 2, 5}), x}, {{"axis", int64_t{1}}});
  ValueId g = Op("gather", {x, ids}, {{"axis", int64_t{1}}});
  ValueId t = Reshape(Transpose(x, {2, 0, 1}), {6, 10});
  Check({Op("neg", {s}), Reduce("reduce_sum", c, {1}), Op("neg", {c}), p, r, e, g, Op("exp", {t})});
}

TEST_F(LoweringTest, ReductionsAndPools) {
  ValueId x = Input("x", {2, 3, 6, 5});
  auto attributes = [](bool average) {
    Attributes a{{"window", std::vector<int64_t>{3, 2}},
                 {"strides", std::vector<int64_t>{2, 1}},
                 {"pads_low", std::vector<int64_t>{1, 0}},
                 {"pads_high", std::vector<int64_t>{1, 1}},
                 {"dilations", std::vector<int64_t>{1, 1}}};
    if (average) a["count_include_pad"] = int64_t{0};
    return a;
  };
  Check({Op("max_pool", {x}, attributes(false)), Op("avg_pool", {x}, attributes(true)),
         Reduce("reduce_sum", x, {1, 3}, false), Reduce("reduce_max", x, {0}),
         Reduce("reduce_min", x, {0, 1, 2, 3}), Op("argmax", {x}, {{"axis", int64_t{2}}}),
         Op("argmin", {x}, {{"axis", int64_t{3}}, {"keep_dims", int64_t{1}}})});
}

// One kernel that reads thousands of pieces takes a minute to compile.
TEST_F(LoweringTest, LongConcatsAreJoinedInGroups) {
  for (const int64_t axis : {0, 1}) {
    const ValueId x = Input(fmt::format("x{}", axis), {3, 2});
    std::vector<ValueId> pieces;
    for (int i = 0; i < 300; ++i) pieces.push_back(Binary("add", x, Scalar(i)));
    const Function f = Check({Op("concat", pieces, {{"axis", axis}})});
    EXPECT_EQ(f.kernels.size(), 4u) << PrintFunction(f).substr(0, 4000);
  }
}

TEST_F(LoweringTest, EmptyAndSingleShapes) {
  ValueId x = Input("x", {0, 3}), y = Input("y", {1, 1});
  Check({Op("exp", {x}), Reduce("reduce_sum", x, {0}), Reduce("reduce_max", x, {0}),
         Reduce("reduce_sum", y, {0, 1}), Op("matmul", {y, y})});
}

TEST_F(LoweringTest, ParametersAndRepeatedResultsAreCopied) {
  ValueId x = Input("x", {2, 3});
  ValueId y = Op("neg", {x});
  Function f = Check({x, y, y});
  // The copy of y joins the kernel of y.
  EXPECT_EQ(f.kernels.size(), 2u);
}

TEST_F(LoweringTest, HalfPrecisionComputesInFloat) {
  ValueId x = Input("x", {4, 6}, DType::kBF16);
  // One rounding at the end instead of one per op: two units in the last place of bf16.
  Check({Op("exp", {Binary("mul", x, x)}), Reduce("reduce_sum", x, {1})}, 0.02);
}

TEST_F(LoweringTest, WhatHasNoLoweringIsRefusedByName) {
  ValueId x = Input("x", {10000});
  auto v = b().Add("sort", {x}, {{"axis", int64_t{0}}});
  ASSERT_TRUE(v.ok());
  ASSERT_TRUE(b().SetResults({(*v)[0]}).ok());
  auto lowered = LowerGraph(module_, 0, {});
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(lowered.status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(lowered.status().message(),
            "The op 'sort' on 10000 elements has no lowering; the limit is 8192 (node '').");
}

}  // namespace
}  // namespace halyard::loop
