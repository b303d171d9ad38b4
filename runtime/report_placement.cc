// SPDX-License-Identifier: Apache-2.0
#include "runtime/report_placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/escape_controls.h"
#include "base/escape_html.h"
#include "base/quantity.h"
#include "compiler/place/options.h"
#include "compiler/place/tensor_limit.h"
#include "runtime/report_html.h"

namespace halyard::runtime {
namespace {

using Json = nlohmann::ordered_json;
using place::Cost;
using place::Decision;
using place::Plan;

// Lines of a list in the text; the rest is counted.
constexpr size_t kMostLines = 24;
constexpr size_t kClosest = 5;

std::string DeviceName(const Plan& plan, uint32_t device) {
  return device == place::kNone ? "the caller's memory" : plan.device_names[device];
}

// What the plan comes from, and whether that was the start only.
std::string DescribeWinner(const Plan& plan) {
  for (const place::Rival& rival : plan.rivals) {
    if (rival.name != plan.winner || rival.devices.size() != plan.decisions.size()) continue;
    for (size_t i = 0; i < plan.decisions.size(); ++i) {
      if (rival.devices[i] != plan.decisions[i].device) return plan.winner + ", with parts moved";
    }
  }
  return plan.winner;
}

// The device with most clusters; of equals the one that is busy longest.
size_t MainDevice(const Plan& plan) {
  size_t main = 0;
  for (size_t d = 1; d < plan.devices.size(); ++d) {
    if (std::pair(plan.devices[d].items, plan.devices[d].busy_seconds) >
        std::pair(plan.devices[main].items, plan.devices[main].busy_seconds)) {
      main = d;
    }
  }
  return main;
}

// "who decided", in words.
std::string_view DecidedInWords(place::DecidedBy decided_by) {
  switch (decided_by) {
    case place::DecidedBy::kOnlyDevice:
      return "it is the only device";
    case place::DecidedBy::kOnlyFeasible:
      return "no other device can";
    case place::DecidedBy::kUser:
      return "it was asked for";
    case place::DecidedBy::kSingle:
      return "one device for all is best";
    case place::DecidedBy::kExactCut:
      return "the cheapest cut, proven";
    case place::DecidedBy::kExactDp:
      return "the cheapest of all plans, proven";
    case place::DecidedBy::kExpansion:
      return "the cheapest plan that was found";
    case place::DecidedBy::kGreedy:
      return "greedy placement is best here";
    case place::DecidedBy::kEarliestFinish:
      return "it ends soonest there";
    case place::DecidedBy::kPreviousPlan:
      return "it runs there now, and nothing is better by more than the noise";
    case place::DecidedBy::kRefine:
      return "the simulated run is shorter";
    case place::DecidedBy::kMemory:
      return "the memory limits need it";
    case place::DecidedBy::kHysteresis:
      return "elsewhere it would win less than the noise";
    case place::DecidedBy::kTie:
      return "elsewhere it costs the same";
  }
  return "";
}

std::string WhyNot(const Cost& cost) {
  if (cost.reason == place::Reason::kLastResort) return "it is the last resort";
  if (cost.reason == place::Reason::kForbidden) return "a wish forbids it";
  return fmt::format("{}{}{}", place::FormatReason(cost.reason), cost.detail.empty() ? "" : ": ",
                     cost.detail);
}

// "on 'gpu:0' the sum of all costs would be 2.000 us more": the sum is what the solver minimises,
// and may be less elsewhere where the simulated run or the noise decided.
std::string FormatMargin(double seconds, bool is_exact, std::string_view device) {
  if (seconds == 0) return fmt::format("on '{}' the sum of all costs would be the same", device);
  if (seconds < 0) {
    return fmt::format("on '{}' the sum of all costs would be {} less", device,
                       FormatSeconds(-seconds));
  }
  return fmt::format("on '{}' the sum of all costs would be {} more{}", device,
                     FormatSeconds(seconds), is_exact ? "" : " at most");
}

// What a wish does to the time of the whole.
std::string FormatPrice(double seconds) {
  if (seconds == 0) return "costs nothing";
  return seconds < 0 ? fmt::format("saves {}", FormatSeconds(-seconds))
                     : fmt::format("costs {}", FormatSeconds(seconds));
}

// "the wishes 'a=cpu:0' and 'b=cpu:0' have no price: ..."; a sentence for each reason.
std::vector<std::string> DescribeUnpriced(const Plan& plan) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const place::UnpricedWish& wish : plan.unpriced) {
    if (by_reason.empty() || by_reason.back().first != wish.reason)
      by_reason.emplace_back(wish.reason, std::vector<std::string>());
    by_reason.back().second.push_back(fmt::format("'{}'", wish.affinity));
  }
  std::vector<std::string> out;
  for (const auto& [reason, wishes] : by_reason) {
    const bool is_one = wishes.size() == 1;
    out.push_back(fmt::format("the {} {} {} no price: {}", is_one ? "wish" : "wishes",
                              fmt::join(wishes, ", "), is_one ? "has" : "have", reason));
  }
  return out;
}

// What a lane of the simulated run shows of a transfer.
std::string DescribeFlight(const Plan& plan, const place::Transfer& transfer) {
  return fmt::format("'{}' from {} to {}: {} in {} from {}, and {} until it can be used",
                     plan.tensor_names[transfer.tensor], DeviceName(plan, transfer.from),
                     DeviceName(plan, transfer.to), place::FormatTensorBytes(transfer.bytes),
                     FormatSeconds(transfer.copy_seconds), FormatSeconds(transfer.start_seconds),
                     FormatSeconds(std::max(0.0, transfer.seconds - transfer.copy_seconds)));
}

// Why the item is where it is, and what else there is.
std::string DescribeReasons(const Plan& plan, size_t i) {
  const Decision& decision = plan.decisions[i];
  const Cost& cost = plan.costs[i][decision.device];
  std::string out = fmt::format("{}; {} ({})", DecidedInWords(decision.decided_by),
                                FormatSeconds(cost.seconds), place::FormatSource(cost.source));
  if (decision.transfer_seconds > 0) {
    out += fmt::format(" and {} of transfers", FormatSeconds(decision.transfer_seconds));
  }
  for (size_t d = 0; d < plan.costs[i].size(); ++d) {
    if (plan.costs[i][d].feasible()) continue;
    out += fmt::format("; '{}' cannot ({})", plan.device_names[d], WhyNot(plan.costs[i][d]));
  }
  if (decision.rival != place::kNone) {
    out += fmt::format("; {}", FormatMargin(decision.margin_seconds, decision.margin_is_exact,
                                            plan.device_names[decision.rival]));
  }
  for (const place::Missing& missing : decision.missing) {
    out += fmt::format("; supporting it on '{}' would save {} ({:.1f} %)",
                       plan.device_names[missing.device], FormatSeconds(missing.seconds),
                       100 * missing.seconds / std::max(plan.makespan_seconds, 1e-12));
  }
  return out;
}

std::string DescribeItem(const Plan& plan, size_t i) {
  return fmt::format("{} -> {}: {}", plan.item_names[i],
                     plan.device_names[plan.decisions[i].device], DescribeReasons(plan, i));
}

// "3 measured and 2 default": where the costs come from that two plans do not share, both devices
// of each cluster counted.
std::string DescribeSources(const Plan& plan, const place::Rival& rival, double* sigma_seconds) {
  std::map<place::Source, int> counts;
  double variance = 0;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    if (rival.devices[i] == plan.decisions[i].device) continue;
    for (const uint32_t device : {rival.devices[i], plan.decisions[i].device}) {
      const Cost& cost = plan.costs[i][device];
      ++counts[cost.source];
      variance += std::pow(cost.seconds * cost.sigma, 2);
    }
  }
  *sigma_seconds = std::sqrt(variance);
  std::string out;
  for (const auto& [source, count] : counts) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, place::FormatSource(source));
  }
  return out;
}

// Why a rival that is predicted to take less is not the plan; empty where none is.
std::string DescribeCheaperRival(const Plan& plan) {
  const place::Rival* best = nullptr;
  for (const place::Rival& rival : plan.rivals) {
    if (!rival.is_feasible || rival.devices.size() != plan.decisions.size()) continue;
    if (rival.makespan_seconds >= plan.makespan_seconds) continue;
    if (best == nullptr || rival.makespan_seconds < best->makespan_seconds) best = &rival;
  }
  if (best == nullptr) return "";
  double sigma_seconds = 0;
  const std::string sources = DescribeSources(plan, *best, &sigma_seconds);
  const bool runs_now =
      std::any_of(plan.decisions.begin(), plan.decisions.end(), [](const Decision& decision) {
        return decision.decided_by == place::DecidedBy::kPreviousPlan;
      });
  const double gain = plan.makespan_seconds - best->makespan_seconds, noise = 2 * sigma_seconds;
  std::string why =
      runs_now ? "the plan that runs now is left" : "parts leave the device of the others";
  // What is required or forbidden every rival obeys.
  const auto is_preference = [](const place::Price& price) {
    const auto wish = place::ParseAffinity(price.affinity);
    return price.items > 0 && wish.ok() && wish->strength == place::Strength::kPrefer;
  };
  if (std::any_of(plan.prices.begin(), plan.prices.end(), is_preference)) {
    why = "a preference weighs more";
  } else if (gain < noise) {
    why += fmt::format(" only for more than the noise of the costs that differ, {} ({})",
                       FormatSeconds(noise), sources);
  } else if (runs_now) {
    why = "the plan that runs now is held";
  } else {
    why += fmt::format(
        " only for more than the waits between devices and 1 % of the whole, 10 % where costs that "
        "differ are estimates ({})",
        sources);
  }
  return fmt::format("'{}' is predicted to take {} less and is not taken: {}", best->name,
                     FormatSeconds(gain), why);
}

template <typename... Args>
void Line(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  out += "  " + EscapeControls(fmt::format(format, std::forward<Args>(args)...)) + '\n';
}

}  // namespace

std::optional<Plan> FindPlan(const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind != "plan") continue;
    auto plan = place::ParsePlan(record.text);
    if (plan.ok()) return std::move(plan).value();
  }
  return std::nullopt;
}

std::string PlanText(const Plan& plan) {
  std::string out;
  Line(out, "a run is predicted to take {}, give or take {}; decided by: {}{}",
       FormatSeconds(plan.makespan_seconds), FormatSeconds(plan.sigma_seconds),
       DescribeWinner(plan), plan.is_optimal ? ", the least sum of all costs, proven" : "");
  Line(out, "costs are of snapshot {} ({:016x}); {}", plan.snapshot, plan.machine_hash,
       Counted(plan.steps, "solver step"));
  for (size_t m = 0; m < plan.memories.size(); ++m) {
    const place::MemoryLoad& load = plan.memories[m];
    Line(out, "  memory of {}: weights {}, activations {}{}", plan.memory_names[m],
         place::FormatTensorBytes(load.weight_bytes),
         place::FormatTensorBytes(load.activation_bytes),
         load.cap_bytes > 0 ? fmt::format(", limit {}", FormatBytes(load.cap_bytes)) : "");
  }
  if (plan.memory_price_seconds > 0) {
    Line(out, "  the memory limits cost {} ({} of prices)",
         FormatSeconds(plan.memory_price_seconds), Counted(plan.memory_rounds, "round"));
  }
  Line(out, "rivals");
  for (const place::Rival& rival : plan.rivals) {
    if (rival.is_feasible) {
      Line(out, "  {}: {}", rival.name, FormatSeconds(rival.makespan_seconds));
    } else {
      Line(out, "  {}: not possible, {}", rival.name, rival.reason);
    }
  }
  if (const std::string why = DescribeCheaperRival(plan); !why.empty()) Line(out, "{}", why);
  double transfer_seconds = 0;
  for (const place::Transfer& transfer : plan.transfers) transfer_seconds += transfer.seconds;
  Line(out, "{}, {}", Counted(plan.transfers.size(), "transfer"), FormatSeconds(transfer_seconds));
  for (size_t t = 0; t < std::min(plan.transfers.size(), kMostLines); ++t) {
    const place::Transfer& transfer = plan.transfers[t];
    Line(out, "  '{}' from {} to {}: {} in {} ({}, {})", plan.tensor_names[transfer.tensor],
         DeviceName(plan, transfer.from), DeviceName(plan, transfer.to),
         place::FormatTensorBytes(transfer.bytes), FormatSeconds(transfer.seconds),
         place::FormatPathKind(transfer.path), place::FormatSource(transfer.source));
  }
  if (plan.transfers.size() > kMostLines) {
    Line(out, "  and {} more", plan.transfers.size() - kMostLines);
  }
  for (const place::Price& price : plan.prices) {
    Line(out, "the wish '{}' {} ({})", price.affinity, FormatPrice(price.seconds),
         Counted(price.items, "cluster"));
  }
  for (const std::string& sentence : DescribeUnpriced(plan)) Line(out, "{}", sentence);
  const size_t main = MainDevice(plan);
  std::vector<size_t> elsewhere, closest;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    if (plan.decisions[i].device != main) elsewhere.push_back(i);
    if (plan.decisions[i].device == main && plan.decisions[i].rival != place::kNone) {
      closest.push_back(i);
    }
  }
  if (!elsewhere.empty()) Line(out, "not on {}", plan.device_names[main]);
  for (size_t i = 0; i < std::min(elsewhere.size(), kMostLines); ++i) {
    Line(out, "  {}", DescribeItem(plan, elsewhere[i]));
  }
  if (elsewhere.size() > kMostLines) Line(out, "  and {} more", elsewhere.size() - kMostLines);
  std::stable_sort(closest.begin(), closest.end(), [&](size_t a, size_t b) {
    return plan.decisions[a].margin_seconds < plan.decisions[b].margin_seconds;
  });
  if (!closest.empty()) Line(out, "closest decisions on {}", plan.device_names[main]);
  for (size_t i = 0; i < std::min(closest.size(), kClosest); ++i) {
    Line(out, "  {}", DescribeItem(plan, closest[i]));
  }
  return out;
}

Json PlanJson(const Plan& plan) {
  Json json;
  json["predicted_seconds"] = plan.makespan_seconds;
  json["sigma_seconds"] = plan.sigma_seconds;
  json["additive_seconds"] = plan.additive_seconds;
  json["decided_by"] = plan.winner;
  json["method"] = place::FormatMethod(plan.method);
  json["is_optimal"] = plan.is_optimal;
  json["snapshot"] = plan.snapshot;
  json["machine_hash"] = fmt::format("{:016x}", plan.machine_hash);
  json["solver_steps"] = plan.steps;
  json["memory_rounds"] = plan.memory_rounds;
  json["memory_price_seconds"] = plan.memory_price_seconds;
  json["devices"] = Json::array();
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    json["devices"].push_back({{"device", plan.device_names[d]},
                               {"clusters", plan.devices[d].items},
                               {"busy_seconds", plan.devices[d].busy_seconds}});
  }
  json["memories"] = Json::array();
  for (size_t m = 0; m < plan.memories.size(); ++m) {
    json["memories"].push_back({{"memory", plan.memory_names[m]},
                                {"weight_bytes", plan.memories[m].weight_bytes},
                                {"activation_bytes", plan.memories[m].activation_bytes},
                                {"limit_bytes", plan.memories[m].cap_bytes}});
  }
  json["rivals"] = Json::array();
  for (const place::Rival& rival : plan.rivals) {
    json["rivals"].push_back({{"name", rival.name},
                              {"is_feasible", rival.is_feasible},
                              {"reason", rival.reason},
                              {"predicted_seconds", rival.makespan_seconds},
                              {"additive_seconds", rival.additive_seconds}});
  }
  if (const std::string why = DescribeCheaperRival(plan); !why.empty()) json["cheaper_rival"] = why;
  json["transfers"] = Json::array();
  for (const place::Transfer& transfer : plan.transfers) {
    json["transfers"].push_back({{"value", plan.tensor_names[transfer.tensor]},
                                 {"from", DeviceName(plan, transfer.from)},
                                 {"to", DeviceName(plan, transfer.to)},
                                 {"bytes", transfer.bytes},
                                 {"seconds", transfer.seconds},
                                 {"path", place::FormatPathKind(transfer.path)},
                                 {"source", place::FormatSource(transfer.source)},
                                 {"start_seconds", transfer.start_seconds},
                                 {"copy_seconds", transfer.copy_seconds},
                                 {"links", Json::array()}});
    for (const uint32_t link : transfer.links) {
      json["transfers"].back()["links"].push_back(plan.link_names[link]);
    }
  }
  json["wishes"] = Json::array();
  for (const place::Price& price : plan.prices) {
    json["wishes"].push_back(
        {{"wish", price.affinity}, {"price_seconds", price.seconds}, {"clusters", price.items}});
  }
  json["unpriced_wishes"] = Json::array();
  for (const place::UnpricedWish& wish : plan.unpriced) {
    json["unpriced_wishes"].push_back({{"wish", wish.affinity}, {"reason", wish.reason}});
  }
  json["clusters"] = Json::array();
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const Decision& decision = plan.decisions[i];
    Json cluster;
    cluster["name"] = plan.item_names[i];
    cluster["nodes"] = plan.item_nodes[i];
    cluster["device"] = plan.device_names[decision.device];
    cluster["decided_by"] = place::FormatDecidedBy(decision.decided_by);
    cluster["text"] = DescribeItem(plan, i);
    cluster["transfer_seconds"] = decision.transfer_seconds;
    cluster["avoided_seconds"] = decision.avoided_seconds;
    if (decision.rival != place::kNone) {
      cluster["rival"] = plan.device_names[decision.rival];
      cluster["margin_seconds"] = decision.margin_seconds;
      cluster["margin_is_exact"] = decision.margin_is_exact;
    }
    for (size_t d = 0; d < plan.costs[i].size(); ++d) {
      const Cost& cost = plan.costs[i][d];
      cluster["candidates"].push_back({{"device", plan.device_names[d]},
                                       {"is_feasible", cost.feasible()},
                                       {"reason", place::FormatReason(cost.reason)},
                                       {"detail", cost.detail},
                                       {"seconds", cost.seconds},
                                       {"sigma", cost.sigma},
                                       {"source", place::FormatSource(cost.source)}});
    }
    for (const place::Missing& missing : decision.missing) {
      cluster["would_save"].push_back(
          {{"device", plan.device_names[missing.device]}, {"seconds", missing.seconds}});
    }
    json["clusters"].push_back(std::move(cluster));
  }
  return json;
}

std::string PlanHtml(const Plan& plan) {
  std::string out;
  const auto add = [&out](std::string_view text) { out += text; };
  const auto head = [&](std::initializer_list<const char*> titles) {
    add("<table><thead><tr>");
    for (const char* title : titles) {
      out += fmt::format("<th onclick=\"sortBy(this)\">{}</th>", title);
    }
    add("</tr></thead><tbody>\n");
  };
  add("<h2>Placement</h2>\n");
  out += fmt::format("<p>A run is predicted to take {}, give or take {}. Decided by: {}{}.</p>\n",
                     FormatSeconds(plan.makespan_seconds), FormatSeconds(plan.sigma_seconds),
                     EscapeHtml(DescribeWinner(plan)),
                     plan.is_optimal ? ", the least sum of all costs, proven" : "");
  // Bars of the time that the plan and its rivals take.
  double longest = plan.makespan_seconds;
  for (const place::Rival& rival : plan.rivals) {
    longest = std::max(longest, rival.makespan_seconds);
  }
  constexpr double kWidth = 500;
  out += fmt::format("<svg width=\"900\" height=\"{}\">\n", 20 * (plan.rivals.size() + 1) + 10);
  const auto bar = [&](size_t row, double seconds, const std::string& text, const char* colour) {
    const double width = longest > 0 ? kWidth * seconds / longest : 0;
    out += fmt::format(
        "<rect class=\"rival\" x=\"0\" y=\"{}\" width=\"{:.1f}\" height=\"14\" fill=\"{}\"/><text "
        "x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        row * 20 + 4, width, colour, width + 6, row * 20 + 15, EscapeHtml(text));
  };
  bar(0, plan.makespan_seconds, "this plan: " + FormatSeconds(plan.makespan_seconds), "#59a14f");
  for (size_t r = 0; r < plan.rivals.size(); ++r) {
    const place::Rival& rival = plan.rivals[r];
    bar(r + 1, rival.is_feasible ? rival.makespan_seconds : 0,
        rival.name + ": " +
            (rival.is_feasible ? FormatSeconds(rival.makespan_seconds)
                               : "not possible, " + rival.reason),
        "#bbb");
  }
  add("</svg>\n");
  if (const std::string why = DescribeCheaperRival(plan); !why.empty())
    out += fmt::format("<p>{}.</p>\n", EscapeHtml(why));
  for (const place::Price& price : plan.prices) {
    out += fmt::format("<p>The wish '{}' {} ({}).</p>\n", EscapeHtml(price.affinity),
                       FormatPrice(price.seconds), Counted(price.items, "cluster"));
  }
  for (const std::string& sentence : DescribeUnpriced(plan)) {
    out += fmt::format("<p>T{}.</p>\n", EscapeHtml(sentence.substr(1)));
  }
  head({"device", "clusters", "busy us"});
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    out += fmt::format(
        "<tr><td class=\"device\"><span class=\"swatch\" style=\"background:{}\"></span> "
        "{}</td><td class=\"number\">{}</td><td class=\"number\">{:.2f}</td></tr>\n",
        ColourOf(d), EscapeHtml(plan.device_names[d]), plan.devices[d].items,
        plan.devices[d].busy_seconds * 1e6);
  }
  add("</tbody></table>\n");
  head({"memory", "weights", "activations", "limit"});
  for (size_t m = 0; m < plan.memories.size(); ++m) {
    const place::MemoryLoad& load = plan.memories[m];
    out +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    EscapeHtml(plan.memory_names[m]), place::FormatTensorBytes(load.weight_bytes),
                    place::FormatTensorBytes(load.activation_bytes),
                    load.cap_bytes > 0 ? FormatBytes(load.cap_bytes) : "none");
  }
  add("</tbody></table>\n");
  // A line per device's queue, with a box per cluster from its simulated start to its end; one per
  // link that copies, with a box while it is busy and a thin one until the next can use what came;
  // the time below.
  add("<h3>Simulated run</h3>\n");
  if (!plan.transfers.empty()) {
    add("<p>A line for each device's queue, and one for each link while it copies, in the colour "
        "of "
        "the device that gets the value; a thin line lasts until that device can use it.</p>\n");
  }
  std::vector<std::string> lanes = plan.device_names;
  std::map<uint32_t, size_t> lane_of_link;
  double last = plan.makespan_seconds;
  for (const place::Transfer& transfer : plan.transfers) {
    for (const uint32_t link : transfer.links) lane_of_link.try_emplace(link, 0);
    last = std::max(last, transfer.start_seconds + transfer.seconds);
  }
  for (auto& [link, lane] : lane_of_link) {
    lane = lanes.size();
    lanes.push_back(plan.link_names[link]);
  }
  size_t longest_name = 0;
  for (const std::string& name : lanes) longest_name = std::max(longest_name, name.size());
  constexpr double kAllWidth = 990;
  const double left = std::clamp(10 + 6.7 * static_cast<double>(longest_name), 90.0, 300.0);
  const double width = kAllWidth - left;
  out += fmt::format("<svg class=\"run\" width=\"{}\" height=\"{}\">\n", kAllWidth,
                     24 * lanes.size() + 28);
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    out += fmt::format("<text class=\"lane\" x=\"0\" y=\"{}\">{}</text>\n", 24 * lane + 17,
                       EscapeHtml(lanes[lane]));
  }
  const double scale = width / std::max(last, 1e-12);
  const auto box = [&](std::string_view kind, size_t lane, double start, double seconds, int height,
                       std::string_view colour, const std::string& title) {
    out += fmt::format(
        "<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" "
        "stroke=\"#fff\" stroke-width=\"0.3\"><title>{}</title></rect>\n",
        kind, left + start * scale, 24 * lane + 4 + (18 - height) / 2,
        std::max(seconds * scale, 0.2), height, colour, EscapeHtml(title));
  };
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const Decision& decision = plan.decisions[i];
    const double seconds = plan.costs[i][decision.device].seconds;
    box("cluster", decision.device, decision.start_seconds, seconds, 18, ColourOf(decision.device),
        plan.item_names[i] + ": " + FormatSeconds(seconds));
  }
  for (const place::Transfer& transfer : plan.transfers) {
    const std::string_view colour =
        transfer.to == place::kNone ? std::string_view("#888") : ColourOf(transfer.to);
    const std::string title = DescribeFlight(plan, transfer);
    for (const uint32_t link : transfer.links) {
      const size_t lane = lane_of_link[link];
      const double rest = transfer.seconds - transfer.copy_seconds;
      box("transfer", lane, transfer.start_seconds, transfer.copy_seconds, 18, colour, title);
      if (rest > 0)
        box("sync", lane, transfer.start_seconds + transfer.copy_seconds, rest, 2, colour, title);
    }
  }
  constexpr int kTicks = 4;
  for (int t = 0; t <= kTicks; ++t) {
    const double share = static_cast<double>(t) / kTicks;
    const char* anchor = t == 0 ? "start" : t == kTicks ? "end" : "middle";
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                       left + width * share, 24 * lanes.size() + 20, anchor,
                       FormatSeconds(last * share));
  }
  add("</svg>\n");
  if (!plan.transfers.empty()) {
    add("<h3>Transfers</h3>\n");
    head({"value", "from", "to", "bytes", "us", "path", "source"});
    for (const place::Transfer& transfer : plan.transfers) {
      out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td><td "
          "class=\"number\">{:.2f}</td><td>{}</td><td>{}</td></tr>\n",
          EscapeHtml(plan.tensor_names[transfer.tensor]),
          EscapeHtml(DeviceName(plan, transfer.from)), EscapeHtml(DeviceName(plan, transfer.to)),
          transfer.bytes, transfer.seconds * 1e6, place::FormatPathKind(transfer.path),
          place::FormatSource(transfer.source));
    }
    add("</tbody></table>\n");
  }
  add("<h3>Clusters</h3>\n");
  head({"#", "cluster", "device", "us", "transfers us", "margin us", "why"});
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const Decision& decision = plan.decisions[i];
    out += fmt::format(
        "<tr><td class=\"number\">{}</td><td class=\"name\">{}</td><td class=\"device\"><span "
        "class=\"swatch\" style=\"background:{}\"></span> {}</td><td "
        "class=\"number\">{:.2f}</td><td "
        "class=\"number\">{:.2f}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
        i, EscapeHtml(plan.item_names[i]), ColourOf(decision.device),
        EscapeHtml(plan.device_names[decision.device]),
        plan.costs[i][decision.device].seconds * 1e6, decision.transfer_seconds * 1e6,
        decision.rival == place::kNone ? "" : fmt::format("{:.2f}", decision.margin_seconds * 1e6),
        EscapeHtml(DescribeReasons(plan, i)));
  }
  add("</tbody></table>\n");
  return out;
}

}  // namespace halyard::runtime
