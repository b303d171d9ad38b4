// SPDX-License-Identifier: Apache-2.0
// Runs folders of ONNX test cases (model.onnx and test_data_set_0/{input,output}_N.pb, the layout
// of ONNX's own node tests) through import and the interpreter and counts passed, failed and
// unsupported ones.
//
// usage: onnx_cases FOLDER [NAME_PART] [--list]. Exit status 1 when a case fails.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compiler/graph/interpreter.h"
#include "compiler/graph/tensor.h"
#include "compiler/graph/verifier.h"
#include "compiler/import/onnx_import.h"
#include "tools/tensor_file/tensor_file.h"

namespace halyard {
namespace {

enum class Outcome { kPassed, kFailed, kUnsupported };

// The tolerance of ONNX's own runner; bits must agree for integers and bools.
std::string Difference(const graph::Tensor& got, const graph::Tensor& wanted) {
  if (got.dtype != wanted.dtype) {
    return fmt::format("dtype {} for {}", FormatDType(got.dtype), FormatDType(wanted.dtype));
  }
  if (got.dims != wanted.dims) {
    return fmt::format("dims [{}] for [{}]", fmt::join(got.dims, ", "),
                       fmt::join(wanted.dims, ", "));
  }
  const double relative = got.dtype == DType::kBF16 ? 1e-2 : 1e-3;
  // Half a unit in the last place of narrow results may tip over.
  const double absolute = BitWidth(got.dtype) >= 32   ? 1e-7
                          : BitWidth(got.dtype) == 16 ? 1e-3
                                                      : 1e-2;
  for (int64_t i = 0; i < got.elements(); ++i) {
    if (!IsFloat(got.dtype)) {
      const int64_t a = graph::LoadInt(got, i), b = graph::LoadInt(wanted, i);
      if (a != b) return fmt::format("element {} is {} for {}", i, a, b);
      continue;
    }
    const double a = graph::LoadFloat(got, i), b = graph::LoadFloat(wanted, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a != b && !(std::abs(a - b) <= absolute + relative * std::abs(b))) {
      return fmt::format("element {} is {} for {}", i, a, b);
    }
  }
  return "";
}

Result<std::vector<graph::Tensor>> ReadSeries(const std::filesystem::path& folder,
                                              std::string_view kind) {
  std::vector<graph::Tensor> tensors;
  for (int i = 0;; ++i) {
    const auto path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!std::filesystem::exists(path)) return tensors;
    HY_ASSIGN(graph::Tensor tensor, tensor_file::ReadTensorFile(path.string()));
    tensors.push_back(std::move(tensor));
  }
}

Outcome RunCase(const std::filesystem::path& folder, std::string& reason) {
  auto module = onnx::ImportOnnxFile((folder / "model.onnx").string());
  if (!module.ok()) {
    reason = module.status().message().substr(folder.string().size() + 13);
    return module.status().code() == StatusCode::kUnimplemented ? Outcome::kUnsupported
                                                                : Outcome::kFailed;
  }
  if (const Status verified = graph::VerifyModule(*module); !verified.ok()) {
    reason = verified.ToLine();
    return Outcome::kFailed;
  }
  for (const auto& set : std::filesystem::directory_iterator(folder)) {
    if (!set.is_directory()) continue;
    const auto inputs = ReadSeries(set.path(), "input");
    const auto wanted = ReadSeries(set.path(), "output");
    for (const Status& status : {inputs.status(), wanted.status()}) {
      if (status.ok()) continue;
      reason = status.message();
      return status.code() == StatusCode::kUnimplemented ? Outcome::kUnsupported : Outcome::kFailed;
    }
    const auto got = graph::Interpret(*module, *inputs);
    if (!got.ok()) {
      reason = got.status().ToLine();
      return got.status().code() == StatusCode::kUnimplemented ? Outcome::kUnsupported
                                                               : Outcome::kFailed;
    }
    if (got->size() != wanted->size()) {
      reason = fmt::format("{} outputs for {}", got->size(), wanted->size());
      return Outcome::kFailed;
    }
    for (size_t i = 0; i < got->size(); ++i) {
      const std::string difference = Difference((*got)[i], (*wanted)[i]);
      if (difference.empty()) continue;
      reason = fmt::format("output {}: {}", i, difference);
      return Outcome::kFailed;
    }
  }
  return Outcome::kPassed;
}

int Main(int argc, char** argv) {
  std::string root, part;
  bool lists = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      lists = true;
    } else {
      (root.empty() ? root : part) = argument;
    }
  }
  if (root.empty()) {
    std::fputs("usage: onnx_cases FOLDER [NAME_PART] [--list]\n", stderr);
    return 2;
  }
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "model.onnx" &&
        entry.path().parent_path().filename().string().find(part) != std::string::npos) {
      cases.push_back(entry.path().parent_path());
    }
  }
  std::sort(cases.begin(), cases.end());
  std::map<Outcome, int> counts;
  for (const auto& folder : cases) {
    std::string reason;
    const Outcome outcome = RunCase(folder, reason);
    ++counts[outcome];
    const char* names[] = {"passed", "FAILED", "unsupported"};
    if (lists || outcome == Outcome::kFailed) {
      std::printf("%-11s %s%s%s\n", names[static_cast<int>(outcome)], folder.filename().c_str(),
                  reason.empty() ? "" : ": ", reason.c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%d passed, %d failed, %d unsupported of %zu cases\n", counts[Outcome::kPassed],
              counts[Outcome::kFailed], counts[Outcome::kUnsupported], cases.size());
  return counts[Outcome::kFailed] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) { return halyard::Main(argc, argv); }
