// SPDX-License-Identifier: Apache-2.0
// The page is written once, in order: head, signature, table, order of commands, memory.
#include "runtime/report_html.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "base/escape_html.h"
#include "base/quantity.h"
#include "compiler/place/prediction.h"
#include "compiler/program/work.h"
#include "runtime/report_placement.h"
#include "runtime/symbol_binding.h"

namespace halyard::runtime {
namespace {

constexpr std::string_view kHead = R"(<style>
body { font: 14px sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; } td, th { padding: 2px 10px; text-align: left; vertical-align: top; }
th { cursor: pointer; border-bottom: 2px solid #888; } tr:nth-child(even) { background: #f4f4f4; }
td { overflow-wrap: anywhere; } td.number, td.device, td.word, th { white-space: nowrap; overflow-wrap: normal; } td.number { text-align: right; } td.name { min-width: 10em; } svg { background: #fafafa; } svg text { font: 11px monospace; }
.swatch { display: inline-block; width: 1em; height: 1em; vertical-align: middle; }
</style>
<script>
function sortBy(th) {
  const table = th.closest('table'), column = [...th.parentNode.children].indexOf(th);
  const down = th.dataset.down === '1'; th.dataset.down = down ? '0' : '1';
  const key = row => row.children[column].dataset.key ?? row.children[column].textContent;
  const rows = [...table.tBodies[0].rows].sort((a, b) =>
      key(a).localeCompare(key(b), undefined, {numeric: true}) * (down ? -1 : 1));
  table.tBodies[0].append(...rows);
}
</script>
)";

constexpr std::string_view kColours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                         "#76b7b2", "#e15759", "#9c755f", "#edc948"};

std::string_view KindName(program::CommandKind kind) {
  switch (kind) {
    case program::CommandKind::kDispatch:
      return "dispatch";
    case program::CommandKind::kCopy:
      return "copy";
    case program::CommandKind::kFill:
      return "fill";
    case program::CommandKind::kInterpret:
      return "interpreter";
    case program::CommandKind::kTransfer:
      return "transfer";
  }
  return "";
}

class Page {
 public:
  explicit Page(const program::Program& program) : program_(program) {
    for (const program::Symbol& symbol : program.symbols) {
      int64_t value = std::max<int64_t>(symbol.min, 1);
      const int64_t rest = value % std::max<int64_t>(symbol.divisor, 1);
      if (rest != 0) value += symbol.divisor - rest;
      symbols_.push_back(std::min(value, symbol.max));
    }
    for (const program::Record& record : program.records) {
      if (record.kind == "schedule") schedules_[record.subject] = record.text;
      if (record.kind == "node" && record.text.starts_with("in dispatch '")) {
        const std::string label = record.text.substr(13, record.text.size() - 14);
        std::string& nodes = nodes_[label];
        nodes += (nodes.empty() ? "" : ", ") + record.subject;
      }
    }
  }

  Result<std::string> Write() {
    Add("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{}</title>\n",
        EscapeHtml(program_.model_name));
    out_ += kHead;
    Add("<h1>{}</h1>\n", EscapeHtml(program_.model_name));
    for (size_t s = 0; s < symbols_.size(); ++s) {
      Add("<p>Sizes are drawn for {} = {}.</p>\n", EscapeHtml(program_.symbols[s].name),
          symbols_[s]);
    }
    Add("<p>");
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      Add("<span class=\"swatch\" style=\"background:{}\"></span> {} ({})<br>\n", ColourOf(d),
          EscapeHtml(program_.devices[d].name), EscapeHtml(program_.devices[d].identity));
    }
    Add("</p>\n");
    if (const auto plan = FindPlan(program_)) out_ += PlanHtml(*plan);
    for (const program::Entry& entry : program_.entries) {
      WriteSignature(entry);
      WriteTable(entry);
      WriteOrder(entry);
      for (size_t a = 0; a < entry.arenas.size(); ++a) HY_TRY(WriteMemory(entry, a));
    }
    WriteRecords();
    Add("</html>\n");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void WriteSignature(const program::Entry& entry) {
    Add("<h2>{}</h2>\n<p>", EscapeHtml(entry.name));
    for (const auto* list : {&entry.inputs, &entry.outputs}) {
      for (const program::TensorDesc& tensor : *list) {
        Add("{} <b>{}</b>: {}[{}]<br>\n", list == &entry.inputs ? "input" : "output",
            EscapeHtml(tensor.name), FormatDType(tensor.dtype),
            EscapeHtml(FormatDims(program_, tensor)));
      }
    }
    Add("</p>\n");
  }

  void WriteTable(const program::Entry& entry) {
    Add("<h3>Commands</h3>\n<table><thead><tr>");
    for (const char* title :
         {"#", "command", "kind", "device", "bytes named", "nodes", "schedule"}) {
      Add("<th onclick=\"sortBy(this)\">{}</th>", title);
    }
    Add("</tr></thead><tbody>\n");
    size_t number = 0;
    for (const program::Block& block : entry.blocks) {
      for (const program::Command& command : block.commands) {
        int64_t bytes = 0;
        for (const uint32_t binding : command.bindings) {
          const auto size = entry.buffers[binding].size.Evaluate(symbols_);
          if (size.ok()) bytes += *size;
        }
        const auto schedule = schedules_.find(command.label);
        const auto nodes = nodes_.find(command.label);
        Add("<tr><td class=\"number\">{}</td><td class=\"name\">{}</td><td "
            "class=\"word\">{}</td><td "
            "class=\"device\">{}</td>"
            "<td class=\"number\" data-key=\"{}\">{}</td><td>{}</td><td>{}</td></tr>\n",
            number++, EscapeHtml(command.label), KindName(command.kind),
            EscapeHtml(program_.devices[block.device].name), bytes, bytes,
            nodes == nodes_.end() ? "" : EscapeHtml(nodes->second),
            schedule == schedules_.end() ? "" : EscapeHtml(schedule->second));
      }
    }
    Add("</tbody></table>\n");
  }

  // One line a command, numbered as in the table; an arc to each command it waits for that is not
  // the one before, and a dashed one from a block's end to the start of another that waits for it.
  void WriteOrder(const program::Entry& entry) {
    constexpr int kStep = 18, kLeft = 220;
    const auto y_of = [&](size_t command) { return static_cast<int>(command) * kStep + kStep; };
    std::vector<size_t> first;  // per block, and the count of all
    size_t count = 0;
    for (const program::Block& block : entry.blocks) {
      first.push_back(count);
      count += block.commands.size();
    }
    first.push_back(count);
    Add("<h3>Order</h3>\n<p>From above to below on each queue, in the colour of its device. An arc "
        "joins a "
        "command and one before it that it waits for; a dashed one, parts of the run that are "
        "submitted apart.</p>\n<svg width=\"900\" height=\"{}\">\n",
        kStep * (count + 1));
    const auto arc = [&](size_t from, size_t to, std::string_view dashes) {
      const int y = y_of(to), from_y = y_of(from);
      const int bend = std::min(kLeft - 10, 12 + std::abs(y - from_y) / 2);
      Add("<path class=\"wait\" d=\"M {0} {1} C {2} {1}, {2} {3}, {0} {3}\" fill=\"none\" "
          "stroke=\"#999\"{4}/>\n",
          kLeft, from_y, kLeft - bend, y, dashes);
    };
    for (size_t b = 0; b < entry.blocks.size(); ++b) {
      const program::Block& block = entry.blocks[b];
      for (const uint32_t other : block.waits) {
        if (block.commands.empty() || entry.blocks[other].commands.empty()) continue;
        arc(first[other + 1] - 1, first[b], " stroke-dasharray=\"4 2\"");
      }
      for (size_t c = 0; c < block.commands.size(); ++c) {
        for (const uint32_t before : block.commands[c].after)
          arc(first[b] + before, first[b] + c, "");
      }
    }
    for (size_t b = 0; b < entry.blocks.size(); ++b) {
      const program::Block& block = entry.blocks[b];
      for (size_t c = 0; c < block.commands.size(); ++c) {
        const size_t number = first[b] + c;
        const int y = y_of(number);
        Add("<circle cx=\"{}\" cy=\"{}\" r=\"5\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{} {}{}"
            "</text>\n",
            kLeft, y, ColourOf(block.device), kLeft + 12, y + 4, number,
            EscapeHtml(block.commands[c].label),
            c > 0 ? ""
                  : fmt::format(" ({} queue {})", EscapeHtml(program_.devices[block.device].name),
                                block.queue));
      }
    }
    Add("</svg>\n");
  }

  // Lines at round numbers of bytes, and the numbers of commands as the table of commands has them.
  void WriteMemoryAxes(int64_t total, size_t commands, double left, double top, double width,
                       double height) {
    int64_t bytes_apart = 1;
    while (total / bytes_apart > 5) bytes_apart *= 2;
    for (int64_t at = 0; at <= total && total > 0; at += bytes_apart) {
      const double y = top + height * (1 - static_cast<double>(at) / static_cast<double>(total));
      Add("<path d=\"M {} {:.1f} h {}\" stroke=\"#ccc\"/><text class=\"bytes\" x=\"{}\" "
          "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          left - 4, y, width + 4, left - 8, y + 4, FormatBytes(at));
    }
    size_t commands_apart = 1;
    for (int i = 0; commands / commands_apart > 20; ++i)  // 1, 2, 5, 10, ...
      commands_apart = i % 3 == 1 ? commands_apart / 2 * 5 : commands_apart * 2;
    for (size_t at = 0; at < commands; at += commands_apart) {
      const double x =
          left + width * (static_cast<double>(at) + 0.5) / static_cast<double>(commands);
      Add("<text class=\"command\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x,
          top + height + 16, at);
    }
    Add("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">command</text>\n", left + width / 2,
        top + height + 32);
  }

  // A rectangle per value of the arena: its bytes upwards, the commands from first to last use to
  // the right.
  Status WriteMemory(const program::Entry& entry, size_t arena) {
    struct Life {
      size_t first = SIZE_MAX, last = 0;
    };
    std::map<uint32_t, Life> lives;
    size_t step = 0;
    for (const program::Block& block : entry.blocks) {
      for (const program::Command& command : block.commands) {
        for (const uint32_t binding : command.bindings) {
          const program::BufferRange& range = entry.buffers[binding];
          if (range.kind != program::StorageKind::kArena || range.index != arena) continue;
          Life& life = lives[binding];
          life.first = std::min(life.first, step);
          life.last = step;
        }
        ++step;
      }
    }
    HY_ASSIGN(const int64_t total, entry.arenas[arena].size_bytes.Evaluate(symbols_));
    constexpr double kWidth = 900, kHeight = 360, kLeft = 80, kTop = 10, kBottom = 40;
    const double x_scale = kWidth / static_cast<double>(std::max<size_t>(step, 1));
    const double y_scale = kHeight / static_cast<double>(std::max<int64_t>(total, 1));
    Add("<h3>Memory of {}: {} bytes of activations</h3>\n<p>Each rectangle is a value: from the "
        "command that writes it to the last one that reads it, and from its offset upwards.</p>\n"
        "<svg width=\"{}\" height=\"{}\">\n",
        EscapeHtml(program_.devices[entry.arenas[arena].device].name), total, kLeft + kWidth + 20,
        kTop + kHeight + kBottom);
    WriteMemoryAxes(total, step, kLeft, kTop, kWidth, kHeight);
    for (const auto& [index, life] : lives) {
      const program::BufferRange& range = entry.buffers[index];
      HY_ASSIGN(const int64_t offset, range.offset.Evaluate(symbols_));
      HY_ASSIGN(const int64_t size, range.size.Evaluate(symbols_));
      const double top = kTop + static_cast<double>(total - offset - size) * y_scale;
      Add("<rect class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "fill=\"{}\" "
          "stroke=\"#fff\"><title>{}: {} bytes at {}, commands {} to {}</title></rect>\n",
          kLeft + static_cast<double>(life.first) * x_scale, top,
          static_cast<double>(life.last - life.first + 1) * x_scale,
          std::max(static_cast<double>(size) * y_scale, 0.5), ColourOf(index),
          EscapeHtml(range.name), size, offset, life.first, life.last);
    }
    Add("</svg>\n");
    return OkStatus();
  }

  void WriteRecords() {
    Add("<h2>Decisions</h2>\n<table><thead><tr>");
    for (const char* title : {"kind", "subject", "decision"}) {
      Add("<th onclick=\"sortBy(this)\">{}</th>", title);
    }
    Add("</tr></thead><tbody>\n");
    for (const program::Record& record : program_.records) {
      if (record.kind == "schedule" || record.kind == "node" || record.kind == "plan" ||
          record.kind == "source" || record.kind == "weight" ||
          record.kind == program::kWorkRecord || record.kind == place::kPredictedRecord) {
        continue;
      }
      Add("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", EscapeHtml(record.kind),
          EscapeHtml(record.subject), EscapeHtml(record.text));
    }
    Add("</tbody></table>\n");
  }

  const program::Program& program_;
  std::vector<int64_t> symbols_;
  std::map<std::string, std::string> schedules_, nodes_;  // by command label
  std::string out_;
};

}  // namespace

std::string_view ColourOf(size_t index) { return kColours[index % std::size(kColours)]; }

Result<std::string> MakeHtmlReport(const program::Program& program) {
  return Page(program).Write();
}

}  // namespace halyard::runtime
