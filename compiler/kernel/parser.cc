// SPDX-License-Identifier: Apache-2.0
// Reads the text form of Kernel IR. Line-based: every construct of the form opens and ends on a
// line.
#include <bit>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"

namespace halyard::kernel {
namespace {

constexpr int kMaxDepth = 64;  // nesting of loops and ifs; the parser recurses

// A cursor over one line. Failed expectations are remembered; the caller asks once at the end.
class LineReader {
 public:
  LineReader(std::string_view line, int number) : rest_(line), number_(number) { Skip(); }

  bool AtEnd() const { return rest_.empty(); }
  bool Take(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    Skip();
    return true;
  }
  Status Expect(std::string_view token) {
    if (Take(token)) return OkStatus();
    return Error(fmt::format("expected '{}' before '{}'", token, rest_));
  }
  // Letters, digits, '_', '.', '-', '+' (so numbers too).
  std::string_view Word() {
    size_t n = 0;
    while (n < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_' ||
            rest_[n] == '.' || rest_[n] == '-' || rest_[n] == '+')) {
      ++n;
    }
    const std::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    Skip();
    return word;
  }
  Result<std::string> Name() {
    if (rest_.substr(0, 1) != "\"") {
      const std::string_view word = Word();
      if (word.empty()) return Error(fmt::format("expected a name before '{}'", rest_));
      return std::string(word);
    }
    std::string out;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        Skip();
        return out;
      }
      if (rest_[i] == '\\' && i + 1 < rest_.size()) {
        ++i;
        out += rest_[i] == 'n' ? '\n' : rest_[i];
      } else {
        out += rest_[i];
      }
    }
    return Error("a quoted name has no end");
  }
  template <typename Number>
  Result<Number> ReadNumber() {
    const std::string_view word = Word();
    Number value{};
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) {
      return Error(fmt::format("'{}' is not a number", word));
    }
    return value;
  }
  Status Error(std::string_view what) const {
    return InvalidArgument("Kernel IR text, line {}: {}.", number_, what);
  }
  Status ExpectEnd() const {
    if (AtEnd()) return OkStatus();
    return Error(fmt::format("unexpected '{}'", rest_));
  }
  std::string_view rest() const { return rest_; }

 private:
  void Skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  std::string_view rest_;
  int number_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Module> Run() {
    Module module;
    while (Next()) {
      LineReader line = Line();
      HY_TRY(line.Expect("kernel"));
      kernel_ = Kernel();
      values_.clear();
      HY_ASSIGN(kernel_.name, line.Name());
      HY_TRY(line.Expect("workgroup("));
      for (int axis = 0; axis < 3; ++axis) {
        if (axis) HY_TRY(line.Expect(","));
        HY_ASSIGN(kernel_.workgroup_size[axis], line.ReadNumber<int64_t>());
      }
      HY_TRY(line.Expect(")"));
      if (line.Take("subgroup(")) {
        HY_ASSIGN(kernel_.subgroup_size, line.ReadNumber<int32_t>());
        HY_TRY(line.Expect(")"));
      }
      kernel_.begins_early = !line.Take("late");
      HY_TRY(line.Expect("{"));
      HY_TRY(line.ExpectEnd());
      kernel_.blocks.emplace_back();
      HY_ASSIGN(const std::string_view end, ParseBlock(0, 0));
      if (end != "}") return Line().Error("expected '}'");
      module.kernels.push_back(std::move(kernel_));
    }
    return module;
  }

 private:
  // Moves to the next line that is neither empty nor a comment.
  bool Next() {
    while (!text_.empty()) {
      const size_t end = text_.find('\n');
      line_ = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++number_;
      while (!line_.empty() && std::isspace(static_cast<unsigned char>(line_.front())))
        line_.remove_prefix(1);
      while (!line_.empty() && std::isspace(static_cast<unsigned char>(line_.back())))
        line_.remove_suffix(1);
      if (!line_.empty() && line_.substr(0, 2) != "//") return true;
    }
    line_ = {};
    return false;
  }
  LineReader Line() const { return LineReader(line_, number_); }

  // Parses ops until a line that closes the block; returns that line.
  Result<std::string_view> ParseBlock(BlockId block, int depth) {
    if (depth > kMaxDepth)
      return Line().Error(fmt::format("blocks nest deeper than {}", kMaxDepth));
    while (Next()) {
      if (line_[0] == '}') return line_;
      HY_TRY(ParseLine(block, depth));
    }
    return Line().Error("the text ends inside a block");
  }

  Status ParseLine(BlockId block, int depth) {
    LineReader line = Line();
    if (depth == 0) {
      if (line.Take("buffer ")) return ParseBuffer(line);
      if (line_.substr(0, 7) == "scalar " && line_.find('=') == std::string_view::npos) {
        line.Take("scalar ");
        HY_ASSIGN(std::string name, line.Name());
        kernel_.scalars.push_back(std::move(name));
        return line.ExpectEnd();
      }
      if (line.Take("site ")) {
        ReportSite site;
        HY_ASSIGN(site.node, line.Name());
        HY_ASSIGN(site.what, line.Name());
        kernel_.sites.push_back(std::move(site));
        return line.ExpectEnd();
      }
    }
    return ParseOp(line, block, depth);
  }

  Status ParseBuffer(LineReader& line) {
    Buffer buffer;
    HY_ASSIGN(buffer.name, line.Name());
    HY_ASSIGN(buffer.dtype, ParseDType(line.Word()));
    if (line.Take("global")) {
      buffer.space = MemorySpace::kGlobal;
    } else if (line.Take("workgroup")) {
      buffer.space = MemorySpace::kWorkgroup;
    } else {
      HY_TRY(line.Expect("private"));
      buffer.space = MemorySpace::kPrivate;
    }
    if (line.Take("readwrite")) {
      buffer.access = Access::kReadWrite;
    } else if (line.Take("read")) {
      buffer.access = Access::kRead;
    } else {
      HY_TRY(line.Expect("write"));
      buffer.access = Access::kWrite;
    }
    if (line.Take("[")) {
      HY_ASSIGN(buffer.elements, line.ReadNumber<int64_t>());
      HY_TRY(line.Expect("]"));
    }
    if (line.Take("may_alias")) buffer.no_alias = false;
    kernel_.buffers.push_back(std::move(buffer));
    return line.ExpectEnd();
  }

  Result<ValueId> ParseUse(LineReader& line) {
    HY_TRY(line.Expect("%"));
    HY_ASSIGN(const uint32_t number, line.ReadNumber<uint32_t>());
    const auto found = values_.find(number);
    if (found == values_.end()) {
      return line.Error(fmt::format("value %{} is used before it is defined", number));
    }
    return found->second;
  }

  Result<uint32_t> ParseNewNumber(LineReader& line) {
    HY_TRY(line.Expect("%"));
    HY_ASSIGN(const uint32_t number, line.ReadNumber<uint32_t>());
    if (values_.count(number)) return line.Error(fmt::format("value %{} is defined twice", number));
    return number;
  }

  ValueId Define(uint32_t number, Type type, OpId producer) {
    kernel_.values.push_back({type, producer});
    const ValueId id = static_cast<ValueId>(kernel_.values.size() - 1);
    values_[number] = id;
    return id;
  }

  Result<BufferId> ParseBufferUse(LineReader& line) {
    const std::string_view name = line.Word();
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0]))) {
      BufferId id = 0;
      const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
      if (parsed.ec == std::errc() && id < kernel_.buffers.size()) return id;
    }
    for (BufferId id = 0; id < kernel_.buffers.size(); ++id) {
      if (kernel_.buffers[id].name == name) return id;
    }
    return line.Error(fmt::format("'@{}' names no buffer", name));
  }

  Status ParseOp(LineReader& line, BlockId block, int depth) {
    std::vector<uint32_t> results;
    if (line.rest().substr(0, 1) == "%") {
      do {
        HY_ASSIGN(const uint32_t number, ParseNewNumber(line));
        results.push_back(number);
      } while (line.Take(","));
      HY_TRY(line.Expect("="));
    }
    const std::string_view name = line.Word();
    Result<Opcode> opcode = ParseOpcode(name);
    if (!opcode.ok()) return line.Error(fmt::format("'{}' is not a Kernel IR op", name));
    const OpId id = static_cast<OpId>(kernel_.ops.size());
    kernel_.ops.push_back(Op{*opcode, Type{}, kNone, {}, {}, {}, {}});
    kernel_.blocks[block].ops.push_back(id);
    if (*opcode == Opcode::kFor) return ParseFor(line, id, results, depth);
    if (*opcode == Opcode::kIf) return ParseIf(line, id, results, depth);
    return ParsePlain(line, id, results);
  }

  Status ParsePlain(LineReader& line, OpId id, const std::vector<uint32_t>& results) {
    Op op = kernel_.ops[id];
    if (results.size() > 1) return line.Error("only for and if have more than one result");
    if (results.size() == 1) {
      Result<Type> type = ParseType(line.Word());
      if (!type.ok()) return line.Error(type.status().message());
      op.type = *type;
    }
    if (op.opcode == Opcode::kConst) {
      if (line.Take("bits ")) {
        HY_ASSIGN(const int64_t bits, line.ReadNumber<int64_t>());
        op.immediates = {bits};
      } else if (IsFloat(op.type.dtype)) {
        HY_ASSIGN(const double value, line.ReadNumber<double>());
        op.immediates = {std::bit_cast<int64_t>(value)};
      } else {
        HY_ASSIGN(const int64_t value, line.ReadNumber<int64_t>());
        op.immediates = {value};
      }
    } else {
      if (line.Take("@")) {
        HY_ASSIGN(op.buffer, ParseBufferUse(line));
        line.Take(",");
      }
      if (line.rest().substr(0, 1) == "%") {
        do {
          HY_ASSIGN(const ValueId value, ParseUse(line));
          op.operands.push_back(value);
        } while (line.Take(","));
      }
      if (line.Take("[")) {
        do {
          HY_ASSIGN(const int64_t value, line.ReadNumber<int64_t>());
          op.immediates.push_back(value);
        } while (line.Take(","));
        HY_TRY(line.Expect("]"));
      }
      if (TakesAlign(op.opcode) && line.Take("align=")) {
        HY_ASSIGN(const int64_t align, line.ReadNumber<int64_t>());
        op.immediates.push_back(align);
      }
    }
    HY_TRY(line.ExpectEnd());
    if (results.size() == 1) op.results = {Define(results[0], op.type, id)};
    kernel_.ops[id] = std::move(op);
    return OkStatus();
  }

  Status ParseFor(LineReader& line, OpId id, const std::vector<uint32_t>& results, int depth) {
    const auto read_type = [&line]() -> Result<Type> {
      Result<Type> type = ParseType(line.Word());
      if (!type.ok()) return line.Error(type.status().message());
      return type;
    };
    Op op = kernel_.ops[id];
    HY_ASSIGN(const Type iv_type, read_type());
    HY_ASSIGN(const uint32_t iv, ParseNewNumber(line));
    HY_TRY(line.Expect("="));
    HY_ASSIGN(const ValueId lo, ParseUse(line));
    HY_TRY(line.Expect("to"));
    HY_ASSIGN(const ValueId hi, ParseUse(line));
    HY_TRY(line.Expect("step"));
    HY_ASSIGN(const ValueId step, ParseUse(line));
    op.operands = {lo, hi, step};
    HY_TRY(line.Expect("carry("));
    std::vector<std::pair<uint32_t, Type>> carried;
    while (!line.Take(")")) {
      if (!carried.empty()) HY_TRY(line.Expect(","));
      HY_ASSIGN(const Type type, read_type());
      HY_ASSIGN(const uint32_t number, ParseNewNumber(line));
      HY_TRY(line.Expect("="));
      HY_ASSIGN(const ValueId init, ParseUse(line));
      carried.emplace_back(number, type);
      op.operands.push_back(init);
    }
    HY_TRY(line.Expect("unroll"));
    HY_ASSIGN(const int64_t unroll, line.ReadNumber<int64_t>());
    op.immediates = {unroll};
    HY_TRY(line.Expect("{"));
    HY_TRY(line.ExpectEnd());
    if (results.size() != carried.size()) {
      return line.Error(fmt::format("a for that carries {} values has {} results", carried.size(),
                                    results.size()));
    }
    for (size_t i = 0; i < carried.size(); ++i) {
      op.results.push_back(Define(results[i], carried[i].second, id));
    }
    if (!carried.empty()) op.type = carried[0].second;
    const BlockId body = static_cast<BlockId>(kernel_.blocks.size());
    kernel_.blocks.emplace_back();
    op.blocks = {body};
    kernel_.ops[id] = op;
    std::vector<ValueId> parameters = {Define(iv, iv_type, kNone)};
    for (const auto& [number, type] : carried) parameters.push_back(Define(number, type, kNone));
    kernel_.blocks[body].parameters = std::move(parameters);
    HY_ASSIGN(const std::string_view end, ParseBlock(body, depth + 1));
    if (end != "}") return Line().Error("expected '}'");
    return OkStatus();
  }

  Status ParseIf(LineReader& line, OpId id, const std::vector<uint32_t>& results, int depth) {
    Op op = kernel_.ops[id];
    HY_TRY(line.Expect("("));
    std::vector<Type> types;
    while (!line.Take(")")) {
      if (!types.empty()) HY_TRY(line.Expect(","));
      Result<Type> type = ParseType(line.Word());
      if (!type.ok()) return line.Error(type.status().message());
      types.push_back(*type);
    }
    HY_ASSIGN(const ValueId condition, ParseUse(line));
    op.operands = {condition};
    HY_TRY(line.Expect("{"));
    HY_TRY(line.ExpectEnd());
    if (types.size() != results.size()) {
      return line.Error(
          fmt::format("an if of {} types has {} results", types.size(), results.size()));
    }
    for (size_t i = 0; i < types.size(); ++i)
      op.results.push_back(Define(results[i], types[i], id));
    if (!types.empty()) op.type = types[0];
    op.blocks = {static_cast<BlockId>(kernel_.blocks.size()),
                 static_cast<BlockId>(kernel_.blocks.size() + 1)};
    kernel_.blocks.resize(kernel_.blocks.size() + 2);
    kernel_.ops[id] = op;
    HY_ASSIGN(const std::string_view middle, ParseBlock(op.blocks[0], depth + 1));
    if (middle != "} else {") return Line().Error("expected '} else {'");
    HY_ASSIGN(const std::string_view end, ParseBlock(op.blocks[1], depth + 1));
    if (end != "}") return Line().Error("expected '}'");
    return OkStatus();
  }

  std::string_view text_;
  std::string_view line_;
  int number_ = 0;
  Kernel kernel_;
  std::map<uint32_t, ValueId> values_;
};

}  // namespace

Result<Module> ParseModule(std::string_view text) { return Parser(text).Run(); }

}  // namespace halyard::kernel
