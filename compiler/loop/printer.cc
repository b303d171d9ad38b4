// SPDX-License-Identifier: Apache-2.0
// Prints Loop IR; the inverse of parser.cc.
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "compiler/kernel/opcode.h"
#include "compiler/loop/text.h"

namespace halyard::loop {

namespace {

std::string Quote(std::string_view text, char quote) {
  std::string out(1, quote);
  for (char c : text) {
    if (c == quote || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string Name(std::string_view name) {
  bool is_plain = !name.empty() && !(name[0] >= '0' && name[0] <= '9');
  for (char c : name) {
    is_plain &= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '.';
  }
  return is_plain ? std::string(name) : Quote(name, '`');
}

class Printer {
 public:
  explicit Printer(const Function& function) : function_(function) {}

  std::string Run(uint32_t only) {
    if (only != kNone) {
      KernelText(only, 0);
      return out_;
    }
    out_ += "function {\n";
    Symbols();
    for (const Buffer& buffer : function_.buffers) {
      if (buffer.role != BufferRole::kLocal) BufferText("buffer", buffer, 1);
    }
    for (uint32_t k = 0; k < function_.kernels.size(); ++k) KernelText(k, 1);
    out_ += "}\n";
    return out_;
  }

 private:
  const ExprArena& exprs() const { return *function_.exprs; }
  void Indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  void Symbols() {
    std::set<std::pair<std::string, Expr>> dims;
    auto collect = [&](Expr e) {
      if (!e.valid()) return;
      for (Expr symbol : exprs().SymbolsOf(e)) {
        if (exprs().SymbolKindOf(symbol) == SymbolKind::kDim) {
          dims.emplace(exprs().SymbolName(symbol), symbol);
        }
      }
    };
    for (const Buffer& buffer : function_.buffers) collect(buffer.elements);
    for (const Kernel& kernel : function_.kernels) {
      for (const Op& op : kernel.ops) {
        collect(op.extent);
        collect(op.index);
      }
    }
    for (const auto& [name, symbol] : dims) {
      ExprRange range = exprs().RangeOf(symbol);
      out_ += fmt::format("  symbol {} in [{}, {}]", exprs().Format(symbol), range.lo, range.hi);
      int64_t divisor = exprs().SymbolDivisor(symbol);
      out_ += divisor == 1 ? "\n" : fmt::format(" divisor {}\n", divisor);
    }
  }

  void BufferText(std::string_view keyword, const Buffer& buffer, int depth) {
    Indent(depth);
    out_ += fmt::format("{} {}: {}[{}]", keyword, Name(buffer.name), FormatDType(buffer.dtype),
                        exprs().Format(buffer.elements));
    if (buffer.role != BufferRole::kLocal)
      out_ += fmt::format(" {}", FormatBufferRole(buffer.role));
    if (buffer.constant != graph::kNone) out_ += fmt::format(" {}", buffer.constant);
    if (!buffer.packing.empty()) out_ += " packing " + Quote(buffer.packing, '"');
    out_ += '\n';
  }

  std::string ValueName(ValueId value) {
    auto it = numbers_.find(value);
    return it == numbers_.end() ? fmt::format("%?{}", value) : fmt::format("%{}", it->second);
  }
  void Define(ValueId value) { numbers_.emplace(value, static_cast<uint32_t>(numbers_.size())); }

  // Values are numbered in text order; a loop's results stand before its body.
  void Number(const Kernel& kernel, BlockId block) {
    for (OpId id : kernel.blocks[block].ops) {
      const Op& op = kernel.ops[id];
      for (ValueId v : op.results) Define(v);
      if (op.kind == OpKind::kLoop) {
        for (ValueId v : kernel.blocks[op.body].parameters) Define(v);
        Number(kernel, op.body);
      }
    }
  }

  void KernelText(uint32_t index, int depth) {
    const Kernel& kernel = function_.kernels[index];
    numbers_.clear();
    Number(kernel, 0);
    Indent(depth);
    out_ += "kernel " + Name(kernel.name);
    if (!kernel.nodes.empty()) {
      out_ += " nodes(";
      for (size_t i = 0; i < kernel.nodes.size(); ++i) {
        out_ += (i == 0 ? "" : ", ") + Quote(kernel.nodes[i], '"');
      }
      out_ += ')';
    }
    if (kernel.ordered_reductions) out_ += " ordered";
    if (kernel.template_kind != TemplateKind::kNone) {
      out_ += fmt::format(" {}(", FormatTemplateKind(kernel.template_kind));
      std::string_view separator;
      auto roles = [&](std::string_view name, const std::vector<Expr>& symbols) {
        if (symbols.empty()) return;
        out_ += fmt::format("{}{}: ", separator, name);
        for (size_t i = 0; i < symbols.size(); ++i) {
          out_ += (i == 0 ? "" : ", ") + exprs().Format(symbols[i]);
        }
        separator = "; ";
      };
      roles("batch", kernel.roles.batch);
      roles("m", kernel.roles.m);
      roles("n", kernel.roles.n);
      roles("k", kernel.roles.k);
      if (kernel.roles.product_a != kNone) {
        out_ += fmt::format("{}product: {}, {}", separator, ValueName(kernel.roles.product_a),
                            ValueName(kernel.roles.product_b));
        separator = "; ";
      }
      if (kernel.roles.accumulator != kNone) {
        out_ += fmt::format("{}sum: {}", separator, ValueName(kernel.roles.accumulator));
      }
      out_ += ')';
    }
    out_ += " {\n";
    for (const Buffer& buffer : function_.buffers) {
      if (buffer.role == BufferRole::kLocal && buffer.kernel == index) {
        BufferText("local", buffer, depth + 1);
      }
    }
    for (const kernel::ReportSite& site : kernel.sites) {
      Indent(depth + 1);
      out_ += fmt::format("site {} {}\n", Quote(site.node, '"'), Quote(site.what, '"'));
    }
    BlockText(kernel, 0, depth + 1);
    Indent(depth);
    out_ += "}\n";
  }

  void BlockText(const Kernel& kernel, BlockId block, int depth) {
    for (OpId id : kernel.blocks[block].ops) OpText(kernel, kernel.ops[id], depth);
  }

  std::string Operands(const Op& op) {
    std::string text;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      text += (i == 0 ? " " : ", ") + ValueName(op.operands[i]);
    }
    return text;
  }

  std::string Access(const Op& op) {
    return fmt::format("{}[{}]", Name(function_.buffers[op.buffer].name), exprs().Format(op.index));
  }

  static std::string Immediate(const Op& op) {
    if (!IsFloat(op.dtype)) return fmt::format("{}", op.immediate);
    auto value = std::bit_cast<double>(op.immediate);
    if (std::isnan(value)) return "nan";
    return fmt::format("{}", value);
  }

  void OpText(const Kernel& kernel, const Op& op, int depth) {
    Indent(depth);
    for (size_t i = 0; i < op.results.size(); ++i) {
      out_ += (i == 0 ? "" : ", ") + ValueName(op.results[i]);
    }
    if (!op.results.empty()) out_ += " = ";
    switch (op.kind) {
      case OpKind::kScalar:
        out_ += kernel::FormatOpcode(op.opcode);
        if (op.opcode == kernel::Opcode::kConvert || op.opcode == kernel::Opcode::kBitcast) {
          out_ += fmt::format(".{}", FormatDType(op.dtype));
        }
        out_ += Operands(op);
        break;
      case OpKind::kConst:
        out_ += fmt::format("const.{} {}", FormatDType(op.dtype), Immediate(op));
        break;
      case OpKind::kIndex:
        out_ += fmt::format("index.{} [{}]", FormatDType(op.dtype), exprs().Format(op.index));
        break;
      case OpKind::kLoad:
        out_ += "load " + Access(op);
        if (op.operands.size() == 2) {
          out_ +=
              fmt::format(" mask {} else {}", ValueName(op.operands[0]), ValueName(op.operands[1]));
        }
        break;
      case OpKind::kStore:
      case OpKind::kScatter:
        out_ += op.kind == OpKind::kStore
                    ? std::string("store ")
                    : fmt::format("scatter {} ", FormatReduceKind(op.reduces[0]));
        out_ += fmt::format("{}, {}", Access(op), ValueName(op.operands[0]));
        if (op.operands.size() == 2) out_ += fmt::format(" mask {}", ValueName(op.operands[1]));
        break;
      case OpKind::kIndirect:
        out_ += fmt::format("{} {} = {} < {} site {}", op.immediate == 0 ? "indirect" : "within",
                            exprs().Format(op.symbol), ValueName(op.operands[0]),
                            exprs().Format(op.extent), op.site);
        break;
      case OpKind::kYield:
        out_ += "yield" + Operands(op);
        break;
      case OpKind::kLoop:
        Loop(kernel, op, depth);
        return;
    }
    out_ += '\n';
  }

  void Loop(const Kernel& kernel, const Op& op, int depth) {
    switch (op.loop) {
      case LoopKind::kParallel:
        out_ += "parallel";
        break;
      case LoopKind::kSequential:
        out_ += "sequential";
        break;
      case LoopKind::kReduce:
        out_ += "reduce";
        for (size_t i = 0; i < op.reduces.size(); ++i) {
          out_ += fmt::format("{} {}", i == 0 ? "" : ",", FormatReduceKind(op.reduces[i]));
        }
        break;
    }
    out_ += fmt::format(" {} < {}", exprs().Format(op.symbol), exprs().Format(op.extent));
    if (op.loop == LoopKind::kSequential && !op.operands.empty()) {
      out_ += " carry (";
      for (size_t i = 0; i < op.operands.size(); ++i) {
        out_ +=
            fmt::format("{}{} = {}", i == 0 ? "" : ", ",
                        ValueName(kernel.blocks[op.body].parameters[i]), ValueName(op.operands[i]));
      }
      out_ += ')';
    }
    out_ += " {\n";
    BlockText(kernel, op.body, depth + 1);
    Indent(depth);
    out_ += "}\n";
  }

  const Function& function_;
  std::string out_;
  std::map<ValueId, uint32_t> numbers_;
};

}  // namespace

std::string PrintFunction(const Function& function) { return Printer(function).Run(kNone); }

std::string PrintKernel(const Function& function, uint32_t kernel) {
  return Printer(function).Run(kernel);
}

}  // namespace halyard::loop
