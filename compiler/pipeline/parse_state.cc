// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/parse_state.h"

#include "compiler/graph/constants.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/verifier.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

namespace halyard::pipeline {
namespace {

constexpr std::string_view kHead = "// level: ";

Result<Level> LevelOf(std::string_view text) {
  if (text.substr(0, kHead.size()) == kHead) {
    const std::string_view name = text.substr(kHead.size(), text.find('\n') - kHead.size());
    if (name == "graph") return Level::kGraph;
    if (name == "loop") return Level::kLoop;
    if (name == "kernel") return Level::kKernel;
    if (name == "program") return Level::kProgram;
    return InvalidArgument(
        "The text is at level '{}'; the levels are graph, loop, kernel and program.", name);
  }
  return InvalidArgument("The text does not begin with '{}' and the name of a level.", kHead);
}

Result<std::shared_ptr<const graph::ByteSource>> NoBytes(uint64_t hash, DType dtype,
                                                         const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(elements, dim, &elements)) elements = -1;
  }
  HY_ASSIGN(const int64_t bytes, StorageBytes(dtype, elements));
  return graph::MissingBytes(fmt::format("constant {:016x}", hash), bytes);
}

}  // namespace

Status ParseState(std::string_view text, const Target& target, CompileState* state) {
  HY_ASSIGN(state->level, LevelOf(text));
  state->program.devices = {{"cpu:0", target, ""}};
  switch (state->level) {
    case Level::kGraph: {
      HY_ASSIGN(state->module, graph::ParseModule(text, NoBytes));
      return graph::VerifyModule(state->module);
    }
    case Level::kLoop: {
      Segment segment;
      HY_ASSIGN(segment.function, loop::ParseFunction(text, state->module.exprs));
      HY_TRY(loop::VerifyFunction(segment.function));
      state->segments.push_back(std::move(segment));
      return OkStatus();
    }
    case Level::kKernel: {
      HY_ASSIGN(kernel::Module module, kernel::ParseModule(text));
      Segment segment;
      for (kernel::Kernel& code : module.kernels) {
        HY_TRY(kernel::VerifyKernel(code));
        schedule::ScheduledKernel& scheduled = segment.kernels.emplace_back();
        scheduled.kernels.push_back(std::move(code));
      }
      state->segments.push_back(std::move(segment));
      return OkStatus();
    }
    case Level::kProgram: {
      HY_ASSIGN(state->program, program::Parse(text));
      return program::VerifyTables(state->program);
    }
  }
  return Internal("The text is at no level.");
}

}  // namespace halyard::pipeline
