// SPDX-License-Identifier: Apache-2.0
// TeamEmitter: workitems that share one iteration of the chain (a row, or a vector of columns).
// Loops at the top of the row's body are spread over them; everything else there is computed by all
// of them alike, and stored by the first. Reductions are combined by shuffles within a subgroup,
// then through workgroup memory, in an order that depends on the schedule only.
//
// Rows: iteration j of a spread loop belongs to workitem floordiv(j, lanes) mod team, so that a
// subgroup reads contiguous vectors. Columns: the vector axis is the chain's, and iteration j
// belongs to workitem j mod team.
// A persistent team writes its loops out: equal loads of two loops become one, so a row that is
// read by several loops stays in registers, and so do local buffers: those of 16-bit floats as the
// f32 that were computed, which are not rounded in between, as nothing within one iteration is.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/schedule/gpu/grid.h"

namespace halyard::schedule {

// A loop at the top of a row's body, with the loops nested perfectly in it.
struct TeamLoop {
  std::vector<loop::OpId> nest;  // outermost first; the innermost one's body is what runs
  Expr symbol;                   // of the loop, or made to count through several
  Expr extent;
};

class TeamEmitter : public Emitter {
 public:
  struct Team {
    bool columns = false;
    bool persistent = false;
    int lanes = 1;      // rows: elements per workitem and step
    int unroll = 1;     // steps in flight
    int size = 1;       // workitems per team, a power of two
    int width = 1;      // columns: workitems along the chain, a power of two
    int workgroup = 1;  // workitems, a multiple of both the subgroup and the team
    int subgroup = 1;
    V item = kernel::kNone;    // of the workgroup
    V member = kernel::kNone;  // of the team
    V valid = kernel::kNone;   // false: a repeated row that stores nothing; kNone: no such rows
  };

  // One of several dispatches that share the rows' loops: each spread loop runs in one of them, cut
  // into parts that are teams of their own. Parts of a reduction go through a workspace, where the
  // dispatches after it combine them in a fixed order.
  struct Stage {
    loop::OpId current = loop::kNone;  // the loop that runs here; kNone: none does
    std::set<loop::OpId> done;         // ran in earlier stages
    bool is_last = true;               // what the row stores outside its loops is stored here
    V part = kernel::kNone;            // of the current loop that this team runs
    V begin = kernel::kNone, count = kernel::kNone;  // iterations of the part
    V row = kernel::kNone, rows = kernel::kNone;     // of the workspaces; rows: how many
    std::map<loop::OpId, Expr> parts;                // of each loop
    // The workspace of an accumulator of a loop.
    std::function<kernel::BufferId(loop::OpId loop, size_t accumulator, DType dtype)> place;
  };

  TeamEmitter(const Nest& nest, Writer& writer, Options options, Team team);

  void SetStage(Stage stage) { stage_ = std::move(stage); }

  // The loops of the row's body that are spread; one entry per op, made by TeamLoops.
  void SetLoops(std::map<loop::OpId, TeamLoop> loops) { loops_ = std::move(loops); }
  // Where members of one team may read what others wrote, in global or workgroup memory: barriers
  // go between.
  void ShareBuffer(loop::BufferId buffer) { shared_.insert(buffer); }
  void SetValid(V valid) { team_.valid = valid; }
  // Element j of the local buffer is only used in iteration j of spread loops of one extent.
  bool IsUsedByOwner(loop::BufferId buffer);
  // A persistent team may then hold it as values.
  void KeepInRegisters(loop::BufferId buffer) { registers_[buffer]; }

  Status EmitRow(const std::vector<loop::OpId>& ops);

 protected:
  Status EmitLoad(const loop::Op& op) override;
  Status EmitStore(const loop::Op& op) override;
  Status EmitScatter(const loop::Op& op) override;
  Status EmitLoop(loop::OpId id) override;

 private:
  // One step of a spread loop: its vector starts at `base`. `active`: false where base is a
  // repetition of the first vector. `mask`: the lanes that are iterations.
  struct Step {
    V base = kernel::kNone, active = kernel::kNone, mask = kernel::kNone;
    int64_t number = 0;
  };

  Step StepAt(const TeamLoop& loop, V start, int64_t number, bool whole);
  V Begin(const TeamLoop& loop);
  V Count(const TeamLoop& loop);
  Status RunStep(const TeamLoop& loop, const Step& step, std::vector<V>* accumulators);
  Status Spread(const TeamLoop& loop, std::vector<V>* accumulators);
  Status SpreadRows(const TeamLoop& loop, std::vector<V>* accumulators);
  Status SpreadColumns(const TeamLoop& loop, std::vector<V>* accumulators);
  Status SpreadLooped(const TeamLoop& loop, int64_t stride, std::vector<V>* accumulators);
  Status FoldLanes(const loop::Op& op, std::vector<V>* accumulators);
  std::vector<V> CombineTeam(const loop::Op& op, std::vector<V> values);
  void CombineSubgroup(const loop::Op& op, std::vector<V>& values, int members);
  std::vector<V> Widened(const std::vector<V>& values);
  std::vector<V> Narrowed(const std::vector<V>& values, const std::vector<V>& like);
  std::vector<V> CombineParts(loop::OpId id, const loop::Op& inner);
  void StoreParts(loop::OpId id, const std::vector<V>& values);
  V PartIndex(loop::OpId id, V part);
  void OrderMemory(const std::vector<loop::OpId>& ops);
  template <class F>
  Status Guarded(const loop::Op& op, F emit);

  const Nest& nest_;
  Team team_;
  std::map<loop::OpId, TeamLoop> loops_;
  std::optional<Stage> stage_;
  std::set<loop::BufferId> shared_, read_since_, written_since_;
  struct Kept {
    V value = kernel::kNone;
    V unrounded = kernel::kNone;  // the f32 that it was; kNone: it was none
  };
  std::map<loop::BufferId, std::map<int64_t, Kept>> registers_;  // by step
  V guard_ = kernel::kNone;                                      // of stores
  const Step* step_ = nullptr;
  int partials_ = 0;
};

// The loops of `ops` that a team may spread, by op. Flattened loops get symbols of their own, which
// `emitter` (when given) learns.
std::map<loop::OpId, TeamLoop> TeamLoops(const Nest& nest, const std::vector<loop::OpId>& ops,
                                         Emitter* emitter);

}  // namespace halyard::schedule
