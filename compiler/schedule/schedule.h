// SPDX-License-Identifier: Apache-2.0
// Scheduling: turns one loop kernel into Kernel IR for a target. A schedule record says how (plain
// data: the tuner varies it, the timing cache stores it, `explain` prints it); EnumerateSchedules
// lists the records worth trying, best first by an analytic model; BuildKernel obeys one of them.
// Nothing here runs code or measures; results never depend on the number of workers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpu_library_call.h"
#include "base/status.h"
#include "compiler/expr/expr.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

enum class ScheduleKind : uint8_t {
  kRow,          // loop nests as written: one vector loop per nest, outer parallel loops over tasks
  kContraction,  // register tiles over a packed or in-place operand B, epilogue on the tile
  kAttention,    // rows of contractions and row loops; tiles over the rows of a task
  kWindow,       // reductions over a small sliding window, several positions at a time
  kGpuMap,       // one workitem per vector of outer iterations
  kGpuTeam,      // workitems that share an outer iteration and spread its loops
  kGpuTile,      // contraction: a tile of C per workgroup, register tiles per workitem
  kGpuMatrix,    // the same on matrix units, fragments per subgroup
  kGpuWgmma,     // the same on matrix units that four subgroups feed together, asynchronously
  kGpuVector,    // contraction with a short side: the other operand streams from memory
  kGpuTranspose,        // squares of two outer loops, transposed in workgroup memory
  kGpuAttention,        // blocks of rows and keys with an online softmax
  kGpuMatrixAttention,  // the same on matrix units, rows per subgroup
  kGpuLibrary,  // contraction by a vendor's library; the tile is of the kernel that stands in for
                // it
};

// How the vector-side operand of a contraction (B: the one whose elements fill vectors) is read.
enum class OperandMode : uint8_t {
  kInPlace,  // contiguous along the vector dimension: loads straight from its buffer
  kPacked,   // copied into panels in workgroup memory by each task, through the operand's body
  kPackedConstant,  // panels made once at compile time (ScheduledKernel::constants)
};

// Sizes of a GPU contraction; m counts rows, n columns (`swap`: of the transposed problem).
struct GpuTile {
  int32_t m = 0, n = 0, k = 0;     // of a workgroup's tile; k: of one step
  int32_t item_m = 0, item_n = 0;  // of the part of C that a workitem, subgroup or quad has
  int32_t stages = 1;              // tiles of k in workgroup memory
  int32_t split = 1;               // parts of k, each in a workgroup of its own
  int32_t raster = 1;              // rows of tiles that are walked together
  friend bool operator==(const GpuTile&, const GpuTile&) = default;
};

// Every number is a decision that code depends on; fields that a kind does not use stay at their
// default.
struct ScheduleRecord {
  ScheduleKind kind = ScheduleKind::kRow;
  int32_t lanes = 1;   // elements per vector
  int32_t unroll = 1;  // row: vectors in flight per vector loop; contraction: k steps per iteration
  // Row: the loops that are vectorised, by their position among the kernel's loops in text order.
  std::vector<int32_t> vector_loops;
  // Row: iterations of the flattened outer parallel loops that one task does; 0: all.
  int64_t grain = 0;
  // Row: elements of a vectorised outer parallel loop that one task does; 0: all.
  int64_t chunk = 0;
  // Contraction; attention uses mr, nv and mc, a window mr (positions), a GPU map mr (neighbours
  // along the loop that its windows slide along, which one workitem computes; 0: no such loop), a
  // row mr (iterations of a task side by side; 0: one after the other)
  bool swap = false;  // vectors run along m instead of n
  int32_t mr = 0;     // rows of the register tile (broadcast side)
  int32_t nv = 0;     // vectors per row of the register tile
  int64_t kc = 0;     // k block
  int64_t mc = 0;     // rows of C per task
  int64_t nc = 0;     // columns of C per task, a multiple of nv * lanes
  OperandMode b = OperandMode::kPacked;
  bool pack_a = false;  // the broadcast side is copied into workgroup memory first
  // GPU map, team and transpose. chunk: iterations of a spread loop that one workgroup does, 0: all
  // (team: with a chunk, every spread loop is a dispatch of its own); lanes: elements per vector;
  // unroll: vectors per workitem (map), steps in flight (team); vector_loops: the innermost of the
  // loops that are counted through together.
  int32_t workgroup = 0;    // workitems
  int32_t team = 0;         // workitems that share an iteration
  int32_t side = 0;         // transpose: of the square
  bool columns = false;     // team: vectors run along the chain, not along the spread loops
  bool persistent = false;  // team: loops of known extent are written out, rows stay in registers
  // GPU contractions; `swap` and `unroll` too
  GpuTile tile;
  bool async = false;  // operands reach workgroup memory by asynchronous copies
  bool joins = false;  // the last workgroup of a tile adds the parts of k, not a second dispatch
  GpuLibraryChoice library;  // kGpuLibrary: what the library's heuristics chose on the device

  friend bool operator==(const ScheduleRecord&, const ScheduleRecord&) = default;
};

// "row lanes=16 unroll=2 vector=[1,2] grain=64". ParseSchedule reads exactly what FormatSchedule
// writes.
std::string FormatSchedule(const ScheduleRecord& record);
Result<ScheduleRecord> ParseSchedule(std::string_view text);

// What fills one buffer parameter of a dispatch.
struct Binding {
  enum class Kind : uint8_t {
    kBuffer,     // index: loop::Function::buffers
    kWorkspace,  // index: ScheduledKernel::workspaces
    kConstant,   // index: ScheduledKernel::constants
  };
  Kind kind = Kind::kBuffer;
  uint32_t index = 0;
  friend bool operator==(const Binding&, const Binding&) = default;
};

// One launch of kernels[kernel]. A workgroup with an id outside the grid is never run; a grid with
// a zero extent is skipped by the runtime.
struct Dispatch {
  uint32_t kernel = 0;
  std::vector<Binding> bindings;  // one per buffer parameter, in order
  std::vector<Expr> scalars;      // one per scalar parameter, in order; over dimension symbols
  Expr grid[3];
  // Whether the kernel gains by beginning before what it depends on has ended (dependent_launch.h).
  bool begins_early = true;
};

// Memory that lives from the first to the last dispatch of the kernel; contents undefined at the
// start. `is_zero`: all bytes are 0 at the start, and again at the end.
struct Workspace {
  Expr bytes;
  bool is_zero = false;
};

// A constant that the kernel wants in another layout. Equal (buffer, packing) pairs of several
// kernels share one packed copy. PackConstant makes the bytes from the name alone.
struct PackedConstant {
  loop::BufferId buffer = loop::kNone;
  std::string packing;
  int64_t bytes = 0;
};

struct ScheduledKernel {
  ScheduleRecord record;
  std::vector<kernel::Kernel> kernels;
  std::vector<Dispatch> dispatches;  // in order; each may read what an earlier one wrote
  std::vector<Workspace> workspaces;
  std::vector<PackedConstant> constants;
  // By kernel: the library's call that may run in its place. Operands are its bindings.
  std::map<uint32_t, GpuLibraryCall> library_calls;
};

// The records worth trying for function.kernels[kernel], best first; never empty when OK, and every
// one of them builds. UNIMPLEMENTED names the construct that no schedule covers, or the loop
// iterations that the target does not make (gpu/loop_limit.h).
Result<std::vector<ScheduleRecord>> EnumerateSchedules(const loop::Function& function,
                                                       uint32_t kernel, const Target& target);

// INVALID_ARGUMENT when the record does not fit the kernel, UNIMPLEMENTED when its loops are longer
// than the target runs. The arena of `function` gains
// expressions.
Result<ScheduledKernel> BuildKernel(const loop::Function& function, uint32_t kernel,
                                    const ScheduleRecord& record, const Target& target);

// Rearranges a constant for `packing` (a PackedConstant::packing). INVALID_ARGUMENT when the name
// is not one of ours, OUT_OF_RANGE when it reads beyond `source`.
Result<std::vector<uint8_t>> PackConstant(std::string_view packing,
                                          std::span<const uint8_t> source);

}  // namespace halyard::schedule
