// SPDX-License-Identifier: Apache-2.0
// Recording of graphs, and their text.
#include "runtime/graph_record.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/excerpt.h"
#include "base/hash.h"
#include "base/near_names.h"
#include "base/quantity.h"
#include "compiler/expr/expr.h"
#include "compiler/expr/largest_symbol.h"

namespace halyard::runtime {
namespace {

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c < 32 || c > 126) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string FormatAttribute(const GraphRecord::Attribute& attribute) {
  struct Visitor {
    std::string operator()(int64_t value) const { return fmt::format("{}", value); }
    // Never read back as an integer.
    std::string operator()(double value) const {
      std::string text = fmt::format("{}", value);
      return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& value) const { return Quote(value); }
    std::string operator()(DType value) const { return std::string(FormatDType(value)); }
    std::string operator()(const std::vector<int64_t>& values) const {
      return fmt::format("[{}]", fmt::join(values, ", "));
    }
    std::string operator()(const std::vector<double>& values) const {
      std::string list;
      for (const double value : values) list += (list.empty() ? "" : ", ") + (*this)(value);
      return "[" + list + "]";
    }
    std::string operator()(const GraphRecord::Expressions& value) const {
      return "[" + value.text + "]";
    }
  };
  return std::visit(Visitor{}, attribute);
}

// Sizes are pasted into the text; what could end a list early is refused where it enters.
Status CheckCharacters(std::string_view text) {
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("_.+-*(), ", c) != nullptr)
      continue;
    return InvalidArgument(
        "The sizes '{}' hold the character '{}'; names, numbers, '+', '-', '*', '(', ')' "
        "and ',' are allowed.",
        text, c);
  }
  return OkStatus();
}

// "a, min(b, 2)" as " a" and "min(b, 2)"; nothing for blank text.
std::vector<std::string_view> SplitSizes(std::string_view text) {
  std::vector<std::string_view> parts;
  if (text.find_first_not_of(' ') == std::string_view::npos) return parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  return parts;
}

// Dims could not name anything else, or would mean something else by it.
Status CheckSymbolName(std::string_view name) {
  if (name.empty()) return InvalidArgument("A symbol has no name.");
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  const bool is_name = std::all_of(name.begin(), name.end(), is_word) &&
                       (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_');
  if (is_name && name != "min" && name != "max" && name != "mod" && name != "floordiv") {
    return OkStatus();
  }
  return InvalidArgument(
      "Symbol '{}' cannot be named in sizes; a letter or '_' and then letters, digits, '_' and '.' "
      "are needed, and not min, max, mod or floordiv.",
      name);
}

constexpr size_t kMaxNodes = size_t{1} << 22;

// Borrowed memory with the host's release function, or a copy.
class HostBytes : public graph::ByteSource {
 public:
  HostBytes(const void* data, size_t size, void (*release)(void*), void* context)
      : release_(release), context_(context) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    if (release == nullptr && data != nullptr) {
      copy_.assign(bytes, bytes + size);
      bytes_ = copy_;
    } else {
      bytes_ = {bytes, data == nullptr ? 0 : size};
    }
  }
  ~HostBytes() override {
    if (release_ != nullptr) release_(context_);
  }
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  Status Read(int64_t offset, std::span<uint8_t> out) const override {
    if (offset < 0 || static_cast<uint64_t>(offset) > bytes_.size() ||
        out.size() > bytes_.size() - static_cast<uint64_t>(offset)) {
      return OutOfRange("Bytes {} to {} + {} of a constant of {} bytes are read.", offset, offset,
                        out.size(), bytes_.size());
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return OkStatus();
  }
  std::span<const uint8_t> InMemory() const override { return bytes_; }

 private:
  std::vector<uint8_t> copy_;
  std::span<const uint8_t> bytes_;
  void (*release_)(void*);
  void* context_;
};

}  // namespace

std::shared_ptr<const graph::ByteSource> MakeByteSource(const void* data, size_t size_bytes,
                                                        void (*release)(void*), void* context) {
  return std::make_shared<HostBytes>(data, size_bytes, release, context);
}

Status GraphRecord::CheckNewNames(std::span<const std::string> names) const {
  if (names.size() > kMaxNodes - value_names_.size()) {
    return OutOfRange("The graph has {}; no more are possible.",
                      Counted(value_names_.size(), "value"));
  }
  for (const std::string& name : names) {
    if (name.empty())
      return InvalidArgument("The name is empty; every input, constant and value has one.");
    if (names_.count(name) != 0) {
      return InvalidArgument(
          "The name '{}' is taken; inputs, constants and nodes of a graph have different names.",
          name);
    }
  }
  return OkStatus();
}

GraphRecord::Value GraphRecord::NewValue(std::string name) {
  names_.insert(name);
  value_names_.push_back(std::move(name));
  return static_cast<Value>(value_names_.size() - 1);
}

Status GraphRecord::CheckSizes(std::string_view text, bool are_dims) const {
  HY_TRY(CheckCharacters(text));
  ExprArena exprs;
  std::string unknown;
  const auto resolve = [&](std::string_view name) -> std::optional<Expr> {
    const bool is_known = std::any_of(symbols_.begin(), symbols_.end(),
                                      [&](const Symbol& symbol) { return symbol.name == name; });
    if (!is_known && unknown.empty()) unknown = name;
    return std::nullopt;
  };
  for (const std::string_view part : SplitSizes(text)) {
    const Result<Expr> size = exprs.Parse(part, resolve);
    if (!size.ok())
      return size.status().WithContext(fmt::format("reading the sizes '{}'", text.substr(0, 200)));
    if (const auto value = exprs.AsConst(*size); are_dims && value && *value < 0) {
      return InvalidArgument("The sizes '{}' have a dimension of {}; the least is 0.", text,
                             *value);
    }
  }
  if (unknown.empty()) return OkStatus();
  std::vector<std::string> known;
  for (const Symbol& symbol : symbols_) known.push_back(symbol.name);
  return InvalidArgument(
      "The sizes '{}' name the symbol '{}', which hy_graph_symbol has not declared; declared are "
      "{}.",
      text, unknown, NamesLike(unknown, known));
}

Status GraphRecord::AddSymbol(std::string_view name, int64_t min, int64_t max,
                              int64_t multiple_of) {
  if (min < 0 || min > max) {
    return InvalidArgument("Symbol '{}' has the range [{}, {}]; 0 <= min <= max is needed.", name,
                           min, max);
  }
  if (multiple_of < 1) {
    return InvalidArgument("Symbol '{}' is a multiple of {}; at least 1 is needed.", name,
                           multiple_of);
  }
  if (min > kLargestSymbol) {
    return InvalidArgument("Symbol '{}' is at least {}; the largest value of a symbol is {}.", name,
                           min, kLargestSymbol);
  }
  max = std::min(max, kLargestSymbol);
  if (max / multiple_of * multiple_of < min) {
    return InvalidArgument("Symbol '{}' has no value: none in [{}, {}] is a multiple of {}.", name,
                           min, max, multiple_of);
  }
  HY_TRY(CheckSymbolName(name));
  for (const Symbol& symbol : symbols_) {
    if (symbol.name == name) return InvalidArgument("Symbol '{}' exists already.", name);
  }
  symbols_.push_back({std::string(name), min, max, multiple_of});
  history_.push_back(Kind::kSymbol);
  return OkStatus();
}

Result<GraphRecord::Value> GraphRecord::AddInput(std::string_view name, DType dtype,
                                                 std::string_view dims) {
  HY_TRY(CheckSizes(dims, /*are_dims=*/true));
  const std::string names[] = {std::string(name)};
  HY_TRY(CheckNewNames(names));
  const Value value = NewValue(names[0]);
  inputs_.push_back({names[0], dtype, std::string(dims), value});
  history_.push_back(Kind::kInput);
  return value;
}

Result<GraphRecord::Value> GraphRecord::AddConstant(
    std::string_view name, DType dtype, std::vector<int64_t> dims,
    std::shared_ptr<const graph::ByteSource> bytes) {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      return InvalidArgument("Constant '{}' has a dimension of {}; the least is 0.", name, dim);
    }
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return InvalidArgument("Constant '{}' of shape [{}] has more than 2^63 elements.", name,
                             Excerpt(dims));
    }
  }
  HY_ASSIGN(const int64_t size, StorageBytes(dtype, elements));
  if (size != bytes->size_bytes()) {
    return InvalidArgument("Constant '{}' has {}; its dtype and dims need {}.", name,
                           Counted(bytes->size_bytes(), "byte"), size);
  }
  const std::string names[] = {std::string(name)};
  HY_TRY(CheckNewNames(names));
  const Value value = NewValue(names[0]);
  Node node;
  node.op = "constant";
  node.name = name;
  node.results = {value};
  // One hash per dtype, dims and content, as the graph stores equal constants once.
  uint64_t hash = HashCombine(HashBytes(bytes->InMemory()), static_cast<uint64_t>(dtype));
  for (const int64_t dim : dims) hash = HashCombine(hash, static_cast<uint64_t>(dim));
  node.constant = fmt::format("{:016x}", hash);
  node.dtype = dtype;
  node.dims = std::move(dims);
  constant_bytes_.emplace(node.constant, std::move(bytes));
  nodes_.push_back(std::move(node));
  history_.push_back(Kind::kNode);
  return value;
}

Result<std::vector<GraphRecord::Value>> GraphRecord::AddOp(
    std::string_view op, std::string_view name, std::vector<Value> operands,
    std::vector<std::pair<std::string, Attribute>> attributes, size_t result_count) {
  const auto is_op_char = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  if (op.empty() || !std::all_of(op.begin(), op.end(), is_op_char)) {
    return InvalidArgument("The op is '{}'; letters, digits and '_' name one.", op);
  }
  if (op == "constant")
    return InvalidArgument("Nodes of op 'constant' are added by hy_graph_constant.");
  if (result_count == 0 || result_count > 1024) {
    return InvalidArgument("The node has {}; 1 to 1024 are possible.",
                           Counted(result_count, "result"));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != graph::kNone && operands[i] >= value_names_.size()) {
      return InvalidArgument("Operand {} is value {}; the graph has {}.", i, operands[i],
                             Counted(value_names_.size(), "value"));
    }
  }
  for (const auto& [key, attribute] : attributes) {
    if (const auto* exprs = std::get_if<Expressions>(&attribute))
      HY_TRY_CONTEXT(CheckSizes(exprs->text, /*are_dims=*/false), "reading attribute '{}'", key);
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    if (key.empty() || !std::all_of(key.begin(), key.end(), is_word)) {
      return InvalidArgument("An attribute is named '{}'; letters, digits and '_' name one.", key);
    }
  }
  std::string base(name.empty() ? op : name);
  while (name.empty() && names_.count(base) != 0)
    base = fmt::format("{}_{}", op, value_names_.size());
  std::vector<std::string> names = {base};
  for (size_t i = 1; i < result_count; ++i) names.push_back(fmt::format("{}.{}", base, i));
  HY_TRY(CheckNewNames(names));
  Node node;
  node.op = op;
  node.name = base;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  for (std::string& one : names) node.results.push_back(NewValue(std::move(one)));
  nodes_.push_back(node);
  history_.push_back(Kind::kNode);
  return std::move(node.results);
}

Status GraphRecord::AddOutput(std::string_view name, Value value) {
  if (value >= value_names_.size()) {
    return InvalidArgument("Output '{}' is value {}; the graph has {}.", name, value,
                           Counted(value_names_.size(), "value"));
  }
  if (name.empty()) return InvalidArgument("An output has no name.");
  for (const auto& [other, unused] : outputs_) {
    if (other == name) return InvalidArgument("Output '{}' exists already.", name);
  }
  outputs_.emplace_back(name, value);
  history_.push_back(Kind::kOutput);
  return OkStatus();
}

Status GraphRecord::Undo() {
  if (history_.empty()) return FailedPrecondition("The graph is empty; nothing can be taken back.");
  const Kind kind = history_.back();
  history_.pop_back();
  size_t values = 0;
  switch (kind) {
    case Kind::kSymbol:
      symbols_.pop_back();
      break;
    case Kind::kInput:
      inputs_.pop_back();
      values = 1;
      break;
    case Kind::kOutput:
      outputs_.pop_back();
      break;
    case Kind::kNode: {
      const Node node = std::move(nodes_.back());
      nodes_.pop_back();
      values = node.results.size();
      const bool is_shared = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& other) {
        return other.constant == node.constant;
      });
      if (!is_shared) constant_bytes_.erase(node.constant);
      break;
    }
  }
  for (; values > 0; --values) {
    names_.erase(value_names_.back());
    value_names_.pop_back();
  }
  return OkStatus();
}

Result<std::string> GraphRecord::ToText() const {
  if (outputs_.empty()) return InvalidArgument("The graph has no output; at least 1 is needed.");
  std::string out;
  for (const Symbol& symbol : symbols_) {
    out += fmt::format("symbol {} in [{}, {}] divisor {}\n", Quote(symbol.name), symbol.min,
                       symbol.max, symbol.multiple_of);
  }
  const auto value_name = [&](Value value) {
    return value == graph::kNone ? std::string("_") : "%" + Quote(value_names_[value]);
  };
  out += "graph main(";
  for (size_t i = 0; i < inputs_.size(); ++i) {
    out += fmt::format("{}{}: {}[{}]", i == 0 ? "" : ", ", value_name(inputs_[i].value),
                       FormatDType(inputs_[i].dtype), inputs_[i].dims);
  }
  out += ") -> (";
  for (size_t i = 0; i < outputs_.size(); ++i) {
    out += fmt::format("{}{} = {}", i == 0 ? "" : ", ", Quote(outputs_[i].first),
                       value_name(outputs_[i].second));
  }
  out += ") {\n";
  for (const Node& node : nodes_) {
    out += "  ";
    for (size_t i = 0; i < node.results.size(); ++i)
      out += (i == 0 ? "" : ", ") + value_name(node.results[i]);
    out += " = " + node.op;
    if (!node.constant.empty()) {
      out += fmt::format(" @{} {}[{}]#{} {}\n", Quote(node.name), FormatDType(node.dtype),
                         fmt::join(node.dims, ", "), node.constant, Quote(node.name));
      continue;
    }
    for (size_t i = 0; i < node.operands.size(); ++i) {
      out += (i == 0 ? " " : ", ") + value_name(node.operands[i]);
    }
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      out += fmt::format("{}{} = {}", i == 0 ? " {" : ", ", node.attributes[i].first,
                         FormatAttribute(node.attributes[i].second));
    }
    if (!node.attributes.empty()) out += "}";
    out += " " + Quote(node.name) + "\n";
  }
  return out + "}\n";
}

}  // namespace halyard::runtime
