// SPDX-License-Identifier: Apache-2.0
// What a host hears of a compile that it waits for.
#include <map>
#include <thread>

#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

struct Heard {
  std::vector<std::pair<std::string, double>> steps;
  std::thread::id thread = std::this_thread::get_id();
  bool is_elsewhere = false;
};

class CompileProgress : public EndToEnd {
 protected:
  Heard Listen(bool tunes, bool uses_cache) const {
    const std::string digits = HALYARD_SOURCE_DIR "/examples/digits/digits.onnx";
    Heard heard;
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(digits);
    desc.disable_tuning = tunes ? 0 : 1;
    desc.disable_cache = uses_cache ? 0 : 1;
    desc.progress_context = &heard;
    desc.progress = [](void* context, hy_string phase, double fraction) {
      auto& all = *static_cast<Heard*>(context);
      all.is_elsewhere |= std::this_thread::get_id() != all.thread;
      all.steps.emplace_back(hy::ToString(phase), fraction);
    };
    hy::Program::Compile(instance_, desc);
    return heard;
  }
  static void ExpectToEnd(const Heard& heard) {
    double last = 0;
    for (const auto& [phase, fraction] : heard.steps) {
      EXPECT_GE(fraction, last) << phase;
      last = fraction;
    }
    EXPECT_EQ(last, 1.0);
    EXPECT_FALSE(heard.is_elsewhere);
  }
  // Fractions of a phase, from its first to its last.
  static double ShareOf(const Heard& heard, const std::string& name) {
    double first = -1, last = -1;
    for (const auto& [phase, fraction] : heard.steps) {
      if (phase != name) continue;
      if (first < 0) first = fraction;
      last = fraction;
    }
    return last - first;
  }
};

TEST_F(CompileProgress, NeverFallsAndEndsIn1) {
  const Heard tuned = Listen(true, false), plain = Listen(false, false);
  ExpectToEnd(tuned);
  ExpectToEnd(plain);
  // What takes the time is told piece by piece.
  EXPECT_GT(ShareOf(tuned, "schedule"), 0.5);
  EXPECT_GT(ShareOf(plain, "codegen"), 0.3);
  EXPECT_EQ(tuned.steps.front().first, "import");
}

TEST_F(CompileProgress, EndsIn1WhereTheCacheHasTheProgram) {
  ExpectToEnd(Listen(false, true));
  const Heard again = Listen(false, true);
  ExpectToEnd(again);
  for (const auto& [phase, fraction] : again.steps) EXPECT_NE(phase, "codegen");
}

}  // namespace
}  // namespace halyard
