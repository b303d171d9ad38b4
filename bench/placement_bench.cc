// SPDX-License-Identifier: Apache-2.0
// placement_bench: what placement is worth. For each model: the chosen plan, each device alone and
// the greedy plan of runtimes with a list of providers, each compiled as the solver described it,
// run in turn and compared; predicted and measured time of each. Where the plan is not 1.2 times as
// fast as the best device alone, all assignments are tried in the simulation, and each with every
// choice of the weights that stream, if they are not too many, so that the table says whether any
// plan could be. That simulation is of clusters before they are fused, and kernels take no memory
// for themselves in it; so its times are compared with each other and with that of the plan's
// devices in it, not with what is predicted of the plan. Prints rows of Markdown.
//
//   placement_bench --device LIST [--memory-cap DEVICE=SIZE]... [--symbol NAME=VALUE]...
//                   [--rounds N] [--tune] MODEL.onnx...
//
// Costs are those that `halyard devices --probe` stored, in the cache folder (HALYARD_CACHE_DIR).
// HALYARD_COMPILER_LIBRARY names the compiler library. bench/placement.sh has the whole table.
// Fails when two plans of one model give different results.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/parse_number.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/pipeline/place_clusters.h"
#include "compiler/place/plan.h"
#include "compiler/place/simulate.h"
#include "compiler/place/stream.h"
#include "runtime/compile.h"
#include "runtime/device_target.h"
#include "runtime/instance.h"
#include "runtime/probe/machine.h"
#include "runtime/trial_run.h"

namespace halyard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWorthwhile = 1.2;
constexpr double kMostAssignments = 1 << 28;
constexpr std::chrono::milliseconds kWarm{15};
constexpr double kTolerance = 1e-3;  // of |expected| + rms: sums in another order, not other work

struct Arguments {
  std::vector<std::string> devices, models;
  std::vector<place::MemoryCap> caps;
  std::map<std::string, int64_t> symbols;
  int rounds = 30;
  bool tune = false;
};

std::string Milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

// One whole plan: predicted, and compiled and run where its memory allows.
struct Variant {
  std::string name;
  std::vector<uint32_t> devices;  // per item
  double predicted_seconds = 0;
  std::string why_not;  // it cannot be
  std::optional<runtime::TrialRun> trial;
};

std::optional<place::Plan> PlanOf(const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind != "plan") continue;
    auto plan = place::ParsePlan(record.text);
    if (plan.ok()) return std::move(plan).value();
  }
  return std::nullopt;
}

// "cpu:0 3, vulkan:0 5"
std::string Share(const place::Plan& plan, const std::vector<uint32_t>& devices) {
  std::string out;
  for (uint32_t d = 0; d < plan.device_names.size(); ++d) {
    const auto count = std::count(devices.begin(), devices.end(), d);
    if (count == 0) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", plan.device_names[d], count);
  }
  return out;
}

class ModelBench {
 public:
  ModelBench(std::shared_ptr<runtime::Instance> instance, const Arguments& arguments,
             std::string model)
      : instance_(std::move(instance)), arguments_(arguments), model_(std::move(model)) {}

  Status Run() {
    HY_ASSIGN(job_, MakeJob());
    runtime::CompileJob job = job_;
    HY_ASSIGN(auto planned, runtime::Compile(instance_, std::move(job)));
    auto plan = PlanOf(planned->program());
    if (!plan) return InvalidArgument("One device has no plan; at least two are needed.");
    plan_ = std::move(*plan);
    HY_TRY(FindVariants(std::move(planned)));
    HY_TRY(CompileRivals());
    HY_TRY(Measure());
    HY_TRY(Compare());
    Print();
    return PrintProof();
  }

 private:
  Result<runtime::CompileJob> MakeJob() const {
    runtime::CompileJob job;
    job.source.path = model_;
    job.options.symbol_values = arguments_.symbols;
    job.options.tune = arguments_.tune;
    job.options.placement.memory_caps = arguments_.caps;
    job.replan = true;
    for (const std::string& path : arguments_.devices) {
      HY_ASSIGN(auto device, instance_->OpenDevice(path));
      job.devices.push_back(std::move(device));
    }
    return job;
  }

  Status FindVariants(std::shared_ptr<runtime::LoadedProgram> planned) {
    Variant& chosen = variants_.emplace_back();
    chosen.name = "the plan";
    for (const place::Decision& decision : plan_.decisions)
      chosen.devices.push_back(decision.device);
    chosen.predicted_seconds = plan_.makespan_seconds;
    HY_ASSIGN(chosen.trial, runtime::TrialRun::Make(std::move(planned), arguments_.symbols));
    for (const place::Rival& rival : plan_.rivals) {
      const bool is_single = rival.name.starts_with("all ");
      if (!is_single && !rival.name.starts_with("greedy")) continue;
      variants_.push_back({rival.name, rival.devices, rival.makespan_seconds, rival.reason, {}});
    }
    return OkStatus();
  }

  // Equal assignments are compiled once.
  const Variant& Same(size_t index) const {
    for (size_t i = 0; i < index; ++i) {
      if (variants_[i].devices == variants_[index].devices) return variants_[i];
    }
    return variants_[index];
  }

  Status CompileRivals() {
    for (size_t i = 1; i < variants_.size(); ++i) {
      Variant& variant = variants_[i];
      if (!variant.why_not.empty() || &Same(i) != &variant) continue;
      place::Plan forced = plan_;
      for (size_t item = 0; item < variant.devices.size(); ++item) {
        forced.decisions[item].device = variant.devices[item];
      }
      runtime::CompileJob job = job_;
      job.options.placement.previous_plan = place::FormatPlan(forced);
      job.options.placement.keeps_previous = true;
      auto compiled = runtime::Compile(instance_, std::move(job));
      if (!compiled.ok()) {
        variant.why_not = compiled.status().message();
        continue;
      }
      if (const auto got = PlanOf((*compiled)->program())) HY_TRY(CheckDevices(variant, *got));
      HY_ASSIGN(variant.trial,
                runtime::TrialRun::Make(std::move(compiled).value(), arguments_.symbols));
    }
    return OkStatus();
  }

  // Cut elsewhere, other nodes are one cluster, so nodes are compared; several parts may have one
  // name.
  Status CheckDevices(const Variant& variant, const place::Plan& got) const {
    std::map<std::string, std::set<uint32_t>> wanted;
    for (size_t item = 0; item < variant.devices.size(); ++item) {
      for (const std::string& node : plan_.item_nodes[item]) {
        wanted[node].insert(variant.devices[item]);
      }
    }
    for (size_t item = 0; item < got.decisions.size(); ++item) {
      for (const std::string& node : got.item_nodes[item]) {
        const auto found = wanted.find(node);
        if (found == wanted.end() || found->second.contains(got.decisions[item].device)) continue;
        return Internal("'{}' of plan '{}' is compiled for '{}'.", node, variant.name,
                        got.device_names[got.decisions[item].device]);
      }
    }
    return OkStatus();
  }

  Status Measure() {
    // The first runs behind another variant are not counted: where that one used the same GPU
    // through another driver, the GPU changes from one to the other, and where it did not use the
    // GPU, the GPU slept meanwhile, neither of which a program that runs again and again sees.
    for (int round = -2; round < arguments_.rounds; ++round) {
      for (Variant& variant : variants_) {
        if (!variant.trial) continue;
        const Clock::time_point start = Clock::now();
        do {
          HY_TRY_CONTEXT(variant.trial->WarmUp(), "running {}", variant.name);
        } while (Clock::now() - start < kWarm);
        if (round == 0) variant.trial->ForgetTimes();
        HY_TRY_CONTEXT(variant.trial->Run(), "running {}", variant.name);
      }
    }
    return OkStatus();
  }

  Status Compare() {
    const Variant& base = variants_.front();
    for (const Variant& variant : variants_) {
      if (!variant.trial) continue;
      for (size_t o = 0; o < base.trial->outputs().size(); ++o) {
        const runtime::CallResult &want = base.trial->outputs()[o],
                                  &got = variant.trial->outputs()[o];
        if (want.dtype != DType::kF32) continue;
        const auto* a = static_cast<const float*>(want.data);
        const auto* b = static_cast<const float*>(got.data);
        const size_t count = static_cast<size_t>(want.size_bytes) / 4;
        double squares = 0;
        for (size_t i = 0; i < count; ++i) squares += double{a[i]} * double{a[i]};
        const double rms = std::sqrt(squares / static_cast<double>(std::max<size_t>(count, 1)));
        for (size_t i = 0; i < count; ++i) {
          const double difference = std::abs(double{a[i]} - double{b[i]});
          if (difference <= kTolerance * (std::abs(double{a[i]}) + rms)) continue;
          return DataLoss("Element {} of output {} is {} by the plan and {} by {}.", i, o, a[i],
                          b[i], variant.name);
        }
      }
    }
    return OkStatus();
  }

  static std::optional<double> Measured(const Variant& variant) {
    if (!variant.trial) return std::nullopt;
    return variant.trial->MedianSeconds();
  }

  void Print() const {
    const std::string folder = std::filesystem::absolute(model_).parent_path().filename().string();
    for (size_t i = 0; i < variants_.size(); ++i) {
      const Variant& variant = variants_[i];
      const Variant& same = Same(i);
      const auto seconds = Measured(same);
      std::string measured = "";
      if (!variant.why_not.empty()) {
        measured = variant.why_not;
      } else if (&same != &variant) {
        measured = fmt::format("as {}", same.name);
      } else if (seconds) {
        measured = Milliseconds(*seconds);
      }
      std::printf(
          "| %s | %s | %s | %s | %s | %s |\n", i == 0 ? folder.c_str() : "", variant.name.c_str(),
          Share(plan_, variant.devices).c_str(),
          variant.devices.empty() ? "" : Milliseconds(variant.predicted_seconds).c_str(),
          measured.c_str(),
          seconds ? fmt::format("{:.2f}", variant.predicted_seconds / *seconds).c_str() : "");
    }
    std::fflush(stdout);
  }

  Result<place::Problem> MakeProblem() const {
    CompileRequest request = runtime::MakeRequest(job_.source);
    request.options = job_.options;
    for (const std::string& name : plan_.device_names) {
      for (const Ref<hal::Device>& device : devices()) {
        if (device->path() != name) continue;
        request.devices.push_back({name, runtime::TargetOf(*device), runtime::IdentityOf(*device),
                                   runtime::IsHostDevice(*device)});
        break;
      }
      const auto is_asked = [&](const auto& device) { return device->path() == name; };
      if (std::none_of(job_.devices.begin(), job_.devices.end(), is_asked)) {
        request.options.placement.last_resort.push_back(name);
      }
    }
    std::vector<std::string> notes;
    const place::Machine machine =
        runtime::StoredMachine(request.devices, instance_->CacheFolder(), &notes);
    request.machine = &machine;
    pipeline::CompileState state;
    state.request = &request;
    state.program.devices = request.devices;
    pipeline::RunOptions run;
    run.stop_after = "cluster";
    std::vector<PhaseTime> phases;
    HY_TRY(pipeline::RunPasses(state, run, "", &phases));
    std::vector<uint32_t> cluster_of_item;
    return pipeline::MakeProblem(state, pipeline::MachineOf(state, &notes), &cluster_of_item);
  }

  // Those of the job, and the last resort.
  std::vector<Ref<hal::Device>> devices() const {
    std::vector<Ref<hal::Device>> all = job_.devices;
    if (const auto cpu = instance_->OpenDevice("cpu:0"); cpu.ok()) all.push_back(*cpu);
    return all;
  }

  Status PrintProof() const {
    // Beside the fastest device alone, and the fastest with help for what it cannot do.
    double least_gain = kWorthwhile;  // nothing alone is feasible: nothing to prove
    for (const std::string kind : {"all on ", "all that can be on "}) {
      const Variant* best = nullptr;
      double best_seconds = 0;
      for (size_t i = 1; i < variants_.size(); ++i) {
        const auto seconds = Measured(Same(i));
        if (!variants_[i].name.starts_with(kind) || !variants_[i].why_not.empty() || !seconds ||
            (best != nullptr && best_seconds <= *seconds)) {
          continue;
        }
        best = &variants_[i];
        best_seconds = *seconds;
      }
      if (best == nullptr) continue;
      const double gain = best_seconds / *Measured(variants_.front());
      std::printf("| | **%.2f** times as fast as %s | | | | |\n", gain, best->name.c_str());
      // With help it is no single device any more.
      if (kind == "all on ") least_gain = gain;
    }
    if (least_gain >= kWorthwhile) return OkStatus();
    return PrintLeast();
  }

  // What no plan can be faster than, by all assignments of the parts, with every choice of the
  // parts whose weights stream.
  Status PrintLeast() const {
    HY_ASSIGN(const place::Problem kept, MakeProblem());
    const auto build = [](const place::Problem& problem) {
      return place::BuildCore(problem, std::vector<bool>(place::GroupCount(problem), false),
                              nullptr);
    };
    HY_ASSIGN(const place::Core core, build(kept));
    const std::vector<uint32_t> streaming = StreamingItems(kept);
    const double sets = std::exp2(static_cast<double>(streaming.size()));
    std::vector<std::vector<uint32_t>> choices(core.units);
    double count = streaming.empty() ? 1 : 2 * sets - 1;  // in two lots or in one
    for (uint32_t u = 0; u < core.units; ++u) {
      for (uint32_t d = 0; d < core.devices; ++d) {
        if (core.CostOf(u, d) < place::kNever) choices[u].push_back(d);
      }
      count *= static_cast<double>(choices[u].size());
    }
    if (count > kMostAssignments || core.units != kept.items.size()) {
      std::printf("| | %.3g assignments are too many to try%s | | | | |\n", count,
                  plan_.is_optimal ? "; the plan has the least sum of all costs, proven" : "");
      return OkStatus();
    }
    uint64_t tried = 0;
    const auto least_of =
        [&](const std::vector<std::vector<uint32_t>>& of) -> Result<place::Ticks> {
      place::Ticks least = place::kNever;
      for (uint64_t set = 0; set < static_cast<uint64_t>(sets); ++set) {
        for (const uint32_t lots : {2u, 1u}) {
          if (set == 0 && lots == 1) continue;
          place::Problem problem = set == 0 ? kept : place::StreamWeights(kept, lots);
          for (size_t i = 0; i < streaming.size(); ++i) {
            if (((set >> i) & 1) == 0) problem.items[streaming[i]] = kept.items[streaming[i]];
          }
          HY_ASSIGN(const place::Core its_core, build(problem));
          least = place::Simulator(problem, its_core).LeastOfAll(of, least, &tried);
        }
      }
      return least;
    };
    HY_ASSIGN(const place::Ticks least, least_of(choices));
    place::Ticks single = place::kNever;
    for (uint32_t d = 0; d < core.devices; ++d) {
      const auto can = [&](const std::vector<uint32_t>& of) {
        return std::find(of.begin(), of.end(), d) != of.end();
      };
      if (!std::all_of(choices.begin(), choices.end(), can)) continue;
      HY_ASSIGN(const place::Ticks its, least_of({choices.size(), std::vector<uint32_t>{d}}));
      single = std::min(single, its);
    }
    HY_ASSIGN(const place::Ticks of_plan, least_of(ChoicesOfPlan(kept)));
    if (least >= place::kNever) {
      std::printf("| | none of all %.3g assignments keeps the limits | | | | |\n", count);
      return OkStatus();
    }
    std::string than;
    if (single < place::kNever) {
      than = fmt::format(", {:.2f} times as fast as the fastest on one device",
                         place::ToSeconds(single) / place::ToSeconds(least));
    }
    std::printf("| | the fastest of all %.3g assignments, clusters unfused%s | | %s | | |\n", count,
                than.c_str(), Milliseconds(place::ToSeconds(least)).c_str());
    if (of_plan < place::kNever) {
      std::printf("| | the plan's devices, simulated as those assignments | | %s | | |\n",
                  Milliseconds(place::ToSeconds(of_plan)).c_str());
    }
    return OkStatus();
  }

  // Per item of a problem of unfused clusters the device, alone, on which the plan has its nodes;
  // nodes of one name may be on several.
  std::vector<std::vector<uint32_t>> ChoicesOfPlan(const place::Problem& problem) const {
    std::map<std::string, std::set<uint32_t>> of_node;
    for (size_t item = 0; item < plan_.decisions.size(); ++item) {
      for (const std::string& node : plan_.item_nodes[item]) {
        of_node[node].insert(plan_.decisions[item].device);
      }
    }
    std::vector<std::vector<uint32_t>> choices;
    for (const place::Item& item : problem.items) {
      std::set<uint32_t> devices;
      for (const std::string& node : item.nodes) {
        const auto found = of_node.find(node);
        if (found != of_node.end()) devices.insert(found->second.begin(), found->second.end());
      }
      choices.emplace_back(devices.begin(), devices.end());
    }
    return choices;
  }

  // Items that have something to stream where the caller limits a memory.
  std::vector<uint32_t> StreamingItems(const place::Problem& problem) const {
    std::vector<uint32_t> out;
    if (!problem.may_stream || arguments_.caps.empty()) return out;
    const place::Problem all = place::StreamWeights(problem, 2);
    for (uint32_t i = 0; i < all.items.size(); ++i) {
      if (all.items[i].streams) out.push_back(i);
    }
    return out;
  }

  const std::shared_ptr<runtime::Instance> instance_;
  const Arguments& arguments_;
  const std::string model_;
  runtime::CompileJob job_;
  place::Plan plan_;
  std::vector<Variant> variants_;
};

Status ParseArguments(int argc, char** argv, Arguments* out) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--tune") {
      out->tune = true;
      continue;
    }
    if (!word.starts_with("--")) {
      out->models.push_back(word);
      continue;
    }
    if (i + 1 == argc) return InvalidArgument("'{}' needs a value.", word);
    const std::string value = argv[++i];
    const auto named = ParseNamedNumber(value);
    if (word == "--device") {
      for (size_t at = 0; at <= value.size();) {
        const size_t end = std::min(value.find(',', at), value.size());
        out->devices.push_back(value.substr(at, end - at));
        at = end + 1;
      }
    } else if (word == "--rounds") {
      out->rounds = std::max(1, std::atoi(value.c_str()));
    } else if (!named) {
      return InvalidArgument("'{} {}' is not known.", word, value);
    } else if (word == "--symbol") {
      out->symbols[named->first] = named->second;
    } else if (word == "--memory-cap") {
      out->caps.push_back({named->first, named->second});
    } else {
      return InvalidArgument("'{} {}' is not known.", word, value);
    }
  }
  if (out->models.empty() || out->devices.empty()) {
    return InvalidArgument(
        "usage: placement_bench --device LIST [--memory-cap DEVICE=BYTES]... "
        "[--symbol NAME=VALUE]... [--rounds N] [--tune] MODEL.onnx...");
  }
  return OkStatus();
}

Status Main(const Arguments& arguments) {
  HY_ASSIGN(auto instance, runtime::Instance::Create({}));
  std::printf(
      "| model | plan | clusters | predicted, ms | measured, ms | predicted / measured |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const std::string& model : arguments.models) {
    HY_TRY_CONTEXT(ModelBench(instance, arguments, model).Run(), "measuring '{}'", model);
  }
  return OkStatus();
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  halyard::Arguments arguments;
  halyard::Status status = halyard::ParseArguments(argc, argv, &arguments);
  if (status.ok()) status = halyard::Main(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "placement_bench: %s\n", status.ToLine().c_str());
  return 1;
}
