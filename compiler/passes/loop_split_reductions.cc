// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/loop_split_reductions.h"

#include <algorithm>

#include "compiler/loop/builder.h"
#include "compiler/passes/loop_clone.h"

namespace halyard::loop {
namespace {

// A reduction that may be split: the parallel loops around everything else, what is inside, and the
// reduction among it.
struct Split {
  std::vector<OpId> outer;
  BlockId body = 0;
  size_t position = 0;  // of the reduction in the body
  int64_t parts = 0;
};

class Splitter {
 public:
  Splitter(Function& function, const SplitOptions& options)
      : function_(function), options_(options), exprs_(*function.exprs) {}

  std::optional<Split> Find(const Kernel& kernel) const {
    if (kernel.template_kind != TemplateKind::kNone || kernel.ordered_reductions ||
        ScattersOrHasLocals(kernel, 0))
      return {};
    Split split;
    int64_t rows = 1;
    while (kernel.blocks[split.body].ops.size() == 1) {
      const OpId id = kernel.blocks[split.body].ops[0];
      const Op& op = kernel.ops[id];
      if (op.kind != OpKind::kLoop || op.loop != LoopKind::kParallel) break;
      split.outer.push_back(id);
      split.body = op.body;
      rows *= std::max<int64_t>(1, exprs_.HintOf(op.extent));
      if (rows > options_.most_rows) return {};
    }
    const std::vector<OpId>& ops = kernel.blocks[split.body].ops;
    for (; split.position < ops.size(); ++split.position) {
      const Op& op = kernel.ops[ops[split.position]];
      if (op.kind == OpKind::kStore) return {};  // what the parts need may be written here
      if (op.kind != OpKind::kLoop) continue;
      split.parts = PartsOf(kernel, op);
      if (split.parts > 1) return split;
      // Done once for each part: only where it is short and writes nothing.
      if (op.loop != LoopKind::kReduce || WorkOf(kernel, op) > options_.least_part ||
          Stores(kernel, op.body))
        return {};
    }
    return {};
  }

  // Returns the kernel of the parts and makes `kernel` the one of the rest.
  Kernel Cut(Kernel& kernel, const Split& split) {
    const Op reduce = kernel.ops[kernel.blocks[split.body].ops[split.position]];
    const int64_t extent = *exprs_.AsConst(reduce.extent);
    std::vector<BufferId> places;
    Expr rows = exprs_.Const(1);
    for (OpId id : split.outer) rows = exprs_.Mul(rows, kernel.ops[id].extent);
    for (ValueId result : reduce.results)
      places.push_back(AddBuffer(function_, Unique(kernel.name + "_part"),
                                 kernel.values[result].dtype, BufferRole::kTemp,
                                 exprs_.Mul(rows, exprs_.Const(split.parts))));

    KernelBuilder parts(function_, kernel.name + "_parts");
    KernelCloner first(kernel, parts);
    Expr row = OpenOuter(kernel, split, first);
    Expr part = parts.BeginLoop(LoopKind::kParallel, "part", exprs_.Const(split.parts));
    Before(kernel, split, first);
    const int64_t length = extent / split.parts;
    Expr inside = parts.BeginLoop(LoopKind::kReduce, exprs_.SymbolName(reduce.symbol),
                                  exprs_.Const(length), reduce.reduces);
    first.symbols.emplace_back(reduce.symbol,
                               exprs_.Add(exprs_.Mul(part, exprs_.Const(length)), inside));
    first.Block(reduce.body);
    std::vector<ValueId> yields;
    for (ValueId v : kernel.ops[kernel.blocks[reduce.body].ops.back()].operands)
      yields.push_back(first.values.at(v));
    const std::vector<ValueId> sums = parts.EndLoop(yields);
    Expr at = exprs_.Add(exprs_.Mul(row, exprs_.Const(split.parts)), part);
    for (size_t i = 0; i < sums.size(); ++i) parts.Store(places[i], at, sums[i]);
    while (parts.depth() > 0) parts.EndLoop();
    parts.kernel().nodes = kernel.nodes;

    KernelBuilder rest(function_, kernel.name);
    KernelCloner second(kernel, rest);
    row = OpenOuter(kernel, split, second);
    Before(kernel, split, second);
    const std::vector<ValueId> totals =
        rest.Reduce(reduce.reduces, "part", exprs_.Const(split.parts), [&](Expr p) {
          std::vector<ValueId> loaded;
          Expr index = exprs_.Add(exprs_.Mul(row, exprs_.Const(split.parts)), p);
          for (BufferId place : places) loaded.push_back(rest.Load(place, index));
          return loaded;
        });
    for (size_t i = 0; i < totals.size(); ++i) second.values[reduce.results[i]] = totals[i];
    const std::vector<OpId> ops = kernel.blocks[split.body].ops;
    for (size_t i = split.position + 1; i < ops.size(); ++i) second.One(ops[i]);
    while (rest.depth() > 0) rest.EndLoop();
    rest.kernel().nodes = kernel.nodes;
    Kernel made = parts.Finish();
    kernel = rest.Finish();
    return made;
  }

 private:
  // Elements that a loop goes through, INT64_MAX where that is not known.
  int64_t WorkOf(const Kernel& kernel, const Op& loop) const {
    const std::optional<int64_t> extent = exprs_.AsConst(loop.extent);
    if (!extent) return INT64_MAX;
    int64_t inner = 1;
    for (OpId id : kernel.blocks[loop.body].ops) {
      if (kernel.ops[id].kind == OpKind::kLoop)
        inner = std::max(inner, WorkOf(kernel, kernel.ops[id]));
    }
    int64_t work = 0;
    return __builtin_mul_overflow(*extent, inner, &work) ? INT64_MAX : work;
  }

  bool ScattersOrHasLocals(const Kernel& kernel, BlockId block) const {
    for (OpId id : kernel.blocks[block].ops) {
      const Op& op = kernel.ops[id];
      const bool is_access = op.kind == OpKind::kLoad || op.kind == OpKind::kStore;
      if (op.kind == OpKind::kScatter ||
          (is_access && function_.buffers[op.buffer].role == BufferRole::kLocal) ||
          (op.kind == OpKind::kLoop && ScattersOrHasLocals(kernel, op.body)))
        return true;
    }
    return false;
  }

  bool Stores(const Kernel& kernel, BlockId block) const {
    for (OpId id : kernel.blocks[block].ops) {
      const Op& op = kernel.ops[id];
      if (op.kind == OpKind::kStore || (op.kind == OpKind::kLoop && Stores(kernel, op.body)))
        return true;
    }
    return false;
  }

  // 1: stays whole. Whole parts only, and of whole cache lines where that is possible.
  int64_t PartsOf(const Kernel& kernel, const Op& loop) const {
    if (loop.loop != LoopKind::kReduce) return 1;
    for (ReduceKind kind : loop.reduces) {
      if (kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin) return 1;
    }
    const int64_t work = WorkOf(kernel, loop);
    if (work == INT64_MAX || work < options_.least_work) return 1;
    const int64_t extent = *exprs_.AsConst(loop.extent);
    const int64_t most = std::min({options_.most_parts, work / options_.least_part, extent});
    for (const int64_t unit : {int64_t{64}, int64_t{1}}) {
      for (int64_t parts = most; parts > 1; --parts) {
        if (extent % parts == 0 && extent / parts % unit == 0) return parts;
      }
    }
    return 1;
  }

  // Opens the outer loops in the cloner's target and returns the number of the row.
  Expr OpenOuter(const Kernel& kernel, const Split& split, KernelCloner& cloner) {
    Expr row = exprs_.Const(0);
    for (OpId id : split.outer) {
      const Op& loop = kernel.ops[id];
      cloner.OpenLoop(loop);
      row = exprs_.Add(exprs_.Mul(row, cloner.Rename(loop.extent)), cloner.Rename(loop.symbol));
    }
    return row;
  }

  // What stands before the reduction.
  static void Before(const Kernel& kernel, const Split& split, KernelCloner& cloner) {
    for (size_t i = 0; i < split.position; ++i) cloner.One(kernel.blocks[split.body].ops[i]);
  }

  std::string Unique(const std::string& wanted) const {
    std::string name = wanted;
    const auto is_taken = [&] {
      return std::any_of(function_.buffers.begin(), function_.buffers.end(),
                         [&](const Buffer& buffer) { return buffer.name == name; });
    };
    for (int i = 1; is_taken(); ++i) name = fmt::format("{}{}", wanted, i);
    return name;
  }

  Function& function_;
  const SplitOptions& options_;
  ExprArena& exprs_;
};

}  // namespace

Status SplitReductions(Function& function, const SplitOptions& options,
                       std::vector<SplitRecord>* records) {
  Splitter splitter(function, options);
  for (size_t k = 0; k < function.kernels.size(); ++k) {
    const std::optional<Split> split = splitter.Find(function.kernels[k]);
    if (!split) continue;
    if (records != nullptr) records->push_back({function.kernels[k].name, split->parts});
    Kernel parts = splitter.Cut(function.kernels[k], *split);
    const auto is_taken = [&](const std::string& name) {
      return std::any_of(function.kernels.begin(), function.kernels.end(),
                         [&](const Kernel& kernel) { return kernel.name == name; });
    };
    const std::string wanted = parts.name;
    for (int i = 1; is_taken(parts.name); ++i) parts.name = fmt::format("{}{}", wanted, i);
    function.kernels.insert(function.kernels.begin() + static_cast<std::ptrdiff_t>(k),
                            std::move(parts));
    // Next the rest, in which another reduction may be long.
  }
  return OkStatus();
}

}  // namespace halyard::loop
