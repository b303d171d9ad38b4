// SPDX-License-Identifier: Apache-2.0
// memory_plans: peak activation bytes of compiled models under our planner and three known ones,
// beside the lower bound, the largest sum of live bytes. One row for each model.
//
//   memory_plans [--symbol NAME=VALUE]... MODEL.onnx...
//
// HALYARD_COMPILER_LIBRARY names the compiler library (build/release/lib/libhalyard_compiler.so).
// A symbol that the option does not name takes its smallest value.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/parse_number.h"
#include "compiler/plan/memory_plan.h"
#include "runtime/compile.h"
#include "runtime/instance.h"

namespace halyard {
namespace {

constexpr int64_t kAlignment = 64;

// The values in arenas with the first and last command that names each, as the planner saw them.
Result<std::vector<plan::LiveRange>> LiveRanges(const program::Program& program,
                                                const std::map<std::string, int64_t>& values) {
  std::vector<int64_t> symbols;
  for (const program::Symbol& symbol : program.symbols) {
    const auto found = values.find(symbol.name);
    symbols.push_back(found != values.end() ? found->second : symbol.min);
  }
  const program::Entry& entry = program.entries.front();
  std::map<uint32_t, plan::LiveRange> live;
  int64_t step = 0;
  for (const program::Block& block : entry.blocks) {
    for (const program::Command& command : block.commands) {
      for (const uint32_t binding : command.bindings) {
        const program::BufferRange& range = entry.buffers[binding];
        if (range.kind != program::StorageKind::kArena) continue;
        HY_ASSIGN(const int64_t size, range.size.Evaluate(symbols));
        const auto [found, is_new] = live.try_emplace(binding, plan::LiveRange{size, step, step});
        found->second.last = step;
      }
      ++step;
    }
  }
  std::vector<plan::LiveRange> ranges;
  for (const auto& [binding, range] : live) ranges.push_back(range);
  return ranges;
}

Status Row(const std::shared_ptr<runtime::Instance>& instance, const std::string& model,
           const std::map<std::string, int64_t>& symbols) {
  runtime::CompileJob job;
  job.source.path = model;
  job.options.symbol_values = symbols;
  job.options.tune = false;
  HY_ASSIGN(auto device, instance->OpenDevice("cpu:0"));
  job.devices.push_back(std::move(device));
  HY_ASSIGN(auto loaded, runtime::Compile(instance, std::move(job)));
  HY_ASSIGN(const std::vector<plan::LiveRange> ranges, LiveRanges(loaded->program(), symbols));
  const std::string folder = std::filesystem::absolute(model).parent_path().filename().string();
  int64_t total = 0;
  for (const plan::LiveRange& range : ranges) total += range.size_bytes;
  std::printf("| %s | %zu | %.3f |", folder.c_str(), ranges.size(),
              static_cast<double>(total) / 1e6);
  bool is_first = true;
  for (plan::PlanAlgorithm algorithm :
       {plan::PlanAlgorithm::kBest, plan::PlanAlgorithm::kFirstFitByStart,
        plan::PlanAlgorithm::kGreedyBySize, plan::PlanAlgorithm::kBestFitBySize}) {
    HY_ASSIGN(const plan::MemoryPlan plan, plan::PlanMemory(ranges, kAlignment, algorithm));
    HY_TRY(plan::VerifyMemoryPlan(ranges, plan));
    if (is_first) std::printf(" %.3f |", static_cast<double>(plan.lower_bound_bytes) / 1e6);
    is_first = false;
    std::printf(" %.3f (%+.1f%%) |", static_cast<double>(plan.arena_bytes) / 1e6,
                100.0 * static_cast<double>(plan.arena_bytes - plan.lower_bound_bytes) /
                    static_cast<double>(plan.lower_bound_bytes));
  }
  std::printf("\n");
  return OkStatus();
}

Status Main(const std::vector<std::string>& models, const std::map<std::string, int64_t>& symbols) {
  HY_ASSIGN(auto instance, runtime::Instance::Create({}));
  std::printf(
      "| model | values | sum, MB | lower bound, MB | ours | first fit (IREE) | greedy by size "
      "(TFLite) | best fit (XLA) |\n|---|---|---|---|---|---|---|---|\n");
  for (const std::string& model : models) {
    HY_TRY_CONTEXT(Row(instance, model, symbols), "planning '{}'", model);
  }
  return OkStatus();
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  std::vector<std::string> models;
  std::map<std::string, int64_t> symbols;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--symbol" && i + 1 < argc) {
      const auto symbol = halyard::ParseNamedNumber(argv[++i]);
      if (!symbol) return 1;
      symbols[symbol->first] = symbol->second;
    } else {
      models.push_back(word);
    }
  }
  if (models.empty()) {
    std::fprintf(stderr, "usage: memory_plans [--symbol NAME=VALUE]... MODEL.onnx...\n");
    return 1;
  }
  const halyard::Status status = halyard::Main(models, symbols);
  if (status.ok()) return 0;
  std::fprintf(stderr, "memory_plans: %s\n", std::string(status.message()).c_str());
  return 1;
}
