// SPDX-License-Identifier: Apache-2.0
// Probes without a compiler: statistics, reports and their damage, the store, copies on a device
// with memory of its own, and what placement gets of it.
#include "runtime/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "compiler/place/cost.h"
#include "drivers/init.h"
#include "hal/registry.h"
#include "runtime/device_target.h"
#include "runtime/probe/host_memory.h"
#include "runtime/probe/machine.h"
#include "runtime/probe/sampler.h"
#include "runtime/probe/store.h"
#include "tests/hal/forwarding_device.h"

namespace halyard::runtime {
namespace {

using testing::HasSubstr;

Ref<hal::Device> OpenDevice(const char* path) {
  static hal::DriverRegistry* const registry = [] {
    auto* made = new hal::DriverRegistry;
    EXPECT_TRUE(RegisterAllDrivers(made).ok());
    return made;
  }();
  return registry->OpenDevice(path).value();
}

class ProbeTest : public testing::Test {
 protected:
  ProbeTest() {
    std::string name = testing::TempDir() + "/halyard_probe_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ProbeTest() override { std::filesystem::remove_all(folder_); }
  void WriteStore(const std::string& text) const {
    std::ofstream(folder_ + "/" + kProbeFileName) << text;
  }
  // Copies alone, each reading at least once.
  ProbeOptions Quick() {
    ProbeOptions options;
    options.with_kernels = false;
    options.progress = [this](std::string_view, double) { ++readings_begun_; };
    return options;
  }
  std::string folder_;
  int readings_begun_ = 0;
};

Reading Copy(const char* from, const char* to, int64_t bytes, double seconds) {
  Reading reading;
  reading.device = "gpu:0";
  reading.from = from;
  reading.to = to;
  reading.bytes = bytes;
  reading.seconds = {seconds, seconds / 100, seconds, 7};
  reading.is_verified = true;
  return reading;
}

ProbeReport SampleReport() {
  ProbeReport report;
  report.snapshot = 41;
  report.unix_seconds = 1700000000;
  DeviceProbe& probe = report.devices.emplace_back();
  probe.path = "gpu:0";
  probe.name = "A \"device\"";
  probe.identity = "A device; 1";
  probe.is_complete = true;
  probe.lacks = 0;
  probe.before.clock_hz = {1980000000, hal::Source::kApi};
  probe.before.throttle_reasons = {"none", hal::Source::kApi};
  probe.after.load_average = {0.25, hal::Source::kOs};
  probe.notes = {"matmul f64: no such code"};
  probe.part_times = {{kCopies, 0.75, 0}, {kClasses, 3.5, 1.25}};
  probe.readings = {Copy("pinned", "device", 4096, 10e-6), Copy("pinned", "device", 1 << 20, 30e-6),
                    Copy("device", "pinned", 4096, 8e-6), Copy("device", "pinned", 1 << 20, 58e-6)};
  Reading product;
  product.device = "gpu:0";
  product.kind = ReadingKind::kMatmul;
  product.dtype = "f16";
  product.matrix_units = true;
  product.size = 1000;
  product.operations = 2e9;
  product.bytes = 6000000;
  product.seconds = {1e-5, 1e-7, 9e-6, 20};
  product.clock_hz = 1900000000;
  probe.readings.push_back(product);
  Reading dispatch;
  dispatch.device = "gpu:0";
  dispatch.kind = ReadingKind::kDispatch;
  dispatch.seconds = {2e-6, 0, 2e-6, 50};
  probe.readings.push_back(dispatch);
  for (const auto& [level, bytes, seconds] :
       {std::tuple{"L2", int64_t{20} << 20, 4e-6}, {"memory", int64_t{1} << 30, 300e-6}}) {
    Reading triad;
    triad.device = "gpu:0";
    triad.kind = ReadingKind::kTriad;
    triad.level = level;
    triad.bytes = bytes;
    triad.seconds = {seconds, 0, seconds, 9};
    probe.readings.push_back(triad);
  }
  return report;
}

TEST_F(ProbeTest, SpreadIsMedianAndDistance) {
  const Spread odd = Summarize({5, 1, 9, 2, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.mad, 2);  // of 2, 2, 6, 1, 0
  EXPECT_EQ(odd.best, 1);
  EXPECT_EQ(odd.count, 5);
  EXPECT_EQ(Summarize({4, 1}).median, 2.5);
  EXPECT_EQ(Summarize({}).count, 0);
}

TEST_F(ProbeTest, SamplerWarmsUpAndKeepsTheMinimum) {
  int calls = 0;
  SampleOptions options;
  options.min_count = 4;
  options.seconds = 0;
  const Spread spread = Sample([&]() -> Result<double> { return ++calls; }, options).value();
  EXPECT_EQ(calls, 5);  // one before it counts
  EXPECT_EQ(spread.count, 4);
  EXPECT_EQ(spread.median, 3.5);
  EXPECT_EQ(Sample([]() -> Result<double> { return Internal("no"); }, options).status().code(),
            StatusCode::kInternal);
}

TEST_F(ProbeTest, SamplerEndsWhereTheMedianIsKnown) {
  // A tenth of the seconds is at most 100 of these samples, all of them 1000.
  SampleOptions options;
  options.seconds = 1;
  options.max_count = 400;
  options.precision = 0.01;
  const auto count = [&](double deviation) {
    int calls = 0;
    const auto operation = [&]() -> Result<double> {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return 1 + deviation * (++calls % 2 == 0 ? 1 : -1);
    };
    return Sample(operation, options).value().count;
  };
  EXPECT_LE(count(0.001), 150);
  EXPECT_GT(count(0.9), 150);
}

// What one operation took is what the next one is expected to take.
TEST_F(ProbeTest, SamplerBeginsNothingThatWouldEndTooLate) {
  double clock = 100, taken = 0.5;
  int count = 0;
  const auto operation = [&]() -> Result<double> {
    clock += taken;
    ++count;
    return taken;
  };
  SampleOptions options;
  options.now = [&] { return clock; };
  options.seconds_left = 1.2;
  options.seconds = 0.1;
  // One to warm up and one that counts, of five wanted.
  const auto spread = Sample(operation, options);
  ASSERT_TRUE(spread.ok()) << spread.status().ToString();
  EXPECT_EQ(count, 2);
  EXPECT_EQ(spread->count, 1);
  EXPECT_LE(clock, 101.2);
  taken = 0.7;
  count = 0;
  EXPECT_EQ(Sample(operation, options).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(count, 1);
  taken = 1e-3;
  count = 0;
  EXPECT_EQ(Sample(operation, options)->count, 100);  // its seconds
}

// Copies at 4 MB/s by the clock that it moves.
class SlowDevice final : public hal::ForwardingDevice {
 public:
  SlowDevice(Ref<hal::Device> inner, double* clock)
      : ForwardingDevice(std::move(inner)), clock_(clock) {}
  Status QueueCopy(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange& source,
                   const hal::BufferRange& target) override {
    *clock_ += static_cast<double>(source.size_bytes) / 4e6;
    copied_bytes += source.size_bytes;
    return ForwardingDevice::QueueCopy(queue, ordering, source, target);
  }
  int64_t copied_bytes = 0;

 private:
  double* const clock_;
};

TEST_F(ProbeTest, AShortProbeEndsInItsTime) {
  double clock = 7;
  const auto device = MakeRef<SlowDevice>(OpenDevice("cpu:0?discrete=1"), &clock);
  const std::vector<Ref<hal::Device>> devices = {device};
  ProbeOptions options = Quick();
  options.is_short = true;
  options.now = [&] { return clock; };
  options.seconds_per_device = 0.2;
  const ProbeReport report = Probe(devices, options).value();
  EXPECT_LE(clock, 7.2);
  EXPECT_LE(device->copied_bytes, 800'000);  // a copy of 1 MiB alone takes longer
  // The small copies of the first way are there, and it is told that others are not.
  EXPECT_GE(report.devices[0].readings.size(), 2u);
  EXPECT_FALSE(report.devices[0].is_complete);
  EXPECT_NE(report.devices[0].lacks & kCopies, 0u);
  EXPECT_THAT(report.devices[0].notes, testing::Contains(HasSubstr("would not end in the time")));
  // With enough time all of them are.
  options.seconds_per_device = 1000;
  const ProbeReport whole = Probe(devices, options).value();
  EXPECT_GT(whole.devices[0].readings.size(), report.devices[0].readings.size());
  EXPECT_EQ(whole.devices[0].lacks & kCopies, 0u);
}

TEST_F(ProbeTest, ReportsSurviveTheirText) {
  const std::string text = FormatProbeReport(SampleReport());
  const ProbeReport parsed = ParseProbeReport(text).value();
  EXPECT_EQ(FormatProbeReport(parsed), text);
  EXPECT_EQ(parsed.snapshot, 41u);
  ASSERT_EQ(parsed.devices.size(), 1u);
  EXPECT_EQ(parsed.devices[0].before.clock_hz.value, 1980000000);
  EXPECT_EQ(parsed.devices[0].before.clock_hz.source, hal::Source::kApi);
  EXPECT_FALSE(parsed.devices[0].before.power_w.known());
  ASSERT_EQ(parsed.devices[0].part_times.size(), 2u);
  EXPECT_EQ(parsed.devices[0].part_times[1].part, kClasses);
  EXPECT_EQ(parsed.devices[0].part_times[1].making_seconds, 1.25);
  EXPECT_DOUBLE_EQ(parsed.devices[0].readings[4].Rate(), 2e14);
  EXPECT_THAT(TabulateProbe(parsed.devices[0]), HasSubstr("matmul f16 1000^3 matrix"));
}

TEST_F(ProbeTest, DamagedReportsAreRefused) {
  const auto reason = [](const std::string& text) {
    const auto report = ParseProbeReport(text);
    EXPECT_EQ(report.status().code(), StatusCode::kDataLoss) << text;
    return std::string(report.status().message());
  };
  const std::string head = R"({"format": "halyard-probes-6", "snapshot": 1, "unix_seconds": 0, )";
  const std::string device = head + R"("devices": [{"path": "a", "notes": [], "readings": [)";
  EXPECT_THAT(reason(""), HasSubstr("no JSON object"));
  EXPECT_THAT(reason("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(reason(R"({"format": "other"})"), HasSubstr("of format 'other'"));
  EXPECT_THAT(reason(head + R"("devices": 3})"), HasSubstr("'devices' is no list"));
  EXPECT_THAT(reason(head + R"("devices": [7]})"), HasSubstr("a device is no object"));
  EXPECT_THAT(reason(device + R"({"kind": "guess"}]}]})"), HasSubstr("kind 'guess'"));
  EXPECT_THAT(reason(device + R"({"kind": "read"}]}]})"), HasSubstr("has no seconds"));
  EXPECT_THAT(reason(device + R"({"kind": "read", "seconds": {"median": -1, "count": 1}}]}]})"),
              HasSubstr("'median' is no number from 0"));
  EXPECT_THAT(reason(device + R"({"kind": "read", "seconds": {"median": 0, "count": 9}}]}]})"),
              HasSubstr("of kind 'read' took no time"));
  EXPECT_THAT(reason(device + R"({"kind": "wait", "seconds": {"median": 1e300, "count": 9}}]}]})"),
              HasSubstr("of kind 'wait' took 1e+300 s"));
  EXPECT_TRUE(
      ParseProbeReport(device + R"({"kind": "wait", "seconds": {"median": 0, "count": 9}}]}]})")
          .ok());
  EXPECT_THAT(reason(device + R"({"kind": "read", "seconds": {"median": 1}}]}]})"),
              HasSubstr("no samples"));
  EXPECT_THAT(reason(device + R"({"kind": "copy", "from": 3, "seconds": {"count": 1}}]}]})"),
              HasSubstr("'from' is no text"));
  EXPECT_THAT(reason(std::string(size_t{5} << 20, ' ')), HasSubstr("4194304 are allowed"));
  // Every cut of a good one.
  const std::string good = FormatProbeReport(SampleReport());
  for (size_t size = 0; size < good.size(); size += 37) {
    EXPECT_FALSE(ParseProbeReport(good.substr(0, size)).ok()) << size;
  }
}

TEST_F(ProbeTest, StoreCountsSnapshotsAndReplacesDamage) {
  EXPECT_EQ(LoadProbes(folder_)->snapshot, 0u);
  // Reading what is not there makes no folder.
  EXPECT_EQ(LoadProbes(folder_ + "/none")->snapshot, 0u);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/none"));
  EXPECT_EQ(StoreProbes(folder_, SampleReport())->snapshot, 1u);
  ProbeReport other = SampleReport();
  other.devices[0].path = "gpu:1";
  EXPECT_EQ(StoreProbes(folder_, other)->snapshot, 2u);
  const ProbeReport both = LoadProbes(folder_).value();
  EXPECT_EQ(both.devices.size(), 2u);
  EXPECT_NE(both.Find("gpu:0", both.devices[0].identity), nullptr);
  WriteStore("{\"format\": 12");
  const auto damaged = LoadProbes(folder_);
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.status().ToLine(), HasSubstr(kProbeFileName));
  EXPECT_TRUE(StoreProbes(folder_, SampleReport()).ok());
  EXPECT_EQ(LoadProbes(folder_)->devices.size(), 1u);
  // A pipe is damage too; nobody waits for a writer.
  const std::string store = folder_ + "/" + kProbeFileName;
  std::filesystem::remove(store);
  ASSERT_EQ(mkfifo(store.c_str(), 0600), 0);
  EXPECT_EQ(LoadProbes(folder_).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(StoreProbes(folder_, SampleReport()).ok());
  EXPECT_EQ(LoadProbes(folder_)->devices.size(), 1u);
  // A folder that others can write to is not ours.
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  EXPECT_EQ(LoadProbes(folder_).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(ProbeTest, ReadingsAreReusedUntilTheIdentityChanges) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:0?discrete=1&memory_bytes=4000000")};
  std::vector<std::string> notes;
  const auto probe = [&](bool again) {
    readings_begun_ = 0;
    return ProbeOrLoad(devices, Quick(), folder_, again, &notes).value();
  };
  const ProbeReport first = probe(false);
  ASSERT_EQ(first.devices.size(), 1u);
  EXPECT_GT(readings_begun_, 5);
  EXPECT_EQ(first.snapshot, 1u);
  EXPECT_EQ(first.devices[0].identity, IdentityOf(*devices[0]));
  EXPECT_EQ(FormatProbeReport(probe(false)), FormatProbeReport(first));
  EXPECT_EQ(readings_begun_, 0);
  EXPECT_EQ(probe(true).snapshot, 2u);
  EXPECT_GT(readings_begun_, 5);
  // Another driver version, another machine: measured anew.
  ProbeReport foreign = first;
  foreign.devices[0].identity = "another machine";
  WriteStore(FormatProbeReport(foreign));
  EXPECT_EQ(probe(false).devices[0].identity, IdentityOf(*devices[0]));
  EXPECT_GT(readings_begun_, 5);
  EXPECT_TRUE(notes.empty());
  WriteStore("not ours");
  EXPECT_EQ(probe(false).devices.size(), 1u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("no JSON object"));
  EXPECT_THAT(notes[0], HasSubstr(kProbeFileName));
}

// A device with other options is another device: neither probe replaces the other, and of many the
// first make room.
TEST_F(ProbeTest, OptionsOfADeviceKeepTheirOwnProbes) {
  const Ref<hal::Device> whole = OpenDevice("cpu:0"), slow = OpenDevice("cpu:0?speed_percent=20");
  ProbeReport report = SampleReport();
  report.devices[0].path = "cpu:0";
  report.devices[0].identity = IdentityOf(*whole);
  ASSERT_TRUE(StoreProbes(folder_, report).ok());
  report.devices[0].identity = IdentityOf(*slow);
  ASSERT_TRUE(StoreProbes(folder_, report).ok());
  const ProbeReport both = LoadProbes(folder_).value();
  EXPECT_EQ(both.devices.size(), 2u);
  EXPECT_NE(both.Find("cpu:0", IdentityOf(*whole)), nullptr);
  EXPECT_NE(both.Find("cpu:0", IdentityOf(*slow)), nullptr);
  for (int i = 0; i < 7; ++i) {
    report.devices[0].identity = "driver " + std::to_string(i);
    ASSERT_TRUE(StoreProbes(folder_, report).ok());
  }
  EXPECT_EQ(LoadProbes(folder_)->devices.size(), 8u);
  EXPECT_EQ(LoadProbes(folder_)->Find("cpu:0", IdentityOf(*whole)), nullptr);
}

TEST_F(ProbeTest, WhatAProbeLacksIsAskedForUnderThePathThatWasOpened) {
  const Ref<hal::Device> slow = OpenDevice("cpu:0?speed_percent=20");
  ProbeReport report = SampleReport();
  report.devices[0].path = "cpu:0";
  report.devices[0].identity = IdentityOf(*slow);
  report.devices[0].lacks = kProducts;
  ASSERT_TRUE(StoreProbes(folder_, report).ok());
  const program::Device devices[] = {{"cpu:0", TargetOf(*slow), IdentityOf(*slow), true}};
  const std::string opened_as[] = {"cpu:0?speed_percent=20"};
  std::vector<std::string> notes;
  StoredMachine(devices, folder_, &notes, opened_as);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0],
              HasSubstr("`halyard devices --probe --seconds 60 'cpu:0?speed_percent=20'`"));
}

TEST_F(ProbeTest, EveryWayIsMeasuredAndVerified) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:0?discrete=1&memory_bytes=4000000")};
  const ProbeReport report = Probe(devices, Quick()).value();
  ASSERT_EQ(report.devices.size(), 1u);
  std::set<std::string> ways;
  for (const Reading& reading : report.devices[0].readings) {
    EXPECT_EQ(reading.kind, ReadingKind::kCopy);
    EXPECT_TRUE(reading.is_verified);
    EXPECT_GE(reading.seconds.count, 5);
    EXPECT_LE(reading.seconds.best, reading.seconds.median);
    ways.insert(reading.from + ">" + reading.to);
  }
  EXPECT_THAT(ways, testing::ElementsAre("device>device", "device>pageable", "device>pinned",
                                         "pageable>device", "pinned>device"));
  EXPECT_TRUE(report.devices[0].is_complete);
}

TEST_F(ProbeTest, TheFirstTouchOfMemoryStandsBesideALaterOne) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:0?discrete=1&memory_bytes=4000000")};
  ProbeOptions options = Quick();
  options.with_kernels = true;
  options.should_stop = [this] { return readings_begun_ >= 2; };  // latencies of kernels, and this
  const ProbeReport report = Probe(devices, options).value();
  std::map<ReadingKind, Reading> touches;
  for (const Reading& reading : report.devices[0].readings) touches[reading.kind] = reading;
  for (const ReadingKind kind : {ReadingKind::kFirstTouch, ReadingKind::kLaterTouch}) {
    ASSERT_EQ(touches.count(kind), 1u);
    EXPECT_EQ(touches[kind].seconds.count, 5);
    EXPECT_GT(touches[kind].seconds.best, 0);
    EXPECT_GT(touches[kind].Rate(), 0);
    EXPECT_LE(touches[kind].bytes * 6, 4000000 / 4) << "what there is is not used up";
  }
  EXPECT_THAT(TabulateProbe(report.devices[0]),
              testing::AllOf(HasSubstr("first-touch 128 KiB"), HasSubstr("later-touch 128 KiB")));
}

TEST_F(ProbeTest, ProgressIsOfTheWorkNotOfTheTimeAllowed) {
  const std::vector<Ref<hal::Device>> devices = {OpenDevice("cpu:0"),
                                                 OpenDevice("cpu:0?discrete=1")};
  ProbeOptions options = Quick();
  options.seconds_per_device = 1e6;
  std::vector<double> done;
  options.progress = [&](std::string_view, double share) { done.push_back(share); };
  const ProbeReport report = Probe(devices, options).value();
  ASSERT_GT(done.size(), 10u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end())) << testing::PrintToString(done);
  EXPECT_EQ(done.front(), 0);
  EXPECT_EQ(done.back(), 1);
  EXPECT_GT(done[done.size() - 2], 0.9) << testing::PrintToString(done);
  // What parts took is at most the whole.
  for (const DeviceProbe& probe : report.devices) {
    double seconds = 0;
    for (const PartTime& time : probe.part_times) seconds += time.seconds;
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, probe.seconds);
  }
}

TEST_F(ProbeTest, StoppingKeepsWhatIsThere) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:0?discrete=1&memory_bytes=4000000")};
  ProbeOptions options = Quick();
  options.should_stop = [this] { return readings_begun_ >= 3; };
  const ProbeReport report = Probe(devices, options).value();
  EXPECT_EQ(report.devices[0].readings.size(), 3u);
  EXPECT_FALSE(report.devices[0].is_complete);
  options.should_stop = {};
  options.seconds_per_device = 0;
  const ProbeReport none = Probe(devices, options).value();
  EXPECT_TRUE(none.devices[0].readings.empty());
  EXPECT_THAT(none.devices[0].notes, testing::Contains(HasSubstr("readings are left out")));
  EXPECT_FALSE(none.devices[0].is_complete);
  EXPECT_EQ(FormatParts(none.devices[0].lacks),
            "latencies, copies, crossings, bandwidth, classes, products");
}

TEST_F(ProbeTest, WhatWasCutShortHidesNothingAndIsMeasuredAgain) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:0?discrete=1&memory_bytes=4000000")};
  std::vector<std::string> notes;
  const auto probe = [&](bool again, int most) {
    ProbeOptions options = Quick();
    readings_begun_ = 0;
    options.should_stop = [this, most] { return readings_begun_ >= most; };
    return ProbeOrLoad(devices, options, folder_, again, &notes).value();
  };
  // The first is all there is; it is kept, and measured again when somebody asks.
  EXPECT_FALSE(probe(false, 3).devices[0].is_complete);
  EXPECT_EQ(LoadProbes(folder_)->devices[0].readings.size(), 3u);
  const ProbeReport whole = probe(false, 1000);
  EXPECT_GT(readings_begun_, 5);
  EXPECT_TRUE(whole.devices[0].is_complete);
  EXPECT_EQ(FormatParts(whole.devices[0].lacks),
            "latencies, crossings, bandwidth, classes, products");
  EXPECT_TRUE(notes.empty());
  // One that is cut short is shown, and the earlier one stays.
  const ProbeReport cut = probe(true, 2);
  EXPECT_EQ(cut.devices[0].readings.size(), 2u);
  EXPECT_FALSE(cut.devices[0].is_complete);
  EXPECT_EQ(FormatProbeReport(LoadProbes(folder_).value()), FormatProbeReport(whole));
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("stays in the cache: the one of now lacks "
                                                    "copies")));
  EXPECT_EQ(FormatProbeReport(probe(false, 1000)), FormatProbeReport(whole));
  EXPECT_EQ(readings_begun_, 0);
}

TEST_F(ProbeTest, ALostDeviceEndsItsOwnPart) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:1?synthetic=1&memory_bytes=4000000&lose_at=9"),
      OpenDevice("cpu:2?synthetic=1&memory_bytes=4000000")};
  const ProbeReport report = Probe(devices, Quick()).value();
  ASSERT_EQ(report.devices.size(), 2u);
  EXPECT_FALSE(report.devices[0].is_complete);
  EXPECT_THAT(report.devices[0].notes, testing::Contains(HasSubstr("was lost at work 9")));
  EXPECT_NE(report.devices[0].lacks & kCopies, 0u);
  EXPECT_FALSE(report.devices[1].readings.empty());
}

// The device of SampleReport with numbers that nobody measured.
place::Machine UnmeasuredMachine() {
  place::Machine machine;
  machine.memories = {{"host", 0}, {"gpu:0", 0}};
  place::Device device;
  device.name = "gpu:0";
  device.identity = "A device; 1";
  device.memory = 1;
  device.levels = {{"memory", 1, {1e9, place::Source::kDefault, 0.6}}};
  machine.devices = {device};
  place::Link up, down;
  up.to = down.from = 1;
  up.curve = down.curve = {{4096, 1e9}};
  machine.links = {up, down};
  return machine;
}

TEST_F(ProbeTest, PlacementTakesNoPartThatIsLacking) {
  const place::Machine machine = UnmeasuredMachine();
  const place::Device& device = machine.devices[0];
  const auto with = [&](uint32_t lacks) {
    ProbeReport report = SampleReport();
    report.devices[0].lacks = lacks;
    return MeasuredMachine(machine, report);
  };
  EXPECT_EQ(with(kCopies).links, machine.links);
  EXPECT_EQ(with(kBandwidth).devices[0].levels, device.levels);
  // Products and classes are apart from each other: what was read of them counts.
  EXPECT_FALSE(with(kProducts).devices[0].rates.empty());
  EXPECT_EQ(with(kLatencies).devices[0].dispatch_seconds, device.dispatch_seconds);
  EXPECT_NE(with(kCopies).devices[0].levels, device.levels);  // the rest is taken
  EXPECT_EQ(with(kAllParts), machine);
}

TEST_F(ProbeTest, ReportsThatDoNotSayWhatTheyLackLackAll) {
  std::string text = FormatProbeReport(SampleReport());
  const size_t at = text.find("\"lacks\"");
  ASSERT_NE(at, std::string::npos);
  text.erase(at, text.find('\n', at) - at);
  const ProbeReport report = ParseProbeReport(text).value();
  EXPECT_EQ(report.devices[0].lacks, kAllParts);
  EXPECT_FALSE(report.devices[0].is_complete);
}

TEST_F(ProbeTest, HostPatternsMoveWhatTheySay) {
  for (const auto& [pattern, arrays] :
       {std::pair{HostPattern::kRead, 1}, {HostPattern::kCopy, 2}, {HostPattern::kTriad, 3}}) {
    const HostMemoryTime time = MeasureHostMemory(pattern, 2, 49152, 0).value();
    EXPECT_EQ(time.bytes, 2 * 49152 / arrays / 256 * 256 * arrays);
    EXPECT_GE(time.seconds.count, 5);
    EXPECT_GT(time.seconds.best, 0);
  }
}

TEST_F(ProbeTest, PlacementGetsWhatWasMeasured) {
  const place::Machine machine = UnmeasuredMachine();
  ASSERT_TRUE(place::VerifyMachine(machine).ok());

  const place::Machine measured = MeasuredMachine(machine, SampleReport());
  ASSERT_TRUE(place::VerifyMachine(measured).ok()) << place::VerifyMachine(measured).ToString();
  EXPECT_EQ(measured.snapshot, 41u);
  const place::Device& now = measured.devices[0];
  EXPECT_EQ(now.dispatch_seconds.value, 2e-6);
  EXPECT_EQ(now.dispatch_seconds.source, place::Source::kMeasured);
  ASSERT_EQ(now.levels.size(), 2u);
  EXPECT_EQ(now.levels[0].name, "l2");
  EXPECT_EQ(now.levels[0].bytes, int64_t{40} << 20);
  EXPECT_DOUBLE_EQ(now.levels[1].bytes_per_second.value, (int64_t{1} << 30) / 300e-6);
  ASSERT_FALSE(now.rates.empty());
  EXPECT_EQ(now.rates[0].op_class, place::OpClass::kContraction);
  EXPECT_EQ(now.rates[0].dtype, DType::kF16);
  EXPECT_DOUBLE_EQ(now.rates[0].flops_per_second.value, 2e14);
  // 1 MiB in 30 us, of which 10 are the latency.
  EXPECT_EQ(measured.links[0].latency_seconds.value, 10e-6);
  ASSERT_EQ(measured.links[0].curve.size(), 1u);
  EXPECT_DOUBLE_EQ(measured.links[0].curve[0].bytes_per_second, (1 << 20) / (30e-6 - 10e-6));
  EXPECT_TRUE(measured.links[0].is_verified);
  EXPECT_EQ(measured.links[1].latency_seconds.value, 8e-6);
  // The wait for a copy's end is counted apart, and so is the submission of one that leaves: it was
  // made while kernels ran. A copy takes at least what a dispatch does.
  ProbeReport with_parts = SampleReport();
  for (const auto& [kind, seconds] :
       {std::pair{ReadingKind::kSubmit, 1e-6}, {ReadingKind::kWait, 3e-6}}) {
    Reading part;
    part.device = "gpu:0";
    part.kind = kind;
    part.seconds = {seconds, 0, seconds, 50};
    with_parts.devices[0].readings.push_back(part);
  }
  const place::Machine parts = MeasuredMachine(machine, with_parts);
  EXPECT_DOUBLE_EQ(parts.links[0].latency_seconds.value, 10e-6 - 3e-6);
  EXPECT_DOUBLE_EQ(parts.links[1].latency_seconds.value, 8e-6 - 3e-6 - 1e-6);
  EXPECT_EQ(parts.links[0].curve, measured.links[0].curve);
  with_parts.devices[0].readings.back().seconds.median = 20e-6;
  EXPECT_EQ(MeasuredMachine(machine, with_parts).links[0].latency_seconds.value, 2e-6);
  // Inputs and outputs are copied by the host as well, where that was measured.
  EXPECT_TRUE(measured.links[0].caller_curve.empty());
  ProbeReport with_callers = SampleReport();
  with_callers.devices[0].readings.push_back(Copy("pageable", "device", 1 << 20, 110e-6));
  const place::Machine again = MeasuredMachine(machine, with_callers);
  ASSERT_EQ(again.links[0].caller_curve.size(), 1u);
  EXPECT_DOUBLE_EQ(again.links[0].caller_curve[0].bytes_per_second, (1 << 20) / (110e-6 - 10e-6));
  EXPECT_TRUE(again.links[1].caller_curve.empty());
  EXPECT_EQ(again.links[0].curve, measured.links[0].curve);

  // Readings of another device change nothing.
  ProbeReport foreign = SampleReport();
  foreign.devices[0].identity = "another";
  EXPECT_EQ(MeasuredMachine(machine, foreign), machine);
}

// A short probe holds little and says so: whoever asks for a whole one gets it.
TEST_F(ProbeTest, AShortProbeIsMeasuredAgainWhole) {
  const std::vector<Ref<hal::Device>> devices = {
      OpenDevice("cpu:0?discrete=1&memory_bytes=40000000")};
  ProbeOptions options = Quick();
  options.is_short = true;
  const ProbeReport report = Probe(devices, options).value();
  std::set<std::string> ways;
  int64_t largest = 0;
  for (const Reading& reading : report.devices[0].readings) {
    ways.insert(reading.from + ">" + reading.to);
    largest = std::max(largest, reading.bytes);
  }
  EXPECT_THAT(ways, testing::ElementsAre("device>pageable", "device>pinned", "pageable>device",
                                         "pinned>device"));
  EXPECT_EQ(largest, 1 << 20);
  EXPECT_EQ(FormatParts(report.devices[0].lacks),
            "latencies, crossings, bandwidth, classes, products");
  EXPECT_TRUE(ParseProbeReport(FormatProbeReport(report))->devices[0].is_first_use);
  ASSERT_TRUE(StoreProbes(folder_, report).ok());
  std::vector<std::string> notes;
  options.is_short = false;
  EXPECT_FALSE(ProbeOrLoad(devices, options, folder_, false, &notes)->devices[0].is_first_use);
  EXPECT_FALSE(LoadProbes(folder_)->devices[0].is_first_use);
  EXPECT_EQ(LoadProbes(folder_)->snapshot, 2u);
}

TEST_F(ProbeTest, PlacementIsToldWhatCrossingsAndTheInterpreterTake) {
  ProbeReport report = SampleReport();
  Reading crossing;
  crossing.device = "gpu:0";
  crossing.kind = ReadingKind::kCrossing;
  crossing.from = "device";
  crossing.to = "cpu:0";
  crossing.bytes = place::kCrossingBytes;
  crossing.seconds = {4e-5, 1e-6, 3e-5, 30};
  report.devices[0].readings.push_back(crossing);
  DeviceProbe& host = report.devices.emplace_back();
  host.path = host.identity = "cpu:0";
  host.lacks = kCopies;
  for (const auto& [flops, bytes, seconds] :
       {std::tuple{64.0, int64_t{1024}, 3e-5}, {32768.0, int64_t{1} << 20, 5e-3}}) {
    Reading reading;
    reading.device = "cpu:0";
    reading.kind = ReadingKind::kInterpreted;
    reading.op_class = "ordering";
    reading.dtype = "f32";
    reading.operations = flops;
    reading.bytes = bytes;
    reading.seconds = {seconds, 0, seconds, 9};
    host.readings.push_back(reading);
  }
  EXPECT_EQ(FormatProbeReport(ParseProbeReport(FormatProbeReport(report)).value()),
            FormatProbeReport(report));
  EXPECT_EQ(crossing.Rate(), 0);
  EXPECT_THAT(TabulateProbe(report.devices[0]), HasSubstr("crossing device -> cpu:0"));
  place::Machine machine = UnmeasuredMachine();
  place::Device cpu = machine.devices[0];
  cpu.name = cpu.identity = "cpu:0";
  cpu.memory = 0;
  machine.devices.push_back(cpu);
  const place::Machine measured = MeasuredMachine(machine, report);
  ASSERT_TRUE(place::VerifyMachine(measured).ok()) << place::VerifyMachine(measured).ToString();
  for (const place::Link& link : measured.links) {
    EXPECT_EQ(link.crossing_seconds.value, 4e-5);  // there and back
    EXPECT_EQ(link.crossing_seconds.source, place::Source::kMeasured);
  }
  place::Work work;
  work.op_class = place::OpClass::kOrdering;
  work.flops = 32768;
  work.bytes = 1 << 20;
  const place::Cost cost = place::InterpretedCost(&measured.devices[1], work);
  EXPECT_NEAR(cost.seconds, 5e-3, 1e-4);
  EXPECT_EQ(cost.source, place::Source::kFitted);
  // Another CPU: nothing is known of the way to it.
  machine.devices[1].name = "cpu:5";
  EXPECT_EQ(MeasuredMachine(machine, report).links[0].crossing_seconds.value, 0);
}

// Kernels of a class correct the roofline of that class, at their size and near it.
TEST_F(ProbeTest, PlacementIsCorrectedByKernelsOfEachClass) {
  ProbeReport report = SampleReport();
  place::Work small, large;
  small.op_class = large.op_class = place::OpClass::kReduction;
  small.flops = 49152, small.bytes = 200000, small.results = 128;
  large.flops = 1 << 20, large.bytes = 1 << 22, large.results = 1024;
  for (const auto& [work, seconds] : {std::pair{small, 9e-6}, {large, 50e-6}}) {
    Reading kernel;
    kernel.device = "gpu:0";
    kernel.kind = ReadingKind::kKernel;
    kernel.op_class = "reduction";
    kernel.dtype = "f32";
    kernel.operations = work.flops;
    kernel.bytes = static_cast<int64_t>(work.bytes);
    kernel.results = static_cast<int64_t>(work.results);
    kernel.seconds = {seconds, 0, seconds, 9};
    report.devices[0].readings.push_back(kernel);
  }
  EXPECT_EQ(FormatProbeReport(ParseProbeReport(FormatProbeReport(report)).value()),
            FormatProbeReport(report));
  EXPECT_THAT(TabulateProbe(report.devices[0]), HasSubstr("kernel reduction f32, 0.0492 MFLOP"));
  const place::Machine measured = MeasuredMachine(UnmeasuredMachine(), report);
  ASSERT_TRUE(place::VerifyMachine(measured).ok()) << place::VerifyMachine(measured).ToString();
  const place::Cost cost = place::EstimateCost(measured.devices[0], small, {});
  EXPECT_EQ(cost.source, place::Source::kFitted);
  EXPECT_NEAR(cost.seconds, 9e-6, 1e-6);
  EXPECT_NEAR(place::EstimateCost(measured.devices[0], large, {}).seconds, 50e-6, 5e-6);
  small.op_class = place::OpClass::kOrdering;
  EXPECT_EQ(place::EstimateCost(measured.devices[0], small, {}).source, place::Source::kDefault);
  EXPECT_TRUE(measured.devices[0].cold_fits.empty());
  // Cold kernels make fits of their own.
  for (Reading reading : std::vector(report.devices[0].readings)) {
    if (reading.kind != ReadingKind::kKernel) continue;
    reading.kind = ReadingKind::kColdKernel;
    reading.seconds.median *= 2;
    report.devices[0].readings.push_back(reading);
  }
  EXPECT_EQ(FormatProbeReport(ParseProbeReport(FormatProbeReport(report)).value()),
            FormatProbeReport(report));
  EXPECT_THAT(TabulateProbe(report.devices[0]), HasSubstr("cold-kernel reduction f32"));
  const place::Device both = MeasuredMachine(UnmeasuredMachine(), report).devices[0];
  EXPECT_EQ(both.fits, measured.devices[0].fits);
  ASSERT_EQ(both.cold_fits.size(), 1u);
  ASSERT_EQ(both.cold_fits[0].points.size(), both.fits[0].points.size());
  for (size_t i = 0; i < both.fits[0].points.size(); ++i) {
    EXPECT_NEAR(both.cold_fits[0].points[i].factor, 2 * both.fits[0].points[i].factor, 1e-9);
  }
}

}  // namespace
}  // namespace halyard::runtime
