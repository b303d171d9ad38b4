// SPDX-License-Identifier: Apache-2.0
// Damaged models, end to end: every one of COUNT mutants of the digits model, MiniLM and
// MobileNetV2 is imported, with its shapes inferred, and verified, or refused with one line; of
// those that pass, one in EVERY (all of the digits model) is compiled and run through the C
// interface. What fails must be a fault of the model by its result, which is what gives the
// command's exit status 2; and nothing may ask for more than 1 GiB at once. Weights are zeros in a
// sparse file. The file being worked on stays in the folder when the program dies.
//
// usage: mutate_models SOURCE_FOLDER WORK_FOLDER FIRST COUNT EVERY
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <halyard.hpp>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "compiler/graph/verifier.h"
#include "compiler/import/onnx_import.h"
#include "tests/bad_input/model_mutator.h"
#include "tests/heap_watch.h"

namespace halyard {
namespace {

constexpr size_t kLargestAllocation = size_t{1} << 30;
// Runs that honestly need more are left out.
constexpr int64_t kRunBytes = int64_t{256} << 20;

struct Source {
  std::string name, path;
  int64_t weight_bytes = 0;  // of weights.bin
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool IsFaultOfTheModel(hy_result code) {
  const std::set<hy_result> codes = {HY_INVALID_ARGUMENT, HY_NOT_FOUND, HY_OUT_OF_RANGE,
                                     HY_UNIMPLEMENTED};
  return codes.count(code) == 1;
}

class Mutants {
 public:
  explicit Mutants(std::string folder) : folder_(std::move(folder)) {
    hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
    desc.cache_folder = HY_STRING("off");
    instance_ = hy::Instance::Create(&desc);
  }

  void Try(const Source& source, const ModelMutator& mutator, uint64_t seed, bool may_run) {
    name_ = source.name + " " + std::to_string(seed);
    const std::string path = folder_ + "/" + source.name + "/mutant.onnx";
    std::ofstream(path, std::ios::binary) << mutator.Mutate(seed);
    ForgetLargestAllocation();
    auto module = onnx::ImportOnnxFile(path);
    if (!module.ok()) {
      ++refused_;
      Judge(static_cast<hy_result>(module.status().code()), module.status().ToLine());
    } else {
      ++imported_;
      const Status verified = graph::VerifyModule(*module);
      if (!verified.ok()) Complain("does not verify: " + verified.ToLine());
      if (may_run) CompileAndRun(path);
    }
    if (LargestAllocation() > kLargestAllocation) {
      Complain("asked for " + std::to_string(LargestAllocation()) + " bytes at once");
    }
  }

  int faults() const { return faults_; }
  void PrintSummary() const {
    std::printf("%d refused, %d imported, %d compiled, %d run, %d faults\n", refused_, imported_,
                compiled_, run_, faults_);
  }
  int imported() const { return imported_; }
  int refused() const { return refused_; }
  int run() const { return run_; }

 private:
  void Complain(const std::string& what) {
    ++faults_;
    std::printf("%s: %s\n", name_.c_str(), what.c_str());
    const std::string from = folder_ + "/" + name_.substr(0, name_.find(' ')) + "/mutant.onnx";
    std::filesystem::copy_file(from, folder_ + "/fault" + std::to_string(faults_) + ".onnx",
                               std::filesystem::copy_options::overwrite_existing);
  }

  void Judge(hy_result code, const std::string& line) {
    if (line.empty() || line.find('\n') != std::string::npos || !IsFaultOfTheModel(code)) {
      Complain(hy::ToString(hy_result_name(code)) + ": " + line);
    }
  }

  void CompileAndRun(const std::string& path) {
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    desc.disable_tuning = 1;
    try {
      const auto program = hy::Program::Compile(instance_, desc);
      ++compiled_;
      Run(program);
    } catch (const hy::Error& error) {
      Judge(error.code(), error.what());
    }
  }

  void Run(const hy::Program& program) {
    std::vector<hy_symbol_value> symbols;
    std::map<std::string, int64_t> values;
    for (const hy_symbol_info& info : program.Symbols()) {
      int64_t value = 1 + static_cast<int64_t>(imported_ % 2);
      if (value < info.min) value = info.min;
      if (value > info.max) value = info.max;
      value -= value % info.multiple_of;
      if (value < info.min) value += info.multiple_of;
      values[hy::ToString(info.name)] = value;
      symbols.push_back({info.name, value});
    }
    int64_t bytes = 0;
    for (const hy_memory_info& info : program.Memory(symbols)) {
      bytes += info.activation_bytes + info.io_bytes;
    }
    if (bytes > kRunBytes) return;
    std::vector<std::vector<uint8_t>> storage;
    std::vector<hy_tensor> inputs;
    for (const hy_tensor_info& info : program.Io(HY_IO_INPUT)) {
      hy_tensor tensor = HY_TENSOR_INIT;
      tensor.dtype = info.dtype;
      tensor.rank = info.rank;
      int64_t elements = 1;
      const std::vector<std::string> names = DimNames(hy::ToString(info.shape));
      for (uint32_t d = 0; d < info.rank; ++d) {
        tensor.dims[d] = info.dims[d];
        if (info.dims[d] < 0) {
          if (names.size() != info.rank || values.count(names[d]) == 0) return;
          tensor.dims[d] = values[names[d]];
        }
        elements *= tensor.dims[d];
      }
      tensor.size_bytes = static_cast<size_t>(elements) * 8;  // at least what any dtype needs
      storage.emplace_back(tensor.size_bytes + 64, uint8_t{1});
      tensor.data = storage.back().data();
      inputs.push_back(tensor);
    }
    const hy_tensor empty = HY_TENSOR_INIT;
    std::vector<hy_tensor> outputs(program.Io(HY_IO_OUTPUT).size(), empty);
    hy::Session::Create(program).Run(inputs, outputs);
    ++run_;
  }

  static std::vector<std::string> DimNames(const std::string& shape) {
    std::vector<std::string> names;
    for (size_t at = 0; at < shape.size();) {
      const size_t comma = std::min(shape.find(", ", at), shape.size());
      names.push_back(shape.substr(at, comma - at));
      at = comma + 2;
    }
    return names;
  }

  const std::string folder_;
  hy::Instance instance_;
  std::string name_;
  int imported_ = 0, refused_ = 0, compiled_ = 0, run_ = 0, faults_ = 0;
};

int Main(char** argv) {
  const std::string sources_folder = argv[1], work = argv[2];
  const uint64_t first = std::strtoull(argv[3], nullptr, 10);
  const uint64_t count = std::strtoull(argv[4], nullptr, 10);
  const uint64_t every = std::strtoull(argv[5], nullptr, 10);
  const Source sources[] = {
      {"digits", sources_folder + "/examples/digits/digits.onnx", 0},
      {"minilm", sources_folder + "/tests/models/minilm_dynamo/model.onnx", 90261504},
      {"mobilenetv2", sources_folder + "/tests/models/mobilenetv2_dynamo/model.onnx", 13949376},
  };
  std::vector<ModelMutator> mutators;
  for (const Source& source : sources) {
    const std::string folder = work + "/" + source.name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/weights.bin").flush();
    std::filesystem::resize_file(folder + "/weights.bin",
                                 static_cast<uintmax_t>(source.weight_bytes));
    const std::string model = ReadFile(source.path);
    mutators.emplace_back(model);
    if (model.empty() || mutators.back().Unchanged() != model) {
      std::printf("%s is not written again as it was read\n", source.path.c_str());
      return 1;
    }
  }
  Mutants mutants(work);
  for (uint64_t i = first; i < first + count; ++i) {
    const size_t which = i % std::size(sources);
    const bool may_run = which == 0 || (i / std::size(sources)) % every == 0;
    mutants.Try(sources[which], mutators[which], i, may_run);
  }
  mutants.PrintSummary();
  // The mutants must reach every stage.
  const bool is_broad = mutants.imported() * 10 > static_cast<int>(count) &&
                        mutants.refused() * 10 > static_cast<int>(count) && mutants.run() > 0;
  if (!is_broad) std::printf("too few mutants reach a stage\n");
  return mutants.faults() == 0 && is_broad ? 0 : 1;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: mutate_models SOURCE_FOLDER WORK_FOLDER FIRST COUNT EVERY\n");
    return 2;
  }
  return halyard::Main(argv);
}
