// SPDX-License-Identifier: Apache-2.0
// Parse: reads the text form of a Program that Format writes.
#include <cctype>
#include <limits>
#include <type_traits>

#include "compiler/program/program.h"

namespace halyard::program {
namespace {

constexpr int kMaxNesting = 2048;  // the verifier allows 4096 parts

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Program> Run() {
    HY_TRY(Word("program"));
    HY_TRY(Text(p_.model_name));
    HY_TRY(Field("hash", p_.content_hash));
    while (!AtEnd()) {
      if (Accept("symbol"))
        HY_TRY(ParseSymbol());
      else if (Accept("device"))
        HY_TRY(ParseDevice());
      else if (Accept("constant"))
        HY_TRY(ParseConstant());
      else if (Accept("executable"))
        HY_TRY(ParseExecutable());
      else if (Accept("entry"))
        HY_TRY(ParseEntry());
      else if (Accept("record"))
        HY_TRY(ParseRecord());
      else
        return Failure("'symbol', 'device', 'constant', 'executable', 'entry' or 'record'");
    }
    HY_TRY(VerifyTables(p_));
    return std::move(p_);
  }

 private:
  // Tokens
  // -----------------------------------------------------------------------------------------
  void SkipSpace() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  Status Failure(std::string_view expected) {
    SkipSpace();
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_; ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else {
        ++column;
      }
    }
    const std::string_view found = text_.substr(at_, std::min<size_t>(text_.size() - at_, 20));
    return InvalidArgument("{}:{}: {} is expected here, not '{}'.", line, column, expected,
                           found.substr(0, found.find('\n')));
  }
  static bool IsWordChar(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  std::string_view PeekWord() {
    SkipSpace();
    size_t end = at_;
    while (end < text_.size() && IsWordChar(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool Accept(std::string_view word) {
    if (PeekWord() != word) return false;
    at_ += word.size();
    return true;
  }
  Status Word(std::string_view word) {
    return Accept(word) ? OkStatus() : Failure(fmt::format("'{}'", word));
  }
  bool AcceptChar(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Status Char(char c) { return AcceptChar(c) ? OkStatus() : Failure(fmt::format("'{}'", c)); }

  // Decimal or 0x numbers that fit the type.
  template <typename T>
  Status Number(T& out) {
    SkipSpace();
    const size_t start = at_;
    const bool is_negative = AcceptChar('-');
    unsigned base = 10;
    if (text_.substr(at_, 2) == "0x") {
      base = 16;
      at_ += 2;
    }
    uint64_t value = 0;
    size_t digits = 0;
    bool overflows = false;
    for (; at_ < text_.size(); ++at_, ++digits) {
      const char c = text_[at_];
      unsigned digit = 0;
      if (c >= '0' && c <= '9')
        digit = static_cast<unsigned>(c - '0');
      else if (base == 16 && c >= 'a' && c <= 'f')
        digit = static_cast<unsigned>(c - 'a') + 10;
      else
        break;
      overflows |= __builtin_mul_overflow(value, uint64_t{base}, &value);
      overflows |= __builtin_add_overflow(value, uint64_t{digit}, &value);
    }
    bool fits = digits > 0 && !overflows;
    if constexpr (std::is_signed_v<T>) {
      const uint64_t limit =
          static_cast<uint64_t>(std::numeric_limits<T>::max()) + (is_negative ? 1 : 0);
      fits = fits && value <= limit;
      if (fits) out = static_cast<T>(is_negative ? ~value + 1 : value);
    } else {
      fits = fits && !is_negative && value <= std::numeric_limits<T>::max();
      if (fits) out = static_cast<T>(value);
    }
    if (fits) return OkStatus();
    at_ = start;
    return Failure("a number in range");
  }
  template <typename T>
  Status Field(std::string_view word, T& out) {
    HY_TRY(Word(word));
    return Number(out);
  }
  Status Text(std::string& out) {
    out.clear();
    HY_TRY(Char('"'));
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ >= text_.size()) break;
        c = text_[at_++];
        if (c == 'n') {
          c = '\n';
        } else if (c == 'x') {
          unsigned value = 0;
          for (int i = 0; i < 2; ++i) {
            const char digit = at_ < text_.size() ? text_[at_++] : '?';
            if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) {
              return Failure("two hexadecimal digits");
            }
            value = value * 16 +
                    static_cast<unsigned>(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
          }
          c = static_cast<char>(value);
        }
      }
      out += c;
    }
    return Char('"');
  }
  Status TextField(std::string_view word, std::string& out) {
    HY_TRY(Word(word));
    return Text(out);
  }
  // '[' items ']' separated by commas.
  template <typename Item>
  Status List(Item&& item) {
    HY_TRY(Char('['));
    if (AcceptChar(']')) return OkStatus();
    do HY_TRY(item());
    while (AcceptChar(','));
    return Char(']');
  }
  Status Numbers(std::vector<uint32_t>& out) {
    return List([&] { return Number(out.emplace_back()); });
  }
  Status Exprs(std::vector<SizeExpr>& out) {
    return List([&] { return Expression(out.emplace_back()); });
  }

  // Expressions
  // ------------------------------------------------------------------------------------
  Status Expression(SizeExpr& out, int nesting = 0) {
    if (nesting > kMaxNesting)
      return Failure(fmt::format("an expression of at most {} levels", kMaxNesting));
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '"') {
      std::string name;
      HY_TRY(Text(name));
      for (size_t i = 0; i < p_.symbols.size(); ++i) {
        if (p_.symbols[i].name != name) continue;
        out.tokens.push_back({ExprOp::kSymbol, static_cast<int64_t>(i)});
        return OkStatus();
      }
      return Failure(fmt::format("a known symbol instead of '{}'", name));
    }
    if (AcceptChar('(')) {
      HY_TRY(Expression(out, nesting + 1));
      ExprOp op = ExprOp::kAdd;
      if (AcceptChar('*'))
        op = ExprOp::kMul;
      else
        HY_TRY(Char('+'));
      HY_TRY(Expression(out, nesting + 1));
      out.tokens.push_back({op});
      return Char(')');
    }
    static constexpr std::pair<std::string_view, ExprOp> kFunctions[] = {
        {"floordiv", ExprOp::kFloorDiv},
        {"mod", ExprOp::kMod},
        {"min", ExprOp::kMin},
        {"max", ExprOp::kMax}};
    for (const auto& [word, op] : kFunctions) {
      if (!Accept(word)) continue;
      HY_TRY(Char('('));
      HY_TRY(Expression(out, nesting + 1));
      HY_TRY(Char(','));
      HY_TRY(Expression(out, nesting + 1));
      out.tokens.push_back({op});
      return Char(')');
    }
    int64_t value = 0;
    HY_TRY(Number(value));
    out.tokens.push_back({ExprOp::kConst, value});
    return OkStatus();
  }

  // Structs
  // ----------------------------------------------------------------------------------------
  Status ParseSymbol() {
    Symbol& s = p_.symbols.emplace_back();
    HY_TRY(Text(s.name));
    HY_TRY(Field("min", s.min));
    HY_TRY(Field("max", s.max));
    return Field("divisor", s.divisor);
  }
  Status ParseGpu(GpuTarget& g) {
    HY_TRY(Word("gpu"));
    HY_TRY(Field("capability", g.compute_capability));
    HY_TRY(Field("features", g.features));
    HY_TRY(Field("subgroup", g.subgroup_size));
    HY_TRY(Field("workgroup", g.max_workgroup_size));
    HY_TRY(Field("workgroup_memory", g.workgroup_memory_bytes));
    HY_TRY(Word("max_grid"));
    for (int axis = 0; axis < 3; ++axis) {
      HY_TRY(Char(axis == 0 ? '[' : ','));
      HY_TRY(Number(g.max_grid[axis]));
    }
    HY_TRY(Char(']'));
    HY_TRY(Field("units", g.unit_count));
    if (Accept("loop_iterations")) HY_TRY(Number(g.max_loop_iterations));
    while (Accept("matrix")) {
      MatrixShape& shape = g.matrix_shapes.emplace_back();
      HY_TRY(DTypeWord(shape.input));
      HY_TRY(DTypeWord(shape.accumulator));
      HY_TRY(Field("m", shape.m));
      HY_TRY(Field("n", shape.n));
      HY_TRY(Field("k", shape.k));
    }
    return OkStatus();
  }
  Status ParseDevice() {
    Device& device = p_.devices.emplace_back();
    Target& t = device.target;
    HY_TRY(Text(device.name));
    HY_TRY(TextField("identity", device.identity));
    device.is_host = Accept("host");
    if (Accept("memory_cap")) HY_TRY(Number(device.memory_cap_bytes));
    HY_TRY(Char('{'));
    uint8_t kind = 0;
    HY_TRY(Field("kind", kind));
    if (kind > static_cast<uint8_t>(TargetKind::kVulkan)) return Failure("a target kind below 3");
    t.kind = static_cast<TargetKind>(kind);
    HY_TRY(TextField("name", t.name));
    HY_TRY(TextField("triple", t.triple));
    HY_TRY(TextField("cpu", t.cpu_name));
    HY_TRY(Field("features", t.cpu_features));
    HY_TRY(Field("vector_bytes", t.vector_bytes));
    HY_TRY(Field("vector_registers", t.vector_registers));
    HY_TRY(Field("workers", t.worker_count));
    HY_TRY(Field("l1", t.l1_bytes));
    HY_TRY(Field("l2", t.l2_bytes));
    HY_TRY(Field("l3", t.l3_bytes));
    if (t.kind != TargetKind::kCpu) HY_TRY(ParseGpu(t.gpu));
    HY_TRY(Field("alignment", t.buffer_alignment));
    HY_TRY(Field("max_buffer", t.max_buffer_bytes));
    return Char('}');
  }
  Status ParseConstant() {
    Constant& c = p_.constants.emplace_back();
    HY_TRY(Text(c.name));
    HY_TRY(Field("device", c.device));
    HY_TRY(Field("offset", c.offset));
    HY_TRY(Field("size", c.size_bytes));
    return Field("hash", c.hash);
  }
  Status ParseExecutable() {
    Executable& executable = p_.executables.emplace_back();
    HY_TRY(Field("device", executable.device));
    HY_TRY(TextField("format", executable.format));
    HY_TRY(Char('{'));
    while (Accept("kernel")) {
      KernelEntry& kernel = executable.entries.emplace_back();
      HY_TRY(Text(kernel.name));
      HY_TRY(Field("bindings", kernel.binding_count));
      HY_TRY(Field("scalars", kernel.scalar_count));
      HY_TRY(Word("sites"));
      HY_TRY(List([&] { return Text(kernel.sites.emplace_back()); }));
    }
    return Char('}');
  }
  Status ParseRecord() {
    Record& record = p_.records.emplace_back();
    HY_TRY(Text(record.kind));
    HY_TRY(Text(record.subject));
    return Text(record.text);
  }
  Status DTypeWord(DType& out) {
    auto dtype = ParseDType(PeekWord());
    if (!dtype.ok()) return Failure("a dtype");
    out = *dtype;
    at_ += PeekWord().size();
    return OkStatus();
  }
  Status Tensor(TensorDesc& tensor) {
    HY_TRY(Text(tensor.name));
    HY_TRY(DTypeWord(tensor.dtype));
    return Exprs(tensor.dims);
  }
  Status Port(TensorDesc& tensor) {
    HY_TRY(Tensor(tensor));
    return Accept("device") ? Number(tensor.device) : OkStatus();
  }
  Status Buffer(BufferRange& range) {
    static constexpr std::pair<std::string_view, StorageKind> kKinds[] = {
        {"input", StorageKind::kInput},
        {"output", StorageKind::kOutput},
        {"constant", StorageKind::kConstant},
        {"arena", StorageKind::kArena},
        {"state", StorageKind::kState}};
    HY_TRY(Text(range.name));
    HY_TRY(Word("in"));
    bool is_known = false;
    for (const auto& [word, kind] : kKinds) {
      if (is_known || !Accept(word)) continue;
      range.kind = kind;
      is_known = true;
    }
    if (!is_known) return Failure("'input', 'output', 'constant', 'arena' or 'state'");
    HY_TRY(Number(range.index));
    HY_TRY(Word("offset"));
    HY_TRY(Expression(range.offset));
    HY_TRY(Word("size"));
    return Expression(range.size);
  }
  Status ParseEntry() {
    Entry& entry = p_.entries.emplace_back();
    HY_TRY(Text(entry.name));
    HY_TRY(Char('{'));
    while (!AcceptChar('}')) {
      if (Accept("input")) {
        HY_TRY(Port(entry.inputs.emplace_back()));
      } else if (Accept("output")) {
        HY_TRY(Port(entry.outputs.emplace_back()));
      } else if (Accept("arena")) {
        Arena& arena = entry.arenas.emplace_back();
        HY_TRY(Field("device", arena.device));
        arena.holds_transfers = Accept("transfers");
        HY_TRY(Word("size"));
        HY_TRY(Expression(arena.size_bytes));
      } else if (Accept("buffer")) {
        HY_TRY(Buffer(entry.buffers.emplace_back()));
      } else if (Accept("guard")) {
        Guard& guard = entry.guards.emplace_back();
        HY_TRY(Expression(guard.expr));
        HY_TRY(TextField("text", guard.text));
      } else if (Accept("block")) {
        HY_TRY(ParseBlock(entry.blocks.emplace_back()));
      } else {
        return Failure("'input', 'output', 'arena', 'buffer', 'guard', 'block' or '}'");
      }
    }
    return OkStatus();
  }
  Status ParseBlock(Block& block) {
    HY_TRY(Field("device", block.device));
    HY_TRY(Field("queue", block.queue));
    HY_TRY(Word("waits"));
    HY_TRY(Numbers(block.waits));
    HY_TRY(Char('{'));
    while (!AcceptChar('}')) HY_TRY(ParseCommand(block.commands.emplace_back()));
    return OkStatus();
  }
  Status ParseCommand(Command& c) {
    if (Accept("dispatch"))
      c.kind = CommandKind::kDispatch;
    else if (Accept("copy"))
      c.kind = CommandKind::kCopy;
    else if (Accept("fill"))
      c.kind = CommandKind::kFill;
    else if (Accept("interpret"))
      c.kind = CommandKind::kInterpret;
    else if (Accept("transfer"))
      c.kind = CommandKind::kTransfer;
    else
      return Failure("'dispatch', 'copy', 'fill', 'interpret', 'transfer' or '}'");
    HY_TRY(Text(c.label));
    if (c.kind == CommandKind::kDispatch) {
      HY_TRY(Field("kernel", c.executable));
      HY_TRY(Number(c.entry));
    }
    HY_TRY(Word("bindings"));
    HY_TRY(Numbers(c.bindings));
    if (c.kind == CommandKind::kDispatch) {
      HY_TRY(Word("scalars"));
      HY_TRY(Exprs(c.scalars));
      HY_TRY(Word("grid"));
      std::vector<SizeExpr> grid;
      HY_TRY(Exprs(grid));
      if (grid.size() != 3) return Failure("a grid of 3 axes");
      for (size_t i = 0; i < 3; ++i) c.grid[i] = std::move(grid[i]);
    } else if (c.kind == CommandKind::kFill) {
      HY_TRY(Field("value", c.fill_value));
      HY_TRY(Field("bytes", c.fill_bytes));
    } else if (c.kind == CommandKind::kInterpret) {
      HY_TRY(Field("operands", c.interpret_operand_count));
      HY_TRY(TextField("text", c.interpret_text));
    }
    HY_TRY(Word("after"));
    HY_TRY(Numbers(c.after));
    if (c.kind != CommandKind::kInterpret) return OkStatus();
    HY_TRY(Char('{'));
    while (Accept("tensor")) HY_TRY(Tensor(c.interpret_tensors.emplace_back()));
    return Char('}');
  }

  std::string_view text_;
  size_t at_ = 0;
  Program p_;
};

}  // namespace

Result<Program> Parse(std::string_view text) {
  auto program = Parser(text).Run();
  if (!program.ok()) return program.status().WithContext("parsing a program");
  return program;
}

}  // namespace halyard::program
