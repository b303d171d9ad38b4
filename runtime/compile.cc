// SPDX-License-Identifier: Apache-2.0
// Cache lookup, compiling and storing.
#include "runtime/compile.h"

#include <chrono>

#include "base/hash.h"
#include "compiler/program/file.h"
#include "runtime/cache.h"
#include "runtime/compiler_library.h"
#include "runtime/device_target.h"
#include "runtime/fingerprint.h"
#include "runtime/measurer.h"

namespace halyard::runtime {
namespace {

class Timer {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Result<uint64_t> FingerprintConstant(const graph::ByteSource& source) {
  if (const auto bytes = source.InMemory(); !bytes.empty()) return HashBytes(bytes);
  Hasher hasher;
  std::vector<uint8_t> piece(size_t{1} << 20);
  for (int64_t at = 0; at < source.size_bytes();) {
    const int64_t size =
        std::min<int64_t>(source.size_bytes() - at, static_cast<int64_t>(piece.size()));
    const std::span<uint8_t> part(piece.data(), static_cast<size_t>(size));
    HY_TRY(source.Read(at, part));
    hasher.Update(part);
    at += size;
  }
  return hasher.Finish();
}

Result<uint64_t> FingerprintSource(const CompileSource& source) {
  if (!source.path.empty()) return FingerprintFile(source.path);
  if (source.bytes) return FingerprintBytes(*source.bytes, source.external_folder);
  uint64_t hash = HashString(source.graph_text);
  for (const auto& [name, bytes] : source.graph_constants) {
    HY_ASSIGN(const uint64_t content, FingerprintConstant(*bytes));
    hash = HashCombine(HashCombine(hash, HashString(name)), content);
  }
  return hash;
}

uint64_t CacheKey(uint64_t fingerprint, const CompileJob& job) {
  uint64_t key = HashCombine(fingerprint, job.options.Hash());
  key = HashCombine(key, HashString(BuildIdentity()));
  for (const Ref<hal::Device>& device : job.devices) {
    key = HashCombine(key, HashString(device->path()));
    key = HashCombine(key, TargetOf(*device).CodeHash());
    key = HashCombine(key, HashString(IdentityOf(*device)));
  }
  for (const std::string& fallback : job.fallbacks) key = HashCombine(key, HashString(fallback));
  return key;
}

// The cache of the instance; null, with a log line when something is wrong with it.
std::shared_ptr<Cache> OpenCache(const Instance& instance, bool use_cache) {
  if (!use_cache) return nullptr;
  const std::string folder = instance.CacheFolder();
  if (folder.empty()) return nullptr;
  auto cache = Cache::Open(folder);
  if (cache.ok()) return std::move(cache).value();
  instance.Log(LogLevel::kWarning, "no cache is used: " + cache.status().ToLine());
  return nullptr;
}

std::string DisplayName(const CompileSource& source) {
  if (source.path.empty()) return source.bytes ? "model" : "graph";
  return source.path.substr(source.path.rfind('/') + 1);
}

Result<program::Program> CompileNow(const Instance& instance, const CompileJob& job, uint64_t key,
                                    const std::shared_ptr<Cache>& cache,
                                    std::vector<Phase>& phases) {
  Timer open_timer;
  HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
  phases.push_back({"open compiler", open_timer.Seconds()});
  CompileRequest request = MakeRequest(job.source);
  for (const Ref<hal::Device>& device : job.devices) {
    request.devices.push_back(
        {std::string(device->path()), TargetOf(*device), IdentityOf(*device)});
  }
  request.options = job.options;
  HalMeasurer measurer(job.devices, cache);
  if (job.options.tune) request.measurer = &measurer;
  request.progress = job.progress;
  HY_ASSIGN(CompileResult result, compiler->compile(request));
  for (const PhaseTime& phase : result.phases) phases.push_back({phase.phase, phase.seconds});
  if (measurer.candidate_count() > 0) {
    phases.push_back({"tune (within the above)", measurer.seconds()});
  }
  program::Program& program = result.program;
  program.content_hash = key;
  if (program.model_name.empty()) program.model_name = DisplayName(job.source);
  for (const std::string& fallback : job.fallbacks) {
    program.records.push_back({"fallback", "device", fallback});
  }
  HY_TRY(program::Verify(program).WithContext("checking what the compiler made"));
  if (cache == nullptr) return std::move(program);
  Timer store_timer;
  if (const Status stored = cache->StoreProgram(key, program); !stored.ok()) {
    instance.Log(LogLevel::kWarning, "the program is not cached: " + stored.ToLine());
    return std::move(program);
  }
  phases.push_back({"store", store_timer.Seconds()});
  // From the file, so that the constants are pages that processes share and no second copy stays.
  auto mapped = cache->FindProgram(key);
  return mapped.ok() ? std::move(mapped) : Result<program::Program>(std::move(program));
}

}  // namespace

CompileRequest MakeRequest(const CompileSource& source) {
  CompileRequest request;
  request.path = source.path;
  if (source.bytes) request.onnx_bytes = *source.bytes;
  request.external_data_folder = source.external_folder;
  request.graph_text = source.graph_text;
  request.graph_constants = source.graph_constants;
  return request;
}

Interpreter MakeInterpreter() {
  return [](const InterpretRequest& request) -> Status {
    HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
    return compiler->interpret(request);
  };
}

Result<std::shared_ptr<LoadedProgram>> LoadSaved(std::shared_ptr<Instance> instance,
                                                 program::Program program,
                                                 std::vector<Ref<hal::Device>> devices,
                                                 std::vector<Phase> phases) {
  Timer timer;
  if (devices.empty()) {
    for (const program::Device& device : program.devices) {
      HY_ASSIGN(auto opened, instance->OpenDevice(device.name));
      devices.push_back(std::move(opened));
    }
  }
  HY_ASSIGN(auto loaded, LoadedProgram::Load(std::move(program), std::move(devices), {}));
  phases.push_back({"load", timer.Seconds()});
  loaded->SetPhases(std::move(phases));
  return loaded;
}

Result<std::shared_ptr<LoadedProgram>> Compile(std::shared_ptr<Instance> instance, CompileJob job) {
  std::vector<Phase> phases;
  Timer fingerprint_timer;
  HY_ASSIGN(const uint64_t fingerprint, FingerprintSource(job.source));
  const uint64_t key = CacheKey(fingerprint, job);
  phases.push_back({"fingerprint", fingerprint_timer.Seconds()});
  const std::shared_ptr<Cache> cache = OpenCache(*instance, job.use_cache);
  std::optional<program::Program> program;
  if (cache != nullptr) {
    Timer lookup_timer;
    auto found = cache->FindProgram(key);
    phases.push_back({"cache lookup", lookup_timer.Seconds()});
    if (found.ok()) {
      program = std::move(found).value();
    } else if (found.status().code() != StatusCode::kNotFound) {
      instance->Log(LogLevel::kWarning, "a cache entry is not used: " + found.status().ToLine());
    }
  }
  if (!program) {
    HY_ASSIGN(program, CompileNow(*instance, job, key, cache, phases));
  }
  HY_ASSIGN(auto loaded, LoadSaved(instance, std::move(*program), job.devices, std::move(phases)));
  if (job.options.symbol_values.empty()) {
    loaded->variants().SetSpecializer([instance, job](const std::map<std::string, int64_t>& symbols)
                                          -> Result<std::shared_ptr<LoadedProgram>> {
      CompileJob special = job;
      special.options.symbol_values = symbols;
      std::string sizes;
      for (const auto& [name, value] : symbols) sizes += fmt::format(" {}={}", name, value);
      instance->Log(LogLevel::kInfo,
                    fmt::format("compiling '{}' for{}", DisplayName(job.source), sizes));
      return Compile(instance, std::move(special));
    });
  }
  return loaded;
}

}  // namespace halyard::runtime
