// SPDX-License-Identifier: Apache-2.0
// halyard explain: placement, fusion groups, schedules, memory and phases of a model.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ModelOptions model;
  bool dot = false;
  bool html = false;
  bool commands = false;
  std::string node;
  std::string why_not;  // NODE=DEVICE
};

// What became of a node: the texts of its records, such as "in dispatch 'conv1'"; several where it
// is computed again.
std::vector<std::string> FatesOf(const Json& report, const std::string& node) {
  std::vector<std::string> fates;
  for (const Json& record : report["nodes"]) {
    if (record["subject"] == node) fates.push_back(record["text"]);
  }
  if (!fates.empty()) return fates;
  throw CommandError(kBadModel,
                     "The model has no node '" + node +
                         "'; `halyard explain MODEL --json` lists them under \"nodes\".");
}

// The name between quotes in "in dispatch 'conv1'"; empty for other fates.
std::string DispatchOf(const std::string& fate) {
  constexpr std::string_view kStart = "in dispatch '";
  if (fate.compare(0, kStart.size(), kStart) != 0) return "";
  return fate.substr(kStart.size(), fate.size() - kStart.size() - 1);
}

std::string DeviceOf(const Json& report, const std::string& dispatch) {
  for (const Json& one : report["dispatches"]) {
    if (one["label"] == dispatch) return one["device"];
  }
  return "";
}

Json ExplainNode(const Json& report, const std::string& node) {
  Json out;
  out["node"] = node;
  const std::vector<std::string> fates = FatesOf(report, node);
  out["fate"] = fates;
  std::vector<std::string> names = {node};  // the node and its dispatches
  for (const std::string& fate : fates) {
    const std::string dispatch = DispatchOf(fate);
    if (dispatch.empty()) continue;
    names.push_back(dispatch);
    out["device"].push_back(DeviceOf(report, dispatch));
    for (const Json& record : report["nodes"]) {
      if (record["text"] == fate && record["subject"] != node) {
        out["together_with"].push_back(record["subject"]);
      }
    }
  }
  const auto add = [&](const char* list, const char* as) {
    for (const Json& record : report[list]) {
      const std::string text = record["text"], subject = record["subject"];
      if (std::find(names.begin(), names.end(), subject) != names.end() ||
          text.find("'" + node + "'") != std::string::npos) {
        out[as].push_back(text);
      }
    }
  };
  add("schedules", "schedule");
  add("fusion", "fusion");
  add("fallbacks", "fallback");
  return out;
}

void PrintNode(const Json& node) {
  for (const auto& [key, value] : node.items()) {
    if (value.is_array()) {
      for (const Json& line : value) {
        std::printf("%s: %s\n", key.c_str(), line.get<std::string>().c_str());
      }
    } else {
      std::printf("%s: %s\n", key.c_str(), value.get<std::string>().c_str());
    }
  }
}

// Why a node does not run on a device: a code that tools can rely on and a sentence.
Json WhyNot(const Json& report, const std::string& node, const std::string& device) {
  const std::vector<std::string> fates = FatesOf(report, node);
  Json out = {{"node", node}, {"device", device}};
  const auto answer = [&](const char* code, const std::string& text) {
    out["code"] = code;
    out["text"] = text;
    return out;
  };
  bool is_known = false;
  std::string known;
  for (const Json& one : report["devices"]) {
    is_known = is_known || one["device"] == device;
    known += (known.empty() ? "'" : ", '") + one["device"].get<std::string>() + "'";
  }
  for (const std::string& fate : fates) {
    const std::string dispatch = DispatchOf(fate);
    if (dispatch.empty() || DeviceOf(report, dispatch) != device) continue;
    return answer("RUNS_THERE",
                  "Node '" + node + "' runs on '" + device + "', in dispatch '" + dispatch + "'.");
  }
  const std::string& fate = fates.front();
  const std::string dispatch = DispatchOf(fate);
  if (fate.compare(0, 4, "gone") == 0) {
    return answer("COMPUTED_AT_COMPILE_TIME",
                  "Node '" + node + "' runs on no device; it is " + fate + ".");
  }
  if (!is_known) {
    return answer("NOT_ASKED_FOR",
                  "Device '" + device + "' is not among those named by --device (" + known + ").");
  }
  for (const Json& record : report["fallbacks"]) {
    if (record["subject"] == node) return answer("UNSUPPORTED_OP", record["text"]);
  }
  std::string reason;
  for (const Json& record : report["placement"]) reason = record["text"];
  return answer("PLACED_ELSEWHERE",
                "Node '" + node + "' runs on '" + DeviceOf(report, dispatch) + "'. " + reason);
}

int Explain(const Options& options) {
  std::string node, device;
  if (!options.why_not.empty()) {
    const size_t equals = options.why_not.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == options.why_not.size()) {
      throw CommandError(kWrongUsage,
                         "--why-not takes NODE=DEVICE; given was '" + options.why_not + "'.");
    }
    node = options.why_not.substr(0, equals);
    device = options.why_not.substr(equals + 1);
  }
  const Model model = OpenModel(options.model, true);
  if (!options.node.empty() || !node.empty()) {
    const Json report = Json::parse(model.program.Report(HY_REPORT_ALL, HY_FORMAT_JSON));
    const Json answer =
        node.empty() ? ExplainNode(report, options.node) : WhyNot(report, node, device);
    if (options.model.json) {
      std::printf("%s\n", answer.dump(2).c_str());
    } else if (node.empty()) {
      PrintNode(answer);
    } else {
      std::printf("%s: %s\n", answer["code"].get<std::string>().c_str(),
                  answer["text"].get<std::string>().c_str());
    }
    return kDone;
  }
  std::string text;
  if (options.dot)
    text = model.program.Report(HY_REPORT_ALL, HY_FORMAT_DOT);
  else if (options.html)
    text = model.program.Report(HY_REPORT_ALL, HY_FORMAT_HTML);
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
  CLI::Option_group* what = command->add_option_group("What", "One of these instead of the report");
  what->add_flag("--dot", options->dot, "Write a DOT graph of the dispatches");
  what->add_flag("--html", options->html, "Write one HTML page: table, order, memory, decisions");
  what->add_flag("--commands", options->commands, "Write the program itself as text");
  what->add_option("--node", options->node, "Say what became of this node of the model");
  what->add_option("--why-not", options->why_not, "Say why NODE does not run on DEVICE")
      ->type_name("NODE=DEVICE");
  what->require_option(0, 1);
  return [options] { return Explain(*options); };
}

}  // namespace halyard::tools
