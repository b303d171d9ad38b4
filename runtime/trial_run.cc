// SPDX-License-Identifier: Apache-2.0
#include "runtime/trial_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/compile.h"

namespace halyard::runtime {
namespace {

constexpr int64_t kOpenSize = 128;  // of a named size that is not fixed

}  // namespace

Result<TrialRun> TrialRun::Make(std::shared_ptr<LoadedProgram> program,
                                const std::map<std::string, int64_t>& sizes) {
  TrialRun trial;
  const program::Program& p = program->program();
  std::vector<int64_t> symbols;
  for (const program::Symbol& symbol : p.symbols) {
    const auto given = sizes.find(symbol.name);
    const int64_t value =
        std::clamp(given == sizes.end() ? kOpenSize : given->second, symbol.min, symbol.max);
    symbols.push_back(std::max(value / symbol.divisor * symbol.divisor, symbol.min));
  }
  uint32_t state = 1;
  for (const program::TensorDesc& input : p.entries.front().inputs) {
    std::vector<int64_t>& dims = trial.dims_.emplace_back();
    int64_t elements = 1;
    for (const program::SizeExpr& dim : input.dims) {
      HY_ASSIGN(const int64_t value, dim.Evaluate(symbols));
      dims.push_back(value);
      if (__builtin_mul_overflow(elements, value, &elements)) {
        return OutOfRange("Input '{}' does not fit 64 bits.", input.name);
      }
    }
    std::vector<uint8_t>& bytes = trial.bytes_.emplace_back();
    bytes.resize(static_cast<size_t>((elements * BitWidth(input.dtype) + 7) / 8));
    if (input.dtype == DType::kF32) {
      for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        state = state * 1664525u + 1013904223u;
        const float value = static_cast<float>(state >> 8) * 0x1p-24f;
        std::memcpy(&bytes[i], &value, sizeof(value));
      }
    }
  }
  for (size_t i = 0; i < trial.bytes_.size(); ++i) {
    trial.inputs_.push_back({p.entries.front().inputs[i].dtype, trial.dims_[i],
                             trial.bytes_[i].data(), static_cast<int64_t>(trial.bytes_[i].size())});
  }
  trial.outputs_.resize(p.entries.front().outputs.size());
  trial.results_.resize(trial.outputs_.size());
  SessionOptions options;
  options.interpreter = MakeInterpreter();
  trial.session_ = Session::Create(program, std::move(options));
  trial.program_ = std::move(program);
  return trial;
}

Status TrialRun::WarmUp() { return session_->Run(inputs_, outputs_, results_); }

Status TrialRun::Run() {
  const auto start = std::chrono::steady_clock::now();
  HY_TRY(session_->Run(inputs_, outputs_, results_));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  seconds_.push_back(taken.count());
  return OkStatus();
}

double TrialRun::MedianSeconds() const {
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace halyard::runtime
