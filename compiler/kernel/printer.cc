// SPDX-License-Identifier: Apache-2.0
// Writes Kernel IR as text. Prints whatever it is given, also what the verifier would refuse.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <iterator>

#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"

namespace halyard::kernel {
namespace {

std::string_view SpaceName(MemorySpace space) {
  switch (space) {
    case MemorySpace::kGlobal:
      return "global";
    case MemorySpace::kWorkgroup:
      return "workgroup";
    case MemorySpace::kPrivate:
      return "private";
  }
  return "global";
}

std::string_view AccessName(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "readwrite";
  }
  return "read";
}

bool IsIdentifier(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  for (char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  }
  return true;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), numbers_(kernel.values.size(), kNone) {}

  std::string Run() {
    Line("kernel {} workgroup({}, {}, {}){}{} {{", kernel_.name, kernel_.workgroup_size[0],
         kernel_.workgroup_size[1], kernel_.workgroup_size[2],
         kernel_.subgroup_size ? fmt::format(" subgroup({})", kernel_.subgroup_size) : "",
         kernel_.begins_early ? "" : " late");
    ++depth_;
    for (const Buffer& b : kernel_.buffers) {
      Line("buffer {} {} {} {}{}{}", IsIdentifier(b.name) ? b.name : Quote(b.name),
           FormatDType(b.dtype), SpaceName(b.space), AccessName(b.access),
           b.elements >= 0 ? fmt::format(" [{}]", b.elements) : "", b.no_alias ? "" : " may_alias");
    }
    for (const std::string& s : kernel_.scalars) Line("scalar {}", IsIdentifier(s) ? s : Quote(s));
    for (const ReportSite& s : kernel_.sites) Line("site {} {}", Quote(s.node), Quote(s.what));
    if (!kernel_.blocks.empty()) PrintBlock(0);
    --depth_;
    Line("}}");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    out_.append(2 * static_cast<size_t>(depth_), ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  std::string Define(ValueId value) {
    if (value >= numbers_.size()) return "%?";
    if (numbers_[value] == kNone) numbers_[value] = next_++;
    return fmt::format("%{}", numbers_[value]);
  }

  std::string Use(ValueId value) const {
    if (value >= numbers_.size() || numbers_[value] == kNone) return "%?";
    return fmt::format("%{}", numbers_[value]);
  }

  std::string UseList(const std::vector<ValueId>& values, size_t from = 0) const {
    std::string out;
    for (size_t i = from; i < values.size(); ++i) {
      if (i > from) out += ", ";
      out += Use(values[i]);
    }
    return out;
  }

  std::string BufferName(BufferId id) const {
    if (id >= kernel_.buffers.size()) return "@?";
    const std::string& name = kernel_.buffers[id].name;
    if (!IsIdentifier(name)) return fmt::format("@{}", id);
    for (BufferId other = 0; other < kernel_.buffers.size(); ++other) {
      if (other != id && kernel_.buffers[other].name == name) return fmt::format("@{}", id);
    }
    return "@" + name;
  }

  static std::string ConstantText(const Op& op) {
    const int64_t bits = op.immediates.empty() ? 0 : op.immediates[0];
    if (!IsFloat(op.type.dtype)) return fmt::format("{}", bits);
    const double value = std::bit_cast<double>(bits);
    if (std::isnan(value)) return fmt::format("bits {}", bits);
    return fmt::format("{}", value);
  }

  void PrintBlock(BlockId id) {
    if (id >= kernel_.blocks.size()) return;
    for (OpId op : kernel_.blocks[id].ops) PrintOp(kernel_.ops[op]);
  }

  void PrintFor(const Op& op, const std::string& results) {
    const std::vector<ValueId>& parameters = kernel_.blocks[op.blocks[0]].parameters;
    std::string carry;
    for (size_t i = 1; i < parameters.size() && i + 2 < op.operands.size(); ++i) {
      if (i > 1) carry += ", ";
      const std::string init = Use(op.operands[i + 2]);
      carry += fmt::format("{} {} = {}", FormatType(kernel_.values[parameters[i]].type), Reserve(i),
                           init);
    }
    const std::string iv = Define(parameters[0]);
    for (size_t i = 1; i < parameters.size(); ++i) Define(parameters[i]);
    Line("{}for {} {} = {} to {} step {} carry({}) unroll {} {{", results,
         FormatType(kernel_.values[parameters[0]].type), iv, Use(op.operands[0]),
         Use(op.operands[1]), Use(op.operands[2]), carry, op.immediates[0]);
    ++depth_;
    PrintBlock(op.blocks[0]);
    --depth_;
    Line("}}");
  }

  // The number that parameter i of the loop about to be defined will get: the induction variable
  // comes first in the line.
  std::string Reserve(size_t i) const { return fmt::format("%{}", next_ + i); }

  void PrintIf(const Op& op, const std::string& results) {
    std::string types;
    for (size_t i = 0; i < op.results.size(); ++i) {
      types += (i ? ", " : "") + FormatType(kernel_.values[op.results[i]].type);
    }
    Line("{}if ({}) {} {{", results, types, Use(op.operands[0]));
    ++depth_;
    PrintBlock(op.blocks[0]);
    --depth_;
    Line("}} else {{");
    ++depth_;
    PrintBlock(op.blocks[1]);
    --depth_;
    Line("}}");
  }

  void PrintOp(const Op& op) {
    std::string results;
    // Operands are read before the results are numbered, so that a use before its definition shows.
    const std::string operands = UseList(op.operands);
    for (size_t i = 0; i < op.results.size(); ++i) {
      results += (i ? ", " : "") + Define(op.results[i]);
    }
    if (!results.empty()) results += " = ";
    if (op.opcode == Opcode::kFor && op.blocks.size() == 1 && op.operands.size() >= 3) {
      return PrintFor(op, results);
    }
    if (op.opcode == Opcode::kIf && op.blocks.size() == 2 && op.operands.size() == 1) {
      return PrintIf(op, results);
    }
    std::string text = std::string(FormatOpcode(op.opcode));
    if (op.type.lanes != 0) text += " " + FormatType(op.type);
    std::string arguments;
    if (op.opcode == Opcode::kConst) {
      arguments = ConstantText(op);
    } else {
      if (op.buffer != kNone) arguments = BufferName(op.buffer);
      if (!operands.empty()) arguments += (arguments.empty() ? "" : ", ") + operands;
      const size_t own = TakesAlign(op.opcode)
                             ? std::min<size_t>(op.immediates.size(),
                                                static_cast<size_t>(InfoOf(op.opcode).immediates))
                             : op.immediates.size();
      if (own > 0) {
        if (!arguments.empty()) arguments += " ";
        const std::vector<int64_t> listed(op.immediates.begin(),
                                          op.immediates.begin() + static_cast<ptrdiff_t>(own));
        arguments += fmt::format("[{}]", fmt::join(listed, ", "));
      }
      if (AlignOf(op) != 1) arguments += fmt::format(" align={}", AlignOf(op));
    }
    if (!arguments.empty()) text += " " + arguments;
    Line("{}{}", results, text);
  }

  const Kernel& kernel_;
  std::vector<uint32_t> numbers_;
  uint32_t next_ = 0;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string FormatKernel(const Kernel& kernel) { return Printer(kernel).Run(); }

std::string FormatModule(const Module& module) {
  std::string out;
  for (const Kernel& kernel : module.kernels) {
    if (!out.empty()) out += "\n";
    out += FormatKernel(kernel);
  }
  return out;
}

}  // namespace halyard::kernel
