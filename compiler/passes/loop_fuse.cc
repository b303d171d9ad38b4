// SPDX-License-Identifier: Apache-2.0
// Fusion: the search, its legality, and the joining of two kernels.
#include "compiler/passes/loop_fuse.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "compiler/kernel/opcode.h"
#include "compiler/loop/index_map.h"
#include "compiler/loop/lowering.h"
#include "compiler/passes/loop_clone.h"
#include "compiler/passes/loop_localize.h"

namespace halyard::loop {

namespace {

// The outer parallel loops that hold everything else, and what is inside.
struct Nest {
  std::vector<Expr> variables, extents;
  std::vector<OpId> loops;
  BlockId body = 0;
  bool has_inner_loops = false;
};

Nest NestOf(const Kernel& kernel) {
  Nest nest;
  while (kernel.blocks[nest.body].ops.size() == 1) {
    OpId id = kernel.blocks[nest.body].ops[0];
    const Op& op = kernel.ops[id];
    if (op.kind != OpKind::kLoop || op.loop != LoopKind::kParallel) break;
    nest.variables.push_back(op.symbol);
    nest.extents.push_back(op.extent);
    nest.loops.push_back(id);
    nest.body = op.body;
  }
  for (OpId id : kernel.blocks[nest.body].ops)
    nest.has_inner_loops |= kernel.ops[id].kind == OpKind::kLoop;
  return nest;
}

struct KernelAccess {
  std::set<BufferId> reads, writes;
  bool has_scatter = false;
};

KernelAccess AccessOf(const Kernel& kernel) {
  KernelAccess access;
  for (const Op& op : kernel.ops) {
    if (op.kind == OpKind::kLoad) access.reads.insert(op.buffer);
    if (op.kind == OpKind::kStore || op.kind == OpKind::kScatter) access.writes.insert(op.buffer);
    access.has_scatter |= op.kind == OpKind::kScatter;
  }
  return access;
}

constexpr std::string_view kOtherPath =
    "the consumer also depends on another kernel that needs the producer";

// For reasons, which people read.
std::string_view WordOf(TemplateKind kind) {
  switch (kind) {
    case TemplateKind::kContraction:
      return "a product or convolution";
    case TemplateKind::kAttention:
      return "attention";
    case TemplateKind::kScan:
      return "a running sum";
    case TemplateKind::kSort:
      return "a sort";
    case TemplateKind::kNone:
      break;
  }
  return "a loop nest";
}

class Fuser {
 public:
  Fuser(Function& function, const FuseOptions& options) : function_(function), options_(options) {}

  Status Run(std::vector<FusionRecord>* records) {
    readers_.assign(function_.buffers.size(), 0);
    for (const Kernel& kernel : function_.kernels) {
      access_.push_back(AccessOf(kernel));
      loads_.push_back(LoadsOf(kernel));
      CountReaders(loads_.back(), 1);
    }
    for (BufferId buffer = 0; buffer < readers_.size(); ++buffer) {
      if (readers_[buffer] == 0) unread_.push_back(buffer);
    }
    IndexWriters();
    do {
      FuseWithProducers(records);
    } while (options_.side_by_side && FuseSideBySide(records));
    if (records == nullptr) return OkStatus();
    std::set<std::string> names;
    for (const Kernel& kernel : function_.kernels) names.insert(kernel.name);
    for (const auto& pair : order_) {
      if (names.contains(pair.first) && names.contains(pair.second) && refused_.contains(pair)) {
        records->push_back({pair.first, pair.second, false, refused_[pair], ""});
        refused_.erase(pair);  // each pair once
      }
    }
    return OkStatus();
  }

 private:
  ExprArena& exprs() { return *function_.exprs; }

  void FuseWithProducers(std::vector<FusionRecord>* records) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t b = 1; b < function_.kernels.size(); ++b) {
        for (const size_t a : ProducersOf(b)) {
          std::pair<std::string, std::string> pair{function_.kernels[a].name,
                                                   function_.kernels[b].name};
          if (refused_.contains(pair)) continue;
          std::string reason;
          std::optional<Kernel> fused = TryFuse(a, b, &reason);
          if (!fused) {
            refused_[pair] = reason;
            order_.push_back(pair);
            continue;
          }
          if (records != nullptr)
            records->push_back({pair.first, pair.second, true, reason, fused->name});
          Replace(a, b, std::move(*fused));
          side_by_side_from_ = 1;
          changed = true;
          b = a;  // look again from where the fused kernel may stand now
          break;
        }
      }
    }
  }

  // Joins two kernels of which neither needs the other; true when it did.
  bool FuseSideBySide(std::vector<FusionRecord>* records) {
    for (size_t b = std::exchange(side_by_side_from_, 1); b < function_.kernels.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        const BufferId shared = SharedRead(a, b);
        if (shared == kNone || Reads(b, a)) continue;
        const Nest na = NestOf(function_.kernels[a]), nb = NestOf(function_.kernels[b]);
        if (na.extents.empty() || na.extents != nb.extents ||
            na.has_inner_loops != nb.has_inner_loops || HasOtherPath(a, b))
          continue;
        std::string reason;
        std::optional<Kernel> fused =
            Join(a, b, na, nb, na.extents.size(), nb.extents.size(), &reason);
        if (!fused) continue;
        if (records != nullptr) {
          records->push_back(
              {function_.kernels[a].name, function_.kernels[b].name, true,
               fmt::format("side by side, both read '{}'", function_.buffers[shared].name),
               fused->name});
        }
        // The pairs before that were refused are refused again where nothing else has changed.
        if (Replace(a, b, std::move(*fused))) side_by_side_from_ = std::max<size_t>(1, b - 1);
        return true;
      }
    }
    return false;
  }

  // What both kernels read, as large as what they go through; kNone where they may not or need not
  // stand side by side.
  BufferId SharedRead(size_t a, size_t b) {
    const Kernel& ka = function_.kernels[a];
    const Kernel& kb = function_.kernels[b];
    if (ka.template_kind != TemplateKind::kNone || kb.template_kind != TemplateKind::kNone ||
        access_[a].has_scatter || access_[b].has_scatter ||
        access_[a].reads.size() + access_[a].writes.size() + access_[b].reads.size() +
                access_[b].writes.size() >
            static_cast<size_t>(options_.max_buffers) ||
        CountOps(ka) + CountOps(kb) > static_cast<size_t>(options_.max_ops))
      return kNone;
    const int64_t iterations = exprs().HintOf(ProductOf(exprs(), NestOf(ka).extents));
    for (BufferId buffer : access_[a].reads) {
      if (access_[b].reads.contains(buffer) &&
          exprs().HintOf(function_.buffers[buffer].elements) >= iterations)
        return buffer;
    }
    return kNone;
  }

  bool Reads(size_t consumer, size_t producer) const {
    for (BufferId buffer : access_[producer].writes) {
      if (access_[consumer].reads.contains(buffer)) return true;
    }
    return false;
  }

  void IndexWriters() {
    writers_.assign(readers_.size(), {});
    for (size_t k = 0; k < access_.size(); ++k) {
      for (const BufferId buffer : access_[k].writes) writers_[buffer].push_back(k);
    }
  }

  // The kernels before b that it reads from, the nearest first.
  std::vector<size_t> ProducersOf(size_t b) const {
    std::vector<size_t> producers;
    for (const BufferId buffer : access_[b].reads) {
      for (const size_t a : writers_[buffer]) {
        if (a < b) producers.push_back(a);
      }
    }
    std::sort(producers.begin(), producers.end(), std::greater<>());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
    return producers;
  }

  // Whether a path from a to b passes another kernel. Kernels stand in order, so only those between
  // count.
  bool HasOtherPath(size_t a, size_t b) const {
    std::set<BufferId> written;  // by those between that need a
    const auto reads_any = [&](size_t k, const std::set<BufferId>& buffers) {
      return std::any_of(access_[k].reads.begin(), access_[k].reads.end(),
                         [&](BufferId buffer) { return buffers.contains(buffer); });
    };
    for (size_t k = a + 1; k < b; ++k) {
      if (reads_any(k, access_[a].writes) || reads_any(k, written)) {
        written.insert(access_[k].writes.begin(), access_[k].writes.end());
      }
    }
    return reads_any(b, written);
  }

  static size_t CountOps(const Kernel& kernel) {
    size_t count = 0;
    for (const Block& block : kernel.blocks) {
      for (const OpId op : block.ops) {
        const bool is_long = kernel.ops[op].kind == OpKind::kScalar &&
                             kernel::InfoOf(kernel.ops[op].opcode).transcendental;
        count += is_long ? kOpsOfTranscendental : 1;
      }
    }
    return count;
  }

  // How many of the loops of `nest`, from the outside, have together as many iterations as `count`.
  std::optional<size_t> SplitAt(const Nest& nest, Expr count) {
    Expr product = exprs().Const(1);
    for (size_t i = 0; i <= nest.extents.size(); ++i) {
      if (product == count) return i;
      if (i < nest.extents.size()) product = exprs().Mul(product, nest.extents[i]);
    }
    return std::nullopt;
  }

  std::optional<Kernel> TryFuse(size_t a, size_t b, std::string* reason) {
    const Kernel& ka = function_.kernels[a];
    const Kernel& kb = function_.kernels[b];
    if (kb.template_kind != TemplateKind::kNone) {
      *reason = fmt::format("{} reads its operands from memory", WordOf(kb.template_kind));
      return std::nullopt;
    }
    if (access_[a].has_scatter || access_[b].has_scatter) {
      *reason = "one of them scatters";
      return std::nullopt;
    }
    if (CountOps(ka) + CountOps(kb) > static_cast<size_t>(options_.max_ops)) {
      *reason = fmt::format("together they have more than {} ops", options_.max_ops);
      return std::nullopt;
    }
    std::set<BufferId> buffers = access_[a].reads;
    for (const std::set<BufferId>* more :
         {&access_[a].writes, &access_[b].reads, &access_[b].writes}) {
      buffers.insert(more->begin(), more->end());
    }
    if (buffers.size() > static_cast<size_t>(options_.max_buffers)) {
      *reason = fmt::format("together they use more than {} buffers", options_.max_buffers);
      return std::nullopt;
    }
    Nest na = NestOf(ka), nb = NestOf(kb);
    bool is_template = ka.template_kind != TemplateKind::kNone;
    Expr count_a = ProductOf(exprs(), na.extents), count_b = ProductOf(exprs(), nb.extents);
    // The loops to share: all of both where they have as many iterations; else those of the one
    // with rows.
    std::optional<size_t> depth_a, depth_b;
    if (count_a == count_b) {
      depth_a = na.extents.size();
      depth_b = nb.extents.size();
    } else if (na.has_inner_loops && !nb.has_inner_loops && !is_template) {
      depth_a = na.extents.size();
      depth_b = SplitAt(nb, count_a);
    } else if (!na.has_inner_loops && nb.has_inner_loops) {
      depth_a = SplitAt(na, count_b);
      depth_b = nb.extents.size();
    }
    if (!depth_a || !depth_b) {
      *reason = fmt::format("their loops do not match ({} against {} iterations)",
                            exprs().Format(count_a), exprs().Format(count_b));
      return std::nullopt;
    }
    if (is_template && nb.has_inner_loops) {
      *reason =
          fmt::format("{} takes nothing with loops of its own behind it", WordOf(ka.template_kind));
      return std::nullopt;
    }
    if (*depth_a != na.extents.size() || *depth_b != nb.extents.size()) {
      // Rows: what was parallel over elements becomes parallel over rows.
      int64_t rows = exprs().HintOf(ProductOf(exprs(), {na.extents.data(), *depth_a}));
      const Nest& split = *depth_a != na.extents.size() ? na : nb;
      size_t depth = *depth_a != na.extents.size() ? *depth_a : *depth_b;
      int64_t row = exprs().HintOf(ProductOf(exprs(), std::span(split.extents).subspan(depth)));
      if (rows < options_.min_rows && row > options_.max_row_of_few) {
        *reason = fmt::format("{} rows of {} elements would leave workers idle", rows, row);
        return std::nullopt;
      }
    }
    if (HasOtherPath(a, b)) {
      *reason = std::string(kOtherPath);
      return std::nullopt;
    }
    if (*depth_b == nb.extents.size() && !nb.has_inner_loops)
      OrderLikeStorage(kb, access_[a].writes, &nb);
    return Join(a, b, na, nb, *depth_a, *depth_b, reason);
  }

  // Puts the loops of an elementwise consumer in the order in which it walks what the producer
  // wrote, so that a transposed reader matches the producer's loops. Parallel loops may stand in
  // any order.
  void OrderLikeStorage(const Kernel& kernel, const std::set<BufferId>& written, Nest* nest) {
    for (const Op& op : kernel.ops) {
      if (op.kind != OpKind::kLoad || !written.contains(op.buffer)) continue;
      std::vector<std::pair<int64_t, size_t>> strides;
      for (size_t i = 0; i < nest->variables.size(); ++i) {
        std::optional<Expr> stride = exprs().StrideOf(op.index, nest->variables[i]);
        if (!stride || exprs().IsConst(*stride, 0)) return;
        strides.emplace_back(-exprs().HintOf(*stride), i);
      }
      std::stable_sort(strides.begin(), strides.end(),
                       [](const auto& x, const auto& y) { return x.first < y.first; });
      Nest ordered = *nest;
      for (size_t i = 0; i < strides.size(); ++i) {
        ordered.variables[i] = nest->variables[strides[i].second];
        ordered.extents[i] = nest->extents[strides[i].second];
      }
      *nest = std::move(ordered);
      return;
    }
  }

  std::optional<Kernel> Join(size_t a, size_t b, const Nest& na, const Nest& nb, size_t depth_a,
                             size_t depth_b, std::string* reason) {
    const Kernel& ka = function_.kernels[a];
    const Kernel& kb = function_.kernels[b];
    // The finer of the two gives the shared loops; a template keeps its own.
    bool a_leads = ka.template_kind != TemplateKind::kNone || depth_a >= depth_b;
    const Nest& lead = a_leads ? na : nb;
    size_t depth = a_leads ? depth_a : depth_b;
    KernelBuilder builder(function_, a_leads ? ka.name : kb.name);
    std::vector<Expr> variables;
    for (size_t i = 0; i < depth; ++i) {
      variables.push_back(builder.BeginLoop(
          LoopKind::kParallel, exprs().SymbolName(lead.variables[i]), lead.extents[i]));
    }
    std::span<const Expr> extents(lead.extents.data(), depth);
    auto share = [&](KernelCloner& cloner, const Nest& nest, size_t count) {
      std::span<const Expr> own(nest.extents.data(), count);
      std::vector<Expr> at = ReshapeIndex(exprs(), extents, variables, own);
      for (size_t i = 0; i < count; ++i) cloner.symbols.emplace_back(nest.variables[i], at[i]);
    };
    auto copy = [&](KernelCloner& cloner, const Nest& nest, size_t count) {
      if (count < nest.loops.size()) {
        cloner.One(nest.loops[count]);
      } else {
        cloner.Block(nest.body);
      }
    };
    // What the producer stores, and whether at the level of the shared loops.
    struct Stored {
      Expr index;
      ValueId value;
      bool is_shared_level;
      bool is_masked;
    };
    std::map<BufferId, std::vector<Stored>> stored;
    KernelCloner first(ka, builder);
    share(first, na, depth_a);
    size_t known = first.symbols.size();
    first.replace = [&](const Op& op) -> std::optional<ValueId> {
      if (op.kind != OpKind::kStore) return std::nullopt;
      Stored s{op.index, op.operands[0], builder.depth() == static_cast<int>(depth),
               op.operands.size() > 1};
      stored[op.buffer].push_back(std::move(s));
      return std::nullopt;
    };
    copy(first, na, depth_a);
    std::set<Expr> inner_a;
    for (size_t i = known; i < first.symbols.size(); ++i) inner_a.insert(first.symbols[i].second);

    KernelCloner second(kb, builder);
    share(second, nb, depth_b);
    bool uses_rows = false;
    std::string failure;
    second.replace = [&](const Op& op) -> std::optional<ValueId> {
      if (op.kind != OpKind::kLoad) return std::nullopt;
      auto it = stored.find(op.buffer);
      if (it == stored.end()) return std::nullopt;
      const std::string& name = function_.buffers[op.buffer].name;
      if (it->second.size() != 1 || it->second[0].is_masked) {
        failure = fmt::format("'{}' is stored in several places or under a mask", name);
        return std::nullopt;
      }
      const Stored& s = it->second[0];
      if (s.is_shared_level) {
        if (s.index != op.index) {
          failure = fmt::format("'{}' is read at {} and written at {}", name,
                                exprs().Format(op.index), exprs().Format(s.index));
          return std::nullopt;
        }
        if (op.operands.empty()) return s.value;
        return builder.Scalar(kernel::Opcode::kSelect, {op.operands[0], s.value, op.operands[1]});
      }
      if (ka.template_kind != TemplateKind::kNone) {
        failure = fmt::format("'{}' is not written once per iteration", name);
        return std::nullopt;
      }
      std::optional<RowAccess> write = RowOf(exprs(), s.index, inner_a);
      std::set<Expr> shared(variables.begin(), variables.end());
      if (!write || !ReadsRow(exprs(), op.index, *write, shared)) {
        failure = fmt::format("'{}' is read at {}, beyond the row written at {}", name,
                              exprs().Format(op.index), exprs().Format(s.index));
        return std::nullopt;
      }
      uses_rows = true;
      return std::nullopt;
    };
    copy(second, nb, depth_b);
    // What they store of one element would look like a place for an epilogue.
    if (failure.empty() && ka.template_kind != TemplateKind::kNone &&
        ka.template_kind != TemplateKind::kContraction) {
      failure = fmt::format("{} takes nothing behind it", WordOf(ka.template_kind));
    }
    if (!failure.empty()) {
      *reason = failure;
      return std::nullopt;
    }
    while (builder.depth() > 0) builder.EndLoop();
    Kernel& kernel = builder.kernel();
    kernel.ordered_reductions = ka.ordered_reductions || kb.ordered_reductions;
    kernel.nodes = ka.nodes;
    for (const std::string& node : kb.nodes) {
      if (std::find(kernel.nodes.begin(), kernel.nodes.end(), node) == kernel.nodes.end()) {
        kernel.nodes.push_back(node);
      }
    }
    if (ka.template_kind != TemplateKind::kNone) {
      kernel.template_kind = ka.template_kind;
      auto rename = [&](const std::vector<Expr>& symbols) {
        std::vector<Expr> renamed;
        for (Expr symbol : symbols) renamed.push_back(first.Rename(symbol));
        return renamed;
      };
      kernel.roles.batch = rename(ka.roles.batch);
      kernel.roles.m = rename(ka.roles.m);
      kernel.roles.n = rename(ka.roles.n);
      kernel.roles.k = rename(ka.roles.k);
      kernel.roles.product_a = first.values.at(ka.roles.product_a);
      kernel.roles.product_b = first.values.at(ka.roles.product_b);
      kernel.roles.accumulator = first.values.at(ka.roles.accumulator);
      *reason = fmt::format("epilogue of {}", WordOf(ka.template_kind));
    } else if (uses_rows) {
      *reason = "rows of one loop nest";
    } else {
      *reason = na.has_inner_loops ? "epilogue of a reduction" : "element by element";
    }
    return builder.Finish();
  }

  // Puts `fused` in the place of kernels a and b and restores the order of dependencies. True where
  // no other kernel has changed or moved before another.
  bool Replace(size_t a, size_t b, Kernel fused) {
    const std::string name_a = function_.kernels[a].name, name_b = function_.kernels[b].name;
    for (const size_t part : {a, b}) CountReaders(loads_[part], -1);
    access_[b] = AccessOf(fused);
    loads_[b] = LoadsOf(fused);
    CountReaders(loads_[b], 1);
    function_.kernels[b] = std::move(fused);
    const auto gone = static_cast<ptrdiff_t>(a);
    function_.kernels.erase(function_.kernels.begin() + gone);
    access_.erase(access_.begin() + gone);
    loads_.erase(loads_.begin() + gone);
    const bool has_dropped = DropUnread(), has_moved = Sort();
    IndexWriters();
    // The fused kernel may now take what either part refused, and paths have changed.
    std::erase_if(refused_, [&](const auto& entry) {
      return entry.first.first == name_a || entry.first.second == name_a ||
             entry.first.first == name_b || entry.first.second == name_b ||
             entry.second == kOtherPath;
    });
    return !has_dropped && !has_moved;
  }

  void CountReaders(const std::set<BufferId>& loads, int change) {
    for (const BufferId buffer : loads) {
      readers_[buffer] += change;
      if (readers_[buffer] == 0) unread_.push_back(buffer);
    }
  }

  // DropUnreadStores, but only of kernels that write what lost its last reader since. True where
  // one of them changed.
  bool DropUnread() {
    const auto is_read = [&](BufferId buffer) { return readers_[buffer] > 0; };
    std::vector<BufferId> unread = std::exchange(unread_, {});
    std::erase_if(unread, is_read);
    std::vector<size_t> changed;
    for (size_t k = 0; k < access_.size() && !unread.empty(); ++k) {
      const auto writes = [&](BufferId buffer) { return access_[k].writes.contains(buffer); };
      if (std::any_of(unread.begin(), unread.end(), writes) &&
          DropUnreadStores(function_, function_.kernels[k], is_read)) {
        changed.push_back(k);
      }
    }
    // What they no longer load counts from the next time on.
    for (const size_t k : changed) {
      CountReaders(loads_[k], -1);
      loads_[k] = LoadsOf(function_.kernels[k]);
      CountReaders(loads_[k], 1);
    }
    return !changed.empty();
  }

  // Puts kernels behind those that they read from. Stable: always the first whose producers have
  // all been placed. True where one moved.
  bool Sort() {
    const size_t count = access_.size();
    std::vector<int> missing(readers_.size(), 0);  // writers that are not placed
    for (const KernelAccess& one : access_) {
      for (const BufferId buffer : one.writes) ++missing[buffer];
    }
    std::vector<size_t> order;
    std::vector<bool> placed(count, false);
    const auto is_ready = [&](const KernelAccess& one) {
      return std::none_of(one.reads.begin(), one.reads.end(), [&](BufferId buffer) {
        return missing[buffer] > 0 && !one.writes.contains(buffer);
      });
    };
    for (size_t first = 0; order.size() < count;) {
      while (placed[first]) ++first;
      size_t next = first;
      while (next < count && (placed[next] || !is_ready(access_[next]))) ++next;
      // There is one while HasOtherPath holds; keep the order rather than lose kernels.
      if (next == count) next = first;
      for (const BufferId buffer : access_[next].writes) --missing[buffer];
      placed[next] = true;
      order.push_back(next);
    }
    if (std::is_sorted(order.begin(), order.end())) return false;
    const auto permute = [&](auto& list) {
      std::remove_reference_t<decltype(list)> sorted;
      for (const size_t k : order) sorted.push_back(std::move(list[k]));
      list = std::move(sorted);
    };
    permute(function_.kernels);
    permute(access_);
    permute(loads_);
    return true;
  }

  Function& function_;
  FuseOptions options_;
  // Of each kernel: all that it was made of, and what it still loads.
  std::vector<KernelAccess> access_;
  std::vector<std::set<BufferId>> loads_;
  std::vector<int> readers_;                  // per buffer: kernels that load it
  std::vector<std::vector<size_t>> writers_;  // per buffer: kernels, in order
  std::vector<BufferId> unread_;  // those that lost the last one since stores were dropped
  std::map<std::pair<std::string, std::string>, std::string> refused_;
  std::vector<std::pair<std::string, std::string>> order_;
  // Kernels of FuseSideBySide before this one have been tried with all before them.
  size_t side_by_side_from_ = 1;
};

}  // namespace

Status JoinKernels(Function& function, const FuseOptions& options,
                   std::vector<FusionRecord>* records) {
  return Fuser(function, options).Run(records);
}

Status FuseKernels(Function& function, const FuseOptions& options,
                   std::vector<FusionRecord>* records) {
  HY_TRY(JoinKernels(function, options, records));
  if (options.merge_loops) MergeLoops(function);
  MergeSiblingLoops(function);
  Localize(function, options.max_local_bytes);
  return OkStatus();
}

}  // namespace halyard::loop
