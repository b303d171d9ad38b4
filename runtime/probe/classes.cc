// SPDX-License-Identifier: Apache-2.0
// What kernels of each class of op take at sizes that models have, timed as runs time theirs, so
// that both can be compared: placement corrects its model of costs by them (place::FitEfficiency).
#include <algorithm>
#include <string>

#include "compiler/place/prediction.h"
#include "runtime/probe/prober.h"

namespace halyard::runtime {
namespace {

// As the text of a constant; of one value it would be folded.
std::string Weights(int64_t count) {
  std::string text;
  text.reserve(static_cast<size_t>(count) * 6);
  for (int64_t i = 0; i < count; ++i) {
    text += i % 3 == 0 ? "0.5" : i % 3 == 1 ? "0.25" : "-0.5";
    if (i + 1 < count) text += ", ";
  }
  return text;
}

std::string Product(int64_t rows, int64_t cols, int64_t depth) {
  return fmt::format(
      "graph g(%x: f32[{0}, {2}]) -> (\"y\" = %y) {{\n"
      "  %w = constant f32[{2}, {1}]{{{3}}}\n"
      "  %y = matmul %x, %w : f32[{0}, {1}] \"y\"\n}}\n",
      rows, cols, depth, Weights(cols * depth));
}

std::string Convolution(int64_t channels, int64_t side, int64_t results, int64_t window,
                        int64_t groups = 1) {
  return fmt::format(
      "graph g(%x: f32[1, {0}, {1}, {1}]) -> (\"y\" = %y) {{\n"
      "  %w = constant f32[{2}, {5}, {3}, {3}]{{{4}}}\n"
      "  %y = conv %x, %w {{strides = [1, 1], pads_low = [{6}, {6}], pads_high = [{6}, {6}], "
      "dilations = [1, 1], groups = {7}}} : f32[1, {2}, {1}, {1}] \"y\"\n}}\n",
      channels, side, results, window, Weights(results * (channels / groups) * window * window),
      channels / groups, window / 2, groups);
}

// Each row without its mean, in units of its deviation, scaled and shifted by weights.
std::string Normalise(int64_t rows, int64_t cols) {
  return fmt::format(
      "graph g(%x: f32[{0}, {1}]) -> (\"y\" = %y) {{\n"
      "  %f0 = constant f32[]{{{2}}}\n"
      "  %g0 = constant f32[{1}]{{{3}}}\n"
      "  %h0 = constant f32[{1}]{{{3}}}\n"
      "  %f = broadcast %f0 {{shape = [{0}, 1]}} : f32[{0}, 1] \"y\"\n"
      "  %s = reduce_sum %x {{axes = [1], keep_dims = 1}} : f32[{0}, 1] \"y\"\n"
      "  %m = mul %s, %f : f32[{0}, 1] \"y\"\n"
      "  %b = broadcast %m {{shape = [{0}, {1}]}} : f32[{0}, {1}] \"y\"\n"
      "  %c = sub %x, %b : f32[{0}, {1}] \"y\"\n"
      "  %q = mul %c, %c : f32[{0}, {1}] \"y\"\n"
      "  %v = reduce_sum %q {{axes = [1], keep_dims = 1}} : f32[{0}, 1] \"y\"\n"
      "  %d = sqrt %v : f32[{0}, 1] \"y\"\n"
      "  %e = broadcast %d {{shape = [{0}, {1}]}} : f32[{0}, {1}] \"y\"\n"
      "  %n = div %c, %e : f32[{0}, {1}] \"y\"\n"
      "  %g = broadcast %g0 {{shape = [{0}, {1}]}} : f32[{0}, {1}] \"y\"\n"
      "  %h = broadcast %h0 {{shape = [{0}, {1}]}} : f32[{0}, {1}] \"y\"\n"
      "  %o = mul %n, %g : f32[{0}, {1}] \"y\"\n"
      "  %y = add %o, %h : f32[{0}, {1}] \"y\"\n}}\n",
      rows, cols, 1.0 / static_cast<double>(cols), Weights(cols));
}

std::string Sum(int64_t rows, int64_t cols) {
  return fmt::format(
      "graph g(%x: f32[{0}, {1}], %z: f32[{0}, {1}]) -> (\"y\" = %y) {{\n"
      "  %s = add %x, %z : f32[{0}, {1}] \"y\"\n"
      "  %y = tanh %s : f32[{0}, {1}] \"y\"\n}}\n",
      rows, cols);
}

// Rows of a table of weights, and what is added to them.
std::string Gather(int64_t rows, int64_t cols, int64_t words) {
  return fmt::format(
      "graph g(%i: i64[{0}], %z: f32[{0}, {1}]) -> (\"y\" = %y) {{\n"
      "  %t = constant f32[{2}, {1}]{{{3}}}\n"
      "  %r = gather %t, %i {{axis = 0}} : f32[{0}, {1}] \"y\"\n"
      "  %y = add %r, %z : f32[{0}, {1}] \"y\"\n}}\n",
      rows, cols, words, Weights(words * cols));
}

// Of heads that stand side by side in the rows of one product, as models have them; with a mask of
// keys or without.
std::string Attention(int64_t rows, int64_t depth, bool has_mask) {
  constexpr int64_t kHeads = 12;
  const int64_t width = kHeads * depth;
  const std::string heads = fmt::format("f32[1, {}, {}, {}]", kHeads, rows, depth);
  const std::string apart = fmt::format("1, {}, {}, {}", rows, kHeads, depth);
  const std::string whole = fmt::format("1, {}, {}", rows, width);
  std::string text = fmt::format("graph g(%x: f32[1, {}, {}]", rows, 3 * width);
  if (has_mask) text += fmt::format(", %m: f32[1, 1, 1, {}]", rows);
  text += ") -> (\"y\" = %y) {\n";
  int64_t start = 0;
  for (const char* name : {"q", "k", "v"}) {
    text += fmt::format(
        "  %{0}s = slice %x {{starts = [0, 0, {1}], sizes = [{2}], steps = [1, 1, 1]}} : f32[{2}] "
        "\"y\"\n"
        "  %{0}r = reshape %{0}s {{shape = [{3}]}} : f32[{3}] \"y\"\n"
        "  %{0} = transpose %{0}r {{perm = [0, 2, 1, 3]}} : {4} \"y\"\n",
        name, start, whole, apart, heads);
    start += width;
  }
  text += fmt::format(
      "  %a = attention %q, %k, %v{0} {{scale = 0.125}} : {1} \"y\"\n"
      "  %t = transpose %a {{perm = [0, 2, 1, 3]}} : f32[{2}] \"y\"\n"
      "  %y = reshape %t {{shape = [{3}]}} : f32[{3}] \"y\"\n}}\n",
      has_mask ? ", %m" : "", heads, apart, whole);
  return text;
}

struct Kernel {
  const char* what;
  std::string (*graph)();
};
// The small ones first: where time ends, every class has one.
constexpr Kernel kKernels[] = {
    {"product, 128 x 384 x 384", [] { return Product(128, 384, 384); }},
    {"convolution, 64 x 56 x 56", [] { return Convolution(64, 56, 64, 3); }},
    {"normalised rows, 128 x 384", [] { return Normalise(128, 384); }},
    {"tanh of a sum, 128 x 384", [] { return Sum(128, 384); }},
    {"attention, 12 x 128 x 32", [] { return Attention(128, 32, true); }},
    {"product, 128 x 1024 x 512", [] { return Product(128, 1024, 512); }},
    {"convolution, 256 x 14 x 14", [] { return Convolution(256, 14, 256, 3); }},
    {"normalised rows, 1024 x 1024", [] { return Normalise(1024, 1024); }},
    {"tanh of a sum, 1024 x 1024", [] { return Sum(1024, 1024); }},
    {"attention, 12 x 384 x 64", [] { return Attention(384, 64, true); }},
    {"attention, 12 x 197 x 64", [] { return Attention(197, 64, false); }},
    {"product, 197 x 768 x 768", [] { return Product(197, 768, 768); }},
    {"product, 1 x 1000 x 768", [] { return Product(1, 1000, 768); }},
    {"rows of a table, 128 x 384", [] { return Gather(128, 384, 1024); }},
    {"convolution of points, 96 x 28 x 28", [] { return Convolution(96, 28, 192, 1); }},
    {"convolution of channels, 192 x 28 x 28", [] { return Convolution(192, 28, 192, 3, 192); }},
    {"convolution of one point, 1152 x 48", [] { return Convolution(1152, 1, 48, 1); }},
};

// Of the largest cache that the device tells.
int64_t LargestCache(const Prober& prober) {
  int64_t bytes = 0;
  for (const hal::Cache& cache : prober.device().capabilities().caches) {
    bytes = std::max(bytes, cache.size_bytes.ValueOr(0));
  }
  return bytes;
}

// With nothing of its weights in the caches. A GPU writes over twice its largest cache; where the
// API tells none, over as much as the GPUs of these years have. On a processor that takes too long,
// and its noise hides the kernel: it reads other weights each time, one and a half times as much as
// its largest cache together.
Result<double> TimeCold(const Prober& prober, KernelRun& run) {
  const int64_t cache = LargestCache(prober);
  if (prober.is_gpu())
    return run.TimeCold(std::clamp(2 * cache, int64_t{128} << 20, int64_t{1} << 30));
  return run.TimeWithOtherWeights(
      std::min({cache + cache / 2, int64_t{1} << 29, prober.available_bytes() / 4}));
}

// A short probe has no time for a processor's.
bool CanBeCold(const Prober& prober, const KernelRun& run) {
  if (prober.is_gpu()) return true;
  return !prober.options().is_short && LargestCache(prober) > 0 && run.weight_bytes() > 0;
}

// Twice where weights can be cold: with all of them in the caches, and with none.
Status TimeClass(Prober& prober, const KernelJob& job) {
  HY_ASSIGN(auto run, prober.kernels().Make(job));
  HY_ASSIGN(const place::KernelPrediction prediction, run->Prediction());
  const DeviceTurn::Hold turn = prober.TakeTurn();
  SampleOptions sampling = prober.Sampling(turn, 0.05);
  // A GPU's cores share the cache that inputs are in, whoever wrote them.
  const auto time = [&] { return prober.is_gpu() ? run->TimeOne() : run->TimeFed(); };
  Reading reading;
  HY_ASSIGN(reading.seconds, Sample(time, sampling));
  reading.kind = ReadingKind::kKernel;
  reading.op_class = place::FormatOpClass(prediction.work.op_class);
  reading.dtype = FormatDType(prediction.work.dtype);
  reading.operations = prediction.work.flops;
  reading.bytes = static_cast<int64_t>(prediction.work.bytes);
  reading.results = static_cast<int64_t>(prediction.work.results);
  reading.rows = static_cast<int64_t>(prediction.work.rows);
  reading.columns = static_cast<int64_t>(prediction.work.columns);
  reading.clock_hz = prober.ReadClock();
  if (reading.seconds.median > 0) prober.Add(reading);
  const std::string cold = fmt::format("{}, cold", job.what);
  if (!CanBeCold(prober, *run) || !prober.Begins(cold)) return OkStatus();
  sampling.warm_seconds = 0;
  HY_ASSIGN(reading.seconds, Sample([&] { return TimeCold(prober, *run); }, sampling));
  reading.kind = ReadingKind::kColdKernel;
  if (reading.seconds.median > 0) prober.Add(std::move(reading));
  return OkStatus();
}

}  // namespace

std::vector<KernelJob> ClassJobs(const Prober& prober) {
  std::vector<KernelJob> jobs;
  for (const Kernel& kernel : kKernels)
    jobs.push_back({kernel.what, kernel.graph, true, prober.options().tune});
  return jobs;
}

Status ProbeClasses(Prober& prober) {
  if (!prober.options().with_kernels) {
    prober.LeaveOut();
    return OkStatus();
  }
  if (prober.is_host()) HY_TRY(ProbeInterpreter(prober));
  for (const KernelJob& job : ClassJobs(prober)) {
    if (!prober.Begins(job.what)) continue;
    const Status timed = TimeClass(prober, job);
    if (!timed.ok()) HY_TRY(prober.Note(job.what, timed));
  }
  return OkStatus();
}

}  // namespace halyard::runtime
