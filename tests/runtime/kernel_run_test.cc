// SPDX-License-Identifier: Apache-2.0
// What KernelRun records: what stands before and behind each execution, and which weights it reads.
#include "runtime/probe/kernel_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "drivers/init.h"
#include "hal/registry.h"
#include "runtime/compiler_library.h"
#include "runtime/probe/kernel_maker.h"
#include "tests/hal/forwarding_device.h"

namespace halyard::runtime {
namespace {

using RangeKey = std::tuple<const hal::Buffer*, int64_t, int64_t>;  // offset, bytes
RangeKey KeyOf(const hal::CommandRange& range) {
  return {range.buffer, range.offset, range.size_bytes};
}

struct Step {
  char kind = ' ';  // 'd'ispatch, 'c'opy, 'f'ill, a barrier '|'
  std::vector<RangeKey> ranges;
};

class NotedCommands final : public hal::CommandBuffer {
 public:
  explicit NotedCommands(Ref<hal::CommandBuffer> inner) : inner_(std::move(inner)) {}
  hal::Device* device() const override { return inner_->device(); }
  Status Dispatch(const hal::DispatchCommand& command) override {
    Step step{'d', {}};
    for (const hal::CommandRange& range : command.bindings) step.ranges.push_back(KeyOf(range));
    steps.push_back(std::move(step));
    return inner_->Dispatch(command);
  }
  Status Copy(const hal::CommandRange& source, const hal::CommandRange& target) override {
    steps.push_back({'c', {KeyOf(source), KeyOf(target)}});
    return inner_->Copy(source, target);
  }
  Status Fill(const hal::CommandRange& target, uint64_t pattern, uint32_t bytes) override {
    steps.push_back({'f', {KeyOf(target)}});
    return inner_->Fill(target, pattern, bytes);
  }
  Status Barrier() override {
    steps.push_back({'|', {}});
    return inner_->Barrier();
  }
  Status Finish() override { return inner_->Finish(); }
  bool is_finished() const override { return inner_->is_finished(); }
  uint32_t slot_count() const override { return inner_->slot_count(); }
  uint32_t dispatch_count() const override { return inner_->dispatch_count(); }
  hal::CommandBuffer* inner() const { return inner_.get(); }
  std::vector<Step> steps;

 private:
  Ref<hal::CommandBuffer> inner_;
};

// Keeps the steps of each submission.
class NotingDevice final : public hal::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<Ref<hal::CommandBuffer>> CreateCommandBuffer() override {
    HY_ASSIGN(auto commands, inner_->CreateCommandBuffer());
    return Ref<hal::CommandBuffer>(MakeRef<NotedCommands>(std::move(commands)));
  }
  Status Submit(uint32_t queue, const hal::SubmitInfo& info) override {
    hal::SubmitInfo inner = info;
    const auto* commands = static_cast<const NotedCommands*>(info.commands);
    inner.commands = commands->inner();
    submitted.push_back(commands->steps);
    return inner_->Submit(queue, inner);
  }
  std::vector<std::vector<Step>> submitted;
};

class KernelRunTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef HALYARD_COMPILER
    setenv("HALYARD_COMPILER_LIBRARY", HALYARD_COMPILER, 1);
#endif
    const Status opened = OpenCompilerLibrary().status();
    unsetenv("HALYARD_COMPILER_LIBRARY");
    if (!opened.ok()) GTEST_SKIP() << opened.message();
    ASSERT_TRUE(RegisterAllDrivers(&registry_).ok());
    device_ = MakeRef<NotingDevice>(registry_.OpenDevice("cpu:0").value());
    maker_ = std::make_unique<KernelMaker>(device_, nullptr);
  }
  std::unique_ptr<KernelRun> Make(const std::string& graph) {
    auto run = maker_->Make({"kernel", [graph] { return graph; }, true, false});
    EXPECT_TRUE(run.ok()) << run.status().ToLine();
    device_->submitted.clear();
    return std::move(run).value();
  }
  static size_t Count(const std::vector<Step>& steps, char kind) {
    return std::count_if(steps.begin(), steps.end(), [&](const Step& s) { return s.kind == kind; });
  }
  // What the dispatches bind, each once.
  static std::set<std::vector<RangeKey>> Bindings(const std::vector<Step>& steps) {
    std::set<std::vector<RangeKey>> found;
    for (const Step& step : steps) {
      if (step.kind == 'd') found.insert(step.ranges);
    }
    return found;
  }
  hal::DriverRegistry registry_;
  Ref<NotingDevice> device_;
  std::unique_ptr<KernelMaker> maker_;
};

constexpr int64_t kInputBytes = 64 * 96 * 4, kWeightBytes = 96 * 48 * 4;

std::string Product() {
  std::string weights;
  for (int64_t i = 0; i < kWeightBytes / 4; ++i)
    weights += fmt::format("{}{}.5", i > 0 ? ", " : "", i % 97);
  return fmt::format(
      "graph g(%x: f32[64, 96]) -> (\"y\" = %y) {{\n"
      "  %w = constant f32[96, 48]{{{}}}\n"
      "  %y = matmul %x, %w : f32[64, 48] \"y\"\n}}\n",
      weights);
}

TEST_F(KernelRunTest, EachFedExecutionHasInputsThatWereJustWritten) {
  const auto run = Make(Product());
  EXPECT_EQ(run->weight_bytes(), kWeightBytes);
  const DeviceTurn::Hold turn(*maker_->turn());
  ASSERT_TRUE(run->TimeFed().ok());
  // The copies of the inputs are made; then with executions, and the same without.
  ASSERT_EQ(device_->submitted.size(), 3u);
  const std::vector<Step>&with = device_->submitted[1], &without = device_->submitted[2];
  EXPECT_EQ(Count(with, 'd'), 8u);
  EXPECT_EQ(Count(without, 'd'), 0u);
  EXPECT_EQ(Count(with, 'c'), Count(without, 'c'));
  EXPECT_EQ(Count(with, 'f') + Count(without, 'f'), 0u);
  EXPECT_EQ(Bindings(with).size(), 1u);
  // Before each execution all of the input once, in parts, none of them the first, and a barrier.
  std::map<int64_t, int64_t> parts;  // of the input: offset, bytes
  bool is_behind_barrier = false;
  for (const Step& step : with) {
    if (step.kind == 'c') {
      const auto& [buffer, offset, bytes] = step.ranges[1];
      if (parts.empty()) {
        EXPECT_NE(offset, 0) << "the thread that writes it would read it";
      }
      EXPECT_TRUE(parts.emplace(offset, bytes).second);
      is_behind_barrier = false;
    } else if (step.kind == '|') {
      is_behind_barrier = true;
    } else {
      EXPECT_TRUE(is_behind_barrier);
      int64_t end = 0;
      for (const auto& [offset, bytes] : parts) {
        EXPECT_EQ(offset, end);
        end += bytes;
      }
      EXPECT_EQ(end, kInputBytes);
      EXPECT_GT(parts.size(), 1u);
      parts.clear();
      is_behind_barrier = false;
    }
  }
}

TEST_F(KernelRunTest, ExecutionsWithOtherWeightsReadThemInTurn) {
  const auto run = Make(Product());
  const DeviceTurn::Hold turn(*maker_->turn());
  ASSERT_TRUE(run->TimeWithOtherWeights(20 * kWeightBytes).ok());
  ASSERT_EQ(device_->submitted.size(), 4u);  // inputs and weights are copied, then two are timed
  const std::vector<Step>& with = device_->submitted[2];
  EXPECT_EQ(Count(with, 'd'), 21u);
  EXPECT_EQ(Count(device_->submitted[3], 'c'), Count(with, 'c'));
  const std::set<std::vector<RangeKey>> bindings = Bindings(with);
  EXPECT_EQ(bindings.size(), 21u) << "no execution reads the weights of another one";
  // Each set is a copy of the first that no other overlaps.
  std::set<RangeKey> sets;
  for (const std::vector<RangeKey>& ranges : bindings) {
    for (const RangeKey& range : ranges) {
      if (std::get<2>(range) == kWeightBytes) sets.insert(range);
    }
  }
  ASSERT_EQ(sets.size(), 21u);
  std::vector<uint8_t> first;
  const hal::Buffer* before = nullptr;
  int64_t end = 0;
  for (const auto& [buffer, offset, bytes] : sets) {
    if (buffer == before) {
      EXPECT_GE(offset, end);
    }
    before = buffer;
    end = offset + bytes;
    std::vector<uint8_t> content(static_cast<size_t>(bytes));
    ASSERT_TRUE(
        Download(*device_, {const_cast<hal::Buffer*>(buffer), offset, bytes}, content).ok());
    if (first.empty()) first = content;
    EXPECT_EQ(content, first);
  }
  EXPECT_THAT(first, testing::Contains(testing::Ne(0)));
}

TEST_F(KernelRunTest, WithoutWeightsThereAreNoOthers) {
  const auto run = Make(
      "graph g(%x: f32[9, 7], %z: f32[9, 7]) -> (\"y\" = %y) {\n"
      "  %y = add %x, %z : f32[9, 7] \"y\"\n}\n");
  EXPECT_EQ(run->weight_bytes(), 0);
  const DeviceTurn::Hold turn(*maker_->turn());
  ASSERT_TRUE(run->TimeWithOtherWeights(1 << 20).ok());
  ASSERT_EQ(device_->submitted.size(), 3u);
  EXPECT_EQ(Count(device_->submitted[1], 'd'), 8u);
  EXPECT_EQ(Count(device_->submitted[1], 'c'), 16u);  // both inputs are one part each
}

// Of a GPU: more memory than its caches is written over before each.
TEST_F(KernelRunTest, AColdExecutionFindsTheCachesWrittenOver) {
  const auto run = Make(Product());
  const DeviceTurn::Hold turn(*maker_->turn());
  ASSERT_TRUE(run->TimeCold(1 << 20).ok());
  ASSERT_EQ(device_->submitted.size(), 3u);
  for (const size_t index : {1, 2}) {
    const std::vector<Step>& steps = device_->submitted[index];
    EXPECT_EQ(Count(steps, 'f'), 8u);
    EXPECT_EQ(Count(steps, 'c'), 8u) << "the input in one copy";
    EXPECT_EQ(Count(steps, 'd'), index == 1 ? 8u : 0u);
    EXPECT_EQ(steps.front().kind, 'f');
    EXPECT_EQ(std::get<2>(steps.front().ranges[0]), 1 << 20);
  }
}

}  // namespace
}  // namespace halyard::runtime
