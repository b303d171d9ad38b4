// SPDX-License-Identifier: Apache-2.0
// libFuzzer target of the text parsers of all four levels. The first line names the level, as in
// the files that HALYARD_DUMP writes. Any text is parsed or refused with one sentence; what its
// verifier accepts is printed, and printed again after parsing that.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "compiler/graph/constants.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/printer.h"
#include "compiler/graph/verifier.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/program/program.h"

using namespace halyard;  // NOLINT: a test

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void RequireSentence(const Status& status) {
  Require(!status.message().empty() && status.ToLine().find('\n') == std::string::npos);
}

void TryGraph(std::string_view text) {
  auto module = graph::ParseModule(text);
  if (!module.ok()) return RequireSentence(module.status());
  Require(graph::VerifyModule(*module).ok());
  const std::string printed = graph::PrintModule(*module);
  auto again = graph::ParseModule(printed);
  Require(again.ok() && graph::PrintModule(*again) == printed);
}

void TryLoop(std::string_view text) {
  ExprArena exprs;
  const auto function = loop::ParseFunction(text, exprs);
  if (!function.ok()) return RequireSentence(function.status());
  if (const Status status = loop::VerifyFunction(*function); !status.ok()) {
    return RequireSentence(status);
  }
  const std::string printed = loop::PrintFunction(*function);
  ExprArena more_exprs;
  const auto again = loop::ParseFunction(printed, more_exprs);
  Require(again.ok() && loop::PrintFunction(*again) == printed);
}

void TryKernel(std::string_view text) {
  const auto module = kernel::ParseModule(text);
  if (!module.ok()) return RequireSentence(module.status());
  if (const Status status = kernel::VerifyModule(*module); !status.ok()) {
    return RequireSentence(status);
  }
  const std::string printed = kernel::FormatModule(*module);
  const auto again = kernel::ParseModule(printed);
  Require(again.ok() && kernel::FormatModule(*again) == printed);
}

void TryProgram(std::string_view text) {
  const auto parsed = program::Parse(text);
  if (!parsed.ok()) return RequireSentence(parsed.status());
  program::VerifyTables(*parsed).Ignore();
  const std::string printed = program::Format(*parsed);
  const auto again = program::Parse(printed);
  Require(again.ok() && program::Format(*again) == printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view first_line = text.substr(0, text.find('\n'));
  if (first_line == "// level: graph") TryGraph(text);
  if (first_line == "// level: loop") TryLoop(text);
  if (first_line == "// level: kernel") TryKernel(text);
  if (first_line == "// level: program") TryProgram(text);
  return 0;
}
