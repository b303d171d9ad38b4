// SPDX-License-Identifier: Apache-2.0
// Programs over several devices as a caller sees them: affinities, caps, policies, devices that are
// missing or get lost, the command's options. The devices are synthetic, but for what Vulkan has.
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/end_to_end/fixture.h"
#include "tests/heap_watch.h"

namespace halyard {
namespace {

using onnx::testing::kF32;
using onnx::testing::Message;
using onnx::testing::ModelOf;
using onnx::testing::Node;
using onnx::testing::ValueInfo;
using testing::HasSubstr;
using testing::Not;

class EndToEndDevices : public EndToEnd {
 protected:
  EndToEndDevices() { UseDevices("threads=1;threads=1&speed_percent=50&link_latency_us=10"); }
  ~EndToEndDevices() override { unsetenv("HALYARD_SYNTHETIC_DEVICES"); }

  void UseDevices(const std::string& list) {
    setenv("HALYARD_SYNTHETIC_DEVICES", list.c_str(), 1);
    Restart(HY_POLICY_DEFAULT);
  }
  void Restart(hy_policy policy) {
    log_.clear();
    hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
    desc.on_missing_device = desc.on_unsupported_op = policy;
    desc.log_context = &log_;
    desc.log = [](void* context, hy_log_level, hy_string message) {
      static_cast<std::string*>(context)->append(message.data, message.size) += '\n';
    };
    instance_ = hy::Instance::Create(&desc);
  }

  // y = tanh(exp(relu(x))), z = relu(x) + y.
  static Message Chain() {
    return ModelOf({{Node("Relu", {"x"}, {"a"}, {}, "a"), Node("Exp", {"a"}, {"b"}, {}, "b"),
                     Node("Tanh", {"b"}, {"y"}, {}, "c"), Node("Add", {"a", "y"}, {"z"}, {}, "d")},
                    {},
                    {ValueInfo("x", kF32, {"n"})},
                    {ValueInfo("y", kF32, {"n"}), ValueInfo("z", kF32, {"n"})}});
  }

  struct Wish {
    std::string pattern, device;
    hy_affinity_kind kind = HY_AFFINITY_REQUIRE;
  };
  hy::Program CompileOn(const std::vector<std::string>& paths, const std::vector<Wish>& wishes,
                        std::vector<hy_memory_cap> caps = {}, int64_t n = 0) {
    std::vector<hy::Device> devices;
    std::vector<hy_device_t*> handles;
    for (const std::string& path : paths) {
      devices.push_back(instance_.Open(path));
      handles.push_back(devices.back().get());
    }
    std::vector<hy_affinity> affinities;
    for (const Wish& wish : wishes) {
      affinities.push_back({hy::View(wish.pattern), hy::View(wish.device), wish.kind});
    }
    const std::string path = Write("chain.onnx", Chain().str());
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    desc.disable_tuning = 1;
    desc.devices = handles.data();
    desc.device_count = handles.size();
    desc.affinities = affinities.data();
    desc.affinity_count = affinities.size();
    desc.memory_caps = caps.data();
    desc.memory_cap_count = caps.size();
    const hy_symbol_value size = {HY_STRING("n"), n};
    desc.symbols = &size;
    desc.symbol_count = n > 0 ? 1 : 0;
    desc.replan = replan_ ? 1 : 0;
    return hy::Program::Compile(instance_, desc);
  }
  std::string FailureOf(const std::vector<std::string>& paths, const std::vector<Wish>& wishes,
                        std::vector<hy_memory_cap> caps = {}, int64_t n = 0) {
    try {
      CompileOn(paths, wishes, std::move(caps), n);
    } catch (const hy::Error& error) {
      code_ = error.code();
      return error.what();
    }
    return "no failure";
  }

  void RunChain(const hy::Session& session, hy_result wanted = HY_OK) {
    const std::vector<float> x = {-1, 0, 0.5f, 2};
    const hy_tensor input = TensorOf(HY_DTYPE_F32, {4}, x);
    hy_tensor outputs[2] = {HY_TENSOR_INIT, HY_TENSOR_INIT};
    ASSERT_EQ(hy_session_run(session.get(), &input, 1, outputs, 2), wanted) << LastError();
    if (wanted != HY_OK) return;
    const auto y = ValuesOf<float>(outputs[0]), z = ValuesOf<float>(outputs[1]);
    for (size_t i = 0; i < x.size(); ++i) {
      const float a = std::max(x[i], 0.0f), want = std::tanh(std::exp(a));
      EXPECT_NEAR(y[i], want, 1e-5f);
      EXPECT_NEAR(z[i], a + want, 1e-5f);
    }
  }
  std::string Report(const hy::Program& program, hy_report_kind kind = HY_REPORT_PLACEMENT) {
    return program.Report(kind, HY_FORMAT_TEXT);
  }

  std::string log_;
  bool replan_ = false;
  hy_result code_ = HY_OK;
};

const std::vector<std::string> kThree = {"cpu:0", "cpu:1", "cpu:2"};

TEST_F(EndToEndDevices, RequiredDevicesAreObeyedAndTheMemoryOfEachIsTold) {
  const hy::Program program =
      CompileOn(kThree, {{"a", "cpu:1"}, {"b", "cpu:2"}, {"?", "cpu:0", HY_AFFINITY_PREFER}});
  RunChain(hy::Session::Create(program));
  const std::string commands = Report(program, HY_REPORT_COMMANDS);
  EXPECT_THAT(commands, HasSubstr("block device 1 queue 0"));
  EXPECT_THAT(commands, HasSubstr("block device 2 queue 0"));
  EXPECT_THAT(commands, HasSubstr("transfer \"cpu:1 to cpu:2\""));
  EXPECT_THAT(Report(program), HasSubstr("1 transfer from cpu:1 to cpu:2: staged in page-locked "
                                         "memory of both"));
  EXPECT_THAT(Report(program), HasSubstr("from cpu:1 to cpu:0: staged in page-locked memory of "
                                         "cpu:1"));
  // The page has one graph of all queues, with what waits between them.
  const std::string page = program.Report(HY_REPORT_ALL, HY_FORMAT_HTML);
  const auto count_in_page = [&](std::string_view text) {
    size_t count = 0;
    for (size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(count_in_page("<h3>Order</h3>"), 1u);
  EXPECT_GE(count_in_page("stroke-dasharray"), 3u);
  EXPECT_THAT(page, HasSubstr("(cpu:2 queue 0)</text>"));
  const hy_symbol_value n = {HY_STRING("n"), 4};
  const auto memory = program.Memory({n});
  ASSERT_EQ(memory.size(), 3u);
  EXPECT_GT(memory[1].staging_bytes, 0);
  EXPECT_GT(memory[2].staging_bytes, 0);
  EXPECT_EQ(memory[0].staging_bytes, 0);
}

TEST_F(EndToEndDevices, ASavedProgramKeepsItsDevicesAndMissesThemByName) {
  const hy::Program program = CompileOn(kThree, {{"a", "cpu:1"}, {"b", "cpu:2"}, {"c", "cpu:1"}});
  program.Save(Path("three.hy"));
  hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
  const std::string path = Path("three.hy");
  desc.path = hy::View(path);
  RunChain(hy::Session::Create(hy::Program::Load(instance_, desc)));
  UseDevices("threads=1");  // cpu:2 is gone
  try {
    hy::Program::Load(instance_, desc);
    ADD_FAILURE() << "it loads without its device";
  } catch (const hy::Error& error) {
    EXPECT_EQ(error.code(), HY_UNAVAILABLE);
    EXPECT_THAT(error.what(), HasSubstr("'cpu:2'"));
    EXPECT_THAT(error.what(), HasSubstr("compiling the model anew"));
  }
}

TEST_F(EndToEndDevices, DemandsThatCannotBeMetAreOneSentence) {
  EXPECT_THAT(FailureOf(kThree, {{"a", "cuda:3"}}),
              HasSubstr("'a=cuda:3' names a device that the program may not use; it may use "
                        "'cpu:0', 'cpu:1', 'cpu:2'"));
  EXPECT_EQ(code_, HY_INVALID_ARGUMENT);
  // Wishes that contradict each other name both.
  EXPECT_THAT(
      FailureOf(kThree, {{"a", "cpu:1"}, {"*", "cpu:2"}}),
      HasSubstr("'a' is required on 'cpu:1' by the affinity 'a=cpu:1' and on 'cpu:2' by the "
                "affinity '*=cpu:2'."));
  EXPECT_EQ(code_, HY_INVALID_ARGUMENT);
  EXPECT_THAT(
      FailureOf(kThree, {{"a", "cpu:1"}, {"op:*", "cpu:1", HY_AFFINITY_FORBID}}),
      HasSubstr("'a' is required on 'cpu:1' by the affinity 'a=cpu:1' and forbidden there by "
                "the affinity 'op:*=forbid:cpu:1'."));
  EXPECT_EQ(code_, HY_INVALID_ARGUMENT);
  EXPECT_THAT(FailureOf({"cpu:0", "cpu:1"},
                        {{"b", "cpu:0", HY_AFFINITY_FORBID}, {"?", "cpu:1", HY_AFFINITY_FORBID}}),
              HasSubstr("The wishes leave no device for 'b'."));
  EXPECT_EQ(code_, HY_INVALID_ARGUMENT);
  EXPECT_THAT(FailureOf({"cpu:0", "cpu:0"}, {}), HasSubstr("'cpu:0' is given twice"));
  EXPECT_THAT(FailureOf(kThree, {}, {{HY_STRING("cpu:7"), 100}}), HasSubstr("'cpu:7'"));
  EXPECT_EQ(code_, HY_INVALID_ARGUMENT);
  EXPECT_THAT(FailureOf(kThree, {}, {{HY_STRING("cpu:1"), 0}}), HasSubstr("at least 1"));
  EXPECT_THAT(FailureOf(kThree, {}, {{HY_STRING("cpu"), 9}, {HY_STRING("cpu:0"), 9}}),
              HasSubstr("two memory caps"));
  EXPECT_THAT(FailureOf(kThree, {{"", "cpu:1"}}), HasSubstr("has no pattern"));
  EXPECT_THAT(FailureOf(kThree, {{"a", "cpu:1", 7}}),
              HasSubstr("no affinity kind 7; 0 to 2 are kinds"));
}

TEST_F(EndToEndDevices, ACapIsObeyedOrRefusedWithTheShortfall) {
  const std::vector<Wish> wishes = {{"a", "cpu:1"}, {"b", "cpu:0"}, {"c", "cpu:0"}, {"d", "cpu:0"}};
  const hy::Program free = CompileOn({"cpu:0", "cpu:1"}, wishes, {}, 1000);
  const auto memory = free.Memory({});
  const int64_t need = memory[1].constant_bytes + memory[1].activation_bytes + memory[1].io_bytes +
                       memory[1].staging_bytes;
  ASSERT_GT(need, 4000);
  EXPECT_THAT(FailureOf({"cpu:0", "cpu:1"}, wishes, {{HY_STRING("cpu:1"), need - 1}}, 1000),
              HasSubstr("1 too few"));
  EXPECT_EQ(code_, HY_OUT_OF_MEMORY);
  EXPECT_EQ(FailureOf({"cpu:0", "cpu:1"}, wishes, {{HY_STRING("cpu:1"), need}}, 1000),
            "no failure");
  // With open sizes it is the run that knows.
  const hy::Program open = CompileOn({"cpu:0", "cpu:1"}, wishes, {{HY_STRING("cpu:1"), 3000}});
  const auto session = hy::Session::Create(open);
  RunChain(session);
  const std::vector<float> x(1000, 1.0f);
  const hy_tensor input = TensorOf(HY_DTYPE_F32, {1000}, x);
  hy_tensor outputs[2] = {HY_TENSOR_INIT, HY_TENSOR_INIT};
  EXPECT_EQ(hy_session_run(session.get(), &input, 1, outputs, 2), HY_OUT_OF_MEMORY);
  EXPECT_THAT(LastError(), HasSubstr("the cap is 3000"));
  RunChain(session);
}

// 384 KiB of weights, one of them an output, for a device of 300 KB: without a cap its own memory
// is the limit, and with the least of caps another device has all.
TEST_F(EndToEndDevices, WhatADeviceHasLimitsAPlanAndOtherDevicesTakeTheRest) {
  UseDevices("threads=1&memory_bytes=300000;threads=1");
  std::vector<Message> nodes, weights;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    const std::string weight = i == 2 ? "weight" : "w" + n;
    std::vector<float> values(128 * 128);
    for (size_t e = 0; e < values.size(); ++e) {
      values[e] = static_cast<float>((e * 7 + static_cast<size_t>(i)) % 17) / 64 - 0.125f;
    }
    weights.push_back(onnx::testing::FloatTensor(weight, {128, 128}, values));
    nodes.push_back(Node("MatMul", {"v" + n, weight}, {"p" + n}, {}, "p" + n));
    nodes.push_back(Node("Tanh", {"p" + n}, {"v" + next}, {}, "t" + n));
  }
  Write("large.onnx",
        ModelOf({nodes,
                 weights,
                 {ValueInfo("v0", kF32, {16, 128})},
                 {ValueInfo("v6", kF32, {16, 128}), ValueInfo("weight", kF32, {128, 128})}})
            .str());
  const std::string base = "run large.onnx --no-tune --no-cache --seed 5 ";
  const std::string same = " --expect-dir one --rtol 1e-5 --atol 1e-5";
  Run(base + "--device cpu:0 --output-dir one");
  ASSERT_EQ(status_, 0);
  EXPECT_THAT(Run(base + "--device cpu:1" + same), Not(HasSubstr("error:")));
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("explain large.onnx --no-tune --no-cache --device cpu:1"),
              HasSubstr("do not fit there; every run brings them"));
  for (const char* cap : {"1", "50KB", "200KB", "400KB", "10MB"}) {
    EXPECT_THAT(Run(base + "--device cpu:1,cpu:2 --memory-cap cpu:1=" + cap + same),
                Not(HasSubstr("error:")))
        << cap;
    EXPECT_EQ(status_, 0) << cap;
  }
}

// An op that no device of the list runs: the CPU joins for it, and only for it.
TEST_F(EndToEndDevices, TheCpuJoinsForWhatNoDeviceOfTheListRuns) {
  const auto compile = [&](const char* op, hy_policy policy, bool verifies = false,
                           size_t count = 1) {
    const auto graph = hy::Graph::Create(instance_);
    hy_value x = 0, y = 0, z = 0;
    EXPECT_EQ(hy_graph_input(graph.get(), HY_STRING("x"), HY_DTYPE_F64, HY_STRING("4"), &x), HY_OK);
    const hy_value both[] = {x, x};
    EXPECT_EQ(hy_graph_op(graph.get(), hy::View(std::string_view(op)), HY_STRING("odd"), both, 2,
                          nullptr, 0, &y, 1),
              HY_OK);
    EXPECT_EQ(
        hy_graph_op(graph.get(), HY_STRING("neg"), HY_STRING("even"), &y, 1, nullptr, 0, &z, 1),
        HY_OK);
    EXPECT_EQ(hy_graph_output(graph.get(), HY_STRING("z"), z), HY_OK);
    const hy::Device devices[] = {instance_.Open("cpu:1"), instance_.Open("cpu:2")};
    hy_device_t* const handles[] = {devices[0].get(), devices[1].get()};
    const hy_affinity wish = {HY_STRING("even"), HY_STRING("cpu:2"), HY_AFFINITY_PREFER};
    const hy_memory_cap caps[] = {{HY_STRING("cpu:1"), 1 << 20}, {HY_STRING("cpu:2"), 1 << 20}};
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.graph = graph.get();
    desc.devices = handles;
    desc.device_count = count;
    desc.affinities = &wish;
    desc.memory_caps = caps;
    desc.affinity_count = count - 1;
    desc.memory_cap_count = count;
    desc.disable_tuning = 1;
    desc.on_unsupported_op = policy;
    desc.verify_plan = verifies ? 1 : 0;
    return hy::Program::Compile(instance_, desc);
  };
  const hy::Program program = compile("rem", HY_POLICY_FALLBACK_WARN);
  EXPECT_THAT(Report(program), HasSubstr("cpu:0"));
  EXPECT_THAT(log_, HasSubstr("'odd'"));
  const std::vector<double> x = {1, -2, 3, 0.5};
  const hy_tensor input = TensorOf(HY_DTYPE_F64, {4}, x);
  hy_tensor output = HY_TENSOR_INIT;
  const auto session = hy::Session::Create(program);
  ASSERT_EQ(hy_session_run(session.get(), &input, 1, &output, 1), HY_OK) << LastError();
  for (const double value : ValuesOf<double>(output)) EXPECT_EQ(value, 0);
  log_.clear();
  EXPECT_THROW(compile("rem", HY_POLICY_ERROR), hy::Error);
  EXPECT_THAT(LastError(), HasSubstr("'odd'"));
  // Nothing is timed against itself.
  EXPECT_THAT(Report(compile("rem", HY_POLICY_FALLBACK_WARN, true)),
              HasSubstr("verify-plan: The plan has no rival: it is all that can be on 'cpu:1' "
                        "already."));
  // The other device is asked for nothing that was said of this one.
  EXPECT_THAT(Report(compile("rem", HY_POLICY_FALLBACK_WARN, true, 2)),
              testing::ContainsRegex("all that can be on 'cpu:[12]' [0-9.]+ ms \\(medians of "));
  log_.clear();
  // Where the list suffices the CPU is not part of the program.
  EXPECT_THAT(Report(compile("add", HY_POLICY_FALLBACK_WARN), HY_REPORT_COMMANDS),
              Not(HasSubstr("device \"cpu:0\"")));
  EXPECT_EQ(log_, "");
}

TEST_F(EndToEndDevices, AVerifiedPlanKeepsTheFasterAndSaysSo) {
  const std::string path = Write("chain.onnx", Chain().str());
  const hy::Device devices[] = {instance_.Open("cpu:0"), instance_.Open("cpu:2")};
  hy_device_t* const handles[] = {devices[0].get(), devices[1].get()};
  const hy_affinity wish = {HY_STRING("b"), HY_STRING("cpu:2"), HY_AFFINITY_PREFER};
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = hy::View(path);
  desc.disable_tuning = desc.disable_cache = desc.verify_plan = 1;
  desc.devices = handles;
  desc.device_count = 2;
  desc.affinities = &wish;
  desc.affinity_count = 1;
  const hy::Program program = hy::Program::Compile(instance_, desc);
  RunChain(hy::Session::Create(program));
  // Whether the wish makes a plan over both is the cost model's business; where it does, a race is
  // told.
  const std::string commands = Report(program, HY_REPORT_COMMANDS);
  if (commands.find("transfer") != std::string::npos) {
    EXPECT_THAT(Report(program), HasSubstr("the plan is kept"));
  }
}

TEST_F(EndToEndDevices, ALostDeviceIsPlannedAroundWhenThePolicySaysSo) {
  UseDevices("threads=1;threads=1&lose_at=12");
  const std::vector<Wish> wishes = {{"a", "cpu:1"}, {"b", "cpu:2"}, {"c", "cpu:1"}, {"d", "cpu:0"}};
  const hy::Program program = CompileOn(kThree, wishes);
  const auto session = hy::Session::Create(program);
  hy_result result = HY_OK;
  const std::vector<float> x = {1, 2, 3, 4};
  const hy_tensor input = TensorOf(HY_DTYPE_F32, {4}, x);
  int runs = 0;
  while (result == HY_OK && runs < 20) {
    hy_tensor outputs[2] = {HY_TENSOR_INIT, HY_TENSOR_INIT};
    result = hy_session_run(session.get(), &input, 1, outputs, 2);
    ++runs;
  }
  EXPECT_EQ(result, HY_DEVICE_LOST);
  EXPECT_THAT(LastError(), HasSubstr("'cpu:2'"));
  EXPECT_GT(runs, 1);
  for (int i = 0; i < 3; ++i) RunChain(session);  // the next one does without it
  EXPECT_THAT(Report(program), HasSubstr("Device 'cpu:2' was lost"));
  EXPECT_THAT(log_, HasSubstr("device 'cpu:2' is left out"));
  RunChain(hy::Session::Create(program), HY_DEVICE_LOST);

  UseDevices("threads=1;threads=1&lose_at=3");
  Restart(HY_POLICY_ERROR);
  const auto strict = hy::Session::Create(CompileOn(kThree, wishes));
  result = HY_OK;
  for (int i = 0; i < 20 && result == HY_OK; ++i) {
    hy_tensor outputs[2] = {HY_TENSOR_INIT, HY_TENSOR_INIT};
    result = hy_session_run(strict.get(), &input, 1, outputs, 2);
  }
  EXPECT_EQ(result, HY_DEVICE_LOST);
  for (int i = 0; i < 3; ++i) RunChain(strict, HY_DEVICE_LOST);
}

TEST_F(EndToEndDevices, ASteadyRunOverDevicesAllocatesNothing) {
  if (!WatchesHeap()) GTEST_SKIP() << "A sanitizer has a malloc of its own.";
  const auto session = hy::Session::Create(
      CompileOn(kThree, {{"a", "cpu:1"}, {"b", "cpu:0"}, {"c", "cpu:2"}, {"d", "cpu:0"}}));
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(4), z(4);
  const hy_tensor input = TensorOf(HY_DTYPE_F32, {4}, x);
  const hy_tensor wanted[2] = {TensorOf(HY_DTYPE_F32, {4}, y), TensorOf(HY_DTYPE_F32, {4}, z)};
  int64_t fewest = INT64_MAX;
  for (int round = 0; round < 30 && fewest > 0; ++round) {
    const int64_t before = AllocationCount();
    for (int i = 0; i < 20; ++i) {
      hy_tensor outputs[2] = {wanted[0], wanted[1]};
      ASSERT_EQ(hy_session_run(session.get(), &input, 1, outputs, 2), HY_OK) << LastError();
    }
    fewest = std::min(fewest, AllocationCount() - before);
  }
  EXPECT_EQ(fewest, 0);
}

TEST_F(EndToEndDevices, TheCommandTakesAffinitiesCapsAndPolicies) {
  Write("chain.onnx", Chain().str());
  const std::string base = "run chain.onnx --no-tune --no-cache --shape n=16 --seed 5 ";
  EXPECT_THAT(Run(base + "--device cpu:0 --output-dir one"), testing::Not(HasSubstr("error")));
  ASSERT_EQ(status_, 0);
  Run(base +
      "--device cpu:0,cpu:1,cpu:2 --affinity b=cpu:1 --affinity c=require:cpu:2 "
      "--expect-dir one --rtol 1e-5 --atol 1e-5");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run(base + "--device cpu:0,cpu:1 --affinity b=cpu:2"),
              HasSubstr("which the program may not use; it may use "));
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(Run(base + "--device cpu:0,cpu:1 --affinity b=cpu:1 --affinity '*=forbid:cpu:1'"),
              HasSubstr("chain.onnx: 'b' is required on 'cpu:1' by the affinity 'b=cpu:1' and "
                        "forbidden there by the affinity '*=forbid:cpu:1'."));
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(Run(base + "--affinity nonsense"), HasSubstr("is not PATTERN=DEVICE"));
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(Run(base + "--memory-cap cpu:0=12x"), HasSubstr("is not DEVICE=SIZE"));
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(Run(base + "--device cpu:0 --memory-cap cpu:0=1"), HasSubstr("too few"));
  EXPECT_NE(status_, 0);
  EXPECT_THAT(Run(base + "--device cpu:0,cpu:9"), HasSubstr("'cpu:9' is left out"));
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run(base + "--device cpu:0,cpu:9 --on-missing-device fallback"),
              testing::Not(HasSubstr("left out")));
  EXPECT_EQ(status_, 0);
  Run(base + "--device cpu:0,cpu:9 --on-missing-device error");
  EXPECT_EQ(status_, 3);
}

TEST_F(EndToEndDevices, NewCostsChangeNoCachedPlanAndAreTold) {
  UseDevices("threads=1&memory_bytes=4000000;threads=1");  // little memory: short probes
  const auto plan_of = [&](bool replan) {
    log_.clear();
    replan_ = replan;
    return CompileOn(kThree, {}, {}, 64).Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT);
  };
  const std::string first = plan_of(false);
  EXPECT_THAT(first, HasSubstr("costs are of snapshot 0"));
  EXPECT_EQ(plan_of(false), first);
  EXPECT_EQ(log_, "");
  // A probe of the synthetic devices: copies alone.
  std::vector<hy::Device> devices;
  devices.push_back(instance_.Open("cpu:1"));
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.no_kernels = 1;
  instance_.Probe(devices, desc, HY_FORMAT_JSON);
  const std::string second = plan_of(false);
  EXPECT_THAT(log_, HasSubstr("has the costs of snapshot 0; those of now are of snapshot 1"));
  EXPECT_THAT(second, HasSubstr("costs are of snapshot 0"));
  EXPECT_THAT(second, HasSubstr("until a replan is asked for"));
  const std::string third = plan_of(true);
  EXPECT_THAT(third, HasSubstr("costs are of snapshot 1"));
  EXPECT_THAT(log_, Not(HasSubstr("those of now")));
  EXPECT_THAT(log_, HasSubstr("'cpu:1' lacks latencies, crossings, bandwidth, "
                              "classes, products"));
  EXPECT_EQ(plan_of(false), third);
  EXPECT_EQ(log_, "");
  // A probe of another device changes nothing for these.
  devices[0] = instance_.Open("cpu:7?synthetic=1&memory_bytes=4000000");
  instance_.Probe(devices, desc, HY_FORMAT_JSON);
  EXPECT_EQ(plan_of(false), third);
  EXPECT_EQ(log_, "");
}

// The CPU joins as the last resort; that makes no plan that new costs could change.
TEST_F(EndToEndDevices, NewCostsSayNothingOfASingleDevice) {
  UseDevices("threads=1&memory_bytes=4000000&discrete=7");
  const auto compile = [&] {
    log_.clear();
    return CompileOn({"cpu:1"}, {}, {}, 64).Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT);
  };
  EXPECT_THAT(compile(), HasSubstr("costs are of snapshot 0"));
  std::vector<hy::Device> devices;
  devices.push_back(instance_.Open("cpu:1"));
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.no_kernels = 1;
  instance_.Probe(devices, desc, HY_FORMAT_JSON);
  EXPECT_THAT(compile(), HasSubstr("costs are of snapshot 0"));
  EXPECT_EQ(log_, "");
}

TEST_F(EndToEndDevices, AffinitiesMeanNamesAndOpsOfBothKindsAndMissOnesAreTold) {
  // Relu is Halyard's maximum.
  EXPECT_THAT(Report(CompileOn(kThree, {{"op:Relu", "cpu:1"}, {"op:exp", "cpu:2"}})),
              Not(HasSubstr("matches no node")));
  EXPECT_EQ(log_, "");
  const hy::Program program = CompileOn(kThree, {{"op:relu6", "cpu:1"}, {"bb", "cpu:2"}});
  for (const std::string& text : {log_, Report(program)}) {
    EXPECT_THAT(text,
                HasSubstr("'op:relu6=cpu:1' matches no node that runs; the ops of the model: "));
    EXPECT_THAT(text, HasSubstr("'Relu'"));
    EXPECT_THAT(text, HasSubstr("'bb=cpu:2' matches no node that runs; the nodes of the model: "));
    EXPECT_THAT(text, HasSubstr("'b'"));
  }
  // The cache hides it from nobody.
  log_.clear();
  CompileOn(kThree, {{"op:relu6", "cpu:1"}, {"bb", "cpu:2"}});
  EXPECT_THAT(log_, HasSubstr("'bb=cpu:2' matches no node"));
  Write("chain.onnx", Chain().str());
  EXPECT_THAT(
      Run("run chain.onnx --no-tune --shape n=4 --device cpu:0 --affinity 'op:Tanhh=cpu:0'"),
      HasSubstr("matches no node that runs; the ops of the model: "));
  EXPECT_EQ(status_, 0);
}

// A node in the body of a loop is where the loop is, and that is what answers say of it.
TEST_F(EndToEndDevices, NodesInsideALoopAreExplainedByTheLoop) {
  using onnx::testing::GraphAttribute;
  const Message body = onnx::testing::GraphOf(
      {{Node("Identity", {"go"}, {"go_on"}), Node("Tanh", {"a"}, {"b"}, {}, "inner")},
       {},
       {ValueInfo("i", onnx::testing::kI64, {}), ValueInfo("go", 9, {}), ValueInfo("a", kF32, {4})},
       {ValueInfo("go_on", 9, {}), ValueInfo("b", kF32, {4})}});
  Write("loop.onnx",
        ModelOf({{Node("Exp", {"x"}, {"e"}, {}, "before"),
                  Node("Loop", {"trips", "", "e"}, {"y"}, {GraphAttribute("body", body)}, "outer")},
                 {onnx::testing::IntTensor("trips", {}, {3})},
                 {ValueInfo("x", kF32, {4})},
                 {ValueInfo("y", kF32, {4})}})
            .str());
  const std::string base = "explain loop.onnx --no-tune --device cpu:0,cpu:1 ";
  EXPECT_THAT(Run(base + "--node inner"),
              HasSubstr("fate: in the interpreter, inside 'outer'\ndevice: cpu:0\n"));
  EXPECT_THAT(Run(base + "--why-not inner=cpu:1"),
              HasSubstr("UNSUPPORTED_OP: Cluster 'outer' cannot run on 'cpu:1': "));
  EXPECT_THAT(Run(base + "--why-not inner=cpu:0"),
              HasSubstr("RUNS_THERE: Node 'inner' runs on 'cpu:0', in the interpreter, inside "
                        "'outer'."));
  EXPECT_THAT(Run(base + "--affinity inner=cpu:1"),
              HasSubstr("'inner=cpu:1' matches no node that runs by itself; 'inner' is inside "
                        "'outer', which is placed as a whole."));
  EXPECT_EQ(status_, 0);
}

TEST_F(EndToEndDevices, ASavedProgramOpensItsOwnDevicesFromTheCommand) {
  const hy::Program program = CompileOn(kThree, {{"a", "cpu:1"}, {"b", "cpu:2"}, {"c", "cpu:0"}});
  program.Save(Path("three.hyp"));
  EXPECT_THAT(Run("run three.hyp --shape n=4"), HasSubstr("output y [4]"));
  EXPECT_EQ(status_, 0);
  Run("run three.hyp --shape n=4 --device cpu:0,cpu:1,cpu:2");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(
      Run("run three.hyp --shape n=4 --device cpu:0"),
      HasSubstr("compiled for, in their order: 'cpu:0', 'cpu:1', 'cpu:2'; given are: 'cpu:0'."));
  EXPECT_EQ(status_, 2);
  const std::string row =
      Run("bench three.hyp --shape n=4 --runs 5 --warm-up 0 --seconds 0.05 -o csv");
  EXPECT_EQ(status_, 0) << row;
  EXPECT_THAT(row, HasSubstr("cpu:0+cpu:1+cpu:2"));
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  EXPECT_THAT(Run("run three.hyp --shape n=4"), HasSubstr("'cpu:2'"));
  EXPECT_EQ(status_, 3);
}

// CUDA is the stand-in for libcuda.
class EndToEndGpus : public EndToEndDevices {
 protected:
  EndToEndGpus() {
    setenv("HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA, 1);
    Restart(HY_POLICY_DEFAULT);
  }
  ~EndToEndGpus() override { unsetenv("HALYARD_CUDA_LIBRARY"); }

  bool Has(const std::string& path) {
    try {
      instance_.Open(path);
    } catch (const hy::Error& error) {
      if (path == "cuda:0") ADD_FAILURE() << error.what();
      return false;
    }
    return true;
  }
};

TEST_F(EndToEndGpus, AGpuAndCpusShareAProgram) {
  for (const auto& [path, format] :
       {std::pair<std::string, std::string>{"cuda:0", "cuda"}, {"vulkan:0", "spirv"}}) {
    SCOPED_TRACE(path);
    if (!Has(path)) continue;
    const hy::Program program = CompileOn(
        {"cpu:0", path, "cpu:1"}, {{"a", path}, {"b", "cpu:0"}, {"c", path}, {"d", "cpu:1"}});
    const auto session = hy::Session::Create(program);
    for (int i = 0; i < 3; ++i) RunChain(session);
    EXPECT_THAT(Report(program, HY_REPORT_COMMANDS), HasSubstr(format));
  }
}

// The trained digits over all drivers at once, two GPUs without a way between them among them.
TEST_F(EndToEndGpus, AModelRunsOverAllDriversAtOnce) {
  if (!Has("vulkan:0")) GTEST_SKIP() << "no Vulkan device";
  const std::string base =
      "run " HALYARD_SOURCE_DIR "/examples/digits/digits.onnx --no-tune --shape batch=3 --seed 4 ";
  EXPECT_THAT(Run(base + "--device cpu:0 --output-dir one"), Not(HasSubstr("error")));
  ASSERT_EQ(status_, 0);
  const std::string gpus =
      " --affinity node_Conv_37=cuda:0 --affinity node_relu=cuda:0 --affinity "
      "node_Conv_39=vulkan:0 "
      "--affinity node_relu_1=vulkan:0 --affinity node_conv2d_2=cuda:0 --affinity "
      "node_max_pool2d=vulkan:0 --affinity node_linear_1=cuda:0";
  for (const std::string& split :
       {" --device cuda:0,vulkan:0" + gpus,
        " --device cpu:0,vulkan:0,cuda:0 --affinity node_relu_2=cpu:0 --affinity "
        "node_linear=cpu:0" +
            gpus}) {
    SCOPED_TRACE(split);
    EXPECT_THAT(Run(base + split + " --expect-dir one --rtol 1e-4 --atol 1e-5"),
                HasSubstr("largest error"));
    EXPECT_EQ(status_, 0);
    const std::string report =
        Run("explain " HALYARD_SOURCE_DIR "/examples/digits/digits.onnx --no-tune --shape batch=3" +
            split);
    EXPECT_THAT(report, HasSubstr("from cuda:0 to vulkan:0: staged in page-locked memory of "));
    for (const char* device : {"cuda:0", "vulkan:0"}) {
      EXPECT_THAT(report, testing::ContainsRegex(device + std::string(": [0-9]+ dispatch")));
    }
  }
}

// What races and timed runs measured is what a replan asks for; without one nothing changes.
TEST_F(EndToEndDevices, MeasuredTimesArePlannedWithWhenAReplanIsAskedFor) {
  const std::string model =
      HALYARD_SOURCE_DIR "/examples/digits/digits.onnx --device cpu:0 --shape batch=64 ";
  const auto count_measured = [&](const std::string& options) {
    const std::string report = Run("explain " + model + options + " --json");
    EXPECT_EQ(status_, 0) << report;
    size_t count = 0;
    for (size_t at = report.find("\"source\": \"measured\""); at != std::string::npos;
         at = report.find("\"source\": \"measured\"", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(count_measured("--no-tune"), 0u);
  EXPECT_EQ(count_measured("--no-tune --replan"), 0u);
  Run("bench " + model + "--no-tune --seconds 0.05 --warm-up 0 --concurrency 1");
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(count_measured("--no-tune"), 0u);
  EXPECT_EQ(count_measured("--no-tune --replan"), 6u);  // all of its products
  setenv("HALYARD_CACHE_DIR", Path("other").c_str(), 1);
  EXPECT_EQ(count_measured(""), 0u);  // races
  EXPECT_GT(count_measured("--replan"), 0u);
  setenv("HALYARD_CACHE_DIR", Path("cache").c_str(), 1);
}

// Devices that nobody measured are, shortly and once, before several share a model; that is told,
// stored and turned off by the environment and by the caller.
TEST_F(EndToEndDevices, DevicesAreMeasuredShortlyAtTheirFirstUse) {
  UseDevices("threads=1&memory_bytes=40000000");
  Write("chain.onnx", Chain().str());
  const auto explain = [&](const std::string& devices, const std::string& more = "") {
    const std::string report =
        Run("explain chain.onnx --no-tune --shape n=64 --device " + devices + more);
    EXPECT_EQ(status_, 0) << report;
    return report;
  };
  const std::string stored = Path("cache/probes.json");
  const std::string told = "had no probe and were measured for ";
  EXPECT_THAT(explain("cpu:0,cpu:1"), Not(HasSubstr(told)));  // the fixture's 0
  setenv("HALYARD_FIRST_PROBE_MS", "3000", 1);
  EXPECT_THAT(explain("cpu:0,cpu:1", " --replan --no-first-probe"), Not(HasSubstr(told)));
  EXPECT_THAT(explain("cpu:0"), Not(HasSubstr(told)));  // nothing to choose
  EXPECT_THAT(explain("cpu:1"), Not(HasSubstr(told)));  // the CPU is a last resort
  EXPECT_THAT(explain("cpu:0,cpu:1", " --no-cache"), Not(HasSubstr(told)));  // nowhere to keep it
  EXPECT_FALSE(std::filesystem::exists(stored));
  const std::string report = explain("cpu:0,cpu:1", " --replan");
  EXPECT_THAT(report, HasSubstr("machine: 'cpu:0', 'cpu:1' " + told));
  EXPECT_THAT(report, HasSubstr("HALYARD_FIRST_PROBE_MS=0"));
  EXPECT_THAT(report, HasSubstr("costs are of snapshot 1"));
  EXPECT_THAT(report, Not(HasSubstr("lacks")));
  std::ifstream in(stored, std::ios::binary);
  const std::string probes{std::istreambuf_iterator<char>(in), {}};
  for (const char* kind : {"dispatch", "wait"}) {
    EXPECT_THAT(probes, HasSubstr(std::string("\"kind\": \"") + kind + '"'));
  }
  EXPECT_THAT(probes, HasSubstr("\"is_first_use\": true"));
  EXPECT_THAT(probes, Not(HasSubstr("\"kind\": \"first-touch\"")));
  // Once.
  const std::string again = explain("cpu:0,cpu:1", " --replan");
  EXPECT_THAT(again, Not(HasSubstr(told)));
  EXPECT_THAT(again, HasSubstr("costs are of snapshot 1"));
  // A damaged store is for the user to see.
  Write("cache/probes.json", "damaged");
  EXPECT_THAT(explain("cpu:0,cpu:1", " --replan"), HasSubstr("stored probes are not used"));
}

// Programs over two devices are timed against the same work on one: what is left is the crossings,
// which a slow link makes longer by its latency at least.
TEST_F(EndToEndDevices, AProbeMeasuresWhatCrossingsTake) {
  UseDevices("threads=1&memory_bytes=4000000&link_latency_us=3000");
  std::vector<hy::Device> devices;
  devices.push_back(instance_.Open("cpu:1"));
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.no_tune = 1;
  int readings = 0;
  desc.context = &readings;
  // The crossings come first; what they wake up from needs no more.
  desc.should_stop = [](void* context) -> int32_t { return ++*static_cast<int*>(context) > 1; };
  const std::string report = instance_.Probe(devices, desc, HY_FORMAT_TEXT);
  const std::string name = "crossing device -> cpu:0 8 KiB";
  const size_t at = report.find(name);
  ASSERT_NE(at, std::string::npos) << report;
  EXPECT_GE(std::stod(report.substr(at + name.size())), 3000) << report;
}

// Two devices over a NUMA node each, of a machine that hwloc is told to see: each has its own
// processors, and both the host's memory, so nothing is copied between them.
TEST_F(EndToEndDevices, TwoNumaNodesShareAProgram) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  if (!CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed)) {
    GTEST_SKIP() << "This process may not use the processors 0 and 1.";
  }
  setenv("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1", 1);
  UseDevices("");  // else a number stands for a synthetic device
  const std::vector<std::string> nodes = {"cpu:0?numa=0", "cpu:1?numa=1"};
  const hy::Program program =
      CompileOn(nodes, {{"a", "cpu:0"}, {"b", "cpu:1"}, {"c", "cpu:0"}, {"d", "cpu:1"}}, {}, 4);
  RunChain(hy::Session::Create(program));
  const std::string commands = Report(program, HY_REPORT_COMMANDS);
  EXPECT_THAT(commands, HasSubstr("block device 0 queue 0"));
  EXPECT_THAT(commands, HasSubstr("block device 1 queue 0"));
  for (const hy_memory_info& memory : program.Memory({})) EXPECT_EQ(memory.staging_bytes, 0);
  EXPECT_THAT(Report(program), HasSubstr("from cpu:0 to cpu:1: the host copies"));
  // Unasked, placement may choose either, and says what of both.
  const std::string report = Report(CompileOn(nodes, {}, {}, 4));
  EXPECT_THAT(report, HasSubstr("all on 'cpu:0'"));
  EXPECT_THAT(report, HasSubstr("all on 'cpu:1'"));
  // A node that is not there, and a number without one.
  EXPECT_THAT(FailureOf({"cpu:0?numa=0", "cpu:1?numa=2"}, {}),
              HasSubstr("There is no NUMA node 2; the machine has 2."));
  EXPECT_THAT(FailureOf({"cpu:0?numa=1", "cpu:1?numa=1"}, {}),
              HasSubstr("Devices 'cpu:0' and 'cpu:1' are both the processors of NUMA node 1."));
  unsetenv("HWLOC_SYNTHETIC");
}

TEST_F(EndToEndDevices, ProbesThatCannotBeUsedAreToldWithWhatStandsInForThem) {
  UseDevices("threads=1&memory_bytes=4000000;threads=1");
  Write("chain.onnx", Chain().str());
  std::vector<hy::Device> devices;
  devices.push_back(instance_.Open("cpu:1"));
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.no_kernels = 1;
  instance_.Probe(devices, desc, HY_FORMAT_JSON);
  const auto explain = [&] {
    const std::string report =
        Run("explain chain.onnx --no-tune --replan --shape n=64 --device cpu:0,cpu:1");
    EXPECT_EQ(status_, 0);
    return report;
  };
  EXPECT_THAT(explain(), HasSubstr("costs are of snapshot 1"));
  const std::string file = Path("cache/probes.json");
  std::ifstream in(file, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  std::string other = good;
  const size_t model = other.find("; driver cpu");
  ASSERT_NE(model, std::string::npos);
  other.insert(model, " of another make");
  Write("cache/probes.json", other);
  std::string report = explain();
  EXPECT_THAT(report, HasSubstr("machine: the stored probe of 'cpu:1' is of another device ("));
  EXPECT_THAT(report,
              HasSubstr("takes defaults until `halyard devices --probe cpu:1` has measured"));
  EXPECT_THAT(report, HasSubstr("costs are of snapshot 0"));
  std::string earlier = good;
  const size_t format = earlier.find("halyard-probes-");
  ASSERT_NE(format, std::string::npos);
  earlier[format + std::string("halyard-probes-").size()] = '1';
  for (const std::string& bad :
       {good.substr(0, good.size() / 2), earlier, std::string("[]"), std::string()}) {
    Write("cache/probes.json", bad);
    report = explain();
    EXPECT_THAT(report, HasSubstr("machine: stored probes are not used, placement takes defaults"));
    EXPECT_THAT(report, HasSubstr("probes.json"));
    EXPECT_THAT(report, HasSubstr("costs are of snapshot 0"));
  }
  // Neither a folder nor a pipe, which nobody writes to, holds it up.
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_THAT(explain(), HasSubstr("probes.json' is not a regular file."));
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(explain(), HasSubstr("probes.json' is not a regular file."));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace halyard
