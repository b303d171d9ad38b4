// SPDX-License-Identifier: Apache-2.0
// Format: the text form of a Program. Names are always quoted; expressions are infix with every
// binary operation in parentheses, so that the postfix order is kept.
#include <iterator>

#include "base/escape_controls.h"
#include "compiler/program/program.h"

namespace halyard::program {
namespace {

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return EscapeControls(out) + '"';
}

class Formatter {
 public:
  explicit Formatter(const Program& program) : program_(program) {}

  std::string Run() {
    Line(0, "program {} hash {:#x}", Quote(program_.model_name), program_.content_hash);
    for (const Symbol& s : program_.symbols) {
      Line(0, "symbol {} min {} max {} divisor {}", Quote(s.name), s.min, s.max, s.divisor);
    }
    for (const Device& device : program_.devices) PrintDevice(device);
    for (const Constant& c : program_.constants) {
      Line(0, "constant {} device {} offset {} size {} hash {:#x}", Quote(c.name), c.device,
           c.offset, c.size_bytes, c.hash);
    }
    for (const Executable& executable : program_.executables) {
      Line(0, "executable device {} format {} {{", executable.device, Quote(executable.format));
      for (const KernelEntry& k : executable.entries) {
        std::string sites;
        for (const std::string& site : k.sites) sites += (sites.empty() ? "" : ", ") + Quote(site);
        Line(1, "kernel {} bindings {} scalars {} sites [{}]", Quote(k.name), k.binding_count,
             k.scalar_count, sites);
      }
      Line(0, "}}");
    }
    for (const Entry& entry : program_.entries) PrintEntry(entry);
    for (const Record& r : program_.records) {
      Line(0, "record {} {} {}", Quote(r.kind), Quote(r.subject), Quote(r.text));
    }
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Line(int indent, fmt::format_string<Args...> format, Args&&... args) {
    out_.append(static_cast<size_t>(indent) * 2, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  // Text of the expression; of an ill-formed one what can be told.
  std::string Expr(const SizeExpr& expr) {
    std::vector<std::string> stack;
    for (const ExprToken& token : expr.tokens) {
      if (token.op == ExprOp::kConst) {
        stack.push_back(fmt::format("{}", token.value));
        continue;
      }
      if (token.op == ExprOp::kSymbol) {
        const auto index = static_cast<uint64_t>(token.value);
        stack.push_back(index < program_.symbols.size() ? Quote(program_.symbols[index].name)
                                                        : fmt::format("symbol#{}", index));
        continue;
      }
      if (stack.size() < 2) return "<ill-formed>";
      const std::string b = std::move(stack.back());
      stack.pop_back();
      std::string& a = stack.back();
      switch (token.op) {
        case ExprOp::kAdd:
          a = fmt::format("({} + {})", a, b);
          break;
        case ExprOp::kMul:
          a = fmt::format("({} * {})", a, b);
          break;
        case ExprOp::kFloorDiv:
          a = fmt::format("floordiv({}, {})", a, b);
          break;
        case ExprOp::kMod:
          a = fmt::format("mod({}, {})", a, b);
          break;
        case ExprOp::kMin:
          a = fmt::format("min({}, {})", a, b);
          break;
        default:
          a = fmt::format("max({}, {})", a, b);
          break;
      }
    }
    return stack.size() == 1 ? stack[0] : "<ill-formed>";
  }

  std::string Exprs(const std::vector<SizeExpr>& exprs) {
    std::string out = "[";
    for (const SizeExpr& expr : exprs) out += (out.size() > 1 ? ", " : "") + Expr(expr);
    return out + "]";
  }

  static std::string Numbers(const std::vector<uint32_t>& numbers) {
    return fmt::format("[{}]", fmt::join(numbers, ", "));
  }

  std::string Tensor(const TensorDesc& tensor) {
    return fmt::format("{} {} {}", Quote(tensor.name), FormatDType(tensor.dtype),
                       Exprs(tensor.dims));
  }

  std::string Port(const TensorDesc& tensor) {
    return tensor.device == 0 ? Tensor(tensor)
                              : fmt::format("{} device {}", Tensor(tensor), tensor.device);
  }

  void PrintGpu(const GpuTarget& g) {
    Line(1, "gpu capability {} features {:#x} subgroup {} workgroup {} workgroup_memory {}",
         g.compute_capability, g.features, g.subgroup_size, g.max_workgroup_size,
         g.workgroup_memory_bytes);
    Line(1, "max_grid [{}, {}, {}] units {}{}", g.max_grid[0], g.max_grid[1], g.max_grid[2],
         g.unit_count,
         g.max_loop_iterations == INT64_MAX
             ? ""
             : fmt::format(" loop_iterations {}", g.max_loop_iterations));
    for (const MatrixShape& shape : g.matrix_shapes) {
      Line(1, "matrix {} {} m {} n {} k {}", FormatDType(shape.input),
           FormatDType(shape.accumulator), shape.m, shape.n, shape.k);
    }
  }

  void PrintDevice(const Device& device) {
    const Target& t = device.target;
    Line(
        0, "device {} identity {}{}{} {{", Quote(device.name), Quote(device.identity),
        device.is_host ? " host" : "",
        device.memory_cap_bytes == 0 ? "" : fmt::format(" memory_cap {}", device.memory_cap_bytes));
    Line(1, "kind {} name {} triple {} cpu {} features {:#x}", static_cast<int>(t.kind),
         Quote(t.name), Quote(t.triple), Quote(t.cpu_name), t.cpu_features);
    Line(1, "vector_bytes {} vector_registers {} workers {} l1 {} l2 {} l3 {}", t.vector_bytes,
         t.vector_registers, t.worker_count, t.l1_bytes, t.l2_bytes, t.l3_bytes);
    if (t.kind != TargetKind::kCpu) PrintGpu(t.gpu);
    Line(1, "alignment {} max_buffer {}", t.buffer_alignment, t.max_buffer_bytes);
    Line(0, "}}");
  }

  static std::string_view StorageName(StorageKind kind) {
    switch (kind) {
      case StorageKind::kInput:
        return "input";
      case StorageKind::kOutput:
        return "output";
      case StorageKind::kConstant:
        return "constant";
      case StorageKind::kArena:
        return "arena";
      case StorageKind::kState:
        return "state";
    }
    return "unknown";
  }

  void PrintEntry(const Entry& entry) {
    Line(0, "entry {} {{", Quote(entry.name));
    for (const TensorDesc& input : entry.inputs) Line(1, "input {}", Port(input));
    for (const TensorDesc& output : entry.outputs) Line(1, "output {}", Port(output));
    for (const Arena& arena : entry.arenas) {
      Line(1, "arena device {}{} size {}", arena.device, arena.holds_transfers ? " transfers" : "",
           Expr(arena.size_bytes));
    }
    for (const BufferRange& range : entry.buffers) {
      Line(1, "buffer {} in {} {} offset {} size {}", Quote(range.name), StorageName(range.kind),
           range.index, Expr(range.offset), Expr(range.size));
    }
    for (const Guard& guard : entry.guards) {
      Line(1, "guard {} text {}", Expr(guard.expr), Quote(guard.text));
    }
    for (const Block& block : entry.blocks) {
      Line(1, "block device {} queue {} waits {} {{", block.device, block.queue,
           Numbers(block.waits));
      for (const Command& command : block.commands) PrintCommand(command);
      Line(1, "}}");
    }
    Line(0, "}}");
  }

  void PrintCommand(const Command& c) {
    const std::string label = Quote(c.label), bindings = Numbers(c.bindings),
                      after = Numbers(c.after);
    switch (c.kind) {
      case CommandKind::kDispatch:
        Line(2, "dispatch {} kernel {} {} bindings {} scalars {} grid [{}, {}, {}] after {}", label,
             c.executable, c.entry, bindings, Exprs(c.scalars), Expr(c.grid[0]), Expr(c.grid[1]),
             Expr(c.grid[2]), after);
        break;
      case CommandKind::kCopy:
      case CommandKind::kTransfer:
        Line(2, "{} {} bindings {} after {}", c.kind == CommandKind::kCopy ? "copy" : "transfer",
             label, bindings, after);
        break;
      case CommandKind::kFill:
        Line(2, "fill {} bindings {} value {:#x} bytes {} after {}", label, bindings, c.fill_value,
             c.fill_bytes, after);
        break;
      case CommandKind::kInterpret: {
        Line(2, "interpret {} bindings {} operands {} text {} after {} {{", label, bindings,
             c.interpret_operand_count, Quote(c.interpret_text), after);
        for (const TensorDesc& tensor : c.interpret_tensors) Line(3, "tensor {}", Tensor(tensor));
        Line(2, "}}");
        break;
      }
    }
  }

  const Program& program_;
  std::string out_;
};

}  // namespace

std::string Format(const Program& program) { return Formatter(program).Run(); }

std::string FormatExpr(const Program& program, const SizeExpr& expr) {
  struct Piece {
    std::string text;
    bool is_sum = false;
  };
  std::vector<Piece> stack;
  for (const ExprToken& token : expr.tokens) {
    if (token.op == ExprOp::kConst) {
      stack.push_back({fmt::format("{}", token.value)});
      continue;
    }
    if (token.op == ExprOp::kSymbol) {
      const auto index = static_cast<uint64_t>(token.value);
      stack.push_back({index < program.symbols.size() ? program.symbols[index].name
                                                      : fmt::format("symbol#{}", index)});
      continue;
    }
    if (stack.size() < 2) return "<ill-formed>";
    const Piece b = std::move(stack.back());
    stack.pop_back();
    Piece& a = stack.back();
    const auto factor = [](const Piece& piece) {
      return piece.is_sum ? fmt::format("({})", piece.text) : piece.text;
    };
    const auto call = [&](std::string_view name) {
      return Piece{fmt::format("{}({}, {})", name, a.text, b.text)};
    };
    switch (token.op) {
      case ExprOp::kAdd:
        a = {b.text.starts_with('-') && !b.is_sum ? fmt::format("{} - {}", a.text, b.text.substr(1))
                                                  : fmt::format("{} + {}", a.text, b.text),
             true};
        break;
      case ExprOp::kMul:
        a = {fmt::format("{}*{}", factor(a), factor(b))};
        break;
      case ExprOp::kFloorDiv:
        a = call("floordiv");
        break;
      case ExprOp::kMod:
        a = call("mod");
        break;
      case ExprOp::kMin:
        a = call("min");
        break;
      default:
        a = call("max");
        break;
    }
  }
  return stack.size() == 1 ? stack[0].text : "<ill-formed>";
}

}  // namespace halyard::program
