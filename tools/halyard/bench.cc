// SPDX-License-Identifier: Apache-2.0
// halyard bench: how long a model takes on each device, in phases and in percentiles, with the
// state of the machine and a verdict in words.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/near_names.h"
#include "compiler/import/onnx_sizes.h"
#include "tools/halyard/align_tables.h"
#include "tools/halyard/bench_op.h"
#include "tools/halyard/bench_page.h"
#include "tools/halyard/bench_row.h"
#include "tools/halyard/bench_trace.h"
#include "tools/halyard/files.h"
#include "tools/halyard/interrupt.h"
#include "tools/halyard/progress_line.h"
#include "tools/halyard/row_name.h"

namespace halyard::tools {
namespace {

constexpr double kMostArrivals = 1e7;  // of a rate; each is a number in memory

struct BenchArguments {
  BenchOptions bench;
  ModelOptions model;
  InputOptions inputs;
  std::vector<std::string> models, fail_if, compare;
  std::vector<std::string> precisions = {"as-given"};
  std::string op, dtype;
  std::string form = "md", output, html, trace;
};

// What rows are about: a model or an op, with its options.
struct Subject {
  ModelOptions model;
  BenchOptions bench;
  std::string file;  // as rows have it
  std::string name;  // with its sizes and its precision, as far as options give them
  Json shapes = Json::object();
};

// "batch=1,8" as its parts, "batch=1" and "batch=8"; one for what has no comma.
std::vector<std::string> ValuesOfShape(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) return {text};
  std::vector<std::string> out;
  for (const std::string& value : Split(text.substr(equals + 1), ',')) {
    out.push_back(text.substr(0, equals + 1) + value);
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      throw CommandError(kWrongUsage, "--shape names '" + out.back() + "' twice");
  }
  return out;
}

// Whether a model leaves a size of that name open; all of them where it cannot be read, which its
// row will say.
std::function<bool(const std::string&)> OpenSizesOf(const ModelOptions& options) {
  if (!IsProgramFile(options.model)) {
    auto names = onnx::SizeNamesOfFile(options.model);
    if (!names.ok()) return [](const std::string&) { return true; };
    return [names = *names](const std::string& name) { return names.Has(name); };
  }
  try {
    ModelOptions plain;
    plain.model = options.model;
    plain.device = "auto";
    std::set<std::string> names;
    const auto model = OpenModel(plain, false);  // owns the names
    for (const hy_symbol_info& symbol : model.program.Symbols())
      names.insert(hy::ToString(symbol.name));
    return [names](const std::string& name) { return names.contains(name); };
  } catch (const std::exception&) {
    return [](const std::string&) { return true; };
  }
}

// Which of the entries of --shape each model takes: with several models those whose size it has,
// and those that none has, which its row refuses.
std::vector<std::vector<std::string>> ShapesOf(const BenchArguments& options) {
  std::vector<std::vector<std::string>> out(options.models.size());
  if (options.models.size() < 2 || options.model.shapes.empty()) {
    for (auto& shapes : out) shapes = options.model.shapes;
    return out;
  }
  std::vector<std::function<bool(const std::string&)>> has;
  for (const std::string& model : options.models) {
    ModelOptions one = options.model;
    one.model = model;
    has.push_back(OpenSizesOf(one));
  }
  for (const std::string& shape : options.model.shapes) {
    const std::string name = shape.substr(0, shape.rfind('='));
    const bool is_anywhere =
        std::any_of(has.begin(), has.end(), [&](const auto& has_size) { return has_size(name); });
    for (size_t i = 0; i < out.size(); ++i) {
      if (!is_anywhere || has[i](name)) out[i].push_back(shape);
    }
  }
  return out;
}

// A model in all sizes and precisions that the options list, the last of them changing fastest.
std::vector<Subject> GridOf(const BenchArguments& options, const std::string& model,
                            const std::vector<std::string>& shapes) {
  std::vector<Subject> grid = {{options.model, options.bench, model, model}};
  grid[0].model.model = model;
  grid[0].model.shapes.clear();
  const auto extend = [&](const std::vector<std::string>& values, const auto& set) {
    std::vector<Subject> wider;
    for (const Subject& subject : grid) {
      for (const std::string& value : values) {
        wider.push_back(subject);
        set(wider.back().model, value);
        wider.back().name += " " + value;
      }
    }
    grid = std::move(wider);
  };
  for (const std::string& shape : shapes) {
    extend(ValuesOfShape(shape), [](ModelOptions& model_options, const std::string& value) {
      model_options.shapes.push_back(value);
    });
  }
  for (const std::string& precision : options.precisions) {
    if (std::count(options.precisions.begin(), options.precisions.end(), precision) > 1)
      throw CommandError(kWrongUsage, "--precision names '" + precision + "' twice");
  }
  extend(options.precisions, [](ModelOptions& model_options, const std::string& value) {
    model_options.precision = value;
  });
  for (Subject& subject : grid) {
    for (const auto& [symbol, size] : ParseShapes(subject.model.shapes))
      subject.shapes[symbol] = size;
  }
  return grid;
}

std::vector<Subject> SubjectsOf(const BenchArguments& options) {
  if (!options.op.empty() && !options.models.empty())
    throw CommandError(kWrongUsage, "--op takes no model");
  std::vector<Subject> out;
  const std::vector<std::vector<std::string>> shapes = ShapesOf(options);
  for (size_t i = 0; i < options.models.size(); ++i) {
    for (Subject& subject : GridOf(options, options.models[i], shapes[i]))
      out.push_back(std::move(subject));
  }
  if (options.op.empty()) {
    if (!options.dtype.empty())
      throw CommandError(kWrongUsage, "--dtype is of --op; of models --precision can be chosen");
    if (options.bench.no_rivals) throw CommandError(kWrongUsage, "--no-rivals is of --op");
    if (out.empty()) throw CommandError(kWrongUsage, "bench needs a model, or --op");
    return out;
  }
  if (options.model.shapes.empty()) {
    throw CommandError(kWrongUsage,
                       "--op " + options.op + " needs --shape " + ShapeFormOf(options.op));
  }
  for (const std::string& shape : options.model.shapes) {
    const OpCase op = ParseOpCase(options.op, shape, options.dtype.empty() ? "f32" : options.dtype);
    for (Subject& subject : GridOf(options, NameOf(op), {})) {
      subject.bench.op = op;
      subject.bench.make_graph = [op](const hy::Instance& instance) {
        return MakeGraph(instance, op);
      };
      out.push_back(std::move(subject));
    }
  }
  return out;
}

// The rows of a model: as the option says, else the devices that a program file is for, or cpu:0.
std::vector<std::string> RowsOf(const std::string& list, const std::string& model) {
  if (!list.empty()) return Split(list, ',');
  return {IsProgramFile(model) ? "auto" : "cpu:0"};
}

// `--device all`: every device that `halyard devices` lists, one that `auto` leaves out too.
std::string AllDevices() {
  const hy::Instance instance = MakeInstance(false, true);
  std::string list;
  for (const hy_device_info& info : instance.Devices())
    list += (list.empty() ? "" : ",") + hy::ToString(info.path);
  return list;
}

// Before anything is timed: a name that can be no device's, and a row that is there already. A
// device that is missing is its row's error.
void CheckDeviceNames(const std::string& list) {
  if (list.empty()) return;
  const hy::Instance instance = MakeInstance(false, true);
  std::map<std::string, std::string> rows;  // the list's word, by the paths of the devices
  for (const std::string& row : Split(list, ',')) {
    std::string paths = row == "auto" ? row : "";
    for (const std::string& device : DevicesOfRow(row)) {
      std::string path = device;
      try {
        path = hy::ToString(OpenNamed(instance, device).info().path);
        // The same device with other options, such as threads, is another row.
        path += device.substr(std::min(device.find('?'), device.size()));
      } catch (const MissingDevice&) {
      }
      paths += "+" + path;
    }
    const auto [found, is_new] = rows.emplace(paths, row);
    if (is_new) continue;
    throw CommandError(kWrongUsage, found->second == row
                                        ? "--device names '" + row + "' twice"
                                        : "--device names '" + found->second + "' and '" + row +
                                              "', which are the same");
  }
}

// A row that failed, as the table and as standard error have it.
Json FailedRow(const Subject& subject, const std::string& device, const std::string& why) {
  const std::string head = subject.model.model + ": ";
  Json row = {{"model", subject.file},
              {"device", device},
              {"error", why},
              {"precision", subject.model.precision},
              {"io_precision", subject.model.io_precision}};
  if (!subject.shapes.empty()) row["shapes"] = subject.shapes;
  PrintError(NameOfRow(row) + ": " + (why.starts_with(head) ? why.substr(head.size()) : why));
  return row;
}

// Names come from model files and need not be UTF-8.
std::string ReportText(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// "has 'copy.onnx on cpu:0'": the rows of a report that have samples.
std::string MeasuredRows(const Json& report) {
  std::vector<std::string> rows;
  for (const Json& row : report["rows"]) {
    if (row.contains("samples") && !row["samples"].empty()) rows.push_back(NameOfRow(row));
  }
  return "has " + NamesLike("", rows);
}

// A report never replaces what is measured or read for it.
void KeepFilesApart(const BenchArguments& options) {
  std::vector<NamedFile> inputs = FilesOf(options.inputs);
  for (const std::string& model : options.models) inputs.push_back({"the model", model});
  const std::vector<NamedFile> outputs = {
      {"--output", options.output}, {"--html", options.html}, {"--trace", options.trace}};
  KeepApart(outputs, inputs);
  for (const std::string& model : options.models) KeepApartFromData(outputs, model);
  CheckWritable(outputs);
}

int Bench(BenchArguments options, const CLI::App& command) {
  if (!options.compare.empty()) {
    RefuseOthers(command, "--compare", "reads two reports and writes a table");
    const std::string &before = options.compare[0], &after = options.compare[1];
    const Json reports[] = {ParseBenchReport(before, ReadReport(before)),
                            ParseBenchReport(after, ReadReport(after))};
    const std::string table = CompareReports(reports[0], reports[1]);
    if (table.empty()) {
      throw CommandError(kBadModel, "'" + before + "' and '" + after +
                                        "' measured no model on a device alike: the first " +
                                        MeasuredRows(reports[0]) + ", the second " +
                                        MeasuredRows(reports[1]));
    }
    std::printf("%s", AlignTables(table).c_str());
    return kDone;
  }
  if (options.model.device == "all") options.model.device = AllDevices();
  const std::vector<Subject> subjects = SubjectsOf(options);
  for (const double rate : options.bench.rates) {
    if (rate * options.bench.seconds <= kMostArrivals) continue;
    char text[200];
    std::snprintf(text, sizeof(text),
                  "--rate %g for %g s is more than the %.0f runs that one measurement takes", rate,
                  options.bench.seconds, kMostArrivals);
    throw CommandError(kWrongUsage, text);
  }
  for (const std::string load : {"--concurrency", "--rate"}) {
    if (!options.bench.cold_cache || command.count(load) == 0) continue;
    throw CommandError(kWrongUsage,
                       "--cold-cache empties the caches before each run, one after the other; it "
                       "takes no " +
                           load);
  }
  KeepFilesApart(options);
  std::vector<Condition> conditions;
  for (const std::string& text : options.fail_if) {
    conditions.push_back(ParseCondition(text));
    const std::string& metric = conditions.back().metric;
    const auto needs = [&](const char* what) {
      return CommandError(kWrongUsage, "--fail-if '" + text + "': '" + metric + "' needs " + what);
    };
    if (metric == "throughput" && options.bench.cold_cache)
      throw needs("runs/s, which --cold-cache leaves out");
    if (metric == "missed" && options.bench.rates.empty()) throw needs("--rate");
    if (metric.ends_with("_error") && options.bench.no_check)
      throw needs("the comparison that --no-check leaves out");
  }
  CheckDeviceNames(options.model.device);
  std::optional<InterruptWatch> watch(std::in_place);
  Json report = {{"format", kBenchFormat},
                 {"version", static_cast<uint32_t>(hy_version())},
                 {"timer", "host clock around hy_session_run, host memory to host memory"},
                 {"precision", Join(options.precisions, ",")},
                 {"io_precision", options.model.io_precision},
                 {"vendor_libs", options.model.vendor_libs != HY_VENDOR_LIBRARIES_OFF},
                 {"is_tuned", !options.model.no_tune},
                 {"unix_seconds", static_cast<int64_t>(std::time(nullptr))},
                 {"is_interrupted", false},
                 {"rows", Json::array()}};
  size_t rows = 0;
  for (const Subject& subject : subjects)
    rows += RowsOf(subject.model.device, subject.model.model).size();
  BenchProgress progress(
      rows, TimedSeconds(options.bench),
      [] {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration<double>(now).count();
      },
      ShowProgress);
  int status = kDone;    // of the first row that failed
  bool is_held = false;  // a condition of --fail-if
  for (const Subject& subject : subjects) {
    const std::string& model = subject.model.model;
    for (const std::string& device : RowsOf(subject.model.device, model)) {
      if (IsInterrupted()) break;
      ModelOptions one = subject.model;
      one.device = device;
      // What it is for is known when it is open.
      const std::string name = device == "auto" && IsProgramFile(model) ? "its devices" : device;
      Json row;
      try {
        progress.StartRow(subject.name + " on " + name);
        row = BenchRow(subject.bench, one, options.inputs, progress);
        progress.EndRow();
        row["model"] = subject.file;
        // One that was interrupted before its model was open has none of its own.
        if (!row.contains("shapes") && !subject.shapes.empty()) row["shapes"] = subject.shapes;
        row["precision"] = subject.model.precision;
        row["io_precision"] = subject.model.io_precision;
        if (row.contains("error")) {
          PrintError(NameOfRow(row) + ": " + row["error"].get<std::string>());
          if (status == kDone) status = kDiffers;
        }
      } catch (const hy::Error& error) {
        row = FailedRow(subject, name, WithFile(error, model).what());
        if (status == kDone) status = StatusOf(error.code());
      } catch (const CommandError& error) {
        row = FailedRow(subject, name, error.what());
        if (status == kDone) status = error.status();
      }
      for (const Condition& condition : conditions) {
        const std::string why = WhyItHolds(condition, row);
        if (why.empty()) continue;
        PrintError(NameOfRow(row) + ": " + why);
        is_held = true;
      }
      row["name"] = ModelOfRow(row);
      report["rows"].push_back(std::move(row));
    }
  }
  EraseProgress();
  watch.reset();
  if (status == kDone && is_held) status = kDiffers;
  if (IsInterrupted()) {
    PrintError(conditions.empty()
                   ? "interrupted; the report has what was measured until then"
                   : "interrupted; --fail-if is judged only on what was measured until then");
    status = kInterrupted;
    report["is_interrupted"] = true;
  }
  const std::string json = ReportText(report);
  // What took long to measure is not lost with a disk that is full.
  bool is_written = options.output.empty() || WriteOrTell(options.output, json);
  if (!options.html.empty()) is_written &= WriteOrTell(options.html, MakeBenchPage(report));
  if (!options.trace.empty())
    is_written &= WriteOrTell(options.trace, ReportText(MakeTrace(report)));
  if (!is_written && (status == kDone || status == kDiffers)) status = kSystemFailure;
  std::printf("%s", options.form == "json"  ? json.c_str()
                    : options.form == "csv" ? FormatCsv(report).c_str()
                                            : AlignTables(FormatMarkdown(report)).c_str());
  return status;
}

}  // namespace

Run AddBenchCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Time models on devices, in phases and percentiles");
  auto options = std::make_shared<BenchArguments>();
  options->model.device.clear();
  command->add_option("MODEL", options->models, "ONNX or program files");
  command->add_option(
      "--device", options->model.device,
      "One row for each, such as cpu:0,cuda:0; cpu:0+cuda:0 is one program over both; all: every "
      "device of `halyard devices`");
  command
      ->add_option(
          "--shape", options->model.shapes,
          "SYMBOL=N, or SYMBOL=N,M for a row of each: a size that the model leaves open; with "
          "--op the sizes of the op")
      ->allow_extra_args(false);
  command->add_option(
      "--op", options->op,
      "Time one op instead of a model, on --shape, such as 512x512x512: " + KnownOps());
  command->add_option("--dtype", options->dtype, "Of --op: f32, f16, bf16 or f64 (f32)");
  options->model.for_models = {
      command
          ->add_option_function<std::vector<std::string>>(
              "--precision",
              [options](const std::vector<std::string>& lists) {
                options->precisions = ItemsOf(lists);
              },
              "as-given or fp16, or both, each a row (as-given)")
          ->allow_extra_args(false)
          ->check(IsListOf(IsOneOf({"as-given", "fp16"}))),
      command->add_flag("--no-tune", options->model.no_tune,
                        "Take the schedules that the model of costs prefers"),
      command->add_flag("--replan", options->model.replan,
                        "Place anew, even where the cache has a program")};
  AddIoPrecisionOption(*command, options->model);
  AddVendorLibsOption(*command, options->model);
  AddInputOptions(*command, options->inputs);
  command->add_option("--seconds", options->bench.seconds, "Of steady runs (3)")
      ->check(IsNumber(0.01, 1e5, "number of seconds"));
  command->add_option("--warm-up", options->bench.warm_seconds, "Seconds of runs before them (0.2)")
      ->check(IsNumber(0, 1e5, "number of seconds"));
  command->add_option("--runs", options->bench.runs, "Steady runs, instead of --seconds")
      ->transform(IsWhole(1, 100000000));
  command->add_option("--concurrency", options->bench.concurrency, "Sessions of the throughput (2)")
      ->transform(IsWhole(1, 64));
  command
      ->add_option_function<std::vector<std::string>>(
          "--rate",
          [options](const std::vector<std::string>& lists) {
            for (const std::string& item : ItemsOf(lists)) {
              std::vector<double>& rates = options->bench.rates;
              const double rate = std::strtod(item.c_str(), nullptr);
              if (std::count(rates.begin(), rates.end(), rate) > 0)
                throw CommandError(kWrongUsage, "--rate names '" + item + "' twice");
              rates.push_back(rate);
            }
          },
          "Latency with runs due at random, so many a second, such as 50 or 10,20,50")
      ->allow_extra_args(false)
      ->check(IsListOf(IsNumber(0.001, 1e6)));
  command->add_flag(
      "--cold-cache", options->bench.cold_cache,
      "Before each timed run read and write more memory than the caches of the devices "
      "hold; leaves out runs/s and other libraries");
  command->add_flag("--no-check", options->bench.no_check,
                    "Time without comparing the outputs with those of cpu:0");
  command->add_flag("--no-profile", options->bench.no_profile,
                    "Leave out the runs that time each command by itself");
  command->add_flag(
      "--no-rivals", options->bench.no_rivals,
      "With --op: leave out the libraries that compute the same (oneDNN, cuBLASLt, cuDNN)");
  command->add_option("--rtol", options->bench.rtol, "Relative tolerance of the comparison")
      ->check(IsTolerance)
      ->capture_default_str();
  command
      ->add_option("--atol", options->bench.atol,
                   "Absolute tolerance of the comparison, times the largest magnitude of an output "
                   "where that is below 1 or the precision is of 16 bits")
      ->check(IsTolerance)
      ->capture_default_str();
  command
      ->add_option("--fail-if", options->fail_if,
                   "Condition such as p99>5ms, cv>5%, throughput<100: status 4; times need a unit")
      ->allow_extra_args(false);
  command->add_option("-o,--form", options->form, "md, json or csv")
      ->check(IsOneOf({"md", "json", "csv"}))
      ->capture_default_str();
  command->add_flag_callback(
      "--json", [options] { options->form = "json"; }, "The same as -o json");
  command->add_option("--output", options->output, "Also write the report as JSON into this file")
      ->transform(NameOfOutput);
  command->add_option("--html", options->html, "Also write the report as one page into this file")
      ->transform(NameOfOutput);
  command->add_option("--trace", options->trace, "Also write the profiles as a trace for Perfetto")
      ->transform(NameOfOutput);
  command->add_option("--compare", options->compare, "Compare two reports of this command")
      ->type_name("A.json B.json")
      ->expected(2);
  return [options, command] { return Bench(*options, *command); };
}

}  // namespace halyard::tools
