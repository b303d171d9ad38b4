// SPDX-License-Identifier: Apache-2.0
// What kernels reach: the cost of dispatching and waiting, bandwidth per level of the memory
// hierarchy, and matrix products per dtype with and without matrix units.
#include <algorithm>
#include <cmath>

#include "runtime/probe/host_memory.h"
#include "runtime/probe/prober.h"

namespace halyard::runtime {
namespace {

constexpr int kChain = 100;       // dispatches of the recording that shows their cost
constexpr int kMaxRepeats = 200;  // executions of one recording
constexpr double kSampleSeconds = 4e-3;

// Whether the device itself tells what its commands take: then it does not matter what else the
// host does.
Result<bool> HasClock(Prober& prober, KernelRun& run) {
  if (!prober.is_gpu()) return false;
  const auto time = run.TimeOne();
  if (time.status().code() == StatusCode::kUnimplemented) return false;
  HY_TRY(time.status());
  return true;
}

// Times a kernel: repeats it so that one submission lasts, warms the device up, reads the clock
// while it works. Fills the reading's seconds and clock.
Status TimeKernel(Prober& prober, const KernelJob& job, Reading& reading) {
  HY_ASSIGN(const auto made, prober.kernels().Make(job));
  KernelRun& run = *made;
  DeviceTurn::Hold turn = prober.TakeTurn();
  HY_ASSIGN(const bool has_clock, HasClock(prober, run));
  if (!has_clock) {
    turn.Give();
    prober.kernels().AwaitAll();
    turn.Take();
  }
  HY_TRY(run.Time(1));
  HY_ASSIGN(const double once, run.Time(1));
  const int repeats = prober.is_gpu()
                          ? static_cast<int>(std::clamp(kSampleSeconds / std::max(once, 1e-6), 1.0,
                                                        double{kMaxRepeats}))
                          : 1;
  HY_ASSIGN(reading.seconds, Sample(
                                 [&]() -> Result<double> {
                                   if (has_clock) return run.TimeByDevice(repeats);
                                   HY_ASSIGN(const double seconds, run.Time(repeats));
                                   return seconds / repeats;
                                 },
                                 prober.Sampling(turn, 0.1)));
  return run.Time(repeats, [&] { reading.clock_hz = prober.ReadClock(); }).status();
}

std::string FormatWorkingSet(int64_t bytes) { return fmt::format("{} KiB", bytes >> 10); }

struct Stream {
  ReadingKind kind;
  HostPattern host;
  int64_t arrays;  // that it moves
};
constexpr Stream kStreams[] = {{ReadingKind::kRead, HostPattern::kRead, 1},
                               {ReadingKind::kStream, HostPattern::kCopy, 2},
                               {ReadingKind::kTriad, HostPattern::kTriad, 3}};

// A graph whose only kernel moves `bytes` in all: rows of 1024 f32.
std::string StreamGraph(const Stream& stream, int64_t bytes) {
  const int64_t rows = std::max<int64_t>(bytes / stream.arrays / 4096, 1);
  const std::string type = fmt::format("f32[{}, 1024]", rows);
  switch (stream.kind) {
    case ReadingKind::kRead:
      return fmt::format(
          "graph g(%x: {0}) -> (\"y\" = %y) {{\n  %y = reduce_sum %x {{axes = [1]}} : "
          "f32[{1}]\n}}\n",
          type, rows);
    case ReadingKind::kStream:
      return fmt::format("graph g(%x: {0}) -> (\"y\" = %y) {{\n  %y = neg %x : {0}\n}}\n", type);
    default:
      return fmt::format(
          "graph g(%x: {0}, %z: {0}) -> (\"y\" = %y) {{\n  %s0 = constant f32[]{{0.75}}\n"
          "  %s = broadcast %s0 {{shape = [{1}, 1024]}} : {0}\n  %m = mul %z, %s : {0}\n"
          "  %y = add %x, %m : {0}\n}}\n",
          type, rows);
  }
}

struct LevelSize {
  std::string name;
  int64_t bytes;  // working set: of one thread on the host, of the whole device otherwise
};

// Sets that live in one level: half of what a thread has of a cache, and far more than the last
// one.
std::vector<LevelSize> HostLevels(const hal::Capabilities& capabilities, int64_t threads) {
  std::vector<LevelSize> levels;
  int64_t last = 0;
  for (const hal::Cache& cache : capabilities.caches) {
    if (!cache.size_bytes.known()) continue;
    const int64_t sharers = std::min(cache.threads_per_instance.ValueOr(1), threads);
    levels.push_back({fmt::format("L{}", cache.level.value),
                      cache.size_bytes.value / std::max<int64_t>(sharers, 1) / 2});
    last = cache.size_bytes.value * cache.instance_count.ValueOr(1);
  }
  const int64_t memory = std::max<int64_t>(4 * last / threads, int64_t{64} << 20);
  levels.push_back({"memory", std::min<int64_t>(memory, int64_t{512} << 20)});
  return levels;
}

Status ProbeHostBandwidth(Prober& prober) {
  const hal::Capabilities& capabilities = prober.device().capabilities();
  const int64_t threads = std::max<int64_t>(capabilities.compute.usable_worker_count.ValueOr(1), 1);
  for (const LevelSize& level : HostLevels(capabilities, threads)) {
    if (level.bytes * threads > prober.available_bytes() / 4) continue;
    for (const Stream& stream : kStreams) {
      const std::string what = fmt::format("{} {}", FormatReadingKind(stream.kind), level.name);
      if (!prober.Begins(what)) continue;
      auto time = MeasureHostMemory(stream.host, threads, level.bytes, 0.05);
      if (!time.ok()) {
        HY_TRY(prober.Note(what, time.status()));
        continue;
      }
      Reading reading;
      reading.kind = stream.kind;
      reading.level = level.name;
      reading.bytes = time->bytes;
      reading.seconds = time->seconds;
      reading.clock_hz = prober.ReadClock();
      prober.Add(std::move(reading));
    }
  }
  return OkStatus();
}

std::vector<LevelSize> DeviceLevels(const Prober& prober) {
  std::vector<LevelSize> levels;
  const hal::Capabilities& capabilities = prober.device().capabilities();
  int64_t cache_bytes = 0;  // of the second level; where nobody knows its size there is no such set
  for (const hal::Cache& cache : capabilities.caches) {
    if (cache.level.ValueOr(0) == 2) cache_bytes = cache.size_bytes.ValueOr(0);
  }
  if (cache_bytes > 0) levels.push_back({"L2", cache_bytes / 2});
  const int64_t whole = prober.is_gpu() ? int64_t{1536} << 20 : int64_t{96} << 20;
  levels.push_back({"memory", std::min(whole, prober.available_bytes() / 4)});
  return levels;
}

// A kernel, and what is known of its reading before it is timed.
struct Planned {
  KernelJob job;
  Reading reading;
};

// Of each level of the device's memory.
std::vector<Planned> DeviceStreams(const Prober& prober) {
  std::vector<Planned> out;
  for (const LevelSize& level : DeviceLevels(prober)) {
    for (const Stream& stream : kStreams) {
      const int64_t rows = std::max<int64_t>(level.bytes / stream.arrays / 4096, 1);
      const std::string what = fmt::format("{} {} {}", FormatReadingKind(stream.kind), level.name,
                                           FormatWorkingSet(level.bytes));
      Planned& planned = out.emplace_back();
      planned.job = {what, [stream, bytes = level.bytes] { return StreamGraph(stream, bytes); }};
      planned.reading.kind = stream.kind;
      planned.reading.level = level.name;
      planned.reading.bytes = rows * 4096 * stream.arrays;
    }
  }
  return out;
}

// Of dtypes with and without matrix units.
std::vector<Planned> Products(const Prober& prober) {
  struct Row {
    const char* dtype;
    int64_t bytes;
    bool matrix_units;
  };
  const Row rows[] = {{"f32", 4, false}, {"f16", 2, true},   {"f16", 2, false},
                      {"bf16", 2, true}, {"bf16", 2, false}, {"f64", 8, false}};
  std::vector<Planned> out;
  for (const Row& row : rows) {
    const auto is_input = [&](const hal::MatrixShape& shape) {
      return shape.input_dtype == row.dtype;
    };
    // No kernel for a processor uses its tiles (AMX).
    const auto& shapes = prober.device().capabilities().matrix_shapes;
    const bool has_units = prober.is_gpu() && std::any_of(shapes.begin(), shapes.end(), is_input);
    if (row.matrix_units && !has_units) continue;
    // Long enough for a rate, short enough for a probe.
    const int64_t size = !prober.is_gpu()   ? (prober.is_host() ? 1024 : 256)
                         : row.matrix_units ? 8192
                                            : 4096;
    const std::string what = fmt::format("matmul {} {}, {}", row.dtype, size,
                                         row.matrix_units ? "matrix units" : "scalar units");
    const std::string type = fmt::format("{}[{}, {}]", row.dtype, size, size);
    const std::string graph = fmt::format(
        "graph g(%a: {0}, %b: {0}) -> (\"y\" = %y) {{\n  %y = matmul %a, %b : {0}\n}}\n", type);
    Planned& planned = out.emplace_back();
    // A library would use them for what is narrower than f32, and sums f32 without them.
    const bool has_libraries = row.matrix_units || row.dtype == std::string_view("f32");
    planned.job = {what, [graph] { return graph; }, row.matrix_units, prober.options().tune,
                   has_libraries};
    planned.reading.kind = ReadingKind::kMatmul;
    planned.reading.dtype = row.dtype;
    planned.reading.matrix_units = row.matrix_units;
    planned.reading.size = size;
    planned.reading.bytes = 3 * size * size * row.bytes;
    planned.reading.operations = 2 * std::pow(static_cast<double>(size), 3);
  }
  return out;
}

std::vector<KernelJob> JobsOf(std::vector<Planned> all) {
  std::vector<KernelJob> jobs;
  for (Planned& planned : all) jobs.push_back(std::move(planned.job));
  return jobs;
}

Status TimeAll(Prober& prober, std::vector<Planned> all) {
  for (Planned& planned : all) {
    const std::string what = planned.job.what;
    if (!prober.Begins(what)) continue;
    const Status timed = TimeKernel(prober, planned.job, planned.reading);
    if (timed.ok()) {
      prober.Add(std::move(planned.reading));
    } else {
      HY_TRY(prober.Note(what, timed));
    }
  }
  return OkStatus();
}

}  // namespace

Status ProbeLatencies(Prober& prober) {
  if (!prober.options().with_kernels) prober.LeaveOut();
  if (!prober.options().with_kernels || !prober.Begins("dispatch and wait")) return OkStatus();
  const auto graph = [] {
    return std::string("graph g(%x: f32[16]) -> (\"y\" = %y) {\n  %y = neg %x : f32[16]\n}\n");
  };
  auto made = prober.kernels().Make({"one that does little", graph});
  if (!made.ok()) return prober.Note("dispatch and wait", made.status());
  KernelRun& run = **made;
  const auto measure = [&]() -> Status {
    const DeviceTurn::Hold turn = prober.TakeTurn();
    SampleOptions sampling = prober.Sampling(turn, 0.1);
    sampling.min_count = 50;
    sampling.max_count = 2000;
    // The chain first: it wakes the clock.
    HY_ASSIGN(const Spread chain, Sample([&] { return run.Time(kChain); }, sampling));
    sampling.warm_seconds = 0.02;
    std::vector<double> submits;
    HY_ASSIGN(const Spread one, Sample(
                                    [&]() -> Result<double> {
                                      HY_ASSIGN(const double seconds, run.Time(1));
                                      submits.push_back(run.submit_seconds());
                                      return seconds;
                                    },
                                    sampling));
    const auto add = [&](ReadingKind kind, Spread spread) {
      Reading reading;
      reading.kind = kind;
      reading.seconds = spread;
      prober.Add(std::move(reading));
    };
    const auto per =
        1.0 / ((kChain - 1) * static_cast<double>(std::max<size_t>(run.command_count(), 1)));
    Spread dispatch = chain;
    dispatch.median = std::max(chain.median - one.median, 0.0) * per;
    dispatch.mad = (chain.mad + one.mad) * per;
    dispatch.best = std::max(chain.best - one.best, 0.0) * per;
    const Spread submit = Summarize(std::move(submits));
    Spread wait = one;
    wait.median = std::max(one.median - submit.median - dispatch.median, 0.0);
    wait.mad = one.mad + submit.mad + dispatch.mad;
    wait.best = std::max(one.best - submit.best - dispatch.best, 0.0);
    add(ReadingKind::kDispatch, dispatch);
    add(ReadingKind::kSubmit, submit);
    add(ReadingKind::kReplay, one);
    add(ReadingKind::kWait, wait);
    return OkStatus();
  };
  const Status status = measure();
  return status.ok() ? status : prober.Note("dispatch and wait", status);
}

Status ProbeBandwidth(Prober& prober) {
  if (prober.is_host()) return ProbeHostBandwidth(prober);
  if (!prober.options().with_kernels) {
    prober.LeaveOut();
    return OkStatus();
  }
  return TimeAll(prober, DeviceStreams(prober));
}

std::vector<KernelJob> BandwidthJobs(const Prober& prober) {
  if (prober.is_host()) return {};  // whose memory other code measures
  return JobsOf(DeviceStreams(prober));
}

std::vector<KernelJob> ProductJobs(const Prober& prober) { return JobsOf(Products(prober)); }

Status ProbeProducts(Prober& prober) {
  if (!prober.options().with_kernels) {
    prober.LeaveOut();
    return OkStatus();
  }
  return TimeAll(prober, Products(prober));
}

}  // namespace halyard::runtime
