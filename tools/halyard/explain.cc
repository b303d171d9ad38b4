// SPDX-License-Identifier: Apache-2.0
// halyard explain: placement, fusion groups, schedules, memory and phases of a model.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainArguments {
  ModelOptions model;
  bool dot = false;
  bool html = false;
  bool commands = false;
  std::string node;
  std::string why_not;  // NODE=DEVICE
};

// That the device of --why-not exists: one of the program, or one of this machine.
void CheckDevice(const Model& model, const std::string& why_not, const std::string& device) {
  const Json report = Json::parse(model.program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_JSON));
  for (const Json& one : report["devices"]) {
    if (one["device"] == device) return;
  }
  const std::string option = "--why-not '" + why_not + "'";
  CheckDriver(model.instance, option, device);
  try {
    OpenNamed(model.instance, device);
  } catch (const MissingDevice& error) {
    throw CommandError(kSystemFailure, option + ": " + error.what());
  }
}

int Explain(const ExplainArguments& options) {
  std::string node, device;
  if (!options.why_not.empty()) {
    const size_t equals = FindEqualsBeforeDevice(options.why_not);
    if (equals == std::string::npos || equals == 0 || equals + 1 == options.why_not.size()) {
      throw CommandError(kWrongUsage,
                         "--why-not takes NODE=DEVICE; given was '" + options.why_not + "'.");
    }
    node = options.why_not.substr(0, equals);
    device = options.why_not.substr(equals + 1);
    if (device.find(':') == std::string::npos) device += ":0";  // as --device reads it
  }
  const Model model = OpenModel(options.model, true);
  if (model.is_saved && !options.model.shapes.empty()) {
    throw CommandError(
        kWrongUsage,
        options.model.model + " is a compiled program; --shape fixes sizes of models only");
  }
  if (!device.empty()) CheckDevice(model, options.why_not, device);
  std::string text;
  if (!options.node.empty() || !node.empty()) {
    text = model.program.ExplainNode(node.empty() ? options.node : node, device,
                                     options.model.json ? HY_FORMAT_JSON : HY_FORMAT_TEXT);
  } else if (options.dot) {
    text = model.program.Report(HY_REPORT_ALL, HY_FORMAT_DOT);
  } else if (options.html) {
    text = model.program.Report(HY_REPORT_ALL, HY_FORMAT_HTML);
  } else if (options.commands) {
    text = model.program.Report(HY_REPORT_COMMANDS, HY_FORMAT_TEXT);
  } else {
    text =
        model.program.Report(HY_REPORT_ALL, options.model.json ? HY_FORMAT_JSON : HY_FORMAT_TEXT);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace

Run AddExplainCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Show placement, fusion groups, schedules and memory of a model");
  auto options = std::make_shared<ExplainArguments>();
  AddModelOptions(*command, options->model);
  CLI::Option_group* what = command->add_option_group("What", "One of these instead of the report");
  what->add_flag("--dot", options->dot, "Write a DOT graph of the dispatches");
  what->add_flag("--html", options->html,
                 "Write one HTML page to standard output: table, order, memory, decisions");
  what->add_flag("--commands", options->commands, "Write the program itself as text");
  what->add_option("--node", options->node,
                   "Say what became of a node of the model: its name, a value that it makes, an op "
                   "such as Conv, or a dispatch of the report")
      ->type_name("NODE");
  what->add_option("--why-not", options->why_not,
                   "Say why NODE, named as for --node, does not run on DEVICE")
      ->type_name("NODE=DEVICE");
  what->require_option(0, 1);
  for (CLI::Option* other : what->get_options()) {
    const std::string name = other->get_name();
    if (name == "--dot" || name == "--html" || name == "--commands") {
      other->excludes(command->get_option("--json"));  // these have forms of their own
    }
  }
  return [options] { return Explain(*options); };
}

}  // namespace halyard::tools
