// SPDX-License-Identifier: Apache-2.0
#include "runtime/explain_node.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/escape_controls.h"
#include "base/near_names.h"
#include "base/quantity.h"

namespace halyard::runtime {
namespace {

using Json = nlohmann::ordered_json;

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
// nodes; an op, in ONNX's word, in any case of letters. NOT_FOUND has the nearest names.
Result<Meaning> FindNodes(const Json& report, const std::string& name) {
  Meaning meaning;
  std::vector<std::string> known, ops;
  for (const Json& record : report["nodes"]) AddOnce(known, record["subject"]);
  for (const Json& source : report["sources"]) {
    AddOnce(known, source["node"]);
    AddOnce(ops, source["op"]);
  }
  if (std::find(known.begin(), known.end(), name) != known.end()) return Meaning{{name}, ""};
  for (const Json& source : report["sources"]) {
    for (const Json& output : source["outputs"]) {
      if (output == name) AddOnce(meaning.nodes, source["node"]);
    }
  }
  if (!meaning.nodes.empty()) return Meaning{meaning.nodes, "value"};
  for (const Json& entry : report.value("entries", Json::array())) {
    for (const Json& input : entry["inputs"]) {
      if (input["name"] != name) continue;
      return NotFound(
          "'{}' is an input of the model ({}), which no node makes; name a node or what one makes.",
          name, input["dtype"].get<std::string>());
    }
  }
  for (const Json& weight : report.value("weights", Json::array())) {
    if (weight["weight"] != name) continue;
    std::vector<std::string> readers = weight["readers"];
    std::string read;
    if (!readers.empty()) {
      read = "; " + NamesLike("", readers) + (readers.size() == 1 ? " reads it" : " read it");
    }
    return NotFound("'{}' is a weight of the model ({}), which no node makes{}.", name,
                    weight["type"].get<std::string>(), read);
  }
  for (const std::string& node : NodesOf(report, name)) AddOnce(meaning.nodes, node);
  if (!meaning.nodes.empty()) return Meaning{meaning.nodes, "dispatch"};
  for (const Json& source : report["sources"]) {
    if (Lower(source["op"]) == Lower(name)) AddOnce(meaning.nodes, source["node"]);
  }
  if (!meaning.nodes.empty()) return Meaning{meaning.nodes, "op"};
  // Some group that the compiler names after a node and a number.
  const size_t end = name.find_last_not_of("0123456789");
  if (end != std::string::npos && end + 1 < name.size() && name[end] == '_') {
    const std::string node = name.substr(0, end);
    if (std::find(known.begin(), known.end(), node) != known.end()) return Meaning{{node}, "part"};
  }
  known.insert(known.end(), ops.begin(), ops.end());
  if (known.size() <= 5) {
    return NotFound("The model has no node, value or op '{}'; there are {}.", name,
                    NamesLike(name, known));
  }
  const std::string near = NamesNear(name, known, 5);
  return NotFound("The model has no node, value or op '{}'{}{}.", name,
                  near.empty() ? "" : "; near it are ", near);
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
std::string FormatMeaning(std::string_view given, const Meaning& meaning) {
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

std::string FormatNode(const Json& node) {
  std::string out;
  for (const auto& [key, value] : node.items()) {
    if (value.is_array()) {
      std::vector<std::string> lines;  // each once: several dispatches are often on one device
      for (const Json& line : value) AddOnce(lines, line.get<std::string>());
      for (const std::string& line : lines) out += key + ": " + EscapeControls(line) + "\n";
    } else {
      out += key + ": " + EscapeControls(value.get<std::string>()) + "\n";
    }
  }
  return out;
}

std::string FormatWhyNot(const Json& answer) {
  std::string out;
  for (const Json& part : answer.value("parts", Json::array({answer}))) {
    out += part["code"].get<std::string>() + ": " +
           EscapeControls(part["text"].get<std::string>()) + "\n";
  }
  return out;
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
  if (margin == 0)
    return {"COSTS_THE_SAME", text + "; with it there the sum of all costs is the same."};
  if (margin > 0) {
    return {"COSTS_MORE",
            text + "; with it there the sum of all costs is " + time(margin) + " more."};
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

}  // namespace

Result<std::string> ExplainNode(const LoadedProgram& program, std::string_view name,
                                std::string_view device, ReportFormat format) {
  if (format != ReportFormat::kText && format != ReportFormat::kJson) {
    return Unimplemented("What became of a node is told as text or JSON only.");
  }
  HY_ASSIGN(const std::string all, MakeReport(program, ReportKind::kAll, ReportFormat::kJson));
  const Json report = Json::parse(all);
  HY_ASSIGN(const Meaning meaning, FindNodes(report, std::string(name)));
  Json answers = Json::array();
  for (const std::string& node : meaning.nodes) {
    answers.push_back(device.empty() ? ExplainNode(report, node)
                                     : WhyNot(report, node, std::string(device)));
  }
  if (format == ReportFormat::kJson) {
    // One node is an object, whatever it was found by.
    return (answers.size() == 1 ? answers[0] : answers)
               .dump(2, ' ', false, Json::error_handler_t::replace) +
           "\n";
  }
  std::string out = FormatMeaning(name, meaning);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!device.empty()) {
      out += FormatWhyNot(answers[i]);
      continue;
    }
    if (i > 0) out += "\n";
    out += FormatNode(answers[i]);
  }
  return out;
}

}  // namespace halyard::runtime
