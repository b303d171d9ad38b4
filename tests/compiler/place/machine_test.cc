// SPDX-License-Identifier: Apache-2.0
// The machine's text, defaults, merge and transfers, the cost model, and wishes as text.
#include "compiler/place/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/place/cost.h"
#include "compiler/place/plan.h"
#include "compiler/place/transfer.h"
#include "compiler/program/program.h"
#include "compiler/target/product_tiles.h"
#include "tests/compiler/place/random_problem.h"

namespace halyard::place {
namespace {

using ::testing::HasSubstr;

Machine FullMachine() {
  Machine machine = MakeMachine(3, true);
  machine.load = "idle, \"governor\" performance\n";
  machine.devices[1].units = 132;
  machine.devices[1].fits.push_back({OpClass::kContraction, {{10, 2.5}, {20, 1.25}}, 0.2});
  machine.devices[1].cold_fits.push_back({OpClass::kAttention, {{12, 3}}, 0.1});
  machine.devices[0].interpreted.push_back(
      {OpClass::kOrdering, {3e-5, Source::kMeasured, 0.02}, {2e-8, Source::kMeasured, 0.04}});
  machine.links[0].is_verified = true;
  machine.links[1].caller_curve = {{4096, 1e9}, {1 << 20, 5e9}};
  machine.links[1].crossing_seconds = {4e-5, Source::kMeasured, 0.1};
  return machine;
}

TEST(MachineText, RoundTrips) {
  const Machine machine = FullMachine();
  const std::string text = FormatMachine(machine);
  const auto parsed = ParseMachine(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, machine);
  EXPECT_EQ(FormatMachine(*parsed), text);
  EXPECT_EQ(parsed->Hash(), machine.Hash());
  Machine other = machine;
  other.devices[2].wait_seconds.value *= 2;
  EXPECT_NE(other.Hash(), machine.Hash());
}

TEST(MachineText, AHostileFileIsOneClearError) {
  const std::string good = FormatMachine(FullMachine());
  const auto message = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto parsed = ParseMachine(text);
    EXPECT_FALSE(parsed.ok()) << to;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    return parsed.status().message();
  };
  EXPECT_EQ(message("halyard-machine 1", "halyard-machine 2"),
            "Line 1 of the machine file is wrong: 2 does not lie in [1, 1].");
  EXPECT_EQ(message("halyard-machine 1", "ELF\x01\x02"),
            "Line 1 of the machine file is wrong: \"ELF\\x01\\x02\" stands where "
            "'halyard-machine' must be.");
  EXPECT_THAT(message("device \"cpu:0\" cpu", "device \"cpu:0\" tpu"), HasSubstr("\"tpu\""));
  EXPECT_THAT(message("dispatch 1e-06", "dispatch nan"), HasSubstr("not a finite number"));
  EXPECT_THAT(message("dispatch 1e-06", "dispatch 1e300"), HasSubstr("must lie in [0, 10]"));
  EXPECT_THAT(message("dispatch 1e-06", "dispatch -1"), HasSubstr("must lie in [0, 10]"));
  EXPECT_THAT(message("memory \"gpu:0\" 0", "memory \"gpu:0\" -5"), HasSubstr("-5"));
  EXPECT_THAT(message("memory 1 silicon", "memory 17 silicon"),
              HasSubstr("The memory of device 'gpu:0' is 17; the machine has 3."));
  EXPECT_THAT(message("link 0 1", "link 0 0"), HasSubstr("must join two of the 3 memories"));
  EXPECT_THAT(message("link 1 0", "link 0 1"),
              HasSubstr("Two links lead from memory 0 to memory 1"));
  EXPECT_THAT(message(" 4096 ", " 2097152 "), HasSubstr("stands after that of 2097152"));
  EXPECT_THAT(message("home 0", "home 9"), HasSubstr("The home memory is 9"));
  EXPECT_THAT(message("cold-fit attention 0.1 12 3", "cold-fit attention 0.1 12 0"),
              HasSubstr("The cold fit of attention of device 'gpu:0': a factor is 0"));
  EXPECT_THAT(message("fit contraction 0.2 10 2.5", "fit contraction 0.2 30 2.5"),
              HasSubstr("point 20 stands after point 30"));
  EXPECT_THAT(message("crossing 4e-05", "crossing 40"),
              HasSubstr("The link from memory 1 to memory 0: the crossing is 40"));
  EXPECT_THAT(message("interpreted ordering", "interpreted nothing"), HasSubstr("\"nothing\""));
  EXPECT_THAT(message("start 3e-05", "start -1"),
              HasSubstr("The start time of interpreted ordering ops of device 'cpu:0' is -1"));
  EXPECT_THAT(message("load \"idle", "load \"id\\q"), HasSubstr("backslash"));
  EXPECT_FALSE(ParseMachine("").ok());
  EXPECT_FALSE(ParseMachine(std::string(2 << 20, 'x')).ok());
  // Every cut of a good file is an error or a smaller machine, and ends.
  for (size_t cut = 0; cut < good.size(); cut += 7) {
    const auto parsed = ParseMachine(std::string_view(good).substr(0, cut));
    if (!parsed.ok()) continue;
    EXPECT_TRUE(VerifyMachine(*parsed).ok());
  }
}

TEST(PlanText, AHostileFileIsAnError) {
  EXPECT_FALSE(ParsePlan("").ok());
  EXPECT_FALSE(ParsePlan("halyard-plan 1\nitem \"a\" 0 0 user 0 0 - 0 0\n").ok());  // no device
  EXPECT_FALSE(ParsePlan("halyard-plan 1\ncost none 1 1 table \"\"\n").ok());
  EXPECT_FALSE(
      ParsePlan("halyard-plan 1\ndevice \"a\" 0 0\nrival \"r\" 1 0 0 \"\" 999999999x0\n").ok());
  EXPECT_FALSE(ParsePlan("halyard-plan 1\ntransfer 0 - - 1 1 table peer\n").ok());
  EXPECT_TRUE(ParsePlan("halyard-plan 1\ndevice \"a\" 0 0\n").ok());
}

std::vector<program::Device> Request() {
  std::vector<program::Device> devices(3);
  devices[0].name = "cpu:0";
  devices[0].identity = "Xeon; unknown; driver cpu 1; 16 workers";
  devices[0].target.worker_count = 16;
  devices[1].name = "cuda:0";
  devices[1].target.kind = TargetKind::kCuda;
  devices[1].target.gpu.compute_capability = 90;
  devices[1].target.gpu.unit_count = 132;
  devices[1].identity = "H200; GPU-01234567-89ab-cdef-0123-456789abcdef; driver cuda 13; 0 workers";
  devices[2].name = "vulkan:0";
  devices[2].target.kind = TargetKind::kVulkan;
  devices[2].identity = "H200; 0123456789abcdef0123456789abcdef; driver NVIDIA 580; 0 workers";
  return devices;
}

TEST(DefaultMachine, IsSoundAndKnowsOneGpuUnderTwoDrivers) {
  const Machine machine = DefaultMachine(Request());
  ASSERT_TRUE(VerifyMachine(machine).ok()) << VerifyMachine(machine).ToString();
  EXPECT_EQ(machine.snapshot, 0u);
  ASSERT_EQ(machine.devices.size(), 3u);
  EXPECT_EQ(machine.devices[1].silicon, machine.devices[2].silicon);
  EXPECT_NE(machine.devices[0].silicon, machine.devices[1].silicon);
  EXPECT_EQ(machine.memories.size(), 3u);
  // A big product is for the GPU, a tiny one for the CPU.
  Work big;
  big.op_class = OpClass::kContraction;
  big.flops = 1e11;
  big.bytes = 1e8;
  EXPECT_LT(EstimateCost(machine.devices[1], big, {}).seconds,
            EstimateCost(machine.devices[0], big, {}).seconds);
  Work tiny;
  tiny.flops = 100;
  tiny.bytes = 400;
  EXPECT_LT(EstimateCost(machine.devices[0], tiny, {}).seconds,
            EstimateCost(machine.devices[1], tiny, {}).seconds);
  EXPECT_EQ(EstimateCost(machine.devices[0], tiny, {}).source, Source::kDefault);
}

TEST(MergeMeasured, TakesOnlyWhatIsOfTheSameDevices) {
  const Machine defaults = DefaultMachine(Request());
  // Measured in another order, on a machine where one device was another.
  Machine measured = defaults;
  std::swap(measured.devices[0], measured.devices[1]);
  measured.snapshot = 7;
  measured.memories[1].bytes = 1 << 30;
  measured.devices[0].dispatch_seconds = {9e-6, Source::kMeasured, 0.01};
  measured.devices[2].identity = "another";
  for (Link& link : measured.links) link.latency_seconds = {3e-6, Source::kMeasured, 0.05};
  std::vector<std::string> notes;
  const Machine merged = MergeMeasured(defaults, measured, &notes);
  ASSERT_TRUE(VerifyMachine(merged).ok()) << VerifyMachine(merged).ToString();
  EXPECT_EQ(merged.snapshot, 7u);
  EXPECT_EQ(merged.devices[1].dispatch_seconds.value, 9e-6);
  EXPECT_EQ(merged.memories[1].bytes, 1 << 30);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "The measurements of 'vulkan:0' are of another device ('another', now "
            "'H200; 0123456789abcdef0123456789abcdef; driver NVIDIA 580; 0 workers'); "
            "its costs are defaults.");
  for (const Link& link : merged.links) {
    const bool is_vulkan = link.from == 2 || link.to == 2;
    EXPECT_EQ(link.latency_seconds.value == 3e-6, !is_vulkan);
  }
}

TEST(Transfers, GoTheCheapestWay) {
  Machine machine = MakeMachine(3);  // no link between the two GPUs
  const TransferModel model(machine);
  EXPECT_EQ(model.home_device(), 0u);
  EXPECT_EQ(model.Estimate(1, 1, 1 << 20).seconds(), 0);
  EXPECT_EQ(model.Estimate(kNone, 0, 1 << 20).seconds(), 0);
  const TransferCost there = model.Estimate(kNone, 1, 1 << 20);
  EXPECT_NEAR(there.copy_seconds, 1e-5 + (1 << 20) / 1e10, 1e-12);
  EXPECT_EQ(there.path, PathKind::kPinned);
  EXPECT_EQ(there.source, Source::kMeasured);
  const TransferCost across = model.Estimate(1, 2, 1 << 20);
  EXPECT_EQ(across.engines.size(), 2u);
  EXPECT_NEAR(across.copy_seconds, 2e-5 + (1 << 20) / 8e9 + (1 << 20) / 1e10, 1e-12);
  EXPECT_NEAR(across.sync_seconds, 8e-6 + 6e-6, 1e-12);
  // The logarithm of the size half-way between two points: the mean of the bandwidths.
  EXPECT_NEAR(BandwidthAt(machine.links[0], 65536), (2.5e9 + 1e10) / 2, 1);
  EXPECT_EQ(BandwidthAt(machine.links[0], 1), 2.5e9);
  // What a caller brings is copied by the host first; what one device brings to another is not.
  machine.links[0].caller_curve = {{1 << 20, 4e9}};
  EXPECT_NEAR(model.Estimate(kNone, 1, 1 << 20).copy_seconds, 1e-5 + (1 << 20) / 4e9, 1e-12);
  // Streamed weights lie in page-locked memory.
  EXPECT_NEAR(model.Estimate(kNone, 1, 1 << 20, true).copy_seconds, 1e-5 + (1 << 20) / 1e10, 1e-12);
  EXPECT_NEAR(model.Estimate(0, 1, 1 << 20).copy_seconds, 1e-5 + (1 << 20) / 1e10, 1e-12);
}

// What a probe measured of crossings stands for waits and submissions of both ends, and the latency
// of a copy is not counted twice.
TEST(Transfers, CostWhatCrossingsWereMeasuredToCost) {
  Machine machine = MakeMachine(3);
  const Link& link = machine.links[0];
  ASSERT_EQ(link.from, 0u);
  ASSERT_EQ(link.to, 1u);
  machine.links[0].crossing_seconds = {7e-5, Source::kMeasured, 0.1};
  const TransferModel model(machine);
  for (const int64_t bytes : {kCrossingBytes, int64_t{1} << 20}) {
    const TransferCost there = model.Estimate(0, 1, bytes);
    EXPECT_NEAR(there.seconds(), 7e-5 + static_cast<double>(bytes) / BandwidthAt(link, bytes),
                1e-12);
    EXPECT_TRUE(there.is_crossing_measured);
  }
  // Nobody measured the way back, nor one half of the way on to the other GPU; and what comes from
  // the caller's memory wakes no thread of a device.
  EXPECT_FALSE(model.Estimate(1, 0, 1 << 20).is_crossing_measured);
  EXPECT_FALSE(model.Estimate(1, 2, 1 << 20).is_crossing_measured);
  EXPECT_EQ(model.Estimate(kNone, 1, 1 << 20).sync_seconds,
            machine.devices[1].submit_seconds.value);
  // Both halves known: their sum. Less than the copies alone is no gain.
  for (Link& each : machine.links) each.crossing_seconds = {7e-5, Source::kMeasured, 0.1};
  const TransferCost across = model.Estimate(1, 2, kCrossingBytes);
  EXPECT_TRUE(across.is_crossing_measured);
  EXPECT_NEAR(across.sync_seconds, 14e-5 - 2e-5, 1e-12);
  for (Link& each : machine.links) each.crossing_seconds.value = 1e-9;
  EXPECT_EQ(model.Estimate(1, 2, kCrossingBytes).sync_seconds, 0);
}

TEST(CostModel, WhatTheInterpreterTakesIsMeasuredByClass) {
  Work work;
  work.op_class = OpClass::kOrdering;
  work.flops = 100;
  work.bytes = 4000;
  EXPECT_EQ(work.InterpretedUnits(), 100);  // what is compared, however wide its indices are
  Device host;
  const Cost guess = InterpretedCost(&host, work);
  EXPECT_EQ(guess.source, Source::kDefault);
  EXPECT_EQ(InterpretedCost(nullptr, work).seconds, guess.seconds);
  host.interpreted = {
      {OpClass::kPointwise, {1e-6, Source::kMeasured, 0.02}, {1e-9, Source::kMeasured, 0.02}},
      {OpClass::kOrdering, {2e-6, Source::kMeasured, 0.02}, {5e-9, Source::kMeasured, 0.02}}};
  EXPECT_NEAR(InterpretedCost(&host, work).seconds, 2e-6 + 0.5e-6, 1e-12);
  EXPECT_EQ(InterpretedCost(&host, work).source, Source::kFitted);
  work.op_class = OpClass::kControl;  // as pointwise
  EXPECT_NEAR(InterpretedCost(&host, work).seconds, 1e-6 + 1e-6, 1e-12);
  EXPECT_GT(InterpretedCost(&host, work).sigma, 0.5);
}

// Tiles cover the rows and columns of results whole: 197 rows are two tiles of 128, and eight of
// 2048 columns half of each tile.
TEST(CostModel, TilesThatResultsFillInPartCostWhole) {
  Device gpu = MakeMachine(2).devices[1];
  gpu.units = 132;
  Work work;
  work.op_class = OpClass::kContraction;
  const auto seconds = [&](double rows, double columns) {
    work.rows = rows, work.columns = columns;
    return Roofline(gpu, work).value;
  };
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    work.dtype = dtype;
    work.results = 197 * 3072;
    work.flops = 2 * work.results * 768;
    const double unknown = seconds(0, 0);
    EXPECT_GT(seconds(197, 3072), unknown);
    EXPECT_EQ(seconds(256, 2364), unknown);  // as many tiles as the elements need
    work.results = 16384;
    work.flops = 2 * work.results * 768;
    EXPECT_EQ(seconds(128, 128), seconds(0, 0));
    EXPECT_GT(seconds(8, 2048), 1.5 * seconds(128, 128));
    EXPECT_LT(seconds(1, 16384), seconds(8, 2048));  // no tiles at all
    work.results = 12 * 128 * 128;
    work.flops = 2 * work.results * 64;
    EXPECT_EQ(seconds(128, 128), seconds(0, 0));  // twelve matrices
  }
}

TEST(CostModel, TakesTheBestSourceThereIs) {
  Machine machine = MakeMachine(2);
  Device& gpu = machine.devices[1];
  Work work;
  work.op_class = OpClass::kContraction;
  work.flops = 2e9;
  work.bytes = 1e6;
  const Cost roofline = EstimateCost(gpu, work, {});
  EXPECT_NEAR(roofline.seconds, 2e9 / 2e12 + 3e-6, 1e-9);
  EXPECT_EQ(roofline.source, Source::kTable);  // a roofline is no measurement
  gpu.fits.push_back({OpClass::kContraction, {{0, 4}, {40, 4}}, 0.15});
  const Cost fitted = EstimateCost(gpu, work, {});
  EXPECT_NEAR(fitted.seconds, 4 * roofline.seconds, 1e-9);
  EXPECT_EQ(fitted.source, Source::kFitted);
  EXPECT_EQ(fitted.sigma, 0.15);
  const Cost timed = EstimateCost(gpu, work, Timing{5e-3, 0.03});
  EXPECT_EQ(timed.seconds, 5e-3);
  EXPECT_EQ(timed.source, Source::kMeasured);
  EXPECT_EQ(timed.sigma, 0.03);
  // Bytes bound it where there are many.
  work.bytes = 4e9;
  gpu.fits.clear();
  EXPECT_NEAR(EstimateCost(gpu, work, {}).seconds, 4e9 / 4e11 + 3e-6, 1e-9);
}

// Tiles of results in whole rounds over the units, a step of the sum that takes its time, and long
// sums in parts.
TEST(CostModel, SmallProductsLeaveUnitsIdle) {
  Machine machine = MakeMachine(2);
  Device& gpu = machine.devices[1];  // 2 TFLOP/s
  gpu.units = 100;
  DType dtype = DType::kF16;
  const auto product = [&](double rows, double cols, double depth) {
    Work work;
    work.op_class = OpClass::kContraction;
    work.dtype = dtype;
    work.flops = 2 * rows * cols * depth;
    work.results = rows * cols;
    return work;
  };
  const auto seconds = [&](const Work& work) { return Roofline(gpu, work).value - 3e-6; };
  // 100 workgroups of 32 x 32 fill the device; a 101st takes another round.
  const double whole = seconds(product(320, 320, 64));
  EXPECT_NEAR(whole, 2 * 320 * 320 * 64 / 2e12 / 0.55, 1e-12);
  EXPECT_GT(seconds(product(320, 352, 64)), 1.5 * whole);
  // As much arithmetic on a tenth of the results takes longer, and no part of it is free.
  EXPECT_GT(seconds(product(32, 320, 640)), 1.5 * whole);
  EXPECT_GE(seconds(product(16, 16, 64)), 64 * 3e-9);
  // In parts: a unit alone would take ten times as long.
  EXPECT_LT(seconds(product(16, 16, 4096)), 0.1 * 2 * 16 * 16 * 4096 / (2e10 * 0.4));
  // What has no matrix units waits longer for each step: 660 cycles for 16 of the sum.
  dtype = DType::kF32;
  const double step = (product_tiles::kStepCycles + 16 * product_tiles::kStepDepthCycles) /
                      product_tiles::kCyclesPerNs * 1e-9;
  EXPECT_NEAR(step, 377e-9, 1e-9);
  EXPECT_GE(seconds(product(16, 16, 64)), 4 * step);
  EXPECT_LT(seconds(product(16, 16, 4096)), 256 * step);
  // Eight workgroups of a unit wait together.
  EXPECT_NEAR(seconds(product(160, 160, 16)), seconds(product(16, 16, 16)), 1e-9);
  gpu.rates[0].flops_per_second.value = 4e13;
  EXPECT_LT(seconds(product(400, 400, 64)), 1.2 * seconds(product(16, 16, 64)));
  gpu.rates[0].flops_per_second.value = 2e12;
  for (const DType either : {DType::kF16, DType::kF32}) {
    // A large one is what the rate says, and so is one of a device that does not tell its units.
    dtype = either;
    gpu.units = 100;
    const Work large = product(1280, 12800, 512);
    EXPECT_NEAR(seconds(large), large.flops / 2e12, large.flops / 2e14);
    gpu.units = 0;
    EXPECT_NEAR(seconds(product(16, 16, 64)), 2 * 16 * 16 * 64 / 2e12, 1e-15);
  }
}

TEST(CostModel, FitsWhatWasMeasuredAndSaysHowFarItIsOff) {
  const Machine machine = MakeMachine(2);
  Device gpu = machine.devices[1];
  // Small products reach an eighth of the roofline, large ones four fifths; 3 % noise.
  std::mt19937 random(5);
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) {
    Sample sample;
    sample.work.op_class = OpClass::kContraction;
    sample.work.flops = std::pow(10.0, 7 + 4 * (i / 39.0));
    sample.work.bytes = 1000;
    const double roofline = Roofline(gpu, sample.work).value;
    const double factor = roofline < 1e-4 ? 8 : 1.25;
    sample.seconds = roofline * factor * std::normal_distribution<double>(1, 0.03)(random);
    samples.push_back(sample);
  }
  samples.push_back({{}, 0});  // not a measurement
  gpu.fits = FitEfficiency(gpu, samples);
  ASSERT_EQ(gpu.fits.size(), 1u);
  Machine with = machine;
  with.devices[1] = gpu;
  EXPECT_TRUE(VerifyMachine(with).ok()) << VerifyMachine(with).ToString();
  std::vector<Prediction> before, after;
  for (const Sample& sample : samples) {
    before.push_back({OpClass::kContraction, Roofline(gpu, sample.work).value, sample.seconds});
    after.push_back(
        {OpClass::kContraction, EstimateCost(gpu, sample.work, {}).seconds, sample.seconds});
  }
  const std::vector<ModelError> cold = ModelErrors(before), warm = ModelErrors(after);
  ASSERT_EQ(cold.size(), 1u);
  ASSERT_EQ(warm.size(), 1u);
  EXPECT_EQ(cold[0].count, 40u);
  EXPECT_GT(cold[0].median_error, 0.15);
  EXPECT_LT(warm[0].median_error, 0.10);
  EXPECT_NEAR(warm[0].median_ratio, 1, 0.1);
  // The order of the samples does not matter.
  std::shuffle(samples.begin(), samples.end(), random);
  EXPECT_EQ(FitEfficiency(machine.devices[1], samples), gpu.fits);
}

TEST(ModelError, IsTheMedianOfTheClass) {
  const std::vector<Prediction> predictions = {{OpClass::kReduction, 1.1, 1.0},
                                               {OpClass::kReduction, 0.5, 1.0},
                                               {OpClass::kReduction, 1.2, 1.0},
                                               {OpClass::kPointwise, 3.0, 1.0},
                                               {OpClass::kPointwise, 3.0, 0.0}};
  const std::vector<ModelError> errors = ModelErrors(predictions);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].op_class, OpClass::kPointwise);
  EXPECT_EQ(errors[0].count, 1u);
  EXPECT_NEAR(errors[0].median_error, 2, 1e-12);
  EXPECT_NEAR(errors[1].median_error, 0.2, 1e-12);
  EXPECT_NEAR(errors[1].worst_error, 0.5, 1e-12);
  EXPECT_NEAR(errors[1].median_ratio, 1.1, 1e-12);
}

TEST(Affinity, IsReadFromText) {
  const auto prefer = ParseAffinity("/layer.*/Mul=prefer:cuda:0");
  ASSERT_TRUE(prefer.ok());
  EXPECT_EQ(prefer->pattern, "/layer.*/Mul");
  EXPECT_EQ(prefer->device, "cuda:0");
  EXPECT_EQ(prefer->strength, Strength::kPrefer);
  EXPECT_EQ(ParseAffinity("a=b=cpu:0")->pattern, "a=b");
  EXPECT_EQ(ParseAffinity("x=forbid:cpu:0")->strength, Strength::kForbid);
  for (const char* bad : {"", "x", "=cpu:0", "x=", "x=prefer:"}) {
    EXPECT_FALSE(ParseAffinity(bad).ok()) << bad;
  }
  EXPECT_THAT(ParseAffinity("x").status().message(), HasSubstr("PATTERN=DEVICE"));
  EXPECT_TRUE(MatchesPattern("*Conv_?", "/a/b/Conv_7"));
  EXPECT_FALSE(MatchesPattern("*Conv_?", "/a/b/Conv_17"));
  EXPECT_TRUE(MatchesPattern("*a*b*c", "xxaayybbzzcc"));
  EXPECT_FALSE(MatchesPattern("", "x"));
}

}  // namespace
}  // namespace halyard::place
