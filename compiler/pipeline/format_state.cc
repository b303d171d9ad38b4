// SPDX-License-Identifier: Apache-2.0
// The text of a CompileState at its current level.
#include "compiler/graph/printer.h"
#include "compiler/kernel/text.h"
#include "compiler/loop/text.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

Result<std::string> FormatState(const CompileState& state) {
  switch (state.level) {
    case Level::kGraph:
      return "// level: graph\n" + graph::PrintModule(state.module);
    case Level::kLoop: {
      std::string text = "// level: loop\n";
      for (const Segment& segment : state.segments) {
        if (!segment.is_interpreted) text += loop::PrintFunction(segment.function);
      }
      return text;
    }
    case Level::kKernel: {
      std::string text = "// level: kernel\n";
      for (const Segment& segment : state.segments) {
        for (const schedule::ScheduledKernel& scheduled : segment.kernels) {
          text += "// schedule: " + schedule::FormatSchedule(scheduled.record) + "\n";
          for (const kernel::Kernel& code : scheduled.kernels) text += kernel::FormatKernel(code);
        }
      }
      return text;
    }
    case Level::kProgram:
      return "// level: program\n" + program::Format(state.program);
  }
  return Internal("The compile state is at no level.");
}

}  // namespace halyard::pipeline
