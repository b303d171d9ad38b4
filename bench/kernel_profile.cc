// SPDX-License-Identifier: Apache-2.0
// kernel_profile: where the time of a compiled model goes. Runs the commands of a program one by
// one in program order, so that each finds its operands where its producer left them, and prints
// for each kernel the best and the median time, its share, the bytes that it names, and for
// contractions the arithmetic; then the error of placement's cost model by class of op. The sum
// leaves out what joins commands, and a command alone pays for one submission: small kernels look a
// little slower here.
//
//   kernel_profile MODEL.onnx [--symbol NAME=VALUE]... [--rounds N] [--no-tune] [--rows N]
//
// HALYARD_COMPILER_LIBRARY names the compiler library (build/release/lib/libhalyard_compiler.so).
// Obeys HALYARD_THREADS and HALYARD_CACHE_DIR. Inputs and activations hold small random floats.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/parse_number.h"
#include "compiler/place/prediction.h"
#include "runtime/compile.h"
#include "runtime/instance.h"

namespace halyard {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string model;
  std::map<std::string, int64_t> symbols;
  int rounds = 20;
  size_t rows = 40;
  bool tune = true;
};

struct Row {
  std::string label;
  Ref<hal::CommandBuffer> commands;
  int64_t bytes = 0;
  double flops = 0;  // 0: unknown
  std::string schedule;
  std::vector<double> seconds;

  double Best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double Median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// The number behind " kc=" in a schedule record; 0 where none stands.
int64_t SumLength(const std::string& schedule) {
  const size_t at = schedule.find(" kc=");
  return at == std::string::npos ? 0 : std::atoll(schedule.c_str() + at + 4);
}

class Profiler {
 public:
  Profiler(std::shared_ptr<runtime::LoadedProgram> loaded, const Arguments& arguments)
      : loaded_(std::move(loaded)), arguments_(arguments), device_(*loaded_->device(0)) {}

  Status Run() {
    const program::Program& program = loaded_->program();
    const program::Entry& entry = program.entries.front();
    for (const program::Symbol& symbol : program.symbols) {
      const auto found = arguments_.symbols.find(symbol.name);
      symbols_.push_back(found != arguments_.symbols.end() ? found->second : symbol.min);
    }
    HY_TRY(MakeRanges(entry));
    for (const program::Block& block : entry.blocks) {
      for (const program::Command& command : block.commands) {
        if (command.kind == program::CommandKind::kInterpret) continue;
        HY_TRY_CONTEXT(Prepare(program, command), "recording '{}'", command.label);
      }
    }
    HY_ASSIGN(semaphore_, device_.CreateSemaphore(0));
    for (int round = 0; round < arguments_.rounds + 1; ++round) {
      for (Row& row : rows_) {
        HY_ASSIGN(const double seconds, Time(*row.commands));
        if (round > 0) row.seconds.push_back(seconds);
      }
    }
    Print();
    return OkStatus();
  }

 private:
  Result<hal::Buffer*> Allocate(int64_t size_bytes) {
    HY_ASSIGN(auto buffer,
              device_.AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(size_bytes, 64)));
    std::vector<uint8_t> bytes(static_cast<size_t>(std::max<int64_t>(size_bytes, 64)), 0);
    std::mt19937 random(1);
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const float value = static_cast<float>(random() >> 8) / 8388608.0f - 1.0f;
      std::memcpy(&bytes[i], &value, 4);
    }
    HY_TRY(runtime::Upload(device_, bytes, {buffer.get(), 0, static_cast<int64_t>(bytes.size())}));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().get();
  }

  Status MakeRanges(const program::Entry& entry) {
    std::vector<hal::Buffer*> arenas;
    for (const program::Arena& arena : entry.arenas) {
      HY_ASSIGN(const int64_t size, arena.size_bytes.Evaluate(symbols_));
      HY_ASSIGN(hal::Buffer * buffer, Allocate(size));
      arenas.push_back(buffer);
    }
    for (const program::BufferRange& range : entry.buffers) {
      HY_ASSIGN(const int64_t offset, range.offset.Evaluate(symbols_));
      HY_ASSIGN(const int64_t size, range.size.Evaluate(symbols_));
      if (range.kind == program::StorageKind::kConstant) {
        const hal::BufferRange whole = loaded_->constant(range.index);
        ranges_.push_back(hal::CommandRange::Direct(whole.buffer, whole.offset + offset, size));
      } else if (range.kind == program::StorageKind::kArena) {
        ranges_.push_back(hal::CommandRange::Direct(arenas[range.index], offset, size));
      } else {
        HY_ASSIGN(hal::Buffer * buffer, Allocate(size));
        ranges_.push_back(hal::CommandRange::Direct(buffer, 0, size));
      }
    }
    return OkStatus();
  }

  Status Prepare(const program::Program& program, const program::Command& command) {
    Row row;
    row.label = command.label.empty() ? "(no label)" : command.label;
    HY_ASSIGN(row.commands, device_.CreateCommandBuffer());
    std::vector<hal::CommandRange> bindings;
    for (const uint32_t binding : command.bindings) {
      bindings.push_back(ranges_[binding]);
      row.bytes += ranges_[binding].size_bytes;
    }
    if (command.kind == program::CommandKind::kDispatch) {
      hal::DispatchCommand dispatch;
      dispatch.executable = loaded_->executable(command.executable);
      dispatch.entry = command.entry;
      std::vector<int64_t> scalars;
      for (const program::SizeExpr& scalar : command.scalars) {
        HY_ASSIGN(const int64_t value, scalar.Evaluate(symbols_));
        scalars.push_back(value);
      }
      for (int axis = 0; axis < 3; ++axis) {
        HY_ASSIGN(dispatch.grid[axis], command.grid[axis].Evaluate(symbols_));
      }
      dispatch.bindings = bindings;
      dispatch.scalars = scalars;
      dispatch.label = command.label;
      HY_TRY(row.commands->Dispatch(dispatch));
      for (const program::Record& record : program.records) {
        if (record.kind != "schedule" || record.subject != command.label) continue;
        row.schedule = record.text.substr(0, record.text.find(':'));
        // The last binding of a contraction is what its epilogue stores, of 4-byte elements.
        row.flops = 2.0 * static_cast<double>(SumLength(row.schedule)) *
                    static_cast<double>(bindings.back().size_bytes / 4);
      }
    } else if (command.kind == program::CommandKind::kCopy) {
      HY_TRY(row.commands->Copy(bindings[0], bindings[1]));
    } else {
      HY_TRY(row.commands->Fill(bindings[0], command.fill_value, command.fill_bytes));
    }
    HY_TRY(row.commands->Finish());
    rows_.push_back(std::move(row));
    return OkStatus();
  }

  Result<double> Time(hal::CommandBuffer& commands) {
    const hal::SemaphorePoint wait{semaphore_.get(), value_}, signal{semaphore_.get(), value_ + 1};
    hal::SubmitInfo info;
    info.ordering.waits = {&wait, 1};
    info.ordering.signals = {&signal, 1};
    info.ordering.caller_waits = true;
    info.commands = &commands;
    const Clock::time_point start = Clock::now();
    HY_TRY(device_.Submit(0, info));
    ++value_;
    HY_TRY(device_.Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void Print() {
    double best = 0, median = 0, flops = 0;
    for (const Row& row : rows_) {
      best += row.Best();
      median += row.Median();
      flops += row.flops;
    }
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.Best() > b.Best(); });
    std::printf(
        "%zu commands, %d rounds; sums: best %.3f ms, median %.3f ms, contractions %.3f GFLOP\n",
        rows_.size(), arguments_.rounds, best * 1e3, median * 1e3, flops * 1e-9);
    std::printf("%9s %9s %6s %9s %9s  kernel and schedule\n", "best us", "median us", "share",
                "GFLOP/s", "MB named");
    for (size_t i = 0; i < rows_.size() && i < arguments_.rows; ++i) {
      const Row& row = rows_[i];
      std::printf("%9.1f %9.1f %5.1f%% %9.1f %9.2f  %s | %s\n", row.Best() * 1e6,
                  row.Median() * 1e6, row.Best() / best * 100, row.flops / row.Best() * 1e-9,
                  static_cast<double>(row.bytes) * 1e-6, row.label.c_str(), row.schedule.c_str());
    }
    PrintModelErrors();
  }

  // How far placement's cost model is off, by class of op.
  void PrintModelErrors() const {
    std::map<std::string, double> seconds;
    for (const Row& row : rows_) seconds[row.label] += row.Median();
    const auto errors = place::ModelErrors(place::ComparePredictions(loaded_->program(), seconds));
    std::printf("\n%-12s %6s %13s %12s %20s\n", "class", "groups", "median error", "worst error",
                "predicted / measured");
    for (const place::ModelError& error : errors) {
      std::printf("%-12s %6u %12.0f%% %11.0f%% %20.2f\n",
                  std::string(place::FormatOpClass(error.op_class)).c_str(), error.count,
                  error.median_error * 100, error.worst_error * 100, error.median_ratio);
    }
  }

  std::shared_ptr<runtime::LoadedProgram> loaded_;
  const Arguments& arguments_;
  hal::Device& device_;
  std::vector<int64_t> symbols_;
  std::vector<Ref<hal::Buffer>> buffers_;
  std::vector<hal::CommandRange> ranges_;
  std::vector<Row> rows_;
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
};

Status Main(const Arguments& arguments) {
  HY_ASSIGN(auto instance, runtime::Instance::Create({}));
  runtime::CompileJob job;
  job.source.path = arguments.model;
  job.options.symbol_values = arguments.symbols;
  job.options.tune = arguments.tune;
  HY_ASSIGN(auto device, instance->OpenDevice("cpu:0"));
  job.devices.push_back(std::move(device));
  HY_ASSIGN(auto loaded, runtime::Compile(instance, std::move(job)));
  return Profiler(std::move(loaded), arguments).Run();
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  halyard::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--symbol" && has_value) {
      const auto symbol = halyard::ParseNamedNumber(argv[++i]);
      if (!symbol) return 1;
      arguments.symbols[symbol->first] = symbol->second;
    } else if (word == "--rounds" && has_value) {
      arguments.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--rows" && has_value) {
      arguments.rows = static_cast<size_t>(std::max(0, std::atoi(argv[++i])));
    } else if (word == "--no-tune") {
      arguments.tune = false;
    } else {
      arguments.model = word;
    }
  }
  if (arguments.model.empty()) {
    std::fprintf(
        stderr,
        "usage: kernel_profile MODEL.onnx [--symbol NAME=VALUE]... [--rounds N] [--rows N] "
        "[--no-tune]\n");
    return 1;
  }
  const halyard::Status status = halyard::Main(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kernel_profile: %s\n", std::string(status.message()).c_str());
  return 1;
}
