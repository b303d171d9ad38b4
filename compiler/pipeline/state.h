// SPDX-License-Identifier: Apache-2.0
// CompileState: what the passes of the pipeline work on. One compilation owns one state; each pass
// reads and replaces parts of it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/abi.h"
#include "compiler/graph/graph.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/pipeline/progress.h"
#include "compiler/place/problem.h"
#include "compiler/plan/arena_plan.h"
#include "compiler/program/program.h"
#include "compiler/schedule/schedule.h"

namespace halyard::pipeline {

// What runs on one device without a cut: a graph of the module whose parameters and results are
// values of the entry graph, lowered and scheduled together. An interpreted segment is one node.
struct Segment {
  uint32_t device = 0;
  bool is_interpreted = false;
  graph::NodeId interpreted_node = graph::kNone;
  uint32_t graph = 0;                              // index into module.graphs
  loop::Function function;                         // after `lower`
  std::vector<schedule::ScheduledKernel> kernels;  // after `schedule`: one per loop kernel
  // Per loop kernel: the code of all its kernels where a race made it; null where it is still to be
  // made.
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> images;
};

// The name of kernel `index` in an image that a race made: the image serves every equal kernel of
// the model.
inline std::string RacedKernelName(size_t index) { return fmt::format("k{}", index); }

// The level that the state's text is at; what HALYARD_DUMP prints after a pass.
enum class Level : uint8_t { kGraph, kLoop, kKernel, kProgram };
std::string_view FormatLevel(Level level);

// What placement expects of a cluster on its device.
struct ClusterPrediction {
  place::Work work;
  double seconds = 0;
  place::Source source = place::Source::kDefault;
  uint64_t key = 0;  // what the timing cache is asked by
};

// How a compilation deals with the limits of the devices' memories
// (compiler/pipeline/fit_memory.h).
struct MemoryAttempt {
  std::vector<int64_t> margins;  // per device: what placement leaves of the limit; empty: nothing
  // Placement takes as little as it finds of the devices whose `margins` are INT64_MAX, and exceeds
  // a limit where it finds no plan within.
  bool may_exceed = false;
  bool is_last = false;  // what is too large is a failure of the compilation
};

struct CompileState {
  const CompileRequest* request = nullptr;  // borrowed; null in hy-opt
  Progress* progress = nullptr;             // borrowed; null: nobody listens
  graph::Module module;
  std::vector<uint32_t> cluster_of;  // per node: its cluster; after `cluster`
  std::vector<uint32_t> device_of;   // per cluster: its device; after `place`
  // What a device cannot run though it has code for it: cluster and device, with the reason; found
  // by `place` (refusals.h).
  std::map<std::pair<uint32_t, uint32_t>, std::string> refusals;
  // Weights that a device gets anew in each run, the bytes of the largest lot of them that a
  // cluster on it needs at once, and how many such lots it holds; after `place`.
  std::set<std::pair<graph::ConstantId, uint32_t>> streamed;
  std::map<uint32_t, int64_t> stream_lot_bytes;
  uint32_t stream_lots = 2;
  MemoryAttempt memory_attempt;
  std::vector<int64_t> memory_excess;          // per device, beyond its limits; after `assemble`
  std::vector<ClusterPrediction> predictions;  // per cluster; after `place`
  uint32_t trial_fusions = 0;  // how often `place` lowered and fused the graph to see its kernels
  std::vector<Segment> segments;            // in execution order; after `segment`
  std::vector<kernel::Module> executables;  // one per program executable; after `assemble`
  program::Program program;  // devices and records from the start; the rest from `assemble`
  Level level = Level::kGraph;
  // Per node name its ONNX op types; after `import`, empty for models that are no ONNX.
  std::map<std::string, std::set<std::string>> op_types;
  // Names of nodes that became part of another one, with that one's name; after `fuse-attention`,
  // and when Graph IR ends without those that are nodes still.
  std::map<std::string, std::string> part_of;
  // Per name of a merged product the other products and the additions in it, whose slices may be
  // nodes elsewhere; after `merge-matmuls`.
  std::map<std::string, std::vector<std::string>> merged_products;

  // Of the pass that runs, `done` of `count` equal pieces; any thread.
  void Advance(size_t done, size_t count) const {
    if (progress != nullptr)
      progress->Advance(static_cast<double>(done) / static_cast<double>(count));
  }

  void Record(std::string kind, std::string subject, std::string text) {
    program.records.push_back({std::move(kind), std::move(subject), std::move(text)});
  }
};

// The text of the current level: a valid input of hy-opt.
Result<std::string> FormatState(const CompileState& state);

}  // namespace halyard::pipeline
