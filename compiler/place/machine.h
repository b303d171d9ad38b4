// SPDX-License-Identifier: Apache-2.0
// Machine: what placement knows of the devices and of the links between their memories, as plain
// data: measured by probes, fitted from runs, from a table, or guessed; every number says which. A
// machine is a numbered snapshot: a plan is a function of graph, options and snapshot. Never
// touches a device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "compiler/target/target.h"

namespace halyard::program {
struct Device;
}

namespace halyard::place {

inline constexpr uint32_t kNone = UINT32_MAX;

// Where a number comes from, the least trusted first.
enum class Source : uint8_t { kDefault, kTable, kFitted, kMeasured };
std::string_view FormatSource(Source source);  // "default", "table", "fitted", "measured"

// The relative standard deviation that a source starts with, until data replaces it.
double StartSigma(Source source);

// A quantity in SI units (seconds, bytes/s, FLOP/s). `sigma`: relative standard deviation.
struct Number {
  double value = 0;
  Source source = Source::kDefault;
  double sigma = 0.6;
  friend bool operator==(const Number&, const Number&) = default;
};

// Kinds of work that reach different parts of a device's peak.
enum class OpClass : uint8_t {
  kPointwise,
  kReduction,
  kContraction,
  kConvolution,
  kAttention,
  kIndexing,  // gather, scatter
  kOrdering,  // sort, topk, cumsum, nonzero
  kControl,   // if, loop
};
inline constexpr size_t kOpClassCount = 8;
std::string_view FormatOpClass(OpClass op_class);  // "pointwise", ...

// What the device can do at most: FLOP/s of a class in a dtype.
struct Rate {
  OpClass op_class = OpClass::kPointwise;
  DType dtype = DType::kF32;
  Number flops_per_second;
  friend bool operator==(const Rate&, const Rate&) = default;
};

// A level of the memory hierarchy, seen from all units together. `bytes`: its size.
struct Level {
  std::string name;  // "l2", "memory"
  int64_t bytes = 0;
  Number bytes_per_second;
  friend bool operator==(const Level&, const Level&) = default;
};

// Measured time over roofline time of an op class, at a size: work = log2 of the roofline seconds
// in nanoseconds. Between points the factor is interpolated, outside it is that of the nearest.
struct FitPoint {
  double work = 0;
  double factor = 1;
  friend bool operator==(const FitPoint&, const FitPoint&) = default;
};
struct Fit {
  OpClass op_class = OpClass::kPointwise;
  std::vector<FitPoint> points;  // ascending in `work`, not empty
  double sigma = 0.25;           // relative, of what remains
  friend bool operator==(const Fit&, const Fit&) = default;
};

// What the interpreter takes for an op of a class on the host: `start_seconds`, and `unit_seconds`
// for each unit of Work::InterpretedUnits.
struct InterpretedRate {
  OpClass op_class = OpClass::kPointwise;
  Number start_seconds;
  Number unit_seconds;
  friend bool operator==(const InterpretedRate&, const InterpretedRate&) = default;
};

struct Device {
  std::string name;      // as in program::Device: "cpu:0"
  std::string identity;  // model, UUID and driver; numbers of another identity are not used
  TargetKind kind = TargetKind::kCpu;
  uint32_t memory = 0;      // index into Machine::memories
  uint32_t silicon = 0;     // devices of equal number share their units: one runs at a time
  uint32_t units = 0;       // of a GPU, each runs workgroups of its own; 0: unknown
  Number dispatch_seconds;  // per dispatch, in a submission of many
  Number submit_seconds;    // of a submission: from the host's call to the first dispatch
  Number wait_seconds;  // from the end of the last dispatch to another device's or the host's start
  std::vector<Rate> rates;
  std::vector<Level> levels;  // the smallest first; the last is the memory itself
  std::vector<Fit> fits;
  // The same of kernels whose weights and code no cache holds: those of models with more weights
  // than the caches. Of a class that is not here `fits` hold there, too.
  std::vector<Fit> cold_fits;
  std::vector<InterpretedRate> interpreted;  // of the host; what has no class here is a default
  friend bool operator==(const Device&, const Device&) = default;
};

struct Memory {
  std::string name;   // "host", "cuda:0"
  int64_t bytes = 0;  // what a program may take; 0: unknown, not limited
  friend bool operator==(const Memory&, const Memory&) = default;
};

// How bytes get from one memory to another.
enum class PathKind : uint8_t {
  kNative,    // the same memory: nothing moves
  kImport,    // the other driver's memory, imported
  kPeer,      // device to device
  kPinned,    // through page-locked host memory
  kPageable,  // through ordinary host memory
};
std::string_view FormatPathKind(PathKind kind);  // "native", "import", "peer", "pinned", "pageable"

// Bandwidth at a transfer size, without the latency. Linear in the logarithm of the size between
// points, constant outside.
struct CurvePoint {
  int64_t bytes = 0;
  double bytes_per_second = 0;
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// One direction. Links of one `engine` share it: one transfer at a time.
struct Link {
  uint32_t from = 0, to = 0;  // memories
  PathKind path = PathKind::kPageable;
  uint32_t engine = 0;
  bool is_verified = false;  // a probe moved bytes over it and found them whole
  Number latency_seconds;
  // What a value of a few KiB takes from the end of a kernel on a device of the one memory to the
  // start of a kernel on a device of the other, as programs run: threads that wake up, submissions
  // and the copy. 0: not measured, waits and submissions of both devices stand for it.
  Number crossing_seconds;
  std::vector<CurvePoint> curve;  // ascending in bytes, not empty
  // Of inputs of a run, which the host copies from the caller's memory into page-locked memory,
  // with that copy; of links from the home memory. Empty: as `curve`.
  std::vector<CurvePoint> caller_curve;
  Source source = Source::kDefault;
  double sigma = 0.6;
  friend bool operator==(const Link&, const Link&) = default;
};

// Of the value whose crossing is measured.
inline constexpr int64_t kCrossingBytes = 8 << 10;

struct Machine {
  uint64_t snapshot = 0;  // 0: defaults only; a probe or a replan counts up
  std::string load;       // what else ran while it was measured; free text
  uint32_t home = 0;      // the memory where inputs are and outputs go
  std::vector<Device> devices;
  std::vector<Memory> memories;
  std::vector<Link> links;  // missing pairs are reached through others
  // Of everything that costs depend on: the snapshot's identity.
  uint64_t Hash() const;
  friend bool operator==(const Machine&, const Machine&) = default;
};

// Defaults and tables for the devices of a request, in their order: memory 0 is the host's;
// devices of the host share it, every other has its own. Two drivers' devices of one GPU share a
// silicon when their identities name the same UUID.
Machine DefaultMachine(std::span<const program::Device> devices);

// The machine of a request from stored measurements: devices of `measured` with equal name and
// identity replace the defaults, links between memories of two such devices too. Devices that do
// not match keep their defaults; `notes` gets a sentence for each.
Machine MergeMeasured(const Machine& defaults, const Machine& measured,
                      std::vector<std::string>* notes);

// Every index in range, every number finite and in its range, curves ascending. INVALID_ARGUMENT
// names object, value and limit.
Status VerifyMachine(const Machine& machine);

// Of the largest cache of a device, as its levels tell.
int64_t CacheBytes(const Device& device);
// Of weights that a run still finds in that cache from the run before. A GPU's is half of it: what
// two halves of the chip read may stand in both halves of the cache, and what runs through it in
// the same order each time is gone when it comes again.
int64_t KeptBytes(const Device& device);

// Line-based text; Parse reads exactly what Format writes, and calls VerifyMachine.
// INVALID_ARGUMENT with the line number where the text is wrong; texts of more than 1 MiB are
// refused.
std::string FormatMachine(const Machine& machine);
Result<Machine> ParseMachine(std::string_view text);

}  // namespace halyard::place
