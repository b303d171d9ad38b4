// SPDX-License-Identifier: Apache-2.0
// contraction_bench: the contractions of models on a GPU, schedule by schedule. Reads Loop IR as
// hy-opt prints it after `fuse`, times every distinct contraction with the first schedules of the
// analytic model, and writes a table that the model can be fitted to.
//
// Each schedule runs many times in one recording with barriers between. Constants have as many
// copies as leave the second-level cache between two uses, as in a run of the whole model; all
// other operands stay where the kernel before left them. Results are compared with those of the
// plainest schedule, up to the rounding of their type.
//
//   contraction_bench DEVICE TABLE.tsv [OPTION]... FILE.ir...
//   contraction_bench DEVICE TABLE.tsv [OPTION]... MxNxK:TYPE[:EPILOGUE]...
//   contraction_bench TARGET FOLDER [OPTION]... FILE.ir...
//
// OPTION is --schedules N, the number of them; --schedule RECORD, this one too, wherever it fits,
// whether or not the model would offer it; --symbol NAME=N, an open size of the files (1 where it
// is not given), which the kernels leave open; --all, every kernel, not only contractions, with
// what the tuner would try; --check, results alone, whose times are 0; or --library. Exits 4 where
// results differ.
//
// With --library, products of the vendor's library (cuBLASLt) take part, as whole kernels: where
// the library lacks a part of the epilogue, its product and our kernel for the rest are timed
// together. TYPE is f32, f16, bf16 or f16-f32 (a result in f32); EPILOGUE none, bias, relu, gelu
// (bias and GELU by tanh), erf (bias and GELU by erf) or sum (bias and a residual). A is M x K, B K
// x N, both rows first; a T before the TYPE (MxNxK:Tf16) turns B round.
//
// The last form needs no device: it compiles for a named target (cuda-sm90) and writes the images.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/gpu_image.h"
#include "base/parallel.h"
#include "base/parse_number.h"
#include "bench/must.h"
#include "compiler/codegen/cuda/emit.h"
#include "compiler/codegen/spirv/emit.h"
#include "compiler/loop/text.h"
#include "compiler/pipeline/canonical_kernel.h"
#include "compiler/pipeline/expand_math.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/gemv.h"
#include "compiler/schedule/gpu/library_call.h"
#include "compiler/schedule/schedule.h"
#include "drivers/init.h"
#include "hal/registry.h"
#include "runtime/device_target.h"

namespace halyard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr int kMaxRepeats = 100;              // dispatches of one recording
constexpr double kRecordingSeconds = 400e-6;  // about
constexpr int64_t kColdBytes = 160 << 20;     // more than any second-level cache keeps
constexpr double kHopeless = 2.5;             // times the best so far: one sample is enough

struct Source {
  std::string name;
  ExprArena exprs;
  std::optional<loop::Function> function;
};

struct Candidate {
  schedule::ScheduleRecord record;
  double predicted_ns = 0;
  schedule::ScheduledKernel built;
  std::vector<uint8_t> image;
  std::string failure;
};

// One distinct contraction.
struct Case {
  Source* source = nullptr;
  uint32_t kernel = 0;
  int64_t count = 1;  // in the model
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool is_convolution = false;
  std::vector<Candidate> candidates;
};

std::vector<std::pair<schedule::ScheduleRecord, double>> Ranked(const loop::Function& function,
                                                                uint32_t kernel,
                                                                const schedule::Problem& problem,
                                                                const Target& target) {
  const loop::Kernel& source = function.kernels[kernel];
  auto ranked = schedule::RankGpuContraction(function, source, problem, target);
  auto more = schedule::RankGemv(function, source, problem, target);
  ranked.insert(ranked.begin(), more.begin(), more.end());
  return ranked;
}

// The Loop IR of "MxNxK:TYPE[:EPILOGUE]"; empty where the text is something else.
std::string ProductText(const std::string& name) {
  long long m = 0, n = 0, k = 0;
  char type_text[16] = "", epilogue_text[16] = "none";
  if (std::sscanf(name.c_str(), "%lldx%lldx%lld:%15[^:]:%15s", &m, &n, &k, type_text,
                  epilogue_text) < 4) {
    return "";
  }
  std::string type = type_text;
  const std::string epilogue = epilogue_text;
  const bool is_turned = type[0] == 'T';
  if (is_turned) type.erase(0, 1);
  const size_t dash = type.find('-');
  const std::string output = dash == std::string::npos ? type : type.substr(dash + 1);
  type = type.substr(0, dash);
  std::string text = "function {\n";
  text += fmt::format("  buffer a: {}[{}] input\n  buffer b: {}[{}] constant 0\n", type, m * k,
                      type, n * k);
  text += fmt::format("  buffer bias: {}[{}] constant 1\n  buffer r: {}[{}] input\n", type, n,
                      output, m * n);
  text += fmt::format("  buffer c: {}[{}] output\n", output, m * n);
  text += "  kernel product contraction(m: i; n: j; k: l; product: %1, %2; sum: %0) {\n";
  text += fmt::format("  parallel i < {} {{\n  parallel j < {} {{\n", m, n);
  text += fmt::format("  %0 = reduce sum l < {} {{\n", k);
  const bool is_narrow = type != "f32";
  text += fmt::format("  %{} = load a[{}*i + l]\n", is_narrow ? 3 : 1, k);
  if (is_narrow) text += "  %1 = convert.f32 %3\n";
  text += is_turned ? fmt::format("  %{} = load b[{}*j + l]\n", is_narrow ? 4 : 2, k)
                    : fmt::format("  %{} = load b[j + {}*l]\n", is_narrow ? 4 : 2, n);
  if (is_narrow) text += "  %2 = convert.f32 %4\n";
  text += "  %5 = mul %1, %2\n  yield %5\n  }\n";
  std::string last = "%0";
  if (epilogue != "none") {
    text += "  %10 = load bias[j]\n";
    if (is_narrow) text += "  %11 = convert.f32 %10\n";
    text += fmt::format("  %12 = add %0, {}\n", is_narrow ? "%11" : "%10");
    last = "%12";
  }
  if (epilogue == "relu") {
    text += "  %13 = const.f32 0.0\n  %14 = max %12, %13\n";
    last = "%14";
  } else if (epilogue == "sum") {
    text += fmt::format("  %13 = load r[{}*i + j]\n", n);
    if (output != "f32") text += "  %15 = convert.f32 %13\n";
    text += fmt::format("  %14 = add %12, {}\n", output != "f32" ? "%15" : "%13");
    last = "%14";
  } else if (epilogue == "gelu" || epilogue == "erf") {
    text += "  %20 = const.f32 0.5\n  %21 = mul %12, %20\n  %22 = const.f32 1.0\n";
    if (epilogue == "gelu") {
      text +=
          "  %23 = mul %12, %12\n  %24 = mul %23, %12\n  %25 = const.f32 0.044715\n"
          "  %26 = mul %24, %25\n  %27 = add %12, %26\n  %28 = const.f32 0.7978845608\n"
          "  %29 = mul %27, %28\n  %30 = tanh %29\n";
    } else {
      text += "  %28 = const.f32 0.70710678\n  %29 = mul %12, %28\n  %30 = erf %29\n";
    }
    text += "  %31 = add %30, %22\n  %32 = mul %21, %31\n";
    last = "%32";
  }
  if (output != "f32") {
    text += fmt::format("  %40 = convert.{} {}\n", output, last);
    last = "%40";
  }
  return text + fmt::format("  store c[{}*i + j], {}\n  }}\n  }}\n  }}\n}}\n", n, last);
}

struct Options {
  size_t most = 16;
  std::vector<schedule::ScheduleRecord> more;
  std::map<std::string, int64_t, std::less<>> symbols;
  bool has_all = false;
  bool is_check = false;
  bool has_library = false;
};

class Bench {
 public:
  Bench(Ref<hal::Device> device, Target target, std::string_view place, Options options)
      : device_(std::move(device)),
        target_(std::move(target)),
        options_(std::move(options)),
        place_(place) {
    if (device_ == nullptr) return;
    timeline_ = Must(device_->CreateSemaphore(0));
    table_.open(place_);
    table_ << "file\tkernel\tcount\tm\tn\tk\tbatch\tconv\tpredicted_us\tus\terror\tschedule\n";
  }

  void Read(const std::string& file) {
    auto source = std::make_unique<Source>();
    source->name = file.substr(file.rfind('/') + 1);
    std::string body = ProductText(file);
    if (body.empty()) {
      std::ifstream stream(file);
      std::stringstream text;
      text << stream.rdbuf();
      body = text.str();
    }
    if (const size_t at = body.find("function {"); at != std::string::npos) body = body.substr(at);
    for (const auto& [name, value] : options_.symbols) {
      source->exprs.SetHint(source->exprs.Dim(name), value);
    }
    source->function = Must(loop::ParseFunction(body, source->exprs));
    const loop::Function& function = *source->function;
    std::map<std::string, size_t> known;
    for (uint32_t i = 0; i < function.kernels.size(); ++i) {
      const auto problem = schedule::ReadContraction(function, function.kernels[i], nullptr);
      if (!problem && !options_.has_all) continue;
      Case one;
      one.source = source.get();
      one.kernel = i;
      std::vector<std::pair<schedule::ScheduleRecord, double>> ranked;
      if (problem) {
        one.m = Value(*source, problem->m.extent);
        one.n = Value(*source, problem->n.extent);
        one.k = Value(*source, problem->k.extent);
        one.batch = Value(*source, problem->batch.extent);
        one.is_convolution = problem->k.digits.size() > 1;
        ranked = Ranked(function, i, *problem, target_);
      } else if (const auto records = schedule::EnumerateSchedules(function, i, target_);
                 records.ok()) {
        for (const schedule::ScheduleRecord& record : *records) ranked.emplace_back(record, 0);
      }
      for (const auto& [record, ns] : ranked) {
        if (one.candidates.size() == options_.most) break;
        auto built = schedule::BuildKernel(function, i, record, target_);
        if (!built.ok()) continue;
        one.candidates.push_back({record, ns, std::move(*built), {}, {}});
      }
      for (const schedule::ScheduleRecord& record : options_.more) {
        auto built = schedule::BuildKernel(function, i, record, target_);
        if (built.ok()) one.candidates.push_back({record, 0, std::move(*built), {}, {}});
      }
      if (one.candidates.empty()) continue;
      if (options_.has_library && problem) AddLibrary(function, i, one);
      std::string key = fmt::format("{} {} {} {}", one.m, one.n, one.k, one.batch);
      for (const kernel::Kernel& code : one.candidates[0].built.kernels)
        key += pipeline::CanonicalText(code, false);
      if (const auto [found, is_new] = known.try_emplace(key, cases_.size()); !is_new) {
        ++cases_[found->second].count;
        continue;
      }
      cases_.push_back(std::move(one));
    }
    sources_.push_back(std::move(source));
  }

  void Compile() {
    std::vector<Candidate*> work;
    for (Case& one : cases_)
      for (Candidate& candidate : one.candidates) work.push_back(&candidate);
    const Clock::time_point start = Clock::now();
    Must(ForEachInParallel(work.size(), [&](size_t i) -> Status {
      Candidate& candidate = *work[i];
      kernel::Module module;
      for (const kernel::Kernel& code : candidate.built.kernels) {
        module.kernels.push_back(pipeline::ExpandMathFor(code, target_));
        module.kernels.back().name = fmt::format("k{}", module.kernels.size() - 1);
      }
      auto image = target_.kind == TargetKind::kCuda ? cuda::EmitCudaImage(module, target_)
                                                     : spirv::EmitSpirvImage(module, target_);
      if (image.ok() && !candidate.built.library_calls.empty()) {
        image = AddLibraryCalls(*image, candidate.built.library_calls);
      }
      if (image.ok()) {
        candidate.image = std::move(*image);
      } else {
        candidate.failure = image.status().message();
      }
      return OkStatus();
    }));
    std::printf("%zu contractions, %zu kernels compiled in %.1f s\n", cases_.size(), work.size(),
                std::chrono::duration<double>(Clock::now() - start).count());
    std::fflush(stdout);
  }

  void Write() const {
    int number = 0;
    for (const Case& one : cases_) {
      for (const Candidate& candidate : one.candidates) {
        const std::string file = fmt::format("{}/{}.image", place_, number++);
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(candidate.image.data()),
                   static_cast<std::streamsize>(candidate.image.size()));
        std::printf("%s %s %lldx%lldx%lld predicted %.2f us %s %s\n", file.c_str(),
                    one.source->function->kernels[one.kernel].name.c_str(),
                    static_cast<long long>(one.m), static_cast<long long>(one.n),
                    static_cast<long long>(one.k), candidate.predicted_ns / 1e3,
                    schedule::FormatSchedule(candidate.record).c_str(), candidate.failure.c_str());
      }
    }
  }

  // Whether all results agree.
  bool Time() {
    for (Case& one : cases_) TimeCase(one);
    return is_right_;
  }

 private:
  void AddLibrary(const loop::Function& function, uint32_t kernel, Case& one) {
    std::string why;
    const auto plan = schedule::PlanLibraryCall(function, kernel, target_, &why);
    if (!plan) {
      std::printf("%s: no product of the library: %s\n", function.kernels[kernel].name.c_str(),
                  why.c_str());
      return;
    }
    std::vector<schedule::ScheduleRecord> own;
    for (const Candidate& candidate : one.candidates) own.push_back(candidate.record);
    const auto proposals = Must(device_->ProposeLibraryCalls(plan->call, 3));
    for (const auto& record : schedule::LibrarySchedules(own, proposals)) {
      auto built = schedule::BuildKernel(function, kernel, record, target_);
      if (built.ok()) one.candidates.push_back({record, 0, std::move(*built), {}, {}});
    }
  }

  int64_t Value(const Source& source, Expr e) const {
    return Must(source.exprs.Evaluate(e, [&](Expr symbol) -> std::optional<int64_t> {
      const auto found = options_.symbols.find(source.exprs.SymbolName(symbol));
      return found == options_.symbols.end() ? 1 : found->second;
    }));
  }

  int64_t BytesOf(const Case& one, const loop::Buffer& buffer) const {
    const int64_t width = std::max(1, BitWidth(buffer.dtype) / 8);
    return Value(*one.source, buffer.elements) * width;
  }

  void TimeCase(Case& one) {
    const loop::Function& function = *one.source->function;
    const loop::Kernel& kernel = function.kernels[one.kernel];
    // Buffers of the kernel: copies[buffer] has one or several.
    std::map<loop::BufferId, std::vector<Ref<hal::Buffer>>> copies;
    std::map<loop::BufferId, bool> is_result, is_read;
    std::map<loop::BufferId, std::vector<uint8_t>> given;  // of results that are also read
    double bytes = 0;
    for (const loop::Op& op : kernel.ops) {
      if (op.buffer == loop::kNone) continue;
      is_result[op.buffer] |= op.kind == loop::OpKind::kStore;
      is_read[op.buffer] |= op.kind == loop::OpKind::kLoad;
    }
    for (const auto& [id, stores] : is_result) {
      const loop::Buffer& buffer = function.buffers[id];
      const int64_t size = BytesOf(one, buffer);
      bytes += static_cast<double>(size);
      const bool is_cold = buffer.role == loop::BufferRole::kConstant && size >= (64 << 10);
      const int64_t number = is_cold ? std::clamp<int64_t>(kColdBytes / size, 1, kMaxRepeats) : 1;
      for (int64_t i = 0; i < number; ++i) copies[id].push_back(NewBuffer(size));
      const std::vector<uint8_t> content = RandomBytes(size, buffer.dtype);
      for (const Ref<hal::Buffer>& copy : copies[id]) Upload(*copy, content);
      if (stores && is_read[id]) given[id] = content;
    }
    const double flops =
        2.0 * static_cast<double>(one.m * one.n) * static_cast<double>(one.k * one.batch);
    const double floor = std::max(bytes / 4e12, flops / 600e12);
    const int repeats = static_cast<int>(
        std::clamp(kRecordingSeconds / (floor * 2 + 2e-6), 10.0, double{kMaxRepeats}));
    std::printf("%s %s x%lld: %lldx%lldx%lld batch %lld%s, floor %.1f us\n",
                one.source->name.c_str(), kernel.name.c_str(), static_cast<long long>(one.count),
                static_cast<long long>(one.m), static_cast<long long>(one.n),
                static_cast<long long>(one.k), static_cast<long long>(one.batch),
                one.is_convolution ? " convolution" : "", floor * 1e6);
    double best = 1e9;
    std::map<loop::BufferId, std::vector<double>> expected;
    // The plainest first: its results are what the others are compared with.
    std::vector<size_t> order(one.candidates.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto plain = [&](size_t i) {
        const schedule::ScheduleRecord& r = one.candidates[i].record;
        if (r.kind == schedule::ScheduleKind::kGpuLibrary) return INT32_MAX;  // what is compared
        const bool is_matrix = r.kind == schedule::ScheduleKind::kGpuMatrix ||
                               r.kind == schedule::ScheduleKind::kGpuWgmma;
        return is_matrix ? 1 + int{r.async} + r.tile.split : 0;
      };
      return plain(a) < plain(b);
    });
    for (const size_t index : order) {
      Candidate& candidate = one.candidates[index];
      const std::string text = schedule::FormatSchedule(candidate.record);
      if (candidate.image.empty()) {
        std::printf("  %s: %s\n", text.c_str(), candidate.failure.c_str());
        continue;
      }
      // One run over known operands is compared; the timed ones may add to a value in its place.
      for (const auto& [id, stores] : is_result) {
        if (!stores) continue;
        if (is_read[id]) {
          Upload(*copies[id][0], given[id]);
        } else {
          Poison(*copies[id][0]);
        }
      }
      double error = 0;
      Run(one, candidate, copies, 0, best);
      for (const auto& [id, stores] : is_result) {
        if (!stores || !IsFloat(function.buffers[id].dtype)) continue;
        const loop::Buffer& result = function.buffers[id];
        const std::vector<double> got =
            Download(*copies[id][0], BytesOf(one, result), result.dtype);
        std::vector<double>& want = expected[id];
        if (want.empty()) want = got;
        for (size_t i = 0; i < got.size(); ++i) {
          const double off = std::fabs(got[i] - want[i]) / (1 + std::fabs(want[i]));
          error = std::isnan(off) ? 1e9 : std::max(error, off);
        }
      }
      const double seconds = options_.is_check ? 0 : Run(one, candidate, copies, repeats, best);
      best = std::min(best, seconds);
      std::printf("  %8.2f us  error %.1e  predicted %8.2f  %s%s\n", seconds * 1e6, error,
                  candidate.predicted_ns / 1e3, text.c_str(), error > 0.02 ? "  WRONG" : "");
      is_right_ &= error <= 0.02;
      table_ << one.source->name << '\t' << kernel.name << '\t' << one.count << '\t' << one.m
             << '\t' << one.n << '\t' << one.k << '\t' << one.batch << '\t' << one.is_convolution
             << '\t' << candidate.predicted_ns / 1e3 << '\t' << seconds * 1e6 << '\t' << error
             << '\t' << text << '\n';
    }
    table_.flush();
    std::fflush(stdout);
  }

  // Seconds of one of `repeats` dispatches; with 0 repeats it is run once and not timed.
  double Run(const Case& one, const Candidate& candidate,
             const std::map<loop::BufferId, std::vector<Ref<hal::Buffer>>>& copies, int repeats,
             double best) {
    hal::ExecutableSource source;
    source.format = target_.kind == TargetKind::kCuda ? "cuda-image" : "vulkan-image";
    const auto& formats = device_->capabilities().executable_formats;
    if (!formats.empty()) source.format = formats.front();
    source.code = candidate.image;
    const Ref<hal::Executable> executable = Must(device_->LoadExecutable(source));
    for (const std::string& note : executable->notes()) std::printf("  %s\n", note.c_str());
    std::vector<Ref<hal::Buffer>> constants;
    for (const schedule::PackedConstant& constant : candidate.built.constants) {
      const loop::Buffer& packed = one.source->function->buffers[constant.buffer];
      const auto bytes = Must(schedule::PackConstant(
          constant.packing, RandomBytes(BytesOf(one, packed), packed.dtype)));
      constants.push_back(NewBuffer(constant.bytes));
      Upload(*constants.back(), bytes);
    }
    std::vector<Ref<hal::Buffer>> workspaces;
    for (const schedule::Workspace& workspace : candidate.built.workspaces) {
      const int64_t bytes = Value(*one.source, workspace.bytes);
      workspaces.push_back(NewBuffer(bytes));
      if (workspace.is_zero)
        Upload(*workspaces.back(), std::vector<uint8_t>(static_cast<size_t>(bytes)));
    }
    const auto record = [&](int times) {
      Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
      for (int i = 0; i < times; ++i) {
        for (const schedule::Dispatch& dispatch : candidate.built.dispatches) {
          std::vector<hal::CommandRange> bindings;
          for (const schedule::Binding& binding : dispatch.bindings) {
            hal::Buffer* buffer = nullptr;
            if (binding.kind == schedule::Binding::Kind::kBuffer) {
              const auto& all = copies.at(binding.index);
              buffer = all[static_cast<size_t>(i) % all.size()].get();
            } else if (binding.kind == schedule::Binding::Kind::kConstant) {
              buffer = constants[binding.index].get();
            } else {
              buffer = workspaces[binding.index].get();
            }
            bindings.push_back(hal::CommandRange::Direct(buffer, 0, buffer->size_bytes()));
          }
          std::vector<int64_t> scalars;
          for (Expr e : dispatch.scalars) scalars.push_back(Value(*one.source, e));
          hal::DispatchCommand command;
          command.executable = executable.get();
          command.entry = dispatch.kernel;
          for (int axis = 0; axis < 3; ++axis)
            command.grid[axis] = Value(*one.source, dispatch.grid[axis]);
          command.bindings = bindings;
          command.scalars = scalars;
          command.label = "contraction";
          Must(commands->Dispatch(command));
          Must(commands->Barrier());
        }
      }
      Must(commands->Finish());
      return commands;
    };
    if (repeats == 0) return Once(record(1));
    const Ref<hal::CommandBuffer> few = record(10), many = record(repeats);
    Once(few);
    const double first = Once(few) / 10;
    if (first > kHopeless * best) return first;
    std::vector<double> seconds;
    for (int round = 0; round < kRounds + 1; ++round) {
      const double took = Once(many) / repeats;
      if (round >= 1) seconds.push_back(took);
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    return seconds[kRounds / 2];
  }

  double Once(const Ref<hal::CommandBuffer>& commands) {
    const hal::SemaphorePoint wait{timeline_.get(), value_}, signal{timeline_.get(), value_ + 1};
    ++value_;
    const Clock::time_point start = Clock::now();
    Must(device_->Submit(0, {{{&wait, 1}, {&signal, 1}, true}, commands.get(), {}}));
    Must(device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Ref<hal::Buffer> NewBuffer(int64_t bytes) {
    return Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(bytes, 64)));
  }

  template <typename Queue>
  void Do(Queue queue) {
    const hal::SemaphorePoint wait{timeline_.get(), value_}, signal{timeline_.get(), value_ + 1};
    ++value_;
    Must(queue(hal::Ordering{{&wait, 1}, {&signal, 1}}));
    Must(device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  }

  void Upload(hal::Buffer& buffer, const std::vector<uint8_t>& content) {
    constexpr int64_t kPiece = 8 << 20;
    const auto bytes = static_cast<int64_t>(content.size());
    for (int64_t at = 0; at < bytes; at += kPiece) {
      const int64_t part = std::min(bytes - at, kPiece);
      Do([&](const hal::Ordering& ordering) {
        return device_->QueueUpdate(
            0, ordering,
            std::span(content).subspan(static_cast<size_t>(at), static_cast<size_t>(part)),
            {&buffer, at, part});
      });
    }
  }

  // NaNs of every float type.
  void Poison(hal::Buffer& buffer) {
    Do([&](const hal::Ordering& ordering) {
      return device_->QueueFill(0, ordering, {&buffer, 0, buffer.size_bytes()}, 0xff, 1);
    });
  }

  // The last of the `size` bytes that are in the buffer.
  std::vector<double> Download(hal::Buffer& buffer, int64_t size, DType dtype) {
    const int64_t bytes = std::min<int64_t>(size, 4 << 20);
    const Ref<hal::Buffer> host = Must(device_->AllocateBuffer(hal::MemoryKind::kStaging, bytes));
    Do([&](const hal::Ordering& ordering) {
      return device_->QueueCopy(0, ordering, {&buffer, size - bytes, bytes},
                                {host.get(), 0, bytes});
    });
    Must(host->InvalidateMapped(0, bytes));
    const uint8_t* data = Must(host->Map(0, bytes));
    const size_t width = static_cast<size_t>(BitWidth(dtype)) / 8;
    std::vector<double> values;
    for (size_t at = 0; at + width <= static_cast<size_t>(bytes); at += width) {
      uint16_t half = 0;
      float single = 0;
      double value = 0;
      if (width == 2) std::memcpy(&half, data + at, 2);
      if (width == 4) std::memcpy(&single, data + at, 4);
      if (dtype == DType::kF16) value = F32FromF16(half);
      if (dtype == DType::kBF16) value = F32FromBF16(half);
      if (dtype == DType::kF32) value = single;
      values.push_back(value);
    }
    return values;
  }

  // Floats between -1/2 and 1/2 with varied bits; integers are 0.
  static std::vector<uint8_t> RandomBytes(int64_t bytes, DType dtype) {
    std::vector<uint8_t> host(static_cast<size_t>(bytes));
    if (!IsFloat(dtype)) return host;
    uint64_t state = 88172645463325252ull;
    const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
    for (size_t at = 0; at + size <= host.size(); at += size) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      const uint32_t bits = dtype == DType::kF32    ? 0x3e800000u | (state & 0x807fffffu)
                            : dtype == DType::kBF16 ? 0x3e80u | (state & 0x807fu)
                                                    : 0x3400u | (state & 0x83ffu);
      std::memcpy(host.data() + at, &bits, std::min<size_t>(size, 4));
    }
    return host;
  }

  const Ref<hal::Device> device_;
  const Target target_;
  const Options options_;
  const std::string place_;
  std::ofstream table_;
  Ref<hal::Semaphore> timeline_;
  uint64_t value_ = 0;
  bool is_right_ = true;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<Case> cases_;
};

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> files;
  for (int i = 3; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--schedules" && i + 1 < argc) {
      options.most = static_cast<size_t>(std::max(1, std::atoi(argv[++i])));
    } else if (option == "--schedule" && i + 1 < argc) {
      options.more.push_back(Must(schedule::ParseSchedule(argv[++i])));
    } else if (option == "--symbol" && i + 1 < argc) {
      const auto symbol = ParseNamedNumber(argv[++i]);
      if (!symbol) Must(InvalidArgument("--symbol '{}' is not NAME=N.", argv[i]));
      options.symbols[symbol->first] = symbol->second;
    } else if (option == "--all") {
      options.has_all = true;
    } else if (option == "--check") {
      options.is_check = true;
    } else if (option == "--library") {
      options.has_library = true;
    } else {
      files.push_back(argv[i]);
    }
  }
  if (files.empty()) {
    std::fprintf(
        stderr,
        "usage: contraction_bench DEVICE TABLE.tsv [--schedules N] [--schedule RECORD]... "
        "[--symbol NAME=N]... [--all] [--check] [--library] FILE.ir|MxNxK:TYPE[:EPILOGUE]...\n");
    return 1;
  }
  hal::DriverRegistry registry;
  Must(RegisterAllDrivers(&registry));
  const Result<Target> named = ParseTarget(argv[1]);
  Ref<hal::Device> device;
  if (!named.ok()) device = Must(registry.OpenDevice(argv[1]));
  options.has_library &= device != nullptr;
  Bench bench(device, named.ok() ? *named : runtime::TargetOf(*device), argv[2],
              std::move(options));
  for (const std::string& file : files) bench.Read(file);
  bench.Compile();
  if (!named.ok()) return bench.Time() ? 0 : 4;
  bench.Write();
  return 0;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) { return halyard::Main(argc, argv); }
