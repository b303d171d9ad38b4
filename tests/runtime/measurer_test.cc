// SPDX-License-Identifier: Apache-2.0
// How candidates are raced: the order of their runs, what becomes of one far behind, and medians.
// The kernels call back into the test, which notes who runs and lets them take long where it says
// so.
#include "runtime/measurer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <thread>

#include "base/cpu_kernel_abi.h"
#include "drivers/init.h"
#include "hal/registry.h"

namespace halyard::runtime {
namespace {

// What has run, by the candidate's number, and how many milliseconds the n-th run of each takes
// (the last figure stands for all later ones).
std::vector<int64_t> g_runs;
std::vector<std::vector<int>> g_milliseconds;

void NoteRun(int64_t candidate) {
  const auto index = static_cast<size_t>(candidate);
  const auto earlier = static_cast<size_t>(std::count(g_runs.begin(), g_runs.end(), candidate));
  g_runs.push_back(candidate);
  const std::vector<int>& plan = g_milliseconds[index];
  std::this_thread::sleep_for(std::chrono::milliseconds(plan[std::min(earlier, plan.size() - 1)]));
}

// The indices that a kernel found in its binding, and what it takes for the bound of them.
constexpr int64_t kIndices = 1000;
int64_t g_index_count = kIndices;
std::vector<std::vector<int64_t>> g_found;
int64_t g_bound = 0;

// A kernel of one binding that reports an index out of range as generated code does.
void ReadIndices(const CpuDispatchArgs* args) {
  const auto* indices = static_cast<const int64_t*>(args->bindings[0]);
  g_found.emplace_back(indices, indices + g_index_count);
  const int64_t largest = *std::max_element(indices, indices + g_index_count);
  if (largest < g_bound || args->error->state != 0) return;
  args->error->state = 1;
  args->error->reason = static_cast<uint32_t>(KernelErrorReason::kIndexOutOfRange);
  args->error->value = largest;
  args->error->limit = g_bound;
}

// An image of one kernel that calls scalar 1, with its own arguments when it has bindings, else
// with scalar 0. x86-64.
std::vector<uint8_t> CallingImage(uint32_t bindings) {
  std::vector<uint8_t> code = {
      0x48, 0x8b, 0x47, 0x08,  // mov rax, [rdi+8]: the scalars
      0x48, 0x8b, 0x38,        // mov rdi, [rax]
      0x48, 0x8b, 0x40, 0x08,  // mov rax, [rax+8]
      0xff, 0xe0,              // jmp rax
  };
  if (bindings > 0) code.erase(code.begin() + 4, code.begin() + 7);
  constexpr size_t kCodeOffset = 4096;
  std::vector<uint8_t> image(kCodeOffset + code.size());
  std::memcpy(&image[kCodeOffset], code.data(), code.size());
  CpuImageEntry entry = {};
  entry.name_offset = sizeof(CpuImageHeader) + sizeof(CpuImageEntry);
  entry.name_bytes = 4;
  entry.code_offset = kCodeOffset;
  entry.scalar_count = 2;
  entry.binding_count = bindings;
  CpuImageHeader header = {};
  header.magic = kCpuImageMagic;
  header.version = kCpuImageVersion;
  header.image_bytes = image.size();
  header.entry_count = 1;
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + sizeof(header), &entry, sizeof(entry));
  std::memcpy(image.data() + entry.name_offset, "call", 4);
  return image;
}

class MeasurerTest : public testing::Test {
 protected:
  MeasurerTest() {
    DriverRegistry registry;
    EXPECT_TRUE(RegisterAllDrivers(&registry).ok());
    devices_ = {registry.OpenDevice("cpu").value()};
    g_runs.clear();
    g_found.clear();
  }
  using DriverRegistry = hal::DriverRegistry;

  Measurer::Candidate Candidate(int64_t number) const {
    Measurer::Candidate candidate;
    candidate.code = image_;
    Measurer::Dispatch dispatch;
    dispatch.entry = "call";
    for (int axis = 0; axis < 3; ++axis) dispatch.grid[axis] = 1;
    dispatch.scalars = {number, reinterpret_cast<int64_t>(&NoteRun)};
    candidate.dispatches = {dispatch};
    return candidate;
  }
  // Medians of as many candidates as there are plans.
  std::vector<double> Measure(std::vector<std::vector<int>> milliseconds) {
    g_milliseconds = std::move(milliseconds);
    std::vector<Measurer::Candidate> candidates;
    for (size_t i = 0; i < g_milliseconds.size(); ++i) {
      candidates.push_back(Candidate(static_cast<int64_t>(i)));
    }
    HalMeasurer measurer(devices_, nullptr);
    const auto medians = measurer.Measure(0, candidates);
    EXPECT_TRUE(medians.ok()) << medians.status().ToString();
    EXPECT_EQ(measurer.candidate_count(), candidates.size());
    return medians.ok() ? *medians : std::vector<double>();
  }
  const std::vector<uint8_t> image_ = CallingImage(0);
  std::vector<Ref<hal::Device>> devices_;
};

TEST_F(MeasurerTest, CandidatesTakeTurns) {
  const std::vector<double> medians = Measure({{20}, {20}, {20}});
  ASSERT_EQ(medians.size(), 3u);
  // Each alone twice, to warm up and to see how long it takes; then one after the other.
  ASSERT_GE(g_runs.size(), 6u + 5u);
  EXPECT_EQ(std::vector<int64_t>(g_runs.begin(), g_runs.begin() + 6),
            (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
  // A busy machine may let one seem far behind; the turns of the others stand.
  const std::vector<int64_t> race(g_runs.begin() + 6, g_runs.end());
  const std::set<int64_t> racers(race.begin(), race.end());
  EXPECT_EQ(race.size() % racers.size(), 0u);
  for (size_t i = 0; i < race.size(); ++i) {
    EXPECT_EQ(race[i], *std::next(racers.begin(), static_cast<ptrdiff_t>(i % racers.size())));
  }
}

TEST_F(MeasurerTest, OneFarBehindIsNotRunAgain) {
  const std::vector<double> medians = Measure({{20}, {1000}, {20}});
  ASSERT_EQ(medians.size(), 3u);
  EXPECT_EQ(std::count(g_runs.begin(), g_runs.end(), 1), 2);
  EXPECT_GE(g_runs.size(), 6u + 5u) << "the best is raced";
  EXPECT_GE(medians[1], 1.0) << "it keeps its one sample";
  EXPECT_LT(medians[0], medians[1]);
}

TEST_F(MeasurerTest, OutliersDoNotMoveTheMedian) {
  // Of the first five samples (runs 2 to 6) two are far out; the time that they take ends the race.
  const std::vector<double> medians = Measure({{1, 1, 1, 300, 1, 300, 1}});
  ASSERT_EQ(medians.size(), 1u);
  EXPECT_EQ(g_runs.size(), 7u);
  EXPECT_GE(medians[0], 1e-3);
  EXPECT_LT(medians[0], 0.3);
}

// Times of clusters stand beside the records of schedules; neither is taken for the other.
TEST_F(MeasurerTest, TimesOfClustersAreFoundAgain) {
  HalMeasurer measurer(devices_, nullptr);
  EXPECT_FALSE(measurer.FindTime(0, 7).has_value());
  measurer.StoreChoice(0, 7, place::FormatClusterTime({1.25e-5, "row lanes=8"}), 1.25e-5);
  measurer.StoreChoice(0, 8, "row lanes=16", 1.25e-5);
  const auto time = measurer.FindTime(0, 7);
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->seconds, 1.25e-5);
  EXPECT_EQ(time->sigma, 0.05);
  EXPECT_FALSE(measurer.FindTime(0, 8).has_value());
  EXPECT_FALSE(measurer.FindTime(1, 7).has_value());
  for (const char* bad : {"recorded", "recorded ", "recorded x", "recorded -1", "recorded 0",
                          "recorded nan", "recorded 1e9", "recorded 1x"}) {
    EXPECT_FALSE(place::ParseClusterTime(bad).has_value()) << bad;
  }
}

// A run of another schedule, such as one that was not raced, does not hide the faster one's time.
TEST_F(MeasurerTest, OfOneScheduleTheLastTimeCountsAndOfSeveralTheLeast) {
  const place::ClusterTime known{2e-5, "row lanes=8 + row lanes=16"};
  const std::string record = place::FormatClusterTime(known);
  EXPECT_EQ(place::ParseClusterTime(record), known);
  EXPECT_TRUE(place::IsBetterKnown({3e-5, known.schedule}, record));
  EXPECT_FALSE(place::IsBetterKnown({3e-5, "row lanes=4"}, record));
  EXPECT_TRUE(place::IsBetterKnown({1e-5, "row lanes=4"}, record));
  EXPECT_TRUE(place::IsBetterKnown({3e-5, "row lanes=4"}, place::FormatClusterTime({2e-5, ""})));
  EXPECT_TRUE(place::IsBetterKnown({3e-5, "row lanes=4"}, ""));
}

TEST_F(MeasurerTest, FailuresNameTheCandidate) {
  g_milliseconds = {{0}, {0}};
  HalMeasurer measurer(devices_, nullptr);
  std::vector<Measurer::Candidate> candidates = {Candidate(0), Candidate(1)};
  candidates[1].dispatches[0].entry = "none";
  const auto missing = measurer.Measure(0, candidates);
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().ToLine(), testing::HasSubstr("preparing candidate 1 of 2"));
  candidates[1] = Candidate(1);
  candidates[1].dispatches[0].buffers = {3};
  EXPECT_THAT(measurer.Measure(0, candidates).status().ToLine(),
              testing::HasSubstr("A candidate binds buffer 3 of 0."));
  EXPECT_EQ(measurer.Measure(7, candidates).status().code(), StatusCode::kInvalidArgument);
  const auto nothing = measurer.Measure(0, {});
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->empty());
  EXPECT_TRUE(g_runs.empty()) << "nothing ran before all were prepared";
}

// Another one may win; only a race of none is none.
TEST_F(MeasurerTest, ACandidateThatTheDeviceRefusesNeverWins) {
  g_milliseconds = {{1}, {1}, {1}};
  std::vector<Measurer::Candidate> candidates = {Candidate(0), Candidate(1), Candidate(2)};
  const std::vector<uint8_t> broken(64, 7);
  candidates[0].code = candidates[2].code = broken;
  HalMeasurer measurer(devices_, nullptr);
  const auto medians = measurer.Measure(0, candidates);
  ASSERT_TRUE(medians.ok()) << medians.status().ToString();
  EXPECT_TRUE(std::isinf((*medians)[0]) && std::isinf((*medians)[2]));
  EXPECT_GT((*medians)[1], 0);
  EXPECT_TRUE(std::isfinite((*medians)[1]));
  candidates[1].code = broken;
  EXPECT_EQ(measurer.Measure(0, candidates).status().code(), StatusCode::kDataLoss);
}

// Where the compiler knows what the kernel takes, the content is that.
TEST_F(MeasurerTest, IndicesAreBelowTheirBound) {
  const std::vector<uint8_t> image = CallingImage(1);
  Measurer::Candidate candidate = Candidate(0);
  candidate.code = image;
  candidate.dispatches[0].scalars[1] = reinterpret_cast<int64_t>(&ReadIndices);
  candidate.dispatches[0].buffers = {0};
  candidate.buffers = {{kIndices * 8, DType::kI64}};
  for (const int64_t bound : {1, 2, 300, 70000}) {
    g_found.clear();
    g_bound = candidate.buffers[0].below = bound;
    HalMeasurer measurer(devices_, nullptr);
    const auto medians = measurer.Measure(0, {&candidate, 1});
    ASSERT_TRUE(medians.ok()) << medians.status().ToLine();
    ASSERT_FALSE(g_found.empty());
    for (const int64_t index : g_found[0]) ASSERT_TRUE(index >= 0 && index < bound) << index;
    EXPECT_GE(*std::max_element(g_found[0].begin(), g_found[0].end()), bound * 9 / 10 - 1);
  }
}

// Content that is larger than what the host makes is repeated to its end.
TEST_F(MeasurerTest, LargeBuffersAreFilledToTheirEnd) {
  const std::vector<uint8_t> image = CallingImage(1);
  Measurer::Candidate candidate = Candidate(0);
  candidate.code = image;
  candidate.dispatches[0].scalars[1] = reinterpret_cast<int64_t>(&ReadIndices);
  candidate.dispatches[0].buffers = {0};
  g_index_count = (int64_t{5} << 16) + 3;  // 2.5 MiB and a little
  g_found.clear();
  g_bound = 300;
  candidate.buffers = {{g_index_count * 8, DType::kI64, false, g_bound}};
  HalMeasurer measurer(devices_, nullptr);
  const auto medians = measurer.Measure(0, {&candidate, 1});
  ASSERT_TRUE(medians.ok()) << medians.status().ToLine();
  const std::vector<int64_t>& found = g_found.front();
  for (size_t i = 0; i + 100 <= found.size(); i += 100) {
    const auto [least, most] = std::minmax_element(&found[i], &found[i] + 100);
    ASSERT_TRUE(*least >= 0 && *least < 100 && *most >= 200 && *most < g_bound) << i;
  }
  EXPECT_TRUE(std::equal(found.end() - 3, found.end(), found.begin()));
  g_index_count = kIndices;
}

// Where it does not, zeros are tried; the caller goes without a race when these do not suit either.
TEST_F(MeasurerTest, ARaceWhoseContentIsRefusedIsRunOnZeros) {
  const std::vector<uint8_t> image = CallingImage(1);
  Measurer::Candidate candidate = Candidate(0);
  candidate.code = image;
  candidate.dispatches[0].scalars[1] = reinterpret_cast<int64_t>(&ReadIndices);
  candidate.dispatches[0].buffers = {0};
  candidate.buffers = {{kIndices * 8, DType::kI64}};
  g_bound = 2;  // the content goes to 3
  HalMeasurer measurer(devices_, nullptr);
  const auto medians = measurer.Measure(0, {&candidate, 1});
  ASSERT_TRUE(medians.ok()) << medians.status().ToLine();
  EXPECT_TRUE(std::isfinite((*medians)[0]));
  EXPECT_NE(g_found.front(), std::vector<int64_t>(kIndices));
  EXPECT_EQ(g_found.back(), std::vector<int64_t>(kIndices));
  g_bound = 0;
  EXPECT_EQ(measurer.Measure(0, {&candidate, 1}).status().code(), StatusCode::kOutOfRange);
}

TEST_F(MeasurerTest, ARaceCanBeStopped) {
  g_milliseconds = {{0}, {0}};
  const std::vector<Measurer::Candidate> candidates = {Candidate(0), Candidate(1)};
  // Before its first run, between the first runs, and in the rounds.
  for (const int most : {0, 1, 3, 6}) {
    g_runs.clear();
    int asked = 0;
    HalMeasurer measurer(devices_, nullptr, [&] { return asked++ == most; });
    EXPECT_EQ(measurer.Measure(0, candidates).status().code(), StatusCode::kAborted) << most;
    EXPECT_EQ(asked, most + 1);
    EXPECT_EQ(g_runs.empty(), most == 0);
  }
}

TEST_F(MeasurerTest, ChoicesAreRememberedWithoutACache) {
  HalMeasurer measurer(devices_, nullptr);
  EXPECT_EQ(measurer.FindChoice(0, 5), std::nullopt);
  measurer.StoreChoice(0, 5, "tile=8", 1e-3);
  EXPECT_EQ(measurer.FindChoice(0, 5), "tile=8");
  EXPECT_EQ(measurer.FindChoice(0, 6), std::nullopt);
  EXPECT_EQ(measurer.FindChoice(9, 5), std::nullopt);
  measurer.StoreChoice(9, 5, "ignored", 1e-3);
}

}  // namespace
}  // namespace halyard::runtime
