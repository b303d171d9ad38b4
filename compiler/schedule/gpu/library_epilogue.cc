// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/library_epilogue.h"

#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

namespace halyard::schedule {

using kernel::Opcode;
using loop::Op;
using loop::OpKind;
using loop::ValueId;

namespace {

bool IsShortFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

class EpilogueReader {
 public:
  EpilogueReader(const loop::Kernel& kernel, ValueId sum) : kernel_(kernel), sum_(sum) {}

  std::optional<LibraryEpilogue> Read(ValueId stored) {
    LibraryEpilogue epilogue;
    ValueId value = Strip(stored);
    if (const auto argument = ReadGelu(value)) {
      epilogue.activation = GpuLibraryActivation::kGeluTanh;
      value = *argument;
    } else if (const auto rectified = ReadRelu(value)) {
      epilogue.activation = GpuLibraryActivation::kRelu;
      value = *rectified;
    }
    int sums = 0;
    if (!ReadTerms(value, &epilogue.addends, &sums) || sums != 1) return std::nullopt;
    return epilogue;
  }

 private:
  // The op that makes it; null for parameters of loops.
  const Op* Producer(ValueId value) const {
    const loop::OpId id = kernel_.values[value].producer;
    return id == loop::kNone ? nullptr : &kernel_.ops[id];
  }

  ValueId Strip(ValueId value) const {
    for (;;) {
      if (value == sum_) return value;
      const Op* op = Producer(value);
      if (op == nullptr || op->kind != OpKind::kScalar || op->opcode != Opcode::kConvert ||
          !IsShortFloat(op->dtype) || !IsShortFloat(kernel_.values[op->operands[0]].dtype)) {
        return value;
      }
      value = op->operands[0];
    }
  }

  const Op* Scalar(ValueId value) const {
    if (value == sum_) return nullptr;
    const Op* op = Producer(value);
    return op != nullptr && op->kind == OpKind::kScalar ? op : nullptr;
  }

  std::optional<double> Constant(ValueId value) const {
    const Op* op = value == sum_ ? nullptr : Producer(value);
    if (op == nullptr || op->kind != OpKind::kConst || !IsFloat(op->dtype)) return std::nullopt;
    return std::bit_cast<double>(op->immediate);
  }

  bool ReadTerms(ValueId value, std::vector<loop::OpId>* addends, int* sums) const {
    // More than the library takes; a value may also stand in many places.
    if (*sums > 1 || addends->size() > 2) return false;
    value = Strip(value);
    if (value == sum_) {
      ++*sums;
      return true;
    }
    const Op* op = Producer(value);
    if (op == nullptr) return false;
    if (op->kind == OpKind::kLoad && op->operands.empty() && IsShortFloat(op->dtype)) {
      addends->push_back(kernel_.values[value].producer);
      return true;
    }
    return op->kind == OpKind::kScalar && op->opcode == Opcode::kAdd && op->dtype == DType::kF32 &&
           ReadTerms(op->operands[0], addends, sums) && ReadTerms(op->operands[1], addends, sums);
  }

  // What the larger of 0 and it is.
  std::optional<ValueId> ReadRelu(ValueId value) const {
    const Op* op = Scalar(value);
    if (op == nullptr || op->opcode != Opcode::kMax) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      if (Constant(Strip(op->operands[1 - i])) == 0.0) return op->operands[i];
    }
    return std::nullopt;
  }

  // Values that `value` is made of, itself included, as far as conversions, arithmetic and
  // constants reach.
  void Collect(ValueId value, std::set<ValueId>* values) const {
    value = Strip(value);
    if (!values->insert(value).second) return;
    if (const Op* op = Scalar(value)) {
      for (const ValueId operand : op->operands) Collect(operand, values);
    }
  }

  // The formula may be written in many ways, so it is not compared but evaluated. Made of one tanh
  // and of sums and products otherwise, few ops in all, two such functions that agree in thousands
  // of places do not differ elsewhere.
  std::optional<ValueId> ReadGelu(ValueId value) const {
    std::set<ValueId> values;
    Collect(value, &values);
    if (values.size() > 32) return std::nullopt;
    for (const ValueId argument : values) {
      if (argument == value || !IsGeluOf(value, argument)) continue;
      return argument;
    }
    return std::nullopt;
  }

  bool IsGeluOf(ValueId value, ValueId argument) const {
    std::set<ValueId> used;
    int tanhs = 0;
    if (!IsFormula(value, argument, &used, &tanhs) || tanhs != 1) return false;
    for (int i = -12 * 64; i <= 12 * 64; ++i) {
      const double x = i / 64.0;
      const double wanted =
          x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      std::map<ValueId, double> known = {{argument, x}};
      const double got = Evaluate(value, &known);
      if (!(std::fabs(got - wanted) <= 2e-6 * (1 + std::fabs(x)))) return false;
    }
    return true;
  }

  bool IsFormula(ValueId value, ValueId argument, std::set<ValueId>* used, int* tanhs) const {
    value = Strip(value);
    if (value == argument || Constant(value) || !used->insert(value).second) return true;
    const Op* op = Scalar(value);
    if (op == nullptr || op->dtype != DType::kF32) return false;
    switch (op->opcode) {
      case Opcode::kTanh:
        ++*tanhs;
        break;
      case Opcode::kAdd:
      case Opcode::kSub:
      case Opcode::kMul:
      case Opcode::kFma:
      case Opcode::kNeg:
        break;
      case Opcode::kDiv:
        if (!Constant(Strip(op->operands[1]))) return false;
        break;
      case Opcode::kPow: {
        const auto power = Constant(Strip(op->operands[1]));
        if (!power || (*power != 2 && *power != 3)) return false;
        break;
      }
      default:
        return false;
    }
    for (const ValueId operand : op->operands) {
      if (!IsFormula(operand, argument, used, tanhs)) return false;
    }
    return true;
  }

  // Of a formula; `known` holds its argument.
  double Evaluate(ValueId value, std::map<ValueId, double>* known) const {
    value = Strip(value);
    if (const auto found = known->find(value); found != known->end()) return found->second;
    if (const auto constant = Constant(value)) return *constant;
    const Op& op = *Scalar(value);
    double operands[3] = {};
    for (size_t i = 0; i < op.operands.size() && i < 3; ++i) {
      operands[i] = Evaluate(op.operands[i], known);
    }
    return (*known)[value] = Apply(op.opcode, operands);
  }

  static double Apply(Opcode opcode, const double (&operands)[3]) {
    switch (opcode) {
      case Opcode::kTanh:
        return std::tanh(operands[0]);
      case Opcode::kAdd:
        return operands[0] + operands[1];
      case Opcode::kSub:
        return operands[0] - operands[1];
      case Opcode::kMul:
        return operands[0] * operands[1];
      case Opcode::kFma:
        return operands[0] * operands[1] + operands[2];
      case Opcode::kNeg:
        return -operands[0];
      case Opcode::kDiv:
        return operands[0] / operands[1];
      case Opcode::kPow:
        return std::pow(operands[0], operands[1]);
      default:
        return std::nan("");
    }
  }

  const loop::Kernel& kernel_;
  const ValueId sum_;
};

}  // namespace

std::optional<LibraryEpilogue> ReadLibraryEpilogue(const loop::Kernel& kernel, ValueId sum,
                                                   ValueId stored) {
  return EpilogueReader(kernel, sum).Read(stored);
}

}  // namespace halyard::schedule
