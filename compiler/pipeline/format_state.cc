// SPDX-License-Identifier: Apache-2.0
// The text of a CompileState at its current level.
#include "compiler/graph/printer.h"
#include "compiler/kernel/text.h"
#include "compiler/loop/text.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

std::string_view FormatLevel(Level level) {
  switch (level) {
    case Level::kGraph:
      return "graph";
    case Level::kLoop:
      return "loop";
    case Level::kKernel:
      return "kernel";
    case Level::kProgram:
      return "program";
  }
  return "unknown";
}

Result<std::string> FormatState(const CompileState& state) {
  const std::string head = fmt::format("// level: {}\n", FormatLevel(state.level));
  switch (state.level) {
    case Level::kGraph: {
      // Segments share the values of the entry graph; they are named, not printed again.
      std::string text = head;
      for (const Segment& segment : state.segments) {
        text += fmt::format("// segment on {}: ", state.program.devices[segment.device].name);
        if (segment.is_interpreted) {
          text += "interprets " + state.module.nodes[segment.interpreted_node].name + "\n";
          continue;
        }
        text += fmt::format("{} nodes\n", state.module.graphs[segment.graph].nodes.size());
      }
      text += graph::PrintModule(state.module);
      return text;
    }
    case Level::kLoop: {
      std::string text = head;
      for (const Segment& segment : state.segments) {
        if (!segment.is_interpreted) text += loop::PrintFunction(segment.function);
      }
      return text;
    }
    case Level::kKernel: {
      std::string text = head;
      for (const Segment& segment : state.segments) {
        for (const schedule::ScheduledKernel& scheduled : segment.kernels) {
          text += "// schedule: " + schedule::FormatSchedule(scheduled.record) + "\n";
          for (const kernel::Kernel& code : scheduled.kernels) text += kernel::FormatKernel(code);
        }
      }
      return text;
    }
    case Level::kProgram:
      return head + program::Format(state.program);
  }
  return Internal("The compile state is at no level.");
}

}  // namespace halyard::pipeline
