// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/parser.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/near_names.h"
#include "base/quantity.h"
#include "compiler/expr/largest_symbol.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/constants.h"
#include "compiler/graph/text_scanner.h"

namespace halyard::graph {
namespace {

std::string WithoutStop(std::string sentence) {
  if (!sentence.empty() && sentence.back() == '.') sentence.pop_back();
  return sentence;
}

Result<double> ParseDouble(TextScanner& scanner) {
  HY_ASSIGN(const std::string text, scanner.Scalar());
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return scanner.Error(fmt::format("'{}' is not a number", text));
  }
  return value;
}

// "[a, b, ...]" with one call of `read` per entry.
template <typename Read>
Status ParseList(TextScanner& scanner, Read&& read) {
  HY_TRY(scanner.Expect("["));
  bool is_first = true;
  while (!scanner.TryConsume("]")) {
    if (!is_first) HY_TRY(scanner.Expect(","));
    is_first = false;
    HY_TRY(read());
  }
  return OkStatus();
}

std::string_view FormatKind(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt:
      return "an integer of 64 bits";
    case AttributeKind::kFloat:
      return "a number";
    case AttributeKind::kString:
      return "a string";
    case AttributeKind::kDType:
      return "a dtype";
    case AttributeKind::kInts:
      return "a list of integers of 64 bits";
    case AttributeKind::kFloats:
      return "a list of numbers";
    case AttributeKind::kExprs:
      return "a list of sizes";
  }
  return "nothing";
}

Result<Attribute> ParseAttribute(Module& module, TextScanner& scanner, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt: {
      HY_ASSIGN(const int64_t value, scanner.Integer());
      return Attribute(value);
    }
    case AttributeKind::kFloat: {
      HY_ASSIGN(const double value, ParseDouble(scanner));
      return Attribute(value);
    }
    case AttributeKind::kString: {
      HY_ASSIGN(std::string value, scanner.Quoted());
      return Attribute(std::move(value));
    }
    case AttributeKind::kDType: {
      HY_ASSIGN(const std::string name, scanner.Word());
      HY_ASSIGN(const DType dtype, ParseDType(name));
      return Attribute(dtype);
    }
    case AttributeKind::kInts: {
      std::vector<int64_t> values;
      HY_TRY(ParseList(scanner, [&]() -> Status {
        HY_ASSIGN(const int64_t value, scanner.Integer());
        values.push_back(value);
        return OkStatus();
      }));
      return Attribute(std::move(values));
    }
    case AttributeKind::kFloats: {
      std::vector<double> values;
      HY_TRY(ParseList(scanner, [&]() -> Status {
        HY_ASSIGN(const double value, ParseDouble(scanner));
        values.push_back(value);
        return OkStatus();
      }));
      return Attribute(std::move(values));
    }
    case AttributeKind::kExprs: {
      std::vector<Expr> values;
      HY_TRY(ParseList(scanner, [&]() -> Status {
        HY_ASSIGN(const std::string text, scanner.Balanced(",]"));
        HY_ASSIGN(const Expr value, module.exprs.Parse(text));
        values.push_back(value);
        return OkStatus();
      }));
      return Attribute(std::move(values));
    }
  }
  return Internal("An attribute kind is not read.");
}

// What stands at the scanner's position is not what the attribute needs.
Status WrongValue(TextScanner& scanner, const OpDef& op, const AttributeDef& attribute, char end) {
  const size_t start = scanner.position();
  Result<std::string> value =
      scanner.Peek() == '"' ? scanner.Quoted() : scanner.Balanced(std::string{',', end});
  scanner.set_position(start);
  return scanner.Error(fmt::format("the attribute '{}' of {} is '{}'; {} is needed", attribute.name,
                                   op.name, value.ok() ? value->substr(0, 200) : "",
                                   FormatKind(attribute.kind)));
}

Status ParseAttributesUntil(Module& module, const OpDef& op, TextScanner& scanner, char end,
                            Attributes& attributes) {
  while (scanner.Peek() != end) {
    if (!attributes.empty()) HY_TRY(scanner.Expect(","));
    HY_ASSIGN(const std::string name, scanner.Word());
    HY_TRY(scanner.Expect("="));
    const auto found = std::find_if(op.attributes.begin(), op.attributes.end(),
                                    [&](const AttributeDef& d) { return d.name == name; });
    if (found == op.attributes.end()) {
      std::vector<std::string> known;
      for (const AttributeDef& one : op.attributes) known.emplace_back(one.name);
      return scanner.Error(fmt::format("{} has no attribute '{}'; it has {}", op.name, name,
                                       NamesLike(name, known)));
    }
    const size_t start = scanner.position();
    Result<Attribute> attribute = ParseAttribute(module, scanner, found->kind);
    if (!attribute.ok() || (scanner.Peek() != ',' && scanner.Peek() != end)) {
      scanner.set_position(start);
      return WrongValue(scanner, op, *found, end);
    }
    if (!attributes.emplace(name, std::move(attribute).value()).second) {
      return scanner.Error(fmt::format("the attribute '{}' of {} is given twice", name, op.name));
    }
  }
  return OkStatus();
}

class ModuleParser {
 public:
  ModuleParser(std::string_view text, const ConstantResolver& resolver, TextOrigin origin)
      : scanner_(text), resolver_(resolver), origin_(origin) {}

  Result<Module> Run() {
    while (scanner_.TryWord("symbol")) HY_TRY(ParseSymbol());
    HY_TRY(FindGraphs());
    if (places_.empty()) return scanner_.Error("a module has a graph");
    builder_ = std::make_unique<Builder>(module_);
    for (uint32_t graph = 0; graph < places_.size(); ++graph) {
      if (const Status read = ParseGraph(graph); !read.ok()) {
        if (origin_ == TextOrigin::kRecorded) return read;
        return read.WithContext(fmt::format("reading graph '{}'", module_.graphs[graph].name));
      }
      if (graph > 0 && !places_[graph].is_region) {
        return scanner_.Error(
            fmt::format("graph '{}' is the region of no node", module_.graphs[graph].name));
      }
    }
    builder_.reset();
    return std::move(module_);
  }

 private:
  enum class State : uint8_t { kUnread, kReading, kRead };
  struct Place {
    size_t position;  // after the name
    State state = State::kUnread;
    bool is_region = false;  // of a node
  };

  // From here errors are about this. A recorded node and its first result share a name.
  void SetSubject(std::string_view kind, std::string_view name) {
    if (origin_ == TextOrigin::kRecorded) scanner_.set_subject(fmt::format("{} '{}'", kind, name));
  }

  Status ParseSymbol() {
    HY_ASSIGN(const std::string name, scanner_.Name());
    SetSubject("symbol", name);
    HY_TRY(scanner_.Expect("in"));
    HY_TRY(scanner_.Expect("["));
    ExprRange range;
    HY_ASSIGN(range.lo, scanner_.Integer());
    HY_TRY(scanner_.Expect(","));
    HY_ASSIGN(range.hi, scanner_.Integer());
    HY_TRY(scanner_.Expect("]"));
    int64_t divisor = 1;
    if (scanner_.TryWord("divisor")) {
      HY_ASSIGN(divisor, scanner_.Integer());
    }
    if (range.lo < 0 || range.lo > kLargestSymbol || range.hi < range.lo || divisor < 1) {
      return scanner_.Error(
          fmt::format("a symbol has a range that begins in [0, {}] and a divisor of 1 or more",
                      kLargestSymbol));
    }
    module_.exprs.Constrain(module_.exprs.Dim(name), range, divisor);
    return OkStatus();
  }

  // Makes the graphs and notes where each stands, so that a node can name a region further down.
  Status FindGraphs() {
    while (!scanner_.AtEnd()) {
      if (!scanner_.TryWord("graph")) return scanner_.Error("'graph' is expected here");
      HY_ASSIGN(const std::string name, scanner_.Name());
      if (name.empty()) return scanner_.Error("a graph has a name");
      if (graphs_.count(name) != 0) {
        return scanner_.Error(fmt::format("there are two graphs '{}'", name));
      }
      graphs_[name] = AddGraph(module_, name);
      places_.push_back({.position = scanner_.position()});
      HY_TRY(SkipGraph());
    }
    return OkStatus();
  }

  Status SkipGraph() {
    int depth = 0;
    bool has_body = false;
    while (!has_body || depth > 0) {
      const char c = scanner_.Peek();
      if (c == 0) return scanner_.Error("the graph does not end");
      if (c == '"') {
        HY_TRY(scanner_.Quoted());
        continue;
      }
      if (c == '`') {
        HY_TRY(scanner_.Balanced(",]"));
        continue;
      }
      if (c == '{') ++depth, has_body = true;
      if (c == '}') --depth;
      if (depth < 0) return scanner_.Error("'}' closes nothing");
      scanner_.set_position(scanner_.position() + 1);
    }
    return OkStatus();
  }

  Status ParseGraph(uint32_t index) {
    Place& place = places_[index];
    if (place.state == State::kRead) return OkStatus();
    if (place.state == State::kReading) {
      return scanner_.Error(fmt::format("graph '{}' contains itself", module_.graphs[index].name));
    }
    place.state = State::kReading;
    if (++nesting_ > 64) return scanner_.Error("regions nest deeper than 64");
    const size_t resume = scanner_.position();
    const uint32_t outer = builder_->graph();
    scanner_.set_position(place.position);
    builder_->InsertAtEnd(index);
    HY_TRY(ParseBody(index));
    scanner_.set_position(resume);
    builder_->InsertAtEnd(outer);
    --nesting_;
    places_[index].state = State::kRead;
    return OkStatus();
  }

  Status ParseBody(uint32_t index) {
    HY_TRY(scanner_.Expect("("));
    bool is_first = true;
    while (!scanner_.TryConsume(")")) {
      if (!is_first) HY_TRY(scanner_.Expect(","));
      is_first = false;
      HY_ASSIGN(const std::string name, NewValueName());
      HY_TRY(scanner_.Expect(":"));
      SetSubject("input", name);
      HY_ASSIGN(TensorType type, ParseOneType());
      HY_ASSIGN(const ValueId value, builder_->AddParameter(name, std::move(type)));
      values_[name] = {value, index};
    }
    HY_TRY(scanner_.Expect("->"));
    const size_t results_at = scanner_.position();
    HY_TRY(scanner_.Balanced("{"));
    HY_TRY(scanner_.Expect("{"));
    while (!scanner_.TryConsume("}")) HY_TRY(ParseNode(index));
    const size_t end = scanner_.position();
    scanner_.set_position(results_at);
    HY_TRY(ParseResults(index));
    scanner_.set_position(end);
    return OkStatus();
  }

  Status ParseResults(uint32_t index) {
    HY_TRY(scanner_.Expect("("));
    std::vector<ValueId> results;
    std::vector<std::string> names;
    while (!scanner_.TryConsume(")")) {
      if (!results.empty()) HY_TRY(scanner_.Expect(","));
      std::optional<std::string> name;
      if (scanner_.Peek() == '"') {
        HY_ASSIGN(name, scanner_.Quoted());
        SetSubject("output", *name);
        HY_TRY(scanner_.Expect("="));
      }
      HY_ASSIGN(const ValueId value, OldValue(index));
      results.push_back(value);
      names.push_back(name ? *name : module_.values[value].name);
    }
    return builder_->SetResults(std::move(results), std::move(names));
  }

  Result<std::string> NewValueName() {
    HY_TRY(scanner_.Expect("%"));
    HY_ASSIGN(std::string name, scanner_.Name());
    if (values_.count(name) != 0) {
      return scanner_.Error(fmt::format("there are two values '%{}'", name));
    }
    return name;
  }

  Result<ValueId> OldValue(uint32_t graph) {
    HY_TRY(scanner_.Expect("%"));
    HY_ASSIGN(const std::string name, scanner_.Name());
    const auto found = values_.find(name);
    if (found == values_.end() || found->second.graph != graph) {
      return scanner_.Error(fmt::format("the value '%{}' is not defined before this", name));
    }
    return found->second.value;
  }

  Result<TensorType> ParseOneType() {
    HY_ASSIGN(std::string text, scanner_.Word());
    HY_TRY(scanner_.Expect("["));
    text += "[";
    if (scanner_.Peek() != ']') {
      HY_ASSIGN(const std::string dims, scanner_.Balanced("]"));
      text += dims;
    }
    HY_TRY(scanner_.Expect("]"));
    Result<TensorType> type = ParseType(module_.exprs, text + "]");
    if (type.ok() || origin_ == TextOrigin::kWritten) return type;
    return scanner_.Error(WithoutStop(type.status().message()));
  }

  // "order(0, 2, 3, 1)" after a type of `rank` dims; empty where it does not stand.
  Result<std::vector<uint32_t>> ParseLayout(size_t rank) {
    std::vector<uint32_t> layout;
    if (!scanner_.TryConsume("order(")) return layout;
    std::vector<bool> is_used(rank, false);
    do {
      HY_ASSIGN(const std::string digits, scanner_.Word());
      uint32_t axis = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), axis);
      if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || axis >= rank ||
          is_used[axis]) {
        return scanner_.Error(fmt::format("'{}' is no axis, or stands twice", digits));
      }
      is_used[axis] = true;
      layout.push_back(axis);
    } while (scanner_.TryConsume(","));
    HY_TRY(scanner_.Expect(")"));
    if (layout.size() != rank) return scanner_.Error("an order names every axis once");
    return layout;
  }

  Result<ValueId> ParseConstant() {
    std::string name;
    if (scanner_.TryConsume("@")) {
      HY_ASSIGN(name, scanner_.Name());
    }
    const size_t start = scanner_.position();
    HY_ASSIGN(const TensorType type, ParseOneType());
    ConstantId constant = kNone;
    if (scanner_.TryConsume("#")) {
      HY_ASSIGN(const std::string digits, scanner_.Word());
      uint64_t hash = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
      if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
        return scanner_.Error(fmt::format("'{}' is not a hash", digits));
      }
      std::vector<int64_t> dims;
      for (const Expr dim : type.dims) {
        const std::optional<int64_t> size = module_.exprs.AsConst(dim);
        if (!size) return scanner_.Error("a constant has constant dims");
        dims.push_back(*size);
      }
      HY_ASSIGN(const int64_t count, CountElements(dims));
      HY_ASSIGN(const int64_t size_bytes, StorageBytes(type.dtype, count));
      std::shared_ptr<const ByteSource> bytes = MissingBytes(name, size_bytes);
      if (resolver_) {
        HY_ASSIGN(bytes, resolver_(hash, type.dtype, dims));
        if (bytes == nullptr || bytes->size_bytes() != size_bytes) {
          return scanner_.Error(fmt::format("the data of constant '{}' have another size", name));
        }
      }
      HY_ASSIGN(constant,
                builder_->AddHashedConstant(name, type.dtype, dims, hash, std::move(bytes)));
    } else {
      scanner_.set_position(start);
      HY_ASSIGN(std::string text, scanner_.Balanced("{"));
      HY_TRY(scanner_.Expect("{"));
      text += "{";
      if (scanner_.Peek() != '}') {
        HY_ASSIGN(const std::string elements, scanner_.Balanced("}"));
        text += elements;
      }
      HY_TRY(scanner_.Expect("}"));
      HY_ASSIGN(const Tensor tensor, ParseTensor(text + "}"));
      HY_ASSIGN(constant,
                builder_->AddConstant(name, tensor.dtype, tensor.dims, OwnBytes(tensor.bytes)));
    }
    return builder_->ConstantNode(constant);
  }

  Status ParseNode(uint32_t graph) {
    std::vector<std::string> names;
    do {
      HY_ASSIGN(std::string name, NewValueName());
      names.push_back(std::move(name));
    } while (scanner_.TryConsume(","));
    SetSubject("node", names[0]);
    HY_TRY(scanner_.Expect("="));
    HY_ASSIGN(const std::string op_name, scanner_.Word());
    const OpDef* op = FindOp(op_name);
    if (op == nullptr) {
      std::vector<std::string> known;
      for (const OpDef* one : AllOps()) known.emplace_back(one->name);
      const std::string near = NamesNear(op_name, known);
      return scanner_.Error(fmt::format("'{}' is not an op{}{}", op_name,
                                        near.empty() ? "" : "; near it are ", near));
    }
    std::vector<ValueId> results;
    if (op_name == "constant") {
      HY_ASSIGN(const ValueId value, ParseConstant());
      results = {value};
      HY_ASSIGN(const std::string name, ParseNodeName());
      module_.nodes.back().name = name;
    } else {
      HY_ASSIGN(results, ParseOperation(graph, *op, names.size()));
    }
    if (results.size() != names.size()) {
      return scanner_.Error(fmt::format("{} has {}, not {}", op_name,
                                        Counted(results.size(), "result"), names.size()));
    }
    builder_->Rename(results, names);
    for (size_t i = 0; i < names.size(); ++i) values_[names[i]] = {results[i], graph};
    return OkStatus();
  }

  Result<std::string> ParseNodeName() {
    if (scanner_.Peek() != '"') return std::string();
    return scanner_.Quoted();
  }

  Result<std::vector<ValueId>> ParseOperation(uint32_t graph, const OpDef& op,
                                              size_t result_count) {
    const size_t start = scanner_.position();
    std::vector<ValueId> operands;
    if (scanner_.Peek() == '%' || scanner_.Peek() == '_') {
      do {
        if (scanner_.TryConsume("_")) {
          operands.push_back(kNone);
          continue;
        }
        HY_ASSIGN(const ValueId operand, OldValue(graph));
        operands.push_back(operand);
      } while (scanner_.TryConsume(","));
    }
    Attributes attributes;
    if (scanner_.TryConsume("{")) {
      HY_TRY(ParseAttributesUntil(module_, op, scanner_, '}', attributes));
      HY_TRY(scanner_.Expect("}"));
    }
    std::vector<uint32_t> regions;
    if (scanner_.Peek() == '[') {
      HY_TRY(ParseList(scanner_, [&]() -> Status {
        HY_ASSIGN(const std::string name, scanner_.Name());
        const auto found = graphs_.find(name);
        if (found == graphs_.end()) return scanner_.Error(fmt::format("no graph '{}'", name));
        Place& place = places_[found->second];
        if (place.is_region) {
          return scanner_.Error(fmt::format("graph '{}' is the region of another node", name));
        }
        place.is_region = true;
        HY_TRY(ParseGraph(found->second));
        regions.push_back(found->second);
        return OkStatus();
      }));
    }
    std::vector<TensorType> types;
    std::vector<std::vector<uint32_t>> layouts;
    if (scanner_.TryConsume(":")) {
      do {
        HY_ASSIGN(TensorType type, ParseOneType());
        HY_ASSIGN(std::vector<uint32_t> layout, ParseLayout(type.dims.size()));
        types.push_back(std::move(type));
        layouts.push_back(std::move(layout));
      } while (scanner_.TryConsume(","));
    }
    HY_ASSIGN(const std::string node_name, ParseNodeName());
    builder_->SetNodeName(node_name);
    Result<std::vector<ValueId>> added =
        builder_->Add(op.name, std::move(operands), std::move(attributes), std::move(regions));
    const size_t end = scanner_.position();
    scanner_.set_position(start);  // messages point at the node
    if (!added.ok()) {
      if (origin_ == TextOrigin::kRecorded) return added;  // it names the node
      return scanner_.Error(WithoutStop(added.status().message()));
    }
    if (!types.empty() && types.size() != result_count) {
      return scanner_.Error("there is not one type for each result");
    }
    for (size_t i = 0; i < types.size() && i < added->size(); ++i) {
      const TensorType& inferred = module_.values[(*added)[i]].type;
      if (types[i] == inferred) continue;
      return scanner_.Error(fmt::format("the type {} stands here; inference says {}",
                                        FormatType(module_.exprs, types[i]),
                                        FormatType(module_.exprs, inferred)));
    }
    for (size_t i = 0; i < layouts.size(); ++i) {
      module_.values[(*added)[i]].layout = std::move(layouts[i]);
    }
    scanner_.set_position(end);
    return added;
  }

  struct NamedValue {
    ValueId value;
    uint32_t graph;
  };

  TextScanner scanner_;
  const ConstantResolver& resolver_;
  const TextOrigin origin_;
  Module module_;
  std::unique_ptr<Builder> builder_;
  std::map<std::string, uint32_t, std::less<>> graphs_;
  std::vector<Place> places_;
  std::map<std::string, NamedValue, std::less<>> values_;
  int nesting_ = 0;
};

}  // namespace

Result<Module> ParseModule(std::string_view text, const ConstantResolver& resolver,
                           TextOrigin origin) {
  return ModuleParser(text, resolver, origin).Run();
}

Result<Attributes> ParseAttributes(Module& module, const OpDef& op, std::string_view text) {
  TextScanner scanner(text);
  Attributes attributes;
  HY_TRY(ParseAttributesUntil(module, op, scanner, '\0', attributes));
  return attributes;
}

}  // namespace halyard::graph
