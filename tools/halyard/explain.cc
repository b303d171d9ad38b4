// SPDX-License-Identifier: Apache-2.0
// halyard explain: placement, fusion groups, schedules, memory and phases of a model.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/escape_controls.h"
#include "base/near_names.h"
#include "base/quantity.h"
#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

// Names come from model files and need not be UTF-8.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

struct ExplainArguments {
  ModelOptions model;
  bool dot = false;
  bool html = false;
  bool commands = false;
  std::string node;
  std::string why_not;  // NODE=DEVICE
};

// What a fate begins with; of a node inside a loop or a branch more follows.
constexpr std::string_view kInterpreted = "in the interpreter";

// What became of a node: the texts of its records, such as "in dispatch 'conv1'"; several where it
// is computed again or in parts, none where nothing is known of it. The interpreter is first: it
// runs the op itself, and dispatches beside it what the op was given.
std::vector<std::string> FatesOf(const Json& report, const std::string& node) {
  std::vector<std::string> fates;
  for (const Json& record : report["nodes"]) {
    if (record["subject"] == node) fates.push_back(record["text"]);
  }
  std::stable_partition(fates.begin(), fates.end(),
                        [](const std::string& fate) { return fate.starts_with(kInterpreted); });
  return fates;
}

// The name between quotes in "in dispatch 'conv1'"; empty for other fates.
std::string DispatchOf(const std::string& fate) {
  constexpr std::string_view kStart = "in dispatch '";
  if (fate.compare(0, kStart.size(), kStart) != 0) return "";
  return fate.substr(kStart.size(), fate.size() - kStart.size() - 1);
}

// The nodes that a dispatch computes, in the order of the report.
std::vector<std::string> NodesOf(const Json& report, const std::string& dispatch) {
  std::vector<std::string> nodes;
  for (const Json& record : report["nodes"]) {
    if (DispatchOf(record["text"]) == dispatch) nodes.push_back(record["subject"]);
  }
  return nodes;
}

template <typename T>
void AddOnce(std::vector<T>& list, const std::type_identity_t<T>& one) {
  if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

// What a name that the user gave means: nodes, and what it is of them where it is not their name.
struct Meaning {
  std::vector<std::string> nodes;
  std::string what;  // "op", "value" or "dispatch"; empty: the name of a node
};

// In this order: the name of a node; a value, which its node makes; a dispatch, which is a group of
// nodes; an op, in ONNX's word, in any case of letters. Throws CommandError with the nearest names.
Meaning FindNodes(const Json& report, const std::string& name) {
  Meaning meaning;
  std::vector<std::string> known, ops;
  for (const Json& record : report["nodes"]) AddOnce(known, record["subject"]);
  for (const Json& source : report["sources"]) {
    AddOnce(known, source["node"]);
    AddOnce(ops, source["op"]);
  }
  if (std::find(known.begin(), known.end(), name) != known.end()) return {{name}, ""};
  for (const Json& source : report["sources"]) {
    for (const Json& output : source["outputs"]) {
      if (output == name) AddOnce(meaning.nodes, source["node"]);
    }
  }
  if (!meaning.nodes.empty()) return {meaning.nodes, "value"};
  for (const Json& entry : report.value("entries", Json::array())) {
    for (const Json& input : entry["inputs"]) {
      if (input["name"] != name) continue;
      throw CommandError(kBadModel, "'" + name + "' is an input of the model (" +
                                        input["dtype"].get<std::string>() +
                                        "), which no node makes; --node takes nodes and what they "
                                        "make");
    }
  }
  for (const Json& weight : report.value("weights", Json::array())) {
    if (weight["weight"] != name) continue;
    std::vector<std::string> readers = weight["readers"];
    std::string read;
    if (!readers.empty()) {
      read = "; " + NamesLike("", readers) + (readers.size() == 1 ? " reads it" : " read it");
    }
    throw CommandError(kBadModel, "'" + name + "' is a weight of the model (" +
                                      weight["type"].get<std::string>() + "), which no node makes" +
                                      read);
  }
  for (const std::string& node : NodesOf(report, name)) AddOnce(meaning.nodes, node);
  if (!meaning.nodes.empty()) return {meaning.nodes, "dispatch"};
  for (const Json& source : report["sources"]) {
    if (Lower(source["op"]) == Lower(name)) AddOnce(meaning.nodes, source["node"]);
  }
  if (!meaning.nodes.empty()) return {meaning.nodes, "op"};
  // Some group that the compiler names after a node and a number.
  const size_t end = name.find_last_not_of("0123456789");
  if (end != std::string::npos && end + 1 < name.size() && name[end] == '_') {
    const std::string node = name.substr(0, end);
    if (std::find(known.begin(), known.end(), node) != known.end()) return {{node}, "part"};
  }
  known.insert(known.end(), ops.begin(), ops.end());
  const std::string none = "the model has no node, value or op '" + name + "'";
  if (known.size() <= 5)
    throw CommandError(kBadModel, none + "; there are " + NamesLike(name, known));
  const std::string near = NamesNear(name, known, 5);
  throw CommandError(kBadModel, near.empty() ? none : none + "; near it are " + near);
}

std::string DeviceOf(const Json& report, const std::string& dispatch) {
  for (const Json& one : report["dispatches"]) {
    if (one["label"] == dispatch) return one["device"];
  }
  return "";
}

// The device that runs the interpreter; empty when nothing is interpreted.
std::string InterpreterOf(const Json& report) {
  for (const Json& one : report["devices"]) {
    if (one["interpreted"] != 0) return one["device"];
  }
  return "";
}

// Where a fate is: the device of its dispatch or of the interpreter; empty for other fates.
std::string DeviceOfFate(const Json& report, const std::string& fate) {
  if (fate.starts_with(kInterpreted)) return InterpreterOf(report);
  const std::string dispatch = DispatchOf(fate);
  return dispatch.empty() ? "" : DeviceOf(report, dispatch);
}

// What the plan of several devices says of the clusters that hold the node or a part of it: the one
// that takes longest, which is the op's own, before those of its constants and casts.
std::vector<Json> ClustersOf(const Json& report, const std::string& node) {
  std::vector<Json> clusters;
  if (!report.contains("plan")) return clusters;
  for (const Json& cluster : report["plan"]["clusters"]) {
    const Json& nodes = cluster["nodes"];
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) clusters.push_back(cluster);
  }
  const auto seconds_of = [](const Json& cluster) {
    for (const Json& candidate : cluster["candidates"]) {
      if (candidate["device"] == cluster["device"]) return candidate["seconds"].get<double>();
    }
    return 0.0;
  };
  std::stable_sort(clusters.begin(), clusters.end(),
                   [&](const Json& a, const Json& b) { return seconds_of(a) > seconds_of(b); });
  return clusters;
}

Json ExplainNode(const Json& report, const std::string& node) {
  Json out;
  out["node"] = node;
  for (const Json& source : report["sources"]) {
    if (source["node"] != node) continue;
    out["op"] = source["op"];
    break;
  }
  std::vector<std::string> fates = FatesOf(report, node);
  if (fates.empty()) fates = {"unknown: it left nothing that has its name"};
  out["fate"] = fates;
  std::vector<std::string> names = {node};  // the node and its dispatches
  for (const std::string& fate : fates) {
    if (const std::string device = DeviceOfFate(report, fate); !device.empty()) {
      out["device"].push_back(device);
    }
    const std::string dispatch = DispatchOf(fate);
    if (dispatch.empty()) continue;
    names.push_back(dispatch);
    for (const std::string& other : NodesOf(report, dispatch)) {
      if (other != node) out["together_with"].push_back(other);
    }
  }
  const auto add = [&](const char* list, const char* as) {
    for (const Json& record : report[list]) {
      const std::string text = record["text"], subject = record["subject"];
      const bool is_dispatch = std::find(names.begin() + 1, names.end(), subject) != names.end();
      if (!is_dispatch && subject != node && text.find("'" + node + "'") == std::string::npos)
        continue;
      // Of another kernel, or of one of several dispatches: which one it is about.
      const bool is_clear = is_dispatch ? names.size() == 2 : subject == node;
      out[as].push_back(is_clear ? text : "'" + subject + "': " + text);
    }
  };
  add("schedules", "schedule");
  add("fusion", "fusion");
  add("fallbacks", "fallback");
  for (const Json& cluster : ClustersOf(report, node)) out["placement"].push_back(cluster["text"]);
  return out;
}

// A line before the answers where the name is not that of a node.
std::string FormatMeaning(const std::string& given, const Meaning& meaning) {
  const std::string name = EscapeControls(given);
  const std::string count = Counted(meaning.nodes.size(), "node");
  if (meaning.what == "value") return "'" + name + "' is a value; the node that makes it:\n";
  if (meaning.what == "op") return "'" + name + "' is the op of " + count + ":\n";
  if (meaning.what == "dispatch")
    return "'" + name + "' is a dispatch that computes " + count + ":\n";
  if (meaning.what == "part") {
    return "'" + name + "' is a part of a node that the compiler named; the node:\n";
  }
  return "";
}

void PrintNode(const Json& node) {
  for (const auto& [key, value] : node.items()) {
    if (value.is_array()) {
      std::vector<std::string> lines;  // each once: several dispatches are often on one device
      for (const Json& line : value) AddOnce(lines, line.get<std::string>());
      for (const std::string& line : lines) {
        std::printf("%s: %s\n", key.c_str(), EscapeControls(line).c_str());
      }
    } else {
      std::printf("%s: %s\n", key.c_str(), EscapeControls(value.get<std::string>()).c_str());
    }
  }
}

// Why placement did not take a device for a cluster: the reason why it cannot, or what it costs.
std::pair<std::string, std::string> WhyNotCluster(const Json& cluster, const Json& candidate) {
  const std::string name = cluster["name"], device = candidate["device"],
                    chosen = cluster["device"];
  const auto time = [](const Json& seconds) { return FormatSeconds(seconds.get<double>()); };
  if (!candidate["is_feasible"].get<bool>()) {
    std::string code = candidate["reason"];
    for (char& c : code) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    const bool by_choice = code == "FORBIDDEN" || code == "LAST_RESORT";
    const std::string detail = candidate["detail"];
    std::string text = "Cluster '" + name + "' cannot run on '" + device + "'";
    if (by_choice) text = "Cluster '" + name + "' is not to run on '" + device + "'";
    if (code == "LAST_RESORT") {
      text += ": it is the last resort, and a device that was asked for runs it.";
    } else {
      text += detail.empty() ? " (" + candidate["reason"].get<std::string>() + ")." : ": " + detail;
    }
    for (const Json& missing : cluster.value("would_save", Json::array())) {
      if (missing["device"] != device) continue;
      text += " Supporting it on '" + device + "' would save " + time(missing["seconds"]) + ".";
    }
    return {by_choice ? code : "UNSUPPORTED_" + code, text};
  }
  std::string text = "Cluster '" + name + "' takes " + time(candidate["seconds"]) + " (" +
                     candidate["source"].get<std::string>() + ") on '" + device + "'";
  for (const Json& other : cluster["candidates"]) {
    if (other["device"] != chosen) continue;
    text += " and " + time(other["seconds"]) + " (" + other["source"].get<std::string>() +
            ") on '" + chosen + "'";
  }
  if (!cluster.contains("rival") || cluster["rival"] != device) return {"COSTS_MORE", text + "."};
  const double margin = cluster["margin_seconds"];
  if (margin == 0) return {"COSTS_THE_SAME", text + "; the best plan with it there takes as long."};
  if (margin > 0) {
    return {"COSTS_MORE", text + "; the best plan with it there takes " + time(margin) + " more."};
  }
  // The sum of costs favours what the simulated run or the noise does not.
  return {"COSTS_LESS_IN_SUM", text + "; with it there the sum of all costs is " + time(-margin) +
                                   " less, which did not decide (" +
                                   cluster["decided_by"].get<std::string>() + ")."};
}

Json Answer(const std::string& code, const std::string& text) {
  return {{"code", code}, {"text", text}};
}

// One answer for each cluster that holds a part of the node; none without a plan.
std::vector<Json> WhyNotClusters(const Json& report, const std::string& node,
                                 const std::string& device) {
  std::vector<Json> answers;
  const std::vector<Json> clusters = ClustersOf(report, node);
  for (const Json& cluster : clusters) {
    if (cluster["device"] == device) {
      std::string how;
      for (const std::string& fate : FatesOf(report, node)) {
        if (DeviceOfFate(report, fate) == device) how += (how.empty() ? ", " : " and ") + fate;
      }
      const std::string what = clusters.size() == 1
                                   ? "Node '" + node + "'"
                                   : "Cluster '" + cluster["name"].get<std::string>() + "'";
      answers.push_back(Answer("RUNS_THERE", what + " runs on '" + device + "'" + how + "."));
      continue;
    }
    for (const Json& candidate : cluster["candidates"]) {
      if (candidate["device"] != device) continue;
      const auto [code, text] = WhyNotCluster(cluster, candidate);
      answers.push_back(Answer(code, text));
    }
  }
  return answers;
}

// One answer for each dispatch of the node and for the interpreter.
std::vector<Json> WhyNotFates(const Json& report, const std::string& node,
                              const std::string& device) {
  std::string reason;
  for (const Json& record : report["placement"]) reason = record["text"];
  std::string fallback;
  for (const Json& record : report["fallbacks"]) {
    if (record["subject"] == node) fallback = record["text"];
  }
  std::vector<Json> answers;
  for (const std::string& fate : FatesOf(report, node)) {
    const std::string where = DeviceOfFate(report, fate);
    if (where == device) {
      answers.push_back(
          Answer("RUNS_THERE", "Node '" + node + "' runs on '" + device + "', " + fate + "."));
    } else if (!fallback.empty()) {
      answers.push_back(Answer("UNSUPPORTED_OP", fallback));
    } else {
      answers.push_back(
          Answer("PLACED_ELSEWHERE", "Node '" + node + "' runs on '" + where + "'. " + reason));
    }
  }
  return answers;
}

// Why a node does not run on a device: a code that tools can rely on and a sentence. Of a node that
// became several parts those of the first, and "parts" with all.
Json WhyNot(const Json& report, const std::string& node, const std::string& device) {
  std::vector<std::string> fates = FatesOf(report, node);
  if (fates.empty()) fates = {"gone: it left nothing that has its name"};
  bool is_known = false;
  std::string known;
  for (const Json& one : report["devices"]) {
    is_known = is_known || one["device"] == device;
    known += (known.empty() ? "'" : ", '") + one["device"].get<std::string>() + "'";
  }
  std::vector<Json> parts;
  if (fates.front().starts_with("gone")) {
    parts = {Answer("COMPUTED_AT_COMPILE_TIME",
                    "Node '" + node + "' runs on no device; it is " + fates.front() + ".")};
  } else if (!is_known) {
    parts = {
        Answer("NOT_ASKED_FOR",
               "Device '" + device + "' has no part in this program, which is for " + known + ".")};
  } else {
    for (Json& answer : WhyNotClusters(report, node, device)) AddOnce(parts, answer);
    if (parts.empty()) {
      for (Json& answer : WhyNotFates(report, node, device)) AddOnce(parts, answer);
    }
  }
  Json out = {{"node", node}, {"device", device}};
  out.update(parts.front());
  if (parts.size() > 1) out["parts"] = parts;
  return out;
}

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
    const size_t equals = options.why_not.rfind('=');
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
  if (!options.node.empty() || !node.empty()) {
    Json report = Json::parse(model.program.Report(HY_REPORT_ALL, HY_FORMAT_JSON));
    if (!report.contains("sources")) report["sources"] = Json::array();  // an older library
    const std::string& name = node.empty() ? options.node : node;
    const Meaning meaning = FindNodes(report, name);
    Json answers = Json::array();
    for (const std::string& one : meaning.nodes) {
      answers.push_back(node.empty() ? ExplainNode(report, one) : WhyNot(report, one, device));
    }
    if (options.model.json) {
      // One node is an object, whatever it was found by.
      std::printf("%s\n", Dump(answers.size() == 1 ? answers[0] : answers).c_str());
      return kDone;
    }
    std::printf("%s", FormatMeaning(name, meaning).c_str());
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!node.empty()) {
        for (const Json& part : answers[i].value("parts", Json::array({answers[i]}))) {
          std::printf("%s: %s\n", part["code"].get<std::string>().c_str(),
                      EscapeControls(part["text"].get<std::string>()).c_str());
        }
        continue;
      }
      if (i > 0) std::printf("\n");
      PrintNode(answers[i]);
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
