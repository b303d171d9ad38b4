// SPDX-License-Identifier: Apache-2.0
// The border between libhalyard.so and libhalyard_compiler.so: one versioned C function. The
// runtime opens the compiler library on the first compile, calls hy_compiler_get, and uses the
// table it returns. The two libraries come from one build (the identity must match exactly), so C++
// types may cross here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gpu_library_call.h"
#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/place/machine.h"
#include "compiler/place/options.h"
#include "compiler/place/timings.h"
#include "compiler/program/program.h"

namespace halyard {

// Times candidate schedules on a real device and remembers the winners. Implemented by runtime/
// over the HAL and the timing cache, used by scheduling. Without one the analytic rank decides.
// Called from one thread at a time.
class Measurer {
 public:
  virtual ~Measurer() = default;
  struct Dispatch {
    std::string entry;              // of the candidate's code
    std::vector<uint32_t> buffers;  // per binding: index into Candidate::buffers
    std::vector<int64_t> scalars;
    int64_t grid[3] = {1, 1, 1};
  };
  struct Buffer {
    int64_t bytes = 0;
    DType dtype = DType::kInvalid;  // what random content it gets; kInvalid: left as it is
    bool is_zero = false;           // every run finds zeros and leaves zeros
    int64_t below = 4;              // integers of random content are at least 0 and less than this
    bool is_constant = false;       // a weight: out of the caches again when the model reads it
  };
  // All dispatches of a candidate run in order and are timed together.
  struct Candidate {
    std::span<const uint8_t> code;  // an executable image in the device's format
    std::vector<Buffer> buffers;
    std::vector<Dispatch> dispatches;
  };
  // Median seconds per candidate, measured interleaved (A B C A B C ...), each after a warm-up.
  // Infinite for one whose code the device refuses, unless it refuses all. Where a kernel reports
  // that random content is no index or size for it, the race is run on zeros; OUT_OF_RANGE when it
  // takes those neither.
  virtual Result<std::vector<double>> Measure(uint32_t device,
                                              std::span<const Candidate> candidates) = 0;
  // What a library of the device's vendor proposes (hal::Device::ProposeLibraryCalls), and its name
  // and version, which stand for everything that its proposals depend on; UNAVAILABLE says why
  // there is none.
  virtual Result<std::vector<GpuLibraryCall>> ProposeLibraryCalls(uint32_t, const GpuLibraryCall&,
                                                                  size_t) {
    return Unavailable("There is no library of a vendor.");
  }
  virtual Result<std::string> DescribeLibrary(uint32_t, GpuLibraryKind) {
    return Unavailable("There is no library of a vendor.");
  }
  // The timing cache: the record that won for `key` (kernel text, sizes and target) on this device
  // before, and storing a new one with its median.
  virtual std::optional<std::string> FindChoice(uint32_t device, uint64_t key) = 0;
  virtual void StoreChoice(uint32_t device, uint64_t key, std::string_view record,
                           double seconds) = 0;
};

// What f32 tensors of a model are computed in.
enum class Precision : uint8_t {
  kAsGiven,
  kF16,  // weights and activations in f16, sums in f32 (compiler/passes/graph_narrow_floats.cc)
};

struct CompileOptions {
  bool tune = true;  // race schedules through the measurer
  // Generated kernels that a race has at most; 0: as many as are worth their compile time. The
  // winner of a race with fewer is remembered for such races alone.
  size_t most_raced = 0;
  bool fast_reductions = false;  // allow splits whose order depends on the thread count
  bool allow_fallback = true;    // unsupported ops run in the interpreter, each reported
  // Products of a vendor's library (cuBLASLt) race against generated kernels. Needs `tune`.
  bool vendor_libraries = true;
  // Where they take part, no generated kernel does: the library is what is to be timed.
  bool only_vendor_libraries = false;
  Precision precision = Precision::kAsGiven;
  Precision io_precision = Precision::kAsGiven;  // of f32 inputs and outputs
  std::map<std::string, int64_t> symbol_values;  // fixed symbols: a program for exactly these sizes
  place::Options placement;
  uint64_t Hash() const;  // part of the cache key
};

// What a program takes beyond what its devices may give it.
struct MemoryVerdict {
  std::vector<int64_t> excess;  // per device of the program; 0: it fits
  Status failure;               // OUT_OF_MEMORY with the shortfall where it must not run
};

struct CompileRequest {
  // One of: a path to an ONNX file; ONNX bytes (with the folder for external data); Graph IR text.
  std::string path;
  std::span<const uint8_t> onnx_bytes;
  std::string external_data_folder;
  std::string_view graph_text;
  // Constants that graph_text names, by name; borrowed until Compile returns unless the source is
  // retained.
  std::map<std::string, std::shared_ptr<const graph::ByteSource>> graph_constants;

  std::vector<program::Device> devices;  // placement chooses among them; never empty
  CompileOptions options;
  Measurer* measurer = nullptr;  // borrowed; may be null
  // What placement knows of the devices, in the order of `devices`; null: defaults. Borrowed.
  const place::Machine* machine = nullptr;
  // Per device, what it has for programs, as it says itself; 0 or missing: not limited. Placement
  // keeps to it, as to the caps of the options.
  std::vector<int64_t> memory_limits;
  // Judges the memory of an assembled program, whose code is still missing, under these sizes by
  // name. Where it takes too much, placement is repeated with that much less. May be empty.
  std::function<Result<MemoryVerdict>(const program::Program&,
                                      const std::map<std::string, int64_t>& sizes)>
      judge_memory;
  place::Timings* timings = nullptr;  // measured times of clusters; borrowed; may be null
  std::function<void(std::string_view phase, double fraction)> progress;  // may be empty
  // May be empty; asked between passes, candidates and pieces of code, on any thread, also on
  // several at once.
  std::function<bool()> should_stop;
  // ABORTED when it says so.
  Status GoesOn() const {
    if (should_stop && should_stop()) return Aborted("Compiling was stopped.");
    return OkStatus();
  }
};

// A timing of one phase, for reports: "import", "fold", ..., "codegen".
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};

struct CompileResult {
  program::Program program;
  std::vector<PhaseTime> phases;
};

// One op of a program that no target could compile: evaluates one-node Graph IR text on host
// tensors.
struct InterpretRequest {
  std::string_view text;
  std::vector<std::span<const uint8_t>> operands;
  std::vector<std::vector<int64_t>> operand_dims;
  std::vector<std::span<uint8_t>> results;  // already of the right size
  // The sizes of the run by name: the text may name some that are the size of no operand.
  std::vector<std::pair<std::string_view, int64_t>> symbols;
};

struct CompilerTable {
  Result<CompileResult> (*compile)(const CompileRequest& request);
  Status (*interpret)(const InterpretRequest& request);
  // Imports (or parses) and checks types and shapes; makes nothing. Devices and options are not
  // read.
  Status (*verify)(const CompileRequest& request);
};

inline constexpr uint32_t kCompilerAbiVersion = 1;

}  // namespace halyard

// Returns null when the version or the build identity differ. `build_identity`:
// HALYARD_BUILD_IDENTITY.
extern "C" const halyard::CompilerTable* hy_compiler_get(uint32_t abi_version,
                                                         const char* build_identity);
