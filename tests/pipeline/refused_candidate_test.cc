// SPDX-License-Identifier: Apache-2.0
// Schedules that NVRTC does not compile: one of them takes no part in its race, all of them are a
// failure that names the kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "base/dylib.h"
#include "base/gpu_image.h"
#include "compiler/pipeline/pipeline.h"

namespace halyard::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kOutOfMemory = 1, kCompilation = 6;  // of nvrtcResult

// What the stand-in for NVRTC was given, and what it refuses.
struct Compilations {
  std::mutex mutex;
  std::set<std::string> sources, refused;
  int refusal = kCompilation;
} compilations;

int Refuses(const char* source) {
  const std::lock_guard<std::mutex> lock(compilations.mutex);
  compilations.sources.insert(source);
  return compilations.refused.count(source) > 0 ? compilations.refusal : 0;
}

std::string SourceOf(std::span<const uint8_t> code) {
  const Result<GpuImage> image = ReadGpuImage(code);
  EXPECT_TRUE(image.ok());
  const std::span<const uint8_t> module = image->kernels[0].module;
  return std::string(module.begin(), module.end());
}

// The first that takes part is the slowest.
class RaceMeasurer : public Measurer {
 public:
  Result<std::vector<double>> Measure(uint32_t, std::span<const Candidate> candidates) override {
    raced.clear();
    for (const Candidate& candidate : candidates) raced.push_back(SourceOf(candidate.code));
    if (!failure.ok()) return failure;
    std::vector<double> seconds;
    for (size_t i = 0; i < raced.size(); ++i) {
      seconds.push_back(1e-6 * static_cast<double>(raced.size() - i));
    }
    return seconds;
  }
  std::optional<std::string> FindChoice(uint32_t, uint64_t key) override {
    const auto found = choices.find(key);
    if (found == choices.end()) return std::nullopt;
    return found->second;
  }
  void StoreChoice(uint32_t, uint64_t key, std::string_view record, double) override {
    choices[key] = record;
  }
  Status failure;
  std::vector<std::string> raced;
  std::map<uint64_t, std::string> choices;
};

class RefusedCandidate : public ::testing::Test {
 protected:
  RefusedCandidate() {
    ::setenv("HALYARD_NVRTC_LIBRARY", HALYARD_FAKE_NVRTC, 1);
    auto library = DynamicLibrary::Open(HALYARD_FAKE_NVRTC);
    EXPECT_TRUE(library.ok()) << library.status().ToString();
    const auto refuse = library->FindFunction<void (*)(int (*)(const char*))>("fakeNvrtcRefuse");
    if (!refuse.ok()) throw std::runtime_error(refuse.status().ToString());
    (*refuse)(&Refuses);
    compilations.sources.clear();
    compilations.refused.clear();
    compilations.refusal = kCompilation;
  }

  // One product for a GPU, and the schedules that it was offered.
  Result<CompileResult> Compile(size_t most_raced = 0) {
    CompileRequest request;
    request.graph_text = R"(graph main(%a: f16[256, 256], %b: f16[256, 256]) -> (%c) {
  %c = matmul %a, %b : f16[256, 256] "product"
}
)";
    request.devices = {{"cuda:0", *ParseTarget("cuda-sm80"), ""}};
    request.options.tune = true;
    request.options.most_raced = most_raced;
    request.measurer = &measurer_;
    return pipeline::Compile(request);
  }

  static std::string SchedulesOf(const CompileResult& compiled) {
    std::string text;
    for (const program::Record& record : compiled.program.records) {
      if (record.kind == "schedule") text += record.subject + ": " + record.text + "\n";
    }
    return text;
  }

  static std::string CodeOf(const CompileResult& compiled) {
    EXPECT_EQ(compiled.program.executables.size(), 1u);
    return SourceOf(compiled.program.executables[0].code);
  }

  RaceMeasurer measurer_;
};

TEST_F(RefusedCandidate, TakesNoPart) {
  const auto whole = Compile();
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  const std::vector<std::string> all = measurer_.raced;
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(CodeOf(*whole), all.back());
  EXPECT_THAT(SchedulesOf(*whole), Not(HasSubstr("takes no part")));
  for (size_t i = 0; i < all.size(); ++i) {
    compilations.refused = {all[i]};
    measurer_.choices.clear();
    const auto compiled = Compile();
    ASSERT_TRUE(compiled.ok()) << i << ": " << compiled.status().ToString();
    std::vector<std::string> others = all;
    others.erase(std::remove(others.begin(), others.end(), all[i]), others.end());
    EXPECT_EQ(measurer_.raced, others) << i;
    EXPECT_EQ(CodeOf(*compiled), others.back()) << i;
    const std::string schedules = SchedulesOf(*compiled);
    EXPECT_THAT(schedules, HasSubstr("takes no part, since it does not compile: NVRTC does not "
                                     "compile kernel 'k0': NVRTC_ERROR_COMPILATION:\nk0.cu(1): "
                                     "error: the stand-in refuses this source"));
    EXPECT_EQ(schedules.find("the analytic model's choice does not compile") != std::string::npos,
              i == 0)
        << schedules;
  }
}

TEST_F(RefusedCandidate, IsNotChosenWithoutARaceEither) {
  ASSERT_TRUE(Compile().ok());
  compilations.refused = {measurer_.raced[0]};
  measurer_.choices.clear();
  measurer_.failure = OutOfMemory("The device is full.");
  const auto compiled = Compile();
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  EXPECT_EQ(CodeOf(*compiled), measurer_.raced[0]);
  EXPECT_EQ(compilations.refused.count(measurer_.raced[0]), 0u);
  EXPECT_THAT(SchedulesOf(*compiled), HasSubstr("since the race failed: The device is full."));
}

// The winner of an earlier race that does not compile any more makes way for another race.
TEST_F(RefusedCandidate, OfAnEarlierRace) {
  const auto whole = Compile();
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  measurer_.raced.clear();
  const auto again = Compile();
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(measurer_.raced.size(), 0u);
  EXPECT_THAT(SchedulesOf(*again), HasSubstr("fastest in an earlier race"));
  EXPECT_EQ(CodeOf(*again), CodeOf(*whole));
  compilations.refused = {CodeOf(*whole)};
  const auto compiled = Compile();
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  EXPECT_GE(measurer_.raced.size(), 3u);
  EXPECT_EQ(CodeOf(*compiled), measurer_.raced.back());
  EXPECT_THAT(SchedulesOf(*compiled), HasSubstr("takes no part, since it does not compile"));
}

// What a race of a few candidates found is taken by such races alone; they take what one of more
// found.
TEST_F(RefusedCandidate, ShortRacesDoNotSpareLongOnes) {
  ASSERT_TRUE(Compile(2).ok());
  const std::vector<std::string> few = measurer_.raced;
  ASSERT_EQ(few.size(), 2u);
  EXPECT_EQ(measurer_.choices.size(), 1u);  // none of a cluster, whose time is that of the best
  measurer_.raced.clear();
  const auto again = Compile(2);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(measurer_.raced.size(), 0u);
  EXPECT_EQ(CodeOf(*again), few[1]);
  const auto whole = Compile();
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  const std::vector<std::string> all = measurer_.raced;
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ((std::vector<std::string>{all[0], all[1]}), few);
  measurer_.raced.clear();
  const auto after = Compile(2);
  ASSERT_TRUE(after.ok()) << after.status().ToString();
  EXPECT_EQ(measurer_.raced.size(), 0u);
  EXPECT_EQ(CodeOf(*after), all.back());
}

TEST_F(RefusedCandidate, AllOfThemAreAFailure) {
  ASSERT_TRUE(Compile().ok());
  compilations.refused = compilations.sources;
  measurer_.choices.clear();
  const auto compiled = Compile();
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), StatusCode::kInternal);
  EXPECT_THAT(compiled.status().ToString(),
              ::testing::ContainsRegex("compiling kernel 'product', of whose [0-9]+ schedules none "
                                     "compiles"));
  EXPECT_THAT(compiled.status().ToString(), HasSubstr("the stand-in refuses this source"));
}

// A machine without memory is no fault of the candidate.
TEST_F(RefusedCandidate, NoMemoryIsAFailure) {
  ASSERT_TRUE(Compile().ok());
  compilations.refused = {measurer_.raced[1]};
  compilations.refusal = kOutOfMemory;
  measurer_.choices.clear();
  const auto compiled = Compile();
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(compiled.status().ToString(), HasSubstr("compiling kernel 'product'"));
}

}  // namespace
}  // namespace halyard::pipeline
