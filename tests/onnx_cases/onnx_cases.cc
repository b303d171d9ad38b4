// SPDX-License-Identifier: Apache-2.0
// Runs folders of ONNX test cases (model.onnx and test_data_set_N/{input,output}_M.pb, the layout
// of ONNX's own node tests, which write_cases.py makes) through import and the interpreter.
//
// A case that import refuses is tried once more with its inputs as constants of the model: the node
// tests give as inputs what exporters write as constants, such as axes and shapes.
//
// usage: onnx_cases FOLDER [NAME_PART] [--list] [--expect FILE]. With a file, exit status 1 when
// the outcomes are not those that it lists (HALYARD_BLESS=1 writes it); without, when a case fails.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/env.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/tensor.h"
#include "compiler/graph/verifier.h"
#include "compiler/import/onnx_import.h"
#include "tools/tensor_file/tensor_file.h"

namespace halyard {
namespace {

enum class Outcome { kPassed, kConstant, kFailed, kRefused };
constexpr const char* kOutcomeNames[] = {"passed", "constant", "FAILED", "refused"};

// About the tolerance of ONNX's own runner; bits must agree for integers and bools.
std::string Difference(const graph::Tensor& got, const graph::Tensor& wanted) {
  if (got.dtype != wanted.dtype) {
    return fmt::format("dtype {} for {}", FormatDType(got.dtype), FormatDType(wanted.dtype));
  }
  if (got.dims != wanted.dims) {
    return fmt::format("dims [{}] for [{}]", fmt::join(got.dims, ", "),
                       fmt::join(wanted.dims, ", "));
  }
  // Four units in the last place of bf16: the expanded functions round after every step.
  const double relative = got.dtype == DType::kBF16 ? 0x1p-6 : 1e-3;
  // Sums of values near 1 that cancel; half a unit in the last place of narrow results may tip
  // over.
  const double absolute = BitWidth(got.dtype) >= 32   ? 1e-6
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

std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A length-delimited field of a protobuf message.
std::string Field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>((number << 3) | 2));
  size_t length = bytes.size();
  for (; length >= 128; length >>= 7) out += static_cast<char>((length & 127) | 128);
  return out + static_cast<char>(length) + bytes;
}

// The model with the inputs of a data set as initialisers (field 5 of the graph, which is field 7).
// Messages one after the other are merged, as protobuf does.
std::string WithConstants(std::string model, const std::filesystem::path& set) {
  for (int i = 0;; ++i) {
    const auto path = set / fmt::format("input_{}.pb", i);
    if (!std::filesystem::exists(path)) return model;
    model += Field(7, Field(5, ReadBytes(path)));
  }
}

Outcome OutcomeOf(const Status& status, std::string& reason) {
  reason = status.ToLine();
  return status.code() == StatusCode::kUnimplemented ? Outcome::kRefused : Outcome::kFailed;
}

Outcome RunModel(const std::string& bytes, std::span<const graph::Tensor> inputs,
                 std::span<const graph::Tensor> wanted, std::string& reason, bool& is_imported) {
  auto module =
      onnx::ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, {},
                            nullptr, nullptr, "model");
  is_imported = module.ok();
  if (!module.ok()) {
    const Outcome outcome = OutcomeOf(module.status(), reason);
    reason.erase(0, std::string_view("model: ").size());
    return outcome;
  }
  if (const Status verified = graph::VerifyModule(*module); !verified.ok()) {
    return OutcomeOf(verified, reason);
  }
  const auto got = graph::Interpret(*module, inputs);
  if (!got.ok()) return OutcomeOf(got.status(), reason);
  if (got->size() != wanted.size()) {
    reason = fmt::format("{} outputs for {}", got->size(), wanted.size());
    return Outcome::kFailed;
  }
  for (size_t i = 0; i < got->size(); ++i) {
    const std::string difference = Difference((*got)[i], wanted[i]);
    if (difference.empty()) continue;
    reason = fmt::format("output {}: {}", i, difference);
    return Outcome::kFailed;
  }
  return Outcome::kPassed;
}

Outcome RunCase(const std::filesystem::path& folder, std::string& reason) {
  const std::string model = ReadBytes(folder / "model.onnx");
  Outcome worst = Outcome::kPassed;
  for (int i = 0;; ++i) {
    const auto set = folder / fmt::format("test_data_set_{}", i);
    if (!std::filesystem::exists(set)) return worst;
    const auto inputs = ReadSeries(set, "input");
    const auto wanted = ReadSeries(set, "output");
    std::vector<graph::Tensor> none;
    bool is_imported = false;
    Outcome outcome = RunModel(model, inputs.ok() ? *inputs : none, wanted.ok() ? *wanted : none,
                               reason, is_imported);
    if (!is_imported && inputs.ok() && wanted.ok()) {
      reason.clear();
      outcome = RunModel(WithConstants(model, set), none, *wanted, reason, is_imported);
      if (outcome == Outcome::kPassed) outcome = Outcome::kConstant;
    }
    worst = std::max(worst, outcome);
    if (outcome == Outcome::kFailed || outcome == Outcome::kRefused) return outcome;
  }
}

// Prints what differs between the lines of a file and those of this run.
int Compare(const std::string& path, const std::vector<std::string>& lines) {
  std::vector<std::string> expected;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) expected.push_back(line);
  if (expected == lines) return 0;
  for (const std::string& line : expected) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      std::printf("- %s\n", line.c_str());
    }
  }
  for (const std::string& line : lines) {
    if (std::find(expected.begin(), expected.end(), line) == expected.end()) {
      std::printf("+ %s\n", line.c_str());
    }
  }
  std::printf("The outcomes are not those of %s; HALYARD_BLESS=1 rewrites it.\n", path.c_str());
  return 1;
}

int Main(int argc, char** argv) {
  std::string root, part, expect;
  bool lists = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      lists = true;
    } else if (argument == "--expect" && i + 1 < argc) {
      expect = argv[++i];
    } else {
      (root.empty() ? root : part) = argument;
    }
  }
  if (root.empty()) {
    std::fputs("usage: onnx_cases FOLDER [NAME_PART] [--list] [--expect FILE]\n", stderr);
    return 2;
  }
  std::vector<std::filesystem::path> cases;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(root, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::filesystem::path& file = entry->path();
    if (file.filename() == "model.onnx" &&
        file.parent_path().filename().string().find(part) != std::string::npos) {
      cases.push_back(file.parent_path());
    }
  }
  if (error || cases.empty()) {
    std::fprintf(
        stderr, "onnx_cases: %s: %s\n", root.c_str(),
        error ? error.message().c_str() : "there is no such case; write_cases.py writes them");
    return 2;
  }
  std::sort(cases.begin(), cases.end());
  std::map<Outcome, int> counts;
  std::vector<std::string> lines;
  for (const auto& folder : cases) {
    std::string reason;
    const Outcome outcome = RunCase(folder, reason);
    ++counts[outcome];
    lines.push_back(fmt::format("{} {}{}{}", kOutcomeNames[static_cast<int>(outcome)],
                                folder.filename().string(), reason.empty() ? "" : ": ", reason));
    if (lists || (expect.empty() && outcome == Outcome::kFailed)) {
      std::printf("%s\n", lines.back().c_str());
      std::fflush(stdout);
    }
  }
  lines.insert(
      lines.begin(),
      fmt::format("{} passed, {} more with their inputs as constants, {} failed, {} refused "
                  "of {} cases",
                  counts[Outcome::kPassed], counts[Outcome::kConstant], counts[Outcome::kFailed],
                  counts[Outcome::kRefused], cases.size()));
  std::printf("%s\n", lines[0].c_str());
  if (expect.empty()) return counts[Outcome::kFailed] == 0 ? 0 : 1;
  if (EnvFlag(EnvVar::kBless)) {
    std::ofstream file(expect);
    for (const std::string& line : lines) file << line << "\n";
    return file.flush() ? 0 : 2;
  }
  return Compare(expect, lines);
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) { return halyard::Main(argc, argv); }
