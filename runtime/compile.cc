// SPDX-License-Identifier: Apache-2.0
// Cache lookup, compiling and storing.
#include "runtime/compile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/deep_stack.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "compiler/place/plan.h"
#include "compiler/program/file.h"
#include "runtime/cache.h"
#include "runtime/compiler_library.h"
#include "runtime/device_target.h"
#include "runtime/fingerprint.h"
#include "runtime/measurer.h"
#include "runtime/memory_caps.h"
#include "runtime/probe/first_probe.h"
#include "runtime/probe/machine.h"
#include "runtime/verify_plan.h"

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
  for (const auto& [path, reason] : job.left_out) {
    key = HashCombine(HashCombine(key, HashString(path)), HashString(reason));
  }
  for (const Ref<hal::Device>& device : job.devices) {
    key = HashCombine(key, static_cast<uint64_t>(PlacedMemoryBytes(*device)));
  }
  if (job.options.vendor_libraries && job.options.tune) {
    // Another version chooses anew, and so does one that was missing.
    for (const Ref<hal::Device>& device : job.devices) {
      for (const GpuLibraryKind kind : kGpuLibraryKinds) {
        const Result<std::string> library = device->DescribeLibrary(kind);
        key = HashCombine(key, HashString(library.ok() ? *library : "none"));
      }
    }
  }
  return key;
}

// Whether the environment leaves passes out, stops after one or dumps: what is compiled then is not
// for others, and a cached program would hide that no pass ran.
bool PassesAreDirected() {
  const EnvVar variables[] = {EnvVar::kDump, EnvVar::kStopAfter, EnvVar::kDisablePass};
  return std::any_of(std::begin(variables), std::end(variables),
                     [](EnvVar variable) { return !EnvString(variable).empty(); });
}

// The cache of the instance; null, with a log line when something is wrong with it.
std::shared_ptr<Cache> OpenCache(const Instance& instance, bool use_cache) {
  if (!use_cache || PassesAreDirected()) return nullptr;
  const std::string folder = instance.CacheFolder();
  if (folder.empty()) return nullptr;
  std::vector<std::string> notes;
  auto cache = Cache::Open(folder, &notes);
  for (const std::string& note : notes) instance.Log(LogLevel::kWarning, note);
  if (cache.ok()) return std::move(cache).value();
  instance.Log(LogLevel::kWarning, "no cache is used: " + cache.status().ToLine());
  return nullptr;
}

std::string DisplayName(const CompileSource& source) {
  if (source.path.empty()) return source.bytes ? "model" : "graph";
  return source.path.substr(source.path.rfind('/') + 1);
}

// What the program calls its model: the file's name as it was given.
std::string NameOf(const CompileSource& source) {
  return source.path.empty() ? DisplayName(source) : source.path;
}

// What of the whole the compiler is; the rest is to load the program, and to time its plan.
double CompilerShare(const CompileJob& job) { return job.verify_plan ? 0.5 : 0.95; }

void TellProgress(const CompileJob& job, std::string_view phase, double fraction) {
  if (job.progress) job.progress(phase, fraction);
}

std::vector<program::Device> DescribeDevices(const CompileJob& job) {
  std::vector<program::Device> devices;
  for (const Ref<hal::Device>& device : job.devices) {
    devices.push_back({std::string(device->path()), TargetOf(*device), IdentityOf(*device),
                       IsHostDevice(*device)});
  }
  return devices;
}

// A cached plan stays when devices were measured anew, until a replan is asked for: that is said,
// where its costs are not those of now. Other devices and other drivers are another key.
// `named` of the devices were asked for; of a single one no plan leaves anything to choose.
void TellOfNewCosts(const Instance& instance, const CompileJob& job, size_t named,
                    program::Program& program) {
  if (named < 2) return;
  for (const program::Record& record : program.records) {
    if (record.kind != "plan") continue;
    const auto plan = place::ParsePlan(record.text);
    if (!plan.ok()) continue;
    const std::vector<program::Device> devices = DescribeDevices(job);
    std::vector<std::string> notes;
    place::Machine now =
        place::MergeMeasured(place::DefaultMachine(devices),
                             StoredMachine(devices, instance.CacheFolder(), &notes), nullptr);
    // Probes of other devices count the snapshot up, too.
    const uint64_t snapshot = std::exchange(now.snapshot, plan->snapshot);
    if (now.Hash() == plan->machine_hash) return;
    std::string note = fmt::format(
        "The plan of '{}' has the costs of snapshot {}; those of now are of snapshot {}. It stays "
        "until a replan is asked for (--replan).",
        program.model_name, plan->snapshot, snapshot);
    if (job.is_first) instance.Log(LogLevel::kWarning, note);
    program.records.push_back({"placement", "machine", std::move(note)});
    return;
  }
}

std::map<std::string, int64_t> CapsOf(const CompileJob& job) {
  std::map<std::string, int64_t> caps;
  for (const place::MemoryCap& cap : job.options.placement.memory_caps)
    caps[cap.device] = cap.bytes;
  return caps;
}

Result<program::Program> CompileNow(const Instance& instance, const CompileJob& job, uint64_t key,
                                    const std::shared_ptr<Cache>& cache,
                                    std::vector<Phase>& phases) {
  Timer open_timer;
  HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
  phases.push_back({"open compiler", open_timer.Seconds()});
  CompileRequest request = MakeRequest(job.source);
  request.devices = DescribeDevices(job);
  request.options = job.options;
  HalMeasurer measurer(job.devices, cache, job.should_stop);
  if (job.options.tune) request.measurer = &measurer;
  std::vector<std::string> notes, opened_as;
  std::string first_probe;
  // Behind a pass that is left out or stopped, nothing is placed as it would be.
  if (job.first_probe && cache != nullptr) {
    Timer probe_timer;
    FirstProbeJob probing;
    for (const Ref<hal::Device>& device : job.devices) {
      const auto& last = job.options.placement.last_resort;
      if (std::find(last.begin(), last.end(), device->path()) == last.end()) {
        probing.devices.push_back(device);
      }
    }
    probing.cache_folder = instance.CacheFolder();
    probing.cache = cache;
    probing.should_stop = job.should_stop;
    first_probe = ProbeAtFirstUse(probing);
    if (!first_probe.empty()) {
      instance.Log(LogLevel::kInfo, first_probe);
      phases.push_back({"first probe", probe_timer.Seconds()});
    }
  }
  for (const Ref<hal::Device>& device : job.devices)
    opened_as.push_back(instance.OpenedAs(*device));
  const place::Machine machine = StoredMachine(
      request.devices, job.use_cache ? instance.CacheFolder() : "", &notes, opened_as);
  request.machine = &machine;
  if (job.devices.size() == 1) notes.clear();  // there it decides nothing
  for (const std::string& note : notes) instance.Log(LogLevel::kWarning, note);
  for (const Ref<hal::Device>& device : job.devices) {
    request.memory_limits.push_back(PlacedMemoryBytes(*device));
  }
  request.judge_memory = MakeMemoryJudge(job.devices, CapsOf(job));
  if (job.replan) request.timings = &measurer;
  if (job.progress) {
    request.progress = [&job](std::string_view phase, double fraction) {
      job.progress(phase, fraction * CompilerShare(job));
    };
  }
  request.should_stop = job.should_stop;
  HY_ASSIGN(CompileResult result, compiler->compile(request));
  for (const PhaseTime& phase : result.phases) phases.push_back({phase.phase, phase.seconds});
  if (measurer.candidate_count() > 0) {
    phases.push_back({"tune (within the above)", measurer.seconds()});
  }
  program::Program& program = result.program;
  if (!first_probe.empty()) program.records.push_back({"placement", "machine", first_probe});
  for (const std::string& note : notes) program.records.push_back({"placement", "machine", note});
  program.content_hash = key;
  program.model_name = NameOf(job.source);
  for (const std::string& fallback : job.fallbacks) {
    program.records.push_back({"fallback", "device", fallback});
  }
  for (const auto& [path, reason] : job.left_out) {
    program.records.push_back(
        {"placement", path, fmt::format("'auto' leaves it out: {}.", reason)});
  }
  HY_TRY(program::Verify(program).WithContext("checking what the compiler made"));
  if (cache == nullptr || measurer.has_run_short()) return std::move(program);
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
    return OnDeepStack([&]() -> Status {
      HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
      return compiler->interpret(request);
    });
  };
}

namespace {

// The devices of the job that the program kept: a last resort that took nothing is gone.
std::vector<Ref<hal::Device>> DevicesOf(const program::Program& program, const CompileJob& job) {
  std::vector<Ref<hal::Device>> devices;
  for (const program::Device& wanted : program.devices) {
    for (const Ref<hal::Device>& device : job.devices) {
      if (device->path() != wanted.name) continue;
      devices.push_back(device);
      break;
    }
  }
  // A program that names others (a stand-in's) gets what there is.
  return devices.size() == program.devices.size() ? devices : job.devices;
}

// Devices that were lost since they were opened leave the job, or fail it, as the policy says.
Status DropLost(Instance& instance, CompileJob& job) {
  const FallbackPolicy policy = instance.options().on_missing_device;
  for (size_t i = 0; i < job.devices.size();) {
    const Status health = job.devices[i]->health();
    if (health.ok()) {
      ++i;
      continue;
    }
    if (policy == FallbackPolicy::kError) return health;
    const std::string path(job.devices[i]->path());
    std::string note = fmt::format("device '{}' is left out: {}", path, health.ToLine());
    const auto dropped = std::erase_if(job.options.placement.affinities,
                                       [&](const auto& a) { return a.device == path; });
    if (dropped > 0)
      note += fmt::format(" With it {} {} it.", dropped == 1 ? "goes" : "go",
                          dropped == 1 ? "the affinity that names"
                                       : fmt::format("{} affinities that name", dropped));
    std::erase_if(job.options.placement.memory_caps,
                  [&](const auto& cap) { return cap.device == path; });
    if (policy == FallbackPolicy::kFallbackWarn) instance.Log(LogLevel::kWarning, note);
    job.fallbacks.push_back(std::move(note));
    job.devices.erase(job.devices.begin() + static_cast<ptrdiff_t>(i));
  }
  if (!job.devices.empty()) return OkStatus();
  HY_ASSIGN(auto cpu, instance.OpenDevice("cpu:0"));
  job.devices.push_back(std::move(cpu));
  return OkStatus();
}

// Affinities and caps name devices of the job.
Status CheckPlacement(const CompileJob& job) {
  std::string known;
  for (const Ref<hal::Device>& device : job.devices) {
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", device->path());
  }
  const auto is_known = [&](std::string_view name) {
    return std::any_of(job.devices.begin(), job.devices.end(),
                       [&](const auto& device) { return device->path() == name; });
  };
  for (const place::Affinity& affinity : job.options.placement.affinities) {
    if (is_known(affinity.device)) continue;
    return InvalidArgument(
        "The affinity '{}' names a device that the program may not use; it may use {}.",
        place::FormatAffinity(affinity), known);
  }
  for (const place::MemoryCap& cap : job.options.placement.memory_caps) {
    if (is_known(cap.device)) continue;
    return InvalidArgument("The memory cap of {} names device '{}'; the program may use {}.",
                           Counted(cap.bytes, "byte"), cap.device, known);
  }
  return OkStatus();
}

// One line of the log for all ops that run elsewhere than was asked for.
void WarnOfFallbacks(const Instance& instance, const program::Program& program) {
  size_t count = 0;
  std::string first;
  for (const program::Record& record : program.records) {
    if (record.kind != "fallback" || record.subject == "device") continue;
    if (count++ == 0) first = fmt::format("'{}': {}", record.subject, record.text);
  }
  if (count == 0) return;
  instance.Log(LogLevel::kWarning,
               fmt::format("{} of '{}' fell back; the report names each, the first is {}",
                           CountedNoun(count, "node"), program.model_name, first));
}

// What the importer accepted and has a word on.
void WarnOfImport(const Instance& instance, const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind != "import") continue;
    instance.Log(LogLevel::kWarning, fmt::format("{}: {}", program.model_name, record.text));
  }
}

void WarnOfUnmatchedWishes(const Instance& instance, const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind == "placement" && record.subject == place::kUnmatchedWish) {
      instance.Log(LogLevel::kWarning, record.text);
    }
  }
}

CompileJob WithoutProgress(CompileJob job) {
  job.progress = nullptr;
  return job;
}

// What the program compiles with later, when the callbacks of the call are gone.
CompileJob WithoutCallbacks(CompileJob job) {
  job.progress = nullptr;
  job.should_stop = nullptr;
  return job;
}

Status CheckDistinct(std::span<const Ref<hal::Device>> devices) {
  // The node whose processors it is, of one that was opened over a single node; else -1.
  const auto node_of = [](const Ref<hal::Device>& device) {
    return IsHostDevice(*device) ? device->capabilities().links.numa_node.ValueOr(-1) : -1;
  };
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (devices[j]->path() == devices[i]->path()) {
        return InvalidArgument("Device '{}' is given twice.", devices[i]->path());
      }
      if (node_of(devices[i]) >= 0 && node_of(devices[i]) == node_of(devices[j])) {
        return InvalidArgument("Devices '{}' and '{}' are both the processors of NUMA node {}.",
                               devices[j]->path(), devices[i]->path(), node_of(devices[i]));
      }
    }
  }
  return OkStatus();
}

// The CPU joins for what no device of the list can run, unless fallbacks are errors.
Status AddLastResort(Instance& instance, CompileJob& job) {
  HY_TRY(CheckDistinct(job.devices));
  const auto is_host = [](const Ref<hal::Device>& device) { return IsHostDevice(*device); };
  if (!job.options.allow_fallback || std::any_of(job.devices.begin(), job.devices.end(), is_host)) {
    return OkStatus();
  }
  const auto cpu = instance.OpenDevice("cpu:0");
  if (!cpu.ok()) return OkStatus();  // a host may forbid the CPU driver: then nothing joins
  // In discrete mode it is given and still no host device.
  for (const Ref<hal::Device>& device : job.devices) {
    if (device->path() == (*cpu)->path()) return OkStatus();
  }
  job.options.placement.last_resort = {std::string((*cpu)->path())};
  job.devices.push_back(*cpu);
  return OkStatus();
}

}  // namespace

Result<Ref<hal::Device>> OpenDeviceOf(Instance& instance, const program::Device& device) {
  auto opened = instance.OpenDevice(device.name);
  if (opened.ok()) return opened;
  const Status status = opened.status().code() == StatusCode::kNotFound
                            ? Unavailable("{}", opened.status().ToLine())
                            : opened.status();
  return status.WithContext(
      "loading the saved program, which runs on it; only compiling the model anew places it "
      "elsewhere");
}

Status CheckDevices(const program::Program& program, std::span<const Ref<hal::Device>> devices) {
  const auto driver_of = [](std::string_view path) { return path.substr(0, path.find(':')); };
  HY_TRY(CheckDistinct(devices));
  bool is_same = devices.size() == program.devices.size();
  for (size_t d = 0; is_same && d < devices.size(); ++d) {
    const std::string_view path = devices[d]->path(), wanted = program.devices[d].name;
    // Another device of the driver may stand in, but not one that has another place of its own.
    const bool is_misplaced =
        path != wanted && std::any_of(program.devices.begin(), program.devices.end(),
                                      [&](const auto& other) { return other.name == path; });
    is_same = driver_of(path) == driver_of(wanted) && !is_misplaced;
  }
  if (is_same) return OkStatus();
  std::string wanted, given;
  for (const program::Device& device : program.devices) {
    wanted += fmt::format("{}'{}'", wanted.empty() ? "" : ", ", device.name);
  }
  for (const Ref<hal::Device>& device : devices) {
    given += fmt::format("{}'{}'", given.empty() ? "" : ", ", device->path());
  }
  return InvalidArgument(
      "The program needs the devices that it was compiled for, in their order: {}; given are: {}. "
      "Without a list it opens its own.",
      wanted, given);
}

namespace {

void LogLoaded(const Instance& instance, const LoadedProgram& loaded) {
  const program::Program& program = loaded.program();
  if (instance.options().log_level < LogLevel::kDebug) return;
  std::string devices;
  for (const Ref<hal::Device>& device : loaded.devices()) {
    devices += fmt::format("{}'{}'", devices.empty() ? "" : ", ", device->path());
  }
  instance.Log(LogLevel::kDebug,
               fmt::format("{}: loaded for {}; {} of constants", program.model_name, devices,
                           FormatBytes(static_cast<int64_t>(program.DataBytes().size()))));
  for (const program::Record& record : program.records) {
    if (record.kind != "placement" && record.kind != "fallback") continue;
    instance.Log(LogLevel::kDebug, fmt::format("{}: {} '{}': {}", program.model_name, record.kind,
                                               record.subject, record.text));
  }
  for (const Phase& phase : loaded.phases()) {
    instance.Log(LogLevel::kDebug, fmt::format("{}: {} took {}", program.model_name, phase.name,
                                               FormatSeconds(phase.seconds)));
  }
}

}  // namespace

Result<std::shared_ptr<LoadedProgram>> LoadSaved(std::shared_ptr<Instance> instance,
                                                 program::Program program,
                                                 std::vector<Ref<hal::Device>> devices,
                                                 std::vector<Phase> phases) {
  Timer timer;
  if (devices.empty()) {
    for (const program::Device& device : program.devices) {
      HY_ASSIGN(Ref<hal::Device> opened, OpenDeviceOf(*instance, device));
      devices.push_back(std::move(opened));
    }
  }
  HY_TRY(CheckDevices(program, devices));
  HY_ASSIGN(auto loaded, OnDeepStack([&] {
              return LoadedProgram::Load(std::move(program), std::move(devices));
            }));
  double rest = timer.Seconds();
  for (const Phase& part : loaded->phases()) {
    phases.push_back(part);
    rest -= part.seconds;
  }
  phases.push_back({"load", std::max(rest, 0.0)});
  HY_TRY(CheckLeastMemory(*loaded));
  for (const std::string& event : loaded->events()) instance->Log(LogLevel::kWarning, event);
  loaded->SetPhases(std::move(phases));
  LogLoaded(*instance, *loaded);
  return loaded;
}

namespace {

Result<std::shared_ptr<LoadedProgram>> CompileOnce(const std::shared_ptr<Instance>& instance,
                                                   CompileJob job) {
  std::vector<Phase> phases;
  const CompileJob asked = job;
  if (job.should_stop && job.should_stop()) return Aborted("Compiling was stopped.");
  HY_TRY(DropLost(*instance, job));
  HY_TRY(AddLastResort(*instance, job));
  HY_TRY(CheckPlacement(job));
  Timer fingerprint_timer;
  HY_ASSIGN(const uint64_t fingerprint, FingerprintSource(job.source));
  const uint64_t key = CacheKey(fingerprint, job);
  phases.push_back({"fingerprint", fingerprint_timer.Seconds()});
  const std::shared_ptr<Cache> cache = OpenCache(*instance, job.use_cache);
  std::optional<program::Program> program;
  if (cache != nullptr && !job.replan) {
    Timer lookup_timer;
    auto found = cache->FindProgram(key);
    phases.push_back({"cache lookup", lookup_timer.Seconds()});
    instance->Log(LogLevel::kDebug, fmt::format("{}: '{}' is {}in the cache", NameOf(job.source),
                                                cache->ProgramPath(key), found.ok() ? "" : "not "));
    if (found.ok()) {
      program = std::move(found).value();
      program->model_name = NameOf(job.source);  // another file may hold the same model
      TellOfNewCosts(*instance, job, asked.devices.size(), *program);
    } else if (found.status().code() != StatusCode::kNotFound) {
      instance->Log(LogLevel::kWarning,
                    "a cache entry is not used, and is made again: " + found.status().ToLine());
    }
  }
  if (!program) {
    HY_ASSIGN(program, CompileNow(*instance, job, key, cache, phases));
  }
  for (const auto& [name, bytes] : CapsOf(job)) {
    for (program::Device& device : program->devices) {
      if (device.name == name) device.memory_cap_bytes = bytes;
    }
  }
  std::vector<Ref<hal::Device>> devices = DevicesOf(*program, job);
  TellProgress(job, "load", CompilerShare(job));
  HY_ASSIGN(auto loaded,
            LoadSaved(instance, std::move(*program), std::move(devices), std::move(phases)));
  if (job.warns_of_fallbacks) WarnOfFallbacks(*instance, loaded->program());
  if (job.is_first) {
    WarnOfImport(*instance, loaded->program());
    WarnOfUnmatchedWishes(*instance, loaded->program());
  }
  loaded->SetTimingCache(cache);
  loaded->SetCacheKey(key);
  if (instance->options().on_missing_device != FallbackPolicy::kError) {
    loaded->SetReplanner(
        [instance, later = WithoutCallbacks(asked)] { return Compile(instance, later); });
  }
  if (job.verify_plan) {
    TellProgress(job, "verify-plan", CompilerShare(job) + 0.05);
    HY_ASSIGN(auto kept, VerifyPlan(instance, WithoutProgress(asked), loaded));
    if (kept != loaded) return kept;  // compiled by a job of its own
  }
  if (job.options.symbol_values.empty()) {
    loaded->variants().SetSpecializer(
        [instance, later = WithoutCallbacks(job)](const std::map<std::string, int64_t>& symbols)
            -> Result<std::shared_ptr<LoadedProgram>> {
          CompileJob special = later;
          special.verify_plan = special.is_first = false;
          special.options.symbol_values = symbols;
          std::string sizes;
          for (const auto& [name, value] : symbols) sizes += fmt::format(" {}={}", name, value);
          instance->Log(LogLevel::kInfo,
                        fmt::format("compiling '{}' for{}", DisplayName(special.source), sizes));
          return Compile(instance, std::move(special));
        });
  }
  return loaded;
}

}  // namespace

Result<std::shared_ptr<LoadedProgram>> Compile(std::shared_ptr<Instance> instance, CompileJob job) {
  double told = 0;
  if (job.progress) {
    job.progress = [&told, tell = std::move(job.progress)](std::string_view phase,
                                                           double fraction) {
      told = std::max(told, fraction);
      tell(phase, told);
    };
  }
  const auto count_lost = [&job] {
    return std::count_if(job.devices.begin(), job.devices.end(),
                         [](const Ref<hal::Device>& device) { return !device->health().ok(); });
  };
  for (;;) {
    const auto lost = count_lost();
    auto made = OnDeepStack([&] { return CompileOnce(instance, job); });
    // Once more without the devices that were lost meanwhile, as the policy says.
    if (made.status().code() != StatusCode::kDeviceLost || count_lost() == lost ||
        instance->options().on_missing_device == FallbackPolicy::kError) {
      if (made.ok()) TellProgress(job, "done", 1);
      return made;
    }
  }
}

}  // namespace halyard::runtime
