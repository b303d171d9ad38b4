// SPDX-License-Identifier: Apache-2.0
// loop_bench: bandwidth of generated kernels that memory bounds, schedule by schedule, on a GPU.
// Each op goes through lowering, fusion, scheduling and code generation; every candidate schedule
// runs many times in one recording with barriers between. GB/s counts each input once and each
// output once; `of copy` is the share of the bandwidth of the fastest copy seen, by a kernel or by
// the device's own copies.
//
//   loop_bench DEVICE [MIB [DTYPE [OP...]]] [--schedule RECORD]...
//       MIB: of the input, 256; DTYPE: f32, f16, bf16; OP: how names begin; RECORD: tried too,
//       wherever it fits
// Attention and depthwise convolutions have the sizes of models; their operands stay in the
// second-level cache where those are small.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/must.h"
#include "compiler/codegen/codegen.h"
#include "compiler/graph/parser.h"
#include "compiler/loop/lowering.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/pipeline/expand_math.h"
#include "compiler/schedule/schedule.h"
#include "drivers/init.h"
#include "hal/registry.h"
#include "runtime/device_target.h"

namespace halyard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRounds = 9;
constexpr auto kWarmUp = std::chrono::milliseconds(250);
constexpr int kRepeats = 20;  // dispatches of one recording

struct Case {
  std::string name;
  std::string text;  // of a graph
  double flops = 0;  // 0: memory bounds it
};

// Attention of models: batch x heads x queries x keys x depth, "c": causal. 16-bit floats only.
void AddAttention(const std::string& t, std::vector<Case>& cases) {
  struct Shape {
    int64_t batch, heads, queries, keys, depth;
    bool is_causal;
  };
  for (const Shape& s : {Shape{1, 12, 128, 128, 64, false},
                         {32, 12, 128, 128, 64, false},
                         {1, 12, 512, 512, 64, true},
                         {8, 12, 512, 512, 64, true},
                         {1, 12, 197, 197, 64, false},
                         {32, 12, 197, 197, 64, false},
                         {2, 32, 2048, 2048, 128, true},
                         {2, 32, 2048, 2048, 128, false},
                         {4, 32, 1, 4096, 128, false}}) {
    const auto shape = [&](int64_t rows) {
      return fmt::format("{}[{}, {}, {}, {}]", t, s.batch, s.heads, rows, s.depth);
    };
    Case one;
    one.name = fmt::format("attention {}x{}x{}x{}x{}{}", s.batch, s.heads, s.queries, s.keys,
                           s.depth, s.is_causal ? "c" : "");
    one.text = fmt::format(
        "graph g(%q: {0}, %k: {1}, %v: {1}) -> (\"y\" = %y) {{\n  %y = attention %q, %k, %v "
        "{{scale = 0.125, causal = {2}}} : {0}\n}}\n",
        shape(s.queries), shape(s.keys), int{s.is_causal});
    one.flops = 4.0 * static_cast<double>(s.batch * s.heads * s.queries * s.keys * s.depth);
    if (s.is_causal) one.flops /= 2;
    cases.push_back(std::move(one));
  }
}

// Depthwise convolutions of MobileNetV2, EfficientNet-B0 and ConvNeXt-Tiny, and a pool: batch x
// channels x size, window, stride.
void AddWindows(const std::string& t, std::vector<Case>& cases) {
  struct Shape {
    int64_t batch, channels, size, window, stride;
  };
  for (const Shape& s : {Shape{1, 144, 56, 3, 1},
                         {32, 144, 56, 3, 1},
                         {32, 144, 56, 3, 2},
                         {32, 240, 28, 5, 1},
                         {32, 96, 56, 7, 1},
                         {1, 384, 14, 7, 1}}) {
    const int64_t pad = s.window / 2, out = (s.size + 2 * pad - s.window) / s.stride + 1;
    const auto shape = [&](int64_t size) {
      return fmt::format("{}[{}, {}, {}, {}]", t, s.batch, s.channels, size, size);
    };
    cases.push_back(
        {fmt::format("depthwise {}x{}x{} {}/{}", s.batch, s.channels, s.size, s.window, s.stride),
         fmt::format(
             "graph g(%x: {0}, %w: {1}[{2}, 1, {3}, {3}]) -> (\"y\" = %y) {{\n  "
             "%y = conv %x, %w {{strides = [{4}, {4}], dilations = [1, 1], pads_low = [{5}, {5}], "
             "pads_high = [{5}, {5}], groups = {2}}} : {6}\n}}\n",
             shape(s.size), t, s.channels, s.window, s.stride, pad, shape(out))});
  }
}

// `rows` of 4096 elements.
std::vector<Case> Cases(const std::string& t, int64_t rows) {
  const int64_t cols = 4096;
  const std::string full = fmt::format("{}[{}, {}]", t, rows, cols);
  const std::string row = fmt::format("{}[{}, 1]", t, rows);
  const auto graph = [&](const std::string& parameters, const std::string& body) {
    return fmt::format("graph g({}) -> (\"y\" = %y) {{\n{}}}\n", parameters, body);
  };
  const std::string spread = fmt::format("{{shape = [{}, {}]}} : {}", rows, cols, full);
  const auto scalar = [&](const char* name, double value) {
    return fmt::format("  %{0}0 = constant {1}[]{{{2}}}\n  %{0} = broadcast %{0}0 {3}\n", name, t,
                       value, spread);
  };
  std::vector<Case> cases;
  cases.push_back({"neg", graph("%x: " + full, fmt::format("  %y = neg %x : {}\n", full))});
  cases.push_back({"add", graph("%x: " + full + ", %z: " + full,
                                fmt::format("  %y = add %x, %z : {}\n", full))});
  cases.push_back({"bias", graph(fmt::format("%x: {}, %z: {}[{}]", full, t, cols),
                                 fmt::format("  %b = broadcast %z {0}\n  %y = add %x, %b : {1}\n",
                                             spread, full))});
  cases.push_back(
      {"gelu", graph("%x: " + full,
                     scalar("h", 0.70703125) + scalar("one", 1) + scalar("half", 0.5) +
                         fmt::format("  %a = mul %x, %h : {0}\n  %e = erf %a : {0}\n  %p = add %e, "
                                     "%one : {0}\n  %q = mul %x, %p : {0}\n  %y = mul %q, %half : "
                                     "{0}\n",
                                     full))});
  const std::string reduced = fmt::format("{{axes = [1], keep_dims = 1}} : {}", row);
  cases.push_back(
      {"softmax",
       graph("%x: " + full,
             fmt::format("  %m = reduce_max %x {0}\n  %mb = broadcast %m {1}\n  %d = sub %x, %mb : "
                         "{2}\n  %e = exp %d : {2}\n  %s = reduce_sum %e {0}\n  %sb = broadcast %s "
                         "{1}\n  %y = div %e, %sb : {2}\n",
                         reduced, spread, full))});
  cases.push_back(
      {"layer norm",
       graph(
           fmt::format("%x: {0}, %g: {1}[{2}], %b: {1}[{2}]", full, t, cols),
           scalar("n", 1.0 / static_cast<double>(cols)) +
               fmt::format(
                   "  %k = constant {3}[]{{{4}}}\n  %kr = broadcast %k {{shape = [{5}, 1]}} : {6}\n"
                   "  %eps0 = constant {3}[]{{1e-05}}\n  %eps = broadcast %eps0 {{shape = [{5}, "
                   "1]}} : {6}\n"
                   "  %s = reduce_sum %x {0}\n  %mean = mul %s, %kr : {6}\n  %mb = broadcast "
                   "%mean {1}\n  %d = sub %x, %mb : {2}\n  %dd = mul %d, %d : {2}\n  %v = "
                   "reduce_sum %dd {0}\n  %var = mul %v, %kr : {6}\n  %ve = add %var, %eps : {6}\n"
                   "  %r = rsqrt %ve : {6}\n  %rb = broadcast %r {1}\n  %w = mul %d, %rb : {2}\n"
                   "  %gb = broadcast %g {1}\n  %wg = mul %w, %gb : {2}\n  %bb = broadcast %b "
                   "{1}\n  %y = add %wg, %bb : {2}\n",
                   reduced, spread, full, t, 1.0 / static_cast<double>(cols), rows, row))});
  cases.push_back(
      {"row sum", graph("%x: " + full,
                        fmt::format("  %y = reduce_sum %x {{axes = [1]}} : {}[{}]\n", t, rows))});
  cases.push_back({"column sum",
                   graph("%x: " + full,
                         fmt::format("  %y = reduce_sum %x {{axes = [0]}} : {}[{}]\n", t, cols))});
  cases.push_back(
      {"full sum",
       graph("%x: " + full, fmt::format("  %y = reduce_sum %x {{axes = [0, 1]}} : {}[]\n", t))});
  cases.push_back(
      {"transpose",
       graph("%x: " + full,
             fmt::format("  %y = transpose %x {{perm = [1, 0]}} : {}[{}, {}]\n", t, cols, rows))});
  cases.push_back(
      {"sum of 4 rows", graph(fmt::format("%x: {}[4, {}]", t, rows * cols / 4),
                              fmt::format("  %y = reduce_sum %x {{axes = [1]}} : {}[4]\n", t))});
  if (t != "f32") AddAttention(t, cases);
  AddWindows(t, cases);
  return cases;
}

class Bench {
 public:
  Bench(Ref<hal::Device> device, int64_t bytes, std::vector<schedule::ScheduleRecord> more)
      : device_(std::move(device)), target_(runtime::TargetOf(*device_)), more_(std::move(more)) {
    timeline_ = Must(device_->CreateSemaphore(0));
    const Ref<hal::Buffer> a = NewBuffer(bytes), b = NewBuffer(bytes);
    Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
    for (int i = 0; i < kRepeats; ++i) {
      Must(commands->Copy(hal::CommandRange::Direct(a.get(), 0, bytes),
                          hal::CommandRange::Direct(b.get(), 0, bytes)));
      Must(commands->Barrier());
    }
    Must(commands->Finish());
    copy_ = 2 * static_cast<double>(bytes) / Time(commands) / 1e9;
    std::printf("%s\ncopies of the device: %.0f GB/s\n",
                device_->capabilities().identity.name.ValueOr("?").c_str(), copy_);
  }

  void Run(const Case& one) {
    graph::Module module = Must(graph::ParseModule(one.text));
    loop::Function function = Must(loop::LowerGraph(module, 0, {}));
    Must(loop::FuseKernels(function, {}, nullptr));
    int64_t bytes = 0;
    for (const loop::Buffer& buffer : function.buffers)
      if (buffer.role == loop::BufferRole::kInput || buffer.role == loop::BufferRole::kOutput)
        bytes += BytesOf(function, buffer);
    std::printf("%s: %.1f MiB, %zu kernel(s)\n", one.name.c_str(),
                static_cast<double>(bytes) / (1 << 20), function.kernels.size());
    if (function.kernels.size() != 1) {
      std::printf("  not one kernel\n");
      return;
    }
    double best = 0;
    auto records = Must(schedule::EnumerateSchedules(function, 0, target_));
    for (const schedule::ScheduleRecord& record : more_) {
      const bool is_there = std::find(records.begin(), records.end(), record) != records.end();
      if (!is_there && schedule::BuildKernel(function, 0, record, target_).ok()) {
        records.push_back(record);
      }
    }
    for (const schedule::ScheduleRecord& record : records) {
      const double seconds = TimeSchedule(function, record);
      if (seconds <= 0) continue;
      const double rate = static_cast<double>(bytes) / seconds / 1e9;
      best = std::max(best, rate);
      std::printf("  %9.1f us %7.0f GB/s  %5.1f%% of copy  ", seconds * 1e6, rate,
                  100 * rate / copy_);
      if (one.flops > 0) std::printf("%6.1f TFLOP/s  ", one.flops / seconds / 1e12);
      std::printf("%s\n", schedule::FormatSchedule(record).c_str());
    }
    if (one.name == "neg") copy_ = std::max(copy_, best);
    std::fflush(stdout);
  }

 private:
  int64_t BytesOf(const loop::Function& function, const loop::Buffer& buffer) const {
    return *function.exprs->AsConst(buffer.elements) * std::max(1, BitWidth(buffer.dtype) / 8);
  }

  Ref<hal::Buffer> NewBuffer(int64_t bytes) {
    return Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(bytes, 64)));
  }

  double Time(const Ref<hal::CommandBuffer>& commands) {
    std::vector<double> seconds;
    // The clock falls while kernels are compiled: rounds before this time do not count.
    const Clock::time_point warm = Clock::now() + kWarmUp;
    while (seconds.size() < kRounds) {
      const hal::SemaphorePoint wait{timeline_.get(), value_}, signal{timeline_.get(), value_ + 1};
      ++value_;
      const Clock::time_point start = Clock::now();
      Must(device_->Submit(0, {{{&wait, 1}, {&signal, 1}, true}, commands.get(), {}}));
      const hal::SemaphorePoint point{timeline_.get(), value_};
      Must(device_->Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
      const double took = std::chrono::duration<double>(Clock::now() - start).count();
      if (start >= warm) seconds.push_back(took / kRepeats);
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    return seconds[kRounds / 2];
  }

  // Of one run of the kernel; 0 where it does not build.
  double TimeSchedule(const loop::Function& function, const schedule::ScheduleRecord& record) {
    schedule::ScheduledKernel built = Must(schedule::BuildKernel(function, 0, record, target_));
    kernel::Module module;
    for (const kernel::Kernel& kernel : built.kernels)
      module.kernels.push_back(pipeline::ExpandMathFor(kernel, target_));
    Result<std::vector<uint8_t>> image = EmitImage(module, target_);
    if (!image.ok()) {
      std::printf("  %s: %s\n", schedule::FormatSchedule(record).c_str(),
                  image.status().ToString().c_str());
      return 0;
    }
    hal::ExecutableSource source;
    source.format = ImageFormat(target_.kind);
    source.code = *image;
    const Ref<hal::Executable> executable = Must(device_->LoadExecutable(source));
    std::vector<Ref<hal::Buffer>> buffers, workspaces;
    for (const loop::Buffer& buffer : function.buffers)
      buffers.push_back(buffer.role == loop::BufferRole::kLocal
                            ? Ref<hal::Buffer>()
                            : Filled(BytesOf(function, buffer), buffer.dtype));
    for (const schedule::Workspace& workspace : built.workspaces)
      workspaces.push_back(NewBuffer(*function.exprs->AsConst(workspace.bytes)));
    Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
    for (int i = 0; i < kRepeats; ++i) {
      for (const schedule::Dispatch& dispatch : built.dispatches) {
        std::vector<hal::CommandRange> bindings;
        for (const schedule::Binding& binding : dispatch.bindings) {
          hal::Buffer* buffer = binding.kind == schedule::Binding::Kind::kBuffer
                                    ? buffers[binding.index].get()
                                    : workspaces[binding.index].get();
          bindings.push_back(hal::CommandRange::Direct(buffer, 0, buffer->size_bytes()));
        }
        std::vector<int64_t> scalars;
        for (Expr e : dispatch.scalars) scalars.push_back(*function.exprs->AsConst(e));
        hal::DispatchCommand command;
        command.executable = executable.get();
        command.entry = dispatch.kernel;
        for (int axis = 0; axis < 3; ++axis)
          command.grid[axis] = *function.exprs->AsConst(dispatch.grid[axis]);
        command.bindings = bindings;
        command.scalars = scalars;
        command.label = "loop";
        Must(commands->Dispatch(command));
        Must(commands->Barrier());
      }
    }
    Must(commands->Finish());
    return Time(commands);
  }

  // Values between -1 and 1 with varied bits: constant data would flatter the memory.
  Ref<hal::Buffer> Filled(int64_t bytes, DType dtype) {
    Ref<hal::Buffer> buffer = NewBuffer(bytes);
    std::vector<uint8_t> host(static_cast<size_t>(std::min<int64_t>(bytes, 8 << 20)));
    uint64_t state = 88172645463325252ull;
    const size_t size = static_cast<size_t>(std::max(1, BitWidth(dtype) / 8));
    for (size_t at = 0; at + size <= host.size(); at += size) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      // The sign, an exponent below that of 1 and a random mantissa.
      uint32_t bits = dtype == DType::kF32    ? 0x3e800000u | (state & 0x807fffffu)
                      : dtype == DType::kBF16 ? 0x3e80u | (state & 0x807fu)
                                              : 0x3400u | (state & 0x83ffu);
      std::memcpy(host.data() + at, &bits, size);
    }
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(host.size())) {
      const int64_t part = std::min<int64_t>(bytes - at, static_cast<int64_t>(host.size()));
      const hal::SemaphorePoint wait{timeline_.get(), value_}, signal{timeline_.get(), value_ + 1};
      ++value_;
      Must(device_->QueueUpdate(0, {{&wait, 1}, {&signal, 1}},
                                std::span(host).first(static_cast<size_t>(part)),
                                {buffer.get(), at, part}));
      Must(device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    }
    return buffer;
  }

  const Ref<hal::Device> device_;
  const Target target_;
  const std::vector<schedule::ScheduleRecord> more_;
  Ref<hal::Semaphore> timeline_;
  uint64_t value_ = 0;
  double copy_ = 0;
};

int Main(int argc, char** argv) {
  std::vector<std::string> names;
  std::vector<schedule::ScheduleRecord> more;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--schedule") == 0 && i + 1 < argc) {
      more.push_back(Must(schedule::ParseSchedule(argv[++i])));
    } else {
      names.emplace_back(argv[i]);
    }
  }
  if (names.empty()) {
    std::fprintf(stderr, "usage: loop_bench DEVICE [MIB [DTYPE [OP...]]] [--schedule RECORD]...\n");
    return 1;
  }
  const int64_t mib = names.size() > 1 ? std::max(1, std::atoi(names[1].c_str())) : 256;
  const std::string dtype = names.size() > 2 ? names[2] : "f32";
  const int64_t width = BitWidth(Must(ParseDType(dtype))) / 8;
  hal::DriverRegistry registry;
  Must(RegisterAllDrivers(&registry));
  Bench bench(Must(registry.OpenDevice(names[0])), mib << 20, more);
  for (const Case& one : Cases(dtype, (mib << 20) / width / 4096)) {
    bool wanted = names.size() <= 3 || one.name == "neg";
    for (size_t i = 3; i < names.size(); ++i) wanted |= one.name.starts_with(names[i]);
    if (wanted) bench.Run(one);
  }
  return 0;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) { return halyard::Main(argc, argv); }
