// SPDX-License-Identifier: Apache-2.0
// A direct evaluator of Loop IR for the schedule tests: floats as double, integers as int64, in
// text order. Independent of everything it judges; covers the ops that the tests use.
#pragma once

#include <map>
#include <vector>

#include "compiler/loop/loop_ir.h"

namespace halyard::schedule {

// Contents of one loop buffer, each element as a double (floats) or int64 (the rest).
struct TestBuffer {
  std::vector<double> f;
  std::vector<int64_t> i;
};

class LoopEvaluator {
 public:
  LoopEvaluator(const loop::Function& function, std::map<std::string, int64_t> dims)
      : function_(function), exprs_(*function.exprs), dims_(std::move(dims)) {}
  int64_t Size(Expr e) { return Eval(e); }
  // Buffers by id; locals are made here.
  void Run(uint32_t kernel, std::vector<TestBuffer>& buffers);
  std::map<std::string, int64_t>& dims() { return dims_; }

 private:
  struct Scalar {
    double f = 0;
    int64_t i = 0;
  };
  int64_t Eval(Expr e);
  std::vector<Scalar> Block(loop::BlockId block);
  void Op(const loop::Op& op);
  Scalar Arithmetic(const loop::Op& op);
  Scalar Combine(loop::ReduceKind kind, DType dtype, Scalar a, Scalar b);
  Scalar Identity(loop::ReduceKind kind, DType dtype);

  const loop::Function& function_;
  ExprArena& exprs_;
  std::map<std::string, int64_t> dims_;
  const loop::Kernel* kernel_ = nullptr;
  std::vector<TestBuffer>* buffers_ = nullptr;
  std::vector<Scalar> values_;
  std::map<uint32_t, int64_t> symbols_;
};

}  // namespace halyard::schedule
