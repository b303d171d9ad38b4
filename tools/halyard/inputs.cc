// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/inputs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>

#include "base/dtype.h"
#include "base/near_names.h"
#include "base/quantity.h"

namespace halyard::tools {
namespace {

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

// Whether a file of --input-dir is most likely meant for an input. Folders of ONNX's tests hold the
// outputs too.
bool IsInputFile(const std::filesystem::path& path) {
  const bool is_tensor = path.extension() == ".npy" || path.extension() == ".pb";
  return is_tensor && !path.filename().string().starts_with("output_");
}

// Floats lie in [-1, 1), integers are 0 or 1: indices and masks that most models take.
void PutRandom(Tensor& tensor, uint64_t i, size_t width, std::mt19937_64& random) {
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

}  // namespace

Inputs::Inputs(const Model& model, const ModelOptions& model_options, const InputOptions& options)
    : infos_(model.program.Io(HY_IO_INPUT)) {
  tensors_.resize(infos_.size());
  const std::vector<hy_symbol_info> open = model.program.Symbols();
  for (const auto& [name, value] : ParseShapes(model_options.shapes)) {
    const bool is_known = std::any_of(
        open.begin(), open.end(),
        [&n = name](const hy_symbol_info& symbol) { return hy::ToString(symbol.name) == n; });
    // Sizes of a model were fixed, and their names checked, when it was compiled.
    if (!is_known && model.is_saved) {
      std::vector<std::string> names;
      for (const hy_symbol_info& symbol : open) names.push_back(hy::ToString(symbol.name));
      throw CommandError(kWrongUsage, "--shape: " + model_options.model + " has no open size '" +
                                          name + "'; its open sizes: " + NamesLike(name, names));
    }
    symbols_[name] = value;
  }
  ReadDirectory(options);
  ReadNamed(model_options.model, options);
  for (size_t i = 0; i < infos_.size() && model_options.io_precision == "fp16"; ++i) {
    if (tensors_[i].dtype == HY_DTYPE_F32 && infos_[i].dtype == HY_DTYPE_F16)
      tensors_[i] = ToF16(tensors_[i]);
  }
  BindGiven();
  for (const hy_symbol_info& symbol : open) SetDefault(symbol);
  std::mt19937_64 random(options.seed);
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (tensors_[i].dtype == HY_DTYPE_INVALID) MakeRandom(i, random);
  }
}

void Inputs::RefuseOthers(const std::string& folder, const std::set<std::string>& taken) const {
  std::set<std::string> others;  // the same one is named on every machine
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (IsInputFile(entry.path()) && !taken.contains(name)) others.insert(name);
  }
  if (others.empty()) return;
  throw CommandError(kBadModel, folder + "/" + *others.begin() +
                                    " is there, which no input takes; the model has " +
                                    Counted(infos_.size(), "input") +
                                    ", read from input_N.npy or "
                                    "input_N.pb, N from 0");
}

void Inputs::ReadDirectory(const InputOptions& options) {
  if (options.input_dir.empty()) return;
  if (!std::filesystem::is_directory(options.input_dir)) {
    throw CommandError(kBadModel, options.input_dir + ": there is no such folder");
  }
  bool is_any = infos_.empty();
  std::set<std::string> taken;  // names of files
  for (size_t i = 0; i < infos_.size(); ++i) {
    const std::string name = "input_" + std::to_string(i);
    for (const char* end : {".npy", ".pb"}) {
      const std::string path = options.input_dir + "/" + name + end;
      if (!std::filesystem::exists(path)) continue;
      taken.insert(name + end);
      if (tensors_[i].dtype != HY_DTYPE_INVALID) continue;
      tensors_[i] = ReadTensor(path);
      is_any = true;
    }
  }
  RefuseOthers(options.input_dir, taken);
  if (!is_any) {
    throw CommandError(kBadModel, options.input_dir + ": there is no input_0.npy or input_0.pb" +
                                      (infos_.size() == 1 ? ""
                                                          : ", nor one of another input up to " +
                                                                std::to_string(infos_.size() - 1)));
  }
}

void Inputs::ReadNamed(const std::string& model, const InputOptions& options) {
  std::set<std::string> given;
  for (const std::string& text : options.inputs) {
    const size_t at = text.find("=@");
    if (at == std::string::npos) {
      throw CommandError(kWrongUsage,
                         "--input '" + text + "' is not NAME=@FILE.npy, with '@' before the file");
    }
    if (at == 0 || at + 2 == text.size()) {
      throw CommandError(kWrongUsage, "--input '" + text + "' names no " +
                                          (at == 0 ? "input before '=@'" : "file after '@'"));
    }
    const std::string wanted = text.substr(0, at);
    if (!given.insert(wanted).second) {
      throw CommandError(kWrongUsage, "--input gives '" + wanted + "' twice");
    }
    bool is_known = false;
    for (size_t i = 0; i < infos_.size(); ++i) {
      if (name(i) != wanted) continue;
      tensors_[i] = ReadTensor(text.substr(at + 2));
      is_known = true;
    }
    if (is_known) continue;
    std::vector<std::string> names;
    for (size_t i = 0; i < infos_.size(); ++i) names.push_back(name(i));
    throw CommandError(kBadModel, model + ": there is no input '" + wanted +
                                      "'; its inputs: " + NamesLike(wanted, names));
  }
}

void Inputs::BindGiven() {
  const std::map<std::string, int64_t> shapes = symbols_;  // those of --shape

  for (size_t i = 0; i < infos_.size(); ++i) {
    const std::vector<std::string> names = DimNames(infos_[i]);
    if (tensors_[i].dtype == HY_DTYPE_INVALID || tensors_[i].dims.size() != names.size()) continue;
    for (size_t d = 0; d < names.size(); ++d) {
      if (const auto found = shapes.find(names[d]);
          found != shapes.end() && found->second != tensors_[i].dims[d]) {
        throw CommandError(kBadModel, "dimension " + std::to_string(d) + " of input '" + name(i) +
                                          "' is " + std::to_string(tensors_[i].dims[d]) +
                                          "; --shape says " + names[d] + "=" +
                                          std::to_string(found->second));
      }
      symbols_.emplace(names[d], tensors_[i].dims[d]);
    }
  }
}

void Inputs::SetDefault(const hy_symbol_info& symbol) {
  const int64_t least = std::max<int64_t>(symbol.min, 1);
  const int64_t rounded =
      (least + symbol.multiple_of - 1) / symbol.multiple_of * symbol.multiple_of;
  symbols_.emplace(hy::ToString(symbol.name), rounded);
}

void Inputs::MakeRandom(size_t index, std::mt19937_64& random) {
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
    throw CommandError(kBadModel, "input '" + name(index) + "' is " +
                                      std::string(FormatDType(static_cast<DType>(tensor.dtype))) +
                                      ", which has no random values; pass it with --input");
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

std::vector<NamedFile> FilesOf(const InputOptions& options) {
  std::vector<NamedFile> files;
  for (const std::string& text : options.inputs) {
    const size_t at = text.find("=@");
    if (at != std::string::npos) files.push_back({"the input", text.substr(at + 2)});
  }
  if (options.input_dir.empty()) return files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options.input_dir, error)) {
    if (IsInputFile(entry.path())) files.push_back({"the input", entry.path()});
  }
  return files;
}

void AddInputOptions(CLI::App& app, InputOptions& options) {
  app.add_option("--input", options.inputs, "An input by name, from a .npy or .pb file")
      ->type_name("NAME=@FILE")
      ->allow_extra_args(false);
  app.add_option("--input-dir", options.input_dir,
                 "Folder of input_0.npy (or .pb), input_1.npy, ...")
      ->type_name("DIR");
  app.add_option("--seed", options.seed, "Of the random values of inputs that are not given")
      ->transform(IsSeed())
      ->capture_default_str();
}

}  // namespace halyard::tools
