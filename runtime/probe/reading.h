// SPDX-License-Identifier: Apache-2.0
// What probes find: one reading per thing measured, with its spread, and the state of the machine
// meanwhile. Plain data with a JSON form (docs/devices.schema.json).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "hal/capabilities.h"

namespace halyard::runtime {

// Of repeated samples of one quantity, in seconds.
struct Spread {
  double median = 0;
  double mad = 0;   // median of the distances from the median
  double best = 0;  // smallest
  int64_t count = 0;
};
// Of at least one sample.
Spread Summarize(std::vector<double> samples);

enum class ReadingKind : uint8_t {
  kCopy,        // bytes from one memory to another
  kRead,        // kernels read `bytes`
  kStream,      // kernels copy: read half of `bytes`, write the other half
  kTriad,       // a = b + s * c
  kMatmul,      // n x n by n x n
  kKernel,      // a kernel of a class of op, of a size that models have
  kDispatch,    // one small kernel after another in one recording, per kernel
  kSubmit,      // the host's call that submits one kernel
  kReplay,      // the same recording once more, from the call to the end of the wait
  kWait,        // from the end of the work to the return of the wait: kReplay without the two above
  kFirstTouch,  // the device writes `bytes` of memory that was just allocated
  kLaterTouch,  // the same once more
  kCrossing,    // a value of `bytes` from a kernel on one device to a kernel on the other and back:
                // half
  kInterpreted,  // the interpreter evaluates an op of a class
  kColdKernel,   // as kKernel, with none of its weights and code in the caches
};
std::string_view FormatReadingKind(ReadingKind kind);  // "copy", "read", ...

// Parts of a probe, each measured whole or not. A set of them is a sum of their bits.
enum ProbePart : uint32_t {
  kLatencies = 1,   // kDispatch, kSubmit, kReplay, kWait, kFirstTouch, kLaterTouch
  kCopies = 2,      // kCopy, to other devices too
  kBandwidth = 4,   // kRead, kStream, kTriad
  kClasses = 16,    // kKernel, kColdKernel, kInterpreted
  kProducts = 8,    // kMatmul
  kCrossings = 32,  // kCrossing
};
inline constexpr uint32_t kAllParts =
    kLatencies | kCopies | kCrossings | kBandwidth | kClasses | kProducts;
std::string FormatParts(uint32_t parts);  // "bandwidth, products"

struct Reading {
  ReadingKind kind = ReadingKind::kCopy;
  std::string device;    // path of the device that did it
  std::string from, to;  // kCopy: "device", "pinned", "pageable", or the path of another device
                         // kCrossing: "device", and the path of the other one
  std::string level;     // kRead, kStream, kTriad: "L1", "L2", "L3", "memory"
  std::string op_class;  // kKernel, kColdKernel, kInterpreted: as place::FormatOpClass
  std::string dtype;     // kMatmul, kKernel, kColdKernel, kInterpreted
  bool matrix_units = false;  // kMatmul: whether kernels may use them
  int64_t size = 0;           // kMatmul: n
  int64_t bytes = 0;          // moved by one operation; of kMatmul: of the three matrices
  double operations = 0;  // kMatmul, kKernel, kColdKernel, kInterpreted: floating-point operations
  int64_t results = 0;    // kKernel, kColdKernel: elements that its main op gives
  int64_t rows = 0, columns = 0;  // the same: of the matrices of a product's results; 0: none
  Spread seconds;                 // of one operation
  bool is_verified = false;       // kCopy: up to 16 MiB were seen to arrive whole on this way
  int64_t clock_hz = 0;           // of the device while it worked; 0: not told

  // Operations of a product, bytes otherwise, per second; 0 for latencies, kernels, crossings and
  // what is interpreted.
  double Rate() const;
  // Whether it took time at all; only differences of two readings can be nothing.
  bool IsPlausible() const;
};

// What a part took, of which making its kernels: compiling them, or waiting for it, and loading.
struct PartTime {
  ProbePart part = kLatencies;
  double seconds = 0, making_seconds = 0;
};

// One device's part of a report.
struct DeviceProbe {
  std::string path;
  std::string name;
  std::string identity;  // as runtime::IdentityOf: readings are good for this alone
  hal::DeviceState before, after;
  std::vector<Reading> readings;
  std::vector<std::string> notes;    // what could not be measured, and why
  bool is_first_use = false;         // short, by a compile that had none (first_probe.h)
  bool is_complete = false;          // false: what was asked for was cut short or failed
  uint32_t lacks = kAllParts;        // parts that were cut short, failed, or were not asked for
  double seconds = 0;                // that probing took
  std::vector<PartTime> part_times;  // of the parts that were begun, in their order
};

struct ProbeReport {
  uint64_t snapshot = 0;     // counts up with every change of what is stored
  int64_t unix_seconds = 0;  // when it was taken
  std::vector<DeviceProbe> devices;

  // Of the device that was opened so: options are part of its identity. Null without one.
  const DeviceProbe* Find(std::string_view path, std::string_view identity) const;
};

std::string FormatProbeReport(const ProbeReport& report);  // JSON
// DATA_LOSS says what is wrong with the text; texts of more than 4 MiB are refused.
Result<ProbeReport> ParseProbeReport(std::string_view text);

// A table for people.
std::string TabulateProbe(const DeviceProbe& probe);

}  // namespace halyard::runtime
