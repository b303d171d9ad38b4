// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/fit_memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

namespace halyard::pipeline {
namespace {

constexpr uint32_t kMarginAttempts = 3;  // with what the ones before took too much left free
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

// Sizes that are not fixed are as large as cost models take them to be.
std::map<std::string, int64_t> SizesOf(CompileState& state) {
  std::map<std::string, int64_t> sizes;
  for (const program::Symbol& symbol : state.program.symbols) {
    sizes[symbol.name] = state.module.exprs.HintOf(state.module.exprs.Dim(symbol.name));
  }
  return sizes;
}

}  // namespace

Status CheckMemory(CompileState& state) {
  if (state.request == nullptr || !state.request->judge_memory) return OkStatus();
  HY_ASSIGN(const MemoryVerdict verdict,
            state.request->judge_memory(state.program, SizesOf(state)));
  state.memory_excess = verdict.excess;
  const auto fits = [](int64_t bytes) { return bytes <= 0; };
  if (std::all_of(verdict.excess.begin(), verdict.excess.end(), fits)) return OkStatus();
  // Of open sizes a run knows, not the compiler.
  if (state.memory_attempt.is_last && !state.program.symbols.empty()) return OkStatus();
  if (!state.memory_attempt.is_last && verdict.failure.ok()) {
    return OutOfMemory("The program takes more than placement may give it.");
  }
  return verdict.failure;
}

std::optional<MemoryAttempt> NextAttempt(const CompileState& failed, const Status& status,
                                         uint32_t attempts) {
  const MemoryAttempt& before = failed.memory_attempt;
  if (status.code() != StatusCode::kOutOfMemory || before.is_last || failed.request == nullptr ||
      !failed.request->judge_memory) {
    return std::nullopt;
  }
  MemoryAttempt next = before;
  const std::vector<program::Device>& devices = failed.request->devices;
  if (devices.size() == 1 && devices[0].is_host) {
    // Nothing else can be there; the program itself says how much it needs.
    if (!failed.memory_excess.empty()) return std::nullopt;
    next.may_exceed = next.is_last = true;
    return next;
  }
  next.margins.resize(devices.size(), 0);
  for (size_t d = 0; d < failed.memory_excess.size(); ++d) {
    if (next.margins[d] < kAll - failed.memory_excess[d])
      next.margins[d] += failed.memory_excess[d];
  }
  // Placement itself found nothing, or tried often enough.
  const bool found_plan = !failed.memory_excess.empty();
  if (found_plan && !before.may_exceed && attempts < kMarginAttempts) return next;
  if (!before.may_exceed) {
    next.may_exceed = true;
    return next;
  }
  // All that is left: as little as possible, whatever the caps are.
  for (size_t d = 0; d < devices.size(); ++d) {
    const auto is_capped = [&](const place::MemoryCap& cap) {
      return cap.device == devices[d].name;
    };
    const auto& caps = failed.request->options.placement.memory_caps;
    if (next.margins[d] > 0 || std::any_of(caps.begin(), caps.end(), is_capped)) {
      next.margins[d] = kAll;
    }
  }
  next.is_last = true;
  return next;
}

}  // namespace halyard::pipeline
