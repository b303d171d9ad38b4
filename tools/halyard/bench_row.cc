// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_row.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>

#include "base/dtype.h"
#include "base/env.h"
#include "base/excerpt.h"
#include "tools/halyard/bench_check.h"
#include "tools/halyard/bench_identity.h"
#include "tools/halyard/bench_memory.h"
#include "tools/halyard/bench_profile.h"
#include "tools/halyard/bench_rivals.h"
#include "tools/halyard/cache_flush.h"
#include "tools/halyard/clock.h"
#include "tools/halyard/interrupt.h"
#include "tools/halyard/load.h"

namespace halyard::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostProfiledRuns = 10, kFewestProfiledRuns = 3;
constexpr double kProfileSeconds = 1, kClosedLoopSeconds = 2;  // at most

// What is known of the properties whose names begin with the prefix, by the rest of their names.
Json KnownProperties(const hy::Device& device, const std::string& prefix) {
  Json json = Json::object();
  for (const hy_property& field : device.Properties(prefix)) {
    if (field.source == HY_SOURCE_UNKNOWN) continue;
    const std::string name = hy::ToString(field.name).substr(prefix.size());
    if (field.kind == HY_PROPERTY_TEXT) {
      json[name] = hy::ToString(field.text);
    } else {
      json[name] = field.kind == HY_PROPERTY_REAL ? field.real : static_cast<double>(field.integer);
    }
  }
  return json;
}

// The processors of a row without them: what a quota pauses is late for any device.
std::vector<hy::Device> HostOf(const hy::Instance& instance,
                               const std::vector<hy::Device>& devices) {
  for (const hy::Device& device : devices) {
    if (hy::ToString(device.info().path).starts_with("cpu:")) return {};
  }
  std::vector<hy::Device> host;
  host.push_back(instance.Open("cpu:0"));
  return host;
}

// Before the timed runs; AddStates completes it. `named`: the devices as --device has them,
// whose options tell rows apart, or none.
Json ConditionsBefore(const std::vector<hy::Device>& devices,
                      const std::vector<std::string>& named = {}) {
  Json list = Json::array();
  for (size_t i = 0; i < devices.size(); ++i) {
    const hy::Device& device = devices[i];
    Json json = {{"device", hy::ToString(device.info().path)}};
    if (i < named.size()) {
      json["device"] = json["device"].get<std::string>() +
                       named[i].substr(std::min(named[i].find('?'), named[i].size()));
    }
    const Json compute = KnownProperties(device, "compute.");
    for (const char* name : {"thread_count", "quota_threads", "max_clock_hz"}) {
      if (compute.contains(name)) json[name] = compute[name];
    }
    const Json links = KnownProperties(device, "links.");
    if (links.contains("numa_node")) json["numa_node"] = links["numa_node"];
    json["before"] = KnownProperties(device, "state.");
    list.push_back(std::move(json));
  }
  return list;
}
// `when`: "during" or "after" the timed runs.
void AddStates(const char* when, const std::vector<hy::Device>& devices, Json* conditions) {
  for (size_t i = 0; i < devices.size(); ++i) {
    (*conditions)[i][when] = KnownProperties(devices[i], "state.");
  }
}

// Of all threads of this process, up to now.
double CpuSeconds() {
  std::timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What each device drew for a run, where it counts its energy: all that it drew meanwhile.
Json JoulesPerRun(const Json& conditions, size_t runs) {
  Json json = Json::object();
  for (const Json& device : conditions) {
    const double joules =
        device["after"].value("energy_j", 0.0) - device["before"].value("energy_j", 0.0);
    if (joules > 0) {  // a counter that began anew tells nothing
      json[device["device"].get<std::string>()] = joules / static_cast<double>(runs);
    }
  }
  return json;
}

// Adds what a quota did to the host, where it has one.
void AddHost(Json before, const std::vector<hy::Device>& host, Json* conditions) {
  AddStates("after", host, &before);
  for (Json& device : before) {
    if (!device["before"].contains("quota_pauses") || !device["after"].contains("quota_pauses"))
      continue;
    for (const char* when : {"before", "after"}) {
      Json state = Json::object();
      for (const char* name : {"quota_pauses", "quota_paused_s"}) state[name] = device[when][name];
      device[when] = std::move(state);
    }
    device["is_host"] = true;
    conditions->push_back(std::move(device));
  }
}

// The states of all devices as one object, which is how readers of before `conditions` know them.
Json MergedStates(const Json& conditions, const char* when) {
  Json json = Json::object();
  for (const Json& device : conditions) json.update(device[when]);
  return json;
}

Json DeviceJson(const std::vector<hy::Device>& devices) {
  Json list = Json::array();
  for (const hy::Device& device : devices) {
    Json json = Json::object();
    for (const hy_property& field : device.Properties("identity.")) {
      if (field.source == HY_SOURCE_UNKNOWN) continue;
      json[hy::ToString(field.name).substr(9)] = hy::ToString(field.text);
    }
    list.push_back(std::move(json));
  }
  return list;
}

// Errors against the processor's f32 results, in f16 where --io-precision has the outputs in that.
Json CheckOutputs(const BenchOptions& options, const ModelOptions& model_options,
                  const InputOptions& input_options, const std::vector<Tensor>& results) {
  ModelOptions reference_options = model_options;
  reference_options.device = "cpu:0";
  reference_options.precision = "as-given";
  const Model reference = OpenModel(reference_options, true, options.make_graph);
  const Inputs inputs(reference, reference_options, input_options);
  Runner runner(reference, inputs);
  runner.Run();
  CheckOptions check = {options.rtol, options.atol, model_options.precision != "as-given"};
  std::vector<std::string> names;
  for (const hy_tensor_info& output : reference.program.Io(HY_IO_OUTPUT))
    names.push_back("output '" + hy::ToString(output.name) + "'");
  return JudgeOutputs(names, results, runner.Results(), "that of cpu:0", check);
}

// Runs of all sessions of --concurrency: in a closed loop, and in an open one for each rate. Adds
// `throughput`, `concurrency`, `concurrent_latency` and `rates`; what is interrupted is left out.
void MeasureLoads(const BenchOptions& options, const Model& model, const Inputs& inputs,
                  const std::vector<hy::Device>& devices, Runner& first, BenchProgress& progress,
                  Json* row) {
  std::vector<std::unique_ptr<Runner>> others;
  std::vector<Runner*> runners = {&first};
  for (int64_t i = 1; i < options.concurrency; ++i) {
    others.push_back(std::make_unique<Runner>(model, inputs));
    runners.push_back(others.back().get());
    runners.back()->Run();
  }
  const RunOnce run = [&](size_t i) { runners[i]->Run(); };
  const ShouldStop should_stop = [&] {
    progress.Tick();
    return IsInterrupted();
  };
  const double closed_s = std::min(options.seconds, kClosedLoopSeconds);
  progress.StartPhase("several runs at once", closed_s);
  const Load closed = RunClosedLoop(runners.size(), closed_s, run, should_stop);
  if (IsInterrupted()) return;
  (*row)["throughput"] = closed.runs_per_s;
  (*row)["concurrency"] = options.concurrency;
  (*row)["concurrent_latency"] = PercentilesJson(closed.latencies);
  for (const double rate : options.rates) {
    char phase[64];
    std::snprintf(phase, sizeof(phase), "runs due at %g/s", rate);
    progress.StartPhase(phase, options.seconds);
    const Load open = RunOpenLoop(runners.size(), ArrivalTimes(rate, options.seconds),
                                  options.seconds, run, should_stop);
    if (IsInterrupted()) return;
    Json json = {{"rate", rate},
                 {"seconds", options.seconds},
                 {"arrivals", open.arrivals},
                 {"served", open.latencies.size()},
                 {"waited", open.waited},
                 {"missed", open.missed},
                 {"served_per_s", open.runs_per_s}};
    if (!open.latencies.empty()) json["latency"] = PercentilesJson(open.latencies);
    (*row)["rates"].push_back(std::move(json));
  }
  AddConcurrentPeaks(model, devices, &(*row)["memory"]);
}

constexpr const char* kTimedKinds[] = {"dispatch", "copy",  "fill",  "interpreted",
                                       "transfer", "input", "output"};

ProfiledRun ProfileOnce(Runner& runner) {
  const Clock::time_point start = Clock::now();
  const hy::Event event = runner.Submit();
  ProfiledRun run;
  run.seconds = SecondsSince(start);
  event.Wait();
  for (const hy_command_time& time : event.CommandTimes()) {
    ProfiledCommand command;
    command.label = hy::ToString(time.label);
    command.device = hy::ToString(time.device);
    command.kind =
        time.kind >= 0 && time.kind <= HY_TIMED_OUTPUT ? kTimedKinds[time.kind] : "other";
    command.queue = static_cast<int>(time.queue);
    command.start_s = static_cast<double>(time.start_ns) * 1e-9;
    command.submitted_s = static_cast<double>(time.submitted_ns) * 1e-9;
    command.end_s = static_cast<double>(time.end_ns) * 1e-9;
    if (time.device_ns >= 0) command.device_s = static_cast<double>(time.device_ns) * 1e-9;
    command.bytes = static_cast<double>(time.bytes);
    command.flops = static_cast<double>(time.flops);
    command.live_bytes = static_cast<double>(time.live_bytes);
    if (time.product != HY_DTYPE_INVALID)
      command.product = FormatDType(static_cast<DType>(time.product));
    run.commands.push_back(std::move(command));
  }
  return run;
}

// What stored probes say of one of the devices; a probe that cannot be read is none.
Roofs StoredRoofs(const hy::Instance& instance, const std::vector<hy::Device>& devices,
                  const std::string& path) {
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.stored_only = 1;
  return ReadRoofs(Json::parse(instance.Probe(devices, desc, HY_FORMAT_JSON), nullptr, false),
                   path);
}

}  // namespace

// Runner ------------------------------------------------------------------------------------------

Runner::Runner(const Model& model, const Inputs& inputs, uint32_t time_runs) {
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.time_runs = time_runs;
  session_ = hy::Session::Create(model.program, &desc);
  // Aligned as a CPU reads them in place; others would be copied in each run.
  constexpr size_t kAlignment = 64;
  for (const Tensor& tensor : inputs.tensors()) {
    calls_.push_back(ToCall(tensor));
    const size_t size = tensor.bytes.size();
    memory_.emplace_back(std::aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment));
    if (memory_.back() == nullptr) throw std::bad_alloc();
    if (size > 0) std::memcpy(memory_.back().get(), tensor.bytes.data(), size);
    calls_.back().data = memory_.back().get();
  }
  const hy_tensor empty = HY_TENSOR_INIT;
  outputs_.assign(model.program.Io(HY_IO_OUTPUT).size(), empty);
}

double Runner::Run() {
  Reset();
  const Clock::time_point start = Clock::now();
  session_.Run(calls_, outputs_);
  return SecondsSince(start);
}

hy::Event Runner::Submit() {
  Reset();
  return session_.Submit(calls_, outputs_);
}

std::vector<Tensor> Runner::Results() const {
  std::vector<Tensor> results;
  for (const hy_tensor& output : outputs_) results.push_back(ToTensor(output));
  return results;
}

// The session's memory takes the outputs again.
void Runner::Reset() {
  const hy_tensor empty = HY_TENSOR_INIT;
  std::fill(outputs_.begin(), outputs_.end(), empty);
}

Json MeasureProfile(const Model& model, const Inputs& inputs, double plain_s,
                    const std::vector<hy::Device>& devices) {
  Runner runner(model, inputs, HY_TIME_COMMANDS);
  ProfileOnce(runner);
  std::vector<ProfiledRun> runs;
  const Clock::time_point start = Clock::now();
  while (!IsInterrupted() && runs.size() < kMostProfiledRuns &&
         (runs.size() < kFewestProfiledRuns || SecondsSince(start) < kProfileSeconds)) {
    runs.push_back(ProfileOnce(runner));
  }
  if (runs.empty()) return nullptr;
  Json profile = SummarizeProfile(runs, plain_s, [&](const std::string& device) {
    return StoredRoofs(model.instance, devices, device);
  });
  const Json report = Json::parse(model.program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_JSON));
  AddModelErrors(report.at("predictions"), &profile);
  const Json fusion = Json::parse(model.program.Report(HY_REPORT_FUSION, HY_FORMAT_JSON));
  AddNodes(fusion.at("dispatches"), &profile);
  return profile;
}

// Rows --------------------------------------------------------------------------------------------

std::vector<std::string> DevicesOfRow(const std::string& part) {
  if (part == "auto") return {};
  std::vector<std::string> devices = Split(part, '+');
  if (devices.size() > 1 && std::count(devices.begin(), devices.end(), "") > 0) {
    throw CommandError(kWrongUsage, "--device '" + Excerpt(part) +
                                        "' has nothing on one side of a +, which joins the devices "
                                        "of one program, such as cpu:0+cuda:0");
  }
  return devices;
}

double TimedSeconds(const BenchOptions& options) {
  return options.warm_seconds + (options.runs > 0 ? 0 : options.seconds) +
         (options.cold_cache ? 0 : std::min(options.seconds, kClosedLoopSeconds)) +
         static_cast<double>(options.rates.size()) * options.seconds +
         (options.no_profile ? 0 : kProfileSeconds) + RivalSeconds(options);
}

namespace {

// Puts into the row what it measures, as it goes.
void MeasureRow(const BenchOptions& options, ModelOptions model_options,
                const InputOptions& input_options, BenchProgress& progress, Json& row) {
  // A row is of the devices that it names, or an error.
  const std::vector<std::string> named = DevicesOfRow(model_options.device);
  const hy::Instance instance = MakeInstance(false, true);
  for (const std::string& device : named) OpenNamed(instance, device);
  std::replace(model_options.device.begin(), model_options.device.end(), '+', ',');
  row["phases"] = Json::object();
  const bool is_program = !options.make_graph && IsProgramFile(model_options.model);
  progress.StartPhase(is_program ? "opening" : "compiling");
  Clock::time_point start = Clock::now();
  // Beside the cache, which may have parts of this program or all of it.
  std::optional<Model> compiled;
  {
    ModelOptions cold = model_options;
    cold.no_cache = true;
    compiled = OpenModel(cold, true, options.make_graph);
    row["phases"]["compile"] = SecondsSince(start);
    const Inputs inputs(*compiled, cold, input_options);
    Runner runner(*compiled, inputs);
    runner.Run();
    row["phases"]["first_output_cold"] = SecondsSince(start);
  }
  // What is timed is the program of the cache, with the schedules and the plan that users get from
  // it. Where there is no cache it is the one that was compiled just now.
  bool is_warm = compiled->is_saved;
  std::optional<Model> kept;
  if (is_warm || EnvString(EnvVar::kCacheDir) != "off") {
    compiled.reset();
    progress.StartPhase(is_program ? "opening again" : "filling the cache");
    for (int i = 0; i < 2 && !(is_warm && kept); ++i) {
      kept.reset();
      start = Clock::now();
      kept = OpenModel(model_options, true, options.make_graph);
      row["phases"]["warm_open"] = SecondsSince(start);
      model_options.replan = false;
      is_warm = is_warm || IsFromCache(kept->program);
    }
    if (!is_warm) row["phases"].erase("warm_open");  // the cache does not keep it
  } else {
    kept = std::move(compiled);
  }
  const Model& model = *kept;
  const Inputs inputs(model, model_options, input_options);
  Runner runner(model, inputs);
  row["phases"]["first_run"] = runner.Run();
  if (is_warm) row["phases"]["first_output_warm"] = SecondsSince(start);
  row["phases"].update(LoadPhases(model.program));
  const RowPlacement placement = PlacementOf(model.program);
  if (!inputs.symbols().empty()) row["shapes"] = inputs.symbols();
  row["placement"] = placement.json;
  row["fallbacks"] = placement.fallbacks;
  row["placed_on"] = placement.working;
  if (model.is_saved && named.empty()) row["device"] = Join(placement.devices, "+");
  // The library chose those of "auto", and a program file has its own.
  std::vector<hy::Device> devices;
  for (const std::string& device : named.empty() ? placement.devices : named) {
    devices.push_back(model.instance.Open(device));
  }
  row["devices"] = DeviceJson(devices);

  const std::vector<Tensor> results = runner.Results();
  std::error_code no_file;
  const bool has_file =
      !options.make_graph && std::filesystem::is_regular_file(model_options.model, no_file);
  row["identity"] =
      IdentityJson(has_file ? model_options.model : "", model.program, inputs.tensors(), results);
  // A program file is all there is of its model: without cpu:0 in it nothing says what is right.
  const bool has_reference = !model.is_saved || placement.devices == Split("cpu:0", ',');
  if (!options.no_check && has_reference) {
    progress.StartPhase("checking the outputs");
    row["errors"] = CheckOutputs(options, model_options, input_options, results);
    if (row["errors"].contains("wrong")) {  // nothing wrong is timed
      row["verdicts"] = CheckVerdicts(row);
      row["error"] = row["verdicts"][0];
      return;
    }
  }
  bool is_deterministic = true;
  for (int i = 0; i < 2; ++i) {
    runner.Run();
    const std::vector<Tensor> again = runner.Results();
    for (size_t o = 0; o < results.size(); ++o)
      is_deterministic &= again[o].bytes == results[o].bytes;
  }
  row["is_deterministic"] = is_deterministic;
  row["memory"] = MeasureMemory(model, inputs, devices);

  std::optional<CacheFlush> flush;
  if (options.cold_cache) {
    progress.StartPhase("preparing to empty the caches");
    std::vector<hy::Device> swept;
    for (const hy::Device& device : devices)
      swept.push_back(model.instance.Open(hy::ToString(device.info().path)));
    for (hy::Device& host : HostOf(model.instance, devices)) swept.push_back(std::move(host));
    flush.emplace(model.instance, swept);
    row["cold_cache"] = flush->Report();
  }
  start = Clock::now();
  progress.StartPhase("warming up", options.warm_seconds);
  while (!IsInterrupted() && SecondsSince(start) < options.warm_seconds) {
    runner.Run();
    progress.Tick();
  }
  row["conditions"] = ConditionsBefore(devices, named);
  const std::vector<hy::Device> host = HostOf(model.instance, devices);
  Json host_conditions = ConditionsBefore(host);
  std::vector<double> samples;
  progress.StartPhase("timed runs", options.runs > 0 ? 0 : options.seconds);
  const double cpu_before = CpuSeconds();
  start = Clock::now();
  bool is_half_over = false;
  while (!IsInterrupted() &&
         (options.runs > 0 ? static_cast<int64_t>(samples.size()) < options.runs
                           : samples.size() < 5 || SecondsSince(start) < options.seconds)) {
    if (flush) flush->Run();
    samples.push_back(runner.Run());
    progress.Tick();
    // Right after a run: a clock that the work holds down rises again when it ends.
    if (!is_half_over &&
        (options.runs > 0 ? static_cast<int64_t>(2 * samples.size()) >= options.runs
                          : 2 * SecondsSince(start) >= options.seconds)) {
      is_half_over = true;
      AddStates("during", devices, &row["conditions"]);
    }
  }
  const double cpu_s = CpuSeconds() - cpu_before;
  if (flush) row["cold_cache"] = flush->Report();
  AddStates("after", devices, &row["conditions"]);
  row["state_before"] = MergedStates(row["conditions"], "before");
  row["state_after"] = MergedStates(row["conditions"], "after");
  AddHost(std::move(host_conditions), host, &row["conditions"]);
  if (samples.empty()) return;
  row["latency"] = StatisticsJson(Describe(samples));
  if (!flush) {  // whose own work would count
    row["per_run"] = {{"cpu_seconds", cpu_s / static_cast<double>(samples.size())}};
    Json joules = JoulesPerRun(row["conditions"], samples.size());
    if (!joules.empty()) row["per_run"]["joules"] = std::move(joules);
  }
  if (!IsInterrupted() && !flush)
    MeasureLoads(options, model, inputs, devices, runner, progress, &row);
  if (!IsInterrupted() && !options.no_profile) {
    progress.StartPhase("profiled runs", kProfileSeconds);
    Json profile = MeasureProfile(model, inputs, row["latency"]["p50"], devices);
    if (profile.is_object()) row["profile"] = std::move(profile);  // else interrupted
  }
  if (!IsInterrupted() && RivalSeconds(options) > 0 && named.size() == 1) {
    Json rivals = MeasureRivals(options, model_options, inputs, devices[0], runner, progress, row);
    if (!rivals.empty()) row["rivals"] = std::move(rivals);
  }
  progress.StartPhase("writing it up");
  const size_t stride = samples.size() / 1000 + 1;
  row["samples"] = Json::array();
  for (size_t i = 0; i < samples.size(); i += stride) row["samples"].push_back(samples[i]);
  row["verdicts"] = Verdicts(row);
  if (named.size() > placement.working.size()) {
    row["verdicts"].push_back("placement leaves all work to " + Join(placement.working, ", "));
  }
  if (!options.no_check && !has_reference) {
    row["verdicts"].push_back(
        "the outputs are not checked: a program file is for its devices only");
  }
}

}  // namespace

Json BenchRow(const BenchOptions& options, ModelOptions model_options,
              const InputOptions& input_options, BenchProgress& progress) {
  Json row = {{"model", model_options.model}, {"device", model_options.device}};
  model_options.should_stop = [](void*) -> int32_t { return IsInterrupted(); };
  try {
    MeasureRow(options, model_options, input_options, progress, row);
  } catch (const hy::Error& error) {
    if (!IsInterrupted() || error.code() != HY_ABORTED) throw;
  }
  if (IsInterrupted()) row["is_interrupted"] = true;
  return row;
}

}  // namespace halyard::tools
