// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/kernel_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "drivers/init.h"
#include "hal/registry.h"
#include "runtime/compiler_library.h"
#include "runtime/probe/prober.h"

namespace halyard::runtime {
namespace {

class KernelMakerTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef HALYARD_COMPILER
    setenv("HALYARD_COMPILER_LIBRARY", HALYARD_COMPILER, 1);
#endif
    const Status opened = OpenCompilerLibrary().status();
    unsetenv("HALYARD_COMPILER_LIBRARY");
    if (!opened.ok()) GTEST_SKIP() << opened.message();
    ASSERT_TRUE(RegisterAllDrivers(&registry_).ok());
    device_ = registry_.OpenDevice("cpu:0").value();
  }
  // %y = %x + %x of so many numbers; of none it is no graph.
  KernelJob Twice(int count) {
    return {"twice " + std::to_string(count),
            [this, count] {
              ++compiled_;
              if (count == 0) return std::string("no graph");
              return fmt::format(
                  "graph g(%x: f32[{0}]) -> (\"y\" = %y) {{\n  %y = add %x, %x : f32[{0}]\n}}\n",
                  count);
            },
            true, true};
  }
  hal::DriverRegistry registry_;
  Ref<hal::Device> device_;
  std::atomic<int> compiled_ = 0;
};

TEST_F(KernelMakerTest, CompilesAheadOnThreadsOrWhenAsked) {
  for (const size_t threads : {0, 1, 3}) {
    compiled_ = 0;
    KernelMaker maker(device_, nullptr);
    std::vector<KernelJob> jobs;
    for (int count : {5, 70, 0, 900, 11}) jobs.push_back(Twice(count));
    if (threads > 0) {
      maker.Begin(jobs, threads, {});
      maker.AwaitAll();
      EXPECT_EQ(compiled_, 5);
    }
    // In another order than they were begun, and with one between that was not.
    for (const size_t index : {3, 0, 1, 4}) {
      auto run = maker.Make(jobs[index]);
      ASSERT_TRUE(run.ok()) << run.status().ToLine();
      const DeviceTurn::Hold turn(*maker.turn());
      EXPECT_GT((*run)->Time(1).value(), 0);
    }
    EXPECT_TRUE(maker.Make(Twice(123)).ok());
    EXPECT_THAT(maker.Make(jobs[2]).status().message(), testing::HasSubstr("graph"));
    EXPECT_EQ(compiled_, 6) << "each once";
    EXPECT_GT(maker.seconds(), 0);
  }
}

// As a probe does: one is timed while threads compile and race the others.
TEST_F(KernelMakerTest, ThreadsRaceWhileAnotherIsTimed) {
  KernelMaker maker(device_, nullptr);
  std::vector<KernelJob> jobs;
  for (int count = 1000; count < 1012; ++count) jobs.push_back(Twice(count));
  maker.Begin(jobs, 3, [] { return false; });
  for (const KernelJob& job : jobs) {
    auto run = maker.Make(job);
    ASSERT_TRUE(run.ok()) << run.status().ToLine();
    DeviceTurn::Hold turn(*maker.turn());
    EXPECT_GT((*run)->Time(1).value(), 0);
    const auto by_device = (*run)->TimeByDevice(3);
    if (by_device.ok()) {
      EXPECT_GT(*by_device, 0);
    } else {
      EXPECT_EQ(by_device.status().code(), StatusCode::kUnimplemented);
    }
    if (job.what != jobs.back().what) continue;
    turn.Give();
    maker.AwaitAll();
    turn.Take();
    EXPECT_GT((*run)->Time(2).value(), 0);
  }
  EXPECT_EQ(compiled_, 12) << "each once";
}

TEST_F(KernelMakerTest, WhatIsLeftIsNotCompiledToItsEnd) {
  {
    KernelMaker maker(device_, nullptr);
    std::vector<KernelJob> jobs;
    for (int count = 1; count <= 1000; ++count) jobs.push_back(Twice(count));
    const KernelJob last = jobs.back();
    maker.Begin(std::move(jobs), 2, [] { return true; });
    maker.AwaitAll();
    EXPECT_EQ(maker.Make(last).status().code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_LT(compiled_, 1000);
}

// A library takes matrix units whatever the code around it may use.
TEST_F(KernelMakerTest, ProductsWithoutMatrixUnitsAreNoLibrarys) {
  const ProbeOptions options;
  int scalar = 0;
  for (const KernelJob& job : ProductJobs(Prober(device_, options, 0, 1))) {
    if (job.use_matrix_units) {
      EXPECT_TRUE(job.vendor_libraries) << job.what;
    } else {
      ++scalar;
      EXPECT_EQ(job.vendor_libraries, job.what.find("f32") != std::string::npos) << job.what;
    }
  }
  EXPECT_EQ(scalar, 4) << "f32, f16, bf16, f64";
}

TEST_F(KernelMakerTest, TheTurnIsOneHoldersAndKnowsHowLongTheDeviceIsAwake) {
  DeviceTurn turn(device_);
  int holders = 0, most = 0, total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        DeviceTurn::Hold hold(turn);
        most = std::max(most, ++holders);
        --holders;
        hold.Give();
        hold.Take();
        ++total;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(total, 800);
  // It has not been awake for an hour; for no time at all it always has.
  const DeviceTurn::Hold hold(turn);
  EXPECT_GT(hold.SecondsToWake(3600), 3000);
  EXPECT_LE(hold.SecondsToWake(3600), 3600);
  EXPECT_EQ(hold.SecondsToWake(0), 0);
}

}  // namespace
}  // namespace halyard::runtime
