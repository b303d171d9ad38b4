// SPDX-License-Identifier: Apache-2.0
// Report writing.
#include "runtime/report.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/escape_controls.h"
#include "base/near_names.h"
#include "base/quantity.h"
#include "compiler/place/prediction.h"
#include "compiler/program/streamed.h"
#include "runtime/part_names.h"
#include "runtime/recording.h"
#include "runtime/report_html.h"
#include "runtime/report_placement.h"
#include "runtime/symbol_binding.h"

namespace halyard::runtime {
namespace {

using Json = nlohmann::ordered_json;

// Names come from model files and need not be UTF-8.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

class Reporter {
 public:
  explicit Reporter(const LoadedProgram& loaded) : loaded_(loaded), program_(loaded.program()) {}

  std::string Text(ReportKind kind) {
    const bool all = kind == ReportKind::kAll;
    if (all) {
      Line("model {}", program_.model_name);
      for (const program::Entry& entry : program_.entries) PrintSignature(entry);
    }
    if (all || kind == ReportKind::kPlacement) PrintPlacement();
    if (all || kind == ReportKind::kFusion) PrintFusion();
    if (all || kind == ReportKind::kSchedule) PrintSchedules(/*names_nodes=*/!all);
    if (all || kind == ReportKind::kMemory) PrintMemory();
    if (all || kind == ReportKind::kPhases) PrintPhases();
    return std::move(out_);
  }

  Json ToJson(ReportKind kind) {
    const bool all = kind == ReportKind::kAll;
    Json json;
    json["model"] = program_.model_name;
    if (all) json["entries"] = EntriesJson();
    if (all || kind == ReportKind::kPlacement) {
      json["devices"] = DevicesJson();
      json["transfers"] = Json::array();
      for (const auto& [pair, count] : CountTransfers()) {
        json["transfers"].push_back({{"from", program_.devices[pair.first].name},
                                     {"to", program_.devices[pair.second].name},
                                     {"count", count},
                                     {"path", DescribePath(pair.first, pair.second)}});
      }
      json["placement"] = RecordsJson("placement");
      json["fallbacks"] = RecordsJson("fallback");
      if (const auto plan = FindPlan(program_)) json["plan"] = PlanJson(*plan);
      json["predictions"] = PredictionsJson();
    }
    if (all || kind == ReportKind::kFusion) {
      json["nodes"] = RecordsJson("node");
      json["sources"] = SourcesJson();
      json["weights"] = WeightsJson();
      json["fusion"] = RecordsJson("fusion");
      json["dispatches"] = DispatchesJson();
    }
    if (all || kind == ReportKind::kSchedule) json["schedules"] = RecordsJson("schedule");
    if (all || kind == ReportKind::kMemory) json["memory"] = MemoryJson();
    if (all || kind == ReportKind::kPhases) {
      if (loaded_.cache_key() != 0) json["cache_key"] = fmt::format("{:016x}", loaded_.cache_key());
      json["phases"] = Json::array();
      for (const Phase& phase : loaded_.phases()) {
        json["phases"].push_back({{"phase", phase.name}, {"seconds", phase.seconds}});
      }
      json["compiled_for_sizes"] = Json::array();
      for (const CompiledVariant& variant : loaded_.variants().compiled()) {
        json["compiled_for_sizes"].push_back(
            {{"sizes", variant.sizes},
             {"seconds", variant.seconds},
             {"is_background", variant.is_background},
             {"failure", variant.outcome.ok() ? "" : variant.outcome.ToLine()}});
      }
    }
    return json;
  }

  std::string Dot() {
    const PartNames parts(program_);
    out_ = "digraph program {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n";
    for (size_t e = 0; e < program_.entries.size(); ++e) {
      const program::Entry& entry = program_.entries[e];
      for (size_t b = 0; b < entry.blocks.size(); ++b) {
        const program::Block& block = entry.blocks[b];
        Line("  subgraph cluster_{}_{} {{", e, b);
        Line("    label={};",
             DotQuote(fmt::format("{}: {} queue {}", entry.name,
                                  program_.devices[block.device].name, block.queue)));
        for (size_t c = 0; c < block.commands.size(); ++c) {
          const std::string& label = block.commands[c].label;
          const std::string nodes = parts.Describe(label);
          Line("    n{}_{}_{} [label={}];", e, b, c,
               DotQuote(label + (nodes.empty() ? "" : "\n" + nodes.substr(1))));
        }
        Line("  }}");
      }
      for (size_t b = 0; b < entry.blocks.size(); ++b) {
        for (size_t c = 0; c < entry.blocks[b].commands.size(); ++c) {
          const program::Command& command = entry.blocks[b].commands[c];
          const std::string node = fmt::format("n{}_{}_{}", e, b, c);
          for (const uint32_t before : command.after) {
            Line("  n{}_{}_{} -> {};", e, b, before, node);
          }
        }
        for (const uint32_t before : entry.blocks[b].waits) {
          if (entry.blocks[before].commands.empty() || entry.blocks[b].commands.empty()) continue;
          Line("  n{}_{}_{} -> n{}_{}_0 [style=dashed];", e, before,
               entry.blocks[before].commands.size() - 1, e, b);
        }
      }
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += EscapeControls(fmt::format(format, std::forward<Args>(args)...)) + '\n';
  }
  static std::string DotQuote(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    return out + '"';
  }

  void PrintSignature(const program::Entry& entry) {
    for (const auto* list : {&entry.inputs, &entry.outputs}) {
      for (const program::TensorDesc& tensor : *list) {
        Line("  {} {}: {}[{}]", list == &entry.inputs ? "input " : "output", tensor.name,
             FormatDType(tensor.dtype), FormatDims(program_, tensor));
      }
    }
    for (const program::Symbol& symbol : program_.symbols) {
      const std::string max = symbol.max == INT64_MAX ? "any" : std::to_string(symbol.max);
      Line("  size   {}: {} to {}{}", symbol.name, symbol.min, max,
           symbol.divisor > 1 ? fmt::format(", multiples of {}", symbol.divisor) : "");
    }
    for (const std::string_view guard : GuardTexts(entry)) Line("  needs  {}", guard);
  }

  size_t CountRecords(std::string_view kind) const {
    return static_cast<size_t>(
        std::count_if(program_.records.begin(), program_.records.end(),
                      [&](const program::Record& r) { return r.kind == kind; }));
  }
  void PrintRecords(std::string_view kind, std::string_view title) {
    if (CountRecords(kind) == 0) return;
    Line("{}", title);
    for (const program::Record& record : program_.records) {
      if (record.kind == kind) Line("  {}: {}", record.subject, record.text);
    }
  }

  // `names_nodes`: where no groups above tell which nodes of the model a kernel is.
  void PrintSchedules(bool names_nodes) {
    if (!names_nodes) return PrintRecords("schedule", "schedules");
    if (CountRecords("schedule") == 0) return;
    const PartNames parts(program_);
    Line("schedules");
    for (const program::Record& record : program_.records) {
      if (record.kind != "schedule") continue;
      Line("  {}{}: {}", record.subject, parts.Describe(record.subject), record.text);
    }
  }

  struct Counts {
    size_t dispatches = 0, copies = 0, fills = 0, interpreted = 0, transfers = 0;
  };
  Counts CountCommands(size_t device) const {
    Counts counts;
    for (const program::Entry& entry : program_.entries) {
      for (const program::Block& block : entry.blocks) {
        if (block.device != device) continue;
        for (const program::Command& command : block.commands) {
          switch (command.kind) {
            case program::CommandKind::kDispatch:
              ++counts.dispatches;
              break;
            case program::CommandKind::kCopy:
              ++counts.copies;
              break;
            case program::CommandKind::kFill:
              ++counts.fills;
              break;
            case program::CommandKind::kInterpret:
              ++counts.interpreted;
              break;
            case program::CommandKind::kTransfer:
              ++counts.transfers;
              break;
          }
        }
      }
    }
    return counts;
  }

  // Transfers between two devices; not those that bring weights to their own.
  std::map<std::pair<uint32_t, uint32_t>, size_t> CountTransfers() const {
    std::map<std::pair<uint32_t, uint32_t>, size_t> counts;
    for (const program::Entry& entry : program_.entries) {
      for (const program::Block& block : entry.blocks) {
        for (const program::Command& command : block.commands) {
          if (command.kind != program::CommandKind::kTransfer) continue;
          const uint32_t from = program_.DeviceOf(entry, entry.buffers[command.bindings[0]]);
          if (from != block.device) ++counts[{from, block.device}];
        }
      }
    }
    return counts;
  }

  std::string DescribePath(uint32_t from, uint32_t to) const {
    const TransferPath& path = loaded_.path(from, to);
    if (path.is_direct) return "direct, proven by a probe";
    if (path.stages_out && path.stages_in) return "staged in page-locked memory of both";
    if (!path.stages_out && !path.stages_in) return "the host copies";
    return fmt::format("staged in page-locked memory of {}",
                       program_.devices[path.stages_out ? from : to].name);
  }

  void PrintPlacement() {
    Line("placement");
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      const Counts counts = CountCommands(d);
      std::string text;
      const auto add = [&](size_t count, std::string_view noun, std::string_view more = "") {
        if (count == 0) return;
        text += fmt::format("{}{}{}", text.empty() ? "" : ", ", Counted(count, noun), more);
      };
      add(counts.dispatches, "dispatch");
      add(counts.copies, "copy");
      add(counts.fills, "fill");
      add(counts.interpreted, "interpreted op");
      if (program_.devices.size() > 1) add(counts.transfers, "transfer", " to it");
      Line("  {}: {}", program_.devices[d].name, text.empty() ? "does nothing" : text);
    }
    for (const auto& [pair, count] : CountTransfers()) {
      const auto& [from, to] = pair;
      Line("  {} from {} to {}: {}", Counted(count, "transfer"), program_.devices[from].name,
           program_.devices[to].name, DescribePath(from, to));
    }
    for (const program::Record& record : program_.records) {
      if (record.kind == "placement") Line("  {}: {}", record.subject, record.text);
    }
    if (const auto plan = FindPlan(program_)) out_ += PlanText(*plan);
    PrintRecords("fallback", "fallbacks");
    for (const std::string& event : loaded_.events()) Line("  {}", event);
  }

  // Each kernel with the nodes of the model that it computes, and below it the decisions about it;
  // then those about what no kernel is called by.
  void PrintFusion() {
    const PartNames parts(program_);
    std::vector<const program::Record*> decisions;
    for (const program::Record& record : program_.records) {
      if (record.kind == "fusion") decisions.push_back(&record);
    }
    Line("fusion groups");
    for (const program::Entry& entry : program_.entries) {
      if (program_.entries.size() > 1) Line("  entry '{}'", entry.name);
      for (const program::Block& block : entry.blocks) {
        for (const program::Command& command : block.commands) {
          if (command.kind != program::CommandKind::kDispatch) continue;
          Line("  {}{}{}", command.label, parts.Describe(command.label, SIZE_MAX),
               program_.devices.size() > 1 ? " on " + program_.devices[block.device].name : "");
          std::erase_if(decisions, [&](const program::Record* record) {
            if (record->subject != command.label) return false;
            Line("    {}", record->text);
            return true;
          });
        }
      }
    }
    for (const program::Record* record : decisions) Line("  {}: {}", record->subject, record->text);
    PrintOtherNodes(parts);
  }

  // The nodes that are in no kernel, by what became of them, so that none is missing.
  void PrintOtherNodes(const PartNames& parts) {
    constexpr size_t kMost = 12;
    std::vector<std::pair<std::string_view, std::vector<std::string>>> fates;
    for (const program::Record& record : program_.records) {
      if (record.kind != "node" || record.text.starts_with("in dispatch '")) continue;
      auto found = std::find_if(fates.begin(), fates.end(),
                                [&](const auto& fate) { return fate.first == record.text; });
      if (found == fates.end()) found = fates.insert(found, {record.text, {}});
      found->second.push_back(parts.WithOp(record.subject));
    }
    for (auto& [fate, nodes] : fates) {
      const size_t more = nodes.size() > kMost ? nodes.size() - kMost : 0;
      nodes.resize(nodes.size() - more);
      Line("  {}: {}{}", fate, fmt::join(nodes, ", "),
           more > 0 ? fmt::format(" and {} more", more) : "");
    }
  }

  // Of the constants that the device keeps, or of those that it streams.
  int64_t ConstantBytes(size_t device, bool is_streamed = false) const {
    const std::vector<bool> streamed = program::StreamedConstants(program_);
    int64_t bytes = 0;
    for (size_t c = 0; c < streamed.size(); ++c) {
      const program::Constant& constant = program_.constants[c];
      if (constant.device != device || streamed[c] != is_streamed) continue;
      bytes += static_cast<int64_t>(constant.size_bytes);
    }
    return bytes;
  }

  void PrintMemory() {
    Line("memory");
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      Line("  {}: constants {}", program_.devices[d].name, FormatBytes(ConstantBytes(d)));
      if (const int64_t cap = program_.devices[d].memory_cap_bytes; cap > 0) {
        Line("  {}: all that the program takes stays within the cap of {}",
             program_.devices[d].name, FormatBytes(cap));
      }
      const int64_t streamed = ConstantBytes(d, true);
      if (streamed == 0) continue;
      Line("  {}: {} of weights stay with the host, and every run brings them",
           program_.devices[d].name, FormatBytes(streamed));
    }
    for (const program::Entry& entry : program_.entries) {
      for (const program::Arena& arena : entry.arenas) {
        const auto size = arena.size_bytes.AsConstant();
        Line("  {}: activations {} (entry '{}')", program_.devices[arena.device].name,
             size ? FormatBytes(*size) : FormatExpr(program_, arena.size_bytes) + " bytes",
             entry.name);
      }
    }
    for (const program::Record& record : program_.records) {
      if (record.kind == "memory") Line("  {}: {}", record.subject, record.text);
    }
  }

  void PrintPhases() {
    Line("phases");
    // What takes less than a hundredth of all is summed, where that leaves out more than one line.
    double total = 0, rest = 0;
    for (const Phase& phase : loaded_.phases()) total += phase.seconds;
    const auto is_small = [&](const Phase& phase) { return phase.seconds < total / 100; };
    const auto small = std::count_if(loaded_.phases().begin(), loaded_.phases().end(), is_small);
    for (const Phase& phase : loaded_.phases()) {
      if (small > 1 && is_small(phase))
        rest += phase.seconds;
      else
        Line("  {}: {}", phase.name, FormatSeconds(phase.seconds));
    }
    if (small > 1) Line("  {} more, each below 1 % of all: {}", small, FormatSeconds(rest));
    for (const CompiledVariant& variant : loaded_.variants().compiled()) {
      Line("  compile for {}{}: {}{}{}", variant.sizes,
           variant.is_background ? ", in the background" : "", FormatSeconds(variant.seconds),
           variant.outcome.ok() ? "" : ", failed: ",
           variant.outcome.ok() ? "" : variant.outcome.ToLine());
    }
  }

  Json RecordsJson(std::string_view kind) const {
    Json list = Json::array();
    for (const program::Record& record : program_.records) {
      if (record.kind == kind) list.push_back({{"subject", record.subject}, {"text", record.text}});
    }
    return list;
  }

  // What the cost model expects of kernels, by the labels of their dispatches.
  Json PredictionsJson() const {
    Json list = Json::array();
    for (const program::Record& record : program_.records) {
      if (record.kind != place::kPredictedRecord) continue;
      const auto prediction = place::ParsePrediction(record.text);
      if (!prediction.ok()) continue;
      const place::Work& work = prediction->work;
      list.push_back({{"class", place::FormatOpClass(work.op_class)},
                      {"seconds", prediction->seconds},
                      {"source", place::FormatSource(prediction->source)},
                      {"dtype", FormatDType(work.dtype)},
                      {"flops", work.flops},
                      {"bytes", work.bytes},
                      {"results", work.results},
                      {"dispatches", prediction->labels}});
    }
    return list;
  }

  // Records whose text is a word and then a list, in lines, under these names.
  Json LinesJson(std::string_view kind, const char* subject, const char* first,
                 const char* rest) const {
    Json list = Json::array();
    for (const program::Record& record : program_.records) {
      if (record.kind != kind) continue;
      Json lines = Json::array();
      size_t at = record.text.find('\n');
      const std::string word = record.text.substr(0, at);
      while (at != std::string::npos) {
        const size_t end = record.text.find('\n', at + 1);
        lines.push_back(record.text.substr(at + 1, end - at - 1));
        at = end;
      }
      list.push_back({{subject, record.subject}, {first, word}, {rest, std::move(lines)}});
    }
    return list;
  }
  // The nodes of the model with their ops and outputs, and its weights, as the compiler recorded
  // them.
  Json SourcesJson() const { return LinesJson("source", "node", "op", "outputs"); }
  Json WeightsJson() const { return LinesJson("weight", "weight", "type", "readers"); }

  Json DevicesJson() const {
    Json list = Json::array();
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      const Counts counts = CountCommands(d);
      list.push_back({{"device", program_.devices[d].name},
                      {"identity", program_.devices[d].identity},
                      {"dispatches", counts.dispatches},
                      {"copies", counts.copies},
                      {"fills", counts.fills},
                      {"interpreted", counts.interpreted}});
    }
    return list;
  }

  Json TensorsJson(const std::vector<program::TensorDesc>& tensors) const {
    Json list = Json::array();
    for (const program::TensorDesc& tensor : tensors) {
      Json dims = Json::array();
      for (const program::SizeExpr& dim : tensor.dims) {
        if (const auto value = dim.AsConstant())
          dims.push_back(*value);
        else
          dims.push_back(FormatExpr(program_, dim));
      }
      list.push_back(
          {{"name", tensor.name}, {"dtype", FormatDType(tensor.dtype)}, {"dims", std::move(dims)}});
    }
    return list;
  }

  // An equation is two guards of one text, which says it once.
  static std::vector<std::string_view> GuardTexts(const program::Entry& entry) {
    std::vector<std::string_view> texts;
    for (const program::Guard& guard : entry.guards) {
      if (std::find(texts.begin(), texts.end(), guard.text) == texts.end())
        texts.push_back(guard.text);
    }
    return texts;
  }

  Json EntriesJson() const {
    Json list = Json::array();
    for (const program::Entry& entry : program_.entries) {
      Json guards = Json::array();
      for (const std::string_view guard : GuardTexts(entry)) guards.push_back(guard);
      list.push_back({{"name", entry.name},
                      {"inputs", TensorsJson(entry.inputs)},
                      {"outputs", TensorsJson(entry.outputs)},
                      {"guards", std::move(guards)}});
    }
    return list;
  }

  Json DispatchesJson() const {
    Json list = Json::array();
    const PartNames parts(program_);
    for (const program::Entry& entry : program_.entries) {
      for (const program::Block& block : entry.blocks) {
        for (const program::Command& command : block.commands) {
          if (command.kind != program::CommandKind::kDispatch) continue;
          list.push_back(
              {{"label", command.label},
               {"entry", entry.name},
               {"device", program_.devices[block.device].name},
               {"kernel", program_.executables[command.executable].entries[command.entry].name}});
          // Without the space and the brackets of text.
          const std::string nodes = parts.Describe(command.label);
          if (!nodes.empty()) list.back()["nodes"] = nodes.substr(2, nodes.size() - 3);
        }
      }
    }
    return list;
  }

  Json MemoryJson() const {
    Json list = Json::array();
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      Json arenas = Json::array();
      for (const program::Entry& entry : program_.entries) {
        for (const program::Arena& arena : entry.arenas) {
          if (arena.device != d) continue;
          if (const auto size = arena.size_bytes.AsConstant())
            arenas.push_back(*size);
          else
            arenas.push_back(FormatExpr(program_, arena.size_bytes));
        }
      }
      list.push_back({{"device", program_.devices[d].name},
                      {"constant_bytes", ConstantBytes(d)},
                      {"streamed_bytes", ConstantBytes(d, true)},
                      {"activation_bytes", std::move(arenas)}});
      if (program_.devices[d].memory_cap_bytes > 0)
        list.back()["cap_bytes"] = program_.devices[d].memory_cap_bytes;
    }
    return {{"devices", std::move(list)}, {"notes", RecordsJson("memory")}};
  }

  const LoadedProgram& loaded_;
  const program::Program& program_;
  std::string out_;
};

}  // namespace

Result<std::string> MakeReport(const LoadedProgram& program, ReportKind kind, ReportFormat format) {
  if (kind < ReportKind::kAll || kind > ReportKind::kCommands) {
    return InvalidArgument("There is no report of kind {}; {} to {} are kinds.",
                           static_cast<int>(kind), static_cast<int>(ReportKind::kAll),
                           static_cast<int>(ReportKind::kCommands));
  }
  if (kind == ReportKind::kCommands) {
    if (format == ReportFormat::kText) return program::Format(program.program());
    return Unimplemented("The commands of a program are printed as text only.");
  }
  switch (format) {
    case ReportFormat::kText:
      return Reporter(program).Text(kind);
    case ReportFormat::kJson:
      return Dump(Reporter(program).ToJson(kind));
    case ReportFormat::kDot:
      if (kind == ReportKind::kAll) return Reporter(program).Dot();
      return Unimplemented("DOT exists for the report of everything only.");
    case ReportFormat::kHtml:
      if (kind == ReportKind::kAll) return MakeHtmlReport(program.program());
      return Unimplemented("HTML exists for the report of everything only.");
  }
  return InvalidArgument("There is no report format {}; {} to {} are formats.",
                         static_cast<int>(format), static_cast<int>(ReportFormat::kText),
                         static_cast<int>(ReportFormat::kHtml));
}

Result<std::vector<DeviceMemory>> PredictMemory(const LoadedProgram& loaded,
                                                const std::map<std::string, int64_t>& symbols) {
  const auto path_of = [&](uint32_t from, uint32_t to) { return loaded.path(from, to); };
  return PredictMemory(loaded.program(), loaded.devices(), path_of, symbols);
}

Result<std::vector<DeviceMemory>> PredictMemory(
    const program::Program& program, std::span<const Ref<hal::Device>> devices,
    const std::function<TransferPath(uint32_t from, uint32_t to)>& path_of,
    const std::map<std::string, int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const program::Symbol& symbol : program.symbols) {
    const auto given = symbols.find(symbol.name);
    if (given == symbols.end()) {
      return InvalidArgument("Symbol '{}' has no value; the memory depends on it.", symbol.name);
    }
    HY_TRY(CheckSymbolValue(symbol, given->second));
    values.push_back(given->second);
  }
  for (const auto& [name, value] : symbols) {
    const auto is_name = [&n = name](const program::Symbol& s) { return s.name == n; };
    if (std::none_of(program.symbols.begin(), program.symbols.end(), is_name)) {
      std::vector<std::string> known;
      for (const program::Symbol& symbol : program.symbols) known.push_back(symbol.name);
      return InvalidArgument("The program has no symbol '{}'; its symbols: {}.", name,
                             NamesLike(name, known));
    }
  }
  std::vector<DeviceMemory> out(program.devices.size());
  for (size_t d = 0; d < out.size(); ++d) out[d].device = program.devices[d].name;
  const auto add = [](int64_t& total, int64_t bytes) -> Status {
    if (__builtin_add_overflow(total, bytes, &total))
      return OutOfRange("The memory exceeds 64 bits.");
    return OkStatus();
  };
  const std::vector<bool> streamed = program::StreamedConstants(program);
  for (size_t c = 0; c < streamed.size(); ++c) {
    DeviceMemory& memory = out[program.constants[c].device];
    HY_TRY(add(streamed[c] ? memory.streamed_bytes : memory.constant_bytes,
               static_cast<int64_t>(program.constants[c].size_bytes)));
  }
  HY_ASSIGN(const program::Entry* entry, SelectEntry(program, values));
  for (const program::Arena& arena : entry->arenas) {
    HY_ASSIGN(const int64_t bytes, arena.size_bytes.Evaluate(values));
    HY_TRY(add(out[arena.device].activation_bytes, bytes));
  }
  for (const auto* list : {&entry->inputs, &entry->outputs}) {
    for (const program::TensorDesc& tensor : *list) {
      HY_ASSIGN(const int64_t bytes, TensorBytes(tensor, values));
      DeviceMemory& memory = out[tensor.device];
      HY_TRY(add(memory.io_bytes, bytes));
      if (!SharesHostMemory(*devices[tensor.device])) HY_TRY(add(memory.staging_bytes, bytes));
    }
  }
  for (const program::Block& block : entry->blocks) {
    for (const program::Command& command : block.commands) {
      if (command.kind != program::CommandKind::kTransfer) continue;
      const program::BufferRange& source = entry->buffers[command.bindings[0]];
      HY_ASSIGN(const int64_t bytes, source.size.Evaluate(values));
      const uint32_t from = program.DeviceOf(*entry, source);
      if (from == block.device) continue;  // streamed weights
      const TransferPath path = path_of(from, block.device);
      if (path.stages_out) HY_TRY(add(out[from].staging_bytes, StagingBytes(bytes)));
      if (path.stages_in) HY_TRY(add(out[block.device].staging_bytes, StagingBytes(bytes)));
    }
  }
  return out;
}

}  // namespace halyard::runtime
