// SPDX-License-Identifier: Apache-2.0
// Reads the text form of Loop IR (text.h); the inverse of printer.cc.
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>

#include "compiler/kernel/opcode.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/text.h"

namespace halyard::loop {

namespace {

constexpr int kMaxNesting = 64;

class Parser {
 public:
  Parser(std::string_view text, ExprArena& exprs) : text_(text) { function_.exprs = &exprs; }

  Result<Function> Run() {
    HY_TRY(Expect("function"));
    HY_TRY(Expect("{"));
    while (Take("symbol")) HY_TRY(Symbol());
    while (Take("buffer")) HY_TRY(BufferLine(BufferRole::kTemp));
    while (Take("kernel")) HY_TRY(KernelText());
    HY_TRY(Expect("}"));
    Skip();
    if (at_ != text_.size()) return Error("the end of the text");
    return std::move(function_);
  }

 private:
  Status Error(std::string_view wanted) {
    Skip();
    int line = 1;
    for (size_t i = 0; i < at_; ++i) line += text_[i] == '\n';
    size_t end = std::min(text_.find('\n', at_), at_ + 40);
    return InvalidArgument("Line {} of the loop IR text needs {}, not '{}'.", line, wanted,
                           text_.substr(at_, end - at_));
  }

  static bool IsWordChar(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
  }
  void Skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  bool Peek(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    bool is_word = IsWordChar(token.back());
    return !is_word || at_ + token.size() >= text_.size() || !IsWordChar(text_[at_ + token.size()]);
  }
  bool Take(std::string_view token) {
    if (!Peek(token)) return false;
    at_ += token.size();
    return true;
  }
  Status Expect(std::string_view token) {
    if (Take(token)) return OkStatus();
    return Error(fmt::format("'{}'", token));
  }
  Result<std::string> Quoted(char quote) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != quote) return Error("a quoted text");
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        c = text_[++at_];
        if (c == 'n') c = '\n';
      }
      out += c;
    }
    if (at_ >= text_.size()) return Error("a closing quote");
    ++at_;
    return out;
  }
  Result<std::string> Word() {
    Skip();
    if (at_ < text_.size() && text_[at_] == '`') return Quoted('`');
    size_t start = at_;
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
    if (at_ == start) return Error("a name");
    return std::string(text_.substr(start, at_ - start));
  }
  template <typename Integer>
  Result<Integer> Number() {
    Skip();
    Integer value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return Error("an integer that fits");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  // The text up to one of `ends` outside brackets and backquotes.
  Result<Expr> Expression(std::string_view ends, std::string_view word = {}) {
    Skip();
    size_t start = at_;
    int open = 0;
    bool is_quoted = false;
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\\' && is_quoted) {
        ++at_;
        continue;
      }
      if (c == '`') is_quoted = !is_quoted;
      if (is_quoted) continue;
      if (open == 0 && (ends.find(c) != std::string_view::npos || c == '\n')) break;
      if (!word.empty() && c == ' ' && text_.substr(at_ + 1, word.size()) == word) break;
      if (c == '(' || c == '[') ++open;
      if (c == ')' || c == ']') --open;
    }
    auto resolve = [&](std::string_view name) -> std::optional<Expr> {
      for (auto scope = loops_.rbegin(); scope != loops_.rend(); ++scope) {
        if (scope->first == name) return scope->second;
      }
      return std::nullopt;
    };
    Result<Expr> e =
        function_.exprs->Parse(text_.substr(start, std::min(at_, text_.size()) - start), resolve);
    if (!e.ok()) {
      at_ = start;
      return Error(fmt::format("an expression ({})", e.status().message()));
    }
    return e;
  }
  Result<DType> Dtype() {
    HY_ASSIGN(std::string word, Word());
    return ParseDType(word);
  }

  Status Symbol() {
    HY_ASSIGN(std::string name, Word());
    HY_TRY(Expect("in"));
    HY_TRY(Expect("["));
    HY_ASSIGN(int64_t lo, Number<int64_t>());
    HY_TRY(Expect(","));
    HY_ASSIGN(int64_t hi, Number<int64_t>());
    HY_TRY(Expect("]"));
    int64_t divisor = 1;
    if (Take("divisor")) {
      HY_ASSIGN(divisor, Number<int64_t>());
    }
    if (lo > hi || divisor < 1) return Error("a range with lo <= hi and a divisor of at least 1");
    function_.exprs->Constrain(function_.exprs->Dim(name), {lo, hi}, divisor);
    return OkStatus();
  }

  Status BufferLine(BufferRole role) {
    Buffer buffer;
    buffer.role = role;
    HY_ASSIGN(buffer.name, Word());
    HY_TRY(Expect(":"));
    HY_ASSIGN(buffer.dtype, Dtype());
    HY_TRY(Expect("["));
    HY_ASSIGN(buffer.elements, Expression("]"));
    HY_TRY(Expect("]"));
    if (role == BufferRole::kLocal) {
      buffer.kernel = static_cast<uint32_t>(function_.kernels.size());
    } else {
      HY_ASSIGN(std::string word, Word());
      HY_ASSIGN(buffer.role, ParseBufferRole(word));
      if (buffer.role == BufferRole::kLocal) return Error("a role other than local");
      Skip();
      if (buffer.role == BufferRole::kConstant && at_ < text_.size() &&
          std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        HY_ASSIGN(buffer.constant, Number<uint32_t>());
      }
    }
    if (Take("packing")) {
      HY_ASSIGN(buffer.packing, Quoted('"'));
    }
    auto id = static_cast<BufferId>(function_.buffers.size());
    auto& names = role == BufferRole::kLocal ? locals_ : buffers_;
    if (!names.emplace(buffer.name, id).second) {
      return InvalidArgument("Two buffers have the name '{}'.", buffer.name);
    }
    function_.buffers.push_back(std::move(buffer));
    return OkStatus();
  }

  Result<BufferId> BufferName() {
    HY_ASSIGN(std::string name, Word());
    if (auto it = locals_.find(name); it != locals_.end()) return it->second;
    if (auto it = buffers_.find(name); it != buffers_.end()) return it->second;
    return InvalidArgument("No buffer has the name '{}'.", name);
  }

  struct Template {
    TemplateKind kind = TemplateKind::kNone;
    std::vector<std::pair<std::string, std::vector<std::string>>> roles;
  };

  Status KernelText() {
    kernel_ = Kernel();
    values_.clear();
    loops_.clear();
    locals_.clear();
    all_loops_.clear();
    HY_ASSIGN(kernel_.name, Word());
    Template shape;
    while (!Take("{")) {
      if (Take("nodes")) {
        HY_TRY(Expect("("));
        do {
          HY_ASSIGN(std::string node, Quoted('"'));
          kernel_.nodes.push_back(std::move(node));
        } while (Take(","));
        HY_TRY(Expect(")"));
      } else if (Take("ordered")) {
        kernel_.ordered_reductions = true;
      } else {
        HY_ASSIGN(std::string word, Word());
        HY_ASSIGN(shape.kind, ParseTemplateKind(word));
        HY_TRY(Expect("("));
        while (!Take(")")) {
          HY_ASSIGN(std::string role, Word());
          HY_TRY(Expect(":"));
          std::vector<std::string> names;
          do {
            std::string prefix = Take("%") ? "%" : "";
            HY_ASSIGN(std::string name, Word());
            names.push_back(prefix + name);
          } while (Take(","));
          shape.roles.emplace_back(std::move(role), std::move(names));
          Take(";");
        }
      }
    }
    while (Take("local")) HY_TRY(BufferLine(BufferRole::kLocal));
    while (Take("site")) {
      kernel::ReportSite site;
      HY_ASSIGN(site.node, Quoted('"'));
      HY_ASSIGN(site.what, Quoted('"'));
      kernel_.sites.push_back(std::move(site));
    }
    kernel_.blocks.emplace_back();
    HY_TRY(Statements(0, 0));
    HY_TRY(Roles(shape));
    function_.kernels.push_back(std::move(kernel_));
    return OkStatus();
  }

  Status Roles(const Template& shape) {
    kernel_.template_kind = shape.kind;
    for (const auto& [role, names] : shape.roles) {
      if (role == "product" || role == "sum") {
        std::vector<ValueId> values;
        for (const std::string& name : names) {
          auto it = values_.find(name);
          if (it == values_.end()) return InvalidArgument("The kernel has no value '{}'.", name);
          values.push_back(it->second);
        }
        if (values.size() != (role == "sum" ? 1u : 2u)) {
          return InvalidArgument("The role '{}' has {} values.", role, values.size());
        }
        if (role == "sum") {
          kernel_.roles.accumulator = values[0];
        } else {
          kernel_.roles.product_a = values[0];
          kernel_.roles.product_b = values[1];
        }
        continue;
      }
      std::vector<Expr>* symbols = role == "batch" ? &kernel_.roles.batch
                                   : role == "m"   ? &kernel_.roles.m
                                   : role == "n"   ? &kernel_.roles.n
                                   : role == "k"   ? &kernel_.roles.k
                                                   : nullptr;
      if (symbols == nullptr) return InvalidArgument("'{}' is not a role of a template.", role);
      for (const std::string& name : names) {
        auto it = all_loops_.find(name);
        if (it == all_loops_.end()) return InvalidArgument("The kernel has no loop '{}'.", name);
        symbols->push_back(it->second);
      }
    }
    return OkStatus();
  }

  Result<ValueId> Operand() {
    HY_TRY(Expect("%"));
    HY_ASSIGN(std::string name, Word());
    auto it = values_.find("%" + name);
    if (it == values_.end()) return Error(fmt::format("a value defined before (%{} is not)", name));
    return it->second;
  }

  Status Operands(Op& op) {
    if (!Peek("%")) return OkStatus();
    do {
      HY_ASSIGN(ValueId value, Operand());
      op.operands.push_back(value);
    } while (Take(","));
    return OkStatus();
  }

  Status Statements(BlockId block, int depth) {
    if (depth > kMaxNesting) return Error(fmt::format("at most {} nested loops", kMaxNesting));
    while (!Take("}")) {
      Skip();
      if (at_ >= text_.size()) return Error("'}'");
      HY_TRY(Statement(block, depth));
    }
    return OkStatus();
  }

  DType TypeOf(ValueId value) const { return kernel_.values[value].dtype; }

  Status Access(Op& op) {
    HY_ASSIGN(op.buffer, BufferName());
    HY_TRY(Expect("["));
    HY_ASSIGN(op.index, Expression("]"));
    return Expect("]");
  }

  Status Statement(BlockId block, int depth) {
    std::vector<std::string> names;
    if (Peek("%")) {
      do {
        HY_TRY(Expect("%"));
        HY_ASSIGN(std::string name, Word());
        names.push_back("%" + name);
      } while (Take(","));
      HY_TRY(Expect("="));
    }
    Op op;
    HY_ASSIGN(std::string word, Word());
    std::string suffix;
    if (size_t dot = word.find('.'); dot != std::string::npos) {
      suffix = word.substr(dot + 1);
      word = word.substr(0, dot);
    }
    std::vector<DType> results;
    if (word == "const") {
      op.kind = OpKind::kConst;
      HY_ASSIGN(op.dtype, ParseDType(suffix));
      HY_TRY(Immediate(op));
      results = {op.dtype};
    } else if (word == "index") {
      op.kind = OpKind::kIndex;
      HY_ASSIGN(op.dtype, ParseDType(suffix));
      HY_TRY(Expect("["));
      HY_ASSIGN(op.index, Expression("]"));
      HY_TRY(Expect("]"));
      results = {op.dtype};
    } else if (word == "load") {
      op.kind = OpKind::kLoad;
      HY_TRY(Access(op));
      if (Take("mask")) {
        HY_ASSIGN(ValueId mask, Operand());
        HY_TRY(Expect("else"));
        HY_ASSIGN(ValueId other, Operand());
        op.operands = {mask, other};
      }
      results = {function_.buffers[op.buffer].dtype};
    } else if (word == "store" || word == "scatter") {
      op.kind = word == "store" ? OpKind::kStore : OpKind::kScatter;
      if (word == "scatter") {
        HY_ASSIGN(std::string name, Word());
        HY_ASSIGN(ReduceKind reduce, ParseReduceKind(name));
        op.reduces = {reduce};
      }
      HY_TRY(Access(op));
      HY_TRY(Expect(","));
      HY_ASSIGN(ValueId value, Operand());
      op.operands = {value};
      if (Take("mask")) {
        HY_ASSIGN(ValueId mask, Operand());
        op.operands.push_back(mask);
      }
    } else if (word == "indirect" || word == "within") {
      op.kind = OpKind::kIndirect;
      op.immediate = word == "within" ? 1 : 0;
      HY_ASSIGN(std::string name, Word());
      HY_TRY(Expect("="));
      HY_ASSIGN(ValueId value, Operand());
      op.operands = {value};
      HY_TRY(Expect("<"));
      HY_ASSIGN(op.extent, Expression("", "site "));
      HY_TRY(Expect("site"));
      HY_ASSIGN(op.site, Number<uint32_t>());
      op.symbol = function_.exprs->Loop(name, op.extent);
      loops_.emplace_back(name, op.symbol);
    } else if (word == "yield") {
      op.kind = OpKind::kYield;
      HY_TRY(Operands(op));
    } else if (word == "parallel" || word == "reduce" || word == "sequential") {
      return Loop(block, depth, word, names);
    } else {
      HY_ASSIGN(op.opcode, kernel::ParseOpcode(word));
      HY_TRY(Operands(op));
      bool is_conversion =
          op.opcode == kernel::Opcode::kConvert || op.opcode == kernel::Opcode::kBitcast;
      const kernel::OpcodeInfo& info = kernel::InfoOf(op.opcode);
      auto count = static_cast<int>(op.operands.size());
      if (count == 0 || count < info.min_operands ||
          (info.max_operands >= 0 && count > info.max_operands)) {
        return Error(fmt::format("{} operands for '{}' before this, {} given", info.min_operands,
                                 word, count));
      }
      if (is_conversion) {
        HY_ASSIGN(op.dtype, ParseDType(suffix));
      } else {
        std::vector<DType> dtypes;
        for (ValueId v : op.operands) dtypes.push_back(TypeOf(v));
        op.dtype = ScalarResultType(op.opcode, dtypes);
      }
      results = {op.dtype};
    }
    if (names.size() != results.size()) {
      return Error(fmt::format("{} results for '{}' before this, {} given", results.size(), word,
                               names.size()));
    }
    OpId id = Add(block, std::move(op));
    for (size_t i = 0; i < names.size(); ++i) HY_TRY(Define(names[i], results[i], id));
    return OkStatus();
  }

  OpId Add(BlockId block, Op op) {
    auto id = static_cast<OpId>(kernel_.ops.size());
    kernel_.ops.push_back(std::move(op));
    kernel_.blocks[block].ops.push_back(id);
    return id;
  }

  Status Define(const std::string& name, DType dtype, OpId producer) {
    kernel_.values.push_back({dtype, producer});
    auto value = static_cast<ValueId>(kernel_.values.size() - 1);
    if (!values_.emplace(name, value).second) {
      return Error(fmt::format("another name before this ({} is defined twice)", name));
    }
    if (producer != kNone) {
      if (kernel_.ops[producer].results.empty()) kernel_.ops[producer].dtype = dtype;
      kernel_.ops[producer].results.push_back(value);
    }
    return OkStatus();
  }

  Status Immediate(Op& op) {
    Skip();
    if (!IsFloat(op.dtype)) {
      HY_ASSIGN(op.immediate, Number<int64_t>());
      return OkStatus();
    }
    size_t start = at_;
    while (at_ < text_.size() && (IsWordChar(text_[at_]) || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    std::string number(text_.substr(start, at_ - start));
    char* end = nullptr;
    double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0') {
      at_ = start;
      return Error("a number");
    }
    op.immediate = std::bit_cast<int64_t>(value);
    return OkStatus();
  }

  Status Loop(BlockId block, int depth, std::string_view word,
              const std::vector<std::string>& names) {
    Op op;
    op.kind = OpKind::kLoop;
    op.loop = word == "parallel" ? LoopKind::kParallel
              : word == "reduce" ? LoopKind::kReduce
                                 : LoopKind::kSequential;
    if (op.loop == LoopKind::kReduce) {
      do {
        HY_ASSIGN(std::string name, Word());
        HY_ASSIGN(ReduceKind reduce, ParseReduceKind(name));
        op.reduces.push_back(reduce);
      } while (Take(","));
    }
    HY_ASSIGN(std::string variable, Word());
    HY_TRY(Expect("<"));
    HY_ASSIGN(op.extent, Expression("{", "carry "));
    op.symbol = function_.exprs->Loop(variable, op.extent);
    std::vector<std::string> parameters;
    if (op.loop == LoopKind::kSequential && Take("carry")) {
      HY_TRY(Expect("("));
      do {
        HY_TRY(Expect("%"));
        HY_ASSIGN(std::string name, Word());
        parameters.push_back("%" + name);
        HY_TRY(Expect("="));
        HY_ASSIGN(ValueId value, Operand());
        op.operands.push_back(value);
      } while (Take(","));
      HY_TRY(Expect(")"));
    }
    HY_TRY(Expect("{"));
    size_t expected = op.loop == LoopKind::kReduce       ? op.reduces.size()
                      : op.loop == LoopKind::kSequential ? op.operands.size()
                                                         : 0;
    if (names.size() != expected) {
      return Error(fmt::format("{} results for this loop, {} given", expected, names.size()));
    }
    op.body = static_cast<BlockId>(kernel_.blocks.size());
    kernel_.blocks.emplace_back();
    BlockId body = op.body;
    Expr symbol = op.symbol;
    OpId id = Add(block, std::move(op));
    // The body sees the parameters, and the results only afterwards; but the numbering puts results
    // first.
    size_t scope = loops_.size();
    loops_.emplace_back(variable, symbol);
    all_loops_.insert_or_assign(variable, symbol);
    for (size_t i = 0; i < parameters.size(); ++i) {
      HY_TRY(Define(parameters[i], TypeOf(kernel_.ops[id].operands[i]), kNone));
      kernel_.blocks[body].parameters.push_back(static_cast<ValueId>(kernel_.values.size() - 1));
    }
    HY_TRY(Statements(body, depth + 1));
    loops_.resize(scope);
    if (names.empty()) return OkStatus();
    const std::vector<OpId>& ops = kernel_.blocks[body].ops;
    if (ops.empty() || kernel_.ops[ops.back()].kind != OpKind::kYield)
      return Error("a yield before '}'");
    const std::vector<ValueId> yields = kernel_.ops[ops.back()].operands;
    size_t next = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<ReduceKind>& reduces = kernel_.ops[id].reduces;
      bool is_arg = !reduces.empty() &&
                    (reduces[i] == ReduceKind::kArgMax || reduces[i] == ReduceKind::kArgMin);
      next += is_arg ? 2 : 1;
      if (next > yields.size()) return Error("more yielded values before this");
      HY_TRY(Define(names[i], TypeOf(yields[next - 1]), id));
    }
    return OkStatus();
  }

  std::string_view text_;
  size_t at_ = 0;
  Function function_;
  Kernel kernel_;
  std::map<std::string, BufferId> buffers_, locals_;
  std::map<std::string, ValueId> values_;
  std::vector<std::pair<std::string, Expr>> loops_;  // in scope
  std::map<std::string, Expr> all_loops_;            // of the kernel, for roles
};

}  // namespace

Result<Function> ParseFunction(std::string_view text, ExprArena& exprs) {
  return Parser(text, exprs).Run();
}

}  // namespace halyard::loop
