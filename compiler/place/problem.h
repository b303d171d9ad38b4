// SPDX-License-Identifier: Apache-2.0
// Problem: what the solver works on, as plain data: items (clusters of nodes) with a cost for each
// device, tensors between them, weights, wishes and limits. Says nothing about graphs or devices
// beyond that; compiler/pipeline/place.h makes it from a graph, tests make it at random.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/place/machine.h"
#include "compiler/place/options.h"

namespace halyard::place {

// Why an item cannot run on a device.
enum class Reason : uint8_t {
  kNone,        // it can
  kOp,          // the device's code generator has no such op
  kDType,       // ... not in this dtype
  kAttribute,   // ... not with these attributes
  kShape,       // rank, size or a dynamic dim
  kTarget,      // the device lacks a feature or a size
  kForbidden,   // the user forbade it, or required another device
  kLastResort,  // another device can, and this one is for what none can
  kMemory,      // what it needs does not fit even alone
};
std::string_view FormatReason(Reason reason);  // "none", "op", "dtype", ...

// Seconds of one execution of the item on one device, its dispatches included. Where the item
// cannot run, the seconds are what it would take there if it could: what supporting it is worth.
struct Cost {
  Reason reason = Reason::kNone;
  std::string detail;  // a sentence that says more than the reason; may be empty
  double seconds = 0;
  double sigma = 0.6;  // relative
  Source source = Source::kDefault;
  bool feasible() const { return reason == Reason::kNone; }
  friend bool operator==(const Cost&, const Cost&) = default;
};

// What one execution of a cluster does.
struct Work {
  OpClass op_class = OpClass::kPointwise;  // of what costs most
  DType dtype = DType::kF32;               // it computes in
  double flops = 0;                        // a multiply-add is two
  double bytes = 0;  // read or written at least once: operands, results, weights
  // Elements that the costliest op gives: what units can share. 0: any number of units.
  double results = 0;
  // Of a product or convolution: its results are matrices of so many rows and columns, which tiles
  // cover whole. 0: not known, only how many there are.
  double rows = 0, columns = 0;
  double dispatches = 1;
  // What the interpreter goes through element by element; of orderings what is compared.
  double InterpretedUnits() const {
    return op_class == OpClass::kOrdering || flops > bytes / 4 ? flops : bytes / 4;
  }
  friend bool operator==(const Work&, const Work&) = default;
};

struct Item {
  std::string name;                // of its main node
  std::vector<std::string> nodes;  // all of them, in order; for reports
  uint64_t key = 0;  // equal for equal work: ops, types, sizes; what the timing cache is asked by
  Work work;
  std::vector<Cost> costs;        // per device of the machine
  std::vector<uint32_t> weights;  // indices into Problem::weights
  // Runs this often in one run of the program (a loop's body); costs and transfers are multiplied.
  double executions = 1;
  // Its large weights come anew in each run (stream.h), on devices that do not keep them.
  bool streams = false;
  // Items of one group (a loop, a branch) are placed together first, and opened when that pays.
  uint32_t group = kNone;
};

struct Tensor {
  std::string name;
  int64_t bytes = 0;
  uint32_t producer = kNone;        // kNone: an input of the program, in the home memory
  std::vector<uint32_t> consumers;  // items, ascending, each once
  bool is_output = false;           // wanted in the home memory at the end
  double executions = 1;            // transfers of it in one run
};

// A constant: held by every memory whose devices use it, moved at load time.
struct Weight {
  int64_t bytes = 0;
};

// A wish as it applies to one item; several may apply.
struct Constraint {
  uint32_t item = 0;
  uint32_t device = 0;
  Strength strength = Strength::kRequire;
  uint32_t affinity = kNone;  // which option it came from: constraints of one have one price
};

struct Problem {
  Machine machine;
  std::vector<Item> items;  // in topological order
  std::vector<Tensor> tensors;
  std::vector<Weight> weights;
  std::vector<Constraint> constraints;
  std::vector<std::string> affinities;  // text of each, for reports
  std::vector<int64_t> memory_caps;     // per memory; 0: not limited
  std::vector<bool> last_resort;        // per device
  double preference = 0.5;
  bool hysteresis = true;
  int64_t explained_items = 256;
  std::vector<uint32_t> previous;  // device per item of the plan that runs now; empty: none
  bool may_stream = true;          // weights that do not fit may come anew in each run (stream.h)
  uint32_t stream_lots = 2;        // of streamed weights that a memory holds at once: 1 or 2
  // Every weight that can streams, and where no plan meets the limits the one that exceeds them
  // least, all memories together, is the result and no failure.
  bool may_exceed = false;
  bool keeps_previous = false;  // it stays where it meets the limits, whatever another wins
};

// Indices in range, topological order, one cost per device, finite numbers. INVALID_ARGUMENT names
// what is wrong. Whether a plan exists is the solver's business.
Status VerifyProblem(const Problem& problem);

// A stable text for tests; of items and tensors only.
std::string FormatProblem(const Problem& problem);

}  // namespace halyard::place
