// SPDX-License-Identifier: Apache-2.0
// halyard explain: placement, fusion groups, schedules, memory and phases of a model.
#include <cstdio>

#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

struct Options {
  ModelOptions model;
  bool dot = false;
  bool commands = false;
};

int Explain(const Options& options) {
  const Model model = OpenModel(options.model, true);
  std::string text;
  if (options.dot)
    text = model.program.Report(HY_REPORT_ALL, HY_FORMAT_DOT);
  else if (options.commands)
    text = model.program.Report(HY_REPORT_COMMANDS, HY_FORMAT_TEXT);
  else
    text =
        model.program.Report(HY_REPORT_ALL, options.model.json ? HY_FORMAT_JSON : HY_FORMAT_TEXT);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace

Run AddExplainCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Show placement, fusion groups, schedules and memory of a model");
  auto options = std::make_shared<Options>();
  AddModelOptions(*command, options->model);
  command->add_flag("--dot", options->dot, "Write a DOT graph of the dispatches");
  command->add_flag("--commands", options->commands, "Write the program itself as text");
  return [options] { return Explain(*options); };
}

}  // namespace halyard::tools
