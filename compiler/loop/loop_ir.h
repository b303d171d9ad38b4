// SPDX-License-Identifier: Apache-2.0
// Loop IR: scalar bodies under unordered loops with symbolic index expressions, after the
// loop-level IR of TorchInductor but as SSA data, not closures. Lowering writes one kernel per
// realised graph value; inlining and fusion rewrite kernels; scheduling turns each kernel into
// Kernel IR. No vectors, no tiles and no memory hierarchy here: a template (contraction,
// convolution, attention) is the same scalar loop nest with a tag that tells scheduling which loops
// play which role, so prologues and epilogues are just body.
//
//   kernel softmax {
//     parallel i < 1536 {
//       %m = reduce max j < 128 { %a = load x[i*128 + j]; yield %a }
//       %s = reduce sum j2 < 128 { %b = load x[i*128 + j2]; %c = sub %b, %m; %e = exp %c; yield %e
//       } parallel j3 < 128 { ...; store out[i*128 + j3], %q }
//     }
//   }
//
// Semantics. A value is one scalar per iteration of the loops around it. Parallel loops may run in
// any order or at once; the combination order of a reduction is free unless the kernel says
// `ordered`. Scalar arithmetic means what Kernel IR says for the same opcode. An index is in
// elements of the buffer's flat storage (the layout is already in the expression). Within one
// iteration of the common loops, a load sees the stores to the same buffer that stand before it in
// text order. The symbols of two loops of one kernel are different; where one loop is inside the
// other, or a dimension symbol is used, so are their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "compiler/expr/expr.h"
#include "compiler/graph/graph.h"
#include "compiler/kernel/kernel_ir.h"

namespace halyard::loop {

using ValueId = uint32_t;
using OpId = uint32_t;
using BlockId = uint32_t;
using BufferId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

enum class BufferRole : uint8_t {
  kInput,
  kOutput,
  kConstant,
  kTemp,   // written by one kernel, read by others; gets a place in an arena
  kLocal,  // lives within one iteration of the loops around its first use; never in an arena
};

struct Buffer {
  std::string name;  // of the graph value
  DType dtype = DType::kInvalid;
  BufferRole role = BufferRole::kTemp;
  Expr elements;                              // flat storage size
  graph::ValueId value = graph::kNone;        // what it stores
  graph::ConstantId constant = graph::kNone;  // role kConstant
  uint32_t kernel = kNone;                    // role kLocal: its kernel
  std::string packing;  // role kConstant: chosen with the schedule; "" is row-major
};

enum class OpKind : uint8_t {
  kScalar,    // `opcode` (an arithmetic, comparison, selection or conversion opcode of Kernel IR)
  kConst,     // `immediate`: double bits for floats, int64 otherwise
  kIndex,     // the value of `index`, converted to dtype
  kLoad,      // buffer[index]; operands: none, or (mask, other): other where the mask is false
  kStore,     // buffer[index] = operands[0]; optional operands[1]: mask
  kScatter,   // like kStore, combining with what is there: `reduce` (none: plain); index may repeat
  kIndirect,  // operands[0]: integer; defines `symbol` for use in index expressions. Negative
              // values wrap once by `extent`, unless `immediate` is 1; out of [0, extent) reports
              // kIndexOutOfRange through `site`
  kLoop,      // see LoopKind
  kYield,     // ends the body of a reduce or sequential loop
};

enum class LoopKind : uint8_t {
  kParallel,  // no results
  kReduce,    // one result per entry of `reduces`; the body yields one value for each, in order. An
              // arg reduction yields two, the value and its index, and results in the index: the
              // smallest one of the extreme values, NaN being extreme. Over no iterations: 0 (sum,
  // any), 1 (prod, all), the dtype's -inf/least (max) or +inf/greatest (min), and index 0
  kSequential,  // in order; carries values: operands are the initial ones, body parameters the
                // current ones
};

enum class ReduceKind : uint8_t { kNone, kSum, kProd, kMax, kMin, kAny, kAll, kArgMax, kArgMin };

struct Op {
  OpKind kind = OpKind::kScalar;
  kernel::Opcode opcode = kernel::Opcode::kConst;  // kScalar
  DType dtype = DType::kInvalid;                   // of the first result
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  int64_t immediate = 0;
  BufferId buffer = kNone;
  Expr index;   // kIndex, kLoad, kStore, kScatter
  Expr symbol;  // kLoop: its variable; kIndirect: what it defines
  Expr extent;  // kLoop: trip count; kIndirect: bound
  LoopKind loop = LoopKind::kParallel;
  std::vector<ReduceKind> reduces;  // kLoop of kind kReduce; kScatter: one
  BlockId body = kNone;             // kLoop
  uint32_t site = kNone;            // kIndirect
};

struct Value {
  DType dtype = DType::kInvalid;
  OpId producer = kNone;  // kNone: a parameter of a sequential loop's body
};

struct Block {
  std::vector<ValueId> parameters;
  std::vector<OpId> ops;
};

enum class TemplateKind : uint8_t {
  kNone,         // pointwise, reductions and rows of them
  kContraction,  // sum over k of A(batch, m, k) * B(batch, n, k); matmul and convolution alike
  kAttention,    // softmax(Q K^T) V with the score matrix as a local
  kScan,
  kSort,
};

// Which loop variables play which role in a template. Every variable is the `symbol` of one of the
// kernel's loops; spatial convolution windows are in k.
struct TemplateRoles {
  std::vector<Expr> batch, m, n, k;
  ValueId product_a = kNone, product_b = kNone;  // the two factors inside the k loops
  ValueId accumulator = kNone;                   // the reduction's result, start of the epilogue
};

struct Kernel {
  std::string name;
  std::vector<std::string> nodes;  // graph nodes that it computes; for reports
  TemplateKind template_kind = TemplateKind::kNone;
  TemplateRoles roles;
  bool ordered_reductions = false;
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<Block> blocks;  // blocks[0] is the body
  std::vector<kernel::ReportSite> sites;
};

// One segment: kernels in execution order over shared buffers. The arena is the graph module's.
struct Function {
  ExprArena* exprs = nullptr;  // borrowed
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
};

}  // namespace halyard::loop
