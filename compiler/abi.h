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
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
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
  };
  // All dispatches of a candidate run in order and are timed together.
  struct Candidate {
    std::span<const uint8_t> code;  // an executable image in the device's format
    std::vector<Buffer> buffers;
    std::vector<Dispatch> dispatches;
  };
  // Median seconds per candidate, measured interleaved (A B C A B C ...), each after a warm-up.
  virtual Result<std::vector<double>> Measure(uint32_t device,
                                              std::span<const Candidate> candidates) = 0;
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
  bool tune = true;              // race schedules through the measurer
  bool fast_reductions = false;  // allow splits whose order depends on the thread count
  bool allow_fallback = true;    // unsupported ops run in the interpreter, each reported
  Precision precision = Precision::kAsGiven;
  std::map<std::string, int64_t> symbol_values;  // fixed symbols: a program for exactly these sizes
  uint64_t Hash() const;                         // part of the cache key
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
  Measurer* measurer = nullptr;                                           // borrowed; may be null
  std::function<void(std::string_view phase, double fraction)> progress;  // may be empty
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
