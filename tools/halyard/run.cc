// SPDX-License-Identifier: Apache-2.0
// halyard run: one run of a model on files or random inputs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/dtype.h"
#include "base/escape_controls.h"
#include "base/quantity.h"
#include "tools/halyard/bench_identity.h"
#include "tools/halyard/clock.h"
#include "tools/halyard/command.h"
#include "tools/halyard/compare.h"
#include "tools/halyard/files.h"
#include "tools/halyard/inputs.h"
#include "tools/halyard/tensor_io.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

struct RunArguments {
  ModelOptions model;
  InputOptions inputs;
  std::string output_dir, expect_dir;
  double rtol = 1e-4, atol = 1e-5;
  bool compile_shapes = false;
};

// Of the elements that are numbers; of a dtype without a value form nothing is known.
struct Summary {
  double min = INFINITY, max = -INFINITY, sum = 0;
  size_t count = 0, nan_count = 0;
  bool has_values = false;

  explicit Summary(const Tensor& tensor)
      : count(static_cast<size_t>(tensor.elements())), has_values(ElementBytes(tensor.dtype) != 0) {
    for (size_t i = 0; has_values && i < count; ++i) {
      const double value = ElementAsDouble(tensor, i);
      if (std::isnan(value)) {
        ++nan_count;
        continue;
      }
      min = std::fmin(min, value);
      max = std::fmax(max, value);
      sum += value;
    }
  }
  bool has_numbers() const { return has_values && nan_count < count; }
  double mean() const { return sum / static_cast<double>(count - nan_count); }
};

// "min -1.2, max 3.4, mean 0.1", and how many NaN there are beside what that is of.
std::string FormatSummary(const Tensor& tensor, const Summary& summary) {
  if (summary.count == 0) return "no elements";
  if (!summary.has_values) return Counted(tensor.bytes.size(), "byte");
  if (!summary.has_numbers()) return "all NaN";
  char text[96];
  std::snprintf(text, sizeof(text), "min %.6g, max %.6g, mean %.6g", summary.min, summary.max,
                summary.mean());
  return summary.nan_count == 0 ? text
                                : std::to_string(summary.nan_count) + " NaN, the others " + text;
}

// JSON has no infinity: one is null, beside the text that names it.
void AddSummary(const Summary& summary, Json* row) {
  if (!summary.has_values) return;
  (*row)["nan_count"] = summary.nan_count;
  if (!summary.has_numbers()) return;
  (*row)["min"] = summary.min;
  (*row)["max"] = summary.max;
  (*row)["mean"] = summary.mean();
}

// The files that --output-dir receives replace nothing that this run reads.
void KeepFilesApart(const RunArguments& options, size_t output_count) {
  if (options.output_dir.empty()) return;
  std::vector<NamedFile> outputs, inputs = FilesOf(options.inputs);
  inputs.push_back({"the model", options.model.model});
  for (size_t i = 0; i < output_count; ++i) {
    const std::string file = "/output_" + std::to_string(i) + ".npy";
    outputs.push_back({"--output-dir's", options.output_dir + file});
    if (!options.expect_dir.empty())
      inputs.push_back({"the expectation", options.expect_dir + file});
  }
  KeepApart(outputs, inputs);
  KeepApartFromData(outputs, options.model.model);
}

// An output that the model does not have would never be compared.
void RefuseOtherExpectations(const RunArguments& options, size_t output_count) {
  if (options.expect_dir.empty()) return;
  const std::string file = options.expect_dir + "/output_" + std::to_string(output_count) + ".npy";
  if (!std::filesystem::exists(file)) return;
  throw CommandError(kBadModel, file + " is there; the model has " +
                                    Counted(output_count, "output") +
                                    ", expected in output_N.npy, "
                                    "N from 0");
}

// What --output-dir wrote of a dtype that NumPy lacks can be expected, and of outputs that
// --io-precision narrowed what the model says.
Tensor AsExpected(const Tensor& tensor, hy_dtype expected, const ModelOptions& model) {
  if (tensor.dtype == expected) return tensor;
  if (tensor.dtype == HY_DTYPE_F16 && expected == HY_DTYPE_F32 && model.io_precision == "fp16")
    return ToF32(tensor);
  return AsWritten(tensor);
}

Tensor CopyOf(const hy_tensor& output, const std::string& name) {
  try {
    return ToTensor(output);
  } catch (const std::bad_alloc&) {
    throw CommandError(kSystemFailure, "output '" + name + "' takes " +
                                           std::to_string(output.size_bytes) +
                                           " bytes, more than this machine gives");
  }
}

// What a run with --compile-shapes compiled for its sizes, or took from the cache; nothing where no
// size was open. Such a run takes that time, too.
std::optional<double> CompileSecondsOfSizes(const hy::Program& program) {
  const Json report = Json::parse(program.Report(HY_REPORT_PHASES, HY_FORMAT_JSON));
  std::optional<double> seconds;
  for (const Json& one : report.at("compiled_for_sizes"))
    seconds = seconds.value_or(0) + one.at("seconds").get<double>();
  return seconds;
}

int RunOpened(const RunArguments& options, const Model& model, double open_seconds) {
  KeepFilesApart(options, model.program.Io(HY_IO_OUTPUT).size());
  RefuseOtherExpectations(options, model.program.Io(HY_IO_OUTPUT).size());
  const Inputs inputs(model, options.model, options.inputs);
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  if (options.compile_shapes) desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const hy::Session session = hy::Session::Create(model.program, &desc);
  std::vector<hy_tensor> calls;
  for (const Tensor& tensor : inputs.tensors()) calls.push_back(ToCall(tensor));
  const std::vector<hy_tensor_info> infos = model.program.Io(HY_IO_OUTPUT);
  const hy_tensor empty = HY_TENSOR_INIT;
  std::vector<hy_tensor> outputs(infos.size(), empty);
  const auto run_start = std::chrono::steady_clock::now();
  session.Run(calls, outputs);
  double run_seconds = SecondsSince(run_start);
  const std::optional<double> sizes_seconds = CompileSecondsOfSizes(model.program);
  run_seconds = std::max(0.0, run_seconds - sizes_seconds.value_or(0));

  Json json;
  json["model"] = options.model.model;
  json["opened"] = HowOpened(model);
  json["open_seconds"] = open_seconds;
  if (sizes_seconds) json["sizes_open_seconds"] = *sizes_seconds;
  json["run_seconds"] = run_seconds;
  const std::vector<std::string> devices = PlacementOf(model.program).working;
  json["devices"] = devices;
  json["outputs"] = Json::array();
  if (!options.output_dir.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(options.output_dir, failure);
    if (failure || !std::filesystem::is_directory(options.output_dir, failure)) {
      throw CommandError(kSystemFailure, options.output_dir + ": the folder cannot be made" +
                                             (failure ? ": " + failure.message() : ""));
    }
  }
  int status = kDone;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = hy::ToString(infos[i].name);
    const Tensor tensor = CopyOf(outputs[i], name);
    const std::string file = "/output_" + std::to_string(i) + ".npy";
    if (!options.output_dir.empty()) {
      WriteNpy(options.output_dir + file, tensor);
    }
    const Summary summary(tensor);
    const std::string summary_text = FormatSummary(tensor, summary);
    Json row = {{"name", name},
                {"dtype", std::string(FormatDType(static_cast<DType>(tensor.dtype)))},
                {"dims", tensor.dims},
                {"size_bytes", tensor.bytes.size()},
                {"summary", summary_text}};
    AddSummary(summary, &row);
    if (!options.output_dir.empty()) row["file"] = options.output_dir + file;
    std::string verdict;
    if (!options.expect_dir.empty()) {
      const Tensor expected = ReadTensor(options.expect_dir + file);
      const Comparison comparison = Compare(AsExpected(tensor, expected.dtype, options.model),
                                            expected, options.rtol, options.atol);
      row["is_equal"] = comparison.is_equal;
      if (!comparison.is_equal) row["difference"] = comparison.difference;
      row["max_absolute_error"] = comparison.max_absolute;
      row["max_relative_error"] = comparison.max_relative;
      char text[96];
      std::snprintf(text, sizeof(text), ", largest error %.3g absolute, %.3g relative",
                    comparison.max_absolute, comparison.max_relative);
      verdict = text;
      // A largest error says nothing of other shapes and of what is not a number.
      if (!comparison.is_equal && (comparison.max_absolute == 0 || !comparison.is_finite))
        verdict = "; it differs: " + comparison.difference;
      if (!comparison.is_equal) {
        status = kDiffers;
        PrintError(options.model.model + ": output '" + name + "': " + comparison.difference);
      }
    }
    json["outputs"].push_back(std::move(row));
    if (!options.model.json) {
      std::printf("output %s %s: %s%s\n", EscapeControls(name).c_str(),
                  FormatDims(tensor.dims.data(), tensor.dims.size()).c_str(), summary_text.c_str(),
                  verdict.c_str());
    }
  }
  if (options.model.json) {
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    // A program of constants alone has no device at work.
    const std::string where = devices.empty() ? "" : "on " + Join(devices, ", ") + " ";
    const std::string sizes =
        sizes_seconds ? ", for exactly these sizes in " + FormatSeconds(*sizes_seconds) : "";
    std::printf("%s in %s%s, ran %sin %s\n", HowOpened(model), FormatSeconds(open_seconds).c_str(),
                sizes.c_str(), where.c_str(), FormatSeconds(run_seconds).c_str());
  }
  return status;
}

int RunModel(const RunArguments& options) {
  const auto start = std::chrono::steady_clock::now();
  const Model model = OpenModel(options.model, true);
  const double open_seconds = SecondsSince(start);
  try {
    return RunOpened(options, model, open_seconds);
  } catch (const hy::Error& error) {
    throw WithFile(error, options.model.model);
  }
}

}  // namespace

Run AddRunCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Run a model once");
  auto options = std::make_shared<RunArguments>();
  AddModelOptions(*command, options->model);
  AddInputOptions(*command, options->inputs);
  command
      ->add_option("--output-dir", options->output_dir,
                   "Folder that receives output_0.npy, ...; made if it is not there")
      ->type_name("DIR");
  command
      ->add_option("--expect-dir", options->expect_dir,
                   "Folder of expected output_0.npy, ...; status 4 where an output differs; NaN "
                   "equals NaN only, an infinity itself")
      ->type_name("DIR");
  command->add_option("--rtol", options->rtol, "Relative tolerance of --expect-dir")
      ->check(IsTolerance)
      ->capture_default_str();
  command->add_option("--atol", options->atol, "Absolute tolerance of --expect-dir")
      ->check(IsTolerance)
      ->capture_default_str();
  options->model.for_models.push_back(
      command->add_flag("--compile-shapes", options->compile_shapes,
                        "Compile a program for exactly the sizes of the inputs"));
  return [options] { return RunModel(*options); };
}

}  // namespace halyard::tools
