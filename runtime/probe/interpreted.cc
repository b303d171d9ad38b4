// SPDX-License-Identifier: Apache-2.0
// What the interpreter takes for an op of each class: one of a few elements, which shows what
// starting costs, and one of many.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/place/problem.h"
#include "runtime/compile.h"
#include "runtime/probe/prober.h"
#include "runtime/random_bytes.h"

namespace halyard::runtime {
namespace {

struct InterpretedOp {
  place::OpClass op_class;
  DType dtype;
  // Of rows x columns elements; "{0}" is the rows.
  const char* text;
  int operands, results;
  int64_t columns;
  int64_t result_columns;  // of the first; the second, where there is one, holds i64
  double flops_of_result;
};
constexpr int64_t kManyElements = 1 << 15;
// The dtypes and ops of each class that models leave to the interpreter, or their like.
constexpr InterpretedOp kInterpretedOps[] = {
    {place::OpClass::kPointwise, DType::kF64,
     "graph g(%a: f64[{0}, 64], %b: f64[{0}, 64]) -> (\"y\" = %y) {{\n"
     "  %y = rem %a, %b : f64[{0}, 64] \"y\"\n}}\n",
     2, 1, 64, 64, 1},
    {place::OpClass::kReduction, DType::kF32,
     "graph g(%a: f32[{0}, 64]) -> (\"y\" = %y) {{\n"
     "  %y = reduce_sum %a {{axes = [1], keep_dims = 1}} : f32[{0}, 1] \"y\"\n}}\n",
     1, 1, 64, 1, 64},
    {place::OpClass::kContraction, DType::kF32,
     "graph g(%a: f32[{0}, 64], %b: f32[64, 64]) -> (\"y\" = %y) {{\n"
     "  %y = matmul %a, %b : f32[{0}, 64] \"y\"\n}}\n",
     2, 1, 64, 64, 128},
    {place::OpClass::kOrdering, DType::kF32,
     // Few long columns: what models sort are scores of thousands.
     "graph g(%a: f32[{0}, 8]) -> (\"y\" = %y, \"i\" = %i) {{\n"
     "  %y, %i = sort %a {{axis = 0, descending = 1}} : f32[{0}, 8], i64[{0}, 8] \"y\"\n}}\n",
     1, 2, 8, 8, 1},
};

Result<Reading> TimeInterpreted(const Prober& prober, const InterpretedOp& op, int64_t rows) {
  const std::string text = fmt::format(fmt::runtime(op.text), rows);
  const int64_t width = BitWidth(op.dtype) / 8;
  std::mt19937 random(1);
  std::vector<std::vector<uint8_t>> operands(static_cast<size_t>(op.operands));
  InterpretRequest request;
  request.text = text;
  Reading reading;
  for (size_t o = 0; o < operands.size(); ++o) {
    const bool is_square = op.op_class == place::OpClass::kContraction && o == 1;
    const int64_t operand_rows = is_square ? op.columns : rows;
    operands[o].resize(static_cast<size_t>(operand_rows * op.columns * width));
    FillRandom(random, op.dtype, operands[o]);
    request.operands.emplace_back(operands[o]);
    request.operand_dims.push_back({operand_rows, op.columns});
    reading.bytes += static_cast<int64_t>(operands[o].size());
  }
  const int64_t count = rows * op.result_columns;
  std::vector<uint8_t> result(static_cast<size_t>(count * width));
  std::vector<uint8_t> indices(static_cast<size_t>(op.results == 2 ? count * 8 : 0));
  request.results.emplace_back(result);
  if (op.results == 2) request.results.emplace_back(indices);
  reading.bytes += static_cast<int64_t>(result.size() + indices.size());
  const Interpreter interpreter = MakeInterpreter();
  SampleOptions sampling;
  sampling.seconds = 0.01;
  HY_ASSIGN(reading.seconds, Sample(
                                 [&]() -> Result<double> {
                                   const auto start = std::chrono::steady_clock::now();
                                   HY_TRY(interpreter(request));
                                   const std::chrono::duration<double> taken =
                                       std::chrono::steady_clock::now() - start;
                                   return taken.count();
                                 },
                                 prober.Limited(sampling)));
  reading.kind = ReadingKind::kInterpreted;
  reading.op_class = place::FormatOpClass(op.op_class);
  reading.dtype = FormatDType(op.dtype);
  reading.operations = static_cast<double>(count) * op.flops_of_result;
  if (op.op_class == place::OpClass::kOrdering) {
    reading.operations *= std::max(1.0, std::log2(static_cast<double>(rows)));  // compared
  }
  return reading;
}

}  // namespace

Status ProbeInterpreter(Prober& prober) {
  for (const InterpretedOp& op : kInterpretedOps) {
    for (const int64_t rows : {int64_t{1}, kManyElements / op.columns}) {
      const std::string what =
          fmt::format("interpreted {} of {} rows", place::FormatOpClass(op.op_class), rows);
      if (!prober.Begins(what)) continue;
      auto reading = TimeInterpreted(prober, op, rows);
      if (!reading.ok()) {
        HY_TRY(prober.Note(what, reading.status()));
        continue;
      }
      prober.Add(std::move(*reading));
    }
  }
  return OkStatus();
}

}  // namespace halyard::runtime
