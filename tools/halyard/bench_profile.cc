// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_profile.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>

#include "base/escape_controls.h"
#include "base/quantity.h"
#include "tools/halyard/format.h"
#include "tools/halyard/row_name.h"
#include "tools/halyard/statistics.h"

namespace halyard::tools {
namespace {

constexpr size_t kShownGroups = 12;
constexpr size_t kFewestClockPoints = 8;
constexpr double kOpenClock = 0.05;
constexpr double kAboveRoof = 1.005;  // shares that are printed as more than 100%
constexpr double kMuchWaiting = 0.2;  // share of a run with every command by itself

// What the device did of a command, as far as anybody tells.
double BusySeconds(const ProfiledCommand& command) {
  const double all = command.end_s - command.start_s;
  if (command.device_s < 0) return command.end_s - command.submitted_s;
  return std::min(command.device_s, all);
}

Json SplitOf(const ProfiledRun& run) {
  double enqueue = 0, in = 0, out = 0, between = 0, waits = 0, covered = 0;
  std::map<std::string, double> busy;
  for (const ProfiledCommand& command : run.commands) {
    const double all = command.end_s - command.start_s;
    covered += all;
    if (command.kind == "input") {
      in += all;
    } else if (command.kind == "output") {
      out += all;
    } else if (command.kind == "transfer") {
      between += all;
    } else {
      const double device = BusySeconds(command);
      const double wait = std::max(0.0, command.end_s - command.submitted_s - device);
      busy[command.device] += device;
      waits += wait;
      enqueue += all - device - wait;
    }
  }
  Json split = {{"enqueue", enqueue}, {"copies_in", in}, {"busy", Json::object()}};
  for (const auto& [device, seconds] : busy) split["busy"][device] = seconds;
  split["inter_device"] = between;
  split["copies_out"] = out;
  split["waits"] = waits;
  split["idle"] = std::max(0.0, run.seconds - covered);
  return split;
}

struct Group {
  std::string label, device, kind, product;
  int dispatches = 0;  // of one run
  double flops = -1, bytes = -1;
  std::vector<double> seconds;  // per run
};

// In the order of the first run. A fusion group that is several dispatches is one group; so are the
// transfers between two devices.
std::vector<Group> GroupsOf(const std::vector<ProfiledRun>& runs) {
  std::vector<Group> groups;
  std::map<std::string, size_t> index;
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const ProfiledCommand& command : runs[r].commands) {
      const std::string key = command.kind + "\n" + command.device + "\n" + command.label;
      const auto [found, is_new] = index.try_emplace(key, groups.size());
      if (is_new) {
        groups.push_back({command.label, command.device, command.kind, command.product, 0,
                          command.flops, command.bytes, std::vector<double>(runs.size())});
      }
      Group& group = groups[found->second];
      if (r == 0) {
        // Of copies each moves bytes of its own.
        if (group.dispatches > 0 && command.kind != "dispatch" && command.bytes > 0)
          group.bytes += command.bytes;
        ++group.dispatches;
      }
      group.seconds[r] += BusySeconds(command);
    }
  }
  return groups;
}

// The measured peak of the link that a group copies over; 0: no such group, or not measured. The
// link is as fast for the ordinary memory of callers, whose copies may still be slower.
double LinkPeak(const Group& group,
                const std::function<const Roofs&(const std::string&)>& roofs_of) {
  const auto best = [&](const std::string& device, std::initializer_list<const char*> ways) {
    double peak = 0;
    const auto& copies = roofs_of(device).copy_bytes_per_s;
    for (const char* way : ways) {
      if (const auto found = copies.find(way); found != copies.end())
        peak = std::max(peak, found->second);
    }
    return peak;
  };
  std::string from = "host", to = "host";
  if (group.kind == "input") {
    to = group.device;
  } else if (group.kind == "output") {
    from = group.device;
  } else if (const size_t arrow = group.label.find(" -> ");
             group.kind == "transfer" && arrow != group.label.npos) {
    from = group.label.substr(0, arrow);
    to = group.label.substr(arrow + 4);
  } else {
    return 0;
  }
  // By the threads of that device.
  if (from == "host" && to == "host") return best(group.device, {"device -> device"});
  if (from == "host") return best(to, {"pinned -> device", "pageable -> device"});
  if (to == "host") return best(from, {"device -> pinned", "device -> pageable"});
  return best(from, {("device -> " + to).c_str()});  // straight; the probe of the source has it
}

// What host and device say of the same dispatches differs by the launch and the wait, which are
// alike for all of them, and by the speeds of the two clocks: the slope of a line through them.
// Nothing where so few or so equal dispatches leave it open by more than kOpenClock.
Json ClocksOf(const std::vector<ProfiledRun>& runs) {
  struct Points {
    std::vector<double> device, host;
  };
  std::map<std::string, Points> points;
  for (size_t i = 0; i < runs[0].commands.size(); ++i) {
    const ProfiledCommand& first = runs[0].commands[i];
    // A CPU's commands are timed by the host's clock.
    if (first.kind != "dispatch" || first.device.starts_with("cpu:")) continue;
    std::vector<double> device, host;
    for (const ProfiledRun& run : runs) {
      if (i >= run.commands.size() || run.commands[i].label != first.label) continue;
      const ProfiledCommand& command = run.commands[i];
      if (command.device_s <= 0) continue;
      device.push_back(command.device_s);
      host.push_back(command.end_s - command.start_s);
    }
    if (device.size() < runs.size()) continue;
    points[first.device].device.push_back(MedianOf(device));
    points[first.device].host.push_back(MedianOf(host));
  }
  Json clocks = Json::object();
  for (const auto& [device, p] : points) {
    const size_t n = p.device.size();
    if (n < kFewestClockPoints) continue;
    const auto count = static_cast<double>(n);
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, residual = 0;
    for (size_t i = 0; i < n; ++i) {
      mean_x += p.device[i] / count;
      mean_y += p.host[i] / count;
    }
    for (size_t i = 0; i < n; ++i) {
      xx += (p.device[i] - mean_x) * (p.device[i] - mean_x);
      xy += (p.device[i] - mean_x) * (p.host[i] - mean_y);
    }
    if (xx <= 0) continue;
    const double ratio = xy / xx;
    for (size_t i = 0; i < n; ++i) {
      const double off = p.host[i] - mean_y - ratio * (p.device[i] - mean_x);
      residual += off * off;
    }
    const double error = 2 * std::sqrt(residual / (count - 2) / xx);
    if (error > kOpenClock) continue;
    clocks[device] = {{"ratio", ratio}, {"error", error}, {"commands", n}};
  }
  return clocks;
}

Json TimelineOf(const ProfiledRun& run) {
  Json timeline = Json::array();
  for (const ProfiledCommand& command : run.commands) {
    Json json = {{"label", command.label}, {"kind", command.kind},     {"device", command.device},
                 {"queue", command.queue}, {"start", command.start_s}, {"end", command.end_s}};
    if (command.device_s >= 0) json["device_seconds"] = command.device_s;
    if (command.bytes >= 0) json["bytes"] = command.bytes;
    if (command.live_bytes >= 0) json["live_bytes"] = command.live_bytes;
    timeline.push_back(std::move(json));
  }
  return timeline;
}

// "1.23 GFLOP/s"; "-" for what is not known.
std::string FormatScaled(const Json& group, const char* name, const char* unit) {
  if (!group.contains(name)) return "-";
  double value = group[name];
  for (const char* prefix : {"", "k", "M", "G", "T"}) {
    const std::string behind = std::string(prefix) + unit;
    if (value < 1000 || *prefix == 'T')
      return Format("%.3g", value) + (behind.empty() ? "" : " " + behind);
    value /= 1000;
  }
  return "-";
}

bool IsProbed(const Json& groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [](const Json& group) { return group.contains("roof"); });
}

}  // namespace

Json SummarizeProfile(const std::vector<ProfiledRun>& runs, double plain_s,
                      const std::function<Roofs(const std::string& device)>& roofs_of) {
  std::vector<size_t> order(runs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return runs[a].seconds < runs[b].seconds; });
  const ProfiledRun& middle = runs[order[order.size() / 2]];
  Json out = {{"runs", runs.size()}, {"seconds", middle.seconds}};
  if (plain_s > 0) out["overhead"] = middle.seconds / plain_s;
  out["split"] = SplitOf(middle);

  std::vector<Group> groups = GroupsOf(runs);
  double all = 0;
  for (const Group& group : groups) all += MedianOf(group.seconds);
  std::map<std::string, Roofs> roofs;
  const auto known_roofs = [&](const std::string& device) -> const Roofs& {
    const auto [found, is_new] = roofs.try_emplace(device);
    if (is_new) found->second = roofs_of(device);
    return found->second;
  };
  struct Copies {
    double least = 0;  // seconds, by their links
    bool is_whole = true;
  };
  std::map<std::string, Copies> copies;  // by kind
  double least = 0;
  bool is_whole = true;
  Json list = Json::array();
  for (const Group& group : groups) {
    const double seconds = MedianOf(group.seconds);
    Json json = {{"label", group.label}, {"device", group.device},
                 {"kind", group.kind},   {"dispatches", group.dispatches},
                 {"seconds", seconds},   {"share", all > 0 ? seconds / all : 0.0}};
    if (group.flops >= 0) json["flops"] = group.flops;
    if (group.bytes >= 0) json["bytes"] = group.bytes;
    if (group.flops > 0 && group.bytes > 0) json["intensity"] = group.flops / group.bytes;
    if (group.flops > 0 && seconds > 0) json["flops_per_s"] = group.flops / seconds;
    if (group.bytes > 0 && seconds > 0) json["bytes_per_s"] = group.bytes / seconds;
    if (!group.product.empty()) json["product"] = group.product;
    Json roof;
    if (group.kind == "dispatch") {
      roof = JudgeKernel(known_roofs(group.device),
                         {seconds, group.flops, group.bytes, group.dispatches, group.product});
      if (roof.is_object()) json["roof"] = roof;
    } else if (group.bytes > 0 && seconds > 0) {
      const double peak = LinkPeak(group, known_roofs);
      if (peak > 0) {
        json["link"] = {{"bytes_per_s", peak}, {"share", group.bytes / seconds / peak}};
      }
      Copies& same = copies[group.kind];
      same.is_whole &= peak > 0;
      if (peak > 0) same.least += group.bytes / peak;
    }
    if (roof.is_object()) {
      least += std::max(roof.value("compute_s", 0.0), roof.value("memory_s", 0.0));
    } else if (group.kind == "dispatch" && all > 0 && seconds / all >= 0.01) {
      is_whole = false;
    }
    list.push_back(std::move(json));
  }
  std::stable_sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
    return a["seconds"].get<double>() > b["seconds"].get<double>();
  });
  out["groups"] = std::move(list);
  if (is_whole && least > 0 && plain_s > 0) out["roof_share"] = least / plain_s;
  out["link_shares"] = Json::object();
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"input", "copies_in"}, {"transfer", "inter_device"}, {"output", "copies_out"}};
  for (const auto& [kind, name] : kParts) {
    const auto found = copies.find(kind);
    const double seconds = out["split"][name];
    if (found != copies.end() && found->second.is_whole && seconds > 0)
      out["link_shares"][name] = found->second.least / seconds;
  }
  out["clocks"] = ClocksOf(runs);
  out["roofs"] = Json::object();
  for (const auto& [device, known] : roofs) {
    if (known.is_probed) out["roofs"][device] = RoofsJson(known);
  }
  out["timeline"] = TimelineOf(middle);
  return out;
}

void AddNodes(const Json& dispatches, Json* profile) {
  std::map<std::string, std::string> nodes;  // by label
  for (const Json& dispatch : dispatches) {
    if (dispatch.contains("nodes")) nodes[dispatch["label"]] = dispatch["nodes"];
  }
  for (Json& group : (*profile)["groups"]) {
    if (group["kind"] != "dispatch") continue;
    const auto found = nodes.find(group["label"].get<std::string>());
    if (found != nodes.end()) group["nodes"] = found->second;
  }
}

void AddModelErrors(const Json& predictions, Json* profile) {
  struct Timed {
    double seconds = 0, roof = 0;
    bool has_roof = true;
  };
  std::map<std::string, Timed> timed;  // by label
  for (const Json& group : (*profile)["groups"]) {
    if (group["kind"] != "dispatch") continue;
    Timed& label = timed[group["label"].get<std::string>()];
    const double seconds = group["seconds"];
    label.seconds += seconds;
    if (group.contains("roof")) {
      label.roof += group["roof"]["share"].get<double>() * seconds;
    } else {
      label.has_roof = false;
    }
  }
  struct OpClass {
    std::vector<double> ratios;
    Json samples;
    double seconds = 0;
    Timed with_roof;  // the kernels that have one
  };
  std::map<std::string, OpClass> classes;
  for (const Json& prediction : predictions) {
    Timed kernel;
    bool has_all = true;
    for (const Json& label : prediction["dispatches"]) {
      const auto found = timed.find(label.get<std::string>());
      has_all = has_all && found != timed.end();
      if (!has_all) break;
      kernel.seconds += found->second.seconds;
      kernel.roof += found->second.roof;
      kernel.has_roof &= found->second.has_roof;
    }
    if (!has_all || kernel.seconds <= 0) continue;
    OpClass& op_class = classes[prediction["class"].get<std::string>()];
    op_class.ratios.push_back(prediction["seconds"].get<double>() / kernel.seconds);
    op_class.seconds += kernel.seconds;
    Json sample = prediction;
    sample.erase("class");
    sample["measured"] = kernel.seconds;
    if (kernel.has_roof) {
      sample["roof"] = kernel.roof;
      op_class.with_roof.seconds += kernel.seconds;
      op_class.with_roof.roof += kernel.roof;
    }
    op_class.samples.push_back(std::move(sample));
  }
  Json list = Json::array();
  for (const auto& [name, all] : classes) {
    std::vector<double> errors;
    for (const double ratio : all.ratios) errors.push_back(std::abs(ratio - 1));
    list.push_back({{"class", name},
                    {"kernels", all.ratios.size()},
                    {"median_error", MedianOf(errors)},
                    {"worst_error", *std::max_element(errors.begin(), errors.end())},
                    {"median_ratio", MedianOf(all.ratios)},
                    {"seconds", all.seconds},
                    {"samples", all.samples}});
    if (all.with_roof.seconds > 0)
      list.back()["roof_share"] = all.with_roof.roof / all.with_roof.seconds;
  }
  (*profile)["model_error"] = std::move(list);
}

std::string FormatRoofShare(const Json& row) {
  const auto found = row.find("profile");
  if (found == row.end() || !found->is_object()) return "-";
  if (found->contains("roof_share")) {
    return Format("%.0f%%", (*found)["roof_share"].get<double>() * 100);
  }
  return IsProbed((*found)["groups"]) ? "-" : "not probed";
}

std::string WithoutSharedFolder(const std::string& nodes) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= nodes.size();) {
    const size_t end = std::min(nodes.find(',', at), nodes.size());
    names.push_back(nodes.substr(at, end - at));
    at = end + 1;
  }
  // Names begin at their first '/'; before it may stand "part of".
  std::string shared = nodes.substr(std::min(nodes.find('/'), nodes.size()));
  shared.resize(std::min(shared.find(','), shared.size()));
  for (const std::string& name : names) {
    const std::string path = name.substr(std::min(name.find('/'), name.size()));
    const auto end = std::mismatch(shared.begin(), shared.end(), path.begin(), path.end()).first;
    shared.erase(end, shared.end());
  }
  shared.resize(shared.rfind('/') + 1);
  if (names.size() < 2 || shared.size() < 2) return nodes;
  std::string out;
  for (std::string name : names) {
    name.erase(name.find('/'), shared.size());
    out += (out.empty() ? "" : ",") + name;
  }
  return out;
}

std::string FormatProfile(const Json& row) {
  const auto found = row.find("profile");
  if (found == row.end() || !found->is_object()) return "";
  const Json &profile = *found, &split = profile["split"], &groups = profile["groups"];
  const double whole = profile["seconds"];
  std::string text = "\nWhere the time of " + NameOfRow(row) + " goes, one command after the other";
  if (profile.contains("overhead")) {
    text += Format(" (%s, %.2f times a plain run):\n\n", FormatSeconds(whole).c_str(),
                   profile["overhead"].get<double>());
  } else {
    text += " (" + FormatSeconds(whole) + "):\n\n";
  }
  std::string head = "|", rule = "|", values = "|";
  const Json links = profile.value("link_shares", Json::object());
  const auto add = [&](const std::string& name, double seconds, const char* link = "") {
    head += " " + name + " |";
    rule += "---|";
    values += Format(" %s, %.0f%%", FormatSeconds(seconds).c_str(),
                     whole > 0 ? seconds / whole * 100 : 0.0);
    if (links.contains(link))
      values += Format(" (%.0f%% of the link's peak)", links[link].get<double>() * 100);
    values += " |";
  };
  add("enqueue", split["enqueue"]);
  add("copies in", split["copies_in"], "copies_in");
  for (const auto& [device, seconds] : split["busy"].items()) add(device + " busy", seconds);
  add("between devices", split["inter_device"], "inter_device");
  add("copies out", split["copies_out"], "copies_out");
  add("waits", split["waits"]);
  add("idle", split["idle"]);
  text += head + "\n" + rule + "\n" + values + "\n\n";
  const double p50 = row.value("latency", Json::object()).value("p50", 0.0);
  const double waiting = split["enqueue"].get<double>() + split["waits"].get<double>();
  if (p50 > 0 && waiting > kMuchWaiting * whole) {
    std::string busy;
    for (const auto& [device, seconds] : split["busy"].items()) {
      busy += (busy.empty() ? "" : ", ") +
              Format("%s %.0f%%", device.c_str(), seconds.get<double>() / p50 * 100);
    }
    text +=
        "Plain runs do not wait for each command, so that enqueue and waits are far less there. "
        "What a device is busy with is about the same; set against p50 it is " +
        busy + ".\n\n";
  }
  const Json clocks = profile.value("clocks", Json::object());
  for (const auto& [device, clock] : clocks.items()) {
    text += Format(
        "A second of the clock of %s is %.3f s (+- %.3f) of the host's, over %d dispatches.\n\n",
        device.c_str(), clock["ratio"].get<double>(), clock["error"].get<double>(),
        clock["commands"].get<int>());
  }
  const bool is_probed = IsProbed(groups);
  text +=
      "| group | device | time | share | FLOPs | bytes | FLOP/byte | FLOP/s | bytes/s | of roof | "
      "bound by |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  size_t shown = 0;
  for (const Json& group : groups) {
    if (shown == kShownGroups) break;
    ++shown;
    const bool has_roof = group.contains("roof"), has_link = group.contains("link");
    std::string name = group["label"];
    if (group.contains("nodes"))
      name += " (" + WithoutSharedFolder(group["nodes"].get<std::string>()) + ")";
    text += "| " + EscapeControls(name) + " | " + group["device"].get<std::string>() + " | " +
            FormatSeconds(group["seconds"]) +
            Format(" | %.1f%% | ", group["share"].get<double>() * 100) +
            FormatScaled(group, "flops", "") + " | " + FormatScaled(group, "bytes", "B") + " | " +
            (group.contains("intensity") ? Format("%.3g", group["intensity"].get<double>()) : "-") +
            " | " + FormatScaled(group, "flops_per_s", "FLOP/s") + " | " +
            FormatScaled(group, "bytes_per_s", "B/s") + " | " +
            (has_roof     ? Format("%.0f%%", group["roof"]["share"].get<double>() * 100)
             : has_link   ? Format("%.0f%%", group["link"]["share"].get<double>() * 100)
             : !is_probed ? std::string("not probed")
                          : std::string("-")) +
            " | " +
            (has_roof   ? group["roof"]["bound"].get<std::string>()
             : has_link ? std::string("link")
                        : std::string("-")) +
            " |\n";
  }
  if (groups.size() > shown) {
    text += Format("\n%zu more groups; -o json has all.\n", groups.size() - shown);
  }
  if (!is_probed) {
    text +=
        "\nRoofs are not known: no probe has measured bandwidth and products here. `halyard "
        "devices "
        "--probe` measures them once, in a longer time (`--seconds`, `--again`) where it was cut "
        "short.\n";
  }
  const auto is_above = [](const Json& group) {
    return group.contains("roof") && group["roof"]["share"].get<double>() > kAboveRoof;
  };
  if (profile.value("roof_share", 0.0) > kAboveRoof ||
      std::any_of(groups.begin(), groups.end(), is_above)) {
    text +=
        "\nMore than 100% of a roof: the probe is older or was taken under load (`halyard devices "
        "--probe --again`), or operands lie in a nearer cache than their bytes would fit.\n";
  }
  const auto errors = profile.find("model_error");
  if (errors == profile.end() || errors->empty()) return text;
  text +=
      "\nBy class of op, what its kernels reach and how far placement's cost model is off:\n\n"
      "| class | kernels | time | of roof | median error | worst error | predicted / measured |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Json& error : *errors) {
    text +=
        "| " + error["class"].get<std::string>() + Format(" | %d | ", error["kernels"].get<int>()) +
        FormatSeconds(error.value("seconds", 0.0)) + " | " +
        (error.contains("roof_share") ? Format("%.0f%%", error["roof_share"].get<double>() * 100)
                                      : "-") +
        Format(" | %.0f%% | %.0f%% | %.2f |\n", error["median_error"].get<double>() * 100,
               error["worst_error"].get<double>() * 100, error["median_ratio"].get<double>());
  }
  return text;
}

}  // namespace halyard::tools
