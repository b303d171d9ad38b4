// SPDX-License-Identifier: Apache-2.0
// Programs over several devices: graphs cut by forced placement, compiled, and run on synthetic
// devices, which have memories of their own and work in any order, against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "compiler/compile.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/pipeline/pipeline.h"
#include "runtime/compile.h"
#include "runtime/device_target.h"
#include "runtime/report.h"
#include "runtime/session.h"
#include "tests/compiler/ops/op_examples.h"
#include "tests/hal/forwarding_device.h"

namespace halyard::pipeline {
namespace {

using graph::Tensor;
using ::testing::HasSubstr;

std::shared_ptr<runtime::Instance> MakeInstance() {
  auto instance = runtime::Instance::Create({});
  EXPECT_TRUE(instance.ok()) << instance.status().ToString();
  return *instance;
}

std::vector<Ref<hal::Device>> Open(runtime::Instance& instance,
                                   const std::vector<std::string>& paths) {
  std::vector<Ref<hal::Device>> devices;
  for (const std::string& path : paths) {
    auto device = instance.OpenDevice(path);
    EXPECT_TRUE(device.ok()) << device.status().ToString();
    if (device.ok()) devices.push_back(*device);
  }
  return devices;
}

// Which node runs on which device, by name.
using Assignment = std::vector<std::pair<std::string, std::string>>;

Result<program::Program> CompileWith(std::string_view text,
                                     const std::vector<Ref<hal::Device>>& devices,
                                     const place::Options& placement) {
  CompileRequest request;
  request.graph_text = text;
  request.options.tune = false;
  for (const Ref<hal::Device>& device : devices) {
    request.devices.push_back({std::string(device->path()), runtime::TargetOf(*device), "",
                               runtime::IsHostDevice(*device)});
  }
  request.options.placement = placement;
  HY_ASSIGN(CompileResult result, pipeline::Compile(request));
  return std::move(result.program);
}

Result<program::Program> CompileFor(std::string_view text,
                                    const std::vector<Ref<hal::Device>>& devices,
                                    const Assignment& assignment) {
  place::Options placement;
  for (const auto& [node, device] : assignment) {
    placement.affinities.push_back({node, device, place::Strength::kRequire});
  }
  return CompileWith(text, devices, placement);
}

struct Loaded {
  std::shared_ptr<runtime::LoadedProgram> program;
  std::shared_ptr<runtime::Session> session;
};

Result<Loaded> Load(std::shared_ptr<runtime::Instance> instance, program::Program program,
                    std::vector<Ref<hal::Device>> devices) {
  HY_ASSIGN(auto loaded,
            runtime::LoadSaved(std::move(instance), std::move(program), std::move(devices), {}));
  runtime::SessionOptions options;
  options.interpreter = [](const InterpretRequest& request) { return InterpretNode(request); };
  return Loaded{loaded, runtime::Session::Create(loaded, options)};
}

// Runs over poisoned outputs.
Status RunOn(runtime::Session& session, const std::vector<Tensor>& inputs,
             std::vector<Tensor>& outputs) {
  std::vector<runtime::CallTensor> in, out;
  for (const Tensor& input : inputs) {
    in.push_back({input.dtype, input.dims, const_cast<uint8_t*>(input.bytes.data()),
                  static_cast<int64_t>(input.bytes.size())});
  }
  for (Tensor& output : outputs) {
    std::fill(output.bytes.begin(), output.bytes.end(), 0xA5);
    out.push_back({output.dtype, output.dims, output.bytes.data(),
                   static_cast<int64_t>(output.bytes.size())});
  }
  std::vector<runtime::CallResult> results(out.size());
  return session.Run(in, out, results);
}

Tensor RandomTensor(std::mt19937& random, std::vector<int64_t> dims) {
  Tensor tensor;
  tensor.dtype = DType::kF32;
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  tensor.dims = std::move(dims);
  tensor.bytes.resize(static_cast<size_t>(count) * 4);
  auto* data = reinterpret_cast<float*>(tensor.bytes.data());
  for (int64_t i = 0; i < count; ++i) {
    data[i] = static_cast<float>(static_cast<int32_t>(random() % 2001) - 1000) / 500.0f;
  }
  return tensor;
}

// A random graph over f32[rows, columns]: `names` get its nodes. Some nodes have no lowering.
struct RandomGraph {
  std::string text;
  std::vector<std::string> names;
  int64_t rows = 0, columns = 0;
  size_t inputs = 0;
};

RandomGraph MakeGraph(std::mt19937& random, size_t nodes, int64_t scale) {
  RandomGraph graph;
  graph.rows = (1 + random() % 9) * scale;
  graph.columns = 1 + random() % 17;
  graph.inputs = 1 + random() % 3;
  const std::string type = fmt::format("f32[{}, {}]", graph.rows, graph.columns);
  const std::string wide = fmt::format("f64[{}, {}]", graph.rows, graph.columns);
  std::string head, body;
  std::vector<std::string> values;
  for (size_t i = 0; i < graph.inputs; ++i) {
    values.push_back(fmt::format("%x{}", i));
    head += fmt::format("{}{}: {}", i == 0 ? "" : ", ", values.back(), type);
  }
  std::string square;
  for (int64_t i = 0; i < graph.columns * graph.columns; ++i) {
    square += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 7 % 5 - 2) * 0.125);
  }
  body += fmt::format("  %w = constant f32[{0}, {0}]{{{1}}} \"w\"\n", graph.columns, square);
  body += "  %big = constant f64[]{1e30} \"big\"\n";  // a remainder that rounding does not move
  const auto pick = [&] {                             // recent values more often: long chains
    const size_t back = std::min<size_t>(values.size() - 1, random() % 5);
    return values[random() % 3 == 0 ? random() % values.size() : values.size() - 1 - back];
  };
  for (size_t i = 0; i < nodes; ++i) {
    const std::string name = fmt::format("n{}", i), value = "%v" + std::to_string(i);
    const auto add = [&](const std::string& line) { body += "  " + line + "\n"; };
    graph.names.push_back(name);
    switch (random() % 8) {
      case 0:
        add(fmt::format("{} = add {}, {} : {} \"{}\"", value, pick(), pick(), type, name));
        break;
      case 1:
        add(fmt::format("{} = sub {}, {} : {} \"{}\"", value, pick(), pick(), type, name));
        break;
      case 2:
        add(fmt::format("{} = max {}, {} : {} \"{}\"", value, pick(), pick(), type, name));
        break;
      case 3:
        add(fmt::format("{} = tanh {} : {} \"{}\"", value, pick(), type, name));
        break;
      case 4:
      case 5:
        add(fmt::format("{} = matmul {}, %w : {} \"{}\"", value, pick(), type, name));
        break;
      case 6: {
        const std::string part = fmt::format("%p{}", i);
        add(fmt::format("{} = reduce_sum {} {{axes = [1], keep_dims = 1}} : f32[{}, 1] \"{}\"",
                        part, pick(), graph.rows, name));
        add(fmt::format("{} = broadcast {} {{shape = [{}, {}]}} : {} \"{}_wide\"", value, part,
                        graph.rows, graph.columns, type, name));
        graph.names.push_back(name + "_wide");
        break;
      }
      default:  // interpreted
        add(fmt::format("%a{0} = cast {1} {{dtype = f64}} : {2} \"{3}_in\"", i, pick(), wide,
                        name));
        add(fmt::format("%b{} = broadcast %big {{shape = [{}, {}]}} : {} \"{}_by\"", i, graph.rows,
                        graph.columns, wide, name));
        add(fmt::format("%c{0} = rem %a{0}, %b{0} : {1} \"{2}\"", i, wide, name));
        add(fmt::format("{} = cast %c{} {{dtype = f32}} : {} \"{}_out\"", value, i, type, name));
        graph.names.insert(graph.names.end(), {name + "_in", name + "_by", name + "_out"});
        graph.names.erase(std::find(graph.names.begin(), graph.names.end(), name));
        break;
    }
    values.push_back(value);
  }
  std::string results = values.back();
  const size_t extra = random() % 3;
  for (size_t i = 0; i < extra; ++i) results += ", " + values[random() % values.size()];
  graph.text = fmt::format("graph main({}) -> ({}) {{\n{}}}\n", head, results, body);
  return graph;
}

// What runs took of each device is what was told before them, within a page. The host's device
// takes aligned memory of the caller as it is.
void ExpectPeaksArePlanned(const Loaded& loaded, const std::vector<Ref<hal::Device>>& devices) {
  const auto plan = runtime::PredictMemory(*loaded.program, {});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(plan->size(), devices.size());
  for (size_t d = 0; d < devices.size(); ++d) {
    const runtime::DeviceMemory& memory = (*plan)[d];
    const int64_t least = memory.constant_bytes + memory.activation_bytes + memory.staging_bytes;
    const int64_t most = least + memory.io_bytes;
    const int64_t peak = devices[d]->memory_statistics().peak_bytes;
    EXPECT_LE(peak, most + 4096) << memory.device;
    EXPECT_GE(peak, (runtime::IsHostDevice(*devices[d]) ? least : most) - 4096) << memory.device;
  }
}

// `scale`: of the rows; with many, memory is counted in pages.
void CheckGraph(uint32_t seed, int64_t scale = 1) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const RandomGraph graph = MakeGraph(random, 4 + random() % 14, scale);
  const auto instance = MakeInstance();
  // Two to eight unequal devices; the host is one of them, or only a last resort of this test.
  std::vector<std::string> paths = {"cpu:0"};
  const size_t count = 1 + seed % 7;
  for (size_t d = 1; d <= count; ++d) {
    paths.push_back(fmt::format(
        "cpu:{}?synthetic=1&threads=1&speed_percent={}&link_latency_us={}"
        "&discrete={}",
        d, 20 + random() % 80, random() % 30, random() % 2 == 0 ? 0 : 1 + random() % 1000));
  }
  std::shuffle(paths.begin(), paths.end(), random);
  const auto devices = Open(*instance, paths);
  Assignment assignment;
  for (const std::string& name : graph.names) {
    // A few nodes in a row stay together more often than not.
    const bool stays = !assignment.empty() && random() % 3 != 0;
    assignment.push_back({name, stays ? assignment.back().second
                                      : std::string(devices[random() % devices.size()]->path())});
  }
  auto source = graph::ParseModule(graph.text);
  ASSERT_TRUE(source.ok()) << source.status().ToString() << graph.text;
  auto program = CompileFor(graph.text, devices, {});
  // Nodes that passes removed cannot be placed: keep those that the simplified graph has.
  ASSERT_TRUE(program.ok()) << program.status().ToString() << graph.text;
  std::erase_if(assignment, [&](const auto& one) {
    for (const program::Record& record : program->records) {
      if (record.kind == "node" && record.subject == one.first) {
        return record.text.starts_with("gone") || record.text == "in the interpreter";
      }
    }
    return true;
  });
  program = CompileFor(graph.text, devices, assignment);
  ASSERT_TRUE(program.ok()) << program.status().ToString() << graph.text;
  auto loaded = Load(instance, std::move(*program), devices);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (int run = 0; run < 3; ++run) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < graph.inputs; ++i) {
      inputs.push_back(RandomTensor(random, {graph.rows, graph.columns}));
    }
    auto wanted = graph::Interpret(*source, inputs);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    std::vector<Tensor> got = *wanted;
    const Status ran = RunOn(*loaded->session, inputs, got);
    ASSERT_TRUE(ran.ok()) << ran.ToString() << graph.text;
    for (size_t i = 0; i < got.size(); ++i) {
      const Status same = graph::CompareTensors((*wanted)[i], got[i], 1e-4, 1e-4);
      ASSERT_TRUE(same.ok()) << "output " << i << " of run " << run << ": " << same.ToString()
                             << graph.text << program::Format(loaded->program->program());
    }
  }
  if (scale > 1) ExpectPeaksArePlanned(*loaded, devices);
}

TEST(Devices, RandomGraphsOnRandomDevicesMatchTheReference) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    CheckGraph(seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Devices, ThePeaksOfRandomGraphsAreTheirPlans) {
  for (uint32_t seed = 101; seed <= 115; ++seed) {
    CheckGraph(seed, 200);
    if (HasFatalFailure()) return;
  }
}

// Three nodes on one device, one on another between them: a segment before and one after, and each
// value crosses once.
constexpr std::string_view kZigzag = R"(graph main(%x: f32[4, 8]) -> (%d, %e) {
  %a = tanh %x : f32[4, 8] "a"
  %b = exp %a : f32[4, 8] "b"
  %c = add %a, %b : f32[4, 8] "c"
  %d = tanh %c : f32[4, 8] "d"
  %e = add %b, %d : f32[4, 8] "e"
}
)";

struct Counts {
  size_t transfers = 0, waits = 0, blocks = 0;
};
Counts CountOf(const program::Program& program) {
  Counts counts;
  for (const program::Block& block : program.entries[0].blocks) {
    ++counts.blocks;
    counts.waits += block.waits.size();
    for (const program::Command& command : block.commands) {
      counts.transfers += command.kind == program::CommandKind::kTransfer;
    }
  }
  return counts;
}

TEST(Devices, EachValueCrossesOnceAndEachPairWaitsOnce) {
  const auto instance = MakeInstance();
  const auto devices = Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1"});
  // a on 0; b on 1; c, d on 0; e on 1.
  auto program =
      CompileFor(kZigzag, devices,
                 {{"a", "cpu:0"}, {"b", "cpu:1"}, {"c", "cpu:0"}, {"d", "cpu:0"}, {"e", "cpu:1"}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const Counts counts = CountOf(*program);
  // a to 1, b to 0, d to 1; b is at home on 1 already when e reads it.
  EXPECT_EQ(counts.transfers, 3u) << program::Format(*program);
  // Blocks: a, (a), b, (b), c+d, (d), e. Each waits for the one before it and for nothing else:
  // that c+d follows a, and e follows b, is implied.
  EXPECT_EQ(counts.blocks, 7u);
  EXPECT_EQ(counts.waits, 6u) << program::Format(*program);
  EXPECT_EQ(program->entries[0].inputs[0].device, 0u);
  EXPECT_EQ(program->entries[0].outputs[0].device, 0u);
  EXPECT_EQ(program->entries[0].outputs[1].device, 1u);
  // Text and file keep all of it.
  const auto parsed = program::Parse(program::Format(*program));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(program::Format(*parsed), program::Format(*program));
}

TEST(Devices, AnInputOfTwoDevicesIsOnTheHostAndGoesToEachOnce) {
  const auto instance = MakeInstance();
  const auto devices =
      Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1", "cpu:2?synthetic=1&threads=1"});
  auto program =
      CompileFor(kZigzag, devices,
                 {{"a", "cpu:1"}, {"b", "cpu:1"}, {"c", "cpu:1"}, {"d", "cpu:1"}, {"e", "cpu:1"}});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(CountOf(*program).transfers, 0u);  // the one user has it
  EXPECT_EQ(program->entries[0].inputs[0].device, 1u);
  constexpr std::string_view kTwo = R"(graph main(%x: f32[4, 8]) -> (%a, %b, %c) {
  %a = tanh %x : f32[4, 8] "a"
  %b = exp %x : f32[4, 8] "b"
  %c = exp %a : f32[4, 8] "c"
}
)";
  program = CompileFor(kTwo, devices, {{"a", "cpu:1"}, {"b", "cpu:2"}, {"c", "cpu:2"}});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->entries[0].inputs[0].device, 0u);
  EXPECT_EQ(CountOf(*program).transfers, 3u) << program::Format(*program);
}

// What a run takes is known before it: the peak of every device is the plan within a page.
TEST(Devices, ThePeakOfEachDeviceIsThePlan) {
  const auto instance = MakeInstance();
  const auto devices =
      Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1", "cpu:2?synthetic=1&threads=1"});
  std::string text = "graph main(%v0: f32[64, 300]) -> (%v12) {\n  %w = constant f32[300]{";
  for (int i = 0; i < 300; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", i * 0.01);
  text += "} \"w\"\n";
  Assignment assignment;
  for (int i = 0; i < 12; ++i) {
    text += fmt::format(
        "  %b{0} = broadcast %w {{shape = [64, 300]}} : f32[64, 300] \"b{0}\"\n"
        "  %v{1} = {2} %v{0}, %b{0} : f32[64, 300] \"v{0}\"\n",
        i, i + 1, i % 2 == 0 ? "add" : "max");
    assignment.push_back({fmt::format("?{}", i), fmt::format("cpu:{}", i % 3)});
  }
  text += "}\n";
  auto program = CompileFor(text, devices, assignment);
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  auto loaded = Load(instance, std::move(*program), devices);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  std::mt19937 random(5);
  std::vector<Tensor> inputs = {RandomTensor(random, {64, 300})}, outputs = inputs;
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(RunOn(*loaded->session, inputs, outputs).ok());
  ExpectPeaksArePlanned(*loaded, devices);
  for (const Ref<hal::Device>& device : devices) {
    EXPECT_GT(device->memory_statistics().peak_bytes, 64 * 300 * 4) << device->path();
  }
}

// A chain of products, weights of 64 KiB each, under caps: the weights stream, the results are
// those of the reference, and no device takes more than its plan says, which is below the cap.
TEST(Devices, WeightsThatDoNotFitAreStreamed) {
  constexpr int kLayers = 7;
  std::mt19937 random(11);
  std::string text = "graph main(%v0: f32[20, 128]) -> (%v7) {\n";
  for (int i = 0; i < kLayers; ++i) {
    text += fmt::format("  %w{} = constant f32[128, 128]{{", i);
    for (int e = 0; e < 128 * 128; ++e) {
      text += fmt::format("{}{}", e == 0 ? "" : ", ", (static_cast<int>(random() % 17) - 8) / 64.0);
    }
    text += fmt::format(
        "}} \"w{0}\"\n  %p{0} = matmul %v{0}, %w{0} : f32[20, 128] \"p{0}\"\n"
        "  %v{1} = tanh %p{0} : f32[20, 128] \"t{0}\"\n",
        i, i + 1);
  }
  text += "}\n";
  const auto source = graph::ParseModule(text);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const auto instance = MakeInstance();
  const auto devices = Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1&discrete=3"});
  constexpr int64_t kCap = 360'000;
  place::Options options;
  options.memory_caps = {{"cpu:1", kCap}};
  options.affinities = {{"?3", "cpu:0", place::Strength::kRequire}};  // two segments on cpu:1
  for (const char* name : {"?0", "?1", "?2", "?4", "?5", "?6"}) {
    options.affinities.push_back({name, "cpu:1", place::Strength::kRequire});
  }
  auto program = CompileWith(text, devices, options);
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  size_t brought = 0;
  for (const program::Block& block : program->entries[0].blocks) {
    for (const program::Command& command : block.commands) {
      brought += command.label == "weights to cpu:1";
    }
  }
  EXPECT_GE(brought, 4u);  // of six; what fits stays
  EXPECT_LT(brought, 6u);
  auto loaded = Load(instance, std::move(*program), devices);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const auto memory = runtime::PredictMemory(*loaded->program, {});
  ASSERT_TRUE(memory.ok()) << memory.status().ToString();
  const runtime::DeviceMemory& plan = (*memory)[1];
  EXPECT_GE(plan.streamed_bytes, static_cast<int64_t>(brought) * 65536);
  const int64_t planned =
      plan.constant_bytes + plan.activation_bytes + plan.io_bytes + plan.staging_bytes;
  EXPECT_LE(planned, kCap);
  for (int run = 0; run < 3; ++run) {
    std::vector<Tensor> inputs = {RandomTensor(random, {20, 128})};
    auto wanted = graph::Interpret(*source, inputs);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    std::vector<Tensor> got = *wanted;
    ASSERT_TRUE(RunOn(*loaded->session, inputs, got).ok());
    const Status same = graph::CompareTensors((*wanted)[0], got[0], 1e-5, 1e-5);
    EXPECT_TRUE(same.ok()) << same.ToString();
  }
  // Page-locked memory counts on a synthetic device.
  EXPECT_LE(devices[1]->memory_statistics().peak_bytes, planned + plan.streamed_bytes + 4096);
}

// Who waits would be idle, and another thread would have to be woken.
TEST(Devices, WhatARunBeginsWithOnTheHostIsDoneByWhoWaitsForIt) {
  const auto instance = MakeInstance();
  const auto devices = Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1"});
  // a and b are interpreted on the host, one after the other, before anything happens elsewhere.
  constexpr std::string_view kText = R"(graph main(%x: f64[8], %y: f64[8]) -> (%d) {
  %a = rem %x, %y : f64[8] "a"
  %b = rem %x, %a : f64[8] "b"
  %c = cast %b {dtype = f32} : f32[8] "c"
  %d = tanh %c : f32[8] "d"
}
)";
  auto program =
      CompileFor(kText, devices, {{"a", "cpu:0"}, {"b", "cpu:0"}, {"c", "cpu:0"}, {"d", "cpu:1"}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  auto loaded = runtime::LoadSaved(instance, std::move(*program), devices, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  std::vector<std::thread::id> threads;
  runtime::SessionOptions options;
  options.interpreter = [&](const InterpretRequest& request) {
    threads.push_back(std::this_thread::get_id());
    return InterpretNode(request);
  };
  const auto session = runtime::Session::Create(*loaded, options);
  Tensor x, y;
  x.dtype = y.dtype = DType::kF64;
  x.dims = y.dims = {8};
  x.bytes.resize(64), y.bytes.resize(64);
  for (int i = 0; i < 8; ++i) {
    reinterpret_cast<double*>(x.bytes.data())[i] = 7.5 + i;
    reinterpret_cast<double*>(y.bytes.data())[i] = 4.0;
  }
  std::mt19937 random(8);
  std::vector<Tensor> outputs = {RandomTensor(random, {8})};
  for (int run = 0; run < 20; ++run) {
    const Status status = RunOn(*session, {x, y}, outputs);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_NEAR(reinterpret_cast<float*>(outputs[0].bytes.data())[0],
              std::tanh(std::fmod(7.5, std::fmod(7.5, 4.0))), 1e-6);
  EXPECT_EQ(threads.size(), 40u);
  EXPECT_THAT(threads, ::testing::Each(std::this_thread::get_id()));
}

// No block of the host before an output: a step in the middle is held, and all are submitted.
TEST(Devices, ASubmissionReturnsWhileAStepInTheMiddleIsHeld) {
  const auto instance = MakeInstance();
  const auto devices = Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1"});
  constexpr std::string_view kText = R"(graph main(%x: f32[8], %y: f64[8]) -> (%e) {
  %a = tanh %x : f32[8] "a"
  %b = cast %a {dtype = f64} : f64[8] "b"
  %c = rem %b, %y : f64[8] "c"
  %d = cast %c {dtype = f32} : f32[8] "d"
  %e = exp %d : f32[8] "e"
}
)";
  auto program =
      CompileFor(kText, devices,
                 {{"a", "cpu:1"}, {"b", "cpu:1"}, {"c", "cpu:0"}, {"d", "cpu:1"}, {"e", "cpu:1"}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  auto loaded = runtime::LoadSaved(instance, std::move(*program), devices, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  std::mutex mutex;
  std::condition_variable changed;
  bool is_held = true, has_returned = false, was_in_time = false;
  runtime::SessionOptions options;
  options.interpreter = [&](const InterpretRequest& request) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !is_held; });
    return InterpretNode(request);
  };
  const auto session = runtime::Session::Create(*loaded, options);
  // Lets go when the submission is back; where it never is, after a while, so that the test ends.
  std::thread release([&] {
    std::unique_lock lock(mutex);
    was_in_time = changed.wait_for(lock, std::chrono::seconds(20), [&] { return has_returned; });
    is_held = false;
    changed.notify_all();
  });
  std::mt19937 random(9);
  Tensor x = RandomTensor(random, {8}), y, out = RandomTensor(random, {8});
  y.dtype = DType::kF64;
  y.dims = {8};
  y.bytes.resize(64);
  for (int i = 0; i < 8; ++i) reinterpret_cast<double*>(y.bytes.data())[i] = 0.25;
  const runtime::CallTensor in[2] = {{x.dtype, x.dims, x.bytes.data(), 32},
                                     {y.dtype, y.dims, y.bytes.data(), 64}};
  const runtime::CallTensor result_in[1] = {{out.dtype, out.dims, out.bytes.data(), 32}};
  std::vector<runtime::CallResult> results(1);
  const auto event = session->Submit(in, result_in, results);
  {
    const std::lock_guard lock(mutex);
    has_returned = true;
    changed.notify_all();
  }
  release.join();
  ASSERT_TRUE(event.ok()) << event.status().ToString();
  EXPECT_TRUE(was_in_time);
  const Status status = event->Wait(INT64_MAX);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const float first = reinterpret_cast<const float*>(x.bytes.data())[0];
  const float got = reinterpret_cast<const float*>(results[0].data)[0];
  EXPECT_NEAR(got, std::exp(std::fmod(std::tanh(first), 0.25)), 1e-5);
}

class WaitCounter final : public hal::ForwardingDevice {
 public:
  WaitCounter(Ref<hal::Device> inner, std::atomic<int>* waits)
      : ForwardingDevice(std::move(inner)), waits_(waits) {}
  Status Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode, int64_t timeout_ns,
              size_t* out_index) override {
    ++*waits_;
    return ForwardingDevice::Wait(points, mode, timeout_ns, out_index);
  }

 private:
  std::atomic<int>* const waits_;
};

// Programs over three devices with values that cross in both directions and outputs on two of them:
// the host waits once for each run, for its outputs, and for nothing before.
TEST(Devices, TheHostWaitsForOutputsOnly) {
  const auto instance = MakeInstance();
  std::atomic<int> waits = 0;
  std::vector<Ref<hal::Device>> devices;
  for (const Ref<hal::Device>& device :
       Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1&discrete=1",
                        "cpu:2?synthetic=1&threads=1&link_latency_us=20"})) {
    devices.push_back(MakeRef<WaitCounter>(device, &waits));
  }
  auto program =
      CompileFor(kZigzag, devices,
                 {{"a", "cpu:1"}, {"b", "cpu:2"}, {"c", "cpu:0"}, {"d", "cpu:1"}, {"e", "cpu:2"}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_GE(CountOf(*program).transfers, 5u);
  auto loaded = Load(instance, std::move(*program), devices);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  auto source = graph::ParseModule(kZigzag);
  ASSERT_TRUE(source.ok());
  std::mt19937 random(10);
  constexpr int kRuns = 8;
  const std::vector<Tensor> inputs = {RandomTensor(random, {4, 8})};
  auto wanted = graph::Interpret(*source, inputs);
  ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
  std::vector<Tensor> got = *wanted;
  waits = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Status status = RunOn(*loaded->session, inputs, got);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_EQ(waits, kRuns);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(graph::CompareTensors((*wanted)[i], got[i], 1e-5, 1e-5).ok());
  }
  // A run that is only submitted waits for nothing; its event does.
  const runtime::CallTensor in[1] = {
      {inputs[0].dtype, inputs[0].dims, const_cast<uint8_t*>(inputs[0].bytes.data()), 128}};
  std::vector<runtime::CallTensor> out;
  for (Tensor& tensor : got) out.push_back({tensor.dtype, tensor.dims, tensor.bytes.data(), 128});
  std::vector<runtime::CallResult> results(2);
  waits = 0;
  const auto event = loaded->session->Submit(in, out, results);
  ASSERT_TRUE(event.ok()) << event.status().ToString();
  EXPECT_EQ(waits, 0);
  EXPECT_TRUE(event->Wait(INT64_MAX).ok());
  EXPECT_EQ(waits, 1);
}

TEST(Devices, AFailureOnOneDeviceEndsTheRunAndTheNextOneStartsAfresh) {
  const auto instance = MakeInstance();
  const auto devices = Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1"});
  constexpr std::string_view kText = R"(graph main(%x: f32[8], %i: i64[4]) -> (%c) {
  %a = tanh %x : f32[8] "a"
  %b = gather %a, %i {axis = 0} : f32[4] "b"
  %c = exp %b : f32[4] "c"
}
)";
  auto program = CompileFor(kText, devices, {{"a", "cpu:0"}, {"b", "cpu:1"}, {"c", "cpu:0"}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  auto loaded = Load(instance, std::move(*program), devices);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  std::mt19937 random(6);
  Tensor indices;
  indices.dtype = DType::kI64;
  indices.dims = {4};
  indices.bytes.resize(32);
  auto* index = reinterpret_cast<int64_t*>(indices.bytes.data());
  std::vector<Tensor> inputs = {RandomTensor(random, {8}), indices};
  index = reinterpret_cast<int64_t*>(inputs[1].bytes.data());
  std::vector<Tensor> outputs = {RandomTensor(random, {4})};
  for (const int64_t bad : {0, 99, 3, -99, 7}) {
    index[2] = bad;
    const Status status = RunOn(*loaded->session, inputs, outputs);
    if (bad >= 0 && bad < 8) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    } else {
      EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
      EXPECT_THAT(status.message(), HasSubstr("'b'"));
    }
  }
}

TEST(Devices, ALostDeviceEndsTheRunWithItsStatus) {
  const auto instance = MakeInstance();
  const auto devices = Open(*instance, {"cpu:0", "cpu:1?synthetic=1&threads=1&lose_at=9"});
  auto program =
      CompileFor(kZigzag, devices,
                 {{"a", "cpu:0"}, {"b", "cpu:1"}, {"c", "cpu:0"}, {"d", "cpu:0"}, {"e", "cpu:1"}});
  ASSERT_TRUE(program.ok());
  auto loaded = Load(instance, std::move(*program), devices);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  std::mt19937 random(7);
  std::vector<Tensor> inputs = {RandomTensor(random, {4, 8})};
  std::vector<Tensor> outputs = {inputs[0], inputs[0]};
  Status status;
  int runs = 0;
  while (status.ok() && runs < 10) {
    status = RunOn(*loaded->session, inputs, outputs);
    ++runs;
  }
  EXPECT_GT(runs, 1);
  EXPECT_EQ(status.code(), StatusCode::kDeviceLost) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("'cpu:1'"));
  status = RunOn(*loaded->session, inputs, outputs);
  EXPECT_EQ(status.code(), StatusCode::kDeviceLost) << status.ToString();
}

}  // namespace
}  // namespace halyard::pipeline
