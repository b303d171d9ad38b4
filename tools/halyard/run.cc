// SPDX-License-Identifier: Apache-2.0
// halyard run: one run of a model on files or random inputs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <random>

#include "tools/halyard/command.h"
#include "tools/halyard/compare.h"
#include "tools/halyard/tensor_io.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ModelOptions model;
  std::vector<std::string> inputs;  // "NAME=@FILE.npy"
  std::string input_dir, output_dir, expect_dir;
  double rtol = 1e-4, atol = 1e-5;
  uint64_t seed = 1;
  bool compile_shapes = false;
};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The names of the dims of an input: "n, 3" becomes {"n", "3"}.
std::vector<std::string> DimNames(const hy_tensor_info& info) {
  const std::string text = hy::ToString(info.shape);
  std::vector<std::string> names;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (names.empty()) names.emplace_back();
    if (c == ',' && depth == 0)
      names.emplace_back();
    else if (c != ' ' || !names.back().empty())
      names.back() += c;
  }
  return names;
}

class Inputs {
 public:
  Inputs(const Model& model, const Options& options) : infos_(model.program.Io(HY_IO_INPUT)) {
    tensors_.resize(infos_.size());
    const std::vector<hy_symbol_info> open = model.program.Symbols();
    for (const auto& [name, value] : ParseShapes(options.model.shapes)) {
      const bool is_known = std::any_of(
          open.begin(), open.end(),
          [&n = name](const hy_symbol_info& symbol) { return hy::ToString(symbol.name) == n; });
      // Sizes of a model were fixed, and their names checked, when it was compiled.
      if (!is_known && model.is_saved) {
        std::string names;
        for (const hy_symbol_info& symbol : open) names += " " + hy::ToString(symbol.name);
        throw CommandError(kWrongUsage,
                           "--shape: " + options.model.model + " has no size '" + name +
                               "'; its sizes are:" + (names.empty() ? " none" : names));
      }
      symbols_[name] = value;
    }
    ReadDirectory(options);
    ReadNamed(options);
    BindGiven();
    for (const hy_symbol_info& symbol : open) SetDefault(symbol);
    std::mt19937_64 random(options.seed);
    for (size_t i = 0; i < infos_.size(); ++i) {
      if (tensors_[i].dtype == HY_DTYPE_INVALID) MakeRandom(i, random);
    }
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::string name(size_t i) const { return hy::ToString(infos_[i].name); }

 private:
  void ReadDirectory(const Options& options) {
    if (options.input_dir.empty()) return;
    for (size_t i = 0; i < infos_.size(); ++i) {
      const std::string path = options.input_dir + "/input_" + std::to_string(i);
      for (const char* end : {".npy", ".pb"}) {
        if (tensors_[i].dtype != HY_DTYPE_INVALID || !std::filesystem::exists(path + end)) continue;
        tensors_[i] = ReadTensor(path + end);
      }
    }
    if (!std::filesystem::is_directory(options.input_dir)) {
      throw CommandError(kBadModel, options.input_dir + ": there is no such folder");
    }
  }
  void ReadNamed(const Options& options) {
    for (const std::string& text : options.inputs) {
      const size_t at = text.find("=@");
      if (at == std::string::npos) {
        throw CommandError(kWrongUsage, "--input '" + text + "' is not NAME=@FILE.npy");
      }
      const std::string wanted = text.substr(0, at);
      bool is_known = false;
      for (size_t i = 0; i < infos_.size(); ++i) {
        if (name(i) != wanted) continue;
        tensors_[i] = ReadTensor(text.substr(at + 2));
        is_known = true;
      }
      if (!is_known)
        throw CommandError(kBadModel, options.model.model + ": there is no input '" + wanted + "'");
    }
  }
  void BindGiven() {
    for (size_t i = 0; i < infos_.size(); ++i) {
      const std::vector<std::string> names = DimNames(infos_[i]);
      if (tensors_[i].dtype == HY_DTYPE_INVALID || tensors_[i].dims.size() != names.size())
        continue;
      for (size_t d = 0; d < names.size(); ++d) symbols_.emplace(names[d], tensors_[i].dims[d]);
    }
  }
  void SetDefault(const hy_symbol_info& symbol) {
    const int64_t least = std::max<int64_t>(symbol.min, 1);
    const int64_t rounded =
        (least + symbol.multiple_of - 1) / symbol.multiple_of * symbol.multiple_of;
    symbols_.emplace(hy::ToString(symbol.name), rounded);
  }
  void MakeRandom(size_t index, std::mt19937_64& random) {
    const hy_tensor_info& info = infos_[index];
    const std::vector<std::string> names = DimNames(info);
    Tensor& tensor = tensors_[index];
    tensor.dtype = info.dtype;
    uint64_t count = 1;
    for (uint32_t d = 0; d < info.rank; ++d) {
      int64_t dim = info.dims[d];
      if (dim < 0) {
        const auto found = symbols_.find(names[d]);
        if (found == symbols_.end()) {
          throw CommandError(kBadModel, "input '" + name(index) + "' has the size " + names[d] +
                                            ", which no option gives; pass the input");
        }
        dim = found->second;
      }
      tensor.dims.push_back(dim);
      if (__builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count)) count = UINT64_MAX;
    }
    const size_t width = ElementBytes(tensor.dtype);
    if (width == 0) {
      throw CommandError(kBadModel,
                         "input '" + name(index) + "' has a dtype without random values");
    }
    if (count > (uint64_t{1} << 36) / width) {
      throw CommandError(kBadModel, "input '" + name(index) + "' of shape " +
                                        FormatDims(tensor.dims.data(), tensor.dims.size()) +
                                        " is too large");
    }
    try {
      tensor.bytes.resize(count * width);
    } catch (const std::bad_alloc&) {
      throw CommandError(kSystemFailure, "input '" + name(index) + "' of shape " +
                                             FormatDims(tensor.dims.data(), tensor.dims.size()) +
                                             " needs " + std::to_string(count * width) +
                                             " bytes, more than this machine gives");
    }
    for (uint64_t i = 0; i < count; ++i) PutRandom(tensor, i, width, random);
  }
  // Floats lie in [-1, 1), integers are 0 or 1: indices and masks that most models take.
  static void PutRandom(Tensor& tensor, uint64_t i, size_t width, std::mt19937_64& random) {
    const uint64_t bits = random();
    uint8_t* to = tensor.bytes.data() + i * width;
    const double unit = static_cast<double>(bits >> 40) / (1 << 23) - 1.0;
    if (tensor.dtype == HY_DTYPE_F32) {
      const auto value = static_cast<float>(unit);
      std::memcpy(to, &value, 4);
    } else if (tensor.dtype == HY_DTYPE_F64) {
      std::memcpy(to, &unit, 8);
    } else if (tensor.dtype == HY_DTYPE_BF16) {
      const auto value = static_cast<float>(unit);
      std::memcpy(to, reinterpret_cast<const uint8_t*>(&value) + 2, 2);
    } else if (tensor.dtype == HY_DTYPE_F16) {
      // A sign, and a magnitude in [0.5, 1).
      const auto value = static_cast<uint16_t>(0x3800 | (bits & 0x83ff));
      std::memcpy(to, &value, 2);
    } else {
      *to = static_cast<uint8_t>(bits >> 63);
    }
  }

  std::vector<hy_tensor_info> infos_;
  std::vector<Tensor> tensors_;
  std::map<std::string, int64_t> symbols_;
};

hy_tensor ToCall(const Tensor& tensor) {
  hy_tensor call = HY_TENSOR_INIT;
  call.dtype = tensor.dtype;
  call.rank = static_cast<uint32_t>(tensor.dims.size());
  std::copy(tensor.dims.begin(), tensor.dims.end(), call.dims);
  call.data = const_cast<uint8_t*>(tensor.bytes.data());
  call.size_bytes = tensor.bytes.size();
  return call;
}

Tensor ToTensor(const hy_tensor& call) {
  Tensor tensor;
  tensor.dtype = call.dtype;
  tensor.dims.assign(call.dims, call.dims + call.rank);
  const auto* bytes = static_cast<const uint8_t*>(call.data);
  if (call.size_bytes > 0) tensor.bytes.assign(bytes, bytes + call.size_bytes);
  return tensor;
}

// "min -1.2, max 3.4, mean 0.1"
std::string Summary(const Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.elements());
  if (count == 0 || ElementBytes(tensor.dtype) == 0) return "";
  double min = INFINITY, max = -INFINITY, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = ElementAsDouble(tensor, i);
    min = std::fmin(min, value);
    max = std::fmax(max, value);
    sum += value;
  }
  char text[96];
  std::snprintf(text, sizeof(text), "min %.6g, max %.6g, mean %.6g", min, max,
                sum / static_cast<double>(count));
  return text;
}

int RunModel(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Model model = OpenModel(options.model, true);
  const double open_seconds = SecondsSince(start);
  const Inputs inputs(model, options);
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  if (options.compile_shapes) desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const hy::Session session = hy::Session::Create(model.program, &desc);
  std::vector<hy_tensor> calls;
  for (const Tensor& tensor : inputs.tensors()) calls.push_back(ToCall(tensor));
  const std::vector<hy_tensor_info> infos = model.program.Io(HY_IO_OUTPUT);
  const hy_tensor empty = HY_TENSOR_INIT;
  std::vector<hy_tensor> outputs(infos.size(), empty);
  const auto run_start = std::chrono::steady_clock::now();
  try {
    session.Run(calls, outputs);
  } catch (const hy::Error& error) {
    throw WithFile(error, options.model.model);
  }
  const double run_seconds = SecondsSince(run_start);

  Json json;
  json["model"] = options.model.model;
  json["open_seconds"] = open_seconds;
  json["run_seconds"] = run_seconds;
  json["outputs"] = Json::array();
  if (!options.output_dir.empty()) std::filesystem::create_directories(options.output_dir);
  int status = kDone;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor tensor = ToTensor(outputs[i]);
    const std::string name = hy::ToString(infos[i].name);
    const std::string file = "/output_" + std::to_string(i) + ".npy";
    if (!options.output_dir.empty()) {
      WriteNpy(options.output_dir + file, tensor);
    }
    Json row = {{"name", name}, {"dims", tensor.dims}, {"summary", Summary(tensor)}};
    std::string verdict;
    if (!options.expect_dir.empty()) {
      const Comparison comparison =
          Compare(tensor, ReadTensor(options.expect_dir + file), options.rtol, options.atol);
      row["is_equal"] = comparison.is_equal;
      row["max_absolute_error"] = comparison.max_absolute;
      row["max_relative_error"] = comparison.max_relative;
      char text[96];
      std::snprintf(text, sizeof(text), " largest error %.3g absolute, %.3g relative",
                    comparison.max_absolute, comparison.max_relative);
      verdict = text;
      if (!comparison.is_equal) {
        status = kDiffers;
        std::fprintf(stderr, "halyard: error: %s: output '%s': %s\n", options.model.model.c_str(),
                     name.c_str(), comparison.difference.c_str());
      }
    }
    json["outputs"].push_back(std::move(row));
    if (!options.model.json) {
      std::printf("output %s %s: %s%s\n", name.c_str(),
                  FormatDims(tensor.dims.data(), tensor.dims.size()).c_str(),
                  Summary(tensor).c_str(), verdict.c_str());
    }
  }
  if (options.model.json) {
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::printf("compiled or loaded in %.1f ms, ran in %.3f ms\n", open_seconds * 1e3,
                run_seconds * 1e3);
  }
  return status;
}

}  // namespace

Run AddRunCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Run a model once");
  auto options = std::make_shared<Options>();
  AddModelOptions(*command, options->model);
  command->add_option("--input", options->inputs, "NAME=@FILE: an input by name, .npy or .pb")
      ->allow_extra_args(false);
  command->add_option("--input-dir", options->input_dir,
                      "Folder of input_0.npy (or .pb), input_1.npy, ...");
  command->add_option("--output-dir", options->output_dir,
                      "Folder that receives output_0.npy, ...");
  command->add_option("--expect-dir", options->expect_dir, "Folder of expected output_0.npy, ...");
  command->add_option("--rtol", options->rtol, "Relative tolerance of --expect-dir");
  command->add_option("--atol", options->atol, "Absolute tolerance of --expect-dir");
  command->add_option("--seed", options->seed, "Of the random values of inputs that are not given");
  command->add_flag("--compile-shapes", options->compile_shapes,
                    "Compile a program for exactly the sizes of the inputs");
  return [options] { return RunModel(*options); };
}

}  // namespace halyard::tools
