// SPDX-License-Identifier: Apache-2.0
// Generation of random valid programs.
#include "random_program.h"

#include <random>

namespace halyard::program {
namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  Program Run() {
    p_.model_name = Name();
    p_.content_hash = random_();
    for (uint32_t i = Up(4); i > 0; --i) {
      const int64_t min = Up(100);
      p_.symbols.push_back({Unique(), min, min + Up(1000), 1 + Up(8)});
    }
    for (uint32_t i = 1 + Up(2); i > 0; --i) {
      Device& device = p_.devices.emplace_back();
      device.name = Unique();
      device.identity = Name();
      device.is_host = Up(2) == 0;
      device.memory_cap_bytes = Up(2) == 0 ? 0 : 1 + static_cast<int64_t>(Up(1000));
      device.target.cpu_name = Name();
      device.target.cpu_features = Up(512);
      device.target.worker_count = 1 + Up(64);
      device.target.kind = static_cast<TargetKind>(Up(3));
      if (device.target.kind != TargetKind::kCpu) {
        GpuTarget& gpu = device.target.gpu;
        gpu.compute_capability = Up(100);
        gpu.features = Up(1 << 14);
        gpu.subgroup_size = 4 << Up(4);
        gpu.max_workgroup_size = 1 + Up(1024);
        gpu.workgroup_memory_bytes = Up(1 << 18);
        for (int64_t& extent : gpu.max_grid) extent = 1 + Up(65535);
        gpu.unit_count = Up(200);
        if (Up(2) == 0) gpu.max_loop_iterations = Up(1 << 20);
        for (int i = Up(3); i > 0; --i) {
          gpu.matrix_shapes.push_back({DType::kF16, DType::kF32, 16, 8 << Up(2), 16});
        }
      }
    }
    uint64_t end = 0;
    for (uint32_t i = Up(5); i > 0; --i) {
      const uint64_t size = Up(300);
      p_.constants.push_back({Name(), random_(), Up(p_.devices.size()), size, end});
      end = (end + size + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    }
    p_.data.resize(end);
    for (uint8_t& byte : p_.data) byte = static_cast<uint8_t>(random_());
    for (uint32_t i = 1 + Up(3); i > 0; --i) {
      Executable& executable = p_.executables.emplace_back();
      executable.device = Up(p_.devices.size());
      executable.format = "cpu-image";
      executable.code.resize(1 + Up(400));
      for (uint8_t& byte : executable.code) byte = static_cast<uint8_t>(random_());
      for (uint32_t k = 1 + Up(3); k > 0; --k) {
        executable.entries.push_back({Unique(), Up(4), Up(4), {Name(), Name()}});
      }
    }
    for (uint32_t i = 1 + Up(2); i > 0; --i) AddEntry();
    for (uint32_t i = Up(4); i > 0; --i) p_.records.push_back({Name(), Name(), Name()});
    return std::move(p_);
  }

 private:
  uint32_t Up(size_t limit) { return limit == 0 ? 0 : static_cast<uint32_t>(random_() % limit); }
  std::string Name() {
    static const char* const kPieces[] = {"conv", "\"", "\\",   "\n", " ",
                                          "x_1",  "/",  "\x01", "é",  "n"};
    std::string name;
    for (uint32_t i = 1 + Up(4); i > 0; --i) name += kPieces[Up(10)];
    return name;
  }
  std::string Unique() { return Name() + std::to_string(next_++); }

  SizeExpr Expr(int depth = 0) {
    if (depth > 4 || Up(2) == 0) {
      if (!p_.symbols.empty() && Up(2) == 0) return {{{ExprOp::kSymbol, Up(p_.symbols.size())}}};
      return SizeExpr::Constant(static_cast<int64_t>(Up(2000)) - 1000);
    }
    SizeExpr a = Expr(depth + 1);
    const SizeExpr b = Expr(depth + 1);
    a.tokens.insert(a.tokens.end(), b.tokens.begin(), b.tokens.end());
    a.tokens.push_back({static_cast<ExprOp>(2 + Up(6))});
    return a;
  }
  TensorDesc Tensor() {
    TensorDesc tensor{Name(), static_cast<DType>(1 + Up(kDTypeCount - 1)), {}};
    for (uint32_t i = Up(4); i > 0; --i) tensor.dims.push_back(Expr());
    return tensor;
  }

  TensorDesc Port() {
    TensorDesc tensor = Tensor();
    tensor.device = Up(p_.devices.size());
    return tensor;
  }

  void AddEntry() {
    Entry entry;
    entry.name = Unique();
    for (uint32_t i = 1 + Up(3); i > 0; --i) entry.inputs.push_back(Port());
    for (uint32_t i = 1 + Up(3); i > 0; --i) entry.outputs.push_back(Port());
    // Each device has an arena, so that every command finds a buffer to write.
    for (uint32_t d = 0; d < p_.devices.size(); ++d) {
      entry.arenas.push_back({d, SizeExpr::Constant(4096), Up(2) == 0});
    }
    const SizeExpr zero = SizeExpr::Constant(0), few = SizeExpr::Constant(Up(64));
    for (uint32_t d = 0; d < p_.devices.size(); ++d) {
      entry.buffers.push_back({StorageKind::kArena, d, zero, few, Name()});
    }
    entry.buffers.push_back({StorageKind::kOutput, Up(entry.outputs.size()), zero, few, Name()});
    for (uint32_t i = 1 + Up(6); i > 0; --i) {
      BufferRange range{StorageKind::kArena, Up(entry.arenas.size()),
                        SizeExpr::Constant(Up(64) * 64), few, Name()};
      if (Up(3) == 0)
        range = {StorageKind::kInput, Up(entry.inputs.size()), Expr(), Expr(), Name()};
      if (Up(3) == 0 && !p_.constants.empty()) {
        range = {StorageKind::kConstant, Up(p_.constants.size()), zero, zero, Name()};
      }
      for (SizeExpr* e : {&range.offset, &range.size}) {
        if (e->AsConstant().value_or(0) < 0) *e = few;
      }
      entry.buffers.push_back(std::move(range));
    }
    const uint32_t blocks = 1 + Up(4);
    for (uint32_t i = 0; i < blocks; ++i) {
      Block& block = entry.blocks.emplace_back();
      const uint32_t commands = Up(5);
      const Executable& executable = p_.executables[Up(p_.executables.size())];
      block.device = executable.device;
      block.queue = Up(3);
      const bool brings = p_.devices.size() > 1 && Up(3) == 0;
      for (uint32_t c = 0; c < commands; ++c) {
        block.commands.push_back(brings ? MakeTransfer(entry, block.device)
                                        : MakeCommand(entry, executable));
        if (c > 0) block.commands.back().after.push_back(Up(c));
      }
      if (i > 0) block.waits.push_back(Up(i));
    }
    entry.guards.push_back({Expr(), Name()});
    p_.entries.push_back(std::move(entry));
  }

  // A buffer in the memory of `device`, or of any other one.
  uint32_t Buffer(const Entry& entry, uint32_t device, bool is_there = true) {
    while (true) {
      const uint32_t index = Up(entry.buffers.size());
      if ((p_.DeviceOf(entry, entry.buffers[index]) == device) == is_there) return index;
    }
  }
  Command MakeTransfer(const Entry& entry, uint32_t device) {
    Command c;
    c.label = Name();
    c.kind = CommandKind::kTransfer;
    c.bindings = {Buffer(entry, device, false), device};
    return c;
  }

  Command MakeCommand(const Entry& entry, const Executable& executable) {
    Command c;
    c.label = Name();
    c.kind = static_cast<CommandKind>(Up(4));
    const uint32_t device = executable.device;  // its own arena is buffer `device`
    const auto buffer = [&] { return Buffer(entry, device); };
    switch (c.kind) {
      case CommandKind::kDispatch: {
        c.executable = static_cast<uint32_t>(&executable - p_.executables.data());
        c.entry = Up(executable.entries.size());
        const KernelEntry& kernel = executable.entries[c.entry];
        for (uint32_t i = 0; i < kernel.binding_count; ++i) c.bindings.push_back(buffer());
        for (uint32_t i = 0; i < kernel.scalar_count; ++i) c.scalars.push_back(Expr());
        for (SizeExpr& axis : c.grid) axis = Expr();
        break;
      }
      case CommandKind::kCopy:
        c.bindings = {buffer(), device};
        break;
      case CommandKind::kFill:
        c.bindings = {device};
        c.fill_value = random_();
        c.fill_bytes = 1u << Up(4);
        break;
      case CommandKind::kInterpret:
        c.bindings = {buffer(), buffer(), device};
        c.interpret_operand_count = 2;
        c.interpret_text = Name();
        c.interpret_tensors = {Tensor(), Tensor(), Tensor()};
        break;
      case CommandKind::kTransfer:
        break;
    }
    return c;
  }

  std::mt19937 random_;
  Program p_;
  int next_ = 0;
};

}  // namespace

Program RandomProgram(uint32_t seed) { return Generator(seed).Run(); }

}  // namespace halyard::program
