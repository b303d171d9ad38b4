// SPDX-License-Identifier: Apache-2.0
// What a report says of other libraries, and our declarations of oneDNN against the dnnl.h that is
// installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tools/halyard/bench_report.h"
#include "tools/halyard/onednn_api.h"
#include "tools/halyard/rival_report.h"

#if __has_include(<dnnl.h>)
#include <dnnl.h>
#endif

namespace halyard::tools {
namespace {

Json Latency(double p50) { return StatisticsJson(Describe({p50, p50, p50})); }

// A product of 2 GFLOP in one kernel of 4 ms, 1 ms of which the roofs allow.
Json RowWith(Json rival) {
  return {{"model", "matmul 1000x1000x1000 f32"},
          {"device", "cuda:0"},
          {"latency", Latency(6e-3)},
          {"profile",
           {{"groups",
             {{{"kind", "dispatch"},
               {"seconds", 4e-3},
               {"flops", 2e9},
               {"roof", {{"compute_s", 1e-3}, {"memory_s", 5e-4}, {"share", 0.25}}}},
              {{"kind", "input"}, {"seconds", 1e-3}}}}}},
          {"rivals", {std::move(rival)}}};
}
Json Measured(double kernel_s) {
  Json rival = {{"library", "Other 1.2.3"},
                {"how", "2 threads"},
                {"errors", {{"max_abs_error", 1e-6}, {"max_rel_error", 1e-5}}},
                {"ours", Latency(6e-3)},
                {"latency", Latency(3e-3)}};
  AddRivalFigures(RowWith(nullptr), kernel_s, &rival);
  return rival;
}

TEST(RivalReport, FiguresAreOfTheKernelsWhereTheyAreTimed) {
  const Json whole = Measured(0), kernels = Measured(2e-3);
  EXPECT_DOUBLE_EQ(whole["ratio"], 0.5);
  EXPECT_FALSE(whole.contains("kernel_seconds"));
  EXPECT_DOUBLE_EQ(whole["flops_per_s"], 2e9 / 3e-3);
  EXPECT_DOUBLE_EQ(whole["roof_share"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(kernels["ratio"], 0.5);
  EXPECT_DOUBLE_EQ(kernels["flops_per_s"], 1e12);
  EXPECT_DOUBLE_EQ(kernels["roof_share"], 0.5);
}

TEST(RivalReport, ABusyMachineIsSaid) {
  Json rival = Measured(0);
  EXPECT_THAT(RivalVerdicts(RowWith(rival)),
              testing::Not(testing::Contains(testing::HasSubstr("busy"))));
  rival["interruptions"] = 2;
  EXPECT_THAT(RivalVerdicts(RowWith(rival)),
              testing::Not(testing::Contains(testing::HasSubstr("busy"))));
  rival["interruptions"] = 40;
  EXPECT_THAT(RivalVerdicts(RowWith(rival)),
              testing::Contains("busy: other work took the processors from Other 1.2.3 40 times in "
                                "9.000 ms; its times say little"));
}

TEST(RivalReport, OursStandsBesideTheirs) {
  const std::string table = FormatRivals(Json::array({RowWith(Measured(2e-3))}));
  EXPECT_THAT(table, testing::HasSubstr(
                         "\n| matmul 1000x1000x1000 f32 | cuda:0 | Halyard | 6.000 ms | 6.000 ms "
                         "to 6.000 ms | 4.000 ms | 500 GFLOP/s | 25% | 1 | - | |\n"));
  EXPECT_THAT(table,
              testing::HasSubstr("\n| matmul 1000x1000x1000 f32 | cuda:0 | Other 1.2.3 | 3.000 ms "
                                 "| 3.000 ms to 3.000 ms | 2.000 ms | 1 TFLOP/s | 50% | 0.50 | "
                                 "1e-06 | 2 threads |\n"));
  EXPECT_THAT(RivalVerdicts(RowWith(Measured(0))),
              testing::ElementsAre("Other 1.2.3 takes 0.50 of the time that Halyard takes (3.000 "
                                   "ms against 6.000 ms)"));
}

TEST(RivalReport, WhatIsNotThereSaysWhy) {
  const Json row = RowWith({{"library", "Other"}, {"error", "Other was not found."}});
  EXPECT_THAT(FormatRivals(Json::array({row})),
              testing::HasSubstr("| cuda:0 | Other | Other was not found. |"));
  EXPECT_TRUE(RivalVerdicts(row).empty());
  EXPECT_EQ(FormatRivals(Json::array({{{"model", "m.onnx"}, {"device", "cpu:0"}}})), "");
}

TEST(OneDnn, LibrariesThatDoNotServeAreNamed) {
  for (const auto& [library, why] :
       {std::pair("libnowhere.so.1", "Library 'libnowhere.so.1' cannot be opened"),
        std::pair("libm.so.6", "Library 'libm.so.6' lacks dnnl_version.")}) {
    setenv("HALYARD_ONEDNN_LIBRARY", library, 1);
    const auto api = OneDnnApi::Load();
    unsetenv("HALYARD_ONEDNN_LIBRARY");
    ASSERT_FALSE(api.ok());
    EXPECT_THAT(api.status().message(), testing::HasSubstr(why));
  }
}

#if __has_include(<dnnl.h>)

// As far as a call can tell: our handles, structures and layouts are pointers without a type.
template <typename A, typename B>
constexpr bool Alike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> == std::is_pointer_v<B>;
  } else {
    return sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}
template <typename A, typename B>
struct SameCall;
template <typename ReturnA, typename... A, typename ReturnB, typename... B>
struct SameCall<ReturnA (*)(A...), ReturnB (*)(B...)> {
  static constexpr bool Check() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return Alike<ReturnA, ReturnB>() && (Alike<A, B>() && ...);
    }
  }
};
#define HY_SAME_CALL(result, name, parameters) \
  static_assert(SameCall<decltype(OneDnnApi::name), decltype(&::name)>::Check(), #name);
HY_ONEDNN_SHARED(HY_SAME_CALL)
#if DNNL_VERSION_MAJOR == 2
HY_ONEDNN_2(HY_SAME_CALL)
static_assert(sizeof(dnnl_memory_desc_t) <= kOneDnn2LayoutBytes);
static_assert(sizeof(dnnl_matmul_desc_t) <= kOneDnn2OpBytes);
static_assert(sizeof(dnnl_convolution_desc_t) <= kOneDnn2OpBytes);
static_assert(sizeof(dnnl_softmax_v2_desc_t) <= kOneDnn2OpBytes);
static_assert(sizeof(dnnl_layer_normalization_desc_t) <= kOneDnn2OpBytes);
static_assert(kOneDnn2ScaleAndShift == (dnnl_use_scale | dnnl_use_shift));
#else
HY_ONEDNN_3(HY_SAME_CALL)
static_assert(kOneDnn3ScaleAndShift == (dnnl_use_scale | dnnl_use_shift));
#endif
static_assert(sizeof(OneDnnVersion) == sizeof(dnnl_version_t));
static_assert(offsetof(OneDnnVersion, cpu_runtime) == offsetof(dnnl_version_t, cpu_runtime));
static_assert(sizeof(OneDnnArgument) == sizeof(dnnl_exec_arg_t));
static_assert(offsetof(OneDnnArgument, memory) == offsetof(dnnl_exec_arg_t, memory));
static_assert(sizeof(dnnl_dims_t) == 12 * sizeof(int64_t));

TEST(OneDnn, NumbersAreTheHeaders) {
  const std::pair<long, long> numbers[] = {
      {kOneDnnUnimplemented, dnnl_unimplemented},
      {kOneDnnCpu, dnnl_cpu},
      {kOneDnnInOrder, dnnl_stream_in_order},
      {kOneDnnF16, dnnl_f16},
      {kOneDnnBf16, dnnl_bf16},
      {kOneDnnF32, dnnl_f32},
      {kOneDnnAnyLayout, dnnl_format_tag_any},
      {kOneDnnInference, dnnl_forward_inference},
      {kOneDnnConvolutionAuto, dnnl_convolution_auto},
      {kOneDnnSoftmax, dnnl_softmax_accurate},
      {kOneDnnNameOfImplementation, dnnl_query_impl_info_str},
      {kOneDnnSourceLayout, dnnl_query_src_md},
      {kOneDnnWeightsLayout, dnnl_query_weights_md},
      {kOneDnnResultLayout, dnnl_query_dst_md},
      {kOneDnnSource, DNNL_ARG_SRC},
      {kOneDnnResult, DNNL_ARG_DST},
      {kOneDnnWeights, DNNL_ARG_WEIGHTS},
      {kOneDnnScale, DNNL_ARG_SCALE},
      {kOneDnnShift, DNNL_ARG_SHIFT},
      {kOneDnnSequential, DNNL_RUNTIME_SEQ},
      {kOneDnnOpenMp, DNNL_RUNTIME_OMP},
      {kOneDnnTbb, DNNL_RUNTIME_TBB},
  };
  for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
}

#endif

}  // namespace
}  // namespace halyard::tools
